//! Threads that compute password hashes, since one takes tens of milliseconds and must not stop a worker. How many run at once, wait, and wait for
//! one client is bounded, so a flood of wrong passwords costs whoever sends it, and others their turn at worst.
//!
//! The threads run at the priority of workers, or passwords would never be compared on a machine that is busy. What bounds them is the share of the
//! processors that they take: after each hash a thread rests until what it took is no more than its share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Hashes that wait for a thread, in the process.
const MAX_WAITING: usize = 64;

/// The same, of one client.
const MAX_WAITING_OF_CLIENT: u32 = 8;

/// All threads together take at most one of so many parts of the processors' time.
const PARTS: usize = 4;

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
        let threads = (processors / 2).max(1);
        let pace = Pace { threads, processors };
        for number in 0..threads {
            let thread = std::thread::Builder::new().name(format!("password-{number}"));
            if let Err(error) = thread.spawn(move || run(pace)) {
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

/// Of what the share of each thread follows.
#[derive(Debug, Clone, Copy)]
struct Pace {
    threads: usize,
    processors: usize,
}

impl Pace {
    /// How long a thread rests after it computed for so long, which took so long because it had to wait for a processor.
    fn rest(self, computed: Duration, took: Duration) -> Duration {
        let least = computed.as_nanos() * (PARTS * self.threads) as u128 / self.processors.max(1) as u128;
        Duration::from_nanos(u64::try_from(least).unwrap_or(u64::MAX)).saturating_sub(took)
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread that serves no connection")]
fn run(pace: Pace) {
    loop {
        let Job { password, hash, client, done } = next();
        let (began, computed) = (Instant::now(), net::process::thread_time());
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
        drop(guard);
        std::thread::sleep(pace.rest(net::process::thread_time().saturating_sub(computed), began.elapsed()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_take_a_quarter_of_the_processors_at_most() {
        let (computed, second) = (Duration::from_millis(60), Duration::from_secs(1));
        for processors in 1..=128_usize {
            let pace = Pace { threads: (processors / 2).max(1), processors };
            let all = pace.rest(computed, computed) + computed;
            let share = computed.as_secs_f64() * pace.threads as f64 / all.as_secs_f64() / processors as f64;
            assert!((share - 0.25).abs() < 0.001, "{share} of {processors}");
            assert_eq!(pace.rest(computed, second), Duration::ZERO, "it has waited for a processor long enough");
        }
    }
}
