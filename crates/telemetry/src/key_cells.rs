//! What one worker counts of operations at key servers.

use super::count::{Count, Durations};

/// What one worker counts of one group of key servers.
#[derive(Debug, Default)]
pub(super) struct KeyGroupCells {
    /// Operations under way.
    pub(super) in_flight: Count,
    pub(super) retries: Count,
}

/// What one worker counts of one key server.
#[derive(Debug, Default)]
pub(super) struct KeyServerCells {
    /// Of operations that went well.
    pub(super) durations: Durations,
    /// Open connections.
    pub(super) connections: Count,
    /// 1 while it can be asked.
    pub(super) usable: Count,
    /// 1 while the configuration names it.
    pub(super) configured: Count,
}
