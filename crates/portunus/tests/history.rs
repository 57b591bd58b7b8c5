//! Holds commit subjects to the house rule: imperative, at most 72 characters, no full stop.

use std::process::Command;

/// As many of the newest commits are looked at.
const COMMITS: &str = "-20";

#[test]
fn commit_subjects_are_short_and_imperative() {
    let output = Command::new("git").args(["log", "--no-merges", "--format=%s", COMMITS]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: this is no clone of the repository, or git is not installed");
        return;
    };
    let subjects = String::from_utf8(output.stdout).unwrap();
    for subject in subjects.lines() {
        assert!(subject.chars().count() <= 72, "more than 72 characters: {subject}");
        assert!(!subject.ends_with('.'), "ends with a full stop: {subject}");
        let verb = subject.rsplit(": ").next().unwrap().split(' ').next().unwrap();
        let is_past = verb.ends_with("ed") && !["Need", "Feed", "Speed", "Seed", "Shed", "Embed"].contains(&verb);
        assert!(!is_past && (!verb.ends_with("ing") || verb == "Bring"), "not imperative (`{verb}`): {subject}");
    }
}
