//! What is answered where no route is found: 404, 405 with Allow, `OPTIONS *`, and, only for routes that ask for it (`Leniency`), automatic
//! OPTIONS and redirects to a path that would match. Off the fast path, so it may allocate.

use std::collections::BTreeSet;

use wire::http::Method;

use super::tree::Tree;
use super::{RouteTable, Routed, Sought};

impl RouteTable {
    /// The answer to a request for which `tree` has no route.
    pub(super) fn not_found(&self, tree: &Tree, sought: &Sought<'_>) -> Routed<'_> {
        let head = sought.head;
        if tree.redirects
            && let Some((status, location)) = self.redirect(tree, sought)
        {
            return Routed::RedirectTo(status, location);
        }
        let mut allow = BTreeSet::new();
        let mut responds_options = false;
        if head.path() == b"*" {
            // `OPTIONS *` asks about the server as a whole, which is us (RFC 9110 §9.3.7): no route takes it, and it goes to no upstream.
            responds_options = true;
            let routes = tree.routes().filter_map(|number| self.routes.get(number as usize));
            for route in routes {
                route.methods.list(&mut allow);
                if route.methods.is_any() {
                    allow.extend(["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"]);
                }
            }
            allow.retain(|method| !matches!(*method, "CONNECT" | "TRACE"));
        } else {
            tree.search(head.path(), |candidates| {
                for route in
                    self.numbered(candidates.routes).filter(|route| route.takes(sought, head.path(), tree, &candidates))
                {
                    responds_options |= route.config.lenient.response_options;
                    route.methods.list(&mut allow);
                }
                false
            });
        }
        if responds_options {
            allow.insert(Method::Options.as_str());
        }
        if allow.is_empty() {
            return Routed::NotFound;
        }
        let allow = allow.into_iter().collect::<Vec<_>>().join(", ");
        if responds_options && head.method == Method::Options {
            return Routed::Options(allow);
        }
        Routed::MethodNotAllowed(allow)
    }

    /// Where a request would have matched: with the final slash added or removed, else with runs of slashes made one and without regard to
    /// case. (Dot segments never come this far.) The location is always one slash and a name, so that it cannot name another host.
    fn redirect(&self, tree: &Tree, sought: &Sought<'_>) -> Option<(u16, Vec<u8>)> {
        let head = sought.head;
        let path = head.path();
        if head.method == Method::Connect || path == b"/" || !path.starts_with(b"/") {
            return None;
        }
        let mut location = self.redirect_path(tree, sought, path)?;
        if location == path || location.starts_with(b"//") {
            return None;
        }
        location.extend_from_slice(head.query());
        Some((if head.method == Method::Get { 301 } else { 307 }, location))
    }

    fn redirect_path(&self, tree: &Tree, sought: &Sought<'_>, path: &[u8]) -> Option<Vec<u8>> {
        let toggled = toggle_final_slash(path);
        let toggled_matches = self
            .search(tree, sought, &toggled)
            .is_some_and(|(route, _)| route.config.lenient.redirect_to_match && !toggled.starts_with(b"//"));
        if toggled_matches {
            return Some(toggled);
        }
        let clean = merge_slashes(path);
        let toggled = toggle_final_slash(&clean);
        [clean, toggled].iter().find_map(|path| {
            let mut found = None;
            tree.search_ignoring_case(path, &mut |numbers, written| {
                let taken = self.numbered(numbers).any(|route| {
                    route.config.lenient.redirect_to_match
                        && route.methods.contains(&sought.head.method)
                        && route.suits(sought, written, tree)
                });
                found = taken.then(|| written.to_vec());
                taken
            });
            found
        })
    }
}

/// The path without its final slash, or with one.
fn toggle_final_slash(path: &[u8]) -> Vec<u8> {
    match path.strip_suffix(b"/") {
        Some(start) if !start.is_empty() => start.to_vec(),
        Some(_) => path.to_vec(),
        None => [path, b"/"].concat(),
    }
}

/// The path with every run of slashes made one.
fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut merged: Vec<u8> = Vec::with_capacity(path.len());
    for byte in path {
        if *byte != b'/' || merged.last() != Some(&b'/') {
            merged.push(*byte);
        }
    }
    merged
}
