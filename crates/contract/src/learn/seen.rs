//! What values of one place were like: the union of their types, with bounds well above what was seen. Keeps names, lengths and counts, and no value.

use std::collections::BTreeMap;

use super::paths::{is_date, is_integer, is_uuid};
use super::{bound, flag, list, number, object, text};
use crate::format::Format;
use crate::json::Text;
use crate::node::{Kind, Node};

/// Different members of an object; one with more is a map.
const MAX_MEMBERS: usize = 100;
/// Longest name of a member, bytes; an object with a longer one is a map.
const MAX_NAME_BYTES: usize = 200;

/// What was seen at one place.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    null: bool,
    boolean: bool,
    integer: bool,
    fraction: bool,
    strings: Option<Strings>,
    arrays: Option<Box<Arrays>>,
    objects: Option<Box<Objects>>,
}

#[derive(Clone, Debug)]
struct Strings {
    longest: usize,
    are_uuids: bool,
    are_date_times: bool,
    are_dates: bool,
}

#[derive(Clone, Debug, Default)]
struct Arrays {
    longest: usize,
    elements: Seen,
}

#[derive(Clone, Debug, Default)]
struct Objects {
    count: usize,
    most: usize,
    members: BTreeMap<String, (usize, Seen)>,
    /// All members, where the names are values themselves.
    map: Option<Seen>,
}

impl Seen {
    /// Takes a JSON value.
    pub(super) fn take(&mut self, node: &Node) {
        match &node.kind {
            Kind::Null => self.null = true,
            Kind::Bool(_) => self.boolean = true,
            Kind::Number(text) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => self.integer = true,
            Kind::Number(_) => self.fraction = true,
            Kind::String(text) => self.take_string(text),
            Kind::Array(elements) => {
                let arrays = self.arrays.get_or_insert_default();
                arrays.longest = arrays.longest.max(elements.len());
                elements.iter().for_each(|element| arrays.elements.take(element));
            }
            Kind::Object(members) => {
                let objects = self.objects.get_or_insert_default();
                objects.begin(members.len());
                members.iter().for_each(|(key, value)| objects.member(&key.text, |seen| seen.take(value)));
            }
        }
    }

    /// Takes a value that was written as text, as parameters and form fields are.
    pub(super) fn take_text(&mut self, text: &str) {
        match text {
            "true" | "false" => self.boolean = true,
            text if is_integer(text) => self.integer = true,
            text if is_fraction(text) => self.fraction = true,
            text => self.take_string(text),
        }
    }

    /// Takes the fields of a form, each with its values.
    pub(super) fn take_fields(&mut self, fields: &[(String, Vec<String>)]) {
        let objects = self.objects.get_or_insert_default();
        objects.begin(fields.len());
        for (name, values) in fields {
            objects.member(name, |seen| match values.as_slice() {
                [value] => seen.take_text(value),
                values => {
                    let arrays = seen.arrays.get_or_insert_default();
                    arrays.longest = arrays.longest.max(values.len());
                    values.iter().for_each(|value| arrays.elements.take_text(value));
                }
            });
        }
    }

    fn take_string(&mut self, text: &str) {
        let is = |format: Format| format.is_match(Text::new(text));
        let fresh = Strings { longest: 0, are_uuids: true, are_date_times: true, are_dates: true };
        let strings = self.strings.get_or_insert(fresh);
        strings.longest = strings.longest.max(text.chars().count());
        strings.are_uuids &= is_uuid(text);
        strings.are_date_times &= is(Format::DateTime);
        strings.are_dates &= is_date(text);
    }

    /// The schema of everything that was seen. `is_text`: values are written as text, so what is no text alone is text.
    pub(super) fn schema(&self, is_text: bool) -> Node {
        let mut types: Vec<&str> = Vec::new();
        if let (true, Some(arrays)) = (is_text, &self.arrays) {
            // A field that is there once is an array of one.
            let mut elements = arrays.elements.clone();
            elements.merge_scalars(self);
            return array_schema(&["array"], arrays.longest, &elements, is_text);
        }
        let is_mixed = is_text && self.strings.is_some();
        let number_type = if self.fraction { "number" } else { "integer" };
        for (is_there, name) in [
            (self.boolean && !is_mixed, "boolean"),
            ((self.integer || self.fraction) && !is_mixed, number_type),
            (self.strings.is_some(), "string"),
            (self.arrays.is_some(), "array"),
            (self.objects.is_some(), "object"),
            (self.null, "null"),
        ] {
            if is_there {
                types.push(name);
            }
        }
        let mut members: Vec<(String, Node)> = match types.as_slice() {
            // Elements of arrays that were all empty.
            [] => return object::<String>([]),
            [one] => vec![("type".to_owned(), text(*one))],
            several => vec![("type".to_owned(), list(several.iter().map(|name| text(*name))))],
        };
        if let Some(strings) = &self.strings {
            let has_others = is_text && (self.boolean || self.integer || self.fraction);
            members.extend(strings.keywords(has_others));
        }
        if let Some(arrays) = &self.arrays {
            members.push(("items".to_owned(), arrays.elements.schema(is_text)));
            members.push(("maxItems".to_owned(), number(bound(arrays.longest, 64))));
        }
        if let Some(objects) = &self.objects {
            members.extend(objects.keywords(is_text));
        }
        object(members)
    }

    /// Takes in the scalars that were seen elsewhere.
    fn merge_scalars(&mut self, other: &Seen) {
        self.boolean |= other.boolean;
        self.integer |= other.integer;
        self.fraction |= other.fraction;
        match (&mut self.strings, &other.strings) {
            (Some(own), Some(other)) => {
                own.longest = own.longest.max(other.longest);
                own.are_uuids &= other.are_uuids;
                own.are_date_times &= other.are_date_times;
                own.are_dates &= other.are_dates;
            }
            (own, Some(other)) => *own = Some(other.clone()),
            (_, None) => {}
        }
    }

    /// Takes in everything that was seen elsewhere.
    fn merge(&mut self, other: Seen) {
        self.merge_scalars(&other);
        self.null |= other.null;
        if let Some(arrays) = other.arrays {
            let own = self.arrays.get_or_insert_default();
            own.longest = own.longest.max(arrays.longest);
            own.elements.merge(arrays.elements);
        }
        if let Some(objects) = other.objects {
            let own = self.objects.get_or_insert_default();
            own.count += objects.count;
            own.most = own.most.max(objects.most);
            for (name, (count, seen)) in objects.members {
                own.member_seen(&name, count, seen);
            }
            if let Some(map) = objects.map {
                own.make_map().merge(map);
            }
        }
    }
}

fn array_schema(types: &[&str], longest: usize, elements: &Seen, is_text: bool) -> Node {
    object([
        ("type", text(types.concat())),
        ("items", elements.schema(is_text)),
        ("maxItems", number(bound(longest, 64))),
    ])
}

/// As a parameter of type `number` is written, without an exponent.
fn is_fraction(text: &str) -> bool {
    text.split_once('.').is_some_and(|(whole, part)| {
        let is_whole = is_integer(whole) || whole == "-0";
        is_whole && !part.is_empty() && part.len() <= 18 && part.bytes().all(|byte| byte.is_ascii_digit())
    })
}

impl Strings {
    fn keywords(&self, has_others: bool) -> Vec<(String, Node)> {
        let format = match has_others {
            false if self.are_uuids => Some("uuid"),
            false if self.are_date_times => Some("date-time"),
            false if self.are_dates => Some("date"),
            _ => None,
        };
        match format {
            Some(format) => vec![("format".to_owned(), text(format))],
            // Text stands for numbers and booleans, too.
            None => vec![("maxLength".to_owned(), number(bound(self.longest, 256)))],
        }
    }
}

impl Objects {
    fn begin(&mut self, members: usize) {
        self.count += 1;
        self.most = self.most.max(members);
    }

    fn member(&mut self, name: &str, take: impl FnOnce(&mut Seen)) {
        let mut seen = Seen::default();
        take(&mut seen);
        self.member_seen(name, 1, seen);
    }

    fn member_seen(&mut self, name: &str, count: usize, seen: Seen) {
        if let Some(map) = &mut self.map {
            return map.merge(seen);
        }
        let is_known = self.members.contains_key(name);
        if name.len() > MAX_NAME_BYTES || !is_known && self.members.len() == MAX_MEMBERS {
            return self.make_map().merge(seen);
        }
        let (times, known) = self.members.entry(name.to_owned()).or_default();
        *times += count;
        known.merge(seen);
    }

    /// From here on, names are values.
    fn make_map(&mut self) -> &mut Seen {
        let members = std::mem::take(&mut self.members);
        let map = self.map.get_or_insert_default();
        members.into_values().for_each(|(_, seen)| map.merge(seen));
        map
    }

    fn keywords(&self, is_text: bool) -> Vec<(String, Node)> {
        if let Some(map) = &self.map {
            return vec![
                ("additionalProperties".to_owned(), map.schema(is_text)),
                ("maxProperties".to_owned(), number(bound(self.most, 256))),
            ];
        }
        let required: Vec<Node> =
            self.members.iter().filter(|(_, (count, _))| *count == self.count).map(|(name, _)| text(name)).collect();
        let members = self.members.iter().map(|(name, (_, seen))| (name.clone(), seen.schema(is_text)));
        let mut keywords = vec![("additionalProperties".to_owned(), flag(false))];
        if !required.is_empty() {
            keywords.push(("required".to_owned(), list(required)));
        }
        keywords.push(("properties".to_owned(), object(members.collect::<Vec<_>>())));
        keywords
    }
}
