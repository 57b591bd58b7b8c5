//! No private key is in the memory of the edge. The scan finds them where they are: in an edge with local keys.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::client::{End, connector, openssl, visit};
use super::key_server::KeyServer;
use super::{PATIENT, folder, start, yaml};
use crate::harness::Gate;

/// The secret numbers of the site's keys as they may lie in memory: big-endian, and reversed as arithmetic keeps them.
fn secrets(dir: &Path) -> Vec<Vec<u8>> {
    let mut secrets = Vec::new();
    for name in ["Ecdsa", "Rsa"] {
        let path = dir.join(format!("keys/{name}.key"));
        let text = openssl_text(&path);
        for field in ["priv:", "privateExponent:", "prime1:", "prime2:"] {
            let Some((_, after)) = text.split_once(&format!("{field}\n")) else { continue };
            let digits: String = after.lines().take_while(|line| line.starts_with("    ")).collect();
            let number: Vec<u8> =
                digits.replace(':', " ").split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            // The middle of the number: its ends may be cut or padded.
            let middle = number[4..28].to_vec();
            secrets.push(middle.iter().rev().copied().collect());
            secrets.push(middle);
        }
    }
    assert_eq!(secrets.len(), 8);
    secrets
}

fn openssl_text(key: &Path) -> String {
    let output =
        std::process::Command::new("openssl").args(["pkey", "-noout", "-text", "-in"]).arg(key).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Read at a time, bytes; secrets that stand across two blocks are found by what a block takes of the next.
const BLOCK: usize = 64 * 1024;

/// How many of the secrets stand somewhere in what a process can write to.
fn found(pid: u32, secrets: &[Vec<u8>]) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).expect("reading another process's memory needs root");
    let mut seen = vec![false; secrets.len()];
    let (mut block, untouched) = (vec![0; BLOCK + 32], vec![0; BLOCK + 32]);
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        // Most of what is mapped was never touched.
        for at in (start..end).step_by(BLOCK) {
            let length = (BLOCK + 32).min(usize::try_from(end - at).unwrap());
            // Some special mappings cannot be read.
            let Ok(count) = memory.read_at(&mut block[..length], at) else { break };
            if block[..count] == untouched[..count] {
                continue;
            }
            for (secret, seen) in secrets.iter().zip(&mut seen) {
                *seen |= memchr::memmem::find(&block[..count], secret).is_some();
            }
        }
    }
    seen.iter().filter(|seen| **seen).count()
}

#[test]
fn the_edge_holds_no_private_key() {
    let dir = folder();
    let secrets = secrets(dir.path());
    let server = KeyServer::start(dir.path(), "alpn");
    let gate = start(dir, &[&server], PATIENT);
    exercise(&gate);
    assert_eq!(found(gate.pid(), &secrets), 0, "a keyless edge");
    let core = std::fs::read_to_string(format!("/proc/{}/limits", gate.pid())).unwrap();
    let core = core.lines().find(|line| line.starts_with("Max core file size")).unwrap().split_whitespace().nth(4);
    assert_eq!(core, Some("0"), "and no dump is written");

    let dir = folder();
    let local = self::secrets(dir.path());
    for name in ["Ecdsa", "Rsa"] {
        std::fs::copy(dir.path().join(format!("keys/{name}.key")), dir.path().join(format!("chains/{name}.key")))
            .unwrap();
    }
    let gate = Gate::start_in(dir, &yaml(&[&server], PATIENT));
    exercise(&gate);
    assert!(found(gate.pid(), &local) >= 2, "the scan sees keys where there are some");
}

fn exercise(gate: &Gate) {
    for _ in 0..5 {
        let ended = visit(&connector(gate.dir.path()), gate.address("edge"));
        assert_eq!(ended.end, End::Answered { resumed: false });
    }
    for arguments in ["-tls1_3 -sigalgs RSA-PSS+SHA256", "-tls1_2 -cipher AES128-GCM-SHA256"] {
        let reported = openssl(gate.dir.path(), gate.address("edge"), arguments);
        assert!(reported.contains("Verify return code: 0 (ok)"), "{reported}");
    }
}
