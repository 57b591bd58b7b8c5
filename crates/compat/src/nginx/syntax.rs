//! nginx's grammar: words, directives, blocks, and the files that `include` names. Knows no directive but that one, and the blocks that hold another language.
//!
//! Words end at blanks, `;` and `{`; quotes and `#` count at their beginning, and a backslash keeps what follows it. Bounded in depth, number and size.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::shipped;
use crate::files::{Files, Unread};
use crate::migration::{Place, Problem, Report};

/// Longest word, bytes; nginx takes 4096.
const MAX_WORD_BYTES: usize = 16 * 1024;
/// Most words of a directive.
const MAX_WORDS: usize = 4_096;
/// Most directives of all files together.
const MAX_DIRECTIVES: usize = 100_000;
/// Blocks within blocks.
const MAX_NESTING: usize = 24;
/// Files within files.
const MAX_INCLUDES: usize = 12;

/// A directive: its name, its arguments, and what stands in its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) block: Option<Vec<Directive>>,
    pub(crate) place: Place,
}

impl Directive {
    /// The argument at a position, or nothing.
    pub(crate) fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", String::as_str)
    }

    /// What stands in its block.
    pub(crate) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// As it is shown: without its block.
    pub(crate) fn shown(&self) -> String {
        let mut text = self.name.clone();
        self.args.iter().for_each(|arg| {
            text.push(' ');
            text.push_str(if arg.is_empty() { "\"\"" } else { arg });
        });
        text
    }
}

/// Reads a file and what it includes. Relative names start at `root`, as in nginx at the folder of the main file.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn read(files: &mut Files, path: &Path, root: &Path, report: &Report) -> Result<Vec<Directive>, Problem> {
    let start = Place { file: path.display().to_string().into(), line: 1 };
    let text = files.read(path).map_err(|why| Problem::new(&start, why.to_string()))?;
    let mut reader = Reader { files, root: root.to_owned(), report, directives: 0 };
    reader.file(&start.file, &text, 0)
}

/// What helps where an included file is not here.
const FROM: &str = "with `--files-from FOLDER` it is looked for in a copy of the other machine's files";

struct Reader<'f> {
    files: &'f mut Files,
    root: PathBuf,
    report: &'f Report,
    directives: usize,
}

impl Reader<'_> {
    fn file(&mut self, name: &Rc<str>, text: &str, depth: usize) -> Result<Vec<Directive>, Problem> {
        let mut words = Words { file: Rc::clone(name), text, at: 0, line: 1 };
        self.block(&mut words, 0, depth)
    }

    /// Directives up to the `}` that ends them, or the end of the file.
    fn block(&mut self, words: &mut Words<'_>, nesting: usize, depth: usize) -> Result<Vec<Directive>, Problem> {
        let mut out = Vec::new();
        loop {
            let place = words.place_of_next();
            let name = match words.next()? {
                Token::Word(name) => name,
                Token::Close if nesting > 0 => return Ok(out),
                Token::End if nesting == 0 => return Ok(out),
                Token::End => return Err(Problem::new(&place, "a block is not closed; a `}` is missing")),
                other => return Err(Problem::new(&place, format!("{} where a directive is to begin", other.shown()))),
            };
            self.directives += 1;
            if self.directives > MAX_DIRECTIVES {
                return Err(Problem::new(&place, format!("more than {MAX_DIRECTIVES} directives")));
            }
            let mut directive = Directive { name, args: Vec::new(), block: None, place };
            match words.arguments(&mut directive.args, &directive.place)? {
                Token::Open if directive.name.ends_with("_by_lua_block") => {
                    words.skip_lua(&directive.place)?;
                    directive.block = Some(Vec::new());
                }
                Token::Open if nesting >= MAX_NESTING => {
                    return Err(Problem::new(
                        &directive.place,
                        format!("more than {MAX_NESTING} blocks within each other"),
                    ));
                }
                Token::Open => directive.block = Some(self.block(words, nesting + 1, depth)?),
                _ => {}
            }
            match directive.name == "include" && directive.block.is_none() {
                true => out.extend(self.included(&directive, depth)?),
                false => out.push(directive),
            }
        }
    }

    /// What the files say that a directive includes.
    fn included(&mut self, directive: &Directive, depth: usize) -> Result<Vec<Directive>, Problem> {
        let fault = |what: String| Problem::new(&directive.place, format!("{}: {what}", directive.shown()));
        let [pattern] = directive.args.as_slice() else { return Err(fault("expected one file".to_owned())) };
        if depth >= MAX_INCLUDES {
            return Err(fault(format!("more than {MAX_INCLUDES} files within each other")));
        }
        let pattern = self.root.join(pattern);
        let is_pattern = pattern.to_string_lossy().contains(['*', '?', '[']);
        if is_pattern && let Some(why) = self.files.absent_folder(&pattern) {
            let of_modules = pattern.to_string_lossy().contains("/modules");
            match of_modules {
                true => self.report.absent(&pattern, &directive.place, &format!("{why}; it loads modules")),
                false => _ = self.report.left_out(&directive.place, &directive.shown(), &format!("{why}; {FROM}")),
            }
        }
        let paths = if is_pattern { self.files.matching(&pattern) } else { vec![pattern] };
        let mut out = Vec::new();
        for path in paths {
            let text = match (self.files.read(&path), shipped::text(&path)) {
                (Ok(text), _) => text,
                (Err(Unread::Absent(why)), Some((package, text))) => {
                    self.report.absent(&path, &directive.place, &format!("{why}; taken as {package} has it"));
                    text.to_owned()
                }
                (Err(why), _) => {
                    return Err(fault(format!("{}: {why}; {FROM}", path.display())));
                }
            };
            out.extend(self.file(&path.display().to_string().into(), &text, depth + 1)?);
        }
        Ok(out)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

impl Token {
    fn shown(&self) -> &'static str {
        match self {
            Token::Word(_) => "a word",
            Token::Semicolon => "`;`",
            Token::Open => "`{`",
            Token::Close => "`}`",
            Token::End => "the end of the file",
        }
    }
}

struct Words<'t> {
    file: Rc<str>,
    text: &'t str,
    at: usize,
    line: usize,
}

impl Words<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn place(&self) -> Place {
        Place { file: Rc::clone(&self.file), line: self.line }
    }

    /// Passes blanks and comments.
    fn place_of_next(&mut self) -> Place {
        while let Some(c) = self.peek() {
            match c {
                // A mark at the start of a file is none of its words.
                ' ' | '\t' | '\r' | '\n' | '\u{feff}' => _ = self.bump(),
                '#' => while self.peek().is_some_and(|c| c != '\n') && self.bump().is_some() {},
                _ => break,
            }
        }
        self.place()
    }

    fn next(&mut self) -> Result<Token, Problem> {
        let place = self.place_of_next();
        let Some(first) = self.peek() else { return Ok(Token::End) };
        let single = match first {
            ';' => Token::Semicolon,
            '{' => Token::Open,
            '}' => Token::Close,
            '"' | '\'' => {
                self.bump();
                return self.quoted(first, &place);
            }
            _ => return self.plain(&place),
        };
        self.bump();
        Ok(single)
    }

    /// The arguments of a directive; gives what ends them.
    fn arguments(&mut self, out: &mut Vec<String>, start: &Place) -> Result<Token, Problem> {
        loop {
            match self.next()? {
                Token::Word(word) => out.push(word),
                end @ (Token::Semicolon | Token::Open) => return Ok(end),
                Token::Close => return Err(Problem::new(start, "a directive is not ended by `;`")),
                Token::End => {
                    return Err(Problem::new(start, "a directive is not ended: the file ends before its `;`"));
                }
            }
            if out.len() > MAX_WORDS {
                return Err(Problem::new(start, format!("a directive of more than {MAX_WORDS} words")));
            }
        }
    }

    fn plain(&mut self, start: &Place) -> Result<Token, Problem> {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' => break,
                // `${name}` is a variable, no block.
                '{' if !word.ends_with('$') => break,
                '\\' => self.escaped(&mut word, start)?,
                c => {
                    word.push(c);
                    self.bump();
                }
            }
            self.bounded(&word, start)?;
        }
        Ok(Token::Word(word))
    }

    fn quoted(&mut self, quote: char, start: &Place) -> Result<Token, Problem> {
        let mut word = String::new();
        loop {
            match self.peek() {
                None => return Err(Problem::new(start, "a quote is not closed")),
                Some('\\') => self.escaped(&mut word, start)?,
                Some(c) => {
                    self.bump();
                    if c == quote {
                        break;
                    }
                    word.push(c);
                }
            }
            self.bounded(&word, start)?;
        }
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | ';' | '{' | ')') => Ok(Token::Word(word)),
            Some(c) => Err(Problem::new(&self.place(), format!("`{}` behind a quote", c.escape_default()))),
        }
    }

    /// A backslash: of quotes, itself and a few controls it says what they are, all else keeps it.
    fn escaped(&mut self, word: &mut String, start: &Place) -> Result<(), Problem> {
        self.bump();
        match self.bump() {
            None => return Err(Problem::new(start, "the file ends in a backslash")),
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => {
                word.push('\\');
                word.push(c);
            }
        }
        Ok(())
    }

    fn bounded(&self, word: &str, start: &Place) -> Result<(), Problem> {
        let is_odd = word.ends_with('\0');
        match word.len() > MAX_WORD_BYTES || is_odd {
            true => Err(Problem::new(start, format!("a word of more than {MAX_WORD_BYTES} bytes, or with a NUL"))),
            false => Ok(()),
        }
    }

    /// Passes a block of Lua, whose braces are balanced outside of its texts and comments.
    fn skip_lua(&mut self, start: &Place) -> Result<(), Problem> {
        let mut depth = 1usize;
        while depth > 0 {
            match self.bump() {
                None => return Err(Problem::new(start, "a block is not closed; a `}` is missing")),
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(quote @ ('"' | '\'')) => {
                    while let Some(c) = self.bump() {
                        match c {
                            '\\' => _ = self.bump(),
                            c if c == quote || c == '\n' => break,
                            _ => {}
                        }
                    }
                }
                Some('-') if self.peek() == Some('-') => {
                    while self.peek().is_some_and(|c| c != '\n') && self.bump().is_some() {}
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::collections::BTreeMap;

    use super::*;

    fn parse(texts: &[(&str, &str)]) -> Result<Vec<Directive>, String> {
        let given: BTreeMap<PathBuf, String> =
            texts.iter().map(|(name, text)| (PathBuf::from(format!("/n/{name}")), (*text).to_owned())).collect();
        let (mut files, report) = (Files::given(given), Report::default());
        read(&mut files, Path::new("/n/a"), Path::new("/n"), &report).map_err(|problem| problem.to_string())
    }

    fn show(directives: &[Directive]) -> String {
        let one = |directive: &Directive| {
            let block = directive.block.as_ref().map_or(String::new(), |inner| format!(" {{{}}}", show(inner)));
            let words: Vec<String> = directive.args.iter().map(|arg| format!(" {arg:?}")).collect();
            format!("{}@{}{}{block}", directive.name, directive.place.line, words.concat())
        };
        directives.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn words_and_blocks() {
        for (text, expected) in [
            ("", ""),
            ("a b c;", "a@1 \"b\" \"c\""),
            ("# x\na 'b c' \"d;{}\" ; # y", "a@2 \"b c\" \"d;{}\""),
            ("s { l {\n} }", "s@1 {l@1 {}}"),
            (r#"a \.php$ "\"\\" x\;y;"#, r#"a@1 "\\.php$" "\"\\" "x\\;y""#),
            ("if ($a = b){x 1;}", "if@1 \"($a\" \"=\" \"b)\" {x@1 \"1\"}"),
            ("a ${b}c x#y;", "a@1 \"${b}c\" \"x#y\""),
            ("a_by_lua_block { if x then y = \"}\" end -- }\n } b;", "a_by_lua_block@1 {}; b@2"),
            ("a \"\";", "a@1 \"\""),
            ("\u{feff}a;", "a@1"),
        ] {
            assert_eq!(parse(&[("a", text)]).map(|found| show(&found)).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (text, expected) in [
            ("a", "/n/a:1: a directive is not ended"),
            ("a {", "/n/a:1: a block is not closed"),
            ("\n}", "/n/a:2: `}` where a directive is to begin"),
            ("a { b }", "/n/a:1: a directive is not ended by `;`"),
            ("a\n\"b", "/n/a:2: a quote is not closed"),
            ("a \"b\"c;", "/n/a:1: `c` behind a quote"),
            ("a b\\", "/n/a:1: the file ends in a backslash"),
            (";", "/n/a:1: `;` where"),
            ("{", "/n/a:1: `{` where"),
            (
                "include x;",
                "/n/a:1: include x: /n/x: no such file; with `--files-from FOLDER` it is looked for in a copy of the other machine's files",
            ),
            ("include a;", "/n/a:1: include a: more than 12 files within each other"),
        ] {
            let problem = parse(&[("a", text)]).unwrap_err();
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
        assert!(parse(&[("a", &"a {".repeat(100))]).unwrap_err().contains("24 blocks"));
        assert!(parse(&[("a", &format!("{};", "a".repeat(20_000)))]).unwrap_err().contains("16384 bytes"));
    }

    #[test]
    fn included_files_stand_in_place() {
        let found = parse(&[
            ("a", "x;\ninclude c/*.conf;\nz;"),
            ("c/2.conf", "two;"),
            ("c/1.conf", "\none { include b; }"),
            ("b", "deep;"),
        ]);
        assert_eq!(found.map(|found| show(&found)).as_deref(), Ok("x@1; one@2 {deep@1}; two@1; z@3"));
    }
}
