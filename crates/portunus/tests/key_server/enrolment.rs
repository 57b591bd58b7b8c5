//! Enrolment with the real programs: a token made at the key server, a node that enrols with it, an edge that serves with keys it does not have and renews.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use keystore::dev_ca::{DevCa, Purpose};
use tempfile::TempDir;

use super::server::{OwnKeyServer, PROGRAM, run, site, succeeded};
use crate::harness::{Gate, PATIENCE, output_of, timed, vacant, wait_until};

const NODE: &str = "edge-1.edges.example";

/// A key server that issues, where nobody else will listen, and its folder.
struct Issuing {
    server: OwnKeyServer,
    address: SocketAddr,
    dir: TempDir,
    config: String,
}

impl Issuing {
    fn start(lifetime: &str) -> Issuing {
        Issuing::start_in(site(), lifetime)
    }

    fn start_in(dir: TempDir, lifetime: &str) -> Issuing {
        let address = vacant();
        let config = format!(
            "listeners:
  - {{ name: edges, bind: \"{address}\", tls: {{ certificate: server.pem, private_key: server.key, client_ca: ca.pem }} }}
enrolment: {{ folder: enrolment, server_ca: ca.pem, lifetime: {lifetime} }}
keys: {{ sites: {{ folders: keys }}, forbidden: {{ folders: forbidden }} }}
access: [{{ clients: \"*.edges.example\", keys: sites }}, {{ clients: other.example, keys: forbidden }}]
audit: {{ output: audit.log }}
admin: {{ bind: \"127.0.0.2:0\" }}
lock_memory: false
"
        );
        let server = OwnKeyServer::start(dir.path(), &config);
        Issuing { server, address, dir, config }
    }

    fn restart(&mut self) {
        self.server.signal("KILL");
        self.server.child.wait().unwrap();
        self.server = OwnKeyServer::start(self.dir.path(), &self.config);
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("key-server/enrolment")
    }

    fn command(&self, action: &str, arguments: &[&str]) -> Output {
        let file = self.dir.path().join("key-server/key-server.yaml");
        Command::new(PROGRAM).args(["key-server", action]).arg(file).args(arguments).output().unwrap()
    }

    fn token(&self, arguments: &[&str]) -> String {
        succeeded("token", &self.command("token", arguments))
    }

    fn enrol(&self, token: &str, name: &str, folder: &Path) -> Output {
        finish(start_enrol(self.address, token, name, folder))
    }

    /// Enrols the node of the tests, and gives the folder.
    fn enrolled(&self) -> PathBuf {
        let folder = self.dir.path().join("enrolled");
        succeeded("enrol", &self.enrol(&self.token(&["--name", NODE]), NODE, &folder));
        folder
    }

    /// An edge with the folder, whose own configuration is beside the key server's.
    fn edge(&self, folder: &Path) -> Gate {
        let dir = tempfile::tempdir().unwrap();
        run("cp", &["-r", self.dir.path().join("edge/chains").to_str().unwrap(), dir.path().to_str().unwrap()]);
        std::fs::copy(self.dir.path().join("ca.pem"), dir.path().join("ca.pem")).unwrap();
        let yaml = format!(
            "workers: 1
listeners: [{{ name: edge, bind: \"127.0.0.3:0\", tls: {{ keystore: main }} }}]
keystores: {{ main: {{ folder: chains, default: site-1.example, key_servers: vault }} }}
key_servers: {{ vault: {{ servers: \"{}\", server_name: localhost, enrolment: \"{}\" }} }}
routes: [{{ path: \"/{{*rest}}\", respond: {{ status: 200, body: ok }} }}]
admin: {{ bind: \"127.0.0.2:0\" }}
",
            self.address,
            folder.display()
        );
        Gate::start_in(dir, &yaml)
    }
}

fn start_enrol(server: SocketAddr, token: &str, name: &str, folder: &Path) -> Child {
    let mut child = Command::new(PROGRAM)
        .args(["enrol", "--server", &server.to_string(), "--server-name", "localhost", "--name", name, "--folder"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(token.as_bytes()).unwrap();
    child
}

fn finish(child: Child) -> Output {
    output_of(child)
}

/// Whether it failed, and said this.
fn rejected(output: &Output, expected: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(expected), "{expected:?}: {text}");
}

/// Whether a client gets a page over a full handshake, for which the key server has signed.
fn is_served(gate: &Gate) -> bool {
    let place = format!("::{}", gate.address("edge"));
    let output = Command::new("curl")
        .args(["-sSf", "--max-time", "60", "--connect-to", &place, "https://site-2.example/", "--cacert", "ca.pem"])
        .current_dir(gate.dir.path())
        .output()
        .expect("curl is installed (Debian package curl)");
    output.status.success()
}

fn metric(gate: &Gate, name: &str) -> f64 {
    let page = gate.metrics();
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0.0)
}

fn renewals(gate: &Gate) -> f64 {
    metric(gate, "portunus_enrolment_renewals_total{group=\"vault\",result=\"success\"}")
}

fn readiness(gate: &Gate) -> String {
    let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    String::from_utf8_lossy(&crate::harness::exchange(gate.address("admin"), request)).into_owned()
}

#[test]
fn a_node_enrols_and_serves_with_keys_it_does_not_have() {
    let issuing = Issuing::start("24h");
    let folder = issuing.enrolled();
    let identity = folder.join("identity.pem");
    assert_eq!(std::fs::metadata(&identity).unwrap().permissions().mode() & 0o777, 0o600);
    let text = run("openssl", &["x509", "-in", identity.to_str().unwrap(), "-noout", "-text"]);
    for expected in ["DNS:edge-1.edges.example", "TLS Web Client Authentication", "prime256v1"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let gate = issuing.edge(&folder);
    wait_until("a page", || is_served(&gate));
    assert!(metric(&gate, "portunus_enrolment_not_after_timestamp_seconds{group=\"vault\"}") > 0.0);
    let listed = succeeded("nodes", &issuing.command("nodes", &[]));
    assert!(listed.contains(NODE) && !listed.contains("token"), "{listed}");
    let enrolled =
        |line: &serde_json::Value| line["operation"] == "enrol" && line["peer"] == NODE && line["outcome"] == "done";
    wait_until("the audit line", || issuing.server.audit(1).iter().any(enrolled));
    succeeded("check", &issuing.command("check", &[]));
}

#[test]
fn a_token_is_good_once_in_its_time_for_its_name_and_at_its_server() {
    let issuing = Issuing::start("24h");
    // All sites have the same certificate but this one.
    let elsewhere = site();
    let pair = DevCa::new("Other CA").unwrap().issue(&["localhost"], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
    std::fs::write(elsewhere.path().join("key-server/server.pem"), &pair.certificate_pem).unwrap();
    std::fs::write(elsewhere.path().join("key-server/server.key"), pair.key_pem.as_bytes()).unwrap();
    let other = Issuing::start_in(elsewhere, "24h");
    let folder = issuing.dir.path().join("enrolled");
    let name = ["--name", NODE];
    let token = issuing.token(&name);
    // Somebody else in the place of the key server hears nothing of it.
    rejected(&finish(start_enrol(other.address, &token, NODE, &folder)), "nothing was sent");
    // Whoever stole it from another node has no use of it for its own name.
    rejected(&issuing.enrol(&token, "edge-2.edges.example", &folder), "is for another name");
    rejected(&issuing.enrol(&token, "other.example", &folder), "is for another name");
    rejected(&issuing.enrol("portunus-1-00-00", NODE, &folder), "this is no token");
    rejected(&issuing.enrol(&token, "10.0.0.1", &folder), "is no name of a node");
    assert!(!folder.join("identity.pem").exists());
    succeeded("enrol", &issuing.enrol(&token, NODE, &folder));
    rejected(&issuing.enrol(&token, NODE, &folder), "the token was used");
    let short = issuing.token(&["--name", NODE, "--valid-for", "1s"]);
    std::thread::sleep(Duration::from_millis(2100));
    rejected(&issuing.enrol(&short, NODE, &folder), "has ended");
    for (arguments, expected) in [
        (&["--name", NODE, "--uses", "2"][..], "used once"),
        (&["--name", "*"], "write a host name"),
        (&["--name", NODE, "--valid-for", "8d"], "write a number"),
        (&["--name", NODE, "--valid-for", "169h"], "7 days"),
    ] {
        rejected(&issuing.command("token", arguments), expected);
    }
    let unnamed = issuing.command("token", &["--name", "stranger.example"]);
    assert!(String::from_utf8_lossy(&unnamed.stderr).contains("no rule of `access` names"));
    let audit = std::fs::read_to_string(other.dir.path().join("key-server/audit.log")).unwrap_or_default();
    assert!(!audit.contains("enrol"), "{audit}");
    let diagnostics = issuing.server.diagnostics().join("\n");
    assert!(diagnostics.contains("the token is for edge-1") && !diagnostics.contains(token.trim()), "{diagnostics}");
}

#[test]
fn one_token_enrols_as_many_nodes_as_it_says_and_no_name_twice() {
    let issuing = Issuing::start("24h");
    let token = issuing.token(&["--name", "*.edges.example", "--uses", "2"]);
    let folder = |name: &str| issuing.dir.path().join(name);
    succeeded("enrol", &issuing.enrol(&token, "a.edges.example", &folder("a")));
    rejected(&issuing.enrol(&token, "a.edges.example", &folder("thief")), "rejected");
    succeeded("enrol", &issuing.enrol(&token, "b.edges.example", &folder("b")));
    rejected(&issuing.enrol(&token, "c.edges.example", &folder("c")), "rejected");
    let gate = issuing.edge(&folder("b"));
    wait_until("a page", || is_served(&gate));
}

#[test]
fn certificates_are_renewed_by_themselves_over_restarts_of_the_key_server() {
    // Long enough for a renewal after two thirds of it, also where nobody has a turn for seconds.
    let mut issuing = Issuing::start("40s");
    let folder = issuing.enrolled();
    let first = std::fs::read(folder.join("identity.pem")).unwrap();
    let gate = issuing.edge(&folder);
    wait_until("a page", || is_served(&gate));
    wait_until("a renewal", || renewals(&gate) >= 1.0);
    issuing.restart();
    let before = renewals(&gate);
    wait_until("renewals after the restart", || renewals(&gate) >= before + 1.0);
    // More than its first certificate would have allowed, and with a key of its own each time.
    assert_ne!(std::fs::read(folder.join("identity.pem")).unwrap(), first);
    wait_until("a page", || is_served(&gate));
    assert!(gate.diagnostics().iter().any(|line| line.contains("client certificate for key servers renewed")));
    assert!(!readiness(&gate).contains("enrolment"), "{}", readiness(&gate));
}

#[test]
fn a_revoked_node_is_cut_off_and_gets_nothing_more() {
    let issuing = Issuing::start("40s");
    let folder = issuing.enrolled();
    let gate = issuing.edge(&folder);
    wait_until("a page", || is_served(&gate));
    succeeded("revoke", &issuing.command("revoke", &[NODE]));
    rejected(&issuing.command("revoke", &["stranger.example"]), "no node is enrolled");
    wait_until("its end", || !is_served(&gate));
    issuing.server.wait_for("revoked", 1);
    wait_until("the reason", || readiness(&gate).contains("enrolment"));
    assert!(succeeded("nodes", &issuing.command("nodes", &[])).contains("revoked"));
    // The running edge takes up what it is enrolled as anew, and its name alone entitles nobody.
    succeeded("enrol", &issuing.enrol(&issuing.token(&["--name", NODE]), NODE, &folder));
    wait_until("a page", || is_served(&gate));
}

#[test]
fn who_was_away_for_too_long_enrols_anew_as_it_is_shown_to() {
    let issuing = Issuing::start("10s");
    let folder = issuing.enrolled();
    std::thread::sleep(Duration::from_millis(11_100));
    let gate = issuing.edge(&folder);
    wait_until("the message", || readiness(&gate).contains("has ended; have a token made"));
    assert!(!is_served(&gate));
    let config = issuing.config.replace("lifetime: 10s", "lifetime: 1h");
    std::fs::write(issuing.dir.path().join("key-server/key-server.yaml"), config).unwrap();
    issuing.server.signal("HUP");
    issuing.server.wait_for("\"reloaded\"", 1);
    succeeded("enrol", &issuing.enrol(&issuing.token(&["--name", NODE]), NODE, &folder));
    wait_until("a page", || is_served(&gate));
    let empty = issuing.dir.path().join("never");
    let text = format!(
        "listeners: [{{ name: edge, bind: \"127.0.0.3:0\", tls: {{ keystore: main }} }}]
keystores: {{ main: {{ folder: chains, default: site-1.example, key_servers: vault }} }}
key_servers: {{ vault: {{ servers: \"{}\", enrolment: \"{}\" }} }}
routes: [{{ path: \"/{{*rest}}\", respond: {{ status: 200, body: ok }} }}]
",
        issuing.address,
        empty.display()
    );
    let file = gate.dir.path().join("other.yaml");
    std::fs::write(&file, text).unwrap();
    rejected(&Command::new(PROGRAM).arg("check").arg(file).output().unwrap(), "this node is not enrolled");
}

/// The token is gone from the disk before anything else happens: whoever loses the response has another one made.
#[test]
fn a_key_server_that_is_killed_between_token_and_certificate_lets_nobody_have_it_twice() {
    let mut issuing = Issuing::start("24h");
    let folder = issuing.dir.path().join("enrolled");
    let token = issuing.token(&["--name", NODE]);
    let open = || std::fs::read_dir(issuing.folder().join("tokens")).unwrap().count();
    assert_eq!(open(), 1);
    let child = start_enrol(issuing.address, &token, NODE, &folder);
    let since = Instant::now();
    while open() > 0 {
        assert!(since.elapsed() < PATIENCE, "the token is used");
    }
    issuing.restart();
    drop(finish(child));
    rejected(&issuing.enrol(&token, NODE, &folder), "the token was used");
    succeeded("enrol", &issuing.enrol(&issuing.token(&["--name", NODE]), NODE, &folder));
    let gate = issuing.edge(&folder);
    wait_until("a page", || is_served(&gate));
}

/// What a client gets that speaks TLS with this protocol and sends these bytes.
fn sent(issuing: &Issuing, protocol: &str, bytes: &[u8]) -> Vec<u8> {
    // Its input stays open, so a server that keeps the connection would keep it.
    let mut child = timed(PATIENCE, "openssl")
        .args([
            "s_client",
            "-quiet",
            "-connect",
            &issuing.address.to_string(),
            "-servername",
            "localhost",
            "-alpn",
            protocol,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed (Debian package openssl)");
    let mut input = child.stdin.take().unwrap();
    let _ = input.write_all(bytes);
    let output = output_of(child).stdout;
    drop(input);
    output
}

#[test]
fn strangers_get_neither_keys_nor_certificates_and_garbage_ends_its_connection_alone() {
    let issuing = Issuing::start("24h");
    let folder = issuing.enrolled();
    // A request of the keyless protocol on a connection of enrolment, garbage, and a renewal by nobody.
    let mut keyless = vec![1, 0, 0, 8, 0, 0, 0, 7, 0x11, 0, 1, 0xf1, 0x12, 0, 1, 0];
    keyless.resize(600, 0);
    let renewal = [&[2, 0, 66][..], &[4; 65], &[1]].concat();
    for bytes in
        [&keyless[..], &[0xff; 600], b"GET / HTTP/1.1\r\n\r\n", &[1, 0xff, 0xff], &[&renewal[..], b"more"].concat()]
    {
        assert_eq!(sent(&issuing, "portunus-enrolment/1", bytes), b"", "{bytes:?}");
    }
    issuing.server.wait_for("no request for enrolment", 5);
    // Its signature is none: FORMAT (7), without a body.
    assert_eq!(sent(&issuing, "portunus-enrolment/1", &renewal), [7, 0, 0]);
    // Without a certificate the keyless protocol is closed as ever, whatever else is offered.
    for protocol in
        ["portunus-keyless/1", "portunus-keyless/1,portunus-enrolment/1", "portunus-enrolment/1,portunus-keyless/1"]
    {
        assert_eq!(sent(&issuing, protocol, &keyless), b"", "{protocol}");
    }
    let gate = issuing.edge(&folder);
    wait_until("a page", || is_served(&gate));
    assert!(issuing.server.diagnostics().iter().all(|line| !line.contains("panic")));
}

#[test]
fn guessing_is_slow_and_keeps_nobody_from_renewing() {
    let issuing = Issuing::start("40s");
    let folder = issuing.enrolled();
    let gate = issuing.edge(&folder);
    let token = issuing.token(&["--name", NODE]);
    let (_, pin) = token.trim().rsplit_once('-').unwrap();
    let before = renewals(&gate);
    let since = Instant::now();
    let mut guesses = 0;
    while renewals(&gate) < before + 1.0 {
        assert!(since.elapsed() < Duration::from_secs(180), "renewals go on");
        let begun = Instant::now();
        let children: Vec<Child> = (0..24)
            .map(|guess| {
                let guess = format!("portunus-1-{:064x}-{pin}", guesses + guess);
                start_enrol(issuing.address, &guess, NODE, &issuing.dir.path().join("guess"))
            })
            .collect();
        guesses += children.len();
        children.into_iter().for_each(|child| assert!(!finish(child).status.success()));
        assert!(begun.elapsed() >= Duration::from_secs(1), "each waits for its answer");
    }
    // What was guessed at is as good as before.
    succeeded("enrol", &issuing.enrol(&token, NODE, &folder));
}
