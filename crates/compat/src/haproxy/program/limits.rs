//! Rules about what no request tells by itself: how often a client came, how large a body will be, who has given a password.
//!
//! A program is run for clients that keep to every limit and have given no password. A rule that holds only for others is a policy, or is not carried.

use std::collections::BTreeMap;

use super::{State, Walk, truth};
use crate::haproxy::Making;
use crate::haproxy::acl::{Counted, Rate, Test, Truth};
use crate::haproxy::criterion::pieces;
use crate::haproxy::rules::{Action, Rule};
use crate::header_fields::field_fits;
use crate::native::{Map, Value};

/// Most limits of one condition, of which each may be kept or not.
const MAX_LIMITS: usize = 4;

/// What a condition comes to for clients that are beyond some of its limits, whichever these are: the same for all, or why that is not known.
fn for_all_beyond(walk: &mut Walk<'_>, rule: &Rule, state: &State) -> Truth {
    let limits: Vec<&Test> = rule.condition.distinct_limits();
    if limits.len() > MAX_LIMITS {
        return Truth::Unknown("it has too many limits".to_owned());
    }
    let mut found = None;
    for chosen in 1..1_usize << limits.len() {
        let beyond: Vec<&Test> =
            limits.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0).map(|(_, test)| *test).collect();
        let holds = truth(walk, state, &rule.condition, &beyond);
        match (&found, &holds) {
            // What can be found out is, before what cannot.
            (_, Truth::Path(_) | Truth::Depends(_)) => return holds,
            (None, _) => found = Some(holds),
            (Some(before), _) if *before == holds => {}
            _ => found = Some(Truth::Unknown("a limit that is one of several conditions".to_owned())),
        }
    }
    found.unwrap_or(Truth::No)
}

/// Whether a rule that holds for clients within their limits holds for all others, too; `No` never.
pub(super) fn beyond(walk: &mut Walk<'_>, rule: &Rule, state: &State) -> Truth {
    if !rule.condition.has_limits() {
        return Truth::Yes;
    }
    let asks = matches!(rule.action, Action::Ask(_));
    match for_all_beyond(walk, rule, state) {
        Truth::No if asks => Truth::Yes,
        Truth::Yes if asks => Truth::Unknown("whoever has given a password is asked again".to_owned()),
        Truth::No => {
            Truth::Unknown("it holds for those alone that are within a limit, or have given no password".to_owned())
        }
        other => other,
    }
}

impl Making<'_> {
    /// What a rule limits that does not hold for one request alone.
    pub(super) fn limits(&mut self, walk: &mut Walk<'_>, rule: &Rule, state: &mut State) -> Truth {
        let limits = rule.condition.distinct_limits();
        let Some(first) = limits.first() else { return Truth::No };
        let holds = for_all_beyond(walk, rule, state);
        let why = match (&holds, first, limits.len(), is_rejection(&rule.action)) {
            (Truth::No | Truth::Path(_) | Truth::Depends(_) | Truth::Unknown(_), ..) => return holds,
            (Truth::Yes, Test::Rate(rate), 1, true) if rate.of != Counted::Requests => {
                "connections are counted in TCP mode alone; see `limits.max_connections_per_client`".to_owned()
            }
            (Truth::Yes, Test::Rate(rate), 1, true) if state.has_changed(&counted_by(rate, &state.tracks)) => {
                "what it counts by was changed before".to_owned()
            }
            (Truth::Yes, Test::Rate(rate), 1, true) => match self.rate(rule, rate, &state.tracks) {
                Ok(name) => {
                    if rule.condition.tests().any(|test| !matches!(test, Test::Rate(_))) {
                        self.left(rule, "it counts the requests that this is asked of, and no others", state);
                    }
                    state.policy(name);
                    return Truth::Yes;
                }
                Err(why) => why,
            },
            (Truth::Yes, Test::BodyOver(size), 1, true) => {
                state.max_body = Some(state.max_body.unwrap_or(u64::MAX).min(*size));
                return Truth::Yes;
            }
            (_, Test::User(_), ..) => "who a user is decides nothing here".to_owned(),
            _ => "a limit that is one of several conditions".to_owned(),
        };
        Truth::Unknown(why)
    }

    /// Why a table counts by other things than the address of the client, or the whole of what is tracked.
    fn is_counted_otherwise(&self, table: &str, is_text: bool) -> Option<String> {
        let line = self.proxies.iter().find(|proxy| proxy.name == table)?.one("stick-table")?;
        let is_same = match line.after("type") {
            Some("ip" | "ipv6") => !is_text,
            Some("string") => is_text && !line.has("len"),
            _ => false,
        };
        (!is_same).then(|| "its table keeps another kind of key, or a part of it".to_owned())
    }

    /// The policy for a rate, by what each counter tracks, and in which table.
    pub(crate) fn rate(
        &mut self,
        rule: &Rule,
        rate: &Rate,
        tracks: &BTreeMap<String, (String, String)>,
    ) -> Result<String, String> {
        let (key, tracked) = match &rate.slot {
            None => ("src".to_owned(), None),
            Some(slot) => {
                let (key, table) = tracks.get(slot).ok_or("nothing is tracked by this counter")?;
                (key.clone(), Some(table.clone()))
            }
        };
        let table = rate.table.clone().or(tracked).unwrap_or_else(|| rule.proxy.clone());
        let key = match pieces(&key).as_slice() {
            ["src"] => None,
            [_, _, ..] | [] => return Err("what a rate is counted by is converted".to_owned()),
            [other] => {
                let (name, argument) = other.split_once('(').unwrap_or((other, ""));
                let argument = argument.trim_end_matches(')').to_ascii_lowercase();
                match name {
                    "hdr" | "req.hdr" => {
                        return Err("it counts by the last value of a list; write `req.fhdr`".to_owned());
                    }
                    "req.fhdr" if field_fits(&argument, "").is_ok() => Some(("header", argument)),
                    "cook" | "req.cook" if !argument.is_empty() => Some(("cookie", argument)),
                    _ => return Err("a rate is counted by client, field or cookie".to_owned()),
                }
            }
        };
        if rate.over == 0 {
            return Err("it holds from the first on".to_owned());
        }
        if let Some(why) = self.is_counted_otherwise(&table, key.is_some()) {
            return Err(why);
        }
        let count = rate.over.min(1_000_000);
        if rate.of == Counted::Open {
            let mut limit = Map::of([("max_in_flight", Value::plain(count))]);
            key.into_iter().for_each(|(of, name)| limit.set("key", Map::of([(of, Value::text(name))])));
            let mut policy = Map::of([("concurrency_limit", limit.into())]);
            policy.comment(format!("{}: {}", rule.place, rule.shown));
            return Ok(self.draft.policies.intern("at-once", policy));
        }
        let period = self.period(&table, rate.of).ok_or("the period of its table is not known")?;
        let units = [("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let fitting = units.iter().find(|(_, unit)| (count * unit).is_multiple_of(period));
        let (unit, length) = fitting.copied().unwrap_or(("h", 3_600_000));
        let text = format!("{}/{unit}", (count * length).div_ceil(period));
        let mut limit = Map::of([("rate", Value::text(text)), ("burst", Value::plain(count))]);
        if let Some((of, name)) = key {
            limit.set("key", Map::of([(of, Value::text(name))]));
        }
        let mut policy = Map::of([("rate_limit", limit.into())]);
        policy.comment(format!("{}: {}", rule.place, rule.shown));
        Ok(self.draft.policies.intern("rate", policy))
    }
}

/// What a rate is counted by, as text.
fn counted_by(rate: &Rate, tracks: &BTreeMap<String, (String, String)>) -> Vec<String> {
    rate.slot.iter().filter_map(|slot| tracks.get(slot)).map(|(key, _)| key.clone()).collect()
}

/// Whether a rule keeps requests out.
fn is_rejection(action: &Action) -> bool {
    let Action::Respond(words) = action else { return false };
    let status = || words.iter().position(|word| word == "status").and_then(|at| words.get(at + 1));
    match words.first().map(String::as_str) {
        Some("deny" | "tarpit" | "reject" | "silent-drop") => true,
        Some("return") => status().is_some_and(|status| status.starts_with('4') || status.starts_with('5')),
        _ => false,
    }
}
