//! Settings that no file gives: those of front doors and of tests, and what is read the same from a file. Each default is that of its row in the table.

use std::sync::Arc;

use super::model::*;
use super::shape::surface::{ADMIN, FORWARDING, LogFormat, RETRIES, UPSTREAM, UPSTREAM_EJECTION};
use super::table::{Object, defaults, setting};
use super::yaml::{Node, Value};

/// The settings of an object that are all at their defaults.
fn defaults_of(object: &'static Object) -> Node {
    defaults(object.all_fields())
}

impl AdminConfig {
    /// The admin side at an address, with every setting at its default.
    pub fn at(bind: Endpoint) -> AdminConfig {
        AdminConfig::read(bind, &defaults_of(&ADMIN))
    }

    /// Its settings that are a value alone.
    pub(super) fn read(bind: Endpoint, node: &Node) -> AdminConfig {
        let connection_timeout = setting(node, "connection_timeout");
        AdminConfig { bind, token: None, tls: None, hosts: Vec::new(), connection_timeout }
    }
}

impl UpstreamConfig {
    /// What one client may have of a group by default: half, and at least ten.
    pub fn share_of(max_in_flight: usize) -> usize {
        (max_in_flight / 2).max(10)
    }

    /// A group without servers, with every setting at its default.
    pub fn new(name: impl Into<String>) -> UpstreamConfig {
        UpstreamConfig::read(name, &defaults_of(&UPSTREAM))
    }

    /// Its settings that are a value alone.
    pub(super) fn read(name: impl Into<String>, node: &Node) -> UpstreamConfig {
        let max_in_flight = setting(node, "max_in_flight");
        UpstreamConfig {
            name: name.into(),
            servers: Vec::new(),
            protocol: UpstreamProtocol::default(),
            tls: None,
            send_proxy: SendProxy::default(),
            balance: Balance::default(),
            slow_start: setting(node, "slow_start"),
            source: SourceConfig::default(),
            original_dst: Vec::new(),
            connect_timeout: setting(node, "connect_timeout"),
            response_header_timeout: setting(node, "response_header_timeout"),
            idle_timeout: setting(node, "idle_timeout"),
            total_timeout: setting(node, "total_timeout"),
            pool_max_idle: setting(node, "pool_max_idle"),
            pool_idle_timeout: setting(node, "pool_idle_timeout"),
            keepalive: setting(node, "keepalive"),
            max_in_flight,
            max_in_flight_per_client: setting::<Option<usize>>(node, "max_in_flight_per_client")
                .unwrap_or_else(|| UpstreamConfig::share_of(max_in_flight)),
            retry_budget_percent: setting(&defaults_of(&RETRIES), "budget"),
            retries: Retries::default(),
            ejection: Ejection::default(),
            health: None,
            when_all_down: setting(node, "when_all_down"),
            max_in_flight_per_server: setting(node, "max_in_flight_per_server"),
            queue: setting(node, "queue"),
            sticky: None,
            own_zone: None,
        }
    }
}

impl KeyServersConfig {
    /// Its settings that are a value alone.
    pub(super) fn read(name: &str, node: &Node) -> KeyServersConfig {
        let group = UpstreamConfig::new(name);
        KeyServersConfig {
            upstream: Arc::new(UpstreamConfig {
                connect_timeout: setting(node, "connect_timeout"),
                retry_budget_percent: setting(node, "retry_budget"),
                max_in_flight: setting(node, "max_in_flight"),
                ..group
            }),
            timeout: setting(node, "timeout"),
            total_timeout: setting(node, "total_timeout"),
            connections: setting(node, "connections"),
            ping_interval: setting(node, "ping_interval"),
            enrolment: None,
        }
    }
}

impl UdpListenerConfig {
    /// Its settings that are a value alone.
    pub(super) fn read(name: impl Into<String>, node: &Node) -> UdpListenerConfig {
        UdpListenerConfig {
            name: name.into(),
            bind: Vec::new(),
            header: DatagramHeader::default(),
            trust: Trust::Networks(Vec::new()),
            header_optional: false,
            reply_header: false,
            to: TargetsConfig::Fixed { v4: None, v6: None },
            source: SourceConfig::default(),
            idle_timeout: setting(node, "idle_timeout"),
            max_flows: setting(node, "max_flows"),
            max_flows_per_client: setting(node, "max_flows_per_client"),
            policies: Vec::new(),
        }
    }
}

impl Default for Retries {
    fn default() -> Retries {
        Retries::read(&defaults_of(&RETRIES))
    }
}

impl Retries {
    /// Reads it.
    pub(super) fn read(node: &Node) -> Retries {
        let on = node.get("on").map(Node::one_or_many).unwrap_or_default();
        let has = |word: &str| on.iter().any(|item| item.text() == Some(word));
        Retries {
            on_connect: has("connect"),
            on_reset: has("reset"),
            on_timeout: has("timeout"),
            statuses: FailureStatuses::new(on.iter().filter_map(|item| item.text()?.parse().ok())),
            attempts: setting(node, "attempts"),
            per_try_timeout: setting(node, "per_try_timeout"),
            backoff: setting(node, "backoff"),
            hedge: node
                .get("hedge")
                .filter(|hedge| matches!(hedge.value, Value::Map(_)))
                .map(|hedge| Hedge { after: setting(hedge, "after"), max: setting(hedge, "max") }),
        }
    }
}

impl Default for Ejection {
    fn default() -> Ejection {
        Ejection::read(&defaults_of(&UPSTREAM_EJECTION))
    }
}

impl Ejection {
    /// Reads it; key servers have no statuses.
    pub(super) fn read(node: &Node) -> Ejection {
        let statuses = node.get("statuses").map(Node::one_or_many).unwrap_or_default();
        Ejection {
            failures: setting(node, "failures"),
            duration: setting(node, "duration"),
            statuses: FailureStatuses::new(statuses.iter().filter_map(|status| status.text()?.parse().ok())),
            latency: setting(node, "latency"),
            max_percent: setting(node, "max_percent"),
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
            names: tls::NameCheck::default(),
            policy: tls::Policy::Intermediate,
        }
    }
}

impl HealthCheck {
    /// Its settings that are a value alone.
    pub(super) fn read(probe: Probe, node: &Node) -> HealthCheck {
        HealthCheck {
            probe,
            port: setting(node, "port"),
            interval: setting(node, "interval"),
            jitter: setting(node, "jitter"),
            timeout: setting(node, "timeout"),
            fall: setting(node, "fall"),
            rise: setting(node, "rise"),
        }
    }
}

impl Default for Forwarding {
    fn default() -> Forwarding {
        let node = defaults_of(&FORWARDING);
        let trusted = node.get("trusted_fields").map(Node::one_or_many).unwrap_or_default();
        let trusted_fields = trusted.iter().filter_map(|field| Some(field.text()?.to_ascii_lowercase())).collect();
        Forwarding { trusted_fields, ..Forwarding::read(&node) }
    }
}

impl Forwarding {
    /// Its settings that are a value alone.
    pub(super) fn read(node: &Node) -> Forwarding {
        Forwarding {
            x_forwarded: setting(node, "x_forwarded"),
            x_forwarded_host: setting(node, "x_forwarded_host"),
            x_forwarded_port: setting(node, "x_forwarded_port"),
            x_real_ip: setting(node, "x_real_ip"),
            forwarded: setting(node, "forwarded"),
            via: setting(node, "via"),
            request_id: setting(node, "request_id"),
            traces: false,
            trusted_fields: Vec::new(),
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
        AccessLog {
            output: LogOutput::Stdout,
            format: LogFormat::Json,
            fields: Arc::default(),
            removed: Vec::new(),
            redacted: WELL_KNOWN_SECRETS.iter().map(|name| (*name).to_owned()).collect(),
            sampled: Vec::new(),
            mmproxy_verbosity: None,
        }
    }
}

impl PathPattern {
    /// Every path.
    pub fn any() -> PathPattern {
        PathPattern { text: "/{*rest}".to_owned(), segments: vec![Segment::CatchAll { name: "rest".to_owned() }] }
    }
}
