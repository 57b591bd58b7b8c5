//! `split` and `mirror` of a route.

use super::conditions::Place;
use super::placeholders::Claims;
use super::routes::Known;
use super::{Build, read};
use crate::model::{Conditions, Mirror, Share};
use crate::problem::shown;
use crate::yaml::Node;

/// Most shares of a route.
const MAX_SHARES: usize = 64;

impl Build<'_> {
    /// The shares of a route; `check` looks at the upstream of each.
    pub(super) fn split(
        &mut self,
        list: &Node,
        claims: Claims,
        mut check: impl FnMut(&mut Build<'_>, &Node) -> Option<String>,
    ) -> Option<Vec<Share>> {
        let mut shares = Vec::new();
        let mut is_whole = true;
        for item in list.items().iter().take(MAX_SHARES) {
            let group = item.get("upstream").and_then(|name| check(self, name));
            let given = item.get("when");
            let place = Place { claims, is_route: false };
            let when = given.map_or_else(|| Some(Conditions::default()), |node| self.conditions(node, place));
            is_whole &= group.is_some() && when.is_some();
            if let (Some(_), Some(entry)) = (given, item.entry("weight")) {
                let fix = "remove one of the two: a share with `when` gets all requests for which it holds, in the order of the file";
                self.problems.add(entry.key_span, "`weight` beside `when`", fix);
            }
            let weight = if given.is_some() { 0 } else { read::int(item, "weight").unwrap_or(1) };
            shares.extend(group.zip(when).map(|(group, when)| Share { group, weight, when }));
        }
        if let Some(item) = list.items().get(MAX_SHARES) {
            self.problems.add(item.span, format!("more than {MAX_SHARES} shares"), "use fewer");
        }
        if is_whole && shares.iter().all(|share| share.weight == 0) {
            let fix = "give one of them a `weight`, and no `when`";
            self.problems.add(list.span, "no share takes the requests that are left", fix);
            return None;
        }
        is_whole.then_some(shares)
    }

    /// Copies of the requests of a route.
    pub(super) fn mirror(&mut self, route: &Node, known: &Known<'_>) -> Option<Mirror> {
        let node = read::mapping(route, "mirror")?;
        let name = node.get("upstream")?;
        let group = self.route_upstream(name, known)?;
        let upstream = known.root.get("upstreams").and_then(|all| all.get(&group));
        let protocol = upstream.and_then(|upstream| read::text(upstream, "protocol"));
        if protocol.is_some_and(|protocol| protocol != "http1") {
            let what = format!("{} does not speak HTTP/1, which copies are sent in", shown(&group));
            self.problems.add(name.span, what, "use an upstream with `protocol: http1`");
        }
        Some(Mirror {
            group,
            percent: read::int(node, "percent").unwrap_or(100),
            max_body_bytes: read::memory_size(node, "max_body").unwrap_or_default(),
        })
    }
}
