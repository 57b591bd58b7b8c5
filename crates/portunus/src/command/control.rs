//! Requests to a running server over its admin socket or its admin listener, for `portunus status`, `reload`, `upgrade`, `diff` and others.
//!
//! Owns no outcome: that is the server's. How one is reached is `server.rs`'s.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

use serde_json::Value;

use super::explain::shown;
use super::server::{Reach, Server, malformed};

/// Most of an event that is read, bytes.
const MAX_EVENT_BYTES: u64 = 16 * 1024 * 1024;

/// Which server is asked.
#[derive(Debug, Clone, clap::Args)]
pub struct Control {
    /// The server's admin socket [default: $XDG_RUNTIME_DIR/portunus/admin.sock or /run/portunus/admin.sock]
    #[arg(long, value_name = "PATH", env = "PORTUNUS_CONTROL", hide_env_values = true)]
    control: Option<PathBuf>,
    /// Or where else it is
    #[command(flatten)]
    reach: Reach,
}

impl Control {
    fn server(&self) -> Result<Server, String> {
        Server::of(self.control.as_deref(), &self.reach)
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
        let server = self.server()?;
        let exchanged = server.exchange(method, &format!("/api/v1/{name}"), body);
        let (status, text) = exchanged.map_err(|error| server.unreachable(&error))?;
        if status == 404 && body.is_none() {
            return Err(format!("the server at {server} has no `{name}`: it is a key server, or of another version"));
        }
        match (status, serde_json::from_str::<Value>(&text)) {
            (200, Ok(account)) => Ok(account),
            (200, Err(_)) => Err(server.unreachable(&malformed())),
            (_, Ok(account)) => Err(texts(&account, "problems").join("; ")),
            (_, Err(_)) => Err(rejected(&server, status, &text)),
        }
    }

    /// The server's events, one JSON text each, to `take` until that says that it is enough or the server ends the stream.
    ///
    /// # Errors
    /// It cannot be asked, or the connection broke.
    pub fn events(&self, mut take: impl FnMut(Value) -> bool) -> Result<(), String> {
        let server = self.server()?;
        let explain = |error: io::Error| server.unreachable(&error);
        let mut lines = BufReader::new(server.stream("/api/v1/events").map_err(explain)?);
        let mut line = String::new();
        while (&mut lines).take(MAX_EVENT_BYTES).read_line(&mut line).map_err(explain)? > 0 {
            if line.starts_with("HTTP/") && line.split(' ').nth(1) != Some("200") {
                return Err(format!("the server at {server} has no events: {}", line.trim_end()));
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
        let server = self.server()?;
        let (status, text) = server.exchange("POST", path, None).map_err(|error| server.unreachable(&error))?;
        serde_json::from_str(&text).map_err(|_| rejected(&server, status, &text))
    }
}

/// What a server says that does not do what it is asked for.
fn rejected(server: &Server, status: u16, text: &str) -> String {
    let fix = match status {
        401 => "; give the token with --token-file",
        _ => "",
    };
    format!("the server at {server} responds {status}: {}{fix}", shown(text.trim_end().as_bytes()))
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

/// A page of a running server; none if it has no such page.
///
/// # Errors
/// It cannot be asked; says what to do.
pub fn page(server: &Server, path: &str) -> Result<Option<String>, String> {
    let asked = server.exchange("GET", path, None);
    let asked = asked.map_err(|error| {
        format!("cannot ask the server at {server}: {error}; name its admin socket (`run --control`) or its `admin` listener with --admin")
    });
    match asked? {
        (200, body) => Ok(Some(body)),
        (404, _) => Ok(None),
        (status, body) => Err(rejected(server, status, &body)),
    }
}
