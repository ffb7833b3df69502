//! Where the real test files lie, which may not be shipped.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The path of a real test file or folder, or `None`, which is said on standard error, where it is not on this machine.
///
/// Looked for in the folder `SQUALL_REALDATA`, or else beside the repository. Only for tests.
///
/// # Panics
/// If it is not there and `SQUALL_REQUIRE_REALDATA` is 1: for machines where nothing may be skipped.
pub fn real(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("SQUALL_REALDATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/realdata"),
        PathBuf::from,
    );
    let required = std::env::var_os("SQUALL_REQUIRE_REALDATA").is_some_and(|value| value == "1");
    look_for(&folder.join(name), required)
}

fn look_for(path: &Path, required: bool) -> Option<PathBuf> {
    if path.exists() {
        return Some(path.to_path_buf());
    }
    assert!(
        !required,
        "required real data: {} is not here",
        path.display()
    );
    // Not by `eprintln!`: the test harness keeps what passing tests print by it to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {} is not here", path.display());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_skipped_unless_it_is_required() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        assert_eq!(
            look_for(folder.path(), true).as_deref(),
            Some(folder.path())
        );
        assert_eq!(look_for(&missing, false), None);
        let refused = std::panic::catch_unwind(|| look_for(&missing, true)).unwrap_err();
        let message = refused.downcast_ref::<String>().unwrap();
        assert!(
            message.contains(&missing.display().to_string()),
            "{message}"
        );
    }
}
