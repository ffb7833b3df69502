//! Detectors learn: a committed curve, and two boxes that are found again.

use super::common::{draw, reloaded};
use super::{Batch, batch, frames, judge, masks, target, tiny};
use candle_core::{DType, Tensor};
use squall_model::detection::DetectionLossConfig;
use squall_model::networks::NetworkName;
use squall_model::ops::loss::Criterion;
use squall_model::optim::{Optimizer, OptimizerConfig, Rule};
use squall_model::{Backend, Gradients, Network, NetworkConfig};

/// The losses of so many steps at a rate.
fn train(
    network: &mut Network,
    batch: &Batch,
    rule: &OptimizerConfig,
    (steps, rate): (usize, f32),
) -> Vec<f64> {
    let mut optimizer = Optimizer::new(rule, network.parameters()).unwrap();
    let mut gradients = Gradients::new(network.parameters());
    let mut losses = Vec::new();
    for _ in 0..steps {
        let (loss, mut pass) = judge(network, batch, &DType::F32.into());
        losses.push(loss.total);
        network.update_running_statistics(&mut pass).unwrap();
        gradients.clear();
        (network.backward_detection(loss.gradient, pass, &mut gradients)).unwrap();
        (optimizer.step(network.parameters_mut(), &gradients, rate)).unwrap();
    }
    losses
}

/// `UPDATE_GOLDEN=1 cargo test -p squall-model --test detectors` writes the committed curve anew.
#[test]
fn twenty_steps_are_those_committed() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/loss_curve_detector.csv"
    );
    let curve = |backend| {
        let mut network = Network::build(&tiny(NetworkName::Detector2d), backend, 11).unwrap();
        let batch = batch(NetworkName::Detector2d, 2, (24, 48));
        // Not Adam: its first steps are the signs of gradients, and those of tiny ones are a matter of rounding.
        let rule = OptimizerConfig {
            rule: Rule::Sgd,
            ..OptimizerConfig::default()
        };
        train(&mut network, &batch, &rule, (20, 3e-3))
    };
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let rows = curve(Backend::Reference).into_iter().enumerate();
        let rows: Vec<String> = rows
            .map(|(step, loss)| format!("{step},{loss:.6}\n"))
            .collect();
        std::fs::write(path, format!("step,loss\n{}", rows.concat())).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let expected: Vec<f64> = (text.lines().skip(1))
        .map(|line| line.split_once(',').unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(expected.len(), 20);
    assert!(
        expected[19] < 0.7 * expected[0],
        "it does not learn: {expected:?}"
    );
    for backend in Backend::all() {
        for (step, (got, expected)) in curve(backend).iter().zip(&expected).enumerate() {
            let off = (got / expected - 1.0).abs();
            // As in `golden_curve.rs`: with batch normalisation rounding grows from step to step.
            let allowed = if step < 8 { 5e-3 } else { 0.1 };
            assert!(
                off < allowed,
                "{backend:?} step {step}: {got} instead of {expected}"
            );
        }
    }
}

/// Two boxes of two classes, one of them across the seam, are learnt, and found again by the saved network.
fn learns_two_boxes(name: NetworkName) {
    let config = NetworkConfig {
        width: 0.1,
        ..tiny(name)
    };
    let mut network = Network::build(&config, Backend::best(), 3).unwrap();
    let (frames_in, frames_out) = frames(name);
    let (h, w) = (32, 64);
    // Boxes shine in the first channels; one of them crosses the seam.
    let boxes = vec![
        target(0, [4.0, 40.0, 12.0, 50.0]),
        target(2, [14.0, 58.0, 28.0, 70.0]),
    ];
    let mut input = draw(1, frames_in * h * w * 4);
    for (at, pixel) in input.chunks_exact_mut(4).enumerate() {
        let (y, x) = ((at / w % h) as f32, (at % w) as f32);
        pixel.iter_mut().for_each(|v| *v *= 0.1);
        for (channel, b) in boxes.iter().enumerate() {
            let x = if x < b.x_min { x + w as f32 } else { x };
            if (b.y_min..b.y_max).contains(&y) && (b.x_min..b.x_max).contains(&x) {
                pixel[channel] += 1.0;
            }
        }
    }
    let x = Tensor::from_vec(input, (frames_in, h, w, 4), &candle_core::Device::Cpu).unwrap();
    let batch = Batch {
        x: x.clone(),
        boxes: vec![Some(boxes.clone()); frames_out],
        masks: masks(h * w),
        criterion: Criterion::cross_entropy(&[1.0; 3]),
        config: DetectionLossConfig {
            segmentation: 0.1,
            reconstruction: 1.0,
            ..DetectionLossConfig::default()
        },
    };
    // Distances begin at one cell for all boxes, and each has few cells to learn from.
    let steps = match name {
        NetworkName::DetectorDense => 240,
        _ => 80,
    };
    let rule = OptimizerConfig::default();
    let losses = train(&mut network, &batch, &rule, (steps, 4e-3));
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!(last < first / 4.0, "{name:?}: loss {first} -> {last}");
    let found = network.find_boxes(&x, DType::F32, 0.5).unwrap();
    assert_eq!(found.len(), frames_out);
    for found in &found {
        for expected in &boxes {
            let near = |f: &&squall_model::detection::ScoredBox| {
                let off = [
                    f.y_min - expected.y_min,
                    f.x_min - expected.x_min,
                    f.y_max - expected.y_max,
                    f.x_max - expected.x_max,
                ];
                f.class == expected.class && off.iter().all(|off| off.abs() < 4.0)
            };
            assert!(
                found.iter().any(|f| near(&f)),
                "{name:?}: {expected:?} not in {found:?}"
            );
        }
        assert_eq!(found.len(), 2, "{name:?}: {found:?}");
    }
    let again = reloaded(&network).find_boxes(&x, DType::F32, 0.5);
    assert_eq!(again.unwrap(), found);
}

#[test]
fn two_boxes_are_learnt_by_cells() {
    learns_two_boxes(NetworkName::Detector2d);
}

#[test]
fn two_boxes_are_learnt_over_time() {
    learns_two_boxes(NetworkName::Detector3d);
}

#[test]
fn two_boxes_are_learnt_by_the_network_of_the_15_petaflop_runs() {
    learns_two_boxes(NetworkName::Detector15pf);
}

#[test]
fn two_boxes_are_learnt_around_centres() {
    learns_two_boxes(NetworkName::DetectorDense);
}
