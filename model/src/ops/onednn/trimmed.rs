//! Kernels without the outer taps that read only padding. At the published rates on small fields these are most taps of
//! an atrous kernel, and oneDNN would multiply them all.

use crate::ops::conv_spec::{ConvSpec, Convolution};
use rayon::prelude::*;
use std::ops::Range;

/// The taps of a kernel that read more than padding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trimmed {
    kernel: (usize, usize),
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Trimmed {
    /// The taps that a convolution needs, and the geometry of the trimmed kernel. `None` if every tap is needed, or if
    /// the trimmed convolution would have to skip leading inputs. Depends on the geometry alone.
    pub fn if_trimmable(geometry: &Convolution) -> Option<(Self, Convolution)> {
        let spec = geometry.spec;
        let ([_, height, width, _], [_, out_h, out_w, _]) = (geometry.x, geometry.y);
        let kernel = spec.kernel;
        let rows = seen(&spec, kernel.0, spec.padding.0, (height, out_h));
        let columns = match spec.periodic {
            true => 0..kernel.1,
            false => seen(&spec, kernel.1, spec.padding.1, (width, out_w)),
        };
        if rows.is_empty() || columns.is_empty() || (rows.len(), columns.len()) == kernel {
            return None;
        }
        let rest = |padding: usize, first: usize| padding.checked_sub(first * spec.dilation);
        let padding = (
            rest(spec.padding.0, rows.start)?,
            rest(spec.padding.1, columns.start)?,
        );
        let spec = ConvSpec {
            kernel: (rows.len(), columns.len()),
            padding,
            ..spec
        };
        let trimmed = Self {
            kernel,
            rows,
            columns,
        };
        Some((trimmed, Convolution { spec, ..*geometry }))
    }

    /// Trims kernels `(out, in / groups, kh, kw)`.
    pub fn kernels(&self, plain: &[f32]) -> Vec<f32> {
        let area = self.kernel.0 * self.kernel.1;
        let left = self.rows.len() * self.columns.len();
        let mut kernels = vec![0.0; plain.len() / area * left];
        let pairs = kernels.par_chunks_exact_mut(left);
        pairs
            .zip(plain.par_chunks_exact(area))
            .with_min_len(4096)
            .for_each(|(to, from)| {
                let taps = (self.rows.clone())
                    .flat_map(|row| self.columns.clone().map(move |c| row * self.kernel.1 + c));
                to.iter_mut()
                    .zip(taps)
                    .for_each(|(to, tap)| *to = from[tap]);
            });
        kernels
    }
}

/// The range from the first to the last tap that reads inside the field for some output.
fn seen(
    spec: &ConvSpec,
    kernel: usize,
    padding: usize,
    (inputs, outputs): (usize, usize),
) -> Range<usize> {
    let reads = |&tap: &usize| {
        let mut at = (0..outputs).map(|output| output * spec.stride + tap * spec.dilation);
        at.any(|at| (padding..padding + inputs).contains(&at))
    };
    match ((0..kernel).find(reads), (0..kernel).rfind(reads)) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    }
}
