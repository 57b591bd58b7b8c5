//! `portunus upgrade` in a container, whose first process is the one that is upgraded: the container outlives it, and its engine, which knows no other process,
//! reaches those that took over.
//!
//! A container is a process number space of its own here, which takes the rights of root or a kernel that lets everybody be root in a space of users.

use std::collections::BTreeSet;
use std::process::Command;

use super::get;
use crate::harness::{Gate, PORTUNUS, vacant, wait_until};

/// The words that make a container; none, and why it is skipped, where there can be none.
fn container() -> Option<Vec<&'static str>> {
    let words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    for more in [&[][..], &["--user", "--map-root-user"]] {
        let all = [&words[..], more].concat();
        let tried = Command::new(all[0]).args(&all[1..]).arg("true").output();
        if tried.is_ok_and(|output| output.status.success()) {
            return Some(all);
        }
    }
    eprintln!("skipped: no process number space of one's own can be had here");
    None
}

struct Container {
    gate: Gate,
    /// The first process, by its number outside.
    first: u32,
}

impl Container {
    fn start(words: &[&str]) -> Container {
        let dir = tempfile::tempdir().unwrap();
        let yaml = format!(
            "workers: 1\nlisteners:\n  - {{ name: web, bind: \"{}\" }}\nroutes:\n  - respond: {{ status: 200, body: hello }}\nlimits: {{ drain_timeout: 1s }}\n",
            vacant()
        );
        std::fs::write(dir.path().join("portunus.yaml"), yaml).unwrap();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(PORTUNUS).args(["run", "--no-watch", "portunus.yaml"]);
        let gate = Gate::start_command(dir, command, 1);
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", gate.pid())).unwrap();
        let first = children.trim().parse().unwrap();
        Container { gate, first }
    }

    /// Processes of the program in it, without those that start it.
    fn servers(&self) -> BTreeSet<u32> {
        let space = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = space(self.first);
        let state = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_server =
            |pid: &u32| space(*pid) == own && state(*pid).contains("(portunus) ") && !state(*pid).contains(") Z");
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_server).collect()
    }

    /// Upgrades, and waits until the process before has ended, unless it is the first one. Gives the new one, by its number outside.
    fn upgrade(&self) -> u32 {
        let before = self.servers();
        let control = self.gate.dir.path().join("control.sock");
        let output = Command::new(PORTUNUS).args(["upgrade", "--control"]).arg(control).output().unwrap();
        assert!(output.status.success(), "{} {:#?}", String::from_utf8_lossy(&output.stderr), self.gate.diagnostics());
        let mut found = BTreeSet::new();
        wait_until("the first process and the one that serves to be all", || {
            found = self.servers();
            found.len() == 2
        });
        assert!(found.contains(&self.first), "{found:?}");
        *found.iter().find(|pid| !before.contains(pid)).unwrap()
    }

    fn serves(&self) {
        assert!(get(self.gate.address("web")).starts_with("HTTP/1.1 200 "));
    }

    /// Signals the first process.
    fn signal(&self, name: &str) {
        let pid = self.first.to_string();
        assert!(Command::new("kill").args([format!("-{name}"), pid]).status().unwrap().success());
    }

    fn end(mut self) -> Option<i32> {
        self.gate.running_exit()
    }
}

#[test]
fn a_container_outlives_its_first_process() {
    let Some(words) = container() else { return };
    let container = Container::start(&words);
    container.serves();
    let second = container.upgrade();
    container.gate.wait_for("this process stays, since the container would end with it");
    container.serves();
    // What that one starts is no child of the first process.
    let third = container.upgrade();
    assert_ne!(second, third);
    container.serves();
    container.signal("HUP");
    wait_until("the one that serves to reload", || {
        container.gate.diagnostics().iter().any(|line| line.contains("\"reloaded\"") && line.contains("SIGHUP"))
    });
    container.serves();
    container.signal("TERM");
    assert_eq!(container.end(), Some(0));
}

#[test]
fn a_container_ends_while_it_is_upgraded_when_it_is_told_to() {
    let Some(words) = container() else { return };
    let container = Container::start(&words);
    container.upgrade();
    // Whether the first process still drains or stays already.
    container.signal("TERM");
    assert_eq!(container.end(), Some(0));
}

#[test]
fn a_container_ends_with_whoever_serves() {
    let Some(words) = container() else { return };
    let container = Container::start(&words);
    let second = container.upgrade();
    container.serves();
    assert!(Command::new("kill").args(["-KILL", &second.to_string()]).status().unwrap().success());
    assert_eq!(container.end(), Some(1), "so that its engine starts it again");
}
