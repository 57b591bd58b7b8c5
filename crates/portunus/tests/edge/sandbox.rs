//! What the gate gives up when it starts, and what that does not keep it from: reloads in the folders it knows, upgrades into those it does not.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{ask, get, keystore, launcher_of, tls_listener, yaml};
use crate::harness::{Gate, PORTUNUS, Upstream, certificates, wait_until};

/// A line of `/proc/PID/status` of each thread, without its name.
fn of_each_thread(pid: u32, name: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        // A thread may end while we look.
        let status = std::fs::read_to_string(entry.unwrap().path().join("status")).ok()?;
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {status}"));
        Some(line.split_whitespace().nth(1).unwrap().to_owned())
    };
    threads.filter_map(read).collect()
}

fn capabilities(pid: u32) -> Vec<u64> {
    of_each_thread(pid, "CapEff:").iter().map(|text| u64::from_str_radix(text, 16).unwrap()).collect()
}

fn has_landlock(gate: &Gate) -> bool {
    let is_there = !gate.diagnostics().iter().any(|line| line.contains("no Landlock"));
    if !is_there {
        eprintln!("skipped: this kernel has no Landlock");
    }
    is_there
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0)
}

#[test]
fn every_thread_gives_up_what_the_configuration_does_not_need() {
    let upstream = Upstream::ok();
    for (more, is_confined) in [("", true), ("sandbox: on", true), ("sandbox: off", false)] {
        let gate = Gate::start(&yaml(&upstream, "", more));
        let is_all = |name: &str, value: &str| of_each_thread(gate.pid(), name).iter().all(|found| found == value);
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "), "{more}");
        assert_eq!(is_all("Seccomp:", "2"), is_confined, "{more}");
        assert_eq!(is_all("NoNewPrivs:", "1"), is_confined, "{more}");
        if is_root() {
            assert_eq!(capabilities(gate.pid()).iter().all(|held| *held == 0), is_confined, "{more}");
        }
        assert_eq!(
            gate.diagnostics().iter().any(|line| line.contains("sandbox: no new privileges")),
            is_confined,
            "{more}"
        );
        assert_eq!(gate.stop(), Some(0));
    }
}

/// A link that appears among the certificates and leads to a folder that was not named.
#[test]
fn the_running_gate_cannot_open_what_was_not_named() {
    let upstream = Upstream::ok();
    let elsewhere = certificates(&[("b.example", false)]);
    let listener = tls_listener("tls", "127.0.0.3", "");
    for sandbox in ["auto", "off"] {
        let dir = certificates(&[("a.example", false)]);
        let more = format!("{}\nsandbox: {sandbox}", keystore("a.example"));
        let gate = Gate::start_in(dir, &yaml(&upstream, &listener, &more));
        if sandbox == "auto" && !has_landlock(&gate) {
            return;
        }
        symlink(elsewhere.path().join("certs/0-Ecdsa.pem"), gate.dir.path().join("certs/linked.pem")).unwrap();
        gate.signal("HUP");
        if sandbox == "off" {
            gate.wait_for("\"generation\":2");
        } else {
            gate.wait_for("the sandbox may be the reason");
            let reported = gate.diagnostics().join("\n");
            assert!(reported.contains("linked.pem") && reported.contains("ermission denied"), "{reported}");
        }
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    }
}

fn reload(control: &Path) -> Result<(), String> {
    let output = Command::new(PORTUNUS).args(["reload", "--control"]).arg(control).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stderr).unwrap()) }
}

/// A gate with an admin socket in its folder.
fn start_with_control(yaml: &str) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    // As the harness writes it later: a log in the folder of the configuration.
    std::fs::write(dir.path().join("portunus.yaml"), format!("{yaml}\nlog: {{ access: {{ output: access.log }} }}\n"))
        .unwrap();
    let mut command = Command::new(PORTUNUS);
    command.args(["run", "--no-watch", "--control"]).arg(dir.path().join("control.sock"));
    command.arg(dir.path().join("portunus.yaml"));
    Gate::start_command(dir, command, 2)
}

/// Signals a process of this test.
fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// Ended with the test.
struct Successor(u32);

impl Drop for Successor {
    fn drop(&mut self) {
        kill("-KILL", &self.0.to_string());
    }
}

#[test]
fn what_a_reload_cannot_reach_is_named_and_an_upgrade_reaches_it() {
    let upstream = Upstream::ok();
    let elsewhere = tempfile::tempdir().unwrap();
    let list = elsewhere.path().join("office.txt");
    std::fs::write(&list, "127.0.0.0/8\n").unwrap();
    let with = |more: &str| yaml(&upstream, "", more);
    let policies = format!("policies: {{ office: {{ allow_file: {} }} }}", list.display());
    let gate = start_with_control(&with(""));
    let control = gate.dir.path().join("control.sock");
    if !has_landlock(&gate) {
        return;
    }
    // Within the folders it has, all is as ever.
    let near = gate.dir.path().join("near.txt");
    std::fs::write(&near, "127.0.0.0/8\n").unwrap();
    gate.rewrite(&with(&policies.replace(list.to_str().unwrap(), near.to_str().unwrap())));
    assert_eq!(reload(&control), Ok(()));
    gate.rewrite(&with(&policies));
    let problem = reload(&control).unwrap_err();
    let folder = elsewhere.path().display().to_string();
    assert!(problem.contains(&folder) && problem.contains("portunus upgrade"), "{problem}");
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "), "what was active serves on");
    let output = Command::new(PORTUNUS).args(["upgrade", "--control"]).arg(&control).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let pid = said.split_whitespace().nth(2).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    let _successor = Successor(pid);
    assert_eq!(reload(&control), Ok(()), "the new process was shut in with the new folder");
    assert!(of_each_thread(pid, "Seccomp:").iter().all(|mode| mode == "2"));
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_folder_that_was_named_beforehand_can_be_reached() {
    let upstream = Upstream::ok();
    let elsewhere = tempfile::tempdir().unwrap();
    let list = elsewhere.path().join("office.txt");
    std::fs::write(&list, "127.0.0.0/8\n").unwrap();
    let sandbox = format!("sandbox: {{ mode: auto, read: {} }}\n", elsewhere.path().display());
    let gate = start_with_control(&yaml(&upstream, "", &sandbox));
    let policies = format!("policies: {{ office: {{ allow_file: {} }} }}", list.display());
    gate.rewrite(&yaml(&upstream, "", &format!("{sandbox}{policies}")));
    assert_eq!(reload(&gate.dir.path().join("control.sock")), Ok(()));
}

/// The new process begins with all rights of the old one's start, not with what that one has left.
#[test]
fn capabilities_that_were_given_up_come_back_with_an_upgrade() {
    const NET_ADMIN: u64 = 1 << 12;
    if !is_root() {
        return eprintln!("skipped: only root has capabilities to give up");
    }
    let upstream = Upstream::ok();
    let plain = yaml(&upstream, "", "");
    let marked = plain.replace("app: { servers", "app: { mark: 7, servers");
    let gate = start_with_control(&plain);
    let control = gate.dir.path().join("control.sock");
    assert!(capabilities(gate.pid()).iter().all(|held| held & NET_ADMIN == 0));
    gate.rewrite(&marked);
    let problem = reload(&control).unwrap_err();
    assert!(problem.contains("CAP_NET_ADMIN") && problem.contains("portunus upgrade"), "{problem}");
    let output = Command::new(PORTUNUS).args(["upgrade", "--control"]).arg(&control).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let pid = said.split_whitespace().nth(2).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    let _successor = Successor(pid);
    assert!(capabilities(pid).iter().all(|held| held & NET_ADMIN != 0));
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
}

/// The process that would start the program again is no longer there than the gate, however that ends.
#[test]
fn nothing_is_left_when_the_gate_is_killed() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&yaml(&upstream, "", ""));
    let launcher = launcher_of(gate.pid());
    let descriptors = || std::fs::read_dir(format!("/proc/{launcher}/fd")).unwrap().count();
    wait_until("no descriptors but the standard ones and the channel", || descriptors() == 4);
    // A signal to the whole group is the gate's to obey.
    kill("-TERM", &launcher.to_string());
    gate.signal("KILL");
    let is_gone = || {
        let status = std::fs::read_to_string(format!("/proc/{launcher}/status")).unwrap_or_default();
        !status.contains("portunus-launch") || status.contains("State:\tZ")
    };
    wait_until("the launcher to end", is_gone);
}

#[test]
fn check_says_what_would_be_kept_and_why() {
    let upstream = Upstream::ok();
    let dir = certificates(&[("a.example", false)]);
    let text = yaml(&upstream, &tls_listener("tls", "127.0.0.3", ""), &keystore("a.example"));
    let text = text.replace("127.0.0.3:0", "127.0.0.3:443");
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    let output = Command::new(PORTUNUS).args(["check", "--sandbox"]).arg(dir.path().join("portunus.yaml")).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    let certs = dir.path().join("certs").display().to_string();
    for part in ["sandbox: auto", "CAP_NET_BIND_SERVICE", "below 1024", &certs, "(keystore)", "/etc/resolv.conf"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("CAP_NET_ADMIN"), "{said}");
}

/// Answers of all kinds, beside what the other tests of the edge do under the same sandbox.
#[test]
fn the_log_goes_on_after_it_was_renamed() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&yaml(&upstream, "", ""));
    ask(gate.address("web"), "GET /one", "Host: a.example\r\n");
    gate.log(1);
    let log = gate.dir.path().join("access.log");
    std::fs::rename(&log, gate.dir.path().join("access.log.1")).unwrap();
    gate.signal("USR1");
    wait_until("a new file", || log.exists());
    ask(gate.address("web"), "GET /two", "Host: a.example\r\n");
    let is_there = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/two"));
    wait_until("the line in the new file", is_there);
}
