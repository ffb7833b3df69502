//! What the rate of the memory limits: pooling, resizing, normalisation, the loss.

use crate::{TOLERANCE, distance, random, values};
use candle_core::Tensor;
use squall_model::Backend;
use squall_model::ops::PoolSpec;
use squall_model::ops::norm::{After, NormBackward};

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
            let (dx, dresidual) = backend
                .batch_norm_backward(&of, &mut dgamma, &mut dbeta)
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
