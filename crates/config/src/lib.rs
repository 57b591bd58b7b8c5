//! Configuration: one YAML file to one immutable [`Config`], every problem reported at once with file, line, what and fix.
//!
//! The way: text → `yaml.rs` (a tree that knows its positions) → `shape.rs` (is it the right shape?) → `shape/complete.rs` (what it leaves out) → `build.rs`
//! (does it make sense?) → `model.rs`. The rows of the table (`table.rs`, `shape/surface/`, `limits.rs`) say what a file may hold. The reference for users is `docs/configuration.md`, generated from the shape. Nothing here starts, opens or resolves anything; only
//! [`load`] touches the disk, to read the file, to see whether what it names exists, and what names mean on this machine.
//!
//! ```
//! let text = "listeners: [{ name: http, bind: ':8080' }]\nroutes: [{ upstream: app }]\n";
//! let problems = config::parse("portunus.yaml", text, std::path::Path::new("/etc/portunus")).unwrap_err();
//! assert!(problems.to_string().starts_with("portunus.yaml:2:22: there is no upstream `app`"));
//! ```
#![forbid(unsafe_code)]

mod changes;
mod reload;
mod build;
mod key_server;
mod fleet;
mod fileless;
mod model;
mod networks;
mod shape;
mod sources;
mod jwt;
mod expression;
pub mod limits;
mod table;
mod machine;
pub mod file_pattern;
pub mod yaml;
mod environment;
mod units;
pub mod problem;

use std::fs;
use std::io::Read as _;
use std::path::Path;

pub use build::{body_of_file, is_subject_field, variable_warnings};
pub use changes::{Change, ChangeKind, Changes, Comparable, changes};
pub use environment::FromEnvironment;
pub use expression::{Comparison, Expression, MAX_EXCEPTIONS, MAX_EXPRESSION_BYTES, MAX_GROUPS, Relation, TooMuchWork};
pub use fleet::{EtcdEndpoint, FleetConfig};
pub use jwt::{Algorithm, KeyKind};
pub use key_server::*;
pub use model::*;
pub use networks::{canonical_network, is_in_network};
pub use problem::{Problem, Problems};
pub use reload::{Reloaded, waits_for_restart};
pub use shape::effective::{Effective, is_field_with_credential};
pub use shape::hiding::REDACTED;
pub use shape::reference::{fleet_reference, key_server_reference, reference};
pub use shape::schema::{json_schema, key_server_json_schema};
pub use shape::surface::{
    AcmeOptions, DnsOptions, HalfClose, HealthMethod, Http3, ListenerLimits, ListenerOptions, LogFormat, MethodForm,
    OnDemandOptions, QueueConfig, RedirectQuery, RouteOptions, SameSite, UnusualName, WhenAllDown,
};
pub use sources::Included;

use machine::Machine;
use problem::Collector;
use sources::Sources;

/// Reads, checks and builds the configuration of a file; also looks whether the files and folders it names exist.
///
/// Relative paths in it start at the file's own folder.
///
/// # Errors
/// Every problem found, at most 100 of them in full.
pub fn load(path: &Path) -> Result<Config, Problems> {
    check_file(path).map_err(|invalid| invalid.problems)
}

/// Does what [`load`] does, and keeps what could be read beside what is wrong, for whoever looks for more problems.
///
/// # Errors
/// As [`load`].
pub fn check_file(path: &Path) -> Result<Config, InvalidFile<Config>> {
    let name = path.display().to_string();
    let text = read_text(path, &name)?;
    build_text(&name, &text, path.parent().unwrap_or(Path::new("")), true, &GATE)
}

/// Does what [`load`] does, and keeps what the file says, for comparing it with another one.
///
/// # Errors
/// As [`load`].
pub fn load_comparable(path: &Path) -> Result<(Config, Comparable), Problems> {
    let name = path.display().to_string();
    let text = read_text(path, &name)?;
    comparable(&name, &text, path.parent().unwrap_or(Path::new("")), true)
}

/// As [`load_comparable`], of a text such as a running process says it, without touching the disk.
///
/// # Errors
/// As [`parse`].
pub fn parse_comparable(file_name: &str, text: &str, base_dir: &Path) -> Result<(Config, Comparable), Problems> {
    comparable(file_name, text, base_dir, false)
}

/// As [`parse_comparable`], of what a running process says of itself. What it hides is not known; its variables of the environment stand for what they
/// hold here.
///
/// # Errors
/// As [`parse`].
pub fn parse_running(effective: &str, base_dir: &Path) -> Result<(Config, Comparable), Problems> {
    let (config, read) = comparable("the running configuration", &Comparable::readable(effective), base_dir, false)?;
    Ok((config, read.of_another_process()))
}

fn comparable(name: &str, text: &str, base: &Path, look: bool) -> Result<(Config, Comparable), Problems> {
    let (config, root) = build_tree(name, text, base, look, &GATE).map_err(|invalid| invalid.problems)?;
    let comparable = Comparable::of(GATE.shape, &root, &config);
    Ok((config, comparable))
}

/// A file with problems.
#[derive(Debug)]
pub struct InvalidFile<T> {
    /// All that was found.
    pub problems: Problems,
    /// What it says without the parts that they concern; none if it cannot be understood at all.
    pub rest: Option<Box<T>>,
}

impl<T> From<Problems> for InvalidFile<T> {
    fn from(problems: Problems) -> InvalidFile<T> {
        InvalidFile { problems, rest: None }
    }
}

/// Reads an address or a network.
///
/// # Errors
/// What is wrong with it and how to write it, as one sentence.
pub fn network(text: &str) -> Result<ipnet::IpNet, String> {
    build::network(text)
}

/// Builds the configuration of a text, without touching the disk. `file_name` is for messages; relative paths start at `base_dir`.
///
/// # Errors
/// Every problem found, at most 100 of them in full.
pub fn parse(file_name: &str, text: &str, base_dir: &Path) -> Result<Config, Problems> {
    build_text(file_name, text, base_dir, false, &GATE).map_err(|invalid| invalid.problems)
}

/// Reads, checks and builds the configuration of a key server, as [`load`] does.
///
/// # Errors
/// As [`load`].
pub fn load_key_server(path: &Path) -> Result<KeyServerConfig, Problems> {
    let name = path.display().to_string();
    let text = read_text(path, &name)?;
    build_text(&name, &text, path.parent().unwrap_or(Path::new("")), true, &KEY_SERVER)
        .map_err(|invalid| invalid.problems)
}

/// Builds the configuration of a key server from a text, as [`parse`] does.
///
/// # Errors
/// As [`parse`].
pub fn parse_key_server(file_name: &str, text: &str, base_dir: &Path) -> Result<KeyServerConfig, Problems> {
    build_text(file_name, text, base_dir, false, &KEY_SERVER).map_err(|invalid| invalid.problems)
}

/// Reads, checks and builds the file of a node of a fleet, as [`load`] does.
///
/// # Errors
/// As [`load`].
pub fn load_fleet(path: &Path) -> Result<FleetConfig, Problems> {
    let name = path.display().to_string();
    let text = read_text(path, &name)?;
    build_text(&name, &text, path.parent().unwrap_or(Path::new("")), true, &FLEET).map_err(|invalid| invalid.problems)
}

/// Builds the file of a node of a fleet from a text, as [`parse`] does.
///
/// # Errors
/// As [`parse`].
pub fn parse_fleet(file_name: &str, text: &str, base_dir: &Path) -> Result<FleetConfig, Problems> {
    build_text(file_name, text, base_dir, false, &FLEET).map_err(|invalid| invalid.problems)
}

/// Whether a file is that of a node of a fleet: it has the key `fleet`. False if it cannot be read.
pub fn is_fleet_file(path: &Path) -> bool {
    let Ok(text) = read_text(path, "") else { return false };
    // Most files do not have the word, and need not be parsed twice.
    text.contains("fleet")
        && yaml::parse(&text, &mut Collector::default()).is_some_and(|root| root.get("fleet").is_some())
}

/// A kind of file: its shape, and what is built from it.
struct Form<T> {
    shape: &'static table::Object,
    build: Builder<T>,
}

/// From the tree and the files that it stands in: what it means, and the files it names.
type Builder<T> = fn(&yaml::Node, &Sources, &Machine, &mut Collector) -> (Option<T>, Vec<build::Referenced>);

const GATE: Form<Config> = Form { shape: &shape::surface::ROOT, build: build::build };
const KEY_SERVER: Form<KeyServerConfig> =
    Form { shape: &shape::surface::key_server::KEY_SERVER, build: build::build_key_server };

const FLEET: Form<FleetConfig> = Form { shape: &shape::surface::fleet::FLEET_FILE, build: build::build_fleet };

fn build_text<T>(file_name: &str, text: &str, base: &Path, look: bool, form: &Form<T>) -> Result<T, InvalidFile<T>> {
    build_tree(file_name, text, base, look, form).map(|(built, _)| built)
}

/// What a text means, and its tree with everything that it leaves out.
fn build_tree<T>(
    file_name: &str,
    text: &str,
    base: &Path,
    look: bool,
    form: &Form<T>,
) -> Result<(T, yaml::Node), InvalidFile<T>> {
    if text.len() > yaml::MAX_FILE_BYTES {
        return Err(too_large(file_name).into());
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Collector::default();
    let mut value = None;
    let mut sources = Sources::of_text(file_name, base, text);
    if let Some(mut root) = yaml::parse(text, &mut problems) {
        if look {
            sources.include(form.shape, &mut root, &mut problems);
        }
        shape::check_file(form.shape, &root, &mut problems);
        root.remove("include");
        shape::complete::complete(form.shape, &mut root, &mut problems);
        let machine = if look { Machine::here() } else { Machine::default() };
        let (built, referenced) = (form.build)(&root, &sources, &machine, &mut problems);
        if look {
            look_at(&referenced, &mut problems);
        }
        value = built.map(|built| (built, root));
    }
    let files: Vec<(&str, &str)> = sources.files.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    match (problems.finish_all(&files), value) {
        (None, Some(value)) => Ok(value),
        (Some(problems), rest) => Err(InvalidFile { problems, rest: rest.map(|(rest, _)| Box::new(rest)) }),
        // Every step that gives up notes why; should one not, the file is rejected all the same.
        (None, None) => Err(InvalidFile::from(Problems::of_file(
            file_name,
            "the file could not be understood".to_owned(),
            "please report this as a bug",
        ))),
    }
}

/// Reads a file of bounded size, so that a runaway generator (or a device) does not fill the memory.
fn read_text(path: &Path, name: &str) -> Result<String, Problems> {
    let unreadable = |error: std::io::Error| {
        let fix = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path; `examples/` holds configurations to start from",
            std::io::ErrorKind::PermissionDenied => "let the user that Portunus runs as read it",
            _ => "check that it is a readable file that lies on a disk, not a pipe or a device",
        };
        Problems::of_file(name, format!("cannot read the file: {error}"), fix)
    };
    let file = keystore::files::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(yaml::MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > yaml::MAX_FILE_BYTES {
        return Err(too_large(name));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
        Problems::of_file(name, format!("not UTF-8 text, first in line {line}"), "save it as UTF-8")
    })
}

fn too_large(name: &str) -> Problems {
    let what = format!("the file is larger than {}", units::size_text(yaml::MAX_FILE_BYTES as u64));
    Problems::of_file(name, what, "make it smaller; check what generated it")
}

/// Notes what is named and is not there, or is something else.
fn look_at(referenced: &[build::Referenced], problems: &mut Collector) {
    for wanted in referenced {
        let path = if wanted.path.as_os_str().is_empty() { Path::new(".") } else { &wanted.path };
        let kind = if wanted.is_folder { "folder" } else { "file" };
        let shown = problem::shown(&path.display().to_string());
        match fs::metadata(path) {
            Err(error) => {
                let fix = "check the path; relative ones start at the folder of this file";
                problems.add(wanted.span, format!("cannot use the {kind} {shown}: {error}"), fix);
            }
            Ok(found) if found.is_dir() != wanted.is_folder => {
                let (is, fix) = if wanted.is_folder {
                    ("a file", "name the folder it is in")
                } else {
                    ("a folder", "name a file in it")
                };
                problems.add(wanted.span, format!("{shown} is {is}, not a {kind}"), fix);
            }
            Ok(found) if !wanted.is_folder && !found.is_file() => {
                let fix = "name a file that lies on a disk, not a pipe or a device";
                problems.add(wanted.span, format!("{shown} is not a regular file"), fix);
            }
            Ok(_) => {}
        }
    }
}
