//! Faults of what the gate lives on: descriptors, the log's target, the files of its certificates.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::client::{Load, Plan, load_for};
use super::ledger::{Asked, Decision};
use super::site::{Site, Wish, parse_log_line};
use super::{Context, Found};
use crate::measure;
use crate::peers::{HOST, pause};

/// Connections that take what descriptors are left.
const GREEDY: usize = 200;
/// Descriptors left to the gate when its limit is lowered.
const SPARE: u64 = 8;

/// The limit of descriptors is lowered under load to a little more than what is open, and connections take the rest.
pub(super) fn descriptors(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let plan = Plan { clients: 4, pace: Duration::from_millis(50), ..Plan::usual(site.plain()) };
    let load = Load::start(plan);
    pause(context.time / 4);
    let idle = cpu_share(&site, context.time / 5);
    let lines = site.diagnostics().lines().count();
    let open = site.open_descriptors();
    let old = site.limit_descriptors(Some(open + SPARE))?;
    let from = load.started.elapsed();
    let address = site.plain();
    // The kernel completes these, whether the gate accepts them or not.
    let greedy: Vec<_> =
        (0..GREEDY).filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()).collect();
    let started = Instant::now();
    let busy = cpu_share(&site, context.time / 4);
    let admin = match site.admin("GET", "/metrics") {
        Ok((status, _)) => status.to_string(),
        Err(error) => format!("none ({error})"),
    };
    let reported = site.diagnostics().lines().count() - lines;
    let reported = format!("{reported} lines in {:.1?}", started.elapsed());
    let to = load.started.elapsed();
    site.limit_descriptors(old)?;
    drop(greedy);
    let back = Instant::now();
    let asked_again = load_for(Plan { clients: 1, pace: Duration::from_millis(1), ..plan }, Duration::from_millis(10));
    let back = back.elapsed();
    pause(context.time / 4);
    let mut asked = load.finish();
    let during: Vec<&Asked> = asked.iter().filter(|one| one.began >= from && one.began < to).collect();
    let notes = vec![
        format!(
            "limit {} with {GREEDY} connections more: {} requests in that time, {} not OK",
            open + SPARE,
            during.len(),
            during.iter().filter(|one| !one.is_ok()).count()
        ),
        format!(
            "CPU {:.1} % of a core, {:.1} % before (aim: not 5 % more); log {reported} (aim 1/s); admin answered {admin}",
            busy * 100.0,
            idle * 100.0
        ),
        format!("statuses in that time: {:?}", statuses(&during)),
        format!("a new connection was served {back:.0?} after the limit was lifted"),
        format!("the log: {}", site.frequent_diagnostics(lines)),
    ];
    asked.extend(asked_again);
    Ok(Found { decision: site.check(&asked)?, notes })
}

/// How often each status came; 0 stands for none.
fn statuses(asked: &[&Asked]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for one in asked {
        *counts.entry(one.status().unwrap_or_default()).or_default() += 1;
    }
    counts
}

fn cpu_share(site: &Site, time: Duration) -> f64 {
    let gate = [site.gate.id()];
    let (before, started) = (measure::cpu_time(&gate), Instant::now());
    pause(time);
    measure::cpu_time(&gate).saturating_sub(before).as_secs_f64() / started.elapsed().as_secs_f64()
}

/// As many lines as can be had, so that what the gate keeps of them overflows.
fn many_lines(site: &Site) -> Plan {
    Plan { pace: Duration::ZERO, sizes: &[100], ..Plan::usual(site.plain()) }
}

/// An access log that cannot be written: a full disk.
pub(super) fn log_full(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish { log: Some(PathBuf::from("/dev/full")), ..Wish::default() })?;
    let asked = load_for(many_lines(&site), context.time);
    pause(Duration::from_secs(1));
    let (written, dropped) = log_lines(&site)?;
    let reported = site.diagnostics().lines().count();
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let (ended, took) = end(&mut site)?;
    let notes = vec![
        format!(
            "{unhappy} requests not OK (aim 0); metrics: {written} lines written, {dropped} dropped, the others of {} wait",
            asked.len()
        ),
        format!("{reported} diagnostic lines in {:.0?}; SIGTERM: {ended} after {took:.1?}", context.time),
        format!("said at the end: {}", site.frequent_diagnostics(reported)),
    ];
    Ok(Found { decision: site.check_with(&asked, &None)?, notes })
}

/// An access log that is a named pipe whose reader is stuck, then reads on.
pub(super) fn log_stuck(context: &Context) -> io::Result<Found> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    let reader = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path)?;
    let mut site = Site::start(&context.portunus, Wish { log: Some(path.clone()), ..Wish::default() })?;
    let asked = load_for(many_lines(&site), context.time);
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let (_, stuck) = log_lines(&site)?;
    // It reads on, while the gate hands over what it has kept.
    let mut text = drain_pipe(&reader, Duration::from_secs(3));
    let (written, dropped) = log_lines(&site)?;
    let (ended, took) = end(&mut site)?;
    text.extend(drain_pipe(&reader, Duration::from_millis(200)));
    let text = String::from_utf8_lossy(&text).into_owned();
    let half = text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_err()).count();
    let logged: HashMap<_, _> = text.lines().filter_map(parse_log_line).collect();
    let missing = asked.iter().filter(|one| !logged.contains_key(&one.id)).count();
    let decision = site.check_with(&asked, &None)?;
    let notes = vec![
        format!("{unhappy} requests not OK (aim 0); {stuck} lines dropped while stuck"),
        format!(
            "after it reads on: {written} written, {dropped} dropped by metric, {missing} missing by the ledger (aim: equal), {half} half lines (aim 0)"
        ),
        format!("SIGTERM: {ended} after {took:.1?}"),
        nobody_reads(context, &folder.path().join("unread"))?,
    ];
    Ok(Found { decision, notes })
}

/// A pipe that nobody has open at all.
fn nobody_reads(context: &Context, path: &Path) -> io::Result<String> {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    let mut site = match Site::start(&context.portunus, Wish { log: Some(path.to_owned()), ..Wish::default() }) {
        Ok(site) => site,
        Err(error) => {
            let text = error.to_string();
            return Ok(format!(
                "a pipe that nobody has open: does not start: {}",
                text.lines().last().unwrap_or_default()
            ));
        }
    };
    let asked = load_for(Plan::usual(site.plain()), Duration::from_secs(1));
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let (ended, took) = end(&mut site)?;
    Ok(format!(
        "a pipe that nobody has open: {} requests, {unhappy} not OK; SIGTERM: {ended} after {took:.1?}",
        asked.len()
    ))
}

fn drain_pipe(mut reader: &File, time: Duration) -> Vec<u8> {
    let (mut bytes, started) = (Vec::new(), Instant::now());
    while started.elapsed() < time {
        // Nothing there is an error of a descriptor that does not wait.
        let _ = reader.read_to_end(&mut bytes);
        pause(Duration::from_millis(5));
    }
    bytes
}

fn log_lines(site: &Site) -> io::Result<(f64, f64)> {
    Ok((site.metric("portunus_log_lines_written_total")?, site.metric("portunus_log_lines_dropped_total")?))
}

fn end(site: &mut Site) -> io::Result<(String, Duration)> {
    let started = Instant::now();
    let ended = site.end_gate(Duration::from_secs(12))?;
    Ok((ended.map_or("did not end".to_owned(), |status| status.to_string()), started.elapsed()))
}

/// Certificate and key replaced by a copy that writes halves, with a pause at every worst place.
pub(super) fn half_written_pair(context: &Context) -> io::Result<Found> {
    let mut site = Site::start(&context.portunus, Wish::default())?;
    let load = Load::start(Plan { clients: 2, ..Plan::usual(site.plain()) });
    let seconds = context.time.as_secs_f64();
    let handshakes = Command::new(std::env::current_exe()?)
        .args(["load", "--host", HOST, "--address", &site.tls().to_string(), "--path", "/health", "--tls", "1.3"])
        .args(["--reconnect", "--connections", "2", "--warm-up", "0", "--seconds", &seconds.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let ends = Instant::now() + context.time;
    let (mut copies, mut served, mut responses) = (0, [0, 0], Vec::new());
    while Instant::now() < ends {
        let pair = site.new_pair()?;
        // Pauses longer than the quiet time after which the gate reads, so that it reads every half.
        let step = Duration::from_millis(700);
        // Every other time an operator reloads in each worst place; else the gate sees the files change by itself.
        let by_hand = copies % 2 == 1;
        for (kind, bytes) in [("crt", pair.certificate_pem.as_bytes()), ("key", pair.key_pem.as_bytes())] {
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
            for part in [half, bytes] {
                fs::write(site.key_file(kind), part)?;
                if by_hand {
                    responses.push(site.admin("POST", "/reload")?.0);
                }
                pause(step);
            }
        }
        pause(Duration::from_millis(1500));
        let leaf = leaf(&pair.certificate_pem);
        served[copies % 2] += u32::from(served_leaf(&site).is_ok_and(|served| served == leaf));
        copies += 1;
    }
    let reported = handshakes.wait_with_output()?.stdout;
    let reported: serde_json::Value = serde_json::from_slice(&reported)?;
    let asked = load.finish();
    let loads =
        |result: &str| site.metric(&format!("portunus_keystore_loads_total{{keystore=\"main\",result=\"{result}\"}}"));
    let notes = vec![
        format!(
            "served 1.5 s after they were whole (aim: all): {} of {} copies seen by watching, {} of {} reloaded by hand",
            served[0],
            copies.div_ceil(2),
            served[1],
            copies / 2
        ),
        format!("POST /reload while half crt, crt, half key, whole: {responses:?}"),
        format!(
            "{} handshakes, {} failed {} (aim 0)",
            reported["requests"], reported["errors"], reported["last_error"]
        ),
        format!("{} loads taken, {} rejected", loads("success")?, loads("failure")?),
    ];
    let decision: Decision = site.check(&asked)?;
    Ok(Found { decision, notes })
}

/// The base64 of the first certificate in this text.
fn leaf(pem: &str) -> String {
    let inner = pem.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap_or_default();
    inner.split("-----END").next().unwrap_or_default().split_whitespace().collect()
}

/// The certificate that the gate serves now, as openssl sees it.
fn served_leaf(site: &Site) -> io::Result<String> {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &site.tls().to_string(), "-servername", HOST])
        .stdin(Stdio::null())
        .output()?;
    Ok(leaf(&String::from_utf8_lossy(&output.stdout)))
}
