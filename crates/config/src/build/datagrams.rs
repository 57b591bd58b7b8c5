//! `udp_listeners`, and under which address connections go onward.
//!
//! Binds nothing and reads no file.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::listeners::Bound;
use super::policies::{Carried, KnownPolicies};
use super::{Build, Fault, address, identifier, loops, read};
use crate::model::{
    AllowedDestination, Config, DatagramHeader, Endpoint, SendProxy, ServerAddress, ServerConfig, Service,
    SourceConfig, TargetsConfig, UdpListenerConfig, UpstreamConfig, UpstreamProtocol,
};
use crate::problem::{Span, shown};
use crate::table::setting;
use crate::yaml::{Node, Value};

/// Settings of an upstream that are about connections or messages, and what to do instead.
const OF_CONNECTIONS: [(&str, &str); 17] = [
    ("tls", "remove `tls`: datagrams are forwarded as they come"),
    ("transparent", "write it in the UDP listener"),
    ("mark", "write it in the UDP listener"),
    ("allow_sources", "write it in the UDP listener"),
    ("original_dst", "write it in the UDP listener, instead of its `upstream`"),
    ("connect_timeout", "remove it; `timeout` of `health` bounds checks"),
    ("response_header_timeout", "remove it"),
    ("idle_timeout", "write `idle_timeout` in the UDP listener"),
    ("total_timeout", "remove it"),
    ("keepalive", "remove it: nothing is connected"),
    ("pool_idle_timeout", "remove it"),
    ("pool_max_idle", "remove it"),
    ("max_in_flight", "write `max_flows` in the UDP listener"),
    ("max_in_flight_per_client", "write `max_flows_per_client` in the UDP listener"),
    ("retries", "remove it: what was sent is not sent again"),
    (
        "sticky",
        "remove it: a flow stays with its server; `balance: { hash: client }` keeps all flows of a client together",
    ),
    ("queue", "remove it: datagrams do not wait"),
];

impl Build<'_> {
    pub(super) fn udp_listeners(&mut self, root: &Node) -> Vec<Arc<UdpListenerConfig>> {
        let mut bound = Bound::new();
        let mut names: HashMap<String, Span> = HashMap::new();
        let policies = KnownPolicies::of(root);
        let upstreams = super::names_in(root, "upstreams");
        let mut out = Vec::new();
        for node in root.get("udp_listeners").map(Node::items).unwrap_or_default() {
            let name = self.parsed(node, "name", identifier).unwrap_or_default();
            if let Some(at) = node.get("name").filter(|_| !name.is_empty()) {
                self.unique(&name, "UDP listener", at.span, &mut names);
            }
            let bind = self.bind_list(node, (&name, "UDP listener"), ":53", &mut bound, udp_address);
            let to = self.udp_targets(node, &upstreams);
            self.loops(node, &bind, &to);
            let default = UdpListenerConfig::read(name, node);
            let rule = read::mapping(node, "proxy_protocol");
            let listener = UdpListenerConfig {
                bind,
                to,
                header: rule.and_then(|rule| read::text(rule, "mode")).and_then(header).unwrap_or(default.header),
                trust: rule.map_or(default.trust, |rule| self.trust(rule)),
                header_optional: rule.and_then(|rule| read::text(rule, "header")) == Some("optional"),
                reply_header: rule.and_then(|rule| read::boolean(rule, "reply_header")).unwrap_or(default.reply_header),
                source: self.source(node),
                policies: self.connection_policies(node, &policies, Carried::Flows),
                ..default
            };
            self.header_rules(node, &listener);
            out.push(Arc::new(listener));
        }
        out
    }

    /// Under which address connections go onward.
    pub(super) fn source(&mut self, node: &Node) -> SourceConfig {
        let source = SourceConfig {
            client: setting(node, "transparent"),
            mark: setting(node, "mark"),
            allow: self.parsed_list(node, "allow_sources", address::network),
        };
        if let Some(entry) = node.entry("allow_sources").filter(|_| !source.client) {
            let what = "`allow_sources` has no effect without `transparent: true`";
            self.problems.add(entry.key_span, what, "add `transparent: true`, or remove `allow_sources`");
        }
        source
    }

    /// What an upstream's `transparent` and `original_dst` go together with.
    pub(super) fn source_rules(&mut self, node: &Node, upstream: &UpstreamConfig) {
        let is_tcp = upstream.protocol == UpstreamProtocol::Tcp;
        let is_unix = |server: &ServerConfig| matches!(server.address, ServerAddress::Unix(_));
        for (key, is_set) in
            [("transparent", upstream.source.client), ("send_proxy", upstream.send_proxy != SendProxy::Off)]
        {
            let is_shared = matches!(upstream.protocol, UpstreamProtocol::Http2 | UpstreamProtocol::Auto);
            if let (Some(entry), Some(protocol)) =
                (node.entry(key).filter(|_| is_set && is_shared), read::text(node, "protocol"))
            {
                let what = format!(
                    "`{key}` is said of a connection, and those of `protocol: {protocol}` are shared by clients"
                );
                self.problems.add(entry.key_span, what, format!("remove `protocol: {protocol}` or `{key}`"));
            }
        }
        let has_path = upstream.source.client && upstream.servers.iter().any(is_unix);
        if let Some(entry) = node.entry("transparent").filter(|_| has_path) {
            let what = "a Unix socket is reached from no address, so not from the client's";
            self.problems.add(entry.key_span, what, "name servers by address, or remove `transparent`");
        }
        let Some(entry) = node.entry("original_dst") else { return };
        if !is_tcp {
            let what = "`original_dst` is for tunnels, whose PROXY header names a destination";
            self.problems.add(entry.key_span, what, "add `protocol: tcp`, or name `servers`");
        }
        for key in [
            "tls",
            "health",
            "ejection",
            "balance",
            "slow_start",
            "when_all_down",
            "max_in_flight_per_server",
            "sticky",
        ] {
            if let Some(other) = node.entry(key) {
                let what = format!("`{key}` is about servers, and with `original_dst` there are none");
                self.problems.add(other.key_span, what, format!("remove `{key}`"));
            }
        }
    }

    /// An upstream of datagrams: settings that are about connections or messages have no place in it.
    pub(super) fn of_datagrams(&mut self, node: &Node, upstream: UpstreamConfig) -> UpstreamConfig {
        for (key, fix) in OF_CONNECTIONS {
            if let Some(entry) = node.entry(key) {
                self.problems.add(entry.key_span, format!("`{key}` has no effect with `protocol: udp`"), fix);
            }
        }
        let ejection = node.get("ejection");
        for entry in ["statuses", "latency", "max_percent"].iter().filter_map(|key| ejection?.entry(key)) {
            let what = format!("`{}` is about responses of HTTP, and has no effect with `protocol: udp`", entry.key);
            self.problems.add(entry.key_span, what, format!("remove `{}`", entry.key));
        }
        if let Some(entry) =
            node.entry("send_proxy").filter(|_| !matches!(upstream.send_proxy, SendProxy::Off | SendProxy::V2))
        {
            let what = "datagrams carry a PROXY header of version 2 without TLVs";
            self.problems.add(entry.value.span, what, "write `send_proxy: v2`, which goes on each datagram");
        }
        let is_unix = |server: &ServerConfig| matches!(server.address, ServerAddress::Unix(_));
        if let Some(list) = node.get("servers").filter(|_| upstream.servers.iter().any(is_unix)) {
            let what = "a Unix socket cannot be reached by UDP";
            self.problems.add(list.span, what, "name servers by address, host name or SRV name");
        }
        // The listener bounds its flows, and makes room for new ones.
        UpstreamConfig { max_in_flight: usize::MAX, max_in_flight_per_client: usize::MAX, ..upstream }
    }

    /// Whether upstreams of datagrams, and they alone, are used by UDP listeners.
    pub(super) fn datagram_rules(&mut self, root: &Node, config: &Config) {
        let nodes = root.get("udp_listeners").map(Node::items).unwrap_or_default();
        for (listener, node) in config.udp_listeners.iter().zip(nodes) {
            let TargetsConfig::Group(name) = &listener.to else { continue };
            let is_other =
                config.upstreams.get(name).is_some_and(|upstream| upstream.protocol != UpstreamProtocol::Udp);
            if let Some(at) = node.get("upstream").filter(|_| is_other) {
                let what = format!("the servers of {} are not for datagrams", shown(name));
                self.problems.add(at.span, what, "write `protocol: udp` in that upstream, or name another one");
            }
        }
        let nodes = root.get("listeners").map(Node::items).unwrap_or_default();
        for (listener, node) in config.listeners.iter().zip(nodes) {
            let Service::Tunnel(tunnel) = &listener.service else { continue };
            let is_udp = |name: &String| {
                config.upstreams.get(name).is_some_and(|upstream| upstream.protocol == UpstreamProtocol::Udp)
            };
            let found = tunnel.rules.iter().find(|rule| is_udp(&rule.upstream));
            if let (Some(rule), Some(at)) = (found, node.get("tunnel")) {
                let what = format!("no tunnel can use {}, whose servers are for datagrams", shown(&rule.upstream));
                self.problems.add(at.span, what, "use an upstream with `protocol: tcp`");
            }
        }
    }

    fn udp_targets(&mut self, node: &Node, upstreams: &BTreeMap<&str, Span>) -> TargetsConfig {
        if node.get("original_dst").is_some() {
            return TargetsConfig::Destination { allow: self.destinations(node) };
        }
        if let Some([only]) = node.get("upstream").map(Node::one_or_many)
            && only.text().is_some_and(is_name)
        {
            // One that is missing is noted; where it leads does not matter then.
            return TargetsConfig::Group(self.name_of(only, "upstream", upstreams).unwrap_or_default());
        }
        let (mut v4, mut v6) = (None, None);
        for item in node.get("upstream").map(Node::one_or_many).unwrap_or_default() {
            let Some(text) = item.text() else { continue };
            let Some(target) = self.take(item.span, target(text)) else { continue };
            let place = if target.is_ipv4() { &mut v4 } else { &mut v6 };
            if place.replace(target).is_some() {
                let what = format!("{} is a second target of its family", shown(text));
                self.problems.add(item.span, what, "name one IPv4 and one IPv6 address at most");
            }
        }
        TargetsConfig::Fixed { v4, v6 }
    }

    /// Destinations that a header may name.
    pub(super) fn destinations(&mut self, node: &Node) -> Vec<AllowedDestination> {
        let mut out = Vec::new();
        let list = node.get("original_dst");
        for item in list.map(Node::one_or_many).unwrap_or_default() {
            let at = item.get("network").unwrap_or(item);
            let Some(text) = at.text() else { continue };
            let Some(network) = self.take(at.span, address::network(text)) else { continue };
            let ports = self.parsed(item, "ports", ports).unwrap_or(1..=u16::MAX);
            out.push(AllowedDestination { network, ports });
        }
        if let Some(list) = list.filter(|list| matches!(&list.value, Value::List(items) if items.is_empty())) {
            self.problems.add(list.span, "`original_dst` is empty", "name the networks that clients may reach");
        }
        out
    }

    /// A target that is the listener's own address would send to itself for ever.
    fn loops(&mut self, node: &Node, bind: &[SocketAddr], to: &TargetsConfig) {
        let TargetsConfig::Fixed { v4, v6 } = to else { return };
        for target in [v4, v6].into_iter().flatten() {
            let own = bind.iter().find(|bind| loops::is_reached(**bind, *target, self.machine));
            if let (Some(bind), Some(at)) = (own, node.get("upstream")) {
                let what = format!("the target {target} is this listener itself, bound to {bind}");
                self.problems.add(at.span, what, "let the application listen on another port");
            }
        }
    }

    fn header_rules(&mut self, node: &Node, listener: &UdpListenerConfig) {
        let Some(rule) = node.entry("proxy_protocol") else {
            if let Some(entry) = node.entry("original_dst") {
                let what = "`original_dst` needs a header that names the destination";
                self.problems.add(entry.key_span, what, "add `proxy_protocol: { mode: each, trust: ... }`");
            }
            return;
        };
        if let Some(entry) = rule.value.entry("reply_header")
            && listener.reply_header
            && listener.header != DatagramHeader::Simple
        {
            let what = "`reply_header` goes with the Simple Proxy Protocol only";
            self.problems.add(entry.key_span, what, "write `mode: simple`, or remove `reply_header`");
        }
    }
}

/// Whether this is meant to name an upstream: it is no address, with or without a port.
fn is_name(text: &str) -> bool {
    !text.contains(':') && text.parse::<IpAddr>().is_err()
}

fn udp_address(endpoint: Endpoint) -> Result<SocketAddr, Fault> {
    match endpoint {
        Endpoint::Tcp(address) => Ok(address),
        Endpoint::Unix(_) => {
            Err(Fault::new("a UDP listener cannot be a Unix socket".to_owned(), "name an address and a port: `:53`"))
        }
    }
}

fn target(text: &str) -> Result<SocketAddr, Fault> {
    let fault = |fix: String| Fault::new(format!("{} is not the address of a target", shown(text)), fix);
    match address::socket_address(text)? {
        Some(address) if address.port() == 0 => Err(fault("use a port from 1 to 65535".to_owned())),
        Some(address) if address.ip().is_unspecified() => {
            Err(fault("name the address that the application answers from, such as `127.0.0.1:5353`".to_owned()))
        }
        Some(address) => Ok(net::transparent::canonical(address)),
        None => match text.parse::<IpAddr>() {
            Ok(address) => Err(fault(format!("add a port: `{}`", SocketAddr::new(address, 5353)))),
            Err(_) if is_name(text) => Err(fault("name one upstream and nothing else, or write addresses".to_owned())),
            Err(_) => Err(fault(
                "write an address and a port, such as `127.0.0.1:5353`; names stand in an upstream with `protocol: udp`, whose name is written here"
                    .to_owned(),
            )),
        },
    }
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, Fault> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (port(first.trim()), port(last.trim())) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(Fault::new(
            format!("{} is neither a port nor a range of ports", shown(text)),
            "write one port, or the lowest and the highest: `1000-2000`",
        )),
    }
}

fn header(text: &str) -> Option<DatagramHeader> {
    use DatagramHeader::{Auto, Each, First, Simple};
    [Each, First, Auto, Simple].into_iter().find(|header| header_text(*header) == text)
}

/// The word for a kind of header in a file.
pub(crate) fn header_text(header: DatagramHeader) -> &'static str {
    match header {
        DatagramHeader::Off => "off",
        DatagramHeader::Each => "each",
        DatagramHeader::First => "first",
        DatagramHeader::Auto => "auto",
        DatagramHeader::Simple => "simple",
    }
}
