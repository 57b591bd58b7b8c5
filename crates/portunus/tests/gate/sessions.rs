//! Sticky sessions: a sealed cookie leads a client back to its server, and nobody else anywhere.

use std::collections::BTreeMap;
use std::process::Command;

use crate::harness::{Gate, PORTUNUS, Reply, Upstream, exchange, statuses};

fn text(servers: &[&Upstream], sticky: &str) -> String {
    let list: Vec<_> = servers.iter().map(|server| format!("\"{}\"", server.address)).collect();
    let list = list.join(", ");
    format!(
        "workers: 2\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\" }}\nupstreams:\n  app: {{ servers: [{list}], sticky: {{ {sticky} }} }}\n  \
         other: {{ servers: [{list}], sticky: {{ {sticky} }} }}\nroutes:\n  - {{ path: \"/other/{{*rest}}\", upstream: other }}\n  \
         - {{ upstream: app }}\nadmin: {{ bind: \"127.0.0.1:0\" }}\n"
    )
}

/// The server that got the request, the status, and the cookie that came back.
fn ask(gate: &Gate, servers: &[&Upstream], target: &str, cookie: &str) -> (usize, u16, Option<String>) {
    let counts = || servers.iter().map(|server| server.seen().len()).collect::<Vec<_>>();
    let before = counts();
    let fields = if cookie.is_empty() { String::new() } else { format!("Cookie: a=b; sid={cookie}\r\n") };
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    let response = String::from_utf8(exchange(gate.address("web"), request.as_bytes())).unwrap();
    let set: Vec<_> = response.lines().filter_map(|line| line.strip_prefix("Set-Cookie: sid=")).collect();
    assert!(set.len() < 2, "{response}");
    let after = counts();
    let server = (0..servers.len()).find(|index| after[*index] > before[*index]).unwrap();
    let set = set.first().map(|field| {
        let (value, attributes) = field.split_once(';').unwrap();
        assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Lax");
        value.to_owned()
    });
    (server, statuses(response.as_bytes())[0], set)
}

/// How often the log has which word for a session, once it has so many lines.
fn words(gate: &Gate, lines: usize) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for line in gate.log(lines) {
        *words.entry(line["upstream"]["session"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    words
}

#[test]
fn a_session_stays_at_its_server_and_survives_a_reload() {
    let all = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let servers: Vec<_> = all.iter().collect();
    let gate = Gate::start(&text(&servers, "cookie: sid"));
    let sessions: Vec<_> = (0..6)
        .map(|_| {
            let (server, status, cookie) = ask(&gate, &servers, "/", "");
            assert_eq!(status, 200);
            (server, cookie.unwrap())
        })
        .collect();
    assert!((0..3).all(|index| sessions.iter().any(|(server, _)| *server == index)), "{sessions:?}");
    let stays = |gate: &Gate| {
        for (server, cookie) in sessions.iter().chain(&sessions) {
            assert_eq!(ask(gate, &servers, "/", cookie), (*server, 200, None));
        }
    };
    stays(&gate);
    // Another order, and something else that is new.
    let reversed: Vec<_> = all.iter().rev().collect();
    gate.rewrite(&text(&reversed, "cookie: sid").replace("app: { ", "app: { connect_timeout: 3s, "));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    stays(&gate);
    let words = words(&gate, 30);
    assert_eq!((words["new"], words["kept"]), (6, 24), "{words:?}");
    let metrics = gate.metrics();
    for (outcome, count) in words {
        let wanted = format!("portunus_upstream_sessions_total{{upstream=\"app\",outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&wanted), "{wanted} in {metrics}");
    }
    // It names no server: not in the clear, and two of one server are not alike.
    for (index, (server, cookie)) in sessions.iter().enumerate() {
        assert_eq!(cookie.len(), 72);
        assert!(sessions[..index].iter().all(|(_, other)| other != cookie), "server {server}");
    }
}

#[test]
fn a_session_whose_server_is_gone_moves_once() {
    let all = [Upstream::ok(), Upstream::ok()];
    let servers: Vec<_> = all.iter().collect();
    let gate = Gate::start(&text(&servers, "cookie: sid"));
    let (server, _, cookie) = ask(&gate, &servers, "/", "");
    let cookie = cookie.unwrap();
    gate.rewrite(&text(&[servers[1 - server]], "cookie: sid"));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    let (next, status, moved) = ask(&gate, &servers, "/", &cookie);
    assert_eq!((next, status), (1 - server, 200));
    let moved = moved.unwrap();
    assert_eq!(ask(&gate, &servers, "/", &moved), (next, 200, None));
    assert_eq!(words(&gate, 3).into_iter().collect::<Vec<_>>(), ["kept", "moved", "new"].map(|word| (word.into(), 1)));
}

#[test]
fn a_request_goes_elsewhere_and_its_session_stays_where_its_server_fails_once() {
    let dying = Upstream::start(|seen| {
        if seen.line().contains("/die") {
            return Reply::Reset(Vec::new());
        }
        Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    let other = Upstream::ok();
    let servers = [&dying, &other];
    let gate = Gate::start(&text(&servers, "cookie: sid"));
    let cookie = loop {
        if let (0, _, Some(cookie)) = ask(&gate, &servers, "/", "") {
            break cookie;
        }
    };
    // The first that grew is the one that failed; the response is the other's.
    let before = other.seen().len();
    assert_eq!(ask(&gate, &servers, "/die", &cookie), (0, 200, None));
    assert_eq!(other.seen().len(), before + 1);
    assert_eq!(ask(&gate, &servers, "/", &cookie), (0, 200, None));
}

#[test]
fn cookies_that_are_not_ours_choose_nothing() {
    let all = [Upstream::ok(), Upstream::ok()];
    let servers: Vec<_> = all.iter().collect();
    let gate = Gate::start(&text(&servers, "cookie: sid"));
    let (_, _, cookie) = ask(&gate, &servers, "/", "");
    let cookie = cookie.unwrap();
    let mut changed = cookie.clone().into_bytes();
    changed[40] = if changed[40] == b'0' { b'1' } else { b'0' };
    let (plain, changed) = (servers[0].address.to_string(), String::from_utf8(changed).unwrap());
    for forged in [
        "x",
        &plain,
        &changed,
        &cookie[..70],
        &format!("{cookie}00"),
        &cookie.to_uppercase(),
        &"0".repeat(72),
        &"f".repeat(4000),
    ] {
        let (_, status, set) = ask(&gate, &servers, "/", forged);
        assert!(status == 200 && set.is_some(), "{forged}");
    }
    assert_eq!(words(&gate, 9).into_iter().collect::<Vec<_>>(), [("new".to_owned(), 9)]);
    // Of another upstream, with the same servers and the same cookie's name.
    assert!(ask(&gate, &servers, "/other/", &cookie).2.is_some());
    // Nothing of it depends on a first one: both servers are used.
    assert!(all.iter().all(|server| server.seen().len() > 2));
}

#[test]
fn a_key_makes_sessions_survive_a_restart_and_hold_on_other_machines() {
    let all = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let servers: Vec<_> = all.iter().collect();
    let start = |key: &str, sticky: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), key).unwrap();
        Gate::start_in(dir, &text(&servers, sticky))
    };
    let keyed = "cookie: sid, key: { file: key }";
    let (one, two) = (start("0123456789abcdef\n", keyed), start("0123456789abcdef", keyed));
    let others = [start("fedcba9876543210", keyed), start("", "cookie: sid")];
    for _ in 0..3 {
        let (server, _, cookie) = ask(&one, &servers, "/", "");
        let cookie = cookie.unwrap();
        assert_eq!(ask(&two, &servers, "/", &cookie), (server, 200, None));
        assert!(others.iter().all(|other| ask(other, &servers, "/", &cookie).2.is_some()));
    }
    // One that can be guessed is none.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("key"), "secret").unwrap();
    std::fs::write(dir.path().join("portunus.yaml"), text(&servers, keyed)).unwrap();
    let checked = Command::new(PORTUNUS).arg("check").arg(dir.path().join("portunus.yaml")).output().unwrap();
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(checked.status.code() == Some(1) && said.contains("the key of `sticky` has 6 bytes"), "{said}");
}
