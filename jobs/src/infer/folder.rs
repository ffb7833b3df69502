//! Prepares the output folder: locks it and finds its finished files.

use super::log::{self, FinishedFile, in_order, share};
use super::read_from::{self, ReadFrom};
use super::settings::{self, Settings};
use super::sliding::Sliding;
use super::{BadInput, Chunk, Inference, claims, output, renamed_files};
use crate::comm::collectives::tree;
use crate::comm::{Communicator, agree};
use crate::error::{Result, all_or_none};
use crate::lock::FolderLock;
use squall_data::atomic;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

impl Inference<'_> {
    /// Locks the folder on the first rank, and returns the batch size on all ranks. All ranks call it.
    pub(super) fn take(
        &self,
        comm: &mut dyn Communicator,
        wanted: NonZeroUsize,
    ) -> Result<(Option<FolderLock>, NonZeroUsize)> {
        let taken = match comm.rank() {
            0 => self.take_folder(wanted).map(Some),
            _ => Ok(None),
        };
        let (lock, batch) = match all_or_none(comm, taken)? {
            Some((lock, batch)) => (Some(lock), batch.get()),
            None => (None, 0),
        };
        let mut said = [batch as u64];
        tree::broadcast(comm, bytemuck::cast_slice_mut(&mut said), 0)?;
        let batch = NonZeroUsize::new(said[0] as usize).unwrap_or(NonZeroUsize::MIN);
        Ok((lock, batch))
    }

    /// Locks the folder on behalf of all ranks and cleans up after a killed call. Returns the batch size: that of the
    /// existing masks, unless another is requested.
    fn take_folder(&self, wanted: NonZeroUsize) -> Result<(FolderLock, NonZeroUsize)> {
        let lock = FolderLock::take(self.out)?;
        let before = match self.options.batch {
            None if settings::has_some(self.out)? => Settings::batch_of(self.out),
            _ => None,
        };
        let batch = before.unwrap_or(wanted);
        Settings::of(self, batch).settle(self.out)?;
        atomic::sweep(self.out, |_| true)?;
        claims::remove_old(self.out)?;
        Ok((lock, batch))
    }

    /// The files that remain to be made; if there are any, removes the manifest and the table of all boxes. All ranks
    /// call it.
    pub(super) fn left_to_make(
        &self,
        comm: &mut dyn Communicator,
        all: &[Chunk],
        sliding: Option<&Sliding>,
        batch: NonZeroUsize,
    ) -> Result<Vec<Chunk>> {
        let finished = self.finished_before(comm, all, sliding)?;
        let left: Vec<Chunk> = (all.iter())
            .filter(|chunk| !finished.contains_key(&chunk.name))
            .cloned()
            .collect();
        let removed = match comm.rank() {
            0 if !left.is_empty() => self.reopen(batch),
            _ => Ok(()),
        };
        all_or_none(comm, removed)?;
        Ok(left)
    }

    /// Removes the outputs that describe the complete folder, and records the build that adds to it.
    fn reopen(&self, batch: NonZeroUsize) -> Result<()> {
        settings::remove_manifest(self.out)?;
        Settings::of(self, batch).record_build(self.out)?;
        match self.ensemble.gives().boxes() {
            true => output::remove_joined(self.out),
            false => Ok(()),
        }
    }

    /// The intact files finished by earlier calls; each rank checks some of them.
    fn finished_before(
        &self,
        comm: &mut dyn Communicator,
        all: &[Chunk],
        sliding: Option<&Sliding>,
    ) -> Result<BTreeMap<String, FinishedFile>> {
        let (rank, size) = (comm.rank(), comm.size());
        let read = match rank {
            0 => self.wanted_of_log(all, sliding).map(Some),
            _ => Ok(None),
        };
        let read = all_or_none(comm, read)?.unwrap_or_default();
        let entries: Vec<FinishedFile> = share(comm, &read, self.out)?;
        let mut whole = vec![false; entries.len()];
        for (at, entry) in entries.iter().enumerate().skip(rank).step_by(size) {
            whole[at] = entry.verify(self.out);
        }
        agree::any_of_each(comm, &mut whole)?;
        let kept: BTreeMap<String, FinishedFile> = (entries.into_iter().zip(whole))
            .filter(|(_, whole)| *whole)
            .map(|(entry, _)| (entry.file.clone(), entry))
            .collect();
        let restarted = match rank {
            0 => log::restart(self.out, in_order(all, &kept).into_iter()),
            _ => Ok(()),
        };
        all_or_none(comm, restarted)?;
        Ok(kept)
    }

    /// The logged files that this call would make identically.
    fn wanted_of_log(&self, all: &[Chunk], sliding: Option<&Sliding>) -> Result<Vec<FinishedFile>> {
        let times = self.input.times();
        let variables = self.ensemble.variables();
        let by_name: BTreeMap<&str, &Chunk> = all
            .iter()
            .map(|chunk| (chunk.name.as_str(), chunk))
            .collect();
        let chunk_of = |entry: &FinishedFile| by_name.get(entry.file.as_str()).copied();
        // If the input has grown or shrunk, the file at its edge changes.
        let has_its_times = |entry: &FinishedFile| {
            chunk_of(entry).is_some_and(|chunk| {
                times[chunk.indices.start].to_string() == entry.first
                    && times[chunk.indices.end - 1].to_string() == entry.last
                    && chunk.indices.len() == entry.times()
            })
        };
        // And so do files whose clips see across the edge.
        let saw_the_same = |entry: &FinishedFile| {
            let seen = |chunk: &Chunk| sliding.map(|s| s.seen(chunk.indices.clone(), times));
            chunk_of(entry).is_some_and(|chunk| entry.seen == seen(chunk))
        };
        let saw_others = |entry: &FinishedFile| has_its_times(entry) && !saw_the_same(entry);
        let wanted = |entry: &FinishedFile| {
            // Without --skip-bad, times skipped by an earlier call must be tried again.
            let is_patient = self.options.bad_input == BadInput::Skip;
            has_its_times(entry) && saw_the_same(entry) && (is_patient || entry.skipped.is_empty())
        };
        let (found, foreign): (Vec<_>, Vec<_>) = (log::read(self.out)?.into_values())
            .partition(|entry| by_name.contains_key(entry.file.as_str()));
        let found = found.into_iter().filter_map(|entry| {
            let chunk = by_name.get(entry.file.as_str())?;
            let indices = chunk.indices.clone();
            let now = ReadFrom::now(&self.input, indices, sliding, &variables);
            Some((entry, now))
        });
        let found = found.collect();
        let same = read_from::of_these_fields(self.out, &self.input, found, saw_others)?;
        let sources = (&self.input, sliding, &variables[..]);
        renamed_files::remove_files(self.out, sources, &foreign, !same.is_empty())?;
        let is_there = |entry: &&FinishedFile| self.out.join(&entry.file).exists();
        if let Some(one) = foreign.iter().find(is_there) {
            let what = match renamed_files::is_table(one) {
                true => "tables of boxes that this call does not make",
                false => "masks of times that the input does not have",
            };
            tracing::warn!(
                "`{}` holds {what}, such as `{}`: they stay, and are not in its manifest",
                self.out.display(),
                one.file
            );
        }
        Ok(same.into_iter().filter(wanted).collect())
    }
}
