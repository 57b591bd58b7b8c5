//! What an operator can look at, as a list: fields of the logs with an example of each record, and every metric. `docs/observability.md` is made of it.
//!
//! Owns the meanings of fields. The examples are written by the code that writes the log, and the metrics are listed by the code that counts them.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reason::{Reason, Side};
use wire::keyless::ErrorCode;
use wire::proxy_protocol::{Extras, Found, Origin, ProxyInfo, SslExtras, Transport, read, write_v2};
use wire::trace_context::Parent;

use super::exposition::Exposition;
use super::key_server::KeyServerReporter;
use super::line::{self, Clock};
use super::page::Metric;
use super::record::{
    AddedFields, ConnRecord, ContractRecord, Decision, FlowRecord, KeyOperation, KeyOutcome, RequestRecord,
    TunnelRecord, WouldReject,
};
use super::reporter::Reporter;
use super::rules::{Form, Rules};
use super::trace::Trace;

/// One kind of record in a log, with everything in it that it can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The kind, as the field `kind` says it; `key operation` in the audit log of a key server.
    pub kind: &'static str,
    /// What leaves such a record.
    pub about: &'static str,
    /// Its JSON line.
    pub json: String,
    /// Its line in the form `text`; empty where there is none.
    pub text: String,
}

/// The meaning of a field, by its path in the line. `kind:path` stands before `path`.
pub fn meaning(kind: &str, path: &str) -> Option<&'static str> {
    let of_kind = format!("{kind}:{path}");
    let found = |name: &str| FIELDS.iter().find(|(field, _)| *field == name).map(|(_, meaning)| *meaning);
    found(&of_kind).or_else(|| found(path))
}

/// Every field by its path.
pub const FIELDS: &[(&str, &str)] = &[
    ("time", "When it began, in UTC with milliseconds (RFC 3339)."),
    ("key operation:time", "When the response was ready, in UTC with milliseconds (RFC 3339)."),
    ("kind", "Kind of the record: `request`, `connection`, `tunnel` or `flow`."),
    ("client_address", "The client: whom a trusted PROXY header or trusted proxies name, else the peer of the socket."),
    ("client_port", "Port of the client; absent where only its address is known."),
    ("peer_address", "The peer of the socket, where trusted proxies name another client."),
    ("listener", "Name of the listener."),
    ("method", "Method of the request."),
    ("host", "Authority of the request."),
    ("target", "Path and query, in the canonical form that was matched and forwarded."),
    ("version", "`HTTP/1.0`, `HTTP/1.1` or `HTTP/2`."),
    ("status", "Status of the response to the client; 0 if none was sent."),
    ("bytes_received", "Bytes of the body from the client."),
    ("tunnel:bytes_received", "Bytes carried from the client."),
    ("flow:bytes_received", "Bytes of the payload from the client."),
    ("bytes_sent", "Bytes of the body to the client."),
    ("tunnel:bytes_sent", "Bytes carried to the client."),
    ("flow:bytes_sent", "Bytes of the payload to the client."),
    ("duration_seconds", "From the first byte of the request to the last byte of the response."),
    ("connection:duration_seconds", "From accept to the end."),
    ("tunnel:duration_seconds", "From accept to the end."),
    ("flow:duration_seconds", "From the first datagram to the end."),
    ("route", "Name of the route; absent if none matched."),
    ("upstream", "The upstream that was chosen."),
    ("upstream.name", "Its name."),
    ("upstream.server", "The server that was asked last."),
    ("upstream.status", "Status of its response; absent if it gave none."),
    ("upstream.duration_seconds", "From the request sent to the head of the response."),
    (
        "throttled_seconds",
        "Time that its bytes had to wait because a policy limits their bandwidth, both directions together; absent if none had to.",
    ),
    ("upstream.queue_seconds", "Time in the queue of the upstream; absent if it did not wait."),
    (
        "upstream.session",
        "The sticky session: `new`, `kept` at its server, `moved` because that is gone or down, `elsewhere` for this request because that was busy or failed.",
    ),
    ("upstream.moves", "Times that the flow went on at another server."),
    ("upstream.connect_seconds", "From the first try to connect to the connection."),
    ("upstream.retries", "Further tries on other servers."),
    ("upstream.hedges", "Servers that were asked beside one that had not responded yet; absent if there was none."),
    ("upstream.hedge_won", "Whether the response is of one of these."),
    (
        "upstream.mirror",
        "The upstream that it was copied to; absent if it was not. What became of the copy is in the metrics alone.",
    ),
    ("tls", "TLS with the client, where it is terminated here."),
    ("tls.version", "`TLSv1.0` to `TLSv1.3`."),
    ("tls.cipher", "Cipher suite, as IANA names it."),
    ("tls.group", "Group of the key exchange."),
    ("tls.server_name", "SNI of the client."),
    ("tls.alpn", "Protocol that was agreed on."),
    ("tls.key_type", "Key of the certificate that was shown: `ECDSA`, `RSA` or `Ed25519`."),
    ("tls.resumed", "Whether a session was resumed, so that no private key was needed."),
    ("tls.ech", "`true` where the ClientHello was encrypted (`ech_keys`); absent otherwise."),
    ("tls.client_certificate", "SHA-256 of the client's verified certificate, in hexadecimal."),
    ("proxy_protocol", "What a trusted PROXY header said."),
    ("proxy_protocol.version", "Version of the header, 1 or 2."),
    ("proxy_protocol.balancer", "The peer that sent it."),
    ("proxy_protocol.destination", "What the client connected to."),
    ("proxy_protocol.server_name", "Host name the client asked for."),
    ("proxy_protocol.alpn", "Protocol agreed on with the client."),
    ("proxy_protocol.unique_id", "The balancer's id of the connection."),
    ("proxy_protocol.tls_version", "TLS version between client and balancer."),
    ("proxy_protocol.tls_cipher", "Cipher between client and balancer."),
    ("proxy_protocol.client_common_name", "Common name of the client's certificate."),
    ("proxy_protocol.client_certificate_verified", "Whether the balancer verified it."),
    ("user", "Who sent the request, as a policy has verified: `sub` of the token, or the user name."),
    ("user_agent", "User-Agent of the request."),
    ("request_id", "The id sent upstream as `X-Request-Id`."),
    ("trace_id", "The trace that it belongs to (`tracing`), sampled or not."),
    ("compression", "How the response was compressed; absent if it was not."),
    ("compression.encoding", "Content coding: `zstd`, `br` or `gzip`."),
    ("compression.bytes", "Bytes of the body before; `bytes_sent` counts those after."),
    (
        "error_pages",
        "The error pages in `error_pages` that the response is under; absent if it is none for an error, or there are none.",
    ),
    ("contract", "The contract of the request, if it is under one."),
    ("contract.name", "Its name."),
    ("contract.operation", "Method and path template; absent where the document has none for the request."),
    ("contract.decision", "`off`, `passed`, `logged` or `blocked`: the worse of request and response."),
    ("contract.side", "`request` or `response`: which of them `reason` is about."),
    ("contract.reason", "Reason code of the first violation."),
    ("contract.place", "Where it is: part of the message, name, and a pointer into the value."),
    ("contract.violations", "Violations found on both sides."),
    ("fields", "What the configuration adds (`log.access.fields`, `log_fields` of a route)."),
    ("fields.tenant", "An example of it. One of which nothing is made is left out."),
    ("fault", "The side at fault: `client`, `upstream`, `proxy` or `key_server`; absent where nobody is."),
    ("reason", "Reason code; absent where all went well."),
    ("policy", "The policy that did not let it pass; absent where none did."),
    (
        "would_reject",
        "Policies in `mode: log` that would have rejected it, each with its reason code; absent if none would have.",
    ),
    ("would_reject.trial", "An example of it."),
    ("sampled", "Share of such requests that have a line, where sampling leaves others out (`log.access.sample`)."),
    (
        "phase",
        "How far the connection came: `accept`, `proxy_header`, `tls_handshake`, `acme` (a challenge of a certificate authority), `head` or `tunnel`.",
    ),
    ("server_name", "SNI as the client sent it, of a connection whose TLS is not terminated or failed."),
    ("detail", "For people: what the TLS library or the kernel says, or the limit that was exceeded."),
    ("ready_after_seconds", "From accept until the tunnel route was known, the handshake included."),
    ("port_kept", "Whether the client's own port could be used, where its address is the source."),
    ("passthrough", "True where TLS was passed through."),
    ("connection_id", "The id of the connection in PROXY headers to the upstream."),
    ("ended_by", "Whose end came first: `client`, `upstream` or `portunus`."),
    ("balancer", "The peer of the socket, where responses go."),
    ("flow:target", "Where the datagrams went."),
    ("datagrams_received", "Datagrams from the client."),
    ("datagrams_sent", "Datagrams to the client."),
    ("datagrams_lost", "Datagrams from the client that were dropped because a socket buffer was full."),
    ("unreachable", "Times that the network said that the target cannot be reached."),
    (
        "truncated",
        "Fields of this line that were longer than their bound (2048 bytes for `target`, else 256) and end early.",
    ),
    ("peer", "Label of the edge that asked, from its certificate."),
    ("address", "Its address; absent on Unix sockets."),
    ("ski", "Subject key identifier of the key it asked for."),
    ("operation", "What it asked for, such as `ecdsa_sha256`."),
    ("outcome", "`done`, `rejected`, `expired`, `cancelled` or `peer_left`."),
    ("error", "Error of the keyless protocol in the response, where it was rejected."),
    ("queued_us", "Microseconds from arrival until the work began or was given up."),
    ("service_us", "Microseconds that the work took."),
];

/// Every kind of record with all its fields.
pub fn examples() -> Vec<Example> {
    let (info, proxy) = (tls_info(), proxy_info());
    let parent = Parent { trace_id: TRACE_ID, span_id: 1, is_sampled: true };
    let trace = Trace::of(Some(parent), None, 0);
    let trial = [WouldReject { policy: "trial".into(), reason: Reason::RateLimited }];
    let (request, connection) = (request(&info, &proxy, &trace, &trial), connection(&proxy, &trial));
    let (tunnel, flow) = (tunnel(&info, &proxy, &trial), flow(&trial));
    let both = |write: &dyn Fn(&mut Vec<u8>, &mut Clock, &Rules)| {
        [Form::Json, Form::Text].map(|form| {
            let mut out = Vec::new();
            write(&mut out, &mut Clock::default(), &Rules::plain(form));
            String::from_utf8_lossy(&out).trim_end().to_owned()
        })
    };
    let example = |kind, about, [json, text]: [String; 2]| Example { kind, about, json, text };
    let mut key = Vec::new();
    line::key_operation(&mut key, &mut Clock::default(), UNIX_EPOCH + MOMENT, &key_operation());
    vec![
        example(
            "request",
            "An HTTP request that ended, whatever became of it.",
            both(&|out, clock, rules| line::request(out, clock, rules, &request)),
        ),
        example(
            "connection",
            "A connection that ended before it was a request or tunnel.",
            both(&|out, clock, rules| line::connection(out, clock, rules, &connection)),
        ),
        example(
            "tunnel",
            "A TCP tunnel that ended.",
            both(&|out, clock, rules| line::tunnel(out, clock, rules, &tunnel)),
        ),
        example(
            "flow",
            "The datagrams of one client by one balancer, when they have been idle.",
            both(&|out, clock, rules| line::flow(out, clock, rules, &flow)),
        ),
        example(
            "key operation",
            "An operation with a private key, in the audit log of a key server.",
            [String::from_utf8_lossy(&key).trim_end().to_owned(), String::new()],
        ),
    ]
}

/// The trace of the examples.
const TRACE_ID: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;

/// The moment of the examples since 1970.
const MOMENT: Duration = Duration::from_millis(1_795_252_444_007);

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)), 40123);
const BALANCER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 51820);
const EDGE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1)), 443);

fn started() -> SystemTime {
    UNIX_EPOCH + MOMENT
}

fn tls_info() -> tls::Info {
    tls::Info {
        version: tls::ProtocolVersion::Tls13,
        cipher: "TLS_AES_128_GCM_SHA256",
        group: Some("X25519MLKEM768"),
        server_name: Some("shop.example".into()),
        alpn: Some(b"h2".as_slice().into()),
        key_type: Some(tls::KeyType::Ecdsa),
        key_algorithm: None,
        signature_algorithm: None,
        resumed: false,
        ech: true,
        peer: Some(Box::new(tls::PeerCertificate {
            der: Vec::new(),
            subject: String::new(),
            issuer: String::new(),
            serial: String::new(),
            fingerprint: "3f0e6b2c9d41a8575e6c1b0f4d2a79e8c35b6d7f8091a2b3c4d5e6f708192a3b".to_owned(),
            dns_names: Vec::new(),
            uris: Vec::new(),
            emails: Vec::new(),
            addresses: Vec::new(),
        })),
        fingerprint: None,
    }
}

fn proxy_info() -> Option<ProxyInfo> {
    let origin = Origin::Inet { transport: Transport::Stream, source: CLIENT, destination: EDGE };
    let certificate = wire::proxy_protocol::CertificateExtras { common_name: Some("till 4"), on_connection: true };
    let ssl = SslExtras {
        version: "TLSv1.3",
        cipher: "TLS_AES_128_GCM_SHA256",
        certificate: Some(certificate),
        ..SslExtras::default()
    };
    let extras = Extras {
        alpn: Some(b"h2"),
        authority: Some(b"shop.example"),
        unique_id: Some(b"b1-77"),
        ssl: Some(ssl),
        ..Extras::default()
    };
    let mut bytes = Vec::new();
    write_v2(&mut bytes, &origin, &extras);
    match read(&bytes, bytes.len()) {
        Ok(Found::Whole(header)) => Some(ProxyInfo::new(&header, Some(BALANCER), Some(EDGE))),
        _ => None,
    }
}

fn request<'a>(
    info: &'a tls::Info,
    proxy: &'a Option<ProxyInfo>,
    trace: &'a Trace,
    would_reject: &'a [WouldReject],
) -> RequestRecord<'a> {
    RequestRecord {
        started: started(),
        listener: "web",
        client: Some(CLIENT.ip()),
        peer: Some(BALANCER),
        reported: proxy.as_ref(),
        tls: Some(info),
        method: "POST",
        version: "HTTP/2",
        host: b"shop.example",
        host_pattern: Some("shop.example"),
        target: b"/orders?dry=1",
        user_agent: b"curl/8.14",
        request_id: b"8d3f0a6be1c24f7795d0c1a2b3e4f506",
        route: Some("orders"),
        upstream: Some("shop"),
        server: Some("10.0.0.5:8080"),
        status: 502,
        upstream_status: Some(201),
        bytes_received: 117,
        bytes_sent: 96,
        duration: Duration::from_micros(8_412),
        upstream_duration: Some(Duration::from_micros(7_903)),
        queued: Some(Duration::from_micros(120)),
        throttled: Some(Duration::from_micros(2_100)),
        user: Some("u-4711"),
        session: Some("kept"),
        port_kept: Some(true),
        retries: 0,
        hedges: 1,
        hedge_won: true,
        mirror: Some("shadow"),
        error_pages: Some("site"),
        compressed: Some(("br", 412)),
        fault: Side::Upstream,
        reason: Some(Reason::Violation("required")),
        policy: Some("office"),
        would_reject,
        contract: Some(ContractRecord {
            contract: "orders",
            operation: "POST /orders",
            decision: Decision::Blocked,
            side: "response",
            reason: Some(Reason::Violation("required")),
            place: "body /id",
            violations: 1,
        }),
        added: Some(&ExampleFields),
        trace: Some(trace),
    }
}

/// A field that a configuration adds.
#[derive(Debug)]
struct ExampleFields;

impl AddedFields for ExampleFields {
    fn each(&self, put: &mut dyn FnMut(&str, &[u8])) {
        put("tenant", b"acme");
    }
}

fn connection<'a>(proxy: &'a Option<ProxyInfo>, would_reject: &'a [WouldReject]) -> ConnRecord<'a> {
    ConnRecord {
        started: started(),
        listener: "web",
        client: Some(CLIENT),
        reported: proxy.as_ref(),
        server_name: Some("old.example"),
        duration: Duration::from_micros(1_204),
        phase: "tls_handshake",
        fault: Side::Client,
        reason: Reason::TlsHandshakeFailed,
        policy: Some("office"),
        would_reject,
        detail: "NO_SHARED_CIPHER",
    }
}

fn tunnel<'a>(info: &'a tls::Info, proxy: &'a Option<ProxyInfo>, would_reject: &'a [WouldReject]) -> TunnelRecord<'a> {
    TunnelRecord {
        started: started(),
        listener: "mail",
        client: Some(CLIENT),
        reported: proxy.as_ref(),
        tls: Some(info),
        server_name: Some("mail.example"),
        passthrough: true,
        connection_id: b"6f1c9a02",
        upstream: "mail",
        server: Some("10.0.0.9:993"),
        retries: 0,
        connect_duration: Some(Duration::from_micros(310)),
        port_kept: Some(true),
        bytes_received: 1_822,
        bytes_sent: 90_112,
        throttled: Some(Duration::from_millis(1_450)),
        ready_after: Duration::from_micros(95),
        duration: Duration::from_millis(61_300),
        ended_by: "upstream",
        fault: Side::Upstream,
        reason: Some(Reason::TunnelUpstreamReset),
        policy: Some("office"),
        would_reject,
    }
}

fn flow(would_reject: &[WouldReject]) -> FlowRecord<'_> {
    FlowRecord {
        started: started(),
        listener: "dns",
        client: CLIENT,
        balancer: BALANCER,
        target: SocketAddr::new(BALANCER.ip(), 53),
        upstream: Some("resolvers"),
        moves: 1,
        port_kept: true,
        duration: Duration::from_millis(60_002),
        datagrams_received: 1,
        datagrams_sent: 1,
        bytes_received: 40,
        bytes_sent: 120,
        datagrams_lost: 0,
        unreachable: 0,
        reason: Reason::FlowIdle,
        would_reject,
    }
}

fn key_operation() -> KeyOperation<'static> {
    KeyOperation {
        peer: "edge-1",
        address: Some(BALANCER),
        ski: Some(&[0x5c; 20]),
        operation: "ecdsa_sha256",
        class: "ecdsa",
        outcome: KeyOutcome::Rejected(ErrorCode::KEY_NOT_FOUND),
        queued: Duration::from_micros(14),
        service: Duration::from_micros(0),
    }
}

/// Every metric of the gate.
pub fn metrics(reporter: &Reporter) -> Vec<Metric> {
    reporter.list()
}

/// Every metric of the key server. `reporter`: a fresh one, of which everything is counted once.
pub fn key_server_metrics(reporter: &KeyServerReporter) -> Vec<Metric> {
    reporter.connection_failed(Reason::FrameTimeout);
    reporter.loaded(1, Duration::ZERO, [("main", UNIX_EPOCH)].into_iter());
    reporter.reloaded(true);
    let mut list: Vec<Metric> = Vec::new();
    let text = reporter.metrics(Exposition::OpenMetrics, &[("rsa", 0)]);
    for line in text.lines() {
        let words = |prefix| line.strip_prefix(prefix).and_then(|rest: &str| rest.split_once(' '));
        if let Some((name, help)) = words("# HELP ") {
            let help = help.trim_end_matches('.').to_owned();
            list.push(Metric { name: name.to_owned(), kind: "gauge", labels: Vec::new(), help });
        } else if let Some((_, kind)) = words("# TYPE ") {
            match (list.last_mut(), kind) {
                (Some(metric), "counter") => (metric.kind, metric.name) = ("counter", format!("{}_total", metric.name)),
                (Some(metric), "histogram") => metric.kind = "histogram",
                _ => {}
            }
        } else if let (Some(metric), Some((_, labels))) = (list.last_mut(), line.split_once('{')) {
            let names =
                labels.split('}').next().unwrap_or_default().split("\",").filter_map(|pair| pair.split_once('='));
            metric.labels = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le").collect();
        }
    }
    reporter.list(&mut list);
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The configuration knows just the fields that lines of the access log have.
    #[test]
    fn each_field_can_be_left_out_by_its_name() {
        let of_audit = ["peer", "address", "ski", "operation", "outcome", "error", "queued_us", "service_us"];
        let stay = ["time", "kind", "truncated", "fields.tenant", "would_reject.trial"];
        let names = FIELDS.iter().map(|(field, _)| field.rsplit(':').next().unwrap_or_default());
        let expected: BTreeSet<_> = names.filter(|name| !of_audit.contains(name) && !stay.contains(name)).collect();
        assert_eq!(expected, config::REMOVABLE_FIELDS.iter().copied().collect());
    }
}
