//! Keys of `contracts` and `hosts`. Declares them, nothing else; `surface.rs` says how.

use super::listeners::SECRET;
use super::upstreams::CONNECTION_SETTINGS;
use super::{DAY, KIB, MIB, MINUTE, SECOND, TIB, object, optional, required};
use crate::shape::{Object, Shape};

const MODE: Shape = Shape::Choice(&["block", "log", "off"]);

/// What `format` may assert.
const FORMATS: &[&str] = &[
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "uuid",
    "byte",
    "json-pointer",
    "relative-json-pointer",
    "regex",
    "int32",
    "int64",
];

pub(in crate::shape) static CONTRACT: Object = object(
    "contract",
    "an OpenAPI document as the list of what may pass",
    &[&[
        required(
            "document",
            Shape::Text("a file such as `openapi.yaml`"),
            "The OpenAPI document, 3.0 or 3.1, YAML or JSON. Read again when it or a file it refers to changes.",
        ),
        optional(
            "document_url",
            Shape::Object(&DOCUMENT_URL),
            "(none)",
            "Where the document is fetched from. `document` is then the file in which the last good copy is kept, which must be writable and need not be there yet: until there is one, requests are answered 503.",
        ),
        optional(
            "base_path",
            Shape::Text("a path such as `/v1`"),
            "(that of `servers`)",
            "Path under which the document's paths stand, in place of that of its `servers`; `/` for none.",
        ),
        optional(
            "strict",
            Shape::Bool,
            "false",
            "What `check` warns of in the document is an error: unknown members and keywords, paths that no request reaches, media types that cannot be used.",
        ),
        optional(
            "on_unsupported",
            Shape::Choice(&["reject_operation", "fail"]),
            "reject_operation",
            "What becomes of operations that cannot be validated as the document says. `reject_operation`: their requests are answered 501, or pass in `log`. `fail`: the document is not loaded.",
        ),
        optional("request", MODE, "block", "What becomes of requests that break it. `log`: they pass and are logged."),
        optional("response", MODE, "block", "What becomes of responses that break it; blocked ones are answered 502."),
        optional(
            "operations",
            Shape::List(&Shape::Object(&OPERATION)),
            "(none)",
            "Operations that differ. The last that matches counts.",
        ),
        optional(
            "pass_options",
            Shape::Bool,
            "false",
            "Let OPTIONS pass on paths of the document that do not list it.",
        ),
        optional(
            "block_status",
            Shape::Int(400, 599),
            "(what fits: 400, 401, 403, 404, 405, 413, 415, 502)",
            "One status for every rejection, unknown paths and methods included.",
        ),
        optional(
            "detail",
            Shape::Choice(&["empty", "status", "code", "pointer"]),
            "code",
            "What the body of a rejection tells: nothing; the status; also the reason code; also where and what. JSON (RFC 9457).",
        ),
        optional(
            "status_header",
            Shape::Text("a field name such as `Contract-Status`"),
            "(none)",
            "Field of a rejection that tells what was validated, the reason code, and the name it is about.",
        ),
        optional("undeclared", Shape::Object(&UNDECLARED), "(see there)", "What the document does not name."),
        optional(
            "repeated_scalars",
            Shape::Choice(&["block", "pass"]),
            "block",
            "Parameters with one value that are there more than once.",
        ),
        optional(
            "escaped_delimiters",
            Shape::Choice(&["both", "data", "split"]),
            "both",
            "`%2C` in a value that commas separate (`ids=1%2C2`). `data`: part of an element, as the specification has it. `split`: a comma, as many clients mean it. `both`: servers differ, so it must be valid both ways.",
        ),
        optional(
            "formats",
            Shape::OneOrMany(&Shape::Choice(FORMATS)),
            "(all of these)",
            "The formats that are asserted; `[]` for none. Others say nothing.",
        ),
        optional(
            "lenient_times",
            Shape::Bool,
            "false",
            "A `date-time` or `time` may lack its offset (`2026-01-01T10:00:00`), and a `duration` may end in a fraction of a second (`PT1.5S`).",
        ),
        optional(
            "nullable",
            Shape::Choice(&["typed", "intent"]),
            "typed",
            "`nullable: true` of OpenAPI 3.0. `typed`: null is allowed beside a `type`, and where `enum` lists it, as the specification has it. `intent`: null is allowed.",
        ),
        optional(
            "declared_binary",
            Shape::Choice(&["pass", "block"]),
            "pass",
            "Bodies that the document declares as bytes and nothing here reads: `format: binary`, and images, audio, video, fonts, PDF and archives that no schema describes otherwise. They pass unread, within their lengths.",
        ),
        optional(
            "opaque_media_types",
            Shape::OneOrMany(&Shape::Text("a media type such as `application/pdf` or `image/*`")),
            "(none)",
            "Declared media types without a reader here whose bodies may pass unread. Others are rejected.",
        ),
        optional(
            "encodings",
            Shape::OneOrMany(&Shape::Choice(&["gzip", "deflate", "br", "zstd"])),
            "[gzip, deflate, br, zstd]",
            "Content codings that are decoded and validated; `[]` for none. Others are rejected.",
        ),
        optional("limits", Shape::Object(&CONTRACT_LIMITS), "(see there)", "What one message may cost."),
        optional("shadow", Shape::Object(&SHADOW), "(see there)", "What is never listed as undeclared."),
        optional(
            "jwt",
            Shape::Object(&JWT),
            "(none)",
            "How tokens for OAuth 2 and OpenID Connect are checked. Needed where the document demands them.",
        ),
        optional("deny_tokens", Shape::Object(&DENY_TOKENS), "(none)", "Tokens that are rejected, on every request."),
        optional(
            "allow_addresses",
            Shape::Object(&ALLOW_ADDRESSES),
            "(all)",
            "Clients that may speak at all, on every request.",
        ),
    ]],
);

pub(in crate::shape) static DOCUMENT_URL: Object = object(
    "contract.document_url",
    "a document that is fetched",
    &[
        &[
            required(
                "url",
                Shape::Text("a URL such as `https://api.example.com/openapi.json`"),
                "Where it is. Redirects are not followed, and references to other files lead nowhere.",
            ),
            optional("refresh", Shape::Duration(SECOND, DAY), "10m", "How often it is fetched again."),
            optional("timeout", Shape::Duration(SECOND, 5 * MINUTE), "10s", "One fetch, from name to last byte."),
            optional(
                "headers",
                Shape::List(&Shape::Object(&DOCUMENT_HEADER)),
                "(none)",
                "Further fields of the request, such as `Authorization`.",
            ),
        ],
        &CONNECTION_SETTINGS,
    ],
);

pub(in crate::shape) static DOCUMENT_HEADER: Object = object(
    "contract.document_url.header",
    "a field of the request for a document",
    &[&[
        required("name", Shape::Text("a field name such as `Authorization`"), "Its name."),
        required("value", Shape::Object(&SECRET), "Where its value comes from. Read for each request."),
    ]],
);

pub(in crate::shape) static OPERATION: Object = object(
    "contract.operations",
    "operations that differ from the rest of their contract",
    &[&[
        required(
            "path",
            Shape::Text("a path such as `/v1/pets/{id}`"),
            "The path as the document writes it, after the base path.",
        ),
        optional("methods", Shape::OneOrMany(&Shape::Text("a method such as `GET`")), "(all)", "Its methods."),
        optional("request", MODE, "(as above)", "What becomes of requests."),
        optional("response", MODE, "(as above)", "What becomes of responses."),
        optional("max_body", Shape::Size(0, TIB), "(`limits.body`)", "Largest body as sent, either way."),
    ]],
);

pub(in crate::shape) static UNDECLARED: Object = object(
    "contract.undeclared",
    "what becomes of what the document does not name; `log` lists it and lets it pass",
    &[&[
        optional("query", MODE, "block", "Query parameters."),
        optional("headers", MODE, "off", "Header fields; those that HTTP itself, browsers and proxies use are spared."),
        optional("cookies", MODE, "off", "Cookies."),
        optional("body_fields", MODE, "block", "Fields of bodies, at every depth."),
        optional("body", Shape::Choice(&["block", "off"]), "block", "A body where none is declared."),
        optional("response_body", MODE, "(as `body`)", "A body of a response that declares no `content`."),
        optional("status", MODE, "block", "Statuses of responses."),
    ]],
);

pub(in crate::shape) static CONTRACT_LIMITS: Object = object(
    "contract.limits",
    "what one message may cost",
    &[&[
        optional("body", Shape::Size(0, TIB), "4MiB", "Body as sent; then 413. Held in memory until the decision."),
        optional("decoded_body", Shape::Size(KIB, TIB), "16MiB", "Body after decoding; then 413."),
        optional("decoded_ratio", Shape::Int(1, 1_000_000), "100", "Decoded bytes per encoded byte; then 413."),
        optional("query_parameters", Shape::Int(0, 100_000), "256", "Parameters in a query."),
        optional("multipart_parts", Shape::Int(1, 100_000), "128", "Parts of a multipart body."),
        optional("document", Shape::Size(KIB, 256 * MIB), "32MiB", "The document, all its files together."),
    ]],
);

pub(in crate::shape) static SHADOW: Object = object(
    "contract.shadow",
    "what is never listed as undeclared",
    &[&[
        optional("exclude_statuses", Shape::OneOrMany(&Shape::Int(100, 599)), "[404]", "Statuses of responses."),
        optional(
            "exclude_paths",
            Shape::OneOrMany(&Shape::Text("the beginning of a path such as `/.well-known/`")),
            "(none)",
            "Beginnings of paths.",
        ),
    ]],
);

pub(in crate::shape) static JWT: Object = Object {
    name: "contract.jwt",
    doc: "how tokens are checked",
    fields: &[&[
        required(
            "algorithms",
            Shape::OneOrMany(&Shape::Choice(&[
                "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256",
                "HS384", "HS512",
            ])),
            "The algorithms that are taken, and no others.",
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
            "A JSON Web Key Set that is fetched. The last good one is kept.",
        ),
        optional("secret", Shape::Object(&SECRET), "", "A shared secret, for HS256, HS384 and HS512 alone."),
        optional("issuers", Shape::OneOrMany(&Shape::Verbatim("text")), "(any)", "Accepted values of `iss`."),
        optional("audiences", Shape::OneOrMany(&Shape::Verbatim("text")), "(any)", "Accepted values of `aud`."),
        optional("leeway", Shape::Duration(0, 10 * MINUTE), "30s", "How far clocks may be apart."),
        optional("require_expiry", Shape::Bool, "true", "Reject tokens without `exp`."),
        optional(
            "bearer_schemes",
            Shape::OneOrMany(&Shape::Verbatim("the name of a security scheme")),
            "(all)",
            "Security schemes of type `http` and scheme `bearer`, and API keys in `Authorization`, whose tokens are verified; `[]` for none. Tokens of `oauth2` and `openIdConnect` always are.",
        ),
    ]],
    one_of: &["public_key", "key_set", "key_url", "secret"],
    secret: false,
};

pub(in crate::shape) static KEY_URL: Object = object(
    "contract.jwt.key_url",
    "a key set that is fetched",
    &[
        &[
            required(
                "url",
                Shape::Text("a URL such as `https://id.example.com/.well-known/jwks.json`"),
                "Where it is.",
            ),
            optional("refresh", Shape::Duration(10 * SECOND, DAY), "10m", "How often it is fetched again."),
        ],
        &CONNECTION_SETTINGS,
    ],
);

pub(in crate::shape) static DENY_TOKENS: Object = object(
    "contract.deny_tokens",
    "tokens that are rejected",
    &[&[
        required(
            "file",
            Shape::Text("a file such as `denied.txt`"),
            "One token in each line. Read again when it changes.",
        ),
        optional("cookie", Shape::Text("a name such as `session`"), "(not looked at)", "The cookie to look at."),
        optional(
            "header",
            Shape::Text("a field name such as `Authorization`"),
            "(not looked at)",
            "The field to look at.",
        ),
        optional("trim_bearer", Shape::Bool, "true", "`Bearer ` before the token is not part of it."),
    ]],
);

pub(in crate::shape) static ALLOW_ADDRESSES: Object = object(
    "contract.allow_addresses",
    "clients that may speak at all",
    &[&[
        required(
            "file",
            Shape::Text("a file such as `allowed.txt`"),
            "One address or network in each line. Read again when it changes.",
        ),
        optional(
            "header",
            Shape::Text("a field name such as `X-Real-IP`"),
            "(the first of `forwarding.trusted_fields` that names it)",
            "Another field in which the proxies among `trusted_proxies` name the client, for this list alone. Name only one that each of them sets.",
        ),
    ]],
);

pub(in crate::shape) static HOST_RULE: Object = object(
    "host_rule",
    "what holds for a host",
    &[&[required("contract", Shape::Text("the name of a contract"), "Its contract, unless a route says otherwise.")]],
);
