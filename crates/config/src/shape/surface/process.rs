//! Keys of `forwarding` and `log`; those of `limits` are in `crate::limits`. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

pub(crate) static FORWARDING: Object = object(
    "forwarding",
    "forwarding header fields",
    &[&[
        optional("x_forwarded", Shape::Bool, "true", "`X-Forwarded-For`, `-Proto`, `-Host` and `-Port`."),
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

pub(in crate::shape) static ACCESS_LOG: Object = object(
    "access",
    "the access log",
    &[&[
        optional("format", Shape::Choice(&["json", "text"]), "json", "JSON for machines, text for people."),
        optional(
            "fields",
            Shape::Table("NAME", &Shape::Text("a text with variables such as `{path.tenant}`")),
            "(none)",
            "Fields to add to the line of each request. A field of which nothing is made is left out. Routes can add to them and replace them (`log_fields`). Credentials cannot be added.",
        ),
        optional("output", Shape::Text("`stdout` or a file"), "stdout", "Destination. A file is reopened on SIGUSR1."),
    ]],
);

pub(in crate::shape) static SANDBOX: Object = object(
    "sandbox",
    "what the process may still do once it serves",
    &[&[
        optional("mode", Shape::Choice(&["auto", "on", "off"]), "auto", "As `sandbox` without a mapping."),
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
    ]],
);
