//! The metadata of a model file: channels, normalisation, classes, grid, network, recipe. Without it the outputs of a
//! network cannot be interpreted.

mod fit;

use crate::error::{JobError, Result};
use crate::recipe::{BestBy, Recipe, Task, Training};
use serde::{Deserialize, Serialize};
use squall_data::grid::LatLonGrid;
use squall_data::{BoxClass, ChannelSource, ChannelSources, Class, Normalisation, Variable};
use squall_model::{ModelFile, NetworkConfig, Precision};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Version of the contract format.
const VERSION: u32 = 1;
/// Name of the fact that stores the contract in a model file.
const FACT: &str = "contract";

/// A channel of the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// The variable.
    pub variable: Variable,
    /// Its unit before normalisation.
    pub unit: String,
    /// What served as it in the files of the training data; empty if not known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sources: BTreeSet<ChannelSource>,
}

/// The grid of the training data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridFacts {
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Spacing of rows and columns, degrees.
    pub spacing_deg: (f64, f64),
    /// Whether longitude spans the globe.
    pub periodic: bool,
    /// Hash of its coordinates.
    pub hash: u64,
}

impl GridFacts {
    /// The facts of a grid.
    pub fn of(grid: &LatLonGrid) -> Self {
        Self {
            shape: grid.shape(),
            spacing_deg: (grid.lat_spacing_deg(), grid.lon_spacing_deg()),
            periodic: grid.is_periodic(),
            hash: grid.hash(),
        }
    }

    /// Degrees of latitude between the first and the last row.
    fn latitudes_deg(&self) -> f64 {
        self.shape.0.saturating_sub(1) as f64 * self.spacing_deg.0
    }
}

/// Names of the classes of this task, in order of their codes.
fn classes_of(task: Task) -> impl Iterator<Item = &'static str> {
    let names = match task {
        Task::Segment => Class::ALL.map(Class::name).to_vec(),
        Task::Detect => BoxClass::ALL.map(BoxClass::name).to_vec(),
    };
    names.into_iter()
}

/// Names of the classes in a detector's masks, in order of their codes; empty without masks.
fn mask_classes_of(network: &NetworkConfig) -> impl Iterator<Item = &'static str> {
    classes_of(Task::Segment).take(network.mask_classes)
}

/// How the contract spells a network's longitude padding.
fn longitude_padding_of(network: &NetworkConfig) -> &'static str {
    match network.periodic_longitude {
        true => "periodic",
        false => "zero",
    }
}

/// The inputs, outputs and provenance of a model, stored in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Version of the contract format.
    pub version: u32,
    /// Input channels, in order.
    pub channels: Vec<Channel>,
    /// How the channels are normalised.
    pub normalisation: Normalisation,
    /// SHA-256 of the normalisation.
    pub normalisation_hash: String,
    /// Names of the network's output classes, in order of their codes.
    pub classes: Vec<String>,
    /// For a detector that also outputs masks: names of the mask classes, in order of their codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask_classes: Vec<String>,
    /// Weights of the mask classes in the loss, in order of their codes: probabilities of masks carry them. Empty without
    /// masks, and for models of versions that did not record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_weights: Vec<f32>,
    /// The grid it was trained on.
    pub grid: GridFacts,
    /// For a network over time: seconds between the frames of a training clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_seconds: Option<i64>,
    /// How longitude is padded: `periodic` or `zero`. Latitude is zero-padded unless the network says
    /// `periodic_latitude`.
    pub longitude_padding: String,
    /// Precision of training.
    pub precision: Precision,
    /// Layers kept in f32 whatever the precision, named as in `precision.keep_f32` of a recipe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_f32: Vec<String>,
    /// Whether the first convolution and the output layers use the reduced precision, too; otherwise they stay in f32.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_layers: bool,
    /// Whether convolutions of f32 values may use TF32 on GPUs that have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tf32: bool,
    /// The network's name and sizes.
    pub network: NetworkConfig,
    /// The resolved recipe, TOML.
    pub recipe: String,
    /// Version of the program that saved it ([`crate::code::version`]).
    pub code_version: String,
    /// SHA-256 of the training data.
    pub data_hash: String,
    /// Number of training steps.
    pub step: u64,
    /// Its validation score when it was saved, if it was validated: see [`Self::score_name`].
    #[serde(alias = "mean_iou")]
    pub score: Option<f64>,
}

impl Contract {
    /// The contract of a model before its first training step.
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
                    sources: BTreeSet::new(),
                })
                .collect(),
            normalisation: normalisation.clone(),
            normalisation_hash: normalisation.hash(),
            classes: classes_of(recipe.task).map(str::to_string).collect(),
            mask_classes: mask_classes_of(network).map(str::to_string).collect(),
            class_weights: Vec::new(),
            grid: GridFacts::of(grid),
            frame_seconds: None,
            longitude_padding: longitude_padding_of(network).into(),
            precision: recipe.precision.compute,
            keep_f32: recipe.precision.keep_f32.clone(),
            all_layers: recipe.precision.all_layers,
            tf32: recipe.precision.tf32,
            network: network.clone(),
            // Without the keys that limit a run: a run continued with other limits must end with the same bytes as an
            // uninterrupted one.
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
            code_version: crate::code::version(),
            data_hash: data_hash.to_string(),
            step: 0,
            score: None,
        }
    }

    /// Records what served as the channels in the files of the training data.
    pub fn with_sources(mut self, sources: &ChannelSources) -> Self {
        for channel in &mut self.channels {
            let known = sources.get(&channel.variable);
            channel.sources = known.cloned().unwrap_or_default();
        }
        self
    }

    /// Segmentation or detection, by the kind of network.
    pub fn task(&self) -> Task {
        match self.network.name.is_detector() {
            true => Task::Detect,
            false => Task::Segment,
        }
    }

    /// The name of the quantity in [`Self::score`], for tables. For a network of boxes and masks it is the mean of both
    /// scores, or one of the two if validation had labels for only one.
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

    /// The variables of the channels, in order.
    pub fn variables(&self) -> Vec<Variable> {
        self.channels.iter().map(|c| c.variable).collect()
    }

    /// Writes the contract into a model file.
    ///
    /// # Errors
    /// [`JobError::Damaged`] if a number cannot be written as JSON.
    pub fn put(&self, file: &mut ModelFile) -> Result<()> {
        let json = crate::metrics::to_json(self, Path::new("model contract"))?;
        file.facts.insert(FACT.to_string(), json);
        Ok(())
    }

    /// Reads the contract from the facts of a model file and checks it for consistency.
    ///
    /// # Errors
    /// [`JobError::NoContract`] if a part is missing, of another version or inconsistent.
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
        // The contract's padding decides which grids are allowed, the network's setting what is computed: they must
        // agree.
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
