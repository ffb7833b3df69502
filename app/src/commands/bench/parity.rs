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
    /// Names of networks at published width, separated by commas; by default all of segmentation.
    #[arg(long, value_delimiter = ',')]
    network: Vec<NetworkName>,
    /// Latitudes x longitudes of a network's input; plain loops take minutes for these, hours for real fields.
    #[arg(long, visible_alias = "grid", default_value = "24x36", value_parser = grid)]
    size: (usize, usize),
    /// What judges.
    #[arg(long, value_enum, default_value = "plain")]
    judge: Judge,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Judge {
    /// Plain loops: operations, convolutions, networks.
    Plain,
    /// Plain loops: convolutions of every kind alone, which takes seconds.
    Shapes,
    /// The fast operations of the CPU, on a GPU's convolutions at the extents of real fields.
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
