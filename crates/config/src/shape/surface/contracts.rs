//! Keys of `contracts` and `hosts`. Declares them, nothing else; `surface.rs` says how.

use super::graphql::GRAPHQL;
use super::listeners::SECRET;
use super::responses::RESPONSE_RULES;
use super::upstreams::{CONNECTION_SETTINGS, URL_TLS};
use crate::table::*;

const MODE: Shape = Shape::Choice(&["block", "log", "off"]);

pub(in crate::shape) static CONTRACT: Object = Object {
    name: "contract",
    doc: "an OpenAPI document or a GraphQL schema as the list of what is allowed",
    fields: &[&[
        optional(
            "document",
            Shape::Text("a file such as `openapi.yaml`"),
            "",
            "The OpenAPI document, 3.0 or 3.1, YAML or JSON. Read again when it or a file it refers to changes.",
        ),
        optional(
            "graphql",
            Shape::Object(&GRAPHQL),
            "",
            "A GraphQL endpoint in place of a document. What speaks of documents and responses has no meaning beside it.",
        ),
        optional(
            "document_url",
            Shape::Object(&DOCUMENT_URL),
            "(none)",
            "Fetch the document from a URL. `document` is then the file in which the last good copy is kept, which must be writable and need not be there yet: until there is one, requests are answered 503.",
        ),
        optional(
            "base_path",
            Shape::Text("a path such as `/v1`"),
            "(that of `servers`)",
            "Prefix of the paths in the document, in place of that of its `servers`; `/` for none.",
        ),
        optional(
            "request",
            MODE,
            "block",
            "What to do with requests that violate the contract. `block`: reject them. `log`: forward and log them.",
        ),
        optional(
            "response",
            MODE,
            "block",
            "What to do with responses that violate it. `block`: respond with 502 instead.",
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
        optional(
            "operations",
            Shape::List(&Shape::Object(&OPERATION)),
            "(none)",
            "Operations with settings of their own. The last one that matches applies.",
        ),
        optional("allow_options", Shape::Bool, "false", "Accept OPTIONS on paths of the document that do not list it."),
        optional(
            "block_status",
            Shape::Int(400, 599),
            "(by reason: 400, 401, 403, 404, 405, 413, 415, 502)",
            "Status for all rejections, those of unknown paths and methods included.",
        ),
        optional(
            "detail",
            Shape::Choice(&["empty", "status", "code", "pointer"]),
            "code",
            "Body of a rejection, JSON by RFC 9457. `empty`: none. `status`: the status. `code`: and the reason code. `pointer`: and what is wrong where.",
        ),
        optional(
            "status_header",
            Shape::Text("a field name such as `Contract-Status`"),
            "(none)",
            "Header field of a rejection with what was validated, the reason code and the name of the parameter or field.",
        ),
        optional(
            "undeclared",
            Shape::Object(&UNDECLARED),
            "(see there)",
            "What to do with what the document does not declare.",
        ),
        optional(
            "repeated_scalars",
            Shape::Choice(&["block", "allow"]),
            "block",
            "Parameters with a single value that occur more than once.",
        ),
        optional(
            "escaped_delimiters",
            Shape::Choice(&["both", "data", "split"]),
            "both",
            "`%2C` in a value that commas separate (`ids=1%2C2`). `data`: part of an element, as the specification has it. `split`: a comma, as many clients mean it. `both`: servers differ, so it must be valid both ways.",
        ),
        optional(
            "formats",
            Shape::OneOrMany(&Shape::Choice(&contract::format::NAMES)),
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
            "Declared media types that cannot be validated and whose bodies are forwarded as they are. Others are rejected.",
        ),
        optional(
            "encodings",
            Shape::OneOrMany(&Shape::Choice(&["gzip", "deflate", "br", "zstd"])),
            "[gzip, deflate, br, zstd]",
            "Content codings that are decoded and validated; `[]` for none. Others are rejected.",
        ),
        optional("limits", Shape::Object(&CONTRACT_LIMITS), "(see there)", "Limits of one message."),
        optional(
            "shadow",
            Shape::Object(&SHADOW),
            "(see there)",
            "What to leave out of the list of undeclared things.",
        ),
        optional(
            "tokens",
            Shape::Text("the name of an entry of `tokens`"),
            "(none)",
            "How OAuth 2 and OpenID Connect tokens are verified. Required if the document requires them.",
        ),
        optional(
            "bearer_schemes",
            Shape::OneOrMany(&Shape::Verbatim("the name of a security scheme")),
            "(all)",
            "Security schemes of type `http` and scheme `bearer`, and API keys in `Authorization`, whose tokens are verified; `[]` for none. Tokens of `oauth2` and `openIdConnect` always are.",
        ),
        optional("deny_tokens", Shape::Object(&DENY_TOKENS), "(none)", "Tokens to reject, on every request."),
        optional(
            "allow_addresses",
            Shape::Object(&ALLOW_ADDRESSES),
            "(all)",
            "Client addresses to allow, on every request.",
        ),
    ]],
    one_of: &["document", "graphql"],
    secret: false,
    inherits: false,
};

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
            optional("refresh_interval", Shape::Duration(SECOND, DAY), "10m", "Time between two fetches."),
            optional(
                "timeout",
                Shape::Duration(SECOND, 5 * MINUTE),
                "10s",
                "Time for one fetch, from resolving the name to the last byte.",
            ),
            optional(
                "headers",
                Shape::List(&Shape::Object(&DOCUMENT_HEADER)),
                "(none)",
                "Further fields of the request, such as `Authorization`.",
            ),
        ],
        &URL_TLS,
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
    "operations with settings of their own",
    &[&[
        required(
            "path",
            Shape::Text("a path such as `/v1/pets/{id}`"),
            "Path as in the document, after the base path.",
        ),
        optional("methods", Shape::OneOrMany(&Shape::Text("a method such as `GET`")), "(all)", "Its methods."),
        optional("request", MODE, "(as above)", "What to do with requests that violate the contract."),
        optional("response", MODE, "(as above)", "What to do with responses that violate it."),
        optional("max_body", Shape::Size(1, TIB), "(`limits.max_body`)", "Largest body as sent, in either direction."),
    ]],
);

pub(in crate::shape) static UNDECLARED: Object = object(
    "contract.undeclared",
    "what to do with what the document does not declare; `log` lists and forwards it",
    &[&[
        optional("query", MODE, "block", "Query parameters."),
        optional("headers", MODE, "off", "Header fields, other than those that HTTP itself, browsers and proxies use."),
        optional("cookies", MODE, "off", "Cookies."),
        optional("body_fields", MODE, "block", "Fields of bodies, at every depth."),
        optional("body", Shape::Choice(&["block", "off"]), "block", "A body where none is declared."),
        optional(
            "response_body",
            MODE,
            "(off where `body` is, else log)",
            "A body of a response that declares no `content`.",
        ),
        optional(
            "status",
            MODE,
            "block",
            "Statuses of responses, where the operation declares any; not 304, and 206 only where its body would be read.",
        ),
        optional(
            "read_only",
            Shape::Choice(&["reject", "ignore"]),
            "(3.0: reject, 3.1: ignore)",
            "Members that are `readOnly` in requests and `writeOnly` in responses; rejected ones are never required.",
        ),
    ]],
);

pub(in crate::shape) static CONTRACT_LIMITS: Object = object(
    "contract.limits",
    "limits of one message",
    &[&[
        optional(
            "max_body",
            Shape::Size(0, TIB),
            "4MiB",
            "Body as sent; then 413. Held in memory until it is validated.",
        ),
        optional("max_decoded_body", Shape::Size(KIB, TIB), "16MiB", "Body after decoding; then 413."),
        optional("max_decoded_ratio", Shape::Int(1, 1_000_000), "100", "Decoded bytes per encoded byte; then 413."),
        optional("max_query_parameters", Shape::Int(0, 100_000), "256", "Parameters in a query."),
        optional("max_multipart_parts", Shape::Int(1, 100_000), "128", "Parts of a multipart body."),
        optional(
            "max_xml_attributes",
            Shape::Int(0, 10_000),
            "64",
            "Attributes of one element of an XML body, declarations of namespaces among them.",
        ),
        optional("max_yaml_aliases", Shape::Int(0, 10_000), "100", "Anchors of a YAML body, and aliases of them."),
        optional("max_document", Shape::Size(KIB, 256 * MIB), "32MiB", "The document, all its files together."),
        optional(
            "max_validation_steps",
            Shape::Int(10_000, 10_000_000_000),
            "50000000",
            "Steps that validating one value may take, however long it is; then 400 (`step_budget`). A step is a schema, comparison or pattern that is applied to a part of the value: some ten million make a second of one processor.",
        ),
        optional(
            "max_validation_steps_per_byte",
            Shape::Int(1, 1_000_000),
            "128",
            "Steps for each byte of the value, beside 50,000 for each value; then 400 (`step_budget`). Raise it if a document has valid values that take more.",
        ),
    ]],
);

pub(in crate::shape) static SHADOW: Object = object(
    "contract.shadow",
    "what to leave out of the list of undeclared things",
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

pub(in crate::shape) static DENY_TOKENS: Object = object(
    "contract.deny_tokens",
    "tokens to reject",
    &[&[
        required(
            "file",
            Shape::Text("a file such as `denied.txt`"),
            "One token per line. Read again when the file changes.",
        ),
        optional("cookie", Shape::Text("a name such as `session`"), "(none)", "Cookie with the token."),
        optional(
            "header",
            Shape::Text("a field name such as `Authorization`"),
            "(none)",
            "Header field with the token.",
        ),
        optional("trim_bearer", Shape::Bool, "true", "Ignore `Bearer ` before the token."),
    ]],
);

pub(in crate::shape) static ALLOW_ADDRESSES: Object = object(
    "contract.allow_addresses",
    "client addresses to allow",
    &[&[
        required(
            "file",
            Shape::Text("a file such as `allowed.txt`"),
            "One address or network per line. Read again when the file changes.",
        ),
        optional(
            "header",
            Shape::Text("a field name such as `X-Real-IP`"),
            "(the first of `forwarding.trusted_fields` that names it)",
            "Another header field in which the `trusted_proxies` name the client, for this list alone. Only name one that each of them sets.",
        ),
    ]],
);

pub(in crate::shape) static HOST_RULE: Object = object(
    "host_rule",
    "settings of a host",
    &[
        &[
            optional(
                "contract",
                Shape::Text("the name of a contract"),
                "(none)",
                "Contract of the host, unless a route names another.",
            ),
            optional(
                "policies",
                Shape::OneOrMany(&Shape::Text("the name of a policy")),
                "(none)",
                "Policies that all requests to this host must pass, before they are routed.",
            ),
        ],
        &RESPONSE_RULES,
    ],
);
