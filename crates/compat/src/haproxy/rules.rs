//! Rules of proxies in the order in which HAProxy asks them, with what each does.

use std::collections::BTreeMap;

use super::acl::{Acls, Condition, Reader, Test};
use super::sections::{Kind, Proxy};
use super::syntax::Line;
use crate::cells::{Language, canonical, canonical_start};
use crate::migration::Place;

/// Most entries of a map.
const MAX_ENTRIES: usize = 1_000;

/// An edit of a header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    Set,
    Add,
    Remove,
}

/// Which message is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    Request,
    /// What upstreams respond.
    Response,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// No further rule of its list is asked.
    Stop,
    /// The request ends with `deny`, `return`, `redirect` and the like; the words say how.
    Respond(Vec<String>),
    /// Who shows no password is asked for one, of this realm.
    Ask(Option<String>),
    Edit {
        message: Message,
        edit: Edit,
        field: String,
        value: String,
    },
    /// Another Host goes upstream.
    Host(String),
    /// A path that begins so is sent with this instead.
    Path {
        start: String,
        to: String,
    },
    /// A template takes the place of the path.
    WholePath(String),
    Track {
        slot: String,
        key: String,
        table: Option<String>,
    },
    Backend(String),
    Server(String),
    /// To the servers of this proxy.
    Forward(String),
    /// It is left out, and nothing else changes.
    LeftOut(String),
    /// It is left out, and nobody knows what would have come of it.
    Closed(String),
    /// Addresses of clients are those of a field from here on.
    Source,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) action: Action,
    pub(crate) condition: Condition,
    /// Rules of one list have the same.
    pub(crate) list: (usize, u8),
    pub(crate) place: Place,
    pub(crate) shown: String,
    /// By what name the table of the proxy is known.
    pub(crate) proxy: String,
}

/// The rules of a proxy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// About connections and requests, up to the choice of a backend.
    pub(crate) requests: Vec<Rule>,
    pub(crate) switching: Vec<Rule>,
    pub(crate) servers: Vec<Rule>,
    pub(crate) responses: Vec<Rule>,
}

/// The lists of a proxy, as numbers.
const CONNECTION: u8 = 0;
const CONTENT: u8 = 1;
const REQUEST: u8 = 2;
const REDIRECT: u8 = 3;
const SWITCH: u8 = 4;
const SERVER: u8 = 5;
const RESPONSE: u8 = 6;

/// Reads the rules of a proxy; `at` is its position.
pub(crate) fn rules(at: usize, proxy: &Proxy, reader: &mut Reader<'_>) -> Rules {
    let acls = Acls::of(proxy.lines.iter(), reader);
    let mut out = Rules::default();
    for line in proxy.lines.iter().filter(|line| !matches!(line.word(0), "acl" | "no")) {
        let Some((list, words)) = list_of(line) else { continue };
        if line.word(0) == "http-after-response" {
            let how = "it holds for responses of servers; redirects and others that are made here lack it";
            reader.comments.push(reader.report.differs(&line.place, &line.shown(), how));
        }
        let (head, condition) = line.parts();
        let head = head.get(words..).unwrap_or_default();
        let condition = acls.condition(condition, &line.place, reader);
        let rule = |action: Action, condition: Condition| Rule {
            action,
            condition,
            list: (at, list),
            place: line.place.clone(),
            shown: line.shown(),
            proxy: proxy.name.clone(),
        };
        let made: Vec<Rule> = match list {
            SWITCH => switched(head, &condition, reader).into_iter().map(|(action, on)| rule(action, on)).collect(),
            SERVER => vec![rule(Action::Server(head.first().cloned().unwrap_or_default()), condition)],
            REDIRECT => vec![rule(Action::Respond(with_first("redirect", head)), condition)],
            RESPONSE => vec![rule(response(head), condition)],
            CONNECTION | CONTENT => {
                connection(head).into_iter().map(|action| rule(action, condition.clone())).collect()
            }
            _ => request(head).into_iter().map(|action| rule(action, condition.clone())).collect(),
        };
        match list {
            SWITCH => out.switching.extend(made),
            SERVER => out.servers.extend(made),
            RESPONSE => out.responses.extend(made),
            _ => out.requests.extend(made),
        }
    }
    status_page(at, proxy, &mut out);
    if let Some(line) = proxy.one("default_backend").filter(|_| proxy.kind != Kind::Backend) {
        let action = Action::Backend(line.word(1).to_owned());
        out.switching.push(always(action, (at, SWITCH), line, proxy));
    }
    // Stable: within a list the order of the file.
    out.requests.sort_by_key(|rule| rule.list.1);
    out
}

fn always(action: Action, list: (usize, u8), line: &Line, proxy: &Proxy) -> Rule {
    Rule {
        action,
        condition: Condition::always(),
        list,
        place: line.place.clone(),
        shown: line.shown(),
        proxy: proxy.name.clone(),
    }
}

/// Paths that HAProxy itself responds to: `monitor-uri` and the page of statistics.
fn status_page(at: usize, proxy: &Proxy, out: &mut Rules) {
    if let Some(line) = proxy.one("monitor-uri").filter(|_| proxy.is_in_front()) {
        let words = [
            "return",
            "status",
            "200",
            "content-type",
            "text/html",
            "string",
            "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n",
        ];
        let action = Action::Respond(words.map(str::to_owned).to_vec());
        let mut rule = always(action, (at, 0), line, proxy);
        if let Some(path) = canonical(line.word(1)).filter(|path| path.starts_with('/')) {
            rule.condition = rule.condition.and(Test::Paths(vec![Language::Exact(path)]));
            out.requests.insert(0, rule);
        }
    }
    if let Some(line) = proxy.all("filter").find(|line| super::known::is_deciding(line.word(1))) {
        let why = "it may decide about requests, and is not there".to_owned();
        out.requests.insert(0, always(Action::Closed(why), (at, 0), line, proxy));
    }
    let is_on =
        |line: &&Line| line.word(0) == "stats" && matches!(line.word(1), "enable" | "uri" | "auth" | "realm" | "scope");
    if let Some(line) = proxy.lines.iter().find(is_on) {
        let uri = proxy.lines.iter().rev().find(|line| line.word(0) == "stats" && line.word(1) == "uri");
        let uri = uri.map_or("/haproxy", |line| line.word(2));
        let uri = uri.split('?').next().unwrap_or(uri);
        let Some(start) = canonical_start(uri).filter(|start| start.starts_with('/')) else { return };
        let why = "the page of statistics; see the admin socket and the dashboard".to_owned();
        let mut rule = always(Action::Closed(why), (at, REQUEST), line, proxy);
        rule.condition = rule.condition.and(Test::Paths(vec![Language::Prefix(start)]));
        out.requests.insert(0, rule);
    }
}

/// The list that a line belongs to, and how many words say so.
fn list_of(line: &Line) -> Option<(u8, usize)> {
    Some(match (line.word(0), line.word(1)) {
        ("tcp-request", "connection" | "session") => (CONNECTION, 2),
        ("tcp-request", "content") => (CONTENT, 2),
        ("http-request", _) => (REQUEST, 1),
        ("redirect", _) => (REDIRECT, 1),
        ("use_backend", _) => (SWITCH, 1),
        ("use-server", _) => (SERVER, 1),
        ("http-response" | "http-after-response", _) => (RESPONSE, 1),
        ("block" | "reqdeny" | "reqideny" | "reqtarpit" | "reqitarpit" | "reqallow" | "reqiallow" | "reqpass", _) => {
            (REQUEST, 0)
        }
        _ => return None,
    })
}

fn with_first(first: &str, rest: &[String]) -> Vec<String> {
    [first.to_owned()].into_iter().chain(rest.iter().cloned()).collect()
}

fn word(words: &[String], at: usize) -> &str {
    words.get(at).map_or("", String::as_str)
}

/// A rule about connections. None if it changes nothing here.
fn connection(words: &[String]) -> Option<Action> {
    Some(match word(words, 0) {
        "accept" => Action::Stop,
        "reject" | "silent-drop" | "drop" => Action::Respond(vec!["reject".to_owned()]),
        first if first.starts_with("track-sc") => track(words),
        // Which proxies are believed is read with the sockets.
        "expect-proxy"
        | "set-var"
        | "unset-var"
        | "capture"
        | "set-mark"
        | "set-tos"
        | "set-log-level"
        | "set-nice"
        | "expect-netscaler-cip" => return None,
        "set-src" => Action::Source,
        other => Action::Closed(format!("`{other}` is not understood")),
    })
}

fn track(words: &[String]) -> Action {
    let slot = word(words, 0).trim_start_matches("track-sc").to_owned();
    let table = words.iter().position(|word| word == "table").and_then(|at| words.get(at + 1).cloned());
    Action::Track { slot, key: word(words, 1).to_owned(), table }
}

/// A rule about requests. None if it changes nothing here.
fn request(words: &[String]) -> Option<Action> {
    let edit = |edit: Edit| {
        let field = word(words, 1).to_ascii_lowercase();
        let value = word(words, 2).to_owned();
        match field == "host" && edit != Edit::Remove {
            true => Action::Host(value),
            false => Action::Edit { message: Message::Request, edit, field, value },
        }
    };
    Some(match word(words, 0) {
        "allow" => Action::Stop,
        "deny" | "tarpit" | "reject" | "silent-drop" | "return" | "redirect" => Action::Respond(words.to_vec()),
        "block" => Action::Respond(vec!["deny".to_owned()]),
        "auth" => Action::Ask((word(words, 1) == "realm").then(|| word(words, 2).to_owned())),
        "set-header" => edit(Edit::Set),
        "add-header" => edit(Edit::Add),
        "del-header" if words.len() == 2 => edit(Edit::Remove),
        "set-path" | "set-uri" => set_path(word(words, 1)),
        "replace-path" | "replace-uri" => replaced(word(words, 1), word(words, 2)),
        "set-src" => Action::Source,
        first if first.starts_with("track-sc") => track(words),
        "capture"
        | "set-var"
        | "set-var-fmt"
        | "unset-var"
        | "set-log-level"
        | "set-nice"
        | "set-mark"
        | "set-tos"
        | "set-timeout"
        | "disable-l7-retry"
        | "wait-for-handshake"
        | "strict-mode"
        | "set-priority-class"
        | "set-priority-offset"
        | "early-hint"
        | "do-resolve" => return None,
        first if first.starts_with("sc-") || first == "wait-for-body" => return None,
        "normalize-uri" => return None,
        "set-method" | "set-query" | "set-pathq" | "replace-pathq" | "set-dst" | "set-dst-port" | "set-src-port"
        | "use-service" | "send-spoe-group" | "cache-use" | "set-bc-mark" | "set-fc-mark" => {
            let kind = word(words, 0);
            match kind {
                "cache-use" => Action::LeftOut("nothing is cached here".to_owned()),
                _ => Action::Closed(format!("`{kind}` has no counterpart")),
            }
        }
        "replace-header" | "replace-value" | "del-header" => {
            let field = word(words, 1).to_ascii_lowercase();
            match field == "host" {
                true => Action::Closed("the Host that goes on is made by an expression".to_owned()),
                false => Action::LeftOut("values of fields are not edited by expressions".to_owned()),
            }
        }
        "set-map" | "add-acl" | "del-acl" | "del-map" => Action::LeftOut("there are no maps to change".to_owned()),
        other => Action::Closed(format!("`{other}` is not understood")),
    })
}

/// A rule about responses.
fn response(words: &[String]) -> Action {
    let edit = |edit: Edit| Action::Edit {
        message: Message::Response,
        edit,
        field: word(words, 1).to_ascii_lowercase(),
        value: word(words, 2).to_owned(),
    };
    match word(words, 0) {
        "set-header" => edit(Edit::Set),
        "add-header" => edit(Edit::Add),
        "del-header" if words.len() == 2 => edit(Edit::Remove),
        "allow" => Action::Stop,
        _ => Action::LeftOut("of responses only fields are set, added and removed".to_owned()),
    }
}

/// `set-path` and `set-uri`: an expression that replaces the start of the path, or a whole one.
fn set_path(format: &str) -> Action {
    let inner = format.strip_prefix("%[path,regsub(").or_else(|| format.strip_prefix("%[path,regsub('"));
    if let Some(arguments) = inner.and_then(|inner| inner.strip_suffix(")]")) {
        let mut parts = arguments.split(',').map(|part| part.trim_matches(['\'', '"']));
        if let (Some(regex), Some(to)) = (parts.next(), parts.next())
            && parts.next().is_none_or(|flags| flags.is_empty())
            && let Some(start) = plain_start(regex)
            && regex.starts_with('^')
            && (to.is_empty() || canonical_start(to).as_deref() == Some(to))
        {
            return path(start, to);
        }
        return Action::Closed("a path is changed by this expression".to_owned());
    }
    if let Some(start) = format.strip_suffix("%[path]")
        && !start.contains(['%', '{', '}'])
    {
        return Action::WholePath(format!("{start}{{path}}"));
    }
    match format.contains(['%', '{', '}', '?']) || !format.starts_with('/') {
        true => Action::Closed("a path is made of this format".to_owned()),
        false => Action::WholePath(format.to_owned()),
    }
}

/// `replace-path` whose expression is a text and what follows it.
fn replaced(regex: &str, format: &str) -> Action {
    let closed = || Action::Closed("a path is changed by this expression".to_owned());
    let whole = regex.strip_suffix('$').unwrap_or(regex);
    for rest in ["(.*)", "(/.*)?", "(/.*)"] {
        let Some(text) = whole.strip_suffix(rest) else { continue };
        let Some(to) = format.strip_suffix("\\1").filter(|to| !to.contains(['\\', '%', '{', '}', '?'])) else {
            return closed();
        };
        let text = text.strip_prefix('^').unwrap_or(text);
        if text.is_empty() && rest == "(.*)" {
            return Action::WholePath(format!("{to}{{path}}"));
        }
        // The expression is found anywhere, and paths begin with a slash.
        let is_start = regex.starts_with('^') || text.starts_with('/');
        return match (plain_start(text), rest) {
            (Some(start), "(.*)") if is_start => path(start, to),
            (Some(start), _) if is_start => path(format!("{start}/"), &format!("{to}/")),
            _ => closed(),
        };
    }
    closed()
}

/// Another start of paths. One without any is meant for whole segments.
fn path(start: String, to: &str) -> Action {
    match to.is_empty() {
        true => Action::Path { start: format!("{}/", start.trim_end_matches('/')), to: "/".to_owned() },
        false => Action::Path { start, to: to.to_owned() },
    }
}

/// The text that an expression of text alone means, with `^` before it.
fn plain_start(regex: &str) -> Option<String> {
    let text = regex.strip_prefix('^').unwrap_or(regex);
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| matches!(c, '.' | '-' | '/'))?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            c => out.push(c),
        }
    }
    canonical_start(&out).filter(|start| *start == out && start.starts_with('/'))
}

/// `use_backend`, also by a map of hosts or paths.
fn switched(words: &[String], condition: &Condition, reader: &mut Reader<'_>) -> Vec<(Action, Condition)> {
    let name = word(words, 0);
    let Some(expression) = name.strip_prefix("%[").and_then(|inner| inner.strip_suffix(']')) else {
        let action = match name.contains('%') {
            true => Action::Closed("the backend is named by the request".to_owned()),
            false => Action::Backend(name.to_owned()),
        };
        return vec![(action, condition.clone())];
    };
    match mapped(expression, reader) {
        Ok((entries, default)) => {
            let of = |(test, backend): (Test, String)| (Action::Backend(backend), condition.and(test));
            let mut out: Vec<(Action, Condition)> = entries.into_iter().map(of).collect();
            out.extend(default.map(|default| (Action::Backend(default), condition.clone())));
            out
        }
        Err(why) => vec![(Action::Closed(why), condition.clone())],
    }
}

type Entries = (Vec<(Test, String)>, Option<String>);

/// The entries of a map, the longest first, and what else there is.
fn mapped(expression: &str, reader: &mut Reader<'_>) -> Result<Entries, String> {
    let named = || "the backend is named by the request".to_owned();
    let at = expression.rfind(",map").ok_or_else(named)?;
    let (fetch, map) = expression.split_at_checked(at).ok_or_else(named)?;
    let (kind, arguments) = map.trim_start_matches(',').trim_end_matches(')').split_once('(').ok_or_else(named)?;
    let (file, default) = arguments.split_once(',').map_or((arguments, None), |(file, default)| (file, Some(default)));
    let fetch = fetch.to_ascii_lowercase();
    let is_host = ["hdr(host)", "req.hdr(host)", "req.fhdr(host)"].iter().any(|host| {
        fetch.strip_prefix(host).is_some_and(|rest| {
            matches!(
                rest,
                "" | ",lower" | ",lower,field(1,:)" | ",field(1,:),lower" | ",host_only" | ",host_only,lower"
            )
        })
    });
    let entries: BTreeMap<String, String> = reader
        .listed(file)?
        .iter()
        .take(MAX_ENTRIES + 1)
        .filter_map(|line| line.split_once(char::is_whitespace))
        .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
        .collect();
    if entries.len() > MAX_ENTRIES {
        return Err(format!("a map of more than {MAX_ENTRIES} entries"));
    }
    let mut out = Vec::new();
    for (key, backend) in entries {
        let host = key.to_ascii_lowercase();
        let is_name = crate::addresses::is_host(host.trim_start_matches('.'));
        let test = match kind {
            "map" | "map_str" if is_host && is_name => Test::Hosts(vec![host]),
            "map_dom" | "map_end" if is_host && is_name => {
                let plain = host.trim_start_matches('.').to_owned();
                Test::Hosts(vec![format!("*.{plain}"), plain])
            }
            "map_beg" if fetch == "path" => match canonical_start(&key).filter(|start| start.starts_with('/')) {
                Some(start) => Test::Paths(vec![Language::Prefix(start)]),
                None => continue,
            },
            "map" | "map_str" if fetch == "path" && key.starts_with('/') => {
                Test::Paths(vec![Language::Exact(key.clone())])
            }
            _ => return Err("the backend is named by a map of this".to_owned()),
        };
        out.push((key.len(), test, backend));
    }
    out.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
    Ok((out.into_iter().map(|(_, test, backend)| (test, backend)).collect(), default.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_changed() {
        let path = |start: &str, to: &str| Action::Path { start: start.to_owned(), to: to.to_owned() };
        for (regex, to, expected) in [
            ("^/api/(.*)", "/\\1", Some(path("/api/", "/"))),
            ("^/api(.*)$", "\\1", Some(path("/api/", "/"))),
            ("/api(/.*)?", "\\1", Some(path("/api/", "/"))),
            ("^/v1\\.0/(.*)", "/x/\\1", Some(path("/v1.0/", "/x/"))),
            ("(.*)", "/foo\\1", Some(Action::WholePath("/foo{path}".to_owned()))),
            ("^/([a-z]+)/(.*)", "/\\2", None),
            ("api/(.*)", "/\\1", None),
        ] {
            let found = replaced(regex, to);
            match expected {
                Some(expected) => assert_eq!(found, expected, "{regex}"),
                None => assert!(matches!(found, Action::Closed(_)), "{regex}: {found:?}"),
            }
        }
        assert_eq!(set_path("%[path,regsub(^/api/,/)]"), path("/api/", "/"));
        assert_eq!(set_path("/x%[path]"), Action::WholePath("/x{path}".to_owned()));
        assert_eq!(set_path("/x"), Action::WholePath("/x".to_owned()));
        assert!(matches!(set_path("%[hdr(x)]"), Action::Closed(_)));
    }
}
