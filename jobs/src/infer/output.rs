//! The results of a time, and the files that they are written to.

use super::chunks::table_of;
use super::log::FinishedFile;
use super::{Chunk, Model, Prediction};
use crate::error::Result;
use ndarray::{Array3, Axis};
use squall_data::atomic::Pending;
use squall_data::boxes::BoxSink;
use squall_data::boxes::table::BoxTableWriter;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::{ClassMask, DataError, GeoBox, LatLonGrid, Time, TrackedBox};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The results of one time: a mask, boxes, or both.
#[derive(Debug)]
pub(super) struct Found {
    pub time: Time,
    pub mask: Option<FoundMask>,
    /// Most confident first.
    pub boxes: Option<Vec<TrackedBox>>,
    /// Why the results are unusable, if so.
    pub not_finite: Option<NotFinite>,
}

/// A model whose output for a time is not finite, and the number of affected points.
#[derive(Debug)]
pub(super) struct NotFinite {
    pub model: PathBuf,
    pub points: usize,
}

impl NotFinite {
    /// The fault of a model with this many non-finite points; `None` for 0.
    pub fn if_any(model: &Model, points: usize) -> Option<Self> {
        (points > 0).then(|| Self {
            model: model.path().to_path_buf(),
            points,
        })
    }
}

/// A mask and its certainty.
#[derive(Debug)]
pub(super) struct FoundMask {
    /// The class of every cell.
    pub mask: ClassMask,
    /// `(lat, lon, class)`, if requested.
    pub probabilities: Option<Array3<f32>>,
    /// Standard deviation of the probabilities over an ensemble.
    pub spread: Option<Array3<f32>>,
}

impl Found {
    /// The result of a network that outputs only masks.
    pub fn mask(found: FoundMask) -> Self {
        Self {
            time: found.mask.time,
            mask: Some(found),
            boxes: None,
            not_finite: None,
        }
    }

    /// The result of a network that outputs only boxes.
    pub fn boxes(time: Time, boxes: Vec<GeoBox>) -> Self {
        let untracked = |geo| TrackedBox {
            geo,
            track_id: None,
        };
        Self {
            time,
            mask: None,
            boxes: Some(boxes.into_iter().map(untracked).collect()),
            not_finite: None,
        }
    }

    /// The masks of a single network.
    pub fn masks(prediction: Prediction, model: &Model) -> Vec<Self> {
        let all = prediction.probabilities;
        let masks = prediction.masks.into_iter().zip(prediction.not_finite);
        let found = masks.enumerate().map(|(k, (mask, points))| Self {
            not_finite: NotFinite::if_any(model, points),
            ..Self::mask(FoundMask {
                mask,
                probabilities: all.as_ref().map(|p| p.index_axis(Axis(0), k).to_owned()),
                spread: None,
            })
        });
        found.collect()
    }
}

/// Output files in progress; they are renamed into place when finished.
#[derive(Debug)]
pub(super) struct OutputFile {
    /// CF netCDF.
    masks: Option<MaskWriter>,
    /// A table.
    boxes: Option<Box<BoxTableWriter>>,
}

impl OutputFile {
    /// Starts the files of a chunk for results of this kind.
    pub fn create(
        folder: &Path,
        chunk: &Chunk,
        grid: &LatLonGrid,
        first: &Found,
        about: &MaskFileOptions,
    ) -> Result<Self> {
        let masks = match &first.mask {
            Some(_) => {
                let path = folder.join(&chunk.name);
                Some(MaskWriter::create(&path, grid, first.time, about)?)
            }
            None => None,
        };
        let boxes = match &first.boxes {
            Some(_) => {
                let path = folder.join(table_of(&chunk.name));
                Some(Box::new(BoxTableWriter::create(path)?))
            }
            None => None,
        };
        Ok(Self { masks, boxes })
    }

    /// Adds the results of the next time.
    pub fn write(&mut self, found: &Found) -> Result<()> {
        if let (Some(writer), Some(found)) = (&mut self.masks, &found.mask) {
            writer.write_with_spread(
                &found.mask,
                found.probabilities.as_ref().map(|p| p.view()),
                found.spread.as_ref().map(|s| s.view()),
            )?;
        }
        if let (Some(writer), Some(boxes)) = (&mut self.boxes, &found.boxes) {
            writer.write(found.time, boxes)?;
        }
        Ok(())
    }

    /// Closes the files and renames them into place.
    pub fn finish(self) -> Result<()> {
        if let Some(writer) = self.boxes {
            writer.finish()?;
        }
        if let Some(writer) = self.masks {
            writer.finish()?;
        }
        Ok(())
    }
}

/// Removes a file if it exists.
///
/// # Errors
/// [`JobError::Data`](crate::JobError::Data).
pub(super) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(DataError::io("remove", path)(error).into())
        }
        _ => Ok(()),
    }
}

/// The table of the boxes of all times.
pub(super) const JOINED: &str = "boxes.csv";

/// Removes the table of all boxes, because some of its parts will be made again.
///
/// # Errors
/// As [`remove`].
pub(super) fn remove_joined(folder: &Path) -> Result<()> {
    remove(&folder.join(JOINED))
}

/// Concatenates the tables of all files into `boxes.csv`, in order of time, line by line to bound memory.
pub(super) fn join_tables(folder: &Path, files: &[&FinishedFile]) -> Result<()> {
    let joined = folder.join(JOINED);
    if files.iter().all(|file| file.masks == 0) {
        Box::new(BoxTableWriter::create(joined)?).finish()?;
        return Ok(());
    }
    let pending = Pending::new(joined)?;
    let to = pending.path().to_path_buf();
    let mut all = BufWriter::new(File::create(&to).map_err(DataError::io("create", &to))?);
    let mut has_header = false;
    for file in files.iter().filter(|file| file.masks > 0) {
        let path = folder.join(table_of(&file.file));
        let part = File::open(&path).map_err(DataError::io("read", &path))?;
        let mut part = BufReader::new(part);
        // Every table begins with the same header.
        let mut header = String::new();
        part.read_line(&mut header)
            .map_err(DataError::io("read", &path))?;
        if !std::mem::replace(&mut has_header, true) {
            all.write_all(header.as_bytes())
                .map_err(DataError::io("write", &to))?;
        }
        std::io::copy(&mut part, &mut all).map_err(DataError::io("write", &to))?;
    }
    all.flush().map_err(DataError::io("write", &to))?;
    drop(all);
    Ok(pending.commit()?)
}
