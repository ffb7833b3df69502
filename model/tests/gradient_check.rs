//! Every backward pass against finite differences of its forward pass.
//!
//! For a loss L = Σ r · f(θ) with random r, (L(θ + ε d) − L(θ − ε d)) / 2ε must equal the gradient along d.

mod common;

use candle_core::{Device, Tensor};
use common::{dot, draw, values};
use squall_model::Backend;
use squall_model::ops::norm::{After, NormBackward};
use squall_model::ops::{ConvSpec, ConvTransposeSpec, Fuse, PoolSpec};

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape, &Device::Cpu).unwrap()
}

/// Checks `gradient` of `loss` at `at` along three random directions.
fn check(name: &str, at: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
    assert_eq!(at.len(), gradient.len(), "{name}");
    for seed in 100..103 {
        let direction = draw(seed, at.len());
        let epsilon = 1e-2f32;
        let moved = |sign: f32| -> Vec<f32> {
            at.iter()
                .zip(&direction)
                .map(|(v, d)| v + sign * epsilon * d)
                .collect()
        };
        let numeric = (loss(&moved(1.0)) - loss(&moved(-1.0))) / (2.0 * f64::from(epsilon));
        let analytic = dot(gradient, &direction);
        // f32 sums leave about 1e-6 of the loss, which 1/2ε makes 1e-4; curvature adds O(ε²).
        let tolerance = 4e-3 * (1.0 + analytic.abs());
        assert!(
            (numeric - analytic).abs() < tolerance,
            "{name}: numeric {numeric}, analytic {analytic}"
        );
    }
}

#[test]
fn convolution() {
    for backend in Backend::all() {
        for spec in [
            ConvSpec::same(3).periodic(true),
            ConvSpec::same(3).stride(2),
            ConvSpec::same(3).dilation(4).periodic(true),
            ConvSpec {
                groups: 2,
                ..ConvSpec::same(3)
            },
            ConvSpec::same(1),
        ] {
            let x_shape = [2, 6, 8, 4];
            let w_shape = [6, 4 / spec.groups, spec.kernel.0, spec.kernel.1];
            let (x, w, bias) = (
                draw(1, 2 * 6 * 8 * 4),
                draw(2, w_shape.iter().product()),
                draw(3, 6),
            );
            let forward = |x: &[f32], w: &[f32], bias: &[f32]| {
                let bias = tensor(bias, &[6]);
                backend
                    .conv2d(
                        &tensor(x, &x_shape),
                        &tensor(w, &w_shape),
                        Some(&bias),
                        &spec,
                        Fuse::None,
                    )
                    .unwrap()
            };
            let y = forward(&x, &w, &bias);
            let r = draw(4, y.elem_count());
            let dy = tensor(&r, y.dims());
            let loss = |y: Tensor| dot(&values(&y), &r);
            let dx = backend
                .conv2d_backward_data(&dy, &tensor(&w, &w_shape), x_shape, &spec)
                .unwrap();
            check("conv dx", &x, &values(&dx), |x| loss(forward(x, &w, &bias)));
            let (mut dw, mut dbias) = (vec![0.0; w.len()], vec![0.0; 6]);
            backend
                .conv2d_backward_weights(
                    &tensor(&x, &x_shape),
                    &dy,
                    &spec,
                    &mut dw,
                    Some((&mut dbias).into()),
                )
                .unwrap();
            check("conv dw", &w, &dw, |w| loss(forward(&x, w, &bias)));
            check("conv dbias", &bias, &dbias, |bias| {
                loss(forward(&x, &w, bias))
            });
        }
    }
}

#[test]
fn transposed_convolution() {
    for backend in Backend::all() {
        let spec = ConvTransposeSpec::double(true);
        let (x, w, bias) = (draw(1, 5 * 6 * 4), draw(2, 4 * 3 * 9), draw(3, 3));
        let forward = |x: &[f32], w: &[f32], bias: &[f32]| {
            let bias = tensor(bias, &[3]);
            backend
                .conv_transpose2d(
                    &tensor(x, &[1, 5, 6, 4]),
                    &tensor(w, &[4, 3, 3, 3]),
                    Some(&bias),
                    &spec,
                )
                .unwrap()
        };
        let y = forward(&x, &w, &bias);
        let r = draw(4, y.elem_count());
        let dy = tensor(&r, y.dims());
        let loss = |y: Tensor| dot(&values(&y), &r);
        let dx = backend
            .conv_transpose2d_backward_data(&dy, &tensor(&w, &[4, 3, 3, 3]), &spec)
            .unwrap();
        check("transposed dx", &x, &values(&dx), |x| {
            loss(forward(x, &w, &bias))
        });
        let (mut dw, mut dbias) = (vec![0.0; w.len()], vec![0.0; 3]);
        let x_tensor = tensor(&x, &[1, 5, 6, 4]);
        backend
            .conv_transpose2d_backward_weights(
                &x_tensor,
                &dy,
                &spec,
                &mut dw,
                Some((&mut dbias).into()),
            )
            .unwrap();
        check("transposed dw", &w, &dw, |w| loss(forward(&x, w, &bias)));
        check("transposed dbias", &bias, &dbias, |bias| {
            loss(forward(&x, &w, bias))
        });
    }
}

#[test]
fn batch_norm_with_residual() {
    for backend in Backend::all() {
        let shape = [2, 5, 7, 3];
        let count = shape.iter().product();
        // Residuals of ±5 keep every sum off the kink of ReLU, where finite differences are wrong.
        let sides = (0..count).map(|i| if i * 7 % 3 == 0 { -5.0 } else { 5.0 });
        let residual: Vec<f32> = draw(2, count)
            .iter()
            .zip(sides)
            .map(|(r, s)| r + s)
            .collect();
        let x = draw(1, count);
        let (gamma, beta) = (draw(3, 3), draw(4, 3));
        for relu in [false, true] {
            let forward = |x: &[f32], residual: &[f32], gamma: &[f32], beta: &[f32]| {
                let residual = tensor(residual, &shape);
                backend
                    .batch_norm_forward(
                        &tensor(x, &shape),
                        gamma,
                        beta,
                        1e-3,
                        Some(&residual),
                        relu,
                        None,
                    )
                    .unwrap()
            };
            let (y, saved) = forward(&x, &residual, &gamma, &beta);
            let r = draw(5, count);
            let loss = |y: Tensor| dot(&values(&y), &r);
            let (mut dgamma, mut dbeta) = (vec![0.0; 3], vec![0.0; 3]);
            let after = After {
                residual: true,
                relu,
            };
            let of = NormBackward {
                dy: &tensor(&r, &shape),
                x: &tensor(&x, &shape),
                y: Some(&y),
                gamma: (&gamma).into(),
                beta: (&beta).into(),
                saved: &saved,
                after,
                ranks: None,
            };
            let (dx, dresidual) = backend
                .batch_norm_backward(&of, &mut dgamma, &mut dbeta)
                .unwrap();
            check("bn dx", &x, &values(&dx), |x: &[f32]| {
                loss(forward(x, &residual, &gamma, &beta).0)
            });
            check(
                "bn dresidual",
                &residual,
                &values(&dresidual.unwrap()),
                |res: &[f32]| loss(forward(&x, res, &gamma, &beta).0),
            );
            check("bn dgamma", &gamma, &dgamma, |gamma: &[f32]| {
                loss(forward(&x, &residual, gamma, &beta).0)
            });
            check("bn dbeta", &beta, &dbeta, |beta: &[f32]| {
                loss(forward(&x, &residual, &gamma, beta).0)
            });
        }
    }
}

#[test]
fn pooling_and_resizing() {
    for (backend, periodic) in Backend::all()
        .into_iter()
        .flat_map(|b| [(b, false), (b, true)])
    {
        let shape = [2, 6, 8, 3];
        // Far apart values: a step of ε changes no winner.
        let mut x: Vec<f32> = (0..288).map(|i| (i * 167 % 288) as f32 * 0.05).collect();
        let spec = PoolSpec::stem(periodic);
        let (y, winner) = backend.max_pool(&tensor(&x, &shape), &spec).unwrap();
        let r = draw(1, y.elem_count());
        let dx = backend
            .max_pool_backward(&tensor(&r, y.dims()), &winner, shape, &spec)
            .unwrap();
        check("max pool", &x, &values(&dx), |x| {
            dot(
                &values(&backend.max_pool(&tensor(x, &shape), &spec).unwrap().0),
                &r,
            )
        });

        x = draw(2, 288);
        for size in [(12, 16), (4, 5)] {
            let resize = |x: &[f32]| {
                backend
                    .resize_bilinear(&tensor(x, &shape), size, periodic)
                    .unwrap()
            };
            let r = draw(3, resize(&x).elem_count());
            let dy = tensor(&r, &[2, size.0, size.1, 3]);
            let dx = backend
                .resize_bilinear_backward(&dy, shape, periodic)
                .unwrap();
            check("resize", &x, &values(&dx), |x| dot(&values(&resize(x)), &r));
        }
        let pool = |x: &[f32]| backend.global_average_pool(&tensor(x, &shape)).unwrap();
        let r = draw(4, 6);
        let dx = backend
            .global_average_pool_backward(&tensor(&r, &[2, 1, 1, 3]), shape)
            .unwrap();
        check("average pool", &x, &values(&dx), |x| {
            dot(&values(&pool(x)), &r)
        });
    }
}

#[test]
fn cross_entropy_and_dropout() {
    for backend in Backend::all() {
        let shape = [1, 4, 6, 3];
        let logits = draw(1, 72);
        let labels: Vec<u8> = (0..24)
            .map(|i| if i == 5 { 255 } else { (i % 3) as u8 })
            .collect();
        let loss = |z: &[f32]| {
            backend
                .softmax_cross_entropy(&tensor(z, &shape), &labels, &[0.2, 3.0, 1.0], 1.0)
                .unwrap()
        };
        check(
            "cross entropy",
            &logits,
            &values(&loss(&logits).gradient),
            |z| loss(z).mean(),
        );

        // The same key drops the same values of the gradient.
        let r = draw(2, 72);
        let drop = |x: &[f32]| backend.dropout(&tensor(x, &shape), 0.4, 99).unwrap();
        check("dropout", &logits, &values(&drop(&r)), |x| {
            dot(&values(&drop(x)), &r)
        });
        let many = backend
            .dropout(&tensor(&vec![1.0; 100_000], &[1, 100, 1000, 1]), 0.4, 7)
            .unwrap();
        let share = values(&many).iter().filter(|&&v| v == 0.0).count() as f64 / 1e5;
        assert!(
            (share - 0.4).abs() < 0.01,
            "{share} of the values dropped at rate 0.4"
        );
        // What is left stands for what is dropped: the mean stays.
        let mut left = values(&many).into_iter().filter(|&v| v != 0.0);
        assert!(left.all(|v| (v - 1.0 / 0.6).abs() < 1e-6));
    }
}
