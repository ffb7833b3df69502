//! `metrics.jsonl`: one JSON object per line. An interrupted and resumed run writes the same bytes as an uninterrupted
//! one.
//!
//! Wall-clock times are in `timing.jsonl` instead, so that the metrics of two runs can be compared byte by byte.

use crate::error::{JobError, Result};
use crate::train::StalenessSummary;
use crate::train::evaluate::Scores;
use serde::{Deserialize, Serialize};
use squall_data::DataError;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A line of `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Metric {
    /// A training step.
    Step {
        /// Steps done, this one included.
        step: u64,
        /// Epoch, counted from 0.
        epoch: u64,
        /// Weighted mean cross entropy; `None` if it was not finite.
        loss: Option<f64>,
        /// Norm of the gradient before clipping; `None` if it was not finite.
        gradient_norm: Option<f64>,
        /// Learning rate.
        learning_rate: f32,
        /// Whether the step was skipped because loss or gradient was not finite.
        skipped: bool,
    },
    /// A validation.
    Validation {
        /// Steps done before it.
        step: u64,
        /// How good the network is.
        scores: Scores,
        /// Whether it is the best so far.
        best: bool,
    },
    /// With groups: whose gradients a step used, and their staleness.
    Update {
        /// Steps done, this one included.
        step: u64,
        /// The group, counted from 0.
        group: usize,
        /// Number of updates by other groups since this group read the parameters, on the first server.
        staleness: u64,
    },
    /// With groups: staleness so far.
    Staleness {
        /// Steps done.
        step: u64,
        /// Statistics over all updates.
        #[serde(flatten)]
        staleness: StalenessSummary,
    },
}

impl Metric {
    /// Steps done when the line was written.
    pub fn step(&self) -> u64 {
        match self {
            Self::Step { step, .. }
            | Self::Validation { step, .. }
            | Self::Update { step, .. }
            | Self::Staleness { step, .. } => *step,
        }
    }
}

/// A line of `timing.jsonl`: means over the steps since the previous line.
#[derive(Debug, Serialize)]
pub(crate) struct Timing {
    /// Steps done.
    pub step: u64,
    /// Seconds per step.
    pub step_seconds: f64,
    /// Seconds per step spent waiting for data.
    pub wait_seconds: f64,
    /// Samples per second.
    pub samples_per_second: f64,
}

/// Appends lines to a file, flushing after each.
#[derive(Debug)]
pub(crate) struct JsonLines {
    path: PathBuf,
    file: File,
}

impl JsonLines {
    /// Opens a file for appending, creating it if needed. Removes an incomplete last line, as a full disk may leave it,
    /// because the next line would be appended to it.
    ///
    /// # Errors
    /// [`JobError::Data`].
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(DataError::io("append to", path))?;
        let bytes = std::fs::read(path).map_err(DataError::io("read", path))?;
        let end = bytes.iter().rposition(|&byte| byte == b'\n');
        let whole = end.map_or(0, |end| end + 1);
        if whole < bytes.len() {
            let cut = file.set_len(whole as u64);
            cut.map_err(DataError::io("shorten", path))?;
        }
        Ok(Self {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Appends one line.
    ///
    /// # Errors
    /// [`JobError::Data`].
    pub fn push(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = to_json(line, &self.path)?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        Ok(written.map_err(DataError::io("append to", &self.path))?)
    }

    /// Syncs the lines so far to disk.
    ///
    /// # Errors
    /// [`JobError::Data`].
    pub fn sync(&self) -> Result<()> {
        let synced = self.file.sync_data();
        Ok(synced.map_err(DataError::io("sync", &self.path))?)
    }
}

/// Serialises a value of ours to one line of JSON.
pub(crate) fn to_json(value: &impl Serialize, path: &Path) -> Result<String> {
    serde_json::to_string(value).map_err(no_json(path))
}

/// The same, pretty-printed.
pub(crate) fn to_pretty_json(value: &impl Serialize, path: &Path) -> Result<String> {
    serde_json::to_string_pretty(value).map_err(no_json(path))
}

fn no_json(path: &Path) -> impl FnOnce(serde_json::Error) -> JobError {
    move |error| JobError::damaged(path, format!("cannot be written as JSON: {error}"))
}

/// A number; `null` in JSON stands for NaN.
pub(crate) fn number_or_nan<'a, D: serde::Deserializer<'a>>(
    reader: D,
) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(reader)?.unwrap_or(f64::NAN))
}

/// A path in a report. Bytes that are not valid UTF-8 become `\u{fffd}`, since failing to write the report would be
/// worse.
pub(crate) fn path_as_text<S: serde::Serializer>(
    path: &Path,
    writer: S,
) -> std::result::Result<S::Ok, S::Error> {
    writer.serialize_str(&path.to_string_lossy())
}

/// The same for several paths.
pub(crate) fn paths_as_text<S: serde::Serializer>(
    paths: &[PathBuf],
    writer: S,
) -> std::result::Result<S::Ok, S::Error> {
    writer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// Reads the metrics of a run; empty if the file does not exist. An incomplete last line is ignored.
///
/// # Errors
/// [`JobError::Damaged`] naming an invalid line; [`JobError::Data`].
pub fn read_metrics(path: &Path) -> Result<Vec<Metric>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| JobError::damaged(path, format!("line {}: {error}", number + 1)))
    };
    whole.lines().enumerate().map(parse).collect()
}

/// Drops what was written after `step`, so that a resumed run writes the same file as an uninterrupted one; also drops
/// the validations after the steps of `again`, which were interrupted and will be repeated.
///
/// # Errors
/// As [`read_metrics`]; [`JobError::Data`] if the file cannot be replaced.
pub(crate) fn truncate_after(path: &Path, step: u64, again: &[u64]) -> Result<()> {
    let metrics = read_metrics(path)?;
    let mut text = String::new();
    let comes_again = |metric: &Metric| match metric {
        Metric::Validation { step, .. } => again.contains(step),
        _ => false,
    };
    let kept = |metric: &&Metric| metric.step() <= step && !comes_again(metric);
    for metric in metrics.iter().filter(kept) {
        text.push_str(&to_json(metric, path)?);
        text.push('\n');
    }
    squall_data::atomic::write(path, text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::evaluate::{BothScores, BoxScores, MaskScores};

    fn metric(step: u64) -> Metric {
        Metric::Step {
            step,
            epoch: 0,
            loss: Some(1.0 / step as f64),
            gradient_norm: (step != 2).then_some(0.1),
            learning_rate: 1e-3,
            skipped: step == 2,
        }
    }

    #[test]
    fn a_truncated_file_continues_as_if_nothing_had_been_written_after() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, resumed) = (folder.path().join("whole"), folder.path().join("resumed"));
        let write = |path: &Path, steps: std::ops::RangeInclusive<u64>| {
            let mut lines = JsonLines::open(path).unwrap();
            steps.for_each(|step| lines.push(&metric(step)).unwrap());
            lines.sync().unwrap();
        };
        write(&whole, 1..=9);
        write(&resumed, 1..=7);
        // Killed in the middle of a line.
        let mut torn = OpenOptions::new().append(true).open(&resumed).unwrap();
        torn.write_all(b"{\"kind\":\"st").unwrap();
        drop(torn);
        truncate_after(&resumed, 4, &[2]).unwrap();
        assert_eq!(read_metrics(&resumed).unwrap().len(), 4);
        write(&resumed, 5..=9);
        let [whole, resumed] = [whole, resumed].map(|path| std::fs::read(path).unwrap());
        assert_eq!(whole, resumed);
    }

    /// `timing.jsonl` is written by every part of a run, and never again as a whole.
    #[test]
    fn half_a_line_does_not_spoil_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timing.jsonl");
        for (before, kept) in [
            ("[1]\n[2]\n", "[1]\n[2]\n"),
            ("[1]\n[2", "[1]\n"),
            ("[", ""),
        ] {
            std::fs::write(&path, before).unwrap();
            JsonLines::open(&path).unwrap().push(&[3]).unwrap();
            let found = std::fs::read_to_string(&path).unwrap();
            assert_eq!(found, format!("{kept}[3]\n"), "{before:?}");
        }
    }

    /// Who reads a run with other programs has only the page to go by.
    #[test]
    fn every_key_of_a_line_is_in_the_docs() {
        let masks = MaskScores {
            samples: 1,
            loss: 0.5,
            mean_iou: 0.5,
            sample_mean_iou: 0.5,
            area_mean_iou: 0.5,
            iou: [Some(0.5), None, None],
            area_iou: [None; 3],
            best_by: crate::recipe::BestBy::AreaMeanIou,
        };
        let boxes = BoxScores {
            samples: 1,
            loss: 0.5,
            mean_ap_10: 0.5,
            mean_ap_50: 0.5,
            ap_10: [None; 4],
            ap_50: [None; 4],
            truths: [0; 4],
        };
        let validation = Metric::Validation {
            step: 1,
            scores: Scores::Both(Box::new(BothScores { boxes, masks })),
            best: true,
        };
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/training.md");
        let page = std::fs::read_to_string(page).unwrap();
        let mut found = 0;
        let mut objects = [metric(1), validation]
            .map(|line| serde_json::to_value(line).unwrap())
            .to_vec();
        while let Some(object) = objects.pop() {
            for (key, value) in object.as_object().into_iter().flatten() {
                assert!(page.contains(&format!("`{key}`")), "no `{key}`");
                objects.push(value.clone());
                found += 1;
            }
        }
        assert_eq!(found, 28);
    }

    #[test]
    fn a_line_that_is_no_metric_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"kind\":\"step\"}\n").unwrap();
        let error = read_metrics(&path).unwrap_err().to_string();
        assert!(error.contains("line 1: missing field"), "{error}");
        assert_eq!(read_metrics(&folder.path().join("none")).unwrap(), []);
    }
}
