//! YAML 1.2 as far as bodies need it (RFC 9512), to JSON text: one document of mappings with text for names, sequences, and scalars of the core schema.
//!
//! What a reader of YAML 1.1, or a careless one, takes for something else is rejected: tags, directives, merge keys, names that are there twice (the JSON
//! reader finds them), and plain scalars such as `yes`, `012` and `1:30`. Aliases are copied, up to a bound. Knows no schema.

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::json::{is_number, push_string};
use crate::message::shown;
use crate::turn::Turn;

/// Bounds on a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) depth: usize,
    pub(crate) aliases: usize,
    /// What the body may come to as JSON.
    pub(crate) bytes: usize,
}

/// Why a body is not read.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Failed {
    Malformed(String),
    Limit(&'static str),
}

/// What is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    is_mapping: bool,
    is_first: bool,
    /// Of a mapping: a value follows, not a name.
    has_name: bool,
    anchor: usize,
    start: usize,
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    bounds: Bounds,
    open: Vec<Open>,
    /// Where in the JSON text each anchored value stands.
    anchored: Vec<(usize, std::ops::Range<usize>)>,
    aliases: usize,
    documents: usize,
}

/// Appends a body as JSON text.
pub(crate) async fn to_json(text: &str, bounds: Bounds, out: &mut Vec<u8>, turn: &Turn) -> Result<(), Failed> {
    check_text(text)?;
    let mut writer = Writer { out, bounds, open: Vec::new(), anchored: Vec::new(), aliases: 0, documents: 0 };
    let mut at = 0;
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| Failed::Malformed(format!("is not YAML: {}", error.info())))?;
        writer.take(event)?;
        turn.hold(text.len() + writer.out.capacity());
        // It may have read far ahead, but never twice.
        turn.spend_on(span.end.index().saturating_sub(at)).await;
        at = at.max(span.end.index());
    }
    match writer.documents {
        // An empty document is null.
        0 => writer.put(b"null"),
        _ => Ok(()),
    }
}

/// What readers take differently wherever it stands.
fn check_text(text: &str) -> Result<(), Failed> {
    // U+0085, U+2028 and U+2029 ended lines in YAML 1.1.
    let is_odd = |c: char| {
        (c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    if text.chars().any(is_odd) {
        return Err(malformed("holds a control character, a byte order mark or a line separator that is no line feed"));
    }
    if text.replace("\r\n", "").contains('\r') {
        return Err(malformed("holds a carriage return that no line feed follows"));
    }
    let mut is_before = true;
    for line in text.lines() {
        let content = line.trim_start_matches(' ');
        if content.starts_with('\t') && !content.trim().is_empty() {
            return Err(malformed("has a tab in the indentation of a line"));
        }
        if is_before && line.starts_with('%') {
            return Err(malformed("has a directive"));
        }
        is_before &= content.is_empty() || content.starts_with('#');
    }
    Ok(())
}

impl Writer<'_> {
    fn take(&mut self, event: Event<'_>) -> Result<(), Failed> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 { Err(malformed("holds more than one document")) } else { Ok(()) }
            }
            Event::Alias(anchor) => self.alias(anchor),
            Event::Scalar(text, style, anchor, tag) => {
                let start = match self.begin(tag.is_some(), Some((&text, style)))? {
                    Some(start) => {
                        self.scalar(&text, style)?;
                        start
                    }
                    // A name, of which there are no copies.
                    None => self.out.len(),
                };
                self.anchor(anchor, start..self.out.len())
            }
            Event::SequenceStart(anchor, tag) => self.container(anchor, tag.is_some(), false),
            Event::MappingStart(anchor, tag) => self.container(anchor, tag.is_some(), true),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                self.put(if open.is_mapping { b"}" } else { b"]" })?;
                self.anchor(open.anchor, open.start..self.out.len())
            }
        }
    }

    /// Before a value, or a name: what stands between it and the one before. Gives where a value begins; none if it was a name, which is written then.
    fn begin(&mut self, is_tagged: bool, scalar: Option<(&str, ScalarStyle)>) -> Result<Option<usize>, Failed> {
        if is_tagged {
            return Err(malformed("has a tag"));
        }
        let Some(open) = self.open.last_mut() else { return Ok(Some(self.out.len())) };
        let is_name = open.is_mapping && !open.has_name;
        let is_first = open.is_first;
        if !open.is_mapping || is_name {
            open.is_first = false;
        }
        open.has_name = is_name;
        if !is_first && (is_name || !open.is_mapping) {
            self.put(b",")?;
        }
        if !is_name {
            return Ok(Some(self.out.len()));
        }
        let Some((text, style)) = scalar else { return Err(malformed("has a name that is no text")) };
        if !matches!(style, ScalarStyle::Plain) || matches!(resolve(text)?, Plain::Text) {
            if text == "<<" && matches!(style, ScalarStyle::Plain) {
                return Err(malformed("has a merge key (`<<`), which only some readers know"));
            }
            push_string(text.as_bytes(), self.out);
            self.put(b":")?;
            return Ok(None);
        }
        Err(Failed::Malformed(format!("has the name `{}`, which is no text; quote it", shown(text.as_bytes()))))
    }

    fn container(&mut self, anchor: usize, is_tagged: bool, is_mapping: bool) -> Result<(), Failed> {
        let start = self.begin(is_tagged, None)?.unwrap_or(self.out.len());
        if self.open.len() >= self.bounds.depth {
            return Err(Failed::Limit("is nested too deeply"));
        }
        self.open.push(Open { is_mapping, is_first: true, has_name: false, anchor, start });
        self.put(if is_mapping { b"{" } else { b"[" })
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle) -> Result<(), Failed> {
        let plain = match style {
            ScalarStyle::Plain => resolve(text)?,
            _ => Plain::Text,
        };
        match plain {
            Plain::Text => {
                push_string(text.as_bytes(), self.out);
                self.put(b"")
            }
            Plain::Null => self.put(b"null"),
            Plain::Bool(value) => self.put(if value { b"true" } else { b"false" }),
            Plain::Number(number) => self.put(number.as_bytes()),
        }
    }

    fn anchor(&mut self, anchor: usize, range: std::ops::Range<usize>) -> Result<(), Failed> {
        if anchor == 0 {
            return Ok(());
        }
        if self.anchored.len() >= self.bounds.aliases {
            return Err(Failed::Limit("has too many anchors"));
        }
        self.anchored.push((anchor, range));
        Ok(())
    }

    /// Writes what an anchor stands for once more.
    fn alias(&mut self, anchor: usize) -> Result<(), Failed> {
        self.aliases += 1;
        if self.aliases > self.bounds.aliases {
            return Err(Failed::Limit("has too many aliases"));
        }
        let found = self.anchored.iter().rev().find(|(known, _)| *known == anchor).map(|(_, range)| range.clone());
        let Some(range) = found.filter(|range| !range.is_empty()) else {
            return Err(malformed("has an alias for a name, or within its own anchor"));
        };
        self.begin(false, None)?;
        // What is copied may hold copies itself: the sum is what is bounded.
        if self.out.len().saturating_add(range.len()) > self.bounds.bytes {
            return Err(Failed::Limit("comes to too many bytes with its aliases"));
        }
        self.out.extend_from_within(range);
        Ok(())
    }

    fn put(&mut self, text: &[u8]) -> Result<(), Failed> {
        self.out.extend_from_slice(text);
        match self.out.len() > self.bounds.bytes {
            true => Err(Failed::Limit("comes to too many bytes")),
            false => Ok(()),
        }
    }
}

/// What a plain scalar means to readers of YAML 1.1 and 1.2 alike.
#[derive(Debug, Eq, PartialEq)]
enum Plain {
    Null,
    Bool(bool),
    /// As JSON writes it.
    Number(String),
    Text,
}

/// The meaning of a plain scalar under the core schema (YAML 1.2.2 §10.3.2), if YAML 1.1 gives it the same.
fn resolve(text: &str) -> Result<Plain, Failed> {
    let ambiguous = || {
        let text = shown(text.as_bytes());
        Err(Failed::Malformed(format!(
            "holds `{text}`, which readers of YAML take differently; quote it if it is text"
        )))
    };
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Plain::Null),
        "true" | "True" | "TRUE" => return Ok(Plain::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Plain::Bool(false)),
        "=" | "<<" => return if text == "<<" { Ok(Plain::Text) } else { ambiguous() },
        _ => {}
    }
    const OLD: [&str; 6] = ["y", "yes", "on", "n", "no", "off"];
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_special = [".inf", ".nan"].iter().any(|special| unsigned.eq_ignore_ascii_case(special));
    if is_special || OLD.iter().any(|old| text.eq_ignore_ascii_case(old)) {
        return ambiguous();
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(Plain::Text);
    }
    if let Some(digits) = unsigned.strip_prefix("0x").filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit())) {
        // Signs are of YAML 1.1 alone.
        let is_short = !digits.is_empty() && digits.len() <= 15 && unsigned.len() == text.len();
        let value = u64::from_str_radix(digits, 16).ok().filter(|_| is_short);
        return value.map_or_else(ambiguous, |value| Ok(Plain::Number(value.to_string())));
    }
    if let Some(number) = number(text) {
        return Ok(Plain::Number(number));
    }
    if is_number_of_somebody(unsigned) { ambiguous() } else { Ok(Plain::Text) }
}

/// Whether readers of YAML 1.1 or 1.2 may see a number: octal, binary, with underscores or commas, to the base 60, with an exponent of any form.
fn is_number_of_somebody(unsigned: &str) -> bool {
    let is_of = |text: &str, other: &str| {
        text.contains(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || other.contains(c))
    };
    if let Some(digits) = unsigned.strip_prefix("0o").or_else(|| unsigned.strip_prefix("0b")) {
        return is_of(digits, "_,");
    }
    if let Some(digits) = unsigned.strip_prefix("0x") {
        return digits.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, '_' | ','));
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let is_mantissa = mantissa.split(':').all(|part| is_of(part, "_,.")) && mantissa.matches('.').count() <= 1;
    is_mantissa && is_of(exponent, "")
}

/// A number that both have, as JSON writes it: without leading zeros, and with an exponent only behind a point and with a sign.
fn number(text: &str) -> Option<String> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = unsigned.split_at(unsigned.find(['e', 'E']).unwrap_or(unsigned.len()));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(whole, rest)| (whole, Some(rest)));
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_zero_led = whole.len() > 1 && whole.starts_with('0');
    let has_sign =
        exponent.is_empty() || (exponent.get(1..2).is_some_and(|c| c == "+" || c == "-") && fraction.is_some());
    if is_zero_led || !has_sign || !is_plain(whole) || !fraction.is_none_or(is_plain) {
        return None;
    }
    let whole = match (whole, fraction) {
        ("", None | Some("")) => return None,
        ("", Some(_)) => "0",
        (digits, _) => digits,
    };
    let fraction = fraction.filter(|digits| !digits.is_empty()).map(|digits| format!(".{digits}")).unwrap_or_default();
    let written = format!("{sign}{whole}{fraction}{exponent}");
    is_number(written.as_bytes()).then_some(written)
}

fn malformed(what: &str) -> Failed {
    Failed::Malformed(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::at_once;

    const BOUNDS: Bounds = Bounds { depth: 8, aliases: 4, bytes: 1000 };

    fn read(text: &str) -> Result<String, Failed> {
        let mut out = Vec::new();
        at_once(async |turn| to_json(text, BOUNDS, &mut out, turn).await)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_all_readers_take_alike_becomes_json() {
        let rows = [
            (
                "a: 1\nb: [x, 2.50, true, null, ~, '3', \"\\u00e9\"]\n",
                r#"{"a":1,"b":["x",2.50,true,null,null,"3","é"]}"#,
            ),
            ("- a: b\n  c:\n  - d\n- []\n- {}\n", r#"[{"a":"b","c":["d"]},[],{}]"#),
            ("{\"a\": {\"b\": [1, -0.5e+3]}}", r#"{"a":{"b":[1,-0.5e+3]}}"#),
            ("---\n# c\na: |\n  x\n  y\nb: >-\n  x\n  y\n...\n", r#"{"a":"x\u000ay\u000a","b":"x y"}"#),
            ("a:\nb: +12\nc: .5\nd: 5.\ne: 0x1F\nf: -0\n", r#"{"a":null,"b":12,"c":0.5,"d":5,"e":31,"f":-0}"#),
            (
                "when: 2020-01-01\nat: 2020-01-01T10:00:00Z\nv: 1.2.3\nip: 10.0.0.1\ns: 1-2\nu: a_b\nl: 1, 2\nc: 1,x\n",
                r#"{"when":"2020-01-01","at":"2020-01-01T10:00:00Z","v":"1.2.3","ip":"10.0.0.1","s":"1-2","u":"a_b","l":"1, 2","c":"1,x"}"#,
            ),
            ("a: &x {k: [1]}\nb: *x\nc: [*x]\n", r#"{"a":{"k":[1]},"b":{"k":[1]},"c":[{"k":[1]}]}"#),
            ("a: &x 1\nb: &x 2\nc: *x\n", r#"{"a":1,"b":2,"c":2}"#),
            ("'yes': 'no'\n\"1\": '012'\n", r#"{"yes":"no","1":"012"}"#),
            ("? a\n: b\n", r#"{"a":"b"}"#),
            ("text", r#""text""#),
            ("", "null"),
            ("a\r\n", r#""a""#),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    const DIFFERENT: &[&str] = &[
        "yes",
        "No",
        "ON",
        "off",
        "y",
        "N",
        "012",
        "-012",
        "08",
        "0o14",
        "0b11",
        "1_000",
        "a: 1,000",
        "-1,000.5",
        "0x1,f",
        "0b1,1",
        "1:30",
        "8080:80",
        "1:30:15.5",
        "1e3",
        "1.5e3",
        "1E+3",
        ".inf",
        "-.INF",
        ".nan",
        "0x",
        "-0x1f",
        "0x1_f",
        "0xFFFFFFFFFFFFFFFF1",
        "=",
        "<<: {a: b}",
        "a: yes",
        "yes: a",
        "1: a",
        "true: a",
        "~: a",
        "null: a",
        "? [a]\n: b",
        "{a: b}: c",
        "!!str a",
        "!x a",
        "! a",
        "!!python/object/apply:os.system [a]",
        "a: !!binary AA==",
        "%YAML 1.1\n---\na",
        "# c\n%TAG ! a\n---\nb",
        "a\n---\nb",
        "---\na\n---\n",
        "a: *x",
        "a: &x [*x]",
        "a: &x b\n*x : c",
        "a:\n\tb: c",
        "\ta",
        "\u{feff}a",
        "a: \u{85}b",
        "a: \u{2028}b",
        "a: \u{7}",
        "a\rb",
        "[a",
        "{a: b",
        "'a",
        "\"\\q\"",
        "a: b: c",
        "@a",
        "`a",
        "- a\nb",
        "[[[[[[[[[]]]]]]]]]",
        "[&a 1, &b 1, &c 1, &d 1, &e 1]",
        "[&a 1, *a, *a, *a, *a, *a]",
    ];

    #[test]
    fn what_readers_take_differently_is_rejected() {
        for &text in DIFFERENT {
            let found = read(text);
            assert!(found.is_err(), "{text:?}: {found:?}");
        }
        // Each line doubles the one before.
        let bomb = "a: &a [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\nb: &b [*a,*a]\nc: [*b,*b]";
        assert!(read(bomb).is_ok());
        let larger = bomb.replace("[aaa", &format!("[{}", "a".repeat(200)));
        assert_eq!(read(&larger), Err(Failed::Limit("comes to too many bytes with its aliases")));
    }
}
