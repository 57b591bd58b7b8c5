//! Resources by URI, as JSON Schema 2020-12 core §8.2 names them: `$id`, `$anchor`, `$dynamicAnchor`, pointers. For tests: everything is in memory.

use std::collections::HashMap;

use contract::document::Node;
use contract::schema::{Base, Dialect, Resolver, Target};

#[derive(Default)]
pub struct Registry<'n> {
    resources: Vec<Resource<'n>>,
    by_uri: HashMap<String, usize>,
    by_node: HashMap<*const Node, usize>,
}

struct Resource<'n> {
    uri: String,
    node: &'n Node,
    dialect: Dialect,
    anchors: HashMap<String, &'n Node>,
    dynamic: HashMap<String, &'n Node>,
}

/// Members that hold values, not schemas: what looks like a name in there is none.
const OPAQUE: &[&str] = &["enum", "const", "default", "examples", "example"];

impl<'n> Registry<'n> {
    pub fn add(&mut self, uri: &str, node: &'n Node, dialect: Dialect) -> Base {
        let index = self.resource(uri.to_owned(), node, dialect);
        self.walk(node, index, true);
        Base(index as u32)
    }

    fn resource(&mut self, uri: String, node: &'n Node, dialect: Dialect) -> usize {
        let index = self.resources.len();
        self.by_uri.insert(uri.clone(), index);
        self.resources.push(Resource { uri, node, dialect, anchors: HashMap::new(), dynamic: HashMap::new() });
        index
    }

    fn walk(&mut self, node: &'n Node, mut index: usize, is_schema: bool) {
        if is_schema && let Some(id) = node.get("$id").and_then(Node::as_str) {
            let uri = join(&self.resources[index].uri, id).trim_end_matches('#').to_owned();
            index = self.resource(uri, node, self.resources[index].dialect);
            self.by_node.insert(std::ptr::from_ref(node), index);
        }
        if is_schema && let Some(name) = node.get("$anchor").and_then(Node::as_str) {
            self.resources[index].anchors.insert(name.to_owned(), node);
        }
        if is_schema && let Some(name) = node.get("$dynamicAnchor").and_then(Node::as_str) {
            self.resources[index].anchors.insert(name.to_owned(), node);
            self.resources[index].dynamic.insert(name.to_owned(), node);
        }
        for (key, child) in node.members() {
            let name = key.text.as_str();
            if is_schema && OPAQUE.contains(&name) {
                continue;
            }
            let is_map =
                matches!(name, "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas");
            self.walk(child, index, !(is_schema && is_map));
        }
        node.elements().iter().for_each(|child| self.walk(child, index, true));
    }
}

impl<'n> Resolver<'n> for Registry<'n> {
    fn resolve(&self, reference: &str, base: Base) -> Result<Target<'n>, String> {
        let full = join(&self.resources[base.0 as usize].uri, reference);
        let (uri, fragment) = full.split_once('#').unwrap_or((&full, ""));
        let index = *self.by_uri.get(uri).ok_or_else(|| format!("{uri} is not loaded"))?;
        let resource = &self.resources[index];
        let fragment = percent_decode(fragment);
        let found = match fragment.as_str() {
            "" => Some(resource.node),
            text if text.starts_with('/') => resource.node.pointer(text),
            name => resource.anchors.get(name).copied(),
        };
        let node = found.ok_or_else(|| format!("{full} leads nowhere"))?;
        let mut base = Base(index as u32);
        // A pointer may lead through resources with names of their own.
        let mut at = resource.node;
        for token in fragment.split('/').skip(1) {
            let Some(next) = at.pointer(&format!("/{token}")) else { break };
            at = next;
            base = self.enter(at, base);
        }
        Ok(Target { node, base, dialect: resource.dialect })
    }

    fn enter(&self, node: &'n Node, base: Base) -> Base {
        self.by_node.get(&std::ptr::from_ref(node)).map_or(base, |&index| Base(index as u32))
    }

    fn dynamic_anchor(&self, name: &str, base: Base) -> Option<Target<'n>> {
        let resource = &self.resources[base.0 as usize];
        resource.dynamic.get(name).map(|node| Target { node, base, dialect: resource.dialect })
    }
}

/// RFC 3986 §5.2, as far as tests need it.
fn join(base: &str, reference: &str) -> String {
    let has_scheme = reference.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    if has_scheme {
        return reference.to_owned();
    }
    let base = base.split('#').next().unwrap();
    if reference.is_empty() || reference.starts_with('#') {
        return format!("{base}{reference}");
    }
    let (scheme, rest) = base.split_once(':').unwrap_or(("", base));
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (format!("//{}", &rest[..end]), &rest[end..])
        }
        None => (String::new(), rest),
    };
    if let Some(rest) = reference.strip_prefix("//") {
        return format!("{scheme}://{rest}");
    }
    let merged = if reference.starts_with('/') {
        reference.to_owned()
    } else {
        format!("{}{reference}", &path[..path.rfind('/').map_or(0, |slash| slash + 1)])
    };
    format!("{scheme}:{authority}{}", without_dots(&merged))
}

fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    segments.join("/")
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = (*first == b'%').then(|| behind.get(..2)).flatten();
        match escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
