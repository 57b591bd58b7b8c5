//! Keys of `listeners`, `keystores` and `admin`. Declares them, nothing else; `surface.rs` says how.

use super::{DAY, SECOND, TIMEOUT, object, optional, required};
use crate::shape::{Field, Object, Shape};

pub(in crate::shape) static LISTENER: Object = object(
    "listener",
    "addresses that share all settings",
    &[&[
        required(
            "name",
            Shape::Text("a name of letters, digits, `.`, `_` and `-`"),
            "Unique name: in routes, logs and metrics.",
        ),
        required(
            "bind",
            Shape::OneOrMany(&Shape::Text(
                "an address such as `0.0.0.0:443`, `[::]:443`, `:443` or `unix:/run/edge.sock`",
            )),
            "Where to listen. `:443` is every IPv4 and IPv6 address; `[::]:443` is IPv6 alone.",
        ),
        optional(
            "proxy_protocol",
            Shape::Object(&PROXY_PROTOCOL),
            "(no headers)",
            "Connections begin with a PROXY header, version 1 or 2, in front of TLS if there is TLS. The client is whom the header names.",
        ),
        optional(
            "tls",
            Shape::Object(&TLS),
            "(plain)",
            "TLS. Without it the listener is plain: HTTP/1, and HTTP/2 with clients that begin with its preface (h2c with prior knowledge, as gRPC has it).",
        ),
        optional(
            "tunnel",
            Shape::Object(&TUNNEL),
            "(HTTP)",
            "TCP mode: forward bytes without parsing HTTP. TLS is terminated if the listener has `tls`.",
        ),
        optional(
            "redirect_to_https",
            Shape::Either(&[Shape::Bool, Shape::Object(&REDIRECT_TO_HTTPS)]),
            "false",
            "Answer every request with 308 to the same URL under https, instead of routing it.",
        ),
        optional(
            "contract",
            Shape::Text("the name of a contract"),
            "(none)",
            "Contract of everything that comes in here, unless its host or route says otherwise.",
        ),
        optional(
            "half_close",
            Shape::Choice(&["abort", "serve"]),
            "abort",
            "HTTP/1 clients that end their direction while they wait. `abort`: they have gone, and their request ends, as with a reset. `serve`: they may still read.",
        ),
    ]],
);

pub(in crate::shape) static TUNNEL: Object = object(
    "tunnel",
    "who gets a listener's bytes",
    &[
        &[optional(
            "upstream",
            Shape::Text("the name of an upstream"),
            "(refuse)",
            "Default upstream. If unset, unmatched connections are rejected.",
        )],
        &TUNNEL_PASSTHROUGH,
        &[
            optional(
                "rules",
                Shape::List(&Shape::Object(&TUNNEL_RULE)),
                "(none)",
                "Who gets which names and protocols. The most specific rule wins, whatever the order: exact name before wildcard before any.",
            ),
            optional(
                "idle_timeout",
                Shape::Duration(SECOND, 30 * DAY),
                "(`tunnel_idle_timeout` of `limits`)",
                "A tunnel in which nothing moves either way.",
            ),
            optional(
                "max_lifetime",
                Shape::Duration(SECOND, 365 * DAY),
                "(no bound)",
                "The whole life of a tunnel, however busy.",
            ),
        ],
    ],
);

static TUNNEL_PASSTHROUGH: [Field; 1] = [optional(
    "passthrough",
    Shape::Bool,
    "(only where the listener has no `tls`)",
    "Leave TLS closed: the name and the offered protocols are read from the ClientHello, and every byte goes on as it came.",
)];

pub(in crate::shape) static TUNNEL_RULE: Object = object(
    "tunnel.rules",
    "who gets some names and protocols",
    &[
        &[
            optional(
                "server_name",
                Shape::OneOrMany(&Shape::Text("a host name such as `mail.example.com` or `*.example.com`")),
                "(any)",
                "Names that clients ask for by SNI. `*.example.com` is one or more labels before the rest.",
            ),
            optional(
                "alpn",
                Shape::OneOrMany(&Shape::Text("a protocol such as `imap`")),
                "(any)",
                "Protocols: the one agreed on, or of TLS that stays closed one of those offered.",
            ),
            required("upstream", Shape::Text("the name of an upstream"), "Who gets these connections."),
        ],
        &TUNNEL_PASSTHROUGH,
    ],
);

pub(in crate::shape) static PROXY_PROTOCOL: Object = Object {
    name: "proxy_protocol",
    doc: "how PROXY headers are taken",
    fields: &[&[
        optional(
            "trust",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "",
            "Peers whose headers are believed. A header from any other peer ends its connection.",
        ),
        optional(
            "trust_file",
            Shape::Text("a file"),
            "",
            "A file of such peers, one in each line, with `#` comments. Each reload reads it again; missing, broken or empty it is rejected.",
        ),
        optional(
            "without_header",
            Shape::Choice(&["refuse", "pass"]),
            "refuse",
            "What becomes of a connection that begins without a header. `pass`: its peer is the client, whether trusted or not.",
        ),
        optional("header_timeout", TIMEOUT, "5s", "From accept to the last byte of the header."),
    ]],
    one_of: &["trust", "trust_file"],
    secret: false,
};

pub(in crate::shape) static REDIRECT_TO_HTTPS: Object = object(
    "redirect_to_https",
    "where plain requests are redirected",
    &[&[optional("port", Shape::Int(1, 65_535), "443", "Port of the https URL; 443 is left out of it.")]],
);

/// Keys that a listener and a name of it share.
pub(in crate::shape) static TLS_SETTINGS: [Field; 4] = [
    optional(
        "policy",
        Shape::Choice(&["modern", "intermediate", "legacy"]),
        "intermediate",
        "Versions, cipher suites and groups. `modern`: TLS 1.3. `intermediate`: TLS 1.2 with forward secrecy and AEAD, and 1.3. `legacy`: TLS 1.0 and later, for old clients only. Chains of client certificates need RSA keys from 2048 bits and no SHA-1; with `legacy` RSA keys from 1024 bits and SHA-1 do.",
    ),
    optional(
        "min_version",
        Shape::Choice(&["1.0", "1.1", "1.2", "1.3"]),
        "(the policy's own)",
        "Lowest TLS version. It can raise what the policy allows, not lower it.",
    ),
    optional(
        "alpn",
        Shape::OneOrMany(&Shape::Text("a protocol such as `h2` or `http/1.1`")),
        "(h2 and http/1.1; none for tunnels)",
        "Protocols offered, in our order of preference; with http/1.1 goes http/1.0. Tunnels may offer any, such as `imap`.",
    ),
    optional(
        "client_certificate",
        Shape::Either(&[Shape::Choice(&["none"]), Shape::Object(&CLIENT_CERTIFICATE)]),
        "none",
        "Ask clients for a certificate.",
    ),
];

pub(in crate::shape) static TLS: Object = object(
    "tls",
    "TLS of a listener",
    &[
        &[required("keystore", Shape::Text("the name of a keystore"), "Keystore with the certificates.")],
        &TLS_SETTINGS,
        &[
            optional(
                "strict_sni",
                Shape::Bool,
                "false",
                "Reject a name without a certificate of its own, instead of serving the default certificate.",
            ),
            optional(
                "names",
                Shape::List(&Shape::Object(&TLS_NAME)),
                "(none)",
                "Settings of single names. What is not given there is as above.",
            ),
        ],
    ],
);

pub(in crate::shape) static TLS_NAME: Object = object(
    "tls.names",
    "TLS settings of single names",
    &[
        &[required(
            "host",
            Shape::OneOrMany(&Shape::Text("a host name such as `admin.example.com` or `*.example.com`")),
            "The name or names this is for. `*.example.com` is one or more labels before the rest, as in routes.",
        )],
        &TLS_SETTINGS,
    ],
);

pub(in crate::shape) static CLIENT_CERTIFICATE: Object = object(
    "client_certificate",
    "a rule for client certificates",
    &[&[
        required(
            "mode",
            Shape::Choice(&["optional", "required"]),
            "`required`: the handshake fails without one. `optional`: served without identity fields.",
        ),
        required(
            "ca",
            Shape::Text("a PEM file"),
            "Roots that client certificates must lead to. Nothing else is trusted.",
        ),
        optional("crl", Shape::Text("a PEM or DER file"), "(none)", "Revocation lists."),
        optional(
            "allow_san",
            Shape::OneOrMany(&Shape::Text(
                "a name such as `DNS:client.example`, `URI:spiffe://x/y`, `EMAIL:a@example.com` or `IP:192.0.2.1`",
            )),
            "(any)",
            "Subject alternative names; the certificate must hold one of them.",
        ),
    ]],
);

pub(in crate::shape) static KEYSTORE: Object = Object {
    name: "keystore",
    doc: "certificates and keys",
    fields: &[&[
        optional("folder", Shape::Text("a folder"), "", "A folder of PEM files, chain and key together or apart."),
        optional("pkcs12", Shape::Text("a file"), "", "A PKCS#12 file (`.p12`, `.pfx`)."),
        optional("jks", Shape::Text("a file"), "", "A Java keystore."),
        optional(
            "password",
            Shape::Object(&SECRET),
            "(none)",
            "Where the password of the store comes from. Needed by `pkcs12` and `jks`.",
        ),
        optional(
            "key_servers",
            Shape::Text("the name of a group of key servers"),
            "(none: every certificate comes with its key)",
            "Certificates may come without their keys; these servers have them. A file of a folder may then be called after its host.",
        ),
        optional(
            "default",
            Shape::Text("a host name"),
            "(the alias `default`)",
            "The name whose certificates serve clients that send no name, or one that is not here.",
        ),
        optional(
            "reload_every",
            Shape::Duration(SECOND, 30 * DAY),
            "30m",
            "Re-read the store this often, in addition to whenever its files change.",
        ),
    ]],
    one_of: &["folder", "pkcs12", "jks"],
    secret: false,
};

pub(in crate::shape) static SECRET: Object = Object {
    name: "secret",
    doc: "where a secret comes from",
    fields: &[&[
        optional("file", Shape::Text("a file"), "", "A file that holds it; the final newline is not part of it."),
        optional(
            "env",
            Shape::Text("the name of an environment variable"),
            "",
            "An environment variable that holds it.",
        ),
    ]],
    one_of: &["file", "env"],
    secret: true,
};

pub(in crate::shape) static ADMIN: Object = object(
    "admin",
    "the admin listener",
    &[&[
        required(
            "bind",
            Shape::Text("an address such as `127.0.0.1:9901` or `unix:/run/portunus/admin.sock`"),
            "Where it listens: loopback or a Unix socket.",
        ),
        optional(
            "allow_remote",
            Shape::Bool,
            "false",
            "Let it listen elsewhere. There is no login: guard that address by other means.",
        ),
        optional(
            "hosts",
            Shape::OneOrMany(&Shape::Text("a host name")),
            "(none)",
            "Further Host values it answers to, beside its address and `localhost`.",
        ),
        optional(
            "connection_timeout",
            Shape::Duration(SECOND, DAY),
            "2m",
            "A connection's whole life, whether its client reads or not. A reload whose outcome is waited for must fit in.",
        ),
    ]],
);
