//! Climatologies in netCDF files: names of variables and attributes.

mod read;
#[cfg(test)]
mod tests;
mod write;

/// The variable of the thresholds.
const THRESHOLD: &str = "threshold";
/// The dimensions of the thresholds.
const DIMENSIONS: [&str; 3] = ["month", "lat", "lon"];
/// Attributes of the rules, and the number of rows and columns of a block.
const MOISTURE: &str = "moisture";
const PERCENTILE: &str = "percentile";
const WINDOW: &str = "window_months";
const SPACING: &str = "climatology_spacing_deg";
const BLOCK: [&str; 2] = ["block_rows", "block_columns"];
/// Attributes of the origin.
const INPUT: &str = "squall_input";
const CALENDAR: &str = "calendar_of_the_data";
const TRANSPORT: &str = "moisture_transport";
/// Attributes that record how moisture was computed.
const COMPUTATION: &str = "moisture_computation";
const LEVELS: &str = "moisture_levels_pa";
const VARIABLES: &str = "moisture_variables";
const UNITS: &str = "moisture_units";
