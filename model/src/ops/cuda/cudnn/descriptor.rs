//! cuDNN's backend descriptors, whose attributes are set and read one by one.

use super::library::{Answer, Functions, Place, Pointer, Refused};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;

/// The kind of a descriptor: `cudnnBackendDescriptorType_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pointwise = 0,
    Convolution = 1,
    Engine = 2,
    EngineConfig = 3,
    Heuristics = 4,
    Plan = 5,
    Forward = 10,
    BackwardFilter = 11,
    BackwardData = 12,
    PointwiseOperation = 13,
    OperationGraph = 15,
    VariantPack = 16,
    Tensor = 17,
    #[cfg(test)]
    DeviceProperties = 38,
}

/// An attribute with values of type `T`: its name (`cudnnBackendAttributeName_t`) and the type of its values
/// (`cudnnBackendAttributeType_t`).
pub(super) struct Attribute<T> {
    name: c_int,
    values: c_int,
    of: PhantomData<T>,
}

const fn attribute<T>(name: c_int, values: c_int) -> Attribute<T> {
    let of = PhantomData;
    Attribute { name, values, of }
}
const fn numbers(name: c_int) -> Attribute<i64> {
    attribute(name, 3)
}
const fn data_type(name: c_int) -> Attribute<c_int> {
    attribute(name, 1)
}
const fn descriptors(name: c_int) -> Attribute<Descriptor> {
    attribute(name, 15)
}
const fn handle(name: c_int) -> Attribute<Pointer> {
    attribute(name, 0)
}
const fn addresses(name: c_int) -> Attribute<u64> {
    attribute(name, 6)
}

pub(super) const POINTWISE_MODE: Attribute<c_int> = attribute(0, 14);
pub(super) const POINTWISE_COMPUTE_TYPE: Attribute<c_int> = data_type(1);
pub(super) const POINTWISE_NAN: Attribute<c_int> = attribute(2, 10);
pub(super) const CONVOLUTION_COMPUTE_TYPE: Attribute<c_int> = data_type(100);
pub(super) const CONVOLUTION_MODE: Attribute<c_int> = attribute(101, 7);
pub(super) const CONVOLUTION_DILATIONS: Attribute<i64> = numbers(102);
pub(super) const CONVOLUTION_STRIDES: Attribute<i64> = numbers(103);
pub(super) const CONVOLUTION_POST_PADDINGS: Attribute<i64> = numbers(104);
pub(super) const CONVOLUTION_PRE_PADDINGS: Attribute<i64> = numbers(105);
pub(super) const CONVOLUTION_DIMENSIONS: Attribute<i64> = numbers(106);
pub(super) const HEURISTICS_MODE: Attribute<c_int> = attribute(200, 8);
pub(super) const HEURISTICS_GRAPH: Attribute<Descriptor> = descriptors(201);
pub(super) const HEURISTICS_RESULTS: Attribute<Descriptor> = descriptors(202);
pub(super) const HEURISTICS_GPU: Attribute<Descriptor> = descriptors(204);
pub(super) const CONFIG_ENGINE: Attribute<Descriptor> = descriptors(300);
pub(super) const PLAN_HANDLE: Attribute<Pointer> = handle(400);
pub(super) const PLAN_CONFIG: Attribute<Descriptor> = descriptors(401);
pub(super) const PLAN_WORKSPACE_SIZE: Attribute<i64> = numbers(402);
pub(super) const PLAN_GPU: Attribute<Descriptor> = descriptors(407);
pub(super) const OPERATION_POINTWISE: Attribute<Descriptor> = descriptors(750);
pub(super) const OPERATION_FIRST: Attribute<Descriptor> = descriptors(751);
pub(super) const OPERATION_SECOND: Attribute<Descriptor> = descriptors(752);
pub(super) const OPERATION_RESULT: Attribute<Descriptor> = descriptors(753);
pub(super) const OPERATION_FACTORS: [Attribute<f32>; 2] = [attribute(754, 4), attribute(755, 4)];
pub(super) const GRAPH_HANDLE: Attribute<Pointer> = handle(800);
pub(super) const GRAPH_OPERATIONS: Attribute<Descriptor> = descriptors(801);
pub(super) const GRAPH_ENGINE_COUNT: Attribute<i64> = numbers(802);
pub(super) const TENSOR_ALIGNMENT: Attribute<i64> = numbers(900);
pub(super) const TENSOR_TYPE: Attribute<c_int> = data_type(901);
pub(super) const TENSOR_DIMENSIONS: Attribute<i64> = numbers(902);
pub(super) const TENSOR_STRIDES: Attribute<i64> = numbers(903);
pub(super) const TENSOR_ID: Attribute<i64> = numbers(906);
pub(super) const TENSOR_IS_VIRTUAL: Attribute<bool> = attribute(907, 2);
pub(super) const PACK_IDS: Attribute<i64> = numbers(1000);
pub(super) const PACK_ADDRESSES: Attribute<u64> = addresses(1001);
pub(super) const PACK_WORKSPACE: Attribute<u64> = addresses(1003);
pub(super) const ENGINE_GRAPH: Attribute<Descriptor> = descriptors(1300);
pub(super) const ENGINE_NUMBER: Attribute<i64> = numbers(1301);
pub(super) const ENGINE_NUMERICAL_NOTES: Attribute<c_int> = attribute(1303, 11);
pub(super) const ENGINE_BEHAVIOR_NOTES: Attribute<c_int> = attribute(1305, 19);
pub(super) const ENGINE_GPU: Attribute<Descriptor> = descriptors(1307);
#[cfg(test)]
pub(super) const GPU_AS_JSON: Attribute<u8> = attribute(2702, 24);

/// The attributes of an operation; only their numbers differ between directions.
pub(super) struct OperationAttributes {
    pub(super) alpha: Attribute<f32>,
    pub(super) beta: Attribute<f32>,
    pub(super) convolution: Attribute<Descriptor>,
    pub(super) w: Attribute<Descriptor>,
    pub(super) x: Attribute<Descriptor>,
    pub(super) y: Attribute<Descriptor>,
}

impl OperationAttributes {
    pub(super) fn of(kind: Kind) -> Self {
        let first = match kind {
            Kind::BackwardData => 706,
            Kind::BackwardFilter => 712,
            _ => 700,
        };
        Self {
            alpha: attribute(first, 4),
            beta: attribute(first + 1, 4),
            convolution: descriptors(first + 2),
            w: descriptors(first + 3),
            x: descriptors(first + 4),
            y: descriptors(first + 5),
        }
    }
}

/// A descriptor, destroyed when this is dropped.
pub(super) struct Descriptor {
    functions: Arc<Functions>,
    kind: Kind,
    pointer: Pointer,
}

// SAFETY: cuDNN binds descriptors to no thread; all are used under the one mutex of [`super::Cudnn`].
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

/// Types whose memory representation is the one that cuDNN reads and writes.
pub(super) trait Plain: Copy + Default {}
impl Plain for i64 {}
impl Plain for c_int {}
impl Plain for f32 {}
impl Plain for u64 {}
impl Plain for u8 {}
impl Plain for bool {}

impl Descriptor {
    pub(super) fn new(functions: &Arc<Functions>, kind: Kind) -> Answer<Self> {
        let mut pointer = null_mut();
        // SAFETY: the place is writable.
        let status =
            unsafe { (functions.cudnnBackendCreateDescriptor)(kind as c_int, &mut pointer) };
        if status != 0 {
            let call = "cudnnBackendCreateDescriptor";
            functions.check(call, &format!("{kind:?}"), status)?;
        }
        Ok(Self {
            functions: functions.clone(),
            kind,
            pointer,
        })
    }

    pub(super) fn set<T: Plain>(&self, attribute: Attribute<T>, values: &[T]) -> Answer<()> {
        // SAFETY: that many values of the attribute's type lie there.
        unsafe { self.set_at(attribute, values.len(), values.as_ptr().cast()) }
    }

    pub(super) fn set_handle(&self, attribute: Attribute<Pointer>, handle: Pointer) -> Answer<()> {
        // SAFETY: what is read is the handle itself, one.
        unsafe { self.set_at(attribute, 1, (&raw const handle).cast()) }
    }

    pub(super) fn set_descriptors(
        &self,
        attribute: Attribute<Self>,
        values: &[&Self],
    ) -> Answer<()> {
        let pointers: Vec<Pointer> = values.iter().map(|value| value.pointer).collect();
        // SAFETY: what is read is that many pointers to descriptors that live.
        unsafe { self.set_at(attribute, pointers.len(), pointers.as_ptr().cast()) }
    }

    /// # Safety
    /// At `values` lie `count` values of the attribute's type.
    unsafe fn set_at<T>(&self, attribute: Attribute<T>, count: usize, values: Place) -> Answer<()> {
        let Attribute {
            name, values: kind, ..
        } = attribute;
        // SAFETY: the descriptor lives, and the caller vouches for the values.
        let status = unsafe {
            (self.functions.cudnnBackendSetAttribute)(
                self.pointer,
                name,
                kind,
                count as i64,
                values,
            )
        };
        self.check(
            "cudnnBackendSetAttribute",
            || format!(", attribute {name}"),
            status,
        )
    }

    /// The values of an attribute, at most `most`.
    pub(super) fn get<T: Plain>(&self, attribute: Attribute<T>, most: usize) -> Answer<Vec<T>> {
        let mut values = vec![T::default(); most];
        // SAFETY: there is room for that many values of the attribute's type.
        let count = unsafe { self.get_at(attribute, most, values.as_mut_ptr().cast()) }?;
        values.truncate(count);
        Ok(values)
    }

    /// The value of an attribute that has exactly one.
    pub(super) fn number(&self, attribute: Attribute<i64>) -> Answer<i64> {
        let name = attribute.name;
        let values = self.get(attribute, 1)?;
        values.first().copied().ok_or_else(|| {
            let what = format!("{:?}, attribute {name}", self.kind);
            Refused::empty("cudnnBackendGetAttribute", what)
        })
    }

    /// The descriptors, of this kind, in an attribute: all of them, or one.
    pub(super) fn get_descriptors(
        &self,
        attribute: Attribute<Self>,
        kind: Kind,
        one: bool,
    ) -> Answer<Vec<Self>> {
        let Attribute { name, values, of } = attribute;
        let count = match one {
            true => 1,
            // SAFETY: without a place nothing is written; and with one, the answer would be what fits there.
            false => unsafe { self.get_at(Attribute { name, values, of }, 0, null_mut()) }?,
        };
        // cuDNN fills descriptors that the caller has created.
        let made = (0..count).map(|_| Self::new(&self.functions, kind));
        let mut made: Vec<Self> = made.collect::<Answer<_>>()?;
        let mut pointers: Vec<Pointer> = made.iter().map(|made| made.pointer).collect();
        if count > 0 {
            // SAFETY: there are that many descriptors of the kind that it fills.
            let count = unsafe { self.get_at(attribute, count, pointers.as_mut_ptr().cast()) }?;
            // The earlier count is only an upper bound.
            made.truncate(count);
        }
        Ok(made)
    }

    /// How many values there are of it: what was written, or with no place what could be.
    ///
    /// # Safety
    /// At `values` there is room for `most` values of the attribute's type.
    unsafe fn get_at<T>(
        &self,
        attribute: Attribute<T>,
        most: usize,
        values: Pointer,
    ) -> Answer<usize> {
        let Attribute {
            name, values: kind, ..
        } = attribute;
        let mut count = 0;
        let get = self.functions.cudnnBackendGetAttribute;
        // SAFETY: the descriptor lives, the count is writable, and the caller vouches for the values.
        let status = unsafe { get(self.pointer, name, kind, most as i64, &mut count, values) };
        self.check(
            "cudnnBackendGetAttribute",
            || format!(", attribute {name}"),
            status,
        )?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(if values.is_null() {
            count
        } else {
            count.min(most)
        })
    }

    /// Finalizes the descriptor; its attributes cannot be changed afterwards.
    pub(super) fn finalize(self) -> Answer<Self> {
        // SAFETY: the descriptor lives.
        let status = unsafe { (self.functions.cudnnBackendFinalize)(self.pointer) };
        self.check("cudnnBackendFinalize", String::new, status)?;
        Ok(self)
    }

    /// Launches a plan on the handle's stream.
    ///
    /// # Safety
    /// The addresses of the pack are those of memory as large as the plan's tensors and its workspace, which is not
    /// freed before the stream has passed this work.
    pub(super) unsafe fn execute(&self, handle: Pointer, pack: &Self) -> Answer<()> {
        // SAFETY: handle, plan and pack live; the caller vouches for the rest.
        let status =
            unsafe { (self.functions.cudnnBackendExecute)(handle, self.pointer, pack.pointer) };
        self.check("cudnnBackendExecute", String::new, status)
    }

    fn check(
        &self,
        call: &'static str,
        more: impl FnOnce() -> String,
        status: c_int,
    ) -> Answer<()> {
        match status {
            0 => Ok(()),
            _ => {
                let what = format!("{:?}{}", self.kind, more());
                self.functions.check(call, &what, status)
            }
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. What it was part of has what it needs of it.
        unsafe { (self.functions.cudnnBackendDestroyDescriptor)(self.pointer) };
    }
}
