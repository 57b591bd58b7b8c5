//! Kubernetes manifests: documents of YAML, and what Ingress and Service objects in them say.

use std::collections::BTreeMap;
use std::rc::Rc;

use config::problem::Collector;
use config::yaml::{self, Node};

use crate::migration::{Place, Problem};

/// Most documents of all files.
const MAX_DOCUMENTS: usize = 2_000;
/// Most paths of all of them.
pub(super) const MAX_PATHS: usize = 10_000;

/// A port of a service: its number, or its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Port {
    Number(u16),
    Name(String),
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) service: String,
    pub(super) port: Port,
}

/// How a path is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Exact,
    Prefix,
    Implementation,
}

/// A path of a rule.
#[derive(Debug, Clone)]
pub(super) struct Path {
    /// None for any host.
    pub(super) host: Option<String>,
    pub(super) path: String,
    pub(super) kind: Kind,
    /// None if it is none that is known here.
    pub(super) backend: Option<Backend>,
    pub(super) place: Place,
}

/// An annotation.
#[derive(Debug, Clone)]
pub(super) struct Annotation {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) place: Place,
}

/// An Ingress.
#[derive(Debug, Clone)]
pub(super) struct Ingress {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) annotations: Vec<Annotation>,
    pub(super) paths: Vec<Path>,
    pub(super) default: Option<Backend>,
    /// Hosts with the name of their secret.
    pub(super) tls: Vec<(Vec<String>, String, Place)>,
    pub(super) place: Place,
}

/// What the files say.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    pub(super) ingresses: Vec<Ingress>,
    /// Numbers of named ports, by namespace, service and name.
    pub(super) ports: BTreeMap<(String, String, String), u16>,
    /// Objects that are not looked at.
    pub(super) others: Vec<(String, Place)>,
    documents: usize,
    paths: usize,
}

impl Manifests {
    /// Reads the documents of a file.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(super) fn read(&mut self, name: &str, text: &str) -> Result<(), Problem> {
        let file: Rc<str> = name.into();
        let mut start = 0;
        let mut document = String::new();
        for (number, line) in text.lines().enumerate() {
            let is_mark = line == "---" || line.starts_with("--- ") || line == "...";
            if is_mark {
                self.document(&file, start, &document)?;
                document.clear();
                start = number + 1;
                continue;
            }
            document.push_str(line);
            document.push('\n');
        }
        self.document(&file, start, &document)
    }

    fn document(&mut self, file: &Rc<str>, start: usize, text: &str) -> Result<(), Problem> {
        let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with(['#', '%']);
        if text.lines().all(is_blank) {
            return Ok(());
        }
        let place = |line: usize| Place { file: Rc::clone(file), line: start + line.max(1) };
        self.documents += 1;
        if self.documents > MAX_DOCUMENTS {
            return Err(Problem::new(&place(1), format!("more than {MAX_DOCUMENTS} documents")));
        }
        // Nothing of the environment is put in.
        let text = text.replace("${", "$${");
        let mut problems = Collector::default();
        let root = yaml::parse(&text, &mut problems);
        if let Some(found) = problems.finish("", &text) {
            let first = found.list().first().map(ToString::to_string).unwrap_or_default();
            let mut parts = first.splitn(4, ':').skip(1);
            let line = parts.next().and_then(|line| line.parse().ok()).unwrap_or(1);
            let why = parts.nth(1).unwrap_or("it is no YAML").trim().replace('\n', " ");
            return Err(Problem::new(&place(line), why));
        }
        match root {
            Some(root) => self.object(&root, &place, 0),
            None => Ok(()),
        }
    }

    fn object(&mut self, root: &Node, place: &dyn Fn(usize) -> Place, depth: usize) -> Result<(), Problem> {
        let kind = text(root, "kind").unwrap_or_default();
        let here = place(root.span.line);
        match kind {
            "List" if depth == 0 => {
                for item in root.get("items").map(Node::items).unwrap_or_default() {
                    self.object(item, place, depth + 1)?;
                }
            }
            "Ingress" => {
                let ingress = self.ingress(root, place)?;
                self.ingresses.push(ingress);
            }
            "Service" => self.service(root),
            "" => return Err(Problem::new(&here, "it is no object of Kubernetes: it has no `kind`")),
            other => self.others.push((other.to_owned(), here)),
        }
        Ok(())
    }

    fn service(&mut self, root: &Node) {
        let Some((namespace, name)) = named(root) else { return };
        for port in root.get("spec").and_then(|spec| spec.get("ports")).map(Node::items).unwrap_or_default() {
            if let (Some(own), Some(number)) =
                (text(port, "name"), text(port, "port").and_then(|port| port.parse().ok()))
            {
                self.ports.insert((namespace.clone(), name.clone(), own.to_owned()), number);
            }
        }
    }

    fn ingress(&mut self, root: &Node, place: &dyn Fn(usize) -> Place) -> Result<Ingress, Problem> {
        let here = place(root.span.line);
        let version = text(root, "apiVersion").unwrap_or_default();
        if version != "networking.k8s.io/v1" {
            return Err(Problem::new(
                &here,
                format!("an Ingress of `{}`; it must be `networking.k8s.io/v1`", crate::migration::shown(version)),
            ));
        }
        let (namespace, name) = named(root).ok_or_else(|| Problem::new(&here, "an Ingress without a name"))?;
        let annotations = root
            .get("metadata")
            .and_then(|metadata| metadata.get("annotations"))
            .map(Node::entries)
            .unwrap_or_default();
        let annotations = annotations.iter().map(|entry| Annotation {
            name: entry.key.clone(),
            value: entry.value.text().unwrap_or_default().to_owned(),
            place: place(entry.key_span.line),
        });
        let mut out = Ingress {
            name,
            namespace,
            annotations: annotations.collect(),
            paths: Vec::new(),
            default: None,
            tls: Vec::new(),
            place: here,
        };
        let Some(spec) = root.get("spec") else { return Ok(out) };
        out.default = spec.get("defaultBackend").and_then(backend);
        for tls in spec.get("tls").map(Node::items).unwrap_or_default() {
            let hosts = tls.get("hosts").map(Node::items).unwrap_or_default();
            let hosts = hosts.iter().filter_map(|host| host.text().map(str::to_ascii_lowercase)).collect();
            let secret = text(tls, "secretName").unwrap_or_default().to_owned();
            out.tls.push((hosts, secret, place(tls.span.line)));
        }
        for rule in spec.get("rules").map(Node::items).unwrap_or_default() {
            let host = text(rule, "host").filter(|host| !host.is_empty()).map(str::to_ascii_lowercase);
            for path in rule.get("http").and_then(|http| http.get("paths")).map(Node::items).unwrap_or_default() {
                self.paths += 1;
                if self.paths > MAX_PATHS {
                    return Err(Problem::new(&place(path.span.line), format!("more than {MAX_PATHS} paths")));
                }
                out.paths.push(Path {
                    host: host.clone(),
                    path: text(path, "path").filter(|path| !path.is_empty()).unwrap_or("/").to_owned(),
                    kind: match text(path, "pathType") {
                        Some("Exact") => Kind::Exact,
                        Some("Prefix") => Kind::Prefix,
                        _ => Kind::Implementation,
                    },
                    backend: path.get("backend").and_then(backend),
                    place: place(path.span.line),
                });
            }
        }
        Ok(out)
    }
}

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::text)
}

/// Namespace and name of an object.
fn named(root: &Node) -> Option<(String, String)> {
    let metadata = root.get("metadata")?;
    let namespace = text(metadata, "namespace").filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    Some((namespace.to_owned(), text(metadata, "name")?.to_owned()))
}

fn backend(node: &Node) -> Option<Backend> {
    let service = node.get("service")?;
    let port = service.get("port")?;
    let port = match (text(port, "number").map(str::parse), text(port, "name")) {
        (Some(Ok(number)), _) => Port::Number(number),
        (None, Some(name)) => Port::Name(name.to_owned()),
        _ => return None,
    };
    Some(Backend { service: text(service, "name")?.to_owned(), port })
}
