//! Keys of a key server's configuration file, which is a file of its own. Declares them, nothing else; `surface.rs` says how.

use wire::keyless::OPERATION_NAMES;

use super::listeners::{ADMIN, ADMIN_TLS, CLIENT_CERTIFICATE, SECRET, UNIX_SOCKET};
use crate::limits::KEY_SERVER_LIMITS;
use crate::table::*;

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
    &UNIX_SOCKET,
    &KEY_SERVER_TLS,
    &ENROLMENT,
    &KEY_SET,
    &SECRET,
    &ACCESS,
    &AUDIT,
    &ADMIN,
    &ADMIN_TLS,
    &CLIENT_CERTIFICATE,
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
            "Clients, and the keys and operations they may use. The first rule that names the client decides; a client without a rule may only ping.",
        ),
        optional(
            "enrolment",
            Shape::Object(&ENROLMENT),
            "(none: clients bring their certificates)",
            "Issue short-lived client certificates to nodes that enrol with a token (`portunus enrol`), and renew them. All listeners with TLS accept these certificates.",
        ),
        optional(
            "ecdsa_opcodes_on_rsa_keys",
            Shape::Bool,
            "false",
            "Sign with PKCS#1 v1.5 when the ECDSA opcodes are used with RSA keys, as older key servers do. Load generators for those rely on it.",
        ),
        optional(
            "reload_interval",
            Shape::Duration(SECOND, 30 * DAY),
            "30m",
            "Re-read keys and certificate authorities this often, in addition to SIGHUP and whenever their files change.",
        ),
        optional(
            "lock_memory",
            Shape::Bool,
            "true",
            "Keep all memory out of swap (mlockall). The start fails if the limit on locked memory forbids it.",
        ),
        optional(
            "sandbox",
            Shape::Either(&[Shape::Bool, Shape::Choice(&["auto"])]),
            "true",
            "After the start, allow only the files named here (Landlock), the capabilities and the system calls needed (seccomp), or do not start. `auto`: without closing off files where the kernel has no Landlock.",
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
            "Lowest level of the diagnostic log on stderr.",
        ),
        optional("limits", Shape::Object(&KEY_SERVER_LIMITS), "(see there)", "Limits of the process."),
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
            "Listening addresses. The permissions of its folder protect a Unix socket, and its own; its clients are named `unix`.",
        ),
        optional("unix_socket", Shape::Object(&UNIX_SOCKET), "(see there)", "Who may connect to its Unix sockets."),
        optional(
            "tls",
            Shape::Object(&KEY_SERVER_TLS),
            "(none: Unix sockets only)",
            "Mutual TLS. Required by TCP addresses.",
        ),
    ]],
);

static KEY_SERVER_TLS: Object = object(
    "tls",
    "mutual TLS",
    &[&[
        required("certificate", Shape::Text("a PEM file"), "The server's certificate chain, leaf first."),
        required("private_key", Shape::Text("a PEM file"), "Its private key."),
        optional(
            "client_ca",
            Shape::Text("a PEM file"),
            "(that of enrolment alone)",
            "Certificate authorities of the clients. Required without `enrolment`.",
        ),
        optional(
            "client_crl",
            Shape::Text("a PEM or DER file"),
            "(none)",
            "Revocation lists for client certificates. Each authority then needs a current one.",
        ),
        optional("min_version", Shape::Choice(&["1.2", "1.3"]), "1.2", "Lowest TLS version."),
    ]],
);

static ENROLMENT: Object = object(
    "enrolment",
    "client certificates for nodes",
    &[&[
        required(
            "folder",
            Shape::Text("a folder"),
            "Its certificate authority, open tokens, nodes and revocations. Made if it is missing; for the key server alone to read.",
        ),
        required(
            "server_ca",
            Shape::Text("a PEM file"),
            "Certificate authorities of this server's own certificate, 16 at most. Nodes get them when they enrol and with each renewal.",
        ),
        optional(
            "lifetime",
            Shape::Duration(SECOND, 90 * DAY),
            "24h",
            "How long a client certificate is valid. Nodes renew after two thirds of it; one that is away for longer must enrol anew.",
        ),
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
            "Folders, searched recursively for `.key`, `.pem`, `.p12`, `.pfx` and `.jks` files.",
        ),
        optional(
            "files",
            Shape::OneOrMany(&Shape::Text("a file")),
            "(none)",
            "Files: PEM or DER keys (PKCS#8, PKCS#1, SEC1, encrypted PKCS#8), PKCS#12, Java keystores.",
        ),
        optional("password", Shape::Object(&SECRET), "(none)", "Password of encrypted keys."),
        optional(
            "operations",
            OPERATION_LIST,
            "sign",
            "Operations to allow with these keys. `sign`: all signatures except those over SHA-1 and MD5SHA1. `sign_legacy`: those. `rsa_decrypt`: the RSA key exchange of TLS 1.2 and earlier.",
        ),
    ]],
);

static ACCESS: Object = object(
    "access_rule",
    "keys and operations of some clients",
    &[&[
        required(
            "clients",
            Shape::OneOrMany(&Shape::Text(
                "a name such as `edge-1.example`, `*.edges.example`, `spiffe://example/edge/*` or, with its kind, `URI:urn:edge:1`",
            )),
            "Names in the client's certificate (DNS, URI, e-mail, IP of the subject alternative names); `*` for any, `unix` for Unix sockets.",
        ),
        required(
            "keys",
            Shape::OneOrMany(&Shape::Text("the name of a key set, or `all`")),
            "Key sets; `all` for every one.",
        ),
        optional("operations", OPERATION_LIST, "(those of the keys)", "Operations to allow."),
        optional(
            "rate_per_second",
            Shape::Int(1, 10_000_000),
            "(unlimited)",
            "Operations per second of all connections under this rule together; further ones are rejected or delayed.",
        ),
        optional(
            "make_keys",
            Shape::Text("the name of a key set"),
            "(none: no keys are made)",
            "Have keys made on request of these clients, which never leave this server, and keep them in the first folder of this key set. It must be one of `keys`.",
        ),
    ]],
);

static AUDIT: Object = object(
    "audit",
    "the audit log",
    &[&[optional(
        "output",
        Shape::Text("`stdout` or a file"),
        "stdout",
        "Destination. A file is reopened on SIGUSR1.",
    )]],
);
