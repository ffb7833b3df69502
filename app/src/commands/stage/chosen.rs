//! The samples of a store, and their splits.

use super::{Stage, splits};
use crate::plan::counted;
use squall_data::mask_file::MaskArchive;
use squall_data::store::{Selection, Split, SplitRule};
use squall_data::{Archive, BoxFrames, Time};
use std::collections::BTreeSet;

/// What is to become a store.
pub(super) struct Chosen {
    pub selection: Selection,
    /// The split of each sample.
    pub splits: Vec<Split>,
    /// Number of samples before unreadable ones are left out.
    pub count: usize,
    /// Number of samples dropped because one of another split is too close.
    pub guarded: usize,
}

impl Chosen {
    /// Leaves out the samples at some times, given as text.
    pub fn leave_out(&mut self, times: &BTreeSet<String>) {
        let places = self.selection.places_of(times);
        self.selection.leave_out(&places, &mut self.splits);
    }

    /// Number of samples left out as unreadable.
    pub fn skipped(&self) -> usize {
        self.count - self.selection.samples.len()
    }
}

impl Stage {
    /// The samples and their splits.
    pub(super) fn choose(
        &self,
        archive: &Archive,
        masks: Option<&MaskArchive>,
        frames: Option<&BoxFrames>,
    ) -> anyhow::Result<Chosen> {
        let mut selection = Selection::new(
            archive.times(),
            archive.grid(),
            |time: Time| masks?.find(time),
            frames,
            self.keep_unlabelled,
        )?;
        self.warn(&selection);
        let times: Vec<Time> = selection.samples.iter().map(|sample| sample.time).collect();
        let mut splits = self.rule().assign(&times)?;
        let near = splits::guard(&times, &splits, self.guard_hours)?;
        selection.leave_out(&near, &mut splits);
        Ok(Chosen {
            count: selection.samples.len(),
            selection,
            splits,
            guarded: near.len(),
        })
    }

    /// Reports what is skipped or clipped.
    fn warn(&self, selection: &Selection) {
        let Selection {
            unlabelled,
            cut,
            outside,
            ..
        } = *selection;
        if unlabelled > 0 && !self.keep_unlabelled {
            tracing::warn!(
                "left out: {} with neither mask nor boxes (--keep-unlabelled keeps them)",
                counted(unlabelled, "time")
            );
        }
        if cut > 0 {
            tracing::warn!("cut by the edge of the grid: {}", counted(cut, "box"));
        }
        if outside > 0 {
            tracing::warn!(
                "left out: {} wholly outside the grid",
                counted(outside, "box")
            );
        }
    }

    /// The rule for dividing samples into splits.
    pub(super) fn rule(&self) -> SplitRule {
        let (train, seed) = (self.train_share, self.seed);
        let validation = (1.0 - train) / 2.0;
        match self.block_days {
            days if days > 0.0 => SplitRule::Blocks {
                seed,
                train,
                validation,
                days,
            },
            _ => SplitRule::Shuffled {
                seed,
                train,
                validation,
            },
        }
    }
}
