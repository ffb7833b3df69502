//! What a network makes of a time, and the file it goes to. A detector's boxes are one more variant of each.

use super::Prediction;
use crate::error::Result;
use ndarray::{Array3, Axis};
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::{ClassMask, LatLonGrid};
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
}

impl Found {
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
        }
    }

    /// Adds what was found at the next time.
    pub fn write(&mut self, found: &Found) -> Result<()> {
        let (
            Self::Masks(writer),
            Found::Mask {
                mask,
                probabilities,
                spread,
            },
        ) = (self, found);
        writer.write_with_spread(
            mask,
            probabilities.as_ref().map(|p| p.view()),
            spread.as_ref().map(|s| s.view()),
        )?;
        Ok(())
    }

    /// Closes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Masks(writer) => Ok(writer.finish()?),
        }
    }
}
