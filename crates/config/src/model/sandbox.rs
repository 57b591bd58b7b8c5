//! How far the process shuts itself in (docs/hardening.md).

use std::path::PathBuf;

/// What the process may still do once it serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Whether it shuts itself in.
    pub mode: SandboxMode,
    /// Further folders that it may read.
    pub read: Vec<PathBuf>,
    /// Further folders that it may write to.
    pub write: Vec<PathBuf>,
    /// Further folders of Unix sockets that may be connected to.
    pub connect: Vec<PathBuf>,
}

/// Something that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where.
    pub path: PathBuf,
    /// What it is, for people.
    pub what: &'static str,
    /// How it is written.
    pub how: Output,
}

/// How something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A file that grows, and is made anew where somebody renamed it.
    Log,
    /// A Unix socket.
    Socket,
    /// A file that another one takes the place of.
    Replaced,
    /// All in a folder.
    Folder,
}

/// Whether the process shuts itself in, from less to more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxMode {
    /// It does not.
    Off,
    /// As far as the kernel can.
    Auto,
    /// Or it does not start.
    #[default]
    On,
}

impl SandboxMode {
    /// All of them.
    pub const ALL: [SandboxMode; 3] = [SandboxMode::Off, SandboxMode::Auto, SandboxMode::On];

    /// As it is written in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            SandboxMode::Off => "off",
            SandboxMode::Auto => "auto",
            SandboxMode::On => "on",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<SandboxMode> {
        SandboxMode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
