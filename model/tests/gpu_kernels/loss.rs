use crate::stand_in_gpu::{Gpu, Storage};
use crate::{args, distance, draw, grid, tensor, values};
use squall_model::Backend;
use squall_model::ops::loss::{Criterion, Focal, IGNORED, NO_CLASS, Normalisation};

const FILE: &str = "loss.cu";
const CPU: Backend = Backend::Reference;

/// Logits from undecided to certain, and labels of which some do not count.
fn pixels(count: usize, classes: usize) -> (Vec<f32>, Vec<u8>) {
    let mut logits = draw(1, count * classes);
    for (at, value) in logits.iter_mut().enumerate() {
        *value *= [1.0, 5.0, 40.0][at / classes % 3];
    }
    let label = |at: usize| match at % 7 {
        6 => IGNORED,
        _ => (at * 5 % classes) as u8,
    };
    (logits, (0..count).map(label).collect())
}

#[test]
fn losses_and_their_gradient() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for (count, classes) in [(1, 2), (1000, 3), (2500, 5)] {
            let (logits, labels) = pixels(count, classes);
            let shape = [1, 1, count, classes];
            let host = tensor(&logits, &shape, storage);
            let class_weights: Vec<f32> = draw(2, classes).iter().map(|w| w.abs() + 0.1).collect();
            for focal in [
                None,
                Some(Focal {
                    alpha: 0.7,
                    gamma: 2.0,
                }),
                Some(Focal {
                    alpha: 1.0,
                    gamma: 0.5,
                }),
            ] {
                let criterion = Criterion {
                    class_weights: class_weights.clone(),
                    focal,
                    normalisation: Normalisation::Sum(0.25),
                };
                let want = CPU
                    .segmentation_loss(&host, &labels, &criterion, 8.0)
                    .unwrap();
                let blocks = grid::loss(count);
                let (partial, out) = (gpu.sums(blocks[0] as usize), gpu.sums(1));
                let gradient = gpu.room(count * classes, Storage::F32);
                let there = gpu.upload(&logits, storage);
                let (marks, weights) = (gpu.upload_bytes(&labels), gpu.f32s(&class_weights));
                let (alpha, gamma) = focal.map_or((1.0f32, 0.0f32), |f| (f.alpha, f.gamma));
                let all = args![
                    &partial,
                    &gradient,
                    &there,
                    &marks,
                    &weights,
                    alpha,
                    gamma,
                    8.0f32 * 0.25,
                    count as i64,
                    classes as i32
                ];
                let kernel = format!("segmentation_loss_{}", storage.suffix());
                gpu.run(FILE, &kernel, blocks, all);
                gpu.run(
                    FILE,
                    "sum_partials",
                    [1; 3],
                    args![&out, &partial, blocks[0] as i32],
                );
                let sum = gpu.download_f64(&out)[0];
                let apart = (sum - want.weighted_sum).abs() / want.weighted_sum.abs();
                assert!(apart < 1e-6, "{storage:?} {classes} {focal:?}: {apart}");
                let apart = distance(
                    &gpu.download(&gradient, Storage::F32),
                    &values(&want.gradient),
                );
                assert!(apart < 1e-6, "{storage:?} {classes} {focal:?}: {apart}");
            }
        }
    }
}

#[test]
fn the_small_loss_of_a_certain_pixel_is_kept() {
    let Some(gpu) = Gpu::open() else { return };
    // Each pixel is nearly certain of its class: −ln p is 2 e^-z, below the rounding of p and of its sum.
    for z in [12.0f32, 20.0, 60.0] {
        let logits = [z, 0.0, 0.0, 0.0, z, 0.0];
        let (there, weights) = (gpu.f32s(&logits), gpu.f32s(&[1.0; 3]));
        let (partial, gradient) = (gpu.sums(1), gpu.room(6, Storage::F32));
        let marks = gpu.upload_bytes(&[0, 1]);
        let all = args![
            &partial, &gradient, &there, &marks, &weights, 1.0f32, 0.0f32, 1.0f32, 2i64, 3
        ];
        gpu.run(FILE, "segmentation_loss_f32", [1; 3], all);
        let (got, rest) = (gpu.download_f64(&partial)[0], 2.0 * f64::from(-z).exp());
        let want = 2.0 * rest.ln_1p();
        assert!(
            (got / want - 1.0).abs() < 1e-5,
            "{z}: {got} instead of {want}"
        );
        let own = f64::from(gpu.download(&gradient, Storage::F32)[0]);
        let want = -rest / (1.0 + rest);
        assert!(
            (own / want - 1.0).abs() < 1e-5,
            "{z}: {own} instead of {want}"
        );
    }
}

#[test]
fn probabilities_and_the_best_class() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for (count, classes) in [(1, 1), (1000, 3), (300, 17)] {
            let (mut logits, _) = pixels(count, classes);
            // Equals: the first wins.
            logits.iter_mut().step_by(2).for_each(|z| *z = 0.5);
            let host = tensor(&logits, &[1, 1, count, classes], storage);
            let there = gpu.upload(&logits, storage);
            let shape = args![count as i64, classes as i32];
            let y = gpu.room(count * classes, Storage::F32);
            let kernel = format!("softmax_{}", storage.suffix());
            let all = [args![&y, &there], shape].concat();
            gpu.run(FILE, &kernel, grid::flat(count), &all);
            let want = values(&CPU.softmax(&host).unwrap());
            assert!(distance(&gpu.download(&y, Storage::F32), &want) < 1e-6);
            let best = gpu.upload_bytes(&vec![99; count]);
            let kernel = format!("argmax_{}", storage.suffix());
            let all = [args![&best, &there], shape].concat();
            gpu.run(FILE, &kernel, grid::flat(count), &all);
            assert_eq!(gpu.download_bytes(&best), CPU.argmax(&host).unwrap());
            // Of NaN nothing is the largest, wherever it stands.
            let at = count / 2 * classes + classes - 1;
            logits[at] = f32::NAN;
            let there = gpu.upload(&logits, storage);
            let all = [args![&best, &there], shape].concat();
            gpu.run(FILE, &kernel, grid::flat(count), &all);
            let broken = tensor(&logits, &[1, 1, count, classes], storage);
            let found = gpu.download_bytes(&best);
            assert_eq!(found, CPU.argmax(&broken).unwrap());
            let none = found.iter().filter(|&&class| class == NO_CLASS);
            assert_eq!((none.count(), found[count / 2]), (1, NO_CLASS));
        }
    }
}

#[test]
fn squares_of_what_is_off_and_their_gradient() {
    let Some(gpu) = Gpu::open() else { return };
    for storage in Storage::ALL {
        for (pixels, wide, channels) in [(1, 1, 1), (700, 5, 3), (900, 16, 16)] {
            let (made, fields) = (draw(1, pixels * wide), draw(2, pixels * channels));
            let there = (gpu.upload(&made, storage), gpu.upload(&fields, storage));
            let blocks = grid::loss(pixels * wide);
            let (partial, out) = (gpu.sums(blocks[0] as usize), gpu.sums(1));
            let gradient = gpu.room(pixels * wide, Storage::F32);
            let all = args![
                &partial,
                &gradient,
                &there.0,
                &there.1,
                0.25f32,
                pixels as i64,
                wide as i32,
                channels as i32
            ];
            let kernel = format!("squared_error_{}", storage.suffix());
            gpu.run(FILE, &kernel, blocks, all);
            let all = args![&out, &partial, blocks[0] as i32];
            gpu.run(FILE, "sum_partials", [1, 1, 1], all);
            let rounded = |v: &[f32]| values(&tensor(v, &[v.len()], storage));
            let (made, fields) = (rounded(&made), rounded(&fields));
            let off: Vec<f32> = (made.iter().enumerate())
                .map(|(at, made)| match at % wide < channels {
                    true => made - fields[at / wide * channels + at % wide],
                    false => 0.0,
                })
                .collect();
            let slopes: Vec<f32> = off.iter().map(|off| 0.25 * off).collect();
            assert_eq!(gpu.download(&gradient, Storage::F32), slopes);
            let want: f64 = off.iter().map(|&off| f64::from(off).powi(2)).sum();
            let got = gpu.download_f64(&out)[0];
            assert!((got - want).abs() <= 1e-12 * want, "{got} {want}");
        }
    }
}
