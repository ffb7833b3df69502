//! `squall bench allreduce`: compares all-reduce methods, under MPI's launcher or on threads.

use super::{Row, row_of_cpu};
use crate::arguments::number;
use crate::failure::{Advice, CHECK};
use crate::plan::{bytes, counted};
use crate::ranks;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use squall_jobs::comm::bench::{BenchOptions, BenchRow, Contestant, measure};
use squall_jobs::comm::collectives::Choice;
use squall_jobs::comm::{
    AllReduce, CommError, Communicator, Flat, Grid, Hierarchical, HierarchicalOptions, Wire,
    threads,
};

/// What is summed, how, and over what.
#[derive(Debug, Args)]
pub struct AllReduceOptions {
    /// All-reduce methods, comma-separated.
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',', default_values = ["library", "ring", "halving", "hierarchical"])]
    methods: Vec<Method>,
    /// Types that values are sent as, comma-separated.
    #[arg(long, value_name = "TYPES", value_parser = wire(), value_delimiter = ',', default_values = ["f32", "bf16"])]
    wires: Vec<Wire>,
    /// Vector lengths in millions, comma-separated; 43.67 are the gradients of DeepLabV3+.
    #[arg(long, value_name = "N", value_parser = millions, value_delimiter = ',', default_values = ["4.3"])]
    millions: Vec<f64>,
    /// Bandwidth of a node's link in each direction, Mbit/s, to compare with its bound.
    #[arg(long, value_name = "MBIT_S", value_parser = rate)]
    link_mbit: Option<f64>,
    /// Ranks per node that send to other nodes [default: all].
    #[arg(long, value_name = "N")]
    leaders: Option<usize>,
    /// Threads that act as ranks if no launcher started several processes.
    #[arg(long, value_name = "N", default_value = "4")]
    ranks: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Method {
    /// The MPI library's own, in one call and in chunks.
    Library,
    Ring,
    Halving,
    Hierarchical,
    Grid,
}

/// A wire by its name in a recipe.
fn wire() -> impl TypedValueParser<Value = Wire> {
    let named = |name: String| Wire::ALL.into_iter().find(|wire| wire.name() == name);
    PossibleValuesParser::new(Wire::ALL.map(Wire::name))
        .map(move |name| named(name).unwrap_or_default())
}

/// Maximum vector length in millions: 40 GB of f32.
const MOST_MILLIONS: f64 = 1e4;

/// Parses a vector length of at least one value.
fn millions(text: &str) -> Result<f64, String> {
    let expected = format!("millions of values, up to {MOST_MILLIONS}, such as 43.67");
    number(
        text,
        |value: &f64| (1e-6..=MOST_MILLIONS).contains(value),
        &expected,
    )
}

/// Converts millions to a number of values, rounding: 1.001 times 10⁶ is slightly below 1001000.
fn values(millions: f64) -> usize {
    (millions * 1e6).round() as usize
}

/// Parses a link rate, which must be positive: otherwise the bound would be infinite.
fn rate(text: &str) -> Result<f64, String> {
    let fits = |value: &f64| value.is_finite() && *value > 0.0;
    number(text, fits, "Mbit/s above 0, such as 10000")
}

/// Adds a row for each vector, method and wire format on the first rank; none on the others. If sums are wrong, their
/// rows are still added before the error that names them.
pub(super) fn measure_all(
    options: &AllReduceOptions,
    repeat: usize,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    if options.ranks == 0 {
        return Err(Advice::usage("nothing to sum", "for example --ranks 4"));
    }
    let measured = match ranks::processes()? {
        Some(mut world) => {
            let own = ranks::library_methods(&world)?;
            let found = compete(&mut world, options, own, repeat);
            ranks::finish(world.size(), found.map_err(anyhow::Error::from))?
        }
        None => {
            check_memory(options)?;
            let ranks = threads::ranks(options.ranks);
            let found = threads::run(ranks, |mut rank| {
                compete(&mut rank, options, Vec::new(), repeat)
            });
            let found: Result<Vec<_>, CommError> = found.into_iter().collect();
            found?.swap_remove(0)
        }
    };
    rows.extend(measured.iter().map(|own| as_row(own, &measured)));
    let wrong: Vec<String> = (measured.iter())
        .filter(|row| is_wrong(row))
        .map(|row| format!("{} {} by {:.1e}", row.name, row.wire.name(), row.error))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Advice::with_code(
        CHECK,
        format!(
            "averages are off by more than rounding: {}",
            wrong.join(", ")
        ),
        "what is fast and wrong is of no use: another method or another MPI library may be right",
    ))
}

/// Rejects vectors that do not fit into memory: each thread has its own.
fn check_memory(options: &AllReduceOptions) -> anyhow::Result<()> {
    let longest = options.millions.iter().copied().fold(0.0, f64::max);
    let needed = (4e6 * longest * options.ranks as f64) as u64;
    match squall_jobs::available_memory(1) {
        Some(free) if needed > free => Err(Advice::usage(
            format!(
                "vectors of {longest} million values on {} need {}, this process may have {}",
                counted(options.ranks, "rank"),
                bytes(needed),
                bytes(free)
            ),
            "give fewer --millions or fewer --ranks",
        )),
        _ => Ok(()),
    }
}

/// Whether an average is further from the exact one than a single rounding on every rank allows.
fn is_wrong(row: &BenchRow) -> bool {
    let rounding = match row.wire {
        Wire::F32 => 2f64.powi(-23),
        Wire::Bf16 => 2f64.powi(-8),
        Wire::F16 => 2f64.powi(-11),
    };
    let ranks = row.nodes * row.ranks_per_node;
    row.error.is_nan() || row.error > ranks as f64 * rounding
}

/// Measures all methods; `library` holds the MPI library's own, by name.
fn compete(
    comm: &mut dyn Communicator,
    options: &AllReduceOptions,
    library: Vec<(&'static str, Box<dyn AllReduce>)>,
    repeat: usize,
) -> Result<Vec<BenchRow>, CommError> {
    let mut contestants = Vec::new();
    if options.methods.contains(&Method::Library) {
        for (name, reduce) in library {
            contestants.push(Contestant {
                name: name.to_string(),
                wire: Wire::F32,
                reduce,
            });
        }
    }
    for &method in &options.methods {
        for &wire in &options.wires {
            let (name, reduce): (_, Box<dyn AllReduce>) = match method {
                Method::Library => continue,
                Method::Ring => ("ring", Box::new(Flat::new(comm, Choice::Ring, wire)?)),
                Method::Halving => ("halving", Box::new(Flat::new(comm, Choice::Halving, wire)?)),
                Method::Grid => ("grid", Box::new(Grid::square(comm, Choice::Ring, wire)?)),
                Method::Hierarchical => {
                    let how = HierarchicalOptions {
                        leaders: options.leaders,
                        wire,
                        between: Choice::Ring,
                        ..HierarchicalOptions::default()
                    };
                    ("hierarchical", Box::new(Hierarchical::new(comm, &how)?))
                }
            };
            contestants.push(Contestant {
                name: name.to_string(),
                wire,
                reduce,
            });
        }
    }
    let options = BenchOptions {
        lengths: (options.millions.iter())
            .map(|millions| values(*millions))
            .collect(),
        repetitions: repeat,
        link_mbit: options.link_mbit,
    };
    measure(comm, &mut contestants, &options)
}

/// Compares one of our methods with the library's fastest for the same vector.
fn as_row(own: &BenchRow, all: &[BenchRow]) -> Row {
    let is_library = |row: &BenchRow| row.name.starts_with("MPI");
    let peers = all
        .iter()
        .filter(|r| is_library(r) && r.values == own.values);
    let peer = peers.map(|row| row.seconds).min_by(f64::total_cmp);
    let name = format!(
        "{} {}, {:.2} M over {} x {} ranks",
        own.name,
        own.wire.name(),
        own.values as f64 / 1e6,
        own.nodes,
        own.ranks_per_node
    );
    let bound = match own.nodes {
        1 => "one pass over memory",
        _ => "a node's link",
    };
    let mut line = row_of_cpu(name, own.seconds, own.bound_seconds, bound);
    if let Some(peer) = peer.filter(|_| !is_library(own)) {
        line.peer = Some(peer);
        line.ratio = Some(peer / own.seconds);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four ranks; what one of them forgets is a quarter.
    #[test]
    fn what_is_off_by_more_than_rounding_is_wrong() {
        for (wire, error, wrong) in [
            (Wire::F32, 0.0, false),
            (Wire::F32, 2e-7, false),
            (Wire::F32, 1e-6, true),
            (Wire::Bf16, 4e-3, false),
            (Wire::Bf16, 0.25, true),
            (Wire::F16, 4e-3, true),
            (Wire::F32, f64::INFINITY, true),
            (Wire::F32, f64::NAN, true),
        ] {
            let row = BenchRow {
                name: "ring".into(),
                wire,
                values: 1000,
                nodes: 2,
                ranks_per_node: 2,
                seconds: 1.0,
                fastest_seconds: 1.0,
                slowest_seconds: 1.0,
                bytes_sent: 6000,
                bound_seconds: None,
                error,
            };
            assert_eq!(is_wrong(&row), wrong, "{wire:?} {error}");
        }
    }

    #[test]
    fn ours_stand_beside_the_fastest_of_the_library() {
        let row = |name: &str, values: usize, seconds: f64| BenchRow {
            name: name.into(),
            wire: Wire::F32,
            values,
            nodes: 2,
            ranks_per_node: 2,
            seconds,
            fastest_seconds: seconds,
            slowest_seconds: seconds,
            bytes_sent: 6000,
            bound_seconds: Some(0.5),
            error: 0.0,
        };
        // The library was faster on a shorter vector, and slower in pieces.
        let all = [
            row("ring", 1000, 2.0),
            row("MPI", 1000, 1.0),
            row("MPI in pieces", 1000, 3.0),
            row("MPI", 10, 0.25),
        ];
        let ours = as_row(&all[0], &all);
        assert_eq!((ours.peer, ours.ratio), (Some(1.0), Some(0.5)));
        assert_eq!(ours.ceiling_percent, Some(25.0));
        let theirs = as_row(&all[1], &all);
        assert_eq!((theirs.peer, theirs.ratio), (None, None));
    }

    #[test]
    fn a_vector_is_as_long_as_was_asked_for() {
        for (asked, expected) in [("1.001", 1_001_000), ("16.4", 16_400_000), ("1e-6", 1)] {
            let millions = millions(asked).expect("a length");
            assert_eq!(values(millions), expected, "{asked}");
        }
    }
}
