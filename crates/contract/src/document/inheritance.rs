//! Which schemas extend which others: those that take in, by a reference in `allOf`, a schema whose `discriminator` names no branches of its own
//! (OpenAPI 3.0.3 §4.7.25: "will indicate that the `Cat` schema be used"). Looks at components and at files that are schemas; validates nothing.

use std::collections::{HashMap, HashSet};

use super::set::{References, address};
use crate::node::Node;
use crate::schema::Base;

/// How deep `allOf` within `allOf` is followed.
const MAX_LEVELS: u32 = 16;

/// Schemas that all bases together may have as subtypes: where each extends another base, there are as many as the square of their number.
const MAX_SUBTYPES: usize = 1_000_000;

/// A schema that extends another one, with its name if it is a component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subtype<'d> {
    pub(crate) name: &'d str,
    pub(crate) node: &'d Node,
    pub(crate) base: Base,
}

/// All subtypes of a set of documents.
#[derive(Debug, Default)]
pub(super) struct Inheritance<'d> {
    /// By the address of what they extend, however far up.
    subtypes: HashMap<usize, Vec<Subtype<'d>>>,
    /// Addresses of the references by which subtypes take in a base.
    links: HashSet<usize>,
    /// There are more subtypes than are looked for.
    pub(super) is_cut: bool,
}

/// Whether it is the base of a family: it tells its subtypes apart by a member.
fn is_base(node: &Node) -> bool {
    node.get("discriminator").is_some() && node.get("oneOf").is_none() && node.get("anyOf").is_none()
}

impl<'d> Inheritance<'d> {
    /// Finds out who extends whom among the schemas at these places.
    pub(super) fn of(references: &References<'d>, places: &[Subtype<'d>]) -> Inheritance<'d> {
        let mut found = Inheritance::default();
        let mut extended_by: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut bases = Vec::new();
        let mut known = HashSet::new();
        for (number, place) in places.iter().enumerate() {
            let mut parents = Vec::new();
            found.parents_of(references, place.node, place.base, MAX_LEVELS, &mut parents);
            for parent in parents {
                extended_by.entry(address(parent)).or_default().push(number);
                if is_base(parent) && known.insert(address(parent)) {
                    bases.push(parent);
                }
            }
        }
        let mut left = MAX_SUBTYPES;
        for base in bases {
            let mut seen = HashSet::from([address(base)]);
            let mut open = vec![address(base)];
            let mut subtypes = Vec::new();
            while let Some(extended) = open.pop() {
                for &number in extended_by.get(&extended).into_iter().flatten() {
                    let Some(place) = places.get(number).filter(|place| seen.insert(address(place.node))) else {
                        continue;
                    };
                    subtypes.push(number);
                    open.push(address(place.node));
                }
                if subtypes.len() > left {
                    found.is_cut = true;
                    return found;
                }
            }
            left -= subtypes.len();
            // In the order of the document.
            subtypes.sort_unstable();
            let subtypes = subtypes.into_iter().filter_map(|number| places.get(number).copied()).collect();
            found.subtypes.insert(address(base), subtypes);
        }
        found
    }

    fn parents_of(
        &mut self,
        references: &References<'d>,
        node: &'d Node,
        base: Base,
        levels: u32,
        to: &mut Vec<&'d Node>,
    ) {
        for part in node.get("allOf").map_or(&[][..], Node::elements) {
            let reference = part.get("$ref").and_then(Node::as_str);
            match reference.and_then(|reference| references.find(reference, base).ok()) {
                Some((parent, _)) => {
                    to.push(parent);
                    if is_base(parent) {
                        self.links.insert(address(part));
                    }
                }
                None if levels > 0 => self.parents_of(references, part, base, levels - 1, to),
                None => {}
            }
        }
    }

    /// Who extends a schema.
    pub(super) fn subtypes(&self, node: &Node) -> &[Subtype<'d>] {
        self.subtypes.get(&address(node)).map_or(&[], Vec::as_slice)
    }

    /// Whether this is the reference by which a subtype takes in its base.
    pub(super) fn is_link(&self, node: &Node) -> bool {
        self.links.contains(&address(node))
    }
}
