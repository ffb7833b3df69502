//! What holds for a whole process on a GPU: kernels are compiled once and all together, and f32 is f32 unless TF32 is allowed.
#![cfg(feature = "cuda")]
#![allow(clippy::print_stderr)] // says what it skips

mod common;
mod stand_in_gpu;

use common::{distance, field, values};
use squall_model::Backend;
use squall_model::gpu::{allow_tf32, tf32_is_allowed};
use squall_model::ops::{ConvSpec, Fuse, cuda};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// One test at a time changes what holds for all.
static ALONE: Mutex<()> = Mutex::new(());

/// The GPU, and where its kernels are kept, which was empty when the process began.
fn gpu() -> Option<(Backend, PathBuf)> {
    if !cuda::finds("libcuda.so.1") {
        cuda::look_in(&[stand_in_gpu::folder()?]);
    }
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let kept = kept.join(format!("gpu-process-{}", std::process::id()));
    if !kept.exists() {
        std::fs::create_dir_all(&kept).unwrap();
        cuda::cache_in(kept.clone());
    }
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
    let (x, w) = (field(1, [1, 8, 10, 16]), field(2, [12, 16, 3, 3]));
    let spec = ConvSpec::same(3);
    let of = |backend: Backend| {
        let y = backend.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
        values(&backend.to_host(&y).unwrap())
    };
    let judge = of(Backend::Reference);
    let plain = of(gpu);
    assert!(distance(&plain, &judge) < 1e-6);
    allow_tf32(true);
    let rounded = of(gpu);
    let told = cuda::describe();
    allow_tf32(false);
    let off = distance(&rounded, &judge);
    // Two operands, each off by up to 2^-12.
    assert!(off > 1e-5 && off < 1e-3, "{off}");
    assert!(told.contains("TF32") && !cuda::describe().contains("TF32"));
    assert!(of(gpu) == plain, "what was allowed before stays");
}
