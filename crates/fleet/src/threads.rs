//! The threads of a node, which nobody waits for but whoever ends them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How soon a pause notices that everything is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Threads that share a bell and are told to stop, and waited for, when this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    stop: Arc<AtomicBool>,
    bell: Arc<Bell>,
    running: Vec<JoinHandle<()>>,
}

impl Threads {
    /// None yet. `stop`: what tells them.
    pub(crate) fn new(stop: Arc<AtomicBool>, bell: Arc<Bell>) -> Threads {
        Threads { stop, bell, running: Vec::new() }
    }

    /// Starts one.
    ///
    /// # Errors
    /// The system has none to give.
    pub(crate) fn start(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let started = Builder::new().name(name.to_owned()).spawn(run);
        self.running.push(started.map_err(|error| format!("fleet: no thread can be started: {error}"))?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bell.ring();
        self.running.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// Waits so long, or until everything is to stop.
pub(crate) fn pause(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        Bell::default().wait(LOOK);
    }
}

/// What wakes a thread that waits for something to do.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    is_rung: Mutex<bool>,
    waiting: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.waiting.notify_all();
    }

    /// Waits until it rings, or for so long; whether it did.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let is_rung = self.is_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.waiting.wait_timeout_while(is_rung, time, |is_rung| !*is_rung);
        let (mut is_rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *is_rung)
    }
}
