//! Shapes that do not fit, and values that are no numbers.

use crate::{random, values};
use candle_core::{DType, Device, Tensor};
use squall_model::networks::NetworkName;
use squall_model::ops::loss::NO_CLASS;
use squall_model::ops::norm::{After, BatchNormRanks, NormBackward};
use squall_model::ops::{ConvSpec, Fuse, PoolSpec};
use squall_model::{Backend, ModelError, Network, NetworkConfig};

#[test]
fn wrong_shapes_are_refused_by_name() {
    let x = random(1, &[1, 4, 4, 3]);
    let refused = |result: Result<Tensor, ModelError>, word: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
    };
    for backend in Backend::all() {
        let conv = |w: &[usize], spec| backend.conv2d(&x, &random(2, w), None, &spec, Fuse::None);
        refused(conv(&[8, 4, 3, 3], ConvSpec::same(3)), "weights");
        refused(
            conv(
                &[8, 3, 9, 9],
                ConvSpec {
                    padding: (0, 0),
                    ..ConvSpec::same(9)
                },
            ),
            "input",
        );
        refused(backend.add(&x, &random(1, &[1, 4, 4, 2])), "b: expected");
        refused(
            backend.concat(&[&x, &random(1, &[1, 5, 4, 2])]),
            "(b, h, w)",
        );
        let parts = [&x, &random(1, &[1, 4, 5, 2])];
        let (w, spec) = (random(2, &[8, 5, 3, 3]), ConvSpec::same(3));
        let joined = |parts: &[&Tensor]| backend.conv2d_joined(parts, &w, None, &spec, Fuse::None);
        refused(joined(&parts), "(b, h, w)");
        refused(joined(&[&x, &x]), "weights");
        refused(joined(&[]), "nothing");
        refused(backend.softmax(&random(1, &[4, 3])), "logits");
    }
}

/// 1 x 12 x 18 x 16 values, one of them NaN.
fn with_nan() -> Tensor {
    let mut field = values(&random(1, &[1, 12, 18, 16]));
    field[1000] = f32::NAN;
    Tensor::from_vec(field, (1, 12, 18, 16), &Device::Cpu).unwrap()
}

fn has_nan(y: &Tensor) -> bool {
    values(y).iter().any(|v| v.is_nan())
}

#[test]
fn what_is_no_number_does_not_become_one() {
    let (x, slope) = (with_nan(), vec![0.1f32; 16]);
    for backend in Backend::all() {
        let kept = |what: &str, y: Result<Tensor, ModelError>| {
            assert!(has_nan(&y.unwrap()), "{what}, {backend:?}");
        };
        kept("relu", backend.relu(&x));
        kept("leaky relu", backend.leaky_relu(&x, 0.1));
        kept("prelu", backend.prelu(&x, &slope));
        let pooled = backend.max_pool(&x, &PoolSpec::stem(true));
        kept("max pool", pooled.map(|(y, _)| y));
        let (scale, shift) = (vec![1.0; 16], vec![0.0; 16]);
        for residual in [None, Some(&random(5, &[1, 12, 18, 16]))] {
            let y = backend.batch_norm_apply(&x, &scale, &shift, residual, true);
            kept("batch norm", y);
        }
    }
}

#[test]
fn what_is_no_number_does_not_become_one_in_a_convolution() {
    let (field, bias) = (with_nan(), random(4, &[32]));
    for backend in Backend::all() {
        for spec in [
            ConvSpec::same(1),
            ConvSpec::same(3),
            ConvSpec::same(3).stride(2),
            ConvSpec::same(3).dilation(6),
            // Windows that lie in the padding: plain loops run it on a CPU, whichever the backend.
            ConvSpec {
                padding: (1, 1),
                ..ConvSpec::same(1)
            },
        ] {
            let w = random(2, &[32, 16, spec.kernel.0, spec.kernel.1]);
            let reach = (spec.kernel.0 - 1) * spec.dilation;
            let own = backend == Backend::Reference || spec.padding.0 > reach;
            let shape = spec.output_size((12, 18)).unwrap();
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                let x = field.to_dtype(dtype).unwrap();
                let other = random(3, &[1, shape.0, shape.1, 32]);
                let other = other.to_dtype(dtype).unwrap();
                // oneDNN's own ReLU makes 0 of it; f16 does without that one ([`Fuse::Relu`] says so).
                let promised = own || backend.is_gpu() || dtype == DType::F16;
                let fuses = [
                    Fuse::None,
                    Fuse::Add(&other),
                    Fuse::Relu,
                    Fuse::AddRelu(&other),
                ];
                for fuse in fuses.into_iter().take(if promised { 4 } else { 2 }) {
                    for bias in [None, Some(&bias)] {
                        let y = backend.conv2d(&x, &w, bias, &spec, fuse).unwrap();
                        assert!(has_nan(&y), "{spec:?}, {fuse:?}, {dtype:?}, {backend:?}");
                    }
                }
            }
        }
    }
}

/// Other values have the bits that they had when NaN became 0: a ReLU gives no -0.
#[test]
fn a_relu_gives_zero_without_a_sign() {
    let x = [-0.0, 0.0, -1.0, f32::NEG_INFINITY, f32::INFINITY, 2.0];
    let x = Tensor::from_vec(x.to_vec(), (1, 1, 6, 1), &Device::Cpu).unwrap();
    for backend in Backend::all() {
        let bits: Vec<u32> = (values(&backend.relu(&x).unwrap()).iter())
            .map(|y| y.to_bits())
            .collect();
        let expected = [0.0, 0.0, 0.0, 0.0, f32::INFINITY, 2.0].map(f32::to_bits);
        assert_eq!(bits, expected, "{backend:?}");
    }
}

/// As PyTorch's, which are 0 where the result is 0 or less: the gradient of a result that is NaN is not 0.
#[test]
fn gradients_pass_where_a_relu_gave_nan() {
    let line = |values: &[f32]| {
        let shape = (1, 1, values.len(), 1);
        Tensor::from_vec(values.to_vec(), shape, &Device::Cpu).unwrap()
    };
    let y = line(&[f32::NAN, 2.0, 0.0, -0.0, -1.0, f32::INFINITY]);
    let (dy, expected) = (line(&[3.0; 6]), [3.0f32, 3.0, 0.0, 0.0, 0.0, 3.0]);
    for backend in Backend::all() {
        let dx = backend.relu_backward(&dy, &y).unwrap();
        assert_eq!(values(&dx), expected, "{backend:?}");
        let bits = backend.positive(&y).unwrap();
        let dx = backend.masked(&dy, &bits).unwrap();
        assert_eq!(values(&dx), expected, "{backend:?}");
    }
}

/// A channel with one NaN is NaN after its normalisation, and Σ dy, the gradient of β, counts all of its pixels.
#[test]
fn gradients_pass_where_a_normalised_channel_is_nan() {
    let mut field = values(&random(1, &[1, 4, 6, 2]));
    field[6] = f32::NAN;
    let x = Tensor::from_vec(field, (1, 4, 6, 2), &Device::Cpu).unwrap();
    let dy = Tensor::ones((1, 4, 6, 2), DType::F32, &Device::Cpu).unwrap();
    let (gamma, beta) = (vec![1.0f32; 2], vec![0.0f32; 2]);
    let residual = random(2, &[1, 4, 6, 2]);
    for backend in Backend::all() {
        for residual in [None, Some(&residual)] {
            let (y, saved) = backend
                .batch_norm_forward(&x, &gamma, &beta, 1e-5, residual, true, None)
                .unwrap();
            let after = After {
                residual: residual.is_some(),
                relu: true,
            };
            let (mut dgamma, mut dbeta) = (vec![0.0f32; 2], vec![0.0f32; 2]);
            let of = NormBackward {
                dy: &dy,
                x: &x,
                y: residual.is_some().then_some(&y),
                gamma: (&gamma).into(),
                beta: (&beta).into(),
                saved: &saved,
                after,
                ranks: None,
            };
            let (dx, _) = backend
                .batch_norm_backward(&of, &mut dgamma, &mut dbeta)
                .unwrap();
            assert_eq!(dbeta[0], 24.0, "{after:?}, {backend:?}");
            assert!(dbeta[1] > 0.0 && dbeta[1] < 24.0, "{dbeta:?}");
            assert!(dgamma[0].is_nan() && dgamma[1].is_finite(), "{dgamma:?}");
            let dx = values(&dx);
            assert!(dx.iter().step_by(2).all(|dx| dx.is_nan()), "{backend:?}");
        }
    }
}

/// As PyTorch's: the slope is below zero what a NaN is multiplied by, too, and its gradient is NaN then.
#[test]
fn the_gradient_of_a_slope_is_no_number_where_the_input_is_none() {
    let line = |values: [f32; 4]| {
        let shape = (1, 1, values.len(), 1);
        Tensor::from_vec(values.to_vec(), shape, &Device::Cpu).unwrap()
    };
    let (x, dy) = (line([f32::NAN, 2.0, 0.0, -1.0]), line([3.0; 4]));
    for backend in Backend::all() {
        let (slope, mut dslope) = (vec![0.5f32], vec![0.0f32]);
        let dx = backend
            .prelu_backward(&dy, &x, &slope, &mut dslope)
            .unwrap();
        assert_eq!(values(&dx), [1.5, 3.0, 1.5, 1.5], "{backend:?}");
        assert!(dslope[0].is_nan(), "{dslope:?}, {backend:?}");
    }
}

/// A rank that normalises with no other.
#[derive(Debug)]
struct Alone;

impl BatchNormRanks for Alone {
    fn sum(&self, _: &mut [f64]) -> Result<(), ModelError> {
        Ok(())
    }
}

/// One infinity makes NaN of a whole channel. With a variance of 0 instead of NaN the other pixels would be 0 after the
/// ReLU.
#[test]
fn a_channel_with_an_infinity_is_no_number_on_any_number_of_ranks() {
    let mut field = values(&random(1, &[1, 4, 6, 2]));
    field[6] = f32::INFINITY;
    let x = Tensor::from_vec(field, (1, 4, 6, 2), &Device::Cpu).unwrap();
    let (gamma, beta) = (vec![1.0f32; 2], vec![0.0f32; 2]);
    for backend in Backend::all() {
        for ranks in [None, Some(&Alone as &dyn BatchNormRanks)] {
            let what = format!("{backend:?}, ranks: {}", ranks.is_some());
            let (y, saved) = backend
                .batch_norm_forward(&x, &gamma, &beta, 1e-5, None, true, ranks)
                .unwrap();
            let y = values(&y);
            assert!(y.iter().step_by(2).all(|y| y.is_nan()), "{what}: {y:?}");
            let mut other = y.iter().skip(1).step_by(2);
            assert!(other.all(|y| y.is_finite()), "{what}: {y:?}");
            let variance = saved.host().unwrap().variance;
            assert!(variance[0].is_nan(), "{what}: {variance:?}");
        }
    }
}

/// Infinities of both signs add up to NaN after the first layers, and global pooling takes it everywhere.
#[test]
fn a_network_that_overflows_inside_gives_no_mask() {
    let config = NetworkConfig {
        channels_in: 4,
        width: 0.05,
        blocks: vec![2, 1, 1],
        atrous_rates: vec![2, 3],
        ..NetworkConfig::of(NetworkName::DeepLabV3PlusBilinear)
    };
    for backend in Backend::all() {
        let network = Network::build(&config, backend, 3).unwrap();
        // The largest numbers are 65,504 and 3.4e38.
        let mut promised = vec![(DType::F16, 6e4f64)];
        if backend == Backend::Reference || backend.is_gpu() {
            promised.push((DType::F32, 3e38));
        }
        for (dtype, largest) in promised {
            let x = (random(1, &[1, 26, 36, 4]) * largest).unwrap();
            let classes = network.predict(&x, dtype, false).unwrap().classes;
            let missed = classes.iter().filter(|&&class| class != NO_CLASS).count();
            assert_eq!(missed, 0, "{dtype:?}, {backend:?}");
        }
    }
}
