//! What becomes of the requests of a host and a set of paths: the rules of a frontend and of the backend that they lead to, one after the other. A test that
//! only a request decides makes two cases of it, and both go on.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Making;
use super::acl::{Condition, Test, Truth};
use super::criterion::UNBELIEVED;
use super::region::{Meetings, Region};
use super::rules::{Action, Edit, Message, Rule, ends_nothing};
use super::template::{self, Facts};
use crate::addresses::is_authority;
use crate::cells::Language;
use crate::conditions::{When, is_in};
use crate::header_fields::field_fits;
use crate::native::{Map, Value};
use crate::sites::{Cell, REST, Variant, respond, without_implied};
use crate::stripped::UNTIL_TRUSTED;

mod limits;

/// Most steps for one site.
const MAX_STEPS: usize = 20_000;
/// Most cases of one set of paths.
const MAX_VARIANTS: usize = 64;
/// Most expressions that cut through one set of paths.
const MAX_CUTS: usize = 6;

/// Whose requests are looked at.
pub(crate) struct Site<'s> {
    pub(crate) facts: Facts,
    /// A host pattern; none for any other host.
    pub(crate) host: Option<&'s str>,
}

/// Where a walk is, with what is known of its requests.
struct Walk<'s> {
    site: &'s Site<'s>,
    region: Region,
    steps: usize,
    meetings: Meetings,
}

/// Why there is no list of cases.
enum Stop {
    /// An expression cuts through the paths.
    Cut(String),
    TooMuch,
}

/// What is done to a message.
#[derive(Debug, Clone, Default)]
struct Edits {
    remove: BTreeSet<String>,
    set: BTreeMap<String, String>,
    add: Vec<(String, String)>,
}

/// What came of the rules so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    request: Edits,
    response: Edits,
    host: Option<String>,
    rewrite: Option<String>,
    is_source_unknown: bool,
    policies: Vec<String>,
    pub(crate) comments: Vec<String>,
    max_body: Option<u64>,
    tracks: BTreeMap<String, (String, String)>,
    assumed: Vec<(When, bool)>,
    /// Fields of the request that were edited in a way that is not carried.
    obscured: BTreeSet<String>,
    stopped: Option<(usize, u8)>,
    pub(crate) front: usize,
    /// The server of `use-server`.
    server: Option<String>,
}

/// What comes of a rule that holds.
enum Done {
    /// The next rule is asked.
    Next,
    /// These rules are asked, and no other.
    Jump(Rc<[Rule]>),
    End(Map),
}

impl Making<'_> {
    /// The cells of a site whose requests come to a frontend.
    pub(crate) fn cells(&mut self, front: usize, site: &Site<'_>, languages: &[Language]) -> Vec<Cell> {
        let todo = self.first_rules(front);
        let mut walk = Walk {
            site,
            region: Region::of(Language::Prefix("/".to_owned())),
            steps: self.steps.min(MAX_STEPS),
            meetings: std::mem::take(&mut self.meetings),
        };
        let mut found: Vec<(Language, Vec<Cell>)> = Vec::new();
        for region in Region::all(languages.iter()) {
            let base = region.base().clone();
            let mut cells = Vec::new();
            self.region(&mut walk, &todo, front, region, MAX_CUTS, &mut cells);
            let is_one = cells.windows(2).all(|pair| matches!(pair, [one, other] if one.variants == other.variants));
            if is_one && cells.len() > 1 {
                let variants = cells.swap_remove(0).variants;
                cells = vec![Cell { language: base.clone(), variants }];
            }
            found.push((base, cells));
        }
        self.steps = self.steps.saturating_sub(MAX_STEPS.saturating_sub(walk.steps));
        self.meetings = walk.meetings;
        without_repetitions(found)
    }

    fn region(
        &mut self,
        walk: &mut Walk<'_>,
        todo: &Rc<[Rule]>,
        front: usize,
        region: Region,
        cuts: usize,
        out: &mut Vec<Cell>,
    ) {
        walk.region = region.clone();
        match self.run(walk, todo, 0, State { front, ..State::default() }) {
            Ok(variants) => out.push(Cell { language: region.language(), variants }),
            Err(Stop::Cut(by)) if cuts > 0 => {
                for part in region.cut(&by, &mut walk.meetings) {
                    self.region(walk, todo, front, part, cuts - 1, out);
                }
            }
            Err(_) => {
                let mut keys = respond(501);
                if let Some(proxy) = self.proxies.get(front) {
                    let why = "its rules make too many cases; answered 501";
                    keys.comment(self.report.left_out(&proxy.place, &format!("frontend {}", proxy.name), why));
                }
                out.push(Cell { language: region.language(), variants: vec![Variant { when: When::default(), keys }] });
            }
        }
    }

    /// The cases of requests from a rule on: the first that holds counts, the last holds always.
    fn run(
        &mut self,
        walk: &mut Walk<'_>,
        todo: &Rc<[Rule]>,
        at: usize,
        mut state: State,
    ) -> Result<Vec<Variant>, Stop> {
        let (mut todo, mut at) = (Rc::clone(todo), at);
        loop {
            walk.steps = walk.steps.checked_sub(1).ok_or(Stop::TooMuch)?;
            let Some(rule) = todo.get(at) else { return Ok(one(self.nowhere(&state))) };
            if state.stopped == Some(rule.list) {
                at += 1;
                continue;
            }
            match truth(walk, &state, &rule.condition, &[]) {
                Truth::Path(_) | Truth::Depends(_) | Truth::Unknown(_) if ends_nothing(&todo, at) => at += 1,
                Truth::Path(by) => return Err(Stop::Cut(by)),
                // What is left of a rule when its addresses are a policy is asked again.
                Truth::Depends(when) if self.by_address(walk, rule, &when, &mut state) => {}
                Truth::Depends(when) => return self.two_cases(walk, (&todo, at), &state, &when),
                Truth::No => {
                    match self.limits(walk, rule, &mut state) {
                        Truth::Path(by) => return Err(Stop::Cut(by)),
                        Truth::Depends(when) => return self.two_cases(walk, (&todo, at), &state, &when),
                        Truth::Unknown(why) => {
                            if let Some(keys) = self.unknown(rule, &why, &mut state) {
                                return Ok(one(keys));
                            }
                        }
                        Truth::Yes | Truth::No => {}
                    }
                    at += 1;
                }
                Truth::Yes if rule.condition.has_limits() && ends_nothing(&todo, at) => at += 1,
                Truth::Yes => match limits::beyond(walk, rule, &state) {
                    Truth::Yes => match self.act(walk, rule, &mut state) {
                        Done::Next => at += 1,
                        Done::Jump(next) => (todo, at) = (next, 0),
                        Done::End(keys) => return Ok(one(keys)),
                    },
                    Truth::Path(by) => return Err(Stop::Cut(by)),
                    Truth::Depends(when) => return self.two_cases(walk, (&todo, at), &state, &when),
                    Truth::No => at += 1,
                    Truth::Unknown(why) => match self.unknown(rule, &why, &mut state) {
                        Some(keys) => return Ok(one(keys)),
                        None => at += 1,
                    },
                },
                Truth::Unknown(why) => {
                    if let Some(when) = rule.redirected().filter(|when| !state.is_assumed(when)) {
                        self.left(rule, UNTIL_TRUSTED, &mut state);
                        return self.two_cases(walk, (&todo, at), &state, when);
                    }
                    if let Some(keys) = self.unknown(rule, &why, &mut state) {
                        return Ok(one(keys));
                    }
                    at += 1;
                }
            }
        }
    }

    /// Requests like this, and all others.
    fn two_cases(
        &mut self,
        walk: &mut Walk<'_>,
        (todo, at): (&Rc<[Rule]>, usize),
        state: &State,
        when: &When,
    ) -> Result<Vec<Variant>, Stop> {
        let case = |holds: bool| {
            let mut state = state.clone();
            state.assumed.push((when.clone(), holds));
            state
        };
        let like = self.run(walk, todo, at, case(true))?;
        let others = self.run(walk, todo, at, case(false))?;
        if like == others {
            return Ok(others);
        }
        let mut out = without_implied(when, &others);
        for variant in like {
            match when.and(&variant.when) {
                Ok(Some(both)) => out.push(Variant { when: both, keys: variant.keys }),
                Ok(None) => {}
                Err(()) => {
                    let why = "two conditions on one value; answered 501".to_owned();
                    let keys = todo.get(at).map_or_else(|| respond(501), |rule| self.closed(rule, &why, state));
                    out.push(Variant { when: when.clone(), keys });
                    break;
                }
            }
        }
        out.extend(others);
        if out.len() > MAX_VARIANTS {
            return Err(Stop::TooMuch);
        }
        Ok(out)
    }

    /// A rule that keeps addresses out: a policy says it, and all others go on.
    fn by_address(&mut self, walk: &mut Walk<'_>, rule: &Rule, when: &When, state: &mut State) -> bool {
        let is_plain = matches!(&rule.action, Action::Respond(words) if matches!(words.as_slice(), [one] if one == "deny" || one == "reject"));
        if !is_plain || !when.is_of_clients() || rule.condition.has_limits() {
            return false;
        }
        let mut case = |holds: bool| {
            let mut state = state.clone();
            state.assumed.push((when.clone(), holds));
            truth(walk, &state, &rule.condition, &[])
        };
        let key = match (case(true), case(false)) {
            (Truth::Yes, Truth::No) => "deny",
            (Truth::No, Truth::Yes) => "allow",
            _ => return false,
        };
        let plain = |network: &ipnet::IpNet| match network.prefix_len() == network.max_prefix_len() {
            true => network.addr().to_string(),
            false => network.to_string(),
        };
        let mut policy =
            Map::of([(key, Value::List(when.client.iter().map(|network| Value::text(plain(network))).collect()))]);
        policy.comment(format!("{}: {}", rule.place, rule.shown));
        let name = self.draft.policies.intern("access", policy);
        state.policy(name);
        state.assumed.push((when.clone(), key == "allow"));
        true
    }

    /// What a rule that holds does.
    fn act(&mut self, walk: &Walk<'_>, rule: &Rule, state: &mut State) -> Done {
        let facts = walk.site.facts;
        let comment = format!("{}: {}", rule.place, rule.shown);
        match &rule.action {
            Action::Stop => state.stopped = Some(rule.list),
            Action::Source => {
                let why =
                    "name the proxies in front in `trusted_proxies`; until then rules about addresses let nobody pass";
                state.comments.push(self.report.left_out(&rule.place, &rule.shown, why));
                state.is_source_unknown = true;
            }
            Action::Respond(words) if state.has_changed(words) => {
                return Done::End(self.closed(rule, "what it puts in was changed before; answered 501", state));
            }
            Action::Respond(words) => {
                let mut keys = match self.responded((words, &rule.place), facts, state.rewrite.is_some()) {
                    Ok(keys) => keys,
                    Err(why) => return Done::End(self.closed(rule, &format!("{why}; answered 501"), state)),
                };
                keys.comment(comment);
                return Done::End(finished(keys, state));
            }
            Action::Ask(realm) => self.ask(rule, realm.as_deref(), state),
            Action::Edit { message, edit, field, value } => {
                self.edit(rule, (*message, *edit), (field, value), facts, state)
            }
            Action::Host(value) => match template::field(value, facts) {
                Ok(text) if text == "{authority}" => {}
                Ok(text) if is_authority(&text) || is_named(&text) => state.host = Some(text),
                _ => {
                    return Done::End(self.closed(
                        rule,
                        "the host is that of the client, or a fixed one; answered 501",
                        state,
                    ));
                }
            },
            Action::BeginsWith(start) if begins_with(&walk.region, start) => {}
            Action::BeginsWith(_) => {
                let why = "a path that holds this further on is changed, too; answered 501";
                return Done::End(self.closed(rule, why, state));
            }
            Action::Path { .. } | Action::WholePath(_) => match rewritten(&walk.region, &rule.action, state) {
                Ok(rewrite) => state.rewrite = rewrite.or(state.rewrite.take()),
                Err(why) => return Done::End(self.closed(rule, why, state)),
            },
            Action::Track { slot, key, table } => {
                let table = table.clone().unwrap_or_else(|| rule.proxy.clone());
                // The first that holds counts.
                state.tracks.entry(slot.clone()).or_insert((key.clone(), table));
            }
            Action::Backend(name) => {
                state.comments.push(comment);
                return match self.backend_rules(name, state.front) {
                    Some(next) => Done::Jump(next),
                    None => Done::End(self.closed(rule, "there is no such backend; answered 501", state)),
                };
            }
            Action::Server(name) => state.server = state.server.take().or(Some(name.clone())),
            Action::Forward(name) => return Done::End(self.forwarded(rule, name, state)),
            Action::LeftOut(why) => self.left(rule, why, state),
            Action::Obscured(field, why) => {
                state.obscure(field);
                self.left(rule, why, state);
            }
            Action::Closed(why) => return Done::End(self.closed(rule, &format!("{why}; answered 501"), state)),
        }
        Done::Next
    }

    fn left(&self, rule: &Rule, why: &str, state: &mut State) {
        state.comments.push(self.report.left_out(&rule.place, &rule.shown, why));
    }

    /// A rule of which nobody knows whether it holds; the keys if that decides about the request.
    fn unknown(&mut self, rule: &Rule, why: &str, state: &mut State) -> Option<Map> {
        match &rule.action {
            Action::Track { .. } => {}
            Action::LeftOut(_) => self.left(rule, why, state),
            Action::Obscured(field, _) => {
                state.obscure(field);
                self.left(rule, why, state);
            }
            Action::Edit { message, edit, field, .. } => {
                self.left(rule, why, state);
                if *message == Message::Request {
                    state.obscure(field);
                } else if *edit == Edit::Remove && field_fits(field, "").is_ok() {
                    state.response.remove(field);
                }
            }
            _ => return Some(self.closed(rule, &format!("{why}; answered 501"), state)),
        }
        None
    }

    /// The keys for what cannot be carried.
    pub(crate) fn closed(&self, rule: &Rule, why: &str, state: &State) -> Map {
        let mut keys = respond(501);
        state.comments.iter().for_each(|comment| keys.comment(comment.as_str()));
        keys.comment(self.report.left_out(&rule.place, &rule.shown, why));
        keys
    }

    /// No rule leads anywhere: HAProxy has no server then.
    fn nowhere(&self, state: &State) -> Map {
        finished(respond(503), state)
    }

    /// `http-request auth`.
    fn ask(&mut self, rule: &Rule, realm: Option<&str>, state: &mut State) {
        let name = match self.passwords(rule, realm.unwrap_or(&rule.proxy)) {
            Ok(_) if state.has_changed(&["%[req.hdr(authorization)]".to_owned()]) => {
                let why = "`Authorization` was changed before; nobody passes";
                state.comments.push(self.report.left_out(&rule.place, &rule.shown, why));
                self.draft.closed()
            }
            Ok(policy) => self.draft.policies.intern("passwords", policy),
            Err(why) => {
                let why = format!("{why}; nobody passes until there is a policy such as `basic: {{ file: users }}`");
                state.comments.push(self.report.left_out(&rule.place, &rule.shown, &why));
                self.draft.closed()
            }
        };
        state.policy(name);
    }

    fn edit(
        &mut self,
        rule: &Rule,
        (message, edit): (Message, Edit),
        (field, value): (&str, &str),
        facts: Facts,
        state: &mut State,
    ) {
        let found = field_fits(field, "").and_then(|()| match edit {
            Edit::Remove => Ok(String::new()),
            _ => template::field(value, facts)
                .and_then(|value| state.seen(&value))
                .and_then(|value| field_fits(field, &value).map(|()| value)),
        });
        let is_read = found.as_ref().is_ok_and(|native| native.contains("{header."));
        if let Some(why) = template::whole(value).filter(|_| is_read) {
            self.left(rule, why, state);
        }
        if let Some(why) = template::differing(value).filter(|_| found.is_ok()) {
            self.left(rule, why, state);
        }
        let edits = if message == Message::Request { &mut state.request } else { &mut state.response };
        match found {
            Ok(value) => match edit {
                Edit::Remove => edits.remove(field),
                Edit::Set => {
                    edits.remove(field);
                    edits.remove.remove(field);
                    edits.set.insert(field.to_owned(), value);
                }
                Edit::Add => {
                    if let Err(why) = edits.append(field, value) {
                        self.left(rule, why, state);
                    }
                }
            },
            Err(why) => {
                if message == Message::Request && edit == Edit::Set && field_fits(field, "").is_ok() {
                    edits.remove(field);
                }
                if message == Message::Request {
                    state.obscured.insert(field.to_owned());
                }
                self.left(rule, &why, state);
            }
        }
    }

    /// A request that goes to the servers of a backend.
    fn forwarded(&mut self, rule: &Rule, name: &str, state: &mut State) -> Map {
        let upstream = match self.upstream(name, state.server.as_deref(), false) {
            Ok(Some(upstream)) => upstream,
            Ok(None) => return self.nowhere(state),
            Err(why) => return self.closed(rule, &format!("{why}; answered 501"), state),
        };
        let mut keys = Map::of([("upstream", Value::text(upstream))]);
        if let Some(rewrite) = &state.rewrite {
            keys.set("rewrite", rewrite.as_str());
        }
        match state.host.as_deref() {
            None => {}
            Some("{host}") => keys.set("host", "name"),
            Some(host) => keys.set("host", Map::of([("set", Value::text(host))])),
        }
        self.client_fields(name, state);
        for (key, edits) in [("request_headers", &state.request), ("response_headers", &state.response)] {
            let native = edits.native();
            if !native.is_empty() {
                keys.set(key, native);
            }
        }
        if let Some(size) = state.max_body {
            keys.set("max_body", crate::native::bytes(size));
        }
        if let Some(pages) = self.pages_of_backend(name, state.front) {
            keys.set("error_pages", pages);
        }
        if let Some(compression) = self.compression(name, state.front) {
            keys.set("compression", compression);
        }
        finished(keys, state)
    }

    /// `option forwardfor` and `unique-id-header`.
    fn client_fields(&mut self, name: &str, state: &mut State) {
        let back =
            self.proxies.iter().position(|proxy| proxy.name == name && proxy.kind != super::sections::Kind::Frontend);
        let mut places: Vec<usize> = vec![state.front];
        places.extend(back);
        for at in places {
            let Some(proxy) = self.proxies.get(at) else { continue };
            if let Some(line) = proxy.option("forwardfor") {
                let field = line.after("header").unwrap_or("x-forwarded-for").to_ascii_lowercase();
                if field_fits(&field, "").is_ok() {
                    state.request.set.entry(field).or_insert_with(|| "{client.address}".to_owned());
                }
            }
            if let Some(line) = proxy.one("unique-id-header") {
                let field = line.word(1).to_ascii_lowercase();
                if field_fits(&field, "").is_ok() {
                    state.request.set.entry(field).or_insert_with(|| "{request.id}".to_owned());
                }
            }
        }
    }
}

impl State {
    fn policy(&mut self, name: String) {
        if !self.policies.contains(&name) {
            self.policies.push(name);
        }
    }

    /// What a field of the request holds is not known any more: what the client says under its name is not what was meant.
    fn obscure(&mut self, field: &str) {
        self.obscured.insert(field.to_owned());
        if field_fits(field, "").is_ok() {
            self.request.remove(field);
        }
    }

    /// Whether a response of HAProxy's own puts in what was changed before.
    fn has_changed(&self, words: &[String]) -> bool {
        let is_redirect = words.first().is_some_and(|word| word == "redirect");
        let is_edited = |field: &str| match field {
            "host" => self.host.is_some() || self.obscured.contains(field),
            _ => {
                self.obscured.contains(field)
                    || self.request.remove.contains(field)
                    || self.request.set.contains_key(field)
                    || self.request.add.iter().any(|(name, _)| name == field)
            }
        };
        (is_redirect && self.host.is_some())
            || words.iter().flat_map(|word| template::fields_of(word)).any(|field| is_edited(&field))
    }

    /// What edits before say of a condition: none if they say nothing of its fields.
    fn edited(&self, when: &When) -> Option<Truth> {
        for field in when.fields() {
            let is_set = self.request.set.contains_key(field) || self.request.add.iter().any(|(name, _)| name == field);
            if self.obscured.contains(field) || is_set || (field == "host" && self.host.is_some()) {
                return Some(Truth::Unknown(format!("`{field}` was changed before")));
            }
            if self.request.remove.contains(field) {
                return Some(match when.asks_for_none(field) {
                    Some(true) => Truth::Yes,
                    Some(false) => Truth::No,
                    None => Truth::Unknown(format!("`{field}` was removed before")),
                });
            }
        }
        None
    }

    /// A template that names what earlier edits have changed, with what that is by then.
    ///
    /// # Errors
    /// What is not known any more.
    fn seen(&self, template: &str) -> Result<String, String> {
        let is_added = |field: &str| self.request.add.iter().any(|(name, _)| name == field);
        template::substituted(template, |variable| match (variable, &self.host, &self.rewrite) {
            ("authority" | "host", Some(host), _) if host.contains('{') => {
                Err("the host was changed before".to_owned())
            }
            ("authority", Some(host), _) => Ok(Some(host.clone())),
            ("host", Some(host), _) => {
                Ok(Some(host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name).to_owned()))
            }
            ("path", _, Some(_)) => Err("the path was changed before".to_owned()),
            _ => {
                let is_edited = |field: &str| {
                    self.request.set.contains_key(field)
                        || is_added(field)
                        || self.request.remove.contains(field)
                        || self.obscured.contains(field)
                };
                if variable.starts_with("cookie.") && is_edited("cookie") {
                    return Err("`cookie` was changed before".to_owned());
                }
                let Some(field) = variable.strip_prefix("header.") else { return Ok(None) };
                match self.request.set.get(field) {
                    Some(value) if !is_added(field) => Ok(Some(value.clone())),
                    None if !is_added(field)
                        && !self.request.remove.contains(field)
                        && !self.obscured.contains(field) =>
                    {
                        Ok(None)
                    }
                    _ => Err(format!("`{field}` was changed before")),
                }
            }
        })
    }

    /// Whether these are requests like this, or all others.
    fn is_assumed(&self, when: &When) -> bool {
        self.assumed.iter().any(|(assumed, _)| assumed == when)
    }

    /// What the assumed cases say of requests like this.
    fn like(&self, when: &When) -> Truth {
        if let Some(known) = self.edited(when) {
            return known;
        }
        if self.is_source_unknown && !when.client.is_empty() {
            return Truth::Unknown("the client is named by a field here".to_owned());
        }
        for (assumed, holds) in &self.assumed {
            let both = assumed.and(when);
            match (holds, both) {
                _ if assumed == when => return if *holds { Truth::Yes } else { Truth::No },
                (true, Ok(None)) => return Truth::No,
                (true, Ok(Some(both))) if both == *assumed => return Truth::Yes,
                (false, Ok(Some(both))) if both == *when => return Truth::No,
                _ => {}
            }
        }
        Truth::Depends(when.clone())
    }
}

impl Edits {
    fn remove(&mut self, field: &str) {
        self.set.remove(field);
        self.add.retain(|(name, _)| name != field);
        self.remove.insert(field.to_owned());
    }

    /// Adds a field, to which one more is a further value of it (RFC 9110 §5.3).
    ///
    /// # Errors
    /// Why it cannot be added.
    fn append(&mut self, field: &str, value: String) -> Result<(), &'static str> {
        match (self.add.iter_mut().find(|(name, _)| name == field), field) {
            (None, _) => self.add.push((field.to_owned(), value)),
            (Some(_), "set-cookie") => return Err("one such field is added, and another was before"),
            (Some((_, values)), _) => {
                values.push_str(if field == "cookie" { "; " } else { ", " });
                values.push_str(&value);
            }
        }
        Ok(())
    }

    fn native(&self) -> Map {
        let mut out = Map::default();
        if !self.remove.is_empty() {
            out.set("remove", Value::texts(self.remove.iter().cloned()));
        }
        let mut set = Map::default();
        self.set.iter().for_each(|(field, value)| set.set(field, value.as_str()));
        let mut add = Map::default();
        self.add.iter().for_each(|(field, value)| add.set(field, value.as_str()));
        for (key, fields) in [("set", set), ("add", add)] {
            if !fields.is_empty() {
                out.set(key, fields);
            }
        }
        out
    }
}

fn one(keys: Map) -> Vec<Variant> {
    vec![Variant { when: When::default(), keys }]
}

/// The keys with what holds for all that a request came by.
fn finished(mut keys: Map, state: &State) -> Map {
    if !state.policies.is_empty() {
        keys.set("policies", Value::List(state.policies.iter().map(|name| Value::text(name.as_str())).collect()));
    }
    keys.comment_first(&state.comments);
    keys
}

/// What a condition comes to, for a client that is beyond these of its limits, and known to be who it says where that is one of them.
fn truth(walk: &mut Walk<'_>, state: &State, condition: &Condition, beyond: &[&Test]) -> Truth {
    let Walk { site, region, meetings, .. } = walk;
    let meetings = std::cell::RefCell::new(meetings);
    let constant = |holds: bool| if holds { Truth::Yes } else { Truth::No };
    condition.truth(&|test| match test {
        Test::Constant(holds) => constant(*holds),
        Test::Hosts(_) if state.host.is_some() => Truth::Unknown("the host was changed before".to_owned()),
        Test::Hosts(patterns) => constant(site.host.is_some_and(|host| patterns.iter().any(|one| is_in(host, one)))),
        Test::Paths(_) if state.rewrite.is_some() => Truth::Unknown("the path was changed before".to_owned()),
        Test::Paths(languages) => {
            let mut out = Truth::No;
            for language in languages {
                match region.holds(language, &mut meetings.borrow_mut()) {
                    Truth::Yes => return Truth::Yes,
                    Truth::No => {}
                    other => out = other,
                }
            }
            out
        }
        Test::Tls => constant(site.facts.tls),
        Test::Certificate => match site.facts.certificate {
            Some(shown) => constant(shown),
            None => Truth::Unknown("whether there is a client certificate".to_owned()),
        },
        Test::Ports(ports) => match site.facts.port {
            Some(port) => constant(ports.contains(&port)),
            None => Truth::Unknown("which port a client connected to".to_owned()),
        },
        Test::Hello(_) => Truth::Unknown("where requests are read no ClientHello is; write `ssl_fc_sni`".to_owned()),
        Test::Like(whens) => {
            let mut out = Truth::No;
            for when in whens {
                match state.like(when) {
                    Truth::Yes => return Truth::Yes,
                    Truth::No => {}
                    other => out = other,
                }
            }
            out
        }
        Test::BodyOver(_) | Test::Rate(_) | Test::User(_) => constant(beyond.contains(&test)),
        Test::Requests => Truth::Yes,
        Test::Said(when) if state.is_assumed(when) => state.like(when),
        Test::Said(_) => Truth::Unknown(UNBELIEVED.to_owned()),
        Test::Unknown(why) => Truth::Unknown(why.clone()),
    })
}

/// Whether a host is that of the client, without a port or with one.
fn is_named(host: &str) -> bool {
    let port = host.strip_prefix("{host}").map(|rest| rest.strip_prefix(':').unwrap_or(rest));
    port.is_some_and(|port| port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// Whether all paths of a region begin so.
fn begins_with(region: &Region, start: &str) -> bool {
    match region.base() {
        Language::Exact(own) | Language::Prefix(own) => own.starts_with(start),
        _ => false,
    }
}

/// The path that goes upstream; none if it stays.
fn rewritten(region: &Region, action: &Action, state: &State) -> Result<Option<String>, &'static str> {
    if state.rewrite.is_some() {
        return Err("the path is changed twice; answered 501");
    }
    let (start, to) = match action {
        Action::WholePath(to) => return Ok(Some(to.clone())),
        Action::Path { to, alone: Some(alone), .. } if *region.base() == Language::Exact(alone.clone()) => {
            return Ok(Some(template::literal(to)));
        }
        Action::Path { start, to, .. } => (start, to),
        _ => return Ok(None),
    };
    let (own, rest) = match region.base() {
        Language::Exact(path) => (path, String::new()),
        Language::Prefix(prefix) => (prefix, REST.to_string()),
        _ => return Ok(None),
    };
    match own.strip_prefix(start.as_str()) {
        None => Ok(None),
        Some(_) if !region.is_whole() => Err("an expression cuts through its paths; answered 501"),
        Some(behind) => Ok(Some(template::literal(&format!("{to}{behind}")) + &rest)),
    }
}

/// Cells without those that do what the paths around them do.
fn without_repetitions(found: Vec<(Language, Vec<Cell>)>) -> Vec<Cell> {
    let start = |language: &Language| match language {
        Language::Exact(path) => Some((path.clone(), false)),
        Language::Prefix(start) => Some((start.clone(), true)),
        _ => None,
    };
    let is_repeated = |at: usize| {
        let Some((base, cells)) = found.get(at) else { return false };
        let (Some((own, _)), [cell]) = (start(base), cells.as_slice()) else { return false };
        // The next start around it, which stands behind it.
        let around = found.iter().skip(at + 1).find(|(other, _)| {
            start(other).is_some_and(|(other, is_start)| is_start && own.starts_with(other.as_str()))
        });
        matches!(around, Some((_, others)) if matches!(others.as_slice(), [other] if other.variants == cell.variants))
    };
    let repeated: Vec<bool> = (0..found.len()).map(is_repeated).collect();
    found.into_iter().zip(repeated).filter(|(_, repeated)| !repeated).flat_map(|((_, cells), _)| cells).collect()
}
