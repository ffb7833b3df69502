//! Elementwise operations and operations on channels, with the same loops for every backend.

use super::fast::CHUNK;
use super::host::{Typed, bhwc, expect, tensor};
use super::value::{Value, by_dtype};
use super::{Backend, Marks, on_gpu};
use crate::error::Result;
use crate::profile;
use candle_core::{DType, Tensor};
use pulp::Arch;
use rayon::prelude::*;

/// Applies f to all values.
pub(super) fn map<V: Value>(a: &[V], f: impl Fn(f32) -> f32 + Sync) -> Vec<V> {
    in_chunks(a.len(), |first, y: &mut [V]| {
        for (y, a) in y.iter_mut().zip(&a[first..]) {
            *y = V::narrow(f(a.widen()));
        }
    })
}

/// Applies f to all pairs of values.
pub(super) fn zip<V: Value>(a: &[V], b: &[V], f: impl Fn(f32, f32) -> f32 + Sync) -> Vec<V> {
    in_chunks(a.len().min(b.len()), |first, y: &mut [V]| {
        for ((y, a), b) in y.iter_mut().zip(&a[first..]).zip(&b[first..]) {
            *y = V::narrow(f(a.widen(), b.widen()));
        }
    })
}

/// Computes `length` values chunk by chunk with the processor's widest vectors. `write` receives the index at which
/// each chunk begins.
fn in_chunks<V: Value>(length: usize, write: impl Fn(usize, &mut [V]) + Sync) -> Vec<V> {
    let mut values = vec![V::default(); length];
    let chunks = values.par_chunks_mut(CHUNK);
    chunks.enumerate().for_each(|(index, chunk)| {
        Arch::new().dispatch(
            #[inline(always)]
            || write(index * CHUNK, chunk),
        );
    });
    values
}

/// f32 if any part is f32, otherwise the type of the first.
fn widest(parts: &[&Tensor]) -> DType {
    let wide = parts.iter().find(|part| part.dtype() == DType::F32);
    wide.or(parts.first())
        .map_or(DType::F32, |part| part.dtype())
}

/// max(x, 0), but NaN stays NaN instead of becoming a number.
pub(super) fn rectified(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// The mixing step of SplitMix64 (Steele, Lea, Flood 2014), a bijection of 64 bits used as a hash.
fn mix(key: u64, index: u64) -> u64 {
    let mut z = key ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Backend {
    /// max(x, 0); NaN stays NaN.
    ///
    /// # Shapes
    /// x of any shape → as x
    /// # Errors
    /// [`crate::ModelError::DType`] for integers.
    pub fn relu(self, x: &Tensor) -> Result<Tensor> {
        let _span = profile::span(|| format!("relu {:?}", x.dims()));
        on_gpu!(self, super::cuda::relu(x));
        by_dtype!(x.dtype(), V => {
            let values = Typed::<V>::of("relu", x)?;
            tensor(map(&values, rectified), x.dims(), x.dtype())
        })
    }

    /// The gradient of [`Self::relu`]: dy where y > 0 or y is NaN, otherwise 0, including at y = 0.
    ///
    /// # Shapes
    /// y of any shape, dy as y → as y
    /// # Errors
    /// [`crate::ModelError::Shape`] if shapes differ.
    pub fn relu_backward(self, dy: &Tensor, y: &Tensor) -> Result<Tensor> {
        let _span = profile::span(|| format!("relu backward {:?}", dy.dims()));
        expect("relu_backward", "y", dy.dims(), y.dims())?;
        on_gpu!(self, super::cuda::relu_backward(dy, y));
        let op = "relu_backward";
        by_dtype!(dy.dtype(), V => {
            let (grad, value) = (Typed::<V>::of(op, dy)?, Typed::<V>::of(op, y)?);
            let dx = zip(&grad, &value, |g, y| if y <= 0.0 { 0.0 } else { g });
            tensor(dx, dy.dims(), dy.dtype())
        })
    }

    /// One bit per value: whether it is positive or NaN, which is where a ReLU passes gradients.
    ///
    /// # Shapes
    /// y of any shape → one bit per value
    /// # Errors
    /// [`crate::ModelError::DType`] for integers.
    pub fn positive(self, y: &Tensor) -> Result<Marks> {
        on_gpu!(self, super::cuda::positive(y));
        by_dtype!(y.dtype(), V => {
            let values = Typed::<V>::of("positive", y)?;
            let mut bits = vec![0; values.len().div_ceil(8)];
            bits.par_chunks_mut(CHUNK / 8)
                .zip(values.par_chunks(CHUNK))
                .for_each(|(bits, values)| {
                    for (byte, eight) in bits.iter_mut().zip(values.chunks(8)) {
                        let is_open = |value: f32| value > 0.0 || value.is_nan();
                        let bit = |(at, value): (usize, &V)| u8::from(is_open(value.widen())) << at;
                        *byte = eight.iter().enumerate().map(bit).sum();
                    }
                });
            Ok(bits.into())
        })
    }

    /// dy where its bit is set, otherwise 0.
    ///
    /// # Shapes
    /// dy of any shape, one bit per value → as dy
    /// # Errors
    /// [`crate::ModelError::Shape`] if the number of bits differs from the number of values.
    pub fn masked(self, dy: &Tensor, bits: &Marks) -> Result<Tensor> {
        let _span = profile::span(|| format!("masked {:?}", dy.dims()));
        expect("masked", "bits", dy.elem_count().div_ceil(8), bits.len())?;
        on_gpu!(self, super::cuda::masked(dy, bits));
        let bits = bits.host()?;
        by_dtype!(dy.dtype(), V => {
            let mut values = Typed::<V>::of("masked", dy)?.into_values();
            values
                .par_chunks_mut(CHUNK)
                .zip(bits.par_chunks(CHUNK / 8))
                .for_each(|(values, bits)| {
                    for (at, value) in values.iter_mut().enumerate() {
                        if bits[at / 8] >> (at % 8) & 1 == 0 {
                            *value = V::default();
                        }
                    }
                });
            tensor(values, dy.dims(), dy.dtype())
        })
    }

    /// a + b.
    ///
    /// # Shapes
    /// a of any shape, b as a → as a
    /// # Errors
    /// [`crate::ModelError::Shape`] if shapes differ.
    pub fn add(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let _span = profile::span(|| format!("add {:?}", a.dims()));
        expect("add", "b", a.dims(), b.dims())?;
        let dtype = widest(&[a, b]);
        on_gpu!(self, super::cuda::add(a, b, dtype));
        by_dtype!(dtype, V => {
            let (left, right) = (Typed::<V>::of("add", a)?, Typed::<V>::of("add", b)?);
            tensor(zip(&left, &right, |a, b| a + b), a.dims(), dtype)
        })
    }

    /// Converts x to a data type; returns x itself if it already has that type.
    ///
    /// # Shapes
    /// x of any shape → as x
    /// # Errors
    /// [`crate::ModelError::DType`] for integers.
    pub fn convert(self, x: &Tensor, dtype: DType) -> Result<Tensor> {
        if x.dtype() == dtype {
            return Ok(x.clone());
        }
        let _span = profile::span(|| format!("convert {:?} {:?}", x.dims(), dtype));
        on_gpu!(self, super::cuda::convert(x, dtype));
        by_dtype!(dtype, V => {
            tensor(Typed::<V>::of("convert", x)?.into_values(), x.dims(), dtype)
        })
    }

    /// x · factor.
    ///
    /// # Shapes
    /// x of any shape → as x
    /// # Errors
    /// [`crate::ModelError::DType`] for integers.
    pub fn scale(self, x: &Tensor, factor: f32) -> Result<Tensor> {
        let _span = profile::span(|| format!("scale {:?}", x.dims()));
        on_gpu!(self, super::cuda::scale(x, factor));
        by_dtype!(x.dtype(), V => {
            let values = Typed::<V>::of("scale", x)?;
            tensor(map(&values, |x| x * factor), x.dims(), x.dtype())
        })
    }

    /// Sets a share `rate` of the values of x to 0 and divides the rest by 1 − rate.
    ///
    /// Which values are dropped is a pure function of `key` and position, so the backward pass is the same call on the
    /// gradient.
    ///
    /// # Shapes
    /// x of any shape → as x
    /// # Errors
    /// [`crate::ModelError::Config`] unless 0 ≤ rate < 1.
    pub fn dropout(self, x: &Tensor, rate: f32, key: u64) -> Result<Tensor> {
        let _span = profile::span(|| format!("dropout {:?}", x.dims()));
        if !(0.0..1.0).contains(&rate) {
            return Err(crate::ModelError::Config {
                key: "dropout",
                reason: format!("expected [0, 1), found {rate}"),
            });
        }
        let (threshold, keep) = ((f64::from(rate) * 2f64.powi(64)) as u64, 1.0 / (1.0 - rate));
        on_gpu!(self, super::cuda::dropout(x, key, threshold, keep));
        by_dtype!(x.dtype(), V => {
            let values = Typed::<V>::of("dropout", x)?;
            let mut y = vec![V::default(); values.len()];
            let chunks = y.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).enumerate();
            chunks.for_each(|(chunk, (y, x))| {
                for (index, (y, x)) in y.iter_mut().zip(x).enumerate() {
                    if mix(key, (chunk * CHUNK + index) as u64) >= threshold {
                        *y = V::narrow(x.widen() * keep);
                    }
                }
            });
            tensor(y, x.dims(), x.dtype())
        })
    }

    /// Concatenates tensors along the channels.
    ///
    /// # Shapes
    /// `(b, h, w, cᵢ)` each → `(b, h, w, Σ cᵢ)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if batch or extents differ.
    pub fn concat(self, parts: &[impl AsRef<Tensor>]) -> Result<Tensor> {
        let parts: Vec<&Tensor> = parts.iter().map(AsRef::as_ref).collect();
        let _span = profile::span(|| format!("concat {} parts", parts.len()));
        let shapes = parts
            .iter()
            .map(|part| bhwc("concat", "part", part))
            .collect::<Result<Vec<_>>>()?;
        let Some(&[b, h, w, _]) = shapes.first() else {
            return Err(crate::ModelError::Config {
                key: "concat",
                reason: "nothing to concatenate".into(),
            });
        };
        shapes.iter().try_for_each(|&[pb, ph, pw, _]| {
            expect("concat", "(b, h, w)", (b, h, w), (pb, ph, pw))
        })?;
        let channels: usize = shapes.iter().map(|shape| shape[3]).sum();
        let dtype = widest(&parts);
        on_gpu!(
            self,
            super::cuda::concat(&parts, [b, h, w, channels], dtype)
        );
        by_dtype!(dtype, V => {
            let values = parts
                .iter()
                .map(|part| Typed::<V>::of("concat", part))
                .collect::<Result<Vec<_>>>()?;
            let slices: Vec<(&[V], usize)> = values
                .iter()
                .zip(&shapes)
                .map(|(v, shape)| (&**v, shape[3]))
                .collect();
            let mut y = vec![V::default(); b * h * w * channels];
            y.par_chunks_mut(w * channels).enumerate().for_each(|(row, y)| {
                for (column, mut pixel) in y.chunks_exact_mut(channels).enumerate() {
                    for &(part, c) in &slices {
                        let (head, rest) = pixel.split_at_mut(c);
                        head.copy_from_slice(&part[(row * w + column) * c..][..c]);
                        pixel = rest;
                    }
                }
            });
            tensor(y, &[b, h, w, channels], dtype)
        })
    }

    /// Concatenates fields along the first axis.
    ///
    /// # Shapes
    /// `(bᵢ, h, w, c)` each → `(Σ bᵢ, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if extents differ.
    pub fn stack(self, parts: &[Tensor]) -> Result<Tensor> {
        let shapes = parts.iter().map(|part| bhwc("stack", "part", part));
        let shapes = shapes.collect::<Result<Vec<_>>>()?;
        let [_, h, w, c] = shapes.first().copied().unwrap_or_default();
        shapes.iter().try_for_each(|&[_, ph, pw, pc]| {
            expect("stack", "(h, w, c)", (h, w, c), (ph, pw, pc))
        })?;
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            let all: Vec<&Tensor> = parts.iter().collect();
            let shape = [shapes.iter().map(|shape| shape[0]).sum(), h, w, c];
            return super::cuda::rows(&all, &shape, 1, widest(&all));
        }
        Ok(Tensor::cat(parts, 0)?)
    }

    /// A field of zeros.
    ///
    /// # Shapes
    /// → `shape`, `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Candle`] if there is no memory for it.
    pub fn zeros(self, shape: [usize; 4], dtype: DType) -> Result<Tensor> {
        on_gpu!(self, super::cuda::zeros(&shape, dtype));
        Ok(Tensor::zeros(&shape, dtype, &candle_core::Device::Cpu)?)
    }

    /// Crops a field to its first h rows and w columns.
    ///
    /// # Shapes
    /// `(b, h₀, w₀, c)` → `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if the field is smaller.
    pub fn cut(self, x: &Tensor, (h, w): (usize, usize)) -> Result<Tensor> {
        let [b, full_h, full_w, c] = bhwc("cut", "x", x)?;
        if (full_h, full_w) == (h, w) {
            return Ok(x.clone());
        }
        expect("cut", "h and w within", true, h <= full_h && w <= full_w)?;
        on_gpu!(self, {
            let sides = [0, full_h - h, 0, full_w - w];
            super::cuda::without_edges(x, [b, h, w, c], sides)
        });
        let _ = (b, c);
        Ok(x.narrow(1, 0, h)?.narrow(2, 0, w)?.contiguous()?)
    }

    /// Pads a field with rows and columns of zeros at the high end, up to these extents.
    ///
    /// # Shapes
    /// `(b, h₀, w₀, c)` → `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if the field is larger.
    pub fn fill_up(self, x: &Tensor, (h, w): (usize, usize)) -> Result<Tensor> {
        let shape @ [_, from_h, from_w, _] = bhwc("fill_up", "x", x)?;
        if (from_h, from_w) == (h, w) {
            return Ok(x.clone());
        }
        expect(
            "fill_up",
            "h and w at least",
            true,
            h >= from_h && w >= from_w,
        )?;
        on_gpu!(
            self,
            super::cuda::with_zeros(x, shape, [0, h - from_h, 0, w - from_w])
        );
        let _ = shape;
        let rows = x.pad_with_zeros(1, 0, h - from_h)?;
        Ok(rows.pad_with_zeros(2, 0, w - from_w)?.contiguous()?)
    }

    /// Splits x into tensors with the given channel counts; the inverse of [`Self::concat`].
    ///
    /// # Shapes
    /// `(b, h, w, Σ cᵢ)` → `(b, h, w, cᵢ)` for each of `counts`
    /// # Errors
    /// [`crate::ModelError::Shape`] if the counts do not add up to x's channels.
    pub fn split(self, x: &Tensor, counts: &[usize]) -> Result<Vec<Tensor>> {
        let _span = profile::span(|| format!("split {:?}", x.dims()));
        let [b, h, w, channels] = bhwc("split", "x", x)?;
        expect("split", "channels", channels, counts.iter().sum())?;
        on_gpu!(self, super::cuda::split(x, [b, h, w, channels], counts));
        by_dtype!(x.dtype(), V => {
            let values = Typed::<V>::of("split", x)?;
            let mut first = 0;
            let part = |count: usize| {
                let mut y = vec![V::default(); b * h * w * count];
                y.par_chunks_mut(w * count)
                    .zip(values.par_chunks(w * channels))
                    .for_each(|(y, x)| {
                        for (y, x) in y.chunks_exact_mut(count).zip(x.chunks_exact(channels)) {
                            y.copy_from_slice(&x[first..first + count]);
                        }
                    });
                first += count;
                tensor(y, &[b, h, w, count], x.dtype())
            };
            counts.iter().copied().map(part).collect()
        })
    }
}
