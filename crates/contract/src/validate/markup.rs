//! XML as JSON, by the `xml` objects of the schemas (OpenAPI 3.1.1 §4.8.26): which element or attribute is which member, what is a list, and what its text
//! is. The schema validates what comes out.
//!
//! Strict where servers differ: a name that means another member than it says, elements where one is expected, a namespace nobody declared.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::scratch::Rooms;
use crate::body::xml::{Element, Tree};
use crate::contract::Contract;
use crate::json::push_string;
use crate::openapi::{Shape, ShapeId, Xml, XmlRoot};
use crate::parameter::{Attempt, Decoder, Escapes, Rejected};
use crate::schema::Types;
use crate::turn::Turn;

/// What keeps a body from becoming JSON: the element or attribute, and why.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) name: String,
    pub(super) what: &'static str,
}

/// Writes one tree.
pub(super) struct Composer<'a, 't> {
    contract: &'a Contract,
    tree: &'a Tree<'t>,
    attempt: Attempt,
    rooms: &'a mut Rooms,
    /// Another attempt would read something else.
    pub(super) has_choice: bool,
    names: HashMap<ShapeId, Rc<Names<'a>>>,
}

/// What the elements and attributes of an object are, by their names as written.
#[derive(Debug, Default)]
struct Names<'a> {
    elements: HashMap<String, Option<Member<'a>>>,
    attributes: HashMap<String, Option<Member<'a>>>,
    /// The members' own names and those that they are written by, without prefixes.
    locals: HashSet<String>,
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
struct Member<'a> {
    name: &'a str,
    shape: ShapeId,
    namespace: Option<&'a str>,
    /// Its element holds those of its list.
    is_wrapped: bool,
    /// Each of its elements is one of a list.
    is_list: bool,
}

/// What is still to be written, the next one last.
enum Job<'a> {
    Text(&'static [u8]),
    Key(&'a str),
    Value(usize, Kind),
    /// The value of an attribute: an element, and the place among its attributes.
    Attribute(usize, usize, Types),
}

/// How an element is written.
#[derive(Clone, Copy)]
enum Kind {
    Of(ShapeId),
    /// A list, of which it is the wrapping.
    List(ShapeId),
    /// Nothing is known of it.
    Free,
}

impl<'a, 't> Composer<'a, 't> {
    pub(super) fn new(
        contract: &'a Contract,
        tree: &'a Tree<'t>,
        attempt: Attempt,
        rooms: &'a mut Rooms,
    ) -> Composer<'a, 't> {
        Composer { contract, tree, attempt, rooms, has_choice: false, names: HashMap::new() }
    }

    /// Writes the tree into the room for JSON.
    pub(super) async fn compose(
        &mut self,
        shape: ShapeId,
        root: &'a XmlRoot,
        beside: usize,
        turn: &Turn,
    ) -> Result<(), Unread> {
        self.rooms.json.clear();
        let Some(element) = self.tree.elements.first() else { return Ok(()) };
        let own = self.contract.shapes.get(shape);
        let xml = own.xml.as_deref();
        let name = xml.and_then(|xml| xml.name.as_deref()).or(root.name.as_deref());
        let namespace = xml.and_then(|xml| xml.namespace.as_deref());
        let is_named = name.is_none_or(|name| written(xml, name) == element.name);
        if !is_named || !self.tree.is_in(element, namespace) {
            return Err(unread(element, "is not the root element that the document declares"));
        }
        let kind = if is_list(own.types) { Kind::List(shape) } else { Kind::Of(shape) };
        let mut jobs = vec![Job::Value(0, kind)];
        while let Some(job) = jobs.pop() {
            let before = self.rooms.json.len();
            match job {
                Job::Text(text) => self.rooms.json.extend_from_slice(text),
                Job::Key(name) => {
                    push_string(name.as_bytes(), &mut self.rooms.json);
                    self.rooms.json.push(b':');
                }
                Job::Attribute(element, at, types) => self.attribute(element, at, types)?,
                Job::Value(number, kind) => {
                    let Some(element) = self.tree.elements.get(number) else { continue };
                    match kind {
                        Kind::Free => self.free(number, element, &mut jobs)?,
                        Kind::List(shape) => self.list(element, shape, root, &mut jobs)?,
                        Kind::Of(shape) => self.value(number, element, shape, &mut jobs)?,
                    }
                }
            }
            turn.hold(beside + self.tree.bytes_held() + self.rooms.json.capacity() + jobs.capacity() * JOB_BYTES);
            turn.spend_on(JOB_BYTES + self.rooms.json.len() - before).await;
        }
        Ok(())
    }

    /// An element by what its schema allows.
    fn value(
        &mut self,
        number: usize,
        element: &'a Element<'t>,
        shape: ShapeId,
        jobs: &mut Vec<Job<'a>>,
    ) -> Result<(), Unread> {
        let own = self.contract.shapes.get(shape);
        let is_plain = self.tree.children(element).next().is_none() && self.tree.attributes(element).is_empty();
        if own.types == Types::ALL && own.properties.is_empty() && own.other.is_none() {
            return self.free(number, element, jobs);
        }
        if own.types.has(Types::OBJECT) && !(is_plain && own.types.may_be_scalar(self.tree.text(element).as_bytes())) {
            return self.object(number, element, shape, jobs);
        }
        if own.types.has(Types::OBJECT) {
            self.has_choice = true;
            if self.attempt.containers {
                return self.object(number, element, shape, jobs);
            }
        }
        match is_plain {
            true => self.scalar(element.name, self.tree.text(element), own.types),
            // The schema says that it is no object.
            false => self.free(number, element, jobs),
        }
    }

    fn scalar(&mut self, name: &str, text: &str, types: Types) -> Result<(), Unread> {
        let Rooms { text: room, json, .. } = &mut *self.rooms;
        let mut decoder = Decoder {
            shapes: &self.contract.shapes,
            escapes: Escapes::Verbatim,
            attempt: self.attempt,
            max_elements: 1,
            max_bytes: self.contract.program.longest_escaped(),
            text: room,
            json,
            has_choice: false,
            splits_escaped: false,
            has_escaped: false,
            elements: 0,
        };
        let written = decoder.scalar(text.as_bytes(), types);
        self.has_choice |= decoder.has_choice;
        written.map_err(|why| Unread {
            name: name.to_owned(),
            what: match why {
                Rejected::Malformed(what) | Rejected::Limit(what) => what,
                Rejected::Repeated => TWICE,
                Rejected::Empty => "is empty",
            },
        })
    }

    fn attribute(&mut self, number: usize, at: usize, types: Types) -> Result<(), Unread> {
        let tree = self.tree;
        let attributes = tree.elements.get(number).map(|element| tree.attributes(element)).unwrap_or_default();
        let Some(attribute) = attributes.get(at) else { return Ok(()) };
        self.scalar(attribute.name, tree.value(attribute), types)
    }

    /// The elements of a list within its wrapping.
    fn list(
        &mut self,
        wrapping: &'a Element<'t>,
        shape: ShapeId,
        root: &'a XmlRoot,
        jobs: &mut Vec<Job<'a>>,
    ) -> Result<(), Unread> {
        let own = self.contract.shapes.get(shape);
        let items = own.items;
        let xml = items.and_then(|items| self.contract.shapes.get(items).xml.as_deref());
        let is_root = self.tree.elements.first().is_some_and(|first| std::ptr::eq(first, wrapping));
        // Where nothing names them, they are called like their wrapping, and at the root like their component.
        let name = match xml.and_then(|xml| xml.name.as_deref()) {
            Some(name) => Some(name),
            None if is_root => root.element.as_deref(),
            None => Some(local(wrapping.name)),
        };
        let name = name.map(|name| written(xml, name));
        let namespace = xml.and_then(|xml| xml.namespace.as_deref());
        if !self.tree.attributes(wrapping).is_empty() || !self.tree.text(wrapping).trim().is_empty() {
            return Err(unread(wrapping, "holds something else than the elements of a list"));
        }
        let start = jobs.len();
        self.rooms.json.push(b'[');
        for child in self.tree.children(wrapping) {
            let Some(element) = self.tree.elements.get(child) else { continue };
            if name.as_ref().is_some_and(|name| *name != element.name) || !self.tree.is_in(element, namespace) {
                return Err(unread(element, "is none of the elements of the list that it stands in"));
            }
            if jobs.len() > start {
                jobs.push(Job::Text(b","));
            }
            jobs.push(Job::Value(child, items.map_or(Kind::Free, |items| self.kind_of(items))));
        }
        jobs.push(Job::Text(b"]"));
        reverse(jobs, start);
        Ok(())
    }

    /// A list that stands in a list is wrapped, whatever is said of it.
    fn kind_of(&self, shape: ShapeId) -> Kind {
        if is_list(self.contract.shapes.get(shape).types) { Kind::List(shape) } else { Kind::Of(shape) }
    }

    fn object(
        &mut self,
        number: usize,
        element: &'a Element<'t>,
        shape: ShapeId,
        jobs: &mut Vec<Job<'a>>,
    ) -> Result<(), Unread> {
        let tree = self.tree;
        if !tree.text(element).trim().is_empty() {
            return Err(unread(element, "holds text where the document declares elements"));
        }
        let names = self.names(shape);
        let own = self.contract.shapes.get(shape);
        let start = jobs.len();
        self.rooms.json.push(b'{');
        for (at, attribute) in tree.attributes(element).iter().enumerate() {
            let member = match names.attributes.get(attribute.name) {
                Some(Some(member)) if tree.has_namespace(attribute, member.namespace) => *member,
                Some(_) => return Err(Unread { name: attribute.name.to_owned(), what: UNCLEAR }),
                None => undeclared(own, &names, attribute.name)?,
            };
            comma(jobs, start);
            jobs.push(Job::Key(member.name));
            jobs.push(Job::Attribute(number, at, self.contract.shapes.get(member.shape).types));
        }
        // Elements of one list need not stand beside each other.
        let mut children: Vec<(Member<'a>, usize)> = Vec::new();
        for child in tree.children(element) {
            let Some(inner) = tree.elements.get(child) else { continue };
            let member = match names.elements.get(inner.name) {
                Some(Some(member)) if tree.is_in(inner, member.namespace) => *member,
                Some(_) => return Err(unread(inner, UNCLEAR)),
                None if tree.is_in(inner, None) => undeclared(own, &names, inner.name)?,
                None => return Err(unread(inner, "is in a namespace that the document does not declare")),
            };
            children.push((member, child));
        }
        children.sort_by_key(|(member, child)| (member.name, *child));
        for group in children.chunk_by(|(one, _), (other, _)| one.name == other.name) {
            comma(jobs, start);
            self.member(group, jobs)?;
        }
        jobs.push(Job::Text(b"}"));
        reverse(jobs, start);
        Ok(())
    }

    /// All elements of one member.
    fn member(&mut self, group: &[(Member<'a>, usize)], jobs: &mut Vec<Job<'a>>) -> Result<(), Unread> {
        let Some((member, first)) = group.first() else { return Ok(()) };
        jobs.push(Job::Key(member.name));
        let own = self.contract.shapes.get(member.shape);
        let is_list = match (member.is_list, group.len()) {
            (true, _) => true,
            // What may be a list or something else is a list if it is there more than once.
            (false, 1) => false,
            (false, _) if !member.is_wrapped && own.types.has(Types::ARRAY) => true,
            (false, _) => {
                let name = self.tree.elements.get(*first).map_or("", |element| element.name);
                return Err(Unread { name: name.to_owned(), what: TWICE });
            }
        };
        if !is_list {
            let kind = if member.is_wrapped { Kind::List(member.shape) } else { Kind::Of(member.shape) };
            jobs.push(Job::Value(*first, kind));
            return Ok(());
        }
        let kind = own.items.map_or(Kind::Free, |items| self.kind_of(items));
        jobs.push(Job::Text(b"["));
        for (at, (_, child)) in group.iter().enumerate() {
            if at > 0 {
                jobs.push(Job::Text(b","));
            }
            jobs.push(Job::Value(*child, kind));
        }
        jobs.push(Job::Text(b"]"));
        Ok(())
    }

    /// An element that no schema says anything of: its text, or an object of what is in it.
    fn free(&mut self, number: usize, element: &'a Element<'t>, jobs: &mut Vec<Job<'a>>) -> Result<(), Unread> {
        let tree = self.tree;
        let attributes = tree.attributes(element);
        let mut children: Vec<(&'a str, usize)> =
            tree.children(element).filter_map(|child| Some((tree.elements.get(child)?.name, child))).collect();
        if attributes.is_empty() && children.is_empty() {
            return self.scalar(element.name, tree.text(element), Types::ALL);
        }
        if !tree.text(element).trim().is_empty() {
            return Err(unread(element, "has text and attributes, which JSON Schema cannot describe"));
        }
        let start = jobs.len();
        self.rooms.json.push(b'{');
        for (at, attribute) in attributes.iter().enumerate() {
            comma(jobs, start);
            jobs.push(Job::Key(attribute.name));
            jobs.push(Job::Attribute(number, at, Types::ALL));
        }
        children.sort();
        for group in children.chunk_by(|(one, _), (other, _)| one == other) {
            comma(jobs, start);
            jobs.extend(group.first().map(|(name, _)| Job::Key(name)));
            let is_list = group.len() > 1;
            jobs.extend(is_list.then_some(Job::Text(b"[")));
            for (at, (_, child)) in group.iter().enumerate() {
                jobs.extend((at > 0).then_some(Job::Text(b",")));
                jobs.push(Job::Value(*child, Kind::Free));
            }
            jobs.extend(is_list.then_some(Job::Text(b"]")));
        }
        jobs.push(Job::Text(b"}"));
        reverse(jobs, start);
        Ok(())
    }

    /// What elements and attributes of an object are called. Two members of one name are none.
    fn names(&mut self, shape: ShapeId) -> Rc<Names<'a>> {
        if let Some(names) = self.names.get(&shape) {
            return Rc::clone(names);
        }
        let mut names = Names::default();
        for (name, shape) in &self.contract.shapes.get(shape).properties {
            let own = self.contract.shapes.get(*shape);
            let xml = own.xml.as_deref();
            let is_wrapped = is_list(own.types) && xml.is_some_and(|xml| xml.is_wrapped);
            let is_list = is_list(own.types) && !is_wrapped;
            // Of a list without a wrapping there is nothing but its elements.
            let xml = match is_list {
                true => own.items.and_then(|items| self.contract.shapes.get(items).xml.as_deref()),
                false => xml,
            };
            let is_attribute = own.xml.as_ref().is_some_and(|xml| xml.is_attribute);
            let namespace = xml.and_then(|xml| xml.namespace.as_deref());
            let member = Member { name, shape: *shape, namespace, is_wrapped, is_list };
            let written = written(xml, xml.and_then(|xml| xml.name.as_deref()).unwrap_or(name));
            names.locals.extend([local(name).to_owned(), local(&written).to_owned()]);
            let known = if is_attribute { &mut names.attributes } else { &mut names.elements };
            known.entry(written).and_modify(|known| *known = None).or_insert(Some(member));
        }
        let names = Rc::new(names);
        self.names.insert(shape, Rc::clone(&names));
        names
    }
}

/// What one job takes of memory, and of time in bytes.
const JOB_BYTES: usize = 40;

const UNCLEAR: &str = "is not what the document calls by that name";
const TWICE: &str = "is there more than once";

/// What becomes of an element or attribute that no member is called like: the schema says so, by its name. Readers that ignore prefixes, or do not
/// distinguish elements from attributes, would take it for a member if it has the local name of one.
fn undeclared<'a>(own: &Shape, names: &Names<'_>, name: &'a str) -> Result<Member<'a>, Unread> {
    if names.locals.contains(local(name)) {
        return Err(Unread { name: name.to_owned(), what: UNCLEAR });
    }
    // What is not listed anywhere may be anything.
    let shape = own.other.unwrap_or(ShapeId::ANYTHING);
    Ok(Member { name, shape, namespace: None, is_wrapped: false, is_list: false })
}

/// A name without its prefix.
fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or_default()
}

/// The name as it is written: with its prefix.
fn written(xml: Option<&Xml>, name: &str) -> String {
    match xml.and_then(|xml| xml.prefix.as_deref()) {
        Some(prefix) => format!("{prefix}:{name}"),
        None => name.to_owned(),
    }
}

/// Whether a value is a list, or null, which no element stands for.
fn is_list(types: Types) -> bool {
    types.with(Types::NULL) == Types::ARRAY.with(Types::NULL)
}

/// Separates what follows from what is there already.
fn comma(jobs: &mut Vec<Job<'_>>, start: usize) {
    if jobs.len() > start {
        jobs.push(Job::Text(b","));
    }
}

/// The first of what was added is the next.
fn reverse(jobs: &mut [Job<'_>], start: usize) {
    jobs.get_mut(start..).into_iter().for_each(<[Job<'_>]>::reverse);
}

fn unread(element: &Element<'_>, what: &'static str) -> Unread {
    Unread { name: element.name.to_owned(), what }
}
