//! Kernels packed for oneDNN's primitives, cached between calls.

use super::blocks::Blocks;
use super::primitive::{error, with_primitive};
use super::taps::Tap;
use super::{Trimmed, sys};
use crate::error::Result;
use crate::lock::locked;
use crate::ops::kept::{Lifetime, pages};
use crate::ops::weights::Factors;
use half::bf16;
use memmap2::MmapMut;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// Packed kernels by primitive: another batch size or data type may need another layout.
#[derive(Debug)]
pub struct Packings {
    lifetime: Lifetime,
    packed: Mutex<HashMap<sys::ConvDesc, Arc<Packed>>>,
    /// Shared between primitives with the same layout, such as those of a field and of its edges.
    shared: Mutex<HashMap<Order, Arc<Packed>>>,
    /// Kernels restricted to some taps, by the indices of these.
    by_tap: Mutex<HashMap<Vec<usize>, Arc<Vec<bf16>>>>,
}

impl Packings {
    /// An empty cache whose entries have this lifetime.
    pub fn with_lifetime(lifetime: Lifetime) -> Self {
        Self {
            lifetime,
            packed: Mutex::default(),
            shared: Mutex::default(),
            by_tap: Mutex::default(),
        }
    }
}

/// The cache key of packed kernels: which taps they contain, and their layout.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Order {
    trimmed: Option<Trimmed>,
    layout: sys::Layout,
}

thread_local! {
    /// Pages of the last operation's packed kernels, for reuse: fresh pages fault one by one, which takes longer than
    /// packing. They are taken out of the cell while in use, so that other work that runs on this thread in the
    /// meantime gets its own.
    static ROOM: Cell<Option<MmapMut>> = const { Cell::new(None) };
}

/// Kernels, or their gradient, in the layout that one primitive reads or writes.
#[derive(Debug)]
pub struct Packed {
    lifetime: Lifetime,
    pages: Option<MmapMut>,
}

impl Packed {
    /// Room for a primitive's kernels, with unspecified contents.
    fn room(op: &'static str, desc: sys::ConvDesc, lifetime: Lifetime) -> Result<Self> {
        let bytes = with_primitive(op, desc, |primitive| {
            // SAFETY: the primitive exists.
            Ok(unsafe { sys::squall_conv_packed_bytes(primitive.0) })
        })?;
        let known = match lifetime {
            Lifetime::Operation => ROOM.take().filter(|pages| pages.len() >= bytes),
            Lifetime::Network => None,
        };
        let new = || pages(bytes).ok_or_else(|| error(op, sys::OUT_OF_MEMORY, &desc));
        let pages = Some(known.map_or_else(new, Ok)?);
        Ok(Self { lifetime, pages })
    }

    pub fn as_ptr(&self) -> *const c_void {
        let pages = self.pages.as_ref();
        pages.map_or(std::ptr::null(), |pages| pages.as_ptr().cast())
    }

    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        let pages = self.pages.as_mut();
        pages.map_or(std::ptr::null_mut(), |pages| pages.as_mut_ptr().cast())
    }

    /// The first `count` values of the buffer.
    fn values(&mut self, count: usize) -> &mut [bf16] {
        let bytes = self.pages.as_deref_mut().unwrap_or_default();
        &mut bytemuck::cast_slice_mut(bytes)[..count]
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Operation {
            ROOM.set(self.pages.take());
        }
    }
}

/// The kernels of a convolution, and the cache for their packed forms, if any.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub values: &'a [f32],
    /// Scales that are still to be applied.
    pub factors: Option<Factors<'a>>,
    /// The taps to keep after scaling, unless all are kept.
    pub trimmed: Option<&'a Trimmed>,
    pub packings: Option<&'a Packings>,
}

impl<'a> Source<'a> {
    /// The scaled and trimmed kernels. Not cached, because they are not needed once they are packed.
    pub fn plain(&self) -> Cow<'a, [f32]> {
        let all = match self.factors {
            Some(factors) => Cow::Owned(factors.times(self.values)),
            None => Cow::Borrowed(self.values),
        };
        match self.trimmed {
            Some(trimmed) => Cow::Owned(trimmed.kernels(&all)),
            None => all,
        }
    }

    /// These kernels without a cache.
    pub fn unpacked(self) -> Self {
        Self {
            packings: None,
            ..self
        }
    }
}

impl Source<'_> {
    /// The kernels packed for a primitive.
    ///
    /// # Errors
    /// [`crate::ModelError::OneDnn`] if memory runs out.
    pub fn packed(&self, op: &'static str, desc: sys::ConvDesc) -> Result<Arc<Packed>> {
        let Some(packings) = self.packings else {
            let layout = layout(op, desc)?;
            return Ok(Arc::new(self.pack(
                op,
                desc,
                layout,
                Lifetime::Operation,
            )?));
        };
        if let Some(packed) = locked(&packings.packed).get(&desc) {
            return Ok(packed.clone());
        }
        let layout = layout(op, desc)?;
        let order = layout.map(|layout| Order {
            trimmed: self.trimmed.cloned(),
            layout,
        });
        let shared = |order: &Order| locked(&packings.shared).get(order).cloned();
        let packed = match order.as_ref().and_then(shared) {
            Some(packed) => packed,
            // Packed without holding a lock: while this thread waits for its parallel tasks, it may pick up work that
            // needs the same kernels.
            None => Arc::new(self.pack(op, desc, layout, packings.lifetime)?),
        };
        locked(&packings.packed).insert(desc, packed.clone());
        if let Some(order) = order {
            locked(&packings.shared).insert(order, packed.clone());
        }
        Ok(packed)
    }

    fn pack(
        &self,
        op: &'static str,
        desc: sys::ConvDesc,
        layout: Option<sys::Layout>,
        lifetime: Lifetime,
    ) -> Result<Packed> {
        let mut packed = Packed::room(op, desc, lifetime)?;
        let plain = self.plain();
        if let Some(blocks) = layout.and_then(|layout| Blocks::from_layout(&desc, &layout)) {
            blocks.pack(&plain, packed.values(blocks.len()));
            return Ok(packed);
        }
        let kernels = desc.channels_out * (desc.channels_in / desc.groups);
        let values = kernels * desc.kernel_h * desc.kernel_w;
        assert!(
            plain.len() as i64 >= values,
            "convolution over the end of its kernels"
        );
        let from = plain.as_ptr() as *mut c_void;
        with_primitive(op, desc, |primitive| {
            // SAFETY: the plain kernels have the size that `desc` says, by the assertion above, and are only read; the
            // pages have room for as many bytes as the primitive asks for.
            let status = unsafe { sys::squall_conv_pack(primitive.0, from, packed.as_mut_ptr()) };
            if status == 0 {
                Ok(())
            } else {
                Err(error(op, status, &desc))
            }
        })?;
        Ok(packed)
    }

    /// The result of `make` on the kernels, for products by some of their taps; cached by these taps.
    pub fn by_tap(self, taps: &[Tap], make: impl FnOnce(&[f32]) -> Vec<bf16>) -> Arc<Vec<bf16>> {
        let made = || Arc::new(make(&self.plain()));
        let Some(Packings { by_tap, .. }) = self.packings else {
            return made();
        };
        let indices: Vec<usize> = taps.iter().map(|tap| tap.index).collect();
        if let Some(known) = locked(by_tap).get(&indices) {
            return known.clone();
        }
        // Without holding a lock, as above.
        let made = made();
        locked(by_tap).entry(indices).or_insert(made).clone()
    }
}

/// The buffer for a kernel gradient, before it is added to the accumulated one.
pub(super) fn room(op: &'static str, desc: sys::ConvDesc) -> Result<Packed> {
    Packed::room(op, desc, Lifetime::Operation)
}

/// The kernel layout that a primitive expects; `None` if oneDNN does not report it.
fn layout(op: &'static str, desc: sys::ConvDesc) -> Result<Option<sys::Layout>> {
    with_primitive(op, desc, |primitive| {
        let mut layout = sys::Layout::default();
        // SAFETY: the primitive exists; the layout is written.
        let told = unsafe { sys::squall_conv_layout(primitive.0, &raw mut layout) };
        Ok((told == 1).then_some(layout))
    })
}

impl<'a> From<&'a [f32]> for Source<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self {
            values,
            factors: None,
            trimmed: None,
            packings: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::ConvSpec;
    use crate::ops::conv_spec::Convolution;
    use crate::ops::finish::Finish;
    use crate::ops::testing::draw;

    /// A thread that packs kernels may in the meantime pick up work that needs the same ones.
    #[test]
    fn kernels_of_taps_are_made_under_no_lock() {
        let (values, packings) = ([1.0f32, 2.0], Packings::with_lifetime(Lifetime::Network));
        let kept = Source {
            packings: Some(&packings),
            ..values[..].into()
        };
        let bf16s =
            |values: &[f32]| -> Vec<bf16> { values.iter().map(|&v| bf16::from_f32(v)).collect() };
        let made = kept.by_tap(&[], |plain| {
            assert!(packings.by_tap.try_lock().is_ok());
            bf16s(plain)
        });
        assert_eq!(made[..], [1.0, 2.0].map(bf16::from_f32));
        let again = kept.by_tap(&[], |_| unreachable!("they are kept"));
        assert!(Arc::ptr_eq(&made, &again));
    }

    #[test]
    fn a_field_and_its_edges_share_packed_kernels() {
        let geometry = Convolution {
            x: [1, 48, 96, 32],
            y: [1, 24, 48, 64],
            spec: ConvSpec::same(5).stride(2).periodic(true),
        };
        let (x, w) = (draw(1, 48 * 96 * 32), draw(2, 64 * 32 * 25));
        let packings = Packings::with_lifetime(Lifetime::Network);
        let kept = Source {
            packings: Some(&packings),
            ..w[..].into()
        };
        let finish = || Finish::<f32> {
            bias: None,
            residual: None,
            relu: false,
        };
        let y = super::super::forward(&geometry, &x, kept, finish()).unwrap();
        assert_eq!(
            y,
            super::super::forward(&geometry, &x, w[..].into(), finish()).unwrap()
        );
        let known = packings.packed.lock().unwrap();
        assert_eq!(known.len(), 2, "a field and its edges");
        assert_eq!(packings.shared.lock().unwrap().len(), 1);
    }
}
