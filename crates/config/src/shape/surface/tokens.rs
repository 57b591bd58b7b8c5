//! Keys of `tokens`. Declares them, nothing else; `surface.rs` says how.

use super::listeners::SECRET;
use super::upstreams::{CONNECTION_SETTINGS, URL_TLS};
use crate::table::*;

pub(in crate::shape) static TOKENS: Object = Object {
    one_of: &["jwt", "introspection"],
    ..object(
        "tokens",
        "how bearer tokens are verified",
        &[&[
            optional("jwt", Shape::Object(&JWT), "", "By their signature: JSON Web Tokens."),
            optional(
                "introspection",
                Shape::Object(&INTROSPECTION),
                "",
                "By asking their issuer (RFC 7662): tokens that only it can read.",
            ),
        ]],
    )
};

/// What must hold for the claims of a token, however it is verified.
static CLAIM_RULE: [Field; 3] = [
    optional("issuers", Shape::OneOrMany(&Shape::Verbatim("text")), "(any)", "Accepted values of `iss`."),
    optional("audiences", Shape::OneOrMany(&Shape::Verbatim("text")), "(any)", "Accepted values of `aud`."),
    optional("leeway", Shape::Duration(0, 10 * MINUTE), "30s", "Clock skew to allow."),
];

pub(in crate::shape) static JWT: Object = Object {
    name: "tokens.jwt",
    doc: "tokens that are verified by their signature",
    fields: &[
        &[
            required(
                "algorithms",
                Shape::OneOrMany(&Shape::Choice(&[
                    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256",
                    "HS384", "HS512",
                ])),
                "Signature algorithms to accept, and no others.",
            ),
            optional(
                "public_key",
                Shape::Text("a file such as `issuer.pem`"),
                "",
                "A PEM file with a public key or a certificate.",
            ),
            optional("key_set", Shape::Text("a file such as `jwks.json`"), "", "A file with a JSON Web Key Set."),
            optional(
                "key_url",
                Shape::Object(&KEY_URL),
                "",
                "A JSON Web Key Set to fetch. The last valid one is kept.",
            ),
            optional("secret", Shape::Object(&SECRET), "", "A shared secret, for HS256, HS384 and HS512 alone."),
            optional("require_expiry", Shape::Bool, "true", "Reject tokens without `exp`."),
        ],
        &CLAIM_RULE,
    ],
    one_of: &["public_key", "key_set", "key_url", "secret"],
    secret: false,
    inherits: false,
};

pub(in crate::shape) static KEY_URL: Object = object(
    "tokens.jwt.key_url",
    "a key set to fetch",
    &[
        &[
            required("url", Shape::Text("a URL such as `https://id.example.com/.well-known/jwks.json`"), "Address."),
            optional("refresh_interval", Shape::Duration(10 * SECOND, DAY), "10m", "Time between two fetches."),
        ],
        &URL_TLS,
        &CONNECTION_SETTINGS,
    ],
);

pub(in crate::shape) static INTROSPECTION: Object = object(
    "tokens.introspection",
    "a server that is asked about tokens",
    &[
        &[
            required(
                "url",
                Shape::Text("a URL such as `https://id.example.com/oauth2/introspect`"),
                "The introspection endpoint. It is asked with POST; redirects are not followed.",
            ),
            optional(
                "client_id",
                Shape::Verbatim("text"),
                "(none: the secret is a bearer token)",
                "Who asks, as user of `Authorization: Basic`.",
            ),
            required(
                "client_secret",
                Shape::Object(&SECRET),
                "The password of who asks. Read again when the file changes.",
            ),
            optional("require_expiry", Shape::Bool, "false", "Reject tokens without `exp`."),
            optional(
                "timeout",
                Shape::Duration(10, MINUTE),
                "2s",
                "Time for one lookup, waiting for its turn included; then 503.",
            ),
            optional(
                "cache_ttl",
                Shape::Duration(0, DAY),
                "1m",
                "Longest time that an active token is accepted without asking again, never beyond its `exp`: a token that is revoked works for as long. `0` asks for each request.",
            ),
            optional(
                "negative_cache_ttl",
                Shape::Duration(0, HOUR),
                "10s",
                "Time for which a token that is not active, or not for this API, is rejected without asking again.",
            ),
            optional(
                "max_cached_tokens",
                Shape::Int(0, 10_000_000),
                "10000",
                "Tokens that each worker remembers, accepted and rejected ones apart.",
            ),
            optional(
                "max_concurrent_lookups",
                Shape::Int(1, 100_000),
                "32",
                "Lookups that run at once, of all workers. Others wait for their turn within `timeout`.",
            ),
        ],
        &CLAIM_RULE,
        &URL_TLS,
        &CONNECTION_SETTINGS,
    ],
);
