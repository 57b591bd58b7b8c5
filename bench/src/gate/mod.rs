//! `bench gate`: every row of work on every proxy, in rounds, interleaved and shuffled; then the table, JSON and a chart.
//!
//! The proxy has core 0 to itself, the load and the upstream share core 1. What is quoted is CPU time of the proxy, which the other core does
//! not touch; requests per second stand beside it, and how much of core 1 was used says whether the load was the limit.

pub(crate) mod run;

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit};

use crate::measure::{self, MachineTime};
use crate::peers::{Compared, Running, Setup, free_address, pinned, stop};
use crate::plan::Plan;
use crate::table::Results;
use crate::works::{self, Kind, Load, Work};
use crate::{chart, table};

pub(crate) const PROXY_CORES: &str = "0";
pub(crate) const LOAD_CORES: &str = "1";
const ALL_CORES: &str = "0,1";
/// Beyond this a run says that it proves nothing.
const STOLEN_PERCENT_MAX: f64 = 2.0;

/// Options of `bench gate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    plan: Plan,
    /// Rows to run; all if none is named.
    #[arg(long, value_name = "WORK", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    compared: Compared,
}

/// Runs the comparison.
///
/// # Errors
/// The upstream does not start, a row could not be run, or the results cannot be written.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if options.plan.list {
        works::all().iter().for_each(|work| println!("{:<18} {}", work.name, work.title));
        return Ok(());
    }
    let works = chosen(&options.only)?;
    raise_descriptor_limit();
    let mut upstream = Upstream::start()?;
    let setup = Setup::new(options.compared.programs(&options.plan.portunus))?;
    let peers = options.compared.peers();
    if options.plan.configs {
        peers.iter().for_each(|peer| println!("{}", setup.describe(*peer)));
        return Ok(());
    }
    let mut results = Results::new(measure::machine());
    for peer in &peers {
        results.peers.push((*peer, setup.version(*peer)?, setup.describe(*peer)));
    }
    let before = MachineTime::now();
    let mut failed = Vec::new();
    for work in works {
        eprintln!("== {}", work.title);
        // What the other rows measured must not be lost with one.
        if let Err(error) = run_work(&work, options, &setup, &mut upstream, &mut results) {
            eprintln!("   failed: {error}");
            failed.push(work.name);
        }
        table::print_work(&results, &work);
    }
    results.stolen_percent = MachineTime::now().stolen_percent(before);
    report(&results, options)?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(io::Error::other(format!("rows that could not be run: {}", failed.join(", "))))
    }
}

fn chosen(only: &[String]) -> io::Result<Vec<Work>> {
    let all = works::all();
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|work| work.name == name.as_str())) {
        let known: Vec<_> = all.iter().map(|work| work.name).collect();
        let text = format!("--only {unknown}: no such row; there are {}", known.join(", "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(all.into_iter().filter(|work| only.is_empty() || only.iter().any(|name| name == work.name)).collect())
}

/// All proxies run during all rounds of a row, so that a round is the same moment for all; who is idle costs nothing. Only where memory is
/// checked each round has new processes: allocators do not give back what an earlier round took.
fn run_work(
    work: &Work,
    options: &Options,
    setup: &Setup,
    upstream: &mut Upstream,
    results: &mut Results,
) -> io::Result<()> {
    let cores = if work.workers == 1 { PROXY_CORES } else { ALL_CORES };
    let servers = match work.kind {
        Kind::Load(Load { busy: true, .. }) => free_address()?,
        _ => upstream.address,
    };
    let mut peers = options.compared.peers();
    if work.needs().http3 {
        let speaks = peers.iter().map(|peer| setup.speaks_http3(*peer)).collect::<io::Result<Vec<_>>>()?;
        let mut speaks = speaks.into_iter();
        peers.retain(|_| speaks.next().unwrap_or_default());
    }
    let start_all = || -> io::Result<Vec<Running>> {
        peers.iter().map(|peer| setup.start(*peer, work.needs(), cores, servers)).collect()
    };
    let time = run::Time { seconds: options.plan.seconds, warm_up: options.plan.warm_up };
    let mut running = start_all()?;
    for round in 0..options.plan.rounds {
        upstream.check()?;
        if round > 0 && matches!(work.kind, Kind::Idle { .. }) {
            running = start_all()?;
        }
        let mut order: Vec<_> = running.iter().collect();
        fastrand::shuffle(&mut order);
        for proxy in order {
            let sample = run::sample(work, proxy, time, (upstream.child.id(), servers))
                .map_err(|error| io::Error::other(format!("{} on {}: {error}", work.name, proxy.peer.name())))?;
            if sample.errors > 0 {
                eprintln!("   {}: {} errors, the last: {}", proxy.peer.name(), sample.errors, sample.last_error);
            }
            results.add(work, proxy.peer, sample);
        }
    }
    Ok(())
}

fn report(results: &Results, options: &Options) -> io::Result<()> {
    table::print(results);
    if results.stolen_percent > STOLEN_PERCENT_MAX {
        println!(
            "\nNo decision: {:.1} % of the time was stolen by other machines on this host.",
            results.stolen_percent
        );
    }
    fs::create_dir_all(&options.plan.out)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let base = options.plan.out.join(format!("gate-{seconds}"));
    fs::write(base.with_extension("json"), format!("{:#}\n", results.to_json()))?;
    fs::write(base.with_extension("svg"), chart::svg(results))?;
    println!("\nwritten: {0}.json, {0}.svg", base.display());
    Ok(())
}

/// 10,000 connections need more descriptors than the usual limit; children inherit what is set here.
pub(crate) fn raise_descriptor_limit() {
    let wanted = Some(200_000);
    if rustix::process::setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted }).is_err() {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Our upstream, as a process of its own beside the load.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Upstream {
    /// Starts it.
    ///
    /// # Errors
    /// It did not say where it listens.
    pub(crate) fn start() -> io::Result<Upstream> {
        Upstream::start_at("127.0.0.1:0")
    }

    /// Starts it there: an address as `bench upstream --listen` takes it.
    ///
    /// # Errors
    /// It did not say where it listens.
    pub(crate) fn start_at(address: &str) -> io::Result<Upstream> {
        let mut command = pinned(LOAD_CORES, &std::env::current_exe()?);
        let mut child =
            command.args(["upstream", "--listen", address]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = &mut child.stdout {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        match address {
            Some(address) => Ok(Upstream { child, address }),
            None => {
                stop(&mut child);
                Err(io::Error::other(format!("the upstream said {line:?} instead of its address")))
            }
        }
    }

    fn check(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(io::Error::other(format!("the upstream ended: {status}"))),
            None => Ok(()),
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
