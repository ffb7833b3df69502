//! The checksum of a model file: safetensors itself notices what is cut short, not what is changed.

use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// The fact that holds the checksum of a file; nobody else sees it.
pub(crate) const CHECKSUM: &str = "checksum";

/// XXH3 of facts, then of every tensor's name, shape and values, in the order of names.
pub(crate) struct Checksum(Xxh3);

impl Checksum {
    /// That of a file with these facts, before its tensors.
    pub fn of_facts(facts: &BTreeMap<String, String>) -> Self {
        let mut hash = Xxh3::new();
        for (name, fact) in facts.iter().filter(|(name, _)| *name != CHECKSUM) {
            hash.update(format!("{name}\n{fact}\n").as_bytes());
        }
        Self(hash)
    }

    /// Goes on to the next tensor.
    pub fn begin(&mut self, name: &str, shape: &[usize]) {
        self.0.update(format!("{name} {shape:?}").as_bytes());
    }

    /// Adds values of the tensor, as the file has them.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// As the fact says it.
    pub fn text(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }
}
