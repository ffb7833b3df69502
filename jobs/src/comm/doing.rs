//! Describes what a thread is doing while it waits for other ranks.
//!
//! A message knows its peers and its bytes, but only the caller knows that it carries, say, validation scores. The
//! description is thread-local, so that the layers in between need not pass it on, and it is read only when a wait has
//! lasted too long.
//!
//! # Example
//! ```
//! use squall_jobs::comm::doing;
//! let _outer = doing::begin("validation");
//! {
//!     let _inner = doing::begin("scores");
//!     assert_eq!(doing::in_words("a barrier"), "validation: scores: a barrier");
//! }
//! assert_eq!(doing::in_words("a barrier"), "validation: a barrier");
//! ```

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

thread_local! {
    static WORDS: RefCell<Vec<Cow<'static, str>>> = const { RefCell::new(Vec::new()) };
    static PATIENT: Cell<usize> = const { Cell::new(0) };
}

/// An activity of this thread, which ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Doing {
    what: What,
    /// It belongs to the thread that created it.
    not_send: PhantomData<*const ()>,
}

#[derive(Debug)]
enum What {
    Words,
    Patience,
}

/// Starts activity `what` on this thread, nested in its current one.
pub fn begin(what: impl Into<Cow<'static, str>>) -> Doing {
    WORDS.with_borrow_mut(|words| words.push(what.into()));
    Doing {
        what: What::Words,
        not_send: PhantomData,
    }
}

/// Lets this thread wait without a limit: for ranks that are busy with something else and are themselves watched.
pub fn patiently() -> Doing {
    PATIENT.set(PATIENT.get() + 1);
    Doing {
        what: What::Patience,
        not_send: PhantomData,
    }
}

/// Whether this thread may wait without a limit.
#[must_use]
pub fn is_patient() -> bool {
    PATIENT.get() > 0
}

/// All activities of this thread, outermost first, followed by `this`.
#[must_use]
pub fn in_words(this: &str) -> String {
    WORDS.with_borrow(|words| {
        let mut all: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        all.push(this);
        all.join(": ")
    })
}

impl Drop for Doing {
    fn drop(&mut self) {
        match self.what {
            What::Words => drop(WORDS.with_borrow_mut(Vec::pop)),
            What::Patience => PATIENT.set(PATIENT.get().saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_patience_end_with_their_scope_and_stay_with_their_thread() {
        assert!(!is_patient());
        let outer = begin("step 3");
        {
            let _patient = patiently();
            let _inner = begin(format!("bucket {}", 2));
            assert_eq!(in_words("a message"), "step 3: bucket 2: a message");
            assert!(is_patient());
            let elsewhere = std::thread::spawn(|| (in_words("a message"), is_patient()));
            assert_eq!(elsewhere.join().unwrap(), ("a message".to_string(), false));
        }
        assert_eq!(in_words("a message"), "step 3: a message");
        assert!(!is_patient());
        drop(outer);
        assert_eq!(in_words("a message"), "a message");
    }
}
