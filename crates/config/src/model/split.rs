//! Requests of one route that go to several groups: shares, and copies.

use super::Conditions;

/// A share of the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Key into `Config::upstreams`.
    pub group: String,
    /// Its part of the requests for which no condition of another share holds; 0 where it has conditions itself.
    pub weight: u32,
    /// It gets all requests for which these hold, if there are any.
    pub when: Conditions,
}

/// Copies of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Key into `Config::upstreams`.
    pub group: String,
    /// Of a hundred requests this many are copied.
    pub percent: u32,
    /// Requests with a longer body are not copied, bytes.
    pub max_body_bytes: usize,
}
