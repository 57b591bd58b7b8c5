//! Content-Type (RFC 9110 §8.3.1): parsing, and the choice among the media types that an operation declares.
//!
//! Owns syntax and precedence. Does not know what a reader makes of a body.

/// Parameters of one Content-Type that are looked at.
const MAX_PARAMETERS: usize = 16;

/// A Content-Type as sent, split and checked. Borrowed; comparisons ignore case where RFC 9110 says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType<'a> {
    /// The type, as sent.
    pub kind: &'a str,
    /// The subtype, as sent.
    pub subtype: &'a str,
    /// Parameters: names as sent, values unquoted.
    pub parameters: Vec<(&'a str, String)>,
}

/// A media type or range that a document declares, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRange {
    /// The type, or `*`.
    pub kind: String,
    /// The subtype, or `*`.
    pub subtype: String,
    /// Parameters that must be there with these values.
    pub parameters: Vec<(String, String)>,
}

impl<'a> ContentType<'a> {
    /// Parses a field value. None if it is no media type, if a parameter is repeated or continued (`charset*`, RFC 8187, which RFC 9110 §5.6.6 leaves
    /// to each field and this one does not know), or if there are more than 16.
    pub fn parse(value: &'a [u8]) -> Option<ContentType<'a>> {
        let text = std::str::from_utf8(value).ok()?;
        let (kind, rest) = token(text.trim_start_matches([' ', '\t']))?;
        let (subtype, mut rest) = token(rest.strip_prefix('/')?)?;
        if kind == "*" || subtype == "*" {
            return None;
        }
        let mut parameters: Vec<(&str, String)> = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\t']);
            let Some(after) = rest.strip_prefix(';') else { break };
            rest = after.trim_start_matches([' ', '\t']);
            if rest.is_empty() || rest.starts_with(';') {
                continue;
            }
            let (name, value, after) = parameter(rest)?;
            // `charset*=utf-8''utf-7` is a charset to some readers and nothing to others.
            if name.contains('*')
                || parameters.len() == MAX_PARAMETERS
                || parameters.iter().any(|(seen, _)| seen.eq_ignore_ascii_case(name))
            {
                return None;
            }
            parameters.push((name, value));
            rest = after;
        }
        rest.is_empty().then_some(ContentType { kind, subtype, parameters })
    }

    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the text is said to be UTF-8, or a subset of it, or nothing is said.
    pub fn is_utf8(&self) -> bool {
        self.parameter("charset").is_none_or(is_utf8)
    }
}

impl MediaRange {
    /// Parses a key of a `content` map.
    pub fn parse(text: &str) -> Option<MediaRange> {
        let text = text.trim();
        let (essence, _) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subtype) = essence.trim().split_once('/')?;
        let is_range = subtype == "*";
        if (kind == "*" && !is_range) || !(kind == "*" || is_token(kind)) || !(is_range || is_token(subtype)) {
            return None;
        }
        let parameters = match is_range {
            true => Vec::new(),
            false => ContentType::parse(text.as_bytes())?
                .parameters
                .into_iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .collect(),
        };
        Some(MediaRange { kind: kind.to_ascii_lowercase(), subtype: subtype.to_ascii_lowercase(), parameters })
    }

    /// How well this range fits, higher is better; none if it does not. Exact with parameters, exact, exact but for parameters that make no difference,
    /// `type/*+suffix`, `type/*`, `*/*`.
    pub fn fit(&self, sent: &ContentType<'_>) -> Option<u8> {
        // Most of what is sent is in lower case, and compared at once.
        let is = |own: &str, sent: &str| own == sent || own.eq_ignore_ascii_case(sent);
        let kind_fits = is(&self.kind, sent.kind);
        match (self.kind.as_str(), self.subtype.as_str()) {
            ("*", _) => return Some(0),
            (_, "*") => return kind_fits.then_some(1),
            (_, subtype) if kind_fits && is(subtype, sent.subtype) => {}
            // ASP.NET writes `application/*+json`.
            (_, subtype) => {
                let suffix = subtype.strip_prefix('*').filter(|suffix| suffix.starts_with('+'))?;
                let at = sent.subtype.len().checked_sub(suffix.len()).filter(|at| *at > 0)?;
                return (kind_fits && is(suffix, sent.subtype.get(at..)?)).then_some(2);
            }
        }
        let mut exact = 0;
        for (name, value) in &self.parameters {
            match sent.parameter(name) {
                Some(sent) if sent.eq_ignore_ascii_case(value) => exact += 1,
                sent if self.is_no_difference(name, value, sent) => {}
                _ => return None,
            }
        }
        let is_missing = |(name, _): &&(String, String)| sent.parameter(name).is_none();
        let is_other = |(name, _): &(String, String)| !matches!(name.as_str(), "charset" | "boundary");
        Some(
            match (usize::from(exact) == self.parameters.len(), self.parameters.iter().filter(is_missing).any(is_other))
            {
                (true, _) => EXACT.saturating_add(exact),
                (false, false) => EXACT - 1,
                (false, true) => INEXACT,
            },
        )
    }

    /// Whether a parameter of the document makes no difference that is missing from what is sent, or there with another value: one that the registration
    /// of the media type does not have (RFC 8259 §11: JSON has none), the charset that is the only one read here, a boundary, which each message
    /// has of its own.
    fn is_no_difference(&self, name: &str, value: &str, sent: Option<&str>) -> bool {
        let (kind, subtype) = (self.kind.as_str(), self.subtype.as_str());
        let is_json = (matches!(kind, "application" | "text") && subtype == "json") || subtype.ends_with("+json");
        let is_form = kind == "application" && subtype == "x-www-form-urlencoded";
        match name {
            "boundary" => kind == "multipart",
            "charset" => is_json || is_form || is_utf8(value),
            // Somebody distinguishes versions by it.
            _ => sent.is_none() && (is_form || (is_json && subtype == "json")),
        }
    }

    /// Whether this stands for more than one media type.
    pub fn is_range(&self) -> bool {
        self.subtype == "*"
    }
}

/// How well a media type fits that is the same, without parameters.
const EXACT: u8 = 5;

/// How well one fits that lacks a parameter by which somebody may distinguish it. Of several such, none is meant.
pub(crate) const INEXACT: u8 = 3;

fn is_utf8(charset: &str) -> bool {
    ["utf-8", "utf8", "us-ascii"].iter().any(|name| charset.eq_ignore_ascii_case(name))
}

/// One parameter at the start of `text`, and what follows it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.split_once('=')?;
    if !is_token(name) {
        return None;
    }
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([';', ' ', '\t']).unwrap_or(rest.len());
        let (value, rest) = rest.split_at(end);
        return is_token(value).then(|| (name, value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, value, quoted.get(at + 1..)?)),
            // Readers differ about escapes that are not needed.
            '\\' => value.push(chars.next().map(|(_, c)| c).filter(|c| matches!(c, '"' | '\\'))?),
            c if c != '\t' && c.is_control() => return None,
            c => value.push(c),
        }
    }
    None
}

/// The token at the start of `text`, and what follows it. None if there is none.
fn token(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(token, _)| !token.is_empty())
}

/// RFC 9110 §5.6.2.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    TOKEN_BYTES.get(usize::from(byte)).is_some_and(|is_one| *is_one)
}

/// Which bytes a token is made of (RFC 9110 §5.6.2).
static TOKEN_BYTES: [bool; 256] = token_bytes();

const fn token_bytes() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types() {
        let parsed = |text: &'static str| {
            ContentType::parse(text.as_bytes()).map(|parsed| {
                let parameters: Vec<_> =
                    parsed.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{}/{} {}", parsed.kind, parsed.subtype, parameters.join(" "))
            })
        };
        let rows = [
            ("application/json", Some("application/json ")),
            (" application/json ; charset=utf-8", Some("application/json charset=utf-8")),
            ("text/plain;charset=\"utf-8\"", Some("text/plain charset=utf-8")),
            ("text/plain;charset=\"utf\\-8\"", None),
            ("text/plain;a=\"\\\"\\\\\"", Some("text/plain a=\"\\")),
            ("text/plain;charset*=utf-8''utf-7", None),
            ("text/plain;;charset=a;", Some("text/plain charset=a")),
            ("multipart/form-data; boundary=\"a b\"", Some("multipart/form-data boundary=a b")),
            ("application/json, text/html", None),
            ("application/json; charset=a; CHARSET=b", None),
            ("application", None),
            ("application/", None),
            ("*/*", None),
            ("text/plain; charset", None),
            ("text/plain; charset=\"a", None),
            ("text/plain; charset = a", None),
            ("text/plain charset=a", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parsed(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_most_exact_range_wins() {
        let fit = |range: &str, sent: &'static str| {
            MediaRange::parse(range).unwrap().fit(&ContentType::parse(sent.as_bytes()).unwrap())
        };
        let rows = [
            ("application/json", "Application/JSON; charset=utf-8", Some(5)),
            ("application/json; charset=utf-8", "application/json; charset=UTF-8", Some(6)),
            ("application/json; charset=utf-8", "application/json", Some(4)),
            ("application/json; charset=utf-8", "application/json; charset=us-ascii", Some(4)),
            ("application/json; odata=verbose", "application/json", Some(3)),
            ("application/json; odata=verbose", "application/json; odata=minimal", None),
            ("application/problem+json; charset=utf-8", "application/problem+json", Some(4)),
            ("application/vnd.a+json; version=1", "application/vnd.a+json", None),
            ("application/x-www-form-urlencoded; charset=UTF-8", "application/x-www-form-urlencoded", Some(4)),
            ("multipart/form-data; boundary=a", "multipart/form-data; boundary=b", Some(4)),
            ("text/plain; charset=utf-8", "text/plain", Some(4)),
            ("text/plain; charset=iso-8859-1", "text/plain", None),
            ("text/html; level=1", "text/html", None),
            ("application/*+json", "application/hal+json", Some(2)),
            ("application/*+json", "application/HAL+JSON; charset=utf-8", Some(2)),
            ("application/*+json", "application/json", None),
            ("application/*+json", "application/+json", None),
            ("application/*+json", "text/a+json", None),
            ("application/*+xml", "application/hal+json", None),
            ("application/*", "application/json", Some(1)),
            ("*/*", "image/png", Some(0)),
            ("text/*", "application/json", None),
            ("application/json", "application/json5", None),
        ];
        for (range, sent, expected) in rows {
            assert_eq!(fit(range, sent), expected, "{range} {sent}");
        }
        for bad in ["json", "*/json", "a/b; c", "a b/c", ""] {
            assert_eq!(MediaRange::parse(bad), None, "{bad}");
        }
    }
}
