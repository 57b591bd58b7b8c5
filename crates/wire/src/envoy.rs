//! What Envoy asks of an authorization service (`envoy.service.auth.v3`) and of an external processor (`envoy.service.ext_proc.v3`), and what they
//! say: as far as a request that is to be validated needs it.
//!
//! Owns the numbers of the fields in Envoy's published interface. Everything is read in place; nothing is decided here.

use crate::protobuf::{Malformed, fields, once, put_bytes, put_message, put_varint};

/// Header fields as Envoy lists them, its pseudo-fields (`:path`) among them.
pub type HeaderList<'m> = Vec<(&'m [u8], &'m [u8])>;

/// A `CheckRequest`: the request that Envoy holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Check<'m> {
    /// Method.
    pub method: Option<&'m [u8]>,
    /// Path and query, as sent.
    pub target: Option<&'m [u8]>,
    /// Host and port.
    pub host: Option<&'m [u8]>,
    /// Header fields.
    pub fields: HeaderList<'m>,
    /// What Envoy has of the body.
    pub body: &'m [u8],
}

/// A `ProcessingRequest`: the next thing that Envoy says of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Processing<'m> {
    /// The head of a request.
    RequestHead {
        /// Header fields.
        fields: HeaderList<'m>,
        /// No body follows.
        is_whole: bool,
        /// How its body will come, where this Envoy says so.
        body_mode: Option<BodyMode>,
    },
    /// A piece of its body.
    RequestBody {
        /// The bytes.
        piece: &'m [u8],
        /// The last one, and no trailers follow.
        is_last: bool,
    },
    /// Trailers, after its body.
    RequestTrailers,
    /// Something of a response.
    Response,
}

/// How Envoy sends a body to its external processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMode {
    /// Not at all.
    None,
    /// Piece by piece, without waiting for the word to the head.
    Streamed,
    /// Whole.
    Buffered,
    /// In a way that shows less than the whole, that changes it, or that sends the head on before the body is shown.
    Other,
}

/// A response that Envoy is to give in the upstream's place.
#[derive(Debug, Clone, Copy)]
pub struct Denial<'d> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: &'d [(Vec<u8>, Vec<u8>)],
    /// Its body.
    pub body: &'d [u8],
    /// Why, for Envoy's access log.
    pub reason: &'d str,
}

/// Reads a `CheckRequest` with at most so many header fields.
///
/// # Errors
/// It is no such message, or what may be there once is there twice.
pub fn read_check(message: &[u8], max_fields: usize) -> Result<Check<'_>, Malformed> {
    let Some(attributes) = only(message, 1)? else { return Ok(Check::default()) };
    let Some(request) = only(attributes, 4)? else { return Ok(Check::default()) };
    let Some(http) = only(request, 2)? else { return Ok(Check::default()) };
    let mut check = Check::default();
    let (mut text, mut raw) = (None, None);
    for field in fields(http) {
        let (number, value) = field?;
        match number {
            2 => once(&mut check.method, value.bytes()?)?,
            3 => add(&mut check.fields, read_field(value.bytes()?, &[2])?, max_fields)?,
            4 => once(&mut check.target, value.bytes()?)?,
            5 => once(&mut check.host, value.bytes()?)?,
            11 => once(&mut text, value.bytes()?)?,
            12 => once(&mut raw, value.bytes()?)?,
            13 => read_list(value.bytes()?, &mut check.fields, max_fields)?,
            _ => {}
        }
    }
    check.body = either(text, raw)?;
    Ok(check)
}

/// Reads a `ProcessingRequest` with at most so many header fields.
///
/// # Errors
/// As [`read_check`]; also if it says nothing, or two things.
pub fn read_processing(message: &[u8], max_fields: usize) -> Result<Processing<'_>, Malformed> {
    let (mut said, mut mode) = (None, None);
    for field in fields(message) {
        let (number, value) = field?;
        match number {
            2..=7 => once(&mut said, (number, value.bytes()?))?,
            11 => once(&mut mode, value.bytes()?)?,
            _ => {}
        }
    }
    let (number, said) = said.ok_or(Malformed)?;
    match number {
        2 => {
            let (mut list, mut is_whole) = (HeaderList::new(), None);
            for field in fields(said) {
                match field? {
                    (1, value) => read_list(value.bytes()?, &mut list, max_fields)?,
                    (3, value) => once(&mut is_whole, value.varint()? != 0)?,
                    _ => {}
                }
            }
            let body_mode = mode.map(read_mode).transpose()?;
            Ok(Processing::RequestHead { fields: list, is_whole: is_whole.unwrap_or_default(), body_mode })
        }
        4 => {
            let (mut piece, mut is_last) = (None, None);
            for field in fields(said) {
                match field? {
                    (1, value) => once(&mut piece, value.bytes()?)?,
                    (2, value) => once(&mut is_last, value.varint()? != 0)?,
                    _ => {}
                }
            }
            Ok(Processing::RequestBody { piece: piece.unwrap_or_default(), is_last: is_last.unwrap_or_default() })
        }
        6 => Ok(Processing::RequestTrailers),
        _ => Ok(Processing::Response),
    }
}

/// The message in the field with this number; none if it is not there.
fn only(message: &[u8], number: u32) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for field in fields(message) {
        let (have, value) = field?;
        if have == number {
            once(&mut found, value.bytes()?)?;
        }
    }
    Ok(found)
}

fn read_mode(configuration: &[u8]) -> Result<BodyMode, Malformed> {
    let (mut mode, mut is_unasked) = (None, None);
    for field in fields(configuration) {
        match field? {
            (1, value) => once(&mut mode, value.varint()?)?,
            // `send_body_without_waiting_for_header_response`
            (3, value) => once(&mut is_unasked, value.varint()? != 0)?,
            _ => {}
        }
    }
    Ok(match mode {
        None | Some(0) => BodyMode::None,
        Some(1) if is_unasked == Some(true) => BodyMode::Streamed,
        Some(2) => BodyMode::Buffered,
        Some(_) => BodyMode::Other,
    })
}

fn read_list<'m>(message: &'m [u8], list: &mut HeaderList<'m>, max_fields: usize) -> Result<(), Malformed> {
    for field in fields(message) {
        if let (1, value) = field? {
            add(list, read_field(value.bytes()?, &[2, 3])?, max_fields)?;
        }
    }
    Ok(())
}

/// A header field: its name, and its value in one of the fields with these numbers.
fn read_field<'m>(message: &'m [u8], values: &[u32]) -> Result<(&'m [u8], &'m [u8]), Malformed> {
    let (mut name, mut text, mut raw) = (None, None, None);
    for field in fields(message) {
        let (number, value) = field?;
        match number {
            1 => once(&mut name, value.bytes()?)?,
            2 => once(&mut text, value.bytes()?)?,
            3 if values.contains(&3) => once(&mut raw, value.bytes()?)?,
            _ => {}
        }
    }
    Ok((name.ok_or(Malformed)?, either(text, raw)?))
}

/// What Envoy gives as text or as bytes, never as both.
fn either<'m>(text: Option<&'m [u8]>, raw: Option<&'m [u8]>) -> Result<&'m [u8], Malformed> {
    match (text.unwrap_or_default(), raw.unwrap_or_default()) {
        (text, b"") => Ok(text),
        (b"", raw) => Ok(raw),
        _ => Err(Malformed),
    }
}

fn add<'m>(list: &mut HeaderList<'m>, field: (&'m [u8], &'m [u8]), max_fields: usize) -> Result<(), Malformed> {
    if list.len() >= max_fields {
        return Err(Malformed);
    }
    list.push(field);
    Ok(())
}

/// Code of `google.rpc.Status`: what Envoy takes for yes, and for no.
const OK: u64 = 0;
const PERMISSION_DENIED: u64 = 7;

/// Writes a `CheckResponse` that lets the request pass.
pub fn write_allowed(out: &mut Vec<u8>) {
    put_message(1, out, |status| put_varint(1, OK, status));
    put_message(3, out, |_| {});
}

/// Writes a `CheckResponse` that gives this response in the upstream's place.
pub fn write_denied(denial: &Denial<'_>, out: &mut Vec<u8>) {
    put_message(1, out, |status| {
        put_varint(1, PERMISSION_DENIED, status);
        put_bytes(2, denial.reason.as_bytes(), status);
    });
    put_message(2, out, |response| {
        put_message(1, response, |status| put_varint(1, u64::from(denial.status), status));
        for (name, value) in denial.fields {
            put_message(2, response, |option| put_field(name, value, 2, option));
        }
        put_bytes(3, denial.body, response);
    });
}

/// Which message of Envoy's a `ProcessingResponse` is the word to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed {
    /// The head of the request.
    Head,
    /// A piece of its body.
    Body,
    /// Its trailers.
    Trailers,
}

/// Writes a `ProcessingResponse` that changes nothing.
pub fn write_continue(processed: Processed, out: &mut Vec<u8>) {
    let number = match processed {
        Processed::Head => 1,
        Processed::Body => 3,
        Processed::Trailers => 5,
    };
    put_message(number, out, |_| {});
}

/// Writes a `ProcessingResponse` that gives this response in the upstream's place.
pub fn write_immediate(denial: &Denial<'_>, out: &mut Vec<u8>) {
    put_message(7, out, |response| {
        put_message(1, response, |status| put_varint(1, u64::from(denial.status), status));
        put_message(2, response, |mutation| {
            for (name, value) in denial.fields {
                put_message(1, mutation, |option| put_field(name, value, 3, option));
            }
        });
        put_bytes(3, denial.body, response);
        put_bytes(5, denial.reason.as_bytes(), response);
    });
}

/// A `HeaderValueOption`, its value in the field with this number.
fn put_field(name: &[u8], value: &[u8], number: u32, option: &mut Vec<u8>) {
    put_message(1, option, |field| {
        put_bytes(1, &name.to_ascii_lowercase(), field);
        put_bytes(number, value, field);
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut message = Vec::new();
        put_message(1, &mut message, |attributes| {
            put_message(1, attributes, |source| put_bytes(2, b"service", source));
            put_message(4, attributes, |request| put_message(2, request, |http| write(http)));
        });
        message
    }

    fn field(number: u32, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        put_message(number, out, |field| {
            put_bytes(1, name, field);
            put_bytes(2, value, field);
        });
    }

    #[test]
    fn a_check_is_read() {
        let message = check(|http| {
            put_bytes(2, b"POST", http);
            field(3, b":path", b"/a?b", http);
            field(3, b"content-type", b"text/plain", http);
            put_bytes(4, b"/a?b", http);
            put_bytes(5, b"api.test", http);
            put_varint(9, 3, http);
            put_bytes(11, b"one", http);
        });
        let read = read_check(&message, 10).unwrap();
        assert_eq!(
            (read.method, read.target, read.host),
            (Some(&b"POST"[..]), Some(&b"/a?b"[..]), Some(&b"api.test"[..]))
        );
        assert_eq!((read.fields.len(), read.body), (2, &b"one"[..]));
        assert_eq!(read_check(&message, 1), Err(Malformed), "more fields than are allowed");
        let raw = check(|http| {
            put_message(13, http, |list| {
                put_message(1, list, |field| {
                    put_bytes(1, b"cookie", field);
                    put_bytes(3, b"a=b", field);
                });
            });
            put_bytes(12, b"\xff", http);
        });
        let read = read_check(&raw, 10).unwrap();
        assert_eq!((&read.fields[..], read.body), (&[(&b"cookie"[..], &b"a=b"[..])][..], &b"\xff"[..]));
        assert_eq!(read_check(b"", 10).unwrap(), Check::default());
    }

    #[test]
    fn what_is_there_twice_is_malformed() {
        for number in [2, 4, 5, 11, 12] {
            let message = check(|http| {
                put_bytes(number, b"a", http);
                put_bytes(number, b"b", http);
            });
            assert_eq!(read_check(&message, 10), Err(Malformed), "{number}");
        }
        let both = check(|http| {
            put_bytes(11, b"a", http);
            put_bytes(12, b"b", http);
        });
        assert_eq!(read_check(&both, 10), Err(Malformed));
        let nameless = check(|http| put_message(3, http, |field| put_bytes(2, b"value", field)));
        assert_eq!(read_check(&nameless, 10), Err(Malformed));
    }

    #[test]
    fn a_processing_request_is_one_thing() {
        let head = |mode: Option<(u64, u64)>| {
            let mut message = Vec::new();
            put_message(2, &mut message, |headers| {
                put_message(1, headers, |list| field(1, b":method", b"GET", list));
                put_varint(3, 1, headers);
            });
            if let Some((mode, is_unasked)) = mode {
                put_message(11, &mut message, |configuration| {
                    put_varint(1, mode, configuration);
                    put_varint(3, is_unasked, configuration);
                });
            }
            message
        };
        for (mode, expected) in [
            (None, None),
            (Some((0, 0)), Some(BodyMode::None)),
            (Some((1, 0)), Some(BodyMode::Other)),
            (Some((1, 1)), Some(BodyMode::Streamed)),
            (Some((2, 0)), Some(BodyMode::Buffered)),
            (Some((2, 1)), Some(BodyMode::Buffered)),
            (Some((3, 1)), Some(BodyMode::Other)),
            (Some((4, 0)), Some(BodyMode::Other)),
        ] {
            let message = head(mode);
            let fields = vec![(&b":method"[..], &b"GET"[..])];
            let expected = Processing::RequestHead { fields, is_whole: true, body_mode: expected };
            assert_eq!(read_processing(&message, 10), Ok(expected));
        }
        let mut body = Vec::new();
        put_message(4, &mut body, |body| {
            put_bytes(1, b"piece", body);
            put_varint(2, 1, body);
        });
        assert_eq!(read_processing(&body, 10), Ok(Processing::RequestBody { piece: b"piece", is_last: true }));
        for (number, expected) in
            [(3, Processing::Response), (5, Processing::Response), (6, Processing::RequestTrailers)]
        {
            let mut message = Vec::new();
            put_message(number, &mut message, |_| {});
            assert_eq!(read_processing(&message, 10), Ok(expected));
            put_message(4, &mut message, |_| {});
            assert_eq!(read_processing(&message, 10), Err(Malformed), "two things");
        }
        assert_eq!(read_processing(b"", 10), Err(Malformed));
    }

    #[test]
    fn denials_are_written_as_envoy_reads_them() {
        let fields_sent = [(b"Content-Type".to_vec(), b"text/plain".to_vec())];
        let denial = Denial { status: 400, fields: &fields_sent, body: b"no", reason: "pattern" };
        let mut out = Vec::new();
        write_denied(&denial, &mut out);
        let response = only(&out, 2).unwrap().unwrap();
        assert_eq!(
            fields(only(response, 1).unwrap().unwrap()).next(),
            Some(Ok((1, crate::protobuf::Value::Varint(400))))
        );
        let header = only(only(response, 2).unwrap().unwrap(), 1).unwrap().unwrap();
        assert_eq!((only(header, 1), only(header, 2)), (Ok(Some(&b"content-type"[..])), Ok(Some(&b"text/plain"[..]))));
        assert_eq!(only(response, 3), Ok(Some(&b"no"[..])));
        let mut out = Vec::new();
        write_immediate(&denial, &mut out);
        let response = only(&out, 7).unwrap().unwrap();
        assert_eq!((only(response, 3), only(response, 5)), (Ok(Some(&b"no"[..])), Ok(Some(&b"pattern"[..]))));
        let mut out = Vec::new();
        write_allowed(&mut out);
        assert_eq!(only(&out, 3), Ok(Some(&b""[..])));
        for (processed, number) in [(Processed::Head, 1), (Processed::Body, 3), (Processed::Trailers, 5)] {
            let mut out = Vec::new();
            write_continue(processed, &mut out);
            assert_eq!(only(&out, number), Ok(Some(&b""[..])));
        }
    }
}
