//! What the loss is multiplied by before the backward pass, and how that is found.

use super::*;
use squall_model::optim::LossScaleConfig;

/// A loss, and a scale of it, that overflow until the scale is found: with the largest factor that doubling reaches, too.
const HUGE: &str = "loss.normalisation={ sum = 1e32 }";
/// 2²⁴, to which the first overflow lowers any larger factor.
const LARGEST: f32 = 16_777_216.0;
const TOO_LARGE: &str = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 1e38, growth_interval = 1000 } }";

#[test]
fn a_power_of_two_loss_scale_changes_no_bit() {
    let run = |settings: &[&str]| {
        let mut learner = learner(settings);
        let losses: Vec<f64> = (0..3)
            .map(|_| learner.step(&batch(), &mut Team::solo()).unwrap().loss)
            .collect();
        (losses, state(&learner))
    };
    let plain = run(&[]);
    let scaled = "precision={ compute = 'f32', loss_scale = { kind = 'static', scale = 1024.0 } }";
    assert!(run(&[scaled]) == plain);
    // Doubled after each step: the factor does not matter, so how it changes does not either.
    let dynamic = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 4.0, growth_interval = 1 } }";
    assert!(run(&[dynamic]) == plain);
}

#[test]
fn overflows_find_the_scale_of_the_loss_and_change_nothing() {
    let mut learner = learner(&[TOO_LARGE, HUGE, "training.max_skipped_steps=2"]);
    let before = state(&learner);
    let mut halved = 0;
    while learner.step(&batch(), &mut Team::solo()).unwrap().skipped {
        assert_eq!(learner.loss_scale.scale(), LARGEST / 2f32.powi(halved));
        halved += 1;
        assert!(state(&learner) == before && learner.optimizer.steps() == 0);
    }
    assert!(halved > 3, "more often than steps may be skipped: {halved}");
    assert!(state(&learner) != before);
    // A field that is not finite counts at once: no scale helps against it, though it could still fall.
    let broken = broken_batch();
    for _ in 0..2 {
        assert!(learner.step(&broken, &mut Team::solo()).unwrap().skipped);
    }
    let error = failure(&mut learner, &broken);
    assert!(error.contains("3 steps in a row"), "{error}");
    assert!(learner.loss_scale.can_fall());
}

/// Gradients that grow after many small ones, with which the scale has doubled far beyond.
#[test]
fn overflows_after_good_steps_lower_the_scale_too() {
    let dynamic = |initial: f32| LossScaleConfig::Dynamic {
        initial,
        growth_interval: 1000,
    };
    let from_one = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 1.0, growth_interval = 1000 } }";
    // So that the network stays what it is, though its gradients are huge.
    let slow = "schedule.rate=1e-37";
    let mut learner = learner(&[from_one, HUGE, slow, "training.max_skipped_steps=2"]);
    let step = |learner: &mut Learner| learner.step(&batch(), &mut Team::solo()).unwrap();
    assert!(!step(&mut learner).skipped);
    learner.loss_scale = LossScale::new(dynamic(LARGEST)).unwrap();
    let mut overflows = 0;
    while step(&mut learner).skipped {
        overflows += 1;
    }
    assert!(overflows > 3, "more often than may be skipped: {overflows}");
    let progress = learner.progress;
    assert_eq!((progress.skipped, progress.skipped_in_row), (overflows, 0));
}

/// As many steps as may be skipped are tried with the least scale, too.
#[test]
fn overflows_that_lower_the_scale_do_not_count() {
    let small = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 8.0, growth_interval = 1000 } }";
    // No scale is small enough for it.
    let endless = "loss.normalisation={ sum = 3e38 }";
    let mut learner = learner(&[small, endless, "training.max_skipped_steps=2"]);
    for scale in [4.0, 2.0, 1.0, 1.0, 1.0] {
        assert!(learner.step(&batch(), &mut Team::solo()).unwrap().skipped);
        assert_eq!(learner.loss_scale.scale(), scale);
    }
    assert_eq!(
        (learner.progress.skipped, learner.progress.skipped_in_row),
        (5, 2)
    );
    let error = failure(&mut learner, &batch());
    assert!(error.contains("3 steps in a row"), "{error}");
}

#[test]
fn overflows_of_late_gradients_find_the_scale_too() {
    let late = "distributed.gradient_lag=1";
    let mut learner = learner(&[TOO_LARGE, HUGE, late, "training.max_skipped_steps=2"]);
    let mut step = || learner.step(&batch(), &mut Team::solo()).unwrap();
    // No gradient yet.
    assert!(step().skipped);
    let mut overflows = 0;
    while step().skipped {
        overflows += 1;
    }
    assert!(overflows > 3, "{overflows}");
    let found = LARGEST / 2f32.powi(overflows - 1);
    assert_eq!(learner.loss_scale.scale(), found);
}

/// Of several groups each does some of the steps, and its scale is not kept when the run is left.
#[test]
fn a_group_finds_its_scale_from_any_step_on() {
    let mut learner = learner(&[TOO_LARGE, HUGE, "training.max_skipped_steps=2"]);
    learner.resume_from(LearnerProgress {
        step: 6,
        ..LearnerProgress::default()
    });
    let mut overflows = 0;
    loop {
        learner.progress.step = 6 + 2 * overflows;
        if !learner.step(&batch(), &mut Team::solo()).unwrap().skipped {
            break;
        }
        overflows += 1;
    }
    assert!(overflows > 3, "{overflows}");
}

#[test]
fn f16_scales_its_loss_unless_told_not_to() {
    // Without normalisation over a few pixels, which makes much of any rounding.
    let mut half = learner(&["precision='f16'", "network.batch_norm=false"]);
    assert_eq!(half.storage.dtype, DType::F16);
    assert_eq!(half.loss_scale.scale(), 65_536.0);
    let mut plain = learner(&["network.batch_norm=false"]);
    for _ in 0..3 {
        let (half, plain) = (
            half.step(&batch(), &mut Team::solo()).unwrap(),
            plain.step(&batch(), &mut Team::solo()).unwrap(),
        );
        assert!((half.loss / plain.loss - 1.0).abs() < 0.01 && !half.skipped);
        assert!((half.gradient_norm / plain.gradient_norm - 1.0).abs() < 0.05);
    }
    let off = "precision={ compute = 'f16', loss_scale = { kind = 'static', scale = 1.0 } }";
    assert_eq!(learner(&[off]).loss_scale.scale(), 1.0);
    assert_eq!(learner(&["precision='bf16'"]).loss_scale.scale(), 1.0);
}

#[test]
fn a_single_step_that_may_not_be_skipped_is_told_as_one() {
    let scaled = "precision={ compute = 'f32', loss_scale = { kind = 'static', scale = 1024.0 } }";
    let mut learner = learner(&[scaled, "training.max_skipped_steps=0"]);
    let error = failure(&mut learner, &broken_batch());
    assert!(error.contains("not finite in 1 step ("), "{error}");
}
