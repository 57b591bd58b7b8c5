//! Capabilities of this process (capabilities(7)): which it has, and giving up those that it does not need.
//!
//! They belong to threads, and a thread begins with those of the one that made it; so they are given up before there are others.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// The bits of a file mode for those who are neither its owner nor of its group.
const MAY_READ: u32 = 0o4;
const MAY_WRITE: u32 = 0o2;
const MAY_ENTER: u32 = 0o1;

/// Entries of a folder that are looked at for their owner.
const MAX_ENTRIES: usize = 10_000;

/// A capability that the program can make use of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Ports below 1024.
    BindService,
    /// Foreign source addresses, marks.
    NetAdmin,
    /// Foreign source addresses.
    NetRaw,
    /// Files of other users.
    DacOverride,
    /// Pipes beyond what a user may have.
    SysResource,
    /// Locked memory beyond what a user may have.
    LockMemory,
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 6] = [
        Capability::BindService,
        Capability::NetAdmin,
        Capability::NetRaw,
        Capability::DacOverride,
        Capability::SysResource,
        Capability::LockMemory,
    ];

    /// Its name in capabilities(7).
    pub fn name(self) -> &'static str {
        match self {
            Capability::BindService => "CAP_NET_BIND_SERVICE",
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::DacOverride => "CAP_DAC_OVERRIDE",
            Capability::SysResource => "CAP_SYS_RESOURCE",
            Capability::LockMemory => "CAP_IPC_LOCK",
        }
    }

    fn bit(self) -> CapabilitySet {
        match self {
            Capability::BindService => CapabilitySet::NET_BIND_SERVICE,
            Capability::NetAdmin => CapabilitySet::NET_ADMIN,
            Capability::NetRaw => CapabilitySet::NET_RAW,
            Capability::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Capability::SysResource => CapabilitySet::SYS_RESOURCE,
            Capability::LockMemory => CapabilitySet::IPC_LOCK,
        }
    }
}

/// Those of [`Capability::ALL`] that this thread has.
pub fn held() -> Vec<Capability> {
    let effective = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    Capability::ALL.into_iter().filter(|one| effective.contains(one.bit())).collect()
}

/// Gives up all but these, of which those that the thread does not have stay out of reach; and for good: what it could have given programs (the ambient,
/// inheritable and bounding sets) goes, too, where the kernel lets it.
///
/// # Errors
/// The kernel rejects, as a filter of the service manager may have it do.
pub fn keep_only(wanted: &[Capability]) -> io::Result<()> {
    let before = rustix::thread::capabilities(None)?;
    let wanted = wanted.iter().fold(CapabilitySet::empty(), |all, one| all | one.bit());
    let after = CapabilitySets {
        effective: before.effective & wanted,
        permitted: before.permitted & wanted,
        inheritable: CapabilitySet::empty(),
    };
    // Only who may change capabilities may do this; whoever may not has none to gain, since no new privileges are allowed either.
    for one in CapabilitySet::all().iter().filter(|one| !wanted.contains(*one)) {
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
    // What programs that are started would have. Without them nothing comes of what can be inherited, but for root, who may change it.
    let _ = rustix::thread::clear_ambient_capability_set();
    // Where there is nothing to give up, nobody has to allow it.
    if after == before {
        return Ok(());
    }
    let given_up = rustix::thread::set_capabilities(None, after);
    if (after.effective, after.permitted) == (before.effective, before.permitted) { Ok(()) } else { Ok(given_up?) }
}

/// Whether root could not read a folder, or what is in it, without its privilege over the files of others (`CAP_DAC_OVERRIDE`).
pub fn is_read_with_privilege(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let is_closed = |path: &Path| is_closed_to_root(path, MAY_READ);
    !folder.starts_with("/proc") && (is_closed(folder) || entries.into_iter().any(|entry| is_closed(&entry.path())))
}

/// Whether root could not write there without it.
pub fn is_written_with_privilege(path: &Path) -> bool {
    is_closed_to_root(path, MAY_WRITE)
}

/// Whether root could not get there without it, because of a folder on the way.
pub fn is_reached_with_privilege(path: &Path) -> bool {
    path.ancestors().skip(1).any(|folder| is_closed_to_root(folder, MAY_ENTER))
}

/// Whether something belongs to another user, who lets nobody else do this there.
fn is_closed_to_root(path: &Path, wanted: u32) -> bool {
    std::fs::metadata(path).is_ok_and(|found| {
        let wanted = if found.is_dir() { wanted | MAY_ENTER } else { wanted };
        found.uid() != 0 && found.mode() & wanted != wanted
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// As a unit with `AmbientCapabilities=` starts it.
    #[test]
    fn what_programs_would_inherit_is_given_up_with_the_rest() {
        // Capabilities are a thread's.
        let outcome = std::thread::spawn(|| {
            let port = CapabilitySet::NET_BIND_SERVICE;
            let before = rustix::thread::capabilities(None).unwrap();
            let inherited = CapabilitySets { inheritable: port, ..before };
            if !before.permitted.contains(port) || rustix::thread::set_capabilities(None, inherited).is_err() {
                eprintln!("skipped: only who has CAP_NET_BIND_SERVICE can pass it on");
                return;
            }
            rustix::thread::configure_capability_in_ambient_set(port, true).unwrap();
            // The same twice: when only what is inherited is left to give up, and when there is more.
            keep_only(&[Capability::BindService]).unwrap();
            rustix::thread::set_capabilities(
                None,
                CapabilitySets { inheritable: port, ..rustix::thread::capabilities(None).unwrap() },
            )
            .unwrap();
            rustix::thread::configure_capability_in_ambient_set(port, true).unwrap();
            keep_only(&[Capability::BindService]).unwrap();
            let after = rustix::thread::capabilities(None).unwrap();
            assert_eq!((after.effective, after.permitted), (port, port));
            assert!(after.inheritable.is_empty(), "{after:?}");
            assert!(!rustix::thread::capability_is_in_ambient_set(port).unwrap());
        });
        outcome.join().unwrap();
    }
}
