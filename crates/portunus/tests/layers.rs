//! Holds the crates to their layers: `lib.rs` lists a crate's modules from top to bottom, and a module imports only from modules below it. Between
//! crates the compiler sees to that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn modules_import_from_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&root).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let lib = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
        let layers = layers(&lib);
        let krate = Crate { layers: &layers, exports: &exports(&lib) };
        let mut imports = BTreeMap::new();
        collect(&folder.join("src"), &folder.join("src"), &krate, &mut imports);
        let floor = |module: &String| layers.iter().position(|other| other == module);
        for (module, others) in &imports {
            for other in others.iter().filter(|other| floor(other) < floor(module)) {
                found.insert((name.clone(), module.clone(), other.clone()));
            }
        }
    }
    assert!(found.is_empty(), "crate, module, and the module above it that it imports: {found:#?}");
}

/// The modules of a crate in the order in which `lib.rs` lists them.
fn layers(lib: &str) -> Vec<String> {
    let module = |line: &str| {
        let declared = line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
        declared.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    };
    lib.lines().filter_map(module).collect()
}

/// What `lib.rs` passes on under a shorter name, and the module that it comes from.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    let lib = &lib.lines().filter(|line| !line.starts_with("//")).collect::<Vec<_>>().join("\n");
    for (at, before) in lib.match_indices("use ") {
        let statement = &lib[at + before.len()..];
        let statement = &statement[..statement.find(';').unwrap_or(0)];
        let Some((module, names)) = statement.split_once("::") else { continue };
        for name in names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            exports.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    exports
}

/// A crate's modules from top to bottom, and what it exports from which of them.
struct Crate<'a> {
    layers: &'a [String],
    exports: &'a BTreeMap<String, String>,
}

/// Which modules of the crate each of them names, from the files below `folder`.
fn collect(folder: &Path, source: &Path, krate: &Crate<'_>, imports: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, source, krate, imports);
            continue;
        }
        let inner = path.strip_prefix(source).unwrap().with_extension("");
        let parts: Vec<_> = inner.iter().map(|part| part.to_str().unwrap()).collect();
        let module = parts[0].to_owned();
        if path.extension().is_none_or(|end| end != "rs") || !krate.layers.contains(&module) || parts.contains(&"tests")
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let own = imports.entry(module.clone()).or_default();
        // In the file of a module of the first level, `super` is the crate.
        let prefixes: &[&str] = if parts.len() == 1 { &["crate::", "super::"] } else { &["crate::"] };
        for prefix in prefixes {
            let modules = named(code, prefix).into_iter().map(|name| krate.exports.get(&name).cloned().unwrap_or(name));
            own.extend(modules.filter(|name| krate.layers.contains(name) && *name != module));
        }
    }
}

/// What stands behind `prefix`: a name, or the first names within braces.
fn named(code: &str, prefix: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let after = &code[at + prefix.len()..];
        match after.strip_prefix('{') {
            None => _ = names.insert(word(after)),
            Some(list) => {
                let (mut depth, mut begins) = (0, true);
                for (at, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => begins = true,
                        c if begins && !c.is_whitespace() => {
                            names.insert(word(&list[at..]));
                            begins = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

/// A crate that is not named there would log from `warn` on only.
#[test]
fn every_crate_is_known_to_the_log() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let diagnostics = fs::read_to_string(root.join("telemetry/src/diagnostics.rs")).unwrap();
    for entry in fs::read_dir(&root).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            diagnostics.contains(&format!("\"{name}\"")),
            "OURS in telemetry/src/diagnostics.rs does not name {name}"
        );
    }
}
