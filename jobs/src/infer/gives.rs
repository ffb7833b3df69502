//! What models say about a time.

use serde::Serialize;
use squall_model::Network;

/// What a model says about a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gives {
    /// The class of every cell.
    Masks,
    /// Boxes.
    Boxes,
    /// A mask, and boxes beside it.
    Both,
}

impl Gives {
    pub(super) fn of(network: &Network) -> Self {
        match (network.is_detector(), network.gives_masks()) {
            (false, _) => Self::Masks,
            (true, false) => Self::Boxes,
            (true, true) => Self::Both,
        }
    }

    /// Whether there are masks.
    pub fn masks(self) -> bool {
        self != Self::Boxes
    }

    /// Whether there are boxes.
    pub fn boxes(self) -> bool {
        self != Self::Masks
    }

    /// What is counted by times, for people: 12 masks, boxes of 12 times.
    pub fn count(self, times: usize) -> String {
        match self {
            Self::Masks => format!("{times} masks"),
            Self::Boxes => format!("boxes of {times} times"),
            Self::Both => format!("masks and boxes of {times} times"),
        }
    }
}
