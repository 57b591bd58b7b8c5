//! What only shows over time or at a limit of memory: the soak, and slow uploads under a memory limit.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{Load, Plan, load_for};
use super::site::{Site, Wish, signal};
use super::{Context, Found};
use crate::measure;
use crate::peers::{HOST, pause};

/// What the gate may use.
const MEMORY_LIMIT: u64 = 256 * 1024 * 1024;
/// Clients that upload at once, and how much each would send.
const UPLOADS: usize = 300;
const UPLOAD_BYTES: usize = 8 * 1024 * 1024;

/// Load, a reload now and then and a killed upstream now and then, while memory and descriptors are watched.
pub(super) fn soak(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish { health: true, ..Wish::default() })?;
    let load = Load::start(Plan::usual(site.plain()));
    let step = (context.time / 60).max(Duration::from_millis(200));
    let (mut samples, mut turn) = (Vec::new(), 0_u32);
    let started = Instant::now();
    while started.elapsed() < context.time {
        pause(step);
        turn += 1;
        if turn.is_multiple_of(5) {
            let text = site.config(&format!("trusted_proxies: \"10.0.0.{}\"\n", turn % 250));
            site.write_config(&text)?;
            signal(&mut site.gate, Signal::HUP);
        }
        match turn % 10 {
            3 => site.servers[0].kill(),
            6 => site.servers[0].restart()?,
            _ => {}
        }
        let resident = measure::resident_kib(&[site.gate.id()]) as f64;
        samples.push((started.elapsed().as_secs_f64(), resident, site.open_descriptors() as f64));
    }
    site.servers[0].restart()?;
    let asked = load.finish();
    let panics = site.diagnostics().matches("panic").count();
    // The first third warms the pools up.
    let settled = samples.get(samples.len() / 3..).unwrap_or_default();
    let slope = |pick: fn(&(f64, f64, f64)) -> f64| slope(settled.iter().map(|sample| (sample.0, pick(sample))));
    let (memory, descriptors) = (slope(|sample| sample.1), slope(|sample| sample.2));
    let last = settled.last().copied().unwrap_or_default();
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let notes = vec![
        format!(
            "{:.0} s, {} reloads, {} kills: {unhappy} of {} not OK",
            last.0,
            turn / 5,
            (turn + 6) / 10,
            asked.len()
        ),
        format!(
            "resident {:.0} KiB at the end, slope {memory:+.2} KiB/s; {} descriptors, slope {descriptors:+.3}/s",
            last.1, last.2
        ),
        format!(
            "{panics} panics (aim 0); with no failure in N requests the rate is below 3/N = {:.5} (95 %)",
            3.0 / asked.len().max(1) as f64
        ),
    ];
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// Least squares.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = points.clone().count().max(1) as f64;
    let (x, y) = points.clone().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let (over, under) =
        points.fold((0.0, 0.0), |sum, point| (sum.0 + (point.0 - x) * (point.1 - y), sum.1 + (point.0 - x).powi(2)));
    if under > 0.0 { over / under } else { 0.0 }
}

/// Many large uploads to an upstream that takes nothing, in a control group with little memory.
pub(super) fn memory_limit(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let group = Group::new(MEMORY_LIMIT)?;
    group.add(site.gate.id())?;
    signal(&mut site.servers[2].child, Signal::STOP);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = site.plain();
    let mut peak = 0;
    let asked = std::thread::scope(|scope| {
        for _ in 0..UPLOADS {
            scope.spawn(|| upload(address, &stop, &sent));
        }
        let asked = load_for(Plan { clients: 2, ..Plan::usual(address) }, context.time);
        peak = measure::peak_kib(&[site.gate.id()]);
        stop.store(true, Ordering::Relaxed);
        asked
    });
    signal(&mut site.servers[2].child, Signal::CONT);
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let alive = site.gate.try_wait()?.is_none();
    let notes = vec![
        format!(
            "{UPLOADS} uploads took {} KiB of {} each before the gate held them back",
            sent.load(Ordering::Relaxed) / 1024 / UPLOADS as u64,
            UPLOAD_BYTES / 1024
        ),
        format!("resident at the most {peak} KiB; the group {} KiB of {}", group.peak()? / 1024, MEMORY_LIMIT / 1024),
        format!("killed for memory: {} (aim no); other requests: {}, {unhappy} not OK (aim 0)", !alive, asked.len()),
    ];
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// Sends as much as is taken until told to stop.
fn upload(address: SocketAddr, stop: &AtomicBool, sent: &AtomicU64) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
    let head = format!("POST /upload HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    let (piece, mut count) = ([b'u'; 16 * 1024], 0);
    while count < UPLOAD_BYTES && !stop.load(Ordering::Relaxed) {
        match stream.write(&piece[..piece.len().min(UPLOAD_BYTES - count)]) {
            Ok(taken) => {
                count += taken;
                sent.fetch_add(taken as u64, Ordering::Relaxed);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
    while !stop.load(Ordering::Relaxed) {
        pause(Duration::from_millis(50));
    }
}

/// A control group with a limit of memory, of either version.
struct Group {
    path: PathBuf,
    peak: &'static str,
}

impl Group {
    fn new(limit: u64) -> io::Result<Group> {
        let name = format!("portunus-faults-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory");
        let (path, file, peak) = if first.is_dir() {
            (first.join(name), "memory.limit_in_bytes", "memory.max_usage_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup").join(name), "memory.max", "memory.peak")
        };
        fs::create_dir(&path)?;
        let group = Group { path, peak };
        fs::write(group.path.join(file), limit.to_string())?;
        Ok(group)
    }

    fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), process.to_string())
    }

    fn peak(&self) -> io::Result<u64> {
        fs::read_to_string(self.path.join(self.peak))?.trim().parse().map_err(io::Error::other)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended, or the group stays and says so by being there.
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes() {
        let line = |rise: f64| (0..10).map(move |x| (f64::from(x), 5.0 + rise * f64::from(x)));
        for rise in [0.0, 2.0, -0.5] {
            assert!((slope(line(rise)) - rise).abs() < 1e-9, "{rise}");
        }
        assert!(slope(std::iter::empty()).abs() < 1e-9);
    }
}
