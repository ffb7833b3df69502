//! Gradients in one buffer on the GPU, with a copy in host memory for readers on the host.

use super::Lent;
use crate::error::Result;
use crate::ops::{GradientSink, cuda};
use candle_core::{DType, Tensor};
use std::ops::Range;
use std::sync::OnceLock;

/// The buffer, allocated on first use, and its host copy.
#[derive(Debug)]
pub(super) struct Buffer {
    count: usize,
    values: OnceLock<Tensor>,
    copy: OnceLock<Vec<f32>>,
    /// Whether the host copy has been modified and is newer than the buffer.
    copy_counts: bool,
}

impl Buffer {
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            values: OnceLock::new(),
            copy: OnceLock::new(),
            copy_counts: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The tensor of all values, even if the host copy is newer.
    pub(super) fn made(&self) -> Result<&Tensor> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let zeros = cuda::zeros(&[self.count], DType::F32)?;
        Ok(self.values.get_or_init(|| zeros))
    }

    /// Sets all values to zero.
    pub(super) fn clear(&mut self) {
        (self.copy, self.copy_counts) = (OnceLock::new(), false);
        // If clearing fails, the buffer is allocated again on next use, which then reports the error.
        if self.made().and_then(cuda::clear).is_err() {
            self.values = OnceLock::new();
        }
    }

    /// The values on the GPU, updated from the host copy if that is newer.
    pub(super) fn tensor(&self) -> Result<Tensor> {
        match self.copy.get() {
            Some(copy) if self.copy_counts => cuda::give(copy),
            _ => Ok(self.made()?.clone()),
        }
    }

    /// Replaces the values of a range without reading the others.
    pub(super) fn put(&mut self, range: &Range<usize>, values: &[f32]) -> Result<()> {
        self.settle()?;
        let place = self.made()?.narrow(0, range.start, range.len())?;
        cuda::write(&place, values)
    }

    /// Writes the host copy to the GPU if it is newer, then drops it.
    pub(super) fn settle(&mut self) -> Result<()> {
        if let (true, Some(copy)) = (self.copy_counts, self.copy.get()) {
            cuda::write(self.made()?, copy)?;
        }
        (self.copy, self.copy_counts) = (OnceLock::new(), false);
        Ok(())
    }

    /// A host copy of the values; NaN if they cannot be read, so that training cannot continue with them.
    pub(super) fn host(&self) -> &[f32] {
        self.copy.get_or_init(|| self.part(0..self.count))
    }

    /// The host copy for modification; it then counts as newer.
    pub(super) fn host_mut(&mut self) -> &mut [f32] {
        self.host();
        self.copy_counts = true;
        match self.copy.get_mut() {
            Some(copy) => copy,
            None => unreachable!("it was just made"),
        }
    }

    /// The values of a range, copied to the host; NaN if they cannot be read.
    pub(super) fn part(&self, range: Range<usize>) -> Vec<f32> {
        let count = range.len();
        let read =
            || -> Result<Vec<f32>> { cuda::read(&self.tensor()?.narrow(0, range.start, count)?) };
        read().unwrap_or_else(|error| {
            tracing::error!("gradients cannot be read: {error}");
            vec![f32::NAN; count]
        })
    }

    /// The values of a range, multiplied by a factor, for another stream to modify.
    pub(super) fn lend(&self, range: Range<usize>, factor: f32) -> Result<Lent> {
        let values = self.made()?.narrow(0, range.start, range.len())?;
        cuda::lend(values, factor)
    }

    /// Takes back lent values as modified by the other stream.
    pub(super) fn take_back(&mut self, lent: &Lent) -> Result<()> {
        (self.copy, self.copy_counts) = (OnceLock::new(), false);
        lent.take_back()
    }

    /// The buffer to which the gradients of a range are added.
    pub(super) fn sink(&mut self, range: Range<usize>) -> GradientSink<'_> {
        let end = range.end;
        self.sinks(range, end..end).0
    }

    /// The buffers of two ranges, the second after the first.
    pub(super) fn sinks(
        &mut self,
        first: Range<usize>,
        second: Range<usize>,
    ) -> (GradientSink<'_>, GradientSink<'_>) {
        let mut ready = || -> Result<[Tensor; 2]> {
            self.settle()?;
            let values = self.made()?;
            let place = |range: &Range<usize>| values.narrow(0, range.start, range.len());
            Ok([place(&first)?, place(&second)?])
        };
        match ready() {
            Ok([first, second]) => (GradientSink::Gpu(first), GradientSink::Gpu(second)),
            Err(error) => {
                // The host copy has the right size and is NaN, so adding to it is harmless.
                tracing::error!("gradients cannot be written: {error}");
                self.copy = OnceLock::from(vec![f32::NAN; self.count]);
                let (head, tail) = self.host_mut().split_at_mut(second.start);
                let second = &mut tail[..second.len()];
                (
                    GradientSink::Host(&mut head[first]),
                    GradientSink::Host(second),
                )
            }
        }
    }
}
