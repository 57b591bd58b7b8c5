//! Requests for an upgrade, the one that is under way, and whose turn it is: an upgrade excludes reloads and changes of operators.

use std::sync::{Arc, mpsc};

use serde_json::Value;
use telemetry::Snapshot;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::handover::{Belongings, Handover};
use super::launcher::{Launcher, Passed};
use crate::admin::{Change, Operable, Rejection, UpgradeRequest, View};
use crate::systemd;

/// The number of the process that serves now, or why there is none.
type Outcome = Result<u32, Vec<String>>;

/// Where the outcome is waited for.
pub type Reply = mpsc::Sender<Outcome>;

/// Whose turn it is: that of reloads and changes, or of one upgrade. What these changed while another process loads, that one would not have.
#[derive(Debug, Clone, Default)]
pub struct Turns(Arc<RwLock<()>>);

impl Turns {
    /// The turn of a reload, for as long as it is kept.
    ///
    /// # Errors
    /// An upgrade is under way, or another process serves.
    pub fn for_reload(&self) -> Result<OwnedRwLockReadGuard<()>, Vec<String>> {
        let problem = "an upgrade is under way; reload again when it is over";
        Arc::clone(&self.0).try_read_owned().map_err(|_| vec![problem.to_owned()])
    }

    /// The turn of a change by an operator, for as long as it is kept.
    fn for_change(&self) -> Result<OwnedRwLockReadGuard<()>, Rejection> {
        let problem = "an upgrade is under way; try again when it is over";
        Arc::clone(&self.0).try_read_owned().map_err(|_| Rejection::Busy(problem.to_owned()))
    }

    fn for_upgrade(&self) -> Result<OwnedRwLockWriteGuard<()>, Vec<String>> {
        let problem = "a reload or a change is under way; try again when it is over";
        Arc::clone(&self.0).try_write_owned().map_err(|_| vec![problem.to_owned()])
    }
}

/// A role that changes nothing while an upgrade is under way, but for what ends with this process anyway.
pub struct InTurn {
    /// The role.
    pub role: Arc<dyn Operable>,
    /// Whose turn it is.
    pub turns: Turns,
}

impl Operable for InTurn {
    fn view(&self, view: View) -> Value {
        self.role.view(view)
    }

    fn totals(&self) -> Snapshot {
        self.role.totals()
    }

    fn change(&self, change: &Change) -> Result<Value, Rejection> {
        let _turn = match change {
            Change::LogLevel { .. } => None,
            Change::Drain { .. } | Change::Weight { .. } | Change::Maintenance { .. } => Some(self.turns.for_change()?),
        };
        self.role.change(change)
    }
}

/// Requests for upgrades, one at a time.
#[derive(Debug)]
pub struct Upgrades {
    sender: UnboundedSender<Reply>,
    requests: UnboundedReceiver<Reply>,
    running: Option<(Handover, Reply)>,
    /// Who asked for the one that has come to its end, and is yet to hear of it.
    waiting: Option<Reply>,
    turns: Turns,
    /// Kept from the beginning of an upgrade until it has failed; for ever, if it has not.
    turn: Option<OwnedRwLockWriteGuard<()>>,
    /// What starts the new process, or why there is none.
    launcher: Result<Arc<Launcher>, String>,
}

/// What an upgrade comes to.
#[derive(Debug)]
pub enum News {
    /// Somebody wants one.
    Asked(Reply),
    /// The one that was under way is over.
    Ended(Outcome),
}

impl Upgrades {
    /// None yet.
    pub fn new(launcher: Result<Launcher, String>) -> Upgrades {
        let (sender, requests) = unbounded_channel();
        let launcher = launcher.map(Arc::new);
        Upgrades { sender, requests, running: None, waiting: None, turns: Turns::default(), turn: None, launcher }
    }

    /// Says once if there can be no upgrade any more.
    pub fn supervise(&mut self) {
        if let Some(problem) = self.launcher.as_ref().ok().and_then(|launcher| launcher.problem()) {
            tracing::error!("{problem}");
            self.launcher = Err(problem);
        }
    }

    /// Has the process that took over from this one reload.
    pub fn pass_hangup_on(&self, successor: u32) {
        tracing::info!(successor, "SIGHUP is passed on to the process that serves");
        if let Err(problem) = self.launcher.as_ref().map_or_else(|problem| Err(problem.clone()), |one| one.hang_up()) {
            tracing::error!(successor, problem, "SIGHUP cannot be passed on");
        }
    }

    /// Has all that took over from this process, which is a container's first, do as it was told.
    pub fn pass_on(&self, signal: Passed) {
        tracing::info!(?signal, "passed on to the processes that took over");
        let passed = self.launcher.as_ref().map_err(Clone::clone).and_then(|launcher| launcher.signal_rest(signal));
        if let Err(problem) = passed {
            tracing::error!(?signal, problem, "a signal cannot be passed on");
        }
    }

    /// Whether all that took over from this process, which is a container's first, has ended; and what failed last.
    pub fn rest(&self) -> Option<Option<String>> {
        self.launcher.as_ref().map_or_else(|problem| Some(Some(problem.clone())), |launcher| launcher.rest())
    }

    /// What the admin side asks for one with. It waits for the outcome.
    pub fn request(&self) -> UpgradeRequest {
        let sender = self.sender.clone();
        Box::new(move || {
            let (reply, outcome) = mpsc::channel();
            let is_asked = sender.send(reply).is_ok();
            let outcome = if is_asked { outcome.recv().ok() } else { None };
            outcome.unwrap_or_else(|| Err(vec!["the server is shutting down".to_owned()]))
        })
    }

    /// What a reload takes its turn from.
    pub fn turns(&self) -> Turns {
        self.turns.clone()
    }

    /// Whether a process may be about to take over.
    pub fn is_running(&self) -> bool {
        self.turn.is_some()
    }

    /// The next request, or the end of the upgrade under way. May be dropped and called again.
    pub async fn next(&mut self) -> News {
        let outcome = async {
            match &mut self.running {
                Some((handover, _)) => handover.finished().await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            Some(reply) = self.requests.recv() => return News::Asked(reply),
            outcome = outcome => outcome,
        };
        let Some((_, reply)) = self.running.take() else { return News::Ended(Err(Vec::new())) };
        match &outcome {
            Ok(_) => {
                self.waiting = Some(reply);
                self.reject_all("another process serves now; ask again");
            }
            Err(_) => {
                self.turn = None;
                // Who asked may have gone.
                let _ = reply.send(outcome.clone());
            }
        }
        News::Ended(outcome)
    }

    /// There will be no other upgrade of this process.
    fn reject_all(&mut self, why: &str) {
        self.requests.close();
        while let Ok(reply) = self.requests.try_recv() {
            let _ = reply.send(Err(vec![why.to_owned()]));
        }
    }

    /// Tells who asked for it that another process serves: once that has all sockets of the admin side, too, so that what is asked next is asked there.
    pub fn report(&self, successor: u32) {
        if let Some(reply) = &self.waiting {
            let _ = reply.send(Ok(successor));
        }
    }

    /// Begins one with what `offer` gives, unless one or a reload is under way.
    pub fn begin(&mut self, reply: Reply, offer: impl FnOnce() -> Result<Belongings, Vec<String>>) {
        let turn = match self.running {
            Some(_) => Err(vec!["another upgrade is under way".to_owned()]),
            None => self.turns.for_upgrade(),
        };
        let launcher = || self.launcher.clone().map_err(|problem| vec![problem]);
        match turn.and_then(|turn| Ok((turn, launcher()?, offer()?))) {
            Ok((turn, launcher, belongings)) => {
                systemd::upgrading();
                (self.running, self.turn) = (Some((Handover::begin(&launcher, belongings), reply)), Some(turn));
            }
            Err(problems) => _ = reply.send(Err(problems)),
        }
    }

    /// Ends the new process of the upgrade under way, if there is one; there will be no other.
    pub async fn cancel(&mut self) {
        self.reject_all("the server is shutting down");
        if let Some((handover, reply)) = self.running.take() {
            handover.cancel().await;
            let _ = reply.send(Err(vec!["the server shuts down; the upgrade was given up".to_owned()]));
        }
    }
}
