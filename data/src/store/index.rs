//! `store.json`: the index of a finished store.

use super::shard::shard_name;
use super::{
    Encoding, INDEX_FILE, STORE_VERSION, SampleEntry, ShardEntry, Statistics, StoreMeta, hex,
};
use crate::error::{DataError, Result};
use crate::{Calendar, ChannelSources, LatLonGrid, Variable};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

const FORMAT: &str = "squall-store";

/// The contents of `store.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct IndexFile {
    format: String,
    version: u32,
    lat_deg: Vec<f64>,
    lon_deg: Vec<f64>,
    calendar: Calendar,
    channels: Vec<Variable>,
    /// Empty if not known, as in stores of earlier versions.
    #[serde(default, skip_serializing_if = "ChannelSources::is_empty")]
    pub sources: ChannelSources,
    encoding: Encoding,
    record_bytes: u64,
    shard_bytes: u64,
    pub data_hash: String,
    pub statistics: Statistics,
    pub shards: Vec<ShardEntry>,
    pub samples: Vec<SampleEntry>,
}

/// The version alone, to report an unsupported index.
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
        sources: ChannelSources,
    ) -> Self {
        Self {
            format: FORMAT.to_string(),
            version: STORE_VERSION,
            lat_deg: meta.grid.lat_deg().to_vec(),
            lon_deg: meta.grid.lon_deg().to_vec(),
            calendar: meta.calendar,
            channels: meta.channels.clone(),
            sources,
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

/// SHA-256 of the data: layout, and time, split and content of every sample, but neither paths nor sources.
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

/// Reads and checks the index of a store, without checking its shards.
pub fn read_alone(folder: &Path) -> Result<(IndexFile, StoreMeta)> {
    let path = folder.join(INDEX_FILE);
    if !path.exists() {
        return Err(DataError::NoStore {
            folder: folder.to_path_buf(),
            unfinished: folder.join(shard_name(0)).exists(),
        });
    }
    let text = std::fs::read(&path).map_err(DataError::io("read", &path))?;
    let head: IndexHead =
        serde_json::from_slice(&text).map_err(|e| DataError::damaged(&path, e))?;
    if head.format != FORMAT || head.version != STORE_VERSION {
        return Err(DataError::mismatch(
            "store version",
            path,
            format!("{FORMAT} {STORE_VERSION}"),
            format!("{} {}", head.format, head.version),
        ));
    }
    let index: IndexFile =
        serde_json::from_slice(&text).map_err(|e| DataError::damaged(&path, e))?;
    let (grid, order) = LatLonGrid::from_axes(index.lat_deg.clone(), index.lon_deg.clone())
        .map_err(|e| DataError::damaged(&path, e))?;
    // Records follow these axes, so their order must be canonical.
    if order != Default::default() {
        return Err(DataError::damaged(
            &path,
            "its axes are not in the order of a grid: stage again",
        ));
    }
    let meta = StoreMeta {
        grid: Arc::new(grid),
        calendar: index.calendar,
        channels: index.channels.clone(),
        encoding: index.encoding,
        shard_bytes: index.shard_bytes,
    };
    // Any other name could point outside of the folder, which a local copy writes to as well.
    let mut shards = index.shards.iter().enumerate();
    if let Some((number, shard)) = shards.find(|(number, shard)| shard.file != shard_name(*number))
    {
        let reason = format!("shard `{}`: expected {}", shard.file, shard_name(number));
        return Err(DataError::damaged(path, reason));
    }
    let in_shards: usize = index.shards.iter().map(|s| s.samples).sum();
    let too_small = |shard: &ShardEntry| shard.bytes / meta.record_bytes() < shard.samples as u64;
    if index.record_bytes != meta.record_bytes()
        || index.shards.iter().any(too_small)
        || in_shards != index.samples.len()
        || index.statistics.variables != meta.channels
        || index.statistics.channels.len() != meta.channels.len()
        || index.data_hash != data_hash(&meta, &index.samples)
    {
        return Err(DataError::damaged(
            &path,
            "record size, sample count, statistics or data hash contradict the rest",
        ));
    }
    Ok((index, meta))
}

/// Reads and checks the index of a store, and the sizes of its shards; also returns the id of the first sample of each
/// shard.
pub fn read(folder: &Path) -> Result<(IndexFile, StoreMeta, Vec<usize>)> {
    let (index, meta) = read_alone(folder)?;
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
            return Err(DataError::damaged(
                &path,
                format!(
                    "truncated or replaced: expected {} bytes, found {found}",
                    shard.bytes
                ),
            ));
        }
    }
    Ok((index, meta, first_ids))
}
