//! The head of a request that another proxy holds, made of what that proxy says, with the strictness of one that comes in itself.
//!
//! What is missing, or is there twice, is that proxy's fault and never guessed: a request that is taken for another one would be validated by another
//! operation.

use config::limits::Limits;
use reason::Reason;
use wire::http::fields::{is_field_value, is_token};
use wire::http::target::{canonical_authority, read_origin_form};
use wire::http::{BodyFraming, Fields, HeadError, Method, RequestHead};

use crate::message::context::Context;
use crate::message::rejection::Rejection;

/// Where a proxy says what it was asked.
pub(super) struct Names {
    method: &'static str,
    target: &'static str,
    /// The host; without one the Host of the question is that of the request.
    host: Option<&'static str>,
}

impl Names {
    /// As nginx's documentation of `auth_request` has it; nginx itself says nothing that it is not told to.
    pub(super) const ORIGINAL: Names = Names { method: "x-original-method", target: "x-original-uri", host: None };
    /// As Traefik and Caddy have it. They are there only if a trusted proxy asks, and is trusted in them.
    pub(super) const FORWARDED: Names =
        Names { method: "x-forwarded-method", target: "x-forwarded-uri", host: Some("x-forwarded-host") };
}

/// The request that these fields tell of; all others are its own.
///
/// # Errors
/// Its method or target is missing, there twice, or malformed.
pub(super) fn of_fields(asking: &RequestHead, names: &Names, context: Context<'_>) -> Result<RequestHead, Rejection> {
    let method = only(&asking.fields, names.method)?.ok_or(Rejection::of(Reason::OriginalRequestMissing))?;
    let target = only(&asking.fields, names.target)?.ok_or(Rejection::of(Reason::OriginalRequestMissing))?;
    let mut head = head(method, target, context.generation.config.limits.max_request_line_bytes)?;
    match names.host.map(|name| only(&asking.fields, name)).transpose()?.flatten() {
        Some(host) => canonical_authority(host, &mut head.authority).map_err(malformed)?,
        None => head.authority.extend_from_slice(&asking.authority),
    }
    let is_said = |name: &[u8]| {
        let said = [Some(names.method), Some(names.target), names.host];
        said.into_iter().flatten().any(|said| name.eq_ignore_ascii_case(said.as_bytes()))
    };
    for (name, value) in asking.fields.iter().filter(|(name, _)| !is_said(name)) {
        head.fields.push(name, value);
    }
    head.framing = asking.framing;
    head.has_lost_name = asking.has_lost_name;
    Ok(head)
}

/// The request that is asked about by its own method and fields, its path below a prefix.
///
/// # Errors
/// The path does not stand below the prefix.
pub(super) fn below(asking: &RequestHead, prefix: &str) -> Result<RequestHead, Rejection> {
    let path = asking.path().strip_prefix(prefix.as_bytes()).filter(|path| path.starts_with(b"/"));
    let path = path.ok_or(Rejection::of(Reason::OriginalRequestMissing))?;
    let mut head = RequestHead {
        method: asking.method.clone(),
        target: path.to_vec(),
        path_len: path.len(),
        has_encoded_slash: asking.has_encoded_slash,
        authority: asking.authority.clone(),
        fields: asking.fields.clone(),
        framing: asking.framing,
        has_lost_name: asking.has_lost_name,
        ..RequestHead::default()
    };
    head.target.extend_from_slice(asking.query());
    Ok(head)
}

/// The request of which a message tells method, target and host, or has them among its fields under HTTP/2's names.
///
/// # Errors
/// As [`of_fields`], and fields that none may have.
pub(super) fn of_list(
    method: Option<&[u8]>,
    target: Option<&[u8]>,
    host: Option<&[u8]>,
    list: &[(&[u8], &[u8])],
    limits: &Limits,
) -> Result<RequestHead, Rejection> {
    let bytes: usize = list.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if bytes > limits.max_head_bytes {
        return Err(Rejection::of(Reason::OriginalRequestMalformed));
    }
    let pseudo = |wanted: &[u8]| {
        let mut found = list.iter().filter(|(name, _)| *name == wanted).map(|(_, value)| *value);
        match (found.next(), found.next()) {
            (first, None) => Ok(first),
            _ => Err(Rejection::of(Reason::OriginalRequestMalformed)),
        }
    };
    let said = |given: Option<&'_ [u8]>, name: &[u8]| -> Result<Vec<u8>, Rejection> {
        let given = given.filter(|text| !text.is_empty());
        match (given, pseudo(name)?) {
            (Some(given), Some(other)) if given != other => Err(Rejection::of(Reason::OriginalRequestMalformed)),
            (given, other) => given.or(other).map(<[u8]>::to_vec).ok_or(Rejection::of(Reason::OriginalRequestMissing)),
        }
    };
    let mut head = head(&said(method, b":method")?, &said(target, b":path")?, limits.max_request_line_bytes)?;
    canonical_authority(&said(host, b":authority")?, &mut head.authority).map_err(malformed)?;
    for (name, value) in list.iter().filter(|(name, _)| !name.starts_with(b":")) {
        if !is_token(name) || !is_field_value(value) {
            return Err(Rejection::of(Reason::OriginalRequestMalformed));
        }
        head.fields.push(name, value);
    }
    head.framing = BodyFraming::Chunked;
    Ok(head)
}

fn head(method: &[u8], target: &[u8], max_bytes: usize) -> Result<RequestHead, Rejection> {
    if target.len() > max_bytes {
        return Err(Rejection::of(Reason::RequestLineTooLong));
    }
    let method = Method::from_bytes(method).ok_or(Rejection::of(Reason::OriginalRequestMalformed))?;
    let mut head = RequestHead { method, ..RequestHead::default() };
    // A path with dot segments is the client's doing, and has a reason of its own.
    read_origin_form(target, &mut head)?;
    Ok(head)
}

/// The value of a field that may be there once.
fn only<'f>(fields: &'f Fields, name: &'static str) -> Result<Option<&'f [u8]>, Rejection> {
    let mut values = fields.get_all(name);
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        _ => Err(Rejection::of(Reason::OriginalRequestMalformed)),
    }
}

fn malformed(_: HeadError) -> Rejection {
    Rejection::of(Reason::OriginalRequestMalformed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn reason(outcome: Result<RequestHead, Rejection>) -> Option<Reason> {
        outcome.err().map(|rejection| rejection.reason)
    }

    #[test]
    fn paths_below_a_prefix_are_the_request_s() {
        let asking = |target: &str, path_len| RequestHead { target: target.into(), path_len, ..RequestHead::default() };
        let head = below(&asking("/ext_authz/v1/a?b=c", 15), "/ext_authz").unwrap();
        assert_eq!((head.path(), head.query()), (&b"/v1/a"[..], &b"?b=c"[..]));
        for (target, path_len) in [("/ext_authzz/a", 13), ("/ext_authz", 10), ("/other/a", 8)] {
            assert_eq!(reason(below(&asking(target, path_len), "/ext_authz")), Some(Reason::OriginalRequestMissing));
        }
    }

    #[test]
    fn lists_say_one_thing_and_only_what_a_field_may_be() {
        let limits = Limits::default();
        let read = |method, target, host, list: &[(&[u8], &[u8])]| of_list(method, target, host, list, &limits);
        let pseudo: &[(&[u8], &[u8])] =
            &[(b":method", b"PUT"), (b":path", b"/a?b"), (b":authority", b"API.test"), (b"accept", b"*/*")];
        let head = read(None, None, None, pseudo).unwrap();
        assert_eq!(
            (head.method.as_str(), &head.target[..], &head.authority[..]),
            ("PUT", &b"/a?b"[..], &b"api.test"[..])
        );
        assert_eq!(head.fields.len(), 1);
        let whole = (Some(&b"GET"[..]), Some(&b"/a"[..]), Some(&b"api.test"[..]));
        for (list, expected) in [
            (&[(&b":method"[..], &b"PUT"[..])][..], Some(Reason::OriginalRequestMalformed)),
            (&[(b"a b", b"c")], Some(Reason::OriginalRequestMalformed)),
            (&[(b"a", b"c\nd")], Some(Reason::OriginalRequestMalformed)),
            (&[(b"a", b"c")], None),
        ] {
            assert_eq!(reason(read(whole.0, whole.1, whole.2, list)), expected, "{list:?}");
        }
        assert_eq!(reason(read(None, whole.1, whole.2, &[])), Some(Reason::OriginalRequestMissing));
        assert_eq!(reason(read(whole.0, None, whole.2, &[])), Some(Reason::OriginalRequestMissing));
        assert_eq!(reason(read(whole.0, whole.1, None, &[])), Some(Reason::OriginalRequestMissing));
        assert_eq!(reason(read(whole.0, Some(b"/a/../b"), whole.2, &[])), Some(Reason::DotSegment));
        assert_eq!(reason(read(Some(b"G T"), whole.1, whole.2, &[])), Some(Reason::OriginalRequestMalformed));
    }
}
