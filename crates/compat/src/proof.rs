//! What `portunus import nginx|haproxy FILE --prove` needs of a configuration: its text as it runs unprivileged on loopback, and requests that its rules
//! are about. Pure: starts nothing, opens no socket.
//!
//! `proof/nginx.rs` and `proof/haproxy.rs` rewrite the words of their program's file and note what it names (`hints.rs`); `samples.rs` finds texts that expressions
//! match; `requests.rs` makes requests of all that, in a fixed order and number.

mod haproxy;
mod hints;
mod nginx;
mod requests;
mod samples;

use std::ffi::OsString;

use crate::migration::Given;
use crate::{Front, haproxy as of_haproxy, nginx as of_nginx};
use hints::Scope;
pub use requests::{DENIED, Request};

/// The program that a configuration is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original {
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
}

impl Original {
    /// The program's name, which is Debian's package, too.
    pub fn name(self) -> &'static str {
        match self {
            Original::Nginx => "nginx",
            Original::Haproxy => "haproxy",
        }
    }

    /// Makes a native configuration of the words of a command.
    pub fn import(self, words: &[OsString]) -> Front {
        match self {
            Original::Nginx => of_nginx::import(words),
            Original::Haproxy => of_haproxy::import(words),
        }
    }
}

/// An address that clients come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listener {
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Whether it expects a PROXY header.
    pub takes_proxy_header: bool,
}

/// A configuration as it runs in a throw-away folder.
#[derive(Debug, Default)]
pub struct Staged {
    lines: Vec<String>,
    /// Where clients come to; each stands in the text as `@listenN@`.
    pub listeners: Vec<Listener>,
    /// The upstream that each server is of; the servers stand in the text as `@serverN@`.
    pub servers: Vec<String>,
    /// Names for the throw-away certificate.
    pub names: Vec<String>,
    /// What is not compared, one line each.
    pub not_compared: Vec<String>,
    /// Names of fields that the configuration sets, lower-case.
    pub set_fields: Vec<String>,
    /// Whether a service is asked about requests.
    pub asks_service: bool,
    /// Whether requests count, so that each needs a client of its own.
    pub has_rates: bool,
    scopes: Vec<Scope>,
}

/// Where the throw-away certificate with its key lies, in the folder.
pub const CERTIFICATE_FILE: &str = "certificate.pem";
/// Where the throw-away users lie, in the folder.
pub const USERS_FILE: &str = "users";
/// An empty file in the folder.
pub const EMPTY_FILE: &str = "empty";
/// An empty folder in the folder.
pub const EMPTY_FOLDER: &str = "files";
/// The user of the throw-away file of users: name and password.
pub const USER: (&str, &str) = ("proof", "proof");

impl Staged {
    /// Reads the files that the words of a command name.
    ///
    /// # Errors
    /// Why there is nothing to compare.
    pub fn read(original: Original, words: &[OsString]) -> Result<Staged, String> {
        let (words, _) = crate::migration::folder_option(words, "--files")?;
        let given = Given::read(&words, "").map_err(|ended| match ended {
            Front::Exit { errors, .. } => errors.trim_end().to_owned(),
            Front::Run { .. } | Front::Rejected { .. } => String::new(),
        })?;
        match original {
            Original::Nginx => nginx::staged(given),
            Original::Haproxy => haproxy::staged(given),
        }
    }

    /// The configuration, with these addresses (`host:port`) in place of listeners and servers, and this folder.
    pub fn text(&self, listeners: &[String], servers: &[String], folder: &str) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        for (kind, addresses) in [("listen", listeners), ("server", servers)] {
            for (at, address) in addresses.iter().enumerate() {
                text = text.replace(&format!("@{kind}{at}@"), address);
            }
        }
        text.replace("@dir@", folder)
    }

    /// Takes out every directive of a name that the installed program does not know. False if there is none.
    pub fn without(&mut self, directive: &str) -> bool {
        let before = self.lines.len();
        let (mut depth, mut kept) = (0usize, Vec::with_capacity(before));
        for line in std::mem::take(&mut self.lines) {
            let is_block = line.ends_with('{');
            let starts = depth == 0 && line.split([' ', ';']).next() == Some(directive);
            match (depth, starts) {
                (0, false) => kept.push(line),
                (0, true) => depth = usize::from(is_block),
                (_, _) => depth = (depth + usize::from(is_block)).saturating_sub(usize::from(line == "}")),
            }
        }
        self.lines = kept;
        let is_found = self.lines.len() < before;
        if is_found {
            self.leave(format!("`{directive}`, which the installed program does not know"));
        }
        is_found
    }

    /// Requests that the rules of the configuration are about, at most so many; the same each time.
    pub fn requests(&self, most: usize) -> Vec<Request> {
        requests::requests(self, most)
    }

    /// The throw-away file of users.
    ///
    /// # Errors
    /// The password cannot be hashed.
    pub fn users() -> Result<String, String> {
        let (name, password) = USER;
        // The least that bcrypt can do: it is no secret.
        let hash = bcrypt::hash(password, 4).map_err(|error| error.to_string())?;
        Ok(format!("{name}:{hash}\n"))
    }

    /// Notes what is not compared, once.
    fn leave(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.not_compared.contains(&what) {
            self.not_compared.push(what);
        }
    }

    /// The mark of a server of an upstream.
    fn server(&mut self, of: &str) -> String {
        self.servers.push(of.to_owned());
        format!("@server{}@", self.servers.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::files::Files;

    /// A file of this text, with none beside it.
    pub(super) fn given(path: &str, text: &str) -> Given {
        Given {
            path: path.into(),
            text: text.to_owned(),
            more: vec![],
            files: Files::given(BTreeMap::new()),
            keys: None,
        }
    }

    /// Whether there is a request for this host, by this method, for this target, with these fields and no others.
    pub(super) fn has(requests: &[Request], wanted: (&str, &str, &str, &[(&str, &str)])) -> bool {
        requests.iter().any(|request| {
            let own: Vec<(&str, &str)> =
                request.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            (request.host.as_str(), request.method.as_str(), request.target.as_str(), own.as_slice()) == wanted
        })
    }
}
