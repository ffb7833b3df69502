//! A convolution's weights together with the derived forms that the fast loops need (packed, transformed, scaled),
//! which are cached for inference.

use super::Channels;
use super::direct::Panels;
use super::host::Host;
use super::kept::Lifetime;
#[cfg(feature = "onednn")]
use super::onednn::{Packings, Source};
use super::winograd::Kernels;
use crate::error::Result;
#[cfg(feature = "cuda")]
use candle_core::DType;
use candle_core::Tensor;
use std::sync::OnceLock;

/// Kernels `(a, b, kh, kw)` of a convolution or a transposed one, with a scale and a bias per output.
///
/// The forms that an algorithm needs (panels, transformed kernels, folded scale) are made at first use and cached for
/// the lifetime of this value. The kernels must not change during that time.
#[derive(Debug)]
pub struct Weights {
    values: Tensor,
    transposed: bool,
    scale: Option<Vec<f32>>,
    bias: Option<Channels<'static>>,
    scaled: OnceLock<Tensor>,
    kernels: OnceLock<Kernels>,
    panels: OnceLock<Panels>,
    /// How long derived forms are kept; `None` for weights that are used once.
    lifetime: Option<Lifetime>,
    /// Kernels packed by oneDNN.
    #[cfg(feature = "onednn")]
    packings: OnceLock<Packings>,
    /// Kernels in the GPU's layout, one tensor per type of activations.
    #[cfg(feature = "cuda")]
    on_gpu: OfTypes,
    #[cfg(feature = "cuda")]
    bias_on_gpu: OfTypes,
}

/// A cache with one tensor per data type.
#[cfg(feature = "cuda")]
#[derive(Debug, Default)]
struct OfTypes(std::sync::Mutex<Vec<Tensor>>);

#[cfg(feature = "cuda")]
impl OfTypes {
    /// The tensor of this type, made on first use.
    fn get(&self, dtype: DType, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
        let mut known = crate::lock::locked(&self.0);
        if let Some(made) = known.iter().find(|made| made.dtype() == dtype) {
            return Ok(made.clone());
        }
        let made = make()?;
        known.push(made.clone());
        Ok(made)
    }
}

/// One scale per output of kernels `(a, b, kh, kw)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factors<'a> {
    scale: &'a [f32],
    transposed: bool,
    /// The kernels' second extent, and their number of taps.
    inner: usize,
    taps: usize,
}

impl Factors<'_> {
    /// The scaled kernels.
    pub fn times(&self, values: &[f32]) -> Vec<f32> {
        let mut values = values.to_vec();
        for (index, kernel) in values.chunks_exact_mut(self.taps.max(1)).enumerate() {
            let output = if self.transposed {
                index % self.inner
            } else {
                index / self.inner
            };
            kernel.iter_mut().for_each(|w| *w *= self.scale[output]);
        }
        values
    }
}

impl Weights {
    /// Weights of a convolution: `(out, in / groups, kh, kw)`.
    pub fn of(values: &Tensor) -> Self {
        Self {
            values: values.clone(),
            transposed: false,
            scale: None,
            bias: None,
            scaled: OnceLock::new(),
            kernels: OnceLock::new(),
            panels: OnceLock::new(),
            lifetime: None,
            #[cfg(feature = "onednn")]
            packings: OnceLock::new(),
            #[cfg(feature = "cuda")]
            on_gpu: Default::default(),
            #[cfg(feature = "cuda")]
            bias_on_gpu: Default::default(),
        }
    }

    /// Weights of a transposed convolution: `(in, out / groups, kh, kw)`.
    pub fn transposed(values: &Tensor) -> Self {
        Self {
            transposed: true,
            ..Self::of(values)
        }
    }

    /// These weights with a scale per output; one group only.
    #[must_use]
    pub fn scaled(self, scale: Vec<f32>) -> Self {
        Self {
            scale: Some(scale),
            ..self
        }
    }

    /// These weights with a bias per output.
    #[must_use]
    pub fn biased(self, bias: impl Into<Channels<'static>>) -> Self {
        Self {
            bias: Some(bias.into()),
            ..self
        }
    }

    /// These weights for many uses: oneDNN's packed forms are cached too.
    #[must_use]
    pub fn kept(self) -> Self {
        Self {
            lifetime: Some(Lifetime::Network),
            ..self
        }
    }

    /// These weights for several uses within one operation.
    #[must_use]
    pub(crate) fn reused(self) -> Self {
        Self {
            lifetime: Some(Lifetime::Operation),
            ..self
        }
    }

    /// The shape of the kernels.
    pub fn dims(&self) -> &[usize] {
        self.values.dims()
    }

    /// The bias, if it lies in host memory.
    pub(crate) fn bias(&self) -> Option<&[f32]> {
        match &self.bias {
            Some(Channels::Host(bias)) => Some(bias),
            _ => None,
        }
    }

    /// The bias, wherever it lies.
    pub(crate) fn channels(&self) -> Option<&Channels<'static>> {
        self.bias.as_ref()
    }

    /// The weights in the GPU's layout for activations of `dtype`. On first use `prepare` makes them from the values,
    /// the scale and whether the convolution is transposed.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_gpu(
        &self,
        dtype: DType,
        prepare: impl FnOnce(&Tensor, Option<&[f32]>, bool) -> Result<Tensor>,
    ) -> Result<Tensor> {
        self.on_gpu.get(dtype, || {
            prepare(&self.values, self.scale.as_deref(), self.transposed)
        })
    }

    /// The bias on the GPU in this type, if there is one; made by `prepare` on first use.
    #[cfg(feature = "cuda")]
    pub(crate) fn bias_on_gpu(
        &self,
        dtype: DType,
        prepare: impl FnOnce(&Channels<'static>) -> Result<Tensor>,
    ) -> Result<Option<Tensor>> {
        let bias = self.bias.as_ref();
        bias.map(|bias| self.bias_on_gpu.get(dtype, || prepare(bias)))
            .transpose()
    }

    /// The kernels with the scale folded in.
    pub(crate) fn plain(&self, op: &'static str) -> Result<Host<'_>> {
        if self.scale.is_none() {
            return Host::of(op, &self.values);
        }
        if self.scaled.get().is_none() {
            let values =
                Tensor::from_vec(self.fold(op)?.to_vec(), self.dims(), self.values.device())?;
            let _ = self.scaled.set(values);
        }
        Host::of(op, self.scaled.get().unwrap_or(&self.values))
    }

    /// As [`Self::plain`] but not cached, for callers that cache a form derived from it.
    fn fold(&self, op: &'static str) -> Result<Host<'_>> {
        let values = Host::of(op, &self.values)?;
        Ok(match self.factors() {
            Some(factors) => Host::Owned(factors.times(&values)),
            None => values,
        })
    }

    fn factors(&self) -> Option<Factors<'_>> {
        let [inner, taps] = match *self.dims() {
            [_, inner, kh, kw] => [inner, kh * kw],
            _ => [1, 1],
        };
        Some(Factors {
            scale: self.scale.as_deref()?,
            transposed: self.transposed,
            inner,
            taps,
        })
    }

    /// First and second extent, and taps.
    fn sizes(&self) -> (usize, usize, usize) {
        match *self.dims() {
            [first, second, kh, kw] => (first, second, kh * kw),
            _ => unreachable!("the weights' rank was checked"),
        }
    }

    /// The kernels as a source for oneDNN, which packs them itself; `values` comes from [`Self::values`].
    #[cfg(feature = "onednn")]
    pub(crate) fn for_onednn<'a>(&'a self, values: &'a [f32]) -> Source<'a> {
        Source {
            values,
            factors: self.factors(),
            trimmed: None,
            packings: (self.lifetime).map(|lifetime| {
                self.packings
                    .get_or_init(|| Packings::with_lifetime(lifetime))
            }),
        }
    }

    /// The original kernels, without the scale.
    #[cfg(feature = "onednn")]
    pub(crate) fn values(&self, op: &'static str) -> Result<Host<'_>> {
        Host::of(op, &self.values)
    }

    /// The lifetime of panels and transformed kernels.
    fn lifetime(&self) -> Lifetime {
        self.lifetime.unwrap_or(Lifetime::Operation)
    }

    /// The kernels transformed for Winograd's algorithm.
    pub(crate) fn kernels(&self, op: &'static str) -> Result<&Kernels> {
        if let Some(made) = self.kernels.get() {
            return Ok(made);
        }
        let (values, sizes) = (self.fold(op)?, self.sizes());
        // Made outside of `get_or_init`, which would deadlock: while this thread waits for its parallel tasks, it may
        // pick up work that needs the same kernels.
        let made = if self.transposed {
            Kernels::backward(&values, sizes, self.lifetime())
        } else {
            Kernels::forward(&values, sizes, self.lifetime())
        };
        Ok(self.kernels.get_or_init(|| made))
    }

    /// The kernels packed for matrix products.
    pub(crate) fn panels(&self, op: &'static str) -> Result<&Panels> {
        if let Some(made) = self.panels.get() {
            return Ok(made);
        }
        let (values, sizes) = (self.fold(op)?, self.sizes());
        // Outside of `get_or_init`, as in [`Self::kernels`].
        let made = if self.transposed {
            Panels::backward(&values, sizes, self.lifetime())
        } else {
            Panels::forward(&values, sizes, self.lifetime())
        };
        Ok(self.panels.get_or_init(|| made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{distance, draw};
    use crate::ops::{Backend, ConvSpec, ConvTransposeSpec, Fuse};
    use candle_core::Device;
    use rayon::prelude::*;
    use std::time::Duration;

    fn tensor(seed: u64, shape: &[usize]) -> Tensor {
        let values = draw(seed, shape.iter().product());
        Tensor::from_vec(values, shape, &Device::Cpu).expect("a shape of as many values")
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        let flat = tensor.flatten_all().expect("contiguous");
        flat.to_vec1().expect("f32")
    }

    #[test]
    fn a_factor_and_a_shift_in_the_weights_are_those_after_the_convolution() {
        let (scale, shift) = (draw(8, 40), draw(9, 40));
        let specs = [
            ConvSpec::same(3),
            ConvSpec::same(3).stride(2),
            ConvSpec::same(3).dilation(6),
            ConvSpec::same(5),
            ConvSpec::same(1),
            ConvSpec::same(1).stride(2),
        ];
        for backend in Backend::all() {
            for spec in specs {
                let (x, w) = (
                    tensor(1, &[2, 12, 18, 48]),
                    tensor(2, &[40, 48, spec.kernel.0, spec.kernel.1]),
                );
                let folded = Weights::of(&w).scaled(scale.clone()).biased(shift.clone());
                let plain = (backend.conv2d(&x, &w, None, &spec, Fuse::None))
                    .and_then(|y| backend.batch_norm_apply(&y, &scale, &shift, None, true))
                    .expect("fits");
                let run = || backend.conv2d_with(&x, &folded, &spec, Fuse::Relu);
                let (first, second) = (run().expect("fits"), run().expect("fits"));
                let apart = distance(&values(&first), &values(&plain));
                assert!(apart < 1e-5, "{backend:?} {spec:?}: {apart}");
                assert_eq!(values(&first), values(&second), "{backend:?} {spec:?}");
            }
        }
    }

    /// A thread that waits for pieces of what it makes picks up work that wants the same: it must not wait for itself.
    #[test]
    fn tasks_of_one_pool_share_weights_that_none_has_made() {
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
            let pool = pool.expect("two threads");
            for round in 0..20 {
                let weights = Weights::of(&tensor(round, &[128, 64, 3, 3])).kept();
                pool.install(|| {
                    (0..8).into_par_iter().for_each(|_| {
                        weights.panels("test").expect("of four extents");
                        weights.kernels("test").expect("of four extents");
                    });
                });
            }
            done.send(()).expect("somebody waits");
        });
        let ended = ended.recv_timeout(Duration::from_secs(100));
        ended.expect("no thread waits for itself");
    }

    #[test]
    fn the_same_of_transposed_convolutions() {
        let (scale, shift) = (draw(8, 40), draw(9, 40));
        let (x, w) = (tensor(1, &[2, 7, 9, 48]), tensor(2, &[48, 40, 3, 3]));
        for backend in Backend::all() {
            for periodic in [false, true] {
                let spec = ConvTransposeSpec::double(periodic);
                let folded = Weights::transposed(&w)
                    .scaled(scale.clone())
                    .biased(shift.clone());
                let plain = (backend.conv_transpose2d(&x, &w, None, &spec))
                    .and_then(|y| backend.batch_norm_apply(&y, &scale, &shift, None, true))
                    .expect("fits");
                let y = (backend.conv_transpose2d_with(&x, &folded, &spec, true)).expect("fits");
                let apart = distance(&values(&y), &values(&plain));
                assert!(apart < 1e-5, "{backend:?}: {apart}");
            }
        }
    }
}
