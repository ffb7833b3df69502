//! `squall bench parity`: compares operations and networks with plain loops.

use crate::arguments::grid;
use crate::failure::{Advice, CHECK};
use crate::output;
use clap::{Args, ValueEnum};
use squall_model::networks::NetworkName;
use squall_validation::parity::Parity;

/// Which networks, on which fields, judged by what.
#[derive(Debug, Args)]
pub struct ParityOptions {
    /// Networks at published width, comma-separated [default: all segmentation networks].
    #[arg(long, value_delimiter = ',')]
    network: Vec<NetworkName>,
    /// Input size, latitudes x longitudes; plain loops take minutes at the default size, hours at real sizes.
    #[arg(long, visible_alias = "grid", default_value = "24x36", value_parser = grid)]
    size: (usize, usize),
    /// Reference to compare with.
    #[arg(long, value_enum, default_value = "plain")]
    judge: Judge,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Judge {
    /// Plain loops: operations, convolutions, networks.
    Plain,
    /// Plain loops: only convolutions of every kind, in seconds.
    Shapes,
    /// The CPU's fast operations, for convolutions on a GPU at real field sizes.
    Cpu,
}

/// Prints the report.
pub(super) fn run(options: &ParityOptions, json: bool) -> anyhow::Result<()> {
    let networks = if options.network.is_empty() {
        &NetworkName::SEGMENTATION[..]
    } else {
        &options.network
    };
    let tell = |next: &str| tracing::info!("{next}");
    let report = match options.judge {
        Judge::Plain => Parity::measure(networks, options.size, tell)?,
        Judge::Shapes => Parity::shapes()?,
        Judge::Cpu => Parity::convolutions(networks, options.size, tell)?,
    };
    output::result(&report, json)?;
    let broken: Vec<String> = (report.broken())
        .map(|row| format!("{} {}", row.subject, row.what))
        .collect();
    if !broken.is_empty() {
        return Err(Advice::with_code(
            CHECK,
            format!(
                "further from {} than allowed: {}",
                report.judge,
                broken.join(", ")
            ),
            "the rows marked with ! above say by how much; `squall --version` says which libraries computed them",
        ));
    }
    Ok(())
}
