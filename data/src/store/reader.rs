//! Reading a store: positioned reads, checked, normalised on the way.

use super::codec::{DecodeBuffers, RecordDecoder};
use super::{
    Encoding, INDEX_FILE, STORE_VERSION, SampleEntry, ShardEntry, Split, Statistics, StoreMeta,
    View, hex,
};
use crate::class_weights::ClassWeighting;
use crate::error::{DataError, Result};
use crate::normalise::{ChannelScale, Normalisation, NormalisationMethod, names};
use crate::{Calendar, ClassMask, LatLonGrid, Time, Variable};
use ndarray::Array2;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::Xxh3;

/// Bytes asked for at a time: a piece stays in the cache until it is normalised.
const PIECE_BYTES: usize = 256 << 10;

/// `store.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct IndexFile {
    format: String,
    version: u32,
    lat_deg: Vec<f64>,
    lon_deg: Vec<f64>,
    calendar: Calendar,
    channels: Vec<Variable>,
    encoding: Encoding,
    record_bytes: u64,
    shard_bytes: u64,
    data_hash: String,
    statistics: Statistics,
    shards: Vec<ShardEntry>,
    samples: Vec<SampleEntry>,
}

/// Just enough to say that the rest cannot be read.
#[derive(Deserialize)]
struct IndexHead {
    format: String,
    version: u32,
}

impl IndexFile {
    pub fn new(
        meta: &StoreMeta,
        shards: Vec<ShardEntry>,
        samples: Vec<SampleEntry>,
        statistics: Statistics,
    ) -> Self {
        Self {
            format: "squall-store".to_string(),
            version: STORE_VERSION,
            lat_deg: meta.grid.lat_deg().to_vec(),
            lon_deg: meta.grid.lon_deg().to_vec(),
            calendar: meta.calendar,
            channels: meta.channels.clone(),
            encoding: meta.encoding,
            record_bytes: meta.record_bytes(),
            shard_bytes: meta.shard_bytes,
            data_hash: data_hash(meta, &samples),
            statistics,
            shards,
            samples,
        }
    }
}

/// SHA-256 of what the data is: layout, and time, split and content of every sample. Paths do not count.
fn data_hash(meta: &StoreMeta, samples: &[SampleEntry]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(meta.hash());
    for sample in samples {
        hasher.update(&sample.time);
        hasher.update([0, sample.split as u8]);
        hasher.update(&sample.checksum);
    }
    hex(&hasher.finalize())
}

/// When the checksum of a sample is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checking {
    /// The first time that this process reads the sample.
    #[default]
    FirstRead,
    /// Every time.
    Always,
    /// Only in [`Store::verify`].
    Never,
}

/// What [`Store::verify`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Samples looked at.
    pub samples: usize,
    /// One sentence per damaged sample.
    pub problems: Vec<String>,
}

/// An open sample store. Reading is thread-safe.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    meta: StoreMeta,
    index: IndexFile,
    times: Vec<Time>,
    /// Id of the first sample of each shard.
    first_ids: Vec<usize>,
    checking: Checking,
    checked: Vec<AtomicBool>,
}

impl Store {
    /// Opens a finished store and compares version and sizes. Checksums are compared on reading ([`Checking`]).
    ///
    /// # Errors
    /// [`DataError::NoInput`] if the folder holds no finished store; [`DataError::Mismatch`] for another version;
    /// [`DataError::Damaged`] for an index that contradicts itself or a truncated or missing shard.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let path = folder.join(INDEX_FILE);
        let damaged = |path: &Path, reason: String| DataError::Damaged {
            path: path.to_path_buf(),
            reason,
        };
        if !path.exists() {
            let unfinished = folder.join(super::shard::shard_name(0)).exists();
            return Err(DataError::NoInput {
                input: folder.display().to_string(),
                reason: if unfinished {
                    format!(
                        "it has shards but no {INDEX_FILE}: staging has not finished; run it again to continue"
                    )
                } else {
                    format!("expected a sample store with {INDEX_FILE}")
                },
            });
        }
        let text = std::fs::read(&path).map_err(DataError::io("read", &path))?;
        let head: IndexHead =
            serde_json::from_slice(&text).map_err(|e| damaged(&path, e.to_string()))?;
        if head.format != "squall-store" || head.version != STORE_VERSION {
            return Err(DataError::Mismatch {
                what: "store version",
                path,
                expected: format!("squall-store {STORE_VERSION}"),
                found: format!("{} {}", head.format, head.version),
            });
        }
        let index: IndexFile =
            serde_json::from_slice(&text).map_err(|e| damaged(&path, e.to_string()))?;
        let (grid, _) = LatLonGrid::from_axes(index.lat_deg.clone(), index.lon_deg.clone())?;
        let meta = StoreMeta {
            grid: Arc::new(grid),
            calendar: index.calendar,
            channels: index.channels.clone(),
            encoding: index.encoding,
            shard_bytes: index.shard_bytes,
        };
        let in_shards: usize = index.shards.iter().map(|s| s.samples).sum();
        if index.record_bytes != meta.record_bytes()
            || in_shards != index.samples.len()
            || index.statistics.variables != meta.channels
            || index.statistics.channels.len() != meta.channels.len()
            || index.data_hash != data_hash(&meta, &index.samples)
        {
            return Err(damaged(
                &path,
                "record size, sample count, statistics or data hash contradict the rest"
                    .to_string(),
            ));
        }
        let mut first_ids = Vec::with_capacity(index.shards.len());
        let mut next = 0;
        for shard in &index.shards {
            first_ids.push(next);
            next += shard.samples;
            let path = folder.join(&shard.file);
            let found = std::fs::metadata(&path)
                .map_err(DataError::io("open", &path))?
                .len();
            if found != shard.bytes {
                return Err(damaged(
                    &path,
                    format!(
                        "truncated or replaced: expected {} bytes, found {found}",
                        shard.bytes
                    ),
                ));
            }
        }
        let times = index.samples.iter().map(|s| s.parse_time(meta.calendar));
        Ok(Self {
            times: times.collect::<Result<_>>()?,
            checking: Checking::default(),
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

    /// The same store with another rule for checksums.
    #[must_use]
    pub fn with_checking(mut self, checking: Checking) -> Self {
        self.checking = checking;
        self
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

    /// Where.
    pub fn grid(&self) -> &Arc<LatLonGrid> {
        &self.meta.grid
    }

    /// The channels, in stored order.
    pub fn channels(&self) -> &[Variable] {
        &self.meta.channels
    }

    /// (lat, lon, channel).
    pub fn shape(&self) -> [usize; 3] {
        self.meta.shape()
    }

    /// The samples of a split, ascending.
    pub fn ids(&self, split: Split) -> Vec<usize> {
        let of_split = |id: &usize| self.index.samples[*id].split == split;
        (0..self.len()).filter(of_split).collect()
    }

    /// What is known of each sample, by id.
    pub fn samples(&self) -> &[SampleEntry] {
        &self.index.samples
    }

    /// When each sample is, by id.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// Of every channel, over the training samples.
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

    /// The normalisation that its training samples give, for all channels.
    pub fn normalisation(&self, method: NormalisationMethod) -> Normalisation {
        Normalisation::from_statistics(method, self.statistics())
    }

    /// The class weights that its training samples give.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if there is no training sample.
    pub fn class_weights(&self, weighting: ClassWeighting) -> Result<Vec<f32>> {
        weighting.weights(&self.class_counts(Split::Train))
    }

    /// Reads a sample in SI units, all channels, `(lat, lon, channel)`, and its class codes. Missing values become the
    /// channel's mean; gives back how many that were.
    ///
    /// # Errors
    /// As [`SampleReader::read_into`].
    pub fn read_sample_into(&self, id: usize, x: &mut [f32], labels: &mut [u8]) -> Result<usize> {
        let decoder = self.decoder(&self.meta.channels, None)?;
        self.read_record(&decoder, id, View::default(), x, labels)
    }

    /// Reads the class codes of a sample.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for an unknown id; [`DataError::Io`].
    pub fn read_mask(&self, id: usize) -> Result<ClassMask> {
        let (file, path, start) = self.locate(id)?;
        let (rows, columns) = self.meta.grid.shape();
        let mut codes = vec![0; rows * columns];
        file.read_exact_at(&mut codes, start + self.meta.field_bytes())
            .map_err(DataError::io("read", &path))?;
        let codes = Array2::from_shape_vec((rows, columns), codes)
            .map_err(|e| DataError::Invalid(e.to_string()))?;
        ClassMask::new(self.times[id], codes)
    }

    /// A reader of some channels, normalised if asked, in the order given.
    ///
    /// # Errors
    /// [`DataError::Invalid`] naming a channel that the store or the normalisation does not have.
    pub fn reader(
        self: &Arc<Self>,
        channels: &[Variable],
        normalisation: Option<&Normalisation>,
    ) -> Result<SampleReader> {
        Ok(SampleReader {
            decoder: self.decoder(channels, normalisation)?,
            channels: channels.len(),
            store: Arc::clone(self),
        })
    }

    /// Compares the checksum of every sample.
    ///
    /// # Errors
    /// [`DataError::Io`] if a shard cannot be read; damage is not an error here but a line of the result.
    pub fn verify(&self) -> Result<Verification> {
        let check = |id: usize| -> Result<Option<String>> {
            let mut hasher = Xxh3::new();
            let (file, path, start) = self.locate(id)?;
            let end = start + self.meta.field_bytes() + self.meta.label_bytes();
            let mut piece = vec![0; PIECE_BYTES];
            let mut at = start;
            while at < end {
                let size = ((end - at) as usize).min(PIECE_BYTES);
                file.read_exact_at(&mut piece[..size], at)
                    .map_err(DataError::io("read", &path))?;
                hasher.update(&piece[..size]);
                at += size as u64;
            }
            Ok(self
                .compare(id, &path, hasher.digest())
                .err()
                .map(|e| e.to_string()))
        };
        let found: Result<Vec<Option<String>>> =
            (0..self.len()).into_par_iter().map(check).collect();
        Ok(Verification {
            samples: self.len(),
            problems: found?.into_iter().flatten().collect(),
        })
    }

    fn decoder(
        &self,
        channels: &[Variable],
        normalisation: Option<&Normalisation>,
    ) -> Result<RecordDecoder> {
        let scales = match normalisation {
            Some(normalisation) => normalisation.select(channels)?.channels,
            None => {
                let mean = |v: Variable| self.statistics().of(v).map_or(0.0, |s| s.mean);
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

    /// The shard file of a sample, open, and where its record starts.
    fn locate(&self, id: usize) -> Result<(File, PathBuf, u64)> {
        if id >= self.len() {
            return Err(DataError::Invalid(format!(
                "store `{}` has {} samples; asked for sample {id}",
                self.folder.display(),
                self.len()
            )));
        }
        let shard = self.first_ids.partition_point(|&first| first <= id) - 1;
        let path = self.folder.join(&self.index.shards[shard].file);
        let file = File::open(&path).map_err(DataError::io("open", &path))?;
        let slot = (id - self.first_ids[shard]) as u64;
        Ok((file, path, slot * self.meta.record_bytes()))
    }

    fn compare(&self, id: usize, path: &Path, found: u64) -> Result<()> {
        let entry = &self.index.samples[id];
        let found = format!("{found:016x}");
        if found == entry.checksum {
            return Ok(());
        }
        Err(DataError::Damaged {
            path: path.to_path_buf(),
            reason: format!(
                "checksum of sample {id} ({}, from `{}`) is {found}, expected {}",
                entry.time, entry.source, entry.checksum
            ),
        })
    }

    fn read_record(
        &self,
        decoder: &RecordDecoder,
        id: usize,
        view: View,
        x: &mut [f32],
        labels: &mut [u8],
    ) -> Result<usize> {
        thread_local! {
            static BUFFERS: RefCell<(Vec<u8>, DecodeBuffers)> = RefCell::default();
        }
        let (rows, columns) = self.meta.grid.shape();
        let wanted = rows * columns * decoder.channels();
        if x.len() != wanted || labels.len() != rows * columns {
            return Err(DataError::Invalid(format!(
                "sample {id} has {wanted} values and {} labels; room for {} and {}",
                rows * columns,
                x.len(),
                labels.len()
            )));
        }
        let (file, path, start) = self.locate(id)?;
        let check = match self.checking {
            Checking::Always => true,
            Checking::Never => false,
            Checking::FirstRead => !self.checked[id].load(Ordering::Relaxed),
        };
        let mut hasher = Xxh3::new();
        let mut missing = 0;
        BUFFERS.with_borrow_mut(|(piece, buffers)| -> Result<()> {
            let row_bytes = self.meta.field_bytes() as usize / rows;
            let rows_at_once = (PIECE_BYTES / row_bytes).clamp(1, rows);
            piece.resize(rows_at_once * row_bytes, 0);
            for first in (0..rows).step_by(rows_at_once) {
                let count = rows_at_once.min(rows - first);
                let bytes = &mut piece[..count * row_bytes];
                file.read_exact_at(bytes, start + (first * row_bytes) as u64)
                    .map_err(DataError::io("read", &path))?;
                if check {
                    hasher.update(bytes);
                }
                let place = Placement {
                    first,
                    count,
                    rows,
                    columns,
                    view,
                };
                missing += place.decode(decoder, bytes, x, buffers);
            }
            file.read_exact_at(labels, start + self.meta.field_bytes())
                .map_err(DataError::io("read", &path))?;
            if check {
                hasher.update(labels);
            }
            Ok(())
        })?;
        if check {
            self.compare(id, &path, hasher.digest())?;
            self.checked[id].store(true, Ordering::Relaxed);
        }
        view.turn_labels(labels, columns);
        Ok(missing)
    }
}

/// Some rows of a record, and where they go.
struct Placement {
    first: usize,
    count: usize,
    rows: usize,
    columns: usize,
    view: View,
}

impl Placement {
    fn decode(
        &self,
        decoder: &RecordDecoder,
        bytes: &[u8],
        x: &mut [f32],
        buffers: &mut DecodeBuffers,
    ) -> usize {
        let row = self.columns * decoder.channels();
        if self.view == View::default() {
            let target = &mut x[self.first * row..(self.first + self.count) * row];
            return decoder.decode(bytes, false, target, buffers);
        }
        let mirror = self.view.mirror;
        // The columns that pass the eastern edge come back at the western one.
        let roll = self.view.roll % self.columns;
        let row_bytes = bytes.len() / self.count;
        let (split, split_bytes) = (
            roll * decoder.channels(),
            (self.columns - roll) * (row_bytes / self.columns),
        );
        let mut missing = 0;
        for (k, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            let j = self.first + k;
            let j = if mirror { self.rows - 1 - j } else { j };
            let (west, east) = x[j * row..(j + 1) * row].split_at_mut(split);
            missing += decoder.decode(&bytes[..split_bytes], mirror, east, buffers);
            missing += decoder.decode(&bytes[split_bytes..], mirror, west, buffers);
        }
        missing
    }
}

/// Reads samples of a store as a model wants them.
#[derive(Debug, Clone)]
pub struct SampleReader {
    store: Arc<Store>,
    decoder: RecordDecoder,
    channels: usize,
}

impl SampleReader {
    /// (lat, lon, channel) of what it reads.
    pub fn shape(&self) -> [usize; 3] {
        let [rows, columns, _] = self.store.shape();
        [rows, columns, self.channels]
    }

    /// The store it reads from.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Reads a sample and its class codes, turned as `view` says; gives back how many values were missing.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for an unknown id or wrong room; [`DataError::Damaged`] naming shard and sample if the checksum differs;
    /// [`DataError::Io`].
    pub fn read_into(
        &self,
        id: usize,
        view: View,
        x: &mut [f32],
        labels: &mut [u8],
    ) -> Result<usize> {
        self.store.read_record(&self.decoder, id, view, x, labels)
    }
}
