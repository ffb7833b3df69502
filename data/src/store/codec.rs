//! Encodes fields to records, interleaved by pixel, and decodes them in one pass that selects channels and normalises.

use super::{Encoding, StoreMeta};
use crate::normalise::{ChannelFactors, ChannelScale};
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use ndarray::{ArrayView2, ArrayView3, Axis};
use std::io::Write;
use std::slice::ChunksExactMut;
use xxhash_rust::xxh3::Xxh3;

/// Number of columns interleaved at a time.
const BLOCK_COLUMNS: usize = 64;

impl Encoding {
    /// Writes channel `c` into interleaved pixels.
    fn interleave<'a>(
        self,
        values: impl Iterator<Item = &'a f32>,
        (offset, scale): (f32, f32),
        c: usize,
        pixels: ChunksExactMut<'_, u8>,
    ) {
        let known = |value: f32| if value.is_finite() { value } else { f32::NAN };
        for (pixel, &value) in pixels.zip(values) {
            match self {
                Self::F32 => pixel[c * 4..c * 4 + 4].copy_from_slice(&known(value).to_le_bytes()),
                Self::F16 => {
                    let stored = f16::from_f32((known(value) - offset) / scale);
                    // Thousands of times outside of the variable's range, so not a real value; missing is safer than
                    // infinite.
                    let stored = if stored.is_infinite() {
                        f16::NAN
                    } else {
                        stored
                    };
                    pixel[c * 2..c * 2 + 2].copy_from_slice(&stored.to_le_bytes());
                }
            }
        }
    }
}

/// Length and checksum of a written record.
pub struct WrittenRecord {
    pub bytes: u64,
    pub checksum: u64,
}

impl WrittenRecord {
    /// The checksum in the format of sample entries.
    pub fn hex(&self) -> String {
        format!("{:016x}", self.checksum)
    }
}

/// Encodes `(channel, lat, lon)` fields to record bytes, row by row.
pub struct RecordEncoder {
    encoding: Encoding,
    affine: Vec<(f32, f32)>,
    row: Vec<u8>,
}

impl RecordEncoder {
    pub fn new(meta: &StoreMeta) -> Self {
        let affine = |variable| {
            let (offset, scale) = meta.encoding.affine(variable);
            (offset as f32, scale as f32)
        };
        Self {
            encoding: meta.encoding,
            affine: meta.channels.iter().map(|&v| affine(v)).collect(),
            row: Vec::new(),
        }
    }

    /// Writes fields and class codes, without padding. Infinite values, and values out of the encoding's range, are
    /// written as NaN.
    pub fn write(
        &mut self,
        fields_chw: ArrayView3<'_, f32>,
        codes: ArrayView2<'_, u8>,
        out: &mut impl Write,
    ) -> std::io::Result<WrittenRecord> {
        let (channels, rows, columns) = fields_chw.dim();
        let size = self.encoding.bytes();
        let mut hasher = Xxh3::new();
        let mut bytes = 0;
        self.row.resize(columns * channels * size, 0);
        for j in 0..rows {
            // A few columns at a time, so that their pixels stay in the L1 cache for all channels.
            let blocks = self.row.chunks_mut(BLOCK_COLUMNS * channels * size);
            for (block, pixels) in blocks.enumerate() {
                let first = block * BLOCK_COLUMNS;
                for c in 0..channels {
                    let plane = fields_chw.index_axis(Axis(0), c);
                    let values = plane.row(j).into_iter().skip(first);
                    self.encoding.interleave(
                        values,
                        self.affine[c],
                        c,
                        pixels.chunks_exact_mut(channels * size),
                    );
                }
            }
            hasher.update(&self.row);
            out.write_all(&self.row)?;
            bytes += self.row.len() as u64;
        }
        self.row.clear();
        for row in codes.rows() {
            self.row.clear();
            self.row.extend(row.iter());
            hasher.update(&self.row);
            out.write_all(&self.row)?;
            bytes += self.row.len() as u64;
        }
        Ok(WrittenRecord {
            bytes,
            checksum: hasher.digest(),
        })
    }
}

/// The transform applied to a sample when it is read ([`crate::loader::Augmentation`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// Number of columns to rotate eastward, around the globe.
    pub roll: usize,
    /// Whether to swap the hemispheres and negate meridional winds.
    pub mirror: bool,
}

impl View {
    /// Transforms class codes `(lat, lon)` like the fields.
    pub(crate) fn turn_labels(self, labels: &mut [u8], columns: usize) {
        if self.roll != 0 {
            for row in labels.chunks_exact_mut(columns) {
                row.rotate_right(self.roll % columns);
            }
        }
        if self.mirror {
            let rows = labels.len() / columns;
            for j in 0..rows / 2 {
                let (south, north) = labels.split_at_mut((rows - 1 - j) * columns);
                south[j * columns..(j + 1) * columns].swap_with_slice(&mut north[..columns]);
            }
        }
    }
}

/// The factors of a pixel's channels, repeated so that loops over them vectorise.
#[derive(Debug, Clone)]
struct Pattern(ChannelFactors);

impl Pattern {
    fn new(pixel: &ChannelFactors) -> Self {
        let times = 64usize.div_ceil(pixel.factor.len().max(1));
        Self(ChannelFactors {
            subtract: pixel.subtract.repeat(times),
            factor: pixel.factor.repeat(times),
            fill: pixel.fill.repeat(times),
        })
    }

    /// Applies the factors to whole pixels; returns the number of missing values.
    fn apply<S: Copy>(&self, source: &[S], target: &mut [f32], get: impl Fn(S) -> f32) -> usize {
        let ChannelFactors {
            subtract,
            factor,
            fill,
        } = &self.0;
        let period = factor.len();
        let mut missing = 0;
        for (source, target) in source.chunks(period).zip(target.chunks_mut(period)) {
            let mut bad = 0u32;
            let pattern = subtract.iter().zip(factor).zip(fill);
            for ((x, y), ((subtract, factor), fill)) in source.iter().zip(target).zip(pattern) {
                let value = (get(*x) - subtract) * factor;
                let nan = value.is_nan();
                bad += u32::from(nan);
                *y = if nan { *fill } else { value };
            }
            missing += bad as usize;
        }
        missing
    }
}

/// Decodes record bytes to the selected channels, normalised, in one pass.
#[derive(Debug, Clone)]
pub struct RecordDecoder {
    encoding: Encoding,
    stored_channels: usize,
    /// Stored index of each selected channel; `None` if all are selected in stored order.
    gather: Option<Vec<usize>>,
    plain: Pattern,
    mirrored: Pattern,
}

/// Number of values decoded at a time if that takes more than one pass.
const CACHED_VALUES: usize = 4096;

/// Per-thread buffers for decoding.
#[derive(Debug, Default)]
pub struct DecodeBuffers {
    halves: Vec<u16>,
    values: Vec<f32>,
    gathered: Vec<f32>,
}

impl RecordDecoder {
    /// A decoder of the channels of `scales`; `None` if one is not in `meta`.
    pub fn new(meta: &StoreMeta, scales: &[ChannelScale]) -> Option<Self> {
        let stored: Option<Vec<usize>> = scales
            .iter()
            .map(|scale| meta.channels.iter().position(|&v| v == scale.variable))
            .collect();
        let stored = stored?;
        let pattern = |mirror: bool| {
            let mut pixel = ChannelFactors::default();
            for scale in scales {
                // value = offset + size · stored; for meridional winds mirroring negates it.
                let (offset, size) = meta.encoding.affine(scale.variable);
                let sign = if mirror && scale.variable.is_meridional() {
                    -1.0
                } else {
                    1.0
                };
                let subtract = (sign * scale.subtract - offset) / size;
                pixel.subtract.push(subtract as f32);
                pixel.factor.push((sign * size / scale.divide) as f32);
                pixel.fill.push(scale.fill());
            }
            Pattern::new(&pixel)
        };
        let all = stored.iter().copied().eq(0..meta.channels.len());
        Some(Self {
            encoding: meta.encoding,
            stored_channels: meta.channels.len(),
            gather: (!all).then_some(stored),
            plain: pattern(false),
            mirrored: pattern(true),
        })
    }

    /// Number of decoded channels.
    pub fn channels(&self) -> usize {
        self.gather.as_ref().map_or(self.stored_channels, Vec::len)
    }

    /// The encoding in which fields are stored.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The factors that normalise stored values, or those of a mirrored sample.
    pub fn factors(&self, mirrored: bool) -> ChannelFactors {
        let Pattern(repeated) = self.pattern(mirrored);
        let once = |values: &[f32]| values[..self.channels()].to_vec();
        ChannelFactors {
            subtract: once(&repeated.subtract),
            factor: once(&repeated.factor),
            fill: once(&repeated.fill),
        }
    }

    fn pattern(&self, mirrored: bool) -> &Pattern {
        if mirrored {
            &self.mirrored
        } else {
            &self.plain
        }
    }

    /// Copies the selected channels of whole pixels in stored form; returns the number of missing values.
    pub fn copy(&self, bytes: &[u8], target: &mut [u8]) -> usize {
        let size = self.encoding.bytes();
        match &self.gather {
            None => target.copy_from_slice(bytes),
            Some(gather) => {
                let pixels = bytes.chunks_exact(self.stored_channels * size);
                for (from, to) in pixels.zip(target.chunks_exact_mut(gather.len() * size)) {
                    for (&channel, to) in gather.iter().zip(to.chunks_exact_mut(size)) {
                        to.copy_from_slice(&from[channel * size..][..size]);
                    }
                }
            }
        }
        match self.encoding {
            Encoding::F32 => {
                let words = target.as_chunks().0.iter();
                words.filter(|w| f32::from_le_bytes(**w).is_nan()).count()
            }
            Encoding::F16 => {
                let words = target.as_chunks().0.iter();
                words.filter(|w| f16::from_le_bytes(**w).is_nan()).count()
            }
        }
    }

    /// Decodes the bytes of whole pixels; returns the number of missing values.
    pub fn decode(
        &self,
        bytes: &[u8],
        mirror: bool,
        target: &mut [f32],
        buffers: &mut DecodeBuffers,
    ) -> usize {
        let pattern = self.pattern(mirror);
        if self.encoding == Encoding::F32 && self.gather.is_none() {
            return pattern.apply(bytes.as_chunks().0, target, f32::from_le_bytes);
        }
        // In parts whose intermediate values stay in the L1 cache.
        let pixels = (CACHED_VALUES / self.stored_channels).max(1);
        let parts = bytes.chunks(pixels * self.stored_channels * self.encoding.bytes());
        let targets = target.chunks_mut(pixels * self.channels());
        parts
            .zip(targets)
            .map(|(part, target)| self.decode_part(part, pattern, target, buffers))
            .sum()
    }

    fn decode_part(
        &self,
        bytes: &[u8],
        pattern: &Pattern,
        target: &mut [f32],
        buffers: &mut DecodeBuffers,
    ) -> usize {
        buffers
            .values
            .resize(bytes.len() / self.encoding.bytes(), 0.0);
        match self.encoding {
            Encoding::F32 => {
                for (value, word) in buffers.values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = f32::from_le_bytes(*word);
                }
            }
            Encoding::F16 => {
                buffers.halves.resize(buffers.values.len(), 0);
                for (half, word) in buffers.halves.iter_mut().zip(bytes.as_chunks().0) {
                    *half = u16::from_le_bytes(*word);
                }
                let halves: &[f16] = buffers.halves.reinterpret_cast();
                halves.convert_to_f32_slice(&mut buffers.values);
            }
        }
        let Some(gather) = &self.gather else {
            return pattern.apply(&buffers.values, target, |x| x);
        };
        buffers.gathered.clear();
        for pixel in buffers.values.chunks_exact(self.stored_channels) {
            buffers.gathered.extend(gather.iter().map(|&c| pixel[c]));
        }
        pattern.apply(&buffers.gathered, target, |x| x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Calendar, LatLonGrid, Variable};
    use std::sync::Arc;

    #[test]
    fn what_f16_has_no_room_for_is_missing() {
        let grid = Arc::new(LatLonGrid::global(4, 4).unwrap());
        let mut meta = StoreMeta::new(grid, Calendar::NoLeap, vec![Variable::Prect]);
        meta.encoding = Encoding::F16;
        // A code for missing values that the file did not tell.
        let mut fields = ndarray::Array3::from_elem((1, 4, 4), 1e-6f32);
        fields[[0, 1, 2]] = -9999.0;
        let codes = ndarray::Array2::<u8>::zeros((4, 4));
        let mut bytes = Vec::new();
        RecordEncoder::new(&meta)
            .write(fields.view(), codes.view(), &mut bytes)
            .unwrap();
        let scales = [ChannelScale {
            variable: Variable::Prect,
            subtract: 0.0,
            divide: 1e-6,
            missing: 0.0,
        }];
        let decoder = RecordDecoder::new(&meta, &scales).unwrap();
        let mut found = vec![0.0; 16];
        let buffers = &mut DecodeBuffers::default();
        let missing = decoder.decode(&bytes[..32], false, &mut found, buffers);
        assert_eq!(missing, 1);
        assert!(found.iter().all(|value| value.is_finite()), "{found:?}");
        assert!((found[0] - 1.0).abs() < 0.01, "{}", found[0]);
    }

    #[test]
    fn long_runs_are_decoded_alike_in_every_part() {
        let grid = Arc::new(LatLonGrid::global(4, 4).unwrap());
        let channels = vec![Variable::Tmq, Variable::Psl, Variable::V850];
        let mut meta = StoreMeta::new(grid, Calendar::NoLeap, channels);
        // More than two parts, and not whole ones.
        let pixels = CACHED_VALUES;
        let stored = |k: usize| [0.25, -0.5, 0.125][k % 3] * ((k / 3) % 7) as f32;
        for encoding in [Encoding::F32, Encoding::F16] {
            meta.encoding = encoding;
            let mut bytes = Vec::new();
            for k in 0..3 * pixels {
                match encoding {
                    Encoding::F32 => bytes.extend(stored(k).to_le_bytes()),
                    Encoding::F16 => bytes.extend(f16::from_f32(stored(k)).to_le_bytes()),
                }
            }
            for wanted in [&[0, 1, 2][..], &[2, 0][..]] {
                let scales: Vec<ChannelScale> = wanted
                    .iter()
                    .map(|&c| ChannelScale {
                        variable: meta.channels[c],
                        subtract: 2.0 + c as f64,
                        divide: 4.0,
                        missing: 0.0,
                    })
                    .collect();
                let decoder = RecordDecoder::new(&meta, &scales).unwrap();
                let mut found = vec![0.0; pixels * wanted.len()];
                let missing =
                    decoder.decode(&bytes, true, &mut found, &mut DecodeBuffers::default());
                assert_eq!(missing, 0);
                for (k, found) in found.iter().enumerate() {
                    let (pixel, c) = (k / wanted.len(), wanted[k % wanted.len()]);
                    let (offset, scale) = encoding.affine(meta.channels[c]);
                    let value = offset + scale * f64::from(stored(pixel * 3 + c));
                    let value = if c == 2 { -value } else { value };
                    let expected = (value - 2.0 - c as f64) / 4.0;
                    let error = (f64::from(*found) - expected).abs();
                    assert!(
                        error <= 1e-6 * expected.abs().max(1.0),
                        "{found}, {expected}"
                    );
                }
            }
        }
    }
}
