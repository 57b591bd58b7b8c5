//! Keys of `udp_listeners`, and those that say under which address connections go onward. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

/// Keys that UDP listeners and upstreams share.
pub(in crate::shape) static SOURCE_SETTINGS: [Field; 3] = [
    optional(
        "transparent",
        Shape::Bool,
        "false",
        "Connect from the client's own address and port, so that the application sees them. Requires CAP_NET_ADMIN and `portunus routing setup`.",
    ),
    optional(
        "mark",
        Shape::Int(0, 4_294_967_295),
        "0",
        "SO_MARK of the sockets towards the upstream, for routing rules; 0 for none.",
    ),
    optional(
        "allow_sources",
        Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
        "(none)",
        "Client addresses to use with `transparent` although they are rejected by default: addresses of this machine, and loopback, link-local, multicast, broadcast and unspecified addresses.",
    ),
];

/// The key that UDP listeners and upstreams share.
pub(in crate::shape) static ORIGINAL_DST: [Field; 1] = [optional(
    "original_dst",
    Shape::OneOrMany(&Shape::Either(&[
        Shape::Text("an address or network such as `10.0.0.0/8`"),
        Shape::Object(&DESTINATION),
    ])),
    "",
    "Connect to the destination that the PROXY header names, if it is one of these. Others are rejected.",
)];

pub(in crate::shape) static UDP_LISTENER: Object = Object {
    name: "udp_listener",
    doc: "UDP listening addresses that share their settings",
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
                "upstream",
                Shape::OneOrMany(&Shape::Text("an address such as `127.0.0.1:5353`, or the name of an upstream")),
                "",
                "Address of the application: one, or one for IPv4 and one for IPv6. Or the name of an upstream with `protocol: udp`, whose servers share the flows.",
            ),
            optional(
                "proxy_protocol",
                Shape::Object(&UDP_PROXY_PROTOCOL),
                "(no headers)",
                "Expect PROXY headers on datagrams. The client is the one that the header names.",
            ),
            optional(
                "policies",
                Shape::OneOrMany(&Shape::Text("the name of a policy")),
                "(none)",
                "Policies that flows must pass: by address, by rate, by number. Datagrams of a client that may have no flow are dropped.",
            ),
        ],
        &ORIGINAL_DST,
        &SOURCE_SETTINGS,
        &[
            optional(
                "idle_timeout",
                Shape::Duration(100, DAY),
                "60s",
                "Close a flow after this time without a datagram in either direction.",
            ),
            optional(
                "max_flows",
                Shape::Int(1, 4_000_000),
                "65536",
                "Flows per worker. When the table is full, a new flow replaces the one that has been idle longest, unanswered ones first.",
            ),
            optional(
                "max_flows_per_client",
                Shape::Int(1, 4_000_000),
                "1024",
                "Flows of one client address per worker. A further one replaces the flow of that client that has been idle longest.",
            ),
        ],
    ],
    one_of: &["upstream", "original_dst"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static UDP_PROXY_PROTOCOL: Object = Object {
    name: "udp_listener.proxy_protocol",
    doc: "PROXY headers on datagrams",
    fields: &[&[
        required(
            "mode",
            Shape::Choice(&["each", "first", "auto", "simple"]),
            "`each`: a PROXY header (version 2) on every datagram. `first`: on the first datagram of a flow. `auto`: one of the two, detected for each flow. `simple`: the Simple Proxy Protocol.",
        ),
        optional(
            "trust",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "",
            "Load balancers to trust. Datagrams from others are dropped. Source addresses of datagrams can be forged: let only the network of the load balancers reach this listener.",
        ),
        optional(
            "trust_file",
            Shape::Text("a file"),
            "",
            "A file of such networks, one per line, with `#` comments. Each reload reads it again; a missing, invalid or empty file is an error.",
        ),
        optional(
            "header",
            Shape::Choice(&["required", "optional"]),
            "required",
            "`required`: drop datagrams that lack a header where one is due. `optional`: accept them; the load balancer is the client.",
        ),
        optional(
            "reply_header",
            Shape::Bool,
            "false",
            "Put the header on replies as well; some load balancers require it. Only with `mode: simple`.",
        ),
    ]],
    one_of: &["trust", "trust_file"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static DESTINATION: Object = object(
    "destination",
    "destinations that a PROXY header may name",
    &[&[
        required(
            "network",
            Shape::Text("an address or network such as `10.0.0.0/8`"),
            "Destination addresses to accept.",
        ),
        optional(
            "ports",
            Shape::Verbatim("a port or a range such as `1000-2000`"),
            "1-65535",
            "Destination ports to accept.",
        ),
    ]],
);
