//! `headers.unusual_names`: what becomes of fields whose names hold `_` or other characters that some servers take for a hyphen.

use crate::harness::frames::{Frames, Outcome};
use crate::harness::{Gate, Reply, Upstream, ask_on, exchange, statuses};

const POLICY: &str = "policies: { tenants: { rate_limit: { rate: 1/h, burst: 1, key: { header: x-tenant } } } }\n";

const NAMES: [&str; 6] = ["x-amz-meta-my_key", "x_tenant", "x_forwarded_for", "x.real.ip", "app.x", "x_hash"];

fn gate(setting: &str, upstream: &Upstream) -> Gate {
    Gate::start(&format!(
        "{setting}{POLICY}listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ servers: [\"{}\"], balance: {{ hash: {{ header: X-Hash }} }} }} }}\n\
         routes: [{{ upstream: app, policies: [tenants] }}]\n",
        upstream.address
    ))
}

/// The status of a request with such names, and those that the upstream sees.
fn names(setting: &str) -> (u16, String) {
    let upstream = Upstream::ok();
    let gate = gate(setting, &upstream);
    let fields: String = NAMES.iter().map(|name| format!("{name}: 1\r\n")).collect();
    let (response, _) = ask_on(gate.address("web"), &format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
    (response.split(' ').nth(1).unwrap().parse().unwrap(), seen(&upstream))
}

fn seen(upstream: &Upstream) -> String {
    let seen = upstream.seen().first().map(|seen| seen.head.clone()).unwrap_or_default().to_lowercase();
    let names: Vec<&str> = NAMES.iter().copied().filter(|name| seen.contains(&format!("\r\n{name}:"))).collect();
    names.join(" ")
}

#[test]
fn a_setting_decides_and_what_could_be_taken_for_another_field_never_passes() {
    for (setting, status, left) in [
        ("", 200, "x-amz-meta-my_key app.x"),
        ("headers: { unusual_names: pass }\n", 200, "x-amz-meta-my_key app.x"),
        ("headers: { unusual_names: underscores }\n", 200, "x-amz-meta-my_key"),
        ("headers: { unusual_names: drop }\n", 200, ""),
        ("headers: { unusual_names: reject }\n", 400, ""),
    ] {
        assert_eq!(names(setting), (status, left.to_owned()), "{setting}");
    }
}

#[test]
fn http2_is_no_other() {
    for (setting, status, left) in
        [("", 200, "x-amz-meta-my_key app.x"), ("headers: { unusual_names: reject }\n", 400, "")]
    {
        let upstream = Upstream::ok();
        let gate = gate(setting, &upstream);
        let mut fields: Vec<(&str, &[u8])> =
            vec![(":method", b"GET"), (":scheme", b"http"), (":authority", b"x"), (":path", b"/")];
        fields.extend(NAMES.iter().map(|name| (*name, &b"1"[..])));
        let mut frames = Frames::open_plain(gate.address("web"));
        frames.headers(1, &fields, true);
        let Outcome::Response(got, _) = frames.outcome(1) else { panic!("{setting}: no response") };
        assert_eq!((got, seen(&upstream)), (status, left.to_owned()), "{setting}");
    }
}

/// To somebody, `Content.Length` announces a body: what stands behind the head is not read as a request, unless the field cannot go on.
#[test]
fn names_of_the_framing_and_the_connection_end_theirs() {
    for name in ["Content_Length", "content.length", "Transfer!Encoding", "KEEP_ALIVE", "Proxy*Connection"] {
        for (setting, expected) in [("", vec![400]), ("headers: { unusual_names: drop }\n", vec![200, 200])] {
            let upstream = Upstream::start(|_| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()));
            let gate = gate(setting, &upstream);
            let request = |more: &str| format!("GET / HTTP/1.1\r\nHost: x\r\nX-Tenant: {more}\r\n");
            let both = format!("{}{name}: 5\r\n\r\n{}Connection: close\r\n\r\n", request("1"), request("2"));
            let got = statuses(&exchange(gate.address("web"), both.as_bytes()));
            assert_eq!(got, expected, "{name} {setting}");
            assert!(upstream.seen().iter().all(|seen| !seen.head.to_lowercase().contains(&name.to_lowercase())));
        }
    }
}

/// A server that makes no difference must not get from a client what the configuration says under an unusual name.
#[test]
fn the_usual_spelling_of_an_unusual_name_that_is_written_does_not_pass() {
    for setting in ["", "headers: { unusual_names: drop }\n"] {
        let upstream = Upstream::ok();
        let gate = Gate::start(&format!(
            "{setting}listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nupstreams: {{ app: {{ servers: [\"{}\"] }} }}\n\
             routes: [{{ upstream: app, request_headers: {{ set: {{ x_user: ada }} }} }}]\n",
            upstream.address
        ));
        let fields = "X-User: root\r\nx_user: root\r\nx.user: root\r\nX-Other: 1\r\n";
        let (response, _) = ask_on(gate.address("web"), &format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        let seen = upstream.seen().remove(0);
        let found = ["x_user", "x-user", "x.user", "x-other"].map(|name| seen.fields(name).join(" "));
        assert_eq!(found, ["ada", "", "", "1"], "{setting}");
    }
}
