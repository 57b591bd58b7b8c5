//! The files of a keystore's folder as other nodes have them: which there are, and how one of them is taken up.
//!
//! When a file was written is its time of modification, to the millisecond: so it goes with the file through copies and restarts, and what an operator puts
//! there is newer than what was there. What comes from elsewhere names a file of ours or nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keystore::files;
use zeroize::Zeroizing;

use crate::storage::{MAX_FILE_BYTES, Storage, replace_at};

/// Folders whose files are shared, and what the names of those end with.
const SHARED: [(&str, &[&str]); 6] = [
    ("certificates", &[".pem"]),
    ("accounts", &[".json"]),
    ("records", &[".json"]),
    ("on-demand/certificates", &[".pem"]),
    ("on-demand/records", &[".json"]),
    ("ca", &[".pem", ".key"]),
];

/// Longest name of a file, bytes.
const MAX_NAME_BYTES: usize = 255;

/// Whether a file of this path is shared.
fn is_shared(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_name = name.len() <= MAX_NAME_BYTES && !name.starts_with('.') && name.bytes().all(is_plain);
    let ends_so = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    is_name && SHARED.iter().any(|(of, endings)| *of == folder && ends_so(endings))
}

fn in_milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time so many milliseconds after the beginning of 1970.
pub fn time(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds)).unwrap_or(UNIX_EPOCH)
}

fn place(folder: &Path, path: &str) -> Option<PathBuf> {
    is_shared(path).then(|| folder.join(path))
}

/// The files that are there, by their paths, and when each was written (milliseconds since 1970).
pub fn list(folder: &Path) -> Vec<(String, u64)> {
    let of = |(name, _): &(&str, &[&str])| {
        let entries = fs::read_dir(folder.join(name)).into_iter().flatten().flatten();
        let paths = entries.filter_map(|entry| entry.file_name().into_string().ok());
        paths.map(|file| format!("{name}/{file}")).collect::<Vec<_>>()
    };
    let paths = SHARED.iter().flat_map(of).filter(|path| is_shared(path));
    paths.map(|path| (written(folder, &path), path)).filter(|(at, _)| *at > 0).map(|(at, path)| (path, at)).collect()
}

/// When a file was written; 0 if it is not there.
pub fn written(folder: &Path, path: &str) -> u64 {
    let found = place(folder, path).and_then(|path| fs::symlink_metadata(path).ok()).filter(fs::Metadata::is_file);
    found.and_then(|found| found.modified().ok()).map_or(0, in_milliseconds)
}

/// A file.
pub fn read(folder: &Path, path: &str) -> Option<Zeroizing<Vec<u8>>> {
    files::read(&place(folder, path)?, MAX_FILE_BYTES).ok()
}

/// Takes up a file as it was written then, or its removal.
///
/// # Errors
/// It is none that is shared, or cannot be written.
pub fn take(folder: &Path, path: &str, at: u64, content: Option<&[u8]>) -> Result<(), String> {
    let Some(target) = place(folder, path) else {
        return Err(format!("{path:?} is no file of a keystore"));
    };
    let Some(content) = content else {
        return match fs::remove_file(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", target.display())),
            _ => Ok(()),
        };
    };
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{path:?} has more than {MAX_FILE_BYTES} bytes"));
    }
    let storage = Storage::at(folder);
    storage.make()?;
    match path.split('/').next() {
        Some("on-demand") => storage.on_demand().make_on_demand()?,
        Some("ca") => storage.make_ca()?,
        _ => {}
    }
    replace_at(&target, content, Some(time(at)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_taken_up_is_listed_with_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let all = [
            "accounts/ca.example-0a.json",
            "ca/ca.key",
            "certificates/_wildcard.a.test.rsa.pem",
            "on-demand/records/a.test.ecdsa.json",
        ];
        for path in all {
            take(dir.path(), path, 1_700_000_000_123, Some(path.as_bytes())).unwrap();
            assert_eq!(written(dir.path(), path), 1_700_000_000_123);
            assert_eq!(read(dir.path(), path).unwrap().as_slice(), path.as_bytes());
        }
        let mut listed = list(dir.path());
        listed.sort();
        assert_eq!(listed, all.map(|path| (path.to_owned(), 1_700_000_000_123)));
        take(dir.path(), all[0], 1_700_000_000_124, None).unwrap();
        take(dir.path(), all[0], 1_700_000_000_124, None).unwrap();
        assert_eq!((list(dir.path()).len(), written(dir.path(), all[0])), (3, 0));
    }

    #[test]
    fn what_is_no_file_of_ours_is_not_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "",
            "lock",
            "certificates",
            "certificates/",
            "certificates/.a.pem",
            "certificates/../../x.pem",
            "certificates/a.key",
            "/etc/certificates/a.pem",
            "on-demand/certificates/x/a.pem",
            "other/a.pem",
            "accounts/a\n.json",
        ] {
            assert!(take(dir.path(), path, 1, Some(b"x")).unwrap_err().contains("no file of a keystore"), "{path}");
            assert_eq!((written(dir.path(), path), read(dir.path(), path)), (0, None));
        }
        let large = vec![0; MAX_FILE_BYTES as usize + 1];
        assert!(take(dir.path(), "certificates/a.pem", 1, Some(&large)).unwrap_err().contains("bytes"));
        assert!(list(dir.path()).is_empty());
    }
}
