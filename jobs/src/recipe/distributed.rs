//! How several ranks train one network.

use crate::comm::Wire;
use crate::comm::collectives::Choice;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How gradients are summed over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Inside nodes first where several ranks share one, else by the length of a bucket and the number of ranks; of
    /// gradients on GPUs as `nccl`, where the program and the machine have it.
    #[default]
    Auto,
    /// A ring over all ranks: least traffic, a latency for each rank.
    Ring,
    /// Recursive halving and doubling: few messages, for many ranks.
    Halving,
    /// Inside each node, between nodes by shards, inside again.
    Hierarchical,
    /// Over rows and columns of ranks, as nearly square as their number allows.
    Grid,
    /// As hierarchical, by NVIDIA's NCCL inside nodes, with a GPU for each rank (feature `nccl`).
    Nccl,
}

/// How the learning rate grows with the number of samples of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateScaling {
    /// It does not: the recipe's rate is for the samples of a whole step.
    #[default]
    None,
    /// In proportion to the samples of a step over `training.batch` (Goyal et al. 2017, arXiv:1706.02677).
    Linear,
    /// By the square root of that ratio (Krizhevsky 2014, arXiv:1404.5997).
    Sqrt,
}

impl RateScaling {
    /// The factor of the learning rate for a step of `times` times `training.batch` samples.
    pub fn factor(self, times: f32) -> f32 {
        match self {
            Self::None => 1.0,
            Self::Linear => times,
            Self::Sqrt => times.sqrt(),
        }
    }
}

/// Which group's gradients a parameter server takes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// What arrives first.
    #[default]
    Arrival,
    /// One group after the other: the same bits in every run, at the pace of the slowest.
    RoundRobin,
}

/// The momentum that servers of parameters add to that of asynchrony.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Momentum {
    /// This value.
    Is(f32),
    /// By a rule.
    As(MomentumRule),
}

/// How the momentum of servers of parameters is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MomentumRule {
    /// The optimiser's momentum reduced by that of asynchrony; SGD's rate is raised, because a gradient then moves
    /// parameters less.
    Tuned,
}

/// How several ranks train one network. One rank ignores all of it but `gradient_lag`, `global_batch` and `rate_scaling`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Distributed {
    /// Number of groups of ranks that train asynchronously: the ranks of a group average their gradients, and groups
    /// exchange them for fresh parameters with servers, without waiting for each other. A step is then a step of one
    /// group, and all groups share the steps of the run. Default none: all ranks are one group, without servers.
    pub groups: Option<usize>,
    /// With groups: number of ranks, the first ones, that hold the parameters and do not compute. The others must
    /// divide evenly into groups of consecutive ranks. Default 1.
    pub servers: usize,
    /// With groups: `"arrival"` or `"round-robin"`. Default `"arrival"`.
    pub order: Order,
    /// With groups: SGD's momentum (Adam's and LAMB's beta1) on the servers, a number or `"tuned"`: the optimiser's
    /// momentum reduced by that of asynchrony, 1 - 1 / groups, with SGD's rate raised to compensate. Default: the
    /// optimiser's.
    pub momentum: Option<Momentum>,
    /// Samples of a step over all ranks (of a group), and over all batches of `training.accumulate`, instead of
    /// `training.batch` for each; the number of ranks (times that of batches) must divide it, and
    /// `detection.unlabelled_per_batch`, which counts samples of it. Any number of ranks then takes the same samples in
    /// the same steps, and a run may be continued on another number. What is learnt is the same up to rounding, unless
    /// dropout or batch normalisation with `norm_ranks` below the number of ranks depend on who has which sample. Default
    /// none.
    pub global_batch: Option<usize>,
    /// How gradients are summed. Default `"auto"`.
    pub algorithm: Algorithm,
    /// What gradients are sent as: `"f32"`, `"bf16"` or `"f16"`; sums are f32. `"f16"` is for gradients that a loss
    /// scale has made large (`precision.loss_scale`, that of `"f16"`): of those below 6e-5 it loses digits, and those
    /// below 3e-8 become zero. Default `"f32"`.
    pub wire: Wire,
    /// Ranks of a node that send to other nodes. Default: all of them.
    pub leaders: Option<usize>,
    /// How sums go between nodes, and along the columns of a grid: `"ring"`, `"halving"`, or `"auto"` by the length of
    /// what is sent and the number of nodes. Default `"auto"`.
    pub between: Choice,
    /// Rows and columns of `algorithm = "grid"`. Default: as nearly square as the number of ranks allows.
    pub grid: Option<(usize, usize)>,
    /// Megabytes, about, of the buckets in which gradients are sent while the backward pass goes on. Default 16.
    pub bucket_mb: f64,
    /// 0: parameters change by the gradients of their own step. 1: by those of the step before, so that communication
    /// has a whole step's time; the first step changes nothing. Default 0.
    pub gradient_lag: usize,
    /// Number of consecutive ranks that share the statistics of batch normalisation; 1: each rank has its own; 0: all
    /// ranks share them. It must divide the number of ranks. Default 1.
    pub norm_ranks: usize,
    /// How the learning rate grows with the samples of a step, beyond `training.batch`. Default `"none"`.
    pub rate_scaling: RateScaling,
    /// Steps between checks that all ranks hold the same bits. Default 100.
    pub check_every_steps: u64,
    /// Seconds that a rank waits for another, in sums of gradients and everywhere else, before the job is ended with a
    /// diagnosis; ten times as long while the first rank reads or writes the run's files. Default 120.
    pub stall_seconds: f64,
}

impl Default for Distributed {
    fn default() -> Self {
        Self {
            groups: None,
            servers: 1,
            order: Order::default(),
            momentum: None,
            global_batch: None,
            algorithm: Algorithm::default(),
            wire: Wire::default(),
            leaders: None,
            between: Choice::Auto,
            grid: None,
            bucket_mb: 16.0,
            gradient_lag: 0,
            norm_ranks: 1,
            rate_scaling: RateScaling::default(),
            check_every_steps: 100,
            stall_seconds: 120.0,
        }
    }
}

impl Distributed {
    /// Rejects what is invalid for any number of ranks: key, expected and found.
    pub(super) fn check(&self) -> Result<(), String> {
        let counts = [
            ("groups", self.groups),
            ("servers", Some(self.servers)),
            ("global_batch", self.global_batch),
            ("leaders", self.leaders),
            ("check_every_steps", Some(self.check_every_steps as usize)),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            return Err(format!("`distributed.{key}`: expected 1 or more, found 0"));
        }
        if self.grid.is_some() && self.algorithm != Algorithm::Grid {
            return Err("`distributed.grid`: expected with `algorithm = \"grid\"` only".into());
        }
        if self.gradient_lag > 1 {
            return Err(format!(
                "`distributed.gradient_lag`: expected 0 or 1, found {}",
                self.gradient_lag
            ));
        }
        if self.groups.is_some() && self.gradient_lag > 0 {
            return Err(format!(
                "`distributed.gradient_lag`: expected 0 with groups, whose gradients are late anyway, found {}",
                self.gradient_lag
            ));
        }
        if let Some(Momentum::Is(momentum)) = self.momentum
            && !(0.0..1.0).contains(&momentum)
        {
            return Err(format!(
                "`distributed.momentum`: expected `tuned` or [0, 1), found {momentum}"
            ));
        }
        let positive = [
            ("bucket_mb", self.bucket_mb),
            ("stall_seconds", self.stall_seconds),
        ];
        for (key, value) in positive {
            if value.is_nan() || value <= 0.0 {
                return Err(format!(
                    "`distributed.{key}`: expected above 0, found {value}"
                ));
            }
        }
        Ok(())
    }

    /// How many of `ranks` do a step together: those of a group, or all. A single rank has no groups.
    ///
    /// # Errors
    /// Key, expected and found, if no ranks are left to compute or they do not divide evenly into groups.
    pub fn step_ranks(&self, ranks: usize) -> Result<usize, String> {
        match self.groups {
            Some(groups) if ranks > 1 => ranks_per_group(ranks, groups, self.servers),
            _ => Ok(ranks),
        }
    }

    /// How many of `ranks` share the statistics of batch normalisation.
    pub fn norm_ranks(&self, ranks: usize) -> usize {
        match self.norm_ranks {
            0 => ranks,
            some => some,
        }
    }

    /// Samples per step relative to `training.batch`: the number of batches over all ranks, unless there is a global
    /// batch.
    pub fn batches(&self, batch: usize, batches: usize) -> f32 {
        match self.global_batch {
            Some(global) => global as f32 / batch as f32,
            None => batches as f32,
        }
    }

    /// `stall_seconds` as a duration; unlimited if it exceeds what a clock can represent.
    pub fn longest_wait(&self) -> Duration {
        Duration::try_from_secs_f64(self.stall_seconds).unwrap_or(Duration::MAX)
    }

    /// Values of a bucket.
    pub fn bucket_values(&self) -> usize {
        ((self.bucket_mb * 1e6 / 4.0) as usize).max(1)
    }
}

/// Ranks per group if `servers` of the `world` ranks hold the parameters and the others compute.
///
/// # Errors
/// Key, expected and found, if no ranks are left to compute or they do not divide evenly.
pub(crate) fn ranks_per_group(
    world: usize,
    groups: usize,
    servers: usize,
) -> Result<usize, String> {
    let workers = world.saturating_sub(servers);
    if groups == 0 || workers == 0 || !workers.is_multiple_of(groups) {
        return Err(format!(
            "`distributed.groups`: expected {servers} servers and a multiple of {groups} other ranks, found {world} ranks"
        ));
    }
    Ok(workers / groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_the_ranks_that_do_not_serve() {
        let all = Distributed::default();
        assert_eq!(all.step_ranks(6), Ok(6));
        let groups = Distributed {
            groups: Some(2),
            servers: 2,
            ..Distributed::default()
        };
        assert_eq!((groups.step_ranks(6), groups.step_ranks(1)), (Ok(2), Ok(1)));
        for ranks in [2, 5] {
            let reason = groups.step_ranks(ranks).unwrap_err();
            assert!(reason.contains("`distributed.groups`"), "{reason}");
            assert!(reason.contains(&format!("found {ranks} ranks")), "{reason}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        let zero = Distributed {
            leaders: Some(0),
            ..Distributed::default()
        };
        assert!(zero.check().unwrap_err().contains("distributed.leaders"));
        let shape = Distributed {
            grid: Some((2, 3)),
            ..Distributed::default()
        };
        assert!(shape.check().unwrap_err().contains("distributed.grid"));
        let lag = Distributed {
            gradient_lag: 2,
            ..Distributed::default()
        };
        assert!(lag.check().unwrap_err().contains("0 or 1, found 2"));
        let late = Distributed {
            groups: Some(2),
            gradient_lag: 1,
            ..Distributed::default()
        };
        assert!(late.check().unwrap_err().contains("0 with groups"));
        let heavy = Distributed {
            momentum: Some(Momentum::Is(1.0)),
            ..Distributed::default()
        };
        assert!(heavy.check().unwrap_err().contains("`tuned` or [0, 1)"));
    }

    #[test]
    fn momentum_is_a_number_or_a_word() {
        let read = |text: &str| toml::from_str::<Distributed>(text).map(|d| d.momentum);
        assert_eq!(read("momentum = 0.25"), Ok(Some(Momentum::Is(0.25))));
        assert_eq!(
            read("momentum = 'tuned'"),
            Ok(Some(Momentum::As(MomentumRule::Tuned)))
        );
        assert!(read("momentum = 'much'").is_err());
        let whole = Distributed {
            momentum: Some(Momentum::As(MomentumRule::Tuned)),
            order: Order::RoundRobin,
            ..Distributed::default()
        };
        let text = toml::to_string(&whole).unwrap();
        assert!(text.contains("order = \"round-robin\""), "{text}");
        assert_eq!(toml::from_str(&text), Ok(whole));
    }

    #[test]
    fn a_wait_may_be_as_long_as_a_number_can_say() {
        let with = |stall_seconds| Distributed {
            stall_seconds,
            ..Distributed::default()
        };
        assert_eq!(with(1.5).longest_wait(), Duration::from_millis(1500));
        assert_eq!(with(1e300).longest_wait(), Duration::MAX);
    }

    /// Values of four bytes; a megabyte is a million of them.
    #[test]
    fn buckets_are_as_large_as_asked_for() {
        let with = |bucket_mb| Distributed {
            bucket_mb,
            ..Distributed::default()
        };
        assert_eq!(Distributed::default().bucket_values(), 4_000_000);
        assert_eq!(with(0.1).bucket_values(), 25_000);
        assert_eq!(with(1e-9).bucket_values(), 1);
    }

    #[test]
    fn rates_grow_as_published() {
        assert_eq!(RateScaling::Linear.factor(16.0), 16.0);
        assert_eq!(RateScaling::Sqrt.factor(16.0), 4.0);
        assert_eq!(RateScaling::None.factor(16.0), 1.0);
    }

    /// A run that goes on with another number of ranks keeps its rate where the samples of a step stay.
    #[test]
    fn rates_follow_the_samples_of_a_step() {
        let each = Distributed::default();
        assert_eq!((each.batches(2, 1), each.batches(2, 8)), (1.0, 8.0));
        let global = Distributed {
            global_batch: Some(12),
            ..Distributed::default()
        };
        assert_eq!((global.batches(2, 1), global.batches(2, 4)), (6.0, 6.0));
    }
}
