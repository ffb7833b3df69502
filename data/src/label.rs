//! Classes and class masks.

use crate::snapshot::shape_text;
use crate::{DataError, Time};
use ndarray::Array2;
use serde::{Deserialize, Serialize};

/// The class of a pixel of a mask or of an event in a table. For the first three the discriminant is the code in masks.
///
/// The other two occur only in boxes, never in masks ([`Class::from_code`] does not return them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// Nothing of interest.
    Background = 0,
    /// A tropical cyclone.
    TropicalCyclone = 1,
    /// An atmospheric river.
    AtmosphericRiver = 2,
    /// An extratropical cyclone: in tables made of boxes, never in a mask.
    ExtratropicalCyclone = 3,
    /// A tropical depression: in tables made of boxes, never in a mask.
    TropicalDepression = 4,
}

impl Class {
    /// All mask classes, in code order.
    pub const ALL: [Self; 3] = [
        Self::Background,
        Self::TropicalCyclone,
        Self::AtmosphericRiver,
    ];
    /// The classes of masks that are events.
    pub const EVENTS: [Self; 2] = [Self::TropicalCyclone, Self::AtmosphericRiver];
    /// All classes in event tables: those of masks, then those that only boxes distinguish.
    pub const TRACKED: [Self; 4] = [
        Self::TropicalCyclone,
        Self::AtmosphericRiver,
        Self::ExtratropicalCyclone,
        Self::TropicalDepression,
    ];

    /// The code in a mask; for a class without one, an unused number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The class of a mask code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether it is a storm around a centre of low pressure.
    pub fn is_cyclone(self) -> bool {
        match self {
            Self::Background | Self::AtmosphericRiver => false,
            Self::TropicalCyclone | Self::ExtratropicalCyclone | Self::TropicalDepression => true,
        }
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::TropicalCyclone => "tropical_cyclone",
            Self::AtmosphericRiver => "atmospheric_river",
            Self::ExtratropicalCyclone => "extratropical_cyclone",
            Self::TropicalDepression => "tropical_depression",
        }
    }
}

/// Stored code of unlabelled pixels, which are excluded from loss and scores.
pub const UNLABELLED: u8 = 255;

/// The classes of every cell at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassMask {
    /// When.
    pub time: Time,
    /// Class codes, `(lat, lon)`, latitude ascending.
    pub codes: Array2<u8>,
}

impl ClassMask {
    /// Creates a mask from class codes.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if a code is not one of [`Class::ALL`].
    pub fn new(time: Time, codes: Array2<u8>) -> Result<Self, DataError> {
        match codes.iter().find(|&&code| Class::from_code(code).is_none()) {
            Some(code) => Err(DataError::Invalid(format!(
                "mask of {time}, shape {}: code {code} is none of 0 (background), 1 (tropical cyclone), 2 (atmospheric river)",
                shape_text(codes.shape())
            ))),
            None => Ok(Self { time, codes }),
        }
    }

    /// Pixels of each class, in code order.
    pub fn pixel_counts(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        self.codes
            .iter()
            .for_each(|&code| counts[usize::from(code)] += 1);
        counts
    }

    /// Turns the cells of a class into background.
    pub fn remove(&mut self, class: Class) {
        let (removed, background) = (class.code(), Class::Background.code());
        self.codes
            .mapv_inplace(|code| if code == removed { background } else { code });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Calendar;
    use ndarray::arr2;

    #[test]
    fn a_class_that_is_removed_leaves_background_and_the_other_one() {
        let time = Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap();
        let mut mask = ClassMask::new(time, arr2(&[[0u8, 1, 2], [2, 1, 0]])).unwrap();
        mask.remove(Class::TropicalCyclone);
        assert_eq!(mask.codes, arr2(&[[0u8, 0, 2], [2, 0, 0]]));
        mask.remove(Class::AtmosphericRiver);
        assert_eq!(mask.pixel_counts(), [6, 0, 0]);
    }
}
