//! Names that clients ask for and no certificate is there for yet: handshakes wait here until whoever orders certificates has one, or refuses.
//!
//! One table per keystore, which each generation passes on to the next. Locked only by handshakes whose name has no certificate, and by whoever orders;
//! certificates that are there are looked up without a lock. Everything in it is bounded: what does not fit is refused.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use config::AcmeConfig;
use net::places::client_key;
use tls::Identity;
use tokio::sync::{Notify, oneshot};
use transport::NoCertificate;

use crate::pairs::Pairs;

/// Names that are waited for at once, in one keystore.
const MAX_NAMES: usize = 2048;

/// Handshakes that wait at once, in one keystore.
const MAX_WAITING: usize = 8192;

/// Names whose refusal is remembered, in one keystore.
const MAX_REFUSED: usize = 16_384;

/// Of so many places, orders or questions one client (an IPv4 address or an IPv6 /64) has three quarters at most; of fewer than four, all.
pub const fn share(most: usize) -> usize {
    most - most / 4
}

/// The table is full.
pub const FULL: NoCertificate = NoCertificate("too many handshakes wait for certificates");

/// One client has its share of the table.
pub const CLIENT_FULL: NoCertificate = NoCertificate("too many handshakes of this client wait for certificates");

/// The certificate did not come in time.
pub const TOO_LATE: NoCertificate = NoCertificate("the certificate did not come within `wait`");

/// Nobody orders any more.
pub const NOBODY: NoCertificate = NoCertificate("no certificate is ordered here any more");

/// What is demanded of one keystore.
#[derive(Debug)]
pub struct Demands {
    table: Mutex<Table>,
    /// Certificates that were ordered on demand, by name.
    held: ArcSwap<HashMap<Box<str>, Pairs>>,
    /// Wakes whoever orders, of all keystores.
    news: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    /// Those who wait, by name.
    waited_for: HashMap<Box<str>, Waited>,
    /// Names that are refused, until when and why.
    refused: HashMap<Box<str>, (Instant, NoCertificate)>,
    waiting: usize,
    /// How many of them are of one client, for those that are known.
    of_clients: HashMap<IpAddr, usize>,
    /// Clients whose names are refused, until when and why.
    refused_clients: HashMap<IpAddr, (Instant, NoCertificate)>,
}

#[derive(Debug, Default)]
struct Waited {
    /// The oldest first.
    waiters: Vec<Waiter>,
    /// Whose the order is while nobody waits: the client that asked first, of those who have not been refused.
    owner: Option<IpAddr>,
    /// Whoever orders has seen it.
    is_taken: bool,
}

#[derive(Debug)]
struct Waiter {
    /// An IPv4 address or an IPv6 /64, if it is known.
    client: Option<IpAddr>,
    outcome: oneshot::Sender<Result<(), NoCertificate>>,
}

/// One handshake that waits; leaves the table when it is dropped.
struct Waiting<'a> {
    demands: &'a Demands,
    client: Option<IpAddr>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut table = self.demands.table();
        table.waiting = table.waiting.saturating_sub(1);
        if let Some(client) = self.client
            && let Some(count) = table.of_clients.get_mut(&client)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                table.of_clients.remove(&client);
            }
        }
    }
}

impl Demands {
    /// An empty table, which wakes who waits for `news`.
    pub fn new(news: Arc<Notify>) -> Demands {
        Demands { table: Mutex::default(), held: ArcSwap::default(), news }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The certificates that were ordered for a name (lower case, A-labels).
    pub(crate) fn find(&self, name: &str) -> Option<Pairs> {
        self.held.load().get(name).cloned()
    }

    /// Whether there are any.
    pub fn has(&self, name: &str) -> bool {
        self.held.load().contains_key(name)
    }

    /// Waits for the certificate of a name, `limit` at most. `client`: whose handshake it is, if that is known.
    ///
    /// # Errors
    /// It is refused, did not come in time, or too many wait already, of this client or of all.
    pub async fn wait(&self, name: &str, client: Option<IpAddr>, limit: Duration) -> Result<(), NoCertificate> {
        let client = client.map(client_key);
        let (receiver, _waiting) = {
            let mut table = self.table();
            // It may have come since the handshake looked.
            if self.has(name) {
                return Ok(());
            }
            if let Some(why) = table.refusal(name, client, Instant::now()) {
                return Err(why);
            }
            if table.waiting >= MAX_WAITING {
                return Err(FULL);
            }
            if !table.waited_for.contains_key(name) && table.waited_for.len() >= MAX_NAMES {
                // Those that nobody waits for any more, and that nobody has seen, make room.
                table.waited_for.retain(|_, waited| waited.is_taken || waited.is_waited_for());
                if table.waited_for.len() >= MAX_NAMES {
                    return Err(FULL);
                }
            }
            table.check_share(name, client)?;
            let (outcome, receiver) = oneshot::channel();
            let waited =
                table.waited_for.entry(name.into()).or_insert_with(|| Waited { owner: client, ..Waited::default() });
            if waited.waiters.len() == waited.waiters.capacity() {
                waited.waiters.retain(Waiter::waits);
            }
            waited.waiters.push(Waiter { client, outcome });
            table.waiting += 1;
            client.into_iter().for_each(|client| *table.of_clients.entry(client).or_default() += 1);
            (receiver, Waiting { demands: self, client })
        };
        self.news.notify_one();
        match tokio::time::timeout(limit, receiver).await {
            Ok(outcome) => outcome.unwrap_or(Err(NOBODY)),
            Err(_) => Err(TOO_LATE),
        }
    }

    /// Names that whoever orders has not seen yet, and that somebody still waits for.
    pub fn take(&self) -> Vec<Box<str>> {
        let mut table = self.table();
        table.waited_for.retain(|_, waited| waited.is_taken || waited.is_waited_for());
        let new = table.waited_for.iter_mut().filter(|(_, waited)| !waited.is_taken);
        new.map(|(name, waited)| {
            waited.is_taken = true;
            name.clone()
        })
        .collect()
    }

    /// Has whoever orders next see all names that are waited for.
    pub fn renew(&self) {
        self.table().waited_for.values_mut().for_each(|waited| waited.is_taken = false);
    }

    /// Whether somebody still waits for a name.
    pub fn is_waited_for(&self, name: &str) -> bool {
        self.table().waited_for.get(name).is_some_and(Waited::is_waited_for)
    }

    /// The client that asked for a name first, of those who still wait for it, or of all where nobody does: an IPv4 address or an IPv6 /64; none if nobody
    /// knows.
    pub fn client(&self, name: &str) -> Option<IpAddr> {
        self.table().waited_for.get(name)?.client()
    }

    /// Forgets a name that nobody waits for any more; the next handshake demands it anew.
    pub fn forget(&self, name: &str) {
        self.table().waited_for.remove(name);
    }

    /// Refuses a name to those who wait, and to all who come within `time`.
    pub fn refuse(&self, name: &str, why: NoCertificate, time: Duration) {
        let mut table = self.table();
        remember(&mut table.refused, name.into(), why, time);
        table.tell(name, Err(why));
    }

    /// Refuses a name to a client, and within `time` all names that nobody else waits for. Others who wait for the name go on: it is new again to whoever
    /// orders.
    pub fn refuse_client(&self, name: &str, client: IpAddr, why: NoCertificate, time: Duration) {
        let mut table = self.table();
        if let Some(waited) = table.waited_for.get_mut(name) {
            for waiter in waited.waiters.extract_if(.., |waiter| waiter.client == Some(client)) {
                // Who has gone needs no answer.
                _ = waiter.outcome.send(Err(why));
            }
            waited.owner = waited.waiters.iter().find(|waiter| waiter.waits()).and_then(|waiter| waiter.client);
        }
        remember(&mut table.refused_clients, client, why, time);
        drop(table);
        self.demand_again(name);
    }

    /// Has whoever orders see a name again, if somebody waits for it.
    pub fn demand_again(&self, name: &str) {
        let mut table = self.table();
        match table.waited_for.get_mut(name) {
            Some(waited) if waited.is_waited_for() => waited.is_taken = false,
            _ => _ = table.waited_for.remove(name),
        }
        drop(table);
        self.news.notify_one();
    }

    /// Serves certificates of names from now on, beside those that are there, and lets those go on who wait for them.
    pub fn serve(&self, fresh: &[(Box<str>, Arc<Identity>)]) {
        let mut table = self.table();
        let mut held = HashMap::clone(&self.held.load());
        for (name, identity) in fresh {
            held.entry(name.clone()).or_default().put(identity);
        }
        self.held.store(Arc::new(held));
        for (name, _) in fresh {
            table.refused.remove(name);
            table.tell(name, Ok(()));
        }
    }

    /// Serves these certificates and no others from now on.
    pub fn load(&self, all: &[(Box<str>, Arc<Identity>)]) {
        {
            let _table = self.table();
            self.held.store(Arc::default());
        }
        self.serve(all);
    }

    /// Serves a name no more.
    pub fn remove(&self, name: &str) {
        let _table = self.table();
        let mut held = HashMap::clone(&self.held.load());
        held.remove(name);
        self.held.store(Arc::new(held));
    }
}

/// Remembers why something is refused within `time`; the table is bounded.
fn remember<K: Clone + Eq + Hash>(
    refused: &mut HashMap<K, (Instant, NoCertificate)>,
    key: K,
    why: NoCertificate,
    time: Duration,
) {
    let now = Instant::now();
    if refused.len() >= MAX_REFUSED {
        refused.retain(|_, (until, _)| *until > now);
    }
    if refused.len() >= MAX_REFUSED
        && let Some(any) = refused.keys().next().cloned()
    {
        refused.remove(&any);
    }
    if let Some(until) = now.checked_add(time).filter(|_| !time.is_zero()) {
        refused.insert(key, (until, why));
    }
}

/// Why something is refused still.
fn recall<K: Eq + Hash + Borrow<Q>, Q: Eq + Hash + ?Sized>(
    refused: &mut HashMap<K, (Instant, NoCertificate)>,
    key: &Q,
    now: Instant,
) -> Option<NoCertificate> {
    let (until, why) = *refused.get(key)?;
    if until > now {
        return Some(why);
    }
    refused.remove(key);
    None
}

impl Table {
    /// Why a name is refused to a client.
    fn refusal(&mut self, name: &str, client: Option<IpAddr>, now: Instant) -> Option<NoCertificate> {
        recall(&mut self.refused, name, now).or_else(|| {
            let is_asked_by_others = self.waited_for.get(name).is_some_and(Waited::is_waited_for);
            recall(&mut self.refused_clients, &client?, now).filter(|_| !is_asked_by_others)
        })
    }

    /// Whether a client may have one more place, for a name that is waited for already or for another one.
    fn check_share(&self, name: &str, client: Option<IpAddr>) -> Result<(), NoCertificate> {
        let Some(own) = client else { return Ok(()) };
        let names = || self.waited_for.values().filter(|waited| waited.client() == client).count();
        let has_share = self.of_clients.get(&own).is_some_and(|count| *count >= share(MAX_WAITING))
            || (!self.waited_for.contains_key(name) && names() >= share(MAX_NAMES));
        if has_share { Err(CLIENT_FULL) } else { Ok(()) }
    }

    fn tell(&mut self, name: &str, outcome: Result<(), NoCertificate>) {
        let waiters = self.waited_for.remove(name).map(|waited| waited.waiters).unwrap_or_default();
        // Who has gone needs no answer.
        waiters.into_iter().for_each(|waiter| _ = waiter.outcome.send(outcome));
    }
}

impl Waited {
    fn is_waited_for(&self) -> bool {
        self.waiters.iter().any(Waiter::waits)
    }

    /// Whose the order is: the client that has waited longest, or the one that asked first.
    fn client(&self) -> Option<IpAddr> {
        self.waiters.iter().find(|waiter| waiter.waits()).map_or(self.owner, |waiter| waiter.client)
    }
}

impl Waiter {
    fn waits(&self) -> bool {
        !self.outcome.is_closed()
    }
}

/// Whether an authority could issue a certificate for a name that a client sent: letters, digits and hyphens in at least two labels, none of which begins or
/// ends with a hyphen, and no number as the last one (RFC 1123 §2.1). Lower case, without a final dot.
pub fn is_issuable(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    name.len() <= 253 && name.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// The certificates on demand of one listener: how its handshakes come by them.
#[derive(Debug, Clone)]
pub struct OnDemand {
    demands: Arc<Demands>,
    acme: Arc<AcmeConfig>,
    wait: Duration,
}

impl OnDemand {
    /// Those of a keystore; none if it has none on demand.
    pub fn of(acme: &Arc<AcmeConfig>, demands: Option<&Arc<Demands>>) -> Option<OnDemand> {
        let wait = acme.on_demand.as_ref()?.options.wait;
        Some(OnDemand { demands: Arc::clone(demands?), acme: Arc::clone(acme), wait })
    }

    /// The table.
    pub fn demands(&self) -> &Demands {
        &self.demands
    }

    /// How long a handshake waits at most.
    pub fn longest_wait(&self) -> Duration {
        self.wait
    }

    /// Whether a name that has no certificate could have one on demand: it is allowed, and not one that is ordered anyway.
    pub fn could_have(&self, name: &str) -> bool {
        let is_allowed = self.acme.on_demand.as_ref().is_some_and(|on_demand| on_demand.allows(name));
        is_allowed && is_issuable(name) && !self.acme.orders(name)
    }

    /// Waits for the certificate of a name.
    ///
    /// # Errors
    /// As [`Demands::wait`].
    pub async fn wait(&self, name: &str, client: Option<IpAddr>) -> Result<(), NoCertificate> {
        self.demands.wait(name, client, self.wait).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const NO: NoCertificate = NoCertificate("no");
    const LONG: Duration = Duration::from_secs(60);

    fn demands() -> Demands {
        Demands::new(Arc::default())
    }

    fn identity() -> Arc<Identity> {
        Identity::remote(&[], tls::KeyType::Ecdsa)
    }

    fn polled<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn all_who_wait_for_a_name_go_on_with_one_certificate() {
        let demands = demands();
        let (mut one, mut other) = (pin!(demands.wait("a.test", None, LONG)), pin!(demands.wait("a.test", None, LONG)));
        assert!(polled(one.as_mut()).is_pending() && polled(other.as_mut()).is_pending());
        assert_eq!(demands.take(), ["a.test".into()]);
        assert!(demands.take().is_empty(), "it is told of once");
        demands.renew();
        assert_eq!(demands.take(), ["a.test".into()], "whoever comes next hears of it, too");
        demands.serve(&[("a.test".into(), identity())]);
        assert_eq!((one.await, other.await), (Ok(()), Ok(())));
        assert_eq!(demands.wait("a.test", None, LONG).await, Ok(()), "it is there");
        demands.remove("a.test");
        assert!(!demands.has("a.test") && polled(pin!(demands.wait("a.test", None, LONG))).is_pending());
    }

    #[tokio::test]
    async fn a_refusal_holds_for_its_time() {
        let demands = demands();
        let mut one = pin!(demands.wait("a.test", None, LONG));
        assert!(polled(one.as_mut()).is_pending());
        demands.refuse("a.test", NO, LONG);
        assert_eq!((one.await, demands.wait("a.test", None, LONG).await), (Err(NO), Err(NO)));
        assert!(demands.take().is_empty(), "nobody is told of a name that is refused");
        demands.refuse("b.test", NO, Duration::ZERO);
        assert!(polled(pin!(demands.wait("b.test", None, LONG))).is_pending());
        // A certificate ends it.
        demands.serve(&[("a.test".into(), identity())]);
        assert_eq!(demands.wait("a.test", None, LONG).await, Ok(()));
    }

    #[tokio::test]
    async fn what_is_refused_to_one_client_goes_on_for_others() {
        let demands = demands();
        let client = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let (busy, other) = (client("192.0.2.1"), client("192.0.2.2"));
        let (mut first, mut second) =
            (pin!(demands.wait("a.test", busy, LONG)), pin!(demands.wait("a.test", other, LONG)));
        assert!(polled(first.as_mut()).is_pending() && polled(second.as_mut()).is_pending());
        assert_eq!((demands.take(), demands.client("a.test")), (vec!["a.test".into()], busy));
        demands.refuse_client("a.test", busy.unwrap(), NO, LONG);
        assert_eq!((first.await, polled(second.as_mut())), (Err(NO), Poll::Pending));
        assert_eq!((demands.take(), demands.client("a.test")), (vec!["a.test".into()], other), "it is the other's now");
        assert_eq!(demands.wait("b.test", busy, LONG).await, Err(NO), "nobody else asks for this one");
        let mut joined = pin!(demands.wait("a.test", busy, LONG));
        assert!(polled(joined.as_mut()).is_pending() && polled(pin!(demands.wait("b.test", other, LONG))).is_pending());
        demands.serve(&[("a.test".into(), identity())]);
        assert_eq!((second.await, joined.await), (Ok(()), Ok(())));
        // Who goes while the name is looked into is counted nonetheless.
        {
            let mut gone = Box::pin(demands.wait("d.test", other, LONG));
            assert!(polled(gone.as_mut()).is_pending());
            demands.take();
        }
        assert_eq!((demands.is_waited_for("d.test"), demands.client("d.test")), (false, other));
        demands.demand_again("d.test");
        assert_eq!(demands.client("d.test"), None, "the next one demands it anew");
        // The only one who waits: nothing is left of the name.
        let mut alone = pin!(demands.wait("c.test", other, LONG));
        assert!(polled(alone.as_mut()).is_pending());
        demands.refuse_client("c.test", other.unwrap(), NO, Duration::ZERO);
        assert_eq!((alone.await, demands.is_waited_for("c.test")), (Err(NO), false));
        assert!(polled(pin!(demands.wait("c.test", None, LONG))).is_pending());
    }

    #[tokio::test]
    async fn who_has_gone_is_not_waited_for() {
        let demands = demands();
        {
            let mut gone = Box::pin(demands.wait("a.test", None, LONG));
            assert!(polled(gone.as_mut()).is_pending());
        }
        assert!(!demands.is_waited_for("a.test") && demands.take().is_empty());
        assert_eq!(demands.table().waiting, 0);
        assert_eq!(demands.wait("a.test", None, Duration::from_millis(1)).await, Err(TOO_LATE));
    }

    #[tokio::test]
    async fn the_table_is_bounded() {
        let demands = demands();
        let mut waiting = Vec::new();
        for i in 0..MAX_NAMES {
            let (demands, name) = (&demands, format!("n{i}.test"));
            let mut one = Box::pin(async move { demands.wait(&name, None, LONG).await });
            assert!(polled(one.as_mut()).is_pending(), "{i}");
            waiting.push(one);
        }
        assert_eq!(demands.wait("more.test", None, LONG).await, Err(FULL));
        let mut known = pin!(demands.wait("n7.test", None, LONG));
        assert!(polled(known.as_mut()).is_pending(), "who waits for a name that is waited for has room");
        waiting.pop();
        assert!(polled(pin!(demands.wait("more.test", None, LONG))).is_pending(), "who has gone makes room");
        for i in 0..=MAX_REFUSED {
            demands.refuse(&format!("r{i}.test"), NO, LONG);
        }
        assert_eq!(demands.table().refused.len(), MAX_REFUSED);
    }

    #[tokio::test]
    async fn handshakes_that_wait_for_one_name_are_bounded() {
        let demands = demands();
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(demands.wait("a.test", None, LONG))).collect();
        assert!(waiting.iter_mut().all(|one| polled(one.as_mut()).is_pending()));
        assert_eq!(demands.wait("a.test", None, LONG).await, Err(FULL));
    }

    #[tokio::test]
    async fn a_client_has_its_share_of_names_and_places() {
        let demands = demands();
        let client = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let mut waiting = Vec::new();
        for i in 0..share(MAX_NAMES) {
            let (demands, name, client) = (&demands, format!("n{i}.test"), client(&format!("2001:db8::{i:x}")));
            let mut one = Box::pin(async move { demands.wait(&name, client, LONG).await });
            assert!(polled(one.as_mut()).is_pending(), "{i}");
            waiting.push(one);
        }
        // Another address of the same /64.
        let same = client("2001:db8::ffff:1");
        assert_eq!(demands.wait("more.test", same, LONG).await, Err(CLIENT_FULL));
        let mut known = pin!(demands.wait("n7.test", same, LONG));
        assert!(polled(known.as_mut()).is_pending(), "a name that is waited for takes no other place");
        for other in [client("2001:db8:0:1::1"), client("192.0.2.1"), None] {
            assert!(polled(pin!(demands.wait("more.test", other, LONG))).is_pending(), "{other:?}");
        }
        assert_eq!((demands.client("n7.test"), demands.client("nobody.test")), (client("2001:db8::"), None));
        let most = share(MAX_WAITING);
        let mut many: Vec<_> =
            (0..most).map(|_| Box::pin(demands.wait("n1.test", client("192.0.2.1"), LONG))).collect();
        assert!(many.iter_mut().all(|one| polled(one.as_mut()).is_pending()));
        assert_eq!(demands.wait("n1.test", client("192.0.2.1"), LONG).await, Err(CLIENT_FULL));
        many.pop();
        assert!(
            polled(pin!(demands.wait("n1.test", client("192.0.2.1"), LONG))).is_pending(),
            "who has gone makes room"
        );
        drop((waiting, many));
        assert!(demands.table().of_clients.len() <= 1);
    }

    #[test]
    fn names_that_no_authority_issues_for_are_not_demanded() {
        for (name, expected) in [
            ("www.example.com", true),
            ("xn--bcher-kva.example", true),
            ("1.example", true),
            ("localhost", false),
            ("default", false),
            ("", false),
            (".example", false),
            ("a..example", false),
            ("a.example.", false),
            ("-a.example", false),
            ("a-.example", false),
            ("a_b.example", false),
            ("*.example.com", false),
            ("A.example", false),
            ("192.0.2.1", false),
            ("a.1", false),
            ("a/../b.example", false),
            ("bücher.example", false),
        ] {
            assert_eq!(is_issuable(name), expected, "{name}");
        }
        let label = "a".repeat(63);
        let long = [label.as_str(); 4].join(".");
        assert!(is_issuable(&long[..253]) && !is_issuable(&long) && !is_issuable(&format!("a{label}.test")));
    }
}
