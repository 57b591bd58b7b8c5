//! How upstreams and their servers stand at the moment, asked for when metrics are.

use std::fmt;
use std::sync::OnceLock;

/// An upstream group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamView {
    /// Its name.
    pub name: String,
    /// Requests and tunnels under way.
    pub in_flight: usize,
    /// Those that wait in its queue; none if it has none.
    pub queue_length: Option<usize>,
    /// Copies of requests that it got, by what became of them.
    pub mirrored: [(&'static str, u64); 3],
    /// Its servers.
    pub servers: Vec<ServerView>,
}

/// One server of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerView {
    /// Its address.
    pub name: String,
    /// Its zone, if it has one.
    pub zone: Option<String>,
    /// Requests and tunnels under way.
    pub in_flight: usize,
    /// Whether it is given requests.
    pub is_up: bool,
    /// Whether it is ejected.
    pub is_ejected: bool,
}

/// Gives the upstreams of the configuration that is active.
pub type Views = Box<dyn Fn() -> Vec<UpstreamView> + Send + Sync>;

/// Who is asked.
#[derive(Default)]
pub(super) struct Upstreams(OnceLock<Views>);

impl Upstreams {
    /// Sets who is asked, once.
    pub(super) fn set(&self, views: Views) {
        // A second one would be that of another server in this process; the first stays.
        let _ = self.0.set(views);
    }

    /// How they stand.
    pub(super) fn views(&self) -> Vec<UpstreamView> {
        self.0.get().map(|views| views()).unwrap_or_default()
    }
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Upstreams")
    }
}
