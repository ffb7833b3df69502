//! Masks as CF netCDF: what ClimateNet, ARTMIP and TempestExtremes users can open.

mod about;
mod flags;
mod reader;
mod scan;
mod stored;
mod writer;

pub use about::About;
pub use reader::MaskArchive;
pub use writer::{MaskFileOptions, MaskWriter};

use crate::{Class, ClassMask};
use ndarray::Array2;

/// Number of quantisation steps for a probability of 1.
const CERTAIN: f32 = 250.0;

/// The mask of one time, and where it is missing.
pub struct KnownMask {
    /// The mask; background where it is missing.
    pub mask: ClassMask,
    /// The cells in which it is missing; `None` if there are none.
    pub missing: Option<Array2<bool>>,
}

/// Name of a variable for a property of a class, such as `tropical_cyclone_probability`.
fn event_variable(class: Class, what: &str) -> String {
    format!("{}_{what}", class.name())
}

#[cfg(test)]
mod tests;
