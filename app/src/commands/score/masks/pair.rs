//! The masks of both sides at one time.

use ndarray::{Array2, ArrayView2};
use squall_data::label::UNLABELLED;
use squall_data::mask_file::KnownMask;
use squall_data::{ClassMask, LatLonGrid};
use squall_validation::Confusion;
use squall_validation::world_scores::NearestCells;

/// The masks of one time on the grid of the truth. Where one of them is missing, both are background: nobody knows
/// whether they agree.
pub(super) struct Pair {
    /// The predicted mask.
    pub prediction: ClassMask,
    /// The true mask.
    pub label: ClassMask,
    /// The cells in which one of them is missing.
    missing: Option<Array2<bool>>,
}

impl Pair {
    /// The predicted and the true mask; `cells` maps the predicted one to the grid of the truth. `None` if no cell is
    /// known on both sides.
    pub fn of(
        [predicted, truth]: [Option<KnownMask>; 2],
        cells: Option<&NearestCells>,
    ) -> anyhow::Result<Option<Self>> {
        let (Some(mut predicted), Some(truth)) = (predicted, truth) else {
            return Ok(None);
        };
        if let Some(cells) = cells {
            predicted.mask = cells.bring(&predicted.mask)?;
            let missing = predicted.missing.as_ref();
            let brought = missing.map(|missing| cells.bring_plane(missing.view()));
            predicted.missing = brought.transpose()?;
        }
        let mut pair = Self {
            prediction: predicted.mask,
            label: truth.mask,
            missing: None,
        };
        pair.prediction.time = pair.label.time;
        let missing = match (predicted.missing, truth.missing) {
            (Some(mut either), Some(other)) => {
                either.zip_mut_with(&other, |either, other| *either |= other);
                Some(either)
            }
            (one, other) => one.or(other),
        };
        let Some(missing) = missing else {
            return Ok(Some(pair));
        };
        if missing.iter().all(|is_missing| *is_missing) {
            return Ok(None);
        }
        for mask in [&mut pair.prediction, &mut pair.label] {
            mask.codes.zip_mut_with(&missing, |code, is_missing| {
                *code *= u8::from(!is_missing);
            });
        }
        pair.missing = Some(missing);
        Ok(Some(pair))
    }

    /// The cells in which one of them is missing, if there are any.
    pub fn missing(&self) -> Option<ArrayView2<'_, bool>> {
        self.missing.as_ref().map(|missing| missing.view())
    }

    /// Number of cells in which one of them is missing.
    pub fn missing_cells(&self) -> usize {
        let cells = self.missing.iter().flatten();
        cells.filter(|is_missing| **is_missing).count()
    }

    /// What is confused in the other cells.
    pub fn confusion(&self, grid: &LatLonGrid) -> anyhow::Result<Confusion> {
        let Some(missing) = &self.missing else {
            return Ok(Confusion::of_masks(&self.label, &self.prediction, grid)?);
        };
        let mut truth = self.label.codes.clone();
        truth.zip_mut_with(missing, |code, is_missing| {
            if *is_missing {
                *code = UNLABELLED;
            }
        });
        let (truth, predicted) = (truth.view(), self.prediction.codes.view());
        let areas = grid.row_areas_km2();
        Ok(Confusion::of_codes(truth, predicted, &areas)?)
    }
}
