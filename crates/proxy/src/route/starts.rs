//! Prefixes of what is left of a path at one place of the tree, for routes in order: sorted, so that those of a path are found by halving.

/// A prefix with its routes.
#[derive(Debug)]
struct Start {
    text: Box<[u8]>,
    /// Indices of the routes, ascending.
    routes: Vec<u32>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    /// The lowest route of this and of all that it begins with.
    lowest: u32,
}

/// Prefixes, sorted by their text.
#[derive(Debug, Default)]
pub(super) struct Starts(Vec<Start>);

impl Starts {
    /// The routes of a prefix. [`Starts::link`] is due once all are there.
    pub(super) fn routes_of(&mut self, text: &[u8]) -> &mut Vec<u32> {
        let at = self.0.binary_search_by(|start| (*start.text).cmp(text)).unwrap_or_else(|at| {
            self.0.insert(at, Start { text: text.into(), routes: Vec::new(), parent: None, lowest: u32::MAX });
            at
        });
        &mut self.0[at].routes
    }

    /// All lists of routes.
    pub(super) fn lists(&self) -> impl Iterator<Item = &Vec<u32>> {
        self.0.iter().map(|start| &start.routes)
    }

    /// All lists of routes, to put them into order.
    pub(super) fn lists_mut(&mut self) -> impl Iterator<Item = &mut Vec<u32>> {
        self.0.iter_mut().map(|start| &mut start.routes)
    }

    /// Finds out which prefix begins with which.
    pub(super) fn link(&mut self) {
        // Prefixes that the one at hand may begin with, shortest first: sorted as they are, each stands before what begins with it.
        let mut open: Vec<(Box<[u8]>, usize, u32)> = Vec::new();
        for (at, start) in self.0.iter_mut().enumerate() {
            while open.last().is_some_and(|(text, _, _)| !start.text.starts_with(text)) {
                open.pop();
            }
            let around = open.last();
            start.parent = around.map(|(_, at, _)| *at);
            let own = start.routes.iter().min().copied().unwrap_or(u32::MAX);
            start.lowest = around.map_or(own, |(_, _, lowest)| own.min(*lowest));
            open.push((start.text.clone(), at, start.lowest));
        }
    }

    /// Visits the prefixes of `rest` that hold a route below `before`, which may sink meanwhile, longest first, until `visit` says true: length and
    /// routes. Whether it did is the result.
    pub(super) fn search<'t>(
        &'t self,
        rest: &[u8],
        before: impl Fn() -> u32,
        mut visit: impl FnMut(usize, &'t [u32]) -> bool,
    ) -> bool {
        // All prefixes of a text stand before it, and what stands between one of them and the text begins with it.
        let next = self.0.partition_point(|start| *start.text <= *rest);
        let Some(mut start) = next.checked_sub(1).and_then(|at| self.0.get(at)) else { return false };
        let shared = start.text.iter().zip(rest).take_while(|(one, other)| one == other).count();
        loop {
            if start.lowest >= before() {
                return false;
            }
            if start.text.len() <= shared && visit(start.text.len(), &start.routes) {
                return true;
            }
            match start.parent.and_then(|at| self.0.get(at)) {
                Some(parent) => start = parent,
                None => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_of_a_text_is_found_and_nothing_else() {
        let texts = ["", "a", "ab", "abc", "abd", "abda", "b", "ba", "caa", "cab", "d"];
        let mut starts = Starts::default();
        for (number, text) in (0..).zip(texts) {
            starts.routes_of(text.as_bytes()).push(number);
        }
        starts.link();
        for rest in ["", "a", "abz", "abda/x", "abd", "ac", "bb", "c", "caab", "cabb", "dz", "e", "\u{ff}"] {
            let mut found = Vec::new();
            starts.search(
                rest.as_bytes(),
                || u32::MAX,
                |length, routes| {
                    found.push((length, routes.to_vec()));
                    false
                },
            );
            let mut expected: Vec<(usize, Vec<u32>)> = (0..)
                .zip(texts)
                .filter(|(_, text)| rest.starts_with(text))
                .map(|(number, text)| (text.len(), vec![number]))
                .collect();
            expected.reverse();
            assert_eq!(found, expected, "{rest}");
        }
        // What begins with a prefix of an earlier route is not looked at.
        let mut found = Vec::new();
        starts.search(
            b"abda",
            || 3,
            |length, _| {
                found.push(length);
                false
            },
        );
        assert_eq!(found, [4, 3, 2, 1, 0]);
    }
}
