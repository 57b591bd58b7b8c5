//! A roll-out: which generation which node is to serve, and what comes next. Pure: time, and what nodes report, come from outside.
//!
//! ```text
//!   push ─→ running: stage 1 ─accepted, watched→ stage 2 ─→ … ─→ complete: everybody has it
//!              ├─ rejected by a node, a node is gone, errors beyond the bound ─→ halted: everybody has the one before
//!              └─ paused ⇄
//! ```
//!
//! There is one roll-out at a time, and it is one value in the store. Its serial number grows with every change of it, so that nobody can take an older one
//! for news.

mod driver;
mod times;

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use crate::generation::is_name;

pub use driver::Driver;
pub use times::Times;

/// The version of the form of what is said here. What is newer is not obeyed.
pub const FORMAT: u64 = 1;

/// Most nodes, and most characters of a text, that are read.
const MAX_NODES: usize = 10_000;
const MAX_TEXT: usize = 2_000;
const MAX_NODE_BYTES: usize = 64;
const MAX_STAGES: usize = 20;

/// How many nodes are to have a generation in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// So many.
    Nodes(usize),
    /// So many of a hundred, rounded up.
    Percent(usize),
}

impl Stage {
    /// Of so many that are there.
    pub fn of(self, all: usize) -> usize {
        match self {
            Stage::Nodes(nodes) => nodes.min(all),
            Stage::Percent(percent) => (all * percent).div_ceil(100).min(all),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Nodes(nodes) => nodes.fmt(f),
            Stage::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Stage, String> {
        let stage = match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| (1..=100).contains(percent)).map(Stage::Percent),
            None => text.parse().ok().filter(|nodes| *nodes > 0).map(Stage::Nodes),
        };
        stage.ok_or_else(|| format!("{text:?} is no stage; write a number of nodes, or a share: `1`, `10%`"))
    }
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nodes get it, stage by stage.
    Running,
    /// It stays as it is.
    Paused,
    /// Everybody is to have it.
    Complete,
    /// Nobody is to have it any more.
    Halted,
}

impl Phase {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::Paused => "paused",
            Phase::Complete => "complete",
            Phase::Halted => "halted",
        }
    }

    fn of(word: &str) -> Option<Phase> {
        [Phase::Running, Phase::Paused, Phase::Complete, Phase::Halted].into_iter().find(|phase| phase.word() == word)
    }
}

/// Shares of requests in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// Responses of 5xx.
    pub failed: u64,
    /// Responses of 4xx.
    pub rejected: u64,
}

/// The state of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// Grows with every change.
    pub serial: u64,
    /// The generation that it is about.
    pub generation: String,
    /// What everybody had before.
    pub previous: Option<String>,
    /// How far it has come.
    pub phase: Phase,
    /// Its stages.
    pub stages: Vec<Stage>,
    /// Which of them is under way, from 0.
    pub stage: usize,
    /// Nodes that are to have it, while not everybody is.
    pub nodes: Vec<String>,
    /// How long a stage is watched once all its nodes have it, seconds.
    pub watch_seconds: u64,
    /// How much larger than elsewhere the shares may be where it is, thousandths.
    pub bound: u64,
    /// The shares elsewhere, when that was last known.
    pub usual: Option<Shares>,
    /// How much longer than elsewhere nine of ten requests may take where it is, percent; 0: as long as they like.
    pub slower: u64,
    /// The time elsewhere within which nine of ten requests were done, microseconds, when that was last known.
    pub usual_time: Option<u64>,
    /// Who began it, and when: seconds since 1970, by that clock.
    pub by: String,
    /// See `by`.
    pub at: u64,
    /// Why it was halted, or what its author had to say.
    pub note: String,
}

impl Rollout {
    /// The generation that a node is to serve; none: the one that it has.
    pub fn wanted(&self, node: &str) -> Option<&str> {
        match self.phase {
            Phase::Complete => Some(&self.generation),
            Phase::Running | Phase::Paused if self.nodes.iter().any(|other| other == node) => Some(&self.generation),
            Phase::Running | Phase::Paused | Phase::Halted => self.previous.as_deref(),
        }
    }

    /// What everybody has but for the nodes of a roll-out that is under way.
    pub fn settled(&self) -> Option<&str> {
        match self.phase {
            Phase::Complete => Some(&self.generation),
            Phase::Running | Phase::Paused | Phase::Halted => self.previous.as_deref(),
        }
    }

    /// Whether it goes on, or can.
    pub fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Paused)
    }

    /// The same, ended for a reason.
    #[must_use]
    pub fn halted(&self, why: &str) -> Rollout {
        let note = why.chars().take(MAX_TEXT).collect();
        Rollout { serial: self.serial + 1, phase: Phase::Halted, note, ..self.clone() }
    }

    /// It as text: JSON.
    pub fn write(&self) -> String {
        let usual = self.usual.map(|Shares { failed, rejected }| json!([failed, rejected]));
        json!({
            "format": FORMAT,
            "serial": self.serial,
            "generation": self.generation,
            "previous": self.previous,
            "phase": self.phase.word(),
            "stages": self.stages.iter().map(ToString::to_string).collect::<Value>(),
            "stage": self.stage,
            "nodes": self.nodes,
            "watch_seconds": self.watch_seconds,
            "bound": self.bound,
            "usual": usual,
            "slower": self.slower,
            "usual_time": self.usual_time,
            "by": self.by,
            "at": self.at,
            "note": self.note,
        })
        .to_string()
    }

    /// Reads what was written as one.
    ///
    /// # Errors
    /// It is of a later version, or breaks the form.
    pub fn read(bytes: &[u8]) -> Result<Rollout, String> {
        let members = members(bytes, FORMAT)?;
        let broken = || "the state of the roll-out is invalid: a member is missing or of another kind".to_owned();
        let rollout = read_rollout(&members).ok_or_else(broken)?;
        let names = [Some(&rollout.generation), rollout.previous.as_ref()];
        if names.into_iter().flatten().all(|name| is_name(name)) { Ok(rollout) } else { Err(broken()) }
    }
}

/// The members of something that says which version of its form it has.
fn members(bytes: &[u8], known: u64) -> Result<Map<String, Value>, String> {
    let Ok(Value::Object(members)) = serde_json::from_slice(bytes) else { return Err("no JSON object".to_owned()) };
    match members.get("format").and_then(Value::as_u64) {
        Some(format) if format == known => Ok(members),
        Some(newer) if newer > known => Err(format!(
            "it has format {newer}, and this program ({}) knows those up to {known}; upgrade this node first",
            env!("CARGO_PKG_VERSION")
        )),
        _ => Err("it has no `format`".to_owned()),
    }
}

fn text(members: &Map<String, Value>, name: &str) -> Option<String> {
    members.get(name)?.as_str().filter(|text| text.len() <= 4 * MAX_TEXT).map(str::to_owned)
}

fn number(members: &Map<String, Value>, name: &str) -> Option<u64> {
    // Room is left for what is counted on.
    members.get(name)?.as_u64().filter(|number| *number < u64::MAX / 4)
}

/// A text that may be missing; none if it is something else.
fn maybe(members: &Map<String, Value>, name: &str) -> Option<Option<String>> {
    match members.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(_) => text(members, name).map(Some),
    }
}

fn read_rollout(members: &Map<String, Value>) -> Option<Rollout> {
    let stages = members.get("stages")?.as_array().filter(|stages| stages.len() <= MAX_STAGES)?;
    let nodes = members.get("nodes")?.as_array().filter(|nodes| nodes.len() <= MAX_NODES)?;
    let node = |node: &Value| node.as_str().filter(|name| name.len() <= MAX_NODE_BYTES).map(str::to_owned);
    let usual = match members.get("usual")? {
        Value::Null => None,
        Value::Array(shares) => match shares.as_slice() {
            [failed, rejected] => Some(Shares { failed: failed.as_u64()?, rejected: rejected.as_u64()? }),
            _ => return None,
        },
        _ => return None,
    };
    Some(Rollout {
        serial: number(members, "serial")?,
        generation: text(members, "generation")?,
        previous: maybe(members, "previous")?,
        phase: Phase::of(&text(members, "phase")?)?,
        stages: stages.iter().map(|stage| stage.as_str()?.parse().ok()).collect::<Option<_>>()?,
        stage: usize::try_from(number(members, "stage")?).ok()?,
        nodes: nodes.iter().map(node).collect::<Option<_>>()?,
        watch_seconds: number(members, "watch_seconds")?,
        bound: number(members, "bound")?,
        usual,
        // Earlier versions do not compare times.
        slower: number(members, "slower").unwrap_or(0),
        usual_time: number(members, "usual_time"),
        by: text(members, "by")?,
        at: number(members, "at")?,
        note: text(members, "note")?,
    })
}

/// What a node says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Version of its program.
    pub program: String,
    /// The generation that it serves.
    pub serving: Option<String>,
    /// The newest serial number that it knows.
    pub serial: u64,
    /// The generation that it does not take.
    pub rejected: Option<String>,
    /// Why, or what else is wrong.
    pub problems: Vec<String>,
    /// The serial number of the orders that it obeys; 0 for none.
    pub orders: u64,
    /// An operator has it drained.
    pub is_drained: bool,
    /// Those of them that have no effect, and why.
    pub idle: Vec<String>,
    /// The serial number of the masters of session tickets that it uses; 0 for its own.
    pub tickets: u64,
    /// What it has counted since it started.
    pub counts: Counts,
}

/// Requests that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub requests: u64,
    /// With a response of 5xx.
    pub failed: u64,
    /// With a response of 4xx.
    pub rejected: u64,
    /// How long they took.
    pub times: Times,
}

/// Most problems that a report has.
pub const MAX_PROBLEMS: usize = 5;

impl Report {
    /// It as text: JSON.
    pub fn write(&self) -> String {
        let Counts { requests, failed, rejected, times } = self.counts;
        let cut = |problem: &String| problem.chars().take(MAX_TEXT / 4).collect::<String>();
        json!({
            "format": FORMAT,
            "program": self.program,
            "serving": self.serving,
            "serial": self.serial,
            "rejected": self.rejected,
            "problems": self.problems.iter().take(MAX_PROBLEMS).map(cut).collect::<Value>(),
            "orders": self.orders,
            "drained": self.is_drained,
            "idle": self.idle.iter().take(MAX_PROBLEMS).map(cut).collect::<Value>(),
            "tickets": self.tickets,
            "counts": [requests, failed, rejected],
            "times": times.write(),
        })
        .to_string()
    }

    /// Reads what a node has written as one.
    ///
    /// # Errors
    /// It is of a later version, or breaks the form.
    pub fn read(bytes: &[u8]) -> Result<Report, String> {
        let members = members(bytes, FORMAT)?;
        read_report(&members).ok_or_else(|| "a member is missing or of another kind".to_owned())
    }
}

fn read_report(members: &Map<String, Value>) -> Option<Report> {
    let problems = members.get("problems")?.as_array().filter(|problems| problems.len() <= MAX_PROBLEMS)?;
    let nothing = Vec::new();
    let idle = members.get("idle").and_then(Value::as_array).unwrap_or(&nothing);
    let problem = |problem: &Value| problem.as_str().filter(|text| text.len() <= 4 * MAX_TEXT).map(str::to_owned);
    let counts = match members.get("counts")?.as_array()?.as_slice() {
        [requests, failed, rejected] => {
            let times = members.get("times").map(Times::read).unwrap_or_default();
            Counts { requests: requests.as_u64()?, failed: failed.as_u64()?, rejected: rejected.as_u64()?, times }
        }
        _ => return None,
    };
    Some(Report {
        program: text(members, "program")?,
        serving: maybe(members, "serving")?,
        serial: number(members, "serial")?,
        rejected: maybe(members, "rejected")?,
        problems: problems.iter().map(problem).collect::<Option<_>>()?,
        // Nodes of earlier versions do not say these.
        orders: number(members, "orders").unwrap_or(0),
        is_drained: members.get("drained").and_then(Value::as_bool).unwrap_or(false),
        idle: idle.iter().map(problem).collect::<Option<_>>()?,
        tickets: number(members, "tickets").unwrap_or(0),
        counts,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn rollout(phase: Phase) -> Rollout {
        Rollout {
            serial: 7,
            generation: "a".repeat(64),
            previous: Some("b".repeat(64)),
            phase,
            stages: vec![Stage::Nodes(1), Stage::Percent(10)],
            stage: 1,
            nodes: vec!["edge-1".into()],
            watch_seconds: 30,
            bound: 50,
            usual: Some(Shares { failed: 1, rejected: 2 }),
            slower: 100,
            usual_time: Some(7),
            by: "ops".into(),
            at: 1_700_000_000,
            note: "why".into(),
        }
    }

    #[test]
    fn who_is_to_serve_what_follows_from_the_phase() {
        let (new, old) = ("a".repeat(64), "b".repeat(64));
        for (phase, chosen, other) in [
            (Phase::Running, &new, &old),
            (Phase::Paused, &new, &old),
            (Phase::Complete, &new, &new),
            (Phase::Halted, &old, &old),
        ] {
            let rollout = rollout(phase);
            assert_eq!(rollout.wanted("edge-1"), Some(chosen.as_str()), "{phase:?}");
            assert_eq!(rollout.wanted("edge-2"), Some(other.as_str()), "{phase:?}");
        }
    }

    #[test]
    fn states_and_reports_are_read_as_they_were_written() {
        for phase in [Phase::Running, Phase::Paused, Phase::Complete, Phase::Halted] {
            let rollout = rollout(phase);
            assert_eq!(Rollout::read(rollout.write().as_bytes()), Ok(rollout.clone()));
            let first = Rollout { previous: None, usual: None, usual_time: None, ..rollout };
            assert_eq!(Rollout::read(first.write().as_bytes()), Ok(first));
        }
        let mut counts = Counts { requests: 3, failed: 2, rejected: 1, ..Counts::default() };
        counts.times.add(std::time::Duration::from_millis(3), 3);
        let report = Report {
            program: "1".into(),
            serving: Some("a".into()),
            problems: vec!["p".into()],
            counts,
            ..Report::default()
        };
        assert_eq!(Report::read(report.write().as_bytes()), Ok(report));
    }

    #[test]
    fn what_is_newer_or_broken_is_not_obeyed() {
        let text = rollout(Phase::Running).write();
        let newer = text.replace("\"format\":1", "\"format\":2");
        assert!(Rollout::read(newer.as_bytes()).unwrap_err().contains("upgrade this node first"));
        for (from, to) in [
            ("\"serial\":7", "\"serial\":-7"),
            ("\"serial\":7", "\"serial\":18446744073709551615"),
            ("\"phase\":\"running\"", "\"phase\":\"walking\""),
            ("\"1\"", "\"0\""),
            ("\"10%\"", "\"110%\""),
            (&"a".repeat(64), "../../etc"),
            ("[\"edge-1\"]", "7"),
            ("[1,2]", "[1]"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert!(changed != text && Rollout::read(changed.as_bytes()).is_err(), "{from} -> {to}");
        }
    }

    #[test]
    fn stages_are_numbers_or_shares() {
        for (text, of_three, of_forty) in [("1", 1, 1), ("10%", 1, 4), ("100%", 3, 40), ("5", 3, 5)] {
            let stage: Stage = text.parse().unwrap();
            assert_eq!((stage.of(3), stage.of(40), stage.to_string()), (of_three, of_forty, text.to_owned()));
        }
        for text in ["", "0", "0%", "101%", "-1", "x", "1.5%"] {
            assert!(text.parse::<Stage>().is_err(), "{text}");
        }
    }
}
