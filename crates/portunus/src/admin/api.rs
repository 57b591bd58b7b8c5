//! The API under `/api/v1/`: what is shown and what can be changed, as JSON. Reads requests strictly; what comes of them is the role's.

use std::time::Duration;

use serde_json::{Map, Value};
use telemetry::Snapshot;

/// What the API can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// How the process stands.
    Status,
    /// Where it listens.
    Listeners,
    /// What requests are matched to.
    Routes,
    /// Who requests are forwarded to.
    Upstreams,
    /// Certificates that are served.
    Certificates,
    /// Connections that are open.
    Connections,
    /// What was rejected or failed, by reason.
    Rejections,
    /// What failed or was rejected last.
    Errors,
    /// Policies, and what they decided.
    Policies,
    /// What contracts said, by operation.
    Contracts,
    /// Handshakes, by what was negotiated.
    Handshakes,
    /// Clients with the most bytes.
    Clients,
    /// What stands in no API document.
    Shadow,
    /// Key servers and how they fare.
    KeyServers,
    /// Rates of the last minutes.
    History,
}

impl View {
    /// Each of them, and the last segment of its path.
    pub const ALL: [(&'static str, View); 15] = [
        ("status", View::Status),
        ("listeners", View::Listeners),
        ("routes", View::Routes),
        ("upstreams", View::Upstreams),
        ("certificates", View::Certificates),
        ("connections", View::Connections),
        ("rejections", View::Rejections),
        ("errors", View::Errors),
        ("policies", View::Policies),
        ("contracts", View::Contracts),
        ("handshakes", View::Handshakes),
        ("clients", View::Clients),
        ("shadow", View::Shadow),
        ("key-servers", View::KeyServers),
        ("history", View::History),
    ];
}

/// What the API can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Whether a server gets no new requests.
    Drain {
        /// Its label: an address or `unix:PATH`.
        server: String,
        /// In this upstream alone.
        upstream: Option<String>,
        /// Whether it is drained from now on.
        drained: bool,
    },
    /// A server's share of the load.
    Weight {
        /// Its label.
        server: String,
        /// In this upstream alone.
        upstream: Option<String>,
        /// None for that of the configuration.
        weight: Option<u32>,
    },
    /// Whether a policy with `maintenance` lets nobody pass.
    Maintenance {
        /// Its name; none if there is one.
        policy: Option<String>,
        /// Whether it does.
        on: bool,
    },
    /// Another log level for a while.
    LogLevel {
        /// The level.
        level: String,
        /// How long.
        lasts: Duration,
    },
}

/// Why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// What it is about is not there.
    Unknown(String),
    /// What is asked for cannot be.
    Invalid(String),
    /// It cannot be at the moment.
    Busy(String),
}

/// A role that has an API.
pub trait Operable: Send + Sync {
    /// What is so.
    fn view(&self, view: View) -> Value;

    /// Totals at this moment.
    fn totals(&self) -> Snapshot;

    /// Changes something; gives what is so now.
    ///
    /// # Errors
    /// Nothing was changed; says why.
    fn change(&self, change: &Change) -> Result<Value, Rejection>;
}

/// Longest body of a request, bytes.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// Longest name in a request, bytes.
const MAX_NAME_BYTES: usize = 1024;

/// The largest weight, as in a configuration.
const MAX_WEIGHT: u64 = 1_000;

/// How long a log level lasts where nobody says, and at most, seconds.
const LEVEL_SECONDS: u64 = 300;
const MAX_LEVEL_SECONDS: u64 = 86_400;

/// What can be posted, by the last segment of its path.
pub const CHANGES: [&str; 4] = ["drain", "weight", "maintenance", "log-level"];

/// Reads the body of a request to change something.
///
/// # Errors
/// Says what is wrong with it.
pub fn read_change(name: &str, body: &[u8]) -> Result<Change, String> {
    let members = match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return Err("the body is not a JSON object".to_owned()),
        Err(error) => return Err(format!("the body is not JSON: {error}")),
    };
    let mut members = Members(members);
    let change = match name {
        "drain" => Change::Drain {
            server: members.name("server")?.ok_or("`server` is missing")?,
            upstream: members.name("upstream")?,
            drained: members.flag("drained")?,
        },
        "weight" => Change::Weight {
            server: members.name("server")?.ok_or("`server` is missing")?,
            upstream: members.name("upstream")?,
            weight: members.number("weight", 1..=MAX_WEIGHT)?.and_then(|weight| u32::try_from(weight).ok()),
        },
        "maintenance" => Change::Maintenance { policy: members.name("policy")?, on: members.flag("on")? },
        "log-level" => Change::LogLevel {
            level: members.name("level")?.ok_or("`level` is missing")?,
            lasts: Duration::from_secs(members.number("seconds", 1..=MAX_LEVEL_SECONDS)?.unwrap_or(LEVEL_SECONDS)),
        },
        _ => return Err("nothing of this name can be changed".to_owned()),
    };
    match members.0.keys().next() {
        Some(unknown) => Err(format!("`{}` is not known here", unknown.escape_debug())),
        None => Ok(change),
    }
}

/// Members of an object that were not read yet.
struct Members(Map<String, Value>);

impl Members {
    /// A text; none if it is missing or null.
    fn name(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if (1..=MAX_NAME_BYTES).contains(&text.len()) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` is not a text of 1 to {MAX_NAME_BYTES} bytes")),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool, String> {
        match self.0.remove(name) {
            Some(Value::Bool(flag)) => Ok(flag),
            None => Err(format!("`{name}` is missing")),
            Some(_) => Err(format!("`{name}` is neither true nor false")),
        }
    }

    /// A whole number; none if it is missing or null.
    fn number(&mut self, name: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|number| range.contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("`{name}` is not a number from {} to {}", range.start(), range.end())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(name: &str, body: &str, expected: Result<Change, &str>) {
        match (read_change(name, body.as_bytes()), expected) {
            (Ok(change), Ok(expected)) => assert_eq!(change, expected, "{name} {body}"),
            (Err(problem), Err(expected)) => assert!(problem.contains(expected), "{name} {body}: {problem}"),
            (got, expected) => panic!("{name} {body}: {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn changes_are_read_strictly() {
        let server = || "10.0.0.1:80".to_owned();
        let drain = |upstream: Option<&str>, drained| {
            Ok(Change::Drain { server: server(), upstream: upstream.map(str::to_owned), drained })
        };
        let weight = |weight| Ok(Change::Weight { server: server(), upstream: None, weight });
        let level = |seconds| Ok(Change::LogLevel { level: "debug".to_owned(), lasts: Duration::from_secs(seconds) });
        check("drain", r#"{"server":"10.0.0.1:80","drained":true}"#, drain(None, true));
        check("drain", r#"{"server":"10.0.0.1:80","upstream":"app","drained":false}"#, drain(Some("app"), false));
        check("drain", r#"{"server":"10.0.0.1:80"}"#, Err("`drained` is missing"));
        check("drain", r#"{"drained":true}"#, Err("`server` is missing"));
        check("drain", r#"{"server":"","drained":true}"#, Err("1 to 1024 bytes"));
        check("drain", &format!(r#"{{"server":"{}","drained":true}}"#, "a".repeat(1025)), Err("1 to 1024 bytes"));
        check("drain", r#"{"server":["x"],"drained":true}"#, Err("1 to 1024 bytes"));
        check("drain", r#"{"server":"x","drained":"yes"}"#, Err("neither true nor false"));
        check("drain", r#"{"server":"x","drained":true,"by\n":1}"#, Err(r"`by\n` is not known"));
        check("weight", r#"{"server":"10.0.0.1:80","weight":7}"#, weight(Some(7)));
        check("weight", r#"{"server":"10.0.0.1:80","weight":null}"#, weight(None));
        check("weight", r#"{"server":"10.0.0.1:80","weight":0}"#, Err("1 to 1000"));
        check("weight", r#"{"server":"10.0.0.1:80","weight":1001}"#, Err("1 to 1000"));
        check("weight", r#"{"server":"10.0.0.1:80","weight":1.5}"#, Err("1 to 1000"));
        check("maintenance", r#"{"on":true}"#, Ok(Change::Maintenance { policy: None, on: true }));
        check("log-level", r#"{"level":"debug"}"#, level(300));
        check("log-level", r#"{"level":"debug","seconds":60}"#, level(60));
        check("log-level", r#"{"level":"debug","seconds":86401}"#, Err("1 to 86400"));
        check("log-level", "[]", Err("not a JSON object"));
        check("log-level", "", Err("not JSON"));
        check("log-level", &"[".repeat(10_000), Err("not JSON"));
        check("restart", "{}", Err("nothing of this name"));
    }

    /// Whatever comes is a change within its bounds, or an error.
    #[test]
    fn no_bytes_are_too_much() {
        let starts = [
            r#"{"server":"10.0.0.1:80","upstream":"app","drained":true}"#,
            r#"{"server":"10.0.0.1:80","weight":7}"#,
            r#"{"policy":"p","on":false}"#,
            r#"{"level":"debug","seconds":60}"#,
        ];
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..20_000 {
            let (start, name) = (starts[round % starts.len()], CHANGES[round / 4 % CHANGES.len()]);
            let mut bytes = start.as_bytes().to_vec();
            for _ in 0..random.usize(..4) {
                let at = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at + 1),
                    _ => bytes.insert(at, *random.choice(br#"{}[]",:0e-\"#).unwrap()),
                }
            }
            match read_change(name, &bytes) {
                Ok(Change::Drain { server, .. }) => assert!((1..=MAX_NAME_BYTES).contains(&server.len())),
                Ok(Change::Weight { weight, .. }) => assert!(weight.is_none_or(|weight| (1..=1_000).contains(&weight))),
                Ok(Change::LogLevel { lasts, .. }) => assert!((1..=86_400).contains(&lasts.as_secs())),
                Ok(Change::Maintenance { .. }) => {}
                Err(problem) => assert!(!problem.is_empty() && !problem.contains('\u{1b}'), "{problem:?}"),
            }
        }
    }
}
