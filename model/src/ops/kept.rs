//! Memory for values that live as long as a network (packed kernels): in pages of their own, so that they leave no
//! holes in the heap between activations, which come and go.

use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// f32 values on the heap or in pages of their own.
#[derive(Debug)]
pub(crate) enum Values {
    Heap(Vec<f32>),
    Pages(MmapMut),
}

/// How long values stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// As long as one operation: on the heap, or in pages that the next one takes.
    Operation,
    /// As long as a network: in pages.
    Network,
}

impl Values {
    /// This many zeros; on the heap, too, where the system gives no pages.
    pub fn zeros(count: usize, stay: Stay) -> Self {
        let pages = match stay {
            Stay::Network => pages(count * size_of::<f32>()),
            Stay::Operation => None,
        };
        match pages {
            Some(pages) if count > 0 => Self::Pages(pages),
            _ => Self::Heap(vec![0.0; count]),
        }
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Heap(values) => values,
            Self::Pages(pages) => bytemuck::cast_slice_mut(pages),
        }
    }
}

impl Deref for Values {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        match self {
            Self::Heap(values) => values,
            Self::Pages(pages) => bytemuck::cast_slice(pages),
        }
    }
}

/// Pages of this many bytes, zeros; none where the system gives none.
pub(crate) fn pages(bytes: usize) -> Option<MmapMut> {
    MmapMut::map_anon(bytes.max(1)).ok()
}
