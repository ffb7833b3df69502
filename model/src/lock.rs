//! Locks whose values stay whole when a thread panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What lies behind a lock, also where a thread has panicked meanwhile: here nothing is left half changed.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
