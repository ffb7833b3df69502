//! Classes that masks cannot contain: tags of rivers say nothing about cyclones.

use serde::Serialize;
use squall_data::Class;
use squall_data::mask_file::MaskArchive;
use std::fmt;

/// A class that is not scored because one side's files cannot contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Which class.
    pub class: Class,
    /// Whether the predicted masks cannot contain it.
    pub by_prediction: bool,
    /// Whether the true masks cannot contain it.
    pub by_truth: bool,
}

impl LeftOut {
    /// The classes that at least one side cannot contain.
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
