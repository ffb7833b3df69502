//! Progress events and the final report of a run.

use super::early_stopping::EndedEarly;
use super::evaluate::Scores;
use super::groups::StalenessSummary;
use super::plan::TrainPlan;
use super::step::StepResult;
use super::timeline::{Balance, Spent};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The best validation so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps done before it.
    pub step: u64,
    /// Its scores.
    pub scores: Scores,
}

/// An event during training.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TrainEvent {
    /// Before the first step.
    Started(TrainPlan),
    /// After a step.
    Step {
        /// Steps done.
        step: u64,
        /// Steps of the whole run.
        total: u64,
        /// Epoch, counted from 0.
        epoch: u64,
        /// Its loss, gradient norm and learning rate.
        result: StepResult,
        /// Duration, including waits.
        seconds: f64,
        /// Time spent waiting for data.
        wait_seconds: f64,
    },
    /// After the first step, if the backward pass did not reach some parameters: their whole gradient was exactly zero.
    WithoutGradient {
        /// Steps done.
        step: u64,
        /// Names of these parameters.
        parameters: Vec<String>,
    },
    /// After a validation.
    Validated {
        /// Steps done.
        step: u64,
        /// The network's scores.
        scores: Scores,
        /// Whether it is the best so far.
        best: bool,
    },
    /// After a checkpoint.
    CheckpointSaved {
        /// Steps done.
        step: u64,
        /// The checkpoint's file.
        path: PathBuf,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All steps are done, or early stopping ended the run.
    Finished,
    /// Asked to stop, or out of time; calling again resumes the run.
    Interrupted,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it stopped early, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<EndedEarly>,
    /// Steps done, including earlier parts of the run.
    pub steps: u64,
    /// Steps done in this part.
    pub new_steps: u64,
    /// Steps of the whole run, if nothing ends it early.
    pub total_steps: u64,
    /// Steps that were skipped because the loss or the gradient was not finite.
    pub skipped_steps: u64,
    /// The best validation.
    pub best: Option<Best>,
    /// Loss of the last step of this part.
    pub last_loss: Option<f64>,
    /// Seconds of this part.
    pub seconds: f64,
    /// Ranks that trained together.
    pub ranks: usize,
    /// Where the time of this rank went in this part; for a parameter server, the mean over the ranks that compute.
    pub spent: Spent,
    /// Throughput of all ranks together in this part, and how evenly the work was shared.
    pub balance: Balance,
    /// Missing values that were replaced by the mean in this part, over all ranks (with groups: those of the group).
    pub missing_values: u64,
    /// With groups: staleness of gradients in this part; in round-robin order, in all parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness: Option<StalenessSummary>,
    /// The model file to use.
    #[serde(serialize_with = "crate::metrics::path_as_text")]
    pub model: PathBuf,
}
