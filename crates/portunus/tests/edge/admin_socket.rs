//! The admin socket that is there without a word in the configuration: where it is, whose it is, and who gets it when there are several.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::harness::{Gate, PORTUNUS, wait_until};

const YAML: &str = "listeners: [{ name: web, bind: '127.0.0.1:0' }]
routes: [{ path: '/{*rest}', respond: { status: 200, body: here } }]
log: { level: info }
";

/// A place for the usual socket: for root a /run of its own, in a mount namespace; for others a runtime directory.
struct Place {
    dir: TempDir,
    /// The process whose namespace it is.
    namespace: Option<Gate>,
}

/// As the program sees it: 0 is root.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Place {
    fn new() -> Place {
        let mut place = Place { dir: tempfile::tempdir().unwrap(), namespace: None };
        if is_root() {
            // The first process of the namespace has no admin socket itself: it only keeps the namespace.
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", "mount -t tmpfs tmpfs /run && exec \"$@\"", "sh", PORTUNUS]);
            place.namespace = Some(Gate::start_by(tempfile::tempdir().unwrap(), YAML, command));
        }
        place
    }

    /// A command that runs the program there.
    fn command(&self) -> Command {
        let mut command = match &self.namespace {
            Some(gate) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--mount=/proc/{}/ns/mnt", gate.pid())).arg(PORTUNUS);
                command
            }
            None => Command::new(PORTUNUS),
        };
        command.env("XDG_RUNTIME_DIR", self.dir.path()).env_remove("PORTUNUS_CONTROL");
        command
    }

    /// The runtime directory as this process sees it.
    fn runtime(&self) -> PathBuf {
        match &self.namespace {
            Some(gate) => PathBuf::from(format!("/proc/{}/root/run", gate.pid())),
            None => self.dir.path().to_owned(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.runtime().join("portunus/admin.sock")
    }

    /// Starts a server there.
    fn start(&self, more: &[&str]) -> Gate {
        self.start_with("", more)
    }

    /// The same with a further key.
    fn start_with(&self, key: &str, more: &[&str]) -> Gate {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("portunus.yaml"), format!("{YAML}{key}\n")).unwrap();
        let mut command = self.command();
        command.args(["run", "--no-watch"]).args(more).arg(dir.path().join("portunus.yaml"));
        Gate::start_command(dir, command, 1)
    }

    fn reload(&self, more: &[&str]) -> Output {
        self.command().arg("reload").args(more).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn serves(gate: &Gate) -> bool {
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    crate::harness::exchange(gate.address("web"), request).starts_with(b"HTTP/1.1 200 ")
}

fn warned(gate: &Gate, what: &str) -> bool {
    gate.diagnostics().iter().any(|line| line.contains("no admin socket") && line.contains(what))
}

#[test]
fn commands_find_a_server_that_was_told_nothing() {
    let place = Place::new();
    let output = place.reload(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/portunus/admin.sock"), "{}", text(&output.stderr));
    let gate = place.start(&[]);
    gate.wait_for("admin listening");
    assert_eq!(mode(&place.socket()), 0o600, "its user alone may connect");
    assert_eq!(mode(place.socket().parent().unwrap()) & 0o022, 0, "and nobody else may put another in its place");
    let output = place.reload(&[]);
    assert_eq!(text(&output.stdout), "reloaded: configuration 2 is active\n", "{}", text(&output.stderr));
    let upgraded = text(&place.command().arg("upgrade").output().unwrap().stdout);
    let serving: i32 = upgraded.split(' ').nth(2).unwrap_or_else(|| panic!("{upgraded}")).parse().unwrap();
    assert_eq!(text(&place.reload(&[]).stdout), "reloaded: configuration 2 is active\n", "of the new process");
    let serving = rustix::process::Pid::from_raw(serving).unwrap();
    rustix::process::kill_process(serving, rustix::process::Signal::TERM).unwrap();
    wait_until("the end of the socket", || !place.socket().exists());
}

#[test]
fn a_second_server_goes_without_and_says_how_to_name_another_place() {
    let place = Place::new();
    let first = place.start(&[]);
    first.wait_for("admin listening");
    let second = place.start_with("sandbox: off", &[]);
    wait_until("the warning", || warned(&second, "another process answers there"));
    assert!(warned(&second, "run --control PATH"));
    assert!(serves(&first) && serves(&second));
    let own = second.dir.path().join("own.sock");
    let third = place.start(&["--control", own.to_str().unwrap()]);
    third.wait_for("admin listening");
    assert_eq!(place.reload(&["--control", own.to_str().unwrap()]).status.code(), Some(0));
    assert_eq!(text(&place.reload(&[]).stdout), "reloaded: configuration 2 is active\n", "the first one's is its own");
    // A process that is gone left its socket behind; the next reload of the other one takes the place.
    first.signal("KILL");
    wait_until("the end", || place.reload(&[]).status.code() == Some(1));
    assert!(place.socket().exists());
    second.signal("HUP");
    wait_until("the socket of the second", || place.reload(&[]).status.code() == Some(0));
    assert_eq!((second.stop(), third.stop()), (Some(0), Some(0)));
    assert!(!place.socket().exists() && !own.exists());
}

#[test]
fn a_place_that_others_could_write_to_is_not_used_and_stops_nobody() {
    let place = Place::new();
    let folder = place.socket().parent().unwrap().to_owned();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let gate = place.start(&[]);
    wait_until("the warning", || warned(&gate, "other users may write"));
    assert!(serves(&gate) && !place.socket().exists());
    assert_eq!(gate.stop(), Some(0));
    // Something else in its place is left alone, too.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(place.socket(), "precious").unwrap();
    let gate = place.start(&[]);
    wait_until("the warning", || warned(&gate, "something else than a socket"));
    assert_eq!(gate.stop(), Some(0));
    assert_eq!(std::fs::read_to_string(place.socket()).unwrap(), "precious");
    // Who wants none is not warned.
    let gate = place.start(&["--control", "none"]);
    assert!(serves(&gate));
    assert!(!gate.diagnostics().iter().any(|line| line.contains("admin")), "{:#?}", gate.diagnostics());
    assert_eq!(gate.stop(), Some(0));
}

/// A place that was named and cannot be had is an error, as before.
#[test]
fn a_socket_that_was_named_is_there_or_the_server_does_not_start() {
    let place = Place::new();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("portunus.yaml"), YAML).unwrap();
    let missing = dir.path().join("missing/admin.sock");
    let mut command = place.command();
    command.args(["run", "--control"]).arg(missing).arg(dir.path().join("portunus.yaml"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing/admin.sock"), "{}", text(&output.stderr));
    // In a folder where others could put their own, named here or in the file.
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    let in_file = dir.path().join("in-file.yaml");
    std::fs::write(&in_file, format!("{YAML}admin: {{ bind: \"unix:{}/admin.sock\" }}\n", open.display())).unwrap();
    for mode in [0o777, 0o1777, 0o770] {
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(mode)).unwrap();
        for arguments in [
            [open.join("admin.sock").into_os_string(), dir.path().join("portunus.yaml").into()],
            ["none".into(), in_file.clone().into()],
        ] {
            let output = place.command().args(["run", "--control"]).args(&arguments).output().unwrap();
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
            assert!(message.contains("other users may write there"), "{arguments:?}: {message}");
        }
    }
}

/// It could connect to the sockets of others as long as it may make its own, so that it does not keep that for the sake of a convenience.
#[test]
fn a_server_without_the_usual_socket_makes_no_more_of_them() {
    let filters = |gate: &Gate| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")).unwrap_or_default();
        line.trim().to_owned()
    };
    let place = Place::new();
    let first = place.start(&[]);
    first.wait_for("admin listening");
    let second = place.start(&[]);
    wait_until("the warning", || warned(&second, "another process answers there"));
    second.wait_for("the admin socket is not tried again");
    assert_eq!(filters(&second), filters(&first), "as many were set");
    first.signal("KILL");
    wait_until("the end", || place.reload(&[]).status.code() == Some(1));
    second.signal("HUP");
    second.wait_for("reloaded");
    assert_eq!(place.reload(&[]).status.code(), Some(1));
    assert!(serves(&second));
}
