//! Under a service manager: sockets that it passes, what it is told, and its watchdog.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::{get, yaml};
use crate::harness::{
    Gate, PATIENCE, PORTUNUS, Running, Upstream, connect_unix, end_of, member, output_of, wait_until,
};

/// A command that runs the program with these sockets from descriptor 3 on, as a service manager passes them: there are two at the most.
fn activated(sockets: Vec<OwnedFd>, names: &str, arguments: &[&str]) -> Command {
    let count = sockets.len();
    // A shell can move descriptors, and knows its own number, which stays.
    let moved = ["", "3<&0", "3<&0 4<&1"][count];
    let script = format!("LISTEN_PID=$$ exec \"$@\" {moved} 0</dev/null 1>/dev/null");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", PORTUNUS]).args(arguments);
    command.env("LISTEN_FDS", count.to_string()).env("LISTEN_FDNAMES", names);
    let mut sockets = sockets.into_iter();
    command.stdin(sockets.next().map_or_else(Stdio::null, Stdio::from));
    command.stdout(sockets.next().map_or_else(Stdio::null, Stdio::from));
    command.stderr(Stdio::piped());
    command
}

fn site(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    dir
}

fn run_arguments(dir: &tempfile::TempDir) -> [String; 2] {
    ["run".to_owned(), dir.path().join("portunus.yaml").display().to_string()]
}

fn start(dir: &tempfile::TempDir, sockets: Vec<OwnedFd>, names: &str) -> Running {
    let arguments = run_arguments(dir);
    let mut command = activated(sockets, names, &[&arguments[0], &arguments[1]]);
    Running::start_as_is(&mut command, |event| member(event, "message") == Some("admin listening"))
}

/// What it says when it does not start.
fn fails(text: &str, sockets: Vec<OwnedFd>, names: &str) -> String {
    let dir = site(text);
    let arguments = run_arguments(&dir);
    let output = output_of(activated(sockets, names, &[&arguments[0], &arguments[1]]).spawn().unwrap());
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn passed_sockets_serve_and_stay_for_the_next_process() {
    let upstream = Upstream::ok();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edge.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let binds = format!("[\"{address}\", \"unix:{}\"]", path.display());
    let text = yaml(&upstream, "", "").replace("\"127.0.0.1:0\"", &binds).replace("workers: 1", "workers: 2");
    let dir = site(&text);
    let sockets = || vec![OwnedFd::from(tcp.try_clone().unwrap()), OwnedFd::from(unix.try_clone().unwrap())];
    for _ in 0..2 {
        let mut running = start(&dir, sockets(), "web:local");
        for _ in 0..8 {
            assert!(get(address).starts_with("HTTP/1.1 200 "));
        }
        let mut stream = connect_unix(&path);
        std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        assert!(crate::harness::read_response(&mut stream).0.starts_with("HTTP/1.1 200 "));
        running.signal("TERM");
        assert_eq!(end_of(&mut running.child).code(), Some(0), "{:#?}", running.diagnostics());
        assert!(path.exists(), "the file belongs to the service manager");
    }
    // Nobody serves, and nobody is refused: the next process finds those who wait.
    let waiting = std::thread::spawn(move || get(address));
    let _running = start(&dir, sockets(), "");
    assert!(waiting.join().unwrap().starts_with("HTTP/1.1 200 "));
}

/// By systemd's own program, as a `.socket` unit would: the first connection starts ours, and the socket outlives it.
#[test]
fn systemd_starts_it_by_the_first_connection() {
    const PROGRAM: &str = "systemd-socket-activate";
    if Command::new(PROGRAM).arg("--version").output().is_err() {
        eprintln!("skipped: no {PROGRAM} (Debian package systemd)");
        return;
    }
    let upstream = Upstream::ok();
    let address = crate::harness::vacant();
    let text = yaml(&upstream, "", "sandbox: on").replace("127.0.0.1:0", &address.to_string());
    let dir = site(&text);
    let arguments = run_arguments(&dir);
    let mut command = Command::new(PROGRAM);
    command.arg(format!("--listen={address}")).arg("--fdname=web").arg(PORTUNUS).args(&arguments);
    for _ in 0..2 {
        let mut waiting = None;
        // It says where it listens before anybody has connected, and then becomes ours.
        let mut running = Running::start(&mut command, |event| {
            if waiting.is_none() {
                waiting = Some(std::thread::spawn(move || {
                    wait_until("systemd's socket", || std::net::TcpStream::connect(address).is_ok());
                    get(address)
                }));
            }
            member(event, "message") == Some("admin listening")
        });
        assert!(waiting.unwrap().join().unwrap().starts_with("HTTP/1.1 200 "));
        assert!(get(address).starts_with("HTTP/1.1 200 "));
        assert!(running.diagnostics().iter().any(|line| line.contains(&address.to_string())));
        running.signal("TERM");
        assert_eq!(end_of(&mut running.child).code(), Some(0), "{:#?}", running.diagnostics());
    }
}

#[test]
fn a_passed_udp_socket_has_one_reader() {
    let upstream = Upstream::ok();
    let application = UdpSocket::bind("127.0.0.6:0").unwrap();
    application.set_read_timeout(Some(PATIENCE)).unwrap();
    let udp = UdpSocket::bind("127.0.0.5:0").unwrap();
    let address = udp.local_addr().unwrap();
    let target = application.local_addr().unwrap();
    let listener = format!("udp_listeners:\n  - {{ name: dns, bind: \"{address}\", upstream: \"{target}\" }}\n");
    let dir = site(&yaml(&upstream, "", &listener).replace("workers: 1", "workers: 2"));
    let _running = start(&dir, vec![OwnedFd::from(udp)], "dns");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(address).unwrap();
    let mut flows = std::collections::BTreeSet::new();
    for _ in 0..20 {
        client.send(b"datagram").unwrap();
        flows.insert(application.recv_from(&mut [0; 16]).unwrap().1);
    }
    assert_eq!(flows.len(), 1, "one client is one flow: {flows:?}");
}

#[test]
fn what_is_passed_and_not_wanted_is_an_error_that_says_what_to_fix() {
    let upstream = Upstream::ok();
    let text = yaml(&upstream, "", "");
    let tcp = || TcpListener::bind("127.0.0.1:0").unwrap();
    let unmatched = tcp();
    let address = unmatched.local_addr().unwrap();
    let said = fails(&text, vec![unmatched.into()], "web");
    assert!(
        said.contains(&format!("descriptor 3 (`web`) is bound to {address}, and no listener has that address")),
        "{said}"
    );
    assert!(said.contains("ListenStream="), "{said}");
    // Right address, wrong type. The program binds the TCP port, so the address is one where nothing else takes ports.
    let udp = UdpSocket::bind("127.0.0.77:0").unwrap();
    let wanted = text.replace("127.0.0.1:0", &udp.local_addr().unwrap().to_string());
    let said = fails(&wanted, vec![udp.into()], "");
    assert!(said.contains("descriptor 3 is bound to") && said.contains("no udp_listener has that address"), "{said}");
    let listener = tcp();
    let connection = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let said = fails(&text, vec![connection.into()], "");
    assert!(said.contains("Accept=no"), "{said}");
    let file = std::fs::File::open("/dev/null").unwrap();
    let said = fails(&text, vec![tcp().into(), file.into()], "a:b");
    assert!(said.contains("descriptor 4 (`b`) is no socket"), "{said}");
    // Meant for another process: not looked at.
    let dir = site(&text);
    let mut command = Command::new(PORTUNUS);
    command.args(run_arguments(&dir)).env("LISTEN_FDS", "7").env("LISTEN_PID", "1");
    let running = Running::start(&mut command, |event| member(event, "message") == Some("admin listening"));
    assert!(running.pid() > 1);
}

/// What the service manager is told, message by message.
struct Inbox(Receiver<String>);

impl Inbox {
    /// Reads as messages come: the kernel keeps a few, and who finds no room for another goes without.
    fn of(socket: UnixDatagram) -> Inbox {
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = socket.recv(&mut bytes) {
                if sender.send(String::from_utf8(bytes[..count].to_vec()).unwrap()).is_err() {
                    return;
                }
            }
        });
        Inbox(messages)
    }

    fn next(&self) -> String {
        self.0.recv_timeout(PATIENCE).unwrap()
    }

    /// The next message that is no sign of life.
    fn news(&self) -> String {
        loop {
            let message = self.next();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

#[test]
fn the_manager_gets_signs_of_life_and_learns_who_is_the_main_process() {
    let upstream = Upstream::ok();
    let dir = site(&yaml(&upstream, "", "log: { level: info }"));
    let inbox = Inbox::of(UnixDatagram::bind(dir.path().join("notify.sock")).unwrap());
    let control = dir.path().join("control.sock");
    let mut command = Command::new(PORTUNUS);
    command.args(["run", "--no-watch", "--control"]).arg(&control).arg(dir.path().join("portunus.yaml"));
    command.env("NOTIFY_SOCKET", dir.path().join("notify.sock")).env("WATCHDOG_USEC", "1000000");
    let gate = Gate::start_command(dir, command, 2);
    assert!(inbox.news().starts_with("READY=1\nSTATUS=serving"));
    assert_eq!((inbox.next(), inbox.next()), ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned()));
    let output = Command::new(PORTUNUS).args(["upgrade", "--control"]).arg(&control).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let pid = said.split_whitespace().nth(2).unwrap_or_else(|| panic!("{said}")).to_owned();
    assert!(inbox.news().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    let handed = inbox.news();
    assert!(handed.starts_with(&format!("MAINPID={pid}\nREADY=1\nSTATUS=")), "{handed}");
    // The old process says no more: it is not the main one, and does not stop the service.
    wait_until("the old process to end", || {
        std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).is_ok_and(|status| status.contains("State:\tZ"))
    });
    assert_eq!(inbox.next(), "WATCHDOG=1", "of the new process");
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(inbox.news().starts_with("STOPPING=1\n"));
}
