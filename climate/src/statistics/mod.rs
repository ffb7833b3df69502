//! Statistics of many events and tracks.
//!
//! [`Statistics`] accumulates times and finished tracks and stores only counts, so its size does not grow with the
//! number of events, only by a row per month. It can be saved (serde).

mod ace;
mod basin;
pub(crate) mod category;
pub(crate) mod coarse;
mod counts;
mod frequency;
mod histogram;
mod month_axis;
mod netcdf_file;
mod occurrence;
mod river_scale;
mod span;
mod steps;
mod tables;

pub use ace::{ace_of_point, power_dissipation_of_point};
pub use basin::Basin;
pub(crate) use basin::is_southern;
pub use category::Category;
pub use coarse::CoarseOccurrence;
pub(crate) use counts::days_apart;
pub use counts::{ClassHistograms, MonthCounts, MonthOfYear, PastMonth, Statistics};
pub use histogram::Histogram;
pub(crate) use netcdf_file::{
    COVERAGE, LATITUDE, LONGITUDE, MISSING, RULES, STEP, TRANSPORT, WIND,
};
pub use occurrence::Occurrence;
pub use river_scale::{RIVER_SCALE_MIN_IVT_KG_M_S, river_scale};
pub use span::Span;
pub(crate) use tables::write_rows;
