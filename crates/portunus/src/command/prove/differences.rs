//! What became of a request at the original and at the import, and what differs. Pure.

use std::collections::{BTreeMap, BTreeSet};

use compat::proof::Request;
use wire::http::field_kind::FieldKind;
use wire::http::target::canonical_path;

use super::client::Response;
use super::echo::{MARK, Seen, is_denied};

/// Fields that upstreams decide by, beside those that the request has and the configuration sets.
const COMPARED: [&str; 10] = [
    "host",
    "authorization",
    "cookie",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
    "x-forwarded-prefix",
];
/// Fields that differ by nature.
const BY_NATURE: [&str; 12] = [
    "via",
    "date",
    "server",
    "connection",
    "keep-alive",
    "content-length",
    "transfer-encoding",
    "te",
    "accept-encoding",
    "x-request-id",
    "traceparent",
    "upgrade",
];
/// Most findings that are kept.
const MOST_FINDINGS: usize = 1_000;

/// What became of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// 0 if the connection was closed without a response.
    pub(super) status: u16,
    pub(super) location: String,
    /// What the upstream saw whose response it is.
    pub(super) seen: Option<Seen>,
    /// All upstreams that saw something meanwhile.
    pub(super) upstreams: BTreeSet<String>,
}

impl Outcome {
    /// Of a response, and what upstreams saw meanwhile. The port of the listener, which is another one on each side, becomes a mark.
    pub(super) fn of(response: &Response, seen: Vec<Seen>, (host, port): (&str, u16)) -> Outcome {
        let plain = |text: &str| {
            let text = text.replace(&format!(":{port}"), ":@");
            if text == port.to_string() { "@".to_owned() } else { text }
        };
        let upstreams = seen.iter().map(|seen| seen.upstream.clone()).collect();
        let id: Option<usize> = response.field(MARK).and_then(|id| id.parse().ok());
        let seen = seen.into_iter().find(|seen| Some(seen.id) == id).map(|mut seen| {
            seen.fields.iter_mut().for_each(|(_, value)| *value = plain(value));
            Seen { id: 0, ..seen }
        });
        let location = plain(response.field("location").unwrap_or_default());
        // Some write the whole URL where others write the path.
        let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let whole = ["http", "https"].map(|scheme| format!("{scheme}://{host}:@"));
        let whole = whole.into_iter().chain([format!("http://{host}")]);
        let lower = location.to_ascii_lowercase();
        let rest = whole.filter_map(|start| lower.starts_with(&start).then(|| location.get(start.len()..)).flatten());
        let rest = rest.filter(|rest| rest.starts_with('/')).map(str::to_owned).next();
        Outcome { status: response.status, location: rest.unwrap_or(location), seen, upstreams }
    }

    /// Whether the request was kept out: nothing reached an upstream, and the client got nothing.
    fn is_rejected(&self) -> bool {
        self.seen.is_none() && (self.status == 0 || self.status >= 400)
    }

    fn shown(&self) -> String {
        match (&self.seen, self.status) {
            (Some(seen), _) => format!("forwards to {}", seen.upstream),
            (None, 0) => "closes the connection".to_owned(),
            (None, status @ 300..400) => format!("redirects with {status}"),
            (None, status @ 400..) => format!("rejects with {status}"),
            (None, status) => format!("responds with {status}"),
        }
    }
}

/// How much a difference matters; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// The original rejects what the import lets through.
    Opens,
    /// Another upstream, or none, gets the request.
    Upstream,
    /// The upstream sees another method, path or query.
    Path,
    /// The upstream sees other fields.
    Fields,
    /// The client gets another response.
    Response,
    /// The import rejects what the original lets through.
    Closes,
    /// Both reject, with another status.
    Status,
    /// What is so whatever a configuration says.
    Always,
}

impl Class {
    /// Whether it is worth a finding of its own.
    pub(super) fn is_found(self) -> bool {
        self < Class::Status
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Opens => "opens",
            Class::Upstream => "another upstream",
            Class::Path => "another path",
            Class::Fields => "other fields",
            Class::Response => "another response",
            Class::Closes => "closes",
            Class::Status => "another status",
            Class::Always => "by design",
        }
    }
}

/// What differs: how much that matters; what, the same for requests that differ alike; and what it is for this one.
pub(super) type Difference = (Class, String, String);

/// Compares. `set` are the names of fields that the configuration sets.
pub(super) fn difference(
    name: &str,
    request: &Request,
    set: &[String],
    theirs: &Outcome,
    ours: &Outcome,
) -> Option<Difference> {
    let both = || format!("{name} {}, the import {}", theirs.shown(), ours.shown());
    let alike = |class: Class| Some((class, both(), String::new()));
    if is_denied(&request.fields) {
        let more = ours.upstreams.difference(&theirs.upstreams).next();
        if let Some(more) = more.filter(|_| theirs.status >= 400 || theirs.status == 0) {
            return Some((Class::Opens, format!("{name} {}, the import asks {more}", theirs.shown()), String::new()));
        }
        match (theirs.status, ours.status) {
            (400.., 400..) => return None,
            // A page to sign in at, there, and what the service responds, here.
            (300..400, 400..) => return alike(Class::Response),
            _ => {}
        }
    }
    match (theirs.is_rejected(), ours.is_rejected()) {
        (true, true) if theirs.status == ours.status => None,
        (true, true) => alike(Class::Status),
        (true, false) if ours.seen.is_none() && (300..400).contains(&ours.status) => alike(Class::Response),
        (true, false) => alike(Class::Opens),
        (false, true) => {
            let what = match ours.status {
                400 if is_odd(request) => {
                    "paths with dot segments or escaped separators, empty hosts and the like are rejected with 400"
                }
                405 if request.method == "TRACE" => "TRACE is rejected with 405",
                _ => return alike(Class::Closes),
            };
            Some((Class::Always, what.to_owned(), String::new()))
        }
        (false, false) => passed(name, (request, set), theirs, ours),
    }
}

/// Whether a request is of a kind that is rejected whatever the configuration says.
fn is_odd(request: &Request) -> bool {
    let host = request.host.as_bytes();
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(byte);
    let mut names: Vec<String> = request.fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    let path = request.target.split('?').next().unwrap_or_default();
    let is_plain = path.starts_with('/') && !path.contains(['%', ';', '\\']) && !path.contains("//");
    !is_plain
        || canonical(&request.target).as_ref() != Some(&request.target)
        || host.is_empty()
        || !host.iter().all(is_host)
        || names.windows(2).any(|pair| pair.first() == pair.last())
        || request.method.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Compares what neither rejects.
fn passed(name: &str, (request, set): (&Request, &[String]), theirs: &Outcome, ours: &Outcome) -> Option<Difference> {
    let both = || format!("{name} {}, the import {}", theirs.shown(), ours.shown());
    let alike = |class: Class| Some((class, both(), String::new()));
    let (there, here) = match (&theirs.seen, &ours.seen) {
        (None, None) if theirs.status == ours.status && theirs.location == ours.location => return None,
        (None, None) if theirs.status == ours.status && is_same_place(&theirs.location, &ours.location) => {
            return Some(of_canonical_form());
        }
        (None, None) => {
            let text = if theirs.location == ours.location {
                String::new()
            } else {
                format!("{} -> {}", theirs.location, ours.location)
            };
            return Some((Class::Response, both(), text));
        }
        (Some(there), Some(here)) if there.upstream == here.upstream => (there, here),
        // A redirect elsewhere, to a page to sign in at or to TLS, keeps a request out of the upstream.
        (None, Some(_)) if (300..400).contains(&theirs.status) => return alike(Class::Opens),
        _ => return alike(Class::Upstream),
    };
    if (&there.method, &there.target) != (&here.method, &here.target) {
        if there.method == here.method && canonical(&there.target) == Some(here.target.clone()) {
            return Some(of_canonical_form());
        }
        let text = format!("{} {} -> {} {}", there.method, there.target, here.method, here.target);
        return Some((Class::Path, format!("{} gets another one", there.upstream), text));
    }
    if let Some(found) = other_fields(request, set, there, here) {
        return Some(found);
    }
    (theirs.status != ours.status).then(|| {
        (
            Class::Response,
            format!("{name} responds with {}, the import with {}", theirs.status, ours.status),
            String::new(),
        )
    })
}

/// Compares what an upstream sees of fields: those of the request, those that are set, and those that upstreams decide by.
fn other_fields(request: &Request, set: &[String], there: &Seen, here: &Seen) -> Option<Difference> {
    let sent = |name: &str| request.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    let of_request = request.fields.iter().map(|(name, _)| name.to_ascii_lowercase());
    let names: BTreeSet<String> =
        COMPARED.iter().map(|name| (*name).to_owned()).chain(set.iter().cloned()).chain(of_request).collect();
    let values = |seen: &Seen, name: &str| {
        let of = seen.fields.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone());
        of.collect::<Vec<_>>()
    };
    let is_other = |name: &&String| !BY_NATURE.contains(&name.as_str()) && values(there, name) != values(here, name);
    let (always, found): (Vec<&String>, Vec<&String>) = names.iter().filter(is_other).partition(|name| {
        let (theirs, ours) = (values(there, name), values(here, name));
        let is_of_proxies =
            matches!(FieldKind::of(name.as_bytes()), FieldKind::Forwarding | FieldKind::ClientCertificate)
                || name.contains('_');
        let is_removed = sent(name)
            .is_some_and(|(_, sent)| is_of_proxies && !ours.iter().any(|value| value.contains(sent.as_str())));
        // What may be written in two ways is the same.
        let is_host = |value: &[String]| value.concat().trim_end_matches('.').eq_ignore_ascii_case(&ours.concat());
        // A host has no case.
        let says_host = is_host(&theirs)
            && theirs.concat().to_ascii_lowercase().contains(request.host.to_ascii_lowercase().trim_end_matches('.'));
        is_removed
            || (says_host && !request.host.is_empty())
            || name.as_str() == "host" && theirs.concat().trim_end_matches('.').eq_ignore_ascii_case(&ours.concat())
    });
    let (class, differ) = if found.is_empty() { (Class::Always, always) } else { (Class::Fields, found) };
    let first = differ.first()?;
    if class == Class::Always {
        let what = match first.as_str() {
            _ if request.host.bytes().any(|byte| byte.is_ascii_uppercase()) || request.host.ends_with('.') => {
                "hosts are forwarded in lower case, without a dot at their end"
            }
            _ => "fields of a client that say who it is, or are written with `_` for `-`, are removed",
        };
        return Some((class, what.to_owned(), String::new()));
    }
    let all: Vec<&str> = differ.iter().map(|name| name.as_str()).collect();
    let text = format!("{first}: {:?} -> {:?}", values(there, first), values(here, first));
    Some((class, format!("{} sees other {}", there.upstream, all.join(", ")), text))
}

/// The same request for the canonical form of its path and host, if that is another one: what the import decides by.
pub(super) fn in_canonical_form(request: &Request) -> Option<Request> {
    let target = canonical(&request.target).unwrap_or_else(|| request.target.clone());
    let host = request.host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
    let is_other = target != request.target || host != request.host;
    is_other.then(|| Request { target, host, ..request.clone() })
}

/// Of a request that is treated as one for the canonical form of its path.
pub(super) fn of_canonical_form() -> Difference {
    (Class::Always, "paths and hosts are taken and forwarded in their canonical form".to_owned(), String::new())
}

/// A target in its canonical form, if it has one.
fn canonical(target: &str) -> Option<String> {
    let (path, query) = target.split_at_checked(target.find('?').unwrap_or(target.len()))?;
    let mut out = Vec::new();
    canonical_path(path.as_bytes(), &mut out).ok()?;
    Some(format!("{}{query}", String::from_utf8(out).ok()?))
}

/// Whether two URLs, or paths, are the same but for the case of their host, a dot at its end and the form of their path.
fn is_same_place(theirs: &str, ours: &str) -> bool {
    let parts = |url: &str| {
        let start = url.find("://").map_or(0, |at| at + "://".len());
        let end = url.get(start..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| start + at);
        let (before, path) = url.split_at_checked(end).unwrap_or((url, ""));
        (before.trim_end_matches('.').to_ascii_lowercase(), path.to_owned())
    };
    let ((of_theirs, there), (of_ours, here)) = (parts(theirs), parts(ours));
    of_theirs == of_ours && (there == here || canonical(&there) == Some(here))
}

/// Differences, those that are alike as one.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: BTreeMap<(Class, String, String), (usize, String)>,
    /// What was found of each class, requests.
    pub(super) counts: BTreeMap<Class, usize>,
}

impl Findings {
    pub(super) fn note(&mut self, request: &Request, (class, what, example): Difference) {
        *self.counts.entry(class).or_default() += 1;
        let place = if class == Class::Always { String::new() } else { request.place.clone() };
        let key = (class, place, what);
        if self.found.len() < MOST_FINDINGS || self.found.contains_key(&key) {
            let text = if example.is_empty() { shown(request) } else { format!("{}: {example}", shown(request)) };
            self.found.entry(key).or_insert_with(|| (0, text)).0 += 1;
        }
    }

    /// A line each, the worst first.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |((class, place, what), (count, example)): (&(Class, String, String), &(usize, String))| {
            let more = match count {
                1 => String::new(),
                2 => " (and 1 more request)".to_owned(),
                _ => format!(" (and {} more requests)", count - 1),
            };
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            format!("{}: {place}{what}: {example}{more}", class.name())
        };
        self.found.iter().filter(|((class, ..), _)| *class != Class::Status).map(line).collect()
    }
}

/// A request in a line.
fn shown(request: &Request) -> String {
    let mut text = format!("{} {}, Host: {}", request.method, request.target, request.host);
    request.fields.iter().for_each(|(name, value)| text.push_str(&format!(", {name}: {value}")));
    request.client.iter().for_each(|client| text.push_str(&format!(", from {client}")));
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn seen(upstream: &str, target: &str, fields: &[(&str, &str)]) -> Seen {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Seen { upstream: upstream.to_owned(), method: "GET".to_owned(), target: target.to_owned(), fields, id: 0 }
    }

    fn outcome(status: u16, seen: Option<Seen>) -> Outcome {
        let upstreams = seen.iter().map(|seen| seen.upstream.clone()).collect();
        Outcome { status, seen, upstreams, location: String::new() }
    }

    fn class(theirs: &Outcome, ours: &Outcome) -> Option<Class> {
        difference("nginx", &Request::default(), &[], theirs, ours).map(|(class, ..)| class)
    }

    #[test]
    fn what_differs_has_a_class() {
        let reached = |upstream, target| outcome(200, Some(seen(upstream, target, &[])));
        for (theirs, ours, expected) in [
            (outcome(403, None), outcome(403, None), None),
            (outcome(403, None), reached("a", "/"), Some(Class::Opens)),
            (outcome(0, None), outcome(200, None), Some(Class::Opens)),
            (outcome(503, None), reached("a", "/"), Some(Class::Opens)),
            // The server of the original could not be asked.
            (outcome(502, None), reached("a", "/"), Some(Class::Opens)),
            (outcome(403, None), outcome(301, None), Some(Class::Response)),
            (outcome(403, None), outcome(400, None), Some(Class::Status)),
            (reached("a", "/"), outcome(501, None), Some(Class::Closes)),
            (reached("a", "/"), outcome(400, None), Some(Class::Always)),
            (reached("a", "/%70"), reached("a", "/p"), Some(Class::Always)),
            (reached("a", "/%2541"), reached("a", "/A"), Some(Class::Path)),
            (reached("a", "/"), reached("b", "/"), Some(Class::Upstream)),
            (outcome(200, None), reached("b", "/"), Some(Class::Upstream)),
            (outcome(302, None), reached("b", "/"), Some(Class::Opens)),
            (reached("a", "/"), reached("a", "/x"), Some(Class::Path)),
            (reached("a", "/"), outcome(200, Some(seen("a", "/", &[("cookie", "x")]))), Some(Class::Fields)),
            (reached("a", "/"), outcome(200, Some(seen("a", "/", &[("via", "x")]))), None),
            (outcome(200, None), outcome(204, None), Some(Class::Response)),
        ] {
            assert_eq!(class(&theirs, &ours), expected, "{theirs:?} {ours:?}");
        }
    }

    /// The service that is asked says no, and so would the upstream: what counts is who was asked.
    #[test]
    fn an_upstream_that_is_asked_though_the_service_says_no_is_open() {
        let (name, value) = compat::proof::DENIED;
        let request = Request { fields: vec![(name.to_owned(), value.to_owned())], ..Request::default() };
        let denied = |upstreams: &[&str]| Outcome {
            status: 401,
            upstreams: upstreams.iter().map(|name| (*name).to_owned()).collect(),
            ..Outcome::default()
        };
        let found = |ours: &[&str]| {
            difference("nginx", &request, &[], &denied(&["auth"]), &denied(ours)).map(|(class, ..)| class)
        };
        assert_eq!(found(&["auth"]), None);
        assert_eq!(found(&["auth", "app"]), Some(Class::Opens));
        let page = Outcome { status: 302, ..denied(&["auth"]) };
        let ours = denied(&["auth"]);
        assert_eq!(difference("nginx", &request, &[], &page, &ours).map(|(class, ..)| class), Some(Class::Response));
    }

    #[test]
    fn the_worst_comes_first_and_what_is_alike_is_one() {
        let mut findings = Findings::default();
        let request =
            |target: &str| Request { target: target.to_owned(), place: "f:1".to_owned(), ..Request::default() };
        findings.note(&request("/a"), (Class::Closes, "x".to_owned(), String::new()));
        findings.note(&request("/b"), (Class::Opens, "y".to_owned(), String::new()));
        findings.note(&request("/c"), (Class::Opens, "y".to_owned(), String::new()));
        let lines = findings.lines();
        assert!(lines[0].starts_with("opens: f:1: y:  /b") && lines[0].ends_with("(and 1 more request)"), "{lines:?}");
        assert!(lines[1].starts_with("closes: f:1: x"), "{lines:?}");
    }

    #[test]
    fn redirects_of_two_ports_are_the_same() {
        let at = |location: &str, port| {
            let fields = vec![("location".to_owned(), location.to_owned())];
            Outcome::of(&Response { status: 301, fields }, vec![], ("A.test", port))
        };
        assert_eq!(at("http://a.test:81/x", 81), at("/x", 82));
        assert_eq!(at("http://a.test:81/x", 81), at("http://A.test:82/x", 82));
        assert_ne!(at("http://b.test/x", 81), at("/x", 82));
        for (theirs, ours, expected) in [
            ("https://A.test/%70", "https://a.test/p", true),
            ("https://a.test./p", "https://a.test/p", true),
            ("/%70?x", "/p?x", true),
            ("https://a.test/p", "https://b.test/p", false),
            ("https://a.test/p", "https://a.test/x", false),
            ("/p", "/p?x", false),
        ] {
            assert_eq!(is_same_place(theirs, ours), expected, "{theirs} {ours}");
        }
    }
}
