//! Configuration files against the messages they cause and the configuration they become, and generated documents against their source.
//!
//! `UPDATE=1` writes what is expected anew; look at the difference before committing it.

use std::fs;
use std::path::{Path, PathBuf};

mod golden;
mod hidden;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = root().join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no files in {}", folder.display());
    files
}

/// Compares with a committed file, or writes it anew.
fn check(actual: &str, path: &Path) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if actual != expected {
        panic!("{} differs (UPDATE=1 writes it anew)\n--- expected\n{expected}\n--- actual\n{actual}", path.display());
    }
}

fn pretty(value: &serde_json::Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap();
    text.push('\n');
    text
}

#[test]
fn invalid_files_give_exactly_these_messages() {
    for path in files("crates/portunus/tests/config/invalid") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        let Err(problems) = config::parse(name, &text, Path::new("/etc/portunus")) else {
            panic!("{name} is accepted")
        };
        let actual = problems.to_string();
        assert_eq!(
            actual.lines().count(),
            problems.list().len() + usize::from(problems.further() > 0),
            "one line per problem: {actual}"
        );
        check(&actual, &path.with_extension("expected"));
    }
}

/// One of each thing, without anything that need not be said.
const USUAL: &str = "
listeners:
  - { name: a, bind: ':1', tls: { keystore: k, client_certificate: { mode: required, ca: ca.pem } }, proxy_protocol: { trust: 10.0.0.0/8 } }
  - { name: b, bind: ':2', tunnel: { upstream: t } }
udp_listeners: [{ name: u, bind: ':3', upstream: '127.0.0.1:4', proxy_protocol: { mode: each, trust: 10.0.0.0/8 } }]
keystores: { k: { folder: f } }
key_servers: { s: { servers: 'unix:s.sock' } }
upstreams:
  u: { servers: 'a:1', tls: true, health: { path: / } }
  t: { servers: 'a:1', protocol: tcp }
contracts: { c: { document: d.yaml, tokens: t, deny_tokens: { file: f, header: a }, allow_addresses: { file: f } } }
tokens: { t: { jwt: { algorithms: ES256, public_key: k.pem } } }
routes: [{ upstream: u, path: / }]
admin: { bind: '127.0.0.1:5' }
";

fn parse(name: &str, text: &str) -> config::Config {
    config::parse(name, text, Path::new("/etc/portunus")).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

/// What a file becomes is told by how it differs from [`USUAL`], so that a new setting changes none of what is expected.
#[test]
fn valid_files_become_exactly_this() {
    let usual = golden::usual(&parse("usual.yaml", USUAL));
    for path in files("crates/portunus/tests/config/valid") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let config = parse(name, &fs::read_to_string(&path).unwrap());
        check(&golden::deviations(&config, &usual), &path.with_extension("expected"));
    }
}

#[test]
fn a_new_setting_at_its_default_changes_no_expected_file() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "printed")]
    struct Inner {
        old: u32,
        new: Option<u32>,
    }
    let usual = golden::usual(&[Inner { old: 1, new: Some(5) }]);
    assert_eq!(golden::deviations(&[Inner { old: 2, new: Some(5) }], &usual), "\n  Inner\n    old: 2\n");
    assert_eq!(golden::deviations(&[Inner { old: 1, new: None }], &usual), "\n  Inner\n    new: None\n");
}

/// `GET /config` can be pasted back: it loads, becomes the same configuration, and prints the same.
#[test]
fn what_a_configuration_prints_of_itself_becomes_the_same_configuration() {
    let mut count = 0;
    for path in files("crates/portunus/tests/config/valid").into_iter().chain(files("examples")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        if name.starts_with("key-server") {
            continue;
        }
        let config = parse(name, &text);
        let effective = config.effective.to_string();
        serde_json::from_str::<serde_json::Value>(&effective).unwrap();
        if effective.contains(config::REDACTED) {
            let problems = config::parse(name, &effective, Path::new("/etc/portunus")).unwrap_err().to_string();
            assert!(problems.contains("this is no value but what stands in place of one"), "{name}\n{problems}");
            continue;
        }
        let again = parse(name, &effective);
        assert_eq!(golden::whole(&again), golden::whole(&config), "{name}\n{effective}");
        assert_eq!(again.effective.to_string(), effective, "{name}");
        count += 1;
    }
    assert!(count > 15, "{count}");
    for path in
        files("crates/portunus/tests/config/key-server").into_iter().chain([root().join("examples/key-server.yaml")])
    {
        let text = fs::read_to_string(&path).unwrap();
        let load = |text: &str| config::parse_key_server("k.yaml", text, Path::new("/etc/portunus"));
        let Ok(config) = load(&text) else { continue };
        let effective = config.effective.to_string();
        let again = load(&effective).unwrap_or_else(|problems| panic!("{effective}\n{problems}"));
        assert_eq!(golden::whole(&again), golden::whole(&config), "{effective}");
    }
}

#[test]
fn examples_are_valid() {
    for path in files("examples") {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let base = Path::new("/etc/portunus");
        let problems = match name.starts_with("key-server") {
            true => config::parse_key_server(name, &text, base).err(),
            false => config::parse(name, &text, base).err(),
        };
        if let Some(problems) = problems {
            panic!("{problems}");
        }
    }
}

#[test]
fn the_committed_schema_is_the_program_s() {
    check(&pretty(&config::json_schema()), &root().join("docs/portunus.schema.json"));
}

#[test]
fn the_committed_reference_is_the_program_s() {
    check(&config::reference(), &root().join("docs/configuration.md"));
}

#[test]
fn the_committed_schema_and_reference_of_the_key_server_are_the_program_s() {
    check(&pretty(&config::key_server_json_schema()), &root().join("docs/portunus-key-server.schema.json"));
    check(&config::key_server_reference(), &root().join("docs/key-server-configuration.md"));
}

#[test]
fn the_committed_reference_of_a_fleet_s_node_is_the_program_s() {
    check(&config::fleet_reference(), &root().join("docs/fleet-configuration.md"));
}

#[test]
fn key_server_files_give_exactly_these_messages_or_become_exactly_this() {
    let usual = "{ listeners: [{ name: a, bind: 'unix:a' }], keys: { k: { files: k.pem } }, access: [{ clients: '*', keys: k }] }";
    let usual = golden::usual(&config::parse_key_server("usual.yaml", usual, Path::new("/etc/portunus")).unwrap());
    for path in files("crates/portunus/tests/config/key-server") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        match config::parse_key_server(name, &text, Path::new("/etc/portunus")) {
            Ok(config) => check(&golden::deviations(&config, &usual), &path.with_extension("expected")),
            Err(problems) => check(&problems.to_string(), &path.with_extension("expected")),
        }
    }
}

/// The library states its defaults for those who use it alone; the table of settings states them for operators.
#[test]
fn a_contract_without_settings_has_the_defaults_of_the_library() {
    let text =
        "listeners: [{name: a, bind: ':0'}]\nroutes: [{respond: {status: 200}}]\ncontracts: {c: {document: c.yaml}}\n";
    let config = parse("p.yaml", text);
    assert_eq!(
        format!("{:#?}", config.contracts["c"].options),
        format!("{:#?}", contract::options::Options::default())
    );
}

#[test]
fn load_looks_for_the_files_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portunus.yaml");
    let text = "
listeners:
  - name: edge
    bind: '127.0.0.1:0'
    tls: { keystore: main, client_certificate: { mode: required, ca: ca.pem } }
keystores:
  main: { folder: certs }
  other: { pkcs12: certs, password: { file: missing/password } }
";
    fs::write(&path, text).unwrap();
    let problems = config::load(&path).unwrap_err().to_string().replace(&folder.path().display().to_string(), "DIR");
    let expected = "\
DIR/portunus.yaml:5:70: cannot use the file `DIR/ca.pem`: No such file or directory (os error 2); fix: check the path; relative ones start at the folder of this file
DIR/portunus.yaml:7:19: cannot use the folder `DIR/certs`: No such file or directory (os error 2); fix: check the path; relative ones start at the folder of this file
DIR/portunus.yaml:8:20: cannot use the file `DIR/certs`: No such file or directory (os error 2); fix: check the path; relative ones start at the folder of this file
DIR/portunus.yaml:8:45: cannot use the file `DIR/missing/password`: No such file or directory (os error 2); fix: check the path; relative ones start at the folder of this file
";
    assert_eq!(problems, expected);
    fs::create_dir(folder.path().join("certs")).unwrap();
    fs::create_dir(folder.path().join("missing")).unwrap();
    fs::write(folder.path().join("ca.pem"), "").unwrap();
    fs::write(folder.path().join("missing/password"), "").unwrap();
    let problems = config::load(&path).unwrap_err().to_string().replace(&folder.path().display().to_string(), "DIR");
    assert_eq!(problems, "DIR/portunus.yaml:8:20: `DIR/certs` is a folder, not a file; fix: name a file in it\n");
    fs::write(&path, text.lines().filter(|line| !line.contains("other")).collect::<Vec<_>>().join("\n")).unwrap();
    let config = config::load(&path).unwrap();
    assert_eq!(config.keystores["main"].location, keystore::Location::PemFolder(folder.path().join("certs")));
}

#[test]
fn load_says_why_a_file_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let load =
        |path: &Path| config::load(path).unwrap_err().to_string().replace(&folder.path().display().to_string(), "DIR");
    assert_eq!(
        load(&folder.path().join("none.yaml")),
        "DIR/none.yaml: cannot read the file: No such file or directory (os error 2); fix: check the path; `examples/` holds configurations to start from\n"
    );
    let path = folder.path().join("p.yaml");
    fs::write(&path, b"a: b\nc: \xff\n").unwrap();
    assert_eq!(load(&path), "DIR/p.yaml: not UTF-8 text, first in line 2; fix: save it as UTF-8\n");
}

/// Row 38 of the attack matrix: a file ten times over its expected size is rejected, quickly and clearly.
#[test]
fn a_file_of_ten_times_the_size_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.yaml");
    let large = "routes:\n".to_owned() + &"  - { upstream: app, path: /a }\n".repeat(40 * 1024 * 1024 / 32);
    fs::write(&path, &large).unwrap();
    let expected = "the file is larger than 4MiB; fix: make it smaller; check what generated it\n";
    assert_eq!(config::load(&path).unwrap_err().to_string(), format!("{}: {expected}", path.display()));
    assert_eq!(
        config::parse("big.yaml", &large, Path::new("")).unwrap_err().to_string(),
        format!("big.yaml: {expected}")
    );
    let nodes = format!("listeners: [{}]", "a,".repeat(210_000));
    let problems = config::parse("nodes.yaml", &nodes, Path::new("")).unwrap_err();
    assert!(problems.to_string().contains("more than 200000 values"), "{problems}");
}

#[test]
fn at_most_a_hundred_problems_are_reported() {
    let text = format!("listeners:\n{}", "  - 1\n".repeat(250));
    let problems = config::parse("p.yaml", &text, Path::new("")).unwrap_err();
    assert_eq!((problems.list().len(), problems.further()), (100, 150));
    assert!(problems.to_string().ends_with("\nand 150 more\n"));
}

#[test]
fn problems_show_their_line_but_never_a_secret() {
    let text =
        "listeners:\n  - name: edge\n    bind: ':65536'\nkeystores:\n  main: { pkcs12: a.p12, password: hunter2 }\n";
    let problems = config::parse("p.yaml", text, Path::new("")).unwrap_err();
    let rendered = problems.render(false);
    assert!(rendered.contains("3 |     bind: ':65536'") && rendered.contains("^^^^^^^^"), "{rendered}");
    assert!(rendered.contains("p.yaml:5:36"), "{rendered}");
    assert!(!rendered.contains("hunter2") && !problems.to_string().contains("hunter2"), "{rendered}");
    assert!(!rendered.contains('\x1b') && problems.render(true).contains('\x1b'));
    for line in [
        "main: { pkcs12: 5, password: hunter2 }",
        "main: { pkcs12: a.p12, pasword: hunter2 }",
        "main: { pkcs12: a.p12, password: { env: hunter-2, file: hunter2 } }",
        "main: { pkcs12: a.p12, password: { hunter2: x } }",
        "main: { pkcs12: a.p12, password: [hunter2] }",
        "main: { pkcs12: a.p12, password: \"hunter2 }",
    ] {
        let text = format!("listeners:\n  - name: edge\n    bind: ':1'\nkeystores:\n  {line}\n");
        let problems = config::parse("p.yaml", &text, Path::new("")).unwrap_err();
        let rendered = format!("{problems}{}", problems.render(false));
        assert!(!rendered.contains("hunter"), "{rendered}");
    }
}

#[test]
fn credentials_in_header_edits_are_redacted() {
    let text = "
listeners: [ { name: edge, bind: ':1' } ]
upstreams: { app: { servers: ['a:1'] } }
routes:
  - upstream: app
    headers: { x-api-key: hunter2, x-beta: '1' }
    request_headers: { set: { Authorization: hunter2, x-plain: seen }, add: { X-Some-Token: hunter2 } }
    response_headers: { set: { Set-Cookie: hunter2 } }
";
    let json = config::parse("p.yaml", text, Path::new("")).unwrap().effective.to_string();
    assert!(!json.contains("hunter2") && json.contains("seen"), "{json}");
    assert_eq!(json.matches("(redacted)").count(), 4, "{json}");
    let problems = config::parse("p.yaml", &json, Path::new("")).unwrap_err().to_string();
    assert!(problems.contains("write the value itself") && problems.lines().count() == 4, "{problems}");
}

/// As on a fresh clone: what the examples name is made by the program, and the program finds nothing wrong with any of them.
#[test]
fn every_example_is_checked_clean_by_the_program_with_the_files_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_portunus"))
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), text)
    };
    fs::create_dir_all(folder.path().join("examples/shop")).unwrap();
    for path in files("examples") {
        fs::copy(&path, folder.path().join("examples").join(path.file_name().unwrap())).unwrap();
    }
    fs::copy(root().join("examples/shop/openapi.yaml"), folder.path().join("examples/shop/openapi.yaml")).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&["demo", "--example-files", "examples"]), (true, String::new()));
    }
    for path in files("examples") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let file = format!("examples/{name}");
        let arguments: &[&str] =
            if name.starts_with("key-server") { &["key-server", "check", &file] } else { &["check", &file] };
        let (success, text) = run(arguments);
        assert!(success && !text.contains("warning"), "{name}: {text}");
    }
}
