//! Work spread over the cores for the length of one load.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

/// Items that a thread takes at a time.
const BATCH: usize = 32;

/// `work` on every item, in the items' order. Runs on as many threads as there are cores; where the system grants fewer, on those.
pub(crate) fn map<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(items.len().div_ceil(BATCH));
    let queue = Mutex::new(items.into_iter().enumerate());
    let drain = || {
        let mut done = Vec::new();
        loop {
            let batch: Vec<(usize, T)> =
                queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return done;
            }
            done.extend(batch.into_iter().map(|(index, item)| (index, work(item))));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, drain).ok();
        let running: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut results = drain();
        for thread in running {
            results.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_at_every_size() {
        for size in [0, 1, 31, 32, 33, 64, 65, 1000, 1001] {
            assert_eq!(map((0..size).collect(), |item| item * 2), (0..size).map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
