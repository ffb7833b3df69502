//! Finds the system's oneDNN and compiles the shim against its header, whichever major version that is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-env-changed=DNNL_DIR");
    let mut build = cc::Build::new();
    build.file("src/shim.c").warnings(true).extra_warnings(true);
    if let Some(folder) = env::var_os("DNNL_DIR").map(PathBuf::from) {
        build.include(folder.join("include"));
        println!(
            "cargo:rustc-link-search=native={}",
            folder.join("lib").display()
        );
    }
    if !has_header(&build) {
        panic!(
            "\n\noneDNN's header dnnl.h was not found.\n\
             Install it: `apt-get install libdnnl-dev` (Debian, Ubuntu), `dnf install onednn-devel` (Fedora),\n\
             or set DNNL_DIR to a folder with include/ and lib/.\n\
             To build without oneDNN (slow reference operations): cargo build --no-default-features\n\n"
        );
    }
    build.compile("squall_onednn_shim");
    println!("cargo:rustc-link-lib=dylib=dnnl");
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
