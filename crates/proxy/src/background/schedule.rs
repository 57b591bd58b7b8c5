//! When things that come from URLs are fetched: at first sight, then whenever their owner says so, one fetch of each at a time. Knows neither what
//! is fetched nor from where.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often what is due is looked for.
const TICK: Duration = Duration::from_millis(250);

/// After a fetch that failed.
pub const PAUSE: Duration = Duration::from_secs(5);

/// What is fetched, by key; `S` is what it was fetched from.
pub struct Schedule<K, S> {
    fetches: HashMap<K, Fetch<S>>,
    ends: UnboundedSender<(K, bool)>,
    ended: UnboundedReceiver<(K, bool)>,
    tick: Interval,
}

/// The last fetch of one thing.
pub struct Fetch<S> {
    /// Where it came from.
    pub source: S,
    /// It brought nothing good.
    pub has_failed: bool,
    /// Its end, or its start while it is running.
    last: Instant,
    is_running: bool,
}

impl<S> Fetch<S> {
    /// How long ago it ended.
    pub fn waited(&self) -> Duration {
        self.last.elapsed()
    }
}

impl<K: Clone + Eq + Hash + 'static, S> Schedule<K, S> {
    /// One that knows of nothing yet.
    pub fn new() -> Schedule<K, S> {
        let (ends, ended) = unbounded_channel();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Schedule { fetches: HashMap::new(), ends, ended, tick }
    }

    /// Notes what ends until it is time to look for what is due.
    pub async fn tick(&mut self) {
        loop {
            tokio::select! {
                _ = self.tick.tick() => return,
                Some((key, is_good)) = self.ended.recv() => {
                    if let Some(fetch) = self.fetches.get_mut(&key) {
                        (fetch.last, fetch.is_running, fetch.has_failed) = (Instant::now(), false, !is_good);
                    }
                }
            }
        }
    }

    /// Forgets what is not wanted any more, once it is not being fetched.
    pub fn retain(&mut self, is_wanted: impl Fn(&K) -> bool) {
        self.fetches.retain(|key, fetch| fetch.is_running || is_wanted(key));
    }

    /// Whether a thing was never fetched, or is not being fetched and is due `again`.
    pub fn is_due(&self, key: &K, again: impl FnOnce(&Fetch<S>) -> bool) -> bool {
        self.fetches.get(key).is_none_or(|fetch| !fetch.is_running && again(fetch))
    }

    /// Starts a fetch in a task of its own; it says whether it brought something good.
    pub fn start(&mut self, key: K, source: S, fetch: impl Future<Output = bool> + 'static) {
        let running = Fetch { source, has_failed: false, last: Instant::now(), is_running: true };
        self.fetches.insert(key.clone(), running);
        let ends = self.ends.clone();
        tokio::task::spawn_local(async move {
            let _ = ends.send((key, fetch.await));
        });
    }
}
