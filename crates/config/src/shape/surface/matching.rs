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
        "Match the path with its escapes decoded (`%20`, `%C3%A9`), but for those of `/` and of other characters that a path may hold as they are. Only in `in_order` and in `when`.",
    ),
    optional(
        "prefix",
        Shape::Text("the start of a path such as `/static`"),
        "",
        "Matches each path that begins with this text, wherever a segment ends: `/static`, `/static/x`, `/staticky`. What follows is the parameter `{rest}`. Only in `in_order` and in `when`.",
    ),
]];

/// Conditions within conditions.
static GROUP: Shape = Shape::Object(&WHEN);

/// One value, or what values may be.
static VALUES: Shape = Shape::OneOrMany(&Shape::Either(&[Shape::Verbatim("a value"), Shape::Object(&VALUE_MATCH)]));

pub(in crate::shape) static WHEN: Object = object(
    "when",
    "what a request must be like; all of it must hold, and of a list one item unless it is that of `all`",
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
        optional(
            "method",
            Shape::OneOrMany(&Shape::Text("a method such as `GET`")),
            "(any)",
            "Method. GET includes HEAD. Where no route holds because of it the response is 404; 405 with `Allow` is what `methods` of a route brings.",
        ),
        optional(
            "path",
            Shape::OneOrMany(&Shape::Either(&[
                Shape::Text("a path such as `/api/{version}/{*rest}`"),
                Shape::Object(&PATH_EXPRESSION),
            ])),
            "(any)",
            "Path, in the forms that a path of `in_order` may have; what its parameters match is not kept. Only on a route, where it counts for each reading of the path.",
        ),
        optional(
            "scheme",
            Shape::Choice(&["http", "https"]),
            "(any)",
            "Scheme that the client used: what a trusted proxy says, else that of its connection, as `X-Forwarded-Proto` tells upstreams.",
        ),
        optional(
            "port",
            Shape::OneOrMany(&Shape::Int(1, 65_535)),
            "(any)",
            "Port that the client connected to: the one that a believed PROXY header names, else `public_port`, else that of the listener.",
        ),
        optional(
            "version",
            Shape::OneOrMany(&Shape::Choice(&["1.0", "1.1", "2", "3"])),
            "(any)",
            "Version of HTTP that the client speaks.",
        ),
        optional(
            "all",
            Shape::List(&GROUP),
            "(none)",
            "Conditions that must all hold, each item of the list a `when` of its own.",
        ),
        optional(
            "any",
            Shape::List(&GROUP),
            "(none)",
            "Conditions of which one must hold, each item of the list a `when` of its own.",
        ),
        optional(
            "not",
            Shape::Object(&WHEN),
            "(none)",
            "Conditions that must not all hold. Where one of them cannot hold, such as one on a certificate of a client that shows none, `not` does.",
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
    one_of: &["exact", "prefix", "regex", "present", "count", "length", "number"],
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
            optional("count", Shape::Object(&BOUNDS), "", "How many values there are by this name."),
            optional("length", Shape::Object(&BOUNDS), "", "How many bytes it has."),
            optional(
                "number",
                Shape::Object(&BOUNDS),
                "",
                "Is a whole number within these bounds, written in digits alone and without zeros before them. What is no such number is not within any.",
            ),
            optional(
                "which",
                Shape::Choice(&["any", "first", "last", "all"]),
                "any",
                "Which of several values by this name it must be. `all`: each of them, and there must be one. Not for `present` and `count`.",
            ),
        ]],
    )
};

pub(in crate::shape) static BOUNDS: Object = object(
    "when.bounds",
    "bounds of a number",
    &[&[
        optional("equals", NUMBER, "(none)", "Exactly this number."),
        optional("at_least", NUMBER, "(none)", "This number or a higher one."),
        optional("at_most", NUMBER, "(none)", "This number or a lower one."),
    ]],
);

/// A number that is compared.
const NUMBER: Shape = Shape::Int(0, i64::MAX as u64);

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
