//! Steps of one weight and one bias, worked out by hand.

use super::*;
use crate::parameters::ParameterId;

/// Returns one weight and one bias after steps with these gradients.
fn by_hand(config: &OptimizerConfig, rate: f32, steps: &[[f32; 2]]) -> (f32, f32) {
    let (mut parameters, weight, bias) = pair();
    let mut optimizer = Optimizer::new(config, &parameters).unwrap();
    let mut gradients = Gradients::new(&parameters);
    for step in steps {
        gradients.as_mut_slice().copy_from_slice(step);
        optimizer.step(&mut parameters, &gradients, rate).unwrap();
    }
    let value = |id: ParameterId| parameters.values(id).unwrap()[0];
    (value(weight), value(bias))
}

/// A weight and a bias, both 1.
fn pair() -> (Parameters, ParameterId, ParameterId) {
    let mut parameters = Parameters::new(1);
    let weight = parameters.weight("w".into(), &[1, 1, 1, 1], 6).unwrap();
    let bias = parameters.vector("b".into(), Kind::Bias, 1, 1.0).unwrap();
    parameters.update(|_, values| values.fill(1.0)).unwrap();
    (parameters, weight, bias)
}

#[test]
fn steps_by_hand() {
    let sgd = OptimizerConfig {
        rule: Rule::Sgd,
        weight_decay: 0.5,
        ..OptimizerConfig::default()
    };
    // Weight: g = 1.5, v = 1.5, θ = 0.85; g = 0.85 + 0.425, v = 2.625, θ = 0.5875. Bias without decay: 0.9, then 0.72.
    let (weight, bias) = by_hand(&sgd, 0.1, &[[1.0, 1.0], [0.85, 0.9]]);
    assert_relative_eq!(weight, 0.5875, epsilon = 1e-6);
    assert_relative_eq!(bias, 0.72, epsilon = 1e-6);
    // Nesterov: v = g = 1, step g + 0.9 v = 1.9.
    let nesterov = OptimizerConfig {
        nesterov: true,
        ..sgd
    };
    assert_relative_eq!(
        by_hand(&nesterov, 0.1, &[[1.0, 1.0]]).1,
        0.81,
        epsilon = 1e-6
    );
    // Adam's first step is the learning rate itself, whatever the gradient.
    let adam = OptimizerConfig {
        rule: Rule::Adam,
        ..OptimizerConfig::default()
    };
    assert_relative_eq!(by_hand(&adam, 0.1, &[[7.0, 1e-3]]).0, 0.9, epsilon = 1e-5);
    // Without bias correction: m = 0.1 g, √v = √0.001 g, 0.1 / 0.0316228 = 3.16228 rates.
    let raw = OptimizerConfig {
        bias_correction: false,
        ..adam
    };
    assert_relative_eq!(
        by_hand(&raw, 0.1, &[[7.0, 1.0]]).0,
        1.0 - 0.316_228,
        epsilon = 1e-5
    );
    let adamw = OptimizerConfig {
        weight_decay: 0.5,
        ..OptimizerConfig::default()
    };
    let (weight, bias) = by_hand(&adamw, 0.1, &[[1.0, 1.0]]);
    assert_relative_eq!(weight, 0.95 - 0.1, epsilon = 1e-6);
    assert_relative_eq!(bias, 0.9, epsilon = 1e-6);
    // The gradient (1, 1) has norm √2; clipped to 0.5 each part is 0.3536.
    let clipped = OptimizerConfig {
        rule: Rule::Sgd,
        clip_norm: Some(0.5),
        ..OptimizerConfig::default()
    };
    let (weight, bias) = by_hand(&clipped, 1.0, &[[1.0, 1.0]]);
    assert_relative_eq!(weight, 1.0 - 0.353_553_4, epsilon = 1e-6);
    assert_relative_eq!(bias, weight, epsilon = 1e-6);
}

/// A value whose gradient is 0 stays where it is; without ε its step would be 0 / 0.
#[test]
fn a_gradient_of_nothing_moves_nothing_and_needs_an_epsilon() {
    for rule in [Rule::Adam, Rule::AdamW, Rule::Lamb] {
        let config = |epsilon| OptimizerConfig {
            rule,
            epsilon,
            ..OptimizerConfig::default()
        };
        assert_eq!(by_hand(&config(1e-8), 0.1, &[[0.0; 2]]), (1.0, 1.0));
        for wrong in [0.0, -1e-8, f32::NAN, f32::INFINITY] {
            let error = config(wrong).check().unwrap_err().to_string();
            let expected = format!("`epsilon`: expected above 0, found {wrong}");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[test]
fn larc_by_hand() {
    // ‖w‖ = 1, ‖g‖ = 4: local 0.002 / 4 = 0.0005, of the rate 0.01 a twentieth: SGD moves by 0.01 · 0.05 · 4 = 0.002 =
    // η ‖w‖.
    let sgd = OptimizerConfig {
        rule: Rule::Sgd,
        larc: Some(Larc::default()),
        ..OptimizerConfig::default()
    };
    assert_relative_eq!(by_hand(&sgd, 0.01, &[[4.0, 4.0]]).0, 0.998, epsilon = 1e-6);
    // A rate below the local one is used as it is: 1e-4 · 4.
    assert_relative_eq!(
        by_hand(&sgd, 1e-4, &[[4.0, 4.0]]).0,
        1.0 - 4e-4,
        epsilon = 1e-6
    );
    // Scale mode: 0.01 · 0.0005 · 4.
    let scale = OptimizerConfig {
        larc: Some(Larc {
            clip: false,
            ..Larc::default()
        }),
        ..sgd
    };
    assert_relative_eq!(
        by_hand(&scale, 0.01, &[[4.0, 4.0]]).0,
        1.0 - 2e-5,
        epsilon = 1e-7
    );
}

/// Decay is inside of what LARC scales, as in LARS and Apex: a step stays η ‖w‖, however much of it is decay.
#[test]
fn larc_bounds_the_decay_too() {
    let sgd = |decay: f32, clip: bool| OptimizerConfig {
        rule: Rule::Sgd,
        weight_decay: decay,
        larc: Some(Larc {
            clip,
            ..Larc::default()
        }),
        ..OptimizerConfig::default()
    };
    // ‖w‖ = 1, ‖g‖ = 4, decay 1: local 0.002 / 5 = 0.0004; 0.0004 · (4 + 1) = 0.002. The bias does not decay.
    let (weight, bias) = by_hand(&sgd(1.0, true), 0.01, &[[4.0, 4.0]]);
    assert_relative_eq!(weight, 0.998, epsilon = 1e-6);
    assert_relative_eq!(bias, 0.998, epsilon = 1e-6);
    // Decay alone, all but: 0.002 of ‖w‖ at a rate of 1, where decay beside LARC moved it by 0.0102.
    let (weight, _) = by_hand(&sgd(0.01, true), 1.0, &[[1e-4, 1e-4]]);
    assert_relative_eq!(weight, 0.998, epsilon = 1e-6);
    // A rate below the local one: 1e-4 · (4 + 1), as without LARC.
    let (weight, _) = by_hand(&sgd(1.0, true), 1e-4, &[[4.0, 4.0]]);
    assert_relative_eq!(weight, 1.0 - 5e-4, epsilon = 1e-6);
    // Scale mode: 0.01 · 0.0004 · 5.
    let (weight, _) = by_hand(&sgd(1.0, false), 0.01, &[[4.0, 4.0]]);
    assert_relative_eq!(weight, 1.0 - 2e-5, epsilon = 1e-7);
    // AdamW's decay is none of the step: 1 - 0.1 · 0.5 by decay, and 0.1 by Adam's first step, whatever its gradient.
    let adamw = OptimizerConfig {
        rule: Rule::AdamW,
        ..sgd(0.5, true)
    };
    let (weight, bias) = by_hand(&adamw, 0.1, &[[4.0, 4.0]]);
    assert_relative_eq!(weight, 0.85, epsilon = 1e-5);
    assert_relative_eq!(bias, 0.9, epsilon = 1e-5);
}

/// As [`larc_by_hand`]: LARC's own rate is 0.0005.
#[test]
fn a_part_with_a_rate_of_its_own_learns_at_the_smaller_of_it_and_larcs() {
    let config = |factor: f32, clip: bool| OptimizerConfig {
        rule: Rule::Sgd,
        larc: Some(Larc {
            clip,
            ..Larc::default()
        }),
        rates: [("w".to_string(), factor)].into(),
        ..OptimizerConfig::default()
    };
    let moved = |factor, clip| 1.0 - by_hand(&config(factor, clip), 0.01, &[[4.0, 4.0]]).0;
    // The smaller of 0.0005 and 0.001, and of 0.0005 and 0.0001, times 4.
    assert_relative_eq!(moved(0.1, true), 0.002, epsilon = 1e-6);
    assert_relative_eq!(moved(0.01, true), 4e-4, epsilon = 1e-6);
    // Scale mode: 0.001 · 0.0005 · 4.
    assert_relative_eq!(moved(0.1, false), 2e-6, epsilon = 1e-7);
}

#[test]
fn lamb_by_hand() {
    // Clipped to norm 1 the gradient is (0.6, 0.8). First step: m̂ = g, √v̂ = |g|, so Adam's direction is 1 for each
    // value (less 2e-6 by ε); with decay u = 1.01, ‖θ‖ / ‖u‖ = 1 / 1.01, and the step is rate · ‖θ‖ whatever u was.
    let lamb = OptimizerConfig::mlperf_deepcam();
    let (weight, bias) = by_hand(&lamb, 0.1, &[[3.0, 4.0]]);
    assert_relative_eq!(weight, 0.9, epsilon = 1e-6);
    assert_relative_eq!(bias, 0.9, epsilon = 1e-6);
    // Without decay no trust ratio: a bias takes Adam's step.
    let kernels = OptimizerConfig {
        decay_all: false,
        ..lamb.clone()
    };
    assert_relative_eq!(by_hand(&kernels, 0.1, &[[3.0, 4.0]]).1, 0.9, epsilon = 1e-5);
    // Second step of the weight with gradient (-0.6, 0.8), both decaying:
    //   m = 0.9 · 0.06 - 0.06 = -0.006, m̂ = -0.006 / 0.19 = -0.0315789; v̂ = 0.36: -0.0526315 by ε 0.6 / (0.6 + 1e-6),
    //   u = -0.0526315 + 0.009 = -0.0436315; the step is rate · ‖θ‖ against its sign: 0.9 + 0.1 · 0.9 = 0.99.
    let (weight, _) = by_hand(&lamb, 0.1, &[[3.0, 4.0], [-3.0, 4.0]]);
    assert_relative_eq!(weight, 0.99, epsilon = 1e-6);
}

#[test]
fn every_rule_finds_the_minimum() {
    for rule in [Rule::Sgd, Rule::Adam, Rule::AdamW, Rule::Lamb] {
        let config = OptimizerConfig {
            rule,
            ..OptimizerConfig::default()
        };
        let (mut parameters, weight, bias) = pair();
        let mut optimizer = Optimizer::new(&config, &parameters).unwrap();
        let mut gradients = Gradients::new(&parameters);
        // Of θ²/2 the gradient is θ.
        for _ in 0..400 {
            let at = values(&mut parameters);
            gradients.as_mut_slice().copy_from_slice(&at);
            optimizer.step(&mut parameters, &gradients, 0.03).unwrap();
        }
        for id in [weight, bias] {
            let value = parameters.values(id).unwrap()[0];
            assert!(value.abs() < 0.02, "{rule:?}: {value}");
        }
    }
}
