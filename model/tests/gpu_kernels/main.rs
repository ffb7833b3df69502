//! Every GPU kernel against the reference loops, on the stand-in GPU.
//!
//! Shapes break index arithmetic: channels that are no multiple of a wide access, fields smaller than a window, one
//! pixel.

#[path = "../stand_in_gpu/mod.rs"]
mod stand_in_gpu;

mod channels;
mod convolve;
mod depthwise;
mod elementwise;
mod listed;
mod loss;
mod norm;
mod optimizer;
mod pool;
mod resize;
mod stand_in;

use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stand_in_gpu::Storage;

/// Values in [-1, 1), the same for the same seed.
fn draw(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}

fn dtype(storage: Storage) -> DType {
    match storage {
        Storage::F32 => DType::F32,
        Storage::Bf16 => DType::BF16,
        Storage::F16 => DType::F16,
    }
}

/// For the reference loops, stored as on the GPU.
fn tensor(values: &[f32], shape: &[usize], storage: Storage) -> Tensor {
    let tensor = Tensor::from_vec(values.to_vec(), shape, &Device::Cpu).unwrap();
    tensor.to_dtype(dtype(storage)).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let wide = tensor.to_dtype(DType::F32).unwrap();
    wide.flatten_all().unwrap().to_vec1().unwrap()
}

/// ‖a − b‖ / ‖b‖.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |v: &mut dyn Iterator<Item = f32>| v.map(|v| f64::from(v).powi(2)).sum::<f64>();
    let difference = square(&mut a.iter().zip(b).map(|(a, b)| a - b));
    (difference / square(&mut b.iter().copied()).max(1e-30)).sqrt()
}

/// Sums in another order differ by a few 1e-7; then a value here and there rounds to its neighbour in a half type.
fn assert_close(what: &str, storage: Storage, got: &[f32], want: &[f32]) {
    let tolerance = match storage {
        Storage::F32 => 2e-6,
        Storage::Bf16 => 2e-3,
        Storage::F16 => 3e-4,
    };
    let apart = distance(got, want);
    assert!(apart < tolerance, "{what} {storage:?}: {apart}");
}

/// The grids of `kernels/README.md`.
mod grid {
    fn blocks(count: usize, each: usize, most: usize) -> u32 {
        count.div_ceil(each).clamp(1, most) as u32
    }

    pub fn flat(values: usize) -> [u32; 3] {
        [blocks(values, 2048, 4096), 1, 1]
    }

    /// Blocks that are side by side on a GPU.
    const SIDE_BY_SIDE: usize = 264;

    pub fn pixels(values: usize) -> [u32; 3] {
        [blocks(values, 2048, SIDE_BY_SIDE), 1, 1]
    }

    pub fn sums(pixels: usize, channels: usize, samples: usize) -> [u32; 3] {
        let side = channels.div_ceil(128);
        let most = (SIDE_BY_SIDE / (side * samples)).max(1);
        [side as u32, blocks(pixels, 128, most), samples as u32]
    }

    pub fn chunks(pixels: usize, channels: usize, samples: usize) -> usize {
        sums(pixels, channels, samples)[1] as usize
    }

    pub fn ends(channels: usize, samples: usize) -> [u32; 3] {
        [channels.div_ceil(32) as u32, samples as u32, 1]
    }

    /// Of a GPU with four multiprocessors: blocks have more than one unit.
    pub fn depthwise(pixels: usize, channels: usize, rows: usize) -> [u32; 3] {
        let side = channels.div_ceil(64);
        let most = (8 / (side * rows)).max(1);
        [side as u32, blocks(pixels, 96, most), rows as u32]
    }

    pub fn loss(pixels: usize) -> [u32; 3] {
        [blocks(pixels, 1024, 1024), 1, 1]
    }
}
