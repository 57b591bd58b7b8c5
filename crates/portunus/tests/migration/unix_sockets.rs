//! Unix sockets of HAProxy and nginx beside those of their imports: who may connect.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::beside::{import_in, serve};
use crate::harness::wait_until;

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The mode of a socket, once it is there for clients.
fn mode(socket: &Path) -> u32 {
    wait_until("a socket", || std::os::unix::net::UnixStream::connect(socket).is_ok());
    std::fs::symlink_metadata(socket).unwrap().permissions().mode() & 0o7777
}

/// Runs the original on a text, and the import of that text with another folder for sockets, and compares what the sockets are.
fn check(program: &str, text: &str, sockets: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let [theirs, ours] = ["theirs", "ours"].map(|name| dir.path().join(name));
    for folder in [&theirs, &ours] {
        std::fs::create_dir(folder).unwrap();
    }
    let write = |name: &str, folder: &Path| {
        let file = dir.path().join(name);
        std::fs::write(&file, text.replace("@dir@", &folder.display().to_string())).unwrap();
        file
    };
    let mut command = Command::new(program);
    match program {
        "haproxy" => command.arg("-db").arg("-f").arg(write("their.cfg", &theirs)),
        _ => command.arg("-p").arg(&theirs).arg("-c").arg(write("their.cfg", &theirs)).args(["-g", "daemon off;"]),
    };
    let _peer = Peer(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    write("our.cfg", &ours);
    let printed = import_in(&[program, "our.cfg"], dir.path());
    assert_eq!(printed.status.code(), Some(0), "{}", String::from_utf8_lossy(&printed.stderr));
    let gate = serve(&printed, dir.path(), 0);
    for socket in sockets {
        assert_eq!(mode(&ours.join(socket)), mode(&theirs.join(socket)), "{socket}");
    }
    assert!(gate.pid() > 0);
}

const HAPROXY: &str = "
global
    unix-bind prefix @dir@ mode 640
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend one
    bind unix@/a.sock mode 606
    default_backend app
frontend two
    bind /b.sock
    default_backend app
backend app
    server a 127.0.0.1:1
";

#[test]
fn those_of_haproxy_are_for_whom_it_says() {
    check("haproxy", HAPROXY, &["a.sock", "b.sock"]);
    // To whom a socket is given is not carried, and not passed over.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("h.cfg"), HAPROXY.replace("mode 606", "user app gid 33").replace("@dir@", "/run"))
        .unwrap();
    let printed = import_in(&["haproxy", "h.cfg"], dir.path());
    let said = String::from_utf8_lossy(&printed.stderr);
    assert!(said.contains("bind … user app") && said.contains("bind … gid 33"), "{said}");
    assert_eq!(printed.status.code(), Some(1));
}

#[test]
fn those_of_nginx_are_for_everybody() {
    check(
        "nginx",
        "pid @dir@/pid; error_log /dev/null; events {} http { access_log off; server { listen unix:@dir@/a.sock; location / { proxy_pass http://127.0.0.1:1; } } }\n",
        &["a.sock"],
    );
}
