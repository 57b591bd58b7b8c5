//! Shuts the process in: no new privileges, only named folders (Landlock), only the system calls that a server needs (seccomp, `calls.rs`), and for a role that
//! calls nobody no connections of its own.
//!
//! What is forbidden is forbidden to the calling thread and to all threads and children it makes afterwards, for good; so it is called before there
//! are others. A kernel without Landlock gets the rest; what an older one cannot do has a name ([`missing`]). Which capabilities are kept is for
//! `capabilities.rs`.

mod calls;

use std::ffi::OsString;
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

/// Links that are followed on the way to a file.
const MAX_LINKS: usize = 40;

/// What became of the files that were not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They are out of reach.
    Closed,
    /// The kernel has no Landlock, so that they are not.
    Open,
}

/// What a process does, and so what it is left with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes connections and opens none.
    KeyServer,
    /// Takes connections, opens others, and carries bytes between them.
    Gate,
    /// The same, and runs programs that its configuration names, which are shut in with it.
    GateWithPrograms,
}

/// Places in the file system by what may be done there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Reading.
    pub read: Vec<PathBuf>,
    /// Reading, writing, making and removing files.
    pub write: Vec<PathBuf>,
    /// Reading, and running what is there.
    pub run: Vec<PathBuf>,
    /// Connecting to Unix sockets there, where the kernel can forbid it elsewhere. Where writing is allowed, this is, too.
    pub connect: Vec<PathBuf>,
    /// Files that are written to, each by itself.
    pub files: Vec<PathBuf>,
    /// Folders where sockets are made and removed; no files are made there, and none are changed.
    pub sockets: Vec<PathBuf>,
}

/// What is given up once everything is bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Connecting to anybody.
    pub connections: bool,
    /// New Unix sockets, with which there are no connections to those of others.
    pub unix_sockets: bool,
}

/// What was closed off, each part by itself; a text for the operator where it could not be.
#[derive(Debug)]
pub struct Confined {
    /// New privileges, as set-user-ID programs have them.
    pub privileges: Result<(), String>,
    /// Files.
    pub files: Result<Files, String>,
    /// System calls.
    pub calls: Result<(), String>,
}

/// Allows the process what `places` says, and the system calls of its role; nothing else. Signals to other processes and abstract Unix sockets of others are out of
/// reach where the kernel can forbid them. A key server cannot open TCP connections either, which [`seal`] forbids on any kernel.
pub fn confine(role: Role, places: &Places) -> Confined {
    // Afterwards the filter is in the way.
    landlock_version();
    let privileges = rustix::thread::set_no_new_privs(true);
    let privileges = privileges.map_err(|error| format!("new privileges cannot be given up: {error}"));
    let files = restrict_files(role, places);
    let files = files.map_err(|error| format!("files cannot be closed off: {error}"));
    let calls = calls::restrict(role).map_err(|error| format!("system calls cannot be closed off: {error}"));
    Confined { privileges, files, calls }
}

/// The same, all or nothing, for a key server.
///
/// # Errors
/// The kernel rejected; a text for the operator.
pub fn sandbox(places: &Places) -> Result<Files, String> {
    let Confined { privileges, files, calls } = confine(Role::KeyServer, places);
    let closed = privileges.and(calls).and(files);
    closed.map_err(|problem| format!("{problem}; fix this, or switch it off with `sandbox: false`"))
}

/// Gives up more, in all threads, once everything is bound. Only for a process that [`confine`] has shut in.
///
/// # Errors
/// The kernel rejected; a text for the operator.
pub fn seal(sealed: Sealed) -> Result<(), String> {
    calls::seal(sealed).map_err(|error| format!("system calls cannot be closed off: {error}"))
}

/// What older versions of Landlock do not know, each with the version that brought it, the Linux that has that, and the roles that miss it.
const BROUGHT: [(u32, &str, &[Role], &str); 6] = [
    (1, "5.13", ALL, "files that the configuration does not name, and by them the memory of this and other processes"),
    (3, "6.2", ALL, "files that are emptied (open with O_TRUNC) and not written to"),
    (4, "6.7", &[Role::KeyServer], "TCP connections of a key server before it serves"),
    (5, "6.10", ALL, "commands to devices, beside those that the filter of system calls allows"),
    (6, "6.12", GATES, "signals that programs send to processes outside, and abstract Unix sockets of others"),
    (9, "7.1", GATES, "Unix sockets of others, while this process may make or has such sockets"),
];

const ALL: &[Role] = &[Role::KeyServer, Role::Gate, Role::GateWithPrograms];
const GATES: &[Role] = &[Role::Gate, Role::GateWithPrograms];

/// What the Landlock of this kernel cannot close off for a gate, for people.
pub fn missing() -> Vec<String> {
    missing_of(Role::GateWithPrograms)
}

/// The same for a role.
pub fn missing_of(role: Role) -> Vec<String> {
    let version = landlock_version().unwrap_or(0);
    let later = BROUGHT.iter().filter(|(brought, _, roles, _)| *brought > version && roles.contains(&role));
    later.map(|(_, linux, _, what)| format!("{what} (Linux {linux})")).collect()
}

/// Whether this kernel keeps the process from Unix sockets outside of the places where it may connect.
pub fn closes_unix_sockets() -> bool {
    landlock_version().is_some_and(|version| version >= 9)
}

/// The version of Landlock in this kernel; none if it has none, or it is switched off. The kernel is asked once, before the process shuts itself in.
pub fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_ulong = 1;
    static FOUND: OnceLock<Option<u32>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: asks for a number; no memory is passed.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) };
        u32::try_from(version).ok().filter(|version| *version > 0)
    })
}

/// All that a path depends on: where it is in the end, and the place of each link on the way there, free of links itself. Whoever may write to a folder of one of
/// these decides what is found at the path. The last place is the end, which need not be there; of links that lead back to themselves, that where the kernel gives up, too
/// (path_resolution(7)).
pub fn places_on_the_way(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = std::path::absolute(path) else { return vec![path.to_owned()] };
    let mut found = Vec::new();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut rest: Vec<OsString> = parts(&path);
    while let Some(name) = rest.pop() {
        match name.to_str() {
            Some("." | "/") => continue,
            Some("..") => _ = at.pop(),
            _ => at.push(name),
        }
        let Ok(target) = std::fs::read_link(&at) else { continue };
        links += 1;
        found.push(at.clone());
        if links > MAX_LINKS {
            return found;
        }
        at.pop();
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        rest.extend(parts(&target));
    }
    found.push(at);
    found
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

fn restrict_files(role: Role, places: &Places) -> Result<Files, landlock::RulesetError> {
    // The newest that is known here; of an older kernel all that it has.
    let abi = ABI::V9;
    let may_read = AccessFs::ReadFile | AccessFs::ReadDir;
    let may_write = may_read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::RemoveFile
        | AccessFs::ResolveUnix;
    // The gate keeps certificates that it orders in folders of its own.
    let may_write = if role == Role::KeyServer { may_write } else { may_write | AccessFs::MakeDir };
    let may_run = may_read | AccessFs::Execute;
    let mut handled =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(abi))?;
    handled = handled.scope(Scope::from_all(abi))?;
    if role == Role::KeyServer {
        handled = handled.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut rules = handled.create()?.set_compatibility(CompatLevel::BestEffort);
    let may_change = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let may_bind = AccessFs::ReadDir | AccessFs::MakeSock | AccessFs::RemoveFile | AccessFs::ResolveUnix;
    let Places { read, write, run, connect, files, sockets } = places;
    let allowed = read.iter().map(|path| (path, may_read)).chain(write.iter().map(|path| (path, may_write)));
    let allowed = allowed.chain(run.iter().map(|path| (path, may_run)));
    let allowed = allowed.chain(connect.iter().map(|path| (path, AccessFs::ResolveUnix.into())));
    let allowed = allowed.chain(files.iter().map(|path| (path, may_change)));
    let allowed = allowed.chain(sockets.iter().map(|path| (path, may_bind)));
    for (path, access) in allowed {
        // What is not there cannot be allowed; whoever wants it says so. Pipes and sockets by the name of a descriptor need no leave, sockets in a folder do.
        let Ok(found) = std::fs::metadata(path) else { continue };
        let access = access & of_kind(found.file_type());
        if access.is_empty() {
            continue;
        }
        if let Ok(place) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
    }
    let is_active = rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced;
    Ok(if is_active { Files::Closed } else { Files::Open })
}

/// What can be allowed of something of this kind.
fn of_kind(kind: FileType) -> BitFlags<AccessFs> {
    match kind {
        kind if kind.is_dir() => BitFlags::all(),
        kind if kind.is_file() || kind.is_char_device() || kind.is_fifo() => {
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::Execute
        }
        // As the log service's, which is granted by itself since its folder is that of all devices.
        kind if kind.is_socket() => AccessFs::ResolveUnix.into(),
        _ => BitFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_depends_on_each_link_on_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name);
        for name in ["releases/3", "other"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        std::fs::write(path("releases/3/site.yaml"), "").unwrap();
        symlink("releases/3", path("current")).unwrap();
        symlink(path("current/site.yaml"), path("other/middle")).unwrap();
        symlink("other/../other/middle", path("portunus.yaml")).unwrap();
        symlink("loop", path("loop")).unwrap();
        for (asked, expected) in [
            ("releases/3/site.yaml", &["releases/3/site.yaml"][..]),
            ("current/site.yaml", &["current", "releases/3/site.yaml"]),
            ("portunus.yaml", &["portunus.yaml", "other/middle", "current", "releases/3/site.yaml"]),
            ("current/../gone/new", &["current", "releases/gone/new"]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(|name| path(name)).collect();
            assert_eq!(places_on_the_way(&path(asked)), expected, "{asked}");
        }
        // The kernel rejects this one (ELOOP). Its end is the link, so that whoever guards it guards that.
        let places = places_on_the_way(&path("loop/x"));
        assert!(places.len() <= MAX_LINKS + 1);
        assert_eq!(places.last(), Some(&path("loop")));
    }

    #[test]
    fn a_socket_can_be_connected_to_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let kind = |path: &Path| of_kind(std::fs::metadata(path).unwrap().file_type());
        assert_eq!(kind(&path), AccessFs::ResolveUnix);
        assert!(kind(folder.path()).contains(AccessFs::MakeReg | AccessFs::ResolveUnix));
        assert!(!kind(Path::new("/dev/null")).contains(AccessFs::ResolveUnix));
    }
}
