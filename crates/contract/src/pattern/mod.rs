//! `pattern`: ECMA-262 in meaning, linear in time. A pattern is parsed here, and becomes a byte loop if its shape allows, else an automaton:
//! complete if it stays small, else built while matching and charged for. Lookaround is rewritten to "and" and "and not" where that is exact, and takes
//! passes of its own over the text elsewhere. References to what was matched before are an error at load.

mod automaton;
mod build;
mod foreign;
mod lookaround;
mod parse;
mod sequence;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use foreign::foreign;

use automaton::Automaton;
use lookaround::Lookaround;
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
    /// Lookaround within it.
    Lookaround(Lookaround),
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
            Self::Lookaround(_) => false,
            Self::Automaton { main, also, never } => {
                main.is_complete() && also.iter().chain(never).all(Automaton::is_complete)
            }
        }
    }

    #[inline]
    fn is_match(&self, text: &[u8], steps: &mut u64) -> Option<bool> {
        let (main, also, never) = match self {
            Self::Automaton { main, also, never } => (main, also, never),
            Self::Sequence(sequence) => return Some(sequence.is_match(text)),
            Self::Lookaround(lookaround) => return lookaround.is_match(text, steps),
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

    /// Every property and value of ECMA-262 (tables 69 to 71) but `Changes_When_NFKC_Casefolded`, short and long: also those whose set is one code point, or
    /// none that UTF-8 has.
    #[test]
    fn properties_are_those_of_ecma_262() {
        const BINARY: &str = "ASCII AHex ASCII_Hex_Digit Alpha Alphabetic Any Assigned Bidi_C Bidi_Control Bidi_M Bidi_Mirrored CI Case_Ignorable Cased CWCF CWCM CWL \
            CWT CWU Changes_When_Uppercased Dash DI Default_Ignorable_Code_Point Dep Deprecated Dia Diacritic Emoji EComp Emoji_Component EMod Emoji_Modifier \
            EBase Emoji_Modifier_Base EPres Emoji_Presentation ExtPict Extended_Pictographic Ext Extender Gr_Base Grapheme_Base Gr_Ext Grapheme_Extend Hex Hex_Digit \
            IDSB IDS_Binary_Operator IDST IDS_Trinary_Operator IDC ID_Continue IDS ID_Start Ideo Ideographic Join_C Join_Control LOE Logical_Order_Exception Lower \
            Lowercase Math NChar Noncharacter_Code_Point Pat_Syn Pattern_Syntax Pat_WS Pattern_White_Space QMark Quotation_Mark Radical RI Regional_Indicator STerm \
            Sentence_Terminal SD Soft_Dotted Term Terminal_Punctuation UIdeo Unified_Ideograph Upper Uppercase VS Variation_Selector space White_Space XIDC \
            XID_Continue XIDS XID_Start";
        const CATEGORIES: &str = "LC Cased_Letter Pe Close_Punctuation Pc Connector_Punctuation Cc Control cntrl Sc Currency_Symbol Pd Dash_Punctuation Nd Decimal_Number \
            digit Me Enclosing_Mark Pf Final_Punctuation Cf Format Pi Initial_Punctuation L Letter Nl Letter_Number Zl Line_Separator Ll Lowercase_Letter M Mark \
            Combining_Mark Sm Math_Symbol Lm Modifier_Letter Sk Modifier_Symbol Mn Nonspacing_Mark N Number Ps Open_Punctuation C Other Lo Other_Letter No \
            Other_Number Po Other_Punctuation So Other_Symbol Zp Paragraph_Separator Co Private_Use P Punctuation punct Z Separator Zs Space_Separator Mc \
            Spacing_Mark Cs Surrogate S Symbol Lt Titlecase_Letter Cn Unassigned Lu Uppercase_Letter";
        let categories = CATEGORIES.split_ascii_whitespace();
        let named = categories.clone().flat_map(|name| [format!("gc={name}"), format!("General_Category={name}")]);
        let scripts = [
            "Latin",
            "Latn",
            "Greek",
            "Zyyy",
            "Common",
            "Zinh",
            "Inherited",
            "Zzzz",
            "Unknown",
            "Hira",
            "Han",
            "Kits",
            "Ougr",
        ];
        let scripts = scripts
            .iter()
            .flat_map(|name| ["sc", "Script", "scx", "Script_Extensions"].map(|of| format!("{of}={name}")));
        let plain = BINARY.split_ascii_whitespace().chain(categories).map(str::to_owned);
        for name in plain.chain(named).chain(scripts) {
            for pattern in [format!("^\\p{{{name}}}$"), format!("^\\P{{{name}}}$"), format!("^[^\\p{{{name}}}a]*$")] {
                assert!(Pattern::new(&pattern).is_ok(), "{pattern}: {:?}", Pattern::new(&pattern).err());
            }
        }
        check("^\\p{Zl}$", &["\u{2028}"], &["\u{2029}", "a", ""]);
        check("^\\P{Zp}$", &["\u{2028}", "a"], &["\u{2029}"]);
        check("^[\\p{Paragraph_Separator}x]$", &["\u{2029}", "x"], &["\u{2028}"]);
        check("^\\p{Cs}$", &[], &["a", "", "\u{e000}"]);
        check("^\\P{Surrogate}$", &["a", "\u{ffff}"], &[""]);
        check("^\\p{Script=Unknown}$", &["\u{e000}", "\u{378}"], &["a", "1", "\u{301}"]);
        check(
            "^(?!__.*__$)[^\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\"\\\\./[\\]]{1,200}$",
            &["a b"],
            &["__x__", "a\u{2028}", "a/b", ""],
        );
        for unknown in ["Zx", "Graph", "Script=Nothing", "L=Lu", "", "Is_L u", "gc=Greek"] {
            assert!(Pattern::new(&format!("\\p{{{unknown}}}")).is_err(), "{unknown}");
        }
    }

    #[test]
    fn lookaround_at_the_edges_is_rewritten() {
        check("^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", &["1", "-0.5", "+.5"], &["", "-", ".", "a"]);
        check("^(?=.*[a-z])(?=.*\\d).{4,}$", &["abc1"], &["abcd", "1234", "a1"]);
        check("^(?!-)[a-z-]{1,63}(?<!-)$", &["a-b"], &["-a", "a-", ""]);
        check("^(?!a)b|^c(?=d)", &["b", "cd"], &["a", "c"]);
        check("^(?:(?!admin).*)$", &["user"], &["admin1"]);
        for pattern in ["(a)\\1", "^(?<n>a)\\k<n>$", "^(?=(a)).*\\1"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn lookaround_within_a_pattern_is_exact() {
        check("(?!a)b", &["b", "ab"], &["a", ""]);
        check("a(?!b)", &["a", "ac", "aba"], &["ab", "b"]);
        check("^a(?=b)c$", &[], &["abc", "ac", "ab"]);
        check("^a(?=b)..$", &["abc"], &["acb", "ab"]);
        check("(?<=a)b", &["ab"], &["b", "cb"]);
        check("(?<!é)b", &["b", "ab"], &["éb"]);
        check("^(a(?!b))*$", &["", "aaa"], &["ab"]);
        check("^[a-z]((?!--|__)[a-z_-])+$", &["a-b_c", "ab"], &["a--b", "a__b", "a"]);
        check(
            "^(((?!-)[a-z-]{0,5}[a-z])\\.)+((?!-)[a-z-]{1,5}[a-z])$",
            &["ab.cd", "a-b.c-d"],
            &["-a.cd", "ab.-d", "ab"],
        );
        check("(?=^.{2,8}$)(?!.*\\s)[a-z@]*$", &["ab", "a@b"], &["a", "a b", "abcdefghi"]);
        check("^(?:(?!a(?!b)).)*$", &["", "bab", "ab"], &["ac", "aba"]);
        check("^a(?=.*\\b(?<=x)y\\b)", &[], &["axy", "a xy"]);
        check("(?<=^|,)\\d+(?=,|$)(?!.*x)", &["1", "a,12,b"], &["a1", "1,x"]);
        // What pydantic writes for Decimal(max_digits=10, decimal_places=2).
        let decimal = "^(?!^[-+.]*$)[+-]?0*(?:\\d{0,8}|(?=[\\d.]{1,11}0*$)\\d{0,8}\\.\\d{0,2}0*$)";
        check(
            &format!("{decimal}$"),
            &["1", "-0.5", "12345678.12", "+1.100", ".5", "0001.20000"],
            &["", "-", ".", "1.234", "123456789"],
        );
        check(decimal, &["1", "1.5", "a"], &["", "+"]);
    }

    /// `(?!(?!X))` matches where `X` does, and takes the other way there.
    #[test]
    fn passes_say_what_automata_say() {
        let mut random = fastrand::Rng::with_seed(7);
        let pieces =
            ["a", "b", "[ab]", "[^a]", ".", "^", "$", "\\b", "a*", "b{1,2}", "(?:ab)?", "(?:a|b$)", "(?:^a|ba)+", "|"];
        let mut matched = 0;
        for _ in 0..1_000 {
            let pattern: String = (0..random.usize(1..6)).map(|_| pieces[random.usize(..pieces.len())]).collect();
            let plain = Pattern::new(&pattern).unwrap();
            let passes = Pattern::new(&format!("(?!(?!{pattern}))")).unwrap();
            let negated = Pattern::new(&format!("^(?!(?:)[^]*(?:{pattern}))[^]*(?<!x)$")).unwrap();
            for _ in 0..5 {
                let text: String = (0..random.usize(..7)).map(|_| ["a", "b", "é"][random.usize(..3)]).collect();
                let found = plain.is_match(text.as_bytes());
                matched += usize::from(found);
                assert_eq!(passes.is_match(text.as_bytes()), found, "{pattern} {text:?}");
                // A lookahead begins where it stands, so `^` within it holds nowhere but at the start, as it does elsewhere.
                assert_eq!(negated.is_match(text.as_bytes()), !found, "{pattern} {text:?}");
            }
        }
        assert!((600..4_500).contains(&matched), "{matched}");
    }

    #[test]
    fn flags_within_a_pattern() {
        check("(?i)^[a-c]x$", &["ax", "AX", "Bx"], &["dx", "a"]);
        check("^a(?i)b$", &["ab", "aB"], &["Ab"]);
        check("^(?i:a)b$", &["Ab", "ab"], &["AB"]);
        check("^((?i)a)b$", &["Ab"], &["aB"]);
        check("(?i)^[^a]\\x41É$", &["bAé", "Baé"], &["aaé", "Aaé"]);
        check("(?s)^.$", &["\n"], &[""]);
        check("(?i)^(?-i:a)b$", &["aB"], &["AB"]);
        for pattern in ["(?m)^a", "(?x)a", "(?i", "(?i)*", "(?ii:a)", "(?:i)a)"] {
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
    fn passes_for_lookaround_are_charged() {
        let pattern = Pattern::new("((?!b{1,50}c)(?<=^|[abc]{1,50})[abc])+d").unwrap();
        assert!(!pattern.is_cheap());
        let text = "abc".repeat(10_000);
        let mut steps = 10_000_000;
        assert_eq!(pattern.matches(text.as_bytes(), &mut steps), None);
        assert!(10_000_000 - steps <= 400_000, "{steps}");
        let (mut one, mut four) = (400_000, 400_000);
        assert_eq!(pattern.matches("a".repeat(500).as_bytes(), &mut one), Some(false));
        assert_eq!(pattern.matches("a".repeat(2_000).as_bytes(), &mut four), Some(false));
        assert!(400_000 - four <= 5 * (400_000 - one), "{one} {four}");
    }

    #[test]
    fn nothing_takes_more_than_linear_time() {
        let text = format!("{}!", "a".repeat(100_000));
        for pattern in ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(x+x+)+y", "^(?=(a+)+$)a", "x(?!(a+)+$)", "((?=a+!)a)*b"] {
            assert!(!Pattern::new(pattern).unwrap().is_match(text.as_bytes()), "{pattern}");
        }
    }
}
