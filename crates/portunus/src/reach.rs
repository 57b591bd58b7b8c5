//! Routes that reach past the TLS settings that seem to cover them: what `check` warns of. Decides nothing.
//!
//! `tls.names` may demand a client certificate of a name. Two things let a request for what looks like that name through without one: a wildcard
//! does not cover the name it is made from, and another listener with the same route may demand nothing.

use std::sync::Arc;

use crate::config::{Config, HostPattern, ListenerConfig, RouteConfig, Service, TlsSettings};
use crate::host::HostMap;

/// A listener with requests, and its TLS settings by name.
struct Front<'a> {
    listener: &'a ListenerConfig,
    names: HostMap<&'a TlsSettings>,
}

/// A text for each route whose hosts are served without a client certificate although `tls.names` seems to demand one.
pub fn warnings(config: &Config) -> Vec<String> {
    let fronts: Vec<Front<'_>> = config.listeners.iter().filter_map(front).collect();
    let mut texts = Vec::new();
    for route in &config.routes {
        let visible = |front: &&Front<'_>| route.listeners.is_empty() || route.listeners.contains(&front.listener.name);
        let fronts: Vec<&Front<'_>> = fronts.iter().filter(visible).collect();
        texts.extend(fronts.iter().filter(|_| route.hosts.is_empty()).filter_map(|front| any_host(route, front)));
        for host in hosts(route, &fronts) {
            if let Some(text) = beside_a_wildcard(route, &host, &fronts).or_else(|| elsewhere(route, &host, &fronts)) {
                texts.push(text);
            }
        }
    }
    texts
}

fn front(listener: &Arc<ListenerConfig>) -> Option<Front<'_>> {
    let Service::Http = listener.service else { return None };
    let names = listener.tls.iter().flat_map(|tls| &tls.names);
    let names = names.map(|(host, settings)| (HostPattern::of_text(host), &**settings)).collect();
    Some(Front { listener, names })
}

impl Front<'_> {
    /// Whether requests for a host (of a wildcard: for what no narrower name covers) come under client certificates only.
    fn demands(&self, host: &HostPattern) -> bool {
        let Some(tls) = &self.listener.tls else { return false };
        let own = self.names.find(host.to_string().as_bytes());
        is_required(own.unwrap_or(&&*tls.settings))
    }

    /// Whether `tls.names` itself demands one for the host, and not only the listener as a whole.
    fn demands_by_name(&self, host: &HostPattern) -> bool {
        self.names.find(host.to_string().as_bytes()).is_some_and(|settings| is_required(settings))
    }
}

fn is_required(settings: &TlsSettings) -> bool {
    settings.client_certificate.as_ref().is_some_and(|rule| rule.required)
}

/// The hosts of a route; of one for any host those that some name demands a certificate for.
fn hosts(route: &RouteConfig, fronts: &[&Front<'_>]) -> Vec<HostPattern> {
    if !route.hosts.is_empty() {
        return route.hosts.clone();
    }
    let named = fronts.iter().flat_map(|front| front.listener.tls.iter().flat_map(|tls| &tls.names));
    named.filter(|(_, settings)| is_required(settings)).map(|(host, _)| HostPattern::of_text(host)).collect()
}

/// `example.com` beside `*.example.com`.
fn beside_a_wildcard(route: &RouteConfig, host: &HostPattern, fronts: &[&Front<'_>]) -> Option<String> {
    let HostPattern::Exact(name) = host else { return None };
    let wildcard = HostPattern::Wildcard(name.clone());
    let covers = |front: &&&Front<'_>| front.names.get(&wildcard).is_some_and(|settings| is_required(settings));
    let open = fronts.iter().filter(covers).find(|front| !front.demands(host))?;
    Some(format!(
        "{}: route `{}`: `{host}` is not covered by `{wildcard}` in `tls.names` of listener `{}` and is served without a client certificate; name \
         `{host}` there too if that is not meant",
        route.place, route.name, open.listener.name
    ))
}

/// The same host on a listener that demands nothing.
fn elsewhere(route: &RouteConfig, host: &HostPattern, fronts: &[&Front<'_>]) -> Option<String> {
    let strict = fronts.iter().find(|front| front.demands_by_name(host))?;
    let open = fronts.iter().find(|front| !front.demands(host))?;
    Some(format!(
        "{}: route `{}`: listener `{}` demands a client certificate for `{host}`, and listener `{}` serves the route without one; name the route's \
         `listeners` if that is not meant",
        route.place, route.name, strict.listener.name, open.listener.name
    ))
}

/// A route for any host on a listener that demands a certificate for some names only: another name leads to the same place without one.
fn any_host(route: &RouteConfig, front: &Front<'_>) -> Option<String> {
    let tls = front.listener.tls.as_ref().filter(|tls| !is_required(&tls.settings))?;
    let (name, _) = tls.names.iter().find(|(_, settings)| is_required(settings))?;
    Some(format!(
        "{}: route `{}` has no `hosts`: listener `{}` demands a client certificate for `{name}` and serves the route without one under other names; name the \
         route's hosts if that is not meant",
        route.place, route.name, front.listener.name
    ))
}
