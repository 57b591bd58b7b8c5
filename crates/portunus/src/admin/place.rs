//! Where the admin socket is when nobody says otherwise: where a server puts it, and where commands look for it.
//!
//! A folder counts only if nobody else could have put a socket into it: it is ours (or root's, for those who ask), and no other user may write there.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use net::trusted::{self, Closed, Owner};

/// The socket of the machine's server.
pub const SYSTEM: &str = "/run/portunus/admin.sock";

/// The name of the socket in its folder.
const FILE: &str = "admin.sock";

/// Where a server puts it, in a folder that is made if need be: `/run/portunus` for root and for whom this folder belongs to, such as the user of a service
/// with `RuntimeDirectory=portunus`; else `portunus` in the user's runtime directory.
///
/// # Errors
/// There is no such place; says why.
pub fn to_serve() -> Result<PathBuf, String> {
    let (user, system) = (net::process::effective_user(), Path::new(SYSTEM));
    let folder = system.parent().unwrap_or(Path::new("/"));
    if user == 0 {
        make(folder, 0o755)?;
        return check(folder).map(|()| system.to_owned());
    }
    if check(folder).is_ok() {
        return Ok(system.to_owned());
    }
    let Some(runtime) = runtime_folder() else {
        return Err(format!("XDG_RUNTIME_DIR is not set, and {} is not a folder of this user", folder.display()));
    };
    check(&runtime)?;
    let folder = runtime.join("portunus");
    make(&folder, 0o700)?;
    check(&folder).map(|()| folder.join(FILE))
}

/// Where commands look for it: the user's own server, if there is one, else the machine's.
pub fn to_ask() -> PathBuf {
    let user = net::process::effective_user();
    let own = runtime_folder().filter(|_| user != 0).map(|runtime| runtime.join("portunus"));
    let own = own.filter(|folder| check(folder).is_ok()).map(|folder| folder.join(FILE));
    let is_socket = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    own.filter(is_socket).unwrap_or_else(|| PathBuf::from(SYSTEM))
}

/// The user's runtime directory, as the XDG Base Directory Specification names it. A relative path is invalid there.
fn runtime_folder() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

fn make(folder: &Path, mode: u32) -> Result<(), String> {
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("cannot make {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Whether a folder is this user's (for root: anybody's), and nobody else may write there.
fn check(folder: &Path) -> Result<(), String> {
    let found = std::fs::symlink_metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if !found.is_dir() {
        return Err(format!("{} is not a folder", folder.display()));
    }
    // Root may use the folder of a service's user; nobody else could have made it where it is.
    trusted::check(folder, &found, Owner::OursOrService, Closed::ToWriters)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_write_to_is_none_for_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let set = |mode: u32| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        for (mode, fits) in [(0o700, true), (0o755, true), (0o770, false), (0o757, false), (0o1777, false)] {
            set(mode);
            assert_eq!(check(folder.path()).is_ok(), fits, "{mode:o}");
        }
        set(0o700);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(check(&link).is_err(), "a link is no folder");
        assert!(check(&folder.path().join("missing")).is_err());
    }
}
