//! The checksum of a model file: safetensors itself detects truncation, but not changed bytes.

use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// The metadata key of a file's checksum, hidden from callers.
pub(crate) const CHECKSUM: &str = "checksum";

/// XXH3 over the metadata, then over every tensor's name, shape and values, in order of names.
pub(crate) struct Checksum(Xxh3);

impl Checksum {
    /// The checksum of a file with this metadata, before its tensors are added.
    pub fn of_facts(facts: &BTreeMap<String, String>) -> Self {
        let mut hash = Xxh3::new();
        for (name, fact) in facts.iter().filter(|(name, _)| *name != CHECKSUM) {
            hash.update(format!("{name}\n{fact}\n").as_bytes());
        }
        Self(hash)
    }

    /// Starts the next tensor.
    pub fn begin(&mut self, name: &str, shape: &[usize]) {
        self.0.update(format!("{name} {shape:?}").as_bytes());
    }

    /// Adds values of the current tensor, as bytes in the file's order.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum in the text form stored in the metadata.
    pub fn text(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }
}
