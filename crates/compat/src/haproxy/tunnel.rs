//! `mode tcp`: listeners that forward bytes, by the name that a ClientHello asks for or by the client's address where a rule says so.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::Making;
use super::acl::{Counted, Test, Truth};
use super::criterion::UNBELIEVED;
use super::rules::{Action, CONTENT, Rule, ends_nothing};
use super::sections::{Kind, Proxy};
use super::template::Facts;
use crate::addresses::{self, lists};
use crate::conditions::{When, is_in};
use crate::migration::Place;
use crate::native::{Map, Value, duration};

/// Why a rule is not carried.
const NOT_BY_ADDRESS: &str = "its condition is not one of addresses alone";
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
        let mut policies = self.admitted(&rules.requests, facts, &mut tunnel);
        self.chosen(proxy, &rules.switching, facts, &mut tunnel);
        if tunnel.is_closed || tunnel.rules.is_empty() {
            if !tunnel.is_closed {
                let why = "no server can be carried; nobody passes";
                tunnel.comments.push(self.report.left_out(&proxy.place, &proxy.name, why));
            }
            policies.insert(0, self.draft.closed());
        }
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

    /// `tcp-request`: who may connect. Each of its lists ends for itself, and all must let a client pass.
    fn admitted(&mut self, rules: &[Rule], facts: Facts, tunnel: &mut Tunnel) -> Vec<String> {
        let mut out = Vec::new();
        for list in 0..=CONTENT {
            let own: Vec<Rule> = rules.iter().filter(|rule| rule.list.1 == list).cloned().collect();
            out.extend(self.admitted_by(&own, facts, tunnel));
        }
        out
    }

    /// The policy for the rules of one list.
    fn admitted_by(&mut self, rules: &[Rule], facts: Facts, tunnel: &mut Tunnel) -> Option<String> {
        let mut listed: Vec<addresses::Rule> = Vec::new();
        let mut first: Option<(Place, String)> = None;
        for (at, rule) in rules.iter().enumerate() {
            let allows = match &rule.action {
                Action::Stop if ends_nothing(rules, at) => break,
                Action::Stop => true,
                Action::Respond(_) => false,
                Action::Track { slot, key, table } => {
                    let table = table.clone().unwrap_or_else(|| rule.proxy.clone());
                    tunnel.tracks.entry(slot.clone()).or_insert((key.clone(), table));
                    continue;
                }
                _ => {
                    self.close(rule, "it decides in a way that is not known here", tunnel);
                    continue;
                }
            };
            match assumed(rule, facts, Some(false), &|when| Truth::Depends(when.clone())) {
                // Whoever came so far is accepted, by what is known of all of them.
                Truth::Yes if allows => break,
                Truth::Yes => listed.push(addresses::Rule { allows, network: None }),
                Truth::No => self.limited(rule, allows, facts, tunnel),
                Truth::Depends(when) if when.is_of_clients() => {
                    self.by_client(rule, allows, (&when, facts), &mut listed, tunnel);
                    self.limited(rule, allows, facts, tunnel);
                }
                Truth::Depends(_) | Truth::Path(_) => self.close(rule, NOT_BY_ADDRESS, tunnel),
                Truth::Unknown(why) => self.close(rule, &why, tunnel),
            }
            first.get_or_insert_with(|| (rule.place.clone(), rule.shown.clone()));
        }
        self.address_policy(&listed, first, tunnel)
    }

    /// A rule that addresses decide on.
    fn by_client(
        &mut self,
        rule: &Rule,
        allows: bool,
        (when, facts): (&When, Facts),
        listed: &mut Vec<addresses::Rule>,
        tunnel: &mut Tunnel,
    ) {
        let networks = when.client.iter().map(|network| Some(*network));
        match by_address(rule, when, facts) {
            Some(false) => listed.extend(networks.map(|network| addresses::Rule { allows, network })),
            // All others: those named here go on to the next rule.
            Some(true) if !allows => self.close_others(rule, when, listed, tunnel),
            Some(true) => self.close(rule, "who is accepted is not said by addresses", tunnel),
            None => self.close(rule, NOT_BY_ADDRESS, tunnel),
        }
    }

    /// Keeps out all but these, of whom rules behind may keep out more: what those before let pass does not come so far.
    fn close_others(&mut self, rule: &Rule, when: &When, listed: &[addresses::Rule], tunnel: &mut Tunnel) {
        if listed.iter().any(|before| before.allows) {
            return self.close(rule, "it keeps out all but some addresses behind a rule that accepts others", tunnel);
        }
        let networks = when.client.iter().map(|network| Value::text(network.to_string())).collect();
        let mut policy = Map::of([("allow", Value::List(networks))]);
        policy.comment(format!("{}: {}", rule.place, rule.shown));
        let name = self.draft.policies.intern("access", policy);
        tunnel.limits.push(name);
    }

    /// What is left of a rule for clients that connect too often, or too much at once.
    fn limited(&mut self, rule: &Rule, allows: bool, facts: Facts, tunnel: &mut Tunnel) {
        let is_rate = |test: &&Test| matches!(test, Test::Rate(_));
        let rates: Vec<&Test> = rule.condition.tests().filter(is_rate).collect();
        let is_enough = || assumed(rule, facts, Some(true), &|_| Truth::No) == Truth::Yes;
        let found = match rates.as_slice() {
            [] => return,
            [Test::Rate(rate)] if !allows && rate.of != Counted::Requests && is_enough() => {
                self.rate(rule, rate, &tunnel.tracks.clone())
            }
            _ => Err("connections are limited by how many there are, and by their rate".to_owned()),
        };
        match found {
            Ok(name) => tunnel.limits.push(name),
            Err(why) => self.close(rule, &why, tunnel),
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
        let last = match proxy.kind == Kind::Listen {
            true => self.own_servers(proxy, tunnel),
            false => None,
        };
        let mut upstreams: BTreeMap<&str, String> = BTreeMap::new();
        for rule in cells.iter().filter_map(|(_, rule)| *rule) {
            let Action::Backend(name) = &rule.action else {
                return self.close(rule, "where it leads is not known here", tunnel);
            };
            if let Some(why) = self.decides_itself(name, facts) {
                return self.close(rule, &why, tunnel);
            }
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

    /// Why a backend cannot be sent bytes: it rejects some of them itself, or takes none.
    fn decides_itself(&self, name: &str, facts: Facts) -> Option<String> {
        let at = self.proxies.iter().position(|proxy| proxy.name == name && proxy.kind != Kind::Frontend)?;
        let (proxy, rules) = (self.proxies.get(at)?, self.rules.get(at)?);
        if proxy.is_disabled() {
            return Some(format!("`{name}` is disabled"));
        }
        if !proxy.is_tcp() {
            return Some(format!("`{name}` reads requests"));
        }
        let is_read = |rule: &&Rule| rule.list.1 <= CONTENT;
        let own: Vec<Rule> = rules.requests.iter().filter(is_read).cloned().collect();
        let decides = |(at, rule): (usize, &Rule)| {
            let is_none = assumed(rule, facts, None, &|when| Truth::Depends(when.clone())) == Truth::No;
            !is_none && !ends_nothing(&own, at) && !matches!(rule.action, Action::Track { .. })
        };
        let found = own.iter().enumerate().find(|(at, rule)| decides((*at, rule)));
        found.map(|(_, rule)| format!("`{name}` decides itself ({}: {})", rule.place, rule.shown))
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
        for when in rule
            .condition
            .tests()
            .filter_map(|test| if let Test::Like(whens) | Test::Hello(whens) = test { Some(whens) } else { None })
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
        let truth = assumed(rule, facts, None, &|when| match cell.is_like(when) {
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

/// What a condition comes to for connections of a listener. `beyond`: for clients that are beyond their limits; none where that decides what it may not.
fn assumed(rule: &Rule, facts: Facts, beyond: Option<bool>, like: &dyn Fn(&When) -> Truth) -> Truth {
    let constant = |holds: bool| if holds { Truth::Yes } else { Truth::No };
    rule.condition.truth(&|test| match test {
        Test::Constant(holds) => constant(*holds),
        Test::Tls => constant(facts.tls),
        Test::Ports(ports) => match facts.port {
            Some(port) => constant(ports.contains(&port)),
            None => Truth::Unknown("which port a client connected to".to_owned()),
        },
        Test::Hello(_) if facts.tls => Truth::Unknown("TLS is ended here, and `req.ssl_sni` finds none".to_owned()),
        Test::Like(whens) if !facts.tls && whens.iter().any(|when| !when.server_name.is_empty()) => {
            Truth::Unknown("`ssl_fc_sni` is of TLS that is ended here; write `req.ssl_sni`".to_owned())
        }
        Test::Certificate => facts
            .certificate
            .map_or_else(|| Truth::Unknown("whether there is a client certificate".to_owned()), constant),
        Test::Like(whens) | Test::Hello(whens) => {
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
        Test::Rate(_) => {
            beyond.map_or_else(|| Truth::Unknown("a rate limits, and decides nothing else".to_owned()), constant)
        }
        Test::Requests | Test::BodyOver(_) | Test::User(_) | Test::Hosts(_) | Test::Paths(_) => {
            Truth::Unknown("there are no requests where bytes are forwarded".to_owned())
        }
        Test::Said(_) => Truth::Unknown(UNBELIEVED.to_owned()),
        Test::Unknown(why) => Truth::Unknown(why.clone()),
    })
}

/// Whether a rule is one about these addresses alone: for them, or (true) for all others.
fn by_address(rule: &Rule, when: &When, facts: Facts) -> Option<bool> {
    let case = |holds: bool| {
        assumed(rule, facts, Some(false), &|other| match other == when {
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
