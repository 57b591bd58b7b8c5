//! What failed or was rejected last, and what policies decided, as the API and the commands show it (rows 143 and 992).

use std::io::Write as _;

use serde_json::{Value, json};

use super::ask;
use super::operate::Site;
use crate::harness::{Reply, Upstream, connect, wait_until};

fn failing() -> Upstream {
    Upstream::start(|_| Reply::Close(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec()))
}

/// A site whose servers fail, and whose route is for `/x` alone.
fn site() -> Site {
    Site::start_with([failing(), failing()], |_, text| {
        text.replace("'/{*rest}'", "/x").replace("[{ path", "[{ name: x, path")
    })
}

fn errors(site: &Site) -> Vec<Value> {
    site.json(&["errors"])["errors"].as_array().unwrap().clone()
}

/// The newest error of this reason, once there is one.
fn error(site: &Site, reason: Option<&str>) -> Value {
    let find = || errors(site).into_iter().find(|error| error["reason"].as_str() == reason);
    wait_until("the error", || find().is_some());
    find().unwrap()
}

#[test]
fn errors_say_who_and_what_and_whose_fault() {
    let site = site();
    let web = site.gate.address("web");
    assert_eq!(errors(&site), Vec::<Value>::new());
    ask(web, "GET /x?a=1&access_token=s3cret", "Host: a.test\r\n");
    let own = error(&site, None);
    for (name, expected) in [
        ("kind", json!("request")),
        ("listener", json!("web")),
        ("client", json!("127.0.0.1")),
        ("method", json!("GET")),
        ("host", json!("a.test")),
        ("target", json!("/x?a=1&access_token=REDACTED")),
        ("status", json!(500)),
        ("route", json!("x")),
        ("upstream", json!("app")),
        ("fault", json!("upstream")),
        ("policy", json!(null)),
        ("user", json!(null)),
    ] {
        assert_eq!(own[name], expected, "{name} of {own}");
    }
    assert!([site.name(0), site.name(1)].iter().any(|server| own["server"] == server.as_str()), "{own}");
    let status = site.said(&["status"]);
    assert!(status.contains("last errors that are not a client's") && status.contains("GET a.test/x?a=1"), "{status}");
    ask(web, "GET /nowhere", "Host: a.test\r\n");
    let lost = error(&site, Some("no_route"));
    assert_eq!((&lost["status"], &lost["fault"], &lost["route"]), (&json!(404), &json!("client"), &json!(null)));
    assert!(lost["meaning"].as_str().is_some_and(|meaning| !meaning.is_empty()), "{lost}");
    // What never becomes a request.
    drop(connect(web));
    let left = error(&site, Some("closed_without_request"));
    assert_eq!((&left["kind"], &left["status"]), (&json!("connection"), &json!(null)));
    // The policy that says no.
    site.said(&["maintenance", "on"]);
    ask(web, "GET /x", "Host: a.test\r\n");
    assert_eq!(error(&site, Some("maintenance"))["policy"], "planned");
    let listed = site.said(&["errors"]);
    assert!(listed.starts_with("TIME ") && listed.contains("maintenance") && !listed.contains("s3cret"), "{listed}");
}

/// Whoever sends rejected requests without end does not hide that a server fails.
#[test]
fn a_flood_of_clients_pushes_no_other_error_out() {
    let site = site();
    let web = site.gate.address("web");
    ask(web, "GET /x", "Host: a.test\r\n");
    error(&site, None);
    let clients = || errors(&site).iter().filter(|error| error["fault"] == "client").count();
    wait_until("as many errors as are listed", || {
        let mut flood = connect(web);
        let all = "GET /nowhere HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(50)
            + "GET /nowhere HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        flood.write_all(all.as_bytes()).unwrap();
        crate::harness::read_to_end(&mut flood);
        clients() == 100
    });
    assert_eq!(error(&site, None)["status"], 500);
}

/// The other end of a log is a terminal or a browser.
#[test]
fn text_of_clients_is_printable_and_bounded() {
    let site = site();
    let web = site.gate.address("web");
    let long = format!("GET /{}", "t".repeat(5_000));
    for (line, fields) in [
        ("GET /\u{1b}[2J", "Host: a.test\r\n"),
        ("GET /<script>alert(1)</script>?code=s3cret", "Host: a.test\r\n"),
        ("GET /\u{202e}\u{9b}2J?q=\u{1b}]0;x\u{7}", "Host: a.test\r\n"),
        (&long, "Host: a.test\r\n"),
        ("GET /y", "Host: <img src=x onerror=alert(1)>\r\n"),
        ("G\u{1b}T /y", "Host: a.test\r\n"),
    ] {
        ask(web, line, fields);
    }
    wait_until("the errors", || errors(&site).len() >= 6);
    let all = errors(&site);
    for error in &all {
        for (name, value) in error.as_object().unwrap() {
            let Some(text) = value.as_str() else { continue };
            assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{name} of {error}");
            assert!(text.len() <= 4 * 512, "{name} has {} bytes", text.len());
        }
    }
    assert!(!format!("{all:?}").contains("s3cret"), "{all:?}");
    for arguments in [&["errors"][..], &["status"]] {
        let text = site.said(arguments);
        assert!(!text.contains(|char: char| char.is_control() && char != '\n'), "{text:?}");
    }
}

#[test]
fn policies_say_where_they_are_attached_and_what_they_decided() {
    let site = Site::start_with([Upstream::ok(), Upstream::ok()], |_, text| {
        text.replace("policies: {", "policies: { trial: { mode: log, deny: 127.0.0.0/8 }, idle: { allow: 10.0.0.0/8 },")
            .replace("routes: [{ path", "routes: [{ name: x, path")
            .replace("policies: planned", "policies: [planned, trial]")
    });
    let view = || -> Value {
        let head = "GET /api/v1/policies HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        serde_json::from_str::<Value>(&site.call(head).1).unwrap()["policies"].take()
    };
    site.send(3);
    site.said(&["maintenance", "on"]);
    site.send(2);
    wait_until("the decisions", || view()[1]["rejected"] == 2);
    let policies = view();
    let of = |index: usize, name: &str| policies[index][name].clone();
    assert_eq!([0, 1, 2].map(|index| of(index, "name")), [json!("idle"), json!("planned"), json!("trial")]);
    assert_eq!((of(0, "kinds"), of(0, "routes"), of(0, "closed")), (json!(["allow"]), json!([]), json!(null)));
    assert_eq!((of(1, "kinds"), of(1, "routes"), of(1, "closed")), (json!(["maintenance"]), json!(["x"]), json!(true)));
    assert_eq!(
        (of(1, "passed"), of(1, "reasons")),
        (json!(3), json!([{ "decision": "rejected", "reason": "maintenance", "count": 2 }]))
    );
    assert_eq!(
        (of(2, "mode"), of(2, "passed"), of(2, "logged"), of(2, "rejected")),
        (json!("log"), json!(0), json!(3), json!(0))
    );
    let metrics = site.gate.metrics();
    assert!(metrics.contains("portunus_policy_passes_total{policy=\"planned\"} 3\n"), "{metrics}");
}
