//! One socket of one worker, and everything that happens on it.
//!
//! A turn: connections whose time has come and those with something to say are run, what they send leaves in one batch, then the next batch of datagrams is
//! received. Decides nothing about who may connect but by the bounds of [`Settings`]; the caller's `admit` does.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use net::places::Ticket;
use net::udp::{Batch, LONG_HEADER, position_of};
use net::{Link, Linked, Places, UdpListener};
use quinn_proto::{
    ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, EndpointEvent, Incoming, ServerConfig,
    TransportConfig,
};
use tls::{Acceptor, Alert, Chooser, Error};
use tokio::sync::mpsc::Receiver;

use crate::connection::Connection;
use crate::ids::Ids;
use crate::keys::{ResetKey, TokenKey};
use crate::lanes::{Lanes, Strayed, Whence};
use crate::links::Links;
use crate::lost::Lost;
use crate::outbox::Outbox;
use crate::session::{Door, Left, Outcome, VERSION};
use crate::settings::{Secrets, Settings};
use crate::shared::{Board, Shared};
use crate::timers::Timers;

/// Datagrams of one connection that leave as one piece.
const PIECE_DATAGRAMS: usize = 16;

/// Pieces of one connection before the others get their turn.
const PIECES_PER_TURN: usize = 4;

/// Turns before the other tasks of the worker get theirs.
const TURNS_IN_A_ROW: usize = 8;

/// Someone who wants to connect. Nothing has been decided, nothing is known but the address, which may be forged unless it `is_validated`.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// The address the packet came from.
    pub remote: SocketAddr,
    /// The address of ours it came to.
    pub local: SocketAddr,
    /// The address has been proved (Retry).
    pub is_validated: bool,
}

/// What becomes of an attempt.
pub enum Decision<K> {
    /// It may shake hands. The chooser is asked once for its certificate; `K` stays with the connection and comes with its event.
    Accept(Arc<dyn Chooser + Send + Sync>, K),
    /// It is refused (CONNECTION_REFUSED).
    Refuse,
    /// It gets no response.
    Ignore,
}

/// What a hub has to tell.
#[derive(Debug)]
pub enum Event<K> {
    /// A handshake is done.
    Accepted(Connection, K),
    /// A handshake failed.
    Failed(Failure, K),
}

/// A handshake that came to nothing.
#[derive(Debug)]
pub struct Failure {
    /// Who tried.
    pub remote: SocketAddr,
    /// The name that was asked for, as far as that came.
    pub server_name: Option<Box<str>>,
    /// Since the first packet.
    pub after: Duration,
    /// Why.
    pub cause: FailureCause,
}

/// Why a handshake failed.
#[derive(Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// TLS failed.
    Tls(Error),
    /// The key of the certificate is on a key server, which QUIC handshakes cannot wait for.
    RemoteKey,
    /// It took too long, or the client fell silent.
    TimedOut,
    /// Anything else.
    Lost(Lost),
}

/// The QUIC side of one listening socket. [`Hub::next`] drives all its connections; while nobody calls it, nothing moves. Dropped, it ends them all
/// without a word.
pub struct Hub<K> {
    listener: UdpListener,
    /// Taken while it is read.
    batch: Option<Batch>,
    outbox: Outbox,
    endpoint: Endpoint,
    acceptor: Arc<Acceptor>,
    settings: Rc<Settings>,
    /// What each connection is accepted with, but for its chooser; and its transport, without and with client certificates.
    config: ServerConfig,
    transports: (Arc<TransportConfig>, Arc<TransportConfig>),
    board: Rc<Board>,
    /// By the library's numbers, which it uses again.
    slots: Vec<Option<Slot<K>>>,
    open: usize,
    /// Handshakes under way, of addresses that are not proved and of those that are: the number of each in `slots`.
    unproved: Places<usize>,
    proved: Places<usize>,
    timers: Timers,
    events: VecDeque<Event<K>>,
    refuses_new: bool,
    is_handed_over: bool,
    /// Hubs on the same socket in other processes.
    links: Links,
    /// The hub of the address that has a link to the process before this one, where this one's socket is new.
    stand_in: Option<usize>,
    /// The other hubs of the address and what they pass to this one, where the kernel does not see to it.
    lanes: Option<(Arc<Lanes>, Receiver<Strayed>)>,
}

/// What a hub waits for.
#[derive(Default)]
struct News {
    /// Datagrams on the socket.
    has_come: bool,
    /// One that another hub of the address passed on.
    strayed: Option<Strayed>,
    /// One of another process.
    linked: Option<Strayed>,
}

/// The place of a connection.
struct Slot<K> {
    shared: Rc<Shared>,
    /// Until its handshake is done.
    opening: Option<Opening<K>>,
    timer: Option<Instant>,
}

struct Opening<K> {
    kept: K,
    outcome: Left,
    since: Instant,
    /// Its place among the handshakes.
    ticket: Option<Handshake>,
}

/// A place among the handshakes, of those whose address is proved or of the others.
struct Handshake {
    ticket: Ticket,
    is_proved: bool,
}

/// Places for so many handshakes, and how many of them one address has.
fn places((most, of_one): (usize, usize)) -> Places<usize> {
    Places::new(most, of_one)
}

impl<K> fmt::Debug for Hub<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({:?}, {} connections)", self.listener, self.open)
    }
}

impl<K> Drop for Hub<K> {
    fn drop(&mut self) {
        self.slots.iter().flatten().for_each(|slot| slot.shared.lose(Lost::Gone));
    }
}

impl<K> Hub<K> {
    /// A hub on `listener`. `acceptor` and `secrets` are those of the process; `lanes` are shared with the other hubs of the address, if
    /// [`net::UdpBound::prepare_for_quic`] says that the kernel does not steer.
    pub fn new(
        listener: UdpListener,
        acceptor: Arc<Acceptor>,
        secrets: &Secrets,
        settings: Settings,
        lanes: Option<Arc<Lanes>>,
    ) -> Hub<K> {
        let lanes = lanes.and_then(|lanes| lanes.open(listener.lane().0).map(|inbox| (lanes, inbox)));
        let ids = Ids::new(listener.lane());
        let mut endpoint = EndpointConfig::new(Arc::new(ResetKey(secrets.reset)));
        endpoint.cid_generator(move || Box::new(ids)).supported_versions(vec![VERSION]);
        let door = Door { acceptor: Arc::clone(&acceptor), chooser: None, outcome: Left::default() };
        let mut config = ServerConfig::new(Arc::new(door), Arc::new(TokenKey(secrets.token)));
        config.retry_token_lifetime(settings.retry_lifetime);
        Hub {
            listener,
            batch: Some(Batch::new()),
            outbox: Outbox::default(),
            endpoint: Endpoint::new(Arc::new(endpoint), Some(Arc::new(config.clone())), true, None),
            acceptor,
            transports: settings.transport(),
            config,
            board: Rc::default(),
            slots: Vec::new(),
            open: 0,
            unproved: places(settings.handshakes_before_retry),
            proved: places(settings.max_handshakes),
            timers: Timers::default(),
            events: VecDeque::new(),
            refuses_new: false,
            is_handed_over: false,
            links: Links::default(),
            stand_in: None,
            lanes,
            settings: Rc::new(settings),
        }
    }

    /// Receives, sends and runs timers until there is something to tell. May be dropped and called again.
    ///
    /// # Errors
    /// The socket cannot be read. The hub stays usable.
    pub async fn next(&mut self, admit: &mut dyn FnMut(Attempt) -> Decision<K>) -> io::Result<Event<K>> {
        let mut turns = 0;
        loop {
            self.turn();
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            turns += 1;
            if turns % TURNS_IN_A_ROW == 0 {
                tokio::task::yield_now().await;
            }
            let news = poll_fn(|context| self.poll_news(context)).await?;
            if news.has_come {
                self.take_in(admit);
            }
            if let Some(strayed) = news.strayed {
                self.take_in_strayed(strayed, admit);
            }
            if let Some(linked) = news.linked {
                self.take_in_one(linked, Instant::now(), admit);
            }
        }
    }

    /// New settings, for connections that come from now on.
    pub fn set(&mut self, settings: Settings) {
        self.transports = settings.transport();
        self.settings = Rc::new(settings);
    }

    /// Whether new connections are refused (CONNECTION_REFUSED) from now on; those that are open go on.
    pub fn refuse_new(&mut self, refuses: bool) {
        self.refuses_new = refuses;
    }

    /// The hub on the same socket in the process that this one takes over from: what is not for this one may be for that one.
    pub fn follow(&mut self, older: Link) {
        self.links.older = Some(older);
    }

    /// This one's socket is new: what is not for this one goes to the hub at that lane, which has a link to the process before this one.
    pub fn follow_by(&mut self, lane: usize) {
        self.stand_in = Some(lane);
    }

    /// The hub on the same socket in a process that is about to take over. With another number of sockets that process finds the hubs here by its own number:
    /// `lanes` is how these pass each other what is theirs.
    pub fn precede(&mut self, newer: Link, lanes: Option<Arc<Lanes>>) {
        self.links.newer = Some(newer);
        if self.lanes.is_none() {
            self.lanes = lanes.and_then(|lanes| lanes.open(self.listener.lane().0).map(|inbox| (lanes, inbox)));
        }
    }

    /// Whether the process that this one takes over from still has connections, whose datagrams come through here.
    pub fn has_predecessor(&self) -> bool {
        self.links.older.is_some()
    }

    /// That process has taken over: from now on it reads the socket, who wants to connect is its affair, and what is for this hub comes from there.
    pub fn hand_over(&mut self) {
        self.is_handed_over = true;
    }

    /// Has clients be told to go elsewhere, those on open connections and those whose handshake is under way (see [`Connection::is_asked_to_leave`]).
    pub fn ask_to_leave(&self) {
        self.slots.iter().flatten().for_each(|slot| slot.shared.ask_to_leave());
    }

    /// Closes all open connections at once, as [`Connection::close`] does.
    pub fn close_all(&self, error: u64, reason: &[u8]) {
        let is_open = |slot: &&Slot<K>| slot.opening.is_none();
        self.slots.iter().flatten().filter(is_open).for_each(|slot| slot.shared.close(error, reason));
    }

    /// Connections that are open or being opened or closed.
    pub fn connections(&self) -> usize {
        self.open
    }

    /// Ready with what came; if that is nothing, there are connections to run.
    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<io::Result<News>> {
        self.board.wait(context);
        // First: the socket may be ours again.
        let mut news = News { linked: self.links.poll_take(context), ..News::default() };
        // Two processes that read one socket would take each other's datagrams. One whose successor has died is alone again.
        if let Some(batch) = self.batch.as_mut().filter(|_| !self.is_handed_over || self.links.newer.is_none())
            && let Poll::Ready(received) = self.listener.poll_receive(batch, context)
        {
            received?;
            news.has_come = true;
        }
        if let Some((_, inbox)) = &mut self.lanes
            && let Poll::Ready(one) = inbox.poll_recv(context)
        {
            news.strayed = one;
        }
        if news.has_come || news.strayed.is_some() || news.linked.is_some() || self.board.len() > 0 {
            return Poll::Ready(Ok(news));
        }
        self.timers.poll(context).map(|()| Ok(news))
    }

    /// Hands the received datagrams to their connections.
    fn take_in(&mut self, admit: &mut dyn FnMut(Attempt) -> Decision<K>) {
        let Some(batch) = self.batch.take() else { return };
        let now = Instant::now();
        for piece in (0..batch.len()).map(|index| batch.get(index)) {
            let Some(from) = piece.from else { continue };
            for bytes in piece.datagrams().filter(|bytes| !bytes.is_empty()) {
                let linked = Linked { from, to: piece.to.map(|to| to.ip), ecn: piece.ecn, bytes };
                if !self.passes_on(linked, Whence::Socket) {
                    self.arrived(linked, (now, Whence::Socket), admit);
                }
            }
        }
        self.batch = Some(batch);
    }

    /// Hands what other hubs passed on to its connections.
    fn take_in_strayed(&mut self, first: Strayed, admit: &mut dyn FnMut(Attempt) -> Decision<K>) {
        let now = Instant::now();
        let mut next = Some(first);
        // No more at once than have waited: the socket has its turn, too.
        for _ in 0..Lanes::MOST_WAITING {
            let Some(strayed) = next else { return };
            self.arrived(strayed.linked(), (now, strayed.whence), admit);
            next = self.lanes.as_mut().and_then(|(_, inbox)| inbox.try_recv().ok());
        }
    }

    /// What another process passed on. If that one counts sockets otherwise, it may be another hub's.
    fn take_in_one(&mut self, one: Strayed, now: Instant, admit: &mut dyn FnMut(Attempt) -> Decision<K>) {
        if !self.passes_on(one.linked(), one.whence) {
            self.arrived(one.linked(), (now, one.whence), admit);
        }
    }

    /// Passes a datagram to the hub that its connection id names, if that is another one and the kernel does not see to it.
    fn passes_on(&self, datagram: Linked<'_>, whence: Whence) -> bool {
        let Some((lanes, _)) = &self.lanes else { return false };
        let (own, count) = self.listener.lane();
        match position_of(datagram.bytes, count) {
            Some(lane) if lane != own => {
                lanes.pass(lane, Strayed::of(datagram, whence));
                true
            }
            _ => false,
        }
    }

    /// Passes a datagram that no connection here knows to the processes before and after this one, but not back. False if there is none.
    fn passes_away(&mut self, datagram: Linked<'_>, whence: Whence) -> bool {
        let has_passed = self.links.pass(datagram, whence);
        match (self.stand_in, &self.lanes) {
            (Some(lane), Some((lanes, _))) if whence != Whence::Older => {
                lanes.pass(lane, Strayed::of(datagram, whence));
                true
            }
            _ => has_passed,
        }
    }

    fn arrived(
        &mut self,
        datagram: Linked<'_>,
        (now, whence): (Instant, Whence),
        admit: &mut dyn FnMut(Attempt) -> Decision<K>,
    ) {
        let Linked { from, to, ecn, bytes } = datagram;
        let ecn = EcnCodepoint::from_bits(ecn);
        let mut buffer = self.outbox.buffer();
        let response = match self.endpoint.handle(now, from, to, ecn, BytesMut::from(bytes), &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(slot) = self.slots.get(handle.0).and_then(Option::as_ref) {
                    slot.shared.protocol.borrow_mut().handle_event(event);
                    slot.shared.mark();
                }
                None
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.is_handed_over => {
                self.endpoint.ignore(incoming);
                self.passes_away(datagram, whence);
                None
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if !self.consider(incoming, now, buffer, admit) {
                    // Under keys of this packet's own it is none: it belongs to a handshake that began elsewhere.
                    self.passes_away(datagram, whence);
                }
                return;
            }
            Some(DatagramEvent::Response(transmit)) => {
                let has_passed = self.passes_away(datagram, whence);
                // As long as another process may know a connection, nobody says that it is forgotten (stateless reset). What else is said here are the versions
                // there are (RFC 9000 §6.1).
                let is_alone = self.links.is_empty() && self.stand_in.is_none() && !self.is_handed_over;
                let may_say = is_alone || bytes.first().is_some_and(|first| first & LONG_HEADER != 0);
                Some(transmit).filter(|_| may_say && !has_passed)
            }
            None => {
                self.passes_away(datagram, whence);
                None
            }
        };
        self.outbox.put(response, buffer);
    }

    /// Decides what becomes of an attempt to connect. False if that is no packet that a connection can begin with.
    fn consider(
        &mut self,
        incoming: Incoming,
        now: Instant,
        mut buffer: Vec<u8>,
        admit: &mut dyn FnMut(Attempt) -> Decision<K>,
    ) -> bool {
        let mut local = self.listener.local();
        if let Some(ip) = incoming.local_ip() {
            local.set_ip(ip);
        }
        let is_validated = incoming.remote_address_validated();
        let attempt = Attempt { remote: incoming.remote_address(), local, is_validated };
        // Who has not proved its address may be anybody: nobody gives way to it.
        let (before_retry, of_one) = self.settings.handshakes_before_retry;
        let is_busy = self.unproved.len() >= before_retry || of_one == 0 || {
            self.unproved.has_share(Some(attempt.remote.ip()))
        };
        let response = if self.refuses_new {
            Some(self.endpoint.refuse(incoming, &mut buffer))
        } else if is_busy && !is_validated {
            self.endpoint.retry(incoming, &mut buffer).map_err(|error| self.endpoint.ignore(error.into_incoming())).ok()
        } else {
            match admit(attempt) {
                Decision::Accept(chooser, kept) => {
                    return self.accept(incoming, (chooser, kept), attempt, now, buffer);
                }
                Decision::Refuse => Some(self.endpoint.refuse(incoming, &mut buffer)),
                Decision::Ignore => {
                    self.endpoint.ignore(incoming);
                    None
                }
            }
        };
        self.outbox.put(response, buffer);
        true
    }

    fn accept(
        &mut self,
        incoming: Incoming,
        (chooser, kept): (Arc<dyn Chooser + Send + Sync>, K),
        attempt: Attempt,
        now: Instant,
        mut buffer: Vec<u8>,
    ) -> bool {
        let outcome = Left::default();
        let mut config = self.config.clone();
        let (plain, with_chain) = &self.transports;
        config.transport = Arc::clone(if chooser.asks_for_certificates() { with_chain } else { plain });
        config.crypto = Arc::new(Door {
            acceptor: Arc::clone(&self.acceptor),
            chooser: Some(chooser),
            outcome: Arc::clone(&outcome),
        });
        let mut opening = Opening { kept, outcome, since: now, ticket: None };
        match self.endpoint.accept(incoming, now, &mut buffer, Some(Arc::new(config))) {
            Ok((ConnectionHandle(place), protocol)) => {
                let (board, settings) = (Rc::clone(&self.board), Rc::clone(&self.settings));
                let shared = Rc::new(Shared::new(protocol, (place, attempt.local, attempt.remote), board, settings));
                shared.mark();
                if self.slots.len() <= place {
                    self.slots.resize_with(place + 1, || None);
                }
                opening.ticket = Some(self.begins(place, attempt, now));
                self.slots[place] = Some(Slot { shared, opening: Some(opening), timer: None });
                self.open += 1;
                self.outbox.put(None, buffer);
                true
            }
            Err(error) => {
                // One that gets no response was not even a packet of QUIC.
                let is_one = error.response.is_some();
                if is_one {
                    self.events.push_back(opening.failed(attempt.remote, error.cause.into(), now));
                }
                self.outbox.put(error.response, buffer);
                is_one
            }
        }
    }

    /// Counts a handshake in. Where there are as many as there may be, the oldest of its client, or of whoever has the most, ends without a word.
    fn begins(&mut self, place: usize, attempt: Attempt, now: Instant) -> Handshake {
        let is_proved = attempt.is_validated;
        let (ticket, gives_way) = self.handshakes(is_proved).enter(Some(attempt.remote.ip()), place);
        if let Some(slot) = gives_way.and_then(|place| self.slots.get_mut(place)).and_then(Option::take) {
            let Slot { shared, opening, timer } = slot;
            let remote = shared.remote;
            self.timers.set(shared.place, timer, None);
            self.endpoint.handle_event(ConnectionHandle(shared.place), EndpointEvent::drained());
            self.open -= 1;
            shared.lose(Lost::Gone);
            self.events.extend(opening.map(|opening| opening.failed(remote, Lost::Gone, now)));
        }
        Handshake { ticket, is_proved }
    }

    /// Counts a handshake out, however it ended.
    fn ended(&mut self, handshake: Option<Handshake>) {
        if let Some(Handshake { ticket, is_proved }) = handshake {
            self.handshakes(is_proved).leave(ticket);
        }
    }

    fn handshakes(&mut self, is_proved: bool) -> &mut Places<usize> {
        if is_proved { &mut self.proved } else { &mut self.unproved }
    }

    /// Runs what is due, and sends.
    fn turn(&mut self) {
        let now = Instant::now();
        while let Some(place) = self.timers.pop(now) {
            self.wake(place, now);
        }
        for _ in 0..self.board.len() {
            let Some(shared) = self.board.next() else { break };
            self.drive(&shared, now);
        }
        self.outbox.flush(self.listener.as_fd());
    }

    /// The time of a connection has come.
    fn wake(&mut self, place: usize, now: Instant) {
        let limit = self.settings.handshake_timeout;
        let Some(slot) = self.slots.get_mut(place).and_then(Option::as_mut) else { return };
        slot.timer = None;
        slot.shared.protocol.borrow_mut().handle_timeout(now);
        if slot.opening.as_ref().is_some_and(|opening| now >= opening.since + limit)
            && let Some(mut opening) = slot.opening.take()
        {
            let (shared, handshake) = (Rc::clone(&slot.shared), opening.ticket.take());
            self.events.push_back(opening.failed(shared.remote, Lost::TimedOut, now));
            shared.close(0, b"");
            shared.mark();
            return self.ended(handshake);
        }
        slot.shared.mark();
    }

    /// Takes what a connection has to say to anybody.
    fn drive(&mut self, shared: &Rc<Shared>, now: Instant) {
        let place = shared.place;
        // One that has been given up, whose place another may have.
        if !self.slots.get(place).and_then(Option::as_ref).is_some_and(|slot| Rc::ptr_eq(&slot.shared, shared)) {
            return;
        }
        let protocol = &mut *shared.protocol.borrow_mut();
        while let Some(event) = protocol.poll() {
            match event {
                quinn_proto::Event::Connected => self.connected(place),
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.lost(place, shared.remote, reason.into(), now);
                }
                quinn_proto::Event::Stream(event) => shared.tell(&event),
                _ => {}
            }
        }
        shared.grow(protocol);
        if self.send(protocol, now) {
            shared.mark();
        }
        let mut is_drained = false;
        while let Some(event) = protocol.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(ConnectionHandle(place), event) {
                protocol.handle_event(event);
                shared.mark();
            }
        }
        let next = protocol.poll_timeout();
        self.set_timer(place, if is_drained { None } else { next });
        if is_drained {
            self.slots[place] = None;
            self.open -= 1;
            shared.lose(Lost::Gone);
        }
    }

    /// Sends for one connection; says whether it has more.
    fn send(&mut self, protocol: &mut quinn_proto::Connection, now: Instant) -> bool {
        for _ in 0..PIECES_PER_TURN {
            let mut buffer = self.outbox.buffer();
            let transmit = protocol.poll_transmit(now, PIECE_DATAGRAMS, &mut buffer);
            let is_last = transmit.is_none();
            self.outbox.put(transmit, buffer);
            if is_last {
                return false;
            }
        }
        true
    }

    fn set_timer(&mut self, place: usize, next: Option<Instant>) {
        let limit = self.settings.handshake_timeout;
        let Some(slot) = self.slots.get_mut(place).and_then(Option::as_mut) else { return };
        let last = slot.opening.as_ref().filter(|_| next.is_some()).map(|opening| opening.since + limit);
        let next = next.into_iter().chain(last).min();
        self.timers.set(place, slot.timer, next);
        slot.timer = next;
    }

    /// A handshake is done.
    fn connected(&mut self, place: usize) {
        let Some(slot) = self.slots.get_mut(place).and_then(Option::as_mut) else { return };
        let Some(mut opening) = slot.opening.take() else { return };
        let shared = Rc::clone(&slot.shared);
        self.ended(opening.ticket.take());
        if let Some(Outcome::Done(info)) = opening.outcome.get() {
            let connection = Connection::first(shared, (**info).clone());
            self.events.push_back(Event::Accepted(connection, opening.kept));
        }
    }

    /// A connection is lost, perhaps before it was one.
    fn lost(&mut self, place: usize, remote: SocketAddr, why: Lost, now: Instant) {
        let Some(slot) = self.slots.get_mut(place).and_then(Option::as_mut) else { return };
        slot.shared.lose(why.clone());
        if let Some(mut opening) = slot.opening.take() {
            self.ended(opening.ticket.take());
            self.events.push_back(opening.failed(remote, why, now));
        }
    }
}

impl<K> Opening<K> {
    /// It came to nothing.
    fn failed(self, remote: SocketAddr, why: Lost, now: Instant) -> Event<K> {
        let (cause, server_name) = match self.outcome.get() {
            Some(Outcome::Failed(error, name)) => (FailureCause::Tls(error.clone()), name.clone()),
            Some(Outcome::RemoteKey(name)) => (FailureCause::RemoteKey, name.clone()),
            Some(Outcome::Done(info)) => (cause(why), info.server_name.clone()),
            None => (cause(why), None),
        };
        Event::Failed(Failure { remote, server_name, after: now.duration_since(self.since), cause }, self.kept)
    }
}

/// What a loss means for a handshake. A client's alert comes as an error code (RFC 9001 §4.8).
fn cause(why: Lost) -> FailureCause {
    match why {
        Lost::TimedOut => FailureCause::TimedOut,
        Lost::ByPeerTransport(code @ 0x100..=0x1ff) => FailureCause::Tls(Error::PeerAlert(Alert(code as u8))),
        why => FailureCause::Lost(why),
    }
}
