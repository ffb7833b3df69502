//! Milliseconds of CPU time, which other programs on the machine do not change, of layers of DeepLabV3+ and Tiramisu in
//! all three directions.
//!
//! `cargo run --release -p squall-model --example conv_paths`; with ` -- onednn` after it, of oneDNN alone; with
//! ` -- 5x5`, of kernels of that size alone; with ` -- bf16`, of activations stored so.
#![allow(clippy::print_stdout)]

use candle_core::{DType, Device, Tensor};
use squall_model::ops::{ConvSpec, Fuse};
use squall_model::{Backend, memory};

/// Seconds that all threads of this process have run for.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    memory::keep_large_buffers();
    if std::env::args().any(|word| word == "onednn") {
        squall_model::ops::conv::leave_to_onednn(true);
    }
    let size = std::env::args().find(|word| word.contains('x') && word.len() == 3);
    let dtype = match std::env::args().any(|word| word == "bf16") {
        true => DType::BF16,
        false => DType::F32,
    };
    let backend = Backend::best();
    println!("{}", backend.describe());
    for (h, w, inputs, outputs, kernel, stride, dilation) in [
        (192, 288, 64, 128, 3, 1, 1),
        (192, 288, 384, 256, 3, 1, 1),
        (48, 72, 304, 256, 3, 1, 1),
        (24, 36, 256, 256, 3, 1, 2),
        (24, 36, 512, 512, 3, 1, 4),
        (24, 36, 2048, 256, 3, 1, 12),
        (192, 288, 16, 64, 7, 2, 1),
        (192, 288, 256, 256, 3, 2, 1),
        (96, 144, 128, 128, 3, 2, 1),
        (192, 288, 256, 8, 1, 1, 1),
        (48, 72, 64, 256, 1, 1, 1),
        (24, 36, 256, 1024, 1, 1, 1),
        (24, 36, 1024, 256, 1, 1, 1),
        (24, 36, 512, 2048, 1, 1, 1),
        (24, 36, 2048, 512, 1, 1, 1),
        (192, 288, 16, 48, 5, 1, 1),
        (192, 288, 48, 32, 5, 1, 1),
        (192, 288, 208, 32, 5, 1, 1),
        (96, 144, 112, 32, 5, 1, 1),
        (96, 144, 272, 32, 5, 1, 1),
        (48, 72, 176, 32, 5, 1, 1),
        (48, 72, 400, 32, 5, 1, 1),
        (24, 36, 240, 32, 5, 1, 1),
        (24, 36, 624, 32, 5, 1, 1),
        (12, 18, 496, 32, 5, 1, 1),
        (48, 72, 256, 256, 5, 1, 1),
    ] {
        if size
            .as_ref()
            .is_some_and(|size| *size != format!("{kernel}x{kernel}"))
        {
            continue;
        }
        let spec = ConvSpec::same(kernel).dilation(dilation).stride(stride);
        let x = Tensor::randn(0f32, 1f32, (1, h, w, inputs), &Device::Cpu)?.to_dtype(dtype)?;
        let k = Tensor::randn(0f32, 1f32, (outputs, inputs, kernel, kernel), &Device::Cpu)?;
        let y = backend.conv2d(&x, &k, None, &spec, Fuse::None)?;
        let mut dw = vec![0.0; outputs * inputs * kernel * kernel];
        let flops = 2.0 * (y.elem_count() * inputs * kernel * kernel) as f64;
        let mut medians = Vec::new();
        for direction in 0..3 {
            let mut times: Vec<f64> = Vec::new();
            for _ in 0..7 {
                let start = cpu_seconds();
                match direction {
                    0 => drop(backend.conv2d(&x, &k, None, &spec, Fuse::None)?),
                    1 => drop(backend.conv2d_backward_data(&y, &k, [1, h, w, inputs], &spec)?),
                    _ => backend.conv2d_backward_weights(&x, &y, &spec, &mut dw, None)?,
                }
                times.push(cpu_seconds() - start);
            }
            times.sort_by(f64::total_cmp);
            medians.push(times[3]);
        }
        let shown: Vec<String> = medians
            .iter()
            .map(|t| format!("{:8.2} ms {:5.0} GF/s", t * 1e3, flops / t * 1e-9))
            .collect();
        println!(
            "{h:4}x{w:<4} {inputs:5}->{outputs:<5} {kernel}x{kernel} s{stride} d{dilation:<3} {}",
            shown.join("  ")
        );
    }
    Ok(())
}
