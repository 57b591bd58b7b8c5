//! Threads that compute password hashes, since one takes tens of milliseconds and must not stop a worker. How many run at once, wait, and wait for
//! one client is bounded, so a flood of wrong passwords costs whoever sends it, and others their turn at worst.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};

use tokio::sync::oneshot;

/// Hashes that wait for a thread, in the process.
const MAX_WAITING: usize = 64;

/// The same, of one client.
const MAX_WAITING_OF_CLIENT: u32 = 8;

/// The threads run at a lower priority than workers.
const NICENESS: i32 = 10;

/// A password to be compared with a hash.
struct Job {
    password: Vec<u8>,
    hash: Arc<str>,
    client: u128,
    done: oneshot::Sender<bool>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Jobs that wait or run, by client.
    of_client: HashMap<u128, u32>,
}

/// Locked for some instructions, and only where a password is not known already.
static QUEUE: Mutex<Option<Queue>> = Mutex::new(None);
static ARRIVED: Condvar = Condvar::new();
static THREADS: Once = Once::new();

/// Starts the threads, where they do not run yet: one for every two processors.
pub(super) fn start() {
    THREADS.call_once(|| {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for number in 0..(processors / 2).max(1) {
            let thread = std::thread::Builder::new().name(format!("password-{number}"));
            if let Err(error) = thread.spawn(run) {
                tracing::error!(%error, "no thread for passwords: they cannot be verified");
            }
        }
    });
}

/// Has a password compared with a hash. `client`: who is counted.
///
/// # Errors
/// Too many wait already.
pub(super) fn compare(password: &[u8], hash: &Arc<str>, client: u128) -> Result<oneshot::Receiver<bool>, Busy> {
    let mut guard = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    let queue = guard.get_or_insert_default();
    let of_client = queue.of_client.get(&client).copied().unwrap_or_default();
    if queue.jobs.len() >= MAX_WAITING || of_client >= MAX_WAITING_OF_CLIENT {
        return Err(Busy);
    }
    let (done, result) = oneshot::channel();
    queue.of_client.insert(client, of_client + 1);
    queue.jobs.push_back(Job { password: password.to_vec(), hash: Arc::clone(hash), client, done });
    drop(guard);
    ARRIVED.notify_one();
    Ok(result)
}

/// Too many passwords wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy;

fn run() {
    net::process::lower_priority(NICENESS);
    loop {
        let Job { password, hash, client, done } = next();
        // Nobody waits any more where the worker has ended.
        if !done.is_closed() {
            let _ = done.send(bcrypt::verify(&password, &hash).unwrap_or(false));
        }
        let mut guard = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = &mut guard.get_or_insert_default().of_client;
        match counts.get_mut(&client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = counts.remove(&client),
        }
    }
}

fn next() -> Job {
    let mut guard = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = guard.as_mut().and_then(|queue| queue.jobs.pop_front()) {
            return job;
        }
        guard = ARRIVED.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
}
