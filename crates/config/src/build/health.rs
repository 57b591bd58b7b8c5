//! `health` of an upstream: what its checks ask of a server, and what they take for an answer.

use super::placeholders::Scope;
use super::template::Target;
use super::{Build, Fault, address, headers, read};
use crate::model::{HealthCheck, HttpProbe, Probe};
use crate::problem::shown;
use crate::shape::surface::HealthMethod;
use crate::table::setting;
use crate::yaml::Node;

/// Longest datagram of a check: what every path carries in one piece.
const MOST_PAYLOAD_BYTES: usize = 1200;

/// Fields that a check writes itself.
const OWN: [&str; 3] = ["host", "user-agent", "content-type"];

impl Build<'_> {
    pub(super) fn health(&mut self, node: &Node, upstream: &Node) -> Option<HealthCheck> {
        let probe = self.probe(node, upstream)?;
        let is_written = |key: &str| node.entry(key);
        let without_effect: &[&str] = match &probe {
            Probe::Http(_) => &[],
            Probe::Grpc { .. } => &["path", "method", "headers", "statuses", "body"],
            Probe::Connect => &["host", "method", "headers", "statuses", "body"],
            Probe::Datagram { .. } => &["path", "host", "method", "headers", "statuses", "body"],
        };
        for entry in without_effect.iter().filter_map(|key| is_written(key)) {
            let beside = match &probe {
                Probe::Connect => "path: none",
                Probe::Datagram { .. } => "send",
                Probe::Grpc { .. } | Probe::Http(_) => "grpc",
            };
            let what = format!("`{}` has no effect beside `{beside}`", entry.key);
            self.problems.add(entry.key_span, what, format!("remove `{}`", entry.key));
        }
        if let (Some(body), HealthMethod::Head) = (node.entry("body"), setting::<HealthMethod>(node, "method")) {
            self.problems.add(
                body.key_span,
                "a response to HEAD has no `body`",
                "write `method: GET`, or remove `body`",
            );
        }
        Some(HealthCheck::read(probe, node))
    }

    fn probe(&mut self, node: &Node, upstream: &Node) -> Option<Probe> {
        let protocol = read::text(upstream, "protocol");
        let grpc = node.get("grpc");
        if let Some(grpc) = grpc.filter(|grpc| read::as_bool(grpc) != Some(false)) {
            if protocol == Some("udp") {
                self.problems.add(grpc.span, "a check of gRPC needs HTTP/2", "remove `grpc`, and add `send`");
            } else if protocol != Some("http2") {
                let fix = "add `protocol: http2` to the upstream, which gRPC needs for its calls, too";
                self.problems.add(grpc.span, "a check of gRPC needs HTTP/2", fix);
            }
            let service = if read::as_bool(grpc).is_some() { "" } else { grpc.text().unwrap_or_default() };
            let service = self.take(grpc.span, service_name(service))?;
            return Some(Probe::Grpc { service, host: self.parsed(node, "host", address::authority) });
        }
        if let Some(entry) = node.entry("expect").filter(|_| node.entry("send").is_none()) {
            self.problems.add(
                entry.key_span,
                "`expect` is of the response to `send`",
                "add `send`, or remove `expect`",
            );
        }
        if let Some(send) = node.entry("send") {
            if protocol != Some("udp") {
                let fix = "remove `send`, or write `protocol: udp`";
                self.problems.add(send.key_span, "`send` is a datagram, and this upstream has none", fix);
            }
            let expect = node.get("expect").and_then(|expect| self.datagram(expect));
            return Some(Probe::Datagram { send: self.datagram(&send.value)?, expect });
        }
        if protocol == Some("udp") {
            self.check_beside_datagrams(node)?;
        } else if node.entry("path").is_none() && protocol != Some("tcp") {
            let fix = "add `path: /health`, or `path: none` if a server that takes a connection is healthy";
            self.problems.add(node.span, "`health` lacks `path`", fix);
            return None;
        }
        if matches!(read::text(node, "path"), None | Some("none")) {
            return Some(Probe::Connect);
        }
        let path = self.parsed(node, "path", |text| {
            Target::cut_path(text)?.path_template(Scope::NOTHING).map(|_| text.to_owned())
        })?;
        Some(Probe::Http(HttpProbe {
            path,
            host: self.parsed(node, "host", address::authority),
            method: setting(node, "method"),
            headers: self.fields(node, "headers", sendable),
            statuses: self.parsed_list(node, "statuses", statuses),
            body: read::text(node, "body").map(str::to_owned),
        }))
    }
}

impl Build<'_> {
    /// What may be asked of a server of datagrams that is not asked by one: whether it takes a connection, or something of HTTP at another port.
    fn check_beside_datagrams(&mut self, node: &Node) -> Option<()> {
        let Some(path) = node.entry("path") else {
            let fix = "add `send`, a datagram to respond to, or `path: none` if a server that takes a TCP connection is healthy";
            self.problems.add(node.span, "`health` does not say what is asked of a server", fix);
            return None;
        };
        if path.value.text() != Some("none") && node.entry("port").is_none() {
            let fix = "add the `port` where HTTP is served, or write `send`, a datagram to respond to";
            self.problems.add(path.key_span, "a server of datagrams is not asked by HTTP", fix);
            return None;
        }
        Some(())
    }

    /// The bytes of a datagram.
    fn datagram(&mut self, node: &Node) -> Option<Vec<u8>> {
        let (node, bytes) = match node.get("hex") {
            Some(hex) => (hex, self.take(hex.span, bytes_of(hex.text()?))?),
            None => (node, node.text()?.as_bytes().to_vec()),
        };
        if bytes.is_empty() || bytes.len() > MOST_PAYLOAD_BYTES {
            if self.problems.knows(node.span) {
                return None;
            }
            let what = format!("{} bytes are not the content of a check's datagram", bytes.len());
            self.problems.add(node.span, what, format!("write 1 to {MOST_PAYLOAD_BYTES} bytes"));
            return None;
        }
        Some(bytes)
    }
}

/// Reads bytes in hexadecimal; white space between bytes does not count.
fn bytes_of(text: &str) -> Result<Vec<u8>, Fault> {
    let fault =
        || Fault::new(format!("{} is not hexadecimal", shown(text)), "write two digits for each byte: `12 34 ab`");
    let mut bytes = Vec::new();
    for word in text.split_ascii_whitespace() {
        let (pairs, rest) = word.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return Err(fault());
        }
        for [high, low] in pairs {
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(digit(*high).ok_or_else(fault)? << 4 | digit(*low).ok_or_else(fault)?);
        }
    }
    Ok(bytes)
}

/// Whether a check may be given this field to send.
fn sendable(name: String) -> Result<String, Fault> {
    if OWN.contains(&name.as_str()) {
        let fix = if name == "host" { "use the key `host` of `health`" } else { "leave it out" };
        return Err(Fault::new(format!("{} is a field that the check writes itself", shown(&name)), fix));
    }
    headers::not_framing(name)
}

/// The name of a gRPC service: dots between identifiers.
fn service_name(text: &str) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    if text.len() <= 255 && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not the name of a service", shown(text)), "write it as `package.Service`"))
}

/// Reads `200` or `200-399`.
fn statuses(text: &str) -> Result<(u16, u16), Fault> {
    let status = |text: &str| {
        let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|status| is_number && (100..600).contains(status))
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (status(from), status(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        _ => {
            let what = format!("{} is no status and no range of them", shown(text));
            Err(Fault::new(what, "write `200`, or `200-399`"))
        }
    }
}
