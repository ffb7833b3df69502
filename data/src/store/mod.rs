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
//! After the records comes what the index needs to know about them (JSON, with its length, checksum and a magic word),
//! so that a finished shard is complete even if the writer is killed, and a later writer continues behind it.
//!
//! A sample without a mask has no classes of pixels: it is left out of class weights, and is read neither for learning
//! masks nor for scoring them ([`Store::masked_ids`]).
//!
//! Boxes around storms, for detectors, are in a file of their own, `boxes.jsonl`, if the store has any
//! ([`Store::boxes`]).
//!
//! `squall stage` notes beside them what it made the store of (`origin.json`) and which times it could not read
//! (`left_out.txt`); reading samples needs neither.
//!
//! A [`LocalCopy`] of a store has the same index and shards of the same size, in which records that it was not given
//! are holes.

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

/// Version of the layout that this code writes and reads.
pub const STORE_VERSION: u32 = 1;
/// Name of the index in a store's folder.
pub const INDEX_FILE: &str = "store.json";
/// Records start at multiples of this.
const PAGE: u64 = 4096;
