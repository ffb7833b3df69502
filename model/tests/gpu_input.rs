//! Fields that come to the GPU while it computes: the host's numbers, whenever the GPU happens to copy and to compute.
//!
//! The stand-in does the work of a stream at once or as late as it may. Late copies show what computes without waiting
//! for them; late computing shows copies that do not wait for it.
#![cfg(feature = "cuda")]

mod common;
mod gpu_alone;
mod stand_in_gpu;

use candle_core::{DType, Tensor};
use common::draw;
use gpu_alone::Device;
use half::{bf16, f16};
use squall_model::input::{Samples, Scaling, Stored, Uploader};
use squall_model::{Backend, ModelError};
use stand_in_gpu::{Deaf, run_late};
use std::collections::VecDeque;

const SHAPE: (usize, usize) = (6, 10);

/// Does `work` with streams that run late in every way.
fn in_every_order(device: &Device, work: impl Fn(&str)) {
    let Some(folder) = device.stand_in() else {
        return work("a GPU");
    };
    for which in ["none", "others", "first", "all"] {
        assert_eq!(run_late(folder, which, Deaf::Nothing), 0);
        work(which);
        assert_eq!(run_late(folder, "others", Deaf::Nothing), 0, "{which}");
    }
}

fn scalings(channels: usize) -> Vec<Scaling> {
    let scaling = |seed| Scaling {
        subtract: draw(seed, channels),
        factor: draw(seed + 1, channels),
        fill: draw(seed + 2, channels),
    };
    vec![scaling(50), scaling(60)]
}

/// Stored bytes of samples, and their values; some are missing.
fn fields(seed: u64, count: usize, stored: Stored) -> (Vec<u8>, Vec<f32>) {
    let mut values = draw(seed, count);
    values.iter_mut().step_by(37).for_each(|v| *v = f32::NAN);
    match stored {
        Stored::F32 => {
            let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
            (bytes, values)
        }
        Stored::F16 => {
            let halves: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
            let bytes = halves.iter().flat_map(|v| v.to_ne_bytes()).collect();
            (bytes, halves.iter().map(|v| v.to_f32()).collect())
        }
    }
}

/// What the host makes of them, sample by sample.
fn expected(values: &[f32], which: &[usize], scalings: &[Scaling], dtype: DType) -> Vec<f32> {
    let channels = scalings[0].fill.len();
    let sample = values.len() / which.len();
    let value = |(at, &x): (usize, &f32)| {
        let (scaling, c) = (&scalings[which[at / sample]], at % channels);
        let value = (x - scaling.subtract[c]) * scaling.factor[c];
        let value = if value.is_nan() {
            scaling.fill[c]
        } else {
            value
        };
        match dtype {
            DType::BF16 => bf16::from_f32(value).to_f32(),
            DType::F16 => f16::from_f32(value).to_f32(),
            _ => value,
        }
    };
    values.iter().enumerate().map(value).collect()
}

fn host(backend: Backend, x: &Tensor) -> Vec<f32> {
    let x = backend.to_host(x).unwrap();
    let x = x.to_dtype(DType::F32).unwrap();
    x.flatten_all().unwrap().to_vec1().unwrap()
}

/// Seven batches of three samples, four of them ahead of the one that is used, which is more than there is page-locked
/// memory for; one sample is normalised in another way than the others. Gives how many batches are not the host's.
fn wrong_batches(gpu: Backend, stored: Stored, channels: usize, dtype: DType) -> usize {
    const WHICH: [usize; 3] = [0, 1, 0];
    let scalings = scalings(channels);
    let count = WHICH.len() * SHAPE.0 * SHAPE.1 * channels;
    let uploader = Uploader::of(gpu, stored, &scalings).unwrap().unwrap();
    let (mut queue, mut results) = (VecDeque::new(), Vec::new());
    for step in 0..11 {
        if step < 7 {
            let (mut bytes, values) = fields(step, count, stored);
            let arriving = uploader.send(&bytes).unwrap();
            // They may be changed from now on.
            bytes.fill(0x7f);
            queue.push_back((arriving, values));
        }
        if step >= 4 {
            let (arriving, values) = queue.pop_front().unwrap();
            let part = |(first, &scaling): (usize, &usize)| Samples {
                arriving: &arriving,
                first,
                count: 1,
                scaling,
            };
            let parts: Vec<_> = WHICH.iter().enumerate().map(part).collect();
            let x = uploader.normalised(&parts, SHAPE, dtype).unwrap();
            assert_eq!(x.dims(), [3, SHAPE.0, SHAPE.1, channels]);
            // Looked at in the end only, as looking waits.
            results.push((x, expected(&values, &WHICH, &scalings, dtype)));
        }
    }
    assert_eq!(results.len(), 7);
    let wrong = |(x, want): &&(Tensor, Vec<f32>)| host(gpu, x) != *want;
    results.iter().filter(wrong).count()
}

#[test]
fn fields_arrive_with_the_bits_of_the_host_in_every_order_of_work() {
    let Some(device) = Device::open() else { return };
    for (channels, stored) in [(3, Stored::F32), (16, Stored::F16), (16, Stored::F32)] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            in_every_order(&device, |order| {
                let wrong = wrong_batches(device.backend, stored, channels, dtype);
                assert_eq!(wrong, 0, "{order}: {stored:?} to {dtype:?}");
            });
        }
    }
}

/// The test above would see it: whoever does not wait gets other numbers.
#[test]
fn without_waiting_the_numbers_are_wrong() {
    let Some(device) = Device::open() else { return };
    let Some(folder) = device.stand_in() else {
        return; // a GPU waits as it is told
    };
    for (which, deaf) in [
        // Computes before the copy is there.
        ("others", Deaf::Streams),
        // Copies over what is not read yet.
        ("first", Deaf::Streams),
        // Puts fields where the last ones are not fetched yet.
        ("others", Deaf::Host),
    ] {
        assert_eq!(run_late(folder, which, deaf), 0);
        let wrong = wrong_batches(device.backend, Stored::F32, 4, DType::F32);
        // What is left may well be an error by now.
        run_late(folder, "others", Deaf::Nothing);
        assert!(wrong > 0, "{which} late, {deaf:?} deaf");
    }
}

#[test]
fn what_is_not_used_leaves_nothing_behind() {
    let Some(device) = Device::open() else { return };
    let gpu = device.backend;
    in_every_order(&device, |order| {
        let scalings = scalings(4);
        let uploader = Uploader::of(gpu, Stored::F32, &scalings).unwrap().unwrap();
        let count = SHAPE.0 * SHAPE.1 * 4;
        for seed in 0..3 {
            // Given up while it is copied, then its memory is used again.
            drop(uploader.send(&fields(seed, count, Stored::F32).0).unwrap());
        }
        let (bytes, values) = fields(9, count, Stored::F32);
        let arriving = uploader.send(&bytes).unwrap();
        let part = Samples {
            arriving: &arriving,
            first: 0,
            count: 1,
            scaling: 0,
        };
        let x = uploader.normalised(&[part], SHAPE, DType::F32).unwrap();
        // And freed with copies under way.
        let _ = uploader.send(&bytes).unwrap();
        drop((arriving, uploader));
        let want = expected(&values, &[0], &scalings, DType::F32);
        assert_eq!(host(gpu, &x), want, "{order}");
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = Device::open() else { return };
    let gpu = device.backend;
    let uploader = Uploader::of(gpu, Stored::F32, &scalings(4))
        .unwrap()
        .unwrap();
    let arriving = uploader.send(&[0; 4 * 4 * 60]).unwrap();
    let ask = |count, scaling| {
        let part = Samples {
            arriving: &arriving,
            first: 0,
            count,
            scaling,
        };
        uploader.normalised(&[part], SHAPE, DType::F32).map(|_| ())
    };
    assert!(ask(1, 1).is_ok());
    for wrong in [ask(2, 0), ask(1, 2), ask(0, 0)] {
        assert!(matches!(wrong, Err(ModelError::Shape { .. })), "{wrong:?}");
    }
    let mut unequal = scalings(4);
    unequal[1].fill.pop();
    assert!(Uploader::of(gpu, Stored::F32, &unequal).is_err());
    // The host normalises where it computes.
    let cpu = Uploader::of(Backend::best_of_cpu(), Stored::F32, &scalings(4));
    assert!(cpu.unwrap().is_none());
}
