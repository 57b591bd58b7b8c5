//! Reading and replacing files: bounded reads, and writes that leave either the old content or the new.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use zeroize::Zeroizing;

/// Most files in one folder store.
pub(crate) const MAX_FILES: usize = 200_000;

/// Opens a regular file to be read. A pipe, which would be waited for, and a device, which may have no end, are rejected; what was opened is asked, so
/// that nothing can be put in its place.
///
/// # Errors
/// What the system says, or that this is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// The text of a regular file of at most `max` bytes.
///
/// # Errors
/// As [`open`]; or that it is larger, or no UTF-8.
pub fn text(path: &Path, max: u64) -> io::Result<String> {
    let mut text = String::new();
    if open(path)?.take(max + 1).read_to_string(&mut text)? as u64 > max {
        return Err(io::Error::other(format!("larger than {max} bytes")));
    }
    Ok(text)
}

/// The content of a file of at most `max` bytes, wiped when dropped.
///
/// # Errors
/// A text for the operator.
pub fn read(path: &Path, max: u64) -> Result<Zeroizing<Vec<u8>>, String> {
    let place = path.display();
    let unreadable = |error: io::Error| {
        format!("{place}: {error}; it must exist and be readable for the user that portunus runs as")
    };
    let file = open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let too_large = || format!("{place}: larger than {max} bytes; not a store or a file of keys");
    if metadata.len() > max {
        return Err(too_large());
    }
    // One byte more than expected, so that the buffer does not grow (and leave an unwiped copy of a key) to find the end.
    let mut content = Zeroizing::new(Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1));
    file.take(max + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > max { Err(too_large()) } else { Ok(content) }
}

/// The first four bytes of a file, if there is such a file.
pub(crate) fn head(path: &Path) -> Option<[u8; 4]> {
    let mut head = [0; 4];
    open(path).ok()?.read_exact(&mut head).ok()?;
    Some(head)
}

/// Replaces a file's content, or makes the file, readable for its owner only. Whoever reads meanwhile sees the old content or the new; if this
/// fails, the old content stays. A symbolic link stays a link: what it points to is replaced.
///
/// # Errors
/// What the system says; nothing has changed then.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => path.to_owned(),
        // A link to nowhere: writing through it might make a file where nobody expects one.
        Err(error) => return Err(error),
    };
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (temporary, mut file) = create_beside(&target)?;
    let written = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, &target));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder(folder)
}

/// Removes a file for good.
///
/// # Errors
/// What the system says.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes a change of names in a folder survive a crash.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A new file in the folder of `target`, mode 0600. Its name begins with a dot, which a folder store does not read.
fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{}.{}-{number}.new", name.to_string_lossy(), std::process::id());
        let temporary = target.with_file_name(temporary);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            // Left by a process that died and had our number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_made_private_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        for content in [&b"one"[..], b"two"] {
            replace(&path, content).unwrap();
            assert_eq!(&**read(&path, 3).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, b"three").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(read(&path, 4).unwrap_err().contains("larger than 4 bytes"));
    }

    #[test]
    fn links_are_followed_and_broken_links_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::os::unix::fs::symlink("real", &link).unwrap();
        assert!(replace(&link, b"x").is_err());
        fs::write(&real, b"old").unwrap();
        replace(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
    }

    #[test]
    fn failure_keeps_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"x").is_err(), "a folder is in the way");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        assert!(replace(&folder.path().join("no/such"), b"x").is_err());
    }
}
