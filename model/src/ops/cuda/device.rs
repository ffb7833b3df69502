//! The GPU of this process: its only stream, its kernels and its tensors.

use super::cudnn::Cudnn;
use super::input::Lane;
use super::kernels::Kernels;
use super::library::functions;
use super::memory::keep_memory;
use super::nvrtc::Compiler;
use super::stream::StreamInUse;
use super::upload::Staging;
use crate::error::{ModelError, Result};
use crate::gpu::{GpuError, LOWEST_CAPABILITY, OLDEST_DRIVER, tf32_is_allowed};
use crate::lock::locked;
use candle_core::cuda_backend::CudaStorageSlice;
use candle_core::cuda_backend::cudarc::driver::{
    CudaContext, CudaStream, DevicePtr, DriverError, sys,
};
use candle_core::{CudaDevice, DType, Device, Storage, Tensor};
use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

pub(super) static GPU: OnceLock<Gpu> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());
/// Whether the GPU was selected as the backend of [`crate::ops::Backend::best`].
static CHOSEN: AtomicBool = AtomicBool::new(false);
static CACHE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the directory that caches compiled kernels and algorithm choices between runs. Call it before a GPU is opened.
pub fn cache_in(folder: PathBuf) {
    *locked(&CACHE) = Some(folder);
}

functions! {
    /// Driver functions that are called before the GPU is opened.
    Driver of "NVIDIA's driver" in &["libcuda.so.1"];
    cuInit: fn(u32) -> c_int,
    cuDriverGetVersion: fn(*mut c_int) -> c_int,
    cuDeviceGetCount: fn(*mut c_int) -> c_int,
    cuDeviceGet: fn(*mut c_int, c_int) -> c_int,
    cuDeviceGetName: fn(*mut c_char, c_int, c_int) -> c_int,
    cuDeviceGetAttribute: fn(*mut c_int, c_int, c_int) -> c_int,
}

fn driver() -> Result<&'static Driver> {
    // Never unloaded after its first use: it may have threads of its own.
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let loaded = Driver::load()?;
    Ok(DRIVER.get_or_init(|| loaded))
}

/// The number of GPUs and the driver's version.
fn look() -> Result<(usize, i32)> {
    let driver = driver()?;
    let (mut version, mut count) = (0, 0);
    // SAFETY: both places are writable; the driver wants `cuInit` first for the count.
    let status = unsafe {
        (driver.cuDriverGetVersion)(&mut version);
        match (driver.cuInit)(0) {
            0 => (driver.cuDeviceGetCount)(&mut count),
            bad => bad,
        }
    };
    if version > 0 && version < OLDEST_DRIVER {
        let (expected, found) = (OLDEST_DRIVER, version);
        return Err(GpuError::OldDriver { expected, found }.into());
    }
    match (status, count) {
        // CUDA_ERROR_NO_DEVICE
        (100, _) | (0, 0) => Err(GpuError::NoDevice.into()),
        (0, count) => Ok((count as usize, version)),
        (bad, _) => Err(GpuError::Call {
            call: "cuInit",
            reason: format!("the driver answers {bad}"),
        }
        .into()),
    }
}

/// The CUDA major version that the driver supports, such as 12; `None` without a driver.
pub(super) fn generation() -> Option<i32> {
    let (_, version) = look().ok()?;
    Some(version / 1000)
}

/// The compute capability of a GPU counted by [`look`], if the kernels can be compiled for it.
fn capability(ordinal: usize) -> Result<(i32, i32)> {
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `..._MINOR`.
    const MAJOR_AND_MINOR: [c_int; 2] = [75, 76];
    let driver = driver()?;
    let done = |call: &'static str, status: c_int| match status {
        0 => Ok(()),
        bad => Err(failed(call, &format!("the driver answers {bad}"))),
    };
    let mut device: c_int = 0;
    // SAFETY: the place is writable, and `cuInit` was called.
    let status = unsafe { (driver.cuDeviceGet)(&mut device, ordinal as c_int) };
    done("cuDeviceGet", status)?;
    let mut values = [0; 2];
    for (value, attribute) in values.iter_mut().zip(MAJOR_AND_MINOR) {
        // SAFETY: the place is writable, and the driver has named the device.
        let status = unsafe { (driver.cuDeviceGetAttribute)(value, attribute, device) };
        done("cuDeviceGetAttribute", status)?;
    }
    let found = (values[0], values[1]);
    if found >= LOWEST_CAPABILITY {
        return Ok(found);
    }
    let mut name: [c_char; 128] = [0; 128];
    // SAFETY: the driver writes no more bytes than it is told there are. A name that it does not know stays empty.
    unsafe { (driver.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int - 1, device) };
    // SAFETY: its last byte is zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Err(GpuError::OldCard {
        ordinal,
        name: name.to_string_lossy().into_owned(),
        expected: LOWEST_CAPABILITY,
        found,
    }
    .into())
}

/// Opens the GPU of index `number`, or the one of this rank on its node, for all computation of this process.
pub fn choose(number: Option<usize>, local_rank: usize) -> Result<()> {
    let (found, _) = look()?;
    let ordinal = match number {
        Some(asked) if asked >= found => return Err(GpuError::Ordinal { asked, found }.into()),
        Some(asked) => asked,
        // The launcher may expose a different GPU to each process, which then has index 0.
        None if found == 1 => 0,
        None if local_rank >= found => {
            let asked = local_rank;
            return Err(GpuError::Ordinal { asked, found }.into());
        }
        None => local_rank,
    };
    open(ordinal)?;
    CHOSEN.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether a GPU was selected for all computation of this process.
pub fn is_chosen() -> bool {
    CHOSEN.load(Ordering::Relaxed)
}

/// Opens the GPU of this index, or returns it if it is open.
pub(super) fn open(ordinal: usize) -> Result<&'static Gpu> {
    let _one = locked(&OPENING);
    if let Some(gpu) = GPU.get() {
        return if gpu.context.ordinal() == ordinal {
            Ok(gpu)
        } else {
            let open = gpu.context.ordinal();
            Err(failed(
                "opening a GPU",
                &format!("this process already computes on GPU {open}"),
            ))
        };
    }
    let gpu = Gpu::new(ordinal)?;
    Ok(GPU.get_or_init(|| gpu))
}

/// The open GPU, or the first one.
pub(super) fn gpu() -> Result<&'static Gpu> {
    match GPU.get() {
        Some(gpu) => Ok(gpu),
        None => {
            look()?;
            open(0)
        }
    }
}

/// One line for logs and `--version`.
pub fn describe() -> String {
    match gpu() {
        Ok(gpu) => gpu.describe(),
        Err(error) => format!("no GPU: {error}"),
    }
}

/// As [`describe`], without the GPU's index on its node.
pub fn kind() -> String {
    match gpu() {
        Ok(gpu) => gpu.kind(),
        Err(error) => format!("no GPU: {error}"),
    }
}

/// The UUID of the open GPU, and its index here.
pub fn identity() -> Option<(String, usize)> {
    let gpu = GPU.get()?;
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // Not the bindings' UUID, which is the card's: on a card shared by MIG each instance has a UUID of its own.
    // SAFETY: the place is writable.
    let status = unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, gpu.context.cu_device()) };
    status.result().ok()?;
    let digits = uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8));
    Some((digits.collect(), gpu.context.ordinal()))
}

/// A GPU with everything that its operations need.
pub(super) struct Gpu {
    pub(super) device: Device,
    pub(super) kernels: Kernels,
    pub(super) cudnn: Mutex<Cudnn>,
    pub(super) stream: Arc<CudaStream>,
    /// Write-locked by a thread that captures its work on the stream, read-locked by other threads.
    pub(super) stream_in_use: StreamInUse,
    /// Allocated for the first large copy.
    pub(super) staging: Mutex<Option<Staging>>,
    /// Created for the first fields that are uploaded while the GPU computes.
    lane: OnceLock<Lane>,
    pub(super) context: Arc<CudaContext>,
    capability: (i32, i32),
    pub(super) multiprocessors: usize,
    driver: i32,
    compiler: (i32, i32),
}

impl Gpu {
    fn new(ordinal: usize) -> Result<Self> {
        let (found, driver) = look()?;
        if ordinal >= found {
            let asked = ordinal;
            return Err(GpuError::Ordinal { asked, found }.into());
        }
        // Reports what is missing before anything is opened, and an unsuitable card first, for which no library would
        // help.
        let capability = capability(ordinal)?;
        let compiler = Compiler::load()?;
        let (major, minor) = compiler.version();
        if major > driver / 1000 {
            // The driver cannot load machine code of a later CUDA version.
            return Err(GpuError::LibraryVersion {
                what: "NVRTC",
                expected: format!(
                    "at most that of the driver, which is for CUDA {}",
                    driver / 1000
                ),
                found: format!("{major}.{minor}"),
            }
            .into());
        }
        let cudnn = Cudnn::load()?;
        // An explicit stream: candle's default stream differs between threads, which would be a race.
        let device = Device::new_cuda_with_stream(ordinal)?;
        let cuda = cuda(&device)?;
        let stream = cuda.cuda_stream();
        // SAFETY: all work runs in order on the one stream; copies on others are ordered by events of their own.
        unsafe { cuda.disable_event_tracking() };
        let context = stream.context().clone();
        keep_memory(&context)?;
        let multiprocessors = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(driver_error("cuDeviceGetAttribute"))?
            .max(1) as usize;
        let cache = locked(&CACHE).clone();
        let version = compiler.version();
        let architecture = format!("sm_{}{}", capability.0, capability.1);
        let memory = context
            .total_mem()
            .map_err(driver_error("cuDeviceTotalMem"))?;
        Ok(Self {
            kernels: Kernels::new(compiler, architecture.clone(), cache.clone()),
            cudnn: Mutex::new(cudnn.start(&stream, &architecture, cache, memory)?),
            device,
            stream,
            stream_in_use: StreamInUse::default(),
            staging: Mutex::new(None),
            lane: OnceLock::new(),
            context,
            capability,
            multiprocessors,
            driver,
            compiler: version,
        })
    }

    fn describe(&self) -> String {
        format!("GPU {}: {}", self.context.ordinal(), self.kind())
    }

    /// All that determines the bits of its results.
    fn kind(&self) -> String {
        let name = self.context.name().unwrap_or_default();
        let memory = self.context.total_mem().unwrap_or_default() as f64 / (1u64 << 30) as f64;
        let (major, minor) = self.capability;
        let cudnn = locked(&self.cudnn).version();
        let tf32 = match tf32_is_allowed() {
            true => ", f32 convolutions in TF32",
            false => "",
        };
        format!(
            "{name}, {memory:.0} GiB, compute capability {major}.{minor}; driver for CUDA {}.{}, NVRTC {}.{}, cuDNN {cudnn}{tf32}",
            self.driver / 1000,
            self.driver % 1000 / 10,
            self.compiler.0,
            self.compiler.1
        )
    }

    /// Makes this GPU's context current for this thread.
    pub(super) fn bind(&self) -> Result<()> {
        (self.context.bind_to_thread()).map_err(driver_error("cuCtxSetCurrent"))
    }

    /// The upload lane for fields that arrive while the GPU computes.
    pub(super) fn lane(&self) -> Result<&Lane> {
        if let Some(lane) = self.lane.get() {
            return Ok(lane);
        }
        let made = Lane::new(self)?;
        Ok(self.lane.get_or_init(|| made))
    }

    /// Waits for all work.
    pub(super) fn wait(&self) -> Result<()> {
        self.must_be_done_now("waiting")?;
        (self.stream.synchronize()).map_err(driver_error("cuStreamSynchronize"))
    }

    /// A tensor of zeros.
    pub(super) fn zeros(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let tensor = self.empty(shape, dtype)?;
        self.clear(&tensor)?;
        Ok(tensor)
    }

    /// A flat f32 tensor of `count` equal values.
    pub(super) fn filled(&self, value: f32, count: usize) -> Result<Tensor> {
        let tensor = self.empty(&[count], DType::F32)?;
        self.fill(&tensor, value)?;
        Ok(tensor)
    }

    /// Sets all values of an f32 tensor.
    pub(super) fn fill(&self, tensor: &Tensor, value: f32) -> Result<()> {
        let count = tensor.elem_count();
        if count == 0 {
            return Ok(());
        }
        let address = self.address(tensor)?;
        self.bind()?;
        let (bits, stream) = (value.to_bits(), self.stream.cu_stream());
        // SAFETY: the tensor has that many values of four bytes at this address.
        let status = unsafe { sys::cuMemsetD32Async(address, bits, count, stream) };
        status.result().map_err(driver_error("cuMemsetD32Async"))
    }

    /// Sets all bytes of a tensor to zero.
    pub(super) fn clear(&self, tensor: &Tensor) -> Result<()> {
        let bytes = tensor.elem_count() * tensor.dtype().size_in_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let address = self.address(tensor)?;
        self.bind()?;
        // SAFETY: the tensor has that many bytes at this address.
        let status = unsafe { sys::cuMemsetD8Async(address, 0, bytes, self.stream.cu_stream()) };
        status.result().map_err(driver_error("cuMemsetD8Async"))
    }

    /// The address of a tensor's first value, valid as long as the tensor lives. Work already on the stream can still
    /// use it afterwards: memory is freed in stream order.
    pub(super) fn address(&self, tensor: &Tensor) -> Result<u64> {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else {
            return Err(failed(
                "an operation on the GPU",
                "its operand is in host memory",
            ));
        };
        let stream = &self.stream;
        let first = match &storage.slice {
            CudaStorageSlice::U8(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::U32(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::I32(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::I64(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::BF16(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::F16(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::F32(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::F64(slice) => slice.device_ptr(stream).0,
            _ => {
                let got = tensor.dtype();
                return Err(ModelError::DType {
                    op: "an operation on the GPU",
                    got,
                });
            }
        };
        let offset = layout.start_offset() * tensor.dtype().size_in_bytes();
        Ok(first + offset as u64)
    }
}

fn cuda(device: &Device) -> Result<CudaDevice> {
    match device {
        Device::Cuda(cuda) => Ok(cuda.clone()),
        _ => Err(failed("opening a GPU", "candle gave another device")),
    }
}

/// Converts the error of a driver call.
pub(super) fn driver_error(call: &'static str) -> impl Fn(DriverError) -> ModelError {
    move |error| failed(call, &error.to_string())
}

pub(super) fn failed(call: &'static str, reason: &str) -> ModelError {
    let reason = reason.to_string();
    GpuError::Call { call, reason }.into()
}
