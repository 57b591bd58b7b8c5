//! Users and their passwords, from files as `htpasswd -B` writes them, and what a worker knows of credentials that were shown.
//!
//! A password is compared in another thread (`hashing`). What is right is remembered for some minutes under a keyed hash of user, password and stored
//! hash, so a changed file is never believed too late; what is wrong for some seconds, apart, so strangers displace nobody. Credentials that are being
//! compared are compared once, whoever waits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bcrypt::HashParts;
use net::Deadline;
use reason::Reason;
use tls::crypto::digest;
use tls::crypto::verify::keyed_hash;
use tokio::sync::{Notify, oneshot};

use super::base64url;
use super::hashing::{self, Busy};
use crate::client::read_list;

/// Largest work factor: each step doubles the time, and 2^15 is about two seconds.
const MAX_COST: u32 = 15;

/// Longest credentials, bytes.
const MAX_CREDENTIALS_BYTES: usize = 1024;

/// Credentials that each worker remembers, right and wrong ones apart.
const MAX_REMEMBERED: usize = 4096;

/// Time for which wrong ones are remembered.
const WRONG_TTL: Duration = Duration::from_secs(10);

/// Longest wait for a comparison: beyond what those that may wait take, unless their hashes are of the highest costs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Problems of one file that are reported.
const MAX_PROBLEMS: usize = 10;

/// Users and the hashes of their passwords.
#[derive(Debug)]
pub struct Passwords {
    users: HashMap<Box<str>, Arc<str>>,
    /// What the password of a user is compared with who does not exist, so that both take the same time.
    decoy: Option<Arc<str>>,
    cache_ttl: Duration,
    identity: Arc<Identity>,
}

/// What credentials are remembered under.
struct Identity {
    key: [u8; 32],
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(…)")
    }
}

impl Passwords {
    /// Reads a file. What workers know of unchanged users stays known.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong in which line; or there is no entropy.
    pub fn load(file: &Path, cache_ttl: Duration, previous: Option<&Passwords>) -> Result<Passwords, Vec<String>> {
        let text = read_list(file).map_err(|problem| vec![problem])?;
        let users = parse(&text).map_err(|found| {
            found.into_iter().map(|problem| format!("{}:{problem}", file.display())).collect::<Vec<_>>()
        })?;
        let identity = match previous {
            Some(previous) => Arc::clone(&previous.identity),
            None => Arc::new(Identity { key: digest::random::<32>().map_err(|error| vec![error.to_string()])? }),
        };
        hashing::start();
        // The slowest of all: whoever is rejected faster does not exist.
        let decoy = users.values().max_by_key(|hash| cost(hash)).cloned();
        Ok(Passwords { users, decoy, cache_ttl, identity })
    }

    /// Whether these credentials are right. `client`: who is counted among those that wait. `waited` is told of the time that a comparison took, its wait
    /// for a thread included, and what came of it.
    ///
    /// # Errors
    /// They are wrong, or nobody could say in time.
    pub async fn verify(
        self: &Arc<Self>,
        credentials: &Credentials,
        client: u128,
        waited: impl FnOnce(Duration, Result<(), Reason>),
    ) -> Result<(), Reason> {
        let found = self.users.get(credentials.user.as_str());
        let Some(hash) = found.or(self.decoy.as_ref()) else { return Err(Reason::PasswordWrong) };
        let key = self.key(credentials, hash, found.is_some());
        let known = Known::of(&self.identity);
        if let Some(is_right) = known.recall(&key) {
            return outcome(is_right);
        }
        let began = Instant::now();
        let running = known.flights.borrow().get(&key).cloned();
        let flight = match running {
            Some(flight) => Ok(flight),
            None => hashing::compare(credentials.password.as_bytes(), hash, client)
                .map(|result| known.take_off(key, result, self.cache_ttl, found.is_some())),
        };
        let is_right = match flight {
            Ok(flight) => Deadline::new().within(PATIENCE, flight.wait()).await.ok().flatten(),
            Err(Busy) => None,
        };
        let result = is_right.map_or(Err(Reason::PasswordCheckBusy), outcome);
        waited(began.elapsed(), result);
        result
    }

    /// `exists`: the hash is the user's own.
    fn key(&self, credentials: &Credentials, hash: &str, exists: bool) -> Key {
        let mut text = Vec::with_capacity(credentials.user.len() + credentials.password.len() + hash.len() + 32);
        text.push(u8::from(exists));
        for part in [credentials.user.as_str(), credentials.password.as_str(), hash] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        keyed_hash(&self.identity.key, &text)
    }
}

fn outcome(is_right: bool) -> Result<(), Reason> {
    if is_right { Ok(()) } else { Err(Reason::PasswordWrong) }
}

/// User and password as a client shows them.
#[derive(Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    password: String,
}

impl Credentials {
    /// Those of the value of an Authorization field of the scheme Basic (RFC 7617 §2); none if they are not written as they must be.
    pub fn read(authorization: &[u8]) -> Option<Credentials> {
        let (scheme, text) = authorization.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") || text.len() > MAX_CREDENTIALS_BYTES {
            return None;
        }
        let text = text.trim_ascii();
        let bare = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
        let is_whole = text.len().is_multiple_of(4);
        let is_standard = !bare.iter().any(|byte| matches!(byte, b'-' | b'_'));
        let translated: Vec<u8> = bare
            .iter()
            .map(|byte| match byte {
                b'+' => b'-',
                b'/' => b'_',
                other => *other,
            })
            .collect();
        let decoded = base64url::decode(&translated).filter(|_| is_whole && is_standard)?;
        let pair = String::from_utf8(decoded).ok()?;
        // Controls have no place here, and readers would end at a NUL.
        if pair.chars().any(char::is_control) {
            return None;
        }
        let (user, password) = pair.split_once(':')?;
        Some(Credentials { user: user.to_owned(), password: password.to_owned() })
    }
}

/// Reads a file of users: `NAME:HASH` in each line.
fn parse(text: &str) -> Result<HashMap<Box<str>, Arc<str>>, Vec<String>> {
    let (mut users, mut problems) = (HashMap::new(), Vec::new());
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let read =
            line.split_once(':').ok_or_else(|| "this is not `NAME:HASH`".to_owned()).and_then(
                |(user, hash)| match check(hash) {
                    _ if user.is_empty() || user.chars().any(char::is_control) => {
                        Err("there is no user name".to_owned())
                    }
                    Err(what) => Err(format!("the password of `{user}` {what}")),
                    Ok(()) => match users.insert(Box::from(user), Arc::from(hash)) {
                        None => Ok(()),
                        Some(_) => Err(format!("`{user}` is there twice")),
                    },
                },
            );
        if let Err(problem) = read
            && problems.len() < MAX_PROBLEMS
        {
            problems.push(format!("{number}: {problem}"));
        }
    }
    if problems.is_empty() { Ok(users) } else { Err(problems) }
}

/// Whether a hash is one that resists guessing; else what it is, and what to do.
fn check(hash: &str) -> Result<(), String> {
    const FIX: &str = "write it anew with `htpasswd -B`";
    let what = match hash {
        _ if hash.starts_with("$2x$") => "is a bcrypt hash of a broken version",
        _ if hash.starts_with("$2") => match HashParts::from_str(hash) {
            Ok(parts) if parts.get_cost() > MAX_COST => {
                return Err(format!("has a cost above {MAX_COST}, which takes seconds; {FIX}"));
            }
            Ok(parts) if parts.get_cost() >= 4 => return Ok(()),
            _ => "is no whole bcrypt hash",
        },
        _ if hash.starts_with("$apr1$") || hash.starts_with("$1$") => "is hashed with MD5",
        _ if hash.starts_with("{SHA}") || hash.starts_with("{SSHA}") => "is hashed with SHA-1",
        _ if hash.starts_with("$5$") || hash.starts_with("$6$") => "is hashed with SHA-crypt, which is not supported",
        _ => "is in plain text, or hashed with DES",
    };
    Err(format!("{what}; {FIX}"))
}

fn cost(hash: &str) -> u32 {
    HashParts::from_str(hash).map_or(0, |parts| parts.get_cost())
}

/// A hash of credentials.
type Key = [u8; 32];

thread_local! {
    /// What this worker knows, of each file in use.
    static KNOWN: RefCell<Vec<(Weak<Identity>, Rc<Known>)>> = const { RefCell::new(Vec::new()) };
}

/// What a worker knows of the credentials of one file.
#[derive(Default)]
struct Known {
    right: RefCell<Kept>,
    wrong: RefCell<Kept>,
    flights: RefCell<HashMap<Key, Rc<Flight>>>,
}

/// Until when something is known, in two halves: when the young half is full, the old one is dropped, and what was in use meanwhile has moved.
#[derive(Default)]
struct Kept {
    young: HashMap<Key, Instant>,
    old: HashMap<Key, Instant>,
}

/// A comparison on its way.
#[derive(Default)]
struct Flight {
    outcome: RefCell<Option<Option<bool>>>,
    done: Notify,
}

impl Known {
    fn of(identity: &Arc<Identity>) -> Rc<Known> {
        KNOWN.with_borrow_mut(|all| {
            if let Some((_, known)) = all.iter().find(|(weak, _)| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(identity))) {
                return Rc::clone(known);
            }
            all.retain(|(weak, _)| weak.strong_count() > 0);
            let known = Rc::new(Known::default());
            all.push((Arc::downgrade(identity), Rc::clone(&known)));
            known
        })
    }

    fn recall(&self, key: &Key) -> Option<bool> {
        let now = Instant::now();
        let is_right = self.right.borrow_mut().holds(key, now).then_some(true);
        is_right.or_else(|| self.wrong.borrow_mut().holds(key, now).then_some(false))
    }

    /// Notes that credentials are being compared, and what comes of that. `exists`: the user does.
    fn take_off(self: &Rc<Self>, key: Key, result: oneshot::Receiver<bool>, ttl: Duration, exists: bool) -> Rc<Flight> {
        let flight = Rc::new(Flight::default());
        self.flights.borrow_mut().insert(key, Rc::clone(&flight));
        let (known, landing) = (Rc::clone(self), Rc::clone(&flight));
        tokio::task::spawn_local(async move {
            // Dropped without a word only where the threads are gone.
            let is_right = result.await.map(|is_right| is_right && exists).ok();
            known.land(key, is_right, ttl, &landing);
        });
        flight
    }

    fn land(&self, key: Key, is_right: Option<bool>, ttl: Duration, flight: &Flight) {
        let now = Instant::now();
        match is_right {
            Some(true) if !ttl.is_zero() => self.right.borrow_mut().put(key, now + ttl),
            Some(false) => self.wrong.borrow_mut().put(key, now + WRONG_TTL),
            _ => {}
        }
        self.flights.borrow_mut().remove(&key);
        flight.outcome.replace(Some(is_right));
        flight.done.notify_waiters();
    }
}

impl Kept {
    fn holds(&mut self, key: &Key, now: Instant) -> bool {
        if let Some(end) = self.young.get(key) {
            return now < *end;
        }
        let Some(end) = self.old.remove(key).filter(|end| now < *end) else { return false };
        self.put(*key, end);
        true
    }

    fn put(&mut self, key: Key, end: Instant) {
        if self.young.len() >= MAX_REMEMBERED / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, end);
    }
}

impl Flight {
    async fn wait(&self) -> Option<bool> {
        loop {
            let done = self.done.notified();
            if let Some(outcome) = *self.outcome.borrow() {
                return outcome;
            }
            done.await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// `htpasswd -nbBC 4 ada secret`.
    const ADA: &str = "$2y$04$GZkgEQKLPLYVQ3Jc7hcCsOYVfEmcYAEjCQ9qxSk2K5JqHpZpRrZ6q";

    #[test]
    fn weak_hashes_are_named_with_their_line() {
        for (line, what) in [
            (format!("ada:{ADA}"), ""),
            (format!("# people\r\n\r\nada:{ADA}\r\n"), ""),
            (
                "ada:$apr1$a$b".to_owned(),
                "1: the password of `ada` is hashed with MD5; write it anew with `htpasswd -B`",
            ),
            ("ada:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=".to_owned(), "SHA-1"),
            ("ada:$6$a$b".to_owned(), "SHA-crypt"),
            ("ada:secret".to_owned(), "plain text"),
            ("ada:".to_owned(), "plain text"),
            (format!("ada:{}", ADA.replace("$04$", "$16$")), "above 15"),
            (format!("ada:{}", ADA.replace("$04$", "$03$")), "no whole bcrypt"),
            (format!("ada:{}", ADA.replace("$2y$", "$2x$")), "broken version"),
            (format!("ada:{}x", ADA), "no whole bcrypt"),
            (format!("ada:{ADA}\nada:{ADA}"), "2: `ada` is there twice"),
            (format!(":{ADA}"), "no user name"),
            ("ada".to_owned(), "1: this is not `NAME:HASH`"),
        ] {
            match parse(&line) {
                Ok(users) => assert!(what.is_empty() && users.len() == 1, "{line}"),
                Err(problems) => assert!(!what.is_empty() && problems[0].contains(what), "{line}: {problems:?}"),
            }
        }
        assert!(parse("").unwrap().is_empty(), "nobody");
    }

    #[test]
    fn credentials_are_read_strictly() {
        let read = |value: &str| Credentials::read(value.as_bytes()).map(|read| (read.user, read.password));
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        for (value, expected) in [
            ("Basic YWRhOnNlY3JldA==", pair("ada", "secret")),
            ("bAsIc  YWRhOnNlY3JldA==", pair("ada", "secret")),
            ("Basic YTo6Og==", pair("a", "::")),
            ("Basic Ojpv", pair("", ":o")),
            ("Basic YWRhOnNlY3JldA", None),
            ("Basic YWRhOnNlY3JldA=", None),
            ("Basic YWRhOnNlY3JldB==", None),
            ("Basic YWRh", None),
            ("Basic YQA6cA==", None),
            ("Basic YTpwDQo=", None),
            ("Basic /zpw", None),
            ("Basic", None),
            ("Basic ", None),
            ("Bearer YWRhOnNlY3JldA==", None),
            ("BasicYWRhOnNlY3JldA==", None),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
        assert!(read(&format!("Basic {}", "A".repeat(2000))).is_none());
    }

    #[test]
    fn memory_is_bounded_and_what_is_in_use_stays() {
        let (mut kept, end) = (Kept::default(), Instant::now() + Duration::from_secs(3600));
        let key = |number: u32| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            key
        };
        for number in 0..20_000 {
            kept.put(key(number), end);
            assert!(kept.holds(&key(0), Instant::now()), "{number}");
            assert!(kept.young.len() + kept.old.len() <= MAX_REMEMBERED);
        }
        assert!(!kept.holds(&key(5), Instant::now()) && !kept.holds(&key(19_999), end));
    }
}
