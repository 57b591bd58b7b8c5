//! Whether a file or folder can be trusted: who it belongs to, and what others may do with it. All paths whose content or place decides something are checked here.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::process::effective_user;

/// What nobody but its owner may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Write.
    ToWriters,
    /// Read or write.
    ToReaders,
    /// Read or write; its group may.
    ToStrangers,
}

/// Who it may belong to, besides root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The user of this process.
    Ours,
    /// The same, and for root whoever it is: an operator who looks after a service that has a user of its own.
    OursOrService,
}

/// Whether somebody else could have put there what is found at a path.
///
/// # Errors
/// Somebody could; a text for the operator, with what to do.
pub fn check(path: &Path, found: &Metadata, owner: Owner, closed: Closed) -> Result<(), String> {
    check_for(effective_user(), path, found, owner, closed)
}

/// Whether nobody else can put something into a folder, or another folder in its place. Links on the way are followed.
///
/// # Errors
/// It is none, or somebody can.
pub fn check_folder(folder: &Path, owner: Owner) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    // A path without a folder is relative to the one that we are in.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = folder.canonicalize().map_err(failed)?;
    for (height, part) in folder.ancestors().enumerate() {
        let found = std::fs::metadata(part).map_err(failed)?;
        if height == 0 {
            if !found.is_dir() {
                return Err(format!("{} is not a folder", part.display()));
            }
            check(part, &found, owner, Closed::ToWriters)?;
        } else if found.mode() & bits(Closed::ToWriters) != 0 && found.mode() & STICKY == 0 {
            let (part, folder) = (part.display(), folder.display());
            return Err(format!("{part}: other users may write there, and replace {folder}; `chmod go-w {part}`"));
        }
    }
    Ok(())
}

/// In such a folder only its owner removes or renames a file.
const STICKY: u32 = 0o1000;

fn bits(closed: Closed) -> u32 {
    match closed {
        Closed::ToWriters => 0o022,
        Closed::ToReaders => 0o077,
        Closed::ToStrangers => 0o007,
    }
}

fn check_for(user: u32, path: &Path, found: &Metadata, owner: Owner, closed: Closed) -> Result<(), String> {
    let place = path.display();
    let is_ours = [user, 0].contains(&found.uid()) || (user == 0 && owner == Owner::OursOrService);
    if !is_ours {
        return Err(format!("{place}: belongs to another user, who may change it; `chown` it, or name another one"));
    }
    if found.mode() & bits(closed) == 0 {
        return Ok(());
    }
    Err(match closed {
        Closed::ToWriters => {
            format!("{place}: other users may write there, so what is in it cannot be trusted; `chmod go-w {place}`")
        }
        Closed::ToReaders => format!("{place}: other users may read or write it; `chmod 600 {place}`"),
        Closed::ToStrangers => format!("{place}: every user of this machine may read it; `chmod 600 {place}`"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_own_or_may_change_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let user = effective_user();
        let check = |mode: u32, user: u32, owner, closed| {
            set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let found = std::fs::metadata(folder.path()).unwrap();
            check_for(user, folder.path(), &found, owner, closed).is_ok()
        };
        let rows =
            [(Closed::ToWriters, 0o755, 0o775), (Closed::ToReaders, 0o700, 0o740), (Closed::ToStrangers, 0o750, 0o751)];
        for (closed, fits, does_not) in rows {
            assert!(check(fits, user, Owner::Ours, closed), "{closed:?}");
            assert!(!check(does_not, user, Owner::Ours, closed), "{closed:?}");
        }
        if user != 0 {
            assert!(!check(0o700, user + 1, Owner::OursOrService, Closed::ToWriters));
            assert!(!check(0o700, 0, Owner::Ours, Closed::ToWriters), "root trusts no other user");
            assert!(check(0o700, 0, Owner::OursOrService, Closed::ToWriters), "but one of a service");
        } else {
            let other = rustix::process::Uid::from_raw(4711);
            rustix::fs::chown(folder.path(), Some(other), None).unwrap();
            assert!(!check(0o700, 0, Owner::Ours, Closed::ToWriters), "root trusts no other user");
            assert!(check(0o700, 0, Owner::OursOrService, Closed::ToWriters), "but one of a service");
            assert!(!check(0o700, 4712, Owner::OursOrService, Closed::ToWriters));
        }
    }

    #[test]
    fn a_folder_is_as_good_as_those_above_it() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        create_dir(&inner).unwrap();
        let set = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
        set(&inner, 0o755);
        for (above, fits) in [(0o755, true), (0o777, false), (0o1777, true), (0o770, false)] {
            set(root.path(), above);
            assert_eq!(check_folder(&inner, Owner::Ours).is_ok(), fits, "{above:o}");
        }
        set(root.path(), 0o700);
        set(&inner, 0o1777);
        assert!(check_folder(&inner, Owner::Ours).is_err());
        assert!(check_folder(&root.path().join("missing"), Owner::Ours).is_err());
    }
}
