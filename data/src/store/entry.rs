//! Metadata of a store and of each of its samples.

use super::{PAGE, STORE_VERSION, Split};
use crate::{Calendar, LatLonGrid, Time, Variable};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// How the fields of a record are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Unchanged SI values, 4 bytes each.
    #[default]
    F32,
    /// Two bytes: `(value - offset) / scale` as f16, with one offset and scale per variable ([`Encoding::affine`]).
    F16,
}

impl Encoding {
    /// Bytes per value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    /// `(offset, scale)` of a variable: stored = (value - offset) / scale.
    ///
    /// Derived from the plausible range, so that they are known before the first sample. Ranges around or from zero
    /// keep offset 0, and with it the relative precision of small values (rain); others are centred. The error is at
    /// most 2⁻¹² of the half range: 3 Pa of sea-level pressure, 0.02 K, 0.03 m/s.
    pub fn affine(self, variable: Variable) -> (f64, f64) {
        let (low, high) = variable.entry().plausible;
        let (low, high) = (f64::from(low), f64::from(high));
        match self {
            Self::F32 => (0.0, 1.0),
            Self::F16 if low <= 0.0 && high >= 0.0 => (0.0, low.abs().max(high.abs())),
            Self::F16 => ((low + high) / 2.0, (high - low) / 2.0),
        }
    }
}

/// Properties shared by all samples of a store; fixed before the first is written.
#[derive(Debug, Clone)]
pub struct StoreMeta {
    /// The grid of all fields.
    pub grid: Arc<LatLonGrid>,
    /// The calendar of all times.
    pub calendar: Calendar,
    /// Channel order of the records.
    pub channels: Vec<Variable>,
    /// Number format of values.
    pub encoding: Encoding,
    /// Size at which a new shard begins, and the maximum loss if a writer is killed.
    pub shard_bytes: u64,
}

impl StoreMeta {
    /// A store of f32 records with shards of about 512 MiB.
    pub fn new(grid: Arc<LatLonGrid>, calendar: Calendar, channels: Vec<Variable>) -> Self {
        Self {
            grid,
            calendar,
            channels,
            encoding: Encoding::default(),
            shard_bytes: 512 << 20,
        }
    }

    /// The shape of a sample: (lat, lon, channel).
    pub fn shape(&self) -> [usize; 3] {
        let (rows, columns) = self.grid.shape();
        [rows, columns, self.channels.len()]
    }

    /// Bytes of the fields of one record.
    pub(super) fn field_bytes(&self) -> u64 {
        self.shape().iter().product::<usize>() as u64 * self.encoding.bytes() as u64
    }

    /// Bytes of the class codes of one record.
    pub(super) fn label_bytes(&self) -> u64 {
        let [rows, columns, _] = self.shape();
        (rows * columns) as u64
    }

    /// Bytes from one record to the next.
    pub fn record_bytes(&self) -> u64 {
        (self.field_bytes() + self.label_bytes()).next_multiple_of(PAGE)
    }

    /// Records in a full shard.
    pub fn samples_per_shard(&self) -> usize {
        (self.shard_bytes / self.record_bytes()).max(1) as usize
    }

    /// SHA-256 (hexadecimal) of everything that must match between the shards of one store.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(STORE_VERSION.to_le_bytes());
        hasher.update(self.grid.hash().to_le_bytes());
        hasher.update(self.calendar.cf_name());
        for variable in &self.channels {
            hasher.update(variable.name());
            hasher.update([0]);
        }
        hasher.update([self.encoding.bytes() as u8]);
        hasher.update(self.shard_bytes.to_le_bytes());
        hex(&hasher.finalize())
    }
}

/// One sample of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleEntry {
    /// Its time, as `YYYY-MM-DDThh:mm:ss` in the store's calendar.
    pub time: String,
    /// The file it came from.
    pub source: String,
    /// The time index in that file.
    pub source_index: usize,
    /// The split that it belongs to.
    pub split: Split,
    /// Number of pixels per class, in code order; all 0 for a sample without a mask.
    pub class_counts: [u64; 3],
    /// Number of missing values over all channels.
    pub missing: u64,
    /// xxh3 (64 bit) of fields and class codes as stored, hexadecimal.
    pub checksum: String,
}

impl SampleEntry {
    /// Whether it has a class mask.
    pub fn has_mask(&self) -> bool {
        self.class_counts.iter().any(|&count| count > 0)
    }

    pub(super) fn parse_time(&self, calendar: Calendar) -> crate::error::Result<Time> {
        Time::parse(&self.time, calendar)
    }
}

/// One shard file of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Name in the store's folder.
    pub file: String,
    /// Number of its records.
    pub samples: usize,
    /// Size of the file.
    pub bytes: u64,
}

/// Formats bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
