use crate::stand_in_gpu::{Arg, Gpu, Storage};
use crate::{args, assert_close, draw, grid, tensor, values};
use squall_model::Backend;
use squall_model::ops::{ConvSpec, Fuse};

const FILE: &str = "convolve.cu";
const CPU: Backend = Backend::Reference;

/// Input shape, output channels, how.
fn cases() -> Vec<([usize; 4], usize, ConvSpec)> {
    vec![
        ([2, 9, 11, 3], 5, ConvSpec::same(3)),
        ([1, 8, 12, 16], 8, ConvSpec::same(3).stride(2)),
        ([1, 9, 13, 6], 4, ConvSpec::same(3).dilation(2)),
        // Only the middle tap sees anything in latitude.
        ([1, 5, 7, 8], 8, ConvSpec::same(3).dilation(12)),
        (
            [2, 7, 8, 12],
            6,
            ConvSpec {
                groups: 3,
                ..ConvSpec::same(5)
            },
        ),
        ([1, 9, 9, 5], 7, ConvSpec::same(7).stride(3)),
        ([1, 6, 6, 40], 24, ConvSpec::same(1)),
        (
            [1, 8, 9, 8],
            4,
            ConvSpec {
                kernel: (3, 5),
                padding: (0, 2),
                ..ConvSpec::same(3)
            },
        ),
    ]
}

#[test]
fn convolution_between_channels_in_all_directions() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for (shape, outs, spec) in cases() {
            all_directions(&gpu, storage, shape, outs, &spec);
        }
    }
}

/// (outer, inner, taps) as (outer, taps, inner), or back with the last two exchanged.
fn turned(values: &[f32], outer: usize, second: usize, third: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for o in 0..outer {
        for b in 0..third {
            out.extend((0..second).map(|a| values[(o * second + a) * third + b]));
        }
    }
    out
}

fn all_directions(
    gpu: &Gpu,
    storage: Storage,
    shape @ [b, h, w, c]: [usize; 4],
    o: usize,
    spec: &ConvSpec,
) {
    let run = |kernel: &str| format!("{kernel}_{}", storage.suffix());
    let what = format!("{shape:?} to {o} {spec:?}");
    let ((p, q), (kh, kw)) = (spec.output_size((h, w)).unwrap(), spec.kernel);
    let (n, m, taps, inner) = (b * h * w * c, b * p * q * o, kh * kw, c / spec.groups);
    let (x, dy) = (draw(1, n), draw(2, m));
    // As they are rounded for the GPU.
    let kernel = values(&tensor(
        &draw(3, o * inner * taps),
        &[o * inner * taps],
        storage,
    ));
    let (there, slopes) = (
        tensor(&x, &shape, storage),
        tensor(&dy, &[b, p, q, o], storage),
    );
    let weights = tensor(&kernel, &[o, inner, kh, kw], Storage::F32);
    let (pad, groups) = (spec.padding, spec.groups);
    let extents = [
        b,
        h,
        w,
        c,
        p,
        q,
        o,
        kh,
        kw,
        pad.0,
        pad.1,
        spec.stride,
        spec.dilation,
        groups,
    ];
    let geometry: Vec<Arg<'_>> = extents.iter().map(|&v| Arg::from(v as i32)).collect();
    let (xs, dys) = (gpu.upload(&x, storage), gpu.upload(&dy, storage));
    let filter = gpu.upload(&turned(&kernel, o, inner, taps), storage);

    let y = gpu.room(m, storage);
    let all = [args![&y, &xs, &filter], &geometry[..]].concat();
    gpu.run(FILE, &run("convolve"), grid::flat(m), &all);
    let want = CPU
        .conv2d(&there, &weights, None, spec, Fuse::None)
        .unwrap();
    assert_close(&what, storage, &gpu.download(&y, storage), &values(&want));

    let dx = gpu.room(n, storage);
    let all = [args![&dx, &filter, &dys], &geometry[..]].concat();
    gpu.run(FILE, &run("convolve_backward_data"), grid::flat(n), &all);
    let want = CPU
        .conv2d_backward_data(&slopes, &weights, shape, spec)
        .unwrap();
    assert_close(&what, storage, &gpu.download(&dx, storage), &values(&want));

    let dw = gpu.room(kernel.len(), storage);
    let all = [args![&dw, &xs, &dys], &geometry[..]].concat();
    let grid = grid::flat(kernel.len());
    gpu.run(FILE, &run("convolve_backward_filter"), grid, &all);
    let mut want = vec![0.0; kernel.len()];
    CPU.conv2d_backward_weights(&there, &slopes, spec, &mut want, None)
        .unwrap();
    let got = turned(&gpu.download(&dw, storage), o, taps, inner);
    let want = values(&tensor(&want, &[want.len()], storage));
    assert_close(&what, storage, &got, &want);
}

#[test]
fn what_an_output_sees_lies_side_by_side() {
    let Some(gpu) = Gpu::open() else { return };
    let cases = [
        ([2, 6, 8, 3], ConvSpec::same(3).stride(2), 32),
        ([1, 7, 9, 2], ConvSpec::same(3).dilation(2), 24),
        ([1, 5, 6, 1], ConvSpec::same(5), 32),
    ];
    for (storage, periodic) in Storage::ALL.into_iter().zip([false, true, true]) {
        for (shape @ [b, h, w, c], spec, k) in cases {
            let spec = ConvSpec { periodic, ..spec };
            let ((p, q), (kh, kw)) = (spec.output_size((h, w)).unwrap(), spec.kernel);
            let x = draw(1, b * h * w * c);
            let (there, y) = (gpu.upload(&x, storage), gpu.room(b * p * q * k, storage));
            let (pad, step) = (spec.padding, (spec.stride, spec.dilation));
            let extents = [b, h, w, c, p, q, kh, kw, step.0, step.1, pad.0, pad.1];
            let geometry: Vec<Arg<'_>> = extents.iter().map(|&v| Arg::from(v as i32)).collect();
            let all = [args![&y, &there], &geometry[..], args![periodic, k as i32]].concat();
            let kernel = format!("patches_{}", storage.suffix());
            gpu.run(FILE, &kernel, grid::flat(b * p * q * k), &all);
            let x = values(&tensor(&x, &shape, storage));
            let at = |sample: usize, row: isize, column: isize, channel: usize| {
                let column = if periodic {
                    column.rem_euclid(w as isize)
                } else {
                    column
                };
                let inside = (0..h as isize).contains(&row) && (0..w as isize).contains(&column);
                match inside {
                    true => x[((sample * h + row as usize) * w + column as usize) * c + channel],
                    false => 0.0,
                }
            };
            let mut want = Vec::new();
            for (sample, row, column) in
                (0..b).flat_map(|s| (0..p).flat_map(move |r| (0..q).map(move |c| (s, r, c))))
            {
                for place in 0..k {
                    let (tap, channel) = (place / c, place % c);
                    let seen = |output: usize, offset: usize, pad: usize| {
                        (output * step.0 + offset * step.1) as isize - pad as isize
                    };
                    let (r, s) = (tap / kw, tap % kw);
                    want.push(match r < kh {
                        true => at(sample, seen(row, r, pad.0), seen(column, s, pad.1), channel),
                        false => 0.0,
                    });
                }
            }
            assert_eq!(gpu.download(&y, storage), want, "{shape:?} {spec:?}");
        }
    }
}

#[test]
fn inputs_get_the_products_of_those_that_see_them() {
    let Some(gpu) = Gpu::open() else { return };
    let cases = [
        ([2, 6, 8, 3], ConvSpec::same(3).stride(2), 32),
        ([1, 7, 9, 2], ConvSpec::same(3).dilation(2), 18),
        ([1, 5, 6, 1], ConvSpec::same(5), 32),
    ];
    for (shape @ [b, h, w, c], spec, k) in cases {
        let ((p, q), (kh, kw)) = (spec.output_size((h, w)).unwrap(), spec.kernel);
        let parts = draw(1, b * p * q * k);
        let there = gpu.upload(&parts, Storage::F32);
        let dx = gpu.room(b * h * w * c, Storage::F32);
        let (pad, step) = (spec.padding, (spec.stride, spec.dilation));
        let extents = [b, h, w, c, p, q, k, kh, kw, pad.0, pad.1, step.0, step.1, 1];
        let extents: Vec<Arg<'_>> = extents.iter().map(|&v| Arg::from(v as i32)).collect();
        let all = [args![&dx, &there], &extents[..]].concat();
        gpu.run(FILE, "gather_f32", grid::flat(b * h * w * c), &all);
        let mut want = vec![0.0; b * h * w * c];
        for (output, parts) in parts.chunks(k).enumerate() {
            let (sample, row, column) = (output / (p * q), output / q % p, output % q);
            for (place, &part) in parts[..kh * kw * c].iter().enumerate() {
                let (tap, channel) = (place / c, place % c);
                let y = (row * step.0 + tap / kw * step.1).checked_sub(pad.0);
                let x = (column * step.0 + tap % kw * step.1).checked_sub(pad.1);
                if let (Some(y), Some(x)) = (y.filter(|&y| y < h), x.filter(|&x| x < w)) {
                    want[((sample * h + y) * w + x) * c + channel] += part;
                }
            }
        }
        let got = gpu.download(&dx, Storage::F32);
        assert_close(&format!("{shape:?} {spec:?}"), Storage::F32, &got, &want);
    }
}
