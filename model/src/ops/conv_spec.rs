//! Shapes of convolutions, shared by every implementation.

use crate::error::{ModelError, Result};

/// A convolution's geometry. Shape letters: h latitude, w longitude.
///
/// Latitude is padded with zeros. Longitude is padded with zeros or, if `periodic`, with the other side of the globe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvSpec {
    /// Kernel size (h, w).
    pub kernel: (usize, usize),
    /// Stride, on both axes.
    pub stride: usize,
    /// Dilation, on both axes.
    pub dilation: usize,
    /// Number of channel groups that are convolved independently.
    pub groups: usize,
    /// Padding on each side (h, w).
    pub padding: (usize, usize),
    /// Whether longitude wraps.
    pub periodic: bool,
}

impl ConvSpec {
    /// A square, odd kernel that preserves the extents.
    pub fn same(kernel: usize) -> Self {
        let padding = (kernel / 2, kernel / 2);
        Self {
            kernel: (kernel, kernel),
            stride: 1,
            dilation: 1,
            groups: 1,
            padding,
            periodic: false,
        }
    }

    /// This geometry with another stride, which divides the extents, rounding up.
    #[must_use]
    pub fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// This geometry with another dilation and the padding that preserves the extents.
    #[must_use]
    pub fn dilation(self, dilation: usize) -> Self {
        let padding = (self.kernel.0 / 2 * dilation, self.kernel.1 / 2 * dilation);
        Self {
            dilation,
            padding,
            ..self
        }
    }

    /// This geometry with or without wrapping in longitude.
    #[must_use]
    pub fn periodic(self, periodic: bool) -> Self {
        Self { periodic, ..self }
    }

    /// Stride, dilation and groups in a few characters, for tables.
    pub fn brief(&self) -> String {
        format!("s{} d{} g{}", self.stride, self.dilation, self.groups)
    }

    /// Output extents (h, w) of an input of (h, w).
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the kernel does not fit, or a field of the spec is zero.
    pub fn output_size(&self, input: (usize, usize)) -> Result<(usize, usize)> {
        let bad = |what, expected: String, got: String| {
            Err(ModelError::Shape {
                op: "conv2d",
                what,
                expected,
                got,
            })
        };
        if self.stride * self.dilation * self.groups * self.kernel.0 * self.kernel.1 == 0 {
            return bad("spec", "no zero in it".into(), format!("{self:?}"));
        }
        let size = |extent: usize, kernel: usize, padding: usize| {
            (extent + 2 * padding)
                .checked_sub(self.dilation * (kernel - 1) + 1)
                .map(|room| room / self.stride + 1)
        };
        match (
            size(input.0, self.kernel.0, self.padding.0),
            size(input.1, self.kernel.1, self.padding.1),
        ) {
            (Some(h), Some(w)) => Ok((h, w)),
            _ => bad(
                "input",
                format!("at least the extent of {self:?}"),
                format!("{input:?}"),
            ),
        }
    }

    /// Checks an input and weights `(out, in / groups, kh, kw)` and returns the output's shape.
    pub(crate) fn output_shape(
        &self,
        op: &'static str,
        x: [usize; 4],
        weights: &[usize],
    ) -> Result<[usize; 4]> {
        let [b, h, w, c] = x;
        let (out_h, out_w) = self.output_size((h, w))?;
        let expected = || {
            format!(
                "(out, {}, {}, {})",
                c / self.groups,
                self.kernel.0,
                self.kernel.1
            )
        };
        match *weights {
            [out, inner, kh, kw]
                if inner * self.groups == c
                    && (kh, kw) == self.kernel
                    && out > 0
                    && out % self.groups == 0 =>
            {
                Ok([b, out_h, out_w, out])
            }
            ref got => Err(ModelError::Shape {
                op,
                what: "weights",
                expected: expected(),
                got: format!("{got:?}"),
            }),
        }
    }
}

/// A convolution from x to y; for a transposed one, the convolution that it transposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The geometry.
    pub spec: ConvSpec,
    /// The input shape, `(b, h, w, c)`.
    pub x: [usize; 4],
    /// The output shape, `(b, p, q, o)`.
    pub y: [usize; 4],
}

impl Convolution {
    /// Checks an input and weights `(out, in / groups, kh, kw)`.
    pub(crate) fn of(
        op: &'static str,
        spec: &ConvSpec,
        x: [usize; 4],
        weights: &[usize],
    ) -> Result<Self> {
        let (spec, y) = (*spec, spec.output_shape(op, x, weights)?);
        Ok(Self { spec, x, y })
    }
}

/// The position of a convolution's input rows in their field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Rows of the whole field. They determine the algorithm, so that strips are bit-identical to the whole.
    pub whole: usize,
    /// Whether the input includes the halo rows that the kernel needs, so that latitude is not padded.
    pub inner: bool,
}

impl Rows {
    /// The geometry for these rows.
    pub(crate) fn spec(self, spec: &ConvSpec) -> ConvSpec {
        let rows = if self.inner { 0 } else { spec.padding.0 };
        ConvSpec {
            padding: (rows, spec.padding.1),
            ..*spec
        }
    }
}

/// A transposed convolution: the backward-data pass of the convolution `conv`, from its output space to its input
/// space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvTransposeSpec {
    /// The convolution that is transposed.
    pub conv: ConvSpec,
    /// Extra rows and columns at the high end, to select among the sizes that the stride rounds to the same input.
    pub output_padding: usize,
}

impl ConvTransposeSpec {
    /// Doubles the extents with a 3x3 kernel.
    pub fn double(periodic: bool) -> Self {
        Self {
            conv: ConvSpec::same(3).stride(2).periodic(periodic),
            output_padding: 1,
        }
    }

    /// Output extents (h, w) of an input of (h, w).
    pub fn output_size(&self, input: (usize, usize)) -> (usize, usize) {
        let conv = &self.conv;
        let size = |extent: usize, kernel: usize, padding: usize| {
            (extent - 1) * conv.stride + conv.dilation * (kernel - 1) + 1 + self.output_padding
                - 2 * padding
        };
        (
            size(input.0, conv.kernel.0, conv.padding.0),
            size(input.1, conv.kernel.1, conv.padding.1),
        )
    }
}

/// Pooling geometry with a square window; padding is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Window size, on both axes.
    pub kernel: usize,
    /// Stride, on both axes.
    pub stride: usize,
    /// Padding on each side.
    pub padding: usize,
    /// Whether longitude wraps.
    pub periodic: bool,
}

impl PoolSpec {
    /// The 3x3, stride 2 pooling of ResNet's stem.
    pub fn stem(periodic: bool) -> Self {
        Self {
            kernel: 3,
            stride: 2,
            padding: 1,
            periodic,
        }
    }

    /// Output extents (h, w) of an input of (h, w).
    pub fn output_size(&self, input: (usize, usize)) -> (usize, usize) {
        let size = |extent: usize| (extent + 2 * self.padding - self.kernel) / self.stride + 1;
        (size(input.0), size(input.1))
    }
}

/// The input position that a kernel tap reads; `None` for zero padding.
pub(crate) fn source(
    output: usize,
    stride: usize,
    offset: usize,
    padding: usize,
    extent: usize,
    wrap: bool,
) -> Option<usize> {
    let at = (output * stride + offset) as isize - padding as isize;
    if wrap {
        Some(at.rem_euclid(extent as isize) as usize)
    } else {
        (0..extent as isize).contains(&at).then_some(at as usize)
    }
}
