//! Keys of `routes`. Declares them, nothing else; `surface.rs` says how.

use super::matching::{MIRROR, PATH_EXPRESSION, SHARE, WHEN};
use super::responses::RESPONSE_RULES;
use super::upstreams::{CONNECTION_SETTINGS, URL_TLS};
use std::time::Duration;

use crate::table::*;

/// What a route does: exactly one of these.
const ACTIONS: [&str; 6] = ["upstream", "split", "upstream_url", "redirect", "respond", "validate"];

pub(in crate::shape) static ROUTE: Object = Object {
    name: "route",
    doc: "what to do with which request",
    fields: &[&NAME, &WHERE, &IN_ORDER, &MATCH_AND_ACTION, &RESPONSE_RULES, ROUTE_OPTIONS_ROWS],
    one_of: &["upstream", "split", "upstream_url", "redirect", "respond", "validate", "in_order"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static ENTRY: Object = Object {
    name: "route.in_order",
    doc: "a route of a group in order",
    fields: &[&NAME, &MATCH_AND_ACTION, &RESPONSE_RULES, ROUTE_OPTIONS_ROWS],
    one_of: &ACTIONS,
    secret: false,
    inherits: false,
};

static NAME: [Field; 1] = [optional(
    "name",
    Shape::Text("a name of letters, digits, `.`, `_` and `-`"),
    "(methods, first host and path)",
    "Unique name for logs and metrics. The default is as in `GET www.example.com/api/{*rest}`, at most 96 characters, followed by `#2` if that name is taken.",
)];

static WHERE: [Field; 2] = [
    optional(
        "listeners",
        Shape::OneOrMany(&Shape::Text("the name of a listener")),
        "(all HTTP listeners)",
        "Listeners of this route.",
    ),
    optional(
        "hosts",
        Shape::OneOrMany(&Shape::Text("a host name such as `www.example.com`, `*.example.com` or `*`")),
        "*",
        "Host names to match. `*.example.com` matches one or more labels before the rest, `*` any host.",
    ),
];

static IN_ORDER: [Field; 1] = [optional(
    "in_order",
    Shape::List(&Shape::Object(&ENTRY)),
    "",
    "Routes that are taken in order: the first whose path, methods and conditions fit. Beside it stand `hosts` and `listeners`, and nothing else; they have no other routes then.",
)
.alone()];

static MATCH_AND_ACTION: [Field; 21] = [
    optional(
        "methods",
        Shape::OneOrMany(&Shape::Text("a method such as `GET`")),
        "(any)",
        "Methods to match. GET includes HEAD, unless another route names HEAD.",
    ),
    optional(
        "path",
        Shape::OneOrMany(&Shape::Either(&[
            Shape::Text("a path such as `/api/{version}/{*rest}`"),
            Shape::Object(&PATH_EXPRESSION),
        ])),
        "/{*rest}",
        "Path to match. `{name}` is one segment or the end of one (`v{n}`); `{*name}` at the end is everything that follows. Of several paths, each must have the parameters that the route uses.",
    ),
    optional(
        "headers",
        Shape::Table("NAME", &Shape::Verbatim("a value")),
        "(any)",
        "Header fields to match, with exactly this value.",
    ),
    optional("when", Shape::Object(&WHEN), "(always)", "What else a request must be like."),
    optional("upstream", Shape::Text("the name of an upstream"), "", "Forward to this upstream."),
    optional("split", Shape::List(&Shape::Object(&SHARE)), "", "Forward to one of several upstreams."),
    optional(
        "upstream_url",
        Shape::Object(&UPSTREAM_URL),
        "",
        "Forward to a server whose name is built from parameters of the path.",
    ),
    optional("redirect", Shape::Object(&REDIRECT), "", "Redirect the client."),
    optional("respond", Shape::Object(&RESPOND), "", "Respond directly."),
    optional(
        "validate",
        Shape::Object(&VALIDATE),
        "",
        "Say whether a request that another proxy holds keeps its contract.",
    ),
    optional(
        "rewrite",
        Shape::Text("a path such as `/v2/{rest}`"),
        "(unchanged)",
        "Path to send upstream. The query is appended.",
    ),
    optional(
        "host",
        Shape::Either(&[Shape::Choice(&["keep", "name", "upstream"]), Shape::Object(&HOST_SET)]),
        "keep",
        "Host to send upstream. `keep`: that of the client. `name`: the same without its port. `upstream`: that of the server.",
    ),
    optional("mirror", Shape::Object(&MIRROR), "(none)", "Send copies of requests to another upstream."),
    optional("request_headers", Shape::Object(&HEADER_EDITS), "(none)", "Changes to the header fields of the request."),
    optional(
        "response_headers",
        Shape::Object(&RESPONSE_EDITS),
        "(none)",
        "Changes to the header fields of the response.",
    ),
    optional(
        "log_fields",
        Shape::Table("NAME", &Shape::Text("a text with variables such as `{tenant}`")),
        "(none)",
        "Fields to add to the access log for requests of this route, besides those of `log.access.fields`; one of the same name is replaced.",
    ),
    optional(
        "hsts",
        Shape::Either(&[Shape::Bool, Shape::Text("a value such as `max-age=31536000; includeSubDomains`")]),
        "false",
        "Add Strict-Transport-Security to responses over TLS. `true`: `max-age=31536000`.",
    ),
    optional("max_body", Shape::Size(1, TIB), "(`limits.max_body`)", "Largest request body; then 413."),
    optional(
        "upgrades",
        Shape::OneOrMany(&Shape::Text("a protocol such as `websocket`")),
        "[websocket]",
        "Protocols to which a connection may be upgraded if the upstream agrees; `[]` for none.",
    ),
    optional(
        "contract",
        Shape::Text("the name of a contract, or `none`"),
        "(that of its host, else of its listener)",
        "Contract to validate requests and responses by. `none`: none, even if the host or the listener has one.",
    ),
    optional(
        "policies",
        Shape::OneOrMany(&Shape::Text("the name of a policy")),
        "(none)",
        "Policies that requests of this route must pass, besides those of the listener and the host.",
    ),
];

settings! {
    /// Settings of a route that are a value alone.
    pub struct RouteOptions, ROUTE_OPTIONS_ROWS {
        client_idle_timeout: Option<Duration> = TIMEOUT, "(`limits.client_idle_timeout`)",
            "Time between two reads of the request body before the response begins, or between two writes of the response.";
        min_body_rate: Option<u64> = Shape::Size(0, TIB), "(`limits.min_body_rate`)",
            "Lowest rate, in bytes per second, at which a client may send the request body or read the response body; 0 for none.";
        response_header_timeout: Option<Duration> = TIMEOUT, "(that of the upstream)",
            "Time from the last byte of the request to the end of the response header; then 504.";
        total_timeout: Option<Duration> = TIMEOUT, "(that of the upstream)",
            "Time for the whole exchange, retries included.";
        stream_idle_timeout: Option<Duration> = TIMEOUT, "(`idle_timeout` of the upstream)",
            "Time without a byte of a body in either direction once the response has begun.";
        tunnel_idle_timeout: Option<Duration> = Shape::Duration(SECOND, 30 * DAY), "(`limits.tunnel_idle_timeout`)",
            "Time without a byte in either direction of a WebSocket; then both sides are reset.";
        allow_ambiguous_path: bool = Shape::Bool, "false",
            "Accept paths that a server which decodes escapes before it matches (`%3A`, also twice), merges slashes or ignores `;` parameters would read as a path of another route, or of another operation of the contract. Otherwise they are rejected with 400.";
        allow_encoded_slash: Option<bool> = Shape::Bool, "(`paths.allow_encoded_slash`)",
            "Accept `%2F` in a parameter (package registries need it). Otherwise such paths are rejected with 400.";
        keep_method_override: bool = Shape::Bool, "false",
            "Forward X-HTTP-Method-Override, X-HTTP-Method and X-Method-Override. An upstream that obeys them executes a method that was never checked here. With `validate`: let requests with them pass.";
    }
}

pub(in crate::shape) static UPSTREAM_URL: Object = object(
    "upstream_url",
    "an upstream built from parameters",
    &[
        &[
            required(
                "url",
                Shape::Text("a URL such as `https://{tenant}.example.com/{rest}`"),
                "Scheme, host and optional port. A path has the effect of `rewrite`.",
            ),
            optional(
                "allow",
                Shape::OneOrMany(&Shape::Text("a host such as `a.example.com`, with its port if the URL has one")),
                "(required if the host contains a parameter)",
                "Hosts to allow as the result. Others are rejected with 400.",
            ),
        ],
        &URL_TLS,
        &CONNECTION_SETTINGS,
    ],
);

words! {
    /// What becomes of the query of a request that is redirected.
    pub enum RedirectQuery {
        /// It is appended, unless the Location has one.
        #[default]
        Keep = "keep",
        /// It is appended, behind the one that the Location has.
        Append = "append",
        /// It is left out.
        Drop = "drop",
    }
}

pub(in crate::shape) static REDIRECT: Object = object(
    "redirect",
    "a redirect",
    &[&[
        required("to", Shape::Text("a URL such as `https://www.example.com/{rest}` or a path"), "Location."),
        optional("status", Shape::Choice(&["301", "302", "303", "307", "308"]), "308", "Status code."),
        optional(
            "query",
            Shape::Choice(RedirectQuery::WORDS),
            "keep",
            "The query of the request. `keep`: append it, unless `to` has one. `append`: append it in any case. `drop`: leave it out.",
        ),
        optional(
            "allow",
            Shape::OneOrMany(&Shape::Text("a host such as `a.example.com`, with its port if the URL has one")),
            "(required if the host contains a parameter)",
            "Hosts to allow as the result. Others are rejected with 400.",
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
            "body_file",
            Shape::Text("a file such as `robots.txt`"),
            "(none)",
            "A file with the body, at most 1 MiB. It is read with the configuration, never while a request is served, and watched.",
        ),
        optional(
            "template",
            Shape::Bool,
            "false",
            "Replace variables such as `{request.id}` in the body, escaped for its media type: text/plain, text/html, JSON and XML. A literal brace is then written `{{` or `}}`.",
        ),
        optional(
            "content_type",
            Shape::Text("a media type such as `text/plain`"),
            "(by the extension of `body_file`, else `text/plain; charset=utf-8`)",
            "Content-Type, if there is a body.",
        ),
        optional(
            "if_healthy",
            Shape::Text("an upstream"),
            "(always)",
            "Respond so only while this upstream has a healthy server; otherwise with 503.",
        ),
    ]],
);

pub(in crate::shape) static VALIDATE: Object = object(
    "validate",
    "validation of requests that another proxy holds",
    &[&[
        required(
            "protocol",
            Shape::Choice(&["auth_request", "forward_auth", "ext_authz", "ext_authz_grpc", "ext_proc", "schemas"]),
            "How that proxy asks. `auth_request`: nginx, with `X-Original-Method` and `X-Original-URI`. `forward_auth`: Traefik and Caddy, with `X-Forwarded-Method` and `X-Forwarded-Uri`. `ext_authz`: Envoy over HTTP; the path of the route ends in `{*name}`, and what stands before it is taken off. `ext_authz_grpc`, `ext_proc`: Envoy over gRPC. `schemas`: the request itself with `X-Wallarm-Schema-ID`; the response is a list of errors.",
        ),
        optional(
            "bodies",
            Shape::Choice(&["whole", "unseen"]),
            "(`whole` for `ext_proc` and `schemas`, else `unseen`)",
            "What that proxy shows of bodies. `whole`: all of each, so a required body that does not come is missing. `unseen`: where none comes there may be one, of which only the declared media type is validated. A body that comes is validated either way.",
        ),
        optional(
            "schemas",
            Shape::Table("ID", &Shape::Text("the name of a contract")),
            "(none)",
            "Of `schemas`: contracts by the numbers that requests name.",
        ),
        optional("max_errors", Shape::Int(0, 1000), "0", "Of `schemas`: most errors in one response; 0 for all."),
    ]],
);

pub(in crate::shape) static HOST_SET: Object = object(
    "host",
    "a fixed Host",
    &[&[required(
        "set",
        Shape::Text("a host such as `app.internal` or `app.internal:8080`"),
        "Host to send upstream. `{host}:8443`: that of the client with this port.",
    )]],
);

static EDITS: [Field; 3] = [
    optional("remove", Shape::OneOrMany(&Shape::Text("a field name")), "(none)", "Header fields to remove."),
    optional("set", Shape::Table("NAME", &Shape::Verbatim("a value")), "(none)", "Header fields to replace or add."),
    optional("add", Shape::Table("NAME", &Shape::Verbatim("a value")), "(none)", "Header fields to append."),
];

pub(in crate::shape) static HEADER_EDITS: Object =
    object("header_edits", "changes to header fields, applied in the order remove, set, add", &[&EDITS]);

pub(in crate::shape) static RESPONSE_EDITS: Object = object(
    "response_edits",
    "changes to header fields of responses; URLs and cookies are those of upstreams that are not removed",
    &[
        &EDITS,
        &[
            optional(
                "rewrite_location",
                Shape::OneOrMany(&Shape::Object(&URL_REWRITE)),
                "(unchanged)",
                "Beginnings of the URLs in `Location` and `Refresh` to replace. The first that fits counts.",
            ),
            optional(
                "cookies",
                Shape::OneOrMany(&Shape::Object(&COOKIE_RULE)),
                "(unchanged)",
                "Attributes of cookies to change. Of several, the first whose `name` fits a cookie counts for it.",
            ),
        ],
    ],
);

pub(in crate::shape) static URL_REWRITE: Object = object(
    "response_edits.rewrite_location",
    "a beginning of a URL to replace",
    &[&[
        required(
            "from",
            Shape::Text("the beginning of a path or URL such as `http://app.internal:8080/`"),
            "What is replaced. Without a slash at its end it fits whole segments or hosts; `http://` is the scheme.",
        ),
        required("to", Shape::Text("a path or URL such as `https://{host}/app/`"), "What comes in its place."),
    ]],
);

pub(in crate::shape) static COOKIE_RULE: Object = object(
    "response_edits.cookies",
    "attributes of cookies to change; `Path` and `Domain` of cookies whose name begins with `__Host-` stay, and so does `Secure` of these and of `__Secure-`",
    &[
        &[
            optional("name", Shape::OneOrMany(&Shape::Text("the name of a cookie")), "(all)", "Names of the cookies."),
            optional(
                "path",
                Shape::OneOrMany(&Shape::Object(&COOKIE_PATH)),
                "(unchanged)",
                "Beginnings of `Path` to replace. The first that fits counts.",
            ),
            optional(
                "domain",
                Shape::OneOrMany(&Shape::Object(&COOKIE_DOMAIN)),
                "(unchanged)",
                "Values of `Domain` to replace.",
            ),
        ],
        COOKIE_FLAGS_ROWS,
    ],
);

settings! {
    /// Attributes of a cookie that are there or not.
    pub struct CookieFlags, COOKIE_FLAGS_ROWS {
        secure: Option<bool> = Shape::Bool, "(unchanged)", "`true` adds `Secure`, `false` removes it.";
        http_only: Option<bool> = Shape::Bool, "(unchanged)", "`true` adds `HttpOnly`, `false` removes it.";
        same_site: Option<CookieSameSite> = Shape::Choice(CookieSameSite::WORDS), "(unchanged)", "The value of `SameSite`; `remove` removes it.";
    }
}

words! {
    /// What `SameSite` of a cookie becomes.
    pub enum CookieSameSite {
        /// `Lax`.
        #[default]
        Lax = "lax",
        /// `Strict`.
        Strict = "strict",
        /// `None`.
        None = "none",
        /// It is removed.
        Remove = "remove",
    }
}

pub(in crate::shape) static COOKIE_PATH: Object = object(
    "response_edits.cookies.path",
    "a beginning of a cookie's `Path` to replace",
    &[&[
        required("from", Shape::Text("the beginning of a path such as `/`"), "What is replaced."),
        required("to", Shape::Text("a path such as `/app/`"), "What comes in its place."),
    ]],
);

pub(in crate::shape) static COOKIE_DOMAIN: Object = object(
    "response_edits.cookies.domain",
    "a cookie's `Domain` to replace",
    &[&[
        required(
            "from",
            Shape::Text("a host name such as `app.internal`"),
            "The value that is replaced, with a dot before it or without.",
        ),
        required(
            "to",
            Shape::Text("a host name such as `example.com`, or `{host}`"),
            "What comes in its place; `none` removes the attribute.",
        ),
    ]],
);
