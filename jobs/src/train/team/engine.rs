//! The reductions of a step: gradient buckets, facts and batch statistics.

use crate::comm::collectives::{Choice, tree};
use crate::comm::{
    AllReduce, CommError, Communicator, Flat, Grid, Hierarchical, HierarchicalOptions, Phase,
    doing, lock,
};
use crate::error::Result;
use crate::recipe::{Algorithm, Distributed};
use squall_model::ModelError;
use squall_model::gradients::Lent;
use squall_model::ops::norm::BatchNormRanks;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The all-reduce engine for gradient buckets that the recipe selects.
pub(super) fn engine(
    comm: &mut dyn Communicator,
    options: &Distributed,
    on_gpu: bool,
) -> Result<Box<dyn AllReduce>> {
    let by_nodes = &HierarchicalOptions {
        leaders: options.leaders,
        wire: options.wire,
        between: options.between,
        ..HierarchicalOptions::default()
    };
    let (between, wire) = (options.between, options.wire);
    if on_gpu && options.algorithm == Algorithm::Auto && cfg!(feature = "nccl") {
        // It fails on all ranks or on none.
        match nccl(comm, by_nodes) {
            Ok(engine) => return Ok(engine),
            Err(error) => tracing::warn!("gradients come to the host to be summed: {error}"),
        }
    }
    Ok(match options.algorithm {
        Algorithm::Ring => Box::new(Flat::new(comm, Choice::Ring, wire)?),
        Algorithm::Halving => Box::new(Flat::new(comm, Choice::Halving, wire)?),
        Algorithm::Grid => match options.grid {
            Some(shape) => Box::new(Grid::new(comm, shape, between, wire)?),
            None => Box::new(Grid::square(comm, between, wire)?),
        },
        Algorithm::Nccl => nccl(comm, by_nodes)?,
        Algorithm::Hierarchical => Box::new(Hierarchical::new(comm, by_nodes)?),
        Algorithm::Auto => match Hierarchical::new(comm, by_nodes) {
            Ok(hierarchical) => Box::new(hierarchical),
            Err(CommError::Layout(reason)) if options.leaders.is_none() => {
                tracing::warn!("gradients are summed without regard to nodes: {reason}");
                Box::new(Flat::new(comm, Choice::Auto, wire)?)
            }
            Err(other) => return Err(other.into()),
        },
    })
}

/// NCCL inside nodes, messages between them.
#[cfg(feature = "nccl")]
fn nccl(comm: &mut dyn Communicator, options: &HierarchicalOptions) -> Result<Box<dyn AllReduce>> {
    Ok(Box::new(crate::comm::Nccl::inside_nodes(comm, options)?))
}

#[cfg(not(feature = "nccl"))]
fn nccl(_: &mut dyn Communicator, _: &HierarchicalOptions) -> Result<Box<dyn AllReduce>> {
    Err(crate::error::JobError::recipe(
        "`distributed.algorithm` is nccl, but this program was built without it (its feature `nccl`)".into(),
    ))
}

/// Reduces buckets of gradients with one engine and the facts, a bucket of their own, with another.
pub(super) struct WithFacts {
    pub(super) buckets: Box<dyn AllReduce>,
    pub(super) facts: Box<dyn AllReduce>,
    /// The place of the facts in the plan.
    pub(super) facts_bucket: usize,
}

impl AllReduce for WithFacts {
    fn all_reduce(&mut self, _: &mut [f32], _: f32) -> crate::comm::Result<()> {
        let reason = "gradients and facts are summed by bucket: this is a bug";
        Err(CommError::Layout(reason.into()))
    }

    fn all_reduce_bucket(
        &mut self,
        bucket: usize,
        values: &mut [f32],
        scale: f32,
    ) -> crate::comm::Result<()> {
        if bucket == self.facts_bucket {
            self.facts.all_reduce(values, scale)
        } else {
            self.buckets.all_reduce(values, scale)
        }
    }

    // Those of the facts are not told; the last bucket's are taken before the facts come.
    fn take_phases(&mut self) -> Vec<Phase> {
        self.buckets.take_phases()
    }

    fn takes_lent(&self) -> bool {
        self.buckets.takes_lent()
    }

    fn all_reduce_lent(&mut self, values: &Lent) -> crate::comm::Result<()> {
        self.buckets.all_reduce_lent(values)
    }

    fn settle(&mut self) -> crate::comm::Result<()> {
        self.buckets.settle()
    }

    fn bytes_sent(&self) -> u64 {
        self.buckets.bytes_sent() + self.facts.bytes_sent()
    }

    fn describe(&self) -> String {
        self.buckets.describe()
    }
}

/// Consecutive ranks that share batch statistics.
pub(super) struct Group {
    pub(super) comm: Mutex<Box<dyn Communicator>>,
    pub(super) waited: Arc<AtomicU64>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group of {}", lock(&self.comm).size())
    }
}

impl BatchNormRanks for Group {
    fn sum(&self, values: &mut [f64]) -> squall_model::error::Result<()> {
        let mut comm = lock(&self.comm);
        let _doing = doing::begin("statistics of batch normalisation");
        let since = Instant::now();
        let summed = tree::all_fold(&mut **comm, values, |total, value| *total += value);
        let taken = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(taken, Ordering::Relaxed);
        summed.map_err(|error| ModelError::BatchNormRanks(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::reducer::{Plan, Reducer};
    use crate::comm::threads;
    use crate::error::JobError;
    use crate::recipe::Recipe;

    /// What the engine of ranks on such nodes says of itself, or why there is none.
    fn described(nodes: &[usize], settings: &str) -> std::result::Result<String, String> {
        let settings = settings.split_whitespace();
        let settings: Vec<String> = settings.map(|key| format!("distributed.{key}")).collect();
        let options = Recipe::parse("", &settings).unwrap().distributed;
        let mut all = threads::run(threads::nodes(nodes), |mut rank| {
            let engine = engine(&mut rank, &options, false);
            let told = engine.map(|engine| engine.describe());
            told.map_err(|error| error.to_string())
        });
        all.swap_remove(0)
    }

    /// An engine that marks what it sums.
    struct Marks(f32);

    impl AllReduce for Marks {
        fn all_reduce(&mut self, values: &mut [f32], _: f32) -> crate::comm::Result<()> {
            values.fill(self.0);
            Ok(())
        }

        fn bytes_sent(&self) -> u64 {
            0
        }

        fn describe(&self) -> String {
            "marks".into()
        }
    }

    /// In the wire format of gradients facts would be wrong, and nothing would say so.
    #[test]
    fn facts_are_known_by_their_place_in_the_plan() {
        let mut engine = WithFacts {
            buckets: Box::new(Marks(1.0)),
            facts: Box::new(Marks(2.0)),
            facts_bucket: 2,
        };
        // Whatever came before.
        for (bucket, expected) in [(2, 2.0), (0, 1.0), (2, 2.0), (2, 2.0), (1, 1.0)] {
            let mut values = [0.0];
            engine.all_reduce_bucket(bucket, &mut values, 1.0).unwrap();
            assert_eq!(values, [expected], "{bucket}");
        }
        assert!(engine.all_reduce(&mut [0.0], 1.0).is_err());
        let plan = Plan {
            rank: 0,
            lengths: vec![3, 1, 2],
            scale: 1.0,
            cores: Vec::new(),
        };
        let mut reducer = Reducer::start(Box::new(engine), plan).unwrap();
        for _ in 0..2 {
            for (bucket, length, mark) in [(0, 3, 1.0), (1, 1, 1.0), (2, 2, 2.0)] {
                reducer.submit(bucket, vec![0.0; length]).unwrap();
                let reduced = reducer.wait().unwrap().unwrap();
                assert_eq!(reduced.values, vec![mark; length]);
            }
        }
    }

    /// The job ends where ranks of a group cannot communicate, in whichever part of a step.
    #[test]
    fn a_rank_that_is_gone_from_batch_normalisation_is_gone() {
        let mut all = threads::run(threads::nodes(&[2]), |rank| {
            let stays = rank.rank() == 0;
            let group = Group {
                comm: Mutex::new(Box::new(rank)),
                waited: Arc::default(),
            };
            stays.then(|| group.sum(&mut [1.0]).map_err(JobError::from))
        });
        let found = all.swap_remove(0);
        assert!(
            matches!(
                found,
                Some(Err(JobError::Comm(CommError::Gone { peer: 1, .. })))
            ),
            "{found:?}"
        );
    }

    /// Every engine gives the same sums: that another one was built would show in nothing but its speed.
    #[test]
    fn the_engine_is_that_of_the_recipe() {
        for (settings, expected) in [
            (
                "algorithm=ring wire=f16",
                "flat over 4 ranks, ring, f16 on the wire",
            ),
            (
                "algorithm=halving",
                "flat over 4 ranks, halving, f32 on the wire",
            ),
            (
                "algorithm=grid",
                "grid of 2 rows and 2 columns, auto, f32 on the wire",
            ),
            (
                "algorithm=grid grid=[1,4] between=ring wire=bf16",
                "grid of 1 rows and 4 columns, ring, bf16 on the wire",
            ),
        ] {
            let found = described(&[2, 2], settings);
            assert_eq!(found.as_deref(), Ok(expected), "{settings}");
        }
        for (settings, end) in [
            ("", ", 2 leaders, auto and f32 between"),
            (
                "leaders=1 wire=bf16 between=halving",
                ", 1 leaders, halving and bf16 between",
            ),
            (
                "algorithm=hierarchical wire=f16",
                ", 2 leaders, auto and f16 between",
            ),
        ] {
            let found = described(&[2, 2], settings).unwrap();
            let begin = "hierarchical: 2 nodes with 2 ranks, ";
            assert!(found.starts_with(begin) && found.ends_with(end), "{found}");
        }
        // Of unequal nodes none are made, unless the recipe counts on them.
        let flat = "flat over 3 ranks, auto, bf16 on the wire";
        assert_eq!(described(&[2, 1], "wire=bf16").as_deref(), Ok(flat));
        for settings in ["leaders=1", "algorithm=hierarchical"] {
            let refused = described(&[2, 1], settings).unwrap_err();
            assert!(refused.contains("equal numbers of ranks"), "{refused}");
        }
    }
}
