//! `bench faults`: each fault of the protocol on a gate of its own, with the ledger joined afterwards; then a table and JSON.
//!
//! It reports and asserts nothing: what must be 0 is shown beside what was found. bench/README.md, "Faults", says what is counted, and which
//! rows of the protocol are not run here and why. All traffic stays on the loopback interface.

mod attack_faults;
mod client;
mod fleet_disk;
mod fleet_faults;
mod fleet_long;
mod fleet_names;
mod fleet_site;
mod key_faults;
mod key_server_faults;
mod key_site;
mod ledger;
mod long_faults;
mod message;
mod network_faults;
mod process_faults;
mod processes;
mod recorder;
mod resource_faults;
mod site;
mod tunnels;
mod upgrade_faults;
mod upstream_faults;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ledger::Decision;
pub(crate) use recorder::{Options as RecorderOptions, run as run_recorder};

use crate::measure::{self, MachineTime};

/// Options of `bench faults`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The portunus program.
    #[arg(long, default_value = "target/release/portunus")]
    portunus: PathBuf,
    /// A portunus with the feature `forced-panics`, for the fault that needs it.
    #[arg(long)]
    panicking: Option<PathBuf>,
    /// About how long each fault takes, seconds, 4 to 3600.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many requests `fleet-long` makes at least, however long that takes.
    #[arg(long, default_value_t = 0)]
    requests: u64,
    /// The etcd of fleets.
    #[arg(long, default_value = "etcd")]
    etcd: PathBuf,
    /// Faults to run; all if none is named.
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the JSON goes.
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    /// Name the faults and end.
    #[arg(long)]
    list: bool,
}

/// What every fault gets.
struct Context {
    portunus: PathBuf,
    /// One that can be made to panic.
    panicking: Option<PathBuf>,
    /// What runs as a member of etcd.
    etcd: PathBuf,
    time: Duration,
    /// Requests that a fault with a long load makes at least.
    requests: u64,
}

/// What a fault showed.
struct Found {
    decision: Decision,
    /// Figures and deviations, for people.
    notes: Vec<String>,
}

struct Fault {
    name: &'static str,
    title: &'static str,
    run: fn(&Context) -> io::Result<Found>,
}

const FAULTS: [Fault; 37] = [
    Fault { name: "upstream-kill", title: "upstream `kill -9`, 1 of 2, and restart", run: upstream_faults::killed },
    Fault { name: "upstream-frozen", title: "upstream frozen (SIGSTOP), 1 of 2", run: upstream_faults::frozen },
    Fault {
        name: "upstream-cut",
        title: "upstream dies within its response",
        run: upstream_faults::dies_within_response,
    },
    Fault { name: "reload", title: "reload x100, same, changed, invalid", run: process_faults::reloads },
    Fault { name: "drain", title: "SIGTERM with requests in flight", run: process_faults::drain },
    Fault {
        name: "drain-beyond",
        title: "SIGTERM with requests that outlive the grace",
        run: process_faults::beyond_grace,
    },
    Fault {
        name: "upgrade",
        title: "upgrade x20 with 100 WebSockets, `kill -9` of the new process at six steps",
        run: upgrade_faults::upgrades,
    },
    Fault {
        name: "upgrade-kill",
        title: "old process `kill -9` at six steps of an upgrade, with 240 WebSockets",
        run: upgrade_faults::killed_old,
    },
    Fault { name: "descriptors", title: "descriptors exhausted (prlimit)", run: resource_faults::descriptors },
    Fault { name: "log-full", title: "access log on a full disk", run: resource_faults::log_full },
    Fault { name: "log-stuck", title: "access log to a stuck reader", run: resource_faults::log_stuck },
    Fault { name: "half-pair", title: "half-written certificate and key", run: resource_faults::half_written_pair },
    Fault { name: "key-kill", title: "key server `kill -9`, 1 of 2, then both", run: key_faults::killed },
    Fault { name: "key-frozen", title: "key server frozen (SIGSTOP), 1 of 2, then both", run: key_faults::frozen },
    Fault { name: "key-overload", title: "key server asked for 0.5 to 4 x its RSA", run: key_server_faults::overload },
    Fault { name: "key-classes", title: "ECDSA beside an RSA flood", run: key_server_faults::ecdsa_beside_rsa },
    Fault { name: "panic", title: "forced panics in requests", run: process_faults::panics },
    Fault { name: "stopped", title: "process stopped for 3 s (SIGSTOP)", run: process_faults::stopped },
    Fault { name: "loss", title: "packets lost, 0, 1, 5 and 10 %", run: network_faults::loss },
    Fault { name: "narrow", title: "1 Mbit/s for everything", run: network_faults::narrow },
    Fault { name: "mtu", title: "MTU down to 1,280", run: network_faults::small_packets },
    Fault { name: "flap", title: "link away for 5 s", run: network_faults::flap },
    Fault { name: "memory", title: "slow uploads in 256 MiB", run: long_faults::memory_limit },
    Fault { name: "attacks", title: "attack mix beside kills and reloads", run: attack_faults::mix },
    Fault { name: "fleet-member", title: "fleet: each of 3 etcd `kill -9`", run: fleet_faults::member_killed },
    Fault { name: "fleet-etcd", title: "fleet: all of 3 etcd `kill -9`", run: fleet_faults::all_killed },
    Fault { name: "fleet-partition", title: "fleet: one edge cut off from the stores", run: fleet_faults::partition },
    Fault {
        name: "fleet-minority",
        title: "fleet: one of 3 etcd cut off from the others, with one edge, then with two",
        run: fleet_faults::minority,
    },
    Fault { name: "fleet-disk", title: "fleet: the disks of all etcd full", run: fleet_disk::disk_full },
    Fault { name: "fleet-quota", title: "fleet: etcd's quota reached (NOSPACE)", run: fleet_disk::quota_reached },
    Fault { name: "fleet-names", title: "fleet: 10,000 names with certificates", run: fleet_names::names },
    Fault { name: "fleet-slow", title: "fleet: 256 kbit/s for all of the stores", run: fleet_faults::slow },
    Fault { name: "fleet-redis", title: "fleet: Redis `kill -9`, then frozen", run: fleet_faults::redis },
    Fault { name: "fleet-rollout", title: "fleet: roll-outs during all of it", run: fleet_faults::rollout },
    Fault { name: "fleet-pushes", title: "fleet: 20 pushes in a row", run: fleet_faults::pushes },
    Fault { name: "fleet-long", title: "fleet: all of it in one run", run: fleet_long::all },
    Fault { name: "soak", title: "soak: load, reloads, kills", run: long_faults::soak },
];

/// Rows of the protocol that this run leaves out.
const NOT_RUN: &str = "Not run here, but tests: clock jumps, name servers that are silent or wrong. Faults of HTTP/3 are rows of ./x clients.";

/// Runs the faults.
///
/// # Errors
/// The options make no sense, or the results cannot be written. A fault that could not be run is a row of the table.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if options.list {
        FAULTS.iter().for_each(|fault| println!("{:<16} {}", fault.name, fault.title));
        return Ok(());
    }
    if !(4..=3600).contains(&options.seconds) {
        return invalid("--seconds: 4 to 3600".to_owned());
    }
    if let Some(unknown) = options.only.iter().find(|name| !FAULTS.iter().any(|fault| fault.name == name.as_str())) {
        return invalid(format!("--only {unknown}: no such fault; `--list` names them"));
    }
    let portunus = options
        .portunus
        .canonicalize()
        .map_err(|error| io::Error::new(error.kind(), format!("--portunus {}: {error}", options.portunus.display())))?;
    let context = Context {
        portunus,
        panicking: options.panicking.clone(),
        etcd: options.etcd.clone(),
        time: Duration::from_secs(options.seconds),
        requests: options.requests,
    };
    let before = MachineTime::now();
    let mut rows = Vec::new();
    for fault in &FAULTS {
        if options.only.is_empty() || options.only.iter().any(|name| name == fault.name) {
            eprintln!("== {}", fault.title);
            let found = (fault.run)(&context);
            eprintln!("   {}", row(fault, &found));
            rows.push((fault, found));
        }
    }
    report(&rows, options, MachineTime::now().stolen_percent(before))
}

type Row<'a> = (&'a Fault, io::Result<Found>);

fn report(rows: &[Row<'_>], options: &Options, stolen_percent: f64) -> io::Result<()> {
    let machine = measure::machine();
    println!("\nMachine: {machine}; {stolen_percent:.1} % of the time stolen; {} s each\n", options.seconds);
    println!(
        "| fault | requests | OK | 5xx | reset, cut or rejected | retried | lost | doubled | false whole | unlogged | hung | strange | notes |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    rows.iter().for_each(|(fault, found)| println!("{}", row(fault, found)));
    println!("\nTolerated: 5xx, reset, retried (idempotent only). Must be 0: lost to strange.\n\n{NOT_RUN}");
    let faults: Vec<_> = rows.iter().map(|(fault, found)| to_json(fault, found)).collect();
    let reported = serde_json::json!({
        "machine": machine, "stolen_percent": stolen_percent, "seconds": options.seconds, "faults": faults, "not_run": NOT_RUN,
    });
    fs::create_dir_all(&options.out)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let path = options.out.join(format!("faults-{seconds}.json"));
    fs::write(&path, format!("{reported:#}\n"))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

/// The figures in the order of the table.
fn figures(decision: &Decision) -> [(&'static str, u64); 11] {
    [
        ("requests", decision.requests),
        ("ok", decision.ok),
        ("refused_5xx", decision.rejected_5xx),
        ("reset", decision.reset),
        ("retried", decision.retried),
        ("lost", decision.lost),
        ("doubled", decision.doubled),
        ("false_whole", decision.cut),
        ("unlogged", decision.unlogged),
        ("hung", decision.hung),
        ("strange", decision.strange),
    ]
}

fn row(fault: &Fault, found: &io::Result<Found>) -> String {
    match found {
        Ok(found) => {
            let numbers: Vec<_> = figures(&found.decision).iter().map(|(_, number)| number.to_string()).collect();
            let clean = if found.decision.clean() { "" } else { "**NOT CLEAN**; " };
            format!("| {} | {} | {clean}{} |", fault.title, numbers.join(" | "), found.notes.join("; "))
        }
        Err(error) => {
            format!(
                "| {} |{} could not be run: {} |",
                fault.title,
                " - |".repeat(11),
                error.to_string().replace('\n', " ")
            )
        }
    }
}

fn to_json(fault: &Fault, found: &io::Result<Found>) -> serde_json::Value {
    match found {
        Ok(found) => {
            let numbers: serde_json::Map<_, _> =
                figures(&found.decision).iter().map(|(name, number)| ((*name).to_owned(), (*number).into())).collect();
            serde_json::json!({ "fault": fault.name, "clean": found.decision.clean(), "ledger": numbers, "notes": found.notes })
        }
        Err(error) => serde_json::json!({ "fault": fault.name, "error": error.to_string() }),
    }
}

/// The value that this share of all is not above; zero of none.
fn percentile(values: impl Iterator<Item = Duration>, share: f64) -> Duration {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    let index = (values.len() as f64 * share) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let values = || (1..=100).map(Duration::from_millis);
        assert_eq!(percentile(values(), 0.5), Duration::from_millis(51));
        assert_eq!(percentile(values(), 0.99), Duration::from_millis(100));
        assert_eq!(percentile(std::iter::empty(), 0.5), Duration::ZERO);
    }

    #[test]
    fn rows_have_as_many_cells_whatever_happened() {
        let found = Found { decision: Decision::default(), notes: vec!["a".to_owned(), "b".to_owned()] };
        let failed = Err(io::Error::other("two\nlines"));
        let [good, bad] = [Ok(found), failed].map(|found| row(&FAULTS[0], &found));
        assert_eq!(good.matches('|').count(), bad.matches('|').count(), "{good}\n{bad}");
        assert!(!bad.contains('\n') && good.ends_with("| a; b |"));
    }
}
