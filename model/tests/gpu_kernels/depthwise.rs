use crate::stand_in_gpu::{Arg, Gpu, Storage};
use crate::{args, assert_close, distance, draw, grid, tensor, values};
use squall_model::Backend;
use squall_model::ops::ConvSpec;

const CPU: Backend = Backend::Reference;

fn cases() -> Vec<([usize; 4], ConvSpec)> {
    let mut cases = Vec::new();
    for periodic in [false, true] {
        let shapes = [
            ([2, 9, 11, 3], ConvSpec::same(3)),
            ([1, 8, 12, 16], ConvSpec::same(3).stride(2)),
            ([1, 9, 13, 24], ConvSpec::same(3).dilation(2)),
            // Only the middle tap sees anything in latitude.
            ([1, 5, 7, 8], ConvSpec::same(3).dilation(12)),
            ([2, 7, 8, 72], ConvSpec::same(5)),
            ([1, 9, 9, 5], ConvSpec::same(7).stride(2)),
            ([1, 6, 6, 200], ConvSpec::same(1)),
            // More taps than a block keeps.
            ([1, 11, 13, 8], ConvSpec::same(9)),
            (
                [1, 8, 9, 8],
                ConvSpec {
                    kernel: (3, 5),
                    padding: (0, 2),
                    ..ConvSpec::same(3)
                },
            ),
            ([1, 30, 40, 8], ConvSpec::same(3)),
            // Several walks down a column, tiles of channels and units.
            ([2, 29, 17, 72], ConvSpec::same(3)),
            ([2, 27, 19, 68], ConvSpec::same(3).stride(2)),
            ([3, 31, 12, 12], ConvSpec::same(3).dilation(2)),
            ([1, 120, 66, 8], ConvSpec::same(3)),
            // Around an even and an odd number of columns, of which the squares of four positions begin outside or
            // inside.
            ([2, 26, 18, 8], ConvSpec::same(3).stride(2)),
            (
                [1, 13, 70, 4],
                ConvSpec {
                    padding: (0, 2),
                    ..ConvSpec::same(3).stride(2)
                },
            ),
            (
                [1, 100, 20, 4],
                ConvSpec {
                    padding: (2, 0),
                    ..ConvSpec::same(3).stride(2)
                },
            ),
            ([1, 12, 14, 8], ConvSpec::same(3).stride(2).dilation(2)),
        ];
        for (shape, spec) in shapes {
            let groups = shape[3];
            cases.push((
                shape,
                ConvSpec {
                    groups,
                    periodic,
                    ..spec
                },
            ));
        }
    }
    cases
}

#[test]
fn convolution_of_single_channels_in_all_directions() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for (shape, spec) in cases() {
            for walks in [false, true] {
                all_directions(&gpu, storage, shape, &spec, walks);
            }
        }
    }
}

/// With the loops for any kernel, or with those that walk down columns where they are for it.
fn all_directions(
    gpu: &Gpu,
    storage: Storage,
    shape @ [b, h, w, c]: [usize; 4],
    spec: &ConvSpec,
    walks: bool,
) {
    let ((p, q), (kh, kw)) = (spec.output_size((h, w)).unwrap(), spec.kernel);
    let (once, even) = ((q - 1) * spec.stride < w, w % 2 == 0);
    let usual = spec.kernel == (3, 3) && spec.stride <= 2 && c % 4 == 0;
    if walks && !(usual && (once || !spec.periodic)) {
        return;
    }
    let (file, stem) = match walks {
        true => ("depthwise_walk.cu", "depthwise_walk"),
        false => ("depthwise.cu", "depthwise"),
    };
    let run = |kernel: &str| format!("{stem}{kernel}_{}", storage.suffix());
    let what = format!("{stem} {shape:?} {spec:?}");
    let (n, m, taps) = (shape.iter().product(), b * p * q * c, kh * kw);
    let (x, dy, kernel) = (draw(1, n), draw(2, m), draw(3, c * taps));
    let hosts = (
        tensor(&x, &shape, storage),
        tensor(&dy, &[b, p, q, c], storage),
    );
    let weights = tensor(&kernel, &[c, 1, kh, kw], Storage::F32);
    let extents = [
        b,
        h,
        w,
        c,
        p,
        q,
        kh,
        kw,
        spec.stride,
        spec.dilation,
        spec.padding.0,
        spec.padding.1,
    ];
    let mut geometry: Vec<Arg<'_>> = extents.iter().map(|&v| Arg::from(v as i32)).collect();
    geometry.push(spec.periodic.into());
    let there = (
        gpu.upload(&x, storage),
        gpu.upload(&dy, storage),
        gpu.f32s(&kernel),
    );

    let want = values(&CPU.depthwise_conv2d(&hosts.0, &weights, spec).unwrap());
    let y = gpu.room(m, storage);
    let all = [
        args![&y, &there.0, &there.2, Arg::NONE],
        &geometry[..],
        args![false],
    ]
    .concat();
    gpu.run(file, &run(""), grid::depthwise(b * p * q, c, 1), &all);
    assert_close(&what, storage, &gpu.download(&y, storage), &want);
    // With what inference folds in.
    let bias = draw(4, c);
    let biases = gpu.f32s(&bias);
    let all = [
        args![&y, &there.0, &there.2, &biases],
        &geometry[..],
        args![true],
    ]
    .concat();
    gpu.run(file, &run(""), grid::depthwise(b * p * q, c, 1), &all);
    let wide = tensor(&values(&hosts.0), &shape, Storage::F32);
    let wide = values(&CPU.depthwise_conv2d(&wide, &weights, spec).unwrap());
    let finished = wide
        .iter()
        .enumerate()
        .map(|(at, y)| (y + bias[at % c]).max(0.0));
    let want = values(&tensor(&finished.collect::<Vec<_>>(), &[m], storage));
    assert_close(&what, storage, &gpu.download(&y, storage), &want);

    let reversible = match spec.stride {
        1 => !spec.periodic || q == w,
        _ => spec.dilation == 1 && (!spec.periodic || even),
    };
    if reversible || !walks {
        let want = CPU
            .depthwise_conv2d_backward_data(&hosts.1, &weights, shape, spec)
            .unwrap();
        let dx = gpu.room(n, storage);
        let all = [args![&dx, &there.1, &there.2], &geometry[..]].concat();
        let blocks = grid::depthwise(b * h * w, c, 1);
        gpu.run(file, &run("_backward_data"), blocks, &all);
        assert_close(&what, storage, &gpu.download(&dx, storage), &values(&want));
    }

    let mut want = draw(5, c * taps);
    let dw = gpu.f32s(&want);
    CPU.depthwise_conv2d_backward_weights(&hosts.0, &hosts.1, spec, &mut want)
        .unwrap();
    let blocks = grid::depthwise(b * p * q, c, if walks { 1 } else { kh });
    let chunks = blocks[1] as usize;
    let partial = gpu.sums(chunks * taps * c);
    let all = [args![&partial, &there.0, &there.1], &geometry[..]].concat();
    gpu.run(file, &run("_backward_filter"), blocks, &all);
    let all = args![&dw, &partial, chunks as i32, c as i32, taps as i32];
    gpu.run(
        "depthwise.cu",
        "depthwise_filter_finish",
        grid::ends(c * taps, 1),
        all,
    );
    let apart = distance(&gpu.download(&dw, Storage::F32), &want);
    assert!(apart < 2e-6, "{what} {storage:?}: dw {apart}");
}

#[test]
fn filters_of_other_convolutions_change_their_order() {
    let Some(gpu) = Gpu::open() else { return };
    let (outer, inner, taps) = (7, 5, 9);
    let w = draw(1, outer * inner * taps);
    let there = gpu.f32s(&w);
    let extents = args![outer as i32, inner as i32, taps as i32];
    let n = w.len();
    let place = |o: usize, i: usize, t: usize| (o * inner + i) * taps + t;
    for storage in Storage::ALL {
        for (scale_inner, length) in [(false, outer), (true, inner)] {
            let scale = draw(2, length);
            let scales = gpu.f32s(&scale);
            for with in [false, true] {
                let y = gpu.room(n, storage);
                let by = if with { scales.at(0) } else { Arg::NONE };
                let all = [args![&y, &there, by, scale_inner], extents].concat();
                let kernel = format!("filter_to_taps_{}", storage.suffix());
                gpu.run("filter.cu", &kernel, grid::flat(n), &all);
                let mut want = Vec::with_capacity(n);
                for (o, t) in (0..outer).flat_map(|o| (0..taps).map(move |t| (o, t))) {
                    for i in 0..inner {
                        let factor = if scale_inner { scale[i] } else { scale[o] };
                        let factor = if with { factor } else { 1.0 };
                        want.push(w[place(o, i, t)] * factor);
                    }
                }
                let want = values(&tensor(&want, &[n], storage));
                assert_eq!(gpu.download(&y, storage), want);
            }
        }
    }
    for storage in Storage::ALL {
        let dk = draw(3, n);
        let rounded = values(&tensor(&dk, &[n], storage));
        let (from, dw) = (gpu.upload(&dk, storage), gpu.f32s(&w));
        let all = [args![&dw, &from], extents].concat();
        let kernel = format!("filter_add_from_taps_{}", storage.suffix());
        gpu.run("filter.cu", &kernel, grid::flat(n), &all);
        let got = gpu.download(&dw, Storage::F32);
        for (o, i, t) in (0..n).map(|at| (at / (inner * taps), at / taps % inner, at % taps)) {
            let at = place(o, i, t);
            assert_eq!(got[at], w[at] + rounded[(o * taps + t) * inner + i]);
        }
    }
}
