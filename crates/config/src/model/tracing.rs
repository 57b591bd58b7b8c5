//! Traces: the collector that gets them, and how many.

use std::path::PathBuf;

use super::ServerAddress;

/// Where spans go (OTLP over HTTP), and of how many requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracingConfig {
    /// The collector.
    pub address: ServerAddress,
    /// It is asked over TLS.
    pub is_tls: bool,
    /// Host and port, as its URL has them.
    pub host: String,
    /// Path, as its URL has it.
    pub path: String,
    /// How many of a million traces that begin here are sampled.
    pub millionths: u32,
    /// `service.name` of the resource.
    pub service_name: String,
    /// Authorities to trust, for TLS; none for those of the system.
    pub ca: Option<PathBuf>,
    /// The name its certificate must have; none for that of the address.
    pub server_name: Option<String>,
}
