//! Asks an authentication service whether a request may pass, as nginx's `auth_request`, Traefik's ForwardAuth and Envoy's `ext_authz` over HTTP do.
//!
//! It is shown a method, a URL and chosen fields, never a body. 2xx lets the request pass, with chosen fields of that response; 401, 403 and redirects go to
//! the client as they are; whatever else comes, or nothing in time, lets nobody in.

use std::cell::Cell;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use config::{ForwardAuth, REDACTED, RedirectQuery};
use net::Deadline;
use reason::Reason;
use telemetry::OncePerSecond;
use wire::http::field_kind::{FieldKind, is_own_of_client};
use wire::http::hop::is_nominated;
use wire::http::http1::write_field;
use wire::http::{Method, RequestHead, ResponseHead};
use wire::short_text::ShortText;

use crate::auth::Subject;
use crate::message::context::Context;
use crate::message::forwarding::{self, is_reported_secure};
use crate::message::rejection::{Rejection, Relayed};
use crate::own_request::{Answered, Failed, exchange};
use crate::route::{Values, build_location};
use crate::upstream::{Care, Group, Rest, Server, Target, Wish, connect};

/// Largest body of a response that is relayed, bytes: login pages, as a rule.
const MAX_RELAYED_BYTES: usize = 64 * 1024;

static FAILURES: OncePerSecond = OncePerSecond::new();

/// Lets a request pass if the service does; notes what it says of the client.
///
/// # Errors
/// What the service responds, or 502 or 503 where that is nothing it may.
pub(super) async fn ask(
    rule: &ForwardAuth,
    head: &RequestHead,
    context: Context<'_>,
    subject: &mut Subject,
) -> Result<(), Rejection> {
    // `//admin/users` is the path `/users` of a host to some servers (RFC 3986 §4.2), and another path than the upstream's.
    if target(rule, head).starts_with(b"//") {
        return Err(Rejection::of(Reason::AmbiguousPath));
    }
    let began = Instant::now();
    let result = match respond(rule, head, context).await {
        Ok(answered) => judge(rule, answered, subject),
        Err((reason, problem)) => Err(failed(rule, reason, &problem)),
    };
    let outcome = match &result {
        Ok(()) => "accepted",
        Err(rejection) => rejection.reason.code(),
    };
    context.worker.report.authentication("forward_auth", &rule.upstream, outcome, began.elapsed());
    result
}

/// The service's response, in time.
async fn respond(rule: &ForwardAuth, head: &RequestHead, context: Context<'_>) -> Result<Answered, (Reason, String)> {
    let slow = Cell::new(None);
    let asked = Deadline::new().within(rule.timeout, Box::pin(send(rule, head, context, &slow))).await;
    asked.unwrap_or_else(|_| {
        if let (Some(server), Some(group)) = (slow.take(), context.generation.group(&rule.upstream)) {
            let _ = server.failed(group.config.ejection);
        }
        Err((Reason::AuthServiceTimeout, "no whole response in time".to_owned()))
    })
}

/// What its response means for the request.
fn judge(rule: &ForwardAuth, answered: Answered, subject: &mut Subject) -> Result<(), Rejection> {
    let status = answered.head.status;
    match status {
        200..300 => note(rule, &answered.head, subject),
        304 => Err(failed(rule, Reason::AuthServiceInvalid, "the response was 304")),
        300..=399 if !rule.relay => {
            Err(failed(rule, Reason::AuthServiceInvalid, &format!("the response was {status}")))
        }
        300..=399 | 401 | 403 => Err(denied(answered)),
        _ => Err(failed(rule, Reason::AuthServiceInvalid, &format!("the response was {status}"))),
    }
}

/// What it would be asked, in words: the upstream, the request line, and what of its response would be taken over.
pub(super) fn question(rule: &ForwardAuth, head: &RequestHead, context: Context<'_>) -> String {
    let method = method_of(rule, head);
    let request = request(rule, head, context, &method, b"");
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    // What stands behind the path of the configuration may be a credential of ours.
    let line = match line.split_once('?').filter(|_| !rule.append_path || rule.path.contains('?')) {
        Some((line, _)) => format!("{line}?{REDACTED}"),
        None => line.trim_end_matches(" HTTP/1.1").to_owned(),
    };
    let copied = if rule.copy.is_empty() { String::new() } else { format!(", and copies {}", rule.copy.join(", ")) };
    format!("asks {}: {line}{copied}", rule.upstream)
}

/// The method of the question.
fn method_of(rule: &ForwardAuth, head: &RequestHead) -> Method {
    if rule.append_path { head.method.clone() } else { Method::Get }
}

/// Takes over what the service says of the client.
fn note(rule: &ForwardAuth, response: &ResponseHead, subject: &mut Subject) -> Result<(), Rejection> {
    for name in &rule.copy {
        let mut values = response.fields.get_all(name);
        match (values.next(), values.next()) {
            (None, _) => {}
            (Some(value), None) if subject.set(name, value).is_ok() => {}
            // Of two, the upstream might take either.
            _ => {
                return Err(failed(
                    rule,
                    Reason::AuthServiceInvalid,
                    &format!("it says {name} twice, or as no field can"),
                ));
            }
        }
    }
    if rule.set_cookies {
        response.fields.get_all("set-cookie").for_each(|cookie| subject.remembers(cookie));
    }
    let users = ["remote-user", "x-auth-request-user", "x-forwarded-user", "x-user"];
    let user =
        users.iter().find(|user| rule.copy.iter().any(|name| name == *user)).and_then(|name| response.fields.get(name));
    if let Some(user) = user.and_then(|user| std::str::from_utf8(user).ok()) {
        subject.is_user(user);
    }
    Ok(())
}

/// The service's own response, as far as it is for the client.
fn denied(answered: Answered) -> Rejection {
    let Answered { head, body } = answered;
    let mut relayed = Relayed { fields: Vec::new(), content_type: String::new(), body };
    for (name, value) in head.fields.iter() {
        let is_about_message = match FieldKind::of(name) {
            FieldKind::Hop | FieldKind::Ours | FieldKind::Expect => true,
            _ => name.eq_ignore_ascii_case(b"date") || is_nominated(&head.fields, name),
        };
        if name.eq_ignore_ascii_case(b"content-type") {
            relayed.content_type = String::from_utf8_lossy(value).into_owned();
        } else if !is_about_message {
            relayed.fields.push((name.to_vec(), value.to_vec()));
        }
    }
    Rejection::with_status(Reason::AuthServiceDenied, head.status).telling(|details| details.relayed = Some(relayed))
}

/// Of the service's rejection what the client gets: where it can sign in, or the response as far as that is relayed.
pub(super) fn to_sign_in(rule: &ForwardAuth, rejection: Rejection, values: &Values<'_>) -> Rejection {
    sign_in(rule, &rejection, values).unwrap_or_else(|| alone(rule, rejection))
}

/// Sends a client to sign in where the service says that it has not done so. The service's cookies go with it: it remembers by them who signs in.
fn sign_in(rule: &ForwardAuth, rejection: &Rejection, values: &Values<'_>) -> Option<Rejection> {
    let (page, relayed) = (rule.sign_in.as_ref()?, rejection.relayed().filter(|_| rejection.status == 401)?);
    let mut location = Vec::new();
    build_location(page, &[], RedirectQuery::Drop, values, &mut location).ok()?;
    let cookies = relayed.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie")).cloned();
    let fields = std::iter::once((b"Location".to_vec(), location)).chain(cookies).collect();
    // What was sent is not for the page (RFC 9110 §15.4.4).
    let status = if matches!(values.head().method, Method::Get | Method::Head) { 302 } else { 303 };
    let relayed = Relayed { fields, content_type: String::new(), body: Vec::new() };
    Some(Rejection::with_status(Reason::AuthServiceDenied, status).telling(|details| details.relayed = Some(relayed)))
}

/// Of the service's response what the client gets where it is not relayed: its status, and how to say who one is.
fn alone(rule: &ForwardAuth, rejection: Rejection) -> Rejection {
    let Some(relayed) = rejection.relayed().filter(|_| !rule.relay) else { return rejection };
    let asks = |(name, _): &&(Vec<u8>, Vec<u8>)| name.eq_ignore_ascii_case(b"www-authenticate");
    let fields: Vec<_> = relayed.fields.iter().filter(asks).cloned().collect();
    let relayed = Relayed { fields, content_type: String::new(), body: Vec::new() };
    Rejection::with_status(Reason::AuthServiceDenied, rejection.status)
        .telling(|details| details.relayed = Some(relayed))
}

fn failed(rule: &ForwardAuth, reason: Reason, problem: &str) -> Rejection {
    if let Some(suppressed) = FAILURES.allow() {
        tracing::warn!(upstream = rule.upstream, suppressed, "authentication service: {problem}");
    }
    Rejection::of(reason)
}

/// Why a server said nothing that counts.
enum NoAnswer {
    /// It could not be connected to; another one may be asked.
    Away(String),
    Failed(Reason, String),
}

/// Asks a server, and another one if that cannot be connected to. `asked` holds who is asked until it has responded.
async fn send(
    rule: &ForwardAuth,
    head: &RequestHead,
    context: Context<'_>,
    asked: &Cell<Option<Arc<Server>>>,
) -> Result<Answered, (Reason, String)> {
    let unavailable = |problem: &str| (Reason::AuthServiceUnavailable, problem.to_owned());
    let group = context.generation.group(&rule.upstream).ok_or_else(|| unavailable("there is no such upstream"))?;
    let _place = group.admit(None).map_err(|_| unavailable("too many requests to it are under way"))?;
    if group.is_resolving() {
        group.resolved(group.config.connect_timeout).await;
    }
    let (mut tried, mut problem) = (Vec::new(), "it has no server that is up".to_owned());
    loop {
        let wish = Wish { not: &tried, is_again: !tried.is_empty(), ..Wish::default() };
        let Ok(taken) = group.take(wish) else { return Err(unavailable(&problem)) };
        let server = &taken.server;
        asked.set(Some(Arc::clone(server)));
        let answer = ask_server(rule, head, context, (group, server)).await;
        asked.set(None);
        if answer.is_ok() {
            server.succeeded();
        } else {
            let _ = server.failed(group.config.ejection);
        }
        match answer {
            Ok(answered) => return Ok(answered),
            Err(NoAnswer::Failed(reason, problem)) => return Err((reason, problem)),
            Err(NoAnswer::Away(why)) => {
                tried.push(server.id);
                problem = why;
            }
        }
    }
}

/// Asks on a connection that is there, or else on a new one.
async fn ask_server(
    rule: &ForwardAuth,
    head: &RequestHead,
    context: Context<'_>,
    (group, server): (&Group, &Arc<Server>),
) -> Result<Answered, NoAnswer> {
    let method = method_of(rule, head);
    let request = request(rule, head, context, &method, server.authority.as_bytes());
    let pools = &context.worker.pools;
    loop {
        let pooled = pools.take(server.pool(), Care::Asked);
        let is_reused = pooled.is_some();
        let transport = match pooled {
            Some(transport) => transport,
            None => {
                let connected = connect(Target::own(group, server)).await;
                connected.map_err(|error| NoAnswer::Away(error.reason().code().to_owned()))?
            }
        };
        match exchange(&transport, &request, &method, MAX_RELAYED_BYTES).await {
            Ok((answered, is_free)) => {
                let fields = answered.head.fields.get_all("keep-alive");
                if let Some(rest) = Rest::after(group.config.pool_idle_timeout, fields).filter(|_| is_free) {
                    pools.put(server, transport, rest, group.config.pool_max_idle);
                }
                return Ok(answered);
            }
            // It was closed while it rested.
            Err(Failed::Silent) if is_reused => {}
            Err(Failed::Silent) => {
                let problem = "the connection ended without a response".to_owned();
                return Err(NoAnswer::Failed(Reason::AuthServiceUnavailable, problem));
            }
            Err(Failed::Invalid(problem)) => return Err(NoAnswer::Failed(Reason::AuthServiceInvalid, problem)),
        }
    }
}

/// What is asked for: the path of the rule, and behind it that of the request where the rule says so, joined by one slash; then the queries of both.
fn target(rule: &ForwardAuth, head: &RequestHead) -> Vec<u8> {
    if !rule.append_path {
        return rule.path.as_bytes().to_vec();
    }
    let (path, query) =
        rule.path.split_once('?').map_or((rule.path.as_str(), None), |(path, query)| (path, Some(query)));
    let mut out = path.trim_end_matches('/').as_bytes().to_vec();
    out.extend_from_slice(head.path());
    let queries = [query.map(str::as_bytes), head.query().strip_prefix(b"?")];
    for (query, separator) in queries.into_iter().flatten().filter(|query| !query.is_empty()).zip([b'?', b'&']) {
        out.push(separator);
        out.extend_from_slice(query);
    }
    out
}

/// The request that asks.
fn request(rule: &ForwardAuth, head: &RequestHead, context: Context<'_>, method: &Method, server: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(&target(rule, head));
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let facts = context.facts();
    let is_secure = facts.secure || is_reported_secure(head, &facts, &context.generation.config.forwarding);
    let scheme: &[u8] = if is_secure { b"https" } else { b"http" };
    let client = ShortText::of_address(context.client.address);
    let mut url = Vec::new();
    // Writing to memory cannot fail.
    let _ = write!(url, "{}://", if is_secure { "https" } else { "http" });
    url.extend_from_slice(&head.authority);
    url.extend_from_slice(&head.target);
    // The name of a Unix socket is no host.
    let server = if server.contains(&b'/') { b"localhost" } else { server };
    let host = forwarding::host(&rule.host, head, server);
    let mut put = |name: &[u8], value: &[u8]| write_field(name, value, &mut out);
    put(b"Host", &host);
    put(b"X-Forwarded-Method", head.method.as_str().as_bytes());
    put(b"X-Forwarded-Proto", scheme);
    put(b"X-Forwarded-Host", &head.authority);
    put(b"X-Forwarded-Uri", &head.target);
    put(b"X-Original-Method", head.method.as_str().as_bytes());
    put(b"X-Original-URL", &url);
    put(b"X-Original-URI", &head.target);
    if !client.as_bytes().is_empty() {
        put(b"X-Forwarded-For", client.as_bytes());
        put(b"X-Real-IP", client.as_bytes());
    }
    for (name, value) in head.fields.iter() {
        let is_sent = match rule.sends_all {
            true => is_own_of_client(name),
            false => rule.send.iter().any(|sent| name.eq_ignore_ascii_case(sent.as_bytes())),
        };
        if is_sent {
            put(name, value);
        }
    }
    if method.as_str() != "GET" && method.as_str() != "HEAD" {
        put(b"Content-Length", b"0");
    }
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use config::HostRewrite;

    use super::*;

    #[test]
    fn paths_are_joined_by_one_slash_and_queries_by_an_ampersand() {
        for (path, asked, expected) in [
            ("/", "/admin/users", "/admin/users"),
            ("/", "/", "/"),
            ("/", "/a?b=c", "/a?b=c"),
            ("/auth", "/a?b=c", "/auth/a?b=c"),
            ("/auth/", "/a/", "/auth/a/"),
            ("/auth//", "/a", "/auth/a"),
            ("/auth?x=1", "/fap/a", "/auth/fap/a?x=1"),
            ("/auth/?x=1", "/a?b", "/auth/a?x=1&b"),
            ("/?x=1", "/a?", "/a?x=1"),
            ("/?", "/a?b", "/a?b"),
            ("/", "//admin/users", "//admin/users"),
        ] {
            let rule = ForwardAuth {
                upstream: String::new(),
                path: path.to_owned(),
                append_path: true,
                host: HostRewrite::Upstream,
                send: Vec::new(),
                sends_all: false,
                copy: Vec::new(),
                set_cookies: false,
                relay: true,
                sign_in: None,
                timeout: Duration::ZERO,
            };
            let mut head = RequestHead::default();
            head.target.extend_from_slice(asked.as_bytes());
            head.path_len = asked.find('?').unwrap_or(asked.len());
            assert_eq!(target(&rule, &head).escape_ascii().to_string(), expected, "{path} {asked}");
            let alone = ForwardAuth { append_path: false, ..rule };
            assert_eq!(target(&alone, &head), path.as_bytes());
        }
    }
}
