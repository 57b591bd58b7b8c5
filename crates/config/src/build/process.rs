//! What concerns the process as a whole: workers, limits, logs, forwarding fields, trusted proxies.
//!
//! Each value falls back to its default alone.

use std::path::PathBuf;

use ipnet::IpNet;
use wire::http::field_kind::may_be_trusted;

use super::{Build, Fault, address, headers, read};
use crate::limits::Limits;
use crate::model::{AccessLog, Forwarding, LogConfig};
use crate::problem::shown;
use crate::yaml::Node;

/// Worker threads: as given, or one per processor that the process may use.
pub(super) fn workers(root: &Node) -> usize {
    read::int(root, "workers").unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Build<'_> {
    /// Which forwarding fields are written, and which are believed.
    pub(super) fn forwarding(&mut self, root: &Node) -> Forwarding {
        let default = Forwarding::default();
        let Some(node) = root.get("forwarding") else { return default };
        Forwarding {
            x_forwarded: read::boolean(node, "x_forwarded").unwrap_or(default.x_forwarded),
            x_real_ip: read::boolean(node, "x_real_ip").unwrap_or(default.x_real_ip),
            forwarded: read::boolean(node, "forwarded").unwrap_or(default.forwarded),
            via: read::boolean(node, "via").unwrap_or(default.via),
            request_id: read::boolean(node, "request_id").unwrap_or(default.request_id),
            trusted_fields: match node.get("trusted_fields") {
                None => default.trusted_fields,
                Some(_) => self.parsed_list(node, "trusted_fields", identity_field),
            },
        }
    }

    pub(super) fn trusted_proxies(&mut self, root: &Node) -> Vec<IpNet> {
        self.parsed_list(root, "trusted_proxies", address::network)
    }

    pub(super) fn log(&mut self, root: &Node) -> LogConfig {
        let mut log = LogConfig::default();
        let Some(node) = root.get("log") else { return log };
        if let Some(level) = read::text(node, "level") {
            level.clone_into(&mut log.level);
        }
        if read::text(node, "access") == Some("none") {
            log.access = None;
        } else if let Some(access) = node.get("access") {
            log.access = Some(AccessLog {
                path: self.log_path(access),
                json: read::text(access, "format") != Some("text"),
                ..AccessLog::default()
            });
        }
        log
    }

    /// The file of the access log; none for stdout. It need not exist, but its folder must.
    pub(super) fn log_path(&mut self, access: &Node) -> Option<PathBuf> {
        let node = access.get("to")?;
        let text = node.text().filter(|text| *text != "stdout")?;
        if matches!(text, "stderr" | "-" | "syslog") {
            let what = format!("the access log cannot go to {}", shown(text));
            self.problems.add(node.span, what, "write `stdout` or the path of a file");
        }
        let path = self.base.join(text);
        if let Some(folder) = path.parent() {
            self.referenced.push(super::Referenced { path: folder.to_owned(), is_folder: true, span: node.span });
        }
        Some(path)
    }

    pub(super) fn limits(&mut self, root: &Node) -> Limits {
        let mut limits = Limits::default();
        let Some(node) = root.get("limits") else { return limits };
        let duration = |key: &str, target: &mut std::time::Duration| {
            if let Some(value) = read::duration(node, key) {
                *target = value;
            }
        };
        duration("handshake_timeout", &mut limits.handshake_timeout);
        duration("head_timeout", &mut limits.head_timeout);
        duration("keep_alive_timeout", &mut limits.keep_alive_timeout);
        duration("client_idle_timeout", &mut limits.client_idle_timeout);
        duration("tunnel_idle_timeout", &mut limits.tunnel_idle_timeout);
        duration("drain_delay", &mut limits.drain_delay);
        duration("drain_timeout", &mut limits.drain_timeout);
        let count = |key: &str, target: &mut usize| {
            if let Some(value) = read::int(node, key) {
                *target = value;
            }
        };
        count("max_connections", &mut limits.max_connections);
        count("max_connections_per_client", &mut limits.max_connections_per_client);
        count("max_headers", &mut limits.max_headers);
        let memory = |key: &str, target: &mut usize| {
            if let Some(value) = read::memory_size(node, key) {
                *target = value;
            }
        };
        memory("max_header_bytes", &mut limits.max_head_bytes);
        memory("max_request_line", &mut limits.max_request_line_bytes);
        memory("max_response_head", &mut limits.max_response_head_bytes);
        memory("max_validation_memory", &mut limits.max_validation_memory_bytes);
        memory("max_validation_memory_per_connection", &mut limits.max_validation_memory_per_connection_bytes);
        limits.min_body_rate = read::size(node, "min_body_rate").unwrap_or(limits.min_body_rate);
        limits.max_body_bytes = read::size(node, "max_body").unwrap_or(limits.max_body_bytes);
        limits.max_drain_bytes = read::size(node, "max_discarded_body").unwrap_or(limits.max_drain_bytes);
        limits.max_interim_responses = read::int(node, "max_interim_responses").unwrap_or(limits.max_interim_responses);
        limits.max_requests_per_connection =
            read::int(node, "max_requests_per_connection").unwrap_or(limits.max_requests_per_connection);
        for (key, target) in [
            ("h2_max_streams", &mut limits.h2_max_streams),
            ("h2_control_frame_burst", &mut limits.h2_control_frame_burst),
            ("h2_control_frame_rate", &mut limits.h2_control_frame_rate),
            ("h2_failed_request_burst", &mut limits.h2_failed_request_burst),
            ("h2_failed_request_rate", &mut limits.h2_failed_request_rate),
            ("h2_rejected_request_rate", &mut limits.h2_rejected_request_rate),
        ] {
            *target = read::int(node, key).unwrap_or(*target);
        }
        self.limits_agree(node, &mut limits);
        limits
    }

    /// A part cannot exceed its whole: said so is a problem, by default it follows.
    fn limits_agree(&mut self, node: &Node, limits: &mut Limits) {
        let mut agree = |part_key: &str, part: &mut usize, whole_key: &str, whole: usize| {
            if *part <= whole {
                return;
            }
            match node.entry(part_key) {
                None => *part = whole,
                Some(entry) => {
                    let what = format!("`{part_key}` is more than `{whole_key}`, which includes it");
                    self.problems.add(entry.value.span, what, format!("lower `{part_key}` or raise `{whole_key}`"));
                }
            }
        };
        agree("max_request_line", &mut limits.max_request_line_bytes, "max_header_bytes", limits.max_head_bytes);
        agree(
            "max_connections_per_client",
            &mut limits.max_connections_per_client,
            "max_connections",
            limits.max_connections,
        );
    }
}

/// Reads the name of a field that says who the client is.
fn identity_field(text: &str) -> Result<String, Fault> {
    let name = headers::field_name(text)?;
    if may_be_trusted(name.as_bytes()) {
        return Ok(name);
    }
    let fix = "name one of `X-Forwarded-*`, `Forwarded`, `X-Real-IP`, `X-Request-Id`, `CF-Connecting-IP`, `True-Client-IP` and their like";
    Err(Fault::new(format!("{} does not say who the client is", shown(text)), fix))
}
