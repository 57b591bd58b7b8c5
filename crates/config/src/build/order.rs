//! Groups of routes that are taken in order (`in_order`): what stands around their entries, and the forms of paths that only they have. Each entry becomes
//! a route of its own, so that whatever looks at routes sees those of groups as well.
//!
//! Which entry a request takes is `route::RouteTable`'s to say, and so is that a host has either a group or other routes.

use super::conditions::{expression, expressions_in};
use super::routes::Known;
use super::template::{path_expression, path_prefix};
use super::{Build, read};
use crate::expression::MAX_EXCEPTIONS;
use crate::model::{HostPattern, PathPattern};
use crate::yaml::Node;

/// Most routes of a group.
const MAX_ENTRIES: usize = 5_000;
/// Most regular expressions of a group, in paths and conditions: they are tried one after the other.
const MAX_EXPRESSIONS: usize = 256;
/// Most paths of a group, over all its routes.
const MAX_PATHS: usize = 10_000;
/// What may stand in a group. (Beside an action of a route `in_order` is one action too many, which is reported as such.)
const GROUP_KEYS: [&str; 9] =
    ["listeners", "hosts", "in_order", "upstream", "split", "upstream_url", "redirect", "respond", "validate"];

/// What stands around a route: in the route itself, or in its group.
pub(super) struct Around {
    /// Listeners; empty for all of them.
    pub(super) listeners: Vec<String>,
    /// Hosts; empty for any.
    pub(super) hosts: Vec<HostPattern>,
    /// The group, by its number.
    pub(super) group: Option<usize>,
    /// All that the file says of listeners and hosts could be read.
    pub(super) is_whole: bool,
}

/// Whether an item of `routes` is a group.
pub(super) fn is_group(node: &Node) -> bool {
    node.get("in_order").is_some()
}

/// The routes of an item of `routes`: itself, or those of a group.
pub(super) fn entries(node: &Node) -> &[Node] {
    node.get("in_order").map_or(std::slice::from_ref(node), Node::items)
}

/// All routes of a file, those of groups among them.
pub(super) fn all_routes(root: &Node) -> impl Iterator<Item = &Node> {
    root.get("routes").map(Node::items).unwrap_or_default().iter().flat_map(entries)
}

/// Whether all items of a list were taken: what was left out would have a route match more than it says, and meet routes that it does not.
pub(super) fn is_whole(node: &Node, key: &str, taken: usize) -> bool {
    node.get(key).map_or(0, |list| list.one_or_many().len()) == taken && !node.is_replaced(key)
}

impl Build<'_> {
    /// What stands around the routes of an item of `routes`.
    pub(super) fn around(&mut self, node: &Node, known: &Known<'_>, group: Option<usize>) -> Around {
        if group.is_some() {
            self.group_alone(node);
        }
        let (listeners, hosts) = (self.route_listeners(node, known), self.hosts(node));
        let is_any = hosts.is_empty() && is_any_host(node) && !node.is_replaced("hosts");
        let is_whole = is_whole(node, "listeners", listeners.len()) && (is_any || is_whole(node, "hosts", hosts.len()));
        Around { listeners, hosts, group, is_whole }
    }

    /// Notes what cannot stand in a group, and one that is empty or too long.
    fn group_alone(&mut self, node: &Node) {
        let is_foreign = |key: &str| !GROUP_KEYS.contains(&key);
        for entry in node.entries().iter().filter(|entry| entry.is_written && is_foreign(&entry.key)) {
            let what = format!("`{}` stands beside `in_order`", entry.key);
            self.problems.add(entry.key_span, what, "write it in each route of the group that is to have it");
        }
        let Some(list) = node.get("in_order") else { return };
        self.not_empty(list, "in_order", "add a route, or remove the group");
        if let Some(item) = list.items().get(MAX_ENTRIES) {
            let what = format!("the group has more than {MAX_ENTRIES} routes");
            self.problems.add(item.span, what, "give routes that do the same several paths, or divide the host");
        }
        let mut paths = list.items().iter().filter_map(|node| node.get("path")).flat_map(Node::one_or_many);
        if let Some(path) = paths.nth(MAX_PATHS) {
            let what = format!("the group has more than {MAX_PATHS} paths");
            self.problems.add(path.span, what, "write prefixes for paths that begin alike, or divide the host");
        }
        let mut count = 0;
        let of_entry = |node: &Node| {
            ["path", "when"].into_iter().filter_map(|key| node.get(key)).map(expressions_in).sum::<usize>()
        };
        let first_above = list.items().iter().find(|node| {
            count += of_entry(node);
            count > MAX_EXPRESSIONS
        });
        if let Some(node) = first_above {
            let what = format!("the group has more than {MAX_EXPRESSIONS} regular expressions");
            self.problems.add(
                node.span,
                what,
                "write prefixes, or put several expressions into one, with `|` between them",
            );
        }
    }

    /// A path that is written as a mapping: an expression or a prefix.
    pub(super) fn path_mapping(&mut self, item: &Node, is_in_order: bool) -> Option<PathPattern> {
        let is_decoded = read::boolean(item, "decoded") == Some(true);
        let only_in_order = [item.entry("prefix"), item.entry("decoded").filter(|_| is_decoded)];
        if let Some(entry) = only_in_order.into_iter().flatten().next().filter(|_| !is_in_order) {
            let what = format!("`{}` in a route that is not `in_order`", entry.key);
            let fix = match entry.key.as_str() {
                "prefix" => {
                    "write the paths, as in `[/static, \"/static/{*rest}\"]`, or put the routes of the host into `in_order`"
                }
                _ => "write the expression percent-encoded, or put the routes of the host into `in_order`",
            };
            self.problems.add(entry.key_span, what, fix);
            return None;
        }
        if item.get("prefix").is_none() {
            return self.path_by_expression(item, is_decoded);
        }
        for entry in ["except", "decoded"].into_iter().filter_map(|key| item.entry(key)) {
            let what = format!("`{}` has no effect beside `prefix`", entry.key);
            self.problems.add(entry.key_span, what, "remove it; it is for `regex`");
        }
        self.parsed(item, "prefix", path_prefix)
    }

    /// A path by regular expression. Without one of its exceptions it would match more than it says.
    fn path_by_expression(&mut self, item: &Node, is_decoded: bool) -> Option<PathPattern> {
        let except = self.parsed_list(item, "except", expression);
        let list = item.get("except");
        let given = list.map_or(0, |list| list.one_or_many().len());
        if let (Some(list), true) = (list, given > MAX_EXCEPTIONS) {
            let what = format!("`except` has more than {MAX_EXCEPTIONS} expressions");
            self.problems.add(list.span, what, "put several into one, with `|` between them");
        }
        let path = self.parsed(item, "regex", |text| path_expression(text, &except, is_decoded))?;
        let is_whole = except.len() == given && given <= MAX_EXCEPTIONS;
        (is_whole && !item.is_replaced("except") && !item.is_replaced("decoded")).then_some(path)
    }
}

/// Whether a route takes `hosts: "*"`.
fn is_any_host(route: &Node) -> bool {
    let list = route.get("hosts").map(Node::one_or_many).unwrap_or_default();
    matches!(list, [host] if host.text() == Some("*"))
}
