//! For build scripts: tells a crate which sources it is built from, so that builds and ranks of different programs are
//! told apart.
//!
//! The package's version says too little: it is the same for every commit. A hash of what decides the numbers (sources,
//! the versions of dependencies, how it is compiled) needs no git, and a change of a file that decides nothing costs no
//! compilation, because tests are not in it.

use std::fs;
use std::path::{Path, PathBuf};

/// What else is compiled into every program.
const ALWAYS: [&str; 4] = [
    "Cargo.lock",
    "Cargo.toml",
    "model/candle-kernels",
    "model/onednn-sys",
];

/// Sets `SQUALL_SOURCES`, a hash of the manifests, sources and `more` of these crates, and `SQUALL_BUILD`, how they are
/// compiled. The script runs again when one of them changes.
pub fn set_build_variables(crates: &[&str], more: &[&str]) {
    let workspace = Path::new("..");
    let of_crates = crates
        .iter()
        .flat_map(|name| [format!("{name}/Cargo.toml"), format!("{name}/src")]);
    let always = ALWAYS.iter().map(|name| name.to_string());
    let more = more.iter().map(|name| name.to_string());
    let mut files = Vec::new();
    for name in of_crates.chain(always).chain(more) {
        let path = workspace.join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        list(&path, &mut files);
    }
    files.sort();
    let mut hash = Fnv::default();
    for path in &files {
        // Where the workspace lies is no part of it.
        hash.add(path.to_string_lossy().replace('\\', "/").as_bytes());
        hash.add(&fs::read(path).unwrap_or_default());
    }
    println!("cargo:rustc-env=SQUALL_SOURCES={:016x}", hash.0);
    println!("cargo:rustc-env=SQUALL_BUILD={}", how());
}

/// All files of a folder and those inside of it; a path that is not there has none.
fn list(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries.flatten() {
                if entry.file_name() != "target" {
                    list(&entry.path(), files);
                }
            }
        }
        Err(_) if path.is_file() => files.push(path.to_path_buf()),
        Err(_) => {}
    }
}

/// How the crate is compiled, as far as that can change a number.
fn how() -> String {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase))
        .filter(|name| name != "default")
        .collect();
    features.sort();
    let mut flags = Fnv::default();
    flags.add(of("CARGO_ENCODED_RUSTFLAGS").as_bytes());
    flags.add(of("CARGO_CFG_TARGET_FEATURE").as_bytes());
    format!(
        "{} for {}, flags {:08x}, with {}",
        of("PROFILE"),
        of("TARGET"),
        flags.0 >> 32,
        if features.is_empty() {
            "nothing".to_string()
        } else {
            features.join("+")
        }
    )
}

/// FNV-1a of 64 bits: enough against an oversight.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds bytes and their number, so that borders count.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
