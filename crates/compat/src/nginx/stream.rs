//! Servers of `stream`: listeners that forward bytes or datagrams, by the name that a ClientHello asks for where a `map` says so, by the client's address where a
//! `geo` does. A server of which anything that decides where connections go, or whose they are, cannot be carried is left out: nothing listens there then.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::listen::{self, Listener, Names, Socket};
use super::scope::{Scope, milliseconds};
use super::site::Making;
use super::syntax::Directive;
use super::{forward, known};
use crate::native::{Map, Value, duration};

/// How long nothing may move before nginx ends a session, milliseconds.
const IDLE: u64 = 600_000;

impl<'d> Making<'d> {
    /// The servers of `stream`.
    pub(crate) fn streams(&mut self) {
        let servers: Vec<&'d Directive> = self.http.iter().filter(|directive| directive.name == "server").collect();
        for server in servers {
            let mut comments = Vec::new();
            known::audit(server.inner(), self.report, &mut comments);
            let sockets = listen::of_stream(server, self.report, &mut comments);
            comments.into_iter().for_each(|comment| self.draft.comment(comment));
            let scope = Scope::new(self.http).within(server.inner());
            for (socket, is_udp) in sockets {
                let made = match is_udp {
                    true => self.datagrams(&socket, &scope),
                    false => self.tunnel(&socket, server, &scope),
                };
                if let Err(why) = made {
                    let what = format!("listen {}", socket.bind.join(" "));
                    let why = format!("{why}; the listener is left out");
                    self.draft.comment(self.report.left_out(&server.place, &what, &why));
                }
            }
        }
    }

    /// A listener on TCP.
    fn tunnel(&mut self, socket: &Socket, server: &'d Directive, scope: &Scope<'d>) -> Result<(), String> {
        let name = self.free_name(if socket.tls { "tls" } else { "tcp" }, socket);
        let mut native =
            Map::of([("name", Value::text(name.as_str())), ("bind", Value::texts(socket.bind.iter().cloned()))]);
        listen::open_unix_socket(socket, &mut native);
        native.comment(server.place.to_string());
        if socket.tls {
            let listener = Listener { name, socket: socket.clone() };
            native.set("tls", self.listener_tls(&listener, &[(scope.clone(), Names::default())])?);
        }
        if socket.proxy_protocol {
            native.set("proxy_protocol", self.believed(scope, server));
        }
        let mut tunnel = Map::default();
        let pass = passed(scope)?;
        match pass.strip_prefix('$') {
            Some(variable) => self.by_variable(variable, socket, scope, &mut tunnel)?,
            None => tunnel.set("upstream", self.streamed(pass, scope, "tcp")?),
        }
        tunnel.set("idle_timeout", duration(idle(scope)));
        native.set("tunnel", tunnel);
        self.admit(scope, &mut native);
        match self.draft.rejects_listener(&native) {
            Some(why) => Err(why),
            None => {
                self.draft.listeners.push(native);
                Ok(())
            }
        }
    }

    /// A listener on UDP.
    fn datagrams(&mut self, socket: &Socket, scope: &Scope<'d>) -> Result<(), String> {
        if socket.tls || socket.proxy_protocol {
            return Err("datagrams are forwarded as they are".to_owned());
        }
        let upstream = self.streamed(passed(scope)?, scope, "udp")?;
        let mut native = Map::of([
            ("name", Value::text(self.free_name("udp", socket))),
            ("bind", Value::texts(socket.bind.iter().cloned())),
            ("upstream", Value::text(upstream)),
            ("idle_timeout", Value::text(duration(idle(scope)))),
        ]);
        if forward::is_transparent(scope) {
            forward::transparent(&mut native);
        }
        self.admit(scope, &mut native);
        match self.draft.rejects_udp_listener(&native) {
            Some(why) => Err(why),
            None => {
                self.draft.udp_listeners.push(native);
                Ok(())
            }
        }
    }

    /// A name that no listener has yet.
    fn free_name(&self, kind: &str, socket: &Socket) -> String {
        let wanted = socket.port.map_or(format!("{kind}-unix"), |port| format!("{kind}-{port}"));
        let all = || self.draft.listeners.iter().chain(&self.draft.udp_listeners);
        let is_free = |name: &String| !all().any(|other| other.get("name") == Some(&Value::text(name.as_str())));
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        std::iter::once(wanted.clone()).chain(numbered).find(is_free).unwrap_or_default()
    }

    /// Who may connect, how often and how fast.
    fn admit(&mut self, scope: &Scope<'_>, native: &mut Map) {
        let access = self.stream_access(scope);
        access.comments.iter().for_each(|comment| native.comment(comment.as_str()));
        if !access.policies.is_empty() {
            native.set("policies", Value::List(access.policies.into_iter().map(Value::text).collect()));
        }
    }

    /// Whose PROXY headers are believed: of those that `set_real_ip_from` names, else of nobody but this machine.
    fn believed(&mut self, scope: &Scope<'_>, server: &Directive) -> Map {
        let named = scope.all(&["set_real_ip_from"]);
        let networks: Option<Vec<String>> =
            named.iter().map(|one| crate::addresses::network(one.arg(0)).map(|network| network.to_string())).collect();
        match networks.filter(|networks| !networks.is_empty()) {
            Some(networks) => Map::of([("trust", Value::texts(networks))]),
            None => {
                let why =
                    "whose PROXY headers are believed is not said (`set_real_ip_from`): name the balancers in `trust`";
                self.draft.comment(self.report.left_out(&server.place, "listen … proxy_protocol", why));
                Map::of([("trust", Value::texts(["127.0.0.1", "::1"]))])
            }
        }
    }

    /// Upstreams by the variable of a `map` or of a `geo`.
    fn by_variable(
        &mut self,
        variable: &str,
        socket: &Socket,
        scope: &Scope<'d>,
        tunnel: &mut Map,
    ) -> Result<(), String> {
        let is_it = |directive: &&Directive| {
            let of = match directive.name.as_str() {
                "map" => Some(directive.arg(1)),
                "geo" => directive.args.last().map(String::as_str),
                _ => None,
            };
            of.and_then(|of| of.strip_prefix('$')) == Some(variable)
        };
        let found: &'d Directive = self.http.iter().find(is_it).ok_or("the server is chosen by a variable")?;
        match found.name.as_str() {
            "geo" => self.by_client(found, socket, scope, tunnel),
            _ => self.by_name(found, socket, scope, tunnel),
        }
    }

    /// Upstreams by the address of the client.
    fn by_client(
        &mut self,
        geo: &'d Directive,
        socket: &Socket,
        scope: &Scope<'d>,
        tunnel: &mut Map,
    ) -> Result<(), String> {
        let address = if geo.args.len() == 1 { "$remote_addr" } else { geo.arg(0) };
        // Behind a balancer the client is whom its header names, here as well as there.
        let is_client = match (address, socket.proxy_protocol) {
            ("$remote_addr", false) | ("$proxy_protocol_addr", true) => true,
            ("$remote_addr", true) => !scope.all(&["set_real_ip_from"]).is_empty(),
            _ => false,
        };
        if !is_client {
            return Err(format!("`{address}` of the geo is not the address of the client"));
        }
        let mut chosen: Vec<(&'d str, Vec<IpNet>)> = Vec::new();
        for (network, to) in networks_of(geo)? {
            match (network, chosen.iter_mut().find(|(other, _)| *other == to)) {
                (None, _) => tunnel.set("upstream", self.streamed(to, scope, "tcp")?),
                (Some(network), Some((_, networks))) => networks.push(network),
                (Some(network), None) => chosen.push((to, vec![network])),
            }
        }
        for (to, networks) in chosen {
            let upstream = self.streamed(to, scope, "tcp")?;
            let networks = Value::texts(networks.iter().map(ToString::to_string));
            tunnel.push("rules", Map::of([("client", networks), ("upstream", Value::text(upstream))]));
        }
        Ok(())
    }

    /// Upstreams by the variable of a `map` of server names.
    fn by_name(
        &mut self,
        map: &'d Directive,
        socket: &Socket,
        scope: &Scope<'d>,
        tunnel: &mut Map,
    ) -> Result<(), String> {
        let is_read = match map.arg(0) {
            "$ssl_preread_server_name" => scope.is_on("ssl_preread") && !socket.tls,
            "$ssl_server_name" => socket.tls,
            _ => false,
        };
        if !is_read {
            return Err("the server is chosen by a variable that is not the name of a ClientHello".to_owned());
        }
        let has_wildcards = map.inner().iter().any(|entry| entry.name == "hostnames");
        for entry in map.inner().iter().filter(|entry| !matches!(entry.name.as_str(), "hostnames" | "volatile")) {
            let upstream = self.streamed(entry.arg(0), scope, "tcp")?;
            if entry.name == "default" {
                tunnel.set("upstream", upstream);
                continue;
            }
            // Without the word such a key is a name that nobody asks for.
            if !has_wildcards && (entry.name.starts_with(['*', '.']) || entry.name.ends_with(".*")) {
                continue;
            }
            let names = match listen::hosts(&entry.name) {
                Ok(names) if !names.is_empty() => names,
                _ => return Err(format!("`{}` of the map is no name of a host", entry.name)),
            };
            tunnel.push("rules", Map::of([("server_name", Value::texts(names)), ("upstream", Value::text(upstream))]));
        }
        if !socket.tls {
            let how = "connections that begin with no ClientHello are closed; there they go to the default";
            tunnel.comment(self.report.differs(&map.place, &map.shown(), how));
        }
        Ok(())
    }
}

/// Where a server forwards to.
fn passed<'d>(scope: &Scope<'d>) -> Result<&'d str, String> {
    let decides = ["return", "pass", "js_preread", "js_filter"].into_iter().find_map(|name| scope.one(name));
    match (scope.word("proxy_pass"), decides) {
        (_, Some(directive)) => Err(format!("`{}` has no counterpart", directive.name)),
        (Some(pass), None) => Ok(pass),
        (None, None) => Err("it forwards to nobody".to_owned()),
    }
}

/// The networks of a `geo` and what each stands for; none for all others. Of a network that is there twice the last one counts.
fn networks_of(geo: &Directive) -> Result<BTreeMap<Option<IpNet>, &str>, String> {
    let mut found = BTreeMap::new();
    for entry in geo.inner() {
        let network = |text: &str| {
            let network = crate::addresses::network(text);
            network.map(Some).ok_or_else(|| format!("`{text}` of the geo is no network"))
        };
        match entry.name.as_str() {
            "default" => _ = found.insert(None, entry.arg(0)),
            "delete" => _ = found.remove(&network(entry.arg(0))?),
            // Addresses are those of clients already: `listen … proxy_protocol`.
            name @ ("ranges" | "include" | "proxy" | "proxy_recursive") => {
                return Err(format!("`{name}` of the geo has no counterpart"));
            }
            text => _ = found.insert(network(text)?, entry.arg(0)),
        }
    }
    Ok(found)
}

/// How long nothing may move.
fn idle(scope: &Scope<'_>) -> u64 {
    scope.word("proxy_timeout").and_then(milliseconds).filter(|time| *time > 0).unwrap_or(IDLE)
}
