//! `portunus reload`: has a running server load its configuration again, waits, and says what came of it; for people and for systemd's `ExecReload`.
//!
//! Speaks HTTP to the Unix socket that `--control` of `run` names. Owns no reload: that is the server's.

use std::io::{self, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The socket of the units in `packaging/`.
const DEFAULT_CONTROL: &str = "/run/portunus/control.sock";

/// How long a reload may take; the server's own bound on an admin connection is the same.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Most of a response that is read, bytes.
const MAX_RESPONSE_BYTES: u64 = 4 * 1024 * 1024;

/// `portunus reload`.
#[derive(Debug, clap::Args)]
pub struct ReloadCommand {
    /// The server's control socket
    #[arg(long, value_name = "PATH", default_value = DEFAULT_CONTROL)]
    control: PathBuf,
}

/// Reloads: 0 if the new configuration is active, else 1 and every problem on stderr.
pub fn run(command: &ReloadCommand) -> ExitCode {
    match ask(&command.control) {
        Ok(Outcome { generation: Some(generation), lines }) => {
            say!("reloaded: configuration {generation} is active");
            lines.iter().for_each(|setting| complain!("warning: waits for a restart: {setting}"));
            ExitCode::SUCCESS
        }
        Ok(Outcome { generation: None, lines }) => {
            lines.iter().for_each(|problem| complain!("{problem}"));
            complain!("error: reload rejected; the active configuration stays");
            ExitCode::FAILURE
        }
        Err(error) => {
            let socket = command.control.display();
            complain!("error: cannot ask the server at {socket}: {error}; it must run with `--control {socket}`");
            ExitCode::FAILURE
        }
    }
}

/// What the server said.
struct Outcome {
    /// The configuration that is active now; none if the new one was rejected.
    generation: Option<u64>,
    /// Settings that wait for a restart, or problems.
    lines: Vec<String>,
}

fn ask(control: &Path) -> io::Result<Outcome> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = b"POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(request)?;
    let mut response = String::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_string(&mut response)?;
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "it does not speak as a server of ours does");
    let (_, body) = response.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let body: serde_json::Value = serde_json::from_str(body).map_err(|_| malformed())?;
    let texts = |name: &str| {
        let texts = body.get(name).and_then(serde_json::Value::as_array).into_iter().flatten();
        texts.filter_map(|text| text.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    match body.get("generation").and_then(serde_json::Value::as_u64) {
        Some(generation) => Ok(Outcome { generation: Some(generation), lines: texts("waiting_for_restart") }),
        None if body.get("problems").is_some() => Ok(Outcome { generation: None, lines: texts("problems") }),
        None => Err(malformed()),
    }
}
