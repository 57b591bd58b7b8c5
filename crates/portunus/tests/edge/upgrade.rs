//! `portunus upgrade`: another process takes over the very sockets; nobody is refused, nothing is lost, and what cannot serve changes nothing.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use super::{ask, get, launcher_of, yaml};
use crate::harness::{
    Gate, PATIENCE, PORTUNUS, Reply, StopOnDrop, Upstream, connect, connect_unix, output_of, path, read_response,
    read_to_end, vacant, wait_until,
};

/// A gate whose program can be replaced, with its control socket.
pub(super) struct Upgradable {
    pub(super) gate: Gate,
    /// Processes that took over, the last one serving; ended with the test.
    successors: Vec<Successor>,
}

struct Successor(u32);

impl Drop for Successor {
    fn drop(&mut self) {
        kill("KILL", self.0);
    }
}

/// Signals a process of this test that may have ended. It is no child of ours, but one that we are told of.
fn kill(signal: &str, pid: u32) -> bool {
    Command::new("kill").args([format!("-{signal}"), pid.to_string()]).output().unwrap().status.success()
}

pub(super) fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

impl Upgradable {
    /// `wanted`: addresses that are logged at the start.
    pub(super) fn start(dir: tempfile::TempDir, yaml: &str, wanted: usize) -> Upgradable {
        Upgradable::start_with(dir, yaml, wanted, &[])
    }

    /// The same, with variables of the environment.
    fn start_with(dir: tempfile::TempDir, yaml: &str, wanted: usize, variables: &[(&str, &Path)]) -> Upgradable {
        let program = dir.path().join("portunus");
        std::os::unix::fs::symlink(PORTUNUS, &program).unwrap();
        write(dir.path(), yaml);
        let mut command = Command::new(program);
        let (control, file) = (dir.path().join("control.sock"), dir.path().join("portunus.yaml"));
        command.args(["run", "--no-watch", "--control"]).arg(control).arg(file).envs(variables.iter().copied());
        Upgradable { gate: Gate::start_command(dir, command, wanted), successors: Vec::new() }
    }

    pub(super) fn dir(&self) -> &Path {
        self.gate.dir.path()
    }

    fn control(&self) -> PathBuf {
        self.dir().join("control.sock")
    }

    /// Puts a shell script in the program's place.
    fn replace_program(&self, script: &str) {
        let fresh = self.dir().join("fresh");
        std::fs::write(&fresh, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(fresh, self.dir().join("portunus")).unwrap();
    }

    fn restore_program(&self) {
        let fresh = self.dir().join("fresh");
        std::os::unix::fs::symlink(PORTUNUS, &fresh).unwrap();
        std::fs::rename(fresh, self.dir().join("portunus")).unwrap();
    }

    /// Upgrades; the number of the new process, or what was said instead.
    fn try_upgrade(&mut self) -> Result<u32, String> {
        let output = Command::new(PORTUNUS).args(["upgrade", "--control"]).arg(self.control()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        if !output.status.success() {
            assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
            return Err(text(&output.stderr));
        }
        let said = text(&output.stdout);
        let pid = said.split_whitespace().nth(2).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{said}"));
        self.successors.push(Successor(pid));
        Ok(pid)
    }

    /// Reloads; what was said if that was rejected.
    fn try_reload(&self) -> Result<(), String> {
        let output = Command::new(PORTUNUS).args(["reload", "--control"]).arg(self.control()).output().unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stderr).unwrap()) }
    }

    /// Upgrades. What is asked of the admin socket after that is asked of the new process.
    pub(super) fn upgrade(&mut self) -> u32 {
        self.try_upgrade().unwrap_or_else(|said| panic!("{said}: {:#?}", self.gate.diagnostics()))
    }

    /// Upgrades, and waits until the process before has ended: until then it may still accept a connection, and counts for itself.
    pub(super) fn upgrade_and_outlive(&mut self) {
        let before = self.newest();
        self.upgrade();
        wait_until("the process before to end", || !is_alive(before));
    }

    /// The process that serves.
    fn newest(&self) -> u32 {
        self.successors.last().map_or(self.gate.pid(), |last| last.0)
    }

    /// Ends the process that serves, and waits for it.
    pub(super) fn end(self) {
        let last = self.newest();
        kill("TERM", last);
        wait_until("the last process to end", || !is_alive(last));
    }
}

pub(super) fn write(dir: &Path, yaml: &str) {
    let log = "\nlog: { access: { format: json, output: access.log }, level: info }\n";
    std::fs::write(dir.join("portunus.yaml"), format!("{yaml}{log}")).unwrap();
}

/// An upstream that responds `/slow` when it is told to, echoes after `/echo`, and answers all else at once.
fn upstream() -> (Upstream, Sender<()>) {
    let (release, wait) = channel();
    let wait = Arc::new(Mutex::new(wait));
    let upstream = Upstream::start(move |request| {
        let is_slow = request.line().contains("/slow");
        if request.line().contains("/echo") {
            return Reply::Take(Box::new(|mut stream: TcpStream| {
                let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                stream.write_all(switch).unwrap();
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..count]).unwrap();
                }
            }));
        }
        if !is_slow {
            return Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
        }
        let wait = Arc::clone(&wait);
        Reply::Take(Box::new(move |mut stream: TcpStream| {
            if wait.lock().unwrap().recv().is_ok() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow").unwrap();
            }
        }))
    });
    (upstream, release)
}

/// A connection on which bytes are echoed.
fn websocket(address: SocketAddr) -> TcpStream {
    let mut stream = connect(address);
    write!(stream, "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 101 "));
    stream
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn echoes(stream: &mut TcpStream) {
    stream.write_all(b"through").unwrap();
    let mut bytes = [0; 7];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"through");
}

/// Asks on a connection until the response says that it was the last one: how many responses there were.
fn ask_to_the_last(stream: &mut TcpStream) -> usize {
    let mut responses = 0;
    wait_until("the last response", || {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let (head, body) = read_response(stream);
        assert!(head.starts_with("HTTP/1.1 200 ") && body == b"ok", "{head}");
        responses += 1;
        head.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
    });
    responses
}

/// Requests on a connection each until told to stop: how many were answered. Fails if one is not.
fn load(address: SocketAddr, stop: &AtomicBool) -> usize {
    let mut served = 0;
    while !stop.load(Ordering::Relaxed) {
        let response = get(address);
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nok"), "{served}: {response:?}");
        served += 1;
    }
    served
}

/// With another number of workers each time, so that sockets are more, fewer and as many as workers.
#[test]
fn through_three_upgrades_nobody_is_refused_and_nothing_is_lost() {
    let (upstream, release) = upstream();
    let with = |workers: usize| {
        let both = "[\"127.0.0.1:0\", \"unix:edge.sock\"]";
        let text = yaml(&upstream, "", "limits: { drain_timeout: 1h }").replace("\"127.0.0.1:0\"", both);
        let text = text.replace("upstream: app }", "upstream: app, upgrades: [websocket] }");
        let text = text.replace("app: { ", "app: { response_header_timeout: 1h, ");
        text.replace("workers: 1", &format!("workers: {workers}"))
    };
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &with(2), 2);
    let address = site.gate.address("web");
    let mut slow = connect(address);
    write!(slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the request upstream", || upstream.seen().len() == 1);
    let mut tunnel = websocket(address);
    let mut kept = connect(address);
    kept.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    read_response(&mut kept);
    let (before, mut asked) = (upstream.seen().len(), 0);
    let (stop, socket) = (AtomicBool::new(false), site.dir().join("edge.sock"));
    let served: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| load(address, &stop))).collect();
        let over_unix = scope.spawn(|| {
            let mut served = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut stream = connect_unix(&socket);
                stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
                assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 200 "), "after {served}");
                served += 1;
            }
            served
        });
        // Whatever fails below, the others are to end.
        let upgraded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for workers in [3, 1, 2] {
                std::fs::write(site.dir().join("portunus.yaml"), with(workers)).unwrap();
                site.upgrade();
                // An idle connection to the first process is waited for 10 s at most.
                if asked == 0 {
                    asked = ask_to_the_last(&mut kept);
                }
                let seen = upstream.seen().len();
                wait_until("some requests more", || upstream.seen().len() > seen + 50);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        let served = clients.into_iter().chain([over_unix]).map(|client| client.join().unwrap()).sum();
        upgraded.unwrap();
        served
    });
    assert_eq!(upstream.seen().len() - before, served + asked, "each request once");
    // What the first process began goes on there, and ends there.
    echoes(&mut tunnel);
    release.send(()).unwrap();
    assert_eq!(read_response(&mut slow).1, b"slow");
    assert!(is_alive(site.gate.pid()), "it has a tunnel");
    drop((tunnel, slow));
    wait_until("the first process to end", || !is_alive(site.gate.pid()));
    assert_eq!(site.gate.running_exit(), Some(0));
    assert!(site.dir().join("edge.sock").exists(), "the file stays with the socket");
    assert!(ask(site.gate.address("admin"), "GET /readyz", "Host: localhost\r\n").starts_with("HTTP/1.1 200 "));
    site.end();
}

/// Listeners that come and go with the configuration that the new process reads.
#[test]
fn the_new_process_binds_what_is_new_and_closes_what_is_gone() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "", "").replace("\"127.0.0.1:0\"", "[\"127.0.0.1:0\", \"unix:old.sock\"]");
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &text, 2);
    let free = vacant();
    write(site.dir(), &text.replace("\"unix:old.sock\"", &format!("\"{free}\", \"unix:new.sock\"")));
    site.upgrade();
    assert!(get(free).starts_with("HTTP/1.1 200 ") && get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    assert!(!site.dir().join("old.sock").exists() && site.dir().join("new.sock").exists());
    let socket = site.dir().join("new.sock");
    let dir = std::mem::replace(&mut site.gate.dir, tempfile::tempdir().unwrap());
    site.end();
    assert!(!socket.exists(), "what the last process bound goes with it");
    drop(dir);
}

#[test]
fn a_program_that_cannot_serve_leaves_the_old_one_serving() {
    let upstream = Upstream::ok();
    // For one that could serve, also on a busy machine, and for one that could not.
    let [text, short] =
        ["10m", "2s"].map(|time| yaml(&upstream, "", &format!("limits: {{ upgrade_timeout: {time} }}")));
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &text, 2);
    let check = |site: &mut Upgradable, what: &str, expected: &[&str]| {
        let said = site.try_upgrade().expect_err(what);
        for part in expected.iter().chain(&["error: upgrade failed; the running process goes on"]) {
            assert!(said.contains(part), "{what}: {part} is missing in {said}");
        }
        assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "), "{what}");
        let ready = ask(site.gate.address("admin"), "GET /readyz", "Host: localhost\r\n");
        assert!(ready.starts_with("HTTP/1.1 200 "), "{what}: {ready}");
    };
    site.replace_program("exit 3");
    check(&mut site, "it ends at once", &["before it served (exit status: 3)"]);
    site.replace_program("kill -9 $$");
    check(&mut site, "it is killed", &["before it served (signal: 9"]);
    site.replace_program("exec sleep 1000");
    write(site.dir(), &short);
    assert_eq!(site.try_reload(), Ok(()));
    check(&mut site, "it hangs", &["did not serve within 2 s", "limits.upgrade_timeout"]);
    write(site.dir(), &text);
    assert_eq!(site.try_reload(), Ok(()));
    site.replace_program("echo nonsense >&0; exec sleep 1000");
    check(&mut site, "it is another program", &["what this version does not understand"]);
    std::fs::remove_file(site.dir().join("portunus")).unwrap();
    check(&mut site, "it is gone", &["cannot be started: No such file"]);
    site.restore_program();
    write(site.dir(), &text.replace("upstream: app", "upstream: other"));
    check(&mut site, "its configuration is wrong", &["portunus.yaml:", "other"]);
    let other = TcpListener::bind("127.0.0.8:0").unwrap();
    let taken = format!("\"{}\"", other.local_addr().unwrap());
    write(site.dir(), &text.replace("\"127.0.0.1:0\"", &format!("[\"127.0.0.1:0\", {taken}]")));
    check(&mut site, "an address is taken", &["another program has it"]);
    write(site.dir(), &text);
    site.upgrade();
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    site.end();
}

/// A program that waits for a line on the pipe `gate.fifo` before it is the real one.
fn slow_program(site: &Upgradable) {
    let fifo = site.dir().join("gate.fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    site.replace_program(&format!(
        "echo $$ > {0}/child.pid; read line < {0}/gate.fifo; exec {PORTUNUS} \"$@\"",
        site.dir().display()
    ));
}

/// Lets the slow program go on. What this gives is kept until it has: the line would go with it.
fn let_go(site: &Upgradable) -> File {
    // For reading, too: to open a pipe for writing alone waits for a reader, which may be dead.
    let mut pipe = OpenOptions::new().read(true).write(true).open(site.dir().join("gate.fifo")).unwrap();
    pipe.write_all(b"go\n").unwrap();
    pipe
}

/// The process that an upgrade under way has started.
fn child(site: &Upgradable) -> u32 {
    let file = site.dir().join("child.pid");
    let read = || std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    wait_until("the new process", || read().is_some());
    read().unwrap()
}

fn begin_upgrade(site: &Upgradable) -> std::process::Child {
    Command::new(PORTUNUS)
        .args(["upgrade", "--control"])
        .arg(site.control())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

fn said(child: std::process::Child) -> String {
    String::from_utf8(output_of(child).stderr).unwrap()
}

#[test]
fn there_is_one_upgrade_at_a_time_and_kill_9_of_the_new_process_ends_it() {
    let upstream = Upstream::ok();
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", ""), 2);
    slow_program(&site);
    let first = begin_upgrade(&site);
    let new = child(&site);
    assert!(site.try_upgrade().unwrap_err().contains("another upgrade is under way"));
    assert!(kill("KILL", new));
    let said = said(first);
    assert!(said.contains("before it served (signal: 9"), "{said}");
    site.restore_program();
    site.upgrade();
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    site.end();
}

/// The new process has been given what was said before: what is said now would be lost with this one.
#[test]
fn what_operators_change_during_an_upgrade_is_rejected_and_not_lost() {
    let upstream = Upstream::ok();
    let site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", ""), 2);
    let server = upstream.address.to_string();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PORTUNUS);
        let output = command.args(arguments).arg("--control").arg(site.control()).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    slow_program(&site);
    let asked = begin_upgrade(&site);
    let new = child(&site);
    for arguments in
        [&["drain", &server][..], &["drain", "--undo", &server], &["weight", &server, "5"], &["maintenance", "on"]]
    {
        let (done, said) = run(arguments);
        assert!(!done && said.contains("an upgrade is under way; try again when it is over"), "{arguments:?}: {said}");
    }
    let body = format!("{{\"server\":\"{server}\",\"drained\":true}}");
    let mut stream = connect_unix(&site.control());
    write!(
        stream,
        "POST /api/v1/drain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let response = String::from_utf8(read_to_end(&mut stream)).unwrap();
    assert!(response.starts_with("HTTP/1.1 409 "), "{response}");
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "), "nothing was changed");
    // It ends with this process anyway, and one may want to see more of the upgrade.
    assert_eq!(run(&["log-level", "debug"]), (true, String::new()));
    assert!(kill("KILL", new));
    assert!(said(asked).contains("upgrade failed"));
    assert_eq!(run(&["drain", &server]), (true, String::new()));
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 503 "));
    site.end();
}

/// A listener `web` at these addresses beside its own.
fn listening_too(text: &str, more: &str) -> String {
    text.replace("\"127.0.0.1:0\"", &format!("[\"127.0.0.1:0\", {more}]"))
}

#[test]
fn what_asks_for_a_reload_waits_for_the_end_of_an_upgrade_that_fails() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "", "sandbox: { connect: . }");
    let site = Upgradable::start(tempfile::tempdir().unwrap(), &text, 2);
    slow_program(&site);
    let asked = begin_upgrade(&site);
    let new = child(&site);
    write(site.dir(), &listening_too(&text, "\"unix:new.sock\""));
    site.gate.signal("HUP");
    let rejected = site.try_reload().unwrap_err();
    assert!(rejected.contains("an upgrade is under way; reload again when it is over"), "{rejected}");
    assert!(rejected.ends_with("error: reload rejected; the active configuration stays\n"), "{rejected}");
    assert!(!site.dir().join("new.sock").exists());
    assert!(kill("KILL", new));
    assert!(said(asked).contains("upgrade failed"));
    site.gate.wait_for("\"generation\":2,\"reason\":\"SIGHUP\"");
    assert!(site.dir().join("new.sock").exists());
    assert_eq!(site.try_reload(), Ok(()), "there is nothing left of the upgrade");
    site.end();
}

/// The new process has read the file and waits for the old one when the file changes and the old one is asked to reload.
#[test]
fn a_reload_asked_for_during_an_upgrade_falls_to_the_process_that_serves_afterwards() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "", "");
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &text, 2);
    slow_program(&site);
    write(site.dir(), &listening_too(&text, "\"unix:read.sock\""));
    let asked = begin_upgrade(&site);
    let new = child(&site);
    site.successors.push(Successor(new));
    site.gate.wait_for("has been given everything");
    site.gate.signal("STOP");
    let _pipe = let_go(&site);
    wait_until("the new process to have read the file", || site.dir().join("read.sock").exists());
    let free = vacant();
    write(site.dir(), &listening_too(&text, &format!("\"unix:read.sock\", \"{free}\"")));
    site.gate.signal("HUP");
    site.gate.signal("CONT");
    assert_eq!(said(asked), "");
    wait_until("the old process to end", || !is_alive(site.gate.pid()));
    wait_until("the listener of the file as it is now", || TcpStream::connect(free).is_ok());
    assert!(get(free).starts_with("HTTP/1.1 200 ") && get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    site.end();
}

/// As systemd reads it (sd_notify(3)): a RELOADING without a READY would be a reload that hangs.
#[test]
fn a_program_that_cannot_be_started_is_reported_and_the_service_is_ready_again() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    let notify = dir.path().join("notify.sock");
    let inbox = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    inbox.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = || {
        let mut message = [0; 4096];
        let count = inbox.recv(&mut message).unwrap();
        String::from_utf8(message[..count].to_vec()).unwrap()
    };
    let mut site = Upgradable::start_with(dir, &yaml(&upstream, "", ""), 2, &[("NOTIFY_SOCKET", &notify)]);
    assert!(next().starts_with("READY=1\n"));
    let program = site.dir().join("portunus");
    let spoilt: [&dyn Fn(); 2] =
        [&|| std::fs::remove_file(&program).unwrap(), &|| std::fs::write(&program, "no program").unwrap()];
    for (index, spoil) in spoilt.iter().enumerate() {
        spoil();
        let said = site.try_upgrade().unwrap_err();
        assert!(said.contains("cannot be started: "), "{said}");
        assert!(next().starts_with("RELOADING=1\n"));
        let ready = next();
        assert!(ready.starts_with("READY=1\nSTATUS=serving, configuration 1; the last upgrade failed: "), "{ready}");
        assert!(ready.contains("cannot be started: "), "{ready}");
        let reported = || site.gate.diagnostics().iter().filter(|line| line.contains("upgrade failed, this")).count();
        wait_until("the log to say so", || reported() == index + 1);
    }
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    site.end();
}

/// The process that starts the program again may be stopped or starved: whoever asks for an upgrade waits for it, and nobody else.
#[test]
fn a_launcher_that_hangs_keeps_the_gate_from_nothing() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    let notify = dir.path().join("notify.sock");
    let inbox = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    inbox.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut site = Upgradable::start_with(dir, &yaml(&upstream, "", ""), 2, &[("NOTIFY_SOCKET", &notify)]);
    let launcher = launcher_of(site.gate.pid());
    assert!(kill("STOP", launcher));
    let mut asked = begin_upgrade(&site);
    let mut message = [0; 4096];
    wait_until("the upgrade to have begun", || {
        let count = inbox.recv(&mut message).unwrap();
        message[..count].starts_with(b"RELOADING=1")
    });
    get(site.gate.address("web"));
    site.gate.log(1);
    let log = site.dir().join("access.log");
    std::fs::rename(&log, site.dir().join("access.log.1")).unwrap();
    site.gate.signal("USR1");
    // Where there is a sandbox, no file is made beside the configuration.
    let is_rejected = || site.gate.diagnostics().iter().any(|line| line.contains("ermission denied"));
    wait_until("the signal to be heard", || log.exists() || is_rejected());
    assert!(asked.try_wait().unwrap().is_none(), "the launcher is still waited for");
    assert!(kill("CONT", launcher));
    assert_eq!(said(asked), "");
    let started = "upgrade: the new process is started";
    site.gate.wait_for(started);
    let lines = site.gate.diagnostics();
    let line: serde_json::Value =
        serde_json::from_str(lines.iter().find(|line| line.contains(started)).unwrap()).unwrap();
    site.successors.push(Successor(line["pid"].as_u64().unwrap().try_into().unwrap()));
    site.end();
}

#[test]
fn a_shutdown_ends_the_upgrade_under_way() {
    let upstream = Upstream::ok();
    let site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", ""), 2);
    slow_program(&site);
    let first = begin_upgrade(&site);
    let new = child(&site);
    site.gate.signal("TERM");
    assert!(said(first).contains("the server shuts down"));
    wait_until("the new process to end", || !is_alive(new));
    assert_eq!(site.gate.stop(), Some(0));
}

/// Connections that come meanwhile wait in the sockets, which the new process has already.
#[test]
fn kill_9_of_the_old_process_makes_the_new_one_its_heir() {
    let upstream = Upstream::ok();
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", ""), 2);
    let address = site.gate.address("web");
    slow_program(&site);
    let asked = begin_upgrade(&site);
    let new = child(&site);
    site.successors.push(Successor(new));
    site.gate.wait_for("has been given everything");
    site.gate.signal("KILL");
    wait_until("the old process to end", || !is_alive(site.gate.pid()));
    let mut waiting = connect(address);
    waiting.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let _pipe = let_go(&site);
    assert!(String::from_utf8(read_to_end(&mut waiting)).unwrap().starts_with("HTTP/1.1 200 "));
    assert!(get(address).starts_with("HTTP/1.1 200 "));
    assert!(said(asked).contains("cannot ask the server"), "nobody was there to say what came of it");
    let again = site.upgrade();
    assert_ne!(again, new);
    assert!(get(address).starts_with("HTTP/1.1 200 "));
    site.end();
}

/// The number of the socket by which a process that was just started for an upgrade talks with the old one: its standard input.
fn channel_of(new: u32) -> String {
    let socket = std::fs::read_link(format!("/proc/{new}/fd/0")).unwrap().to_string_lossy().into_owned();
    socket.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')).unwrap().to_owned()
}

/// Whether something lies at an end of a channel that was not read, which a stopped process does not: the end of this number, or the other one.
fn has_unread(channel: &str, is_other: bool) -> bool {
    let output = Command::new("ss").args(["--unix", "--no-header"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Kind, state, bytes that were not read and not sent, name and number of this end, and of the other.
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found: Vec<_> = lines.filter(|line| line.get(if is_other { 7 } else { 5 }) == Some(&channel)).collect();
    assert!(found.len() <= 1, "{found:?}");
    found.iter().any(|line| line[2] != "0")
}

/// Held at its last word, which the old process has not heard: that one is stopped meanwhile.
#[test]
fn kill_9_of_a_new_process_whose_last_word_was_not_heard_leaves_the_old_one_serving() {
    let upstream = Upstream::ok();
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", ""), 2);
    slow_program(&site);
    let asked = begin_upgrade(&site);
    let new = child(&site);
    let channel = channel_of(new);
    site.gate.wait_for("has been given everything");
    site.gate.signal("STOP");
    let _pipe = let_go(&site);
    let said = |site: &Upgradable, word: &str| site.gate.diagnostics().iter().filter(|l| l.contains(word)).count();
    wait_until("the new process to be ready", || said(&site, "waits for leave to serve") == 1);
    wait_until("the old one to be sent that", || has_unread(&channel, true));
    let listening = said(&site, "admin listening");
    kill("STOP", new);
    site.gate.signal("CONT");
    // It is allowed to serve now, and reads that when it goes on, while the old one is stopped.
    let response = get(site.gate.address("web"));
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    wait_until("leave to be sent", || has_unread(&channel, false));
    site.gate.signal("STOP");
    kill("CONT", new);
    wait_until("the new process to serve", || said(&site, "admin listening") > listening);
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "), "the new one accepts");
    assert!(kill("KILL", new));
    wait_until("the new process to end", || !is_alive(new));
    site.gate.signal("CONT");
    let problem = self::said(asked);
    assert!(problem.contains("before it served (signal: 9"), "{problem}");
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    site.restore_program();
    site.upgrade();
    site.end();
}

#[test]
fn without_its_launcher_a_gate_serves_and_says_that_it_cannot_be_upgraded() {
    let upstream = Upstream::ok();
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", ""), 2);
    assert!(kill("KILL", launcher_of(site.gate.pid())));
    site.gate.wait_for("the process that starts the program again (portunus-launch) has ended");
    let problem = site.try_upgrade().unwrap_err();
    assert!(problem.contains("there can be no upgrade; restart instead"), "{problem}");
    assert!(problem.ends_with("error: upgrade failed; the running process goes on\n"), "{problem}");
    assert_eq!(site.try_reload(), Ok(()));
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    let count = || site.gate.diagnostics().iter().filter(|line| line.contains("(portunus-launch) has ended")).count();
    // Once for its end, and once for the upgrade that failed.
    assert!(count() <= 2, "{:#?}", site.gate.diagnostics());
    site.end();
}

/// What would else end it has ended itself, and the end of its channel would mean that the old process is dead.
#[test]
fn a_new_process_that_was_given_up_ends_even_where_nobody_can_end_it() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "", "limits: { upgrade_timeout: 20s }");
    let site = Upgradable::start(tempfile::tempdir().unwrap(), &text, 2);
    slow_program(&site);
    let asked = begin_upgrade(&site);
    let new = child(&site);
    site.gate.wait_for("has been given everything");
    assert!(kill("KILL", launcher_of(site.gate.pid())));
    let problem = said(asked);
    assert!(problem.contains("did not serve within 20 s"), "{problem}");
    assert!(is_alive(new), "nobody can end it");
    let _pipe = let_go(&site);
    wait_until("the new process to end", || !is_alive(new));
    site.gate.wait_for("the running process has given the upgrade up");
    assert!(get(site.gate.address("web")).starts_with("HTTP/1.1 200 "));
    site.end();
}

/// More workers have sockets of their own, but only when they serve: who is given to one by the kernel would wait for a process that may come to nothing.
#[test]
fn nobody_waits_for_a_new_process_that_does_not_serve() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "", "limits: { upgrade_timeout: 10m }");
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &text, 2);
    let address = site.gate.address("web");
    // An address that is taken is found out last, when those before it are ready.
    let other = TcpListener::bind("127.0.0.8:0").unwrap();
    let taken = format!("[\"127.0.0.1:0\", \"{}\"]", other.local_addr().unwrap());
    write(site.dir(), &text.replace("\"127.0.0.1:0\"", &taken).replace("workers: 1", "workers: 16"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| load(address, &stop))).collect();
        let ended = StopOnDrop(&stop);
        let said: Vec<_> = (0..10).map(|_| site.try_upgrade()).collect();
        drop(ended);
        assert!(clients.into_iter().all(|client| client.join().unwrap() > 0));
        assert!(
            said.iter().all(|said| said.as_ref().is_err_and(|said| said.contains("another program has it"))),
            "{said:?}"
        );
    });
    site.end();
}

#[test]
fn an_upgrade_is_asked_for_on_unix_sockets_only() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "0123456789abcdef").unwrap();
    let text = yaml(&upstream, "", "").replace("\"127.0.0.2:0\"", "\"127.0.0.2:0\", token: { file: token }");
    let gate = Gate::start_in(dir, &text);
    let fields = "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\nContent-Length: 0\r\n";
    assert!(ask(gate.address("admin"), "GET /config", fields).starts_with("HTTP/1.1 200 "));
    let response = ask(gate.address("admin"), "POST /upgrade", fields);
    assert!(response.starts_with("HTTP/1.1 403 ") && response.contains("Unix socket of the server"), "{response}");
    // The mark alone is not believed: standard input must lead to the process.
    let output = Command::new(PORTUNUS)
        .args(["run", &path(&gate.dir, "portunus.yaml")])
        .env("PORTUNUS_UPGRADE", "stdin")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("PORTUNUS_UPGRADE is set") && said.contains("unset it"),
        "{said}"
    );
    assert_eq!(gate.stop(), Some(0));
}

/// A client's datagram goes to an application, which responds when the test says so.
#[test]
fn responses_to_datagrams_of_the_old_process_still_come_and_new_ones_go_to_the_new() {
    let application = UdpSocket::bind("127.0.0.6:0").unwrap();
    application.set_read_timeout(Some(PATIENCE)).unwrap();
    let upstream = Upstream::ok();
    let target = application.local_addr().unwrap();
    let udp = format!("udp_listeners:\n  - {{ name: dns, bind: \"127.0.0.5:0\", upstream: \"{target}\" }}\n");
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", &udp), 3);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(site.gate.address("dns")).unwrap();
    let mut bytes = [0; 16];
    let arrives = |expected: &[u8]| {
        let mut bytes = [0; 16];
        let (count, from) = application.recv_from(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], expected);
        from
    };
    client.send(b"first").unwrap();
    let first_flow = arrives(b"first");
    site.upgrade();
    application.send_to(b"late", first_flow).unwrap();
    let count = client.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"late", "by the way that the question came");
    client.send(b"second").unwrap();
    let second_flow = arrives(b"second");
    application.send_to(b"reply", second_flow).unwrap();
    let count = client.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"reply");
    site.end();
}

/// Lines that processes of an upgrade leave in one file.
#[test]
fn both_processes_write_whole_lines_to_one_log() {
    let upstream = Upstream::ok();
    let mut site = Upgradable::start(tempfile::tempdir().unwrap(), &yaml(&upstream, "", ""), 2);
    let address = site.gate.address("web");
    for _ in 0..3 {
        get(address);
        site.upgrade();
    }
    get(address);
    let file = site.dir().join("access.log");
    let lines = || BufReader::new(File::open(&file).unwrap()).lines().map_while(Result::ok).collect::<Vec<_>>();
    wait_until("four lines", || lines().len() == 4);
    assert!(lines().iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{:?}", lines());
    site.end();
}
