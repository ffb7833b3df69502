//! Options of an inference.

use super::{FilePer, Strips};
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::time::Duration;

/// How to handle a time whose fields are unusable or for which the network's output is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BadInput {
    /// The inference ends with an error that names file and variable, or model, time and file.
    #[default]
    Fail,
    /// The time gets no mask; manifest and report list it.
    Skip,
}

/// Options of an inference.
#[derive(Debug, Clone, PartialEq)]
pub struct InferOptions {
    /// Also write the probabilities of cyclones and of rivers. Default no.
    pub probabilities: bool,
    /// Also write `ar_binary_tag`, in ARTMIP's format. Default no.
    pub artmip: bool,
    /// How many times share a mask file. Default: a day.
    pub file_per: FilePer,
    /// Samples per batch. Default: as many as make small fields fast ([`super::batch_for`]), fewer if memory does not
    /// suffice.
    pub batch: Option<NonZeroUsize>,
    /// How to handle a time whose fields are unusable. Default: the inference ends.
    pub bad_input: BadInput,
    /// Maximum share of missing values in a usable time. Default 0.2.
    pub max_missing_share: f64,
    /// Number of prefetched samples, and of masks waiting to be written. Default 4.
    pub read_ahead: usize,
    /// Number of strips of latitude that the network is computed in. Default one. Not in the manifest: masks are the
    /// same.
    pub strips: Strips,
    /// How long the work of another rank may stand still at a batch or a write, and four times as long at a read, before
    /// the ranks that wait for it give up; at least 300 s. Default 900 s. Not in the manifest: masks are the same.
    pub stalled_after: Duration,
    /// Additional global attributes of the mask files: `institution`, `references`, ... Default none.
    pub attributes: Vec<(String, String)>,
}

impl Default for InferOptions {
    fn default() -> Self {
        Self {
            probabilities: false,
            artmip: false,
            file_per: FilePer::default(),
            batch: None,
            bad_input: BadInput::default(),
            max_missing_share: 0.2,
            read_ahead: 4,
            strips: Strips::default(),
            stalled_after: Duration::from_secs(900),
            attributes: Vec::new(),
        }
    }
}
