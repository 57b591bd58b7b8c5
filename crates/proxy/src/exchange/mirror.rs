//! Copies of requests for another upstream, which nobody waits for.
//!
//! A copy is sent by a task of its own, once the request is whole: its response is read and dropped, and what goes wrong is only counted. The request
//! itself is neither delayed nor changed: it is copied from what goes on anyway, within a bound, and a copy that would be too much is left out.

use std::cell::Cell;
use std::sync::Arc;

use config::{Forward, HostRewrite, Mirror};
use net::Deadline;
use wire::http::http1::write_field;
use wire::http::{BodyFraming, HeadLimits, Method};

use crate::guard::{Admitted, Copying};
use crate::message::body::BodyReader;
use crate::message::context::Context;
use crate::message::forwarding::{self, Facts};
use crate::own_request::read_head;
use crate::route::{self, Noted};
use crate::upstream::{Group, MirrorOutcome, Target, Wish, connect};

/// Copies that a worker is making or sending at a time.
const MAX_COPIES: usize = 256;

/// What is read of the response to a copy.
const RESPONSE_LIMITS: HeadLimits = HeadLimits { head_bytes: 32 * 1024, request_line_bytes: 8 * 1024, fields: 256 };

/// Bytes of the body of the response to a copy that are read before its connection is closed.
const MAX_DISCARDED_BYTES: usize = 256 * 1024;

thread_local! {
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

/// The place of a copy among those of its worker.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        UNDER_WAY.with(|count| (count.get() < MAX_COPIES).then(|| count.set(count.get() + 1))).map(|()| Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        UNDER_WAY.with(|count| count.set(count.get().saturating_sub(1)));
    }
}

/// A request that is to be copied.
pub(super) struct Duplicate {
    group: Arc<Group>,
    place: Place,
    method: Method,
    /// The request line, and the fields but Host and framing.
    start: Vec<u8>,
    fields: Vec<u8>,
    /// What goes as Host; none for the name of the server.
    host: Option<Vec<u8>>,
    body: Copying,
}

impl Duplicate {
    /// The copy of a request, if it is one of those that are copied and there is room for it.
    pub(super) fn of(
        mirror: &Mirror,
        forward: &Forward,
        admitted: &Admitted<'_>,
        context: Context<'_>,
        noted: Noted<'_>,
    ) -> Option<Box<Duplicate>> {
        let head = admitted.head();
        // What asks for another protocol is no request that could be sent twice.
        if head.upgrade.is_some() || fastrand::u32(..100) >= mirror.percent {
            return None;
        }
        let group = context.generation.group(&mirror.group)?;
        let is_long = matches!(head.framing, BodyFraming::Length(length) if length > mirror.max_body_bytes as u64);
        let Some(place) = Place::take().filter(|_| !is_long) else {
            group.mirrored.note(MirrorOutcome::Dropped);
            return None;
        };
        let facts = Facts { checked: admitted.is_under_contract(), continued: true, ..context.facts() };
        let forwarding = &context.generation.config.forwarding;
        let (route, params) = (&admitted.route().config, admitted.params());
        let mut start = head.method.as_str().as_bytes().to_vec();
        start.push(b' ');
        route::build_target(forward, head, || facts.values(head, params, noted, forwarding), &mut start).ok()?;
        start.extend_from_slice(b" HTTP/1.1\r\n");
        let mut fields = Vec::new();
        forwarding::request_fields(head, &facts, forwarding, noted, (route, params), |name, value| {
            if !name.eq_ignore_ascii_case(b"te") {
                write_field(name, value, &mut fields);
            }
        });
        let host = match &forward.host {
            HostRewrite::Upstream => None,
            rewrite => Some(forwarding::host(rewrite, head, b"").into_owned()).filter(|host| !host.is_empty()),
        };
        let body = Copying::new(mirror.max_body_bytes);
        Some(Box::new(Duplicate {
            group: Arc::clone(group),
            place,
            method: head.method.clone(),
            start,
            fields,
            host,
            body,
        }))
    }

    /// Where the pieces of the body are to be put.
    pub(super) fn body(&self) -> Copying {
        self.body.clone()
    }

    /// Sends the copy, unless its body is too long. `is_whole`: an upstream responded to the request, whose body has come to its end. Gives where it goes.
    pub(super) fn send(self: Box<Duplicate>, is_whole: bool) -> Option<Arc<Group>> {
        let Some(body) = self.body.take().filter(|_| is_whole) else {
            self.group.mirrored.note(MirrorOutcome::Dropped);
            return None;
        };
        let goes_to = Arc::clone(&self.group);
        tokio::task::spawn_local(async move {
            let Duplicate { group, place, method, start, fields, host, .. } = *self;
            let limit = group.config.total_timeout.unwrap_or(group.config.response_header_timeout);
            let parts = Parts { start, fields, host, body };
            let sending = Box::pin(deliver(&group, &method, parts));
            let outcome = Deadline::new().within(limit, sending).await;
            group
                .mirrored
                .note(outcome.ok().and_then(Result::ok).map_or(MirrorOutcome::Failed, |()| MirrorOutcome::Sent));
            drop(place);
        });
        Some(goes_to)
    }
}

/// What is sent.
struct Parts {
    start: Vec<u8>,
    fields: Vec<u8>,
    host: Option<Vec<u8>>,
    body: Vec<u8>,
}

/// A copy could not be delivered.
struct Undelivered;

/// Sends a copy to a server of the group, and reads what it responds.
async fn deliver(group: &Group, method: &Method, parts: Parts) -> Result<(), Undelivered> {
    let _in_flight = group.admit(None).map_err(|_| Undelivered)?;
    group.resolved(group.config.connect_timeout).await;
    let taken = group.take(Wish::default()).map_err(|_| Undelivered)?;
    let transport = connect(Target::own(group, &taken.server)).await.map_err(|_| Undelivered)?;
    let Parts { mut start, fields, host, body } = parts;
    write_field(b"Host", host.as_deref().unwrap_or(taken.server.authority.as_bytes()), &mut start);
    start.extend_from_slice(&fields);
    if !body.is_empty() || matches!(method, Method::Post | Method::Put | Method::Patch) {
        write_field(b"Content-Length", body.len().to_string().as_bytes(), &mut start);
    }
    start.extend_from_slice(b"Connection: close\r\n\r\n");
    start.extend_from_slice(&body);
    transport.send(&start).await.map_err(|_| Undelivered)?;
    let read = read_head(&transport, method, &RESPONSE_LIMITS).await;
    let (head, mut input) = read.map_err(|_| Undelivered)?;
    let mut reader = BodyReader::for_response(&transport, &mut input, head.framing);
    let mut read = 0;
    while let Some(piece) = reader.next().await.map_err(|_| Undelivered)? {
        read += piece.len();
        if read > MAX_DISCARDED_BYTES {
            break;
        }
    }
    Ok(())
}
