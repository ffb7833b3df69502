//! Gradients on their way between ranks: buckets leave while the backward pass runs, and come back as averages.
//!
//! No bucket is copied. One in host memory is moved: the communication thread owns it until it puts the sums back. One
//! on a GPU is lent, if the engine sums there: no value comes to the host, and what is computed next waits for the sums
//! on the GPU.

use super::team::OnStall;
use super::timeline::Timeline;
use crate::comm::reducer::{Plan, Reducer};
use crate::comm::{AllReduce, Watchdog, lock};
use crate::error::Result;
use squall_model::gradients::Lent;
use squall_model::{Gradients, ModelError};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Buckets on their way.
pub(super) struct Exchange {
    reducer: Arc<Mutex<Reducer>>,
    /// Where each bucket belongs; the facts come after the last.
    ranges: Vec<Range<usize>>,
    /// Why a bucket could not be lent.
    failed: Arc<Mutex<Option<ModelError>>>,
    _watchdog: Watchdog,
}

/// What an exchange begins with.
pub(super) struct Setup {
    pub engine: Box<dyn AllReduce>,
    /// Of buckets with the lengths of `ranges`, and of the facts last.
    pub plan: Plan,
    /// Where each bucket belongs.
    pub ranges: Vec<Range<usize>>,
    /// Whether buckets that lie on a GPU are lent.
    pub lends: bool,
    /// A longer wait is reported as a stall.
    pub limit: Duration,
    pub on_stall: OnStall,
}

impl Exchange {
    /// Begins to take gradients.
    pub fn start(setup: Setup, gradients: &mut Gradients) -> Result<Self> {
        let Setup {
            engine,
            plan,
            ranges,
            lends,
            limit,
            on_stall,
        } = setup;
        let (rank, scale) = (plan.rank, plan.scale);
        let reducer = Reducer::start(engine, plan)?;
        let watchdog = Watchdog::start(reducer.progress_reader(), rank, limit, on_stall)?;
        let exchange = Self {
            reducer: Arc::new(Mutex::new(reducer)),
            ranges: ranges.clone(),
            failed: Arc::default(),
            _watchdog: watchdog,
        };
        let (sender, failed) = (Arc::clone(&exchange.reducer), Arc::clone(&exchange.failed));
        let borrower = move |bucket: usize, lent: squall_model::error::Result<Lent>| match lent {
            // An error here is returned again where the results are waited for.
            Ok(lent) => {
                let _ = lock(&sender).submit_lent(bucket, lent);
            }
            Err(error) => {
                lock(&failed).get_or_insert(error);
            }
        };
        if lends && gradients.lend(ranges.clone(), scale, Box::new(borrower)) {
            return Ok(exchange);
        }
        let sender = Arc::clone(&exchange.reducer);
        let taker = move |bucket: usize, values: Vec<f32>| {
            let _ = lock(&sender).submit(bucket, values);
        };
        gradients.give(ranges, Box::new(taker));
        Ok(exchange)
    }

    /// Notes to which step the next buckets belong.
    pub fn set_step(&self, step: u64) {
        lock(&self.reducer).set_step(step);
    }

    /// Ends a step's buckets with facts of it.
    pub fn submit_facts(&self, facts: Vec<f32>) -> Result<()> {
        if let Some(error) = lock(&self.failed).take() {
            return Err(error.into());
        }
        Ok(lock(&self.reducer).submit(self.ranges.len(), facts)?)
    }

    /// Waits for the buckets of the oldest step under way, puts them in their places and gives the averages of the
    /// facts.
    pub fn collect(&self, gradients: &mut Gradients, timeline: &mut Timeline) -> Result<Vec<f32>> {
        loop {
            let Some(reduced) = lock(&self.reducer).wait()? else {
                return Ok(Vec::new());
            };
            timeline.bucket(&reduced);
            let Some(range) = self.ranges.get(reduced.bucket) else {
                return Ok(reduced.values);
            };
            if let Some(lent) = &reduced.lent {
                gradients.take_back(lent)?;
                continue;
            }
            gradients.put(range, reduced.values)?;
        }
    }
}
