//! Fixed responses: a body of the configuration or of a file, the same for each request or made for this one.

use config::{Action, HeaderEdits};
use transport::{buffer, recycle};
use wire::http::{BodyFraming, Fields, Method, RequestHead};

use super::compress::{self, Compressing};
use super::{own_fields, send_whole};
use crate::guard;
use crate::message::context::{Aborted, Context, Failure, client_failed};
use crate::message::ledger::Ledger;
use crate::message::sides::ResponseSink;
use crate::message::{encoder, forwarding};
use crate::responses::Compressible;
use crate::route::{CompiledRoute, Params};

/// Largest body of our own that is compressed, bytes: it is done in one turn, for each request.
const MAX_COMPRESSED_AT_ONCE: usize = 64 * 1024;

/// Sends the fixed response of a route.
pub(super) async fn respond(
    context: Context<'_>,
    (route, params): (&CompiledRoute, &Params),
    head: &RequestHead,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    guard::check_length(context, head, route)?;
    let Action::Respond { status, content_type, body, .. } = &route.config.action else { return Ok(()) };
    let responses = &context.generation.responses;
    let made = responses.template(route.index).map(|template| {
        let mut made = buffer();
        // In a body there is a place for any value.
        let _ = context.values(head, params, ledger.noted()).render(template, &mut made);
        made
    });
    let own = || responses.body(route.index).unwrap_or(body);
    let body = made.as_deref().unwrap_or_else(own);
    let fixed = Fixed { status: *status, content_type, body, made: made.is_some() };
    let sent = fixed.send(context, (route, params), head, sink, ledger).await;
    if let Some(made) = made {
        recycle(made);
    }
    sent
}

/// What is sent.
struct Fixed<'b> {
    status: u16,
    content_type: &'b str,
    body: &'b [u8],
    /// It holds values of the request.
    made: bool,
}

impl Fixed<'_> {
    async fn send(
        &self,
        context: Context<'_>,
        (route, params): (&CompiledRoute, &Params),
        head: &RequestHead,
        sink: &mut impl ResponseSink,
        ledger: &mut Ledger,
    ) -> Result<(), Failure> {
        let Fixed { status, content_type, body, made } = *self;
        let route = &route.config;
        let edits = &route.response_headers;
        ledger.status = status;
        sink.begin(status);
        own_fields(context, route, &context.values(head, params, ledger.noted()), sink);
        if made {
            made_fields(edits, |name, value| sink.field(name, value));
        }
        let compression = context.generation.responses.compression(&route.name, &context.conn.listener.name, head);
        if let Some(compression) = compression.filter(|_| (1..=MAX_COMPRESSED_AT_ONCE).contains(&body.len())) {
            let mut fields = Fields::new();
            fields.push(b"content-type", content_type.as_bytes());
            if made {
                made_fields(edits, |name, value| fields.push(name, value));
            }
            let subject = Compressible {
                request: head,
                has_certificate: context.facts().certificate.is_some(),
                status,
                fields: &fields,
                edits,
                length: Some(body.len() as u64),
            };
            let mut compressing = Compressing::of(context, compression, &subject, false);
            let compressed = compressing.take().and_then(|(encoder, _place)| compress::whole(encoder, body));
            if let Some(compressed) = compressed {
                compressing.own_fields(sink, std::iter::empty());
                ledger.compressed = compressing.encoding().map(|encoding| (encoder::name(encoding), body.len() as u64));
                let sent = send_whole(sink, content_type, &compressed, head, ledger).await;
                return sent.map_err(|Aborted| Failure::Aborted);
            }
            let is_head = head.method == Method::Head;
            if is_head || compressing.encoding().is_none() {
                compressing.own_fields(sink, std::iter::empty());
            }
            if is_head && compressing.encoding().is_some() {
                // Only compressing would tell the length.
                sink.field(b"Content-Type", content_type.as_bytes());
                sink.finish_head(BodyFraming::None, None);
                let ended = sink.end(None).await;
                return ended.map_err(|broken| client_failed(&broken, ledger)).map_err(|Aborted| Failure::Aborted);
            }
        }
        send_whole(sink, content_type, body, head, ledger).await.map_err(|Aborted| Failure::Aborted)
    }
}

/// Fields of a response whose body is made of a request, unless the route has its own: it is for nobody else, and nothing but what its type says.
fn made_fields(edits: &HeaderEdits, mut put: impl FnMut(&[u8], &[u8])) {
    for (name, value) in [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")] {
        let is_added = edits.add.iter().any(|(added, _)| added.eq_ignore_ascii_case(name));
        if !is_added && !forwarding::is_edited(edits, name.as_bytes()) {
            put(name.as_bytes(), value.as_bytes());
        }
    }
}
