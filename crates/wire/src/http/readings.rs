//! The other paths that servers may take a canonical path for: what they decode, cut and merge before they look which resource it is.
//!
//! Owns which readings there are, and the form in which they are compared with patterns. Knows no route and no operation.
//!
//! An escape of a reserved character is not that character (RFC 3986 §2.2), but most frameworks decode a path before they match it, once or, behind another
//! proxy, twice. Some drop `;` parameters (§3.3), some make runs of slashes one, some end a decoded path at `?` or `#`; and each before or after
//! decoding. A server may also decode some escapes and leave others (`%2F` is left by many).
//!
//! Not each mixture needs a reading of its own. A pattern of literal text and parameters that takes a partly decoded path also takes the wholly decoded
//! one, if its own text is decoded alike ([`decoded`]): equal texts stay equal, the start of a text stays its start, and a parameter takes whatever there
//! is. So for these one reading with all decoded stands for all that leave some. That does not hold for what divides a path (slashes, `;`, `?`, `#`),
//! which is therefore decoded in each of the ways; nor for regular expressions, which get what a first and a second decoding alone
//! would give, too. What an expression says of a path of which a server decodes some reserved characters and not others is not looked at.

use super::octets::{self, PATH};
use super::percent;

/// Depth of what is decoded however often it was encoded.
const ALL: usize = usize::MAX;

/// Depths that are told apart: not decoded, decoded once, twice, as often as can be.
const DEPTHS: [usize; 4] = [0, 1, 2, ALL];

/// What the patterns are that readings are compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Patterns {
    /// Some are regular expressions.
    pub expressions: bool,
    /// Some have text that is not its own decoded form, so that a path as it stands may be one of them, too: it is among the readings.
    pub escapes: bool,
}

/// One octet of a path as it is once all is decoded.
#[derive(Debug, Clone, Copy)]
struct Token {
    octet: u8,
    /// How often it is escaped: 0 as it stands, 1 for `%3A`, 2 for `%253A`.
    depth: usize,
}

impl Token {
    /// The one at the start of `path`, and what follows it.
    fn first(path: &[u8]) -> Option<(Token, &[u8])> {
        let (&octet, after) = path.split_first()?;
        if octet != b'%' {
            return Some((Token { octet, depth: 0 }, after));
        }
        let (mut digits, mut depth) = (after, 1);
        while let Some(inner) = digits.strip_prefix(b"25") {
            (digits, depth) = (inner, depth + 1);
        }
        let inner = match digits {
            [high, low, after @ ..] => percent::decode(*high, *low).map(|octet| (octet, after)),
            _ => None,
        };
        // `%25` before what is no escape is a percent sign.
        Some(match inner {
            Some((octet, after)) => (Token { octet, depth }, after),
            None => (Token { octet: b'%', depth: depth.saturating_sub(1).max(1) }, digits),
        })
    }

    /// Whether it stands for this octet where escapes are decoded that often.
    fn is(self, octet: u8, decoded: usize) -> bool {
        self.octet == octet && self.depth <= decoded
    }

    /// Whether some server may read it as something else than it is.
    fn is_odd(self) -> bool {
        match self.depth {
            0 => self.octet == b';',
            1 => octets::is(self.octet, PATH) || matches!(self.octet, b'?' | b'#'),
            _ => true,
        }
    }

    /// Appends it as it is after that many decodings, in the canonical form of what it is then: a percent sign that came out stands as `%25`.
    fn push(self, decoded: usize, out: &mut Vec<u8>) {
        let left = self.depth.saturating_sub(decoded.max(1));
        if self.depth == 0 || (left == 0 && decoded > 0 && octets::is(self.octet, PATH) && self.octet != b'/') {
            out.push(self.octet);
            return;
        }
        out.push(b'%');
        (0..left).for_each(|_| out.extend_from_slice(b"25"));
        let at = out.len();
        percent::push(self.octet, out);
        out.remove(at);
    }
}

fn tokens(mut path: &[u8]) -> impl Iterator<Item = Token> + '_ {
    std::iter::from_fn(move || {
        let (token, after) = Token::first(path)?;
        path = after;
        Some(token)
    })
}

/// Literal text of a pattern as readings have it: escapes decoded as often as they can be, but for those of slashes and of what no path holds as it is.
pub fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    tokens(text).for_each(|token| token.push(ALL, &mut out));
    out
}

/// Whether the value of a parameter of the path, not empty as it is written, is so for a server that drops `;` parameters, before or after it decodes. A
/// path with such a value is another one there: `/;/public` is `/public`.
pub fn is_void(value: &[u8]) -> bool {
    let starts_parameter = |segment: &[u8]| tokens(segment).next().is_none_or(|first| first.octet == b';');
    let is_void = |segment: &[u8]| starts_parameter(segment) || divides_into_nothing(segment);
    !value.is_empty() && value.split(|octet| *octet == b'/').all(is_void)
}

/// Whether escaped slashes divide a segment into such as are empty or begin with `;`.
fn divides_into_nothing(segment: &[u8]) -> bool {
    let (mut is_start, mut is_cut) = (true, false);
    tokens(segment).all(|token| {
        (is_start, is_cut) = match token.octet {
            b'/' => (true, false),
            b';' if is_start => (false, true),
            _ => (false, is_cut),
        };
        is_start || is_cut
    })
}

/// How a server reads a path.
#[derive(Debug, Clone, Copy)]
struct Reader {
    /// How often text, slashes and semicolons are decoded.
    text: usize,
    slashes: usize,
    semicolons: usize,
    cut: Cut,
    merges: bool,
    /// Ends at a decoded `?` or `#`.
    ends: bool,
}

/// When `;` parameters are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Never,
    BeforeDecoding,
    AfterDecoding,
}

impl Reader {
    /// The path, in the form that [`decoded`] gives patterns.
    fn read(self, tokens: &[Token]) -> Vec<u8> {
        let mut out = Vec::with_capacity(tokens.len());
        let (slashes, semicolons) = match self.cut {
            Cut::BeforeDecoding => (0, 0),
            Cut::Never | Cut::AfterDecoding => (self.slashes, self.semicolons),
        };
        let mut is_cut = false;
        for token in tokens {
            if self.ends && matches!(token.octet, b'?' | b'#') && token.depth <= self.text {
                break;
            }
            if is_cut && !token.is(b'/', slashes) {
                continue;
            }
            is_cut = self.cut != Cut::Never && token.is(b';', semicolons);
            match token {
                _ if is_cut => {}
                token if token.is(b'/', self.slashes) => {
                    if !(self.merges && out.ends_with(b"/")) {
                        out.push(b'/');
                    }
                }
                token => token.push(self.text, &mut out),
            }
        }
        out
    }
}

/// The paths that servers may read a canonical path as, beside itself, each once and in the form that [`decoded`] gives patterns. Allocates nothing where
/// there is none. At most a few dozen, and more than four only for paths that have semicolons or slashes escaped, and something else.
pub fn readings(path: &[u8], patterns: Patterns) -> Vec<Vec<u8>> {
    let has_runs = memchr::memmem::find(path, b"//").is_some();
    if !has_runs && !patterns.escapes && !tokens(path).any(Token::is_odd) {
        return Vec::new();
    }
    let tokens: Vec<Token> = tokens(path).collect();
    let (slashes, semicolons) = (depths(&tokens, b"/"), depths(&tokens, b";"));
    let has = |octets: &[u8]| tokens.iter().any(|token| octets.contains(&token.octet));
    let texts = match tokens.iter().map(|token| token.depth).max() {
        Some(2..) if patterns.expressions => &[ALL, 1, 2][..],
        _ => &[ALL],
    };
    let mut cuts = vec![(Cut::Never, 0)];
    if has(b";") {
        cuts.push((Cut::BeforeDecoding, 0));
        cuts.extend(semicolons.iter().map(|depth| (Cut::AfterDecoding, *depth)));
    }
    let may_merge = has_runs || has(b";") || slashes.len() > 1;
    let merging = if may_merge { &[false, true][..] } else { &[false] };
    let ending = if has(b"?#") { &[false, true][..] } else { &[false] };
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut add = |reader: Reader| {
        let reading = reader.read(&tokens);
        if (patterns.escapes || reading != path) && !found.contains(&reading) {
            found.push(reading);
        }
    };
    for &text in texts {
        for &slashes in slashes {
            for &(cut, semicolons) in &cuts {
                for &merges in merging {
                    for &ends in ending {
                        add(Reader { text, slashes, semicolons, cut, merges, ends });
                    }
                }
            }
        }
    }
    found
}

/// A path with all its reserved characters but slashes escaped, for expressions that spell escapes; none where it has no such character.
pub fn escaped(path: &[u8]) -> Option<Vec<u8>> {
    let is_reserved = |octet: u8| octet != b'/' && octets::is(octet, PATH) && !octets::is(octet, octets::UNRESERVED);
    path.iter().any(|octet| is_reserved(*octet)).then(|| {
        let mut out = Vec::with_capacity(path.len());
        path.iter()
            .for_each(|octet| if is_reserved(*octet) { percent::push(*octet, &mut out) } else { out.push(*octet) });
        out
    })
}

/// The numbers of decodings that make a difference for one of these octets.
fn depths(tokens: &[Token], octets: &[u8]) -> &'static [usize] {
    let of_these = tokens.iter().filter(|token| octets.contains(&token.octet));
    let deepest = of_these.map(|token| token.depth).max().unwrap_or_default();
    DEPTHS.get(..=deepest).unwrap_or(&DEPTHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Vec<String> {
        let readings = readings(path.as_bytes(), Patterns::default());
        readings.into_iter().map(|reading| String::from_utf8(reading).unwrap_or_default()).collect()
    }

    #[test]
    fn values_that_are_empty_elsewhere() {
        for void in [
            ";",
            ";a",
            ";a=b;c",
            "%3B",
            "%3Ba",
            "%253B",
            "%253b",
            "%2F",
            "%2F;a",
            ";a%2F",
            "%2F%3Bx",
            ";%2F;",
            ";%2Fa",
            "%3Ba%2Fb",
            "%252f%25253b",
        ] {
            assert!(is_void(void.as_bytes()), "{void}");
        }
        for value in ["", "a", "a;", "a%3B", "%2Fa", "%20", "-;", ";a/b", "%2Fa;"] {
            assert!(!is_void(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn paths_as_other_servers_read_them() {
        let rows: [(&str, &[&str]); 26] = [
            ("/", &[]),
            ("/a/b:@!$&'()*+,=", &[]),
            ("/a%20b/%C3%A9%25%5B%7C", &[]),
            ("//", &["/"]),
            ("//a", &["/a"]),
            ("/a//b///c", &["/a/b/c"]),
            ("/a;b", &["/a"]),
            ("/a;b=c;d/e;f", &["/a/e"]),
            ("/;a/b", &["//b", "/b"]),
            ("/a/;b", &["/a/"]),
            ("/a%3Ab", &["/a:b"]),
            ("/%40a/%2B%24%26%27%28%29%2A%2C%3D%21", &["/@a/+$&'()*,=!"]),
            ("/a%253ab", &["/a:b"]),
            ("/a%25253Ab%253A", &["/a:b:"]),
            ("/a%2520%2525%25", &["/a%20%25%25"]),
            ("/a%20b%3Ac", &["/a%20b:c"]),
            ("/a%3Bb", &["/a;b", "/a"]),
            ("/a%253bb", &["/a;b", "/a"]),
            ("/a%2Fb", &["/a/b"]),
            ("/a%252fb", &["/a%2Fb", "/a/b"]),
            ("/a%2F%252fb", &["/a%2F%2Fb", "/a/%2Fb", "/a//b", "/a/b"]),
            ("/a;%2Fb/c", &["/a;%2Fb/c", "/a/c", "/a;/b/c", "/a/b/c"]),
            ("/a;b%3Bc", &["/a;b;c", "/a"]),
            ("/a%3Bb;c", &["/a;b;c", "/a;b", "/a"]),
            ("/a%3Fb%23c", &["/a"]),
            ("/a%3Ab%253Fc", &["/a:b%3Fc", "/a:b"]),
        ];
        for (path, expected) in rows {
            let expected: Vec<&str> = expected.iter().copied().filter(|reading| *reading != path).collect();
            assert_eq!(read(path), expected, "{path}");
        }
    }

    #[test]
    fn expressions_get_what_one_decoding_and_two_would_give() {
        let patterns = Patterns { expressions: true, escapes: false };
        let once_and_twice = readings(b"/a%25253Ab%3A", patterns);
        assert_eq!(once_and_twice, [&b"/a:b:"[..], b"/a%25253Ab:", b"/a%253Ab:"]);
        assert_eq!(readings(b"/a:b", Patterns { escapes: true, ..patterns }), [b"/a:b"]);
        assert_eq!(escaped(b"/a:b/%3A@"), Some(b"/a%3Ab/%3A%40".to_vec()));
        assert_eq!(escaped(b"/a/b-%20"), None);
    }

    #[test]
    fn text_of_patterns_is_decoded_alike() {
        for (text, expected) in [
            ("a%3Ab", "a:b"),
            ("a b", "a b"),
            ("%253a", ":"),
            ("%20%25", "%20%25"),
            ("a%2Fb", "a%2Fb"),
            ("%C3%A9", "%C3%A9"),
        ] {
            assert_eq!(decoded(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
