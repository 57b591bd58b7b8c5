//! Upstream groups: which servers there are, how they fare, and connections to them.
//!
//! A [`Group`] is shared by all workers and outlives reloads that leave its configuration alone; connections belong to one worker.
//! Owns no HTTP: that is `http`.

pub mod inputs;
mod connect;
pub mod h2;
mod members;
mod balance;
pub mod maglev;
mod queue;
pub mod sticky;
mod pool;
mod rest;
mod mirrored;
pub mod resolve;
mod server;
mod operated;
mod shares;

pub use balance::Wish;
pub(crate) use connect::own_header;
pub use connect::{ConnectError, Target, connect, connect_to, speaks_http2};
pub use members::{Found, Members, Name, Records};
pub use mirrored::{MirrorOutcome, Mirrored};
pub use pool::{
    Awaited, Binding, BoundTo, Opening, Pools, STREAMS_PER_CONNECTION, SharedConnection, StreamSlot, Traffic,
};
pub use rest::{Care, Rest};
pub use server::{Health, Operated, PoolId, Server, ServerId, Standing};
pub use shares::Places;
pub use sticky::Sticky;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use config::{Balance, HashKey, ServerAddress, ServerConfig, UpstreamConfig, UpstreamProtocol, WhenAllDown};
use net::Deadline;
use reason::Reason;
use telemetry::{ServerView, UpstreamView, WorkerReport};
use tokio::sync::Notify;

use balance::{Choice, Rule, most_of};
use operated::Orders;
use queue::{InVain, Lane, Queue};
use shares::Shares;

/// Retries a group may make at once out of nothing, so that a quiet group can retry at all.
const RETRY_RESERVE: i64 = 10;

/// A group of servers, shared by all workers.
#[derive(Debug)]
pub struct Group {
    /// As configured.
    pub config: Arc<UpstreamConfig>,
    /// Its servers at the moment; replaced when a name leads elsewhere.
    members: ArcSwap<Members>,
    names: Vec<Arc<Name>>,
    /// The members have changed, or a name was asked for the first time.
    changed: Notify,
    /// Held while a server is ejected for its statuses, so that not all are at once.
    ejecting: Mutex<()>,
    connector: Option<Arc<tls::Connector>>,
    /// The same, where a connection may be of HTTP/2 as well as of HTTP/1.1.
    negotiator: Option<Arc<tls::Connector>>,
    /// A digest over what its TLS settings and sessions were read from; zeros where that is nothing.
    inputs: [u8; 32],
    /// Its address was put together from a request, so that names must not lead to ourselves.
    is_dynamic: bool,
    /// Servers on Unix sockets are spoken to without TLS.
    is_plain_on_unix: bool,
    in_flight: AtomicUsize,
    /// Those that wait for room, if they may.
    queue: Option<Queue>,
    /// Sticky sessions, if there are any.
    pub sticky: Option<Sticky>,
    /// The same by client.
    shares: Shares,
    /// Retries still allowed, in hundredths.
    retry_credit: AtomicI64,
    /// What became of copies of requests.
    pub mirrored: Mirrored,
    /// What operators say of servers, by their labels, also of those that are no members at the moment. Held while the members are replaced.
    operated: Mutex<Orders>,
}

impl Group {
    /// A group as configured. Reads the files of its TLS settings.
    ///
    /// # Errors
    /// A file is missing or unusable; says which.
    pub fn new(config: &Arc<UpstreamConfig>) -> Result<Group, String> {
        // Before they are read: what changes meanwhile makes the next reload read them again.
        let inputs = if has_inputs(config) { inputs::digest(config)? } else { [0; 32] };
        let connector = match &config.tls {
            Some(tls) => {
                let alpn: &[&[u8]] = match config.protocol {
                    UpstreamProtocol::Http1 | UpstreamProtocol::Auto => &[b"http/1.1"],
                    UpstreamProtocol::Http2 => &[b"h2"],
                    UpstreamProtocol::Tcp | UpstreamProtocol::Udp => &[],
                };
                Some(Arc::new(connect::connector(tls, alpn)?))
            }
            None => None,
        };
        let negotiator = match config.tls.as_ref().filter(|_| config.protocol == UpstreamProtocol::Auto) {
            Some(tls) => Some(Arc::new(connect::connector(tls, &[b"h2", b"http/1.1"])?)),
            None => None,
        };
        let sticky = config.sticky.as_ref().map(|sticky| Sticky::new(sticky, &config.name)).transpose()?;
        Ok(Group { sticky, inputs, negotiator, ..Group::with(config, connector, false) })
    }

    /// Whether a group that is made of this configuration now would be this one.
    pub fn is_current(&self, config: &UpstreamConfig) -> bool {
        *self.config == *config && (!has_inputs(config) || inputs::digest(config).is_ok_and(|now| now == self.inputs))
    }

    /// A group of key servers, whose connections offer the keyless extension by ALPN. On Unix sockets there is no TLS.
    ///
    /// # Errors
    /// As [`Group::new`].
    pub fn of_key_servers(config: &Arc<UpstreamConfig>) -> Result<Group, String> {
        let mut connector = None;
        if let Some(tls) = &config.tls {
            let mut made = connect::connector(tls, &[wire::keyless::EXTENSION_ALPN])?;
            // These connections are few and long; what servers make of a resumed client certificate differs.
            made.never_resume();
            connector = Some(Arc::new(made));
        }
        Ok(Group { is_plain_on_unix: true, ..Group::with(config, connector, false) })
    }

    /// A group like this one, but for a single server whose address was put together from a request. `check_addresses`: names must not
    /// lead to ourselves or to the link.
    pub fn with_server(&self, name: &str, address: ServerAddress, check_addresses: bool) -> Group {
        let mut config = UpstreamConfig::clone(&self.config);
        config.name = name.to_owned();
        config.servers = vec![ServerConfig::at(address)];
        Group::with(&Arc::new(config), self.connector.clone(), check_addresses)
    }

    fn with(config: &Arc<UpstreamConfig>, connector: Option<Arc<tls::Connector>>, is_dynamic: bool) -> Group {
        Group {
            config: Arc::clone(config),
            members: ArcSwap::from_pointee(Members::new(config)),
            names: members::names(&config.servers),
            changed: Notify::new(),
            ejecting: Mutex::new(()),
            connector,
            negotiator: None,
            inputs: [0; 32],
            in_flight: AtomicUsize::new(0),
            queue: config.queue.clone().map(Queue::new),
            sticky: None,
            shares: Shares::default(),
            retry_credit: AtomicI64::new(RETRY_RESERVE * 100),
            mirrored: Mirrored::default(),
            operated: Mutex::default(),
            is_dynamic,
            is_plain_on_unix: false,
        }
    }

    /// Whether names of its servers must not lead to ourselves or to the link.
    pub fn rejects_inner_addresses(&self) -> bool {
        self.is_dynamic
    }

    /// Its servers at the moment.
    pub fn members(&self) -> Guard<Arc<Members>> {
        self.members.load()
    }

    /// How it stands.
    pub fn view(&self) -> UpstreamView {
        let server = |server: &Arc<Server>| ServerView {
            name: server.name.to_string(),
            zone: server.config.zone.clone(),
            in_flight: server.load(),
            is_up: server.is_available(),
            is_ejected: server.is_ejected(),
        };
        UpstreamView {
            name: self.config.name.clone(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            queue_length: self.queue.as_ref().map(Queue::len),
            mirrored: self.mirrored.counts(),
            servers: self.members().servers.iter().map(server).collect(),
        }
    }

    /// Names among its servers.
    pub fn names(&self) -> &[Arc<Name>] {
        &self.names
    }

    /// Whether a server is neither ejected nor fails its checks.
    pub fn is_up(&self) -> bool {
        self.members().servers.iter().any(|server| server.is_available())
    }

    /// Whether there is no server because no name leads to one.
    pub fn is_unresolved(&self) -> bool {
        !self.names.is_empty() && self.members().servers.is_empty()
    }

    /// Whether it has no server yet, and a name server has still to say that there is none.
    pub fn is_resolving(&self) -> bool {
        self.names.iter().any(|name| !name.is_asked()) && self.members().servers.is_empty()
    }

    /// Waits, at most for `limit`, until there is a server or each name was asked. Does not wait where that is so.
    pub async fn resolved(&self, limit: Duration) {
        let waiting = async {
            loop {
                // What changes from here on is not missed.
                let changed = self.changed.notified();
                if !self.is_resolving() {
                    return;
                }
                changed.await;
            }
        };
        if self.is_resolving() {
            let _ = Deadline::new().within(limit, waiting).await;
        }
    }

    /// Waits for the next change of the members, or for the first word of a name server.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The addresses that a name leads to at the moment.
    pub fn addresses_of(&self, name: &Name) -> Vec<SocketAddr> {
        self.members().addresses_of(name.origin)
    }

    /// Notes that a name server was asked; with what it found, these are the servers of that name from now on. Requests under way are not touched.
    /// True if that changes anything. To be called by one task only.
    pub fn note_resolved(&self, name: &Name, found: Option<&[Found]>) -> bool {
        let mut operated = self.operated.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members.load();
        let next = found.and_then(|found| members.with_found(&self.config, name.origin, found));
        let is_new = next.is_some();
        if let Some(next) = next {
            members.leave_behind(&next);
            self.members.store(Arc::new(self.with_operated(next, &operated)));
        }
        self.note_members(&mut operated);
        drop(operated);
        name.set_asked();
        self.changed.notify_waiters();
        self.note_up();
        is_new
    }

    /// Members of whom it counts what operators say.
    fn with_operated(&self, members: Members, operated: &Orders) -> Members {
        if operated.is_empty() {
            return members;
        }
        let said = |server: &Arc<Server>| operated.get(&server.name).unwrap_or_default();
        members.servers.iter().for_each(|server| server.set_operated(said(server)));
        members.weighed_anew(&self.config)
    }

    /// Notes in what operators say which servers there are now.
    fn note_members(&self, operated: &mut Orders) {
        let members = self.members.load();
        operated.note_members(|label| members.has(label), Instant::now());
    }

    /// Changes what operators say of the servers with this label, also if a name does not lead there at the moment; gives those servers.
    pub fn operate(&self, label: &str, change: impl Fn(&mut Operated)) -> Vec<Arc<Server>> {
        let mut all = self.operated.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members.load_full();
        let found: Vec<Arc<Server>> = members.servers.iter().filter(|server| *server.name == *label).cloned().collect();
        let Some(mut operated) = found.first().map(|first| first.operated()).or_else(|| all.get(label)) else {
            return found;
        };
        let before = operated;
        change(&mut operated);
        if operated == before {
            return found;
        }
        found.iter().for_each(|server| server.set_operated(operated));
        all.set(label, operated);
        self.members.store(Arc::new(members.weighed_anew(&self.config)));
        drop(all);
        self.note_up();
        found
    }

    /// What operators say of servers.
    pub fn operated(&self) -> Vec<(String, Operated)> {
        let all = self.operated.lock().unwrap_or_else(PoisonError::into_inner);
        all.list().map(|(label, operated)| (label.clone(), operated)).collect()
    }

    /// What operators say of servers that are no members at the moment.
    pub fn absent(&self) -> Vec<(String, Operated)> {
        let all = self.operated.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members.load();
        let absent = all.list().filter(|(label, _)| !members.has(label));
        absent.map(|(label, operated)| (label.clone(), operated)).collect()
    }

    /// Goes on with what operators say of servers, as an earlier process had it.
    pub fn go_on_with(&self, known: impl IntoIterator<Item = (String, Operated)>) {
        let mut orders = Orders::default();
        known.into_iter().for_each(|(label, operated)| orders.set(&label, operated));
        self.take_over(&orders, |_| false);
    }

    /// Goes on with what operators say of servers, and with those that directories named, as this group of an earlier generation had it. An address that was configured and no longer is, is
    /// forgotten.
    pub fn go_on_from(&self, before: &Group) {
        for name in &self.names {
            let same = |other: &&Arc<Name>| name.source().is_some() && other.records == name.records;
            let Some(known) = before.names.iter().find(same).map(|other| before.addresses_of(other)) else { continue };
            // The directory may be away; what it says of weights comes with its next word.
            let known: Vec<Found> = known.into_iter().map(Found::at).collect();
            if !known.is_empty() {
                self.note_resolved(name, Some(&known));
            }
        }
        let orders = before.operated.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let was_literal = Members::new(&before.config);
        self.take_over(&orders, |label| was_literal.has(label));
    }

    /// Takes over what is said of its members; and of others if names may lead to them, unless `was_literal` says that none did.
    fn take_over(&self, orders: &Orders, was_literal: impl Fn(&str) -> bool) {
        let mut all = self.operated.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members.load_full();
        let of_names = |label: &str| !self.names.is_empty() && !was_literal(label);
        all.take_over(orders, |label| members.has(label) || of_names(label));
        if !all.is_empty() {
            self.members.store(Arc::new(self.with_operated(members.weighed_anew(&self.config), &all)));
            self.note_members(&mut all);
        }
    }

    /// TLS towards its servers, if any.
    pub fn connector(&self) -> Option<&tls::Connector> {
        self.connector.as_deref()
    }

    /// TLS towards its servers that lets them choose between versions of HTTP, if they may.
    pub fn negotiator(&self) -> Option<&tls::Connector> {
        self.negotiator.as_deref()
    }

    /// TLS towards one server, if any.
    pub fn connector_to(&self, server: &Server) -> Option<&tls::Connector> {
        let is_plain = self.is_plain_on_unix && matches!(server.address, ServerAddress::Unix(_));
        self.connector().filter(|_| !is_plain)
    }

    /// Admits one request or tunnel of a client, if it is known whose it is.
    ///
    /// # Errors
    /// As many as configured are under way already, of this client or in all, or others wait for that already.
    pub fn admit(&self, client: Option<Places>) -> Result<InFlight<'_>, Full> {
        if self.queue.as_ref().is_some_and(|queue| queue.is_waited_in(Lane::Group)) {
            return Err(Full::OfAll);
        }
        self.admit_now(client)
    }

    fn admit_now(&self, client: Option<Places>) -> Result<InFlight<'_>, Full> {
        // As in `Server::begin`.
        let one_more = |count: usize| (count < self.config.max_in_flight).then_some(count + 1);
        if self.in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Err(Full::OfAll);
        }
        let mut permit = InFlight { group: Some(self), places: None };
        if let Some(client) = client {
            let places = self.shares.enter(client, self.config.max_in_flight_per_client);
            permit.places = Some(places.ok_or(Full::OfOneClient)?);
        }
        let earned = i64::from(self.config.retry_budget_percent);
        if self.retry_credit.load(Ordering::Relaxed) < RETRY_RESERVE * 100 {
            self.retry_credit.fetch_add(earned, Ordering::Relaxed);
        }
        Ok(permit)
    }

    /// Whether requests may wait for room.
    pub fn queues(&self) -> bool {
        self.queue.is_some()
    }

    /// As [`Group::admit`], for those whom it let wait.
    ///
    /// # Errors
    /// As there, and the queue is full, or the wait took too long.
    pub async fn admit_in_turn(&self, client: Option<Places>) -> Result<InFlight<'_>, Full> {
        let Some(queue) = &self.queue else { return Err(Full::OfAll) };
        let attempt = || match self.admit_now(client) {
            Err(Full::OfAll) => None,
            admitted => Some(admitted),
        };
        queue.wait(Lane::Group, client, attempt).await.map_err(Full::from)?
    }

    /// Counts one request or tunnel out, of all and of its client.
    fn leave(&self, places: Option<Places>) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(places) = places {
            self.shares.leave(places);
        }
        self.queue.iter().for_each(|queue| queue.freed(Lane::Group));
    }

    /// Takes a retry from the budget, if there is one left; else counts that, unless retries are switched off.
    pub fn may_retry(&self, report: &WorkerReport) -> bool {
        let may_retry = self.take_from_budget();
        if !may_retry && self.config.retry_budget_percent > 0 {
            report.retry_over_budget(&self.config.name);
        }
        may_retry
    }

    /// Takes a further request from the budget, if there is one left.
    pub fn take_from_budget(&self) -> bool {
        if self.config.retry_budget_percent == 0 {
            return false;
        }
        let taken = self.retry_credit.fetch_sub(100, Ordering::Relaxed);
        if taken < 100 {
            self.retry_credit.fetch_add(100, Ordering::Relaxed);
        }
        taken >= 100
    }

    /// Servers that a client of the other family cannot be passed on to under its own address.
    pub fn of_other_family(&self, is_v4: bool) -> Vec<ServerId> {
        let other = |server: &&Arc<Server>| server.socket_address().is_some_and(|address| address.is_ipv4() != is_v4);
        self.members().servers.iter().filter(other).map(|server| server.id).collect()
    }

    /// A server for a request, which is counted in there.
    ///
    /// # Errors
    /// No other is to be had at the moment, or others wait for one already.
    pub fn take(&self, wish: Wish<'_>) -> Result<Taken<'_>, NoServer> {
        // A request that is tried again has had its turn.
        if !wish.is_again && self.queue.as_ref().is_some_and(|queue| queue.is_waited_in(Lane::Server)) {
            return Err(NoServer::Busy);
        }
        self.take_now(wish)
    }

    fn take_now(&self, wish: Wish<'_>) -> Result<Taken<'_>, NoServer> {
        let members = self.members();
        let rule = Rule {
            balance: &self.config.balance,
            slow_start: self.config.slow_start,
            in_flight: self.in_flight.load(Ordering::Relaxed),
            most: self.config.max_in_flight_per_server,
            tries_anyway: self.config.when_all_down == WhenAllDown::TryAnyway,
        };
        loop {
            let index = match members.schedule.choose(&members.servers, rule, wish) {
                Choice::Server(index) => index,
                Choice::Busy => return Err(NoServer::Busy),
                Choice::Nobody => return Err(NoServer::None),
            };
            let Some(server) = members.servers.get(index) else { return Err(NoServer::None) };
            if server.begin(most_of(server, rule)) {
                return Ok(Taken { server: Arc::clone(server), group: Some(self) });
            }
            // Another worker was faster; there is one place less to look for.
            server.end_trial();
        }
    }

    /// As [`Group::take`], for those whom it let wait.
    ///
    /// # Errors
    /// As there, and the queue is full, or the wait took too long.
    pub async fn take_in_turn(&self, wish: Wish<'_>, client: Option<Places>) -> Result<Taken<'_>, NoServer> {
        let Some(queue) = &self.queue else { return Err(NoServer::Busy) };
        let attempt = || match self.take_now(wish) {
            Err(NoServer::Busy) => None,
            taken => Some(taken),
        };
        queue.wait(Lane::Server, client, attempt).await.map_err(NoServer::from)?
    }

    /// Counts one request or tunnel of a server out.
    fn leave_server(&self, server: &Server) {
        server.end();
        self.queue.iter().for_each(|queue| queue.freed(Lane::Server));
    }

    /// A server is up again: who waits may go there.
    pub fn note_up(&self) {
        self.queue.iter().for_each(Queue::changed);
    }

    /// The hash of a client's address, where that decides on the server; of IPv6 all of it.
    pub fn hash_of_client(&self, client: Option<IpAddr>) -> Option<u64> {
        let by_client = matches!(self.config.balance, Balance::Hash { key: HashKey::Client, .. });
        let client = client.filter(|_| by_client)?;
        Some(match client.to_canonical() {
            IpAddr::V4(address) => maglev::hash(&address.octets()),
            IpAddr::V6(address) => maglev::hash(&address.octets()),
        })
    }

    /// What this value of the cookie says of the client's session, where there are sessions.
    pub fn session(&self, cookie: Option<&[u8]>) -> Session {
        let Some(sticky) = &self.sticky else { return Session::None };
        let Some(token) = cookie.and_then(|cookie| sticky.open(cookie)) else { return Session::New };
        let members = self.members();
        let server = members.servers.iter().find(|server| server.token == token && server.is_available());
        server.map_or(Session::Moved, |server| Session::At(server.id))
    }

    /// Whether it has a server that was not tried.
    pub fn has_other(&self, tried: &[ServerId]) -> bool {
        self.members().has_other(tried)
    }

    /// Whether a server other than these should be given requests.
    pub fn is_up_without(&self, server: &Server, tried: &[ServerId]) -> bool {
        let is_other = |other: &&Arc<Server>| other.id != server.id && !tried.contains(&other.id);
        self.members().servers.iter().filter(is_other).any(|other| other.is_available())
    }

    /// A server has responded with this status, its head after this time. True if that ejects it now.
    pub fn note_response(&self, server: &Server, status: Option<u16>, took: Option<Duration>) -> bool {
        let rule = self.config.ejection;
        let is_slow = rule.latency.is_some_and(|latency| took.is_some_and(|took| took > latency));
        if !is_slow && !status.is_some_and(|status| rule.statuses.contains(status)) {
            server.succeeded();
            return false;
        }
        // Rare, and never waited for by a request that goes well.
        let _one_at_a_time = self.ejecting.lock().unwrap_or_else(PoisonError::into_inner);
        server.failed_if(rule, || {
            let members = self.members();
            let ejected = members.servers.iter().filter(|server| server.is_ejected()).count();
            (ejected + 1) * 100 <= members.servers.len() * rule.max_percent as usize
        })
    }
}

/// Whether a group reads files or secrets while it is made.
fn has_inputs(config: &UpstreamConfig) -> bool {
    config.tls.is_some() || config.sticky.as_ref().is_some_and(|sticky| sticky.key.is_some())
}

/// The sticky session of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// The group has none.
    None,
    /// It begins with this request.
    New,
    /// Its server is gone or down: it begins again at another one.
    Moved,
    /// Its server.
    At(ServerId),
}

impl Session {
    /// Where its requests should go.
    pub fn server(self) -> Option<ServerId> {
        if let Session::At(server) = self { Some(server) } else { None }
    }

    /// Whether the client has to be given a cookie.
    pub fn begins(self) -> bool {
        matches!(self, Session::New | Session::Moved)
    }

    /// What became of it with a response of this server, for the log.
    pub fn outcome(self, server: &Server) -> Option<&'static str> {
        match self {
            Session::None => None,
            Session::New => Some("new"),
            Session::Moved => Some("moved"),
            Session::At(id) if id == server.id => Some("kept"),
            Session::At(_) => Some("elsewhere"),
        }
    }
}

/// Why a request or tunnel was not admitted to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The group has as many as it may have.
    OfAll,
    /// Its client has as many as one client may have.
    OfOneClient,
    /// It has waited for room for too long.
    ForTooLong,
}

impl Full {
    /// The reason for logs and metrics.
    pub fn reason(self) -> Reason {
        match self {
            Full::OfAll => Reason::UpstreamOverflow,
            Full::OfOneClient => Reason::TooManyInFlight,
            Full::ForTooLong => Reason::UpstreamQueueTimeout,
        }
    }
}

impl From<InVain> for Full {
    fn from(why: InVain) -> Full {
        match why {
            InVain::Full => Full::OfAll,
            InVain::FullOfOneClient => Full::OfOneClient,
            InVain::Timeout => Full::ForTooLong,
        }
    }
}

/// Why there is no server for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoServer {
    /// None is up, or all were tried.
    None,
    /// Those that are up have as much under way as they may have.
    Busy,
    /// As [`NoServer::Busy`], and its client has as many waiting for them as one client may have.
    BusyForClient,
    /// It has waited for one of them for too long.
    ForTooLong,
}

impl From<InVain> for NoServer {
    fn from(why: InVain) -> NoServer {
        match why {
            InVain::Full => NoServer::Busy,
            InVain::FullOfOneClient => NoServer::BusyForClient,
            InVain::Timeout => NoServer::ForTooLong,
        }
    }
}

/// A server that works on a request; counts it out when dropped.
#[derive(Debug)]
pub struct Taken<'g> {
    /// The server.
    pub server: Arc<Server>,
    /// None once a [`TunnelPlace`] counts it.
    group: Option<&'g Group>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.group.iter().for_each(|group| group.leave_server(&self.server));
    }
}

/// One admitted request or tunnel of a group; counts itself out when dropped.
#[derive(Debug)]
pub struct InFlight<'g> {
    /// None once a [`TunnelPlace`] counts it.
    group: Option<&'g Group>,
    /// Where its client is counted.
    places: Option<Places>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.group.iter().for_each(|group| group.leave(self.places));
    }
}

/// What an upgraded request occupies in its group and at its server for as long as its tunnel is open, or a flow of UDP; counts it out when dropped. It owns
/// both, since the tunnel outlives the exchange that borrowed them: requests that are not upgraded need not pay for that.
#[derive(Debug)]
pub struct TunnelPlace {
    group: Arc<Group>,
    server: Arc<Server>,
    places: Option<Places>,
}

impl TunnelPlace {
    /// Takes over what a request of this group counts. Nothing is counted out in between, so that nobody who waits gets that place.
    pub fn of(group: &Arc<Group>, mut in_flight: InFlight<'_>, mut taken: Taken<'_>) -> TunnelPlace {
        (in_flight.group, taken.group) = (None, None);
        // The server has responded: the next trial, if there is ever one, must not wait for the end of the tunnel.
        taken.server.end_trial();
        TunnelPlace { group: Arc::clone(group), server: Arc::clone(&taken.server), places: in_flight.places }
    }

    /// Whose server it is.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Where it is.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }
}

impl Drop for TunnelPlace {
    fn drop(&mut self) {
        self.group.leave_server(&self.server);
        self.group.leave(self.places);
    }
}
