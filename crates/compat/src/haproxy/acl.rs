//! HAProxy's ACLs and conditions: which tests a condition is made of, and what each of them asks of a request.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::criterion::Criterion;
use super::syntax::Line;
use crate::addresses::network;
use crate::cells::Language;
use crate::conditions::When;
use crate::files::Files;
use crate::migration::{Place, Report};

/// Most values of a test.
pub(crate) const MAX_VALUES: usize = 4_096;
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
    /// The connection carries requests: known where they are read.
    Requests,
    /// What a proxy in front says of how the client came, which is believed of `trusted_proxies` alone.
    Said(When),
    /// A ClientHello like one of these, which is there where its TLS is not ended.
    Hello(Vec<When>),
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
    /// Those that look at the message that a rule is about, which is the response in rules about responses.
    of_message: BTreeSet<String>,
    /// Those that look at a request.
    of_request: BTreeSet<String>,
}

/// The message that a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// A connection of which nothing is read yet.
    Connection,
    Request,
    Response,
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

    /// Those of its tests that no request decides by itself, each once.
    pub(crate) fn distinct_limits(&self) -> Vec<&Test> {
        let mut out: Vec<&Test> = Vec::new();
        for test in self.tests().filter(|test| matches!(test, Test::Rate(_) | Test::BodyOver(_) | Test::User(_))) {
            if !out.contains(&test) {
                out.push(test);
            }
        }
        out
    }

    /// Whether there is such a test in it.
    pub(crate) fn has_limits(&self) -> bool {
        !self.distinct_limits().is_empty()
    }

    /// What it asks of a proxy in front.
    pub(crate) fn said(&self) -> Option<&When> {
        self.tests().find_map(|test| if let Test::Said(when) = test { Some(when) } else { None })
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
        let mut out = Acls::default();
        for line in lines.filter(|line| line.word(0) == "acl") {
            let test = reader.test(line.rest(2), &line.place);
            if is_of_request(line.word(2)) {
                out.of_request.insert(line.word(1).to_owned());
            }
            add(out.named.entry(line.word(1).to_owned()).or_default(), test);
            if is_of_message(line.word(2)) {
                out.of_message.insert(line.word(1).to_owned());
            }
        }
        out
    }

    /// Reads a condition, which begins with `if` or `unless`; none holds always.
    pub(crate) fn condition(
        &self,
        words: &[String],
        (about, place): (About, &Place),
        reader: &mut Reader<'_>,
    ) -> Condition {
        let unread = || {
            vec![Test::Unknown(match about {
                About::Response => "it looks at a field of the response, or at the request behind it".to_owned(),
                _ => "it looks at a request, of which nothing is read yet".to_owned(),
            })]
        };
        let is_there = |criterion: &str| match about {
            About::Request => true,
            About::Connection => !is_of_request(criterion) && !is_of_message(criterion),
            About::Response => !is_of_request(criterion) && !is_of_message(criterion),
        };
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
                // There the condition ends.
                "" if !is_negated => {
                    let unknown = vec![Test::Unknown("an empty word in a condition".to_owned())];
                    return Condition { alternatives: vec![vec![(false, unknown)]] };
                }
                "" => negated = is_negated,
                "or" | "||" => alternatives.push(Vec::new()),
                "{" => {
                    let inner: Vec<String> = rest.by_ref().take_while(|word| *word != "}").cloned().collect();
                    let is_read = inner.first().is_none_or(|word| is_there(word));
                    push(if is_read { vec![reader.test(&inner, place)] } else { unread() });
                }
                name if about != About::Request
                    && (self.of_message.contains(name)
                        || self.of_request.contains(name)
                        || name.starts_with("METH_")) =>
                {
                    push(unread())
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

/// Whether a criterion is about the message at hand: `hdr` is `req.hdr` or `res.hdr`.
fn is_of_message(criterion: &str) -> bool {
    criterion.starts_with("hdr") || criterion.starts_with("shdr")
}

/// Whether a criterion is about the request, which rules about responses and connections do not have.
fn is_of_request(criterion: &str) -> bool {
    let name = criterion.split(['(', ',']).next().unwrap_or_default();
    let starts = ["path", "url", "base", "query", "method", "cook", "http_auth", "http_first_req", "req.", "req_"];
    starts.iter().any(|start| name.starts_with(start))
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
pub(crate) fn joined(languages: Vec<Language>) -> Vec<Language> {
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
        "TRUE" => Some(vec![Test::Constant(true)]),
        "HTTP" => Some(vec![Test::Requests]),
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

impl Reader<'_> {
    /// Reads a test: a criterion, flags, values.
    fn test(&mut self, words: &[String], place: &Place) -> Test {
        match Criterion::read(words, self) {
            Ok(criterion) => self.meant(&criterion, &words.join(" "), place),
            Err(why) => Test::Unknown(why),
        }
    }

    fn meant(&mut self, criterion: &Criterion, shown: &str, place: &Place) -> Test {
        let Some(holds) = criterion.of_health() else { return criterion.test().unwrap_or_else(Test::Unknown) };
        let why = "how many servers are up decides nothing here; taken as when all are";
        self.comments.push(self.report.left_out(place, shown, why));
        Test::Constant(holds)
    }

    /// Values of a file, one in each line.
    pub(crate) fn listed(&mut self, name: &str) -> Result<Vec<String>, String> {
        let text = self.files.read(&self.root.join(name)).map_err(|why| format!("{name}: {why}"))?;
        // A comment begins in the first column; blanks behind a value are part of it.
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.trim_start_matches([' ', '\t']));
        let lines = lines.filter(|line| !line.is_empty());
        Ok(lines.take(MAX_VALUES + 1).map(str::to_owned).collect())
    }
}
