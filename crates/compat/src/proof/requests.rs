//! Requests that a configuration's rules are about: each host, path, field, cookie, argument, method and client that it names, and what is next to them.
//!
//! Kinds of requests take turns until there are enough, so that a long list of one kind leaves room for the others. No chance is in it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::hints::{About, Hint, Part, Scope};
use super::{Staged, USER};

/// Longest value and path that is sent, bytes.
const LONGEST: usize = 4_096;
/// Most requests that one kind makes before they take turns.
const MOST_OF_KIND: usize = 5_000;
/// Most paths that a condition is tried on where it is not known which it is about.
const MOST_PATHS: usize = 12;
/// Methods that are always tried.
const METHODS: [&str; 7] = ["POST", "DELETE", "OPTIONS", "TRACE", "HEAD", "PUT", "PATCH"];
/// A host that no configuration names.
const UNKNOWN_HOST: &str = "unknown.test";
/// What makes the service say no; a name and a value.
pub const DENIED: (&str, &str) = ("X-Proof-Deny", "1");

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Request {
    /// Which listener it goes to.
    pub listener: usize,
    /// Host, as it is sent.
    pub host: String,
    /// Method.
    pub method: String,
    /// Target, as it is sent.
    pub target: String,
    /// Further fields.
    pub fields: Vec<(String, String)>,
    /// From which address, if that matters.
    pub client: Option<Ipv4Addr>,
    /// Where that stands which it was made of: file and line.
    pub place: String,
}

impl Request {
    fn of(at: (usize, &str), target: &str, place: &str) -> Request {
        let (listener, host) = at;
        let (method, target) = ("GET".to_owned(), target.to_owned());
        Request { listener, host: host.to_owned(), method, target, place: place.to_owned(), ..Request::default() }
    }

    fn with(mut self, name: &str, value: &str) -> Request {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether it can be sent as it is meant.
    fn is_sendable(&self) -> bool {
        let is_token = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&b))
        };
        let is_value = |text: &str| text.len() <= LONGEST && !text.bytes().any(|b| b < b' ' || b == 0x7f);
        let is_target =
            |text: &str| text.len() <= LONGEST && text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic());
        is_token(&self.method)
            && is_target(&self.target)
            && is_value(&self.host)
            && self.fields.iter().all(|(name, value)| is_token(name) && is_value(value))
    }
}

/// Makes them, at most so many.
pub(super) fn requests(staged: &Staged, most: usize) -> Vec<Request> {
    let mut kinds: Vec<std::vec::IntoIter<Request>> = Vec::new();
    for scope in &staged.scopes {
        let made = Making { scope, staged, sites: sites(scope), paths: paths(scope) };
        let of_kinds = [
            made.paths(),
            made.values(),
            made.methods(),
            made.neighbours(),
            made.clients(),
            made.together(),
            made.forged(),
            made.hosts(),
        ];
        kinds.extend(of_kinds.map(Vec::into_iter));
    }
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    while !kinds.is_empty() && out.len() < most {
        kinds.retain_mut(|kind| {
            let is_new = |request: &Request| {
                let key = Request { place: String::new(), ..request.clone() };
                request.is_sendable() && seen.insert(key)
            };
            match kind.find(is_new) {
                Some(request) if out.len() < most => {
                    out.push(request);
                    true
                }
                _ => false,
            }
        });
    }
    out
}

/// Listeners with the hosts that are asked there, the known ones first.
fn sites(scope: &Scope) -> Vec<(usize, String, String)> {
    let named = scope
        .hosts
        .iter()
        .map(|(host, place)| (host.clone(), place.as_ref().map_or(String::new(), ToString::to_string)));
    let mut hosts: Vec<(String, String)> = named.collect();
    for hint in &scope.hints {
        if let About::Host(host) = &hint.about {
            hosts.push((host.clone(), hint.place.to_string()));
        }
    }
    hosts.push((UNKNOWN_HOST.to_owned(), hosts.first().map_or(String::new(), |(_, place)| place.clone())));
    let mut seen = BTreeSet::new();
    hosts.retain(|(host, _)| seen.insert(host.clone()));
    let of_listener = |listener: &usize| {
        let listener = *listener;
        hosts.iter().map(move |(host, place)| (listener, host.clone(), place.clone())).collect::<Vec<_>>()
    };
    scope.listeners.iter().flat_map(of_listener).collect()
}

/// Targets that are named, each with its place.
fn paths(scope: &Scope) -> Vec<(String, String)> {
    let named = scope.hints.iter().filter_map(|hint| {
        let target = match &hint.about {
            About::Path(path) => encoded(path),
            About::Target(target) => target.clone(),
            _ => return None,
        };
        Some((if target.starts_with('/') { target } else { format!("/{target}") }, hint.place.to_string()))
    });
    let mut all: Vec<(String, String)> = named.collect();
    let place = all.first().map(|(_, place)| place.clone());
    let place = place.or_else(|| scope.hints.first().map(|hint| hint.place.to_string()));
    let place = place.or_else(|| scope.hosts.iter().find_map(|(_, place)| place.as_ref().map(ToString::to_string)));
    let at = all.iter().position(|(path, _)| path == "/").unwrap_or(0);
    all.insert(
        at,
        (
            "/".to_owned(),
            all.get(at).filter(|(path, _)| path == "/").map_or(place.unwrap_or_default(), |(_, place)| place.clone()),
        ),
    );
    all.push(("/proof/x".to_owned(), all.first().map_or(String::new(), |(_, place)| place.clone())));
    let mut seen = BTreeSet::new();
    all.retain(|(path, _)| seen.insert(path.clone()));
    all
}

/// A path as it is sent.
fn encoded(path: &str) -> String {
    let one = |byte: u8| match byte {
        b'%' | b'?' | b'#' | b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
            format!("%{byte:02X}")
        }
        byte if byte.is_ascii_graphic() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    path.bytes().map(one).collect()
}

/// What is next to a path, and to a query.
fn neighbours(target: &str) -> Vec<String> {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut out = Vec::new();
    let twin = path.strip_suffix('/').filter(|path| !path.is_empty()).map_or(format!("{path}/"), str::to_owned);
    out.push(twin);
    let swapped: String = path
        .chars()
        .map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        .collect();
    out.push(swapped);
    // Each kind of character once: a letter, what is reserved, and what ends a segment.
    let letters = path.char_indices().find(|(_, c)| c.is_ascii_alphanumeric());
    let others = path.char_indices().filter(|(at, c)| *at > 0 && c.is_ascii_punctuation() && *c != '%');
    for (at, c) in letters.into_iter().chain(others).take(4) {
        let (before, after) = (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default());
        out.push(format!("{before}%{:02X}{after}", c as u32));
        out.push(format!("{before}%{:02x}{after}", c as u32));
    }
    let slash = if path.ends_with('/') { "" } else { "/" };
    out.extend([
        format!("{path}{slash}x"),
        format!("{path}x"),
        format!("/.{path}"),
        format!("/x/..{path}"),
        format!("/{path}"),
    ]);
    out.extend([format!("{path}{slash}..%2fx"), format!("{path};x"), format!("{path}%00"), format!("{path}{slash}.")]);
    let rest = path.get(1..).unwrap_or_default();
    if let Some((first, behind)) = rest.split_once('/').filter(|(_, behind)| !behind.is_empty()) {
        out.extend([format!("/{first}//{behind}"), format!("/{first}/./{behind}"), format!("/{first}%2F{behind}")]);
    }
    if path.len() > 2 {
        out.push(path.get(..path.len() - 1).unwrap_or("/").to_owned());
    }
    match query {
        None => out.extend([format!("{path}?x=1"), format!("{path}?")]),
        Some(query) => out.extend([path.to_owned(), format!("{path}?{query}&x=1"), format!("{path}?x=1&{query}")]),
    }
    out
}

/// Values next to one.
fn near(value: &str) -> Vec<String> {
    let mut out = vec![value.to_owned(), format!("{value}x"), format!("x{value}"), String::new(), "other".to_owned()];
    let lower = value.to_ascii_lowercase();
    out.push(if lower == value { value.to_ascii_uppercase() } else { lower });
    out.extend([format!("other, {value}"), format!("{value}, other"), format!("{value}:x"), format!("{value},other")]);
    if let Ok(number) = value.parse::<i64>() {
        out.extend([number.saturating_add(1), number.saturating_sub(1), -1].map(|near| near.to_string()));
    }
    let mut seen = BTreeSet::new();
    out.retain(|value| seen.insert(value.clone()));
    out
}

struct Making<'s> {
    scope: &'s Scope,
    staged: &'s Staged,
    sites: Vec<(usize, String, String)>,
    paths: Vec<(String, String)>,
}

impl Making<'_> {
    /// Each path at each host.
    fn paths(&self) -> Vec<Request> {
        self.each(|at, (path, place), _| vec![Request::of(at, path, place)])
    }

    fn neighbours(&self) -> Vec<Request> {
        self.each(|at, (path, place), _| neighbours(path).iter().map(|target| Request::of(at, target, place)).collect())
    }

    fn methods(&self) -> Vec<Request> {
        let mut methods: Vec<(String, Option<&Hint>)> = Vec::new();
        for hint in &self.scope.hints {
            if let About::Method(method) = &hint.about {
                methods.extend(
                    [method.clone(), format!("{method}X"), method.to_ascii_lowercase()]
                        .map(|method| (method, Some(hint))),
                );
            }
        }
        methods.extend(METHODS.map(|method| (method.to_owned(), None)));
        self.each(|at, (path, place), _| {
            let one = |(method, hint): &(String, Option<&Hint>)| {
                let place = hint.map_or_else(|| place.clone(), |hint| hint.place.to_string());
                Request { method: method.clone(), ..Request::of(at, path, &place) }
            };
            methods.iter().map(one).collect()
        })
    }

    /// What is made of each path at each site; bounded.
    fn each(&self, make: impl Fn((usize, &str), &(String, String), &str) -> Vec<Request>) -> Vec<Request> {
        let mut out = Vec::new();
        for (listener, host, place) in &self.sites {
            for path in &self.paths {
                out.extend(make((*listener, host), path, place));
                if out.len() > MOST_OF_KIND {
                    return out;
                }
            }
        }
        out
    }

    /// The targets that a hint is tried on.
    fn targets(&self, hint: &Hint) -> Vec<String> {
        match &hint.below {
            Some(path) => vec![encoded(path)],
            None => self.paths.iter().map(|(path, _)| path.clone()).take(MOST_PATHS).collect(),
        }
    }

    /// Fields, cookies and arguments that are named, with values that are and that are not, alone, twice and joined.
    fn values(&self) -> Vec<Request> {
        let mut out = Vec::new();
        for (listener, host, _) in &self.sites {
            for hint in &self.scope.hints {
                let About::Value(part, name, values) = &hint.about else { continue };
                for target in self.targets(hint) {
                    let base = Request::of((*listener, host), &target, &hint.place.to_string());
                    let one = String::from("1");
                    for value in values.iter().chain(values.is_empty().then_some(&one)) {
                        out.extend(valued(&base, *part, name, value));
                        if out.len() > MOST_OF_KIND {
                            return out;
                        }
                    }
                }
                if out.len() > MOST_OF_KIND {
                    return out;
                }
            }
        }
        out
    }

    /// Conditions that hold at once: all of them, and each two.
    fn together(&self) -> Vec<Request> {
        let mut out = Vec::new();
        let values: Vec<(&Hint, Part, &str, &str)> = self
            .scope
            .hints
            .iter()
            .filter_map(|hint| match &hint.about {
                About::Value(part, name, values) => {
                    Some((hint, *part, name.as_str(), values.first().map_or("1", String::as_str)))
                }
                _ => None,
            })
            .collect();
        let methods = self.scope.hints.iter().filter_map(|hint| match &hint.about {
            About::Method(method) => Some(method.as_str()),
            _ => None,
        });
        let methods: BTreeSet<&str> = methods.chain(["POST"]).collect();
        for (listener, host, _) in &self.sites {
            for (at, (hint, part, name, value)) in values.iter().enumerate() {
                for target in self.targets(hint) {
                    let base = Request::of((*listener, host), &target, &hint.place.to_string());
                    let alone = with_value(base, *part, name, value);
                    out.extend(methods.iter().map(|method| Request { method: (*method).to_owned(), ..alone.clone() }));
                    let others = values.iter().skip(at + 1).take(MOST_PATHS);
                    out.extend(others.map(|(_, part, name, value)| with_value(alone.clone(), *part, name, value)));
                }
                if out.len() > MOST_OF_KIND {
                    return out;
                }
            }
        }
        out
    }

    fn clients(&self) -> Vec<Request> {
        let mut out = Vec::new();
        for (listener, host, _) in &self.sites {
            for hint in &self.scope.hints {
                let About::Client(address) = &hint.about else { continue };
                for target in self.targets(hint) {
                    let request = Request::of((*listener, host), &target, &hint.place.to_string());
                    out.push(Request { client: Some(*address), ..request });
                }
                if out.len() > MOST_OF_KIND {
                    return out;
                }
            }
        }
        out
    }

    /// What clients say of themselves: names and passwords, what a service denies, fields that the configuration sets or that say who the client is.
    fn forged(&self) -> Vec<Request> {
        let usual = [
            "X-Forwarded-For",
            "X-Real-IP",
            "Forwarded",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "X-Original-URL",
            "X-Remote-User",
        ];
        let set = self.staged.set_fields.iter().map(String::as_str);
        let names: Vec<&str> = set
            .filter(|name| !matches!(*name, "host" | "connection" | "content-length" | "upgrade" | "transfer-encoding"))
            .chain(usual)
            .collect();
        let users: Vec<(&str, &str)> = self
            .scope
            .hints
            .iter()
            .filter_map(|hint| match &hint.about {
                About::User(name, password) => Some((name.as_str(), password.as_str())),
                _ => None,
            })
            .chain([USER, ("proof", "wrong")])
            .collect();
        let asks = self.staged.asks_service;
        self.each(|at, (path, place), _| {
            let base = || Request::of(at, path, place);
            let mut out: Vec<Request> = Vec::new();
            if asks {
                let (name, value) = DENIED;
                out.extend([base().with(name, value), base().with("Cookie", &format!("{name}={value}"))]);
                out.push(base().with("Authorization", &format!("Bearer {name}")));
            }
            out.extend(users.iter().map(|(name, password)| {
                base().with("Authorization", &format!("Basic {}", base64(format!("{name}:{password}").as_bytes())))
            }));
            // Names that some programs reject, drop or take for others.
            out.extend(["X.Y", "X_Y"].map(|name| base().with(name, "1")));
            out.extend(names.iter().map(|name| base().with(name, "127.0.0.9")));
            out
        })
    }

    /// Hosts as clients may write them.
    fn hosts(&self) -> Vec<Request> {
        let mut out = Vec::new();
        for (listener, host, place) in &self.sites {
            for host in [
                host.to_ascii_uppercase(),
                format!("{host}:8080"),
                format!("{host}."),
                format!("x.{host}"),
                format!("x{host}"),
                String::new(),
            ] {
                for (path, _) in self.paths.iter().take(MOST_PATHS) {
                    out.push(Request::of((*listener, &host), path, place));
                }
            }
        }
        out.truncate(MOST_OF_KIND);
        out
    }
}

/// A request with a value.
fn with_value(request: Request, part: Part, name: &str, value: &str) -> Request {
    match part {
        Part::Header => request.with(name, value),
        Part::Cookie => request.with("Cookie", &format!("{name}={value}")),
        Part::Argument => {
            let join = if request.target.contains('?') { '&' } else { '?' };
            let target = format!("{}{join}{name}={}", request.target, encoded(value).replace(['&', '+'], "%26"));
            Request { target, ..request }
        }
    }
}

/// A value as clients may send it.
fn valued(base: &Request, part: Part, name: &str, value: &str) -> Vec<Request> {
    let mut out: Vec<Request> = near(value).iter().map(|value| with_value(base.clone(), part, name, value)).collect();
    for (first, second) in [(value, "other"), ("other", value), (value, value)] {
        out.push(with_value(with_value(base.clone(), part, name, first), part, name, second));
    }
    match part {
        Part::Header => out.push(with_value(base.clone(), part, &name.replace('-', "_"), value)),
        Part::Cookie => {
            for line in [
                format!("{name}={value}; {name}=other"),
                format!("{name}=other; {name}={value}"),
                format!("x={name}={value}"),
            ] {
                out.push(base.clone().with("Cookie", &line));
            }
        }
        Part::Argument => {
            out.push(with_value(base.clone(), part, &name.to_ascii_uppercase(), value));
            let escaped =
                value.bytes().next().map(|first| format!("%{first:02X}{}", value.get(1..).unwrap_or_default()));
            let join = if base.target.contains('?') { '&' } else { '?' };
            let mut raw =
                |query: String| out.push(Request { target: format!("{}{join}{query}", base.target), ..base.clone() });
            escaped.into_iter().for_each(|value| raw(format!("{name}={value}")));
            raw(format!("x=1;{name}={}", encoded(value)));
            raw(name.to_owned());
        }
    }
    out
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0u32, |group, at| group << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = ALPHABET.get((group >> (18 - 6 * at) & 63) as usize).copied().unwrap_or(b'A');
            out.push(if at > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    out
}
