//! Selects which times of fields become samples of a store, and their labels.

use super::{SampleEntry, Split};
use crate::boxes::{BoxFrames, GeoBox};
use crate::error::{DataError, Result};
use crate::{LatLonGrid, Time};
use std::collections::BTreeSet;
use std::path::Path;

/// A time that becomes a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Selected {
    /// Its index among the times of the fields.
    pub index: usize,
    /// The time.
    pub time: Time,
    /// Its index among the masks; `None` if it has no mask.
    pub mask: Option<usize>,
    /// Its boxes on the grid; `None` if it was not searched, empty if none were found.
    pub boxes: Option<Vec<GeoBox>>,
}

/// The selected times, and counts of what was dropped or changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// The samples, in the order of the fields.
    pub samples: Vec<Selected>,
    /// Times with neither mask nor boxes, whether or not they became samples.
    pub unlabelled: usize,
    /// Number of boxes that were clipped to the grid.
    pub cut: usize,
    /// Number of boxes entirely outside the grid, which were dropped.
    pub outside: usize,
}

impl Selection {
    /// Selects times of fields on a grid that have a mask (as given by `mask_at`) or boxes, and the others only if
    /// `keep_unlabelled`. A time in the box file counts as labelled, even if it has no box or all are outside the grid.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a box without extent or not on the globe.
    pub fn new(
        times: &[Time],
        grid: &LatLonGrid,
        mask_at: impl Fn(Time) -> Option<usize>,
        frames: Option<&BoxFrames>,
        keep_unlabelled: bool,
    ) -> Result<Self> {
        let mut all = Self::default();
        for (index, &time) in times.iter().enumerate() {
            let mask = mask_at(time);
            let found = frames.and_then(|frames| frames.at(time));
            if mask.is_none() && found.is_none() {
                all.unlabelled += 1;
                if !keep_unlabelled {
                    continue;
                }
            }
            let boxes = match found {
                None => None,
                Some(found) => {
                    let geo = found.iter().map(|tracked| tracked.geo);
                    Some(all.on_grid(geo, grid)?)
                }
            };
            all.samples.push(Selected {
                index,
                time,
                mask,
                boxes,
            });
        }
        Ok(all)
    }

    fn on_grid(
        &mut self,
        boxes: impl Iterator<Item = GeoBox>,
        grid: &LatLonGrid,
    ) -> Result<Vec<GeoBox>> {
        let mut kept = Vec::new();
        for whole in boxes {
            let part = whole.within(grid)?;
            self.cut += usize::from(part.is_some_and(|part| part != whole));
            self.outside += usize::from(part.is_none());
            kept.extend(part);
        }
        Ok(kept)
    }

    /// The boxes of every sample.
    pub fn boxes(&self) -> Vec<Option<Vec<GeoBox>>> {
        self.samples.iter().map(|s| s.boxes.clone()).collect()
    }

    /// Indices of the samples at some times, given as text.
    pub fn places_of(&self, times: &BTreeSet<String>) -> BTreeSet<usize> {
        let samples = self.samples.iter().enumerate();
        let found = samples.filter(|(_, sample)| times.contains(&sample.time.to_string()));
        found.map(|(place, _)| place).collect()
    }

    /// Removes the samples at some indices, and their splits.
    pub fn leave_out(&mut self, places: &BTreeSet<usize>, splits: &mut Vec<Split>) {
        remove_at(places, &mut self.samples);
        remove_at(places, splits);
    }

    /// Number of samples with a mask.
    pub fn masked(&self) -> usize {
        self.samples.iter().filter(|s| s.mask.is_some()).count()
    }

    /// Fails if the first samples of the store in `folder`, given as `there`, or their splits differ from these samples
    /// and `splits`.
    ///
    /// # Errors
    /// [`DataError::Mismatch`] naming the first difference.
    pub fn check_begun(
        &self,
        folder: &Path,
        there: &[SampleEntry],
        splits: &[Split],
    ) -> Result<()> {
        let describe = |time: &str, masked: bool| {
            let with = if masked { "with" } else { "without" };
            format!("{time} {with} a mask")
        };
        for (id, entry) in there.iter().enumerate() {
            let found = describe(&entry.time, entry.has_mask());
            let wanted = self.samples.get(id);
            let expected = wanted.map(|s| describe(&s.time.to_string(), s.mask.is_some()));
            if expected.as_ref() != Some(&found) {
                return Err(DataError::mismatch(
                    "a sample that is there already",
                    folder,
                    expected.unwrap_or_else(|| format!("{} samples", self.samples.len())),
                    format!("{found} as sample {id}"),
                ));
            }
            let wanted = splits.get(id).copied().unwrap_or(entry.split);
            if wanted != entry.split {
                return Err(DataError::mismatch(
                    "the split of a sample that is there already",
                    folder,
                    wanted.name(),
                    format!("{} as sample {id}, {}", entry.split.name(), entry.time),
                ));
            }
        }
        Ok(())
    }
}

/// Removes the elements at some indices of a list.
fn remove_at<T>(places: &BTreeSet<usize>, list: &mut Vec<T>) {
    let mut place = 0..;
    list.retain(|_| place.next().is_some_and(|place| !places.contains(&place)));
}
