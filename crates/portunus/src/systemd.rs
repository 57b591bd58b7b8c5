//! What systemd learns about this process (sd_notify(3)): that it serves, reloads or stops, which process is the main one after an upgrade, a line of status
//! for `systemctl status`, and signs of life for its watchdog.
//!
//! Does nothing where systemd did not ask (`NOTIFY_SOCKET`), and never fails: a service manager that does not listen must not stop traffic.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::LazyLock;
use std::time::Duration;

/// How long the service manager may take to read a message.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest status, characters.
const MAX_STATUS: usize = 512;

static MANAGER: LazyLock<Option<UnixDatagram>> = LazyLock::new(connect);

fn connect() -> Option<UnixDatagram> {
    let name = std::env::var_os("NOTIFY_SOCKET")?;
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_write_timeout(Some(PATIENCE)).ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

/// Connects. A process that shuts itself in does this before.
pub fn prepare() {
    LazyLock::force(&MANAGER);
}

/// It serves.
pub fn ready(status: &str) {
    send("READY=1", status);
}

/// It begins to load its configuration again; [`ready`] follows, whatever comes of it.
pub fn reloading() {
    let micros = net::clock::precise().as_micros();
    send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"), "loading the configuration");
}

/// A program upgrade begins; [`ready`] or [`handed_over`] follows.
pub fn upgrading() {
    let micros = net::clock::precise().as_micros();
    send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"), "starting the new process of an upgrade");
}

/// Another process serves in our place, and is the main one from now on. Nothing that this one says is heard afterwards.
pub fn handed_over(pid: u32) {
    send(&format!("MAINPID={pid}\nREADY=1"), &format!("serving since an upgrade, process {pid}"));
}

/// How often the service manager wants a sign of life, if it does (`WATCHDOG_USEC`, `WATCHDOG_PID`): half of the time after which it gives up.
pub fn watchdog() -> Option<Duration> {
    let variable = |name: &str| std::env::var(name).ok();
    let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let limit = variable("WATCHDOG_USEC")?.parse().ok().filter(|micros| *micros > 0).map(Duration::from_micros)?;
    is_ours.then_some(limit / 2)
}

/// Signs of life, withheld while a worker makes no progress.
#[derive(Debug, Default)]
pub struct Watchdog {
    last: Vec<u64>,
}

impl Watchdog {
    /// Gives a sign of life if each worker has made progress since the last time; `beats` is a number per worker that grows.
    pub fn look(&mut self, beats: Vec<u64>) {
        if self.is_alive(beats) {
            send_alone("WATCHDOG=1");
        }
    }

    fn is_alive(&mut self, beats: Vec<u64>) -> bool {
        let is_alive =
            beats.len() != self.last.len() || beats.iter().zip(&self.last).all(|(now, before)| now != before);
        self.last = beats;
        is_alive
    }
}

/// It begins to shut down.
pub fn stopping(status: &str) {
    send("STOPPING=1", status);
}

/// What became of a reload, as a status: the generation that is active, and the first problem if it was refused.
pub fn outcome(generation: u64, problems: &[String]) -> String {
    match problems {
        [] => format!("serving, configuration {generation}"),
        [first] => format!("serving, configuration {generation}; the last reload failed: {first}"),
        [first, rest @ ..] => {
            format!("serving, configuration {generation}; the last reload failed: {first} (and {} more)", rest.len())
        }
    }
}

/// What a failed upgrade leaves, as a status.
pub fn upgrade_failed(generation: u64, problems: &[String]) -> String {
    let first = problems.first().map_or("", String::as_str);
    format!("serving, configuration {generation}; the last upgrade failed: {first}")
}

fn send_alone(state: &str) {
    if let Some(socket) = &*MANAGER {
        let _ = socket.send(state.as_bytes());
    }
}

fn send(state: &str, status: &str) {
    let Some(socket) = &*MANAGER else { return };
    // One line, and short: the message is one datagram.
    let status: String = status.chars().take(MAX_STATUS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = socket.send(format!("{state}\nSTATUS={status}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{Watchdog, outcome};

    #[test]
    fn a_worker_that_stands_still_ends_the_signs_of_life() {
        let mut watchdog = Watchdog::default();
        for (beats, alive) in [([1, 1], true), ([2, 5], true), ([3, 5], false), ([3, 6], false), ([4, 7], true)] {
            assert_eq!(watchdog.is_alive(beats.to_vec()), alive, "{beats:?}");
        }
    }

    #[test]
    fn the_status_of_a_reload_names_what_is_active_and_what_failed() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(outcome(2, &[]), "serving, configuration 2");
        assert_eq!(outcome(1, &texts(&["a: b"])), "serving, configuration 1; the last reload failed: a: b");
        let two = outcome(1, &texts(&["a", "b"]));
        assert_eq!(two, "serving, configuration 1; the last reload failed: a (and 1 more)");
    }
}
