//! Whether a request may be sent again after a try that failed, and where to: what was executed, or may have been, goes nowhere else unless it is
//! idempotent (RFC 9110 §9.2.2). The loop over servers is in `exchange.rs`, the budget for retries in `upstream`.

use wire::http::{BodyFraming, RequestHead};

use crate::message::context::Failure;
use crate::message::rejection::Rejection;
use crate::message::sides::ResponseSink;

/// A try that failed.
#[derive(Debug)]
pub struct Failed {
    /// What the client gets if nothing else helps.
    pub failure: Failure,
    /// It counts against the server.
    pub servers_fault: bool,
    /// Where it may be sent after that.
    pub next: Next,
}

/// Where a request may be sent after a try that failed. None of it lets a server have the same request twice but [`Next::AsIfNew`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nowhere: it may have been executed, or a response has begun.
    Nowhere,
    /// To another server: this one did not execute it, or it is idempotent.
    OtherServer,
    /// As [`Next::OtherServer`], and no retry, which the budget would bound: this one could not be connected to and said so at once.
    AnyOther,
    /// As [`Next::OtherServer`], and it is no failure of this one: a connection that was used before ended before a word of response, as one does that the
    /// server closes at rest in that very moment. Where no other server can be asked, to this one on a fresh connection.
    AsIfNew,
}

/// What is known of a request whose try failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It may have been executed.
    Unknown,
    /// The server did not get it, or says that it has not looked at it.
    Unsent,
    /// As [`Fate::Unsent`], since the server could not be connected to and said so at once.
    NoConnection,
    /// As [`Fate::Unsent`], because of the connection: it had ended, or takes no more requests. That is no failure of the server.
    ConnectionOver,
    /// As [`Fate::Unsent`], because the server takes no more requests at the moment.
    TurnedAway,
    /// A connection that was used before ended before a word of response.
    Stale,
}

impl Failed {
    pub(crate) fn finally(failure: impl Into<Failure>) -> Failed {
        Failed { failure: failure.into(), servers_fault: false, next: Next::Nowhere }
    }
}

/// Whether a request may be sent once more although it may have run: it is idempotent and has no body that might be used up.
pub(crate) fn may_repeat(head: &RequestHead) -> bool {
    head.method.is_idempotent() && matches!(head.framing, BodyFraming::None | BodyFraming::Length(0))
}

/// A failure on one connection.
pub(crate) struct OnConnection {
    pub(crate) failure: Failure,
    pub(crate) servers_fault: bool,
    /// What is known of the request. What is unsent can be sent again: nothing was taken of its body that is not kept.
    pub(crate) fate: Fate,
}

impl OnConnection {
    /// Whether the client can still be given another response.
    pub(crate) fn is_open(&self, sink: &impl ResponseSink) -> bool {
        !sink.has_begun() && matches!(self.failure, Failure::Rejected(_))
    }

    /// Where the request may be sent after this.
    pub(crate) fn check(self, request: &RequestHead, sink: &impl ResponseSink) -> Failed {
        let may_repeat = may_repeat(request);
        let next = match self.fate {
            _ if !self.is_open(sink) => Next::Nowhere,
            Fate::Stale if may_repeat => Next::AsIfNew,
            Fate::NoConnection if self.servers_fault => Next::AnyOther,
            Fate::Unsent | Fate::ConnectionOver | Fate::TurnedAway if self.servers_fault => Next::OtherServer,
            Fate::Unknown if self.servers_fault && may_repeat => Next::OtherServer,
            _ => Next::Nowhere,
        };
        Failed { failure: self.failure, servers_fault: self.servers_fault && self.fate != Fate::Stale, next }
    }

    pub(crate) fn servers(rejection: Rejection) -> OnConnection {
        OnConnection { failure: rejection.into(), servers_fault: true, fate: Fate::Unknown }
    }

    pub(crate) fn clients(failure: impl Into<Failure>) -> OnConnection {
        OnConnection { failure: failure.into(), servers_fault: false, fate: Fate::Unknown }
    }
}
