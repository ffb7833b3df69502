//! Memory for long-lived values, such as packed kernels: mapped pages, which do not fragment the heap between
//! short-lived activations.

use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// f32 values on the heap or in mapped pages.
#[derive(Debug)]
pub(crate) enum Values {
    Heap(Vec<f32>),
    Pages(MmapMut),
}

/// The lifetime of values, which determines where they are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// One operation: on the heap, or in pages that the next operation reuses.
    Operation,
    /// The lifetime of a network: in mapped pages.
    Network,
}

impl Values {
    /// Allocates `count` zeros; falls back to the heap if the system maps no pages.
    pub fn zeros(count: usize, lifetime: Lifetime) -> Self {
        let pages = match lifetime {
            Lifetime::Network => pages(count * size_of::<f32>()),
            Lifetime::Operation => None,
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

/// Maps zeroed pages of this many bytes; `None` if the system refuses.
pub(crate) fn pages(bytes: usize) -> Option<MmapMut> {
    MmapMut::map_anon(bytes.max(1)).ok()
}
