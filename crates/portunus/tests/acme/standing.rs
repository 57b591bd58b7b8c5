//! Names that are proved by a TXT record that was set once (dns-persist-01), at an authority that offers it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::edge::{Wanted, folder, is_served, ports, wait_for_kept, yaml};
use super::knot::{Knot, SECRET};
use super::pebble::Planned;
use crate::harness::{Gate, PORTUNUS, Upstream, vacant, wait_until};

const RECORD: &str = "_validation-persist.portunus.test";

/// A command in a mount namespace in which this is the name server; none, said, without the right to have one.
fn under(dir: &Path, name_server: SocketAddr) -> Option<Command> {
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: name servers of one's own need root");
        return None;
    }
    let resolv = dir.join("resolv.conf");
    std::fs::write(&resolv, format!("nameserver {}\noptions timeout:30 attempts:1\n", name_server.ip())).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
    command.args(["--mount", "--", "sh", "-c", script, "sh"]).arg(resolv).arg(PORTUNUS);
    Some(command)
}

/// Sets the text of the record.
fn set(knot: &Knot, text: &str) {
    let (ip, port) = (knot.address.ip(), knot.address.port());
    let update = format!(
        "server {ip} {port}\nzone portunus.test\nupdate delete {RECORD}. TXT\nupdate add {RECORD}. 1 TXT \"{text}\"\nsend\n"
    );
    let mut command = Command::new("knsupdate");
    command.args(["-y", &format!("hmac-sha256:portunus:{SECRET}")]).stdin(Stdio::piped());
    let mut child = command.spawn().expect("knsupdate is installed (Debian package knot-dnsutils)");
    child.stdin.take().unwrap().write_all(update.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// What a line of the log says is to be set.
fn text_to_set(gate: &Gate) -> String {
    let mut text = None;
    let beginning = "IN TXT \\\"";
    wait_until("the record to set", || {
        text = gate.diagnostics().iter().find_map(|line| {
            let (_, rest) = line.split_once(beginning)?;
            Some(rest.split_once("\\\"")?.0.to_owned())
        });
        text.is_some()
    });
    text.unwrap()
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_wildcard_is_proved_by_a_record_that_was_set_once() {
    let Some(planned) = Planned::new() else { return };
    let knot = Knot::start_at(SocketAddr::new(vacant().ip(), 53), &[("portunus.test", "")]);
    let planned = planned.asking(knot.address).set("caaIdentities", json!(["pebble.example", "other.example"]));
    let upstream = Upstream::ok();
    let dir = folder();
    let Some(command) = under(dir.path(), knot.address) else { return };
    let acme = ", names: [\"*.portunus.test\"], challenges: dns-persist-01";
    let wanted = Wanted { acme, ..Wanted::from(&planned, &["www.portunus.test"]) };
    let gate = Gate::start_by(dir, &yaml(&upstream, &wanted), command);
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    let text = text_to_set(&gate);
    assert!(text.starts_with("pebble.example; accounturi=https://") && text.ends_with("; policy=wildcard"), "{text}");
    let check = || {
        let mut command = under(gate.dir.path(), knot.address).unwrap();
        let output = command.args(["check", "--online"]).arg(gate.dir.path().join("portunus.yaml")).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), text)
    };
    let (is_good, said) = check();
    assert!(!is_good && said.contains(&format!("there is no record {RECORD}")) && said.contains(&text), "{said}");
    // One of another account, and one that is not for what is below.
    for wrong in
        [text.replace("accounturi=https://", "accounturi=https://evil."), text.replace("; policy=wildcard", "")]
    {
        set(&knot, &wrong);
        let (is_good, said) = check();
        assert!(!is_good && said.contains("is for this account"), "{said}");
    }
    assert!(!pebble.log().contains("Pulled a task"), "the authority is not asked to look: {}", pebble.log());
    set(&knot, &text);
    assert!(check().0);
    let leaf = wait_for_kept(&gate, "_wildcard.portunus.test.ecdsa");
    assert_eq!(leaf.dns_names(), ["*.portunus.test"]);
    wait_until("a name below to be served", || is_served(&gate, "www.portunus.test"));
    assert!(knot.ask(RECORD, "TXT").contains("accounturi"), "it stays");
}
