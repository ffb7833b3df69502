//! Depthwise convolution, average pooling, parametric ReLU, gate and wrapping: every backend against plain loops, every
//! backward pass against finite differences.

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use squall_model::Backend;
use squall_model::ops::{ConvSpec, PoolSpec};

fn draw(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape, &Device::Cpu).unwrap()
}

fn random(seed: u64, shape: &[usize]) -> Tensor {
    tensor(&draw(seed, shape.iter().product()), shape)
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

/// Checks `gradient` of `loss` at `at` along three random directions.
fn check(name: &str, at: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
    assert_eq!(at.len(), gradient.len(), "{name}");
    for seed in 100..103 {
        let (direction, step) = (draw(seed, at.len()), 1e-2f32);
        let moved = |sign: f32| -> Vec<f32> {
            let pairs = at.iter().zip(&direction);
            pairs.map(|(v, d)| v + sign * step * d).collect()
        };
        let numeric = (loss(&moved(1.0)) - loss(&moved(-1.0))) / (2.0 * f64::from(step));
        let analytic = dot(gradient, &direction);
        assert!(
            (numeric - analytic).abs() < 4e-3 * (1.0 + analytic.abs()),
            "{name}: numeric {numeric}, analytic {analytic}"
        );
    }
}

/// Largest difference relative to the largest value.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(1e-20f32, |most, v| most.max(v.abs()));
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}

fn depthwise_cases() -> Vec<([usize; 4], ConvSpec)> {
    let mut cases = Vec::new();
    for periodic in [false, true] {
        let kernel = ConvSpec::same(3).periodic(periodic);
        for (shape, spec) in [
            ([2, 9, 11, 5], kernel),
            ([2, 9, 11, 16], kernel.stride(2)),
            ([1, 8, 12, 40], kernel.dilation(4)),
            ([1, 3, 4, 17], kernel.dilation(6)),
            (
                [1, 13, 7, 21],
                ConvSpec::same(5).periodic(periodic).stride(3),
            ),
            (
                [2, 11, 10, 8],
                ConvSpec {
                    padding: (0, 0),
                    ..kernel.dilation(2)
                },
            ),
            // More rows than one chunk of partial sums.
            ([3, 40, 72, 33], kernel),
        ] {
            let groups = shape[3];
            cases.push((shape, ConvSpec { groups, ..spec }));
        }
    }
    cases
}

#[test]
fn depthwise_convolutions_agree() {
    for (shape, spec) in depthwise_cases() {
        let c = shape[3];
        let w = random(2, &[c, 1, spec.kernel.0, spec.kernel.1]);
        let x = random(1, &shape);
        let run = |backend: Backend| {
            let y = backend.depthwise_conv2d(&x, &w, &spec).unwrap();
            let dy = random(3, y.dims());
            let dx = (backend.depthwise_conv2d_backward_data(&dy, &w, shape, &spec)).unwrap();
            let mut dw = vec![0.5; w.elem_count()];
            (backend.depthwise_conv2d_backward_weights(&x, &dy, &spec, &mut dw)).unwrap();
            [values(&y), values(&dx), dw]
        };
        let expected = run(Backend::Reference);
        for (ours, expected) in run(Backend::best()).iter().zip(&expected) {
            let off = distance(ours, expected);
            assert!(off < 1e-5, "{shape:?} {spec:?}: {off}");
        }
        // The general convolution with as many groups as channels is the same thing.
        let y = (Backend::best())
            .conv2d(&x, &w, None, &spec, squall_model::ops::Fuse::None)
            .unwrap();
        assert!(distance(&values(&y), &expected[0]) < 1e-5);
    }
}

#[test]
fn depthwise_gradients() {
    for (backend, (shape, spec)) in (Backend::all().into_iter())
        .flat_map(|backend| {
            depthwise_cases()
                .into_iter()
                .map(move |case| (backend, case))
        })
        .filter(|(_, (shape, _))| shape.iter().product::<usize>() < 4000)
    {
        let w_shape = [shape[3], 1, spec.kernel.0, spec.kernel.1];
        let (x, w) = (
            draw(1, shape.iter().product()),
            draw(2, w_shape.iter().product()),
        );
        let forward = |x: &[f32], w: &[f32]| {
            (backend.depthwise_conv2d(&tensor(x, &shape), &tensor(w, &w_shape), &spec)).unwrap()
        };
        let y = forward(&x, &w);
        let r = draw(3, y.elem_count());
        let (dy, kernel) = (tensor(&r, y.dims()), tensor(&w, &w_shape));
        let dx = (backend.depthwise_conv2d_backward_data(&dy, &kernel, shape, &spec)).unwrap();
        check("depthwise dx", &x, &values(&dx), |x| {
            dot(&values(&forward(x, &w)), &r)
        });
        let mut dw = vec![0.0; w.len()];
        let x_tensor = tensor(&x, &shape);
        (backend.depthwise_conv2d_backward_weights(&x_tensor, &dy, &spec, &mut dw)).unwrap();
        check("depthwise dw", &w, &dw, |w| {
            dot(&values(&forward(&x, w)), &r)
        });
    }
}

#[test]
fn average_pooling() {
    for periodic in [false, true] {
        // One large enough for several rows of work, one with windows that hold all.
        for (shape, spec) in [
            ([2, 31, 45, 13], PoolSpec::stem(periodic)),
            (
                [1, 2, 3, 4],
                PoolSpec {
                    kernel: 3,
                    stride: 1,
                    padding: 1,
                    periodic,
                },
            ),
            (
                [1, 6, 9, 2],
                PoolSpec {
                    kernel: 3,
                    stride: 3,
                    padding: 0,
                    periodic,
                },
            ),
        ] {
            let x = draw(1, shape.iter().product());
            let pool =
                |backend: Backend, x: &[f32]| backend.avg_pool(&tensor(x, &shape), &spec).unwrap();
            let expected = pool(Backend::Reference, &x);
            let r = draw(2, expected.elem_count());
            let dy = tensor(&r, expected.dims());
            for backend in Backend::all() {
                let y = pool(backend, &x);
                assert!(distance(&values(&y), &values(&expected)) < 1e-6);
                let dx = backend.avg_pool_backward(&dy, shape, &spec).unwrap();
                check("average pool", &x, &values(&dx), |x| {
                    dot(&values(&pool(backend, x)), &r)
                });
                // A constant stays what it is: padding does not count.
                let ones = vec![1.0; x.len()];
                let mean = values(&pool(backend, &ones));
                assert!(mean.iter().all(|m| (m - 1.0).abs() < 1e-6));
            }
        }
    }
}

#[test]
fn parametric_relu() {
    let shape = [2, 50, 70, 9];
    let (x, slope) = (draw(1, shape.iter().product()), draw(2, 9));
    let run = |backend: Backend| {
        let y = backend.prelu(&tensor(&x, &shape), &slope).unwrap();
        let mut dslope = vec![0.5; 9];
        let dy = random(3, &shape);
        let dx = backend
            .prelu_backward(&dy, &tensor(&x, &shape), &slope, &mut dslope)
            .unwrap();
        [values(&y), values(&dx), dslope]
    };
    let expected = run(Backend::Reference);
    for (ours, expected) in run(Backend::best()).iter().zip(&expected) {
        assert!(distance(ours, expected) < 1e-5);
    }
    // Away from the kink at 0 finite differences are right.
    let shape = [1, 4, 5, 3];
    let x: Vec<f32> = (draw(4, 60).iter()).map(|v| v + 0.2 * v.signum()).collect();
    let slope = draw(5, 3);
    let r = draw(6, 60);
    for backend in Backend::all() {
        let forward =
            |x: &[f32], slope: &[f32]| values(&backend.prelu(&tensor(x, &shape), slope).unwrap());
        let mut dslope = vec![0.0; 3];
        let dx = backend
            .prelu_backward(
                &tensor(&r, &shape),
                &tensor(&x, &shape),
                &slope,
                &mut dslope,
            )
            .unwrap();
        check("prelu dx", &x, &values(&dx), |x| {
            dot(&forward(x, &slope), &r)
        });
        check("prelu dslope", &slope, &dslope, |slope| {
            dot(&forward(&x, slope), &r)
        });
    }
}

#[test]
fn gate() {
    for shape in [[2, 61, 83, 11], [3, 4, 5, 2]] {
        let [b, _, _, c] = shape;
        let (x, z) = (draw(1, shape.iter().product()), draw(2, b * c));
        let r = draw(3, x.len());
        let forward = |backend: Backend, x: &[f32], z: &[f32]| {
            let z = tensor(z, &[b, 1, 1, c]);
            values(&backend.gate(&tensor(x, &shape), &z).unwrap())
        };
        let backward = |backend: Backend| {
            let z = tensor(&z, &[b, 1, 1, c]);
            let (dx, dz) = backend
                .gate_backward(&tensor(&r, &shape), &tensor(&x, &shape), &z)
                .unwrap();
            [values(&dx), values(&dz)]
        };
        let expected = backward(Backend::Reference);
        for backend in Backend::all() {
            let y = forward(backend, &x, &z);
            assert!(distance(&y, &forward(Backend::Reference, &x, &z)) < 1e-6);
            let [dx, dz] = backward(backend);
            assert!(distance(&dx, &expected[0]) < 1e-6 && distance(&dz, &expected[1]) < 1e-4);
            check("gate dx", &x, &dx, |x| dot(&forward(backend, x, &z), &r));
            check("gate dz", &z, &dz, |z| dot(&forward(backend, &x, z), &r));
        }
    }
}

#[test]
fn wrapping() {
    let backend = Backend::best();
    // One row of three columns, two around: the margin reaches past the whole field in latitude.
    let x = tensor(&[1.0, 2.0, 3.0], &[1, 1, 3, 1]);
    let y = backend.wrap(&x, 2).unwrap();
    assert_eq!(y.dims(), [1, 5, 7, 1]);
    assert_eq!(
        values(&y).chunks(7).next().unwrap(),
        [2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0]
    );
    for (shape, margin) in [([2, 4, 5, 3], 1), ([1, 3, 2, 2], 4)] {
        let x = draw(1, shape.iter().product());
        let forward = |x: &[f32]| backend.wrap(&tensor(x, &shape), margin).unwrap();
        let y = forward(&x);
        let r = draw(2, y.elem_count());
        let dx = backend
            .wrap_backward(&tensor(&r, y.dims()), shape, margin)
            .unwrap();
        check("wrap", &x, &values(&dx), |x| dot(&values(&forward(x)), &r));
    }
}

#[test]
fn wrong_shapes_are_refused_by_name() {
    let x = random(1, &[1, 4, 4, 3]);
    for backend in Backend::all() {
        let spec = ConvSpec::same(3);
        let depthwise = backend.depthwise_conv2d(&x, &random(2, &[3, 1, 3, 3]), &spec);
        assert!(depthwise.unwrap_err().to_string().contains("groups"));
        let slope = backend.prelu(&x, &[0.1; 2]);
        assert!(slope.unwrap_err().to_string().contains("slope"));
        let gate = backend.gate(&x, &random(2, &[1, 1, 1, 2]));
        assert!(gate.unwrap_err().to_string().contains("gate: z"));
        let pool = backend.avg_pool_backward(&x, [1, 4, 4, 3], &PoolSpec::stem(false));
        assert!(pool.unwrap_err().to_string().contains("dy"));
        let wrap = backend.wrap_backward(&x, [1, 4, 4, 3], 1);
        assert!(wrap.unwrap_err().to_string().contains("dy"));
    }
}
