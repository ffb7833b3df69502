//! oneDNN's capabilities on this processor: its version, its instruction set, and whether bf16 is fast.

use crate::ops::value::Value;
use candle_core::DType;
use squall_onednn_sys as sys;
use std::sync::LazyLock;

/// oneDNN's x86 flags for instruction sets that multiply bf16.
const AVX512_CORE_BF16: u32 = 0xe7;
const AVX512_CORE_AMX: u32 = 0x2e7;

/// Whether oneDNN uses these x86 instructions; on other processors the flags have another meaning.
fn has(instructions: u32) -> bool {
    // SAFETY: only reads what the library knows of the processor.
    static ISA: LazyLock<u32> = LazyLock::new(|| unsafe { sys::squall_dnnl_isa() });
    cfg!(target_arch = "x86_64") && *ISA & instructions == instructions
}

/// Whether the processor multiplies bf16. If it does not, oneDNN's bf16 is slower than its f32, or missing.
pub fn computes_bf16() -> bool {
    has(AVX512_CORE_BF16)
}

/// Whether the processor multiplies bf16 in tiles, many times as fast as f32 vectors.
pub fn multiplies_tiles() -> bool {
    has(AVX512_CORE_AMX)
}

/// Whether activations of this storage type are multiplied in tiles.
pub(super) fn in_tiles<V: Value>() -> bool {
    V::DTYPE == DType::BF16 && multiplies_tiles()
}

/// Library, version, instruction set and threads as text.
pub fn describe() -> String {
    format!("{}, {}", kind(), threads(own_threads(), openmp_threads()))
}

/// The number of threads that oneDNN computes on, which decides how its sums round: that of OpenMP, or of our own loops
/// where OpenMP does not tell.
pub fn computing_threads() -> usize {
    match openmp_threads() {
        0 => own_threads(),
        openmp => openmp,
    }
}

fn own_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// 0 if unknown.
fn openmp_threads() -> usize {
    // SAFETY: only asks for a number.
    usize::try_from(unsafe { sys::squall_openmp_threads() }).unwrap_or(0)
}

/// The number of threads of our own loops, and that of oneDNN's OpenMP (0 if unknown) if it differs, as with
/// `OMP_NUM_THREADS`.
fn threads(own: usize, openmp: usize) -> String {
    let ending = if own == 1 { "" } else { "s" };
    let others = match openmp == 0 || openmp == own {
        true => String::new(),
        false => format!(" ({openmp} in oneDNN)"),
    };
    format!("{own} thread{ending}{others}")
}

/// The library and the instruction set that it uses here.
pub fn kind() -> String {
    // SAFETY: only reads a constant of the library.
    let version = unsafe { sys::squall_dnnl_version() };
    let isa = if cfg!(not(target_arch = "x86_64")) {
        std::env::consts::ARCH
    } else if multiplies_tiles() {
        "AMX"
    } else if computes_bf16() {
        "AVX-512 with bf16"
    } else if has(0x27) {
        "AVX-512"
    } else if version < 20_700 && has(0xf) {
        // Later versions use AVX2 on these processors, and use the flag for AVX2 with VNNI.
        "AVX-512 of Knights Landing"
    } else if has(0x7) {
        "AVX2"
    } else {
        "below AVX2"
    };
    format!(
        "oneDNN {}.{}.{}, {isa}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_openmp_are_told_where_they_are_others() {
        assert_eq!(threads(1, 1), "1 thread");
        assert_eq!(threads(8, 8), "8 threads");
        assert_eq!(threads(8, 0), "8 threads");
        assert_eq!(threads(8, 1), "8 threads (1 in oneDNN)");
        assert!(describe().starts_with(&format!("{}, ", kind())));
    }
}
