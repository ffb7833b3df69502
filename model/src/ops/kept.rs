//! Values that stay as long as a network: in pages of their own, so that activations, which come and go, find the heap
//! without holes between them.

use memmap2::MmapMut;
use std::ops::Deref;

/// f32 values on the heap, as they are made, or in pages of their own.
#[derive(Debug)]
pub(crate) enum Values {
    Heap(Vec<f32>),
    Pages(MmapMut),
}

impl Values {
    /// The same in pages of their own; on the heap still where the system gives none.
    pub fn into_pages(self) -> Self {
        let Self::Heap(values) = self else {
            return self;
        };
        let bytes = size_of_val(&values[..]);
        match pages(bytes).filter(|_| bytes > 0) {
            Some(mut pages) => {
                pages.copy_from_slice(bytemuck::cast_slice(&values));
                Self::Pages(pages)
            }
            None => Self::Heap(values),
        }
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Self::Heap(values)
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

/// Pages of so many bytes, zeros; none where the system gives none.
pub(crate) fn pages(bytes: usize) -> Option<MmapMut> {
    MmapMut::map_anon(bytes.max(1)).ok()
}
