//! What is made from the program: the command-line reference, and the tables of TLS policies. `UPDATE=1` writes them anew.

use std::fmt::Write as _;
use std::fs;

use clap::{Command, CommandFactory as _};
use tls::{Policy, ProtocolVersion};

use super::markdown::root;

/// Compares with a committed file, or writes it anew.
fn check(path: &str, actual: &str) {
    let path = root().join(path);
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, actual).unwrap();
    } else {
        let differs = actual.lines().zip(expected.lines()).find(|(new, old)| new != old);
        assert!(actual == expected, "{} differs (UPDATE=1 writes it anew): {differs:?}", path.display());
    }
}

#[test]
fn the_command_line_reference_is_what_help_prints() {
    let mut whole = portunus::cli::Arguments::command().term_width(100);
    whole.build();
    let mut out = String::from(
        "# Command line\n\n<!-- Generated: UPDATE=1 cargo test -p portunus --test all docs:: -->\n\n\
         What `-h` prints, for every command; `--help` says more of some options. Exit status: 0 if all is well, 1 if something was wrong, 2 for problems in the arguments. \
         `portunus man` prints the man page, `portunus completions SHELL` the completions of a shell.\n",
    );
    describe(&mut whole, &mut out);
    check("docs/command-line.md", &out);
}

fn describe(command: &mut Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or("portunus").to_owned();
    let help = command.render_help().to_string();
    let kept: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(out, "\n## {name}\n\n```text\n{}\n```\n", kept.join("\n").trim_end()).unwrap();
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        describe(inner, out);
    }
}

#[test]
fn the_tls_policies_are_those_of_the_program() {
    let path = "docs/tls.md";
    let text = fs::read_to_string(root().join(path)).unwrap();
    let (before, rest) = text.split_once("<!-- begin: policies -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end: policies -->").unwrap();
    check(path, &format!("{before}<!-- begin: policies -->\n{}<!-- end: policies -->{after}", policies()));
}

#[test]
fn the_rules_of_lint_are_those_of_the_program() {
    let path = "docs/contract-commands.md";
    let text = fs::read_to_string(root().join(path)).unwrap();
    let (before, rest) = text.split_once("<!-- begin: rules -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end: rules -->").unwrap();
    let mut rows = String::from("\n| rule | severity | meaning | fix |\n|---|---|---|---|\n");
    for rule in contract::lint::Rule::ALL {
        let severity = if rule.is_error() { "error" } else { "warning" };
        writeln!(rows, "| `{}` | {severity} | {} | {} |", rule.code(), rule.meaning(), rule.fix()).unwrap();
    }
    check(path, &format!("{before}<!-- begin: rules -->\n{rows}\n<!-- end: rules -->{after}"));
}

fn policies() -> String {
    let all = [("modern", Policy::Modern), ("intermediate", Policy::Intermediate), ("legacy", Policy::Legacy)];
    let mut out = String::from("\n| | `modern` | `intermediate` | `legacy` |\n|---|---|---|---|\n");
    let mut row = |what: &str, cell: &dyn Fn(Policy) -> String| {
        let cells: Vec<String> = all.iter().map(|(_, policy)| cell(*policy)).collect();
        writeln!(out, "| {what} | {} |", cells.join(" | ")).unwrap();
    };
    row("versions", &|policy| versions(policy.min_version()).into());
    row("suites of TLS 1.3", &|policy| policy.contents().tls13_suites.len().to_string());
    row("suites of TLS 1.2 and earlier", &|policy| policy.contents().older_suites.len().to_string());
    row("forward secrecy", &|policy| {
        let is_ephemeral = |suite: &&str| suite.starts_with("ECDHE-");
        let all = policy.contents().older_suites.iter().all(is_ephemeral);
        if all { "always" } else { "unless the client offers RSA key exchange alone" }.into()
    });
    for (name, policy) in all {
        let contents = policy.contents();
        write!(out, "\n### {name}\n\n").unwrap();
        list(&mut out, "TLS 1.3", &contents.tls13_suites);
        list(&mut out, "TLS 1.2 and earlier", &contents.older_suites);
        list(&mut out, "Groups", &contents.groups);
        list(&mut out, "Signatures", &contents.signature_schemes);
    }
    out.push('\n');
    out
}

fn list(out: &mut String, what: &str, items: &[&str]) {
    let items: Vec<String> = items.iter().map(|item| format!("`{item}`")).collect();
    let items = if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    writeln!(out, "- {what}: {items}").unwrap();
}

fn versions(lowest: ProtocolVersion) -> &'static str {
    match lowest {
        ProtocolVersion::Tls10 => "TLS 1.0, 1.1, 1.2, 1.3",
        ProtocolVersion::Tls11 => "TLS 1.1, 1.2, 1.3",
        ProtocolVersion::Tls12 => "TLS 1.2, 1.3",
        ProtocolVersion::Tls13 => "TLS 1.3",
    }
}
