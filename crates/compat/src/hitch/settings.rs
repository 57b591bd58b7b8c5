//! hitch's file and arguments, as one list of settings with their places.

use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;

use crate::files::Files;
use crate::migration::{Place, Problem, shown};

/// Most settings.
const MAX_SETTINGS: usize = 10_000;

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) content: Content,
    pub(super) place: Place,
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Text(String),
    Block(Vec<Setting>),
}

/// What arguments ask for.
pub(super) enum Given {
    Settings(Vec<Setting>),
    Help,
}

impl Setting {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Block(_) => None,
        }
    }

    pub(super) fn inner(&self) -> &[Setting] {
        match &self.content {
            Content::Text(_) => &[],
            Content::Block(inner) => inner,
        }
    }

    pub(super) fn shown(&self) -> String {
        match &self.content {
            Content::Text(text) => shown(&format!("{} = {text}", self.name)),
            Content::Block(_) => self.name.clone(),
        }
    }
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Equals,
    Open,
    Close,
}

/// Reads a file.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<Setting>, Problem> {
    let file: Rc<str> = name.into();
    let mut stack: Vec<(String, Place, Vec<Setting>)> = Vec::new();
    let mut level: Vec<Setting> = Vec::new();
    let mut count = 0;
    let tokens = tokens(&file, text)?;
    let mut rest = &tokens[..];
    while let Some(((token, place), behind)) = rest.split_first() {
        rest = behind;
        let (token, place) = (token.clone(), place.clone());
        let name = match token {
            Token::Word(name) => name,
            Token::Close => {
                let (name, place, outer) = stack.pop().ok_or_else(|| Problem::new(&place, "a `}` without its `{`"))?;
                let content = Content::Block(std::mem::replace(&mut level, outer));
                level.push(Setting { name, content, place });
                continue;
            }
            Token::Equals | Token::Open => return Err(Problem::new(&place, "a name of a setting is expected")),
        };
        count += 1;
        if count > MAX_SETTINGS {
            return Err(Problem::new(&place, format!("more than {MAX_SETTINGS} settings")));
        }
        match rest {
            [(Token::Equals, _), (Token::Word(text), at), more @ ..] => {
                // Some have several words, which need no quotes: what stands in the same line, up to the name of the next setting.
                let (mut text, mut more) = (text.clone(), more);
                while let [(Token::Word(word), here), after @ ..] = more
                    && here.line == at.line
                    && !matches!(after, [(Token::Equals, _), ..])
                {
                    text = format!("{text} {word}");
                    more = after;
                }
                rest = more;
                level.push(Setting { name, content: Content::Text(text), place });
            }
            // Blocks within a frontend are certificates.
            [(Token::Equals, _), (Token::Open, _), more @ ..] if stack.len() < 2 => {
                rest = more;
                stack.push((name, place, std::mem::take(&mut level)));
            }
            _ => return Err(Problem::new(&place, format!("`{}` is not followed by `=` and a value", shown(&name)))),
        }
    }
    match stack.pop() {
        Some((name, place, _)) => Err(Problem::new(&place, format!("the block of `{name}` is not closed"))),
        None => Ok(level),
    }
}

fn tokens(file: &Rc<str>, text: &str) -> Result<Vec<(Token, Place)>, Problem> {
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = Place { file: Rc::clone(file), line: number + 1 };
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            let token = match c {
                '#' => break,
                '=' => Token::Equals,
                '{' => Token::Open,
                '}' => Token::Close,
                c if c.is_whitespace() => continue,
                '"' => {
                    let mut word = String::new();
                    loop {
                        match chars.next() {
                            None => return Err(Problem::new(&place, "a quote is not closed")),
                            Some('"') => break,
                            Some('\\') => word.extend(chars.next()),
                            Some(c) => word.push(c),
                        }
                    }
                    Token::Word(word)
                }
                c => {
                    let mut word = String::from(c);
                    while let Some(c) = chars.peek().copied().filter(|c| !c.is_whitespace() && !"=#{}\"".contains(*c)) {
                        word.push(c);
                        chars.next();
                    }
                    Token::Word(word)
                }
            };
            out.push((token, place.clone()));
        }
    }
    Ok(out)
}

/// Short options: their letters, names, and whether a value stands behind them.
const SHORT: &[(char, &str, bool)] = &[
    ('c', "ciphers", true),
    ('e', "ssl-engine", true),
    ('O', "prefer-server-ciphers", false),
    ('b', "backend", true),
    ('f', "frontend", true),
    ('n', "workers", true),
    ('B', "backlog", true),
    ('k', "keepalive", true),
    ('R', "backend-refresh", true),
    ('r', "chroot", true),
    ('u', "user", true),
    ('g', "group", true),
    ('q', "quiet", false),
    ('L', "log-level", true),
    ('l', "log-filename", true),
    ('s', "syslog", false),
    ('p', "pidfile", true),
    ('o', "ocsp-dir", true),
    ('t', "test", false),
];

/// Long options that may stand without a value.
const SWITCHES: &[&str] = &[
    "client",
    "daemon",
    "enable-tcp-fastopen",
    "prefer-server-ciphers",
    "proxy-proxy",
    "quiet",
    "sni-nomatch-abort",
    "syslog",
    "test",
    "write-ip",
    "write-proxy",
    "write-proxy-v1",
    "write-proxy-v2",
    "tls",
    "ssl",
    "ocsp-verify-staple",
    "proxy-client-cert",
];

/// Reads the arguments behind the program's name, and the file that they name before them.
///
/// # Errors
/// Why they cannot be used.
pub(super) fn arguments(words: &[OsString], files: &mut Files) -> Result<Given, String> {
    let place = Place { file: "arguments".into(), line: 1 };
    let mut of_file = Vec::new();
    let mut out: Vec<Setting> = Vec::new();
    let mut words = words.iter().map(|word| word.to_str().ok_or_else(|| format!("the argument {word:?} is not UTF-8")));
    while let Some(word) = words.next() {
        let word = word?;
        let mut value = |name: &str, given: Option<&str>, takes: bool| -> Result<String, String> {
            match given {
                Some(value) => Ok(value.to_owned()),
                None if !takes => Ok("on".to_owned()),
                None => words.next().ok_or_else(|| format!("`{name}` needs a value"))?.map(str::to_owned),
            }
        };
        let (name, text) = if let Some(long) = word.strip_prefix("--") {
            let (name, given) = long.split_once('=').map_or((long, None), |(name, given)| (name, Some(given)));
            if matches!(name, "help" | "version") {
                return Ok(Given::Help);
            }
            (name.to_owned(), value(word, given, !SWITCHES.contains(&name))?)
        } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
            let letter = short.chars().next().unwrap_or_default();
            if matches!(letter, 'h' | 'V') {
                return Ok(Given::Help);
            }
            let known = SHORT.iter().find(|(other, ..)| *other == letter);
            let (_, name, takes) = known.ok_or_else(|| format!("`{word}` is no option of hitch"))?;
            let rest = short.get(letter.len_utf8()..).filter(|rest| !rest.is_empty());
            let rest = rest.map(|rest| rest.strip_prefix('=').unwrap_or(rest));
            ((*name).to_owned(), value(word, rest, *takes)?)
        } else {
            ("pem-file".to_owned(), word.to_owned())
        };
        match name.as_str() {
            "config" => {
                let whole = match text == "-" {
                    true => crate::files::read_standard_input(),
                    false => files.read_named(Path::new(&text)).map_err(|why| why.to_string()),
                };
                let whole = whole.map_err(|why| format!("{text}: {why}"))?;
                of_file.extend(read(&text, &whole).map_err(|problem| problem.to_string())?);
            }
            "test" => {}
            _ => out.push(Setting { name, content: Content::Text(text), place: place.clone() }),
        }
        if out.len() > MAX_SETTINGS {
            return Err(format!("more than {MAX_SETTINGS} settings"));
        }
    }
    of_file.extend(out);
    Ok(Given::Settings(of_file))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn show(settings: &[Setting]) -> String {
        let one = |setting: &Setting| match &setting.content {
            Content::Text(text) => format!("{}:{}={text}", setting.place.line, setting.name),
            Content::Block(inner) => format!("{}:{}{{{}}}", setting.place.line, setting.name, show(inner)),
        };
        settings.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn files() {
        for (text, expected) in [
            ("", ""),
            ("workers = 4 # four\nbackend = \"[127.0.0.1]:8000\"", "1:workers=4 2:backend=[127.0.0.1]:8000"),
            ("frontend = {\n host = \"*\"\n port = \"443\"\n}", "1:frontend{2:host=* 3:port=443}"),
            ("frontend={pem-file={cert=\"a\"}}", "1:frontend{1:pem-file{1:cert=a}}"),
        ] {
            assert_eq!(read("h", text).map(|settings| show(&settings)).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("workers", "h:1: `workers` is not followed"),
            ("a = \"b", "h:1: a quote is not closed"),
            ("a = {", "h:1: the block of `a` is not closed"),
            ("}", "h:1: a `}` without"),
            ("= b", "h:1: a name of a setting"),
        ] {
            let found = read("h", text).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }
}
