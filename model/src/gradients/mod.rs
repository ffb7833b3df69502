//! The gradients of all parameters, as one flat vector in the order of the parameters.
//!
//! In host memory they are one buffer, or one buffer per bucket: a bucket can then be given away as soon as the
//! backward pass has completed it, so that ranks all-reduce buckets while the pass continues. On a GPU they are one
//! buffer.

mod host;
mod lent;
mod norm;
#[cfg(feature = "cuda")]
mod on_gpu;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use host::Slices;
pub use lent::Lent;
pub(crate) use norm::squares;

use crate::error::{ModelError, Result};
use crate::ops::GradientSink;
use crate::parameters::{Parameter, Parameters};
use crate::profile;
use host::Host;
use std::borrow::Cow;
use std::ops::Range;
use watch::{Delivery, Values, Watch};

/// Receives the index and the values of a bucket as soon as the backward pass has completed it. The values are moved,
/// not copied, until [`Gradients::put`] returns them.
pub type Taker = Box<dyn FnMut(usize, Vec<f32>) + Send>;

/// As [`Taker`], for a bucket that stays on the GPU: the borrower may have it changed there, until
/// [`Gradients::take_back`].
pub type Borrower = Box<dyn FnMut(usize, Result<Lent>) + Send>;

/// The gradients of all parameters.
#[derive(Debug)]
pub struct Gradients {
    host: Host,
    watch: Option<Watch>,
    /// Whether a further backward pass will add to these gradients, so that no bucket is complete yet.
    unfinished: bool,
    /// The buffer on the GPU; the host buffer is unused if this is set.
    #[cfg(feature = "cuda")]
    on_gpu: Option<on_gpu::Buffer>,
}

/// Copies the values to host memory; the copy does not deliver buckets.
impl Clone for Gradients {
    fn clone(&self) -> Self {
        Self {
            host: Host::from_values(self.as_slice().into_owned()),
            watch: None,
            unfinished: false,
            #[cfg(feature = "cuda")]
            on_gpu: None,
        }
    }
}

impl Gradients {
    /// Zeros for every parameter, on the parameters' device.
    pub fn new(parameters: &Parameters) -> Self {
        let count = parameters.count();
        Self {
            host: Host::new(if parameters.is_on_gpu() { 0 } else { count }),
            watch: None,
            unfinished: false,
            #[cfg(feature = "cuda")]
            on_gpu: (parameters.is_on_gpu()).then(|| on_gpu::Buffer::new(count)),
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &self.on_gpu {
            return buffer.len();
        }
        self.host.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values on the GPU, copied there if they are in host memory.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_gpu(&self) -> Result<candle_core::Tensor> {
        match &self.on_gpu {
            Some(buffer) => buffer.tensor(),
            None => crate::ops::cuda::give(&self.host.whole()),
        }
    }

    /// The buffer on the GPU, without a copy.
    #[cfg(feature = "cuda")]
    pub(crate) fn buffer(&self) -> Result<candle_core::Tensor> {
        match &self.on_gpu {
            Some(buffer) => Ok(buffer.made()?.clone()),
            None => Err(crate::gpu::GpuError::NotCaptured {
                what: "gradients in host memory",
            }
            .into()),
        }
    }

    /// Whether complete buckets are delivered.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Sets all gradients to zero, keeping the memory.
    pub fn clear(&mut self) {
        let _span = profile::span(|| format!("gradients cleared, {}", self.len()));
        let given = (self.watch.as_ref())
            .filter(|watch| matches!(watch.delivery, Delivery::Given(_)) && !self.is_on_gpu());
        (self.host).clear(given.map_or(&[], |watch| &watch.buckets));
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &mut self.on_gpu {
            buffer.clear();
        }
        if let Some(watch) = &mut self.watch {
            watch.start();
        }
    }

    /// Sets whether the next backward pass is followed by another that adds to the same gradients. If so, it delivers
    /// no buckets; only the last pass does.
    pub fn more_follows(&mut self, more: bool) {
        self.unfinished = more;
    }

    /// Makes every later backward pass give away each bucket when it is complete, in the order of `buckets`
    /// ([`Gradients::buckets`]), and all of them by its end. Passes begin with [`Gradients::clear`], which reallocates
    /// buckets that have not been returned: with gradients that lag one step behind, two sets of buckets alternate. If
    /// several passes accumulate gradients, [`Gradients::more_follows`] marks all but the last.
    pub fn give(&mut self, buckets: Vec<Range<usize>>, taker: Taker) {
        self.watch_with(buckets, Delivery::Given(taker));
    }

    /// Returns a bucket that was given away; until then its values are unknown. If the gradients lie on a GPU, the
    /// values are copied there at once, even while later buckets are still away.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if they cannot be copied.
    pub fn put(&mut self, bucket: &Range<usize>, values: Vec<f32>) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &mut self.on_gpu {
            return buffer.put(bucket, &values);
        }
        self.host.put(bucket, values);
        Ok(())
    }

    /// If the gradients lie on a GPU, makes every later backward pass lend each bucket when it is complete, multiplied
    /// by `factor`: as with [`Self::give`], but in place, to a borrower that may have it changed there until
    /// [`Self::take_back`]. Returns whether the gradients lie on a GPU.
    pub fn lend(&mut self, buckets: Vec<Range<usize>>, factor: f32, borrower: Borrower) -> bool {
        if self.is_on_gpu() {
            self.watch_with(buckets, Delivery::Lent(borrower, factor));
        }
        self.is_on_gpu()
    }

    /// Whether the gradients lie on a GPU.
    pub fn is_on_gpu(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.on_gpu.is_some();
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// Orders all later GPU work on the gradients after the borrower's work on this bucket.
    ///
    /// # Errors
    /// [`ModelError::Gpu`].
    #[cfg_attr(not(feature = "cuda"), allow(clippy::unused_self))]
    pub fn take_back(&mut self, lent: &Lent) -> Result<()> {
        #[cfg(feature = "cuda")]
        return match &mut self.on_gpu {
            Some(buffer) => buffer.take_back(lent),
            None => Ok(()),
        };
        #[cfg(not(feature = "cuda"))]
        match *lent {}
    }

    fn watch_with(&mut self, buckets: Vec<Range<usize>>, delivery: Delivery) {
        self.watch = Some(Watch::new(buckets, delivery));
    }

    /// Ends the backward pass: completes the buckets of parameters that it did not reach.
    pub(crate) fn complete(&mut self) {
        if let Some(mut watch) = self.take_watch() {
            let mut values = self.place();
            watch.settle(&mut values);
            while watch.next < watch.buckets.len() {
                watch.announce(&mut values);
            }
            self.watch = Some(watch);
        }
    }

    /// The watch on buckets, for the caller to put back; `None` if a further backward pass will add to them.
    fn take_watch(&mut self) -> Option<Watch> {
        match self.unfinished {
            true => None,
            false => self.watch.take(),
        }
    }

    fn hand_out(&mut self, ranges: [&Range<usize>; 2]) {
        if let Some(mut watch) = self.take_watch() {
            watch.settle(&mut self.place());
            let some = ranges.into_iter().filter(|range| !range.is_empty());
            some.for_each(|range| watch.give(range));
            self.watch = Some(watch);
        }
    }

    fn place(&mut self) -> Values<'_> {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &self.on_gpu {
            return Values::Gpu(buffer);
        }
        Values::Host(&mut self.host)
    }

    /// All values, parameters in forward order; copied if they lie on the GPU or in buckets.
    pub fn as_slice(&self) -> Cow<'_, [f32]> {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &self.on_gpu {
            return Cow::Borrowed(buffer.host());
        }
        self.host.whole()
    }

    /// The values in place; copied if they lie on the GPU.
    pub(crate) fn slices(&self) -> Slices<'_> {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &self.on_gpu {
            return Slices::one(buffer.host());
        }
        self.host.slices()
    }

    /// All values, parameters in forward order. Merges buckets; changes are later copied to gradients on the GPU
    /// ([`Self::settle`]).
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &mut self.on_gpu {
            return buffer.host_mut();
        }
        self.host.whole_mut()
    }

    /// Copies changes made through [`Self::as_mut_slice`] to the gradients' device, once rather than at each later use.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if it cannot be copied.
    pub fn settle(&mut self) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &mut self.on_gpu {
            return buffer.settle();
        }
        Ok(())
    }

    /// The buffer to which the gradient of the parameter in this range is added.
    pub(crate) fn sink(&mut self, range: Range<usize>) -> GradientSink<'_> {
        self.hand_out([&range, &(0..0)]);
        self.sink_at(range)
    }

    fn sink_at(&mut self, range: Range<usize>) -> GradientSink<'_> {
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &mut self.on_gpu {
            return buffer.sink(range);
        }
        let end = range.end;
        self.host.sinks(range, end..end).0
    }

    /// As [`Self::sink`], for a parameter whose gradient will receive further contributions: a kernel that a layer
    /// shares with an earlier one. Its bucket stays incomplete until the last call, which must be [`Self::sink`] or
    /// [`Self::two_sinks`].
    pub(crate) fn shared_sink(&mut self, range: Range<usize>) -> GradientSink<'_> {
        self.hand_out([&(0..0), &(0..0)]);
        self.sink_at(range)
    }

    /// The buffers of two parameters, the first of which precedes the second.
    pub(crate) fn two_sinks(
        &mut self,
        first: Range<usize>,
        second: Range<usize>,
    ) -> (GradientSink<'_>, GradientSink<'_>) {
        self.hand_out([&first, &second]);
        #[cfg(feature = "cuda")]
        if let Some(buffer) = &mut self.on_gpu {
            return buffer.sinks(first, second);
        }
        self.host.sinks(first, second)
    }

    /// Consecutive ranges of at least `values` values each (the last may be shorter), in the order in which the
    /// backward pass completes them: from the end of the network to its start. Together they cover the buffer once.
    ///
    /// These are the units of all-reduces. Boundaries coincide with parameter boundaries.
    pub fn buckets(parameters: &Parameters, values: usize) -> Vec<Range<usize>> {
        let mut buckets = Vec::new();
        let mut end = parameters.count();
        for parameter in parameters.iter().rev() {
            let start = parameter.range.start;
            if end - start >= values.max(1) || start == 0 && end > 0 {
                buckets.push(start..end);
                end = start;
            }
        }
        buckets
    }

    /// The first infinite or NaN value: its parameter, its index there, and the value.
    pub fn first_not_finite<'a>(
        &self,
        parameters: &'a Parameters,
    ) -> Option<(&'a Parameter, usize, f32)> {
        let slices = self.slices();
        let bad = |(start, values): (usize, &[f32])| {
            let at = values.iter().position(|g| !g.is_finite())?;
            Some((start + at, values[at]))
        };
        let (at, value) = slices.iter().find_map(bad)?;
        let owner = parameters.iter().find(|p| p.range.contains(&at))?;
        Some((owner, at - owner.range.start, value))
    }

    /// The error for the first value that is not finite, in the given step.
    pub fn not_finite(&self, parameters: &Parameters, step: u64) -> ModelError {
        let first = self.first_not_finite(parameters);
        ModelError::NotFinite {
            step,
            parameter: first.map_or("all of them".into(), |(p, _, _)| p.name.clone()),
            index: first.map_or(0, |(_, index, _)| index),
            value: first.map_or(f32::NAN, |(_, _, value)| value),
        }
    }

    /// The parameters whose gradient is exactly zero everywhere, because no backward pass reached them.
    pub fn all_zero<'a>(&self, parameters: &'a Parameters) -> Vec<&'a Parameter> {
        let values = self.as_slice();
        let zero = |p: &&Parameter| values[p.range.clone()].iter().all(|&g| g == 0.0);
        parameters.iter().filter(zero).collect()
    }

    /// Multiplies every value.
    pub fn scale(&mut self, factor: f32) {
        self.as_mut_slice().iter_mut().for_each(|g| *g *= factor);
    }
}
