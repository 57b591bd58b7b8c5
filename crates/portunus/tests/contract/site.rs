//! A gate under a contract before a recording upstream, and requests to it.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Gate, Reply, Seen, Upstream, connect, read_response};

/// The document of the example.
pub const SHOP: &str = include_str!("../../../../examples/shop/openapi.yaml");

/// An order that keeps the contract.
pub const ORDER: &str = r#"{"items":[{"product":7,"count":2}],"ship_to":{"name":"A","street":"B 1","city":"C","country":"DE"},"payment":{"kind":"card","token":"tok_0123456789"}}"#;

/// A gate, and what stands behind it.
pub struct Site {
    pub gate: Gate,
    pub upstream: Upstream,
}

/// What came back.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The values of a field.
    pub fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

/// A response that keeps the shop's contract, whatever was asked.
pub fn shop_response(seen: &Seen) -> Reply {
    let line = seen.line();
    let body = |status: &str, kind: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nX-Total: 0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let response = match line.split(' ').next().unwrap_or_default() {
        "DELETE" | "PUT" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "HEAD" => {
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Total: 0\r\nContent-Length: 2\r\n\r\n".to_owned()
        }
        "POST" if line.contains("newsletter") => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "POST" if line.contains("orders") => body("201 Created", "application/json", ORDER),
        "POST" => body("201 Created", "application/json", r#"{"name":"a","price":{"amount":1,"currency":"EUR"}}"#),
        _ if line.contains("/products/") => {
            body("200 OK", "application/json", r#"{"name":"a","price":{"amount":1,"currency":"EUR"}}"#)
        }
        _ if line.contains("/orders/") => body("200 OK", "application/json", ORDER),
        _ => body("200 OK", "application/json", "[]"),
    };
    Reply::Keep(response.into_bytes())
}

/// Files for the folder of a gate, by name.
pub type Files<'a> = &'a [(&'a str, &'a str)];

impl Site {
    /// A gate whose every route is under the contract `api`, with further keys of the contract (each after a comma).
    pub fn with(
        document: &str,
        contract: &str,
        files: Files<'_>,
        reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Site {
        let upstream = Upstream::start(reply);
        let text = yaml(&upstream, contract, "");
        let gate = Gate::start_in(folder(document, files), &text);
        Site { gate, upstream }
    }

    /// The shop with further keys of the contract.
    pub fn shop(contract: &str) -> Site {
        Site::with(SHOP, contract, &[], shop_response)
    }

    /// Sends bytes on a connection of its own and reads one answer.
    pub fn send(&self, bytes: &[u8]) -> Response {
        let mut client = connect(self.gate.address("web"));
        // What is rejected early need not be read to its end; the response is there all the same.
        let _ = client.write_all(bytes);
        let (head, body) = read_response(&mut client);
        respond(head, body)
    }

    /// A request without a body; `fields` each with its line end.
    pub fn get(&self, method_and_target: &str, fields: &str) -> Response {
        self.send(format!("{method_and_target} HTTP/1.1\r\nHost: api.test\r\n{fields}\r\n").as_bytes())
    }

    /// A request with a body of this type.
    pub fn post(&self, method_and_target: &str, content_type: &str, body: impl AsRef<[u8]>) -> Response {
        self.post_with(method_and_target, &format!("Content-Type: {content_type}\r\n"), body)
    }

    /// A request with a body; `fields` each with its line end.
    pub fn post_with(&self, method_and_target: &str, fields: &str, body: impl AsRef<[u8]>) -> Response {
        let body = body.as_ref();
        let head =
            format!("{method_and_target} HTTP/1.1\r\nHost: api.test\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        self.send(&[head.as_bytes(), body].concat())
    }

    /// How many requests the upstream saw.
    pub fn seen(&self) -> usize {
        self.upstream.seen().len()
    }
}

/// The configuration of a site. `more`: further lines of the file.
///
/// What stands behind a bar in `contract` is the entry `id` of `tokens`.
pub fn yaml(upstream: &Upstream, contract: &str, more: &str) -> String {
    let (contract, tokens) = with_tokens(contract);
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", contract: api }}
upstreams:
  app: {{ servers: [\"{}\"] }}
contracts:
  api: {{ document: openapi.yaml{contract} }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
admin: {{ bind: \"127.0.0.2:0\" }}
{tokens}{more}
",
        upstream.address
    )
}

/// Keys of a contract, and the section `tokens`.
fn with_tokens(contract: &str) -> (&str, String) {
    let (contract, entry) = contract.split_once(" | ").unwrap_or((contract, ""));
    let tokens = if entry.is_empty() { String::new() } else { format!("tokens: {{ id: {{ {entry} }} }}\n") };
    (contract, tokens)
}

/// A folder with a document and further files.
pub fn folder(document: &str, files: Files<'_>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "openapi.yaml", document);
    files.iter().for_each(|(name, text)| write(folder.path(), name, text));
    folder
}

/// Replaces a file as editors do: by renaming.
pub fn write(folder: &Path, name: &str, text: &str) {
    let fresh = folder.join(format!(".{name}.new"));
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, folder.join(name)).unwrap();
}

/// What `portunus check` says of a contract of this document with these further keys: whether it is fine, and all it printed.
pub fn checked(document: &str, files: Files<'_>, contract: &str) -> (bool, String) {
    let folder = folder(document, files);
    let (contract, tokens) = with_tokens(contract);
    let text = format!(
        "{tokens}listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\ncontracts: {{ api: {{ document: openapi.yaml{contract} }} }}\n\
         routes: [{{ upstream: up, contract: api }}]\nupstreams: {{ up: {{ servers: [\"127.0.0.1:9\"] }} }}\n"
    );
    write(folder.path(), "portunus.yaml", &text);
    let done = Command::new(env!("CARGO_BIN_EXE_portunus"))
        .args(["check", "portunus.yaml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
}

fn respond(head: String, body: Vec<u8>) -> Response {
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {head}"));
    Response { status, head, body }
}
