//! Futures of some kilobytes, made where they stay, in memory that the thread keeps for the next one of that size.
//!
//! A future that is moved is copied whole, and one that is large is made and freed by the slow paths of an allocator. What waits for a message is both, and
//! there is one for each message.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use crate::pool::Pool;

/// Blocks of one size kept per thread: as many as messages are usually under way at once on a busy core.
const POOLED: usize = 1024;

thread_local! {
    /// A pool for each size; a program has few large futures.
    static POOLS: RefCell<Vec<(Layout, Pool<Block>)>> = const { RefCell::new(Vec::new()) };
}

/// Memory of this layout, which nobody uses.
#[derive(Debug)]
struct Block {
    memory: NonNull<u8>,
    layout: Layout,
}

impl Block {
    /// Memory for something that has a size.
    fn take(layout: Layout) -> Block {
        let kept = POOLS.try_with(|pools| {
            let mut pools = pools.borrow_mut();
            pools.iter_mut().find(|(known, _)| *known == layout)?.1.take()
        });
        if let Ok(Some(block)) = kept {
            return block;
        }
        // SAFETY: the size is not zero, as `in_place` sees to.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Block { memory, layout }
    }

    fn give(self) {
        let _ = POOLS.try_with(|pools| {
            let mut pools = pools.borrow_mut();
            let known = pools.iter().position(|(known, _)| *known == self.layout);
            let known = known.unwrap_or_else(|| {
                pools.push((self.layout, Pool::new(POOLED)));
                pools.len() - 1
            });
            if let Some((_, pool)) = pools.get_mut(known) {
                pool.give(self);
            }
        });
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nothing else refers to it.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// A future that stays where it was made.
pub struct InPlace<F> {
    /// Holds a future from beginning to end.
    block: Option<Block>,
    owns: PhantomData<F>,
}

/// The future does not move with it.
impl<F> Unpin for InPlace<F> {}

impl<F> fmt::Debug for InPlace<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InPlace")
    }
}

/// Makes a future where it stays. `make` calls an `async fn`: what an async block captures is put together on the stack, and then the block is copied
/// after all.
#[inline]
pub fn in_place<F: Future>(make: impl FnOnce() -> F) -> InPlace<F> {
    // A future without a size has nothing to be copied, and no memory to be kept.
    const { assert!(size_of::<F>() > 0) };
    let block = Block::take(Layout::new::<F>());
    // SAFETY: the memory is large enough for a future and aligned for one, and nobody else has it. If `make` panics, it is freed with nothing in it.
    unsafe { block.memory.cast::<F>().write(make()) };
    InPlace { block: Some(block), owns: PhantomData }
}

impl<F: Future> Future for InPlace<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // The block is there until this is dropped.
        let Some(block) = &self.get_mut().block else { return Poll::Pending };
        // SAFETY: the block holds a future, which is not moved until it is dropped; `self` is borrowed exclusively.
        let future = unsafe { Pin::new_unchecked(block.memory.cast::<F>().as_mut()) };
        future.poll(context)
    }
}

impl<F> Drop for InPlace<F> {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else { return };
        // SAFETY: the block holds a future, which nobody uses from here on. If dropping it panics, its memory is freed as the block is.
        unsafe { block.memory.cast::<F>().drop_in_place() };
        block.give();
    }
}

/// Frees memory of this thread that no future needed lately; to be called about once a second.
pub fn trim() {
    let _ = POOLS.try_with(|pools| pools.borrow_mut().iter_mut().for_each(|(_, pool)| pool.trim()));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;

    fn place<F>(future: &InPlace<F>) -> Option<NonNull<u8>> {
        future.block.as_ref().map(|block| block.memory)
    }

    /// Counts its end.
    struct Ended(Rc<Cell<u32>>);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    async fn counted(ended: Ended, waits: bool, filler: [u64; 100]) -> u64 {
        if waits {
            pending::<()>().await;
        }
        drop(ended);
        filler.iter().sum()
    }

    #[test]
    fn it_runs_and_what_it_holds_is_dropped_once() {
        let mut context = Context::from_waker(Waker::noop());
        let ended = Rc::new(Cell::new(0));
        for (waits, expected) in [(false, Poll::Ready(300)), (true, Poll::Pending)] {
            let before = ended.get();
            let mut future = in_place(|| counted(Ended(Rc::clone(&ended)), waits, [3; 100]));
            assert_eq!(Pin::new(&mut future).poll(&mut context), expected);
            drop(future);
            assert_eq!(ended.get(), before + 1, "waits: {waits}");
        }
    }

    #[test]
    fn the_next_of_its_size_has_its_memory_until_that_is_trimmed() {
        trim();
        trim();
        let first = in_place(|| counted(Ended(Rc::default()), true, [0; 100]));
        let (other, at) = (in_place(|| ready(1u128)), place(&first));
        assert_ne!(place(&other), at);
        drop(first);
        let again = in_place(|| counted(Ended(Rc::default()), true, [0; 100]));
        assert_eq!(place(&again), at);
        drop(again);
        let kept = || POOLS.with_borrow(|pools| pools.iter().map(|(_, pool)| pool.len()).sum::<usize>());
        assert_eq!(kept(), 1);
        trim();
        trim();
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_panic_in_a_future_or_in_making_one_leaves_nothing_broken() {
        async fn fails() {
            let _big = [1u8; 512];
            std::future::poll_fn(|_| Poll::Ready(())).await;
            panic!("a defect");
        }
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            let mut future = in_place(fails);
            let polled =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Pin::new(&mut future).poll(&mut context)));
            assert!(polled.is_err());
        }
        let made = std::panic::catch_unwind(|| in_place(|| -> std::future::Ready<u64> { panic!("a defect") }));
        assert!(made.is_err());
    }
}
