//! Configurations in the manner of those that are published for well-known applications (`corpus/`), each imported where no file of theirs is: how it ends, what
//! is not carried, and how much of each directive is (`corpus/outcomes.txt`, `corpus/directives.txt`; `UPDATE=1` writes them).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::beside::import_in;

/// The share of directives that is to be carried, in percent.
const CARRIED: usize = 95;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/migration/corpus")
}

/// Compares a text with what a file holds, or writes it.
fn holds(name: &str, text: &str) {
    let path = folder().join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "UPDATE=1 writes {name}");
}

/// The first words of the directives in a text: what stands before the end of one, outside of quotes.
fn directives(program: &str, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if program == "haproxy" {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pairs = [
                "http-request",
                "http-response",
                "option",
                "tcp-request",
                "tcp-check",
                "http-check",
                "timeout",
                "stats",
            ];
            let count = if pairs.contains(&words[0]) { 2 } else { 1 };
            let words = words.iter().take(count).map(|word| word.split('(').next().unwrap());
            out.push(words.collect::<Vec<_>>().join(" "));
            continue;
        }
        let (mut quote, mut start) = (None, true);
        let mut word = String::new();
        for c in line.chars() {
            match (quote, c) {
                (Some(end), c) if c == end => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') if word.is_empty() || !start => quote = Some(c),
                (None, ';' | '{' | '}') => {
                    out.extend((!word.is_empty()).then(|| word.clone()));
                    word.clear();
                    start = true;
                }
                (None, ' ' | '\t') => start &= word.is_empty(),
                (None, c) if start => word.push(c),
                _ => {}
            }
        }
        out.extend((!word.is_empty()).then_some(word));
    }
    out
}

#[test]
fn published_configurations_are_imported_as_the_table_says() {
    let mut files: Vec<_> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "conf" || extension == "cfg"));
    files.sort();
    assert!(files.len() >= 30, "{}", files.len());
    let root = tempfile::tempdir().unwrap();
    let mut outcomes = String::new();
    let (mut all, mut left): (BTreeMap<String, usize>, BTreeMap<String, usize>) = Default::default();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let program = if name.ends_with(".cfg") { "haproxy" } else { "nginx" };
        fs::copy(&path, root.path().join(name)).unwrap();
        let printed = import_in(&[program, "--files-from", ".", &format!("/{name}")], root.path());
        let said = String::from_utf8(printed.stderr).unwrap();
        let found: BTreeSet<&str> = said.lines().filter_map(|line| line.strip_prefix("portunus: left out: ")).collect();
        let code = printed.status.code().unwrap();
        assert!(code <= 1 && (code == 1) != found.is_empty(), "{name}: {said}");
        outcomes.push_str(&format!("{name}: exit {code}\n"));
        for line in &found {
            let line = line.strip_prefix('/').unwrap_or(line);
            outcomes.push_str(&format!("  {}\n", line.chars().take(160).collect::<String>()));
        }
        let own = directives(program, &fs::read_to_string(&path).unwrap());
        for word in &own {
            *all.entry(format!("{program} {word}")).or_default() += 1;
        }
        for what in found.iter().filter_map(|line| line.splitn(3, ':').nth(2)) {
            let what = what.trim_start();
            let mut fitting: Vec<&String> = own.iter().filter(|word| what.starts_with(word.as_str())).collect();
            fitting.sort_by_key(|word| word.len());
            let word = fitting.last().map_or("(other)", |word| word.as_str());
            *left.entry(format!("{program} {word}")).or_default() += 1;
        }
    }
    holds("outcomes.txt", &outcomes);
    let (count, lost) = (all.values().sum::<usize>(), left.values().sum::<usize>());
    let mut table = format!("{} of {count} are carried\n\n", count - lost);
    for (word, count) in &all {
        let lost = left.get(word).copied().unwrap_or_default();
        table.push_str(&format!(
            "{word}: {count}{}\n",
            if lost > 0 { format!(", {lost} not carried") } else { String::new() }
        ));
    }
    holds("directives.txt", &table);
    assert!((count - lost) * 100 >= count * CARRIED, "{table}");
}
