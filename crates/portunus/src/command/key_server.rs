//! `portunus key-server`: the key server's commands.

mod bench;
mod check;
mod enrolment;
mod init;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Keep private keys on a machine of their own, and sign for edges
#[derive(Debug, Args)]
pub struct KeyServerCommand {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run the key server that FILE describes
    Run {
        /// Configuration file (YAML)
        file: PathBuf,
        /// How it is run
        #[command(flatten)]
        options: crate::supervisor::Options,
    },
    /// Check FILE and everything it names: chains, names, usages, keys, permissions
    Check {
        /// Configuration file (YAML)
        file: PathBuf,
    },
    /// Make a CA, certificates, site keys and configurations for both sides, to try it out
    Init(init::Init),
    /// Make a token by which a node may enrol once (`portunus enrol`), and print it
    Token(enrolment::MakeToken),
    /// List the nodes that have enrolled, and the tokens that are open
    Nodes {
        /// Configuration file (YAML)
        file: PathBuf,
    },
    /// Have a node's client certificates accepted no more, and not renewed
    Revoke(enrolment::Revoke),
    /// Load a key server and measure it
    Bench(bench::Bench),
    /// Print the JSON Schema of the configuration file
    Schema,
}

impl KeyServerCommand {
    /// Whether it prints and ends.
    pub fn is_brief(&self) -> bool {
        !matches!(self.action, Action::Run { .. } | Action::Bench(_))
    }
}

/// Does what the arguments say; gives the exit status.
pub fn run(command: KeyServerCommand) -> ExitCode {
    match command.action {
        Action::Run { file, options } => crate::key_server::run_file(&file, options),
        Action::Check { file } => check::run(&file),
        Action::Init(init) => init::run(&init),
        Action::Token(make) => enrolment::token(&make),
        Action::Nodes { file } => enrolment::nodes(&file),
        Action::Revoke(revoke) => enrolment::revoke(&revoke),
        Action::Bench(bench) => bench::run(&bench),
        Action::Schema => {
            println!("{:#}", config::key_server_json_schema());
            ExitCode::SUCCESS
        }
    }
}
