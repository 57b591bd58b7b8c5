//! Turns of work that takes long and is written as one piece: it counts its steps, and lets go where they are used up. Whoever drives it lets others have their
//! turn meanwhile. No timer and no thread: a future that nothing wakes.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Steps that are taken before others have their turn: some milliseconds.
pub(crate) const STEPS_PER_TURN: u64 = 200_000;

/// Bytes that are copied, decoded or read in the time of one step.
pub(crate) const BYTES_PER_STEP: usize = 8;

/// What is left of a turn, and the memory that the work takes meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    left: Cell<u64>,
    held: Cell<usize>,
}

impl Turn {
    /// Takes steps; if none are left then, the rest waits for the next turn.
    pub async fn spend(&self, steps: usize) {
        self.left.set(self.left.get().saturating_sub(steps as u64));
        let mut has_waited = self.left.get() > 0;
        poll_fn(|_| if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// As [`Turn::spend`], for work on so many bytes.
    pub async fn spend_on(&self, bytes: usize) {
        self.spend(1 + bytes / BYTES_PER_STEP).await;
    }

    /// The work takes so much memory now.
    pub fn hold(&self, bytes: usize) {
        self.held.set(bytes);
    }
}

/// Work on its way.
pub(crate) struct Work<'w, T> {
    turn: Rc<Turn>,
    future: Pin<Box<dyn Future<Output = T> + 'w>>,
}

impl<'w, T> Work<'w, T> {
    /// Work that has not begun.
    pub fn new<F: Future<Output = T> + 'w>(begin: impl FnOnce(Rc<Turn>) -> F) -> Self {
        let turn = Rc::new(Turn::default());
        Self { future: Box::pin(begin(Rc::clone(&turn))), turn }
    }

    /// Works for a turn; gives the outcome once it is there, after which it must not be called again.
    pub fn go_on(&mut self) -> Option<T> {
        self.turn.left.set(STEPS_PER_TURN);
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// How much memory it takes.
    pub fn bytes_held(&self) -> usize {
        self.turn.held.get()
    }
}

/// Does work at once, all turns one after the other.
pub(crate) fn at_once<T>(work: impl AsyncFnOnce(&Turn) -> T) -> T {
    let turn = Turn::default();
    let mut work = pin!(work(&turn));
    loop {
        turn.left.set(STEPS_PER_TURN);
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
    }
}
