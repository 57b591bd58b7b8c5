//! Names that clients ask for and that have no certificate: which of them are ordered, and how many.
//!
//! What is there is kept and served by the name; what may be ordered is decided here. Whatever is not agreed to is refused.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use config::{AskConfig, OnDemandConfig};
use proxy::demands::{Demands, is_issuable, share};
use proxy::generation::Generation;
use proxy::own_request::{Asked, send};
use proxy::upstream::{Target, Wish, connect};
use transport::NoCertificate;
use wire::http::Method;

/// Questions that are under way at once.
const MAX_ASKED: usize = 16;

/// Orders whose clients are remembered: one client's share of the most that there may be in an hour.
const MAX_CAUSES: usize = 100_000;

/// Orders are counted over this time.
const HOUR: Duration = Duration::from_secs(3600);

/// Whoever is asked and cannot be reached is asked again about a name after this time.
const UNREACHED_PAUSE: Duration = Duration::from_secs(10);

/// Who is asked does not agree.
pub const REFUSED: NoCertificate = NoCertificate("refused by `ask`");
/// Who is asked says nothing.
pub const UNREACHED: NoCertificate = NoCertificate("no answer from `ask`");
/// It is none of the names that may be had.
pub const NOT_ALLOWED: NoCertificate = NoCertificate("not a name of `allow`");
/// There are as many names as there may be.
pub const TOO_MANY_NAMES: NoCertificate = NoCertificate("`max_names` is reached");
/// There were as many orders as there may be.
pub const TOO_MANY_ORDERS: NoCertificate = NoCertificate("`max_orders_per_hour` is reached");
/// This client had as many as one may have.
pub const TOO_MANY_OF_CLIENT: NoCertificate = NoCertificate("this client has had its share of `max_orders_per_hour`");
/// The order came to nothing.
pub const FAILED: NoCertificate = NoCertificate("the order failed");

/// What may be ordered for one keystore, and what is asked.
pub struct Gatekeeper {
    pub config: OnDemandConfig,
    pub demands: Arc<Demands>,
    /// Names to ask about, the oldest first.
    queue: VecDeque<Box<str>>,
    /// Those, and those that are being asked about.
    pending: BTreeSet<Box<str>>,
    /// Names that are being asked about, and who asked for them first.
    asking: Vec<(Box<str>, Option<IpAddr>)>,
    /// When names were ordered within the last hour.
    ordered: VecDeque<SystemTime>,
    /// For which clients, as far as that is known: those of this process, the oldest first.
    causes: VecDeque<Cause>,
}

/// A client for which a name was ordered.
struct Cause {
    at: SystemTime,
    client: IpAddr,
    name: Box<str>,
}

/// Why a name is refused to everybody, as other nodes say it. What is refused to one client, the node refuses to which it came.
const ALL: [NoCertificate; 6] = [REFUSED, UNREACHED, NOT_ALLOWED, TOO_MANY_NAMES, TOO_MANY_ORDERS, FAILED];

/// Whether this is why a name is refused, not why somebody waits no longer.
pub fn is_final(why: &str) -> bool {
    ALL.iter().any(|known| known.0 == why)
}

impl Gatekeeper {
    /// Of a keystore with these settings. What was demanded before, and came to nothing, it sees as new.
    pub fn new(config: OnDemandConfig, demands: Arc<Demands>) -> Gatekeeper {
        demands.renew();
        let (queue, ordered, causes) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Gatekeeper { config, demands, queue, pending: BTreeSet::new(), asking: Vec::new(), ordered, causes }
    }

    /// Orders of before, as they were kept.
    pub fn remember(&mut self, times: impl Iterator<Item = SystemTime>) {
        self.ordered = times.collect();
        self.ordered.make_contiguous().sort();
    }

    /// Why a name that has no certificate is refused whoever agrees to it, and for how long. `names`: how many there are.
    pub fn refusal(&mut self, name: &str, names: usize, now: SystemTime) -> Option<(NoCertificate, Duration)> {
        let options = &self.config.options;
        if !self.config.allows(name) || !is_issuable(name) {
            return Some((NOT_ALLOWED, options.refusal_time));
        }
        if names >= options.max_names {
            return Some((TOO_MANY_NAMES, options.refusal_time.min(UNREACHED_PAUSE)));
        }
        // A time to come is one of a clock that was set back.
        let counts = |at: SystemTime| now.duration_since(at).is_ok_and(|since| since < HOUR);
        self.ordered.retain(|at| counts(*at));
        self.causes.retain(|cause| counts(cause.at));
        let pause = options.refusal_time.min(UNREACHED_PAUSE);
        if self.ordered.len() >= options.max_orders_per_hour {
            return Some((TOO_MANY_ORDERS, pause));
        }
        let client = self.demands.client(name)?;
        self.has_share(client).then_some((TOO_MANY_OF_CLIENT, pause))
    }

    /// Whether a client has had its share of orders.
    fn has_share(&self, client: IpAddr) -> bool {
        let own = self.causes.iter().filter(|cause| cause.client == client).count();
        own >= share(self.config.options.max_orders_per_hour)
    }

    /// Another node, which orders, says why a name is not had.
    pub fn reject(&mut self, name: &str, why: &str) {
        let (Some(why), options) = (ALL.into_iter().find(|known| known.0 == why), &self.config.options) else { return };
        if why != FAILED {
            // Nothing was ordered.
            self.causes.retain(|cause| *cause.name != *name);
        }
        let is_for_long = matches!(why, REFUSED | NOT_ALLOWED | FAILED);
        let time = if is_for_long { options.refusal_time } else { options.refusal_time.min(UNREACHED_PAUSE) };
        self.demands.refuse(name, why, time);
    }

    /// Refuses a name: to everybody, or to the client alone that has had its share.
    pub fn refuse(&self, name: &str, why: NoCertificate, time: Duration) {
        if why != TOO_MANY_OF_CLIENT {
            return self.demands.refuse(name, why, time);
        }
        // It may have gone, so that the name is another one's by now.
        match self.demands.client(name).filter(|client| self.has_share(*client)) {
            Some(client) => self.demands.refuse_client(name, client, why, time),
            None => self.demands.demand_again(name),
        }
    }

    /// A name is ordered now.
    pub fn note_order(&mut self, name: &str, now: SystemTime) {
        self.ordered.push_back(now);
        self.note_cause(name, now);
    }

    /// Another node is asked to order a name now. Nothing is counted twice that is asked for again.
    pub fn note_passed_on(&mut self, name: &str, now: SystemTime) {
        let client = self.demands.client(name);
        if !self.causes.iter().any(|cause| Some(cause.client) == client && *cause.name == *name) {
            self.note_cause(name, now);
        }
    }

    /// A name is ordered for the client that asked for it.
    fn note_cause(&mut self, name: &str, at: SystemTime) {
        if self.causes.len() >= MAX_CAUSES {
            self.causes.pop_front();
        }
        self.causes.extend(self.demands.client(name).map(|client| Cause { at, client, name: name.into() }));
    }

    /// Somebody is to be asked about a name.
    pub fn enqueue(&mut self, name: Box<str>) {
        if self.pending.insert(name.clone()) {
            self.queue.push_back(name);
        }
    }

    /// The next name to ask about, as long as not too many are asked about, of all and of its client. One that has no certificate and that nobody waits for
    /// any more is dropped.
    pub fn next(&mut self, is_held: impl Fn(&str) -> bool) -> Option<Box<str>> {
        while self.asking.len() < MAX_ASKED {
            let has_room = |name: &str| {
                let client = self.demands.client(name);
                let own = self.asking.iter().filter(|(_, other)| client.is_some() && *other == client).count();
                own < share(MAX_ASKED)
            };
            let index = self.queue.iter().position(|name| has_room(name))?;
            let name = self.queue.remove(index)?;
            if is_held(&name) || self.demands.is_waited_for(&name) {
                let client = self.demands.client(&name);
                self.asking.push((name.clone(), client));
                return Some(name);
            }
            self.pending.remove(&name);
            self.demands.forget(&name);
        }
        None
    }

    /// What was said of a name: why it is refused, and for how long.
    pub fn note_answer(&mut self, name: &str, answer: Result<bool, String>) -> Option<(NoCertificate, Duration)> {
        self.asking.retain(|(asked, _)| **asked != *name);
        self.pending.remove(name);
        let time = self.config.options.refusal_time;
        match answer {
            Ok(true) => None,
            Ok(false) => Some((REFUSED, time)),
            Err(problem) => {
                tracing::warn!(name, "nobody says whether a certificate may be ordered: {problem}");
                Some((UNREACHED, time.min(UNREACHED_PAUSE)))
            }
        }
    }
}

/// Asks whether a name may have a certificate: `GET URL?domain=NAME`, 200 for yes.
pub async fn ask(
    ask: &AskConfig,
    name: &str,
    limit: Duration,
    generations: &ArcSwap<Generation>,
) -> Result<bool, String> {
    let asked = tokio::time::timeout(limit, ask_unbounded(ask, name, generations)).await;
    asked.unwrap_or_else(|_| Err(format!("no response in {limit:?}")))
}

async fn ask_unbounded(ask: &AskConfig, name: &str, generations: &ArcSwap<Generation>) -> Result<bool, String> {
    let group = generations.load().issuance.group(&ask.upstream.name).cloned();
    let group = group.ok_or_else(|| "its server is configured no more".to_owned())?;
    group.resolved(group.config.connect_timeout).await;
    let taken = group.take(Wish::default()).map_err(|_| "the name of its server cannot be resolved".to_owned())?;
    let transport = connect(Target::own(&group, &taken.server)).await;
    let transport = transport.map_err(|error| error.reason().code().to_owned())?;
    let separator = if ask.target.contains('?') { '&' } else { '?' };
    // The name holds letters, digits, dots and hyphens alone.
    let target = format!("{}{separator}domain={name}", ask.target);
    let fields = "User-Agent: portunus\r\n";
    let asked = Asked { method: &Method::Get, host: &ask.host, target: &target, fields, body: None };
    Ok(send(&transport, asked).await?.status() == 200)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use config::{HostPattern, OnDemandOptions};
    use std::task::{Context, Waker};

    fn gate(options: OnDemandOptions) -> Gatekeeper {
        let allow = vec![HostPattern::of_text("*.shop.test")];
        Gatekeeper::new(OnDemandConfig { allow, ask: None, options }, Arc::new(Demands::new(Arc::default())))
    }

    #[test]
    fn what_is_not_allowed_or_too_much_is_refused() {
        let options = OnDemandOptions { max_names: 3, max_orders_per_hour: 2, ..OnDemandOptions::default() };
        let (mut gate, now) = (gate(options), SystemTime::now());
        let mut why = |name: &str, names: usize| gate.refusal(name, names, now).map(|(why, _)| why);
        assert_eq!(why("a.shop.test", 0), None);
        assert_eq!(why("a.other.test", 0), Some(NOT_ALLOWED));
        assert_eq!(why("a_b.shop.test", 0), Some(NOT_ALLOWED));
        assert_eq!((why("a.shop.test", 2), why("a.shop.test", 3)), (None, Some(TOO_MANY_NAMES)));
    }

    #[test]
    fn orders_are_counted_over_an_hour_and_over_a_restart() {
        let options = OnDemandOptions { max_orders_per_hour: 2, ..OnDemandOptions::default() };
        let (mut gate, now) = (gate(options), SystemTime::now());
        // Out of order, one of them of more than an hour before, one of a clock that was set back.
        gate.remember([now - HOUR / 2, now - 2 * HOUR, now + HOUR].into_iter());
        let is_full = |gate: &mut Gatekeeper, at| gate.refusal("a.shop.test", 0, at).is_some();
        assert!(!is_full(&mut gate, now));
        gate.note_order("b.shop.test", now);
        assert_eq!(gate.refusal("a.shop.test", 0, now).map(|(why, _)| why), Some(TOO_MANY_ORDERS));
        assert!(!is_full(&mut gate, now + HOUR / 2), "the first is an hour ago");
    }

    #[tokio::test]
    async fn a_client_has_its_share_of_orders() {
        let options = OnDemandOptions { max_orders_per_hour: 4, ..OnDemandOptions::default() };
        let (mut gate, now) = (gate(options), SystemTime::now());
        let demands = Arc::clone(&gate.demands);
        let mut waiting = Vec::new();
        let mut why = |name: &str, client: Option<&str>, at| {
            let (demands, own, client) =
                (Arc::clone(&demands), name.to_owned(), client.map(|one| one.parse().unwrap()));
            let mut one = Box::pin(async move { demands.wait(&own, client, HOUR).await });
            assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            waiting.push(one);
            let refusal = gate.refusal(name, 0, at).map(|(why, _)| why);
            if refusal.is_none() {
                gate.note_order(name, at);
            }
            refusal
        };
        for (index, address) in ["2001:db8::1", "2001:db8::2", "2001:db8::3"].into_iter().enumerate() {
            assert_eq!(why(&format!("n{index}.shop.test"), Some(address), now), None);
        }
        assert_eq!(why("a.shop.test", Some("2001:db8::4"), now), Some(TOO_MANY_OF_CLIENT));
        assert_eq!(why("b.shop.test", Some("192.0.2.1"), now), None);
        assert_eq!(why("c.shop.test", Some("192.0.2.1"), now), Some(TOO_MANY_ORDERS));
        assert_eq!(why("d.shop.test", Some("2001:db8::5"), now + HOUR), None, "an hour later");
    }

    #[tokio::test]
    async fn what_another_node_did_not_order_is_of_no_share() {
        let options = OnDemandOptions { max_orders_per_hour: 4, ..OnDemandOptions::default() };
        let (mut gate, now) = (gate(options), SystemTime::now());
        let demands = Arc::clone(&gate.demands);
        let client = "192.0.2.1".parse().ok();
        let mut waiting = Vec::new();
        let mut why = |gate: &mut Gatekeeper, name: &'static str| {
            let demands = Arc::clone(&demands);
            let mut one = Box::pin(async move { demands.wait(name, client, HOUR).await });
            assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "{name}");
            waiting.push(one);
            let refusal = gate.refusal(name, 0, now).map(|(why, _)| why);
            gate.note_passed_on(name, now);
            refusal
        };
        for name in ["a.shop.test", "b.shop.test", "b.shop.test", "c.shop.test"] {
            assert_eq!(why(&mut gate, name), None, "{name}");
        }
        for name in ["a.shop.test", "b.shop.test"] {
            gate.reject(name, if name == "a.shop.test" { REFUSED.0 } else { FAILED.0 });
        }
        assert_eq!(why(&mut gate, "d.shop.test"), None, "what was refused was not ordered");
        assert_eq!(why(&mut gate, "e.shop.test"), Some(TOO_MANY_OF_CLIENT), "what failed was");
        assert!(!is_final(TOO_MANY_OF_CLIENT.0));
    }

    #[tokio::test]
    async fn a_client_has_its_share_of_questions() {
        let mut gate = gate(OnDemandOptions::default());
        let demands = Arc::clone(&gate.demands);
        let mut waiting = Vec::new();
        let mut enqueue = |gate: &mut Gatekeeper, name: String, client: &str| {
            let (demands, own, client) = (Arc::clone(&demands), name.clone(), client.parse().ok());
            let mut one = Box::pin(async move { demands.wait(&own, client, HOUR).await });
            assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            waiting.push(one);
            gate.enqueue(name.into());
        };
        (0..MAX_ASKED).for_each(|i| enqueue(&mut gate, format!("n{i}.shop.test"), "192.0.2.1"));
        enqueue(&mut gate, "other.shop.test".to_owned(), "192.0.2.2");
        let asked: Vec<_> = std::iter::from_fn(|| gate.next(|_| false)).collect();
        assert_eq!(asked.len(), share(MAX_ASKED) + 1);
        assert_eq!(asked.last().map(|name| &**name), Some("other.shop.test"));
        gate.note_answer("n0.shop.test", Ok(false));
        assert_eq!(gate.next(|_| false).as_deref(), Some("n12.shop.test"));
        assert_eq!(gate.next(|_| false), None);
    }

    #[tokio::test]
    async fn so_many_are_asked_about_at_once_and_nobody_twice() {
        let mut gate = gate(OnDemandOptions::default());
        let names: Vec<String> = (0..MAX_ASKED + 2).map(|i| format!("n{i}.shop.test")).collect();
        for name in names.iter().chain(&names) {
            gate.enqueue(name.as_str().into());
        }
        let asked: Vec<_> = std::iter::from_fn(|| gate.next(|_| true)).collect();
        assert_eq!(asked.iter().map(|name| &**name).collect::<Vec<_>>(), names[..MAX_ASKED]);
        assert_eq!(gate.note_answer(&names[0], Ok(true)), None);
        assert_eq!(gate.note_answer(&names[1], Ok(false)).map(|(why, _)| why), Some(REFUSED));
        assert_eq!(gate.next(|_| true).as_deref(), Some(&*names[MAX_ASKED]));
        // Nobody waits for the last one, and it has no certificate.
        assert_eq!(gate.next(|_| false), None);
        assert_eq!(gate.note_answer(&names[2], Err("no route".to_owned())).map(|(why, _)| why), Some(UNREACHED));
        gate.enqueue(names[MAX_ASKED + 1].as_str().into());
        assert_eq!(gate.next(|_| true).as_deref(), Some(&*names[MAX_ASKED + 1]), "it may come again");
    }
}
