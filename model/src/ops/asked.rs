//! Whether the environment asks for plain loops in oneDNN's place. The only code of libraries that reads it beside
//! `testdata` in `data`: tests of a library have no program that could tell them.

use std::sync::OnceLock;

/// Whether it does, from the first time on that this is asked. The program refuses other words.
pub(super) fn for_plain_loops() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED
        .get_or_init(|| std::env::var_os("SQUALL_BACKEND").is_some_and(|word| word == "reference"))
}
