//! Warm things that a thread keeps for their next user.

use std::cell::RefCell;
use std::thread::LocalKey;

/// What was given back and not yet taken, newest first. Holds at most a fixed number, and what nobody needed between two calls of
/// [`Pool::trim`] leaves by and by: memory follows the load down again.
#[derive(Debug)]
pub struct Pool<T> {
    kept: Vec<T>,
    most: usize,
    /// Fewest that were here since the last trim: so many did nobody need.
    spare: usize,
}

impl<T> Pool<T> {
    /// An empty pool that keeps `most` things.
    pub const fn new(most: usize) -> Pool<T> {
        Pool { kept: Vec::new(), most, spare: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The newest, which is the warmest.
    pub fn take(&mut self) -> Option<T> {
        let taken = self.kept.pop();
        self.spare = self.spare.min(self.kept.len());
        taken
    }

    /// Keeps a thing, or drops it if there are enough.
    pub fn give(&mut self, thing: T) {
        if self.kept.len() < self.most {
            self.kept.push(thing);
        }
    }

    /// Drops half of what nobody needed since the last call, the oldest first.
    pub fn trim(&mut self) {
        self.kept.drain(..self.spare.div_ceil(2).min(self.kept.len()));
        self.spare = self.kept.len();
    }
}

/// A pool of each thread, as `thread_local!` declares it. While a thread ends, its pool may be gone: then nothing is taken, and what is given
/// is dropped.
pub type PerThread<T> = LocalKey<RefCell<Pool<T>>>;

/// [`Pool::take`] on this thread's pool.
pub fn take<T>(pool: &'static PerThread<T>) -> Option<T> {
    pool.try_with(|pool| pool.borrow_mut().take()).ok().flatten()
}

/// [`Pool::give`] to this thread's pool.
pub fn give<T>(pool: &'static PerThread<T>, thing: T) {
    let _ = pool.try_with(|pool| pool.borrow_mut().give(thing));
}

/// [`Pool::trim`] on this thread's pool.
pub fn trim<T>(pool: &'static PerThread<T>) {
    let _ = pool.try_with(|pool| pool.borrow_mut().trim());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_taken_first_and_the_number_is_bounded() {
        let mut pool = Pool::new(2);
        assert_eq!(pool.take(), None);
        (1..=3).for_each(|thing| pool.give(thing));
        assert_eq!([pool.take(), pool.take(), pool.take()], [Some(2), Some(1), None]);
    }

    #[test]
    fn what_is_needed_stays_and_what_is_not_leaves_by_and_by() {
        let mut pool = Pool::new(100);
        (0..100).for_each(|thing| pool.give(thing));
        pool.trim();
        for _ in 0..20 {
            let taken = [pool.take(), pool.take()];
            taken.into_iter().flatten().for_each(|thing| pool.give(thing));
            pool.trim();
        }
        assert_eq!(pool.kept, [98, 99], "two are needed each time");
        (0..2).for_each(|_| pool.trim());
        assert!(pool.kept.is_empty(), "then nobody needed any");
    }
}
