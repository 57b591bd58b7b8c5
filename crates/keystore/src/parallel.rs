//! Work spread over the cores for the length of one load.

use std::num::NonZero;

/// Fewer items than this are not worth a thread.
const MIN_ITEMS_PER_THREAD: usize = 64;

/// `work` on every item, in the items' order. Runs on as many threads as there are cores.
pub(crate) fn map<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(items.len() / MIN_ITEMS_PER_THREAD).max(1);
    if threads == 1 {
        return items.into_iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads);
    let mut items = items.into_iter();
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let part: Vec<T> = items.by_ref().take(share).collect();
                scope.spawn(move || part.into_iter().map(work).collect::<Vec<R>>())
            })
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_at_every_size() {
        for size in [0, 1, 63, 64, 127, 128, 129, 1000, 1001] {
            assert_eq!(map((0..size).collect(), |item| item * 2), (0..size).map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
