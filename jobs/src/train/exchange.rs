//! Gradients on their way between ranks: buckets leave while the backward pass runs, and come back as averages.
//!
//! In host memory a bucket is copied, summed by the communication thread and copied back. On a GPU whose engine sums there it is lent:
//! no value comes to the host, and what is computed next waits for the sums on the GPU.

use super::team::OnStall;
use super::trace::Trace;
use crate::comm::reducer::{Plan, Reducer};
use crate::comm::{AllReduce, Watchdog};
use crate::error::Result;
use squall_model::gradients::Lent;
use squall_model::{Gradients, ModelError};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Buckets on their way.
pub(super) struct Exchange {
    reducer: Arc<Mutex<Reducer>>,
    /// Where each bucket belongs; the facts come after the last.
    ranges: Vec<Range<usize>>,
    /// Used buffers, so that steps allocate nothing.
    spare: Arc<Mutex<Vec<Vec<f32>>>>,
    /// Why a bucket could not be lent.
    failed: Arc<Mutex<Option<ModelError>>>,
    _watchdog: Watchdog,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    /// Begins to listen to gradients in these ranges, as `plan` has them with the facts last. They are lent if `lends` and they lie on a GPU.
    pub fn start(
        engine: Box<dyn AllReduce>,
        plan: Plan,
        (ranges, lends): (Vec<Range<usize>>, bool),
        gradients: &mut Gradients,
        (limit, on_stall): (Duration, OnStall),
    ) -> Result<Self> {
        let (rank, scale) = (plan.rank, plan.scale);
        let reducer = Reducer::start(engine, plan)?;
        let watchdog = Watchdog::start(reducer.progress_reader(), rank, limit, on_stall)?;
        let exchange = Self {
            reducer: Arc::new(Mutex::new(reducer)),
            ranges: ranges.clone(),
            spare: Arc::default(),
            failed: Arc::default(),
            _watchdog: watchdog,
        };
        let (sender, failed) = (Arc::clone(&exchange.reducer), Arc::clone(&exchange.failed));
        let borrower = move |bucket: usize, lent: squall_model::error::Result<Lent>| match lent {
            // What went wrong comes out again where results are waited for.
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
        let (sender, buffers) = (Arc::clone(&exchange.reducer), Arc::clone(&exchange.spare));
        let listener = move |bucket: usize, values: &[f32]| {
            let fits = |buffer: &Vec<f32>| buffer.len() == values.len();
            let mut buffers = lock(&buffers);
            let found = buffers.iter().position(fits);
            let mut buffer = found.map_or_else(Vec::new, |at| buffers.swap_remove(at));
            drop(buffers);
            buffer.resize(values.len(), 0.0);
            buffer.copy_from_slice(values);
            let _ = lock(&sender).submit(bucket, buffer);
        };
        gradients.listen(ranges, Box::new(listener));
        Ok(exchange)
    }

    /// To which step the next buckets belong.
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

    /// Waits for the buckets of the oldest step under way, puts them in their places and gives the averages of the facts.
    pub fn collect(&self, gradients: &mut Gradients, trace: &mut Trace) -> Result<Vec<f32>> {
        loop {
            let Some(reduced) = lock(&self.reducer).wait()? else {
                return Ok(Vec::new());
            };
            trace.bucket(&reduced);
            let Some(range) = self.ranges.get(reduced.bucket) else {
                return Ok(reduced.values);
            };
            if let Some(lent) = &reduced.lent {
                gradients.take_back(lent)?;
                continue;
            }
            gradients.as_mut_slice()[range.clone()].copy_from_slice(&reduced.values);
            lock(&self.spare).push(reduced.values);
        }
    }
}
