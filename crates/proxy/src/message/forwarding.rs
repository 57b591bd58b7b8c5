//! Which fields cross the gate, in both directions, and the fields that tell the upstream who the client is.
//!
//! Hop-by-hop fields end here (RFC 9110 §7.6.1). Identity fields are ours: copies from a client are dropped before ours are
//! written, unless the peer is a trusted proxy that sets them, and `Connection` cannot nominate ours away because ours are written last.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;
use std::net::IpAddr;

use config::{Forwarding, HeaderEdits, HostRewrite, RouteConfig, TracingConfig};
use telemetry::Trace;
use wire::http::field_kind::{FieldKind, folded};
use wire::http::hop::{is_forbidden_in_trailers, is_nominated, nominates_any};
use wire::http::http1::write_field;
use wire::http::{BodyFraming, Fields, RequestHead, ResponseHead, Version};
use wire::short_text::ShortText;
use wire::trace_context::{self, Parent};

use crate::auth::base64url::encode_base64;
use crate::client::{self, RequestClient};
use crate::connection::Texts;
use crate::contracts::unusual_names::{NameFate, UnusualNames};
use crate::field_fate::rewrites;
use crate::generation::Generation;
use crate::geoip::Located;
use crate::message::date;
use crate::message::rewrites::rewritten;
use crate::policies::Policies;
use crate::route::{Arrival, Noted, Params, Sought, Values};

/// What an upstream learns about the client.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Who sent the request.
    pub client: RequestClient,
    /// The request came over TLS.
    pub secure: bool,
    /// Who connected, and to which port.
    pub texts: &'a Texts,
    /// A contract has decided on its method: fields that speak of another one end here.
    pub checked: bool,
    /// The client was told to send its body already.
    pub continued: bool,
    /// The client's certificate, verified.
    pub certificate: Option<&'a tls::PeerCertificate>,
    /// What is set by policies, which say who the client is.
    pub policies: &'a Policies,
    /// The messages of the WebSocket that it opens are validated: what would hide them is not offered.
    pub validates_messages: bool,
    /// TLS of the connection.
    pub tls: Option<&'a tls::Info>,
    /// Where the client is.
    pub located: Located<'a>,
}

impl<'a> Facts<'a> {
    /// What templates of the route may hold of this request.
    pub fn values(
        &self,
        head: &'a RequestHead,
        params: &'a Params,
        noted: Noted<'a>,
        forwarding: &Forwarding,
    ) -> Values<'a> {
        let (client, located) = (self.client.address, self.located);
        // No condition is asked of it.
        let arrival = Arrival::default();
        let sought = Sought { head, client, tls: self.tls, subject: Some(noted.subject), located, arrival };
        let is_secure = self.secure || is_reported_secure(head, self, forwarding);
        Values { sought, params, request_id: noted.request_id, is_secure }
    }
}

/// Which trailers of a message go on. What cannot be said in its head cannot be said behind its body either: nothing that we write or that the
/// route sets or removes, nothing that `Connection` nominates, and in a request nothing that stands in its head, which was validated there.
#[derive(Debug, Clone, Copy)]
pub struct TrailerRule<'m> {
    head: &'m Fields,
    edits: &'m HeaderEdits,
    is_request: bool,
    sets_hsts: bool,
    /// Fields that only policies set, and names that are taken for others.
    generation: Option<&'m Generation>,
}

impl<'m> TrailerRule<'m> {
    /// Of a request on a route.
    pub fn of_request(head: &'m RequestHead, route: &'m RouteConfig, generation: &'m Generation) -> TrailerRule<'m> {
        let (head, edits) = (&head.fields, &route.request_headers);
        TrailerRule { head, edits, is_request: true, sets_hsts: false, generation: Some(generation) }
    }

    /// Of a response on a route.
    pub fn of_response(head: &'m ResponseHead, route: &'m RouteConfig) -> TrailerRule<'m> {
        let sets_hsts = route.hsts.is_some();
        let (head, edits) = (&head.fields, &route.response_headers);
        TrailerRule { head, edits, is_request: false, sets_hsts, generation: None }
    }

    /// Whether a trailer of this name goes on.
    pub fn allows(&self, name: &[u8]) -> bool {
        let is = |other: &[u8]| other.eq_ignore_ascii_case(name);
        let is_added = self.edits.add.iter().any(|(added, _)| is(added.as_bytes()));
        let is_ours = is_added || is_edited(self.edits, name) || (self.sets_hsts && is(b"strict-transport-security"));
        let is_said = self.is_request && self.head.iter().any(|(present, _)| is(present));
        let may_trail = FieldKind::of(name) == FieldKind::Plain
            && !is_forbidden_in_trailers(name)
            && !is_nominated(self.head, name);
        let is_subject = self.generation.is_some_and(|generation| generation.policies.is_subject_field(name));
        // A server may take it for another one, which may not be said here either.
        let is_taken_for = if self.is_request { folded(name) } else { None };
        let goes_on = |names: &UnusualNames| names.fate(name) == NameFate::GoesOn;
        let is_usual = self.generation.is_none_or(|generation| goes_on(&generation.unusual_names))
            && is_taken_for.is_none_or(|other| self.allows(&other));
        may_trail && !is_ours && !is_said && !is_subject && is_usual
    }
}

/// Removes the fields that `Connection` nominates as ending here (RFC 9110 §7.6.1), as soon as a head of HTTP/1 is read and before anything looks
/// at it: what routes, contracts and tokens were satisfied by is what goes on. Fields of the connection itself stay for those who serve them and
/// end later; what says where a message goes, what it is, or who the client is cannot be nominated.
pub fn remove_nominated(fields: &mut Fields) {
    if !nominates_any(fields) {
        return;
    }
    let all = fields.clone();
    let may_be = |name: &[u8]| {
        !matches!(FieldKind::of(name), FieldKind::Hop | FieldKind::Ours | FieldKind::Expect | FieldKind::Forwarding)
    };
    fields.retain(|name, _| !(may_be(name) && is_nominated(&all, name)));
}

/// Removes what says who the client is and comes from nobody who may say so, as soon as the client is known and before routes, contracts and tokens
/// look at the head: nothing may be decided by a field that ends here.
pub fn remove_unbelieved(fields: &mut Fields, client: &RequestClient, forwarding: &Forwarding) {
    // All names of these kinds begin with one of four letters.
    let may_be = |name: &[u8]| matches!(name.first(), Some(b'c' | b'C' | b'f' | b'F' | b't' | b'T' | b'x' | b'X'));
    let ends_here = |name: &[u8]| match FieldKind::of(name) {
        FieldKind::Forwarding => !(client.via_trusted && forwarding.trusts_field(name)),
        FieldKind::ClientCertificate => true,
        _ => false,
    };
    // Names of these kinds are few, and most requests have none.
    if fields.iter().any(|(name, _)| may_be(name) && ends_here(name)) {
        fields.retain(|name, _| !ends_here(name));
    }
}

/// The host that an upstream sees: the client's, with its port or without, a fixed one, or the server's own. A request without one gets the server's.
pub fn host<'h>(rewrite: &'h HostRewrite, head: &'h RequestHead, server: &'h [u8]) -> Cow<'h, [u8]> {
    match rewrite {
        HostRewrite::Fixed(host) => host.as_bytes().into(),
        HostRewrite::Upstream => server.into(),
        HostRewrite::Keep | HostRewrite::Name | HostRewrite::Port(_) if head.authority.is_empty() => server.into(),
        HostRewrite::Keep => head.authority.as_slice().into(),
        HostRewrite::Name => head.host().into(),
        HostRewrite::Port(port) => [head.host(), b":", port.to_string().as_bytes()].concat().into(),
    }
}

/// Gives the fields of a request as the upstream shall see them, but for Host and framing, to `put`, in order.
pub fn request_fields(
    head: &RequestHead,
    facts: &Facts<'_>,
    forwarding: &Forwarding,
    noted: Noted<'_>,
    (route, params): (&RouteConfig, &Params),
    mut put: impl FnMut(&[u8], &[u8]),
) {
    let edits = &route.request_headers;
    let has_edits = !edits.is_empty();
    let accepts_trailers = head.fields.get_all("te").any(|value| value.eq_ignore_ascii_case(b"trailers"));
    for (name, value) in head.fields.iter() {
        let keep = match FieldKind::of(name) {
            FieldKind::Plain => noted.trace.is_none() || !is_of_trace(name),
            FieldKind::MethodOverride => route.options.keep_method_override && !facts.checked,
            FieldKind::Expect => !facts.continued,
            FieldKind::Forwarding => {
                facts.policies.is_subject_field(name)
                    || (believes(facts, forwarding, name) && !rewrites(forwarding, name))
            }
            FieldKind::Hop | FieldKind::Ours | FieldKind::ClientCertificate | FieldKind::RequestId => false,
        };
        let hides = facts.validates_messages && name.eq_ignore_ascii_case(b"sec-websocket-extensions");
        if keep && !hides && !(has_edits && is_edited(edits, name)) {
            put(name, value);
        }
    }
    if accepts_trailers {
        put(b"TE", b"trailers");
    }
    // What a route removes or sets is not written by us beside it.
    let mut put_ours = |name: &[u8], value: &[u8]| {
        if !(has_edits && is_edited(edits, name)) {
            put(name, value);
        }
    };
    identity_fields(head, facts, forwarding, &mut put_ours);
    if forwarding.request_id {
        put_ours(b"X-Request-Id", noted.request_id);
    }
    if let Some(trace) = noted.trace {
        trace.put(&mut put_ours);
    }
    if has_edits {
        put_edited(edits, &facts.values(head, params, noted, forwarding), &mut put);
    }
}

/// Whether a field says which trace a request belongs to: where there are traces, we say that.
fn is_of_trace(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"traceparent") || name.eq_ignore_ascii_case(b"tracestate")
}

/// The trace of a request: that of a trusted peer, or a new one. What comes twice, or is malformed, is nobody's word.
pub fn trace(head: &RequestHead, client: &RequestClient, tracing: &TracingConfig) -> Trace {
    let mut parents = head.fields.get_all("traceparent");
    let parent = match (client.via_trusted, parents.next(), parents.next()) {
        (true, Some(value), None) => Parent::read(value),
        _ => None,
    };
    let state = parent.and_then(|_| trace_context::state(head.fields.get_all("tracestate")));
    Trace::of(parent, state, tracing.millionths)
}

/// The fields that a route writes.
pub(crate) fn put_edited(edits: &HeaderEdits, values: &Values<'_>, put: &mut impl FnMut(&[u8], &[u8])) {
    for (name, value) in edits.set.iter().chain(&edits.add) {
        values.field(value, |value| put(name.as_bytes(), value));
    }
}

/// Whether a trusted proxy in front of us says that the client speaks TLS to it.
pub(crate) fn is_reported_secure(head: &RequestHead, facts: &Facts<'_>, forwarding: &Forwarding) -> bool {
    reported_scheme(head, facts, forwarding).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https"))
}

fn reported_scheme<'h>(head: &'h RequestHead, facts: &Facts<'_>, forwarding: &Forwarding) -> Option<&'h [u8]> {
    reported(head, facts, forwarding, "x-forwarded-proto")
}

/// The scheme that the client used, in every field that says it: what a trusted peer says, else that of the connection.
fn client_scheme<'h>(head: &'h RequestHead, facts: &Facts<'_>, forwarding: &Forwarding) -> &'h [u8] {
    let own: &[u8] = if facts.secure { b"https" } else { b"http" };
    reported_scheme(head, facts, forwarding).unwrap_or(own)
}

pub(crate) fn is_edited(edits: &HeaderEdits, name: &[u8]) -> bool {
    edits.remove.iter().any(|removed| name.eq_ignore_ascii_case(removed.as_bytes()))
        || edits.set.iter().any(|(set, _)| name.eq_ignore_ascii_case(set.as_bytes()))
}

/// Whether a route says what becomes of a field.
pub(crate) fn writes(edits: &HeaderEdits, name: &[u8]) -> bool {
    is_edited(edits, name) || edits.add.iter().any(|(added, _)| name.eq_ignore_ascii_case(added.as_bytes()))
}

fn identity_fields(head: &RequestHead, facts: &Facts<'_>, forwarding: &Forwarding, put: &mut impl FnMut(&[u8], &[u8])) {
    let Texts { peer, port, is_port_said } = facts.texts;
    let is_peer = facts.client.address == facts.client.peer;
    let named = (!is_peer).then(|| ShortText::of_address(facts.client.address));
    let client = named.as_ref().unwrap_or(peer);
    let scheme = client_scheme(head, facts, forwarding);
    // What a trusted peer says of the client stands; of others only the socket is believed.
    let reported = |name: &str| reported(head, facts, forwarding, name);
    if forwarding.x_forwarded {
        put_chain(head, facts, forwarding, (client.as_bytes(), peer.as_bytes()), put);
        put(b"X-Forwarded-Proto", scheme);
        let host = reported("x-forwarded-host").unwrap_or(&head.authority);
        if forwarding.x_forwarded_host && !host.is_empty() {
            put(b"X-Forwarded-Host", host);
        }
    }
    if forwarding.x_forwarded && forwarding.x_forwarded_port {
        let host = reported("x-forwarded-host").unwrap_or(&head.authority);
        // A proxy that says the scheme alone ends TLS at a port of its own: ours is not the one that the client used.
        let of_scheme = || reported_scheme(head, facts, forwarding).map(|scheme| port_of(host, scheme));
        let said = reported("x-forwarded-port").or_else(|| if *is_port_said { None } else { of_scheme() });
        put(b"X-Forwarded-Port", said.unwrap_or(port.as_bytes()));
    }
    if forwarding.x_real_ip && !client.as_bytes().is_empty() {
        put(b"X-Real-IP", client.as_bytes());
    }
    if forwarding.forwarded {
        put_forwarded(head, facts, forwarding, scheme, put);
    }
    if forwarding.via {
        // A single field; earlier Via fields went on before it, which is the same list (RFC 9110 §7.6.3).
        let via: &[u8] = match head.version {
            Version::H10 | Version::H11 => b"1.1 portunus",
            Version::H2 => b"2 portunus",
            Version::H3 => b"3 portunus",
        };
        put(b"Via", via);
    }
    if let Some(certificate) = facts.certificate {
        put_certificate(certificate, put);
    }
}

/// The port of a URL with this authority and scheme: what it says, else that of the scheme (RFC 9110 §4.2).
fn port_of<'h>(authority: &'h [u8], scheme: &[u8]) -> &'h [u8] {
    let said = authority.iter().rposition(|byte| *byte == b':').and_then(|at| authority.get(at + 1..));
    let is_port = |port: &&[u8]| (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    let of_scheme: &[u8] = if scheme.eq_ignore_ascii_case(b"https") { b"443" } else { b"80" };
    said.filter(is_port).unwrap_or(of_scheme)
}

/// Whether the peer is believed in this field (in any case).
fn believes(facts: &Facts<'_>, forwarding: &Forwarding, name: &[u8]) -> bool {
    facts.client.via_trusted && forwarding.trusts_field(name)
}

/// What a trusted peer says in a field (lower case) that has one value.
fn reported<'h>(head: &'h RequestHead, facts: &Facts<'_>, forwarding: &Forwarding, name: &str) -> Option<&'h [u8]> {
    if believes(facts, forwarding, name.as_bytes()) { client::reported(&head.fields, name) } else { None }
}

/// The request id that a trusted peer gave.
pub fn given_id<'h>(head: &'h RequestHead, facts: &Facts<'_>, forwarding: &Forwarding) -> Option<&'h [u8]> {
    reported(head, facts, forwarding, "x-request-id")
}

/// `X-Forwarded-For`: what a trusted peer sent, else the client; then the peer, if it is another.
fn put_chain(
    head: &RequestHead,
    facts: &Facts<'_>,
    forwarding: &Forwarding,
    (client, peer): (&[u8], &[u8]),
    put: &mut impl FnMut(&[u8], &[u8]),
) {
    let is_sent = believes(facts, forwarding, b"x-forwarded-for") && head.fields.contains("x-forwarded-for");
    if !is_sent && client == peer {
        if !client.is_empty() {
            put(b"X-Forwarded-For", client);
        }
        return;
    }
    let mut chain = Vec::new();
    let mut push = |value: &[u8]| {
        chain.extend_from_slice(value);
        chain.extend_from_slice(b", ");
    };
    if is_sent {
        head.fields.get_all("x-forwarded-for").for_each(push);
    } else {
        push(client);
    }
    chain.extend_from_slice(if peer.is_empty() { b"unknown" } else { peer });
    put(b"X-Forwarded-For", &chain);
}

/// `Forwarded` (RFC 7239): what a trusted peer sent, else the client; then our element, about the peer.
fn put_forwarded(
    head: &RequestHead,
    facts: &Facts<'_>,
    forwarding: &Forwarding,
    scheme: &[u8],
    put: &mut impl FnMut(&[u8], &[u8]),
) {
    let mut chain = Vec::new();
    if believes(facts, forwarding, b"forwarded") && head.fields.contains("forwarded") {
        for value in head.fields.get_all("forwarded") {
            chain.extend_from_slice(value);
            chain.extend_from_slice(b", ");
        }
    } else if facts.client.address != facts.client.peer {
        put_node(facts.client.address, &mut chain);
        chain.extend_from_slice(b", ");
    }
    put_node(facts.client.peer, &mut chain);
    chain.extend_from_slice(b";host=\"");
    chain.extend_from_slice(&head.authority);
    chain.extend_from_slice(b"\";proto=");
    chain.extend_from_slice(scheme);
    put(b"Forwarded", &chain);
}

/// `for=` and an address.
fn put_node(address: Option<IpAddr>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"for=");
    match address {
        Some(IpAddr::V4(_)) => out.extend_from_slice(ShortText::of_address(address).as_bytes()),
        Some(IpAddr::V6(address)) => _ = write!(out, "\"[{address}]\""),
        None => out.extend_from_slice(b"unknown"),
    }
}

/// The client's certificate: the standard field (RFC 9440 §2.2) and readable parts of it.
fn put_certificate(certificate: &tls::PeerCertificate, put: &mut impl FnMut(&[u8], &[u8])) {
    let mut encoded = vec![b':'];
    encode_base64(&certificate.der, &mut encoded);
    encoded.push(b':');
    put(b"Client-Cert", &encoded);
    put(b"X-Client-Cert-Verified", b"SUCCESS");
    let mut names = Vec::new();
    names.extend(certificate.dns_names.iter().map(|name| format!("DNS:{}", list_value(name))));
    names.extend(certificate.uris.iter().map(|uri| format!("URI:{}", list_value(uri))));
    names.extend(certificate.emails.iter().map(|email| format!("EMAIL:{}", list_value(email))));
    names.extend(certificate.addresses.iter().map(|address| format!("IP:{address}")));
    let parts = [
        ("X-Client-Cert-Subject", &certificate.subject),
        ("X-Client-Cert-Issuer", &certificate.issuer),
        ("X-Client-Cert-Serial", &certificate.serial),
        ("X-Client-Cert-Fingerprint", &certificate.fingerprint),
        ("X-Client-Cert-San", &names.join(", ")),
    ];
    for (name, text) in parts {
        // A certificate may hold any character; a field may not.
        let safe: Vec<u8> = text.bytes().map(|byte| if (0x20..0x7f).contains(&byte) { byte } else { b'?' }).collect();
        put(name.as_bytes(), &safe);
    }
}

/// A name as it stands in a list that commas separate: itself if it is plain, else a JSON string in which everything but plain characters is
/// `\uXXXX`. So no comma stands within a name: whoever splits the list at commas, knowing of quotes or not, finds no name that the certificate
/// does not hold (class of CVE-2021-44532).
fn list_value(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, ',' | ';' | '"' | '\\');
    if name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::from("\"");
    for c in name.chars() {
        if is_plain(c) {
            quoted.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{unit:04x}");
            }
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// Gives the fields of a response as the client shall see them, but for framing and connection, to `put`, in order.
pub fn response_fields(
    head: &ResponseHead,
    (edits, values): (&HeaderEdits, Option<&Values<'_>>),
    hsts: Option<&str>,
    via: bool,
    mut put: impl FnMut(&[u8], &[u8]),
) {
    let has_edits = !edits.is_empty();
    let mut is_dated = head.status < 200 || is_edited(edits, b"date");
    for (name, value) in head.fields.iter() {
        is_dated |= name.eq_ignore_ascii_case(b"date");
        let keep = match FieldKind::of(name) {
            FieldKind::Hop => name.eq_ignore_ascii_case(b"proxy-authenticate"),
            FieldKind::Ours => name.eq_ignore_ascii_case(b"host"),
            _ => true,
        };
        let replaced = hsts.is_some() && name.eq_ignore_ascii_case(b"strict-transport-security");
        if keep && !replaced && !(has_edits && is_edited(edits, name)) {
            match (&edits.rewrites, values) {
                (Some(rewrites), Some(values)) => put(name, &rewritten(rewrites, values, name, value)),
                _ => put(name, value),
            }
        }
    }
    // Who hands a response on without one has to write when it came (RFC 9110 §6.6.1).
    if !is_dated {
        put(b"Date", &date::now());
    }
    if via {
        put(b"Via", b"1.1 portunus");
    }
    if let Some(hsts) = hsts {
        put(b"Strict-Transport-Security", hsts.as_bytes());
    }
    if let Some(values) = values {
        put_edited(edits, values, &mut put);
    }
}

/// Gives the fields of an interim response as the client shall see them to `put`: it has no body, and its connection is another one.
pub fn interim_fields(head: &ResponseHead, put: impl FnMut(&[u8], &[u8])) {
    response_fields(head, (&HeaderEdits::default(), None), None, false, put);
}

/// Appends the framing field of a message, if it needs one. `bodiless_length` is kept where a message has a length but no body (HEAD, 304).
pub fn write_framing(framing: BodyFraming, out: &mut Vec<u8>) {
    match framing {
        BodyFraming::Length(length) => write_field(b"Content-Length", ShortText::of_number(length).as_bytes(), out),
        BodyFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyFraming::None | BodyFraming::UntilClose => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_who_the_client_is_ends_here() {
        let mut fields = Fields::new();
        let ending = ["Forwarded", "TRUE-Client-IP", "cf-connecting-ip", "Client-Cert", "X-Forwarded-For", "x-real-ip"];
        for name in ["Host", "Cookie", "Expect", "TE"].into_iter().chain(ending) {
            fields.push(name.as_bytes(), b"1");
        }
        remove_unbelieved(&mut fields, &RequestClient::itself(None), &Forwarding::default());
        let left: Vec<&[u8]> = fields.iter().map(|(name, _)| name).collect();
        assert_eq!(left, [&b"Host"[..], b"Cookie", b"Expect", b"TE"]);
    }

    #[test]
    fn base64_pads() {
        for (plain, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let mut out = Vec::new();
            encode_base64(plain.as_bytes(), &mut out);
            assert_eq!(out, encoded.as_bytes());
        }
    }

    #[test]
    fn names_in_a_list_have_no_commas() {
        for (name, expected) in [
            ("a.example", "a.example"),
            ("spiffe://test/x?y=z&w=%2C", "spiffe://test/x?y=z&w=%2C"),
            ("https://x,DNS:admin", "\"https://x\\u002cDNS:admin\""),
            ("a\", DNS:b", "\"a\\u0022\\u002c\\u0020DNS:b\""),
            ("a\\", "\"a\\u005c\""),
            ("\u{1f600}", "\"\\ud83d\\ude00\""),
        ] {
            let value = list_value(name);
            assert_eq!(value, expected);
            let read = serde_json::from_str::<String>(&value).unwrap_or_else(|_| value.clone().into_owned());
            assert_eq!(read, name, "it comes back");
        }
    }

    #[test]
    fn kinds_ignore_case_and_length() {
        assert_eq!(FieldKind::of(b"CONNECTION"), FieldKind::Hop);
        assert_eq!(FieldKind::of(b"X-Forwarded-For"), FieldKind::Forwarding);
        assert_eq!(FieldKind::of(b"X-Client-Cert-Anything"), FieldKind::ClientCertificate);
        assert_eq!(FieldKind::of(b"X-HTTP-Method-Override"), FieldKind::MethodOverride);
        for longer in ["X-Client-Cert-Anything-Longer-Than-Ours", "x-client-cert-subject-alternative-name"] {
            assert_eq!(FieldKind::of(longer.as_bytes()), FieldKind::ClientCertificate, "{longer}");
        }
        for family in [
            "X-Forwarded-Prefix",
            "x-forwarded-client-cert",
            "X-Forwarded-Tls-Client-Cert-Info",
            "X-Original-Forwarded-For",
        ] {
            assert_eq!(FieldKind::of(family.as_bytes()), FieldKind::Forwarding, "{family}");
        }
        assert_eq!(FieldKind::of(b"Accept"), FieldKind::Plain);
        assert_eq!(FieldKind::of(b"X-Forwarded"), FieldKind::Plain);
        assert_eq!(FieldKind::of(&[b'a'; 300]), FieldKind::Plain);
    }
}
