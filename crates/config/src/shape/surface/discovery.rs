//! Keys of `discovery`. Declares them, nothing else; `surface.rs` says how.

use super::listeners::SECRET;
use super::upstreams::UPSTREAM_TLS;
use crate::table::*;

pub(in crate::shape) static DISCOVERY: Object = Object {
    one_of: &["consul", "docker", "etcd"],
    ..object(
        "discovery",
        "a directory that says which servers there are",
        &[&[
            optional("consul", Shape::Object(&CONSUL), "", "Healthy instances of a service in Consul."),
            optional("docker", Shape::Object(&DOCKER), "", "Running containers of a Docker engine, by their labels."),
            optional("etcd", Shape::Object(&ETCD), "", "Servers that registered themselves in etcd."),
            optional(
                "networks",
                Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
                "(all but loopback, link-local and multicast)",
                "Networks that addresses must be in; others are left out.",
            ),
        ]],
    )
};

static DIRECTORY_TLS: [Field; 1] = [optional(
    "tls",
    Shape::Either(&[Shape::Bool, Shape::Object(&UPSTREAM_TLS)]),
    "false",
    "Connect with TLS. The certificate of the directory is verified, against the system's certificate authorities unless `ca` is set.",
)];

pub(in crate::shape) static CONSUL: Object = object(
    "discovery.consul",
    "a Consul agent or server",
    &[
        &[optional(
            "address",
            Shape::Text("a server such as `127.0.0.1:8500` or `unix:/run/consul.sock`"),
            "127.0.0.1:8500",
            "Address of its HTTP API.",
        )],
        &DIRECTORY_TLS,
        &[
            optional("token", Shape::Object(&SECRET), "(none)", "ACL token. It needs to read services and nodes."),
            optional(
                "datacenter",
                Shape::Text("a name such as `eu-west`"),
                "(that of the agent)",
                "Data centre that is asked about.",
            ),
        ],
    ],
);

pub(in crate::shape) static DOCKER: Object = object(
    "discovery.docker",
    "a Docker engine",
    &[
        &[optional(
            "address",
            Shape::Text("a socket or server such as `unix:/var/run/docker.sock` or `127.0.0.1:2375`"),
            "unix:/var/run/docker.sock",
            "Address of its API. Whoever may write to its socket rules the machine: a proxy that lets reading through is better.",
        )],
        &DIRECTORY_TLS,
        &[optional(
            "network",
            Shape::Text("the name of a network"),
            "(the only one of the container)",
            "Network whose addresses are used.",
        )],
    ],
);

pub(in crate::shape) static ETCD: Object = object(
    "discovery.etcd",
    "a cluster of etcd, version 3.4 or later",
    &[
        &[required(
            "addresses",
            Shape::OneOrMany(&Shape::Text("a server such as `127.0.0.1:2379`")),
            "Addresses of its members, which are asked in turn.",
        )],
        &DIRECTORY_TLS,
        &[optional(
            "prefix",
            Shape::Text("a text such as `/services`"),
            "/services",
            "What keys begin with. Those of a service are `PREFIX/SERVICE/ANYTHING`, each with the address of a server as its value.",
        )],
    ],
);
