//! Reloads by signal and by request: nothing of the traffic is touched, and what is wrong changes nothing and says so.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::client::TlsClient;
use super::{get, keystore, metric, tls_listener, yaml};
use crate::harness::{
    Gate, StopOnDrop, Upstream, certificates, connect, connect_unix, read_response, vacant, wait_until,
};

fn post_reload(gate: &Gate) -> String {
    gate.operate("POST /reload", "Content-Length: 0\r\n")
}

/// One request after the other on one connection until told to stop; each must be answered well.
fn keep_asking(mut connection: impl Read + Write, stop: &AtomicBool, answered: &AtomicUsize) {
    while !stop.load(Ordering::Relaxed) {
        connection.write_all(b"POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nbody").unwrap();
        let (head, body) = read_response(&mut connection);
        assert!(head.starts_with("HTTP/1.1 200 ") && body == b"ok", "{head}");
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn keep_connecting(address: SocketAddr, stop: &AtomicBool, answered: &AtomicUsize) {
    while !stop.load(Ordering::Relaxed) {
        let response = get(address);
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nok"), "{response:?}");
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_hundred_reloads_under_traffic_lose_nothing() {
    let upstream = Upstream::ok();
    let listener = tls_listener("tls", "127.0.0.3", "");
    let config = |variant: usize| {
        let more = format!("{}\nlimits: {{ max_headers: {} }}", keystore("a.example"), 50 + variant);
        yaml(&upstream, &listener, &more).replace("workers: 1", "workers: 2")
    };
    let gate = Gate::start_in(certificates(&[("a.example", false)]), &config(0));
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (web, tls) = (gate.address("web"), gate.address("tls"));
    std::thread::scope(|scope| {
        scope.spawn(|| keep_asking(connect(web), &stop, &answered));
        scope.spawn(|| keep_asking(TlsClient::connect(tls, "a.example", "http/1.1"), &stop, &answered));
        scope.spawn(|| keep_connecting(web, &stop, &answered));
        // Stops the others also when an assertion here fails, or the scope would wait for them for ever.
        let ended = StopOnDrop(&stop);
        for round in 1..=50 {
            gate.rewrite(&config(round));
            gate.signal("HUP");
            gate.wait_for(&format!("\"generation\":{}", 2 * round));
            // Both kinds of connection were served under each generation.
            let before = answered.load(Ordering::Relaxed);
            wait_until("traffic to go on", || answered.load(Ordering::Relaxed) >= before + 3);
            let response = post_reload(&gate);
            assert!(response.ends_with(&format!("{{\"generation\":{}}}\n", 2 * round + 1)), "{response}");
        }
        drop(ended);
    });
    let count = answered.load(Ordering::Relaxed);
    assert!(count > 150, "{count} requests");
    assert_eq!(upstream.seen().len(), count, "each request reached the upstream once");
    let lines = gate.log(count);
    assert_eq!(lines.len(), count);
    assert!(lines.iter().all(|line| line["status"] == 200));
    assert_eq!(metric(&gate, "portunus_config_reloads_total{result=\"success\"}"), Some(100.0));
    assert_eq!(metric(&gate, "portunus_config_reloads_total{result=\"failure\"}"), Some(0.0));
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn what_is_wrong_changes_nothing_and_says_so() {
    let upstream = Upstream::ok();
    let good = yaml(&upstream, "", "limits: { request_header_timeout: 1h, keep_alive_timeout: 1h }");
    let gate = Gate::start(&good);
    let mut held = connect(gate.address("web"));
    let mut rejections = 0.0;
    let mut check = |config: &str, reported: &[&str]| {
        gate.rewrite(config);
        let response = post_reload(&gate);
        assert!(response.starts_with("HTTP/1.1 422 "), "{response}");
        let body = response.split("\r\n\r\n").nth(1).unwrap();
        let problems: serde_json::Value = serde_json::from_str(body).unwrap();
        let problems = problems["problems"].as_array().unwrap();
        assert_eq!(problems.len(), reported.len(), "{response}");
        for (problem, reported) in problems.iter().zip(reported) {
            assert!(problem.as_str().unwrap().contains(reported), "{problem} tells of {reported}");
        }
        gate.signal("HUP");
        rejections += 2.0;
        wait_until("the refusals to be counted", || {
            metric(&gate, "portunus_config_reloads_total{result=\"failure\"}") == Some(rejections)
        });
        assert_eq!(metric(&gate, "portunus_config_generation"), Some(1.0));
        assert_eq!(metric(&gate, "portunus_config_last_reload_successful"), Some(0.0));
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
        held.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        assert!(read_response(&mut held).0.starts_with("HTTP/1.1 200 "));
    };
    check(&good.replace("upstream: app", "upstream: shop"), &["portunus.yaml:8:"]);
    check(&good.replace("servers", "server").replace("admin: {", "admin: { x: 1,"), &["server", "`app`", "x"]);
    // Half-written.
    check(&good[..good.find("upstreams").unwrap() + 20], &["not valid YAML"]);
    check(&(good.clone() + "keystores: { main: { folder: nowhere, default: a } }"), &["nowhere"]);
    // Ten times what may be read: a generator has run away.
    check(&(good.clone() + &"# filler, filler, filler, filler\n".repeat(1_300_000)), &["larger than"]);
    check(&good.replace("127.0.0.1:0", "192.0.2.77:8080"), &["cannot bind"]);
    gate.wait_for("reload rejected, the active configuration stays");
    gate.rewrite(&good);
    assert!(post_reload(&gate).ends_with("{\"generation\":2}\n"));
    assert_eq!(metric(&gate, "portunus_config_last_reload_successful"), Some(1.0));
}

#[test]
fn listeners_come_and_go_with_a_reload() {
    let upstream = Upstream::ok();
    // On an address that no other test has, so that nobody else is given its port.
    let second = format!("  - {{ name: second, bind: \"{}:0\" }}", vacant().ip());
    let third = "  - { name: third, bind: \"unix:third.sock\" }";
    // A gate without Unix sockets makes none later, unless it is told.
    let sandbox = "sandbox: { connect: . }";
    let gate = Gate::start(&yaml(&upstream, &second, sandbox));
    let gone = gate.address("second");
    assert!(get(gone).starts_with("HTTP/1.1 200 "));
    gate.rewrite(&yaml(&upstream, third, sandbox));
    assert!(post_reload(&gate).ends_with("{\"generation\":2}\n"));
    let third = gate.dir.path().join("third.sock");
    let mut stream = connect_unix(&third);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 200 "));
    wait_until("the old listener to close", || std::net::TcpStream::connect(gone).is_err());
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "), "the one that stayed");
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn an_address_goes_from_datagrams_to_http3_and_back_by_way_of_neither() {
    let (upstream, address) = (Upstream::ok(), vacant());
    let text = |listener: &str, more: &str| yaml(&upstream, listener, &format!("{more}{}", keystore("a.example")));
    let datagrams =
        text("", &format!("udp_listeners: [{{ name: dns, bind: \"{address}\", upstream: \"127.0.0.1:9\" }}]\n"));
    let http3 = text(
        &tls_listener("tls", "127.0.0.3", "")
            .replace("127.0.0.3:0", &address.to_string())
            .replace(" } }", " }, http3: true }"),
        "",
    );
    assert!(http3.contains("http3: true"), "{http3}");
    let neither = text("", "");
    let gate = Gate::start_in(certificates(&[("a.example", false)]), &datagrams);
    let reload = |to: &str| {
        gate.rewrite(to);
        post_reload(&gate)
    };
    let turns = "cannot turn from datagrams to HTTP/3 or back at a reload";
    for (to, from) in [(&http3, &datagrams), (&datagrams, &http3)] {
        let rejected = reload(to);
        assert!(!rejected.starts_with("HTTP/1.1 200 ") && rejected.contains(turns), "{rejected}");
        assert!(reload(from).starts_with("HTTP/1.1 200 "), "nothing has changed");
        assert!(reload(&neither).starts_with("HTTP/1.1 200 "));
        wait_until("the address to be free", || reload(to).starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn the_log_and_the_admin_side_move_and_what_cannot_says_so() {
    let upstream = Upstream::ok();
    let first = yaml(&upstream, "", "sandbox: { connect: ., write: . }");
    let gate = Gate::start(&first);
    let web = gate.address("web");
    assert!(get(web).starts_with("HTTP/1.1 200 "));
    gate.log(1);
    let log = |to: &str| format!("log: {{ access: {{ format: json, output: {to} }}, level: info }}");
    let moved = first.replace("127.0.0.2:0", "unix:admin.sock").replace("workers: 1", "workers: 2");
    gate.rewrite(&format!("{moved}{}\n", log("second.log")));
    let response = post_reload(&gate);
    assert!(
        response.contains(
            "{\"generation\":2,\"waiting_for_restart\":[\"workers stays 1 until a restart or `portunus upgrade`"
        ),
        "{response}"
    );
    gate.wait_for("a setting waits for a restart: workers");
    let lines = |name: &str| std::fs::read_to_string(gate.dir.path().join(name)).unwrap_or_default().lines().count();
    assert!(get(web).starts_with("HTTP/1.1 200 "));
    wait_until("the line in the other file", || lines("second.log") == 1);
    assert_eq!(lines("access.log"), 1);
    let socket = gate.dir.path().join("admin.sock");
    let admin = |request: &str| {
        let mut stream = connect_unix(&socket);
        write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        String::from_utf8_lossy(&crate::harness::read_to_end(&mut stream)).into_owned()
    };
    wait_until("the admin side to move", || socket.exists() && UnixStream::connect(&socket).is_ok());
    wait_until("its old place to be free", || std::net::TcpStream::connect(gate.address("admin")).is_err());
    std::fs::create_dir(gate.dir.path().join("third.log")).unwrap();
    // A place that cannot be written to is rejected with everything else.
    gate.rewrite(&format!("{moved}{}\n", log("third.log")));
    let response = admin("POST /reload");
    assert!(response.starts_with("HTTP/1.1 422 ") && response.contains("third.log"), "{response}");
    gate.rewrite(&format!("{}{}\n", moved.replace("unix:admin.sock", "127.0.0.2:0"), log("second.log")));
    assert!(admin("POST /reload").starts_with("HTTP/1.1 200 "), "the response comes though its place is given up");
    wait_until("the socket to go", || !socket.exists());
    assert!(get(web).starts_with("HTTP/1.1 200 "));
    wait_until("the next line", || lines("second.log") == 2);
    assert_eq!(gate.stop(), Some(0));
}

/// A gate that watches its configuration file and has a control socket.
fn watching(upstream: &Upstream, more: &str, notify: Option<&std::path::Path>) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    let log = "log: { access: { format: json, output: access.log }, level: info }";
    std::fs::write(dir.path().join("portunus.yaml"), format!("{}\n{log}\n", yaml(upstream, "", more))).unwrap();
    let mut command = std::process::Command::new(crate::harness::PORTUNUS);
    let control = dir.path().join("control.sock");
    command.args(["run", "--control"]).arg(control).arg(dir.path().join("portunus.yaml"));
    if let Some(socket) = notify {
        command.env("NOTIFY_SOCKET", socket);
    }
    // The listener, the admin side, and the control socket, which has no address of that kind.
    Gate::start_command(dir, command, 2)
}

fn reported(gate: &Gate, text: &str) -> usize {
    gate.diagnostics().iter().filter(|line| line.contains(text)).count()
}

#[test]
fn a_change_of_the_configuration_file_is_loaded_and_a_broken_one_is_reported_once() {
    let upstream = Upstream::ok();
    let gate = watching(&upstream, "", None);
    let fields = |count: usize| format!("limits: {{ max_headers: {count} }}");
    gate.rewrite(&yaml(&upstream, "", &fields(51)));
    gate.wait_for("\"generation\":2,\"reason\":\"configuration changed\"");
    let broken = yaml(&upstream, "", "limits: { max_headers: none }");
    gate.rewrite(&broken);
    gate.wait_for("reload rejected, the active configuration stays");
    // The same problem again, and then no problem: only the latter has something to say.
    let failures = || metric(&gate, "portunus_config_reloads_total{result=\"failure\"}");
    gate.rewrite(&broken);
    wait_until("the second look", || failures() >= Some(2.0));
    gate.rewrite(&yaml(&upstream, "", &fields(52)));
    gate.wait_for("\"generation\":3,\"reason\":\"configuration changed\"");
    assert_eq!(reported(&gate, "reload rejected"), 1);
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn the_reload_command_waits_for_the_outcome() {
    let upstream = Upstream::ok();
    let gate = watching(&upstream, "", None);
    let reload = |socket: &str| {
        let mut command = std::process::Command::new(crate::harness::PORTUNUS);
        let output = command.args(["reload", "--control"]).arg(gate.dir.path().join(socket)).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = reload("control.sock");
    assert_eq!((code, &*out, &*err), (Some(0), "reloaded: configuration 2 is active\n", ""));
    gate.rewrite(&yaml(&upstream, "  - { name: web, bind: 5 }", "limits: { max_headers: none }"));
    let (code, out, err) = reload("control.sock");
    assert_eq!((code, &*out), (Some(1), ""));
    assert!(err.contains("max_headers") && err.contains("portunus.yaml:4:"), "{err}");
    assert!(err.ends_with("reload rejected; the active configuration stays\n"), "{err}");
    let (code, _, err) = reload("nowhere.sock");
    assert!(code == Some(1) && err.contains("--control"), "{err}");
}

/// As systemd reads them, from the socket it names (sd_notify(3)).
#[test]
fn systemd_is_reported_the_truth() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    let socket = std::os::unix::net::UnixDatagram::bind(dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
    let next = || {
        let mut message = [0; 4096];
        let count = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..count].to_vec()).unwrap()
    };
    let gate = watching(&upstream, "", Some(&dir.path().join("notify")));
    assert_eq!(next(), "READY=1\nSTATUS=serving, configuration 1\n");
    let control = gate.dir.path().join("control.sock");
    let reload = || {
        let mut command = std::process::Command::new(crate::harness::PORTUNUS);
        command.args(["reload", "--control"]).arg(&control).status().unwrap().code()
    };
    assert_eq!(reload(), Some(0));
    let reloading = next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next(), "READY=1\nSTATUS=serving, configuration 2\n");
    std::fs::write(gate.dir.path().join("portunus.yaml"), "listeners: 5\n").unwrap();
    assert_eq!(reload(), Some(1));
    assert!(next().starts_with("RELOADING=1\n"));
    // The changed file may be looked at at the same time.
    let failed = std::iter::repeat_with(next).find(|message| !message.starts_with("RELOADING=1\n")).unwrap();
    assert!(failed.starts_with("READY=1\nSTATUS=serving, configuration 2; the last reload failed: "), "{failed}");
    gate.signal("TERM");
    // The changed file may have been looked at meanwhile.
    let stopping =
        std::iter::repeat_with(next).find(|message| !message.contains("RELOADING") && !message.contains("READY"));
    assert_eq!(stopping.as_deref(), Some("STOPPING=1\nSTATUS=draining\n"));
    assert_eq!(gate.stop(), Some(0));
    assert!(!control.exists());
}

/// The workers there are serve it, each of its sockets: a socket without a worker would keep those waiting whom the kernel gives to it.
#[test]
fn a_listener_that_comes_with_another_number_of_workers_is_served_whole() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "", "");
    let gate = Gate::start(&text);
    let free = vacant();
    let added = text.replace("\"127.0.0.1:0\"", &format!("[\"127.0.0.1:0\", \"{free}\"]"));
    gate.rewrite(&added.replace("workers: 1", "workers: 4"));
    assert!(post_reload(&gate).starts_with("HTTP/1.1 200 "));
    for _ in 0..40 {
        assert!(get(free).starts_with("HTTP/1.1 200 "));
    }
}

/// Forms, levels, and whether there is an access log at all.
#[test]
fn the_access_log_and_the_log_level_follow_a_reload() {
    let upstream = Upstream::ok();
    // The folder of a log that comes later is named beforehand.
    let with = |log: &str| yaml(&upstream, "", &format!("sandbox: {{ write: . }}\nlog: {{ {log} }}"));
    let gate = Gate::start(&with("level: info, access: none"));
    let lines = || {
        let text = std::fs::read_to_string(gate.dir.path().join("access.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let reload_and_ask = |log: &str| {
        gate.rewrite(&with(log));
        let response = post_reload(&gate);
        assert!(response.starts_with("HTTP/1.1 200 ") && !response.contains("waiting"), "{response}");
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    };
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    reload_and_ask("level: info, access: { format: json, output: access.log }");
    wait_until("a line", || lines().len() == 1);
    assert!(lines()[0].starts_with('{'), "{:?}", lines());
    reload_and_ask("level: info, access: { format: text, output: access.log }");
    wait_until("a line of text", || lines().len() == 2);
    assert!(!lines()[1].starts_with('{'), "{:?}", lines());
    reload_and_ask("level: debug, access: none");
    reload_and_ask("level: info, access: { format: json, output: access.log }");
    wait_until("a line again", || lines().len() == 3);
    assert!(lines()[2].starts_with('{'), "none was written meanwhile: {:?}", lines());
    // The level, by what is said of a reload. As the log came and went, what is watched did, which may mean another reload at any time.
    let said = || reported(&gate, "\"reason\":\"SIGHUP\"");
    gate.signal("HUP");
    wait_until("the word of a reload", || said() == 1);
    gate.rewrite(&with("level: error, access: none"));
    assert!(post_reload(&gate).starts_with("HTTP/1.1 200 "));
    let reloads = || metric(&gate, "portunus_config_reloads_total{result=\"success\"}");
    let before = reloads();
    gate.signal("HUP");
    wait_until("the reload", || reloads() > before);
    assert_eq!(said(), 1);
    gate.rewrite(&with("level: info, access: none"));
    gate.signal("HUP");
    wait_until("the word of the next reload", || said() >= 2);
}
