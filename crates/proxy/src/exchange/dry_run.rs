//! The end of a dry run: what would be sent is written by what writes it for servers, and noted.

use std::sync::Arc;

use config::{Forward, ForwardTo, UpstreamProtocol};
use reason::Reason;

use super::forward::{check_upgrade, destination};
use super::replay::Replay;
use super::upstream_h1::{self, Attempt};
use super::{Exchange, affinity, upstream_h2};
use crate::auth::Subject;
use crate::guard::Admitted;
use crate::message::body::BodyError;
use crate::message::context::{Context, Failure};
use crate::message::dry_run::Forwarded;
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink};
use crate::onward::Onward;
use crate::route::{self, Noted, Sought};
use crate::upstream::{Group, Server};

/// Notes what would be sent of an admitted request.
///
/// # Errors
/// Its body breaks the contract, or there is no place for a part of its path where the route puts it.
pub(super) async fn forward<B: MessageBody, A: ResponseSink>(
    admitted: &Admitted<'_>,
    forward: &Forward,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    // Whoever validates a body as it passes sees it.
    loop {
        match exchange.body.next().await {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(BodyError::Validated(rejection)) => return Err((*rejection).into()),
            Err(BodyError::Malformed(error)) => return Err(Rejection::from(error).into()),
            Err(BodyError::Broken | BodyError::Truncated | BodyError::Void(_)) => return Err(Failure::Aborted),
        }
    }
    let context = exchange.context;
    let groups = groups(context, admitted, forward, &exchange.ledger.subject)?;
    let Some((group, _)) = groups.first() else { return Err(Rejection::of(Reason::UnknownUpstream).into()) };
    exchange.ledger.group = Some(Arc::clone(group));
    check_upgrade(admitted, group)?;
    let onward = Onward::of(context, group)?;
    let Some(server) = first_server(group) else { return Err(Rejection::of(Reason::NoHealthyUpstream).into()) };
    let (server, replay) = (&server, &Replay::default());
    let (pool, session) = (server.pool(), affinity::session(group, admitted.head()));
    let attempt = Attempt {
        context,
        admitted,
        forward,
        group,
        server,
        pool,
        fresh: true,
        ahead: None,
        session,
        onward: None,
        replay,
    };
    let (line, fields) = written(&attempt, exchange.ledger.noted())?;
    if let Some(notes) = &mut exchange.ledger.dry_run {
        let header = onward.as_ref().and_then(|onward| onward.header_to_send());
        let header = header.map(|(version, client)| (version, client.map(|client| client.ip())));
        let source = onward.as_ref().and_then(|onward| onward.source().address).map(|address| address.ip());
        notes.forwarded = Some(Forwarded { groups, line, header, source, fields });
    }
    Ok(())
}

/// The groups that may get a request, with their weights: several where only the weights decide.
fn groups(
    context: Context<'_>,
    admitted: &Admitted<'_>,
    forward: &Forward,
    subject: &Subject,
) -> Result<Vec<(Arc<Group>, u32)>, Rejection> {
    let ForwardTo::Split(shares) = &forward.to else {
        return Ok(vec![(destination(context, admitted, forward, subject)?, 1)]);
    };
    let sought = Sought { subject: Some(subject), ..context.sought(admitted.head()) };
    let held = route::held_share(shares, &sought).map(|share| (&share.group, 1));
    let weighted = shares.iter().filter(|share| share.weight > 0).map(|share| (&share.group, share.weight));
    let names: Vec<_> = held.map_or_else(|| weighted.collect(), |held| vec![held]);
    let group = |(name, weight): (&String, u32)| Some((Arc::clone(context.generation.group(name)?), weight));
    Ok(names.into_iter().filter_map(group).collect())
}

/// The first server of a group, as far as it is known without asking a name server.
fn first_server(group: &Group) -> Option<Arc<Server>> {
    let known = group.members().servers.first().cloned();
    known.or_else(|| group.config.servers.first().map(|config| Arc::new(Server::new(config, 0))))
}

/// A request line, and fields.
type Written = (String, Vec<(Vec<u8>, Vec<u8>)>);

fn written(attempt: &Attempt<'_>, noted: Noted<'_>) -> Result<Written, Rejection> {
    if attempt.group.config.protocol == UpstreamProtocol::Http2 {
        let request = upstream_h2::request(attempt, noted)?;
        let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let authority = request.uri().authority().map_or("", http::uri::Authority::as_str);
        let line = format!("{} {target} HTTP/2", request.method());
        let host = [(b":authority".to_vec(), authority.as_bytes().to_vec())];
        let fields = request.headers().iter().map(|(name, value)| (name.as_str().into(), value.as_bytes().to_vec()));
        return Ok((line, host.into_iter().chain(fields).collect()));
    }
    let mut head = Vec::new();
    upstream_h1::write_head(attempt, noted, &mut head)?;
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let field = |line: &[u8]| {
        let colon = memchr::memchr(b':', line)?;
        Some((line.get(..colon)?.to_vec(), line.get(colon + 1..)?.trim_ascii().to_vec()))
    };
    Ok((line, lines.filter_map(field).collect()))
}
