//! Alt-Svc: where HTTP/3 is announced, and where not.

use std::io::Write;
use std::process::Command;

use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, yaml};
use crate::harness::{Gate, Reply, Upstream, certificates, read_to_end, wait_until};

fn config(upstream: &Upstream, listener: &str) -> String {
    let file = "keystores: { main: { folder: certs, default: a.test } }\nlimits: { drain_delay: 1h }\n";
    let text = yaml(&[upstream.address], Parts { file, ..Parts::default() });
    text.replace("bind: \"127.0.0.1:0\"", &format!("bind: \"127.0.0.1:0\", tls: {{ keystore: main }}{listener}"))
}

fn announced(gate: &Gate, request: &str) -> Vec<String> {
    let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
    client.write_all(request.as_bytes()).unwrap();
    let response = String::from_utf8(read_to_end(&mut client)).unwrap();
    let fields = response.lines().filter_map(|line| line.split_once(": "));
    fields.filter(|(name, _)| name.eq_ignore_ascii_case("alt-svc")).map(|(_, value)| value.to_owned()).collect()
}

/// The same over HTTP/2, as curl sees it.
fn announced_over_http2(gate: &Gate) -> Vec<String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--http2", "--noproxy", "*", "--dump-header", "-", "--cacert", "ca.pem"])
        .args(["--connect-to", &format!("a.test:443:{}", gate.address("web")), "https://a.test/"])
        .current_dir(gate.dir.path())
        .output()
        .expect("curl is installed (Debian package curl)");
    let response = String::from_utf8(output.stdout).unwrap();
    assert!(response.starts_with("HTTP/2 200"), "{response} {}", String::from_utf8_lossy(&output.stderr));
    let fields = response.lines().filter_map(|line| line.split_once(": "));
    fields.filter(|(name, _)| *name == "alt-svc").map(|(_, value)| value.to_owned()).collect()
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

#[test]
fn http3_is_announced_until_the_gate_leaves() {
    let upstream = Upstream::start(|_| {
        Reply::Keep("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAlt-Svc: h3=\":1\"; ma=9\r\n\r\n".into())
    });
    let gate = Gate::start_in(certificates(&[("a.test", false)]), &config(&upstream, ", http3: true"));
    let own = vec![format!("h3=\":{}\"; ma=3600", gate.address("web").port())];
    assert_eq!(announced(&gate, REQUEST), own, "in place of the upstream's");
    assert_eq!(announced_over_http2(&gate), own);
    gate.rewrite(&config(&upstream, ""));
    gate.signal("HUP");
    wait_until("the listener serves HTTP/3 no more", || announced(&gate, REQUEST) == ["h3=\":1\"; ma=9"]);
    assert_eq!(announced_over_http2(&gate), ["h3=\":1\"; ma=9"]);
    gate.rewrite(&config(&upstream, ", http3: true"));
    gate.signal("HUP");
    wait_until("it does again", || announced(&gate, REQUEST) == own);
    gate.signal("TERM");
    wait_until("it leaves", || announced(&gate, REQUEST) == ["h3=\":1\"; ma=9"]);
    assert_eq!(announced_over_http2(&gate), ["h3=\":1\"; ma=9"]);
}

/// Behind a NAT or a container that publishes the port under another number, as its configuration says; a route's own field counts as on every route.
#[test]
fn clients_are_sent_to_the_port_that_is_published() {
    let upstream = Upstream::start(|_| {
        Reply::Keep("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAlt-Svc: h3=\":1\"; ma=9\r\n\r\n".into())
    });
    let dir = certificates(&[("a.test", false)]);
    let gate = Gate::start_in(dir, &config(&upstream, ", http3: { advertise: 443 }"));
    let bound = gate.address("web").port();
    let default = format!("h3=\":{bound}\"; ma=3600");
    for (listener, route, expected) in [
        (", http3: { advertise: 443 }", "", &["h3=\":443\"; ma=3600"][..]),
        (", http3: true, public_port: 8444", "", &["h3=\":8444\"; ma=3600"]),
        (", http3: { advertise: 443 }, public_port: 8444", "", &["h3=\":443\"; ma=3600"]),
        (", http3: {}", "", &[&default]),
        (", http3: true", ", response_headers: { set: { Alt-Svc: 'h3=\":7\"' } }", &["h3=\":7\""]),
        (", http3: true", ", response_headers: { remove: alt-svc }", &[]),
    ] {
        let text = config(&upstream, listener).replace("upstream: app", &format!("upstream: app{route}"));
        gate.rewrite(&text);
        gate.signal("HUP");
        wait_until("the listener announces it", || announced(&gate, REQUEST) == expected);
        assert_eq!(announced_over_http2(&gate), expected, "{listener}{route}");
    }
}
