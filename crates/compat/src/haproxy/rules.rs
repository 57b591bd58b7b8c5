//! Rules of proxies in the order in which HAProxy asks them, with what each does.

use std::collections::BTreeMap;

use super::acl::{About, Acls, Condition, Reader, Test};
use super::sections::{Kind, Proxy};
use super::syntax::Line;
use crate::cells::{Language, canonical, canonical_start};
use crate::conditions::When;
use crate::expressions::literal;
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
        /// A path that is this alone is sent as what is put in.
        alone: Option<String>,
    },
    /// A template takes the place of the path.
    WholePath(String),
    /// What follows is known of paths that begin so; others are closed.
    BeginsWith(String),
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
    /// An edit of a field of requests is left out: nobody knows what it holds from here on.
    Obscured(String, String),
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

impl Rule {
    /// Whom a redirect is for that asks what a proxy in front says of how the client came.
    pub(crate) fn redirected(&self) -> Option<&When> {
        let Action::Respond(words) = &self.action else { return None };
        self.condition.said().filter(|_| words.first().is_some_and(|word| word == "redirect"))
    }
}

/// Whether a rule ends its list where nothing comes behind it but others that end it: then it does not matter whether it holds.
pub(super) fn ends_nothing(rules: &[Rule], at: usize) -> bool {
    let Some(rule) = rules.get(at) else { return false };
    let behind = rules.iter().skip(at).filter(|other| other.list == rule.list);
    behind.into_iter().all(|other| other.action == Action::Stop)
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
const SESSION: u8 = 1;
pub(super) const CONTENT: u8 = 2;
const REQUEST: u8 = 3;
const REDIRECT: u8 = 4;
const SWITCH: u8 = 5;
const SERVER: u8 = 6;
const RESPONSE: u8 = 7;
const AFTER_RESPONSE: u8 = 8;

/// Reads the rules of a proxy; `at` is its position.
pub(crate) fn rules(at: usize, proxy: &Proxy, reader: &mut Reader<'_>) -> Rules {
    let acls = Acls::of(proxy.lines.iter(), reader);
    let mut out = Rules::default();
    let has_headers = proxy.has_headers();
    let is_of_client =
        |test: &Test| matches!(test, Test::Like(whens) if whens.iter().any(|when| !when.client.is_empty()));
    for line in proxy.lines.iter().filter(|line| !matches!(line.word(0), "acl" | "no")) {
        let Some((list, words)) = list_of(line) else { continue };
        if line.word(0) == "http-after-response" {
            let how = "it holds for responses of servers; redirects and others that are made here lack it";
            reader.comments.push(reader.report.differs(&line.place, &line.shown(), how));
        }
        let (head, condition) = line.parts();
        let head = head.get(words..).unwrap_or_default();
        let about = match list {
            RESPONSE | AFTER_RESPONSE => About::Response,
            CONNECTION | SESSION => About::Connection,
            _ => About::Request,
        };
        let mut condition = acls.condition(condition, (about, &line.place), reader);
        // There who connects, and here whom the header names.
        if list == CONNECTION && has_headers && condition.tests().any(is_of_client) {
            let why = "it is about who connects, and clients are those of PROXY headers here";
            condition = condition.and(Test::Unknown(why.to_owned()));
        }
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
            RESPONSE | AFTER_RESPONSE => vec![rule(response(head), condition)],
            CONNECTION | SESSION | CONTENT => {
                connection(head).into_iter().map(|action| rule(action, condition.clone())).collect()
            }
            _ => {
                let on = |test: Option<Test>| test.map_or_else(|| condition.clone(), |test| condition.and(test));
                request(head).into_iter().map(|(action, test)| rule(action, on(test))).collect()
            }
        };
        match list {
            SWITCH => out.switching.extend(made),
            SERVER => out.servers.extend(made),
            RESPONSE | AFTER_RESPONSE => out.responses.extend(made),
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
        // Behind the rules about connections, before those about requests.
        let mut rule = always(action, (at, REQUEST), line, proxy);
        let (path, query) = line.word(1).split_once('?').unwrap_or((line.word(1), ""));
        if !query.is_empty() {
            rule.action = Action::Closed("it is about one query".to_owned());
        }
        if let Some(path) = canonical(path).filter(|path| path.starts_with('/')) {
            rule.condition = rule.condition.and(Test::Paths(vec![Language::Exact(path)]));
            out.requests.insert(0, rule);
        }
    }
    let is_closing = |line: &&Line| matches!(line.word(2), "reject" | "close" | "silent-drop");
    if let Some(line) = proxy.all("tcp-response").find(is_closing) {
        let why = "what servers send is not looked at".to_owned();
        out.requests.insert(0, always(Action::Closed(why), (at, 0), line, proxy));
    }
    if let Some(line) = proxy.all("filter").find(|line| super::known::is_deciding(line.word(1))) {
        let why = "it may decide about requests, and is not there".to_owned();
        out.requests.insert(0, always(Action::Closed(why), (at, 0), line, proxy));
    }
    // Any of its words switches it on.
    let is_on = |line: &&Line| line.word(0) == "stats" && !line.word(1).is_empty();
    if let Some(line) = proxy.lines.iter().find(is_on) {
        let uri = proxy.lines.iter().rev().find(|line| line.word(0) == "stats" && line.word(1) == "uri");
        let uri = uri.map_or("/haproxy", |line| line.word(2));
        let uri = uri.split('?').next().unwrap_or(uri);
        let Some(start) = canonical_start(uri).filter(|start| start.starts_with('/')) else { return };
        let why = "the page of statistics; for a dashboard and metrics write `admin: { bind: \"127.0.0.1:9901\" }`, and see docs/admin.md".to_owned();
        let mut rule = always(Action::Closed(why), (at, REQUEST), line, proxy);
        rule.condition = rule.condition.and(Test::Paths(vec![Language::Prefix(start)]));
        out.requests.insert(0, rule);
    }
}

/// The list that a line belongs to, and how many words say so.
fn list_of(line: &Line) -> Option<(u8, usize)> {
    Some(match (line.word(0), line.word(1)) {
        ("tcp-request", "connection") => (CONNECTION, 2),
        ("tcp-request", "session") => (SESSION, 2),
        ("tcp-request", "content") => (CONTENT, 2),
        ("http-request", _) => (REQUEST, 1),
        ("redirect", _) => (REDIRECT, 1),
        ("use_backend", _) => (SWITCH, 1),
        ("use-server", _) => (SERVER, 1),
        ("http-response", _) => (RESPONSE, 1),
        ("http-after-response", _) => (AFTER_RESPONSE, 1),
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
        first if first.starts_with("set-var(") || first.starts_with("unset-var(") => return None,
        // Which proxies are believed is read with the sockets.
        "expect-proxy" | "set-var" | "unset-var" | "capture" | "set-mark" | "set-tos" | "set-log-level"
        | "set-nice" => return None,
        "set-src" | "expect-netscaler-cip" => Action::Source,
        other => Action::Closed(format!("`{other}` is not understood")),
    })
}

fn track(words: &[String]) -> Action {
    let slot = word(words, 0).trim_start_matches("track-sc").to_owned();
    let table = words.iter().position(|word| word == "table").and_then(|at| words.get(at + 1).cloned());
    Action::Track { slot, key: word(words, 1).to_owned(), table }
}

/// A rule about requests: what it does, and on which of those that its condition holds for. Nothing if it changes nothing here.
fn request(words: &[String]) -> Changes {
    match word(words, 0) {
        "set-path" => set_path(word(words, 1)),
        "replace-path" => replaced(word(words, 1), word(words, 2)),
        // With HTTP/2 these begin with a scheme and a host, and the query is part of them.
        "set-uri" | "replace-uri" => closed_path("a whole URI is changed; write `set-path` or `replace-path`"),
        _ => plain_request(words).map(|action| (action, None)).into_iter().collect(),
    }
}

fn plain_request(words: &[String]) -> Option<Action> {
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
        "del-header" if is_one_name(words) => edit(Edit::Remove),
        "del-header" => Action::Closed("fields are removed here by their whole names".to_owned()),
        "set-src" => Action::Source,
        first if first.starts_with("track-sc") => track(words),
        // Variables decide nothing here: what asks for one is not understood.
        first
            if ["set-var(", "set-var-fmt(", "unset-var(", "do-resolve("]
                .iter()
                .any(|start| first.starts_with(start)) =>
        {
            return None;
        }
        "capture"
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
        | "early-hint" => return None,
        first if first.starts_with("sc-") || first == "wait-for-body" => return None,
        "normalize-uri" => match word(words, 1) {
            // What each request has had done here before routes are looked at.
            "path-strip-dot"
            | "path-strip-dotdot"
            | "percent-decode-unreserved"
            | "percent-to-uppercase"
            | "fragment-strip" => return None,
            kind => Action::Closed(format!("`normalize-uri {kind}` has no counterpart")),
        },
        "set-method" | "set-query" | "set-pathq" | "replace-pathq" | "set-dst" | "set-dst-port" | "set-src-port"
        | "use-service" | "send-spoe-group" | "cache-use" | "set-bc-mark" | "set-fc-mark" => {
            let kind = word(words, 0);
            match kind {
                "cache-use" => Action::LeftOut("nothing is cached here".to_owned()),
                _ => Action::Closed(format!("`{kind}` has no counterpart")),
            }
        }
        "replace-header" | "replace-value" => {
            let field = word(words, 1).to_ascii_lowercase();
            match field == "host" {
                true => Action::Closed("the Host that goes on is made by an expression".to_owned()),
                false => Action::Obscured(field, "values of fields are not edited by expressions".to_owned()),
            }
        }
        "set-map" | "add-acl" | "del-acl" | "del-map" => Action::LeftOut("there are no maps to change".to_owned()),
        other => Action::Closed(format!("`{other}` is not understood")),
    })
}

/// Whether `del-header` names one field, and not all that are like it.
fn is_one_name(words: &[String]) -> bool {
    words.len() == 2 || (word(words, 2) == "-m" && word(words, 3) == "str" && words.len() == 4)
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
        "del-header" if is_one_name(words) => edit(Edit::Remove),
        "allow" => Action::Stop,
        kind @ ("deny" | "return" | "redirect" | "reject") => {
            Action::Closed(format!("`{kind}` of a response has no counterpart"))
        }
        _ => Action::LeftOut("of responses only fields are set, added and removed".to_owned()),
    }
}

/// What a path becomes: actions, each under a test of its own beside the rule's condition.
type Changes = Vec<(Action, Option<Test>)>;

fn closed_path(why: &str) -> Changes {
    vec![(Action::Closed(why.to_owned()), None)]
}

/// `set-path`: an expression that replaces the start of the path, or a whole one.
fn set_path(format: &str) -> Changes {
    let inner = format.strip_prefix("%[path,regsub(").or_else(|| format.strip_prefix("%[path,regsub('"));
    if let Some(arguments) = inner.and_then(|inner| inner.strip_suffix(")]")) {
        let mut parts = arguments.split(',').map(|part| part.trim_matches(['\'', '"']));
        if let (Some(regex), Some(to)) = (parts.next(), parts.next())
            && parts.next().is_none_or(|flags| flags.is_empty())
            && let Some((start, rest)) = start_and_rest(regex)
            && (to == "/" || rest.is_none())
            && (to.is_empty() || canonical_start(to).as_deref() == Some(to))
        {
            return match rest {
                Some(_) => without_start(&start),
                None => path(&start, to, Rest::Any),
            };
        }
        return closed_path("a path is changed by this expression");
    }
    if let Some(start) = format.strip_suffix("%[path]")
        && !start.contains(['%', '{', '}'])
        && start.starts_with('/')
    {
        return vec![(Action::WholePath(format!("{start}{{path}}")), None)];
    }
    match format.contains(['%', '{', '}', '?']) || !format.starts_with('/') {
        true => closed_path("a path is made of this format"),
        false => vec![(Action::WholePath(format.to_owned()), None)],
    }
}

/// What a replaced text may be followed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Anything.
    Any,
    /// A slash and anything, or nothing; other paths that begin so are not changed.
    SegmentsOrNone,
    /// The same; other paths that begin so become what is put in, without what follows.
    SegmentsOrLost,
    /// A slash and anything.
    Segments,
}

/// `replace-path` whose expression is the start of paths and what follows it.
fn replaced(regex: &str, format: &str) -> Changes {
    let closed = || closed_path("a path is changed by this expression");
    let (whole, ends) = regex.strip_suffix('$').map_or((regex, false), |whole| (whole, true));
    // An expression without `^` is found anywhere in a path, and what it makes is all that is left.
    if let Some(text) = whole.strip_suffix("(.*)").filter(|text| !text.starts_with('^') && !text.is_empty()) {
        let anchored = format!("^{text}(.*)");
        let Some((start, _)) = start_and_rest(&format!("^{text}")) else { return closed() };
        let mut out = vec![(Action::BeginsWith(start), None)];
        out.extend(replaced(&anchored, format));
        return out;
    }
    if let Some((start, Some(group))) = whole.strip_suffix("(.*)").and_then(start_and_rest) {
        let is_root = format.replace("\\/", "/").strip_suffix(group) == Some("/");
        return if is_root { without_start(&start) } else { closed() };
    }
    for (rest, kind) in [
        ("(/.*)?", if ends { Rest::SegmentsOrNone } else { Rest::SegmentsOrLost }),
        ("(/.*)", Rest::Segments),
        ("(.*)", Rest::Any),
    ] {
        let Some(text) = whole.strip_suffix(rest) else { continue };
        let is_plain = |to: &&str| !to.contains(['\\', '%', '{', '}', '?']) && (to.is_empty() || to.starts_with('/'));
        let Some(to) = format.strip_suffix("\\1").filter(is_plain) else { return closed() };
        if matches!(text, "" | "^") && kind == Rest::Any {
            return vec![(Action::WholePath(format!("{to}{{path}}")), None)];
        }
        // An expression without `^` is found anywhere in a path.
        return plain_start(text).map_or_else(closed, |start| path(&start, to, kind));
    }
    closed()
}

/// Paths without this start and the slash behind it. What goes on within the segment is closed, which nobody means.
fn without_start(start: &str) -> Changes {
    let within = Language::Expression { text: format!("{}[^/].*", literal(start)), except: Vec::new() };
    let why = "a path that goes on within the segment is changed, too";
    vec![
        (Action::Closed(why.to_owned()), Some(Test::Paths(vec![within]))),
        (Action::Path { start: format!("{start}/"), to: "/".to_owned(), alone: Some(start.to_owned()) }, None),
    ]
}

/// The start of paths of an expression with `^`. If a slash may follow, also what a group behind that is called.
fn start_and_rest(regex: &str) -> Option<(String, Option<&'static str>)> {
    let slashes = [("(/)?", "\\2"), ("\\/?", "\\1"), ("/?", "\\1")];
    let optional = slashes.into_iter().find_map(|(slash, group)| Some((regex.strip_suffix(slash)?, group)));
    match optional {
        Some((start, group)) => plain_start(start).map(|start| (start, Some(group))),
        None => plain_start(regex).map(|start| (start, None)),
    }
}

/// Another start of paths. What would become no path, or is not said by a start, is closed first.
fn path(start: &str, to: &str, rest: Rest) -> Changes {
    let is_segment = start.ends_with('/');
    let changed = |start: String, to: String| (Action::Path { start, to, alone: None }, None);
    let closed = |paths: Language| {
        (Action::Closed("what this makes of the path is none".to_owned()), Some(Test::Paths(vec![paths])))
    };
    let exact = || Language::Exact(start.to_owned());
    // What begins so, and goes on within the segment.
    let others = || Language::Expression { text: format!("{}(?:[^/].*)?", literal(start)), except: Vec::new() };
    match rest {
        Rest::Any if is_segment == to.ends_with('/') && !to.is_empty() => {
            vec![changed(start.to_owned(), to.to_owned())]
        }
        Rest::Any if !is_segment && to.is_empty() => {
            vec![closed(others()), changed(format!("{start}/"), "/".to_owned())]
        }
        Rest::Any if !is_segment || to.is_empty() => closed_path("what this makes of the path may be none"),
        Rest::Any => vec![changed(start.to_owned(), to.to_owned())],
        _ if is_segment => closed_path("a path with an empty segment is changed"),
        Rest::Segments => vec![changed(format!("{start}/"), format!("{to}/"))],
        Rest::SegmentsOrNone => vec![closed(exact()), changed(format!("{start}/"), format!("{to}/"))],
        Rest::SegmentsOrLost => vec![closed(others()), changed(format!("{start}/"), format!("{to}/"))],
    }
}

/// The start of paths that an expression of text alone means, with `^` before it.
fn plain_start(regex: &str) -> Option<String> {
    let text = regex.strip_prefix('^')?;
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
        // Of two lines for one key the first counts.
        .rev()
        .collect();
    if entries.len() > MAX_ENTRIES {
        return Err(format!("a map of more than {MAX_ENTRIES} entries"));
    }
    let mut out = Vec::new();
    for (key, backend) in entries {
        let host = key.to_ascii_lowercase();
        if is_host && host != key {
            return Err(format!("a map whose key `{key}` has capitals, and hosts have none here"));
        }
        let is_name = crate::addresses::is_host(host.trim_start_matches('.'));
        let test = match kind {
            "map" | "map_str" if is_host && is_name && !host.starts_with('.') => Test::Hosts(vec![host]),
            "map_end" if is_host && is_name && host.starts_with('.') => Test::Hosts(vec![format!("*{host}")]),
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
    // There the first line that fits counts, and not the longest.
    if kind == "map_end" && out.len() > 1 {
        return Err("the backend is named by the first end of several".to_owned());
    }
    out.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
    Ok((out.into_iter().map(|(_, test, backend)| (test, backend)).collect(), default.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_changed() {
        let path =
            |start: &str, to: &str| (Action::Path { start: start.to_owned(), to: to.to_owned(), alone: None }, None);
        let whole = |to: &str| vec![(Action::WholePath(to.to_owned()), None)];
        let closed = |paths: Language| {
            (Action::Closed("what this makes of the path is none".to_owned()), Some(Test::Paths(vec![paths])))
        };
        let begins = |start: &str| (Action::BeginsWith(start.to_owned()), None);
        let within = |text: &str| Language::Expression { text: format!("{text}(?:[^/].*)?"), except: Vec::new() };
        for (regex, to, expected) in [
            ("^/api/(.*)", "/\\1", Some(vec![path("/api/", "/")])),
            // `/apix` would become `x`, and `/api` nothing.
            ("^/api(.*)$", "\\1", Some(vec![closed(within("/api")), path("/api/", "/")])),
            ("^/api(/.*)?$", "\\1", Some(vec![closed(Language::Exact("/api".to_owned())), path("/api/", "/")])),
            ("^/api(/.*)?", "/v\\1", Some(vec![closed(within("/api")), path("/api/", "/v/")])),
            ("^/api(/.*)", "/v\\1", Some(vec![path("/api/", "/v/")])),
            ("^/api(.*)", "/v\\1", Some(vec![path("/api", "/v")])),
            ("^/v1\\.0/(.*)", "/x/\\1", Some(vec![path("/v1.0/", "/x/")])),
            ("(.*)", "/foo\\1", Some(whole("/foo{path}"))),
            ("^/([a-z]+)/(.*)", "/\\2", None),
            // Found anywhere in a path, and known of those that begin so.
            ("/api/(.*)", "/\\1", Some(vec![begins("/api/"), path("/api/", "/")])),
            ("/b(/)?(.*)", "/\\2", Some([vec![begins("/b")], without_start("/b")].concat())),
            ("/b\\/?(.*)", "\\/\\1", Some([vec![begins("/b")], without_start("/b")].concat())),
            ("^/b/?(.*)$", "/\\1", Some(without_start("/b"))),
            ("^/b/?(.*)", "/x/\\1", None),
            ("^/b(/)?(.*)", "/\\1", None),
            ("api/(.*)", "/\\1", None),
            ("/api(/.*)?", "\\1", None),
            ("^/api/(.*)", "\\1", None),
            ("^/api/(.*)", "x/\\1", None),
        ] {
            let found = replaced(regex, to);
            match expected {
                Some(expected) => assert_eq!(found, expected, "{regex}"),
                None => assert!(matches!(found.as_slice(), [(Action::Closed(_), None)]), "{regex}: {found:?}"),
            }
        }
        assert_eq!(set_path("%[path,regsub(^/api/,/)]"), vec![path("/api/", "/")]);
        assert_eq!(set_path("%[path,regsub(^/api/?,/)]"), without_start("/api"));
        assert_eq!(set_path("/x%[path]"), whole("/x{path}"));
        assert_eq!(set_path("/x"), whole("/x"));
        for format in [
            "%[hdr(x)]",
            "x%[path]",
            "%[path,regsub(/api/,/)]",
            "%[path,regsub(^/api/?,/x)]",
            "%[path,regsub(^/api/,/,g)]",
            "/x?y",
        ] {
            assert!(matches!(set_path(format).as_slice(), [(Action::Closed(_), None)]), "{format}");
        }
    }
}
