//! What the README shows works: its configuration is valid. That it is also a good one is for people to check.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

#[test]
fn the_configuration_in_the_readme_is_valid() {
    let readme = include_str!("../../../README.md");
    let block = readme.split("```yaml\n").nth(1).expect("a YAML block").split("```").next().unwrap();
    if let Err(problems) = config::parse("README.md", block, Path::new("/")) {
        panic!("{problems}");
    }
}
