//! What the edge keeps once it serves, by its configuration: files, capabilities, system calls. All else it gives up before it has a second thread.
//!
//! [`Needs`] is what a configuration asks for, each part with its reason, and decides nothing; [`enter`] gives up the rest; [`Kept`] says of a later
//! configuration what is out of its reach. The means are those of `net::confine` and `net::capabilities`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use config::{Config, DnsUpdater, Endpoint, LogOutput, SandboxMode, Secret, SourceConfig, Trust};
use keystore::trust::SYSTEM_ROOTS;
use net::capabilities::{self, Capability};
use net::confine::{Confined, Files, Places, Role, confine};

use crate::admin::place;
use crate::supervisor::{Beside, Control};

/// The bits of a file mode for those who are neither its owner nor of its group.
const MAY_READ: u32 = 0o4;
const MAY_WRITE: u32 = 0o2;
const MAY_ENTER: u32 = 0o1;

/// Entries of a folder that are looked at for their owner.
const MAX_ENTRIES: usize = 10_000;

/// Folders that one line of the log names.
const MAX_NAMED: usize = 12;

/// What the system itself has to say to a server: name servers, hosts, authorities, processors, itself. Names of files, since the folder of some is `/etc`.
const SYSTEM: [(&str, &str); 9] = [
    ("/etc/resolv.conf", "name servers"),
    ("/run/systemd/resolve", "name servers"),
    ("/etc/hosts", "names of hosts"),
    ("/etc/nsswitch.conf", "names of hosts"),
    ("/etc/ssl/certs", "certificate authorities"),
    ("/proc/self", "this process"),
    ("/sys/fs/cgroup", "processors"),
    ("/dev/null", "an empty file"),
    ("/dev/urandom", "random numbers"),
];

/// Where systemd names the folders that it made for this service (systemd.exec(5)).
const MANAGED_FOLDERS: [&str; 4] = ["RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY"];

/// Where programs are, and what they are linked with and configured by.
const SYSTEM_PROGRAMS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt"];

/// What a configuration needs, each with the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// What the system has: it may come and go, and nothing of the configuration asks for it, so that it is granted and never demanded.
    system: BTreeMap<PathBuf, &'static str>,
    read: BTreeMap<PathBuf, &'static str>,
    write: BTreeMap<PathBuf, &'static str>,
    run: BTreeMap<PathBuf, &'static str>,
    capabilities: BTreeMap<Capability, &'static str>,
}

impl Needs {
    /// What `config` needs, and what the process needs `beside` it.
    pub fn of(config: &Config, beside: &Beside, control: &Control) -> Needs {
        let system = SYSTEM.iter().map(|(path, why)| (PathBuf::from(path), *why)).collect();
        let mut needs = Needs { system, ..Needs::default() };
        // It may be a link that leads out of its folder.
        let authorities = Path::new(SYSTEM_ROOTS).canonicalize().ok();
        needs.system.extend(authorities.map(|path| (place_of(&path), "certificate authorities")));
        beside.read.iter().for_each(|path| needs.reads(path, "the configuration"));
        config.included.iter().for_each(|included| needs.reads_folder(&included.folder, "the configuration"));
        needs.model(config);
        config.named_files.iter().for_each(|path| needs.reads(path, "named by the configuration"));
        needs.writes_of(config, beside, control);
        needs.programs(config);
        needs.sandbox_adds(config);
        needs.capabilities_of(config);
        needs
    }

    /// What stands in the model, where no file may have named it.
    fn model(&mut self, config: &Config) {
        for store in config.keystores.values() {
            self.reads(store.location.path(), "keystore");
            if let keystore::Location::PemFolder(folder) = &store.location {
                let real = keystore::keys::real_folders(std::slice::from_ref(folder));
                real.iter().for_each(|folder| self.reads_folder(folder, "keystore"));
            }
            if let Some(Secret::File(path)) = &store.password {
                self.reads(path, "password");
            }
        }
        for folder in config.key_servers.values().filter_map(|group| group.enrolment.as_ref()) {
            self.reads_folder(folder, "client certificates that are renewed");
        }
        for contract in config.contracts.values() {
            contract.files().into_iter().for_each(|path| self.reads(path, "API document"));
            contract.options.folder.iter().for_each(|folder| self.reads_folder(folder, "API document"));
        }
        config.tokens.values().filter_map(|tokens| tokens.files()).for_each(|path| self.reads(path, "keys of tokens"));
        config.policies.values().flat_map(|policy| policy.files()).for_each(|path| self.reads(path, "policy"));
        config.geoip.files().for_each(|path| self.reads(path, "database of addresses"));
        config.response_files().for_each(|path| self.reads(path, "response"));
        let groups = config.upstreams.values().filter_map(|upstream| upstream.tls.as_ref());
        for tls in groups {
            let files = [&tls.ca, &tls.client_certificate, &tls.client_key];
            files.into_iter().flatten().for_each(|path| self.reads(path, "TLS to upstreams"));
        }
        let headers = config.listeners.iter().filter_map(|listener| listener.proxy_protocol.as_ref());
        let trusts = headers.map(|rule| &rule.trust).chain(config.udp_listeners.iter().map(|listener| &listener.trust));
        for trust in trusts {
            if let Trust::File(path) = trust {
                self.reads(path, "trusted peers");
            }
        }
    }

    fn writes_of(&mut self, config: &Config, beside: &Beside, control: &Control) {
        if let Some(LogOutput::File(path)) = config.log.access.as_ref().map(|access| &access.output) {
            self.writes(path, "access log");
        }
        let admin = config.admin.iter().map(|admin| &admin.bind);
        for endpoint in config.listeners.iter().flat_map(|listener| &listener.bind).chain(admin) {
            if let Endpoint::Unix(path) = endpoint {
                self.writes(path, "Unix socket");
            }
        }
        let control = match control {
            Control::None => None,
            Control::At(path) => Some(path.clone()),
            Control::Usual => place::to_serve().ok(),
        };
        control.iter().for_each(|path| self.writes(path, "admin socket"));
        let fetched = config.contracts.values().filter(|contract| contract.document_url.is_some());
        fetched.for_each(|contract| self.writes(&contract.document, "API document that is fetched"));
        for acme in config.keystores.values().filter_map(|store| store.acme.as_ref()) {
            self.write.insert(acme.folder.clone(), "certificates that are ordered");
        }
        config.ticket_keys.iter().for_each(|path| self.writes(path, "keys of session tickets"));
        for folder in config.key_servers.values().filter_map(|group| group.enrolment.as_ref()) {
            self.write.insert(folder.clone(), "client certificates that are renewed");
        }
        beside.write.iter().for_each(|path| self.writes(path, "written beside what the configuration names"));
        let managed = MANAGED_FOLDERS.iter().filter_map(std::env::var_os);
        for folder in managed.flat_map(|folders| std::env::split_paths(&folders).collect::<Vec<_>>()) {
            // Each must be a path of its own, or it would stand for wherever we are.
            if folder.is_absolute() && folder.parent().is_some() {
                self.write.entry(folder).or_insert("made for this service by systemd");
            }
        }
        self.write.insert(PathBuf::from("/dev/null"), "an empty file");
    }

    /// Programs that set DNS records, and what any program of the system needs to run.
    fn programs(&mut self, config: &Config) {
        let orders = config.keystores.values().filter_map(|store| store.acme.as_ref());
        let updaters = orders.filter_map(|acme| Some(&acme.dns.as_ref()?.by));
        for path in updaters.filter_map(|by| if let DnsUpdater::Program(words) = by { words.first() } else { None }) {
            self.run.insert(place_of(Path::new(path)), "program for DNS records");
            SYSTEM_PROGRAMS.iter().for_each(|folder| _ = self.run.insert(PathBuf::from(folder), "what programs need"));
            self.write.insert(std::env::temp_dir(), "temporary files of programs");
        }
    }

    fn sandbox_adds(&mut self, config: &Config) {
        config.sandbox.read.iter().for_each(|folder| self.reads_folder(folder, "sandbox.read"));
        config.sandbox.write.iter().for_each(|folder| _ = self.write.insert(folder.clone(), "sandbox.write"));
    }

    fn capabilities_of(&mut self, config: &Config) {
        let tcp = config.listeners.iter().flat_map(|listener| &listener.bind);
        let tcp = tcp.chain(config.admin.iter().map(|admin| &admin.bind)).filter_map(|endpoint| match endpoint {
            Endpoint::Tcp(address) => Some(address.port()),
            Endpoint::Unix(_) => None,
        });
        let udp = config.udp_listeners.iter().flat_map(|listener| &listener.bind).map(std::net::SocketAddr::port);
        if tcp.chain(udp).any(|port| (1..1024).contains(&port)) {
            let why = "listeners have ports below 1024, and a reload may add others";
            self.capabilities.insert(Capability::BindService, why);
        }
        let upstreams = config.upstreams.values().map(|upstream| &upstream.source);
        let mut sources = upstreams.chain(config.udp_listeners.iter().map(|listener| &listener.source));
        if sources.any(|source: &SourceConfig| source.client || source.mark != 0) {
            let why = "connections go on from the client's own address, or marked";
            self.capabilities.insert(Capability::NetAdmin, why);
            self.capabilities.insert(Capability::NetRaw, why);
            self.capabilities.entry(Capability::BindService).or_insert("clients may have ports below 1024");
        }
        if config.listeners.iter().any(|listener| !listener.reads_requests()) {
            let why = "tunnels may need more pipes than a user may have";
            self.capabilities.insert(Capability::SysResource, why);
        }
        let is_anothers = || {
            self.system.keys().chain(self.read.keys()).any(|path| is_anothers(path))
                || self.write.keys().any(|path| is_closed_to_root(path, MAY_WRITE))
        };
        if net::process::effective_user() == 0 && is_anothers() {
            let why = "files or folders of the configuration belong to other users";
            self.capabilities.insert(Capability::DacOverride, why);
        }
    }

    /// A file or folder that is read. Files are replaced by renaming, so it is the folder of a file that must be open; and where a link leads.
    fn reads(&mut self, path: &Path, why: &'static str) {
        for path in [Some(path.to_owned()), path.canonicalize().ok()].into_iter().flatten() {
            match path.is_dir() {
                true => self.reads_folder(&path, why),
                false => self.reads_folder(&place_of(&path), why),
            }
        }
    }

    fn reads_folder(&mut self, folder: &Path, why: &'static str) {
        self.read.entry(folder.to_owned()).or_insert(why);
    }

    fn writes(&mut self, path: &Path, why: &'static str) {
        self.write.entry(place_of(path)).or_insert(why);
    }

    /// All that may be read, demanded or not.
    fn readable(&self) -> BTreeMap<PathBuf, &'static str> {
        let own = self.read.iter().chain(&self.system);
        own.map(|(path, why)| (path.clone(), *why)).collect()
    }

    /// What is written below a folder, each with the reason.
    pub fn writes_below(&self, folder: &Path) -> Vec<(PathBuf, &'static str)> {
        let below = self.write.iter().filter(|(path, _)| path.starts_with(folder));
        below.map(|(path, why)| (path.clone(), *why)).collect()
    }

    /// For people: what would be kept, and why.
    pub fn explain(&self, mode: SandboxMode) -> String {
        let mode = match mode {
            SandboxMode::Auto => "auto (as far as the kernel can)",
            SandboxMode::On => "on (or the server does not start)",
            SandboxMode::Off => "off: nothing is given up",
        };
        let landlock = net::confine::landlock_version().map_or_else(
            || "this kernel has no Landlock: files are not closed off".to_owned(),
            |version| format!("Landlock, version {version}"),
        );
        // Writing to a String cannot fail.
        let mut text = format!("sandbox: {mode}\nfiles: {landlock}\n");
        for (what, places) in [("read", &self.readable()), ("write", &self.write), ("run", &self.run)] {
            for (path, why) in places {
                let missing = if path.exists() { "" } else { "; not there, so not allowed" };
                let _ = writeln!(text, "  {what:5} {}  ({why}{missing})", path.display());
            }
        }
        let programs = if self.run.is_empty() { "none" } else { "those in the folders above" };
        let _ = writeln!(text, "programs: {programs}; `portunus upgrade` is done by a process that stands outside");
        text.push_str("system calls: those of a server (seccomp)\ncapabilities, as far as the process has them:\n");
        for (capability, why) in &self.capabilities {
            let _ = writeln!(text, "  {}  ({why})", capability.name());
        }
        if self.capabilities.is_empty() {
            text.push_str("  none\n");
        }
        text
    }
}

/// What must be open for a file to be replaced: its folder. Devices stand by themselves, and the root folder would be everything.
fn place_of(file: &Path) -> PathBuf {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let is_alone = ["/dev", "/proc"].iter().any(|folder| file.starts_with(folder));
    let is_root = folder.canonicalize().is_ok_and(|folder| folder == Path::new("/"));
    if is_alone || is_root { file.to_owned() } else { folder }
}

/// Whether root could not read there without its privilege.
fn is_anothers(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let is_closed = |path: &Path| is_closed_to_root(path, MAY_READ);
    !folder.starts_with("/proc") && (is_closed(folder) || entries.into_iter().any(|entry| is_closed(&entry.path())))
}

/// Whether something belongs to another user, who lets nobody else do this there.
fn is_closed_to_root(path: &Path, wanted: u32) -> bool {
    std::fs::metadata(path).is_ok_and(|found| {
        let wanted = if found.is_dir() { wanted | MAY_ENTER } else { wanted };
        found.uid() != 0 && found.mode() & wanted != wanted
    })
}

/// What the process was left with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// What may be read, written to and run; none if files are not closed off.
    places: Option<Places>,
    /// What was to be written to and was not there at the start: said then, and no reason to reject whatever comes next.
    missing: BTreeSet<PathBuf>,
    /// Capabilities that are left.
    capabilities: Vec<Capability>,
    /// Those that were given up.
    given_up: Vec<Capability>,
}

/// Gives up all that is not needed, for good. To be called before any other thread is made. Gives what is kept, and what could not be given up.
///
/// # Errors
/// The configuration demands the sandbox, and something could not be given up.
pub fn enter(needs: &Needs, mode: SandboxMode) -> Result<(Kept, Vec<String>), Vec<String>> {
    if mode == SandboxMode::Off {
        return Ok((Kept::default(), Vec::new()));
    }
    let mut problems = Vec::new();
    let threads = net::process::threads().unwrap_or(1);
    if threads > 1 {
        problems.push(format!("{} threads that were there before are not closed off", threads - 1));
    }
    let wanted: Vec<Capability> = needs.capabilities.keys().copied().collect();
    let before = capabilities::held();
    if let Err(error) = capabilities::keep_only(&wanted) {
        problems.push(format!("capabilities cannot be given up: {error}"));
    }
    let capabilities = capabilities::held();
    let given_up = before.into_iter().filter(|one| !capabilities.contains(one)).collect();
    let there = |places: &BTreeMap<PathBuf, &str>| places.keys().filter_map(|path| path.canonicalize().ok()).collect();
    let places = Places { read: there(&needs.readable()), write: there(&needs.write), run: there(&needs.run) };
    let missing = needs.write.keys().filter(|path| !path.exists()).cloned().collect();
    let role = if needs.run.is_empty() { Role::Gate } else { Role::GateWithPrograms };
    let Confined { privileges, files, calls } = confine(role, &places);
    let is_closed = matches!(files, Ok(Files::Closed));
    let files = match files {
        Ok(Files::Open) => {
            Err("this kernel has no Landlock: files beside those of the configuration are not closed off".to_owned())
        }
        files => files.map(|_| ()),
    };
    problems.extend([privileges, files, calls].into_iter().filter_map(Result::err));
    if mode == SandboxMode::On && !problems.is_empty() {
        let fix = "fix this, or write `sandbox: auto`";
        return Err(problems.into_iter().map(|problem| format!("sandbox: {problem}; {fix}")).collect());
    }
    Ok((Kept { places: is_closed.then_some(places), missing, capabilities, given_up }, problems))
}

impl Kept {
    /// Logs what is left, and what could not be given up.
    pub fn report(&self, problems: &[String]) {
        let named = |of: fn(&Places) -> &Vec<PathBuf>| {
            self.places.as_ref().map_or_else(|| "everything".to_owned(), |places| list(of(places)))
        };
        let (read, write) = (named(|places| &places.read), named(|places| &places.write));
        let programs = named(|places| &places.run);
        let programs = if programs.is_empty() { "none" } else { &programs };
        let capabilities: Vec<&str> = self.capabilities.iter().map(|one| one.name()).collect();
        let capabilities = if capabilities.is_empty() { "none".to_owned() } else { capabilities.join(" ") };
        tracing::info!(read, write, programs, capabilities, "sandbox: no new privileges, and this is left");
        problems.iter().for_each(|problem| tracing::warn!("sandbox: {problem}"));
    }

    /// What of `needs` is out of reach, each with what to do about it.
    pub fn lacks(&self, needs: &Needs) -> Vec<String> {
        let fix = "`portunus upgrade` loads it without losing a connection";
        let mut problems = Vec::new();
        if let Some(Places { read, write, run }) = &self.places {
            let covers = |granted: &[PathBuf], path: &Path| {
                // What is not there is reported by whoever wants it.
                path.canonicalize().map_or(true, |path| granted.iter().any(|folder| path.starts_with(folder)))
            };
            // What is written to is made where it is missing, or others make it: in the folder above it that is there.
            let may_write = |path: &Path| {
                let there = path.ancestors().find_map(|above| above.canonicalize().ok());
                self.missing.contains(path)
                    || there.is_none_or(|there| write.iter().any(|folder| there.starts_with(folder)))
            };
            let is_open = |path: &Path| [read, write, run].into_iter().any(|granted| covers(granted, path));
            for (path, why) in needs.read.iter().filter(|(path, _)| !is_open(path)) {
                let path = path.display();
                problems.push(format!("{path} ({why}) is outside of what the sandbox left open at the start: {fix}, or name the folder in `sandbox.read` beforehand"));
            }
            for (path, why) in needs.run.iter().filter(|(path, _)| !covers(run, path)) {
                problems.push(format!("{} ({why}) may not be run since the start: {fix}", path.display()));
            }
            for (path, why) in needs.write.iter().filter(|(path, _)| !may_write(path)) {
                let path = path.display();
                problems.push(format!("{path} ({why}) may not be written to since the start: {fix}, or name the folder in `sandbox.write` beforehand"));
            }
        }
        // One that the process never had may not be needed: where a range of ports is open to all.
        let lacking = needs.capabilities.iter().filter(|(one, _)| self.given_up.contains(one));
        let text =
            |(one, why): (&Capability, &&str)| format!("{} ({why}) was given up at the start: {fix}", one.name());
        problems.extend(lacking.map(text));
        problems
    }

    /// A word to problems that files out of reach may be the cause of.
    pub fn hint(&self, problems: &[String]) -> Option<String> {
        let read = &self.places.as_ref()?.read;
        problems.iter().any(|problem| problem.contains("ermission denied")).then(|| {
            format!("the sandbox may be the reason: since the start this process reads below {} alone. `portunus upgrade` opens what the configuration names now, without losing a connection", list(read))
        })
    }
}

/// Some names of folders.
fn list(places: &[PathBuf]) -> String {
    let mut names: Vec<String> = places.iter().take(MAX_NAMED).map(|path| path.display().to_string()).collect();
    if places.len() > MAX_NAMED {
        names.push(format!("and {} more", places.len() - MAX_NAMED));
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_can_be_written_to_where_the_one_above_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [open, closed] = ["open", "closed"].map(|name| root.join(name));
        [&open, &closed].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let places = Places { read: Vec::new(), write: vec![open.clone()], run: Vec::new() };
        let missing = BTreeSet::from([closed.join("before")]);
        let kept = Kept { places: Some(places), missing, ..Kept::default() };
        for (folder, is_reached) in [
            (open.clone(), true),
            (open.join("new/store"), true),
            (closed.clone(), false),
            (closed.join("new/store"), false),
            (closed.join("before"), true),
            (root.join("elsewhere"), false),
        ] {
            let needs = Needs { write: BTreeMap::from([(folder.clone(), "certificates")]), ..Needs::default() };
            assert_eq!(kept.lacks(&needs).is_empty(), is_reached, "{}", folder.display());
        }
    }
}
