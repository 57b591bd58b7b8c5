//! Faults of the key servers behind an edge without keys: one killed, then both; one frozen, then both. Under full handshakes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::key_site::{End, KeySite, Visit};
use super::ledger::Decision;
use super::{Context, Found, percentile};
use crate::peers::pause;

/// Handshakes at once.
const CLIENTS: usize = 8;

/// One of two key servers is killed, later both; then both come back.
pub(super) fn killed(context: &Context) -> io::Result<Found> {
    let mut site = KeySite::start(&context.portunus)?;
    let (steady, load) = (Steady::start(&site)?, site.load(CLIENTS)?);
    let quarter = context.time / 4;
    pause(quarter);
    let one = load.started.elapsed();
    site.servers[0].kill();
    pause(quarter);
    let both = load.started.elapsed();
    site.servers[1].kill();
    pause(quarter);
    site.servers[0].restart()?;
    site.servers[1].restart()?;
    let back = load.started.elapsed();
    let recovery = site.wait_for_success()?;
    pause(quarter);
    report(&site, load.finish(), steady.finish(), [one, both, back], recovery)
}

/// One of two key servers is stopped with its connections open, later both; then both go on.
pub(super) fn frozen(context: &Context) -> io::Result<Found> {
    let mut site = KeySite::start(&context.portunus)?;
    let (steady, load) = (Steady::start(&site)?, site.load(CLIENTS)?);
    let quarter = context.time / 4;
    pause(quarter);
    let one = load.started.elapsed();
    site.servers[0].freeze(true);
    pause(quarter);
    let both = load.started.elapsed();
    site.servers[1].freeze(true);
    pause(quarter);
    site.servers.iter_mut().for_each(|server| server.freeze(false));
    let back = load.started.elapsed();
    let recovery = site.wait_for_success()?;
    pause(quarter);
    report(&site, load.finish(), steady.finish(), [one, both, back], recovery)
}

/// `since`: when one server was lost, when both were, when both were back.
fn report(
    site: &KeySite,
    visits: Vec<Visit>,
    steady: io::Result<Vec<(Duration, Duration)>>,
    since: [Duration; 3],
    recovery: Duration,
) -> io::Result<Found> {
    let [one, both, back] = since;
    let count = |end: End| visits.iter().filter(|visit| visit.end == end).count() as u64;
    let failed = |from: Duration, to: Duration| {
        let ended = |visit: &Visit| visit.began + visit.took;
        visits.iter().filter(|one| one.end != End::Answered && ended(one) >= from && ended(one) < to).count()
    };
    let longest = visits.iter().map(|visit| visit.took).max().unwrap_or_default();
    let steady = steady?;
    let during = |wanted: bool| {
        let took = steady.iter().filter(|(began, _)| (*began >= one && *began < back) == wanted).map(|(_, took)| *took);
        percentile(took, 0.99)
    };
    // The log is written a moment after.
    pause(Duration::from_millis(500));
    let decision = Decision {
        requests: visits.len() as u64,
        ok: count(End::Answered),
        rejected_5xx: count(End::Alert),
        reset: count(End::Cut),
        hung: count(End::Hung),
        unlogged: count(End::Alert).saturating_sub(site.logged_failures() as u64),
        ..Decision::default()
    };
    Ok(Found {
        decision,
        notes: vec![
            "handshakes instead of requests; alerts stand under 5xx".to_owned(),
            format!(
                "{} failed with one server lost, {} with both, {} later",
                failed(one, both),
                failed(both, back),
                failed(back, Duration::MAX)
            ),
            format!("the longest handshake took {longest:.0?} (aim 2 s)"),
            format!("{recovery:.0?} from their return to the first success (aim 1 s)"),
            format!(
                "p99 of an established connection {:.1?} meanwhile, {:.1?} otherwise; {} requests, all answered",
                during(true),
                during(false),
                steady.len()
            ),
        ],
    })
}

/// A connection that was there before the fault, and asks one request after the other.
struct Steady {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<io::Result<Vec<(Duration, Duration)>>>,
}

impl Steady {
    fn start(site: &KeySite) -> io::Result<Steady> {
        let mut open = site.client()?.open().map_err(|end| io::Error::other(format!("{end:?}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let reported = Arc::clone(&stop);
        let started = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut asked = Vec::new();
            while !reported.load(Ordering::Relaxed) {
                let began = started.elapsed();
                open.ask()?;
                asked.push((began, started.elapsed() - began));
                pause(Duration::from_millis(2));
            }
            Ok(asked)
        });
        Ok(Steady { stop, thread })
    }

    fn finish(self) -> io::Result<Vec<(Duration, Duration)>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the steady client panicked")))
    }
}
