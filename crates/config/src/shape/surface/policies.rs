//! Keys of `policies`. Declares them, nothing else; `surface.rs` says how.

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
            "allow",
            Shape::OneOrMany(&Shape::Text("an address or network such as `10.0.0.0/8`")),
            "(everybody)",
            "Clients that may pass; others are rejected with 403.",
        ),
        optional(
            "allow_file",
            Shape::Text("a path"),
            "(none)",
            "The same, from a file: an address or network in each line. It is watched.",
        ),
        optional(
            "deny",
            Shape::OneOrMany(&Shape::Text("an address or network such as `192.0.2.0/24`")),
            "(nobody)",
            "Clients that are rejected with 403, even if `allow` names them.",
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
            "jwt",
            Shape::Object(&POLICY_JWT),
            "(none)",
            "A bearer token that requests must show; without a good one they are rejected with 401, without the right claims with 403.",
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
    &[&[
        required(
            "rate",
            Shape::Text("requests per second, minute or hour such as `100/s`, `30/m` or `500/h`"),
            "Requests that pass in the long run, for each value of `key`. They are spaced evenly beyond `burst` (GCRA).",
        ),
        optional(
            "burst",
            Shape::Int(1, 1_000_000),
            "(the requests of one second, at least 1)",
            "Requests that may come at once after a pause.",
        ),
        optional(
            "key",
            Shape::Either(&[Shape::Choice(&["client", "all"]), Shape::Object(&RATE_KEY)]),
            "client",
            "What is counted apart. `client`: the address of the client, of IPv6 its /64. `all`: all requests together.",
        ),
        optional(
            "max_keys",
            Shape::Int(1_024, 100_000_000),
            "131072",
            "Values of `key` that are remembered, at 16 bytes each in the whole process. Beyond them those that have used least of their burst are forgotten.",
        ),
    ]],
);

pub(in crate::shape) static RATE_KEY: Object = Object {
    one_of: &["header", "cookie"],
    ..object(
        "policy.rate_limit.key",
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
        ]],
    )
};
