//! Boxes that a network found in samples of a store, to be learnt from where labels are not used.

use super::{Store, hex};
use crate::boxes::GeoBox;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Found boxes, by sample.
#[derive(Debug)]
pub(super) struct FoundBoxes {
    samples: BTreeMap<usize, Vec<GeoBox>>,
    sha256: String,
}

impl Store {
    /// The same store, of which these samples teach these boxes instead of their labels. What scores are told against
    /// ([`Store::boxes`]) stays.
    #[must_use]
    pub fn with_found_boxes(mut self, samples: BTreeMap<usize, Vec<GeoBox>>) -> Self {
        let sha256 = hex(&Sha256::digest(format!("{samples:?}")));
        self.found = Some(FoundBoxes { samples, sha256 });
        self
    }

    /// The boxes that a sample teaches: found ones, else its labels; none where there are neither.
    pub fn boxes_to_learn(&self, id: usize) -> Option<&[GeoBox]> {
        let found = self.found.as_ref().and_then(|found| found.samples.get(&id));
        found.map(Vec::as_slice).or_else(|| self.boxes(id))
    }

    /// Whether found boxes take the place of a sample's labels.
    pub fn has_found_boxes(&self, id: usize) -> bool {
        (self.found.as_ref()).is_some_and(|found| found.samples.contains_key(&id))
    }

    /// SHA-256 (hexadecimal) of all found boxes; none if there are none.
    pub fn found_boxes_hash(&self) -> Option<&str> {
        self.found.as_ref().map(|found| found.sha256.as_str())
    }
}
