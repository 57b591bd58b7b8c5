//! What a process that has shut itself in really cannot do any more: tried, in a child that does nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use net::confine::{Files, sandbox};

/// Where the child finds its folder, and whom it tries to reach.
const FOLDER: &str = "TEST_CONFINED_FOLDER";
/// See [`FOLDER`].
const NEIGHBOUR: &str = "TEST_CONFINED_NEIGHBOUR";

/// The Linux version, as far as it is a number.
fn kernel() -> f32 {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = text.split('.').map(|part| part.parse::<u16>().unwrap_or(0));
    f32::from(parts.next().unwrap()) + f32::from(parts.next().unwrap().min(99)) / 100.0
}

fn is_denied<T>(outcome: &io::Result<T>) -> bool {
    matches!(outcome, Err(error) if error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn what_was_not_named_is_out_of_reach() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["read", "write", "other"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("file"), name).unwrap();
    }
    std::os::unix::fs::symlink("../other/file", folder.path().join("read/link")).unwrap();
    let neighbour = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_was_not_named_is_out_of_reach", "--nocapture"])
        .env(FOLDER, folder.path())
        .env(NEIGHBOUR, neighbour.local_addr().unwrap().to_string())
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    for note in reported.lines().filter(|line| line.starts_with("skipped:")) {
        eprintln!("{note}");
    }
}

/// In the child.
fn inside(folder: &Path) {
    let path = |name: &str| folder.join(name);
    let (neighbour, kernel) = (std::env::var(NEIGHBOUR).unwrap(), kernel());
    assert!(TcpStream::connect(&neighbour).is_ok() && fs::read(path("other/file")).is_ok(), "nothing is closed yet");
    let files = sandbox(&[path("read")], &[path("write")]).unwrap();
    assert!(is_denied(&Command::new("/bin/true").status()), "no program is run");
    // Without Landlock only the system calls are closed off.
    if files == Files::Open {
        return eprintln!("skipped: files and connections, as this kernel has no Landlock");
    }
    // Threads made afterwards are shut in like the one that did it.
    let tries = std::thread::spawn({
        let folder = folder.to_owned();
        move || try_files(&folder)
    });
    try_files(folder);
    tries.join().unwrap();
    if kernel < 6.07 {
        return eprintln!("skipped: connections, which Landlock knows from Linux 6.7 on");
    }
    assert!(is_denied(&TcpStream::connect(&neighbour)), "nobody is called");
    assert!(TcpListener::bind("127.0.0.1:0").is_ok(), "but calls are taken");
}

fn try_files(folder: &Path) {
    let path = |name: &str| folder.join(name);
    let own = path(&format!("write/{:?}", std::thread::current().id()));
    assert_eq!(fs::read_to_string(path("read/file")).unwrap(), "read");
    assert!(fs::read_dir(path("read")).is_ok());
    fs::write(&own, "more").unwrap();
    assert_eq!(fs::read_to_string(&own).unwrap(), "more");
    let denied = [
        ("reading beside it", is_denied(&fs::read(path("other/file")))),
        ("the same by a link", is_denied(&fs::read(path("read/link")))),
        ("the same by another way", is_denied(&fs::read(path("read/../other/file")))),
        ("listing", is_denied(&fs::read_dir(path("other")))),
        ("the system's files", is_denied(&fs::read("/etc/passwd"))),
        ("writing where only reading was named", is_denied(&fs::write(path("read/file"), "changed"))),
        ("making a file there", is_denied(&fs::write(path("read/new"), "new"))),
        ("removing one", is_denied(&fs::remove_file(path("read/file")))),
        ("writing beside it", is_denied(&fs::write(path("other/file"), "changed"))),
        ("moving out", fs::rename(&own, path("other/moved")).is_err()),
        ("moving in", fs::rename(path("other/file"), path("write/moved")).is_err()),
        ("another name for it", fs::hard_link(path("other/file"), path("write/linked")).is_err()),
    ];
    for (what, is_denied) in denied {
        assert!(is_denied, "{what}");
    }
    fs::remove_file(&own).unwrap();
}
