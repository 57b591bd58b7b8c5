//! Which responses are compressed, and how: by what the client accepts, what the response is, and whether its length could tell a secret.
//!
//! Pure. The rules, in order; the first that holds ends the search:
//! 1. What has no body of its own, is a part (206), or is encoded already stays as it is; so does what `no-transform` or a digest of the content holds
//!    together, and calls of gRPC.
//! 2. What is of another media type, or shorter than `min_size`, stays as it is.
//! 3. What may be meant for one client alone stays as it is, unless asked for (`with_credentials`): with a secret and somebody else's text in one body, its
//!    length tells whether they are alike (BREACH).
//! 4. All else varies by Accept-Encoding, and is compressed with the coding that the client gives the greatest weight.

use std::sync::Arc;

use config::{CompressionConfig, Encoding, HeaderEdits};
use wire::http::quality::weighted;
use wire::http::{BodyFraming, Fields, Method, RequestHead, ResponseHead, Version};

/// Compression that is active somewhere.
#[derive(Debug)]
pub struct Compression {
    /// As configured.
    pub config: Arc<CompressionConfig>,
}

/// What becomes of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is.
    Untouched,
    /// As it is, since its client accepts none of the codings; another client might get it compressed.
    Varies,
    /// It is compressed; as a response to HEAD it has the fields that go with that (RFC 9110 §9.3.2).
    Compressed(Encoding),
}

/// What a response is.
#[derive(Debug, Clone, Copy)]
pub struct Compressible<'a> {
    /// The request.
    pub request: &'a RequestHead,
    /// Its client has shown a certificate.
    pub has_certificate: bool,
    /// Its status.
    pub status: u16,
    /// Its fields, as the upstream sent them.
    pub fields: &'a Fields,
    /// What the route makes of them.
    pub edits: &'a HeaderEdits,
    /// Its body's length, where that is known.
    pub length: Option<u64>,
}

impl<'a> Compressible<'a> {
    /// An upstream's response.
    pub fn of(
        request: &'a RequestHead,
        has_certificate: bool,
        response: &'a ResponseHead,
        edits: &'a HeaderEdits,
    ) -> Compressible<'a> {
        let length = match response.framing {
            // What GET would get.
            BodyFraming::None if request.method == Method::Head => {
                let length = response.fields.get("content-length");
                length.and_then(|length| std::str::from_utf8(length).ok()?.parse().ok())
            }
            BodyFraming::None => Some(0),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        Compressible { request, has_certificate, status: response.status, fields: &response.fields, edits, length }
    }

    /// The values of a field (in lower case) as the client will see them.
    fn values(&self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is = move |other: &str| other.eq_ignore_ascii_case(name);
        let is_replaced =
            self.edits.remove.iter().any(|removed| is(removed)) || self.edits.set.iter().any(|(set, _)| is(set));
        let own = self.edits.set.iter().chain(&self.edits.add).filter(move |(set, _)| is(set));
        let sent = (!is_replaced).then(|| self.fields.get_all(name));
        sent.into_iter().flatten().chain(own.map(|(_, value)| value.as_text().unwrap_or_default().as_bytes()))
    }

    fn has(&self, name: &'a str) -> bool {
        self.values(name).next().is_some()
    }

    /// Whether Cache-Control, which some of it may be, says a word (in lower case).
    fn says(&self, word: &[u8]) -> bool {
        self.values("cache-control").any(|value| has_directive(value, word))
    }

    /// Whether its body is whole, has no coding yet, and may be given one.
    fn is_plain(&self) -> bool {
        let has_body = !matches!(self.status, ..200 | 204 | 205 | 206 | 304) && self.length != Some(0);
        let of_itself = ["content-encoding", "content-range", "content-digest", "repr-digest", "digest", "content-md5"];
        has_body
            && !self.is_unknown()
            && self.request.version != Version::H10
            && !of_itself.into_iter().any(|name| self.has(name))
            && !self.says(b"no-transform")
            && !self.request.fields.get_all("cache-control").any(|value| has_directive(value, b"no-transform"))
    }

    /// Whether a field that decides here is put together from the request.
    fn is_unknown(&self) -> bool {
        let decides = ["content-type", "cache-control"];
        let mut edits = self.edits.set.iter().chain(&self.edits.add);
        edits.any(|(name, value)| value.as_text().is_none() && decides.iter().any(|one| name.eq_ignore_ascii_case(one)))
    }

    /// Whether it may be meant for its client alone.
    fn is_personal(&self) -> bool {
        if self.has("set-cookie") || self.says(b"private") || self.says(b"no-store") {
            return true;
        }
        let fields = &self.request.fields;
        let shows_who = self.has_certificate || fields.contains("cookie") || fields.contains("authorization");
        shows_who && !self.says(b"public")
    }
}

impl Compression {
    /// What becomes of a response.
    pub fn decide(&self, subject: &Compressible<'_>) -> Verdict {
        let options = &self.config.options;
        let is_short = subject.length.is_some_and(|length| length < options.min_size);
        if is_short || !self.takes_type(subject) || !subject.is_plain() {
            return Verdict::Untouched;
        }
        if !options.with_credentials && subject.is_personal() {
            return Verdict::Untouched;
        }
        match choose(&subject.request.fields, &self.config.encodings) {
            Some(encoding) => Verdict::Compressed(encoding),
            None => Verdict::Varies,
        }
    }

    fn takes_type(&self, subject: &Compressible<'_>) -> bool {
        let mut types = subject.values("content-type");
        let (Some(one), None) = (types.next(), types.next()) else { return false };
        let essence = one.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        // Its messages have a coding of their own.
        let is_grpc = essence.get(..16).is_some_and(|start| start.eq_ignore_ascii_case(b"application/grpc"));
        !is_grpc && self.config.types.iter().any(|pattern| pattern.matches(essence))
    }
}

/// The coding with the greatest weight (RFC 9110 §12.5.3); of several the first of ours. None if the client prefers the body as it is.
fn choose(request: &Fields, encodings: &[Encoding]) -> Option<Encoding> {
    let mut weights: [Option<u16>; 3] = [None; 3];
    let (mut any, mut identity) = (None, None);
    for (name, weight) in request.get_all("accept-encoding").flat_map(weighted) {
        let is = |coding: &str| name.eq_ignore_ascii_case(coding.as_bytes());
        let slot = match name {
            b"*" => &mut any,
            _ if is("gzip") || is("x-gzip") => &mut weights[Encoding::Gzip as usize],
            _ if is("br") => &mut weights[Encoding::Br as usize],
            _ if is("zstd") => &mut weights[Encoding::Zstd as usize],
            _ if is("identity") => &mut identity,
            _ => continue,
        };
        // Whoever says it twice may mean the lower one.
        *slot = Some(slot.map_or(weight, |before: u16| before.min(weight)));
    }
    let weight = |encoding: &Encoding| weights[*encoding as usize].or(any).unwrap_or(0);
    // The last of the greatest is the first of ours.
    let best = encodings.iter().rev().max_by_key(|encoding| weight(encoding))?;
    let is_wanted = weight(best) > 0 && identity.is_none_or(|identity| weight(best) >= identity);
    is_wanted.then_some(*best)
}

/// Whether a list of directives has one of this name, with an argument or without.
fn has_directive(list: &[u8], name: &[u8]) -> bool {
    let directives = list.split(|byte| *byte == b',');
    directives
        .into_iter()
        .any(|one| one.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii().eq_ignore_ascii_case(name))
}

/// An entity tag that says only that two responses mean the same: of what is compressed, no byte is what the upstream tagged (RFC 9110 §8.8.3).
pub fn weakened(tag: &[u8]) -> Vec<u8> {
    if tag.starts_with(b"W/") { tag.to_vec() } else { [b"W/", tag].concat() }
}

/// Whether Vary says already that Accept-Encoding makes a difference.
pub fn varies(values: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
    let mut values = values;
    values.any(|value| {
        let mut names = value.as_ref().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{CompressionOptions, MediaTypePattern};

    const ALL: [Encoding; 3] = [Encoding::Zstd, Encoding::Br, Encoding::Gzip];

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        fields
    }

    #[test]
    fn the_coding_of_the_greatest_weight() {
        for (accepted, expected) in [
            (&["gzip, deflate, br, zstd"][..], Some(Encoding::Zstd)),
            (&["gzip, deflate, br"], Some(Encoding::Br)),
            (&["gzip, deflate"], Some(Encoding::Gzip)),
            (&["x-gzip"], Some(Encoding::Gzip)),
            (&["deflate, compress"], None),
            (&["gzip;q=1.0, br;q=0.9, *;q=0.1"], Some(Encoding::Gzip)),
            (&["*"], Some(Encoding::Zstd)),
            (&["*, zstd;q=0"], Some(Encoding::Br)),
            (&["gzip;q=0"], None),
            (&["gzip;q=0, *"], Some(Encoding::Zstd)),
            (&["identity, gzip;q=0.5"], None),
            (&["identity;q=0.5, gzip"], Some(Encoding::Gzip)),
            (&["gzip;q=0.5", "br"], Some(Encoding::Br)),
            (&["gzip, gzip;q=0"], None),
            (&["gzip;q=2"], None),
            (&["identity"], None),
            (&[""], None),
            (&[], None),
        ] {
            let lines: Vec<_> = accepted.iter().map(|value| ("accept-encoding", *value)).collect();
            assert_eq!(choose(&fields(&lines), &ALL), expected, "{accepted:?}");
        }
        assert_eq!(choose(&fields(&[("accept-encoding", "*")]), &[Encoding::Gzip]), Some(Encoding::Gzip));
    }

    fn decide(
        with_credentials: bool,
        request: &[(&str, &str)],
        (status, response, length): (u16, &[(&str, &str)], Option<u64>),
        edits: &HeaderEdits,
    ) -> Verdict {
        let pattern = |kind: &str, subtype: &str, is_suffix| MediaTypePattern {
            kind: kind.into(),
            subtype: subtype.into(),
            is_suffix,
        };
        let compression = Compression {
            config: Arc::new(CompressionConfig {
                name: "web".into(),
                encodings: ALL.into(),
                types: vec![pattern("text", "", false), pattern("application", "+json", true)],
                options: CompressionOptions { with_credentials, ..CompressionOptions::default() },
            }),
        };
        let mut head = RequestHead { method: Method::Get, version: Version::H11, ..RequestHead::default() };
        for (name, value) in request {
            match *name {
                ":method" => head.method = Method::Head,
                ":version" => head.version = Version::H10,
                _ => head.fields.push(name.as_bytes(), value.as_bytes()),
            }
        }
        let fields = fields(response);
        let subject = Compressible { request: &head, has_certificate: false, status, fields: &fields, edits, length };
        compression.decide(&subject)
    }

    #[test]
    fn what_is_compressed() {
        let gzip = Verdict::Compressed(Encoding::Gzip);
        let none = Verdict::Untouched;
        let (accepts, html) = (("accept-encoding", "gzip"), ("content-type", "text/html; charset=utf-8"));
        let long = Some(1024);
        for (request, response, expected) in [
            (&[accepts][..], (200, &[html][..], long), gzip),
            (&[accepts], (200, &[html], None), gzip),
            (&[accepts], (404, &[html], long), gzip),
            (&[accepts], (200, &[("content-type", "APPLICATION/problem+json")], long), gzip),
            (&[], (200, &[html], long), Verdict::Varies),
            // As the GET that it stands for.
            (&[accepts, (":method", "HEAD")], (200, &[html], Some(0)), none),
            (&[accepts, (":method", "HEAD")], (200, &[html], Some(1023)), none),
            (&[accepts, (":method", "HEAD")], (200, &[html], long), gzip),
            (&[accepts, (":method", "HEAD")], (200, &[html], None), gzip),
            (&[(":method", "HEAD")], (200, &[html], None), Verdict::Varies),
            (&[accepts, (":version", "1.0")], (200, &[html], long), none),
            (&[accepts], (200, &[html], Some(1023)), none),
            (&[accepts], (200, &[html], Some(0)), none),
            (&[accepts], (200, &[("content-type", "image/png")], long), none),
            (&[accepts], (200, &[("content-type", "application/grpc+json")], long), none),
            (&[accepts], (200, &[], long), none),
            (&[accepts], (200, &[html, html], long), none),
            (&[accepts], (206, &[html], long), none),
            (&[accepts], (304, &[html], long), none),
            (&[accepts], (204, &[html], long), none),
            (&[accepts], (200, &[html, ("content-range", "bytes 0-1/2")], long), none),
            (&[accepts], (200, &[html, ("content-encoding", "br")], long), none),
            (&[accepts], (200, &[html, ("content-digest", "sha-256=:x:")], long), none),
            (&[accepts], (200, &[html, ("cache-control", "max-age=1, No-Transform")], long), none),
            (&[accepts, ("cache-control", "no-transform")], (200, &[html], long), none),
        ] {
            assert_eq!(decide(false, request, response, &HeaderEdits::default()), expected, "{request:?} {response:?}");
        }
    }

    #[test]
    fn what_may_be_meant_for_one_client_is_left_alone() {
        let (accepts, html) = (("accept-encoding", "gzip"), ("content-type", "text/html"));
        for (request, response, is_personal) in [
            (&[accepts, ("cookie", "a=b")][..], &[html][..], true),
            (&[accepts, ("authorization", "Basic x")], &[html], true),
            (&[accepts, ("cookie", "a=b")], &[html, ("cache-control", "public, max-age=60")], false),
            (&[accepts, ("cookie", "a=b")], &[html, ("cache-control", "public, private=\"x\"")], true),
            (&[accepts], &[html, ("set-cookie", "a=b")], true),
            (&[accepts], &[html, ("cache-control", "private")], true),
            (&[accepts], &[html, ("cache-control", "no-store")], true),
            (&[accepts], &[html, ("cache-control", "no-cache")], false),
        ] {
            let (response, edits) = ((200, response, Some(5000)), HeaderEdits::default());
            let expected = if is_personal { Verdict::Untouched } else { Verdict::Compressed(Encoding::Gzip) };
            assert_eq!(decide(false, request, response, &edits), expected, "{request:?} {response:?}");
            assert_eq!(decide(true, request, response, &edits), Verdict::Compressed(Encoding::Gzip));
        }
    }

    #[test]
    fn what_the_route_makes_of_a_response_counts() {
        let (accepts, html) = (("accept-encoding", "gzip"), ("content-type", "text/html"));
        let edits = |remove: &[&str], set: &[(&str, &str)], add: &[(&str, &str)]| HeaderEdits {
            remove: remove.iter().map(|name| (*name).into()).collect(),
            set: set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            add: add.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            rewrites: None,
        };
        for (edits, is_compressed) in [
            (edits(&[], &[("Content-Type", "image/png")], &[]), false),
            (edits(&["content-type"], &[], &[]), false),
            (edits(&[], &[], &[("Cache-Control", "no-transform")]), false),
            (edits(&[], &[("Content-Encoding", "x")], &[]), false),
            (edits(&["set-cookie"], &[], &[]), true),
        ] {
            let response = [html, ("set-cookie", "a=b"), ("x", "y")];
            let response = if is_compressed { &response[..] } else { &response[..1] };
            let expected = if is_compressed { Verdict::Compressed(Encoding::Gzip) } else { Verdict::Untouched };
            assert_eq!(decide(false, &[accepts], (200, response, Some(5000)), &edits), expected, "{edits:?}");
        }
    }

    #[test]
    fn tags_are_weakened_and_vary_is_said_once() {
        assert_eq!(weakened(b"\"x\""), b"W/\"x\"");
        assert_eq!(weakened(b"W/\"x\""), b"W/\"x\"");
        assert!(varies(["Origin, accept-encoding"].iter()) && varies(["*"].iter()));
        assert!(!varies(["Origin", "Accept"].iter()) && !varies(std::iter::empty::<&str>()));
    }
}
