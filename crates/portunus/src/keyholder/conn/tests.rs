//! Connections of one thread over socket pairs: what one peer sends, and what the others get meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::command::dev_ca::{DevCa, Purpose};
use crate::config;
use crate::report::{Exposition, KeyholderReporter};

/// A server with one key, and its listener.
fn server() -> (Arc<Shared>, Arc<KeyholderListener>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("keys")).unwrap();
    let pair = DevCa::new("Test CA").unwrap().issue(&["a.example"], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
    std::fs::write(dir.path().join("keys/one.key"), pair.key_pem.as_bytes()).unwrap();
    let text = "listeners: [{ name: local, bind: 'unix:keys.sock' }]
keys: { site: { folders: keys } }
access: [{ clients: unix, keys: site }]
";
    let config = config::parse_keyholder("test", text, dir.path()).unwrap();
    let holdings = Holdings::load(&config, None).unwrap();
    let shared = Shared::new(&config, holdings, KeyholderReporter::start(None).unwrap()).unwrap();
    (Arc::new(shared), Arc::clone(&config.listeners[0]))
}

/// Requests taken in, by the server's own count.
fn requests(shared: &Shared) -> u64 {
    let page = shared.reporter.metrics(Exposition::Text, &[]);
    let counts = page.lines().filter(|line| line.starts_with("keyless_requests"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// A peer may have a thousand requests outstanding, and small ones come hundreds in one read. What it may not have is all of them at once.
#[tokio::test]
async fn a_peer_that_asks_without_end_leaves_the_others_their_turn() {
    // What the kernel takes of answers that nobody reads, in answers, and some turns.
    const MOST: u64 = 600;
    for opcode in [opcode::PING, 0x99] {
        let (shared, listener) = server();
        let report = Rc::new(shared.reporter.thread());
        let (_drain, draining) = watch::channel(false);
        let local = tokio::task::LocalSet::new();
        let connect = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let stream = Stream::new(ours.into()).unwrap();
            let life = run(stream, Arc::clone(&listener), Arc::clone(&shared), Rc::clone(&report), draining.clone());
            (local.spawn_local(life), theirs)
        };
        let (_loud_life, mut loud) = connect();
        loud.write_all(&[1, 0, 0, 4, 0, 0, 0, 1, 0x11, 0, 1, opcode].repeat(5_000)).unwrap();
        let (_quiet_life, mut quiet) = connect();
        let mut ping = Vec::new();
        Frame { id: 7, opcode: opcode::PING, ..Frame::default() }.write_to(&mut ping).unwrap();
        quiet.write_all(&ping).unwrap();
        quiet.set_nonblocking(true).unwrap();
        let mut answer = [0; 1_024];
        let listen = async {
            while quiet.read(&mut answer).is_err() {
                tokio::task::yield_now().await;
            }
        };
        local.run_until(listen).await;
        let taken = requests(&shared);
        assert!((2..MOST).contains(&taken), "{opcode:#x}: {taken} before the other's one");
    }
}
