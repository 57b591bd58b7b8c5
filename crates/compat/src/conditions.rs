//! What a request must be like, as `when` and `methods` of a route; and how routes that are tried in an order are made ones of which the most exact counts.

use config::{ValueCondition, ValueMatch, ValueOf};
use ipnet::IpNet;

use super::native::{Map, Value};

/// What a value may be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(dead_code, reason = "not every importer has all of them")]
pub(crate) enum Match {
    Exact(String),
    Prefix(String),
    /// A native expression, over the whole value.
    Regex(String),
    Present,
    Absent,
}

/// Which values are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Header,
    Query,
    Cookie,
}

impl Of {
    fn native(self) -> ValueOf {
        match self {
            Of::Header => ValueOf::Header,
            Of::Query => ValueOf::Query,
            Of::Cookie => ValueOf::Cookie,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Of::Header => "header",
            Of::Query => "query",
            Of::Cookie => "cookie",
        }
    }
}

/// A condition on a value: one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) of: Of,
    pub(crate) name: String,
    pub(crate) any: Vec<Match>,
}

/// All that must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct When {
    /// Empty for any.
    pub(crate) methods: Vec<String>,
    pub(crate) values: Vec<Condition>,
    /// Empty for any.
    pub(crate) client: Vec<IpNet>,
    /// Server names of the handshake; empty for any.
    pub(crate) server_name: Vec<String>,
    /// How many conditions that always hold stand beside, to put it before others.
    weight: usize,
}

/// How exact conditions are: larger goes first.
type Rank = (usize, u64, bool);

/// The name of a cookie that may be there or not.
const ANY: &str = "any";

impl When {
    /// One value.
    pub(crate) fn value(of: Of, name: &str, wanted: Match) -> When {
        let name = if of == Of::Header { name.to_ascii_lowercase() } else { name.to_owned() };
        When { values: vec![Condition { of, name, any: vec![wanted] }], ..When::default() }
    }

    /// One value that is one of these.
    pub(crate) fn value_of(of: Of, name: &str, any: Vec<Match>) -> When {
        let mut when = When::value(of, name, Match::Present);
        when.values.iter_mut().for_each(|condition| condition.any = any.clone());
        when
    }

    /// These methods.
    pub(crate) fn methods(methods: &[&str]) -> When {
        When { methods: methods.iter().map(|method| (*method).to_owned()).collect(), ..When::default() }
    }

    /// Methods in a list.
    pub(crate) fn of_methods(methods: Vec<String>) -> When {
        When { methods, ..When::default() }
    }

    /// Clients in a network.
    pub(crate) fn of_client(network: IpNet) -> When {
        When { client: vec![network], ..When::default() }
    }

    /// Clients in one of these networks.
    pub(crate) fn of_clients(client: Vec<IpNet>) -> When {
        When { client, ..When::default() }
    }

    /// One of these server names in the handshake.
    pub(crate) fn of_server_names(server_name: Vec<String>) -> When {
        When { server_name, ..When::default() }
    }

    /// Names of the header fields that it is about.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.values.iter().filter_map(|condition| match condition.of {
            Of::Header => Some(condition.name.as_str()),
            Of::Cookie => Some("cookie"),
            _ => None,
        })
    }

    /// Whether it holds, as far as a field is concerned, of requests without that: none if it is about other things beside.
    pub(crate) fn asks_for_none(&self, field: &str) -> Option<bool> {
        let is_alone = self.methods.is_empty() && self.client.is_empty() && self.server_name.is_empty();
        match self.values.as_slice() {
            [one] if is_alone && one.of == Of::Header && one.name == field => Some(one.any.contains(&Match::Absent)),
            _ => None,
        }
    }

    /// Whether it is about the client's address alone.
    pub(crate) fn is_of_clients(&self) -> bool {
        !self.client.is_empty() && self.methods.is_empty() && self.values.is_empty() && self.server_name.is_empty()
    }

    /// Both. None if no request is so; an error if it cannot be said.
    pub(crate) fn and(&self, other: &When) -> Result<Option<When>, ()> {
        let mut out = self.clone();
        if out.methods.is_empty() {
            out.methods = other.methods.clone();
        } else if !other.methods.is_empty() {
            out.methods.retain(|method| other.methods.contains(method));
            if out.methods.is_empty() {
                return Ok(None);
            }
        }
        for condition in &other.values {
            let same = |own: &&mut Condition| own.of == condition.of && own.name == condition.name;
            match out.values.iter_mut().find(same) {
                None => out.values.push(condition.clone()),
                Some(own) if own.any == condition.any => {}
                Some(own) => match narrower(own, condition)? {
                    Some(any) => own.any = any,
                    None => return Ok(None),
                },
            }
        }
        let clients = |ones: &[IpNet], others: &[IpNet]| -> Vec<IpNet> {
            let both = ones.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
            both.filter_map(|(one, other)| match (one.contains(other), other.contains(one)) {
                (true, _) => Some(*other),
                (_, true) => Some(*one),
                _ => None,
            })
            .collect()
        };
        match (out.client.is_empty(), other.client.is_empty()) {
            (_, true) => {}
            (true, false) => out.client = other.client.clone(),
            (false, false) => {
                out.client = clients(&out.client, &other.client);
                if out.client.is_empty() {
                    return Ok(None);
                }
            }
        }
        match (out.server_name.is_empty(), other.server_name.is_empty()) {
            (_, true) => {}
            (true, false) => out.server_name = other.server_name.clone(),
            (false, false) => {
                out.server_name = common_names(&out.server_name, &other.server_name);
                if out.server_name.is_empty() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(out))
    }

    /// Whether no request suits both, as far as is seen without looking closer.
    fn excludes(&self, other: &When) -> bool {
        let apart = |ones: &[String], others: &[String]| {
            !ones.is_empty() && !others.is_empty() && !ones.iter().any(|one| others.contains(one))
        };
        // GET brings HEAD with it.
        let methods = |methods: &[String]| {
            let head = methods.iter().any(|method| method == "GET").then(|| "HEAD".to_owned());
            methods.iter().cloned().chain(head).collect::<Vec<_>>()
        };
        apart(&methods(&self.methods), &methods(&other.methods))
            || self.values.iter().any(|own| {
                let same = |theirs: &&Condition| (theirs.of, &theirs.name) == (own.of, &own.name);
                other.values.iter().filter(same).any(|theirs| narrower(own, theirs) == Ok(None))
            })
    }

    /// How exact a route takes it to be, by the route's own order; then whether it names methods.
    fn rank(&self) -> Rank {
        let of_match = |wanted: &Match| match wanted {
            Match::Exact(text) => ValueMatch::Exact(text.clone()),
            Match::Prefix(text) => ValueMatch::Prefix(text.clone()),
            // All expressions are alike in it.
            Match::Regex(_) => config::Expression::new(".*").map_or(ValueMatch::Present, ValueMatch::Regex),
            Match::Present => ValueMatch::Present,
            Match::Absent => ValueMatch::Absent,
        };
        let of_value = |condition: &Condition| ValueCondition {
            of: condition.of.native(),
            name: condition.name.clone(),
            any: condition.any.iter().map(of_match).collect(),
        };
        let mut all: Vec<config::Condition> = self.values.iter().map(of_value).map(config::Condition::Value).collect();
        if !self.client.is_empty() {
            all.push(config::Condition::Client(self.client.clone()));
        }
        if !self.server_name.is_empty() {
            let names = self.server_name.iter().map(|name| config::HostPattern::of_text(name));
            all.push(config::Condition::ServerName(names.collect()));
        }
        let (count, exactness) = config::Conditions(all).exactness();
        (count + self.weight, exactness, !self.methods.is_empty())
    }

    /// Puts it into a route.
    pub(crate) fn write(&self, route: &mut Map) {
        if !self.methods.is_empty() {
            route.set("methods", Value::texts(self.methods.iter().cloned()));
        }
        let mut when = Map::default();
        for of in [Of::Header, Of::Query, Of::Cookie] {
            for condition in self.values.iter().filter(|condition| condition.of == of) {
                when.update(of.key(), |map| map.set(&condition.name, matches(&condition.any)));
            }
        }
        for number in 0..self.weight {
            let name = if number == 0 { ANY.to_owned() } else { format!("{ANY}-{number}") };
            when.update("cookie", |map| map.set(&name, matches(&[Match::Present, Match::Absent])));
        }
        if !self.client.is_empty() {
            when.set("client", Value::texts(self.client.iter().map(ToString::to_string)));
        }
        if !self.server_name.is_empty() {
            when.set("server_name", Value::texts(self.server_name.iter().cloned()));
        }
        if !when.is_empty() {
            route.set("when", when);
        }
    }

    /// Whether it was put before others by a condition that always holds.
    pub(crate) fn is_weighted(&self) -> bool {
        self.weight > 0
    }
}

/// Whether a text is a method that may be routed.
pub(crate) fn is_method(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        && !matches!(text, "CONNECT" | "TRACE" | "ALL" | "ANY")
}

/// Whether every host of a pattern is one of a wildcard or name.
pub(crate) fn is_in(host: &str, pattern: &str) -> bool {
    match pattern.strip_prefix("*.") {
        None => host == pattern,
        Some(parent) => {
            let own = host.strip_prefix("*.").unwrap_or(host);
            own.strip_suffix(parent).is_some_and(|labels| labels.ends_with('.')) || host == pattern
        }
    }
}

/// The names that both lists have, of which each may be `*.` and what stands behind.
fn common_names(ones: &[String], others: &[String]) -> Vec<String> {
    let both = ones.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
    let mut out: Vec<String> = Vec::new();
    for (one, other) in both {
        let narrower = if is_in(one, other) { Some(one) } else { Some(other).filter(|other| is_in(other, one)) };
        out.extend(narrower.filter(|name| !out.contains(name)).cloned());
    }
    out
}

/// What both conditions on one value take. None if nothing; an error if that cannot be said. A request may have several values of one name, of which each
/// condition takes another.
fn narrower(one: &Condition, other: &Condition) -> Result<Option<Vec<Match>>, ()> {
    let ([first], [second]) = (one.any.as_slice(), other.any.as_slice()) else { return Err(()) };
    Ok(match (first, second) {
        (one, other) if one == other => Some(vec![one.clone()]),
        (Match::Absent, _) | (_, Match::Absent) => None,
        (Match::Present, other) | (other, Match::Present) => Some(vec![other.clone()]),
        (Match::Exact(text), Match::Prefix(start)) | (Match::Prefix(start), Match::Exact(text))
            if text.starts_with(start.as_str()) =>
        {
            Some(vec![Match::Exact(text.clone())])
        }
        (Match::Exact(text), Match::Regex(regex)) | (Match::Regex(regex), Match::Exact(text)) => {
            let expression = config::Expression::new(regex).map_err(|_| ())?;
            Some(vec![Match::Exact(text.clone())]).filter(|_| expression.matches(text.as_bytes())).ok_or(())?.into()
        }
        _ => return Err(()),
    })
}

fn matches(any: &[Match]) -> Value {
    let one = |wanted: &Match| match wanted {
        Match::Exact(text) => Value::text(text.clone()),
        Match::Prefix(text) => Map::of([("prefix", Value::text(text.clone()))]).into(),
        Match::Regex(text) => Map::of([("regex", Value::text(text.clone()))]).into(),
        Match::Present => Map::of([("present", Value::plain(true))]).into(),
        Match::Absent => Map::of([("present", Value::plain(false))]).into(),
    };
    match any {
        [single] => one(single),
        several => Value::List(several.iter().map(one).collect()),
    }
}

/// Makes each of these, of which the first that holds counts, more exact than those behind it that may hold at the same time.
pub(crate) fn weigh(ordered: &mut [&mut When]) {
    for at in (0..ordered.len()).rev() {
        let (before, behind) = ordered.split_at_mut(at + 1);
        let Some(own) = before.last_mut() else { continue };
        let behind = behind.iter().filter(|other| !own.excludes(other)).map(|other| other.rank());
        let Some(most) = behind.max() else { continue };
        let (count, exactness, has_methods) = own.rank();
        own.weight +=
            (most.0 + 1).saturating_sub(count).saturating_sub(usize::from((most.1, most.2) < (exactness, has_methods)));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn header(name: &str, wanted: Match) -> When {
        When::value(Of::Header, name, wanted)
    }

    fn text(when: &When) -> String {
        let mut map = Map::default();
        when.write(&mut map);
        map.write()
    }

    #[test]
    fn the_first_goes_before_all_behind_it() {
        let mut first = When::methods(&["POST"]);
        let mut second = header("X-A", Match::Regex("a.*".to_owned()));
        let mut third = header("x-b", Match::Exact("1".to_owned()));
        let mut last = When::default();
        weigh(&mut [&mut first, &mut second, &mut third, &mut last]);
        assert!(first.rank() > second.rank() && second.rank() > third.rank() && third.rank() > last.rank());
        assert!(!third.is_weighted() && second.is_weighted() && first.is_weighted());
        assert_eq!(text(&third), "when:\n  header: { x-b: \"1\" }\n");
        assert!(text(&second).contains("cookie: { any: [{ present: true }, { present: false }] }"));
        // What excludes each other needs no order; two values of one name do not.
        let (mut one, mut other) = (header("x", Match::Absent), header("x", Match::Exact("2".into())));
        weigh(&mut [&mut one, &mut other]);
        assert!(!one.is_weighted());
        let (mut one, mut other) = (header("x", Match::Exact("1".into())), header("x", Match::Exact("2".into())));
        weigh(&mut [&mut one, &mut other]);
        assert!(one.is_weighted());
    }

    #[test]
    fn ranks_are_those_of_routes() {
        let network = |text: &str| When::of_client(text.parse().unwrap());
        let names = |text: &str| When::of_server_names(vec![text.to_owned()]);
        // Each is put before the one behind it, which a route would prefer.
        for (first, second) in [
            (header("x", Match::Regex(".*a.*".to_owned())), network("127.0.0.0/8")),
            (header("x", Match::Prefix("a".to_owned())), header("y", Match::Prefix("ab".to_owned()))),
            (network("10.0.0.0/8"), network("10.1.0.0/16")),
            (names("*.a.test"), names("b.test")),
            (When::methods(&["POST"]), names("*.a.test")),
            (header("x", Match::Exact("1".to_owned())), names("a.test")),
        ] {
            let (mut first, mut second) = (first, second);
            weigh(&mut [&mut first, &mut second]);
            assert!(first.rank() > second.rank(), "{first:?} {second:?}");
            assert!(!second.is_weighted());
        }
        let (mut first, mut second) = (network("10.1.0.0/16"), header("x", Match::Regex(".*a.*".to_owned())));
        weigh(&mut [&mut first, &mut second]);
        assert!(!first.is_weighted(), "it goes first by itself");
    }

    #[test]
    fn both_of_two() {
        let get = When::methods(&["GET", "HEAD"]);
        let a = header("a", Match::Exact("1".to_owned()));
        assert_eq!(get.and(&When::methods(&["POST"])), Ok(None));
        assert_eq!(text(&get.and(&a).unwrap().unwrap()), "methods: [GET, HEAD]\nwhen:\n  header: { a: \"1\" }\n");
        assert_eq!(a.and(&header("a", Match::Absent)), Ok(None));
        // One of two values may be each.
        assert_eq!(a.and(&header("a", Match::Prefix("2".to_owned()))), Err(()));
        assert_eq!(a.and(&header("a", Match::Exact("2".to_owned()))), Err(()));
        assert_eq!(a.and(&header("a", Match::Regex("2".to_owned()))), Err(()));
        let names = |text: &str| When::of_server_names(text.split(' ').map(str::to_owned).collect());
        assert_eq!(names("*.a.test b.test").and(&names("x.a.test c.test")), Ok(Some(names("x.a.test"))));
        assert_eq!(names("a.test").and(&names("*.a.test")), Ok(None));
        assert_eq!(a.and(&header("a", Match::Present)), Ok(Some(a.clone())));
        let regex = |text: &str| header("a", Match::Regex(text.to_owned()));
        assert_eq!(regex("x").and(&regex("y")), Err(()));
        let client = |text: &str| When { client: vec![text.parse().unwrap()], ..When::default() };
        assert_eq!(client("10.0.0.0/8").and(&client("10.1.0.0/16")), Ok(Some(client("10.1.0.0/16"))));
        assert_eq!(client("10.0.0.0/8").and(&client("192.0.2.0/24")), Ok(None));
    }
}
