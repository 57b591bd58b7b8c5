//! The client of etcd against etcd itself (the Debian package etcd-server).

use crate::etcd;

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use config::EtcdEndpoint;
use etcd::Etcd;
use fleet::etcd::{Client, Error, Settings, Write};

impl Etcd {
    fn client(&self) -> Client {
        client(&[&self.endpoint()])
    }
}

fn client(endpoints: &[&str]) -> Client {
    let endpoints = endpoints.iter().map(|text| EtcdEndpoint::of(text).unwrap()).collect();
    Client::new(Settings { endpoints, ca: None, identity: None }, Arc::new(AtomicBool::new(false)))
}

#[test]
fn values_are_written_read_listed_and_removed() {
    values(&Etcd::start());
}

#[test]
fn transactions_compare_and_leases_end() {
    transactions(&Etcd::start());
}

#[test]
fn a_watch_sees_what_changes_and_says_what_is_gone() {
    watches(&Etcd::start());
}

#[test]
#[ignore = "needs the current etcd: ./x verify ignored"]
fn the_current_release_does_all_of_it() {
    for tried in [values, transactions, watches] {
        let Some(etcd) = Etcd::start_current() else { return };
        tried(&etcd);
    }
}

fn values(etcd: &Etcd) {
    // At the first endpoint nobody listens.
    let mut client = client(&["http://127.0.0.1:1", &etcd.endpoint()]);
    assert_eq!(client.get("/a/x").unwrap(), None);
    let value: Vec<u8> = (0..=255).collect();
    client.put("/a/x", &value, 0).unwrap();
    let found = client.get("/a/x").unwrap().unwrap();
    assert_eq!((found.key.as_str(), &found.value, found.lease), ("/a/x", &value, 0));
    assert_eq!((found.created, found.changed), (client.revision(), client.revision()));
    // The largest value that a generation makes.
    client.put("/a/large", &vec![7; 1 << 20], 0).unwrap();
    assert_eq!(client.get("/a/large").unwrap().unwrap().value.len(), 1 << 20);
    for number in 0..250 {
        client.put(&format!("/b/{number:03}"), b"v", 0).unwrap();
    }
    client.put("/c", b"beside", 0).unwrap();
    for keys_only in [true, false] {
        let all = client.list("/b/", keys_only).unwrap();
        let expected: Vec<String> = (0..250).map(|number| format!("/b/{number:03}")).collect();
        assert_eq!(all.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(), expected);
        assert!(all.iter().all(|entry| entry.value.is_empty() == keys_only));
    }
    client.delete("/b/000").unwrap();
    assert_eq!(client.get("/b/000").unwrap(), None);
}

fn transactions(etcd: &Etcd) {
    let mut client = etcd.client();
    assert!(client.write_if(&[("/t", 0)], &[Write::Put("/t", b"1", 0), Write::Put("/u", b"1", 0)]).unwrap());
    assert!(!client.write_if(&[("/t", 0)], &[Write::Put("/t", b"2", 0)]).unwrap(), "it is there");
    let changed = client.get("/t").unwrap().unwrap().changed;
    assert!(client.write_if(&[("/t", changed)], &[Write::Put("/t", b"3", 0), Write::Delete("/u")]).unwrap());
    assert!(!client.write_if(&[("/t", changed)], &[Write::Put("/t", b"4", 0)]).unwrap(), "it was changed");
    assert_eq!(client.get("/t").unwrap().unwrap().value, b"3");
    assert_eq!(client.get("/u").unwrap(), None);
    let lease = client.grant(60).unwrap();
    client.put("/l", b"x", lease).unwrap();
    assert_eq!(client.get("/l").unwrap().unwrap().lease, lease);
    assert!(client.keep_alive(lease).unwrap());
    client.revoke(lease).unwrap();
    assert_eq!(client.get("/l").unwrap(), None);
    assert!(!client.keep_alive(lease).unwrap());
    let Err(Error::Rejected(..)) = client.put("/l", b"x", lease) else { panic!("there is no such lease") };
    let Err(Error::Rejected(..)) = client.put("/large", &vec![0; 2 << 20], 0) else { panic!("it is too large") };
}

fn watches(etcd: &Etcd) {
    let mut client = etcd.client();
    client.put("/w/a", b"1", 0).unwrap();
    let from = client.revision();
    let mut watch = etcd.client().watch("/w/", from).unwrap();
    let mut seen = Vec::new();
    let mut read = |watch: &mut fleet::etcd::Watch, count: usize| {
        let until = Instant::now() + Duration::from_secs(60);
        while seen.len() < count {
            assert!(Instant::now() < until, "{seen:?}");
            for event in watch.next(Duration::from_secs(1)).unwrap().into_iter().flat_map(|(_, events)| events) {
                seen.push((event.entry.key, event.entry.value, event.is_deletion));
            }
        }
        seen.clone()
    };
    assert_eq!(read(&mut watch, 1), [("/w/a".to_owned(), b"1".to_vec(), false)]);
    assert_eq!(watch.next(Duration::from_millis(200)), Ok(None), "nothing happens");
    client.put("/elsewhere", b"x", 0).unwrap();
    client.put("/w/b", b"2", 0).unwrap();
    client.delete("/w/a").unwrap();
    let all = read(&mut watch, 3);
    assert_eq!(all[1..], [("/w/b".to_owned(), b"2".to_vec(), false), ("/w/a".to_owned(), Vec::new(), true)]);
    // What is compacted cannot be watched from any more.
    let body = format!("{{\"revision\":\"{}\"}}", client.revision());
    let page = format!("{}/v3/kv/compaction", etcd.endpoint());
    assert!(Command::new("curl").args(["-sf", "-d", &body, &page]).output().unwrap().status.success());
    let mut watch = etcd.client().watch("/w/", from).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        assert!(Instant::now() < until);
        match watch.next(Duration::from_secs(1)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, Error::Compacted(revision) if revision > from), "{ended:?}");
}

#[test]
fn whoever_is_no_etcd_is_an_error_and_a_flag_ends_the_waiting() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let stop = Arc::new(AtomicBool::new(true));
    let endpoints = vec![EtcdEndpoint::of(&endpoint).unwrap()];
    let mut stopped = Client::new(Settings { endpoints, ca: None, identity: None }, stop);
    assert!(matches!(stopped.get("/"), Err(Error::Unreachable(_))));
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for _ in 0..2 {
            let (mut stream, _) = silent.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
        }
    });
    let Err(Error::Invalid(_)) = client(&[&endpoint]).get("/") else { panic!("it is no JSON") };
    server.join().unwrap();
}

#[test]
fn both_sides_prove_who_they_are() {
    let etcd = Etcd::start_tls();
    etcd.certificate("edge");
    let file = |name: &str| etcd.path(name);
    let client = |ca: Option<&str>, identity: Option<&str>| {
        let endpoints = vec![EtcdEndpoint::of(&etcd.endpoint()).unwrap()];
        let identity = identity.map(|name| (file(&format!("{name}.pem")), file(&format!("{name}.key"))));
        Client::new(Settings { endpoints, ca: ca.map(file), identity }, Arc::default())
    };
    let mut ours = client(Some("ca.pem"), Some("edge"));
    ours.put("/a", b"x", 0).unwrap();
    let lease = ours.grant(60).unwrap();
    assert!(ours.keep_alive(lease).unwrap());
    let mut watch = ours.watch("/a", 1).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while watch.next(Duration::from_secs(1)).unwrap().is_none() {
        assert!(Instant::now() < until, "the watch sees nothing");
    }
    for (ca, identity) in [(Some("ca.pem"), None), (Some("edge.pem"), Some("edge")), (None, Some("edge"))] {
        let failed = client(ca, identity).get("/a");
        assert!(matches!(failed, Err(Error::Unreachable(_))), "{ca:?} {identity:?}: {failed:?}");
    }
}
