//! The files of one document, and what references between their parts lead to. Reads files at load and never goes to the network.
//!
//! Every file that a reference in another one names is read, if it lies under the document's folder. One that cannot be had, or read, is a problem
//! only where something asks for it: an example may hold what merely looks like a reference.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::inheritance::{Inheritance, Subtype};
use super::tree::Fault;
use super::uri;
use super::{json, swagger, yaml};
use crate::node::{Node, Place};
use crate::options::Limits;
use crate::schema::{Base, Dialect, Resolver, Target};

/// What a file takes of the document's bytes at least, as it would of a disk: bounds their number.
const MIN_FILE_BYTES: usize = 4096;

/// Members of an object that are searched one by one; more have an index.
const MAX_SEARCHED: usize = 16;

/// A file of the document.
struct Source {
    /// Canonical path.
    path: PathBuf,
    root: Node,
    /// As it was written, where that is one line.
    one_line: OneLine,
}

/// A file that is written as one line, of which a column says little.
enum OneLine {
    No,
    /// It is what is read.
    Read,
    /// What is read was made of it.
    Converted(Node),
}

impl OneLine {
    fn of(root: &Node) -> OneLine {
        if root.is_one_line() { OneLine::Read } else { OneLine::No }
    }
}

/// A file, or the part of one that has an `$id`: what references are relative to.
struct Resource {
    uri: String,
    /// Address of its root node.
    root: usize,
}

/// All files of a document.
pub(crate) struct Documents {
    sources: Vec<Source>,
    /// Why a file that is named somewhere is not here, by its URI.
    absent: HashMap<String, String>,
    /// What was assumed to read a document of Swagger 2.0 as one of OpenAPI 3.0; none if it is no such document.
    assumed: Option<Vec<Fault>>,
}

/// Files as they are read.
struct Loading<'l> {
    folder: PathBuf,
    limits: &'l Limits,
    nodes_left: usize,
    bytes_left: usize,
    documents: Documents,
    /// The paths that files were read under.
    known: HashSet<PathBuf>,
    names: Vec<PathBuf>,
    faults: Vec<Fault>,
}

impl Documents {
    /// Reads `path` and every file under `folder` (by default the folder of `path`) that it refers to. Gives the names of files by number also
    /// where it fails.
    pub(crate) fn load(
        path: &Path,
        folder: Option<&Path>,
        limits: &Limits,
    ) -> (Vec<PathBuf>, Result<Documents, Vec<Fault>>) {
        let mut loading = Loading {
            folder: PathBuf::new(),
            limits,
            nodes_left: limits.document_nodes,
            bytes_left: limits.document_bytes,
            documents: Documents { sources: Vec::new(), absent: HashMap::new(), assumed: None },
            known: HashSet::new(),
            names: vec![path.to_owned()],
            faults: Vec::new(),
        };
        if let Err(fault) = loading.start(path, folder) {
            loading.faults.push(fault);
        }
        let result = match loading.faults.is_empty() {
            true => loading.documents.modern(limits.document_nodes).map_err(|fault| vec![fault]),
            false => Err(loading.faults),
        };
        (loading.names, result)
    }

    /// The document as one of OpenAPI 3, whatever it was.
    fn modern(mut self, max_nodes: usize) -> Result<Documents, Fault> {
        if !self.root().is_some_and(swagger::is_swagger_2) {
            return Ok(self);
        }
        let mut assumed = Vec::new();
        for (number, source) in self.sources.iter_mut().enumerate() {
            let converted = match number {
                0 => swagger::convert(&source.root, max_nodes),
                _ => swagger::convert_schemas(&source.root, max_nodes),
            };
            let (root, more) = converted?;
            let written = std::mem::replace(&mut source.root, root);
            if matches!(source.one_line, OneLine::Read) {
                source.one_line = OneLine::Converted(written);
            }
            assumed.extend(more);
        }
        self.assumed = Some(assumed);
        Ok(self)
    }

    /// What was assumed to read Swagger 2.0 as OpenAPI 3.0; none if it is no such document.
    pub(crate) fn assumed(&self) -> Option<&[Fault]> {
        self.assumed.as_deref()
    }

    /// The document from text, for tests and fuzzing: references to other files lead nowhere.
    pub(crate) fn from_text(name: &Path, text: &str, limits: &Limits) -> Result<Documents, Vec<Fault>> {
        let (root, faults, _) = parse(name, text, 0, limits.document_nodes).map_err(|fault| vec![fault])?;
        if faults.is_empty() {
            let one_line = OneLine::of(&root);
            let sources = vec![Source { path: PathBuf::from("/").join(name), root, one_line }];
            let documents = Documents { sources, absent: HashMap::new(), assumed: None };
            documents.modern(limits.document_nodes).map_err(|fault| vec![fault])
        } else {
            Err(faults)
        }
    }

    /// The value of the first file.
    pub(crate) fn root(&self) -> Option<&Node> {
        self.sources.first().map(|source| &source.root)
    }

    /// Where in a file that is written as one line something stands, as a JSON Pointer; none in other files.
    pub(crate) fn pointer(&self, place: Place) -> Option<String> {
        let source = self.sources.get(usize::try_from(place.file).ok()?)?;
        let written = match &source.one_line {
            OneLine::No => return None,
            OneLine::Read => &source.root,
            OneLine::Converted(written) => written,
        };
        written.pointer_to(place).filter(|pointer| !pointer.is_empty())
    }

    /// Builds the index that references are resolved with.
    pub(crate) fn references(&self, dialect: Dialect) -> References<'_> {
        let mut references = References::empty(self, dialect);
        for source in &self.sources {
            references.index_file(source);
        }
        references.inheritance = Inheritance::of(&references, &references.named_schemas());
        if references.inheritance.is_cut {
            let place = self.root().map(|root| root.place).unwrap_or_default();
            let what = "schemas with a `discriminator` have more subtypes than can be looked through; remove it from those that extend another base";
            references.faults.push(Fault::new(place, what));
        }
        references
    }
}

impl Loading<'_> {
    fn start(&mut self, path: &Path, folder: Option<&Path>) -> Result<(), Fault> {
        let of_file = |what: String| Fault::new(Place::default(), what);
        let mut path = path.canonicalize().map_err(|error| of_file(format!("cannot be read: {error}")))?;
        if path.is_dir() {
            path = ["openapi.yaml", "openapi.yml", "openapi.json"]
                .iter()
                .map(|name| path.join(name))
                .find(|file| file.is_file())
                .ok_or_else(|| of_file("the folder holds no openapi.yaml, openapi.yml or openapi.json".to_owned()))?;
        }
        let own_folder = path.parent().unwrap_or(Path::new("/"));
        self.folder = folder
            .unwrap_or(own_folder)
            .canonicalize()
            .map_err(|error| of_file(format!("the folder of the document cannot be read: {error}")))?;
        if !path.starts_with(&self.folder) {
            return Err(of_file(format!("does not lie under {}", self.folder.display())));
        }
        self.names = Vec::new();
        // What is wrong with the first file is noted.
        let _ = self.read(path, true)?;
        let mut next = 0;
        while let Some(source) = self.documents.sources.get(next) {
            let base = file_uri(&source.path);
            for reference in file_references(&source.root) {
                self.follow(&base, &reference)?;
            }
            next += 1;
        }
        Ok(())
    }

    /// Reads the file that a reference names, unless it is here; what forbids that is noted.
    fn follow(&mut self, base: &str, reference: &str) -> Result<(), Fault> {
        let target = canonical(uri::join(base, reference).0);
        let Some(path) = target.strip_prefix("file://").filter(|_| !self.documents.absent.contains_key(&target)) else {
            return Ok(());
        };
        let path = PathBuf::from(uri::unescape(path));
        if self.known.contains(&path) {
            return Ok(());
        }
        let canonical = match path.canonicalize() {
            Ok(canonical) if !canonical.starts_with(&self.folder) => Err(format!(
                "{} lies outside {}; only files under the document's folder are read",
                path.display(),
                self.folder.display()
            )),
            Ok(canonical) if canonical.is_file() => Ok(canonical),
            Ok(_) => Err(format!("{} is no file", path.display())),
            Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        };
        // A link within the folder: the file is known under both names.
        let read = match canonical {
            Ok(_) => self.read(path, false)?,
            Err(why) => Err(why),
        };
        if let Err(why) = read {
            self.documents.absent.insert(target, why);
        }
        Ok(())
    }

    /// Reads one file. What is wrong in the first is noted; why another one cannot be used is given back. Only a bound stops the loading.
    fn read(&mut self, path: PathBuf, is_first: bool) -> Result<Result<(), String>, Fault> {
        let number = self.documents.sources.len() as u32;
        let whole = Place { file: number, ..Place::default() };
        if is_first {
            self.names.push(path.clone());
        }
        let text = match read_text(&path, self.bytes_left) {
            Ok(text) => text,
            Err(Unread::TooLarge) => {
                let most = self.limits.document_bytes;
                let what =
                    format!("the document is larger than {most} bytes, all files together; raise `limits.document`");
                return Err(Fault::new(Place::default(), what));
            }
            Err(Unread::Other(what)) if is_first => return Err(Fault::new(whole, what)),
            Err(Unread::Other(what)) => return Ok(Err(format!("{} {what}", path.display()))),
        };
        self.bytes_left = self.bytes_left.saturating_sub(text.len().max(MIN_FILE_BYTES));
        let parsed = parse(&path, &text, number, self.nodes_left);
        let (root, faults) = match parsed {
            Ok((root, faults, nodes)) => {
                self.nodes_left = self.nodes_left.saturating_sub(nodes);
                (Some(root), faults)
            }
            Err(fault) => (None, vec![fault]),
        };
        if is_first {
            self.faults.extend(faults);
        } else if let Some(fault) = faults.first() {
            let (name, place) = (path.display(), fault.place);
            return Ok(Err(format!("{name}:{}:{}: {}", place.line, place.column, fault.message)));
        } else {
            self.names.push(path.clone());
        }
        if let Some(root) = root {
            self.known.insert(path.clone());
            let one_line = OneLine::of(&root);
            self.documents.sources.push(Source { path, root, one_line });
        }
        Ok(Ok(()))
    }
}

/// Why a file is not here.
enum Unread {
    /// It would take the document beyond its bound.
    TooLarge,
    /// In words that follow its name.
    Other(String),
}

/// Reads a regular file within the bound. Never blocks on a pipe and never reads more than the bound.
fn read_text(path: &Path, max_bytes: usize) -> Result<String, Unread> {
    let cannot = |error: std::io::Error| Unread::Other(format!("cannot be read: {error}"));
    // A pipe is not waited for; what was opened is asked what it is.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(cannot)?;
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(Unread::Other("is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > max_bytes {
        return Err(Unread::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Unread::Other(format!("is not UTF-8 (line {line})"))
    })
}

/// JSON where the name says so; YAML otherwise, which includes JSON but for its surrogate pairs.
pub(super) fn parse(path: &Path, text: &str, file: u32, max_nodes: usize) -> Result<(Node, Vec<Fault>, usize), Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    if is_json {
        return json::parse(text, file, max_nodes);
    }
    if text.trim_start().starts_with('{')
        && let Ok(parsed) = json::parse(text, file, max_nodes)
    {
        return Ok(parsed);
    }
    yaml::parse(text, file, max_nodes)
}

fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'%' | b'#' | b'?' | 0x80.. => uri.push_str(&format!("%{byte:02X}")),
            byte => uri.push(char::from(*byte)),
        }
    }
    uri
}

/// The one spelling of a file's URI, whatever was escaped in a reference to it.
fn canonical(uri: String) -> String {
    match uri.strip_prefix("file://") {
        Some(path) => file_uri(Path::new(&uri::unescape(path))),
        None => uri,
    }
}

/// What looks like a reference to another file: `$ref` and mappings of discriminators, wherever they stand.
fn file_references(root: &Node) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        open.extend(node.elements());
        for (key, value) in node.members() {
            match (key.text.as_str(), value.as_str()) {
                ("$ref", Some(reference)) if !reference.starts_with('#') => found.push(reference.to_owned()),
                ("mapping", None) => found.extend(value.members().iter().filter_map(|(_, value)| {
                    value.as_str().filter(|text| text.contains(['/', '.']) && !text.starts_with('#')).map(str::to_owned)
                })),
                _ => {}
            }
            open.push(value);
        }
    }
    found
}

/// A node and the resource that it is part of.
type Reached<'d> = (&'d Node, Base);

/// Resolves references within a set of files.
pub(crate) struct References<'d> {
    documents: &'d Documents,
    dialect: Dialect,
    resources: Vec<Resource>,
    /// Number of a resource by its URI.
    by_uri: HashMap<String, u32>,
    /// Number of a resource by the address of its root node.
    by_node: HashMap<usize, u32>,
    anchors: HashMap<(u32, String), &'d Node>,
    dynamic_anchors: HashMap<(u32, String), &'d Node>,
    nodes: HashMap<usize, &'d Node>,
    /// What references led to before: looking through thousands of components for each of them would be slow.
    found: RefCell<HashMap<(u32, String), Reached<'d>>>,
    /// Members of large objects by name, by the object's address.
    members: RefCell<HashMap<usize, HashMap<&'d str, &'d Node>>>,
    inheritance: Inheritance<'d>,
    /// Resources with the same `$id`: both cannot be meant.
    pub(crate) faults: Vec<Fault>,
}

/// Keywords whose members are names that the author chose, each with a schema.
const NAMED: &[&str] = &[
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "schemas",
    "parameters",
    "responses",
    "headers",
    "requestBodies",
    "content",
    "encoding",
    "paths",
    "callbacks",
    "pathItems",
    "webhooks",
];

/// Keywords whose values are data, not schemas.
const DATA: &[&str] = &["example", "examples", "default", "enum", "const", "mapping", "required"];

impl<'d> References<'d> {
    /// Whether there are more subtypes than are looked for, so that the document is not worth compiling.
    pub(crate) fn is_cut(&self) -> bool {
        self.inheritance.is_cut
    }

    fn empty(documents: &'d Documents, dialect: Dialect) -> References<'d> {
        References {
            documents,
            dialect,
            resources: Vec::new(),
            by_uri: HashMap::new(),
            by_node: HashMap::new(),
            anchors: HashMap::new(),
            dynamic_anchors: HashMap::new(),
            nodes: HashMap::new(),
            found: RefCell::default(),
            members: RefCell::default(),
            inheritance: Inheritance::default(),
            faults: Vec::new(),
        }
    }

    /// The components of every file, and files that are schemas themselves.
    fn named_schemas(&self) -> Vec<Subtype<'d>> {
        let mut named = Vec::new();
        for (number, source) in self.documents.sources.iter().enumerate() {
            let file = self.base_of_file(u32::try_from(number).unwrap_or_default());
            let place = |name, node| Subtype { name, node, base: self.enter(node, file) };
            let components = match self.documents.assumed {
                None => source.root.get("components").and_then(|components| components.get("schemas")),
                Some(_) => source.root.get("definitions"),
            };
            let members = components.map_or(&[][..], Node::members);
            named.extend(members.iter().map(|(key, node)| place(key.text.as_str(), node)));
            named.push(place("", &source.root));
        }
        named
    }

    /// The resource that a file is.
    pub(crate) fn base_of_file(&self, file: u32) -> Base {
        let uri = self.documents.sources.get(file as usize).map(|source| file_uri(&source.path));
        Base(uri.and_then(|uri| self.by_uri.get(&uri).copied()).unwrap_or_default())
    }

    /// Notes the resources and anchors of a file. OpenAPI 3.0 has neither within a file.
    fn index_file(&mut self, source: &'d Source) {
        let file = self.add_resource(file_uri(&source.path), &source.root);
        if self.dialect == Dialect::OpenApi30 {
            return;
        }
        // (node, its resource, whether its members are names)
        let mut open = vec![(&source.root, file, false)];
        while let Some((node, mut resource, is_named)) = open.pop() {
            if !is_named {
                resource = self.index_node(node, resource);
            }
            open.extend(node.elements().iter().map(|element| (element, resource, false)));
            for (key, value) in node.members() {
                let name = key.text.as_str();
                if is_named || !(DATA.contains(&name) || name.starts_with("x-")) {
                    open.push((value, resource, !is_named && NAMED.contains(&name)));
                }
            }
        }
    }

    fn index_node(&mut self, node: &'d Node, mut resource: u32) -> u32 {
        let text = |name: &str| node.get(name).and_then(Node::as_str);
        if let Some(id) = text("$id")
            && let Some(base) = self.resources.get(resource as usize)
        {
            let (uri, _) = uri::join(&base.uri, id);
            resource = match self.by_uri.get(&uri) {
                Some(&same) if self.resources.get(same as usize).is_some_and(|r| r.root == address(node)) => same,
                Some(_) => {
                    self.faults.push(Fault::new(node.place, format!("the $id `{uri}` is here twice")));
                    resource
                }
                None => self.add_resource(uri, node),
            };
        }
        if let Some(name) = text("$anchor") {
            self.anchors.insert((resource, name.to_owned()), node);
        }
        if let Some(name) = text("$dynamicAnchor") {
            self.anchors.insert((resource, name.to_owned()), node);
            self.dynamic_anchors.insert((resource, name.to_owned()), node);
        }
        resource
    }

    fn add_resource(&mut self, uri: String, root: &'d Node) -> u32 {
        let number = self.resources.len() as u32;
        self.resources.push(Resource { uri: uri.clone(), root: address(root) });
        self.by_uri.insert(uri, number);
        self.by_node.insert(address(root), number);
        self.nodes.insert(address(root), root);
        number
    }

    /// What a reference that stands in resource `base` leads to, and the resource that this is part of.
    pub(crate) fn find(&self, reference: &str, base: Base) -> Result<(&'d Node, Base), String> {
        let from = self.resources.get(base.0 as usize).map_or("", |resource| resource.uri.as_str());
        let (uri, fragment) = uri::join(from, reference);
        let uri = canonical(uri);
        let number = match self.by_uri.get(&uri) {
            Some(number) => *number,
            None => return Err(self.why_absent(reference, &uri)),
        };
        let resource = self.resources.get(number as usize);
        let root = resource.and_then(|resource| self.nodes.get(&resource.root).copied());
        let Some(root) = root else { return Err(format!("`{reference}` leads nowhere")) };
        if fragment.is_empty() {
            return Ok((root, Base(number)));
        }
        if !fragment.starts_with('/') {
            let anchor = self.anchors.get(&(number, fragment));
            return anchor.map(|node| (*node, Base(number))).ok_or_else(|| format!("`{reference}` names no anchor"));
        }
        let key = (number, fragment);
        if let Some(found) = self.found.borrow().get(&key) {
            return Ok(*found);
        }
        let found = self.walk(root, &key.1, number).ok_or_else(|| format!("`{reference}` leads nowhere"))?;
        self.found.borrow_mut().insert(key, found);
        Ok(found)
    }

    /// Follows a pointer; a part with an `$id` on the way is the resource from there on.
    fn walk(&self, root: &'d Node, pointer: &str, mut resource: u32) -> Option<(&'d Node, Base)> {
        let mut node = root;
        for token in pointer.split('/').skip(1) {
            node = self.step(node, token)?;
            resource = self.by_node.get(&address(node)).copied().unwrap_or(resource);
        }
        Some((node, Base(resource)))
    }

    /// One token of a pointer further. References to thousands of components would each look through half of them.
    fn step(&self, node: &'d Node, token: &str) -> Option<&'d Node> {
        let members = node.members();
        if members.len() <= MAX_SEARCHED {
            return node.pointer(&format!("/{token}"));
        }
        let mut indexes = self.members.borrow_mut();
        let index = indexes
            .entry(address(node))
            .or_insert_with(|| members.iter().map(|(key, value)| (key.text.as_str(), value)).collect());
        index.get(token.replace("~1", "/").replace("~0", "~").as_str()).copied()
    }

    fn why_absent(&self, reference: &str, uri: &str) -> String {
        if let Some(why) = self.documents.absent.get(uri) {
            return format!("`{reference}`: {why}");
        }
        match uri.starts_with("file://") {
            true => format!("`{reference}` leads nowhere"),
            false => format!("`{reference}` is not part of the document, and nothing is fetched; put a copy beside it"),
        }
    }
}

impl<'d> Resolver<'d> for References<'d> {
    fn resolve(&self, reference: &str, base: Base) -> Result<Target<'d>, String> {
        let (node, base) = self.find(reference, base)?;
        Ok(Target { node, base, dialect: self.dialect })
    }

    fn enter(&self, node: &'d Node, base: Base) -> Base {
        self.by_node.get(&address(node)).map_or(base, |number| Base(*number))
    }

    fn dynamic_anchor(&self, name: &str, base: Base) -> Option<Target<'d>> {
        let node = *self.dynamic_anchors.get(&(base.0, name.to_owned()))?;
        Some(Target { node, base, dialect: self.dialect })
    }

    fn subtypes(&self, node: &'d Node) -> Vec<(&'d str, Target<'d>)> {
        let target = |subtype: &Subtype<'d>| Target { node: subtype.node, base: subtype.base, dialect: self.dialect };
        self.inheritance.subtypes(node).iter().map(|subtype| (subtype.name, target(subtype))).collect()
    }

    fn is_link_to_base(&self, node: &'d Node) -> bool {
        self.inheritance.is_link(node)
    }
}

/// Nodes do not move while a set of documents lives.
pub(super) fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}
