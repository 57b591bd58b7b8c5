//! Keys about responses: `error_pages`, `compression`. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

pub(in crate::shape) static ERROR_PAGES: Object = object(
    "error_pages",
    "responses for errors",
    &[&[
        required(
            "pages",
            Shape::Table("STATUS", &Shape::Either(&[Shape::Text("a file of HTML"), Shape::Object(&ERROR_PAGE)])),
            "Pages by status (`404`) or class (`4xx`, `5xx`); a status goes before its class. They are sent for errors of Portunus itself to clients that accept them; other clients get a problem document (RFC 9457) or a line of text, as without a page.",
        ),
        optional(
            "intercept",
            Shape::OneOrMany(&Shape::Either(&[Shape::Int(400, 599), Shape::Text("`4xx` or `5xx`")])),
            "(none)",
            "Responses of upstreams to replace by these pages, too. Without it, they pass as they are.",
        ),
    ]],
);

pub(in crate::shape) static ERROR_PAGE: Object = object(
    "error_pages.page",
    "a page in several forms",
    &[&[
        optional(
            "html",
            Shape::Text("a file such as `404.html`"),
            "(none)",
            "For clients that accept `text/html`. In it, `{{status}}`, `{{title}}` and `{{request_id}}` are replaced.",
        ),
        optional(
            "text",
            Shape::Text("a file such as `404.txt`"),
            "(a line with the status)",
            "For clients that accept `text/plain` and not the HTML. The same is replaced in it.",
        ),
    ]],
);

words! {
    /// A content coding that responses are compressed with.
    pub enum Encoding {
        /// RFC 8878.
        Zstd = "zstd",
        /// RFC 7932.
        Br = "br",
        /// RFC 1952.
        #[default]
        Gzip = "gzip",
    }
}

pub(in crate::shape) static COMPRESSION: Object = object(
    "compression",
    "compression of responses",
    &[
        &[
            optional(
                "encodings",
                Shape::OneOrMany(&Shape::Choice(Encoding::WORDS)),
                "[zstd, br, gzip]",
                "Content codings, the preferred one first. A client gets the one that it gives the greatest weight in Accept-Encoding; among equal ones the first of these.",
            ),
            optional(
                "types",
                Shape::OneOrMany(&Shape::Text("a media type such as `text/html`, `text/*` or `application/*+json`")),
                "[text/*, application/json, application/*+json, application/xml, application/*+xml, application/javascript, application/x-javascript, application/x-ndjson, application/wasm, application/vnd.ms-fontobject, font/otf, font/ttf, image/svg+xml, image/bmp, image/x-icon, image/vnd.microsoft.icon]",
                "Media types of responses to compress.",
            ),
        ],
        COMPRESSION_OPTIONS_ROWS,
    ],
);

settings! {
    /// Settings of compression that are a value alone.
    pub struct CompressionOptions, COMPRESSION_OPTIONS_ROWS {
        min_size: u64 = Shape::Size(0, TIB), "1KiB",
            "Smallest body to compress. One whose length is not known beforehand is compressed.";
        gzip_level: u32 = Shape::Int(1, 9), "4",
            "Level of `gzip`: higher ones take more processor time and save a little more.";
        brotli_level: u32 = Shape::Int(1, 5), "3",
            "Level of `br`.";
        zstd_level: u32 = Shape::Int(1, 6), "3",
            "Level of `zstd`.";
        with_credentials: bool = Shape::Bool, "false",
            "Compress what may be meant for one client alone, too: responses to requests with Cookie, Authorization or a client certificate that are not `Cache-Control: public`, and responses with Set-Cookie, `Cache-Control: private` or `no-store`. The length of such a response may tell a secret in it to somebody who can put text beside it (BREACH).";
    }
}

/// Keys that listeners, hosts and routes share.
pub(in crate::shape) static RESPONSE_RULES: [Field; 2] = [
    optional(
        "error_pages",
        Shape::Text("the name of error pages, or `none`"),
        "(that of the host, else of the listener)",
        "Pages for errors. `none`: none, whatever the host or the listener has.",
    ),
    optional(
        "compression",
        Shape::Text("a name in `compression`, or `none`"),
        "(that of the host, else of the listener)",
        "Compression of responses. `none`: none, whatever the host or the listener has.",
    ),
];
