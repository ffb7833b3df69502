//! The stand-in GPU: its libraries, built once, and a thin driver that runs single kernels on it.
//!
//! [`folder`] is all that a test of the whole program needs: it gives the folder to load libraries from.

#![allow(dead_code)] // no test uses all of it

use half::{bf16, f16};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock};

/// Where the kernels are.
pub const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops/cuda/kernels");

/// Bytes that came back from the stand-in's memory to this process so far.
pub fn copied_back() -> Option<u64> {
    // SAFETY: the stand-in's library, which stays loaded where it computes; the function is its own, of this type.
    unsafe {
        let library = Library::new(folder()?.join("libcuda.so.1")).ok()?;
        let count = library.get::<unsafe extern "C" fn() -> u64>(b"squall_copied_back");
        Some(count.ok()?())
    }
}

/// The folder with the stand-in's libraries, built if they are not there yet; `None`, with [`skipped`], without a C++
/// compiler.
///
/// # Panics
/// Without one, if `SQUALL_REQUIRE` names `cxx`.
pub fn folder() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(built).clone();
    if folder.is_none() {
        let required = std::env::var("SQUALL_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|word| word == "cxx"),
            "SQUALL_REQUIRE={required}: a C++ compiler is not here"
        );
        skipped("a C++ compiler is not here");
    }
    folder
}

/// Says that this test is skipped, and why, on standard error and in the list that `SQUALL_SKIPPED` names: as
/// `data/src/testdata.rs`, which this crate does not know.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    if let Some(list) = std::env::var_os("SQUALL_SKIPPED") {
        let line = format!("{} {test}\t{why}\n", env!("CARGO_CRATE_NAME"));
        let opened = OpenOptions::new().create(true).append(true).open(list);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "the list of skipped tests: {written:?}");
    }
}

fn built() -> Option<PathBuf> {
    let compiler = std::env::var("CXX").unwrap_or("g++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in_gpu/build.sh");
    let built = Command::new("sh")
        .arg(script)
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("stand-in-gpu"))
        .output()
        .expect("a shell");
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");
    let folder = String::from_utf8(built.stdout).expect("a path in UTF-8");
    Some(folder.trim_end().into())
}

/// What of the stand-in does not wait for events, although it is told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deaf {
    Nothing = 0,
    Streams = 1,
    Host = 2,
}

/// Which streams of the stand-in run late from now on (`streams.h`), and what does not wait; what is left is done
/// first, and its error told.
///
/// The folder is that of the libraries which this process uses.
pub fn run_late(folder: &Path, which: &str, deaf: Deaf) -> i32 {
    let which = CString::new(which).expect("no zero bytes");
    // SAFETY: the library is ours, loaded already, and the function takes a text that ends in zero and a number.
    unsafe {
        let library = Library::new(folder.join("libcuda.so.1")).expect("the stand-in's library");
        let late: unsafe extern "C" fn(*const c_char, c_int) -> c_int =
            function(&library, "squallStandInLate");
        late(which.as_ptr(), deaf as c_int)
    }
}

/// From now on the so-many-th work that the stand-in is to write down cannot be; none for 0.
pub fn break_capture(folder: &Path, after: i32) {
    // SAFETY: as above, the function takes a number.
    unsafe {
        let library = Library::new(folder.join("libcuda.so.1")).expect("the stand-in's library");
        let spoil: unsafe extern "C" fn(c_int) -> c_int = function(&library, "squallStandInBreak");
        spoil(after);
    }
}

/// Bytes of the stand-in's memory that launches of graphs have taken and nobody gave back.
pub fn graph_memory(folder: &Path) -> u64 {
    count(folder, "squall_graph_memory")
}

/// Bytes of the stand-in's memory that graphs have, whether in use or not.
pub fn graph_memory_reserved(folder: &Path) -> u64 {
    count(folder, "squall_graph_memory_reserved")
}

/// What a function of the stand-in that counts says.
fn count(folder: &Path, name: &str) -> u64 {
    // SAFETY: as above, the function takes nothing.
    unsafe {
        let library = Library::new(folder.join("libcuda.so.1")).expect("the stand-in's library");
        let bytes: unsafe extern "C" fn() -> u64 = function(&library, name);
        bytes()
    }
}

/// How values are stored on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    F32,
    Bf16,
    F16,
}

impl Storage {
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// What kernels' names end in.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    fn bytes(self, values: &[f32]) -> Vec<u8> {
        let each = |&value: &f32| match self {
            Self::F32 => value.to_le_bytes().to_vec(),
            Self::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
            Self::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        };
        values.iter().flat_map(each).collect()
    }

    fn values(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F32 => numbers(bytes, f32::from_le_bytes),
            Self::Bf16 => numbers(bytes, |b| bf16::from_le_bytes(b).to_f32()),
            Self::F16 => numbers(bytes, |b| f16::from_le_bytes(b).to_f32()),
        }
    }
}

fn numbers<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let chunks = bytes.chunks_exact(N);
    chunks
        .map(|chunk| read(chunk.try_into().expect("N bytes")))
        .collect()
}

/// An argument of a kernel; it borrows the memory that it points to.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    Pointer(u64, PhantomData<&'a Memory>),
    I32(i32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Arg<'_> {
    /// No memory.
    pub const NONE: Self = Self::Pointer(0, PhantomData);

    fn letter(self) -> char {
        match self {
            Self::Pointer(..) => 'p',
            Self::I32(_) => 'i',
            Self::I64(_) | Self::U64(_) => 'l',
            Self::F32(_) => 'f',
            Self::F64(_) => 'd',
        }
    }

    fn bits(self) -> u64 {
        match self {
            Self::Pointer(v, _) | Self::U64(v) => v,
            Self::I32(v) => u64::from(v as u32),
            Self::I64(v) => v as u64,
            Self::F32(v) => u64::from(v.to_bits()),
            Self::F64(v) => v.to_bits(),
        }
    }
}

macro_rules! args_from {
    ($($from:ty => $to:ident,)*) => {
        $(impl From<$from> for Arg<'_> {
            fn from(value: $from) -> Self {
                Self::$to(value)
            }
        })*
    };
}
args_from! { i32 => I32, i64 => I64, u64 => U64, f32 => F32, f64 => F64, }

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::I32(i32::from(value))
    }
}

impl<'a> From<&'a Memory> for Arg<'a> {
    fn from(memory: &'a Memory) -> Self {
        memory.at(0)
    }
}

/// A list of arguments.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::stand_in_gpu::Arg::from($value)),*][..] };
}

/// Memory of the GPU; freed at the end, when writes beyond it are found.
#[derive(Debug)]
pub struct Memory {
    address: u64,
    bytes: usize,
    free: unsafe extern "C" fn(u64) -> c_int,
}

impl Memory {
    /// Its address, this many bytes on.
    pub fn at(&self, bytes: usize) -> Arg<'_> {
        Arg::Pointer(self.address + bytes as u64, PhantomData)
    }
}

impl Memory {
    /// The driver's answer to freeing it.
    pub fn release(self) -> i32 {
        // SAFETY: the address came from the allocation that this frees; forgotten, it is not freed again.
        let status = unsafe { (self.free)(self.address) };
        std::mem::forget(self);
        status
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the address came from the allocation that this frees once.
        let status = unsafe { (self.free)(self.address) };
        if !std::thread::panicking() {
            assert_eq!(status, 0, "a kernel wrote beyond {} bytes", self.bytes);
        }
    }
}

/// The functions of the driver that tests call.
struct Driver {
    alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int,
    free: unsafe extern "C" fn(u64) -> c_int,
    to_device: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
    to_host: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
    load: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int,
    function: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int,
    #[allow(clippy::type_complexity)] // the driver's own
    launch: unsafe extern "C" fn(
        *mut c_void,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        *mut c_void,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> c_int,
}

/// The functions of the compiler that tests call.
struct Compiler {
    create: unsafe extern "C" fn(
        *mut *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int,
    log: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
    size: unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int,
    image: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
}

/// A function of a library that stays loaded.
///
/// # Safety
/// `F` is its type.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> F {
    // SAFETY: the caller vouches for the type.
    let found = unsafe { library.get::<F>(name) };
    *found.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// One file of kernels, compiled.
struct Module {
    handle: usize,
    library: Library,
}

/// The stand-in, opened.
pub struct Gpu {
    driver: Driver,
    compiler: Compiler,
    modules: Mutex<HashMap<String, Module>>,
}

impl Gpu {
    /// The stand-in GPU; `None` where it cannot be built, with a printed reason.
    pub fn open() -> Option<Self> {
        let folder = folder()?;
        let open = |name: &str| -> &'static Library {
            // SAFETY: the library is ours and has no start of its own.
            let library = unsafe { Library::new(folder.join(name)) };
            Box::leak(Box::new(library.expect("the stand-in's library loads")))
        };
        let (cuda, nvrtc) = (open("libcuda.so.1"), open("libnvrtc.so.13"));
        // SAFETY: the types are those of CUDA 13's headers.
        let (driver, compiler) = unsafe {
            let driver = Driver {
                alloc: function(cuda, "cuMemAlloc_v2"),
                free: function(cuda, "cuMemFree_v2"),
                to_device: function(cuda, "cuMemcpyHtoD_v2"),
                to_host: function(cuda, "cuMemcpyDtoH_v2"),
                load: function(cuda, "cuModuleLoadData"),
                function: function(cuda, "cuModuleGetFunction"),
                launch: function(cuda, "cuLaunchKernel"),
            };
            let compiler = Compiler {
                create: function(nvrtc, "nvrtcCreateProgram"),
                compile: function(nvrtc, "nvrtcCompileProgram"),
                log_size: function(nvrtc, "nvrtcGetProgramLogSize"),
                log: function(nvrtc, "nvrtcGetProgramLog"),
                size: function(nvrtc, "nvrtcGetCUBINSize"),
                image: function(nvrtc, "nvrtcGetCUBIN"),
                destroy: function(nvrtc, "nvrtcDestroyProgram"),
            };
            let init: unsafe extern "C" fn(u32) -> c_int = function(cuda, "cuInit");
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                function(cuda, "cuDevicePrimaryCtxRetain");
            let bind: unsafe extern "C" fn(*mut c_void) -> c_int =
                function(cuda, "cuCtxSetCurrent");
            let mut context = null_mut();
            assert_eq!(init(0), 0);
            assert_eq!(retain(&mut context, 0), 0);
            assert_eq!(bind(context), 0);
            (driver, compiler)
        };
        Some(Self {
            driver,
            compiler,
            modules: Mutex::default(),
        })
    }

    fn alloc(&self, bytes: usize) -> Memory {
        match self.try_alloc(bytes) {
            Ok(memory) => memory,
            Err(status) => panic!("{bytes} bytes: {status}"),
        }
    }

    /// Memory, or the driver's answer.
    pub fn try_alloc(&self, bytes: usize) -> Result<Memory, i32> {
        let mut address = 0;
        // SAFETY: the driver writes one address.
        let status = unsafe { (self.driver.alloc)(&mut address, bytes) };
        let memory = || Memory {
            address,
            bytes,
            free: self.driver.free,
        };
        if status == 0 {
            Ok(memory())
        } else {
            Err(status)
        }
    }

    /// The driver's answer to a copy of so many bytes to the host.
    pub fn status_of_copy(&self, memory: &Memory, bytes: usize) -> i32 {
        let mut room = vec![0u8; bytes];
        // SAFETY: the host has as many bytes.
        unsafe { (self.driver.to_host)(room.as_mut_ptr().cast(), memory.address, bytes) }
    }

    /// Memory with these bytes.
    pub fn upload_bytes(&self, bytes: &[u8]) -> Memory {
        let memory = self.alloc(bytes.len());
        // SAFETY: both sides have as many bytes.
        let status =
            unsafe { (self.driver.to_device)(memory.address, bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(status, 0);
        memory
    }

    /// The bytes of memory.
    pub fn download_bytes(&self, memory: &Memory) -> Vec<u8> {
        let mut bytes = vec![0u8; memory.bytes];
        // SAFETY: both sides have as many bytes.
        let status = unsafe {
            (self.driver.to_host)(bytes.as_mut_ptr().cast(), memory.address, memory.bytes)
        };
        assert_eq!(status, 0);
        bytes
    }

    /// Memory with these values, stored so.
    pub fn upload(&self, values: &[f32], storage: Storage) -> Memory {
        self.upload_bytes(&storage.bytes(values))
    }

    /// Memory with these values as f32.
    pub fn f32s(&self, values: &[f32]) -> Memory {
        self.upload(values, Storage::F32)
    }

    /// Memory of `count` values, not written yet: no numbers.
    pub fn room(&self, count: usize, storage: Storage) -> Memory {
        self.alloc(count * storage.bytes(&[0.0]).len())
    }

    /// Memory of `count` f64, for partial sums.
    pub fn sums(&self, count: usize) -> Memory {
        self.alloc(8 * count)
    }

    /// The values of memory, which stores them so.
    pub fn download(&self, memory: &Memory, storage: Storage) -> Vec<f32> {
        storage.values(&self.download_bytes(memory))
    }

    /// The f64 of memory.
    pub fn download_f64(&self, memory: &Memory) -> Vec<f64> {
        numbers(&self.download_bytes(memory), f64::from_le_bytes)
    }

    /// Compiles kernels; gives the image and the library behind it, or the status and the compiler's words.
    fn compiled(&self, name: &str, source: &str) -> Result<(CString, Library), (c_int, String)> {
        let text = |text: &str| CString::new(text).expect("no zero bytes");
        let (source, name, option) = (text(source), text(name), text("--gpu-architecture=sm_90"));
        let mut program = null_mut();
        let compiler = &self.compiler;
        // SAFETY: texts end in zero and live until the end of the block; the buffers have the sizes that the library
        // asks for.
        unsafe {
            let none = std::ptr::null();
            let (source, name) = (source.as_ptr(), name.as_ptr());
            let status = (compiler.create)(&mut program, source, name, 0, none, none);
            assert_eq!(status, 0);
            let status = (compiler.compile)(program, 1, [option.as_ptr()].as_ptr());
            let mut size = 0;
            (compiler.log_size)(program, &mut size);
            let mut log = vec![0u8; size];
            (compiler.log)(program, log.as_mut_ptr().cast());
            if status != 0 {
                (compiler.destroy)(&mut program);
                return Err((status, String::from_utf8_lossy(&log).into_owned()));
            }
            assert_eq!((compiler.size)(program, &mut size), 0);
            let mut image = vec![0u8; size];
            assert_eq!((compiler.image)(program, image.as_mut_ptr().cast()), 0);
            (compiler.destroy)(&mut program);
            let path = CStr::from_bytes_until_nul(&image)
                .expect("a path")
                .to_owned();
            let library = Library::new(path.to_str().expect("UTF-8"));
            Ok((path, library.expect("compiled kernels")))
        }
    }

    /// Compiles kernels of a test's own, behind `common.cuh`, to be run by this name; the compiler's status and words
    /// if it refuses.
    pub fn compile(&self, name: &str, source: &str) -> Result<(), (i32, String)> {
        let common = Path::new(KERNELS).join("common.cuh");
        let common = std::fs::read_to_string(common).expect("the kernels' common part");
        let (image, library) = self.compiled(name, &format!("{common}\n{source}"))?;
        let mut handle = null_mut();
        // SAFETY: the image is what the compiler gave.
        let status = unsafe { (self.driver.load)(&mut handle, image.as_ptr().cast()) };
        assert_eq!(status, 0, "{name}");
        let handle = handle as usize;
        let mut modules = self.modules.lock().expect("no test panicked with it");
        modules.insert(name.to_string(), Module { handle, library });
        Ok(())
    }

    fn with_module<R>(&self, file: &str, use_it: impl FnOnce(&Module) -> R) -> R {
        let known = |modules: &HashMap<String, Module>| modules.contains_key(file);
        if !known(&self.modules.lock().expect("no test panicked with it")) {
            let path = Path::new(KERNELS).join(file);
            let source = std::fs::read_to_string(path).expect("a kernel's source");
            if let Err((status, log)) = self.compile(file, &source) {
                panic!("{file}: {status}: {log}");
            }
        }
        let modules = self.modules.lock().expect("no test panicked with it");
        use_it(&modules[file])
    }

    /// One letter for each argument of a kernel: p pointer, i and l whole numbers, f and d floating point.
    pub fn letters(&self, file: &str, kernel: &str) -> Option<String> {
        self.with_module(file, |module| {
            // SAFETY: `EXPORT_KERNEL` of cuda_emu.h defines a text that ends in zero.
            unsafe {
                let symbol = format!("{kernel}__arguments");
                let found = module.library.get::<*const c_char>(symbol.as_str()).ok()?;
                let address = found.try_as_raw_ptr()?.cast::<c_char>();
                Some(CStr::from_ptr(address).to_string_lossy().into_owned())
            }
        })
    }

    /// Runs a kernel on blocks of 256 threads.
    pub fn run(&self, file: &str, kernel: &str, grid: [u32; 3], args: &[Arg<'_>]) {
        assert_eq!(self.status_of(file, kernel, grid, args), 0, "{kernel}");
    }

    /// The driver's answer to a launch.
    pub fn status_of(&self, file: &str, kernel: &str, grid: [u32; 3], args: &[Arg<'_>]) -> i32 {
        let letters = self.letters(file, kernel);
        let got: String = args.iter().map(|arg| arg.letter()).collect();
        assert_eq!(letters.as_deref(), Some(got.as_str()), "{kernel}");
        let handle = self.with_module(file, |module| module.handle) as *mut c_void;
        let name = CString::new(kernel).expect("no zero bytes");
        let mut values: Vec<u64> = args.iter().map(|arg| arg.bits()).collect();
        let mut places: Vec<*mut c_void> = (values.iter_mut())
            .map(|value| std::ptr::from_mut(value).cast())
            .collect();
        let mut function = null_mut();
        let [x, y, z] = grid;
        // SAFETY: the arguments have the types that the kernel was compiled with, and the memory they point to is
        // alive.
        unsafe {
            let found = (self.driver.function)(&mut function, handle, name.as_ptr());
            assert_eq!(found, 0, "{kernel}");
            let places = places.as_mut_ptr();
            (self.driver.launch)(
                function,
                x,
                y,
                z,
                256,
                1,
                1,
                0,
                null_mut(),
                places,
                null_mut(),
            )
        }
    }
}
