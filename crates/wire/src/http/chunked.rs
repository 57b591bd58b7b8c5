//! The chunked transfer coding (RFC 9112 §7.1): strict decoder, and the framing for writing.
//!
//! Owns where chunks begin and end, and the trailer section. Does not copy body bytes and keeps no time.
//!
//! ```text
//! Size ─┬──────────────→ SizeEnd ─┬→ Data ─→ DataCr ─→ DataLf ─→ Size
//!       └→ Extension ──→          └→ (size 0) TrailerStart ─┬→ TrailerName ─→ TrailerBlank ─→ TrailerValue ─→ TrailerLf
//!                                       ↑                   │                                                   │
//!                                       └───────────────────│───────────────────────────────────────────────────┘
//!                                                           └→ LastLf ─→ Ended
//! ```

use reason::Reason;

use super::field_kind::folded;
use super::fields::Fields;
use super::head::HeadError;
use super::hop::is_forbidden_in_trailers;
use super::http1::write_fields;
use super::octets::{self, TOKEN, VALUE};

/// Most hexadecimal digits in a chunk size: what fits 64 bits.
const MAX_SIZE_DIGITS: u8 = 16;

/// Most bytes of chunk extensions in one body. Nobody needs any; a body of extensions would cost work without counting as data.
const MAX_EXTENSION_BYTES: u16 = 4096;

/// Most trailer fields.
const MAX_TRAILER_FIELDS: usize = 32;

/// Most bytes of the trailer section, line ends included.
const MAX_TRAILER_BYTES: u16 = 8192;

/// What the decoder found next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkEvent {
    /// Feed more bytes; everything given was consumed.
    NeedMore,
    /// Body bytes: this many, starting at `offset` in the input given.
    Data {
        /// Where the data starts.
        offset: usize,
        /// How many bytes; at least one.
        len: usize,
        /// How many bytes of the input are used up, the data included.
        consumed: usize,
    },
    /// The last chunk and the trailer section ended after `consumed` bytes.
    End {
        /// How many bytes of the input are used up.
        consumed: usize,
    },
}

/// Decodes one chunked body. Any split of the input gives the same result.
///
/// Rejects bare LF, chunk sizes over 16 hexadecimal digits or with signs, spaces or underscores, extensions that break their grammar, control bytes in
/// them, more than 4 KiB of extensions in one body and trailers over 32 fields or 8 KiB. Extensions are dropped.
#[derive(Debug, Default)]
pub struct ChunkedDecoder {
    state: State,
    /// Bytes of the current chunk still to come; while its size is read, the size so far.
    remaining: u64,
    size_digits: u8,
    extension_bytes: u16,
    trailer_bytes: u16,
    /// The trailer line at hand: its name, and then its value from `name_len` on.
    line: Vec<u8>,
    name_len: usize,
    trailers: Fields,
    is_response: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    /// Behind a semicolon, where a name must come.
    ExtensionStart,
    ExtensionName,
    /// Behind the name and blanks.
    ExtensionGap,
    /// Behind `=`, where a value must come.
    ValueStart,
    Value,
    Quoted,
    QuotedPair,
    /// Behind a quoted value.
    QuoteEnd,
    /// Behind the value and blanks.
    ValueGap,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerBlank,
    TrailerValue,
    TrailerLf,
    LastLf,
    Ended,
    Failed(HeadError),
}

impl ChunkedDecoder {
    /// A decoder at the first chunk of a request body.
    pub fn new() -> ChunkedDecoder {
        ChunkedDecoder::default()
    }

    /// A decoder at the first chunk of a response body, whose trailers nobody takes for others.
    pub fn for_response() -> ChunkedDecoder {
        ChunkedDecoder { is_response: true, ..ChunkedDecoder::default() }
    }

    /// Takes the next step over `input`, which starts where the last step's `consumed` ended.
    ///
    /// After the end every step gives [`ChunkEvent::End`] and consumes nothing; after an error every step gives it again.
    ///
    /// # Errors
    /// 400 (431 for trailers over their limits) with a code; the connection must close.
    pub fn step(&mut self, input: &[u8]) -> Result<ChunkEvent, HeadError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Ended => return Ok(ChunkEvent::End { consumed: at }),
                State::Failed(error) => return Err(error),
                State::Data => {
                    let available = input.len() - at;
                    if available == 0 {
                        return Ok(ChunkEvent::NeedMore);
                    }
                    let len = usize::try_from(self.remaining).map_or(available, |remaining| remaining.min(available));
                    self.remaining -= len as u64;
                    if self.remaining == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok(ChunkEvent::Data { offset: at, len, consumed: at + len });
                }
                _ => {}
            }
            let Some(&octet) = input.get(at) else { return Ok(ChunkEvent::NeedMore) };
            self.state = match self.take(octet) {
                Ok(next) => next,
                Err(error) => State::Failed(error),
            };
            at += 1;
        }
    }

    /// Trailer fields, complete after [`ChunkEvent::End`]. Framing, routing and authentication fields are rejected there
    /// (RFC 9110 §6.5.1).
    pub fn trailers(&self) -> &Fields {
        &self.trailers
    }

    /// Takes one octet of framing; gives the state after it.
    fn take(&mut self, octet: u8) -> Result<State, HeadError> {
        match self.state {
            State::Size | State::SizeLf => self.take_size_line(octet),
            State::ExtensionStart | State::ExtensionName | State::ExtensionGap => self.take_extension(octet),
            State::ValueStart | State::Value | State::ValueGap => self.take_extension(octet),
            State::Quoted | State::QuotedPair | State::QuoteEnd => self.take_extension(octet),
            State::DataCr => after(octet, b'\r', State::DataLf, Reason::ChunkLongerThanItsSize),
            State::DataLf => {
                self.remaining = 0;
                self.size_digits = 0;
                after(octet, b'\n', State::Size, Reason::ChunkLongerThanItsSize)
            }
            _ => self.take_trailer(octet),
        }
    }

    fn take_size_line(&mut self, octet: u8) -> Result<State, HeadError> {
        match (self.state, octet) {
            (State::SizeLf, b'\n') if self.remaining == 0 => Ok(State::TrailerStart),
            (State::SizeLf, b'\n') => Ok(State::Data),
            (State::SizeLf, _) => Err(HeadError::of(Reason::BareCr)),
            (_, b'\n') => Err(HeadError::of(Reason::BareLf)),
            (_, b'\r') if self.size_digits > 0 => Ok(State::SizeLf),
            (_, b';') if self.size_digits > 0 => self.take_extension(octet),
            _ => {
                let digit = char::from(octet).to_digit(16).ok_or(HeadError::of(Reason::BadChunkSize))?;
                if self.size_digits == MAX_SIZE_DIGITS {
                    return Err(HeadError::of(Reason::ChunkSizeTooLong));
                }
                self.size_digits += 1;
                self.remaining = self.remaining << 4 | u64::from(digit);
                Ok(State::Size)
            }
        }
    }

    /// Takes one octet of `*( BWS ";" BWS name [ BWS "=" BWS value ] )`, where a value is a token or a quoted string (RFC 9112 §7.1.1). Of the blanks, those
    /// before the first semicolon are refused with the size.
    fn take_extension(&mut self, octet: u8) -> Result<State, HeadError> {
        use State::{
            ExtensionGap, ExtensionName, ExtensionStart, QuoteEnd, Quoted, QuotedPair, Value, ValueGap, ValueStart,
        };
        let bad = Err(HeadError::of(Reason::BadChunkExtension));
        match octet {
            b'\n' => return Err(HeadError::of(Reason::BareLf)),
            b'\r' if matches!(self.state, ExtensionName | Value | QuoteEnd) => return Ok(State::SizeLf),
            b'\r' => return bad,
            _ if !octets::is(octet, VALUE) => return Err(HeadError::of(Reason::ControlInChunkExtension)),
            _ if self.extension_bytes == MAX_EXTENSION_BYTES => {
                return Err(HeadError::of(Reason::ChunkExtensionsTooLong));
            }
            _ => self.extension_bytes += 1,
        }
        match (self.state, octet) {
            (QuotedPair, _) => Ok(Quoted),
            (Quoted, b'\\') => Ok(QuotedPair),
            (Quoted, b'"') => Ok(QuoteEnd),
            (Quoted, _) | (ValueStart, b'"') => Ok(Quoted),
            (ExtensionStart | ValueStart, b' ' | b'\t') => Ok(self.state),
            (ExtensionName | ExtensionGap, b' ' | b'\t') => Ok(ExtensionGap),
            (Value | QuoteEnd | ValueGap, b' ' | b'\t') => Ok(ValueGap),
            (State::Size | ExtensionName | ExtensionGap | Value | QuoteEnd | ValueGap, b';') => Ok(ExtensionStart),
            (ExtensionName | ExtensionGap, b'=') => Ok(ValueStart),
            (ExtensionStart | ExtensionName, _) if octets::is(octet, TOKEN) => Ok(ExtensionName),
            (ValueStart | Value, _) if octets::is(octet, TOKEN) => Ok(Value),
            _ => bad,
        }
    }

    fn take_trailer(&mut self, octet: u8) -> Result<State, HeadError> {
        if self.trailer_bytes == MAX_TRAILER_BYTES {
            return Err(HeadError::of(Reason::TrailersTooLarge));
        }
        self.trailer_bytes += 1;
        match (self.state, octet) {
            (State::LastLf, b'\n') => Ok(State::Ended),
            (State::TrailerLf, b'\n') => self.finish_trailer(),
            (State::LastLf | State::TrailerLf, _) => Err(HeadError::of(Reason::BareCr)),
            (_, b'\n') => Err(HeadError::of(Reason::BareLf)),
            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            (State::TrailerStart, b' ' | b'\t') => Err(HeadError::of(Reason::FoldedField)),
            (State::TrailerStart, b':') => Err(HeadError::of(Reason::EmptyFieldName)),
            (State::TrailerStart | State::TrailerName, _) if octets::is(octet, TOKEN) => {
                self.line.push(octet);
                Ok(State::TrailerName)
            }
            (State::TrailerName, b':') => {
                self.name_len = self.line.len();
                // Servers that turn names into variables take `Content_Length` for what it must not be.
                let is_taken_for = if self.is_response { None } else { folded(&self.line) };
                if [Some(&self.line), is_taken_for.as_ref()]
                    .into_iter()
                    .flatten()
                    .any(|name| is_forbidden_in_trailers(name))
                {
                    return Err(HeadError::of(Reason::ForbiddenTrailer));
                }
                Ok(State::TrailerBlank)
            }
            (State::TrailerStart | State::TrailerName, _) => Err(HeadError::of(Reason::BadFieldName)),
            (State::TrailerBlank, b' ' | b'\t') => Ok(State::TrailerBlank),
            (State::TrailerBlank | State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerBlank | State::TrailerValue, _) if octets::is(octet, VALUE) => {
                self.line.push(octet);
                Ok(State::TrailerValue)
            }
            _ => Err(HeadError::of(Reason::ControlInFieldValue)),
        }
    }

    fn finish_trailer(&mut self) -> Result<State, HeadError> {
        if self.trailers.len() == MAX_TRAILER_FIELDS {
            return Err(HeadError::of(Reason::TooManyTrailers));
        }
        let (name, value) = self.line.split_at(self.name_len);
        self.trailers.push(name, super::fields::trim_blanks(value));
        self.line.clear();
        Ok(State::TrailerStart)
    }
}

fn after(octet: u8, expected: u8, next: State, reason: Reason) -> Result<State, HeadError> {
    if octet == expected { Ok(next) } else { Err(HeadError::of(reason)) }
}

/// The line that opens a chunk of `len` bytes (`1F4\r\n`), appended to `out`. The data and a line end follow it. `len` is
/// not 0, which would end the body: [`write_last_chunk`] does that.
pub fn write_chunk_head(len: usize, out: &mut Vec<u8>) {
    debug_assert!(len > 0);
    let mut shift = usize::BITS - (len | 1).leading_zeros();
    shift = shift.div_ceil(4) * 4;
    while shift > 0 {
        shift -= 4;
        out.push(b"0123456789ABCDEF"[len >> shift & 0xf]);
    }
    out.extend_from_slice(b"\r\n");
}

/// The last chunk, the trailer section and the empty line that ends it, appended to `out`.
pub fn write_last_chunk(trailers: Option<&Fields>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        write_fields(trailers, out);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// The data, the trailers as text and the bytes after the end, or the code; `None` where the body is not over.
    type Decision = Result<Option<(String, String, String)>, &'static str>;

    fn decode(mut decoder: ChunkedDecoder, parts: &[&[u8]]) -> Decision {
        let mut data = Vec::new();
        let mut rest = Vec::new();
        let mut ended = false;
        for part in parts {
            let mut input = *part;
            loop {
                if ended {
                    rest.extend_from_slice(input);
                    break;
                }
                match decoder.step(input).map_err(|error| error.reason.code())? {
                    ChunkEvent::NeedMore => break,
                    ChunkEvent::Data { offset, len, consumed } => {
                        assert!(len > 0 && offset + len == consumed);
                        data.extend_from_slice(&input[offset..offset + len]);
                        input = &input[consumed..];
                    }
                    ChunkEvent::End { consumed } => {
                        ended = true;
                        input = &input[consumed..];
                        assert_eq!(decoder.step(b"x"), Ok(ChunkEvent::End { consumed: 0 }));
                    }
                }
            }
        }
        let mut trailers = Vec::new();
        write_fields(decoder.trailers(), &mut trailers);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ok(ended.then(|| (text(data), text(trailers), text(rest))))
    }

    fn check(body: &str, expected: Result<Option<(&str, &str, &str)>, &'static str>) {
        let body = body.as_bytes();
        let expected =
            expected.map(|ended| ended.map(|(data, trailers, rest)| (data.into(), trailers.into(), rest.into())));
        let shown = body[..body.len().min(80)].escape_ascii();
        assert_eq!(decode(ChunkedDecoder::new(), &[body]), expected, "{shown}");
        for split in 0..=body.len().min(300) {
            let (first, second) = body.split_at(split);
            assert_eq!(decode(ChunkedDecoder::new(), &[first, second]), expected, "{shown} split at {split}");
        }
        let singles: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(decode(ChunkedDecoder::new(), &singles), expected, "{shown} byte by byte");
    }

    #[test]
    fn bodies() {
        check("0\r\n\r\n", Ok(Some(("", "", ""))));
        check("0\r\n\r\nGET /", Ok(Some(("", "", "GET /"))));
        check("5\r\nhello\r\n0\r\n\r\n", Ok(Some(("hello", "", ""))));
        check("1\r\na\r\n00A\r\n0123456789\r\n000\r\n\r\n", Ok(Some(("a0123456789", "", ""))));
        check("a\r\n0123456789\r\nB\r\n01234567890\r\n0\r\n\r\n", Ok(Some(("012345678901234567890", "", ""))));
        check("2;a=b;c=\"d\t\u{e9}\"\r\nhi\r\n0;x\r\n\r\n", Ok(Some(("hi", "", ""))));
        check("2; a = b ;c=\"d;\\\";\" ; e\r\nhi\r\n0;x\r\n\r\n", Ok(Some(("hi", "", ""))));
        check("0000000000000000\r\n\r\n", Ok(Some(("", "", ""))));
        for partial in
            ["", "5", "5\r", "5\r\n", "5\r\nhe", "5\r\nhello", "5\r\nhello\r\n", "0\r\n", "0\r\n\r", "0\r\na: b\r\n"]
        {
            check(partial, Ok(None));
        }
        check("FFFFFFFFFFFFFFFF\r\nabc", Ok(None));
    }

    #[test]
    fn sizes_and_line_ends_rejected() {
        for bad in [
            "\r\n", ";a\r\n", "+5\r\n", "-0\r\n", " 5\r\n", "5 \r\n", "5\t\r\n", "0x5\r\n", "5_0\r\n", "g\r\n", "\0",
            "5 ;a\r\n",
        ] {
            check(bad, Err("bad_chunk_size"));
        }
        check("10000000000000005\r\n", Err("chunk_size_too_long"));
        check("00000000000000000\r\n", Err("chunk_size_too_long"));
        for bad in ["5\nhello\r\n", "\n", "0\n\n", "5;a\nhello", "0\r\n\n", "0\r\na: b\n\r\n", "0\r\na\n"] {
            check(bad, Err("bare_lf"));
        }
        for bad in ["5\rhello", "5;a\rb\n", "0\r\n\rx", "0\r\na: b\rc"] {
            check(bad, Err("bare_cr"));
        }
        for bad in ["2\r\nabc\r\n", "2\r\nab\n", "2\r\nab\rx", "2\r\nab0\r\n\r\n", "2\r\nab\r\r\n"] {
            check(bad, Err("chunk_longer_than_its_size"));
        }
        for bad in [
            "",
            " ",
            ";a",
            "a;",
            "=b",
            "\"a\"",
            "a=\"b",
            "a=\"b\\\"",
            "a=",
            "a= ",
            "a=;b",
            "a b",
            "a b=c",
            "a =",
            "a\"b\"",
            "a=b\"c\"",
            "a=\"b\"c",
            "a=\"b\" c",
            "a=\"b\"=c",
            "a=b c",
            "a==b",
            "a=b=c",
            "a@b",
            "a=b@c",
            "a=\"b\"\"c\"",
            "\u{e9}",
            "a=\u{e9}",
            "a ",
            "a=b ",
        ] {
            check(&format!("5;{bad}\r\n"), Err("bad_chunk_extension"));
        }
        for good in ["a", "a=b", "a=\"\"", "a=\"b\\\"\u{e9} \"", "\t a\t=\t\"b\"\t;\tc", "!#$=^_|~", "a ;b = c ;d"] {
            check(&format!("1;{good}\r\nx\r\n0;{good}\r\n\r\n"), Ok(Some(("x", "", ""))));
        }
        for bad in ["5;\0\r\n", "5;a=\x7f\r\n", "5;\x0b"] {
            check(bad, Err("control_in_chunk_extension"));
        }
    }

    #[test]
    fn extensions_are_bounded_over_the_body() {
        check(&format!("0;{}\r\n\r\n", "x".repeat(4095)), Ok(Some(("", "", ""))));
        check(&format!("0;{}\r\n\r\n", "x".repeat(4096)), Err("chunk_extensions_too_long"));
        check(&"1;xxxxxxx\r\na\r\n".repeat(513), Err("chunk_extensions_too_long"));
    }

    #[test]
    fn trailers() {
        check("0\r\nA: b\r\nX-Sum:\t1 2 \t\r\nE:\r\n\r\n", Ok(Some(("", "A: b\r\nX-Sum: 1 2\r\nE: \r\n", ""))));
        check("0\r\nContent-Length: 5\r\n\r\n", Err("forbidden_trailer"));
        check("0\r\nx-forwarded-for: 5\r\n\r\n", Err("forbidden_trailer"));
        check("0\r\nA: b\r\n c\r\n\r\n", Err("folded_field"));
        check("0\r\n: b\r\n\r\n", Err("empty_field_name"));
        check("0\r\na_b: c\r\n\r\n", Ok(Some(("", "a_b: c\r\n", ""))));
        for forged in ["Content_Length", "transfer.encoding", "X_Forwarded_For", "X!Client-Cert~Verified", "te"] {
            check(&format!("0\r\n{forged}: c\r\n\r\n"), Err("forbidden_trailer"));
        }
        check("0\r\na : c\r\n\r\n", Err("bad_field_name"));
        check("0\r\na\r\n\r\n", Err("bad_field_name"));
        check("0\r\na: \0\r\n\r\n", Err("control_in_field_value"));
        let most = "a: b\r\n".repeat(32);
        check(&format!("0\r\n{most}\r\n"), Ok(Some(("", &most, ""))));
        check(&format!("0\r\n{most}a: b\r\n\r\n"), Err("too_many_trailers"));
        let value = "x".repeat(8192 - 7);
        check(&format!("0\r\na: {value}\r\n\r\n"), Ok(Some(("", &format!("a: {value}\r\n"), ""))));
        check(&format!("0\r\na: {value}x\r\n\r\n"), Err("trailers_too_large"));
    }

    #[test]
    fn responses_may_have_any_names() {
        let body = b"0\r\ncontent_length: c\r\n\r\n";
        let expected = Ok(Some((String::new(), "content_length: c\r\n".into(), String::new())));
        assert_eq!(decode(ChunkedDecoder::for_response(), &[body]), expected);
    }

    #[test]
    fn an_error_stays() {
        let mut decoder = ChunkedDecoder::new();
        let error = decoder.step(b"x").unwrap_err();
        assert_eq!(error, HeadError::of(Reason::BadChunkSize));
        assert_eq!(decoder.step(b"0\r\n\r\n"), Err(error));
        assert_eq!(decoder.step(b""), Err(error));
    }

    #[test]
    fn writing() {
        for (len, line) in [(1, "1\r\n"), (15, "F\r\n"), (16, "10\r\n"), (500, "1F4\r\n"), (65536, "10000\r\n")] {
            let mut out = Vec::new();
            write_chunk_head(len, &mut out);
            assert_eq!(out, line.as_bytes());
        }
        let mut out = Vec::new();
        write_chunk_head(usize::MAX, &mut out);
        assert_eq!(out, b"FFFFFFFFFFFFFFFF\r\n");
        let mut fields = Fields::new();
        fields.push(b"A", b"b");
        let mut out = Vec::new();
        write_last_chunk(Some(&fields), &mut out);
        write_last_chunk(None, &mut out);
        assert_eq!(out, b"0\r\nA: b\r\n\r\n0\r\n\r\n");
    }
}
