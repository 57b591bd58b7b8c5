//! `portunus key-server token`, `nodes`, `revoke`: who may enrol, and who has. They change the folder of enrolment, which the running server sees.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use config::{EnrolmentConfig, KeyServerConfig};
use keyserver::access::Peer;
use keyserver::issuer::pin_of;
use keyserver::register::{Grant, Names, Node, Register, seconds};
use tls::crypto::digest;
use wire::enrolment::Token;
use zeroize::Zeroizing;

use crate::command::operate::time;
use crate::command::show::fail;

/// Longest time that a token is good for.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A token that is to be made.
#[derive(Debug, clap::Args)]
pub struct MakeToken {
    /// Configuration file of the key server (YAML)
    file: PathBuf,
    /// Name of the node, such as edge-1.example, which its certificate will say; or `*.edges.example` for several nodes that each choose one
    #[arg(long, value_parser = names)]
    name: Names,
    /// How long it is good for: 15m, 1h; at most 7d
    #[arg(long, default_value = "15m", value_parser = time)]
    valid_for: Duration,
    /// How many nodes may use it, for a name with `*`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    uses: u32,
    /// Listener that nodes connect to [default: the first one with TLS]
    #[arg(long)]
    listener: Option<String>,
}

/// A node that is to be revoked.
#[derive(Debug, clap::Args)]
pub struct Revoke {
    /// Configuration file of the key server (YAML)
    file: PathBuf,
    /// Name of the node
    name: String,
}

/// Makes a token, and prints it alone on standard output.
pub fn token(make: &MakeToken) -> ExitCode {
    done(make_token(make).map(|token| say!("{}", token.as_str())))
}

/// Lists nodes and open tokens.
pub fn nodes(file: &Path) -> ExitCode {
    done(listed(file).map(|text| say!("{text}")))
}

/// Has a node's certificates accepted no more.
pub fn revoke(revoke: &Revoke) -> ExitCode {
    let revoked = load(&revoke.file).and_then(|(_, enrolment)| {
        Register::at(&enrolment.folder).revoke(&revoke.name)?;
        say!(
            "{}: revoked; a running key server ends its connections within a second or two, and renews nothing",
            revoke.name
        );
        Ok(())
    });
    done(revoked)
}

fn done(outcome: Result<(), String>) -> ExitCode {
    outcome.map_or_else(|problem| fail(&problem), |()| ExitCode::SUCCESS)
}

fn names(text: &str) -> Result<Names, String> {
    let what = "write a host name in lower case such as edge-1.example, or `*.` and the end of such names";
    Names::parse(text).ok_or_else(|| what.to_owned())
}

fn load(file: &Path) -> Result<(KeyServerConfig, EnrolmentConfig), String> {
    let config = config::load_key_server(file).map_err(|problems| problems.to_string())?;
    let enrolment = config.enrolment.clone();
    let fix = "add `enrolment: { folder: FOLDER, server_ca: FILE }` and restart the key server";
    enrolment
        .map(|enrolment| (config, enrolment))
        .ok_or_else(|| format!("{}: has no `enrolment`; {fix}", file.display()))
}

fn make_token(make: &MakeToken) -> Result<Zeroizing<String>, String> {
    if matches!(make.name, Names::Exact(_)) && make.uses > 1 {
        return Err("a name is one node's, so that its token is used once; `--uses` takes a name with `*`".to_owned());
    }
    if make.valid_for > LONGEST {
        return Err("a token is good for 7 days at most".to_owned());
    }
    let (config, enrolment) = load(&make.file)?;
    let is_meant = |name: &str| make.listener.as_deref().is_none_or(|wanted| wanted == name);
    let tls = config.listeners.iter().filter(|listener| is_meant(&listener.name)).find_map(|one| one.tls.as_ref());
    let tls = tls.ok_or("there is no such listener with TLS")?;
    let token = Token { secret: digest::random().map_err(|error| error.to_string())?, pin: pin_of(&tls.certificate)? };
    let now = SystemTime::now();
    let register = Register::at(&enrolment.folder);
    if !register.authority_certificate().exists() {
        // What is made here as root would not be the key server's.
        let place = enrolment.folder.display();
        return Err(format!(
            "{place}: there is no authority yet; start the key server with this configuration, which makes it"
        ));
    }
    let grant = Grant { names: make.name.clone(), ends: seconds(now + make.valid_for), uses: make.uses };
    register.open_token(&token.secret, &grant, now)?;
    warn(&config, &make.name);
    complain!(
        "on the node, and give it the token on standard input: portunus enrol --server HOST:PORT --name {} --folder DIR",
        make.name
    );
    Ok(Zeroizing::new(token.text()))
}

/// A node that no rule names may only ping, which is probably not meant.
fn warn(config: &KeyServerConfig, names: &Names) {
    let example = match names {
        Names::Exact(name) => name.clone(),
        Names::Under(end) => format!("any{end}"),
    };
    let peer = Peer::named(&example);
    let is_named = config.access.iter().flat_map(|rule| &rule.clients).any(|pattern| peer.matches(pattern));
    if !is_named {
        complain!("warning: no rule of `access` names {names}, so that its nodes may use no key");
    }
}

fn listed(file: &Path) -> Result<String, String> {
    let (_, enrolment) = load(file)?;
    let register = Register::at(&enrolment.folder);
    let now = seconds(SystemTime::now());
    let until = |ends: u64| match ends.checked_sub(now) {
        None | Some(0) => "ended".to_owned(),
        Some(left) if left < 7200 => format!("for {} min", left.div_ceil(60)),
        Some(left) => format!("for {} h", left / 3600),
    };
    let node = |(name, node): (String, Node)| match node.is_revoked {
        true => format!("node   {name}  revoked"),
        false => format!("node   {name}  {}", until(node.ends)),
    };
    let token = |grant: Grant| format!("token  {}  {}, {} uses left", grant.names, until(grant.ends), grant.uses);
    let lines: Vec<String> =
        register.nodes()?.into_iter().map(node).chain(register.open_tokens()?.into_iter().map(token)).collect();
    Ok(if lines.is_empty() { "no nodes, and no open tokens".to_owned() } else { lines.join("\n") })
}
