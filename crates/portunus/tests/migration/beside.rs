//! Two proxies before the same upstreams: another program on its configuration, and ours on what `portunus import` makes of it.
//!
//! Texts name what differs between the two: `@web@` and other names of listeners are addresses, `@A@`, `@B@`, `@C@` upstreams, `@dir@` a folder with
//! certificates.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::harness::secure::Secure;
use crate::harness::{Gate, PORTUNUS, Reply, Seen, Upstream, certificates, connect, read_to_end, vacant, wait_until};

/// HTTP, and times that no test meets.
pub const HAPROXY_DEFAULTS: &str =
    "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n";

/// A program under test beside ours; ended with the test.
pub struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both proxies.
pub struct Beside {
    _theirs: Peer,
    ours: Option<Gate>,
    upstreams: Vec<(char, Upstream)>,
    addresses: [BTreeMap<String, SocketAddr>; 2],
    secure: Vec<String>,
    dir: TempDir,
    /// What was printed by the import: the configuration, and what is left out.
    pub printed: Output,
}

/// What came of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub status: u16,
    /// Without scheme and host where they are those of the request.
    pub location: Option<String>,
    /// Which upstream it reached, and what that saw: method, target, Host, and fields that begin with `x-`.
    pub seen: Option<(char, String, String, BTreeMap<String, String>)>,
    /// What the proxy itself says with 200.
    pub body: Option<String>,
    /// Fields of the response that begin with `x-`, and a few others.
    pub fields: BTreeMap<String, String>,
}

/// How another program is started.
pub enum Program {
    Nginx,
    Haproxy,
}

impl Program {
    fn name(&self) -> &'static str {
        match self {
            Program::Nginx => "nginx",
            Program::Haproxy => "haproxy",
        }
    }

    /// The whole file.
    fn whole(&self, text: &str, dir: &Path) -> String {
        match self {
            Program::Nginx => {
                let at = dir.display();
                // What stands behind this mark is `stream`, a dynamic module of Debian's.
                let (http, stream) = text.split_once("@stream@").unwrap_or((text, ""));
                let (load, stream) = match stream.is_empty() {
                    true => ("", String::new()),
                    false => (STREAM_MODULE, format!("stream {{\n{stream}\n}}\n")),
                };
                format!(
                    "{load} daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/nginx.log;\nevents {{}}\nhttp {{\naccess_log off; client_body_temp_path {at}/t1; \
                     proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;\n{http}\n}}\n{stream}"
                )
            }
            Program::Haproxy => text.to_owned(),
        }
    }

    fn command(&self, file: &Path, dir: &Path) -> Command {
        let mut command = Command::new(self.name());
        match self {
            Program::Nginx => command.arg("-p").arg(dir).arg("-c").arg(file),
            Program::Haproxy => command.args(["-db", "-f"]).arg(file),
        };
        command
    }
}

/// Debian's package `libnginx-mod-stream`.
const STREAM_MODULE: &str = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;";

/// A request for a path of a host.
pub fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\nHost: {host}")
}

/// Texts in place of names.
fn filled(text: &str, names: &[(String, String)]) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

impl Beside {
    /// Starts nginx on these servers, with one listener, `@web@`.
    pub fn nginx(text: &str) -> Beside {
        Beside::start(&Program::Nginx, text, &["web"])
    }

    /// The same of HAProxy, behind the `defaults` that most have.
    pub fn haproxy(text: &str) -> Beside {
        Beside::start(&Program::Haproxy, &format!("{HAPROXY_DEFAULTS}{text}\n"), &["web"])
    }

    /// Asserts that the import says of nothing that it is left out.
    pub fn nothing_is_left_out(&self) {
        assert_eq!(self.left_out(), Vec::<String>::new(), "{}", self.yaml());
    }

    /// Starts the other program on this text, and ours on what is made of it. `listeners` are the names of addresses in it; those with an `s` at their end
    /// are under TLS.
    pub fn start(program: &Program, text: &str, listeners: &[&str]) -> Beside {
        Beside::start_in(program, text, listeners, certificates(&[("a.test", false), ("b.test", false)]))
    }

    /// The same, in a folder that holds further files.
    pub fn start_in(program: &Program, text: &str, listeners: &[&str], dir: TempDir) -> Beside {
        Beside::start_given(program, text, listeners, dir, &[])
    }

    /// The same, where somebody adds this to what was imported.
    pub fn start_edited(program: &Program, text: &str, listeners: &[&str], edit: &str) -> Beside {
        let dir = certificates(&[("a.test", false), ("b.test", false)]);
        Beside::start_all(program, text, listeners, dir, (&[], edit))
    }

    /// The same, where the import is given options.
    pub fn start_given(
        program: &Program,
        text: &str,
        listeners: &[&str],
        dir: TempDir,
        options: &[&std::ffi::OsStr],
    ) -> Beside {
        Beside::start_all(program, text, listeners, dir, (options, ""))
    }

    fn start_all(
        program: &Program,
        text: &str,
        listeners: &[&str],
        dir: TempDir,
        (options, edit): (&[&std::ffi::OsStr], &str),
    ) -> Beside {
        let label = |name: char| {
            Upstream::start(move |seen: &Seen| {
                let status = seen.line().split_once("status=").map_or("200 OK", |(_, rest)| &rest[..3]);
                let body = format!("upstream {name}");
                let fields = "Server: theirs\r\nX-Powered-By: x\r\nX-From-Upstream: yes\r\n";
                let response = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
                // Else whoever forwards bytes would wait for more.
                match seen.line().contains("/bytes") {
                    true => Reply::Close(response.into_bytes()),
                    false => Reply::Keep(response.into_bytes()),
                }
            })
        };
        let upstreams: Vec<(char, Upstream)> = ['A', 'B', 'C'].into_iter().map(|name| (name, label(name))).collect();
        let addresses =
            [0, 1].map(|_| listeners.iter().map(|name| ((*name).to_owned(), vacant())).collect::<BTreeMap<_, _>>());
        let files = [0, 1].map(|at| {
            let place = dir.path().join(["theirs", "ours"][at]);
            std::fs::create_dir(&place).unwrap();
            let mut names: Vec<(String, String)> =
                upstreams.iter().map(|(name, upstream)| (name.to_string(), upstream.address.to_string())).collect();
            names.extend(addresses[at].iter().map(|(name, address)| (name.clone(), address.to_string())));
            names.push(("dir".to_owned(), dir.path().display().to_string()));
            let file = place.join("the.conf");
            std::fs::write(&file, program.whole(&filled(text, &names), &place)).unwrap();
            file
        });
        let child = program
            .command(&files[0], &dir.path().join("theirs"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("theirs.err")).unwrap())
            .spawn()
            .unwrap();
        let mut theirs = Peer(child);
        for (name, address) in &addresses[0] {
            wait_until(&format!("{} on {name}", program.name()), || {
                if let Some(status) = theirs.0.try_wait().unwrap() {
                    let said = std::fs::read_to_string(dir.path().join("theirs.err")).unwrap();
                    let log = std::fs::read_to_string(dir.path().join("theirs/nginx.log")).unwrap_or_default();
                    panic!("{}: {status}: {said}{log}\n{text}", program.name());
                }
                std::net::TcpStream::connect(address).is_ok()
            });
        }
        let mut printed = import_with(program.name(), options, &files[1]);
        printed.stdout.extend_from_slice(edit.as_bytes());
        let ours = Some(serve(&printed, dir.path(), listeners.len()));
        let secure = listeners.iter().filter(|name| name.ends_with('s')).map(|name| (*name).to_owned()).collect();
        Beside { _theirs: theirs, ours, upstreams, addresses, secure, dir, printed }
    }

    /// What was imported.
    pub fn yaml(&self) -> String {
        String::from_utf8(self.printed.stdout.clone()).unwrap()
    }

    /// Sends one request to both, on connections of their own; what came of it at theirs and at ours.
    pub fn ask(&self, listener: &str, request: &str) -> [Outcome; 2] {
        [0, 1].map(|at| self.ask_one(at, listener, request))
    }

    fn ask_one(&self, at: usize, listener: &str, request: &str) -> Outcome {
        let before: Vec<usize> = self.upstreams.iter().map(|(_, upstream)| upstream.seen().len()).collect();
        let address = self.addresses[at][listener];
        let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
        let mut head = head.replace('\n', "\r\n");
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default().to_owned();
        if !body.is_empty() {
            head.push_str(&format!("\r\nContent-Length: {}", body.len()));
        }
        let bytes = format!("{head}\r\nConnection: close\r\n\r\n{body}");
        let response = if self.secure.iter().any(|name| name == listener) {
            let mut client = Secure::connect(address, self.dir.path(), &host, "http/1.1");
            client.write_all(bytes.as_bytes()).unwrap();
            let mut response = Vec::new();
            // nginx ends without close_notify now and then.
            let mut buffer = [0; 4096];
            while let Ok(count) = client.read(&mut buffer) {
                if count == 0 {
                    break;
                }
                response.extend_from_slice(&buffer[..count]);
            }
            response
        } else {
            let mut stream = connect(address);
            let _ = stream.write_all(bytes.as_bytes());
            read_to_end(&mut stream)
        };
        let after = self.upstreams.iter().zip(before).find_map(|((name, upstream), before)| {
            let seen = upstream.seen();
            (seen.len() > before).then(|| (*name, seen.last().unwrap().clone()))
        });
        outcome(&String::from_utf8_lossy(&response), &host, after, address)
    }

    /// Sends requests to both and expects the same of them.
    pub fn compare(&self, requests: &[(&str, &str)]) {
        let mut differences = Vec::new();
        for (listener, request) in requests {
            let [theirs, ours] = self.ask(listener, request);
            if theirs != ours {
                differences.push(format!("{request}\n  theirs {theirs:?}\n  ours   {ours:?}"));
            }
        }
        assert!(differences.is_empty(), "{}\n\n{}", differences.join("\n\n"), self.yaml());
    }

    /// The same, of GET requests for paths of a host on `web`.
    pub fn compare_paths(&self, host: &str, paths: &[&str]) {
        let requests: Vec<String> = paths.iter().map(|path| get(host, path)).collect();
        self.compare(&requests.iter().map(|request| ("web", request.as_str())).collect::<Vec<_>>());
    }

    /// The folder with the certificates.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where theirs and ours listen.
    pub fn addresses(&self, listener: &str) -> [SocketAddr; 2] {
        [0, 1].map(|at| self.addresses[at][listener])
    }

    /// What the import said is left out.
    pub fn left_out(&self) -> Vec<String> {
        let errors = String::from_utf8(self.printed.stderr.clone()).unwrap();
        errors.lines().filter_map(|line| line.strip_prefix("portunus: left out: ")).map(str::to_owned).collect()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // The folder goes with the gate.
        drop(self.ours.take());
    }
}

/// What `portunus import` prints for a file.
pub fn import(program: &str, file: &Path) -> Output {
    import_with(program, &[], file)
}

fn import_with(program: &str, options: &[&std::ffi::OsStr], file: &Path) -> Output {
    Command::new(PORTUNUS).args(["import", program]).args(options).arg(file).stdin(Stdio::null()).output().unwrap()
}

/// What it prints for these words, in a folder.
pub fn import_in(words: &[&str], folder: &Path) -> Output {
    Command::new(PORTUNUS).arg("import").args(words).current_dir(folder).output().unwrap()
}

/// Serves what was imported, once `check` has accepted it.
pub fn serve(printed: &Output, dir: &Path, listeners: usize) -> Gate {
    let text = String::from_utf8(printed.stdout.clone()).unwrap();
    assert!(matches!(printed.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&printed.stderr));
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("portunus.yaml");
    let few = if text.contains("\nworkers:") { "" } else { "\nworkers: 1\n" };
    std::fs::write(&file, format!("{text}{few}")).unwrap();
    let checked = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
    let mut command = Command::new(PORTUNUS);
    command.args(["run", "--no-watch"]).arg(&file);
    let _ = dir;
    Gate::start_command(folder, command, listeners)
}

/// Fields of a response that are compared.
const COMPARED: [&str; 6] =
    ["retry-after", "www-authenticate", "strict-transport-security", "server", "allow", "content-type"];

fn outcome(response: &str, host: &str, after: Option<(char, Seen)>, address: SocketAddr) -> Outcome {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut fields = BTreeMap::new();
    let mut location = None;
    for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
        let name = name.to_ascii_lowercase();
        if name == "location" {
            // Some write the whole URL where others write the path.
            let bare = host.split(':').next().unwrap_or_default();
            let whole = [
                format!("http://{bare}:{}", address.port()),
                format!("https://{bare}:{}", address.port()),
                format!("http://{bare}"),
            ];
            let path =
                whole.iter().find_map(|start| value.strip_prefix(start.as_str()).filter(|rest| rest.starts_with('/')));
            location = Some(path.unwrap_or(value).to_owned());
        } else if name.starts_with("x-") || COMPARED.contains(&name.as_str()) {
            fields.insert(name, value.replace(", charset=\"UTF-8\"", ""));
        }
    }
    // Whose own pages these are, is not compared.
    let is_forwarded = after.is_some() && body.starts_with("upstream ");
    fields.retain(|name, value| {
        let is_own = matches!(name.as_str(), "content-type" | "server" | "allow");
        let is_page = is_own && !is_forwarded && status != 200;
        !is_page && (name != "server" || !value.starts_with("nginx"))
    });
    let own_body = status == 200 && !is_forwarded;
    Outcome {
        status,
        location,
        seen: after.map(|(name, seen)| {
            let mut words = seen.line().split(' ');
            let target = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let host = seen.fields("host").join(",");
            (name, target, host, compared_fields(&seen))
        }),
        body: own_body.then(|| body.to_owned()),
        fields,
    }
}

/// Fields that an upstream saw, as far as they are compared.
fn compared_fields(seen: &Seen) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (name, value) in seen.head.lines().skip(1).filter_map(|line| line.split_once(':')) {
        let name = name.to_ascii_lowercase();
        // Each of the two listens at a port of its own.
        let value = if name == "x-forwarded-port" { "a port" } else { value.trim() };
        if name.starts_with("x-") || matches!(name.as_str(), "authorization" | "cookie" | "accept-encoding") {
            // One field with two values is two fields (RFC 9110 §5.3).
            let values = out.entry(name).or_insert_with(String::new);
            values.push_str(if values.is_empty() { "" } else { ", " });
            values.push_str(value);
        }
    }
    out
}
