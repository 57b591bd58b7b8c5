//! Capabilities of this process (capabilities(7)): which it has, and giving up those that it does not need.
//!
//! They belong to threads, and a thread begins with those of the one that made it; so they are given up before there are others.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

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
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 5] = [
        Capability::BindService,
        Capability::NetAdmin,
        Capability::NetRaw,
        Capability::DacOverride,
        Capability::SysResource,
    ];

    /// Its name in capabilities(7).
    pub fn name(self) -> &'static str {
        match self {
            Capability::BindService => "CAP_NET_BIND_SERVICE",
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::DacOverride => "CAP_DAC_OVERRIDE",
            Capability::SysResource => "CAP_SYS_RESOURCE",
        }
    }

    fn bit(self) -> CapabilitySet {
        match self {
            Capability::BindService => CapabilitySet::NET_BIND_SERVICE,
            Capability::NetAdmin => CapabilitySet::NET_ADMIN,
            Capability::NetRaw => CapabilitySet::NET_RAW,
            Capability::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Capability::SysResource => CapabilitySet::SYS_RESOURCE,
        }
    }
}

/// Those of [`Capability::ALL`] that this thread has.
pub fn held() -> Vec<Capability> {
    let effective = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    Capability::ALL.into_iter().filter(|one| effective.contains(one.bit())).collect()
}

/// Gives up all but these, of which those that the thread does not have stay out of reach.
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
    // Where there is nothing to give up, nobody has to allow it.
    if (after.effective, after.permitted) != (before.effective, before.permitted) {
        rustix::thread::set_capabilities(None, after)?;
    }
    Ok(())
}
