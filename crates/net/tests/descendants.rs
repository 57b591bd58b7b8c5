//! Signals of the process that starts others: to those that came of it, and to nobody else.
#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

/// Says to the child that it is one.
const CHILD: &str = "TEST_DESCENDANTS";

/// Waits until its input ends, which is with this process.
fn waiting(program: &str, arguments: &[&str]) -> Child {
    Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_signal_for_what_was_started_reaches_nobody_else() {
    if std::env::var_os(CHILD).is_some() {
        return inside();
    }
    let mut bystander = waiting("cat", &[]);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descendants::a_signal_for_what_was_started_reaches_nobody_else", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && reported.contains("running 1 test"), "{reported}");
    assert!(bystander.try_wait().unwrap().is_none(), "it goes on");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

/// In the child.
fn inside() {
    use std::io::Read as _;
    let hangup = rustix::process::Signal::HUP;
    let none = net::process::signal_descendants(hangup);
    assert!(none.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound));
    // The shell has a child of its own, which waits for the same end.
    let mut shell = waiting("sh", &["-c", "exec 3<&0; cat <&3 & echo ready; wait"]);
    let (_open, mut output) = (shell.stdin.take(), shell.stdout.take().unwrap());
    let mut ready = [0; 6];
    output.read_exact(&mut ready).unwrap();
    net::process::signal_descendants(hangup).unwrap();
    assert_eq!(shell.wait().unwrap().signal(), Some(hangup.as_raw()));
    // Nobody holds it any more.
    assert_eq!(output.read(&mut ready).unwrap(), 0);
}
