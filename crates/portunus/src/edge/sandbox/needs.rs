//! What a configuration needs of the machine, each part with its reason: files and sockets as the configuration names them, capabilities, programs. Decides nothing.
//!
//! Whatever is written must not be what is read as configuration: a file of that is guarded, and so is each link on the way to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use config::{Config, DnsUpdater, Endpoint, LogOutput, Output, SandboxMode, Secret, SourceConfig, Trust, Written};
use keystore::trust::SYSTEM_ROOTS;
use net::capabilities::{self, Capability};
use net::confine::places_on_the_way;

use crate::admin::place;
use crate::supervisor::{Beside, Control};

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

/// The reason of folders that the configuration names for writing.
pub(super) const NAMED: &str = "sandbox.write";

/// Where systemd names the folders that it made for this service (systemd.exec(5)).
const MANAGED_FOLDERS: [&str; 4] = ["RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY"];

/// Where programs are, and what they are linked with and configured by.
const SYSTEM_PROGRAMS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt"];

/// How something is read, from what its loss does least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Guard {
    /// A link on the way to something else.
    Link,
    /// By its name, so that it is missed.
    File,
    /// All in a folder, certificates and documents.
    Folder,
    /// All in a folder, parts of the configuration, of which none is missed.
    Parts,
}

/// What a configuration needs, each with the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// What the system has: it may come and go, and nothing of the configuration asks for it, so that it is granted and never demanded.
    pub(super) system: BTreeMap<PathBuf, &'static str>,
    pub(super) read: BTreeMap<PathBuf, &'static str>,
    pub(super) write: BTreeMap<PathBuf, &'static str>,
    pub(super) run: BTreeMap<PathBuf, &'static str>,
    /// Files that are written to by themselves, since configuration lies beside them.
    pub(super) files: BTreeMap<PathBuf, &'static str>,
    /// Folders where sockets are made and removed, and no files are made, for the same reason.
    pub(super) sockets: BTreeMap<PathBuf, &'static str>,
    /// What is read as configuration, and the links on the way to it, each where it really is.
    guarded: BTreeMap<PathBuf, Guard>,
    /// The files and sockets themselves that are written to or made.
    outputs: BTreeSet<PathBuf>,
    /// The sockets themselves that are connected to.
    servers: BTreeSet<PathBuf>,
    /// What would have to be written to in a folder that holds configuration.
    pub(super) concerns: Vec<String>,
    /// Folders of Unix sockets that it connects to. Where there are none, nor any of its own, it makes none once it serves.
    pub(super) connect: BTreeMap<PathBuf, &'static str>,
    has_unix_listeners: bool,
    pub(super) capabilities: BTreeMap<Capability, &'static str>,
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
        for included in &config.included {
            needs.may_read(&included.folder, "the configuration");
            needs.guard(&included.folder, Guard::Parts);
        }
        needs.model(config);
        let added = [&config.sandbox.read, &config.sandbox.write, &config.sandbox.connect];
        let named = config.named_files.iter().filter(|path| !added.iter().any(|folders| folders.contains(path)));
        named.for_each(|path| needs.reads(path, "named by the configuration"));
        needs.sandbox_adds(config);
        needs.writes_of(config, beside, control);
        needs.connects(config);
        needs.programs(config);
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
            self.may_read(folder, "client certificates that are renewed");
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

    /// What is written, wherever the configuration names it, and the admin socket.
    fn writes_of(&mut self, config: &Config, beside: &Beside, control: &Control) {
        let mut outputs: Vec<_> = config.written.iter().map(|one| (one.path.clone(), one.what, one.how)).collect();
        // A front door has no file that would name them.
        if let Some(LogOutput::File(path)) = config.log.access.as_ref().map(|access| &access.output) {
            outputs.push((path.clone(), "access log", Output::Log));
        }
        self.has_unix_listeners = config.written.iter().any(|Written { how, .. }| *how == Output::Socket);
        let control = match control {
            Control::None => None,
            Control::At(path) => Some(path.clone()),
            Control::Usual => place::to_serve().ok(),
        };
        outputs.extend(control.map(|path| (path, "admin socket", Output::Socket)));
        let noted = beside.write.iter().map(|path| (path.clone(), "written beside what the configuration names"));
        outputs.extend(noted.map(|(path, what)| (path, what, Output::Replaced)));
        self.spare_what_is_own(config, beside, &outputs);
        outputs.into_iter().for_each(|(path, why, output)| self.outputs(path, why, output));
        beside.own.iter().for_each(|folder| _ = self.write.entry(folder.clone()).or_insert("what it keeps for itself"));
        let managed = MANAGED_FOLDERS.iter().filter_map(std::env::var_os);
        for folder in managed.flat_map(|folders| std::env::split_paths(&folders).collect::<Vec<_>>()) {
            // Each must be a path of its own, or it would stand for wherever we are. Nothing asks for it yet, so that it gives way to configuration.
            if folder.is_absolute() && folder.parent().is_some() && self.guarded_by(&folder).is_none() {
                self.write.entry(folder).or_insert("made for this service by systemd");
            }
        }
        self.write.insert(PathBuf::from("/dev/null"), "an empty file");
    }

    /// What this process writes is no configuration that somebody else wrote.
    fn spare_what_is_own(&mut self, config: &Config, beside: &Beside, outputs: &[(PathBuf, &'static str, Output)]) {
        let ordered = config.keystores.values().filter(|store| store.acme.is_some()).map(|store| store.location.path());
        for path in outputs.iter().map(|(path, ..)| path.as_path()).chain(ordered) {
            places_on_the_way(path).iter().chain(&named(path)).for_each(|path| _ = self.guarded.remove(path));
        }
        for (folder, ..) in outputs.iter().filter(|(.., output)| *output == Output::Folder) {
            let real = real(folder);
            let is_own =
                |path: &Path, guard: Guard| matches!(guard, Guard::Folder | Guard::Link) && path.starts_with(&real);
            self.guarded.retain(|path, guard| !is_own(path, *guard));
        }
        // Everything in these, but for what somebody else named.
        let others: BTreeSet<PathBuf> = beside.read.iter().flat_map(|path| places_on_the_way(path)).collect();
        for folder in beside.own.iter().map(|folder| real(folder)) {
            self.guarded.retain(|path, _| !path.starts_with(&folder) || others.contains(path));
        }
    }

    /// Something that is written: its folder, unless that would give away configuration. Of a socket no more than that it is made and removed there.
    fn outputs(&mut self, path: PathBuf, why: &'static str, output: Output) {
        let folder = if output == Output::Folder { path.clone() } else { place_of(&path) };
        self.outputs.insert(path.clone());
        // Somebody said so.
        if self.write.iter().any(|(named, why)| *why == NAMED && folder.starts_with(named)) {
            return;
        }
        let guarded = self.guarded_by(&folder).map(|(path, guard)| (path.clone(), guard));
        let is_parts = guarded.as_ref().is_some_and(|(_, guard)| *guard == Guard::Parts);
        let in_root = is_in_root(&path) && output != Output::Folder;
        let problem = match (&guarded, output) {
            (_, Output::Socket | Output::Replaced) if in_root => Some("make files in the root folder".to_owned()),
            // In a folder with a socket files can be removed, and not made: what was named is missed, and a certificate that is gone lets nobody in.
            (Some(_), Output::Socket) if !is_parts => None,
            (None, _) | (Some(_), Output::Log) => None,
            (Some((guarded, _)), _) => {
                Some(format!("write to {}, where it could replace {}", folder.display(), guarded.display()))
            }
        };
        if let Some(problem) = problem {
            self.concerns.push(format!(
                "{} ({why}) would have this process {problem}: give it a folder of its own, or name this one in `sandbox.write`",
                path.display(),
            ));
        }
        // Where a link leads, no other file is made.
        if output == Output::Log && (guarded.is_some() || in_root || path.is_symlink()) {
            self.files.insert(path, why);
        }
        match (output, guarded) {
            (Output::Socket, _) => _ = self.sockets.insert(folder, why),
            (Output::Log, Some(_)) => {}
            (Output::Log, None) if in_root => {}
            _ => _ = self.write.entry(folder).or_insert(why),
        }
    }

    /// What of the configuration could be replaced by whoever may write to a folder.
    fn guarded_by(&self, folder: &Path) -> Option<(&PathBuf, Guard)> {
        self.exposed_in(folder).max_by_key(|(_, guard)| *guard)
    }

    /// All of that.
    pub(super) fn exposed_in(&self, folder: &Path) -> impl Iterator<Item = (&PathBuf, Guard)> {
        let folder = real(folder);
        let is_hit = move |path: &Path, guard: Guard| {
            path.starts_with(&folder) || (guard >= Guard::Folder && folder.starts_with(path))
        };
        self.guarded.iter().map(|(path, guard)| (path, *guard)).filter(move |(path, guard)| is_hit(path, *guard))
    }

    /// Unix sockets of others, wherever the configuration names them, and the journal's.
    fn connects(&mut self, config: &Config) {
        let has_journal = config.log.access.as_ref().is_some_and(|access| access.output == LogOutput::Journald);
        let journal = has_journal.then(|| PathBuf::from(telemetry::JOURNAL_SOCKET));
        for path in config.named_sockets.iter().cloned().chain(journal) {
            // It may be a link, as that of the log is.
            for path in [Some(path.clone()), path.canonicalize().ok()].into_iter().flatten() {
                self.connect.insert(place_of(&path), "Unix socket of somebody else");
            }
            self.servers.insert(path);
        }
    }

    pub(super) fn has_unix_sockets(&self) -> bool {
        self.has_unix_listeners || !self.connect.is_empty()
    }

    /// Programs that set DNS records, and what any program of the system needs to run.
    fn programs(&mut self, config: &Config) {
        let orders = config.keystores.values().filter_map(|store| store.acme.as_ref());
        let updaters = orders.filter_map(|acme| Some(&acme.dns.as_ref()?.by));
        for path in updaters.filter_map(|by| if let DnsUpdater::Program(words) = by { words.first() } else { None }) {
            self.run.insert(place_of(Path::new(path)), "program for DNS records");
            SYSTEM_PROGRAMS.iter().for_each(|folder| _ = self.run.insert(PathBuf::from(folder), "what programs need"));
            // Where the configuration itself lies there, programs go without.
            if self.guarded_by(&std::env::temp_dir()).is_none() {
                self.write.insert(std::env::temp_dir(), "temporary files of programs");
            }
        }
    }

    fn sandbox_adds(&mut self, config: &Config) {
        config.sandbox.read.iter().for_each(|folder| self.may_read(folder, "sandbox.read"));
        config.sandbox.write.iter().for_each(|folder| _ = self.write.insert(folder.clone(), NAMED));
        config.sandbox.connect.iter().for_each(|folder| _ = self.connect.insert(folder.clone(), "sandbox.connect"));
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
        let is_anothers = || self.takes_privilege();
        if net::process::effective_user() == 0 && is_anothers() {
            let why = "files or folders of the configuration belong to other users";
            self.capabilities.insert(Capability::DacOverride, why);
        }
    }

    /// Whether something of all this belongs to other users, so that root reaches it by its privilege alone.
    fn takes_privilege(&self) -> bool {
        let read = || self.system.keys().chain(self.read.keys());
        let written =
            || [&self.write, &self.files, &self.sockets].into_iter().flat_map(BTreeMap::keys).chain(&self.outputs);
        // A socket that is not there yet will belong to the user of its folder.
        let is_closed = |server: &PathBuf| match server.exists() {
            true => capabilities::is_written_with_privilege(server),
            false => capabilities::is_written_with_privilege(&place_of(server)),
        };
        read().any(|path| capabilities::is_read_with_privilege(path))
            || written().any(|path| capabilities::is_written_with_privilege(path))
            || self.servers.iter().any(is_closed)
            || read()
                .chain(written())
                .chain(&self.servers)
                .any(|path| places_on_the_way(path).iter().any(|path| capabilities::is_reached_with_privilege(path)))
    }

    /// A file or folder that is read. Files are replaced by renaming, so it is the folder of a file that must be open; and where a link leads.
    fn reads(&mut self, path: &Path, why: &'static str) {
        for path in [Some(path.to_owned()), path.canonicalize().ok()].into_iter().flatten() {
            match path.is_dir() {
                true => self.reads_folder(&path, why),
                false => {
                    self.may_read(&place_of(&path), why);
                    self.guard(&path, Guard::File);
                }
            }
        }
    }

    /// A folder of which all is read.
    fn reads_folder(&mut self, folder: &Path, why: &'static str) {
        self.may_read(folder, why);
        self.guard(folder, Guard::Folder);
    }

    fn may_read(&mut self, folder: &Path, why: &'static str) {
        self.read.entry(folder.to_owned()).or_insert(why);
    }

    /// Keeps something, and what leads to it, from being written to.
    fn guard(&mut self, path: &Path, guard: Guard) {
        let mut links = places_on_the_way(path);
        let end = links.pop().map(|end| (end, guard));
        for (path, guard) in links.into_iter().map(|link| (link, Guard::Link)).chain(end) {
            let known = self.guarded.entry(path).or_insert(guard);
            *known = guard.max(*known);
        }
    }

    /// All that may be read, demanded or not.
    pub(super) fn readable(&self) -> BTreeMap<PathBuf, &'static str> {
        let own = self.read.iter().chain(&self.system);
        own.map(|(path, why)| (path.clone(), *why)).collect()
    }

    /// What is written below a folder, each with the reason.
    pub fn writes_below(&self, folder: &Path) -> Vec<(PathBuf, &'static str)> {
        let beside = self.files.iter().map(|(path, why)| (place_of(path), *why));
        let folders = self.write.iter().chain(&self.sockets).map(|(path, why)| (path.clone(), *why));
        folders.chain(beside).filter(|(path, _)| path.starts_with(folder)).collect()
    }

    /// Why a server with this configuration would not start, as far as that shows beforehand.
    pub fn problems(&self, mode: SandboxMode) -> Vec<String> {
        let concerns = self.concerns.iter().filter(|_| mode == SandboxMode::On);
        concerns.map(|concern| super::demanded(concern)).collect()
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
        let kinds =
            [("read", &self.readable()), ("write", &self.write), ("file", &self.files), ("sockets", &self.sockets)];
        let others = [("run", &self.run), ("connect", &self.connect)];
        for (what, places) in kinds.into_iter().chain(others) {
            for (path, why) in places {
                let missing = if path.exists() { "" } else { "; not there, so not allowed" };
                let _ = writeln!(text, "  {what:7} {}  ({why}{missing})", path.display());
            }
        }
        for concern in &self.concerns {
            let _ = writeln!(text, "problem: {concern}");
        }
        let programs = if self.run.is_empty() { "none" } else { "those in the folders above" };
        let _ = writeln!(text, "programs: {programs}; `portunus upgrade` is done by a process that stands outside");
        let missing = net::confine::missing();
        if !missing.is_empty() {
            let _ = writeln!(text, "left open by this kernel: {}", missing.join("; "));
        }
        let sockets = if self.has_unix_sockets() { "" } else { ", no new Unix sockets once it serves" };
        let _ = writeln!(text, "system calls: those of a server{sockets} (seccomp)");
        text.push_str("capabilities, as far as the process has them:\n");
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
    let is_alone = ["/dev", "/proc"].iter().any(|folder| file.starts_with(folder));
    if is_alone || is_in_root(file) { file.to_owned() } else { parent(file) }
}

fn is_in_root(file: &Path) -> bool {
    parent(file).canonicalize().is_ok_and(|folder| folder == Path::new("/"))
}

fn parent(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Where something is, itself, and not what it leads to if it is a link.
fn named(path: &Path) -> Option<PathBuf> {
    Some(real(&parent(path)).join(path.file_name()?))
}

/// Where something really is, or would be.
pub(super) fn real(path: &Path) -> PathBuf {
    places_on_the_way(path).pop().unwrap_or_else(|| path.to_owned())
}
