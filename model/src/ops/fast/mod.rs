//! CPU loops that are bound by memory rather than arithmetic: parallel over fixed chunks, channels innermost.
//!
//! Chunks never depend on the number of threads and partial sums are added in order, so results are bit-identical on
//! any number of cores.

pub(super) mod depthwise;
pub(super) mod loss;
pub(super) mod norm;
pub(super) mod prelu;
pub(super) mod resample;

/// Values per chunk of work; several chunks fit into a core's L2 cache.
pub(super) const CHUNK: usize = 1 << 15;

/// The number of values of a chunk of whole pixels.
pub(super) fn whole_pixels(channels: usize) -> usize {
    (CHUNK / channels).max(1) * channels
}
