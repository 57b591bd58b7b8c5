//! Every key of a configuration file: its shape, its default, its meaning. The only place where a key is declared.
//!
//! A new key goes here first; `build/` then reads it, and schema and reference follow (`UPDATE=1 cargo test -p portunus --test config`).

mod contracts;
mod datagrams;
mod key_servers;
pub(crate) mod key_server;
mod listeners;
mod process;
mod routes;
mod upstreams;

use super::{Field, Object, Shape};
use contracts::*;
use datagrams::*;
use key_servers::*;
use listeners::*;
use process::*;
use routes::*;
use upstreams::*;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
/// Deadlines: long enough for anything a person waits for, and never off by accident.
const TIMEOUT: Shape = Shape::Duration(1, DAY);

const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { name, shape, required: true, doc, default: "" }
}

const fn optional(name: &'static str, shape: Shape, default: &'static str, doc: &'static str) -> Field {
    Field { name, shape, required: false, doc, default }
}

const fn object(name: &'static str, doc: &'static str, fields: &'static [&'static [Field]]) -> Object {
    Object { name, doc, fields, one_of: &[], secret: false }
}

/// The objects in the order of the reference.
pub(crate) static OBJECTS: &[&Object] = &[
    &ROOT,
    &LISTENER,
    &PROXY_PROTOCOL,
    &TUNNEL,
    &TUNNEL_RULE,
    &REDIRECT_TO_HTTPS,
    &TLS,
    &TLS_NAME,
    &CLIENT_CERTIFICATE,
    &UDP_LISTENER,
    &DESTINATION,
    &KEYSTORE,
    &SECRET,
    &KEY_SERVERS,
    &UPSTREAM,
    &SERVER,
    &UPSTREAM_TLS,
    &HEALTH,
    &EJECTION,
    &UPSTREAM_EJECTION,
    &RETRIES,
    &ROUTE,
    &UPSTREAM_URL,
    &REDIRECT,
    &RESPOND,
    &HOST_SET,
    &HEADER_EDITS,
    &CONTRACT,
    &OPERATION,
    &UNDECLARED,
    &CONTRACT_LIMITS,
    &SHADOW,
    &JWT,
    &KEY_URL,
    &DENY_TOKENS,
    &ALLOW_ADDRESSES,
    &HOST_RULE,
    &FORWARDING,
    &ADMIN,
    &LOG,
    &ACCESS_LOG,
    &LIMITS,
];

/// The whole file.
pub(crate) static ROOT: Object = object(
    "configuration",
    "the whole file",
    &[&[
        optional(
            "workers",
            Shape::Either(&[Shape::Choice(&["auto"]), Shape::Int(1, 1024)]),
            "auto",
            "Worker threads, each with its own listeners. `auto`: one per processor the process may use.",
        ),
        optional(
            "listeners",
            Shape::List(&Shape::Object(&LISTENER)),
            "(none)",
            "Listening addresses. At least one, unless there is one in `udp_listeners`.",
        ),
        optional("udp_listeners", Shape::List(&Shape::Object(&UDP_LISTENER)), "(none)", "Where datagrams come in."),
        optional(
            "keystores",
            Shape::Table("NAME", &Shape::Object(&KEYSTORE)),
            "(none)",
            "Certificates and keys, by a name that `tls.keystore` refers to.",
        ),
        optional(
            "key_servers",
            Shape::Table("NAME", &Shape::Object(&KEY_SERVERS)),
            "(none)",
            "Groups of key servers, by a name that keystores refer to.",
        ),
        optional(
            "upstreams",
            Shape::Table("NAME", &Shape::Object(&UPSTREAM)),
            "(none)",
            "Groups of servers, by a name that routes refer to.",
        ),
        optional(
            "routes",
            Shape::List(&Shape::Object(&ROUTE)),
            "(none)",
            "What happens to which request. The most specific route wins, whatever the order: exact host before wildcard before any; static path before parameter before catch-all.",
        ),
        optional(
            "contracts",
            Shape::Table("NAME", &Shape::Object(&CONTRACT)),
            "(none)",
            "API contracts, by a name that listeners, hosts and routes refer to.",
        ),
        optional(
            "hosts",
            Shape::Table("HOST", &Shape::Object(&HOST_RULE)),
            "(none)",
            "What holds for a host (`www.example.com`, `*.example.com`), whichever of its routes is taken.",
        ),
        optional(
            "trusted_proxies",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "(none)",
            "Proxies in front whose word on the client is believed, as far as `forwarding.trusted_fields` go. Fields of all others are removed. Their connections are not \
             bounded per client.",
        ),
        optional(
            "forwarding",
            Shape::Object(&FORWARDING),
            "(see there)",
            "Which forwarding fields are written and believed.",
        ),
        optional(
            "admin",
            Shape::Object(&ADMIN),
            "(no admin listener)",
            "The admin listener: metrics, health, configuration, reload.",
        ),
        optional("log", Shape::Object(&LOG), "(see there)", "Logs."),
        optional("limits", Shape::Object(&LIMITS), "(see there)", "Every bound of the process."),
    ]],
);
