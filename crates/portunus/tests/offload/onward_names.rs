//! Servers whose certificates have a common name alone, and what `check` and `import` say of what cannot be served or meant.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use super::site::{Duplex, folder, yaml};
use crate::harness::{Gate, PORTUNUS, connect, vacant, wait_until};

fn shell(dir: &Path, command: &str) {
    let output = Command::new("sh").args(["-c", command]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and certificates of it: `cn` and `v1` with the common name `db.internal` alone, `san` for `db.internal`, `both` with that common name and
/// another alternative name; and `alien` of nobody.
fn certificates(dir: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    shell(dir, &format!("openssl req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 30"));
    let extensions = [
        ("cn", "basicConstraints=CA:FALSE"),
        ("san", "subjectAltName=DNS:db.internal"),
        ("both", "subjectAltName=DNS:other.internal"),
        ("v1", ""),
    ];
    for (name, extension) in extensions {
        let file = if extension.is_empty() { String::new() } else { format!("-extfile {name}.ext") };
        shell(
            dir,
            &format!(
                "echo {extension} > {name}.ext && openssl req -new {key} -keyout {name}.key -out {name}.csr -subj /CN=db.internal \
                 && openssl x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -out {name}.pem {file}"
            ),
        );
    }
    shell(dir, &format!("openssl req -x509 {key} -keyout alien.key -out alien.pem -subj /CN=db.internal -days 30"));
}

/// A server that sends back each line in reverse.
struct Server(Child, SocketAddr);

impl Server {
    fn start(dir: &Path, name: &str) -> Server {
        let address = vacant();
        let mut command = Command::new("openssl");
        command.args(["s_server", "-rev", "-accept", &address.to_string()]);
        command.args(["-cert", &format!("{name}.pem"), "-key", &format!("{name}.key")]);
        let child = command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the server", || std::net::TcpStream::connect(address).is_ok());
        Server(child, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn certificates_without_alternative_names_are_verified_as_is_said() {
    let dir = folder();
    certificates(dir.path());
    let names = ["cn", "v1", "san", "both", "alien"];
    let servers = names.map(|name| Server::start(dir.path(), name));
    let settings = [
        ("strict", "", "db.internal", ["san"].as_slice()),
        ("subject", ", verify_name: common_name", "db.internal", &["cn", "v1", "san"]),
        ("elsewhere", ", verify_name: common_name", "web.internal", &[]),
        ("authority", ", verify_name: none", "web.internal", &["cn", "v1", "san", "both"]),
    ];
    let (mut listeners, mut upstreams) = (Vec::new(), Vec::new());
    for (setting, more, server_name, _) in settings {
        for (name, server) in names.iter().zip(&servers) {
            listeners.push(format!(
                "  - {{ name: {setting}-{name}, bind: \"127.0.0.1:0\", tunnel: {{ upstream: {setting}-{name} }} }}"
            ));
            upstreams.push(format!(
                "  {setting}-{name}: {{ servers: [\"{}\"], protocol: tcp, connect_timeout: 1m, tls: {{ ca: ca.pem, server_name: {server_name}{more} }} }}",
                server.1
            ));
        }
    }
    let gate = Gate::start_in(dir, &yaml(&listeners.join("\n"), &upstreams.join("\n"), ""));
    for (setting, _, _, good) in settings {
        for name in names {
            let mut near = connect(gate.address(&format!("{setting}-{name}")));
            near.write_all(b"abc\n").unwrap();
            near.end();
            let mut got = Vec::new();
            // A reset is an end, too.
            let _ = near.read_to_end(&mut got);
            let expected: &[u8] = if good.contains(&name) { b"cba\n" } else { b"" };
            assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(expected), "{setting} {name}");
        }
    }
    gate.wait_for(
        "a common name does not count; set `tls.server_name` to a name that it has, or see `tls.verify_name`",
    );
    let rejected = gate.log(settings.len() * names.len());
    assert_eq!(rejected.iter().filter(|line| line["reason"] == "upstream_certificate").count(), 4 + 2 + 5 + 1);
}

fn check(dir: &Path, text: &str) -> (bool, String) {
    let file = dir.join("portunus.yaml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(PORTUNUS).arg("check").arg(file).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), said)
}

#[test]
fn keys_that_are_not_served_are_not_called_damaged() {
    for (making, expected) in [
        ("-algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048", "not supported: an RSA key for RSASSA-PSS alone"),
        ("-algorithm ED448", "not supported: an Ed448 key"),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:brainpoolP256r1", "P-256, P-384"),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:secp256k1", "P-256, P-384"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("certs")).unwrap();
        let made = format!(
            "openssl genpkey {making} -out k && openssl req -x509 -new -key k -out c -subj /CN=x -addext subjectAltName=DNS:a.test -days 30 && cat c k > certs/a.pem"
        );
        shell(dir.path(), &made);
        let listener = "  - { name: t, bind: \"127.0.0.1:0\", tls: { keystore: main }, tunnel: { upstream: u } }";
        let (is_good, said) =
            check(dir.path(), &yaml(listener, "  u: { servers: [\"127.0.0.1:9\"], protocol: tcp }", ""));
        assert!(!is_good && said.contains(expected), "{making}: {said}");
        assert!(!said.contains("damaged") && !said.contains("memory"), "{making}: {said}");
    }
}

#[test]
fn what_cannot_be_meant_is_said_by_check() {
    let dir = folder();
    let tunnel = |bind: &str, tunnel: &str, upstream: &str| {
        let listener = format!("  - {{ name: t, bind: \"{bind}\", tunnel: {{ {tunnel} }} }}");
        check(dir.path(), &yaml(&listener, &format!("  u: {{ {upstream} }}"), ""))
    };
    let plain = "servers: [\"127.0.0.1:9\"], protocol: tcp";
    for (bind, upstream) in [("unix:@here", plain), ("127.0.0.1:0", "servers: [\"unix:@there\"], protocol: tcp")] {
        let (is_good, said) = tunnel(bind, "upstream: u", upstream);
        assert!(!is_good && said.contains("abstract socket"), "{said}");
    }
    let by_name = "rules: [ { server_name: a.example, upstream: u } ]";
    let (is_good, said) = tunnel("127.0.0.1:0", by_name, &format!("{plain}, tls: true"));
    assert!(is_good && said.contains("closes it a second time"), "{said}");
    let (is_good, said) = tunnel("127.0.0.1:0", by_name, plain);
    assert!(is_good && !said.contains("closes it a second time"), "{said}");
    let (is_good, said) = tunnel("127.0.0.1:0", "upstream: u", &format!("{plain}, tls: {{ verify_name: none }}"));
    assert!(!is_good && said.contains("add `ca`"), "{said}");
    let (is_good, said) = tunnel("127.0.0.1:0", "upstream: u, not_tls: reject", plain);
    assert!(!is_good && said.contains("`not_tls` has no effect"), "{said}");
}

#[test]
fn blocks_of_hitch_may_stand_on_one_line() {
    let import = |text: &str| -> String {
        let dir = folder();
        let file = dir.path().join("hitch.conf");
        std::fs::write(&file, text).unwrap();
        let Output { stdout, .. } = Command::new(PORTUNUS).args(["import", "hitch"]).arg(file).output().unwrap();
        let lines = String::from_utf8(stdout).unwrap();
        lines.lines().filter(|line| !line.contains('#')).map(|line| format!("{line}\n")).collect()
    };
    let rest = "backend = \"[::1]:6086\"\npem-file = \"/etc/certs/a.pem\"\nkeepalive = 60\n";
    let expected = import(&format!("frontend = {{\n  host = \"*\"\n  port = \"8443\"\n}}\n{rest}"));
    assert!(expected.contains("bind: \":8443\"") && expected.contains("keepalive: 60s"), "{expected}");
    assert!(expected.contains("max_connections_per_client: 100000"), "{expected}");
    for frontend in [
        "frontend = { host = \"*\" port = \"8443\" }",
        "frontend={host=\"*\" port=\"8443\"}",
        "frontend =\n{ host\n= \"*\"\nport =\n\"8443\" }",
    ] {
        assert_eq!(import(&format!("{frontend}\n{rest}")), expected, "{frontend}");
    }
    let one_line = format!("frontend = {{ host = \"*\" port = \"8443\" }} {}", rest.replace('\n', " "));
    assert_eq!(import(&one_line), expected);
}
