//! Faults of the servers behind the gate: killed, frozen, dying within a response.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use super::client::{Load, Plan, load_for, next_id};
use super::ledger::{Asked, Hash, Outcome, Response};
use super::recorder::{Shape, Wanted, read_journal};
use super::site::{CHECK, HEADER_TIMEOUT, Site, Wish, signal};
use super::{Context, Found, percentile};
use crate::peers::{HOST, pause};

/// One of two servers is killed and started again, over and over.
pub(super) fn killed(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish { health: true, ..Wish::default() })?;
    // Long enough that each kill meets requests in flight.
    let load = Load::start(Plan { wait: Duration::from_millis(30), ..Plan::usual(site.plain()) });
    let (mut kills, mut kills_ms, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    let ends = Instant::now() + context.time;
    pause(Duration::from_millis(500));
    while Instant::now() < ends {
        kills.push(load.started.elapsed());
        kills_ms.push(now_ms());
        site.servers[0].kill();
        pause(context.time / 5);
        site.servers[0].restart()?;
        restarts.push(now_ms());
        pause(context.time / 5);
    }
    let asked = load.finish();
    let decision = site.check(&asked)?;
    let unhappy: Vec<&Asked> = asked.iter().filter(|one| !one.is_ok()).collect();
    let last_after_kill = unhappy.iter().filter_map(|one| {
        let kill = kills.iter().rev().find(|kill| **kill <= one.began + one.took)?;
        Some((one.began + one.took).saturating_sub(*kill))
    });
    let journal = read_journal(&site.servers[0].journal)?;
    let taken = |from: u64, to: u64| journal.iter().filter(move |noted| (from..to).contains(&noted.at_ms));
    let ends_ms = kills_ms.iter().skip(1).copied().chain([u64::MAX]);
    let back: Vec<Duration> = restarts
        .iter()
        .zip(ends_ms)
        .filter_map(|(from, to)| Some(Duration::from_millis(taken(*from, to).next()?.at_ms - from)))
        .collect();
    let gets = unhappy.iter().filter(|one| one.idempotent).count();
    Ok(Found {
        decision,
        notes: vec![
            format!("{} kills, {} requests not OK ({gets} of them GET)", kills.len(), unhappy.len()),
            format!("last one {:.0?} after its kill (aim 1 s)", last_after_kill.max().unwrap_or_default()),
            format!(
                "it was used again after {} of {} restarts, at worst {:.0?} later (a check: {CHECK:.0?}); {} requests came to it",
                back.len(),
                restarts.len(),
                back.iter().max().copied().unwrap_or_default(),
                journal.len() / 2
            ),
        ],
    })
}

/// One of two servers is stopped, with its connections open; another group is loaded beside it.
pub(super) fn frozen(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let load = Load::start(Plan::usual(site.plain()));
    let steady = Load::start(Plan { prefix: "/steady", clients: 4, ..Plan::usual(site.plain()) });
    let quarter = context.time / 4;
    pause(quarter);
    let stopped = load.started.elapsed();
    signal(&mut site.servers[0].child, Signal::STOP);
    pause(quarter * 2);
    signal(&mut site.servers[0].child, Signal::CONT);
    let resumed = load.started.elapsed();
    pause(quarter);
    let (mut asked, beside) = (load.finish(), steady.finish());
    let during = |one: &&Asked| one.began >= stopped && one.began < resumed;
    let p99 = |wanted: bool| percentile(beside.iter().filter(|one| during(one) == wanted).map(|one| one.took), 0.99);
    let late: Vec<Duration> = asked.iter().filter(|one| one.status() == Some(504)).map(|one| one.took).collect();
    let others = asked.iter().filter(during).filter(|one| !one.is_ok() && one.status() != Some(504)).count();
    let settled = resumed + HEADER_TIMEOUT;
    let after = asked.iter().filter(|one| one.began > settled && !one.is_ok()).count();
    let notes = vec![
        format!(
            "{} answers 504 after {:.0?} to {:.0?} (deadline {HEADER_TIMEOUT:.0?})",
            late.len(),
            late.iter().min().copied().unwrap_or_default(),
            late.iter().max().copied().unwrap_or_default()
        ),
        format!("{others} other failures while frozen, {after} failures from {HEADER_TIMEOUT:.0?} after it went on"),
        format!("p99 of the other group {:.1?} while frozen, {:.1?} otherwise", p99(true), p99(false)),
    ];
    asked.extend(beside);
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// Servers that end within their responses: closing, resetting, killed.
pub(super) fn dies_within_response(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let broken = Plan {
        shapes: &[Shape::HalfEnd, Shape::ChunkedHalfEnd, Shape::HalfReset],
        sizes: &[100, 5_000, 60_000],
        ..Plan::usual(site.plain())
    };
    let mut asked = load_for(broken, context.time / 2);
    let not_cut = asked.iter().filter(|one| one.is_ok()).count();
    let reset = asked.iter().filter(|one| !matches!(one.outcome, Outcome::Cut(_))).count();
    let mut notes = vec![format!(
        "{} broken answers: {not_cut} looked whole, {reset} ended without a head or with 5xx",
        asked.len()
    )];
    notes.push(cut_over_tls(&site, &mut asked));
    let load = Load::start(Plan { shapes: &[Shape::Trickle], ..broken });
    let ends = Instant::now() + context.time / 2;
    while Instant::now() < ends {
        pause(Duration::from_millis(450));
        for server in &mut site.servers[..2] {
            server.restart()?;
        }
    }
    let killed = load.finish();
    let cut = killed.iter().filter(|one| matches!(one.outcome, Outcome::Cut(_))).count();
    notes.push(format!(
        "kill -9 within {} trickling answers: {cut} cut, {} whole",
        killed.len(),
        killed.iter().filter(|one| one.is_ok()).count()
    ));
    asked.extend(killed);
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// curl as check of what a client sees over TLS, both versions of HTTP, of responses that break off.
fn cut_over_tls(site: &Site, asked: &mut Vec<Asked>) -> String {
    let mut reported = Vec::new();
    for (version, shape) in [
        ("--http2", Shape::HalfEnd),
        ("--http2", Shape::ChunkedHalfEnd),
        ("--http1.1", Shape::HalfEnd),
        ("--http1.1", Shape::ChunkedHalfEnd),
    ] {
        let wanted = Wanted { id: next_id(), size: 60_000, wait: Duration::ZERO, shape };
        let (address, port) = (site.tls(), site.tls().port());
        let status = Command::new("curl")
            .args(["--silent", "--insecure", "--output", "/dev/null", "--max-time", "5", version])
            .args(["--resolve", &format!("{HOST}:{port}:{}", address.ip())])
            .arg(format!("https://{HOST}:{port}{}", wanted.target("/steady")))
            .status();
        let code = match status {
            Ok(status) => status.code().unwrap_or_default(),
            Err(error) => return format!("over TLS not checked: curl: {error}"),
        };
        // A clean end of what was cut has no hash to show for it, so the join counts it as such.
        let clean = Response { status: 200, id: Some(wanted.id), received: None, promised: None, body: 0 };
        let outcome = if code == 0 { Outcome::Answered(clean) } else { Outcome::Cut(200) };
        let zero = Duration::ZERO;
        asked.push(Asked { id: wanted.id, idempotent: true, sent: Hash::of(b""), outcome, began: zero, took: zero });
        reported.push(format!("{} {} {code}", &version[2..], shape.name()));
    }
    format!("curl over TLS (0 would be a clean end): {}", reported.join(", "))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
