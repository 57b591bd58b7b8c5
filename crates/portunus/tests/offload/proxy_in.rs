//! PROXY headers on a listener: who is believed, what is rejected and told, and that nothing goes upstream then.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;

use wire::proxy_protocol::{Extras, Origin, SslExtras, Transport, write_v1, write_v2};

use crate::harness::frames::{Frames, Outcome, get};
use crate::harness::secure::Secure;
use crate::harness::{Gate, Upstream, certificates, connect, exchange, read_response, read_to_end, wait_until};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

/// A plain listener `web` and one under TLS, `tls`, both with this rule, before `upstream`.
fn yaml(upstream: &Upstream, rule: &str, more: &str) -> String {
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", proxy_protocol: {{ {rule}, header_timeout: 1m }} }}
  - {{ name: tls, bind: \"127.0.0.2:0\", proxy_protocol: {{ {rule}, header_timeout: 1m }}, tls: {{ keystore: main }} }}
keystores: {{ main: {{ folder: certs, default: a.test }} }}
upstreams:
  app: {{ servers: [\"{}\"] }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
admin: {{ bind: \"127.0.0.3:0\" }}
{more}
",
        upstream.address
    )
}

fn start(upstream: &Upstream, rule: &str, more: &str) -> Gate {
    Gate::start_in(certificates(&[("a.test", false)]), &yaml(upstream, rule, more))
}

fn tcp(source: &str) -> Origin<'static> {
    let source: SocketAddr = source.parse().unwrap();
    let destination = if source.is_ipv4() { "198.51.100.7:443" } else { "[2001:db8::7]:443" };
    Origin::Inet { transport: Transport::Stream, source, destination: destination.parse().unwrap() }
}

fn v1(source: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_v1(&mut out, &tcp(source));
    out
}

fn v2(source: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let ssl = SslExtras { version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256", ..SslExtras::default() };
    let extras = Extras {
        authority: Some(b"told.test"),
        unique_id: Some(b"id-7"),
        ssl: Some(ssl),
        crc32c: true,
        ..Extras::default()
    };
    write_v2(&mut out, &tcp(source), &extras);
    out
}

fn raw_v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, block].concat()
}

#[test]
fn the_client_is_whom_a_trusted_header_names_however_it_is_cut() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: 127.0.0.0/8", "");
    let headers = [v1("192.0.2.7:4242"), v2("192.0.2.7:4242"), v1("[2001:db8::9]:4242"), v2("[2001:db8::9]:4242")];
    for (index, header) in headers.iter().enumerate() {
        let client = if index < 2 { "192.0.2.7" } else { "2001:db8::9" };
        for piece in [1, 7, header.len() - 1, header.len(), header.len() + 9, usize::MAX] {
            let mut stream = connect(gate.address("web"));
            for part in [&header[..], GET].concat().chunks(piece.min(4096)) {
                stream.write_all(part).unwrap();
            }
            assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 200 "));
            let seen = upstream.seen();
            let last = seen.last().unwrap();
            assert_eq!(last.fields("x-forwarded-for"), [client]);
            assert_eq!(last.fields("x-forwarded-port"), ["443"], "the port the client connected to");
        }
    }
    let lines = gate.log(24);
    assert_eq!(lines[0]["client_address"], "192.0.2.7");
    assert_eq!(lines[0]["client_port"], 4242);
    assert_eq!(lines[0]["proxy_protocol"]["balancer"], "127.0.0.1");
    assert_eq!(lines[0]["proxy_protocol"]["version"], 1);
    let reported = &lines[6]["proxy_protocol"];
    assert_eq!((&reported["server_name"], &reported["unique_id"]), (&"told.test".into(), &"id-7".into()), "{reported}");
    assert_eq!(reported["tls_version"], "TLSv1.3");
}

/// nginx writes the family of the client's socket, and addresses of either family or mapped ones behind it.
#[test]
fn addresses_of_two_families_in_a_line_name_the_client() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: 127.0.0.0/8", "");
    for (line, client) in [
        ("PROXY TCP6 ::ffff:192.0.2.7 2001:db8::7 4242 443", "192.0.2.7"),
        ("PROXY TCP6 192.0.2.7 2001:db8::7 4242 443", "192.0.2.7"),
        ("PROXY TCP6 2001:db8::9 192.0.2.1 4242 443", "2001:db8::9"),
        ("PROXY TCP6 2001:db8::9 ::ffff:192.0.2.1 4242 443", "2001:db8::9"),
        ("PROXY TCP6 192.0.2.7 198.51.100.7 4242 443", "192.0.2.7"),
        ("PROXY TCP4 192.0.2.7 2001:db8::7 4242 443", "192.0.2.7"),
    ] {
        let head = format!("{line}\r\n");
        let (seen, logged) = (upstream.seen().len(), gate.log(0).len());
        let mut stream = connect(gate.address("web"));
        stream.write_all(&[head.as_bytes(), GET].concat()).unwrap();
        assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 200 "), "{line}");
        let mut stream = connect(gate.address("tls"));
        stream.write_all(head.as_bytes()).unwrap();
        let mut frames = Frames::over(Secure::over(stream, gate.dir.path(), "a.test", "h2"));
        frames.headers(1, &get("/"), true);
        assert_eq!(frames.outcome(1), Outcome::Response(200, b"ok".to_vec()), "{line}");
        for seen in &upstream.seen()[seen..] {
            assert_eq!(
                (seen.fields("x-forwarded-for"), seen.fields("x-forwarded-port")),
                (vec![client], vec!["443"]),
                "{line}"
            );
        }
        let lines = gate.log(logged + 2);
        assert!(lines[logged..].iter().all(|line| line["client_address"] == client), "{lines:?}");
    }
}

#[test]
fn a_header_stands_in_front_of_tls() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: [10.0.0.0/8, 127.0.0.1]", "");
    for header in [v1("192.0.2.8:1"), v2("192.0.2.8:1")] {
        let mut stream = connect(gate.address("tls"));
        stream.write_all(&header).unwrap();
        let mut sealed = Secure::over(stream, gate.dir.path(), "a.test", "http/1.1");
        sealed.write_all(GET).unwrap();
        assert!(read_response(&mut sealed).0.starts_with("HTTP/1.1 200 "));
    }
    assert!(upstream.seen().iter().all(|seen| seen.fields("x-forwarded-for") == ["192.0.2.8"]));
    // Inside TLS it is no header any more.
    let mut stream = connect(gate.address("tls"));
    stream.write_all(&v1("192.0.2.8:1")).unwrap();
    let mut sealed = Secure::over(stream, gate.dir.path(), "a.test", "http/1.1");
    sealed.write_all(&[&v1("192.0.2.9:1"), GET].concat()).unwrap();
    assert!(read_response(&mut sealed).0.starts_with("HTTP/1.1 400 "));
    assert_eq!(upstream.seen().len(), 2);
}

#[test]
fn local_and_unspecified_count_as_the_socket_itself() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: 127.0.0.1", "");
    let unix = [&[b'/'; 1][..], &[0; 215]].concat();
    let headers = [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(),
        raw_v2(0x20, 0, b""),
        raw_v2(0x20, 0x11, &[192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2]),
        raw_v2(0x21, 0, b"\x05\0\x01x"),
    ];
    for header in headers {
        assert!(exchange(gate.address("web"), &[&header, GET].concat()).starts_with(b"HTTP/1.1 200 "));
        assert_eq!(upstream.seen().last().unwrap().fields("x-forwarded-for"), ["127.0.0.1"], "{header:?}");
    }
    assert!(exchange(gate.address("web"), &[&raw_v2(0x21, 0x31, &unix), GET].concat()).starts_with(b"HTTP/1.1 200 "));
    assert!(upstream.seen().last().unwrap().fields("x-forwarded-for").is_empty(), "a Unix client has no address");
}

#[test]
fn bad_headers_end_the_connection_and_nothing_goes_upstream() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: 127.0.0.1", "");
    let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2];
    let mut wrong_sum = v2("192.0.2.7:1");
    wrong_sum[20] ^= 1;
    let table: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "proxy_header_missing"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 70000 443\r\n".to_vec(), "proxy_header_invalid"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 -1 443\r\n".to_vec(), "proxy_header_invalid"),
        (b"PROXY TCP4 2001:db8::1 2001:db8::2 1 443\r\n".to_vec(), "proxy_header_invalid"),
        (b"PROXY UDP4 192.0.2.1 192.0.2.2 1 443\r\n".to_vec(), "proxy_header_invalid"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\n".to_vec(), "proxy_header_invalid"),
        ([b"PROXY UNKNOWN ", &[b'x'; 200][..]].concat(), "proxy_header_invalid"),
        // The declared length ends within the addresses: what follows must not be taken for the rest.
        (raw_v2(0x21, 0x11, &v4[..4]), "proxy_header_invalid"),
        (raw_v2(0x21, 0x21, &v4), "proxy_header_invalid"),
        (raw_v2(0x22, 0x11, &v4), "proxy_header_invalid"),
        (raw_v2(0x31, 0x11, &v4), "proxy_header_invalid"),
        (raw_v2(0x21, 0x41, &v4), "proxy_header_invalid"),
        // Of datagrams, on a stream.
        (raw_v2(0x21, 0x12, &v4), "proxy_header_invalid"),
        (raw_v2(0x21, 0x22, &[0x20; 36]), "proxy_header_invalid"),
        (raw_v2(0x21, 0x32, &[b'/'; 216]), "proxy_header_invalid"),
        (raw_v2(0x21, 0x11, &[&v4[..], b"\x05\0\x09x"].concat()), "proxy_header_invalid"),
        (raw_v2(0x21, 0x11, &[&v4[..], &[4, 0x60, 0][..], &[0; 0x6000]].concat()), "proxy_header_invalid"),
        (wrong_sum, "proxy_header_invalid"),
    ];
    for (header, reason) in &table {
        for listener in ["web", "tls"] {
            assert_eq!(exchange(gate.address(listener), &[header, GET].concat()), b"", "{reason}");
        }
    }
    for (part, reason) in [(&b""[..], "closed_without_header"), (b"PROXY TC", "proxy_header_truncated")] {
        let mut stream = connect(gate.address("web"));
        stream.write_all(part).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut stream), b"", "{reason}");
    }
    let text = yaml(&upstream, "trust: 127.0.0.1", "").replace("header_timeout: 1m", "header_timeout: 2s");
    let hasty = Gate::start_in(certificates(&[("a.test", false)]), &text);
    for part in [&b""[..], b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0"] {
        let mut stream = connect(hasty.address("web"));
        // A slow machine may be too late for it.
        let _ = stream.write_all(part);
        assert_eq!(read_to_end(&mut stream), b"", "stalled");
    }
    assert!(
        hasty.log(2).iter().all(|line| line["phase"] == "proxy_header" && line["reason"] == "proxy_header_timeout")
    );
    let expected: Vec<&str> = table.iter().flat_map(|(_, reason)| [*reason; 2]).collect();
    let ends = ["closed_without_header", "proxy_header_truncated"];
    let lines = gate.log(expected.len() + ends.len());
    for (line, reason) in lines.iter().zip(expected.iter().chain(&ends)) {
        assert_eq!((line["phase"].as_str(), line["reason"].as_str()), (Some("proxy_header"), Some(*reason)), "{line}");
    }
    assert_eq!(upstream.raw(), b"");
    let metrics = gate.metrics();
    let sample =
        "portunus_connections_failed_total{listener=\"web\",phase=\"proxy_header\",reason=\"proxy_header_invalid\"} 17";
    assert!(metrics.contains(sample), "{metrics}");
}

#[test]
fn an_untrusted_peer_is_never_believed() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: 192.0.2.0/24", "");
    for bytes in [v1("198.51.100.1:1"), v2("198.51.100.1:1"), Vec::new()] {
        assert_eq!(exchange(gate.address("web"), &[&bytes, GET].concat()), b"");
    }
    assert!(gate.log(3).iter().all(|line| line["reason"] == "proxy_untrusted_peer"));

    let gate = start(&upstream, "trust: 192.0.2.0/24, header: optional", "");
    assert!(exchange(gate.address("web"), GET).starts_with(b"HTTP/1.1 200 "), "passed as itself");
    assert_eq!(upstream.seen().last().unwrap().fields("x-forwarded-for"), ["127.0.0.1"]);
    for bytes in [v1("198.51.100.1:1"), v2("198.51.100.1:1"), raw_v2(0x20, 0, b""), b"PROXY rubbish\r\n".to_vec()] {
        assert_eq!(exchange(gate.address("web"), &[&bytes, GET].concat()), b"");
    }
    let lines = gate.log(5);
    assert!(lines[1..].iter().all(|line| line["reason"] == "proxy_header_untrusted"), "{lines:?}");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_trusted_peer_without_a_header_passes_where_that_is_allowed() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: 127.0.0.1, header: optional", "");
    assert!(exchange(gate.address("web"), GET).starts_with(b"HTTP/1.1 200 "));
    assert!(exchange(gate.address("web"), &[&v1("192.0.2.7:1"), GET].concat()).starts_with(b"HTTP/1.1 200 "));
    let clients: Vec<_> = upstream.seen().iter().map(|seen| seen.fields("x-forwarded-for").join(",")).collect();
    assert_eq!(clients, ["127.0.0.1", "192.0.2.7"]);
}

#[test]
fn the_trust_file_is_read_again_and_a_broken_one_changes_nothing() {
    let upstream = Upstream::ok();
    let dir = certificates(&[("a.test", false)]);
    let list = dir.path().join("balancers.txt");
    let text = yaml(&upstream, "trust_file: balancers.txt", "");

    for (content, said) in [
        (None, "balancers.txt"),
        (Some("# nobody\n"), "holds no network"),
        (Some("127.0.0.1\nlocalhost\n"), "balancers.txt:2:"),
    ] {
        let _ = std::fs::remove_file(&list);
        if let Some(content) = content {
            std::fs::write(&list, content).unwrap();
        }
        std::fs::write(dir.path().join("portunus.yaml"), &text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_portunus"))
            .arg("run")
            .arg(dir.path().join("portunus.yaml"))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(said), "{words}");
    }

    std::fs::write(&list, "127.0.0.0/8 # here\n").unwrap();
    let gate = Gate::start_in(dir, &text);
    let list = gate.dir.path().join("balancers.txt");
    let believed = || exchange(gate.address("web"), &[&v1("192.0.2.7:1"), GET].concat()).starts_with(b"HTTP/1.1 200 ");
    assert!(believed());
    std::fs::write(&list, "rubbish\n").unwrap();
    gate.signal("HUP");
    gate.wait_for("reload rejected");
    assert!(believed(), "the old list stays");
    std::fs::write(&list, "192.0.2.0/24\n").unwrap();
    gate.signal("HUP");
    wait_until("the new list", || !believed());
}

#[test]
fn caps_count_the_true_client() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "trust: 127.0.0.1", "limits: { max_connections_per_client: 2 }");
    let open = |source: &str| {
        let mut stream = connect(gate.address("web"));
        stream.write_all(&v1(source)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stream
    };
    let mut held: Vec<_> = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "192.0.2.3:1"].map(open).into();
    held.iter_mut().for_each(|stream| assert!(read_response(stream).0.starts_with("HTTP/1.1 200 ")));
    assert_eq!(read_to_end(&mut open("192.0.2.1:3")), b"", "the third of one client");
    let lines = gate.log(5);
    let rejected = lines.iter().find(|line| line["reason"] == "too_many_connections_from_client").unwrap();
    assert_eq!(rejected["client_address"], "192.0.2.1");
    held.clear();
    wait_until("places to be free again", || {
        let mut again = open("192.0.2.1:4");
        let mut first = [0; 8];
        std::io::Read::read(&mut again, &mut first).is_ok_and(|count| count > 0)
    });
}
