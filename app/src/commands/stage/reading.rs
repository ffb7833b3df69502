//! Reads samples from fields and labels and writes them into a store.

use super::unread::Unread;
use crate::input::name_of;
use crate::interrupt;
use crate::missing::Missing;
use crate::progress::Progress;
use crate::skipped::Skipped;
use squall_data::mask_file::MaskArchive;
use squall_data::store::{SampleEntry, Selected, Split, StoreWriter};
use squall_data::{Archive, ClassMask, DataError, Snapshot, Variable};
use std::path::Path;

/// The sources of samples, and the problems encountered.
pub(super) struct Reading<'a> {
    pub archive: &'a Archive,
    pub masks: Option<&'a MaskArchive>,
    pub channels: &'a [Variable],
    pub missing: Missing,
    pub skipped: Skipped,
}

impl Reading<'_> {
    /// The mask of a sample, if it has one. Its time is set to that of the fields, which may use the other Gregorian
    /// calendar.
    fn mask(&self, sample: &Selected) -> Option<Result<ClassMask, DataError>> {
        let (masks, at) = self.masks.zip(sample.mask)?;
        let time = sample.time;
        Some(masks.read(at).map(|mask| ClassMask { time, ..mask }))
    }

    /// Reads fields and mask of a sample; `None` if one of them is unreadable and may be skipped.
    fn read(&self, sample: &Selected) -> Result<Option<(Snapshot, Option<ClassMask>)>, DataError> {
        let Selected { index, time, .. } = *sample;
        let mut drawn = None;
        if let Some(read) = self.mask(sample) {
            drawn = self.skipped.or_none(time, read)?;
            if drawn.is_none() {
                return Ok(None);
            }
        }
        let snapshot = self.archive.read_plausible(index, self.channels);
        let snapshot = self.skipped.or_none(time, snapshot)?;
        snapshot.iter().for_each(|read| self.missing.note(read));
        Ok(snapshot.map(|snapshot| (snapshot, drawn)))
    }

    /// Describes how an unfinished store differs from these fields or labels; `None` if no difference is found.
    ///
    /// Compares the pixel counts of all masks. Fields are many times larger, so only the first, middle and last sample
    /// are compared.
    pub(super) fn first_other(
        &self,
        samples: &[Selected],
        writer: &mut StoreWriter,
    ) -> anyhow::Result<Option<String>> {
        let there: Vec<SampleEntry> = writer.samples().to_vec();
        let looked_at = [0, there.len() / 2, there.len().saturating_sub(1)];
        for (id, (sample, entry)) in samples.iter().zip(&there).enumerate() {
            interrupt::check()?;
            let drawn = self.mask(sample).transpose()?;
            let counts = drawn.as_ref().map_or([0; 3], ClassMask::pixel_counts);
            if counts != entry.class_counts {
                return Ok(Some(format!("the mask of {} is another", entry.time)));
            }
            if !looked_at.contains(&id) {
                continue;
            }
            let snapshot = self.archive.read_plausible(sample.index, self.channels)?;
            if writer.checksum_of(&snapshot, drawn.as_ref())? != entry.checksum {
                return Ok(Some(format!(
                    "{}, which was read from `{}`, has other values",
                    entry.time,
                    name_of(Path::new(&entry.source))
                )));
            }
        }
        Ok(None)
    }

    /// Writes the missing samples, each while the next one is read.
    pub(super) fn write_all(
        &self,
        samples: &[Selected],
        splits: &[Split],
        writer: &mut StoreWriter,
        unread: &mut Unread,
    ) -> anyhow::Result<()> {
        let mut progress = Progress::new("stage", samples.len());
        let first = writer.len();
        progress.start(samples.len(), first);
        let mut next = samples.get(first).map(|one| self.read(one)).transpose()?;
        for (place, &split) in splits.iter().enumerate().skip(first) {
            interrupt::check()?;
            let Some(sample) = next.take() else {
                break;
            };
            if sample.is_none() {
                unread.add(samples[place].time)?;
            }
            let following = samples.get(place + 1);
            let (ahead, pushed) = rayon::join(
                || following.map(|one| self.read(one)).transpose(),
                || match &sample {
                    None => Ok(()),
                    Some((snapshot, Some(mask))) => writer.push(snapshot, mask, split),
                    Some((snapshot, None)) => writer.push_without_mask(snapshot, split),
                },
            );
            pushed?;
            next = ahead?;
            progress.set(place + 1, String::new());
        }
        progress.finish();
        Ok(())
    }
}
