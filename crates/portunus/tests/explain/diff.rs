//! `portunus diff`: what it says of two files, of a running server and a file, and of the requests of a log; and its exit status.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{keeps_schema, portunus};
use crate::harness::{Gate, PORTUNUS, Upstream, exchange};

const OLD: &str = "workers: 1
listeners:
  - { name: http, bind: \":8080\", policies: [office] }
upstreams:
  web: { servers: [\"10.0.0.10:8080\"], connect_timeout: 5s }
  old: { servers: [\"10.0.0.9:8080\"] }
policies:
  office: { allow: [192.0.2.0/24] }
routes:
  - { name: all, path: \"/{*rest}\", upstream: web }
  - { path: /a, upstream: old }
";

/// A folder with two files.
fn folder(old: &str, new: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old.yaml"), old).unwrap();
    fs::write(folder.path().join("new.yaml"), new).unwrap();
    folder
}

/// Exit status and what is printed.
fn diff(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = portunus(folder, &[&["diff"], arguments].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// What is said as JSON, which keeps its schema.
fn diff_json(folder: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let (status, out, err) = diff(folder, &[&["--json"], arguments].concat());
    let value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    keeps_schema("diff.schema.json", &value);
    (status, value)
}

#[test]
fn what_comes_goes_and_changes_is_said_once_each() {
    let new = OLD
        .replace("workers: 1", "workers: 2")
        .replace("5s", "6s")
        .replace("  old: { servers: [\"10.0.0.9:8080\"] }\n", "  new: { servers: [\"10.0.0.8:8080\"] }\n")
        .replace("upstream: old", "upstream: new")
        .replace("[192.0.2.0/24]", "[192.0.2.0/24, 203.0.113.0/24]");
    let folder = folder(OLD, &new);
    let (status, out, err) = diff(folder.path(), &["old.yaml", "new.yaml"]);
    assert_eq!((status, err.as_str()), (Some(1), ""));
    assert_eq!(
        out,
        "+ policies.office.allow[203.0.113.0/24]: 203.0.113.0/24
~ routes[*/a].upstream: old -> new
+ upstreams.new: { servers: [10.0.0.8:8080] }
- upstreams.old: { servers: [10.0.0.9:8080] }
~ upstreams.web.connect_timeout: 5s -> 6s
~ workers: 1 -> 2
restart: workers stays 1 until a restart or `portunus upgrade` (the file says 2)
"
    );
    let (status, said) = diff_json(folder.path(), &["old.yaml", "new.yaml"]);
    assert_eq!(
        (status, said["changes"].as_array().unwrap().len(), &said["restart"][0]),
        (Some(1), 6, &"workers stays 1 until a restart or `portunus upgrade` (the file says 2)".into())
    );
    assert_eq!(
        said["changes"][1],
        serde_json::json!({ "path": "routes[*/a].upstream", "kind": "changed", "old": "old", "new": "new" })
    );
}

#[test]
fn what_means_the_same_is_no_difference() {
    let (listeners, rest) = OLD.split_once("upstreams:").unwrap();
    let (upstreams, routes) = rest.split_once("routes:").unwrap();
    // Another order, another unit, a default written out, and in two files.
    let new = format!("routes:{routes}upstreams:{}include: more.yaml\n", upstreams.replace("5s", "5000ms"));
    let new = new.replace("{ path: /a, upstream: old }", "{ path: [/a], upstream: old, host: keep }");
    let folder = folder(OLD, &new);
    fs::write(folder.path().join("more.yaml"), listeners).unwrap();
    assert_eq!(diff(folder.path(), &["old.yaml", "new.yaml"]), (Some(0), String::new(), String::new()));
    let (status, said) = diff_json(folder.path(), &["old.yaml", "new.yaml"]);
    assert_eq!((status, &said["changes"]), (Some(0), &serde_json::json!([])));
}

#[test]
fn problems_are_exit_status_2() {
    let folder = folder(OLD, "listeners: [{ name: a, bind: ':99999' }]\n");
    for (arguments, expected) in [
        (&["old.yaml", "new.yaml"][..], "new.yaml:1:30: "),
        (&["old.yaml", "gone.yaml"], "gone.yaml: "),
        (&["old.yaml"], "error: name two files"),
        (&["--running", "old.yaml", "new.yaml"], "error: with --running name one file"),
        (&["--running", "--admin", "nowhere.sock", "old.yaml"], "error: cannot ask the server at nowhere.sock: "),
        (&["old.yaml", "old.yaml", "--replay", "gone.log"], "error: gone.log: cannot be read: "),
        (&["old.yaml", "old.yaml", "--replay", "old.yaml"], "error: old.yaml: no line is a request in JSON"),
        (&["old.yaml", "--admin", "x"], "error: "),
        (&[], "error: "),
    ] {
        let (status, out, err) = diff(folder.path(), arguments);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{arguments:?}: {err}");
        assert!(err.starts_with(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn credentials_are_never_shown() {
    let with = |value: &str| {
        OLD.replace(
            "path: /a,",
            &format!("path: /a, request_headers: {{ set: {{ Authorization: \"Basic {value}\" }} }},"),
        )
    };
    let folder = folder(&with("first-secret"), &with("second-secret"));
    for arguments in [&["old.yaml", "new.yaml"][..], &["--json", "old.yaml", "new.yaml"]] {
        let (status, out, err) = diff(folder.path(), arguments);
        assert_eq!(status, Some(1));
        assert!(out.contains("request_headers.set.Authorization") && out.contains("(redacted)"), "{out}");
        assert!(!out.contains("secret") && err.is_empty(), "{out}{err}");
    }
}

/// A running server is asked over its control socket or its admin listener; what it was started with says what waits for a restart.
#[test]
fn a_running_server_is_compared_with_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = |workers: u32, timeout: &str| {
        format!(
            "workers: {workers}
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"127.0.0.1:9\"], connect_timeout: {timeout} }} }}
routes: [{{ name: r, upstream: app, request_headers: {{ set: {{ X-Api-Key: hidden }} }} }}]
admin: {{ bind: \"127.0.0.2:0\", token: {{ file: token }} }}
"
        )
    };
    fs::write(folder.path().join("token"), "0123456789abcdef").unwrap();
    let mut command = Command::new(PORTUNUS);
    let control = folder.path().join("control.sock");
    command.args(["run", "--no-watch", "--control"]).arg(&control).arg(folder.path().join("portunus.yaml"));
    let log = "log: { access: { format: json, output: access.log }, level: info }\n";
    fs::write(folder.path().join("portunus.yaml"), yaml(1, "5s") + log).unwrap();
    let gate = Gate::start_command(folder, command, 2);
    let path = gate.dir.path();
    let admin = gate.address("admin").to_string();
    for (server, more) in [("control.sock", &[][..]), (admin.as_str(), &["--token-file", "token"])] {
        let asked = &[&["--running", "--admin", server, "portunus.yaml"], more].concat();
        let hidden = "not compared: 1 values that the running server does not show\n";
        assert_eq!(diff(path, asked), (Some(0), hidden.to_owned(), String::new()), "{server}");
    }
    fs::write(path.join("portunus.yaml"), yaml(2, "6s") + log).unwrap();
    let asked = &["--running", "--admin", "control.sock", "portunus.yaml"];
    let (status, said) = diff_json(path, asked);
    let paths: Vec<&str> =
        said["changes"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(
        (status, paths, &said["not_compared"]),
        (Some(1), vec!["upstreams.app.connect_timeout", "workers"], &1.into())
    );
    assert_eq!(said["restart"].as_array().unwrap().len(), 1);
    // After a reload the file is active, and what needs a restart still waits for it.
    gate.operate("POST /reload", "Content-Length: 0\r\n");
    gate.wait_for("waits for a restart");
    let (status, said) = diff_json(path, asked);
    assert_eq!((status, &said["changes"]), (Some(1), &serde_json::json!([])));
    let waits = "workers stays 1 until a restart or `portunus upgrade` (the file says 2)";
    assert_eq!(said["restart"], serde_json::json!([waits]));
}

/// What variables of the environment hold is not known to whoever asks the server, and does not keep the rest from being compared.
#[test]
fn a_running_server_shows_nothing_of_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = |timeout: &str| {
        format!(
            "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"${{A_SERVER}}\"], connect_timeout: {timeout} }} }}
routes: [{{ name: r, upstream: app, request_headers: {{ set: {{ X-Kind: \"of ${{A_SECRET}}, $${{A_SECRET}}\", X-Short: \"${{SHORT}}\" }} }} }}]
admin: {{ bind: \"127.0.0.2:0\" }}
"
        )
    };
    let set = |command: &mut Command, secret: &str| {
        command.env("A_SERVER", "127.0.0.1:9").env("A_SECRET", secret).env("SHORT", "s");
    };
    let mut command = Command::new(PORTUNUS);
    set(&mut command, "marker-of-the-server");
    command.args(["run", "--no-watch", "--control"]).arg(folder.path().join("control.sock"));
    command.arg(folder.path().join("portunus.yaml"));
    fs::write(folder.path().join("portunus.yaml"), yaml("5s") + "log: { level: info }\n").unwrap();
    let gate = Gate::start_command(folder, command, 2);
    for page in ["config", "started"] {
        let shown = gate.operate(&format!("GET /{page}"), "");
        assert!(shown.contains(r#""X-Kind": "of ${A_SECRET}, $${A_SECRET}""#) && !shown.contains("marker"), "{shown}");
        assert!(shown.contains(r#""${A_SERVER}""#) && shown.contains(r#""X-Short": "s""#), "{shown}");
    }
    fs::write(gate.dir.path().join("portunus.yaml"), yaml("6s") + "log: { level: info }\n").unwrap();
    for secret in ["marker-of-another", "marker-of-the-server"] {
        let mut command = Command::new(PORTUNUS);
        set(&mut command, secret);
        command.args(["diff", "--running", "--admin", "control.sock", "portunus.yaml"]);
        let output = command.current_dir(gate.dir.path()).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        let expected =
            "~ upstreams.app.connect_timeout: 5s -> 6s\nnot compared: 2 values that the running server does not show\n";
        assert_eq!((output.status.code(), out.as_ref()), (Some(1), expected), "{output:?}");
    }
}

/// Routes of a gate, and of the file that it is compared with.
const BEFORE: &str = "  - { name: move, path: \"/m/{x}\", upstream: app }
  - { name: stay, path: /stay, redirect: { to: https://a.example/ } }
  - { name: there, path: /there, redirect: { to: https://a.example/ } }
  - { name: closed, path: /closed, upstream: app }
  - { name: staff, path: /staff, upstream: app }
  - { name: rewritten, path: /rewritten, upstream: app }";
const AFTER: &str = "  - { name: move, path: \"/m/{x}\", upstream: other }
  - { name: stay, path: /stay, redirect: { to: https://a.example/ } }
  - { name: there, path: /there, redirect: { to: https://b.example/ } }
  - { name: closed, path: /closed, upstream: app, policies: nobody }
  - { name: staff, path: /staff, upstream: app, policies: staff }
  - { name: rewritten, path: /rewritten, upstream: app, rewrite: /elsewhere }
  - { name: gone, path: /gone, respond: { status: 410 } }
  - { name: beta, path: \"/{*rest}\", upstream: other, when: { header: { x-beta: \"1\" } } }";

/// A gate that has logged some requests, and the file beside its own.
fn logged(paths: &[&str]) -> (Gate, Upstream) {
    let upstream = Upstream::ok();
    let yaml = |routes: &str| {
        format!(
            "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"{0}\"] }}, other: {{ servers: [\"{0}\"] }} }}
policies:
  nobody: {{ deny: [127.0.0.0/8] }}
  staff: {{ basic: {{ file: users }} }}
routes:
  - {{ name: all, path: \"/{{*rest}}\", upstream: app }}
{routes}
log: {{ access: {{ format: json, output: access.log }}, level: info }}
",
            upstream.address
        )
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users"), format!("ann:{}\n", bcrypt::hash("right", 5).unwrap())).unwrap();
    fs::write(folder.path().join("new.yaml"), yaml(AFTER)).unwrap();
    let gate = Gate::start_in(folder, &yaml(BEFORE));
    for path in paths {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        exchange(gate.address("web"), request.as_bytes());
    }
    gate.log(paths.len());
    (gate, upstream)
}

/// Requests that a gate has logged are tried under the file it ran with and another one.
#[test]
fn requests_of_a_log_that_would_be_treated_differently_are_listed() {
    let paths =
        ["/", "/m/1", "/m/2", "/m/3", "/m/4?q", "/stay", "/there", "/closed", "/staff", "/rewritten", "/..", "/gone"];
    let (gate, _upstream) = logged(&paths);
    let path = gate.dir.path();
    let (status, out, err) = diff(path, &["portunus.yaml", "new.yaml", "--replay", "access.log"]);
    assert_eq!((status, err.as_str()), (Some(1), ""));
    let replayed = &out[out.find("replay:").unwrap()..];
    let start = "replay: 9 of 12 requests are treated differently
4 requests:
  result: sent to app -> sent to other
    GET http://a.example/m/1 from 127.0.0.1
";
    assert!(replayed.starts_with(start), "{replayed}");
    for expected in [
        "  location differs\n    GET http://a.example/there from 127.0.0.1, location https://a.example/ -> https://b.example/\n",
        "  policies: none -> nobody rejects (403 address_not_allowed)\n  result: sent to app -> 403 address_not_allowed\n    GET http://a.example/closed",
        "  policies: none -> staff depends\n    GET http://a.example/staff",
        "  sent differs\n    GET http://a.example/rewritten from 127.0.0.1, sent GET /rewritten HTTP/1.1, Host a.example -> GET /elsewhere HTTP/1.1, Host a.example\n",
        "  route: all -> gone\n  result: sent to app -> 410\n    GET http://a.example/gone",
        "not known: a log has no headers and cookies, which these routes depend on: beta\n",
    ] {
        assert!(replayed.contains(expected), "{expected} in {replayed}");
    }
    let (_, said) = diff_json(path, &["portunus.yaml", "new.yaml", "--replay", "access.log", "--requests", "3"]);
    assert_eq!((&said["replay"]["requests"], &said["replay"]["log_goes_on"]), (&3.into(), &true.into()));
    let (status, said) = diff_json(path, &["portunus.yaml", "portunus.yaml", "--replay", "access.log"]);
    let replay = &said["replay"];
    assert_eq!((status, &replay["different"], &replay["groups"]), (Some(0), &0.into(), &serde_json::json!([])));
}

/// A log may come from anywhere.
#[test]
fn hostile_lines_are_bounded_and_counted() {
    let folder = folder(OLD, &OLD.replace("upstream: old", "upstream: web"));
    let good = r#"{"kind":"request","listener":"http","method":"GET","host":"a.example","target":"/a","version":"HTTP/1.1","client_address":"192.0.2.1"}"#;
    let mut log = Vec::new();
    for line in [
        good.to_owned(),
        good.replace("/a\"", "/a\\r\\nX: y\""),
        good.replace("GET", "GET /b HTTP/1.1\\r\\nX:"),
        good.replace("\"http\"", "\"\\u001b[2J\""),
        good.replace("/a\"", "/\\u001b[2J\""),
        "x".repeat(1_000_000),
        format!("{}{good}", "[".repeat(100_000)),
        "\u{0}\u{ff}".to_owned(),
        r#"{"kind":"tunnel"}"#.to_owned(),
        good.replace("192.0.2.1", "nowhere"),
        String::new(),
    ] {
        log.extend_from_slice(line.as_bytes());
        log.push(b'\n');
    }
    log.extend_from_slice(good.as_bytes());
    fs::write(folder.path().join("log"), log).unwrap();
    let (status, said) = diff_json(folder.path(), &["old.yaml", "new.yaml", "--replay", "log"]);
    let replay = &said["replay"];
    assert_eq!((status, &replay["requests"], &replay["different"]), (Some(1), &4.into(), &3.into()), "{said:#}");
    let left_out =
        serde_json::json!({ "the line has not all of the request": 3, "the line is none of a JSON access log": 4 });
    assert_eq!(replay["left_out"], left_out);
    let (_, out, _) = diff(folder.path(), &["old.yaml", "new.yaml", "--replay", "log"]);
    assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
}
