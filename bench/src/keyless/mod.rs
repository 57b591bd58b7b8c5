//! `bench keyless`: what keys on another machine cost, in two halves. The key server: signatures per second beside what the library does alone. The
//! edge: full handshakes through an edge and a key server, against the same with local keys.

mod edge;
pub(crate) mod key_server;
mod server;
mod site;

use std::io;

/// Options of `bench keyless`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which half to run; both if not said.
    #[arg(long, value_enum)]
    half: Option<Half>,
    #[command(flatten)]
    run: edge::Options,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Half {
    /// Signatures of the key server alone.
    Server,
    /// Handshakes of an edge.
    Edge,
}

/// Runs the halves that are wanted.
///
/// # Errors
/// One could not be run, or its results not be written.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if options.half != Some(Half::Edge) {
        server::run(&options.run)?;
    }
    if options.half != Some(Half::Server) {
        edge::run(&options.run)?;
    }
    Ok(())
}
