//! `portunus enrol`: this node gets its client certificate from a key server, by a token.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use wire::enrolment::{Token, is_node_name};
use zeroize::Zeroizing;

use super::show::fail;
use crate::enrolment::{self, Server};

/// Longest text that a token is looked for in, bytes.
const MAX_TOKEN_BYTES: u64 = 1024;

/// Get a client certificate from a key server, by a token that was made there; the running edge renews it
#[derive(Debug, Args)]
pub struct EnrolCommand {
    /// The key server, which issues certificates
    #[arg(long, value_name = "HOST:PORT", value_parser = server)]
    server: (String, u16),
    /// Name of this node, as the token was made for
    #[arg(long)]
    name: String,
    /// Folder for certificate and key, as `enrolment` of the group of key servers names it
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// File with the token [default: it is read from standard input]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Name in the certificate of the key server [default: the host of --server]
    #[arg(long, value_name = "HOST")]
    server_name: Option<String>,
}

/// Enrols; gives the exit status.
pub fn run(command: EnrolCommand) -> ExitCode {
    let server = Server { address: command.server, name: command.server_name };
    let enrolled = token(command.token_file.as_deref()).and_then(|token| {
        if !is_node_name(&command.name) {
            return Err(format!("{:?} is no name of a node: write a host name in lower case", command.name));
        }
        // What is not to be written should be known before the token is used up.
        writable(&command.folder)?;
        let enrolled = enrolment::enrol(&server, &token, &command.name)?;
        enrolled.keep(&command.folder)?;
        enrolment::prove(&server, &command.folder)
            .map_err(|problem| format!("enrolled, but the key server cannot be used with it: {problem}"))
    });
    match enrolled {
        Ok(()) => {
            let folder = command.folder.display();
            say!(
                "{} is enrolled at {server}; the edge needs `enrolment: {folder}` in its group of `key_servers`",
                command.name
            );
            ExitCode::SUCCESS
        }
        Err(problem) => fail(&problem),
    }
}

fn token(file: Option<&Path>) -> Result<Token, String> {
    let mut text = Zeroizing::new(String::new());
    match file {
        Some(file) => {
            let read = keystore::files::text(file, MAX_TOKEN_BYTES);
            *text = read.map_err(|error| format!("{}: {error}", file.display()))?;
        }
        None => {
            let input = std::io::stdin();
            if input.is_terminal() {
                complain!("token, and Enter and Ctrl-D:");
            }
            let read = input.take(MAX_TOKEN_BYTES).read_to_string(&mut text);
            read.map_err(|error| format!("standard input: {error}"))?;
        }
    }
    let parsed = Token::parse(text.trim());
    parsed
        .ok_or_else(|| "this is no token: copy the whole line that `portunus key-server token` has printed".to_owned())
}

fn writable(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    let probe = folder.join(".probe");
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let written = made.and_then(|()| std::fs::write(&probe, "")).and_then(|()| std::fs::remove_file(&probe));
    written.map_err(|error| format!("{}: {error}; the token was not used", folder.display()))
}

fn server(text: &str) -> Result<(String, u16), String> {
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = split.filter(|(host, port)| !host.is_empty() && *port != 0).ok_or("write HOST:PORT")?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok((host.to_owned(), port))
}
