//! A model file, loaded for use.

use crate::clips::ClipShape;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::memory::build_network;
use crate::recipe::{Recipe, Task};
use crate::train::evaluate::in_pixels;
use candle_core::{DType, Device, Tensor};
use ndarray::{Array2, Array4};
use serde::Serialize;
use squall_data::boxes::suppress::Suppression;
use squall_data::grid::LatLonGrid;
use squall_data::{ClassMask, DataError, GeoBox, Snapshot, Time, Variable};
use squall_model::detection::ScoredBox;
use squall_model::gpu::allow_tf32;
use squall_model::ops::loss::NO_CLASS;
use squall_model::{Backend, Network, Precision, PrecisionPolicy, Storage, StoredFile};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// A network with its weights and its contract.
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    contract: Contract,
    network: Network,
    hash: String,
    storage: Storage,
    /// Whether f32 convolutions may use TF32 on GPUs that have it.
    tf32: bool,
    /// Which of a detector's boxes are kept, from the recipe.
    suppression: Suppression,
    /// The clips that a network over time sees.
    clips: Option<ClipShape>,
    /// Notes for the user, one sentence each.
    notes: Vec<String>,
}

/// The kind of output of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gives {
    /// The class of every cell.
    Masks,
    /// Boxes.
    Boxes,
    /// A mask, and boxes beside it.
    Both,
}

impl Gives {
    /// Whether there are masks.
    pub fn masks(self) -> bool {
        self != Self::Boxes
    }

    /// Whether there are boxes.
    pub fn boxes(self) -> bool {
        self != Self::Masks
    }

    /// Describes it for users.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Masks => "masks",
            Self::Boxes => "boxes",
            Self::Both => "masks and boxes",
        }
    }

    /// Describes the output for this many times: 12 masks, boxes of 12 times.
    pub fn count(self, times: usize) -> String {
        let ending = if times == 1 { "" } else { "s" };
        match self {
            Self::Masks => format!("{times} mask{ending}"),
            Self::Boxes => format!("boxes of {times} time{ending}"),
            Self::Both => format!("masks and boxes of {times} time{ending}"),
        }
    }
}

/// The boxes of a frame, and the number of cells with NaN output.
pub(super) type Boxes = (Vec<GeoBox>, usize);

/// The masks of a batch.
#[derive(Debug)]
pub struct Prediction {
    /// One per sample.
    pub masks: Vec<ClassMask>,
    /// `(sample, lat, lon, class)`, if requested.
    pub probabilities: Option<Array4<f32>>,
    /// Number of pixels with NaN output in each sample; the mask has background there, without meaning.
    pub not_finite: Vec<usize>,
}

impl Model {
    /// Reads a model file; `precision` overrides that of training.
    ///
    /// # Errors
    /// [`JobError::NoContract`] if it is not a model of ours; [`JobError::Model`] if it is unreadable or damaged, or
    /// its weights do not fit the network or memory; [`JobError::Weights`] if some weights are not finite.
    pub fn load(path: &Path, precision: Option<Precision>) -> Result<Self> {
        let file = StoredFile::open(path)?;
        let contract = Contract::of(&file.facts, path)?;
        let (suppression, clips) = match contract.task() {
            Task::Detect => {
                let recipe = Recipe::parse(&contract.recipe, &[])?;
                let clips = ClipShape::for_network(&contract.network, recipe.data.clip_stride);
                (recipe.detection.suppression, clips)
            }
            Task::Segment => (Suppression::default(), None),
        };
        let backend = Backend::best();
        // An explicitly requested precision is used without TF32.
        let tf32 = contract.tf32 && precision.is_none();
        allow_tf32(tf32);
        let policy = PrecisionPolicy {
            keep_f32: contract.keep_f32.clone(),
            all_layers: contract.all_layers,
            tf32,
            ..precision.unwrap_or(contract.precision).into()
        };
        let (dtype, note) = policy.resolve(backend);
        // No note if the machine made the choice: the plan reports it.
        let note = note.filter(|_| policy.compute != Precision::Auto);
        let mut network = build_network(&contract.network, backend, 0)?;
        let storage = policy.storage(&network, dtype)?;
        network.parameters_mut().load(path, &file)?;
        check_finite(path, &file)?;
        Ok(Self {
            path: path.to_path_buf(),
            contract,
            network,
            hash: file.hash().to_string(),
            storage,
            tf32,
            suppression,
            clips,
            notes: note.map(str::to_string).into_iter().collect(),
        })
    }

    /// The file it came from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its inputs and outputs.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// XXH3-128 of the file (hexadecimal).
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Data type of activations, except in layers that keep f32.
    pub fn dtype(&self) -> DType {
        self.storage.dtype
    }

    /// Whether convolutions of f32 values may use TF32 on GPUs that have it.
    pub fn tf32(&self) -> bool {
        self.tf32
    }

    /// How activations are stored.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// What it outputs for a time.
    pub fn gives(&self) -> Gives {
        match (self.network.is_detector(), self.network.gives_masks()) {
            (false, _) => Gives::Masks,
            (true, false) => Gives::Boxes,
            (true, true) => Gives::Both,
        }
    }

    /// The clips that it takes; `None` for a network that sees single fields.
    pub fn clips(&self) -> Option<ClipShape> {
        self.clips
    }

    /// Notes for the user, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Rejects an input that it does not fit; returns notes on harmless differences.
    ///
    /// # Errors
    /// [`JobError::Contract`] with every reason.
    pub fn check(&self, grid: &LatLonGrid, available: &[Variable]) -> Result<Vec<String>> {
        let checked = self.contract.check(grid, available);
        checked.map_err(|reasons| JobError::Contract {
            model: self.path.clone(),
            reasons,
        })
    }

    /// Turns a snapshot of its channels, in their order, into normalised pixels `(lat, lon, channel)`; also returns how
    /// many missing values were replaced by the mean.
    ///
    /// # Errors
    /// [`JobError::Data`] if the snapshot lacks a channel.
    pub fn pixels(&self, snapshot: &Snapshot) -> Result<(Vec<f32>, usize)> {
        super::pixels::normalised(snapshot, &self.contract.normalisation)
    }

    /// Finds the boxes of every sample of normalised fields on a grid, most confident first: those that the recipe's
    /// suppression keeps, and the number of cells with NaN output. For a clip: those of the frames that the network
    /// outputs boxes for.
    ///
    /// # Errors
    /// [`JobError::Model`] if the network outputs no boxes, or the shape does not fit it.
    pub(super) fn find_boxes(&self, x: &Tensor, grid: &LatLonGrid) -> Result<Vec<Boxes>> {
        Ok(self.find_boxes_and_masks(x, &[], grid, false)?.0)
    }

    /// Like [`Self::find_boxes`], with the masks of a network that outputs them, too.
    ///
    /// # Errors
    /// As [`Self::find_boxes`].
    pub(super) fn find_boxes_and_masks(
        &self,
        x: &Tensor,
        times: &[Time],
        grid: &LatLonGrid,
        probabilities: bool,
    ) -> Result<(Vec<Boxes>, Option<Prediction>)> {
        let how = (self.suppression.min_confidence, probabilities);
        let found = (self.network).find_boxes_and_masks(x, &self.storage, how)?;
        let masks = (found.masks).map(|masks| prediction(masks, times, grid.shape()));
        let boxes = self.kept(found.boxes, grid).into_iter();
        Ok((boxes.zip(found.not_finite).collect(), masks.transpose()?))
    }

    /// The boxes that the recipe's suppression keeps.
    fn kept(&self, found: Vec<Vec<ScoredBox>>, grid: &LatLonGrid) -> Vec<Vec<GeoBox>> {
        let geo = |found: &ScoredBox| Some(in_pixels(found)?.to_degrees(grid));
        let of_sample = |found: Vec<ScoredBox>| {
            let boxes: Vec<GeoBox> = found.iter().filter_map(geo).collect();
            self.suppression.apply(&boxes)
        };
        found.into_iter().map(of_sample).collect()
    }

    /// Predicts masks for samples of normalised pixels.
    ///
    /// # Shapes
    /// `pixels`: `times.len()` times `(lat, lon, channel)`
    /// # Errors
    /// [`JobError::Model`] if the shape does not fit the network; [`JobError::NotFinite`] if it outputs NaN.
    pub fn predict(
        &self,
        pixels: &[f32],
        times: &[Time],
        shape: (usize, usize),
        probabilities: bool,
    ) -> Result<Prediction> {
        let (rows, columns) = shape;
        let (batch, channels) = (times.len(), self.contract.channels.len());
        let x = Tensor::from_slice(pixels, (batch, rows, columns, channels), &Device::Cpu)?;
        let predicted = self.predict_tensor(&x, times, probabilities, NonZeroUsize::MIN)?;
        let mut each = times.iter().zip(&predicted.not_finite);
        match each.find(|&(_, &points)| points > 0) {
            None => Ok(predicted),
            Some((time, &points)) => Err(JobError::NotFinite {
                model: self.path.clone(),
                time: time.to_string(),
                origin: None,
                points,
            }),
        }
    }

    /// The prediction for a tensor `(sample, lat, lon, channel)`, computed in this many strips of latitude. NaN in the
    /// output is counted, not yet an error.
    pub(super) fn predict_tensor(
        &self,
        x: &Tensor,
        times: &[Time],
        probabilities: bool,
        strips: NonZeroUsize,
    ) -> Result<Prediction> {
        let (_, rows, columns, _) = x.dims4()?;
        let predicted =
            (self.network).predict_in_strips(x, &self.storage, probabilities, strips)?;
        prediction(predicted, times, (rows, columns))
    }
}

/// Rejects weights that are NaN or infinite: the resulting masks would look plausible.
///
/// # Errors
/// [`JobError::Weights`] naming the first tensor with such values, and their number.
pub fn check_finite(path: &Path, file: &StoredFile<'_>) -> Result<()> {
    match file.first_not_finite() {
        None => Ok(()),
        Some((tensor, count)) => Err(JobError::Weights {
            model: path.to_path_buf(),
            tensor: tensor.to_string(),
            count,
        }),
    }
}

/// Turns a network's output into masks of these times.
fn prediction(
    predicted: squall_model::Prediction,
    times: &[Time],
    (rows, columns): (usize, usize),
) -> Result<Prediction> {
    let shaped =
        |error: ndarray::ShapeError| JobError::Data(DataError::Invalid(format!("logits: {error}")));
    let mut not_finite = Vec::with_capacity(times.len());
    let masks = times
        .iter()
        .zip(predicted.classes.chunks_exact(rows * columns))
        .map(|(&time, codes)| {
            not_finite.push(codes.iter().filter(|&&code| code == NO_CLASS).count());
            let class = |&code: &u8| if code == NO_CLASS { 0 } else { code };
            let codes = codes.iter().map(class).collect();
            let codes = Array2::from_shape_vec((rows, columns), codes);
            Ok(ClassMask::new(time, codes.map_err(shaped)?)?)
        })
        .collect::<Result<_>>()?;
    let probabilities = match predicted.probabilities {
        Some(values) => {
            let shape = values.dims4()?;
            let values = values.flatten_all()?.to_vec1::<f32>()?;
            // An infinite logit still gives a class, but no probability.
            let pixels = values.chunks_exact((rows * columns * shape.3).max(1));
            for (broken, pixels) in not_finite.iter_mut().zip(pixels) {
                let firsts = pixels.iter().step_by(shape.3.max(1));
                *broken = firsts.filter(|p| p.is_nan()).count().max(*broken);
            }
            Some(Array4::from_shape_vec(shape, values).map_err(shaped)?)
        }
        None => None,
    };
    Ok(Prediction {
        masks,
        probabilities,
        not_finite,
    })
}
