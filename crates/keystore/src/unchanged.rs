//! Whether a store's files are the very ones it was read from, so that it need not be read again: by what the file system says of them, not by
//! their content. In doubt they have changed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tls::crypto::digest;

use crate::{Keys, Location, Password};

/// A file that changed this short a time ago may change once more within the same tick of the file system's clock.
const UNSETTLED: Duration = Duration::from_secs(2);

/// How long what was said of expiring certificates stays true.
const DAY_SECONDS: u64 = 24 * 3600;

/// Digest of all that decides what is read, taken before it is read; none where that is not certain.
pub(crate) fn state(location: &Location, password: Option<&Password>, keys: Keys) -> Option<[u8; 32]> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let mut reported = Vec::new();
    reported.extend_from_slice(&(now.as_secs() / DAY_SECONDS).to_le_bytes());
    reported.push(u8::from(keys == Keys::InStore));
    reported.extend_from_slice(&digest::sha256(password.map_or(b"", |password| password.as_bytes())));
    match location {
        Location::PemFolder(folder) => {
            for inner in describe_folder(folder, now, &mut reported)? {
                describe_folder(&inner, now, &mut reported)?;
            }
        }
        Location::Pkcs12(file) | Location::Jks(file) => describe(file, now, &mut reported).map(|_| ())?,
    }
    Some(digest::sha256(&reported))
}

/// Everything directly in a folder; gives the folders among it.
fn describe_folder(folder: &Path, now: Duration, reported: &mut Vec<u8>) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).ok()?.collect::<Result<Vec<_>, _>>().ok()?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    describe(folder, now, reported)?;
    let mut folders = Vec::new();
    for path in paths {
        if describe(&path, now, reported)? {
            folders.push(path);
        }
    }
    Some(folders)
}

/// One file or folder, links followed; says whether it is a folder. None if it changed only now or, by a clock that was set, not yet.
fn describe(path: &Path, now: Duration, reported: &mut Vec<u8>) -> Option<bool> {
    let found = std::fs::metadata(path).ok()?;
    let changed = Duration::new(found.ctime().try_into().ok()?, found.ctime_nsec().try_into().ok()?);
    if changed + UNSETTLED > now {
        return None;
    }
    reported.extend_from_slice(path.as_os_str().as_encoded_bytes());
    for number in [0, found.dev(), found.ino(), found.size(), u64::from(found.mode())] {
        reported.extend_from_slice(&number.to_le_bytes());
    }
    for time in [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()] {
        reported.extend_from_slice(&time.to_le_bytes());
    }
    Some(found.is_dir())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_changed_only_now_is_not_trusted_and_every_change_shows() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        let file = dir.path().join("inner/a.pem");
        let before_it = Instant::now();
        std::fs::write(&file, "one").unwrap();
        let location = Location::PemFolder(dir.path().to_owned());
        let is_trusted = state(&location, None, Keys::InStore).is_some();
        assert!(!is_trusted || before_it.elapsed() >= UNSETTLED);
        // As if much time had passed: only what the file system reports is compared, since nobody can set a file's ctime back.
        let later = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + 1800 * UNSETTLED;
        let reported = |path: &Path| {
            let mut reported = Vec::new();
            describe_folder(path, later, &mut reported).map(|_| reported)
        };
        let inner = file.parent().unwrap();
        let before = reported(inner).unwrap();
        assert_eq!(reported(inner).unwrap(), before);
        let changed = || std::fs::metadata(&file).unwrap().ctime_nsec();
        let first = changed();
        // Where the file system's clock is coarse, it must tick first.
        while changed() == first {
            std::fs::write(&file, "two").unwrap();
        }
        let rewritten = reported(inner).unwrap();
        assert_ne!(rewritten, before);
        std::fs::rename(&file, dir.path().join("inner/b.pem")).unwrap();
        assert_ne!(reported(inner).unwrap(), rewritten);
        assert_eq!(reported(&dir.path().join("missing")), None);
    }
}
