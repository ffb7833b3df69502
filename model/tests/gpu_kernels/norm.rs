use crate::stand_in_gpu::{Arg, Gpu, Memory, Storage};
use crate::{args, assert_close, distance, draw, grid, tensor, values};
use squall_model::Backend;
use squall_model::ops::norm::{After, NormBackward};

const FILE: &str = "norm.cu";
const CPU: Backend = Backend::Reference;
const EPS: f32 = 1e-5;
const SHAPES: [[usize; 4]; 7] = [
    [1, 2, 1, 1],
    [2, 5, 7, 3],
    [3, 4, 6, 8],
    [2, 9, 5, 24],
    [1, 3, 5, 300],
    [2, 30, 25, 16],
    // More chunks than threads that add them.
    [1, 60, 50, 3],
];

fn name(kernel: &str, storage: Storage) -> String {
    format!("{kernel}_{}", storage.suffix())
}

/// Sums over the pixels: count, Σ x, Σ x².
fn moments(gpu: &Gpu, x: &Memory, storage: Storage, pixels: usize, c: usize) -> Memory {
    let chunks = grid::chunks(pixels, c, 1);
    let (partial, sums) = (gpu.sums(2 * chunks * c), gpu.sums(1 + 2 * c));
    let all = args![&partial, x, pixels as i64, c as i32];
    gpu.run(
        FILE,
        &name("norm_moments", storage),
        grid::sums(pixels, c, 1),
        all,
    );
    let all = args![&sums, &partial, chunks as i32, c as i32, pixels as i64];
    gpu.run(FILE, "norm_collect", grid::ends(c, 1), all);
    sums
}

/// Mean, inverse standard deviation, variance, scale, shift.
fn statistics(gpu: &Gpu, sums: &Memory, gamma: &[f32], beta: &[f32]) -> Memory {
    let c = gamma.len();
    let saved = gpu.room(5 * c, Storage::F32);
    let (gamma, beta) = (gpu.f32s(gamma), gpu.f32s(beta));
    let all = args![&saved, sums, &gamma, &beta, EPS, c as i32];
    gpu.run(FILE, "norm_finish", grid::flat(c), all);
    saved
}

/// The same in one kernel after the sums.
fn statistics_at_once(
    gpu: &Gpu,
    x: &Memory,
    storage: Storage,
    pixels: usize,
    [gamma, beta]: [&[f32]; 2],
) -> Vec<f32> {
    let c = gamma.len();
    let chunks = grid::chunks(pixels, c, 1);
    let partial = gpu.sums(2 * chunks * c);
    let all = args![&partial, x, pixels as i64, c as i32];
    let kernel = name("norm_moments", storage);
    gpu.run(FILE, &kernel, grid::sums(pixels, c, 1), all);
    let saved = gpu.room(5 * c, Storage::F32);
    let (gamma, beta) = (gpu.f32s(gamma), gpu.f32s(beta));
    let counts = args![chunks as i32, c as i32, pixels as i64];
    let all = [args![&saved, &partial, &gamma, &beta, EPS], counts].concat();
    gpu.run(FILE, "norm_collect_finish", grid::ends(c, 1), &all);
    gpu.download(&saved, Storage::F32)
}

#[test]
fn statistics_and_running_statistics() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for shape @ [b, h, w, c] in SHAPES {
            let (pixels, n) = (b * h * w, shape.iter().product());
            // A mean that is large against the spread, as that of pressure.
            let off = if storage == Storage::F32 { 1000.0 } else { 2.0 };
            let x: Vec<f32> = draw(1, n).iter().map(|v| v + off).collect();
            let host = tensor(&x, &shape, storage);
            let want = CPU.batch_norm_statistics(&host, EPS, None).unwrap();
            let (gamma, beta) = (draw(2, c), draw(3, c));
            let sums = moments(&gpu, &gpu.upload(&x, storage), storage, pixels, c);
            let saved = statistics(&gpu, &sums, &gamma, &beta);
            let got = gpu.download(&saved, Storage::F32);
            let at_once = statistics_at_once(
                &gpu,
                &gpu.upload(&x, storage),
                storage,
                pixels,
                [&gamma, &beta],
            );
            assert_eq!(at_once, got, "{storage:?} {shape:?}");
            let part = |at: usize| &got[at * c..(at + 1) * c];
            assert!(
                distance(part(0), &want.mean) < 1e-7,
                "{storage:?} {shape:?}"
            );
            assert!(
                distance(part(1), &want.inv_std) < 2e-6,
                "{storage:?} {shape:?}"
            );
            assert!(
                distance(part(2), &want.variance) < 2e-6,
                "{storage:?} {shape:?}"
            );
            for i in 0..c {
                let scale = gamma[i] * part(1)[i];
                assert_eq!(part(3)[i], scale);
                assert_eq!(part(4)[i], beta[i] - part(0)[i] * scale);
            }
        }
    }
}

#[test]
fn sums_of_ranks_are_those_of_the_whole() {
    let Some(gpu) = Gpu::open() else { return };
    let (c, rows) = (6, [20, 31]);
    let x = draw(1, (rows[0] + rows[1]) * c);
    let (first, second) = x.split_at(rows[0] * c);
    let read = |x: &[f32]| {
        let memory = gpu.f32s(x);
        gpu.download_f64(&moments(&gpu, &memory, Storage::F32, x.len() / c, c))
    };
    let (whole, first, second) = (read(&x), read(first), read(second));
    for (at, whole) in whole.iter().enumerate() {
        assert!((whole - first[at] - second[at]).abs() < 1e-5, "{at}");
    }
    assert_eq!(whole[0], 51.0);
}

#[test]
fn application_with_residual_and_relu() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for shape @ [b, h, w, c] in SHAPES {
            let (pixels, n) = (b * h * w, shape.iter().product());
            let (mut x, residual) = (draw(1, n), draw(2, n));
            let (scale, shift) = (draw(3, c), draw(4, c));
            x[n / 2] = f32::NAN;
            let (host, more) = (
                tensor(&x, &shape, storage),
                tensor(&residual, &shape, storage),
            );
            let tables = (gpu.f32s(&scale), gpu.f32s(&shift));
            let (from, plus) = (gpu.upload(&x, storage), gpu.upload(&residual, storage));
            for (with, relu) in [(false, false), (false, true), (true, false), (true, true)] {
                let y = gpu.room(n, storage);
                let added = if with { plus.at(0) } else { Arg::NONE };
                let all = args![
                    &y,
                    &from,
                    &tables.0,
                    &tables.1,
                    added,
                    relu,
                    pixels as i64,
                    c as i32
                ];
                gpu.run(FILE, &name("norm_apply", storage), grid::pixels(n), all);
                let want = CPU.batch_norm_apply(&host, &scale, &shift, with.then_some(&more), relu);
                let (mut got, mut want) = (gpu.download(&y, storage), values(&want.unwrap()));
                assert!(
                    got[n / 2].is_nan(),
                    "what is no number must not look like one"
                );
                (got[n / 2], want[n / 2]) = (0.0, 0.0);
                assert_close("apply", storage, &got, &want);
            }
            // A convolution's ReLU: no scale, no shift.
            let y = gpu.room(n, storage);
            let all = args![
                &y,
                &from,
                Arg::NONE,
                Arg::NONE,
                Arg::NONE,
                true,
                pixels as i64,
                c as i32
            ];
            gpu.run(FILE, &name("norm_apply", storage), grid::pixels(n), all);
            let got = gpu.download(&y, storage);
            let want = values(&CPU.relu(&host).unwrap());
            assert!((got.iter().zip(&want)).all(|(g, w)| g == w || g.is_nan() && w.is_nan()));
        }
    }
}

#[test]
fn any_grid_gives_the_same_bits() {
    let Some(gpu) = Gpu::open() else { return };
    // With one block there are fewer threads than channels, or than groups of four of them.
    for c in [300, 1100, 5] {
        let (pixels, n) = (7, 7 * c);
        let [x, scale, shift] = [n, c, c].map(|count| draw(count as u64, count));
        let there = [&x, &scale, &shift].map(|v| gpu.f32s(v));
        let run = |blocks: u32| {
            let y = gpu.room(n, Storage::F32);
            let all = args![
                &y,
                &there[0],
                &there[1],
                &there[2],
                Arg::NONE,
                false,
                pixels as i64,
                c as i32
            ];
            gpu.run(FILE, "norm_apply_f32", [blocks, 1, 1], all);
            gpu.download(&y, Storage::F32)
        };
        let want = (0..n).map(|at| x[at].mul_add(scale[at % c], shift[at % c]));
        let want: Vec<f32> = want.collect();
        for blocks in [1, 2, 3, 40] {
            assert_eq!(run(blocks), want, "{c} channels, {blocks} blocks");
        }
    }
}

/// How the gate of a ReLU is told.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gate {
    Open = 0,
    Recomputed = 1,
    FromOutput = 2,
    FromBits = 3,
}

#[test]
fn gradients_with_every_gate() {
    let Some(gpu) = Gpu::open() else { return };
    let gates = [
        Gate::Open,
        Gate::Recomputed,
        Gate::FromOutput,
        Gate::FromBits,
    ];
    for storage in Storage::ALL {
        for shape in SHAPES {
            for gate in gates {
                backward(&gpu, storage, shape, gate);
            }
        }
    }
}

fn backward(gpu: &Gpu, storage: Storage, shape @ [b, h, w, c]: [usize; 4], gate: Gate) {
    let (pixels, n) = (b * h * w, shape.iter().product());
    let (x, dy, residual) = (draw(1, n), draw(2, n), draw(3, n));
    let (gamma, beta) = (draw(4, c), draw(5, c));
    let hosts = [&x, &dy, &residual].map(|v| tensor(v, &shape, storage));
    let after = After {
        residual: gate == Gate::FromOutput,
        relu: gate != Gate::Open,
    };
    let more = after.residual.then_some(&hosts[2]);
    let (y, saved_host) = CPU
        .batch_norm_forward(&hosts[0], &gamma, &beta, EPS, more, after.relu, None)
        .unwrap();
    let (mut dgamma, mut dbeta) = (draw(6, c), draw(7, c));
    let from = (gpu.f32s(&dgamma), gpu.f32s(&dbeta));
    let of = NormBackward {
        dy: &hosts[1],
        x: &hosts[0],
        y: Some(&y),
        gamma: (&gamma).into(),
        beta: (&beta).into(),
        saved: &saved_host,
        after,
        ranks: None,
    };
    let (dx_want, masked_want) = CPU
        .batch_norm_backward(&of, &mut dgamma, &mut dbeta)
        .unwrap();

    let there = [&x, &dy, &values(&y)].map(|v| gpu.upload(v, storage));
    let bits = gpu.upload_bytes(&CPU.positive(&y).unwrap().host().unwrap());
    let sums = moments(gpu, &there[0], storage, pixels, c);
    let saved = statistics(gpu, &sums, &gamma, &beta);
    let chunks = grid::chunks(pixels, c, 1);
    let partial = gpu.sums(2 * chunks * c);
    let writes = matches!(gate, Gate::FromOutput | Gate::FromBits);
    let masked = gpu.room(n, storage);
    let output = if gate == Gate::FromOutput {
        there[2].at(0)
    } else {
        Arg::NONE
    };
    let bit = if gate == Gate::FromBits {
        bits.at(0)
    } else {
        Arg::NONE
    };
    let all = args![
        &partial,
        if writes { masked.at(0) } else { Arg::NONE },
        &there[1],
        &there[0],
        &saved,
        gate as i32,
        output,
        bit,
        pixels as i64,
        c as i32
    ];
    gpu.run(
        FILE,
        &name("norm_backward_sums", storage),
        grid::sums(pixels, c, 1),
        all,
    );
    let kept = [&from.0, &from.1].map(|memory| gpu.download(memory, Storage::F32));
    let at_once = (
        gpu.room(3 * c, Storage::F32),
        kept.map(|values| gpu.f32s(&values)),
    );
    let (factors, gammas) = (gpu.room(3 * c, Storage::F32), gpu.f32s(&gamma));
    let sums = gpu.sums(2 * c);
    let all = args![&sums, &from.0, &from.1, &partial, chunks as i32, c as i32];
    gpu.run(FILE, "norm_backward_collect", grid::ends(c, 1), all);
    let all = args![&factors, &sums, &saved, &gammas, pixels as f64, c as i32];
    gpu.run(FILE, "norm_backward_factors", grid::flat(c), all);
    let (all_factors, [dgammas, dbetas]) = &at_once;
    let counts = args![pixels as f64, chunks as i32, c as i32];
    let first = args![all_factors, dgammas, dbetas, &partial, &saved, &gammas];
    let all = [first, counts].concat();
    gpu.run(FILE, "norm_backward_finish", grid::ends(c, 1), &all);
    let same = |a: &Memory, b: &Memory| {
        let [a, b] = [a, b].map(|memory| gpu.download(memory, Storage::F32));
        assert_eq!(a, b, "{shape:?} {gate:?}: in one kernel");
    };
    same(all_factors, &factors);
    same(dgammas, &from.0);
    same(dbetas, &from.1);

    let what = format!("norm backward {shape:?} {gate:?}");
    let apart = distance(&gpu.download(&from.0, Storage::F32), &dgamma);
    assert!(apart < 5e-6, "{what} {storage:?}: dgamma {apart}");
    let apart = distance(&gpu.download(&from.1, Storage::F32), &dbeta);
    assert!(apart < 5e-6, "{what} {storage:?}: dbeta {apart}");
    if let Some(want) = &masked_want {
        assert_eq!(gpu.download(&masked, storage), values(want), "{what}");
    }
    let apply = |dx: &Memory, dy: &Memory, gate: Gate, output: Arg<'_>, bit: Arg<'_>| {
        let all = args![
            dx,
            dy,
            &there[0],
            &factors,
            &saved,
            gate as i32,
            output,
            bit,
            pixels as i64,
            c as i32
        ];
        gpu.run(
            FILE,
            &name("norm_backward_apply", storage),
            grid::pixels(n),
            all,
        );
        gpu.download(dx, storage)
    };
    // What is left of dx is small where a channel has few values: compare with the size of its terms.
    let scale = values(&dx_want)
        .iter()
        .map(|v| f64::from(*v).powi(2))
        .sum::<f64>()
        .sqrt();
    if pixels > 4 && scale > 1e-3 {
        let dx = gpu.room(n, storage);
        let want = values(&dx_want);
        let loose = |got: &[f32]| {
            let limit = if storage == Storage::F32 { 1e-5 } else { 2e-3 };
            let apart = distance(got, &want);
            assert!(apart < limit, "{what} {storage:?}: dx {apart}");
        };
        let got = apply(&dx, &there[1], gate, output, bit);
        loose(&got);
        if writes {
            // The same of the gradient that was masked before, in place.
            let again = apply(&masked, &masked, Gate::Open, Arg::NONE, Arg::NONE);
            assert_eq!(again, got, "{what}");
        }
    }
}
