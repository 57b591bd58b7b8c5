//! `listeners` and `admin`: where connections come in, and under which TLS settings.
//!
//! Binds nothing.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use tls::{Policy, ProtocolVersion};

use super::policies::{Carried, KnownPolicies};
use super::responses::{KnownResponses, RESPONSE_KEYS};
use super::tunnels::KnownHere;
use super::{Build, Fault, address, identifier, names_in, read};
use crate::model::{
    AdminConfig, AdminTls, Bindable, ClientCertificateConfig, Config, Endpoint, ListenerConfig, ProxyHeaderRule,
    Service, TlsConfig, TlsSettings, Trust,
};
use crate::problem::{Span, shown};
use crate::shape::surface::ListenerOptions;
use crate::table::setting;
use crate::yaml::{Node, Value};

/// Which listener has an address, and in which line it says so.
pub(super) type Bound<A> = HashMap<A, (String, Span)>;

impl Build<'_> {
    pub(super) fn listeners_and_admin(&mut self, root: &Node) -> (Vec<Arc<ListenerConfig>>, Option<AdminConfig>) {
        let keystores = names_in(root, "keystores");
        let contracts = names_in(root, "contracts");
        let upstreams = names_in(root, "upstreams");
        let policies = KnownPolicies::of(root);
        let responses = KnownResponses::of(root);
        let mut bound = Bound::new();
        let mut names: HashMap<String, Span> = HashMap::new();
        let mut out = Vec::new();
        let list = root.get("listeners");
        let nodes = list.map(Node::items).unwrap_or_default();
        if root.get("listeners").is_none() && root.get("udp_listeners").is_none() {
            let fix = "add a listener: `listeners: [{ name: edge, bind: \":8080\" }]`, or `udp_listeners`";
            self.problems.add(root.span, "there is neither a listener nor a UDP listener", fix);
        }
        if let Some(list) = list.filter(|list| nodes.is_empty() && matches!(list.value, Value::List(_))) {
            self.problems.add(list.span, "`listeners` is empty", "add a listener: `- { name: edge, bind: \":8080\" }`");
        }
        for node in nodes {
            let name = self.parsed(node, "name", identifier).unwrap_or_default();
            if let Some(at) = node.get("name").filter(|_| !name.is_empty()) {
                self.unique(&name, "listener", at.span, &mut names);
            }
            let bind = self.binds(node, &name, &mut bound);
            let listener = ListenerConfig {
                unix_socket: self.unix_socket(node, &bind),
                bind,
                tls: read::mapping(node, "tls").map(|tls| self.tls(tls, &keystores, node.entry("tunnel").is_some())),
                proxy_protocol: read::mapping(node, "proxy_protocol").map(|rule| self.proxy_protocol(rule)),
                service: self.service(node, KnownHere { upstreams: &upstreams, policies: &policies }),
                contract: node.get("contract").and_then(|name| self.name_of(name, "contract", &contracts)),
                policies: match node.entry("tunnel") {
                    Some(_) => self.connection_policies(node, &policies, Carried::Tunnels),
                    None => self.policy_names(node, &policies, false),
                },
                responses: self.response_rules(node, &responses),
                options: ListenerOptions::read(node),
                name,
            };
            out.push(Arc::new(listener));
        }
        let admin = read::mapping(root, "admin").and_then(|node| self.admin(node, &bound));
        (out, admin)
    }

    /// Whether those that serve HTTP/3 can, and nobody else has their UDP sockets.
    pub(super) fn http3_rules(&mut self, root: &Node, config: &Config) {
        let nodes = root.get("listeners").map(Node::items).unwrap_or_default();
        for (listener, node) in
            config.listeners.iter().zip(nodes).filter(|(listener, _)| listener.options.http3.is_served)
        {
            let Some(at) = node.entry("http3").map(|entry| entry.key_span) else { continue };
            if listener.tls.is_none() {
                self.problems.add(at, "`http3` needs `tls`", "add `tls`, or remove `http3`");
            }
            for key in ["tunnel", "proxy_protocol"].into_iter().filter(|key| node.entry(key).is_some()) {
                let what = format!("`http3` and `{key}` exclude each other");
                self.problems.add(at, what, "remove `http3`, or give it a listener of its own");
            }
            let addresses: Vec<_> = listener.places().filter_map(|place| place.of_udp()).collect();
            if addresses.is_empty() {
                let what = "`http3` has no address: QUIC is not spoken on Unix sockets";
                self.problems.add(at, what, "add an address to `bind`, or remove `http3`");
            }
            let mut datagrams = config.udp_listeners.iter();
            let other = datagrams.find(|other| other.places().any(|place| addresses.contains(&place)));
            if let Some(other) = other {
                let what = format!("`http3` has the same UDP address as the UDP listener {}", shown(&other.name));
                self.problems.add(at, what, "choose another address for one of the two");
            }
        }
    }

    pub(super) fn binds(&mut self, node: &Node, listener: &str, bound: &mut Bound<Endpoint>) -> Vec<Endpoint> {
        self.bind_list(node, (listener, "listener"), ":443", bound, Ok)
    }

    /// The addresses of a listener of this kind, as `fit` takes them. Each is bound by one listener only, among those of `bound`.
    pub(super) fn bind_list<A: Bindable + Hash>(
        &mut self,
        node: &Node,
        (listener, kind): (&str, &str),
        example: &str,
        bound: &mut Bound<A>,
        fit: impl Fn(Endpoint) -> Result<A, Fault>,
    ) -> Vec<A> {
        let mut out = Vec::new();
        let list = node.get("bind");
        for item in list.map(Node::one_or_many).unwrap_or_default() {
            let Some(text) = item.text() else { continue };
            let Some(endpoints) = self.endpoints(item.span, text) else { continue };
            for endpoint in endpoints {
                let Some(address) = self.take(item.span, fit(endpoint)) else { continue };
                if let Some((other, first)) = taken(&address, bound) {
                    let first = self.sources.seen_from(item.span, first);
                    let what = format!("{} is already bound by {kind} {} {first}", shown(text), shown(other));
                    self.problems.add(item.span, what, "bind each address once");
                } else {
                    bound.insert(address.clone(), (listener.to_owned(), item.span));
                    out.push(address);
                }
            }
        }
        if let Some(list) = list.filter(|list| matches!(&list.value, Value::List(items) if items.is_empty())) {
            let fix = format!("name at least one address: `bind: [\"{example}\"]`");
            self.problems.add(list.span, "`bind` is empty", fix);
        }
        out
    }

    fn service(&mut self, node: &Node, known: KnownHere<'_>) -> Service {
        if let Some(tunnel) = read::mapping(node, "tunnel") {
            if let Some(entry) = node.entry("redirect_to_https") {
                let what = "`tunnel` and `redirect_to_https` exclude each other";
                self.problems.add(entry.key_span, what, "keep one of the two");
            }
            for entry in ["contract"].into_iter().chain(RESPONSE_KEYS).filter_map(|key| node.entry(key)) {
                let what = format!("`{}` has no effect beside `tunnel`, which looks at no requests", entry.key);
                self.problems.add(entry.key_span, what, "remove one of the two");
            }
            return Service::Tunnel(Arc::new(self.tunnel(tunnel, node.entry("tls").is_some(), known)));
        }
        let Some(entry) = node.entry("redirect_to_https") else { return Service::Http };
        if read::as_bool(&entry.value) == Some(false) {
            return Service::Http;
        }
        if let Some(tls) = node.entry("tls") {
            self.problems.add(
                tls.key_span,
                "a listener that redirects to https cannot have `tls` itself",
                "remove `tls` or `redirect_to_https`",
            );
        }
        Service::RedirectToHttps { port: read::int(&entry.value, "port").unwrap_or(443) }
    }

    fn proxy_protocol(&mut self, node: &Node) -> ProxyHeaderRule {
        ProxyHeaderRule {
            trust: self.trust(node),
            header_optional: read::text(node, "header") == Some("optional"),
            header_timeout: setting(node, "header_timeout"),
        }
    }

    /// The peers whose headers are believed.
    pub(super) fn trust(&mut self, node: &Node) -> Trust {
        let networks = self.parsed_list(node, "trust", address::network);
        if let Some(list) = node.get("trust").filter(|list| list.one_or_many().is_empty()) {
            self.problems.add(list.span, "`trust` is empty", "name at least one network: `trust: [\"10.0.0.0/8\"]`");
        }
        self.file(node, "trust_file").map_or(Trust::Networks(networks), Trust::File)
    }

    fn tls(&mut self, node: &Node, keystores: &BTreeMap<&str, Span>, is_tunnel: bool) -> TlsConfig {
        let keystore = node.get("keystore").and_then(|name| self.name_of(name, "keystore", keystores));
        let settings = self.tls_settings(node, None, is_tunnel);
        let mut names: BTreeMap<String, Arc<TlsSettings>> = BTreeMap::new();
        for item in node.get("names").map(Node::items).unwrap_or_default() {
            let own = Arc::new(self.tls_settings(item, Some(&settings), is_tunnel));
            for host in item.get("host").map(Node::one_or_many).unwrap_or_default() {
                let Some(text) = host.text() else { continue };
                let Some(pattern) = self.take(host.span, address::host_pattern(text)) else { continue };
                if names.insert(pattern.to_string(), Arc::clone(&own)).is_some() {
                    self.problems.add(
                        host.span,
                        format!("{} has settings already", shown(text)),
                        "name each host once under `names`",
                    );
                }
            }
        }
        TlsConfig {
            keystore: keystore.unwrap_or_default(),
            settings: Arc::new(settings),
            names,
            strict_sni: setting(node, "strict_sni"),
            require_sni: setting(node, "require_sni"),
        }
    }

    /// Settings of a listener, or of a name, which inherits what it does not say.
    fn tls_settings(&mut self, node: &Node, inherited: Option<&TlsSettings>, is_tunnel: bool) -> TlsSettings {
        let own_policy = read::text(node, "policy").and_then(policy);
        let policy = own_policy.or(inherited.map(|settings| settings.policy)).unwrap_or_default();
        // A policy of its own comes with its own minimum.
        let inherited_version = inherited.filter(|_| own_policy.is_none()).map(|settings| settings.min_version);
        let own_version = read::text(node, "min_version").and_then(version);
        if let (Some(version), Some(at)) =
            (own_version.filter(|version| *version < policy.min_version()), node.get("min_version"))
        {
            let what = format!(
                "`min_version` {} is below what the policy {} allows",
                version_text(version),
                policy_text(policy)
            );
            let fix = if version < ProtocolVersion::Tls12 {
                format!("write `policy: legacy`, or `min_version: \"{}\"`", version_text(policy.min_version()))
            } else {
                format!("write `policy: intermediate`, or `min_version: \"{}\"`", version_text(policy.min_version()))
            };
            self.problems.add(at.span, what, fix);
        }
        TlsSettings {
            policy,
            min_version: own_version.or(inherited_version).unwrap_or(policy.min_version()),
            alpn: match (node.get("alpn"), inherited) {
                (Some(_), _) if is_tunnel => self.parsed_list(node, "alpn", |text| alpn(text, true)),
                (Some(_), _) => with_http_1_0(self.parsed_list(node, "alpn", |text| alpn(text, false))),
                (None, Some(settings)) => settings.alpn.clone(),
                // What a tunnel carries is not known, so nothing is promised in its name.
                (None, None) if is_tunnel => Vec::new(),
                (None, None) => with_http_1_0(HTTP_ALPN.map(str::to_owned).into()),
            },
            client_certificate: match node.get("client_certificate") {
                None => inherited.and_then(|settings| settings.client_certificate.clone()),
                Some(rule) => self.client_certificate(rule),
            },
        }
    }

    /// None for `none`.
    fn client_certificate(&mut self, node: &Node) -> Option<ClientCertificateConfig> {
        let ca = self.file(node, "ca")?;
        Some(ClientCertificateConfig {
            required: read::text(node, "mode") != Some("optional"),
            ca,
            crl: self.file(node, "crl"),
            allow_san: self.parsed_list(node, "allow_san", subject_alternative_name),
        })
    }

    pub(super) fn admin(&mut self, node: &Node, bound: &Bound<Endpoint>) -> Option<AdminConfig> {
        let hosts = self.parsed_list(node, "hosts", address::host_name);
        let bind = node.get("bind")?;
        let text = bind.text()?;
        let endpoints = self.endpoints(bind.span, text)?;
        let endpoint = self.take(bind.span, only(endpoints, text))?;
        if let Some((listener, first)) = taken(&endpoint, bound) {
            let first = self.sources.seen_from(bind.span, first);
            let what = format!("the admin address is already bound by listener {} {first}", shown(listener));
            self.problems.add(bind.span, what, "give the admin listener an address of its own");
        }
        let is_local = match &endpoint {
            Endpoint::Unix(_) => true,
            Endpoint::Tcp(address) => address.ip().to_canonical().is_loopback(),
        };
        if !is_local && read::boolean(node, "allow_remote") != Some(true) {
            let what = "the admin listener is not on loopback";
            let fix = "bind `127.0.0.1:9901` or a Unix socket, or say `allow_remote: true` and add a `token` or `tls` with `client_certificate`";
            self.problems.add(bind.span, what, fix);
        }
        let token = read::mapping(node, "token").and_then(|token| self.secret(token));
        let tls = read::mapping(node, "tls").and_then(|tls| self.admin_tls(tls));
        let asks_who = token.is_some() || tls.as_ref().is_some_and(|tls| tls.client_certificate.is_some());
        if let (Endpoint::Unix(_), Some(at)) = (&endpoint, node.get("tls")) {
            self.problems.add(at.span, "a Unix socket has no TLS", "remove `tls`, or bind an address");
        }
        match (&endpoint, node.get("token")) {
            (Endpoint::Unix(_), Some(at)) => {
                let what = "`token` has no effect on a Unix socket, whose file mode says who may connect";
                self.problems.add(at.span, what, "remove it, or bind an address");
            }
            (Endpoint::Tcp(_), _) if !is_local && !asks_who && read::boolean(node, "allow_remote") == Some(true) => {
                let what = "the admin listener is not on loopback and asks for no `token` or client certificate: everybody could use it";
                let fix = "add `token: { file: /etc/portunus/admin.token }`, or bind loopback or a Unix socket";
                self.problems.add(bind.span, what, fix);
            }
            _ => {}
        }
        Some(AdminConfig { hosts, token, tls, ..AdminConfig::read(endpoint, node) })
    }

    fn admin_tls(&mut self, node: &Node) -> Option<AdminTls> {
        let rule = read::mapping(node, "client_certificate");
        if let Some(mode) = rule.and_then(|rule| rule.get("mode")).filter(|mode| mode.text() == Some("optional")) {
            let what = "on the admin listener a client certificate says who may use it, so it cannot be optional";
            self.problems.add(mode.span, what, "write `mode: required`, or remove `client_certificate`");
        }
        let client_certificate = rule.and_then(|rule| self.client_certificate(rule));
        let (certificate, private_key) = (self.file(node, "certificate"), self.file(node, "private_key"));
        Some(AdminTls { certificate: certificate?, private_key: private_key?, client_certificate })
    }
}

/// The protocols of HTTP listeners, in our order.
const HTTP_ALPN: [&str; 2] = ["h2", "http/1.1"];

/// Where HTTP/1.1 is spoken, so is HTTP/1.0; `curl --http1.0` offers nothing else.
fn with_http_1_0(mut protocols: Vec<String>) -> Vec<String> {
    if protocols.iter().any(|protocol| protocol == "http/1.1") {
        protocols.push("http/1.0".to_owned());
    }
    protocols
}

/// Reads an ALPN protocol: any for tunnels, else those that are spoken here.
pub(super) fn alpn(text: &str, is_tunnel: bool) -> Result<String, Fault> {
    if !is_tunnel && !HTTP_ALPN.contains(&text) {
        let what = format!("{} is not spoken here", shown(text));
        return Err(Fault::new(what, "write `h2` or `http/1.1`; any other protocol is for listeners with `tunnel`"));
    }
    if (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not an ALPN protocol", shown(text)), "write 1 to 255 printable characters: `imap`"))
}

/// Who has an address already. Port 0 is a new port each time.
fn taken<'a, A: Bindable + Hash>(address: &A, bound: &'a Bound<A>) -> Option<(&'a str, Span)> {
    if address.asks_for_a_port() {
        return None;
    }
    bound.get(address).map(|(name, line)| (name.as_str(), *line))
}

fn only(endpoints: Vec<Endpoint>, text: &str) -> Result<Endpoint, Fault> {
    let mut endpoints = endpoints.into_iter();
    match (endpoints.next(), endpoints.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Fault::new(format!("{} is more than one address", shown(text)), "name one address: `127.0.0.1:9901`")),
    }
}

pub(super) fn policy(text: &str) -> Option<Policy> {
    [Policy::Modern, Policy::Intermediate, Policy::Legacy].into_iter().find(|policy| policy_text(*policy) == text)
}

/// The word for a policy in a file.
pub(crate) fn policy_text(policy: Policy) -> &'static str {
    match policy {
        Policy::Modern => "modern",
        Policy::Intermediate => "intermediate",
        Policy::Legacy => "legacy",
    }
}

fn version(text: &str) -> Option<ProtocolVersion> {
    use ProtocolVersion::{Tls10, Tls11, Tls12, Tls13};
    [Tls10, Tls11, Tls12, Tls13].into_iter().find(|version| version_text(*version) == text)
}

/// The text for a version in a file.
pub(crate) fn version_text(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::Tls10 => "1.0",
        ProtocolVersion::Tls11 => "1.1",
        ProtocolVersion::Tls12 => "1.2",
        ProtocolVersion::Tls13 => "1.3",
    }
}

/// Reads `DNS:`, `URI:`, `EMAIL:` or `IP:` and a name, to the form certificates are compared in.
pub(super) fn subject_alternative_name(text: &str) -> Result<String, Fault> {
    let fault = |fix: &str| Fault::new(format!("{} is not a subject alternative name", shown(text)), fix);
    let (kind, name) = text.split_once(':').unwrap_or(("", text));
    match kind {
        "DNS" => address::host_pattern(name).map(|pattern| format!("DNS:{pattern}")),
        "IP" => match name.parse::<std::net::IpAddr>() {
            Ok(address) => Ok(format!("IP:{address}")),
            Err(_) => Err(fault("write an address after `IP:`, such as `IP:192.0.2.1`")),
        },
        "URI" | "EMAIL" if !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic()) => Ok(text.to_owned()),
        _ => Err(fault("start it with `DNS:`, `URI:`, `EMAIL:` or `IP:`, as in `DNS:client.example`")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn alternative_names() {
        let check =
            |text: &str, expected: &str| assert_eq!(subject_alternative_name(text).unwrap(), expected, "{text}");
        check("DNS:Client.Example", "DNS:client.example");
        check("IP:::1", "IP:::1");
        check("IP:0:0::1", "IP:::1");
        check("URI:spiffe://x/y", "URI:spiffe://x/y");
        check("EMAIL:a@example.com", "EMAIL:a@example.com");
        for wrong in ["", "client.example", "dns:client.example", "IP:x", "URI:", "EMAIL:a b", "DNS:a b"] {
            assert!(subject_alternative_name(wrong).is_err(), "{wrong}");
        }
    }
}
