//! `portunus routing`: makes, checks and takes away the policy routing that `transparent: true` needs.
//!
//! Words only; what is there and what is made is `net::routing`'s business.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ipnet::IpNet;
use net::routing::{self, Part, Plan};
use proxy::passport::self_test;

/// Policy routing for connections onward from the client's own address.
#[derive(Debug, Args)]
pub struct RoutingCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make what is missing; does nothing where all is there
    Setup(Wanted),
    /// Say what is missing, capabilities included; exit status 1 if anything is
    Check {
        #[command(flatten)]
        wanted: Wanted,
        /// Also connect to this target once, from an address that is nobody's
        #[arg(long, value_name = "ADDRESS:PORT")]
        to: Vec<SocketAddr>,
        /// Mark of what goes to the targets, as the upstream's `mark` says
        #[arg(long, default_value = "0", value_parser = mark, value_name = "MARK", requires = "to")]
        send_mark: u32,
    },
    /// Remove what `setup` made, and nothing else
    Teardown,
}

#[derive(Debug, Args)]
struct Wanted {
    /// Routing table, for this alone
    #[arg(long, default_value_t = Plan::default().table, value_parser = table)]
    table: u32,
    /// Let packets with this mark come back too, for targets on other machines or in containers
    #[arg(long, default_value = "0", value_parser = mark, value_name = "MARK")]
    mark: u32,
    /// Networks of this machine that applications answer from [default: 127.0.0.0/8 ::1/128]
    #[arg(long, value_name = "NETWORK")]
    from: Vec<IpNet>,
}

impl Wanted {
    fn plan(&self) -> Plan {
        let mut plan = Plan { table: self.table, mark: self.mark, ..Plan::default() };
        if !self.from.is_empty() {
            plan.from = self.from.iter().map(|network| (network.network(), network.prefix_len())).collect();
        }
        plan
    }
}

/// The kernel's own tables are left alone.
fn table(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0 | 253..=255) | Err(_) => Err("use a number from 1 to 252, or above 255".to_owned()),
        Ok(table) => Ok(table),
    }
}

fn mark(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0x");
    let read = digits.map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    read.map_err(|_| "use a number such as 123 or 0x7b".to_owned())
}

/// Runs the command.
pub fn run(command: RoutingCommand) -> ExitCode {
    let done = match command.action {
        Action::Setup(wanted) => setup(&wanted.plan()),
        Action::Check { wanted, to, send_mark } => check(&wanted.plan(), &to, send_mark),
        Action::Teardown => teardown(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", explain(&error));
            ExitCode::FAILURE
        }
    }
}

fn setup(plan: &Plan) -> io::Result<bool> {
    let missing = routing::missing(plan)?;
    if missing.is_empty() {
        println!("all rules and routes are already in place");
    }
    for part in &missing {
        match routing::make(part) {
            Ok(()) => println!("made: {part}"),
            Err(error) if part.is_v6() && routing::is_without_v6(&error) => {
                println!("left out, since this machine has no IPv6: {part}");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn teardown() -> io::Result<bool> {
    match routing::remove_ours()? {
        0 => println!("nothing to remove"),
        count => println!("removed {count} rules and routes"),
    }
    Ok(true)
}

fn check(plan: &Plan, targets: &[SocketAddr], send_mark: u32) -> io::Result<bool> {
    let mut is_good = true;
    let mut report = |good: bool, words: String| {
        println!("{} {words}", if good { "ok     " } else { "missing" });
        is_good &= good;
    };
    let permitted = net::transparent::is_permitted();
    report(
        permitted,
        if permitted {
            "CAP_NET_ADMIN: this process may use foreign addresses".to_owned()
        } else {
            "CAP_NET_ADMIN: this process may not use foreign addresses; run it as root, or give the service the capability as \
             packaging/portunus-passport.service does"
                .to_owned()
        },
    );
    let missing = routing::missing(plan)?;
    for part in routing::parts(plan) {
        let there = !missing.contains(&part);
        report(there, describe(&part, there));
    }
    if !targets.is_empty() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for target in targets {
            let finding = runtime.block_on(self_test::run(*target, send_mark));
            report(finding.is_good(), finding.explain(*target, missing.is_empty()));
        }
    }
    if !missing.is_empty() {
        println!("fix: run `portunus routing setup` as root; it makes what is missing and changes nothing else");
    }
    Ok(is_good)
}

fn describe(part: &Part, there: bool) -> String {
    let what = match part {
        Part::From { network: (address, length), table } => {
            format!("rule: what applications answer from {address}/{length} is looked up in table {table}")
        }
        Part::Mark { v6, mark, table } => {
            format!("rule: {} packets with mark {mark:#x} are looked up in table {table}", family(*v6))
        }
        Part::Route { v6, table } => {
            format!("route: in table {table} every {} address is local", family(*v6))
        }
    };
    if there { what } else { format!("{what} ({part})") }
}

fn family(v6: bool) -> &'static str {
    if v6 { "IPv6" } else { "IPv4" }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{error}; changing routes needs CAP_NET_ADMIN: run it as root"),
        io::ErrorKind::NetworkDown => format!("{error}; the loopback interface is down: `ip link set lo up`"),
        _ => error.to_string(),
    }
}
