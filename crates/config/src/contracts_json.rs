//! Contracts as JSON for the admin side; see `redact.rs`.

use contract::options::{EscapedDelimiters, OnUnsupported, Options, Undeclared};
use serde_json::{Value, json};

use super::contracts::{ContractConfig, Detail, DocumentUrl, JwtConfig, KeySource, Mode};
use super::redact::upstream_json;
use super::units::duration_text;

pub(super) fn contract_json(contract: &ContractConfig) -> Value {
    let options = &contract.options;
    json!({
        "document": contract.document,
        "document_url": contract.document_url.as_ref().map(document_url),
        "base_path": options.base_path,
        "strict": options.strict,
        "on_unsupported": match options.on_unsupported {
            OnUnsupported::RejectOperation => "reject_operation",
            OnUnsupported::Fail => "fail",
        },
        "request": contract.request.as_str(),
        "response": contract.response.as_str(),
        "operations": contract.operations.iter().map(|rule| json!({
            "path": rule.path,
            "methods": rule.methods.iter().map(wire::http::Method::as_str).collect::<Vec<_>>(),
            "request": rule.request.map(Mode::as_str),
            "response": rule.response.map(Mode::as_str),
            "max_body": rule.max_body_bytes,
        })).collect::<Vec<_>>(),
        "pass_options": contract.pass_options,
        "block_status": contract.block_status,
        "detail": match contract.detail {
            Detail::Empty => "empty",
            Detail::Status => "status",
            Detail::Code => "code",
            Detail::Pointer => "pointer",
        },
        "status_header": contract.status_header,
        "undeclared": all_undeclared(options),
        "escaped_delimiters": match options.escaped_delimiters {
            EscapedDelimiters::Both => "both",
            EscapedDelimiters::Data => "data",
            EscapedDelimiters::Split => "split",
        },
        "formats": options.formats,
        "lenient_times": options.lenient_times,
        "nullable": if options.nullable_by_intent { "intent" } else { "typed" },
        "declared_binary": if options.pass_declared_binary { "pass" } else { "block" },
        "repeated_scalars": if options.allow_repeated_scalars { "pass" } else { "block" },
        "opaque_media_types": options.opaque_media_types,
        "encodings": encodings(&options.codings),
        "limits": {
            "body": options.limits.body_bytes,
            "decoded_body": options.limits.decoded_body_bytes,
            "decoded_ratio": options.limits.decoded_ratio,
            "query_parameters": options.limits.query_parameters,
            "multipart_parts": options.limits.multipart_parts,
            "document": options.limits.document_bytes,
        },
        "shadow": {
            "exclude_statuses": contract.shadow_exclude.statuses,
            "exclude_paths": contract.shadow_exclude.paths,
        },
        "jwt": contract.jwt.as_ref().map(jwt),
        "deny_tokens": contract.deny_tokens.as_ref().map(|places| json!({
            "file": places.file,
            "cookie": places.cookie,
            "header": places.header,
            "trim_bearer": places.trim_bearer,
        })),
        "allow_addresses": contract.allow_addresses.as_ref().map(|allow| json!({
            "file": allow.file,
            "header": allow.header,
        })),
    })
}

fn all_undeclared(options: &Options) -> Value {
    json!({
        "query": undeclared(options.undeclared_query),
        "headers": undeclared(options.undeclared_fields),
        "cookies": undeclared(options.undeclared_cookies),
        "body_fields": undeclared(options.undeclared_body_fields),
        "body": undeclared(options.undeclared_body),
        "response_body": undeclared(options.undeclared_response_body),
        "status": undeclared(options.undeclared_status),
    })
}

fn document_url(url: &DocumentUrl) -> Value {
    json!({
        "host": url.host,
        "target": url.target,
        "refresh": duration_text(url.refresh),
        "timeout": duration_text(url.timeout),
        "headers": url.headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "settings": upstream_json(&url.upstream),
    })
}

fn undeclared(mode: Undeclared) -> &'static str {
    match mode {
        Undeclared::Reject => "block",
        Undeclared::Report => "log",
        Undeclared::Ignore => "off",
    }
}

fn encodings(codings: &contract::options::Codings) -> Vec<&'static str> {
    let all = [("gzip", codings.gzip), ("deflate", codings.deflate), ("br", codings.br), ("zstd", codings.zstd)];
    all.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
}

fn jwt(jwt: &JwtConfig) -> Value {
    let keys = match &jwt.keys {
        KeySource::Pem(path) => json!({ "public_key": path }),
        KeySource::Set(path) => json!({ "key_set": path }),
        KeySource::Secret(_) => json!({ "secret": "(redacted)" }),
        KeySource::Url { upstream, host, target, refresh } => json!({
            "key_url": { "host": host, "target": target, "refresh": duration_text(*refresh), "settings": upstream_json(upstream) },
        }),
    };
    json!({
        "algorithms": jwt.algorithms.iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>(),
        "keys": keys,
        "issuers": jwt.issuers,
        "audiences": jwt.audiences,
        "leeway": duration_text(jwt.leeway),
        "require_expiry": jwt.require_expiry,
        "bearer_schemes": jwt.bearer_schemes,
    })
}
