//! Connections of one thread over socket pairs: what one peer sends, and what the others get meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use keystore::dev_ca::{DevCa, Purpose};
use telemetry::{Exposition, KeyServerReporter};

use super::*;

/// A server with one key whose crypto threads never come to anything, its listener, and the key's identifier.
fn server(kind: tls::KeyType) -> (Arc<Shared>, Arc<KeyServerListener>, [u8; 20]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("keys")).unwrap();
    let pair = DevCa::new("Test CA").unwrap().issue(&["a.example"], kind, Purpose::Server).unwrap();
    std::fs::write(dir.path().join("keys/one.key"), pair.key_pem.as_bytes()).unwrap();
    let text = "listeners: [{ name: local, bind: 'unix:keys.sock' }]
keys: { site: { folders: keys } }
access: [{ clients: unix, keys: site }]
limits: { target_wait: 10ms }
";
    let config = config::parse_key_server("test", text, dir.path()).unwrap();
    let holdings = Holdings::load(&config, None).unwrap();
    let ski = holdings.keys().next().unwrap().ski;
    let shared = Shared::new(&config, holdings, KeyServerReporter::start(None).unwrap()).unwrap();
    (Arc::new(shared), Arc::clone(&config.listeners[0]), ski)
}

/// Requests taken in, by the server's own count.
fn requests(shared: &Shared) -> u64 {
    let page = shared.reporter.metrics(Exposition::Text, &[]);
    let counts = page.lines().filter(|line| line.starts_with("keyless_requests"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// A connection: the server's end, and the peer's, which can be sent all that a test sends before anybody reads.
fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    // The kernel may hold less by default, and whoever reads is on the same thread.
    rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 1 << 20).unwrap();
    theirs.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    (ours, theirs)
}

/// What becomes of it within a minute; longer fails.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it does not end")
}

/// A peer may have a thousand requests outstanding, and small ones come hundreds in one read. What it may not have is all of them at once.
#[tokio::test]
async fn a_peer_that_asks_without_end_leaves_the_others_their_turn() {
    // What the kernel takes of responses that nobody reads, in answers, and some turns.
    const MOST: u64 = 600;
    for opcode in [opcode::PING, 0x99] {
        let (shared, listener, _) = server(tls::KeyType::Ecdsa);
        let report = Rc::new(shared.reporter.thread());
        let (_drain, draining) = watch::channel(false);
        let local = tokio::task::LocalSet::new();
        let connect = || {
            let (ours, theirs) = pair();
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
        let mut response = [0; 1_024];
        let listen = async {
            while quiet.read(&mut response).is_err() {
                tokio::task::yield_now().await;
            }
        };
        within(local.run_until(listen)).await;
        let taken = requests(&shared);
        assert!((2..MOST).contains(&taken), "{opcode:#x}: {taken} before the other's one");
    }
}

/// What needs no response is stopped by nothing but the slice of time that a connection has.
#[tokio::test]
async fn a_peer_that_cancels_without_end_leaves_the_others_their_turn() {
    let (shared, listener, _) = server(tls::KeyType::Ecdsa);
    let report = Rc::new(shared.reporter.thread());
    let (_drain, draining) = watch::channel(false);
    let local = tokio::task::LocalSet::new();
    let (ours, mut loud) = pair();
    loud.write_all(&[1, 0, 0, 4, 0, 0, 0, 1, 0x11, 0, 1, opcode::CANCEL].repeat(15_000)).unwrap();
    let unread = Stream::new(ours.try_clone().unwrap().into()).unwrap();
    let transport = Transport::plain(Stream::new(ours.into()).unwrap());
    let link = Arc::new(Link::new(Peer::unix(), true));
    let loud_one = Conn::new(transport, link, Arc::clone(&shared), Rc::clone(&report));
    let (place, drain) = (Place::take(&shared, None), draining.clone());
    local.spawn_local(async move { loud_one.serve(drain, &place).await });
    let (ours, mut quiet) = pair();
    local.spawn_local(run(Stream::new(ours.into()).unwrap(), listener, Arc::clone(&shared), report, draining));
    let mut ping = Vec::new();
    Frame { id: 7, opcode: opcode::PING, ..Frame::default() }.write_to(&mut ping).unwrap();
    quiet.write_all(&ping).unwrap();
    quiet.set_nonblocking(true).unwrap();
    let listen = async {
        while quiet.read(&mut [0; 1_024]).is_err() {
            tokio::task::yield_now().await;
        }
    };
    within(local.run_until(listen)).await;
    assert!(unread.has_unread(), "all was done before the other's one");
}

/// Requests for RSA signatures, unpadded, with ids from 0.
fn rsa_requests(count: u32, ski: &[u8; 20]) -> Vec<u8> {
    let request = |id: u32| {
        let head = [&[1, 0, 0, 62], &id.to_be_bytes()[..], &[0x11, 0, 1, 0x05, 0x12, 0, 32], &[0x5a; 32]].concat();
        [&head[..], &[0x04, 0, 20], ski].concat()
    };
    (0..count).flat_map(request).collect()
}

/// Nothing is ever signed here. A peer with as much outstanding as it may have is left alone; of one with more, the oldest are dropped.
#[tokio::test]
async fn of_one_connection_that_asks_without_waiting_the_oldest_requests_are_dropped() {
    const OUTSTANDING: u32 = 1_024;
    for beyond in [0, 1_000] {
        let (shared, listener, ski) = server(tls::KeyType::Rsa);
        assert_eq!(shared.limits.max_in_flight, OUTSTANDING as usize);
        let report = Rc::new(shared.reporter.thread());
        let (_drain, draining) = watch::channel(false);
        let local = tokio::task::LocalSet::new();
        let (ours, mut theirs) = pair();
        let life = run(Stream::new(ours.into()).unwrap(), listener, Arc::clone(&shared), report, draining);
        local.spawn_local(life);
        theirs.write_all(&rsa_requests(OUTSTANDING + beyond, &ski)).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (mut bytes, mut dropped) = (Vec::new(), Vec::new());
        let listen = async {
            let began = Instant::now();
            let mut buffer = vec![0; 64 * 1024];
            // Where nothing is to be dropped, long enough for it to be wrong.
            let least = Duration::from_millis(if beyond == 0 { 500 } else { 0 });
            let is_done = |dropped: &Vec<u32>| {
                began.elapsed() >= least
                    && shared.scheduler.waiting()[1] + dropped.len() == (OUTSTANDING + beyond) as usize
            };
            while !is_done(&dropped) {
                assert!(began.elapsed() < Duration::from_secs(20), "{} dropped", dropped.len());
                if let Ok(count) = theirs.read(&mut buffer) {
                    bytes.extend_from_slice(&buffer[..count]);
                }
                while let Some((frame, length)) = Frame::parse(&bytes, Dialect::Plain).unwrap() {
                    assert_eq!(frame.error(), Some(ErrorCode::INTERNAL));
                    dropped.push(frame.id);
                    bytes.drain(..length);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within(local.run_until(listen)).await;
        assert!(dropped.iter().copied().eq(0..dropped.len() as u32), "the oldest first: {dropped:?}");
        assert!(dropped.len() < beyond as usize + 256, "no more than there are requests to read: {}", dropped.len());
        assert_eq!(shared.scheduler.waiting()[1] + dropped.len(), (OUTSTANDING + beyond) as usize, "each once");
    }
}

/// Asks for keys over a connection that speaks the extension or not, all requests at once; the outcomes in the order of the ids.
async fn ask_for_keys(shared: &Arc<Shared>, extended: bool, payloads: &[&[u8]]) -> Vec<Result<Vec<u8>, ErrorCode>> {
    let report = Rc::new(shared.reporter.thread());
    let (_drain, draining) = watch::channel(false);
    let local = tokio::task::LocalSet::new();
    let (ours, mut theirs) = pair();
    let transport = Transport::plain(Stream::new(ours.into()).unwrap());
    let link = Arc::new(Link::new(Peer::unix(), extended));
    let (place, conn) = (Place::take(shared, None), Conn::new(transport, link, Arc::clone(shared), report));
    local.spawn_local(async move { conn.serve(draining, &place).await });
    let mut bytes = Vec::new();
    for (id, payload) in payloads.iter().enumerate() {
        let id = id as u32;
        Frame { id, opcode: opcode::MAKE_KEY, payload, ..Frame::default() }.write_to(&mut bytes).unwrap();
    }
    theirs.write_all(&bytes).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let (mut bytes, mut outcomes) = (Vec::new(), std::collections::BTreeMap::new());
    let listen = async {
        let mut buffer = [0; 4_096];
        while outcomes.len() < payloads.len() {
            if let Ok(count) = theirs.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..count]);
            }
            while let Some((frame, length)) = Frame::parse(&bytes, Dialect::Plain).unwrap() {
                let outcome = frame.error().map_or_else(|| Ok(frame.payload.to_vec()), Err);
                outcomes.insert(frame.id, outcome);
                bytes.drain(..length);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(local.run_until(listen)).await;
    outcomes.into_values().collect()
}

/// The same of one key, once nobody else has one made: whoever made the last one may still be at it when its client has the response.
async fn ask_for_one(shared: &Arc<Shared>) -> Result<Vec<u8>, ErrorCode> {
    for _ in 0..1_000 {
        let outcome = ask_for_keys(shared, true, &[&[2]]).await.remove(0);
        if outcome != Err(ErrorCode::BUSY) {
            return outcome;
        }
    }
    panic!("the place is never free")
}

/// A server whose local clients may have keys made, at most two.
fn nursery(folder: &std::path::Path, rule: &str) -> Arc<Shared> {
    std::fs::create_dir_all(folder.join("made")).unwrap();
    let text = format!(
        "listeners: [{{ name: local, bind: 'unix:keys.sock' }}]
keys: {{ made: {{ folders: made }} }}
access: [{{ clients: unix, keys: made{rule} }}, {{ clients: edge.example, keys: made, make_keys: made }}]
limits: {{ max_made_keys: 2 }}
"
    );
    let config = config::parse_key_server("test", &text, folder).unwrap();
    let holdings = Holdings::load(&config, None).unwrap();
    Arc::new(Shared::new(&config, holdings, KeyServerReporter::start(None).unwrap()).unwrap())
}

#[tokio::test]
async fn keys_are_made_for_those_who_may_have_them_one_at_a_time_and_so_many() {
    let dir = tempfile::tempdir().unwrap();
    let made = || std::fs::read_dir(dir.path().join("made")).unwrap().count();
    let shared = nursery(dir.path(), "");
    for extended in [true, false] {
        let refused = ask_for_keys(&shared, extended, &[&[2], &[0], &[]]).await;
        assert_eq!(refused, [Err(ErrorCode::BAD_OPCODE), Err(ErrorCode::BAD_OPCODE), Err(ErrorCode::BAD_OPCODE)]);
    }
    let shared = nursery(dir.path(), ", make_keys: made");
    let unspoken = ask_for_keys(&shared, false, &[&[2]]).await;
    assert_eq!(unspoken, [Err(ErrorCode::BAD_OPCODE)], "only in the extension");
    let malformed = ask_for_keys(&shared, true, &[&[], &[0], &[3], &[2, 2]]).await;
    assert!(malformed.iter().all(|outcome| *outcome == Err(ErrorCode::FORMAT)), "{malformed:?}");
    assert_eq!(made(), 0);
    // The first of them takes so long that the others find it at work.
    let outcomes = ask_for_keys(&shared, true, &[&[1], &[2], &[2], &[2]]).await;
    let spki = outcomes[0].as_ref().unwrap();
    let busy = outcomes[1..].iter().filter(|outcome| **outcome == Err(ErrorCode::BUSY)).count();
    assert!(busy >= 1, "{outcomes:?}");
    let ski = tls::crypto::public_key::key_identifier(spki).unwrap();
    let view = shared.holdings.load().view_for(&Peer::unix());
    assert!(view.by_ski(&ski).is_some(), "it can be used at once");
    while made() < 2 {
        ask_for_keys(&shared, true, &[&[2]]).await;
    }
    assert_eq!(ask_for_one(&shared).await, Err(ErrorCode::NOT_KEPT), "no more than that are kept");
    assert_eq!((made(), shared.holdings.load().keys().count()), (2, 2));
    std::fs::remove_dir_all(dir.path().join("made")).unwrap();
    assert_eq!(ask_for_one(&shared).await, Err(ErrorCode::NOT_KEPT), "nowhere to keep it");
    // What was made is what a start finds.
    let shared = nursery(dir.path(), ", make_keys: made");
    let outcome = ask_for_keys(&shared, true, &[&[2]]).await;
    let origin = shared.holdings.load().keys().next().unwrap().origin.clone();
    let again = nursery(dir.path(), ", make_keys: made");
    assert_eq!(again.holdings.load().keys().map(|key| key.origin.clone()).collect::<Vec<_>>(), [origin]);
    assert!(outcome[0].is_ok());
}
