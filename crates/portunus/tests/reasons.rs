//! Holds the program to its table of reason codes: a code is written in the table alone, and every page that names one names one that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use reason::Reason;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Words that are codes and other things too, with the file where they are the other thing.
const OTHER_MEANINGS: &[(&str, &str)] = &[
    // Shared with the crate `contract`, which owns what API documents say.
    ("body_too_large", "contract/src/validate/code.rs"),
];

/// The sources of the program but the table, without their tests.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !matches!(name, "tests" | "benches" | "target") {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && !path.ends_with("reason/src/table.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let code: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            found.push((path.display().to_string(), code.join("\n")));
        }
    }
}

#[test]
fn a_code_stands_in_the_table_alone() {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        // What these crates name so is a key of the file.
        if !folder.ends_with("config") && !folder.ends_with("compat") {
            sources(&folder.join("src"), &mut files);
        }
    }
    assert!(files.len() > 100, "the sources were not found");
    let mut elsewhere = Vec::new();
    // A code of one word is an ordinary word, too.
    for code in Reason::ALL.iter().map(|reason| reason.code()).filter(|code| code.contains('_')) {
        let literal = format!("\"{code}\"");
        for (path, text) in &files {
            let is_known = OTHER_MEANINGS.iter().any(|(word, place)| *word == code && path.ends_with(place));
            if text.contains(&literal) && !is_known {
                elsewhere.push(format!("{path}: {literal}; name it by `reason::Reason`"));
            }
        }
    }
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
}

/// What a reason is called is for the one table to say; records and rejections take no text.
#[test]
fn records_take_no_text_for_a_reason() {
    let mut files = Vec::new();
    for name in ["telemetry", "proxy", "transport", "keyserver"] {
        sources(&root().join("crates").join(name).join("src"), &mut files);
    }
    let places: Vec<_> = files
        .iter()
        .flat_map(|(path, text)| text.lines().map(move |line| (path, line)))
        .filter(|(_, line)| line.contains("reason: &'static str") || line.contains("reason: \""))
        .filter(|(path, line)| !path.ends_with("telemetry/src/key_server.rs") || !line.trim().ends_with("str,"))
        .collect();
    assert!(places.is_empty(), "{places:#?}");
}

#[test]
fn codes_of_contracts_and_ours_are_apart() {
    let ours: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    let shared: Vec<_> = contract::validate::code::ALL
        .iter()
        .map(|code| code.code)
        .chain(contract::reason::Reason::ALL.iter().map(|reason| reason.code()))
        .filter(|code| ours.contains(code))
        .collect();
    assert_eq!(shared, ["body_too_large"], "the others mean something of their own");
}

/// What an operator is told to set exists.
#[test]
fn remedies_name_keys_that_exist() {
    let read = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let reference = read("configuration.md") + &read("key-server-configuration.md");
    let metrics = fs::read_to_string(root().join("crates/telemetry/src/metrics.rs")).unwrap()
        + &fs::read_to_string(root().join("crates/telemetry/src/key_server.rs")).unwrap();
    let codes: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    let mut unknown = Vec::new();
    for facts in Reason::ALL.iter().map(|reason| reason.facts()) {
        let quoted = [facts.meaning, facts.remedy].map(|text| text.split('`').skip(1).step_by(2));
        for word in quoted.into_iter().flatten() {
            let key = word.split(':').next().unwrap();
            let is_key = key.contains('_') && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'.');
            let name = key.rsplit('.').next().unwrap();
            let is_known =
                reference.contains(&format!("`{name}`")) || metrics.contains(name.trim_end_matches("_total"));
            if is_key && !is_known && !codes.contains(key) && key != "key_not_found" {
                unknown.push(format!("{}: `{word}`", facts.code));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Each case of the troubleshooting page is a reason that there is, with the status that it has, and the settings that it names are there.
#[test]
fn troubleshooting_names_reasons_that_exist() {
    let read = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let (page, reference) = (read("troubleshooting.md"), read("configuration.md"));
    let statuses: BTreeMap<_, _> =
        Reason::ALL.iter().map(|reason| reason.facts()).map(|facts| (facts.code, facts.status)).collect();
    let mut cases = 0;
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (code, rest) = row.split_once('`').unwrap();
        let status = rest
            .strip_prefix(" (")
            .and_then(|rest| rest.split_once(')'))
            .map(|(status, _)| status.parse::<u16>().unwrap());
        let is_of_contract = contract::validate::code::ALL.iter().any(|facts| facts.code == code);
        assert!(statuses.contains_key(code) || is_of_contract, "there is no reason `{code}`");
        if let (Some(status), Some(known)) = (status, statuses.get(code)) {
            assert_eq!(status, *known, "{code}");
        }
        for setting in rest.split('`').skip(1).step_by(2).filter_map(|word| word.strip_prefix("limits.")) {
            assert!(reference.contains(&format!("`{setting}`")), "{code}: no limit `{setting}`");
        }
        cases += 1;
    }
    assert!(cases >= 25, "{cases}");
}
