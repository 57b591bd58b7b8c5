//! The sandbox of the key server: the files it may use from its start on, by Landlock, and the system calls, by seccomp.
//!
//! What is written does not give away what it is run by: nothing that lies beside its log or its sockets can be changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::{AuditTarget, Endpoint, KeyServerConfig, SandboxMode};
use net::capabilities::{self, Capability};
use net::confine::{Files, Places, places_on_the_way};

/// What a key server uses, and so keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
    /// Files that are written to by themselves, since what it is run by lies beside them.
    files: BTreeSet<PathBuf>,
    /// Folders where sockets are made and removed, and files removed but not made.
    sockets: BTreeSet<PathBuf>,
    /// Files in folders that may be written to.
    written: BTreeSet<PathBuf>,
    /// The configuration, trust and passwords, and each link on the way there.
    guarded: BTreeSet<PathBuf>,
    /// The same of keys, which this process may be there to make.
    keys: BTreeSet<PathBuf>,
    /// What would have to be written to where one of these lies.
    concerns: Vec<String>,
}

/// What became of it.
#[derive(Debug)]
pub struct Outcome {
    /// Files that were not named.
    pub files: Files,
    /// What is written where it could replace what the server is run by.
    pub concerns: Vec<String>,
}

/// Allows this process, from now on, the files it is configured with, `control` among them, and the capabilities and system calls it needs. To be called
/// before any other thread is made.
///
/// # Errors
/// The kernel rejects, or the configuration demands what cannot be had.
pub fn confine(config: &KeyServerConfig, control: Option<&Path>) -> Result<Outcome, Vec<String>> {
    let needs = Needs::of(config, control);
    let problems = needs.problems(config.sandbox);
    if !problems.is_empty() {
        return Err(problems);
    }
    // With the rights of the start, and as the log itself would; which says what is wrong if it cannot be.
    for path in &needs.files {
        let _ = telemetry::open_file(path);
    }
    capabilities::keep_only(&needs.capabilities(config)).map_err(|error| {
        vec![format!("capabilities cannot be given up: {error}; switch the sandbox off with `sandbox: false`")]
    })?;
    match net::confine::sandbox(&needs.places()) {
        Ok(Files::Open) if config.sandbox == SandboxMode::On => Err(vec![
            "this kernel has no Landlock: files beside those named in the configuration cannot be closed off; fix this, or go without with `sandbox: auto`".to_owned(),
        ]),
        outcome => outcome.map(|files| Outcome { files, concerns: needs.concerns }).map_err(|problem| vec![problem]),
    }
}

impl Needs {
    /// What this configuration needs.
    pub fn of(config: &KeyServerConfig, control: Option<&Path>) -> Needs {
        let mut needs = Needs { read: read_folders(config), ..Needs::default() };
        needs.reads(config);
        needs.guards(config);
        if let Some(AuditTarget::File(path)) = &config.audit {
            needs.writes_file(path);
        }
        if let Some(path) = &config.pid_file {
            needs.writes_file(path);
            // It is removed at the end.
            needs.sockets.insert(parent(path));
        }
        let admin = config.admin.iter().map(|admin| &admin.bind);
        for endpoint in config.listeners.iter().flat_map(|listener| &listener.bind).chain(admin) {
            if let Endpoint::Unix(path) = endpoint {
                needs.sockets.insert(parent(path));
            }
        }
        needs.sockets.extend(control.map(parent));
        // Keys are made in the first folder of their set, and in no other.
        let growing = config.keys.values().filter(|set| set.grows).filter_map(|set| set.folders.first());
        growing.for_each(|folder| needs.writes_folder(folder, "keys that are made"));
        let enrolment = config.enrolment.iter().map(|enrolment| &enrolment.folder);
        enrolment.for_each(|folder| needs.writes_folder(folder, "enrolment"));
        needs
    }

    /// Why a server with this configuration would not start, as far as that shows beforehand.
    pub fn problems(&self, mode: SandboxMode) -> Vec<String> {
        let concerns = self.concerns.iter().filter(|_| mode == SandboxMode::On);
        concerns.map(|concern| format!("sandbox: {concern}, or write `sandbox: auto`")).collect()
    }

    /// As the kernel is asked for them.
    pub fn places(&self) -> Places {
        let list = |places: &BTreeSet<PathBuf>| places.iter().cloned().collect();
        let Needs { read, write, files, sockets, .. } = self;
        let [read, write, files, sockets] = [read, write, files, sockets].map(list);
        Places { read, write, files, sockets, ..Places::default() }
    }

    fn reads(&mut self, config: &KeyServerConfig) {
        // Links may lead elsewhere, as renewal tools lay them; passwords and the configuration itself are read again at a reload.
        let targets: Vec<PathBuf> = self.read.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
        self.read.extend(targets);
        for folder in self.read.clone() {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
            let targets =
                links.filter_map(|entry| Some(std::fs::canonicalize(entry.path()).ok()?.parent()?.to_owned()));
            self.read.extend(targets);
        }
        for set in config.keys.values() {
            self.read.extend(keystore::keys::real_folders(&set.folders));
        }
        self.read.extend(secrets(config).iter().map(parent));
        self.read.extend(admin_files(config).iter().map(parent));
        self.read.extend(config.config_folder.clone());
        self.read.insert(PathBuf::from("/proc/self"));
    }

    /// What decides whom the server serves, and with what.
    fn guards(&mut self, config: &KeyServerConfig) {
        let server_ca = config.enrolment.iter().map(|enrolment| enrolment.server_ca.clone());
        let files = trust(config).into_iter().chain(server_ca).chain(secrets(config)).chain(admin_files(config));
        // Of the configuration its folder is known, and everything that is directly in it.
        let configuration = config.config_folder.iter().map(|folder| folder.join("*"));
        self.guarded = files.chain(configuration).flat_map(|path| places_on_the_way(&path)).collect();
        let keys = config.keys.values().flat_map(|set| set.folders.iter().chain(&set.files));
        self.keys = keys.flat_map(|path| places_on_the_way(path)).collect();
    }

    /// A file that grows and is made anew where somebody renamed it: its folder, unless that would give something away.
    fn writes_file(&mut self, path: &Path) {
        let folder = parent(path);
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        let is_guarded = self.guarded.iter().chain(&self.keys).any(|place| place.starts_with(&real));
        if is_guarded || self.keys.iter().any(|keys| real.starts_with(keys)) {
            self.files.insert(path.to_owned());
        } else {
            self.write.insert(folder);
            self.written.insert(path.to_owned());
        }
    }

    /// A folder where files are made and replaced.
    fn writes_folder(&mut self, folder: &Path, why: &str) {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if let Some(guarded) = self.guarded.iter().find(|place| place.starts_with(&real)) {
            self.concerns.push(format!(
                "{} ({why}) is written to by this process, which could replace {} there: give it a folder of its own",
                folder.display(),
                guarded.display()
            ));
        }
        self.write.insert(folder.to_owned());
    }

    /// Capabilities that it cannot do without: none, as a rule.
    fn capabilities(&self, config: &KeyServerConfig) -> Vec<Capability> {
        let admin = config.admin.iter().map(|admin| &admin.bind);
        let mut endpoints = config.listeners.iter().flat_map(|listener| &listener.bind).chain(admin);
        let is_low = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Tcp(at) if (1..1024).contains(&at.port()));
        let is_root = net::process::effective_user() == 0;
        let Needs { read, write, files, sockets, written, .. } = self;
        let mut outputs = write.iter().chain(files).chain(sockets).chain(written);
        let is_anothers = read.iter().any(|path| capabilities::is_read_with_privilege(path))
            || outputs.any(|path| capabilities::is_written_with_privilege(path));
        let wanted = [
            (Capability::BindService, endpoints.any(is_low)),
            (Capability::DacOverride, is_root && is_anothers),
            (Capability::LockMemory, config.lock_memory && net::process::is_locking_limited()),
        ];
        wanted.into_iter().filter_map(|(one, is_needed)| is_needed.then_some(one)).collect()
    }
}

/// Files of passwords and tokens.
fn secrets(config: &KeyServerConfig) -> Vec<PathBuf> {
    let passwords = config.keys.values().filter_map(|set| set.password.as_ref());
    let secrets = passwords.chain(config.admin.iter().filter_map(|admin| admin.token.as_ref()));
    secrets
        .filter_map(|secret| if let config::Secret::File(path) = secret { Some(path.clone()) } else { None })
        .collect()
}

/// Files of the admin listener's TLS.
fn admin_files(config: &KeyServerConfig) -> Vec<PathBuf> {
    let Some(tls) = config.admin.as_ref().and_then(|admin| admin.tls.as_ref()) else { return Vec::new() };
    let rule = tls.client_certificate.as_ref();
    let files = [Some(&tls.certificate), Some(&tls.private_key), rule.map(|rule| &rule.ca)];
    let lists = rule.and_then(|rule| rule.crl.as_ref());
    files.into_iter().flatten().chain(lists).cloned().collect()
}

/// Files of the listeners' TLS.
fn trust(config: &KeyServerConfig) -> Vec<PathBuf> {
    let tls = config.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let files = tls.flat_map(|tls| {
        [Some(&tls.certificate), Some(&tls.private_key), tls.client_ca.as_ref(), tls.client_crl.as_ref()]
    });
    files.flatten().cloned().collect()
}

/// The folders that keys and trust are read from.
fn read_folders(config: &KeyServerConfig) -> BTreeSet<PathBuf> {
    let sets = config.keys.values();
    let folders = sets.clone().flat_map(|set| set.folders.clone());
    let files = sets.flat_map(|set| set.files.iter().map(parent));
    let enrolment =
        config.enrolment.iter().flat_map(|enrolment| [enrolment.folder.clone(), parent(&enrolment.server_ca)]);
    folders.chain(files).chain(trust(config).into_iter().map(parent)).chain(enrolment).collect()
}

/// The folder that a file is in.
fn parent(path: impl AsRef<Path>) -> PathBuf {
    match path.as_ref().parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    /// Where the child finds the folder of its configuration.
    const FOLDER: &str = "TEST_KEY_SERVER_FOLDER";

    const CONFIG: &str = "listeners:\n  - name: edges\n    bind: 127.0.0.1:0\n    tls: { certificate: server.pem, private_key: server.key, client_ca: ca.pem }\n  - { name: local, bind: \"unix:edges.sock\" }\nkeys:\n  sites: { folders: [keys] }\naccess:\n  - { clients: [\"*\"], keys: [sites] }\n";

    /// A folder of a key server with what stands behind the access rules of its configuration.
    fn site(folder: &Path, further: &str) -> KeyServerConfig {
        fs::create_dir_all(folder.join("keys")).unwrap();
        for name in ["server.pem", "server.key", "ca.pem", "keys/site.key"] {
            fs::write(folder.join(name), name).unwrap();
        }
        let file = folder.join("key-server.yaml");
        fs::write(&file, format!("{CONFIG}{further}")).unwrap();
        config::load_key_server(&file).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// What would change what the server is run by, each with whether it could be done. `current` is the link by which the folder was named.
    fn changes(current: &Path) -> Vec<(&'static str, bool)> {
        let root = current.parent().unwrap();
        let path = |name: &str| current.join(name);
        let other = root.join("log/other");
        let relinked = || fs::remove_file(current).and_then(|()| symlink(root.join("log"), current));
        let ways: [(&str, &dyn Fn() -> std::io::Result<()>); 9] = [
            ("configuration", &|| fs::write(path("key-server.yaml"), "listeners: []")),
            ("trust", &|| fs::write(path("ca.pem"), "other")),
            ("a key", &|| fs::write(path("keys/site.key"), "other")),
            ("a new key", &|| fs::write(path("keys/other.key"), "other")),
            ("trust, by moving the log", &|| fs::rename(path("audit.log"), path("ca.pem"))),
            ("trust, by moving something else", &|| fs::rename(&other, path("server.pem"))),
            ("a new file", &|| fs::write(path("other"), "other")),
            ("a link", &|| symlink(&other, path("link"))),
            ("the folder", &relinked),
        ];
        let tried = ways.into_iter().map(|(what, act)| {
            for file in [&path("audit.log"), &other] {
                let _ = fs::write(file, "a line");
            }
            (what, act().is_ok())
        });
        tried.collect()
    }

    /// With the places that a start has: the log and the sockets lie beside the configuration, in one that was reached by a link.
    #[test]
    fn what_it_writes_does_not_let_it_change_what_it_is_run_by() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            return inside(Path::new(&folder));
        }
        for is_confined in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (real, current) = (folder.path().join("releases/3"), folder.path().join("current"));
            fs::create_dir_all(&real).unwrap();
            fs::create_dir(folder.path().join("log")).unwrap();
            symlink("releases/3", &current).unwrap();
            site(&current, "audit: { output: audit.log }\n");
            if !is_confined {
                let closed: Vec<_> = changes(&current).into_iter().filter(|(_, is_done)| !is_done).collect();
                assert!(closed.is_empty(), "all of it is possible without the sandbox: {closed:?}");
                continue;
            }
            let output = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "confine::tests::what_it_writes_does_not_let_it_change_what_it_is_run_by",
                    "--nocapture",
                ])
                .env(FOLDER, &current)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("running 1 test"), "{text}");
            text.lines().filter(|line| line.starts_with("skipped:")).for_each(|line| eprintln!("{line}"));
        }
    }

    /// In the child.
    fn inside(current: &Path) {
        // A second log lies above the link, in a folder where it could be replaced.
        for audit in ["audit.log", "../audit.log"] {
            let needs = Needs::of(&site(current, &format!("audit: {{ output: {audit} }}\n")), None);
            assert_eq!((needs.write, needs.files.len()), (BTreeSet::new(), 1), "{audit}");
        }
        let mut config = site(current, "audit: { output: audit.log }\n");
        config.sandbox = SandboxMode::Auto;
        let outcome = confine(&config, Some(&current.join("control.sock"))).unwrap();
        assert_eq!(outcome.concerns, Vec::<String>::new());
        // Its own work it can do.
        for name in ["edges.sock", "control.sock"] {
            net::unix_socket::bind(&current.join(name), 0o600, 1).unwrap();
        }
        telemetry::open_file(&current.join("audit.log")).unwrap();
        if outcome.files == Files::Open {
            println!("skipped: files are not closed off, as this kernel has no Landlock");
            return;
        }
        let done: Vec<_> = changes(current).into_iter().filter(|(_, is_done)| *is_done).collect();
        assert!(done.is_empty(), "{done:?}");
    }

    #[test]
    fn what_has_to_be_written_beside_the_trust_is_a_problem_where_the_sandbox_is_demanded() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let enrolment = |place: &str| format!("enrolment: {{ folder: \"{place}\", server_ca: ca.pem }}\n");
        for (place, is_problem) in [("enrolment", false), (".", true), ("..", true), ("keys", false)] {
            let needs = Needs::of(&site(&folder.join("etc"), &enrolment(place)), None);
            assert_eq!(!needs.problems(SandboxMode::On).is_empty(), is_problem, "{place}: {needs:?}");
            assert!(needs.problems(SandboxMode::Auto).is_empty());
        }
    }

    #[test]
    fn root_keeps_what_it_takes_to_write_to_the_files_of_others() {
        if net::process::effective_user() != 0 {
            eprintln!("skipped: only root can give files to others");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        // A socket's folder, a log beside the configuration, one in a folder of its own, and a folder that is written to.
        for (others, further, is_needed) in [
            ("log", "audit: { output: log/audit.log }\n", true),
            ("log/audit.log", "audit: { output: log/audit.log }\n", true),
            ("audit.log", "audit: { output: audit.log }\n", true),
            ("run", "admin: { bind: \"unix:run/admin.sock\" }\n", true),
            ("run", "audit: { output: log/audit.log }\n", false),
        ] {
            let root = tempfile::tempdir_in(folder.path()).unwrap();
            ["log", "run"].iter().for_each(|name| fs::create_dir(root.path().join(name)).unwrap());
            ["audit.log", "log/audit.log"].iter().for_each(|name| fs::write(root.path().join(name), "").unwrap());
            let config = site(root.path(), further);
            std::os::unix::fs::chown(root.path().join(others), Some(1000), Some(1000)).unwrap();
            let kept = Needs::of(&config, None).capabilities(&config);
            assert_eq!(kept.contains(&Capability::DacOverride), is_needed, "{others}: {further}");
        }
    }
}
