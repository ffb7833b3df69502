//! Losses by hand, against finite differences, and each backend against the plain loops.

use approx::assert_relative_eq;
use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use squall_model::Backend;
use squall_model::ops::loss::{Criterion, Focal, NO_CLASS, Normalisation};

const WEIGHTS: [f32; 3] = [0.2, 3.0, 1.0];

fn logits(values: &[f32], [b, h, w, k]: [usize; 4]) -> Tensor {
    Tensor::from_vec(values.to_vec(), (b, h, w, k), &Device::Cpu).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn draw(count: usize, spread: f32) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    (0..count)
        .map(|_| rng.random_range(-spread..spread))
        .collect()
}

fn labels(count: usize) -> Vec<u8> {
    let label = |i| if i % 7 == 5 { 255 } else { (i * i % 3) as u8 };
    (0..count).map(label).collect()
}

fn criteria() -> Vec<Criterion> {
    let focals = [
        None,
        Some(Focal::default()),
        Some(Focal {
            alpha: 0.25,
            gamma: 0.5,
        }),
        Some(Focal {
            alpha: 2.0,
            gamma: 3.7,
        }),
    ];
    let normalisations = [
        Normalisation::Weights,
        Normalisation::Pixels,
        Normalisation::Sum(0.03),
    ];
    let all = focals.into_iter().flat_map(|focal| {
        normalisations.map(|normalisation| Criterion {
            class_weights: WEIGHTS.to_vec(),
            focal,
            normalisation,
        })
    });
    all.collect()
}

#[test]
fn gradients_are_those_of_the_loss() {
    let shape = [2, 3, 4, 3];
    let (z, labels) = (draw(72, 2.0), labels(24));
    for backend in Backend::all() {
        for criterion in criteria() {
            let loss = |z: &[f32]| {
                backend
                    .segmentation_loss(&logits(z, shape), &labels, &criterion, 1.0)
                    .unwrap()
            };
            let gradient = values(&loss(&z).gradient);
            let scale = gradient.iter().fold(0f32, |top, g| top.max(g.abs()));
            for i in 0..z.len() {
                // In f32 the loss itself is good to 1e-7: a step of 0.01 leaves 1e-5 of it in a difference.
                let at = |h: f32| {
                    let mut z = z.clone();
                    z[i] += h;
                    loss(&z).value()
                };
                let difference = (at(0.01) - at(-0.01)) / 0.02;
                let off = (difference - f64::from(gradient[i])).abs();
                assert!(
                    off < 2e-3 * f64::from(scale),
                    "{backend:?} {criterion:?}: value {i}: {} but {difference}",
                    gradient[i]
                );
            }
        }
    }
}

#[test]
fn backends_agree() {
    // Several chunks of work, and logits from nearly equal to certain.
    let shape = [2, 97, 113, 3];
    let pixels = shape[0] * shape[1] * shape[2];
    for spread in [0.1, 3.0, 40.0] {
        let (z, labels) = (draw(pixels * 3, spread), labels(pixels));
        for dtype in [DType::F32, DType::BF16] {
            let z = logits(&z, shape).to_dtype(dtype).unwrap();
            for (backend, criterion) in Backend::all()
                .into_iter()
                .flat_map(|b| criteria().into_iter().map(move |c| (b, c)))
            {
                let of = |backend: Backend| {
                    backend
                        .segmentation_loss(&z, &labels, &criterion, 8.0)
                        .unwrap()
                };
                let (ours, expected) = (of(backend), of(Backend::Reference));
                assert_relative_eq!(ours.value(), expected.value(), max_relative = 2e-6);
                assert_eq!(ours.divisor, expected.divisor);
                // Of logits 80 apart the difference in f32 is good to 4e-6, and so is its exponential.
                let expected = values(&expected.gradient);
                let top = expected.iter().fold(0f32, |top, g| top.max(g.abs()));
                for (a, b) in values(&ours.gradient).iter().zip(&expected) {
                    assert!(
                        (a - b).abs() < 2e-5 * top,
                        "{backend:?} {criterion:?}: {a} or {b}"
                    );
                }
            }
        }
    }
}

#[test]
fn numbers_by_hand() {
    // Two pixels with p = (0.5, 0.25, 0.25): labels 0 and 1, weights 0.2 and 3.
    let (half, quarter) = (0.5f32.ln(), 0.25f32.ln());
    let z = [half, quarter, quarter].repeat(2);
    let (ln2, ln4) = (2f64.ln(), 4f64.ln());
    let sum = 0.2 * ln2 + 3.0 * ln4;
    for backend in Backend::all() {
        let of = |focal, normalisation| {
            let criterion = Criterion {
                focal,
                normalisation,
                ..Criterion::cross_entropy(&WEIGHTS)
            };
            backend
                .segmentation_loss(&logits(&z, [1, 1, 2, 3]), &[0, 1], &criterion, 1.0)
                .unwrap()
        };
        let weighted = of(None, Normalisation::Weights);
        assert_relative_eq!(weighted.value(), sum / 3.2, max_relative = 1e-6);
        assert_relative_eq!(
            of(None, Normalisation::Pixels).value(),
            sum / 2.0,
            max_relative = 1e-6
        );
        assert_relative_eq!(
            of(None, Normalisation::Sum(0.1)).value(),
            sum * 0.1,
            max_relative = 1e-6
        );
        // w (p - onehot) / Σ w.
        let expected = [-0.1, 0.05, 0.05, 1.5, -2.25, 0.75].map(|g: f32| g / 3.2);
        for (got, expected) in values(&weighted.gradient).iter().zip(expected) {
            assert_relative_eq!(*got, expected, max_relative = 1e-5);
        }
        // (1 - p)²: 0.25 and 0.5625.
        let focal = of(Some(Focal::default()), Normalisation::Pixels).value();
        assert_relative_eq!(
            focal,
            (0.2 * 0.25 * ln2 + 3.0 * 0.5625 * ln4) / 2.0,
            max_relative = 1e-6
        );
        // γ = 0 is cross entropy.
        let plain = of(
            Some(Focal {
                alpha: 1.0,
                gamma: 0.0,
            }),
            Normalisation::Weights,
        );
        assert_relative_eq!(plain.value(), weighted.value(), max_relative = 1e-6);
    }
}

/// What ranks compute of one batch, each by the divisor of all, adds up to the whole: loss, own divisors and gradient.
#[test]
fn shares_of_a_batch_add_up_to_the_whole() {
    let (z, labels) = (draw(72, 2.0), labels(24));
    for (backend, criterion) in Backend::all()
        .into_iter()
        .flat_map(|backend| criteria().into_iter().map(move |c| (backend, c)))
    {
        let whole = backend
            .segmentation_loss(&logits(&z, [2, 3, 4, 3]), &labels, &criterion, 4.0)
            .unwrap();
        assert_eq!(whole.divisor, whole.own_divisor);
        let shares = [0, 1].map(|sample| {
            let z = logits(&z[36 * sample..][..36], [1, 3, 4, 3]);
            let labels = &labels[12 * sample..][..12];
            let divisor = Some(whole.divisor);
            backend
                .segmentation_loss_within(&z, labels, &criterion, 4.0, divisor)
                .unwrap()
        });
        let sum: f64 = shares.iter().map(|share| share.value()).sum();
        assert_relative_eq!(sum, whole.value(), max_relative = 1e-5);
        let weights: f64 = shares.iter().map(|share| share.weight_sum).sum();
        assert_relative_eq!(weights, whole.weight_sum, max_relative = 1e-12);
        let mean = whole.weighted_sum / weights;
        assert_relative_eq!(whole.mean(), mean, max_relative = 1e-12);
        if criterion.is_mean() {
            let own: f64 = shares.iter().map(|share| share.own_divisor).sum();
            assert_relative_eq!(own, whole.divisor, max_relative = 1e-12);
            assert_eq!(criterion.constant_factor(), 1.0);
        } else {
            let factor = criterion.constant_factor();
            assert_relative_eq!(factor, 1.0 / whole.divisor, max_relative = 1e-6);
        }
        let parts = shares.iter().flat_map(|share| values(&share.gradient));
        for (part, whole) in parts.zip(values(&whole.gradient)) {
            assert_relative_eq!(part, whole, epsilon = 1e-7, max_relative = 1e-5);
        }
    }
}

#[test]
fn extremes_stay_numbers() {
    for backend in Backend::all() {
        for criterion in criteria() {
            // Certain and right, certain and wrong, nothing that counts.
            let z = [1e4, -1e4, 0.0, 1e4, -1e4, 0.0, 0.0, 0.0, 0.0];
            let loss = |labels: &[u8]| {
                backend
                    .segmentation_loss(&logits(&z, [1, 1, 3, 3]), labels, &criterion, 1.0)
                    .unwrap()
            };
            let mixed = loss(&[0, 1, 255]);
            let gradient = values(&mixed.gradient);
            assert!(
                mixed.value() > 0.0 && gradient.iter().all(|g| g.is_finite()),
                "{criterion:?}"
            );
            assert_eq!(gradient[..3], [0.0; 3]);
            assert!(gradient[4] < 0.0 && gradient[3] > 0.0);
            assert_eq!(gradient[6..], [0.0; 3]);
            let none = loss(&[255; 3]);
            assert_eq!((none.value(), none.mean()), (0.0, 0.0));
            assert!(values(&none.gradient).iter().all(|&g| g == 0.0));
            let broken = logits(&[f32::NAN, 0.0, 0.0], [1, 1, 1, 3]);
            let broken = backend
                .segmentation_loss(&broken, &[1], &criterion, 1.0)
                .unwrap();
            assert!(broken.value().is_nan());
        }
    }
}

/// NaN is larger than nothing, so that a class would be as good as any other.
#[test]
fn a_pixel_without_numbers_has_no_class() {
    let (nan, large) = (f32::NAN, f32::INFINITY);
    let pixels = [
        [0.0, nan, 1.0],
        [nan, 0.0, 1.0],
        [1.0, large, nan],
        [-large, 0.5, 0.25],
        [0.0, large, 0.0],
        [0.0, 2.0, 2.0],
    ];
    let none = NO_CLASS;
    let expected = [none, none, none, none, none, 1];
    for backend in Backend::all() {
        let found = backend.argmax(&logits(&pixels.concat(), [1, 2, 3, 3]));
        assert_eq!(found.unwrap(), expected, "{backend:?}");
    }
}

#[test]
fn a_label_that_is_no_class_is_named_with_its_place() {
    let mut wrong = vec![0; 24];
    wrong[21] = 3;
    wrong[23] = 9;
    let z = logits(&[0.0; 72], [2, 3, 4, 3]);
    for backend in Backend::all() {
        let error = backend
            .softmax_cross_entropy(&z, &wrong, &WEIGHTS, 1.0)
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("label 3 of sample 1 at row 2, column 1"),
            "{text}"
        );
    }
    for (focal, normalisation, key) in [
        (
            Some(Focal {
                alpha: 0.0,
                gamma: 2.0,
            }),
            Normalisation::Weights,
            "focal.alpha",
        ),
        (
            Some(Focal {
                alpha: 1.0,
                gamma: -1.0,
            }),
            Normalisation::Weights,
            "focal.gamma",
        ),
        (None, Normalisation::Sum(0.0), "normalisation.sum"),
    ] {
        let criterion = Criterion {
            focal,
            normalisation,
            ..Criterion::cross_entropy(&WEIGHTS)
        };
        assert!(criterion.check().unwrap_err().to_string().contains(key));
    }
}
