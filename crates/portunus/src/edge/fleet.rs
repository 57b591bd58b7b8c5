//! An edge as a node of a fleet: it serves the generation that the fleet wants, and says how it stands.
//!
//! What is fetched, verified and reported is the business of the crate `fleet`; here it is loaded as any configuration is.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acme::peers::Peers;
use config::{FleetConfig, Problems};
use fleet::agent::{Agent, Belongings, First, Host, NotLoaded, Standing, belongings, first};
use fleet::orders::{Kind, Order};
use fleet::rollout::{Counts, Times};
use proxy::server::{Server, Source, State};
use telemetry::FleetStanding;
use tls::SharedMasters;

use super::{Edge, certificates, orders};
use crate::supervisor::{self, Beside, Control, Options, Origin, Reloader};

/// Digits of a generation that are shown.
const SHOWN: usize = 12;

/// The configuration file that is served, or is to be.
type Place = Arc<Mutex<PathBuf>>;

/// Runs the node that `file` describes until it is told to end.
pub fn run(file: &Path, options: Options) -> ExitCode {
    let fleet = match config::load_fleet(file) {
        Ok(fleet) => fleet,
        Err(problems) => return supervisor::reject(&problems),
    };
    let reject = |problem: String| {
        let fix = "`portunus fleet status` shows what the fleet serves";
        supervisor::reject(&Problems::of_file(&file.display().to_string(), problem, fix))
    };
    let first = match first(&fleet, &is_good) {
        Ok(first) => first,
        Err(problem) => return reject(problem),
    };
    first.warnings.iter().for_each(|warning| complain!("warning: {warning}"));
    let config = match config::load(&first.file) {
        Ok(config) => config,
        Err(problems) => return supervisor::reject(&problems),
    };
    let place = Place::new(Mutex::new(first.file.clone()));
    let again = Arc::clone(&place);
    let source: Source = Box::new(move || {
        let file = again.lock().unwrap_or_else(PoisonError::into_inner).clone();
        config::load(&file).map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
    });
    let origin =
        Origin { watched: None, beside: beside(file, &fleet), ..Origin::of_file(file, options, Control::Usual) };
    let shared = match belongings(&fleet, &first) {
        Ok(shared) => shared,
        Err(problem) => return reject(problem),
    };
    let orders = shared.orders.clone();
    let before = (|state: &mut State| know(state, shared), |server: &Server| _ = obey(server, &orders));
    super::run_with(config, source, origin, before, |edge, reload| join(&fleet, first, place, edge, reload))
}

/// Has an edge begin with what all nodes share, in the place of what a process before it left.
fn know(state: &mut State, shared: Belongings) {
    let Belongings { tickets, orders, sticky, quic: (reset, token) } = shared;
    state.is_aside = orders.iter().any(|order| order.kind == Kind::Node);
    state.shared_tickets = tickets;
    state.sticky_key = Some(*sticky);
    state.quic = Some(quic::Secrets::of(&reset, &token));
}

/// Obeys what the operators of the fleet have set; what of it has no effect.
fn obey(server: &Server, orders: &[Order]) -> Vec<String> {
    let is_aside = orders.iter().any(|order| order.kind == Kind::Node);
    if server.set_aside(is_aside) {
        let what = if is_aside { "this node is drained" } else { "this node is no longer drained" };
        tracing::warn!("an operator of the fleet: {what}");
    }
    server.between_reloads(|generation| orders::obey(generation, orders))
}

/// Whether `portunus check` finds nothing wrong with a file. A process of its own: this one is to have read no key yet.
fn is_good(file: &Path) -> bool {
    let program = std::env::current_exe();
    let checked = program.and_then(|program| Command::new(program).arg("check").arg(file).output());
    checked.is_ok_and(|output| output.status.success())
}

/// What a node reads and writes beside its configuration.
fn beside(file: &Path, fleet: &FleetConfig) -> Beside {
    let identity = fleet.identity.iter().flat_map(|(chain, key)| [chain, key]);
    let read = identity.chain(&fleet.ca).chain([&fleet.seal_key]).cloned().chain([file.to_owned()]);
    Beside { read: read.collect(), own: vec![fleet.cache.clone()], ..Beside::default() }
}

/// Follows the fleet from now on. Without it the node serves what it has.
fn join(fleet: &FleetConfig, first: First, place: Place, edge: &Arc<Edge>, reload: Reloader) -> Option<Agent> {
    let membership = certificates::join(fleet, first.node(), edge);
    let peers = Arc::clone(&membership.peers);
    *edge.membership.lock().unwrap_or_else(PoisonError::into_inner) = Some(membership);
    let host = Node { edge: Arc::clone(edge), reload, place, peers };
    let started = Agent::start(fleet, first, Arc::new(host));
    started.inspect_err(|problem| tracing::error!("fleet: this node goes on alone: {problem}")).ok()
}

struct Node {
    edge: Arc<Edge>,
    reload: Reloader,
    place: Place,
    peers: Arc<dyn Peers>,
}

impl Node {
    fn put(&self, file: &Path) -> PathBuf {
        std::mem::replace(&mut *self.place.lock().unwrap_or_else(PoisonError::into_inner), file.to_owned())
    }
}

impl Host for Node {
    fn load(&self, file: &Path) -> Result<(), NotLoaded> {
        let before = self.put(file);
        let outcome = (self.reload)();
        if !matches!(outcome, Some(Ok(_))) {
            // A reload for another reason is one of what is served.
            self.put(&before);
        }
        match outcome {
            Some(Ok(_)) => Ok(()),
            Some(Err(problems)) if !self.is_leaving() => Err(NotLoaded::Rejected(problems)),
            Some(Err(_)) | None => Err(NotLoaded::Busy),
        }
    }

    fn counts(&self) -> Counts {
        let snapshot = self.edge.reporter.snapshot();
        let classes = snapshot.by_class();
        let [.., rejected, failed] = classes;
        let mut times = Times::default();
        snapshot.latency.buckets().for_each(|(time, count)| times.add(time, count));
        Counts { requests: classes.iter().sum(), failed, rejected, times }
    }

    fn obey(&self, orders: &[Order]) -> Vec<String> {
        obey(&self.edge.server, orders)
    }

    fn loads(&self) -> u64 {
        self.edge.server.shared().generation.load().number
    }

    fn share_tickets(&self, masters: &SharedMasters, age: Duration) {
        self.edge.server.tickets().share(masters, age);
    }

    fn is_leaving(&self) -> bool {
        self.edge.server.is_leaving()
    }

    fn note(&self, standing: &Standing) {
        let Standing { is_connected, generation, serial, rejections, problem } = standing;
        self.edge.reporter.fleet(FleetStanding {
            is_connected: *is_connected,
            has_problem: problem.is_some(),
            serial: *serial,
            rejections: *rejections,
            orders_certificates: self.peers.leads(),
        });
        let short: String = generation.chars().take(SHOWN).collect();
        let mut line = format!("fleet: generation {short}, state {serial}");
        // Writing to a String cannot fail.
        _ = problem.iter().try_for_each(|problem| write!(line, "; {problem}"));
        *self.edge.fleet.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }
}

impl Edge {
    /// What there is to know beside that requests are served: what is amiss, and a line about the fleet if it is a node of one.
    pub(super) fn standing(&self) -> Vec<String> {
        let mut lines = self.server.degraded();
        lines.extend(self.enrolments.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        lines.extend(self.fleet.lock().unwrap_or_else(PoisonError::into_inner).clone());
        lines
    }
}
