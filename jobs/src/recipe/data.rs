//! The data section: what a run reads.

use serde::{Deserialize, Serialize};
use squall_data::Variable;
use squall_data::loader::Augmentation;
use squall_data::normalise::NormalisationMethod;
use squall_model::Backend;

/// What is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataSection {
    /// Channels, in the network's order. Default: all that the store has.
    pub channels: Option<Vec<Variable>>,
    /// How values are normalised. Default `"mean-std"`.
    pub normalisation: NormalisationMethod,
    /// Random changes of training samples and their labels. Default none.
    pub augmentation: Augmentation,
    /// Networks over time: steps of the data from one frame of a clip to the next. Default 1; hur-detect has 2 of three
    /// hours. How many frames a clip has is `network.time_steps`.
    pub clip_stride: usize,
    /// Reading threads. Default 2; for a GPU, which takes samples faster than two threads read them and leaves cores
    /// free, a quarter of the cores where that is more, at most 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Batches read ahead. Default: as many as there are reading threads, but 2 at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<usize>,
}

impl Default for DataSection {
    fn default() -> Self {
        Self {
            channels: None,
            normalisation: NormalisationMethod::default(),
            augmentation: Augmentation::default(),
            clip_stride: 1,
            threads: None,
            prefetch: None,
        }
    }
}

impl DataSection {
    /// Reading threads and batches read ahead, for a network that computes on this backend.
    pub fn readers(&self, backend: Backend) -> (usize, usize) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let usual = match backend.is_gpu() {
            true => (cores / 4).clamp(2, 6),
            false => 2,
        };
        let threads = self.threads.unwrap_or(usual);
        (threads, self.prefetch.unwrap_or(threads.max(2)))
    }
}
