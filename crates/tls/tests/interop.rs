//! Our server and our client against the `openssl` program (Debian package `openssl`), over loopback.

use crate::support;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use support::{Authority, ECDSA, Issued, NAME, RSA, acceptor, choice, connector, fixed, name};
use tls::ProtocolVersion::{Tls10, Tls11, Tls12, Tls13};
use tls::{
    Acceptor, Choice, ClientAuth, Connector, Error, Handshake, Info, KeyType, Policy, ProtocolVersion, Read, Session,
};

/// A session on a socket, blocking.
struct Wire {
    socket: TcpStream,
    session: Session,
    input: Vec<u8>,
}

impl Wire {
    fn new(socket: TcpStream, session: Session) -> Wire {
        // Nothing waits this long unless it hangs, and a hang must not last.
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Wire { socket, session, input: Vec::new() }
    }

    /// Runs `step` until it says something, feeding it from the socket and flushing what it writes.
    fn drive<T>(
        &mut self,
        mut step: impl FnMut(&mut Session, &mut &[u8], &mut Vec<u8>) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        loop {
            let mut output = Vec::new();
            let mut left = self.input.as_slice();
            let result = step(&mut self.session, &mut left, &mut output);
            let taken = self.input.len() - left.len();
            self.input.drain(..taken);
            // The peer may be gone already; then the result says why.
            let _ = self.socket.write_all(&output);
            if let Some(done) = result? {
                return Ok(done);
            }
            let mut bytes = [0; 4096];
            match self.socket.read(&mut bytes) {
                Ok(0) | Err(_) => return Err(Error::Ours("the socket was closed".into())),
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
            }
        }
    }

    fn handshake(&mut self) -> Result<Info, Error> {
        self.drive(|session, input, output| Ok((session.handshake(input, output)? == Handshake::Done).then_some(())))?;
        Ok(self.session.info())
    }

    /// Reads up to a newline.
    fn line(&mut self) -> Result<String, Error> {
        let mut line = Vec::new();
        self.drive(|session, input, output| {
            let mut plain = [0; 1000];
            loop {
                match session.read(input, &mut plain, output)? {
                    Read::Plain(count) => line.extend_from_slice(&plain[..count]),
                    Read::WantInput => return Ok(None),
                    Read::Closed => return Ok(Some(())),
                }
                if line.ends_with(b"\n") {
                    return Ok(Some(()));
                }
            }
        })?;
        Ok(String::from_utf8(line).unwrap())
    }

    fn send(&mut self, text: &str) {
        let mut output = Vec::new();
        self.session.write(text.as_bytes(), &mut output).unwrap();
        self.socket.write_all(&output).unwrap();
    }

    fn close(mut self) {
        let mut output = Vec::new();
        self.session.close(&mut output);
        let _ = self.socket.write_all(&output);
        let _ = self.socket.shutdown(Shutdown::Write);
        // Until the peer has closed, too: a reset would destroy what it has not read yet.
        let _ = self.socket.read_to_end(&mut Vec::new());
    }
}

/// What came of one `s_client` against our server.
struct Met {
    server: Result<Info, Error>,
    /// What the program printed on both outputs.
    printed: String,
}

impl Met {
    fn info(&self) -> &Info {
        self.server.as_ref().unwrap_or_else(|error| panic!("{error}\n{}", self.printed))
    }
}

/// One connection of `openssl s_client` with `arguments`, which types `typed`, to a server of ours that echoes one line.
fn s_client(acceptor: &Acceptor, choice: &Choice, arguments: &[&str], typed: &str) -> Met {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let session = Session::server(acceptor, fixed(choice.clone())).unwrap();
    let server = thread::spawn(move || {
        let mut wire = Wire::new(listener.accept().unwrap().0, session);
        let result = wire.handshake().and_then(|info| {
            let line = wire.line()?;
            wire.send(&line);
            Ok(info)
        });
        wire.close();
        result
    });
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", NAME])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the openssl program is installed");
    // Kept open until the program ends by itself, when our server closes.
    let mut keyboard = client.stdin.take().unwrap();
    // A rejected client may be gone by now.
    let _ = keyboard.write_all(typed.as_bytes());
    let output = client.wait_with_output().unwrap();
    // The server would wait for ever for one that has ended before it connected.
    drop(TcpStream::connect(format!("127.0.0.1:{port}")));
    let server = server.join().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    Met { server, printed: String::from_utf8_lossy(&printed).into_owned() }
}

/// A choice that lets in whatever the legacy policy does.
fn legacy(issued: &Issued) -> Choice {
    Choice { policy: Policy::Legacy, min_version: Tls10, ..choice(&issued.identity) }
}

#[test]
fn every_version_and_key() {
    let authority = Authority::new("root");
    let versions = [("-tls1", Tls10), ("-tls1_1", Tls11), ("-tls1_2", Tls12), ("-tls1_3", Tls13)];
    for (algorithm, kind) in [(ECDSA, KeyType::Ecdsa), (RSA, KeyType::Rsa)] {
        let choice = legacy(&authority.issue(algorithm));
        for (argument, version) in versions {
            let arguments = [argument, "-cipher", "ALL:@SECLEVEL=0"];
            let met = s_client(&acceptor(), &choice, &arguments, "hello, old friend\n");
            let info = met.info();
            assert_eq!((info.version, info.key_type), (version, Some(kind)));
            assert_eq!(info.server_name.as_deref(), Some(NAME));
            assert!(met.printed.contains("hello, old friend"), "{}", met.printed);
        }
    }
}

#[test]
fn the_suite_is_aes_128_whatever_the_client_names_first() {
    let authority = Authority::new("root");
    let choice = choice(&authority.issue(ECDSA).identity);
    let suite = |arguments: &[&str]| s_client(&acceptor(), &choice, arguments, "hello\n").info().cipher;
    assert_eq!(suite(&[]), "TLS_AES_128_GCM_SHA256", "its default order has AES-256 first");
    assert_eq!(suite(&["-ciphersuites", "TLS_AES_256_GCM_SHA384"]), "TLS_AES_256_GCM_SHA384");
    let chacha = ["-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"];
    assert_eq!(suite(&chacha), "TLS_CHACHA20_POLY1305_SHA256", "who wants ChaCha20 lacks the hardware for AES");
    let chacha = ["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256"];
    assert_eq!(suite(&chacha), "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
    let aes = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    assert_eq!(suite(&["-tls1_2"]), aes, "its default order has ChaCha20 between AES-256 and AES-128");
    let legacy = Choice { policy: Policy::Legacy, min_version: Tls10, ..choice.clone() };
    assert_eq!(s_client(&acceptor(), &legacy, &["-tls1_2"], "hello\n").info().cipher, aes);
    let met = s_client(&acceptor(), &legacy, &chacha, "hello\n");
    assert_eq!(met.info().cipher, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
}

#[test]
fn weak_offers_are_rejected() {
    let authority = Authority::new("root");
    let rsa = authority.issue(RSA);
    let (intermediate, legacy) = (choice(&rsa.identity), legacy(&rsa));
    let cases: [(&str, &[&str], &Choice, Option<&str>); 9] = [
        ("RSA key exchange", &["-cipher", "AES128-SHA"], &legacy, None),
        ("RSA key exchange", &["-cipher", "AES128-SHA"], &intermediate, Some("alert handshake failure")),
        ("CBC", &["-cipher", "ECDHE-RSA-AES128-SHA"], &intermediate, Some("alert handshake failure")),
        ("NULL", &["-cipher", "NULL-SHA:@SECLEVEL=0"], &legacy, Some("alert handshake failure")),
        ("anonymous", &["-cipher", "aNULL:@SECLEVEL=0"], &legacy, Some("alert handshake failure")),
        ("finite-field DH", &["-cipher", "DHE-RSA-AES128-GCM-SHA256"], &legacy, Some("alert handshake failure")),
        ("SHA-1 only", &["-sigalgs", "RSA+SHA1", "-cipher", "ALL:@SECLEVEL=0"], &legacy, None),
        (
            "SHA-1 only",
            &["-sigalgs", "RSA+SHA1", "-cipher", "ALL:@SECLEVEL=0"],
            &intermediate,
            Some("alert handshake failure"),
        ),
        ("a fallback", &["-fallback_scsv"], &intermediate, Some("alert inappropriate fallback")),
    ];
    for (what, arguments, choice, rejected) in cases {
        let arguments = [&["-tls1_2"], arguments].concat();
        let met = s_client(&acceptor(), choice, &arguments, "hello\n");
        match rejected {
            None => assert_eq!(met.info().version, Tls12, "{what}"),
            Some(alert) => {
                assert!(matches!(met.server, Err(Error::Peer(_))), "{what}: {:?}", met.server);
                assert!(met.printed.contains(alert), "{what}: {}", met.printed);
            }
        }
    }
}

#[test]
fn a_client_that_guessed_another_group_is_asked_again() {
    let authority = Authority::new("root");
    let choice = choice(&authority.issue(ECDSA).identity);
    let groups = |list| s_client(&acceptor(), &choice, &["-groups", list], "hello\n").info().group;
    assert_eq!(groups("P-384:X25519"), Some("X25519"), "after a HelloRetryRequest");
    assert_eq!(groups("P-384"), Some("P-384"));
    let met = s_client(&acceptor(), &choice, &["-groups", "P-521"], "hello\n");
    assert!(matches!(met.server, Err(Error::Peer(_))) && met.printed.contains("alert handshake failure"));
}

#[test]
fn renegotiation_is_rejected() {
    let authority = Authority::new("root");
    let choice = choice(&authority.issue(ECDSA).identity);
    let met = s_client(&acceptor(), &choice, &["-tls1_2"], "R\n");
    assert_eq!(met.server, Err(Error::Peer("NO_RENEGOTIATION".into())));
    assert!(met.printed.contains("no renegotiation"), "{}", met.printed);
}

#[test]
fn sessions_are_resumed_and_one_ticket_is_sent() {
    let authority = Authority::new("root");
    let choice = choice(&authority.issue(ECDSA).identity);
    let acceptor = acceptor();
    let folder = tempfile::tempdir().unwrap();
    for (argument, tickets) in [("-tls1_2", 0), ("-tls1_3", 1)] {
        let file = folder.path().join(argument);
        let file = file.to_str().unwrap();
        let met = s_client(&acceptor, &choice, &[argument, "-sess_out", file], "hello\n");
        assert!(!met.info().resumed);
        assert_eq!(met.printed.matches("New Session Ticket arrived").count(), tickets, "{}", met.printed);
        let met = s_client(&acceptor, &choice, &[argument, "-sess_in", file], "hello\n");
        assert!(met.info().resumed, "{argument}: {}", met.printed);
        let other = Choice { context: [9; 32], ..choice.clone() };
        let met = s_client(&acceptor, &other, &[argument, "-sess_in", file], "hello\n");
        assert!(!met.info().resumed, "{argument}");
    }
}

/// Certificate and key as files that the program reads.
fn files(folder: &Path, issued: &Issued) -> [PathBuf; 2] {
    let files = [folder.join("certificate.der"), folder.join("key.der")];
    std::fs::write(&files[0], &issued.certificate).unwrap();
    std::fs::write(&files[1], &issued.key).unwrap();
    files
}

#[test]
fn client_certificates_are_asked_for_and_read() {
    let authority = Authority::new("root");
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = files(folder.path(), &authority.issue(RSA));
    let rule = ClientAuth::new(std::slice::from_ref(&authority.der), &[], true).unwrap();
    let choice = Choice { client_auth: Some(Arc::new(rule)), ..legacy(&authority.issue(ECDSA)) };
    for version in ["-tls1", "-tls1_2", "-tls1_3"] {
        let base = [version, "-cipher", "ALL:@SECLEVEL=0"];
        let proof = ["-cert", certificate.to_str().unwrap(), "-certform", "DER", "-key", key.to_str().unwrap()];
        let met = s_client(&acceptor(), &choice, &[&base[..], &proof, &["-keyform", "DER"]].concat(), "hello\n");
        assert_eq!(met.info().peer.as_ref().unwrap().issuer, "CN=root");
        assert!(met.printed.contains("CN = root"), "the request names the root: {}", met.printed);
        let met = s_client(&acceptor(), &choice, &base, "hello\n");
        assert!(matches!(met.server, Err(Error::PeerCertificate(_))), "{:?}", met.server);
    }
}

/// `openssl s_server`, ended when dropped. It answers each line reversed.
struct SServer {
    child: Child,
    address: String,
}

impl SServer {
    fn start(folder: &Path, issued: &Issued, arguments: &[&str]) -> SServer {
        let [certificate, key] = files(folder, issued);
        let mut child = Command::new("openssl")
            .args(["s_server", "-rev", "-accept", "127.0.0.1:0", "-certform", "DER", "-keyform", "DER"])
            .args([Path::new("-cert"), &certificate, Path::new("-key"), &key])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the openssl program is installed");
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ACCEPT ") {
            line.clear();
            assert!(printed.read_line(&mut line).unwrap() > 0, "s_server ended before it listened");
        }
        // The pipe is read on, or the program would stall on it.
        thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
        SServer { child, address: line["ACCEPT ".len()..].trim().to_owned() }
    }

    fn meet(&self, connector: &Connector) -> Result<Info, Error> {
        let socket = TcpStream::connect(&self.address).unwrap();
        let mut wire = Wire::new(socket, Session::client(connector, &name()).unwrap());
        wire.handshake()?;
        wire.send("abc\n");
        assert_eq!(wire.line()?, "cba\n");
        let info = wire.session.info();
        wire.close();
        Ok(info)
    }
}

impl Drop for SServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn limited(authority: &Authority, version: ProtocolVersion) -> Connector {
    let mut connector = connector(authority);
    connector.limit_version(version).unwrap();
    connector
}

#[test]
fn upstreams_of_every_version() {
    let authority = Authority::new("root");
    for algorithm in [ECDSA, RSA] {
        let folder = tempfile::tempdir().unwrap();
        let server = SServer::start(folder.path(), &authority.issue(algorithm), &["-cipher", "ALL:@SECLEVEL=0"]);
        for version in [Tls10, Tls11, Tls12, Tls13] {
            let connector = limited(&authority, version);
            let first = server.meet(&connector).unwrap();
            assert_eq!((first.version, first.resumed), (version, false));
            let second = server.meet(&connector).unwrap();
            assert!(second.resumed, "{version:?}");
            assert_eq!(second.peer, first.peer, "a resumed session still knows the peer");
        }
        let stranger = connector(&Authority::new("stranger"));
        assert!(matches!(server.meet(&stranger), Err(Error::PeerCertificate(_))));
    }
}

#[test]
fn upstreams_that_ask_for_our_certificate() {
    let authority = Authority::new("root");
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, &authority.pem).unwrap();
    let arguments = ["-Verify", "1", "-verify_return_error", "-CAfile", root.to_str().unwrap()];
    let server = SServer::start(folder.path(), &authority.issue(ECDSA), &arguments);
    for version in [Tls12, Tls13] {
        let roots = std::slice::from_ref(&authority.der);
        let mut proving = Connector::new(roots, true, Some(authority.issue(RSA).identity), &[], Tls12).unwrap();
        proving.limit_version(version).unwrap();
        assert_eq!(server.meet(&proving).unwrap().version, version);
        assert!(matches!(server.meet(&limited(&authority, version)), Err(Error::PeerAlert(_))), "{version:?}");
    }
}
