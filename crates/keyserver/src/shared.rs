//! What the threads of a key server share, and a connection's place among those that may be open.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use config::KeyServerConfig;
use config::limits::KeyServerLimits;
use reason::Reason;
use telemetry::{KeyReport, KeyServerReporter};

use super::holdings::Holdings;
use super::queue::Scheduler;

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
    /// Requests of enrolment with tokens that are being decided.
    pub(super) strangers: AtomicUsize,
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
            strangers: AtomicUsize::new(0),
            beats: (0..config.workers.max(1)).map(|_| AtomicU64::new(0)).collect(),
            ready: Mutex::new(Err("starting")),
        })
    }

    pub(super) fn set_ready(&self, ready: Result<(), &'static str>) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = ready;
    }
}

/// A place among the connections; given back when dropped.
pub(super) struct Place(Arc<Shared>);

impl Place {
    pub(super) fn take(shared: &Arc<Shared>) -> Option<Place> {
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= shared.limits.max_connections {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            shared.reporter.connection_failed(Reason::TooManyConnections);
            return None;
        }
        shared.reporter.connection_opened();
        Some(Place(Arc::clone(shared)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.reporter.connection_closed();
    }
}
