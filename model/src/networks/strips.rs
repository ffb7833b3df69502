//! Runs the last part of a network in strips of rows, so that inference never holds the large fields as a whole.
//!
//! The earlier part works at an eighth of the resolution, sees the whole globe, and is small. In the last part every
//! layer requests the rows it reads from the layer before it. Logits are bit-identical to those of the whole field:
//! strips begin at boundaries of Winograd tiles and of upsampled rows, padding is applied only at the field's edges,
//! and the dispatch of algorithms uses the extents of the whole field.

use crate::error::Result;
use crate::ops::conv_spec::Rows;
use crate::ops::host::{Host, bhwc};
use crate::parameters::Parameters;
use crate::pass::Pass;
use candle_core::{Device, Tensor};
use std::num::NonZeroUsize;
use std::ops::Range;

/// Rows of a Winograd tile; even, as upsampling by two requires.
const TILE: usize = 4;

/// The maximum number of extra rows, at full resolution, that a strip computes beside its own.
pub(crate) const HALO: usize = 4 * TILE;

/// A network whose last part can run on a range of rows.
pub(super) trait InStrips {
    /// Runs everything before the last part, on the whole field.
    ///
    /// # Shapes
    /// x `(b, h, w, c)` → `(b, p, q, o)`, p and q a fraction of h and w
    fn before(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor>;

    /// A range of rows of the logits for one sample, from the output of [`Self::before`] and the input.
    ///
    /// # Shapes
    /// inputs `(1, p, q, o)` and `(1, h, w, c)` → `(1, rows, w, k)`
    fn last(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        inputs: (&Tensor, &Tensor),
        rows: Range<usize>,
    ) -> Result<Tensor>;
}

/// The logits, f32, computed sample by sample and strip by strip.
///
/// # Shapes
/// x `(b, h, w, c)` → `(b, h, w, k)`
pub(super) fn logits(
    network: &dyn InStrips,
    parameters: &Parameters,
    pass: &mut Pass,
    x: &Tensor,
    strips: NonZeroUsize,
) -> Result<Tensor> {
    let [b, h, w, _] = bhwc("logits in strips", "x", x)?;
    let before = network.before(parameters, pass, x)?;
    let mut values = Vec::new();
    let mut classes = 0;
    for sample in 0..b {
        let (before, x) = (before.narrow(0, sample, 1)?, x.narrow(0, sample, 1)?);
        for rows in cut_field(h, strips) {
            let logits = network.last(parameters, pass, (&before, &x), rows)?;
            classes = logits.dim(3)?;
            values.reserve_exact(b * h * w * classes - values.len());
            values.extend_from_slice(&Host::of("logits in strips", &logits)?);
        }
    }
    Ok(Tensor::from_vec(values, (b, h, w, classes), &Device::Cpu)?)
}

/// Rows per strip; the last strip may have fewer. Strips consist of whole tiles, so there may be fewer of them than
/// requested.
pub(crate) fn rows_of_strip(height: usize, strips: NonZeroUsize) -> usize {
    height.div_ceil(strips.get()).next_multiple_of(TILE)
}

fn cut_field(height: usize, strips: NonZeroUsize) -> impl Iterator<Item = Range<usize>> {
    let rows = rows_of_strip(height, strips);
    let starts = (0..height).step_by(rows);
    starts.map(move |start| start..height.min(start + rows))
}

/// A range of rows of x, where x begins at row `first` of its field.
pub(super) fn cut(x: &Tensor, first: usize, rows: &Range<usize>) -> Result<Tensor> {
    // For one sample this is a view.
    Ok(x.narrow(1, rows.start - first, rows.len())?.contiguous()?)
}

/// A range of rows of the output of a 3x3 `layer` on a field of `whole` rows; `input` supplies the rows it reads.
pub(super) fn kernel<X>(
    pass: &mut Pass,
    (rows, whole): (Range<usize>, usize),
    input: impl FnOnce(&mut Pass, Range<usize>) -> Result<X>,
    layer: impl FnOnce(&mut Pass, &X) -> Result<Tensor>,
) -> Result<Tensor> {
    let tiles = rows.start / TILE * TILE..rows.end.next_multiple_of(TILE).min(whole);
    let inner = tiles.start > 0 && tiles.end < whole;
    // At an edge of the field the layer pads both sides. The padding at the inner side makes one wrong row, which is
    // cut off. Above, a whole extra tile is read to keep tiles aligned.
    let above = if inner { 1 } else { TILE };
    let read = tiles.start.saturating_sub(above)..whole.min(tiles.end + 1);
    let first = if inner { tiles.start } else { read.start };
    let x = input(pass, read)?;
    pass.rows = Some(Rows { whole, inner });
    let y = layer(pass, &x);
    pass.rows = None;
    cut(&y?, first, &rows)
}

/// A range of rows that `layer` upsamples by two from a field of `whole` rows, supplied by `input`. The layer receives
/// the number of rows to produce.
pub(super) fn doubled(
    pass: &mut Pass,
    (rows, whole): (Range<usize>, usize),
    input: impl FnOnce(&mut Pass, Range<usize>) -> Result<Tensor>,
    layer: impl FnOnce(&mut Pass, &Tensor, usize) -> Result<Tensor>,
) -> Result<Tensor> {
    // Output row 2i reads row i, and row 2i + 1 reads rows i and i + 1.
    let read = rows.start / 2..whole.min(rows.end / 2 + 1);
    let first = 2 * read.start;
    let x = input(pass, read)?;
    let y = layer(pass, &x, rows.end - first)?;
    cut(&y, first, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strips_cover_every_row_once(height in 1usize..400, strips in 1usize..500) {
            let strips = NonZeroUsize::new(strips).unwrap();
            let cuts: Vec<_> = cut_field(height, strips).collect();
            let rows: Vec<usize> = cuts.iter().cloned().flatten().collect();
            prop_assert_eq!(rows, (0..height).collect::<Vec<_>>());
            prop_assert!(cuts.len() <= strips.get());
            prop_assert!(cuts.iter().all(|rows| rows.start % TILE == 0));
        }
    }
}
