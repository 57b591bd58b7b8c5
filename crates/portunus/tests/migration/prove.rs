//! `portunus import … --prove`: nginx or HAProxy and what is imported of them, compared by the program itself.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::{PORTUNUS, wait_until};

/// A configuration in a folder, which is where the throw-away folder is made, too.
struct Case {
    dir: tempfile::TempDir,
    program: &'static str,
}

impl Case {
    fn new(program: &'static str, text: &str) -> Case {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("the.conf"), text).unwrap();
        Case { dir, program }
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(PORTUNUS);
        command.args(["import", self.program, "--prove"]).args(more).arg("the.conf").current_dir(self.dir.path());
        command.env("TMPDIR", self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Compares; the exit status, and what is said.
    fn prove(&self, more: &[&str]) -> (Option<i32>, String) {
        let Output { status, stderr, .. } = self.command(more).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(self.running(), 0, "{said}");
        let left: Vec<_> = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("portunus-prove")), "{left:?}");
        (status.code(), said)
    }

    /// How many programs have been started in its folder and still run.
    fn running(&self) -> usize {
        let mark = format!("{}/portunus-prove", self.dir.path().display());
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&mark)).count()
    }
}

/// As many requests as also a slow machine compares in the five minutes that the program takes at most.
const MANY: &[&str] = &["--requests", "1000"];

const NGINX: &str = "\
user nobody;
error_log /var/log/nginx/error.log;
events {}
http {
    upstream shop { server 10.255.0.1:8080; server 10.255.0.2:8080 backup; }
    server {
        listen 80 default_server;
        listen [::]:80 default_server;
        listen 443 ssl;
        server_name shop.test *.shop.test;
        ssl_certificate /nowhere/shop.pem;
        ssl_certificate_key /nowhere/shop.key;
        proxy_set_header Host $http_host;
        proxy_set_header X-Real-IP $remote_addr;
        location / { proxy_pass http://shop; }
        location /admin/ { allow 127.0.0.2; deny all; proxy_pass https://10.255.0.3/secret/; }
        location /old/ { return 410; }
";

#[test]
fn an_exact_import_of_nginx_is_proved() {
    let (status, said) = Case::new("nginx", &format!("{NGINX}}} }}")).prove(MANY);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("requests on 2 listeners: 0 differ, 0 of them open something"), "{said}");
    assert!(said.contains("not compared: the.conf:16: `proxy_pass`: TLS to the servers"), "{said}");
    assert!(said.contains("not compared: certificates"), "{said}");
}

#[test]
fn what_an_import_of_nginx_closes_is_found_with_its_line() {
    let text = format!(
        "{NGINX}        location /odd/ {{\n            if ($request_method ~ PO) {{ return 403; }}\n            proxy_pass http://shop;\n        }} }} }}"
    );
    let (status, said) = Case::new("nginx", &text).prove(&["--requests", "500"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("closes: the.conf:18: nginx forwards to shop, the import rejects with 501: GET /odd/"),
        "{said}"
    );
    assert!(said.contains("compared: 500 requests") && !said.contains("opens"), "{said}");
}

const HAPROXY: &str = "\
global
    chroot /var/lib/haproxy
    user haproxy
    stats socket /run/haproxy/admin.sock
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
frontend www
    bind :80
    bind :443 ssl crt /nowhere/site.pem
    acl admin path_beg /admin
    http-request deny if admin !{ src 127.0.0.2 }
    http-request redirect location /new/ code 301 if { path /old }
    use_backend api if { path_beg /api/ }
";
const BACKENDS: &str = "\
    default_backend app
backend app
    server one 10.255.0.1:80 check
    server two 10.255.0.2:80 check
backend api
    server one 10.255.0.3:443 ssl verify none
";

#[test]
fn an_exact_import_of_haproxy_is_proved() {
    let (status, said) = Case::new("haproxy", &format!("{HAPROXY}{BACKENDS}")).prove(MANY);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("requests on 2 listeners: 0 differ, 0 of them open something"), "{said}");
    assert!(said.contains("not compared: which server of a backend is taken, and health checks"), "{said}");
}

#[test]
fn what_an_import_of_haproxy_closes_is_found_with_its_line() {
    let text = format!("{HAPROXY}    http-request deny if {{ req.hdr(x-kind),field(1,:) bad }}\n{BACKENDS}");
    let (status, said) = Case::new("haproxy", &text).prove(&["--requests=400"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("closes: the.conf:17: haproxy forwards to app, the import rejects with 501: GET /"),
        "{said}"
    );
    assert!(said.contains("compared: 400 requests") && !said.contains("opens"), "{said}");
}

/// A program under nginx's name that rejects everything stands for an import that lets through what is rejected.
#[test]
fn what_an_import_opens_comes_first_and_is_the_exit_status() {
    let case =
        Case::new("nginx", "events {}\nhttp { server { listen 80;\nlocation / { proxy_pass http://10.255.0.1; } } }");
    let folder = case.dir.path().join("bin");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "#!/bin/sh\nat=$(sed -n 's/^listen \\(.*\\);$/\\1/p' \"$4\")\n\
         printf 'listeners: [{{ name: web, bind: \"%s\" }}]\\nroutes: [{{ respond: {{ status: 403 }} }}]\\n' \"$at\" > \"$2/fake.yaml\"\n\
         exec {PORTUNUS} run --control none --no-watch \"$2/fake.yaml\"\n"
    );
    let written = case.dir.path().join("script");
    fs::write(&written, script).unwrap();
    fs::set_permissions(&written, fs::Permissions::from_mode(0o755)).unwrap();
    // A process that another test forks just now may hold open what is written here, and then it cannot be run.
    assert!(Command::new("cp").args([&written, &folder.join("nginx")]).status().unwrap().success());
    let Output { status, stderr, .. } =
        case.command(&["--requests", "60"]).env("PATH", path_with(&folder)).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.starts_with("portunus: opens: the.conf:"), "{said}");
    let expected =
        "opens: the.conf:3: nginx rejects with 403, the import forwards to 10.255.0.1: GET /, Host: default.test (and";
    assert!(said.contains(expected), "{said}");
}

fn path_with(folder: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path))).unwrap()
}

#[test]
fn what_cannot_be_proved_is_an_error_that_says_why() {
    let case = Case::new("haproxy", &format!("{HAPROXY}{BACKENDS}"));
    for (more, path, expected) in [
        (
            &[][..],
            Some(OsStr::new("/nonexistent")),
            "`haproxy` is not in PATH; Debian's package `haproxy` puts it into /usr/sbin",
        ),
        (&["--requests", "0"], None, "--requests needs a number from 1 to 100000"),
        (&["-"], None, "--prove reads the files twice"),
        (&["missing.conf"], None, "missing.conf"),
    ] {
        let mut command = case.command(more);
        path.iter().for_each(|path| _ = command.env("PATH", path));
        let Output { status, stdout, stderr } = command.output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!((status.code(), stdout.is_empty()), (Some(2), true), "{more:?}: {said}");
        assert!(said.contains(expected), "{said}");
    }
    // What the installed program does not take is said in its words.
    let (status, said) = Case::new("nginx", "events {}\nhttp { server { listen 80; listen 80; return 200; } server { listen 80 odd; return sometimes 3 4; } }").prove(&[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("--prove:"), "{said}");
}

/// Neither a terminal that is closed nor a `kill -9` leaves them behind.
#[test]
fn what_was_started_ends_with_the_command() {
    let case = Case::new("nginx", &format!("{NGINX}}} }}"));
    let mut command = case.command(&["--requests", "100000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("both programs", || case.running() >= 2 || child.try_wait().unwrap().is_some());
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no program is left", || case.running() == 0);
}
