//! What a process that has shut itself in really cannot do any more: tried, in a child that does nothing else.
#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use net::confine::{Files, Places, Role, confine, landlock_version, missing_of, sandbox};

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

/// Runs a test again in a child that confines itself: what it came to, and what it said.
fn confined_child(test: &str) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["read", "write", "other"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("file"), name).unwrap();
    }
    std::os::unix::fs::symlink("../other/file", folder.path().join("read/link")).unwrap();
    let neighbour = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("confine::{test}"), "--nocapture"])
        .env(FOLDER, folder.path())
        .env(NEIGHBOUR, neighbour.local_addr().unwrap().to_string())
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(reported.contains("running 1 test"), "no test has this name: {reported}");
    (output, reported)
}

#[test]
fn what_was_not_named_is_out_of_reach() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside(Path::new(&folder));
    }
    let (output, reported) = confined_child("what_was_not_named_is_out_of_reach");
    assert!(output.status.success(), "{reported}");
    say_skipped(&reported);
}

/// What the child could not try.
fn say_skipped(reported: &str) {
    reported.lines().filter(|line| line.starts_with("skipped:")).for_each(|note| eprintln!("{note}"));
}

/// In the child.
fn inside(folder: &Path) {
    let path = |name: &str| folder.join(name);
    let (neighbour, kernel) = (std::env::var(NEIGHBOUR).unwrap(), kernel());
    let program = std::env::current_exe().unwrap();
    assert!(TcpStream::connect(&neighbour).is_ok() && fs::read(path("other/file")).is_ok(), "nothing is closed yet");
    assert!(possible_code(folder).len() >= 3, "nor are the ways to code");
    let files = sandbox(&Places { read: vec![path("read")], write: vec![path("write")], ..Places::default() }).unwrap();
    assert_eq!(landlock_version().is_some(), files == Files::Closed, "it still knows what the kernel can do");
    assert_eq!(missing_of(Role::KeyServer).iter().any(|what| what.ends_with("(Linux 5.13)")), files == Files::Open);
    assert!(is_denied(&Command::new(&program).status()), "no program is run");
    assert_eq!(made_code(folder), Vec::<&str>::new(), "nothing new can be executed");
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

/// The same of the gate, which calls others and carries bytes, and must not be made to run what somebody smuggled in.
#[test]
fn the_gate_can_do_its_work_and_no_more() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside_gate(Path::new(&folder));
    }
    let (output, reported) = confined_child("the_gate_can_do_its_work_and_no_more");
    assert!(output.status.success(), "{reported}");
    say_skipped(&reported);
}

/// In the child.
fn inside_gate(folder: &Path) {
    let path = |name: &str| folder.join(name);
    let (neighbour, program) = (std::env::var(NEIGHBOUR).unwrap(), std::env::current_exe().unwrap());
    // One file by its name alone, as those of the system are.
    let read = vec![path("read"), path("other/file")];
    let confined = confine(Role::Gate, &Places { read, write: vec![path("write")], ..Places::default() });
    assert!(confined.privileges.is_ok() && confined.calls.is_ok(), "{confined:?}");
    assert!(is_denied(&Command::new(&program).status()), "no program is run");
    assert!(TcpStream::connect(&neighbour).is_ok(), "upstreams are called");
    assert!(TcpListener::bind("127.0.0.1:0").is_ok());
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let ((readable, writable), (_reader, next)) = (pipe(), pipe());
    rustix::io::write(&writable, b"bytes").unwrap();
    let carried = rustix::pipe::splice(&readable, None, &next, None, 5, rustix::pipe::SpliceFlags::empty());
    assert_eq!(carried, Ok(5), "bytes are carried without a look at them");
    assert_eq!(made_code(folder), Vec::<&str>::new(), "nothing new can be executed");
    assert!(rustix::process::chroot("/").is_err());
    std::thread::spawn(|| ()).join().unwrap();
    if confined.files == Ok(Files::Open) {
        return;
    }
    assert!(fs::read(path("other/file")).is_ok() && is_denied(&fs::read_dir(path("other"))));
    assert!(is_denied(&fs::write(path("other/file"), "changed")));
    assert!(is_denied(&fs::read("/etc/passwd")));
    fs::create_dir(path("write/new")).unwrap();
    fs::write(path("write/new/file"), "more").unwrap();
    let file = fs::File::options().write(true).open(path("write/new/file")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH)
        .expect("certificates of a fleet have the time of the node that ordered them");
    fs::rename(path("write/new/file"), path("write/new/other")).unwrap();
    assert!(is_denied(&fs::create_dir(path("read/new"))));
}

/// The same without the sandbox, where the file system may have its own word; which is said.
fn possible_code(folder: &Path) -> Vec<&'static str> {
    let possible = made_code(folder);
    if !possible.contains(&"out of a file") {
        println!("skipped: code out of a file: the file system of temporary files holds no programs");
    }
    possible
}

/// By which ways what was written can come to be executed.
fn made_code(folder: &Path) -> Vec<&'static str> {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect};
    const PAGE: usize = 4096;
    let (plain, code) = (ProtFlags::READ | ProtFlags::WRITE, ProtFlags::READ | ProtFlags::EXEC);
    let anywhere = std::ptr::null_mut();
    // SAFETY: new memory, to which nothing refers.
    let both = unsafe { mmap_anonymous(anywhere, PAGE, plain | code, MapFlags::PRIVATE) };
    // SAFETY: as above.
    let page = unsafe { mmap_anonymous(anywhere, PAGE, plain, MapFlags::PRIVATE).unwrap() };
    // SAFETY: the page made above.
    let changed = unsafe { mprotect(page, PAGE, MprotectFlags::READ | MprotectFlags::EXEC) };
    let file = fs::File::open(folder.join("read/file")).unwrap();
    // SAFETY: new memory, to which nothing refers, and which nobody reads.
    let mapped = unsafe { mmap(anywhere, PAGE, code, MapFlags::PRIVATE, &file, 0) };
    let unnamed = rustix::fs::memfd_create(c"code", rustix::fs::MemfdFlags::CLOEXEC);
    let ways = [
        ("memory that can be written", both.is_ok()),
        ("memory that was written", changed.is_ok()),
        ("out of a file", mapped.is_ok()),
        ("a file without a name", unnamed.is_ok()),
    ];
    ways.into_iter().filter_map(|(way, is_open)| is_open.then_some(way)).collect()
}

/// A gate whose configuration names a program runs that, with what the system has to run one, and nothing that somebody else has put somewhere.
#[test]
fn a_program_that_is_named_is_run_and_shut_in() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside_with_programs(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["read", "write", "hooks"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for (script, text) in [("hooks/hook", "cat /etc/hostname >/dev/null; id -u; cat \"$1\""), ("write/other", "id -u")]
    {
        let place = folder.path().join(script);
        fs::write(&place, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::write(folder.path().join("secret"), "secret").unwrap();
    fs::write(folder.path().join("read/file"), "read").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "confine::a_program_that_is_named_is_run_and_shut_in", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && reported.contains("running 1 test"), "{reported}");
    say_skipped(&reported);
}

/// In the child.
fn inside_with_programs(folder: &Path) {
    let path = |name: &str| folder.join(name);
    let possible = possible_code(folder);
    if Command::new(path("hooks/hook")).arg(path("read/file")).status().is_err() {
        println!("skipped: programs: none can be run out of the folder of temporary files, or there is no shell");
        return;
    }
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Into::into);
    let run = system.into_iter().chain([path("hooks")]).collect();
    let write = vec![path("write"), "/dev/null".into()];
    let confined =
        confine(Role::GateWithPrograms, &Places { read: vec![path("read")], write, run, ..Places::default() });
    assert!(confined.privileges.is_ok() && confined.calls.is_ok(), "{confined:?}");
    assert!(possible.contains(&"out of a file"));
    assert_eq!(made_code(folder), ["out of a file"], "as a loader of programs does it");
    let output = Command::new(path("hooks/hook")).arg(path("secret")).process_group(0).output().unwrap();
    assert!(output.stdout.starts_with(b"0\n") || output.stdout[0].is_ascii_digit(), "{output:?}");
    if confined.files == Ok(Files::Open) {
        return;
    }
    assert!(!output.status.success() && !output.stdout.ends_with(b"secret"), "it reads no more than we do: {output:?}");
    assert!(is_denied(&Command::new(path("write/other")).status()), "what was written here is not run");
}
