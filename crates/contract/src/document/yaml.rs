//! YAML 1.2 text to a [`Node`]: the core schema (YAML 1.2.2 §10.3), anchors and aliases within bounds, and merge keys, which documents in the
//! field use.
//!
//! What JSON cannot say is a problem: infinities, keys that are no scalars, foreign tags.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::tree::{Fault, Sized, Tree, short};
use crate::json::is_number;
use crate::node::{Kind, Node, Place};

/// Reads one YAML document. Problems that do not stop the reading come with the tree.
pub(super) fn parse(text: &str, file: u32, max_nodes: usize) -> Result<(Node, Vec<Fault>, usize), Fault> {
    if let Some(fault) = first_control(text, file) {
        return Err(fault);
    }
    let read = read(text, file, max_nodes);
    if let Err(fault) = &read
        && let Some(line) = text.lines().nth((fault.place.line as usize).saturating_sub(1))
        && line.trim_start().starts_with(CLOSERS)
        && let Ok(read) = self::read(&with_closers_indented(text), file, max_nodes)
    {
        return Ok(read);
    }
    read
}

/// What ends a flow collection.
const CLOSERS: [char; 2] = ['}', ']'];

/// The text with each line that begins with a closing brace one column further, if it stands in the column of the line that opened it. YAML 1.2 wants it
/// deeper (§7.4), and most readers, so most authors, do not. Blanks before a closing brace mean nothing else.
fn with_closers_indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 64);
    // Columns of lines that later ones may belong to, the deepest last, with whether something is opened at the end of the line.
    let mut above: Vec<(usize, bool)> = Vec::new();
    for line in text.split_inclusive('\n') {
        let content = line.trim();
        let column = line.len() - line.trim_start_matches(' ').len();
        if !content.is_empty() {
            while above.last().is_some_and(|(deeper, _)| *deeper > column) {
                above.pop();
            }
            if content.starts_with(CLOSERS) && above.last() == Some(&(column, true)) {
                out.push(' ');
            }
            while above.last().is_some_and(|(same, _)| *same >= column) {
                above.pop();
            }
            above.push((column, content.ends_with(['{', '['])));
        }
        out.push_str(line);
    }
    out
}

fn read(text: &str, file: u32, max_nodes: usize) -> Result<(Node, Vec<Fault>, usize), Fault> {
    let mut reader = Reader { tree: Tree::new(max_nodes), anchors: HashMap::new(), open: Vec::new(), documents: 0 };
    for next in Parser::new_from_str(text) {
        let (event, span) = next
            .map_err(|error| Fault::new(place_of(error.marker(), file), format!("not valid YAML: {}", error.info())))?;
        reader.take(event, place_of(&span.start, file))?;
    }
    let nodes = reader.tree.nodes();
    let (root, faults) = reader.tree.finish();
    let start = Place { file, line: 1, column: 1 };
    root.map(|root| (root, faults, nodes)).ok_or_else(|| Fault::new(start, "the file is empty"))
}

/// The first character that YAML forbids (YAML 1.2.2 §5.1); the parser would take a NUL for the end of the file.
fn first_control(text: &str, file: u32) -> Option<Fault> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{80}'..='\u{9f}');
    let at = text.find(is_control)?;
    let before = text.get(..at).unwrap_or_default();
    let column = before.chars().rev().take_while(|c| *c != '\n').count() as u32 + 1;
    let line = before.matches('\n').count() as u32 + 1;
    Some(Fault::new(Place { file, line, column }, "a control character stands here; a document is plain UTF-8 text"))
}

fn place_of(marker: &Marker, file: u32) -> Place {
    Place { file, line: marker.line() as u32, column: marker.col() as u32 + 1 }
}

/// What is known of a collection that is open.
struct Open {
    anchor: usize,
    /// It has a plain `<<` key.
    merges: bool,
}

struct Reader {
    tree: Tree,
    anchors: HashMap<usize, Sized>,
    open: Vec<Open>,
    documents: usize,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), Fault> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err(Fault::new(place, "a second document starts here; keep one document per file")),
                }
            }
            Event::Alias(id) => self.alias(id, place),
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref(), place),
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), "seq", place);
                self.reject_as_name(place)?;
                self.open.push(Open { anchor, merges: false });
                self.tree.open_array(place)
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), "map", place);
                self.reject_as_name(place)?;
                self.open.push(Open { anchor, merges: false });
                self.tree.open_object(place)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    fn close(&mut self) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let Some(mut sized) = self.tree.close() else { return Ok(()) };
        if open.merges {
            self.merge(&mut sized)?;
        }
        self.finish(sized, open.anchor)
    }

    /// Remembers an anchored node, and places it.
    fn finish(&mut self, sized: Sized, anchor: usize) -> Result<(), Fault> {
        if anchor != 0 {
            // The copy for later is a cost as well.
            self.tree.count(sized.nodes, sized.node.place)?;
            self.anchors.insert(anchor, sized.clone());
        }
        self.tree.place(sized)
    }

    fn alias(&mut self, id: usize, place: Place) -> Result<(), Fault> {
        let Some(sized) = self.anchors.get(&id) else {
            return Err(Fault::new(place, "an alias stands within its own anchor"));
        };
        if self.tree.wants_name() {
            let text = match &sized.node.kind {
                Kind::String(text) | Kind::Number(text) => text.clone(),
                _ => return Err(Fault::new(place, "a name must be text")),
            };
            self.tree.name(text, place);
            return Ok(());
        }
        self.tree.count(sized.nodes, place)?;
        let sized = sized.clone();
        self.tree.place(sized)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        place: Place,
    ) -> Result<(), Fault> {
        let plain = style == ScalarStyle::Plain;
        if self.tree.wants_name() {
            if plain && text == "<<" {
                self.open.iter_mut().last().into_iter().for_each(|open| open.merges = true);
            }
            if anchor != 0 {
                let node = Node { kind: Kind::String(text.to_owned()), place };
                self.anchors.insert(anchor, Sized { node, nodes: 1, levels: 1 });
            }
            self.tree.name(text.to_owned(), place);
            return Ok(());
        }
        let kind = match resolve(text, plain, tag) {
            Ok(kind) => kind,
            Err(message) => {
                self.tree.faults.push(Fault::new(place, message));
                Kind::Null
            }
        };
        self.finish(Sized { node: Node { kind, place }, nodes: 1, levels: 1 }, anchor)
    }

    fn check_tag(&mut self, tag: Option<&Tag>, expected: &str, place: Place) {
        let Some(tag) = tag else { return };
        let is_plain = tag.handle == "!" && tag.suffix.is_empty();
        let is_expected = is_core(tag) && tag.suffix == expected;
        if !is_plain && !is_expected {
            let message =
                format!("the tag `{}{}` means nothing here; remove it", short(&tag.handle), short(&tag.suffix));
            self.tree.faults.push(Fault::new(place, message));
        }
    }

    fn reject_as_name(&self, place: Place) -> Result<(), Fault> {
        match self.tree.wants_name() {
            true => Err(Fault::new(place, "a name must be text; quote it if it starts with `{` or `[`")),
            false => Ok(()),
        }
    }

    /// Replaces the member `<<` by the members of what it names; members written out win, then earlier ones of a list.
    fn merge(&mut self, sized: &mut Sized) -> Result<(), Fault> {
        let Kind::Object(members) = &mut sized.node.kind else { return Ok(()) };
        let Some(at) = members.iter().position(|(key, _)| key.text == "<<") else { return Ok(()) };
        let (key, merged) = members.remove(at);
        let sources = match &merged.kind {
            Kind::Object(_) => std::slice::from_ref(&merged),
            Kind::Array(elements) if elements.iter().all(|node| matches!(node.kind, Kind::Object(_))) => elements,
            _ => {
                self.tree.faults.push(Fault::new(key.place, "`<<` takes a mapping or a list of mappings"));
                return Ok(());
            }
        };
        for (key, value) in sources.iter().flat_map(Node::members) {
            if !members.iter().any(|(have, _)| have.text == key.text) {
                members.push((key.clone(), value.clone()));
            }
        }
        Ok(())
    }
}

/// What a scalar means under the core schema.
fn resolve(text: &str, plain: bool, tag: Option<&Tag>) -> Result<Kind, String> {
    let kind = if plain { core_schema(text)? } else { Kind::String(text.to_owned()) };
    let Some(tag) = tag else { return Ok(kind) };
    let wanted = if is_core(tag) { tag.suffix.as_str() } else { "" };
    match (wanted, core_schema(text)?) {
        ("str", _) => Ok(Kind::String(text.to_owned())),
        ("null", kind @ Kind::Null) | ("bool", kind @ Kind::Bool(_)) => Ok(kind),
        ("int" | "float", kind @ Kind::Number(_)) => Ok(kind),
        ("null" | "bool" | "int" | "float", _) => Err(format!("`{}` is no !!{wanted}", short(text))),
        _ if tag.handle == "!" && tag.suffix.is_empty() => Ok(Kind::String(text.to_owned())),
        _ => Err(format!("the tag `{}{}` means nothing here; remove it", short(&tag.handle), short(&tag.suffix))),
    }
}

fn is_core(tag: &Tag) -> bool {
    tag.handle == "tag:yaml.org,2002:" || tag.handle == "!!"
}

/// The meaning of a plain scalar (YAML 1.2.2 §10.3.2), numbers in JSON's grammar.
fn core_schema(text: &str) -> Result<Kind, String> {
    let kind = match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ if is_infinite(text) => {
            return Err(format!("`{}` cannot stand in JSON; quote it if it is meant as text", short(text)));
        }
        _ => match number(text) {
            Some(number) => Kind::Number(number),
            None => Kind::String(text.to_owned()),
        },
    };
    Ok(kind)
}

fn is_infinite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// A YAML number as JSON writes it; none if this is no number.
fn number(text: &str) -> Option<String> {
    if is_number(text.as_bytes()) {
        return Some(text.to_owned());
    }
    let radix = |digits: &str, radix| {
        let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        if plain { u128::from_str_radix(digits, radix).ok().map(|value| value.to_string()) } else { None }
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = unsigned.split_at(unsigned.find(['e', 'E']).unwrap_or(unsigned.len()));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let written = format!("{sign}{whole}{point}{fraction}{exponent}");
    is_number(written.as_bytes()).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_the_core_schema_says() {
        let text = |text: &str| Kind::String(text.to_owned());
        let number = |text: &str| Kind::Number(text.to_owned());
        let rows = [
            ("", Kind::Null),
            ("~", Kind::Null),
            ("True", Kind::Bool(true)),
            ("yes", text("yes")),
            ("on", text("on")),
            ("12", number("12")),
            ("+12", number("12")),
            ("-007", number("-7")),
            ("0x1F", number("31")),
            ("0o17", number("15")),
            ("0b1", text("0b1")),
            ("1_000", text("1_000")),
            (".5", number("0.5")),
            ("1.", number("1")),
            ("1.e3", number("1e3")),
            ("+01.50E-2", number("1.50E-2")),
            ("1.2.3", text("1.2.3")),
            (".", text(".")),
            ("-", text("-")),
            ("e5", text("e5")),
            ("1e", text("1e")),
            ("2020-01-01", text("2020-01-01")),
            ("12:30", text("12:30")),
            ("-0", number("-0")),
            ("00", number("0")),
        ];
        for (written, expected) in rows {
            assert_eq!(core_schema(written), Ok(expected), "{written:?}");
        }
        for bad in [".inf", "-.INF", ".nan"] {
            assert!(core_schema(bad).is_err(), "{bad}");
        }
    }
}
