//! What holds for a whole process on a GPU: kernels are compiled once and all together, and f32 is f32 unless TF32 is
//! allowed.
#![cfg(feature = "cuda")]
#![allow(clippy::print_stderr)] // says what it skips

mod common;
mod stand_in_gpu;

use candle_core::{DType, Tensor};
use common::{distance, field, learn, values};
use squall_model::gpu::{allow_tf32, tf32_is_allowed};
use squall_model::ops::{ConvSpec, Convolution, Fuse, cuda};
use squall_model::{Backend, Network, NetworkConfig, profile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

/// Tells a process of this test's where to keep what it finds.
const KEPT: &str = "SQUALL_TEST_KEPT";

/// One test at a time changes what holds for all.
static ALONE: Mutex<()> = Mutex::new(());

/// The GPU, and where its kernels are kept, which was empty when the process began.
fn gpu() -> Option<(Backend, PathBuf)> {
    if !cuda::finds("libcuda.so.1") {
        cuda::look_in(&[stand_in_gpu::folder()?]);
    }
    let name = format!("gpu-process-{}", std::process::id());
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let kept = std::env::var_os(KEPT).map_or(kept, PathBuf::from);
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        if std::env::var_os(KEPT).is_none() {
            // Of an earlier process of the same number.
            let _ = std::fs::remove_dir_all(&kept);
        }
        std::fs::create_dir_all(&kept).unwrap();
        cuda::cache_in(kept.clone());
    });
    let gpu = Backend::all().into_iter().find(|backend| backend.is_gpu());
    assert!(gpu.is_some(), "{}", cuda::describe());
    Some((gpu?, kept))
}

#[test]
fn the_first_kernel_brings_all_others() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, kept)) = gpu() else { return };
    gpu.relu(&field(1, [1, 4, 4, 4])).unwrap();
    let sources = std::fs::read_dir(stand_in_gpu::KERNELS).unwrap();
    let names = sources.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let sources = names.filter(|name| name.ends_with(".cu")).count();
    let compiled = std::fs::read_dir(kept).unwrap();
    let names = compiled.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let compiled = names.filter(|name| name.ends_with(".cubin")).count();
    assert_eq!(compiled, sources);
}

#[test]
fn f32_is_f32_unless_tf32_is_allowed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, _)) = gpu() else { return };
    assert!(!tf32_is_allowed());
    // Which engine is the fastest is measured, and one without TF32 may be: of a dozen shapes not of all.
    let (mut rounded, mut told) = (0, String::new());
    for channels in 12..24 {
        let (x, w) = (field(1, [1, 8, 10, 16]), field(2, [channels, 16, 3, 3]));
        let spec = ConvSpec::same(3);
        let of = |backend: Backend| {
            let y = backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
            values(&backend.to_host(&y).unwrap())
        };
        let judge = of(Backend::Reference);
        let plain = of(gpu);
        assert!(distance(&plain, &judge) < 1e-6);
        allow_tf32(true);
        let off = distance(&of(gpu), &judge);
        told = cuda::describe();
        allow_tf32(false);
        // Two operands, each off by up to 2^-12.
        assert!(off < 1e-3, "{off}");
        rounded += u32::from(off > 1e-5);
        assert!(of(gpu) == plain, "what was allowed before stays");
    }
    assert!(rounded > 0);
    assert!(told.contains("TF32") && !cuda::describe().contains("TF32"));
}

/// A training step and inference of a network wide enough for the CPU's own ways to pay there: fields go to the GPU, a
/// few numbers come back.
#[test]
fn nothing_of_a_network_leaves_the_gpu() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, _)) = gpu() else { return };
    let config = NetworkConfig {
        channels_in: 4,
        width: 0.25,
        decoder_width: Some(0.125),
        blocks: vec![1, 1],
        atrous_rates: vec![2],
        ..NetworkConfig::default()
    };
    let mut network = Network::build(&config, gpu, 1).unwrap();
    let labels: Vec<u8> = (0..32 * 48).map(|i| u8::from(i % 7 == 0)).collect();
    let x = field(1, [1, 32, 48, 4]);
    let before = stand_in_gpu::copied_back();
    profile::start();
    learn(&mut network, &x, &labels, 1);
    let logits = network.infer(&x, DType::BF16).unwrap();
    assert!(logits.device().is_cuda());
    let back = stand_in_gpu::copied_back().zip(before);
    let back = back.map_or(0, |(after, before)| after - before);
    // Losses, norms, statistics of channels. The thinnest field of a layer is ten times as large.
    assert!(back < 16_000, "{back} bytes came back");
    let entries = profile::finish();
    assert!(
        entries
            .iter()
            .any(|entry| entry.operation.starts_with("conv2d "))
    );
    for entry in &entries {
        let what = &entry.operation;
        assert!(
            !what.contains("Winograd") && !what.contains("Direct"),
            "{what}"
        );
    }
}

/// A process whose cuDNN has no deterministic algorithm: our own kernel computes, in all directions.
#[test]
fn what_cudnn_has_no_algorithm_for_is_computed_all_the_same() {
    const NONE: &str = "SQUALL_STAND_IN_ATOMIC";
    if std::env::var_os(NONE).is_none() {
        let program = std::env::current_exe().unwrap();
        let name = "what_cudnn_has_no_algorithm_for_is_computed_all_the_same";
        let mut command = std::process::Command::new(program);
        let output = command.args([name, "--exact"]).env(NONE, "1").output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{told}");
        return;
    }
    let Some((gpu, _)) = gpu() else { return };
    for groups in [1, 4] {
        let spec = ConvSpec {
            groups,
            periodic: true,
            ..ConvSpec::same(3).stride(2)
        };
        let (shape, out) = ([2, 8, 10, 16], [2, 4, 5, 12]);
        let (x, dy) = (field(1, shape), field(2, out));
        let w = field(3, [12, 16 / groups, 3, 3]);
        let bias = field(4, [1, 1, 1, 12]).flatten_all().unwrap();
        let all = |backend: Backend| {
            let y = backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
            let ended = |bias: Option<&Tensor>, fuse: Fuse<'_>| {
                let ended = backend.conv2d(&x, &w, bias, &spec, fuse).unwrap();
                values(&backend.to_host(&ended).unwrap())
            };
            let ended = [
                ended(Some(&bias), Fuse::None),
                ended(Some(&bias), Fuse::Relu),
                ended(Some(&bias), Fuse::AddRelu(&dy)),
                ended(None, Fuse::Add(&dy)),
            ];
            let dx = backend.conv2d_backward_data(&dy, &w, shape, &spec).unwrap();
            let mut dw = vec![0.0; w.elem_count()];
            backend
                .conv2d_backward_weights(&x, &dy, &spec, &mut dw, None)
                .unwrap();
            [y, dx]
                .map(|tensor| values(&backend.to_host(&tensor).unwrap()))
                .into_iter()
                .chain([dw])
                .chain(ended)
        };
        for (got, expected) in all(gpu).zip(all(Backend::Reference)) {
            assert!(distance(&got, &expected) < 1e-6, "{groups} groups");
        }
    }
}

/// A sample of a batch lies where the ones before it end, which may be nowhere that cuDNN's fast engines can read.
#[test]
fn a_field_may_begin_anywhere() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, _)) = gpu() else { return };
    let spec = ConvSpec::same(3);
    let (shape, out) = ([3, 5, 7, 3], [3, 5, 7, 5]);
    let w = field(3, [5, 3, 3, 3]);
    let bias = field(4, [1, 1, 1, 5]).flatten_all().unwrap();
    let sample = |of: &Tensor, at: usize| of.narrow(0, at, 1).unwrap();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let halved = |of: Tensor| of.to_dtype(dtype).unwrap();
        let (x, dy) = (halved(field(1, shape)), halved(field(2, out)));
        let there = [&x, &dy].map(|tensor| gpu.bring(tensor).unwrap());
        for at in 0..3 {
            let all = |backend: Backend, x: Tensor, dy: Tensor| {
                let y = backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
                let ended = backend.conv2d(&x, &w, Some(&bias), &spec, Fuse::AddRelu(&dy));
                let dx = backend.conv2d_backward_data(&dy, &w, [1, 5, 7, 3], &spec);
                let mut dw = vec![0.0; w.elem_count()];
                (backend.conv2d_backward_weights(&x, &dy, &spec, &mut dw, None)).unwrap();
                let host = |tensor: Tensor| {
                    let tensor = backend.to_host(&tensor).unwrap();
                    values(&tensor.to_dtype(DType::F32).unwrap())
                };
                [host(y), host(ended.unwrap()), host(dx.unwrap()), dw]
            };
            let ours = all(gpu, sample(&there[0], at), sample(&there[1], at));
            let alone = |of: &Tensor| sample(of, at).to_dtype(DType::F32).unwrap();
            let plain = all(Backend::Reference, alone(&x), alone(&dy));
            for (got, expected) in ours.iter().zip(&plain) {
                let bound = if dtype == DType::F32 { 1e-6 } else { 6e-3 };
                let apart = distance(got, expected);
                assert!(apart < bound, "{dtype:?}, sample {at}: {apart}");
            }
        }
    }
}

/// Gradients of kernels of half precisions are sums in f32, but where cuDNN gives them in the type of its operands;
/// which is told.
#[test]
fn gradients_of_kernels_are_as_exact_as_is_told() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, _)) = gpu() else { return };
    let spec = ConvSpec::same(3);
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for (c, o) in [(16, 24), (13, 7)] {
            let (shape, out) = ([2, 9, 11, c], [2, 9, 11, o]);
            let [x, dy] = [field(1, shape), field(2, out)].map(|t| t.to_dtype(dtype).unwrap());
            let conv = Convolution {
                spec,
                x: shape,
                y: out,
            };
            let told = || gpu.kernel_gradient_type(dtype, &conv).unwrap();
            assert_eq!(told(), None, "nothing is known yet");
            let sums = |backend: Backend| {
                let mut dw = vec![0.0; 9 * c * o];
                (backend.conv2d_backward_weights(&x, &dy, &spec, &mut dw, None)).unwrap();
                dw
            };
            let apart = distance(&sums(gpu), &sums(Backend::Reference));
            let exact = told() == Some(DType::F32);
            assert!(
                apart < if exact { 1e-6 } else { 6e-3 },
                "{dtype:?}: {apart}"
            );
            assert!(
                exact || apart > 1e-5,
                "{dtype:?}: {apart}, which is not rounded"
            );
            if cuda::describe().contains("stand-in") {
                assert_eq!(exact, dtype == DType::F32 || c == 16, "{dtype:?} {c}");
            }
        }
    }
}

/// Fields of so many pixels that their sums are made in bands of rows, with borders above and below.
#[test]
fn long_sums_are_made_in_bands() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, _)) = gpu() else { return };
    let spec = ConvSpec::same(3).stride(2);
    let (shape, out) = ([2, 1500, 1600, 2], [2, 750, 800, 2]);
    let [x, dy] = [field(1, shape), field(2, out)].map(|t| t.to_dtype(DType::BF16).unwrap());
    let sums = |backend: Backend| {
        let mut dw = vec![0.0; 9 * 2 * 2];
        (backend.conv2d_backward_weights(&x, &dy, &spec, &mut dw, None)).unwrap();
        dw
    };
    let apart = distance(&sums(gpu), &sums(Backend::Reference));
    assert!(apart < 6e-3, "{apart}");
}

/// Two samples, then one: the last band has another size, and may be solved in another way than the first.
#[test]
fn the_type_of_a_kernel_gradient_is_told_when_all_bands_are_known() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, _)) = gpu() else { return };
    let (spec, dtype) = (ConvSpec::same(1), DType::BF16);
    let shape = |samples: usize| [samples, 400, 500, 8];
    let learn = |samples: usize| {
        let [x, dy] = [1, 2].map(|seed| field(seed, shape(samples)).to_dtype(dtype).unwrap());
        let mut dw = vec![0.0; 8 * 8];
        (gpu.conv2d_backward_weights(&x, &dy, &spec, &mut dw, None)).unwrap();
    };
    let told = |samples: usize| {
        let [x, y] = [shape(samples); 2];
        gpu.kernel_gradient_type(dtype, &Convolution { spec, x, y })
            .unwrap()
    };
    learn(2);
    assert!(told(2).is_some());
    assert_eq!(told(3), None, "the last band was not computed yet");
    learn(3);
    // Of all bands, the one that is rounded counts.
    let rounded = [told(2), told(1)].contains(&Some(dtype));
    assert_eq!(told(3), Some(if rounded { dtype } else { DType::F32 }));
}

/// Bias, residual and ReLU come before a convolution is rounded.
#[test]
fn what_follows_a_convolution_is_rounded_with_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((gpu, _)) = gpu() else { return };
    for (dtype, c, o) in [
        (DType::F32, 16, 24),
        (DType::BF16, 16, 24),
        (DType::F16, 16, 24),
        (DType::BF16, 13, 7),
    ] {
        // What every type holds exactly is the same for both.
        let held = |t: Tensor| t.to_dtype(dtype).unwrap().to_dtype(DType::F32).unwrap();
        let x = held(field(1, [2, 9, 11, c]));
        let residual = held(field(2, [2, 9, 11, o]));
        let w = held(field(3, [o, c, 3, 3]));
        let bias = held(field(4, [1, 1, 1, o])).flatten_all().unwrap();
        let rounded = |backend: Backend, dtype, fuse: Fuse<'_>| {
            let x = x.to_dtype(dtype).unwrap();
            let spec = ConvSpec::same(3);
            let y = (backend.conv2d(&x, &w, Some(&bias), &spec, fuse)).unwrap();
            let y = backend.to_host(&y).unwrap();
            assert_eq!(y.dtype(), dtype);
            y.to_dtype(DType::F32).unwrap()
        };
        let as_stored = residual.to_dtype(dtype).unwrap();
        for (ours, plain) in [
            (Fuse::None, Fuse::None),
            (Fuse::Relu, Fuse::Relu),
            (Fuse::Add(&as_stored), Fuse::Add(&residual)),
            (Fuse::AddRelu(&as_stored), Fuse::AddRelu(&residual)),
        ] {
            let got = values(&rounded(gpu, dtype, ours));
            let once = values(&held(rounded(Backend::Reference, DType::F32, plain)));
            let off = got.iter().zip(&once).filter(|(a, b)| a != b).count();
            // Sums in another order fall on the other side of a half now and then; two roundings of a third.
            let off = off as f64 / once.len() as f64;
            let (few, near) = match dtype {
                // Were operands rounded to TF32, it would be a thousand times as far.
                DType::F32 => (1.0, 1e-6),
                _ => (0.01, 1e-3),
            };
            assert!(off <= few, "{dtype:?}, {c} to {o}, {plain:?}: {off}");
            assert!(distance(&got, &once) < near, "{dtype:?}, {plain:?}");
        }
    }
}

/// The lines of the choices that a process kept in this folder.
fn choices(folder: &Path) -> (PathBuf, Vec<String>) {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let is_choices = |path: &PathBuf| path.extension().is_some_and(|name| name == "engines");
    let file = paths.find(is_choices).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    (file, text.lines().map(str::to_string).collect())
}

/// Runs a test of this file in a process of its own, which keeps what it finds in this folder.
fn run_alone(test: &str, kept: &Path, variables: &[(&str, &str)]) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--nocapture"]);
    command.env(KEPT, kept).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
}

/// Machine code that was cut off on disk is not loaded: the driver would read beyond its end.
#[test]
fn damaged_machine_code_is_compiled_anew() {
    if std::env::var_os(KEPT).is_some() {
        let Some((gpu, _)) = gpu() else { return };
        gpu.relu(&field(1, [1, 4, 4, 4])).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = || run_alone("damaged_machine_code_is_compiled_anew", folder.path(), &[]);
    let lengths = || -> BTreeMap<PathBuf, u64> {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_code = |path: &PathBuf| path.extension().is_some_and(|name| name == "cubin");
        let measured = paths.filter(is_code).map(|path| {
            let length = path.metadata().unwrap().len();
            (path, length)
        });
        measured.collect()
    };
    run();
    let whole = lengths();
    if whole.is_empty() {
        return; // no GPU, nor a stand-in, which is said
    }
    for (at, (path, length)) in whole.iter().enumerate() {
        let bytes = std::fs::read(path).unwrap();
        let kept = match at % 3 {
            0 => &bytes[..*length as usize / 2],
            // As programs kept it that did not know of lengths.
            1 => &bytes[16..],
            _ => &[],
        };
        std::fs::write(path, kept).unwrap();
    }
    assert_ne!(lengths(), whole);
    run();
    assert_eq!(lengths(), whole);
}

/// What one process chose the next takes; what is no choice any more is made anew.
#[test]
fn choices_are_kept_and_made_anew_where_they_are_no_more() {
    if std::env::var_os(KEPT).is_some() {
        let Some((gpu, _)) = gpu() else { return };
        let (x, dy) = (field(1, [1, 6, 8, 16]), field(2, [1, 6, 8, 24]));
        let (w, spec) = (field(3, [24, 16, 3, 3]), ConvSpec::same(3));
        let y = gpu.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
        let judge = Backend::Reference.conv2d(&x, &w, None, &spec, Fuse::None);
        let y = values(&gpu.to_host(&y).unwrap());
        assert!(distance(&y, &values(&judge.unwrap())) < 1e-6);
        let [x, dy] = [x, dy].map(|tensor| tensor.to_dtype(DType::BF16).unwrap());
        let mut dw = vec![0.0; w.elem_count()];
        (gpu.conv2d_backward_weights(&x, &dy, &spec, &mut dw, None)).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = || run_alone("choices_are_kept_and_made_anew", folder.path(), &[]);
    run();
    if std::fs::read_dir(folder.path()).unwrap().count() == 0 {
        return; // no GPU, nor a stand-in, which is said
    }
    let (file, first) = choices(folder.path());
    assert_eq!(first.len(), 2, "{first:?}");
    run();
    assert_eq!(choices(folder.path()).1, first);
    // Places that no list has, in the first list and in the second; no engine of any number, also for results of f32;
    // what is none.
    for nothing in ["9999", "1039999", "2007999", "5007999", "6070000"] {
        let other = first.iter().map(|line| {
            let (problem, _) = line.rsplit_once(": ").unwrap();
            format!("{problem}: {nothing}\n")
        });
        std::fs::write(&file, other.collect::<String>()).unwrap();
        run();
        let (_, again) = choices(folder.path());
        assert_eq!(again.len(), 2);
        assert!(
            !again.iter().any(|line| line.ends_with(nothing)),
            "{again:?}"
        );
    }
}

/// Ranks may have an instance each of a card that is shared.
#[test]
fn instances_of_a_card_are_told_apart() {
    if std::env::var_os(KEPT).is_some() {
        let stands_in = gpu().is_some() && cuda::describe().contains("stand-in");
        let identity = cuda::identity().filter(|_| stands_in);
        // Instance 0, not the card.
        assert!(identity.is_none_or(|(uuid, _)| uuid.ends_with("00")));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shared = [("SQUALL_STAND_IN_MIG", "1")];
    run_alone("instances_of_a_card_are_told_apart", folder.path(), &shared);
}

/// Where the GPU tells no times nothing is known to be the fastest, and the next process looks again.
#[test]
fn choices_without_times_are_not_kept() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // A GPU cannot be told to keep its times to itself.
    if gpu().is_none() || !cuda::describe().contains("stand-in") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let without = [("SQUALL_STAND_IN_UNTIMED", "1")];
    run_alone("choices_are_kept_and_made_anew", folder.path(), &without);
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_choices = |path: &PathBuf| path.extension().is_some_and(|name| name == "engines");
    assert_eq!(paths.filter(is_choices).count(), 0);
}
