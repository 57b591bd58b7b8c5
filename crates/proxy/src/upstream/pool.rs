//! Idle connections of one worker, kept by where they lead, newest first.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use net::clock::coarse;
use tokio::sync::Notify;
use transport::Transport;

use super::rest::{Care, MOMENT, Rest};
use super::server::{PoolId, Server, next_id};
use crate::http2::frames::Noticed;

/// Idle connections of the whole process.
static IDLE: AtomicUsize = AtomicUsize::new(0);

/// Idle connections of the whole process that serve one client each. Counted apart, so that they take nobody else's room.
static BOUND: AtomicUsize = AtomicUsize::new(0);

/// Idle connections to one server for one connection of a client. Those of HTTP/1.1 need one; requests at once on HTTP/2 open more, which end with them.
const MOST_BOUND: usize = 4;

/// One connection at rest.
#[derive(Debug)]
struct Idle {
    transport: Transport,
    since: Duration,
    rest: Rest,
}

impl Idle {
    fn is_fresh(&self) -> bool {
        coarse().saturating_sub(self.since) < self.rest.keep
    }

    /// Whether the server has no reason to close it.
    fn is_safe(&self) -> bool {
        self.rest.is_announced || coarse().saturating_sub(self.since) < MOMENT
    }
}

/// A client's connection for which connections are kept that serve nobody else. A number, since what is kept must not keep it alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding(u64);

impl Binding {
    /// That of one more connection of a client.
    pub fn next() -> Binding {
        Binding(next_id())
    }
}

/// For whom a connection is kept that says who its client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundTo {
    /// The client's connection.
    pub binding: Binding,
    /// The client, who may be one of several on the connection of a trusted proxy.
    pub client: Option<IpAddr>,
    /// Where it leads.
    pub pool: PoolId,
}

/// Connections to one server.
#[derive(Debug)]
struct ToServer<T> {
    server: Arc<Server>,
    connections: Vec<T>,
}

impl<T> ToServer<T> {
    fn of(server: &Arc<Server>) -> ToServer<T> {
        ToServer { server: Arc::clone(server), connections: Vec::new() }
    }
}

/// Streams we put on one HTTP/2 connection before opening another.
pub const STREAMS_PER_CONNECTION: usize = 100;

/// An HTTP/2 connection that many requests share.
#[derive(Debug)]
pub struct SharedConnection {
    sender: SendRequest<Bytes>,
    noticed: Rc<Noticed>,
    transport: Rc<Transport>,
    streams: Cell<u32>,
    closed: Cell<bool>,
    /// When it was last used, on the coarse clock, and how long it is kept without.
    used: Cell<Duration>,
    keep: Duration,
}

impl SharedConnection {
    /// A connection just opened, kept for `keep` without streams.
    pub fn new(
        sender: SendRequest<Bytes>,
        noticed: Rc<Noticed>,
        transport: Rc<Transport>,
        keep: Duration,
    ) -> SharedConnection {
        let (streams, closed) = (Cell::new(0), Cell::new(false));
        SharedConnection { sender, noticed, transport, streams, closed, used: Cell::new(coarse()), keep }
    }

    /// Whether it may be given new streams at all: it has not ended, and the server has not said that it takes no more.
    fn is_open(&self) -> bool {
        !self.closed.get() && !self.noticed.is_going_away()
    }

    /// Whether one more stream fits, by our bound and by the server's (RFC 9113 §5.1.2).
    fn has_capacity(&self) -> bool {
        let most = self.sender.current_max_send_streams().min(STREAMS_PER_CONNECTION);
        (self.streams.get() as usize) < most
    }

    /// Whether it is worth keeping.
    fn is_fresh(&self) -> bool {
        let is_used = self.streams.get() > 0 || coarse().saturating_sub(self.used.get()) < self.keep;
        is_used && self.is_open()
    }

    /// A handle to open a stream with.
    pub fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// What was noticed of the server's frames.
    pub fn noticed(&self) -> Rc<Noticed> {
        Rc::clone(&self.noticed)
    }

    /// What carries it.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// What has gone over it so far.
    pub fn traffic(&self) -> Traffic {
        let (written, heard) = self.noticed.traffic();
        Traffic { written, heard, sent: self.transport.traffic().1 }
    }

    /// Notes that the connection has ended.
    pub fn close(&self) {
        self.closed.set(true);
    }

    /// Counts a stream in until the guard is dropped.
    pub fn enter(self: &Rc<SharedConnection>) -> StreamSlot {
        self.streams.set(self.streams.get() + 1);
        StreamSlot(Rc::clone(self))
    }
}

/// An HTTP/2 connection that one request opens while others wait for it. Over when it is dropped: the connection can be shared, or there is none.
#[derive(Debug)]
pub struct Opening(Rc<Awaited>);

/// What those wait for who need a connection that another request opens.
#[derive(Debug, Default)]
pub struct Awaited {
    waiting: Cell<usize>,
    is_over: Cell<bool>,
    over: Notify,
}

impl Awaited {
    /// Waits until the connection can be shared, or there is none.
    pub async fn over(&self) {
        let over = self.over.notified();
        if !self.is_over.get() {
            over.await;
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        self.0.over.notify_waiters();
    }
}

/// Bytes that have gone over a shared connection.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// Of frames, towards the server.
    pub written: u64,
    /// Of frames, from it.
    pub heard: u64,
    /// On the socket, towards the server.
    pub sent: u64,
}

/// One stream on a shared connection.
#[derive(Debug)]
pub struct StreamSlot(Rc<SharedConnection>);

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
        self.0.used.set(coarse());
    }
}

/// The pools of one worker.
#[derive(Debug, Default)]
pub struct Pools {
    // Few keys, looked up twice for each request: a tree is one short scan.
    shared: RefCell<BTreeMap<PoolId, ToServer<Rc<SharedConnection>>>>,
    idle: RefCell<BTreeMap<PoolId, ToServer<Idle>>>,
    /// Those that serve one client each.
    bound: RefCell<BTreeMap<BoundTo, ToServer<Idle>>>,
    opening: RefCell<BTreeMap<PoolId, Rc<Awaited>>>,
}

impl Pools {
    /// A connection to this server that is still usable: nothing was received while it was idle. The newest first, so that surplus
    /// ones age and go.
    pub fn take(&self, pool: PoolId, care: Care) -> Option<Transport> {
        newest(&mut self.idle.borrow_mut().get_mut(&pool)?.connections, care, &IDLE)
    }

    /// As [`Pools::take`], of those that serve this client alone.
    pub fn take_bound(&self, to: BoundTo, care: Care) -> Option<Transport> {
        newest(&mut self.bound.borrow_mut().get_mut(&to)?.connections, care, &BOUND)
    }

    /// An HTTP/2 connection to this server with room for one more stream.
    pub fn share(&self, pool: PoolId) -> Option<Rc<SharedConnection>> {
        let mut shared = self.shared.borrow_mut();
        let connections = &mut shared.get_mut(&pool)?.connections;
        connections.retain(|connection| connection.is_open());
        connections.iter().find(|connection| connection.has_capacity()).cloned()
    }

    /// Says that a connection to this server is being opened, so that further requests wait for it.
    pub fn open_shared(&self, pool: PoolId) -> Opening {
        let awaited = Rc::<Awaited>::default();
        let mut opening = self.opening.borrow_mut();
        opening.retain(|_, other| !other.is_over.get());
        opening.insert(pool, Rc::clone(&awaited));
        Opening(awaited)
    }

    /// A connection to this server that is being opened and that one more request may wait for: it and its opener fit one connection.
    pub fn await_shared(&self, pool: PoolId) -> Option<Rc<Awaited>> {
        let opening = self.opening.borrow();
        let awaited = opening.get(&pool).filter(|awaited| !awaited.is_over.get())?;
        let waiting = awaited.waiting.get() + 1;
        if waiting >= STREAMS_PER_CONNECTION {
            return None;
        }
        awaited.waiting.set(waiting);
        Some(Rc::clone(awaited))
    }

    /// Lets later requests share a connection.
    pub fn add_shared(&self, server: &Arc<Server>, connection: &Rc<SharedConnection>) {
        let mut shared = self.shared.borrow_mut();
        let pool = shared.entry(server.pool()).or_insert_with(|| ToServer::of(server));
        pool.connections.push(Rc::clone(connection));
    }

    /// Keeps a connection, unless the process has `pool_max_idle` already or its server has left its group.
    pub fn put(&self, server: &Arc<Server>, transport: Transport, rest: Rest, pool_max_idle: usize) {
        keep_in((&self.idle, &IDLE), server.pool(), server, (transport, rest, pool_max_idle));
    }

    /// As [`Pools::put`], for one client alone.
    pub fn put_bound(&self, to: BoundTo, server: &Arc<Server>, transport: Transport, rest: Rest, pool_max_idle: usize) {
        let kept = self.bound.borrow().get(&to).map_or(0, |pool| pool.connections.len());
        if kept < MOST_BOUND {
            keep_in((&self.bound, &BOUND), to, server, (transport, rest, pool_max_idle));
        }
    }

    /// Closes what is kept for a client's connection that has ended.
    pub fn unbind(&self, binding: Binding) {
        let first = BoundTo { binding, client: None, pool: PoolId::MIN };
        let mut bound = self.bound.borrow_mut();
        while let Some((to, _)) = bound.range(first..).next().filter(|(to, _)| to.binding == binding) {
            let to = *to;
            let closed = bound.remove(&to).map_or(0, |pool| pool.connections.len());
            BOUND.fetch_sub(closed, Ordering::Relaxed);
        }
    }

    /// Closes connections that have been idle for too long, were ended by the server, or lead to one that has left its group; of the last, those that are
    /// shared end with their last stream. Called about once a second.
    pub fn sweep(&self) {
        self.idle.borrow_mut().retain(|_, pool| sweep(pool, &IDLE));
        self.bound.borrow_mut().retain(|_, pool| sweep(pool, &BOUND));
        self.shared.borrow_mut().retain(|_, pool| {
            let has_left = pool.server.has_left();
            pool.connections.retain(|connection| !has_left && connection.is_fresh());
            !pool.connections.is_empty()
        });
    }

    /// Closes everything, to free descriptors.
    pub fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        IDLE.fetch_sub(idle.values().map(|pool| pool.connections.len()).sum(), Ordering::Relaxed);
        let bound = std::mem::take(&mut *self.bound.borrow_mut());
        BOUND.fetch_sub(bound.values().map(|pool| pool.connections.len()).sum(), Ordering::Relaxed);
    }
}

/// The newest connection that is still usable, those before it closed.
fn newest(pool: &mut Vec<Idle>, care: Care, count: &AtomicUsize) -> Option<Transport> {
    while let Some(idle) = pool.pop() {
        count.fetch_sub(1, Ordering::Relaxed);
        // Bytes nobody asked for would become the response to the next request (RFC 9112 §6.3).
        let has_news = idle.transport.has_news() || (care != Care::Usual && idle.transport.has_unread());
        if has_news || !idle.is_fresh() {
            continue;
        }
        // A new connection takes its place. The others have rested for longer, and are for requests that may be sent again.
        return (care != Care::Unrepeatable || idle.is_safe()).then_some(idle.transport);
    }
    None
}

/// Keeps a connection, for so long at most and unless the process has so many.
fn keep_in<K: Ord>(
    (pools, count): (&RefCell<BTreeMap<K, ToServer<Idle>>>, &AtomicUsize),
    key: K,
    server: &Arc<Server>,
    (transport, rest, pool_max_idle): (Transport, Rest, usize),
) {
    if count.load(Ordering::Relaxed) >= pool_max_idle || server.has_left() {
        return;
    }
    count.fetch_add(1, Ordering::Relaxed);
    let idle = Idle { transport, since: coarse(), rest };
    pools.borrow_mut().entry(key).or_insert_with(|| ToServer::of(server)).connections.push(idle);
}

/// Closes what is not worth keeping of a pool; false if nothing is left.
fn sweep(pool: &mut ToServer<Idle>, count: &AtomicUsize) -> bool {
    let (before, has_left) = (pool.connections.len(), pool.server.has_left());
    pool.connections.retain(|idle| !has_left && idle.is_fresh() && !idle.transport.has_news());
    count.fetch_sub(before - pool.connections.len(), Ordering::Relaxed);
    !pool.connections.is_empty()
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.clear();
    }
}
