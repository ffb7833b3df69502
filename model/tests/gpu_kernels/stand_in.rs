//! The stand-in is stricter than a GPU: what a GPU leaves undefined is an error here.

use crate::args;
use crate::stand_in_gpu::{Gpu, Storage};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of cuda.h.
const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_FAILED: i32 = 719;
/// Of nvrtc.h.
const COMPILATION: i32 = 6;

const KERNELS: &str = r#"
GLOBAL write_at(f32 *y, i64 at) {
  if (blockIdx.x == 0 && threadIdx.x == 0) y[at] = 1.0f;
}
EXPORT_KERNEL(write_at)
GLOBAL some_leave(f32 *y) {
  if (threadIdx.x < 100) return;
  __syncthreads();
  y[threadIdx.x] = 1.0f;
}
EXPORT_KERNEL_WITH_BARRIERS(some_leave)
template <bool SAFE>
__device__ inline void turned(f32 *y) {
  __shared__ f32 shared[THREADS];
  // What an earlier block left there must not look right.
  shared[threadIdx.x] = -1.0f;
  __syncthreads();
  shared[threadIdx.x] = (f32)threadIdx.x;
  if (SAFE) __syncthreads();
  y[threadIdx.x] = shared[THREADS - 1 - threadIdx.x];
}
GLOBAL with_barrier(f32 *y) { turned<true>(y); }
EXPORT_KERNEL_WITH_BARRIERS(with_barrier)
GLOBAL without_barrier(f32 *y) { turned<false>(y); }
EXPORT_KERNEL_WITH_BARRIERS(without_barrier)
"#;

fn opened() -> Option<Gpu> {
    let gpu = Gpu::open()?;
    gpu.compile("own.cu", KERNELS).unwrap();
    Some(gpu)
}

#[test]
fn writes_beyond_an_allocation_are_found() {
    let Some(gpu) = opened() else { return };
    for (at, status) in [
        (0i64, 0),
        (9, 0),
        (10, ILLEGAL_ADDRESS),
        (-1, ILLEGAL_ADDRESS),
        (70, ILLEGAL_ADDRESS),
    ] {
        let y = gpu.room(10, Storage::F32);
        gpu.run("own.cu", "write_at", [1; 3], args![&y, at]);
        assert_eq!(y.release(), status, "value {at} of 10");
    }
}

#[test]
fn memory_that_was_not_written_is_no_number() {
    let Some(gpu) = opened() else { return };
    for storage in Storage::ALL {
        let fresh = gpu.download(&gpu.room(100, storage), storage);
        assert!(fresh.iter().all(|v| v.is_nan()), "{storage:?}");
    }
}

#[test]
fn barriers_must_be_reached_by_all_threads() {
    let Some(gpu) = opened() else { return };
    let y = gpu.room(256, Storage::F32);
    let status = gpu.status_of("own.cu", "some_leave", [1; 3], args![&y]);
    assert_eq!(status, LAUNCH_FAILED);
}

#[test]
fn a_missing_barrier_shows() {
    let Some(gpu) = opened() else { return };
    let run = |kernel: &str| {
        let y = gpu.room(256, Storage::F32);
        gpu.run("own.cu", kernel, [3, 1, 1], args![&y]);
        gpu.download(&y, Storage::F32)
    };
    let want: Vec<f32> = (0..256u16).rev().map(f32::from).collect();
    assert_eq!(run("with_barrier"), want);
    assert_ne!(run("without_barrier"), want);
}

#[test]
fn what_no_gpu_takes_is_refused() {
    let Some(gpu) = opened() else { return };
    let y = gpu.room(10, Storage::F32);
    for grid in [[1, 65_536, 1], [1, 1, 65_536], [0, 1, 1]] {
        let status = gpu.status_of("own.cu", "write_at", grid, args![&y, 0i64]);
        assert_eq!(status, INVALID_VALUE, "{grid:?}");
    }
    assert_eq!(gpu.status_of_copy(&y, 40), 0);
    assert_eq!(gpu.status_of_copy(&y, 41), INVALID_VALUE);
    assert_eq!(gpu.try_alloc(5 << 30).err(), Some(OUT_OF_MEMORY));
    assert_eq!(gpu.try_alloc(0).err(), Some(INVALID_VALUE));
}

#[test]
fn the_compiler_says_where_a_kernel_is_wrong() {
    let Some(gpu) = Gpu::open() else { return };
    let wrong = gpu.compile("wrong.cu", "GLOBAL broken(f32 *y) { y[0] = nothing; }");
    let (status, log) = wrong.unwrap_err();
    assert_eq!(status, COMPILATION);
    assert!(log.contains("wrong.cu") && log.contains("nothing"), "{log}");
}

/// Programs that do nothing, say something and fail stand for compilers.
#[test]
fn what_each_compiler_builds_has_a_whole_folder_of_its_own_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand_in_gpu/build.sh");
    let build = |compiler: &str| {
        let built = Command::new("sh")
            .args([Path::new(script), folder.path()])
            .env("CXX", compiler)
            .output()
            .unwrap();
        let path = String::from_utf8(built.stdout).unwrap();
        let path = PathBuf::from(path.trim_end());
        built.status.success().then_some(path)
    };
    let found = ["true", "echo", "true", "false"].map(build);
    let [Some(first), Some(second), Some(again), None] = &found else {
        panic!("{found:?}");
    };
    assert!(first == again && first != second, "{found:?}");
    for whole in [first, second] {
        assert!(whole.join("cuda_emu.h").is_file());
    }
    // Both, and the lock.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}
