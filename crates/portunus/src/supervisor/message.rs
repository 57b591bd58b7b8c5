//! What the two processes of an upgrade say to each other, as bytes.
//!
//! A message is a letter and what belongs to it; only lists are JSON. Both sides are ours, but may be of different versions: the first message names the
//! version of this form, and what is not understood ends the upgrade.

use std::path::PathBuf;
use std::time::Duration;

use net::inherited::{Kind, Passed};
use proxy::server::{MAX_KEYS_PER_PIECE, RateCounts, RateKey, ServerState, UsedKey};
use proxy::upstream::{Health, Operated};
use serde_json::{Value, json};
use tls::TicketSecrets;

/// The version of this form. Another one is not understood.
const VERSION: u8 = 1;

/// Bytes of problems in a message.
const MAX_PROBLEM_BYTES: usize = 24 * 1024;

/// One message.
pub enum Message {
    /// The first one of the old process.
    Hello,
    /// Sockets; the descriptors come beside it, in this order.
    Sockets(Vec<SocketNote>),
    /// The session-ticket keys.
    Tickets(TicketSecrets),
    /// The key of sticky sessions.
    StickyKey([u8; 32]),
    /// The secrets of QUIC.
    Quic(quic::Secrets),
    /// The secret by which rates count keys.
    RateKey(RateKey),
    /// What rates have counted; between the words of readiness and leave.
    Rates(RateCounts),
    /// Upstream servers and how they fare.
    Servers(Vec<ServerState>),
    /// Policies whose maintenance an operator has switched on.
    Maintenance(Vec<String>),
    /// That was all.
    End,
    /// The new process has loaded everything and could serve.
    Ready,
    /// It shall.
    Go,
    /// It does.
    Serving,
    /// It cannot, for these reasons.
    Failed(Vec<String>),
}

impl std::fmt::Debug for Message {
    /// Without what is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Message::Hello => "Hello",
            Message::Sockets(_) => "Sockets",
            Message::Tickets(_) => "Tickets",
            Message::StickyKey(_) => "StickyKey",
            Message::Quic(_) => "Quic",
            Message::RateKey(_) => "RateKey",
            Message::Rates(_) => "Rates",
            Message::Servers(_) => "Servers",
            Message::End => "End",
            Message::Ready => "Ready",
            Message::Go => "Go",
            Message::Serving => "Serving",
            Message::Failed(_) => "Failed",
            Message::Maintenance(_) => "Maintenance",
        })
    }
}

/// What a socket is, without its descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketNote {
    kind: Kind,
    key: String,
    is_managed: bool,
    file: Option<(PathBuf, u64, u64)>,
}

impl SocketNote {
    /// Of a socket.
    pub fn of(passed: &Passed) -> SocketNote {
        let Passed { kind, is_managed, .. } = *passed;
        SocketNote { kind, key: passed.key.clone(), is_managed, file: passed.file.clone() }
    }

    /// With its descriptor.
    pub fn with(self, socket: std::os::fd::OwnedFd) -> Passed {
        let SocketNote { kind, key, is_managed, file } = self;
        Passed { is_managed, file, ..Passed::new(kind, key, socket.into()) }
    }

    fn to_json(&self) -> Value {
        let file = self.file.as_ref().map(|(path, device, number)| {
            use std::os::unix::ffi::OsStrExt as _;
            json!({ "path": path.as_os_str().as_bytes(), "device": device, "number": number })
        });
        json!({ "kind": self.kind.name(), "key": self.key, "managed": self.is_managed, "file": file })
    }

    fn of_json(value: &Value) -> Option<SocketNote> {
        let file = match value.get("file")? {
            Value::Null => None,
            file => {
                let bytes = file.get("path")?.as_array()?.iter();
                let bytes = bytes.map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
                use std::os::unix::ffi::OsStringExt as _;
                let path = std::ffi::OsString::from_vec(bytes.collect::<Option<_>>()?);
                Some((path.into(), file.get("device")?.as_u64()?, file.get("number")?.as_u64()?))
            }
        };
        let kind = value.get("kind")?.as_str()?;
        Some(SocketNote {
            kind: Kind::ALL.into_iter().find(|known| known.name() == kind)?,
            key: value.get("key")?.as_str()?.to_owned(),
            is_managed: value.get("managed")?.as_bool()?,
            file,
        })
    }
}

fn server_to_json(server: &ServerState) -> Value {
    let Health { healthy, silent, failures, ejections, ejected_ms } = server.health;
    json!({
        "upstream": server.upstream, "authority": server.authority, "server": server.server, "healthy": healthy,
        "silent": silent, "failures": failures, "ejections": ejections, "ejected_ms": ejected_ms,
        "drained": server.operated.drained, "weight": server.operated.weight,
    })
}

fn server_of_json(value: &Value) -> Option<ServerState> {
    let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    let number = |name: &str| value.get(name)?.as_u64();
    let flag = |name: &str| value.get(name)?.as_bool();
    Some(ServerState {
        upstream: text("upstream")?,
        authority: text("authority")?,
        server: text("server")?,
        health: Health {
            healthy: flag("healthy")?,
            silent: flag("silent")?,
            failures: u32::try_from(number("failures")?).ok()?,
            ejections: u32::try_from(number("ejections")?).ok()?,
            ejected_ms: number("ejected_ms")?,
        },
        // Processes before these were there say nothing of them.
        operated: Operated {
            drained: flag("drained").unwrap_or(false),
            // Said again by whoever said it.
            drained_by_fleet: false,
            weight: number("weight").and_then(|weight| u32::try_from(weight).ok()),
        },
    })
}

fn rate_key_of(bytes: &[u8]) -> Option<RateKey> {
    let (secret, probe) = bytes.split_first_chunk()?;
    Some(RateKey { secret: *secret, probe: u64::from_be_bytes(probe.try_into().ok()?) })
}

fn counts_to_bytes(counts: &RateCounts) -> Vec<u8> {
    let at = u64::try_from(counts.at.as_nanos()).unwrap_or(u64::MAX);
    let mut bytes = [&counts.table[..], &at.to_be_bytes()].concat();
    for UsedKey { hash, ticks } in &counts.used {
        bytes.extend_from_slice(&hash.to_be_bytes());
        bytes.extend_from_slice(&ticks.to_be_bytes());
    }
    bytes
}

/// The counts of one key at least, and of no more than there may be.
fn counts_of(bytes: &[u8]) -> Option<RateCounts> {
    let (table, rest) = bytes.split_first_chunk()?;
    let (at, rest) = rest.split_first_chunk()?;
    let (pairs, []) = rest.as_chunks::<16>() else { return None };
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
    let used = |pair: &[u8; 16]| Some(UsedKey { hash: number(pair.get(..8)?)?, ticks: number(pair.get(8..)?)? });
    let is_of_size = (1..=MAX_KEYS_PER_PIECE).contains(&pairs.len());
    let used = is_of_size.then(|| pairs.iter().map(used).collect::<Option<Vec<_>>>())??;
    Some(RateCounts { table: *table, at: Duration::from_nanos(u64::from_be_bytes(*at)), used })
}

impl Message {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let lettered = |letter: u8, rest: &[u8]| [&[letter], rest].concat();
        let list = |letter: u8, values: Vec<Value>| lettered(letter, Value::Array(values).to_string().as_bytes());
        match self {
            Message::Hello => vec![b'H', VERSION],
            Message::Sockets(sockets) => list(b'S', sockets.iter().map(SocketNote::to_json).collect()),
            Message::Tickets(secrets) => lettered(b'T', secrets.bytes()),
            Message::StickyKey(key) => lettered(b'K', key),
            Message::Quic(secrets) => lettered(b'Q', &secrets.to_bytes()),
            Message::RateKey(key) => lettered(b'C', &[&key.secret[..], &key.probe.to_be_bytes()].concat()),
            Message::Rates(counts) => lettered(b'L', &counts_to_bytes(counts)),
            Message::Servers(servers) => list(b'U', servers.iter().map(server_to_json).collect()),
            Message::Maintenance(policies) => list(b'M', policies.iter().map(|policy| json!(policy)).collect()),
            Message::End => vec![b'E'],
            Message::Ready => vec![b'R'],
            Message::Go => vec![b'G'],
            Message::Serving => vec![b'V'],
            Message::Failed(problems) => list(b'F', shortened(problems)),
        }
    }

    /// What the bytes say.
    ///
    /// # Errors
    /// They are no message of this version; a text for the operator.
    pub fn of_bytes(bytes: &[u8]) -> Result<Message, String> {
        let malformed = || "the other process of the upgrade says what this version does not understand".to_owned();
        let (letter, rest) = bytes.split_first().ok_or_else(malformed)?;
        let list = || match serde_json::from_slice(rest) {
            Ok(Value::Array(values)) => Ok(values),
            _ => Err(malformed()),
        };
        match (letter, rest) {
            (b'H', [VERSION]) => Ok(Message::Hello),
            (b'H', [version]) => Err(format!(
                "the running process hands over in form {version}, and this program knows {VERSION}; restart instead"
            )),
            (b'S', _) => {
                let notes = list()?.iter().map(SocketNote::of_json).collect::<Option<_>>();
                notes.map(Message::Sockets).ok_or_else(malformed)
            }
            (b'T', bytes) => Ok(Message::Tickets(TicketSecrets::new(bytes.to_vec()))),
            (b'K', key) => key.try_into().map(Message::StickyKey).map_err(|_| malformed()),
            (b'Q', bytes) => quic::Secrets::of_bytes(bytes).map(Message::Quic).ok_or_else(malformed),
            (b'C', bytes) => rate_key_of(bytes).map(Message::RateKey).ok_or_else(malformed),
            (b'L', bytes) => counts_of(bytes).map(Message::Rates).ok_or_else(malformed),
            (b'U', _) => {
                let servers = list()?.iter().map(server_of_json).collect::<Option<_>>();
                servers.map(Message::Servers).ok_or_else(malformed)
            }
            (b'M', _) => {
                let policies = list()?.iter().map(|policy| policy.as_str().map(str::to_owned)).collect::<Option<_>>();
                policies.map(Message::Maintenance).ok_or_else(malformed)
            }
            (b'E', []) => Ok(Message::End),
            (b'R', []) => Ok(Message::Ready),
            (b'G', []) => Ok(Message::Go),
            (b'V', []) => Ok(Message::Serving),
            (b'F', _) => {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let problems = list()?.iter().map(text).collect::<Option<_>>();
                problems.map(Message::Failed).ok_or_else(malformed)
            }
            _ => Err(malformed()),
        }
    }
}

/// As many problems as fit into a message, the rest counted.
fn shortened(problems: &[String]) -> Vec<Value> {
    let mut left = MAX_PROBLEM_BYTES;
    let fits = |problem: &&String| {
        // Escaped, a byte takes six at the most.
        let size = problem.len() + problem.bytes().filter(|byte| matches!(byte, 0..=31 | b'"' | b'\\')).count() * 5;
        left.checked_sub(size).is_some_and(|rest| {
            left = rest;
            true
        })
    };
    let mut taken: Vec<Value> = problems.iter().take_while(fits).map(|problem| json!(problem)).collect();
    if taken.len() < problems.len() {
        taken.push(json!(format!("and {} more problems; the diagnostic log has them", problems.len() - taken.len())));
    }
    taken
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn health() -> Health {
        Health { healthy: false, silent: true, failures: 2, ejections: 3, ejected_ms: 4_000 }
    }

    #[test]
    fn each_message_is_read_as_it_was_written() {
        let file = Some((PathBuf::from("/run/\u{e9}.sock"), 7, 8));
        let note = |kind, key: &str, file| SocketNote { kind, key: key.to_owned(), is_managed: false, file };
        let server = ServerState {
            upstream: "app".to_owned(),
            authority: "a.example:80".to_owned(),
            server: "10.0.0.1:80".to_owned(),
            health: health(),
            operated: Operated { drained: true, drained_by_fleet: false, weight: Some(7) },
        };
        let rows = [
            Message::Hello,
            Message::Sockets(vec![note(Kind::Tcp, "127.0.0.1:0 0 web", None), note(Kind::Unix, "unix:/x", file)]),
            Message::Sockets(Vec::new()),
            Message::Tickets(TicketSecrets::new(vec![1, 2, 3])),
            Message::StickyKey([7; 32]),
            Message::RateKey(RateKey { secret: [1; 32], probe: 2 }),
            Message::Rates(counts(MAX_KEYS_PER_PIECE)),
            Message::Servers(vec![server]),
            Message::Maintenance(vec!["planned".to_owned()]),
            Message::End,
            Message::Ready,
            Message::Go,
            Message::Serving,
            Message::Failed(vec!["a \"problem\"".to_owned()]),
        ];
        for message in rows {
            let bytes = message.to_bytes();
            assert_eq!(Message::of_bytes(&bytes).unwrap().to_bytes(), bytes, "{message:?}");
        }
    }

    fn counts(keys: usize) -> RateCounts {
        let used = (0..keys as u64).map(|key| UsedKey { hash: key << 40, ticks: u64::MAX - key }).collect();
        RateCounts { table: [3; 32], at: Duration::from_nanos(5), used }
    }

    #[test]
    fn counts_are_whole_and_of_no_more_keys_than_there_may_be() {
        let bytes = |keys: usize| Message::Rates(counts(keys)).to_bytes();
        assert!(bytes(MAX_KEYS_PER_PIECE).len() <= net::channel::MAX_MESSAGE_BYTES);
        let whole = bytes(2);
        assert!(Message::of_bytes(&whole).is_ok());
        for wrong in [bytes(0), bytes(MAX_KEYS_PER_PIECE + 1), whole[..whole.len() - 1].to_vec(), whole[..40].to_vec()]
        {
            assert!(Message::of_bytes(&wrong).is_err(), "{} bytes", wrong.len());
        }
        for length in [0, 31, 32, 39, 41] {
            assert!(Message::of_bytes(&[&b"C"[..], &vec![0; length]].concat()).is_err(), "{length}");
        }
    }

    /// Whatever comes is a message that is written as it was read, or an error.
    #[test]
    fn no_bytes_are_too_much() {
        let mut random = fastrand::Rng::with_seed(1);
        let starts = [note_bytes(), Message::Rates(counts(2)).to_bytes()];
        for _ in 0..20_000 {
            let mut bytes = starts[random.usize(..starts.len())].clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.u8(b' '..b'~')),
                }
            }
            if let Ok(message) = Message::of_bytes(&bytes) {
                let again = message.to_bytes();
                assert_eq!(Message::of_bytes(&again).unwrap().to_bytes(), again);
            }
        }
    }

    fn note_bytes() -> Vec<u8> {
        let file = Some((PathBuf::from("/run/edge.sock"), 7, 8));
        let note = SocketNote { kind: Kind::Unix, key: "unix:/x".to_owned(), is_managed: false, file };
        Message::Sockets(vec![note]).to_bytes()
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        assert!(Message::of_bytes(b"H\x02").unwrap_err().contains("form 2"));
        for bytes in [
            &b""[..],
            b"H",
            b"X",
            b"R1",
            b"S",
            b"K1",
            b"S{}",
            b"S[{}]",
            b"U[1]",
            b"F[1]",
            b"F[\"a\"",
            b"S[{\"kind\":\"sctp\"}]",
        ] {
            assert!(Message::of_bytes(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn many_problems_are_shortened_to_one_message() {
        let problems: Vec<String> = (0..1_000).map(|_| "\"".repeat(500)).collect();
        let bytes = Message::Failed(problems).to_bytes();
        assert!(bytes.len() < net::channel::MAX_MESSAGE_BYTES, "{}", bytes.len());
        let Message::Failed(problems) = Message::of_bytes(&bytes).unwrap() else { unreachable!("it was one") };
        assert!(problems.last().unwrap().contains("more problems"), "{problems:?}");
    }
}
