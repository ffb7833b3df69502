//! NVRTC: compiles kernels from source to machine code for this GPU.

use super::device::generation;
use super::library::functions;
use crate::gpu::GpuError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;

type Program = *mut c_void;

/// The library of the driver's own CUDA version comes first: the driver loads no machine code of a later version.
fn names() -> &'static [&'static str] {
    match generation() {
        Some(12) => &["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"],
        _ => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    }
}

functions! {
    /// The functions of NVRTC that are used.
    Functions of "NVIDIA's run-time compiler (NVRTC)" in names();
    nvrtcVersion: fn(*mut c_int, *mut c_int) -> c_int,
    nvrtcGetErrorString: fn(c_int) -> *const c_char,
    nvrtcCreateProgram: fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int,
    nvrtcCompileProgram: fn(Program, c_int, *const *const c_char) -> c_int,
    nvrtcGetCUBINSize: fn(Program, *mut usize) -> c_int,
    nvrtcGetCUBIN: fn(Program, *mut c_char) -> c_int,
    nvrtcGetProgramLogSize: fn(Program, *mut usize) -> c_int,
    nvrtcGetProgramLog: fn(Program, *mut c_char) -> c_int,
    nvrtcDestroyProgram: fn(*mut Program) -> c_int,
}

/// The compiler.
pub(super) struct Compiler {
    functions: Functions,
    version: (i32, i32),
}

/// A program, destroyed on drop.
struct Source<'a> {
    functions: &'a Functions,
    program: Program,
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was created and is not used any more.
        unsafe { (self.functions.nvrtcDestroyProgram)(&mut self.program) };
    }
}

impl Compiler {
    pub(super) fn load() -> Result<Self, GpuError> {
        let functions = Functions::load()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both places are writable.
        let status = unsafe { (functions.nvrtcVersion)(&mut major, &mut minor) };
        let compiler = Self {
            functions,
            version: (major, minor),
        };
        compiler.check("nvrtcVersion", status)?;
        Ok(compiler)
    }

    pub(super) fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles `text` to machine code for an architecture such as `sm_90`.
    pub(super) fn compile(
        &self,
        file: &'static str,
        text: &str,
        architecture: &str,
    ) -> Result<Vec<u8>, GpuError> {
        let text = c_string("nvrtcCreateProgram", text)?;
        let name = c_string("nvrtcCreateProgram", file)?;
        let options = [
            c_string(
                "nvrtcCompileProgram",
                &format!("--gpu-architecture={architecture}"),
            )?,
            c_string("nvrtcCompileProgram", "--std=c++17")?,
        ];
        let options = options.each_ref().map(|option| option.as_ptr());
        let mut source = Source {
            functions: &self.functions,
            program: null_mut(),
        };
        let (none, f) = (std::ptr::null(), &self.functions);
        // SAFETY: the texts end with NUL and outlive the calls; the program is destroyed once.
        unsafe {
            let made = (f.nvrtcCreateProgram)(
                &mut source.program,
                text.as_ptr(),
                name.as_ptr(),
                0,
                none,
                none,
            );
            self.check("nvrtcCreateProgram", made)?;
            let status =
                (f.nvrtcCompileProgram)(source.program, options.len() as c_int, options.as_ptr());
            if status != 0 {
                return Err(GpuError::Compile {
                    file,
                    architecture: architecture.to_string(),
                    log: self.log(source.program),
                });
            }
            let mut size = 0;
            self.check(
                "nvrtcGetCUBINSize",
                (f.nvrtcGetCUBINSize)(source.program, &mut size),
            )?;
            let mut code = vec![0u8; size];
            let got = (f.nvrtcGetCUBIN)(source.program, code.as_mut_ptr().cast());
            self.check("nvrtcGetCUBIN", got)?;
            Ok(code)
        }
    }

    /// The compiler's log.
    fn log(&self, program: Program) -> String {
        let mut size = 0;
        // SAFETY: the program exists and the buffer is as large as the library says.
        let text = unsafe {
            (self.functions.nvrtcGetProgramLogSize)(program, &mut size);
            let mut text = vec![0u8; size.max(1)];
            (self.functions.nvrtcGetProgramLog)(program, text.as_mut_ptr().cast());
            text
        };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        text.to_string_lossy().trim().to_string()
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), GpuError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a constant text for any number.
        let reason = unsafe {
            let text = (self.functions.nvrtcGetErrorString)(status);
            CStr::from_ptr(text).to_string_lossy().into_owned()
        };
        Err(GpuError::Call { call, reason })
    }
}

fn c_string(call: &'static str, text: &str) -> Result<CString, GpuError> {
    CString::new(text).map_err(|error| GpuError::Call {
        call,
        reason: error.to_string(),
    })
}
