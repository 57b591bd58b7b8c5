//! Several files as one configuration, and variables of the environment in it: what is said of mistakes, and when it is read again.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Gate, PORTUNUS, exchange, wait_until};

/// What `portunus check` says of the file `portunus.yaml` in a folder, and whether it can be used.
fn check(folder: &Path, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(PORTUNUS);
    let output = command.arg("check").arg("portunus.yaml").current_dir(folder).envs(variables.iter().copied()).output();
    let output = output.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder.join("conf.d/deep")).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// What is tried, files, and what is said of them.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

const MAIN: &str = "listeners: [{ name: web, bind: \"127.0.0.1:0\" }]\ninclude: [conf.d/*.yaml]\n";

#[test]
fn files_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    write(
        folder,
        &[
            (
                "portunus.yaml",
                &format!("{MAIN}trusted_proxies: 192.0.2.1\nroutes: [{{ path: /main, respond: {{ status: 200 }} }}]\n"),
            ),
            ("conf.d/a.yaml", "routes: [{ path: /a, upstream: shared }]\ninclude: deep/more.yaml\n"),
            ("conf.d/b.yaml", "# nothing yet\n"),
            ("conf.d/c.yaml", "upstreams: { shared: { servers: \"192.0.2.1:80\" } }\ntrusted_proxies: [192.0.2.2]\n"),
            ("conf.d/deep/more.yaml", "policies: { few: { allow_file: list.txt } }\n"),
            // Relative to the file in which it stands.
            ("conf.d/deep/list.txt", "192.0.2.0/24\n"),
            ("conf.d/broken.yaml~", "{{{"),
        ],
    );
    let (ok, said) = check(folder, &[]);
    assert!(ok && said.contains("1 listener, 0 keystores, 1 upstream, 2 routes"), "{said}");
}

/// Mistakes in included files.
const MISTAKES: [Case<'static>; 10] = [
    (
        "all files at once",
        &[("conf.d/a.yaml", "routes:\n  - { upstrem: b }\n"), ("conf.d/b.yaml", "limits: { max_header_bytes: 1 }\n")],
        &["conf.d/a.yaml:2:7: unknown key `upstrem`", "conf.d/b.yaml:1:29: `max_header_bytes` must be at least"],
    ),
    (
        "a name twice",
        &[
            ("conf.d/a.yaml", "upstreams: { u: { servers: \"192.0.2.1:80\" } }\n"),
            ("conf.d/b.yaml", "upstreams:\n  u: { servers: \"192.0.2.2:80\" }\n"),
        ],
        &["conf.d/b.yaml:2:3: `upstreams` has `u` already, at conf.d/a.yaml:1; fix: keep one of the two"],
    ),
    (
        "a setting twice",
        &[
            ("conf.d/a.yaml", "workers: 1\nlimits: { max_headers: 50 }\n"),
            ("conf.d/b.yaml", "workers: 1\nlimits: { max_headers: 50 }\n"),
        ],
        &[
            "conf.d/b.yaml:1:1: there is `workers` already, at conf.d/a.yaml:1",
            "conf.d/b.yaml:2:11: `limits` has `max_headers` already, at conf.d/a.yaml:2",
        ],
    ),
    (
        "a route twice",
        &[
            ("conf.d/a.yaml", "routes: [{ name: r, path: /, respond: { status: 200 } }]\n"),
            ("conf.d/b.yaml", "routes: [{ name: r, path: /, respond: { status: 200 } }]\n"),
        ],
        &[
            "conf.d/b.yaml:1:18: there is already a route `r` at conf.d/a.yaml:1",
            "conf.d/b.yaml:1: route `r` (/) and route `r` (/, at conf.d/a.yaml:1) match the same requests",
        ],
    ),
    ("no YAML", &[("conf.d/a.yaml", "routes: [\n")], &["conf.d/a.yaml:2:1: not valid YAML"]),
    (
        "no mapping",
        &[("conf.d/a.yaml", "- a\n")],
        &["conf.d/a.yaml:1:1: an included file must be a mapping, not a list"],
    ),
    (
        "not there",
        &[("conf.d/a.yaml", "include: gone.yaml\n")],
        &["conf.d/a.yaml:1:10: `conf.d/gone.yaml`: cannot read the file"],
    ),
    (
        "a circle",
        &[("conf.d/a.yaml", "include: ../portunus.yaml\n")],
        &["conf.d/a.yaml:1:10: `conf.d/../portunus.yaml` is included twice"],
    ),
    (
        "a folder",
        &[("conf.d/a.yaml", "include: deep/\n")],
        &["conf.d/a.yaml:1:10: `deep/` names no file; fix: write `deep/*.yaml`"],
    ),
    (
        "another kind",
        &[("conf.d/a.yaml", "routes: 1\n")],
        &["conf.d/a.yaml:1:9: `routes` is the number `1` here, and a list at portunus.yaml:3"],
    ),
];

#[test]
fn each_problem_names_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let respond = "respond: { status: 200 }";
    for (what, files, expected) in MISTAKES {
        let _ = fs::remove_dir_all(folder.join("conf.d"));
        write(folder, &[("portunus.yaml", &format!("{MAIN}routes: [{{ path: /main, {respond} }}]\n"))]);
        write(folder, files);
        let (ok, said) = check(folder, &[]);
        assert!(!ok && expected.iter().all(|expected| said.contains(expected)), "{what}: {said}");
    }
}

#[test]
fn variables_of_the_environment_stand_in_scalars() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let text = "workers: ${TEST_WORKERS:-1}\nlisteners: [{ name: web, bind: \"${TEST_BIND}\" }]\n\
        routes: [{ respond: { status: \"${TEST_STATUS:-200}\", body: \"a ${TEST_BODY} $${TEST_BODY} ${lower} b\" } }]\n";
    write(folder, &[("portunus.yaml", text)]);
    let (ok, said) = check(folder, &[]);
    assert!(!ok && said.contains("portunus.yaml:2:32: the environment variable `TEST_BIND` is not set"), "{said}");
    assert!(said.contains("write a default as in `${TEST_BODY:-default}`"), "{said}");
    let (ok, said) = check(folder, &[("TEST_BIND", ":0"), ("TEST_BODY", "x"), ("TEST_WORKERS", "many")]);
    assert!(!ok && said.contains("portunus.yaml:1:10: `workers` must be"), "{said}");
    let mut command = Command::new(PORTUNUS);
    // What a variable holds is text, whatever YAML would make of it.
    command.env("TEST_BIND", "127.0.0.1:0").env("TEST_BODY", "\"}, {x: [1");
    let file = folder.join("portunus.yaml");
    command.args(["run", "--no-watch"]).arg(file);
    let gate = Gate::start_command(dir, command, 1);
    let response = exchange(gate.address("web"), b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let response = String::from_utf8(response).unwrap();
    assert!(response.ends_with("\r\n\r\na \"}, {x: [1 ${TEST_BODY} ${lower} b"), "{response}");
    gate.stop();
}

#[test]
fn an_included_file_is_watched_and_so_is_one_that_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let route = |path: &str| format!("routes: [{{ path: {path}, respond: {{ status: 200 }} }}]\n");
    // The admin socket of this test lies beside the configuration.
    let main = format!("{MAIN}sandbox: {{ write: . }}\n");
    write(dir.path(), &[("portunus.yaml", &main), ("conf.d/a.yaml", &route("/a"))]);
    let file = dir.path().join("portunus.yaml");
    let mut command = Command::new(PORTUNUS);
    command.arg("run").arg(file);
    let gate = Gate::start_command(dir, command, 1);
    let status = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        crate::harness::statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
    };
    assert_eq!((status("/a"), status("/b")), (200, 404));
    let write_whole = |name: &str, text: &str| {
        fs::write(gate.dir.path().join("new"), text).unwrap();
        fs::rename(gate.dir.path().join("new"), gate.dir.path().join(name)).unwrap();
    };
    write_whole("conf.d/b.yaml", &route("/b"));
    wait_until("the new file", || status("/b") == 200);
    write_whole("conf.d/a.yaml", &route("/c"));
    wait_until("the changed file", || (status("/a"), status("/c")) == (404, 200));
    // One bad file keeps all as it was, and is named.
    write_whole("conf.d/b.yaml", "routes: [1]\n");
    gate.wait_for("conf.d/b.yaml:1:10");
    assert_eq!((status("/b"), status("/c")), (200, 200));
    fs::remove_file(gate.dir.path().join("conf.d/b.yaml")).unwrap();
    wait_until("the file that is gone", || status("/b") == 404);
    gate.stop();
}
