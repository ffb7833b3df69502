//! Listed convolutions, forwards and backwards.

use crate::{TOLERANCE, distance, random, values};
use candle_core::{DType, Tensor};
use squall_model::Backend;
use squall_model::ops::{ConvSpec, ConvTransposeSpec, Fuse};

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
    // The second as a classifier: many channels to few.
    let cases = [
        (false, [6, 4]),
        (true, [6, 4]),
        (false, [64, 3]),
        (true, [64, 3]),
    ];
    for (backend, (periodic, [many, few])) in Backend::all()
        .into_iter()
        .flat_map(|backend| cases.map(|case| (backend, case)))
    {
        let spec = ConvTransposeSpec::double(periodic);
        let (x, w, bias) = (
            random(1, &[2, 5, 7, many]),
            random(2, &[many, few, 3, 3]),
            random(3, &[few]),
        );
        let y = backend
            .conv_transpose2d(&x, &w, Some(&bias), &spec)
            .unwrap();
        assert_eq!(y.dims(), [2, 10, 14, few]);
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
