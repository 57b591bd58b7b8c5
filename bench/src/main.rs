//! Load generator, test upstream, the side-by-side runs and the fault protocol. Measures and reports; asserts nothing about time.
//!
//! What each subcommand does stands in bench/README.md. Traffic goes to loopback addresses only.
#![forbid(unsafe_code)]

mod calls;
mod chart;
mod contract;
mod far;
mod faults;
mod features;
mod floods;
mod gate;
mod generator;
mod histogram;
mod http2;
mod keyless;
mod measure;
mod offload;
mod passport;
mod peers;
mod plan;
mod shared_read;
mod table;
mod upstream;
mod works;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "bench", about = "Load generator, test upstream and side-by-side runs", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A small, fast HTTP/1.1 upstream.
    Upstream(upstream::Options),
    /// Load on one server; prints one line of JSON.
    Load(generator::Options),
    /// Uploads over a long path.
    Far(far::Options),
    /// Portunus beside its peers.
    Gate(gate::Options),
    /// Which system calls each proxy makes.
    Calls(calls::Options),
    /// What each feature costs a request that uses it.
    Features(features::Options),
    /// A good client beside connections that flood.
    Floods(floods::Options),
    /// The attackers of `floods`.
    Flood(floods::AttackerOptions),
    /// Portunus under a contract beside those that only forward.
    Contract(contract::Options),
    /// Keys on another machine: what they cost the edge.
    Keyless(keyless::Options),
    /// TLS in, bytes out, beside those who do only that, and beside an application's own TLS.
    Offload(offload::Options),
    /// Onward from the client's own address, beside go-mmproxy.
    Passport(passport::Options),
    /// The floor of `passport`: the least that passes streams on.
    SpliceLoop(passport::SpliceLoopOptions),
    /// The fault protocol: what is lost, doubled or cut when things break.
    Faults(faults::Options),
    /// The upstream of the fault protocol, which writes down what it sees.
    LedgerUpstream(faults::RecorderOptions),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Upstream(options) => upstream::run(&options),
        Command::Load(options) => generator::run(&options),
        Command::Far(options) => far::run(&options),
        Command::Gate(options) => gate::run(&options),
        Command::Calls(options) => calls::run(&options),
        Command::Features(options) => features::run(&options),
        Command::Floods(options) => floods::run(&options),
        Command::Flood(options) => floods::run_attacker(&options),
        Command::Contract(options) => contract::run(&options),
        Command::Keyless(options) => keyless::run(&options),
        Command::Offload(options) => offload::run(&options),
        Command::Passport(options) => passport::run(&options),
        Command::SpliceLoop(options) => passport::run_splice_loop(&options),
        Command::Faults(options) => faults::run(&options),
        Command::LedgerUpstream(options) => faults::run_recorder(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
