//! Reason codes of violations that are not a schema's, and the status each asks for.
//!
//! The codes are stable: logs, metrics and problem documents carry them. Schema violations have codes of their own, `schema_` and the keyword.

/// The operation cannot be validated as the document says.
pub const OPERATION_UNSUPPORTED: &str = "operation_unsupported";
/// A value in the path cannot be decoded.
pub const PATH_VALUE_MALFORMED: &str = "path_value_malformed";
/// A required parameter is absent.
pub const PARAMETER_MISSING: &str = "parameter_missing";
/// A parameter cannot be decoded as its style says.
pub const PARAMETER_MALFORMED: &str = "parameter_malformed";
/// A parameter that holds one value is there more than once.
pub const PARAMETER_REPEATED: &str = "parameter_repeated";
/// A parameter is empty and may not be.
pub const PARAMETER_EMPTY: &str = "parameter_empty";
/// A query parameter, header field, cookie or form field is not declared.
pub const PARAMETER_UNDECLARED: &str = "parameter_undeclared";
/// The query string is not made of escaped UTF-8.
pub const QUERY_MALFORMED: &str = "query_malformed";
/// There are too many parameters, or a part of one is too large.
pub const PARAMETER_LIMIT: &str = "parameter_limit";
/// The Cookie field is not a list of pairs.
pub const COOKIE_MALFORMED: &str = "cookie_malformed";
/// None of the alternatives of the security requirement is presented.
pub const SECURITY_MISSING: &str = "security_missing";
/// A body is required and there is none.
pub const BODY_MISSING: &str = "body_missing";
/// A body is there and none is declared.
pub const BODY_UNDECLARED: &str = "body_undeclared";
/// The body is larger than the operation allows.
pub const BODY_TOO_LARGE: &str = "body_too_large";
/// The decoded body is larger than the operation allows.
pub const BODY_DECODED_TOO_LARGE: &str = "body_decoded_too_large";
/// The body expands more than the ratio allows.
pub const BODY_RATIO: &str = "body_ratio";
/// Content-Type is absent where the body needs one.
pub const CONTENT_TYPE_MISSING: &str = "content_type_missing";
/// Content-Type cannot be parsed, or is there twice.
pub const CONTENT_TYPE_MALFORMED: &str = "content_type_malformed";
/// Content-Type is none that the operation declares.
pub const CONTENT_TYPE_UNDECLARED: &str = "content_type_undeclared";
/// Content-Type is declared and nothing reads bodies of that type.
pub const CONTENT_TYPE_UNREADABLE: &str = "content_type_unreadable";
/// The charset is not UTF-8.
pub const CHARSET: &str = "charset";
/// Content-Encoding is unknown, repeated or switched off.
pub const CONTENT_ENCODING_REJECTED: &str = "content_encoding_rejected";
/// The encoded body does not decode.
pub const CONTENT_ENCODING_MALFORMED: &str = "content_encoding_malformed";
/// The body is not well-formed JSON.
pub const JSON_MALFORMED: &str = "json_malformed";
/// A limit of the JSON reader is exceeded.
pub const JSON_LIMIT: &str = "json_limit";
/// The form cannot be decoded.
pub const FORM_MALFORMED: &str = "form_malformed";
/// A form has too many fields, or a field is too large.
pub const FORM_LIMIT: &str = "form_limit";
/// The multipart body cannot be parsed.
pub const MULTIPART_MALFORMED: &str = "multipart_malformed";
/// A limit on parts, their heads or their size is exceeded.
pub const MULTIPART_LIMIT: &str = "multipart_limit";
/// A part has a content type that its encoding does not allow.
pub const PART_CONTENT_TYPE: &str = "part_content_type";
/// A part lacks a header its encoding demands.
pub const PART_HEADER_MISSING: &str = "part_header_missing";
/// Text is not UTF-8.
pub const TEXT_MALFORMED: &str = "text_malformed";
/// The status is not declared.
pub const STATUS_UNDECLARED: &str = "status_undeclared";
/// A declared response header is absent.
pub const HEADER_MISSING: &str = "header_missing";

/// Every code above, for documentation and counters.
pub const ALL: &[&str] = &[
    OPERATION_UNSUPPORTED,
    PATH_VALUE_MALFORMED,
    PARAMETER_MISSING,
    PARAMETER_MALFORMED,
    PARAMETER_REPEATED,
    PARAMETER_EMPTY,
    PARAMETER_UNDECLARED,
    QUERY_MALFORMED,
    PARAMETER_LIMIT,
    COOKIE_MALFORMED,
    SECURITY_MISSING,
    BODY_MISSING,
    BODY_UNDECLARED,
    BODY_TOO_LARGE,
    BODY_DECODED_TOO_LARGE,
    BODY_RATIO,
    CONTENT_TYPE_MISSING,
    CONTENT_TYPE_MALFORMED,
    CONTENT_TYPE_UNDECLARED,
    CONTENT_TYPE_UNREADABLE,
    CHARSET,
    CONTENT_ENCODING_REJECTED,
    CONTENT_ENCODING_MALFORMED,
    JSON_MALFORMED,
    JSON_LIMIT,
    FORM_MALFORMED,
    FORM_LIMIT,
    MULTIPART_MALFORMED,
    MULTIPART_LIMIT,
    PART_CONTENT_TYPE,
    PART_HEADER_MISSING,
    TEXT_MALFORMED,
    STATUS_UNDECLARED,
    HEADER_MISSING,
];

/// The status that says best what is wrong with a request: 401 for credentials, 413 for size, 415 for media types and encodings, 501 for what we
/// cannot validate, else 400.
pub(super) fn status(code: &str) -> u16 {
    match code {
        OPERATION_UNSUPPORTED => 501,
        SECURITY_MISSING => 401,
        BODY_TOO_LARGE | BODY_DECODED_TOO_LARGE | BODY_RATIO => 413,
        CONTENT_TYPE_MISSING
        | CONTENT_TYPE_UNDECLARED
        | CONTENT_TYPE_UNREADABLE
        | CHARSET
        | CONTENT_ENCODING_REJECTED
        | PART_CONTENT_TYPE => 415,
        _ => 400,
    }
}
