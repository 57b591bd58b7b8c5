//! What systemd learns about this process (sd_notify(3)): that it serves, reloads or stops, and a line of status for `systemctl status`.
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

fn send(state: &str, status: &str) {
    let Some(socket) = &*MANAGER else { return };
    // One line, and short: the message is one datagram.
    let status: String = status.chars().take(MAX_STATUS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = socket.send(format!("{state}\nSTATUS={status}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::outcome;

    #[test]
    fn the_status_of_a_reload_names_what_is_active_and_what_failed() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(outcome(2, &[]), "serving, configuration 2");
        assert_eq!(outcome(1, &texts(&["a: b"])), "serving, configuration 1; the last reload failed: a: b");
        let two = outcome(1, &texts(&["a", "b"]));
        assert_eq!(two, "serving, configuration 1; the last reload failed: a (and 1 more)");
    }
}
