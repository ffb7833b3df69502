//! The decoder on a range of rows.

use super::{Decoder, Deconv, FullResolution};
use crate::error::Result;
use crate::layers::Layer;
use crate::layers::upsample_unit::half;
use crate::networks::strips::{cut, doubled, kernel};
use crate::parameters::Parameters;
use crate::pass::Pass;
use candle_core::Tensor;
use std::ops::Range;

impl Decoder {
    /// The input of the part that runs in strips: refined features at a quarter of the resolution or, for the bilinear
    /// decoder, their logits.
    pub(in super::super) fn before(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        inputs: [Tensor; 2],
    ) -> Result<Tensor> {
        let y = self.join.forward(p, pass, inputs)?;
        match self.deconv {
            None => self.classify.forward(p, pass, &y),
            Some(_) => Ok(y),
        }
    }

    /// A range of rows of the logits at the resolution of `x`.
    pub(in super::super) fn last(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        (before, x): (&Tensor, &Tensor),
        rows: Range<usize>,
    ) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let Some(deconv) = &self.deconv else {
            let (backend, size) = (pass.backend, (h, w));
            return backend.resize_bilinear_rows(before, size, rows, self.periodic);
        };
        let features = match &deconv.full_resolution {
            None => deconv.enlarge_rows(p, pass, before, (h, w), rows)?,
            Some(full_resolution) => {
                deconv.join_rows(p, pass, (full_resolution, before, x), rows)?
            }
        };
        self.classify.forward(p, pass, &features)
    }
}

impl Deconv {
    /// A range of rows of [`Self::enlarge`].
    fn enlarge_rows(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        y: &Tensor,
        (h, w): (usize, usize),
        rows: Range<usize>,
    ) -> Result<Tensor> {
        let ((half_h, half_w), quarter_h) = (half((h, w)), y.dim(1)?);
        let second = |pass: &mut Pass, rows| {
            let quarter = |_: &mut Pass, rows| cut(y, 0, &rows);
            doubled(pass, (rows, quarter_h), quarter, |pass, y, rows| {
                self.second.forward(p, pass, y, (rows, half_w))
            })
        };
        doubled(pass, (rows, half_h), second, |pass, y, rows| {
            self.third.forward(p, pass, y, (rows, w))
        })
    }

    /// A range of rows of the output of [`FullResolution`] for the decoded features and the input.
    fn join_rows(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        (full_resolution, y, x): (&FullResolution, &Tensor, &Tensor),
        rows: Range<usize>,
    ) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let FullResolution { skip, full, .. } = full_resolution;
        let skip = |pass: &mut Pass, rows| {
            let first = |pass: &mut Pass, rows| {
                let x = |_: &mut Pass, rows| cut(x, 0, &rows);
                kernel(pass, (rows, h), x, |pass, x| {
                    skip[0].layer().forward(p, pass, x)
                })
            };
            kernel(pass, (rows, h), first, |pass, x| {
                skip[1].layer().forward(p, pass, x)
            })
        };
        let parts = |pass: &mut Pass, rows: Range<usize>| {
            let decoded = self.enlarge_rows(p, pass, y, (h, w), rows.clone())?;
            Ok([decoded, skip(pass, rows)?])
        };
        let first = |pass: &mut Pass, rows| {
            kernel(pass, (rows, h), parts, |pass, parts| {
                full[0].layer().forward_joined(p, pass, parts)
            })
        };
        kernel(pass, (rows, h), first, |pass, x| {
            full[1].layer().forward(p, pass, x)
        })
    }
}
