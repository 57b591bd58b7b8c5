//! The file in which the keys of session tickets outlive a restart: read and written only if it is ours alone.
//!
//! ```text
//! MAGIC, then when the current master began to seal (milliseconds since 1970, 8 bytes), then name and master of the current and of the previous one
//! ```
//!
//! Knows nothing of when keys change; that is `tls::TicketKeys`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keystore::files;
use tls::TicketSecrets;
use zeroize::Zeroizing;

/// What the file begins with: its form, and the version of that.
const MAGIC: &[u8; 8] = b"PTKEYS1\n";

/// Largest file that is read. One with two masters has 112 bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// Permission bits of a file that is ours alone.
const OTHERS: u32 = 0o077;

/// How far our clock may have been set back since it was written.
const SKEW: Duration = Duration::from_secs(300);

/// The masters in a file; none if there is no such file.
///
/// # Errors
/// It is not ours alone, or damaged; says what to do.
pub fn read(path: &Path, now: SystemTime) -> Result<Option<TicketSecrets>, String> {
    if !check(path)? {
        return Ok(None);
    }
    let content = files::read(path, MAX_FILE_BYTES)?;
    let damaged = |what: &str| format!("{}: {what}; new keys are made", path.display());
    let (since, masters) = content
        .strip_prefix(MAGIC)
        .and_then(|rest| rest.split_first_chunk::<8>())
        .ok_or_else(|| damaged("this is no file of ticket keys"))?;
    let since = Duration::from_millis(u64::from_be_bytes(*since));
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since > now + SKEW {
        return Err(damaged("its keys are of the future, so the clock was set back"));
    }
    let age = u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX);
    Ok(Some(TicketSecrets::new([&age.to_be_bytes(), masters].concat())))
}

/// Puts masters into a file, in the place of what is there.
///
/// # Errors
/// It is not ours alone, or cannot be written; what was there still is.
pub fn write(path: &Path, secrets: &TicketSecrets, now: SystemTime) -> Result<(), String> {
    check(path)?;
    let age = secrets.bytes().first_chunk::<8>().copied().unwrap_or_default();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = now.saturating_sub(Duration::from_millis(u64::from_be_bytes(age)));
    let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let mut content = Zeroizing::new(Vec::with_capacity(MAGIC.len() + 8 + secrets.masters().len()));
    content.extend_from_slice(MAGIC);
    content.extend_from_slice(&since.to_be_bytes());
    content.extend_from_slice(secrets.masters());
    files::replace(path, &content).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether there is a file, which then is ours alone.
fn check(path: &Path) -> Result<bool, String> {
    let place = path.display();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(format!("{place}: {error}")),
    };
    if !found.is_file() {
        return Err(format!("{place}: is no plain file; name another one, or remove it"));
    }
    if found.uid() != net::process::effective_user() {
        return Err(format!("{place}: belongs to another user, who may know its keys; remove it"));
    }
    if found.mode() & OTHERS != 0 {
        return Err(format!("{place}: others may read or write it, so its keys are no secret; remove it"));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tls::TicketKeys;

    const PERIOD: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(2_000_000_000 + seconds)
    }

    #[test]
    fn masters_come_back_with_their_age() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        assert!(read(&path, at(0)).unwrap().is_none());
        let keys = TicketKeys::new(PERIOD);
        keys.rotate();
        write(&path, &keys.secrets(), at(0)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let back = read(&path, at(60)).unwrap().unwrap();
        assert_eq!(back.masters(), keys.secrets().masters());
        let age = u64::from_be_bytes(*back.bytes().first_chunk().unwrap());
        assert!((60_000..61_000).contains(&age), "{age}");
        assert!(TicketKeys::with(PERIOD, &back).is_some());
        // What is too old opens nothing more.
        let old = TicketKeys::with(PERIOD, &read(&path, at(7201)).unwrap().unwrap()).unwrap();
        assert_ne!(old.secrets().masters(), back.masters());
        assert_eq!(old.secrets().masters().len(), back.masters().len() / 2);
        assert!(read(&path, at(0) - Duration::from_secs(600)).unwrap_err().contains("clock was set back"));
    }

    #[test]
    fn only_a_file_that_is_ours_alone_is_read_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let secrets = TicketKeys::new(PERIOD).secrets();
        write(&path, &secrets, at(0)).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert!(read(&path, at(0)).unwrap_err().contains("others may"), "{mode:o}");
            assert!(write(&path, &secrets, at(0)).unwrap_err().contains("others may"), "{mode:o}");
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(read(&link, at(0)).unwrap_err().contains("no plain file"));
        assert!(write(&link, &secrets, at(0)).unwrap_err().contains("no plain file"));
        for damaged in [&b""[..], b"PTKEYS1\n", b"nonsense and more of it than a head has"] {
            fs::write(&path, damaged).unwrap();
            assert!(read(&path, at(0)).unwrap_err().contains("no file of ticket keys"), "{damaged:?}");
        }
        // Masters that are cut are none.
        fs::write(&path, [&MAGIC[..], &[0; 8], &[7; 20]].concat()).unwrap();
        let cut = read(&path, at(0)).unwrap().unwrap();
        assert!(TicketKeys::with(PERIOD, &cut).is_none());
        fs::write(&path, [7; 2000]).unwrap();
        assert!(read(&path, at(0)).is_err());
    }
}
