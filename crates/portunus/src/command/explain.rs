//! `portunus explain`: what becomes of a request under a configuration, and why, without serving it. The decisions are those of the program that serves
//! (`proxy::explain`); here is what people and programs read of them.

mod json;
mod text;

pub(super) use text::shown;

use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use proxy::explain::{Explainer, Explanation, Question};
use tls::PeerCertificate;

/// Largest body, bytes.
const MAX_BODY_BYTES: u64 = 64 * 1024 * 1024;

/// `portunus explain`.
#[derive(Debug, Args)]
pub struct ExplainCommand {
    /// Configuration file (YAML)
    file: PathBuf,
    /// Method of the request
    method: String,
    /// Its URL; scheme and port say which listener it comes to
    url: String,
    /// A header of the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Address of who connects, or whom a PROXY header names; by default one that is nobody's (RFC 5737)
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.1")]
    from: IpAddr,
    /// File with the body
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The listener that it comes to, where the URL does not say it
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// PEM file with the client's certificate, which is taken as verified
    #[arg(long, value_name = "FILE")]
    client_certificate: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Explains a request: 0 whatever becomes of it, 1 if nobody can say.
pub fn run(command: &ExplainCommand) -> ExitCode {
    match explain(command) {
        Ok(explanation) => {
            if command.json {
                say!("{:#}", json::of(&explanation));
            } else {
                text::of(&explanation).lines().for_each(|line| say!("{line}"));
            }
            ExitCode::SUCCESS
        }
        Err(problems) => {
            problems.iter().for_each(|problem| complain!("{problem}"));
            ExitCode::FAILURE
        }
    }
}

fn explain(command: &ExplainCommand) -> Result<Explanation, Vec<String>> {
    let one = |problem: String| vec![format!("error: {problem}")];
    let body = command.body.as_deref().map(read_body).transpose().map_err(one)?.unwrap_or_default();
    let question = Question::new(&command.method, &command.url, &command.headers, body, command.from);
    let certificate = command.client_certificate.as_deref().map(read_certificate).transpose().map_err(one)?;
    let question = Question { listener: command.listener.clone(), certificate, ..question.map_err(one)? };
    open(&command.file)?.explain(&question).map_err(one)
}

/// Reads a configuration and everything that it names.
///
/// # Errors
/// Everything that is wrong.
pub fn open(file: &Path) -> Result<Explainer, Vec<String>> {
    let texts = |problems: config::Problems| problems.list().iter().map(ToString::to_string).collect::<Vec<_>>();
    Explainer::new(config::load(file).map_err(texts)?)
}

fn read_body(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut body = Vec::new();
    keystore::files::open(path).map_err(failed)?.take(MAX_BODY_BYTES + 1).read_to_end(&mut body).map_err(failed)?;
    if body.len() as u64 > MAX_BODY_BYTES {
        return Err(format!("{} is larger than 64 MiB", path.display()));
    }
    Ok(body)
}

fn read_certificate(path: &Path) -> Result<Box<PeerCertificate>, String> {
    let certificates = keystore::trust::certificates(path)?;
    let leaf = certificates.first().ok_or_else(|| format!("{} holds no certificate", path.display()))?;
    PeerCertificate::read(leaf).map(Box::new).map_err(|error| format!("{}: {error}", path.display()))
}
