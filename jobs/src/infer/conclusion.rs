//! The end of an inference: merges the results of all ranks and marks the folder as finished.

use super::claims::Claims;
use super::log::{self, FinishedFile, in_order, share};
use super::pipeline::RankResult;
use super::{Chunk, InferReport, Inference, Spent, output, settings};
use crate::comm::{Communicator, agree};
use crate::error::{Result, all_or_none};
use crate::train::Outcome;
use std::time::Instant;

impl Inference<'_> {
    /// Merges the results of all ranks.
    pub(super) fn conclude(
        &self,
        comm: &mut dyn Communicator,
        all: &[Chunk],
        claims: &Claims,
        ran: &RankResult,
        start: Instant,
    ) -> Result<InferReport> {
        let masks = ran.finished.iter().map(|entry| entry.masks).sum::<usize>();
        let mut sums = [
            ran.wait_seconds,
            ran.compute_seconds,
            ran.blocked_seconds,
            ran.seconds,
            masks as f64,
        ];
        agree::sum_exactly(comm, &mut sums)?;
        let closed = match comm.rank() {
            0 => self.close(all, claims).map(Some),
            _ => Ok(None),
        };
        let entries = all_or_none(comm, closed)?.unwrap_or_default();
        let entries: Vec<FinishedFile> = share(comm, &entries, self.out)?;
        let outcome = match entries.len() == all.len() {
            true => Outcome::Finished,
            false => Outcome::Interrupted,
        };
        let with_masks = entries.iter().filter(|entry| entry.masks > 0);
        let [wait, compute, blocked, running, new_masks] = sums;
        Ok(InferReport {
            outcome,
            masks: entries.iter().map(|entry| entry.masks).sum(),
            new_masks: new_masks as usize,
            files: with_masks.map(|entry| self.out.join(&entry.file)).collect(),
            missing_values: entries.iter().map(|entry| entry.missing_values).sum(),
            skipped: entries
                .into_iter()
                .flat_map(|entry| entry.skipped)
                .collect(),
            skipped_files: self.input.skipped_files(),
            ranks: comm.size(),
            gives: self.ensemble.gives(),
            members: self.ensemble.members(),
            seconds: start.elapsed().as_secs_f64(),
            wait_seconds: wait,
            compute_seconds: compute,
            spent: Spent::of(compute, wait, blocked, running),
        })
    }

    /// Writes one log of all ranks and, if nothing is missing, the table of all boxes and the manifest. Returns the
    /// finished files in order of time.
    fn close(&self, all: &[Chunk], claims: &Claims) -> Result<Vec<FinishedFile>> {
        let finished = log::read(self.out)?;
        let in_order = in_order(all, &finished);
        log::restart(self.out, in_order.iter().copied())?;
        claims.end()?;
        if in_order.len() == all.len() {
            if self.ensemble.gives().boxes() {
                output::join_tables(self.out, &in_order)?;
            }
            // Last, because it marks the folder as complete.
            settings::write_manifest(self, &in_order)?;
        }
        Ok(in_order.into_iter().cloned().collect())
    }
}
