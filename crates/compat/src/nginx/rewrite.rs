//! What nginx decides before it looks at locations and handlers: `return`, `rewrite`, `if`, `set`.

use std::borrow::Cow;

use config::Expression;
use wire::http::field_kind::FieldKind;

use super::scope::Scope;
use super::site::is_apart;
use super::syntax::Directive;
use super::values::{Query, Values, is_variable, variable_of};
use crate::cells::Language;
use crate::conditions::{Match, Of, When, is_method};
use crate::expressions::{Subject, native, other_than};
use crate::migration::Report;
use crate::native::{Map, Value};
use crate::sites::respond;
use crate::stripped::{PROTOCOL, UNTIL_TRUSTED, is_stripped};

/// What may be lost within an `if`, with a comment.
const HARMLESS: [&str; 6] = ["access_log", "add_header", "expires", "gzip", "limit_rate", "log_not_found"];

/// The native expression for an empty value.
pub(super) const NOTHING: &str = "(?:)";

/// For whom a rule holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Whom {
    /// Everybody who came so far.
    All,
    /// Requests like this.
    Like(When),
    /// Requests with any other method.
    NotMethods(Vec<String>),
    /// Requests for these hosts.
    Hosts(Vec<String>),
    /// Paths that a native expression matches.
    Paths(String),
}

/// Why a condition on a field lets nobody in.
const ANY_VALUE: &str = "of a field that comes twice nginx reads one value, and ours any";

impl Whom {
    /// Whether it holds for a value of a field, of which there may be several.
    fn is_by_value(&self) -> bool {
        matches!(self, Whom::Like(when) if !when.values.is_empty())
    }
}

/// What is done with them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome<'d> {
    /// These keys of a route.
    Keys(Map),
    /// The handler that stands within this `if`.
    Handled(&'d Directive),
    /// The handler gets another path: a native template, with `rewrite … break`.
    Rewritten(String),
    /// It cannot be said; the comment says why.
    Closed(String),
    /// Nothing but what the location does, with what stands in this `if`. Rules that follow are asked, too.
    Passed(&'d Directive),
}

impl Outcome<'_> {
    /// Whether rules that follow are asked all the same.
    fn goes_on(&self) -> bool {
        match self {
            Outcome::Handled(_) | Outcome::Passed(_) => true,
            Outcome::Keys(_) | Outcome::Rewritten(_) | Outcome::Closed(_) => false,
        }
    }

    /// Whether the client gets nothing of what the location has: an error, or another URL.
    fn turns_away(&self) -> bool {
        match self {
            Outcome::Closed(_) => true,
            Outcome::Keys(keys) => match (keys.get("respond"), keys.get("redirect")) {
                (Some(Value::Map(respond)), _) => {
                    matches!(respond.get("status"), Some(Value::Plain(status)) if status.parse().is_ok_and(|status: u16| status >= 300))
                }
                (_, redirect) => redirect.is_some(),
            },
            Outcome::Handled(_) | Outcome::Passed(_) | Outcome::Rewritten(_) => false,
        }
    }
}

/// A rule, in its order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule<'d> {
    pub(crate) whom: Whom,
    pub(crate) outcome: Outcome<'d>,
}

/// What the rules of a level are read with.
pub(crate) struct Reading<'r> {
    pub(crate) report: &'r Report,
    /// The directives of `http`, which define variables.
    pub(crate) http: &'r [Directive],
    pub(crate) values: &'r mut Values,
    /// The hosts of the server; whether others come to it, too.
    pub(crate) hosts: &'r [String],
    pub(crate) is_default: bool,
    /// Whether the handshake demands a client certificate.
    pub(crate) has_certificate: bool,
    /// Whether it is known who the client is.
    pub(crate) is_client_known: bool,
    /// Whether fields are read whose names have underscores.
    pub(crate) has_underscores: bool,
    /// The extension that every path here has.
    pub(crate) extension: Option<String>,
    /// The paths of the location.
    pub(crate) language: Option<&'r Language>,
    /// Comments for what is left out.
    pub(crate) comments: &'r mut Vec<String>,
}

impl Reading<'_> {
    /// The rules of a level, of which the first that holds counts; the scope is that of the level.
    pub(crate) fn rules<'d>(&mut self, scope: &Scope<'d>) -> Vec<Rule<'d>> {
        let rules = self.in_order(scope);
        let mut rules = self.settled(rules);
        let is_over = |rule: &Rule<'d>| rule.whom == Whom::All && !rule.outcome.goes_on();
        let reached = rules.iter().position(is_over).unwrap_or(rules.len());
        for rule in rules.iter_mut().take(reached).filter(|rule| rule.whom.is_by_value()) {
            if let Outcome::Handled(directive) = rule.outcome {
                rule.outcome = self.closed(directive, ANY_VALUE);
            }
        }
        rules
    }

    /// Of rules in the order of the file those that end the request count first, and of the others the last that holds.
    fn settled<'d>(&self, rules: Vec<Rule<'d>>) -> Vec<Rule<'d>> {
        let Some(first) = rules.iter().position(|rule| matches!(rule.outcome, Outcome::Handled(_))) else {
            return rules.into_iter().filter(|rule| !matches!(rule.outcome, Outcome::Passed(_))).collect();
        };
        let behind = rules.get(first..).unwrap_or_default();
        for rule in behind {
            let (directive, why) = match &rule.outcome {
                Outcome::Passed(directive) => (*directive, "it holds beside an `if` that forwards elsewhere"),
                Outcome::Rewritten(_) => match rules.get(first).map(|rule| &rule.outcome) {
                    Some(Outcome::Handled(directive)) => (*directive, "a path is rewritten behind it"),
                    _ => continue,
                },
                Outcome::Keys(_) | Outcome::Handled(_) | Outcome::Closed(_) => continue,
            };
            return vec![Rule { whom: Whom::All, outcome: self.closed(directive, why) }];
        }
        let (mut later, mut out): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| rule.outcome.goes_on());
        later.retain(|rule| !matches!(rule.outcome, Outcome::Passed(_)));
        out.extend(later.into_iter().rev());
        out
    }

    /// The rules of a level in the order of the file.
    fn in_order<'d>(&mut self, scope: &Scope<'d>) -> Vec<Rule<'d>> {
        let mut out = Vec::new();
        let is_first = |directive: &&Directive| directive.name.starts_with("server_rewrite_by_lua");
        if let Some(script) = scope.levels().flatten().find(is_first) {
            return vec![Rule { whom: Whom::All, outcome: self.closed(script, "a script decides before any rule") }];
        }
        for directive in scope.own() {
            match directive.name.as_str() {
                "set" => {
                    let name = directive.arg(0).trim_start_matches('$');
                    // What is there by itself and can be set changes the request.
                    if matches!(name, "args" | "query_string" | "limit_rate") {
                        let outcome = self.closed(directive, "it changes the request");
                        out.push(Rule { whom: Whom::All, outcome });
                        return out;
                    }
                    self.values.assign(name, directive.arg(1));
                }
                name if name.starts_with("set_") => self.values.forget(directive.arg(0).trim_start_matches('$')),
                "return" => {
                    let outcome = self.returned(directive, scope);
                    out.push(Rule { whom: Whom::All, outcome });
                    return out;
                }
                // The rule behind it has the target as it was sent.
                "rewrite" if is_untouched(scope.own(), directive) => {}
                "rewrite" => {
                    let (directive, within) = of_slash(directive);
                    let directive = directive.as_ref();
                    // What goes on within the segment would be no path.
                    let is_met = |text: &String| self.language.is_none_or(|language| !is_apart(text, language));
                    out.extend(within.filter(is_met).map(|text| Rule {
                        whom: Whom::Paths(text),
                        outcome: self.closed(directive, "what this makes of the path is none"),
                    }));
                    let rule = self.rewritten(directive);
                    let is_last = rule.as_ref().is_some_and(|rule| rule.whom == Whom::All);
                    out.extend(rule);
                    if is_last {
                        return out;
                    }
                }
                "if" => {
                    let rules = self.conditional(directive, scope);
                    let is_last = rules.iter().any(|rule| rule.whom == Whom::All && !rule.outcome.goes_on());
                    out.extend(rules);
                    if is_last {
                        return out;
                    }
                }
                "break" => break,
                // The others are no rules.
                _ => {}
            }
        }
        out
    }

    fn closed<'d>(&self, directive: &Directive, why: &str) -> Outcome<'d> {
        Outcome::Closed(self.report.left_out(&directive.place, &directive.shown(), &format!("{why}; answered 501")))
    }

    /// `return CODE [TEXT]`, `return CODE URL`, `return URL`.
    fn returned<'d>(&self, directive: &Directive, scope: &Scope<'_>) -> Outcome<'d> {
        let first = directive.arg(0);
        let (status, text) = match first.parse::<u16>() {
            Ok(status) => (status, directive.args.get(1).map(String::as_str)),
            Err(_) => (302, Some(first)),
        };
        match (status, text) {
            (301 | 302 | 303 | 307 | 308, Some(url)) => match self.redirect(status, url, false) {
                Ok(keys) => Outcome::Keys(keys),
                Err(why) => self.closed(directive, &why),
            },
            (444, _) => {
                let mut keys = respond(403);
                keys.comment(self.report.differs(
                    &directive.place,
                    "return 444",
                    "a response 403 in place of a closed connection",
                ));
                Outcome::Keys(keys)
            }
            (200..=599, text) => {
                let text = text.filter(|_| !matches!(status, 204 | 205 | 304)).unwrap_or_default();
                let Some(body) = self.values.constant(text) else {
                    return self.closed(directive, "a body with variables");
                };
                let mut keys = Map::of([("status", Value::plain(status))]);
                if !body.is_empty() {
                    keys.set("body", body);
                    keys.set("content_type", self.media_type(scope));
                }
                Outcome::Keys(Map::of([("respond", keys.into())]))
            }
            _ => self.closed(directive, "a status that is no response"),
        }
    }

    /// The media type of a body: by the extension of the path, where that is known, else the default.
    fn media_type(&self, scope: &Scope<'_>) -> String {
        let of_type = |types: &Directive| {
            let extension = self.extension.as_deref()?;
            types.inner().iter().find(|row| row.args.iter().any(|one| one == extension)).map(|row| row.name.clone())
        };
        // What is known unless it is said otherwise.
        let built_in = || match (scope.one("types"), self.extension.as_deref()) {
            (None, Some("html")) => Some("text/html".to_owned()),
            (None, Some("gif")) => Some("image/gif".to_owned()),
            (None, Some("jpg")) => Some("image/jpeg".to_owned()),
            _ => None,
        };
        let known = scope.one("types").and_then(of_type).or_else(built_in);
        known.unwrap_or_else(|| scope.word("default_type").unwrap_or("text/plain").to_owned())
    }

    /// The keys of a redirect.
    fn redirect(&self, status: u16, url: &str, appends: bool) -> Result<Map, String> {
        let (to, query) = self.values.target(url)?;
        let is_url = ["/", "https://", "http://"].iter().any(|start| to.starts_with(start));
        if !is_url || to.contains('#') || to.starts_with("//") {
            // What is no URL of ours stands in the field as it is.
            if to.contains('{') || query == Query::Keep {
                return Err("its target is no URL of http".to_owned());
            }
            let field = Map::of([("Location", Value::text(self.values.field(url)?))]);
            let mut keys = respond(status);
            keys.set("response_headers", Map::of([("add", field.into())]));
            return Ok(keys);
        }
        if query == Query::Keep && to.contains('?') {
            return Err("the URL of the request within a query".to_owned());
        }
        let mut redirect = Map::of([("to", Value::text(to.clone())), ("status", Value::plain(status))]);
        match (appends, query) {
            (true, _) if to.contains('?') => redirect.set("query", "append"),
            (true, _) | (false, Query::Keep) => {}
            (false, Query::Drop) => redirect.set("query", "drop"),
        }
        Ok(Map::of([("redirect", redirect.into())]))
    }

    /// `rewrite REGEX TARGET [FLAG]`.
    fn rewritten<'d>(&mut self, directive: &Directive) -> Option<Rule<'d>> {
        let (pattern, target, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
        let is_url = ["http://", "https://", "$scheme"].iter().any(|start| target.starts_with(start));
        let status = match flag {
            "permanent" => Some(301),
            "redirect" => Some(302),
            _ if is_url => Some(302),
            _ => None,
        };
        let expression = match native(pattern, false, Subject::Decoded) {
            Ok(expression) => expression,
            Err(why) => return Some(Rule { whom: Whom::All, outcome: self.closed(directive, &why) }),
        };
        let groups = Expression::new(&expression).map(|found| found.groups().to_vec()).unwrap_or_default();
        let outer = std::mem::replace(&mut self.values.groups, groups);
        let (target, is_every) = of_every(&expression, target);
        let target = target.as_str();
        let (plain, drops) = target.strip_suffix('?').map_or((target, false), |target| (target, true));
        let outcome = match (status, flag) {
            (Some(status), _) => match self.redirect(status, plain, !drops) {
                Ok(keys) => Outcome::Keys(keys),
                Err(why) => self.closed(directive, &why),
            },
            (None, "break") if plain.starts_with('/') => match self.values.target(plain) {
                Ok((_, Query::Keep)) => self.closed(directive, "the URL of the request in a rewritten path"),
                Ok((_, Query::Drop)) if drops => self.closed(directive, "the query of the request would go on"),
                Ok((to, Query::Drop)) => Outcome::Rewritten(to),
                Err(why) => self.closed(directive, &why),
            },
            _ => self.closed(directive, "a path is looked up again under another name"),
        };
        self.values.groups = outer;
        let whom = if is_every { Whom::All } else { Whom::Paths(expression) };
        Some(Rule { whom, outcome })
    }

    /// `if (…) { … }`.
    fn conditional<'d>(&mut self, directive: &'d Directive, scope: &Scope<'d>) -> Vec<Rule<'d>> {
        let within = scope.within(directive.inner());
        let is_like = |name: &str| directive.inner().iter().any(|inner| inner.name == name);
        let whom = match self.condition(&directive.args) {
            // What is set for some only is not known later.
            Ok(Some(whom)) if is_like("set") && whom != Whom::All => {
                let outcome = self.closed(directive, "a variable is set for some requests only");
                return vec![Rule { whom: Whom::All, outcome }];
            }
            Ok(Some(whom)) => whom,
            Ok(None) => return Vec::new(),
            Err(why) => {
                // What decides about a request must not be lost.
                let decides = directive.inner().iter().any(|inner| !HARMLESS.contains(&inner.name.as_str()));
                if decides {
                    let outcome = self.closed(directive, &why);
                    return vec![Rule { whom: Whom::All, outcome }];
                }
                self.comments.push(self.report.left_out(&directive.place, &directive.shown(), &why));
                return vec![Rule { whom: Whom::All, outcome: Outcome::Passed(directive) }];
            }
        };
        let mut rules = Vec::new();
        for rule in self.in_order(&within) {
            match (rule.whom, &whom) {
                (Whom::All, _) => rules.push(Rule { whom: whom.clone(), outcome: rule.outcome }),
                (inner, Whom::All) => rules.push(Rule { whom: inner, outcome: rule.outcome }),
                // Both a path and something else: the path is not looked at, and what would be done is not done.
                _ => rules
                    .push(Rule { whom: whom.clone(), outcome: self.closed(directive, "a condition within another") }),
            }
        }
        let is_pass = |inner: &Directive| matches!(inner.name.as_str(), "proxy_pass" | "grpc_pass");
        if directive.inner().iter().any(is_pass) {
            rules.push(Rule { whom: whom.clone(), outcome: Outcome::Handled(directive) });
        }
        let is_over = rules.iter().any(|rule| rule.whom == whom);
        if !is_over {
            rules.push(Rule { whom: whom.clone(), outcome: Outcome::Passed(directive) });
        }
        // Rules that follow would not be asked; ours would ask them.
        let is_rule = |other: &&Directive| matches!(other.name.as_str(), "if" | "return" | "rewrite" | "set");
        let behind = scope.own().iter().skip_while(|other| !std::ptr::eq(*other, directive)).skip(1).find(is_rule);
        if is_like("break") && (behind.is_some() || !directive.inner().iter().any(is_pass)) {
            rules.push(Rule {
                whom: whom.clone(),
                outcome: self.closed(directive, "rules that follow are passed over"),
            });
        }
        for inner in directive.inner() {
            match inner.name.as_str() {
                "return" | "rewrite" | "set" | "break" | "proxy_pass" | "grpc_pass" | "access_log" => {}
                "add_header" | "expires" | "limit_rate" | "gzip" | "error_page" | "proxy_set_header" => {
                    let why = "within `if`; it is left out there";
                    self.comments.push(self.report.left_out(&inner.place, &inner.shown(), why));
                }
                _ => {
                    let outcome = self.closed(inner, "within `if`");
                    rules.push(Rule { whom: whom.clone(), outcome });
                }
            }
        }
        let rules = self.exact(directive, &whom, rules);
        self.trusting(directive, &whom, rules)
    }

    /// Who says that the client came by http is a proxy in front, which has to be named: until then, nobody is believed. A redirect opens nothing.
    fn trusting<'d>(&mut self, directive: &'d Directive, whom: &Whom, mut rules: Vec<Rule<'d>>) -> Vec<Rule<'d>> {
        let Whom::Like(when) = whom else { return rules };
        if !when.values.iter().any(|value| value.name == PROTOCOL) {
            return rules;
        }
        let redirects =
            |rule: &Rule<'d>| matches!(&rule.outcome, Outcome::Keys(keys) if keys.get("redirect").is_some());
        if rules.iter().all(redirects) {
            self.comments.push(self.report.left_out(&directive.place, &directive.shown(), UNTIL_TRUSTED));
            return rules;
        }
        for rule in &mut rules {
            let why = format!("`{PROTOCOL}` is what any client may send, and is removed before routes are chosen");
            rule.outcome = self.closed(directive, &why);
        }
        rules
    }

    /// Of a field that comes twice nginx reads one value, and ours any: that may turn somebody away, but not let him in.
    fn exact<'d>(&self, directive: &'d Directive, whom: &Whom, mut rules: Vec<Rule<'d>>) -> Vec<Rule<'d>> {
        // Whether one that forwards counts is known once all rules are.
        let opens = |rule: &&mut Rule<'d>| !rule.outcome.goes_on() && !rule.outcome.turns_away();
        for rule in rules.iter_mut().filter(|_| whom.is_by_value()).filter(opens) {
            rule.outcome = self.closed(directive, ANY_VALUE);
        }
        rules
    }

    /// For whom a condition holds; none if for nobody.
    fn condition(&self, args: &[String]) -> Result<Option<Whom>, String> {
        let mut words: Vec<String> = args.to_vec();
        if let Some(first) = words.first_mut() {
            *first = first.strip_prefix('(').unwrap_or(first).to_owned();
        }
        if let Some(last) = words.last_mut() {
            *last = last.strip_suffix(')').unwrap_or(last).to_owned();
        }
        words.retain(|word| !word.is_empty());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (left, operator, right) = match words.as_slice() {
            [left] => (*left, "", ""),
            [left, operator @ ("=" | "!=")] => (*left, *operator, ""),
            [left, operator, right] => (*left, *operator, *right),
            _ => return Err("its condition is not understood".to_owned()),
        };
        if left.starts_with(['-', '!']) {
            return Err("whether a file is there".to_owned());
        }
        let all = |holds: bool| Ok(holds.then_some(Whom::All));
        if let (Some(name), Some(right)) = (self.values.shadowed(left), self.values.constant(right))
            && is_variable(left, &name)
        {
            return self.mapped(&name, operator, &right);
        }
        if let Some(name) = self.values.shadowed(left).or_else(|| self.values.shadowed(right)) {
            return Err(format!("`${name}` has no counterpart: the configuration defines it"));
        }
        if let (Some(text), Some(right)) = (self.values.constant(left), self.values.constant(right)) {
            return all(holds(&text, operator, &right)?);
        }
        if is_variable(left, "ssl_client_verify") && self.has_certificate {
            return all(holds("SUCCESS", operator, right)?);
        }
        let Some(right) = self.values.constant(right) else {
            return Err("two things of a request are compared".to_owned());
        };
        let left = self.values.expanded(left)?;
        let Some(name) = variable_of(&left) else { return Err("several things of a request are compared".to_owned()) };
        if self.values.groups.iter().any(|group| group == name) {
            return Err(format!("`${name}` is a part of the path"));
        }
        match name {
            "request_method" => methods(operator, &right),
            "host" => self.hosts(operator, &right),
            "http_host" => Err("`$http_host` has the port and the case that the client sent".to_owned()),
            "remote_addr" => self.client(operator, &right),
            _ => self.value(name, operator, &right).map(|when| Some(Whom::Like(when))),
        }
    }

    /// A condition on the host, which is known beforehand.
    fn hosts(&self, operator: &str, right: &str) -> Result<Option<Whom>, String> {
        let mut chosen = Vec::new();
        for host in self.hosts {
            match host.starts_with("*.") {
                false if holds(host, operator, right)? => chosen.push(host.clone()),
                false => {}
                true => return Err("hosts that are not known are compared".to_owned()),
            }
        }
        // Others come to a default server; which of them are equal to a name is known.
        if self.is_default && operator == "=" && crate::addresses::is_host(right) {
            // `$host` has no capitals.
            let is_lower = !right.bytes().any(|byte| byte.is_ascii_uppercase());
            return Ok(is_lower.then(|| Whom::Hosts(vec![right.to_owned()])));
        }
        if self.is_default {
            return Err("hosts that are not known are compared".to_owned());
        }
        match chosen.len() {
            0 => Ok(None),
            all if all == self.hosts.len() => Ok(Some(Whom::All)),
            _ => Ok(Some(Whom::Hosts(chosen))),
        }
    }

    /// A condition on the client's address, which is compared as text.
    fn client(&self, operator: &str, right: &str) -> Result<Option<Whom>, String> {
        if !self.is_client_known {
            return Err("it is not known who the client is".to_owned());
        }
        if operator != "=" {
            return Err("of addresses only one can be a condition".to_owned());
        }
        let address = right.parse::<std::net::IpAddr>().ok().filter(|address| address.to_string() == right);
        // Nobody has an address that is no such text.
        Ok(address.map(|address| Whom::Like(When::of_client(address.into()))))
    }

    /// A condition on a field of the request.
    pub(super) fn value(&self, variable: &str, operator: &str, right: &str) -> Result<When, String> {
        let Some(name) = variable.strip_prefix("http_") else {
            return Err(match variable.starts_with("arg_") || variable.starts_with("cookie_") {
                true => "nginx reads the first argument or cookie of a name in any case, and arguments as they are sent; ours any of this name, decoded".to_owned(),
                false => format!("`${variable}` cannot be a condition"),
            });
        };
        if self.has_underscores && name.contains('_') {
            return Err("fields whose names have underscores are read, too (`underscores_in_headers`)".to_owned());
        }
        let (of, name) = (Of::Header, name.replace('_', "-"));
        let wanted = matches(operator, right)?;
        // From trusted proxies some stay; there, they hold whoever sends them.
        if name != PROTOCOL && is_stripped(&name) {
            return Err(format!("`{name}` is what any client may send, and is removed before routes are chosen"));
        }
        if name != PROTOCOL && FieldKind::of(name.as_bytes()) != FieldKind::Plain || name == "cookie" {
            return Err(format!("`{name}` is read by the proxy itself, or made one of several"));
        }
        Ok(When::value_of(of, &name, wanted))
    }
}

/// What a value must be. What is not there is empty to nginx.
fn matches(operator: &str, right: &str) -> Result<Vec<Match>, String> {
    Ok(match operator {
        // Neither empty nor `0`.
        "" => vec![Match::Regex("[^0].*|0.+".to_owned())],
        "=" if right.is_empty() => vec![Match::Regex(NOTHING.to_owned()), Match::Absent],
        "=" => vec![Match::Exact(right.to_owned())],
        "!=" if right.is_empty() => vec![Match::Regex(".+".to_owned())],
        "!=" if other_than(&[right]).is_some() => {
            vec![Match::Regex(other_than(&[right]).unwrap_or_default()), Match::Absent]
        }
        "~" | "~*" => {
            let text = native(right, operator == "~*", Subject::Value)?;
            let takes_nothing = Expression::new(&text).map_err(|(what, _)| what)?.matches(b"");
            let absent = takes_nothing.then_some(Match::Absent);
            let text = if text.is_empty() { NOTHING.to_owned() } else { text };
            [Match::Regex(text)].into_iter().chain(absent).collect()
        }
        _ => return Err("that something is not so cannot be a condition".to_owned()),
    })
}

/// `rewrite ^/x(/.*) $1` with the slash before its group: `rewrite ^/x/(.*) /$1`; of `^/x(.*)` also what goes on without a slash, as a native expression.
fn of_slash(directive: &Directive) -> (Cow<'_, Directive>, Option<String>) {
    let same = (Cow::Borrowed(directive), None);
    let [pattern, target, rest @ ..] = directive.args.as_slice() else { return same };
    let whole = pattern.strip_suffix('$').unwrap_or(pattern);
    let group = [("(/.*)", true), ("(.*)", false)].into_iter();
    let found = group.filter_map(|(group, has_slash)| Some((whole.strip_suffix(group)?, has_slash))).next();
    let Some((start, has_slash)) = found.filter(|(start, _)| !start.contains(['(', '|', '[']) && !start.ends_with('/'))
    else {
        return same;
    };
    if !target.starts_with("$1") || !start.starts_with("^/") || rest.first().is_none_or(|flag| flag != "break") {
        return same;
    }
    let args = [format!("{start}/(.*)$"), format!("/{target}")].into_iter().chain(rest.iter().cloned());
    let within = native(&format!("{start}([^/].*)?$"), false, Subject::Decoded).ok().filter(|_| !has_slash);
    (Cow::Owned(Directive { args: args.collect(), ..directive.clone() }), within)
}

/// Whether a directive has rules look at the target as the client sent it, of which the next one takes the start away, and what is left goes on:
/// `rewrite ^ $request_uri; rewrite ^/x(/.*) $1 break; proxy_pass http://app$uri;`.
pub(super) fn is_untouched(level: &[Directive], directive: &Directive) -> bool {
    let mut behind = level.iter().skip_while(|other| !std::ptr::eq(*other, directive)).skip(1);
    let is_rule = |other: &&Directive| matches!(other.name.as_str(), "if" | "return" | "rewrite" | "set" | "break");
    let (next, more) = (behind.clone().find(is_rule), behind.clone().filter(is_rule).count());
    let takes_start = |next: &Directive| {
        let pairs = [("(/.*)", "$1"), ("(.*)", "$1"), ("(.*)", "/$1")];
        matches!(next.args.as_slice(), [from, to, flag] if flag == "break" && pairs.iter().any(|(end, target)| from.ends_with(end) && to == target))
    };
    let is_sent = |pass: &Directive| pass.name == "proxy_pass" && pass.arg(0).ends_with("$uri");
    directive.args == ["^", "$request_uri"]
        && more == 1
        && next.is_some_and(|next| next.name == "rewrite" && takes_start(next))
        && behind.any(is_sent)
}

/// Whether an expression matches every path, and the target with the path in place of its group.
fn of_every(expression: &str, target: &str) -> (String, bool) {
    let whole = |target: String| (!target.contains("$1")).then_some(target);
    let found = match expression {
        ".*" | "/.*" => whole(target.to_owned()),
        "(.*)" | "(.+)" => whole(target.replace("$1", "$uri")),
        "/(.*)" => whole(target.replace("/$1", "$uri")),
        _ => None,
    };
    found.map_or((target.to_owned(), false), |target| (target, true))
}

/// Whether a comparison of two texts holds.
pub(super) fn holds(left: &str, operator: &str, right: &str) -> Result<bool, String> {
    let matches = |ignores_case: bool| {
        let expression = native(right, ignores_case, Subject::Value)?;
        Expression::new(&expression).map(|expression| expression.matches(left.as_bytes())).map_err(|(what, _)| what)
    };
    match operator {
        "" => Ok(!left.is_empty() && left != "0"),
        "=" => Ok(left == right),
        "!=" => Ok(left != right),
        "~" => matches(false),
        "~*" => matches(true),
        "!~" => matches(false).map(|found| !found),
        "!~*" => matches(true).map(|found| !found),
        _ => Err("its condition is not understood".to_owned()),
    }
}

/// A condition on the method: one, or an expression between `^` and `$` that is a list of names.
fn methods(operator: &str, right: &str) -> Result<Option<Whom>, String> {
    let (listed, is_not): (Vec<String>, bool) = match operator {
        "=" | "!=" => (vec![right.to_owned()], operator == "!="),
        "~" | "!~" | "~*" | "!~*" => {
            let inner = right.strip_prefix('^').and_then(|text| text.strip_suffix('$'));
            let inner = inner.ok_or("an expression on methods that is not between `^` and `$`")?;
            let group = inner.strip_prefix("(?:").or_else(|| inner.strip_prefix('('));
            let inner = match group.and_then(|text| text.strip_suffix(')')) {
                Some(inner) => inner,
                None if inner.contains('|') => return Err("its expression is no list of methods".to_owned()),
                None => inner,
            };
            let of =
                |method: &str| if operator.ends_with('*') { method.to_ascii_uppercase() } else { method.to_owned() };
            (inner.split('|').map(of).collect(), operator.starts_with('!'))
        }
        _ => return Err("its condition is not understood".to_owned()),
    };
    if !listed.iter().all(|method| is_method(method)) {
        return Err("its methods are no list".to_owned());
    }
    Ok(Some(match is_not {
        true => Whom::NotMethods(listed),
        false => Whom::Like(When::of_methods(listed)),
    }))
}
