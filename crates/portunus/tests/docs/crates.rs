//! Each crate says at its door what it owns, what it does not, and where to begin.

use std::fs;

use super::markdown::{names, root};

#[test]
fn every_crate_has_a_readme_that_says_the_same_three_things() {
    let folder = root().join("crates");
    for name in names(&folder, "") {
        let text = fs::read_to_string(folder.join(&name).join("README.md")).unwrap_or_default();
        assert!(text.starts_with(&format!("# {name}\n")), "crates/{name}/README.md does not begin with `# {name}`");
        for heading in ["\n## Owns\n", "\n## Does not\n", "\n## Begin here\n"] {
            assert!(text.contains(heading), "crates/{name}/README.md has no heading{heading}");
        }
    }
}
