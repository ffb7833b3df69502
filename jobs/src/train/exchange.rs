//! Gradient exchange between ranks: buckets are sent while the backward pass runs and come back averaged.
//!
//! Buckets are never copied. A bucket in host memory is moved: the communication thread owns it until it returns the
//! sums. A bucket on a GPU is lent if the engine sums on GPUs: its values stay on the device, and later kernels wait
//! there for the sums.

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

/// Buckets in flight.
pub(super) struct Exchange {
    reducer: Arc<Mutex<Reducer>>,
    /// The range of each bucket in the flat gradient; the facts follow the last bucket.
    ranges: Vec<Range<usize>>,
    /// The error that prevented lending a bucket.
    failed: Arc<Mutex<Option<ModelError>>>,
    _watchdog: Watchdog,
}

/// Settings of an exchange.
pub(super) struct Setup {
    pub engine: Box<dyn AllReduce>,
    /// Covers buckets with the lengths of `ranges`, then the facts.
    pub plan: Plan,
    /// The range of each bucket in the flat gradient.
    pub ranges: Vec<Range<usize>>,
    /// Whether buckets that lie on a GPU are lent.
    pub lends: bool,
    /// Waits longer than this are reported as stalls.
    pub limit: Duration,
    pub on_stall: OnStall,
}

impl Exchange {
    /// Starts the exchange.
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
            // `collect` returns this error again.
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

    /// Sets the step that the next buckets belong to.
    pub fn set_step(&self, step: u64) {
        lock(&self.reducer).set_step(step);
    }

    /// Submits the facts of a step after its last bucket.
    pub fn submit_facts(&self, facts: Vec<f32>) -> Result<()> {
        if let Some(error) = lock(&self.failed).take() {
            return Err(error.into());
        }
        Ok(lock(&self.reducer).submit(self.ranges.len(), facts)?)
    }

    /// Waits for the buckets of the oldest step in flight, puts them into the gradient buffer and returns the averaged
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
