//! What a run of `./x test` may hold at most, in things that can be counted (tests/budget.txt): how long it takes depends on the machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Each line is a number and what it counts.
fn budget() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(root().join("tests/budget.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parsed =
        lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("{line}: a number and what it counts")));
    parsed.map(|(number, what)| (what.to_owned(), number.parse().unwrap())).collect()
}

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(fs::read_to_string(&path).unwrap());
        }
    }
}

/// Test programs that cargo links for a package: one for its unit tests, and its integration tests.
fn programs(package: &Path) -> (usize, usize) {
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let listed = manifest.matches("[[test]]").count();
    let tests: Vec<_> =
        fs::read_dir(package.join("tests")).map(|entries| entries.flatten().collect()).unwrap_or_default();
    let is_program = |path: PathBuf| path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").exists();
    let found = tests.into_iter().filter(|entry| is_program(entry.path())).count();
    let mut own = Vec::new();
    sources(&package.join("src"), &mut own);
    let has_units = own.iter().any(|text| text.contains("#[test]"));
    (usize::from(has_units), if manifest.contains("autotests = false") { listed } else { found })
}

#[test]
fn a_run_holds_no_more_than_its_budget() {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let packages: Vec<PathBuf> = crates.chain([root().join("bench")]).collect();
    let counted: Vec<(usize, usize)> = packages.iter().map(|package| programs(package)).collect();
    for (package, (_, integration)) in packages.iter().zip(&counted) {
        assert!(*integration <= 1, "{}: one integration binary for each crate (CONTRIBUTING.md)", package.display());
    }
    let mut tests = Vec::new();
    packages.iter().for_each(|package| sources(package, &mut tests));
    let ignored = tests.iter().map(|text| text.matches("\n#[ignore").count()).sum();
    let found = BTreeMap::from([
        ("programs of unit tests".to_owned(), counted.iter().map(|(units, _)| units).sum::<usize>()),
        ("programs of integration tests".to_owned(), counted.iter().map(|(_, integration)| integration).sum()),
        ("tests that only ./x verify runs".to_owned(), ignored),
    ]);
    let budget = budget();
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        budget.keys().collect::<Vec<_>>(),
        "tests/budget.txt counts other things"
    );
    for (what, count) in &found {
        assert!(*count <= budget[what], "{count} {what}; tests/budget.txt allows {}", budget[what]);
    }
}
