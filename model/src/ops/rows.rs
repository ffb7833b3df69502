//! Some rows of a field, computed as they would be within the whole.

use super::ConvSpec;

/// How the rows that a convolution is given lie in their field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Rows of the whole field: they decide by which algorithm a convolution runs, so that strips of it have the same
    /// bits.
    pub whole: usize,
    /// The rows come with those that the kernel needs around them, so that latitude is not padded.
    pub inner: bool,
}

impl Rows {
    /// The geometry on these rows.
    pub(crate) fn spec(self, spec: &ConvSpec) -> ConvSpec {
        let rows = if self.inner { 0 } else { spec.padding.0 };
        ConvSpec {
            padding: (rows, spec.padding.1),
            ..*spec
        }
    }
}
