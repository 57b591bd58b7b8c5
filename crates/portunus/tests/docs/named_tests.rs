//! The matrices name the tests that show what they claim: each of these is there under its name. The numbers of their rows are unique.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::markdown::{Page, root};

/// The pages that name tests, and whether the last cell of their rows holds nothing but such names.
const PAGES: [(&str, bool); 3] =
    [("docs/attack-matrix.md", true), ("docs/users-matrix.md", true), ("docs/api-firewall.md", false)];

/// A file with its functions, of which a name may have `*` for a part. Its modules are the parts of its path.
struct Source {
    modules: Vec<String>,
    functions: BTreeSet<String>,
}

/// Every file that ends so, below a folder.
fn sources(folder: &Path, ending: &str, named: fn(&str) -> BTreeSet<String>, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, ending, named, found);
        } else if let Some(text) = path.to_str().and_then(|path| path.strip_suffix(ending)) {
            let modules = text.split('/').map(str::to_owned).collect();
            found.push(Source { modules, functions: named(&fs::read_to_string(&path).unwrap()) });
        }
    }
}

/// Functions in Rust.
fn functions(code: &str) -> BTreeSet<String> {
    code.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned).collect()
}

/// Rows in Python: functions, and those that are made, whose names are texts.
fn rows(code: &str) -> BTreeSet<String> {
    let defined = code.split("def ").skip(1).filter_map(|rest| rest.split('(').next()).map(str::to_owned);
    let pattern = |text: &str| {
        let pieces: Vec<&str> =
            text.split('{').map(|piece| piece.split_once('}').map_or(piece, |(_, rest)| rest)).collect();
        pieces.join("*")
    };
    let is_name = |text: &&str| {
        text.contains('_') && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_{}".contains(&byte))
    };
    let texts = code.split('"').filter(is_name).map(pattern).filter(|text| !text.starts_with('*'));
    defined.chain(texts).collect()
}

/// Whether a name suits a pattern with `*` in it.
fn suits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| suits(rest, &name[at..]))
        }),
    }
}

impl Source {
    fn is_in(&self, module: &str) -> bool {
        self.modules.iter().any(|own| own == module)
    }
}

/// Whether a test, or a module of tests, is there.
fn is_there(name: &str, all: &[Source]) -> bool {
    let segments: Vec<&str> = name.split("::").collect();
    let (last, before) = segments.split_last().unwrap();
    // Inside of a file no module but `tests` has tests.
    let within: Vec<&&str> = before.iter().filter(|module| !matches!(**module, "*" | "tests")).collect();
    let is_within = |source: &&Source| within.last().is_none_or(|module| source.is_in(module));
    let is_module = |source: &Source| source.modules.last().is_some_and(|stem| stem == last);
    all.iter().filter(is_within).any(|source| match *last {
        "*" | "tests" => true,
        last => is_module(source) || source.functions.iter().any(|own| suits(own, last) || suits(last, own)),
    })
}

/// Spans of code in a text.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What a page names and is not there. `has_column`: the last cell of a row has nothing but names.
fn missing(page: &Page, has_column: bool, all: &[Source]) -> Vec<String> {
    let is_word = |span: &&str| span.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':' | b'*'));
    let mut problems = Vec::new();
    for (at, line) in page.text.lines().enumerate() {
        let cells: Vec<&str> = line.trim_end().trim_end_matches('|').split(" | ").collect();
        let is_row = has_column && line.starts_with("| ") && cells.len() > 1;
        let column = cells.last().filter(|_| is_row).map_or("", |cell| cell);
        let plain = spans(column).filter(is_word).filter(|span| span.contains('_') && !span.contains("::"));
        let paths = spans(line).filter(is_word).filter(|span| span.contains("::"));
        let named = plain.chain(paths).filter(|name| !is_there(name, all));
        problems.extend(named.map(|name| format!("{}:{}: there is no test `{name}`", page.path, at + 1)));
    }
    problems
}

#[test]
fn every_test_that_a_matrix_names_is_there() {
    let (root, mut all) = (root(), Vec::new());
    sources(&root.join("crates"), ".rs", functions, &mut all);
    sources(&root.join("bench/tests"), ".rs", functions, &mut all);
    sources(&root.join("fuzz/fuzz_targets"), ".rs", functions, &mut all);
    sources(&root.join("tests/clients"), ".py", rows, &mut all);
    let problems: Vec<String> = PAGES
        .into_iter()
        .flat_map(|(path, has_column)| {
            let text = fs::read_to_string(root.join(path)).unwrap();
            missing(&Page { path: path.into(), text }, has_column, &all)
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Numbers of rows that come twice, each with its line.
fn repeated(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let number = |line: &str| line.strip_prefix("| ")?.split_once(" |")?.0.parse::<u32>().ok();
    let numbered = text.lines().zip(1..).filter_map(|(line, at)| Some((number(line)?, at)));
    numbered
        .filter(|(number, _)| !seen.insert(*number))
        .map(|(number, at)| format!("{at}: row {number} is there already"))
        .collect()
}

#[test]
fn every_row_of_a_matrix_has_a_number_of_its_own() {
    for (page, _) in &PAGES[..2] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert_eq!(repeated(&text), Vec::<String>::new(), "{page}: take a number that is free");
    }
    assert_eq!(repeated("| # | a |\n|---|---|\n| 1 | b |\n| 12 | c |\n| 1 | d |\n"), ["5: row 1 is there already"]);
}

#[test]
fn a_test_that_is_not_there_is_seen() {
    let source = |path: &str, functions: &[&str]| Source {
        modules: path.split('/').map(str::to_owned).collect(),
        functions: functions.iter().map(|name| (*name).to_owned()).collect(),
    };
    let all = [source("crates/a/tests/http/bodies", &["one_is"]), source("crates/a/src/rate", &["two_is"])];
    let text = "| # | `no_test_is` | `bodies::one_is`, `bodies::two_is`, `rate::tests`, `rates::tests`, `bodies::*` |\n\
                | # | x | `one_is`, `three_is`, `rate::tests::two_is`, `rate.rs`, `http::rate` |\n";
    let page = Page { path: "m.md".into(), text: text.into() };
    let expected = [
        "m.md:1: there is no test `bodies::two_is`",
        "m.md:1: there is no test `rates::tests`",
        "m.md:2: there is no test `three_is`",
        "m.md:2: there is no test `http::rate`",
    ];
    assert_eq!(missing(&page, true, &all), expected);
    let rows =
        rows("def one_row(_):\n    scene.__name__ = f\"{make}_x_{name}\"; f\"two_{make}_row\"; make(\"three_row\")");
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), ["one_row", "three_row", "two_*_row"]);
    assert!(suits("a_*_c", "a_b_c") && suits("a_*", "a_") && !suits("a_*_c", "a_b_d") && !suits("a", "ab"));
}
