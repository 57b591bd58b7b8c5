//! What one core has to itself, and what all cores share.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Context;

use arc_swap::{ArcSwap, Cache};
use config::limits::Limits;
use telemetry::{Reporter, ValidationMemory, WorkerReport};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::admission::Admission;
use crate::generation::Generation;
use crate::http2::windows::Growth;
use crate::keyless::Clients;
use crate::loop_guard::Hops;
use crate::passport::{Own, Reported};
use crate::upstream::Pools;

/// What all workers share.
#[derive(Debug)]
pub struct Shared {
    /// The generation active. Swapped by reloads, read by every request.
    pub generation: Arc<ArcSwap<Generation>>,
    /// TLS context of all server connections.
    pub acceptor: Arc<tls::Acceptor>,
    /// Secrets of all QUIC connections.
    pub quic_secrets: quic::Secrets,
    /// How many connections there are, in total and by client.
    pub admission: Arc<Admission>,
    /// Tunnels that may lead into listeners of ours.
    pub hops: Arc<Hops>,
    /// How many UDP flows there are.
    pub flows: AtomicUsize,
    /// How many workers have begun to serve; those that took a dead one's place count too.
    pub workers_up: AtomicUsize,
    /// How many listening sockets are open.
    pub listening: AtomicUsize,
    /// How often each worker has kept house, which shows that it makes progress.
    pub beats: Box<[AtomicU64]>,
    /// Bytes that bodies take while contracts validate them.
    pub validation_memory: Arc<ValidationMemory>,
    /// Bytes that encoders of responses take.
    pub encoder_memory: AtomicUsize,
    /// Bytes by which windows of HTTP/2 and HTTP/3 have grown.
    pub window_memory: Arc<AtomicUsize>,
    /// Logs and metrics.
    pub reporter: Arc<Reporter>,
}

/// An open listening socket; counts itself out when dropped.
#[derive(Debug)]
pub struct Listening(Arc<Shared>);

impl Listening {
    /// Counts one in.
    pub fn new(shared: &Arc<Shared>) -> Listening {
        shared.listening.fetch_add(1, Ordering::Relaxed);
        Listening(Arc::clone(shared))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.listening.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A generation pinned by a worker; cloning touches no shared memory.
pub type Pinned = Rc<Arc<Generation>>;

/// One core's context.
#[derive(Debug)]
pub struct Worker {
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// This worker's counters and log lines.
    pub report: WorkerReport,
    /// Idle upstream connections of this worker.
    pub pools: Pools,
    /// This worker's clients of key servers.
    pub key_clients: Clients,
    /// The addresses of this machine.
    pub own: Own,
    /// What was reported once.
    pub reported: Reported,
    /// Wakes connections at rest when a stage of the shutdown begins: look at [`Worker::is_leaving`] and [`Worker::is_draining`] then.
    pub shutdown: Notify,
    aside: Cell<bool>,
    leaving: Cell<bool>,
    handed_over: Cell<bool>,
    draining: Cell<bool>,
    /// Tells without touching shared counters whether there is a newer generation.
    newest: RefCell<Cache<Arc<ArcSwap<Generation>>, Arc<Generation>>>,
    pinned: RefCell<Pinned>,
}

impl Worker {
    /// The context of worker `index`.
    pub fn new(shared: &Arc<Shared>, index: usize) -> Rc<Worker> {
        Rc::new(Worker {
            report: shared.reporter.worker(index),
            pools: Pools::default(),
            key_clients: Clients::default(),
            own: Own::default(),
            reported: Reported::default(),
            shutdown: Notify::new(),
            aside: Cell::new(false),
            leaving: Cell::new(false),
            handed_over: Cell::new(false),
            draining: Cell::new(false),
            newest: RefCell::new(Cache::new(Arc::clone(&shared.generation))),
            pinned: RefCell::new(Rc::new(shared.generation.load_full())),
            shared: Arc::clone(shared),
        })
    }

    /// The newest generation, to be held for one request.
    pub fn pin(&self) -> Pinned {
        let mut newest = self.newest.borrow_mut();
        let newest = newest.load();
        let mut pinned = self.pinned.borrow_mut();
        if !Arc::ptr_eq(newest, &pinned) {
            *pinned = Rc::new(Arc::clone(newest));
        }
        Rc::clone(&pinned)
    }

    /// How far the windows of a connection may grow: of `limits.max_receive_window` each stream has so much, as a divisor.
    pub fn window_growth(&self, limits: &Limits, streams: u32) -> Growth {
        let (most_of_stream, memory) = (limits.max_receive_window / streams, limits.max_receive_window_memory);
        Growth { most_of_stream, memory, taken: Arc::clone(&self.shared.window_memory) }
    }

    /// Whether clients are told to go elsewhere for their next request. New connections are still served.
    pub fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// Tells clients to go elsewhere for their next request, or does so no more. What is on its way out stays so.
    pub fn set_aside(&self, is_aside: bool) {
        let is_on_its_way = self.leaving.get() && !self.aside.get();
        if !is_on_its_way {
            self.aside.set(is_aside);
            self.leaving.set(is_aside);
            self.shutdown.notify_waiters();
        }
    }

    /// Whether another process accepts in our place.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.get()
    }

    /// Whether nothing new is accepted and idle connections end.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// From now on each response says that its connection closes.
    pub fn begin_leave(&self) {
        self.aside.set(false);
        self.leaving.set(true);
        self.shutdown.notify_waiters();
    }

    /// Leaves accepting to another process; clients are told to go there for their next request.
    pub fn begin_hand_over(&self) {
        self.handed_over.set(true);
        self.begin_leave();
    }

    /// Begins to drain: listeners and idle connections close, busy ones end politely.
    pub fn begin_drain(&self) {
        self.draining.set(true);
        self.begin_leave();
    }

    /// Has the task woken when the next stage of the shutdown begins. `stage` is [`Worker::shutdown`]'s, kept by the task.
    pub fn watch_shutdown<'w>(&'w self, mut stage: Pin<&mut Notified<'w>>, context: &mut Context<'_>) {
        while stage.as_mut().poll(context).is_ready() {
            stage.set(self.shutdown.notified());
        }
    }

    /// Waits until it drains.
    pub async fn drained(&self) {
        self.reached(|worker| worker.is_draining()).await;
    }

    /// Waits until it takes in nothing new: it drains, or another process has taken over.
    pub async fn closed(&self) {
        self.reached(|worker| worker.is_draining() || worker.is_handed_over()).await;
    }

    async fn reached(&self, stage: impl Fn(&Worker) -> bool) {
        loop {
            let next = self.shutdown.notified();
            if stage(self) {
                return;
            }
            next.await;
        }
    }
}
