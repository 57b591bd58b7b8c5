//! What this worker was told of tokens, and what it is asking: each token once, whoever waits, in bounded memory. How to ask is the caller's.
//!
//! A lookup is a task of its own: that the client goes away who was the first to show a token ends it for nobody else. Who waits does so for no longer
//! than a lookup of its own would take.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use net::Deadline;
use reason::Reason;
use telemetry::OncePerSecond;
use tokio::sync::Notify;

use super::introspection::{Granted, Identity, Introspection};
use super::token::{Rejected, rejected};

/// Lookups of one worker that run or wait for their turn.
const MAX_LOOKUPS: usize = 1024;

/// What a worker knows of a token.
type Outcome = Result<Rc<Granted>, Reason>;

/// A token's hash.
type Key = [u8; 32];

thread_local! {
    /// Those of each introspection server in use.
    static KNOWN: RefCell<Vec<(Weak<Identity>, Rc<Known>)>> = const { RefCell::new(Vec::new()) };
}

static FAILURES: OncePerSecond = OncePerSecond::new();

/// What one server said, and is asked.
#[derive(Default)]
struct Known {
    /// Tokens that are good and those that are not, apart: strangers cannot make us forget the good ones.
    good: RefCell<Kept>,
    bad: RefCell<Kept>,
    flights: RefCell<HashMap<Key, Rc<Flight>>>,
}

/// Outcomes in two halves: when the young half is full, the old one is dropped, and what was in use meanwhile has moved.
#[derive(Default)]
struct Kept {
    young: HashMap<Key, (Instant, Outcome)>,
    old: HashMap<Key, (Instant, Outcome)>,
}

/// A lookup on its way.
#[derive(Default)]
struct Flight {
    outcome: RefCell<Option<Outcome>>,
    done: Notify,
}

/// What a server says of a token, from memory or by asking. `ask` gives the body of the response; `waited` is told how long it was waited for, and what
/// came of it.
///
/// # Errors
/// Why the token is rejected, or why nobody can say.
pub async fn look_up<F>(
    rule: &Arc<Introspection>,
    token: &[u8],
    ask: impl FnOnce(Arc<Introspection>, Vec<u8>) -> F,
    waited: impl FnOnce(Duration, Result<(), Reason>),
) -> Result<Rc<Granted>, Rejected>
where
    F: Future<Output = Result<Vec<u8>, String>> + 'static,
{
    let flight = match recall(rule, token, ask)? {
        Recalled::Known(granted) => return Ok(granted),
        Recalled::Asked(flight) => flight,
    };
    let began = Instant::now();
    let outcome = Deadline::new().within(rule.config.timeout, flight.wait()).await;
    let outcome = outcome.unwrap_or(Err(Reason::IntrospectionTimeout));
    waited(began.elapsed(), outcome.as_ref().map(|_| ()).map_err(|reason| *reason));
    outcome.map_err(rejected)
}

/// As [`look_up`], for who does not wait: none as long as nothing is known. The server is asked all the same, for those who come later.
pub fn look_up_for_later<F>(
    rule: &Arc<Introspection>,
    token: &[u8],
    ask: impl FnOnce(Arc<Introspection>, Vec<u8>) -> F,
) -> Option<Result<Rc<Granted>, Rejected>>
where
    F: Future<Output = Result<Vec<u8>, String>> + 'static,
{
    match recall(rule, token, ask) {
        Ok(Recalled::Known(granted)) => Some(Ok(granted)),
        Ok(Recalled::Asked(_)) => None,
        Err(rejected) => Some(Err(rejected)),
    }
}

/// What is known of a token, or who is asking.
enum Recalled {
    Known(Rc<Granted>),
    Asked(Rc<Flight>),
}

fn recall<F>(
    rule: &Arc<Introspection>,
    token: &[u8],
    ask: impl FnOnce(Arc<Introspection>, Vec<u8>) -> F,
) -> Result<Recalled, Rejected>
where
    F: Future<Output = Result<Vec<u8>, String>> + 'static,
{
    let key = rule.hash(token)?;
    let known = Known::of(rule);
    if let Some(outcome) = known.get(&key, rule) {
        return outcome.map(Recalled::Known).map_err(rejected);
    }
    let running = known.flights.borrow().get(&key).cloned();
    match running {
        Some(flight) => Ok(Recalled::Asked(flight)),
        None if known.flights.borrow().len() >= MAX_LOOKUPS => Err(rejected(Reason::IntrospectionBusy)),
        None => Ok(Recalled::Asked(known.start(key, rule, ask(Arc::clone(rule), token.to_vec())))),
    }
}

impl Known {
    fn of(rule: &Introspection) -> Rc<Known> {
        KNOWN.with_borrow_mut(|all| {
            let is_it = |weak: &Weak<Identity>| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(rule.identity()));
            if let Some((_, known)) = all.iter().find(|(weak, _)| is_it(weak)) {
                return Rc::clone(known);
            }
            all.retain(|(weak, _)| weak.strong_count() > 0);
            let known = Rc::new(Known::default());
            all.push((Arc::downgrade(rule.identity()), Rc::clone(&known)));
            known
        })
    }

    fn get(&self, key: &Key, rule: &Introspection) -> Option<Outcome> {
        let (now, half) = (Instant::now(), half(rule));
        let good = self.good.borrow_mut().get(key, now, half);
        good.or_else(|| self.bad.borrow_mut().get(key, now, half))
    }

    fn start(
        self: &Rc<Known>,
        key: Key,
        rule: &Arc<Introspection>,
        ask: impl Future<Output = Result<Vec<u8>, String>> + 'static,
    ) -> Rc<Flight> {
        let flight = Rc::new(Flight::default());
        self.flights.borrow_mut().insert(key, Rc::clone(&flight));
        let landing = Landing { known: Rc::clone(self), key, flight: Rc::clone(&flight) };
        let rule = Arc::clone(rule);
        tokio::task::spawn_local(async move {
            let outcome = landing.fly(&rule, ask).await;
            landing.flight.outcome.replace(Some(outcome));
        });
        flight
    }
}

fn half(rule: &Introspection) -> usize {
    rule.config.max_cached_tokens / 2
}

impl Kept {
    fn get(&mut self, key: &Key, now: Instant, half: usize) -> Option<Outcome> {
        if let Some((end, outcome)) = self.young.get(key) {
            return (now < *end).then(|| outcome.clone());
        }
        let (end, outcome) = self.old.remove(key).filter(|(end, _)| now < *end)?;
        self.put(*key, end, outcome.clone(), half);
        Some(outcome)
    }

    fn put(&mut self, key: Key, end: Instant, outcome: Outcome, half: usize) {
        if self.young.len() >= half.max(1) && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, (end, outcome));
    }
}

impl Flight {
    async fn wait(&self) -> Outcome {
        loop {
            let done = self.done.notified();
            if let Some(outcome) = self.outcome.borrow().as_ref() {
                return outcome.clone();
            }
            done.await;
        }
    }
}

/// Ends a flight, however it ends.
struct Landing {
    known: Rc<Known>,
    key: Key,
    flight: Rc<Flight>,
}

impl Landing {
    /// Waits for a turn, asks, and keeps what is said. All within the time that anybody waits.
    async fn fly(&self, rule: &Introspection, ask: impl Future<Output = Result<Vec<u8>, String>>) -> Outcome {
        let (timeout, begun) = (rule.config.timeout, Instant::now());
        let Ok(Ok(_turn)) = Deadline::new().within(timeout, rule.slots.acquire()).await else {
            return Err(Reason::IntrospectionBusy);
        };
        let left = timeout.saturating_sub(begun.elapsed());
        let response = match Deadline::new().within(left, ask).await {
            Ok(response) => response,
            Err(_) => {
                warn(rule, "no whole response in time");
                return Err(Reason::IntrospectionTimeout);
            }
        };
        match response.and_then(|response| rule.read(&response, SystemTime::now())) {
            Ok(said) => {
                let outcome = said.outcome.map(Rc::new);
                if said.keep > Duration::ZERO && rule.config.max_cached_tokens > 0 {
                    let end = Instant::now() + said.keep;
                    let kept = if outcome.is_ok() { &self.known.good } else { &self.known.bad };
                    kept.borrow_mut().put(self.key, end, outcome.clone(), half(rule));
                }
                outcome
            }
            Err(problem) => {
                warn(rule, &problem);
                Err(Reason::IntrospectionFailed)
            }
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.flight.outcome.borrow_mut().get_or_insert(Err(Reason::IntrospectionFailed));
        self.known.flights.borrow_mut().remove(&self.key);
        self.flight.done.notify_waiters();
    }
}

fn warn(rule: &Introspection, problem: &str) {
    if let Some(suppressed) = FAILURES.allow() {
        tracing::warn!(upstream = rule.group.config.name, suppressed, "token not looked up: {problem}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_in_use_stays() {
        let mut kept = Kept::default();
        let end = Instant::now() + Duration::from_secs(3600);
        let key = |number: u32| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            key
        };
        for number in 0..1000 {
            kept.put(key(number), end, Err(Reason::TokenInactive), 10);
            assert!(kept.get(&key(0), Instant::now(), 10).is_some(), "{number}");
            assert!(kept.young.len() <= 10 && kept.old.len() <= 10);
        }
        assert!(kept.get(&key(500), Instant::now(), 10).is_none());
        assert!(kept.get(&key(999), Instant::now(), 10).is_some());
        assert!(kept.get(&key(999), end, 10).is_none(), "what has ended is not believed");
    }
}
