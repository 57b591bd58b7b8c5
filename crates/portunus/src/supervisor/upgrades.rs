//! Requests for an upgrade, and the one that is under way.

use std::sync::mpsc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::handover::{Belongings, Handover};
use crate::admin::UpgradeRequest;

/// The number of the process that serves now, or why there is none.
type Outcome = Result<u32, Vec<String>>;

/// Where the outcome is waited for.
pub type Reply = mpsc::Sender<Outcome>;

/// Requests for upgrades, one at a time.
#[derive(Debug)]
pub struct Upgrades {
    sender: UnboundedSender<Reply>,
    requests: UnboundedReceiver<Reply>,
    running: Option<(Handover, Reply)>,
}

impl Default for Upgrades {
    fn default() -> Upgrades {
        let (sender, requests) = unbounded_channel();
        Upgrades { sender, requests, running: None }
    }
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
        let Some((handover, reply)) = self.running.take() else { return News::Ended(Err(Vec::new())) };
        let outcome = outcome.map(|()| handover.pid());
        // Who asked may have gone.
        let _ = reply.send(outcome.clone());
        News::Ended(outcome)
    }

    /// Begins one with what `offer` gives, unless one is under way.
    pub fn begin(&mut self, reply: Reply, offer: impl FnOnce() -> Result<Belongings, Vec<String>>) {
        if self.running.is_some() {
            let _ = reply.send(Err(vec!["another upgrade is under way".to_owned()]));
            return;
        }
        match offer().and_then(Handover::begin) {
            Ok(handover) => {
                tracing::info!(pid = handover.pid(), "upgrade: the new process is started");
                self.running = Some((handover, reply));
            }
            Err(problems) => _ = reply.send(Err(problems)),
        }
    }

    /// Ends the new process of the upgrade under way, if there is one; there will be no other.
    pub fn cancel(&mut self) {
        self.requests.close();
        while let Ok(reply) = self.requests.try_recv() {
            let _ = reply.send(Err(vec!["the server is shutting down".to_owned()]));
        }
        if let Some((handover, reply)) = self.running.take() {
            handover.cancel();
            let _ = reply.send(Err(vec!["the server shuts down; the upgrade was given up".to_owned()]));
        }
    }
}
