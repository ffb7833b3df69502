//! Vector loads and stores of stored values: f32 directly, bf16 widened on load and rounded on store.

use candle_core::CpuStorage;
use half::bf16;
use pulp::Simd;

/// An upper bound of the lanes of any vector; buffers are padded to multiples of it.
pub(crate) const PADDING: usize = 16;

/// The storage type of activations. Arithmetic is always f32.
pub(crate) trait Value: candle_core::WithDType + Default {
    /// The values of a storage of this type; `None` for other types.
    fn slice(storage: &CpuStorage) -> Option<&[Self]>;
    /// The value as f32.
    fn widen(self) -> f32;
    /// The nearest stored value, ties to even.
    fn narrow(value: f32) -> Self;
    /// Loads a vector from the front of a slice; lanes beyond its end are 0.
    fn load<S: Simd>(simd: S, values: &[Self]) -> S::f32s;
    /// Stores a vector to the front of a slice, rounding to nearest (ties to even); lanes beyond its end are dropped.
    fn store<S: Simd>(simd: S, values: &mut [Self], vector: S::f32s);
}

impl Value for f32 {
    fn slice(storage: &CpuStorage) -> Option<&[Self]> {
        match storage {
            CpuStorage::F32(values) => Some(values),
            _ => None,
        }
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, values: &[Self]) -> S::f32s {
        match values.get(..S::F32_LANES) {
            Some(whole) => S::as_simd_f32s(whole).0[0],
            None => simd.partial_load_f32s(values),
        }
    }

    #[inline(always)]
    fn store<S: Simd>(simd: S, values: &mut [Self], vector: S::f32s) {
        match values.get_mut(..S::F32_LANES) {
            Some(whole) => S::as_mut_simd_f32s(whole).0[0] = vector,
            None => simd.partial_store_f32s(values, vector),
        }
    }
}

impl Value for bf16 {
    fn slice(storage: &CpuStorage) -> Option<&[Self]> {
        match storage {
            CpuStorage::BF16(values) => Some(values),
            _ => None,
        }
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    /// Like `half`, but without a branch on NaN, which would prevent vectorisation. NaN stays NaN because the quiet bit
    /// is set wherever rounding up could clear the fraction.
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        Self::from_bits(if value.is_nan() { quiet } else { rounded } as u16)
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, values: &[Self]) -> S::f32s {
        let mut wide = [0.0f32; PADDING];
        // A loop of fixed length compiles to a few vector instructions.
        match values.get(..S::F32_LANES) {
            Some(whole) => {
                for lane in 0..S::F32_LANES {
                    wide[lane] = whole[lane].widen();
                }
            }
            None => {
                for (wide, value) in wide.iter_mut().zip(values) {
                    *wide = value.widen();
                }
            }
        }
        f32::load(simd, &wide)
    }

    #[inline(always)]
    fn store<S: Simd>(simd: S, values: &mut [Self], vector: S::f32s) {
        let mut wide = [0.0f32; PADDING];
        f32::store(simd, &mut wide, vector);
        match values.get_mut(..S::F32_LANES) {
            Some(whole) => {
                for lane in 0..S::F32_LANES {
                    whole[lane] = Self::narrow(wide[lane]);
                }
            }
            None => {
                for (value, wide) in values.iter_mut().zip(wide) {
                    *value = Self::narrow(wide);
                }
            }
        }
    }
}

/// Evaluates an expression with `$V` set to the type as which activations of `$dtype` are read and written: bf16
/// directly, all others via f32.
macro_rules! by_dtype {
    ($dtype:expr, $V:ident => $body:expr) => {
        match $dtype {
            candle_core::DType::BF16 => {
                type $V = half::bf16;
                $body
            }
            _ => {
                type $V = f32;
                $body
            }
        }
    };
}
pub(crate) use by_dtype;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_is_that_of_half_to_the_bit(bits: u32) {
            let value = f32::from_bits(bits);
            let (ours, theirs) = (<bf16 as Value>::narrow(value), bf16::from_f32(value));
            prop_assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        }
    }

    #[test]
    fn rounding_is_that_of_half() {
        let hard = [
            0.0,
            -0.0,
            1.0,
            f32::MAX,
            f32::MIN_POSITIVE,
            1e-40,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        let steps = (0..1 << 16).map(|i| f32::from_bits(i * 65_521));
        for value in steps.chain(hard) {
            let (ours, theirs) = (<bf16 as Value>::narrow(value), bf16::from_f32(value));
            assert!(
                ours == theirs || ours.is_nan() && theirs.is_nan(),
                "{value}: {ours} against {theirs}"
            );
            assert!(ours.widen() == theirs.to_f32() || ours.is_nan());
        }
    }
}
