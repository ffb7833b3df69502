use crate::stand_in_gpu::{Arg, Gpu, Storage};
use crate::{args, draw, dtype, grid, tensor, values};
use squall_model::Backend;

const FILE: &str = "elementwise.cu";
const LENGTHS: [usize; 5] = [1, 7, 64, 2049, 5003];

fn name(kernel: &str, storage: Storage) -> String {
    format!("{kernel}_{}", storage.suffix())
}

/// Values with zeros of both signs and what is no number.
fn odd(seed: u64, count: usize) -> Vec<f32> {
    let mut values = draw(seed, count);
    let special = [0.0, -0.0, f32::INFINITY, f32::NAN, f32::NEG_INFINITY];
    for (at, value) in values.iter_mut().enumerate() {
        if at % 3 == 2 {
            *value = special[at / 3 % special.len()];
        }
    }
    values
}

/// The same bits, but for what kind of NaN.
fn assert_same(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(same, "{what} at {at}: {got} instead of {want}");
    }
}

#[test]
fn one_operand() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for n in LENGTHS {
            let x = odd(1, n);
            let host = tensor(&x, &[n], storage);
            let on_gpu = gpu.upload(&x, storage);
            let run = |kernel: &str, more: &[Arg<'_>]| {
                let y = gpu.room(n, storage);
                let all = [args![&y, &on_gpu], more, args![n as i64]].concat();
                gpu.run(FILE, &name(kernel, storage), grid::flat(n), &all);
                gpu.download(&y, storage)
            };
            let cpu = Backend::Reference;
            let want = values(&cpu.relu(&host).unwrap());
            assert_same("relu", &run("relu", args![]), &want);
            let want = values(&cpu.leaky_relu(&host, 0.125).unwrap());
            assert_same("leaky relu", &run("leaky_relu", args![0.125f32]), &want);
            let want = values(&cpu.scale(&host, -1.75).unwrap());
            assert_same("scale", &run("scale", args![-1.75f32]), &want);
            for (rate, key) in [(0.0f32, 3u64), (0.3, 0x1234_5678_9abc_def0)] {
                let threshold = (f64::from(rate) * 2f64.powi(64)) as u64;
                let want = values(&cpu.dropout(&host, rate, key).unwrap());
                let keep = 1.0 / (1.0 - rate);
                let got = run("dropout", args![key, Arg::NONE, threshold, keep]);
                assert_same("dropout", &got, &want);
                // Of two parts of a key, one is read on the GPU.
                let (part, rest) = (key / 3, gpu.upload_bytes(&(key - key / 3).to_le_bytes()));
                let got = run("dropout", args![part, &rest, threshold, keep]);
                assert_same("dropout", &got, &want);
            }
        }
    }
}

#[test]
fn one_operand_in_place_and_not_aligned() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        let n = 1001;
        let x = draw(2, n);
        let memory = gpu.upload(&x, storage);
        let width = memory_width(&gpu, storage);
        // All but the first value, and the last stays as it is: the kernel must take single values.
        let place = memory.at(width);
        let all = args![place, place, (n - 2) as i64];
        gpu.run(FILE, &name("relu", storage), grid::flat(n), all);
        let got = gpu.download(&memory, storage);
        let host = values(&tensor(&x, &[n], storage));
        let want = |at: usize| match at {
            0 => host[0],
            at if at == n - 1 => host[at],
            at => host[at].max(0.0),
        };
        let want: Vec<f32> = (0..n).map(want).collect();
        assert_eq!(got, want, "{storage:?}");
    }
}

fn memory_width(gpu: &Gpu, storage: Storage) -> usize {
    gpu.download_bytes(&gpu.upload(&[1.0], storage)).len()
}

#[test]
fn two_operands() {
    let Some(gpu) = Gpu::open() else { return };
    let cpu = Backend::Reference;
    for storage in Storage::ALL {
        for n in LENGTHS {
            let (a, b) = (odd(3, n), odd(4, n));
            let hosts = (tensor(&a, &[n], storage), tensor(&b, &[n], storage));
            let on_gpu = (gpu.upload(&a, storage), gpu.upload(&b, storage));
            let run = |kernel: &str, more: &[Arg<'_>]| {
                let y = gpu.room(n, storage);
                let all = [args![&y, &on_gpu.0, &on_gpu.1], more, args![n as i64]].concat();
                gpu.run(FILE, &name(kernel, storage), grid::flat(n), &all);
                gpu.download(&y, storage)
            };
            let want = values(&cpu.relu_backward(&hosts.0, &hosts.1).unwrap());
            assert_same("relu backward", &run("relu_backward", args![]), &want);
            let want = cpu.leaky_relu_backward(&hosts.0, &hosts.1, 0.3).unwrap();
            let got = run("leaky_relu_backward", args![0.3f32]);
            assert_same("leaky relu backward", &got, &values(&want));
            let want = values(&cpu.add(&hosts.0, &hosts.1).unwrap());
            assert_same("add", &run("add", args![]), &want);

            let bits = gpu.upload_bytes(&vec![0xaa; n.div_ceil(8)]);
            let all = args![&bits, &on_gpu.1, n as i64];
            gpu.run(FILE, &name("positive", storage), grid::flat(n), all);
            let want = cpu.positive(&hosts.1).unwrap();
            assert_eq!(
                gpu.download_bytes(&bits),
                &*want.host().unwrap(),
                "{storage:?} {n}"
            );
            let dx = gpu.room(n, storage);
            let all = args![&dx, &on_gpu.0, &bits, n as i64];
            gpu.run(FILE, &name("masked", storage), grid::flat(n), all);
            let want = values(&cpu.masked(&hosts.0, &want).unwrap());
            assert_same("masked", &gpu.download(&dx, storage), &want);
        }
    }
}

#[test]
fn casts_round_as_the_host_does() {
    let Some(gpu) = Gpu::open() else { return };
    // Halves of the last place of bf16 and f16, the ends of their ranges, and numbers below the normal ones.
    let mut all = odd(5, 4000);
    all.extend([
        1.0 + 2f32.powi(-8),
        1.0 + 3.0 * 2f32.powi(-8),
        1.0 + 2f32.powi(-11),
        1.0 + 3.0 * 2f32.powi(-11),
        65504.0,
        65519.9,
        65520.0,
        -65536.0,
        1e30,
        6.1e-5,
        5.9e-5,
        2.9e-8,
        3.0e-8,
        -8.9e-8,
        1e-40,
    ]);
    for from in Storage::ALL {
        let host = tensor(&all, &[all.len()], from);
        for to in Storage::ALL.into_iter().filter(|&to| to != from) {
            let (x, y) = (gpu.upload(&all, from), gpu.room(all.len(), to));
            let kernel = format!("cast_{}_{}", from.suffix(), to.suffix());
            let n = all.len();
            gpu.run(FILE, &kernel, grid::flat(n), args![&y, &x, n as i64]);
            let want = Backend::Reference.convert(&host, dtype(to)).unwrap();
            assert_same(&kernel, &gpu.download(&y, to), &values(&want));
        }
    }
}

#[test]
fn fills() {
    let Some(gpu) = Gpu::open() else { return };
    for n in LENGTHS {
        for storage in Storage::ALL {
            let y = gpu.room(n, storage);
            let all = args![&y, 0.3f32, n as i64];
            gpu.run(FILE, &name("fill", storage), grid::flat(n), all);
            let want = values(&tensor(&vec![0.3; n], &[n], storage));
            assert_eq!(gpu.download(&y, storage), want);
        }
    }
}

#[test]
fn input_is_normalised_and_missing_values_are_counted() {
    let Some(gpu) = Gpu::open() else { return };
    for (channels, stored) in [3, 16]
        .into_iter()
        .flat_map(|channels| [Storage::F32, Storage::F16].map(|stored| (channels, stored)))
    {
        let pixels = 333;
        let mut x = values(&tensor(
            &draw(9, pixels * channels),
            &[pixels * channels],
            stored,
        ));
        let (subtract, factor, fill) = (draw(10, channels), draw(11, channels), draw(12, channels));
        let absent = [0, 5, pixels * channels - 1];
        absent.iter().for_each(|&at| x[at] = f32::NAN);
        let value = |(at, &x): (usize, &f32)| {
            let c = at % channels;
            let value = (x - subtract[c]) * factor[c];
            if value.is_nan() { fill[c] } else { value }
        };
        let want: Vec<f32> = x.iter().enumerate().map(value).collect();
        let tables = [&subtract, &factor, &fill].map(|t| gpu.f32s(t));
        let from = gpu.upload(&x, stored);
        for storage in Storage::ALL {
            let (y, missing) = (gpu.room(x.len(), storage), gpu.upload_bytes(&[0; 8]));
            let kernel = name(&format!("normalise_{}", stored.suffix()), storage);
            let run = |missing: Arg<'_>| {
                let all = args![
                    &y,
                    missing,
                    &from,
                    &tables[0],
                    &tables[1],
                    &tables[2],
                    pixels as i64,
                    channels as i32
                ];
                gpu.run(FILE, &kernel, grid::pixels(x.len()), all);
            };
            run(Arg::from(&missing));
            let want = values(&tensor(&want, &[want.len()], storage));
            // The CPU's bits.
            assert_eq!(gpu.download(&y, storage), want, "{kernel}");
            assert_eq!(gpu.download_bytes(&missing), 3u64.to_le_bytes());
            // Nobody need count.
            run(Arg::NONE);
        }
    }
}
