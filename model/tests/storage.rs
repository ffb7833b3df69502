//! What a pass keeps and in which type: the same bits where that is promised, stated errors elsewhere.

mod common;

use candle_core::DType;
use common::{distance, field, labels, shake, values, wrong_gradients};
use squall_model::gradients::Taker;
use squall_model::networks::NetworkName;
use squall_model::parameters::Kind;
use squall_model::{
    Backend, Gradients, Network, NetworkConfig, Pass, Precision, PrecisionPolicy, Recompute,
    SavedActivations, Storage,
};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};

const EXTENTS: [usize; 4] = [2, 26, 36, 4];

/// Every network, thin, with dropout where it has some.
fn networks() -> Vec<NetworkConfig> {
    let deeplab = |name, batch_norm| NetworkConfig {
        name,
        channels_in: 4,
        width: 0.05,
        blocks: vec![2, 1, 1],
        atrous_rates: vec![2, 3],
        dropout: 0.2,
        batch_norm,
        ..NetworkConfig::default()
    };
    let published = |name, blocks: Vec<usize>| {
        let config = NetworkConfig::published(name);
        NetworkConfig {
            channels_in: 4,
            width: 0.1,
            blocks,
            ..config
        }
    };
    let tiramisu = published(NetworkName::Tiramisu, vec![1, 2, 2]);
    vec![
        deeplab(NetworkName::DeepLabV3Plus, true),
        deeplab(NetworkName::DeepLabV3Plus, false),
        NetworkConfig {
            preactivation_relu: false,
            ..deeplab(NetworkName::DeepLabV3Plus, false)
        },
        deeplab(NetworkName::DeepLabV3PlusDeconv, true),
        deeplab(NetworkName::DeepLabV3PlusBilinear, true),
        published(NetworkName::DeepCam, vec![2]),
        NetworkConfig {
            dropout: 0.2,
            batch_norm: true,
            ..tiramisu.clone()
        },
        tiramisu,
        published(NetworkName::CgNet, vec![2, 2]),
    ]
}

/// What a training pass gives.
#[derive(PartialEq)]
struct Outcome {
    logits: Vec<f32>,
    gradients: Vec<f32>,
    /// Running statistics by name.
    running: Vec<(String, Vec<f32>)>,
}

fn learn(config: &NetworkConfig, backend: Backend, storage: impl Into<Storage>) -> Outcome {
    learn_scaled(config, backend, storage, 1.0)
}

/// The same, of a loss multiplied by `scale`, the gradients divided by it.
fn learn_scaled(
    config: &NetworkConfig,
    backend: Backend,
    storage: impl Into<Storage>,
    scale: f32,
) -> Outcome {
    learn_heard(config, backend, storage, scale, |_| None)
}

/// The same with somebody who hears of buckets.
fn learn_heard(
    config: &NetworkConfig,
    backend: Backend,
    storage: impl Into<Storage>,
    scale: f32,
    taker: impl FnOnce(&Network) -> Option<(Vec<Range<usize>>, Taker)>,
) -> Outcome {
    let mut network = Network::build(config, backend, 3).unwrap();
    let mut pass = Pass::train(backend, storage, 5);
    let logits = network.forward(&field(1, EXTENTS), &mut pass).unwrap();
    let [b, h, w, _] = EXTENTS;
    let loss = backend
        .softmax_cross_entropy(&logits, &labels(b * h * w), &[0.2, 1.0, 0.5], scale)
        .unwrap();
    network.update_running_statistics(&mut pass).unwrap();
    let mut gradients = Gradients::new(network.parameters());
    if let Some((buckets, taker)) = taker(&network) {
        gradients.give(buckets, taker);
        gradients.clear();
    }
    network
        .backward(&loss.gradient, pass, &mut gradients)
        .unwrap();
    gradients.scale(1.0 / scale);
    let buffers = network.parameters().buffers().iter();
    Outcome {
        logits: values(&logits),
        gradients: gradients.as_slice().into_owned(),
        running: buffers
            .map(|b| (b.name.clone(), b.values.clone()))
            .collect(),
    }
}

fn kept(layers: &[&str]) -> PrecisionPolicy {
    PrecisionPolicy {
        keep_f32: layers.iter().map(|layer| layer.to_string()).collect(),
        ..Precision::Bf16.into()
    }
}

fn storage(config: &NetworkConfig, layers: &[&str]) -> Storage {
    let network = Network::build(config, Backend::best(), 3).unwrap();
    let policy = kept(layers);
    policy.storage(&network, DType::BF16).unwrap()
}

/// What goes into the loss is not rounded on its way there, and nothing else is wide unasked.
#[test]
fn the_first_layer_and_every_output_stay_in_f32() {
    for name in NetworkName::ALL {
        let dense = name == NetworkName::DetectorDense;
        let config = NetworkConfig {
            channels_in: 4,
            width: 0.05,
            mask_classes: if dense { 3 } else { 0 },
            ..NetworkConfig::of(name)
        };
        let network = Network::build(&config, Backend::Reference, 3).unwrap();
        let mut expected = match name {
            NetworkName::Tiramisu | NetworkName::CgNet => vec!["classify"],
            NetworkName::Detector2d | NetworkName::Detector2dHalf | NetworkName::Detector3d => {
                vec!["heads.box", "heads.objectness", "heads.class"]
            }
            NetworkName::Detector15pf => vec![
                "heads.box",
                "heads.objectness",
                "heads.class",
                "decoder.layer5",
            ],
            NetworkName::DetectorDense => vec![
                "heads.scores.values",
                "heads.sides.values",
                "decoder.classify",
            ],
            _ => vec!["decoder.classify"],
        };
        let mut kernels = network.parameters().iter();
        let first = kernels.find(|p| p.kind == Kind::Weight).unwrap();
        expected.push(first.name.strip_suffix(".weight").unwrap());
        expected.sort_unstable();
        let layers = kept(&[]).layers(&network, DType::BF16).unwrap();
        let wide = layers.into_iter().filter(|(_, dtype)| *dtype == DType::F32);
        let wide: Vec<String> = wide.map(|(layer, _)| layer).collect();
        assert_eq!(wide, expected, "{name:?}");
    }
}

#[test]
fn computing_again_changes_no_bit() {
    for config in networks() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let plain = learn(&config, Backend::best(), dtype);
            assert!(plain.gradients.iter().any(|g| *g != 0.0));
            for recompute in [Recompute::Norms, Recompute::Blocks] {
                let storage = Storage::from(dtype).keeping(recompute, SavedActivations::Same);
                let again = learn(&config, Backend::best(), storage);
                assert!(
                    again == plain,
                    "{:?}, batch norm {}, {dtype:?}, {recompute:?}",
                    config.name,
                    config.batch_norm
                );
            }
        }
    }
}

/// What ranks sum while the pass goes on is what one alone ends with, in every network and however much is computed
/// again.
#[test]
fn small_buckets_are_complete_when_they_are_given_away() {
    for config in networks() {
        for recompute in Recompute::ALL {
            let storage = storage(&config, &[]).keeping(recompute, SavedActivations::Same);
            let heard: Arc<Mutex<Vec<f32>>> = Arc::default();
            let copy = heard.clone();
            let expected = learn(&config, Backend::best(), storage.clone()).gradients;
            learn_heard(&config, Backend::best(), storage, 1.0, move |network| {
                let parameters = network.parameters();
                copy.lock().unwrap().resize(parameters.count(), f32::NAN);
                let buckets = Gradients::buckets(parameters, 1);
                let ranges = buckets.clone();
                let taker: Taker = Box::new(move |bucket, values| {
                    copy.lock().unwrap()[ranges[bucket].clone()].copy_from_slice(&values);
                });
                Some((buckets, taker))
            });
            assert!(
                *heard.lock().unwrap() == expected,
                "{:?}, {recompute:?}",
                config.name
            );
        }
    }
}

#[test]
fn computing_again_holds_less() {
    for config in networks() {
        let network = Network::build(&config, Backend::best(), 3).unwrap();
        let summary = network.summary(192, 288).unwrap();
        let bytes = |recompute, saved| {
            let storage = Storage::from(DType::F32).keeping(recompute, saved);
            summary.training_bytes(Backend::best(), 1, &storage, 0)
        };
        let all = Recompute::ALL.map(|recompute| bytes(recompute, SavedActivations::Same));
        let name = (config.name, config.batch_norm);
        assert!(all[2] < all[0], "{name:?}: {all:?}");
        // Without a normalisation there is none to apply again.
        assert!(all[1] <= all[0], "{name:?}: {all:?}");
        // In Tiramisu dropout and concatenation come between a normalisation and the next convolution.
        let none = !config.batch_norm || config.name == NetworkName::Tiramisu;
        assert!(all[1] < all[0] || none, "{name:?}: {all:?}");
        let rounded = bytes(Recompute::None, SavedActivations::Bf16);
        assert!(rounded < all[0], "{name:?}: {rounded} {all:?}");
    }
}

/// The plan of Tiramisu in bf16, whose classifier reads 240 channels in f32, had lacked a quarter of its inference's memory.
#[test]
fn copies_for_layers_in_f32_are_in_the_plan() {
    let config = NetworkConfig::of(NetworkName::Tiramisu);
    let network = Network::build(&config, Backend::Reference, 3).unwrap();
    let (height, width) = (96, 144);
    let summary = network.summary(height, width).unwrap();
    let bytes = |all_layers, dtype| {
        let policy = PrecisionPolicy {
            all_layers,
            ..Precision::Bf16.into()
        };
        let storage = policy.storage(&network, dtype).unwrap();
        let infer = summary.inference_bytes(network.backend(), 1, &storage, NonZeroUsize::MIN);
        [
            summary.training_bytes(network.backend(), 1, &storage, 0),
            infer.unwrap(),
        ]
    };
    let ([step, infer], [step_of_all, infer_of_all]) =
        (bytes(false, DType::BF16), bytes(true, DType::BF16));
    let copy = (4 * 240 * height * width) as u64;
    let more = infer - infer_of_all;
    assert!(
        more >= copy && more < copy + copy / 4,
        "{more} instead of {copy}"
    );
    assert!(step > step_of_all, "{step} {step_of_all}");
    assert_eq!(bytes(false, DType::F32), bytes(true, DType::F32));
}

#[test]
fn rounded_activations_cost_little_of_the_gradient() {
    for config in networks() {
        let plain = learn(&config, Backend::best(), DType::F32);
        for recompute in Recompute::ALL {
            let storage = Storage::from(DType::F32).keeping(recompute, SavedActivations::Bf16);
            let rounded = learn(&config, Backend::best(), storage);
            assert!(rounded.logits == plain.logits && rounded.running == plain.running);
            let off = distance(&rounded.gradients, &plain.gradients);
            let name = (config.name, config.batch_norm, recompute);
            assert!(off > 0.0 && off < 0.01, "{name:?}: {off}");
        }
    }
}

/// f16 has three more bits than bf16 and much less range: with the loss made larger its gradients are nearer to those
/// of f32, of a loss made smaller they are lost.
#[test]
fn f16_gradients_need_a_scaled_loss() {
    for config in networks() {
        let config = NetworkConfig {
            dropout: 0.0,
            ..config
        };
        let plain = learn(&config, Backend::best(), DType::F32);
        let off = |dtype: DType, scale| {
            let outcome = learn_scaled(&config, Backend::best(), dtype, scale);
            distance(&outcome.gradients, &plain.gradients)
        };
        let (half, brain) = (off(DType::F16, 1024.0), off(DType::BF16, 1.0));
        let lost = off(DType::F16, 1.0 / 65_536.0);
        let name = (config.name, config.batch_norm);
        assert!(half > 0.0 && half < brain, "{name:?}: {half} {brain}");
        assert!(lost > 0.5, "{name:?}: {lost}");
    }
}

#[test]
fn all_layers_kept_is_f32() {
    for config in networks() {
        for recompute in Recompute::ALL {
            let plain = learn(&config, Backend::best(), DType::F32);
            let storage = storage(&config, &["*"]).keeping(recompute, SavedActivations::Same);
            let kept = learn(&config, Backend::best(), storage.clone());
            assert!(kept == plain, "{:?} {recompute:?}", config.name);
            let network = Network::build(&config, Backend::best(), 3).unwrap();
            let infer =
                |storage: Storage| values(&network.infer(&field(1, EXTENTS), storage).unwrap());
            assert!(
                infer(storage) == infer(DType::F32.into()),
                "{:?}",
                config.name
            );
        }
    }
}

#[test]
fn a_kept_layer_changes_only_what_comes_after_it() {
    let config = &networks()[0];
    let narrow = learn(config, Backend::best(), storage(config, &[]));
    let kept = learn(
        config,
        Backend::best(),
        storage(config, &["decoder.refine2"]),
    );
    assert!(narrow.logits != kept.logits);
    let changed: Vec<&str> = (narrow.running.iter().zip(&kept.running))
        .filter(|(a, b)| a != b)
        .map(|(a, _)| a.0.as_str())
        .collect();
    let after = ["refine2", "up2", "up3", "full1", "full2"];
    assert!(!changed.is_empty());
    for name in changed {
        assert!(after.iter().any(|layer| name.contains(layer)), "{name}");
    }
    // A normalisation between two narrow convolutions computes in f32 anyway: the next one rounds what it would have
    // rounded.
    let norm = learn(
        config,
        Backend::best(),
        storage(config, &["decoder.refine1.norm"]),
    );
    assert!(norm.logits == narrow.logits);
}

#[test]
fn mixed_policies_are_as_near_to_f32_as_bf16_is() {
    for config in networks() {
        let plain = learn(&config, Backend::best(), DType::F32);
        let narrow = learn(&config, Backend::best(), DType::BF16);
        let network = Network::build(&config, Backend::best(), 3).unwrap();
        // Every second convolution.
        let names: Vec<&str> = (network.parameters().iter())
            .filter(|p| p.kind == Kind::Weight)
            .filter_map(|p| p.name.strip_suffix(".weight"))
            .step_by(2)
            .collect();
        let mixed = learn(&config, Backend::best(), storage(&config, &names));
        let off = |outcome: &Outcome| distance(&outcome.logits, &plain.logits);
        let (mixed_off, narrow_off) = (off(&mixed), off(&narrow));
        assert!(
            mixed_off > 0.0 && mixed_off < 2.0 * narrow_off,
            "{:?}: {mixed_off} {narrow_off}",
            config.name
        );
        let network_infers =
            |storage: Storage| values(&network.infer(&field(1, EXTENTS), storage).unwrap());
        let (wide, some) = (
            network_infers(DType::F32.into()),
            network_infers(storage(&config, &names)),
        );
        let off = distance(&some, &wide);
        assert!(off > 0.0 && off < 0.05, "{:?}: {off}", config.name);
    }
}

/// Behind a bf16 encoder and pyramid, an f32 decoder is a smooth function of its parameters.
#[test]
fn gradients_of_a_mixed_policy_against_finite_differences() {
    for config in &networks()[..4] {
        let config = NetworkConfig {
            dropout: 0.0,
            ..config.clone()
        };
        let mut network = Network::build(&config, Backend::Reference, 3).unwrap();
        shake(&mut network);
        let policy = kept(&["decoder"]).storage(&network, DType::BF16);
        let storage = policy
            .unwrap()
            .keeping(Recompute::Blocks, SavedActivations::Same);
        let (wrong, judged) = wrong_gradients(&mut network, [2, 13, 18, 4], &storage, |p| {
            p.name.starts_with("decoder")
        });
        assert!(judged > 4);
        assert!(wrong.is_empty(), "{:?}:\n{}", config.name, wrong.join("\n"));
    }
}
