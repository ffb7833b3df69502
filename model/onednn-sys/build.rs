//! Finds oneDNN (the system's, `DNNL_DIR`'s, or with feature `vendored` the one built from source) and compiles the
//! shim against its header, whichever major version that is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-env-changed=DNNL_DIR");
    let mut build = cc::Build::new();
    build.file("src/shim.c").warnings(true).extra_warnings(true);
    let vendored = env::var_os("CARGO_FEATURE_VENDORED").is_some();
    // Crate onednn-src says where it has put what it built.
    let folder = env::var_os(if vendored {
        "DEP_DNNL_ROOT"
    } else {
        "DNNL_DIR"
    });
    if let Some(folder) = folder.map(PathBuf::from) {
        build.include(folder.join("include"));
        for lib in ["lib", "lib64"].map(|lib| folder.join(lib)) {
            println!("cargo:rustc-link-search=native={}", lib.display());
        }
    }
    if !has_header(&build) {
        panic!(
            "\n\noneDNN's header dnnl.h was not found.\n\
             Install it: `apt-get install libdnnl-dev` (Debian, Ubuntu), `dnf install onednn-devel` (Fedora),\n\
             or set DNNL_DIR to a folder with include/ and lib/,\n\
             or build it from source, which takes 20 minutes and cmake: cargo build --features onednn-vendored\n\
             To build without oneDNN (slow reference operations): cargo build --no-default-features\n\n"
        );
    }
    build.compile("squall_onednn_shim");
    if vendored {
        // It links the library itself, but not what that needs.
        println!("cargo:rustc-link-lib=dylib=stdc++");
        if let Some(folder) = folder_of(&build, "libgomp.so") {
            println!("cargo:rustc-link-search=native={}", folder.display());
        }
        println!("cargo:rustc-link-lib=dylib=gomp");
    } else {
        println!("cargo:rustc-link-lib=dylib=dnnl");
    }
}

/// The folder in which the compiler finds a library of its own.
fn folder_of(build: &cc::Build, library: &str) -> Option<PathBuf> {
    let mut command = build.try_get_compiler().ok()?.to_command();
    let output = command
        .arg(format!("-print-file-name={library}"))
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute()
        .then(|| path.parent().map(Path::to_path_buf))?
}

/// Whether the compiler sees `dnnl.h`.
fn has_header(build: &cc::Build) -> bool {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let probe = out.join("probe.c");
    std::fs::write(&probe, "#include <dnnl.h>\n").expect("OUT_DIR is writable");
    let Ok(compiler) = build.try_get_compiler() else {
        return false;
    };
    let mut command: Command = compiler.to_command();
    command
        .arg("-E")
        .arg(&probe)
        .arg("-o")
        .arg(Path::new("/dev/null"));
    command.output().is_ok_and(|output| output.status.success())
}
