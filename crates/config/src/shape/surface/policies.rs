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
