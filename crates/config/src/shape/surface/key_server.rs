//! Keys of a key server's configuration file, which is a file of its own. Declares them, nothing else; `surface.rs` says how.

use wire::keyless::OPERATION_NAMES;

use super::listeners::{ADMIN, SECRET};
use super::{DAY, SECOND, TIMEOUT, object, optional, required};
use crate::shape::{Object, Shape};

/// Words for sets of operations and for single ones.
pub(crate) const OPERATIONS: &[&str] = &{
    let mut words = ["sign"; 2 + OPERATION_NAMES.len()];
    words[1] = "sign_legacy";
    let (_, single) = words.split_at_mut(2);
    single.copy_from_slice(&OPERATION_NAMES);
    words
};

const OPERATION_LIST: Shape = Shape::OneOrMany(&Shape::Choice(OPERATIONS));

/// The objects in the order of the reference.
pub(crate) static KEY_SERVER_OBJECTS: &[&Object] = &[
    &KEY_SERVER,
    &KEY_SERVER_LISTENER,
    &KEY_SERVER_TLS,
    &KEY_SET,
    &SECRET,
    &ACCESS,
    &AUDIT,
    &ADMIN,
    &KEY_SERVER_LIMITS,
];

/// The whole file.
pub(crate) static KEY_SERVER: Object = object(
    "key server",
    "the whole file of a key server",
    &[&[
        optional(
            "workers",
            Shape::Either(&[Shape::Choice(&["auto"]), Shape::Int(1, 1024)]),
            "auto",
            "Threads for connections. `auto`: one per processor the process may use.",
        ),
        optional(
            "crypto_threads",
            Shape::Either(&[Shape::Choice(&["auto"]), Shape::Int(1, 1024)]),
            "auto",
            "Threads for signing. `auto`: one per processor the process may use.",
        ),
        required("listeners", Shape::List(&Shape::Object(&KEY_SERVER_LISTENER)), "Where edges connect."),
        required(
            "keys",
            Shape::Table("NAME", &Shape::Object(&KEY_SET)),
            "Sets of private keys, by a name that `access` refers to.",
        ),
        required(
            "access",
            Shape::List(&Shape::Object(&ACCESS)),
            "Who may use which keys for what. The first rule that names the client decides; a client without a rule may only ping.",
        ),
        optional(
            "ecdsa_opcodes_on_rsa_keys",
            Shape::Bool,
            "false",
            "Answer the ECDSA opcodes for RSA keys, with PKCS#1 v1.5, as older key servers do. Load generators for those ask so.",
        ),
        optional(
            "reload_every",
            Shape::Duration(SECOND, 30 * DAY),
            "30m",
            "Keys and trust are read again at this period, besides on SIGHUP and on every change of their files.",
        ),
        optional(
            "lock_memory",
            Shape::Bool,
            "true",
            "Keep all memory out of swap (mlockall). The start fails where the limit forbids it.",
        ),
        optional(
            "sandbox",
            Shape::Bool,
            "true",
            "After the start, allow only the files named here (Landlock) and the system calls needed (seccomp).",
        ),
        optional(
            "audit",
            Shape::Either(&[Shape::Choice(&["none"]), Shape::Object(&AUDIT)]),
            "(to stdout)",
            "One JSON line per operation: who, which key, what, the outcome; never a payload.",
        ),
        optional(
            "admin",
            Shape::Object(&ADMIN),
            "(no admin listener)",
            "The admin listener: metrics, health, configuration, reload.",
        ),
        optional(
            "log_level",
            Shape::Choice(&["error", "warn", "info", "debug", "trace"]),
            "info",
            "What the diagnostic log on stderr holds.",
        ),
        optional("limits", Shape::Object(&KEY_SERVER_LIMITS), "(see there)", "Every bound of the process."),
    ]],
);

static KEY_SERVER_LISTENER: Object = object(
    "listener",
    "where edges connect",
    &[&[
        required("name", Shape::Text("a name"), "Its name in logs and metrics."),
        required(
            "bind",
            Shape::OneOrMany(&Shape::Text("an address such as `:2407` or `unix:/run/portunus/keys.sock`")),
            "Addresses. A Unix socket is guarded by its folder's permissions; its clients are called `unix`.",
        ),
        optional(
            "tls",
            Shape::Object(&KEY_SERVER_TLS),
            "(none: Unix sockets only)",
            "Mutual TLS. Addresses of the network need it.",
        ),
    ]],
);

static KEY_SERVER_TLS: Object = object(
    "tls",
    "mutual TLS",
    &[&[
        required("certificate", Shape::Text("a PEM file"), "The server's certificate chain, leaf first."),
        required("private_key", Shape::Text("a PEM file"), "Its key."),
        required("client_ca", Shape::Text("a PEM file"), "Authorities that vouch for clients."),
        optional(
            "client_crl",
            Shape::Text("a PEM or DER file"),
            "(none)",
            "Revocation lists for client certificates; then each authority needs a current one.",
        ),
        optional("min_version", Shape::Choice(&["1.2", "1.3"]), "1.2", "Lowest TLS version."),
    ]],
);

static KEY_SET: Object = object(
    "key_set",
    "private keys",
    &[&[
        optional(
            "folders",
            Shape::OneOrMany(&Shape::Text("a folder")),
            "(none)",
            "Folders, with all folders below: every `.key`, `.pem`, `.p12`, `.pfx` and `.jks` file in them.",
        ),
        optional(
            "files",
            Shape::OneOrMany(&Shape::Text("a file")),
            "(none)",
            "Files: PEM or DER keys (PKCS#8, PKCS#1, SEC1, encrypted PKCS#8), PKCS#12, Java keystores.",
        ),
        optional("password", Shape::Object(&SECRET), "(none)", "Where the password for encrypted keys comes from."),
        optional(
            "operations",
            OPERATION_LIST,
            "sign",
            "What these keys may do at all. `sign`: all signatures but those over SHA-1 and MD5SHA1; `sign_legacy`: those; `rsa_decrypt`: the RSA key exchange of TLS 1.2 and earlier.",
        ),
    ]],
);

static ACCESS: Object = object(
    "access_rule",
    "who may use which keys for what",
    &[&[
        required(
            "clients",
            Shape::OneOrMany(&Shape::Text(
                "a name such as `edge-1.example`, `*.edges.example` or `spiffe://example/edge/*`",
            )),
            "Names in the client's certificate (DNS, URI, e-mail, IP of the subject alternative names); `*` for any, `unix` for Unix sockets.",
        ),
        required(
            "keys",
            Shape::OneOrMany(&Shape::Text("the name of a key set, or `all`")),
            "Key sets; `all` for every one.",
        ),
        optional("operations", OPERATION_LIST, "(all that the keys may do)", "What the client may ask for."),
        optional(
            "rate_per_second",
            Shape::Int(1, 10_000_000),
            "(unlimited)",
            "Operations per second of all connections under this rule together; above, work is rejected or read later.",
        ),
    ]],
);

static AUDIT: Object = object(
    "audit",
    "the audit log",
    &[&[optional(
        "to",
        Shape::Text("`stdout` or a file"),
        "stdout",
        "Where it goes. A file is opened again on SIGUSR1.",
    )]],
);

static KEY_SERVER_LIMITS: Object = object(
    "limits",
    "bounds of the process",
    &[&[
        optional(
            "max_connections",
            Shape::Int(1, 1_000_000),
            "10000",
            "Connections open at once; further ones are closed at once.",
        ),
        optional(
            "max_in_flight",
            Shape::Int(1, 65_536),
            "1024",
            "Unanswered requests of one connection; then nothing more is read from it.",
        ),
        optional(
            "max_queued",
            Shape::Int(1, 1_000_000),
            "16384",
            "Operations waiting per class (RSA, ECDSA, other); then connections wait to hand in theirs.",
        ),
        optional(
            "target_wait",
            Shape::Duration(1, 10 * SECOND),
            "100ms",
            "Expected wait from which a class is overloaded: newest first, and BUSY to peers that understand it.",
        ),
        optional(
            "operation_timeout",
            Shape::Duration(10, 600 * SECOND),
            "10s",
            "An operation that has waited so long is not begun any more.",
        ),
        optional("handshake_timeout", TIMEOUT, "10s", "From accept to the end of the TLS handshake."),
        optional("frame_timeout", TIMEOUT, "10s", "From the first byte of a request to its last."),
        optional("idle_timeout", TIMEOUT, "10m", "A connection on which nothing is asked and nothing outstanding."),
        optional("write_timeout", TIMEOUT, "30s", "Between two writes that the peer accepts."),
        optional(
            "drain_timeout",
            Shape::Duration(0, DAY),
            "10s",
            "After SIGTERM, how long what was asked may take to be answered.",
        ),
    ]],
);
