//! Pages of Markdown as far as the checks need them: fenced blocks, headings, links. Text inside of fences and code spans is neither.

use std::fs;
use std::path::{Path, PathBuf};

/// Pages beside those in `docs/` and those of the crates.
const OTHERS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "bench/RESULTS.md",
    "packaging/README.md",
];

/// One page.
pub struct Page {
    /// Relative to the repository.
    pub path: String,
    pub text: String,
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of its opening fence, from 1.
    pub line: usize,
    /// First word of the info string.
    pub language: String,
    /// The rest of it.
    pub note: String,
    pub text: String,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the repository, those in `docs/` first.
pub fn pages() -> Vec<Page> {
    let root = root();
    let mut paths: Vec<String> = names(&root.join("docs"), ".md").iter().map(|name| format!("docs/{name}")).collect();
    assert!(paths.len() > 20, "{paths:?}");
    paths.extend(OTHERS.iter().map(|path| (*path).to_owned()));
    paths.extend(names(&root.join("crates"), "").iter().map(|name| format!("crates/{name}/README.md")));
    let read = |path: &String| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    paths.iter().map(|path| Page { path: path.clone(), text: read(path) }).collect()
}

/// Names in a folder that end so, in order.
pub fn names(folder: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(ending));
    names.sort();
    names
}

impl Page {
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let Some((indent, info)) = fence(line) else { continue };
            let (language, note) = info.split_once(' ').unwrap_or((info, ""));
            let mut text = String::new();
            let mut closed = false;
            for (_, line) in lines.by_ref() {
                if fence(line).is_some() {
                    closed = true;
                    break;
                }
                text.push_str(line.get(indent.min(line.len() - line.trim_start().len())..).unwrap_or(""));
                text.push('\n');
            }
            assert!(closed, "{}:{}: the block is never closed", self.path, at + 1);
            blocks.push(Block { line: at + 1, language: language.into(), note: note.into(), text });
        }
        blocks
    }

    /// Lines that are prose, with their numbers; code spans are blanked out.
    fn prose(&self) -> impl Iterator<Item = (usize, String)> {
        let mut inside = false;
        self.text.lines().enumerate().filter_map(move |(at, line)| {
            if fence(line).is_some() {
                inside = !inside;
                return None;
            }
            (!inside).then(|| (at + 1, without_code(line)))
        })
    }

    /// Targets of links, with their lines.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (at, line) in self.prose() {
            for part in line.split("](").skip(1) {
                let target = part.split(')').next().unwrap().split(' ').next().unwrap();
                links.push((at, target.to_owned()));
            }
        }
        links
    }

    /// What may stand behind `#` in a link here: headings as GitHub and mdBook call them.
    pub fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        let mut inside = false;
        for line in self.text.lines() {
            inside ^= fence(line).is_some();
            if inside || !line.starts_with('#') {
                continue;
            }
            let slug = slug(line.trim_start_matches('#').trim());
            let same = anchors.iter().filter(|other| **other == slug).count();
            anchors.push(if same == 0 { slug } else { format!("{slug}-{same}") });
        }
        anchors
    }
}

/// Indentation and info string, if this line is a fence.
fn fence(line: &str) -> Option<(usize, &str)> {
    let bare = line.trim_start();
    bare.strip_prefix("```").map(|info| (line.len() - bare.len(), info.trim()))
}

fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { "x".repeat(part.chars().count()) }).collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let text = "# A `b.c` d\n\nSee [x](y.md#z) and `[no](link)`.\n\n  ```yaml fragment=a.b\n  c:\n    d: 1\n  ```\n## A `b.c` d\n";
    let page = Page { path: "p.md".into(), text: text.into() };
    assert_eq!(page.links(), [(3, "y.md#z".to_owned())]);
    assert_eq!(page.anchors(), ["a-bc-d", "a-bc-d-1"]);
    let block = Block { line: 5, language: "yaml".into(), note: "fragment=a.b".into(), text: "c:\n  d: 1\n".into() };
    assert_eq!(page.blocks(), [block]);
}
