//! Links lead to files that are there, and to headings in them. The index of the site has every page once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::markdown::{Page, names, pages, root};

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
        plain
    })
}

/// What is wrong with the links of a page, given the anchors of all.
fn broken(page: &Page, anchors: &BTreeMap<PathBuf, Vec<String>>, is_there: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, link) in page.links() {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
        let folder = Path::new(&page.path).parent().unwrap();
        let target = if file.is_empty() { PathBuf::from(&page.path) } else { plain(&folder.join(file)) };
        let is_known =
            anchor.is_none_or(|anchor| anchors.get(&target).is_some_and(|all| all.iter().any(|one| one == anchor)));
        if !is_there(&target) || !is_known {
            problems.push(format!("{}:{line}: {link} leads nowhere", page.path));
        }
    }
    problems
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let anchors = pages.iter().map(|page| (PathBuf::from(&page.path), page.anchors())).collect();
    let root = root();
    let problems: Vec<String> =
        pages.iter().flat_map(|page| broken(page, &anchors, |path| root.join(path).exists())).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_broken_link_is_seen() {
    let page = Page {
        path: "docs/a.md".into(),
        text: "# Here\n[a](b.md#c) [d](b.md#no) [e](gone.md) [f](#here) [g](../x)\n".into(),
    };
    let anchors = BTreeMap::from([("docs/a.md".into(), page.anchors()), ("docs/b.md".into(), vec!["c".into()])]);
    let found = broken(&page, &anchors, |path| path != Path::new("docs/gone.md"));
    assert_eq!(found, ["docs/a.md:2: b.md#no leads nowhere", "docs/a.md:2: gone.md leads nowhere"]);
}

#[test]
fn the_index_has_every_page_once() {
    let root = root();
    let text = fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap();
    let mut listed: Vec<String> =
        Page { path: "docs/SUMMARY.md".into(), text }.links().into_iter().map(|(_, target)| target).collect();
    listed.sort();
    let mut there = names(&root.join("docs"), ".md");
    there.retain(|name| name != "SUMMARY.md");
    assert_eq!(listed, there);
}
