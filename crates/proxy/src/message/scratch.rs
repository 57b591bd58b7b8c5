//! Working memory of one exchange, pooled per thread: an idle connection holds none of it.

use std::cell::RefCell;

use net::{Deadline, Pool, pool};
use wire::http::{RequestHead, ResponseHead};

/// Sets kept per thread: as many as requests are usually under way at once on a busy core. A set has armed timers and grown tables, and is
/// dear to make anew.
const POOLED: usize = 1024;

thread_local! {
    static POOL: RefCell<Pool<Box<Parts>>> = const { RefCell::new(Pool::new(POOLED)) };
}

/// What an exchange works with.
#[derive(Debug, Default)]
pub struct Parts {
    /// The request.
    pub request: RequestHead,
    /// The answer of the upstream.
    pub response: ResponseHead,
    /// Timers. They stay armed between exchanges, which costs a wake-up now and then and saves arming them each time.
    pub timers: Timers,
}

/// One timer per wait that may go on at the same time.
#[derive(Debug, Default)]
pub struct Timers {
    /// Waiting for the upstream's head.
    pub head: Deadline,
    /// Moving the request body.
    pub upload: Deadline,
    /// Moving the response's body.
    pub download: Deadline,
}

/// A set with empty heads and warm buffers.
pub fn take() -> Box<Parts> {
    pool::take(&POOL).unwrap_or_default()
}

/// Gives a set back. One that is dropped instead is merely freed.
pub fn give(mut parts: Box<Parts>) {
    parts.request.clear();
    parts.response.clear();
    pool::give(&POOL, parts);
}

/// Frees sets of this thread that nobody needed lately; to be called about once a second.
pub fn trim() {
    pool::trim(&POOL);
}
