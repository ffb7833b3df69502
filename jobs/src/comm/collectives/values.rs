//! Element-wise loops: addition, and conversion to and from the wire format.

use crate::comm::Wire;
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use pulp::{Arch, Simd, WithSimd};

/// Number of values decoded at a time, few enough to stay in the L1 cache.
const BLOCK: usize = 1024;

/// A half-precision wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Bf16,
    F16,
}

impl Half {
    /// The half-precision format of a wire; `None` if values are sent unchanged.
    pub(super) fn from_wire(wire: Wire) -> Option<Self> {
        match wire {
            Wire::F32 => None,
            Wire::Bf16 => Some(Self::Bf16),
            Wire::F16 => Some(Self::F16),
        }
    }
}

/// Adds element-wise.
pub(super) fn add(totals: &mut [f32], values: &[f32]) {
    struct Add<'a>(&'a mut [f32], &'a [f32]);
    impl WithSimd for Add<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (totals, totals_rest) = S::as_mut_simd_f32s(self.0);
            let (values, values_rest) = S::as_simd_f32s(self.1);
            for (total, value) in totals.iter_mut().zip(values) {
                *total = simd.add_f32s(*total, *value);
            }
            for (total, value) in totals_rest.iter_mut().zip(values_rest) {
                *total += value;
            }
        }
    }
    Arch::new().dispatch(Add(totals, values));
}

/// Sums several terms element-wise, in their order.
pub(in crate::comm) fn add_in_order<'a>(
    sums: &mut [f32],
    terms: usize,
    term: impl Fn(usize) -> &'a [f32],
) {
    sums.copy_from_slice(term(0));
    (1..terms).for_each(|at| add(sums, term(at)));
}

/// Multiplies element-wise.
pub fn scale(values: &mut [f32], by: f32) {
    if by != 1.0 {
        values.iter_mut().for_each(|value| *value *= by);
    }
}

/// Rounds to nearest, ties to even, into 16 bits. Values that f16 cannot represent become infinite.
pub(super) fn encode(half: Half, values: &[f32], bits: &mut [u16]) {
    struct Encode<'a>(&'a [f32], &'a mut [u16]);
    impl WithSimd for Encode<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) {
            for (bits, value) in self.1.iter_mut().zip(self.0) {
                let long = value.to_bits();
                let rounded = long.wrapping_add(0x7FFF + ((long >> 16) & 1)) >> 16;
                // Keeps NaN a NaN whatever its low bits are.
                let kept = (long >> 16) | 0x40;
                *bits = if value.is_nan() { kept } else { rounded } as u16;
            }
        }
    }
    match half {
        Half::F16 => bits
            .reinterpret_cast_mut::<f16>()
            .convert_from_f32_slice(values),
        Half::Bf16 => Arch::new().dispatch(Encode(values, bits)),
    }
}

/// Decodes 16-bit values.
pub(super) fn decode(half: Half, bits: &[u16], values: &mut [f32]) {
    struct Decode<'a>(&'a [u16], &'a mut [f32]);
    impl WithSimd for Decode<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) {
            for (value, bits) in self.1.iter_mut().zip(self.0) {
                *value = f32::from_bits(u32::from(*bits) << 16);
            }
        }
    }
    match half {
        Half::F16 => bits.reinterpret_cast::<f16>().convert_to_f32_slice(values),
        Half::Bf16 => Arch::new().dispatch(Decode(bits, values)),
    }
}

/// Decodes 16-bit values and adds them.
pub(super) fn decode_add(half: Half, bits: &[u16], totals: &mut [f32]) {
    let mut block = [0.0; BLOCK];
    for (bits, totals) in bits.chunks(BLOCK).zip(totals.chunks_mut(BLOCK)) {
        let block = &mut block[..bits.len()];
        decode(half, bits, block);
        add(totals, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn own_rounding_to_bf16_is_that_of_the_crate_half() {
        let special = [0.0, -0.0, 1.0, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY];
        let patterns = (0..200_000_u32).map(|i| f32::from_bits(i.wrapping_mul(0x9E37_79B9)));
        let values: Vec<f32> = special.into_iter().chain(patterns).collect();
        let mut bits = vec![0; values.len()];
        encode(Half::Bf16, &values, &mut bits);
        let mut back = vec![0.0; values.len()];
        decode(Half::Bf16, &bits, &mut back);
        for ((value, bits), back) in values.iter().zip(bits).zip(back) {
            let expected = bf16::from_f32(*value);
            assert_eq!(expected.to_bits(), bits, "{value}");
            assert_eq!(expected.to_f32().to_bits(), back.to_bits(), "{value}");
        }
    }

    #[test]
    fn f16_keeps_eleven_bits_and_overflows_to_infinity() {
        let values = [1.0 + 2.0_f32.powi(-11), 65504.0, 70000.0, -3.5];
        let mut bits = [0; 4];
        encode(Half::F16, &values, &mut bits);
        let mut back = [1.0; 4];
        decode_add(Half::F16, &bits, &mut back);
        assert_eq!(back, [2.0, 65505.0, f32::INFINITY, -2.5]);
    }
}
