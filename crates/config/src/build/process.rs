//! What concerns the process as a whole: workers, logs, forwarding fields, trusted proxies.

use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use wire::http::field_kind::may_be_trusted;

use super::{Build, Fault, Referenced, address, headers, read};
use crate::model::{Forwarding, LogConfig, LogField, Output, SandboxConfig, SandboxMode};
use crate::problem::shown;
use crate::shape::surface::UnusualName;
use crate::table::setting;
use crate::yaml::Node;

/// Worker threads: as given, or one per processor that the process may use.
pub(super) fn workers(root: &Node) -> usize {
    read::int(root, "workers").unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// What becomes of fields with unusual names.
pub(super) fn unusual_names(root: &Node) -> UnusualName {
    root.get("headers").map(|headers| setting(headers, "unusual_names")).unwrap_or_default()
}

impl Build<'_> {
    /// The file of ticket keys, which need not be there; its folder must.
    pub(super) fn ticket_keys(&mut self, root: &Node) -> Option<PathBuf> {
        let node = root.get("ticket_keys")?;
        let path = self.written(node, "keys of session tickets", Output::Replaced)?;
        let folder = path.parent().map(ToOwned::to_owned).unwrap_or_default();
        self.referenced.push(Referenced { path: folder, is_folder: true, is_read: false, span: node.span });
        Some(path)
    }

    /// Which forwarding fields are written, and which are believed.
    pub(super) fn forwarding(&mut self, root: &Node) -> Forwarding {
        let traces = root.get("tracing").is_some();
        let Some(node) = root.get("forwarding") else { return Forwarding { traces, ..Forwarding::default() } };
        let trusted_fields = self.parsed_list(node, "trusted_fields", identity_field);
        Forwarding { traces, trusted_fields, ..Forwarding::read(node) }
    }

    pub(super) fn trusted_proxies(&mut self, root: &Node) -> Vec<IpNet> {
        self.parsed_list(root, "trusted_proxies", address::network)
    }

    /// What the process may still do once it serves.
    pub(super) fn sandbox(&mut self, root: &Node) -> SandboxConfig {
        let (word, folders) = match read::mapping(root, "sandbox") {
            Some(node) => (read::text(node, "mode"), Some(node)),
            None => (read::text(root, "sandbox"), None),
        };
        let mode = word.and_then(SandboxMode::named).unwrap_or_default();
        let mut folders = |key: &str| {
            let items = folders.and_then(|node| node.get(key)).map(Node::one_or_many).unwrap_or_default();
            items.iter().filter_map(|item| self.reference(item, true)).collect()
        };
        SandboxConfig { mode, read: folders("read"), write: folders("write"), connect: folders("connect") }
    }

    pub(super) fn log(&mut self, root: &Node, fields: Arc<[LogField]>) -> LogConfig {
        let mut log = LogConfig::default();
        let Some(node) = root.get("log") else { return log };
        if let Some(level) = read::text(node, "level") {
            level.clone_into(&mut log.level);
        }
        if read::text(node, "access") == Some("none") {
            log.access = None;
        } else if let Some(access) = node.get("access") {
            log.access = Some(self.access_log(access, fields));
        }
        log
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
