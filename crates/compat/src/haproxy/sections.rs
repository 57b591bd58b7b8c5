//! Frontends, backends and what `defaults` gives them; settings of the process.

use std::path::{Path, PathBuf};

use super::syntax::{Line, Section};
use crate::migration::{Place, Problem};

/// Most lines of all sections together, those of their `defaults` among them.
const MAX_LINES: usize = 400_000;

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Frontend,
    Backend,
    Listen,
}

/// A frontend, a backend, or both.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// Those of its `defaults`, then its own.
    pub(crate) lines: Vec<Line>,
    pub(crate) place: Place,
}

impl Proxy {
    /// Lines that begin with this word.
    pub(crate) fn all<'p>(&'p self, keyword: &'p str) -> impl Iterator<Item = &'p Line> {
        self.lines.iter().filter(move |line| line.word(0) == keyword)
    }

    /// The last line that begins with this word.
    pub(crate) fn one(&self, keyword: &str) -> Option<&Line> {
        self.lines.iter().rev().find(|line| line.word(0) == keyword)
    }

    /// The last line that says this option, unless it is taken back.
    pub(crate) fn option(&self, name: &str) -> Option<&Line> {
        let says = |line: &&Line| {
            let at = usize::from(line.word(0) == "no");
            line.word(at) == "option" && line.word(at + 1) == name
        };
        self.lines.iter().rev().find(says).filter(|line| line.word(0) != "no")
    }

    /// A time of `timeout`, in milliseconds; none if it is none.
    pub(crate) fn timeout(&self, name: &str) -> Option<u64> {
        let line = self.lines.iter().rev().find(|line| line.word(0) == "timeout" && line.word(1) == name)?;
        milliseconds(line.word(2)).filter(|time| *time > 0)
    }

    /// Whether bytes are forwarded, not requests.
    pub(crate) fn is_tcp(&self) -> bool {
        self.one("mode").is_none_or(|line| line.word(1) != "http")
    }

    /// Whether it is switched off.
    pub(crate) fn is_disabled(&self) -> bool {
        self.lines
            .iter()
            .rev()
            .find(|line| matches!(line.word(0), "enabled" | "disabled"))
            .is_some_and(|line| line.word(0) == "disabled")
    }

    /// Whether PROXY headers name its clients.
    pub(crate) fn has_headers(&self) -> bool {
        let is_one = |line: &Line| match line.word(0) {
            "bind" => line.has("accept-proxy"),
            "tcp-request" => line.word(2) == "expect-proxy",
            _ => false,
        };
        self.lines.iter().any(is_one)
    }

    /// Whether it takes clients.
    pub(crate) fn is_in_front(&self) -> bool {
        self.kind != Kind::Backend
    }
}

/// All proxies of a file.
///
/// # Errors
/// A `defaults` that is not there.
pub(crate) fn proxies(sections: &[Section]) -> Result<Vec<Proxy>, Problem> {
    let mut defaults: Vec<(String, Vec<Line>)> = Vec::new();
    let mut out: Vec<Proxy> = Vec::new();
    let mut count = 0;
    for section in sections {
        let kind = match section.kind.as_str() {
            "frontend" => Kind::Frontend,
            "backend" => Kind::Backend,
            "listen" => Kind::Listen,
            "defaults" => {
                let mut lines = given(section, &defaults)?;
                lines.extend(section.lines.iter().cloned());
                count += lines.len();
                bounded(count, section)?;
                defaults.push((section.name.clone(), lines));
                continue;
            }
            _ => continue,
        };
        let mut lines = match &section.from {
            Some(_) => given(section, &defaults)?,
            None => defaults.last().map(|(_, lines)| lines.clone()).unwrap_or_default(),
        };
        distinct(&lines, section)?;
        lines.extend(section.lines.iter().cloned());
        count += lines.len();
        bounded(count, section)?;
        out.push(Proxy { kind, name: section.name.clone(), lines, place: section.place.clone() });
    }
    Ok(out)
}

/// ACLs of `defaults` are for the rules there alone: of two with one name each rule has its own.
fn distinct(inherited: &[Line], section: &Section) -> Result<(), Problem> {
    let is_acl = |line: &&Line| line.word(0) == "acl";
    let named = |line: &&Line| inherited.iter().filter(is_acl).any(|other| other.word(1) == line.word(1));
    match section.lines.iter().filter(is_acl).find(named) {
        Some(line) => Err(Problem::new(
            &line.place,
            format!("`defaults` has another ACL `{}`; give one of them another name", line.word(1)),
        )),
        None => Ok(()),
    }
}

fn bounded(count: usize, section: &Section) -> Result<(), Problem> {
    match count > MAX_LINES {
        true => Err(Problem::new(&section.place, format!("more than {MAX_LINES} lines with those of `defaults`"))),
        false => Ok(()),
    }
}

fn given(section: &Section, defaults: &[(String, Vec<Line>)]) -> Result<Vec<Line>, Problem> {
    let Some(from) = &section.from else { return Ok(Vec::new()) };
    let found = defaults.iter().rev().find(|(name, _)| name == from).map(|(_, lines)| lines.clone());
    found.ok_or_else(|| Problem::new(&section.place, format!("there is no `defaults {from}` before it")))
}

/// What `global` says that counts elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Global {
    pub(crate) lines: Vec<Line>,
}

impl Global {
    pub(crate) fn of(sections: &[Section]) -> Global {
        let of = sections.iter().filter(|section| section.kind == "global");
        Global { lines: of.flat_map(|section| section.lines.iter().cloned()).collect() }
    }

    /// The last line that begins with this word.
    pub(crate) fn one(&self, keyword: &str) -> Option<&Line> {
        self.lines.iter().rev().find(|line| line.word(0) == keyword)
    }

    /// The file that a name of certificates means, below `crt-base` or `ca-base`.
    pub(crate) fn file(&self, base: &str, root: &Path, name: &str) -> PathBuf {
        let base = self.one(base).map_or("", |line| line.word(1));
        root.join(base).join(name)
    }
}

/// Reads a time, whose unit is milliseconds unless it says another one.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value: u64 = text.get(..digits)?.parse().ok()?;
    let factor = match text.get(digits..)? {
        "" | "ms" => 1,
        "us" => return Some(value.div_ceil(1_000)),
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    value.checked_mul(factor)
}
