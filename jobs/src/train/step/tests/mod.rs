//! One rank's steps: what several batches learn, skipping, naming what is wrong.

mod scale;

use super::*;
use crate::comm::Communicator;
use crate::comm::threads::{self, Threads};
use crate::train::team::Signals;
use squall_data::HostBatch;
use squall_model::{Recompute, SavedActivations};
use std::ops::Range;

fn recipe(settings: &[&str]) -> Recipe {
    let text = "precision = 'f32'\n[optimiser]\nrule = 'sgd'\n[network]\nwidth = 0.05\nblocks = [1, 1]\natrous_rates = [2]\nchannels_in = 3";
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    Recipe::parse(text, &settings).unwrap()
}

fn learner(settings: &[&str]) -> Learner {
    learner_of(&recipe(settings), 1)
}

/// That of one of so many ranks.
fn learner_of(recipe: &Recipe, ranks: usize) -> Learner {
    let objective = Objective::Masks(recipe.loss.criterion(vec![0.3, 1.0, 0.7]));
    Learner::new(recipe, &recipe.network, objective, 10, ranks).unwrap()
}

/// Learner and team of one of two or more ranks.
fn joined(settings: &[&str], rank: Threads) -> (Learner, Team) {
    let recipe = recipe(settings);
    let mut learner = learner_of(&recipe, rank.size());
    let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
    learner.join(&recipe.distributed, &mut team).unwrap();
    (learner, team)
}

fn batch() -> Batch {
    batch_of(0..2)
}

/// One whose fields have a value that is none.
fn broken_batch() -> Batch {
    let mut broken = batch();
    broken.host.x[77] = f32::NAN;
    broken
}

/// These samples, of which the first two have all classes and the others two of them.
fn batch_of(samples: Range<usize>) -> Batch {
    const PIXELS: usize = 16 * 24;
    let of = |values: usize| values * samples.start..values * samples.end;
    let label = |i: usize| i / 5 % if i < 2 * PIXELS { 3 } else { 2 };
    let host = HostBatch {
        x: of(3 * PIXELS)
            .map(|i| (i * i % 101) as f32 / 50.0 - 1.0)
            .collect(),
        shape: [samples.len(), 16, 24, 3],
        labels: of(PIXELS).map(|i| label(i) as u8).collect(),
        ids: samples.clone().collect(),
        ..HostBatch::default()
    };
    host.into()
}

/// A step of these samples in so many batches.
fn step_in_batches(learner: &mut Learner, samples: usize, batches: usize) -> StepResult {
    let (each, team) = (samples / batches, &mut Team::solo());
    let batch = |at: usize| batch_of(at * each..(at + 1) * each);
    for at in 0..batches - 1 {
        learner.accumulate(&batch(at), team).unwrap();
    }
    learner.step(&batch(batches - 1), team).unwrap()
}

/// Why a step of a single rank fails.
fn failure(learner: &mut Learner, batch: &Batch) -> String {
    let error = learner.step(batch, &mut Team::solo()).unwrap_err();
    error.to_string()
}

/// All parameters.
fn values(learner: &Learner) -> Vec<f32> {
    let parameters = learner.network.parameters().iter();
    parameters.flat_map(|p| p.values().unwrap()).collect()
}

/// All parameters, and the running statistics of batch normalisation.
fn state(learner: &Learner) -> Vec<f32> {
    let statistics = learner.network.parameters().buffers().iter();
    let statistics = statistics.flat_map(|b| b.values.iter().copied());
    values(learner).into_iter().chain(statistics).collect()
}

fn fill(learner: &mut Learner, name: &str, value: f32) {
    let parameters = learner.network.parameters_mut();
    parameters
        .update(|p, values| {
            if p.name == name {
                values.fill(value);
            }
        })
        .unwrap();
}

/// What is computed again has the same bits: that it was kept instead would show in nothing but the memory.
#[test]
fn activations_are_kept_as_the_recipe_says() {
    let kept = |settings: &[&str]| {
        let learner = learner(settings);
        (learner.storage.recompute, learner.storage.saved)
    };
    assert_eq!(kept(&[]), (Recompute::None, SavedActivations::Same));
    let less = [
        "training.recompute=blocks",
        "training.saved_activations=bf16",
    ];
    assert_eq!(kept(&less), (Recompute::Blocks, SavedActivations::Bf16));
}

/// As with PyTorch's autocast; what goes into the loss is rounded then, so that losses differ a little.
#[test]
fn all_layers_may_compute_in_half_precision() {
    for half in ["bf16", "f16"] {
        let losses = |precision: String| {
            let mut learner = learner(&[&precision]);
            let losses = (0..4).map(|_| learner.step(&batch(), &mut Team::solo()).unwrap().loss);
            (losses.collect::<Vec<f64>>(), learner.storage)
        };
        let (ends_in_f32, _) = losses(format!("precision={{ compute = '{half}' }}"));
        let (all, storage) = losses(format!(
            "precision={{ compute = '{half}', all_layers = true }}"
        ));
        assert_ne!(all, ends_in_f32);
        for (a, b) in all.iter().zip(&ends_in_f32) {
            assert!((a - b).abs() < 0.02 * b, "{half}: {all:?} {ends_in_f32:?}");
        }
        assert_eq!(storage, half.parse::<DType>().unwrap().into());
    }
}

/// Whatever the loss is divided by: not each batch by its own weights, but all by those of the step.
#[test]
fn batches_of_a_step_learn_what_one_larger_batch_does() {
    let cases: [&[&str]; 4] = [
        &[],
        &["loss.normalisation=pixels"],
        &["loss.normalisation={ sum = 1e-3 }"],
        &["distributed.gradient_lag=1"],
    ];
    for changes in cases {
        let run = |accumulate: usize| {
            let batches = format!("training.accumulate={accumulate}");
            let alike = [
                "network.batch_norm=false",
                "schedule.rate=0.01",
                batches.as_str(),
            ];
            let mut learner = learner(&[&alike[..], changes].concat());
            let before = state(&learner);
            let steps = (0..3).map(|_| step_in_batches(&mut learner, 4, accumulate));
            let steps: Vec<StepResult> = steps.collect();
            let after = state(&learner);
            let moves = after.iter().zip(&before).map(|(a, b)| a - b);
            (steps, moves.collect::<Vec<f32>>())
        };
        let (whole, expected) = run(1);
        for accumulate in [2, 4] {
            let (steps, moves) = run(accumulate);
            for (step, one) in steps.iter().zip(&whole) {
                assert_eq!(step.skipped, one.skipped, "{changes:?}");
                let off = |a: f64, b: f64| (a / b - 1.0).abs();
                let loss = off(step.loss, one.loss);
                let norm = off(step.gradient_norm, one.gradient_norm);
                // The first step with a lag has none.
                let fine = one.skipped || loss < 1e-5 && norm < 1e-4;
                assert!(fine, "{changes:?}, {accumulate}: {step:?} {one:?}");
            }
            let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>();
            let apart = square(&mut moves.iter().zip(&expected).map(|(a, b)| a - b));
            let off = (apart / square(&mut expected.iter().copied())).sqrt();
            assert!(off < 0.05, "{changes:?}, {accumulate}: {off}");
        }
    }
}

/// Also what dropout clears, what batch normalisation sees, and where its running statistics go: with them the network
/// is validated.
#[test]
fn one_rank_learns_in_two_batches_what_two_ranks_learn() {
    let settings = ["network.dropout=0.5", "schedule.rate=0.01"];
    let ranks = threads::run(threads::ranks(2), |rank| {
        let (mut learner, mut team) = joined(&settings, rank);
        let first = 2 * team.rank();
        let mine = batch_of(first..first + 2);
        let steps = (0..3).map(|_| learner.step(&mine, &mut team).unwrap().loss);
        (steps.collect::<Vec<f64>>(), state(&learner))
    });
    let (expected, wanted) = &ranks[0];
    let mut alone = learner(&[&settings[..], &["training.accumulate=2"]].concat());
    let losses = (0..3).map(|_| step_in_batches(&mut alone, 4, 2).loss);
    for (loss, expected) in losses.collect::<Vec<f64>>().iter().zip(expected) {
        assert!((loss / expected - 1.0).abs() < 1e-4, "{loss} {expected}");
    }
    for (value, wanted) in state(&alone).iter().zip(wanted) {
        let most = 1e-4 * wanted.abs().max(1.0);
        assert!((value - wanted).abs() < most, "{value} {wanted}");
    }
}

#[test]
fn one_batch_that_is_not_finite_skips_the_whole_step() {
    let dynamic = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 4.0, growth_interval = 1000 } }";
    let two = "training.accumulate=2";
    let mut learner = learner(&[dynamic, two, "training.max_skipped_steps=2"]);
    assert!(!step_in_batches(&mut learner, 4, 2).skipped);
    let before = state(&learner);
    let broken = broken_batch();
    let team = &mut Team::solo();
    for (first, last) in [(&broken, &batch()), (&batch(), &broken)] {
        learner.accumulate(first, team).unwrap();
        assert!(state(&learner) == before);
        assert!(learner.step(last, team).unwrap().skipped);
        assert!(state(&learner) == before && learner.optimizer.steps() == 1);
    }
    assert_eq!((learner.progress.step, learner.progress.skipped), (3, 2));
    for (first, last) in [(&broken, &batch()), (&batch(), &broken)] {
        learner.accumulate(first, team).unwrap();
        let error = learner.step(last, team).unwrap_err().to_string();
        assert!(error.contains("value 77"), "{error}");
    }
    // Nothing of it is left.
    let fine = step_in_batches(&mut learner, 4, 2);
    assert!(!fine.skipped && fine.loss.is_finite());
    assert!(state(&learner) != before);
}

/// All averages, where the network is.
fn averages(learner: &mut Learner) -> Vec<f32> {
    learner.exchange_average().unwrap();
    let averages = state(learner);
    learner.exchange_average().unwrap();
    averages
}

#[test]
fn the_average_follows_steps_that_were_not_skipped() {
    let dynamic = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 4.0, growth_interval = 1000 } }";
    let mut learner = learner(&["training.average=0.5", dynamic]);
    let (team, mut expected) = (&mut Team::solo(), state(&learner));
    assert!(averages(&mut learner) == expected);
    // The first decay is 1/10.
    assert!(!learner.step(&batch(), team).unwrap().skipped);
    let after = state(&learner);
    for (average, value) in expected.iter_mut().zip(&after) {
        *average += 0.9 * (value - *average);
    }
    assert!(after != expected);
    assert!(averages(&mut learner) == expected && state(&learner) == after);
    assert!(learner.step(&broken_batch(), team).unwrap().skipped);
    assert!(averages(&mut learner) == expected);
    assert!(!learner.step(&batch(), team).unwrap().skipped);
    assert!(averages(&mut learner) != expected);
}

/// Also where the optimiser rounds kernels, and where it knows norms of what it left.
#[test]
fn averaging_weights_does_not_change_training() {
    let rounded = "precision={ compute = 'bf16', kernels = 'stochastic' }";
    for setting in [rounded, "optimiser.larc={}"] {
        let run = |average: &[&str]| {
            let mut learner = learner(&[&[setting][..], average].concat());
            learner.round_kernels().unwrap();
            for _ in 0..3 {
                let step = learner.step(&batch(), &mut Team::solo()).unwrap();
                assert!(!step.skipped);
                for _ in 0..2 {
                    learner.exchange_average().unwrap();
                }
            }
            state(&learner)
        };
        assert!(run(&["training.average=0.9"]) == run(&[]), "{setting}");
    }
}

#[test]
fn a_loss_that_is_not_finite_names_its_cause() {
    let mut learner = learner(&[]);
    let broken = broken_batch();
    let error = failure(&mut learner, &broken);
    assert!(
        error.contains("step 0") && error.contains("value 77"),
        "{error}"
    );
    fill(&mut learner, "decoder.classify.weight", f32::INFINITY);
    let error = failure(&mut learner, &batch());
    assert!(error.contains("decoder.classify.weight"), "{error}");
}

/// With a lag the batch under way is not the one whose gradients are not finite.
#[test]
fn a_late_gradient_names_its_own_batch() {
    let dynamic = "precision={ compute = 'f32', loss_scale = { kind = 'static', scale = 1.0 } }";
    let mut learner = learner(&[dynamic, "distributed.gradient_lag=1"]);
    let broken = broken_batch();
    // The loss of such a batch is finite: the field shows in the gradient only.
    let pending = learner
        .forward_backward(&broken, &mut Team::solo())
        .unwrap()
        .pending;
    assert!(pending.bad_field.as_ref().unwrap().contains("value 77"));
    let gradients = vec![f32::NAN; learner.gradients.len()];
    learner.pending_steps.push_back(PendingStep {
        sums: Some(StepSums {
            loss: 1.0,
            factor: 1.0,
            not_finite: 0,
            signals: Signals::default(),
        }),
        gradients: Some(gradients),
        ..pending
    });
    let text = failure(&mut learner, &batch());
    assert!(
        text.contains("the gradient of `") && text.contains("value 77"),
        "{text}"
    );
}

/// The rank with the fault ends the job as soon as it can, and its own words may be lost: the others know them, also of
/// a batch that others of the same step followed.
#[test]
fn every_rank_names_the_fault_of_one() {
    let errors = |broken: bool, batches: usize| {
        threads::run(threads::ranks(3), |rank| {
            let accumulate = format!("training.accumulate={batches}");
            let (mut learner, mut team) = joined(&[&accumulate], rank);
            let mut mine: Vec<Batch> = (0..batches).map(|_| batch()).collect();
            match team.rank() {
                1 if broken => fill(&mut learner, "decoder.classify.weight", f32::INFINITY),
                1 => mine[0] = broken_batch(),
                _ => {}
            }
            let (last, others) = mine.split_last().unwrap();
            for batch in others {
                learner.accumulate(batch, &mut team).unwrap();
            }
            learner.step(last, &mut team).unwrap_err().to_string()
        })
    };
    for batches in [1, 2] {
        for error in errors(false, batches) {
            let told = "rank 1: value 77 of the batch's fields is NaN";
            assert!(error.contains(told), "{error}");
        }
        for error in errors(true, batches) {
            let told = "on 1 of 3 ranks: rank 1: parameter `decoder.classify.weight`";
            assert!(error.contains(told), "{error}");
        }
    }
}

#[test]
fn parameters_without_gradient_are_told_once() {
    let mut fine = learner(&[]);
    fine.step(&batch(), &mut Team::solo()).unwrap();
    assert_eq!(fine.take_without_gradient(), None);
    // Nothing passes a classifier of zeros on the way back.
    let mut cut = learner(&[]);
    fill(&mut cut, "decoder.classify.weight", 0.0);
    cut.step(&batch(), &mut Team::solo()).unwrap();
    let names = cut.take_without_gradient().unwrap();
    assert!(names.iter().any(|name| name == "encoder.stem.weight"));
    assert!(
        !names
            .iter()
            .any(|name| name.starts_with("decoder.classify"))
    );
    cut.step(&batch(), &mut Team::solo()).unwrap();
    assert_eq!(cut.take_without_gradient(), None);
    // A run that goes on has told of them, and its next step is not its first.
    let mut later = learner(&[]);
    fill(&mut later, "decoder.classify.weight", 0.0);
    later.resume_from(cut.progress);
    later.step(&batch(), &mut Team::solo()).unwrap();
    assert_eq!(later.take_without_gradient(), None);
}

/// The rate is so low that no kernel's nearest bf16 changes within a step: only chance moves what training multiplies
/// by.
#[test]
fn kernels_rounded_by_chance_move_where_the_nearest_do_not() {
    let losses = |kernels: &str| {
        let precision = format!("precision={{ compute = 'bf16', kernels = '{kernels}' }}");
        let mut learner = learner(&[&precision, "schedule.rate=1e-12"]);
        learner.round_kernels().unwrap();
        let before = values(&learner);
        let losses: Vec<f64> = (0..3)
            .map(|_| learner.step(&batch(), &mut Team::solo()).unwrap().loss)
            .collect();
        let moved = (values(&learner).iter().zip(&before))
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        (losses, moved)
    };
    let (nearest, _) = losses("nearest");
    let (rounded, moved) = losses("stochastic");
    assert!(nearest[1] == nearest[2], "{nearest:?}");
    assert!(rounded[1] != rounded[2], "{rounded:?}");
    // Inference and the model file have the masters.
    assert!(moved < 1e-6, "{moved}");
    for (a, b) in rounded.iter().zip(&nearest) {
        assert!((a - b).abs() < 0.02 * b, "{rounded:?} {nearest:?}");
    }
}
