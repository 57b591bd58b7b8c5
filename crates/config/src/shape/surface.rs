//! Every key of a configuration file: its shape, its default, its meaning. The only place where a key is declared.
//!
//! A new key goes here first; `build/` then reads it, and schema and reference follow (`UPDATE=1 cargo test -p portunus --test all config::`).

mod acme;
mod contracts;
mod datagrams;
mod discovery;
pub(crate) mod fleet;
mod geoip;
mod graphql;
mod key_servers;
pub(crate) mod key_server;
mod listeners;
mod matching;
mod policies;
mod process;
mod responses;
mod rate_store;
mod routes;
mod tokens;
mod upstreams;

use crate::limits::LIMITS;
use crate::table::{Object, Shape, object, optional};
pub(crate) use acme::{ACME_DIRECTORY, ASK};
pub use acme::{AcmeOptions, DnsOptions, OnDemandOptions};
pub(crate) use listeners::ADMIN;
pub use listeners::{HalfClose, Http3, ListenerLimits, ListenerOptions};
pub use policies::{CertificateKey, PolicyMode, RateScope};
pub(crate) use process::{FACILITIES, FORWARDING};
pub use process::{LogFormat, MethodForm, UnusualName};
pub use rate_store::RateStoreOptions;
pub use responses::{CompressionOptions, Encoding};
pub use routes::{CookieFlags, CookieSameSite, RedirectQuery, RouteOptions};
pub use upstreams::{HealthMethod, QueueConfig, SameSite, WhenAllDown};
pub(crate) use upstreams::{RETRIES, UPSTREAM, UPSTREAM_EJECTION};

use acme::*;
use contracts::*;
use datagrams::*;
use discovery::*;
use geoip::*;
use graphql::*;
use key_servers::*;
use listeners::*;
use matching::*;
use policies::*;
use process::*;
use rate_store::*;
use responses::*;
use routes::*;
use tokens::*;
use upstreams::*;

/// The objects in the order of the reference.
pub(crate) static OBJECTS: &[&Object] = &[
    &ROOT,
    &LISTENER,
    &UNIX_SOCKET,
    &LISTENER_LIMITS,
    &HTTP3,
    &PROXY_PROTOCOL,
    &TUNNEL,
    &TUNNEL_RULE,
    &REDIRECT_TO_HTTPS,
    &TLS,
    &TLS_NAME,
    &CLIENT_CERTIFICATE,
    &UDP_LISTENER,
    &UDP_PROXY_PROTOCOL,
    &DESTINATION,
    &KEYSTORE,
    &ACME,
    &ON_DEMAND,
    &ASK,
    &ACME_DIRECTORY,
    &EXTERNAL_ACCOUNT,
    &DNS,
    &DNS_UPDATE,
    &TSIG_KEY,
    &ACME_DNS,
    &SECRET,
    &KEY_SERVERS,
    &UPSTREAM,
    &SERVER,
    &DISCOVERY,
    &CONSUL,
    &DOCKER,
    &ETCD,
    &HASH_BALANCE,
    &HASH_KEY,
    &UPSTREAM_TLS,
    &HEALTH,
    &HEX_PAYLOAD,
    &EXPECTED_BYTES,
    &CHECK_STEP,
    &EJECTION,
    &UPSTREAM_EJECTION,
    &QUEUE,
    &STICKY,
    &RETRIES,
    &HEDGE,
    &ROUTE,
    &ENTRY,
    &PATH_EXPRESSION,
    &WHEN,
    &VALUE_MATCH,
    &BOUNDS,
    &WHEN_CERTIFICATE,
    &SHARE,
    &MIRROR,
    &UPSTREAM_URL,
    &REDIRECT,
    &RESPOND,
    &VALIDATE,
    &HOST_SET,
    &HEADER_EDITS,
    &RESPONSE_EDITS,
    &URL_REWRITE,
    &COOKIE_RULE,
    &COOKIE_PATH,
    &COOKIE_DOMAIN,
    &ERROR_PAGES,
    &ERROR_PAGE,
    &COMPRESSION,
    &TOKENS,
    &JWT,
    &KEY_URL,
    &INTROSPECTION,
    &POLICY,
    &RATE_LIMIT,
    &CONCURRENCY_LIMIT,
    &BANDWIDTH_LIMIT,
    &LIMIT_KEY,
    &POLICY_JWT,
    &POLICY_BASIC,
    &FORWARD_AUTH,
    &CORS,
    &MAINTENANCE,
    &CONTRACT,
    &GRAPHQL,
    &GRAPHQL_LIMITS,
    &DOCUMENT_URL,
    &DOCUMENT_HEADER,
    &OPERATION,
    &RATE_STORE,
    &UNDECLARED,
    &CONTRACT_LIMITS,
    &SHADOW,
    &DENY_TOKENS,
    &ALLOW_ADDRESSES,
    &HOST_RULE,
    &GEOIP,
    &FORWARDING,
    &HEADERS,
    &PATHS,
    &ADMIN,
    &ADMIN_TLS,
    &LOG,
    &ACCESS_LOG,
    &REDACT,
    &SYSLOG,
    &TRACING,
    &SANDBOX,
    &LIMITS,
];

/// The whole file.
pub(crate) static ROOT: Object = object(
    "configuration",
    "the whole file",
    &[&[
        optional(
            "include",
            Shape::OneOrMany(&Shape::Text("a path such as `conf.d/*.yaml`")),
            "(none)",
            "Files to read as part of this one, `*` and `?` in their names being any characters and one. Lists follow each other, in the order of the names; a name or setting stands in one file only. Relative paths start at the folder of the file in which they stand. Watched like this file.",
        ),
        optional(
            "workers",
            Shape::Either(&[Shape::Choice(&["auto"]), Shape::Int(1, 1024)]),
            "auto",
            "Worker threads, each with its own listeners. `auto`: one per processor the process may use.",
        ),
        optional(
            "zone",
            Shape::Text("a name such as `eu-west-1a`"),
            "(none)",
            "Zone that this process is in: a data centre, an availability zone, a rack. Upstreams prefer their servers of the same `zone`.",
        ),
        optional(
            "ticket_keys",
            Shape::Text("a file such as `/var/lib/portunus/ticket-keys`"),
            "(none: they are kept in memory, and an upgrade hands them over)",
            "Keeps the keys of session tickets in this file, so that clients resume their sessions after a restart, and the secrets of HTTP/3 (QUIC), so that its clients learn at once that their connection is gone (stateless reset). Made if it is not there. The keys change every 12 hours, and open for 12 more. Only a file that belongs to the user that Portunus runs as, and that nobody else may read, is used; who has it can decrypt sessions of TLS 1.2, and end HTTP/3 connections.",
        ),
        optional(
            "ech_keys",
            Shape::Text("a file such as `/etc/portunus/ech.pem`"),
            "(none: ClientHellos are read as they are)",
            "Keys of Encrypted Client Hello (RFC 9849), as `portunus ech rotate` writes them (RFC 9934): clients that know the first one from DNS do not show which name they ask for. Counts for all listeners with `tls`, over TCP and HTTP/3. It is watched.",
        ),
        optional(
            "listeners",
            Shape::List(&Shape::Object(&LISTENER)),
            "(none)",
            "Listening addresses. At least one, unless there is one in `udp_listeners`.",
        ),
        optional("udp_listeners", Shape::List(&Shape::Object(&UDP_LISTENER)), "(none)", "UDP listening addresses."),
        optional(
            "keystores",
            Shape::Table("NAME", &Shape::Object(&KEYSTORE)),
            "(none)",
            "Certificates and private keys. Listeners refer to a keystore by its name (`tls.keystore`).",
        ),
        optional(
            "key_servers",
            Shape::Table("NAME", &Shape::Object(&KEY_SERVERS)),
            "(none)",
            "Groups of key servers. Keystores refer to a group by its name.",
        ),
        optional(
            "upstreams",
            Shape::Table("NAME", &Shape::Object(&UPSTREAM)),
            "(none)",
            "Groups of servers. Routes and tunnels refer to a group by its name.",
        ),
        optional(
            "routes",
            Shape::List(&Shape::Object(&ROUTE)),
            "(none)",
            "What to do with which request. The most specific route wins, whatever the order: exact host before wildcard before any host, static path before parameter before catch-all. `in_order` takes routes as they are written instead.",
        ),
        optional(
            "tokens",
            Shape::Table("NAME", &Shape::Object(&TOKENS)),
            "(none)",
            "How bearer tokens are verified. Policies and contracts refer to an entry by its name.",
        ),
        optional(
            "policies",
            Shape::Table("NAME", &Shape::Object(&POLICY)),
            "(none)",
            "Which requests may pass: by address, by rate, by number and by who sends them. Listeners, hosts and routes refer to policies by name.",
        ),
        optional(
            "discovery",
            Shape::Table("NAME", &Shape::Object(&DISCOVERY)),
            "(none)",
            "Directories that say which servers there are. Servers of upstreams refer to them by name (`source`).",
        ),
        optional(
            "rate_store",
            Shape::Object(&RATE_STORE),
            "(none)",
            "A Valkey or Redis by which nodes share the limits of rate with `scope: fleet`. No request waits for it.",
        ),
        optional(
            "error_pages",
            Shape::Table("NAME", &Shape::Object(&ERROR_PAGES)),
            "(none)",
            "Responses for errors. Listeners, hosts and routes refer to them by name.",
        ),
        optional(
            "compression",
            Shape::Table("NAME", &Shape::Object(&COMPRESSION)),
            "(none)",
            "Compression of responses. Listeners, hosts and routes refer to it by name; without that, nothing is compressed.",
        ),
        optional(
            "contracts",
            Shape::Table("NAME", &Shape::Object(&CONTRACT)),
            "(none)",
            "API contracts. Listeners, hosts and routes refer to a contract by its name.",
        ),
        optional(
            "hosts",
            Shape::Table("HOST", &Shape::Object(&HOST_RULE)),
            "(none)",
            "Settings of a host (`www.example.com`, `*.example.com`) that apply to all its routes.",
        ),
        optional(
            "geoip",
            Shape::Object(&GEOIP),
            "(none)",
            "Databases that say where clients are, for `when`, for `allow` and `deny` of policies and for variables.",
        ),
        optional(
            "trusted_proxies",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "(none)",
            "Proxies in front of Portunus. The header fields in `forwarding.trusted_fields` are believed from these, and removed from everybody else. Connections from \
             these addresses are not limited per client.",
        ),
        optional(
            "forwarding",
            Shape::Object(&FORWARDING),
            "(see there)",
            "Forwarding header fields to send and to trust.",
        ),
        optional("headers", Shape::Object(&HEADERS), "(see there)", "Which header fields requests may hold."),
        optional(
            "methods",
            Shape::Choice(MethodForm::WORDS),
            "any",
            "Methods that requests may have. `capitals`: those of capital letters, `-` and `_`; others are rejected with 400.",
        ),
        optional("paths", Shape::Object(&PATHS), "(see there)", "How paths of requests are read."),
        optional(
            "admin",
            Shape::Object(&ADMIN),
            "(no admin listener)",
            "The admin listener: metrics, health, configuration, reload.",
        ),
        optional("log", Shape::Object(&LOG), "(see there)", "Logs."),
        optional("tracing", Shape::Object(&TRACING), "(none)", "Traces of requests."),
        optional(
            "sandbox",
            Shape::Either(&[Shape::Choice(&["auto", "on", "off"]), Shape::Object(&SANDBOX)]),
            "on",
            "After the start, allow only the files that the configuration names (Landlock), the capabilities and the system calls that it needs. `on`: do not start otherwise. `auto`: as far as the kernel can, and the log says what it cannot. A mapping adds folders. Read at the start.",
        ),
        optional("limits", Shape::Object(&LIMITS), "(see there)", "Limits of the process."),
    ]],
);
