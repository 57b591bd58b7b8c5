//! Which template a path belongs to: concrete text before partial expressions before whole-segment ones, with backtracking.
//!
//! A tree over segments. Each of its nodes is looked at no more than once per path, so the cost is bounded by the document, not by the path.
//! Knows operations only by number.

use super::template::{PathValues, Piece, Template, covers};

/// Templates by their segments.
#[derive(Debug, Default)]
pub(crate) struct Router {
    tree: Tree,
    /// The same with all text decoded, and whether that makes a difference: what servers that decode a path before they match it may take it for.
    decoded: Tree,
    has_escapes: bool,
}

/// One tree of templates.
#[derive(Debug)]
struct Tree {
    nodes: Vec<TreeNode>,
    leaves: Vec<Leaf>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { nodes: vec![TreeNode::default()], leaves: Vec::new() }
    }
}

#[derive(Debug, Default)]
struct TreeNode {
    /// Sorted by text.
    texts: Vec<(Box<[u8]>, usize)>,
    /// Segments that are text and expressions, the most text first.
    partial: Vec<(Vec<Piece>, usize)>,
    /// The segment that is one expression.
    whole: Option<(Vec<Piece>, usize)>,
    leaf: Option<usize>,
}

/// What stands at the end of a template.
#[derive(Debug, Default)]
pub(crate) struct Leaf {
    /// Methods with the numbers of their operations.
    pub(crate) operations: Vec<(String, usize)>,
    /// The methods as the Allow field lists them (RFC 9110 §10.2.1).
    pub(crate) allow: String,
}

impl Router {
    /// An empty router.
    pub(crate) fn new() -> Router {
        Router::default()
    }

    /// Adds a template with one operation. Templates of the same shape are told apart by their methods; an operation that has this one already is
    /// given back as the error.
    pub(crate) fn add(&mut self, template: &Template, method: &str, operation: usize) -> Result<(), usize> {
        for decoded in template.decoded() {
            self.has_escapes |= decoded != *template;
            // Of two that are one once they are decoded, the second is found to be another one than the first.
            let _ = self.decoded.add(&decoded, method, operation);
        }
        self.tree.add(template, method, operation)
    }

    /// The leaf that a canonical path leads to, with the values of its expressions.
    pub(crate) fn find(&self, path: &[u8]) -> Option<(&Leaf, PathValues)> {
        self.tree.find(path)
    }

    /// The leaf that a decoded path leads to among templates whose text is decoded.
    pub(crate) fn find_decoded(&self, path: &[u8]) -> Option<(&Leaf, PathValues)> {
        let tree = if self.has_escapes { &self.decoded } else { &self.tree };
        tree.find(path)
    }

    /// Whether some template has escapes that a server which decodes would not tell from what they stand for.
    pub(crate) fn has_escapes(&self) -> bool {
        self.has_escapes
    }
}

impl Tree {
    fn add(&mut self, template: &Template, method: &str, operation: usize) -> Result<(), usize> {
        let mut at = 0;
        for segment in &template.segments {
            at = self.child(at, segment);
        }
        let leaves = self.leaves.len();
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        let leaf = *node.leaf.get_or_insert(leaves);
        if leaf == leaves {
            self.leaves.push(Leaf::default());
        }
        let Some(leaf) = self.leaves.get_mut(leaf) else { return Ok(()) };
        match leaf.operations.iter().find(|(have, _)| have == method) {
            Some((_, same)) if *same == operation => return Ok(()),
            Some((_, other)) => return Err(*other),
            None => {}
        }
        leaf.operations.push((method.to_owned(), operation));
        leaf.allow = leaf.operations.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>().join(", ");
        Ok(())
    }

    /// The child of a node for a segment, made if need be.
    fn child(&mut self, at: usize, segment: &[Piece]) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return 0 };
        let child = match segment {
            [] => text_child(node, b"", next),
            [Piece::Text(text)] => text_child(node, text, next),
            [Piece::Value(_)] => node.whole.get_or_insert_with(|| (segment.to_vec(), next)).1,
            pieces => match node.partial.iter().find(|(have, _)| same_shape(have, pieces)) {
                Some((_, child)) => *child,
                None => {
                    node.partial.push((pieces.to_vec(), next));
                    node.partial.sort_by_key(|(pieces, _)| std::cmp::Reverse(text_bytes(pieces)));
                    next
                }
            },
        };
        if child == next {
            self.nodes.push(TreeNode::default());
        }
        child
    }

    fn find(&self, path: &[u8]) -> Option<(&Leaf, PathValues)> {
        let mut values = PathValues::default();
        let leaf = self.descend(0, path, 1, &mut values)?;
        Some((self.leaves.get(leaf)?, values))
    }

    /// Recursion ends with the tree, whose depth the loader bounds.
    fn descend(&self, at: usize, path: &[u8], start: usize, values: &mut PathValues) -> Option<usize> {
        let node = self.nodes.get(at)?;
        if start > path.len() {
            return node.leaf;
        }
        let rest = path.get(start..)?;
        let segment = rest.get(..memchr(rest)).unwrap_or(rest);
        let next = start + segment.len() + 1;
        if let Ok(found) = node.texts.binary_search_by(|(text, _)| text.as_ref().cmp(segment))
            && let Some((_, child)) = node.texts.get(found)
            && let Some(leaf) = self.descend(*child, path, next, values)
        {
            return Some(leaf);
        }
        for (pieces, child) in node.partial.iter().chain(&node.whole) {
            if covers(pieces, segment, start, values)
                && let Some(leaf) = self.descend(*child, path, next, values)
            {
                return Some(leaf);
            }
        }
        None
    }
}

fn memchr(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len())
}

fn text_child(node: &mut TreeNode, text: &[u8], next: usize) -> usize {
    match node.texts.binary_search_by(|(have, _)| have.as_ref().cmp(text)) {
        Ok(found) => node.texts.get(found).map_or(next, |(_, child)| *child),
        Err(place) => {
            node.texts.insert(place, (text.into(), next));
            next
        }
    }
}

fn same_shape(one: &[Piece], other: &[Piece]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|pair| match pair {
            (Piece::Text(one), Piece::Text(other)) => one == other,
            (Piece::Value(_), Piece::Value(_)) => true,
            _ => false,
        })
}

fn text_bytes(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.len() } else { 0 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(templates: &[&str]) -> Result<Router, usize> {
        let mut router = Router::new();
        for (number, text) in templates.iter().enumerate() {
            router.add(&Template::parse(text).unwrap(), "GET", number)?;
        }
        Ok(router)
    }

    #[test]
    fn concrete_before_partial_before_whole() {
        let templates = [
            "/",
            "/a",
            "/a/",
            "/a/{x}",
            "/a/b",
            "/a/{x}.json",
            "/a/{x}.min.json",
            "/{x}/c",
            "/a/{x}/d",
            "/a/b/e",
            "/%C3%B6",
        ];
        let router = router(&templates).unwrap();
        let rows = [
            ("/", Some("/")),
            ("/a", Some("/a")),
            ("/a/", Some("/a/")),
            ("/a/b", Some("/a/b")),
            ("/a/q", Some("/a/{x}")),
            ("/a/q.json", Some("/a/{x}.json")),
            ("/a/q.min.json", Some("/a/{x}.min.json")),
            ("/a/c", Some("/a/{x}")),
            ("/b/c", Some("/{x}/c")),
            ("/a/b/d", Some("/a/{x}/d")),
            ("/a/b/e", Some("/a/b/e")),
            ("/a/b/f", None),
            ("/A", None),
            ("/a//d", None),
            ("//c", None),
            ("/%C3%B6", Some("/%C3%B6")),
            ("", Some("/")),
        ];
        for (path, expected) in rows.iter().take(rows.len() - 1) {
            let found = router.find(path.as_bytes()).map(|(leaf, _)| templates[leaf.operations[0].1]);
            assert_eq!(found, *expected, "{path}");
        }
    }

    #[test]
    fn templates_of_one_shape_are_told_apart_by_method() {
        for pair in [["/a/{x}", "/a/{y}"], ["/{x}.json", "/{y}.json"], ["/a", "/a"]] {
            assert_eq!(router(&pair).err(), Some(0));
        }
        let mut two = router(&["/a/{x}"]).unwrap();
        assert_eq!(two.add(&Template::parse("/a/{y}").unwrap(), "POST", 1), Ok(()));
        let (leaf, _) = two.find(b"/a/1").unwrap();
        assert_eq!((leaf.operations.len(), leaf.allow.as_str()), (2, "GET, POST"));
        assert!(router(&["/a/{x}", "/a/{x}/"]).is_ok());
    }

    #[test]
    fn decoded_paths_are_looked_up_in_decoded_templates() {
        let templates = ["/a%3Ab/{x}", "/{x}/c", "/d%2Fe", "/f%253Ag", "/h:i", "/h%3Ai"];
        let routed = router(&templates).unwrap();
        assert!(routed.has_escapes() && !router(&["/a/{x}:y", "/\u{f6}%20"]).unwrap().has_escapes());
        let rows = [
            ("/a:b/c", Some(0)),
            ("/a%3Ab/c", Some(1)),
            ("/d/e", Some(2)),
            ("/d%2Fe", Some(2)),
            ("/f:g", Some(3)),
            ("/h:i", Some(4)),
            ("/x/c", Some(1)),
            ("/x", None),
        ];
        for (path, expected) in rows {
            let found = routed.find_decoded(path.as_bytes()).map(|(leaf, _)| leaf.operations[0].1);
            assert_eq!(found, expected, "{path}");
        }
    }
}
