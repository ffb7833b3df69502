//! How long a run trains, in which portions, and what is saved when.

use serde::{Deserialize, Serialize};
use squall_model::{Recompute, SavedActivations};
use std::path::PathBuf;

/// The mask score that selects the best model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BestBy {
    /// The mean over classes of the IoU over all pixels.
    #[default]
    MeanIou,
    /// The mean over samples of the mean over classes, as in MLPerf HPC DeepCAM.
    SampleMeanIou,
    /// Like `MeanIou`, with pixels weighted by their area.
    AreaMeanIou,
}

impl BestBy {
    /// Its label in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::MeanIou => "mean IoU",
            Self::SampleMeanIou => "sample mean IoU",
            Self::AreaMeanIou => "area mean IoU",
        }
    }

    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// How long, in which portions, and what is saved when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Training {
    /// Samples that a rank computes at once; with `accumulate` 1 those of a step. Default 2.
    pub batch: usize,
    /// Batches of a step on each rank: their gradients are added up before the optimiser's step, so that a step has this
    /// many times the samples of a batch in the memory of one. The loss is that of all samples of the step. Batch
    /// normalisation sees one batch at a time. Default 1.
    #[serde(skip_serializing_if = "is_one")]
    pub accumulate: usize,
    /// Passes over the training samples; give this or `steps`. The run has as many steps as their samples fill, rounded
    /// up: what fills no step of one pass begins the next.
    pub epochs: Option<f64>,
    /// Steps; give this or `epochs`. Default, if neither is given: 20 epochs.
    pub steps: Option<u64>,
    /// Steps between validations. Default: one validation per epoch, of whole steps. There is always one at the end.
    pub validate_every_steps: Option<u64>,
    /// At most so many validation samples, evenly spaced. Default: all.
    pub validation_samples: Option<usize>,
    /// Steps between checkpoints. Default: one per epoch, of whole steps. There is always one at the end and when the
    /// run is stopped.
    pub checkpoint_every_steps: Option<u64>,
    /// Also a checkpoint after so many seconds without one, by the clock of the first rank. Default 600.
    pub checkpoint_every_seconds: f64,
    /// Stop with a checkpoint after so many seconds, as if interrupted. Default: no limit. The result is then that of a
    /// part of the run, and how large a part depends on the machine.
    pub max_seconds: Option<f64>,
    /// Decay, such as 0.999, of an exponential moving average of the weights and of the running statistics of batch
    /// normalisation, which validations judge and model files hold. Default: none, they are those of the last step.
    pub average: Option<f64>,
    /// The score of masks by which the best model is chosen, and by which `target_score` and `patience` end a run:
    /// `"mean_iou"` over all pixels, `"sample_mean_iou"` (MLPerf's, sample by sample) or `"area_mean_iou"` (pixels
    /// weighted by their area). Default `"mean_iou"`.
    #[serde(skip_serializing_if = "BestBy::is_usual")]
    pub best_by: BestBy,
    /// End with the validation whose score (that of `best_by` of masks, mean AP of boxes) reaches this, as MLPerf's
    /// runs do. Default: none.
    pub target_score: Option<f64>,
    /// End after so many validations in a row that were not better than the best one. Default: none.
    pub patience: Option<u64>,
    /// In half precision, this many steps in a row may be skipped because loss or gradient was not finite. Default 5.
    /// In f32 the first one ends the run. Overflows that lower a dynamic loss scale do not count: they are how it is
    /// found.
    pub max_skipped_steps: u32,
    /// A model file of the same network and channels whose weights are the initial values: of an earlier run, or of
    /// `squall model import`. Default: initial values follow from `seed`.
    pub start_from: Option<PathBuf>,
    /// What the backward pass computes again instead of keeping it, with the same bits: `"none"`, `"norms"` (what
    /// follows a batch normalisation, a tenth slower) or `"blocks"` (the inside of residual, dense and decoder blocks,
    /// a fifth slower). Default `"none"`.
    pub recompute: Recompute,
    /// What activations are kept as for the backward pass: `"same"`, or `"bf16"`, half the memory of f32, with
    /// gradients off by some thousandths. Default `"same"`.
    pub saved_activations: SavedActivations,
    /// On a GPU the forward and the backward pass are launched as two CUDA graphs instead of one operation after the
    /// other: less work for the processor, which counts where kernels are short (small batches, small fields), but up
    /// to a third more memory. By one rank; where that is asked for and a step cannot be launched so, it is told why.
    /// Default: where it can be and there is room for it.
    pub cuda_graphs: Option<bool>,
    /// The first so many steps are written down as a Chrome trace, `trace.rankN.json` in the run's folder. Default 0.
    pub trace_steps: usize,
    /// Go on though the machine seems to have too little memory. Default false.
    pub ignore_memory: bool,
}

/// Recipes that do not use `accumulate` are written without it, as before it existed.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_one(batches: &usize) -> bool {
    *batches == 1
}

impl Default for Training {
    fn default() -> Self {
        Self {
            batch: 2,
            accumulate: 1,
            epochs: None,
            steps: None,
            validate_every_steps: None,
            validation_samples: None,
            checkpoint_every_steps: None,
            checkpoint_every_seconds: 600.0,
            max_seconds: None,
            average: None,
            best_by: BestBy::default(),
            target_score: None,
            patience: None,
            max_skipped_steps: 5,
            start_from: None,
            recompute: Recompute::default(),
            saved_activations: SavedActivations::default(),
            cuda_graphs: None,
            trace_steps: 0,
            ignore_memory: false,
        }
    }
}

impl Training {
    /// Total steps of the run for epochs of so many samples, and so many of them in a step.
    pub fn total_steps(&self, of_epoch: usize, of_step: usize) -> u64 {
        self.steps
            .unwrap_or_else(|| Self::steps_of(self.passes(), of_epoch, of_step))
    }

    /// Steps of this many epochs of so many samples, and so many of them in a step.
    pub fn steps_of(passes: f64, of_epoch: usize, of_step: usize) -> u64 {
        // 0.28 epochs of 25 steps round to slightly more than 7 steps: that must not start an eighth.
        let exact = 1.0 - 4.0 * f64::EPSILON;
        (passes * of_epoch as f64 * exact / of_step as f64).ceil() as u64
    }

    /// Number of epochs, for a training whose length is not in steps.
    pub fn passes(&self) -> f64 {
        self.epochs.unwrap_or(20.0)
    }
}
