//! `squall bench parity`: operations and networks against plain loops.

use crate::output;
use anyhow::bail;
use squall_model::networks::NetworkName;
use squall_validation::parity::Parity;

/// The extents that plain loops take minutes for, not hours.
const SIZE: (usize, usize) = (24, 36);

/// Prints the report of all networks.
pub(super) fn run(json: bool) -> anyhow::Result<()> {
    let report = Parity::measure(&NetworkName::SEGMENTATION, SIZE, |next| {
        tracing::info!("{next}")
    })?;
    if json {
        output::json(&report)?;
    } else {
        output::text(&report)?;
    }
    let broken: Vec<String> = (report.broken())
        .map(|row| format!("{} {}", row.subject, row.what))
        .collect();
    if !broken.is_empty() {
        bail!(
            "further from the plain loops than allowed: {}",
            broken.join(", ")
        );
    }
    Ok(())
}
