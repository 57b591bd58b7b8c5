//! HAProxy's ACLs and conditions: which tests a condition is made of, and what each of them asks of a request.

use std::collections::BTreeMap;
use std::path::Path;

use super::syntax::Line;
use crate::addresses::network;
use crate::cells::{Language, canonical, canonical_start};
use crate::conditions::{Match, Of, When};
use crate::expressions::{Subject, literal, native};
use crate::migration::{Files, Place, Report};

/// Most values of a test.
const MAX_VALUES: usize = 4_096;
/// Most alternatives of a condition.
const MAX_BRANCHES: usize = 64;

/// A test of an ACL: one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    Constant(bool),
    /// Host patterns: names, and `*.` with what stands behind.
    Hosts(Vec<String>),
    /// Paths: one of these.
    Paths(Vec<Language>),
    /// The connection is under TLS.
    Tls,
    /// The client has shown a certificate.
    Certificate,
    /// Ports of the listener.
    Ports(Vec<u16>),
    /// A request, connection or client like one of these.
    Like(Vec<When>),
    /// A body of more bytes.
    BodyOver(u64),
    /// More requests in the period of a table.
    Rate(Rate),
    /// A user of a list.
    User(Users),
    /// A counter that is not carried, and why. Nothing limits by it: whether it holds for a client that does little.
    Counter(String, bool),
    /// What is not understood, and why.
    Unknown(String),
}

/// Users of a list: all of them, or those in one of these groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Users {
    pub(crate) list: String,
    pub(crate) groups: Vec<String>,
}

/// What a table counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Requests,
    /// New connections.
    Connections,
    /// Connections that are open.
    Open,
}

/// More than this: in the period of a table, or at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) of: Counted,
    /// The counter that `track-sc` feeds; none for the address of the client.
    pub(crate) slot: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) over: u64,
}

/// An ACL, or a test without a name: any of its tests.
pub(crate) type Acl = Vec<Test>;

/// A condition: alternatives of which each holds if all of its ACLs do, or do not where they are negated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) alternatives: Vec<Vec<(bool, Acl)>>,
}

/// What a condition comes to, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Truth {
    Yes,
    No,
    /// It depends on whether a request is like this.
    Depends(When),
    /// It depends on whether a path matches this expression.
    Path(String),
    Unknown(String),
}

/// The ACLs of a section by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acls {
    named: BTreeMap<String, Acl>,
}

/// What tests are read with.
pub(crate) struct Reader<'r> {
    pub(crate) files: &'r mut Files,
    pub(crate) root: &'r Path,
    pub(crate) report: &'r Report,
    /// What is taken otherwise, and what is left out.
    pub(crate) comments: Vec<String>,
}

impl Condition {
    /// What always holds.
    pub(crate) fn always() -> Condition {
        Condition { alternatives: vec![Vec::new()] }
    }

    /// This, and a test beside it.
    pub(crate) fn and(&self, test: Test) -> Condition {
        let mut out = self.clone();
        out.alternatives.iter_mut().for_each(|all| all.push((false, vec![test.clone()])));
        out
    }

    /// All tests of it.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &Test> {
        self.alternatives.iter().flatten().flat_map(|(_, acl)| acl)
    }

    /// What it comes to, by what each test comes to.
    pub(crate) fn truth(&self, known: &dyn Fn(&Test) -> Truth) -> Truth {
        any(self.alternatives.iter().map(|all| {
            let mut out = Truth::Yes;
            for (negated, acl) in all {
                let found = any(acl.iter().map(known));
                let found = match (found, negated) {
                    (Truth::Yes, true) => Truth::No,
                    (Truth::No, true) => Truth::Yes,
                    (other, _) => other,
                };
                out = match (out, found) {
                    (Truth::No, _) | (_, Truth::No) => return Truth::No,
                    (Truth::Yes, other) | (other, Truth::Yes) => other,
                    // What can be found out is, before what cannot.
                    (Truth::Unknown(_), other) => other,
                    (own, _) => own,
                };
            }
            out
        }))
    }
}

/// Whether one of these holds.
fn any(found: impl Iterator<Item = Truth>) -> Truth {
    let mut out = Truth::No;
    for one in found {
        out = match (out, one) {
            (_, Truth::Yes) => return Truth::Yes,
            (Truth::No | Truth::Unknown(_), other) if other != Truth::No => other,
            (own, _) => own,
        };
    }
    out
}

impl Acls {
    /// Reads the ACLs of a section. Values in files are read with them.
    pub(crate) fn of<'l>(lines: impl Iterator<Item = &'l Line>, reader: &mut Reader<'_>) -> Acls {
        let mut named: BTreeMap<String, Acl> = BTreeMap::new();
        for line in lines.filter(|line| line.word(0) == "acl") {
            let test = reader.test(line.rest(2), &line.place);
            add(named.entry(line.word(1).to_owned()).or_default(), test);
        }
        Acls { named }
    }

    /// Reads a condition, which begins with `if` or `unless`; none holds always.
    pub(crate) fn condition(&self, words: &[String], place: &Place, reader: &mut Reader<'_>) -> Condition {
        let Some((first, rest)) = words.split_first() else { return Condition::always() };
        let mut alternatives = vec![Vec::new()];
        let mut negated = false;
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            let (mut word, mut is_negated) = (word.as_str(), negated);
            negated = false;
            while let Some(inner) = word.strip_prefix('!') {
                (word, is_negated) = (inner, !is_negated);
            }
            let mut push =
                |acl: Acl| alternatives.last_mut().into_iter().for_each(|all| all.push((is_negated, acl.clone())));
            match word {
                "" => negated = is_negated,
                "or" | "||" => alternatives.push(Vec::new()),
                "{" => {
                    let inner: Vec<String> = rest.by_ref().take_while(|word| *word != "}").cloned().collect();
                    push(vec![reader.test(&inner, place)]);
                }
                name => {
                    let acl = self.named.get(name).cloned().or_else(|| predefined(name));
                    push(acl.unwrap_or_else(|| vec![Test::Unknown(format!("there is no ACL `{name}`"))]));
                }
            }
        }
        match first.as_str() {
            "if" => Condition { alternatives },
            // Not any of them: none of the first, or none of the second, …
            _ => unless(&alternatives),
        }
    }
}

/// Adds a test to an ACL; expressions of paths are one.
fn add(acl: &mut Acl, test: Test) {
    let Test::Paths(mut languages) = test else { return acl.push(test) };
    if let Some(Test::Paths(own)) = acl.iter_mut().find(|test| matches!(test, Test::Paths(_))) {
        languages = std::mem::take(own).into_iter().chain(languages).collect();
        *own = joined(languages);
        return;
    }
    acl.push(Test::Paths(joined(languages)));
}

/// Paths with all expressions as one.
fn joined(languages: Vec<Language>) -> Vec<Language> {
    let mut out = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for language in languages {
        match language {
            Language::Expression { text, .. } if !texts.contains(&text) => texts.push(text),
            Language::Expression { .. } => {}
            plain => out.push(plain),
        }
    }
    let text = match texts.as_slice() {
        [] => return out,
        [one] => one.clone(),
        several => alternatives(several),
    };
    out.push(Language::Expression { text, except: Vec::new() });
    out
}

/// One expression for any of these.
fn alternatives(texts: &[String]) -> String {
    let plain: Vec<&str> = texts.iter().filter_map(|text| text.strip_prefix("(?i)")).collect();
    let ends: Vec<&str> = plain.iter().filter_map(|text| text.strip_prefix(".*")).collect();
    match () {
        () if ends.len() == texts.len() => format!("(?i).*(?:{})", ends.join("|")),
        () if plain.len() == texts.len() => format!("(?i)(?:{})", plain.join("|")),
        () => {
            let ends: Vec<&str> = texts.iter().filter_map(|text| text.strip_prefix(".*")).collect();
            match ends.len() == texts.len() {
                true => format!(".*(?:{})", ends.join("|")),
                false => texts.iter().map(|text| format!("(?:{text})")).collect::<Vec<_>>().join("|"),
            }
        }
    }
}

/// `unless A B || C` is `if !A !C || !B !C`.
fn unless(alternatives: &[Vec<(bool, Acl)>]) -> Condition {
    let mut out: Vec<Vec<(bool, Acl)>> = vec![Vec::new()];
    for all in alternatives {
        let negated = |(is_negated, acl): &(bool, Acl)| (!is_negated, acl.clone());
        let with =
            |before: &Vec<(bool, Acl)>, one: &(bool, Acl)| before.iter().cloned().chain([negated(one)]).collect();
        out =
            out.iter().flat_map(|before| all.iter().map(move |one| with(before, one))).take(MAX_BRANCHES + 1).collect();
        if out.len() > MAX_BRANCHES {
            let why = Test::Unknown("its condition has too many alternatives".to_owned());
            return Condition { alternatives: vec![vec![(false, vec![why])]] };
        }
    }
    Condition { alternatives: out }
}

/// ACLs that are there by themselves.
fn predefined(name: &str) -> Option<Acl> {
    let methods = |methods: &[&str]| Some(vec![Test::Like(vec![When::methods(methods)])]);
    match name {
        "TRUE" | "HTTP" | "REQ_CONTENT" | "WAIT_END" | "HTTP_1.1" => Some(vec![Test::Constant(true)]),
        "FALSE" => Some(vec![Test::Constant(false)]),
        "LOCALHOST" => network("127.0.0.0/8").map(|network| vec![Test::Like(vec![When::of_client(network)])]),
        "METH_GET" => methods(&["GET", "HEAD"]),
        "METH_HEAD" => methods(&["HEAD"]),
        "METH_POST" => methods(&["POST"]),
        "METH_PUT" => methods(&["PUT"]),
        "METH_DELETE" => methods(&["DELETE"]),
        "METH_PATCH" => methods(&["PATCH"]),
        "METH_OPTIONS" => methods(&["OPTIONS"]),
        _ => None,
    }
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Is,
    Begins,
    Ends,
    Holds,
    Dir,
    Domain,
    Regex,
    Found,
}

/// A criterion as it is written.
struct Criterion<'w> {
    name: String,
    argument: String,
    how: How,
    ignores_case: bool,
    values: &'w [String],
    shown: &'w str,
}

impl Reader<'_> {
    /// Reads a test: a criterion, flags, values.
    fn test(&mut self, words: &[String], place: &Place) -> Test {
        match self.read(words, place) {
            Ok(test) => test,
            Err(why) => Test::Unknown(why),
        }
    }

    fn read(&mut self, words: &[String], place: &Place) -> Result<Test, String> {
        let (shown, rest) = words.split_first().ok_or("an empty test")?;
        let (fetch, converters) = fetch_of(shown);
        let (name, argument) = match fetch.split_once('(') {
            Some((name, argument)) => (name, argument.trim_end_matches(')')),
            None => (fetch, ""),
        };
        let mut ignores_case = false;
        for converter in converters.split(',').filter(|converter| !converter.is_empty()) {
            match converter {
                "lower" => ignores_case = true,
                "url_dec" | "url_dec(1)" | "host_only" | "field(1:)" | "field(1" | ":)" | "word(1:)" | "word(1" => {}
                other => return Err(format!("`{other}` of a value is not understood")),
            }
        }
        let (name, mut how) = suffix(name);
        let mut values: Vec<String> = Vec::new();
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "-i" => ignores_case = true,
                "-n" => {}
                "--" => values.extend(rest.by_ref().cloned()),
                "-m" => how = matching(rest.next().map_or("", String::as_str))?,
                "-f" => values.extend(self.listed(rest.next().map_or("", String::as_str))?),
                "-u" | "-M" => return Err("a map is not read".to_owned()),
                value => values.push(value.to_owned()),
            }
        }
        if values.len() > MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} values"));
        }
        let criterion = Criterion {
            name: name.to_owned(),
            argument: argument.to_owned(),
            how,
            ignores_case,
            values: &values,
            shown,
        };
        if let Some(holds) = of_load(&criterion) {
            let why =
                "how many servers are up, and what they have to do, decides nothing here; taken as when all is well";
            self.comments.push(self.report.left_out(place, &words.join(" "), why));
            return Ok(Test::Constant(holds));
        }
        criterion.test()
    }

    /// Values of a file, one in each line.
    pub(crate) fn listed(&mut self, name: &str) -> Result<Vec<String>, String> {
        let text = self.files.read(&self.root.join(name)).map_err(|why| format!("{name}: {why}"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(lines.take(MAX_VALUES + 1).map(str::to_owned).collect())
    }
}

/// A fetch with its arguments, and the converters behind it.
pub(crate) fn fetch_of(text: &str) -> (&str, &str) {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return (text.get(..at).unwrap_or(text), text.get(at + 1..).unwrap_or_default()),
            _ => {}
        }
    }
    (text, "")
}

/// The criterion without what says how it compares.
fn suffix(name: &str) -> (&str, How) {
    let ends = [
        ("_beg", How::Begins),
        ("_end", How::Ends),
        ("_sub", How::Holds),
        ("_dir", How::Dir),
        ("_dom", How::Domain),
        ("_reg", How::Regex),
    ];
    let found = ends.iter().find_map(|(end, how)| Some((name.strip_suffix(end)?, *how)));
    found.unwrap_or((name, How::Is))
}

fn matching(word: &str) -> Result<How, String> {
    Ok(match word {
        "str" | "ip" | "int" | "bool" => How::Is,
        "beg" => How::Begins,
        "end" => How::Ends,
        "sub" => How::Holds,
        "dir" => How::Dir,
        "dom" => How::Domain,
        "reg" => How::Regex,
        "found" => How::Found,
        other => return Err(format!("`-m {other}` is not understood")),
    })
}

/// What is about servers and load: whether it holds when all is well. None if it is about something else.
fn of_load(criterion: &Criterion<'_>) -> Option<bool> {
    let is_up = match criterion.name.as_str() {
        "nbsrv" | "srv_is_up" | "connslots" | "be_conn_free" | "srv_conn_free" => true,
        "avg_queue" | "be_conn" | "be_sess_rate" | "fe_conn" | "fe_sess_rate" | "fe_req_rate" | "queue"
        | "srv_conn" | "srv_queue" | "srv_sess_rate" | "stopping" => false,
        _ => return None,
    };
    Some(match criterion.values.first().map(String::as_str) {
        Some("lt" | "le" | "eq") => !is_up,
        // A number alone is compared as equal.
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => !is_up,
        _ => is_up,
    })
}

/// The number that `gt N` or `ge N` must be beyond.
fn over(values: &[String]) -> Option<u64> {
    match values {
        [word, number] if word == "gt" => number.parse().ok(),
        [word, number] if word == "ge" => number.parse::<u64>().ok()?.checked_sub(1),
        _ => None,
    }
}

impl Criterion<'_> {
    fn unknown<T>(&self) -> Result<T, String> {
        Err(format!("`{}` is not understood", self.shown))
    }

    fn test(&self) -> Result<Test, String> {
        let argument = self.argument.split(',').next().unwrap_or_default().trim();
        let values = self.values;
        let constant = |holds: bool| Ok(Test::Constant(holds));
        match self.name.as_str() {
            "path" | "capture.req.uri" => self.paths().map(Test::Paths),
            // The query stands behind the path.
            "url" | "pathq" if matches!(self.how, How::Begins) => self.paths().map(Test::Paths),
            "hdr" | "req.hdr" | "req.fhdr" | "shdr" if argument.eq_ignore_ascii_case("host") => self.hosts(),
            "req.ssl_sni" | "req_ssl_sni" | "ssl_fc_sni" => match self.how {
                How::Found => self.unknown(),
                _ => Ok(Test::Like(vec![When::of_server_names(self.host_patterns()?)])),
            },
            "method" => self.methods(),
            "src" => {
                let networks: Option<Vec<_>> = values.iter().map(|value| network(value)).collect();
                let networks = networks.filter(|networks| !networks.is_empty()).ok_or("`src` of what is no address")?;
                Ok(Test::Like(vec![When::of_clients(networks)]))
            }
            "hdr" | "req.hdr" | "req.fhdr" if !argument.is_empty() => self.of(Of::Header, argument),
            "hdr_cnt" | "req.hdr_cnt" if !argument.is_empty() => self.counted(argument),
            "url_param" | "urlp" if !argument.is_empty() => self.of(Of::Query, argument),
            "cook" | "req.cook" if !argument.is_empty() => self.of(Of::Cookie, argument),
            "hdr_val" | "req.hdr_val" if argument.eq_ignore_ascii_case("content-length") => self.body(),
            "req.body_size" | "req.body_len" => self.body(),
            "ssl_fc" | "ssl_c_used" => {
                let holds = !values.iter().any(|value| matches!(value.as_str(), "0" | "false"));
                let test = if self.name == "ssl_fc" { Test::Tls } else { Test::Certificate };
                if holds { Ok(test) } else { self.unknown() }
            }
            "ssl_c_verify" if values == ["0"] => Ok(Test::Certificate),
            "dst_port" => {
                let ports: Option<Vec<u16>> =
                    values.iter().filter(|value| *value != "eq").map(|value| value.parse().ok()).collect();
                ports.filter(|ports| !ports.is_empty()).map_or_else(|| self.unknown(), |ports| Ok(Test::Ports(ports)))
            }
            "http_auth" if !argument.is_empty() => {
                Ok(Test::User(Users { list: argument.to_owned(), groups: Vec::new() }))
            }
            "http_auth_group" if !argument.is_empty() && self.how == How::Is => {
                Ok(Test::User(Users { list: argument.to_owned(), groups: values.to_vec() }))
            }
            "always_true" | "req_proto_http" | "req.proto_http" | "req_ssl_hello_type" | "req.ssl_hello_type"
            | "req.len" | "req_len" | "wait_end" => constant(true),
            "always_false" => constant(false),
            name if name.starts_with("sc") || name.starts_with("src_") => Ok(self.counter()),
            _ => self.unknown(),
        }
    }

    /// A counter of a stick table.
    fn counter(&self) -> Test {
        let (slot, kind) = match self.name.strip_prefix("src_") {
            Some(kind) => (None, kind),
            None => {
                let rest = self.name.strip_prefix("sc").unwrap_or_default();
                let digit: String = rest.chars().take_while(char::is_ascii_digit).collect();
                let kind = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('_');
                let first = self.argument.split(',').next().unwrap_or_default().trim();
                (Some(if digit.is_empty() { first.to_owned() } else { digit }), kind)
            }
        };
        let mut arguments = self.argument.split(',').map(str::trim).filter(|word| !word.is_empty());
        let table = arguments.find(|word| !word.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned);
        match (kind, over(self.values)) {
            ("http_req_rate", Some(over)) => Test::Rate(Rate { of: Counted::Requests, slot, table, over }),
            ("conn_rate" | "sess_rate", Some(over)) => Test::Rate(Rate { of: Counted::Connections, slot, table, over }),
            ("conn_cur", Some(over)) => Test::Rate(Rate { of: Counted::Open, slot, table, over }),
            _ => {
                let holds = self.values.first().is_some_and(|word| matches!(word.as_str(), "lt" | "le"));
                Test::Counter(format!("`{}` counts what is not counted here", self.shown), holds)
            }
        }
    }

    fn methods(&self) -> Result<Test, String> {
        let methods: Vec<String> = self.values.iter().map(|value| value.to_ascii_uppercase()).collect();
        match self.how == How::Is && !methods.is_empty() {
            true if methods.iter().all(|method| crate::conditions::is_method(method)) => {
                Ok(Test::Like(vec![When::of_methods(methods)]))
            }
            // Requests with these reach no route.
            true if methods.iter().all(|method| matches!(method.as_str(), "CONNECT" | "TRACE")) => {
                Ok(Test::Constant(false))
            }
            _ => self.unknown(),
        }
    }

    fn body(&self) -> Result<Test, String> {
        over(self.values).map_or_else(|| self.unknown(), |over| Ok(Test::BodyOver(over)))
    }

    fn counted(&self, name: &str) -> Result<Test, String> {
        let like = |wanted: Match| Ok(Test::Like(vec![When::value(Of::Header, name, wanted)]));
        match self.values {
            [number] if number == "0" => like(Match::Absent),
            [one, number] if one == "eq" && number == "0" => like(Match::Absent),
            [one, number] if (one == "gt" && number == "0") || (one == "ge" && number == "1") => like(Match::Present),
            _ => self.unknown(),
        }
    }

    fn paths(&self) -> Result<Vec<Language>, String> {
        let flags = if self.ignores_case { "(?i)" } else { "" };
        let expression = |text: String| Language::Expression { text: format!("{flags}{text}"), except: Vec::new() };
        let mut out = Vec::new();
        for value in self.values {
            let language = match self.how {
                How::Is if !self.ignores_case => match canonical(value).filter(|path| path.starts_with('/')) {
                    Some(path) => Language::Exact(path),
                    // No path of a request is so.
                    None => continue,
                },
                How::Begins if value == "/" => Language::Prefix(value.clone()),
                How::Begins if !self.ignores_case => {
                    match canonical_start(value).filter(|start| start.starts_with('/')) {
                        Some(start) => Language::Prefix(start),
                        None => continue,
                    }
                }
                How::Is => expression(literal(value)),
                How::Begins => expression(format!("{}.*", literal(value))),
                How::Ends => expression(format!(".*{}", literal(value))),
                How::Holds => expression(format!(".*{}.*", literal(value))),
                How::Dir => expression(format!(".*/{}(?:/.*)?", literal(value.trim_matches('/')))),
                How::Regex => {
                    Language::Expression { text: native(value, self.ignores_case, Subject::Path)?, except: Vec::new() }
                }
                How::Found => Language::Prefix("/".to_owned()),
                How::Domain => return Err("a path compared as a domain".to_owned()),
            };
            out.push(language);
        }
        if self.how == How::Found && self.values.is_empty() {
            out.push(Language::Prefix("/".to_owned()));
        }
        Ok(joined(out))
    }

    /// The host of a request: whole names and domains as hosts of routes, what else there is as a condition on the field.
    fn hosts(&self) -> Result<Test, String> {
        match self.how {
            How::Is | How::Ends | How::Domain => self.host_patterns().map(Test::Hosts),
            // Hosts are the same in any case.
            _ => Criterion { name: self.name.clone(), argument: self.argument.clone(), ignores_case: true, ..*self }
                .of(Of::Header, "host"),
        }
    }

    fn host_patterns(&self) -> Result<Vec<String>, String> {
        let mut out: Vec<String> = Vec::new();
        for value in self.values {
            let name = value.to_ascii_lowercase();
            // Ports do not count here.
            let name = name.rsplit_once(':').map_or(name.as_str(), |(name, _)| name).to_owned();
            let plain = name.trim_start_matches('.');
            if !crate::addresses::is_host(plain) {
                return Err(format!("`{value}` is no host"));
            }
            match self.how {
                How::Is => out.push(name.clone()),
                How::Ends if name.starts_with('.') => out.push(format!("*.{plain}")),
                // Names that end so without a dot before are not told apart.
                How::Ends | How::Domain => out.extend([plain.to_owned(), format!("*.{plain}")]),
                _ => return Err("names are compared as a whole, or by their end".to_owned()),
            }
        }
        out.retain(|name| !name.starts_with('.'));
        Ok(out)
    }

    fn of(&self, of: Of, name: &str) -> Result<Test, String> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !name.bytes().all(is_token) {
            return self.unknown();
        }
        if self.how == How::Found || self.values.is_empty() {
            return Ok(Test::Like(vec![When::value(of, name, Match::Present)]));
        }
        let flags = if self.ignores_case { "(?i)" } else { "" };
        let regex = |text: String| Match::Regex(format!("{flags}{text}"));
        let mut out = Vec::new();
        for value in self.values {
            if value.is_empty() || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || value.trim() != value {
                return Err("a value that is not visible ASCII".to_owned());
            }
            let wanted = match self.how {
                How::Is if !self.ignores_case => Match::Exact(value.clone()),
                How::Begins if !self.ignores_case => Match::Prefix(value.clone()),
                How::Is => regex(literal(value)),
                How::Begins => regex(format!("{}.*", literal(value))),
                How::Ends => regex(format!(".*{}", literal(value))),
                How::Holds => regex(format!(".*{}.*", literal(value))),
                How::Regex => Match::Regex(native(value, self.ignores_case, Subject::Value)?),
                How::Dir | How::Domain | How::Found => return Err("a value compared by its parts".to_owned()),
            };
            if !out.contains(&wanted) {
                out.push(wanted);
            }
        }
        Ok(Test::Like(vec![When::value_of(of, name, out)]))
    }
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
