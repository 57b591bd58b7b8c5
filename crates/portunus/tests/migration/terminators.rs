//! hitch and stunnel beside their imports, and mmproxy's arguments. Compared is what a server behind them gets, and what the client gets back.
//!
//! Needs `hitch` and `stunnel4`, Debian packages of these names, which `./x` installs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::beside::serve;
use crate::harness::secure::Secure;
use crate::harness::{PORTUNUS, Reply, Upstream, certificates, read_response, vacant, wait_until};

/// A program under test; ended with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that takes one connection after the other: what it got up to the end of a request's head, of which it is told.
pub fn server() -> (SocketAddr, std::sync::mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut got = Vec::new();
            let mut byte = [0];
            while !got.ends_with(b"end\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
                got.push(byte[0]);
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            if !got.is_empty() && tell.send(got).is_err() {
                return;
            }
        }
    });
    (address, told)
}

fn filled(text: &str, listen: SocketAddr, server: SocketAddr, dir: &TempDir) -> String {
    text.replace("@listen@", &listen.to_string())
        .replace("@ip@", &listen.ip().to_string())
        .replace("@port@", &listen.port().to_string())
        .replace("@server@", &server.to_string())
        .replace("@server-port@", &server.port().to_string())
        .replace("@dir@", &dir.path().display().to_string())
}

/// What the server got of a client, by way of the other program and of ours; without the client's port.
fn beside(program: &str, text: &str, name: &str) -> [String; 2] {
    let dir = certificates(&[("a.test", false), ("b.test", false)]);
    let (server, told) = server();
    through(program, &dir, |listen| filled(text, listen, server, &dir), &|address| {
        let mut client = Secure::connect(address, dir.path(), name, "http/1.1");
        let local = client.socket().local_addr().unwrap().port().to_string();
        client.write_all(b"GET / HTTP/1.1\r\nend\n").unwrap();
        assert_eq!(read_response(&mut client).1, b"ok");
        let got = told.recv_timeout(crate::harness::PATIENCE).unwrap();
        String::from_utf8_lossy(&got)
            .replace(&local, "PORT")
            .replace(&address.ip().to_string(), "HERE")
            .replace(&address.port().to_string(), "LISTEN")
    })
}

/// What a client finds at the other program, and at ours.
pub fn through<T>(
    program: &str,
    dir: &TempDir,
    text: impl Fn(SocketAddr) -> String,
    client: &dyn Fn(SocketAddr) -> T,
) -> [T; 2] {
    let listens = [vacant(), vacant()];
    let files = [0, 1].map(|at| {
        let file = dir.path().join(format!("{program}-{at}.conf"));
        std::fs::write(&file, text(listens[at])).unwrap();
        file
    });
    let log = dir.path().join("log");
    let mut command = match program {
        "hitch" => Command::new("hitch"),
        _ => Command::new("stunnel4"),
    };
    match program {
        "hitch" => command.arg(format!("--config={}", files[0].display())),
        _ => command.arg(&files[0]),
    };
    // hitch does not work as root; what is served it reads before it becomes somebody else.
    if program == "hitch"
        && std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
    {
        command.arg("--user=nobody");
    }
    let output = std::fs::File::create(&log).unwrap();
    let child = command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
    let mut theirs = Peer(child);
    wait_until(program, || {
        if let Some(status) = theirs.0.try_wait().unwrap() {
            panic!("{program}: {status}: {}", std::fs::read_to_string(&log).unwrap());
        }
        std::net::TcpStream::connect(listens[0]).is_ok()
    });
    let printed = super::beside::import(program, &files[1]);
    let ours = serve(&printed, dir.path(), 1);
    let got = listens.map(client);
    drop(ours);
    got
}

#[test]
fn hitch_and_its_import() {
    let plain = beside(
        "hitch",
        "# as its documentation has it\nfrontend = {\n  host = \"@ip@\"\n  port = \"@port@\"\n}\nbackend = \"[127.0.0.1]:@server-port@\"\nworkers = 1\n\
         pem-file = \"@dir@/certs/1-Ecdsa.pem\"\npem-file = \"@dir@/certs/0-Ecdsa.pem\"\ntls-protos = TLSv1.2 TLSv1.3\nalpn-protos = \"http/1.1\"\n",
        "a.test",
    );
    assert_eq!(plain[0], plain[1]);
    let proxied = beside(
        "hitch",
        "frontend = \"[@ip@]:@port@\"\nbackend = \"[127.0.0.1]:@server-port@\"\nworkers = 1\nwrite-proxy-v1 = on\npem-file = \"@dir@/certs/0-Ecdsa.pem\"\n",
        "a.test",
    );
    assert!(proxied[0].starts_with("PROXY TCP4 ") && proxied[0] == proxied[1], "{proxied:?}");
}

#[test]
fn stunnel_and_its_import() {
    let text = "foreground = yes\npid =\n[web]\naccept = @listen@\nconnect = @server@\ncert = @dir@/certs/0-Ecdsa.pem\nprotocol = proxy\n\
                TIMEOUTclose = 0\n";
    let proxied = beside("stunnel", text, "a.test");
    assert!(proxied[0].starts_with("PROXY TCP4 ") && proxied[0] == proxied[1], "{proxied:?}");
}

/// What `portunus import` makes of a file.
fn imported(program: &str, text: &str) -> (String, Vec<String>, Option<i32>) {
    let dir = certificates(&[("a.test", false), ("b.test", false)]);
    let file = dir.path().join("the.conf");
    std::fs::write(&file, filled(text, vacant(), vacant(), &dir)).unwrap();
    let printed = super::beside::import(program, &file);
    let errors = String::from_utf8(printed.stderr).unwrap();
    let errors = errors.lines().map(|line| line.replace(&format!("{}/", dir.path().display()), "")).collect();
    (String::from_utf8(printed.stdout).unwrap(), errors, printed.status.code())
}

#[test]
fn what_hitch_says() {
    let (yaml, errors, status) = imported(
        "hitch",
        "frontend = \"[*]:8443\"\nfrontend = {\n host = \"127.0.0.1\"\n port = \"9443\"\n sni-nomatch-abort = on\n client-verify = required\n\
         client-verify-ca = \"@dir@/ca.pem\"\n}\nbackend = \"/run/app.sock\"\nworkers = 4\nwrite-proxy-v2 = on\npem-dir = \"@dir@/certs\"\n\
         tls-protos = TLSv1.3\nciphers = \"HIGH\"\nwrite-ip = off\n",
    );
    for piece in [
        "bind: \":8443\"",
        "strict_sni: true",
        "mode: required",
        "policy: modern",
        "send_proxy: v2_tlvs",
        "unix:/run/app.sock",
        "workers: 4",
    ] {
        assert!(yaml.contains(piece), "{piece}\n{yaml}");
    }
    assert_eq!(errors, ["portunus: left out: the.conf:14: ciphers = HIGH: suites are those of a policy"]);
    assert_eq!(status, Some(1));
    // A list of clients that cannot be carried closes its frontend.
    let (yaml, errors, status) = imported(
        "hitch",
        "frontend = \"[*]:8443\"\nclient-verify = required\npem-file = \"@dir@/certs/0-Ecdsa.pem\"\n",
    );
    assert!(yaml.is_empty() && status == Some(2) && errors.concat().contains("no authority is named"), "{errors:?}");
}

#[test]
fn what_stunnel_says() {
    let (yaml, errors, status) = imported(
        "stunnel",
        "; services\nsslVersionMin = TLSv1.3\n[web]\naccept = 8443\nconnect = 127.0.0.1:80\ncert = @dir@/certs/0-Ecdsa.pem\nverifyChain = yes\nrequireCert = yes\n\
         CAfile = @dir@/ca.pem\nTIMEOUTidle = 60\n\
         [b]\nsni = web:b.test\nconnect = 127.0.0.1:81\nconnect = 127.0.0.1:82\nfailover = prio\ncert = @dir@/certs/1-Ecdsa.pem\n\
         verifyChain = yes\nrequireCert = yes\nCAfile = @dir@/ca.pem\n\
         [redis]\nclient = yes\naccept = 127.0.0.1:6379\nconnect = redis.test:6380\nverifyChain = yes\nCAfile = @dir@/ca.pem\ncheckHost = redis.test\n\
         [mail]\nclient = yes\naccept = 127.0.0.1:25\nconnect = mail.test:25\nprotocol = smtp\n\
         [pinned]\naccept = 127.0.0.1:7000\nconnect = 81\ncert = @dir@/certs/0-Ecdsa.pem\nverifyPeer = yes\nCAfile = @dir@/ca.pem\n",
    );
    for piece in [
        "bind: \":8443\"",
        "mode: required",
        "policy: modern",
        "server_name: b.test",
        "priority: 1",
        "server_name: redis.test",
        "idle_timeout: 60s",
        "bind: \"127.0.0.1:6379\"",
    ] {
        assert!(yaml.contains(piece), "{piece}\n{yaml}");
    }
    assert!(!yaml.contains("mail.test") || yaml.contains("# left out"), "{yaml}");
    let reasons: Vec<bool> =
        ["protocol = smtp", "verifyPeer"].iter().map(|why| errors.iter().any(|line| line.contains(why))).collect();
    assert_eq!((reasons, errors.len(), status), (vec![true, true], 2, Some(1)), "{errors:#?}");
}

/// Without a certificate there is no chain to verify: stunnel rejects such a client.
#[test]
fn a_chain_that_is_verified_is_required() {
    for (lines, expected) in [("verifyChain = yes", "required"), ("verify = 2", "required"), ("verify = 1", "optional")]
    {
        let text = format!(
            "[web]\naccept = 8443\nconnect = 127.0.0.1:80\ncert = @dir@/certs/0-Ecdsa.pem\nCAfile = @dir@/ca.pem\n{lines}\n"
        );
        let (yaml, _, status) = imported("stunnel", &text);
        assert!(yaml.contains(&format!("mode: {expected}")) && status == Some(0), "{lines}\n{yaml}");
    }
}

/// The arguments of both run and are printed.
#[test]
fn arguments_take_the_place_of_programs() {
    let dir = certificates(&[("a.test", false)]);
    std::fs::write(dir.path().join("networks"), "127.0.0.0/8\n").unwrap();
    let printed = Command::new(PORTUNUS)
        .args([
            "import",
            "mmproxy",
            "--allowed-networks",
            "networks",
            "-l",
            "127.0.0.1:2222",
            "-4",
            "127.0.0.1:22",
            "-6",
            "[::1]:22",
            "--quiet",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let yaml = String::from_utf8(printed.stdout).unwrap();
    for piece in
        ["trust_file: \"networks\"", "mark: 123", "transparent: true", "servers: [\"127.0.0.1:22\", \"[::1]:22\"]"]
    {
        assert!(yaml.contains(piece), "{piece}\n{yaml}");
    }
    let missing = Command::new(PORTUNUS).args(["import", "mmproxy", "-l", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));

    let upstream = Upstream::start(|_| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()));
    let listen = vacant();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(PORTUNUS);
    let pem = Path::new(dir.path()).join("certs/0-Ecdsa.pem");
    command.args(["as", "hitch"]).arg(format!("--frontend=[{}]:{}", listen.ip(), listen.port()));
    command.arg(format!("--backend=[127.0.0.1]:{}", upstream.address.port())).args(["-n", "1"]).arg(pem);
    let _gate = crate::harness::Gate::start_command(folder, command, 1);
    let mut client = Secure::connect(listen, dir.path(), "a.test", "http/1.1");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut client).1, b"ok");
}
