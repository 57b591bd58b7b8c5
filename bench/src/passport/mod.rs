//! `bench passport`: bytes, connections and datagrams onward from the client's own address, beside go-mmproxy, a minimal splice loop and no proxy.
//!
//! Everything runs in a network namespace of its own, where the loopback interface carries all traffic and the policy routing is set up. The proxy
//! has core 0, load and application share core 1; go-mmproxy is also run with both cores. What is quoted is CPU time of the proxy for
//! what it carried; rates stand beside it.

mod datagrams;
mod proxies;
mod splice_loop;
mod streams;
mod report;

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::measure::{self, MachineTime};

pub(crate) use splice_loop::{Options as SpliceLoopOptions, run as run_splice_loop};

use proxies::{Proxy, Running, Transport};
use report::{Results, Sample};

/// Options of `bench passport`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// The portunus program.
    #[arg(long, default_value = "target/release/portunus")]
    portunus: PathBuf,
    /// Rounds of each row.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Measured time of each row of streams, seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Measured time of each trial of datagrams, seconds.
    #[arg(long, default_value_t = 1.0)]
    trial: f64,
    /// Rows to run; all if none is named.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Proxies to run.
    #[arg(long, value_delimiter = ',', default_value = "none,splice-loop,go-mmproxy-1,go-mmproxy,portunus")]
    peers: Vec<Proxy>,
    /// Where JSON goes.
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    /// Run where we are, without a namespace of our own.
    #[arg(long, hide = true)]
    inside: bool,
}

/// One row of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Pump,
    Connections,
    PingPong,
    Datagrams { bytes: usize, clients: usize },
}

const WORKS: [(&str, &str, Work); 7] = [
    ("pump", "50 connections pumping 6-byte messages both ways", Work::Pump),
    ("connect", "connect, header, one message, close", Work::Connections),
    ("ping-pong", "64 bytes there and back, one connection", Work::PingPong),
    ("udp-64-1", "64-byte datagrams of 1 client", Work::Datagrams { bytes: 64, clients: 1 }),
    ("udp-64-10000", "64-byte datagrams of 10,000 clients", Work::Datagrams { bytes: 64, clients: 10_000 }),
    ("udp-1200-1", "1,200-byte datagrams of 1 client", Work::Datagrams { bytes: 1200, clients: 1 }),
    ("udp-1200-10000", "1,200-byte datagrams of 10,000 clients", Work::Datagrams { bytes: 1200, clients: 10_000 }),
];

/// Runs the comparison.
///
/// # Errors
/// The namespace cannot be made, a proxy does not start, or the results cannot be written.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if options.inside { measure_all(options) } else { in_a_namespace(options) }
}

/// Makes a namespace with policy routing and runs this program again inside of it.
fn in_a_namespace(options: &Options) -> io::Result<()> {
    let namespace = Namespace::make(format!("passport-bench-{}", std::process::id()))?;
    let inside = |words: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.0]).args(words);
        command
    };
    succeed(&mut inside(&["ip", "link", "set", "lo", "up"]))?;
    let portunus = options.portunus.display().to_string();
    succeed(&mut inside(&[&portunus, "routing", "setup"]))?;
    let mut again = inside(&[]);
    again.args(["taskset", "--cpu-list", proxies::LOAD_CORES]).arg(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).arg("--inside");
    succeed(&mut again)
}

/// A network namespace of ours, until it is dropped.
struct Namespace(String);

impl Namespace {
    fn make(name: String) -> io::Result<Namespace> {
        succeed(Command::new("ip").args(["netns", "add", &name]))?;
        Ok(Namespace(name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.status().map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}

fn measure_all(options: &Options) -> io::Result<()> {
    if let Some(unknown) = options.only.iter().find(|only| !WORKS.iter().any(|(name, ..)| name == only)) {
        let known: Vec<_> = WORKS.iter().map(|(name, ..)| *name).collect();
        return Err(io::Error::other(format!("--only {unknown}: no such row; there are {}", known.join(", "))));
    }
    crate::gate::raise_descriptor_limit();
    let mut results = Results::new(measure::machine());
    let before = MachineTime::now();
    for (name, title, work) in WORKS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        eprintln!("== {title}");
        for round in 0..options.rounds {
            let mut order: Vec<Proxy> = options.peers.iter().copied().filter(|proxy| proxy.takes(work)).collect();
            fastrand::shuffle(&mut order);
            for proxy in order {
                match sample(options, work, proxy) {
                    Ok(sample) => {
                        eprintln!("   round {round}: {}", sample.text(proxy));
                        results.add(name, title, proxy, sample);
                    }
                    Err(error) => eprintln!("   round {round}: {}: {error}", proxy.name()),
                }
            }
        }
    }
    results.stolen_percent = MachineTime::now().stolen_percent(before);
    results.report(&options.out)
}

/// One proxy, freshly started, does one row of work once.
fn sample(options: &Options, work: Work, proxy: Proxy) -> io::Result<Sample> {
    let transport = if matches!(work, Work::Datagrams { .. }) { Transport::Udp } else { Transport::Tcp };
    let running = Running::start(proxy, transport, &options.portunus)?;
    match work {
        Work::Pump => streams::pump(&running, options.seconds),
        Work::Connections => streams::connections(&running, options.seconds),
        Work::PingPong => streams::ping_pong(&running, options.seconds),
        Work::Datagrams { bytes, clients } => datagrams::run(&running, bytes, clients, options.trial),
    }
}
