//! The requests of an access log, tried under two configurations: which are treated differently, in groups that differ alike. Lines are bounded, and so is what
//! is kept of them, however long the log is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use config::{Condition, Config, ValueOf};
use proxy::explain::Explainer;
use serde_json::{Value, json};
use telemetry::{Logged, LoggedRequest, MAX_LINE_BYTES, read_line};

use super::outcome::{self, Outcome};
use crate::command::explain::shown;

/// Most groups that are kept.
const MAX_GROUPS: usize = 100;
/// Requests that are shown of a group.
const EXAMPLES: usize = 3;
/// Most characters of an example.
const MAX_EXAMPLE: usize = 300;

/// What became of the log.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// Requests that were tried.
    pub(super) requests: u64,
    /// Those that are treated differently.
    pub(super) different: u64,
    /// Lines that were left out, by why.
    left_out: BTreeMap<&'static str, u64>,
    /// The log goes on behind what was tried.
    is_cut: bool,
    groups: Vec<Group>,
    /// Different requests for which there was no group any more.
    ungrouped: u64,
    /// Routes with conditions on what no log has.
    unseen: BTreeSet<String>,
}

/// Requests that differ alike.
#[derive(Debug)]
struct Group {
    differences: Vec<Difference>,
    count: u64,
    examples: Vec<String>,
}

/// A part that differs. Where each request has its own values they stand in the examples.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Difference {
    part: &'static str,
    old: String,
    new: String,
}

/// Tries the requests of a log, at most so many.
///
/// # Errors
/// The log cannot be read, or is none.
pub(super) fn replay(log: &Path, most: u64, old: &Explainer, new: &Explainer) -> Result<Replayed, String> {
    let cannot = |error: std::io::Error| format!("{}: cannot be read: {error}", log.display());
    let mut reader = BufReader::new(File::open(log).map_err(cannot)?);
    let (old_config, new_config) = (old.config(), new.config());
    let mut replayed = Replayed { unseen: unseen(&old_config), ..Replayed::default() };
    replayed.unseen.extend(unseen(&new_config));
    let mut known: HashMap<Vec<Difference>, usize> = HashMap::new();
    let mut line = Vec::new();
    while read_bounded(&mut reader, &mut line).map_err(cannot)? {
        let request = match read_line(&line) {
            Logged::Request(request) => request,
            Logged::Other => continue,
            Logged::Incomplete => {
                replayed.leave_out("the line has not all of the request");
                continue;
            }
            Logged::Unreadable => {
                replayed.leave_out("the line is none of a JSON access log");
                continue;
            }
        };
        if replayed.requests == most {
            replayed.is_cut = true;
            break;
        }
        replayed.requests += 1;
        let before = outcome::of(old, &old_config, &request);
        let after = outcome::of(new, &new_config, &request);
        replayed.note(&mut known, &request, &before, &after);
    }
    if replayed.requests == 0 && !replayed.left_out.is_empty() {
        return Err(format!("{}: no line is a request in JSON; log with `format: json`", log.display()));
    }
    replayed.groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Ok(replayed)
}

/// Reads a line without its break, or as much of it as can be one of the log and one byte more. False at the end.
fn read_bounded(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let most = MAX_LINE_BYTES as u64 + 1;
    if reader.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(true);
    }
    // The rest of a line that is too long.
    let mut rest = Vec::new();
    while reader.by_ref().take(most).read_until(b'\n', &mut rest)? > 0 && rest.last() != Some(&b'\n') {
        rest.clear();
    }
    Ok(true)
}

/// Routes with conditions on what no line has: fields but User-Agent, cookies, client certificates.
fn unseen(config: &Config) -> BTreeSet<String> {
    let is_unseen = |of: ValueOf, name: &str| match of {
        ValueOf::Query => false,
        ValueOf::Header => name != "user-agent" && name != "host",
        ValueOf::Cookie | ValueOf::Claim => true,
    };
    let is_unseen = |leaf: &&Condition| match leaf {
        Condition::Certificate(_) | Condition::Ja4(_) => true,
        Condition::Scheme(_) | Condition::Port(_) | Condition::Version(_) => true,
        Condition::Value(value) => is_unseen(value.of, &value.name),
        _ => false,
    };
    let routes = config.routes.iter().filter(|route| route.when.leaves().iter().any(is_unseen));
    routes.map(|route| route.name.clone()).collect()
}

impl Replayed {
    fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Notes what differs.
    fn note(
        &mut self,
        known: &mut HashMap<Vec<Difference>, usize>,
        request: &LoggedRequest,
        before: &Outcome,
        after: &Outcome,
    ) {
        if before == after {
            return;
        }
        self.different += 1;
        let differences = differences(before, after);
        let at = match known.get(&differences) {
            Some(at) => *at,
            None if self.groups.len() == MAX_GROUPS => {
                self.ungrouped += 1;
                return;
            }
            None => {
                self.groups.push(Group { differences: differences.clone(), count: 0, examples: Vec::new() });
                known.insert(differences, self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        let Some(group) = self.groups.get_mut(at) else { return };
        group.count += 1;
        if group.examples.len() < EXAMPLES {
            group.examples.push(example(request, before, after));
        }
    }

    /// Prints it for people.
    pub(super) fn print(&self) {
        let Replayed { requests, different, .. } = self;
        let cut = if self.is_cut { ", and the log goes on" } else { "" };
        say!("replay: {different} of {requests} requests are treated differently{cut}");
        for group in &self.groups {
            say!("{} {}:", group.count, if group.count == 1 { "request" } else { "requests" });
            for Difference { part, old, new } in &group.differences {
                match old.is_empty() && new.is_empty() {
                    true => say!("  {part} differs"),
                    false => say!("  {part}: {} -> {}", shown(old.as_bytes()), shown(new.as_bytes())),
                }
            }
            group.examples.iter().for_each(|example| say!("    {}", shown(example.as_bytes())));
        }
        if self.ungrouped > 0 {
            say!("{} more that differ in other ways", self.ungrouped);
        }
        self.left_out.iter().for_each(|(why, count)| say!("left out: {count} ({why})"));
        if !self.unseen.is_empty() {
            let routes: Vec<&str> = self.unseen.iter().map(String::as_str).collect();
            let routes = shown(routes.join(", ").as_bytes());
            say!("not known: a log has no headers and cookies, which these routes depend on: {routes}");
        }
    }

    /// The same for programs.
    pub(super) fn in_json(&self) -> Value {
        let difference = |one: &Difference| json!({ "part": one.part, "old": one.old, "new": one.new });
        let group = |group: &Group| {
            json!({
                "count": group.count,
                "differences": group.differences.iter().map(difference).collect::<Value>(),
                "examples": group.examples,
            })
        };
        json!({
            "requests": self.requests,
            "different": self.different,
            "log_goes_on": self.is_cut,
            "groups": self.groups.iter().map(group).collect::<Value>(),
            "ungrouped": self.ungrouped,
            "left_out": self.left_out,
            "unseen_conditions": self.unseen,
        })
    }
}

/// The parts that differ; those of which each request has its own without their values.
fn differences(before: &Outcome, after: &Outcome) -> Vec<Difference> {
    let value = |outcome: &Outcome, part: &str| {
        outcome.parts.iter().find(|(own, _)| *own == part).map_or_else(|| "-".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&'static str> = before.parts.iter().chain(&after.parts).map(|(part, _)| *part).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let mut differences: Vec<Difference> = names
        .into_iter()
        .map(|part| Difference { part, old: value(before, part), new: value(after, part) })
        .filter(|difference| difference.old != difference.new)
        .collect();
    let own = [("sent", &before.sent, &after.sent), ("location", &before.location, &after.location)];
    // Where only one of them has it, another part says so.
    let both = own.into_iter().filter(|(_, old, new)| old.is_some() && new.is_some() && old != new);
    differences.extend(both.map(|(part, ..)| Difference { part, old: String::new(), new: String::new() }));
    differences
}

fn example(request: &LoggedRequest, before: &Outcome, after: &Outcome) -> String {
    let scheme = if request.is_tls { "https" } else { "http" };
    let mut text = format!("{} {scheme}://{}{}", request.method, request.host, request.target);
    if let Some(client) = request.client {
        text.push_str(&format!(" from {client}"));
    }
    for (what, old, new) in [("sent", &before.sent, &after.sent), ("location", &before.location, &after.location)] {
        if let (Some(old), Some(new)) = (old, new)
            && old != new
        {
            text.push_str(&format!(", {what} {old} -> {new}"));
        }
    }
    if text.chars().count() > MAX_EXAMPLE {
        text = text.chars().take(MAX_EXAMPLE).collect();
        text.push('…');
    }
    text
}
