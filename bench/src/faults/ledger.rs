//! The ledger: what clients asked and received, what the upstreams saw, what the access log says, and the join of the three.
//!
//! It decides what "nothing lost" means (bench/README.md, "Faults") and knows nothing of processes or sockets. A request is known by its number
//! and a nonce, so that a response or an execution that belongs to another run or request is not taken for its own.

use std::collections::HashMap;
use std::time::Duration;

/// FNV-1a of 64 bits over the bytes so far: enough to see what is lost, doubled or mixed up by accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Of all these bytes.
    pub(super) fn of(bytes: &[u8]) -> u64 {
        let mut hash = Hash::default();
        hash.feed(bytes);
        hash.0
    }

    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A request's number, unique in its run, and its nonce.
pub(super) type Id = (u64, u64);

/// A whole answer, as the client has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Whose answer the upstream says it is; none on answers that no upstream of ours made.
    pub(super) id: Option<Id>,
    /// Hash of the request body that the upstream says it received.
    pub(super) received: Option<u64>,
    /// Hash of the response's body that the upstream says it sent.
    pub(super) promised: Option<u64>,
    /// Hash of the response's body that came.
    pub(super) body: u64,
}

/// How a request ended for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A whole answer, by its framing.
    Answered(Response),
    /// A head with this status, then visibly not the whole body.
    Cut(u16),
    /// Sent, at least in part, and no head came back.
    Reset,
    /// The connection could not be made; nothing was sent.
    Rejected,
    /// Nothing came within the client's patience.
    Hung,
}

/// One line of the client's ledger.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) id: Id,
    /// Whether it may be executed twice (GET).
    pub(super) idempotent: bool,
    /// Hash of the body sent.
    pub(super) sent: u64,
    pub(super) outcome: Outcome,
    /// Since the start of the load.
    pub(super) began: Duration,
    pub(super) took: Duration,
}

impl Asked {
    /// The status of a whole response.
    pub(super) fn status(&self) -> Option<u16> {
        match self.outcome {
            Outcome::Answered(response) => Some(response.status),
            _ => None,
        }
    }

    /// Whether the client has a whole 200.
    pub(super) fn is_ok(&self) -> bool {
        self.status() == Some(200)
    }
}

/// One line of an upstream's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Its head was read.
    Head(Id),
    /// It was read to the end, with this hash of its body, and hence executed.
    Executed(Id, u64),
}

/// What the access log has: status by request. None if the log was not kept.
pub(super) type Logged = Option<HashMap<Id, u16>>;

/// The outcome of a join. All but the first five must be 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Requests made.
    pub(super) requests: u64,
    /// 2xx, executed, hashes equal both ways.
    pub(super) ok: u64,
    /// Explicit 5xx, whose request no upstream saw twice.
    pub(super) rejected_5xx: u64,
    /// Resets, visible cuts and failed connections of such requests.
    pub(super) reset: u64,
    /// Idempotent requests that upstreams saw more than once.
    pub(super) retried: u64,
    /// 2xx without an execution.
    pub(super) lost: u64,
    /// Requests that must not be repeated and were seen more than once; executions of what nobody asked.
    pub(super) doubled: u64,
    /// Responses that look whole and are not, or are another's.
    pub(super) cut: u64,
    /// Known to a client and to an upstream or by a response, and not in the log, or there with another status.
    pub(super) unlogged: u64,
    /// Missing in the log, and excused: known to a process that was killed before it had written its lines. Not one of those that must be 0.
    pub(super) excused: u64,
    /// No end within the client's patience.
    pub(super) hung: u64,
    /// Statuses that no fault explains: 1xx, 3xx, 4xx.
    pub(super) strange: u64,
}

impl Decision {
    /// Whether nothing was lost, doubled or cut, and all of it is in the log.
    pub(super) fn clean(&self) -> bool {
        self.lost + self.doubled + self.cut + self.unlogged + self.hung + self.strange == 0
    }
}

/// What upstreams know of one request.
#[derive(Debug, Default)]
struct Sightings {
    heads: u64,
    executed: Vec<u64>,
}

/// Joins the three ledgers.
pub(super) fn join(asked: &[Asked], seen: &[Seen], logged: &Logged) -> Decision {
    join_but(asked, seen, logged, &|_| false)
}

/// The same, where the log may lack requests that are `excused`.
pub(super) fn join_but(asked: &[Asked], seen: &[Seen], logged: &Logged, excused: &dyn Fn(&Asked) -> bool) -> Decision {
    let mut sightings: HashMap<Id, Sightings> = HashMap::new();
    for one in seen {
        match one {
            Seen::Head(id) => sightings.entry(*id).or_default().heads += 1,
            Seen::Executed(id, hash) => sightings.entry(*id).or_default().executed.push(*hash),
        }
    }
    let mut decision = Decision { requests: asked.len() as u64, ..Decision::default() };
    for request in asked {
        let known = sightings.remove(&request.id).unwrap_or_default();
        check(request, &known, &mut decision);
        if let Some(lines) = logged {
            let line = lines.get(&request.id);
            let is_lacking = u64::from(!is_logged(request, &known, line));
            // A line that is there is to say the right thing, whoever was killed.
            match line.is_none() && excused(request) {
                true => decision.excused += is_lacking,
                false => decision.unlogged += is_lacking,
            }
        }
    }
    decision.doubled += sightings.values().map(|unknown| unknown.executed.len() as u64).sum::<u64>();
    decision
}

fn check(request: &Asked, known: &Sightings, decision: &mut Decision) {
    let times = known.heads.max(known.executed.len() as u64);
    if times > 1 && !request.idempotent {
        decision.doubled += 1;
        return;
    }
    decision.retried += u64::from(times > 1);
    match request.outcome {
        Outcome::Answered(response) if (200..300).contains(&response.status) => {
            if known.executed.is_empty() {
                decision.lost += 1;
            } else if is_faithful(request, &response, known) {
                decision.ok += 1;
            } else {
                decision.cut += 1;
            }
        }
        Outcome::Answered(response) if response.status >= 500 => decision.rejected_5xx += 1,
        Outcome::Answered(_) => decision.strange += 1,
        Outcome::Cut(_) | Outcome::Reset | Outcome::Rejected => decision.reset += 1,
        Outcome::Hung => decision.hung += 1,
    }
}

/// The right answer to the right request, whole in both directions.
fn is_faithful(request: &Asked, response: &Response, known: &Sightings) -> bool {
    response.id == Some(request.id)
        && response.received == Some(request.sent)
        && response.promised == Some(response.body)
        && known.executed.iter().all(|hash| *hash == request.sent)
}

/// A request that never came to the gate needs no line; one that was answered, or that an upstream saw, does.
fn is_logged(request: &Asked, known: &Sightings, line: Option<&u16>) -> bool {
    match (request.outcome, line) {
        (Outcome::Answered(response), Some(status)) => response.status == *status,
        (Outcome::Answered(_), None) => false,
        (_, None) => known.heads == 0,
        (_, Some(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Id = (7, 70);
    const BODY: u64 = 11;
    const REPLY: u64 = 22;

    fn whole(status: u16) -> Response {
        Response { status, id: Some(ID), received: Some(BODY), promised: Some(REPLY), body: REPLY }
    }

    fn once() -> Vec<Seen> {
        vec![Seen::Head(ID), Seen::Executed(ID, BODY)]
    }

    /// Joins one request with these sightings and this line, and expects exactly the fields that `set` sets beside the one request.
    #[track_caller]
    fn check(outcome: Outcome, idempotent: bool, seen: &[Seen], line: Option<u16>, set: fn(&mut Decision)) {
        let zero = Duration::ZERO;
        let asked = Asked { id: ID, idempotent, sent: BODY, outcome, began: zero, took: zero };
        let mut expected = Decision { requests: 1, ..Decision::default() };
        set(&mut expected);
        assert_eq!(join(&[asked], seen, &Some(line.map(|status| (ID, status)).into_iter().collect())), expected);
    }

    #[test]
    fn what_went_well_and_what_is_tolerated() {
        let (ok, bad) = (Outcome::Answered(whole(200)), Outcome::Answered(whole(502)));
        let twice = [once(), once()].concat();
        check(ok, false, &once(), Some(200), |decision| decision.ok = 1);
        check(ok, true, &twice, Some(200), |decision| (decision.ok, decision.retried) = (1, 1));
        check(bad, false, &[], Some(502), |decision| decision.rejected_5xx = 1);
        check(bad, false, &once(), Some(502), |decision| decision.rejected_5xx = 1);
        check(bad, true, &twice, Some(502), |decision| (decision.rejected_5xx, decision.retried) = (1, 1));
        check(Outcome::Cut(200), false, &once(), Some(200), |decision| decision.reset = 1);
        check(Outcome::Reset, false, &[Seen::Head(ID)], Some(0), |decision| decision.reset = 1);
        check(Outcome::Rejected, false, &[], None, |decision| decision.reset = 1);
    }

    #[test]
    fn what_must_not_be() {
        let ok = Outcome::Answered(whole(200));
        check(ok, false, &[], Some(200), |decision| decision.lost = 1);
        check(ok, false, &[Seen::Head(ID)], Some(200), |decision| decision.lost = 1);
        check(ok, false, &[once(), once()].concat(), Some(200), |decision| decision.doubled = 1);
        check(Outcome::Reset, false, &[Seen::Head(ID), Seen::Head(ID)], Some(0), |decision| decision.doubled = 1);
        check(Outcome::Hung, true, &[], None, |decision| decision.hung = 1);
        check(Outcome::Answered(whole(404)), true, &[], Some(404), |decision| decision.strange = 1);
        check(ok, true, &[Seen::Head(ID), Seen::Executed(ID, BODY + 1)], Some(200), |decision| decision.cut = 1);
        for changed in [
            Response { id: Some((7, 71)), ..whole(200) },
            Response { id: None, ..whole(200) },
            Response { received: Some(BODY + 1), ..whole(200) },
            Response { body: REPLY + 1, ..whole(200) },
        ] {
            check(Outcome::Answered(changed), false, &once(), Some(200), |decision| decision.cut = 1);
        }
    }

    #[test]
    fn the_log_must_know_what_was_answered_or_passed_on() {
        let ok = Outcome::Answered(whole(200));
        check(ok, false, &once(), None, |decision| (decision.ok, decision.unlogged) = (1, 1));
        check(ok, false, &once(), Some(502), |decision| (decision.ok, decision.unlogged) = (1, 1));
        check(Outcome::Reset, false, &once(), None, |decision| (decision.reset, decision.unlogged) = (1, 1));
        check(Outcome::Reset, false, &[], None, |decision| decision.reset = 1);
    }

    #[test]
    fn what_a_killed_process_knew_may_lack_in_the_log_and_nothing_else() {
        let asked = |outcome| {
            [Asked { id: ID, idempotent: false, sent: BODY, outcome, began: Duration::ZERO, took: Duration::ZERO }]
        };
        let joined = |outcome, line: Option<u16>, is_excused: bool| {
            let logged = Some(line.map(|status| (ID, status)).into_iter().collect());
            let decision = join_but(&asked(outcome), &once(), &logged, &|_| is_excused);
            (decision.unlogged, decision.excused)
        };
        let ok = Outcome::Answered(whole(200));
        assert_eq!(joined(ok, None, true), (0, 1));
        assert_eq!(joined(ok, None, false), (1, 0));
        assert_eq!(joined(ok, Some(502), true), (1, 0), "there, with another status");
        assert_eq!(joined(Outcome::Reset, None, true), (0, 1));
        assert_eq!(joined(ok, Some(200), true), (0, 0));
    }

    #[test]
    fn executions_that_nobody_asked_for_are_counted() {
        let decision = join(&[], &[once(), once()].concat(), &None);
        assert_eq!(decision, Decision { doubled: 2, ..Decision::default() });
        assert!(!decision.clean() && Decision::default().clean());
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(Hash::of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Hash::of(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
