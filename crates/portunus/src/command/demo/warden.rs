//! The process between the demo and what it starts, which sees to it that nothing outlives the demo, whatever ends that.
//!
//! ```text
//! demo ──channel── warden ── portunus run ─ portunus-launch ─ (after an upgrade) portunus run …
//!                        └── portunus key-server run
//! ```
//!
//! When the demo says so, or its end of the channel is closed because it has ended, even by SIGKILL, the warden ends all below it: processes whose
//! parents have ended, as those that an upgrade started, become its own. Where the warden itself is killed, they become the demo's, which then does the same.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::{Channel, process};
use rustix::process::Signal;

/// How often is looked whether something has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How long servers may take to end by themselves. They have nothing to lose.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// How long may be waited for processes that were killed, and for the other end of the channel.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often is looked whether processes have ended that were told to.
const POLL: Duration = Duration::from_millis(10);

/// How long is waited for the warden at once, where its message wakes whoever waits.
const WAIT: Duration = Duration::from_secs(3600);

/// A server to start: its arguments, and the file for what it prints.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) arguments: Vec<&'static str>,
    pub(super) log: PathBuf,
}

/// The warden, as the demo sees it.
#[derive(Debug, Clone)]
pub(super) struct Warden(Arc<Channel>);

impl Warden {
    /// Begins it; it starts the servers in this folder. To be called while there is one thread.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn begin(folder: &Path, servers: &[Planned]) -> io::Result<Warden> {
        let program = std::env::current_exe()?;
        process::adopt_orphans()?;
        let (ours, theirs) = Channel::pair()?;
        process::fork(theirs, |channel| serve(&Channel::of(channel), &program, folder, servers))?;
        Ok(Warden(Arc::new(ours)))
    }

    /// Says that all servers serve: from now on one that ends may have been replaced by an upgrade.
    pub(super) fn ready(&self) {
        // If it is gone, that is noticed where its message is waited for.
        let _ = self.0.send(READY, &[], Instant::now() + PATIENCE);
    }

    /// Has everything ended; [`Warden::wait`] says when that is so.
    pub(super) fn end(&self) {
        let _ = self.0.send(END, &[], Instant::now() + PATIENCE);
    }

    /// Waits until everything has ended: why, unless it was asked for.
    pub(super) fn wait(&self) -> Option<String> {
        loop {
            match self.0.receive(Instant::now() + WAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(Some((message, _))) => {
                    return Some(String::from_utf8_lossy(&message).into_owned()).filter(|text| text != ENDED);
                }
                Ok(None) | Err(_) => {
                    end_descendants(Duration::ZERO);
                    return Some("the process that looks after the servers has ended".to_owned());
                }
            }
        }
    }
}

const READY: &[u8] = b"ready";
const END: &[u8] = b"end";

/// What a message says where nothing is amiss.
const ENDED: &str = "ended";

/// What the warden does until the end.
fn serve(channel: &Channel, program: &Path, folder: &Path, servers: &[Planned]) {
    let _ = rustix::thread::set_name(c"portunus-demo");
    let _ = process::adopt_orphans();
    let end = |patience, outcome: &str| {
        end_descendants(patience);
        let _ = channel.send(outcome.as_bytes(), &[], Instant::now() + PATIENCE);
    };
    for server in servers {
        if let Err(error) = start(program, folder, server) {
            return end(Duration::ZERO, &format!("{} cannot be started: {error}", program.display()));
        }
    }
    let (mut failed, mut is_ready) = (None, false);
    loop {
        match channel.receive(Instant::now() + LOOK) {
            Ok(Some((message, _))) if message == READY => is_ready = true,
            Ok(Some(_)) => return end(LAST_MOMENT, ENDED),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(None) | Err(_) => return end_descendants(Duration::ZERO),
        }
        let all = process::reap(&mut failed);
        // After an upgrade it is a failure of a process to have closed connections, and none of the demo.
        if all.is_some() || (!is_ready && failed.is_some()) {
            let how = all.flatten().or(failed).unwrap_or_else(|| "all servers have ended".to_owned());
            return end(Duration::ZERO, &how);
        }
    }
}

fn start(program: &Path, folder: &Path, server: &Planned) -> io::Result<()> {
    let log = File::options().create(true).append(true).open(&server.log)?;
    let mut command = Command::new(program);
    command.args(&server.arguments).current_dir(folder);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // Where a service manager started the demo, these are the demo's.
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", "NOTIFY_SOCKET"].iter().for_each(|name| {
        command.env_remove(name);
    });
    command.spawn().map(drop)
}

/// Ends all processes below this one: by SIGTERM where they have a moment for that, then by SIGKILL.
fn end_descendants(patience: Duration) {
    let begun = Instant::now();
    let mut failed = None;
    if !patience.is_zero() {
        let _ = process::signal_descendants(Signal::TERM);
    }
    while process::reap(&mut failed).is_none() && begun.elapsed() < patience + PATIENCE {
        if begun.elapsed() >= patience {
            let _ = process::signal_descendants(Signal::KILL);
        }
        std::thread::park_timeout(POLL);
    }
}
