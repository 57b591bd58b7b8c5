//! Every key of a configuration file: its shape, its default, its meaning. The only place where a key is declared.
//!
//! A new key goes here first; `build/` then reads it, and schema and reference follow (`UPDATE=1 cargo test -p portunus --test config`).

use super::{Field, Object, Shape};

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
    &REDIRECT_TO_HTTPS,
    &TLS,
    &TLS_NAME,
    &CLIENT_CERTIFICATE,
    &KEYSTORE,
    &SECRET,
    &UPSTREAM,
    &SERVER,
    &UPSTREAM_TLS,
    &HEALTH,
    &EJECTION,
    &RETRIES,
    &ROUTE,
    &UPSTREAM_URL,
    &REDIRECT,
    &RESPOND,
    &HOST_SET,
    &HEADER_EDITS,
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
        optional("workers", Shape::Either(&[Shape::Choice(&["auto"]), Shape::Int(1, 1024)]), "auto", "Worker threads, each with its own listeners. `auto`: one per processor the process may use."),
        required("listeners", Shape::List(&Shape::Object(&LISTENER)), "Where connections come in."),
        optional("keystores", Shape::Table("NAME", &Shape::Object(&KEYSTORE)), "(none)", "Certificates and keys, by a name that `tls.keystore` refers to."),
        optional("upstreams", Shape::Table("NAME", &Shape::Object(&UPSTREAM)), "(none)", "Groups of servers, by a name that routes refer to."),
        optional("routes", Shape::List(&Shape::Object(&ROUTE)), "(none)", "What happens to which request. The most specific route wins, whatever the order: exact host before wildcard before any; static path before parameter before catch-all."),
        optional("trusted_proxies", Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")), "(none)", "Peers whose forwarding fields (`X-Forwarded-*`, `Forwarded`, `X-Real-IP`, `X-Request-Id`) are believed. Those of all others are removed."),
        optional("forwarding", Shape::Object(&FORWARDING), "(see there)", "Which forwarding fields are written."),
        optional("admin", Shape::Object(&ADMIN), "(no admin listener)", "The admin listener: metrics, health, configuration, reload."),
        optional("log", Shape::Object(&LOG), "(see there)", "Logs."),
        optional("limits", Shape::Object(&LIMITS), "(see there)", "Every bound of the process."),
    ]],
);

static LISTENER: Object = object(
    "listener",
    "addresses that share all settings",
    &[&[
        required("name", Shape::Text("a name of letters, digits, `.`, `_` and `-`"), "Unique name: in routes, logs and metrics."),
        required("bind", Shape::OneOrMany(&Shape::Text("an address such as `0.0.0.0:443`, `[::]:443`, `:443` or `unix:/run/edge.sock`")), "Where to listen. `:443` is every IPv4 and IPv6 address; `[::]:443` is IPv6 alone."),
        optional("tls", Shape::Object(&TLS), "(plain)", "TLS. Without it the listener is plain."),
        optional("redirect_to_https", Shape::Either(&[Shape::Bool, Shape::Object(&REDIRECT_TO_HTTPS)]), "false", "Answer every request with 308 to the same URL under https, instead of routing it."),
    ]],
);

static REDIRECT_TO_HTTPS: Object = object(
    "redirect_to_https",
    "where plain requests are redirected",
    &[&[optional("port", Shape::Int(1, 65_535), "443", "Port of the https URL; 443 is left out of it.")]],
);

/// Keys that a listener and a name of it share.
static TLS_SETTINGS: [Field; 4] = [
    optional("policy", Shape::Choice(&["modern", "intermediate", "legacy"]), "intermediate", "Versions, cipher suites and groups. `modern`: TLS 1.3. `intermediate`: TLS 1.2 with forward secrecy and AEAD, and 1.3. `legacy`: TLS 1.0 and later, for old clients only."),
    optional("min_version", Shape::Choice(&["1.0", "1.1", "1.2", "1.3"]), "(the policy's own)", "Lowest TLS version. It can raise what the policy allows, not lower it."),
    optional("alpn", Shape::OneOrMany(&Shape::Choice(&["h2", "http/1.1"])), "[h2, http/1.1]", "HTTP versions offered, in our order of preference."),
    optional("client_certificate", Shape::Either(&[Shape::Choice(&["none"]), Shape::Object(&CLIENT_CERTIFICATE)]), "none", "Ask clients for a certificate."),
];

static TLS: Object = object(
    "tls",
    "TLS of a listener",
    &[
        &[required("keystore", Shape::Text("the name of a keystore"), "Which keystore the certificates come from.")],
        &TLS_SETTINGS,
        &[
            optional("strict_sni", Shape::Bool, "false", "Refuse a name without a certificate of its own, instead of serving the default certificate."),
            optional("names", Shape::List(&Shape::Object(&TLS_NAME)), "(none)", "Settings of single names. What is not given there is as above."),
        ],
    ],
);

static TLS_NAME: Object = object(
    "tls.names",
    "TLS settings of single names",
    &[&[required("host", Shape::OneOrMany(&Shape::Text("a host name such as `admin.example.com` or `*.example.com`")), "The name or names this is for.")], &TLS_SETTINGS],
);

static CLIENT_CERTIFICATE: Object = object(
    "client_certificate",
    "a rule for client certificates",
    &[&[
        required("mode", Shape::Choice(&["optional", "required"]), "`required`: the handshake fails without one. `optional`: served without identity fields."),
        required("ca", Shape::Text("a PEM file"), "Roots that client certificates must lead to. Nothing else is trusted."),
        optional("crl", Shape::Text("a PEM or DER file"), "(none)", "Revocation lists."),
        optional("allow_san", Shape::OneOrMany(&Shape::Text("a name such as `DNS:client.example`, `URI:spiffe://x/y`, `EMAIL:a@example.com` or `IP:192.0.2.1`")), "(any)", "Subject alternative names; the certificate must hold one of them."),
    ]],
);

static KEYSTORE: Object = Object {
    name: "keystore",
    doc: "certificates and keys",
    fields: &[&[
        optional("folder", Shape::Text("a folder"), "", "A folder of PEM files, chain and key together or apart."),
        optional("pkcs12", Shape::Text("a file"), "", "A PKCS#12 file (`.p12`, `.pfx`)."),
        optional("jks", Shape::Text("a file"), "", "A Java keystore."),
        optional("password", Shape::Object(&SECRET), "(none)", "Where the password of the store comes from. Needed by `pkcs12` and `jks`."),
        optional("default", Shape::Text("a host name"), "(the alias `default`)", "The name whose certificates serve clients that send no name, or one that is not here."),
        optional("reload_every", Shape::Duration(SECOND, 30 * DAY), "30m", "The store is read again at this period, besides on every change of its files."),
    ]],
    one_of: &["folder", "pkcs12", "jks"],
    secret: false,
};

static SECRET: Object = Object {
    name: "secret",
    doc: "where a secret comes from",
    fields: &[&[
        optional("file", Shape::Text("a file"), "", "A file that holds it; the final newline is not part of it."),
        optional("env", Shape::Text("the name of an environment variable"), "", "An environment variable that holds it."),
    ]],
    one_of: &["file", "env"],
    secret: true,
};

/// Keys that a group and a server made from a URL share.
static CONNECTION_SETTINGS: [Field; 9] = [
    optional("protocol", Shape::Choice(&["http1", "http2"]), "http1", "HTTP spoken to the servers. `http2`: by ALPN over TLS, with prior knowledge otherwise; gRPC needs it."),
    optional("tls", Shape::Either(&[Shape::Bool, Shape::Object(&UPSTREAM_TLS)]), "false", "TLS to the servers. Their certificates are verified, by the system's roots unless `ca` is given."),
    optional("connect_timeout", TIMEOUT, "5s", "For connecting, TCP and TLS together."),
    optional("header_timeout", TIMEOUT, "60s", "From the last byte of the request to the head of the answer; then 504."),
    optional("idle_timeout", TIMEOUT, "60s", "Between two bytes of a body."),
    optional("total_timeout", Shape::Either(&[Shape::Choice(&["none"]), TIMEOUT]), "none", "For the whole exchange."),
    optional("keep_idle", TIMEOUT, "30s", "How long an unused connection is kept."),
    optional("max_idle", Shape::Int(0, 1_000_000), "256", "Unused connections kept in the process."),
    optional("max_in_flight", Shape::Int(1, 1_000_000), "10000", "Requests under way in the process; further ones are answered 503."),
];

static UPSTREAM: Object = object(
    "upstream",
    "a group of servers",
    &[
        &[
            required("servers", Shape::OneOrMany(&Shape::Either(&[Shape::Text("a server such as `127.0.0.1:9000`, `app.internal:8080` or `unix:/run/app.sock`"), Shape::Object(&SERVER)])), "The servers. Names are resolved again by the TTL of their DNS records."),
            optional("balance", Shape::Choice(&["round_robin", "least_loaded"]), "round_robin", "How a server is chosen: in turn by weight, or the less loaded of two random ones."),
        ],
        &CONNECTION_SETTINGS,
        &[
            optional("retries", Shape::Object(&RETRIES), "(see there)", "Retries of idempotent requests on another server."),
            optional("ejection", Shape::Object(&EJECTION), "(see there)", "When a failing server is left out."),
            optional("health", Shape::Object(&HEALTH), "(none)", "Active checks."),
        ],
    ],
);

static SERVER: Object = object(
    "server",
    "a server with a weight",
    &[&[
        required("address", Shape::Text("a server such as `127.0.0.1:9000`, `app.internal:8080` or `unix:/run/app.sock`"), "Where it is."),
        optional("weight", Shape::Int(1, 1_000), "1", "Its share of the load, against those of the others."),
    ]],
);

static UPSTREAM_TLS: Object = object(
    "upstream.tls",
    "TLS to upstream servers",
    &[&[
        optional("ca", Shape::Text("a PEM file"), "(the system's roots)", "Roots to trust instead of the system's."),
        optional("name", Shape::Text("a host name"), "(the server's own)", "Name to send and to check. Servers on Unix sockets need it."),
        optional("client_certificate", Shape::Text("a PEM file"), "(none)", "Our client certificate with its chain."),
        optional("client_key", Shape::Text("a PEM file"), "(none)", "The key of our client certificate."),
        optional("insecure_skip_verify", Shape::Bool, "false", "Do not verify the servers' certificates: whoever sits between can read and change everything."),
    ]],
);

static RETRIES: Object = object(
    "retries",
    "retries of idempotent requests",
    &[&[optional("budget", Shape::Int(0, 100), "20", "Retries, as a percentage of requests; 0 switches them off.")]],
);

static EJECTION: Object = object(
    "ejection",
    "when a failing server is left out",
    &[&[
        optional("failures", Shape::Int(0, 1_000), "5", "Failures in a row after which a server is left out; 0 switches this off."),
        optional("period", Shape::Duration(100, HOUR), "10s", "For how long at first; it doubles up to ten times this."),
    ]],
);

static HEALTH: Object = object(
    "health",
    "active health checks",
    &[&[
        required("path", Shape::Text("a path such as `/healthz`"), "Asked for with GET; 200 to 399 is healthy."),
        optional("host", Shape::Text("a host name"), "(the server's own)", "Host sent with it."),
        optional("every", Shape::Duration(100, HOUR), "5s", "Between two checks."),
        optional("timeout", Shape::Duration(10, HOUR), "2s", "For one check; at most `every`."),
        optional("fall", Shape::Int(1, 100), "3", "Failed checks in a row until a server is left out."),
        optional("rise", Shape::Int(1, 100), "2", "Passed checks in a row until it is back."),
    ]],
);

static ROUTE: Object = Object {
    name: "route",
    doc: "what happens to which request",
    fields: &[&[
        optional("name", Shape::Text("a name of letters, digits, `.`, `_` and `-`"), "(file and line)", "Unique name: in logs and metrics."),
        optional("listeners", Shape::OneOrMany(&Shape::Text("the name of a listener")), "(all that route)", "Listeners it belongs to."),
        optional("hosts", Shape::OneOrMany(&Shape::Text("a host name such as `www.example.com`, `*.example.com` or `*`")), "*", "Host names it is for. `*.example.com` is one or more labels before the rest; `*` is any host."),
        optional("methods", Shape::OneOrMany(&Shape::Text("a method such as `GET`")), "(any)", "Methods it is for. HEAD is served where GET is, unless a route names HEAD."),
        optional("path", Shape::Text("a path such as `/api/{version}/{*rest}`"), "/{*rest}", "Path it is for. `{name}` is one segment, or its end (`v{n}`); `{*name}`, last, is all that follows."),
        optional("headers", Shape::Table("NAME", &Shape::Verbatim("a value")), "(any)", "Fields that must be there with exactly this value."),
        optional("upstream", Shape::Text("the name of an upstream"), "", "Forward to this group."),
        optional("upstream_url", Shape::Object(&UPSTREAM_URL), "", "Forward to a server whose name is built from parameters."),
        optional("redirect", Shape::Object(&REDIRECT), "", "Redirect."),
        optional("respond", Shape::Object(&RESPOND), "", "Answer by ourselves."),
        optional("rewrite", Shape::Text("a path such as `/v2/{rest}`"), "(as matched)", "Path sent upstream. The query is appended."),
        optional("host", Shape::Either(&[Shape::Choice(&["keep", "upstream"]), Shape::Object(&HOST_SET)]), "keep", "Host sent upstream: the client's, the server's own, or a fixed one."),
        optional("request_headers", Shape::Object(&HEADER_EDITS), "(none)", "Edits of the request's fields."),
        optional("response_headers", Shape::Object(&HEADER_EDITS), "(none)", "Edits of the response's fields."),
        optional("hsts", Shape::Either(&[Shape::Bool, Shape::Text("a value such as `max-age=31536000; includeSubDomains`")]), "false", "Strict-Transport-Security on answers over TLS. `true`: `max-age=31536000`."),
        optional("max_body", Shape::Size(0, TIB), "(`limits.max_body`)", "Largest request body; then 413."),
        optional("allow_encoded_slash", Shape::Bool, "false", "Let `%2F` stand in a parameter (package registries need it). Otherwise such a path is answered 400."),
        optional("upgrades", Shape::OneOrMany(&Shape::Text("a protocol such as `websocket`")), "[websocket]", "Protocols a connection may be upgraded to once the upstream agrees; `[]` for none."),
    ]],
    one_of: &["upstream", "upstream_url", "redirect", "respond"],
    secret: false,
};

static UPSTREAM_URL: Object = object(
    "upstream_url",
    "an upstream built from parameters",
    &[
        &[
            required("to", Shape::Text("a URL such as `https://{tenant}.example.com/{rest}`"), "Scheme, host and optional port; a path is sent as `rewrite` would be."),
            optional("allow", Shape::OneOrMany(&Shape::Text("a host such as `a.example.com`, with its port if the URL has one")), "(required if a parameter stands in the host)", "Hosts that may come out of it. Anything else is answered 400."),
        ],
        &CONNECTION_SETTINGS,
    ],
);

static REDIRECT: Object = object(
    "redirect",
    "a redirect",
    &[&[
        required("to", Shape::Text("a URL such as `https://www.example.com/{rest}` or a path"), "The Location. The query is appended unless this has one."),
        optional("status", Shape::Choice(&["301", "302", "303", "307", "308"]), "308", "Status code."),
        optional("allow", Shape::OneOrMany(&Shape::Text("a host such as `a.example.com`, with its port if the URL has one")), "(required if a parameter stands in the host)", "Hosts that may come out of it. Anything else is answered 400."),
    ]],
);

static RESPOND: Object = object(
    "respond",
    "a fixed answer",
    &[&[
        required("status", Shape::Int(200, 599), "Status code."),
        optional("body", Shape::Verbatim("text"), "(empty)", "Body."),
        optional("content_type", Shape::Text("a media type such as `text/plain`"), "text/plain; charset=utf-8", "Content-Type, if there is a body."),
    ]],
);

static HOST_SET: Object = object(
    "host",
    "a fixed Host",
    &[&[required("set", Shape::Text("a host such as `app.internal` or `app.internal:8080`"), "The Host sent upstream.")]],
);

static HEADER_EDITS: Object = object(
    "header_edits",
    "edits of header fields, applied in the order remove, set, add",
    &[&[
        optional("remove", Shape::OneOrMany(&Shape::Text("a field name")), "(none)", "Fields to remove."),
        optional("set", Shape::Table("NAME", &Shape::Verbatim("a value")), "(none)", "Fields to replace or create."),
        optional("add", Shape::Table("NAME", &Shape::Verbatim("a value")), "(none)", "Fields to append."),
    ]],
);

static FORWARDING: Object = object(
    "forwarding",
    "which forwarding fields are written",
    &[&[
        optional("x_forwarded", Shape::Bool, "true", "`X-Forwarded-For`, `-Proto`, `-Host` and `-Port`."),
        optional("x_real_ip", Shape::Bool, "true", "`X-Real-IP`."),
        optional("forwarded", Shape::Bool, "false", "`Forwarded` (RFC 7239)."),
        optional("via", Shape::Bool, "true", "`Via`, both ways."),
        optional("request_id", Shape::Bool, "true", "`X-Request-Id`: kept from trusted peers, else made."),
    ]],
);

static ADMIN: Object = object(
    "admin",
    "the admin listener",
    &[&[
        required("bind", Shape::Text("an address such as `127.0.0.1:9901` or `unix:/run/portunus/admin.sock`"), "Where it listens: loopback or a Unix socket."),
        optional("allow_remote", Shape::Bool, "false", "Let it listen elsewhere. There is no login: guard that address by other means."),
        optional("hosts", Shape::OneOrMany(&Shape::Text("a host name")), "(none)", "Further Host values it answers to, beside its address and `localhost`."),
    ]],
);

static LOG: Object = object(
    "log",
    "logs",
    &[&[
        optional("access", Shape::Either(&[Shape::Choice(&["none"]), Shape::Object(&ACCESS_LOG)]), "(see there)", "One line per request."),
        optional("level", Shape::Choice(&["error", "warn", "info", "debug", "trace"]), "info", "What the diagnostic log on stderr holds."),
    ]],
);

static ACCESS_LOG: Object = object(
    "access",
    "the access log",
    &[&[
        optional("format", Shape::Choice(&["json", "text"]), "json", "JSON for machines, text for people."),
        optional("to", Shape::Text("`stdout` or a file"), "stdout", "Where it goes. A file is opened again on SIGUSR1."),
    ]],
);

/// Bounds of the process; `crate::limits` says why each is there, and a test compares the defaults.
static LIMITS: Object = object(
    "limits",
    "bounds of the process",
    &[&[
        optional("max_connections", Shape::Int(1, 100_000_000), "100000", "Connections open at once; further ones wait in the kernel's queue."),
        optional("max_connections_per_client", Shape::Int(1, 100_000_000), "1000", "Connections open at once from one address (IPv6: from one /64); further ones are closed at once."),
        optional("handshake_timeout", TIMEOUT, "10s", "From accept to the end of the TLS handshake."),
        optional("head_timeout", TIMEOUT, "10s", "From the first byte of a request to the end of its head."),
        optional("keep_alive_timeout", TIMEOUT, "75s", "Between two requests of a connection."),
        optional("client_idle_timeout", TIMEOUT, "30s", "Between two reads of a request body, or two writes the client accepts."),
        optional("min_body_rate", Shape::Size(0, TIB), "256", "Slowest body a client may send or accept, per second, judged after `client_idle_timeout`; 0 for any."),
        optional("tunnel_idle_timeout", Shape::Duration(SECOND, 30 * DAY), "1h", "A WebSocket or other tunnel in which nothing moves either way."),
        optional("max_head", Shape::Size(KIB, MIB), "32KiB", "Request head; then 431."),
        optional("max_request_line", Shape::Size(64, MIB), "8KiB", "Request line; then 414."),
        optional("max_fields", Shape::Int(4, 256), "100", "Fields in a head; then 431."),
        optional("max_body", Shape::Size(0, TIB), "64MiB", "Request body, where the route does not say otherwise; then 413."),
        optional("max_response_head", Shape::Size(KIB, MIB), "64KiB", "Response head from an upstream; then 502."),
        optional("max_interim_responses", Shape::Int(0, 1_000), "8", "Interim (1xx) responses before the final one; then 502."),
        optional("max_requests_per_connection", Shape::Int(1, u64::MAX >> 11), "1000000", "Requests on one connection, then it is closed politely."),
        optional("max_drain", Shape::Size(0, MIB), "64KiB", "An unread request body is read up to this size to keep the connection; else the connection closes."),
        optional("h2_max_streams", Shape::Int(1, 10_000), "128", "HTTP/2 streams open at once on one connection."),
        optional("drain_timeout", Shape::Duration(0, DAY), "30s", "After SIGTERM, how long open requests and tunnels may go on."),
    ]],
);
