//! Whether a request may be sent again after a try that failed, and where to: what was executed, or may have been, goes nowhere else unless it is
//! idempotent (RFC 9110 §9.2.2). The loop over servers is in `exchange.rs`, the budget for retries in `upstream`.

use std::time::{Duration, Instant};

use config::{FailureStatuses, Hedge, Retries};
use reason::Reason;
use telemetry::{Ended, WorkerReport};
use wire::http::{BodyFraming, RequestHead};

use crate::message::context::Failure;
use crate::message::rejection::Rejection;
use crate::message::sides::ResponseSink;
use crate::upstream::{Group, Server, ServerId};

/// A try that failed.
#[derive(Debug)]
pub struct Failed {
    /// What the client gets if nothing else helps.
    pub failure: Failure,
    /// It counts against the server.
    pub servers_fault: bool,
    /// Where it may be sent after that.
    pub next: Next,
    /// What it was that failed.
    pub condition: Condition,
}

/// What a retry is a response to, as `retries.on` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The server did not get the request.
    Connect,
    /// The connection broke, or what came is no response.
    Reset,
    /// The head of the response took too long.
    Timeout,
    /// The response had a status that is retried.
    Status(u16),
}

impl Condition {
    /// As spans have it.
    pub(super) fn ended(self) -> Ended {
        match self {
            Condition::Connect => Ended::Failed("connect"),
            Condition::Reset => Ended::Failed("reset"),
            Condition::Timeout => Ended::Failed("timeout"),
            Condition::Status(status) => Ended::Status(status),
        }
    }

    fn is_retried(self, rule: &Retries) -> bool {
        match self {
            Condition::Connect => rule.on_connect,
            Condition::Reset => rule.on_reset,
            Condition::Timeout => rule.on_timeout,
            Condition::Status(status) => rule.statuses.contains(status),
        }
    }
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
    /// As [`Next::OtherServer`], and the budget has been charged for it.
    Paid,
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
    /// The response had a status that is retried, and the budget has been charged for it.
    Status(u16),
}

impl Failed {
    pub(crate) fn finally(failure: impl Into<Failure>) -> Failed {
        Failed { failure: failure.into(), servers_fault: false, next: Next::Nowhere, condition: Condition::Reset }
    }
}

/// The tries of one request.
#[derive(Debug)]
pub(super) struct Tries {
    /// Servers that had it, behind those that cannot have it.
    left_out: Vec<ServerId>,
    /// How many the latter are.
    unfit: usize,
    /// No connection at hand will do.
    fresh: bool,
    /// The failure of the last try.
    last: Option<Failure>,
    /// How often another server was asked beside one that had not responded yet.
    hedges: u32,
}

/// What is known of a try before it is made, where its end depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// Responses with these statuses are not passed on, if the budget has a retry.
    pub statuses: FailureStatuses,
    /// When the next server has its turn.
    pub until: Option<Instant>,
}

impl Tries {
    /// Those of a request that cannot go to these servers.
    pub(super) fn without(unfit: &[ServerId]) -> Tries {
        Tries { left_out: unfit.to_vec(), unfit: unfit.len(), fresh: false, last: None, hedges: 0 }
    }

    /// Servers that it is not sent to any more, or cannot be.
    pub(super) fn left_out(&self) -> &[ServerId] {
        &self.left_out
    }

    /// Servers that had it.
    fn tried(&self) -> usize {
        self.left_out.len() - self.unfit
    }

    /// Whether none has been made.
    pub(super) fn is_first(&self) -> bool {
        self.last.is_none()
    }

    /// Whether no connection at hand will do.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether the next try is at the server of the last one.
    pub(super) fn is_same_again(&self) -> bool {
        self.fresh && self.tried() == 0
    }

    /// What the client gets where no server is left.
    pub(super) fn last(self, otherwise: impl FnOnce() -> Failure) -> Failure {
        self.last.unwrap_or_else(otherwise)
    }

    /// Whether one more try may follow that at this server.
    fn has_next(&self, rule: &Retries) -> bool {
        // This one is not among those tried yet.
        rule.attempts.is_none_or(|most| self.tried() + 1 < most as usize)
    }

    /// When another server is asked beside the next one, if one may be: the request could be executed twice without harm.
    pub(super) fn hedge(&self, group: &Group, request: &RequestHead) -> Option<Hedge> {
        let hedge = group.config.retries.hedge?;
        let is_fit = may_repeat(request) && request.upgrade.is_none() && !request.is_extended_connect();
        let max = hedge.max.saturating_sub(self.hedges);
        (is_fit && max > 0).then_some(Hedge { max, ..hedge })
    }

    /// Leaves out a server that is being asked, so that another one is asked beside it; false where none may be.
    pub(super) fn goes_beside(&mut self, group: &Group, asked: &Server) -> bool {
        let may = self.has_next(&group.config.retries) && group.is_up_without(asked, &self.left_out);
        if may {
            self.hedges += 1;
            self.left_out.push(asked.id);
        }
        may
    }

    /// Takes that back: no other server was asked.
    pub(super) fn stays_alone(&mut self) {
        self.left_out.pop();
    }

    /// Of the servers that were asked beside each other, this one counts as the one that was asked last.
    pub(super) fn is_about(&mut self, server: &Server, newest: &Server) {
        if server.id != newest.id {
            self.left_out.retain(|other| *other != server.id);
            self.left_out.push(newest.id);
        }
    }

    /// What the try at this server ends by, where a status or a time may end it and another server have the request.
    pub(super) fn ahead(&self, group: &Group, server: &Server, request: &RequestHead) -> Option<Ahead> {
        let rule = &group.config.retries;
        if rule.statuses.is_empty() && rule.per_try_timeout.is_none() {
            return None;
        }
        let may_go_on = self.has_next(rule) && may_repeat(request) && group.is_up_without(server, &self.left_out);
        let until = rule.per_try_timeout.filter(|_| rule.on_timeout).map(|limit| Instant::now() + limit);
        may_go_on.then_some(Ahead { statuses: rule.statuses, until })
    }

    /// Notes a try that failed, and waits if it is to be waited before the next.
    ///
    /// # Errors
    /// There is no next one.
    pub(super) fn note(
        &mut self,
        failed: Failed,
        (group, server): (&Group, &Server),
        report: &WorkerReport,
    ) -> Result<Duration, Failure> {
        let rule = &group.config.retries;
        let is_wanted = failed.next == Next::AsIfNew || failed.condition.is_retried(rule);
        let may_go_on = is_wanted
            && match failed.next {
                Next::Nowhere => false,
                // Each server gets it once at most. Only where there is no other may it get it again: it may never have seen it.
                Next::AsIfNew if self.tried() == 0 && !group.is_up_without(server, &self.left_out) => {
                    !std::mem::replace(&mut self.fresh, true)
                }
                _ if !self.has_next(rule) => false,
                Next::AsIfNew | Next::AnyOther | Next::Paid => self.leave_out(server, group),
                Next::OtherServer => self.leave_out(server, group) && group.may_retry(report),
            };
        if !may_go_on {
            return Err(failed.failure);
        }
        self.last = Some(failed.failure);
        Ok(backoff(rule.backoff, self.tried()))
    }

    /// Leaves a server out of what follows. Whether there is another.
    fn leave_out(&mut self, server: &Server, group: &Group) -> bool {
        self.left_out.push(server.id);
        group.has_other(&self.left_out)
    }
}

/// The wait before a retry: a random part of what doubles with each server tried, up to ten times the first.
fn backoff(base: Duration, tried: usize) -> Duration {
    if base.is_zero() {
        return base;
    }
    let whole = base.saturating_mul(1 << tried.saturating_sub(1).min(4)).min(base.saturating_mul(10));
    whole.mul_f64(fastrand::f64())
}

/// Whether a request may be sent once more although it may have run: it is idempotent and has no body that might be used up.
pub(crate) fn may_repeat(head: &RequestHead) -> bool {
    head.method.is_idempotent() && !has_body(head)
}

/// Whether a request has a body.
pub(crate) fn has_body(head: &RequestHead) -> bool {
    !matches!(head.framing, BodyFraming::None | BodyFraming::Length(0))
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
            Fate::Status(_) => Next::Paid,
            _ => Next::Nowhere,
        };
        let condition = match (self.fate, &self.failure) {
            (Fate::Status(status), _) => Condition::Status(status),
            (Fate::NoConnection | Fate::Unsent | Fate::ConnectionOver | Fate::TurnedAway, _) => Condition::Connect,
            (_, Failure::Rejected(rejection)) if rejection.reason == Reason::ResponseHeaderTimeout => {
                Condition::Timeout
            }
            _ => Condition::Reset,
        };
        let servers_fault = self.servers_fault && self.fate != Fate::Stale;
        Failed { failure: self.failure, servers_fault, next, condition }
    }

    pub(crate) fn servers(rejection: Rejection) -> OnConnection {
        OnConnection { failure: rejection.into(), servers_fault: true, fate: Fate::Unknown }
    }

    pub(crate) fn clients(failure: impl Into<Failure>) -> OnConnection {
        OnConnection { failure: failure.into(), servers_fault: false, fate: Fate::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_ten_times_the_first() {
        fastrand::seed(1);
        assert_eq!(backoff(Duration::ZERO, 3), Duration::ZERO);
        for (tried, most) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (50, 1000)] {
            let longest = (0..1000).map(|_| backoff(Duration::from_millis(100), tried)).max();
            let most = Duration::from_millis(most);
            assert!(longest.is_some_and(|longest| longest <= most && longest > most * 9 / 10), "{tried}: {longest:?}");
        }
    }
}
