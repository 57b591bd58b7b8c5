//! Signals, caught before anything else is started: one that comes meanwhile is obeyed afterwards instead of ending the process.

use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are obeyed. One that comes before anybody waits for it is kept.
#[derive(Debug)]
pub struct Signals {
    /// SIGTERM: shut down.
    pub terminate: Signal,
    /// SIGINT: shut down.
    pub interrupt: Signal,
    /// SIGHUP: reload.
    pub hangup: Signal,
    /// SIGUSR1: open the log file again.
    pub reopen: Signal,
}

/// Waits for one of two signals.
pub async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        Some(()) = one.recv() => {}
        Some(()) = other.recv() => {}
        else => std::future::pending().await,
    }
}

/// The main thread's runtime, and the signals caught by it.
///
/// # Errors
/// The kernel rejects.
pub fn catch() -> std::io::Result<(LocalRuntime, Signals)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let signals = runtime.block_on(async {
        std::io::Result::Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
        })
    })?;
    Ok((runtime, signals))
}
