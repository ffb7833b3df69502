//! Benchmarks all-reduce methods side by side in one run.

use super::collectives::values;
use super::{AllReduce, Communicator, Layout, Result, Wire};
use serde::Serialize;
use std::time::Instant;

/// A method to measure.
pub struct Contestant {
    /// Its name in tables.
    pub name: String,
    /// The number format on the wire.
    pub wire: Wire,
    /// The method itself.
    pub reduce: Box<dyn AllReduce>,
}

/// Settings of the benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchOptions {
    /// Lengths of vectors, in values.
    pub lengths: Vec<usize>,
    /// Runs per method and length, of which the median counts; one warm-up run precedes them.
    pub repetitions: usize,
    /// Bandwidth of a node's link per direction, in 10⁶ bits per second, if known.
    pub link_mbit: Option<f64>,
}

/// A row of the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchRow {
    /// The method.
    pub name: String,
    /// The number format on the wire.
    pub wire: Wire,
    /// Length of the vector in values.
    pub values: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Ranks per node.
    pub ranks_per_node: usize,
    /// Median over the runs of the slowest rank's time.
    pub seconds: f64,
    /// Shortest of these times.
    pub fastest_seconds: f64,
    /// Longest of these times.
    pub slowest_seconds: f64,
    /// Maximum over ranks of the bytes sent for one sum.
    pub bytes_sent: u64,
    /// Lower bound of the time. On several nodes with known links: what every node must send, 2 (N - 1) / N of the
    /// vector, at full rate. On one node: one concurrent pass of all ranks over their vectors, as measured between the
    /// methods.
    pub bound_seconds: Option<f64>,
    /// Maximum deviation from the exact average, relative to the largest average.
    pub error: f64,
}

/// Returns a row for every length and method on rank 0, and none on the others; the slowest rank's times count.
///
/// Methods alternate within each repetition, so that other load on the machine affects all of them.
///
/// # Errors
/// Those of the backend.
pub fn measure(
    comm: &mut dyn Communicator,
    contestants: &mut [Contestant],
    options: &BenchOptions,
) -> Result<Vec<BenchRow>> {
    let mut node = comm.split_by_node()?;
    let layout = Layout::agree(comm, &mut *node)?;
    let mut rows = Vec::new();
    for &length in &options.lengths {
        let mut vector = vec![0.0; length];
        let mut lists = vec![Sample::default(); contestants.len()];
        let mut passes = Sample::default();
        for repetition in 0..=options.repetitions.max(1) {
            for (contestant, sample) in contestants.iter_mut().zip(&mut lists) {
                let times = &mut sample.seconds;
                fill(&mut vector, comm.rank());
                let before = contestant.reduce.bytes_sent();
                comm.barrier()?;
                let started = Instant::now();
                let scale = 1.0 / comm.size() as f32;
                contestant.reduce.all_reduce(&mut vector, scale)?;
                let seconds = started.elapsed().as_secs_f64();
                if repetition > 0 {
                    times.push(seconds);
                }
                sample.bytes = (contestant.reduce.bytes_sent() - before) as f64;
                sample.error = sample.error.max(error(&vector, comm.size()));
            }
            comm.barrier()?;
            let started = Instant::now();
            values::scale(&mut vector, 0.5);
            comm.barrier()?;
            if repetition > 0 {
                passes.seconds.push(started.elapsed().as_secs_f64());
            }
        }
        let memory = passes.slowest(comm)?.map(Sample::median);
        let share = 2.0 * (layout.nodes - 1) as f64 / layout.nodes as f64;
        for (contestant, sample) in contestants.iter().zip(lists) {
            let Some(worst) = sample.slowest(comm)? else {
                continue;
            };
            let wire_bytes = (length * contestant.wire.bytes()) as f64;
            let link = |mbit: f64| share * wire_bytes / (mbit * 1e6 / 8.0);
            rows.push(BenchRow {
                name: contestant.name.clone(),
                wire: contestant.wire,
                values: length,
                nodes: layout.nodes,
                ranks_per_node: layout.ranks_per_node,
                fastest_seconds: worst.seconds.iter().copied().fold(f64::INFINITY, f64::min),
                slowest_seconds: worst.seconds.iter().copied().fold(0.0, f64::max),
                bytes_sent: worst.bytes as u64,
                bound_seconds: match layout.nodes {
                    1 => memory,
                    _ => options.link_mbit.map(link),
                },
                error: worst.error,
                seconds: worst.median(),
            });
        }
    }
    Ok(rows)
}

/// Measurements of one method on one rank.
#[derive(Debug, Clone, Default)]
struct Sample {
    seconds: Vec<f64>,
    bytes: f64,
    error: f64,
}

impl Sample {
    fn median(mut self) -> f64 {
        self.seconds.sort_by(f64::total_cmp);
        self.seconds[self.seconds.len() / 2]
    }

    /// The maximum of every figure over all ranks, on rank 0.
    fn slowest(self, comm: &mut dyn Communicator) -> Result<Option<Self>> {
        let mut figures = self.seconds;
        figures.extend([self.bytes, self.error]);
        if comm.rank() > 0 {
            comm.send(0, bytemuck::cast_slice(&figures))?;
            return Ok(None);
        }
        let mut theirs = vec![0.0; figures.len()];
        for rank in 1..comm.size() {
            comm.receive(rank, bytemuck::cast_slice_mut(&mut theirs))?;
            for (figure, their) in figures.iter_mut().zip(&theirs) {
                *figure = figure.max(*their);
            }
        }
        let error = figures.pop().unwrap_or_default();
        let bytes = figures.pop().unwrap_or_default();
        Ok(Some(Self {
            seconds: figures,
            bytes,
            error,
        }))
    }
}

/// Fills in values that differ between ranks and positions and have known averages.
fn fill(values: &mut [f32], rank: usize) {
    for (at, value) in values.iter_mut().enumerate() {
        *value = (at % 61) as f32 + rank as f32;
    }
}

/// Maximum deviation from the averages of [`fill`], relative to the largest average.
fn error(values: &[f32], ranks: usize) -> f64 {
    let shift = (ranks - 1) as f32 / 2.0;
    let worst = values
        .iter()
        .enumerate()
        .map(|(at, value)| (value - ((at % 61) as f32 + shift)).abs())
        // NaN counts as an infinite deviation.
        .map(|off| if off.is_nan() { f32::INFINITY } else { off })
        .fold(0.0, f32::max);
    f64::from(worst / (60.0 + shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::collectives::Choice;
    use crate::comm::{Flat, Hierarchical, HierarchicalOptions, threads};

    #[test]
    fn what_is_no_number_is_as_wrong_as_can_be() {
        // Averages of two ranks: 0.5, 1.5, 2.5.
        assert_eq!(error(&[0.5, 1.5, 2.5], 2), 0.0);
        assert_eq!(error(&[0.5, 1.5, 3.5], 2), f64::from(1f32 / 60.5));
        assert_eq!(error(&[0.5, f32::NAN, 2.5], 2), f64::INFINITY);
    }

    #[test]
    fn rank_0_has_a_row_for_every_method_and_length() {
        let options = BenchOptions {
            lengths: vec![1000, 4000],
            repetitions: 3,
            link_mbit: Some(100.0),
        };
        let rows = threads::run(threads::nodes(&[2, 2]), |mut rank| {
            let hierarchical = HierarchicalOptions {
                wire: Wire::Bf16,
                ..HierarchicalOptions::default()
            };
            let mut contestants = [
                Contestant {
                    name: "ring".into(),
                    wire: Wire::F32,
                    reduce: Box::new(Flat::new(&mut rank, Choice::Ring, Wire::F32)?),
                },
                Contestant {
                    name: "hierarchical".into(),
                    wire: Wire::Bf16,
                    reduce: Box::new(Hierarchical::new(&mut rank, &hierarchical)?),
                },
            ];
            measure(&mut rank, &mut contestants, &options)
        });
        let rows: Vec<Vec<BenchRow>> = rows
            .into_iter()
            .collect::<Result<_>>()
            .expect("ranks that talk");
        assert!(rows[1..].iter().all(Vec::is_empty));
        let [ring, hierarchical, longer, _] = rows[0].as_slice() else {
            panic!("{} rows", rows[0].len())
        };
        assert_eq!((ring.nodes, ring.ranks_per_node), (2, 2));
        // 2 (P - 1) / P of the vector for a ring of P ranks; half of it, shared by two leaders, in two bytes a value.
        assert_eq!(ring.bytes_sent, 6 * 4 * 1000 / 4);
        assert_eq!(hierarchical.bytes_sent, 2 * 1000 / 2);
        assert_eq!(longer.bytes_sent, 4 * ring.bytes_sent);
        assert_eq!(ring.error, 0.0);
        assert!(hierarchical.error < 4e-3, "{}", hierarchical.error);
        // One vector of 4000 bytes through a link of 12.5 MB/s.
        assert_eq!(ring.bound_seconds, Some(4000.0 / 12.5e6));
        assert_eq!(hierarchical.bound_seconds, Some(2000.0 / 12.5e6));
        assert!(ring.fastest_seconds <= ring.seconds && ring.seconds <= ring.slowest_seconds);
    }
}
