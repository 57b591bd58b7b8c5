//! Locks whose data is whole whatever happened to a thread that held them: numbers, and values that are put there at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, poisoned or not.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
