//! Writes a store in shards that survive a killed writer.

use super::codec::RecordEncoder;
use super::index::IndexFile;
use super::shard::{ShardWriter, read_footer, shard_name};
use super::statistics::ChannelStatistics;
use super::{BOXES_FILE, INDEX_FILE, SampleEntry, ShardEntry, Split, Statistics, Store, StoreMeta};
use crate::error::{DataError, Result};
use crate::label::UNLABELLED;
use crate::snapshot::shape_text;
use crate::{ChannelSources, ClassMask, GeoBox, Snapshot, atomic};
use ndarray::{Array2, Array3, ArrayView2, ArrayView3, Axis};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes a store sample by sample. One writer per folder at a time.
///
/// A killed writer loses at most the samples of its unfinished shard: a new writer on the same folder with the same
/// [`StoreMeta`] continues after the finished shards, at sample [`StoreWriter::len`].
pub struct StoreWriter {
    folder: PathBuf,
    meta: StoreMeta,
    shards: Vec<ShardEntry>,
    samples: Vec<SampleEntry>,
    /// Statistics over the training samples of finished shards.
    statistics: Statistics,
    sources: ChannelSources,
    current: Option<ShardWriter>,
    encoder: RecordEncoder,
    fields: Array3<f32>,
}

impl StoreWriter {
    /// Starts a store in a folder, or continues an existing one.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if there are no channels or duplicates; [`DataError::Mismatch`] if the folder holds
    /// shards of another layout; [`DataError::Damaged`] if one of its shards is damaged; [`DataError::Io`].
    pub fn create(folder: impl AsRef<Path>, meta: StoreMeta) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let mut sorted = meta.channels.clone();
        sorted.sort();
        sorted.dedup();
        if meta.channels.is_empty() || sorted.len() != meta.channels.len() {
            return Err(DataError::Invalid(format!(
                "a store needs channels, each once; asked for: {}",
                crate::normalise::names(&meta.channels)
            )));
        }
        std::fs::create_dir_all(&folder).map_err(DataError::io("create folder", &folder))?;
        let removed = atomic::sweep(&folder, |name| {
            name.starts_with("shard-") || [INDEX_FILE, BOXES_FILE].contains(&name)
        })?;
        let mut writer = Self {
            encoder: RecordEncoder::new(&meta),
            fields: Array3::zeros((0, 0, 0)),
            shards: Vec::new(),
            samples: Vec::new(),
            statistics: Statistics::empty(&meta.channels),
            sources: ChannelSources::new(),
            current: None,
            folder,
            meta,
        };
        while writer.next_shard().exists() {
            writer.take_in()?;
        }
        if !writer.is_empty() || removed > 0 {
            tracing::info!(
                store = %writer.folder.display(),
                samples = writer.len(),
                unfinished_shards_removed = removed,
                "continuing a sample store"
            );
        }
        Ok(writer)
    }

    /// Number of samples; also the id of the next one.
    pub fn len(&self) -> usize {
        self.samples.len() + self.current.as_ref().map_or(0, ShardWriter::len)
    }

    /// Whether nothing is in it yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples in finished shards: after [`StoreWriter::create`], all samples.
    pub fn samples(&self) -> &[SampleEntry] {
        &self.samples
    }

    /// Records what served as each channel of all samples, for [`Store::sources`].
    pub fn set_sources(&mut self, sources: ChannelSources) {
        self.sources = sources;
    }

    /// Appends a sample. Infinite values are stored as missing.
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] if the snapshot lacks a channel; [`DataError::Mismatch`] if its grid or calendar,
    /// or the time or shape of the mask differ; [`DataError::Invalid`] for a class code above 2; [`DataError::Io`].
    pub fn push(&mut self, snapshot: &Snapshot, mask: &ClassMask, split: Split) -> Result<()> {
        self.check(snapshot)?;
        self.check_mask(snapshot, mask)?;
        let mut class_counts = [0u64; 3];
        for &code in &mask.codes {
            let count = class_counts.get_mut(usize::from(code)).ok_or_else(|| {
                DataError::Invalid(format!("mask of {}: {code} is no class code", mask.time))
            })?;
            *count += 1;
        }
        self.append(snapshot, mask.codes.view(), class_counts, split)
    }

    /// Appends a sample without a mask: the classes of its pixels are unknown.
    ///
    /// # Errors
    /// As [`StoreWriter::push`].
    pub fn push_without_mask(&mut self, snapshot: &Snapshot, split: Split) -> Result<()> {
        self.check(snapshot)?;
        let codes = Array2::from_elem(self.meta.grid.shape(), UNLABELLED);
        self.append(snapshot, codes.view(), [0; 3], split)
    }

    fn append(
        &mut self,
        snapshot: &Snapshot,
        codes: ArrayView2<'_, u8>,
        class_counts: [u64; 3],
        split: Split,
    ) -> Result<()> {
        let planes: Vec<_> = self
            .meta
            .channels
            .iter()
            .filter_map(|&variable| snapshot.field(variable))
            .collect();
        let channels: Vec<ChannelStatistics> = planes
            .par_iter()
            .map(|plane| ChannelStatistics::of_plane(*plane))
            .collect();
        let missing = channels.iter().map(|c| c.missing).sum();
        let entry = SampleEntry {
            time: snapshot.time.to_string(),
            source: snapshot.source.0.to_string_lossy().into_owned(),
            source_index: snapshot.source.1,
            split,
            class_counts,
            missing,
            checksum: String::new(),
        };
        let statistics = Statistics {
            variables: self.meta.channels.clone(),
            channels,
            samples: 1,
        };
        let fields = in_order(&self.meta, snapshot, &mut self.fields);
        let shard = match &mut self.current {
            Some(shard) => shard,
            None => {
                let shard = ShardWriter::create(&self.folder, self.shards.len(), &self.meta)?;
                self.current.insert(shard)
            }
        };
        let for_statistics = (split == Split::Train).then_some(&statistics);
        shard.push(&mut self.encoder, fields, codes, entry, for_statistics)?;
        if shard.len() >= self.meta.samples_per_shard() {
            self.seal()?;
        }
        Ok(())
    }

    /// The checksum that this sample, with or without a mask, would have in the store, for comparison with an existing
    /// one. Writes nothing.
    ///
    /// # Errors
    /// As [`StoreWriter::push`].
    pub fn checksum_of(&mut self, snapshot: &Snapshot, mask: Option<&ClassMask>) -> Result<String> {
        self.check(snapshot)?;
        let unlabelled = Array2::from_elem(self.meta.grid.shape(), UNLABELLED);
        let codes = match mask {
            Some(mask) => {
                self.check_mask(snapshot, mask)?;
                mask.codes.view()
            }
            None => unlabelled.view(),
        };
        let fields = in_order(&self.meta, snapshot, &mut self.fields);
        let record = self
            .encoder
            .write(fields, codes, &mut std::io::sink())
            .map_err(DataError::io("read", &snapshot.source.0))?;
        Ok(record.hex())
    }

    fn check_mask(&self, snapshot: &Snapshot, mask: &ClassMask) -> Result<()> {
        let (rows, columns) = self.meta.grid.shape();
        if mask.codes.shape() != [rows, columns] {
            let found = shape_text(mask.codes.shape());
            let expected = shape_text(&[rows, columns]);
            return Err(differs(snapshot, "shape of the mask", expected, found));
        }
        if mask.time != snapshot.time {
            let (expected, found) = (snapshot.time.to_string(), mask.time.to_string());
            return Err(differs(snapshot, "time of the mask", expected, found));
        }
        Ok(())
    }

    fn check(&self, snapshot: &Snapshot) -> Result<()> {
        let path = &snapshot.source.0;
        let differs = |what, expected, found| differs(snapshot, what, expected, found);
        let same_grid =
            Arc::ptr_eq(&snapshot.grid, &self.meta.grid) || snapshot.grid.same_as(&self.meta.grid);
        if !same_grid {
            let [expected, found] = self.meta.grid.describe_beside(&snapshot.grid);
            return Err(differs("grid", expected, found));
        }
        let (rows, columns) = self.meta.grid.shape();
        let planes = [snapshot.variables.len(), rows, columns];
        if snapshot.fields.shape() != planes {
            let (expected, found) = (shape_text(&planes), shape_text(snapshot.fields.shape()));
            return Err(differs("shape of the fields", expected, found));
        }
        if snapshot.time.calendar() != self.meta.calendar {
            let found = snapshot.time.calendar().to_string();
            return Err(differs("calendar", self.meta.calendar.to_string(), found));
        }
        let lacks = |v: &&crate::Variable| !snapshot.variables.contains(v);
        match self.meta.channels.iter().find(lacks) {
            Some(variable) => Err(DataError::MissingVariable {
                path: path.clone(),
                variable: variable.name().to_string(),
                found: snapshot
                    .variables
                    .iter()
                    .map(|v| v.name().to_string())
                    .collect(),
            }),
            None => Ok(()),
        }
    }

    /// The path of the shard after the finished ones, whether or not it exists.
    fn next_shard(&self) -> PathBuf {
        self.folder.join(shard_name(self.shards.len()))
    }

    /// Adds that shard to the finished ones, using its own footer, so that interrupted and uninterrupted runs end with
    /// the same bits.
    fn take_in(&mut self) -> Result<()> {
        let (shard, footer) = read_footer(&self.next_shard(), &self.meta)?;
        self.shards.push(shard);
        self.samples.extend(footer.samples);
        self.statistics.merge(&footer.statistics);
        Ok(())
    }

    /// Completes the current shard, whose samples are safe from then on.
    fn seal(&mut self) -> Result<()> {
        match self.current.take() {
            Some(shard) => {
                shard.seal()?;
                self.take_in()
            }
            None => Ok(()),
        }
    }

    /// Writes the index and opens the finished store.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if nothing was written; [`DataError::Io`].
    pub fn finish(self) -> Result<Store> {
        self.finish_with_boxes(None)
    }

    /// Like [`StoreWriter::finish`], with the boxes of every sample by id; `None` for an unlabelled sample. Without
    /// `boxes`, removes those left by an earlier writer.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if nothing was written, the number of lists differs from that of samples, or a box is
    /// invalid; [`DataError::Io`].
    pub fn finish_with_boxes(mut self, boxes: Option<&[Option<Vec<GeoBox>>]>) -> Result<Store> {
        self.seal()?;
        if self.samples.is_empty() {
            return Err(DataError::Invalid(format!(
                "no sample for the store `{}`",
                self.folder.display()
            )));
        }
        if let Some(boxes) = boxes.filter(|boxes| boxes.len() != self.samples.len()) {
            return Err(DataError::Invalid(format!(
                "boxes of the store `{}`: expected lists for {} samples, found {}",
                self.folder.display(),
                self.samples.len(),
                boxes.len()
            )));
        }
        let (shards, samples) = (self.shards, self.samples);
        let index = IndexFile::new(&self.meta, shards, samples, self.statistics, self.sources);
        let text = serde_json::to_vec(&index)
            .map_err(|e| DataError::Invalid(format!("index of the store: {e}")))?;
        // Before the index, which marks the store as finished.
        super::boxes::write(&self.folder, &index.data_hash, boxes)?;
        atomic::write(self.folder.join(INDEX_FILE), &text)?;
        Store::open(&self.folder)
    }
}

/// The fields of a snapshot in the channel order of a store; uses `room` if that order differs.
fn in_order<'a>(
    meta: &StoreMeta,
    snapshot: &'a Snapshot,
    room: &'a mut Array3<f32>,
) -> ArrayView3<'a, f32> {
    if snapshot.variables == meta.channels {
        return snapshot.fields.view();
    }
    let (rows, columns) = meta.grid.shape();
    let shape = (meta.channels.len(), rows, columns);
    if room.dim() != shape {
        *room = Array3::zeros(shape);
    }
    let planes = meta.channels.iter().filter_map(|&v| snapshot.field(v));
    for (mut target, plane) in room.axis_iter_mut(Axis(0)).zip(planes) {
        target.assign(&plane);
    }
    room.view()
}

/// The error for a sample that does not match its store.
fn differs(snapshot: &Snapshot, what: &'static str, expected: String, found: String) -> DataError {
    DataError::mismatch(what, &snapshot.source.0, expected, found)
}
