//! What the threads of a key server share, and a connection's place among those that may be open.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use config::KeyServerConfig;
use config::limits::KeyServerLimits;
use net::{Places, Room, Seat};
use reason::Reason;
use telemetry::{KeyReport, KeyServerReporter};

use super::holdings::Holdings;
use super::queue::Scheduler;

/// Requests of enrolment by strangers that are decided at the same time; others are to come again.
const MAX_STRANGERS: usize = 16;

/// Of those, the ones of one address (IPv6: of one /64).
const MAX_STRANGERS_OF_ADDRESS: usize = 4;

/// Why the life of a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed between requests.
    Closed,
    /// Neither asked nor answered for too long.
    Idle,
    /// The server drains, and all is answered.
    Drained,
    /// The peer broke the rules, went silent within a message, or the connection broke: why, and details.
    Failed(Reason, String),
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) holdings: ArcSwap<Holdings>,
    /// Held by whoever replaces what is held: it builds on what is there, and nothing newer is lost.
    pub(super) changing: Mutex<()>,
    /// A key is being made.
    pub(super) is_making: AtomicBool,
    /// Of whoever makes keys.
    pub(super) maker_report: Mutex<KeyReport>,
    pub(super) acceptor: tls::Acceptor,
    pub(super) scheduler: Scheduler,
    pub(super) reporter: KeyServerReporter,
    pub(super) limits: KeyServerLimits,
    /// Whether ECDSA opcodes are answered for RSA keys.
    pub(super) mixed: bool,
    pub(super) connections: AtomicUsize,
    /// Those whose peer has not shown who it is, and the others.
    pub(super) strangers: Arc<Room>,
    pub(super) peers: Arc<Room>,
    /// Requests of enrolment with tokens that are being decided.
    pub(super) enrolling: Mutex<Places<()>>,
    /// How often each worker has shown that it makes progress.
    pub(super) beats: Box<[AtomicU64]>,
    /// Whether it serves; else why not.
    pub(super) ready: Mutex<Result<(), &'static str>>,
}

impl Shared {
    /// What a server of this configuration shares.
    ///
    /// # Errors
    /// The TLS library fails.
    pub(super) fn new(
        config: &KeyServerConfig,
        holdings: Holdings,
        reporter: KeyServerReporter,
    ) -> Result<Shared, String> {
        let (strangers, peers) = rooms(config.limits.max_connections, net::process::descriptors());
        let tickets = Arc::new(tls::TicketKeys::new(Duration::from_secs(12 * 3600)));
        let acceptor = tls::Acceptor::new(tickets).map_err(|error| format!("TLS cannot be set up: {error}"))?;
        Ok(Shared {
            holdings: ArcSwap::from_pointee(holdings),
            changing: Mutex::new(()),
            is_making: AtomicBool::new(false),
            maker_report: Mutex::new(reporter.thread()),
            acceptor,
            scheduler: Scheduler::new(&config.limits),
            reporter,
            limits: config.limits.clone(),
            mixed: config.ecdsa_opcodes_on_rsa_keys,
            connections: AtomicUsize::new(0),
            strangers,
            peers,
            enrolling: Mutex::new(Places::new(MAX_STRANGERS, MAX_STRANGERS_OF_ADDRESS)),
            beats: (0..config.workers.max(1)).map(|_| AtomicU64::new(0)).collect(),
            ready: Mutex::new(Err("starting")),
        })
    }

    pub(super) fn set_ready(&self, ready: Result<(), &'static str>) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = ready;
    }
}

/// Places of peers whose handshake is under way, and of those who have shown who they are: of the descriptors there are a quarter and a half at most.
fn rooms(configured: usize, descriptors: u64) -> (Arc<Room>, Arc<Room>) {
    let at_most = |part| configured.min(usize::try_from(part).unwrap_or(usize::MAX));
    let (strangers, peers) = (at_most(descriptors / 4), at_most(descriptors / 2));
    (Room::new(Places::shared(strangers)), Room::new(Places::new(peers, peers)))
}

/// The place of a connection; given back when dropped.
///
/// Until its peer has shown who it is, it is one of the strangers': there is always one, and the oldest gives way. So whoever connects without a certificate keeps those who have one
/// from nothing.
pub(super) struct Place {
    shared: Arc<Shared>,
    address: Option<IpAddr>,
    stranger: Seat,
    known: OnceCell<Seat>,
}

impl Place {
    pub(super) fn take(shared: &Arc<Shared>, address: Option<SocketAddr>) -> Place {
        let address = address.map(|address| address.ip());
        shared.connections.fetch_add(1, Ordering::Relaxed);
        shared.reporter.connection_opened();
        Place { shared: Arc::clone(shared), address, stranger: shared.strangers.enter(address), known: OnceCell::new() }
    }

    /// Its peer has shown who it is: whether there is a place for it.
    pub(super) fn is_known(&self) -> bool {
        let Some(seat) = self.shared.peers.enter_fairly(self.address) else { return false };
        self.stranger.rise();
        self.known.set(seat).is_ok()
    }

    /// Waits until it has to give way to another one, and says why it ends.
    pub(super) async fn gives_way(&self) -> (Reason, String) {
        self.known.get().unwrap_or(&self.stranger).gives_way().await;
        (Reason::TooManyConnections, "it yielded to another one".to_owned())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.reporter.connection_closed();
    }
}
