//! Threads that wait without spinning.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// What GNU's OpenMP, under oneDNN, reads once, when it is loaded.
const POLICY: &str = "OMP_WAIT_POLICY";

/// Starts the program anew with OpenMP's threads told to sleep between two operations, unless the user chose.
///
/// By default they spin for a while after each operation and take the cores from the loops that run between the
/// operations: a training step takes up to four times as long on a shared machine. The setting is read when the
/// library is loaded, before `main`; so the program replaces itself, once, in a few milliseconds.
pub fn wait_quietly() {
    if std::env::var_os(POLICY).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    // `exec` returns only if it fails; then the program goes on as it is.
    let _ = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(POLICY, "passive")
        .exec();
}
