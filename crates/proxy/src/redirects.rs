//! Redirects that lead back to themselves: what `check` warns of. Decides nothing: each step is taken by the routes and templates that serve.
//!
//! A redirect is tried with a request that it would take, put together from its host, path and conditions. A client follows until it gets something else, or
//! gives up. What leads to a host that nothing here names leads away, for all that is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use config::{Action, Config, ListenerConfig, RouteConfig, Service};
use wire::http::target::{canonical_authority, read_origin_form};
use wire::http::{Method, RequestHead};

use crate::addressed;
use crate::host_map::HostMap;
use crate::route::{RouteTable, Routed, Values, build_location};
use crate::samples::{self, Step};

/// Redirects that clients follow at least (Fetch, "HTTP-redirect fetch").
const FOLLOWED: usize = 20;

/// Most routes that are named as parts of a loop.
const MOST_NAMED: usize = 5;

/// The URL under https of a request: what a listener responds that redirects there. A request without a host has none.
pub fn https_location(head: &RequestHead, port: u16) -> Option<Vec<u8>> {
    if head.authority.is_empty() || head.target.first() != Some(&b'/') {
        return None;
    }
    let mut location = b"https://".to_vec();
    location.extend_from_slice(head.host());
    if port != 443 {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    location.extend_from_slice(&head.target);
    Some(location)
}

/// A text for each redirect, or each loop of several, that a client follows until it gives up.
pub fn warnings(config: &Config, routes: &RouteTable) -> Vec<String> {
    let served = config.routes.iter().flat_map(|route| &route.hosts).map(|host| (host.clone(), ()));
    let site = Site { config, routes, served: served.collect() };
    let mut said: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    let mut texts = Vec::new();
    for route in config.routes.iter().filter(|route| matches!(route.action, Action::Redirect { .. })) {
        for start in samples::starts(config, route, samples::paths(&route.path).get(..1).unwrap_or_default()) {
            let Some(lap) = site.lap(route, start) else { continue };
            // A loop is one problem, wherever a client enters it.
            if said.insert(lap.names.iter().copied().collect()) {
                texts.push(text(route, &lap));
            }
        }
    }
    texts
}

fn text(route: &RouteConfig, lap: &Lap<'_>) -> String {
    let (place, name, from, to) = (&route.place, &route.name, &lap.from, &lap.to);
    let others: Vec<String> =
        lap.names.iter().filter(|other| **other != *name).take(MOST_NAMED).map(|other| format!("`{other}`")).collect();
    let back = match others.is_empty() {
        true => "which it takes again".to_owned(),
        false => format!("which leads back to it by way of {}", others.join(", ")),
    };
    format!(
        "{place}: route `{name}` redirects {from} to {to}, {back}: clients follow {FOLLOWED} times and give up; have the target be something that another \
         route takes"
    )
}

/// What is served.
struct Site<'a> {
    config: &'a Config,
    routes: &'a RouteTable,
    /// The hosts that routes name: other ones may be anywhere.
    served: HostMap<()>,
}

/// A loop, from a request to its next one.
struct Lap<'a> {
    from: String,
    to: String,
    /// The routes that a client goes through, each once.
    names: Vec<&'a str>,
}

/// What a client is responded.
enum Response<'a> {
    /// A redirect, by this route if it is not the listener's own.
    Redirect(Option<&'a RouteConfig>, u16, Vec<u8>),
    /// Something else, or nobody knows.
    Other,
}

impl<'a> Site<'a> {
    /// The loop that a request begins on this route, if it begins one.
    fn lap(&self, route: &'a RouteConfig, mut step: Step<'a>) -> Option<Lap<'a>> {
        let mut names: Vec<&str> = Vec::new();
        let from = step.url();
        let mut to = None;
        for number in 0..=FOLLOWED {
            let Response::Redirect(by, status, location) = self.respond(&step) else { return None };
            // What was put together is no request of this route.
            if number == 0 && by.is_none_or(|by| !std::ptr::eq(by, route)) {
                return None;
            }
            to.get_or_insert_with(|| String::from_utf8_lossy(&location).into_owned());
            let name = by.map_or(step.listener.name.as_str(), |by| by.name.as_str());
            if !names.contains(&name) {
                names.push(name);
            }
            step = self.follow(step, status, &location)?;
        }
        Some(Lap { from, to: to?, names })
    }

    /// What is responded to a request, as far as it is a redirect.
    fn respond(&self, step: &Step<'a>) -> Response<'a> {
        if let Service::RedirectToHttps { port } = step.listener.service {
            let location = https_location(&step.head, port);
            return location.map_or(Response::Other, |location| Response::Redirect(None, 308, location));
        }
        let info = step.info();
        let sought = step.sought(info.as_ref());
        let Routed::Found(route, params) = self.routes.find(&step.listener.name, sought) else {
            return Response::Other;
        };
        let Some(config) = self.config.routes.get(route.index) else { return Response::Other };
        let Action::Redirect { status, to, allow, query } = &config.action else { return Response::Other };
        let values = Values { sought, params: &params, request_id: b"", is_secure: info.is_some() };
        let mut location = Vec::new();
        match build_location(to, allow, *query, &values, &mut location) {
            Ok(()) => Response::Redirect(Some(config), *status, location),
            Err(_) => Response::Other,
        }
    }

    /// The next request of a client that follows; none where that leads away.
    fn follow(&self, step: Step<'a>, status: u16, location: &[u8]) -> Option<Step<'a>> {
        let location = std::str::from_utf8(location).ok()?;
        let (scheme, rest) = match location.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (Some(scheme == "https"), rest),
            _ => (None, location.strip_prefix("//").unwrap_or(location)),
        };
        let is_https = scheme.unwrap_or(step.listener.tls.is_some());
        let is_path = scheme.is_none() && !location.starts_with("//");
        let (authority, target) = match is_path {
            true => (String::from_utf8(step.head.authority.clone()).ok()?, rest),
            false => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                let (authority, target) = rest.split_at_checked(end)?;
                (authority.to_owned(), target)
            }
        };
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let mut head = RequestHead { fields: step.head.fields.clone(), ..RequestHead::default() };
        // Clients make a GET of a POST (RFC 9110 §15.4).
        head.method = match (status, &step.head.method) {
            (303, method) if *method != Method::Head => Method::Get,
            (301 | 302, Method::Post) => Method::Get,
            (_, method) => method.clone(),
        };
        read_origin_form(target.as_bytes(), &mut head).ok()?;
        canonical_authority(authority.as_bytes(), &mut head.authority).ok()?;
        let listener = if is_path { step.listener } else { self.listener(&step, &head, is_https)? };
        Some(Step { listener, head, ..step })
    }

    /// The listener that a request comes to which was sent to another host or port; none where that may be another machine.
    fn listener(&self, step: &Step<'a>, head: &RequestHead, is_https: bool) -> Option<&'a Arc<ListenerConfig>> {
        let host = head.host();
        if host != step.head.host() && self.served.find(host).is_none() {
            return None;
        }
        let host = std::str::from_utf8(host).ok()?;
        let written = std::str::from_utf8(&head.authority).ok()?.get(host.len()..)?.strip_prefix(':');
        let usual = if is_https { 443 } else { 80 };
        let port = written.map_or(Some(usual), |port| port.parse().ok())?;
        let found = addressed::find(self.config, is_https, host.trim_matches(['[', ']']), port).ok()?;
        // Ports that are written are those of listeners; the usual ones may be mapped by somebody in front.
        (found.by_port || port == usual).then_some(found.listener)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const PLAIN: &str = "{ name: web, bind: ':80' }";
    const BOTH: &str = "{ name: web, bind: ':80' }, { name: tls, bind: ':8443', tls: { keystore: k } }";
    const UP: &str =
        "{ name: up, bind: ':80', redirect_to_https: {} }, { name: tls, bind: ':443', tls: { keystore: k } }";

    /// `expected`: for each warning the routes and listeners of the loop, in the order in which a client meets them.
    fn check(listeners: &str, routes: &str, expected: &[&str]) {
        let text = format!("keystores: {{ k: {{ folder: certs }} }}\nlisteners: [{listeners}]\nroutes: [{routes}]\n");
        let config = config::parse("portunus.yaml", &text, std::path::Path::new("/")).unwrap();
        let table = RouteTable::compile(&config).unwrap();
        let texts = warnings(&config, &table);
        let names: Vec<String> =
            texts.iter().map(|text| text.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(names, expected, "{routes}: {texts:#?}");
    }

    #[test]
    fn a_redirect_that_takes_its_own_target_is_a_loop() {
        let redirect = |path: &str, to: &str| format!("{{ name: r, path: '{path}', redirect: {{ to: '{to}' }} }}");
        for (path, to, is_loop) in [
            ("/a", "/a", true),
            ("/a", "/a?x=y", true),
            ("/a", "http://{host}/a", true),
            ("/a", "http://{host}:80/a", true),
            ("/a", "/b", false),
            ("/a", "/a/", false),
            ("/{*rest}", "/app/{rest}", true),
            ("/{*rest}", "/", true),
            ("/{x}", "/{x}", true),
            ("/{x}", "/{x}/", false),
            ("/{x}/", "/{x}", false),
            ("/v{n}/x", "/v1/x", true),
            // Elsewhere: another port, another scheme, a host that nothing here names.
            ("/a", "http://{host}:8080/a", false),
            ("/a", "https://{host}/a", false),
            ("/{*rest}", "http://www.example.com/{rest}", false),
        ] {
            check(PLAIN, &redirect(path, to), if is_loop { &["r"] } else { &[] });
        }
        check(PLAIN, "{ name: r, path: { regex: '/[0-9]+/old' }, redirect: { to: '/7/old' } }", &["r"]);
        check(
            PLAIN,
            &format!(
                "{}, {{ path: '/app/{{*rest}}', respond: {{ status: 200 }} }}",
                redirect("/{*rest}", "/app/{rest}")
            ),
            &[],
        );
    }

    #[test]
    fn hosts_that_are_served_here_are_followed() {
        let to = |host: &str| format!("redirect: {{ to: 'http://{host}/{{rest}}' }}");
        let any = format!("{{ name: any, path: '/{{*rest}}', {} }}", to("www.example.com"));
        check(
            PLAIN,
            &format!("{any}, {{ name: www, hosts: www.example.com, path: '/{{*rest}}', respond: {{ status: 200 }} }}"),
            &[],
        );
        check(
            PLAIN,
            &format!("{any}, {{ name: www, hosts: www.example.com, path: /a, respond: {{ status: 200 }} }}"),
            &[],
        );
        let www = format!("{{ name: www, hosts: ['*.example.com'], path: '/{{*rest}}', {} }}", to("www.example.com"));
        check(PLAIN, &www, &["www"]);
        let back = format!("{{ name: www, hosts: www.example.com, path: '/{{*rest}}', {} }}", to("example.com"));
        let there = format!("{{ name: bare, hosts: example.com, path: '/{{*rest}}', {} }}", to("www.example.com"));
        check(PLAIN, &format!("{back}, {there}"), &["www bare"]);
    }

    #[test]
    fn loops_go_over_listeners() {
        let down = "{ name: down, path: '/{*rest}', redirect: { to: 'http://{host}/{rest}' } }";
        check(UP, down, &["down up"]);
        let own = "{ name: secure, listeners: web, path: '/{*rest}', redirect: { to: 'https://{host}/{rest}' } }";
        check(BOTH, &format!("{own}, {{ listeners: tls, path: '/{{*rest}}', respond: {{ status: 200 }} }}"), &[]);
        // Somebody in front maps the port.
        let back = "{ name: plain, listeners: tls, path: '/{*rest}', redirect: { to: 'http://{host}/{rest}' } }";
        check(BOTH, &format!("{own}, {back}"), &["secure plain"]);
    }

    #[test]
    fn conditions_are_met_as_far_as_they_go_on() {
        let with = |when: &str, to: &str| format!("{{ name: r, path: /a, when: {when}, redirect: {{ to: '{to}' }} }}");
        check(PLAIN, &with("{ header: { x: '1' }, cookie: { c: { prefix: y } } }", "/a"), &["r"]);
        check(PLAIN, &with("{ query: { q: '1 2' } }", "/a"), &["r"]);
        check(PLAIN, &with("{ query: { q: '1 2' } }", "/a?q=3"), &[]);
        check(PLAIN, &with("{ query: { q: { present: false } } }", "/a?q=1"), &[]);
        check(PLAIN, &with("{ client: 10.0.0.0/8 }", "/a"), &["r"]);
        let post = "{ name: r, path: /a, methods: POST, redirect: { status: 303, to: /a } }";
        check(PLAIN, post, &[]);
        check(PLAIN, &post.replace("303", "307"), &["r"]);
    }
}
