//! What the tests of this folder share: an etcd, the operator's folder, and nodes. Asserts nothing about the product but that its commands end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fleet::etcd::{Client, KeyValue, Settings};
use fleet::store::Store;
use tempfile::TempDir;

use crate::etcd::Etcd;
use crate::harness::{PORTUNUS, Running, end_of, exchange, member, timed, vacant, wait_within};

/// What must be nowhere in etcd: stands in a page that the configuration names.
pub const MARKER: &str = "marker-that-nobody-may-read";

/// Longest wait for what several programs have to do, on a machine that does other things, too.
const PATIENCE: Duration = Duration::from_secs(180);

/// Polls until `done`; fails the test after a long time.
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, done);
}

/// A fleet: its store, and the folder of whoever operates it.
pub struct Site {
    pub etcd: Etcd,
    pub dir: TempDir,
}

impl Site {
    /// An empty store, a key, and a configuration that serves `one`.
    pub fn new() -> Site {
        Site::on(Etcd::start())
    }

    /// The same on this etcd.
    pub fn on(etcd: Etcd) -> Site {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("site")).unwrap();
        let site = Site { etcd, dir };
        let key = site.path("fleet.key");
        assert!(site.portunus(&["fleet", "key", key.to_str().unwrap()]).0);
        std::fs::write(site.path("fleet.yaml"), site.node_file("operator")).unwrap();
        site.write("one", "");
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn node_file(&self, node: &str) -> String {
        let endpoint = self.etcd.endpoint();
        let (key, cache) = (self.path("fleet.key"), self.path(&format!("cache-{node}")));
        let (key, cache) = (key.display(), cache.display());
        format!(
            "fleet: {{ etcd: \"{endpoint}\", prefix: /test/fleet, node: {node}, seal: {{ key_file: \"{key}\" }}, cache: \"{cache}\" }}\n"
        )
    }

    /// Writes the configuration: `/` says `text`, `/page` a file with the marker. `more` are further lines.
    pub fn write(&self, text: &str, more: &str) {
        let status = if text == "broken" { 503 } else { 200 };
        let yaml = format!(
            "listeners: [{{ name: web, bind: \"${{WEB:-127.0.0.1:1}}\" }}]\nadmin: {{ bind: \"${{ADMIN:-127.0.0.1:2}}\" }}\nroutes:\n  - {{ name: root, path: /, respond: {{ status: {status}, body: \"{text}\" }} }}\n  - {{ name: page, path: /page, respond: {{ status: 200, body_file: pages/page.txt }} }}\n{more}"
        );
        std::fs::create_dir_all(self.path("site/pages")).unwrap();
        std::fs::write(self.path("site/pages/page.txt"), MARKER).unwrap();
        std::fs::write(self.path("site/portunus.yaml"), yaml).unwrap();
    }

    /// Runs a command of the program: whether it succeeded, and what it printed.
    pub fn portunus(&self, arguments: &[&str]) -> (bool, String) {
        // A roll-out that does not come to its end would be watched for ever.
        let mut command = timed(3 * PATIENCE, PORTUNUS);
        command.env("PORTUNUS_FLEET", self.path("fleet.yaml")).current_dir(self.dir.path()).args(arguments);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.success(), text)
    }

    /// Pushes the configuration.
    pub fn push(&self, arguments: &[&str]) -> (bool, String) {
        let command = ["fleet", "push", "site/portunus.yaml"];
        self.portunus(&command.iter().chain(arguments).copied().collect::<Vec<_>>())
    }

    /// Pushes the configuration, which must succeed.
    pub fn pushed(&self, arguments: &[&str]) -> String {
        let (is_done, text) = self.push(arguments);
        assert!(is_done, "{text}");
        text
    }

    /// A client of the store.
    pub fn client(&self) -> Client {
        let endpoints = vec![config::EtcdEndpoint::of(&self.etcd.endpoint()).unwrap()];
        Client::new(Settings { endpoints, ca: None, identity: None }, Arc::default())
    }

    /// The fleet's part of the store.
    pub fn store(&self) -> Store {
        Store::new(&config::load_fleet(&self.path("fleet.yaml")).unwrap(), Arc::default()).unwrap()
    }

    /// Everything that is in etcd.
    pub fn everything(&self) -> Vec<KeyValue> {
        self.client().list("", false).unwrap()
    }

    /// Starts nodes of these names.
    pub fn nodes(&self, names: &[&str]) -> Vec<Node> {
        names.iter().map(|name| self.node(name, &[])).collect()
    }

    /// Starts a node, with variables of its own.
    pub fn node(&self, name: &str, variables: &[(&str, &str)]) -> Node {
        let (web, admin, tls) = (vacant(), vacant(), vacant());
        let file = self.path(&format!("{name}.yaml"));
        std::fs::write(&file, self.node_file(name)).unwrap();
        let mut command = Command::new(PORTUNUS);
        command.arg("run").arg(&file).env("WEB", web.to_string()).env("ADMIN", admin.to_string());
        // As systemd does: what the sandbox lets it write to from the start.
        let state = self.path(&format!("state-{name}"));
        std::fs::create_dir_all(&state).unwrap();
        command.env("TLS", tls.to_string()).env("STORE", state.join("store")).env("STATE_DIRECTORY", state);
        command.envs(variables.iter().copied()).current_dir(self.dir.path());
        let running = Running::start(&mut command, |event| member(event, "message") == Some("admin listening"));
        Node { name: name.to_owned(), running, web, tls, admin }
    }

    /// What the nodes report, by their names.
    pub fn reports(&self) -> BTreeMap<String, fleet::rollout::Report> {
        self.store().reports().unwrap().0
    }

    /// Waits until so many nodes report.
    pub fn wait_for_nodes(&self, count: usize) {
        wait_until("the nodes to report", || self.reports().len() == count);
    }
}

/// A node.
pub struct Node {
    pub name: String,
    pub running: Running,
    pub web: SocketAddr,
    /// Where it listens under TLS, if the configuration has that.
    pub tls: SocketAddr,
    pub admin: SocketAddr,
}

impl Node {
    /// What it says at `/`.
    pub fn says(&self) -> String {
        get(self.web, "/")
    }

    /// Waits until it says this at `/`.
    pub fn wait_to_say(&self, text: &str) {
        wait_until(&format!("{} to say {text}", self.name), || self.says() == text);
    }

    /// Waits until a page of the admin side holds a text.
    pub fn wait_for(&self, path: &str, text: &str) {
        let mut page = String::new();
        wait_until(&format!("{path} of {} to hold {text}", self.name), || {
            page = get(self.admin, path);
            page.contains(text)
        });
    }

    /// Ends it in order.
    pub fn end(mut self) {
        self.running.signal("TERM");
        assert_eq!(end_of(&mut self.running.child).code(), Some(0));
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let response = String::from_utf8(exchange(address, request.as_bytes())).unwrap();
    response.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}
