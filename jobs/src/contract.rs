//! What a model's numbers mean nothing without.

use crate::error::{JobError, Result};
use crate::recipe::{BestBy, Recipe, Task, Training};
use serde::{Deserialize, Serialize};
use squall_data::grid::LatLonGrid;
use squall_data::{BoxClass, Class, Normalisation, Variable};
use squall_model::{ModelFile, NetworkConfig, Precision};
use std::collections::BTreeMap;
use std::path::Path;

/// The version of the contract's layout.
const VERSION: u32 = 1;
/// Spacing may differ by this share before a model is out of its depth: kernels see features of another size.
const SPACING_TOLERANCE: f64 = 0.15;
/// The rows of a network that takes latitudes from their places may cover another range by this share: a global grid with
/// and without rows on its poles.
const RANGE_TOLERANCE: f64 = 0.05;
/// The fact under which a model file keeps its contract.
const FACT: &str = "contract";

/// A channel of the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Which variable.
    pub variable: Variable,
    /// Its unit before normalisation.
    pub unit: String,
}

/// The grid of the training data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridFacts {
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Spacing of rows and columns, degrees.
    pub spacing_deg: (f64, f64),
    /// Whether it goes around the globe.
    pub periodic: bool,
    /// Hash of its coordinates.
    pub hash: u64,
}

impl GridFacts {
    /// Of a grid.
    pub fn of(grid: &LatLonGrid) -> Self {
        Self {
            shape: grid.shape(),
            spacing_deg: (grid.lat_spacing_deg(), grid.lon_spacing_deg()),
            periodic: grid.is_periodic(),
            hash: grid.hash(),
        }
    }

    /// Degrees of latitude from the first row to the last.
    fn latitudes_deg(&self) -> f64 {
        self.shape.0.saturating_sub(1) as f64 * self.spacing_deg.0
    }
}

/// The names of what a network of a task tells apart, in order of their codes.
fn classes_of(task: Task) -> impl Iterator<Item = &'static str> {
    let names = match task {
        Task::Segment => Class::ALL.map(Class::name).to_vec(),
        Task::Detect => BoxClass::ALL.map(BoxClass::name).to_vec(),
    };
    names.into_iter()
}

/// The same of masks beside boxes.
fn mask_classes_of(network: &NetworkConfig) -> impl Iterator<Item = &'static str> {
    classes_of(Task::Segment).take(network.mask_classes)
}

/// How a network pads longitude, as contracts say it.
fn longitude_padding_of(network: &NetworkConfig) -> &'static str {
    match network.periodic_longitude {
        true => "periodic",
        false => "zero",
    }
}

/// What a model takes, gives and was made from; kept in the model file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Of this layout.
    pub version: u32,
    /// Input channels, in order.
    pub channels: Vec<Channel>,
    /// How they are normalised.
    pub normalisation: Normalisation,
    /// SHA-256 of the normalisation.
    pub normalisation_hash: String,
    /// What the outputs are, in order of their codes.
    pub classes: Vec<String>,
    /// What masks hold, in order of their codes, of a detector that gives some beside boxes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask_classes: Vec<String>,
    /// The grid it was trained on.
    pub grid: GridFacts,
    /// Seconds from one frame of a clip to the next in training, of a network over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_seconds: Option<i64>,
    /// How longitude is padded: `periodic` or `zero`. Latitude is zero-padded unless the network says
    /// `periodic_latitude`.
    pub longitude_padding: String,
    /// Precision of training.
    pub precision: Precision,
    /// Layers that stay in f32 whatever the precision; a policy's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_f32: Vec<String>,
    /// Whether the first convolution and the output layers do not stay in f32 either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_layers: bool,
    /// Whether convolutions of f32 values may be computed in TF32 where a GPU has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tf32: bool,
    /// The network.
    pub network: NetworkConfig,
    /// The resolved recipe, TOML.
    pub recipe: String,
    /// Version of the program that trained it.
    pub code_version: String,
    /// SHA-256 of the training data.
    pub data_hash: String,
    /// Steps of training.
    pub step: u64,
    /// Its score over the validation samples when it was saved, if it was validated: [`Self::score_name`].
    #[serde(alias = "mean_iou")]
    pub score: Option<f64>,
}

impl Contract {
    /// Of a model that is being trained.
    pub fn new(
        recipe: &Recipe,
        network: &NetworkConfig,
        normalisation: &Normalisation,
        grid: &LatLonGrid,
        data_hash: &str,
    ) -> Self {
        let channels = normalisation.variables().into_iter();
        Self {
            version: VERSION,
            channels: channels
                .map(|variable| Channel {
                    variable,
                    unit: variable.entry().unit.to_string(),
                })
                .collect(),
            normalisation: normalisation.clone(),
            normalisation_hash: normalisation.hash(),
            classes: classes_of(recipe.task).map(str::to_string).collect(),
            mask_classes: mask_classes_of(network).map(str::to_string).collect(),
            grid: GridFacts::of(grid),
            frame_seconds: None,
            longitude_padding: longitude_padding_of(network).into(),
            precision: recipe.precision.compute,
            keep_f32: recipe.precision.keep_f32.clone(),
            all_layers: recipe.precision.all_layers,
            tf32: recipe.precision.tf32,
            network: network.clone(),
            // When a training, or a part of it, had to stop says nothing of the model: those of a job in turns, or of a run
            // that goes on with more patience, are those of one that was never stopped, byte for byte.
            recipe: Recipe {
                training: Training {
                    max_seconds: None,
                    target_score: None,
                    patience: None,
                    ..recipe.training.clone()
                },
                ..recipe.clone()
            }
            .to_toml(),
            code_version: env!("CARGO_PKG_VERSION").to_string(),
            data_hash: data_hash.to_string(),
            step: 0,
            score: None,
        }
    }

    /// What the network does.
    pub fn task(&self) -> Task {
        match self.network.name.is_detector() {
            true => Task::Detect,
            false => Task::Segment,
        }
    }

    /// What its score is. Of a network that gives boxes and masks it is the mean of both, or that of the one which
    /// validation had labels of.
    pub fn score_name(&self) -> &'static str {
        match (self.task(), self.network.mask_classes) {
            (Task::Detect, 0) => "mAP",
            (Task::Detect, _) => "score of boxes and masks",
            (Task::Segment, _) => {
                let recipe = Recipe::parse(&self.recipe, &[]);
                let best_by = recipe.map(|recipe| recipe.training.best_by);
                best_by.map_or("score of masks", BestBy::name)
            }
        }
    }

    /// The variables of its channels, in order.
    pub fn variables(&self) -> Vec<Variable> {
        self.channels.iter().map(|c| c.variable).collect()
    }

    /// Writes it into a model file.
    ///
    /// # Errors
    /// [`JobError::Damaged`] if a number has no JSON.
    pub fn put(&self, file: &mut ModelFile) -> Result<()> {
        let json = crate::metrics::to_json(self, Path::new("model contract"))?;
        file.facts.insert(FACT.to_string(), json);
        Ok(())
    }

    /// Reads it from the facts of a model file and checks it against itself.
    ///
    /// # Errors
    /// [`JobError::NoContract`] saying what is missing, of another version or contradictory.
    pub fn of(facts: &BTreeMap<String, String>, path: &Path) -> Result<Self> {
        let bad = |reason: String| JobError::NoContract {
            path: path.to_path_buf(),
            reason,
        };
        let json = facts
            .get(FACT)
            .ok_or_else(|| bad("it has weights but no contract".into()))?;
        let contract: Self = serde_json::from_str(json).map_err(|e| bad(e.to_string()))?;
        if contract.version != VERSION {
            return Err(bad(format!(
                "its contract has version {}, this program reads {VERSION}",
                contract.version
            )));
        }
        let hash = contract.normalisation.hash();
        if hash != contract.normalisation_hash {
            return Err(bad(format!(
                "its normalisation has hash {hash}, its contract says {}: it was changed after training",
                contract.normalisation_hash
            )));
        }
        let variables = contract.variables();
        if variables != contract.normalisation.variables()
            || variables.len() != contract.network.channels_in
            || contract.classes.len() != contract.network.classes
        {
            return Err(bad("channels, normalisation and network disagree".into()));
        }
        // Which grids it may be used on is told by the padding that it says, what is computed by the network's.
        let padding = longitude_padding_of(&contract.network);
        if contract.longitude_padding != padding {
            return Err(bad(format!(
                "its network pads longitude in the way `{padding}`, its contract says `{}`",
                contract.longitude_padding
            )));
        }
        Ok(contract)
    }

    /// Whether the model may be used on fields of a grid with these channels: the exact conversions that are made, as
    /// sentences, or every reason against it.
    ///
    /// # Errors
    /// The reasons.
    pub fn check(
        &self,
        grid: &LatLonGrid,
        available: &[Variable],
    ) -> std::result::Result<Vec<String>, Vec<String>> {
        let (mut reasons, mut notes) = (Vec::new(), Vec::new());
        let missing: Vec<&str> = self
            .channels
            .iter()
            .filter(|c| !available.contains(&c.variable))
            .map(|c| c.variable.name())
            .collect();
        if !missing.is_empty() {
            let found: Vec<&str> = available.iter().map(|v| v.name()).collect();
            reasons.push(format!(
                "channels {} are missing (the input has {})",
                missing.join(", "),
                found.join(", ")
            ));
        }
        for channel in &self.channels {
            let unit = channel.variable.entry().unit;
            if channel.unit != unit {
                reasons.push(format!(
                    "the model takes {} in {}, this program reads it in {unit}",
                    channel.variable, channel.unit
                ));
            }
        }
        let ours: Vec<&str> = classes_of(self.task()).collect();
        if self.classes != ours {
            reasons.push(format!(
                "the model's classes are {}, this program's are {}",
                self.classes.join(", "),
                ours.join(", ")
            ));
        }
        let ours: Vec<&str> = mask_classes_of(&self.network).collect();
        if self.mask_classes != ours {
            reasons.push(format!(
                "the classes of the model's masks are {}, this program's are {}",
                self.mask_classes.join(", "),
                ours.join(", ")
            ));
        }
        let found = GridFacts::of(grid);
        let spacings = [
            ("latitude", self.grid.spacing_deg.0, found.spacing_deg.0),
            ("longitude", self.grid.spacing_deg.1, found.spacing_deg.1),
        ];
        for (axis, expected, found) in spacings {
            if (found / expected - 1.0).abs() > SPACING_TOLERANCE {
                reasons.push(format!(
                    "it was trained on {expected:.3} degrees between cells in {axis}, the input has {found:.3}: events would have another size in pixels (regrid the input, or train on this grid)"
                ));
            }
        }
        let (learnt, given) = (self.grid.latitudes_deg(), found.latitudes_deg());
        if self.network.latitude_input && (given / learnt - 1.0).abs() > RANGE_TOLERANCE {
            reasons.push(format!(
                "it takes the latitude of a row from its place among all rows (latitude_input), which lay over {learnt:.0} degrees in training; those of the input lie over {given:.0}"
            ));
        }
        if self.longitude_padding == "periodic" && !found.periodic {
            reasons.push(format!(
                "its longitude wraps around the globe, the input ({}) does not",
                grid.describe()
            ));
        }
        if found.hash != self.grid.hash && reasons.is_empty() {
            let (rows, columns) = self.grid.shape;
            notes.push(format!(
                "trained on another grid of nearly the same spacing ({rows} x {columns}); the input is {}",
                grid.describe()
            ));
            // Regions of one height differ only in the hash, which longitudes change as well: nothing to refuse.
            if self.network.latitude_input && learnt < 180.0 * (1.0 - RANGE_TOLERANCE) {
                notes.push(
                    "it takes the latitude of a row from its place among all rows (latitude_input): the input's latitudes must be those of its training"
                        .into(),
                );
            }
        }
        if reasons.is_empty() {
            Ok(notes)
        } else {
            Err(reasons)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::normalise::{ChannelScale, NormalisationMethod};
    use squall_model::networks::NetworkName;

    fn contract() -> Contract {
        let normalisation = Normalisation {
            method: NormalisationMethod::MeanStd,
            channels: [Variable::Tmq, Variable::Psl]
                .map(|variable| ChannelScale::identity(variable, 1.0))
                .to_vec(),
        };
        let network = NetworkConfig {
            channels_in: 2,
            ..NetworkConfig::default()
        };
        let grid = LatLonGrid::global(24, 48).unwrap();
        Contract::new(&Recipe::default(), &network, &normalisation, &grid, "abc")
    }

    #[test]
    fn a_file_gives_back_its_contract_and_a_changed_normalisation_is_seen() {
        let (path, contract) = (Path::new("m.safetensors"), contract());
        let mut file = ModelFile::default();
        assert!(
            Contract::of(&file.facts, path)
                .unwrap_err()
                .to_string()
                .contains("no contract")
        );
        contract.put(&mut file).unwrap();
        assert_eq!(Contract::of(&file.facts, path).unwrap(), contract);
        let mut changed = contract.clone();
        changed.normalisation.channels[0].divide = 2.0;
        changed.put(&mut file).unwrap();
        let error = Contract::of(&file.facts, path).unwrap_err().to_string();
        assert!(error.contains("changed after training"), "{error}");
        // Said to be for regions, too, it would wrap them around the globe.
        let said = Contract {
            longitude_padding: "zero".into(),
            ..contract
        };
        said.put(&mut file).unwrap();
        let error = Contract::of(&file.facts, path).unwrap_err().to_string();
        assert!(error.contains("says `zero`"), "{error}");
    }

    #[test]
    fn a_score_is_called_what_it_is() {
        let mut model = contract();
        assert_eq!(model.score_name(), "mean IoU");
        let by_area = ["training.best_by=area_mean_iou".to_string()];
        model.recipe = Recipe::parse("", &by_area).unwrap().to_toml();
        assert_eq!(model.score_name(), "area mean IoU");
        model.recipe = "of another version".into();
        assert_eq!(model.score_name(), "score of masks");
        model.network = NetworkConfig::of(NetworkName::Detector2d);
        assert_eq!(model.score_name(), "mAP");
        model.network = NetworkConfig {
            mask_classes: 3,
            ..NetworkConfig::of(NetworkName::DetectorDense)
        };
        assert_eq!(model.score_name(), "score of boxes and masks");
    }

    #[test]
    fn who_takes_latitudes_from_places_takes_no_band() {
        let mut contract = contract();
        let (globe, near) = (LatLonGrid::global(24, 48), LatLonGrid::global(25, 48));
        let (globe, near) = (globe.unwrap(), near.unwrap());
        let tropics = globe.lat_deg()[6..18].to_vec();
        let (tropics, _) = LatLonGrid::from_axes(tropics, globe.lon_deg().to_vec()).unwrap();
        assert!(contract.check(&tropics, &Variable::CHANNELS).is_ok());
        contract.network.latitude_input = true;
        assert!(contract.check(&globe, &Variable::CHANNELS).is_ok());
        assert!(contract.check(&near, &Variable::CHANNELS).is_ok());
        let reasons = contract.check(&tropics, &Variable::CHANNELS).unwrap_err();
        let expected = "over 180 degrees in training; those of the input lie over 86";
        assert!(
            reasons.len() == 1 && reasons[0].contains(expected),
            "{reasons:?}"
        );
        // Trained on the north; the south is as high.
        let of_rows = |rows: std::ops::Range<usize>| {
            let lat = globe.lat_deg()[rows].to_vec();
            LatLonGrid::from_axes(lat, globe.lon_deg().to_vec())
                .unwrap()
                .0
        };
        let (north, south) = (of_rows(12..24), of_rows(0..12));
        contract.grid = GridFacts::of(&north);
        assert_eq!(contract.check(&north, &Variable::CHANNELS), Ok(vec![]));
        let notes = contract.check(&south, &Variable::CHANNELS).unwrap();
        assert!(
            notes.len() == 2 && notes[1].contains("those of its training"),
            "{notes:?}"
        );
    }

    #[test]
    fn mismatches_are_refused_with_every_reason() {
        let contract = contract();
        let same = LatLonGrid::global(24, 48).unwrap();
        assert_eq!(contract.check(&same, &Variable::CHANNELS), Ok(vec![]));
        let near = LatLonGrid::global(25, 48).unwrap();
        assert_eq!(contract.check(&near, &Variable::CHANNELS).unwrap().len(), 1);
        let finer = LatLonGrid::global(48, 96).unwrap();
        let reasons = contract.check(&finer, &[Variable::Tmq]).unwrap_err();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons[0].contains("channels PSL are missing (the input has TMQ)"));
        assert!(
            reasons[2].contains("7.500 degrees between cells in longitude, the input has 3.750")
        );
        let lon = (0..20).map(|i| 7.5 * f64::from(i)).collect();
        let (regional, _) = LatLonGrid::from_axes(same.lat_deg().to_vec(), lon).unwrap();
        let reasons = contract.check(&regional, &Variable::CHANNELS).unwrap_err();
        assert!(reasons[0].contains("wraps around the globe"), "{reasons:?}");
    }
}
