//! `portunus check --online`: what is wrong with each name, before an authority looks.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use super::knot::Knot;
use crate::harness::{PORTUNUS, vacant};

/// Checks a file in a mount namespace in which this is the name server.
fn check(dir: &Path, knot: &Knot, text: &str) -> Output {
    let resolv = dir.join("resolv.conf");
    std::fs::write(&resolv, format!("nameserver {}\noptions timeout:30 attempts:1\n", knot.address.ip())).unwrap();
    std::fs::write(dir.join("portunus.yaml"), text).unwrap();
    std::fs::write(dir.join("tsig"), super::knot::SECRET).unwrap();
    let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", script, "sh"]).arg(resolv).arg(PORTUNUS);
    command.args(["check", "--online"]).arg(dir.join("portunus.yaml")).output().unwrap()
}

#[test]
fn each_name_is_said_to_be_right_or_what_is_wrong_and_the_fix() {
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: name servers of one's own need root");
        return;
    }
    let (here, unbound) = (vacant().ip(), vacant().ip());
    let address = SocketAddr::new(vacant().ip(), 53);
    let records = format!(
        "good IN A {here}\nclosed IN A {unbound}\nhalf IN A {here}\nhalf IN A {unbound}\nalias IN CNAME good\n\
         _acme-challenge.wild IN CNAME wild.dynamic.test."
    );
    let knot = Knot::start_at(address, &[("portunus.test", &records), ("dynamic.test", "")]);
    let dir = tempfile::tempdir().unwrap();
    let keystore = |name: &str, names: &str, more: &str| {
        format!(
            "  {name}: {{ acme: {{ folder: {name}, directory: letsencrypt, accept_terms: true, names: [{names}]{more} }} }}\n"
        )
    };
    let file = |own: &str, wild: &str| {
        let update = format!(", challenges: dns-01, dns: {{ {} }}", knot.update("dynamic.test"));
        format!(
            "listeners:
  - {{ name: tls, bind: \"{here}:443\", tls: {{ keystore: own }} }}
  - {{ name: wild, bind: \"{here}:444\", tls: {{ keystore: wild }} }}
keystores:
{}{}routes: [{{ respond: {{ status: 200 }} }}]
",
            keystore("own", own, ""),
            keystore("wild", wild, &update)
        )
    };
    let output = check(dir.path(), &knot, &file("good.portunus.test, alias.portunus.test", "\"*.wild.portunus.test\""));
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{out}{err}");
    for expected in [
        format!("keystore own: good.portunus.test: ok, tls-alpn-01 can be proved at port 443 of {here}"),
        format!("keystore own: alias.portunus.test: ok, tls-alpn-01 can be proved at port 443 of {here}"),
        "keystore wild: *.wild.portunus.test: ok, _acme-challenge.wild.portunus.test is an alias of wild.dynamic.test, in the zone dynamic.test".to_owned(),
    ] {
        assert!(out.contains(&expected), "{expected}: {out}{err}");
    }
    assert!(!dir.path().join("own").exists() && knot.updates("dynamic.test") == 0, "nothing is changed");

    let own = "good.portunus.test, closed.portunus.test, half.portunus.test, missing.portunus.test";
    let output = check(dir.path(), &knot, &file(own, "www.portunus.test"));
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("good.portunus.test: ok"), "{out}");
    for expected in [
        format!("keystore own: closed.portunus.test: nothing listens at {unbound}:443, which is this machine"),
        format!("keystore own: half.portunus.test: nothing listens at {unbound}:443, which is this machine"),
        "keystore own: missing.portunus.test: missing.portunus.test has no A or AAAA record; add one".to_owned(),
        "keystore wild: www.portunus.test: _acme-challenge.www.portunus.test is in no `zone` of `dns.update`"
            .to_owned(),
    ] {
        assert!(err.contains(&expected), "{expected}: {err}");
    }
}
