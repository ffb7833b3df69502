//! Loops for the CPU that are limited by memory, not arithmetic: parallel over fixed chunks, channels innermost.
//!
//! Chunks never depend on the number of threads and partial sums are added in order, so results are the same bits on
//! any number of cores.

pub(super) mod depthwise;
pub(super) mod loss;
pub(super) mod norm;
pub(super) mod prelu;
pub(super) mod resample;

/// Values per chunk of work: fits a core's second-level cache several times over.
pub(super) const CHUNK: usize = 1 << 15;

/// Values of the whole pixels that make a chunk.
pub(super) fn whole_pixels(channels: usize) -> usize {
    (CHUNK / channels).max(1) * channels
}
