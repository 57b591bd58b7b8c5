//! How many nodes one etcd bears: real agents of so many nodes in this process, a real etcd (the Debian package etcd-server), and what both cost.
//!
//! Measures, and asserts only that every node serves every change. Run it alone:
//! `NODES=1000 SECONDS=30 cargo test --release --test all scale:: -- --ignored --nocapture`
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures, and prints what")]

use crate::etcd;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use config::{EtcdEndpoint, FleetConfig};
use etcd::Etcd;
use fleet::agent::{Agent, Host, NotLoaded, Standing, first};
use fleet::generation::Bundle;
use fleet::orders::Order;
use fleet::rollout::{Counts, Phase, Rollout, Stage};
use fleet::seal::Seal;
use fleet::store::Store;
use tls::SharedMasters;
use zeroize::Zeroizing;

/// What a node of ours does with what it is to serve: it notes when it came.
#[derive(Default)]
struct Simulated {
    loaded: Mutex<BTreeMap<String, Instant>>,
    requests: AtomicU64,
}

impl Host for Simulated {
    fn load(&self, file: &Path) -> Result<(), NotLoaded> {
        let text = std::fs::read_to_string(file).unwrap();
        self.loaded.lock().unwrap().insert(text, Instant::now());
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts { requests: self.requests.fetch_add(1000, Ordering::Relaxed), ..Counts::default() }
    }

    fn obey(&self, _: &[Order]) -> Vec<String> {
        Vec::new()
    }

    fn loads(&self) -> u64 {
        self.loaded.lock().unwrap().len() as u64
    }

    fn share_tickets(&self, _: &SharedMasters, _: Duration) {}

    fn is_leaving(&self) -> bool {
        false
    }

    fn note(&self, _: &Standing) {}
}

/// So many nodes of one fleet.
struct Fleet {
    etcd: Etcd,
    store: Store,
    folder: tempfile::TempDir,
    hosts: Vec<Arc<Simulated>>,
    agents: Vec<Agent>,
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn bundle(text: &str) -> Bundle {
    let content = Zeroizing::new(text.as_bytes().to_vec());
    Bundle { main: "portunus.yaml".to_owned(), files: [("portunus.yaml".to_owned(), content)].into() }
}

impl Fleet {
    fn new() -> Fleet {
        let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
        Seal::make(&folder.path().join("fleet.key")).unwrap();
        let store = Store::new(&config(&etcd, folder.path(), "operator"), Arc::default()).unwrap();
        Fleet { etcd, store, folder, hosts: Vec::new(), agents: Vec::new() }
    }

    /// Has everybody serve this, at once or in stages: when it was written.
    fn push(&mut self, text: &str, phase: Phase) -> Instant {
        let generation = self.store.upload(&bundle(text)).unwrap();
        let before = self.store.rollout().unwrap();
        let changed = before.as_ref().map_or(0, |before| before.changed);
        let before = before.map(|before| before.rollout);
        let rollout = Rollout {
            serial: before.as_ref().map_or(1, |before| before.serial + 1),
            generation,
            previous: before.and_then(|before| before.settled().map(str::to_owned)),
            phase,
            stages: vec![Stage::Nodes(1), Stage::Percent(10)],
            stage: 0,
            nodes: Vec::new(),
            watch_seconds: 1,
            bound: 50,
            usual: None,
            slower: 0,
            usual_time: None,
            by: "scale".to_owned(),
            at: 1,
            note: String::new(),
        };
        assert!(self.store.change(&rollout, changed, None).unwrap());
        Instant::now()
    }

    fn start(&mut self, count: u64) {
        for index in 0..count {
            let config = config(&self.etcd, self.folder.path(), &format!("node-{index:05}"));
            let (first, host) = (first(&config, &|_| true).unwrap(), Arc::<Simulated>::default());
            self.agents.push(Agent::start(&config, first, Arc::clone(&host) as Arc<dyn Host>).unwrap());
            self.hosts.push(host);
        }
    }

    /// Waits until all serve this: how long after `since` half of them, nearly all, and the last one did.
    fn wait_for(&self, text: &str, since: Instant) -> [Duration; 3] {
        let until = since + Duration::from_secs(300);
        loop {
            let at = |host: &Arc<Simulated>| host.loaded.lock().unwrap().get(text).copied();
            let mut took: Vec<Duration> = self.hosts.iter().filter_map(at).map(|at| at - since).collect();
            if took.len() == self.hosts.len() {
                took.sort();
                return [took[took.len() / 2], took[took.len() * 99 / 100], took[took.len() - 1]];
            }
            assert!(Instant::now() < until, "{} of {} serve it", took.len(), self.hosts.len());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Processor time that etcd has used, and its resident memory in MiB.
    fn cost(&self) -> (Duration, u64) {
        let pid = self.etcd.pid().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // utime and stime, in hundredths of a second.
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        let pages: u64 = fields[21].parse().unwrap();
        (Duration::from_millis(ticks * 10), (pages * 4096) >> 20)
    }

    /// What it costs while `doing` goes on for about so long: writes a second, share of a processor, memory.
    fn measure(&mut self, what: &str, time: Duration, doing: impl FnOnce(&mut Fleet) -> String) {
        self.store.rollout().unwrap();
        let (started, revision, (used, _)) = (Instant::now(), self.store.revision(), self.cost());
        let said = doing(self);
        std::thread::sleep(time.saturating_sub(started.elapsed()));
        self.store.rollout().unwrap();
        let (took, (now, memory)) = (started.elapsed().as_secs_f64(), self.cost());
        let writes = (self.store.revision() - revision) as f64 / took;
        let share = (now - used).as_secs_f64() / took * 100.0;
        println!("{what}: {writes:.0} writes/s, etcd {share:.0} % of a processor, {memory} MiB{said}");
    }
}

fn config(etcd: &Etcd, folder: &Path, node: &str) -> FleetConfig {
    FleetConfig {
        etcd: vec![EtcdEndpoint::of(&etcd.endpoint()).unwrap()],
        prefix: "/scale".to_owned(),
        node: Some(node.to_owned()),
        ca: None,
        identity: None,
        seal_key: folder.join("fleet.key"),
        cache: folder.join(node),
    }
}

#[test]
#[ignore = "a measurement: NODES and SECONDS say of how many nodes, and how long"]
fn how_many_nodes_one_etcd_bears() {
    let (nodes, time) = (number("NODES", 100), Duration::from_secs(number("SECONDS", 10)));
    let mut fleet = Fleet::new();
    fleet.push("one", Phase::Complete);
    let started = Instant::now();
    fleet.start(nodes);
    println!("{nodes} nodes started in {:.1?}", started.elapsed());
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(fleet.store.reports().unwrap().0.len() as u64, nodes);
    fleet.measure("quiet", time, |_| String::new());
    fleet.measure("a change for all at once", time, |fleet| {
        let since = fleet.push("two", Phase::Complete);
        let [half, most, last] = fleet.wait_for("two", since);
        format!("; served after {half:.1?} (half), {most:.1?} (99 %), {last:.1?} (all)")
    });
    fleet.measure("a roll-out in stages", time, |fleet| {
        let since = fleet.push("three", Phase::Running);
        let [half, most, last] = fleet.wait_for("three", since);
        format!("; served after {half:.1?} (half), {most:.1?} (99 %), {last:.1?} (all)")
    });
    let started = Instant::now();
    fleet.etcd.kill();
    fleet.etcd.begin();
    let back = Instant::now();
    while fleet.store.reports().unwrap().0.len() as u64 != nodes {
        assert!(started.elapsed() < Duration::from_secs(300), "not all nodes are back");
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("etcd killed and started: all nodes report {:.1?} after it serves", back.elapsed());
}
