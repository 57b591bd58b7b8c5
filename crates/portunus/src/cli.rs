//! The command line: one definition for arguments, `--help`, the man page and shell completions.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use compat::proof::Original;
use compat::{api_firewall, go_mmproxy, gokeyless, hitch, ingress, mmproxy, sillyproxy, stunnel};

use crate::command;

/// One program at the edge of a network: TLS, HTTP routing, API contracts, TCP and UDP, private keys.
#[derive(Debug, Parser)]
#[command(name = "portunus", version, about)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server that FILE describes
    Run {
        /// Configuration file (YAML)
        file: PathBuf,
        /// How it is run
        #[command(flatten)]
        options: crate::supervisor::Options,
    },
    /// Have a running server load its configuration again, and wait for the outcome
    Reload(command::reload::ReloadCommand),
    /// Have a running server start the program again and hand over its sockets to it, and wait until that serves
    Upgrade(command::upgrade::UpgradeCommand),
    /// Show the state of a running server
    Status(command::show::ShowCommand),
    /// Show a running server's traffic, servers, errors and rejections, once a second
    Top(command::top::TopCommand),
    /// List the requests, connections and tunnels of a running server that failed or were rejected last
    Errors(command::show::ShowCommand),
    /// List the certificates that a running server serves, those that expire first at the top
    Certificates(command::show::ShowCommand),
    /// Count a running server's connections, by listener and client
    Connections(command::show::ShowCommand),
    /// Keep new requests from an upstream server, until a restart
    Drain(command::operate::DrainCommand),
    /// Give an upstream server another share of the load, until a restart
    Weight(command::operate::WeightCommand),
    /// Turn maintenance mode on or off (requests get 503) until the next restart
    Maintenance(command::operate::MaintenanceCommand),
    /// Have a running server log more, or less, for a while
    LogLevel(command::operate::LogLevelCommand),
    /// Check FILE and everything it names; report every problem at once, and warn of what is probably not meant
    Check {
        /// Configuration file (YAML)
        file: PathBuf,
        /// Exit with 1 if there are warnings, too
        #[arg(long)]
        strict: bool,
        /// Say which files, capabilities and system calls the server would keep, and why
        #[arg(long)]
        sandbox: bool,
        /// Also look whether certificates can be ordered: DNS records of the names, and the ports that authorities connect to. Changes nothing
        #[arg(long)]
        online: bool,
    },
    /// Say what differs between two configurations, or a running server's and a file, and which logged requests notice it
    Diff(command::diff::DiffCommand),
    /// Say what becomes of a request under FILE, and why, without serving it
    Explain(command::explain::ExplainCommand),
    /// Keep certificates and keys in stores
    Keystore(command::keystore::KeystoreCommand),
    /// Make keys for Encrypted Client Hello, and print their DNS records
    Ech(command::ech::EchCommand),
    /// Policy routing for connections onward from the client's own address
    Routing(command::routing::RoutingCommand),
    /// Check API documents, and messages against them
    Contract(command::contract::ContractCommand),
    /// Keep private keys on a machine of their own, and sign for edges
    KeyServer(command::key_server::KeyServerCommand),
    /// Get a client certificate from a key server, by a token that was made there; the running edge renews it
    Enrol(command::enrol::EnrolCommand),
    /// Push configurations to a fleet of nodes, and see what becomes of them
    Fleet(command::fleet::FleetCommand),
    /// Validate requests that another proxy holds: nginx, Traefik, Caddy, Envoy
    ValidateServer(command::validate_server::ValidateServerCommand),
    /// Show Portunus at work: gate, dashboard, key server and small upstreams, with commands to paste
    Demo(command::demo::DemoCommand),
    /// Create a small working configuration in a new folder and serve it over TLS
    Quickstart(command::quickstart::QuickstartCommand),
    /// Run in another program's place, with that program's arguments
    #[command(disable_help_flag = true)] // `-h` is an argument of that program
    As {
        /// The program
        program: Foreign,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print the native configuration that another program's arguments or files mean; of nginx and HAProxy, `--prove` compares the two
    #[command(disable_help_flag = true)]
    Import {
        /// The program
        program: Imported,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print the JSON Schema of the configuration file
    Schema,
    /// Print the man page (roff), or write one for each command into DIR
    Man {
        /// An existing folder
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Programs whose place Portunus can take.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Foreign {
    /// SillyProxy: routes.json, Java keystores
    Sillyproxy,
    /// Wallarm's API Firewall, proxy and API mode: APIFW_ variables, apifw.yaml
    ApiFirewall,
    /// gokeyless: a key server's gokeyless.yaml
    Gokeyless,
    /// go-mmproxy: PROXY header in, onward from the client's own address
    GoMmproxy,
    /// Cloudflare's mmproxy: the same
    Mmproxy,
    /// hitch: hitch.conf and options
    Hitch,
}

/// Programs whose arguments or files become a native configuration.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Imported {
    /// nginx: nginx.conf with what it includes, a single site, or the output of `nginx -T`
    Nginx,
    /// HAProxy: haproxy.cfg
    Haproxy,
    /// Kubernetes Ingress: manifests
    Ingress,
    /// hitch: hitch.conf, or its arguments
    Hitch,
    /// stunnel: stunnel.conf
    Stunnel,
    /// SillyProxy: its arguments
    Sillyproxy,
    /// Wallarm's API Firewall: its environment and arguments
    ApiFirewall,
    /// gokeyless: its arguments and gokeyless.yaml
    Gokeyless,
    /// go-mmproxy: its arguments
    GoMmproxy,
    /// Cloudflare's mmproxy: its arguments
    Mmproxy,
}

/// Does what the arguments of this process say; gives the exit status. Where they are wrong, or ask for help, says so.
pub fn main() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().collect();
    // Behind the other program's name, `--help` is that program's; before it, it can only be meant for us.
    if let [_, command, flag, ..] = &given[..]
        && ["as", "import"].iter().any(|name| command == name)
        && ["--help", "-h"].iter().any(|name| flag == name)
    {
        let mut whole = Arguments::command();
        whole.build();
        if let Some(command) = command.to_str().and_then(|name| whole.find_subcommand_mut(name)) {
            let _ = write!(std::io::stdout(), "{}", command.render_long_help());
            return ExitCode::SUCCESS;
        }
    }
    run(Arguments::try_parse().unwrap_or_else(|error| with_near_tips(error).exit()))
}

/// The error without tips that are no slip of what was written: `completions` for `policies`.
fn with_near_tips(mut error: clap::Error) -> clap::Error {
    for (wrong, tip) in [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    ] {
        let Some(ContextValue::String(given)) = error.get(wrong).cloned() else { continue };
        let given = given.trim_start_matches('-').to_owned();
        let reach = (given.chars().count() / 3).max(1);
        let is_near = |text: &String| strsim::damerau_levenshtein(&given, text.trim_start_matches('-')) <= reach;
        match error.remove(tip) {
            Some(ContextValue::Strings(mut tips)) => {
                tips.retain(is_near);
                if !tips.is_empty() {
                    error.insert(tip, ContextValue::Strings(tips));
                }
            }
            Some(ContextValue::String(text)) if is_near(&text) => _ = error.insert(tip, ContextValue::String(text)),
            _ => {}
        }
    }
    error
}

/// Whether a command prints and ends. The others have connections, and go on if nobody reads what they print.
fn is_brief(command: &Command) -> bool {
    match command {
        Command::Run { .. }
        | Command::Quickstart(_)
        | Command::Reload(_)
        | Command::Upgrade(_)
        | Command::As { .. } => false,
        Command::ValidateServer(command) => command.is_brief(),
        Command::Demo(command) => command.is_brief(),
        Command::KeyServer(command) => command.is_brief(),
        Command::Status(_)
        | Command::Top(_)
        | Command::Errors(_)
        | Command::Certificates(_)
        | Command::Connections(_)
        | Command::Drain(_)
        | Command::Weight(_)
        | Command::Maintenance(_)
        | Command::LogLevel(_)
        | Command::Check { .. }
        | Command::Diff(_)
        | Command::Explain(_)
        | Command::Keystore(_)
        | Command::Ech(_)
        | Command::Routing(_)
        | Command::Contract(_)
        | Command::Enrol(_)
        | Command::Fleet(_)
        | Command::Import { .. }
        | Command::Schema
        | Command::Man { .. }
        | Command::Completions { .. } => true,
    }
}

/// Does what the arguments say; gives the exit status.
pub fn run(arguments: Arguments) -> ExitCode {
    if is_brief(&arguments.command) {
        net::process::end_on_closed_pipe();
    }
    match arguments.command {
        Command::Run { file, options } => command::run::run(&file, options),
        Command::Reload(command) => command::reload::run(&command),
        Command::Upgrade(command) => command::upgrade::run(&command),
        Command::Status(command) => command::show::status(&command),
        Command::Top(command) => command::top::top(&command),
        Command::Errors(command) => command::show::errors(&command),
        Command::Certificates(command) => command::show::certificates(&command),
        Command::Connections(command) => command::show::connections(&command),
        Command::Drain(command) => command::operate::drain(&command),
        Command::Weight(command) => command::operate::weigh(&command),
        Command::Maintenance(command) => command::operate::maintain(&command),
        Command::LogLevel(command) => command::operate::log_level(&command),
        Command::Keystore(command) => command::keystore::run(command),
        Command::Ech(command) => command::ech::run(command),
        Command::Routing(command) => command::routing::run(command),
        Command::Contract(command) => command::contract::run(command),
        Command::Enrol(command) => command::enrol::run(command),
        Command::Fleet(command) => command::fleet::run(command),
        Command::KeyServer(command) => command::key_server::run(command),
        Command::ValidateServer(command) => command::validate_server::run(command),
        Command::Demo(command) => command::demo::run(command),
        Command::Quickstart(command) => command::quickstart::run(command),
        Command::Diff(command) => command::diff::run(&command),
        Command::Explain(command) => command::explain::run(&command),
        Command::Check { file, strict, sandbox, online } => command::check::run(&file, strict, sandbox, online),
        Command::As { program, arguments } => run_as(program, arguments),
        Command::Import { program, arguments } => import(program, &arguments),
        Command::Schema => print_with(|out| writeln!(out, "{:#}", config::json_schema())),
        Command::Man { folder: None } => print_with(|out| clap_mangen::Man::new(Arguments::command()).render(out)),
        Command::Man { folder: Some(folder) } => write_man_pages(&folder),
        Command::Completions { shell } => print_with(|out| {
            clap_complete::generate(shell, &mut Arguments::command(), "portunus", out);
            Ok(())
        }),
    }
}

/// Writes a man page for each command.
fn write_man_pages(folder: &Path) -> ExitCode {
    match clap_mangen::generate_to(Arguments::command(), folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("portunus man: cannot write into {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

/// Runs in another program's place.
fn run_as(program: Foreign, arguments: Vec<OsString>) -> ExitCode {
    match program {
        Foreign::Sillyproxy => command::front::run(arguments, sillyproxy::run),
        Foreign::ApiFirewall => command::front::run_api_firewall(arguments),
        Foreign::Gokeyless => command::front::run_gokeyless(arguments),
        Foreign::GoMmproxy => command::front::run_announced(arguments, go_mmproxy::run, go_mmproxy::announcements),
        Foreign::Mmproxy => command::front::run(arguments, mmproxy::run),
        Foreign::Hitch => command::front::run(arguments, hitch::run),
    }
}

/// Prints a native configuration.
fn import(program: Imported, arguments: &[OsString]) -> ExitCode {
    match program {
        Imported::Nginx => command::prove::import(Original::Nginx, arguments),
        Imported::Haproxy => command::prove::import(Original::Haproxy, arguments),
        Imported::Ingress => command::front::finish(ingress::import(arguments)),
        Imported::Hitch => command::front::finish(hitch::import(arguments)),
        Imported::Stunnel => command::front::finish(stunnel::import(arguments)),
        Imported::Sillyproxy => command::front::finish(sillyproxy::import(arguments)),
        Imported::ApiFirewall => command::front::finish(api_firewall::import(arguments)),
        Imported::Gokeyless => command::front::import_gokeyless(gokeyless::translate(arguments)),
        Imported::GoMmproxy => command::front::finish(go_mmproxy::import(arguments)),
        Imported::Mmproxy => command::front::finish(mmproxy::import(arguments)),
    }
}

fn print_with(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> ExitCode {
    let mut out = Vec::new();
    let written = write(&mut out).and_then(|()| std::io::Write::write_all(&mut std::io::stdout(), &out));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
