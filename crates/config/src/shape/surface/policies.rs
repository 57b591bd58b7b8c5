//! Keys of `policies`. Declares them, nothing else; `surface.rs` says how.

use super::matching::WHEN;
use crate::table::*;

words! {
    /// What becomes of requests that a policy does not let pass.
    pub enum PolicyMode {
        /// They are rejected.
        #[default]
        Enforce = "enforce",
        /// They pass, and are counted.
        Log = "log",
    }
}

words! {
    /// Who counts together for a rate.
    pub enum RateScope {
        /// This process.
        #[default]
        Node = "node",
        /// All nodes that share a `rate_store`.
        Fleet = "fleet",
    }
}

words! {
    /// What of a client's certificate is counted apart.
    pub enum CertificateKey {
        /// The SHA-256 of it.
        #[default]
        Fingerprint = "fingerprint",
        /// Its subject.
        Subject = "subject",
        /// Its first alternative name.
        San = "san",
    }
}

pub(in crate::shape) static POLICY: Object = object(
    "policy",
    "which requests may pass",
    &[&[
        optional(
            "mode",
            Shape::Choice(PolicyMode::WORDS),
            "enforce",
            "`enforce`: reject the requests that do not pass. `log`: let them pass and count them (`portunus_policy_decisions_total`), to try a policy.",
        ),
        optional(
            "when",
            Shape::Object(&WHEN),
            "(all)",
            "The requests that the policy is asked about, as on a route; the others pass it. Not beside what authenticates, and not for tunnels and UDP.",
        ),
        optional(
            "allow",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`, `country:DE` or `asn:64500`")),
            "(everybody)",
            "Clients that may pass; others are rejected with 403. Countries and autonomous systems are those of `geoip`; of whom it knows nothing is in none of them.",
        ),
        optional(
            "allow_file",
            Shape::Text("a path"),
            "(none)",
            "The same, from a file: an address or network in each line. It is watched.",
        ),
        optional(
            "deny",
            Shape::OneOrMany(&Shape::Text("an address or network such as `192.0.2.0/24`, `country:DE` or `asn:64500`")),
            "(nobody)",
            "Clients that are rejected with 403, even if `allow` names them. `country:unknown` and `asn:unknown` are those of whom `geoip` knows nothing.",
        ),
        optional(
            "deny_file",
            Shape::Text("a path"),
            "(none)",
            "The same, from a file: an address or network in each line. It is watched.",
        ),
        optional(
            "rate_limit",
            Shape::Object(&RATE_LIMIT),
            "(none)",
            "Largest rate of requests; those beyond it are rejected with 429.",
        ),
        optional(
            "concurrency_limit",
            Shape::Object(&CONCURRENCY_LIMIT),
            "(none)",
            "Most requests under way at once; those beyond it are rejected with 429, or with 503 where `key` is `all` or `route`, since it is not their client then who has too many.",
        ),
        optional(
            "bandwidth_limit",
            Shape::Object(&BANDWIDTH_LIMIT),
            "(none)",
            "Most bytes in a second; what is more waits. Datagrams do not wait but are dropped.",
        ),
        optional(
            "jwt",
            Shape::Object(&POLICY_JWT),
            "(none)",
            "A bearer token that requests must show; without a good one they are rejected with 401, without the right claims with 403.",
        ),
        optional(
            "basic",
            Shape::Object(&POLICY_BASIC),
            "(none)",
            "A user name and password that requests must show (`Authorization: Basic`); else they are rejected with 401.",
        ),
        optional(
            "forward_auth",
            Shape::Object(&FORWARD_AUTH),
            "(none)",
            "An authentication service that is asked about each request, as by nginx's `auth_request`, Traefik's ForwardAuth and Envoy's `ext_authz` over HTTP.",
        ),
        optional(
            "cors",
            Shape::Object(&CORS),
            "(none)",
            "Which pages of other origins may use the resource (CORS). That of a route counts before that of its host, and that before the listener's.",
        ),
        optional(
            "maintenance",
            Shape::Object(&MAINTENANCE),
            "(none)",
            "A switch: while a file exists, requests are answered 503.",
        ),
    ]],
);

pub(in crate::shape) static POLICY_JWT: Object = object(
    "policy.jwt",
    "a bearer token that requests must show",
    &[&[
        required("verifier", Shape::Text("the name of an entry of `tokens`"), "How the token is verified."),
        optional(
            "cookie",
            Shape::Text("the name of a cookie"),
            "(none: `Authorization: Bearer`)",
            "The token is in this cookie, in place of `Authorization`.",
        ),
        optional(
            "allow_missing",
            Shape::Bool,
            "false",
            "Let requests pass that show no token. One that is shown must be good all the same.",
        ),
        optional(
            "scopes",
            Shape::OneOrMany(&Shape::Verbatim("a scope such as `read`")),
            "(none)",
            "Scopes that the token must grant, all of them (`scope` or `scp`); else 403.",
        ),
        optional(
            "claims",
            Shape::Table("CLAIM", &Shape::OneOrMany(&Shape::Verbatim("text"))),
            "(none)",
            "Claims that the token must have, each with one of these values, or with a list that holds one; else 403.",
        ),
        optional(
            "set",
            Shape::Table("NAME", &Shape::Verbatim("a claim such as `sub`")),
            "(none)",
            "Header fields to set to the value of a claim. What clients send under these names is removed from every request, whatever its route.",
        ),
    ]],
);

pub(in crate::shape) static POLICY_BASIC: Object = object(
    "policy.basic",
    "a user name and password that requests must show",
    &[&[
        required(
            "file",
            Shape::Text("a path such as `users.htpasswd`"),
            "Users and the bcrypt hashes of their passwords, as `htpasswd -B` writes them. It is watched.",
        ),
        optional(
            "realm",
            Shape::Verbatim("text"),
            "(the name of the policy)",
            "What browsers show when they ask for the password.",
        ),
        optional(
            "user_header",
            Shape::Text("the name of a header field"),
            "(none)",
            "A header field to set to the user name. What clients send under this name is removed from every request, whatever its route.",
        ),
        optional(
            "cache_ttl",
            Shape::Duration(0, DAY),
            "5m",
            "Time for which each worker accepts credentials without computing the hash again; a changed file counts at once. `0` computes it for each request.",
        ),
    ]],
);

pub(in crate::shape) static FORWARD_AUTH: Object = object(
    "policy.forward_auth",
    "an authentication service",
    &[&[
        required("upstream", Shape::Text("an upstream"), "Its servers. They are asked over HTTP/1.1."),
        required(
            "path",
            Shape::Text("a path such as `/oauth2/auth`"),
            "Path, and query if there is one, that is asked for.",
        ),
        optional(
            "append_path",
            Shape::Bool,
            "false",
            "Ask with the method of the request, and for its path and query behind `path`, as Envoy does. Otherwise with GET; method and URL are in `X-Forwarded-*` and `X-Original-*`.",
        ),
        optional(
            "host",
            Shape::Text("a host such as `auth.example.com`"),
            "(the address of the server)",
            "Host to send; `{host}` for that of the request.",
        ),
        optional(
            "send",
            Shape::OneOrMany(&Shape::Text("the name of a header field, or `*`")),
            "[authorization, cookie, accept, origin, user-agent, x-requested-with]",
            "Header fields of the request that the service gets; `*` for all but those that Portunus writes itself.",
        ),
        optional(
            "copy",
            Shape::OneOrMany(&Shape::Text("the name of a header field")),
            "(none)",
            "Header fields of a response of 2xx that the request gets, such as `Remote-User`. What clients send under these names is removed from every request, whatever its route.",
        ),
        optional(
            "set_cookies",
            Shape::Bool,
            "false",
            "Send the cookies that a response of 2xx sets to the client, too: services renew sessions so. Those of a response that goes to the client itself are always sent.",
        ),
        optional(
            "relay",
            Shape::Bool,
            "true",
            "Clients that may not pass get the response of the service. `false`: its status alone, 401 or 403, with its `WWW-Authenticate`; its redirects are errors then.",
        ),
        optional(
            "sign_in",
            Shape::Text("a path or URL such as `https://auth.example.com/?rd={url}`"),
            "(the response of the service)",
            "Redirect clients to which the service responds 401 to this page, with the cookies of that response: with 302, and with 303 where the request was neither GET nor HEAD.",
        ),
        optional("timeout", Shape::Duration(10, 5 * MINUTE), "2s", "Time for one question; then 503."),
    ]],
);

pub(in crate::shape) static CORS: Object = object(
    "policy.cors",
    "pages of other origins",
    &[&[
        required(
            "origins",
            Shape::OneOrMany(&Shape::Text(
                "an origin such as `https://app.example.com` or `https://*.example.com`, or `*`",
            )),
            "Origins whose pages may read responses. `*.` stands for one or more labels of a host; `*` alone for every origin.",
        ),
        optional(
            "credentials",
            Shape::Bool,
            "false",
            "Pages may show cookies and other credentials. Not with `origins: \"*\"`.",
        ),
        optional(
            "methods",
            Shape::OneOrMany(&Shape::Text("a method such as `PUT`")),
            "[GET, HEAD, POST]",
            "Methods that pages may use. GET, HEAD and POST need no permission.",
        ),
        optional(
            "headers",
            Shape::OneOrMany(&Shape::Text("the name of a header field")),
            "[authorization, content-type, x-requested-with]",
            "Header fields that pages may send, besides those that need no permission.",
        ),
        optional(
            "expose_headers",
            Shape::OneOrMany(&Shape::Text("the name of a header field")),
            "(none)",
            "Header fields of responses that pages may read, besides those that need no permission.",
        ),
        optional(
            "max_age",
            Shape::Duration(0, DAY),
            "10m",
            "Time for which browsers remember what a preflight allows.",
        ),
    ]],
);

pub(in crate::shape) static MAINTENANCE: Object = object(
    "policy.maintenance",
    "a switch for maintenance",
    &[&[
        required(
            "file",
            Shape::Text("a path such as `/run/portunus/maintenance`"),
            "While it exists, requests are answered 503. It is looked for once a second, without a reload.",
        ),
        optional(
            "retry_after",
            Shape::Duration(SECOND, 30 * DAY),
            "1m",
            "Time after which clients may come again (`Retry-After`).",
        ),
        optional(
            "except",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "(nobody)",
            "Clients that pass all the same.",
        ),
    ]],
);

pub(in crate::shape) static RATE_LIMIT: Object = object(
    "policy.rate_limit",
    "a rate of requests",
    &[
        &[
            required(
                "rate",
                Shape::Text("requests per second, minute or hour such as `100/s`, `30/m` or `500/h`"),
                "Requests (of a tunnel connections, of a UDP listener flows) that pass in the long run, for each value of `key`. They are spaced evenly beyond `burst` (GCRA).",
            ),
            optional(
                "burst",
                Shape::Int(1, 1_000_000),
                "(the requests of one second, at least 1)",
                "Requests that may come at once after a pause.",
            ),
        ],
        &LIMIT_KEYS,
        &[
            optional(
                "max_keys",
                Shape::Int(1_024, 100_000_000),
                "131072",
                "Values of `key` that are remembered, at 16 bytes each in the whole process. Beyond them those that have used least of their burst are forgotten.",
            ),
            optional(
                "scope",
                Shape::Choice(RateScope::WORDS),
                "node",
                "`node`: this process counts by itself. `fleet`: all nodes with this `rate_store` share the rate; policies of the same name, `key` and `max_keys` count together, and remembering a value takes 32 bytes.",
            ),
        ],
    ],
);

pub(in crate::shape) static CONCURRENCY_LIMIT: Object = object(
    "policy.concurrency_limit",
    "requests under way at once",
    &[
        &[required(
            "max_in_flight",
            Shape::Int(1, 1_000_000),
            "Requests (of a tunnel connections, of a UDP listener flows) under way for each value of `key`, from the header to the last byte of the response; a WebSocket until it closes.",
        )],
        &LIMIT_KEYS,
        &[optional(
            "max_keys",
            Shape::Int(1_024, 100_000_000),
            "131072",
            "Values of `key` that can have requests under way at once, at 16 bytes each in the whole process. What is more is counted together with others, so that it may be rejected early, but never late.",
        )],
    ],
);

pub(in crate::shape) static BANDWIDTH_LIMIT: Object = object(
    "policy.bandwidth_limit",
    "bytes in a second",
    &[&[
        optional(
            "download",
            Shape::Size(KIB, 10 * GIB),
            "(unlimited)",
            "Bytes per second to the client, of response bodies, WebSockets, tunnels and flows.",
        ),
        optional(
            "upload",
            Shape::Size(KIB, 10 * GIB),
            "(unlimited)",
            "Bytes per second from the client, of request bodies, WebSockets, tunnels and flows.",
        ),
        optional(
            "burst",
            Shape::Size(0, TIB),
            "(those of a tenth of a second, at least 16KiB)",
            "Bytes that go at full speed after a pause, in each direction; not less than those of a hundredth of a second.",
        ),
        optional(
            "key",
            Shape::OneOrMany(&Shape::Either(&[
                Shape::Choice(&["connection", "client", "route", "all"]),
                Shape::Object(&LIMIT_KEY),
            ])),
            "connection",
            "What shares the bandwidth. `connection`: everything on one connection of a client, or in one flow. The others mean what they mean for `rate_limit`.",
        ),
        optional(
            "max_keys",
            Shape::Int(1_024, 100_000_000),
            "131072",
            "Values of `key` that are remembered, at 16 bytes each and direction in the whole process. Beyond them those that have used least are forgotten.",
        ),
    ]],
);

/// What limits count apart.
static LIMIT_KEYS: [Field; 1] = [optional(
    "key",
    Shape::OneOrMany(&Shape::Either(&[Shape::Choice(&["client", "route", "all"]), Shape::Object(&LIMIT_KEY)])),
    "client",
    "What is counted apart; of a list, each combination. `client`: the address of the client, of IPv6 its /64. `route`: the route that the request takes. `all`: all requests together.",
)];

pub(in crate::shape) static LIMIT_KEY: Object = Object {
    one_of: &["header", "cookie", "claim", "certificate"],
    ..object(
        "policy.key",
        "what is counted apart",
        &[&[
            optional(
                "header",
                Shape::Text("the name of a header field"),
                "",
                "The value of a header field. Requests without it count by the address of the client.",
            ),
            optional(
                "cookie",
                Shape::Text("the name of a cookie"),
                "",
                "The value of a cookie. Requests without it count by the address of the client.",
            ),
            optional(
                "claim",
                Shape::Verbatim("a claim such as `sub`"),
                "",
                "A claim of the token that a policy with `jwt` has verified: this one, or one that is asked before it. Requests without it count by the address of the client.",
            ),
            optional(
                "certificate",
                Shape::Choice(CertificateKey::WORDS),
                "",
                "What the verified client certificate says: `fingerprint` (SHA-256), `subject`, or `san` (its first alternative name). Requests without one count by the address of the client.",
            ),
        ]],
    )
};
