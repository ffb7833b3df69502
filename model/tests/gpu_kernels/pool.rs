use crate::stand_in_gpu::{Arg, Gpu, Storage};
use crate::{args, assert_close, draw, grid, tensor, values};
use squall_model::Backend;
use squall_model::ops::PoolSpec;

const FILE: &str = "pool.cu";
const CPU: Backend = Backend::Reference;

fn cases() -> Vec<([usize; 4], PoolSpec)> {
    let mut cases = Vec::new();
    for periodic in [false, true] {
        for (kernel, stride, padding) in [(3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2), (1, 2, 0)] {
            let spec = PoolSpec {
                kernel,
                stride,
                padding,
                periodic,
            };
            for shape in [[2, 9, 11, 3], [1, 8, 12, 8], [2, 5, 5, 24], [1, 6, 7, 1]] {
                cases.push((shape, spec));
            }
        }
    }
    cases
}

fn geometry([b, h, w, c]: [usize; 4], spec: &PoolSpec) -> Vec<Arg<'static>> {
    let (p, q) = spec.output_size((h, w));
    let extents = [b, h, w, c, p, q, spec.kernel, spec.stride, spec.padding];
    let mut all: Vec<Arg<'_>> = extents.iter().map(|&v| Arg::from(v as i32)).collect();
    all.push(spec.periodic.into());
    all
}

#[test]
fn largest_values_and_where_they_were() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        let run = |kernel: &str| format!("{kernel}_{}", storage.suffix());
        for (shape @ [b, h, w, c], spec) in cases() {
            let (p, q) = spec.output_size((h, w));
            let (n, m) = (shape.iter().product(), b * p * q * c);
            let mut x = draw(1, n);
            // Equal values, and some that are no numbers.
            x.iter_mut().step_by(3).for_each(|v| *v = 0.5);
            x.iter_mut().step_by(17).for_each(|v| *v = f32::NAN);
            let host = tensor(&x, &shape, storage);
            let (want, winners) = CPU.max_pool(&host, &spec).unwrap();
            let (from, y) = (gpu.upload(&x, storage), gpu.room(m, storage));
            let winner = gpu.upload_bytes(&vec![255; m]);
            let all = [args![&y, &winner, &from], &geometry(shape, &spec)[..]].concat();
            gpu.run(FILE, &run("max_pool"), grid::flat(m), &all);
            let (got, want) = (gpu.download(&y, storage), values(&want));
            let same = |(g, w): (&f32, &f32)| g == w || g.is_nan() && w.is_nan();
            assert!(
                got.iter().zip(&want).all(same),
                "{storage:?} {shape:?} {spec:?}"
            );
            assert_eq!(
                gpu.download_bytes(&winner),
                &*winners.host().unwrap(),
                "{shape:?} {spec:?}"
            );

            let dy = draw(2, m);
            let dy_host = tensor(&dy, &[b, p, q, c], storage);
            let want = CPU
                .max_pool_backward(&dy_host, &winners, shape, &spec)
                .unwrap();
            let (from, dx) = (gpu.upload(&dy, storage), gpu.room(n, storage));
            let all = [args![&dx, &from, &winner], &geometry(shape, &spec)[..]].concat();
            gpu.run(FILE, &run("max_pool_backward"), grid::flat(n), &all);
            let what = format!("max pool backward {shape:?} {spec:?}");
            assert_close(&what, storage, &gpu.download(&dx, storage), &values(&want));
        }
    }
}

#[test]
fn means_and_their_gradient() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        let run = |kernel: &str| format!("{kernel}_{}", storage.suffix());
        for (shape @ [b, h, w, c], spec) in cases() {
            let (p, q) = spec.output_size((h, w));
            let (n, m) = (shape.iter().product(), b * p * q * c);
            let (x, dy) = (draw(1, n), draw(2, m));
            let hosts = (
                tensor(&x, &shape, storage),
                tensor(&dy, &[b, p, q, c], storage),
            );
            let (from, y) = (gpu.upload(&x, storage), gpu.room(m, storage));
            let all = [args![&y, &from], &geometry(shape, &spec)[..]].concat();
            gpu.run(FILE, &run("avg_pool"), grid::flat(m), &all);
            let want = values(&CPU.avg_pool(&hosts.0, &spec).unwrap());
            let what = format!("avg pool {shape:?} {spec:?}");
            assert_close(&what, storage, &gpu.download(&y, storage), &want);

            let (from, dx) = (gpu.upload(&dy, storage), gpu.room(n, storage));
            let all = [args![&dx, &from], &geometry(shape, &spec)[..]].concat();
            gpu.run(FILE, &run("avg_pool_backward"), grid::flat(n), &all);
            let want = CPU.avg_pool_backward(&hosts.1, shape, &spec).unwrap();
            assert_close(&what, storage, &gpu.download(&dx, storage), &values(&want));
        }
    }
}
