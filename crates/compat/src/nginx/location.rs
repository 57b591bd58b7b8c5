//! Locations in the order in which nginx would take them: exact ones, expressions in the order of the file, then the longest start; nested ones within theirs.

use config::{Comparison, Expression};

use super::syntax::Directive;
use crate::cells::{Language, canonical, canonical_start};
use crate::expressions::{Subject, literal, native, path_start};

/// A location at its place in the order.
#[derive(Debug, Clone)]
pub(crate) struct Placed<'d> {
    pub(crate) language: Language,
    /// The blocks around its directives, the outermost first, itself last.
    pub(crate) chain: Vec<&'d Directive>,
    /// Why its paths are more than its own, so that nothing can be done with them.
    pub(crate) closed: Option<String>,
    /// A path without the slash at the end is redirected to it, if its handler forwards.
    pub(crate) is_folder_of: bool,
}

/// What a location is matched by.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Exact(String),
    Prefix { start: String, no_expressions: bool },
    Regex { text: String, ignores_case: bool },
    Named(String),
}

fn kind(directive: &Directive) -> Option<Kind> {
    let (modifier, text) = match directive.args.as_slice() {
        [modifier, text] => (modifier.as_str(), text.as_str()),
        [text] => {
            let modifiers = ["=", "^~", "~*", "~"];
            let found = modifiers.iter().find(|modifier| text.starts_with(**modifier));
            found.map_or(("", text.as_str()), |modifier| (*modifier, text.strip_prefix(*modifier).unwrap_or(text)))
        }
        _ => return None,
    };
    let (text, ignores_case) = (text.to_owned(), modifier == "~*");
    match modifier {
        "=" => Some(Kind::Exact(text)),
        "" if text.starts_with('@') => Some(Kind::Named(text)),
        "" | "^~" => Some(Kind::Prefix { start: text, no_expressions: modifier == "^~" }),
        "~" | "~*" => Some(Kind::Regex { text, ignores_case }),
        _ => None,
    }
}

/// The named location of a level.
pub(crate) fn named<'d>(level: &'d [Directive], name: &str) -> Option<&'d Directive> {
    level.iter().find(|directive| directive.name == "location" && kind(directive) == Some(Kind::Named(name.to_owned())))
}

/// The blocks around the directives of the location that an internal request for a path takes, the outermost first; none if no location is there.
///
/// # Errors
/// Why it is not known: an expression that is asked cannot be carried.
pub(crate) fn of_path<'d>(level: &'d [Directive], path: &str) -> Result<Option<Vec<&'d Directive>>, String> {
    found_in(level, path).map(|found| found.map(|(chain, _)| chain))
}

/// Blocks around the directives of a location, itself last; and whether expressions further out are not asked any more.
type Found<'d> = (Vec<&'d Directive>, bool);

fn found_in<'d>(level: &'d [Directive], path: &str) -> Result<Option<Found<'d>>, String> {
    let locations = || level.iter().filter(|directive| directive.name == "location");
    let within = |found: &'d Directive| -> Result<Option<Found<'d>>, String> {
        let inner = found_in(found.inner(), path)?;
        Ok(inner.map(|(chain, is_over)| ([found].into_iter().chain(chain).collect(), is_over)))
    };
    if let Some(exact) = locations().find(|one| matches!(kind(one), Some(Kind::Exact(own)) if own == path)) {
        return Ok(Some((vec![exact], true)));
    }
    let start = |directive: &&'d Directive| match kind(directive)? {
        Kind::Prefix { start, no_expressions } if path.starts_with(&start) => Some((start.len(), no_expressions)),
        _ => None,
    };
    let longest = locations().filter_map(|one| Some((start(&one)?, one))).max_by_key(|((length, _), _)| *length);
    let nested = longest.map_or(Ok(None), |(_, one)| within(one))?;
    if nested.as_ref().is_some_and(|(_, is_over)| *is_over) {
        return Ok(nested);
    }
    if !longest.is_some_and(|((_, no_expressions), _)| no_expressions) {
        for one in locations() {
            let Some(Kind::Regex { text, ignores_case }) = kind(one) else { continue };
            let expression = native(&text, ignores_case, Subject::Value)?;
            let expression = Expression::new(&expression).map_err(|(what, _)| what)?;
            if expression.matches(path.as_bytes()) {
                let chain = within(one)?.map_or_else(|| vec![one], |(chain, _)| chain);
                return Ok(Some((chain, true)));
            }
        }
    }
    Ok(nested.or_else(|| longest.map(|(_, one)| (vec![one], false))))
}

/// The expressions that a location with an expression matches by; none of others.
pub(crate) fn expression_of(directive: &Directive) -> Option<Result<String, String>> {
    match kind(directive)? {
        Kind::Regex { text, ignores_case } => Some(native(&text, ignores_case, Subject::Decoded)),
        _ => None,
    }
}

/// The start that a location forwards without, where it forwards to a URI.
pub(crate) fn start_of(directive: &Directive) -> Option<String> {
    match kind(directive)? {
        Kind::Exact(text) | Kind::Prefix { start: text, .. } => Some(text),
        _ => None,
    }
}

/// Whether a location matches one path alone.
pub(crate) fn is_exact(directive: &Directive) -> bool {
    matches!(kind(directive), Some(Kind::Exact(_)))
}

/// The locations of a server, in order. What cannot be read as one is given back with the reason.
pub(crate) fn order<'d>(server: &'d Directive) -> (Vec<Placed<'d>>, Vec<(&'d Directive, String)>) {
    let mut unread = Vec::new();
    let mut placed = level(server.inner(), &[], None, &mut unread);
    placed.head.append(&mut placed.tail);
    (placed.head, unread)
}

/// Locations before the expressions around them are asked, and behind.
#[derive(Default)]
struct Order<'d> {
    head: Vec<Placed<'d>>,
    /// By length, the longest first.
    tail: Vec<Placed<'d>>,
}

struct Start<'d> {
    text: String,
    no_expressions: bool,
    directive: &'d Directive,
}

/// The locations of a level within a start.
fn level<'d>(
    directives: &'d [Directive],
    chain: &[&'d Directive],
    parent: Option<&str>,
    unread: &mut Vec<(&'d Directive, String)>,
) -> Order<'d> {
    let within = |directive: &'d Directive| chain.iter().copied().chain([directive]).collect::<Vec<_>>();
    let mut starts: Vec<Start<'d>> = Vec::new();
    let mut exact = Vec::new();
    let mut expressions = Vec::new();
    for directive in directives.iter().filter(|directive| directive.name == "location") {
        match kind(directive) {
            None => unread.push((directive, "it is not understood".to_owned())),
            Some(Kind::Named(_)) => {}
            // Slashes are merged before locations are looked at.
            Some(Kind::Exact(text) | Kind::Prefix { start: text, .. }) if text.contains("//") => {
                unread.push((directive, "no request has two slashes there".to_owned()));
            }
            Some(Kind::Exact(text)) => match canonical(&text) {
                Some(path) => exact.push(Placed {
                    is_folder_of: path.len() > 1 && path.ends_with('/'),
                    language: Language::Exact(path),
                    chain: within(directive),
                    closed: None,
                }),
                None => unread.push((directive, "no request has this path".to_owned())),
            },
            Some(Kind::Prefix { start, no_expressions }) => match canonical_start(&start) {
                Some(text) if text.starts_with('/') => starts.push(Start { text, no_expressions, directive }),
                _ => unread.push((directive, "no request has a path that begins so".to_owned())),
            },
            Some(Kind::Regex { text, ignores_case }) => expressions.push((directive, text, ignores_case)),
        }
    }
    starts.sort_by_key(|start| std::cmp::Reverse(start.text.len()));
    let mut out = Order { head: exact, tail: Vec::new() };
    nested(&starts, chain, &mut out, unread);
    for (directive, text, ignores_case) in expressions {
        let except = starts.iter().filter(|start| start.no_expressions).map(|start| start.text.as_str());
        let except: Vec<&str> = except.collect();
        let (language, closed) = expression(&text, ignores_case, parent, &except, &starts);
        let nested = directive.inner().iter().any(|inner| inner.name == "location");
        let closed = closed.or_else(|| nested.then(|| "locations stand within it".to_owned()));
        out.head.push(Placed { language, chain: within(directive), closed, is_folder_of: false });
    }
    for start in starts {
        out.tail.push(Placed {
            is_folder_of: start.text.len() > 1 && start.text.ends_with('/'),
            language: Language::Prefix(start.text),
            chain: within(start.directive),
            closed: None,
        });
    }
    out.tail.sort_by_key(|placed| match &placed.language {
        Language::Prefix(start) => std::cmp::Reverse(start.len()),
        _ => std::cmp::Reverse(0),
    });
    out
}

/// Puts what stands within starts where it counts: before the expressions of this level, for paths whose longest start is that one.
fn nested<'d>(
    starts: &[Start<'d>],
    chain: &[&'d Directive],
    out: &mut Order<'d>,
    unread: &mut Vec<(&'d Directive, String)>,
) {
    for start in starts {
        let inner_chain: Vec<&Directive> = chain.iter().copied().chain([start.directive]).collect();
        let inner = level(start.directive.inner(), &inner_chain, Some(&start.text), unread);
        let longer: Vec<&str> =
            starts.iter().map(|other| other.text.as_str()).filter(|other| is_longer(other, &start.text)).collect();
        let is_hidden = |text: &str| longer.iter().any(|longer| text.starts_with(*longer));
        for mut placed in inner.head {
            match &mut placed.language {
                Language::Exact(path) if is_hidden(path) => continue,
                Language::Expression { except, .. } => {
                    except.extend(longer.iter().map(|start| path_start(start)));
                }
                _ => {}
            }
            out.head.push(placed);
        }
        let seen = |placed: &Placed<'d>| !matches!(&placed.language, Language::Prefix(text) if is_hidden(text));
        out.tail.extend(inner.tail.into_iter().filter(seen));
    }
}

fn is_longer(other: &str, start: &str) -> bool {
    other.len() > start.len() && other.starts_with(start)
}

/// The paths of an expression within a start, without those that starts with `^~` keep from it; and why they are too many.
fn expression(
    text: &str,
    ignores_case: bool,
    parent: Option<&str>,
    except: &[&str],
    starts: &[Start<'_>],
) -> (Language, Option<String>) {
    let all = |starts: &str| Language::Prefix(starts.to_owned());
    let everything = all(parent.unwrap_or("/"));
    let whole = match native(text, ignores_case, Subject::Decoded) {
        Ok(whole) => whole,
        Err(why) => return (everything, Some(why)),
    };
    let whole = match parent.map_or(Ok(whole.clone()), |parent| intersection(parent, &whole)) {
        Ok(whole) => whole,
        Err(why) => return (everything, Some(why)),
    };
    // A longer start within one of `^~` asks expressions again.
    let meets = |start: &str| {
        let (Ok(start), Ok(whole)) = (Expression::new(&path_start(start)), Expression::new(&whole)) else {
            return true;
        };
        Expression::shared(&[&start, &whole], &mut Comparison::of_paths()) != Ok(None)
    };
    let kept: Vec<&str> = except.iter().copied().filter(|start| meets(start)).collect();
    let asks_again = starts.iter().any(|start| {
        !start.no_expressions && kept.iter().any(|kept| is_longer(&start.text, kept)) && meets(&start.text)
    });
    if asks_again {
        return (
            everything,
            Some("a location with `^~` has one without it within, where this one counts again".to_owned()),
        );
    }
    let except = kept.iter().map(|start| path_start(start)).collect();
    (Language::Expression { text: whole, except }, None)
}

/// An expression for the paths of another one that begin with a text.
fn intersection(start: &str, whole: &str) -> Result<String, String> {
    let fault = || "its expression meets the location around it in the middle".to_owned();
    let compiled = |text: &str| Expression::new(text).map_err(|_| fault());
    let starts = compiled(&path_start(start))?;
    let own = compiled(whole)?;
    let is_none = |all: &[&Expression]| {
        Expression::shared(all, &mut Comparison::of_paths()).map(|found| found.is_none()).map_err(|_| fault())
    };
    if is_none(&[&own.clone().except(std::slice::from_ref(&starts))])? {
        return Ok(whole.to_owned());
    }
    // Behind the start, or begun within it.
    let (flags, plain) = match whole.strip_prefix("(?i)") {
        Some(plain) => ("(?i)", plain),
        None => ("", whole),
    };
    let narrowed = format!("{}{flags}(?:{plain})", literal(start));
    let behind = compiled(&narrowed)?;
    match plain.starts_with(".*")
        && !plain.contains('|')
        && is_none(&[&own.except(std::slice::from_ref(&behind)), &starts])?
    {
        true => Ok(format!("{}{flags}{plain}", literal(start))),
        false => Err(fault()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use super::super::syntax::read;
    use super::*;
    use crate::files::Files;
    use crate::migration::Report;

    fn show(text: &str) -> Vec<String> {
        let given = BTreeMap::from([(PathBuf::from("/n"), format!("server {{ {text} }}"))]);
        let tree = read(&mut Files::given(given), Path::new("/n"), Path::new("/"), &Report::default()).unwrap();
        let (placed, unread) = order(&tree[0]);
        let one = |placed: &Placed<'_>| {
            let language = match &placed.language {
                Language::Exact(path) => format!("= {path}"),
                Language::Prefix(start) => start.clone(),
                Language::Below(path) => format!("{path}/…"),
                Language::Expression { text, except } => format!("~ {text} - {}", except.join(" ")),
            };
            let closed = if placed.closed.is_some() { " closed" } else { "" };
            format!("{}{closed}", language.trim_end_matches(" - "))
        };
        placed
            .iter()
            .map(one)
            .chain(unread.iter().map(|(directive, _)| format!("unread {}", directive.shown())))
            .collect()
    }

    #[test]
    fn locations_in_their_order() {
        assert_eq!(
            show(
                "location / {} location = /x {} location ~ \\.php$ {} location ^~ /static/ {} location /api {} location @a {}"
            ),
            ["= /x", "~ .*\\.php - /static/.*", "/static/", "/api", "/"]
        );
        assert_eq!(
            show(
                "location /a/ { location ~ \\.png$ {} location = /a/x {} location /a/b/ {} } location ~ ^/a/.*g$ {} location /a/c/ {}"
            ),
            ["= /a/x", "~ /a/.*\\.png - /a/c/.*", "~ /a/.*g", "/a/b/", "/a/c/", "/a/"]
        );
        assert_eq!(show("location ~ ^/(?!x+) {} location /a b {}"), ["/ closed", "unread location /a b"]);
        assert_eq!(show("location ^~ /s/ {} location /s/d/ {} location ~ \\.x$ {}"), ["/ closed", "/s/d/", "/s/"]);
        // What begins within the location around it is no text behind it.
        assert_eq!(show("location /ab { location ~ b/c {} }"), ["/ab closed", "/ab"]);
        assert_eq!(
            show("location =/x {} location ~*\\.GIF$ {} location /../x {}"),
            ["= /x", "~ (?i).*\\.GIF", "unread location /../x"]
        );
    }
}
