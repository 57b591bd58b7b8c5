//! `mode tcp`: listeners that forward bytes, by the name that a ClientHello asks for where a rule says so.

use super::Making;
use super::acl::{Test, Truth, is_in};
use super::rules::{Action, Rule};
use super::sections::Proxy;
use super::template::Facts;
use crate::addresses::{self, lists};
use crate::conditions::When;
use crate::migration::Place;
use crate::native::{Map, Value, duration};

/// What is said of the connections of a listener.
#[derive(Default)]
struct Tunnel {
    rules: Vec<(Vec<String>, String)>,
    upstream: Option<String>,
    comments: Vec<String>,
    /// Nobody passes, for what could not be carried.
    is_closed: bool,
}

impl Making<'_> {
    /// The tunnel of a listener, and the policies of all of its connections.
    pub(crate) fn tunnel(&mut self, at: usize, proxy: &Proxy, facts: Facts, native: &mut Map) {
        let rules = self.rules.get(at).cloned().unwrap_or_default();
        let mut tunnel = Tunnel::default();
        let addresses = self.admitted(&rules.requests, facts, &mut tunnel);
        self.chosen(proxy, &rules.switching, facts, &mut tunnel);
        let mut policies = Vec::new();
        if tunnel.is_closed || (tunnel.rules.is_empty() && tunnel.upstream.is_none()) {
            if !tunnel.is_closed {
                let why = "no server can be carried; nobody passes";
                tunnel.comments.push(self.report.left_out(&proxy.place, &proxy.name, why));
            }
            policies.push(self.draft.closed());
        }
        policies.extend(addresses);
        let mut map = Map::default();
        if let Some(upstream) = tunnel.upstream.or_else(|| tunnel.rules.is_empty().then(|| self.nobody())) {
            map.set("upstream", upstream);
        }
        for (names, upstream) in tunnel.rules {
            map.push("rules", Map::of([("server_name", Value::texts(names)), ("upstream", Value::text(upstream))]));
        }
        let idle = proxy.timeout("tunnel").or(proxy.timeout("client"));
        if let Some(time) = idle {
            map.set("idle_timeout", duration(time));
        }
        tunnel.comments.iter().for_each(|comment| native.comment(comment.as_str()));
        native.set("tunnel", map);
        if !policies.is_empty() {
            native.set("policies", Value::List(policies.into_iter().map(Value::text).collect()));
        }
    }

    /// An upstream that nothing listens at, for a tunnel that nobody passes.
    fn nobody(&mut self) -> String {
        let mut upstream =
            Map::of([("servers", Value::List(vec![Value::text("127.0.0.1:9")])), ("protocol", Value::text("tcp"))]);
        upstream.comment("Nobody gets there. It stands for servers that could not be carried.");
        self.draft.upstreams.intern("nobody", upstream)
    }

    /// `tcp-request`: who may connect.
    fn admitted(&mut self, rules: &[Rule], facts: Facts, tunnel: &mut Tunnel) -> Option<String> {
        let mut listed: Vec<addresses::Rule> = Vec::new();
        let mut first: Option<(Place, String)> = None;
        let mut stopped = None;
        for rule in rules.iter().filter(|rule| rule.list.1 < 2) {
            let allows = match &rule.action {
                Action::Stop => true,
                Action::Respond(_) => false,
                Action::Track { .. } => continue,
                _ => {
                    self.close(rule, "it decides in a way that is not known here", tunnel);
                    continue;
                }
            };
            if stopped == Some(rule.list) {
                continue;
            }
            match known(rule, facts) {
                // Whoever came so far is accepted, by what is known of all of them.
                Truth::Yes if allows => stopped = Some(rule.list),
                Truth::Yes => listed.push(addresses::Rule { allows, network: None }),
                Truth::No => {
                    if rule.condition.tests().any(|test| matches!(test, Test::Rate(_) | Test::Counter(..))) {
                        let why = "connections are limited with `concurrency_limit` and `rate_limit`; nothing limits this place";
                        tunnel.comments.push(self.report.left_out(&rule.place, &rule.shown, why));
                    }
                }
                Truth::Depends(when) if when.is_of_clients() => match by_address(rule, &when, facts) {
                    Some(is_negated) => {
                        let networks = when.client.iter().map(|network| Some(*network));
                        match is_negated {
                            false => listed.extend(networks.map(|network| addresses::Rule { allows, network })),
                            // All others: those named here go on to the next rule.
                            true if !allows => {
                                listed.extend(networks.map(|network| addresses::Rule { allows: true, network }));
                                listed.push(addresses::Rule { allows: false, network: None });
                            }
                            true => self.close(rule, "who is accepted is not said by addresses", tunnel),
                        }
                    }
                    None => self.close(rule, "its condition is not one of addresses alone", tunnel),
                },
                Truth::Depends(_) | Truth::Path(_) => {
                    self.close(rule, "its condition is not one of addresses alone", tunnel)
                }
                Truth::Unknown(why) => self.close(rule, &why, tunnel),
            }
            first.get_or_insert_with(|| (rule.place.clone(), rule.shown.clone()));
        }
        self.address_policy(&listed, first, tunnel)
    }

    fn address_policy(
        &mut self,
        listed: &[addresses::Rule],
        first: Option<(Place, String)>,
        tunnel: &mut Tunnel,
    ) -> Option<String> {
        let Ok(lists) = lists(listed, true) else {
            tunnel.is_closed = true;
            return None;
        };
        if lists.is_open() {
            return None;
        }
        let texts = |networks: &[ipnet::IpNet]| {
            Value::List(networks.iter().map(|network| Value::text(network.to_string())).collect())
        };
        let mut policy = Map::default();
        match lists.allow.as_deref() {
            Some([]) => policy.set("allow", Value::List(vec![Value::text(addresses::NOBODY)])),
            Some(allow) => policy.set("allow", texts(allow)),
            None => {}
        }
        if !lists.deny.is_empty() {
            policy.set("deny", texts(&lists.deny));
        }
        if let Some((place, shown)) = first {
            policy.comment(format!("{place}: {shown}"));
        }
        Some(self.draft.policies.intern("access", policy))
    }

    fn close(&mut self, rule: &Rule, why: &str, tunnel: &mut Tunnel) {
        tunnel.comments.push(self.report.left_out(&rule.place, &rule.shown, &format!("{why}; nobody passes")));
        tunnel.is_closed = true;
    }

    /// `use_backend` by server name, and what is left.
    fn chosen(&mut self, proxy: &Proxy, rules: &[Rule], facts: Facts, tunnel: &mut Tunnel) {
        let mut taken: Vec<String> = Vec::new();
        for rule in rules {
            let Action::Backend(name) = &rule.action else {
                self.close(rule, "where it leads is not known here", tunnel);
                return;
            };
            let when = match known(rule, facts) {
                Truth::No => continue,
                Truth::Yes => None,
                Truth::Depends(when) => Some(when),
                Truth::Path(_) => return self.close(rule, "there are no paths where bytes are forwarded", tunnel),
                Truth::Unknown(why) => return self.close(rule, &why, tunnel),
            };
            let upstream = match self.upstream(name, None, true) {
                Ok(Some(upstream)) => upstream,
                Ok(None) => return self.close(rule, "its backend has no server", tunnel),
                Err(why) => return self.close(rule, &why, tunnel),
            };
            let Some(when) = when else {
                tunnel.upstream = Some(upstream);
                return;
            };
            let Some(names) = names(rule, &when, facts) else {
                return self.close(rule, "upstreams are chosen by server name alone", tunnel);
            };
            // Of two rules the first counts.
            let own: Vec<String> =
                names.into_iter().filter(|name| !taken.iter().any(|other| is_in(name, other))).collect();
            taken.extend(own.iter().cloned());
            if !own.is_empty() {
                tunnel.rules.push((own, upstream));
            }
        }
        if proxy.kind == super::sections::Kind::Listen {
            match self.upstream(&proxy.name, None, true) {
                Ok(upstream) => tunnel.upstream = upstream,
                Err(why) => {
                    tunnel.comments.push(self.report.left_out(
                        &proxy.place,
                        &format!("listen {}", proxy.name),
                        &format!("{why}; nobody passes"),
                    ));
                    tunnel.is_closed = true;
                }
            }
        }
    }
}

/// What a condition comes to for all connections of a listener.
fn known(rule: &Rule, facts: Facts) -> Truth {
    assumed(rule, facts, &|when| Truth::Depends(when.clone()))
}

fn assumed(rule: &Rule, facts: Facts, like: &dyn Fn(&When) -> Truth) -> Truth {
    let constant = |holds: bool| if holds { Truth::Yes } else { Truth::No };
    rule.condition.truth(&|test| match test {
        Test::Constant(holds) => constant(*holds),
        Test::Tls => constant(facts.tls),
        Test::Ports(ports) => constant(facts.port.is_some_and(|port| ports.contains(&port))),
        Test::Certificate => facts
            .certificate
            .map_or_else(|| Truth::Unknown("whether there is a client certificate".to_owned()), constant),
        Test::Like(whens) => {
            let mut out = Truth::No;
            for when in whens {
                match like(when) {
                    Truth::Yes => return Truth::Yes,
                    Truth::No => {}
                    other => out = other,
                }
            }
            out
        }
        Test::Rate(_) | Test::BodyOver(_) | Test::User(_) => Truth::No,
        Test::Counter(_, holds) => constant(*holds),
        Test::Hosts(_) | Test::Paths(_) => Truth::Unknown("there are no requests where bytes are forwarded".to_owned()),
        Test::Unknown(why) => Truth::Unknown(why.clone()),
    })
}

/// Whether a rule is one about these addresses alone: for them, or (true) for all others.
fn by_address(rule: &Rule, when: &When, facts: Facts) -> Option<bool> {
    let case = |holds: bool| {
        assumed(rule, facts, &|other| match other == when {
            true if holds => Truth::Yes,
            true => Truth::No,
            false => Truth::Depends(other.clone()),
        })
    };
    match (case(true), case(false)) {
        (Truth::Yes, Truth::No) => Some(false),
        (Truth::No, Truth::Yes) => Some(true),
        _ => None,
    }
}

/// The server names that a rule is for, if it is for names alone.
fn names(rule: &Rule, when: &When, facts: Facts) -> Option<Vec<String>> {
    let mut out: Vec<String> = Vec::new();
    let mut seen: Vec<When> = Vec::new();
    let mut next = when.clone();
    // One name after the other, until the rule holds for no further ones.
    loop {
        let is_of_names =
            !next.server_name.is_empty() && next.client.is_empty() && next.methods.is_empty() && next.values.is_empty();
        if !is_of_names || seen.contains(&next) || seen.len() > 64 {
            return None;
        }
        let case = |holds: bool| {
            assumed(rule, facts, &|other| match other == &next {
                true if holds => Truth::Yes,
                true => Truth::No,
                false if seen.contains(other) => Truth::No,
                false => Truth::Depends(other.clone()),
            })
        };
        if case(true) != Truth::Yes {
            return None;
        }
        out.extend(next.server_name.iter().cloned());
        let after = case(false);
        seen.push(next);
        match after {
            Truth::No => return Some(out),
            Truth::Depends(when) => next = when,
            _ => return None,
        }
    }
}
