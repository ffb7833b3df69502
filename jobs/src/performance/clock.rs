//! Simulates steps with a virtual clock per rank, without computing anything.

use rand::Rng;
use squall_data::random::stream;

/// The properties of a step on each rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Computing time in seconds on a device of average speed.
    pub compute: f64,
    /// The share of the backward pass, which comes last.
    pub backward: f64,
    /// Gradient reductions in the order in which they are issued; they do not overlap.
    pub sums: Vec<BucketReduction>,
    /// Seconds to read the samples of a step, overlapped with computation.
    pub input: f64,
    /// 0: a step waits for its own reductions. 1: for those of the previous step.
    pub lag: usize,
    /// Ranks in a reduction.
    pub ranks: usize,
    /// Relative standard deviation of device speed.
    pub spread: f64,
    /// Mean random delay of a rank per step, as a share of computing time; exponentially distributed.
    pub jitter: f64,
}

/// A bucket of gradients and when it becomes ready.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketReduction {
    /// The share of the backward pass after which a rank has it.
    pub at: f64,
    /// Seconds to reduce it once all ranks have it.
    pub seconds: f64,
}

/// Parameter servers with which groups of ranks exchange gradients for parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Servers {
    /// Groups that share the servers.
    pub groups: usize,
    /// Seconds that an exchange occupies the servers.
    pub busy: f64,
    /// Seconds of an exchange on idle servers.
    pub exchange: f64,
    /// Seconds to distribute the parameters within a group.
    pub hand_round: f64,
}

impl Step {
    /// The same step without the cost of reductions.
    #[must_use]
    pub fn without_sums(mut self) -> Self {
        self.sums.clear();
        // An empty reduction remains, because it makes ranks wait for the slowest one.
        self.sums.push(BucketReduction {
            at: 1.0,
            seconds: 0.0,
        });
        self
    }
}

/// Batches prefetched beyond the current one.
const AHEAD: usize = 2;

/// Seconds between the ends of consecutive steps of all ranks. For groups with servers: between consecutive steps of
/// any group, times the number of groups.
#[must_use]
pub fn run(step: &Step, servers: Option<&Servers>, steps: usize, seed: u64) -> Vec<f64> {
    match servers {
        None => {
            let mut group = Group::new(step, seed, 0);
            let ends: Vec<f64> = (0..steps).map(|_| group.step(0.0)).collect();
            differences(&ends)
        }
        Some(servers) => in_groups(step, servers, steps, seed),
    }
}

fn differences(ends: &[f64]) -> Vec<f64> {
    let before = std::iter::once(0.0).chain(ends.iter().copied());
    ends.iter()
        .zip(before)
        .map(|(end, before)| end - before)
        .collect()
}

fn in_groups(step: &Step, servers: &Servers, steps: usize, seed: u64) -> Vec<f64> {
    let new = |index| Group::new(step, seed, index as u64);
    let mut groups: Vec<Group> = (0..servers.groups).map(new).collect();
    // When each group has reduced its gradients.
    let mut ready: Vec<f64> = groups.iter_mut().map(|group| group.step(0.0)).collect();
    let mut free = 0.0_f64;
    let mut ends = Vec::new();
    for _ in 0..steps * servers.groups {
        let earliest = (0..ready.len()).min_by(|a, b| ready[*a].total_cmp(&ready[*b]));
        let Some(group) = earliest else { break };
        let begin = ready[group].max(free);
        free = begin + servers.busy;
        let end = begin + servers.exchange.max(servers.busy) + servers.hand_round;
        ends.push(end);
        ready[group] = groups[group].step(end);
    }
    ends.sort_by(f64::total_cmp);
    let each = differences(&ends);
    each.iter()
        .map(|seconds| seconds * servers.groups as f64)
        .collect()
}

/// Ranks that reduce together.
struct Group<'a> {
    step: &'a Step,
    ranks: Vec<Rank>,
    /// For each bucket: the share of a step after which a rank has it.
    shares: Vec<f64>,
    /// When the last reduction of the previous step ended.
    summed: f64,
    /// Seed of the next step's random numbers.
    seed: u64,
    index: u64,
    done: u64,
}

/// One rank of a group.
struct Rank {
    /// Computing time of its device relative to the mean.
    pace: f64,
    /// When it can begin its next step, and when it began the last ones, in a ring buffer.
    clock: f64,
    began: [f64; AHEAD],
    /// When it finished reading its last batch.
    read: f64,
}

impl<'a> Group<'a> {
    fn new(step: &'a Step, seed: u64, index: u64) -> Self {
        let mut draws = stream(seed, "pace", &[index]);
        let ranks = (0..step.ranks).map(|_| Rank {
            pace: (1.0 + step.spread * normal(&mut draws)).max(0.5),
            clock: 0.0,
            began: [0.0; AHEAD],
            read: 0.0,
        });
        let shares = (step.sums.iter()).map(|sum| 1.0 - step.backward * (1.0 - sum.at));
        Self {
            step,
            ranks: ranks.collect(),
            shares: shares.collect(),
            summed: 0.0,
            seed,
            index,
            done: 0,
        }
    }

    /// Simulates a step that begins at `from` at the earliest; returns when it ends.
    fn step(&mut self, from: f64) -> f64 {
        let Step {
            compute,
            input,
            jitter,
            lag,
            ..
        } = *self.step;
        let mut slowest = Slowest::default();
        let mut last = 0.0_f64;
        let mut draws = stream(self.seed, "jitter", &[self.index, self.done]);
        let turn = (self.done % AHEAD as u64) as usize;
        self.done += 1;
        for rank in &mut self.ranks {
            // A batch is read as soon as there is room for it.
            rank.read = rank.read.max(rank.began[turn]) + input;
            let begin = rank.clock.max(rank.read).max(from);
            rank.began[turn] = begin;
            let held_up = if jitter > 0.0 {
                jitter * (exponential(&mut draws) - 1.0)
            } else {
                0.0
            };
            let takes = compute * (rank.pace + held_up).max(0.5);
            slowest.note(begin, takes);
            rank.clock = begin + takes;
            last = last.max(rank.clock);
        }
        let before = self.summed;
        for (sum, share) in self.step.sums.iter().zip(&self.shares) {
            self.summed = self.summed.max(slowest.all_after(*share)) + sum.seconds;
        }
        let awaited = if lag == 0 { self.summed } else { before };
        for rank in &mut self.ranks {
            rank.clock = rank.clock.max(awaited);
        }
        last.max(awaited)
    }
}

/// Start and duration of the steps of ranks that may end last. Out of thousands only a few remain: a step is dropped if
/// another one starts no earlier and takes no less time.
#[derive(Default)]
struct Slowest(Vec<(f64, f64)>);

impl Slowest {
    fn note(&mut self, begin: f64, takes: f64) {
        let as_slow = |other: &(f64, f64)| other.0 >= begin && other.1 >= takes;
        if !self.0.iter().any(as_slow) {
            (self.0).retain(|other| other.0 > begin || other.1 > takes);
            self.0.push((begin, takes));
        }
    }

    /// When all ranks have completed this share of their step.
    fn all_after(&self, share: f64) -> f64 {
        let ends = self.0.iter().map(|(begin, takes)| begin + takes * share);
        ends.fold(0.0, f64::max)
    }
}

/// The Box-Muller transform.
fn normal(draws: &mut impl Rng) -> f64 {
    let (u, v): (f64, f64) = (draws.random(), draws.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn exponential(draws: &mut impl Rng) -> f64 {
    let u: f64 = draws.random();
    -(1.0 - u).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Step {
        Step {
            compute: 1.0,
            backward: 2.0 / 3.0,
            sums: vec![
                BucketReduction {
                    at: 0.5,
                    seconds: 0.1,
                },
                BucketReduction {
                    at: 1.0,
                    seconds: 0.1,
                },
            ],
            input: 0.0,
            lag: 0,
            ranks: 4,
            spread: 0.0,
            jitter: 0.0,
        }
    }

    fn steady(step: &Step, servers: Option<&Servers>) -> f64 {
        let seconds = run(step, servers, 400, 3);
        seconds[100..].iter().sum::<f64>() / (seconds.len() - 100) as f64
    }

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-9,
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn the_last_reduction_is_not_hidden() {
        close(steady(&plain(), None), 1.1);
        let long = Step {
            sums: vec![
                BucketReduction {
                    at: 0.5,
                    seconds: 0.5,
                },
                BucketReduction {
                    at: 1.0,
                    seconds: 0.1,
                },
            ],
            ..plain()
        };
        // The first sum goes on from 2/3 to 7/6, the second follows.
        close(steady(&long, None), 2.0 / 3.0 + 0.6);
    }

    #[test]
    fn a_lag_of_one_step_hides_sums_up_to_a_whole_step() {
        let late = |seconds| Step {
            lag: 1,
            sums: vec![BucketReduction { at: 1.0, seconds }],
            ..plain()
        };
        close(steady(&late(0.9), None), 1.0);
        close(steady(&late(1.5), None), 1.5);
    }

    #[test]
    fn the_slower_of_reading_and_computing_counts() {
        let with = |input| Step { input, ..plain() };
        close(steady(&with(0.9), None), 1.1);
        let slow = steady(&with(1.6), None);
        close(slow, 1.6);
    }

    /// Mean of the largest of n normal values: Tippett's 2.5076 of 100, 3.2414 of 1,000.
    #[test]
    fn all_wait_for_the_slowest() {
        for (ranks, expected) in [(100, 2.5076), (1000, 3.2414)] {
            let step = Step {
                ranks,
                spread: 0.01,
                sums: vec![],
                ..plain()
            };
            let step = step.without_sums();
            let of_seeds = (0..200).map(|seed| run(&step, None, 1, seed)[0] - 1.0);
            let found = of_seeds.sum::<f64>() / 200.0 / 0.01;
            assert!((found - expected).abs() < 0.1, "{ranks}: {found}");
        }
    }

    /// The largest of n exponential values is their harmonic number on average.
    #[test]
    fn jitter_is_drawn_anew_in_every_step() {
        let step = Step {
            ranks: 1000,
            jitter: 0.02,
            sums: vec![],
            ..plain()
        }
        .without_sums();
        let found = (steady(&step, None) - 1.0) / 0.02 + 1.0;
        assert!((found - 7.485).abs() < 0.3, "{found}");
        let late = Step { lag: 1, ..step };
        assert!(steady(&late, None) < 1.0 + 0.02 * 5.0);
    }

    #[test]
    fn steps_left_out_are_never_the_last_to_end() {
        let mut draws = stream(5, "slowest", &[]);
        let steps: Vec<(f64, f64)> = (0..2000)
            .map(|_| (draws.random(), exponential(&mut draws)))
            .collect();
        let mut slowest = Slowest::default();
        (steps.iter()).for_each(|(begin, takes)| slowest.note(*begin, *takes));
        assert!((2..100).contains(&slowest.0.len()), "{}", slowest.0.len());
        for share in [0.0, 0.1, 1.0 / 3.0, 0.5, 0.9, 1.0] {
            let ends = steps.iter().map(|(begin, takes)| begin + share * takes);
            assert_eq!(slowest.all_after(share), ends.fold(0.0, f64::max));
        }
    }

    #[test]
    fn groups_share_servers() {
        let servers = |groups, busy| Servers {
            groups,
            busy,
            exchange: 0.1,
            hand_round: 0.1,
        };
        // Idle servers: everybody's step takes its own time.
        close(steady(&plain(), Some(&servers(4, 0.001))), 1.3);
        // Busy ones: as fast as they serve.
        close(steady(&plain(), Some(&servers(4, 0.5))), 4.0 * 0.5);
    }
}
