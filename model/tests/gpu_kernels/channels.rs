use crate::stand_in_gpu::{Arg, Gpu, Memory, Storage};
use crate::{args, assert_close, distance, draw, grid, tensor, values};
use squall_model::Backend;

const FILE: &str = "channels.cu";
const CPU: Backend = Backend::Reference;
/// One pixel, channels that are no multiple of a wide access, several tiles of channels, several chunks of pixels.
const SHAPES: [[usize; 4]; 7] = [
    [1, 1, 1, 1],
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

fn size(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Partial sums of `samples` samples, added up.
fn finished(gpu: &Gpu, partial: &Memory, pixels: usize, c: usize, samples: usize) -> Vec<f32> {
    let out = gpu.room(samples * c, Storage::F32);
    let chunks = grid::chunks(pixels, c, samples) as i32;
    let all = args![&out, partial, chunks, c as i32, 1.0f32, false];
    gpu.run(FILE, "sums_finish_f32", grid::ends(c, samples), all);
    gpu.download(&out, Storage::F32)
}

#[test]
fn channels_side_by_side_and_apart() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for counts in [vec![3, 8, 5], vec![8, 16, 24], vec![1], vec![2, 256]] {
            let (shape, pixels) = ([2, 3, 4], 24);
            let total: usize = counts.iter().sum();
            let parts: Vec<Vec<f32>> = (counts.iter().enumerate())
                .map(|(at, c)| draw(at as u64, pixels * c))
                .collect();
            let hosts: Vec<_> = (parts.iter().zip(&counts))
                .map(|(part, &c)| tensor(part, &[shape[0], shape[1], shape[2], c], storage))
                .collect();
            let whole = gpu.room(pixels * total, storage);
            let mut first = 0;
            for (part, &c) in parts.iter().zip(&counts) {
                let x = gpu.upload(part, storage);
                let all = args![
                    &whole,
                    total as i64,
                    first as i64,
                    &x,
                    c as i64,
                    0i64,
                    c as i64,
                    pixels as i64
                ];
                gpu.run(
                    FILE,
                    &name("copy_channels", storage),
                    grid::flat(pixels * c),
                    all,
                );
                first += c;
            }
            let joined = CPU.concat(&hosts).unwrap();
            assert_eq!(gpu.download(&whole, storage), values(&joined));
            let mut first = 0;
            for (want, &c) in CPU.split(&joined, &counts).unwrap().iter().zip(&counts) {
                let y = gpu.room(pixels * c, storage);
                let all = args![
                    &y,
                    c as i64,
                    0i64,
                    &whole,
                    total as i64,
                    first as i64,
                    c as i64,
                    pixels as i64
                ];
                gpu.run(
                    FILE,
                    &name("copy_channels", storage),
                    grid::flat(pixels * c),
                    all,
                );
                assert_eq!(gpu.download(&y, storage), values(want));
                first += c;
            }
        }
    }
}

/// Margins: top, bottom, left, right; whether latitude and longitude wrap.
struct Margins([usize; 4], bool, bool);

impl Margins {
    fn padded(&self, [b, h, w, c]: [usize; 4]) -> [usize; 4] {
        let [top, bottom, left, right] = self.0;
        [b, top + h + bottom, left + w + right, c]
    }

    fn args(&self, shape: [usize; 4]) -> Vec<Arg<'static>> {
        let mut all: Vec<i32> = shape.iter().map(|&v| v as i32).collect();
        all.extend(self.0.iter().map(|&v| v as i32));
        all.extend([i32::from(self.1), i32::from(self.2)]);
        all.into_iter().map(Arg::from).collect()
    }

    /// The place in x that place `at` of the padded field shows.
    fn source(at: usize, before: usize, extent: usize, wraps: bool) -> Option<usize> {
        let at = at as isize - before as isize;
        match wraps {
            true => Some(at.rem_euclid(extent as isize) as usize),
            false => usize::try_from(at).ok().filter(|&at| at < extent),
        }
    }

    /// Pairs of places in y and x.
    fn pairs(&self, [b, h, w, c]: [usize; 4]) -> Vec<(usize, usize)> {
        let [_, tall, wide, _] = self.padded([b, h, w, c]);
        let mut pairs = Vec::new();
        for y in 0..b * tall * wide * c {
            let (channel, column) = (y % c, y / c % wide);
            let (row, sample) = (y / c / wide % tall, y / c / wide / tall);
            let lat = Self::source(row, self.0[0], h, self.1);
            let lon = Self::source(column, self.0[2], w, self.2);
            if let (Some(lat), Some(lon)) = (lat, lon) {
                pairs.push((y, ((sample * h + lat) * w + lon) * c + channel));
            }
        }
        pairs
    }
}

#[test]
fn fields_are_continued_and_gradients_come_back() {
    let Some(gpu) = Gpu::open() else { return };
    let margins = [
        Margins([1, 1, 1, 1], true, true),
        Margins([0, 0, 2, 3], false, true),
        Margins([2, 1, 0, 4], false, false),
        // More than the field is wide.
        Margins([0, 0, 11, 9], false, true),
        Margins([7, 7, 7, 7], true, true),
    ];
    for storage in Storage::ALL {
        for shape in [[2, 3, 4, 8], [1, 5, 4, 3], [1, 1, 1, 1]] {
            for margins in &margins {
                let out = margins.padded(shape);
                let (x, dy) = (draw(1, size(&shape)), draw(2, size(&out)));
                let (x_host, dy_host) = (tensor(&x, &shape, storage), tensor(&dy, &out, storage));
                let pairs = margins.pairs(shape);
                let (mut y_want, mut dx_want) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
                let (x_values, dy_values) = (values(&x_host), values(&dy_host));
                for (y, x) in pairs {
                    y_want[y] = x_values[x];
                    dx_want[x] += dy_values[y];
                }
                let (from, y) = (gpu.upload(&x, storage), gpu.room(dy.len(), storage));
                let all = [args![&y, &from], &margins.args(shape)[..]].concat();
                gpu.run(FILE, &name("pad", storage), grid::flat(dy.len()), &all);
                assert_eq!(gpu.download(&y, storage), y_want);
                let (from, dx) = (gpu.upload(&dy, storage), gpu.room(x.len(), storage));
                let all = [args![&dx, &from], &margins.args(shape)[..]].concat();
                gpu.run(
                    FILE,
                    &name("pad_backward", storage),
                    grid::flat(x.len()),
                    &all,
                );
                let want = values(&tensor(&dx_want, &shape, storage));
                assert_close("pad backward", storage, &gpu.download(&dx, storage), &want);
            }
        }
    }
    // The operation that continues all four sides.
    let shape = [2, 3, 4, 8];
    let x = draw(3, size(&shape));
    let host = tensor(&x, &shape, Storage::F32);
    let margins = Margins([2; 4], true, true);
    let want = CPU.wrap(&host, 2).unwrap();
    let (from, y) = (gpu.f32s(&x), gpu.room(want.elem_count(), Storage::F32));
    let all = [args![&y, &from], &margins.args(shape)[..]].concat();
    gpu.run(FILE, "pad_f32", grid::flat(want.elem_count()), &all);
    assert_eq!(gpu.download(&y, Storage::F32), values(&want));
}

#[test]
fn prelu_both_ways() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for shape @ [b, h, w, c] in SHAPES {
            let (pixels, n) = (b * h * w, size(&shape));
            let (mut x, dy, slope) = (draw(1, n), draw(2, n), draw(3, c));
            x[0] = 0.0;
            let (x_host, dy_host) = (tensor(&x, &shape, storage), tensor(&dy, &shape, storage));
            let slopes = gpu.f32s(&slope);
            let (from, y) = (gpu.upload(&x, storage), gpu.room(n, storage));
            let all = args![&y, &from, &slopes, pixels as i64, c as i32];
            gpu.run(FILE, &name("prelu", storage), grid::pixels(n), all);
            let want = values(&CPU.prelu(&x_host, &slope).unwrap());
            assert_close("prelu", storage, &gpu.download(&y, storage), &want);

            let dx = gpu.upload(&dy, storage);
            let partial = gpu.sums(grid::chunks(pixels, c, 1) * c);
            let all = args![&dx, &partial, &dx, &from, &slopes, pixels as i64, c as i32];
            gpu.run(
                FILE,
                &name("prelu_backward", storage),
                grid::sums(pixels, c, 1),
                all,
            );
            let mut sums = vec![0.0; c];
            let want = CPU
                .prelu_backward(&dy_host, &x_host, &slope, &mut sums)
                .unwrap();
            assert_close(
                "prelu dx",
                storage,
                &gpu.download(&dx, storage),
                &values(&want),
            );
            let got = finished(&gpu, &partial, pixels, c, 1);
            assert!(
                distance(&got, &sums) < 1e-6,
                "prelu sums {storage:?} {shape:?}"
            );
        }
    }
}

#[test]
fn gate_both_ways() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for shape @ [b, h, w, c] in SHAPES {
            let (pixels, n) = (h * w, size(&shape));
            let (x, dy, z) = (draw(1, n), draw(2, n), draw(3, b * c));
            let hosts = (
                tensor(&x, &shape, storage),
                tensor(&dy, &shape, storage),
                tensor(&z, &[b, 1, 1, c], storage),
            );
            let there = [&x, &dy, &z].map(|v| gpu.upload(v, storage));
            let gate = |x: &Memory| {
                let y = gpu.room(n, storage);
                let all = args![&y, x, &there[2], b as i32, pixels as i64, c as i32];
                gpu.run(FILE, &name("gate", storage), grid::flat(n), all);
                gpu.download(&y, storage)
            };
            let want = values(&CPU.gate(&hosts.0, &hosts.2).unwrap());
            assert_close("gate", storage, &gate(&there[0]), &want);
            let (dx, dz) = CPU.gate_backward(&hosts.1, &hosts.0, &hosts.2).unwrap();
            assert_close("gate dx", storage, &gate(&there[1]), &values(&dx));

            let chunks = grid::chunks(pixels, c, b);
            let (partial, out) = (gpu.sums(b * chunks * c), gpu.room(b * c, storage));
            let all = args![&partial, &there[1], &there[0], pixels as i64, c as i32];
            gpu.run(
                FILE,
                &name("gate_sums", storage),
                grid::sums(pixels, c, b),
                all,
            );
            let all = args![&out, &partial, &there[2], chunks as i32, c as i32];
            gpu.run(FILE, &name("gate_finish", storage), grid::ends(c, b), all);
            assert_close(
                "gate dz",
                storage,
                &gpu.download(&out, storage),
                &values(&dz),
            );
        }
    }
}

#[test]
fn means_of_samples_and_their_gradient() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for shape @ [b, h, w, c] in SHAPES {
            let (pixels, n) = (h * w, size(&shape));
            let (x, dy) = (draw(1, n), draw(2, b * c));
            let hosts = (
                tensor(&x, &shape, storage),
                tensor(&dy, &[b, 1, 1, c], storage),
            );
            let (chunks, share) = (grid::chunks(pixels, c, b), 1.0 / pixels as f32);
            let (from, partial) = (gpu.upload(&x, storage), gpu.sums(b * chunks * c));
            let all = args![&partial, &from, pixels as i64, c as i32];
            gpu.run(
                FILE,
                &name("channel_sums", storage),
                grid::sums(pixels, c, b),
                all,
            );
            let out = gpu.room(b * c, storage);
            let all = args![&out, &partial, chunks as i32, c as i32, share, false];
            gpu.run(FILE, &name("sums_finish", storage), grid::ends(c, b), all);
            let want = values(&CPU.global_average_pool(&hosts.0).unwrap());
            assert_close("mean", storage, &gpu.download(&out, storage), &want);

            let (from, dx) = (gpu.upload(&dy, storage), gpu.room(n, storage));
            let all = args![&dx, &from, b as i32, pixels as i64, c as i32, share];
            gpu.run(FILE, &name("spread", storage), grid::flat(n), all);
            let want = CPU.global_average_pool_backward(&hosts.1, shape).unwrap();
            assert_close(
                "spread",
                storage,
                &gpu.download(&dx, storage),
                &values(&want),
            );
        }
    }
}

#[test]
fn sums_are_added_to_what_is_there() {
    let Some(gpu) = Gpu::open() else { return };
    let (pixels, c) = (2000, 5);
    let x = draw(1, pixels * c);
    let (from, chunks) = (gpu.f32s(&x), grid::chunks(pixels, c, 1));
    let partial = gpu.sums(chunks * c);
    let all = args![&partial, &from, pixels as i64, c as i32];
    gpu.run(FILE, "channel_sums_f32", grid::sums(pixels, c, 1), all);
    let mut want = vec![0.0f64; c];
    for (at, &x) in x.iter().enumerate() {
        want[at % c] += f64::from(x);
    }
    let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
    let before = draw(2, c);
    let sums = gpu.f32s(&before);
    let all = args![&sums, &partial, chunks as i32, c as i32, 1.0f32, true];
    gpu.run(FILE, "sums_finish_f32", grid::ends(c, 1), all);
    let whole: Vec<f64> = (want.iter().zip(&before))
        .map(|(w, &b)| w + f64::from(b))
        .collect();
    let got = gpu.download(&sums, Storage::F32);
    assert!(distance(&got, &narrow(&whole)) < 1e-6);
}
