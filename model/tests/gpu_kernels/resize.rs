use crate::stand_in_gpu::{Gpu, Storage};
use crate::{args, assert_close, draw, grid, tensor, values};
use squall_model::Backend;

const FILE: &str = "resize.cu";
const CPU: Backend = Backend::Reference;
/// Input shape and output extents: up, down, the same, from one pixel, to one pixel, odd ratios.
const CASES: [([usize; 4], (usize, usize)); 8] = [
    ([2, 5, 7, 8], (20, 28)),
    ([1, 6, 9, 3], (13, 17)),
    ([2, 12, 18, 24], (4, 6)),
    ([1, 5, 5, 1], (5, 5)),
    ([2, 1, 1, 16], (7, 9)),
    ([1, 8, 12, 4], (1, 1)),
    ([1, 2, 2, 5], (3, 11)),
    ([1, 48, 72, 8], (96, 143)),
];

#[test]
fn bilinear_both_ways() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for (shape, to) in CASES {
            for periodic in [false, true] {
                both_ways(&gpu, storage, shape, to, periodic);
            }
        }
    }
}

fn both_ways(
    gpu: &Gpu,
    storage: Storage,
    shape @ [b, h, w, c]: [usize; 4],
    (p, q): (usize, usize),
    periodic: bool,
) {
    let run = |kernel: &str| format!("{kernel}_{}", storage.suffix());
    let what = format!("resize {shape:?} to ({p}, {q}) {periodic}");
    let (n, m) = (shape.iter().product(), b * p * q * c);
    let (x, dy) = (draw(1, n), draw(2, m));
    let hosts = (
        tensor(&x, &shape, storage),
        tensor(&dy, &[b, p, q, c], storage),
    );
    let want = values(&CPU.resize_bilinear(&hosts.0, (p, q), periodic).unwrap());
    let from = gpu.upload(&x, storage);
    let extents = [b, h, w, c, p, q].map(|v| v as i32);
    let [b_, h_, w_, c_, p_, q_] = extents;
    // All rows, and the middle ones alone.
    for (first, rows) in [(0, p), (p / 3, p - p / 2)] {
        let y = gpu.room(b * rows * q * c, storage);
        let all = args![
            &y,
            &from,
            b_,
            h_,
            w_,
            c_,
            p_,
            q_,
            first as i32,
            rows as i32,
            periodic
        ];
        gpu.run(FILE, &run("resize"), grid::flat(b * rows * q * c), all);
        let line = q * c;
        let part: Vec<f32> = (0..b)
            .flat_map(|sample| &want[(sample * p + first) * line..][..rows * line])
            .copied()
            .collect();
        let got = gpu.download(&y, storage);
        match storage {
            // The weights have the same bits.
            Storage::F32 => assert_eq!(got, part, "{what}"),
            _ => assert_close(&what, storage, &got, &part),
        }
    }

    let want = CPU
        .resize_bilinear_backward(&hosts.1, shape, periodic)
        .unwrap();
    let (from, t) = (
        gpu.upload(&dy, storage),
        gpu.room(b * p * w * c, Storage::F32),
    );
    let dx = gpu.room(n, storage);
    let all = args![&t, &from, (b * p) as i64, w_, q_, c_, periodic];
    let size = b * p * w * c;
    gpu.run(FILE, &run("resize_columns_backward"), grid::flat(size), all);
    let all = args![&dx, &t, b_, h_, p_, (w * c) as i64];
    gpu.run(FILE, &run("resize_rows_backward"), grid::flat(n), all);
    assert_close(&what, storage, &gpu.download(&dx, storage), &values(&want));
}
