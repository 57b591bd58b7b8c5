//! `mode tcp`: listeners that forward bytes, by the name that a ClientHello asks for or by the client's address where a rule says so.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::Making;
use super::acl::{Counted, Test, Truth, is_in};
use super::rules::{Action, Rule};
use super::sections::Proxy;
use super::template::Facts;
use crate::addresses::{self, lists};
use crate::conditions::When;
use crate::migration::Place;
use crate::native::{Map, Value, duration};

/// Most names times networks by which rules tell connections apart.
const MAX_CELLS: usize = 4_096;

/// What is said of the connections of a listener.
#[derive(Default)]
struct Tunnel {
    /// The cells for which something is said, the widest first, and where their connections go; none for nowhere.
    rules: Vec<(Cell, Option<String>)>,
    comments: Vec<String>,
    /// Nobody passes, for what could not be carried.
    is_closed: bool,
    /// What each counter tracks, and in which table.
    tracks: BTreeMap<String, (String, String)>,
    /// Policies that limit connections.
    limits: Vec<String>,
}

impl Making<'_> {
    /// The tunnel of a listener, and the policies of all of its connections.
    pub(crate) fn tunnel(&mut self, at: usize, proxy: &Proxy, facts: Facts, native: &mut Map) {
        let rules = self.rules.get(at).cloned().unwrap_or_default();
        let mut tunnel = Tunnel::default();
        let addresses = self.admitted(&rules.requests, facts, &mut tunnel);
        self.chosen(proxy, &rules.switching, facts, &mut tunnel);
        let mut policies = Vec::new();
        if tunnel.is_closed || tunnel.rules.is_empty() {
            if !tunnel.is_closed {
                let why = "no server can be carried; nobody passes";
                tunnel.comments.push(self.report.left_out(&proxy.place, &proxy.name, why));
            }
            policies.push(self.draft.closed());
        }
        policies.extend(addresses);
        policies.append(&mut tunnel.limits);
        let mut map = Map::default();
        self.led(std::mem::take(&mut tunnel.rules), &mut map);
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

    /// Rules of a tunnel: those that differ by name alone, or by client alone, as one.
    fn led(&mut self, rules: Vec<(Cell, Option<String>)>, map: &mut Map) {
        if rules.is_empty() {
            map.set("upstream", self.nobody());
        }
        let mut made: Vec<(Vec<String>, Vec<IpNet>, Option<String>)> = Vec::new();
        for (cell, upstream) in rules {
            let (names, clients) = (Vec::from_iter(cell.name), Vec::from_iter(cell.clients));
            match made.iter_mut().rev().find(|(_, _, other)| *other == upstream) {
                Some((own, networks, _)) if !own.is_empty() && !names.is_empty() && *networks == clients => {
                    own.extend(names)
                }
                Some((own, networks, _)) if !networks.is_empty() && !clients.is_empty() && *own == names => {
                    networks.extend(clients);
                }
                _ => made.push((names, clients, upstream)),
            }
        }
        for (names, clients, upstream) in made {
            let is_closed = upstream.is_none();
            let upstream = Value::text(upstream.unwrap_or_else(|| self.nobody()));
            if names.is_empty() && clients.is_empty() {
                map.set("upstream", upstream);
                continue;
            }
            let mut rule = Map::default();
            if !names.is_empty() {
                rule.set("server_name", Value::texts(names));
            }
            if !clients.is_empty() {
                rule.set("client", Value::texts(clients.iter().map(ToString::to_string)));
            }
            rule.set("upstream", upstream);
            if is_closed {
                rule.set("policies", Value::List(vec![Value::text(self.draft.closed())]));
            }
            map.push("rules", rule);
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
                Action::Track { slot, key, table } => {
                    let table = table.clone().unwrap_or_else(|| rule.proxy.clone());
                    tunnel.tracks.insert(slot.clone(), (key.clone(), table));
                    continue;
                }
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
                Truth::No => self.limited(rule, allows, tunnel),
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

    /// A rule that holds for clients alone that connect too often, or too much at once.
    fn limited(&mut self, rule: &Rule, allows: bool, tunnel: &mut Tunnel) {
        let tests: Vec<&Test> = rule.condition.tests().collect();
        let found = match tests.as_slice() {
            [Test::Rate(rate)] if !allows && rate.of != Counted::Requests => {
                self.rate(rule, rate, &tunnel.tracks.clone())
            }
            tests if !tests.iter().any(|test| matches!(test, Test::Rate(_) | Test::Counter(..))) => return,
            _ => Err("connections are limited by how many there are, and by their rate".to_owned()),
        };
        match found {
            Ok(name) => tunnel.limits.push(name),
            Err(why) => {
                let why = format!("{why}; nothing limits this place");
                tunnel.comments.push(self.report.left_out(&rule.place, &rule.shown, &why));
            }
        }
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

    /// `use_backend` by server name and by client, and what is left.
    fn chosen(&mut self, proxy: &Proxy, rules: &[Rule], facts: Facts, tunnel: &mut Tunnel) {
        let cells = match cells(rules, facts) {
            Ok(cells) => cells,
            Err((rule, why)) => return self.close(rule, &why, tunnel),
        };
        let last = match proxy.kind == super::sections::Kind::Listen {
            true => self.own_servers(proxy, tunnel),
            false => None,
        };
        let mut upstreams: BTreeMap<&str, String> = BTreeMap::new();
        for rule in cells.iter().filter_map(|(_, rule)| *rule) {
            let Action::Backend(name) = &rule.action else {
                return self.close(rule, "where it leads is not known here", tunnel);
            };
            match self.upstream(name, None, true) {
                Ok(Some(upstream)) => _ = upstreams.insert(name, upstream),
                Ok(None) => return self.close(rule, "its backend has no server", tunnel),
                Err(why) => return self.close(rule, &why, tunnel),
            }
        }
        let upstream_of = |rule: &Rule| match &rule.action {
            Action::Backend(name) => upstreams.get(name.as_str()).cloned(),
            _ => None,
        };
        for (cell, rule) in cells {
            let upstream = match rule {
                Some(rule) => upstream_of(rule),
                None => last.clone(),
            };
            tunnel.lead(cell, upstream);
        }
    }

    /// The servers of a `listen` section itself.
    fn own_servers(&mut self, proxy: &Proxy, tunnel: &mut Tunnel) -> Option<String> {
        self.upstream(&proxy.name, None, true).unwrap_or_else(|why| {
            let (shown, why) = (format!("listen {}", proxy.name), format!("{why}; nobody passes"));
            tunnel.comments.push(self.report.left_out(&proxy.place, &shown, &why));
            tunnel.is_closed = true;
            None
        })
    }
}

/// Connections that no rule tells apart: those of a name and a network, less those of the narrower ones in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    /// Any other name, and none, without one.
    name: Option<String>,
    /// All other clients without one.
    clients: Option<IpNet>,
}

impl Cell {
    /// Whether all of its connections are like this; none if that is about something else.
    fn is_like(&self, when: &When) -> Option<bool> {
        if !is_of_connections(when) {
            return None;
        }
        let has_name =
            || self.name.as_ref().is_some_and(|name| when.server_name.iter().any(|other| is_in(name, other)));
        let is_of = || self.clients.is_some_and(|own| when.client.iter().any(|other| other.contains(&own)));
        Some((when.server_name.is_empty() || has_name()) && (when.client.is_empty() || is_of()))
    }

    /// Whether a tunnel's rule for another cell is one for this, too.
    fn is_within(&self, other: &Cell) -> bool {
        let has_name = |wider: &String| self.name.as_ref().is_some_and(|name| is_in(name, wider));
        let is_of = |wider: IpNet| self.clients.is_some_and(|own| wider.contains(&own));
        other.name.as_ref().is_none_or(has_name) && other.clients.is_none_or(is_of)
    }

    /// By it the one of two that a tunnel prefers comes later.
    fn rank(&self) -> (Option<(bool, usize)>, Option<u8>) {
        let name = self.name.as_ref().map(|name| (!name.starts_with("*."), name.len()));
        (name, self.clients.map(|network| network.prefix_len()))
    }
}

fn is_of_connections(when: &When) -> bool {
    when.methods.is_empty() && when.values.is_empty()
}

impl Tunnel {
    /// Lets the connections of a cell go there, if the rules that are there already do not say so. Cells come in the order of their ranks.
    fn lead(&mut self, cell: Cell, upstream: Option<String>) {
        let found = self.rules.iter().rev().find(|(other, _)| cell.is_within(other)).map(|(_, upstream)| upstream);
        if found.unwrap_or(&None) != &upstream {
            self.rules.push((cell, upstream));
        }
    }
}

/// A rule that cannot be said, and why.
type Unsaid<'r> = (&'r Rule, String);

/// All cells that rules tell apart, the widest first, each with the first rule that holds there.
///
/// # Errors
/// A rule that is about something else, and why it cannot be said.
fn cells(rules: &[Rule], facts: Facts) -> Result<Vec<(Cell, Option<&Rule>)>, Unsaid<'_>> {
    let mut names: Vec<Option<String>> = vec![None];
    let mut networks: Vec<Option<IpNet>> = vec![None];
    for rule in rules {
        for when in
            rule.condition.tests().filter_map(|test| if let Test::Like(whens) = test { Some(whens) } else { None })
        {
            for when in when.iter().filter(|when| is_of_connections(when)) {
                names.extend(when.server_name.iter().cloned().map(Some));
                networks.extend(when.client.iter().copied().map(Some));
            }
        }
        names.sort_unstable();
        names.dedup();
        networks.sort_unstable();
        networks.dedup();
        if names.len().saturating_mul(networks.len()) > MAX_CELLS {
            return Err((rule, "there are too many names and addresses up to here".to_owned()));
        }
    }
    let mut out = Vec::new();
    for name in names {
        for clients in &networks {
            let cell = Cell { name: name.clone(), clients: *clients };
            let rule = first_of(rules, &cell, facts)?;
            out.push((cell, rule));
        }
    }
    out.sort_by_key(|(cell, _)| cell.rank());
    Ok(out)
}

/// The first rule that holds for the connections of a cell.
fn first_of<'r>(rules: &'r [Rule], cell: &Cell, facts: Facts) -> Result<Option<&'r Rule>, Unsaid<'r>> {
    for rule in rules {
        let truth = assumed(rule, facts, &|when| match cell.is_like(when) {
            Some(true) => Truth::Yes,
            Some(false) => Truth::No,
            None => Truth::Unknown("upstreams are chosen by server name and by client alone".to_owned()),
        });
        match truth {
            Truth::No => {}
            Truth::Yes => return Ok(Some(rule)),
            Truth::Path(_) => return Err((rule, "there are no paths where bytes are forwarded".to_owned())),
            Truth::Unknown(why) => return Err((rule, why)),
            Truth::Depends(_) => {
                return Err((rule, "upstreams are chosen by server name and by client alone".to_owned()));
            }
        }
    }
    Ok(None)
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
