//! XML as far as bodies need it: one tree of elements with attributes or text (XML 1.0, Namespaces in XML 1.0). No DTD, no processing instructions,
//! no entities but the five that everybody knows. Bounded in depth, elements, attributes and names.
//!
//! Stricter than the specifications where readers differ: text beside elements, text in several pieces that some join and others do not. Knows no schema.

use std::collections::HashMap;
use std::num::NonZeroU16;

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::message::shown;
use crate::turn::{BYTES_PER_STEP, Turn};

/// Namespaces of one body, whatever is configured: they are counted in 16 bits.
const MAX_NAMESPACES: usize = 1_000;

/// Bounds on a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) depth: usize,
    /// Elements and attributes together.
    pub(crate) nodes: usize,
    /// Attributes of one element.
    pub(crate) attributes: usize,
    pub(crate) name_bytes: usize,
}

/// Why a body is not read.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Failed {
    Malformed(String),
    Limit(&'static str),
}

/// Elements of a body; the first one is the root.
#[derive(Debug, Default)]
pub(crate) struct Tree<'t> {
    pub(crate) elements: Vec<Element<'t>>,
    attributes: Vec<Attribute<'t>>,
    /// The decoded texts of all of them.
    texts: String,
    uris: Vec<String>,
}

/// One element. Small, since a body may have as many as a quarter of its bytes.
#[derive(Debug)]
pub(crate) struct Element<'t> {
    /// With its prefix, as written.
    pub(crate) name: &'t str,
    /// Its namespace, by its place among those that were declared.
    namespace: Option<NonZeroU16>,
    /// That of the element around it.
    outer: Option<NonZeroU16>,
    attributes: (u32, u32),
    text: (u32, u32),
    /// Its first child, its last one, and the next child of the element around it; 0 for none, since the root is nobody's child.
    first: u32,
    last: u32,
    next: u32,
}

/// One attribute; declarations of namespaces are none.
#[derive(Debug)]
pub(crate) struct Attribute<'t> {
    pub(crate) name: &'t str,
    namespace: Option<NonZeroU16>,
    text: (u32, u32),
}

impl<'t> Tree<'t> {
    pub(crate) fn attributes(&self, element: &Element<'t>) -> &[Attribute<'t>] {
        self.attributes.get(range(element.attributes)).unwrap_or_default()
    }

    /// The elements in an element, by number.
    pub(crate) fn children(&self, element: &Element<'t>) -> impl Iterator<Item = usize> {
        let some = |number: u32| Some(number).filter(|number| *number > 0);
        std::iter::successors(some(element.first), move |number| some(self.elements.get(*number as usize)?.next))
            .map(|number| number as usize)
    }

    /// The text of an element without children.
    pub(crate) fn text(&self, element: &Element<'t>) -> &str {
        self.texts.get(range(element.text)).unwrap_or_default()
    }

    pub(crate) fn value(&self, attribute: &Attribute<'t>) -> &str {
        self.texts.get(range(attribute.text)).unwrap_or_default()
    }

    /// Whether an element is in the namespace that is asked for: this one, or, where none is, that of the element around it.
    pub(crate) fn is_in(&self, element: &Element<'t>, namespace: Option<&str>) -> bool {
        match namespace {
            Some(uri) => self.uri(element.namespace) == Some(uri),
            None => element.namespace.is_none() || element.name.contains(':') || element.namespace == element.outer,
        }
    }

    /// The same of an attribute, which is in none where none is asked for and it has no prefix.
    pub(crate) fn has_namespace(&self, attribute: &Attribute<'t>, namespace: Option<&str>) -> bool {
        namespace.is_none() || self.uri(attribute.namespace) == namespace
    }

    fn uri(&self, number: Option<NonZeroU16>) -> Option<&str> {
        self.uris.get(usize::from(number?.get()) - 1).map(String::as_str)
    }

    pub(crate) fn bytes_held(&self) -> usize {
        std::mem::size_of::<Element<'_>>() * self.elements.capacity()
            + std::mem::size_of::<Attribute<'_>>() * self.attributes.capacity()
            + self.texts.capacity()
    }
}

fn range((start, end): (u32, u32)) -> std::ops::Range<usize> {
    start as usize..end as usize
}

/// What is being read.
struct Building<'t> {
    tree: Tree<'t>,
    bounds: Bounds,
    open: Vec<Open>,
    scope: Scope<'t>,
    /// Names, namespaces and declarations that were compared and are not charged to the turn yet.
    comparisons: usize,
}

/// The prefixes in scope. As many may be declared as elements are open, times their attributes, so none is searched for.
#[derive(Default)]
struct Scope<'t> {
    declarations: Vec<Declaration<'t>>,
    /// The innermost declaration of each prefix.
    innermost: HashMap<&'t str, usize>,
}

struct Declaration<'t> {
    prefix: &'t str,
    /// None: undone.
    namespace: Option<NonZeroU16>,
    depth: usize,
    /// The declaration of the same prefix that applies outside of the element.
    outer: Option<usize>,
}

impl<'t> Scope<'t> {
    fn get(&self, prefix: &str, comparisons: &mut usize) -> Option<&Declaration<'t>> {
        *comparisons += 1;
        self.declarations.get(*self.innermost.get(prefix)?)
    }

    fn declare(&mut self, prefix: &'t str, namespace: Option<NonZeroU16>, depth: usize) {
        let outer = self.innermost.insert(prefix, self.declarations.len());
        self.declarations.push(Declaration { prefix, namespace, depth, outer });
    }

    /// Forgets what was declared within an element that ended.
    fn leave(&mut self, depth: usize) {
        while let Some(Declaration { prefix, outer, .. }) = self.declarations.pop_if(|last| last.depth > depth) {
            match outer {
                Some(outer) => self.innermost.insert(prefix, outer),
                None => self.innermost.remove(prefix),
            };
        }
    }

    fn bytes_held(&self) -> usize {
        std::mem::size_of::<Declaration<'_>>() * self.declarations.capacity()
            + std::mem::size_of::<(&str, usize)>() * self.innermost.capacity()
    }
}

/// An element whose end has not come.
#[derive(Default)]
struct Open {
    number: usize,
    text: String,
    has_comment: bool,
    has_section: bool,
    has_plain: bool,
}

/// Reads a body. `text` has line ends as XML has them ([`line_ends`]).
pub(crate) async fn parse<'t>(text: &'t str, bounds: Bounds, turn: &Turn) -> Result<Tree<'t>, Failed> {
    // A mark at the beginning is no part of the text (XML 1.0 §4.3.3).
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if u32::try_from(text.len()).is_err() {
        return Err(Failed::Limit("is too large for XML"));
    }
    if !text.chars().all(is_char) {
        return Err(malformed("holds a character that XML has not"));
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().enable_all_checks(true);
    let mut building =
        Building { tree: Tree::default(), bounds, open: Vec::new(), scope: Scope::default(), comparisons: 0 };
    let mut at = 0;
    loop {
        let event =
            reader.read_event().map_err(|error| Failed::Malformed(format!("is not XML: {}", first_line(&error))))?;
        let to = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        let raw = text.get(at..to).unwrap_or_default();
        match event {
            Event::Eof => break,
            Event::Decl(_) if at == 0 => check_declaration(raw)?,
            Event::Decl(_) => return Err(malformed("has an XML declaration that is not at its beginning")),
            Event::DocType(_) => return Err(malformed("has a document type declaration")),
            Event::PI(_) => return Err(malformed("has a processing instruction")),
            Event::Comment(_) => building.open.iter_mut().last().into_iter().for_each(|open| open.has_comment = true),
            Event::Start(_) => building.start(within(raw, "<", ">"))?,
            Event::Empty(_) => {
                building.start(within(raw, "<", "/>"))?;
                building.end()?;
            }
            Event::End(_) => building.end()?,
            Event::Text(_) => building.text(raw)?,
            Event::CData(_) => building.section(within(raw, "<![CDATA[", "]]>"))?,
            Event::GeneralRef(_) => building.reference(within(raw, "&", ";"))?,
        }
        turn.hold(text.len() + building.tree.bytes_held() + building.scope.bytes_held());
        turn.spend_on(raw.len() + BYTES_PER_STEP * std::mem::take(&mut building.comparisons)).await;
        at = to;
    }
    match building {
        Building { open, .. } if !open.is_empty() => Err(malformed("ends within an element")),
        Building { tree, .. } if tree.elements.is_empty() => Err(malformed("has no element")),
        Building { tree, .. } => Ok(tree),
    }
}

/// The text with line feeds as line ends (XML 1.0 §2.11).
pub(crate) fn line_ends(text: &str) -> std::borrow::Cow<'_, str> {
    match text.contains('\r') {
        true => text.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => text.into(),
    }
}

impl<'t> Building<'t> {
    fn start(&mut self, tag: &'t str) -> Result<(), Failed> {
        let number = self.tree.elements.len();
        let (name, rest) = tag.split_at(tag.find(is_space).unwrap_or(tag.len()));
        self.check_name(name)?;
        match self.open.last_mut() {
            None if number > 0 => return Err(malformed("has more than one root element")),
            None => {}
            Some(outer) if is_blank(&outer.text) => {
                outer.text.clear();
                let parent = outer.number;
                self.adopt(parent, number as u32);
            }
            Some(_) => return Err(mixed()),
        }
        if self.open.len() >= self.bounds.depth {
            return Err(Failed::Limit("is nested too deeply"));
        }
        let outer = self.open.last().and_then(|open| self.tree.elements.get(open.number)?.namespace);
        self.open.push(Open { number, ..Open::default() });
        let first = self.tree.attributes.len();
        self.attributes(rest)?;
        let attributes = first..self.tree.attributes.len();
        let namespace = self.namespace(name, true)?;
        self.resolve(attributes.clone())?;
        let attributes = (attributes.start as u32, attributes.end as u32);
        let text = (0, 0);
        self.tree.elements.push(Element { name, namespace, outer, attributes, text, first: 0, last: 0, next: 0 });
        self.check_count()
    }

    /// Notes that an element is in another one.
    fn adopt(&mut self, parent: usize, child: u32) {
        let Some(parent) = self.tree.elements.get_mut(parent) else { return };
        let before = std::mem::replace(&mut parent.last, child);
        if before == 0 {
            parent.first = child;
        } else if let Some(before) = self.tree.elements.get_mut(before as usize) {
            before.next = child;
        }
    }

    fn end(&mut self) -> Result<(), Failed> {
        let Some(open) = self.open.pop() else { return Err(malformed("ends an element that has not begun")) };
        self.scope.leave(self.open.len());
        let Some(element) = self.tree.elements.get_mut(open.number) else { return Ok(()) };
        if element.first > 0 {
            return if is_blank(&open.text) { Ok(()) } else { Err(mixed()) };
        }
        // Some readers give the first piece, others all of them.
        let is_in_pieces = open.has_comment || (open.has_section && open.has_plain);
        if is_in_pieces && !is_blank(&open.text) {
            return Err(malformed("has text that a comment or a CDATA section cuts in pieces"));
        }
        let start = self.tree.texts.len() as u32;
        self.tree.texts.push_str(&open.text);
        element.text = (start, self.tree.texts.len() as u32);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Failed> {
        if text.contains("]]>") {
            return Err(malformed("holds `]]>` in text"));
        }
        let is_outside = self.open.is_empty();
        match self.open.last_mut() {
            Some(open) => {
                open.text.push_str(text);
                open.has_plain = true;
            }
            None if is_outside && is_blank(text) => {}
            None => return Err(malformed("has text outside of its root element")),
        }
        Ok(())
    }

    fn section(&mut self, text: &str) -> Result<(), Failed> {
        let Some(open) = self.open.last_mut() else { return Err(malformed("has text outside of its root element")) };
        // Two of them are in pieces as well.
        open.has_plain |= open.has_section;
        open.has_section = true;
        open.text.push_str(text);
        Ok(())
    }

    fn reference(&mut self, name: &str) -> Result<(), Failed> {
        let Some(open) = self.open.last_mut() else {
            return Err(malformed("has a reference outside of its root element"));
        };
        open.text.push(referred(name)?);
        open.has_plain = true;
        Ok(())
    }

    /// Reads what follows the name in a tag. Declarations of namespaces go into the scope.
    fn attributes(&mut self, rest: &'t str) -> Result<(), Failed> {
        let first = self.tree.attributes.len();
        let (mut rest, mut count) = (rest, 0);
        loop {
            let trimmed = rest.trim_start_matches(is_space);
            if trimmed.is_empty() {
                return Ok(());
            }
            if trimmed.len() == rest.len() {
                return Err(malformed("has attributes that nothing separates"));
            }
            count += 1;
            if count > self.bounds.attributes {
                return Err(Failed::Limit("has an element with too many attributes"));
            }
            let (name, value, behind) = attribute(trimmed)?;
            rest = behind;
            self.check_name(name)?;
            let start = self.tree.texts.len();
            push_value(value, &mut self.tree.texts)?;
            let text = (start as u32, self.tree.texts.len() as u32);
            let prefix = if name == "xmlns" { Some("") } else { name.strip_prefix("xmlns:") };
            if let Some(prefix) = prefix {
                let uri = self.tree.texts.split_off(start);
                self.declare(prefix, uri)?;
                continue;
            }
            let own = self.tree.attributes.get(first..).unwrap_or_default();
            self.comparisons += own.len();
            if own.iter().any(|other| other.name == name) {
                return Err(Failed::Malformed(format!("has the attribute `{}` twice", shown(name.as_bytes()))));
            }
            self.tree.attributes.push(Attribute { name, namespace: None, text });
        }
    }

    /// Takes a declaration of a namespace.
    fn declare(&mut self, prefix: &'t str, uri: String) -> Result<(), Failed> {
        const RESERVED: [&str; 2] = ["http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"];
        let depth = self.open.len();
        let is_twice = self.scope.get(prefix, &mut self.comparisons).is_some_and(|known| known.depth == depth);
        let is_undone = uri.is_empty() && !prefix.is_empty();
        if is_twice || is_undone || matches!(prefix, "xml" | "xmlns") || RESERVED.contains(&uri.as_str()) {
            return Err(malformed("declares a namespace in a way that is not allowed"));
        }
        if uri.len() > self.bounds.name_bytes {
            return Err(Failed::Limit("has a namespace that is too long"));
        }
        self.comparisons += self.tree.uris.len();
        let number = match self.tree.uris.iter().position(|known| *known == uri) {
            _ if uri.is_empty() => None,
            Some(number) => NonZeroU16::new(number as u16 + 1),
            None if self.tree.uris.len() >= self.bounds.attributes.min(MAX_NAMESPACES) => {
                return Err(Failed::Limit("has too many namespaces"));
            }
            None => {
                self.tree.uris.push(uri);
                NonZeroU16::new(self.tree.uris.len() as u16)
            }
        };
        self.scope.declare(prefix, number, depth);
        Ok(())
    }

    /// The namespace of a name; a prefix must be declared. Without a prefix, attributes are in none.
    fn namespace(&mut self, name: &str, is_element: bool) -> Result<Option<NonZeroU16>, Failed> {
        let prefix = match name.split_once(':') {
            Some(("xml", _)) => return Ok(None),
            Some((prefix, _)) => prefix,
            None if is_element => "",
            None => return Ok(None),
        };
        match self.scope.get(prefix, &mut self.comparisons) {
            Some(declaration) => Ok(declaration.namespace),
            None if prefix.is_empty() => Ok(None),
            None => {
                Err(Failed::Malformed(format!("has the prefix `{}`, which nothing declares", shown(prefix.as_bytes()))))
            }
        }
    }

    /// Finds the namespaces of attributes, of which no two may have one name.
    fn resolve(&mut self, range: std::ops::Range<usize>) -> Result<(), Failed> {
        let local = |name: &'t str| name.split_once(':').map_or(name, |(_, local)| local);
        for at in range.clone() {
            let Some(name) = self.tree.attributes.get(at).map(|attribute| attribute.name) else { continue };
            let namespace = self.namespace(name, false)?;
            let before = self.tree.attributes.get(range.start..at).unwrap_or_default();
            let is_same = |other: &Attribute<'t>| other.namespace == namespace && local(other.name) == local(name);
            self.comparisons += if namespace.is_some() { before.len() } else { 0 };
            if namespace.is_some() && before.iter().any(is_same) {
                return Err(Failed::Malformed(format!("has the attribute `{}` twice", shown(name.as_bytes()))));
            }
            self.tree.attributes.get_mut(at).into_iter().for_each(|attribute| attribute.namespace = namespace);
        }
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<(), Failed> {
        if name.len() > self.bounds.name_bytes {
            return Err(Failed::Limit("has a name that is too long"));
        }
        let (prefix, local) = name.split_once(':').unwrap_or(("a", name));
        match is_name(prefix) && is_name(local) {
            true => Ok(()),
            false => Err(Failed::Malformed(format!("has `{}` for a name", shown(name.as_bytes())))),
        }
    }

    fn check_count(&self) -> Result<(), Failed> {
        match self.tree.elements.len() + self.tree.attributes.len() > self.bounds.nodes {
            true => Err(Failed::Limit("has too many elements and attributes")),
            false => Ok(()),
        }
    }
}

/// One attribute at the start of `text`, and what follows it.
fn attribute(text: &str) -> Result<(&str, &str, &str), Failed> {
    let bad = || malformed("has an attribute that is not written `name=\"value\"`");
    let (name, rest) = text.split_once('=').ok_or_else(bad)?;
    let rest = rest.trim_start_matches(is_space);
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\'')).ok_or_else(bad)?;
    let (value, rest) = rest.get(1..).unwrap_or_default().split_once(quote).ok_or_else(bad)?;
    Ok((name.trim_end_matches(is_space), value, rest))
}

/// Appends the value of an attribute, with spaces for line ends and tabs (XML 1.0 §3.3.3).
fn push_value(value: &str, out: &mut String) -> Result<(), Failed> {
    let mut rest = value;
    while let Some(at) = rest.find(['&', '<', '\t', '\n']) {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at..).unwrap_or_default();
        match rest.strip_prefix('&') {
            Some(reference) => {
                let (name, behind) =
                    reference.split_once(';').ok_or_else(|| malformed("has a reference without its end"))?;
                out.push(referred(name)?);
                rest = behind;
            }
            None if rest.starts_with('<') => return Err(malformed("holds `<` in an attribute")),
            None => {
                out.push(' ');
                rest = rest.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    Ok(())
}

/// The character that a reference means: one of the five, or one by its number.
fn referred(name: &str) -> Result<char, Failed> {
    let number = |digits: &str, radix: u32| {
        let is_plain = !digits.is_empty() && digits.len() <= 8 && digits.chars().all(|c| c.is_digit(radix));
        u32::from_str_radix(digits, radix).ok().filter(|_| is_plain).and_then(char::from_u32).filter(|c| is_char(*c))
    };
    let found = match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => match (name.strip_prefix("#x"), name.strip_prefix('#')) {
            (Some(digits), _) => number(digits, 16),
            (None, Some(digits)) => number(digits, 10),
            (None, None) => None,
        },
    };
    found.ok_or_else(|| {
        Failed::Malformed(format!("refers to `{}`, which is no character of XML", shown(name.as_bytes())))
    })
}

/// `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` (XML 1.0 §2.8).
fn check_declaration(raw: &str) -> Result<(), Failed> {
    let bad = || malformed("has an XML declaration that is not of XML 1.0 in UTF-8");
    let mut rest = within(raw, "<?xml", "?>");
    // To some, it begins with these six characters, or is a processing instruction.
    if !rest.starts_with(' ') {
        return Err(bad());
    }
    let mut allowed = ["version", "encoding", "standalone"].as_slice();
    while !rest.trim_matches(is_space).is_empty() {
        let (name, value, behind) =
            attribute(rest.strip_prefix(is_space).ok_or_else(bad)?.trim_start_matches(is_space))?;
        let at = allowed.iter().position(|known| *known == name).ok_or_else(bad)?;
        let is_good = match name {
            "version" => value == "1.0",
            "encoding" => value.eq_ignore_ascii_case("utf-8"),
            _ => matches!(value, "yes" | "no"),
        };
        // The version comes first and must be there.
        if !is_good || (allowed.len() == 3 && at > 0) {
            return Err(bad());
        }
        allowed = allowed.get(at + 1..).unwrap_or_default();
        rest = behind;
    }
    if allowed.len() == 3 { Err(bad()) } else { Ok(()) }
}

fn malformed(what: &str) -> Failed {
    Failed::Malformed(what.to_owned())
}

fn mixed() -> Failed {
    malformed("has text beside elements")
}

fn first_line(error: &quick_xml::Error) -> String {
    let text = error.to_string();
    shown(text.lines().next().unwrap_or_default().as_bytes())
}

fn within<'t>(raw: &'t str, before: &str, behind: &str) -> &'t str {
    raw.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind)).unwrap_or_default()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// XML 1.0 §2.2.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// `NCName` (Namespaces in XML §3): a name of XML 1.0 §2.3 without colons.
fn is_name(text: &str) -> bool {
    let is_first = |c: char| {
        c.is_ascii_alphabetic()
            || matches!(c, '_' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}'
                | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}'
                | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
    };
    let is_later = |c: char| {
        c.is_ascii_digit()
            || matches!(c, '-' | '.' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
            || is_first(c)
    };
    let mut chars = text.chars();
    chars.next().is_some_and(is_first) && chars.all(is_later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{STEPS_PER_TURN, Work};

    const BOUNDS: Bounds = Bounds { depth: 64, nodes: 1_000_000, attributes: 64, name_bytes: 64 };

    /// Turns that a body takes.
    fn turns(text: &str) -> u64 {
        let mut work =
            Work::new(|turn| async move { parse(text, BOUNDS, &turn).await.map(|tree| tree.elements.len()) });
        let waits = std::iter::from_fn(|| if work.go_on().is_some() { None } else { Some(()) });
        1 + waits.count() as u64
    }

    /// Comparisons of an element by its prefix, where this many are declared around it.
    fn comparisons(declarations: usize) -> usize {
        let names: Vec<String> = (0..declarations).map(|number| format!("p{number}")).collect();
        let mut scope = Scope::default();
        for (depth, name) in names.iter().enumerate() {
            scope.declare(name, NonZeroU16::new(1), depth);
        }
        let mut compared = 0;
        assert!(scope.get("p0", &mut compared).is_some() && scope.get("q", &mut compared).is_none());
        compared
    }

    #[test]
    fn no_element_searches_the_declarations_around_it() {
        assert_eq!(comparisons(4_000), comparisons(1));
        let around: String = (0..64).map(|number| format!(" xmlns:p{number}='u'")).collect();
        let body = |around: &str| {
            let (start, end) = (format!("<l{around}>").repeat(60), "</l>".repeat(60));
            format!("<l xmlns:zzz='u'>{start}{}{end}</l>", "<zzz:b/>".repeat(100_000))
        };
        let declared = around.len() as u64 * 60;
        assert!(turns(&body(&around)) <= turns(&body("")) + declared.div_ceil(STEPS_PER_TURN));
    }

    #[test]
    fn a_turn_ends_after_so_many_comparisons_of_attributes() {
        let plain: String = (0..64).map(|number| format!(" a{number}=''")).collect();
        let prefixed: String = (0..63).map(|number| format!(" p:a{number}=''")).collect();
        for attributes in [plain, format!(" xmlns:p='u'{prefixed}")] {
            let text = format!("<l>{}</l>", format!("<b{attributes}/>").repeat(1_000));
            let least = 1_000 * (63 * 62 / 2) / STEPS_PER_TURN;
            assert!(turns(&text) >= least, "{} of {least}", turns(&text));
        }
    }

    #[test]
    fn a_declaration_applies_within_its_element() {
        let rows = [
            ("<p:a xmlns:p='u'><p:b xmlns:p='v'><p:c/></p:b><p:d/></p:a>", Some(["u", "v", "v", "u"].as_slice())),
            ("<a xmlns='u'><b xmlns=''><c/></b><d/></a>", Some(["u", "", "", "u"].as_slice())),
            ("<a><p:b xmlns:p='u'/><p:c/></a>", None),
            ("<a><b xmlns:p='u'><p:c xmlns:p='v'/></b><p:d/></a>", None),
            ("<a xmlns:p='u' xmlns:p='u'/>", None),
        ];
        for (text, expected) in rows {
            let found = crate::turn::at_once(async |turn| parse(text, BOUNDS, turn).await).ok();
            let found: Option<Vec<&str>> = found.as_ref().map(|tree| {
                tree.elements.iter().map(|element| tree.uri(element.namespace).unwrap_or_default()).collect()
            });
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
