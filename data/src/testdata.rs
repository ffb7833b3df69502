//! Where the real test files lie, which may not be shipped.

use std::path::{Path, PathBuf};

/// A file of the real test data, or `None` (said on standard error by the test) where it is not beside the repository.
pub fn real(name: &str) -> Option<PathBuf> {
    let base = std::env::var_os("SQUALL_REALDATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/realdata"),
        PathBuf::from,
    );
    let found = base.join(name);
    if !found.exists() {
        tracing::warn!("skipped: {} is not here", found.display());
        return None;
    }
    Some(found)
}
