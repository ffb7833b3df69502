//! Makes the archives that stand at link time for CUDA's libraries, so that one program runs with and without a GPU.
//!
//! cudarc asks the linker for `-lcuda`, `-lcublas` and others; a program that is linked with the real ones does not
//! start where they are missing. NVIDIA's driver and NCCL are loaded at their first call instead; the others are never
//! needed.

use std::path::Path;

/// Link name, functions, names of the library in order, and what a call gives where it is missing: no device, a system
/// error.
const LOADED: [(&str, &str, &str, &str); 2] = [
    ("cuda", "driver.names", "\"libcuda.so.1\"", "100"),
    ("nccl", "nccl.names", "\"libnccl.so.2\", \"libnccl.so\"", "2"),
];

/// Link name, functions, and what a call gives: not supported.
const REFUSED: [(&str, &str, &str); 4] = [
    ("cublas", "cublas.names", "15"),
    ("cublasLt", "cublaslt.names", "15"),
    ("curand", "curand.names", "201"),
    ("nvrtc", "nvrtc.names", "7"),
];

fn main() {
    let folder = Path::new("link");
    println!("cargo:rerun-if-changed=link");
    println!("cargo:rerun-if-changed=build.rs");
    let archive = |source: &str, link: &str, names: &str, absent: &str| {
        let mut build = cc::Build::new();
        let functions = format!("\"{names}\"");
        build
            .file(folder.join(source))
            .include(folder)
            .define("NAMES", functions.as_str())
            .define("ABSENT", absent)
            // cudarc names them; a second `-l` would not say which comes first.
            .cargo_metadata(false);
        (build, link.to_string())
    };
    for (link, names, libraries, absent) in LOADED {
        let (mut build, link) = archive("forward.c", link, names, absent);
        build.define("SONAMES", libraries);
        if link == "cuda" {
            build.define("OWNS_FOLDERS", None);
        }
        build.compile(&link);
    }
    for (link, names, absent) in REFUSED {
        let (build, link) = archive("refuse.c", link, names, absent);
        build.compile(&link);
    }
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    println!("cargo:rustc-link-search=native={out}");
}
