//! The grammar of ECMA-262 patterns (§22.2.1, with the Unicode flag, and the leniency of annex B for escapes that cannot mean anything else).
//! Gives a tree without groups. `pattern` has no flags beside it; those within it (`(?i:…)` of ECMA-262, and `(?i)` up to the end of its group, which
//! others have) become part of the sets. Validates nothing about cost.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// How deep groups may nest.
const MAX_DEPTH: usize = 200;

const HALF: &str = "half of a surrogate pair";

/// A part of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// One character of a set.
    One(ClassUnicode),
    Start,
    End,
    WordBoundary {
        is_negated: bool,
    },
    Repeat {
        part: Box<Part>,
        min: u32,
        max: Option<u32>,
    },
    Sequence(Vec<Part>),
    Either(Vec<Part>),
    Look {
        is_ahead: bool,
        is_negated: bool,
        part: Box<Part>,
    },
    /// To something matched before; its place in the pattern.
    BackReference(usize),
}

/// The alternatives at the top.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, String> {
    let mut parser = Parser { text: text.chars().collect(), at: 0, depth: 0, flags: Flags::default() };
    let parts = parser.alternatives()?;
    if parser.at < parser.text.len() { Err(parser.error("an unmatched )")) } else { Ok(parts) }
}

/// Whether the text follows the grammar.
pub(super) fn is_valid(text: &str) -> bool {
    parse(text).is_ok()
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
    flags: Flags,
}

/// What flags within the pattern ask for.
#[derive(Clone, Copy, Default)]
struct Flags {
    /// Upper and lower case are the same.
    ignores_case: bool,
    /// `.` is any character.
    dot_is_all: bool,
}

/// What an escape or a class member is.
enum Atom {
    Letter(char),
    /// Half of a surrogate pair: text that is UTF-8 has none, so it stands for nothing, and for an end of a range.
    Half(u32),
    Set(ClassUnicode),
}

impl Atom {
    /// Its code point, if it is one.
    fn code(&self) -> Option<u32> {
        match self {
            Atom::Letter(c) => Some(u32::from(*c)),
            Atom::Half(code) => Some(*code),
            Atom::Set(_) => None,
        }
    }
}

impl Parser {
    fn error(&self, what: &str) -> String {
        format!("{what} at character {}", self.at + 1)
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn starts_with(&self, wanted: &str) -> bool {
        wanted.chars().enumerate().all(|(offset, c)| self.text.get(self.at + offset) == Some(&c))
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let found = self.starts_with(wanted);
        if found {
            self.at += wanted.chars().count();
        }
        found
    }

    fn alternatives(&mut self) -> Result<Vec<Part>, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("groups nest too deep"));
        }
        let mut alternatives = vec![self.sequence()?];
        while self.eat("|") {
            alternatives.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(alternatives)
    }

    fn sequence(&mut self) -> Result<Part, String> {
        let mut parts = Vec::new();
        while let Some(c) = self.peek().filter(|c| !matches!(c, '|' | ')')) {
            let part = self.part(c)?;
            let part = self.quantified(part)?;
            parts.push(part);
        }
        Ok(Part::Sequence(parts))
    }

    fn part(&mut self, c: char) -> Result<Part, String> {
        match c {
            '(' => self.group(),
            '[' => self.class().map(Part::One),
            '\\' => self.escape(),
            '*' | '+' | '?' => Err(self.error("nothing to repeat")),
            '{' | '}' | ']' if self.is_quantifier() => Err(self.error("nothing to repeat")),
            _ => {
                self.at += 1;
                Ok(match c {
                    '^' => Part::Start,
                    '$' => Part::End,
                    '.' if self.flags.dot_is_all => Part::One(maybe_not(ClassUnicode::empty(), true)),
                    '.' => Part::One(not_line_end()),
                    _ => Part::One(self.cased(letter(c))),
                })
            }
        }
    }

    fn is_quantifier(&mut self) -> bool {
        let start = self.at;
        let found = matches!(self.braces(), Ok(Some(_)));
        self.at = start;
        found
    }

    fn quantified(&mut self, part: Part) -> Result<Part, String> {
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => match self.braces()? {
                Some(bounds) => {
                    self.at -= 1;
                    bounds
                }
                // Annex B: a brace that is no quantifier stands for itself.
                None => return Ok(part),
            },
            _ => return Ok(part),
        };
        self.at += 1;
        self.eat("?");
        if matches!(part, Part::Start | Part::End | Part::WordBoundary { .. } | Part::Look { .. }) {
            return Err(self.error("an assertion cannot be repeated"));
        }
        if matches!(self.peek(), Some('*' | '+' | '?')) {
            return Err(self.error("nothing to repeat"));
        }
        Ok(Part::Repeat { part: Box::new(part), min, max })
    }

    /// `{m}`, `{m,}`, `{m,n}`; stands behind it afterwards. `None`: something else, and stands where it was.
    fn braces(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let start = self.at;
        if !self.eat("{") {
            return Ok(None);
        }
        let min = self.digits();
        let max = if self.eat(",") { Some(self.digits()) } else { None };
        let Some(min) = min.filter(|_| self.eat("}")) else {
            self.at = start;
            return Ok(None);
        };
        let max = match max {
            None => Some(min),
            Some(max) => max,
        };
        if max.is_some_and(|max| max < min) {
            return Err(self.error("a range of repetitions out of order"));
        }
        Ok(Some((min, max)))
    }

    fn digits(&mut self) -> Option<u32> {
        let mut value = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            value = Some(value.unwrap_or(0u32).saturating_mul(10).saturating_add(digit));
            self.at += 1;
        }
        value
    }

    /// The set with what differs in case only, where that is asked for.
    fn cased(&self, mut set: ClassUnicode) -> ClassUnicode {
        if self.flags.ignores_case && set.try_case_fold_simple().is_err() {
            set = maybe_not(ClassUnicode::empty(), true);
        }
        set
    }

    /// Flags right behind `(?`: `i`, `s`, and after a `-` those that no longer hold. None, and nothing read, if there are none.
    fn flags(&mut self) -> Result<Option<Flags>, String> {
        let (start, mut flags, mut value, mut seen) = (self.at, self.flags, true, Vec::new());
        while let Some(c) = self.peek().filter(|c| matches!(c, 'i' | 's' | '-')) {
            if seen.contains(&c) {
                return Err(self.error("a flag that is there twice"));
            }
            seen.push(c);
            self.at += 1;
            match c {
                'i' => flags.ignores_case = value,
                's' => flags.dot_is_all = value,
                _ => value = false,
            }
        }
        let is_read = !seen.is_empty() && matches!(self.peek(), Some(':' | ')'));
        if !is_read {
            self.at = start;
        }
        Ok(is_read.then_some(flags))
    }

    fn group(&mut self) -> Result<Part, String> {
        let outer = self.flags;
        let part = self.group_within();
        // `(?i)` holds up to the end of the group that it stands in.
        if !matches!(part, Ok(None)) {
            self.flags = outer;
        }
        part.map(|part| part.unwrap_or(Part::Sequence(Vec::new())))
    }

    /// None: no group, but flags for what follows.
    fn group_within(&mut self) -> Result<Option<Part>, String> {
        let look = |is_ahead, is_negated| Some((is_ahead, is_negated));
        let mut around = None;
        if self.eat("(?=") {
            around = look(true, false);
        } else if self.eat("(?!") {
            around = look(true, true);
        } else if self.eat("(?<=") {
            around = look(false, false);
        } else if self.eat("(?<!") {
            around = look(false, true);
        } else if self.eat("(?<") {
            self.group_name()?;
        } else if !self.eat("(?:") {
            self.at += 1;
            if self.eat("?") {
                let Some(flags) = self.flags()? else { return Err(self.error("an unknown kind of group")) };
                self.flags = flags;
                if self.eat(")") {
                    return match self.peek() {
                        Some('*' | '+' | '?') => Err(self.error("nothing to repeat")),
                        _ => Ok(None),
                    };
                }
                self.at += 1;
            }
        }
        let mut alternatives = self.alternatives()?;
        if !self.eat(")") {
            return Err(self.error("an unclosed group"));
        }
        let only = if alternatives.len() == 1 { alternatives.pop() } else { None };
        let part = only.unwrap_or(Part::Either(alternatives));
        Ok(Some(match around {
            Some((is_ahead, is_negated)) => Part::Look { is_ahead, is_negated, part: Box::new(part) },
            None => part,
        }))
    }

    fn group_name(&mut self) -> Result<(), String> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$')) {
            self.at += 1;
        }
        if self.at == start || !self.eat(">") { Err(self.error("a malformed group name")) } else { Ok(()) }
    }

    /// An escape outside of a class; stands at its backslash.
    fn escape(&mut self) -> Result<Part, String> {
        let place = self.at;
        let next = self.text.get(self.at + 1).copied();
        let part = match next {
            Some('b' | 'B') => Part::WordBoundary { is_negated: next == Some('B') },
            Some('1'..='9' | 'k') => Part::BackReference(place),
            _ => {
                return Ok(match self.atom_escape()? {
                    Atom::Letter(c) => Part::One(self.cased(letter(c))),
                    // Outside of a class nothing would ever match.
                    Atom::Half(_) => return Err(self.error(HALF)),
                    Atom::Set(set) => Part::One(set),
                });
            }
        };
        self.at += 2;
        Ok(part)
    }

    /// An escape that is a character or a set; stands at its backslash.
    fn atom_escape(&mut self) -> Result<Atom, String> {
        self.at += 1;
        let c = self.peek().ok_or_else(|| self.error("a backslash at the end"))?;
        self.at += 1;
        Ok(Atom::Letter(match c {
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => '\0',
            'd' | 'D' => return Ok(Atom::Set(maybe_not(digits(), c == 'D'))),
            'w' | 'W' => return Ok(Atom::Set(maybe_not(word(), c == 'W'))),
            's' | 'S' => return Ok(Atom::Set(maybe_not(space(), c == 'S'))),
            'p' | 'P' => return self.property(c == 'P').map(Atom::Set),
            'c' => match self.peek().filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    self.at += 1;
                    char::from(letter as u8 % 32)
                }
                None => return Err(self.error("\\c without a letter")),
            },
            'x' => self.hex(2)?,
            'u' => return self.unicode(),
            // Annex B lets any other character be escaped; letters and digits stay errors, because they may come to mean something.
            c if !c.is_ascii_alphanumeric() => c,
            _ => return Err(self.error(&format!("the unknown escape \\{c}"))),
        }))
    }

    fn hex(&mut self, count: usize) -> Result<char, String> {
        let value = self.hex_value(count)?;
        char::from_u32(value).ok_or_else(|| self.error(HALF))
    }

    fn hex_value(&mut self, count: usize) -> Result<u32, String> {
        let mut value = 0;
        for _ in 0..count {
            let digit = self.peek().and_then(|c| c.to_digit(16)).ok_or_else(|| self.error("a missing hex digit"))?;
            value = value << 4 | digit;
            self.at += 1;
        }
        Ok(value)
    }

    fn unicode(&mut self) -> Result<Atom, String> {
        if self.eat("{") {
            let mut value = 0u32;
            while let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) {
                value = value.saturating_mul(16).saturating_add(digit);
                self.at += 1;
            }
            let letter = char::from_u32(value).filter(|_| self.eat("}"));
            return letter.map(Atom::Letter).ok_or_else(|| self.error("a malformed \\u{…}"));
        }
        let first = self.hex_value(4)?;
        let behind = self.at;
        if (0xd800..0xdc00).contains(&first) && self.eat("\\u") {
            let low = self.hex_value(4).unwrap_or_default().wrapping_sub(0xdc00);
            let letter = (low < 0x400).then(|| char::from_u32(0x10000 + ((first - 0xd800) << 10) + low)).flatten();
            if let Some(letter) = letter {
                return Ok(Atom::Letter(letter));
            }
            self.at = behind;
        }
        Ok(char::from_u32(first).map_or(Atom::Half(first), Atom::Letter))
    }

    /// `\p{…}`: the names are Unicode's, which the translator's own parser knows.
    fn property(&mut self, is_negated: bool) -> Result<ClassUnicode, String> {
        let start = self.at;
        let end = self.text[start..].iter().position(|&c| c == '}').map(|length| start + length);
        let Some(end) = end.filter(|_| self.peek() == Some('{')) else {
            return Err(self.error("a property without a name in braces"));
        };
        let name: String = self.text[start + 1..end].iter().collect();
        self.at = end + 1;
        match property(&name) {
            Some(set) => Ok(maybe_not(set, is_negated)),
            None => Err(self.error(&format!("the unknown property {name:?}"))),
        }
    }

    fn class(&mut self) -> Result<ClassUnicode, String> {
        self.at += 1;
        let is_negated = self.eat("^");
        let mut set = ClassUnicode::empty();
        while !self.eat("]") {
            let low = self.class_atom()?;
            if self.peek() == Some('-') && self.text.get(self.at + 1).is_some_and(|&c| c != ']') {
                self.at += 1;
                let high = self.class_atom()?;
                match (low.code(), high.code()) {
                    (Some(low), Some(high)) if low <= high => push_range(&mut set, low, high),
                    (Some(_), Some(_)) => return Err(self.error("a range out of order")),
                    // Annex B: then the dash stands for itself.
                    _ => [low, Atom::Letter('-'), high].into_iter().for_each(|atom| add(&mut set, atom)),
                }
            } else {
                add(&mut set, low);
            }
        }
        Ok(maybe_not(self.cased(set), is_negated))
    }

    fn class_atom(&mut self) -> Result<Atom, String> {
        match self.peek() {
            None => Err(self.error("an unclosed class")),
            Some('\\') if self.text.get(self.at + 1) == Some(&'b') => {
                self.at += 2;
                Ok(Atom::Letter('\u{8}'))
            }
            Some('\\') if self.text.get(self.at + 1) == Some(&'-') => {
                self.at += 2;
                Ok(Atom::Letter('-'))
            }
            Some('\\') => self.atom_escape(),
            Some(c) => {
                self.at += 1;
                Ok(Atom::Letter(c))
            }
        }
    }
}

/// The set of a property's name. A set of one and one of nothing are no sets to that parser, but their complements are.
fn property(name: &str) -> Option<ClassUnicode> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '='));
    let set_of =
        |letter: char, name: &str| match regex_syntax::parse(&format!("\\{letter}{{{name}}}")).ok()?.into_kind() {
            HirKind::Class(Class::Unicode(set)) => Some(set),
            _ => None,
        };
    match name.rsplit_once('=').unwrap_or(("gc", name)) {
        _ if !is_plain => None,
        // Halves of surrogate pairs are in no text that is UTF-8.
        ("gc" | "General_Category", "Cs" | "Surrogate") => Some(ClassUnicode::empty()),
        // What no script has is unassigned, private or such a half (UAX 24 §3.4).
        ("sc" | "Script" | "scx" | "Script_Extensions", "Zzzz" | "Unknown") => {
            let mut set = set_of('p', "Cn")?;
            set.union(&set_of('p', "Co")?);
            Some(set)
        }
        _ => set_of('p', name).or_else(|| Some(maybe_not(set_of('P', name)?, true))),
    }
}

fn add(set: &mut ClassUnicode, atom: Atom) {
    match atom {
        Atom::Letter(c) => set.push(ClassUnicodeRange::new(c, c)),
        Atom::Half(_) => {}
        Atom::Set(other) => set.union(&other),
    }
}

/// Adds what is no half of a surrogate pair between two code points.
fn push_range(set: &mut ClassUnicode, low: u32, high: u32) {
    for (low, high) in [(low, high.min(0xd7ff)), (low.max(0xe000), high)] {
        if let (Some(low), Some(high)) = (char::from_u32(low), char::from_u32(high))
            && low <= high
        {
            set.push(ClassUnicodeRange::new(low, high));
        }
    }
}

fn letter(c: char) -> ClassUnicode {
    ranges(&[(c, c)])
}

fn ranges(pairs: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(pairs.iter().map(|&(low, high)| ClassUnicodeRange::new(low, high)))
}

fn maybe_not(mut set: ClassUnicode, is_negated: bool) -> ClassUnicode {
    if is_negated {
        set.negate();
    }
    set
}

fn digits() -> ClassUnicode {
    ranges(&[('0', '9')])
}

fn word() -> ClassUnicode {
    ranges(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')])
}

/// WhiteSpace and LineTerminator (ECMA-262 §12.2, §12.3).
fn space() -> ClassUnicode {
    ranges(&[
        ('\t', '\r'),
        (' ', ' '),
        ('\u{a0}', '\u{a0}'),
        ('\u{1680}', '\u{1680}'),
        ('\u{2000}', '\u{200a}'),
        ('\u{2028}', '\u{2029}'),
        ('\u{202f}', '\u{202f}'),
        ('\u{205f}', '\u{205f}'),
        ('\u{3000}', '\u{3000}'),
        ('\u{feff}', '\u{feff}'),
    ])
}

fn not_line_end() -> ClassUnicode {
    maybe_not(ranges(&[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')]), true)
}
