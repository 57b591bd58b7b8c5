//! A request's pseudo-fields and fields to its head, with the same strictness for HTTP/2 and HTTP/3 (RFC 9113 §8, RFC 9114 §4), as for HTTP/1.
//!
//! Owns what is rejected, and how trailers are cut down to what may go on. What makes a message malformed beyond its values is found before, by whoever
//! reads that version.

use config::limits::Limits;
use reason::Reason;
use wire::http::hop::is_forbidden_in_trailers;
use wire::http::target::{canonical_authority, read_origin_form};
use wire::http::{BodyFraming, Fields, HeadError, Method, RequestHead, Version};

use crate::message::opening;

/// A request as it came on a stream. `F` gives name and value of each field, names in lower case, as often as it is asked.
pub struct Received<'m, F> {
    /// The version it came in.
    pub version: Version,
    /// `:method`
    pub method: &'m [u8],
    /// `:scheme`, if it is known.
    pub scheme: Option<&'m [u8]>,
    /// `:authority`
    pub authority: Option<&'m [u8]>,
    /// `:path`, empty where there is none.
    pub path: &'m [u8],
    /// `:protocol`
    pub protocol: Option<&'m [u8]>,
    /// The fields, and how many.
    pub fields: (F, usize),
    /// The field section is larger than it may be, and fields are missing.
    pub is_too_large: bool,
    /// The stream has ended behind the head.
    pub is_bodiless: bool,
}

impl<'m, F, I> Received<'m, F>
where
    F: Fn() -> I,
    I: Iterator<Item = (&'m [u8], &'m [u8])>,
{
    /// Translates the head. One with an error is read in part only, but has its type and what it accepts: a gRPC call is rejected in gRPC's own way.
    ///
    /// # Errors
    /// 400 with a code; 414 or 431 for what is over the limits; 417 for an expectation that is not `100-continue`.
    pub fn read(&self, limits: &Limits, head: &mut RequestHead) -> Result<(), HeadError> {
        head.clear();
        head.version = self.version;
        head.keep_alive = true;
        let read = self.read_head(limits, head);
        if read.is_err() {
            for name in ["content-type", "accept"] {
                let value = (self.fields.0)().find(|(present, _)| *present == name.as_bytes());
                if let Some((_, value)) = value.filter(|_| !head.fields.contains(name)) {
                    head.fields.push(name.as_bytes(), value);
                }
            }
        }
        read
    }

    fn read_head(&self, limits: &Limits, head: &mut RequestHead) -> Result<(), HeadError> {
        head.read_method(self.method)?;
        let opens_websocket = opening::is_asked_for(self.protocol)?;
        self.read_target(opens_websocket, head)?;
        if head.target.len() > limits.max_request_line_bytes {
            return Err(HeadError::of(Reason::RequestLineTooLong));
        }
        if self.is_too_large {
            return Err(HeadError::of(Reason::HeadTooLarge));
        }
        if self.fields.1 > limits.max_headers {
            return Err(HeadError::of(Reason::TooManyFields));
        }
        let noted = self.read_fields(head)?;
        self.read_authority(noted.hosts, head)?;
        // What follows an extended CONNECT is no body, and has no length (RFC 9110 §9.3.6).
        let is_bodiless = self.is_bodiless || opens_websocket;
        head.framing = match noted.length.only(Reason::DuplicateContentLength)? {
            Some(_) if opens_websocket => return Err(HeadError::of(Reason::BadContentLength)),
            // What ends with its head has no other length, or it is malformed (RFC 9114 §4.1.2).
            Some(length) if is_bodiless && parse_length(length) != Some(0) => {
                return Err(HeadError::of(Reason::BadContentLength));
            }
            _ if is_bodiless => BodyFraming::None,
            // Whoever reads the stream compares it with the data that comes.
            Some(length) => BodyFraming::Length(parse_length(length).ok_or(HeadError::of(Reason::BadContentLength))?),
            None => BodyFraming::Chunked,
        };
        noted.authorization.only(Reason::DuplicateAuthorization)?;
        match noted.expect.only(Reason::DuplicateExpect)? {
            None => {}
            Some(expect) if expect.eq_ignore_ascii_case(b"100-continue") && !is_bodiless => {
                head.expects_continue = true;
            }
            Some(_) => return Err(HeadError::of(Reason::UnknownExpectation)),
        }
        if opens_websocket {
            opening::make_upgrade(head);
        }
        Ok(())
    }

    fn read_target(&self, opens_websocket: bool, head: &mut RequestHead) -> Result<(), HeadError> {
        if head.method == Method::Connect && !opens_websocket {
            return Ok(());
        }
        // Of another scheme nothing is here, and no field tells the upstream of it.
        let is_served = |scheme: &[u8]| matches!(scheme, b"http" | b"https");
        if self.scheme.map_or(self.authority.is_some(), |scheme| !is_served(scheme)) {
            return Err(HeadError::of(Reason::BadScheme));
        }
        head.says_https = self.scheme == Some(b"https");
        if self.path == b"*" && head.method == Method::Options {
            head.target.push(b'*');
            head.path_len = 1;
            return Ok(());
        }
        read_origin_form(self.path, head)
    }

    fn read_authority(&self, hosts: usize, head: &mut RequestHead) -> Result<(), HeadError> {
        let mut values = (self.fields.0)().filter(|(name, _)| *name == b"host").map(|(_, value)| value).take(hosts);
        let Some(authority) = self.authority else {
            let host = values.next().filter(|_| hosts == 1).ok_or(HeadError::of(Reason::MissingAuthority))?;
            return canonical_authority(host, &mut head.authority);
        };
        canonical_authority(authority, &mut head.authority)?;
        if hosts == 0 {
            return Ok(());
        }
        let mut canonical = Vec::new();
        for host in values {
            canonical.clear();
            canonical_authority(host, &mut canonical)?;
            if canonical != head.authority {
                return Err(HeadError::of(Reason::HostMismatch));
            }
        }
        Ok(())
    }

    /// Takes the fields over, and notes those that say how the message is to be read.
    fn read_fields(&self, head: &mut RequestHead) -> Result<Noted<'m>, HeadError> {
        let mut cookies: Vec<u8> = Vec::new();
        let mut noted = Noted::default();
        for (name, value) in (self.fields.0)() {
            head.has_unusual_name |= name.iter().any(|octet| !octet.is_ascii_alphanumeric() && *octet != b'-');
            // HTTP/1 would take it off, and what is checked would not be what is read (RFC 9113 §8.2.1).
            if [value.first(), value.last()].into_iter().flatten().any(|end| matches!(end, b' ' | b'\t')) {
                return Err(HeadError::of(Reason::SpaceAroundFieldValue));
            }
            if value.iter().any(|&byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
                return Err(HeadError::of(Reason::ControlInFieldValue));
            }
            match name {
                b"cookie" => {
                    // Crumbs become one field again (RFC 9113 §8.2.3, RFC 9114 §4.2.1).
                    if !cookies.is_empty() {
                        cookies.extend_from_slice(b"; ");
                    }
                    cookies.extend_from_slice(value);
                    continue;
                }
                b"host" => noted.hosts += 1,
                b"content-length" => noted.length.note(value),
                b"expect" => noted.expect.note(value),
                b"authorization" => noted.authorization.note(value),
                _ => {}
            }
            head.fields.push(name, value);
        }
        if !cookies.is_empty() {
            head.fields.push(b"cookie", &cookies);
        }
        Ok(noted)
    }
}

/// Fields that say how the message is to be read.
#[derive(Debug, Default)]
struct Noted<'m> {
    hosts: usize,
    length: Single<'m>,
    expect: Single<'m>,
    authorization: Single<'m>,
}

/// The values of a field that may occur once.
#[derive(Debug, Default)]
enum Single<'m> {
    #[default]
    None,
    One(&'m [u8]),
    Many,
}

impl<'m> Single<'m> {
    fn note(&mut self, value: &'m [u8]) {
        *self = if matches!(self, Single::None) { Single::One(value) } else { Single::Many };
    }

    fn only(&self, duplicate: Reason) -> Result<Option<&'m [u8]>, HeadError> {
        match self {
            Single::None => Ok(None),
            Single::One(value) => Ok(Some(value)),
            Single::Many => Err(HeadError::of(duplicate)),
        }
    }
}

/// Whether a head with this fault is no message at all (RFC 9113 §8.1.1, §8.2.1, §8.3.1; RFC 9114 §4.1.2): its stream ends. What is a message
/// and is rejected for what it asks for, such as a path with dot segments, is answered.
pub fn is_malformed(error: &HeadError) -> bool {
    matches!(
        error.reason,
        Reason::BadMethod
            | Reason::PathNotAbsolute
            | Reason::BadPathByte
            | Reason::BadQueryByte
            | Reason::BadHost
            | Reason::BadPort
            | Reason::HostMismatch
            | Reason::BadScheme
            | Reason::ControlInFieldValue
            | Reason::SpaceAroundFieldValue
            | Reason::DuplicateContentLength
            | Reason::BadContentLength
    )
}

fn parse_length(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit) && (1..=18).contains(&text.len());
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// Trailer fields that may go on. Framing and routing have no place there.
pub fn cut_trailers<'m>(trailers: impl Iterator<Item = (&'m [u8], &'m [u8])>) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in trailers {
        if !is_forbidden_in_trailers(name) {
            fields.push(name, value);
        }
    }
    fields
}
