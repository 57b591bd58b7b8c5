//! What a process knows goes along when another one takes over: keys of tickets, health of servers, keys of sticky sessions, counts of rates.

use super::client::openssl_get;
use super::upgrade::{Upgradable, is_alive, write};
use super::{ask, keystore, tls_listener, yaml};
use crate::harness::{Upstream, certificates, path, vacant, wait_until};

#[test]
fn tickets_and_health_go_along() {
    let dead = vacant();
    let upstream = Upstream::ok();
    let more = format!("{}\nlimits: {{ drain_timeout: 1h }}", keystore("a.example"));
    let text = yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &more);
    let text = text.replace(
        &format!("servers: [\"{}\"]", upstream.address),
        &format!("servers: [\"{dead}\"], ejection: {{ failures: 1, duration: 1h }}"),
    );
    let mut site = Upgradable::start(certificates(&[("a.example", false)]), &text, 3);
    let session = |option: &str, site: &Upgradable| {
        let file = path(&site.gate.dir, "session");
        openssl_get(site.gate.address("tls"), "a.example", &format!("-tls1_3 {option} {file}"))
    };
    let first = session("-sess_out", &site);
    assert_eq!((first.resumed(), first.status()), (Some(false), Some(502)), "{}", first.0);
    let ready = |site: &Upgradable| ask(site.gate.address("admin"), "GET /readyz", "Host: localhost\r\n");
    assert!(ready(&site).ends_with("no healthy upstream\n"), "{}", ready(&site));
    let pid = site.upgrade();
    wait_until("the first process to end", || !is_alive(site.gate.pid()));
    assert_ne!(pid, site.gate.pid());
    assert!(ready(&site).ends_with("no healthy upstream\n"), "{}", ready(&site));
    assert_eq!(session("-sess_in", &site).resumed(), Some(true), "the ticket of the first process");
    site.end();
}

/// Sessions of a group without a key of its own.
#[test]
fn sticky_sessions_go_along() {
    let all: Vec<Upstream> = (0..4).map(|_| Upstream::ok()).collect();
    let list: Vec<_> = all.iter().map(|server| format!("\"{}\"", server.address)).collect();
    let text = yaml(&all[0], "", "");
    let text = text.replace(
        &format!("servers: [\"{}\"]", all[0].address),
        &format!("servers: [{}], sticky: {{ cookie: sid }}", list.join(", ")),
    );
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &text, 2);
    let address = site.gate.address("web");
    let response = ask(address, "GET /", "Host: x\r\n");
    let cookie = response.lines().find_map(|line| line.strip_prefix("Set-Cookie: sid=")).unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let first = all.iter().position(|server| !server.seen().is_empty()).unwrap();
    site.upgrade();
    for _ in 0..8 {
        let response = ask(address, "GET /", &format!("Host: x\r\nCookie: sid={cookie}\r\n"));
        assert!(response.starts_with("HTTP/1.1 200 ") && !response.contains("Set-Cookie"), "{response}");
    }
    assert_eq!(all[first].seen().len(), 9, "all of them to the server of the session");
    site.end();
}

/// Rates of requests by client, by field and of everything, and one that another configuration counts by something else.
#[test]
fn a_rate_that_is_used_up_stays_used_up() {
    let upstream = Upstream::ok();
    let policies = "policies:
  client: { rate_limit: { rate: 3/h, burst: 3 } }
  field: { rate_limit: { rate: 2/h, burst: 2, key: { header: x-key } } }
  other: { rate_limit: { rate: 1/h, burst: 1, key: route } }
  slow: { bandwidth_limit: { download: 1KiB, burst: 1KiB, key: client } }
";
    let text = |key: &str| {
        let routes = ["client", "field", "other"]
            .map(|name| format!("  - {{ path: /{name}, upstream: app, policies: {name} }}\n"));
        let text = yaml(&upstream, "", &policies.replace("key: route", key));
        text.replace("routes:\n", &format!("routes:\n{}", routes.concat()))
    };
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &text("key: route"), 2);
    let address = site.gate.address("web");
    let status = |path: &str, key: &str| {
        let response = ask(address, &format!("GET /{path}"), &format!("Host: x\r\nX-Key: {key}\r\n"));
        response.split(' ').nth(1).unwrap().to_owned()
    };
    let statuses = |path: &str, key: &str, count: usize| (0..count).map(|_| status(path, key)).collect::<Vec<_>>();
    assert_eq!(statuses("client", "", 4), ["200", "200", "200", "429"]);
    assert_eq!(statuses("field", "one", 3), ["200", "200", "429"]);
    assert_eq!(statuses("field", "two", 1), ["200"]);
    assert_eq!(statuses("other", "", 2), ["200", "429"]);
    for _ in 0..2 {
        site.upgrade_and_outlive();
        assert_eq!(status("client", ""), "429");
        assert_eq!(status("field", "one"), "429");
        assert_eq!(status("other", ""), "429");
    }
    assert_eq!(statuses("field", "two", 2), ["200", "429"], "what is left of a burst is left");
    assert_eq!(statuses("field", "three", 1), ["200"]);
    // What is counted apart by something else begins anew, as at a reload.
    write(site.dir(), &text("key: all"));
    site.upgrade_and_outlive();
    assert_eq!(statuses("other", "", 2), ["200", "429"]);
    assert_eq!(status("client", ""), "429");
    site.end();
}
