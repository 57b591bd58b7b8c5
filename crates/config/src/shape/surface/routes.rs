//! Keys of `routes`. Declares them, nothing else; `surface.rs` says how.

use super::upstreams::CONNECTION_SETTINGS;
use super::{TIB, TIMEOUT, object, optional, required};
use crate::shape::{Object, Shape};

pub(in crate::shape) static ROUTE: Object = Object {
    name: "route",
    doc: "what happens to which request",
    fields: &[&[
        optional(
            "name",
            Shape::Text("a name of letters, digits, `.`, `_` and `-`"),
            "(methods, first host and path)",
            "Unique name: in logs and metrics. Without one a route is called as in `GET www.example.com/api/{*rest}`, at most 96 characters, and `#2` behind it if another is called so already.",
        ),
        optional(
            "listeners",
            Shape::OneOrMany(&Shape::Text("the name of a listener")),
            "(all that route)",
            "Listeners it belongs to.",
        ),
        optional(
            "hosts",
            Shape::OneOrMany(&Shape::Text("a host name such as `www.example.com`, `*.example.com` or `*`")),
            "*",
            "Host names it is for. `*.example.com` is one or more labels before the rest; `*` is any host.",
        ),
        optional(
            "methods",
            Shape::OneOrMany(&Shape::Text("a method such as `GET`")),
            "(any)",
            "Methods it is for. HEAD is served where GET is, unless a route names HEAD.",
        ),
        optional(
            "path",
            Shape::Text("a path such as `/api/{version}/{*rest}`"),
            "/{*rest}",
            "Path it is for. `{name}` is one segment, or its end (`v{n}`); `{*name}`, last, is all that follows.",
        ),
        optional(
            "headers",
            Shape::Table("NAME", &Shape::Verbatim("a value")),
            "(any)",
            "Fields that must be there with exactly this value.",
        ),
        optional("upstream", Shape::Text("the name of an upstream"), "", "Forward to this group."),
        optional(
            "upstream_url",
            Shape::Object(&UPSTREAM_URL),
            "",
            "Forward to a server whose name is built from parameters.",
        ),
        optional("redirect", Shape::Object(&REDIRECT), "", "Redirect."),
        optional("respond", Shape::Object(&RESPOND), "", "Answer by ourselves."),
        optional(
            "rewrite",
            Shape::Text("a path such as `/v2/{rest}`"),
            "(as matched)",
            "Path sent upstream. The query is appended.",
        ),
        optional(
            "host",
            Shape::Either(&[Shape::Choice(&["keep", "upstream"]), Shape::Object(&HOST_SET)]),
            "keep",
            "Host sent upstream: the client's, the server's own, or a fixed one.",
        ),
        optional("request_headers", Shape::Object(&HEADER_EDITS), "(none)", "Edits of the request's fields."),
        optional("response_headers", Shape::Object(&HEADER_EDITS), "(none)", "Edits of the response's fields."),
        optional(
            "hsts",
            Shape::Either(&[Shape::Bool, Shape::Text("a value such as `max-age=31536000; includeSubDomains`")]),
            "false",
            "Strict-Transport-Security on answers over TLS. `true`: `max-age=31536000`.",
        ),
        optional("max_body", Shape::Size(0, TIB), "(`limits.max_body`)", "Largest request body; then 413."),
        optional(
            "client_idle_timeout",
            TIMEOUT,
            "(`limits.client_idle_timeout`)",
            "Between two reads of the request body before there is a response, or two writes the client accepts.",
        ),
        optional(
            "min_body_rate",
            Shape::Size(0, TIB),
            "(`limits.min_body_rate`)",
            "Slowest body a client may send or accept, per second of waiting for it; 0 for any.",
        ),
        optional(
            "stream_idle_timeout",
            TIMEOUT,
            "(`idle_timeout` of the upstream)",
            "Once the response has begun: longest time in which no byte of a body moves in either direction.",
        ),
        optional(
            "allow_ambiguous_path",
            Shape::Bool,
            "false",
            "Let paths pass that a server which makes `//` one slash or drops `;` and what follows it in a segment would read as those of a more specific route, or \
             of another operation of the contract. Otherwise they are answered 400.",
        ),
        optional(
            "allow_encoded_slash",
            Shape::Bool,
            "false",
            "Let `%2F` stand in a parameter (package registries need it). Otherwise such a path is answered 400.",
        ),
        optional(
            "keep_method_override",
            Shape::Bool,
            "false",
            "Send X-HTTP-Method-Override, X-HTTP-Method and X-Method-Override on. An upstream that obeys them does what no method here was checked for.",
        ),
        optional(
            "upgrades",
            Shape::OneOrMany(&Shape::Text("a protocol such as `websocket`")),
            "[websocket]",
            "Protocols a connection may be upgraded to once the upstream agrees; `[]` for none.",
        ),
        optional(
            "contract",
            Shape::Text("the name of a contract, or `none`"),
            "(that of its host, else of its listener)",
            "Contract that requests and responses are checked by. `none`: none, whatever host and listener say.",
        ),
    ]],
    one_of: &["upstream", "upstream_url", "redirect", "respond"],
    secret: false,
};

pub(in crate::shape) static UPSTREAM_URL: Object = object(
    "upstream_url",
    "an upstream built from parameters",
    &[
        &[
            required(
                "to",
                Shape::Text("a URL such as `https://{tenant}.example.com/{rest}`"),
                "Scheme, host and optional port; a path is sent as `rewrite` would be.",
            ),
            optional(
                "allow",
                Shape::OneOrMany(&Shape::Text("a host such as `a.example.com`, with its port if the URL has one")),
                "(required if a parameter stands in the host)",
                "Hosts that may come out of it. Anything else is answered 400.",
            ),
        ],
        &CONNECTION_SETTINGS,
    ],
);

pub(in crate::shape) static REDIRECT: Object = object(
    "redirect",
    "a redirect",
    &[&[
        required(
            "to",
            Shape::Text("a URL such as `https://www.example.com/{rest}` or a path"),
            "The Location. The query is appended unless this has one.",
        ),
        optional("status", Shape::Choice(&["301", "302", "303", "307", "308"]), "308", "Status code."),
        optional(
            "allow",
            Shape::OneOrMany(&Shape::Text("a host such as `a.example.com`, with its port if the URL has one")),
            "(required if a parameter stands in the host)",
            "Hosts that may come out of it. Anything else is answered 400.",
        ),
    ]],
);

pub(in crate::shape) static RESPOND: Object = object(
    "respond",
    "a fixed response",
    &[&[
        required("status", Shape::Int(200, 599), "Status code."),
        optional("body", Shape::Verbatim("text"), "(empty)", "Body."),
        optional(
            "content_type",
            Shape::Text("a media type such as `text/plain`"),
            "text/plain; charset=utf-8",
            "Content-Type, if there is a body.",
        ),
        optional(
            "if_healthy",
            Shape::Text("an upstream"),
            "(always)",
            "Answered only while this upstream has a server that is neither ejected nor fails its checks; else 503.",
        ),
    ]],
);

pub(in crate::shape) static HOST_SET: Object = object(
    "host",
    "a fixed Host",
    &[&[required(
        "set",
        Shape::Text("a host such as `app.internal` or `app.internal:8080`"),
        "The Host sent upstream.",
    )]],
);

pub(in crate::shape) static HEADER_EDITS: Object = object(
    "header_edits",
    "edits of header fields, applied in the order remove, set, add",
    &[&[
        optional("remove", Shape::OneOrMany(&Shape::Text("a field name")), "(none)", "Fields to remove."),
        optional("set", Shape::Table("NAME", &Shape::Verbatim("a value")), "(none)", "Fields to replace or create."),
        optional("add", Shape::Table("NAME", &Shape::Verbatim("a value")), "(none)", "Fields to append."),
    ]],
);
