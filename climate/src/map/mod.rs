//! Maps: coastlines, colours, projection, rasters and PNG.

mod coastline;
pub(crate) mod colour;
pub(crate) mod image;
mod land;
pub(crate) mod projection;
pub(crate) mod resample;

pub use coastline::Coastline;
pub(crate) use colour::{ColourMap, Rgb};
pub use land::LandMask;
pub(crate) use projection::Projection;
