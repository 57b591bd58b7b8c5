//! What a configuration may say and its operator has probably not meant: what `check` warns of. Decides nothing.

use std::collections::BTreeSet;

use config::{
    AcmeConfig, Action, AdminConfig, ChallengeKind, Condition, Conditions, Config, ContractChoice, Endpoint, ForwardTo,
    HostPattern, ListenerConfig, ServerAddress, Service, TlsConfig, TlsSettings, Trust, canonical_network,
};
use ipnet::IpNet;
use tls::{Policy, ProtocolVersion};

use crate::certificates::TlsFront;

/// A text for each.
pub fn warnings<'a>(config: &'a Config, front: impl Fn(&str) -> Option<&'a TlsFront>) -> Vec<String> {
    let mut texts = config.unused.0.clone();
    texts.extend(open_trust(config));
    texts.extend(exposed_admin(config));
    texts.extend(admin_behind_routes(config));
    texts.extend(idle_conditions(config));
    texts.extend(unreached_challenges(config));
    texts.extend(open_orders(config));
    texts.extend(unvalidated_routes(config));
    texts.extend(tls_around_tls(config));
    for listener in &config.listeners {
        let Some((tls, front)) = listener.tls.as_ref().zip(front(&listener.name)) else { continue };
        texts.extend(unreachable_suites(listener, tls));
        texts.extend(keys_without_http3(listener, front));
        texts.extend(hosts_without_certificate(config, listener, tls, front));
    }
    texts
}

/// Everybody is believed who says for whom he speaks.
fn open_trust(config: &Config) -> Vec<String> {
    let advice =
        "anybody who connects from there can claim any client address; name the addresses of the proxies in front";
    let mut texts = Vec::new();
    if let Some(network) = beyond_private(&config.trusted_proxies) {
        texts.push(format!("`trusted_proxies` holds {network}: {advice}"));
    }
    let streams = config.listeners.iter().filter_map(|one| Some((&one.name, &one.proxy_protocol.as_ref()?.trust)));
    let datagrams = config.udp_listeners.iter().map(|one| (&one.name, &one.trust));
    for (name, trust) in streams.chain(datagrams) {
        let Trust::Networks(networks) = trust else { continue };
        if let Some(network) = beyond_private(networks) {
            texts.push(format!("listener `{name}`: its trusted peers hold {network}: {advice}"));
        }
    }
    texts
}

/// The first network that is larger than every private one (10.0.0.0/8 of RFC 1918, fc00::/7 of RFC 4193); neighbours count as one.
fn beyond_private(networks: &[IpNet]) -> Option<IpNet> {
    IpNet::aggregate(&networks.iter().copied().map(canonical_network).collect()).into_iter().find(|network| {
        match network {
            IpNet::V4(network) => network.prefix_len() < 8,
            IpNet::V6(network) => network.prefix_len() < 7,
        }
    })
}

/// Who reaches the admin listener needs no more than a token, which can be read on its way where there is no TLS.
fn exposed_admin(config: &Config) -> Option<String> {
    let admin = config.admin.as_ref()?;
    let Endpoint::Tcp(address) = &admin.bind else { return None };
    if address.ip().to_canonical().is_loopback() {
        return None;
    }
    let advice = match &admin.tls {
        None => {
            "and its token travels in the clear; add `tls`, or bind it to loopback or a Unix socket, and let a listener with TLS lead there"
        }
        Some(tls) if !tls.client_certificate.as_ref().is_some_and(|rule| rule.required) => {
            "and a token opens it; demand a client certificate, or bind it to loopback or a Unix socket"
        }
        Some(_) => return None,
    };
    Some(format!("the admin listener at {address} can be reached from other machines, {advice}"))
}

/// TLS that passes through unopened, and is closed once more on its way to a server that expects it as it came.
fn tls_around_tls(config: &Config) -> Vec<String> {
    let tunnels = config.listeners.iter().filter_map(|listener| match &listener.service {
        Service::Tunnel(tunnel) => Some((listener, tunnel)),
        _ => None,
    });
    let wrapped = tunnels.flat_map(|(listener, tunnel)| {
        let groups: BTreeSet<&String> =
            tunnel.rules.iter().filter(|rule| rule.passthrough).map(|rule| &rule.upstream).collect();
        let groups = groups.into_iter().filter(|name| config.upstreams.get(*name).is_some_and(|group| group.tls.is_some()));
        groups.map(|group| {
            format!(
                "listener `{}`: TLS passes through unopened to upstream `{group}`, whose `tls` closes it a second time; remove `tls` there, or open it here by `tls` of the listener and `passthrough: false`",
                listener.name
            )
        })
    });
    wrapped.collect()
}

/// Routes that lead to the admin listener where no token guards it: whoever may use them may change the server.
fn admin_behind_routes(config: &Config) -> Vec<String> {
    let Some(admin) = config.admin.as_ref().filter(|admin| admin.token.is_none()) else { return Vec::new() };
    let leads = |group: &String| {
        let servers = config.upstreams.get(group).into_iter().flat_map(|group| &group.servers);
        servers.into_iter().any(|server| is_at(&server.address, admin))
    };
    let open = config.routes.iter().filter(|route| {
        let Action::Forward(forward) = &route.action else { return false };
        match &forward.to {
            ForwardTo::Group(group) => leads(group),
            ForwardTo::Split(shares) => shares.iter().any(|share| leads(&share.group)),
            ForwardTo::Authority { .. } => false,
        }
    });
    let text = |route: &config::RouteConfig| {
        format!(
            "{}: route `{}` leads to the admin listener, which asks for no token: whoever may use the route may change this server; set `admin.token` and bind \
             it to an address",
            route.place, route.name
        )
    };
    open.map(text).collect()
}

fn is_at(server: &ServerAddress, admin: &AdminConfig) -> bool {
    match (server, &admin.bind) {
        (ServerAddress::Ip(server), Endpoint::Tcp(address)) => server == address,
        (ServerAddress::Name(name, port), Endpoint::Tcp(address)) => name == "localhost" && *port == address.port(),
        (ServerAddress::Unix(path), Endpoint::Unix(own)) => path == own,
        _ => false,
    }
}

/// Conditions on what no listener of the route learns of a client.
fn idle_conditions(config: &Config) -> Vec<String> {
    let mut texts = Vec::new();
    for route in config.routes.iter().filter(|route| !route.is_further_path) {
        let serves = |listener: &ListenerConfig| {
            let is_own = route.listeners.is_empty() || route.listeners.contains(&listener.name);
            is_own && matches!(listener.service, Service::Http)
        };
        let listeners: Vec<_> = config.listeners.iter().map(AsRef::as_ref).filter(|one| serves(one)).collect();
        let shares = match &route.action {
            Action::Forward(forward) => match &forward.to {
                ForwardTo::Split(shares) => &shares[..],
                _ => &[],
            },
            _ => &[],
        };
        let all = [&route.when].into_iter().chain(shares.iter().map(|share| &share.when));
        let idle: BTreeSet<_> = all.filter_map(|when| idle_condition(when, &listeners)).collect();
        let text = |(key, lack)| {
            let (place, name) = (&route.place, &route.name);
            format!("{place}: route `{name}`: the condition `{key}` never holds: none of its listeners {lack}")
        };
        texts.extend(idle.into_iter().map(text));
    }
    texts
}

/// The key of a condition without which none of these hold, that no connection to these listeners fulfills, and what they lack.
fn idle_condition(when: &Conditions, listeners: &[&ListenerConfig]) -> Option<(&'static str, &'static str)> {
    let asks = |tls: &TlsConfig| {
        let settings = tls.names.values().chain([&tls.settings]);
        settings.into_iter().any(|settings| settings.client_certificate.is_some())
    };
    let mut tls = listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let (has_tls, has_certificates) = (tls.clone().next().is_some(), tls.any(asks));
    let idle = |condition: &Condition| match condition {
        Condition::Ja4(_) if !has_tls => Some(("ja4", "has `tls`")),
        Condition::ServerName(_) if !has_tls => Some(("server_name", "has `tls`")),
        Condition::Certificate(_) if !has_certificates => Some(("certificate", "asks for client certificates")),
        Condition::All(items) => items.iter().find_map(|item| idle_condition(item, listeners)),
        // Of alternatives, all.
        Condition::Any(items) => {
            let each: Option<Vec<_>> = items.iter().map(|item| idle_condition(item, listeners)).collect();
            each.and_then(|each| each.first().copied())
        }
        _ => None,
    };
    when.0.iter().find_map(idle)
}

/// Authorities look for proofs where nothing listens.
fn unreached_challenges(config: &Config) -> Vec<String> {
    let binds = |listener: &ListenerConfig, port: u16| {
        listener.bind.iter().any(|place| matches!(place, Endpoint::Tcp(address) if address.port() == port))
    };
    let proves = |keystore: &str, kind: ChallengeKind, listener: &ListenerConfig| match kind {
        ChallengeKind::TlsAlpn01 => listener.tls.as_ref().is_some_and(|tls| tls.keystore == keystore),
        ChallengeKind::Http01 => listener.tls.is_none() && listener.reads_requests(),
        // It connects to nobody.
        ChallengeKind::Dns01 | ChallengeKind::DnsPersist01 => true,
    };
    let unreached = config.keystores.values().filter_map(|keystore| {
        let kinds = &keystore.acme.as_ref().filter(|acme| !acme.is_internal)?.challenges;
        let is_reached = |kind: &ChallengeKind| {
            let mut listeners = config.listeners.iter();
            listeners.any(|listener| {
                proves(&keystore.name, *kind, listener) && kind.port().is_none_or(|port| binds(listener, port))
            })
        };
        (!kinds.iter().any(is_reached)).then_some((&keystore.name, kinds))
    });
    let text = |(name, kinds): (&String, &Vec<ChallengeKind>)| {
        let port = |kind: &ChallengeKind| Some(format!("port {} ({})", kind.port()?, kind.name()));
        let ports: Vec<_> = kinds.iter().filter_map(port).collect();
        format!(
            "keystore `{name}`: certificate authorities connect to {}, and no listener that could prove a name is bound there; bind one, or forward the port",
            ports.join(" or ")
        )
    };
    unreached.map(text).collect()
}

/// Certificates that strangers have ordered for names that they make up.
fn open_orders(config: &Config) -> Vec<String> {
    let open = config.keystores.values().filter_map(|keystore| {
        let on_demand = keystore.acme.as_ref()?.on_demand.as_ref().filter(|on_demand| on_demand.ask.is_none())?;
        let parent = on_demand.allow.iter().find_map(|allowed| match allowed {
            HostPattern::Wildcard(parent) => Some(parent),
            HostPattern::Exact(_) => None,
        })?;
        Some((&keystore.name, parent))
    });
    let text = |(name, parent): (&String, &String)| {
        format!(
            "keystore `{name}`: anybody can have certificates ordered for made-up names below {parent}, until `max_names` or the authority's limits are \
             reached and names that exist get none; set `ask` beside `allow`, or list the names"
        )
    };
    open.map(text).collect()
}

/// Routes that name a contract and respond themselves, where nothing is validated, credentials included.
fn unvalidated_routes(config: &Config) -> Vec<String> {
    let unvalidated = config.routes.iter().filter_map(|route| {
        let does = match route.action {
            Action::Respond { .. } => "responds itself",
            Action::Redirect { .. } => "redirects",
            Action::Forward(_) | Action::Validate(_) => return None,
        };
        let ContractChoice::Named(contract) = &route.contract else { return None };
        Some(format!(
            "route `{}` {does}: of contract `{contract}` its lists of tokens and addresses hold there, and neither credentials nor anything else is validated; guard it by `policies`",
            route.name
        ))
    });
    unvalidated.collect()
}

/// HTTP/3 where private keys are on a key server, for which its handshakes cannot wait.
fn keys_without_http3(listener: &ListenerConfig, front: &TlsFront) -> Option<String> {
    let is_idle = listener.options.http3.is_served && front.key_group().is_some();
    is_idle.then(|| {
        format!(
            "listener `{}`: its certificates without a private key are not served over HTTP/3, whose handshakes cannot wait for a key server, and responses do \
             not announce it; clients stay with HTTP/2",
            listener.name
        )
    })
}

/// Whether names that a host pattern stands for may be had on demand.
fn has_on_demand(acme: &AcmeConfig, host: &str) -> bool {
    let pattern = HostPattern::of_text(host);
    acme.on_demand.as_ref().is_some_and(|on_demand| {
        on_demand.allow.is_empty() || on_demand.allow.iter().any(|allowed| allowed.overlaps(&pattern))
    })
}

/// A policy for old clients, and a version that none of them speaks.
fn unreachable_suites(listener: &ListenerConfig, tls: &TlsConfig) -> Vec<String> {
    let is_same = |one: &TlsSettings| (one.policy, one.min_version) == (tls.settings.policy, tls.settings.min_version);
    let own =
        tls.names.iter().filter(|(_, settings)| !is_same(settings)).map(|(name, settings)| (Some(name), settings));
    let all = [(None, &tls.settings)].into_iter().chain(own);
    let idle =
        all.filter(|(_, settings)| settings.policy == Policy::Legacy && settings.min_version > ProtocolVersion::Tls12);
    let text = |(name, _): (Option<&String>, _)| {
        let place = name.map(|name| format!(", `{name}`")).unwrap_or_default();
        format!(
            "listener `{}`{place}: `min_version` excludes the clients that `policy: legacy` is there for; write `policy: modern`, or a lower version",
            listener.name
        )
    };
    idle.map(text).collect()
}

/// Hosts of routes, and names with TLS settings of their own, for which the keystore has no certificate.
fn hosts_without_certificate(
    config: &Config,
    listener: &ListenerConfig,
    tls: &TlsConfig,
    front: &TlsFront,
) -> Vec<String> {
    let consequence =
        if tls.strict_sni { "clients are rejected" } else { "clients get the default certificate, and most reject it" };
    let text = |place: String, host: &str| {
        format!(
            "{place}: no certificate of keystore `{}` covers `{host}` on listener `{}`: {consequence}; add one, or correct the name",
            tls.keystore, listener.name
        )
    };
    let mut said = BTreeSet::new();
    // What is ordered comes by itself.
    let acme = config.keystores.get(&tls.keystore).and_then(|keystore| keystore.acme.as_ref());
    let has = |host: &str| {
        front.known_name(host).is_some() || acme.is_some_and(|acme| acme.orders(host) || has_on_demand(acme, host))
    };
    let mut is_new_without = |host: &str| !has(host) && said.insert(host.to_owned());
    let mut texts = Vec::new();
    let is_http = matches!(listener.service, Service::Http);
    let routes = config
        .routes
        .iter()
        .filter(|route| is_http && (route.listeners.is_empty() || route.listeners.contains(&listener.name)));
    for route in routes {
        let hosts = route.hosts.iter().map(ToString::to_string).filter(|host| is_new_without(host));
        texts.extend(hosts.map(|host| text(format!("{}: route `{}`", route.place, route.name), &host)));
    }
    let names = tls.names.keys().filter(|name| is_new_without(name));
    texts.extend(names.map(|name| text("`tls.names`".to_owned(), name)));
    texts
}

/// Clients whose key for Encrypted Client Hello is outdated learn the new one from whoever proves to be the public name: without a certificate for it they
/// cannot connect at all (RFC 9849 §6.1.6).
pub fn covers_without_certificate<'a>(
    config: &'a Config,
    public_names: impl Iterator<Item = &'a str> + Clone,
    front: impl Fn(&str) -> Option<&'a TlsFront>,
) -> Vec<String> {
    let mut texts = Vec::new();
    for listener in &config.listeners {
        let Some((tls, front)) = listener.tls.as_ref().zip(front(&listener.name)) else { continue };
        let acme = config.keystores.get(&tls.keystore).and_then(|keystore| keystore.acme.as_ref());
        let has = |name: &str| front.known_name(name).is_some() || acme.is_some_and(|acme| acme.orders(name));
        texts.extend(public_names.clone().filter(|name| !has(name)).map(|name| {
            format!(
                "no certificate of keystore `{}` covers `{name}`, the public name of `ech_keys`, on listener `{}`: clients with an outdated key cannot connect; add one",
                tls.keystore, listener.name
            )
        }));
    }
    texts
}
