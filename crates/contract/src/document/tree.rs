//! Grows a [`Node`] from the events of a reader. Owns what every source format shares: bounds, nesting without recursion, unique names.

use std::collections::HashMap;

use crate::node::{Key, Kind, Node, Place};

/// Deepest nesting of a document; nodes are dropped and cloned recursively, so this bounds the stack too.
pub(super) const MAX_DEPTH: usize = 192;

/// What is wrong with the text of a document, with its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Fault {
        Fault { place, message: message.into() }
    }
}

/// A finished node with what it costs to copy it.
#[derive(Clone, Debug)]
pub(super) struct Sized {
    pub(super) node: Node,
    /// Nodes in it, itself included.
    pub(super) nodes: usize,
    /// Levels below it, itself included.
    pub(super) levels: usize,
}

/// An array or object whose end has not come yet.
struct Open {
    place: Place,
    nodes: usize,
    levels: usize,
    content: Content,
}

enum Content {
    Array(Vec<Node>),
    Object { members: Vec<(Key, Node)>, seen: HashMap<String, Place>, name: Option<Key> },
}

/// The tree as it grows. Problems do not stop it, so that all are found; bounds do.
pub(super) struct Tree {
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    max_nodes: usize,
    pub(super) faults: Vec<Fault>,
}

impl Tree {
    /// An empty tree that takes up to `max_nodes` values and names.
    pub(super) fn new(max_nodes: usize) -> Tree {
        Tree { open: Vec::new(), root: None, nodes: 0, max_nodes, faults: Vec::new() }
    }

    /// Opens an array.
    pub(super) fn open_array(&mut self, place: Place) -> Result<(), Fault> {
        self.open(place, Content::Array(Vec::new()))
    }

    /// Opens an object.
    pub(super) fn open_object(&mut self, place: Place) -> Result<(), Fault> {
        self.open(place, Content::Object { members: Vec::new(), seen: HashMap::new(), name: None })
    }

    fn open(&mut self, place: Place, content: Content) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Fault::new(place, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push(Open { place, nodes: 1, levels: 1, content });
        Ok(())
    }

    /// Whether the next node is the name of a member.
    pub(super) fn wants_name(&self) -> bool {
        matches!(self.open.last().map(|open| &open.content), Some(Content::Object { name: None, .. }))
    }

    /// Takes the name of the next member. A name that is there already is a fault; the later member is dropped.
    pub(super) fn name(&mut self, text: String, place: Place) {
        let Some(Open { content: Content::Object { seen, name, .. }, .. }) = self.open.last_mut() else { return };
        if let Some(first) = seen.get(&text) {
            let message =
                format!("the name `{}` is here twice, first in line {}; keep one of the two", short(&text), first.line);
            self.faults.push(Fault::new(place, message));
        }
        *name = Some(Key { text, place });
    }

    /// Takes a scalar.
    pub(super) fn scalar(&mut self, kind: Kind, place: Place) -> Result<(), Fault> {
        self.place(Sized { node: Node { kind, place }, nodes: 1, levels: 1 })
    }

    /// Closes what was opened last and gives it back; [`Tree::place`] puts it where it belongs.
    pub(super) fn close(&mut self) -> Option<Sized> {
        let open = self.open.pop()?;
        let kind = match open.content {
            Content::Array(elements) => Kind::Array(elements),
            Content::Object { members, .. } => Kind::Object(members),
        };
        Some(Sized { node: Node { kind, place: open.place }, nodes: open.nodes, levels: open.levels })
    }

    /// Puts a finished node where it belongs: an element, a member, or the root.
    pub(super) fn place(&mut self, sized: Sized) -> Result<(), Fault> {
        // Containers were counted with their content when that was placed; only a copy brings all of it anew.
        self.count(1, sized.node.place)?;
        if self.open.len() + sized.levels > MAX_DEPTH {
            return Err(Fault::new(sized.node.place, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(sized.node);
            return Ok(());
        };
        open.nodes += sized.nodes;
        open.levels = open.levels.max(sized.levels + 1);
        match &mut open.content {
            Content::Array(elements) => elements.push(sized.node),
            Content::Object { members, seen, name } => {
                let Some(key) = name.take() else { return Ok(()) };
                if seen.insert(key.text.clone(), key.place).is_none() {
                    members.push((key, sized.node));
                }
            }
        }
        Ok(())
    }

    /// Counts values that are made.
    pub(super) fn count(&mut self, nodes: usize, place: Place) -> Result<(), Fault> {
        self.nodes = self.nodes.saturating_add(nodes);
        match self.nodes > self.max_nodes {
            true => Err(Fault::new(place, format!("the document has more than {} values", self.max_nodes))),
            false => Ok(()),
        }
    }

    /// How many values were made.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// The whole, and what was wrong with it.
    pub(super) fn finish(self) -> (Option<Node>, Vec<Fault>) {
        (self.root, self.faults)
    }
}

/// The start of a text, for messages.
pub(super) fn short(text: &str) -> String {
    let mut out: String = text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(60).is_some() {
        out.push('…');
    }
    out
}
