//! Every numeric constant of the data path is a bound that the reference shows (`config::limits::FIXED`), or is named in `bounds/others.txt` as something else:
//! a number of a protocol, the size of a pool, the pace of some work of our own. So a bound that a peer can reach is not forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CRATES: [&str; 10] =
    ["acme", "fleet", "proxy", "graphql", "wire", "transport", "net", "quic", "keyserver", "telemetry"];
const NUMBERS: [&str; 11] =
    ["usize", "u8", "u16", "u32", "u64", "u128", "i32", "i64", "f64", "Duration", "std::time::Duration"];

/// Numeric constants by file and name, with what they are.
type Constants = BTreeMap<(String, String), String>;

fn constants(folder: &Path, root: &Path, found: &mut Constants) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            constants(&path, root, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            let file = path.strip_prefix(root).unwrap().to_str().unwrap();
            for line in text.lines() {
                let Some((_, rest)) = line.split_once("const ") else { continue };
                let Some((name, rest)) = rest.split_once(": ") else { continue };
                let Some((kind, value)) = rest.split_once(" = ") else { continue };
                if NUMBERS.contains(&kind)
                    && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
                {
                    found.insert((file.to_owned(), name.to_owned()), value.trim_end_matches(';').to_owned());
                }
            }
        }
    }
}

/// What an expression comes to: counts and bytes as they are, times in microseconds. None if it is more than a product of numbers and names.
fn value(expression: &str, file: &str, all: &Constants) -> Option<u64> {
    let plain = expression.replace(['(', ')', '_'], " ").replace(" as usize", "").replace(" as u32", "");
    for (call, factor) in
        [("Duration::from secs", 1_000_000), ("Duration::from millis", 1_000), ("Duration::from micros", 1)]
    {
        if let Some(rest) = plain.strip_prefix(call).or_else(|| plain.strip_prefix(&format!("std::time::{call}"))) {
            return value(rest, file, all).map(|number| number * factor);
        }
    }
    let expression = expression.replace(['(', ')'], "").replace(" as usize", "").replace(" as u32", "");
    if let Some((left, right)) = expression.split_once(" << ") {
        return Some(value(left, file, all)? << value(right, file, all)?);
    }
    let mut total: Option<u64> = None;
    let mut operator = "*";
    for word in expression.split_whitespace() {
        if matches!(word, "*" | "/") {
            operator = word;
            continue;
        }
        let number = word.replace('_', "").parse().ok().or_else(|| {
            let own = all.get(&(file.to_owned(), word.to_owned())).map(|value| (file.to_owned(), value));
            let same_name =
                || all.iter().find(|((_, name), _)| name == word).map(|((file, _), value)| (file.clone(), value));
            let (file, expression) = own.or_else(same_name)?;
            value(expression, &file, all)
        })?;
        total = Some(match (total, operator) {
            (None, _) => number,
            (Some(total), "/") => total / number,
            (Some(total), _) => total * number,
        });
    }
    total
}

/// What the reference says, in the same units.
fn stated(text: &str) -> u64 {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | " bytes" | " units" | "us" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "ms" => 1_000,
        "s" => 1_000_000,
        other => panic!("{text}: what is {other}?"),
    };
    number.parse::<u64>().unwrap() * factor
}

#[test]
fn every_number_of_the_data_path_is_a_stated_bound_or_something_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Constants::new();
    for name in CRATES {
        constants(&root.join(name).join("src"), &root, &mut found);
    }
    let mut missing: BTreeSet<_> = found.keys().cloned().collect();
    let mut wrong = Vec::new();
    for bound in config::limits::FIXED.iter().flat_map(|group| group.bounds) {
        let (file, name) = bound.place;
        missing.remove(&(file.to_owned(), name.to_owned()));
        match found.get(&(file.to_owned(), name.to_owned())) {
            None => wrong.push(format!("{file} has no {name}: take it out of limits/fixed.rs")),
            Some(expression) => match value(expression, file, &found) {
                Some(value) if value == stated(bound.value) => {}
                value => wrong
                    .push(format!("{file}: {name} is {expression} ({value:?}), limits/fixed.rs says {}", bound.value)),
            },
        }
    }
    for line in include_str!("bounds/others.txt").lines().filter(|line| !line.starts_with('#')) {
        let (file, name) = line.split_once(' ').unwrap();
        if !missing.remove(&(file.to_owned(), name.to_owned())) {
            wrong.push(format!("{file} has no {name}, or it is a stated bound: take it out of bounds/others.txt"));
        }
    }
    wrong.extend(missing.iter().map(|(file, name)| {
        format!("{file} {name}: if a peer can reach it, state it in limits/fixed.rs or make it a limit, else name it in bounds/others.txt")
    }));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
