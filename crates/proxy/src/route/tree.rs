//! The segment tree of one host: built once from patterns, searched for every request.
//!
//! A node stands at one depth and eats one segment per edge, so a search visits each node at most once, whatever the path is: going back
//! costs at most the number of nodes. Recursion is as deep as the longest pattern, which the compiler of the table bounds.
//! Knows nothing of methods and fields: what ends a search is the caller's `visit`.

use std::borrow::Cow;
use std::cell::Cell;

use config::{Expression, PathPattern, Segment};

use super::decoded_path;
use super::params::Params;
use super::starts::Starts;
use crate::configured_map::ConfiguredMap;

/// Up to this many static children are compared one after the other; more are hashed.
const FEW: usize = 6;

/// The patterns of one host.
#[derive(Debug)]
pub(super) struct Tree {
    /// The root first.
    nodes: Vec<Node>,
    /// Whether some route takes an empty value before the last segment.
    empty_values: bool,
    /// Whether some route redirects to a path that would match.
    pub(super) redirects: bool,
    /// Most expressions of one place: a path that leads there is compared with each.
    pub(super) most_expressions: usize,
    /// Patterns in conditions on the path, each of which is compared with it as well.
    pub(super) judging: usize,
    /// Whether some expression spells escapes.
    pub(super) spells_escapes: bool,
    /// Whether its routes are taken in order: the lowest number first.
    pub(super) is_ordered: bool,
    /// Whether the text of its patterns is decoded: it is for readings of paths.
    pub(super) is_decoded: bool,
    /// Whether some expression is for decoded paths.
    has_decoded: bool,
}

/// One place in the tree.
#[derive(Debug, Default)]
struct Node {
    statics: Statics,
    /// Children for `prefix{name}`, longest prefix first.
    prefixes: Vec<(Box<[u8]>, u32)>,
    /// The child for `{name}`.
    param: Option<u32>,
    /// Expressions over whole paths whose literal start leads here, with their routes, most specific first.
    expressions: Vec<(Expression, Vec<u32>)>,
    /// Routes whose pattern ends here, most specific first.
    ends: Vec<u32>,
    /// Routes whose catch-all begins here, most specific first.
    rest: Vec<u32>,
    /// Routes of prefixes of what follows here.
    starts: Starts,
}

impl Node {
    /// The routes of an expression here.
    fn routes_of(&mut self, expression: &Expression) -> &mut Vec<u32> {
        let at = self.expressions.iter().position(|(other, _)| other == expression).unwrap_or_else(|| {
            self.expressions.push((expression.clone(), Vec::new()));
            self.expressions.len() - 1
        });
        &mut self.expressions[at].1
    }
}

/// Children by literal segment.
#[derive(Debug)]
enum Statics {
    Few(Vec<(Box<[u8]>, u32)>),
    Many(ConfiguredMap<Box<[u8]>, u32>),
}

impl Default for Statics {
    fn default() -> Statics {
        Statics::Few(Vec::new())
    }
}

impl Statics {
    fn get(&self, segment: &[u8]) -> Option<u32> {
        match self {
            Statics::Few(children) => children.iter().find(|(text, _)| **text == *segment).map(|(_, child)| *child),
            Statics::Many(children) => children.get(segment).copied(),
        }
    }

    fn insert(&mut self, segment: &[u8], child: u32) {
        match self {
            Statics::Few(children) if children.len() < FEW => children.push((segment.into(), child)),
            Statics::Few(children) => {
                let mut many: ConfiguredMap<_, _> = children.drain(..).collect();
                many.insert(segment.into(), child);
                *self = Statics::Many(many);
            }
            Statics::Many(children) => {
                children.insert(segment.into(), child);
            }
        }
    }

    /// The children whose text equals `segment` but for the case of ASCII letters. Walks all children: used only to look for a redirect.
    fn ignoring_case<'s>(&'s self, segment: &'s [u8]) -> impl Iterator<Item = (&'s [u8], u32)> {
        let (few, many) = match self {
            Statics::Few(children) => (Some(children), None),
            Statics::Many(children) => (None, Some(children)),
        };
        let few = few.into_iter().flatten().map(|(text, child)| (&**text, *child));
        let many = many.into_iter().flatten().map(|(text, child)| (&**text, *child));
        few.chain(many).filter(|(text, _)| text.eq_ignore_ascii_case(segment))
    }
}

/// Where a search has arrived: the routes of one pattern, and the values of its parameters.
#[derive(Debug)]
pub(super) struct Candidates<'t, 's> {
    /// Indices of the routes, most specific first.
    pub(super) routes: &'t [u32],
    /// The parameters. Borrowed, because a copy costs more than a step of the search.
    pub(super) params: &'s Params,
    /// A parameter other than the catch-all is empty.
    pub(super) has_empty: bool,
}

impl Tree {
    /// A tree without patterns.
    pub(super) fn new() -> Tree {
        Tree {
            nodes: vec![Node::default()],
            empty_values: false,
            redirects: false,
            most_expressions: 0,
            judging: 0,
            spells_escapes: false,
            is_ordered: false,
            is_decoded: false,
            has_decoded: false,
        }
    }

    /// Adds the pattern of route number `route`.
    pub(super) fn insert(&mut self, pattern: &PathPattern, route: u32, empty_values: bool) {
        self.empty_values |= empty_values;
        self.has_decoded |= pattern.expression().is_some_and(Expression::is_decoded);
        let mut at = 0;
        for segment in &pattern.segments {
            at = match segment {
                Segment::Static(text) => self.static_child(at, text.as_bytes()),
                Segment::Param { prefix, .. } => self.param_child(at, prefix.as_bytes()),
                Segment::CatchAll { .. } => {
                    self.list(at, |node| &mut node.rest, route);
                    return;
                }
                Segment::Regex(expression) => {
                    self.list(at, |node| node.routes_of(expression), route);
                    let here = self.nodes.get(at as usize).map_or(0, |node| node.expressions.len());
                    self.most_expressions = self.most_expressions.max(here);
                    return;
                }
                Segment::Prefix { text, .. } => {
                    self.list(at, |node| node.starts.routes_of(text.as_bytes()), route);
                    return;
                }
            };
        }
        self.list(at, |node| &mut node.ends, route);
    }

    /// Calls `arrange` with every list of routes that share a pattern, to put them into order. Due once all are there.
    pub(super) fn arrange(&mut self, mut arrange: impl FnMut(&mut Vec<u32>)) {
        for node in &mut self.nodes {
            let of_expressions = node.expressions.iter_mut().map(|(_, routes)| routes);
            let of_starts = node.starts.lists_mut();
            for list in [&mut node.ends, &mut node.rest].into_iter().chain(of_expressions).chain(of_starts) {
                if list.len() > 1 {
                    arrange(list);
                }
            }
            node.starts.link();
        }
    }

    /// Calls `order` with every list of expressions of one place, to put them into order.
    pub(super) fn order_expressions(&mut self, mut order: impl FnMut(&mut Vec<(Expression, Vec<u32>)>)) {
        self.nodes.iter_mut().filter(|node| node.expressions.len() > 1).for_each(|node| order(&mut node.expressions));
    }

    /// All routes of the tree, some more than once.
    pub(super) fn routes(&self) -> impl Iterator<Item = u32> {
        let of_node = |node: &Node| {
            let of_expressions = node.expressions.iter().map(|(_, routes)| routes);
            let lists = of_expressions.chain(node.starts.lists()).chain([&node.ends, &node.rest]);
            lists.flatten().copied().collect::<Vec<u32>>()
        };
        self.nodes.iter().flat_map(of_node)
    }

    /// Visits what matches `path`, the most specific pattern first (segment by segment: static, expression, longest prefix, parameter, catch-all), until
    /// `visit` says true. Whether it did is the result.
    pub(super) fn search<'t>(&'t self, path: &[u8], visit: impl FnMut(Candidates<'t, '_>) -> bool) -> bool {
        self.search_before(path, &Cell::new(u32::MAX), visit)
    }

    /// The same, but for lists whose first route is not before this one, which `visit` may lower: where routes are in order, what could only be behind
    /// the best one so far is not looked at.
    pub(super) fn search_before<'t>(
        &'t self,
        path: &[u8],
        before: &Cell<u32>,
        visit: impl FnMut(Candidates<'t, '_>) -> bool,
    ) -> bool {
        let Some(b'/') = path.first() else { return false };
        let decoded = if self.has_decoded { decoded_path::decoded(path) } else { None };
        let decoded = decoded.map_or(Cow::Borrowed(path), Cow::Owned);
        let mut search = Search { tree: self, path, decoded, params: Params::default(), empties: 0, before, visit };
        search.step(0, 1)
    }

    /// Like [`Tree::search`], but literal text matches without regard to the case of ASCII letters. `visit` also gets the path as the
    /// patterns would have it.
    pub(super) fn search_ignoring_case<'t>(
        &'t self,
        path: &[u8],
        visit: &mut impl FnMut(&'t [u32], &[u8]) -> bool,
    ) -> bool {
        let Some(b'/') = path.first() else { return false };
        let mut written = Vec::with_capacity(path.len());
        self.step_ignoring_case(0, path, 1, &mut written, visit)
    }

    fn step_ignoring_case<'t>(
        &'t self,
        node: u32,
        path: &[u8],
        at: usize,
        written: &mut Vec<u8>,
        visit: &mut impl FnMut(&'t [u32], &[u8]) -> bool,
    ) -> bool {
        let Some(node) = self.nodes.get(node as usize) else { return false };
        let Some((segment, next)) = segment_at(path, at) else { return visit(&node.ends, written) };
        let before = written.len();
        let prefixed = node.prefixes.iter().filter_map(|(prefix, child)| {
            let (start, value) = segment.split_at_checked(prefix.len())?;
            (start.eq_ignore_ascii_case(prefix) && !value.is_empty()).then_some((&**prefix, value, *child))
        });
        let param = node.param.filter(|_| !segment.is_empty()).map(|child| (&b""[..], segment, child));
        let statics = node.statics.ignoring_case(segment).map(|(text, child)| (text, &b""[..], child));
        for (text, value, child) in statics.chain(prefixed).chain(param) {
            written.push(b'/');
            written.extend_from_slice(text);
            written.extend_from_slice(value);
            if self.step_ignoring_case(child, path, next, written, visit) {
                return true;
            }
            written.truncate(before);
        }
        written.push(b'/');
        written.extend_from_slice(path.get(at..).unwrap_or_default());
        let done = visit(&node.rest, written);
        written.truncate(before);
        done
    }

    fn static_child(&mut self, at: u32, text: &[u8]) -> u32 {
        let next = self.next_index();
        let Some(node) = self.nodes.get_mut(at as usize) else { return at };
        if let Some(child) = node.statics.get(text) {
            return child;
        }
        node.statics.insert(text, next);
        self.nodes.push(Node::default());
        next
    }

    fn param_child(&mut self, at: u32, prefix: &[u8]) -> u32 {
        let next = self.next_index();
        let Some(node) = self.nodes.get_mut(at as usize) else { return at };
        if prefix.is_empty() {
            if let Some(child) = node.param {
                return child;
            }
            node.param = Some(next);
        } else {
            if let Some((_, child)) = node.prefixes.iter().find(|(text, _)| **text == *prefix) {
                return *child;
            }
            let place = node.prefixes.partition_point(|(text, _)| text.len() >= prefix.len());
            node.prefixes.insert(place, (prefix.into(), next));
        }
        self.nodes.push(Node::default());
        next
    }

    fn list(&mut self, at: u32, list: impl FnOnce(&mut Node) -> &mut Vec<u32>, route: u32) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            let list = list(node);
            // A host named twice by one route is no conflict of the route with itself.
            if list.last() != Some(&route) {
                list.push(route);
            }
        }
    }

    /// Index of the next node. The compiler of the table bounds segments and routes far below 2^32.
    fn next_index(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }
}

/// The segment of `path` that begins at `at`, and where the next one begins; none past the last one.
fn segment_at(path: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = path.get(at..)?;
    let len = memchr::memchr(b'/', rest).unwrap_or(rest.len());
    Some((rest.get(..len)?, at + len + 1))
}

/// A search under way.
struct Search<'t, 'p, V> {
    tree: &'t Tree,
    path: &'p [u8],
    /// The path for expressions on decoded ones.
    decoded: Cow<'p, [u8]>,
    params: Params,
    /// The first route that does not matter.
    before: &'p Cell<u32>,
    /// Parameters among `params` that are empty.
    empties: u8,
    visit: V,
}

impl<'t, V: FnMut(Candidates<'t, '_>) -> bool> Search<'t, '_, V> {
    /// Matches what follows position `at` of the path below `node`.
    fn step(&mut self, node: u32, at: usize) -> bool {
        let Some(node) = self.tree.nodes.get(node as usize) else { return false };
        let Some((segment, next)) = segment_at(self.path, at) else { return self.arrive(&node.ends) };
        if let Some(child) = node.statics.get(segment)
            && self.step(child, next)
        {
            return true;
        }
        if !node.expressions.is_empty() && self.match_expressions(&node.expressions) {
            return true;
        }
        for (prefix, child) in &node.prefixes {
            if segment.starts_with(prefix) && self.bind(*child, at + prefix.len(), next) {
                return true;
            }
        }
        if let Some(child) = node.param
            && self.bind(child, at, next)
        {
            return true;
        }
        if self.arrive_at(&node.rest, at) {
            return true;
        }
        let (before, rest) = (self.before, self.path.get(at..).unwrap_or_default());
        node.starts.search(rest, || before.get(), |length, routes| self.arrive_at(routes, at + length))
    }

    /// Arrives at routes whose parameter is all from `start` on.
    fn arrive_at(&mut self, routes: &'t [u32], start: usize) -> bool {
        if !is_before(routes, self.before) {
            return false;
        }
        self.params.push(start, self.path.len());
        let done = self.arrive(routes);
        self.params.pop();
        done
    }

    /// Tries expressions over the whole path. There are no parameters before them.
    fn match_expressions(&mut self, expressions: &'t [(Expression, Vec<u32>)]) -> bool {
        for (expression, routes) in expressions.iter().filter(|(_, routes)| is_before(routes, self.before)) {
            let text = if expression.is_decoded() { &*self.decoded } else { self.path };
            if expression.matches(text) {
                self.params = Params::default();
                let place = |at| if text.len() == self.path.len() { at } else { decoded_path::place(self.path, at) };
                expression.find_groups(text, |start, end| self.params.push(place(start), place(end)));
                if self.arrive(routes) {
                    return true;
                }
                self.params = Params::default();
            }
        }
        false
    }

    /// Goes on below `child` with a parameter that begins at `start` and ends before the slash at `next - 1`.
    fn bind(&mut self, child: u32, start: usize, next: usize) -> bool {
        let end = next - 1;
        let is_empty = start == end;
        let is_last = end == self.path.len();
        if is_empty && (is_last || !self.tree.empty_values) {
            return false;
        }
        self.params.push(start, end);
        self.empties += u8::from(is_empty);
        let done = self.step(child, next);
        self.empties -= u8::from(is_empty);
        self.params.pop();
        done
    }

    fn arrive(&mut self, routes: &'t [u32]) -> bool {
        is_before(routes, self.before)
            && (self.visit)(Candidates { routes, params: &self.params, has_empty: self.empties > 0 })
    }
}

/// Whether a list has a route that matters. Where some do not, lists are ascending.
fn is_before(routes: &[u32], before: &Cell<u32>) -> bool {
    routes.first().is_some_and(|first| *first < before.get())
}
