//! When files are read again: something that is watched has changed and then been quiet, or a period is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::Watcher as _;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, sleep_until};

use super::watched::{News, Watched};

/// After a change, how long it must stay quiet before files are read: sets of files are written one by one.
const QUIET: Duration = Duration::from_millis(500);

/// Reasons to read files again: the configuration file changed, or something it names, or the period is over.
pub struct Changes {
    watched: Watched,
    _watcher: Option<notify::RecommendedWatcher>,
    events: Receiver<()>,
    /// What the events were news of: the configuration, and what it names.
    pending: Arc<(AtomicBool, AtomicBool)>,
    /// Something changed: when it will have been quiet for long enough, and when to wait no longer.
    settling: Option<(Instant, Instant)>,
    period: Duration,
    next_period: Instant,
}

impl Changes {
    /// Watches from now on, and has everything read again after each `period`.
    pub fn watch(watched: Watched, period: Duration) -> Changes {
        let (sender, events) = channel(1);
        let filter = watched.clone();
        let pending = Arc::<(AtomicBool, AtomicBool)>::default();
        let noted = Arc::clone(&pending);
        // A full channel already says that something changed.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(news) = event.map(|event| filter.news(&event)) else { return };
            noted.0.fetch_or(news.configuration, Ordering::Relaxed);
            noted.1.fetch_or(news.named, Ordering::Relaxed);
            if news != News::default() {
                let _ = sender.try_send(());
            }
        });
        let mut watcher = watcher.inspect_err(|error| tracing::warn!(%error, "cannot watch files")).ok();
        for (folder, mode) in watched.folders() {
            if let Some(Err(error)) = watcher.as_mut().map(|watcher| watcher.watch(folder, mode)) {
                tracing::warn!(%error, folder = %folder.display(), "cannot watch this folder; changes are picked up every `reload_interval` and on SIGHUP");
            }
        }
        let _watcher = watcher;
        Changes { watched, _watcher, events, pending, settling: None, period, next_period: after(period) }
    }

    /// After a reload, whoever asked for it: watches what the active configuration names.
    pub fn follow(&mut self, watched: Watched, period: Duration) {
        if self.watched == watched {
            // The watch goes on: between an old one and a new one a change could be lost.
            self.period = period;
            self.next_period = self.next_period.min(after(period));
            return;
        }
        let mut fresh = Changes::watch(watched, period);
        fresh.settling = self.settling;
        // What the old watch has seen and what happened before the new one began is not forgotten.
        fresh.pending.0.store(fresh.watched.has_configuration(), Ordering::Relaxed);
        fresh.pending.1.store(true, Ordering::Relaxed);
        fresh.note();
        *self = fresh;
    }

    /// Something changed: wait until it has been quiet for a while, but not for ever.
    fn note(&mut self) {
        let now = Instant::now();
        let latest = self.settling.map_or(now + 10 * QUIET, |(_, latest)| latest);
        self.settling = Some((latest.min(now + QUIET), latest));
    }

    /// Whether something changed that [`Changes::next`] has not given yet.
    pub fn is_pending(&self) -> bool {
        let (configuration, named) = &*self.pending;
        configuration.load(Ordering::Relaxed) || named.load(Ordering::Relaxed)
    }

    /// The next reason. May be dropped and called again at any time: what it waits for is kept.
    pub async fn next(&mut self) -> (News, &'static str) {
        loop {
            let settled = self.settling.map_or(self.next_period, |(quiet, _)| quiet);
            tokio::select! {
                Some(()) = self.events.recv() => self.note(),
                () = sleep_until(settled), if self.settling.is_some() => {
                    self.settling = None;
                    let (configuration, named) = &*self.pending;
                    let taken = |flag: &AtomicBool| flag.swap(false, Ordering::Relaxed);
                    return (News { configuration: taken(configuration), named: taken(named) }, "files changed");
                }
                () = sleep_until(self.next_period) => {
                    self.next_period = after(self.period);
                    return (News { configuration: false, named: true }, "period");
                }
            }
        }
    }
}

fn after(period: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + period.min(FAR)
}
