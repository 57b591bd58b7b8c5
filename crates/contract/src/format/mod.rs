//! `format` as an assertion on strings. Formats not listed here say nothing; numbers' formats are bounds and stand with the numbers.

mod clock;
mod name;
mod uri;

use crate::json::Text;

/// A format with a test of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Format {
    /// RFC 3339 §5.6 `date-time`.
    DateTime,
    /// RFC 3339 §5.6 `full-date`.
    Date,
    /// RFC 3339 §5.6 `full-time`.
    Time,
    /// RFC 3339 appendix A.
    Duration,
    /// RFC 5321 §4.1.2 `Mailbox`.
    Email,
    /// The same with letters beyond ASCII (RFC 6531).
    IdnEmail,
    /// RFC 1123 §2.1.
    Hostname,
    /// The same with letters beyond ASCII, as IDNA has them.
    IdnHostname,
    /// Dotted decimal.
    Ipv4,
    /// RFC 4291 §2.2.
    Ipv6,
    /// RFC 3986, absolute.
    Uri,
    /// RFC 3986.
    UriReference,
    /// RFC 3987, absolute.
    Iri,
    /// RFC 3987.
    IriReference,
    /// RFC 6570.
    UriTemplate,
    /// RFC 4122.
    Uuid,
    /// Base64 (RFC 4648 §4), padded.
    Byte,
    /// RFC 6901.
    JsonPointer,
    /// Relative JSON Pointers.
    RelativeJsonPointer,
    /// ECMA-262 pattern.
    Regex,
    /// `date-time` whose offset may be missing.
    LocalDateTime,
    /// `time` whose offset may be missing.
    LocalTime,
    /// `duration` that may end in a fraction of a second.
    FractionalDuration,
}

/// The formats by the names that documents give them.
const NAMED: [(&str, Format); 20] = [
    ("date-time", Format::DateTime),
    ("date", Format::Date),
    ("time", Format::Time),
    ("duration", Format::Duration),
    ("email", Format::Email),
    ("idn-email", Format::IdnEmail),
    ("hostname", Format::Hostname),
    ("idn-hostname", Format::IdnHostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("uri", Format::Uri),
    ("uri-reference", Format::UriReference),
    ("iri", Format::Iri),
    ("iri-reference", Format::IriReference),
    ("uri-template", Format::UriTemplate),
    ("uuid", Format::Uuid),
    ("byte", Format::Byte),
    ("json-pointer", Format::JsonPointer),
    ("relative-json-pointer", Format::RelativeJsonPointer),
    ("regex", Format::Regex),
];

/// The names of all that `format` may assert: those of strings, and those of integers, which the bounds of a number stand for.
pub const NAMES: [&str; 22] = {
    let mut names = ["int32"; 22];
    let mut at = 0;
    while at < NAMED.len() {
        names[at] = NAMED[at].0;
        at += 1;
    }
    names[at + 1] = "int64";
    names
};

impl Format {
    /// The format of that name, if it asserts anything.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// What documents call it.
    pub fn name(self) -> &'static str {
        let named = NAMED.iter().find(|(_, format)| *format == self || format.lenient() == self);
        named.map(|(name, _)| *name).unwrap_or_default()
    }

    /// What is meant by those who write times without offset and durations with fractions; other formats as they are.
    #[must_use]
    pub fn lenient(self) -> Self {
        match self {
            Self::DateTime => Self::LocalDateTime,
            Self::Time => Self::LocalTime,
            Self::Duration => Self::FractionalDuration,
            other => other,
        }
    }

    /// Whether a string has this format. Takes time linear in the string.
    pub fn is_match(self, text: Text<'_>) -> bool {
        let bytes = text.bytes;
        match self {
            Self::DateTime => clock::is_date_time(bytes),
            Self::Date => clock::is_date(bytes),
            Self::Time => clock::is_time(bytes),
            Self::Duration => clock::is_duration(bytes),
            Self::Email => text.is_ascii && name::is_email(bytes, false),
            Self::IdnEmail => name::is_email(bytes, true),
            Self::Hostname => text.is_ascii && name::is_hostname(bytes, false),
            Self::IdnHostname => name::is_hostname(bytes, true),
            Self::Ipv4 => name::is_ipv4(bytes),
            Self::Ipv6 => name::is_ipv6(bytes),
            Self::Uri => text.is_ascii && uri::is_uri(bytes),
            Self::UriReference => text.is_ascii && uri::is_reference(bytes),
            Self::Iri => uri::is_uri(bytes),
            Self::IriReference => uri::is_reference(bytes),
            Self::UriTemplate => uri::is_template(bytes),
            Self::Uuid => is_uuid(bytes),
            Self::Byte => is_base64(bytes),
            Self::JsonPointer => is_json_pointer(bytes),
            Self::RelativeJsonPointer => is_relative_json_pointer(bytes),
            Self::LocalDateTime => clock::is_date_time(bytes) || clock::with_offset(bytes, clock::is_date_time),
            Self::LocalTime => clock::is_time(bytes) || clock::with_offset(bytes, clock::is_time),
            Self::FractionalDuration => clock::is_duration(bytes) || clock::is_fractional_duration(bytes),
            Self::Regex => std::str::from_utf8(bytes).is_ok_and(crate::pattern::is_pattern),
        }
    }
}

fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, &byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Appends what padded base64 stands for; false if it is none.
pub(crate) fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> bool {
    if text.is_empty() || !is_base64(text) {
        return false;
    }
    for group in text.chunks_exact(4) {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => u32::from(byte - b'A'),
            b'a'..=b'z' => u32::from(byte - b'a') + 26,
            b'0'..=b'9' => u32::from(byte - b'0') + 52,
            b'+' => 62,
            b'/' => 63,
            _ => 0,
        };
        let bits = group.iter().fold(0, |bits, &byte| bits << 6 | digit(byte));
        let padding = group.iter().filter(|&&byte| byte == b'=').count();
        out.extend_from_slice(bits.to_be_bytes().get(1..4 - padding).unwrap_or_default());
    }
    true
}

fn is_base64(text: &[u8]) -> bool {
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    text.len().is_multiple_of(4)
        && digits.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_json_pointer(text: &[u8]) -> bool {
    let mut escapes = text.split(|&byte| byte == b'~').skip(1);
    matches!(text.first(), None | Some(b'/')) && escapes.all(|rest| matches!(rest.first(), Some(b'0' | b'1')))
}

fn is_relative_json_pointer(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &text[digits..];
    digits > 0 && (digits == 1 || text[0] != b'0') && (rest == b"#" || is_json_pointer(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, what has the format, what has not.
    type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

    const ROWS: &[Row] = &[
        (
            "date-time",
            &[
                "2024-02-29T23:59:60Z",
                "1985-04-12t23:20:50.52z",
                "1990-12-31T15:59:60-08:00",
                "2020-01-01T00:00:00+23:59",
            ],
            &[
                "2023-02-29T00:00:00Z",
                "2020-01-01 00:00:00Z",
                "2020-01-01T24:00:00Z",
                "2020-01-01T00:00:00",
                "2020-01-01T00:00:00.Z",
                "2020-01-01T12:00:60Z",
                "2020-1-01T00:00:00Z",
                "2020-01-01T00:00:00+24:00",
            ],
        ),
        ("date", &["2000-02-29", "0000-01-01"], &["1900-02-29", "2020-13-01", "2020-04-31", "2020-00-10", "20200101"]),
        ("time", &["08:30:06Z", "08:30:06.28-01:00"], &["08:30:06", "8:30:06Z", "23:60:00Z"]),
        (
            "duration",
            &["P4DT12H30M5S", "P1Y", "PT1M", "P2W", "P1Y2M3D", "PT36H"],
            &["", "P", "PT", "P1", "P1D2H", "P1YT", "P2W1D", "PT1D", "P2S", "4DT", "P1Y2W", "P1Y3D", "PT1H3S"],
        ),
        (
            "email",
            &[
                "a@b",
                "joe.bloggs@example.com",
                "te~st@example.com",
                "\"joe bloggs\"@example.com",
                "a@[127.0.0.1]",
                "a@[IPv6:::1]",
            ],
            &["a", "@b", "a@", ".a@b.c", "a.@b.c", "a..b@c.d", "a@b@c", "a@-b", "é@b.c"],
        ),
        ("idn-email", &["実例@実例.テスト"], &["2962"]),
        (
            "hostname",
            &["www.example.com", "a", "xn--4gbwdl.xn--wgbh1c", "1.a"],
            &[
                "",
                "-a",
                "a-",
                "a_b",
                ".a",
                "a..b",
                "a.",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            ],
        ),
        ("ipv4", &["127.0.0.1"], &["127.0.0.01", "256.1.1.1", "1.2.3", "1.2.3.4.5", "1.2.3.4\n"]),
        ("ipv6", &["::1", "1:2:3:4:5:6:1.2.3.4"], &["12345::", "::1%eth0", "1:2", "fe80::/64"]),
        (
            "uri",
            &["http://a.b/c?d=e#f", "urn:a:b", "mailto:a@b.c", "http://[::1]:80/", "a:"],
            &[
                "//a/b",
                "/a",
                "a b",
                "http://a b",
                "\\\\w",
                "http://a:b",
                "http://[:::1]",
                "1a:b",
                ":b",
                "http://a/%zz",
                "http://a/<",
            ],
        ),
        ("uri-reference", &["", "/a", "//a", "#f", "a/b", "?q"], &["\\\\a", "#a\\b", ":a"]),
        ("iri", &["http://ƒøø.ßår/?∂éœ=πîx"], &["ƒøø"]),
        ("uri-template", &["http://a/{b}/{c:3}{?d,e*}"], &["{a", "a}", "{a{b}}"]),
        (
            "uuid",
            &["2EB8AA08-aa98-11ea-b4aa-73b441d16380"],
            &["2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"],
        ),
        ("byte", &["", "YQ==", "YWI=", "YWJj", "+/8="], &["YQ=", "YQ", "Y===", "Y-=="]),
        ("json-pointer", &["", "/", "/a~0~1"], &["a", "/~", "/~2"]),
        ("relative-json-pointer", &["0#", "1/a", "10"], &["", "01", "/a", "-1/a", "0##"]),
        ("regex", &["^a(b|c)\\d$"], &["^(a", "[b-a]", "\\a"]),
    ];

    #[test]
    fn lenient_times_lack_offsets_and_have_fractions() {
        let rows: &[Row] = &[
            (
                "date-time",
                &[
                    "2026-01-01T10:00:00",
                    "2026-01-01T10:00:00.123",
                    "2026-01-01T10:00:00Z",
                    "2026-01-01T10:00:00+01:00",
                ],
                &[
                    "2026-01-01",
                    "2026-01-01T25:00:00",
                    "2026-01-01T10:00",
                    "2026-01-01T10:00:00.",
                    "2026-01-01T10:00:00+1",
                    "",
                ],
            ),
            ("time", &["09:00:00", "09:00:00.5", "09:00:00Z"], &["9:00", "09:00:60", "24:00:00", ""]),
            (
                "duration",
                &["PT1.5S", "P1DT0.25S", "PT1S", "P2W"],
                &["PT.5S", "PT1.S", "P1.5D", "PT1.5", "PT1.5M", "1.5S"],
            ),
            ("uuid", &[], &["x"]),
        ];
        for (name, yes, no) in rows {
            let format = Format::from_name(name).unwrap().lenient();
            yes.iter().for_each(|text| assert!(format.is_match(Text::new(text)), "{name}: {text:?}"));
            no.iter().for_each(|text| assert!(!format.is_match(Text::new(text)), "{name}: not {text:?}"));
        }
    }

    #[test]
    fn formats_hold_at_their_edges() {
        for (name, yes, no) in ROWS {
            let format = Format::from_name(name).unwrap();
            for text in *yes {
                assert!(format.is_match(Text::new(text)), "{name}: {text:?}");
            }
            for text in *no {
                assert!(!format.is_match(Text::new(text)), "{name}: not {text:?}");
            }
        }
    }
}
