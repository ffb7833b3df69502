//! Convolutions over time: the fast backend against the plain loops, the plain loops against finite differences and a
//! hand count, clips of one frame against plain convolutions.

mod common;

use candle_core::{DType, Device, Tensor};
use common::{distance, dot, draw};
use squall_model::Backend;
use squall_model::ops::{Conv3dSpec, ConvSpec, Fuse};

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape, &Device::Cpu).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_device(&Device::Cpu).unwrap();
    common::values(&tensor.to_dtype(DType::F32).unwrap())
}

struct Case {
    /// Shape of the clips.
    x: [usize; 5],
    out: usize,
    spec: Conv3dSpec,
}

impl Case {
    fn weights(&self) -> [usize; 5] {
        let (kh, kw) = self.spec.plane.kernel;
        let inner = self.x[4] / self.spec.plane.groups;
        [self.spec.kernel_t, self.out, inner, kh, kw]
    }

    fn drawn(&self) -> (Tensor, Tensor, Tensor) {
        let draw = |seed, shape: &[usize]| tensor(&draw(seed, shape.iter().product()), shape);
        let (x, w) = (draw(1, &self.x), draw(2, &self.weights()));
        (x, w, draw(3, &[self.out]))
    }
}

/// How many cases come before those that are large.
const SMALL: usize = 9;

fn cases() -> Vec<Case> {
    let halve = ConvSpec::same(5).stride(2).periodic(true);
    let case = |x, out, spec| Case { x, out, spec };
    let unpadded = Conv3dSpec {
        padding_t: 0,
        ..Conv3dSpec::same_time(ConvSpec::same(3), 2)
    };
    vec![
        // The detector's encoder and heads.
        case([2, 8, 12, 18, 3], 4, Conv3dSpec::same_time(halve, 3)),
        case(
            [2, 8, 5, 6, 5],
            3,
            Conv3dSpec::same_time(ConvSpec::same(3).periodic(true), 3).stride_t(2),
        ),
        case(
            [1, 7, 6, 9, 4],
            6,
            Conv3dSpec::same_time(ConvSpec::same(3), 3).stride_t(2),
        ),
        // Fewer frames than the kernel has taps.
        case(
            [1, 2, 7, 9, 2],
            3,
            Conv3dSpec::same_time(ConvSpec::same(3), 3),
        ),
        case(
            [2, 1, 7, 9, 2],
            3,
            Conv3dSpec::same_time(ConvSpec::same(1), 3),
        ),
        case(
            [1, 9, 4, 6, 4],
            2,
            Conv3dSpec::same_time(ConvSpec::same(3).dilation(2), 5).stride_t(3),
        ),
        // A frame that no output reads.
        case([1, 5, 6, 8, 3], 2, unpadded.stride_t(3)),
        // Samples whose frames follow each other in memory.
        case([2, 4, 6, 8, 3], 2, unpadded),
        case(
            [3, 6, 5, 6, 2],
            3,
            Conv3dSpec::same_time(ConvSpec::same(3), 5),
        ),
        // Large enough for the fast ways of the two-dimensional kernels on a CPU.
        case(
            [1, 4, 48, 64, 16],
            32,
            Conv3dSpec::same_time(ConvSpec::same(5).stride(2), 3),
        ),
        case(
            [1, 4, 24, 32, 16],
            16,
            Conv3dSpec::same_time(ConvSpec::same(3).periodic(true), 3),
        ),
    ]
}

#[test]
fn backends_agree() {
    for (index, case) in cases().iter().enumerate() {
        let (x, w, bias) = case.drawn();
        let run = |backend: Backend, dtype: DType| {
            let x = x.to_dtype(dtype).unwrap();
            let y = backend.conv3d(&x, &w, Some(&bias), &case.spec).unwrap();
            assert_eq!(y.dtype(), dtype);
            let dy = tensor(&draw(4, y.elem_count()), y.dims());
            let dy = dy.to_dtype(dtype).unwrap();
            let dx = (backend.conv3d_backward_data(&dy, &w, case.x, &case.spec)).unwrap();
            let (mut dw, mut dbias) = (vec![1.0; w.elem_count()], vec![1.0; case.out]);
            (backend.conv3d_backward_weights(
                &x,
                &dy,
                &case.spec,
                &mut dw,
                Some((&mut dbias).into()),
            ))
            .unwrap();
            [values(&y), values(&dx), dw, dbias]
        };
        let expected = run(Backend::Reference, DType::F32);
        for (dtype, tolerance) in [(DType::F32, 2e-6), (DType::BF16, 1e-2), (DType::F16, 2e-3)] {
            // A GPU that is stood in for takes minutes for the large ones, and has no other ways for them.
            let backends = Backend::all().into_iter();
            for backend in backends.filter(|backend| !backend.is_gpu() || index < SMALL) {
                let got = run(backend, dtype);
                for (what, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    let off = distance(got, expected);
                    assert!(
                        off < tolerance,
                        "case {index} {backend:?} {dtype:?}: result {what} is off by {off:.2e}"
                    );
                }
            }
        }
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for backend in Backend::all() {
        for (index, case) in cases().iter().take(SMALL).enumerate() {
            let (x, w, bias) = case.drawn();
            let forward =
                |x: &Tensor, w: &Tensor| backend.conv3d(x, w, Some(&bias), &case.spec).unwrap();
            let y = forward(&x, &w);
            let r = draw(4, y.elem_count());
            let dy = tensor(&r, y.dims());
            let dx = (backend.conv3d_backward_data(&dy, &w, case.x, &case.spec)).unwrap();
            let (mut dw, mut dbias) = (vec![0.0; w.elem_count()], vec![0.0; case.out]);
            (backend.conv3d_backward_weights(
                &x,
                &dy,
                &case.spec,
                &mut dw,
                Some((&mut dbias).into()),
            ))
            .unwrap();
            let loss = |y: Tensor| dot(&values(&y), &r);
            let along = |at: &Tensor, gradient: &[f32], loss: &dyn Fn(&Tensor) -> f64| {
                let direction = draw(7, at.elem_count());
                let moved = |by: f32| {
                    let moved = values(at);
                    let moved = moved.iter().zip(&direction).map(|(v, d)| v + by * d);
                    tensor(&moved.collect::<Vec<f32>>(), at.dims())
                };
                let numeric = (loss(&moved(1e-2)) - loss(&moved(-1e-2))) / 2e-2;
                let analytic = dot(gradient, &direction);
                assert!(
                    (numeric - analytic).abs() < 4e-3 * (1.0 + analytic.abs()),
                    "case {index} {backend:?}: numeric {numeric}, analytic {analytic}"
                );
            };
            along(&x, &values(&dx), &|x| loss(forward(x, &w)));
            along(&w, &dw, &|w| loss(forward(&x, w)));
            let by_bias =
                |bias: &Tensor| loss(backend.conv3d(&x, &w, Some(bias), &case.spec).unwrap());
            along(&bias, &dbias, &by_bias);
        }
    }
}

#[test]
fn a_kernel_of_one_frame_is_a_plain_convolution() {
    let plane = ConvSpec::same(3).periodic(true);
    let case = Case {
        x: [2, 3, 6, 8, 4],
        out: 5,
        spec: Conv3dSpec::same_time(plane, 1),
    };
    let (x, w, bias) = case.drawn();
    for backend in Backend::all() {
        let over_time = backend.conv3d(&x, &w, Some(&bias), &case.spec).unwrap();
        let flat = x.reshape((6, 6, 8, 4)).unwrap();
        let kernel = w.get(0).unwrap();
        let plain = backend
            .conv2d(&flat, &kernel, Some(&bias), &plane, Fuse::None)
            .unwrap();
        assert!(distance(&values(&over_time), &values(&plain)) < 1e-6);
    }
}

#[test]
fn taps_in_time_by_hand() {
    // One pixel, one channel, weights 1, 10, 100 over frames 1 to 4: each output is before + 10 now + 100 after.
    let spec = Conv3dSpec::same_time(ConvSpec::same(1), 3);
    let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[1, 4, 1, 1, 1]);
    let w = tensor(&[1.0, 10.0, 100.0], &[3, 1, 1, 1, 1]);
    for backend in Backend::all() {
        let y = backend.conv3d(&x, &w, None, &spec).unwrap();
        assert_eq!(values(&y), [210.0, 321.0, 432.0, 43.0]);
        let y = backend.conv3d(&x, &w, None, &spec.stride_t(2)).unwrap();
        assert_eq!(values(&y), [210.0, 432.0]);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let spec = Conv3dSpec::same_time(ConvSpec::same(3), 3);
    let x = tensor(&draw(1, 2 * 4 * 5 * 6 * 2), &[2, 4, 5, 6, 2]);
    let wrong = tensor(&draw(2, 2 * 3 * 2 * 9), &[2, 3, 2, 3, 3]);
    let right = tensor(&draw(2, 3 * 3 * 2 * 9), &[3, 3, 2, 3, 3]);
    for backend in Backend::all() {
        let refused = |result: squall_model::error::Result<Tensor>, part: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(backend.conv3d(&x, &wrong, None, &spec), "extent in time");
        let half = Conv3dSpec {
            padding_t: 2,
            ..spec
        };
        refused(
            backend.conv3d(&x, &right, None, &half),
            "padding below half",
        );
        let flat = x.reshape((8, 5, 6, 2)).unwrap();
        refused(
            backend.conv3d(&flat, &right, None, &spec),
            "(b, t, h, w, c)",
        );
    }
}
