//! One gate with three upstreams for one fault: started, signalled, asked, ended.
//!
//! Servers 0 and 1 are the group behind `/app`, server 2 the one behind `/steady`. Each has a journal that outlives its restarts. Only processes
//! that were started here are signalled, by their number.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use keystore::dev_ca::{DevCa, IssuedPair, Purpose};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use tls::KeyType;

use super::ledger::{Asked, Decision, Logged, Seen, join, join_but};
use super::recorder::{Noted, Wanted, read_journal};
use crate::peers::{HOST, free_address, pause, stop};

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// What is shown of a diagnostic line.
const DIAGNOSTIC_LETTERS: usize = 120;

/// The deadline for an upstream's head.
pub(super) const HEADER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long open requests may go on after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(4);
/// Between two health checks; one of either kind decides.
pub(super) const CHECK: Duration = Duration::from_millis(500);

/// What differs between faults.
#[derive(Debug, Default)]
pub(super) struct Wish {
    /// Instead of a file in the site's folder.
    pub(super) log: Option<PathBuf>,
    /// Active health checks of `/app`.
    pub(super) health: bool,
    /// Where WebSockets of `/echo` go; they may go on for an hour after SIGTERM.
    pub(super) echo: Option<SocketAddr>,
    /// The plain listener is a socket that is passed, as a service manager passes it: it is there whether or not a gate is.
    pub(super) is_activated: bool,
}

/// Everything that one fault needs, until this is dropped.
pub(super) struct Site {
    ground: Ground,
    pub(super) gate: Child,
    pub(super) servers: Vec<Server>,
}

/// What stays where it is, whatever runs.
struct Ground {
    folder: tempfile::TempDir,
    wish: Wish,
    ca: DevCa,
    plain: SocketAddr,
    /// The socket of `plain`, if it is passed.
    passed: Option<TcpListener>,
    tls: SocketAddr,
    upstreams: Vec<SocketAddr>,
}

/// An upstream that keeps a journal.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
    pub(super) journal: PathBuf,
}

impl Ground {
    fn config(&self, more: &str) -> String {
        let Ground { plain, tls, .. } = self;
        let [first, second, third] = [0, 1, 2].map(|index| self.upstreams[index]);
        let health = match self.wish.health {
            true => {
                format!(
                    "\n    health: {{ path: /health, interval: {0}ms, timeout: {0}ms, fall: 1, rise: 1 }}",
                    CHECK.as_millis()
                )
            }
            false => String::new(),
        };
        let deadline = HEADER_TIMEOUT.as_millis();
        let (echo_upstream, echo_route, grace) = match self.wish.echo {
            Some(address) => (
                format!("\n  echo: {{ servers: [\"{address}\"] }}"),
                "\n  - { name: echo, path: /echo, upstream: echo, upgrades: [websocket] }",
                Duration::from_secs(3600),
            ),
            None => (String::new(), "", GRACE),
        };
        format!(
            "workers: 2\nlisteners:\n  - {{ name: plain, bind: \"{plain}\" }}\n  - {{ name: tls, bind: \"{tls}\", tls: {{ keystore: main }} }}
keystores:\n  main: {{ folder: keys, default: {HOST} }}
upstreams:\n  app:\n    servers: [\"{first}\", \"{second}\"]\n    response_header_timeout: {deadline}ms
    ejection: {{ failures: 3, duration: 1s }}{health}
  steady:\n    servers: [\"{third}\"]\n    response_header_timeout: 10s{echo_upstream}
routes:\n  - {{ name: app, path: \"/app/{{*rest}}\", upstream: app }}\n  - {{ name: steady, path: \"/{{*rest}}\", upstream: steady }}{echo_route}
admin: {{ bind: \"unix:{}\" }}
log: {{ access: {{ format: json, output: {} }}, level: info }}
limits: {{ drain_timeout: {}s }}\n{more}",
            self.admin_socket().display(),
            self.log_file().display(),
            grace.as_secs()
        )
    }

    fn write_config(&self, text: &str) -> io::Result<()> {
        let fresh = self.folder.path().join("gate.yaml.new");
        fs::write(&fresh, text)?;
        fs::rename(fresh, self.folder.path().join("gate.yaml"))
    }

    fn new_pair(&self) -> io::Result<IssuedPair> {
        self.ca.issue(&[HOST], KeyType::Ecdsa, Purpose::Server).map_err(io::Error::other)
    }

    fn key_file(&self, kind: &str) -> PathBuf {
        self.folder.path().join("keys").join(format!("{HOST}.{kind}"))
    }

    /// Starts the program. What it says is added to what those before it said.
    fn spawn(&self, portunus: &Path) -> io::Result<Child> {
        let said = File::options().append(true).create(true).open(self.folder.path().join("stderr"))?;
        let mut command = match &self.passed {
            None => Command::new(portunus),
            Some(_) => {
                // A shell can move descriptors, and knows its own number, which stays.
                let mut shell = Command::new("sh");
                shell.args(["-c", "LISTEN_PID=$$ exec \"$@\" 3<&0 0</dev/null", "sh"]).arg(portunus);
                shell.env("LISTEN_FDS", "1");
                shell
            }
        };
        let input = self.passed.as_ref().map(TcpListener::try_clone).transpose()?;
        command.arg("run").arg(self.folder.path().join("gate.yaml"));
        command.stdin(input.map_or_else(Stdio::null, |socket| Stdio::from(OwnedFd::from(socket))));
        command.stdout(Stdio::null()).stderr(said).spawn()
    }

    fn admin_socket(&self) -> PathBuf {
        self.folder.path().join("admin.sock")
    }

    fn log_file(&self) -> PathBuf {
        self.wish.log.clone().unwrap_or_else(|| self.folder.path().join("access.log"))
    }
}

impl Site {
    /// Starts upstreams and gate and waits until the gate accepts.
    ///
    /// # Errors
    /// One of them does not come up; the gate's own words are part of the error.
    pub(super) fn start(portunus: &Path, wish: Wish) -> io::Result<Site> {
        let folder = tempfile::tempdir()?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let servers = (0..3)
            .map(|index| Server::start(any, folder.path().join(format!("journal-{index}"))))
            .collect::<io::Result<Vec<_>>>()?;
        let ca = DevCa::new("Portunus faults CA").map_err(io::Error::other)?;
        fs::create_dir(folder.path().join("keys"))?;
        let passed = wish.is_activated.then(|| TcpListener::bind(any)).transpose()?;
        let plain = passed.as_ref().map_or_else(free_address, TcpListener::local_addr)?;
        let tls = free_address()?;
        let upstreams = servers.iter().map(|server| server.address).collect();
        let ground = Ground { folder, wish, ca, plain, passed, tls, upstreams };
        let pair = ground.new_pair()?;
        fs::write(ground.key_file("crt"), &pair.certificate_pem)?;
        fs::write(ground.key_file("key"), pair.key_pem.as_bytes())?;
        ground.write_config(&ground.config(""))?;
        let gate = ground.spawn(portunus)?;
        let mut site = Site { ground, gate, servers };
        site.wait_until_up()?;
        Ok(site)
    }

    /// Starts the program once more, as a service manager does when it has ended.
    ///
    /// # Errors
    /// It does not come up.
    pub(super) fn start_again(&mut self, portunus: &Path) -> io::Result<()> {
        self.gate = self.ground.spawn(portunus)?;
        self.wait_until_up()
    }

    fn wait_until_up(&mut self) -> io::Result<()> {
        let started = Instant::now();
        while TcpStream::connect(self.ground.tls).is_err() {
            if self.gate.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(format!("the gate does not start:\n{}", self.diagnostics())));
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The plain listener.
    pub(super) fn plain(&self) -> SocketAddr {
        self.ground.plain
    }

    /// The TLS listener.
    pub(super) fn tls(&self) -> SocketAddr {
        self.ground.tls
    }

    /// The configuration, with `more` at its end.
    pub(super) fn config(&self, more: &str) -> String {
        self.ground.config(more)
    }

    /// Replaces the configuration file in one step, as a careful operator does.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn write_config(&self, text: &str) -> io::Result<()> {
        self.ground.write_config(text)
    }

    /// A certificate for the host, with its key.
    ///
    /// # Errors
    /// The library could not make one.
    pub(super) fn new_pair(&self) -> io::Result<IssuedPair> {
        self.ground.new_pair()
    }

    /// The certificate (`crt`) or key (`key`) file that the gate serves.
    pub(super) fn key_file(&self, kind: &str) -> PathBuf {
        self.ground.key_file(kind)
    }

    /// How many lines of the access log give this reason.
    pub(super) fn logged_reasons(&self, reason: &str) -> usize {
        let member = format!("\"reason\":\"{reason}\"");
        fs::read_to_string(self.ground.log_file()).map_or(0, |text| text.matches(&member).count())
    }

    /// What the gate has said on stderr.
    pub(super) fn diagnostics(&self) -> String {
        fs::read_to_string(self.ground.folder.path().join("stderr")).unwrap_or_default()
    }

    /// The most frequent lines on stderr beyond the first `skip`, numbers aside, with how often each stands there.
    pub(super) fn frequent_diagnostics(&self, skip: usize) -> String {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for line in self.diagnostics().lines().skip(skip) {
            // Without the time, which comes first.
            let text = line.split_once(' ').map_or(line, |(_, rest)| rest).trim_start();
            let text: String =
                text.chars().filter(|letter| !letter.is_ascii_digit()).take(DIAGNOSTIC_LETTERS).collect();
            *counts.entry(text).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let reported: Vec<_> = counts.iter().take(3).map(|(text, count)| format!("{count} x \"{text}\"")).collect();
        reported.join(", ").replace('|', "/")
    }

    /// Asks the admin side; gives status and body.
    ///
    /// # Errors
    /// It does not answer within five seconds.
    pub(super) fn admin(&self, method: &str, path: &str) -> io::Result<(u16, String)> {
        self.admin_within(method, path, Duration::from_secs(5))
    }

    /// As [`Site::admin`], with a patience of its own.
    ///
    /// # Errors
    /// It does not answer within it.
    pub(super) fn admin_within(&self, method: &str, path: &str, patience: Duration) -> io::Result<(u16, String)> {
        let mut stream = UnixStream::connect(self.ground.admin_socket())?;
        stream.set_read_timeout(Some(patience))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let status = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        Ok((status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
    }

    /// The sum of a metric over all lines that begin so.
    ///
    /// # Errors
    /// As [`Site::admin`].
    pub(super) fn metric(&self, start: &str) -> io::Result<f64> {
        let (_, page) = self.admin("GET", "/metrics")?;
        let values = page.lines().filter(|line| line.starts_with(start)).filter_map(|line| line.rsplit(' ').next());
        Ok(values.filter_map(|value| value.parse::<f64>().ok()).sum())
    }

    /// Descriptors that the gate has open now.
    pub(super) fn open_descriptors(&self) -> u64 {
        fs::read_dir(format!("/proc/{}/fd", self.gate.id())).map_or(0, |entries| entries.count() as u64)
    }

    /// Sets the gate's limit of descriptors while it runs; gives the one before.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn limit_descriptors(&self, current: Option<u64>) -> io::Result<Option<u64>> {
        let pid = pid_of(&self.gate).ok_or(io::ErrorKind::NotFound)?;
        // The hard limit, which it has inherited from us, stays: not everybody may raise it again.
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        Ok(rustix::process::prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum })?.current)
    }

    /// Asks the gate to end, and waits up to `patience`; none if it does not.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn end_gate(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        signal(&mut self.gate, Signal::TERM);
        self.wait_for_gate(patience)
    }

    /// Waits for the gate to end.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn wait_for_gate(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let started = Instant::now();
        loop {
            match self.gate.try_wait()? {
                None if started.elapsed() < patience => pause(Duration::from_millis(5)),
                ended => return Ok(ended),
            }
        }
    }

    /// Everything that all upstreams have seen.
    ///
    /// # Errors
    /// A journal cannot be read.
    pub(super) fn noted(&self) -> io::Result<Vec<Noted>> {
        let journals = self.servers.iter().map(|server| read_journal(&server.journal));
        Ok(journals.collect::<io::Result<Vec<_>>>()?.concat())
    }

    /// Ends the gate, so that its log is whole, and joins the ledgers.
    ///
    /// # Errors
    /// A journal or the log cannot be read.
    pub(super) fn check(&mut self, asked: &[Asked]) -> io::Result<Decision> {
        self.end_gate(GRACE + Duration::from_secs(5))?;
        let logged = match self.ground.wish.log {
            Some(_) => None,
            None => Some(fs::read_to_string(self.ground.log_file())?.lines().filter_map(parse_log_line).collect()),
        };
        self.check_with(asked, &logged)
    }

    /// Joins the ledgers when all gates have ended. A request that is `excused` may be missing in the log.
    ///
    /// # Errors
    /// A journal or the log cannot be read.
    pub(super) fn join_log(&self, asked: &[Asked], excused: &dyn Fn(&Asked) -> bool) -> io::Result<Decision> {
        let logged = fs::read_to_string(self.ground.log_file())?.lines().filter_map(parse_log_line).collect();
        let seen: Vec<Seen> = self.noted()?.iter().map(|noted| noted.seen).collect();
        Ok(join_but(asked, &seen, &Some(logged), excused))
    }

    /// As [`Site::check`], with a log read elsewhere.
    ///
    /// # Errors
    /// A journal cannot be read.
    pub(super) fn check_with(&self, asked: &[Asked], logged: &Logged) -> io::Result<Decision> {
        let seen: Vec<Seen> = self.noted()?.iter().map(|noted| noted.seen).collect();
        Ok(join(asked, &seen, logged))
    }
}

/// Request and status of a line of the access log; none for other lines.
pub(super) fn parse_log_line(line: &str) -> Option<(super::ledger::Id, u16)> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let wanted = Wanted::parse(line["target"].as_str()?)?;
    Some((wanted.id, u16::try_from(line["status"].as_u64()?).ok()?))
}

impl Drop for Site {
    fn drop(&mut self) {
        signal(&mut self.gate, Signal::CONT);
        if let Ok(None) = self.gate.try_wait() {
            stop(&mut self.gate);
        }
        for server in &mut self.servers {
            server.kill();
        }
    }
}

impl Server {
    /// Starts one, which adds to this journal.
    ///
    /// # Errors
    /// It does not come up.
    pub(super) fn start(address: SocketAddr, journal: PathBuf) -> io::Result<Server> {
        File::options().append(true).create(true).open(&journal)?;
        let (child, address) = spawn_server(address, &journal)?;
        Ok(Server { child, address, journal })
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again where it was.
    ///
    /// # Errors
    /// It does not come up.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        self.kill();
        self.child = spawn_server(self.address, &self.journal)?.0;
        Ok(())
    }
}

fn spawn_server(address: SocketAddr, journal: &Path) -> io::Result<(Child, SocketAddr)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["ledger-upstream", "--listen", &address.to_string(), "--journal"])
        .arg(journal)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(output) = &mut child.stdout {
        BufReader::new(output).read_line(&mut line)?;
    }
    match line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok()) {
        Some(address) => Ok((child, address)),
        None => {
            stop(&mut child);
            Err(io::Error::other(format!("an upstream said {line:?} instead of its address")))
        }
    }
}

/// Signals a child of ours, unless it has ended: its number may be another's by then.
pub(super) fn signal(child: &mut Child, signal: Signal) {
    if let (Ok(None), Some(pid)) = (child.try_wait(), pid_of(child)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}
