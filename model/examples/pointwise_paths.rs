//! CPU time of 1x1 convolutions with weights packed before, beside oneDNN's in alternation, at the geometries of DeepCAM and of
//! ResNet: `OMP_WAIT_POLICY=passive cargo run --release -p squall-model --example pointwise_paths`.
#![allow(clippy::print_stdout)]

#[cfg(feature = "onednn")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use candle_core::{Device, Tensor};
    use squall_model::ops::conv::leave_to_onednn;
    use squall_model::ops::{ConvSpec, Fuse, Weights};
    use squall_model::{Backend, memory};

    memory::keep_large_buffers();
    let backend = Backend::best();
    println!(
        "{:<28} {:>16} {:>16} {:>16}",
        "GF/s a core", "own, packed", "own", "oneDNN"
    );
    for (h, w, inputs, outputs, stride) in [
        (12, 18, 728, 728, 1),
        (12, 18, 1536, 2048, 1),
        (24, 36, 728, 728, 1),
        (48, 72, 256, 256, 1),
        (96, 144, 128, 128, 1),
        (48, 72, 64, 256, 1),
        (24, 36, 256, 1024, 1),
        (24, 36, 1024, 256, 1),
        (24, 36, 512, 2048, 1),
        (24, 36, 2048, 512, 1),
        (192, 288, 256, 8, 1),
        (96, 144, 64, 128, 2),
        (24, 36, 256, 728, 2),
    ] {
        let spec = ConvSpec::same(1).stride(stride);
        let x = Tensor::randn(0f32, 1f32, (1, h, w, inputs), &Device::Cpu)?;
        let k = Tensor::randn(0f32, 1f32, (outputs, inputs, 1, 1), &Device::Cpu)?;
        let packed = Weights::of(&k);
        let y = backend.conv2d(&x, &k, None, &spec, Fuse::None)?;
        let flops = 2.0 * (y.elem_count() * inputs) as f64;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..15 {
            for (way, times) in times.iter_mut().enumerate() {
                leave_to_onednn(way == 2);
                let start = cpu_seconds();
                if way == 0 {
                    backend.conv2d_with(&x, &packed, &spec, Fuse::None)?;
                } else {
                    backend.conv2d(&x, &k, None, &spec, Fuse::None)?;
                }
                times.push(cpu_seconds() - start);
            }
        }
        leave_to_onednn(false);
        let rate = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            format!(
                "{:.0} (best {:.0})",
                flops / times[7] * 1e-9,
                flops / times[0] * 1e-9
            )
        };
        let [packed, own, onednn] = times.each_mut().map(rate);
        let shape = format!("{h} x {w}, {inputs} -> {outputs}, s{stride}");
        println!("{shape:<28} {packed:>16} {own:>16} {onednn:>16}");
    }
    Ok(())
}

/// Seconds that all threads of this process have run for.
#[cfg(feature = "onednn")]
fn cpu_seconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    let nanoseconds = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() * 1e-9
}

#[cfg(not(feature = "onednn"))]
fn main() {
    println!("built without oneDNN");
}
