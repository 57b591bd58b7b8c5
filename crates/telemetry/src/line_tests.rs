//! Tests of the access-log line's form.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use reason::{Reason, Side};
use serde_json::Value;

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::record::AddedFields;
use crate::rules::SyslogHeader;

fn info() -> tls::Info {
    tls::Info {
        version: tls::ProtocolVersion::Tls13,
        cipher: "TLS_AES_128_GCM_SHA256",
        group: Some("X25519MLKEM768"),
        server_name: Some("api.example.com".into()),
        alpn: Some(b"h2".as_slice().into()),
        key_type: Some(tls::KeyType::Ecdsa),
        key_algorithm: None,
        signature_algorithm: None,
        resumed: true,
        ech: false,
        fingerprint: None,
        peer: None,
    }
}

fn record() -> RequestRecord<'static> {
    RequestRecord {
        started: UNIX_EPOCH + Duration::from_millis(1_795_252_444_007),
        listener: "edge",
        client: Some("192.0.2.7".parse().unwrap()),
        peer: Some("192.0.2.7:40123".parse().unwrap()),
        reported: None,
        tls: None,
        method: "GET",
        version: "HTTP/1.1",
        host: b"api.example.com",
        host_pattern: Some("*.example.com"),
        target: b"/items?page=2",
        user_agent: b"curl/8",
        request_id: b"0123456789abcdef",
        route: Some("items"),
        upstream: Some("shop"),
        server: Some("10.0.0.5:8080"),
        status: 200,
        upstream_status: Some(200),
        bytes_received: 0,
        bytes_sent: 1234,
        duration: Duration::from_micros(1_002_003),
        upstream_duration: Some(Duration::from_micros(950)),
        queued: None,
        throttled: None,
        user: None,
        session: None,
        port_kept: None,
        retries: 1,
        hedges: 0,
        hedge_won: false,
        mirror: None,
        error_pages: None,
        compressed: None,
        fault: Side::Nobody,
        reason: None,
        policy: None,
        would_reject: &[],
        contract: None,
        added: None,
        trace: None,
    }
}

fn connection_record() -> ConnRecord<'static> {
    ConnRecord {
        started: UNIX_EPOCH,
        listener: "edge",
        client: None,
        reported: None,
        server_name: Some("x.example"),
        duration: Duration::from_millis(5),
        phase: "tls_handshake",
        fault: Side::Client,
        reason: Reason::TlsHandshakeFailed,
        policy: None,
        would_reject: &[],
        detail: "NO_SHARED_CIPHER",
    }
}

fn line(form: Form, record: &RequestRecord<'_>) -> String {
    let mut out = Vec::new();
    request(&mut out, &mut Clock::default(), &Rules::plain(form), record);
    String::from_utf8(out).expect("a line is UTF-8")
}

fn connection_line(form: Form, record: &ConnRecord<'_>) -> String {
    let mut out = Vec::new();
    connection(&mut out, &mut Clock::default(), &Rules::plain(form), record);
    String::from_utf8(out).expect("a line is UTF-8")
}

#[test]
fn a_request_in_full() {
    let info = info();
    let record =
        RequestRecord { tls: Some(&info), fault: Side::Upstream, reason: Some(Reason::UpstreamClosed), ..record() };
    let expected = concat!(
        r#"{"time":"2026-11-21T09:14:04.007Z","kind":"request","client_address":"192.0.2.7","client_port":40123,"#,
        r#""listener":"edge","method":"GET","host":"api.example.com","target":"/items?page=2","version":"HTTP/1.1","#,
        r#""status":200,"bytes_received":0,"bytes_sent":1234,"duration_seconds":1.002003,"route":"items","#,
        r#""upstream":{"name":"shop","server":"10.0.0.5:8080","status":200,"duration_seconds":0.000950,"retries":1},"#,
        r#""tls":{"version":"TLSv1.3","cipher":"TLS_AES_128_GCM_SHA256","group":"X25519MLKEM768","#,
        r#""server_name":"api.example.com","alpn":"h2","key_type":"ECDSA","resumed":true},"#,
        r#""user_agent":"curl/8","request_id":"0123456789abcdef","fault":"upstream","reason":"upstream_closed"}"#,
        "\n"
    );
    assert_eq!(line(Form::Json, &record), expected);
    let expected = "2026-11-21T09:14:04.007Z 192.0.2.7 GET \"api.example.com/items?page=2\" 200 1002.003ms in=0 out=1234 \
                    listener=edge route=items upstream=shop server=10.0.0.5:8080 tls=TLSv1.3 key=ECDSA id=0123456789abcdef \
                    fault=upstream reason=upstream_closed\n";
    assert_eq!(line(Form::Text, &record), expected);
}

fn rules(form: Form, frame: Frame, removed: &[&str]) -> Rules {
    let removed = removed.iter().map(|name| (*name).to_owned()).collect();
    let mut rules = Rules::of(&config::AccessLog { removed, ..Default::default() }, 0);
    (rules.form, rules.frame) = (form, frame);
    rules
}

fn framed(rules: &Rules, record: &RequestRecord<'_>) -> String {
    let mut out = Vec::new();
    request(&mut out, &mut Clock::default(), rules, record);
    String::from_utf8(out).expect("a line is UTF-8")
}

#[test]
fn the_other_forms_of_a_request() {
    let added: [(&str, &[u8]); 1] = [("tenant", b"a b")];
    let added = Added(&added);
    let record = RequestRecord {
        target: b"/a?token=x&b=\"c",
        user: Some("j doe"),
        user_agent: b"",
        fault: Side::Upstream,
        reason: Some(Reason::UpstreamClosed),
        added: Some(&added),
        ..record()
    };
    let logfmt = concat!(
        "time=2026-11-21T09:14:04.007Z kind=request client_address=192.0.2.7 client_port=40123 listener=edge method=GET ",
        "host=api.example.com target=\"/a?token=REDACTED&b=\\\"c\" version=HTTP/1.1 status=200 bytes_received=0 bytes_sent=1234 ",
        "duration_seconds=1.002003 route=items upstream.name=shop upstream.server=10.0.0.5:8080 upstream.status=200 ",
        "upstream.duration_seconds=0.000950 upstream.retries=1 user=\"j doe\" request_id=0123456789abcdef fields.tenant=\"a b\" ",
        "fault=upstream reason=upstream_closed\n"
    );
    assert_eq!(framed(&rules(Form::Logfmt, Frame::Line, &[]), &record), logfmt);
    let common =
        "192.0.2.7 - j\\u0020doe [21/Nov/2026:09:14:04 +0000] \"GET /a?token=REDACTED&b=\\\"c HTTP/1.1\" 200 1234\n";
    assert_eq!(framed(&rules(Form::Ncsa, Frame::Line, &[]), &record), common);
    let nobody = RequestRecord { client: None, user: None, bytes_sent: 0, ..record };
    assert!(framed(&rules(Form::Ncsa, Frame::Line, &[]), &nobody).starts_with("- - - ["));
    let header = SyslogHeader { facility: 16, origin: " host app 1 ".into() };
    let syslog = framed(&rules(Form::Ncsa, Frame::Syslog(header), &[]), &record);
    assert_eq!(syslog, format!("<132>1 2026-11-21T09:14:04.007Z host app 1 request - {common}"));
    let removed =
        ["upstream", "host", "client_address", "client_port", "version", "listener", "method", "bytes_received"];
    let journal = framed(&rules(Form::Ncsa, Frame::Journal, &removed), &record);
    let expected = concat!(
        "PORTUNUS_TIME=2026-11-21T09:14:04.007Z\nPORTUNUS_KIND=request\nPORTUNUS_TARGET=/a?token=REDACTED&b=\\\"c\nPORTUNUS_STATUS=200\n",
        "PORTUNUS_BYTES_SENT=1234\nPORTUNUS_DURATION_SECONDS=1.002003\nPORTUNUS_ROUTE=items\nPORTUNUS_USER=j doe\n",
        "PORTUNUS_REQUEST_ID=0123456789abcdef\nPORTUNUS_FIELDS_TENANT=a b\nPORTUNUS_FAULT=upstream\nPORTUNUS_REASON=upstream_closed\n\n"
    );
    assert_eq!(journal, format!("PRIORITY=4\nSYSLOG_IDENTIFIER=portunus\nMESSAGE={common}{expected}"));
}

#[test]
fn removed_fields_leave_an_object_whole() {
    let removed = [
        "upstream.name",
        "upstream.server",
        "upstream.status",
        "upstream.duration_seconds",
        "upstream.retries",
        "tls",
        "target",
        "truncated",
    ];
    let (info, long) = (info(), vec![b'a'; 3000]);
    let line = framed(
        &rules(Form::Json, Frame::Line, &removed),
        &RequestRecord { tls: Some(&info), target: &long, ..record() },
    );
    let value: Value = serde_json::from_str(&line).unwrap();
    for name in ["upstream", "tls", "target", "truncated"] {
        assert!(value.get(name).is_none(), "{line}");
    }
    let some = framed(
        &rules(Form::Json, Frame::Line, &["upstream.name", "tls.version"]),
        &RequestRecord { tls: Some(&info), ..record() },
    );
    let value: Value = serde_json::from_str(&some).unwrap();
    assert!(value["upstream"].get("name").is_none() && value["upstream"]["retries"] == 1, "{some}");
    assert!(value["tls"].get("version").is_none() && value["version"] == "HTTP/1.1", "{some}");
}

#[test]
fn a_connection_in_full() {
    let expected = concat!(
        r#"{"time":"1970-01-01T00:00:00.000Z","kind":"connection","listener":"edge","phase":"tls_handshake","#,
        r#""server_name":"x.example","duration_seconds":0.005000,"fault":"client","reason":"tls_handshake_failed","#,
        r#""detail":"NO_SHARED_CIPHER"}"#,
        "\n"
    );
    assert_eq!(connection_line(Form::Json, &connection_record()), expected);
    let expected = "1970-01-01T00:00:00.000Z - (connection) 5.000ms listener=edge phase=tls_handshake name=x.example \
                    fault=client reason=tls_handshake_failed detail=NO_SHARED_CIPHER\n";
    assert_eq!(connection_line(Form::Text, &connection_record()), expected);
}

#[test]
fn a_tunnel_in_full() {
    let info = info();
    let record = TunnelRecord {
        started: UNIX_EPOCH,
        listener: "edge",
        client: Some("192.0.2.7:40123".parse().unwrap()),
        reported: None,
        tls: Some(&info),
        server_name: None,
        passthrough: false,
        connection_id: b"id\n",
        upstream: "app",
        server: Some("unix:/run/app.sock"),
        retries: 0,
        connect_duration: Some(Duration::from_micros(61)),
        port_kept: Some(false),
        bytes_received: 10,
        bytes_sent: 20,
        throttled: None,
        ready_after: Duration::from_millis(1),
        duration: Duration::from_millis(2),
        ended_by: "client",
        fault: Side::Nobody,
        reason: None,
        policy: None,
        would_reject: &[],
    };
    let lines = [Form::Json, Form::Text].map(|form| {
        let mut out = Vec::new();
        tunnel(&mut out, &mut Clock::default(), &Rules::plain(form), &record);
        String::from_utf8(out).unwrap()
    });
    let expected = concat!(
        r#"{"time":"1970-01-01T00:00:00.000Z","kind":"tunnel","client_address":"192.0.2.7","client_port":40123,"#,
        r#""listener":"edge","bytes_received":10,"bytes_sent":20,"duration_seconds":0.002000,"ready_after_seconds":0.001000,"#,
        r#""upstream":{"name":"app","server":"unix:/run/app.sock","connect_seconds":0.000061,"retries":0},"port_kept":false,"#,
        r#""tls":{"version":"TLSv1.3","cipher":"TLS_AES_128_GCM_SHA256","group":"X25519MLKEM768","#,
        r#""server_name":"api.example.com","alpn":"h2","key_type":"ECDSA","resumed":true},"#,
        r#""connection_id":"id\n","ended_by":"client"}"#,
        "\n"
    );
    assert_eq!(lines[0], expected);
    let expected = "1970-01-01T00:00:00.000Z 192.0.2.7 (tunnel) 2.000ms in=10 out=20 listener=edge name=api.example.com upstream=app \
                    server=unix:/run/app.sock tls=TLSv1.3 id=id\\n ended_by=client\n";
    assert_eq!(lines[1], expected);
}

#[test]
fn times_are_rfc_3339() {
    fn check(seconds: u64, expected: &str) {
        let mut out = Vec::new();
        Clock::default().write(&mut out, UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    check(0, "1970-01-01T00:00:00.000Z");
    check(951_782_399, "2000-02-28T23:59:59.000Z");
    check(951_782_400, "2000-02-29T00:00:00.000Z");
    check(951_868_800, "2000-03-01T00:00:00.000Z");
    check(1_735_689_599, "2024-12-31T23:59:59.000Z");
    check(4_107_542_400, "2100-03-01T00:00:00.000Z");

    let mut clock = Clock::default();
    let mut out = Vec::new();
    clock.write(&mut out, UNIX_EPOCH - Duration::from_secs(5));
    clock.write(&mut out, UNIX_EPOCH + Duration::from_millis(999));
    clock.write(&mut out, UNIX_EPOCH + Duration::from_millis(1001));
    let expected = "1970-01-01T00:00:00.000Z1970-01-01T00:00:00.999Z1970-01-01T00:00:01.001Z";
    assert_eq!(String::from_utf8(out).unwrap(), expected, "the kept text is not used for another second");
}

#[test]
fn addresses_are_written_as_the_client_knows_them() {
    fn check(client: &str, expected: &str) {
        let peer: SocketAddr = client.parse().unwrap();
        let record = RequestRecord { client: Some(peer.ip().to_canonical()), peer: Some(peer), ..record() };
        let value: Value = serde_json::from_str(&line(Form::Json, &record)).unwrap();
        assert_eq!(value["client_address"], expected);
    }
    check("255.0.10.1:1", "255.0.10.1");
    check("[2001:db8::1]:1", "2001:db8::1");
    check("[::ffff:192.0.2.1]:1", "192.0.2.1");
}

#[test]
fn a_client_that_a_proxy_names_stands_beside_its_peer() {
    let record = RequestRecord { client: Some("2001:db8::9".parse().unwrap()), ..record() };
    let value: Value = serde_json::from_str(&line(Form::Json, &record)).unwrap();
    assert_eq!((&value["client_address"], &value["peer_address"]), (&"2001:db8::9".into(), &"192.0.2.7".into()));
    assert!(value.get("client_port").is_none(), "the port is the peer's: {value}");
    let text = line(Form::Text, &record);
    assert!(text.contains(" 2001:db8::9 GET ") && text.contains(" peer=192.0.2.7 "), "{text}");
}

#[test]
fn hostile_bytes_are_escaped_and_come_back() {
    fn check(bytes: &[u8], decoded: &str) {
        let record = RequestRecord { target: bytes, ..record() };
        let value: Value = serde_json::from_str(&line(Form::Json, &record)).unwrap();
        assert_eq!(value["target"], decoded);
    }
    check(b"/a\r\nHost: b\"c\\d\x1b[31m\x00\x7f\t", "/a\r\nHost: b\"c\\d\u{1b}[31m\0\u{7f}\t");
    check("/ü€😀\u{202e}\u{85}\u{2028}".as_bytes(), "/ü€😀\u{202e}\u{85}\u{2028}");
    check(b"/\xff\xc3\x28\xed\xa0\x80\xf0\x9f\x98", "/\\xff\\xc3(\\xed\\xa0\\x80\\xf0\\x9f\\x98");
    check(b"\xc0\xaf\xe2\x82", "\\xc0\\xaf\\xe2\\x82");
}

#[test]
fn long_fields_are_cut_and_named() {
    let long = vec![b'a'; 1024 * 1024];
    let accented = "é".repeat(200);
    let record = RequestRecord { target: &long, user_agent: accented.as_bytes(), host: &long[..256], ..record() };
    let text = line(Form::Json, &record);
    assert!(text.len() < 6 * TARGET_BYTES, "{}", text.len());
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["target"].as_str().unwrap().len(), TARGET_BYTES);
    assert_eq!(value["user_agent"], "é".repeat(128), "cut between characters");
    assert_eq!(value["truncated"], serde_json::json!(["target", "user_agent"]), "256 bytes of host still fit");
    let odd = format!("a{accented}");
    let value: Value =
        serde_json::from_str(&line(Form::Json, &RequestRecord { user_agent: odd.as_bytes(), ..record })).unwrap();
    assert_eq!(value["user_agent"], format!("a{}", "é".repeat(127)));
    assert!(line(Form::Text, &record).contains("aaaa[...]"));
}

/// Whatever a client sends into any field: one line, printable ASCII, that parses, with its fields still apart.
#[test]
fn any_bytes_give_one_well_formed_line() {
    let mut random = fastrand::Rng::with_seed(7);
    let interesting: &[u8] = b"\r\n\t\x1b\"\\{}[],:\x00\x7f\x80\xbf\xc2\xe2\x80\xa8\xed\xa0\xf0\x9f\xff u";
    for round in 0..20_000 {
        let mut field = |most: usize| -> Vec<u8> {
            (0..random.usize(..=most))
                .map(|_| if random.bool() { interesting[random.usize(..interesting.len())] } else { random.u8(..) })
                .collect()
        };
        let most = if round % 100 == 0 { 3000 } else { 40 };
        let (host, target, agent, id) = (field(most), field(most), field(most), field(most));
        let detail = String::from_utf8_lossy(&field(most)).into_owned();
        let record = RequestRecord {
            host: &host,
            target: &target,
            user_agent: &agent,
            request_id: &id,
            method: &detail,
            ..record()
        };
        let failed = ConnRecord { detail: &detail, server_name: Some(&detail), ..connection_record() };
        for line in [
            line(Form::Json, &record),
            line(Form::Text, &record),
            line(Form::Logfmt, &record),
            line(Form::Ncsa, &record),
            connection_line(Form::Json, &failed),
            connection_line(Form::Text, &failed),
            connection_line(Form::Logfmt, &failed),
        ] {
            let (last, text) = line.as_bytes().split_last().unwrap();
            assert!(*last == b'\n' && text.iter().all(|byte| (0x20..0x7f).contains(byte)), "{line:?}");
        }
        // Of the journal, no value ends its field, and none the entry.
        let entry = framed(&rules(Form::Text, Frame::Journal, &[]), &record);
        let fields = entry.strip_suffix("\n\n").unwrap().split('\n');
        assert!(
            fields.clone().all(|field| field.split_once('=').is_some_and(|(name, _)| is_journal_name(name))),
            "{entry:?}"
        );
        assert_eq!(fields.filter(|field| field.starts_with("PORTUNUS_STATUS=")).count(), 1);
        let value: Value = serde_json::from_str(&line(Form::Json, &record)).expect("JSON");
        assert_eq!(value["status"], 200);
        assert_eq!(value["listener"], "edge");
        if target.len() <= TARGET_BYTES && std::str::from_utf8(&target).is_ok() {
            assert_eq!(value["target"].as_str().unwrap().as_bytes(), target);
        }
        let value: Value = serde_json::from_str(&connection_line(Form::Json, &failed)).expect("JSON");
        if detail.len() <= FIELD_BYTES {
            assert_eq!(value["detail"].as_str().unwrap_or(""), detail, "an empty detail is left out");
        }
    }
}

fn is_journal_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Fields that a configuration adds.
#[derive(Debug)]
struct Added<'a>(&'a [(&'a str, &'a [u8])]);

impl AddedFields for Added<'_> {
    fn each(&self, put: &mut dyn FnMut(&str, &[u8])) {
        self.0.iter().for_each(|(name, value)| put(name, value));
    }
}

#[test]
fn added_fields_stand_in_an_object_of_their_own() {
    let long = [b'x'; 400];
    let added: [(&str, &[u8]); 3] = [("status", b"a\"b\n"), ("empty", b""), ("long", &long)];
    let fields = Added(&added);
    let record = RequestRecord { added: Some(&fields), ..record() };
    let value: serde_json::Value = serde_json::from_str(&line(Form::Json, &record)).unwrap();
    assert_eq!(value["fields"], serde_json::json!({ "status": "a\"b\n", "long": "x".repeat(256) }));
    assert_eq!((&value["status"], &value["truncated"]), (&200.into(), &serde_json::json!(["fields"])));
    assert!(line(Form::Text, &record).contains(" fields.status=a\\\"b\\n fields.long=xxx"));
    let nothing = Added(&[("empty", b"")]);
    let value: serde_json::Value =
        serde_json::from_str(&line(Form::Json, &RequestRecord { added: Some(&nothing), ..record })).unwrap();
    assert!(value.get("fields").is_none() && value.get("fault").is_none(), "{value}");
}
