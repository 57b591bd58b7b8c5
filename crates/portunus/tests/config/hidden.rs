//! What works as a credential is shown nowhere: a configuration with a marker in each place, and everything that is said of it.

use std::process::Command;

use crate::harness::{Gate, PORTUNUS, Upstream, ask_on};

/// Where a secret may stand, `{}` in place of it.
const TEXT: &str = "
listeners: [{ name: web, bind: \"127.0.0.1:0\" }]
upstreams:
  app:
    servers: [\"{server}\"]
    health: { path: \"/healthz?key={}\", interval: 1h, headers: { X-Api-Key: \"{}\" } }
  auth: { servers: [\"{server}\"] }
tokens:
  api: { jwt: { algorithms: RS256, key_url: { url: \"http://127.0.0.1:9/keys?code={}\" } } }
policies:
  asked: { forward_auth: { upstream: auth, path: \"/check?token={}\" } }
routes:
  - { name: a, path: /a, upstream: app, when: { header: { X-Partner: \"{}\" } } }
  - { name: b, path: /b, upstream: app, when: { cookie: { preview: [\"{}\", { prefix: \"{}\" }] } } }
  - { name: c, path: /c, upstream: app, when: { query: { v: { regex: \"{}[0-9]\" } } } }
  - { name: d, path: /c, upstream: app, when: { query: { v: { exact: \"{}\" } } } }
  - { name: i, path: /i, upstream: app, when: { any: [{ not: { all: [{ header: { X-Deep: \"{}\" } }, { not: { cookie: { deep: { which: last, prefix: \"{}\" } } } }] } }, { query: { v: [{ which: all, regex: \"{}[0-9]\" }] } }] } }
  - { name: e, path: /e, upstream: app, rewrite: \"/x?key={}\", policies: asked }
  - { name: f, path: /f, redirect: { to: \"https://x.example/?key={}\", status: 302 } }
  - { name: h, path: /h, request_headers: { set: { Authorization: \"Bearer {}\" } }, split: [{ upstream: auth, when: { header: { X-Beta: \"{}\" } } }, { upstream: auth, when: { not: { header: { X-Gamma: \"{}\" } } } }, { upstream: app }] }
admin: { bind: \"127.0.0.2:0\", token: { file: token } }
";

fn with(upstream: &Upstream, secret: &str) -> String {
    TEXT.replace("{server}", &upstream.address.to_string()).replace("{}", secret)
}

#[test]
fn what_works_as_a_credential_is_shown_nowhere() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "0123456789abcdef0123").unwrap();
    std::fs::write(dir.path().join("other.yaml"), with(&upstream, "s3cond-marker")).unwrap();
    let gate = Gate::start_in(dir, &with(&upstream, "f1rst-marker"));
    let is_clean = |text: &str, where_from: &str| assert!(!text.contains("-marker"), "{where_from}: {text}");
    let field = "Authorization: Bearer 0123456789abcdef0123";
    for (method, path, _) in portunus::admin::PAGES.iter().filter(|(_, path, _)| !path.ends_with("/events")) {
        if *method == "GET" {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\nConnection: close\r\n\r\n");
            let (_, body) = ask_on(gate.address("admin"), &request);
            is_clean(&String::from_utf8_lossy(&body), path);
        }
    }
    let admin = format!("http://{}", gate.address("admin"));
    let runs: [&[&str]; 4] = [
        &["portunus.yaml", "other.yaml"],
        &["--json", "portunus.yaml", "other.yaml"],
        &["--running", "--admin", &admin, "--token-file", "token", "portunus.yaml"],
        &["--running", "--admin", &admin, "--token-file", "token", "other.yaml"],
    ];
    for arguments in runs {
        let output = Command::new(PORTUNUS).arg("diff").args(arguments).current_dir(gate.dir.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{arguments:?}: {text}");
        is_clean(&text, &format!("{arguments:?}"));
    }
    gate.rewrite(&with(&upstream, "th1rd-marker"));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    is_clean(&gate.diagnostics().join("\n"), "the log");
}
