//! What served as the channels: which variable of the files, and how.

use crate::Variable;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem::discriminant;

/// What served as each channel: several sources if files of different times differ. A channel whose source is not
/// known is absent.
pub type ChannelSources = BTreeMap<Variable, BTreeSet<ChannelSource>>;

/// What served as a channel at some times.
///
/// # Example
/// ```
/// use squall_data::channel_source::{ChannelSource, How};
/// let wind = ChannelSource { variable: Some("u10".into()), how: How::StandIn("10 m wind".into()) };
/// assert_eq!(wind.to_string(), "`u10` (10 m wind)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChannelSource {
    /// Its name in the files; `None` for a channel that was computed from other channels alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// How it gives the channel.
    pub how: How,
}

/// How a variable gives a channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It is the channel, whatever its name, or has it as one of its levels.
    Read,
    /// It is a close relative of the channel, which differs as described.
    StandIn(String),
    /// The channel was computed from it.
    Computed,
}

impl ChannelSource {
    /// Whether it is a variable with the channel's own name.
    pub fn is_itself(&self, channel: Variable) -> bool {
        let name = self.variable.as_deref().unwrap_or_default();
        self.how == How::Read && name.eq_ignore_ascii_case(channel.name())
    }

    /// Whether it gives the same quantity as another source of its channel. Names do not matter, nor the words that
    /// describe a difference, which another version may have put otherwise.
    fn is_like(&self, other: &Self) -> bool {
        discriminant(&self.how) == discriminant(&other.how)
    }
}

impl fmt::Display for ChannelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.how, self.variable.as_deref()) {
            (How::Computed, None) => write!(f, "computed"),
            (How::Computed, Some(name)) => write!(f, "computed from `{name}`"),
            (How::Read, name) => write!(f, "`{}`", name.unwrap_or_default()),
            // Without brackets in brackets.
            (How::StandIn(difference), name) if difference.contains('(') => {
                write!(f, "`{}`, {difference}", name.unwrap_or_default())
            }
            (How::StandIn(difference), name) => {
                write!(f, "`{}` ({difference})", name.unwrap_or_default())
            }
        }
    }
}

/// Describes the sources of a channel.
pub fn in_words(sources: &BTreeSet<ChannelSource>) -> String {
    let words: Vec<String> = sources.iter().map(ChannelSource::to_string).collect();
    words.join(" and ")
}

/// Whether one of the sources gives another quantity than those that are known.
pub fn differ(known: &BTreeSet<ChannelSource>, sources: &BTreeSet<ChannelSource>) -> bool {
    let is_new = |source: &ChannelSource| !known.iter().any(|one| one.is_like(source));
    !known.is_empty() && sources.iter().any(is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, how: How) -> ChannelSource {
        ChannelSource {
            variable: (!name.is_empty()).then(|| name.to_string()),
            how,
        }
    }

    #[test]
    fn sources_differ_by_quantity_and_not_by_name() {
        let set = |sources: &[&ChannelSource]| -> BTreeSet<ChannelSource> {
            sources.iter().copied().cloned().collect()
        };
        let wind = |words: &str| source("u10", How::StandIn(words.into()));
        let [lowest, other_name] = ["UBOT", "ulml"].map(|name| source(name, How::Read));
        let computed = source("", How::Computed);
        let [lowest, other_name] = [&lowest, &other_name];
        let computed = &computed;
        let [at_10_m, near_ground] = ["10 m wind", "wind at 10 m"].map(wind);
        for (known, given, is_other) in [
            (&[lowest][..], &[other_name][..], false),
            (&[&at_10_m], &[&near_ground], false),
            (&[lowest], &[&at_10_m], true),
            (&[&at_10_m], &[lowest], true),
            (&[lowest], &[computed], true),
            (&[lowest], &[lowest, computed], true),
            (&[lowest, computed], &[lowest], false),
            (&[], &[lowest], false),
        ] {
            let (known, given) = (set(known), set(given));
            assert_eq!(differ(&known, &given), is_other, "{known:?} {given:?}");
        }
    }

    #[test]
    fn own_names_are_those_of_the_channel() {
        assert!(source("tmq", How::Read).is_itself(Variable::Tmq));
        assert!(!source("prw", How::Read).is_itself(Variable::Tmq));
        assert!(!source("TMQ", How::Computed).is_itself(Variable::Tmq));
        assert!(!source("", How::Computed).is_itself(Variable::Zbot));
    }

    #[test]
    fn words_and_json_of_sources() {
        let all: BTreeSet<ChannelSource> = [
            source("", How::Computed),
            source("hus", How::Computed),
            source("prw", How::Read),
        ]
        .into();
        let words = "computed and computed from `hus` and `prw`";
        assert_eq!(in_words(&all), words);
        let sum = source("tp", How::StandIn("a sum (right if hourly)".into()));
        assert_eq!(sum.to_string(), "`tp`, a sum (right if hourly)");
        let sources: ChannelSources = [(Variable::Tmq, all)].into();
        let json = serde_json::to_string(&sources).unwrap();
        assert!(
            json.starts_with(r#"{"TMQ":[{"how":"computed"},{"variable":"hus","how":"computed"}"#),
            "{json}"
        );
        let back: ChannelSources = serde_json::from_str(&json).unwrap();
        assert_eq!(back, sources);
    }
}
