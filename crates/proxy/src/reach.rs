//! Routes that reach past the TLS settings that seem to cover them: what `check` warns of. Decides nothing.
//!
//! `tls.names` may demand a client certificate of a name. Three things let a request for what looks like that name, or for what is served
//! under it, through without one: a wildcard does not cover the name it is made from, a route may be wider than the name, and another listener with the same
//! route may demand nothing.

use std::sync::Arc;

use config::{Config, HostPattern, ListenerConfig, RouteConfig, Service, TlsSettings};

use crate::host_map::HostMap;

/// A listener with requests, and its TLS settings by name.
struct Front<'a> {
    listener: &'a ListenerConfig,
    names: HostMap<&'a TlsSettings>,
}

/// A text for each route whose hosts are served without a client certificate although `tls.names` seems to demand one.
pub fn warnings(config: &Config) -> Vec<String> {
    let fronts: Vec<Front<'_>> = config.listeners.iter().filter_map(front).collect();
    let mut texts = Vec::new();
    let mut group = None;
    // Hosts and listeners of a group are those of all its routes.
    let mut is_seen =
        |route: &&RouteConfig| route.group.is_some() && std::mem::replace(&mut group, route.group) == route.group;
    let routes = config.routes.iter().filter(|route| !route.is_further_path);
    for route in routes.filter(|route| !is_seen(route)) {
        let visible = |front: &&Front<'_>| route.listeners.is_empty() || route.listeners.contains(&front.listener.name);
        let fronts: Vec<&Front<'_>> = fronts.iter().filter(visible).collect();
        texts.extend(fronts.iter().filter(|_| route.hosts.is_empty()).filter_map(|front| any_host(route, front)));
        texts.extend(route.hosts.iter().flat_map(|host| wider(config, route, host, &fronts)));
        for host in hosts(config, route, &fronts) {
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

    /// What `tls.names` demands a certificate for.
    fn required_names(&self) -> impl Iterator<Item = HostPattern> {
        let names = self.listener.tls.iter().flat_map(|tls| &tls.names);
        names.filter(|(_, settings)| is_required(settings)).map(|(host, _)| HostPattern::of_text(host))
    }

    /// Whether `tls.names` itself demands one for the host, and not only the listener as a whole.
    fn demands_by_name(&self, host: &HostPattern) -> bool {
        self.names.find(host.to_string().as_bytes()).is_some_and(|settings| is_required(settings))
    }
}

fn is_required(settings: &TlsSettings) -> bool {
    settings.client_certificate.as_ref().is_some_and(|rule| rule.required)
}

/// The hosts of a route, and those below them, or below any host, that some name demands a certificate for.
fn hosts(config: &Config, route: &RouteConfig, fronts: &[&Front<'_>]) -> Vec<HostPattern> {
    let mut hosts = route.hosts.clone();
    for name in fronts.iter().flat_map(|front| front.required_names()) {
        let is_own = |wide: &HostPattern| fronts.iter().all(|front| has_own_routes(config, front, wide, &name));
        let is_below = route.hosts.is_empty() || route.hosts.iter().any(|wide| covers(wide, &name) && !is_own(wide));
        if is_below && !hosts.contains(&name) {
            hosts.push(name);
        }
    }
    hosts
}

/// Whether a wildcard covers all that another pattern does, and more.
fn covers(wide: &HostPattern, narrow: &HostPattern) -> bool {
    let HostPattern::Wildcard(parent) = wide else { return false };
    let (HostPattern::Exact(name) | HostPattern::Wildcard(name)) = narrow;
    name.strip_suffix(parent.as_str()).is_some_and(|labels| labels.ends_with('.'))
}

/// Whether a name below a wildcard has routes of its own on a listener, so that those of the wildcard do not serve it.
fn has_own_routes(config: &Config, front: &Front<'_>, wide: &HostPattern, name: &HostPattern) -> bool {
    let visible = |route: &&RouteConfig| route.listeners.is_empty() || route.listeners.contains(&front.listener.name);
    let is_narrower = |host: &HostPattern| covers(wide, host) && (host == name || covers(host, name));
    config.routes.iter().filter(visible).any(|route| route.hosts.iter().any(is_narrower))
}

/// A wildcard route that serves a name which demands a certificate, and other names without one: those lead to the same place.
fn wider(config: &Config, route: &RouteConfig, wide: &HostPattern, fronts: &[&Front<'_>]) -> Vec<String> {
    let mut texts = Vec::new();
    for front in fronts.iter().filter(|front| !front.demands(wide)) {
        for name in front.required_names() {
            if covers(wide, &name) && !has_own_routes(config, front, wide, &name) {
                texts.push(format!(
                    "{}: route `{}`: `{wide}` reaches past `{name}`, for which `tls.names` of listener `{}` demands a client certificate: the route is served \
                     without one under other names; give `{name}` a route of its own, or name `{wide}` there too, if that is not meant",
                    route.place, route.name, front.listener.name
                ));
            }
        }
    }
    texts
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
