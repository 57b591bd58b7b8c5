//! A key server's file: listeners, key sets, access rules, bounds.
//!
//! Looks at no key; that is the key server's own business.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use tls::ProtocolVersion;

use super::listeners::Bound;
use super::{Build, Fault, Referenced, identifier, names_in, process, read};
use crate::key_server::{
    AccessRule, AuditTarget, ClientPattern, EnrolmentConfig, KeyServerConfig, KeyServerListener, KeyServerTls,
    KeySetConfig, OperationSet,
};
use crate::limits::KeyServerLimits;
use crate::machine::Machine;
use crate::model::{Endpoint, Output, SandboxMode};
use crate::problem::{Collector, Span, shown};
use crate::shape::effective::Effective;
use crate::shape::surface::key_server::KEY_SERVER;
use crate::sources::Sources;
use crate::table::setting;
use crate::yaml::{Node, Value};

/// Builds the configuration of a key server. None only if a problem was noted, now or before.
pub(crate) fn build_key_server(
    root: &Node,
    sources: &Sources,
    machine: &Machine,
    problems: &mut Collector,
) -> (Option<KeyServerConfig>, Vec<Referenced>) {
    let base = sources.folder(root.span);
    let mut build = Build::new(sources, machine, problems);
    let mut bound = Bound::new();
    let enrolment = build.enrolment(root);
    let listeners = build.key_server_listeners(root, &mut bound);
    let mut keys = build.key_sets(root);
    let access = build.access(root, &keys);
    for name in access.iter().filter_map(|rule| rule.make_keys.as_ref()) {
        keys.get_mut(name).into_iter().for_each(|set| set.grows = true);
    }
    let config = KeyServerConfig {
        workers: process::workers(root),
        crypto_threads: read::int(root, "crypto_threads")
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        listeners,
        enrolment,
        access,
        keys,
        ecdsa_opcodes_on_rsa_keys: setting(root, "ecdsa_opcodes_on_rsa_keys"),
        reload_interval: setting(root, "reload_interval"),
        lock_memory: setting(root, "lock_memory"),
        sandbox: match read::text(root, "sandbox") {
            Some("false") => SandboxMode::Off,
            word => word.and_then(SandboxMode::named).unwrap_or_default(),
        },
        audit: build.audit(root),
        admin: read::mapping(root, "admin").and_then(|node| build.admin(node, &bound)),
        log_level: read::text(root, "log_level").unwrap_or("info").to_owned(),
        config_folder: Some(if base.as_os_str().is_empty() { PathBuf::from(".") } else { base.to_owned() }),
        pid_file: None,
        limits: root.get("limits").map(KeyServerLimits::read).unwrap_or_default(),
        effective: Effective::of(&KEY_SERVER, root),
    };
    let referenced = build.referenced;
    (problems.is_empty().then_some(config), referenced)
}

impl Build<'_> {
    fn key_server_listeners(&mut self, root: &Node, bound: &mut Bound<Endpoint>) -> Vec<Arc<KeyServerListener>> {
        let mut names: HashMap<String, Span> = HashMap::new();
        let mut out = Vec::new();
        let nodes = self.items_of(root, "listeners", "add a listener: `- { name: edges, bind: \":2407\", tls: ... }`");
        for node in nodes {
            let name = self.parsed(node, "name", identifier).unwrap_or_default();
            if let Some(at) = node.get("name").filter(|_| !name.is_empty()) {
                self.unique(&name, "listener", at.span, &mut names);
            }
            let bind = self.binds(node, &name, bound);
            let unix_socket = self.unix_socket(node, &bind);
            let tls = read::mapping(node, "tls").and_then(|tls| self.key_server_tls(root, tls));
            let place = node.get("bind").map_or(node.span, |bind| bind.span);
            self.tls_fits(node, &bind, place);
            out.push(Arc::new(KeyServerListener { name, bind, unix_socket, tls }));
        }
        out
    }

    /// The items of a list that must have some.
    fn items_of<'n>(&mut self, root: &'n Node, key: &str, fix: &str) -> &'n [Node] {
        let list = root.get(key);
        let nodes = list.map(Node::items).unwrap_or_default();
        if let Some(list) = list.filter(|list| nodes.is_empty() && matches!(list.value, Value::List(_))) {
            self.problems.add(list.span, format!("`{key}` is empty"), fix);
        }
        nodes
    }

    /// The network needs TLS; a Unix socket has none.
    fn tls_fits(&mut self, node: &Node, bind: &[Endpoint], at: Span) {
        let network = bind.iter().any(|endpoint| matches!(endpoint, Endpoint::Tcp(_)));
        let unix = bind.iter().any(|endpoint| matches!(endpoint, Endpoint::Unix(_)));
        match node.entry("tls") {
            None if network => {
                let what = "an address of the network needs mutual TLS";
                self.problems.add(at, what, "add `tls` with `certificate`, `private_key` and `client_ca`");
            }
            Some(_) if unix => {
                self.problems.add(at, "a Unix socket has no TLS", "give it a listener of its own, without `tls`");
            }
            _ => {}
        }
    }

    fn key_server_tls(&mut self, root: &Node, node: &Node) -> Option<KeyServerTls> {
        let certificate = self.file(node, "certificate");
        let private_key = self.file(node, "private_key");
        let client_ca = self.file(node, "client_ca");
        let client_crl = self.file(node, "client_crl");
        if client_ca.is_none() && node.entry("client_ca").is_none() && root.get("enrolment").is_none() {
            let what = "nobody says which clients may connect";
            self.problems.add(node.span, what, "add `client_ca`, or have nodes enrol (`enrolment`)");
        }
        let min_version = match read::text(node, "min_version") {
            Some("1.3") => ProtocolVersion::Tls13,
            _ => ProtocolVersion::Tls12,
        };
        Some(KeyServerTls { certificate: certificate?, private_key: private_key?, client_ca, client_crl, min_version })
    }

    fn enrolment(&mut self, root: &Node) -> Option<EnrolmentConfig> {
        let node = read::mapping(root, "enrolment")?;
        let folder = self.written(node.get("folder")?, "names of nodes that have enrolled", Output::Folder)?;
        Some(EnrolmentConfig { folder, lifetime: setting(node, "lifetime"), server_ca: self.file(node, "server_ca")? })
    }

    fn key_sets(&mut self, root: &Node) -> BTreeMap<String, KeySetConfig> {
        let mut out = BTreeMap::new();
        for entry in root.get("keys").map(Node::entries).unwrap_or_default() {
            let name = self.take(entry.key_span, key_set_name(&entry.key));
            let folders = self.paths(&entry.value, "folders", true);
            let files = self.paths(&entry.value, "files", false);
            if folders.is_empty() && files.is_empty() && matches!(entry.value.value, Value::Map(_)) {
                let what = format!("the key set {} names neither folders nor files", shown(&entry.key));
                self.problems.add(entry.key_span, what, "add `folders: [PATH]` or `files: [PATH]`");
            }
            let set = KeySetConfig {
                folders,
                files,
                password: read::mapping(&entry.value, "password").and_then(|secret| self.secret(secret)),
                operations: operations(&entry.value).unwrap_or_default(),
                grows: false,
            };
            if let Some(name) = name {
                out.insert(name, set);
            }
        }
        out
    }

    fn paths(&mut self, node: &Node, key: &str, is_folder: bool) -> Vec<PathBuf> {
        let items = node.get(key).map(Node::one_or_many).unwrap_or_default();
        items.iter().filter_map(|item| self.reference(item, is_folder)).collect()
    }

    fn access(&mut self, root: &Node, sets: &BTreeMap<String, KeySetConfig>) -> Vec<AccessRule> {
        let known = names_in(root, "keys");
        let mut out = Vec::new();
        for node in self.items_of(root, "access", "add a rule: `- { clients: edge-1.example, keys: all }`") {
            let clients = self.parsed_list(node, "clients", client_pattern);
            let mut keys = Some(Vec::new());
            for item in node.get("keys").map(Node::one_or_many).unwrap_or_default() {
                if item.text() == Some("all") {
                    keys = None;
                } else if let Some(name) = self.name_of(item, "key set", &known)
                    && let Some(keys) = &mut keys
                {
                    keys.push(name);
                }
            }
            out.push(AccessRule {
                make_keys: self.make_keys(node, keys.as_deref(), &known, sets),
                clients,
                keys,
                operations: operations(node).unwrap_or(OperationSet::ALL),
                rate_per_second: read::int(node, "rate_per_second"),
            });
        }
        out
    }

    /// The key set that clients of a rule may have keys made for: one that has a folder to keep them in, and that they may use.
    fn make_keys(
        &mut self,
        rule: &Node,
        granted: Option<&[String]>,
        known: &BTreeMap<&str, Span>,
        sets: &BTreeMap<String, KeySetConfig>,
    ) -> Option<String> {
        let at = rule.get("make_keys")?;
        let name = self.name_of(at, "key set", known)?;
        if granted.is_some_and(|granted| !granted.contains(&name)) {
            let what = format!("keys made for {} could not be used by whom they are made for", shown(&name));
            self.problems.add(at.span, what, "add it to `keys` of this rule, or name one that is there");
        }
        if sets.get(&name).is_some_and(|set| set.folders.is_empty()) {
            let what = format!("the key set {} has no folder to keep new keys in", shown(&name));
            self.problems.add(at.span, what, "give it `folders`; new keys are kept in the first one");
        }
        Some(name)
    }

    fn audit(&mut self, root: &Node) -> Option<AuditTarget> {
        if read::text(root, "audit") == Some("none") {
            return None;
        }
        let path = read::mapping(root, "audit").and_then(|node| self.log_path(node, "audit log"));
        Some(path.map_or(AuditTarget::Stdout, AuditTarget::File))
    }
}

/// The operations under `operations`, together; none if the key is not there.
fn operations(node: &Node) -> Option<OperationSet> {
    let items = node.get("operations")?.one_or_many();
    let sets = items.iter().filter_map(|item| OperationSet::from_word(item.text()?));
    Some(sets.fold(OperationSet::default(), OperationSet::or))
}

fn key_set_name(text: &str) -> Result<String, Fault> {
    if text == "all" {
        return Err(Fault::new("`all` stands for every key set", "give the key set another name"));
    }
    identifier(text)
}

/// `*`, `unix`, `*.example`, `spiffe://example/*`, or a name as it is.
fn client_pattern(text: &str) -> Result<ClientPattern, Fault> {
    let unusable = |what: &str| {
        let what = format!("{} {what}", shown(text));
        Fault::new(what, "write a whole name, `*.` and the rest of a host name, or a beginning and `*`")
    };
    if text.is_empty() || text.len() > 1024 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unusable("cannot be a name in a certificate"));
    }
    // Names below a host are DNS names however that is written.
    let text = text.strip_prefix("DNS:").filter(|rest| rest.starts_with("*.")).unwrap_or(text);
    match (text, text.strip_prefix('*'), text.strip_suffix('*')) {
        ("*", ..) => Ok(ClientPattern::Any),
        ("unix", ..) => Ok(ClientPattern::Unix),
        (_, Some(suffix), _) if suffix.starts_with('.') && suffix.len() > 1 && !suffix.contains('*') => {
            Ok(ClientPattern::HostsUnder(suffix.to_ascii_lowercase()))
        }
        (_, None, Some(prefix)) if !prefix.contains('*') => Ok(ClientPattern::Prefix(prefix.to_owned())),
        (_, None, None) if !text.contains('*') => Ok(ClientPattern::Exact(text.to_owned())),
        _ => Err(unusable("has its `*` where none can be")),
    }
}
