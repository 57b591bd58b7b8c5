//! The first minute: one command serves a page over TLS, and what its user changes stays.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::harness::{PORTUNUS, Running, vacant, wait_until};

fn started(folder: &Path, address: std::net::SocketAddr) -> Running {
    let mut command = Command::new(PORTUNUS);
    command.arg("quickstart").arg("--dir").arg(folder);
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    Running::start(&mut command, |event| event["message"] == "listening")
}

/// What curl gets with the CA that was made; empty if it gets nothing.
fn fetched(folder: &Path, url: &str) -> String {
    let ca = folder.join("ca.pem");
    let output = Command::new("curl").args(["--silent", "--fail", "--cacert"]).arg(ca).arg(url).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_page_over_tls_without_a_file_and_changes_stay() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("first");
    let address = vacant();
    let url = format!("https://{address}/");
    let running = started(&folder, address);
    assert!(fetched(&folder, &url).contains("Portunus is running"));

    // It serves what its user writes, at once and the next time.
    let file = folder.join("portunus.yaml");
    let written = fs::read_to_string(&file).unwrap();
    let changed = written.replace("body_file: index.html", "body: 'changed'");
    assert_ne!(changed, written);
    fs::write(&file, &changed).unwrap();
    wait_until("the change is served", || fetched(&folder, &url) == "changed");
    drop(running);
    let ca = fs::read(folder.join("ca.pem")).unwrap();
    let _running = started(&folder, address);
    assert_eq!(fetched(&folder, &url), "changed");
    assert_eq!((fs::read_to_string(&file).unwrap(), fs::read(folder.join("ca.pem")).unwrap()), (changed, ca));

    // The application in the comments is one `#` away.
    let suggested = written.replace("#  - ", "  - ").replace("# upstreams:\n#   app", "upstreams:\n  app");
    fs::write(&file, suggested).unwrap();
    let output = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 upstream, 2 routes"));
}

/// Time that a process has spent on processors, seconds: its 14th and 15th field of proc_pid_stat(5), in hundredths on Linux.
fn busy(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// What a newcomer waits for: keys, certificates, a file, a listener, a page. Nothing in it waits for anything, so that the time on a processor is what it
/// takes where the machine has nothing else to do; what a busy machine adds is not ours.
#[test]
fn a_page_within_three_seconds_of_a_debug_build() {
    let place = tempfile::tempdir().unwrap();
    let (folder, address) = (place.path().join("new"), vacant());
    let begun = std::time::Instant::now();
    let running = started(&folder, address);
    assert!(fetched(&folder, &format!("https://{address}/")).contains("Portunus is running"));
    let (elapsed, busy) = (begun.elapsed().as_secs_f64(), busy(running.pid()));
    assert!(busy > 0.0 && elapsed.min(busy) < 3.0, "{elapsed} s, of which {busy} s on a processor");
}

#[test]
fn what_is_there_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("index.html");
    fs::write(&page, "years of work").unwrap();
    let run = || Command::new(PORTUNUS).arg("quickstart").arg("--dir").arg(place.path()).output().unwrap();
    let output = run();
    let reported = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{reported}");
    assert!(reported.contains("index.html: File exists") && reported.contains("--dir"), "{reported}");
    assert_eq!(fs::read_to_string(&page).unwrap(), "years of work");

    // Where others can write, they could have put anything.
    fs::write(place.path().join("portunus.yaml"), "listeners: []").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = run();
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && reported.contains("others can write"), "{reported}");
}
