//! Agreement between all ranks of a team outside of steps.

use super::Team;
use crate::comm::collectives::tree;
use crate::comm::{CommError, agree, doing};
use crate::error::{JobError, Result, all_or_none};
use crate::staging;
use crate::train::share::RankPosition;
use squall_model::Parameters;

/// Ranks wait this many times longer than usual while the first one reads or writes files.
const LONGER_FOR_FILES: u32 = 10;

impl Team {
    /// Returns this rank's result if no rank failed. All ranks call it.
    pub(in crate::train) fn all_or_none<T>(&mut self, got: Result<T>) -> Result<T> {
        all_or_none(&mut *self.control, got)
    }

    /// Returns this rank's result of what the first rank does with files of the run, once that is done and no rank
    /// failed. The others wait longer than for anything else: a file system may take minutes to recover. All ranks call
    /// it.
    pub(in crate::train) fn after_files<T>(&mut self, got: Result<T>) -> Result<T> {
        if self.size == 1 {
            return got;
        }
        let first = self.first_in_job;
        let what = format!("the files of the run, which rank {first} reads or writes");
        let _doing = doing::begin(what);
        let longer = self.longest_wait.saturating_mul(LONGER_FOR_FILES);
        self.control.limit_waits(longer);
        let got = self.all_or_none(got);
        self.control.limit_waits(self.longest_wait);
        got
    }

    /// Whether the flag is set on any rank. All ranks call it.
    pub(in crate::train) fn any(&mut self, flag: bool) -> Result<bool> {
        Ok(agree::any(&mut *self.control, flag)?)
    }

    /// The number of this rank's node, as [`crate::staging::node_number`] counts. All ranks call it.
    ///
    /// # Errors
    /// [`JobError::Comm`].
    pub fn node_number(&mut self) -> Result<usize> {
        staging::node_number(&mut *self.control)
    }

    /// The number of nodes of the team. All ranks call it.
    ///
    /// # Errors
    /// [`JobError::Comm`].
    pub fn nodes(&mut self) -> Result<usize> {
        let number = self.node_number()? as u64;
        let all = self.gather(bytemuck::bytes_of(&number))?;
        let all: Vec<u64> = bytemuck::pod_collect_to_vec(&all);
        Ok(all.into_iter().max().map_or(1, |last| last as usize + 1))
    }

    /// This rank's position among those of its node. All ranks call it.
    pub(in crate::train) fn place_on_node(&mut self) -> Result<RankPosition> {
        let node = self.control.split_by_node()?;
        Ok(RankPosition {
            rank: node.rank(),
            ranks: node.size(),
        })
    }

    /// Gathers equally many bytes from every rank, in rank order. All ranks call it.
    pub(in crate::train) fn gather(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        Ok(tree::all_gather(&mut *self.control, mine)?)
    }

    /// Gathers bytes from every rank, in rank order; their number may vary. All ranks call it.
    pub(in crate::train) fn gather_any(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(tree::all_gather_any(&mut *self.control, mine)?)
    }

    /// Returns the text of the lowest rank that has one, prefixed by its number in the job if there are several ranks.
    /// All ranks call it.
    pub(in crate::train) fn first_to_say(
        &mut self,
        mine: Option<String>,
    ) -> Result<Option<String>> {
        if self.size == 1 {
            return Ok(mine);
        }
        let _doing = doing::begin("what a rank has to say of a step");
        let all = self.gather_any(mine.unwrap_or_default().as_bytes())?;
        let first = (self.first_in_job..)
            .zip(&all)
            .find(|(_, text)| !text.is_empty());
        Ok(first.map(|(rank, text)| format!("rank {rank}: {}", String::from_utf8_lossy(text))))
    }

    /// Replaces counts by their sums over ranks. All ranks call it.
    pub(in crate::train) fn sum_counts(&mut self, counts: &mut [u64]) -> Result<()> {
        Ok(agree::sum_counts(&mut *self.control, counts)?)
    }

    /// Broadcasts the first rank's bytes. All ranks call it.
    pub(in crate::train) fn broadcast(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let _doing = doing::begin("the first rank's state");
        *bytes = tree::broadcast_any(&mut *self.control, std::mem::take(bytes), 0)?;
        Ok(())
    }

    /// Fails, naming the fact, if any of these facts differs between ranks. All ranks call it.
    pub(in crate::train) fn check_facts(&mut self, facts: &agree::Facts) -> Result<()> {
        let _doing = doing::begin("the comparison of recipes, data and programs");
        Ok(facts.check(&mut *self.control)?)
    }

    /// Fails, naming the first tensor, if the parameters are not bitwise identical on all ranks. All ranks call it.
    pub(in crate::train) fn check_parameters(&mut self, parameters: &Parameters) -> Result<()> {
        // Avoids copying and hashing all parameters.
        if self.size == 1 {
            return Ok(());
        }
        let _doing = doing::begin("the check that all ranks hold the same parameters");
        let named = parameters.to_named()?;
        let tensors = named
            .iter()
            .map(|(name, (_, values))| (name.as_str(), values.as_slice()));
        let first = self.first_in_job;
        let same = agree::same_parameters_from(first, &mut *self.control, tensors);
        same.map_err(|error| match error {
            CommError::Differs { .. } => JobError::Apart(error),
            other => other.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads;

    /// A parameter server, and two groups of two ranks.
    #[test]
    fn ranks_of_groups_are_named_by_their_number_in_the_job() {
        let said = threads::run(threads::ranks(5), |rank| {
            let mut all = Team::of(Box::new(rank), Box::new(|_| ()));
            let place = all.rank();
            let colour = [0, 1, 1, 2, 2][place];
            let group = all.control().split(Some(colour), place).unwrap();
            let mut group = all.group(group.unwrap(), None);
            let mine = [2, 4].contains(&place).then(|| "no".to_string());
            group.first_to_say(mine).unwrap()
        });
        let by = |rank: usize| Some(format!("rank {rank}: no"));
        assert_eq!(said, [None, by(2), by(2), by(4), by(4)]);
    }
}
