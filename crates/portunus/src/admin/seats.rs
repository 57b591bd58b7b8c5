//! Which places the connections of the admin side have while and after their requests are served.
//!
//! ```text
//! silent, unknown ──health check──→ one of those for checks ──served──→ silent, as the newest
//!        │        ──other page────→ one of those for pages  ──served──→ silent, as the newest
//!        └────────token or certificate shown → one of those for operators, until it ends
//! ```
//!
//! Where there is none, the request is served all the same, on a connection that may have to give way.

use std::sync::{Arc, Mutex, PoisonError};

use net::Seat;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections on which somebody has shown who it is.
const MAX_OPERATORS: usize = 32;

/// Health checks that are served at once.
const MAX_CHECKS: usize = 8;

/// Other requests of nobody in particular that are served at once.
const MAX_PAGES: usize = 8;

/// What a request is for, as far as places go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A health check, by anybody.
    Check,
    /// Whatever anybody may ask for besides, or may not.
    Page,
    /// Something that only those get who have shown who they are.
    Operator,
}

/// The places of one listener for those who are not silent.
#[derive(Debug)]
pub(super) struct Seats {
    operators: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    pages: Arc<Semaphore>,
}

impl Seats {
    pub(super) fn new() -> Seats {
        let some = |most| Arc::new(Semaphore::new(most));
        Seats { operators: some(MAX_OPERATORS), checks: some(MAX_CHECKS), pages: some(MAX_PAGES) }
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Sitting {
    silent: Seat,
    seats: Arc<Seats>,
    /// Kept once somebody has shown who it is.
    operator: Mutex<Option<OwnedSemaphorePermit>>,
}

/// The place of a request that is being served.
pub(super) struct Serving<'a> {
    sitting: &'a Sitting,
    place: Option<OwnedSemaphorePermit>,
}

impl Sitting {
    pub(super) fn new(silent: Seat, seats: Arc<Seats>) -> Sitting {
        Sitting { silent, seats, operator: Mutex::default() }
    }

    /// Waits until the connection has to give way.
    pub(super) async fn gives_way(&self) {
        self.silent.gives_way().await;
    }

    /// A request is there, and is served for as long as this is held.
    pub(super) fn serve(&self, purpose: Purpose) -> Serving<'_> {
        let mut operator = self.operator.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = match purpose {
            _ if operator.is_some() => return Serving { sitting: self, place: None },
            Purpose::Check => &self.seats.checks,
            Purpose::Page => &self.seats.pages,
            Purpose::Operator => &self.seats.operators,
        };
        let Ok(place) = Arc::clone(kind).try_acquire_owned() else { return Serving { sitting: self, place: None } };
        self.silent.rise();
        if purpose == Purpose::Operator {
            *operator = Some(place);
            return Serving { sitting: self, place: None };
        }
        Serving { sitting: self, place: Some(place) }
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if self.place.take().is_some() {
            self.sitting.silent.sit();
        }
    }
}
