//! Keys of the file of a node of a fleet, which is a file of its own. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

/// The objects in the order of the reference.
pub(crate) static FLEET_OBJECTS: &[&Object] = &[&FLEET_FILE, &FLEET, &FLEET_TLS, &FLEET_SEAL];

/// The whole file.
pub(crate) static FLEET_FILE: Object = object(
    "fleet file",
    "the whole file of a node; everything else it gets from the fleet",
    &[&[required("fleet", Shape::Object(&FLEET), "The fleet, and who this node is in it.")]],
);

static FLEET: Object = object(
    "fleet",
    "a fleet",
    &[&[
        required(
            "etcd",
            Shape::OneOrMany(&Shape::Text("an endpoint such as `https://etcd-1.example:2379`")),
            "Members of the etcd cluster (3.4 or later), asked in turn. `http://` only for this machine itself.",
        ),
        optional(
            "prefix",
            Shape::Text("the beginning of keys, such as `/portunus/edge`"),
            "/portunus/default",
            "What the fleet's keys in etcd begin with. Several fleets may share an etcd, each with its own.",
        ),
        optional(
            "node",
            Shape::Text("a name"),
            "(the host name)",
            "What this node is called in the fleet. No two nodes may have the same name.",
        ),
        optional("tls", Shape::Object(&FLEET_TLS), "(the system's authorities, no certificate)", "TLS towards etcd."),
        required("seal", Shape::Object(&FLEET_SEAL), "What everything in etcd is sealed under."),
        optional(
            "cache",
            Shape::Text("a folder"),
            "/var/lib/portunus/fleet",
            "Where generations are kept, so that the node starts without etcd. Made if it is not there, for its user alone.",
        ),
    ]],
);

static FLEET_TLS: Object = object(
    "fleet_tls",
    "TLS towards etcd",
    &[&[
        optional(
            "ca",
            Shape::Text("a PEM file"),
            "(the system's)",
            "Authorities that etcd's certificates are verified with.",
        ),
        optional(
            "certificate",
            Shape::Text("a PEM file"),
            "(none)",
            "The certificate chain to show to etcd, leaf first. With `private_key`.",
        ),
        optional("private_key", Shape::Text("a PEM file"), "(none)", "Its private key."),
    ]],
);

static FLEET_SEAL: Object = object(
    "fleet_seal",
    "the seal of a fleet",
    &[&[required(
        "key_file",
        Shape::Text("a file"),
        "The file that `portunus fleet key` made: the same on each node and where `portunus fleet push` is called.",
    )]],
);
