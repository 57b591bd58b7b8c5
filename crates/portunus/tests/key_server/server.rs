//! A running key server in a folder of its own, with keys of all kinds.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::harness::{Running, member, wait_until};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_portunus");

/// Runs a program that must succeed; gives what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    succeeded(program, &output)
}

/// What a program printed that must have succeeded.
pub fn succeeded(program: &str, output: &Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program}: {out}{errors}");
    out.into_owned()
}

/// A folder as `key-server init` makes it, with further keys. They are made once for all tests.
pub fn site() -> TempDir {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(make);
    let dir = tempfile::tempdir().unwrap();
    run("cp", &["-r", &format!("{}/.", made.path().display()), dir.path().to_str().unwrap()]);
    dir
}

fn make() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap().to_owned();
    run(PROGRAM, &["key-server", "init", &root, "--sites", "2", "--listen", "127.0.0.1:0"]);
    let keys = |name: &str| format!("{root}/key-server/{name}");
    for folder in ["more", "legacy", "decrypt", "slow", "forbidden", "locked", "containers"] {
        std::fs::create_dir(keys(folder)).unwrap();
    }
    let curve = |name: &str, path: &str| {
        run(
            "openssl",
            &["genpkey", "-algorithm", "EC", "-pkeyopt", &format!("ec_paramgen_curve:{name}"), "-out", path],
        );
    };
    let rsa = |bits: u32, path: &str| {
        run("openssl", &["genpkey", "-algorithm", "RSA", "-pkeyopt", &format!("rsa_keygen_bits:{bits}"), "-out", path]);
    };
    curve("P-384", &keys("more/p384.key"));
    curve("P-521", &keys("more/p521.key"));
    run("openssl", &["genpkey", "-algorithm", "ED25519", "-out", &keys("more/ed25519.key")]);
    rsa(2048, &keys("legacy/rsa.key"));
    rsa(2048, &keys("decrypt/rsa.key"));
    rsa(3072, &keys("slow/rsa.key"));
    curve("P-256", &keys("forbidden/secret.key"));
    let (plain, locked) = (format!("{root}/plain.key"), keys("locked/encrypted.key"));
    curve("P-256", &plain);
    run(
        "openssl",
        &["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", &plain, "-out", &locked, "-passout", "pass:secret"],
    );
    let (key, certificate) = (format!("{root}/container.key"), format!("{root}/container.pem"));
    curve("P-256", &key);
    let subject = ["-subj", "/CN=container", "-addext", "subjectAltName=DNS:container.example"];
    run("openssl", &[&["req", "-x509", "-key", &key, "-out", &certificate, "-days", "30"][..], &subject].concat());
    let container = keys("containers/one.p12");
    let files = ["-inkey", &key, "-in", &certificate, "-out", &container, "-passout", "pass:secret"];
    run("openssl", &[&["pkcs12", "-export"][..], &files].concat());
    let store = ["-keystore", &keys("containers/two.jks"), "-storepass", "secret", "-alias", "two"];
    let how = ["-keypass", "secret", "-storetype", "JKS", "-keyalg", "RSA", "-keysize", "2048", "-dname", "CN=two"];
    run("keytool", &[&["-genkeypair"][..], &store, &how].concat());
    run("keytool", &[&["-exportcert", "-rfc", "-file", &format!("{root}/two.pem")][..], &store].concat());
    std::fs::write(keys("password"), "secret\n").unwrap();
    let stranger = tempfile::tempdir().unwrap();
    run(PROGRAM, &["key-server", "init", stranger.path().to_str().unwrap(), "--sites", "1"]);
    std::fs::create_dir(format!("{root}/stranger")).unwrap();
    for file in ["client.pem", "client.key"] {
        std::fs::copy(stranger.path().join("edge").join(file), format!("{root}/stranger/{file}")).unwrap();
    }
    dir
}

/// A configuration for all keys of [`site`].
pub const CONFIG: &str = "
listeners:
  - { name: edges, bind: \"127.0.0.1:0\", tls: { certificate: server.pem, private_key: server.key, client_ca: ca.pem } }
  - { name: local, bind: \"unix:keys.sock\" }
keys:
  sites: { folders: [keys, more, slow] }
  legacy: { folders: legacy, operations: [sign, sign_legacy] }
  decrypt: { folders: decrypt, operations: rsa_decrypt }
  locked: { folders: [locked, containers], password: { file: password } }
  forbidden: { folders: forbidden }
access:
  - { clients: edge.portunus.test, keys: [sites, legacy, decrypt, locked] }
  - { clients: unix, keys: sites }
audit: { output: audit.log }
admin: { bind: \"127.0.0.2:0\" }
";

/// A running key server.
pub struct OwnKeyServer {
    running: Running,
    pub edges: SocketAddr,
    pub admin: SocketAddr,
    pub root: PathBuf,
}

impl OwnKeyServer {
    /// Starts the program on `config` in a folder that [`site`] made. It rejects nothing for having waited, unless the configuration says when: a slow
    /// machine is not what is tried.
    pub fn start(root: &Path, config: &str) -> OwnKeyServer {
        let folder = root.join("key-server");
        let patient = "limits: { target_wait: 10s, operation_timeout: 10m, ";
        let config = match (config.contains("target_wait"), config.contains("limits: {")) {
            (true, _) => config.to_owned(),
            (_, true) => config.replace("limits: {", patient),
            _ => format!("{config}{patient}}}\n"),
        };
        std::fs::write(folder.join("key-server.yaml"), &config).unwrap();
        let arguments = ["key-server", "run", "key-server.yaml"];
        OwnKeyServer::start_as(root, &folder, &arguments, config.contains("unix:"))
    }

    /// Starts the program by these arguments in `folder`; whether it will listen on a Unix socket, too.
    pub fn start_as(root: &Path, folder: &Path, arguments: &[&str], unix: bool) -> OwnKeyServer {
        let (mut edges, mut admin) = (None, None);
        let mut local = !unix;
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(folder).env("PORTUNUS_CONTROL", folder.join("control.sock"));
        let running = Running::start(&mut command, |event| {
            let address = member(event, "address").and_then(|address| address.parse().ok());
            match (member(event, "message"), member(event, "listener")) {
                (Some("admin listening"), _) => admin = address,
                (Some("listening"), Some("edges")) => edges = edges.or(address),
                (Some("listening"), Some("local")) => local = true,
                _ => {}
            }
            edges.is_some() && admin.is_some() && local
        });
        OwnKeyServer { running, edges: edges.unwrap(), admin: admin.unwrap(), root: root.to_owned() }
    }

    /// Has the Python client do one group of its tests; gives what it printed.
    pub fn exercise(&self, group: &str) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/keyless/client.py");
        let port = self.edges.port().to_string();
        let output = Command::new("python3")
            .args(["-B", script, group, self.root.to_str().unwrap(), &port])
            .output()
            .expect("python3 is installed (Debian package python3)");
        let out = succeeded(group, &output);
        assert!(self.diagnostics().iter().all(|line| !line.contains("panic")), "{:#?}", self.diagnostics());
        out
    }

    /// The load generator, ready to be started with further arguments.
    pub fn bench(&self, site: u32, arguments: &[&str]) -> Command {
        let path = |name: &str| self.root.join(name).to_str().unwrap().to_owned();
        let mut command = Command::new(PROGRAM);
        let server = self.edges.to_string();
        command.args(["key-server", "bench", "--json", "--server", &server, "--ca", &path("ca.pem")]);
        command.args(["--certificate", &path("edge/client.pem"), "--key", &path("edge/client.key")]);
        command.args(["--certificate-file", &path(&format!("edge/chains/site-{site}.example.pem"))]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A page of its admin listener.
    pub fn page(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        String::from_utf8_lossy(&crate::harness::exchange(self.admin, request.as_bytes())).into_owned()
    }

    /// The keys that it holds, over its admin socket.
    pub fn keys(&self) -> String {
        crate::harness::ask_socket(&self.root.join("key-server/control.sock"), "GET /keys", "")
    }

    /// Lines of its audit log, once there are `count`.
    pub fn audit(&self, count: usize) -> Vec<serde_json::Value> {
        let mut lines = Vec::new();
        wait_until(&format!("{count} audit lines"), || {
            let text = std::fs::read_to_string(self.root.join("key-server/audit.log")).unwrap_or_default();
            // The last line may still be on its way.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            lines = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            lines.len() >= count
        });
        lines
    }
}

impl Deref for OwnKeyServer {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for OwnKeyServer {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}
