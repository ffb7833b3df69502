//! A lock that is taken whatever happened to the thread that held it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock of a value that is valid between any two statements, so that a thread which panicked while it held the lock
/// left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
