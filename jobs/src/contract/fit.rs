//! Checks whether a model may be used on an input, by comparing its training data with the input.

use super::{Contract, GridFacts, classes_of, mask_classes_of};
use squall_data::channel_source::{differ, in_words};
use squall_data::grid::LatLonGrid;
use squall_data::{ChannelSources, Variable};

/// Maximum relative difference of grid spacing: beyond it, events span a different number of pixels than the kernels
/// were trained on.
const SPACING_TOLERANCE: f64 = 0.15;
/// Maximum relative difference of the latitude range, for a network that derives latitude from the row index. Global
/// grids with and without rows at the poles differ by less.
const RANGE_TOLERANCE: f64 = 0.05;

impl Contract {
    /// Returns notes on harmless differences if the model may be used on fields of this grid with these channels.
    ///
    /// # Errors
    /// Every reason against using it.
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

    /// Notes on channels that the input takes from another source than the training data did, one each; none where a
    /// source is not known.
    pub fn other_sources(&self, input: &ChannelSources) -> Vec<String> {
        let differing = self.channels.iter().filter_map(|channel| {
            let given = input.get(&channel.variable)?;
            differ(&channel.sources, given).then(|| {
                format!(
                    "{} was {} in training; here it is {}: results may be worse than in validation",
                    channel.variable,
                    in_words(&channel.sources),
                    in_words(given)
                )
            })
        });
        differing.collect()
    }

    /// Rejects an input that lacks channels, naming them.
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

    /// Rejects channels whose unit in the model differs from this program's.
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

    /// Rejects outputs whose classes differ between this program and the model's training.
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

    /// Rejects each axis whose spacing differs too much from the training data's.
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

    /// Rejects a different latitude range if the network derives latitude from the row index.
    fn other_latitudes(&self, found: &GridFacts) -> Option<String> {
        let (learnt, given) = (self.grid.latitudes_deg(), found.latitudes_deg());
        let differ = (given / learnt - 1.0).abs() > RANGE_TOLERANCE;
        (self.network.latitude_input && differ).then(|| {
            format!(
                "it takes the latitude of a row from its place among all rows (latitude_input), which lay over {learnt:.0} degrees in training; those of the input lie over {given:.0}"
            )
        })
    }

    /// Rejects a grid with longitude edges if the network pads longitude periodically.
    fn open_longitude(&self, grid: &LatLonGrid) -> Option<String> {
        (self.longitude_padding == "periodic" && !grid.is_periodic()).then(|| {
            format!(
                "its longitude wraps around the globe, the input ({}) does not",
                grid.describe()
            )
        })
    }

    /// Notes for the user about an acceptable grid that differs from the training grid.
    fn notes(&self, grid: &LatLonGrid, found: &GridFacts) -> Vec<String> {
        if found.hash == self.grid.hash {
            return Vec::new();
        }
        let (rows, columns) = self.grid.shape;
        let mut notes = vec![format!(
            "trained on another grid of nearly the same spacing ({rows} x {columns}); the input is {}",
            grid.describe()
        )];
        // Another region can have the same latitude range. Only the hash would reveal that, and it also changes with
        // longitudes, which are no reason to refuse.
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
