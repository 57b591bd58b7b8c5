//! The file in which the keys of session tickets and the secrets of QUIC outlive a restart: read and written only if it is ours alone.
//!
//! ```text
//! MAGIC, the secrets of QUIC (64 bytes), then when the current master began to seal (milliseconds since 1970, 8 bytes),
//! then name and master of the current and of the previous one
//! ```
//!
//! One that an earlier version wrote has another MAGIC, and no secrets of QUIC. Knows nothing of when keys change; that is `tls::TicketKeys`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keystore::files;
use net::trusted::{self, Closed, Owner};
use tls::TicketSecrets;
use zeroize::Zeroizing;

/// What the file begins with: its form, and the version of that.
const MAGIC: &[u8; 8] = b"PTKEYS2\n";
const MAGIC_WITHOUT_QUIC: &[u8; 8] = b"PTKEYS1\n";

/// Largest file that is read. One with two masters has 176 bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// How far our clock may have been set back since it was written.
const SKEW: Duration = Duration::from_secs(300);

/// What a file holds.
#[derive(Debug)]
pub struct Kept {
    /// The masters.
    pub tickets: TicketSecrets,
    /// The secrets of QUIC.
    pub quic: Option<quic::Secrets>,
}

/// What a file holds; none if there is no such file.
///
/// # Errors
/// It is not ours alone, or damaged; says what to do.
pub fn read(path: &Path, now: SystemTime) -> Result<Option<Kept>, String> {
    if !check(path)? {
        return Ok(None);
    }
    let content = files::read(path, MAX_FILE_BYTES)?;
    let damaged = |what: &str| format!("{}: {what}; new keys are made", path.display());
    let ((since, masters), quic) = parts(&content).ok_or_else(|| damaged("this is no file of ticket keys"))?;
    let since = Duration::from_millis(u64::from_be_bytes(*since));
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since > now + SKEW {
        return Err(damaged("its keys are of the future, so the clock was set back"));
    }
    let age = u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX);
    Ok(Some(Kept { tickets: TicketSecrets::new([&age.to_be_bytes(), masters].concat()), quic }))
}

/// When the current master began to seal and the masters, and the secrets of QUIC.
type Parts<'c> = ((&'c [u8; 8], &'c [u8]), Option<quic::Secrets>);

fn parts(content: &[u8]) -> Option<Parts<'_>> {
    if let Some(rest) = content.strip_prefix(MAGIC_WITHOUT_QUIC) {
        return Some((rest.split_first_chunk()?, None));
    }
    let (secrets, rest) = content.strip_prefix(MAGIC)?.split_first_chunk::<{ quic::Secrets::BYTES }>()?;
    Some((rest.split_first_chunk()?, quic::Secrets::of_bytes(secrets)))
}

/// Puts masters and the secrets of QUIC into a file, in the place of what is there.
///
/// # Errors
/// It is not ours alone, or cannot be written; what was there still is.
pub fn write(path: &Path, secrets: &TicketSecrets, quic: &quic::Secrets, now: SystemTime) -> Result<(), String> {
    check(path)?;
    let age = secrets.bytes().first_chunk::<8>().copied().unwrap_or_default();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = now.saturating_sub(Duration::from_millis(u64::from_be_bytes(age)));
    let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let quic = Zeroizing::new(quic.to_bytes());
    let mut content = Zeroizing::new(Vec::with_capacity(MAGIC.len() + quic.len() + 8 + secrets.masters().len()));
    content.extend_from_slice(MAGIC);
    content.extend_from_slice(&*quic);
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
    // Others know its keys, or chose them.
    trusted::check(path, &found, Owner::Ours, Closed::ToReaders)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
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
        let quic = quic::Secrets::random().unwrap();
        write(&path, &keys.secrets(), &quic, at(0)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let Kept { tickets: back, quic: quic_back } = read(&path, at(60)).unwrap().unwrap();
        assert_eq!(quic_back.unwrap().to_bytes(), quic.to_bytes());
        assert_eq!(back.masters(), keys.secrets().masters());
        let age = u64::from_be_bytes(*back.bytes().first_chunk().unwrap());
        assert!((60_000..61_000).contains(&age), "{age}");
        assert!(TicketKeys::with(PERIOD, &back).is_some());
        // What is too old opens nothing more.
        let old = TicketKeys::with(PERIOD, &read(&path, at(7201)).unwrap().unwrap().tickets).unwrap();
        assert_ne!(old.secrets().masters(), back.masters());
        assert_eq!(old.secrets().masters().len(), back.masters().len() / 2);
        assert!(read(&path, at(0) - Duration::from_secs(600)).unwrap_err().contains("clock was set back"));
    }

    #[test]
    fn a_file_of_an_earlier_version_has_masters_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let secrets = TicketKeys::new(PERIOD).secrets();
        let since = 2_000_000_000_000_u64.to_be_bytes();
        fs::write(&path, [&MAGIC_WITHOUT_QUIC[..], &since, secrets.masters()].concat()).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let kept = read(&path, at(60)).unwrap().unwrap();
        assert_eq!(kept.tickets.masters(), secrets.masters());
        assert!(kept.quic.is_none());
    }

    #[test]
    fn only_a_file_that_is_ours_alone_is_read_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let secrets = TicketKeys::new(PERIOD).secrets();
        let quic = quic::Secrets::random().unwrap();
        write(&path, &secrets, &quic, at(0)).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert!(read(&path, at(0)).unwrap_err().contains("other users may"), "{mode:o}");
            assert!(write(&path, &secrets, &quic, at(0)).unwrap_err().contains("other users may"), "{mode:o}");
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(read(&link, at(0)).unwrap_err().contains("no plain file"));
        assert!(write(&link, &secrets, &quic, at(0)).unwrap_err().contains("no plain file"));
        let cut = [&MAGIC[..], &[7; quic::Secrets::BYTES], &[0; 7]].concat();
        for damaged in [&b""[..], b"PTKEYS1\n", b"PTKEYS2\n", &cut, b"nonsense and more of it than a head has"] {
            fs::write(&path, damaged).unwrap();
            assert!(read(&path, at(0)).unwrap_err().contains("no file of ticket keys"), "{damaged:?}");
        }
        // Masters that are cut are none.
        fs::write(&path, [&MAGIC[..], &[7; quic::Secrets::BYTES], &[0; 8], &[7; 20]].concat()).unwrap();
        let cut = read(&path, at(0)).unwrap().unwrap();
        assert!(TicketKeys::with(PERIOD, &cut.tickets).is_none());
        fs::write(&path, [7; 2000]).unwrap();
        assert!(read(&path, at(0)).is_err());
    }
}
