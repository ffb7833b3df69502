//! The program on the GPU that stands in for one.

use super::{Need, lacks, squall, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder with the stand-in's libraries; `None`, with [`lacks`], where it cannot be built.
pub fn stand_in() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/stand_in_gpu/build.sh");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stand-in-gpu");
    let built = Command::new("sh").arg(&source).arg(&folder).output();
    match built {
        Ok(built) if built.status.success() => {
            let folder = String::from_utf8(built.stdout).expect("a path in UTF-8");
            Some(folder.trim_end().into())
        }
        other => {
            lacks(Need::Cxx, &format!("the stand-in GPU ({other:?})"));
            None
        }
    }
}

/// Lets what a command starts find NVIDIA's libraries in `folders`.
pub fn with_stand_in(command: &mut Command, folders: &Path) {
    command
        .env("SQUALL_CUDA_LIBRARIES", folders)
        // What one stand-in compiled is not for another one.
        .env("XDG_CACHE_HOME", folders.join("gpu-cache"));
}

/// Runs the program with libraries from `folders` and these variables.
pub fn on(folders: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = squall();
    with_stand_in(&mut command, folders);
    command.envs(variables.iter().copied());
    command
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// Demands success; gives standard output.
pub fn works(output: Output) -> String {
    assert!(
        output.status.success(),
        "{:?}\n{}",
        output.status.code(),
        text(&output)
    );
    String::from_utf8(output.stdout).expect("UTF-8 output")
}
