//! The attack mix: slow heads, header bombs, rapid resets, connection floods and malformed requests beside good traffic, while an upstream is
//! killed and the configuration reloaded.
//!
//! Every attacker is bounded in connections and pace and stays on the loopback interface. What is reported is what good traffic felt, and the gate's memory.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{Load, Plan, load_for, next_id};
use super::ledger::Asked;
use super::recorder::{Shape, Wanted};
use super::site::{Site, Wish, signal};
use super::{Context, Found, percentile};
use crate::measure;
use crate::peers::{HOST, pause};

/// Heads that are held open at once, each growing by a byte now and then.
const SLOW_HEADS: usize = 100;
/// Between two bytes of each of them.
const SLOW_PACE: Duration = Duration::from_millis(300);
/// Between two connections of each other attacker.
const ATTACK_PACE: Duration = Duration::from_millis(2);
/// How long an attacker waits for a response.
const ATTACK_PATIENCE: Duration = Duration::from_secs(2);
/// Streams that one connection begins and resets, unless it is ended before.
const RESETS: usize = 5_000;
/// Between two reloads; upstreams are killed and restarted in turn with them.
const STEP: Duration = Duration::from_secs(1);

/// What the attackers met.
#[derive(Debug, Default)]
struct Tally {
    slow_heads: AtomicUsize,
    bombs: AtomicUsize,
    bombs_rejected: AtomicUsize,
    malformed: AtomicUsize,
    malformed_rejected: AtomicUsize,
    floods: AtomicUsize,
    resets: AtomicUsize,
    resets_ended: AtomicUsize,
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Quiet, then everything at once.
pub(super) fn mix(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish { health: true, ..Wish::default() })?;
    let gauge = "portunus_connections_open{";
    // `/steady` is not what the fault is done to: what it feels is the attack.
    let plan = Plan { prefix: "/steady", clients: 4, ..Plan::usual(site.plain()) };
    let quiet = load_for(plan, context.time / 3);
    let (idle, before) = (site.metric(gauge)?, measure::resident_kib(&[site.gate.id()]));
    measure::reset_peak(&[site.gate.id()]);
    let (tally, stop) = (Tally::default(), AtomicBool::new(false));
    let (plain, tls) = (site.plain(), site.tls());
    let (steady, app, turns) = std::thread::scope(|scope| {
        let attacks = Attacks { plain, tls, tally: &tally, stop: &stop };
        attacks.start(scope);
        let steady = Load::start(plan);
        let app = Load::start(Plan { clients: 4, ..Plan::usual(plain) });
        let turns = disturb(&mut site, context.time * 2 / 3);
        let asked = (steady.finish(), app.finish());
        stop.store(true, Ordering::Relaxed);
        turns.map(|turns| (asked.0, asked.1, turns))
    })?;
    let peak = measure::peak_kib(&[site.gate.id()]);
    let alive = site.gate.try_wait()?.is_none();
    let left = wait_for(&site, gauge, idle)? - idle;
    let p99 = |asked: &[Asked]| percentile(asked.iter().map(|one| one.took), 0.99);
    let unhappy = |asked: &[Asked]| asked.iter().filter(|one| !one.is_ok()).count();
    let mut notes = vec![
        format!(
            "good traffic to a server that lives: {} of {} not OK (aim 0), p99 {:.1?}, quiet {:.1?} (aim below twice)",
            unhappy(&steady),
            steady.len(),
            p99(&steady),
            p99(&quiet)
        ),
        format!("to the group with {turns} reloads, kills and restarts: {} of {} not OK", unhappy(&app), app.len()),
        format!(
            "resident {before} KiB before, {peak} at the most; {left:+} connections left open (aim 0); ended: {} (aim no)",
            !alive
        ),
    ];
    notes.push(tally.reported());
    let asked = [quiet, steady, app].concat();
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// Reloads, kills and restarts, one after the other; gives how many.
fn disturb(site: &mut Site, time: Duration) -> io::Result<u32> {
    let (started, mut turn) = (Instant::now(), 0);
    while started.elapsed() < time {
        pause(STEP.min(time / 4));
        turn += 1;
        match turn % 3 {
            1 => site.servers[0].kill(),
            2 => site.servers[0].restart()?,
            _ => {
                let text = site.config(&format!("trusted_proxies: \"10.0.0.{}\"\n", turn % 250));
                site.write_config(&text)?;
                signal(&mut site.gate, Signal::HUP);
            }
        }
    }
    site.servers[0].restart()?;
    Ok(turn)
}

/// The gauge, once it is down to `wanted` or has had its time: a gate may let a connection rest for a while.
fn wait_for(site: &Site, gauge: &str, wanted: f64) -> io::Result<f64> {
    let started = Instant::now();
    loop {
        let value = site.metric(gauge)?;
        if value <= wanted || started.elapsed() > Duration::from_secs(15) {
            return Ok(value);
        }
        pause(Duration::from_millis(100));
    }
}

/// The attackers, and what they share.
#[derive(Clone, Copy)]
struct Attacks<'a> {
    plain: SocketAddr,
    tls: SocketAddr,
    tally: &'a Tally,
    stop: &'a AtomicBool,
}

impl<'a> Attacks<'a> {
    fn start<'scope>(self, scope: &'scope Scope<'scope, 'a>) {
        scope.spawn(move || self.slow_heads());
        scope.spawn(move || self.until_stopped(|| self.bomb()));
        scope.spawn(move || self.until_stopped(|| self.malformed()));
        scope.spawn(move || self.until_stopped(|| self.flood()));
        scope.spawn(move || self.until_stopped(|| self.rapid_resets()));
    }

    fn until_stopped(self, attack: impl Fn() -> io::Result<()>) {
        while !self.stop.load(Ordering::Relaxed) {
            // A refused or broken connection is a response, too.
            let _ = attack();
            pause(ATTACK_PACE);
        }
    }

    /// Heads that never end; a connection that is ended is replaced.
    fn slow_heads(self) {
        let mut held: Vec<TcpStream> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            held.retain_mut(|stream| stream.write_all(b"a").is_ok());
            while held.len() < SLOW_HEADS {
                let Ok(mut stream) = TcpStream::connect(self.plain) else { break };
                let _ = stream.write_all(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ").as_bytes());
                count(&self.tally.slow_heads);
                held.push(stream);
            }
            pause(SLOW_PACE);
        }
    }

    /// Many fields, then one long one: more than a head may have.
    fn bomb(self) -> io::Result<()> {
        let fields = match self.tally.bombs.load(Ordering::Relaxed) % 2 {
            0 => "Cookie: a=b\r\n".repeat(5_000),
            _ => format!("Cookie: {}\r\n", "a=b; ".repeat(20_000)),
        };
        count(&self.tally.bombs);
        if self.ask(&format!("GET /bomb HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n"))? == Some(431) {
            count(&self.tally.bombs_rejected);
        }
        Ok(())
    }

    /// Requests that must reach nobody. Each bears a number that no client has asked with, so that the ledger tells if one does.
    fn malformed(self) -> io::Result<()> {
        let wanted = Wanted { id: next_id(), size: 0, wait: Duration::ZERO, shape: Shape::Length };
        let target = wanted.target("/steady");
        const WRONG: [&str; 6] = [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
            "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
            "X-A : b\r\n\r\n",
            "X-A: b\r\n c\r\n\r\n",
            "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        ];
        let number = self.tally.malformed.fetch_add(1, Ordering::Relaxed);
        let wrong = WRONG.get(number % WRONG.len()).copied().unwrap_or_default();
        let status = self.ask(&format!("POST {target} HTTP/1.1\r\nHost: {HOST}\r\n{wrong}"))?;
        if matches!(status, Some(400 | 501)) {
            count(&self.tally.malformed_rejected);
        }
        Ok(())
    }

    /// Connections that say nothing, or half a record, and go.
    fn flood(self) -> io::Result<()> {
        count(&self.tally.floods);
        let secure = self.tally.floods.load(Ordering::Relaxed).is_multiple_of(2);
        let mut stream = TcpStream::connect(if secure { self.tls } else { self.plain })?;
        if secure {
            stream.write_all(b"\x16\x03\x01\x02\x00\x01")?;
        }
        stream.shutdown(Shutdown::Both)
    }

    /// The status of what is answered to these bytes, if anything is.
    fn ask(self, message: &str) -> io::Result<Option<u16>> {
        let mut stream = TcpStream::connect(self.plain)?;
        stream.set_read_timeout(Some(ATTACK_PATIENCE))?;
        // It may be rejected before it is out.
        let _ = stream.write_all(message.as_bytes());
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(std::str::from_utf8(&start).ok().and_then(|start| start.get(9..)).and_then(|status| status.parse().ok()))
    }

    /// HTTP/2 streams that are begun and reset at once, through `openssl`, until the gate ends the connection.
    fn rapid_resets(self) -> io::Result<()> {
        count(&self.tally.resets);
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-alpn", "h2", "-servername", HOST, "-connect", &self.tls.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut input = client.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut ended =
            input.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").is_err();
        for number in 0..RESETS {
            if ended || self.stop.load(Ordering::Relaxed) {
                break;
            }
            ended = input.write_all(&begun_and_reset(number)).is_err();
            if number % 100 == 99 {
                pause(ATTACK_PACE);
                ended |= client.try_wait()?.is_some();
            }
        }
        if ended {
            count(&self.tally.resets_ended);
        }
        drop(input);
        let _ = client.kill();
        client.wait().map(|_| ())
    }
}

/// HEADERS of a whole request and RST_STREAM (CANCEL) for it, on the stream with this number (RFC 9113 §6.2, §6.4).
fn begun_and_reset(number: usize) -> Vec<u8> {
    let stream = u32::try_from(number * 2 + 1).unwrap_or(1).to_be_bytes();
    // `:method GET`, `:scheme https`, `:path /health`, `:authority` (RFC 7541 §6.1, §6.2.2).
    let mut block = vec![0x82, 0x87, 0x04, 7];
    block.extend_from_slice(b"/health");
    block.extend_from_slice(&[0x01, u8::try_from(HOST.len()).unwrap_or(0)]);
    block.extend_from_slice(HOST.as_bytes());
    let mut frames = vec![0, 0, u8::try_from(block.len()).unwrap_or(0), 0x01, 0x05];
    frames.extend_from_slice(&stream);
    frames.append(&mut block);
    frames.extend_from_slice(&[0, 0, 4, 0x03, 0]);
    frames.extend_from_slice(&stream);
    frames.extend_from_slice(&[0, 0, 0, 8]);
    frames
}

impl Tally {
    fn reported(&self) -> String {
        let number = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        format!(
            "attacks: {} slow heads, {} of {} header bombs answered 431, {} of {} malformed requests refused, {} empty connections, \
             {} of {} connections with rapid resets ended by the gate",
            number(&self.slow_heads),
            number(&self.bombs_rejected),
            number(&self.bombs),
            number(&self.malformed_rejected),
            number(&self.malformed),
            number(&self.floods),
            number(&self.resets_ended),
            number(&self.resets),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_length_they_say() {
        for number in [0, 1, 4_999] {
            let frames = begun_and_reset(number);
            let head = usize::from(frames[2]) + 9;
            assert_eq!((frames[3], frames[head + 2], frames[head + 3]), (0x01, 4, 0x03));
            assert_eq!(frames.len(), head + 13);
            assert_eq!(frames[5..9], frames[head + 5..head + 9]);
        }
    }
}
