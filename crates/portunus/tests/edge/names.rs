//! Names of upstreams, before a name server of ours: silent, wrong, denying, and one that turns a name inwards (row 30).
//!
//! The program runs in a mount namespace of its own, in which `/etc/resolv.conf` names that server. This needs root; without it the tests say so
//! and end.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use portunus::command::dev_ca::{DevCa, Purpose};

use crate::client::openssl;
use crate::harness::{Gate, PORTUNUS, Upstream, wait_until};
use crate::{get, yaml};

/// What the server says to a question for an IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// This address, for one second.
    Address(Ipv4Addr),
    /// No such name.
    Denies,
    /// Bytes that are no answer.
    Nonsense,
    Nothing,
}

struct NameServer {
    address: Ipv4Addr,
    says: Arc<Mutex<Says>>,
    /// Questions for IPv4 addresses so far.
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    /// On port 53 of a loopback address that nobody else has; none without the right to do so.
    fn start(says: Says) -> Option<NameServer> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let address = Ipv4Addr::new(127, 53 + NEXT.fetch_add(1, Ordering::Relaxed) as u8, high, low | 1);
        let socket = match UdpSocket::bind((address, 53)) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                eprintln!("skipped: a name server on port 53 needs root");
                return None;
            }
            bound => bound.unwrap(),
        };
        let server = NameServer { address, says: Arc::new(Mutex::new(says)), asked: Arc::default() };
        let (says, asked) = (Arc::clone(&server.says), Arc::clone(&server.asked));
        std::thread::spawn(move || {
            let mut bytes = [0; 1500];
            while let Ok((count, from)) = socket.recv_from(&mut bytes) {
                let says = *says.lock().unwrap();
                if let Some(answer) = answer(&bytes[..count], says, &asked) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Some(server)
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    /// Waits until it was asked again so many times.
    fn wait_for_questions(&self, more: usize) {
        let before = self.asked.load(Ordering::Relaxed);
        wait_until("the name to be asked for again", || self.asked.load(Ordering::Relaxed) >= before + more);
    }

    /// The program, in a mount namespace in which this is the name server.
    fn command(&self, dir: &Path) -> Command {
        let file = dir.join("resolv.conf");
        std::fs::write(&file, format!("nameserver {}\noptions timeout:1 attempts:1\n", self.address)).unwrap();
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        command.args(["--mount", "--", "sh", "-c", script, "sh"]).arg(file).arg(PORTUNUS);
        command
    }
}

/// The answer to a question (RFC 1035 §4).
fn answer(question: &[u8], says: Says, asked: &AtomicUsize) -> Option<Vec<u8>> {
    let name_end = 12 + question.get(12..)?.iter().position(|octet| *octet == 0)? + 1;
    let is_ipv4 = question.get(name_end..name_end + 2)? == [0, 1];
    asked.fetch_add(usize::from(is_ipv4), Ordering::Relaxed);
    let (code, answers) = match says {
        Says::Nothing => return None,
        Says::Nonsense => return Some(b"\xff\xffthis is no answer".to_vec()),
        Says::Denies => (3, 0),
        Says::Address(_) => (0, u8::from(is_ipv4)),
    };
    let mut bytes = question[..2].to_vec();
    bytes.extend([0x81, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0]);
    bytes.extend(&question[12..name_end + 4]);
    if let (Says::Address(address), 1) = (says, answers) {
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        bytes.extend(address.octets());
    }
    Some(bytes)
}

#[test]
fn the_last_good_addresses_are_used_whatever_the_name_server_says() {
    let Some(server) = NameServer::start(Says::Nothing) else { return };
    let upstream = Upstream::ok();
    let app = format!("app.test:{}", upstream.address.port());
    let config = yaml(&upstream, "", "").replace(&upstream.address.to_string(), &app);
    let config = config.replace("upstreams:\n  app: { ", "upstreams:\n  app: { connect_timeout: 1s, ");
    let dir = tempfile::tempdir().unwrap();
    let command = server.command(dir.path());
    let gate = Gate::start_by(dir, &config, command);
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 502 "), "nobody has said where it is");
    assert_eq!(gate.log(1)[0]["reason"], "upstream_unresolved");
    server.say(Says::Address(upstream.address.ip().to_string().parse().unwrap()));
    wait_until("the address", || get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    for says in [Says::Nothing, Says::Denies, Says::Nonsense, Says::Denies] {
        server.say(says);
        server.wait_for_questions(2);
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "), "{says:?}");
    }
    // One that moves is followed. Nobody listens there.
    server.say(Says::Address(Ipv4Addr::new(127, 0, 0, 99)));
    wait_until("the new address", || get(gate.address("web")).starts_with("HTTP/1.1 502 "));
    server.say(Says::Address(Ipv4Addr::LOCALHOST));
    wait_until("the old one", || get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    assert_eq!(gate.stop(), Some(0));
}

/// A folder with a keystore and routes as SillyProxy has them, made with its own arguments.
fn sillyproxy_folder(routes: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let pair = DevCa::new("Test CA").unwrap().issue(&["a.example"], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
    std::fs::write(dir.path().join("c.pem"), pair.certificate_pem).unwrap();
    std::fs::write(dir.path().join("k.pem"), pair.key_pem.as_bytes()).unwrap();
    std::fs::write(dir.path().join("routes.json"), routes).unwrap();
    let arguments =
        "as sillyproxy -keystore ks.jks -keypass geheim1 -hostname default -pemCert c.pem -pemKey k.pem KeyStore";
    let made = Command::new(PORTUNUS).args(arguments.split(' ')).current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    dir
}

const SILLYPROXY: &str =
    "as sillyproxy -minTLSVer=3 -keystore ks.jks -keypass geheim1 -bind 127.0.0.1:0 -routes routes.json";

#[test]
fn a_name_made_by_a_request_cannot_be_turned_inwards() {
    let Some(server) = NameServer::start(Says::Address(Ipv4Addr::new(192, 0, 2, 1))) else { return };
    let inner = Upstream::ok();
    let port = inner.address.port();
    let routes = format!(
        r#"{{"Routes": [{{"Host": "a.example", "MethodPathMaps": [
            {{"Method": "GET", "Path": "/to/:d", "Route": ["http://", 0, ".rebind.test:{port}/inner"]}},
            {{"Method": "GET", "Path": "/ok", "Route": ["http://127.0.0.1:{port}/named"]}},
        ]}}]}}"#
    );
    let dir = sillyproxy_folder(&routes);
    let mut command = server.command(dir.path());
    command.args(SILLYPROXY.split(' '));
    let gate = Gate::start_command(dir, command, 1);
    let address: SocketAddr = gate.address("sillyproxy");
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        openssl(address, "-servername a.example -quiet", &request).status()
    };
    assert_eq!(get("/ok"), Some(200), "what the configuration names may be anywhere");
    let first = get("/to/a");
    assert!(matches!(first, Some(502..=504)), "{first:?}");
    for inwards in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::UNSPECIFIED] {
        server.say(Says::Address(inwards));
        server.wait_for_questions(1);
        for tenant in ["a", "b"] {
            let answer = get(&format!("/to/{tenant}"));
            assert!(matches!(answer, Some(502..=504)), "{inwards} {tenant}: {answer:?}");
        }
    }
    let seen: Vec<_> = inner.seen().iter().map(|request| request.line().to_owned()).collect();
    assert_eq!(seen, ["GET /named HTTP/1.1"]);
    assert_eq!(gate.stop(), Some(0));
}
