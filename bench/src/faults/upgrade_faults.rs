//! Upgrades of the gate's program under load: twenty that succeed, `kill -9` of the new process before it serves, and of the old one while the new one starts.
//!
//! A new process is ended only until it serves: what happens to one that serves is the fault of another row. Processes are known by the number
//! that the gate names, or as a child of one that is.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::{Load, PATIENCE, Plan};
use super::ledger::{Asked, Outcome};
use super::site::{Site, Wish};
use super::{Context, Found, percentile};
use crate::peers::{HOST, pause};

const UPGRADES: u32 = 20;

/// WebSockets opened before each upgrade; all of them must still echo after the last.
const TUNNELS_PER_UPGRADE: usize = 5;

/// Old processes killed.
const KILLS: u32 = 5;

/// How long the program waits in [`Program::delay`], for something to happen meanwhile.
const DELAY: Duration = Duration::from_millis(400);

/// The program under a name of our own, so that another one can be put behind it.
struct Program {
    folder: tempfile::TempDir,
    real: PathBuf,
}

impl Program {
    fn new(real: &Path) -> io::Result<Program> {
        let program = Program { folder: tempfile::tempdir()?, real: real.to_owned() };
        program.restore()?;
        Ok(program)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("portunus")
    }

    fn restore(&self) -> io::Result<()> {
        let fresh = self.folder.path().join("fresh");
        symlink(&self.real, &fresh)?;
        fs::rename(fresh, self.path())
    }

    /// From now on it waits before it begins.
    fn delay(&self) -> io::Result<()> {
        let fresh = self.folder.path().join("fresh");
        let script = format!("#!/bin/sh\nsleep {}\nexec {} \"$@\"\n", DELAY.as_secs_f64(), self.real.display());
        fs::write(&fresh, script)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
        fs::rename(fresh, self.path())
    }
}

/// Twenty upgrades, before each of which a new process is killed at another moment.
pub(super) fn upgrades(context: &Context) -> io::Result<Found> {
    let program = Program::new(&context.portunus)?;
    let mut site = Site::start(&program.path(), Wish { echo: Some(echo_server()?), ..Wish::default() })?;
    let mut processes = vec![site.gate.id()];
    let (mut tunnels, mut took, mut killed, mut wrong) = (Vec::new(), Vec::new(), 0, Vec::new());
    let load = Load::start(Plan { pace: Duration::ZERO, ..Plan::usual(site.plain()) });
    for turn in 0..UPGRADES {
        for _ in 0..TUNNELS_PER_UPGRADE {
            tunnels.push(open_tunnel(site.plain())?);
        }
        let text = site.config("").replace("workers: 2", &format!("workers: {}", 1 + turn % 3));
        site.write_config(&text)?;
        let serving = processes.last().copied().unwrap_or_default();
        match kill_new(&site, serving, Step::ALL[turn as usize % Step::ALL.len()]) {
            Ok(()) => killed += 1,
            Err(error) => wrong.push(error.to_string()),
        }
        let at = Instant::now();
        processes.push(upgrade(&site)?);
        took.push(at.elapsed());
        pause(context.time / UPGRADES);
    }
    let echoing = tunnels.iter_mut().filter_map(|tunnel| echoes(tunnel).ok()).count();
    let alive = processes.iter().filter(|pid| is_alive(**pid)).count();
    let asked = load.finish();
    let opened = tunnels.len();
    drop(tunnels);
    end(&processes)?;
    let mut notes = vec![
        format!(
            "{UPGRADES} upgrades, p50 {:.1?} until the new process served; {killed} new processes killed before",
            percentile(took.iter().copied(), 0.5)
        ),
        failures(&asked),
        format!(
            "{echoing} of {opened} WebSockets echo after the last (aim all); {alive} processes then, one per upgrade with WebSockets of its own"
        ),
    ];
    wrong.truncate(3);
    notes.extend(wrong);
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// The serving process is killed while the new one starts: that one has the sockets, and serves. What was open in the old one is cut, and its last
/// log lines are gone, so the log is not joined.
pub(super) fn killed_old(context: &Context) -> io::Result<Found> {
    let program = Program::new(&context.portunus)?;
    let mut site = Site::start(&program.path(), Wish::default())?;
    let mut serving = site.gate.id();
    let mut processes = vec![serving];
    let load = Load::start(Plan::usual(site.plain()));
    for turn in 0..KILLS {
        pause(context.time / KILLS);
        program.delay()?;
        let given = site.diagnostics().matches("has been given everything").count();
        let asking = std::thread::scope(|scope| {
            let asking = scope.spawn(|| site.admin_within("POST", "/upgrade", PATIENCE));
            let new = child_of(serving)?;
            processes.push(new);
            // It must have been given everything, and must not have begun.
            let is_given = || site.diagnostics().matches("has been given everything").count() > given;
            while !is_given() && is_alive(new) {
                pause(Duration::from_millis(5));
            }
            pause(DELAY * turn / KILLS / 2);
            kill(serving, Signal::KILL);
            serving = new;
            io::Result::Ok(asking.join())
        })?;
        drop(asking);
        program.restore()?;
        // The heir is up when it takes over from itself.
        let until = Instant::now() + PATIENCE;
        serving = loop {
            match upgrade(&site) {
                Ok(pid) => break pid,
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => pause(Duration::from_millis(20)),
            }
        };
        processes.push(serving);
    }
    pause(context.time / KILLS);
    let asked = load.finish();
    end(&processes)?;
    let _ = site.wait_for_gate(PATIENCE)?;
    let notes = vec![format!("{KILLS} serving processes killed while the new one started"), failures(&asked)];
    Ok(Found { decision: site.check_with(&asked, &None)?, notes })
}

fn failures(asked: &[Asked]) -> String {
    let count = |is: fn(&Outcome) -> bool| asked.iter().filter(|one| is(&one.outcome)).count();
    format!(
        "{} connects refused (aim 0), {} requests reset or cut, {} not OK in all",
        count(|outcome| *outcome == Outcome::Rejected),
        count(|outcome| matches!(outcome, Outcome::Reset | Outcome::Cut(_))),
        asked.iter().filter(|one| !one.is_ok()).count()
    )
}

/// Upgrades; gives the number of the process that serves now.
fn upgrade(site: &Site) -> io::Result<u32> {
    let (status, body) = site.admin_within("POST", "/upgrade", PATIENCE)?;
    let account: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let pid = account["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.filter(|_| status == 200).ok_or_else(|| io::Error::other(format!("the upgrade was answered {status}: {body}")))
}

/// How far a new process has come when it is killed, as its threads show it. All are before it serves.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It has just been made.
    Started,
    /// It has read its configuration, and reads what it is given.
    Diagnostics,
    /// It has everything, and loads.
    Log,
}

impl Step {
    const ALL: [Step; 3] = [Step::Started, Step::Diagnostics, Step::Log];

    fn is_reached(self, pid: u32) -> bool {
        let thread = match self {
            Step::Started => return true,
            Step::Diagnostics => "diagnostics",
            Step::Log => "access-log",
        };
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).any(|name| name.trim() == thread)
    }
}

/// Begins an upgrade and kills the new process at this step.
fn kill_new(site: &Site, serving: u32, step: Step) -> io::Result<()> {
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| site.admin_within("POST", "/upgrade", PATIENCE));
        let new = child_of(serving)?;
        while !step.is_reached(new) && is_alive(new) && !asking.is_finished() {
            std::hint::spin_loop();
        }
        kill(new, Signal::KILL);
        let (status, body) = asking.join().map_err(|_| io::Error::other("asking panicked"))??;
        match status {
            422 => Ok(()),
            _ => Err(io::Error::other(format!("killed at {step:?}, and the upgrade answered {status}: {body}"))),
        }
    })
}

/// Waits for a process to start another one.
fn child_of(parent: u32) -> io::Result<u32> {
    let until = Instant::now() + PATIENCE;
    loop {
        let numbers = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut children = numbers.filter(|pid| is_alive(*pid) && parent_of(*pid) == Some(parent));
        match children.next() {
            Some(child) => return Ok(child),
            None if Instant::now() > until => return Err(io::Error::other("no new process was started")),
            None => pause(Duration::from_millis(1)),
        }
    }
}

/// State and parent of a process, from `/proc/PID/stat`: behind the name, which may hold anything.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = text.rsplit_once(')')?.1.split_whitespace();
    Some((rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| is_alive(pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Ends the process that serves, and waits for all of them.
fn end(processes: &[u32]) -> io::Result<()> {
    processes.last().into_iter().for_each(|last| kill(*last, Signal::TERM));
    let until = Instant::now() + PATIENCE * 2;
    while processes.iter().any(|pid| is_alive(*pid)) {
        if Instant::now() > until {
            processes.iter().for_each(|pid| kill(*pid, Signal::KILL));
            return Err(io::Error::other("a process did not end, and was killed"));
        }
        pause(Duration::from_millis(20));
    }
    Ok(())
}

/// An upstream for WebSockets: switches protocols, and sends back what comes.
fn echo_server() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            drop(std::thread::Builder::new().spawn(move || drop(echo(stream))));
        }
    })?;
    Ok(address)
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    read_head(&mut stream)?;
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")?;
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => stream.write_all(bytes.get(..count).unwrap_or_default())?,
        }
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    Ok(head)
}

fn open_tunnel(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!("GET /echo HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").as_bytes(),
    )?;
    let head = read_head(&mut stream)?;
    if !head.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other(String::from_utf8_lossy(&head).into_owned()));
    }
    echoes(&mut stream)?;
    Ok(stream)
}

fn echoes(stream: &mut TcpStream) -> io::Result<()> {
    let sent = fastrand::u64(..).to_be_bytes();
    stream.write_all(&sent)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    if received == sent { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
