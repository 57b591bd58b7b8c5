//! Which reader validates a body: by Content-Type and Content-Encoding against what the document declares.

use super::code;
use super::findings::{Violation, Where};
use crate::body::Coding;
use crate::contract::Contract;
use crate::media_type::{ContentType, INEXACT, MediaRange};
use crate::message::FieldSource;
use crate::message::Part;
use crate::openapi::{Body, Class, Content};

/// What a body turns out to be.
pub(super) struct Chosen<'c> {
    pub(super) content: Reading<'c>,
    pub(super) coding: Coding,
}

impl Chosen<'_> {
    /// Whether no bytes at all are a body of it.
    pub(super) fn may_be_empty(&self) -> bool {
        match &self.content {
            Reading::Content { content, .. } => content.may_be_empty() && self.coding == Coding::Identity,
            Reading::Unread => true,
        }
    }
}

/// How the body is read.
pub(super) enum Reading<'c> {
    /// By a reader; the boundary is that of a multipart body.
    Content { content: &'c Content, boundary: Option<String> },
    /// Not at all: its type is on the list of those that pass unread.
    Unread,
}

/// Chooses the reader, or says why there is none.
pub(super) fn choose<'c>(
    contract: &'c Contract,
    body: &'c Body,
    fields: &dyn FieldSource,
) -> Result<Chosen<'c>, Violation> {
    let reject = |code, what: &str| Violation::new(code, Where::named(Part::Header, b"content-type"), what);
    let (mut content_type, mut types) = (None, 0);
    let (mut encoding, mut encodings): (Option<&[u8]>, usize) = (None, 0);
    fields.each(&mut |name, value| {
        if name.eq_ignore_ascii_case(b"content-type") {
            (content_type, types) = (Some(value), types + 1);
        } else if name.eq_ignore_ascii_case(b"content-encoding") {
            (encoding, encodings) = (Some(value), encodings + 1);
        }
    });
    let Some(content_type) = content_type else {
        return Err(reject(code::CONTENT_TYPE_MISSING, "is missing"));
    };
    let Some(sent) = ContentType::parse(content_type).filter(|_| types == 1) else {
        return Err(reject(code::CONTENT_TYPE_MALFORMED, "is no single media type"));
    };
    let coding = coding_of(contract, encoding.unwrap_or_default(), encodings)?;
    let fitting = || body.media.iter().filter_map(|media| Some((media.range.fit(&sent)?, media)));
    let best = fitting().max_by_key(|(fit, _)| *fit);
    let is_clear = |fit: u8| fit != INEXACT || fitting().filter(|(other, _)| *other == INEXACT).count() == 1;
    let Some((_, media)) = best.filter(|(fit, _)| is_clear(*fit)) else {
        let what = format!("`{}/{}` is not declared", sent.kind, sent.subtype);
        return Err(reject(code::CONTENT_TYPE_UNDECLARED, &what));
    };
    let class = Class::of_body(sent.kind, sent.subtype);
    let may_pass_unread =
        class.is_none_or(|class| class.may_pass_unread() && Class::of(sent.kind, sent.subtype).is_none());
    let is_opaque = |range: &MediaRange| range.fit(&sent).is_some();
    if may_pass_unread && contract.opaque.iter().any(is_opaque) {
        return Ok(Chosen { content: Reading::Unread, coding });
    }
    if let Some((class, content)) = media.contents.iter().find(|(have, _)| Some(*have) == class) {
        if *class != Class::Binary && !sent.is_utf8() {
            return Err(reject(code::CHARSET, "names a charset other than UTF-8"));
        }
        let boundary = sent.parameter("boundary").filter(|boundary| is_boundary(boundary)).map(str::to_owned);
        if *class == Class::Multipart && boundary.is_none() {
            return Err(reject(code::CONTENT_TYPE_MALFORMED, "has no boundary of 1 to 70 characters"));
        }
        return Ok(Chosen { content: Reading::Content { content, boundary }, coding });
    }
    if let (true, Some(content)) = (may_pass_unread, &media.bytes) {
        return Ok(Chosen { content: Reading::Content { content, boundary: None }, coding });
    }
    let what = format!("nothing reads `{}/{}` here", sent.kind, sent.subtype);
    Err(reject(code::CONTENT_TYPE_UNREADABLE, &what))
}

fn coding_of(contract: &Contract, value: &[u8], count: usize) -> Result<Coding, Violation> {
    let reject = |what: &str| {
        Violation::new(code::CONTENT_ENCODING_REJECTED, Where::named(Part::Header, b"content-encoding"), what)
    };
    let codings = &contract.options.codings;
    let name = value.trim_ascii();
    let known = [
        ("identity", Coding::Identity, true),
        ("gzip", Coding::Gzip, codings.gzip),
        ("x-gzip", Coding::Gzip, codings.gzip),
        ("deflate", Coding::Deflate, codings.deflate),
        ("br", Coding::Brotli, codings.br),
        ("zstd", Coding::Zstandard, codings.zstd),
    ];
    if count == 0 {
        return Ok(Coding::Identity);
    }
    let found = known.into_iter().find(|(known, ..)| name.eq_ignore_ascii_case(known.as_bytes()));
    let Some((_, coding, is_on)) = found else {
        return Err(reject("is no single content coding that is known: gzip, deflate, br or zstd"));
    };
    match (count, is_on) {
        (1, true) => Ok(coding),
        (1, false) => Err(reject("names a content coding that is switched off")),
        _ => Err(reject("is there more than once")),
    }
}

/// RFC 2046 §5.1.1.
fn is_boundary(text: &str) -> bool {
    (1..=70).contains(&text.len())
        && !text.ends_with(' ')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte))
}
