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
