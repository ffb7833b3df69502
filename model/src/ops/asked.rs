//! Whether an environment variable selects plain loops instead of oneDNN. Besides `testdata` in `data`, this is the only
//! library code that reads the environment, because tests of a library have no program to pass an option.

use std::sync::OnceLock;

/// Whether it does, cached at the first call. The program rejects other values.
pub(super) fn for_plain_loops() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED
        .get_or_init(|| std::env::var_os("SQUALL_BACKEND").is_some_and(|word| word == "reference"))
}
