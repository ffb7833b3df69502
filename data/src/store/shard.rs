//! A shard file: records, followed by their metadata.

use super::codec::RecordEncoder;
use super::{Encoding, SampleEntry, ShardEntry, Statistics, StoreMeta};
use crate::atomic::Pending;
use crate::error::{DataError, Result};
use crate::snapshot::shape_text;
use ndarray::{ArrayView2, ArrayView3};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Magic word at the end of a shard, after length and checksum of the footer.
const MAGIC: &[u8; 8] = b"SQSHARD1";
const TRAILER_BYTES: u64 = 24;

/// The metadata that follows the records of a shard.
#[derive(Debug, Serialize, Deserialize)]
pub struct Footer {
    /// [`StoreMeta::hash`] of the store it belongs to.
    pub meta_hash: String,
    /// Its samples, in record order.
    pub samples: Vec<SampleEntry>,
    /// Statistics over its training samples.
    pub statistics: Statistics,
}

/// The name of a shard file.
pub fn shard_name(index: usize) -> String {
    format!("shard-{index:05}.bin")
}

/// A shard being written under a temporary name.
pub struct ShardWriter {
    pending: Pending,
    out: BufWriter<File>,
    footer: Footer,
    name: String,
    record_bytes: u64,
}

impl ShardWriter {
    pub fn create(folder: &Path, index: usize, meta: &StoreMeta) -> Result<Self> {
        let name = shard_name(index);
        let pending = Pending::new(folder.join(&name))?;
        let file = pending.create()?;
        Ok(Self {
            out: BufWriter::with_capacity(1 << 20, file),
            footer: Footer {
                meta_hash: meta.hash(),
                samples: Vec::with_capacity(meta.samples_per_shard().min(4096)),
                statistics: Statistics::empty(&meta.channels),
            },
            name,
            record_bytes: meta.record_bytes(),
            pending,
        })
    }

    pub fn len(&self) -> usize {
        self.footer.samples.len()
    }

    /// Appends a record; sets the checksum in `entry`.
    pub fn push(
        &mut self,
        encoder: &mut RecordEncoder,
        fields_chw: ArrayView3<'_, f32>,
        codes: ArrayView2<'_, u8>,
        mut entry: SampleEntry,
        statistics: Option<&Statistics>,
    ) -> Result<()> {
        let record = encoder
            .write(fields_chw, codes, &mut self.out)
            .map_err(DataError::io("write", self.pending.path()))?;
        let padding = self.record_bytes - record.bytes;
        self.out
            .write_all(&vec![0; padding as usize])
            .map_err(DataError::io("write", self.pending.path()))?;
        entry.checksum = record.hex();
        self.footer.samples.push(entry);
        if let Some(statistics) = statistics {
            self.footer.statistics.merge(statistics);
        }
        Ok(())
    }

    /// Writes the footer and renames the shard to its final name.
    pub fn seal(mut self) -> Result<()> {
        let mut tail = serde_json::to_vec(&self.footer)
            .map_err(|e| DataError::Invalid(format!("footer of {}: {e}", self.name)))?;
        let (length, checksum) = (tail.len() as u64, xxh3_64(&tail));
        tail.extend_from_slice(&length.to_le_bytes());
        tail.extend_from_slice(&checksum.to_le_bytes());
        tail.extend_from_slice(MAGIC);
        self.out
            .write_all(&tail)
            .and_then(|()| self.out.flush())
            .map_err(DataError::io("write", self.pending.path()))?;
        drop(self.out);
        self.pending.commit()
    }
}

/// The last bytes of a shard, which identify a finished one; `None` if there is no finished shard.
pub fn trailer(path: &Path) -> Result<Option<[u8; TRAILER_BYTES as usize]>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(DataError::io("open", path))?,
    };
    let bytes = file.metadata().map_err(DataError::io("read", path))?.len();
    let Some(start) = bytes.checked_sub(TRAILER_BYTES) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, start)
        .map_err(DataError::io("read", path))?;
    Ok((trailer[16..] == MAGIC[..]).then_some(trailer))
}

/// Reads and checks the footer of a finished shard.
pub fn read_footer(path: &Path, meta: &StoreMeta) -> Result<(ShardEntry, Footer)> {
    let damaged = |reason: String| DataError::damaged(path, reason);
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let bytes = file.metadata().map_err(DataError::io("read", path))?.len();
    let read = |at: u64, buffer: &mut [u8]| {
        file.read_exact_at(buffer, at)
            .map_err(DataError::io("read", path))
    };
    if bytes < TRAILER_BYTES {
        return Err(damaged(format!("{bytes} bytes are too few for a shard")));
    }
    let mut trailer = [0; TRAILER_BYTES as usize];
    read(bytes - TRAILER_BYTES, &mut trailer)?;
    let number = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&trailer[at..at + 8]);
        u64::from_le_bytes(word)
    };
    if trailer[16..] != MAGIC[..] {
        return Err(damaged("it does not end like a finished shard".to_string()));
    }
    let length = number(0);
    let start = (bytes - TRAILER_BYTES)
        .checked_sub(length)
        .ok_or_else(|| damaged(format!("a footer of {length} bytes does not fit in it")))?;
    let mut footer = vec![0; length as usize];
    read(start, &mut footer)?;
    if xxh3_64(&footer) != number(8) {
        return Err(damaged("checksum of its footer differs".to_string()));
    }
    let footer: Footer =
        serde_json::from_slice(&footer).map_err(|e| damaged(format!("its footer: {e}")))?;
    if footer.meta_hash != meta.hash() {
        return Err(DataError::mismatch(
            "store layout (grid, calendar, channels, encoding or shard size)",
            path,
            describe(meta),
            format!("a shard of layout {}", &footer.meta_hash),
        ));
    }
    let samples = footer.samples.len();
    let expected = samples as u64 * meta.record_bytes();
    if start != expected {
        return Err(damaged(format!(
            "expected {samples} records in {expected} bytes, found {start} bytes"
        )));
    }
    let file = file_name(path);
    Ok((
        ShardEntry {
            file,
            samples,
            bytes,
        },
        footer,
    ))
}

fn describe(meta: &StoreMeta) -> String {
    let encoding = match meta.encoding {
        Encoding::F32 => "f32",
        Encoding::F16 => "f16",
    };
    format!(
        "layout {} ({} {encoding})",
        meta.hash(),
        shape_text(&meta.shape())
    )
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
