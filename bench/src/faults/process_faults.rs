//! Faults that are done to the gate's process by its operator: reloads, SIGTERM, SIGSTOP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{Load, PATIENCE, Plan};
use super::ledger::Outcome;
use super::recorder::Shape;
use super::site::{GRACE, HEADER_TIMEOUT, Site, Wish, signal};
use super::{Context, Found, percentile};
use crate::measure;
use crate::peers::{HOST, pause};

const RELOADS: u32 = 100;

/// How long the whole process is stopped.
const STOPPED: Duration = Duration::from_secs(3);

/// A hundred reloads under load, by signal and by the admin side in turn: the same file, a changed one, an invalid one.
pub(super) fn reloads(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let load = Load::start(Plan::usual(site.plain()));
    let http2 = http2_load(&site, context.time);
    pause(Duration::from_secs(1));
    let memory = |site: &Site| (site.open_descriptors(), measure::resident_kib(&[site.gate.id()]));
    let (valid, mut wrong) = (site.config(""), Vec::new());
    let half = valid.get(..valid.len() / 2).unwrap_or_default().to_owned();
    let changed = |turn: u32| site.config(&format!("trusted_proxies: \"10.0.0.{turn}\"\n"));
    let texts: Vec<String> = (0..RELOADS)
        .map(|turn| match turn % 3 {
            0 => valid.clone(),
            1 => changed(turn),
            _ => half.clone(),
        })
        .collect();
    let mut before = (0, 0);
    for (turn, text) in (0..RELOADS).zip(&texts) {
        if turn == RELOADS / 10 {
            before = memory(&site);
        }
        site.write_config(text)?;
        if turn % 2 == 0 {
            signal(&mut site.gate, Signal::HUP);
        } else {
            let expected = if turn % 3 == 2 { 422 } else { 200 };
            match site.admin("POST", "/reload") {
                Ok((status, _)) if status == expected => {}
                Ok((status, _)) => wrong.push(format!("reload {turn} was answered {status}, not {expected}")),
                Err(error) => wrong.push(format!("reload {turn}: {error}")),
            }
        }
        pause(context.time / RELOADS);
    }
    pause(Duration::from_secs(1));
    let after = memory(&site);
    let asked = load.finish();
    let counted = |result| site.metric(&format!("portunus_config_reloads_total{{result=\"{result}\"}}"));
    let (taken, rejected) = (counted("success")?, counted("failure")?);
    let http2 = http2.map_or_else(|error| format!("h2load: {error}"), http2_result);
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let mut notes = vec![
        format!("{taken} reloads taken, {rejected} rejected of {RELOADS} asked for; {unhappy} requests not OK (aim 0)"),
        format!("descriptors {} to {}, resident {} to {} KiB", before.0, after.0, before.1, after.1),
        http2,
    ];
    wrong.truncate(3);
    notes.extend(wrong);
    Ok(Found { decision: site.check(&asked)?, notes })
}

fn http2_load(site: &Site, time: Duration) -> io::Result<std::process::Child> {
    let address = site.tls();
    Command::new("h2load")
        .args(["--clients", "2", "--max-concurrent-streams", "4", "--rps", "50"])
        .args(["--requests", &(time.as_secs() * 100).to_string()])
        .args(["--connect-to", &address.to_string(), &format!("https://{HOST}/health")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

fn http2_result(child: std::process::Child) -> String {
    let output = child.wait_with_output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    let counts = text.lines().find_map(|line| line.strip_prefix("requests: ")).unwrap_or("nothing said");
    format!("HTTP/2 beside it: {counts}")
}

/// SIGTERM with requests in flight that end within the grace.
pub(super) fn drain(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    // Longer than it takes to stop the load, shorter than the deadline for a head.
    let slow =
        Plan { wait: HEADER_TIMEOUT * 6 / 10, shapes: &[Shape::Trickle, Shape::Length], ..Plan::usual(site.plain()) };
    let load = Load::start(slow);
    pause(context.time / 4);
    let (reported, at) = (load.started.elapsed(), Instant::now());
    signal(&mut site.gate, Signal::TERM);
    let ended = site.wait_for_gate(GRACE + Duration::from_secs(5))?;
    let took = at.elapsed();
    let asked = load.finish();
    let in_flight = || asked.iter().filter(|one| one.began < reported && one.began + one.took > reported);
    let cut = in_flight().filter(|one| !one.is_ok()).count();
    let later = || asked.iter().filter(|one| one.began >= reported);
    let reset = later().filter(|one| matches!(one.outcome, Outcome::Reset | Outcome::Cut(_))).count();
    let rejected = later().filter(|one| one.outcome == Outcome::Rejected).count();
    let answered = later().filter(|one| one.is_ok()).count();
    let notes = vec![
        format!(
            "{} in flight at SIGTERM, {cut} of them not OK (aim 0); ended after {took:.1?} with {ended:?}",
            in_flight().count()
        ),
        format!("begun later: {answered} answered, {rejected} rejected, {reset} reset or cut (aim 0)"),
    ];
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// A request that outlives the grace must be cut visibly, and the process end in time and say so.
pub(super) fn beyond_grace(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let wait = GRACE + Duration::from_secs(3);
    let load = Load::start(Plan { prefix: "/steady", clients: 2, wait, ..Plan::usual(site.plain()) });
    pause(Duration::from_millis(500));
    let at = Instant::now();
    signal(&mut site.gate, Signal::TERM);
    pause(Duration::from_millis(500));
    let late = late_connection(&site);
    let ended = site.wait_for_gate(wait)?;
    let took = at.elapsed();
    let asked = load.finish();
    let decision = site.check(&asked)?;
    let outcomes =
        asked.iter().filter(|one| one.outcome != Outcome::Rejected).map(|one| one.outcome).collect::<Vec<_>>();
    let notes = vec![
        format!(
            "ended after {took:.1?} of {GRACE:.0?} with {ended:?} (aim: not 0); in flight: {outcomes:?} (aim: no 200)"
        ),
        late,
    ];
    Ok(Found { decision, notes })
}

/// What becomes of a connection that comes while the gate drains: refused, it can go elsewhere at once.
fn late_connection(site: &Site) -> String {
    let at = Instant::now();
    let connected = TcpStream::connect_timeout(&site.plain(), Duration::from_secs(1));
    let Ok(mut stream) = connected else { return "a connection 0.5 s after SIGTERM was rejected".to_owned() };
    let end = stream
        .set_read_timeout(Some(GRACE * 2))
        .and_then(|()| stream.write_all(format!("GET /health HTTP/1.1\r\nHost: {HOST}\r\n\r\n").as_bytes()))
        .and_then(|()| stream.read(&mut [0; 64]));
    format!(
        "a connection 0.5 s after SIGTERM was taken, and ended after {:.1?} with {end:?} (aim: rejected at once)",
        at.elapsed()
    )
}

/// The whole process stopped for longer than its deadlines, then continued.
pub(super) fn stopped(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let load = Load::start(Plan { wait: Duration::from_millis(30), ..Plan::usual(site.plain()) });
    pause(context.time / 3);
    let from = load.started.elapsed();
    signal(&mut site.gate, Signal::STOP);
    pause(STOPPED);
    signal(&mut site.gate, Signal::CONT);
    let to = load.started.elapsed();
    pause(context.time / 3);
    let asked = load.finish();
    let in_flight: Vec<_> = asked.iter().filter(|one| one.began < to && one.began + one.took > from).collect();
    let false_timeouts = in_flight.iter().filter(|one| one.status() == Some(504)).count();
    let other = in_flight.iter().filter(|one| !one.is_ok()).count() - false_timeouts;
    let after: Vec<_> = asked.iter().filter(|one| one.began >= to).collect();
    let settled = percentile(after.iter().map(|one| one.took), 0.99);
    let notes = vec![
        format!(
            "{} in flight over {STOPPED:.0?}: {false_timeouts} answered 504 though their response lay ready (aim 0), {other} failed otherwise",
            in_flight.len()
        ),
        format!(
            "begun later: {} requests, {} not OK, p99 {settled:.1?}",
            after.len(),
            after.iter().filter(|one| !one.is_ok()).count()
        ),
    ];
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// Requests that panic, each on a connection of its own, beside the usual load: each may end itself and nothing else.
pub(super) fn panics(context: &Context) -> io::Result<Found> {
    let missing = || io::Error::other("no --panicking program (build portunus with the feature forced-panics)");
    let mut site = Site::start(context.panicking.as_deref().ok_or_else(missing)?, Wish::default())?;
    let gauge = "portunus_connections_open{listener=\"plain\"}";
    // The admin side comes up last.
    pause(Duration::from_millis(500));
    let before = site.metric(gauge)?;
    let load = Load::start(Plan::usual(site.plain()));
    let (mut forced, mut answered) = (0, 0);
    while load.started.elapsed() < context.time {
        let mut stream = TcpStream::connect(site.plain())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET /panic HTTP/1.1\r\nHost: {HOST}\r\n\r\n").as_bytes())?;
        // A reset is an end as good as any.
        answered += usize::from(stream.read(&mut [0; 1]).is_ok_and(|count| count > 0));
        forced += 1;
        pause(Duration::from_millis(50));
    }
    let asked = load.finish();
    let waited = Instant::now();
    while site.metric(gauge)? > before && waited.elapsed() < PATIENCE {
        pause(Duration::from_millis(50));
    }
    let left = site.metric(gauge)? - before;
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let replaced = site.diagnostics().matches("a worker died").count();
    let decision = site.check(&asked)?;
    let reported = site.logged_reasons("panicked");
    let notes = vec![
        format!("{forced} panics forced, {answered} of them answered (aim 0), {reported} told in the log (aim all)"),
        format!(
            "{unhappy} other requests not OK (aim 0); {replaced} workers lost (aim 0); {left} connections still counted as open (aim 0)"
        ),
    ];
    Ok(Found { decision, notes })
}
