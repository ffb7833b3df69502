//! Every backend against the reference loops, on the shapes that break index arithmetic.

use candle_core::{DType, Device, Tensor};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use squall_model::ops::norm::After;
use squall_model::ops::{ConvSpec, ConvTransposeSpec, Fuse, Landing, PoolSpec};
use squall_model::{Backend, ModelError};

fn random(seed: u64, shape: &[usize]) -> Tensor {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor
        .to_device(&Device::Cpu)
        .unwrap()
        .to_dtype(DType::F32)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1()
        .unwrap()
}

/// ‖a − b‖ / ‖b‖ of two vectors.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    distance_of_sums(a, b, 1e-15)
}

/// ‖a − b‖ of two vectors, to ‖b‖ or to what that norm usually is, whichever is more: what `b` sums may cancel.
fn distance_of_sums(a: &[f32], b: &[f32], usual: f64) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm =
        |v: &mut dyn Iterator<Item = f32>| v.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied()).max(usual)
}

/// Sums of f32 products of up to a few thousand terms differ from f64 ones by a few 1e-7.
const TOLERANCE: f64 = 2e-6;

struct Case {
    x: [usize; 4],
    out: usize,
    spec: ConvSpec,
}

fn cases() -> Vec<Case> {
    let same = ConvSpec::same;
    let mut cases = vec![
        Case {
            x: [1, 12, 18, 16],
            out: 8,
            spec: same(7).stride(2),
        },
        Case {
            x: [2, 9, 11, 5],
            out: 7,
            spec: same(3),
        },
        Case {
            x: [1, 9, 8, 3],
            out: 4,
            spec: same(3).stride(2),
        },
        Case {
            x: [2, 6, 10, 12],
            out: 20,
            spec: same(1),
        },
        Case {
            x: [1, 8, 12, 4],
            out: 6,
            spec: same(1).stride(2),
        },
        Case {
            x: [1, 6, 9, 8],
            out: 5,
            spec: same(3).dilation(2),
        },
        Case {
            x: [2, 6, 9, 8],
            out: 5,
            spec: same(3).dilation(4),
        },
        // The dilation is larger than the field: only the middle tap sees anything in latitude.
        Case {
            x: [1, 5, 7, 6],
            out: 4,
            spec: same(3).dilation(12),
        },
        Case {
            x: [1, 7, 7, 8],
            out: 8,
            spec: ConvSpec {
                groups: 8,
                ..same(3)
            },
        },
        Case {
            x: [1, 7, 8, 8],
            out: 12,
            spec: ConvSpec {
                groups: 4,
                ..same(3).stride(2)
            },
        },
        Case {
            x: [1, 8, 6, 3],
            out: 4,
            spec: ConvSpec {
                kernel: (3, 5),
                padding: (1, 2),
                ..same(3)
            },
        },
        Case {
            x: [1, 8, 6, 3],
            out: 4,
            spec: ConvSpec {
                padding: (0, 0),
                ..same(3)
            },
        },
        // A kernel sees little, and there are many results: on a GPU a product of channels.
        Case {
            x: [2, 8, 10, 3],
            out: 64,
            spec: same(3).stride(2),
        },
        // Wide enough that backward-weights cuts the field into strips, with and without padding.
        Case {
            x: [2, 3, 72, 128],
            out: 8,
            spec: same(3),
        },
        Case {
            x: [1, 5, 74, 8],
            out: 128,
            spec: ConvSpec {
                padding: (1, 0),
                ..same(3)
            },
        },
    ];
    let wrapped: Vec<Case> = cases
        .iter()
        .map(|case| Case {
            spec: case.spec.periodic(true),
            ..*case
        })
        .collect();
    cases.extend(wrapped);
    cases
}

#[test]
fn convolutions_agree_in_all_three_directions() {
    for backend in Backend::all() {
        for (index, case) in cases().iter().enumerate() {
            let spec = &case.spec;
            let weights_shape = [
                case.out,
                case.x[3] / spec.groups,
                spec.kernel.0,
                spec.kernel.1,
            ];
            let (x, w, bias) = (
                random(1, &case.x),
                random(2, &weights_shape),
                random(3, &[case.out]),
            );
            let reference = Backend::Reference
                .conv2d(&x, &w, Some(&bias), spec, Fuse::None)
                .unwrap();
            let place = format!("case {index} on {backend:?}: {:?} {spec:?}", case.x);
            let y = backend
                .conv2d(&x, &w, Some(&bias), spec, Fuse::None)
                .unwrap();
            assert!(
                distance(&values(&y), &values(&reference)) < TOLERANCE,
                "forward, {place}"
            );

            let residual = random(4, y.dims());
            let fused = backend
                .conv2d(&x, &w, Some(&bias), spec, Fuse::AddRelu(&residual))
                .unwrap();
            let expected: Vec<f32> = values(&reference)
                .iter()
                .zip(values(&residual))
                .map(|(y, r)| (y + r).max(0.0))
                .collect();
            assert!(
                distance(&values(&fused), &expected) < TOLERANCE,
                "fused, {place}"
            );

            let dy = random(5, y.dims());
            let dx = backend.conv2d_backward_data(&dy, &w, case.x, spec).unwrap();
            let expected = Backend::Reference
                .conv2d_backward_data(&dy, &w, case.x, spec)
                .unwrap();
            assert!(
                distance(&values(&dx), &values(&expected)) < TOLERANCE,
                "backward data, {place}"
            );

            // Gradients are added to what is there.
            let gradient = |backend: Backend| {
                let (mut dw, mut dbias) = (vec![0.5; w.elem_count()], vec![0.25; case.out]);
                backend
                    .conv2d_backward_weights(&x, &dy, spec, &mut dw, Some((&mut dbias).into()))
                    .unwrap();
                [dw, dbias].concat()
            };
            let off = distance(&gradient(backend), &gradient(Backend::Reference));
            assert!(off < TOLERANCE, "backward weights, {place}: {off}");
        }
    }
}

#[test]
fn transposed_convolution_doubles_and_agrees() {
    for (backend, periodic) in Backend::all()
        .into_iter()
        .flat_map(|b| [(b, false), (b, true)])
    {
        let spec = ConvTransposeSpec::double(periodic);
        let (x, w, bias) = (
            random(1, &[2, 5, 7, 6]),
            random(2, &[6, 4, 3, 3]),
            random(3, &[4]),
        );
        let y = backend
            .conv_transpose2d(&x, &w, Some(&bias), &spec)
            .unwrap();
        assert_eq!(y.dims(), [2, 10, 14, 4]);
        let expected = Backend::Reference
            .conv_transpose2d(&x, &w, Some(&bias), &spec)
            .unwrap();
        assert!(distance(&values(&y), &values(&expected)) < TOLERANCE);
        let dy = random(4, y.dims());
        let dx = backend
            .conv_transpose2d_backward_data(&dy, &w, &spec)
            .unwrap();
        let expected = Backend::Reference
            .conv_transpose2d_backward_data(&dy, &w, &spec)
            .unwrap();
        assert!(distance(&values(&dx), &values(&expected)) < TOLERANCE);
    }
}

/// Kernels of five by five go by way of sums of products that are larger than what they sum to.
#[test]
fn layers_of_tiramisu_agree_to_one_in_a_hundred_thousand() {
    for ([height, width, inputs], outputs, periodic) in [
        ([24, 36, 208], 32, true),
        ([12, 18, 496], 32, true),
        ([24, 35, 624], 32, false),
        ([48, 72, 16], 48, true),
    ] {
        let spec = ConvSpec::same(5).periodic(periodic);
        let x_shape = [1, height, width, inputs];
        let (x, w) = (random(1, &x_shape), random(2, &[outputs, inputs, 5, 5]));
        let dy = random(3, &[1, height, width, outputs]);
        let run = |backend: Backend| {
            let y = backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
            let dx = backend.conv2d_backward_data(&dy, &w, x_shape, &spec);
            let mut dw = vec![0.0; w.elem_count()];
            (backend.conv2d_backward_weights(&x, &dy, &spec, &mut dw, None)).unwrap();
            [values(&y), values(&dx.unwrap()), dw]
        };
        let expected = run(Backend::Reference);
        for backend in Backend::all() {
            for (ours, expected) in run(backend).iter().zip(&expected) {
                let far = distance(ours, expected);
                assert!(far < 1e-5, "{backend:?} {x_shape:?}: {far}");
            }
        }
    }
}

#[test]
fn loops_limited_by_memory_agree() {
    for (backend, periodic) in Backend::all()
        .into_iter()
        .flat_map(|b| [(b, false), (b, true)])
    {
        let reference = Backend::Reference;
        // More pixels than one chunk of work, so that partial sums are merged.
        let x = random(1, &[2, 61, 83, 13]);
        let pool = PoolSpec::stem(periodic);
        let (y, winner) = backend.max_pool(&x, &pool).unwrap();
        let (expected, expected_winner) = reference.max_pool(&x, &pool).unwrap();
        assert_eq!(values(&y), values(&expected));
        assert_eq!(winner.host().unwrap(), expected_winner.host().unwrap());
        let dy = random(2, y.dims());
        let dx = backend
            .max_pool_backward(&dy, &winner, [2, 61, 83, 13], &pool)
            .unwrap();
        let expected = reference
            .max_pool_backward(&dy, &winner, [2, 61, 83, 13], &pool)
            .unwrap();
        assert!(distance(&values(&dx), &values(&expected)) < TOLERANCE);

        for size in [(122, 166), (100, 40)] {
            let y = backend.resize_bilinear(&x, size, periodic).unwrap();
            let expected = reference.resize_bilinear(&x, size, periodic).unwrap();
            assert!(distance(&values(&y), &values(&expected)) < TOLERANCE);
            let dy = random(3, y.dims());
            let dx = backend
                .resize_bilinear_backward(&dy, [2, 61, 83, 13], periodic)
                .unwrap();
            let expected = reference
                .resize_bilinear_backward(&dy, [2, 61, 83, 13], periodic)
                .unwrap();
            assert!(distance(&values(&dx), &values(&expected)) < TOLERANCE);
        }

        let (gamma, beta) = (values(&random(4, &[13])), values(&random(5, &[13])));
        let residual = random(6, x.dims());
        let run = |backend: Backend, residual: Option<&Tensor>| {
            let (y, saved) = backend
                .batch_norm_forward(&x, &gamma, &beta, 1e-5, residual, true, None)
                .unwrap();
            let (mut dgamma, mut dbeta) = (vec![0.0; 13], vec![0.0; 13]);
            let after = After {
                residual: residual.is_some(),
                relu: true,
            };
            let dy = random(7, x.dims());
            let with_output = residual.is_some().then_some(&y);
            let (dx, dresidual) = backend
                .batch_norm_backward(
                    &dy,
                    &x,
                    with_output,
                    (&gamma, &beta),
                    &saved,
                    after,
                    None,
                    &mut dgamma,
                    &mut dbeta,
                )
                .unwrap();
            [
                values(&y),
                values(&dx),
                dresidual.map_or(Vec::new(), |d| values(&d)),
                dgamma,
                dbeta,
            ]
        };
        for residual in [Some(&residual), None] {
            for (ours, expected) in run(backend, residual).iter().zip(run(reference, residual)) {
                let far = distance(ours, &expected);
                assert!(far < 1e-5, "{far} with residual: {}", residual.is_some());
            }
        }

        let logits = random(8, &[2, 61, 83, 3]);
        let labels: Vec<u8> = (0..2 * 61 * 83)
            .map(|i| if i % 17 == 0 { 255 } else { (i % 3) as u8 })
            .collect();
        let ours = backend
            .softmax_cross_entropy(&logits, &labels, &[0.1, 2.0, 0.7], 3.0)
            .unwrap();
        let expected = reference
            .softmax_cross_entropy(&logits, &labels, &[0.1, 2.0, 0.7], 3.0)
            .unwrap();
        approx::assert_relative_eq!(ours.mean(), expected.mean(), max_relative = 1e-6);
        let (ours, expected) = (values(&ours.gradient), values(&expected.gradient));
        assert!(distance(&ours, &expected) < 1e-6);
    }
}

#[test]
fn half_precisions_are_close() {
    for (backend, dtype, tolerance) in Backend::all()
        .into_iter()
        .flat_map(|b| [(b, DType::BF16, 6e-3), (b, DType::F16, 8e-4)])
    {
        let (x, w) = (random(1, &[1, 9, 11, 16]), random(2, &[8, 16, 3, 3]));
        let expected = backend
            .conv2d(&x, &w, None, &ConvSpec::same(3), Fuse::None)
            .unwrap();
        let y = backend
            .conv2d(
                &x.to_dtype(dtype).unwrap(),
                &w,
                None,
                &ConvSpec::same(3),
                Fuse::None,
            )
            .unwrap();
        assert_eq!(y.dtype(), dtype);
        let off = distance(&values(&y), &values(&expected));
        assert!(off < tolerance && off > 0.0, "{backend:?} {dtype:?}: {off}");
    }
}

/// Bit for bit, whether loops read the parts where they lie or they are copied together first. Gradients of kernels of
/// one tap, which are computed part by part, are the same up to rounding: the order in which oneDNN adds depends on how
/// many channels there are.
#[test]
fn channels_apart_are_those_side_by_side() {
    let parts_of = [&[48, 32, 32][..], &[16, 20], &[5, 7, 8], &[528, 16, 8]];
    let specs = [
        ConvSpec::same(3).periodic(true),
        ConvSpec::same(5),
        ConvSpec::same(3).dilation(2),
        ConvSpec::same(1).stride(2),
    ];
    let cases = parts_of
        .into_iter()
        .flat_map(|parts| specs.map(|spec| (parts, spec)));
    for ((counts, spec), dtype) in cases.flat_map(|case| [(case, DType::F32), (case, DType::BF16)])
    {
        let (out, all) = (24, counts.iter().sum::<usize>());
        let stored = |seed, shape: &[usize]| random(seed, shape).to_dtype(dtype).unwrap();
        let parts: Vec<Tensor> = (counts.iter().zip(1..))
            .map(|(&c, seed)| stored(seed, &[1, 24, 36, c]))
            .collect();
        let parts: Vec<&Tensor> = parts.iter().collect();
        let (w, bias) = (
            random(7, &[out, all, spec.kernel.0, spec.kernel.1]),
            random(8, &[out]),
        );
        // Plain loops always copy together; on these extents Winograd's pay, which read apart.
        for backend in Backend::all().into_iter().skip(1) {
            let what = format!("{backend:?} {counts:?} {spec:?} {dtype:?}");
            let x = backend.concat(&parts).unwrap();
            let y = backend
                .conv2d(&x, &w, Some(&bias), &spec, Fuse::Relu)
                .unwrap();
            let apart = backend.conv2d_joined(&parts, &w, Some(&bias), &spec, Fuse::Relu);
            assert_eq!(values(&apart.unwrap()), values(&y), "{what}");

            let dy = stored(9, y.dims());
            let dx = backend
                .conv2d_backward_data(&dy, &w, [1, 24, 36, all], &spec)
                .unwrap();
            let apart = backend
                .conv2d_joined_backward_data(&dy, &w, ([1, 24, 36], counts), &spec)
                .unwrap();
            let dx = backend.split(&dx, counts).unwrap();
            assert_eq!(apart.len(), dx.len());
            for (apart, dx) in apart.iter().zip(&dx) {
                assert_eq!(apart.dims(), dx.dims(), "{what}");
                assert!(
                    values(apart) == values(dx),
                    "{what}: {}",
                    distance(&values(apart), &values(dx))
                );
            }

            let mut gradients = [0, 1].map(|_| (vec![0.5; w.elem_count()], vec![0.5; out]));
            let [(dw, dbias), (dw_apart, dbias_apart)] = &mut gradients;
            let bias = Some(Landing::Host(dbias));
            backend
                .conv2d_backward_weights(&x, &dy, &spec, &mut dw[..], bias)
                .unwrap();
            let bias = Some(Landing::Host(dbias_apart));
            let (dy, dw) = (&dy, &mut dw_apart[..]);
            backend
                .conv2d_joined_backward_weights(&parts, dy, &spec, dw, bias)
                .unwrap();
            let [(dw, dbias), (dw_apart, dbias_apart)] = &gradients;
            assert_eq!(dbias, dbias_apart, "{what}");
            if spec.kernel == (1, 1) {
                let off = distance(dw_apart, dw);
                assert!(off < 1e-6, "{what}: {off}");
            } else {
                assert!(dw == dw_apart, "{what}: {}", distance(dw_apart, dw));
            }
        }
    }
}

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

/// Every direction of a convolution against plain loops in f32; what `dtype` rounds, they read rounded.
fn judge(dtype: DType, x_shape: [usize; 4], w_shape: [usize; 4], spec: &ConvSpec) {
    let rounded = |seed, shape: &[usize]| {
        let narrow = random(seed, shape).to_dtype(dtype).unwrap();
        (narrow.clone(), narrow.to_dtype(DType::F32).unwrap())
    };
    let near = if dtype == DType::F32 { 2e-5 } else { 6e-3 };
    let (x, x_wide) = rounded(1, &x_shape);
    let (_, w) = rounded(2, &w_shape);
    let plain = Backend::Reference;
    let conv = |x: &Tensor, w: &Tensor| plain.conv2d(x, w, None, spec, Fuse::None).unwrap();
    let expected = conv(&x_wide, &w);
    // The mean square of a product of two values of -1..1 is 1 in 9.
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let products: f32 = values(&conv(&ones(&x_shape), &ones(&w_shape))).iter().sum();
    let usual = f64::from(products).sqrt().max(1e-15) / 3.0;
    let (dy, dy_wide) = rounded(3, expected.dims());
    // A GPU's library rounds sums of bf16 to bf16; `gpu.rs` judges it.
    let fast = |backend: &Backend| *backend != plain && !backend.is_gpu();
    for backend in Backend::all().into_iter().filter(fast) {
        let case = format!("{backend:?} {dtype:?} {x_shape:?} {w_shape:?} {spec:?}");
        let y = backend.conv2d(&x, &w, None, spec, Fuse::None).unwrap();
        let off = distance_of_sums(&values(&y), &values(&expected), usual);
        assert!(off < near, "forward {case}: {off}");

        let dx = backend.conv2d_backward_data(&dy, &w, x_shape, spec);
        let expected = plain.conv2d_backward_data(&dy_wide, &w, x_shape, spec);
        let off = distance_of_sums(&values(&dx.unwrap()), &values(&expected.unwrap()), usual);
        assert!(off < near, "backward data {case}: {off}");

        let mut gradients = [0, 1].map(|_| vec![1.0; w.elem_count()]);
        let [dw, expected] = &mut gradients;
        (backend.conv2d_backward_weights(&x, &dy, spec, &mut dw[..], None)).unwrap();
        let (x, dy) = (&x_wide, &dy_wide);
        (plain.conv2d_backward_weights(x, dy, spec, &mut expected[..], None)).unwrap();
        let off = distance_of_sums(dw, expected, usual);
        assert!(off < 2e-5, "backward weights {case}: {off}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_convolution_is_the_plain_one(
        bf16: bool,
        (batch, height, width) in (1usize..3, 1usize..24, 1usize..40),
        (kernel_h, kernel_w) in (1usize..6, 1usize..6),
        (pad_h, pad_w) in (0usize..5, 0usize..6),
        (stride, dilation) in (1usize..4, 1usize..4),
        (groups, inner, outer) in (prop_oneof![Just(1usize), 1usize..4], 1usize..52, 1usize..40),
        (depthwise, same, periodic) in any::<(bool, bool, bool)>(),
    ) {
        let half = |kernel: usize| kernel / 2 * dilation;
        let (groups, inner, outer) = if depthwise { (inner, 1, 1) } else { (groups, inner, outer) };
        let kernel = if same { (kernel_h, kernel_h) } else { (kernel_h, kernel_w) };
        let padding = if same { (half(kernel.0), half(kernel.1)) } else { (pad_h, pad_w) };
        // Where a field is narrower than the window, what is rounded is summed again.
        let periodic = periodic && width > (kernel.1 - 1) * dilation;
        let spec = ConvSpec { kernel, stride, dilation, groups, padding, periodic };
        let fits = |extent: usize, kernel, padding| extent + 2 * padding > (kernel - 1) * dilation;
        if fits(height, kernel.0, padding.0) && fits(width, kernel.1, padding.1) {
            let dtype = if bf16 { DType::BF16 } else { DType::F32 };
            let w_shape = [groups * outer, inner, kernel.0, kernel.1];
            judge(dtype, [batch, height, width, groups * inner], w_shape, &spec);
        }
    }
}

proptest! {
    /// A field seen from another meridian gives the output seen from that meridian.
    #[test]
    fn periodic_convolutions_commute_with_rolling(k in 0usize..6, dilation in 1usize..5, stride in 1usize..3) {
        let spec = ConvSpec::same(3).dilation(dilation).stride(stride).periodic(true);
        let (x, w) = (random(7, &[1, 6, 12, 2]), random(8, &[3, 2, 3, 3]));
        let roll = |t: &Tensor, k: usize| {
            let (t, width) = (t.to_device(&Device::Cpu).unwrap(), t.dims()[2]);
            Tensor::cat(&[t.narrow(2, width - k, k).unwrap(), t.narrow(2, 0, width - k).unwrap()], 2).unwrap()
        };
        for backend in Backend::all() {
            let y = backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
            let rolled = if k == 0 { x.clone() } else { roll(&x, k * stride) };
            let y_rolled = backend.conv2d(&rolled, &w, None, &spec, Fuse::None).unwrap();
            let expected = if k == 0 { y } else { roll(&y, k) };
            prop_assert!(distance(&values(&y_rolled), &values(&expected)) < TOLERANCE);
        }
    }
}

#[test]
fn what_is_no_number_does_not_become_one() {
    for backend in Backend::all() {
        let mut field = values(&random(1, &[1, 12, 18, 16]));
        field[1000] = f32::NAN;
        let x = Tensor::from_vec(field, (1, 12, 18, 16), &Device::Cpu).unwrap();
        let any = |y: &Tensor| values(y).iter().any(|v| v.is_nan());
        assert!(any(&backend.relu(&x).unwrap()), "relu, {backend:?}");
        let (pooled, _) = backend.max_pool(&x, &PoolSpec::stem(true)).unwrap();
        assert!(any(&pooled), "max pool, {backend:?}");
        let (scale, shift) = (vec![1.0; 16], vec![0.0; 16]);
        let y = backend.batch_norm_apply(&x, &scale, &shift, None, true);
        assert!(any(&y.unwrap()), "batch norm, {backend:?}");
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
            // oneDNN's and cuDNN's own rectifiers make 0 of it ([`Fuse::Relu`] says so).
            let reach = (spec.kernel.0 - 1) * spec.dilation;
            let plain = spec.padding.0 > reach && !backend.is_gpu();
            let fuses = if plain || backend == Backend::Reference {
                3
            } else {
                1
            };
            for dtype in [DType::F32, DType::BF16] {
                let x = x.to_dtype(dtype).unwrap();
                let shape = spec.output_size((12, 18)).unwrap();
                let other = random(3, &[1, shape.0, shape.1, 32])
                    .to_dtype(dtype)
                    .unwrap();
                for fuse in [Fuse::None, Fuse::Relu, Fuse::AddRelu(&other)]
                    .into_iter()
                    .take(fuses)
                {
                    let y = backend.conv2d(&x, &w, None, &spec, fuse).unwrap();
                    assert!(any(&y), "{spec:?}, {fuse:?}, {dtype:?}, {backend:?}");
                }
            }
        }
    }
}

#[test]
fn a_sample_does_not_depend_on_its_neighbours_in_the_batch() {
    for backend in Backend::all() {
        // Near the size where one way of running the convolution overtakes another.
        for (size, channels) in [(6, 64), (12, 64), (24, 32), (40, 16)] {
            let pair = random(1, &[2, size, size, channels]);
            let one = pair.narrow(0, 0, 1).unwrap().contiguous().unwrap();
            let w = random(2, &[channels, channels, 3, 3]);
            for (spec, dtype) in [ConvSpec::same(3), ConvSpec::same(3).stride(2)]
                .into_iter()
                .flat_map(|spec| [(spec, DType::F32), (spec.periodic(true), DType::BF16)])
            {
                let run = |x: &Tensor| {
                    let x = x.to_dtype(dtype).unwrap();
                    values(&backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap())
                };
                let (both, alone) = (run(&pair), run(&one));
                assert!(
                    both[..alone.len()] == alone[..],
                    "{size} {channels} {spec:?} {dtype:?} {backend:?}"
                );
            }
        }
    }
}

/// oneDNN's primitives are made by whichever thread first needs one; made at once, they once computed something else.
#[test]
fn threads_that_meet_new_geometries_at_once_agree_with_plain_loops() {
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            scope.spawn(move || {
                for height in 3..40 {
                    let spec = ConvSpec::same(2 + height % 3).stride(1 + height % 2);
                    let (inner, outer) = (1 + height % 5 * thread, 3 + height * thread % 17);
                    let w_shape = [outer, inner, spec.kernel.0, spec.kernel.1];
                    let dtype = [DType::F32, DType::BF16][thread % 2];
                    judge(dtype, [1, height, 5 + thread, inner], w_shape, &spec);
                }
            });
        }
    });
}
