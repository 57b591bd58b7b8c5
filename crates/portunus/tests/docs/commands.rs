//! Commands in the documentation are run, page by page, each page in a folder of its own and in a network of its own, so that ports are those that
//! the page says.
//!
//! - `sh` is run and must succeed; `sh not run: REASON` is not. A command that ends in `&` goes on until the end of the page.
//! - `console` is run, and what it prints must be what the page shows; `…` stands for anything.
//! - A block whose first line is a comment with a file name (`# portunus.yaml`) is that file from there on.
//! - `GeoLite2-Country.mmdb` and `GeoLite2-ASN.mmdb` are there: databases that nobody may pass on, in whose place those of the tests stand.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use super::markdown::{Block, Page, pages, root};

/// Languages whose blocks are shown and not run; YAML is checked as a configuration.
const SHOWN: &[&str] = &["yaml", "json", "text", "nginx", "haproxy", "nft", "rust", "toml"];

/// curl, but it waits for a server that was started a moment ago, and then begins with its first URL: who reads a page is never so fast.
const PATIENT_CURL: &str = r#"#!/bin/sh
tries=0
while :; do
  status=0
  /usr/bin/curl --fail-early "$@" 2> ".curl-$$" || status=$?
  tries=$((tries + 1))
  if [ "$status" -ne 7 ] || [ -e .in-vain ]; then cat ".curl-$$" >&2; exit "$status"; fi
  if [ "$tries" -gt 300 ]; then touch .in-vain; fi
  sleep 0.1
done
"#;

/// Databases of documentation ranges (`fuzz/README.md`), and what pages call them.
const DATABASES: [(&str, &str); 2] = [("country", "GeoLite2-Country.mmdb"), ("asn", "GeoLite2-ASN.mmdb")];

/// The script of a page, and what its commands must print, in order.
fn script(page: &Page) -> Result<(String, Vec<String>), String> {
    let mut script = String::new();
    let mut expected = Vec::new();
    for block in page.blocks() {
        let place = format!("{}:{}", page.path, block.line);
        if let Some(name) = file_name(&block) {
            script.push_str(&format!("cat > {name} <<'END OF {place}'\n{}END OF {place}\n", block.text));
        }
        match (block.language.as_str(), block.note.as_str()) {
            ("sh", "") => script.push_str(&format!("echo '--- {place}'\n{}", in_background(&block.text))),
            ("sh", note) if note.strip_prefix("not run: ").is_some_and(|why| !why.is_empty()) => {}
            ("console", "") => {
                script.push_str(&format!("echo '--- {place}'\n"));
                for (command, output) in dialogue(&block.text) {
                    let command = in_background(&command);
                    script.push_str(&format!("{{ {command} }} > .printed-{} 2>&1 || true\n", expected.len()));
                    expected.push(output);
                }
            }
            (language, "") if SHOWN.contains(&language) => {}
            ("yaml", _) => {}
            (language, note) => return Err(format!("{place}: `{language} {note}` says nothing to the test")),
        }
    }
    Ok((script, expected))
}

/// The name in a comment on the first line: `# portunus.yaml`.
fn file_name(block: &Block) -> Option<&str> {
    let name = block.text.lines().next()?.strip_prefix("# ")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (name.contains('.') && !name.ends_with('.') && name.chars().all(is_name)).then_some(name)
}

fn in_background(commands: &str) -> String {
    commands
        .lines()
        .map(|line| {
            line.strip_suffix(" &").map_or(format!("{line}\n"), |line| format!("{line} >> .background 2>&1 &\n"))
        })
        .collect()
}

/// Commands behind `$ `, each with what stands below it. A command may go on in the next line after a backslash.
fn dialogue(text: &str) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let command = line.strip_prefix("$ ").or(if goes_on { Some(line) } else { None });
        match (command, parts.last_mut()) {
            (Some(command), Some(last)) if goes_on => last.0.push_str(&format!("{command}\n")),
            (Some(command), _) => parts.push((format!("{command}\n"), String::new())),
            (None, Some(last)) => last.1.push_str(&format!("{line}\n")),
            (None, None) => panic!("output before any command: {line}"),
        }
        goes_on = command.is_some_and(|command| command.ends_with('\\'));
    }
    parts
}

/// Whether `printed` is `shown`, in which `…` stands for anything.
fn is_as_shown(printed: &str, shown: &str) -> bool {
    let (printed, shown) = (printed.trim_end().replace('\r', ""), shown.trim_end());
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Runs a page; what is wrong with it.
fn run(page: &Page) -> Result<(), String> {
    let (script, expected) = script(page)?;
    if script.is_empty() {
        return Ok(());
    }
    let place = Place::new();
    let said = place.run(&script).map_err(|said| format!("{}: {said}", page.path))?;
    for (at, shown) in expected.iter().enumerate() {
        let printed = fs::read_to_string(place.folder().join(format!(".printed-{at}"))).unwrap();
        if !is_as_shown(&printed, shown) {
            return Err(format!("{}\n--- shown\n{shown}--- printed\n{printed}{said}", page.path));
        }
    }
    Ok(())
}

/// A folder of its own with the program on the path, and a network of its own in which nobody else has ports.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let tools = place.0.path().join("bin");
        fs::create_dir(&tools).unwrap();
        fs::create_dir(place.folder()).unwrap();
        for (database, name) in DATABASES {
            fs::copy(root().join("fuzz/corpus/mmdb").join(database), place.folder().join(name)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_portunus"), tools.join("portunus")).unwrap();
        fs::write(tools.join("curl"), PATIENT_CURL).unwrap();
        fs::set_permissions(tools.join("curl"), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// Where scripts run.
    pub fn folder(&self) -> PathBuf {
        self.0.path().join("here")
    }

    /// Runs a script, and ends whatever it started; what was printed, in the error case with the status.
    pub fn run(&self, script: &str) -> Result<String, String> {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("unshare");
        // Who is not root may have a network of his own in a user namespace.
        if !rustix::process::getuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let script = format!("set -eu\nip link set lo up\n{script}");
        command.args(["--net", "--pid", "--fork", "--kill-child", "bash", "-c", &script]);
        command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", self.0.path().join("bin").display()));
        // The usual admin socket is one for the machine, and pages are tried side by side.
        command.env("PORTUNUS_CONTROL", "none");
        let output = command.current_dir(self.folder()).output().unwrap();
        let background = fs::read_to_string(self.folder().join(".background")).unwrap_or_default();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let said = format!("{out}{err}--- in the background\n{background}");
        if output.status.success() { Ok(said) } else { Err(format!("{}\n{said}", output.status)) }
    }
}

#[test]
fn every_command_does_what_its_page_says() {
    let problems: Vec<String> =
        pages().iter().filter(|page| is_for_operators(page)).filter_map(|page| run(page).err()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// The pages of the site and the README; the others are for those who work on the program.
fn is_for_operators(page: &Page) -> bool {
    page.path == "README.md" || page.path.starts_with("docs/") || page.path.starts_with("packaging/")
}

#[test]
fn a_page_that_is_wrong_is_seen() {
    let outcome = |text: &str| run(&Page { path: "p.md".into(), text: text.into() });
    outcome("```yaml\n# a.yaml\nx: 1\n```\n```sh\ntest -s a.yaml\nsleep 60 &\n```\n```console\n$ echo one two\none …\n$ false\n```\n").unwrap();
    outcome("```sh not run: needs a moon\nfalse\n```\n").unwrap();
    for text in
        ["```sh\nfalse\n```\n", "```console\n$ echo one\ntwo\n```\n", "```sh not run: \n```\n", "```\nwhat\n```\n"]
    {
        assert!(outcome(text).is_err(), "{text}");
    }
}
