//! The key server's half of `bench keyless`: signatures per second and latency, beside what the cryptographic library does alone on the same cores.
//!
//! Server and load share all cores, as one machine has them; the share says what is left of the library's own speed.

use std::fs;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tls::crypto::{PrivateKey, SigningKey};
use wire::keyless::{HashKind, Operation};

use super::edge::Options;
use super::key_server::{Key, KeySite, report};
use crate::measure::{self, MachineTime};

/// One row: which key, and how it is asked.
struct Row {
    key: Key,
    connections: usize,
    in_flight: usize,
    pace: Pace,
}

/// When a connection asks.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    /// As soon as it is answered.
    AtOnce,
    /// So many microseconds after it was.
    Pause(u64),
    /// At half the rate of the fastest row of the same key, whatever comes back.
    Half,
}

impl Pace {
    fn title(self) -> String {
        match self {
            Pace::AtOnce => "at once".to_owned(),
            Pace::Pause(micros) => format!("{micros} us after a response"),
            Pace::Half => "half of the most".to_owned(),
        }
    }
}

/// Runs the rows.
///
/// # Errors
/// The server does not start, a load fails, or the results cannot be written.
pub(super) fn run(options: &Options) -> io::Result<()> {
    let portunus = options.portunus.canonicalize()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let site = KeySite::start(&portunus, "")?;
    let before = MachineTime::now();
    let mut rows = Vec::new();
    println!(
        "| key | connections | in flight on each | asked | per second | of library x {cores} cores | p50 us | p99 us | errors |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for key in [Key::P256, Key::Rsa2048] {
        let mut most: f64 = 0.0;
        for row in plan(key) {
            let measured = measure_row(&site, &row, options, cores, most)?;
            println!("{}", line(&row, &measured));
            most = most.max(measured["per_second"].as_f64().unwrap_or_default());
            rows.push(measured);
        }
    }
    let stolen = MachineTime::now().stolen_percent(before);
    println!(
        "\nMachine: {}; {stolen:.1} % of the time stolen; medians of {} rounds of {} s; server and load on the same {cores} cores",
        measure::machine(),
        options.rounds,
        options.seconds
    );
    let reported = json!({ "machine": measure::machine(), "stolen_percent": stolen, "cores": cores, "rows": rows });
    fs::create_dir_all(&options.out)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let path = options.out.join(format!("keyless-server-{seconds}.json"));
    fs::write(&path, format!("{reported:#}\n"))?;
    println!("written: {}", path.display());
    Ok(())
}

fn plan(key: Key) -> Vec<Row> {
    let fast = [(1, 1), (1, 32), (4, 8), (32, 1), (32, 8)]
        .map(|(connections, in_flight)| (connections, in_flight, Pace::AtOnce));
    // Half of what as many connections could do at most.
    let slow = [(32, 1, Pace::Pause(1_000)), (4, 8, Pace::Half)];
    let row = |(connections, in_flight, pace)| Row { key, connections, in_flight, pace };
    fast.into_iter().chain(slow).map(row).collect()
}

/// Medians over the rounds; the library is measured in each round, too. `most`: answers per second of the fastest row so far.
fn measure_row(site: &KeySite, row: &Row, options: &Options, cores: usize, most: f64) -> io::Result<Value> {
    let mut rounds = Vec::new();
    for _ in 0..options.rounds.max(1) {
        let anchor = library_rate(site, row.key)?;
        let mut arguments = vec![
            ("--connections", row.connections.to_string()),
            ("--in-flight", row.in_flight.to_string()),
            ("--seconds", options.seconds.to_string()),
        ];
        match row.pace {
            Pace::AtOnce => {}
            Pace::Pause(micros) => arguments.push(("--think-time", format!("{micros}us"))),
            Pace::Half => arguments.push(("--rate", format!("{:.1}", most / 2.0))),
        }
        let arguments: Vec<String> = arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let report = report(&mut site.load(row.key, &arguments))?;
        rounds.push((anchor, report));
    }
    let median = |figure: &dyn Fn(&(f64, Value)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let per_second = |(_, report): &(f64, Value)| report["good_per_second"].as_f64().unwrap_or_default();
    let latency =
        |name: &'static str| move |(_, report): &(f64, Value)| report["latency_us"][name].as_f64().unwrap_or_default();
    let bad = |(_, report): &(f64, Value)| {
        let errors = report["errors"].as_object().map_or(0.0, |errors| errors.values().filter_map(Value::as_f64).sum());
        errors
            + report["wrong"].as_f64().unwrap_or_default()
            + report["failed_connections"].as_f64().unwrap_or_default()
    };
    Ok(json!({
        "key": row.key.title(), "connections": row.connections, "in_flight": row.in_flight, "asked": row.pace.title(),
        "per_second": median(&per_second),
        "library_per_second_and_core": median(&|(anchor, _)| *anchor),
        "share": median(&|round| per_second(round) / (round.0 * cores as f64)),
        "p50_us": median(&latency("p50")), "p99_us": median(&latency("p99")),
        "errors": rounds.iter().map(bad).sum::<f64>(),
        "histogram_us": rounds.last().map(|(_, report)| report["histogram_us"].clone()),
    }))
}

fn line(row: &Row, measured: &Value) -> String {
    let figure = |name: &str| measured[name].as_f64().unwrap_or_default();
    // Where it is asked for less, the rate says nothing about the server.
    let share = if row.pace == Pace::AtOnce { format!("{:.2}", figure("share")) } else { "-".to_owned() };
    format!(
        "| {} | {} | {} | {} | {:.0} | {share} | {:.0} | {:.0} | {:.0} |",
        row.key.title(),
        row.connections,
        row.in_flight,
        row.pace.title(),
        figure("per_second"),
        figure("p50_us"),
        figure("p99_us"),
        figure("errors")
    )
}

/// Signatures per second of the library alone, on the core that this thread happens to be on.
fn library_rate(site: &KeySite, key: Key) -> io::Result<f64> {
    const TIME: Duration = Duration::from_millis(500);
    let other = |error: tls::crypto::Error| io::Error::other(error.to_string());
    let text = fs::read(site.key_file(key))?;
    let blocks = keystore::pem::read(&text).map_err(|error| io::Error::other(error.to_string()))?;
    let block = blocks.first().ok_or_else(|| io::Error::other("no key"))?;
    let signing = SigningKey::new(&PrivateKey::from_der(&block.der).map_err(other)?).map_err(other)?;
    let operation = match key {
        Key::P256 => Operation::Ecdsa(HashKind::Sha256),
        Key::Rsa2048 | Key::Rsa4096 => Operation::RsaPss(HashKind::Sha256),
    };
    let (started, mut count, mut result) = (Instant::now(), 0u32, Vec::new());
    while started.elapsed() < TIME {
        signing.perform(operation, &[0x5a; 32], &mut result).map_err(other)?;
        count += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}
