//! The sample store: what training reads instead of simulation files.
//!
//! A store is a folder with an index `store.json` and shard files `shard-00000.bin`, ... Every shard holds records of
//! one size, each starting on a page boundary:
//!
//! | bytes | what |
//! |---|---|
//! | `h·w·c·size` | the fields, `(lat, lon, channel)`, little-endian f32 or f16 ([`Encoding`]) |
//! | `h·w` | the class codes, one byte each; of a sample without a mask all [`UNLABELLED`](crate::label::UNLABELLED) |
//! | up to the next multiple of 4096 | zeros |
//!
//! The records are followed by their metadata (JSON, with its length, checksum and a magic word), so that a finished
//! shard is complete even if the writer is killed, and a later writer can continue after it.
//!
//! A sample without a mask has no pixel classes: it is excluded from class weights, and from training on masks and
//! scoring them ([`Store::masked_ids`]).
//!
//! Boxes around storms, for detectors, are in a separate file, `boxes.jsonl`, if the store has any ([`Store::boxes`]).
//!
//! The index names what served as each channel in the files ([`Store::sources`]), if the writer was told.
//!
//! `squall stage` also records the sources of the store (`origin.json`) and the times that it could not read
//! (`left_out.txt`); readers need neither.
//!
//! A [`LocalCopy`] of a store has the same index and shards of the same size; records that it lacks are holes.

mod boxes;
mod codec;
mod entry;
mod guard;
mod index;
mod local;
mod reader;
mod record;
mod selection;
mod shard;
mod split;
mod statistics;
mod writer;

pub use boxes::BOXES_FILE;
pub use codec::View;
pub(crate) use entry::hex;
pub use entry::{Encoding, SampleEntry, ShardEntry, StoreMeta};
pub use guard::too_near;
pub use local::{LocalCopy, STAGED_FILE};
pub use reader::{Store, Verification};
pub use record::SampleReader;
pub use selection::{Selected, Selection};
pub use split::{Split, SplitRule};
pub use statistics::{ChannelStatistics, Statistics};
pub use writer::StoreWriter;

/// Version of the format that this code writes and reads.
pub const STORE_VERSION: u32 = 1;
/// Name of the index in a store's folder.
pub const INDEX_FILE: &str = "store.json";
/// Alignment of records.
const PAGE: u64 = 4096;
