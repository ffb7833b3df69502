//! `boxes.jsonl`: the boxes of a store's samples, next to its index; and pseudo-labels that replace them in training.
//!
//! The first line identifies the store and holds the SHA-256 of the rest; then follows one line per sample, by id:
//! `null` if it is unlabelled, otherwise a list of `[class code, west, south, east, north, confidence]`. Stores without
//! the file have no boxes, and are otherwise the same.

use super::{Store, hex};
use crate::atomic;
use crate::boxes::{BoxClass, GeoBox};
use crate::error::{DataError, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Name of the file with the boxes in a store's folder.
pub const BOXES_FILE: &str = "boxes.jsonl";
const FORMAT: &str = "squall-boxes 1";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: String,
    data_hash: String,
    sha256: String,
}

type Row = (u8, f64, f64, f64, f64, Option<f32>);

/// The boxes of all samples.
#[derive(Debug)]
pub(super) struct StoreBoxes {
    /// Boxes by sample; `None` if unlabelled.
    samples: Vec<Option<Vec<GeoBox>>>,
    sha256: String,
}

/// Boxes found by a network in samples of a store, for training where labels are not used.
#[derive(Debug)]
pub(super) struct FoundBoxes {
    samples: BTreeMap<usize, Vec<GeoBox>>,
    sha256: String,
}

impl StoreBoxes {
    /// Reads the boxes of the store in a folder; `None` if it has none.
    ///
    /// # Errors
    /// [`DataError::Damaged`] if the file is damaged or belongs to another store; [`DataError::Io`].
    pub(super) fn read(folder: &Path, data_hash: &str, samples: usize) -> Result<Option<Self>> {
        let path = folder.join(BOXES_FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(DataError::damaged(&path, "it is no text"));
            }
            text => text.map_err(DataError::io("read", &path))?,
        };
        let (head, body) = text.split_once('\n').unwrap_or((&text, ""));
        let head: Head = serde_json::from_str(head)
            .map_err(|e| DataError::damaged(&path, format!("line 1: {e}")))?;
        if head.format != FORMAT || head.data_hash != data_hash {
            let reason = "it belongs to another store or version: stage again";
            return Err(DataError::damaged(&path, reason));
        }
        let found = hex(&Sha256::digest(body));
        if found != head.sha256 {
            let reason = format!("checksum is {found}, expected {}", head.sha256);
            return Err(DataError::damaged(&path, reason));
        }
        let lines: Result<Vec<_>> = (2..)
            .zip(body.lines())
            .map(|(n, l)| line(&path, n, l))
            .collect();
        let lines = lines?;
        if lines.len() != samples {
            let reason = format!("expected {samples} samples, found {}", lines.len());
            return Err(DataError::damaged(&path, reason));
        }
        Ok(Some(Self {
            samples: lines,
            sha256: head.sha256,
        }))
    }

    /// The boxes of a sample; `None` if it is unlabelled.
    pub(super) fn of_sample(&self, id: usize) -> Option<&[GeoBox]> {
        self.samples.get(id)?.as_deref()
    }

    /// SHA-256 (hexadecimal) of all boxes.
    pub(super) fn hash(&self) -> &str {
        &self.sha256
    }
}

fn line(path: &Path, number: usize, text: &str) -> Result<Option<Vec<GeoBox>>> {
    let bad = |reason: String| DataError::damaged(path, format!("line {number}: {reason}"));
    let rows: Option<Vec<Row>> = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
    let to_box = |(code, west_deg, south_deg, east_deg, north_deg, confidence): Row| {
        let class = BoxClass::from_code(code).ok_or_else(|| bad(format!("no class {code}")))?;
        Ok(GeoBox {
            class,
            west_deg,
            south_deg,
            east_deg,
            north_deg,
            confidence,
        })
    };
    rows.map(|rows| rows.into_iter().map(to_box).collect())
        .transpose()
}

/// Writes the boxes of a store; if there are none, removes those left by an earlier writer.
pub(super) fn write(
    folder: &Path,
    data_hash: &str,
    boxes: Option<&[Option<Vec<GeoBox>>]>,
) -> Result<()> {
    let path = folder.join(BOXES_FILE);
    let Some(samples) = boxes else {
        return atomic::remove(path).map(drop);
    };
    let body = body_of(samples)?;
    let head = Head {
        format: FORMAT.into(),
        data_hash: data_hash.into(),
        sha256: hex(&Sha256::digest(&body)),
    };
    let head = serde_json::to_string(&head).map_err(no_json)?;
    atomic::write(path, format!("{head}\n{body}").as_bytes())
}

/// Everything after the first line.
fn body_of(samples: &[Option<Vec<GeoBox>>]) -> Result<String> {
    let mut body = String::new();
    for boxes in samples {
        let rows: Option<Vec<Row>> = match boxes {
            None => None,
            Some(boxes) => {
                boxes.iter().try_for_each(GeoBox::check)?;
                Some(boxes.iter().map(row).collect())
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(body, "{}", serde_json::to_string(&rows).map_err(no_json)?);
    }
    Ok(body)
}

fn no_json(error: serde_json::Error) -> DataError {
    DataError::Invalid(format!("{BOXES_FILE}: {error}"))
}

fn row(geo: &GeoBox) -> Row {
    (
        geo.class.code(),
        geo.west_deg,
        geo.south_deg,
        geo.east_deg,
        geo.north_deg,
        geo.confidence,
    )
}

impl Store {
    /// The boxes of a sample: `None` if it is unlabelled or the store has no boxes at all; empty if it was searched and
    /// has none.
    pub fn boxes(&self, id: usize) -> Option<&[GeoBox]> {
        self.boxes.as_ref()?.of_sample(id)
    }

    /// Whether the store has boxes, at least for some samples.
    pub fn has_boxes(&self) -> bool {
        self.boxes.is_some()
    }

    /// SHA-256 (hexadecimal) of its boxes, if any; [`Store::data_hash`] does not include them.
    pub fn boxes_hash(&self) -> Option<&str> {
        self.boxes.as_ref().map(StoreBoxes::hash)
    }

    /// Whether its boxes are equal to these, by id.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if a box is invalid.
    pub fn has_these_boxes(&self, samples: &[Option<Vec<GeoBox>>]) -> Result<bool> {
        let hash = hex(&Sha256::digest(body_of(samples)?));
        Ok(self.boxes_hash() == Some(hash.as_str()))
    }

    /// The same store, in which these boxes replace the labels of their samples for training. [`Store::boxes`], which
    /// scores are computed against, is unchanged.
    #[must_use]
    pub fn with_found_boxes(mut self, samples: BTreeMap<usize, Vec<GeoBox>>) -> Self {
        let sha256 = hex(&Sha256::digest(format!("{samples:?}")));
        self.found = Some(FoundBoxes { samples, sha256 });
        self
    }

    /// The boxes that a sample teaches: found ones, or else its labels; `None` without either.
    pub fn boxes_to_learn(&self, id: usize) -> Option<&[GeoBox]> {
        let found = self.found.as_ref().and_then(|found| found.samples.get(&id));
        found.map(Vec::as_slice).or_else(|| self.boxes(id))
    }

    /// Whether found boxes replace a sample's labels.
    pub fn has_found_boxes(&self, id: usize) -> bool {
        (self.found.as_ref()).is_some_and(|found| found.samples.contains_key(&id))
    }

    /// SHA-256 (hexadecimal) of all found boxes, if any.
    pub fn found_boxes_hash(&self) -> Option<&str> {
        self.found.as_ref().map(|found| found.sha256.as_str())
    }
}
