//! `tracing`: the collector.

use super::{Build, Fault, access_log, address};
use crate::model::TracingConfig;
use crate::problem::shown;
use crate::yaml::Node;

/// Where collectors take traces, if the URL names no path.
const PATH: &str = "/v1/traces";

impl Build<'_> {
    pub(super) fn tracing(&mut self, root: &Node) -> Option<TracingConfig> {
        let node = root.get("tracing")?;
        let at = node.get("otlp")?;
        let url = at.text().and_then(|text| self.take(at.span, cut(text)));
        let millionths = self.parsed(node, "sample", access_log::share);
        let service_name = self.parsed(node, "service_name", service_name);
        let (ca, server_name) = (self.file(node, "ca"), self.parsed(node, "server_name", address::host_name));
        let (is_tls, host, path) = url?;
        if !is_tls {
            for entry in ["ca", "server_name"].iter().filter_map(|key| node.entry(key)) {
                let what = format!("`{}` without TLS", entry.key);
                self.problems.add(entry.key_span, what, "write the URL with `https://`, or remove it");
            }
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let with_port = match (has_port, is_tls) {
            (true, _) => host.to_owned(),
            (false, true) => format!("{host}:443"),
            (false, false) => format!("{host}:80"),
        };
        let address = self.server(at.span, &with_port, address::Service::Web)?;
        Some(TracingConfig {
            address,
            is_tls,
            host: host.to_owned(),
            path: path.to_owned(),
            millionths: millionths?,
            service_name: service_name?,
            ca,
            server_name,
        })
    }
}

/// Whether a URL asks for TLS, its host with the port, and its path.
fn cut(text: &str) -> Result<(bool, &str, &str), Fault> {
    let rest = text.strip_prefix("http://").map(|rest| (false, rest));
    let rest = rest.or_else(|| text.strip_prefix("https://").map(|rest| (true, rest)));
    let parts = rest.map(|(is_tls, rest)| {
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        (is_tls, host, if matches!(path, "" | "/") { PATH } else { path })
    });
    let fits = |(_, host, path): &(bool, &str, &str)| {
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'?' | b'#' | b'"'));
        !host.is_empty() && is_plain(host) && is_plain(path)
    };
    parts.filter(fits).ok_or_else(|| {
        let what = format!("{} is not the URL of a collector", shown(text));
        Fault::new(what, "write `http://HOST:4318` or `https://HOST:4318`, with a path if it is not `/v1/traces`")
    })
}

fn service_name(text: &str) -> Result<String, Fault> {
    if (1..=256).contains(&text.len()) && !text.chars().any(char::is_control) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(
        format!("{} cannot be a `service_name`", shown(text)),
        "write 1 to 256 bytes without control characters",
    ))
}
