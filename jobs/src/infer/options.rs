//! How to infer.

use super::{FilePer, Strips};
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// What happens to a time whose fields cannot be used, or for which the network gives no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BadInput {
    /// The inference ends with an error that names file and variable, or model, time and file.
    #[default]
    Fail,
    /// The time gets no mask; manifest and report name it.
    Skip,
}

/// How to infer.
#[derive(Debug, Clone, PartialEq)]
pub struct InferOptions {
    /// Also keep the probabilities of cyclones and of rivers. Default no.
    pub probabilities: bool,
    /// Also keep `ar_binary_tag`, as ARTMIP wants rivers. Default no.
    pub artmip: bool,
    /// How many times share a mask file. Default a day.
    pub file_per: FilePer,
    /// Samples computed at once. Default: as many as make small fields fast ([`super::batch_for`]), fewer if memory
    /// does not suffice.
    pub batch: Option<NonZeroUsize>,
    /// What happens to a time whose fields cannot be used. Default: the inference ends.
    pub bad_input: BadInput,
    /// A time with a larger share of missing values cannot be used. Default 0.2.
    pub max_missing_share: f64,
    /// Samples read ahead, and masks waiting to be written. Default 4.
    pub read_ahead: usize,
    /// In how many strips of latitude the network is computed. Default one. Not in the manifest: masks are the same.
    pub strips: Strips,
    /// Further global attributes of the mask files: `institution`, `references`, ... Default none.
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
            attributes: Vec::new(),
        }
    }
}
