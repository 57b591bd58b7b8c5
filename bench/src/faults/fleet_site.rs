//! A fleet for one fault: three members of etcd, a Redis, three edges and one upstream that keeps a journal; all on loopback addresses of a namespace.
//!
//! Each edge reaches the stores by addresses of its own (`127.1.EDGE.MEMBER`), so that one edge can be cut off from them. What nodes agree on is pushed by
//! the program itself, as an operator does.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Context;
use super::client::{Load, Plan};
use super::ledger::{Asked, Decision, Seen, join};
use super::network_faults::command;
use super::recorder::read_journal;
use super::site::{GRACE, Server, parse_log_line, signal};
use crate::peers::{pause, stop};

/// Members of etcd, and edges.
pub(super) const MEMBERS: u8 = 3;
pub(super) const EDGES: u8 = 3;

/// The last number of Redis's addresses.
const REDIS: u8 = 4;

/// The third number of the addresses by which operators reach the stores.
pub(super) const OPERATOR: u8 = 9;

/// The users that the members of etcd run as begin behind this one: so packet filters see whose packets are whose.
pub(super) const MEMBER_USER: u32 = 60_000;

/// Longest wait for something to come up, or to catch up.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// What a started program may be asked for with.
const LOOK: Duration = Duration::from_millis(20);

/// What a fleet is like, where it is not as usual.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wish {
    /// How large a disk of its own each member has, as `tmpfs` takes it; needs mounts of one's own.
    pub(super) disk: Option<&'static str>,
    /// The quota of each member, bytes.
    pub(super) quota: Option<u64>,
    /// How many names get certificates, from an authority of the fleet's own.
    pub(super) names: usize,
}

pub(super) fn store(of: u8, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, of, number)
}

/// All of it, until this is dropped.
pub(super) struct FleetSite {
    folder: tempfile::TempDir,
    portunus: PathBuf,
    etcd: PathBuf,
    wish: Wish,
    members: Vec<Option<Child>>,
    redis: Option<Child>,
    edges: Vec<Child>,
    server: Server,
    /// Which push it is.
    turn: u32,
}

impl FleetSite {
    /// Starts everything, pushes the first configuration, and waits until all edges serve it.
    ///
    /// # Errors
    /// Something does not come up.
    pub(super) fn start(context: &Context, wish: Wish) -> io::Result<FleetSite> {
        let folder = tempfile::tempdir()?;
        // Members of etcd have folders of theirs in it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(any, folder.path().join("journal"))?;
        let members = (0..MEMBERS).map(|_| None).collect();
        let Context { portunus, etcd, .. } = context;
        let (portunus, etcd) = (portunus.clone(), etcd.clone());
        let (redis, edges) = (None, Vec::new());
        let mut site = FleetSite { folder, portunus, etcd, wish, members, redis, edges, server, turn: 0 };
        (1..=MEMBERS).try_for_each(|number| site.make_disk(number))?;
        fs::create_dir(site.path("site"))?;
        fs::write(site.path("site/secret"), "a secret of this run alone")?;
        (1..=MEMBERS).try_for_each(|number| site.start_member(number))?;
        site.start_redis()?;
        site.wait_for("etcd", || site.is_served(&format!("http://{}:2381/health", store(OPERATOR, 1))))?;
        site.command(&["fleet", "key", "fleet.key"])?;
        fs::write(site.path("fleet.yaml"), site.node_file(OPERATOR))?;
        site.write_configuration()?;
        site.push(&["--all"])?;
        for number in 1..=EDGES {
            let edge = site.spawn_edge(number)?;
            site.edges.push(edge);
        }
        for number in 1..=EDGES {
            site.wait_until_there(number)?;
        }
        site.wait_until_connected()?;
        Ok(site)
    }

    /// Waits until an edge takes connections: how long it took.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn wait_until_there(&self, number: u8) -> io::Result<Duration> {
        self.wait_for("an edge", || TcpStream::connect(FleetSite::edge(number)).is_ok())
    }

    /// The folder of a member, which is its own.
    fn make_disk(&self, number: u8) -> io::Result<()> {
        let (folder, user) = (self.disk(number), MEMBER_USER + u32::from(number));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        if let Some(size) = self.wish.disk {
            command("mount", &format!("-t tmpfs -o size={size},mode=0700 tmpfs {}", folder.display()))?;
        }
        chown(&folder, Some(user), None)
    }

    /// Where a member keeps all that it has.
    pub(super) fn disk(&self, number: u8) -> PathBuf {
        self.path(&format!("etcd-{number}"))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn wait_for(&self, what: &str, is_there: impl FnMut() -> bool) -> io::Result<Duration> {
        wait_for(what, PATIENCE, is_there)
    }

    fn is_served(&self, url: &str) -> bool {
        let output = Command::new("curl").args(["--silent", "--max-time", "2", url]).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("\"true\""))
    }

    fn spawn(&self, name: &str, command: &mut Command) -> io::Result<Child> {
        let said = File::options().append(true).create(true).open(self.path(name))?;
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
    }

    /// Starts a member, or starts it again where it was.
    ///
    /// # Errors
    /// It is not installed.
    pub(super) fn start_member(&mut self, number: u8) -> io::Result<()> {
        let urls = |port: u16, of: &[u8]| {
            of.iter().map(|of| format!("http://{}:{port}", store(*of, number))).collect::<Vec<_>>().join(",")
        };
        let all = (1..=MEMBERS).map(|other| format!("m{other}=http://{}:2380", store(0, other)));
        let mut command = Command::new(&self.etcd);
        command.uid(MEMBER_USER + u32::from(number));
        let data = format!("etcd-{number}/data");
        command.args(["--name", &format!("m{number}"), "--data-dir", &data, "--unsafe-no-fsync"]);
        command.args(self.wish.quota.iter().map(|quota| format!("--quota-backend-bytes={quota}")));
        command.args(["--listen-peer-urls", &urls(2380, &[0]), "--initial-advertise-peer-urls", &urls(2380, &[0])]);
        command.args(["--listen-client-urls", &urls(2379, &[1, 2, 3, OPERATOR])]);
        command.args(["--advertise-client-urls", &urls(2379, &[OPERATOR])]);
        command.args(["--listen-metrics-urls", &urls(2381, &[OPERATOR])]);
        command.args(["--initial-cluster", &all.collect::<Vec<_>>().join(",")]);
        let child = self.spawn(&format!("member-{number}.log"), &mut command)?;
        if let Some(member) = self.members.get_mut(usize::from(number) - 1) {
            *member = Some(child);
        }
        Ok(())
    }

    /// `kill -9` of a member.
    pub(super) fn kill_member(&mut self, number: u8) {
        if let Some(mut child) = self.members.get_mut(usize::from(number) - 1).and_then(Option::take) {
            kill(&mut child);
        }
    }

    /// Whether a member has ended by itself.
    pub(super) fn has_ended(&mut self, number: u8) -> bool {
        let member = self.members.get_mut(usize::from(number) - 1).and_then(Option::as_mut);
        member.is_some_and(|member| !matches!(member.try_wait(), Ok(None)))
    }

    /// Asks the JSON gateway of a member, as operators reach it.
    ///
    /// # Errors
    /// It does not respond, or not with 200: what it says.
    pub(super) fn gateway(&self, number: u8, path: &str, body: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect((store(OPERATOR, number), 2379))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        if text.starts_with("HTTP/1.1 200") { Ok(text) } else { Err(io::Error::other(text)) }
    }

    /// Starts the Redis, or starts it again with nothing in it.
    ///
    /// # Errors
    /// It is not installed.
    pub(super) fn start_redis(&mut self) -> io::Result<()> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "6379", "--save", "", "--appendonly", "no", "--protected-mode", "no", "--bind"]);
        command.args((1..=EDGES).map(|of| store(of, REDIS).to_string()));
        self.redis = Some(self.spawn("redis.log", &mut command)?);
        Ok(())
    }

    /// `kill -9` of the Redis.
    pub(super) fn kill_redis(&mut self) {
        self.redis.take().iter_mut().for_each(kill);
    }

    /// Signals the Redis.
    pub(super) fn signal_redis(&mut self, what: Signal) {
        self.redis.iter_mut().for_each(|redis| signal(redis, what));
    }

    /// Where an edge serves.
    pub(super) fn edge(number: u8) -> SocketAddr {
        SocketAddr::from(([127, 2, 0, number], 8080))
    }

    /// Where it serves under TLS, if names have certificates.
    pub(super) fn tls_edge(number: u8) -> SocketAddr {
        SocketAddr::from(([127, 2, 0, number], 8443))
    }

    /// Ends an edge and has it forget all that it had, and starts it again.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn renew_edge(&mut self, number: u8) -> io::Result<()> {
        if let Some(edge) = self.edges.get_mut(usize::from(number) - 1) {
            stop(edge);
        }
        for folder in [format!("cache-{number}"), format!("names-{number}")] {
            fs::remove_dir_all(self.path(&folder))?;
        }
        let started = self.spawn_edge(number)?;
        if let Some(edge) = self.edges.get_mut(usize::from(number) - 1) {
            *edge = started;
        }
        Ok(())
    }

    /// Resident memory of an edge, MiB.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn memory(&self, number: u8) -> io::Result<u64> {
        let edge = self.edges.get(usize::from(number) - 1).ok_or(io::ErrorKind::NotFound)?;
        let text = fs::read_to_string(format!("/proc/{}/status", edge.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kibibytes.unwrap_or_default() >> 10)
    }

    fn node_file(&self, of: u8) -> String {
        let endpoints: Vec<String> = (1..=MEMBERS).map(|member| format!("http://{}:2379", store(of, member))).collect();
        let endpoints = endpoints.join("\", \"");
        format!(
            "fleet: {{ etcd: [\"{endpoints}\"], prefix: /faults, node: edge-{of}, seal: {{ key_file: fleet.key }}, cache: cache-{of} }}\n"
        )
    }

    fn spawn_edge(&self, number: u8) -> io::Result<Child> {
        let file = format!("edge-{number}.yaml");
        fs::write(self.path(&file), self.node_file(number))?;
        let mut command = Command::new(&self.portunus);
        command.args(["run", &file]).env("PLAIN", FleetSite::edge(number).to_string());
        command.env("SOCKET", self.path(&format!("edge-{number}.sock"))).env("PORTUNUS_CONTROL", "none");
        command.env("LOG", self.path(&format!("access-{number}.log")));
        command.env("TLS", FleetSite::tls_edge(number).to_string()).env("NAMES", self.path(&format!("names-{number}")));
        command.env("REDIS", format!("{}:6379", store(number, REDIS)));
        self.spawn(&format!("edge-{number}.log"), &mut command)
    }

    /// Another configuration than before, that serves the same.
    fn write_configuration(&mut self) -> io::Result<()> {
        self.turn += 1;
        let (turn, upstream) = (self.turn, self.server.address);
        let (listener, keystore) = self.named();
        let text = format!(
            "# Push {turn}
workers: 1
listeners: [{{ name: plain, bind: \"${{PLAIN:-127.0.0.1:1}}\" }}{listener}]{keystore}
upstreams:
  app: {{ servers: [\"{upstream}\"], response_header_timeout: 10s }}
policies:
  many: {{ rate_limit: {{ rate: 100000/s, burst: 100000, key: client, scope: fleet }} }}
rate_store: {{ address: \"${{REDIS:-127.0.0.1:2}}\", secret: {{ file: secret }}, nodes: {EDGES} }}
routes:
  - {{ name: app, path: \"/app/{{*rest}}\", upstream: app, policies: [many] }}
  - {{ name: turn, path: /turn, respond: {{ status: 200, body: \"{turn}\" }} }}
admin: {{ bind: \"unix:${{SOCKET}}\" }}
log: {{ access: {{ format: json, output: \"${{LOG}}\" }}, level: info }}
limits: {{ drain_timeout: {}s }}
",
            GRACE.as_secs()
        );
        fs::write(self.path("site/portunus.yaml"), text)
    }

    /// What serves names with certificates, if there are any: a listener and a keystore.
    fn named(&self) -> (&'static str, String) {
        if self.wish.names == 0 {
            return ("", String::new());
        }
        let names: Vec<String> = (0..self.wish.names).map(name_of).collect();
        let names = names.join(", ");
        let listener = ", { name: tls, bind: \"${TLS:-127.0.0.1:3}\", tls: { keystore: names } }";
        let keystore = format!(
            "\nkeystores: {{ names: {{ acme: {{ folder: \"${{NAMES:-/nowhere}}\", directory: internal, names: [{names}] }} }} }}"
        );
        (listener, keystore)
    }

    /// Has one name more get a certificate: which one, once it was pushed, and how long that took.
    ///
    /// # Errors
    /// It was not pushed.
    pub(super) fn push_name(&mut self) -> io::Result<(String, Duration)> {
        self.wish.names += 1;
        let took = self.push_next(&["--all"])?;
        Ok((name_of(self.wish.names - 1), took))
    }

    /// Runs a command of the program.
    ///
    /// # Errors
    /// It fails: what it said.
    fn command(&self, arguments: &[&str]) -> io::Result<String> {
        let mut command = Command::new(&self.portunus);
        command.args(arguments).env("PORTUNUS_FLEET", self.path("fleet.yaml")).current_dir(self.folder.path());
        // What is each node's own must be somewhere here, too.
        command.env("SOCKET", self.path("operator.sock")).env("LOG", self.path("operator.log"));
        let output = command.stdin(Stdio::null()).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).trim().replace('\n', "; ");
        if output.status.success() { Ok(text) } else { Err(io::Error::other(text)) }
    }

    fn push(&self, more: &[&str]) -> io::Result<Duration> {
        let started = Instant::now();
        let command = ["fleet", "push", "site/portunus.yaml"];
        self.command(&command.iter().chain(more).copied().collect::<Vec<_>>())?;
        Ok(started.elapsed())
    }

    /// Pushes another configuration: how long it took.
    ///
    /// # Errors
    /// It was not pushed, or was halted: what was said.
    pub(super) fn push_next(&mut self, more: &[&str]) -> io::Result<Duration> {
        self.write_configuration()?;
        self.push(more)
    }

    /// Waits until an edge serves what was pushed last: how long it took.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn wait_until_served(&self, number: u8) -> io::Result<Duration> {
        let turn = self.turn.to_string();
        self.wait_for("the last push", || ask(FleetSite::edge(number), "/turn").is_ok_and(|body| body == turn))
    }

    /// Waits until the roll-out has ended: after the last edge serves what was pushed, its stage is watched for a while.
    ///
    /// # Errors
    /// It goes on, or was halted.
    pub(super) fn wait_until_complete(&self) -> io::Result<Duration> {
        let is_complete = |status: String| status.contains(r#""phase":"complete""#);
        self.wait_for("the end of the roll-out", || {
            self.command(&["fleet", "status", "--json"]).is_ok_and(|status| is_complete(status.replace(' ', "")))
        })
    }

    /// Whether all edges serve what was pushed last.
    pub(super) fn is_served_everywhere(&self) -> bool {
        let turn = self.turn.to_string();
        (1..=EDGES).all(|number| ask(FleetSite::edge(number), "/turn").is_ok_and(|body| body == turn))
    }

    /// Waits until all edges are connected to etcd: how long it took.
    ///
    /// # Errors
    /// One is not.
    pub(super) fn wait_until_connected(&self) -> io::Result<Duration> {
        self.wait_for("an edge's connection to etcd", || {
            (1..=EDGES).all(|number| self.page(number).is_ok_and(|page| page.contains("portunus_fleet_connected 1")))
        })
    }

    /// Waits until all edges share rates by the Redis, or none does: how long it took.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn wait_until_shared(&self, is_shared: bool) -> io::Result<Duration> {
        let line = format!("portunus_rate_store_up {}", u8::from(is_shared));
        self.wait_for(&line, || (1..=EDGES).all(|number| self.page(number).is_ok_and(|page| page.contains(&line))))
    }

    /// Metrics of an edge.
    ///
    /// # Errors
    /// It does not respond.
    pub(super) fn page(&self, number: u8) -> io::Result<String> {
        let mut stream = UnixStream::connect(self.path(&format!("edge-{number}.sock")))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Clients of all edges; `hurried`: they pause as little as they can.
    pub(super) fn load(is_hurried: bool) -> FleetLoad {
        let plan = |number: u8| match (Plan::usual(FleetSite::edge(number)), is_hurried) {
            (usual, false) => Plan { clients: 3, ..usual },
            (usual, true) => Plan { clients: 3, pace: Duration::from_millis(1), sizes: &[0, 100, 5_000], ..usual },
        };
        FleetLoad((1..=EDGES).map(|number| Load::start(plan(number))).collect())
    }

    /// Ends the edges, so that their logs are whole, and joins the ledgers.
    ///
    /// # Errors
    /// A journal or a log cannot be read.
    pub(super) fn check(&mut self, asked: &[Asked]) -> io::Result<Decision> {
        for edge in &mut self.edges {
            signal(edge, Signal::TERM);
        }
        let started = Instant::now();
        while self.edges.iter_mut().any(|edge| matches!(edge.try_wait(), Ok(None))) && started.elapsed() < PATIENCE {
            pause(LOOK);
        }
        let mut logged = std::collections::HashMap::new();
        for number in 1..=EDGES {
            let text = fs::read_to_string(self.path(&format!("access-{number}.log")))?;
            logged.extend(text.lines().filter_map(parse_log_line));
        }
        let seen: Vec<Seen> = read_journal(&self.server.journal)?.iter().map(|noted| noted.seen).collect();
        Ok(join(asked, &seen, &Some(logged)))
    }
}

/// Clients at work at all edges.
pub(super) struct FleetLoad(Vec<Load>);

impl FleetLoad {
    /// Time since they began.
    pub(super) fn elapsed(&self) -> Duration {
        self.0.first().map(|load| load.started.elapsed()).unwrap_or_default()
    }

    /// Has those of an edge end: what they have written down.
    pub(super) fn end(&mut self, number: u8) -> Vec<Asked> {
        let at = usize::from(number) - 1;
        if at < self.0.len() { self.0.remove(at).finish() } else { Vec::new() }
    }

    /// What they have written down.
    pub(super) fn finish(self) -> Vec<Asked> {
        self.0.into_iter().flat_map(Load::finish).collect()
    }
}

fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// The name with this number, of those with certificates.
pub(super) fn name_of(number: usize) -> String {
    format!("n{number:05}.shop.test")
}

/// Waits until something holds: how long it took.
///
/// # Errors
/// It does not within this time.
pub(super) fn wait_for(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> io::Result<Duration> {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > limit {
            return Err(io::Error::other(format!("{what} is not there after {limit:?}")));
        }
        pause(LOOK);
    }
    Ok(started.elapsed())
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for FleetSite {
    fn drop(&mut self) {
        self.signal_redis(Signal::CONT);
        self.edges.iter_mut().for_each(|edge| {
            if let Ok(None) = edge.try_wait() {
                stop(edge);
            }
        });
        self.members.iter_mut().flatten().for_each(kill);
        self.kill_redis();
        self.server.kill();
        if self.wish.disk.is_some() {
            // Else its folder cannot be removed; where that fails, it goes with the last process that sees it.
            (1..=MEMBERS).for_each(|number| _ = command("umount", &self.disk(number).display().to_string()));
        }
    }
}
