//! What a model file says of its model beside the weights: channels, normalisation, classes, grid, network, recipe.
//! Without these the numbers that a network gives mean nothing.

mod fit;

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
    /// The shape, spacing and hash of a grid.
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

/// The names of the classes that a network of this task tells apart, in order of their codes.
fn classes_of(task: Task) -> impl Iterator<Item = &'static str> {
    let names = match task {
        Task::Segment => Class::ALL.map(Class::name).to_vec(),
        Task::Detect => BoxClass::ALL.map(BoxClass::name).to_vec(),
    };
    names.into_iter()
}

/// The names of the classes in masks that a detector gives beside boxes, in order of their codes; none without masks.
fn mask_classes_of(network: &NetworkConfig) -> impl Iterator<Item = &'static str> {
    classes_of(Task::Segment).take(network.mask_classes)
}

/// The word by which a contract says how a network pads longitude.
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
    /// The version of this layout.
    pub version: u32,
    /// Input channels, in order.
    pub channels: Vec<Channel>,
    /// How the channels are normalised.
    pub normalisation: Normalisation,
    /// SHA-256 of the normalisation.
    pub normalisation_hash: String,
    /// Names of the classes that the network tells apart, in order of their codes.
    pub classes: Vec<String>,
    /// Of a detector that gives masks beside boxes: names of the classes in the masks, in order of their codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask_classes: Vec<String>,
    /// The grid it was trained on.
    pub grid: GridFacts,
    /// Of a network over time: seconds from one frame of a clip to the next in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_seconds: Option<i64>,
    /// How longitude is padded: `periodic` or `zero`. Latitude is zero-padded unless the network says
    /// `periodic_latitude`.
    pub longitude_padding: String,
    /// Precision of training.
    pub precision: Precision,
    /// Layers that stay in f32 whatever the precision, as `precision.keep_f32` of a recipe names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_f32: Vec<String>,
    /// Whether the first convolution and the output layers have the reduced precision, too; they stay in f32 otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_layers: bool,
    /// Whether convolutions of f32 values may be computed in TF32 where a GPU has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tf32: bool,
    /// The network's name and sizes.
    pub network: NetworkConfig,
    /// The resolved recipe, TOML.
    pub recipe: String,
    /// Version of the program that trained it.
    pub code_version: String,
    /// SHA-256 of the training data.
    pub data_hash: String,
    /// Steps that it was trained for.
    pub step: u64,
    /// Its score over the validation samples when it was saved, if it was validated: [`Self::score_name`].
    #[serde(alias = "mean_iou")]
    pub score: Option<f64>,
}

impl Contract {
    /// The contract of a model that is being trained, before its first step.
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
            // Without the keys that say when to stop: a run that is continued with other values of them must end with
            // the same bytes as one that was never stopped.
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

    /// Segmentation or detection, by the kind of network.
    pub fn task(&self) -> Task {
        match self.network.name.is_detector() {
            true => Task::Detect,
            false => Task::Segment,
        }
    }

    /// What [`Self::score`] measures, in words for a table. A network that gives boxes and masks has the mean of their
    /// scores, or one of the two where validation had labels for one alone.
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

    /// The contract among the facts of a model file, after a check that its parts agree with each other.
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
        // The contract's word decides which grids are allowed, the network's setting what is computed: they must agree.
        let padding = longitude_padding_of(&contract.network);
        if contract.longitude_padding != padding {
            return Err(bad(format!(
                "its network pads longitude in the way `{padding}`, its contract says `{}`",
                contract.longitude_padding
            )));
        }
        Ok(contract)
    }
}

#[cfg(test)]
mod tests;
