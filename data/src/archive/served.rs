//! Which variables of the files serve as the channels.

use super::Archive;
use super::read::{ChannelOrigin, Derivation};
use super::scan::FieldSource;
use crate::Variable;
use crate::channel_source::{ChannelSource, ChannelSources, How};
use std::collections::BTreeSet;

impl ChannelOrigin<'_> {
    /// The origin without its place.
    fn source(self) -> ChannelSource {
        let named = |source: &FieldSource| Some(source.name.clone());
        match self {
            Self::Direct(_, source) => ChannelSource {
                variable: named(source),
                how: match &source.proxy {
                    Some(difference) => How::StandIn(difference.to_string()),
                    None => How::Read,
                },
            },
            Self::Computed(derivation) => ChannelSource {
                variable: match derivation {
                    Derivation::ColumnWater(_, levels) => named(&levels.source),
                    Derivation::Dewpoint(_, source) => named(source),
                    Derivation::LowestLevel => None,
                },
                how: How::Computed,
            },
        }
    }
}

impl Archive {
    /// What serves as each of these channels at the times with these indices; a channel that none of them has is
    /// absent.
    ///
    /// Z1000 counts as read even where it is completed below the ground: only reading shows where that is.
    pub fn sources(
        &self,
        indices: impl IntoIterator<Item = usize>,
        channels: &[Variable],
    ) -> ChannelSources {
        let mut sources = ChannelSources::new();
        // Times from files with the same layouts have the same sources.
        let mut known: BTreeSet<Vec<usize>> = BTreeSet::new();
        for index in indices {
            let layouts = self.places[index].iter();
            let layouts = layouts.map(|place| self.files[place.file].1).collect();
            if !known.insert(layouts) {
                continue;
            }
            for &channel in channels {
                if let Some(origin) = self.how(index, channel) {
                    sources.entry(channel).or_default().insert(origin.source());
                }
            }
        }
        sources
    }
}
