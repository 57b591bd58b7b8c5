//! Keys of what a request is matched by (expressions for paths, and `when`), and of what is split and mirrored. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

pub(in crate::shape) static PATH_EXPRESSION: Object = Object {
    one_of: &["regex", "prefix"],
    ..object("route.path", "a path by regular expression or by its start", PATH_EXPRESSION_ROWS)
};

static PATH_EXPRESSION_ROWS: &[&[Field]] = &[&[
    optional(
        "regex",
        Shape::Text("an expression such as `/v[0-9]+/(?<name>[^/]+)`"),
        "",
        "Matches the whole canonical path, in time linear in its length. Groups are parameters of the path: `(?<name>...)` by name, others by number (`{1}`). Syntax of the Rust crate `regex`, on bytes.",
    ),
    optional(
        "except",
        Shape::OneOrMany(&Shape::Text("an expression such as `/admin/.*`")),
        "(none)",
        "Paths that it does not match, as the other expression says: what another route is to have.",
    ),
    optional(
        "decoded",
        Shape::Bool,
        "false",
        "Match the path with its escapes decoded (`%20`, `%C3%A9`), but for those of `/` and of other characters that a path may hold as they are. Only in `in_order`.",
    ),
    optional(
        "prefix",
        Shape::Text("the start of a path such as `/static`"),
        "",
        "Matches each path that begins with this text, wherever a segment ends: `/static`, `/static/x`, `/staticky`. What follows is the parameter `{rest}`. Only in `in_order`.",
    ),
]];

/// One value, or what values may be.
static VALUES: Shape = Shape::OneOrMany(&Shape::Either(&[Shape::Verbatim("a value"), Shape::Object(&VALUE_MATCH)]));

pub(in crate::shape) static WHEN: Object = object(
    "when",
    "what a request must be like; all of it must hold, and of a list one item",
    &[&[
        optional(
            "header",
            Shape::Table("NAME", &VALUES),
            "(any)",
            "Header fields. Of a field that comes more than once any value counts.",
        ),
        optional("query", Shape::Table("NAME", &VALUES), "(any)", "Parameters of the query, decoded."),
        optional("cookie", Shape::Table("NAME", &VALUES), "(any)", "Cookies."),
        optional(
            "claim",
            Shape::Table("CLAIM", &VALUES),
            "(any)",
            "Claims of the token that a policy with `jwt` has verified; of a list each item counts. Not on a route, which is chosen before a token is verified: for `split`, and for policies that are asked after that one.",
        ),
        optional(
            "client",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "(any)",
            "Address of the client, as the access log has it.",
        ),
        optional("certificate", Shape::Object(&WHEN_CERTIFICATE), "(any)", "The client's certificate, verified."),
        optional(
            "server_name",
            Shape::OneOrMany(&Shape::Text("a host name such as `www.example.com` or `*.example.com`")),
            "(any)",
            "Server name of the TLS handshake (SNI).",
        ),
        optional(
            "country",
            Shape::OneOrMany(&Shape::Text("two capital letters such as `DE`, or `unknown`")),
            "(any)",
            "Country of the client, by `geoip.country`. `unknown`: the database does not say, or who the client is is not certain.",
        ),
        optional(
            "asn",
            Shape::OneOrMany(&Shape::Either(&[Shape::Int(1, 4_294_967_295), Shape::Choice(&["unknown"])])),
            "(any)",
            "Autonomous system of the client, by `geoip.asn`.",
        ),
        optional(
            "ja4",
            Shape::OneOrMany(&Shape::Text(
                "a JA4 fingerprint such as `t13d1516h2_8daaf6152771_e5627efa2ab1`, `*` for a part such as `t13d1516h2_*_e5627efa2ab1`",
            )),
            "(any)",
            "JA4 fingerprint of the TLS client. A client can choose its fingerprint: it shows which software most clients are, and proves nothing.",
        ),
    ]],
);

pub(in crate::shape) static WHEN_CERTIFICATE: Object = object(
    "when.certificate",
    "a client certificate",
    &[&[required(
        "san",
        Shape::OneOrMany(&Shape::Text("`DNS:`, `URI:`, `EMAIL:` or `IP:` and a name such as `DNS:*.example.com`")),
        "Subject alternative names, of which it must have one. `DNS:*.example.com` is any name below, `URI:spiffe://example.com/*` any URI that begins so.",
    )]],
);

pub(in crate::shape) static VALUE_MATCH: Object = Object {
    one_of: &["exact", "prefix", "regex", "present"],
    ..object(
        "when.value",
        "what a value may be",
        &[&[
            optional("exact", Shape::Verbatim("a value"), "", "Exactly this, as the value alone says."),
            optional("prefix", Shape::Verbatim("the start of a value"), "", "Begins with this."),
            optional(
                "regex",
                Shape::Text("an expression such as `[a-z]+-[0-9]+`"),
                "",
                "Matches as a whole, as in a path.",
            ),
            optional("present", Shape::Bool, "", "`true`: it is there. `false`: it is not."),
        ]],
    )
};

pub(in crate::shape) static SHARE: Object = object(
    "route.split",
    "a share of the requests of a route",
    &[&[
        required("upstream", Shape::Text("the name of an upstream"), "Who gets them."),
        optional(
            "weight",
            Shape::Int(0, 1_000_000),
            "1",
            "Its part of the requests that no `when` of another share takes, in proportion to the other weights. Each request is drawn for itself.",
        ),
        optional(
            "when",
            Shape::Object(&WHEN),
            "(by weight)",
            "It gets all requests for which this holds; the first such share in the file.",
        ),
    ]],
);

pub(in crate::shape) static MIRROR: Object = object(
    "route.mirror",
    "copies of requests, whose responses are dropped",
    &[&[
        required("upstream", Shape::Text("the name of an upstream"), "Who gets copies, over HTTP/1.1."),
        optional("percent", Shape::Int(0, 100), "100", "How many of a hundred requests are copied."),
        optional(
            "max_body",
            Shape::Size(0, 16 * MIB),
            "64KiB",
            "Requests with a longer body are not copied. Copies take that much memory until they are sent.",
        ),
    ]],
);
