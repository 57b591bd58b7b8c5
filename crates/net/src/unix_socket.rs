//! Unix sockets that listen: made with their mode, in the place of what a dead process left behind, and of nothing else.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::process::{geteuid, umask};
use rustix::thread::UnshareFlags;
use socket2::{Domain, SockAddr, Socket, Type};

/// How often the lock on a socket's folder is tried, and the wait between two tries.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Binds a stream socket to a path and starts listening, with room for `backlog` connections. `mode`: who may connect, whatever the umask. Blocks a tenth of a
/// second at most.
///
/// # Errors
/// Somebody answers at the path, something else than a socket is there, or the kernel rejects.
pub fn bind(path: &Path, mode: u32, backlog: i32) -> io::Result<Socket> {
    let (address, socket) = (SockAddr::unix(path)?, Socket::new(Domain::UNIX, Type::STREAM, None)?);
    // Another process may be between the same steps: it must neither find our socket bound and not yet listening, nor remove it after that.
    let _one_at_a_time = lock(path.parent());
    clear_stale(path)?;
    // The file is made with the mode of the socket, which is everything (unix(7)), but for the umask. To change it by its path afterwards, whoever may write to
    // the folder could lead elsewhere with a link; and the sandbox allows no change of a mode.
    with_umask(Mode::from_raw_mode(!mode & 0o777), || socket.bind(&address))?;
    check(path, mode)?;
    socket.listen(backlog)?;
    Ok(socket)
}

/// Whether somebody listens on the Unix socket at `path`. When in doubt, yes.
fn is_answered(path: &Path) -> bool {
    let connect = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // One that is too busy to answer must not hold us up.
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)
    };
    let rejected = |error: io::Error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound);
    !connect().is_err_and(rejected)
}

/// The sole right to make a socket in a folder, until it is dropped. Who cannot have it in time goes on without: somebody else may hold it for ever.
#[expect(
    clippy::disallowed_methods,
    reason = "the main thread at start or after a reload, a tenth of a second at most"
)]
fn lock(folder: Option<&Path>) -> Option<File> {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    for _ in 0..LOCK_TRIES {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(_) => return None,
        }
    }
    None
}

/// Removes a socket that a dead process left behind. Anything else in its place is an error.
fn clear_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "there is something else than a socket; remove it or choose another path",
        )),
        Ok(_) if is_answered(path) => Err(io::Error::new(ErrorKind::AddrInUse, "another process answers there")),
        Ok(_) => std::fs::remove_file(path),
    }
}

/// Does this with a umask, by a thread that has one of its own. Where threads cannot have that, the whole process has this one for the moment.
fn with_umask<T: Send>(mask: Mode, act: impl FnOnce() -> T + Send) -> T {
    let apart = || {
        // SAFETY: the thread uses no descriptor table or memory of its own, and stands in the same folder as the others.
        let is_apart = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.is_ok();
        let before = umask(mask);
        let outcome = act();
        if !is_apart {
            umask(before);
        }
        outcome
    };
    std::thread::scope(|threads| match threads.spawn(apart).join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Whether the socket that was just made is there, as ours, with its mode. No link is followed.
fn check(path: &Path, mode: u32) -> io::Result<()> {
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    let is_ours = FileType::from_raw_mode(found.st_mode) == FileType::Socket
        && found.st_uid == geteuid().as_raw()
        && found.st_nlink == 1;
    if !is_ours {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "somebody else has put something in its place"));
    }
    if Mode::from_raw_mode(found.st_mode).as_raw_mode() == mode {
        return Ok(());
    }
    let problem = format!("the file system gave it another mode than {mode:o}; choose another folder");
    Err(io::Error::other(problem))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_socket_has_its_mode_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        for wanted in [0o600, 0o660, 0o666] {
            let path = folder.path().join(format!("{wanted:o}"));
            let _socket = bind(&path, wanted, 1).unwrap();
            assert_eq!(mode(&path), wanted, "{wanted:o}");
            assert!(bind(&path, wanted, 1).is_err_and(|error| error.kind() == ErrorKind::AddrInUse));
        }
    }

    #[test]
    fn a_dead_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [path, file] = ["socket", "file"].map(|name| folder.path().join(name));
        drop(bind(&path, 0o660, 1).unwrap());
        let _socket = bind(&path, 0o660, 1).unwrap();
        std::fs::write(&file, "kept").unwrap();
        let link = folder.path().join("link");
        symlink(&file, &link).unwrap();
        for taken in [&file, &link] {
            assert!(bind(taken, 0o660, 1).is_err_and(|error| error.kind() == ErrorKind::AlreadyExists));
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }

    /// What somebody puts in the place of the socket between its making and the look at it.
    #[test]
    fn what_is_put_in_the_place_of_a_socket_is_noticed_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [private, link, hard, file] = ["private", "link", "hard", "file"].map(|name| folder.path().join(name));
        let _socket = bind(&private, 0o600, 1).unwrap();
        symlink(&private, &link).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        for other in [&link, &file] {
            assert!(check(other, 0o660).is_err_and(|error| error.kind() == ErrorKind::AlreadyExists), "{other:?}");
        }
        std::fs::hard_link(&private, &hard).unwrap();
        assert!(check(&hard, 0o600).is_err());
        assert_eq!([&private, &file].map(|path| mode(path)), [0o600, 0o600]);
    }
}
