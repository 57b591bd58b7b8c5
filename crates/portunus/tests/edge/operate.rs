//! What operators do to a running server and see of it: the commands and the API behind them, and what requests and upstream servers notice.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::ask;
use crate::harness::{Gate, PORTUNUS, Reply, Upstream, connect, connect_unix, output_of, read_to_end, wait_until};

/// A gate with two servers, an admin listener and an admin socket.
pub struct Site {
    pub gate: Gate,
    servers: [Upstream; 2],
}

impl Site {
    pub fn start() -> Site {
        Site::start_with([Upstream::ok(), Upstream::ok()], |_, text| text)
    }

    /// With these servers, and a configuration that is changed first.
    pub fn start_with(servers: [Upstream; 2], change: impl Fn(&Path, String) -> String) -> Site {
        let dir = tempfile::tempdir().unwrap();
        let text = change(dir.path(), yaml(&servers, dir.path(), ""));
        std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
        let mut command = Command::new(PORTUNUS);
        command.args(["run", "--no-watch", "--control"]).arg(dir.path().join("control.sock"));
        command.arg(dir.path().join("portunus.yaml"));
        Site { gate: Gate::start_command(dir, command, 2), servers }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PORTUNUS);
        command.args(arguments).arg("--control").arg(self.gate.dir.path().join("control.sock"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that succeeds; what it prints.
    pub fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.said(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    pub fn name(&self, index: usize) -> String {
        self.servers[index].address.to_string()
    }

    /// Sends so many requests; how many each server got of them, and the last response.
    pub fn send(&self, count: usize) -> ([usize; 2], String) {
        let seen = || [0, 1].map(|index: usize| self.servers[index].seen().len());
        let (before, mut last) = (seen(), String::new());
        for _ in 0..count {
            last = ask(self.gate.address("web"), "GET /x", "Host: a.test\r\n");
        }
        let after = seen();
        ([after[0] - before[0], after[1] - before[1]], last)
    }

    fn rewrite(&self, more: &str) {
        std::fs::write(self.gate.dir.path().join("portunus.yaml"), yaml(&self.servers, self.gate.dir.path(), more))
            .unwrap();
    }

    /// Sends bytes over the admin socket; the status and body of the response.
    pub fn call(&self, request: &str) -> (u16, String) {
        let mut stream = connect_unix(&self.gate.dir.path().join("control.sock"));
        stream.write_all(request.as_bytes()).unwrap();
        let text = String::from_utf8(read_to_end(&mut stream)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request:.80}: {text}"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn post(&self, name: &str, kind: &str, body: &str) -> (u16, String) {
        let length = body.len();
        self.call(&format!(
            "POST /api/v1/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }
}

fn yaml(servers: &[Upstream; 2], dir: &std::path::Path, more: &str) -> String {
    let [one, other] = [0, 1].map(|index: usize| servers[index].address);
    let file = dir.join("maintenance").display().to_string();
    format!(
        "listeners: [{{ name: web, bind: '127.0.0.1:0' }}]
upstreams: {{ app: {{ servers: ['{one}', '{other}']{more} }} }}
policies: {{ planned: {{ maintenance: {{ file: '{file}' }} }} }}
routes: [{{ path: '/{{*rest}}', upstream: app, policies: planned }}]
admin: {{ bind: '127.0.0.1:0' }}
log: {{ level: info }}
"
    )
}

#[test]
fn a_drained_server_gets_no_requests_until_that_is_undone() {
    let site = Site::start();
    let (first, other) = (site.name(0), site.name(1));
    let said = site.said(&["drain", &first, "--wait", "20s"]);
    assert_eq!(said, format!("app {first}: drained, weight 1, 0 under way\n"));
    assert_eq!(site.send(6).0, [0, 6]);
    // What an operator says of a server is not of the file: a reload keeps it, also one that makes the upstream anew.
    site.rewrite(", max_in_flight: 77");
    site.said(&["reload"]);
    assert_eq!(site.send(6).0, [0, 6]);
    // Nobody is left: whoever asks is told so, and the server is not asked "anyway".
    site.rewrite(", when_all_down: try_anyway");
    site.said(&["reload"]);
    site.said(&["drain", &other]);
    let (seen, response) = site.send(2);
    assert!(seen == [0, 0] && response.starts_with("HTTP/1.1 503 "), "{seen:?} {response}");
    assert_eq!(site.json(&["status"])["servers"], json!({ "total": 2, "up": 0 }));
    site.said(&["drain", "--undo", &first]);
    site.said(&["drain", "--undo", &other, "--upstream", "app"]);
    assert_eq!(site.send(6).0, [3, 3]);
    let output = site.run(&["drain", "192.0.2.1:1"]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains("no upstream has a server `192.0.2.1:1`"), "{err}");
}

/// What a command writes on a terminal, by `script` (Debian package bsdutils, which is always there), and whether it succeeded.
fn at_terminal(command: &Command) -> (String, bool) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::null());
    let output = script.output().unwrap();
    (String::from_utf8(output.stdout).unwrap().replace('\r', ""), output.status.success())
}

#[test]
fn people_at_a_terminal_see_what_is_waited_for_and_scripts_do_not() {
    let site = Site::start_with([Upstream::start(|_| Reply::Silence), Upstream::ok()], |_, text| text);
    let first = site.name(0);
    let mut held = connect(site.gate.address("web"));
    held.write_all(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let mut other = connect(site.gate.address("web"));
    other.write_all(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    wait_until("a request under way", || site.servers[0].seen().len() == 1);
    let (said, is_good) = at_terminal(&site.command(&["drain", &first, "--wait", "1s"]));
    assert!(!is_good && said.starts_with("1 requests or tunnels are under way there; waiting ...\n"), "{said}");
    assert_eq!(said.matches("waiting ...").count(), 1, "what does not change is said once: {said}");
    let output = site.run(&["drain", &first, "--wait", "1s"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("waiting ..."));
    let (said, is_good) = at_terminal(&site.command(&["reload"]));
    assert!(
        is_good && said.starts_with("the server reads its configuration and all that it names ...\nreloaded: "),
        "{said}"
    );
    assert!(site.run(&["reload"]).stderr.is_empty());
    let (said, is_good) = at_terminal(&site.command(&["upgrade"]));
    assert!(is_good, "{said}");
    let (first, second) = said.split_once('\n').unwrap();
    assert!(first.ends_with("waiting until the new process serves ..."), "{said}");
    let pid = second.split_whitespace().nth(2).unwrap();
    assert!(second.starts_with("upgraded: process ") && Command::new("kill").arg(pid).status().unwrap().success());
}

/// Whoever waits asks once: what others change meanwhile is not undone by it.
#[test]
fn waiting_for_a_drained_server_only_looks() {
    let site = Site::start_with([Upstream::start(|_| Reply::Silence), Upstream::ok()], |_, text| text);
    let first = site.name(0);
    let request = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let held = [0, 1].map(|_| {
        let mut stream = connect(site.gate.address("web"));
        stream.write_all(request).unwrap();
        stream
    });
    wait_until("a request under way", || site.servers[0].seen().len() == 1);
    let mut command = site.command(&["drain", &first, "--wait", "10m"]);
    let waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let row = || {
        let status = site.said(&["status"]);
        status.lines().find(|line| line.contains(&first)).unwrap_or_else(|| panic!("{status}")).to_owned()
    };
    wait_until("the drained server", || row().contains("drained"));
    site.said(&["drain", &first]);
    site.said(&["drain", "--undo", &first]);
    site.said(&["drain", "--undo", &first]);
    let output = output_of(waiting);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains("is no longer drained"), "{err}");
    assert!(!row().contains("drained"), "{}", row());
    // What changes nothing is not logged.
    site.said(&["weight", &first, "7"]);
    site.gate.wait_for("an operator: weight of a server");
    let logged = |what: &str| site.gate.diagnostics().iter().filter(|line| line.contains(what)).count();
    assert_eq!((logged("server drained"), logged("server no longer drained")), (1, 1));
    let output = site.run(&["drain", &first, "--wait", "1s"]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains("1 requests or tunnels are still under way"), "{err}");
    assert!(row().contains("drained"), "{}", row());
    drop(held);
    assert_eq!(site.run(&["drain", &first, "--wait", "5000000000000000h"]).status.code(), Some(2));
}

/// The admin listener stays whole when its token cannot be read, and follows a token that can.
#[test]
fn the_admin_token_is_that_of_its_file_at_the_last_reload() {
    let tokens = ["first-0123456789abcdef", "other-0123456789abcdef", "third-0123456789abcdef"];
    let with_token = |dir: &Path, text: String, more: &str| {
        let file = dir.join("token").display().to_string();
        let admin = format!("admin: {{ bind: '127.0.0.1:0', token: {{ file: '{file}' }}{more} }}");
        text.replace("admin: { bind: '127.0.0.1:0' }", &admin)
    };
    let site = Site::start_with([Upstream::ok(), Upstream::ok()], |dir, text| {
        std::fs::write(dir.join("token"), tokens[0]).unwrap();
        with_token(dir, text, "")
    });
    let (dir, admin) = (site.gate.dir.path(), site.gate.address("admin"));
    let status = |token: &str| {
        let fields = format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n");
        ask(admin, "GET /metrics", &fields).split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let reload = |token: &str| {
        std::fs::write(dir.join("token"), token).unwrap();
        site.said(&["reload"]);
    };
    assert_eq!(tokens.map(status), ["200", "401", "401"]);
    reload(tokens[1]);
    wait_until("the other token", || tokens.map(status) == ["401", "200", "401"]);
    // None that could be used: also where another setting would make the listener anew.
    reload("short");
    site.gate.wait_for("the admin side stays as it was");
    assert_eq!(tokens.map(status), ["401", "200", "401"]);
    let text = with_token(dir, yaml(&site.servers, dir, ""), ", connection_timeout: 50s");
    std::fs::write(dir.join("portunus.yaml"), text).unwrap();
    site.said(&["reload"]);
    let stays =
        || site.gate.diagnostics().iter().filter(|line| line.contains("the admin side stays as it was")).count();
    wait_until("the second complaint", || stays() == 2);
    assert_eq!(tokens.map(status), ["401", "200", "401"]);
    // At the same address, with other settings.
    reload(tokens[2]);
    wait_until("the third token", || tokens.map(status) == ["401", "401", "200"]);
}

/// The other end of a socket need not be a server of ours.
#[test]
fn what_a_server_says_reaches_the_terminal_without_control_characters() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let evil = "\u{1b}[2J\u{9b}2J";
        let server = json!({ "upstream": evil, "server": evil, "state": evil, "weight": 1, "in_flight": 0 });
        let body = json!({ "servers": [server], "policy": evil, "closed": true, "problems": [evil] }).to_string();
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), String::new());
            // All of it, or the client finds the connection reset.
            while !is_whole(&request) {
                let mut bytes = [0; 1024];
                let count = stream.read(&mut bytes).unwrap();
                request += std::str::from_utf8(&bytes[..count]).unwrap();
            }
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    for arguments in [
        &["drain", "10.0.0.1:80"][..],
        &["weight", "10.0.0.1:80", "5"],
        &["maintenance", "on"],
        &["maintenance", "off"],
        &["upgrade"],
        &["reload"],
    ] {
        let mut command = Command::new(PORTUNUS);
        let output = command.args(arguments).arg("--control").arg(&socket).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains("\\u{1b}[2J\\u{9b}2J"), "{arguments:?}: {text:?}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{arguments:?}: {text:?}");
    }
}

/// Whether a request has come with all of its body.
fn is_whole(request: &str) -> bool {
    request.split_once("\r\n\r\n").is_some_and(|(head, body)| {
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap_or("0");
        body.len() >= length.parse().unwrap()
    })
}

#[test]
fn what_operators_said_passes_to_the_next_process() {
    let site = Site::start();
    site.said(&["drain", &site.name(0)]);
    site.said(&["weight", &site.name(1), "9"]);
    site.said(&["maintenance", "on"]);
    let before = site.gate.pid();
    let upgraded = site.said(&["upgrade"]);
    wait_until("the process before to end", || !super::upgrade::is_alive(before));
    let pid: i32 = upgraded.split(' ').nth(2).unwrap().parse().unwrap();
    let (seen, response) = site.send(1);
    assert!(seen == [0, 0] && response.starts_with("HTTP/1.1 503 "), "{seen:?} {response}");
    site.said(&["maintenance", "off"]);
    assert_eq!(site.send(4).0, [0, 4]);
    let status = site.said(&["status"]);
    let row = |name: &str| status.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{status}"));
    assert!(row(&site.name(0)).contains("drained") && row(&site.name(1)).contains("up"), "{status}");
    assert_eq!(row(&site.name(1)).split_whitespace().nth(3), Some("9"), "{status}");
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::TERM).unwrap();
    wait_until("the end of the new process", || !site.gate.dir.path().join("control.sock").exists());
}

#[test]
fn weights_change_at_once_and_go_back() {
    let site = Site::start();
    assert_eq!(site.send(8).0, [4, 4]);
    site.said(&["weight", &site.name(0), "3"]);
    assert_eq!(site.send(8).0, [6, 2]);
    site.rewrite(", max_in_flight: 77");
    site.said(&["reload"]);
    assert_eq!(site.send(8).0, [6, 2]);
    let changed = site.json(&["weight", &site.name(0), "default"]);
    assert_eq!(changed["servers"][0]["weight"], 1);
    assert_eq!(site.send(8).0, [4, 4]);
    assert_eq!(site.run(&["weight", &site.name(0), "0"]).status.code(), Some(2), "to send nothing there is to drain");
}

#[test]
fn maintenance_is_switched_without_a_file_but_not_against_it() {
    let site = Site::start();
    site.said(&["maintenance", "on"]);
    let (seen, response) = site.send(2);
    assert!(seen == [0, 0] && response.starts_with("HTTP/1.1 503 "), "{response}");
    site.said(&["reload"]);
    assert_eq!(site.send(1).0, [0, 0], "a reload keeps it");
    assert_eq!(site.said(&["maintenance", "off", "--policy", "planned"]), "planned: no maintenance\n");
    assert_eq!(site.send(2).0.iter().sum::<usize>(), 2);
    std::fs::write(site.gate.dir.path().join("maintenance"), "").unwrap();
    wait_until("maintenance", || site.send(1).1.starts_with("HTTP/1.1 503 "));
    assert!(site.said(&["maintenance", "off"]).contains("its file is there"));
    assert!(site.send(1).1.starts_with("HTTP/1.1 503 "));
    assert_eq!(site.run(&["maintenance", "on", "--policy", "none"]).status.code(), Some(1));
}

#[test]
fn another_log_level_ends_by_itself_and_outlives_a_reload() {
    let site = Site::start();
    let level = || site.json(&["status"])["log_level"].as_str().unwrap().to_owned();
    assert_eq!(site.said(&["log-level", "debug"]), "log level debug for 300 seconds\n");
    site.said(&["reload"]);
    assert_eq!(level(), "debug");
    site.said(&["log-level", "warn", "--for", "1s"]);
    wait_until("the level of the configuration", || level() == "info");
    let output = site.run(&["log-level", "loud"]);
    assert!(output.status.code() == Some(1) && String::from_utf8(output.stderr).unwrap().contains("/level"));
}

#[test]
fn the_views_say_what_is_so() {
    let site = Site::start();
    site.send(3);
    let held = connect(site.gate.address("web"));
    let clients = json!({ "total": 1, "heaviest": [{ "client": "127.0.0.1", "open": 1 }] });
    wait_until("the connection", || {
        let connections = site.json(&["connections"]);
        connections["listeners"][0]["open"] == 1 && connections["clients"] == clients
    });
    drop(held);
    let status = site.json(&["status"]);
    assert_eq!((&status["ready"], &status["generation"]), (&true.into(), &1.into()));
    wait_until("the requests", || site.json(&["status"])["requests"]["2xx"] == 3);
    site.rewrite(", max_in_flight: none");
    assert_eq!(site.run(&["reload"]).status.code(), Some(1));
    let status = site.json(&["status"]);
    assert_eq!((&status["reloads"]["rejected"], &status["reloads"]["last_rejected"]), (&1.into(), &true.into()));
    assert!(status["reloads"]["problems"][0].as_str().unwrap().contains("max_in_flight"), "{status}");
    assert!(site.said(&["status"]).contains("last reload rejected: "));
    assert_eq!(site.json(&["certificates"]), json!({ "certificates": [], "total": 0 }));
    let get = |name: &str| -> Value {
        let head = format!("GET /api/v1/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        serde_json::from_str(&site.call(&head).1).unwrap()
    };
    let routes = get("routes");
    assert_eq!(routes["routes"][0]["upstreams"], json!(["app"]));
    assert_eq!(routes["routes"][0]["requests"]["2xx"], 3);
    let listeners = get("listeners");
    assert_eq!(listeners["listeners"][0]["addresses"], json!([site.gate.address("web").to_string()]));
    assert_eq!(ask(site.gate.address("web"), "GET /\u{0}", "Host: a.test\r\n").get(..12), Some("HTTP/1.1 400"));
    wait_until("the client", || get("clients")["clients"][0]["address"] == "127.0.0.1");
    for (name, member) in [("handshakes", "handshakes"), ("shadow", "shadow"), ("key-servers", "key_servers")] {
        assert_eq!(get(name), json!({ member: [] }), "a plain listener without documents and key servers");
    }
    wait_until("the rejection", || get("rejections")["rejections"][0]["fault"] == "client");
    assert!(get("rejections")["rejections"][0]["remedy"].is_string());
}

#[test]
fn events_carry_everything_once_a_second() {
    let site = Site::start();
    let output = site.said(&["top", "--json", "--count", "2"]);
    let events: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 2);
    assert!(events[0]["rates"].is_null() && events[1]["rates"]["requests"].is_number(), "{output}");
    for name in ["status", "listeners", "upstreams", "rejections"] {
        assert!(!events[1][name].is_null(), "{name}: {output}");
    }
    assert!(
        site.said(&["top", "--count", "1"]).contains("per second: - requests"),
        "no terminal codes, and no rates yet"
    );
}

/// What a browser does with it is tried by `dashboard_chromium` of tests/clients.
#[test]
fn the_dashboard_comes_whole_and_lets_nothing_else_in() {
    let site = Site::start();
    for (path, kind) in
        [("/dashboard", "text/html"), ("/dashboard/page.js", "text/javascript"), ("/dashboard/style.css", "text/css")]
    {
        let response = site.gate.operate(&format!("GET {path}"), "").to_ascii_lowercase();
        assert!(
            response.starts_with("http/1.1 200 ") && response.contains(&format!("content-type: {kind}")),
            "{response}"
        );
        let policy = response.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
        assert!(policy.contains("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        let body = response.split_once("\r\n\r\n").unwrap().1;
        let own = body.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !own.contains("http:") && !own.contains("https:") && !own.contains("innerhtml"),
            "{path} has something of elsewhere"
        );
        assert!(!own.contains(" style=") && !own.contains(" onclick="), "{path} has something inline");
        assert!(site.gate.operate(&format!("POST {path}"), "Content-Length: 0\r\n").starts_with("HTTP/1.1 405 "));
        let foreign = ask(site.gate.address("admin"), &format!("GET {path}"), "Host: evil.example\r\n");
        assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");
    }
}

/// Whoever may connect may still send anything.
#[test]
fn hostile_requests_to_the_api_change_nothing_and_keep_nobody_out() {
    let site = Site::start();
    let good = json!({ "server": site.name(0), "drained": true }).to_string();
    for (name, kind, body, status) in [
        ("drain", "text/plain", good.as_str(), 415),
        ("drain", "application/x-www-form-urlencoded", "server=x", 415),
        ("drain", "application/json", "{", 400),
        ("drain", "application/json", "{\"server\":\"x\",\"drained\":true,\"x\":1}", 400),
        ("drain", "application/json", "{\"server\":\"nobody:1\",\"drained\":true}", 404),
        ("drain", "application/json", &format!("[{}", " ".repeat(20_000)), 413),
        ("weight", "application/json", "{\"server\":\"x\",\"weight\":1e9}", 400),
        ("log-level", "application/json", "{\"level\":\"\\u001b[2J\"}", 400),
        ("restart", "application/json", "{}", 404),
    ] {
        let (got, said) = site.post(name, kind, body);
        assert_eq!(got, status, "{name} {kind} {body:.60}: {said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
    // Nor over TCP, where every user of the machine can connect.
    let admin = site.gate.address("admin");
    let fields = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    for name in ["status", "errors", "events", "openapi.json"] {
        assert!(
            ask(admin, &format!("GET /api/v1/{name}"), "Host: localhost\r\n").starts_with("HTTP/1.1 403 "),
            "{name}"
        );
    }
    for name in ["drain", "weight", "maintenance", "log-level", "reload"] {
        assert!(ask(admin, &format!("POST /api/v1/{name}"), fields).starts_with("HTTP/1.1 403 "), "{name}");
    }
    let foreign = "Host: evil.example\r\n";
    assert!(ask(admin, "GET /api/v1/events", foreign).starts_with("HTTP/1.1 421 "));
    assert_eq!(site.send(4).0, [2, 2], "nothing was changed");
    // Streams that nobody ends.
    let open = || {
        let mut stream = connect_unix(&site.gate.dir.path().join("control.sock"));
        stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        (String::from_utf8(start.to_vec()).unwrap(), stream)
    };
    let held: Vec<_> = (0..8).map(|_| open()).collect();
    assert!(held.iter().all(|(start, _)| start == "HTTP/1.1 200"), "{held:?}");
    assert_eq!(open().0, "HTTP/1.1 503");
    assert_eq!(site.json(&["status"])["ready"], true, "commands are served");
    drop(held);
    wait_until("a place", || open().0 == "HTTP/1.1 200");
}
