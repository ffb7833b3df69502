//! Whether a model may be used on an input: what it was trained on beside what the input has.

use super::{Contract, GridFacts, classes_of, mask_classes_of};
use squall_data::Variable;
use squall_data::grid::LatLonGrid;

/// Largest relative difference of the spacing of cells: beyond it events have another size in pixels than those that the
/// kernels learnt.
const SPACING_TOLERANCE: f64 = 0.15;
/// Largest relative difference of the range of latitudes, for a network that takes the latitude of a row from its place
/// among all rows. A global grid with rows on the poles and one without differ by less.
const RANGE_TOLERANCE: f64 = 0.05;

impl Contract {
    /// Notes on what differs without harm, if the model may be used on fields of this grid with these channels.
    ///
    /// # Errors
    /// Every reason against it.
    pub fn check(
        &self,
        grid: &LatLonGrid,
        available: &[Variable],
    ) -> Result<Vec<String>, Vec<String>> {
        let found = GridFacts::of(grid);
        let mut reasons = Vec::new();
        reasons.extend(self.missing_channels(available));
        reasons.extend(self.other_units());
        reasons.extend(self.other_classes());
        reasons.extend(self.other_spacing(&found));
        reasons.extend(self.other_latitudes(&found));
        reasons.extend(self.open_longitude(grid));
        if reasons.is_empty() {
            Ok(self.notes(grid, &found))
        } else {
            Err(reasons)
        }
    }

    /// A refusal naming the channels that the input lacks.
    fn missing_channels(&self, available: &[Variable]) -> Option<String> {
        let missing: Vec<&str> = (self.channels.iter())
            .filter(|channel| !available.contains(&channel.variable))
            .map(|channel| channel.variable.name())
            .collect();
        let found: Vec<&str> = available.iter().map(|v| v.name()).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "channels {} are missing (the input has {})",
                missing.join(", "),
                found.join(", ")
            )
        })
    }

    /// A refusal for each channel that this program reads in another unit.
    fn other_units(&self) -> impl Iterator<Item = String> {
        self.channels.iter().filter_map(|channel| {
            let unit = channel.variable.entry().unit;
            (channel.unit != unit).then(|| {
                format!(
                    "the model takes {} in {}, this program reads it in {unit}",
                    channel.variable, channel.unit
                )
            })
        })
    }

    /// Refusals of outputs that mean something else here than where the model was trained.
    fn other_classes(&self) -> impl Iterator<Item = String> {
        let outputs: Vec<&str> = classes_of(self.task()).collect();
        let masks: Vec<&str> = mask_classes_of(&self.network).collect();
        let of_outputs = (self.classes != outputs).then(|| {
            format!(
                "the model's classes are {}, this program's are {}",
                self.classes.join(", "),
                outputs.join(", ")
            )
        });
        let of_masks = (self.mask_classes != masks).then(|| {
            format!(
                "the classes of the model's masks are {}, this program's are {}",
                self.mask_classes.join(", "),
                masks.join(", ")
            )
        });
        of_outputs.into_iter().chain(of_masks)
    }

    /// A refusal for each axis whose spacing differs too much from that of the training data.
    fn other_spacing(&self, found: &GridFacts) -> impl Iterator<Item = String> {
        let spacings = [
            ("latitude", self.grid.spacing_deg.0, found.spacing_deg.0),
            ("longitude", self.grid.spacing_deg.1, found.spacing_deg.1),
        ];
        let differ = |(_, expected, found): &(&str, f64, f64)| {
            (found / expected - 1.0).abs() > SPACING_TOLERANCE
        };
        spacings.into_iter().filter(differ).map(|(axis, expected, found)| {
            format!(
                "it was trained on {expected:.3} degrees between cells in {axis}, the input has {found:.3}: events would have another size in pixels (regrid the input, or train on this grid)"
            )
        })
    }

    /// A refusal of another range of latitudes, if the network takes latitudes from the places of rows.
    fn other_latitudes(&self, found: &GridFacts) -> Option<String> {
        let (learnt, given) = (self.grid.latitudes_deg(), found.latitudes_deg());
        let differ = (given / learnt - 1.0).abs() > RANGE_TOLERANCE;
        (self.network.latitude_input && differ).then(|| {
            format!(
                "it takes the latitude of a row from its place among all rows (latitude_input), which lay over {learnt:.0} degrees in training; those of the input lie over {given:.0}"
            )
        })
    }

    /// A refusal of a grid with edges in longitude, if the network pads longitude periodically.
    fn open_longitude(&self, grid: &LatLonGrid) -> Option<String> {
        (self.longitude_padding == "periodic" && !grid.is_periodic()).then(|| {
            format!(
                "its longitude wraps around the globe, the input ({}) does not",
                grid.describe()
            )
        })
    }

    /// What a user should know of an input that the model may be used on, but whose grid is not that of its training.
    fn notes(&self, grid: &LatLonGrid, found: &GridFacts) -> Vec<String> {
        if found.hash == self.grid.hash {
            return Vec::new();
        }
        let (rows, columns) = self.grid.shape;
        let mut notes = vec![format!(
            "trained on another grid of nearly the same spacing ({rows} x {columns}); the input is {}",
            grid.describe()
        )];
        // The latitudes of a region may be others over the same range. Only the hash would tell, which longitudes change as
        // well: no reason to refuse.
        let is_regional = self.grid.latitudes_deg() < 180.0 * (1.0 - RANGE_TOLERANCE);
        if self.network.latitude_input && is_regional {
            notes.push(
                "it takes the latitude of a row from its place among all rows (latitude_input): the input's latitudes must be those of its training"
                    .into(),
            );
        }
        notes
    }
}
