//! Depthwise convolutions as chosen, beside oneDNN's: `cargo run --release -p squall-model --example depthwise_paths`.
//!
//! Prints milliseconds (best of 5) of forward, backward-data and backward-weights of both, at the geometries of DeepCAM
//! and CGNet, at which `ops/depthwise.rs` chooses. Set `OMP_WAIT_POLICY=passive` on a busy machine, or oneDNN's threads
//! spin. The first of two numbers is what runs.
#![allow(clippy::print_stdout)]

use candle_core::{Device, Tensor};
use squall_model::Backend;
use squall_model::ops::{ConvSpec, Fuse};
use std::time::Instant;

/// Milliseconds of the best of 5 rounds.
fn best(
    mut work: impl FnMut() -> Result<(), squall_model::ModelError>,
) -> Result<f64, squall_model::ModelError> {
    work()?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

fn main() -> Result<(), squall_model::ModelError> {
    let kernel = ConvSpec::same(3);
    println!(
        "{:<44} {:>24} {:>24} {:>24}",
        "chosen / oneDNN, ms", "forward", "data", "weights"
    );
    for (name, shape, spec) in [
        ("DeepCAM entry 192 x 288 x 128", [1, 192, 288, 128], kernel),
        (
            "DeepCAM entry 192 x 288 x 128, stride 2",
            [1, 192, 288, 128],
            kernel.stride(2),
        ),
        ("DeepCAM middle 48 x 72 x 728", [1, 48, 72, 728], kernel),
        (
            "DeepCAM exit 48 x 72 x 1536, dilation 2",
            [1, 48, 72, 1536],
            kernel.dilation(2),
        ),
        (
            "CGNet 96 x 144 x 64, dilation 4, periodic",
            [1, 96, 144, 64],
            kernel.dilation(4).periodic(true),
        ),
    ] {
        let c = shape[3];
        let spec = ConvSpec { groups: c, ..spec };
        let backend = Backend::best();
        let x = Tensor::rand(-1f32, 1f32, &shape[..], &Device::Cpu)?;
        let w = Tensor::rand(-1f32, 1f32, (c, 1, 3, 3), &Device::Cpu)?;
        let y = backend.depthwise_conv2d(&x, &w, &spec)?;
        let dy = Tensor::rand(-1f32, 1f32, y.dims(), &Device::Cpu)?;
        let mut dw = vec![0.0; 9 * c];
        let own = [
            best(|| backend.depthwise_conv2d(&x, &w, &spec).map(drop))?,
            best(|| (backend.depthwise_conv2d_backward_data(&dy, &w, shape, &spec)).map(drop))?,
            best(|| backend.depthwise_conv2d_backward_weights(&x, &dy, &spec, &mut dw))?,
        ];
        let general = [
            best(|| backend.conv2d(&x, &w, None, &spec, Fuse::None).map(drop))?,
            best(|| (backend.conv2d_backward_data(&dy, &w, shape, &spec)).map(drop))?,
            best(|| backend.conv2d_backward_weights(&x, &dy, &spec, &mut dw, None))?,
        ];
        let columns = own
            .iter()
            .zip(general)
            .map(|(own, general)| format!("{:>24}", format!("{own:.2} / {general:.2}")));
        println!("{name:<44} {}", columns.collect::<Vec<_>>().join(" "));
    }
    Ok(())
}
