//! Names that are proved by TXT records: set by updates, by a program and by acme-dns, waited for, and removed.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::edge::{Wanted, folder, is_served, kept, ports, wait_for_kept, yaml};
use super::knot::{Knot, SECRET};
use super::pebble::Planned;
use crate::harness::{Gate, PORTUNUS, Reply, Upstream, vacant, wait_until};

const WILDCARD: &str = "\"*.portunus.test\"";
const STEM: &str = "_wildcard.portunus.test.ecdsa";
const RECORD: &str = "_acme-challenge.portunus.test";

/// A folder with the key of updates.
fn with_key() -> TempDir {
    let dir = folder();
    std::fs::write(dir.path().join("tsig"), format!("{SECRET}\n")).unwrap();
    dir
}

/// Settings of `acme` for a wildcard that is proved this way.
fn acme(dns: &str) -> String {
    format!(", names: [{WILDCARD}], challenges: dns-01, dns: {{ {dns} }}")
}

/// An executable file.
fn script(dir: &Path, text: &str) -> String {
    let path = dir.join("hook");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_wildcard_is_proved_by_a_signed_update_that_is_taken_back() {
    let Some(planned) = Planned::new() else { return };
    let knot = Knot::start(&[("portunus.test", "")]);
    let planned = planned.asking(knot.address);
    let upstream = Upstream::ok();
    let acme = acme(&format!("{}, name_servers: \"{}\"", knot.update("portunus.test, other.test"), knot.address));
    let wanted = Wanted { acme: &acme, ..Wanted::from(&planned, &["www.portunus.test"]) };
    let gate = Gate::start_in(with_key(), &yaml(&upstream, &wanted));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let leaf = wait_for_kept(&gate, STEM);
    assert_eq!(leaf.dns_names(), ["*.portunus.test"]);
    wait_until("a name below to be served", || is_served(&gate, "www.portunus.test"));
    wait_until("the record to be removed", || knot.ask(RECORD, "TXT").is_empty());
    assert!(knot.updates("portunus.test") >= 2, "{}", knot.log());
    wait_until("the record to be forgotten", || {
        let text = std::fs::read_to_string(gate.dir.path().join(format!("store/records/{STEM}.json"))).unwrap();
        text.contains("\"txt\":null")
    });
    assert!(!gate.diagnostics().iter().any(|line| line.contains(SECRET)), "no secret in the log");
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn an_update_that_is_rejected_is_quoted() {
    let Some(planned) = Planned::new() else { return };
    let knot = Knot::start(&[("portunus.test", "")]);
    let upstream = Upstream::ok();
    let dir = folder();
    std::fs::write(dir.path().join("tsig"), "bm90IHRoZSBrZXk=").unwrap();
    let acme = acme(&knot.update("portunus.test"));
    let gate = Gate::start_in(
        dir,
        &yaml(&upstream, &Wanted { acme: &acme, ..Wanted::from(&planned, &["www.portunus.test"]) }),
    );
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    gate.wait_for("the name server rejected the update");
    assert!(!pebble.log().contains("Pulled a task"), "the authority is not asked to look: {}", pebble.log());
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn an_authority_looks_only_when_all_name_servers_have_the_record() {
    let Some(planned) = Planned::new() else { return };
    let knot = Knot::start(&[("portunus.test", "")]);
    let other = Knot::start(&[("other.test", "")]);
    let upstream = Upstream::ok();
    let servers = format!("name_servers: [\"{}\", \"{}\"], propagation_timeout: 1s", knot.address, other.address);
    let acme = acme(&format!("{}, {servers}", knot.update("portunus.test")));
    let gate = Gate::start_in(
        with_key(),
        &yaml(&upstream, &Wanted { acme: &acme, ..Wanted::from(&planned, &["www.portunus.test"]) }),
    );
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    gate.wait_for(&format!("is not to be seen after 1s: the name server {}", other.address));
    assert!(!pebble.log().contains("Pulled a task"), "the authority is not asked to look: {}", pebble.log());
    wait_until("the record to be removed", || knot.updates("portunus.test") >= 2);
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn the_zones_own_name_servers_are_found_and_an_alias_is_followed() {
    let Some(planned) = Planned::new() else { return };
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: name servers of one's own need root");
        return;
    }
    let address = SocketAddr::new(vacant().ip(), 53);
    let alias = format!("{} IN CNAME proofs.dynamic.test.", RECORD.replace(".portunus.test", ""));
    let knot = Knot::start_at(address, &[("portunus.test", &alias), ("dynamic.test", "")]);
    // It asks a resolver, which would follow the alias into the other zone.
    let planned = planned.with("PEBBLE_VA_ALWAYS_VALID", "1");
    let upstream = Upstream::ok();
    let acme = acme(&knot.update("dynamic.test"));
    let wanted = Wanted { acme: &acme, ..Wanted::from(&planned, &["www.portunus.test"]) };
    let dir = with_key();
    let resolv = dir.path().join("resolv.conf");
    std::fs::write(&resolv, format!("nameserver {}\noptions timeout:30 attempts:1\n", address.ip())).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
    command.args(["--mount", "--", "sh", "-c", script, "sh"]).arg(resolv).arg(PORTUNUS);
    let gate = Gate::start_by(dir, &yaml(&upstream, &wanted), command);
    let (http, tls) = ports(&gate);
    let _pebble = planned.start(http, tls);
    wait_for_kept(&gate, STEM);
    wait_until("the record to be removed", || knot.ask("proofs.dynamic.test", "TXT").is_empty());
    assert!(knot.updates("dynamic.test") >= 2 && knot.updates("portunus.test") == 0, "{}", knot.log());
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_program_sets_records_without_our_environment() {
    let Some(planned) = Planned::new() else { return };
    let knot = Knot::start(&[("portunus.test", "")]);
    let planned = planned.asking(knot.address);
    let upstream = Upstream::ok();
    let dir = folder();
    let (ip, port) = (knot.address.ip(), knot.address.port());
    // What the program writes beside has a folder of its own, which the sandbox is told.
    let notes = tempfile::tempdir().unwrap();
    let path = notes.path().display().to_string();
    let more = format!("sandbox: {{ mode: on, write: \"{path}\" }}");
    let hook = script(
        dir.path(),
        &format!(
            "env >> {path}/environment; pwd >> {path}/environment; echo \"$@\" >> {path}/arguments\n\
             case $2 in present) what=add;; cleanup) what=delete;; *) exit 3;; esac\n\
             printf 'server {ip} {port}\\nzone portunus.test\\nupdate %s %s 60 TXT \"%s\"\\nsend\\n' $what \"$3\" \"$4\" | knsupdate -y hmac-sha256:portunus:{SECRET}"
        ),
    );
    let acme = acme(&format!("run: [\"{hook}\", \"one argument\"], name_servers: \"{}\"", knot.address));
    let mut command = Command::new(PORTUNUS);
    command.env("TOP_SECRET", "not for programs");
    let wanted = Wanted { acme: &acme, more: &more, ..Wanted::from(&planned, &["www.portunus.test"]) };
    let gate = Gate::start_by(dir, &yaml(&upstream, &wanted), command);
    let (http, tls) = ports(&gate);
    let _pebble = planned.start(http, tls);
    wait_for_kept(&gate, STEM);
    let read = |name: &str| std::fs::read_to_string(notes.path().join(name)).unwrap_or_default();
    wait_until("the record to be removed", || read("arguments").contains(" cleanup "));
    let arguments = read("arguments");
    assert!(arguments.starts_with(&format!("one argument present {RECORD}. ")), "{arguments}");
    let environment = read("environment");
    assert!(environment.contains("PATH=/") && !environment.contains("SECRET"), "{environment}");
    assert!(environment.lines().any(|line| line == "/"), "{environment}");
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_program_that_fails_is_quoted_and_one_that_hangs_is_killed_with_what_it_started() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let dir = folder();
    let hook = script(dir.path(), "echo 'no such zone' >&2; exit 7");
    let own = acme(&format!("run: {hook}, timeout: 300ms"));
    let notes = tempfile::tempdir().unwrap();
    let more = format!("sandbox: {{ mode: on, write: \"{}\" }}", notes.path().display());
    let wanted = Wanted { acme: &own, more: &more, ..Wanted::from(&planned, &["www.portunus.test"]) };
    let gate = Gate::start_in(dir, &yaml(&upstream, &wanted));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    gate.wait_for("no such zone");
    // The number of its group is that of the first process in it.
    let file = notes.path().join("group").display().to_string();
    script(gate.dir.path(), &format!("echo $$ > {file}.new; mv {file}.new {file}; sleep 1000 & sleep 1000"));
    gate.wait_for("it took longer than 300ms");
    let group = std::fs::read_to_string(&file).unwrap();
    let group = group.trim();
    wait_until("it and what it started to end", || {
        let left = Command::new("ps").args(["-o", "stat=", "--ppid", group, "-p", group]).output().unwrap();
        String::from_utf8_lossy(&left.stdout).lines().all(|state| state.starts_with('Z'))
    });
    assert!(!pebble.log().contains("Pulled a task"), "{}", pebble.log());
    assert!(kept(gate.dir.path(), STEM).is_none());
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn acme_dns_is_given_the_text_by_the_account_of_the_host() {
    let Some(planned) = Planned::new() else { return };
    let (_, texts) = planned.texts();
    let server = Upstream::start(move |seen| {
        let update: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let is_ours = seen.fields("x-api-user") == ["user"] && seen.fields("x-api-key") == ["key"];
        assert!(is_ours && update["subdomain"] == "sub", "{}", seen.head);
        texts.lock().unwrap().entry(RECORD.to_owned()).or_default().push(update["txt"].as_str().unwrap().to_owned());
        Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec())
    });
    let upstream = Upstream::ok();
    let dir = folder();
    let accounts = r#"{"portunus.test": {"username": "user", "password": "key", "fulldomain": "sub.auth.test", "subdomain": "sub"}}"#;
    std::fs::write(dir.path().join("accounts.json"), accounts).unwrap();
    let dns =
        format!("acme_dns: {{ url: \"http://{}\", accounts: accounts.json }}, propagation_timeout: 0s", server.address);
    let acme = acme(&dns);
    let wanted = Wanted { acme: &acme, ..Wanted::from(&planned, &["www.portunus.test"]) };
    let gate = Gate::start_in(dir, &yaml(&upstream, &wanted));
    let (http, tls) = ports(&gate);
    let _pebble = planned.start(http, tls);
    wait_for_kept(&gate, STEM);
    assert_eq!(server.seen()[0].line(), "POST /update HTTP/1.1");
    assert!(!gate.diagnostics().iter().any(|line| line.contains("\"key\"")), "no credentials in the log");
}
