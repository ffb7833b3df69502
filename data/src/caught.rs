//! Panics as values: some libraries answer damaged input with a panic.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// What `work` gives; `None` if it panicked.
///
/// A panic hook runs before a panic is caught. One that ends the program asks [`is_caught`] first.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outer = CATCHING.replace(true);
    let found = catch_unwind(AssertUnwindSafe(work)).ok();
    CATCHING.set(outer);
    found
}

/// Whether a panic on this thread is one that [`caught`] turns into a value, of which nobody need be told.
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
