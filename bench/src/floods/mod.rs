//! `bench floods`: what a good client feels beside connections that flood, on every proxy; in rounds, shuffled.
//!
//! The good client is one HTTP/1.1 connection under TLS that asks as fast as it is answered. The proxy has core 0 to itself; the good client, the
//! upstream and the attackers, which run at the lowest priority, share core 1. Reports, and asserts nothing.

mod attacker;
mod frames;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::gate::{LOAD_CORES, PROXY_CORES, Upstream, raise_descriptor_limit};
use crate::measure::{self, MachineTime};
use crate::peers::{HOST, Needs, Peer, Programs, Running, Setup, pause, pinned, stop};
use crate::plan::Plan;
pub(crate) use attacker::{Options as AttackerOptions, run as run_attacker};
use frames::Kind;

/// Options of `bench floods`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    plan: Plan,
    /// Floods to run; all if none is named.
    #[arg(long, value_name = "FLOOD", value_delimiter = ',')]
    only: Vec<Kind>,
    /// Proxies to run.
    #[arg(long, value_delimiter = ',', default_value = "nginx,haproxy,portunus")]
    peers: Vec<Peer>,
    /// Connections that flood at once.
    #[arg(long, default_value_t = 20)]
    attackers: usize,
}

/// Rounds of one flood on one proxy, as the generator and the attackers told them.
type Rounds = Vec<Value>;

/// Runs the comparison.
///
/// # Errors
/// Nothing could be run, or the results cannot be written.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if options.plan.list {
        Kind::ALL.iter().for_each(|kind| println!("{:<16} {}", kind.name(), kind.title()));
        return Ok(());
    }
    raise_descriptor_limit();
    let upstream = Upstream::start()?;
    let setup = Setup::new(Programs { portunus: options.plan.portunus.clone(), ..Programs::default() })?;
    if options.plan.configs {
        options.peers.iter().for_each(|peer| println!("{}", setup.describe(*peer)));
        return Ok(());
    }
    let before = MachineTime::now();
    let mut rows = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| options.only.is_empty() || options.only.contains(kind)) {
        eprintln!("== {}", kind.title());
        rows.push((kind, run_kind(kind, options, &setup, upstream.address)?));
    }
    let stolen = MachineTime::now().stolen_percent(before);
    print(&rows, options, &setup, stolen);
    fs::create_dir_all(&options.plan.out)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let path = options.plan.out.join(format!("floods-{seconds}.json"));
    let rows: Vec<_> =
        rows.iter().map(|(kind, peers)| json!({ "flood": kind.name(), "peers": peers_json(peers) })).collect();
    let all = json!({ "machine": measure::machine(), "stolen_percent": stolen, "rows": rows });
    fs::write(&path, format!("{all:#}\n"))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

fn peers_json(peers: &[(Peer, Rounds)]) -> Value {
    peers.iter().map(|(peer, rounds)| (peer.name().to_owned(), Value::from(rounds.clone()))).collect()
}

/// Each round has new processes: what a flood left behind must not weigh on the next.
fn run_kind(kind: Kind, options: &Options, setup: &Setup, upstream: SocketAddr) -> io::Result<Vec<(Peer, Rounds)>> {
    let mut peers: Vec<(Peer, Rounds)> = options.peers.iter().map(|peer| (*peer, Rounds::new())).collect();
    for _ in 0..options.plan.rounds {
        let mut order: Vec<_> = peers.iter_mut().collect();
        fastrand::shuffle(&mut order);
        for (peer, rounds) in order {
            let proxy = setup.start(*peer, Needs { workers: 1, http3: false }, PROXY_CORES, upstream)?;
            rounds.push(round(kind, options, &proxy)?);
        }
    }
    Ok(peers)
}

/// One round: the attackers, then the good client beside them.
fn round(kind: Kind, options: &Options, proxy: &Running) -> io::Result<Value> {
    let attackers = (kind != Kind::Quiet).then(|| Attackers::start(kind, options.attackers, proxy)).transpose()?;
    // Handshakes and the first batches are over.
    pause(Duration::from_secs_f64(options.plan.warm_up));
    let mut command = pinned(LOAD_CORES, &std::env::current_exe()?);
    command.args(["load", "--host", HOST, "--address", &proxy.ports.ecdsa.to_string(), "--tls", "1.3"]);
    command.args(["--connections", "1", "--seconds", &options.plan.seconds.to_string(), "--warm-up", "0.2"]);
    command.args(["--watch", &proxy.pid().to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let mut reported: Value = serde_json::from_slice(&output.stdout)?;
    if let Some(attackers) = attackers {
        reported["attackers"] = attackers.finish()?;
    }
    Ok(reported)
}

struct Attackers(Child);

impl Attackers {
    fn start(kind: Kind, connections: usize, proxy: &Running) -> io::Result<Attackers> {
        let mut command = Command::new("nice");
        command.args(["-n", "19", "taskset", "--cpu-list", LOAD_CORES]).arg(std::env::current_exe()?);
        command.args(["flood", "--kind", kind.name(), "--address", &proxy.ports.ecdsa.to_string()]);
        command.args(["--connections", &connections.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(Attackers)
    }

    /// Ends them; gives what they have done.
    fn finish(mut self) -> io::Result<Value> {
        drop(self.0.stdin.take());
        let mut reported = String::new();
        if let Some(output) = &mut self.0.stdout {
            io::Read::read_to_string(output, &mut reported)?;
        }
        Ok(serde_json::from_str(reported.trim())?)
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        stop(&mut self.0);
    }
}

fn median(rounds: &Rounds, figure: impl Fn(&Value) -> Option<f64>) -> f64 {
    let mut values: Vec<f64> = rounds.iter().filter_map(figure).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn print(rows: &[(Kind, Vec<(Peer, Rounds)>)], options: &Options, setup: &Setup, stolen: f64) {
    println!(
        "\nA good client beside {} connections that flood; {}; {stolen:.1} % of the time stolen; medians of {} rounds.\n",
        options.attackers,
        measure::machine(),
        options.plan.rounds
    );
    for peer in &options.peers {
        println!("- {}", setup.version(*peer).unwrap_or_default());
    }
    println!(
        "\n| flood | proxy | p50 ms | p99 ms | requests/s | errors | its core | peak MiB | connections flooding | frames/s |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (kind, peers) in rows {
        for (peer, rounds) in peers {
            let of = |name: &'static str| median(rounds, |round| round[name].as_f64());
            let attackers = |name: &'static str| median(rounds, |round| round["attackers"][name].as_f64());
            println!(
                "| {} | {} | {:.2} | {:.2} | {:.0} | {:.0} | {:.2} | {:.1} | {:.0} | {:.0} |",
                kind.title(),
                peer.name(),
                of("p50_us") / 1000.0,
                of("p99_us") / 1000.0,
                of("requests_per_second"),
                of("errors"),
                of("cpu_share"),
                of("peak_kib") / 1024.0,
                attackers("connections"),
                attackers("frames") / (options.plan.seconds + options.plan.warm_up),
            );
        }
    }
}
