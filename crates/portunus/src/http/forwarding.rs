//! Which fields cross the gate, in both directions, and the fields that tell the upstream who the client is.
//!
//! Hop-by-hop fields end here (RFC 9110 §7.6.1). Identity fields are ours: copies from a client are dropped before ours are
//! written, unless the peer is a trusted proxy, and `Connection` cannot nominate ours away because ours are written last.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use wire::http::hop::{is_nominated, nominates_any};
use wire::http::{BodyFraming, RequestHead, ResponseHead, Version};

use super::date;
use crate::config::{Forwarding, HeaderEdits, RouteConfig};

/// What an upstream is told about the client.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The socket's peer; none on Unix sockets.
    pub peer: Option<SocketAddr>,
    /// The peer may speak for others.
    pub trusted: bool,
    /// The request came over TLS.
    pub secure: bool,
    /// Port the client connected to.
    pub port: u16,
    /// A contract has decided on its method: fields that speak of another one end here.
    pub judged: bool,
    /// The client was told to send its body already.
    pub continued: bool,
    /// The client's certificate, verified.
    pub certificate: Option<&'a tls::PeerCertificate>,
}

/// How a field of a request is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Goes on unchanged.
    Plain,
    /// Ends here.
    Hop,
    /// Written anew by us: Host, framing.
    Ours,
    /// Believed from trusted peers only.
    Forwarding,
    /// Never believed.
    ClientCertificate,
    /// Kept from trusted peers, else made.
    RequestId,
    /// Another method than the one that was judged; goes on only where the route says so.
    MethodOverride,
    /// Asks to be told to continue.
    Expect,
}

/// Longest name that is special as a whole. Of longer ones the start alone is looked at.
const LONGEST_SPECIAL: usize = 24;

fn kind(name: &[u8]) -> Kind {
    let mut lower = [0; LONGEST_SPECIAL];
    let Some(lower) = lower.get_mut(..name.len()) else { return kind_by_start(name) };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    match &*lower {
        b"connection"
        | b"keep-alive"
        | b"proxy-connection"
        | b"te"
        | b"upgrade"
        | b"transfer-encoding"
        | b"proxy-authorization"
        | b"proxy-authenticate"
        | b"http2-settings" => Kind::Hop,
        b"host" | b"content-length" => Kind::Ours,
        b"forwarded"
        | b"x-real-ip"
        | b"x-client-ip"
        | b"x-cluster-client-ip"
        | b"true-client-ip"
        | b"x-original-forwarded-for"
        | b"x-original-host"
        | b"x-original-url"
        | b"x-rewrite-url" => Kind::Forwarding,
        b"client-cert" | b"client-cert-chain" => Kind::ClientCertificate,
        b"x-request-id" => Kind::RequestId,
        b"x-http-method-override" | b"x-http-method" | b"x-method-override" => Kind::MethodOverride,
        b"expect" => Kind::Expect,
        _ => kind_by_start(name),
    }
}

/// Families of names, whatever they go on with: an upstream may read members that we do not write.
fn kind_by_start(name: &[u8]) -> Kind {
    let begins = |start: &[u8]| name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    if !begins(b"x-") {
        Kind::Plain
    } else if begins(b"x-forwarded-") {
        Kind::Forwarding
    } else if begins(b"x-client-cert-") {
        Kind::ClientCertificate
    } else {
        Kind::Plain
    }
}

/// Gives the fields of a request as the upstream shall see them, but for Host and framing, to `put`, in order.
pub fn request_fields(
    head: &RequestHead,
    facts: &Facts<'_>,
    forwarding: &Forwarding,
    request_id: &[u8],
    route: &RouteConfig,
    mut put: impl FnMut(&[u8], &[u8]),
) {
    let edits = &route.request_headers;
    let nominating = nominates_any(&head.fields);
    let is_nominated = |name: &[u8]| nominating && is_nominated(&head.fields, name);
    let accepts_trailers = head.fields.get_all("te").any(|value| value.eq_ignore_ascii_case(b"trailers"));
    for (name, value) in head.fields.iter() {
        let keep = match kind(name) {
            Kind::Plain => !is_nominated(name),
            Kind::MethodOverride => route.keep_method_override && !facts.judged && !is_nominated(name),
            Kind::Expect => !facts.continued && !is_nominated(name),
            Kind::Forwarding => facts.trusted && !rewrites(forwarding, name),
            Kind::Hop | Kind::Ours | Kind::ClientCertificate | Kind::RequestId => false,
        };
        if keep && !is_edited(edits, name) {
            put(name, value);
        }
    }
    if accepts_trailers {
        put(b"TE", b"trailers");
    }
    identity_fields(head, facts, forwarding, &mut put);
    if forwarding.request_id {
        put(b"X-Request-Id", request_id);
    }
    edits.set.iter().chain(&edits.add).for_each(|(name, value)| put(name.as_bytes(), value.as_bytes()));
}

/// Whether we write this forwarding field ourselves, so that a trusted copy must not stay beside it.
fn rewrites(forwarding: &Forwarding, name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    if is("forwarded") {
        forwarding.forwarded
    } else if is("x-real-ip") {
        forwarding.x_real_ip
    } else {
        forwarding.x_forwarded
            && (is("x-forwarded-for") || is("x-forwarded-proto") || is("x-forwarded-host") || is("x-forwarded-port"))
    }
}

pub(super) fn is_edited(edits: &HeaderEdits, name: &[u8]) -> bool {
    !edits.is_empty()
        && (edits.remove.iter().any(|removed| name.eq_ignore_ascii_case(removed.as_bytes()))
            || edits.set.iter().any(|(set, _)| name.eq_ignore_ascii_case(set.as_bytes())))
}

/// A short text on the stack; longer ones are cut, which none of ours is.
struct Text {
    bytes: [u8; 160],
    len: usize,
}

impl Text {
    fn new() -> Text {
        Text { bytes: [0; 160], len: 0 }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let count = room.len().min(bytes.len());
        room.iter_mut().zip(bytes).for_each(|(room, byte)| *room = *byte);
        self.len += count;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn identity_fields(head: &RequestHead, facts: &Facts<'_>, forwarding: &Forwarding, put: &mut impl FnMut(&[u8], &[u8])) {
    let mut address = Text::new();
    if let Some(peer) = facts.peer {
        let _ = write!(address, "{}", peer.ip().to_canonical());
    }
    let scheme: &[u8] = if facts.secure { b"https" } else { b"http" };
    // What a trusted peer said of the client stands; of others only the socket is believed.
    let told = |name: &str| head.fields.get(name).filter(|_| facts.trusted);
    if forwarding.x_forwarded {
        put_chain(head, facts, address.as_bytes(), put);
        put(b"X-Forwarded-Proto", told("x-forwarded-proto").unwrap_or(scheme));
        let host = told("x-forwarded-host").unwrap_or(&head.authority);
        if !host.is_empty() {
            put(b"X-Forwarded-Host", host);
        }
        let mut port = Text::new();
        let _ = write!(port, "{}", facts.port);
        put(b"X-Forwarded-Port", told("x-forwarded-port").unwrap_or(port.as_bytes()));
    }
    if forwarding.x_real_ip {
        let first = told("x-real-ip").unwrap_or(address.as_bytes());
        if !first.is_empty() {
            put(b"X-Real-IP", first);
        }
    }
    if forwarding.forwarded {
        put_forwarded(head, facts, scheme, put);
    }
    if forwarding.via {
        // A single field; earlier Via fields went on before it, which is the same list (RFC 9110 §7.6.3).
        put(b"Via", if head.version == Version::H2 { b"2 portunus" } else { b"1.1 portunus" });
    }
    if let Some(certificate) = facts.certificate {
        put_certificate(certificate, put);
    }
}

/// `X-Forwarded-For`: what a trusted peer sent, then the peer.
fn put_chain(head: &RequestHead, facts: &Facts<'_>, address: &[u8], put: &mut impl FnMut(&[u8], &[u8])) {
    if facts.trusted && head.fields.contains("x-forwarded-for") {
        let mut chain = Vec::new();
        for value in head.fields.get_all("x-forwarded-for") {
            chain.extend_from_slice(value);
            chain.extend_from_slice(b", ");
        }
        chain.extend_from_slice(if address.is_empty() { b"unknown" } else { address });
        put(b"X-Forwarded-For", &chain);
    } else if !address.is_empty() {
        put(b"X-Forwarded-For", address);
    }
}

/// `Forwarded` (RFC 7239): what a trusted peer sent, then our element.
fn put_forwarded(head: &RequestHead, facts: &Facts<'_>, scheme: &[u8], put: &mut impl FnMut(&[u8], &[u8])) {
    let mut chain = Vec::new();
    if facts.trusted {
        for value in head.fields.get_all("forwarded") {
            chain.extend_from_slice(value);
            chain.extend_from_slice(b", ");
        }
    }
    chain.extend_from_slice(b"for=");
    match facts.peer.map(|peer| peer.ip().to_canonical()) {
        Some(IpAddr::V4(address)) => _ = write!(chain, "{address}"),
        Some(IpAddr::V6(address)) => _ = write!(chain, "\"[{address}]\""),
        None => chain.extend_from_slice(b"unknown"),
    }
    chain.extend_from_slice(b";host=\"");
    chain.extend_from_slice(&head.authority);
    chain.extend_from_slice(b"\";proto=");
    chain.extend_from_slice(scheme);
    put(b"Forwarded", &chain);
}

/// The client's certificate: the standard field (RFC 9440 §2.2) and readable parts of it.
fn put_certificate(certificate: &tls::PeerCertificate, put: &mut impl FnMut(&[u8], &[u8])) {
    let mut encoded = vec![b':'];
    encode_base64(&certificate.der, &mut encoded);
    encoded.push(b':');
    put(b"Client-Cert", &encoded);
    put(b"X-Client-Cert-Verified", b"SUCCESS");
    let mut names = Vec::new();
    names.extend(certificate.dns_names.iter().map(|name| format!("DNS:{name}")));
    names.extend(certificate.uris.iter().map(|uri| format!("URI:{uri}")));
    names.extend(certificate.emails.iter().map(|email| format!("EMAIL:{email}")));
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

/// Base64 with padding (RFC 4648 §4).
fn encode_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let joined = group.iter().fold(0_u32, |joined, &byte| joined << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = (joined >> (18 - 6 * place) & 63) as usize;
            out.push(if place <= group.len() { ALPHABET.get(digit).copied().unwrap_or(b'=') } else { b'=' });
        }
    }
}

/// Gives the fields of a response as the client shall see them, but for framing and connection, to `put`, in order.
pub fn response_fields(
    head: &ResponseHead,
    edits: &HeaderEdits,
    hsts: Option<&str>,
    via: bool,
    mut put: impl FnMut(&[u8], &[u8]),
) {
    let nominating = nominates_any(&head.fields);
    let mut is_dated = head.status < 200 || is_edited(edits, b"date");
    for (name, value) in head.fields.iter() {
        is_dated |= name.eq_ignore_ascii_case(b"date");
        let keep = match kind(name) {
            Kind::Hop => name.eq_ignore_ascii_case(b"proxy-authenticate"),
            Kind::Ours => name.eq_ignore_ascii_case(b"host"),
            _ => !nominating || !is_nominated(&head.fields, name),
        };
        let replaced = hsts.is_some() && name.eq_ignore_ascii_case(b"strict-transport-security");
        if keep && !replaced && !is_edited(edits, name) {
            put(name, value);
        }
    }
    // Who hands an answer on without one has to write when it came (RFC 9110 §6.6.1).
    if !is_dated {
        put(b"Date", &date::now());
    }
    if via {
        put(b"Via", b"1.1 portunus");
    }
    if let Some(hsts) = hsts {
        put(b"Strict-Transport-Security", hsts.as_bytes());
    }
    edits.set.iter().chain(&edits.add).for_each(|(name, value)| put(name.as_bytes(), value.as_bytes()));
}

/// Gives the fields of an interim answer as the client shall see them to `put`: it has no body, and its connection is another one.
pub fn interim_fields(head: &ResponseHead, put: impl FnMut(&[u8], &[u8])) {
    response_fields(head, &HeaderEdits::default(), None, false, put);
}

/// Appends the framing field of a message, if it needs one. `bodiless_length` is kept where a message has a length but no body (HEAD, 304).
pub fn write_framing(framing: BodyFraming, out: &mut Vec<u8>) {
    match framing {
        BodyFraming::Length(length) => _ = write!(out, "Content-Length: {length}\r\n"),
        BodyFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyFraming::None | BodyFraming::UntilClose => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads() {
        for (plain, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let mut out = Vec::new();
            encode_base64(plain.as_bytes(), &mut out);
            assert_eq!(out, encoded.as_bytes());
        }
    }

    #[test]
    fn kinds_ignore_case_and_length() {
        assert_eq!(kind(b"CONNECTION"), Kind::Hop);
        assert_eq!(kind(b"X-Forwarded-For"), Kind::Forwarding);
        assert_eq!(kind(b"X-Client-Cert-Anything"), Kind::ClientCertificate);
        assert_eq!(kind(b"X-HTTP-Method-Override"), Kind::MethodOverride);
        for longer in ["X-Client-Cert-Anything-Longer-Than-Ours", "x-client-cert-subject-alternative-name"] {
            assert_eq!(kind(longer.as_bytes()), Kind::ClientCertificate, "{longer}");
        }
        for family in [
            "X-Forwarded-Prefix",
            "x-forwarded-client-cert",
            "X-Forwarded-Tls-Client-Cert-Info",
            "X-Original-Forwarded-For",
        ] {
            assert_eq!(kind(family.as_bytes()), Kind::Forwarding, "{family}");
        }
        assert_eq!(kind(b"Accept"), Kind::Plain);
        assert_eq!(kind(b"X-Forwarded"), Kind::Plain);
        assert_eq!(kind(&[b'a'; 300]), Kind::Plain);
    }
}
