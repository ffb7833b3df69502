//! The settings that an MLPerf log records at the start of a run: submission, recipe, data and ranks.
//!
//! # Source
//! mlcommons/hpc `deepcam/src/deepCam` (`train.py`, `utils/optimizer_helpers.py`, `utils/schedulers.py`): what is written
//! and what it means; mlcommons/logging `compliance_checker/hpc_3.0.0`: the names that are asked for.

use super::Hardware;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use crate::train::TrainPlan;
use serde_json::Value;
use squall_model::optim::schedule::Decay;
use squall_model::optim::{OptimizerConfig, Rule, Schedule};

/// A key and its value.
pub(super) type Fact = (&'static str, Value);

/// Who submits the run. Values that only the submitter knows are placeholders, as in the logs of MLPerf's own
/// implementations.
pub(super) const SUBMISSION: [(&str, &str); 5] = [
    ("submission_benchmark", "deepcam"),
    ("submission_org", "SUBMISSION_ORG_PLACEHOLDER"),
    ("submission_division", "open"),
    ("submission_status", "onprem"),
    ("submission_platform", "SUBMISSION_PLATFORM_PLACEHOLDER"),
];

/// The settings of a run.
///
/// # Errors
/// [`JobError::Recipe`] if the recipe does not fit this many ranks.
pub(super) fn of_run(recipe: &Recipe, plan: &TrainPlan, hardware: Hardware) -> Result<Vec<Fact>> {
    let distributed = &recipe.distributed;
    let ranks = distributed.step_ranks(hardware.ranks);
    let ranks = ranks.map_err(JobError::recipe)?;
    let batch = recipe.local_batch(ranks).map_err(JobError::recipe)?;
    let accumulate = recipe.training.accumulate;
    let step_samples = batch.times(ranks * accumulate).samples();
    let schedule = recipe.scaled_schedule(ranks);
    let mut facts: Vec<Fact> = vec![
        ("seed", recipe.seed.into()),
        ("number_of_ranks", hardware.ranks.into()),
        ("number_of_nodes", hardware.nodes.into()),
        (
            "accelerators_per_node",
            hardware.accelerators_per_node.into(),
        ),
        ("global_batch_size", step_samples.into()),
        ("batchnorm_group_size", distributed.norm_ranks(ranks).into()),
        ("gradient_accumulation_frequency", accumulate.into()),
    ];
    facts.extend(of_optimiser(&recipe.optimiser, &schedule));
    facts.extend(of_schedule(&schedule, plan.total_steps));
    facts.push(("train_samples", plan.training_samples.into()));
    facts.push(("eval_samples", plan.validation_samples.into()));
    Ok(facts)
}

fn of_optimiser(optimiser: &OptimizerConfig, schedule: &Schedule) -> Vec<Fact> {
    let name = match optimiser.rule {
        Rule::Sgd => "SGD",
        Rule::Adam => "Adam",
        Rule::AdamW => "AdamW",
        Rule::Lamb => "LAMB",
    };
    let rate = short(schedule.rate * warmup_begin(schedule));
    let mut facts: Vec<Fact> = vec![("opt_name", name.into()), ("opt_lr", rate.into())];
    let of_momentum = || -> Vec<Fact> {
        vec![
            ("opt_momentum", short(optimiser.momentum).into()),
            ("opt_nesterov", optimiser.nesterov.into()),
        ]
    };
    let of_moments = || -> Vec<Fact> {
        let betas = [optimiser.beta1, optimiser.beta2].map(short);
        vec![
            ("opt_betas", betas.to_vec().into()),
            ("opt_eps", short(optimiser.epsilon).into()),
            ("opt_bias_correction", optimiser.bias_correction.into()),
        ]
    };
    match optimiser.rule {
        Rule::Sgd => facts.extend(of_momentum()),
        Rule::Adam | Rule::AdamW => facts.extend(of_moments()),
        Rule::Lamb => {
            facts.extend(of_moments());
            facts.push(("opt_grad_averaging", optimiser.grad_averaging.into()));
        }
    }
    facts.push(("opt_weight_decay", short(optimiser.weight_decay).into()));
    let longest = optimiser.clip_norm.map_or(Value::Null, Value::from);
    facts.push(("opt_max_grad_norm", longest));
    facts
}

fn of_schedule(schedule: &Schedule, total_steps: u64) -> Vec<Fact> {
    let (name, numbers): (_, Vec<Fact>) = match schedule.decay {
        Decay::Cosine => {
            let rest = total_steps.saturating_sub(schedule.warmup_steps);
            let end = short(schedule.rate * schedule.end);
            let numbers = vec![
                (
                    "scheduler_t_max",
                    schedule.t_max.unwrap_or(rest.max(1)).into(),
                ),
                ("scheduler_eta_min", end.into()),
            ];
            ("cosine_annealing", numbers)
        }
        Decay::Multistep => {
            let numbers = vec![
                ("scheduler_milestones", schedule.milestones.clone().into()),
                ("scheduler_decay_rate", short(schedule.factor).into()),
            ];
            ("multistep", numbers)
        }
        Decay::Constant => ("constant", Vec::new()),
        Decay::Poly => ("poly", Vec::new()),
        Decay::Exponential => ("exponential", Vec::new()),
        Decay::Piecewise => ("piecewise", Vec::new()),
    };
    let factor = 1.0 / warmup_begin(schedule);
    let mut facts: Vec<Fact> = vec![
        ("scheduler_type", name.into()),
        ("scheduler_lr_warmup_steps", schedule.warmup_steps.into()),
        ("scheduler_lr_warmup_factor", short(factor).into()),
    ];
    facts.extend(numbers);
    facts
}

/// The initial warm-up factor of MLPerf's optimiser, by which the warm-up multiplies the rate. A warm-up from 0 has a
/// factor of 1 there, and so has no warm-up.
fn warmup_begin(schedule: &Schedule) -> f32 {
    let begins = schedule.warmup_steps > 0 && schedule.warmup_start > 0.0;
    if begins { schedule.warmup_start } else { 1.0 }
}

/// Rounds to the digits that the f32 was given with: checkers compare 1e-6 to more digits than an f32 holds.
pub(super) fn short(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
