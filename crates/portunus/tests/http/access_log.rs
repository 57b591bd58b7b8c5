//! The access log: its forms, what of a request it does not show, and the services that it can go to, each read by the real one or by a strict parser.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::{Gate, PATIENCE, PORTUNUS, Upstream, certificates, exchange, vacant, wait_until};

fn yaml(access: &str) -> String {
    format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
admin: {{ bind: \"127.0.0.1:0\" }}
routes:
  - {{ path: /s, respond: {{ status: 200, body: ok }} }}
  - {{ path: /e, respond: {{ status: 503 }} }}
  - {{ path: /m, redirect: {{ to: /s }} }}
  - {{ path: /u, respond: {{ status: 204 }}, log_fields: {{ agent: \"{{header.referer}}\" }} }}
log: {{ access: {{ {access} }} }}
"
    )
}

/// Asks for each target and waits for the response; what is asked with each.
fn ask(gate: &Gate, targets: &[&str], fields: &str) {
    for target in targets {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        assert!(!exchange(gate.address("web"), request.as_bytes()).is_empty(), "{target}");
    }
}

fn metric(gate: &Gate, name: &str) -> u64 {
    let text = gate.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// The lines of the file, once there are so many.
fn lines(gate: &Gate, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    wait_until(&format!("{count} lines"), || {
        let text = fs::read_to_string(gate.dir.path().join("access.log")).unwrap_or_default();
        lines = text.lines().map(str::to_owned).collect();
        text.ends_with('\n') && lines.len() >= count
    });
    lines
}

#[test]
fn secrets_in_queries_are_redacted_in_each_form() {
    for format in ["json", "text", "logfmt", "common"] {
        let gate =
            Gate::start(&yaml(&format!("output: access.log, format: {format}, redact: {{ query: [tenant-key] }}")));
        let target = "/u?a=1&%61ccess_token=s3cret&Tenant.Key=s3cret&x[password]=s3cret";
        ask(&gate, &[target], "Referer: https://a.example/?code=s3cret&b=2\r\n");
        ask(&gate, &["/nowhere?sig=s3cret;a=s3cret", "/s?q=public"], "");
        let text = lines(&gate, 3).join("\n");
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(text.matches("REDACTED").count(), if format == "common" { 4 } else { 5 }, "{text}");
        assert!(text.contains("q=public"), "{text}");
    }
    let gate = Gate::start(&yaml("output: access.log, redact: { well_known: false, query: other }"));
    ask(&gate, &["/s?token=shown&other=hidden"], "");
    let line = lines(&gate, 1).remove(0);
    assert!(line.contains("token=shown&other=REDACTED"), "{line}");
}

#[test]
fn fields_are_left_out_and_requests_that_went_well_are_sampled() {
    let gate = Gate::start(&yaml(
        "output: access.log, remove: [user_agent, target, tls.cipher, listener], sample: { 2xx: 0, \"404\": 0, 3xx: 1 }",
    ));
    ask(&gate, &["/s", "/s", "/nowhere", "/m", "/u", "/e"], "User-Agent: me\r\n");
    let lines = lines(&gate, 2);
    let values: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses: Vec<_> = values.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [308, 503], "{lines:?}");
    for name in ["user_agent", "target", "listener", "sampled"] {
        assert!(values.iter().all(|line| line.get(name).is_none()), "{name}: {lines:?}");
    }
    wait_until("both written", || metric(&gate, "portunus_log_lines_written_total") == 2);
    assert_eq!(metric(&gate, "portunus_log_lines_dropped_total"), 0, "what is left out is not lost");
    // A connection that is no request has its line all the same.
    exchange(gate.address("web"), b"nonsense\r\n\r\n");
    let last = self::lines(&gate, 3).pop().unwrap();
    assert!(last.contains("\"status\":400"), "{last}");
}

#[test]
fn a_share_of_lines_says_what_it_is_a_share_of() {
    let gate = Gate::start(&yaml("output: access.log, sample: { 200: 0.999999 }"));
    ask(&gate, &["/s", "/s"], "");
    let line = lines(&gate, 1).remove(0);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["sampled"], 0.999_999, "{line}");
}

#[test]
fn what_the_log_cannot_do_is_said_with_its_place() {
    for (access, expected) in [
        ("remove: user_agnet", "did you mean `user_agent`"),
        ("remove: time", "cannot be left out"),
        ("remove: user_agent, format: text", "no effect"),
        ("sample: { 5xx: 0.1 }", "always have a line"),
        ("sample: { 2xy: 0.1 }", "neither a status nor a class"),
        ("sample: { 2xx: 2 }", "not a share"),
        ("sample: { 2xx: 10% }", "not a share"),
        ("sample: { 2xx: -0.1 }", "not a share"),
        ("redact: { query: \"a=b\" }", "query parameter"),
        ("fields: { a: \"{query.Access-Token}\" }", "is redacted in the log"),
        ("output: syslog", "syslog:"),
        ("output: { syslog: \"10.0.0.1:514\" }", "is not the address of a syslog service"),
        ("output: { syslog: \"udp://10.0.0.1:99999\" }", "port"),
        ("output: { syslog: \"udp://10.0.0.1\", ca: ca.pem }", "without TLS"),
        ("output: { syslog: \"udp://10.0.0.1\", app_name: \"a b\" }", "APP-NAME"),
        ("output: { syslog: \"udp://10.0.0.1\", facility: local9 }", "must be one of `kern`"),
        ("format: yaml", "logfmt"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p.yaml");
        fs::write(&file, yaml(access)).unwrap();
        let output = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && text.contains(expected) && text.contains("p.yaml:"), "{access}: {text}");
    }
}

/// A message as RFC 5424 has it, read without mercy.
#[derive(Debug)]
struct Message {
    priority: u16,
    kind: String,
    text: String,
}

fn parse(message: &[u8]) -> Message {
    let text = std::str::from_utf8(message).unwrap();
    assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{text:?}");
    let rest = text.strip_prefix('<').unwrap();
    let (priority, rest) = rest.split_once(">1 ").unwrap();
    assert!(priority == "0" || !priority.starts_with('0'), "{text}");
    let parts: Vec<_> = rest.splitn(7, ' ').collect();
    let [time, host, app, process, kind, data, body] = parts[..] else { panic!("{text}") };
    assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{text}");
    assert!((1..=255).contains(&host.len()) && app == "edge-1" && data == "-", "{text}");
    process.parse::<u32>().unwrap();
    Message { priority: priority.parse().unwrap(), kind: kind.to_owned(), text: body.to_owned() }
}

/// Messages of a stream, each with its length before it (RFC 6587 §3.4.1).
fn counted(mut stream: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(space) = stream.iter().position(|byte| *byte == b' ') {
        let length = std::str::from_utf8(&stream[..space]).unwrap();
        assert!(!length.starts_with('0'), "{length}");
        let length: usize = length.parse().unwrap();
        let Some(message) = stream.get(space + 1..space + 1 + length) else { break };
        messages.push(parse(message));
        stream = &stream[space + 1 + length..];
    }
    messages
}

/// What everybody sends, and what must come of it.
const TARGETS: [&str; 4] = ["/s?<1>1%0a", "/s?\"]=\\", "/e?token=s3cret", "/nowhere"];

fn check(messages: &[Message]) {
    assert_eq!(messages.len(), TARGETS.len(), "{messages:#?}");
    for (message, status) in messages.iter().zip([200, 200, 503, 404]) {
        let line: Value = serde_json::from_str(&message.text).unwrap();
        // local3 is 19. Nobody's fault but the client's, and that of the configuration.
        let severity = if line["fault"].as_str().is_some_and(|fault| fault != "client") { 4 } else { 6 };
        assert_eq!((&line["status"], message.priority), (&status.into(), 19 * 8 + severity), "{message:?}");
        assert_eq!(message.kind, "request");
    }
    assert!(!format!("{messages:?}").contains("s3cret"));
}

fn syslog(address: &str) -> String {
    yaml(&format!("output: {{ syslog: \"{address}\", facility: local3, app_name: edge-1 }}"))
}

#[test]
fn syslog_messages_are_those_of_rfc_5424() {
    let dir = tempfile::tempdir().unwrap();
    let unix = UnixDatagram::bind(dir.path().join("log")).unwrap();
    unix.set_read_timeout(Some(PATIENCE)).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    type Receive<'a> = &'a dyn Fn(&mut [u8]) -> usize;
    let receive: [(String, Receive<'_>); 2] = [
        (format!("unix:{}", dir.path().join("log").display()), &|buffer| unix.recv(buffer).unwrap()),
        (format!("udp://{}", udp.local_addr().unwrap()), &|buffer| udp.recv(buffer).unwrap()),
    ];
    for (address, receive) in receive {
        let gate = Gate::start(&syslog(&address));
        ask(&gate, &TARGETS, "User-Agent: \u{85}\t\"]\r\n");
        let mut messages = Vec::new();
        while messages.len() < TARGETS.len() {
            let mut buffer = vec![0; 65_536];
            let length = receive(&mut buffer);
            messages.push(parse(&buffer[..length]));
        }
        check(&messages);
        // What went out is counted a moment later.
        wait_until("all counted", || metric(&gate, "portunus_log_lines_written_total") == 4);
    }
}

/// Accepts connections at an address and keeps what comes; ends the first `broken` of them after two messages.
fn stream(address: SocketAddr, broken: usize) -> Arc<Mutex<Vec<u8>>> {
    let (listener, received) = (TcpListener::bind(address).unwrap(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&received);
    std::thread::spawn(move || {
        for (number, connection) in listener.incoming().flatten().enumerate() {
            let (mut connection, kept) = (connection, Arc::clone(&kept));
            std::thread::spawn(move || {
                let (mut buffer, mut all) = ([0; 4096], Vec::new());
                while let Ok(length @ 1..) = connection.read(&mut buffer) {
                    all.extend_from_slice(&buffer[..length]);
                    // Not while the second message may be on its way, which would be lost; and before anybody sees what came: the end must be there
                    // before the next lines.
                    let is_last = number < broken && counted(&all).len() >= 2;
                    let is_broken = is_last && connection.shutdown(Shutdown::Both).is_ok();
                    kept.lock().unwrap().extend_from_slice(&buffer[..length]);
                    if is_broken {
                        return;
                    }
                }
            });
        }
    });
    received
}

#[test]
fn a_syslog_service_may_come_late_and_leave() {
    let address = vacant();
    let gate = Gate::start(&syslog(&format!("tcp://{address}")));
    ask(&gate, &TARGETS[..2], "");
    gate.wait_for("cannot reach the log service");
    assert_eq!(metric(&gate, "portunus_log_lines_written_total"), 0);
    let received = stream(address, 1);
    wait_until("the first two", || counted(&received.lock().unwrap()).len() >= 2);
    // That connection has ended; the next lines make a new one.
    ask(&gate, &TARGETS[2..], "");
    wait_until("all of them", || counted(&received.lock().unwrap()).len() >= 4);
    check(&counted(&received.lock().unwrap()));
    assert_eq!(metric(&gate, "portunus_log_lines_dropped_total"), 0);
}

#[test]
fn a_service_that_is_never_there_costs_no_request() {
    // The file is named by a reload.
    let sandbox = "\nsandbox: { write: . }\n";
    let mut text = syslog(&format!("tcp://{}", vacant())) + sandbox;
    let gate = Gate::start(&text);
    ask(&gate, &["/s"; 20], "");
    gate.wait_for("cannot reach the log service");
    // The log goes on elsewhere; what waited for the service is lost, and counted.
    text = yaml("output: access.log") + sandbox;
    gate.rewrite(&text);
    gate.signal("HUP");
    gate.wait_for("reloaded");
    ask(&gate, &["/e"], "");
    wait_until("the last line", || lines(&gate, 1).last().is_some_and(|line| line.contains("\"status\":503")));
    // A line that was not yet written when the log moved has moved with it.
    let moved = lines(&gate, 1).len() as u64 - 1;
    assert!(moved <= 1, "{moved}");
    wait_until("lost lines counted", || metric(&gate, "portunus_log_lines_dropped_total") == 20 - moved);
}

#[test]
fn a_reload_moves_the_log_between_frames_without_loss() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let service = syslog(&format!("udp://{}", udp.local_addr().unwrap()));
    let (file, mut reloads) = (yaml("output: access.log, format: logfmt"), 0);
    let gate = Gate::start(&file);
    let mut wanted = BTreeSet::new();
    for round in 0..6 {
        gate.rewrite(if round % 2 == 0 { &service } else { &file });
        gate.signal("HUP");
        reloads += 1;
        wait_until("a reload", || {
            gate.diagnostics().iter().filter(|line| line.contains("reloaded")).count() >= reloads
        });
        for number in 0..5 {
            let target = format!("/e?{round}-{number}");
            ask(&gate, &[&target], "");
            wanted.insert(target);
        }
    }
    // Each line is in one of both places, and whole there. The last of a round may be written after the log has moved.
    let mut found = BTreeSet::new();
    udp.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
    wait_until("all lines", || {
        let mut buffer = vec![0; 65_536];
        while let Ok(length) = udp.recv(&mut buffer) {
            let line: Value = serde_json::from_str(&parse(&buffer[..length]).text).unwrap();
            assert!(found.insert(line["target"].as_str().unwrap().to_owned()), "twice: {line}");
        }
        let in_file = lines(&gate, 1);
        let of_line = |line: &String| {
            let fields = logfmt(line);
            fields.iter().find(|(name, _)| name == "target").map(|(_, target)| target.clone()).unwrap()
        };
        let mut all = found.clone();
        in_file.iter().for_each(|line| assert!(all.insert(of_line(line)), "twice: {line}"));
        all == wanted
    });
}

/// A program that is ended with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a socket is bound at this address.
fn is_bound(address: SocketAddr, table: &str) -> bool {
    let SocketAddr::V4(address) = address else { panic!("{address}") };
    let wanted = format!(" {:08X}:{:04X} ", u32::from_ne_bytes(address.ip().octets()), address.port());
    fs::read_to_string(format!("/proc/net/{table}")).unwrap().contains(&wanted)
}

/// The syslog service that Debian has understands all of it.
#[test]
fn rsyslog_reads_it_over_udp_tcp_and_unix_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let (udp, tcp, unix) = (vacant(), vacant(), dir.path().join("log"));
    let (file, out) = (dir.path().join("rsyslog.conf"), dir.path().join("out"));
    let configuration = format!(
        "global(workDirectory=\"{dir}\" maxMessageSize=\"64k\")
module(load=\"imudp\") module(load=\"imtcp\") module(load=\"imuxsock\" SysSock.Use=\"off\")
template(name=\"t\" type=\"string\" string=\"%syslogfacility-text% %syslogseverity-text% %app-name% %msgid% %structured-data% %protocol-version% %msg%\\n\")
ruleset(name=\"all\") {{ action(type=\"omfile\" file=\"{out}\" template=\"t\" flushOnTXEnd=\"on\" asyncWriting=\"off\") }}
input(type=\"imudp\" address=\"{}\" port=\"{}\" ruleset=\"all\")
input(type=\"imtcp\" address=\"{}\" port=\"{}\" ruleset=\"all\")
input(type=\"imuxsock\" Socket=\"{unix}\" useSpecialParser=\"off\" parseHostname=\"on\" ruleset=\"all\" RateLimit.Interval=\"0\")
",
        udp.ip(), udp.port(), tcp.ip(), tcp.port(), dir = dir.path().display(), out = out.display(), unix = unix.display(),
    );
    fs::write(&file, configuration).unwrap();
    let program = if Path::new("/usr/sbin/rsyslogd").exists() { "/usr/sbin/rsyslogd" } else { "rsyslogd" };
    let mut command = Command::new(program);
    command
        .args(["-n", "-f"])
        .arg(&file)
        .arg("-i")
        .arg(dir.path().join("pid"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _service = Ended(command.spawn().expect("rsyslogd is installed (Debian package rsyslog)"));
    wait_until("rsyslog", || is_bound(udp, "udp") && is_bound(tcp, "tcp") && unix.exists());
    let mut before = 0;
    for address in [format!("udp://{udp}"), format!("tcp://{tcp}"), format!("unix:{}", unix.display())] {
        let gate = Gate::start(&syslog(&address));
        ask(&gate, &TARGETS, "User-Agent: \u{1f600} \"]\t\r\n");
        let mut read = Vec::new();
        wait_until(&format!("four lines over {address}"), || {
            let text = fs::read_to_string(&out).unwrap_or_default();
            let (text, _unfinished) = text.rsplit_once('\n').unwrap_or_default();
            read = text.lines().skip(before).map(str::to_owned).collect();
            read.len() >= TARGETS.len()
        });
        before += read.len();
        for (line, (severity, status)) in read.iter().zip([("info", 200), ("info", 200), ("info", 503), ("info", 404)])
        {
            let rest = line.strip_prefix("local3 ").unwrap_or_else(|| panic!("{address}: {line}"));
            let (found, rest) = rest.split_once(' ').unwrap();
            assert!(found == severity || found == "warning", "{address}: {line}");
            let text = rest.strip_prefix("edge-1 request - 1 ").unwrap_or_else(|| panic!("{address}: {line}"));
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(value["status"], status, "{address}: {line}");
        }
    }
}

/// Under TLS, to a server that shows what it gets, and only if its certificate is the right one.
#[test]
fn syslog_under_tls_goes_to_whom_the_certificate_names() {
    let dir = certificates(&[("logs.example", false)]);
    let (address, pair) = (vacant(), dir.path().join("certs/0-Ecdsa.pem"));
    let out = dir.path().join("out");
    let mut command = Command::new("openssl");
    command
        .args(["s_server", "-accept", &address.to_string(), "-naccept", "999", "-cert"])
        .arg(&pair)
        .arg("-key")
        .arg(&pair);
    command.stdin(Stdio::piped()).stdout(fs::File::create(&out).unwrap()).stderr(Stdio::null());
    let _server = Ended(command.spawn().expect("openssl is installed"));
    wait_until("openssl", || is_bound(address, "tcp"));
    let text = |name: &str| {
        yaml(&format!(
            "output: {{ syslog: \"tls://{address}\", facility: local3, app_name: edge-1, ca: {}, server_name: {name} }}",
            dir.path().join("ca.pem").display()
        ))
    };
    let gate = Gate::start(&text("other.example"));
    ask(&gate, &["/s?wrong"], "");
    gate.wait_for("cannot reach the log service");
    drop(gate);
    let gate = Gate::start(&text("logs.example"));
    ask(&gate, &TARGETS, "");
    let mut messages = Vec::new();
    wait_until("four messages", || {
        let text = fs::read(&out).unwrap_or_default();
        let shown = String::from_utf8_lossy(&text).into_owned();
        let found = shown.match_indices(" <15").filter_map(|(at, _)| {
            let start = shown[..at].rfind(|byte: char| !byte.is_ascii_digit()).map_or(0, |before| before + 1);
            let length: usize = shown[start..at].parse().ok()?;
            Some(parse(shown.as_bytes().get(at + 1..at + 1 + length)?))
        });
        messages = found.collect();
        messages.len() >= TARGETS.len()
    });
    check(&messages);
    assert!(
        !fs::read_to_string(&out).unwrap().contains("/s?wrong"),
        "nothing is sent to whom the certificate does not name"
    );
}

/// The journal of systemd itself, in a mount namespace of its own.
#[test]
fn the_journal_has_each_field() {
    const JOURNALD: &str = "/lib/systemd/systemd-journald";
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a journal of one's own needs root");
        return;
    }
    if !Path::new(JOURNALD).exists() {
        eprintln!("skipped: there is no systemd here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    fs::create_dir(&journal).unwrap();
    let mut command = Command::new("unshare");
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/journal /run/log/journal && mount --bind journal /run/log/journal \
         && {{ {JOURNALD} >/dev/null 2>&1 & echo $! > journald.pid; }} && while [ ! -S /run/systemd/journal/socket ]; do sleep 0.02; done && exec \"$@\""
    );
    command.args(["--mount", "--", "sh", "-c", &script, "sh", PORTUNUS]);
    let gate = Gate::start_by(dir, &yaml("output: journald, remove: listener"), command);
    struct Journal(String);
    impl Drop for Journal {
        fn drop(&mut self) {
            let _ = Command::new("kill").args(["-KILL", self.0.trim()]).status();
        }
    }
    let _journal = Journal(fs::read_to_string(gate.dir.path().join("journald.pid")).unwrap());
    ask(&gate, &TARGETS, "User-Agent: a\tb\u{1f600}\r\nReferer: x\r\n");
    ask(&gate, &["/u?\"\\"], "Referer: y\r\n");
    // As large as an entry gets: each text beyond its bound, and each byte of it longer in the log.
    let wide = "\u{1f600}".repeat(400);
    ask(&gate, &[&format!("/u?{}", "q".repeat(5_000))], &format!("Referer: {wide}\r\nUser-Agent: {wide}\r\n"));
    let mut entries: Vec<Value> = Vec::new();
    wait_until("six entries", || {
        let mut read = Command::new("journalctl");
        read.args(["--output=json", "--no-pager", "SYSLOG_IDENTIFIER=portunus", "--directory"])
            .arg(gate.dir.path().join("journal"));
        let output = read.output().unwrap();
        entries = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        entries.len() > TARGETS.len() + 1
    });
    let of = |name: &str| entries.iter().map(|entry| entry[name].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>();
    assert_eq!(of("PORTUNUS_STATUS"), ["200", "200", "503", "404", "204", "204"]);
    assert_eq!(of("PORTUNUS_TARGET")[2], "/e?token=REDACTED");
    assert_eq!(of("PORTUNUS_FIELDS_AGENT")[4], "y");
    assert_eq!(of("PORTUNUS_USER_AGENT")[0], "a\\tb\\ud83d\\ude00");
    assert!(entries.iter().all(|entry| entry.get("PORTUNUS_LISTENER").is_none()));
    let messages: Vec<Value> = of("MESSAGE").iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert!(messages.iter().all(|line| line["host"] == "x" && line.get("listener").is_none()), "{messages:?}");
    assert!(of("PRIORITY").iter().all(|priority| matches!(priority.as_str(), "4" | "6")));
    assert_eq!(of("_TRANSPORT"), ["journal"; 6]);
    assert_eq!(of("PORTUNUS_TARGET")[5].len(), 2048);
    assert_eq!(of("PORTUNUS_USER_AGENT")[5], "\\ud83d\\ude00".repeat(64));
    assert_eq!(messages[5]["truncated"], serde_json::json!(["target", "user_agent", "fields"]));
}

/// Lines for tools that read the log of older servers, and `logfmt`, whatever clients send.
#[test]
fn hostile_requests_are_one_line_in_each_form() {
    let upstream = Upstream::ok();
    for format in ["logfmt", "common"] {
        let text = yaml(&format!("output: access.log, format: {format}")).replace(
            "routes:",
            &format!(
                "upstreams: {{ app: {{ servers: [\"{}\"] }} }}\nroutes:\n  - {{ upstream: app }}",
                upstream.address
            ),
        );
        let gate = Gate::start(&text);
        let hostile = ["/?a=\" 200 0\"", "/a%0a%0db", "/\\\"", "/ü?\u{85}", "/?status=1 fault=upstream"];
        for target in hostile {
            ask(&gate, &[&target.replace(' ', "%20")], "User-Agent: a\" status=1\t\u{202e}\r\n");
        }
        for line in lines(&gate, hostile.len()) {
            assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line}");
            if format == "common" {
                let (head, rest) = line.split_once(" \"").unwrap();
                let (asked, rest) = rest.rsplit_once("\" ").unwrap();
                assert!(head.starts_with("127.") && head.ends_with(" +0000]") && head.contains(" - - ["), "{line}");
                assert!(asked.starts_with("GET /") && asked.ends_with(" HTTP/1.1"), "{line}");
                let numbers: Vec<_> = rest.split(' ').collect();
                assert!(numbers.len() == 2 && numbers[0].len() == 3, "{line}");
            } else {
                let fields = logfmt(&line);
                let of = |name: &str| {
                    fields.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
                };
                assert_eq!(
                    (of("kind"), of("listener"), of("status").len()),
                    (vec!["request"], vec!["web"], 1),
                    "{line}"
                );
                assert!(of("user_agent").iter().all(|agent| agent.starts_with("a\" status=1")), "{line}");
            }
        }
    }
}

/// Names and values of a line, as readers of `logfmt` take them.
fn logfmt(line: &str) -> Vec<(String, String)> {
    let (mut fields, mut rest) = (Vec::new(), line);
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').unwrap_or_else(|| panic!("{rest:?} of {line}"));
        assert!(
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')),
            "{name:?} of {line}"
        );
        let (value, after) = match after.strip_prefix('"') {
            None => after.split_once(' ').map_or((after.to_owned(), ""), |(value, after)| (value.to_owned(), after)),
            Some(quoted) => {
                let mut stream = serde_json::Deserializer::from_str(after).into_iter::<String>();
                let value = stream.next().unwrap().unwrap();
                let end = stream.byte_offset() - 1;
                (value, quoted[end..].strip_prefix(' ').unwrap_or(&quoted[end..]))
            }
        };
        fields.push((name.to_owned(), value));
        rest = after;
    }
    fields
}
