//! What holds where a file says nothing: the defaults of upstreams, forwarding and logs. Those of the process are in `crate::limits`.
//!
//! `shape/surface.rs` repeats them as text for readers, and a test compares the two.

use std::sync::Arc;
use std::time::Duration;

use super::model::{
    AccessLog, AdminConfig, Balance, DatagramHeader, Ejection, Endpoint, FailureStatuses, Forwarding, HealthCheck,
    KeyServersConfig, LogConfig, PathPattern, Segment, SendProxy, SourceConfig, TargetsConfig, Trust,
    UdpListenerConfig, UpstreamConfig, UpstreamProtocol, UpstreamTls,
};

/// From accept to the last byte of a PROXY header, where a listener takes them.
pub(super) const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(5);

impl AdminConfig {
    /// The admin side at an address, with every setting at its default.
    pub fn at(bind: Endpoint) -> AdminConfig {
        // Longer than any reload, whose outcome is reported on the connection that asked for it.
        AdminConfig { bind, hosts: Vec::new(), connection_timeout: Duration::from_secs(120) }
    }
}

impl UpstreamConfig {
    /// What one client may have of a group by default: half, and at least ten.
    pub fn share_of(max_in_flight: usize) -> usize {
        (max_in_flight / 2).max(10)
    }

    /// A group without servers, with every setting at its default.
    pub fn new(name: impl Into<String>) -> UpstreamConfig {
        UpstreamConfig {
            name: name.into(),
            servers: Vec::new(),
            protocol: UpstreamProtocol::default(),
            tls: None,
            send_proxy: SendProxy::default(),
            balance: Balance::default(),
            source: SourceConfig::default(),
            to_destinations: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            total_timeout: None,
            pool_max_idle: 256,
            // Below the minute after which common servers drop an idle connection, so that we close first.
            pool_idle_timeout: Duration::from_secs(30),
            max_in_flight: 10_000,
            max_in_flight_per_client: UpstreamConfig::share_of(10_000),
            retry_budget_percent: 20,
            ejection: Ejection::default(),
            health: None,
        }
    }
}

impl KeyServersConfig {
    /// A group without servers, with every setting at its default.
    pub fn new(name: impl Into<String>) -> KeyServersConfig {
        let upstream = UpstreamConfig {
            connect_timeout: Duration::from_secs(1),
            retry_budget_percent: 10,
            max_in_flight: 4000,
            ..UpstreamConfig::new(name)
        };
        KeyServersConfig {
            upstream: Arc::new(upstream),
            timeout: Duration::from_millis(700),
            // With what comes before and after it, a handshake ends within two seconds.
            total_timeout: Duration::from_millis(1800),
            connections: 2,
            // Common key servers drop connections that are silent for 30 seconds.
            ping_every: Duration::from_secs(12),
        }
    }
}

impl UdpListenerConfig {
    /// A listener without addresses and targets, with every setting at its default.
    pub fn new(name: impl Into<String>) -> UdpListenerConfig {
        UdpListenerConfig {
            name: name.into(),
            bind: Vec::new(),
            header: DatagramHeader::default(),
            trust: Trust::Networks(Vec::new()),
            pass_without_header: false,
            response_header: false,
            to: TargetsConfig::Fixed { v4: None, v6: None },
            source: SourceConfig::default(),
            idle_timeout: Duration::from_secs(60),
            max_flows: 65_536,
            max_flows_per_client: 1024,
        }
    }
}

impl Default for Ejection {
    fn default() -> Ejection {
        Ejection {
            failures: 5,
            period: Duration::from_secs(10),
            statuses: FailureStatuses::new([502, 503, 504]),
            most_percent: 50,
        }
    }
}

impl Default for UpstreamTls {
    /// Verified by the system's roots.
    fn default() -> UpstreamTls {
        UpstreamTls {
            ca: None,
            name: None,
            client_certificate: None,
            client_key: None,
            verify: true,
            policy: tls::Policy::Intermediate,
        }
    }
}

impl HealthCheck {
    /// A check of `path` with every setting at its default.
    pub fn new(path: impl Into<String>) -> HealthCheck {
        HealthCheck { path: Some(path.into()), ..HealthCheck::of_connecting() }
    }

    /// A check that only connects.
    pub fn of_connecting() -> HealthCheck {
        HealthCheck {
            path: None,
            host: None,
            every: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            fall: 3,
            rise: 2,
        }
    }
}

impl Default for Forwarding {
    fn default() -> Forwarding {
        Forwarding {
            x_forwarded: true,
            x_real_ip: true,
            forwarded: false,
            via: true,
            request_id: true,
            // What load balancers set whatever the client sent: those of the clouds, HAProxy, nginx as usually configured.
            trusted_fields: ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"].map(str::to_owned).into(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { access: Some(AccessLog::default()), level: "info".to_owned() }
    }
}

impl Default for AccessLog {
    fn default() -> AccessLog {
        AccessLog { path: None, json: true, mmproxy_verbosity: None }
    }
}

impl PathPattern {
    /// Every path.
    pub fn any() -> PathPattern {
        PathPattern { text: "/{*rest}".to_owned(), segments: vec![Segment::CatchAll { name: "rest".to_owned() }] }
    }
}
