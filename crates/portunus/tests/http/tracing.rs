//! Traces: what a collector gets, what servers are sent, and whom an incoming trace is believed from.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use crate::harness::{Gate, PATIENCE, Reply, Seen, Upstream, connect, exchange, statuses, vacant, wait_until};

/// One span, as far as tests look at it.
#[derive(Debug, Clone, Default)]
struct Span {
    trace_id: Vec<u8>,
    span_id: Vec<u8>,
    parent: Vec<u8>,
    state: String,
    name: String,
    kind: u64,
    begins: u64,
    ends: u64,
    attributes: BTreeMap<String, String>,
    is_error: bool,
}

/// The fields of a message of protobuf: number, and a number or bytes. Anything malformed is a panic.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (mut value, mut text): (u64, &[u8]) = (0, &[]);
        match key & 7 {
            0 => value = varint(&mut bytes),
            1 => (value, bytes) = (u64::from_le_bytes(bytes[..8].try_into().unwrap()), &bytes[8..]),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                (text, bytes) = bytes.split_at(length);
            }
            5 => (value, bytes) = (u32::from_le_bytes(bytes[..4].try_into().unwrap()).into(), &bytes[4..]),
            other => panic!("wire type {other}"),
        }
        fields.push((key >> 3, value, text));
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for (place, byte) in bytes.iter().enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            *bytes = &bytes[place + 1..];
            return number;
        }
    }
    panic!("a number without end");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An attribute: its key, and its value as text.
fn attribute(bytes: &[u8]) -> (String, String) {
    let (mut key, mut value) = (String::new(), String::new());
    for (number, _, bytes) in fields(bytes) {
        match number {
            1 => key = text(bytes),
            2 => {
                let of = fields(bytes);
                let [(kind, number, bytes)] = of[..] else { panic!("{of:?}") };
                value = match kind {
                    1 => text(bytes),
                    3 => number.to_string(),
                    other => panic!("a value of kind {other}"),
                };
            }
            other => panic!("field {other} of an attribute"),
        }
    }
    (key, value)
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span::default();
    for (number, value, bytes) in fields(bytes) {
        match number {
            1 => span.trace_id = bytes.to_vec(),
            2 => span.span_id = bytes.to_vec(),
            3 => span.state = text(bytes),
            4 => span.parent = bytes.to_vec(),
            5 => span.name = text(bytes),
            6 => span.kind = value,
            7 => span.begins = value,
            8 => span.ends = value,
            9 => assert!(span.attributes.insert(attribute(bytes).0, attribute(bytes).1).is_none(), "twice"),
            15 => span.is_error = fields(bytes).iter().any(|(number, value, _)| (*number, *value) == (3, 2)),
            16 => assert_eq!(value & 0xff, 1, "sampled"),
            other => panic!("field {other} of a span"),
        }
    }
    assert!(span.trace_id.len() == 16 && span.span_id.len() == 8 && matches!(span.parent.len(), 0 | 8), "{span:?}");
    assert!(!span.name.is_empty() && span.begins > 0 && span.begins <= span.ends, "{span:?}");
    span
}

/// The spans of a request to a collector.
fn spans(body: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for (number, _, resource_spans) in fields(body) {
        assert_eq!(number, 1);
        let parts = fields(resource_spans);
        let resource: BTreeMap<_, _> = fields(parts[0].2).iter().map(|(_, _, one)| attribute(one)).collect();
        assert_eq!(resource["service.name"], "edge");
        for (number, _, scope_spans) in &parts[1..] {
            assert_eq!(*number, 2);
            let of = fields(scope_spans);
            assert_eq!(of[0].0, 1, "the scope");
            spans.extend(of[1..].iter().map(|(number, _, bytes)| {
                assert_eq!(*number, 2);
                span(bytes)
            }));
        }
    }
    spans
}

/// A collector that takes everything, or responds with another status at first.
struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    fn at(address: SocketAddr, first: &'static [u16]) -> Collector {
        let listener = TcpListener::bind(address).unwrap();
        let collector =
            Collector { address: listener.local_addr().unwrap(), spans: Arc::default(), heads: Arc::default() };
        let (kept, heads) = (Arc::clone(&collector.spans), Arc::clone(&collector.heads));
        std::thread::spawn(move || {
            for (number, mut stream) in listener.incoming().flatten().enumerate() {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
                let end = loop {
                    if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                        break at + 4;
                    }
                    let Ok(length @ 1..) = stream.read(&mut buffer) else { break 0 };
                    bytes.extend_from_slice(&buffer[..length]);
                };
                let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                let Some(length) = length.map(|length| length.parse::<usize>().unwrap()) else { continue };
                while bytes.len() < end + length {
                    let Ok(length @ 1..) = stream.read(&mut buffer) else { break };
                    bytes.extend_from_slice(&buffer[..length]);
                }
                let status = first.get(number).copied().unwrap_or(200);
                // Before its spans, which are waited for.
                heads.lock().unwrap().push(head);
                if status == 200 {
                    kept.lock().unwrap().extend(spans(&bytes[end..end + length]));
                }
                let _ = write!(stream, "HTTP/1.1 {status} Said\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        collector
    }

    fn start() -> Collector {
        Collector::at("127.0.0.1:0".parse().unwrap(), &[])
    }

    /// The spans, once there are so many.
    fn spans(&self, count: usize) -> Vec<Span> {
        wait_until(&format!("{count} spans"), || self.spans.lock().unwrap().len() >= count);
        self.spans.lock().unwrap().clone()
    }
}

fn yaml(collector: SocketAddr, servers: &[SocketAddr], more: &str) -> String {
    let servers: Vec<_> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
admin: {{ bind: \"127.0.0.1:0\" }}
upstreams: {{ app: {{ servers: [{}], retries: {{ on: [connect, reset, 503], budget: 100 }} }} }}
routes: [{{ name: app, upstream: app }}, {{ name: own, path: /own, respond: {{ status: 200 }} }}]
tracing: {{ otlp: \"http://{collector}\", service_name: edge{more} }}
",
        servers.join(", ")
    )
}

fn ask(gate: &Gate, target: &str, fields: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{fields}\r\n");
    statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
}

const PARENT: &str =
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=1\r\nTraceState: b=2\r\n";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The span that a `traceparent` names, and whether it is sampled.
fn sent(seen: &Seen) -> (String, String, String) {
    let [value] = seen.fields("traceparent")[..] else { panic!("{seen:?}") };
    let parts: Vec<_> = value.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{value}");
    (parts[1].to_owned(), parts[2].to_owned(), parts[3].to_owned())
}

/// What the span of the request says of it.
fn check_request(server: &Span) {
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/cart"),
        ("url.query", "a=1&token=REDACTED"),
        ("url.scheme", "http"),
        ("server.address", "shop.example"),
        ("http.response.status_code", "200"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("portunus.route", "app"),
        ("portunus.listener", "web"),
    ] {
        assert_eq!(server.attributes.get(name).map(String::as_str), Some(value), "{name}: {server:#?}");
    }
}

#[test]
fn a_request_is_a_span_with_a_span_for_each_try() {
    let collector = Collector::start();
    let (good, down) = (Upstream::ok(), vacant());
    let bad = Upstream::start(|_| Reply::Keep(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let gate = Gate::start(&yaml(collector.address, &[down, bad.address, good.address], ""));
    // Until a request has met all three: which server is first is for the balancer to say.
    let mut asked = 0;
    let whole = loop {
        assert_eq!(ask(&gate, "/cart?a=1&token=s3cret", PARENT), 200);
        asked += 1;
        let servers = collector.spans(asked);
        let of_tries = |span: &Span| servers.iter().filter(|other| other.parent == span.span_id).count();
        if let Some(span) = servers.iter().find(|span| span.kind == 2 && of_tries(span) == 3) {
            let tries: Vec<Span> = servers.iter().filter(|other| other.parent == span.span_id).cloned().collect();
            break (span.clone(), tries);
        }
        assert!(asked < 60, "{servers:#?}");
    };
    let (server, tries) = whole;
    assert_eq!((server.name.as_str(), server.kind, server.is_error), ("GET app", 2, false));
    assert!(server.parent.is_empty(), "a client's trace is not believed");
    assert_ne!(hex(&server.trace_id), "0af7651916cd43dd8448eb211c80319c");
    check_request(&server);
    for (number, one) in tries.iter().enumerate() {
        assert_eq!((one.kind, &one.trace_id), (3, &server.trace_id));
        assert!(one.begins >= server.begins && one.ends <= server.ends, "{one:#?} {server:#?}");
        let of = |name: &str| one.attributes.get(name).map(String::as_str);
        assert_eq!(of("http.request.resend_count"), (number > 0).then(|| number.to_string()).as_deref());
        match of("server.address").unwrap() {
            address if address == down.to_string() => {
                assert_eq!((of("error.type"), one.is_error), (Some("connect"), true))
            }
            address if address == bad.address.to_string() => {
                assert_eq!(
                    (of("http.response.status_code"), of("error.type"), one.is_error),
                    (Some("503"), Some("503"), true)
                );
                assert!(
                    bad.seen().iter().any(|seen| sent(seen).1 == hex(&one.span_id)),
                    "the span that its server was sent"
                );
            }
            address => {
                assert_eq!(
                    (address, of("http.response.status_code"), one.is_error),
                    (good.address.to_string().as_str(), Some("200"), false)
                );
                assert!(
                    good.seen()
                        .iter()
                        .any(|seen| sent(seen) == (hex(&server.trace_id), hex(&one.span_id), "01".to_owned()))
                );
            }
        }
    }
    assert!(good.seen().iter().all(|seen| seen.fields("tracestate").is_empty()), "a client's state goes no further");
    let line = gate.log(1).remove(0);
    assert!(line["trace_id"].as_str().is_some_and(|id| id.len() == 32), "{line}");
    let head = collector.heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n") && head.contains("application/x-protobuf"), "{head}");
}

#[test]
fn a_trusted_peers_trace_goes_on_and_decides_what_is_sampled() {
    let (collector, upstream) = (Collector::start(), Upstream::ok());
    let text = yaml(collector.address, &[upstream.address], ", sample: 0") + "trusted_proxies: 127.0.0.0/8\n";
    let gate = Gate::start(&text);
    assert_eq!(ask(&gate, "/one", PARENT), 200);
    assert_eq!(ask(&gate, "/two", &PARENT.replace("-01\r\n", "-00\r\n")), 200);
    assert_eq!(ask(&gate, "/three", "traceparent: 00-nonsense\r\ntracestate: a=1\r\n"), 200);
    assert_eq!(ask(&gate, "/four", &format!("{PARENT}{PARENT}")), 200);
    let spans = collector.spans(2);
    let (server, client) = (&spans[0], &spans[1]);
    assert_eq!((spans.len(), server.kind, client.kind), (2, 2, 3), "{spans:#?}");
    assert_eq!(
        (hex(&server.trace_id), hex(&server.parent)),
        ("0af7651916cd43dd8448eb211c80319c".into(), "b7ad6b7169203331".into())
    );
    assert_eq!((&server.state, &client.parent), (&"a=1,b=2".to_owned(), &server.span_id));
    let seen = upstream.seen();
    assert_eq!(sent(&seen[0]), (hex(&server.trace_id), hex(&client.span_id), "01".into()));
    assert_eq!(seen[0].fields("tracestate"), ["a=1,b=2"]);
    let (trace, span, flags) = sent(&seen[1]);
    assert_eq!(
        (trace.as_str(), flags.as_str()),
        ("0af7651916cd43dd8448eb211c80319c", "00"),
        "what the parent does not record is not recorded"
    );
    assert_ne!(span, "b7ad6b7169203331");
    // What is no parent begins a trace of its own, and so does one that is given twice.
    for seen in &seen[2..] {
        let (trace, _, flags) = sent(seen);
        assert!(trace != "0af7651916cd43dd8448eb211c80319c" && flags == "00", "{seen:?}");
        assert!(seen.fields("tracestate").is_empty(), "{seen:?}");
    }
}

#[test]
fn buckets_name_a_trace_in_open_metrics_alone() {
    let (collector, upstream) = (Collector::start(), Upstream::ok());
    let gate = Gate::start(&yaml(collector.address, &[upstream.address], ""));
    assert_eq!(ask(&gate, "/cart", ""), 200);
    let id = gate.log(1).remove(0)["trace_id"].as_str().unwrap().to_owned();
    let scrape = |accept: &str| {
        let head = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        String::from_utf8(exchange(gate.address("admin"), head.as_bytes())).unwrap()
    };
    let open = scrape("application/openmetrics-text; version=1.0.0");
    let line = open.lines().find(|line| line.contains(&id)).unwrap_or_else(|| panic!("{open}"));
    assert!(
        line.starts_with("portunus_request_duration_seconds_bucket{le=\"") && line.contains("route=\"app\"} 1 # {"),
        "{line}"
    );
    let (_, exemplar) = line.split_once(" # ").unwrap();
    let parts: Vec<&str> = exemplar.split(' ').collect();
    assert_eq!(parts[0], format!("{{trace_id=\"{id}\"}}"));
    assert!(
        parts[1].parse::<f64>().unwrap() > 0.0 && parts[2].parse::<f64>().unwrap() > 1e9 && parts.len() == 3,
        "{line}"
    );
    assert_eq!(open.matches(" # {").count(), 1);
    let plain = scrape("text/plain");
    assert!(plain.contains("portunus_request_duration_seconds_bucket") && !plain.contains(" # {"), "{plain}");
}

#[test]
fn without_tracing_the_fields_pass_as_they_are() {
    let upstream = Upstream::ok();
    let text = yaml(vacant(), &[upstream.address], "");
    let without = text.lines().filter(|line| !line.starts_with("tracing:")).collect::<Vec<_>>().join("\n");
    let gate = Gate::start(&without);
    assert_eq!(ask(&gate, "/", PARENT), 200);
    let seen = upstream.seen();
    assert_eq!(seen[0].fields("traceparent"), ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]);
    assert_eq!(seen[0].fields("tracestate"), ["a=1", "b=2"]);
    assert!(gate.log(1)[0].get("trace_id").is_none());
}

fn metric(gate: &Gate, name: &str) -> u64 {
    let text = gate.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn a_collector_that_is_away_costs_no_request_and_gets_what_waited() {
    let (address, upstream) = (vacant(), Upstream::ok());
    let gate = Gate::start(&yaml(address, &[upstream.address], ""));
    for _ in 0..20 {
        assert_eq!(ask(&gate, "/", ""), 200);
    }
    gate.wait_for("cannot reach the collector");
    let collector = Collector::at(address, &[503, 429]);
    assert_eq!(collector.spans(40).len(), 40);
    wait_until("all counted", || metric(&gate, "portunus_trace_spans_exported_total") == 40);
    assert_eq!(metric(&gate, "portunus_trace_spans_dropped_total"), 0);
}

#[test]
fn spans_that_a_collector_rejects_are_dropped_and_counted() {
    let collector = Collector::at("127.0.0.1:0".parse().unwrap(), &[400]);
    let gate = Gate::start(&yaml(collector.address, &[vacant()], ""));
    assert_eq!(ask(&gate, "/own", ""), 200);
    gate.wait_for("the collector rejects spans");
    wait_until("one dropped", || metric(&gate, "portunus_trace_spans_dropped_total") == 1);
    assert_eq!(ask(&gate, "/own", ""), 200);
    assert_eq!(collector.spans(1)[0].attributes["portunus.route"], "own");
}

/// A reload turns tracing off and on, and changes where spans go.
#[test]
fn a_reload_changes_where_spans_go() {
    let (one, other) = (Collector::start(), Collector::start());
    let text = |to: &Collector| yaml(to.address, &[vacant()], "");
    let gate = Gate::start(&text(&one));
    ask(&gate, "/own?1", "");
    one.spans(1);
    let off = text(&one).lines().filter(|line| !line.starts_with("tracing:")).collect::<Vec<_>>().join("\n");
    for (reloads, text) in [(1, off), (2, text(&other))] {
        gate.rewrite(&text);
        gate.signal("HUP");
        wait_until("a reload", || {
            gate.diagnostics().iter().filter(|line| line.contains("reloaded")).count() >= reloads
        });
        ask(&gate, "/own?2", "");
    }
    assert_eq!(other.spans(1).len(), 1);
    assert_eq!(one.spans(1).len(), 1);
}

#[test]
fn what_cannot_be_a_collector_is_said_with_its_place() {
    for (tracing, expected) in [
        ("otlp: \"127.0.0.1:4318\"", "is not the URL of a collector"),
        ("otlp: \"ftp://a\"", "is not the URL of a collector"),
        ("otlp: \"http://u:p@a/\"", "is not the URL of a collector"),
        ("otlp: \"http://a/x?y\"", "is not the URL of a collector"),
        ("otlp: \"http://127.0.0.1\", ca: ca.pem", "without TLS"),
        ("otlp: \"http://127.0.0.1\", sample: 10%", "not a share"),
        ("otlp: \"http://127.0.0.1\", service_name: \"a\\nb\"", "service_name"),
        ("sample: 1", "otlp"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p.yaml");
        let text = format!(
            "listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nroutes: [{{ respond: {{ status: 200 }} }}]\ntracing: {{ {tracing} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = std::process::Command::new(crate::harness::PORTUNUS).arg("check").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && text.contains(expected) && text.contains("p.yaml:3"), "{tracing}: {text}");
    }
    // Spans of a connection that is no request: none.
    drop(connect(Gate::start(&yaml(vacant(), &[vacant()], "")).address("web")));
}
