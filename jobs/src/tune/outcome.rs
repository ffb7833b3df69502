//! The result of a halted run, from its metrics, and whether a failed one is out.

use crate::error::{JobError, Result};
use crate::metrics::{Metric, read_metrics};
use crate::recipe::Recipe;
use crate::train::evaluate::Scores;
use squall_model::gpu::tells_of_full_memory;
use squall_model::{Backend, GpuError, ModelError};
use std::path::Path;

/// The validation of a run after this many steps.
pub(super) fn score_at(metrics: &Path, step: u64) -> Result<Option<Scores>> {
    let mut metrics = read_metrics(metrics)?.into_iter().rev();
    Ok(metrics.find_map(|metric| match metric {
        Metric::Validation {
            step: at, scores, ..
        } if at == step => Some(scores),
        _ => None,
    }))
}

/// Unexpectedly skipped steps of a run until this one: some are expected while the loss scale is searched for.
pub(super) fn skipped_until(metrics: &Path, until: u64, recipe: &Recipe) -> Result<u64> {
    let (dtype, _) = recipe.precision.resolve(Backend::best());
    if recipe.precision.loss_scale(dtype).is_dynamic() {
        return Ok(0);
    }
    // With a lag the first steps have no gradient to apply yet.
    let lag = recipe.distributed.gradient_lag as u64;
    let is_lost = |metric: &&Metric| match metric {
        Metric::Step { step, skipped, .. } => *skipped && *step > lag && *step <= until,
        _ => false,
    };
    Ok(read_metrics(metrics)?.iter().filter(is_lost).count() as u64)
}

/// Whether a trial with this error is out: it diverged, or does not fit into the currently free memory. GPU memory is
/// predicted, too, and the prediction may be too low.
pub(super) fn is_out(error: &JobError) -> bool {
    match error {
        JobError::Diverged { .. } | JobError::Memory { .. } => true,
        JobError::Model(ModelError::Gpu(GpuError::OutOfMemory { .. })) => true,
        JobError::Model(error) => tells_of_full_memory(&error.to_string()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::JsonLines;

    #[test]
    fn a_trial_that_a_gpu_cannot_hold_is_out() {
        let out_of = |error: GpuError| is_out(&JobError::Model(error.into()));
        assert!(out_of(GpuError::OutOfMemory {
            asked_mb: 900,
            free_mb: 20,
            total_mb: 40_000,
        }));
        let call = |reason: &str| GpuError::Call {
            call: "cuGraphInstantiate",
            reason: reason.into(),
        };
        assert!(out_of(call("CUDA_ERROR_OUT_OF_MEMORY: out of memory")));
        let of_cudnn = "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
        assert!(out_of(call(of_cudnn)));
        assert!(!out_of(call("CUDA_ERROR_ILLEGAL_ADDRESS")));
    }

    #[test]
    fn steps_that_find_the_scale_of_the_loss_are_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut lines = JsonLines::open(&path).unwrap();
        for step in 1..=6 {
            let line = Metric::Step {
                step,
                epoch: 0,
                loss: None,
                gradient_norm: None,
                learning_rate: 1e-3,
                skipped: step % 2 == 1,
            };
            lines.push(&line).unwrap();
        }
        let lost = |changes: &[&str]| {
            let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
            let recipe = Recipe::named(Path::new("small"), &changes).unwrap();
            skipped_until(&path, 4, &recipe).unwrap()
        };
        assert_eq!(lost(&["precision=bf16"]), 2);
        assert_eq!(lost(&["precision=bf16", "distributed.gradient_lag=1"]), 1);
        assert_eq!(lost(&["precision=f16"]), 0);
    }
}
