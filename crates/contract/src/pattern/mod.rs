//! `pattern`: ECMA-262 in meaning, linear in time. A pattern is parsed here, and becomes a byte loop if its shape allows, else an automaton:
//! complete if it stays small, else built while matching and charged for. Lookaround is rewritten to "and" and "and not" where that is exact; what remains is an error at load.

mod automaton;
mod build;
mod parse;
mod sequence;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use automaton::Automaton;
use sequence::Sequence;

/// A compiled pattern; copies share it.
#[derive(Clone)]
pub struct Pattern(Arc<Compiled>);

struct Compiled {
    text: Box<str>,
    /// Matching costs nothing but its bytes.
    is_cheap: bool,
    /// Matches if one of these does.
    branches: Vec<Branch>,
}

/// One alternative at the top of a pattern.
enum Branch {
    /// A byte loop.
    Sequence(Sequence),
    /// `main` and all of `also` match, none of `never` does.
    Automaton { main: Automaton, also: Vec<Automaton>, never: Vec<Automaton> },
}

impl Pattern {
    /// Translates a pattern.
    ///
    /// # Errors
    /// What cannot be translated and where, in one line.
    pub fn new(text: &str) -> Result<Self, String> {
        let alternatives = parse::parse(text)?;
        let branches = alternatives.into_iter().map(build::branch).collect::<Result<Vec<_>, _>>()?;
        let is_cheap = branches.iter().all(Branch::is_cheap);
        Ok(Self(Arc::new(Compiled { text: text.into(), is_cheap, branches })))
    }

    /// Whether it matches anywhere in the text, which must be UTF-8; not if that takes too many steps. Takes time linear in the text.
    pub fn is_match(&self, text: &[u8]) -> bool {
        match self.0.branches.as_slice() {
            [Branch::Sequence(sequence)] => sequence.is_match(text),
            _ => self.matches(text, &mut u64::MAX.clone()) == Some(true),
        }
    }

    /// Whether it matches anywhere in the text, which must be UTF-8; none if that takes more steps than are left or one text may take.
    #[inline]
    pub fn matches(&self, text: &[u8], steps: &mut u64) -> Option<bool> {
        if let [Branch::Sequence(sequence)] = self.0.branches.as_slice() {
            return Some(sequence.is_match(text));
        }
        for branch in &self.0.branches {
            if branch.is_match(text, steps)? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Whether matching costs nothing but its bytes, so that nothing of it needs to be charged.
    pub fn is_cheap(&self) -> bool {
        self.0.is_cheap
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    #[cfg(test)]
    fn is_loop(&self) -> bool {
        self.0.branches.iter().all(|branch| matches!(branch, Branch::Sequence(_)))
    }
}

impl Branch {
    fn is_cheap(&self) -> bool {
        match self {
            Self::Sequence(_) => true,
            Self::Automaton { main, also, never } => {
                main.is_complete() && also.iter().chain(never).all(Automaton::is_complete)
            }
        }
    }

    #[inline]
    fn is_match(&self, text: &[u8], steps: &mut u64) -> Option<bool> {
        let Self::Automaton { main, also, never } = self else {
            return Some(matches!(self, Self::Sequence(sequence) if sequence.is_match(text)));
        };
        if !main.is_match(text, steps)? {
            return Some(false);
        }
        for automaton in also {
            if !automaton.is_match(text, steps)? {
                return Some(false);
            }
        }
        for automaton in never {
            if automaton.is_match(text, steps)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.0.text)
    }
}

/// Whether the text is a pattern by ECMA-262's grammar, translatable or not.
pub fn is_pattern(text: &str) -> bool {
    parse::is_valid(text)
}

/// Compiles each text once.
#[derive(Debug, Default)]
pub struct Cache(HashMap<Box<str>, Result<Pattern, String>>);

impl Cache {
    /// As [`Pattern::new`].
    pub fn compile(&mut self, text: &str) -> Result<Pattern, String> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let compiled = Pattern::new(text);
        self.0.insert(text.into(), compiled.clone());
        compiled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let compiled = Pattern::new(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
        for text in yes {
            assert!(compiled.is_match(text.as_bytes()), "{pattern} must match {text:?}");
        }
        for text in no {
            assert!(!compiled.is_match(text.as_bytes()), "{pattern} must not match {text:?}");
        }
    }

    #[test]
    fn patterns_mean_what_ecma_262_says() {
        check("a", &["a", "xay"], &["", "A"]);
        check("^a*$", &["", "aaa"], &["aab", "a\n"]);
        check("^\\d+$", &["0123456789"], &["٣", "", "1 "]);
        check("^\\w$", &["a", "_", "9"], &["é", "-"]);
        check("^\\W$", &["é", "-", "💲"], &["a"]);
        check("^\\s$", &[" ", "\t", "\u{a0}", "\u{feff}", "\u{2028}", "\u{2003}"], &["\u{1}", "\u{180e}", "\u{85}"]);
        check("^\\S$", &["a", "é"], &["\u{feff}"]);
        check("^.$", &["a", "💲", "\u{85}"], &["\n", "\r", "\u{2028}", "ab"]);
        check("\\bfoo\\b", &["a foo b", "éfoo"], &["foobar"]);
        check("^\\u0041\\x42\\u{43}\\u{1F600}\\uD83D\\uDE00$", &["ABC😀😀"], &["ABC"]);
        check("^\\cA\\t\\n\\v\\f\\r\\0$", &["\u{1}\t\n\u{b}\u{c}\r\0"], &["A"]);
        check("^[\\^\\-\\]a-c\\d]+$", &["^-]abc09"], &["d"]);
        check("^[^a]$", &["b", "\n"], &["a", ""]);
        check("^[]$|^x$", &["x"], &["", "]"]);
        check("^[^]$", &["\n", "a"], &[""]);
        // Half of a surrogate pair is in no text that is UTF-8; as the end of a range it is one.
        check("^[\\u0020-\\uD7FF\\uE000-\\uFFFD\\uD800\\uDBFF-\\uDC00\\uDFFF\\t]*$", &["aé\t"], &["\n", "😀", "\u{1}"]);
        check("^[\\uD7FE-\\uE001\\ud83d-]$", &["\u{d7ff}", "\u{e000}", "-"], &["\u{e002}"]);
        check("^\\/a\\.b$", &["/a.b"], &["/acb"]);
        check("^(?<year>\\d{4})-(?:a|b)$", &["2024-a"], &["2024-c"]);
        check("^\\p{Letter}+$", &["éa"], &["1"]);
        check("^\\p{Script=Greek}\\P{L}$", &["α1"], &["αα"]);
        check("x{2}", &["axx"], &["x"]);
        check("^x{2,}?$", &["xx", "xxxx"], &["x"]);
        check("^a|b$", &["ax", "xb"], &["xa"]);
        check("^$", &[""], &["a"]);
        check("", &["", "a"], &[]);
    }

    #[test]
    fn lookaround_at_the_edges_is_rewritten() {
        check("^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", &["1", "-0.5", "+.5"], &["", "-", ".", "a"]);
        check("^(?=.*[a-z])(?=.*\\d).{4,}$", &["abc1"], &["abcd", "1234", "a1"]);
        check("^(?!-)[a-z-]{1,63}(?<!-)$", &["a-b"], &["-a", "a-", ""]);
        check("^(?!a)b|^c(?=d)", &["b", "cd"], &["a", "c"]);
        check("^(?:(?!admin).*)$", &["user"], &["admin1"]);
        for pattern in ["(?!a)b", "a(?!b)", "^a(?=b)c$", "(a)\\1", "^(?<n>a)\\k<n>$", "(?<=a)b", "^(a(?!b))*$"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_an_error() {
        for pattern in [
            "(",
            ")",
            "a**",
            "[b-a]",
            "[",
            "\\",
            "*a",
            "x{2,1}",
            "(?<a",
            "\\p{Nothing}",
            "\\u{110000}",
            "^(?i:a)",
            "\\ud800",
            "[\\udc00-\\ud800]",
        ] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        let deep = "(".repeat(100_000);
        assert!(Pattern::new(&deep).is_err());
    }

    #[test]
    fn large_repetitions_and_common_shapes_are_loops() {
        let rows = [
            "^[a-z]{0,4096}$",
            "^\\d{4}-\\d{2}-\\d{2}$",
            "^https://",
            "^[A-Z]{3}\\d+$",
            "^.{0,4096}$",
            "^[a-z]+(?:)$",
            "^abc$",
        ];
        for pattern in rows {
            assert!(Pattern::new(pattern).unwrap().is_loop(), "{pattern}");
        }
        check("^[a-z]{0,4096}$", &["", &"a".repeat(4096)], &[&"a".repeat(4097), "A"]);
        check("^https://", &["https://x"], &["http://x", "xhttps://"]);
        check("^[A-Z]{3}\\d+$", &["ABC1", "ABC123"], &["AB1", "ABC", "ABC1x"]);
        check("^é{2,3}x?$", &["éé", "éééx"], &["é", "éééé", "e"]);
        check("^(?:[a-z]{0,4096},)*$", &["a,b,"], &["a"]);
    }

    /// An open repetition before a counted one: a deterministic automaton has a state for each set of places that the count may have begun at.
    #[test]
    fn states_that_are_built_while_matching_are_charged() {
        let pattern = Pattern::new("^.*a[^\\n]{1,1000}b[a-z]{500}$").unwrap();
        assert!(!pattern.is_cheap());
        assert!(Pattern::new("^(a+)+$|^(x*)*y").unwrap().is_cheap());
        let mut random = fastrand::Rng::with_seed(3);
        let hostile: String = (0..100_000).map(|_| if random.bool() { 'a' } else { 'c' }).collect();
        let mut steps = 10_000_000;
        assert_eq!(pattern.matches(hostile.as_bytes(), &mut steps), None);
        assert!(10_000_000 - steps <= 400_000, "{steps}");
        let mut few = 100;
        assert_eq!(pattern.matches(hostile.as_bytes(), &mut few), None);
        let good = format!("xxabb{}", "c".repeat(500));
        assert_eq!(pattern.matches(good.as_bytes(), &mut 10_000_000), Some(true));
        let mut steps = 1_000;
        // What is built is there for the next text.
        assert_eq!(pattern.matches(good.as_bytes(), &mut steps), Some(true));
        assert_eq!(steps, 1_000);
    }

    #[test]
    fn nothing_takes_more_than_linear_time() {
        let text = format!("{}!", "a".repeat(100_000));
        for pattern in ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(x+x+)+y", "^(?=(a+)+$)a"] {
            assert!(!Pattern::new(pattern).unwrap().is_match(text.as_bytes()), "{pattern}");
        }
    }
}
