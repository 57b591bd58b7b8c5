//! What the gate gives up when it starts, and what that does not keep it from: reloads in the folders it knows, upgrades into those it does not.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ask, get, keystore, launcher_of, tls_listener, yaml};
use crate::harness::{Gate, PORTUNUS, Upstream, certificates, member, wait_until};

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

fn has_landlock() -> bool {
    let is_there = net::confine::landlock_version().is_some();
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
    for (more, is_confined) in [("", true), ("sandbox: auto", true), ("sandbox: on", true), ("sandbox: off", false)] {
        if more == "sandbox: on" && !has_landlock() {
            continue;
        }
        let gate = Gate::start(&yaml(&upstream, "", more));
        let is_all = |name: &str, value: &str| of_each_thread(gate.pid(), name).iter().all(|found| found == value);
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "), "{more}");
        assert_eq!(is_all("Seccomp:", "2"), is_confined, "{more}");
        assert_eq!(is_all("NoNewPrivs:", "1"), is_confined, "{more}");
        if is_root() {
            assert_eq!(capabilities(gate.pid()).iter().all(|held| *held == 0), is_confined, "{more}");
            let bounds = of_each_thread(gate.pid(), "CapBnd:");
            assert_eq!(bounds.iter().all(|bound| bound.chars().all(|digit| digit == '0')), is_confined, "{more}");
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
        if sandbox == "auto" && !has_landlock() {
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
    if !has_landlock() {
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

/// Connections to Unix sockets of others are kept from a gate that has nothing to do with any.
#[test]
fn a_gate_without_unix_sockets_makes_none_once_it_serves() {
    let upstream = Upstream::ok();
    let elsewhere = tempfile::tempdir().unwrap();
    let _server = std::os::unix::net::UnixListener::bind(elsewhere.path().join("app.sock")).unwrap();
    let plain = yaml(&upstream, "", "");
    let address = format!("unix:{}", elsewhere.path().join("app.sock").display());
    let with_socket = plain.replace("upstreams:\n", &format!("upstreams:\n  other: {{ servers: [\"{address}\"] }}\n"));
    assert_ne!(plain, with_socket);
    for (sandbox, is_taken) in [("", false), (elsewhere.path().to_str().unwrap(), true)] {
        let named = if sandbox.is_empty() { String::new() } else { format!("sandbox: {{ connect: {sandbox} }}\n") };
        let gate = start_with_control(&format!("{plain}\n{named}"));
        gate.rewrite(&format!("{with_socket}\n{named}"));
        let outcome = reload(&gate.dir.path().join("control.sock"));
        assert_eq!(outcome.is_ok(), is_taken, "{outcome:?}");
        assert!(is_taken || outcome.is_err_and(|problem| problem.contains("names a Unix socket")));
    }
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

/// The log lies beside the configuration: it is written to, and nothing else can be made or changed there, as what makes a log anew shows.
#[test]
fn a_log_beside_the_configuration_is_the_only_file_there_that_is_written() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&yaml(&upstream, "", ""));
    if !has_landlock() {
        return;
    }
    ask(gate.address("web"), "GET /one", "Host: a.example\r\n");
    gate.log(1);
    let log = gate.dir.path().join("access.log");
    std::fs::rename(&log, gate.dir.path().join("access.log.1")).unwrap();
    gate.signal("USR1");
    gate.wait_for("ermission denied");
    assert!(!log.exists(), "no file is made in the folder");
    let before = std::fs::read(gate.dir.path().join("portunus.yaml")).unwrap();
    ask(gate.address("web"), "GET /two", "Host: a.example\r\n");
    let renamed = gate.dir.path().join("access.log.1");
    wait_until("the next line", || std::fs::read_to_string(&renamed).is_ok_and(|text| text.contains("/two")));
    assert_eq!(std::fs::read(gate.dir.path().join("portunus.yaml")).unwrap(), before);
}

/// What replaces files would have to have the whole folder.
#[test]
fn what_would_write_where_the_configuration_lies_does_not_start() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("portunus.yaml");
    let check = |more: &str| {
        std::fs::write(&file, yaml(&upstream, "", more)).unwrap();
        let output = Command::new(PORTUNUS).args(["check", "--sandbox"]).arg(&file).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = check("ticket_keys: tickets.key");
    assert!(said.contains("problem: ") && said.contains("give it a folder of its own"), "{said}");
    let output = Command::new(PORTUNUS).args(["run", "--control", "none"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("portunus.yaml: give it a folder of its own"), "{said}");
    std::fs::create_dir(dir.path().join("tickets")).unwrap();
    assert!(!check("ticket_keys: tickets/tickets.key").contains("problem: "));
}

/// Who holds the gate may ask for an upgrade; whatever the file says by then, the new process gives up as much.
#[test]
fn an_upgrade_does_not_lower_the_sandbox() {
    let upstream = Upstream::ok();
    for (before, after, is_taken) in [("auto", "off", false), ("on", "auto", false), ("auto", "on", true)] {
        if [before, after].contains(&"on") && !has_landlock() {
            continue;
        }
        let with = |mode: &str| yaml(&upstream, "", &format!("sandbox: {mode}"));
        let gate = start_with_control(&with(before));
        gate.rewrite(&with(after));
        let output = Command::new(PORTUNUS)
            .args(["upgrade", "--control"])
            .arg(gate.dir.path().join("control.sock"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_taken, "{before} {after}: {said}");
        if is_taken {
            let pid = said.split_whitespace().nth(2).and_then(|word| word.parse().ok());
            drop(Successor(pid.unwrap_or_else(|| panic!("{said}"))));
        } else {
            assert!(said.contains("never lowers it: restart instead"), "{said}");
            assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "), "what was active serves on");
        }
    }
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
    for part in ["sandbox: on", "CAP_NET_BIND_SERVICE", "below 1024", &certs, "(keystore)", "/etc/resolv.conf"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("CAP_NET_ADMIN"), "{said}");
}

/// A gate with a log in a folder of its own.
fn with_log_apart(text: &str) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    let log = "log: { access: { output: logs/access.log } }";
    std::fs::write(dir.path().join("portunus.yaml"), format!("{text}\n{log}\n")).unwrap();
    let mut command = Command::new(PORTUNUS);
    command.args(["run", "--no-watch", "--control", "none"]).arg(dir.path().join("portunus.yaml"));
    Gate::start_command(dir, command, 2)
}

#[test]
fn the_log_goes_on_after_it_was_renamed() {
    let upstream = Upstream::ok();
    let gate = with_log_apart(&yaml(&upstream, "", ""));
    ask(gate.address("web"), "GET /one", "Host: a.example\r\n");
    let log = gate.dir.path().join("logs/access.log");
    wait_until("the line", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/one")));
    std::fs::rename(&log, gate.dir.path().join("logs/access.log.1")).unwrap();
    gate.signal("USR1");
    wait_until("a new file", || log.exists());
    ask(gate.address("web"), "GET /two", "Host: a.example\r\n");
    let is_there = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/two"));
    wait_until("the line in the new file", is_there);
}

/// The sandbox's own words at the start of a gate, with what it left open.
fn left_open(gate: &Gate, kind: &str) -> String {
    let diagnostics = gate.diagnostics();
    let line = diagnostics.iter().find(|line| line.contains("sandbox: no new privileges"));
    let event: serde_json::Value = serde_json::from_str(line.unwrap_or_else(|| panic!("{diagnostics:#?}"))).unwrap();
    member(&event, kind).unwrap_or_else(|| panic!("{event}")).to_owned()
}

/// What `check --sandbox` says of a file in the folder it is run in, and whether it finds it good.
fn check_in(folder: &Path, environment: &[(&str, &str)]) -> (String, String, bool) {
    let mut command = Command::new(PORTUNUS);
    command.args(["check", "--sandbox", "portunus.yaml"]).current_dir(folder).env_remove("PORTUNUS_CONTROL");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.success())
}

/// Lines of `check --sandbox` of a kind, each the path alone.
fn places(said: &str, kind: &str) -> Vec<PathBuf> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("  ")?.strip_prefix(kind)?.strip_prefix(' '));
    lines.filter_map(|line| Some(PathBuf::from(line.trim_start().split("  (").next()?))).collect()
}

/// Servers of every kind may be behind Unix sockets.
#[test]
fn every_unix_socket_that_is_named_may_be_connected_to() {
    let dir = certificates(&[("a.example", false)]);
    let kinds = ["upstream", "keys", "consul", "docker", "etcd", "rates", "names", "syslog"];
    let socket = |kind: &str| format!("unix:{}", dir.path().join(kind).join("it.sock").display());
    let [upstream, keys, consul, docker, etcd, rates, names, syslog] = kinds.map(socket);
    let text = format!(
        "listeners: [{{ name: web, bind: '127.0.0.1:0' }}]
upstreams:
  app: {{ servers: ['{upstream}', {{ source: consul, service: x }}, {{ source: docker, service: x }}, {{ source: etcd, service: x }}] }}
routes: [{{ path: '/{{*rest}}', upstream: app, policies: [slow] }}]
key_servers: {{ far: {{ servers: ['{keys}'] }} }}
discovery:
  consul: {{ consul: {{ address: '{consul}' }}, networks: [10.0.0.0/8] }}
  docker: {{ docker: {{ address: '{docker}' }}, networks: [10.0.0.0/8] }}
  etcd: {{ etcd: {{ addresses: '{etcd}', prefix: /x }}, networks: [10.0.0.0/8] }}
rate_store: {{ address: '{rates}', nodes: 2, secret: {{ env: PATH }} }}
policies: {{ slow: {{ rate_limit: {{ rate: 1/h, burst: 3, scope: fleet }} }} }}
keystores:
  main:
    acme:
      folder: orders
      accept_terms: true
      directory: letsencrypt
      names: '*.a.example'
      challenges: [dns-01]
      dns: {{ update: {{ server: '{names}', zone: a.example, key: {{ name: k.a.example, algorithm: hmac-sha256, secret: {{ env: PATH }} }} }} }}
log: {{ access: {{ output: {{ syslog: '{syslog}' }} }} }}
"
    );
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    let (said, problems, is_good) = check_in(dir.path(), &[]);
    assert!(is_good, "{problems}");
    let mut wanted: Vec<PathBuf> = kinds.iter().map(|kind| dir.path().join(kind)).collect();
    wanted.sort();
    assert_eq!(places(&said, "connect"), wanted, "{said}");
    assert!(!said.contains("no new Unix sockets"), "{said}");
}

/// Of a Unix listener's folder no more is left open than that sockets are made there: `unix:/run/portunus.sock` does not open all of /run.
#[test]
fn the_folder_of_a_unix_listener_is_not_open_for_files() {
    let upstream = Upstream::ok();
    let elsewhere = tempfile::tempdir().unwrap();
    let socket = elsewhere.path().join("edge.sock");
    let listener = format!("  - {{ name: local, bind: 'unix:{}' }}", socket.display());
    let start = || {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("portunus.yaml"), yaml(&upstream, &listener, "log: { level: info }")).unwrap();
        let mut command = Command::new(PORTUNUS);
        command.args(["run", "--no-watch"]).arg(dir.path().join("portunus.yaml"));
        Gate::start_command(dir, command, 2)
    };
    let gate = start();
    let _client = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    if has_landlock() {
        let folder = elsewhere.path().to_str().unwrap();
        assert!(left_open(&gate, "sockets").contains(folder), "{:#?}", gate.diagnostics());
        assert!(!left_open(&gate, "write").contains(folder), "{:#?}", gate.diagnostics());
    }
    // Another process takes its place there.
    gate.signal("KILL");
    wait_until("the end", || std::os::unix::net::UnixStream::connect(&socket).is_err());
    let _next = start();
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
}

/// As `logrotate` leaves it with `nocreate`.
#[test]
fn a_reload_is_taken_while_the_log_beside_the_configuration_is_renamed_away() {
    let upstream = Upstream::ok();
    let with = |more: &str| yaml(&upstream, "", more) + "\nlog: { access: { output: access.log } }\n";
    let gate = start_with_control(&yaml(&upstream, "", ""));
    let control = gate.dir.path().join("control.sock");
    std::fs::rename(gate.dir.path().join("access.log"), gate.dir.path().join("access.log.1")).unwrap();
    gate.rewrite(&with("policies: { office: { allow: [127.0.0.0/8] } }"));
    assert_eq!(reload(&control), Ok(()));
}

/// Named by a relative path, as much as by an absolute one.
#[test]
fn another_log_beside_the_configuration_needs_an_upgrade() {
    if !has_landlock() {
        return;
    }
    let upstream = Upstream::ok();
    let with = |log: &str| yaml(&upstream, "", "") + &format!("\nlog: {{ access: {{ output: {log} }} }}\n");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("portunus.yaml"), with("access.log")).unwrap();
    let mut command = Command::new(PORTUNUS);
    command.args(["run", "--no-watch", "portunus.yaml"]);
    let gate = Gate::start_command(dir, command, 2);
    let control = gate.dir.path().join("control.sock");
    assert_eq!(reload(&control), Ok(()));
    gate.rewrite(&with("other.log"));
    let problem = reload(&control).unwrap_err();
    assert!(problem.contains("other.log") && problem.contains("may not be made or written to"), "{problem}");
}

/// What is given to a user who is not this one.
fn give_away(path: &Path, mode: u32) {
    std::os::unix::fs::chown(path, Some(1000), Some(1000)).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

/// Root in the folder of somebody else, as in `docker run -u 0 -v $PWD:/etc/portunus`.
#[test]
fn root_goes_on_to_write_and_reach_what_belongs_to_others() {
    if !is_root() {
        return eprintln!("skipped: only root has a privilege over the files of others");
    }
    // The folder, the log in a folder of root's, a folder on the way, the socket of a server.
    for what in ["folder", "log", "way", "server"] {
        let upstream = Upstream::ok();
        let dir = tempfile::tempdir().unwrap();
        let [home, logs, run] = ["home", "logs", "run"].map(|name| dir.path().join(name));
        [&home, &logs, &run].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let files = home.join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("office.txt"), "127.0.0.0/8\n").unwrap();
        std::fs::write(logs.join("access.log"), "").unwrap();
        let _server = std::os::unix::net::UnixListener::bind(run.join("app.sock")).unwrap();
        let text = yaml(&upstream, "", "policies: { office: { allow_file: home/files/office.txt } }");
        let more = format!("upstreams:\n  other: {{ servers: ['unix:{}'] }}\n", run.join("app.sock").display());
        let log = if what == "folder" { "access.log" } else { "logs/access.log" };
        let text = text.replace("upstreams:\n", &more) + &format!("\nlog: {{ access: {{ output: {log} }} }}\n");
        std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
        match what {
            "folder" => {
                std::fs::write(dir.path().join("access.log"), "").unwrap();
                give_away(&dir.path().join("access.log"), 0o644);
                give_away(dir.path(), 0o755);
            }
            "log" => give_away(&logs.join("access.log"), 0o644),
            "way" => give_away(&home, 0o700),
            _ => give_away(&run.join("app.sock"), 0o660),
        }
        let mut command = Command::new(PORTUNUS);
        command.args(["run", "--no-watch"]).arg(dir.path().join("portunus.yaml"));
        let gate = Gate::start_command(dir, command, 2);
        gate.signal("HUP");
        gate.wait_for("\"reloaded\"");
        const DAC_OVERRIDE: u64 = 1 << 1;
        assert!(capabilities(gate.pid()).iter().all(|held| *held == DAC_OVERRIDE), "{what}");
    }
}

/// The configuration is a link, or lies behind one: whoever could write where a link lies could lead it elsewhere.
#[test]
fn links_on_the_way_to_the_configuration_are_not_left_open_for_writing() {
    let upstream = Upstream::ok();
    let text =
        |log: &Path| yaml(&upstream, "", "") + &format!("\nlog: {{ access: {{ output: {} }} }}\n", log.display());
    let root = tempfile::tempdir().unwrap();
    let [etc, middle, site] = ["etc", "middle", "site"].map(|name| root.path().join(name));
    [&etc, &middle, &site].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    symlink(&middle, root.path().join("linked")).unwrap();
    symlink(root.path().join("linked/step.yaml"), etc.join("portunus.yaml")).unwrap();
    symlink("../site/site.yaml", middle.join("step.yaml")).unwrap();
    // Beside the link, beside the next one, beside the folder that is a link, and beside the file.
    for folder in [Path::new(""), &middle, root.path(), &site] {
        std::fs::write(site.join("site.yaml"), text(&folder.join("access.log"))).unwrap();
        let (said, problems, is_good) = check_in(&etc, &[]);
        assert!(is_good, "{problems}");
        assert_eq!(places(&said, "write"), [PathBuf::from("/dev/null")], "{}: {said}", folder.display());
        assert_eq!(places(&said, "file"), [folder.join("access.log")], "{}: {said}", folder.display());
    }
    let apart = root.path().join("logs");
    std::fs::create_dir(&apart).unwrap();
    std::fs::write(site.join("site.yaml"), text(&apart.join("access.log"))).unwrap();
    assert_eq!(places(&check_in(&etc, &[]).0, "write"), [PathBuf::from("/dev/null"), apart]);
}

#[test]
fn folders_that_systemd_made_give_way_to_configuration() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("portunus.yaml"), yaml(&upstream, "", "")).unwrap();
    let (here, there) = (dir.path().to_str().unwrap(), other.path().to_str().unwrap());
    for name in ["RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY"] {
        let said = check_in(dir.path(), &[(name, &format!("{here}:{there}"))]).0;
        assert_eq!(places(&said, "write"), [PathBuf::from("/dev/null"), other.path().to_owned()], "{name}: {said}");
    }
}

/// What could be written to since the start is no place for configuration later.
#[test]
fn a_reload_names_no_configuration_where_the_process_may_write() {
    if !has_landlock() {
        return;
    }
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    std::fs::write(dir.path().join("logs/office.txt"), "127.0.0.0/8\n").unwrap();
    let with = |more: &str| yaml(&upstream, "", more) + "\nlog: { access: { output: logs/access.log } }\n";
    std::fs::write(dir.path().join("portunus.yaml"), with("")).unwrap();
    let mut command = Command::new(PORTUNUS);
    command.args(["run", "--no-watch"]).arg(dir.path().join("portunus.yaml"));
    let gate = Gate::start_command(dir, command, 2);
    let control = gate.dir.path().join("control.sock");
    assert_eq!(reload(&control), Ok(()));
    let policies = "policies: { office: { allow_file: logs/office.txt } }";
    gate.rewrite(&with(policies));
    let problem = reload(&control).unwrap_err();
    assert!(problem.contains("office.txt is configuration") && problem.contains("portunus upgrade"), "{problem}");
    // Somebody says that it may be.
    gate.rewrite(&with(&format!("{policies}\nsandbox: {{ write: logs }}")));
    assert_eq!(reload(&control), Ok(()));
}

/// `check` finds what `run` would.
#[test]
fn check_fails_where_the_admin_socket_would_keep_the_server_from_starting() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("parts")).unwrap();
    std::fs::write(dir.path().join("parts/a.yaml"), "policies: { office: { allow: [10.0.0.0/8] } }\n").unwrap();
    let text = yaml(&upstream, "", "include: parts/*.yaml");
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    for (control, is_good) in [("parts/admin.sock", false), ("run/admin.sock", true), ("none", true)] {
        let (said, problems, found) = check_in(dir.path(), &[("PORTUNUS_CONTROL", control)]);
        assert_eq!(found, is_good, "{control}: {said}{problems}");
        assert_eq!(said.contains("problem: "), !is_good, "{control}: {said}");
        assert_eq!(problems.contains("give it a folder of its own"), !is_good, "{control}: {problems}");
    }
    let output = Command::new(PORTUNUS)
        .args(["run", "--control", "parts/admin.sock", "portunus.yaml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("give it a folder of its own")
    );
}
