//! A connection as hub, handles and streams share it, and how they tell each other of news.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{Dir, StreamEvent, StreamId};

use crate::lost::Lost;
use crate::settings::{FIRST_BI_STREAMS, Settings, code};

/// Someone who waits.
#[derive(Default)]
pub(crate) struct Waiting(Cell<Option<Waker>>);

impl Waiting {
    /// Has the task of `context` woken next time.
    pub(crate) fn note(&self, context: &Context<'_>) {
        let waker = match self.0.take() {
            Some(waker) if waker.will_wake(context.waker()) => waker,
            _ => context.waker().clone(),
        };
        self.0.set(Some(waker));
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

/// Connections that have something to say, and the hub that says it.
#[derive(Default)]
pub(crate) struct Board {
    due: RefCell<VecDeque<Rc<Shared>>>,
    hub: Waiting,
}

impl Board {
    /// Has the hub look at a connection at the end of its turn.
    pub(crate) fn mark(&self, shared: &Rc<Shared>) {
        if !shared.is_due.replace(true) {
            self.due.borrow_mut().push_back(Rc::clone(shared));
            self.hub.wake();
        }
    }

    /// The next connection to look at.
    pub(crate) fn next(&self) -> Option<Rc<Shared>> {
        let shared = self.due.borrow_mut().pop_front()?;
        shared.is_due.set(false);
        Some(shared)
    }

    pub(crate) fn len(&self) -> usize {
        self.due.borrow().len()
    }

    /// The hub waits for connections to be marked.
    pub(crate) fn wait(&self, context: &Context<'_>) {
        self.hub.note(context);
    }
}

/// Who waits for news of one stream.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) readable: Waiting,
    pub(crate) reset: Waiting,
    pub(crate) writable: Waiting,
    pub(crate) stopped: Waiting,
    pub(crate) delivered: Waiting,
    /// All that was sent has been acknowledged, or there is nothing left to acknowledge.
    pub(crate) is_delivered: Cell<bool>,
    /// The code with which the peer wants no more.
    pub(crate) stop_code: Cell<Option<u64>>,
}

impl Watch {
    fn wake_all(&self) {
        [&self.readable, &self.reset, &self.writable, &self.stopped, &self.delivered]
            .into_iter()
            .for_each(Waiting::wake);
    }
}

/// A connection.
pub(crate) struct Shared {
    pub(crate) protocol: RefCell<quinn_proto::Connection>,
    pub(crate) board: Rc<Board>,
    pub(crate) local: SocketAddr,
    /// Where it shook hands from, which nobody can make up: what comes from elsewhere during a handshake is dropped (RFC 9000 §9).
    pub(crate) remote: SocketAddr,
    /// Its place in the hub.
    pub(crate) place: usize,
    pub(crate) settings: Rc<Settings>,
    /// Handles to the connection as a whole.
    pub(crate) handles: Cell<usize>,
    pub(crate) accept_bi: Waiting,
    pub(crate) accept_uni: Waiting,
    /// Its client is to go elsewhere.
    pub(crate) is_asked_to_leave: Cell<bool>,
    /// The peer was granted all its streams.
    grown: Cell<bool>,
    is_due: Cell<bool>,
    lost: RefCell<Option<Lost>>,
    losses: RefCell<Vec<Waker>>,
    streams: RefCell<BTreeMap<u64, Rc<Watch>>>,
}

impl Shared {
    pub(crate) fn new(
        protocol: quinn_proto::Connection,
        (place, local, remote): (usize, SocketAddr, SocketAddr),
        board: Rc<Board>,
        settings: Rc<Settings>,
    ) -> Shared {
        Shared {
            protocol: RefCell::new(protocol),
            board,
            local,
            remote,
            place,
            handles: Cell::new(0),
            accept_bi: Waiting::default(),
            accept_uni: Waiting::default(),
            is_asked_to_leave: Cell::new(false),
            grown: Cell::new(settings.max_bi_streams <= FIRST_BI_STREAMS),
            is_due: Cell::new(false),
            lost: RefCell::new(None),
            losses: RefCell::default(),
            streams: RefCell::default(),
            settings,
        }
    }

    /// Has the hub look at it.
    pub(crate) fn mark(self: &Rc<Shared>) {
        self.board.mark(self);
    }

    /// Why it is lost, if it is.
    pub(crate) fn lost(&self) -> Option<Lost> {
        self.lost.borrow().clone()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }

    /// It is lost. The first reason counts.
    pub(crate) fn lose(&self, why: Lost) {
        self.lost.borrow_mut().get_or_insert(why);
        self.accept_bi.wake();
        self.accept_uni.wake();
        self.losses.take().into_iter().for_each(Waker::wake);
        self.streams.borrow().values().for_each(|watch| watch.wake_all());
    }

    /// Has whoever accepts streams look whether its client is to go.
    pub(crate) fn ask_to_leave(&self) {
        self.is_asked_to_leave.set(true);
        self.accept_bi.wake();
    }

    /// Has the task of `context` woken when the connection is lost.
    pub(crate) fn wait_for_loss(&self, context: &Context<'_>) {
        let mut losses = self.losses.borrow_mut();
        if !losses.iter().any(|waker| waker.will_wake(context.waker())) {
            losses.push(context.waker().clone());
        }
    }

    /// Closes it from our side.
    pub(crate) fn close(self: &Rc<Shared>, error: u64, reason: &[u8]) {
        if self.is_lost() {
            return;
        }
        self.protocol.borrow_mut().close(Instant::now(), code(error), Bytes::copy_from_slice(reason));
        self.lose(Lost::Closed);
        self.mark();
    }

    /// Begins to watch a stream.
    pub(crate) fn watch(&self, id: StreamId) -> Rc<Watch> {
        Rc::clone(self.streams.borrow_mut().entry(id.into()).or_default())
    }

    /// A side of a stream is gone. `watch` is its own; the other side, if there is one, has one, too.
    pub(crate) fn forget(&self, id: StreamId, watch: &Rc<Watch>) {
        // The table's, and that of the side that is going.
        if Rc::strong_count(watch) <= 2 {
            self.streams.borrow_mut().remove(&u64::from(id));
        }
    }

    fn watched(&self, id: StreamId) -> Option<Rc<Watch>> {
        self.streams.borrow().get(&u64::from(id)).cloned()
    }

    /// Wakes whom the news of a stream concerns.
    pub(crate) fn tell(&self, event: &StreamEvent) {
        match *event {
            StreamEvent::Opened { dir: Dir::Bi } => self.accept_bi.wake(),
            StreamEvent::Opened { dir: Dir::Uni } => self.accept_uni.wake(),
            StreamEvent::Readable { id } => {
                if let Some(watch) = self.watched(id) {
                    watch.readable.wake();
                    watch.reset.wake();
                }
            }
            StreamEvent::Writable { id } => {
                if let Some(watch) = self.watched(id) {
                    watch.writable.wake();
                }
            }
            StreamEvent::Finished { id } => {
                if let Some(watch) = self.watched(id) {
                    watch.is_delivered.set(true);
                    watch.delivered.wake();
                }
            }
            StreamEvent::Stopped { id, error_code } => {
                if let Some(watch) = self.watched(id) {
                    watch.stop_code.set(Some(error_code.into_inner()));
                    [&watch.writable, &watch.stopped, &watch.delivered].into_iter().for_each(Waiting::wake);
                }
            }
            StreamEvent::Available { .. } => {}
        }
    }

    /// A peer that uses half of its first few streams at once gets all.
    pub(crate) fn grow(&self, protocol: &mut quinn_proto::Connection) {
        if !self.grown.get() && protocol.streams().remote_open_streams(Dir::Bi) >= u64::from(FIRST_BI_STREAMS / 2) {
            self.grown.set(true);
            self.give_places(protocol);
        }
    }

    /// Says how many streams the peer may open, if that is news to it (MAX_STREAMS).
    pub(crate) fn give_places(&self, protocol: &mut quinn_proto::Connection) {
        let most = self.settings.max_bi_streams;
        let places = if self.grown.get() { most } else { most.min(FIRST_BI_STREAMS) };
        protocol.set_max_concurrent_streams(Dir::Bi, places.into());
    }
}
