//! `log.access`: where the access log goes, and what of a request it does not show.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use super::address::{self, Service};
use super::{Build, Fault, identifier, read};
use crate::model::{
    AccessLog, LogField, LogOutput, LogSample, Output, REMOVABLE_FIELDS, Syslog, SyslogTransport, WELL_KNOWN_SECRETS,
};
use crate::problem::{closest, shown};
use crate::shape::surface::{FACILITIES, LogFormat};
use crate::table::{Setting as _, setting};
use crate::yaml::{Node, Value};

/// Most names of query parameters, and most fields that are left out.
const MAX_NAMES: usize = 64;

/// One, in millionths.
const ALL: u32 = 1_000_000;

impl Build<'_> {
    pub(super) fn access_log(&mut self, access: &Node, fields: Arc<[LogField]>) -> AccessLog {
        let format = access.get("format").and_then(LogFormat::of).unwrap_or_default();
        let removed = self.parsed_list(access, "remove", removable);
        if let Some(entry) = access.entry("remove").filter(|entry| !entry.is_default)
            && matches!(format, LogFormat::Text | LogFormat::Common)
        {
            let what = "`remove` has no effect on lines of this `format`";
            self.problems.add(entry.key_span, what, "remove it, or use `format: json` or `format: logfmt`");
        }
        if let Some(redact) = access.get("redact") {
            self.parsed_list(redact, "query", parameter);
        }
        for (key, node) in [("remove", Some(access)), ("query", access.get("redact"))] {
            let entry = node.and_then(|node| node.entry(key));
            if let Some(entry) = entry.filter(|entry| entry.value.one_or_many().len() > MAX_NAMES) {
                self.problems.add(entry.key_span, format!("more than {MAX_NAMES} names"), "write fewer");
            }
        }
        let sampled = self.samples(access);
        AccessLog {
            output: self.log_output(access),
            format,
            fields,
            removed,
            redacted: redacted(access),
            sampled,
            mmproxy_verbosity: None,
        }
    }

    fn samples(&mut self, access: &Node) -> Vec<LogSample> {
        let mut samples = Vec::new();
        for entry in access.get("sample").map(Node::entries).unwrap_or_default() {
            let statuses = self.take(entry.key_span, statuses(&entry.key));
            let share = entry.value.text().and_then(|text| self.take(entry.value.span, share(text)));
            samples.extend(statuses.zip(share).map(|(statuses, millionths)| LogSample { statuses, millionths }));
        }
        samples.sort_by_key(|sample| std::cmp::Reverse(sample.statuses.clone().count()));
        samples
    }

    fn log_output(&mut self, access: &Node) -> LogOutput {
        let Some(node) = access.get("output") else { return LogOutput::Stdout };
        if matches!(node.value, Value::Map(_)) {
            return self.syslog(node).map_or(LogOutput::Stdout, LogOutput::Syslog);
        }
        match node.text() {
            Some("journald") => LogOutput::Journald,
            _ => self.log_path(access, "access log").map_or(LogOutput::Stdout, LogOutput::File),
        }
    }

    /// The file of a log; none for stdout. It need not exist, but its folder must.
    pub(super) fn log_path(&mut self, log: &Node, what: &'static str) -> Option<PathBuf> {
        let node = log.get("output")?;
        let text = node.text().filter(|text| *text != "stdout")?;
        if matches!(text, "stderr" | "-" | "syslog" | "journal" | "journald") {
            let what = format!("a log cannot go to {}", shown(text));
            let fix = "write `stdout` or the path of a file; the access log can also go to `journald` and to `{ syslog: \"unix:/dev/log\" }`";
            self.problems.add(node.span, what, fix);
        }
        let path = self.written(node, what, Output::Log)?;
        if let Some(folder) = path.parent() {
            self.referenced.push(super::Referenced {
                path: folder.to_owned(),
                is_folder: true,
                is_read: false,
                span: node.span,
            });
        }
        Some(path)
    }

    fn syslog(&mut self, node: &Node) -> Option<Syslog> {
        let at = node.get("syslog")?;
        let found = at.text().and_then(|text| self.take(at.span, syslog_address(text)));
        let found = found.and_then(|(transport, text)| Some((transport, self.server(at.span, &text, Service::Web)?)));
        let app_name = self.parsed(node, "app_name", app_name);
        let (ca, server_name) = (self.file(node, "ca"), self.parsed(node, "server_name", address::host_name));
        let facility = read::text(node, "facility").and_then(|word| FACILITIES.iter().position(|known| *known == word));
        let (transport, address) = found?;
        if transport != SyslogTransport::Tls {
            for entry in ["ca", "server_name"].iter().filter_map(|key| node.entry(key)) {
                let what = format!("`{}` without TLS", entry.key);
                self.problems.add(entry.key_span, what, "write the address with `tls://`, or remove it");
            }
        }
        Some(Syslog {
            transport,
            address,
            facility: u8::try_from(facility?).ok()?,
            app_name: app_name?,
            ca,
            server_name,
        })
    }
}

/// Names of the query parameters that are not shown, as they are compared; what is no name is left out.
pub(super) fn redacted(access: &Node) -> Vec<String> {
    let node = access.get("redact");
    let is_well_known = node.is_none_or(|node| setting(node, "well_known"));
    let known = WELL_KNOWN_SECRETS.iter().filter(|_| is_well_known).map(|name| (*name).to_owned());
    let own = node.and_then(|node| node.get("query")).map(Node::one_or_many).unwrap_or_default();
    let own = own.iter().filter_map(|item| parameter(item.text()?).ok());
    let mut names: Vec<String> = known.chain(own).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// The name of a query parameter as it is compared.
pub(super) fn folded(name: &str) -> String {
    name.to_ascii_lowercase().replace(['-', '.'], "_")
}

fn parameter(text: &str) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'$' | b':' | b'@');
    let name = folded(text);
    if !name.trim_matches('_').is_empty() && name.len() <= 64 && name.bytes().all(fits) {
        return Ok(name.trim_matches('_').to_owned());
    }
    let fix = "write the name of a query parameter alone, of up to 64 letters, digits, `.`, `_`, `-`, `$`, `:` and `@`";
    Err(Fault::new(format!("{} cannot be the name of a query parameter", shown(text)), fix))
}

fn removable(text: &str) -> Result<String, Fault> {
    if REMOVABLE_FIELDS.contains(&text) || text.strip_prefix("fields.").is_some_and(|name| identifier(name).is_ok()) {
        return Ok(text.to_owned());
    }
    let what = match text {
        "time" | "kind" | "truncated" => format!("{} cannot be left out", shown(text)),
        _ => format!("no line of the access log has a field {}", shown(text)),
    };
    let fix = match closest(text, REMOVABLE_FIELDS.iter().copied()) {
        Some(name) => format!("did you mean {}?", shown(name)),
        None => "write a name as lines have it, such as `user_agent`, or `tls.cipher` within an object".to_owned(),
    };
    Err(Fault::new(what, fix))
}

/// Reads `2xx` or `404`.
fn statuses(text: &str) -> Result<RangeInclusive<u16>, Fault> {
    let class = match text.as_bytes() {
        [class @ b'1'..=b'4', b'x', b'x'] => Some(u16::from(class - b'0') * 100),
        _ => None,
    };
    let status = text.parse::<u16>().ok().filter(|status| (100..500).contains(status) && text.len() == 3);
    match (class, status) {
        (Some(class), _) => Ok(class..=class + 99),
        (None, Some(status)) => Ok(status..=status),
        (None, None) if text.starts_with('5') && text.len() == 3 => Err(Fault::new(
            format!("errors of servers ({}) always have a line", shown(text)),
            "sample statuses from 100 to 499",
        )),
        (None, None) => Err(Fault::new(
            format!("{} is neither a status nor a class of them", shown(text)),
            "write a status from 100 to 499, such as `404`, or `1xx`, `2xx`, `3xx` or `4xx`",
        )),
    }
}

/// Reads a share, in millionths.
pub(super) fn share(text: &str) -> Result<u32, Fault> {
    let digits = text.strip_prefix("0.").or(if text == "0" { Some("0") } else { None });
    let millionths = digits.filter(|digits| digits.len() <= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()));
    match (text, millionths.and_then(|digits| format!("{digits:0<6}").parse().ok())) {
        ("1" | "1.0", _) => Ok(ALL),
        (_, Some(millionths)) => Ok(millionths),
        _ => {
            let what = format!("{} is not a share", shown(text));
            Err(Fault::new(
                what,
                "write a number from 0 to 1 with at most six places, such as `0.01` for one of a hundred",
            ))
        }
    }
}

fn app_name(text: &str) -> Result<String, Fault> {
    identifier(text).ok().filter(|name| name.len() <= 48).ok_or_else(|| {
        let fix = "use up to 48 letters, digits, `.`, `_` and `-`, a letter or digit first";
        Fault::new(format!("{} cannot be an APP-NAME of syslog", shown(text)), fix)
    })
}

fn syslog_address(text: &str) -> Result<(SyslogTransport, String), Fault> {
    let (transport, port, rest) = match text.split_once("://") {
        Some(("udp", rest)) => (SyslogTransport::Udp, 514, rest),
        Some(("tcp", rest)) => (SyslogTransport::Tcp, 601, rest),
        Some(("tls", rest)) => (SyslogTransport::Tls, 6514, rest),
        None if text.starts_with("unix:") => return Ok((SyslogTransport::Unix, text.to_owned())),
        _ => {
            let what = format!("{} is not the address of a syslog service", shown(text));
            let fix = "write `udp://HOST:514`, `tcp://HOST:601`, `tls://HOST:6514` or `unix:/dev/log`";
            return Err(Fault::new(what, fix));
        }
    };
    let is_whole = rest
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_bare = rest.parse::<IpAddr>().is_ok();
    let with_port = if is_whole && !is_bare { rest.to_owned() } else { format!("{rest}:{port}") };
    Ok((transport, with_port))
}
