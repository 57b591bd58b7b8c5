//! Requests to a running server over its admin socket or its admin listener, for `portunus status`, `reload`, `upgrade`, `diff` and others.
//!
//! Speaks HTTP to a Unix socket. Owns no outcome: that is the server's.

use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::explain::shown;
use crate::admin::place;

/// How long the server may take; its own bound on an admin connection is the same.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Most of a response that is read, bytes.
const MAX_RESPONSE_BYTES: u64 = 16 * 1024 * 1024;

/// Which server is asked.
#[derive(Debug, clap::Args)]
pub struct Control {
    /// The server's admin socket [default: $XDG_RUNTIME_DIR/portunus/admin.sock or /run/portunus/admin.sock]
    #[arg(long, value_name = "PATH", env = "PORTUNUS_CONTROL", hide_env_values = true)]
    control: Option<PathBuf>,
}

impl Control {
    fn socket(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(place::to_ask)
    }

    /// What the API shows.
    ///
    /// # Errors
    /// It cannot be asked, or has no such view; says what to do.
    pub fn view(&self, name: &str) -> Result<Value, String> {
        self.call("GET", name, None)
    }

    /// Has the API change something; gives what is so now.
    ///
    /// # Errors
    /// It cannot be asked, or nothing was changed; says why.
    pub fn change(&self, name: &str, body: &Value) -> Result<Value, String> {
        self.call("POST", name, Some(body))
    }

    fn call(&self, method: &str, name: &str, body: Option<&Value>) -> Result<Value, String> {
        let socket = self.socket();
        let (status, text) = connect(&socket)
            .and_then(|stream| exchange(stream, method, &format!("/api/v1/{name}"), body))
            .map_err(|error| unreachable(&socket, &error))?;
        if status == 404 && body.is_none() {
            return Err(format!(
                "the server at {} has no `{name}`: it is a key server, or of another version",
                socket.display()
            ));
        }
        let account: Value = serde_json::from_str(&text).map_err(|_| unreachable(&socket, &malformed()))?;
        match status {
            200 => Ok(account),
            _ => Err(texts(&account, "problems").join("; ")),
        }
    }

    /// The server's events, one JSON text each, to `take` until that says that it is enough or the server ends the stream.
    ///
    /// # Errors
    /// It cannot be asked, or the connection broke.
    pub fn events(&self, mut take: impl FnMut(Value) -> bool) -> Result<(), String> {
        let socket = self.socket();
        let explain = |error: io::Error| unreachable(&socket, &error);
        let mut stream = connect(&socket).map_err(explain)?;
        // The form of HTTP that needs no chunks.
        stream.write_all(b"GET /api/v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n").map_err(explain)?;
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        while (&mut lines).take(MAX_RESPONSE_BYTES).read_line(&mut line).map_err(explain)? > 0 {
            if line.starts_with("HTTP/") && line.split(' ').nth(1) != Some("200") {
                return Err(format!("the server at {} has no events: {}", socket.display(), line.trim_end()));
            }
            if let Some(data) = line.strip_prefix("data: ")
                && !take(serde_json::from_str(data).map_err(|_| explain(malformed()))?)
            {
                return Ok(());
            }
            line.clear();
        }
        Ok(())
    }

    /// Asks for something to be done; gives the server's account of it.
    ///
    /// # Errors
    /// It cannot be asked; says what to do.
    pub fn ask(&self, path: &str) -> Result<Value, String> {
        let socket = self.socket();
        ask(&socket, path).map_err(|error| unreachable(&socket, &error))
    }
}

/// Where a server is asked that nobody named.
pub fn usual_server() -> String {
    place::to_ask().display().to_string()
}

fn unreachable(socket: &Path, error: &io::Error) -> String {
    let socket = socket.display();
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "only the server's user and root may connect to its admin socket",
        _ => "name the socket of a running server with `--control PATH`; `run --control PATH` puts it there",
    };
    format!("cannot ask the server at {socket}: {error}; {hint}")
}

/// A list of texts in an account.
pub fn texts(account: &Value, name: &str) -> Vec<String> {
    let texts = account.get(name).and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Writes the problems of an account to stderr, line by line.
pub fn complain_of(account: &Value) {
    let problems = texts(account, "problems");
    problems.iter().flat_map(|problem| problem.lines()).for_each(|line| complain!("{}", shown(line.as_bytes())));
}

fn ask(control: &Path, path: &str) -> io::Result<Value> {
    let (_, body) = exchange(connect(control)?, "POST", path, None)?;
    serde_json::from_str(&body).map_err(|_| malformed())
}

/// A page of a running server, at its control socket, or its admin listener's socket or address; none if it has no such page.
///
/// # Errors
/// It cannot be asked; says what to do.
pub fn page(server: &str, path: &str) -> Result<Option<String>, String> {
    let asked = match server.parse::<SocketAddr>() {
        Ok(address) => TcpStream::connect_timeout(&address, TIMEOUT)
            .and_then(|stream| stream.set_read_timeout(Some(TIMEOUT)).map(|()| stream))
            .and_then(|stream| exchange(stream, "GET", path, None)),
        Err(_) => connect(Path::new(server)).and_then(|stream| exchange(stream, "GET", path, None)),
    };
    let asked = asked.map_err(|error| {
        format!("cannot ask the server at {server}: {error}; name its admin socket (`run --control`) or its `admin` listener with --admin")
    });
    match asked? {
        (200, body) => Ok(Some(body)),
        (404, _) => Ok(None),
        (status, body) => Err(format!("the server at {server} responds {status} to GET {path}: {}", body.trim_end())),
    }
}

/// A connection to an admin socket.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not speak as a server of ours does")
}

/// Sends a request; status and body of the response.
fn exchange(
    mut stream: impl io::Read + Write,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(u16, String)> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(malformed)?;
    Ok((status, body.to_owned()))
}
