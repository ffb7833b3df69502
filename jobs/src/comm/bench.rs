//! How long sums over ranks take, method beside method in the same run.

use super::collectives::values;
use super::{AllReduce, Communicator, Layout, Result, Wire};
use serde::Serialize;
use std::time::Instant;

/// A method to measure.
pub struct Contestant {
    /// How it is called in tables.
    pub name: String,
    /// What it sends values as.
    pub wire: Wire,
    /// The method itself.
    pub reduce: Box<dyn AllReduce>,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchOptions {
    /// Lengths of vectors, in values.
    pub lengths: Vec<usize>,
    /// How often each method sums each length; the median counts. One more comes before, to warm up.
    pub repetitions: usize,
    /// The rate of a node's link in each direction, in 10⁶ bits per second, where it is known.
    pub link_mbit: Option<f64>,
}

/// One line of the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchRow {
    /// The method.
    pub name: String,
    /// What it sent values as.
    pub wire: Wire,
    /// Length of the vector in values.
    pub values: usize,
    /// Nodes.
    pub nodes: usize,
    /// Ranks on each.
    pub ranks_per_node: usize,
    /// Median over the repetitions of the time of the slowest rank.
    pub seconds: f64,
    /// The shortest of these times.
    pub fastest_seconds: f64,
    /// The longest of these times.
    pub slowest_seconds: f64,
    /// The most bytes that a rank sent for one sum.
    pub bytes_sent: u64,
    /// The time that any method needs. On several nodes whose links are known: what every node must send, 2 (N - 1) / N
    /// of the vector, at full rate. On one node: one pass of all ranks at once over their vectors, as measured between
    /// the methods.
    pub bound_seconds: Option<f64>,
    /// Largest difference from the exact average, relative to the largest average.
    pub error: f64,
}

/// A row for every length and method on rank 0, none on the others; the slowest rank's times count.
///
/// Methods take turns within a repetition, so that what else the machine does hits all of them.
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

/// What one rank saw of one method.
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

    /// The largest of every figure over all ranks, on rank 0.
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

/// Values that differ between ranks and positions, and whose averages are known.
fn fill(values: &mut [f32], rank: usize) {
    for (at, value) in values.iter_mut().enumerate() {
        *value = (at % 61) as f32 + rank as f32;
    }
}

/// Largest difference from the averages of what [`fill`] gave, relative to the largest average.
fn error(values: &[f32], ranks: usize) -> f64 {
    let shift = (ranks - 1) as f32 / 2.0;
    let worst = values
        .iter()
        .enumerate()
        .map(|(at, value)| (value - ((at % 61) as f32 + shift)).abs())
        // What is no number is as far off as can be.
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
