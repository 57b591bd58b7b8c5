//! What a configuration may say and its operator has probably not meant: what `check` warns of. Decides nothing.

use std::collections::BTreeSet;

use config::{ChallengeKind, Config, Endpoint, ListenerConfig, Service, TlsConfig, TlsSettings, Trust};
use ipnet::IpNet;
use tls::{Policy, ProtocolVersion};

use crate::certificates::TlsFront;

/// A text for each.
pub fn warnings<'a>(config: &'a Config, front: impl Fn(&str) -> Option<&'a TlsFront>) -> Vec<String> {
    let mut texts = config.unused.0.clone();
    texts.extend(open_trust(config));
    texts.extend(exposed_admin(config));
    texts.extend(unreached_challenges(config));
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
    let is_everybody = |network: &IpNet| network.prefix_len() == 0;
    let advice = "anybody who connects can claim any client address; name the addresses of the proxies in front";
    let mut texts = Vec::new();
    if let Some(network) = config.trusted_proxies.iter().find(|network| is_everybody(network)) {
        texts.push(format!("`trusted_proxies` holds {network}: {advice}"));
    }
    let streams = config.listeners.iter().filter_map(|one| Some((&one.name, &one.proxy_protocol.as_ref()?.trust)));
    let datagrams = config.udp_listeners.iter().map(|one| (&one.name, &one.trust));
    for (name, trust) in streams.chain(datagrams) {
        let Trust::Networks(networks) = trust else { continue };
        if let Some(network) = networks.iter().find(|network| is_everybody(network)) {
            texts.push(format!("listener `{name}`: its trusted peers hold {network}: {advice}"));
        }
    }
    texts
}

/// The token of the admin listener can be read on its way.
fn exposed_admin(config: &Config) -> Option<String> {
    let Endpoint::Tcp(address) = &config.admin.as_ref()?.bind else { return None };
    let is_remote = !address.ip().to_canonical().is_loopback();
    is_remote.then(|| {
        format!(
            "the admin listener at {address} can be reached from other machines, and its token travels in the clear; bind it to loopback or a Unix socket, \
             and let a listener with TLS lead there"
        )
    })
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
        ChallengeKind::Dns01 => true,
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

/// HTTP/3 where private keys are on a key server, for which its handshakes cannot wait.
fn keys_without_http3(listener: &ListenerConfig, front: &TlsFront) -> Option<String> {
    let is_idle = listener.options.http3 && front.key_group().is_some();
    is_idle.then(|| {
        format!(
            "listener `{}`: its certificates without a private key are not served over HTTP/3, whose handshakes cannot wait for a key server, and responses do \
             not announce it; clients stay with HTTP/2",
            listener.name
        )
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
    let has = |host: &str| front.known_name(host).is_some() || acme.is_some_and(|acme| acme.orders(host));
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
