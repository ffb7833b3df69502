//! Classes that masks cannot hold: tags of rivers say nothing of cyclones, neither found nor missed.

use serde::Serialize;
use squall_data::mask_file::MaskArchive;
use squall_data::{Class, ClassMask};
use std::fmt;

/// A class that is not scored, because the files of a side cannot hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Which class.
    pub class: Class,
    /// The predicted masks cannot hold it.
    pub by_prediction: bool,
    /// The true masks cannot hold it.
    pub by_truth: bool,
}

impl LeftOut {
    /// The classes that one side or both cannot hold.
    pub fn of(predicted: &MaskArchive, truth: &MaskArchive) -> Vec<Self> {
        let (predicted, truth) = (predicted.classes(), truth.classes());
        let classes = Class::EVENTS.into_iter().map(|class| Self {
            class,
            by_prediction: !predicted.contains(&class),
            by_truth: !truth.contains(&class),
        });
        classes
            .filter(|one| one.by_prediction || one.by_truth)
            .collect()
    }

    /// Makes background of the class in a mask: all that the other side can say of it.
    pub fn remove_from(&self, mask: &mut ClassMask) {
        let (removed, background) = (self.class.code(), Class::Background.code());
        mask.codes
            .mapv_inplace(|code| if code == removed { background } else { code });
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = match (self.by_prediction, self.by_truth) {
            (true, true) => "the predicted and the true masks",
            (true, false) => "the predicted masks",
            (false, _) => "the true masks",
        };
        write!(
            f,
            "{}: not scored, {sides} are of other classes and say nothing of it",
            self.class.name()
        )
    }
}
