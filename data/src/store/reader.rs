//! Reads a store: positioned reads, checksums, normalisation.

use super::boxes::{FoundBoxes, StoreBoxes};
use super::codec::RecordDecoder;
use super::index::{self, IndexFile};
use super::local;
use super::record::{self, SampleReader};
use super::{SampleEntry, ShardEntry, Split, Statistics, StoreMeta};
use crate::class_weights::ClassWeighting;
use crate::error::{DataError, Result};
use crate::normalise::{ChannelScale, Normalisation, NormalisationMethod, names};
use crate::{ChannelSources, ClassMask, LatLonGrid, Time, Variable};
use ndarray::Array2;
use rayon::prelude::*;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of [`Store::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Number of samples checked.
    pub samples: usize,
    /// One sentence per damaged sample.
    pub problems: Vec<String>,
}

/// An open sample store. Reading is thread-safe.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    pub(super) meta: StoreMeta,
    index: IndexFile,
    times: Vec<Time>,
    /// Id of the first sample of each shard.
    first_ids: Vec<usize>,
    /// Whether the checksum of each sample has been verified.
    pub(super) checked: Vec<AtomicBool>,
    /// Whether each sample is here, if it is a partial copy.
    here: Option<Vec<bool>>,
    pub(super) boxes: Option<StoreBoxes>,
    pub(super) found: Option<FoundBoxes>,
}

impl Store {
    /// Opens a finished store and checks version and sizes. The checksum of a sample is verified when it is first read.
    ///
    /// # Errors
    /// [`DataError::NoStore`] if the folder holds no finished store; [`DataError::Mismatch`] for another version;
    /// [`DataError::Damaged`] for an inconsistent index, or a truncated or missing shard.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let (index, meta, first_ids) = index::read(&folder)?;
        let times = index.samples.iter().map(|s| s.parse_time(meta.calendar));
        let here = local::samples_here(&folder, &index.data_hash, index.samples.len())?;
        let boxes = StoreBoxes::read(&folder, &index.data_hash, index.samples.len())?;
        Ok(Self {
            here,
            boxes,
            found: None,
            times: times.collect::<Result<_>>()?,
            checked: index
                .samples
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
            first_ids,
            folder,
            meta,
            index,
        })
    }

    /// Number of samples; ids count from 0.
    pub fn len(&self) -> usize {
        self.index.samples.len()
    }

    /// Whether it holds no sample.
    pub fn is_empty(&self) -> bool {
        self.index.samples.is_empty()
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Grid, calendar, channels and encoding.
    pub fn meta(&self) -> &StoreMeta {
        &self.meta
    }

    /// The grid of all fields.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.meta.grid
    }

    /// The channels, in stored order.
    pub fn channels(&self) -> &[Variable] {
        &self.meta.channels
    }

    /// What served as each channel in the files; a channel whose source is not known is absent.
    pub fn sources(&self) -> &ChannelSources {
        &self.index.sources
    }

    /// The shape of a sample: (lat, lon, channel).
    pub fn shape(&self) -> [usize; 3] {
        self.meta.shape()
    }

    /// Whether this is a local copy that holds only some of the training samples.
    pub fn is_partial(&self) -> bool {
        self.here.is_some()
    }

    /// Whether a sample can be read.
    pub fn holds(&self, id: usize) -> bool {
        id < self.len() && self.here.as_ref().is_none_or(|here| here[id])
    }

    /// The samples of a split, ascending, including those that are not here.
    pub fn ids(&self, split: Split) -> Vec<usize> {
        let of_split = |id: &usize| self.index.samples[*id].split == split;
        (0..self.len()).filter(of_split).collect()
    }

    /// The samples of a split that have a mask, ascending, including those that are not here.
    pub fn masked_ids(&self, split: Split) -> Vec<usize> {
        let mut ids = self.ids(split);
        ids.retain(|&id| self.index.samples[id].has_mask());
        ids
    }

    /// Metadata of the samples, by id.
    pub fn samples(&self) -> &[SampleEntry] {
        &self.index.samples
    }

    /// Times of the samples, by id.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// Statistics of every channel over the training samples.
    pub fn statistics(&self) -> &Statistics {
        &self.index.statistics
    }

    /// Pixels of each class over the samples of a split, in code order.
    pub fn class_counts(&self, split: Split) -> [u64; 3] {
        let mut counts = [0; 3];
        for sample in self.index.samples.iter().filter(|s| s.split == split) {
            for (sum, count) in counts.iter_mut().zip(sample.class_counts) {
                *sum += count;
            }
        }
        counts
    }

    /// SHA-256 (hexadecimal) of layout, times, splits and contents; independent of paths.
    pub fn data_hash(&self) -> &str {
        &self.index.data_hash
    }

    /// The normalisation derived from its training samples, for all channels.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if a channel has no values.
    pub fn normalisation(&self, method: NormalisationMethod) -> Result<Normalisation> {
        Normalisation::from_statistics(method, self.statistics())
    }

    /// The class weights derived from its training samples.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if no training sample has a mask.
    pub fn class_weights(&self, weighting: ClassWeighting) -> Result<Vec<f32>> {
        weighting.weights(&self.class_counts(Split::Train))
    }

    /// Reads the class codes of a sample.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for an unknown id, or a sample without a mask; [`DataError::Damaged`] if its checksum is
    /// wrong; [`DataError::Io`].
    pub fn read_mask(&self, id: usize) -> Result<ClassMask> {
        let (file, path, start) = self.locate(id)?;
        if !self.index.samples[id].has_mask() {
            let time = self.times[id];
            return Err(DataError::Invalid(format!(
                "sample {id} of {time} has no mask"
            )));
        }
        if !self.checked[id].load(Ordering::Relaxed) {
            let (path, found) = self.checksum(id)?;
            self.compare(id, &path, found)?;
            self.checked[id].store(true, Ordering::Relaxed);
        }
        let (rows, columns) = self.meta.grid.shape();
        let mut codes = vec![0; rows * columns];
        file.read_exact_at(&mut codes, start + self.meta.field_bytes())
            .map_err(DataError::io("read", &path))?;
        let codes = Array2::from_shape_vec((rows, columns), codes)
            .map_err(|e| DataError::Invalid(e.to_string()))?;
        ClassMask::new(self.times[id], codes)
    }

    /// A reader of some channels, in the given order, optionally normalised.
    ///
    /// # Errors
    /// [`DataError::Invalid`] naming a channel that the store or the normalisation lacks.
    pub fn reader(
        self: &Arc<Self>,
        channels: &[Variable],
        normalisation: Option<&Normalisation>,
    ) -> Result<SampleReader> {
        let decoder = self.decoder(channels, normalisation)?;
        Ok(SampleReader::new(Arc::clone(self), decoder))
    }

    /// Verifies the checksums of all samples that are here.
    ///
    /// # Errors
    /// [`DataError::Io`] if a shard cannot be read; damage is reported in the result.
    pub fn verify(&self) -> Result<Verification> {
        let check = |id: usize| -> Result<Option<String>> {
            let (path, found) = self.checksum(id)?;
            let differs = self.compare(id, &path, found).err();
            Ok(differs.map(|error| error.to_string()))
        };
        let here: Vec<usize> = (0..self.len()).filter(|&id| self.holds(id)).collect();
        let found: Result<Vec<Option<String>>> = here.par_iter().map(|&id| check(id)).collect();
        Ok(Verification {
            samples: here.len(),
            problems: found?.into_iter().flatten().collect(),
        })
    }

    /// The shard file of a sample, and the checksum of its actual contents.
    fn checksum(&self, id: usize) -> Result<(PathBuf, u64)> {
        let (file, path, start) = self.locate(id)?;
        let end = start + self.meta.field_bytes() + self.meta.label_bytes();
        let found = record::checksum(&file, &path, start..end)?;
        Ok((path, found))
    }

    fn decoder(
        &self,
        channels: &[Variable],
        normalisation: Option<&Normalisation>,
    ) -> Result<RecordDecoder> {
        let scales = match normalisation {
            Some(normalisation) => normalisation.select(channels)?.channels,
            None => {
                let mean = |v: Variable| self.statistics().channel(v).map_or(0.0, |s| s.mean);
                let raw = channels.iter().map(|&v| ChannelScale::identity(v, mean(v)));
                raw.collect()
            }
        };
        RecordDecoder::new(&self.meta, &scales)
            .filter(|_| !channels.is_empty())
            .ok_or_else(|| {
                DataError::Invalid(format!(
                    "store `{}` has channels {}; asked for {}",
                    self.folder.display(),
                    names(&self.meta.channels),
                    names(channels)
                ))
            })
    }

    /// The open shard file of a sample, its path, and the offset of the record.
    pub(super) fn locate(&self, id: usize) -> Result<(File, PathBuf, u64)> {
        if id >= self.len() {
            return Err(DataError::Invalid(format!(
                "store `{}` has {} samples; asked for sample {id}",
                self.folder.display(),
                self.len()
            )));
        }
        if !self.holds(id) {
            return Err(DataError::Invalid(format!(
                "sample {id} was not staged to `{}`, which holds a part of its store",
                self.folder.display()
            )));
        }
        let (path, start) = self.place(id);
        let file = File::open(&path).map_err(DataError::io("open", &path))?;
        Ok((file, path, start))
    }

    /// The shard file of a sample and the offset of its record.
    pub(super) fn place(&self, id: usize) -> (PathBuf, u64) {
        let shard = self.first_ids.partition_point(|&first| first <= id) - 1;
        let slot = (id - self.first_ids[shard]) as u64;
        let path = self.folder.join(&self.index.shards[shard].file);
        (path, slot * self.meta.record_bytes())
    }

    /// The shard files.
    pub(super) fn shards(&self) -> &[ShardEntry] {
        &self.index.shards
    }

    pub(super) fn compare(&self, id: usize, path: &Path, found: u64) -> Result<()> {
        let entry = &self.index.samples[id];
        let found = format!("{found:016x}");
        if found == entry.checksum {
            return Ok(());
        }
        Err(DataError::damaged(
            path,
            format!(
                "checksum of sample {id} ({}, from `{}`) is {found}, expected {}",
                entry.time, entry.source, entry.checksum
            ),
        ))
    }
}
