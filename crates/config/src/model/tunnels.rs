//! Tunnels as the program runs them: who gets a connection by what its ClientHello names.

use std::time::Duration;

use ipnet::IpNet;

use super::HostPattern;

/// What a listener does that carries bytes and looks no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelConfig {
    /// Who gets what. At least one; the most specific that fits wins.
    pub rules: Vec<TunnelRule>,
    /// What becomes of what does not begin with TLS where a ClientHello is read.
    pub not_tls: NotTls,
    /// Nothing moves either way; none for the process's own limit.
    pub idle_timeout: Option<Duration>,
    /// The whole life of a tunnel; none for no bound.
    pub max_lifetime: Option<Duration>,
}

/// Connections that do not begin with TLS where a ClientHello is read: each allows what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotTls {
    /// Closed.
    Reject,
    /// What is sent and is no TLS goes to the default as it is; who sends nothing in time is closed.
    Forward,
    /// Who sends nothing in time goes there, too: in some protocols the server speaks first.
    ForwardSilent,
}

/// Who gets the connections for some names, protocols and clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelRule {
    /// Server names; empty for any, and for none.
    pub names: Vec<HostPattern>,
    /// ALPN protocols; empty for any, and for none.
    pub alpn: Vec<String>,
    /// Networks of clients; empty for any, and for none.
    pub clients: Vec<IpNet>,
    /// Key into `Config::upstreams`.
    pub upstream: String,
    /// TLS is passed by unopened.
    pub passthrough: bool,
    /// Policies that its connections must pass.
    pub policies: Vec<String>,
}
