//! Turns panics into values: some libraries panic on damaged input.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` and returns its result, or `None` if it panicked.
///
/// A panic hook runs before the panic is caught. A hook that ends the program must check [`is_caught`] first.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outer = CATCHING.replace(true);
    let found = catch_unwind(AssertUnwindSafe(work)).ok();
    CATCHING.set(outer);
    found
}

/// Whether a panic on this thread will be caught by [`caught`] and need not be reported.
pub fn is_caught() -> bool {
    CATCHING.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer_on_its_own_thread_alone() {
        assert!(!is_caught());
        let outer = caught(|| {
            let elsewhere = std::thread::spawn(is_caught).join();
            assert_eq!(caught(|| -> u8 { panic!("damaged") }), None);
            (is_caught(), elsewhere.unwrap())
        });
        assert_eq!(outer, Some((true, false)));
        assert!(!is_caught());
    }
}
