//! Keys of `forwarding`, `headers`, `paths` and `log`; those of `limits` are in `crate::limits`. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

pub(crate) static FORWARDING: Object = object(
    "forwarding",
    "forwarding header fields",
    &[&[
        optional("x_forwarded", Shape::Bool, "true", "`X-Forwarded-For`, `-Proto`, `-Host` and `-Port`."),
        optional("x_forwarded_host", Shape::Bool, "true", "`false` leaves out `X-Forwarded-Host` of those."),
        optional("x_forwarded_port", Shape::Bool, "true", "`false` leaves out `X-Forwarded-Port` of those."),
        optional("x_real_ip", Shape::Bool, "true", "`X-Real-IP`."),
        optional("forwarded", Shape::Bool, "false", "`Forwarded` (RFC 7239)."),
        optional("via", Shape::Bool, "true", "`Via`, in requests and responses."),
        optional("request_id", Shape::Bool, "true", "`X-Request-Id`, generated for each request."),
        optional(
            "trusted_fields",
            Shape::OneOrMany(&Shape::Text("a field name such as `X-Forwarded-For`")),
            "[X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Port]",
            "Header fields that each of the `trusted_proxies` sets or appends to, whatever its client sent. Only these are believed; the first of them that names \
             an address names the client (`X-Forwarded-For` and `Forwarded` are read from the right, past trusted proxies). All other header fields that \
             claim to name the client are removed.",
        ),
    ]],
);

words! {
    /// What becomes of fields of requests whose names hold `_` or other characters than letters, digits and hyphens.
    pub enum UnusualName {
        /// They go on, but for those that a server might take for a field that is set, removed, believed or decided by here.
        #[default]
        Pass = "pass",
        /// As `pass` for names with `_`; all others are removed.
        Underscores = "underscores",
        /// They are removed, but for those that a contract declares.
        Drop = "drop",
        /// They are rejected with 400, but for those that a contract declares for the operation.
        Reject = "reject",
    }
}

words! {
    /// Which methods requests may have.
    pub enum MethodForm {
        /// Any token.
        #[default]
        Any = "any",
        /// Capital letters, `-` and `_`.
        Capitals = "capitals",
    }
}

pub(in crate::shape) static HEADERS: Object = object(
    "headers",
    "which header fields requests may hold",
    &[&[optional(
        "unusual_names",
        Shape::Choice(UnusualName::WORDS),
        "pass",
        "Fields whose names hold `_` or another character than letters, digits and hyphens, which servers that turn names into variables take for a hyphen (CGI, WSGI, FastCGI). \
         `pass`: forward them, except for those that such a server would take for a field that is set, removed, believed or decided by here, or that a contract declares, which are \
         removed. `underscores`: the same for names with `_`, and remove all others. `drop`: remove them all. `reject`: reject such requests with 400. Names that a contract \
         declares go on. Except with `drop`, a name that would be a field of the framing or the connection (`Content_Length`) is a 400.",
    )]],
);

pub(in crate::shape) static PATHS: Object = object(
    "paths",
    "how paths of requests are read",
    &[&[
        optional(
            "allow_encoded_slash",
            Shape::Bool,
            "false",
            "Accept `%2F` in a parameter, where a route does not say otherwise. A path that would be another route's if it were decoded is rejected all the same.",
        ),
        optional(
            "drop_empty_query",
            Shape::Bool,
            "false",
            "Leave out an empty query (`/x?`) where the path is rewritten, as nginx does. Otherwise it goes on.",
        ),
    ]],
);

pub(in crate::shape) static LOG: Object = object(
    "log",
    "logs",
    &[&[
        optional(
            "access",
            Shape::Either(&[Shape::Choice(&["none"]), Shape::Object(&ACCESS_LOG)]),
            "(see there)",
            "Access log, one line per request.",
        ),
        optional(
            "level",
            Shape::Choice(&["error", "warn", "info", "debug", "trace"]),
            "info",
            "Lowest level of the diagnostic log on stderr.",
        ),
    ]],
);

words! {
    /// How lines of the access log are written.
    pub enum LogFormat {
        /// An object of JSON.
        #[default]
        Json = "json",
        /// For people.
        Text = "text",
        /// Names and values.
        Logfmt = "logfmt",
        /// The Common Log Format of NCSA's and Apache's servers.
        Common = "common",
    }
}

/// Facilities of syslog by number (RFC 5424 §6.2.1).
pub(crate) const FACILITIES: &[&str] = &[
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

pub(in crate::shape) static ACCESS_LOG: Object = object(
    "access",
    "the access log",
    &[&[
        optional(
            "format",
            Shape::Choice(LogFormat::WORDS),
            "json",
            "`json` or `logfmt` for machines, `text` for people. `common`: the Common Log Format of NCSA's and Apache's servers, which has lines for requests only.",
        ),
        optional(
            "fields",
            Shape::Table("NAME", &Shape::Text("a text with variables such as `{path.tenant}`")),
            "(none)",
            "Fields to add to the line of each request. A field of which nothing is made is left out. Routes can add to them and replace them (`log_fields`). Credentials cannot be added.",
        ),
        optional(
            "remove",
            Shape::OneOrMany(&Shape::Text("a field such as `user_agent` or `tls.cipher`")),
            "(none)",
            "Fields to leave out, with `format: json` or `logfmt`. `time` and `kind` cannot be left out.",
        ),
        optional(
            "redact",
            Shape::Object(&REDACT),
            "(see there)",
            "Query parameters whose values are replaced by `REDACTED`, in `target` and in fields that are added.",
        ),
        optional(
            "sample",
            Shape::Table("STATUS", &Shape::Verbatim("a share from 0 to 1 such as `0.01`")),
            "(none: all requests)",
            "Share of the requests that have a line, by status (`404`) or class (`2xx`) of the response, 100 to 499; the status goes before its class. A request below 400 that \
             went wrong always has one. Lines of the others say the share in `sampled`.",
        ),
        optional(
            "output",
            Shape::Either(&[Shape::Text("`stdout`, `journald` or a file"), Shape::Object(&SYSLOG)]),
            "stdout",
            "Destination. A file is reopened on SIGUSR1. `journald`: the journal of systemd, with all fields beside the line.",
        ),
    ]],
);

pub(in crate::shape) static REDACT: Object = object(
    "redact",
    "what the access log does not show",
    &[&[
        optional(
            "well_known",
            Shape::Bool,
            "true",
            "Redact parameters whose names are known to hold secrets, such as `access_token`, `code` and `password` (the list is in the guide).",
        ),
        optional(
            "query",
            Shape::OneOrMany(&Shape::Text("the name of a query parameter")),
            "(none)",
            "Further names. Case does not count, and `-` and `.` are as `_`; `auth[token]` has the names `auth` and `token`.",
        ),
    ]],
);

pub(in crate::shape) static SYSLOG: Object = object(
    "syslog",
    "a syslog service (RFC 5424) as the destination of the access log",
    &[&[
        required(
            "syslog",
            Shape::Text("an address such as `udp://192.0.2.1:514`, `tls://logs.example.com:6514` or `unix:/dev/log`"),
            "Address: `udp://` (port 514), `tcp://` (port 601; messages with their length before them), `tls://` (port 6514), or a datagram socket `unix:PATH`.",
        ),
        optional("facility", Shape::Choice(FACILITIES), "local0", "Facility."),
        optional(
            "app_name",
            Shape::Text("a name of at most 48 letters, digits, `.`, `_` and `-`"),
            "portunus",
            "APP-NAME.",
        ),
        optional(
            "ca",
            Shape::Text("a PEM file"),
            "(the system's certificate authorities)",
            "Certificate authorities to verify the service by, with `tls://`.",
        ),
        optional(
            "server_name",
            Shape::Text("a host name"),
            "(that of the address)",
            "Host name in the certificate, with `tls://`.",
        ),
    ]],
);

pub(in crate::shape) static TRACING: Object = object(
    "tracing",
    "traces of requests, by OpenTelemetry",
    &[&[
        required(
            "otlp",
            Shape::Text("a URL such as `http://127.0.0.1:4318`"),
            "The collector: spans are sent there by OTLP over HTTP, as protobuf. Without a path: `/v1/traces`.",
        ),
        optional(
            "sample",
            Shape::Verbatim("a share from 0 to 1 such as `0.01`"),
            "1",
            "Share of the traces that are sampled. Where one of the `trusted_proxies` sends `traceparent`, that says whether the request is.",
        ),
        optional("service_name", Shape::Text("a name"), "portunus", "`service.name` of the spans."),
        optional(
            "ca",
            Shape::Text("a PEM file"),
            "(the system's certificate authorities)",
            "Certificate authorities to verify the collector by, with `https://`.",
        ),
        optional(
            "server_name",
            Shape::Text("a host name"),
            "(that of the URL)",
            "Host name in the certificate, with `https://`.",
        ),
    ]],
);

pub(in crate::shape) static SANDBOX: Object = object(
    "sandbox",
    "what the process may still do once it serves",
    &[&[
        optional("mode", Shape::Choice(&["auto", "on", "off"]), "on", "As `sandbox` without a mapping."),
        optional(
            "read",
            Shape::OneOrMany(&Shape::Text("a folder")),
            "(none)",
            "Further folders that may be read, for files that a reload will name.",
        ),
        optional(
            "write",
            Shape::OneOrMany(&Shape::Text("a folder")),
            "(none)",
            "Further folders that may be written to, for logs and Unix sockets that a reload will name.",
        ),
        optional(
            "connect",
            Shape::OneOrMany(&Shape::Text("a folder")),
            "(none)",
            "Folders of Unix sockets that a reload will name. Where neither this nor anything else names a Unix socket, the process makes none after its start.",
        ),
    ]],
);
