//! `portunus fleet`: what the nodes of a fleet serve, and what they are to serve.
//!
//! Talks to etcd, never to a node: what nodes do follows from what is there. What that is, and under which keys, is the business of the crate `fleet`.

mod push;
mod set;
mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, Subcommand};
use config::FleetConfig;
use fleet::agent::node_name;
use fleet::rollout::{Phase, Report, Rollout, Stage};
use fleet::seal::Seal;
use fleet::store::{Failure, Store, Stored};
use fleet::tickets::Tickets;

use super::show::fail;

/// How long a lock stays if whoever took it is gone, seconds.
const LOCK_SECONDS: u64 = 300;

/// How often a roll-out is looked at while it is waited for, and how long at most once all nodes are to serve the same.
const LOOK: Duration = Duration::from_millis(500);
const LAST_NODES: Duration = Duration::from_secs(60);

/// Digits of a generation that are shown.
const SHOWN: usize = 12;

/// Push configurations to a fleet of nodes, and see what becomes of them
#[derive(Debug, Clone, Args)]
pub struct FleetCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Make the key that everything in etcd is sealed under; each node gets the same file
    Key {
        /// File to make; it must not be there
        file: PathBuf,
    },
    /// Check FILE, say what it changes, and roll it out in stages, which halts and goes back by itself
    Push(push::Push),
    /// Show what the fleet serves and how its roll-out goes
    Status(Show),
    /// List the nodes that are there, what they serve and what is wrong with them
    Nodes(Show),
    /// List what was pushed, rolled back and halted, the newest first
    History(Show),
    /// Serve an earlier configuration everywhere, or end a roll-out that is under way
    Rollback(Rollback),
    /// Have a roll-out stay as it is
    Pause {
        /// Have it go on
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Deny clients or tokens, switch maintenance on, or drain upstream servers, on all nodes within a second; show what is set
    Set(set::Set),
    /// Take back what was set
    Unset(set::Unset),
    /// Have balancers and clients leave a node, which goes on otherwise: its /readyz says 503, its responses close their connections
    Drain(set::DrainNode),
    /// Rotate the keys of TLS session tickets now, as nodes do every 11 hours
    Rotate {
        /// Have no session resumed that began before, since its keys may be known to others
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        reach: Reach,
    },
}

/// Which fleet.
#[derive(Debug, Clone, Args)]
struct Reach {
    /// File that says where the fleet is: that of any of its nodes
    #[arg(
        long,
        value_name = "FILE",
        env = "PORTUNUS_FLEET",
        hide_env_values = true,
        default_value = "/etc/portunus/fleet.yaml"
    )]
    fleet: PathBuf,
}

#[derive(Debug, Clone, Args)]
struct Show {
    #[command(flatten)]
    reach: Reach,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a change goes through the fleet.
#[derive(Debug, Clone, Args)]
struct Pace {
    /// How many nodes get it, one stage after the other: numbers, or shares of those that are there. All of them come last
    #[arg(long, value_name = "STAGES", value_delimiter = ',', default_value = "1,10%")]
    stages: Vec<Stage>,
    /// How long each stage is watched, seconds, before the next one begins
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    watch: u64,
    /// By how much responses of 5xx or 4xx may be more frequent than on other nodes, percent of the requests
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    bound: u64,
    /// How much longer than on other nodes nine of ten requests may take, percent; 0: as long as they like
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    slower: u64,
}

impl Pace {
    /// The same in stages.
    fn staged(&self, at_once: Rollout) -> Rollout {
        Rollout {
            phase: Phase::Running,
            stages: self.stages.clone(),
            watch_seconds: self.watch,
            bound: self.bound * 10,
            slower: self.slower,
            ..at_once
        }
    }
}

#[derive(Debug, Clone, Args)]
struct Rollback {
    /// Its name, or how that begins, as `portunus fleet history` lists it [default: what was served before]
    generation: Option<String>,
    /// In stages, as a push, with the options below; what is served now is what nodes go back to if it halts
    #[arg(long)]
    staged: bool,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    reach: Reach,
}

/// Does what the arguments say.
pub fn run(command: FleetCommand) -> ExitCode {
    let done = match command.action {
        Action::Key { file } => Seal::make(&file).map_err(|problem| vec![problem]).map(|()| {
            say!("{}: made; copy it to each node, and keep it as you keep private keys", file.display());
            ExitCode::SUCCESS
        }),
        Action::Push(push) => push::run(&push),
        Action::Status(show) => Fleet::of(&show.reach).and_then(|mut fleet| view::status(&mut fleet, show.json)),
        Action::Nodes(show) => Fleet::of(&show.reach).and_then(|mut fleet| view::nodes(&mut fleet, show.json)),
        Action::History(show) => Fleet::of(&show.reach).and_then(|mut fleet| view::history(&mut fleet, show.json)),
        Action::Rollback(rollback) => roll_back(&rollback),
        Action::Pause { undo, reach } => pause(&reach, undo),
        Action::Set(orders) => set::set(&orders),
        Action::Unset(orders) => set::unset(&orders),
        Action::Drain(node) => set::drain(&node),
        Action::Rotate { all, reach } => rotate(&reach, all),
    };
    done.unwrap_or_else(|problems| {
        problems.iter().for_each(|problem| _ = fail(problem));
        ExitCode::FAILURE
    })
}

/// A fleet that is asked.
struct Fleet {
    store: Store,
    config: FleetConfig,
}

/// Everything that is wrong.
type Problems = Vec<String>;

fn one(problem: impl ToString) -> Problems {
    vec![problem.to_string()]
}

impl Fleet {
    fn of(reach: &Reach) -> Result<Fleet, Problems> {
        let texts = |problems: config::Problems| problems.list().iter().map(ToString::to_string).collect::<Vec<_>>();
        let config = config::load_fleet(&reach.fleet).map_err(texts)?;
        let store = Store::new(&config, Arc::default()).map_err(one)?;
        Ok(Fleet { store, config })
    }

    /// The state of the fleet.
    fn state(&mut self) -> Result<Stored, Problems> {
        let nothing = || one("nothing was pushed to this fleet yet; `portunus fleet push FILE` does");
        self.store.rollout().map_err(one)?.ok_or_else(nothing)
    }

    /// A state that follows all that any node knows, also where the store has lost its newest ones.
    fn next_serial(&mut self, stored: Option<&Stored>) -> Result<u64, Problems> {
        let (reports, _) = self.store.reports().map_err(one)?;
        let known = reports.values().map(|report| report.serial).max().unwrap_or(0);
        Ok(known.max(stored.map_or(0, |stored| stored.rollout.serial)) + 1)
    }

    fn change(&mut self, rollout: &Rollout, before: Option<&Stored>) -> Result<(), Problems> {
        match self.store.change(rollout, before.map_or(0, |stored| stored.changed), None).map_err(one)? {
            true => Ok(()),
            false => Err(one("the state of the fleet has changed meanwhile; look at it and try again")),
        }
    }

    /// Does something while nobody else pushes.
    fn alone<T>(&mut self, act: impl FnOnce(&mut Fleet) -> Result<T, Problems>) -> Result<T, Problems> {
        let lease = self.store.grant(LOCK_SECONDS).map_err(one)?;
        let taken = self.store.take("lock", &author(&self.config), lease).map_err(one)?;
        let done = match taken {
            Ok(_) => act(self),
            Err(holder) => Err(one(format!(
                "{holder} pushes at the moment; if that was cut short, try again in {LOCK_SECONDS} seconds"
            ))),
        };
        // It ends by itself if this fails.
        let _ = self.store.revoke(lease);
        done
    }

    /// Follows a roll-out to its end, and says what happens.
    fn follow(&mut self, serial: u64) -> Result<ExitCode, Problems> {
        let mut shown = None;
        let mut since = Instant::now();
        loop {
            let Stored { rollout, .. } = self.state()?;
            let (reports, _) = self.store.reports().map_err(one)?;
            if rollout.serial >= serial && shown.as_ref() != Some(&rollout.serial) {
                shown = Some(rollout.serial);
                since = Instant::now();
                say!("{}", view::progress(&rollout, reports.len()));
            }
            match rollout.phase {
                Phase::Halted => return Ok(ExitCode::FAILURE),
                Phase::Paused => return Ok(ExitCode::SUCCESS),
                Phase::Complete if settled(&rollout, &reports) => return Ok(ExitCode::SUCCESS),
                Phase::Complete => {
                    if let Some(why) = stuck(&rollout, &reports, since) {
                        return Err(why);
                    }
                }
                Phase::Running => {}
            }
            wait();
        }
    }
}

/// Whether all nodes that are there serve what they are to serve.
fn settled(rollout: &Rollout, reports: &BTreeMap<String, Report>) -> bool {
    reports.values().all(|report| report.serving.as_deref() == rollout.settled())
}

/// Which nodes do not, if they never will.
fn stuck(rollout: &Rollout, reports: &BTreeMap<String, Report>, since: Instant) -> Option<Problems> {
    let rejects = |report: &Report| report.rejected.as_ref() == Some(&rollout.generation);
    let others = || reports.iter().filter(|(_, report)| report.serving.as_deref() != rollout.settled());
    if others().all(|(_, report)| rejects(report)) || since.elapsed() > LAST_NODES {
        let why =
            |report: &Report| report.problems.first().cloned().unwrap_or_else(|| "it does not say why".to_owned());
        return Some(others().map(|(node, report)| format!("{node} does not serve it: {}", why(report))).collect());
    }
    None
}

#[expect(clippy::disallowed_methods, reason = "a command has nothing else to do")]
fn wait() {
    std::thread::sleep(LOOK);
}

fn short(generation: &str) -> String {
    generation.chars().take(SHOWN).collect()
}

/// Who does it: `user@host`.
fn author(config: &FleetConfig) -> String {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let host = node_name(&FleetConfig { node: None, ..config.clone() });
    format!("{}@{}", user.as_deref().unwrap_or("somebody"), host.as_deref().unwrap_or("somewhere"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A state in which everybody is to serve a generation at once.
fn everywhere(config: &FleetConfig, serial: u64, generation: String, previous: Option<String>, note: &str) -> Rollout {
    Rollout {
        serial,
        generation,
        previous,
        phase: Phase::Complete,
        stages: vec![Stage::Percent(100)],
        stage: 0,
        nodes: Vec::new(),
        watch_seconds: 0,
        bound: 0,
        usual: None,
        slower: 0,
        usual_time: None,
        by: author(config),
        at: now(),
        note: note.to_owned(),
    }
}

fn roll_back(rollback: &Rollback) -> Result<ExitCode, Problems> {
    let mut fleet = Fleet::of(&rollback.reach)?;
    let serial = fleet.alone(|fleet| {
        let stored = fleet.state()?;
        let present = &stored.rollout;
        if rollback.staged && present.is_under_way() {
            return Err(one("a roll-out is under way; `portunus fleet rollback` ends it at once"));
        }
        let next = match (&rollback.generation, present.is_under_way()) {
            (None, true) => present.halted(&format!("ended by {}", author(&fleet.config))),
            (Some(_), true) => {
                return Err(one("a roll-out is under way; `portunus fleet rollback` without a name ends it first"));
            }
            (name, false) => {
                let generation = earlier(fleet, present, name.as_deref())?;
                // Before anybody is asked to serve it.
                fleet.store.download(&generation).map_err(one)?;
                let (serial, before) = (fleet.next_serial(Some(&stored))?, present.settled().map(str::to_owned));
                let at_once = everywhere(&fleet.config, serial, generation, before, "rolled back");
                if rollback.staged { rollback.pace.staged(at_once) } else { at_once }
            }
        };
        fleet.change(&next, Some(&stored))?;
        Ok(next.serial)
    })?;
    let ended = fleet.follow(serial)?;
    // Where a roll-out was ended, that it is halted is what was wanted.
    Ok(if !rollback.staged && fleet.state()?.rollout.phase == Phase::Halted { ExitCode::SUCCESS } else { ended })
}

/// The generation that is meant: one of the history, or what was served before the present one.
fn earlier(fleet: &mut Fleet, present: &Rollout, name: Option<&str>) -> Result<String, Problems> {
    let Some(name) = name else {
        return match (present.phase, &present.previous) {
            (Phase::Complete, Some(previous)) => Ok(previous.clone()),
            (Phase::Complete, None) => {
                Err(one("nothing was served before; `portunus fleet history` lists what there is"))
            }
            _ => Err(one(
                "the last roll-out was halted, and what was served before it is served again; name a generation to serve another one",
            )),
        };
    };
    let states = fleet.store.history().map_err(one)?;
    let mut found: Vec<String> =
        states.into_iter().map(|state| state.generation).filter(|known| known.starts_with(name)).collect();
    found.sort_unstable();
    found.dedup();
    match (name.is_empty(), found.as_slice()) {
        (false, [only]) => Ok(only.clone()),
        (false, []) => {
            Err(one(format!("no generation of the history is called {name}; `portunus fleet history` lists them")))
        }
        _ => Err(one(format!("several generations begin with {name:?}; write more of the name"))),
    }
}

fn pause(reach: &Reach, undo: bool) -> Result<ExitCode, Problems> {
    let mut fleet = Fleet::of(reach)?;
    let stored = fleet.state()?;
    let (from, to) = if undo { (Phase::Paused, Phase::Running) } else { (Phase::Running, Phase::Paused) };
    if stored.rollout.phase != from {
        return Err(one(format!("the roll-out is {}, not {}", stored.rollout.phase.word(), from.word())));
    }
    let next = Rollout { serial: stored.rollout.serial + 1, phase: to, ..stored.rollout.clone() };
    fleet.change(&next, Some(&stored))?;
    say!("{}", view::progress(&next, 0));
    Ok(ExitCode::SUCCESS)
}

/// Rotates the masters of session tickets. What is there and cannot be read is replaced: nodes have left it as it is.
fn rotate(reach: &Reach, all: bool) -> Result<ExitCode, Problems> {
    let mut fleet = Fleet::of(reach)?;
    let (next, before) = match fleet.store.kept::<Tickets>() {
        Ok(Some((known, before))) => (if all { known.replaced(now()) } else { known.rotated(now()) }, before),
        Ok(None) => (Tickets::first(now()), 0),
        Err(Failure::Wrong(problem)) => {
            complain!("warning: {problem}; new keys are made, and no session is resumed that began before");
            (Tickets::first(now()), fleet.store.kept_since::<Tickets>().map_err(one)?)
        }
        Err(away @ Failure::Away(_)) => return Err(one(away)),
    };
    if !fleet.store.put_kept(&next, before).map_err(one)? {
        return Err(one("somebody else has rotated them just now"));
    }
    say!("the keys of session tickets were rotated; nodes use the new ones as soon as they see them");
    Ok(ExitCode::SUCCESS)
}
