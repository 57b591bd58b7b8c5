//! `unix_socket`: who may connect to the Unix sockets of a listener.

use super::{Build, Fault, read};
use crate::model::{Endpoint, UnixSocket};
use crate::problem::shown;
use crate::yaml::Node;

impl Build<'_> {
    /// What the Unix sockets of a listener are made with.
    pub(super) fn unix_socket(&mut self, node: &Node, bind: &[Endpoint]) -> UnixSocket {
        let mut socket = UnixSocket::default();
        let Some(own) = read::mapping(node, "unix_socket") else { return socket };
        let is_unix = |one: &Endpoint| matches!(one, Endpoint::Unix(_));
        if let Some(entry) = node.entry("unix_socket").filter(|_| !bind.iter().any(is_unix)) {
            let what = "`unix_socket` has no effect: no address of `bind` is a Unix socket";
            self.problems.add(entry.key_span, what, "remove it, or bind one: `unix:/run/portunus/edge.sock`");
        }
        socket.mode = self.parsed(own, "mode", mode).unwrap_or(socket.mode);
        socket
    }
}

/// Reads the mode of a socket as chmod(1) takes it.
fn mode(text: &str) -> Result<u32, Fault> {
    let is_octal = matches!(text.len(), 3 | 4) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| {
        Fault::new(
            format!("{} is not the mode of a socket", shown(text)),
            "write octal digits for owner, group and others, who connect if they may write: `0660`",
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn modes_are_octal_and_without_special_bits() {
        for (text, expected) in [("0660", 0o660), ("600", 0o600), ("0777", 0o777), ("000", 0)] {
            assert_eq!(mode(text).ok(), Some(expected), "{text}");
        }
        for text in ["660x", "8", "0888", "4755", "1777", "+660", "-66", "06600", ""] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
