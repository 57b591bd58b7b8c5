//! How strictly a document is applied, and every bound on what a message may cost. Owns names, units and defaults.

use std::path::PathBuf;

/// What becomes of a name or field that the document does not declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Undeclared {
    /// It is a violation.
    #[default]
    Reject,
    /// It is reported as a shadow and passes.
    Report,
    /// It passes.
    Ignore,
}

/// Content codings (RFC 9110 §8.4.1) that a body may come in. A coding that is off is rejected, never passed unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codings {
    /// gzip (RFC 1952).
    pub gzip: bool,
    /// deflate: zlib (RFC 1950), and the bare RFC 1951 stream that some senders mean by it.
    pub deflate: bool,
    /// Brotli (RFC 7932).
    pub br: bool,
    /// Zstandard (RFC 8878).
    pub zstd: bool,
}

impl Default for Codings {
    fn default() -> Codings {
        Codings { gzip: true, deflate: true, br: true, zstd: true }
    }
}

/// What becomes of an operation that cannot be validated as the document says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnsupported {
    /// Its messages break the contract: they are rejected where it blocks.
    #[default]
    RejectOperation,
    /// The document is not loaded.
    Fail,
}

/// What an escaped delimiter is in a value that delimiters separate: `%2C` in `ids=1%2C2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EscapedDelimiters {
    /// Servers differ, so the value must be valid both ways.
    #[default]
    Both,
    /// It is part of an element, as the specification has it.
    Data,
    /// It separates, since many clients escape every delimiter.
    Split,
}

/// How a document is read and applied.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path under which the document's paths stand, in place of the paths of its `servers`: `/v1`; `/` for none.
    pub base_path: Option<String>,
    /// Folder that local references may not leave; none: the folder of the document.
    pub folder: Option<PathBuf>,
    /// What would be a warning is an error.
    pub strict: bool,
    /// Operations that cannot be validated.
    pub on_unsupported: OnUnsupported,
    /// Undeclared query parameters.
    pub undeclared_query: Undeclared,
    /// Undeclared header fields. `Reject` spares the fields that HTTP itself, browsers and proxies use.
    pub undeclared_fields: Undeclared,
    /// Undeclared cookies.
    pub undeclared_cookies: Undeclared,
    /// Undeclared fields of bodies, at every depth: JSON objects, forms, multipart.
    pub undeclared_body_fields: Undeclared,
    /// A body where the operation declares none: `Reject` or let it pass unread.
    pub undeclared_body: Undeclared,
    /// A body of a response whose declaration has no `content`, which says nothing of a body.
    pub undeclared_response_body: Undeclared,
    /// A status that is not declared, where there is no `default`. `Reject` spares operations that declare no responses at all, and what a conditional
    /// request or one for a range is answered.
    pub undeclared_status: Undeclared,
    /// Whether members that may only be read are rejected in requests, and those that may only be written in responses; none: in OpenAPI 3.0, not in 3.1.
    pub reject_read_only: Option<bool>,
    /// A parameter that holds one value and is there more than once passes if each of its values is valid.
    pub allow_repeated_scalars: bool,
    /// What an escaped delimiter is.
    pub escaped_delimiters: EscapedDelimiters,
    /// The formats that are asserted; none for all that are known.
    pub formats: Option<Vec<String>>,
    /// A `date-time` or `time` may lack its offset, and a `duration` may end in a fraction of a second.
    pub lenient_times: bool,
    /// In OpenAPI 3.0, `nullable: true` allows null whatever stands beside it, not only beside a `type` and where `enum` lists it.
    pub nullable_by_intent: bool,
    /// Bodies that the document itself declares as bytes pass unread: `format: binary`, and images, audio, video, fonts, PDF and archives.
    pub pass_declared_binary: bool,
    /// Media types without a reader here whose bodies may pass unread: `application/pdf`, `image/*`.
    pub opaque_media_types: Vec<String>,
    /// Content codings that are decoded and validated.
    pub codings: Codings,
    /// Bounds.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            base_path: None,
            folder: None,
            strict: false,
            on_unsupported: OnUnsupported::RejectOperation,
            undeclared_query: Undeclared::Reject,
            undeclared_fields: Undeclared::Ignore,
            undeclared_cookies: Undeclared::Ignore,
            undeclared_body_fields: Undeclared::Reject,
            undeclared_body: Undeclared::Reject,
            undeclared_response_body: Undeclared::Report,
            undeclared_status: Undeclared::Reject,
            reject_read_only: None,
            allow_repeated_scalars: false,
            escaped_delimiters: EscapedDelimiters::default(),
            formats: None,
            lenient_times: false,
            nullable_by_intent: false,
            pass_declared_binary: true,
            opaque_media_types: Vec::new(),
            codings: Codings::default(),
            limits: Limits::default(),
        }
    }
}

/// Bounds on messages and on the document itself.
#[derive(Debug, Clone)]
pub struct Limits {
    /// One JSON value: a body, or a parameter.
    pub json: crate::limits::Limits,
    /// Body as sent, bytes; memory held for one message until its decision.
    pub body_bytes: u64,
    /// Body after decoding, bytes.
    pub decoded_body_bytes: u64,
    /// Decoded bytes per encoded byte; looked at once 64 KiB are decoded.
    pub decoded_ratio: u64,
    /// Parameters in a query.
    pub query_parameters: usize,
    /// Cookies in a request.
    pub cookies: usize,
    /// Elements of one array in a parameter or a form, and the largest index of `deepObject`.
    pub array_elements: usize,
    /// Brackets in a name of `deepObject` style.
    pub deep_object_levels: usize,
    /// Fields of a form.
    pub form_fields: usize,
    /// Parts of a multipart body.
    pub multipart_parts: usize,
    /// Head of one part, bytes.
    pub part_head_bytes: usize,
    /// One part that is not a file, bytes.
    pub part_bytes: usize,
    /// Attributes of one element of XML, declarations of namespaces among them.
    pub xml_attributes: usize,
    /// Anchors, and aliases, of a YAML body.
    pub yaml_aliases: usize,
    /// The document, all files together, bytes; each file counts for 4 KiB at least.
    pub document_bytes: usize,
    /// Values of the document once its aliases are expanded, all files together.
    pub document_nodes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            json: crate::limits::Limits::default(),
            body_bytes: 4 << 20,
            decoded_body_bytes: 16 << 20,
            decoded_ratio: 100,
            query_parameters: 256,
            cookies: 128,
            array_elements: 1_000,
            deep_object_levels: 8,
            form_fields: 1_000,
            multipart_parts: 128,
            part_head_bytes: 8 << 10,
            part_bytes: 1 << 20,
            xml_attributes: 64,
            yaml_aliases: 100,
            document_bytes: 32 << 20,
            document_nodes: 1_000_000,
        }
    }
}
