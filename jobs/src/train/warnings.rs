//! Warnings of what is allowed but probably not intended: settings and data before the first step, and a model that finds
//! nothing after the last.

use super::progress::{Outcome, TrainReport};
use crate::recipe::{Recipe, Task};
use squall_data::store::Split;
use squall_data::{Class, Store};
use squall_model::optim::Schedule;
use squall_model::optim::schedule::Decay;

/// Warns of classes missing from all training or all validation samples.
pub(super) fn missing_classes(store: &Store) {
    for (split, samples, so) in [
        (Split::Train, "training", "the network cannot learn it"),
        (
            Split::Validation,
            "validation",
            "nothing is known of how well it is found",
        ),
    ] {
        let counts = store.class_counts(split);
        if counts.iter().sum::<u64>() == 0 {
            // A split without any labels is reported elsewhere.
            continue;
        }
        for (class, _) in (Class::ALL.iter().zip(counts)).filter(|(_, count)| *count == 0) {
            let name = class.name().replace('_', " ");
            tracing::warn!("no {samples} sample has a pixel of {name}: {so}");
        }
    }
}

/// Warns if a run ends before warm-up reaches the recipe's learning rate.
pub(super) fn long_warmup(warmup: u64, steps: u64) {
    if warmup > 0 && warmup >= steps {
        let reached = match warmup == steps {
            true => "reached in the last step alone",
            false => "never reached",
        };
        let ending = if steps == 1 { "" } else { "s" };
        tracing::warn!(
            "`schedule.warmup_steps` is {warmup} and the run has {steps} step{ending}: `schedule.rate` is {reached}"
        );
    }
}

/// Warns of steps at which the schedule has a rate of 0: they take their time and change nothing.
pub(super) fn zero_rate(schedule: &Schedule, steps: u64) {
    let idle = schedule.steps_at_zero(steps);
    if idle == 0 {
        return;
    }
    let (key, instead) = match schedule.decay {
        Decay::Piecewise => ("schedule.shares", "a share above 0"),
        _ => ("schedule.t_max", "a larger one, or `schedule.end` above 0"),
    };
    tracing::warn!(
        "by `{key}` {idle} of the run's {steps} steps have a learning rate of 0, which changes nothing: expected {instead}"
    );
}

/// Warns of classes of which the best validation of a finished run found nothing, although the truth has them.
pub(super) fn nothing_found(report: &TrainReport, store: &Store, recipe: &Recipe) {
    let (Outcome::Finished, Some(best)) = (report.outcome, &report.best) else {
        return;
    };
    let missed = best
        .scores
        .missed_classes(store.class_counts(Split::Validation));
    if missed.is_empty() {
        return;
    }
    tracing::warn!(
        "the model finds no {}: the best validation (step {}, {} {:.4}; `{}`) has none of them right. More steps, another `schedule.rate` \
         or another {} may help",
        missed.join(" and no ").replace('_', " "),
        best.step,
        best.scores.score_name(),
        best.scores.score(),
        // Of a search it tells the trial.
        report.model.display(),
        weights_of_loss(recipe)
    );
}

/// The part of a recipe that sets what its loss gives more weight to.
fn weights_of_loss(recipe: &Recipe) -> &'static str {
    match recipe.outputs_boxes_alone() {
        // It reads no `loss.*`.
        true => "`[detection.loss]`",
        false => "`loss.weighting`",
    }
}

/// Warns of training samples that a network of masks and boxes does not read because they have only masks.
pub(super) fn masks_not_read(recipe: &Recipe, store: &Store) {
    let both = recipe.task == Task::Detect && recipe.network.mask_classes > 0;
    if !both || recipe.detection.unlabelled_per_batch > 0 {
        return;
    }
    let ids = store.ids(Split::Train);
    let alone = |&&id: &&usize| store.samples()[id].has_mask() && store.boxes(id).is_none();
    match ids.iter().filter(alone).count() {
        0 => {}
        count => tracing::warn!(
            "{count} of {} training samples have a mask and no boxes, and are not read: `detection.unlabelled_per_batch` is 0, and would \
             take so many of them into every batch",
            ids.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A detector was advised to set what `train` says has no effect on it.
    #[test]
    fn advice_names_what_the_network_reads() {
        let of = |changes: &[&str]| {
            let changes: Vec<String> = changes.iter().map(|c| (*c).to_string()).collect();
            weights_of_loss(&Recipe::parse("", &changes).unwrap())
        };
        assert_eq!(of(&[]), "`loss.weighting`");
        let boxes = ["task=detect", "network.name=detector-dense"];
        assert_eq!(of(&boxes), "`[detection.loss]`");
        let both = [&boxes[..], &["network.mask_classes=3"]].concat();
        assert_eq!(of(&both), "`loss.weighting`");
    }
}
