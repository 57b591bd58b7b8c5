//! HAProxy's grammar: lines of words in sections, quotes, variables of the environment. Knows the names of sections and no other keyword.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::migration::{Place, Problem};

/// Longest line, bytes; HAProxy takes 2048.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// Most words of a line.
const MAX_WORDS: usize = 512;
/// Most lines with words.
const MAX_LINES: usize = 100_000;

/// A line: its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) words: Vec<String>,
    pub(crate) place: Place,
}

impl Line {
    /// The word at a position, or nothing.
    pub(crate) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// The words from a position on.
    pub(crate) fn rest(&self, at: usize) -> &[String] {
        self.words.get(at..).unwrap_or_default()
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> String {
        self.words.join(" ")
    }

    /// The word behind another one.
    pub(crate) fn after(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|other| other == word)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// Whether a word stands in it.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }

    /// The words before `if` or `unless`, and those from there on.
    pub(crate) fn parts(&self) -> (&[String], &[String]) {
        let at = self.words.iter().rposition(|word| word == "if" || word == "unless").unwrap_or(self.words.len());
        self.words.split_at_checked(at).unwrap_or((&self.words, &[]))
    }
}

/// A section: `frontend www`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The `defaults` that it takes, if it says so.
    pub(crate) from: Option<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) place: Place,
}

/// Names of sections.
const SECTIONS: [&str; 21] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "peers",
    "resolvers",
    "mailers",
    "cache",
    "program",
    "http-errors",
    "ring",
    "fcgi-app",
    "crt-store",
    "log-forward",
    "log-profile",
    "traces",
    "acme",
    "dynamic-update",
    "namespace_list",
];

/// Variables that files have set, or (none) unset: those of one file are known in the next.
pub(crate) type Variables = BTreeMap<String, Option<String>>;

/// Reads a file. `environment` gives the values of variables that no file has `set`.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn read(
    name: &str,
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
    set: &mut Variables,
) -> Result<Vec<Section>, Problem> {
    let file: Rc<str> = name.into();
    let mut sections: Vec<Section> = Vec::new();
    let mut count = 0;
    for (number, raw) in text.lines().enumerate() {
        let place = Place { file: Rc::clone(&file), line: number + 1 };
        let mut raw = raw.strip_prefix('\u{feff}').unwrap_or(raw).to_owned();
        if raw.len() > MAX_LINE_BYTES {
            return Err(Problem::new(&place, format!("a line of more than {MAX_LINE_BYTES} bytes")));
        }
        if raw.contains('\0') {
            return Err(Problem::new(&place, "a NUL in a line"));
        }
        raw.truncate(raw.trim_end_matches('\r').len());
        let known = |name: &str| set.get(name).cloned().unwrap_or_else(|| environment(name));
        let words = words(&raw, &place, &known)?;
        let Some(first) = words.first() else { continue };
        count += 1;
        if count > MAX_LINES {
            return Err(Problem::new(&place, format!("more than {MAX_LINES} lines")));
        }
        if first.starts_with('.') {
            return Err(Problem::new(&place, format!("`{first}`: conditional blocks are not read; remove them first")));
        }
        if SECTIONS.contains(&first.as_str()) {
            sections.push(section(&words, place));
            continue;
        }
        if let [keyword, name, value] = words.as_slice()
            && (keyword == "setenv" || (keyword == "presetenv" && known(name).is_none()))
        {
            set.insert(name.clone(), Some(value.clone()));
            continue;
        }
        match (first.as_str(), words.get(1..).unwrap_or_default()) {
            ("unsetenv", names) => {
                set.extend(names.iter().map(|name| (name.clone(), None)));
                continue;
            }
            ("resetenv", _) => return Err(Problem::new(&place, "`resetenv` is not read; name what is to be unset")),
            _ => {}
        }
        match sections.last_mut() {
            Some(section) => section.lines.push(Line { words, place }),
            None => return Err(Problem::new(&place, format!("`{first}` stands before the first section"))),
        }
    }
    Ok(sections)
}

fn section(words: &[String], place: Place) -> Section {
    let word = |at: usize| words.get(at).cloned().unwrap_or_default();
    let from = words.iter().position(|word| word == "from").and_then(|at| words.get(at + 1).cloned());
    let name = if word(1) == "from" { String::new() } else { word(1) };
    Section { kind: word(0), name, from, lines: Vec::new(), place }
}

/// The words of a line.
fn words(line: &str, place: &Place, environment: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, Problem> {
    let mut out: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut is_word = false;
    let mut chars = line.chars().peekable();
    let mut quote: Option<char> = None;
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'', Some('\'')) | ('"', Some('"')) => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                is_word = true;
            }
            (_, Some('\'')) => word.push(c),
            ('\\', _) => {
                is_word = true;
                word.push_str(&escaped(&mut chars, quote == Some('"')).map_err(|why| Problem::new(place, why))?);
            }
            ('$', Some('"')) => {
                let name = variable(&mut chars).map_err(|why| Problem::new(place, why))?;
                if name.is_empty() {
                    word.push('$');
                } else {
                    let value = environment(&name);
                    let value = value
                        .ok_or_else(|| Problem::new(place, format!("the environment variable `{name}` is not set")))?;
                    word.push_str(&value);
                }
            }
            (c, Some(_)) => word.push(c),
            ('#', None) => break,
            (c, None) if c.is_ascii_whitespace() => {
                if is_word {
                    out.push(std::mem::take(&mut word));
                    is_word = false;
                }
            }
            (c, None) => {
                is_word = true;
                word.push(c);
            }
        }
        if out.len() > MAX_WORDS {
            return Err(Problem::new(place, format!("more than {MAX_WORDS} words in a line")));
        }
    }
    if quote.is_some() {
        return Err(Problem::new(place, "a quote is not closed"));
    }
    if is_word {
        out.push(word);
    }
    Ok(out)
}

/// What stands for a backslash with what follows it, in double quotes or not.
fn escaped(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, is_quoted: bool) -> Result<String, &'static str> {
    let next = chars.next().ok_or("the line ends in a backslash")?;
    Ok(match next {
        'n' => "\n".to_owned(),
        'r' => "\r".to_owned(),
        't' => "\t".to_owned(),
        ' ' | '#' | '\\' | '"' | '\'' => next.to_string(),
        // A dollar begins a variable there alone.
        '$' if is_quoted => "$".to_owned(),
        'x' => {
            let digits: String = [chars.next(), chars.next()].into_iter().flatten().collect();
            let byte = u8::from_str_radix(&digits, 16).ok().filter(|byte| byte.is_ascii() && *byte > 0);
            char::from(byte.ok_or("`\\x` without the number of an ASCII character")?).to_string()
        }
        // Others keep it: expressions need it.
        other => format!("\\{other}"),
    })
}

/// The name of a variable behind its dollar.
fn variable(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, &'static str> {
    let is_braced = chars.peek() == Some(&'{');
    if is_braced {
        chars.next();
    }
    let mut name = String::new();
    while let Some(c) = chars.peek().copied().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
        name.push(c);
        chars.next();
    }
    if is_braced && chars.next() != Some('}') {
        return Err("a form of a variable that is not read: write `${NAME}`");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> Result<String, String> {
        let environment = |name: &str| (name == "HOST").then(|| "a.test".to_owned());
        let sections =
            read("h.cfg", text, &environment, &mut Variables::new()).map_err(|problem| problem.to_string())?;
        let line = |line: &Line| format!("{}:{}", line.place.line, line.words.join("|"));
        let section = |section: &Section| {
            let lines: Vec<String> = section.lines.iter().map(line).collect();
            let from = section.from.as_ref().map_or(String::new(), |from| format!("<{from}"));
            format!("[{} {}{from}] {}", section.kind, section.name, lines.join(" "))
        };
        Ok(sections.iter().map(section).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn lines_and_words() {
        for (text, expected) in [
            ("", ""),
            ("global\n  daemon # x\n\n  log /dev/log local0", "[global ] 2:daemon 4:log|/dev/log|local0"),
            ("frontend www from base\n bind :80", "[frontend www<base] 2:bind|:80"),
            ("backend a\n  x 'a b' \"c d\" e\\ f \\#g", "[backend a] 2:x|a b|c d|e f|#g"),
            ("backend a\n  x \"${HOST}:1\" '$HOST' $HOST", "[backend a] 2:x|a.test:1|$HOST|$HOST"),
            ("backend a\n  x ^/a\\$ \"\\$HOST\" \\x61b", "[backend a] 2:x|^/a\\$|$HOST|ab"),
            ("global\n  setenv X 1\n  unsetenv HOST\nbackend a\n  x \"$X\"", "[global ] \n[backend a] 5:x|1"),
            ("backend a\n  x ^/\\.git \"\\\"q\\\"\"", "[backend a] 2:x|^/\\.git|\"q\""),
            ("listen a\r\n  x ''\r\n", "[listen a] 2:x|"),
        ] {
            assert_eq!(show(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (text, expected) in [
            ("bind :80", "h.cfg:1: `bind` stands before the first section"),
            ("global\n x \"y", "h.cfg:2: a quote is not closed"),
            ("global\n x \\", "h.cfg:2: the line ends in a backslash"),
            ("global\n x \"$NOBODY\"", "h.cfg:2: the environment variable `NOBODY` is not set"),
            ("global\n unsetenv HOST\n x \"$HOST\"", "h.cfg:3: the environment variable `HOST` is not set"),
            ("global\n x \"${HOST[*]}\"", "h.cfg:2: a form of a variable that is not read"),
            (".if x", "h.cfg:1: `.if`: conditional blocks"),
        ] {
            assert_eq!(show(text).map_err(|problem| problem.starts_with(expected)), Err(true), "{text}");
        }
    }
}
