//! Channels of several tensors that are read side by side.

use crate::{distance, random, values};
use candle_core::{DType, Tensor};
use squall_model::Backend;
use squall_model::ops::{ConvSpec, Fuse, GradientSink};

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
            let bias = Some(GradientSink::Host(dbias));
            backend
                .conv2d_backward_weights(&x, &dy, &spec, &mut dw[..], bias)
                .unwrap();
            let bias = Some(GradientSink::Host(dbias_apart));
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
