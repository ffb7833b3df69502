//! Masks as CF netCDF: what ClimateNet, ARTMIP and TempestExtremes users can open.

mod about;
mod flags;
mod reader;
mod scan;
mod writer;

pub use about::About;
pub use reader::MaskArchive;
pub use writer::{MaskFileOptions, MaskWriter};

use crate::Class;

/// Number of quantisation steps for a probability of 1.
const CERTAIN: f32 = 250.0;

/// Name of a variable for a property of a class, such as `tropical_cyclone_probability`.
fn event_variable(class: Class, what: &str) -> String {
    format!("{}_{what}", class.name())
}

#[cfg(test)]
mod tests;
