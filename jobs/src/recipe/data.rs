//! The data section: what a run reads.

use serde::{Deserialize, Serialize};
use squall_data::Variable;
use squall_data::loader::Augmentation;
use squall_data::normalise::NormalisationMethod;
use squall_model::Backend;

/// Where the values come from that normalise the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormalisationChoice {
    /// The store's statistics: (x - mean) / standard deviation.
    #[default]
    MeanStd,
    /// The store's statistics: (x - min) / (max - min).
    MinMax,
    /// The model of `training.start_from`, named as that key is.
    #[serde(rename = "start_from")]
    StartFrom,
}

impl NormalisationChoice {
    /// How the store's statistics normalise; by default for a choice that does not use them.
    pub(crate) fn method(self) -> NormalisationMethod {
        match self {
            Self::MinMax => NormalisationMethod::MinMax,
            Self::MeanStd | Self::StartFrom => NormalisationMethod::MeanStd,
        }
    }
}

/// What is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataSection {
    /// Channels, in the network's order. Default: all that the store has.
    pub channels: Option<Vec<Variable>>,
    /// How values are normalised: by the store's statistics (`"mean-std"`, `"min-max"`), or as for the model of
    /// `training.start_from` (`"start_from"`). Default `"mean-std"`.
    pub normalisation: NormalisationChoice,
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
            normalisation: NormalisationChoice::default(),
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
