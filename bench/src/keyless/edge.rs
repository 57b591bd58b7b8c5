//! The edge half: each row (key type, and where the key is) in rounds, interleaved and shuffled; then the table and JSON.
//!
//! What is quoted is CPU time of the edge per full handshake with one request, from the scheduler's counters; the load and the key server share the
//! other core. It reports and asserts nothing.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::site::{Edge, Keys, LOAD_CORE, Site};
use crate::measure::{self, MachineTime};
use crate::peers::{HOST, pinned};

/// How long and how often `bench keyless` measures.
#[derive(Debug, clap::Args)]
// The outer one has a group of this name already.
#[group(skip)]
pub(crate) struct Options {
    /// The portunus program.
    #[arg(long, default_value = "target/release/portunus")]
    pub(super) portunus: PathBuf,
    /// Rounds of each row.
    #[arg(long, default_value_t = 5)]
    pub(super) rounds: usize,
    /// Measured time of each round, seconds.
    #[arg(long, default_value_t = 3.0)]
    pub(super) seconds: f64,
    /// Clients that make full handshakes, one after the other each.
    #[arg(long, default_value_t = 64)]
    pub(super) connections: usize,
    /// Seconds of `siege` with 100 clients on each edge; 0 leaves it out.
    #[arg(long, default_value_t = 10)]
    pub(super) siege: u64,
    /// Where the JSON goes.
    #[arg(long, default_value = "bench/results")]
    pub(super) out: PathBuf,
}

/// The figures that a table shows: of the load generator's line, and of `siege`.
const FIGURES: [&str; 4] = ["cpu_us_per_request", "requests_per_second", "p50_us", "p99_us"];

/// A key type at an edge, and its rounds.
struct Row {
    keys: Keys,
    is_rsa: bool,
    rounds: Vec<Value>,
    /// One client alone: the latency of a handshake that waits for nobody.
    alone: Value,
    siege: Option<String>,
}

/// Runs the edge half.
///
/// # Errors
/// An edge or the key server does not start, a round could not be run, or the results cannot be written. Without root the rows with a network namespace
/// are left out, and the output says so.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let mut site = Site::new(&options.portunus)?;
    let mut edges = Vec::new();
    for keys in [Keys::Local, Keys::Loopback, Keys::Namespace] {
        match site.start(keys) {
            Ok(edge) => edges.push((keys, edge)),
            Err(error) if keys == Keys::Namespace => eprintln!("left out, the rows with a network namespace: {error}"),
            Err(error) => return Err(error),
        }
    }
    let before = MachineTime::now();
    let mut rows: Vec<Row> = edges
        .iter()
        .flat_map(|(keys, _)| {
            [false, true].map(|is_rsa| Row { keys: *keys, is_rsa, rounds: Vec::new(), alone: Value::Null, siege: None })
        })
        .collect();
    for round in 0..options.rounds {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        fastrand::shuffle(&mut order);
        for index in order {
            let Some(row) = rows.get_mut(index) else { continue };
            let Some((_, edge)) = edges.iter().find(|(keys, _)| *keys == row.keys) else { continue };
            row.rounds.push(load(edge, row.is_rsa, options.connections, options.seconds)?);
            if round == 0 {
                row.alone = load(edge, row.is_rsa, 1, options.seconds)?;
                row.siege = siege(edge, row.is_rsa, options.siege);
            }
        }
    }
    report(&rows, options, MachineTime::now().stolen_percent(before))
}

/// Full handshakes with one request each; the generator's line.
fn load(edge: &Edge, is_rsa: bool, connections: usize, seconds: f64) -> io::Result<Value> {
    let address = if is_rsa { edge.rsa } else { edge.ecdsa };
    let mut command = pinned(LOAD_CORE, &std::env::current_exe()?);
    command.args(["load", "--host", HOST, "--tls", "1.3", "--reconnect", "--warm-up", "0.5"]);
    command.args(["--address", &address.to_string(), "--connections", &connections.to_string()]);
    command.args(["--seconds", &seconds.to_string(), "--watch", &edge.pid().to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let reported: Value = serde_json::from_slice(&output.stdout)?;
    if reported["requests"].as_f64().unwrap_or_default() < 1.0 {
        return Err(io::Error::other(format!("no handshakes at all: {}", reported["last_error"])));
    }
    Ok(reported)
}

/// `siege -b -c 100`, one full handshake per hit; its rate and its longest. None if it is not there.
fn siege(edge: &Edge, is_rsa: bool, seconds: u64) -> Option<String> {
    if seconds == 0 {
        return None;
    }
    let address = if is_rsa { edge.rsa } else { edge.ecdsa };
    // Some versions do not come to their end.
    let output = Command::new("timeout")
        .args([
            "--signal=KILL",
            &(seconds + 20).to_string(),
            "taskset",
            "-c",
            LOAD_CORE,
            "siege",
            "-q",
            "-b",
            "-c",
            "100",
            "-t",
            &format!("{seconds}S"),
            "-H",
            &format!("Host: {HOST}"),
        ])
        .arg(format!("https://{address}/"))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // Newer versions print JSON, older ones a table.
    let figure = |names: [&str; 2]| {
        let line = text.lines().find(|line| names.iter().any(|name| line.contains(name)))?;
        Some(line.split([':', ',']).nth(1)?.trim().trim_end_matches("trans/sec").trim().to_owned())
    };
    let (rate, longest) =
        (figure(["transaction_rate", "Transaction rate"])?, figure(["longest_transaction", "Longest"])?);
    let failed = figure(["failed_transactions", "Failed transactions"])?;
    Some(format!("{rate}/s, longest {longest} s, {failed} failed"))
}

fn median(rounds: &[Value], figure: &str) -> f64 {
    let mut values: Vec<f64> = rounds.iter().filter_map(|round| round[figure].as_f64()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn report(rows: &[Row], options: &Options, stolen_percent: f64) -> io::Result<()> {
    let machine = measure::machine();
    println!(
        "\nMachine: {machine}; {stolen_percent:.1} % of the time stolen; {} rounds of {} s\n",
        options.rounds, options.seconds
    );
    println!(
        "Full TLS 1.3 handshakes with one request each, {} clients; the edge alone on one core.\n",
        options.connections
    );
    println!(
        "| certificate | key | CPU of the edge, us | against local | handshakes/s | p50, us | p99, us | p50 alone, us | p99 alone, us | errors | siege -c 100 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        let [cpu, rate, p50, p99] = FIGURES.map(|figure| median(&row.rounds, figure));
        let local = rows.iter().find(|other| other.keys == Keys::Local && other.is_rsa == row.is_rsa);
        let local = local.map_or(cpu, |local| median(&local.rounds, FIGURES[0]));
        let errors: f64 = row.rounds.iter().filter_map(|round| round["errors"].as_f64()).sum();
        let alone = |figure: &str| row.alone[figure].as_f64().unwrap_or_default();
        println!(
            "| {} | {} | {cpu:.1} | {:+.1} us, x {:.2} | {rate:.0} | {p50:.0} | {p99:.0} | {:.0} | {:.0} | {errors:.0} | {} |",
            if row.is_rsa { "RSA-2048" } else { "ECDSA P-256" },
            row.keys.title(),
            cpu - local,
            cpu / local,
            alone("p50_us"),
            alone("p99_us"),
            row.siege.as_deref().unwrap_or("-"),
        );
    }
    let reported: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "keys": row.keys.title(), "rsa": row.is_rsa, "rounds": row.rounds, "alone": row.alone, "siege": row.siege }))
        .collect();
    fs::create_dir_all(&options.out)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let path = options.out.join(format!("keyless-edge-{seconds}.json"));
    let whole = json!({ "machine": machine, "stolen_percent": stolen_percent, "rows": reported });
    fs::write(&path, format!("{whole:#}\n"))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}
