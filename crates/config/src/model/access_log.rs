//! The logs: where they go, in what form, and what of a request they do not show.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use super::{LogField, ServerAddress};
use crate::shape::surface::LogFormat;

/// Names of query parameters that are known to hold secrets. Compared without case, `-` and `.` as `_`.
pub const WELL_KNOWN_SECRETS: &[&str] = &[
    "access_token",
    "api_key",
    "apikey",
    "assertion",
    "auth",
    "auth_token",
    "authorization",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "credential",
    "credentials",
    "csrf_token",
    "id_token",
    "jwt",
    "key",
    "otp",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "pwd",
    "refresh_token",
    "samlrequest",
    "samlresponse",
    "secret",
    "session",
    "session_id",
    "sessionid",
    "sid",
    "sig",
    "signature",
    "ticket",
    "token",
    "x_amz_credential",
    "x_amz_security_token",
    "x_amz_signature",
    "x_goog_credential",
    "x_goog_signature",
];

/// Fields of a line that can be left out, and those of objects in it. `time`, `kind` and `truncated` stay.
pub const REMOVABLE_FIELDS: &[&str] = &[
    "balancer",
    "bytes_received",
    "bytes_sent",
    "client_address",
    "client_port",
    "compression",
    "compression.bytes",
    "compression.encoding",
    "connection_id",
    "contract",
    "contract.decision",
    "contract.name",
    "contract.operation",
    "contract.place",
    "contract.reason",
    "contract.side",
    "contract.violations",
    "datagrams_lost",
    "datagrams_received",
    "datagrams_sent",
    "detail",
    "duration_seconds",
    "ended_by",
    "error_pages",
    "fault",
    "fields",
    "host",
    "listener",
    "method",
    "passthrough",
    "peer_address",
    "phase",
    "policy",
    "port_kept",
    "proxy_protocol",
    "proxy_protocol.alpn",
    "proxy_protocol.balancer",
    "proxy_protocol.client_certificate_verified",
    "proxy_protocol.client_common_name",
    "proxy_protocol.destination",
    "proxy_protocol.server_name",
    "proxy_protocol.tls_cipher",
    "proxy_protocol.tls_version",
    "proxy_protocol.unique_id",
    "proxy_protocol.version",
    "ready_after_seconds",
    "reason",
    "request_id",
    "route",
    "sampled",
    "server_name",
    "status",
    "target",
    "throttled_seconds",
    "tls",
    "tls.alpn",
    "tls.cipher",
    "tls.ech",
    "tls.client_certificate",
    "tls.group",
    "tls.key_type",
    "tls.resumed",
    "tls.server_name",
    "tls.version",
    "trace_id",
    "unreachable",
    "upstream",
    "upstream.connect_seconds",
    "upstream.duration_seconds",
    "upstream.hedge_won",
    "upstream.hedges",
    "upstream.mirror",
    "upstream.moves",
    "upstream.name",
    "upstream.queue_seconds",
    "upstream.retries",
    "upstream.server",
    "upstream.session",
    "upstream.status",
    "user",
    "user_agent",
    "version",
    "would_reject",
];

/// Logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// Access log, if any.
    pub access: Option<AccessLog>,
    /// Level of the diagnostic log: error, warn, info, debug, trace.
    pub level: String,
}

/// The access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// Where it goes.
    pub output: LogOutput,
    /// Form of its lines.
    pub format: LogFormat,
    /// Fields for requests that no route takes; routes have their own.
    pub fields: Arc<[LogField]>,
    /// Paths of fields that are left out.
    pub removed: Vec<String>,
    /// Names of query parameters whose values are not shown.
    pub redacted: Vec<String>,
    /// Statuses of which not all requests have a line; the narrower ones last.
    pub sampled: Vec<LogSample>,
    /// Lines as go-mmproxy writes them instead, 0 to 2 being its `-v`; no file can ask for that.
    pub mmproxy_verbosity: Option<u8>,
}

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard output.
    Stdout,
    /// A file, opened again on SIGUSR1.
    File(PathBuf),
    /// The journal of systemd, by its own protocol.
    Journald,
    /// A syslog service.
    Syslog(Syslog),
}

/// A syslog service (RFC 5424).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syslog {
    /// How messages get there.
    pub transport: SyslogTransport,
    /// Where it listens.
    pub address: ServerAddress,
    /// Number of the facility.
    pub facility: u8,
    /// APP-NAME.
    pub app_name: String,
    /// Authorities to trust, for TLS; none for those of the system.
    pub ca: Option<PathBuf>,
    /// The name its certificate must have; none for that of the address.
    pub server_name: Option<String>,
}

impl fmt::Display for Syslog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            SyslogTransport::Udp => "udp",
            SyslogTransport::Tls => "tls",
            SyslogTransport::Tcp | SyslogTransport::Unix => "tcp",
        };
        match &self.address {
            ServerAddress::Unix(path) => write!(f, "syslog unix:{}", path.display()),
            ServerAddress::Ip(address) => write!(f, "syslog {scheme}://{address}"),
            ServerAddress::Name(name, port) => write!(f, "syslog {scheme}://{name}:{port}"),
            ServerAddress::Service(name) => write!(f, "syslog {scheme}://{name}"),
            ServerAddress::Listed(listed) => write!(f, "syslog {scheme}://{listed}"),
        }
    }
}

/// How syslog messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyslogTransport {
    /// A datagram each (RFC 5426).
    Udp,
    /// Counted, in a TCP connection (RFC 6587).
    Tcp,
    /// Counted, under TLS (RFC 5425).
    Tls,
    /// A datagram each, on a Unix socket.
    Unix,
}

/// How many requests have a line, by status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSample {
    /// Statuses of the response.
    pub statuses: RangeInclusive<u16>,
    /// How many of a million.
    pub millionths: u32,
}
