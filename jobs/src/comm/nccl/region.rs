//! A range of lent GPU memory, as a cudarc slice.

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaEvent, CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
use squall_model::gradients::Lent;
use std::ops::Range;
use std::sync::Arc;

/// Users order streams by the events of the lent values; cudarc has none to record.
static NO_EVENT: Option<CudaEvent> = None;

/// A range of lent values, for use by one stream.
pub(super) struct Region<'a> {
    address: CUdeviceptr,
    length: usize,
    stream: &'a Arc<CudaStream>,
}

impl<'a> Region<'a> {
    /// `None` if the range is out of bounds.
    pub fn within(
        lent: &'a Lent,
        range: Range<usize>,
        stream: &'a Arc<CudaStream>,
    ) -> Option<Self> {
        (range.start <= range.end && range.end <= lent.len()).then(|| Self {
            address: lent.address() + (range.start * size_of::<f32>()) as CUdeviceptr,
            length: range.len(),
            stream,
        })
    }
}

impl DeviceSlice<f32> for Region<'_> {
    fn len(&self) -> usize {
        self.length
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.stream
    }
}

impl DevicePtr<f32> for Region<'_> {
    fn device_ptr<'s>(&'s self, stream: &'s CudaStream) -> (CUdeviceptr, SyncOnDrop<'s>) {
        (self.address, SyncOnDrop::record_event(&NO_EVENT, stream))
    }
}

impl DevicePtrMut<f32> for Region<'_> {
    fn device_ptr_mut<'s>(&'s mut self, stream: &'s CudaStream) -> (CUdeviceptr, SyncOnDrop<'s>) {
        (self.address, SyncOnDrop::record_event(&NO_EVENT, stream))
    }
}
