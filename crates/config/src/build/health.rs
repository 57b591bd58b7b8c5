//! `health` of an upstream: what its checks ask of a server, and what they take for an answer.

use super::placeholders::Scope;
use super::template::Target;
use super::{Build, Fault, address, headers, read};
use crate::expression::Expression;
use crate::model::{CheckStep, Expected, HealthCheck, HttpProbe, Probe};
use crate::problem::shown;
use crate::shape::surface::HealthMethod;
use crate::table::setting;
use crate::yaml::Node;

/// Most steps of a check.
const MOST_STEPS: usize = 16;

/// Longest datagram of a check: what every path carries in one piece. The same for bytes on a connection.
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
            Probe::Datagram { .. } | Probe::Exchange(_) => &["path", "host", "method", "headers", "statuses", "body"],
        };
        for entry in without_effect.iter().filter_map(|key| is_written(key)) {
            let beside = match &probe {
                Probe::Connect => "path: none",
                Probe::Datagram { .. } => "send",
                Probe::Exchange(_) if node.entry("steps").is_some() => "steps",
                Probe::Exchange(_) if node.entry("send").is_none() => "expect",
                Probe::Exchange(_) => "send",
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
        if protocol == Some("tcp") && ["send", "expect", "steps"].iter().any(|key| node.entry(key).is_some()) {
            return self.exchange(node).map(Probe::Exchange);
        }
        if let Some(entry) = node.entry("steps") {
            let fix = "remove `steps`, or write `protocol: tcp`";
            self.problems.add(entry.key_span, "`steps` are of a connection without HTTP", fix);
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
                let fix = "remove `send`, or write `protocol: tcp` or `udp`";
                self.problems.add(send.key_span, "`send` is no HTTP, which this upstream speaks", fix);
            }
            let expect = node.get("expect").and_then(|expect| self.expected(expect));
            return Some(Probe::Datagram { send: self.payload(&send.value)?, expect });
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

    /// What is said on a connection.
    fn exchange(&mut self, node: &Node) -> Option<Vec<CheckStep>> {
        let Some(entry) = node.entry("steps") else {
            if let (Some(send), None) = (node.entry("send"), node.entry("expect")) {
                let what = "nothing is expected, so that every server is healthy that takes what is sent";
                self.problems.add(send.key_span, what, "add `expect`, or write `path: none`");
            }
            return Some(vec![self.step(node)?]);
        };
        for other in ["send", "expect"].iter().filter_map(|key| node.entry(key)) {
            let what = format!("`{}` beside `steps` has no place in their order", other.key);
            self.problems.add(other.key_span, what, "make it a step");
        }
        let items = entry.value.items();
        if items.is_empty() || items.len() > MOST_STEPS {
            let what = format!("a check has 1 to {MOST_STEPS} `steps`, not {}", items.len());
            self.problems.add(entry.key_span, what, "leave out what does not tell a healthy server");
            return None;
        }
        let steps: Vec<Option<CheckStep>> = items.iter().map(|item| self.step(item)).collect();
        let steps: Vec<CheckStep> = steps.into_iter().collect::<Option<_>>()?;
        if steps.iter().all(|step| step.expect.is_none()) {
            let what = "nothing is expected, so that every server is healthy that takes what is sent";
            self.problems.add(entry.key_span, what, "add `expect` to a step, or write `path: none`");
        }
        Some(steps)
    }

    fn step(&mut self, node: &Node) -> Option<CheckStep> {
        if node.entry("send").is_none() && node.entry("expect").is_none() {
            self.problems.add(node.span, "a step that neither sends nor expects", "add `send` or `expect`");
            return None;
        }
        let send = match node.get("send") {
            Some(send) => self.payload(send)?,
            None => Vec::new(),
        };
        let expect = match node.get("expect") {
            Some(expect) => Some(self.expected(expect)?),
            None => None,
        };
        Some(CheckStep { send, expect })
    }

    /// What a response contains.
    fn expected(&mut self, node: &Node) -> Option<Expected> {
        let Some(expression) = node.get("expression") else { return self.payload(node).map(Expected::Bytes) };
        let found = expression.text().map(within)?;
        self.take(expression.span, found).map(Expected::Matching)
    }

    /// The bytes that are sent, or that a response contains.
    fn payload(&mut self, node: &Node) -> Option<Vec<u8>> {
        let (node, bytes) = match node.get("hex") {
            Some(hex) => (hex, self.take(hex.span, bytes_of(hex.text()?))?),
            None => (node, node.text()?.as_bytes().to_vec()),
        };
        if bytes.is_empty() || bytes.len() > MOST_PAYLOAD_BYTES {
            if self.problems.knows(node.span) {
                return None;
            }
            let what = format!("{} bytes are not what a check sends or expects", bytes.len());
            self.problems.add(node.span, what, format!("write 1 to {MOST_PAYLOAD_BYTES} bytes"));
            return None;
        }
        Some(bytes)
    }
}

/// An expression that a text matches if something in it does.
fn within(text: &str) -> Result<Expression, Fault> {
    let fault = |(what, fix): (String, String)| Fault::new(what, fix);
    // By itself first: what is wrong is said of what was written, and no bracket of it ends ours.
    Expression::new(text).map_err(fault)?;
    Expression::new(&format!("(?s:.*)(?:{text})(?s:.*)")).map_err(fault)
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
