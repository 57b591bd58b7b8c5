//! One thread per core, each with its own single-threaded runtime. Tasks never move between cores.

use std::future::Future;
use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::runtime::LocalOptions;

/// Events taken from the kernel per turn of a runtime.
const EVENTS_PER_TURN: usize = 1024;

/// Starts a thread called `name` that runs the future made by `main` to its end, with `spawn_local` at hand.
///
/// `core` pins the thread to a CPU; failing to pin is not an error, since a container may forbid it. The thread's result is an error
/// if its runtime could not be made.
///
/// # Errors
/// The thread could not be made.
pub fn spawn<M, F>(name: String, core: Option<usize>, main: M) -> io::Result<JoinHandle<io::Result<F::Output>>>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future,
    F::Output: Send + 'static,
{
    Builder::new().name(name).spawn(move || {
        if let Some(core) = core {
            crate::process::pin_to_core(core);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_io_events_per_tick(EVENTS_PER_TURN)
            .build_local(LocalOptions::default())?;
        Ok(runtime.block_on(main()))
    })
}
