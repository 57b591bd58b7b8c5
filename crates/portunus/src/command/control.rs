//! Requests to a running server over its control socket, for `portunus reload` and `portunus upgrade`.
//!
//! Speaks HTTP to the Unix socket that `--control` of `run` names. Owns no outcome: that is the server's.

use std::io::{self, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// The socket of the units in `packaging/`.
const DEFAULT_CONTROL: &str = "/run/portunus/control.sock";

/// How long the server may take; its own bound on an admin connection is the same.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Most of a response that is read, bytes.
const MAX_RESPONSE_BYTES: u64 = 4 * 1024 * 1024;

/// Which server is asked.
#[derive(Debug, clap::Args)]
pub struct Control {
    /// The server's control socket
    #[arg(long, value_name = "PATH", default_value = DEFAULT_CONTROL)]
    control: PathBuf,
}

impl Control {
    /// Asks for something to be done; gives the server's account of it.
    ///
    /// # Errors
    /// It cannot be asked; says what to do.
    pub fn ask(&self, path: &str) -> Result<Value, String> {
        ask(&self.control, path).map_err(|error| {
            let socket = self.control.display();
            format!("cannot ask the server at {socket}: {error}; it must run with `--control {socket}`")
        })
    }
}

/// A list of texts in an account.
pub fn texts(account: &Value, name: &str) -> Vec<String> {
    let texts = account.get(name).and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn ask(control: &Path, path: &str) -> io::Result<Value> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_string(&mut response)?;
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "it does not speak as a server of ours does");
    let (_, body) = response.split_once("\r\n\r\n").ok_or_else(malformed)?;
    serde_json::from_str(body).map_err(|_| malformed())
}
