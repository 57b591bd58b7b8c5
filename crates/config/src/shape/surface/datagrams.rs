//! Keys of `udp_listeners`, and those that say under which address connections go onward. Declares them, nothing else; `surface.rs` says how.

use super::{DAY, object, optional, required};
use crate::shape::{Field, Object, Shape};

/// Keys that UDP listeners and upstreams share.
pub(in crate::shape) static SOURCE_SETTINGS: [Field; 3] = [
    optional(
        "source",
        Shape::Choice(&["own", "client"]),
        "own",
        "Under which address connections go onward. `client`: the client's own address and port, so that the application sees them; needs CAP_NET_ADMIN and `portunus routing setup`.",
    ),
    optional("mark", Shape::Int(0, 4_294_967_295), "0", "SO_MARK of the sockets onward, for routing rules; 0 is none."),
    optional(
        "allow_sources",
        Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
        "(none)",
        "Clients passed on under their own address although it is this machine's, or a loopback, link-local, multicast, broadcast or unspecified one, all of which are rejected.",
    ),
];

/// The key that UDP listeners and upstreams share.
pub(in crate::shape) static TO_DESTINATIONS: [Field; 1] = [optional(
    "to_destinations",
    Shape::OneOrMany(&Shape::Either(&[
        Shape::Text("an address or network such as `10.0.0.0/8`"),
        Shape::Object(&DESTINATION),
    ])),
    "",
    "Go where the PROXY header says the client wanted to go, if that is one of these.",
)];

pub(in crate::shape) static UDP_LISTENER: Object = Object {
    name: "udp_listener",
    doc: "UDP addresses that share all settings",
    fields: &[
        &[
            required(
                "name",
                Shape::Text("a name of letters, digits, `.`, `_` and `-`"),
                "Unique name: in logs and metrics.",
            ),
            required(
                "bind",
                Shape::OneOrMany(&Shape::Text("an address such as `0.0.0.0:53`, `[::]:53` or `:53`")),
                "Where to listen. `:53` is every IPv4 and IPv6 address; `[::]:53` is IPv6 alone.",
            ),
            optional(
                "to",
                Shape::OneOrMany(&Shape::Text("an address such as `127.0.0.1:5353`")),
                "",
                "Where datagrams go: one address, or one for each family.",
            ),
            optional(
                "proxy_protocol",
                Shape::Choice(&["off", "each", "first", "auto", "simple"]),
                "off",
                "How a balancer says who the client is. `each`: a PROXY header (version 2) on every datagram; `first`: on the first datagram of a flow; `auto`: found out for each flow; `simple`: the Simple Proxy Protocol.",
            ),
            optional(
                "trust",
                Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
                "(none)",
                "Balancers whose headers are believed. Datagrams of all others are dropped. The source of a datagram can be forged: let only the balancers' network reach this address.",
            ),
            optional(
                "trust_file",
                Shape::Text("a file"),
                "(none)",
                "A file of such networks, one in each line, with `#` comments. Each reload reads it again; missing, broken or empty it is rejected.",
            ),
            optional(
                "without_header",
                Shape::Choice(&["refuse", "pass"]),
                "refuse",
                "What becomes of a datagram of a balancer that has no header where one is due. `pass`: the balancer itself is the client.",
            ),
            optional(
                "answer_header",
                Shape::Bool,
                "false",
                "Put the header of the Simple Proxy Protocol in front of responses as well; some balancers demand it. Only with `proxy_protocol: simple`.",
            ),
        ],
        &TO_DESTINATIONS,
        &SOURCE_SETTINGS,
        &[
            optional(
                "idle_timeout",
                Shape::Duration(100, DAY),
                "60s",
                "A flow in which nothing moves for this long ends.",
            ),
            optional(
                "max_flows",
                Shape::Int(1, 4_000_000),
                "65536",
                "Flows at once, per worker. When there are that many, a new one takes the place of the one idle longest; of those never answered first.",
            ),
            optional(
                "max_flows_per_client",
                Shape::Int(1, 4_000_000),
                "1024",
                "Flows of one client address at once, per worker. A further one takes the place of that client's one idle longest.",
            ),
        ],
    ],
    one_of: &["to", "to_destinations"],
    secret: false,
};

pub(in crate::shape) static DESTINATION: Object = object(
    "destination",
    "a destination that a header may name",
    &[&[
        required(
            "network",
            Shape::Text("an address or network such as `10.0.0.0/8`"),
            "Addresses that clients may have wanted to reach.",
        ),
        optional(
            "ports",
            Shape::Verbatim("a port or a range such as `1000-2000`"),
            "1-65535",
            "Ports that clients may have wanted to reach.",
        ),
    ]],
);
