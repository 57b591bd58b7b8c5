//! `bench offload`: TLS in, bytes out to a Unix socket, on every proxy that does so; in rounds, shuffled.
//!
//! First the table that others published: an application in Node alone, under its own TLS, and behind a proxy, application and proxy together on
//! core 0. Then what a proxy costs by itself, before a fast upstream beside the load on core 1. Reports, and asserts nothing.

mod proxies;
mod rows;
mod report;

use std::fs;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::measure::{self, MachineTime};
use crate::peers::{HOST, pinned};
use crate::plan::Plan;
use proxies::{Front, Site, Started};
use report::Results;
use rows::{Kind, Row};

const LOAD_CORES: &str = "1";

/// Options of `bench offload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    plan: Plan,
    /// Rows to run, by the beginning of their names; all if none is named.
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// Fronts to run.
    #[arg(long, value_delimiter = ',', default_value = "node-http,node-https,hitch,haproxy,nginx,stunnel,portunus")]
    fronts: Vec<Front>,
}

/// Runs the comparison.
///
/// # Errors
/// Nothing could be run, or the results cannot be written. A front that fails in one row is reported and left out there.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if options.plan.list {
        rows::all().iter().for_each(|row| println!("{:<22} {}", row.name(), row.title()));
        return Ok(());
    }
    crate::gate::raise_descriptor_limit();
    let site = Site::new(options.plan.portunus.clone())?;
    if options.plan.configs {
        options.fronts.iter().for_each(|front| println!("{}", site.describe(*front)));
        return Ok(());
    }
    let mut results = Results::new(measure::machine(), site.versions(&options.fronts));
    let before = MachineTime::now();
    for row in rows::all().into_iter().filter(|row| options.is_wanted(row)) {
        eprintln!("== {}", row.title());
        run_row(&row, options, &site, &mut results);
        results.print_row(&row);
    }
    results.stolen_percent = MachineTime::now().stolen_percent(before);
    results.print_summary();
    fs::create_dir_all(&options.plan.out)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let file = options.plan.out.join(format!("offload-{seconds}.json"));
    fs::write(&file, format!("{:#}\n", results.to_json()))?;
    println!("\nwritten: {}", file.display());
    Ok(())
}

impl Options {
    fn is_wanted(&self, row: &Row) -> bool {
        self.only.is_empty() || self.only.iter().any(|start| row.name().starts_with(start))
    }
}

/// All fronts run during all rounds of a row, so that a round is the same moment for all. Where memory is checked, each round has new processes.
fn run_row(row: &Row, options: &Options, site: &Site, results: &mut Results) {
    let fronts: Vec<Front> = options.fronts.iter().copied().filter(|front| row.takes(*front)).collect();
    let is_memory = matches!(row.kind, Kind::Idle { .. });
    let mut started: Vec<(Front, Started)> = Vec::new();
    for round in 0..options.plan.rounds {
        if round == 0 || is_memory {
            started.clear();
            for front in &fronts {
                match site.start(*front, row) {
                    Ok(running) => started.push((*front, running)),
                    Err(error) => eprintln!("   {}: {error}", front.name()),
                }
            }
        }
        let mut order: Vec<_> = started.iter().collect();
        fastrand::shuffle(&mut order);
        for (front, running) in order {
            let outcome = match row.kind {
                Kind::Idle { connections } => idle(connections, running),
                _ => load(row, options, running),
            };
            match outcome {
                Ok(sample) => results.add(row, *front, sample),
                Err(error) => eprintln!("   {}: {error}", front.name()),
            }
        }
    }
}

/// One round under load: what the generator tells, as it tells it.
fn load(row: &Row, options: &Options, running: &Started) -> io::Result<Value> {
    let mut command = generator(running)?;
    let (connections, bytes) = row.load();
    command.args(["--connections", &connections.to_string(), "--path", "/echo", "--upload", &bytes.to_string()]);
    command.args(["--seconds", &options.plan.seconds.to_string(), "--warm-up", &options.plan.warm_up.to_string()]);
    command.args(["--watch", &running.watched().to_string(), "--beside", &running.beside().to_string()]);
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        io::stderr().write_all(&output.stderr)?;
        return Err(io::Error::other(format!("the generator ended with {}", output.status)));
    }
    let reported: Value = serde_json::from_slice(&output.stdout)?;
    if reported["requests"].as_u64() == Some(0) {
        return Err(io::Error::other(format!("no responses; the last error: {}", reported["last_error"])));
    }
    Ok(reported)
}

/// One round at rest: resident memory with all connections held, less that before, by their number.
fn idle(connections: usize, running: &Started) -> io::Result<Value> {
    let tree = measure::process_tree(running.watched());
    let before = measure::resident_kib(&tree);
    let mut command = generator(running)?;
    command.args(["--connections", &connections.to_string(), "--path", "/echo", "--upload", "10", "--hold"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = io::BufRead::lines(io::BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?));
    let first = lines.next().ok_or_else(|| io::Error::other("the generator could not hold its connections"))??;
    let held: Value = serde_json::from_str(&first)?;
    let held = held["held"].as_f64().unwrap_or_default();
    // Stunnel has a thread for each connection; so that its stacks are counted, the tree is read again.
    let after = measure::resident_kib(&measure::process_tree(running.watched()));
    drop(child.stdin.take());
    child.wait()?;
    let each = after.saturating_sub(before) as f64 / held.max(1.0);
    Ok(serde_json::json!({ "requests": held, "kib_per_connection": each }))
}

fn generator(running: &Started) -> io::Result<Command> {
    let mut command = pinned(LOAD_CORES, &std::env::current_exe()?);
    command.args(["load", "--host", HOST, "--address", &running.address.to_string()]);
    if running.is_tls {
        command.args(["--tls", "1.3"]);
    }
    Ok(command)
}
