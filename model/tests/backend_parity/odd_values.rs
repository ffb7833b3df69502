//! Shapes that do not fit, and values that are no numbers.

use crate::{random, values};
use candle_core::{DType, Device, Tensor};
use squall_model::ops::{ConvSpec, Fuse, PoolSpec};
use squall_model::{Backend, ModelError};

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
