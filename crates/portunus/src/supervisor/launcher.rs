//! A process beside this one that starts the program again for an upgrade, since this one cannot once it has shut itself in: what it gave up it would pass on.
//!
//! ```text
//! forked before anything is read or given up → waits ──start, the new process's standard input──→ started ──end, hang up──→ …
//!        └── this process has ended: so does the launcher, and what it started goes on by itself
//! ```
//!
//! In a container whose first process this one is, the launcher has a second task: that process has to stay when others have taken over, and only the launcher
//! can see to those, being the parent of the first of them and of all whose parents have ended, and can pass signals on.
//!
//! It does one thing: run the program under the name and with the arguments that this process was started with, on a descriptor that it is given. It takes no
//! name, argument or variable from this process, so whoever got hold of this one could have nothing else run; and how far this process has shut itself in, which it is told
//! once and which is never lowered, it demands of what it starts. Requests are single words; responses begin with
//! the letter of their kind.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::SandboxMode;
use net::{Channel, process};
use rustix::process::Signal;

/// Says to a process that its standard input leads to the one that it takes over from.
pub const MARK: &str = "PORTUNUS_UPGRADE";

/// Says to a process how far it shuts itself in at the least.
pub const FLOOR: &str = "PORTUNUS_UPGRADE_SANDBOX";

/// How long the launcher may take for a response.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a process that closed its end may take to end.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// How often the launcher looks whether a request came, where the kernel wakes it without one.
const WAIT: Duration = Duration::from_secs(3600);

/// A program and its arguments.
pub type Program = (PathBuf, Vec<OsString>);

/// What is said where there is no launcher any more.
const GONE: &str = "the process that starts the program again (portunus-launch) has ended, so there can be no upgrade; restart instead";

/// What a container's first process passes on to those that took over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// SIGTERM: shut down.
    Terminate,
    /// SIGHUP: reload.
    HangUp,
    /// SIGUSR1: open the log file again.
    ReopenLogs,
}

/// The launcher, as this process sees it.
#[derive(Debug)]
pub struct Launcher {
    /// None once a request failed: its response may still come, and the next request would take it for its own.
    channel: Mutex<Option<Channel>>,
    process: Mutex<process::Forked>,
}

impl Launcher {
    /// Begins it. To be called while there is one thread.
    ///
    /// # Errors
    /// The kernel rejects; why there will be no upgrades.
    pub fn begin(program: &Program) -> io::Result<Launcher> {
        let (ours, theirs) = Channel::pair()?;
        let is_in_container = process::is_first();
        let process = process::fork(theirs, |channel| serve(&Channel::of(channel), program, is_in_container))?;
        Ok(Launcher { channel: Mutex::new(Some(ours)), process: Mutex::new(process) })
    }

    /// Why it starts nothing any more; none while it is there.
    pub fn problem(&self) -> Option<String> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.has_ended().then(|| GONE.to_owned())
    }

    /// Has all that is started from here on shut itself in at least this far. It can be raised, and never lowered.
    ///
    /// # Errors
    /// The launcher is gone, so that there are no upgrades.
    pub fn keep_sandbox(&self, mode: SandboxMode) -> Result<(), String> {
        self.ask(&format!("{KEEP}{}", mode.name()), &[]).map(|_| ())
    }

    /// Starts the program with this as its standard input; the number of its process.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, input: &OwnedFd) -> Result<u32, String> {
        let response = self.ask("start", &[input.as_fd()])?;
        match response.split_at_checked(1) {
            Some(("P", pid)) => pid.parse().map_err(|_| "the launcher names no process".to_owned()),
            Some((_, problem)) => Err(problem.to_owned()),
            None => Err("the launcher says nothing".to_owned()),
        }
    }

    /// What the process that was started last ended with; none if it has not, or nobody knows.
    pub fn ended(&self) -> Option<String> {
        self.ask("look", &[]).ok()?.strip_prefix('X').map(str::to_owned)
    }

    /// Ends what was started last, at once or after a moment in which it may end by itself; what it ended with.
    pub fn end(&self, at_once: bool) -> Option<String> {
        let response = self.ask(if at_once { "kill" } else { "end" }, &[]).ok()?;
        response.strip_prefix('X').map(str::to_owned)
    }

    /// Sends SIGHUP to what was started last.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn hang_up(&self) -> Result<(), String> {
        match self.ask("hangup", &[])?.strip_prefix('E') {
            None => Ok(()),
            Some(problem) => Err(problem.to_owned()),
        }
    }

    /// In a container: whether everything that was started from here has ended, and the last failure among it.
    pub fn rest(&self) -> Option<Option<String>> {
        match self.ask("rest", &[]) {
            Ok(response) => {
                response.strip_prefix('X').map(|failure| Some(failure.to_owned()).filter(|one| !one.is_empty()))
            }
            Err(problem) => Some(Some(problem)),
        }
    }

    /// In a container: sends this to every process that was started from here, and to what came of it.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn signal_rest(&self, which: Passed) -> Result<(), String> {
        let word = PASSED.iter().find(|(one, ..)| *one == which).map_or("", |(_, word, _)| word);
        match self.ask(word, &[])?.strip_prefix('E') {
            None => Ok(()),
            Some(problem) => Err(problem.to_owned()),
        }
    }

    fn ask(&self, request: &str, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> Result<String, String> {
        self.ask_within(PATIENCE, request, descriptors)
    }

    fn ask_within(
        &self,
        patience: Duration,
        request: &str,
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> Result<String, String> {
        let mut held = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || GONE.to_owned();
        // Put back only once its response is here.
        let channel = held.take().ok_or_else(gone)?;
        let until = Instant::now() + patience;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::BrokenPipe => gone(),
            _ => format!("the process that starts the program again cannot be asked: {error}"),
        };
        channel.send(request.as_bytes(), descriptors, until).map_err(failed)?;
        let (response, _) = channel.receive(until).map_err(failed)?.ok_or_else(gone)?;
        *held = Some(channel);
        String::from_utf8(response).map_err(|_| "the launcher says no text".to_owned())
    }
}

/// What the launcher does until its channel is closed.
fn serve(channel: &Channel, program: &Program, is_in_container: bool) {
    if is_in_container {
        // Where that is rejected, a second upgrade ends the container with the process in the middle.
        let _ = process::adopt_orphans();
    }
    let (mut started, mut failed, mut floor) = (None, None, SandboxMode::Off);
    loop {
        let (request, descriptors) = match channel.receive(Instant::now() + WAIT) {
            Ok(Some(received)) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(None) | Err(_) => return,
        };
        let response = match (&request[..], descriptors.into_iter().next()) {
            // Whoever got hold of the server could have processes made without end.
            (b"start", Some(_)) if started.as_mut().is_some_and(|child| !is_ended(child)) => STILL_THERE.to_owned(),
            (b"start", Some(input)) => match start(program, input, floor) {
                Ok(child) => format!("P{}", started.insert(child).id()),
                Err(problem) => format!("E{problem}"),
            },
            (b"end", _) => format!("X{}", started.as_mut().map(|child| end(child, LAST_MOMENT)).unwrap_or_default()),
            (b"kill", _) => {
                format!("X{}", started.as_mut().map(|child| end(child, Duration::ZERO)).unwrap_or_default())
            }
            (b"look", _) => {
                let status = |child: &mut Child| is_ended(child).then(|| end(child, LAST_MOMENT));
                started.as_mut().and_then(status).map_or("P".to_owned(), |status| format!("X{status}"))
            }
            (b"hangup", _) => match started.as_ref().map(|child| process::hang_up(child.id())) {
                Some(Err(error)) => format!("E{error}"),
                _ => "P".to_owned(),
            },
            (word, _) if word.starts_with(KEEP.as_bytes()) => {
                let mode = std::str::from_utf8(&word[KEEP.len()..]).ok().and_then(SandboxMode::named);
                floor = floor.max(mode.unwrap_or_default());
                "P".to_owned()
            }
            // Elsewhere there is no need: the service manager sees to what is left.
            (word, _) if is_in_container => see_to_rest(word, &mut failed),
            _ => NOT_UNDERSTOOD.to_owned(),
        };
        if channel.send(response.as_bytes(), &[], Instant::now() + PATIENCE).is_err() {
            return;
        }
    }
}

/// Signals for all processes that came of those that were started here, with their words.
const PASSED: [(Passed, &str, Signal); 3] = [
    (Passed::Terminate, "terminate", Signal::TERM),
    (Passed::HangUp, "hangup all", Signal::HUP),
    (Passed::ReopenLogs, "reopen", Signal::USR1),
];

/// What a request begins with that names a mode of the sandbox.
const KEEP: &str = "sandbox ";

const NOT_UNDERSTOOD: &str = "Ethis is not understood";

const STILL_THERE: &str = "Ethe process that was started last is still there";

/// What is asked once this process stays only because it is a container's first. `failed`: what ended last with a failure.
fn see_to_rest(word: &[u8], failed: &mut Option<String>) -> String {
    if word == b"rest" {
        return process::reap(failed).map_or("P".to_owned(), |failure| format!("X{}", failure.unwrap_or_default()));
    }
    if word == b"terminate" {
        // From here on it is the end that counts, and not what somebody met with before.
        *failed = None;
    }
    match PASSED.iter().find(|(_, one, _)| one.as_bytes() == word) {
        Some((_, _, signal)) => {
            process::signal_descendants(*signal).map_or_else(|error| format!("E{error}"), |()| "P".to_owned())
        }
        None => NOT_UNDERSTOOD.to_owned(),
    }
}

fn start((path, arguments): &Program, input: OwnedFd, floor: SandboxMode) -> Result<Child, String> {
    let mut command = Command::new(path);
    command.args(arguments).env(MARK, "stdin").env(FLOOR, floor.name()).stdin(Stdio::from(input));
    // These speak of the old process. The service manager is told who is the main one when there is a new one.
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"].iter().for_each(|name| _ = command.env_remove(name));
    command.spawn().map_err(|error| format!("{} cannot be started: {error}", path.display()))
}

/// Whether a process has ended. Of one that was killed its first thread ends before the others, and it can be waited for only after those.
fn is_ended(child: &mut Child) -> bool {
    let file = format!("/proc/{}/stat", child.id());
    let stat = || std::fs::read_to_string(&file).unwrap_or_default();
    // The state stands behind the name, which may hold anything.
    let is_zombie = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
    !matches!(child.try_wait(), Ok(None)) || is_zombie(stat())
}

/// Has a process end; what it ended with.
fn end(child: &mut Child, patience: Duration) -> String {
    let until = Instant::now() + patience;
    let mut status = child.try_wait();
    while matches!(status, Ok(None)) && Instant::now() < until {
        std::thread::park_timeout(Duration::from_millis(10));
        status = child.try_wait();
    }
    if matches!(status, Ok(None)) {
        let _ = child.kill();
        status = child.wait().map(Some);
    }
    status.ok().flatten().map_or_else(String::new, |status| status.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_comes_too_late_is_taken_for_no_other() -> Result<(), Box<dyn std::error::Error>> {
        let (ours, theirs) = Channel::pair()?;
        let launcher = Launcher { channel: Mutex::new(Some(ours)), process: Mutex::default() };
        let theirs = Channel::of(theirs);
        let late = launcher.ask_within(Duration::from_millis(10), "start", &[]);
        assert!(late.is_err_and(|problem| problem.contains("cannot be asked")));
        // Its end is closed with it, so that the launcher ends, too: once no process that another test has just forked holds it open.
        assert!(theirs.receive(Instant::now() + PATIENCE)?.is_some_and(|(request, _)| request == b"start"));
        assert!(theirs.receive(Instant::now() + PATIENCE)?.is_none());
        assert!(theirs.send(b"P1", &[], Instant::now() + PATIENCE).is_err());
        assert_eq!(launcher.end(true), None);
        assert!(launcher.hang_up().is_err_and(|problem| problem.ends_with("restart instead")));
        assert_eq!(launcher.ended(), None, "nobody knows");
        Ok(())
    }

    /// Whoever got hold of the server could otherwise have processes made without end.
    #[test]
    fn it_starts_one_process_at_a_time() -> Result<(), Box<dyn std::error::Error>> {
        let (ours, theirs) = Channel::pair()?;
        let program: Program = ("/bin/sh".into(), ["-c", "read end"].map(OsString::from).to_vec());
        let serving = std::thread::spawn(move || serve(&Channel::of(theirs), &program, false));
        let launcher = Launcher { channel: Mutex::new(Some(ours)), process: Mutex::default() };
        // It ends when this end is closed.
        let (_open, input) = Channel::pair()?;
        let first = launcher.start(&input)?;
        assert!(launcher.start(&input).is_err_and(|problem| problem.contains("is still there")));
        assert!(launcher.end(true).is_some_and(|status| status.contains("signal")));
        assert_ne!(launcher.start(&input)?, first);
        launcher.end(true);
        drop(launcher);
        assert!(serving.join().is_ok());
        Ok(())
    }
}
