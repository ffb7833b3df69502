//! What a network makes of a time, and the file it goes to.

use super::Prediction;
use super::log::FinishedFile;
use crate::error::{JobError, Result};
use ndarray::{Array3, Axis};
use squall_data::atomic::Pending;
use squall_data::boxes::BoxSink;
use squall_data::boxes::table::BoxTableWriter;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::{ClassMask, GeoBox, LatLonGrid, Time, TrackedBox};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// What was found at one time.
#[derive(Debug)]
pub(super) enum Found {
    /// Classes of all cells.
    Mask {
        mask: ClassMask,
        /// `(lat, lon, class)`, if asked for.
        probabilities: Option<Array3<f32>>,
        /// Their standard deviation over an ensemble.
        spread: Option<Array3<f32>>,
    },
    /// Boxes, the surest first.
    Boxes { time: Time, boxes: Vec<TrackedBox> },
}

impl Found {
    /// Those of a detector.
    pub fn boxes(times: &[Time], boxes: Vec<Vec<GeoBox>>) -> Vec<Self> {
        let untracked = |geo| TrackedBox {
            geo,
            track_id: None,
        };
        let each = times.iter().zip(boxes);
        each.map(|(&time, boxes)| Self::Boxes {
            time,
            boxes: boxes.into_iter().map(untracked).collect(),
        })
        .collect()
    }

    /// Those of a single network.
    pub fn masks(prediction: Prediction) -> Vec<Self> {
        let all = prediction.probabilities;
        let masks = prediction.masks.into_iter().enumerate();
        masks
            .map(|(k, mask)| Self::Mask {
                mask,
                probabilities: all.as_ref().map(|p| p.index_axis(Axis(0), k).to_owned()),
                spread: None,
            })
            .collect()
    }
}

/// An output file under way, which appears whole when it is finished.
#[derive(Debug)]
pub(super) enum OutputFile {
    /// CF netCDF.
    Masks(MaskWriter),
    /// A table.
    Boxes(Box<BoxTableWriter>),
}

impl OutputFile {
    /// Begins the file for what was found first.
    pub fn create(
        path: &Path,
        grid: &LatLonGrid,
        first: &Found,
        about: &MaskFileOptions,
    ) -> Result<Self> {
        match first {
            Found::Mask { mask, .. } => {
                let writer = MaskWriter::create(path, grid, mask.time, about)?;
                Ok(Self::Masks(writer))
            }
            Found::Boxes { .. } => Ok(Self::Boxes(Box::new(BoxTableWriter::create(path)?))),
        }
    }

    /// Adds what was found at the next time.
    pub fn write(&mut self, found: &Found) -> Result<()> {
        match (self, found) {
            (
                Self::Masks(writer),
                Found::Mask {
                    mask,
                    probabilities,
                    spread,
                },
            ) => writer.write_with_spread(
                mask,
                probabilities.as_ref().map(|p| p.view()),
                spread.as_ref().map(|s| s.view()),
            )?,
            (Self::Boxes(writer), Found::Boxes { time, boxes }) => writer.write(*time, boxes)?,
            _ => unreachable!("a network gives masks or boxes, not both"),
        }
        Ok(())
    }

    /// Closes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Masks(writer) => Ok(writer.finish()?),
            Self::Boxes(writer) => Ok(writer.finish().map(|_| ())?),
        }
    }
}

/// Puts the tables of all files into one, `boxes.csv`, in order of time: line by line, whatever their length.
pub(super) fn join_tables(folder: &Path, files: &[&FinishedFile]) -> Result<()> {
    let pending = Pending::new(folder.join("boxes.csv"))?;
    let to = pending.path().to_path_buf();
    let mut all = BufWriter::new(File::create(&to).map_err(JobError::io("create", &to))?);
    let mut has_header = false;
    for file in files.iter().filter(|file| file.masks > 0) {
        let path = folder.join(&file.file);
        let part = File::open(&path).map_err(JobError::io("read", &path))?;
        let mut part = BufReader::new(part);
        // Every table begins with the same line.
        let mut header = String::new();
        part.read_line(&mut header)
            .map_err(JobError::io("read", &path))?;
        if !std::mem::replace(&mut has_header, true) {
            all.write_all(header.as_bytes())
                .map_err(JobError::io("write", &to))?;
        }
        std::io::copy(&mut part, &mut all).map_err(JobError::io("write", &to))?;
    }
    all.flush().map_err(JobError::io("write", &to))?;
    drop(all);
    Ok(pending.commit()?)
}
