//! Bounds on what peers can put into logs and metrics.

use super::{FixedBound, bound};

pub(super) const REPORTS: &[FixedBound] = &[
    bound(
        "telemetry/src/line.rs",
        "TARGET_BYTES",
        "Request target in a log line",
        "2048 bytes",
        "The rest is cut and marked.",
    ),
    bound(
        "telemetry/src/line.rs",
        "FIELD_BYTES",
        "Any other field in a log line",
        "256 bytes",
        "The rest is cut and marked.",
    ),
    bound(
        "telemetry/src/redact.rs",
        "MAX_NAME_BYTES",
        "Name of a query parameter that is compared with those that are redacted",
        "128 bytes",
        "The value under a longer name is redacted.",
    ),
    bound(
        "telemetry/src/line/fields.rs",
        "MAX_TRUNCATED",
        "Fields of a line that are marked as cut",
        "12",
        "All that a line has.",
    ),
    bound(
        "telemetry/src/queue.rs",
        "QUEUE_BYTES",
        "Log lines that wait for the writer",
        "4MiB",
        "A full disk stops no request; lost lines are counted.",
    ),
    bound(
        "telemetry/src/clients.rs",
        "TABLE_CLIENTS",
        "Clients in the table of heavy clients, per worker",
        "1024",
        "Memory does not grow with the number of clients.",
    ),
    bound("telemetry/src/reporter.rs", "LISTED_CLIENTS", "Clients in `GET /clients`", "100", "The heaviest."),
    bound("telemetry/src/metrics.rs", "SHOWN_CLIENTS", "Clients in metrics", "20", "Labels stay bounded."),
    bound(
        "telemetry/src/slow.rs",
        "SHOWN_SERVERS",
        "Servers of upstreams in metrics",
        "4096",
        "Labels stay bounded whatever a name server says.",
    ),
    bound("telemetry/src/slow.rs", "SHOWN_CERTIFICATES", "Certificates in metrics", "200", "Labels stay bounded."),
    bound(
        "telemetry/src/shadow.rs",
        "TABLE_ENTRIES",
        "Undeclared things remembered, per worker",
        "512",
        "Clients choose their names.",
    ),
    bound("telemetry/src/shadow.rs", "LISTED", "Undeclared things in `GET /shadow`", "200", "The most frequent."),
    bound(
        "telemetry/src/shadow.rs",
        "NAME_BYTES",
        "Name of an undeclared thing",
        "200 bytes",
        "Clients choose their names.",
    ),
    bound(
        "telemetry/src/key_server.rs",
        "MAX_LABEL_SETS",
        "Label sets of a thread of the key server",
        "8000",
        "What is beyond is counted together.",
    ),
];
