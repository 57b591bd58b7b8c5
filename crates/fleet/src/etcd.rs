//! A client of etcd, version 3.4 and later, by its JSON gateway (`/v3/kv/range` and so on): values, transactions, leases, watches.
//!
//! Several endpoints are tried in turn; every call and every response is bounded. Reads are linearizable: each is as new as what was written before it, or
//! it fails. What a member says is looked at like what any stranger says (`etcd/gateway.rs`). Knows nothing of what is kept there.

pub mod gateway;

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use config::EtcdEndpoint;
use keystore::trust;
use serde_json::{Value, json};
use tls::{Connector, ProtocolVersion};

use crate::link::{Body, Link, Patience};
use gateway::{Page, StreamLine};

/// How long one call at one endpoint may take, connecting included.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest response, bytes. A value has 1.5 MB at most by etcd's own bound on requests, and base64 makes four bytes of three.
const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// Keys that are asked for at once, with their values or without.
const PAGE_VALUES: usize = 100;
const PAGE_KEYS: usize = 10_000;

/// Most keys below one prefix.
const MAX_KEYS: usize = 200_000;

/// gRPC's code of a member that cannot at the moment: no leader, or it is starting.
const UNAVAILABLE: i64 = 14;

/// Where etcd is, and who we are to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Members, asked in turn. At least one.
    pub endpoints: Vec<EtcdEndpoint>,
    /// PEM file of the authorities that the members' certificates are verified with; those of the system if none.
    pub ca: Option<PathBuf>,
    /// PEM files of the certificate that we show, and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// No endpoint can be reached, or none can serve: what each said.
    Unreachable(String),
    /// etcd rejected the call: gRPC's code, and its words.
    Rejected(i64, String),
    /// What came is not what etcd says.
    Invalid(String),
    /// What a watch was to begin with is not kept any more; the oldest revision that is.
    Compacted(i64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreachable(what) => write!(f, "etcd cannot be reached: {what}"),
            Error::Rejected(code, message) => write!(f, "etcd rejected it: {message} (code {code})"),
            Error::Invalid(what) => write!(f, "this is no response of etcd: {what}"),
            Error::Compacted(revision) => write!(f, "etcd keeps nothing before revision {revision}"),
        }
    }
}

impl std::error::Error for Error {}

/// A key with its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// The key; bytes that are no UTF-8 are replaced.
    pub key: String,
    /// The value; empty where keys alone were asked for.
    pub value: Vec<u8>,
    /// The revision that made the key.
    pub created: i64,
    /// The revision that changed it last.
    pub changed: i64,
    /// The lease that it ends with; 0 if with none.
    pub lease: i64,
}

/// A change that a watch has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key, with its new value.
    pub entry: KeyValue,
    /// It is there no more.
    pub is_deletion: bool,
}

/// What is written in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write<'a> {
    /// A value, which ends with a lease unless that is 0.
    Put(&'a str, &'a [u8], i64),
    /// A key is removed.
    Delete(&'a str),
}

/// A connection to one of the members, made when it is needed.
pub struct Client {
    settings: Settings,
    stop: Arc<AtomicBool>,
    /// Which endpoint is asked first.
    at: usize,
    link: Option<Link>,
    revision: i64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.settings.endpoints).finish()
    }
}

impl Client {
    /// Connects to nobody yet. `stop` ends every call within a moment once it is set.
    pub fn new(settings: Settings, stop: Arc<AtomicBool>) -> Client {
        // So that the nodes of a fleet do not all ask the same member.
        let at = fastrand::usize(..settings.endpoints.len().max(1));
        Client { settings, stop, at, link: None, revision: 0 }
    }

    /// Where it connects to.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The revision of the store, as the last response said it; 0 before the first.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// A value, if the key is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn get(&mut self, key: &str) -> Result<Option<KeyValue>, Error> {
        let page = self.range(json!({ "key": encoded(key.as_bytes()) }))?;
        Ok(page.entries.into_iter().find(|entry| entry.key == key))
    }

    /// All below a prefix, in the order of their keys; `keys_only`: without the values.
    ///
    /// # Errors
    /// See [`Error`]; there are more than 200,000.
    pub fn list(&mut self, prefix: &str, keys_only: bool) -> Result<Vec<KeyValue>, Error> {
        let from = if prefix.is_empty() { vec![0] } else { prefix.as_bytes().to_vec() };
        Ok(self.list_range(from, &end_of(prefix), keys_only)?.0)
    }

    /// All below a prefix with their values, and a revision: what changes after it may or may not be among them.
    ///
    /// # Errors
    /// As [`Client::list`].
    pub fn list_since(&mut self, prefix: &str) -> Result<(Vec<KeyValue>, i64), Error> {
        self.list_range(prefix.as_bytes().to_vec(), &end_of(prefix), false)
    }

    /// As [`Client::list`], from one key up to another one, the latter included.
    ///
    /// # Errors
    /// As there.
    pub fn list_between(&mut self, first: &str, last: &str) -> Result<Vec<KeyValue>, Error> {
        Ok(self.list_range(first.as_bytes().to_vec(), &behind(last), false)?.0)
    }

    /// The entries, and the revision of the first page: later pages may be of later ones.
    fn list_range(&mut self, mut from: Vec<u8>, end: &[u8], keys_only: bool) -> Result<(Vec<KeyValue>, i64), Error> {
        let limit = if keys_only { PAGE_KEYS } else { PAGE_VALUES };
        let (mut entries, mut revision): (Vec<KeyValue>, i64) = (Vec::new(), 0);
        loop {
            let asked = json!({
                "key": encoded(&from), "range_end": encoded(end), "limit": limit.to_string(), "keys_only": keys_only,
            });
            let page = self.range(asked)?;
            if revision == 0 {
                revision = self.revision;
            }
            let is_last = !page.more || page.entries.is_empty();
            entries.extend(page.entries);
            if is_last {
                return Ok((entries, revision));
            }
            if entries.len() > MAX_KEYS {
                return Err(Error::Invalid(format!("there are more than {MAX_KEYS} keys in a part of it")));
            }
            // Behind the last one: the same key and a zero byte.
            from = page.last_key;
            from.push(0);
        }
    }

    /// Writes a value, which ends with a lease unless that is 0.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn put(&mut self, key: &str, value: &[u8], lease: i64) -> Result<(), Error> {
        let asked = json!({ "key": encoded(key.as_bytes()), "value": encoded(value), "lease": lease.to_string() });
        self.call("/v3/kv/put", &asked, true).map(drop)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete(&mut self, key: &str) -> Result<(), Error> {
        self.call("/v3/kv/deleterange", &json!({ "key": encoded(key.as_bytes()) }), true).map(drop)
    }

    /// Writes all of it, if each of these keys was last changed by this revision (0: it is not there); whether it did.
    ///
    /// # Errors
    /// See [`Error`]. After [`Error::Unreachable`] it may have been done or not.
    pub fn write_if(&mut self, unchanged: &[(&str, i64)], writes: &[Write<'_>]) -> Result<bool, Error> {
        let compare = |(key, revision): &(&str, i64)| json!({ "key": encoded(key.as_bytes()), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() });
        let write = |write: &Write<'_>| match write {
            Write::Put(key, value, lease) => json!({ "request_put": {
                "key": encoded(key.as_bytes()), "value": encoded(value), "lease": lease.to_string(),
            } }),
            Write::Delete(key) => json!({ "request_delete_range": { "key": encoded(key.as_bytes()) } }),
        };
        let asked = json!({
            "compare": unchanged.iter().map(compare).collect::<Value>(),
            "success": writes.iter().map(write).collect::<Value>(),
        });
        let response = self.call("/v3/kv/txn", &asked, false)?;
        Ok(gateway::flag(&response, "succeeded"))
    }

    /// A lease: what is written under it is gone this long after it was last kept alive.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn grant(&mut self, seconds: u64) -> Result<i64, Error> {
        let response = self.call("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }), true)?;
        match gateway::number(&response, "ID").map_err(Error::Invalid)? {
            0 => Err(Error::Invalid("a lease without a number".to_owned())),
            lease => Ok(lease),
        }
    }

    /// Keeps a lease; false if there is no such lease any more.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn keep_alive(&mut self, lease: i64) -> Result<bool, Error> {
        let response = self.call("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }), true)?;
        let result = response.get("result").unwrap_or(&Value::Null);
        Ok(gateway::number(result, "TTL").map_err(Error::Invalid)? > 0)
    }

    /// Ends a lease, and what was written under it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn revoke(&mut self, lease: i64) -> Result<(), Error> {
        self.call("/v3/lease/revoke", &json!({ "ID": lease.to_string() }), true).map(drop)
    }

    /// Watches all below a prefix, beginning with what the revision `from` changes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn watch(&mut self, prefix: &str, from: i64) -> Result<Watch, Error> {
        self.watch_range(prefix, &end_of(prefix), from)
    }

    /// As [`Client::watch`], from one key up to another one, the latter included.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn watch_between(&mut self, first: &str, last: &str, from: i64) -> Result<Watch, Error> {
        self.watch_range(first, &behind(last), from)
    }

    fn watch_range(&mut self, first: &str, end: &[u8], from: i64) -> Result<Watch, Error> {
        let asked = json!({ "create_request": {
            "key": encoded(first.as_bytes()), "range_end": encoded(end), "start_revision": from.to_string(),
        } });
        let mut failures = Vec::new();
        for turn in 0..self.settings.endpoints.len() {
            let begun = self.open(turn).and_then(|mut link| {
                let patience = self.patience();
                link.post("/v3/watch", &asked.to_string(), patience)?;
                let (head, body) = link.head(patience)?;
                Ok((link, head.status, body))
            });
            match begun {
                Ok((link, 200, body)) => {
                    return Ok(Watch { link, body, input: Vec::new(), stop: Arc::clone(&self.stop) });
                }
                Ok((_, status, _)) => failures.push(format!("{}: status {status}", self.named(turn))),
                Err(error) => failures.push(format!("{}: {error}", self.named(turn))),
            }
        }
        Err(Error::Unreachable(failures.join("; ")))
    }

    fn range(&mut self, asked: Value) -> Result<Page, Error> {
        let response = self.call("/v3/kv/range", &asked, true)?;
        Page::read(&response).map_err(Error::Invalid)
    }

    fn patience(&self) -> Patience<'_> {
        Patience { until: Instant::now() + CALL_TIMEOUT, stop: &self.stop }
    }

    fn named(&self, turn: usize) -> String {
        self.endpoint(turn).map(ToString::to_string).unwrap_or_default()
    }

    /// The endpoint whose turn it is.
    fn endpoint(&self, turn: usize) -> Option<&EtcdEndpoint> {
        let endpoints = &self.settings.endpoints;
        endpoints.get((self.at + turn) % endpoints.len().max(1))
    }

    /// Connects to the endpoint whose turn it is. Certificates are read anew, since they may have been renewed.
    fn open(&self, turn: usize) -> io::Result<Link> {
        let place = self.endpoint(turn).ok_or(ErrorKind::NotFound)?;
        let connector = place.is_tls.then(|| self.connector()).transpose().map_err(io::Error::other)?;
        Link::open(place, connector.as_ref(), self.patience())
    }

    fn connector(&self) -> Result<Connector, String> {
        let roots = trust::certificates(self.settings.ca.as_deref().unwrap_or(Path::new(trust::SYSTEM_ROOTS)))?;
        let identity = self.settings.identity.as_ref().map(|(chain, key)| trust::pair(chain, key)).transpose()?;
        Connector::new(&roots, true, identity, &[b"http/1.1".to_vec()], ProtocolVersion::Tls12)
            .map_err(|error| error.to_string())
    }

    /// Calls a member: the one that is connected, else the endpoints in turn. What must not be done twice is not sent again once it may have arrived.
    fn call(&mut self, path: &str, asked: &Value, is_repeatable: bool) -> Result<Value, Error> {
        let asked = asked.to_string();
        let mut failures = Vec::new();
        if let Some(link) = self.link.take() {
            match self.exchange(link, path, &asked) {
                Ok(done) => match self.outcome(done) {
                    Err(Error::Unreachable(failure)) => failures.push(failure),
                    done => return done,
                },
                // It may have been closed meanwhile, which says nothing about the member.
                Err(_) if is_repeatable => {}
                Err(error) => return Err(Error::Unreachable(error.to_string())),
            }
        }
        for turn in 0..self.settings.endpoints.len() {
            let link = match self.open(turn) {
                Ok(link) => link,
                Err(error) => {
                    failures.push(format!("{}: {error}", self.named(turn)));
                    continue;
                }
            };
            let done = match self.exchange(link, path, &asked) {
                Ok(done) => self.outcome(done),
                Err(error) => Err(Error::Unreachable(format!("{}: {error}", self.named(turn)))),
            };
            match done {
                Err(Error::Unreachable(failure)) if is_repeatable => failures.push(failure),
                done => {
                    self.at += turn;
                    return done;
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Err(Error::Unreachable(failures.join("; ")))
    }

    /// Sends a call over a connection, which is kept if another one can follow; status and body.
    fn exchange(&mut self, mut link: Link, path: &str, asked: &str) -> io::Result<(u16, Vec<u8>)> {
        let stop = Arc::clone(&self.stop);
        let patience = Patience { until: Instant::now() + CALL_TIMEOUT, stop: &stop };
        link.post(path, asked, patience)?;
        let (head, mut body) = link.head(patience)?;
        let mut bytes = Vec::new();
        while link.piece(&mut body, &mut bytes, patience)? {
            if bytes.len() > MAX_RESPONSE_BYTES {
                return Err(io::Error::new(ErrorKind::InvalidData, "the response is too large"));
            }
        }
        if link.is_free(&head) {
            self.link = Some(link);
        }
        Ok((head.status, bytes))
    }

    fn outcome(&mut self, (status, bytes): (u16, Vec<u8>)) -> Result<Value, Error> {
        let value = gateway::document(&bytes).map_err(Error::Invalid)?;
        if status != 200 {
            let (code, message) = gateway::problem(&value);
            self.link = None;
            return Err(match code {
                UNAVAILABLE => Error::Unreachable(message),
                _ => Error::Rejected(code, message),
            });
        }
        // Some responses have a header without it.
        if let Some(revision) = gateway::revision(&value).map_err(Error::Invalid)?.filter(|revision| *revision > 0) {
            self.revision = revision;
        }
        Ok(value)
    }
}

/// What changes below a prefix, as it happens.
#[derive(Debug)]
pub struct Watch {
    link: Link,
    body: Body,
    input: Vec<u8>,
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// The changes that come next, and the revision that they lead to; none if none came within `idle`.
    ///
    /// # Errors
    /// See [`Error`]; the watch has ended then.
    pub fn next(&mut self, idle: Duration) -> Result<Option<(i64, Vec<Event>)>, Error> {
        let stop = Arc::clone(&self.stop);
        let patience = Patience { until: Instant::now() + idle, stop: &stop };
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                match gateway::stream_line(&line).map_err(Error::Invalid)? {
                    StreamLine::Progress => continue,
                    StreamLine::Events(revision, events) => return Ok(Some((revision, events))),
                    StreamLine::Compacted(revision) => return Err(Error::Compacted(revision)),
                    StreamLine::Failed(code, message) => return Err(Error::Rejected(code, message)),
                }
            }
            if self.input.len() > MAX_RESPONSE_BYTES {
                return Err(Error::Invalid("the response is too large".to_owned()));
            }
            match self.link.piece(&mut self.body, &mut self.input, patience) {
                Ok(true) => {}
                Ok(false) => return Err(Error::Unreachable("the watch was ended".to_owned())),
                Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(Error::Unreachable(error.to_string())),
            }
        }
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The first key behind another one.
fn behind(key: &str) -> Vec<u8> {
    [key.as_bytes(), &[0]].concat()
}

/// The first key that is not below a prefix.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    // To etcd, all there is.
    vec![0]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        assert_eq!(end_of("/a/"), b"/a0");
        assert_eq!(end_of(""), [0]);
    }
}
