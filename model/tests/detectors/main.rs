//! Networks that find boxes: published counts, gradients against finite differences, learning, backends, the seam.

#[path = "../common/mod.rs"]
mod common;
mod learning;

use candle_core::{DType, Tensor};
use common::{distance, dot, draw, field, values};
use squall_model::detection::{BoxTarget, DetectionLossConfig, DetectionTargets, MaskTargets};
use squall_model::networks::NetworkName;
use squall_model::ops::loss::Criterion;
use squall_model::parameters::{Kind, Parameter};
use squall_model::{
    Backend, Gradients, Network, NetworkConfig, Pass, Recompute, SavedActivations, Storage,
};
use std::sync::{Arc, Mutex};

/// Narrow, three halvings where that can be chosen, three frames where there is time.
fn tiny(name: NetworkName) -> NetworkConfig {
    let base = NetworkConfig {
        channels_in: 4,
        width: 0.05,
        ..NetworkConfig::of(name)
    };
    match name {
        NetworkName::Detector2d | NetworkName::Detector2dHalf => NetworkConfig {
            blocks: vec![3],
            ..base
        },
        NetworkName::Detector3d => NetworkConfig {
            blocks: vec![3],
            time_steps: 3,
            ..base
        },
        NetworkName::DetectorDense => NetworkConfig {
            blocks: vec![1, 1],
            atrous_rates: vec![2],
            batch_norm_decay: 0.9,
            mask_classes: 3,
            ..base
        },
        _ => base,
    }
}

/// Frames of the input of one sample and of its output.
fn frames(name: NetworkName) -> (usize, usize) {
    match name {
        NetworkName::Detector3d => (3, 2),
        _ => (1, 1),
    }
}

fn target(class: usize, [y_min, x_min, y_max, x_max]: [f32; 4]) -> BoxTarget {
    BoxTarget {
        class,
        y_min,
        x_min,
        y_max,
        x_max,
    }
}

/// Of every second frame nobody knows the boxes; one box crosses the seam of a field 48 wide.
fn labels(count: usize) -> Vec<Option<Vec<BoxTarget>>> {
    let boxes = vec![
        target(0, [2.0, 3.0, 12.0, 15.0]),
        target(2, [10.0, 40.0, 26.0, 53.0]),
    ];
    (0..count)
        .map(|at| (at % 2 == 0).then(|| boxes.clone()))
        .collect()
}

fn masks(pixels: usize) -> Vec<u8> {
    (0..pixels).map(|at| (at / 5 % 3) as u8).collect()
}

/// Everything that `learn` needs beside the network.
struct Batch {
    x: Tensor,
    boxes: Vec<Option<Vec<BoxTarget>>>,
    masks: Vec<u8>,
    criterion: Criterion,
    config: DetectionLossConfig,
}

fn batch(name: NetworkName, samples: usize, (h, w): (usize, usize)) -> Batch {
    let (frames_in, frames_out) = frames(name);
    let n = samples * frames_in;
    Batch {
        x: field(1, [n, h, w, 4]),
        boxes: labels(samples * frames_out),
        masks: masks(n * h * w),
        criterion: Criterion::cross_entropy(&[0.2, 1.0, 0.5]),
        config: DetectionLossConfig::default(),
    }
}

/// Total loss, its parts, and the pass with the gradient to give back.
fn judge(
    network: &Network,
    batch: &Batch,
    storage: &Storage,
) -> (squall_model::detection::DetectionLoss, Pass) {
    let mut pass = Pass::train(network.backend(), storage, 5);
    let output = network.detect(&batch.x, &mut pass, true).unwrap();
    let pixels = batch.masks.len() / batch.x.dim(0).unwrap();
    let masks: Vec<_> = batch.masks.chunks_exact(pixels).map(Some).collect();
    let targets = DetectionTargets {
        fields: &batch.x,
        boxes: &batch.boxes,
        masks: network.gives_masks().then_some(MaskTargets {
            labels: &masks,
            criterion: &batch.criterion,
        }),
    };
    (output.loss(&targets, &batch.config, 1.0).unwrap(), pass)
}

fn gradients_of(network: &Network, batch: &Batch, storage: &Storage) -> (f64, Gradients) {
    let (loss, pass) = judge(network, batch, storage);
    let mut gradients = Gradients::new(network.parameters());
    (network.backward_detection(loss.gradient, pass, &mut gradients)).unwrap();
    (loss.total, gradients)
}

#[test]
fn published_counts() {
    // Encoder: Σ 25 c_in c_out + c_out over 16, 128, 256, 512, 768, 1024, 1280 (75 over half of them with time); heads
    // 9 (27) · code · 10 + 10; normalisation 2 · code. Published: 66.53, 16.68, 50.02 M and 302.1 MiB.
    for (name, expected, published_millions, rounding) in [
        (NetworkName::Detector2d, 66_528_138, 66.53, 0.005),
        (NetworkName::Detector2dHalf, 16_675_274, 16.68, 0.005),
        (NetworkName::Detector3d, 50_019_274, 50.02, 0.005),
        (
            NetworkName::Detector15pf,
            79_180_954,
            302.1 * 1.048576 / 4.0,
            0.0132,
        ),
    ] {
        let network = Network::build(&NetworkConfig::published(name), Backend::best(), 1).unwrap();
        let count = network.parameters().count();
        assert_eq!(count, expected, "{name:?}");
        assert!(
            (count as f64 / 1e6 - published_millions).abs() <= rounding,
            "{name:?}"
        );
        let summary = network.summary(768, 1152).unwrap();
        assert_eq!(
            summary.parameters, count,
            "{name:?}: the tree forgets parameters"
        );
        assert_eq!(summary.training_flops, 3 * summary.forward_flops);
    }
}

#[test]
fn flops_counted_by_hand() {
    let summary = |name| {
        let network = Network::build(&NetworkConfig::published(name), Backend::best(), 1).unwrap();
        network.summary(768, 1152).unwrap()
    };
    // Layer by layer 2 · 25 · c_in · c_out · pixels of the output; the decoder does the same again; heads on 12 x 18.
    let channels = [16u64, 128, 256, 512, 768, 1024, 1280];
    let encoder: u64 = (0..6)
        .map(|i| 50 * channels[i] * channels[i + 1] * (768 >> (i + 1)) * (1152 >> (i + 1)))
        .sum();
    let flat = summary(NetworkName::Detector2d);
    assert_eq!(flat.forward_flops, 2 * encoder + 18 * 1280 * 10 * 12 * 18);
    assert_eq!(flat.inference_flops, encoder + 18 * 1280 * 10 * 12 * 18);
    let row = |name: &str| flat.layers.iter().find(|row| row.name == name).unwrap();
    assert_eq!(row("encoder.layer6").output, [12, 18, 1280]);
    assert_eq!(row("decoder.layer6").output, [768, 1152, 16]);
    assert_eq!(row("decoder.layer6").parameters, 0);
    // With time: half the channels, three taps, eight frames; heads on four frames.
    let halves: u64 = (0..6)
        .map(|i| {
            let first = if i == 0 { 16 } else { channels[i] / 2 };
            50 * first * (channels[i + 1] / 2) * (768 >> (i + 1)) * (1152 >> (i + 1))
        })
        .sum();
    let over_time = summary(NetworkName::Detector3d);
    let heads = 4 * 54 * 640 * 10 * 12 * 18;
    assert_eq!(over_time.forward_flops, 2 * 8 * 3 * halves + heads);
    let half = summary(NetworkName::Detector2dHalf);
    assert_eq!(half.forward_flops, 2 * halves + 18 * 640 * 10 * 12 * 18);
    // The last layer does not halve; each kernel of a doubling meets every pixel of its input.
    let last = |halvings: u32| 50u64 * 1024 * 1280 * (768u64 >> halvings) * (1152u64 >> halvings);
    let back = [1280u64, 640, 448, 384, 320, 16];
    let decoder: u64 = (0..5)
        .map(|i| 18 * back[i] * back[i + 1] * (24 << i) * (36 << i))
        .sum();
    let petaflop = summary(NetworkName::Detector15pf);
    let expected = encoder - last(6) + last(5) + 18 * 1280 * 10 * 24 * 36 + decoder;
    assert_eq!(petaflop.forward_flops, expected);
}

/// Without reconstruction the decoder does nothing: encoder and heads are left, and all parameters.
#[test]
fn a_training_without_reconstruction_counts_no_decoder() {
    let summaries = |name, (h, w)| {
        let network = Network::build(&NetworkConfig::published(name), Backend::best(), 1).unwrap();
        [true, false].map(|reconstruct| network.training_summary(h, w, reconstruct).unwrap())
    };
    let channels = [16u64, 128, 256, 512, 768, 1024, 1280];
    let encoder: u64 = (0..6)
        .map(|i| 50 * channels[i] * channels[i + 1] * (768 >> (i + 1)) * (1152 >> (i + 1)))
        .sum();
    let [with, without] = summaries(NetworkName::Detector2d, (768, 1152));
    assert_eq!(with.forward_flops, 2 * encoder + 18 * 1280 * 10 * 12 * 18);
    assert_eq!(without.forward_flops, encoder + 18 * 1280 * 10 * 12 * 18);
    assert_eq!(without.training_flops, 3 * without.forward_flops);
    assert_eq!(without.parameters, with.parameters);
    let is_decoder = |name: &str| name.starts_with("decoder");
    assert!(without.layers.iter().all(|row| !is_decoder(&row.name)));
    // Activations: outputs of the encoder, the normalised code, and the heads.
    let kept: usize = (1..7)
        .map(|i| channels[i] as usize * (768 >> i) * (1152 >> i))
        .sum();
    assert_eq!(
        without.activation_bytes as usize,
        4 * (kept + (1280 + 10) * 12 * 18)
    );
    for name in NetworkName::DETECTION {
        let [with, without] = summaries(name, (192, 288));
        assert_eq!(without.parameters, with.parameters, "{name:?}");
        let bytes = |summary: &squall_model::summary::Summary| {
            summary.training_bytes(Backend::Reference, 1, &DType::F32.into(), 0)
        };
        if !name.reconstructs() {
            assert_eq!(without.training_flops, with.training_flops);
            assert_eq!(bytes(&without), bytes(&with));
        } else {
            // The decoder of 15pf is thinner than its encoder.
            assert!(
                without.training_flops < with.training_flops * 9 / 10,
                "{name:?}"
            );
            assert!(bytes(&without) < bytes(&with), "{name:?}");
        }
        let inference = |summary: &squall_model::summary::Summary| {
            let whole = std::num::NonZeroUsize::MIN;
            summary
                .inference_bytes(Backend::Reference, 1, &DType::F32.into(), whole)
                .unwrap()
        };
        assert_eq!(inference(&without), inference(&with), "{name:?}");
    }
}

#[test]
fn cells_are_those_of_the_papers() {
    for (name, grid) in [
        (NetworkName::Detector2d, [1, 12, 18, 10]),
        (NetworkName::Detector15pf, [1, 24, 36, 10]),
    ] {
        // Sixty-fourths of the size, to be quick: cells are pixels' business, not channels'.
        let config = NetworkConfig {
            width: 0.01,
            channels_in: 1,
            ..NetworkConfig::published(name)
        };
        let network = Network::build(&config, Backend::best(), 1).unwrap();
        let mut pass = Pass::infer(network.backend(), DType::F32);
        let x = field(1, [1, 768, 1152, 1]);
        let output = network.detect(&x, &mut pass, true).unwrap();
        assert_eq!(output.heads().dims(), grid, "{name:?}");
        assert_eq!(output.reconstruction().unwrap().dims(), [1, 768, 1152, 1]);
    }
}

/// Away from the symmetric start, and every value before a leaky ReLU far from its kink: there finite differences see
/// the jump of the decoder's slopes, which the published gradient leaves out. Channels alternate between the two sides.
fn far_from_kinks(network: &mut Network) {
    let tied = network.config().name != NetworkName::DetectorDense;
    let moved = |p: &Parameter, values: &mut [f32]| {
        let noise = draw(p.range.start as u64, values.len());
        for (at, (value, noise)) in values.iter_mut().zip(noise).enumerate() {
            match p.kind {
                Kind::Scale => *value = 0.6 * *value + 0.1 * noise,
                Kind::Shift => *value += 2.0 + 0.1 * noise,
                Kind::Bias if tied && p.name.contains("layer") => {
                    *value += if at % 2 == 0 { 6.0 } else { -6.0 } + 0.1 * noise;
                }
                Kind::Weight if tied && p.name.starts_with("encoder") => *value *= 0.5,
                Kind::Bias => *value += 0.1 * noise,
                _ => {}
            }
        }
    };
    network.parameters_mut().update(moved).unwrap();
}

#[test]
fn every_gradient_is_that_of_finite_differences() {
    for name in NetworkName::DETECTION {
        let mut network = Network::build(&tiny(name), Backend::Reference, 3).unwrap();
        far_from_kinks(&mut network);
        // 21 x 30: no extent is a multiple of a cell.
        let batch = batch(name, 2, (21, 30));
        let storage = DType::F32.into();
        let (_, gradients) = gradients_of(&network, &batch, &storage);
        let parameters: Vec<_> = (network.parameters().iter())
            .map(|p| (p.name.clone(), p.range.clone()))
            .collect();
        let mut wrong = Vec::new();
        for (parameter, range) in parameters {
            let direction = draw(range.start as u64, range.len());
            let length = dot(&direction, &direction).sqrt();
            let analytic = dot(&gradients.as_slice()[range], &direction);
            let shift = |network: &mut Network, by: f64| {
                let moved = |p: &Parameter, values: &mut [f32]| {
                    if p.name == parameter {
                        let pairs = values.iter_mut().zip(&direction);
                        pairs.for_each(|(v, d)| *v += by as f32 * d);
                    }
                };
                network.parameters_mut().update(moved).unwrap();
            };
            let bound = 0.02 * analytic.abs() + 2e-3 * length;
            let mut numeric = Vec::new();
            for step in [3e-3, 1e-2, 1e-3].map(|step| step / length) {
                shift(&mut network, step);
                let up = judge(&network, &batch, &storage).0.total;
                shift(&mut network, -2.0 * step);
                let down = judge(&network, &batch, &storage).0.total;
                shift(&mut network, step);
                numeric.push((up - down) / (2.0 * step));
                if numeric.iter().any(|n| (n - analytic).abs() <= bound) {
                    break;
                }
            }
            if analytic == 0.0 || numeric.iter().all(|n| (n - analytic).abs() > bound) {
                wrong.push(format!(
                    "{parameter}: numeric {numeric:.4?}, analytic {analytic:.4}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{name:?}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn the_decoder_teaches_the_encoder_where_nothing_is_labelled() {
    let network = Network::build(&tiny(NetworkName::Detector2d), Backend::best(), 3).unwrap();
    let mut batch = batch(NetworkName::Detector2d, 2, (24, 48));
    batch.boxes = vec![None, None];
    let (loss, _) = judge(&network, &batch, &DType::F32.into());
    assert_eq!(loss.labelled, 0);
    assert_eq!(loss.part("reconstruction"), Some(loss.total));
    let (_, gradients) = gradients_of(&network, &batch, &DType::F32.into());
    let zero = gradients.all_zero(network.parameters());
    let names: Vec<&str> = zero.iter().map(|p| p.name.as_str()).collect();
    // The code's own layer has a bias in the encoder only where the code itself is read, which the decoder does.
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("heads") || name.starts_with("code")),
        "{names:?}"
    );
    assert_eq!(names.len(), 8, "{names:?}");
}

#[test]
fn small_buckets_are_complete_when_they_are_announced() {
    for name in NetworkName::DETECTION {
        let network = Network::build(&tiny(name), Backend::best(), 3).unwrap();
        let batch = batch(name, 1, (24, 48));
        let (_, expected) = gradients_of(&network, &batch, &DType::F32.into());
        let heard = Arc::new(Mutex::new(vec![f32::NAN; network.parameters().count()]));
        let buckets = Gradients::buckets(network.parameters(), 1);
        let (ranges, copy) = (buckets.clone(), heard.clone());
        let mut gradients = Gradients::new(network.parameters());
        gradients.give(
            buckets,
            Box::new(move |bucket, values| {
                copy.lock().unwrap()[ranges[bucket].clone()].copy_from_slice(&values);
            }),
        );
        gradients.clear();
        let (loss, pass) = judge(&network, &batch, &DType::F32.into());
        (network.backward_detection(loss.gradient, pass, &mut gradients)).unwrap();
        assert_eq!(*heard.lock().unwrap(), *expected.as_slice(), "{name:?}");
    }
}

#[test]
fn backends_and_storages_agree() {
    for name in NetworkName::DETECTION {
        let batch = batch(name, 2, (24, 48));
        let run = |backend: Backend, storage: Storage| {
            let mut network = Network::build(&tiny(name), backend, 3).unwrap();
            far_from_kinks(&mut network);
            gradients_of(&network, &batch, &storage)
        };
        let plain: Storage = DType::F32.into();
        let (expected, reference) = run(Backend::Reference, plain.clone());
        for backend in Backend::all() {
            let same = run(backend, plain.clone());
            let cases = [
                (plain.clone(), 1e-4, 2e-3),
                (DType::BF16.into(), 0.05, 0.15),
                (
                    // The code's values lie around ±6 here, and rounding them is a larger share of their spread.
                    plain
                        .clone()
                        .keeping(Recompute::None, SavedActivations::Bf16),
                    1e-4,
                    0.05,
                ),
            ];
            for (storage, loss_off, gradient_off) in cases {
                let (loss, gradients) = run(backend, storage.clone());
                assert!(
                    (loss / expected - 1.0).abs() < loss_off,
                    "{name:?} {backend:?} {storage:?}: {loss} instead of {expected}"
                );
                let off = distance(&gradients.as_slice(), &reference.as_slice());
                assert!(
                    off < gradient_off,
                    "{name:?} {backend:?} {storage:?}: {off}"
                );
            }
            for recompute in Recompute::ALL {
                let storage = plain.clone().keeping(recompute, SavedActivations::Same);
                let (loss, gradients) = run(backend, storage);
                assert_eq!(loss, same.0, "{name:?} {recompute:?}");
                assert_eq!(
                    gradients.as_slice(),
                    same.1.as_slice(),
                    "{name:?} {recompute:?}"
                );
            }
        }
    }
}

#[test]
fn rolling_the_globe_by_cells_rolls_what_is_found() {
    for name in NetworkName::DETECTION {
        let network = Network::build(&tiny(name), Backend::best(), 3).unwrap();
        let (x, w, shift) = (field(1, [3, 32, 128, 4]), 128, 32);
        let roll = |x: &Tensor, shift: usize| {
            let w = x.dims()[2];
            let parts = [x.narrow(2, w - shift, shift), x.narrow(2, 0, w - shift)];
            Tensor::cat(&parts.map(Result::unwrap), 2)
                .unwrap()
                .contiguous()
                .unwrap()
        };
        let heads = |x: &Tensor| {
            let mut pass = Pass::infer(network.backend(), DType::F32);
            network.detect(x, &mut pass, false).unwrap().heads().clone()
        };
        let here = heads(&x);
        let columns = here.dims()[2];
        let expected = values(&roll(&here, shift * columns / w));
        let found = values(&heads(&roll(&x, shift)));
        let off = (found.iter().zip(&expected))
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(off < 1e-4, "{name:?}: {off}");
    }
}

#[test]
fn the_wrong_question_is_an_error() {
    let detector = Network::build(&tiny(NetworkName::Detector2d), Backend::best(), 1).unwrap();
    let x = field(1, [1, 16, 24, 4]);
    let error = detector.infer(&x, DType::F32).unwrap_err().to_string();
    assert!(error.contains("`detector-2d` gives boxes"), "{error}");
    let config = NetworkConfig {
        channels_in: 4,
        ..NetworkConfig::small()
    };
    let masks = Network::build(&config, Backend::best(), 1).unwrap();
    assert!(!masks.is_detector() && detector.is_detector());
    let error = masks
        .find_boxes(&x, DType::F32, 0.5)
        .unwrap_err()
        .to_string();
    assert!(error.contains("not boxes"), "{error}");
    // Clips are whole.
    let over_time = Network::build(&tiny(NetworkName::Detector3d), Backend::best(), 1).unwrap();
    let error = over_time
        .find_boxes(&x, DType::F32, 0.5)
        .unwrap_err()
        .to_string();
    assert!(error.contains("a multiple of 3"), "{error}");
    // Masks alone can be had of a detector that gives both.
    let both = Network::build(&tiny(NetworkName::DetectorDense), Backend::best(), 1).unwrap();
    let masks = both.infer(&x, DType::F32).unwrap();
    assert_eq!(masks.dims(), [1, 16, 24, 3]);
    // They are those that it gives beside boxes, whose number of cells without numbers comes with them.
    let asked = (0.0, true);
    let found = both.find_boxes_and_masks(&x, DType::F32, asked).unwrap();
    assert_eq!(found.boxes, both.find_boxes(&x, DType::F32, 0.0).unwrap());
    assert!(!found.boxes[0].is_empty() && found.not_finite == [0]);
    let beside = found.masks.unwrap();
    assert_eq!(beside.classes, both.backend().argmax(&masks).unwrap());
    let probabilities = both.backend().softmax(&masks).unwrap();
    assert_eq!(
        values(&beside.probabilities.unwrap()),
        values(&probabilities)
    );
    let boxes_alone = detector.find_boxes_and_masks(&x, DType::F32, asked);
    assert!(boxes_alone.unwrap().masks.is_none());
}

/// A score of 0.1 has the logit ln(1/9) = −2.197, which CenterNet rounds.
#[test]
fn scores_of_classes_start_at_a_tenth() {
    let network = Network::build(&tiny(NetworkName::DetectorDense), Backend::best(), 1).unwrap();
    let start = |name: &str| {
        let found = network.parameters().iter().find(|p| p.name == name);
        found.unwrap().values().unwrap()
    };
    assert_eq!(start("heads.scores.values.bias"), [-2.19; 4]);
    assert_eq!(start("heads.sides.values.bias"), [0.0; 4]);
    assert_eq!(start("decoder.classify.bias"), [0.0; 3]);
}

#[test]
fn configurations_are_read_and_refused_by_key() {
    let read = |text: &str| serde_json::from_str::<NetworkConfig>(text);
    let config = read(r#"{"name": "detector-3d", "time_steps": 4, "blocks": [3]}"#).unwrap();
    assert_eq!(
        (config.frames(), config.classes, config.box_relu),
        (4, 4, false)
    );
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(read(&text).unwrap(), config);
    for (text, part) in [
        (r#"{"name": "detector-2d", "time_steps": 4}"#, "time_steps"),
        (r#"{"name": "deepcam", "box_relu": true}"#, "box_relu"),
        (
            r#"{"name": "detector-2d", "mask_classes": 3}"#,
            "mask_classes",
        ),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for (key, config) in [
        (
            "blocks",
            NetworkConfig {
                blocks: vec![7],
                ..NetworkConfig::of(NetworkName::Detector2d)
            },
        ),
        (
            "time_steps",
            NetworkConfig {
                time_steps: 1,
                ..NetworkConfig::of(NetworkName::Detector3d)
            },
        ),
        (
            "mask_classes",
            NetworkConfig {
                mask_classes: 1,
                ..NetworkConfig::of(NetworkName::DetectorDense)
            },
        ),
    ] {
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}
