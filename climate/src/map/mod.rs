//! Maps: coastlines, colours, projection, rasters and PNG.

pub mod coastline;
pub mod colour;
pub mod image;
mod land;
pub mod projection;
pub mod render;
pub mod resample;

pub use coastline::Coastline;
pub use colour::{ColourMap, Rgb};
pub use land::LandMask;
pub use projection::Projection;
pub use render::{MapLayers, MapStyle, render};
