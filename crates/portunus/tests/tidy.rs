//! The house rules that no compiler checks (CONTRIBUTING.md): sizes, names, file heads, where `unsafe` may stand, links, limits.
//!
//! Reads the repository's own files and reports every breach at once. Checks text line by line; that is enough because rustfmt has laid the
//! text out. Does not check what clippy or rustfmt already do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAX_FILE_LINES: usize = 800;
const MAX_FUNCTION_LINES: usize = 70;

/// Files that are longer, with their present length. May only shrink: lower the number, or remove the line.
const LONG_FILES: &[(&str, usize)] = &[];

/// Functions that are longer, with their present length. May only shrink: lower the number, or remove the line.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// Tests that sleep, how often, and why that is no bet on the speed of the machine. May only shrink: a new test waits for an event
/// (`harness::wait_until`), and a stimulus that is time itself is a setting.
const SLEEPS: &[(&str, usize, &str)] = &[
    ("crates/fleet/tests/scale.rs", 4, "measures on request; it is ignored"),
    ("crates/keyserver/src/conn/tests.rs", 2, "polls"),
    ("crates/portunus/tests/acme/faults.rs", 1, "nothing happens for a while"),
    ("crates/portunus/tests/acme/on_demand.rs", 1, "at least as long as a rejection is kept"),
    ("crates/portunus/tests/attacks/slow.rs", 1, "a client that takes its time"),
    ("crates/portunus/tests/edge/names.rs", 1, "paces what is sent until an event"),
    ("crates/portunus/tests/fleet/rolling.rs", 1, "a server that takes its time"),
    ("crates/portunus/tests/gate/discovery.rs", 2, "counts over the time that it took; a server that takes its time"),
    ("crates/portunus/tests/gate/retries.rs", 2, "a server and a client that take longer than the setting of the test"),
    ("crates/portunus/tests/gate/shared_rates.rs", 2, "counts over the time that it took"),
    ("crates/portunus/tests/harness/mod.rs", 3, "polls; a server that is silent"),
    ("crates/portunus/tests/http/connections.rs", 1, "a client that gives up, at the earliest then"),
    ("crates/portunus/tests/http/streams.rs", 4, "clients and servers that take their time"),
    ("crates/portunus/tests/key_server/enrolment.rs", 2, "at least until a token or certificate has ended"),
    ("crates/portunus/tests/keyless/key_server.rs", 1, "polls"),
    ("crates/portunus/tests/offload/onward_tls.rs", 1, "nothing happens for a while"),
    ("crates/portunus/tests/offload/proxy_out.rs", 1, "nothing happens for a while"),
    ("crates/portunus/tests/passport/tcp.rs", 5, "clients in network namespaces: polls and pauses"),
    ("crates/portunus/tests/passport/udp.rs", 5, "clients in network namespaces: polls and pauses"),
    ("crates/portunus/tests/report/admin.rs", 1, "polls"),
    ("crates/portunus/tests/report/log.rs", 2, "polls"),
    ("crates/portunus/tests/report/metrics.rs", 1, "at least until a table is shown again"),
    ("crates/proxy/src/server/tests.rs", 2, "polls"),
    ("crates/quic/src/tests.rs", 2, "at least as long as a timer"),
    ("tests/etcd.rs", 1, "polls"),
];

/// Crates whose purpose needs `unsafe`.
const UNSAFE_CRATES: &[&str] = &["crates/net/", "crates/tls/"];

/// The one file of another crate that may use it: vector instructions, each with a scalar twin. Its crate denies it everywhere else.
const UNSAFE_FILE: &str = "crates/contract/src/json/simd.rs";
const UNSAFE_FILE_ROOT: &str = "crates/contract/src/lib.rs";

/// Words that say nothing about what a module or type is.
const EMPTY_WORDS: &[&str] = &["manager", "handler", "util", "utils", "common", "helper", "helpers", "misc"];

/// Fields that each diagnostic line has anyway: a second one of the name would hide the first from readers of JSON.
const TAKEN_LOG_FIELDS: &[&str] = &["time", "level", "message", "target"];

/// Folders that are made, not written.
const MADE: &[&str] = &["target", ".git", "demo", "results", "corpus", "artifacts", "coverage", "__pycache__"];

/// Extensions and names of files that hold text of ours.
const TEXT: &[&str] = &["rs", "md", "toml", "yaml", "yml", "service", "sysusers", "sh", "py", "x", "run", "Dockerfile"];

/// Words that the field does not use, and what it says instead. Users must not meet them, in documents or in what the program prints.
const RETIRED: &[(&str, &str)] = &[
    ("in force", "active"),
    ("refusal", "rejection"),
    ("refusals", "rejections"),
    ("judge", "validate or check"),
    ("judged", "validated or checked"),
    ("judging", "validating or checking"),
    ("verdict", "decision or result"),
    ("verdicts", "decisions or results"),
    ("told", "reported, logged or sent"),
    ("mistake", "problem"),
    ("mistakes", "problems"),
    ("heir", "subtype"),
    ("heirs", "subtypes"),
    ("keyholder", "key server"),
    ("keyholders", "key servers"),
    ("gives way", "is shed or yields"),
    ("gave way", "was shed or yielded"),
    ("circle", "loop or cycle"),
    ("circles", "loops or cycles"),
];

/// One breach of a rule: where, what, and the fix.
type Problems = Vec<String>;

struct File {
    /// Relative to the repository, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Test fixtures may break layout rules: that is what some of them are for.
    fn is_fixture(&self) -> bool {
        !self.is_rust() && self.path.contains("/tests/")
    }
}

/// `./x fuzz` builds with a lock of its own. It must hold what the crates need, at the versions that everything else is built with.
/// A build that uses it is told of a new one by its name.
#[test]
fn the_profile_of_release_builds_is_named_by_its_content() {
    let folder = repository().join("packaging/profile");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let profiles: Vec<String> = names.filter(|name| name.ends_with(".profdata")).collect();
    let [name] = &profiles[..] else { panic!("there must be one: {profiles:?}") };
    let sum = Command::new("sha256sum").arg(folder.join(name)).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert_eq!(name.strip_suffix(".profdata"), sum.get(..12));
    let compiler = fs::read_to_string(folder.join("rustc")).unwrap();
    assert!(compiler.starts_with("rustc 1.") && compiler.lines().count() == 1, "{compiler}");
}

#[test]
fn the_fuzz_targets_are_locked_like_the_program() {
    let root = repository();
    let read = |path: String| fs::read_to_string(root.join(path)).unwrap();
    let packages = |text: &str| -> BTreeMap<(String, String), String> {
        let value = |package: &str, key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
            line.unwrap_or_default().trim_matches('"').to_owned()
        };
        let listed = text.split("[[package]]").skip(1);
        listed.map(|package| ((value(package, "name"), value(package, "version")), package.to_owned())).collect()
    };
    let (ours, fuzzed) = (packages(&read("Cargo.lock".into())), packages(&read("fuzz/Cargo.lock".into())));
    let only_there = ["portunus-fuzz", "libfuzzer-sys", "arbitrary"];
    for (name, version) in fuzzed.keys() {
        let known = only_there.contains(&name.as_str()) || ours.contains_key(&(name.clone(), version.clone()));
        assert!(
            known,
            "fuzz/Cargo.lock has {name} {version}; Cargo.lock has not: copy it there and run `cargo metadata` in fuzz/"
        );
    }
    for ((name, _), package) in fuzzed.iter().filter(|(_, package)| !package.contains("\nsource = ")) {
        let Ok(manifest) = fs::read_to_string(root.join(format!("crates/{name}/Cargo.toml"))) else { continue };
        let wanted = manifest.split("\n[").find_map(|part| part.strip_prefix("dependencies]")).unwrap_or_default();
        for line in wanted.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
            let wanted = line.split([' ', '.', '=']).next().unwrap_or_default();
            let held = package.contains(&format!("\n \"{wanted}\"")) || package.contains(&format!("\n \"{wanted} "));
            assert!(held, "fuzz/Cargo.lock does not know that {name} needs {wanted}: run `cargo metadata` in fuzz/");
        }
    }
}

#[test]
fn the_repository_is_tidy() {
    let root = repository();
    let files = text_files(&root);
    assert!(files.iter().any(|file| file.path == "crates/portunus/src/lib.rs"), "the walk does not find the sources");
    let mut problems = Problems::new();
    for file in &files {
        check_layout(file, &mut problems);
        check_words(file, &mut problems);
        check_registry_hosts(file, &mut problems);
        if file.is_rust() {
            check_rust(file, &mut problems);
            check_limits(file, &mut problems);
        }
        check_vocabulary(file, &mut problems);
        // A page that is put together by the program has its links where it ends up.
        if file.path.ends_with(".md") && !file.path.contains("/src/") {
            check_links(&root, file, &mut problems);
        }
    }
    check_lengths(&files, LONG_FILES, LONG_FUNCTIONS, &mut problems);
    check_sleeps(&files, SLEEPS, &mut problems);
    assert!(problems.is_empty(), "{} breaches of the house rules:\n{}", problems.len(), problems.join("\n"));
}

// --- rules ---

fn check_layout(file: &File, problems: &mut Problems) {
    if file.is_fixture() {
        return;
    }
    for (number, line) in numbered(&file.text) {
        if line.contains('\t') {
            problems.push(format!("{}:{number}: a tab; indent with spaces, write \\t in strings", file.path));
        }
        if line.ends_with([' ', '\t', '\r']) {
            problems.push(format!("{}:{number}: space at the end of the line", file.path));
        }
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        problems.push(format!("{}: must end in exactly one newline", file.path));
    }
}

/// An open end says what it waits for: `TODO(issue 12): reason`.
fn check_words(file: &File, problems: &mut Problems) {
    let open_ends = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat(), ["HA", "CK"].concat()];
    for (number, line) in numbered(&file.text) {
        for word in &open_ends {
            let Some(at) = find_word(line, word) else { continue };
            if !line[at + word.len()..].starts_with("(issue ") {
                problems.push(format!("{}:{number}: {word} without a reason; write {word}(issue N): why", file.path));
            }
        }
    }
}

/// What users read is in the field's words: documents, examples, and in the program's sources the strings of several words.
fn check_vocabulary(file: &File, problems: &mut Problems) {
    let is_read_by_users = ["docs/", "examples/", "packaging/"].iter().any(|folder| file.path.starts_with(folder))
        || ["README.md", "SECURITY.md"].contains(&file.path.as_str());
    let is_program = file.path.starts_with("crates/") && file.path.contains("/src/") && !file.path.contains("tests");
    let is_checked = is_read_by_users || (is_program && file.is_rust());
    if !is_checked {
        return;
    }
    let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    for (number, line) in numbered(if is_program { code } else { &file.text }) {
        let texts: Vec<&str> = match is_program {
            _ if line.trim_start().starts_with("//") => continue,
            true => line.split('"').skip(1).step_by(2).filter(|text| text.trim().contains(' ')).collect(),
            false => vec![line],
        };
        for (word, instead) in RETIRED {
            if texts.iter().any(|text| find_word(&text.to_lowercase(), word).is_some()) {
                problems.push(format!("{}:{number}: `{word}`; write {instead}", file.path));
            }
        }
    }
}

/// Where packages come from is set up on each machine; no file of ours names it. Built in pieces, or this file would.
fn check_registry_hosts(file: &File, problems: &mut Problems) {
    let hosts = [
        ["static.crates", ".io"].concat(),
        ["index.crates", ".io"].concat(),
        ["registry.npmjs", ".org"].concat(),
        ["pypi", ".org"].concat(),
        ["files.pythonhosted", ".org"].concat(),
        ["proxy.golang", ".org"].concat(),
        ["sum.golang", ".org"].concat(),
        ["repo1.maven", ".org"].concat(),
        ["repo.maven.apache", ".org"].concat(),
        ["deb.debian", ".org"].concat(),
        ["security.debian", ".org"].concat(),
    ];
    for (number, line) in numbered(&file.text) {
        for host in hosts.iter().filter(|host| line.contains(host.as_str())) {
            problems.push(format!("{}:{number}: names the package registry {host}; name the package only", file.path));
        }
    }
}

fn check_rust(file: &File, problems: &mut Problems) {
    if !file.text.starts_with("//!") {
        problems.push(format!(
            "{}: begin with `//!`: what it owns, what it does not do, which document rules it",
            file.path
        ));
    }
    let stem = Path::new(&file.path).file_stem().unwrap().to_str().unwrap();
    if let Some(word) = empty_word(stem) {
        problems.push(format!("{}: `{word}` says nothing; name the file after what it holds", file.path));
    }
    for (number, line) in numbered(&file.text) {
        if let Some(word) = declared_name(line).and_then(empty_word) {
            problems.push(format!("{}:{number}: `{word}` says nothing; name it after what it does", file.path));
        }
        if let Some(field) = taken_log_field(line) {
            problems.push(format!(
                "{}:{number}: each log line has a field `{field}` already; name it otherwise",
                file.path
            ));
        }
    }
    check_unsafe(file, problems);
}

fn check_unsafe(file: &File, problems: &mut Problems) {
    let is_free = UNSAFE_CRATES.iter().any(|part| file.path.starts_with(part)) || file.path.starts_with("fuzz/");
    if is_free || file.path == UNSAFE_FILE {
        return;
    }
    let level = if file.path == UNSAFE_FILE_ROOT { "deny" } else { "forbid" };
    let is_root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    if is_root && !file.text.contains(&format!("#![{level}(un{}code)]", "safe_")) {
        problems.push(format!("{}: say #![{level}(un{}code)]", file.path, "safe_"));
    }
    for (number, line) in numbered(&file.text) {
        let code = line.split("//").next().unwrap_or_default();
        if ["{", "fn", "impl", "extern"].iter().any(|next| code.contains(&format!("un{} {next}", "safe"))) {
            problems.push(format!(
                "{}:{number}: this crate has no business here; move it to crates/net or crates/tls",
                file.path
            ));
        }
    }
}

/// Every limit says what it bounds, where it is defined. That the reference for users knows it too is a test of the configuration.
fn check_limits(file: &File, problems: &mut Problems) {
    if !file.path.ends_with("/src/limits.rs") {
        return;
    }
    let mut before = "";
    for (number, line) in numbered(&file.text).map(|(number, line)| (number, line.trim())) {
        let is_field = line.starts_with("pub ") && line.contains(": ") && line.ends_with(',');
        if is_field && !before.starts_with("///") {
            problems.push(format!("{}:{number}: a limit needs a line saying what it bounds and why", file.path));
        }
        before = line;
    }
}

fn check_links(root: &Path, file: &File, problems: &mut Problems) {
    let folder = root.join(&file.path).parent().unwrap().to_owned();
    for (number, line) in numbered(&file.text) {
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                problems.push(format!("{}:{number}: the link to {target} leads nowhere", file.path));
            }
        }
    }
}

fn check_lengths(
    files: &[File],
    long_files: &[(&str, usize)],
    long_functions: &[(&str, &str, usize)],
    problems: &mut Problems,
) {
    let mut excused_files: BTreeMap<_, _> = long_files.iter().copied().collect();
    let mut excused_functions: BTreeMap<_, _> =
        long_functions.iter().map(|&(path, name, lines)| ((path, name), lines)).collect();
    // A page that the program prints is as long as what it prints.
    let is_written = |file: &&File| {
        file.path.ends_with(".md") && !file.text.lines().take(5).any(|line| line.starts_with("<!-- Generated"))
    };
    for file in files.iter().filter(|file| file.is_rust() || is_written(file) || file.path == "x") {
        let allowed = excused_files.remove(file.path.as_str());
        ratchet(&file.path, file.text.lines().count(), MAX_FILE_LINES, allowed, problems);
        for (name, line, length) in functions(&file.text).filter(|_| file.is_rust()) {
            let allowed = excused_functions.remove(&(file.path.as_str(), name));
            ratchet(&format!("{}:{line}: fn {name}", file.path), length, MAX_FUNCTION_LINES, allowed, problems);
        }
    }
    problems.extend(excused_files.keys().map(|path| format!("tidy.rs: {path} is gone; remove it from LONG_FILES")));
    problems.extend(
        excused_functions
            .keys()
            .map(|(path, name)| format!("tidy.rs: {path} {name} is gone; remove it from LONG_FUNCTIONS")),
    );
}

/// How often a file sleeps in tests: in a file of tests, or below the first `#[cfg(test)]` of another one.
fn sleeps(file: &File) -> usize {
    let is_of_tests = file.path.split('/').any(|part| part == "tests" || part == "tests.rs");
    let lines = file.text.lines().skip_while(|line| !is_of_tests && line.trim() != "#[cfg(test)]");
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    let is_call = |before: &str| !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    // Not the definition of this pattern, nor what only ends like it.
    code.map(|line| line.match_indices("sleep(").filter(|(at, _)| is_call(&line[..*at])).count()).sum()
}

/// A test that sleeps bets on the speed of the machine, but for those that are listed with a reason, and no oftener than it says there.
fn check_sleeps(files: &[File], listed: &[(&str, usize, &str)], problems: &mut Problems) {
    let mut excused: BTreeMap<&str, usize> = listed.iter().map(|&(path, count, _)| (path, count)).collect();
    let rust = files.iter().filter(|file| file.is_rust() && !file.path.ends_with("tests/tidy.rs"));
    for (file, count) in rust.map(|file| (file, sleeps(file))).filter(|(_, count)| *count > 0) {
        match excused.remove(file.path.as_str()) {
            Some(allowed) if allowed == count => {}
            Some(allowed) if count < allowed => {
                problems.push(format!("{}: sleeps {count} times, not {allowed}; note that in tidy.rs", file.path))
            }
            _ => problems.push(format!("{}: a test that sleeps; wait for an event (harness::wait_until)", file.path)),
        }
    }
    problems.extend(excused.keys().map(|path| format!("tidy.rs: {path} no longer sleeps; remove it from SLEEPS")));
}

/// Beyond the limit only what is excused, and only up to the excuse; an excuse that is no longer needed goes.
fn ratchet(what: &str, lines: usize, limit: usize, excused: Option<usize>, problems: &mut Problems) {
    match excused {
        None if lines > limit => problems.push(format!("{what}: {lines} lines, at most {limit}; split it")),
        Some(allowed) if lines > allowed => {
            problems.push(format!("{what}: grew from {allowed} to {lines} lines; it may only shrink"))
        }
        Some(_) if lines <= limit => {
            problems.push(format!("{what}: {lines} lines; it needs no excuse in tidy.rs any more"))
        }
        Some(allowed) if lines < allowed => {
            problems.push(format!("{what}: shrank from {allowed} to {lines} lines; note that in tidy.rs"))
        }
        _ => {}
    }
}

// --- reading ---

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn text_files(root: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !path.is_symlink() {
                if !MADE.contains(&name) {
                    folders.push(path);
                }
            } else if TEXT.contains(&name.rsplit('.').next().unwrap_or(name)) {
                let relative = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                let text = fs::read(&path).unwrap();
                files.push(File { path: relative, text: String::from_utf8_lossy(&text).into_owned() });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
}

/// Name, first line and length of every function: rustfmt ends each at a `}` as far in as its `fn`.
fn functions(text: &str) -> impl Iterator<Item = (&str, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let one_line = line.ends_with('}') || line.ends_with(';');
        let end = if one_line {
            Some(start)
        } else {
            (start + 1..lines.len()).find(|&index| ends_item(lines[index], indent))
        };
        if let Some(end) = end {
            found.push((name, start + 1, end - start + 1));
        }
    }
    found.into_iter()
}

fn ends_item(line: &str, indent: usize) -> bool {
    let rest = line.trim_start();
    line.len() - rest.len() == indent && (rest.starts_with('}') || (rest.starts_with(')') && rest.ends_with(';')))
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    loop {
        match words.next()? {
            "fn" => break,
            word if word.starts_with("pub") || word.starts_with('"') => {}
            "const" | "async" | "extern" | "in" => {}
            word if word == ["un", "safe"].concat() => {}
            _ => return None,
        }
    }
    words.next().map(leading_identifier).filter(|name| !name.is_empty())
}

/// The name of the module or type that a line declares.
fn declared_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    match words.next()? {
        "mod" | "struct" | "enum" | "trait" | "type" => words.next().map(leading_identifier),
        _ => None,
    }
}

/// The first field of a log event that has a name of [`TAKEN_LOG_FIELDS`]. `target: "x"` is no field, but where the event comes from.
fn taken_log_field(line: &str) -> Option<&str> {
    let (event, rest) = line.split_once("tracing::")?.1.split_once("!(")?;
    let words = rest.split(", ").take_while(|word| !word.starts_with('"') && !word.contains(": "));
    let mut fields = words.map(|word| leading_identifier(word.trim_start_matches(['%', '?'])));
    let is_event = ["error", "warn", "info", "debug", "trace"].contains(&event);
    fields.find(|field| is_event && TAKEN_LOG_FIELDS.contains(field))
}

fn leading_identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The empty word in an identifier, whether it is written `snake_case` or `CamelCase`.
fn empty_word(identifier: &str) -> Option<&'static str> {
    let mut words = vec![String::new()];
    for c in identifier.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut()?.extend(c.to_lowercase());
        }
    }
    EMPTY_WORDS.iter().copied().find(|empty| words.iter().any(|word| word == empty))
}

fn find_word(line: &str, word: &str) -> Option<usize> {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .map(|(at, _)| at)
        .find(|&at| !line[..at].ends_with(part_of_name) && !line[at + word.len()..].starts_with(part_of_name))
}

// --- the rules bite ---

/// What a rule says to a file with this text; the path decides which crate it is in.
fn breaches(path: &str, text: &str, rule: fn(&File, &mut Problems)) -> usize {
    let mut problems = Problems::new();
    rule(&File { path: path.to_owned(), text: text.to_owned() }, &mut problems);
    problems.len()
}

#[test]
fn each_rule_sees_what_it_forbids() {
    let head = "//! Head.\n";
    let danger = ["un", "safe {"].concat();
    let open_end = ["TO", "DO"].concat();
    let forbid = ["#![forbid(un", "safe_code)]"].concat();
    let host = ["pypi", ".org"].concat();
    let field = "target";
    type Row<'a> = (&'a str, String, fn(&File, &mut Problems), usize);
    let rows: Vec<Row<'_>> = vec![
        ("a.rs", "x\n".into(), check_layout, 0),
        ("a.rs", "x \n\ty\n".into(), check_layout, 2),
        ("a.rs", "x".into(), check_layout, 1),
        ("crates/a/tests/b.yaml", "\tx \n".into(), check_layout, 0),
        ("a.md", format!("{open_end}: later"), check_words, 1),
        ("a.md", format!("{open_end}(issue 3): later; my{open_end}s"), check_words, 0),
        ("a.md", format!("from {host} take"), check_registry_hosts, 1),
        ("a.rs", "fn a() {}\n".into(), check_rust, 1),
        ("crates/a/src/common.rs", head.into(), check_rust, 1),
        ("a.rs", format!("{head}pub(crate) struct RouteManager;\nmod utilities;\n"), check_rust, 1),
        ("crates/wire/src/a.rs", format!("{head}{danger} }}\n"), check_rust, 1),
        ("crates/tls/src/a.rs", format!("{head}{danger} }}\n"), check_rust, 0),
        ("crates/a/src/limits.rs", "pub a: u8,\n/// B.\npub b: u8,\n".into(), check_limits, 1),
        ("crates/wire/src/lib.rs", head.into(), check_rust, 1),
        (
            "a.rs",
            format!("{head}tracing::warn!(bind, %{field}, \"x\")\ntracing::warn!(%to, \"a, {field}\")\n"),
            check_rust,
            1,
        ),
        ("crates/wire/src/lib.rs", format!("{head}{forbid}\n"), check_rust, 0),
        ("docs/a.md", "Every mistake is\nin force.\n".into(), check_vocabulary, 2),
        ("crates/a/src/b.rs", "// a mistake\nlet told = \"told\";\nx(\"a verdict of\");\n".into(), check_vocabulary, 1),
    ];
    for (path, text, rule, expected) in rows {
        assert_eq!(breaches(path, &text, rule), expected, "{path}: {text}");
    }
}

#[test]
fn lengths_are_counted_and_the_lists_only_shrink() {
    let body = |lines: usize| {
        format!("//! A.\n\npub async fn long(\n    a: u8,\n) {{\n{}}}\n\nfn short() {{}}\n", "    a;\n".repeat(lines))
    };
    let count = |lines: usize, excused: &[(&str, &str, usize)]| {
        let mut problems = Problems::new();
        check_lengths(&[File { path: "a.rs".into(), text: body(lines) }], &[], excused, &mut problems);
        problems.len()
    };
    assert_eq!(count(66, &[]), 0, "70 lines are allowed");
    assert_eq!(count(67, &[]), 1);
    assert_eq!(count(67, &[("a.rs", "long", 71)]), 0);
    assert_eq!(count(68, &[("a.rs", "long", 71)]), 1, "an excused function grew");
    assert_eq!(count(66, &[("a.rs", "long", 71)]), 1, "an excuse that is no longer needed stays");
    assert_eq!(count(1, &[("a.rs", "gone", 71)]), 1);
    let mut problems = Problems::new();
    check_lengths(&[File { path: "a.rs".into(), text: "//\n".repeat(801) }], &[], &[], &mut problems);
    assert_eq!(problems.len(), 1);
}

#[test]
fn tests_that_sleep_are_listed_and_the_list_only_shrinks() {
    let count = |path: &str, text: &str, listed: &[(&str, usize, &str)]| {
        let mut problems = Problems::new();
        check_sleeps(&[File { path: path.into(), text: text.into() }], listed, &mut problems);
        problems.len()
    };
    let (once, test) = ("std::thread::sleep(x);\n", "crates/a/tests/b.rs");
    assert_eq!(count(test, once, &[]), 1);
    assert_eq!(count(test, "// sleep(x)\nwill_sleep(x);\n", &[]), 0);
    assert_eq!(count("crates/a/src/b.rs", once, &[]), 0, "the program may");
    assert_eq!(count("crates/a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{\n    {once}}}\n"), &[]), 1);
    assert_eq!(count(test, once, &[(test, 1, "")]), 0);
    assert_eq!(count(test, &once.repeat(2), &[(test, 1, "")]), 1, "one more");
    assert_eq!(count(test, once, &[(test, 2, "")]), 1, "one fewer, to be noted");
    assert_eq!(count(test, "", &[(test, 1, "")]), 1, "none");
}
