//! Reason codes of violations that are not a schema's: the status each asks for, and what it means.
//!
//! The codes are stable: logs, metrics and problem documents carry them. Those of a schema are in `reason`. Those that begin with `graphql_` and
//! `websocket_` are found by the crate `graphql` and the guard; they stand here so that there is one list.

/// A code with its status and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The code.
    pub code: &'static str,
    /// The status that says best what is wrong with a request: 401 for credentials, 403 for another site's page, 413 for size, 415 for media types and encodings, 501 for what we
    /// cannot validate, else 400. 502 for what only a response can break.
    pub status: u16,
    /// What it means, one sentence.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $status:literal $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: &str = $code;)*

        /// Every code above, for documentation and counters.
        pub const ALL: &[Code] = &[$(Code { code: $code, status: $status, meaning: $meaning },)*];

        pub(super) fn status(code: &str) -> u16 {
            match code {
                $($name => $status,)*
                _ => 400,
            }
        }
    };
}

codes! {
    OPERATION_UNSUPPORTED "operation_unsupported" 501 "The operation cannot be validated as the document says.";
    PATH_VALUE_MALFORMED "path_value_malformed" 400 "A value in the path cannot be decoded.";
    PARAMETER_MISSING "parameter_missing" 400 "A required parameter is absent.";
    PARAMETER_MALFORMED "parameter_malformed" 400 "A parameter cannot be decoded as its style says.";
    PARAMETER_REPEATED "parameter_repeated" 400 "A parameter that holds one value is there more than once.";
    PARAMETER_EMPTY "parameter_empty" 400 "A parameter is empty and may not be.";
    PARAMETER_UNDECLARED "parameter_undeclared" 400 "A query parameter, header field, cookie or form field is not declared.";
    QUERY_MALFORMED "query_malformed" 400 "The query string is not made of escaped UTF-8.";
    PARAMETER_LIMIT "parameter_limit" 400 "There are too many parameters, or a part of one is too large.";
    COOKIE_MALFORMED "cookie_malformed" 400 "The Cookie field is not a list of pairs.";
    SECURITY_MISSING "security_missing" 401 "None of the alternatives of the security requirement is presented.";
    BODY_MISSING "body_missing" 400 "A body is required and there is none.";
    BODY_UNDECLARED "body_undeclared" 400 "A body is there and none is declared.";
    BODY_TOO_LARGE "body_too_large" 413 "The body is larger than the operation allows.";
    BODY_DECODED_TOO_LARGE "body_decoded_too_large" 413 "The decoded body is larger than the operation allows.";
    BODY_RATIO "body_ratio" 413 "The body expands more than the ratio allows.";
    CONTENT_TYPE_MISSING "content_type_missing" 415 "Content-Type is absent where the body needs one.";
    CONTENT_TYPE_MALFORMED "content_type_malformed" 400 "Content-Type cannot be parsed, or is there twice.";
    CONTENT_TYPE_UNDECLARED "content_type_undeclared" 415 "Content-Type is none that the operation declares.";
    CONTENT_TYPE_UNREADABLE "content_type_unreadable" 415 "Content-Type is declared and nothing reads bodies of that type.";
    CHARSET "charset" 415 "The charset is not UTF-8.";
    CONTENT_ENCODING_REJECTED "content_encoding_rejected" 415 "Content-Encoding is unknown, repeated or switched off.";
    CONTENT_ENCODING_MALFORMED "content_encoding_malformed" 400 "The encoded body does not decode.";
    SEQUENCE_MALFORMED "sequence_malformed" 400 "The body is not one JSON text per line, or per record.";
    XML_MALFORMED "xml_malformed" 400 "The body is not well-formed XML, holds what readers of XML take differently, or elements that the document does not have.";
    XML_LIMIT "xml_limit" 400 "A limit of the XML reader is exceeded.";
    YAML_MALFORMED "yaml_malformed" 400 "The body is not YAML, or holds what readers of YAML take differently.";
    YAML_LIMIT "yaml_limit" 400 "A limit of the YAML reader is exceeded.";
    JSON_MALFORMED "json_malformed" 400 "The body is not well-formed JSON.";
    JSON_LIMIT "json_limit" 400 "A limit of the JSON reader is exceeded.";
    FORM_MALFORMED "form_malformed" 400 "The form cannot be decoded.";
    FORM_LIMIT "form_limit" 400 "A form has too many fields, or a field is too large.";
    MULTIPART_MALFORMED "multipart_malformed" 400 "The multipart body cannot be parsed.";
    MULTIPART_LIMIT "multipart_limit" 400 "A limit on parts, their heads or their size is exceeded.";
    PART_CONTENT_TYPE "part_content_type" 415 "A part has a content type that its encoding does not allow.";
    PART_HEADER_MISSING "part_header_missing" 400 "A part lacks a header its encoding demands.";
    TEXT_MALFORMED "text_malformed" 400 "Text is not UTF-8.";
    GRAPHQL_REQUEST_MALFORMED "graphql_request_malformed" 400 "The request is no JSON object with the members of GraphQL over HTTP.";
    GRAPHQL_QUERY_MISSING "graphql_query_missing" 400 "The request holds no GraphQL document.";
    GRAPHQL_PERSISTED_QUERY "graphql_persisted_query" 400 "The request names a query by its hash, which nobody here knows.";
    GRAPHQL_BATCH "graphql_batch" 400 "The request is a batch, or a batch of more requests than the limit.";
    GRAPHQL_QUERY_TOO_LONG "graphql_query_too_long" 413 "The GraphQL document, or the request around it, is longer than the limit.";
    GRAPHQL_MALFORMED "graphql_malformed" 400 "The GraphQL document cannot be parsed, or holds what readers take differently.";
    GRAPHQL_TOKENS "graphql_tokens" 400 "The GraphQL document has more tokens than the limit.";
    GRAPHQL_DIRECTIVES "graphql_directives" 400 "The GraphQL document has more directives than the limit.";
    GRAPHQL_NESTING "graphql_nesting" 400 "Brackets, selection sets or fragments are nested deeper than any query needs.";
    GRAPHQL_FRAGMENT_CYCLE "graphql_fragment_cycle" 400 "A fragment is spread within itself.";
    GRAPHQL_FIELDS "graphql_fields" 400 "The GraphQL document unfolds to more fields than the limit.";
    GRAPHQL_DEPTH "graphql_depth" 400 "Fields are nested deeper than the limit.";
    GRAPHQL_ALIASES "graphql_aliases" 400 "The operation has more aliases than the limit.";
    GRAPHQL_ROOT_FIELDS "graphql_root_fields" 400 "The operation has more fields at its root than the limit.";
    GRAPHQL_DUPLICATE_FIELD "graphql_duplicate_field" 400 "The same field is asked for twice in one selection set.";
    GRAPHQL_INVALID "graphql_invalid" 400 "The GraphQL document is not valid under the schema.";
    GRAPHQL_OPERATION_UNKNOWN "graphql_operation_unknown" 400 "The operation that is named is not in the document, or none is named and there are several.";
    GRAPHQL_VARIABLES "graphql_variables" 400 "The value of a variable is not of its type, or is missing.";
    GRAPHQL_COMPLEXITY "graphql_complexity" 400 "The complexity of the operation is higher than the limit.";
    GRAPHQL_NODES "graphql_nodes" 400 "The operation may yield more objects than the limit.";
    GRAPHQL_INTROSPECTION "graphql_introspection" 400 "The operation asks for the schema.";
    GRAPHQL_NO_QUERY_BY_GET "graphql_no_query_by_get" 400 "A mutation or subscription came with GET.";
    GRAPHQL_SUBSCRIPTION "graphql_subscription" 400 "A subscription came with POST.";
    WEBSOCKET_PROTOCOL "websocket_protocol" 400 "The WebSocket is not to speak a protocol of GraphQL.";
    WEBSOCKET_ORIGIN "websocket_origin" 403 "The page that opens the WebSocket is of another site.";
    WEBSOCKET_MESSAGE "websocket_message" 400 "A message of the WebSocket is none of its protocol, or too long.";
    WEBSOCKET_FRAME "websocket_frame" 400 "A frame of the WebSocket is none by RFC 6455.";
    STATUS_UNDECLARED "status_undeclared" 502 "The status is not declared.";
    HEADER_MISSING "header_missing" 502 "A declared response header is absent.";
}
