//! A certificate authority of our own: Pebble, and the name server that leads it to us.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use keystore::dev_ca::{DevCa, Purpose};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{PORTUNUS, vacant, wait_until};

/// A window for a renewal that has passed.
pub const LONG_AGO: &str = r#"{"suggestedWindow":{"start":"2021-01-01T00:00:00Z","end":"2021-01-02T00:00:00Z"},"explanationURL":"https://ca.example/incident"}"#;

/// Where Pebble is: in `PEBBLE`, or where `./x verify` puts it. None, said, if it is in neither place. Debian's is too old.
pub fn program() -> Option<PathBuf> {
    let said = std::env::var_os("PEBBLE").map(PathBuf::from);
    let tools = Path::new(PORTUNUS).ancestors().nth(2).map(|target| target.join("tools/bin/pebble"));
    let found = said.into_iter().chain(tools).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: no pebble; `./x verify` fetches it with Go");
    }
    found
}

/// An authority that is not started yet: its address is known, so that a gate can be told of it, whose ports it must know.
pub struct Planned {
    program: PathBuf,
    address: SocketAddr,
    management: SocketAddr,
    /// Where the listeners of the gate are. No other test has this address.
    pub gate: IpAddr,
    names: Names,
    settings: Value,
    environment: BTreeMap<String, String>,
    arguments: Vec<&'static str>,
}

/// A running authority.
pub struct Pebble {
    child: Child,
    planned: Planned,
    dir: TempDir,
    ports: (u16, u16),
}

impl Planned {
    /// One whose certificates live for 90 days.
    pub fn new() -> Option<Planned> {
        let program = program()?;
        let settings = json!({
            "retryAfter": { "authz": 0, "order": 0 },
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": { "description": "90 days", "validityPeriod": 90 * 86400 } },
        });
        let environment = [("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let (address, management, gate) = (vacant(), vacant(), vacant().ip());
        Some(Planned {
            program,
            address,
            management,
            gate,
            names: Names::start(gate),
            settings,
            environment,
            arguments: Vec::new(),
        })
    }

    /// The same with this environment variable.
    pub fn with(mut self, name: &str, value: &str) -> Planned {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same, which rejects what future authorities will.
    pub fn strict(mut self) -> Planned {
        self.arguments.push("-strict");
        self
    }

    /// The same, that leads to this gate.
    pub fn beside(mut self, other: &Planned) -> Planned {
        self.gate = other.gate;
        self.names = Names::start(other.gate);
        self
    }

    /// What it is called in logs and metrics.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The same, which asks this name server.
    pub fn asking(mut self, address: SocketAddr) -> Planned {
        self.names.address = address;
        self
    }

    /// Its name server, which has the texts that it is given.
    pub fn texts(&self) -> (SocketAddr, Texts) {
        (self.names.address, Arc::clone(&self.names.texts))
    }

    /// The same with this setting.
    pub fn set(mut self, name: &str, value: Value) -> Planned {
        self.settings[name] = value;
        self
    }

    /// The item of `directory` that names it.
    pub fn directory(&self) -> String {
        format!("{{ url: \"https://{}/dir\", tls: {{ ca: pebble-ca.pem }} }}", self.address)
    }

    /// The same with further settings.
    pub fn directory_with(&self, settings: &str) -> String {
        self.directory().replace(" } }", &format!(" }}, {settings} }}"))
    }

    /// What its clients trust, for the folder of the gate. One authority of all tests of a process.
    pub fn write_ca(dir: &Path) {
        std::fs::write(dir.join("pebble-ca.pem"), ca().certificate_pem()).unwrap();
    }

    /// Starts it. It looks for HTTP and TLS at these ports.
    pub fn start(self, http: u16, tls: u16) -> Pebble {
        let dir = tempfile::tempdir().unwrap();
        let mut pebble = Pebble { child: dummy(), planned: self, dir, ports: (http, tls) };
        pebble.run();
        pebble
    }
}

/// What stands for a process until there is one.
fn dummy() -> Child {
    Command::new("true").spawn().unwrap()
}

/// The authority that vouches for Pebble's own server.
fn ca() -> &'static DevCa {
    static CA: std::sync::OnceLock<DevCa> = std::sync::OnceLock::new();
    CA.get_or_init(|| DevCa::new("Pebble's server").unwrap())
}

impl Pebble {
    fn run(&mut self) {
        let Planned { address, management, .. } = &self.planned;
        let hosts = [address.ip().to_string(), management.ip().to_string()];
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let pair = ca().issue(&hosts, tls::KeyType::Ecdsa, Purpose::Server).unwrap();
        let at = |name: &str| self.dir.path().join(name);
        std::fs::write(at("cert.pem"), &pair.certificate_pem).unwrap();
        std::fs::write(at("key.pem"), pair.key_pem.as_str()).unwrap();
        let mut settings = json!({
            "listenAddress": address.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": at("cert.pem"),
            "privateKey": at("key.pem"),
            "httpPort": self.ports.0,
            "tlsPort": self.ports.1,
        });
        let more = self.planned.settings.as_object().unwrap().clone();
        settings.as_object_mut().unwrap().extend(more);
        std::fs::write(at("pebble.json"), json!({ "pebble": settings }).to_string()).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(at("pebble.log")).unwrap();
        self.child = Command::new(&self.planned.program)
            .arg("-config")
            .arg(at("pebble.json"))
            .args(["-dnsserver", &self.planned.names.address.to_string()])
            .args(&self.planned.arguments)
            .envs(&self.planned.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let addresses = [*address, *management];
        wait_until("pebble to listen", || addresses.iter().all(|address| TcpStream::connect(address).is_ok()));
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("pebble.log")).unwrap_or_default()
    }

    /// What it is called in logs and metrics.
    pub fn host(&self) -> String {
        self.planned.host()
    }

    /// Where it looks for the gate.
    pub fn gate(&self) -> IpAddr {
        self.planned.gate
    }

    /// Asks its management side.
    pub fn manage(&self, path: &str, body: Option<&Value>) -> String {
        let url = format!("https://{}/{path}", self.planned.management);
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--insecure", "--max-time", "60"]);
        if let Some(body) = body {
            command.args(["--data", &body.to_string()]);
        }
        let output = command.arg(url).output().expect("curl is installed (Debian package curl)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Says when the certificate in a PEM text should be renewed: what it responds to the question, whatever that is.
    pub fn suggest(&self, text: &str, response: &str) {
        let certificate = text.split_once("-----BEGIN CERTIFICATE-----").unwrap().1;
        let certificate = format!("-----BEGIN CERTIFICATE-----{certificate}");
        self.manage("set-renewal-info/", Some(&json!({ "Certificate": certificate, "ARIResponse": response })));
    }

    /// Writes the root of what it issues to `ca.pem`, where the clients of the tests look for it.
    pub fn write_root(&self, dir: &Path) {
        std::fs::write(dir.join("ca.pem"), self.manage("roots/0", None)).unwrap();
    }

    /// Ends it, as a crash would, and starts it again: it knows nothing of what was.
    pub fn restart(&mut self) {
        self.stop();
        self.run();
    }

    /// Ends it.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("pebble said: {}", self.log());
        }
    }
}

/// TXT records, by name.
pub type Texts = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// A name server, over TCP, that leads every name to the gate, and has the TXT records that it is given.
pub struct Names {
    address: SocketAddr,
    texts: Texts,
}

impl Names {
    fn start(gate: IpAddr) -> Names {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let names = Names { address: listener.local_addr().unwrap(), texts: Arc::default() };
        let texts = Arc::clone(&names.texts);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let texts = Arc::clone(&texts);
                std::thread::spawn(move || Names::serve(stream, gate, &texts));
            }
        });
        names
    }

    fn serve(mut stream: TcpStream, gate: IpAddr, texts: &Mutex<BTreeMap<String, Vec<String>>>) {
        loop {
            let mut length = [0; 2];
            if stream.read_exact(&mut length).is_err() {
                return;
            }
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            if stream.read_exact(&mut question).is_err() {
                return;
            }
            let response = respond(&question, gate, &texts.lock().unwrap());
            let length = (response.len() as u16).to_be_bytes();
            if stream.write_all(&[&length[..], &response].concat()).is_err() {
                return;
            }
        }
    }
}

/// The response to a question (RFC 1035 §4): the gate's address, texts, or nothing.
fn respond(question: &[u8], gate: IpAddr, texts: &BTreeMap<String, Vec<String>>) -> Vec<u8> {
    let mut name = String::new();
    let mut at = 12;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        name.push_str(&String::from_utf8_lossy(&question[at + 1..end]).to_ascii_lowercase());
        name.push('.');
        at = end;
    }
    let kind = [question[at + 1], question[at + 2]];
    let records: Vec<Vec<u8>> = match kind {
        [0, 1] => match gate {
            IpAddr::V4(address) => vec![address.octets().to_vec()],
            IpAddr::V6(_) => Vec::new(),
        },
        [0, 16] => {
            let found = texts.get(name.trim_end_matches('.')).cloned().unwrap_or_default();
            found.iter().map(|text| [&[text.len() as u8], text.as_bytes()].concat()).collect()
        }
        _ => Vec::new(),
    };
    let mut bytes = question[..2].to_vec();
    bytes.extend([0x85, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    bytes.extend(&question[12..at + 5]);
    for record in records {
        let length = (record.len() as u16).to_be_bytes();
        bytes.extend([&[0xc0, 12], &kind[..], &[0, 1, 0, 0, 0, 1], &length].concat());
        bytes.extend(record);
    }
    bytes
}
