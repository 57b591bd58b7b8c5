//! The folder in which everything of one keystore is kept: certificates with their keys, accounts, and what became of the last order of each.
//!
//! ```text
//! FOLDER/certificates/NAME.TYPE.pem   key and chain, as `portunus keystore` has them: what is served
//! FOLDER/accounts/HOST-DIGEST.json    our account with an authority, with its key
//! FOLDER/records/NAME.TYPE.json       an order under way with its key, failures, who issued what is there
//! FOLDER/ca/{ca.pem,ca.key}           the development CA of `directory: internal`: what to trust, and its key
//! FOLDER/lock                         held by the process that orders
//! ```
//!
//! All of it is for us alone (0700, 0600). A file is replaced whole or not at all, and never through a link. What an authority says is never part of
//! the name of a file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::AccountCredentials;
use keystore::files;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tls::crypto::digest;
use zeroize::Zeroizing;

use crate::dns::TxtRecord;
use crate::key::{self, Held};
use crate::wanted::Wanted;

/// Largest file of ours that is read.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Permission bits that only we may have, and others not: to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Permission bits of a key that only we may have.
const READABLE_BY_OTHERS: u32 = 0o077;

/// The folder.
#[derive(Debug, Clone)]
pub struct Storage {
    folder: PathBuf,
}

/// The right to order certificates for a folder, as long as it is kept. Goes with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What is known of a certificate beside itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The directory of the authority that issued what is there.
    pub issued_by: Option<String>,
    /// An order that was begun.
    pub order: Option<Begun>,
    /// Orders that failed in a row.
    pub failures: u32,
    /// When the last one did, and why.
    pub failed: Option<(SystemTime, String)>,
    /// How often in a row names could not be proved: each time it is done in the next way.
    pub unproved: u32,
    /// What was set in the DNS and is to be removed.
    pub txt: Option<TxtRecord>,
}

/// An order that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The directory of its authority.
    pub authority: String,
    /// Its URL.
    pub url: String,
    /// The key that the certificate is for, as PEM.
    pub key: Zeroizing<String>,
}

impl Storage {
    /// A folder, which need not be there yet.
    pub fn at(folder: &Path) -> Storage {
        Storage { folder: folder.to_owned() }
    }

    /// Makes what is missing, and looks whether it is ours alone.
    ///
    /// # Errors
    /// A folder cannot be made, is a link within ours, or others may write there.
    pub fn make(&self) -> Result<(), String> {
        make_folder(&self.folder, true)?;
        ["certificates", "accounts", "records"].iter().try_for_each(|name| make_folder(&self.folder.join(name), false))
    }

    /// The right to order; none while another process has it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn lock(&self) -> Result<Option<Lock>, String> {
        let path = self.folder.join("lock");
        check_no_link(&path)?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(|error| unwritable(&path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(unwritable(&path, &error.into())),
        }
    }

    /// The certificate of the CA of our own.
    pub fn ca_certificate_path(&self) -> PathBuf {
        self.folder.join("ca/ca.pem")
    }

    /// The key of the CA of our own.
    pub fn ca_key_path(&self) -> PathBuf {
        self.folder.join("ca/ca.key")
    }

    /// Certificate and key of the CA of our own; none if it has no key yet.
    ///
    /// # Errors
    /// They are there and cannot be read, or others may read the key.
    pub fn ca(&self) -> Result<Option<(String, Zeroizing<String>)>, String> {
        let path = self.ca_key_path();
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unwritable(&path, &error)),
            Ok(found) if found.mode() & READABLE_BY_OTHERS != 0 => {
                let place = path.display();
                return Err(format!(
                    "{place}: others may read it, and issue what clients of ours trust; `chmod 600 {place}`, or remove it to have a new CA made"
                ));
            }
            Ok(_) => {}
        }
        let text =
            |path: &Path| files::text(path, MAX_FILE_BYTES).map_err(|error| format!("{}: {error}", path.display()));
        let certificate = text(&self.ca_certificate_path())?;
        Ok(Some((certificate, Zeroizing::new(text(&path)?))))
    }

    /// Keeps a CA of our own: the certificate first, since nothing is signed without the key.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_ca(&self, certificate: &str, key: &str) -> Result<(), String> {
        make_folder(&self.folder.join("ca"), false)?;
        replace(&self.ca_certificate_path(), certificate.as_bytes())?;
        replace(&self.ca_key_path(), key.as_bytes())
    }

    fn certificate_path(&self, wanted: &Wanted) -> PathBuf {
        self.folder.join("certificates").join(format!("{}.pem", wanted.stem()))
    }

    fn record_path(&self, wanted: &Wanted) -> PathBuf {
        self.folder.join("records").join(format!("{}.json", wanted.stem()))
    }

    /// The certificate that we have; none if there is none, or it is another one than is wanted.
    pub fn held(&self, wanted: &Wanted) -> Option<Held> {
        let text = files::read(&self.certificate_path(wanted), MAX_FILE_BYTES).ok()?;
        key::held(wanted, &text)
    }

    /// Puts key and chain in the place of what we had.
    ///
    /// # Errors
    /// They cannot be written; what was there still is.
    pub fn keep(&self, wanted: &Wanted, text: &str) -> Result<(), String> {
        replace(&self.certificate_path(wanted), text.as_bytes())
    }

    /// What is known of a certificate. Where that cannot be read, nothing is.
    pub fn record(&self, wanted: &Wanted) -> Record {
        let text = files::read(&self.record_path(wanted), MAX_FILE_BYTES).ok();
        let value = text.and_then(|text| serde_json::from_slice(&text).ok());
        value.as_ref().map(Record::of_json).unwrap_or_default()
    }

    /// Keeps what is known of a certificate.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_record(&self, wanted: &Wanted, record: &Record) -> Result<(), String> {
        let text = Zeroizing::new(record.to_json().to_string());
        replace(&self.record_path(wanted), text.as_bytes())
    }

    /// The file of our account with an authority. Its name is made of what the configuration says.
    fn account_path(&self, directory: &str) -> PathBuf {
        let host = directory.trim_start_matches("https://").split('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let host: String = host.chars().filter(is_plain).take(100).collect();
        let digest = digest::sha256(directory.as_bytes());
        let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join("accounts").join(format!("{host}-{digest}.json"))
    }

    /// Our account with an authority, and the contact that it was given.
    pub fn account(&self, directory: &str) -> Option<(AccountCredentials, Vec<String>)> {
        let text = files::read(&self.account_path(directory), MAX_FILE_BYTES).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        let contact = texts(value.get("contact")?);
        Some((serde_json::from_value(value.get("credentials")?.clone()).ok()?, contact))
    }

    /// Keeps our account with an authority.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_account(
        &self,
        directory: &str,
        account: &AccountCredentials,
        contact: &[String],
    ) -> Result<(), String> {
        let account = serde_json::to_value(account).map_err(|error| error.to_string())?;
        let text = Zeroizing::new(json!({ "credentials": account, "contact": contact }).to_string());
        replace(&self.account_path(directory), text.as_bytes())
    }

    /// Sets aside an account that its authority does not know.
    pub fn forget_account(&self, directory: &str) {
        let path = self.account_path(directory);
        // It may be gone already; then there is nothing to set aside.
        let _ = fs::rename(&path, path.with_extension("json.unknown"));
    }
}

impl Record {
    fn of_json(value: &Value) -> Record {
        let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let number = |key: &str| {
            value.get(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
        };
        let begun = |order: &Value| {
            let key = Zeroizing::new(text(order, "key")?);
            Some(Begun { authority: text(order, "authority")?, url: text(order, "url")?, key })
        };
        let txt = |txt: &Value| Some(TxtRecord { host: text(txt, "host")?, value: text(txt, "value")? });
        let failed_at = value.get("failed_at").and_then(Value::as_u64).map(Duration::from_secs);
        let failed_at = failed_at.and_then(|since| UNIX_EPOCH.checked_add(since));
        Record {
            issued_by: text(value, "issued_by"),
            order: value.get("order").and_then(begun),
            failures: number("failures"),
            unproved: number("unproved"),
            txt: value.get("txt").and_then(txt),
            failed: failed_at.map(|at| (at, text(value, "problem").unwrap_or_default())),
        }
    }

    fn to_json(&self) -> Value {
        let order = self
            .order
            .as_ref()
            .map(|begun| json!({ "authority": begun.authority, "url": begun.url, "key": begun.key.as_str() }));
        let txt = self.txt.as_ref().map(|txt| json!({ "host": txt.host, "value": txt.value }));
        let (failed_at, problem) = self.failed.clone().map_or((None, None), |(at, problem)| {
            (at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs()), Some(problem))
        });
        json!({
            "issued_by": self.issued_by,
            "order": order,
            "failures": self.failures,
            "unproved": self.unproved,
            "txt": txt,
            "failed_at": failed_at,
            "problem": problem,
        })
    }
}

/// The texts in a list.
fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn make_folder(folder: &Path, may_be_link: bool) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unwritable(folder, &error)),
    }
    if !may_be_link {
        check_no_link(folder)?;
    }
    let found = fs::metadata(folder).map_err(|error| unwritable(folder, &error))?;
    if !found.is_dir() {
        return Err(format!("{}: is no folder; name another one", folder.display()));
    }
    if found.mode() & WRITABLE_BY_OTHERS != 0 {
        let place = folder.display();
        return Err(format!(
            "{place}: others may write there, so what is in it cannot be trusted; `chmod go-w {place}`"
        ));
    }
    Ok(())
}

/// Replaces a file that is no link.
fn replace(path: &Path, content: &[u8]) -> Result<(), String> {
    check_no_link(path)?;
    files::replace(path, content).map_err(|error| unwritable(path, &error))
}

fn check_no_link(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            Err(format!("{}: is a symbolic link, through which nothing is written; remove it", path.display()))
        }
        _ => Ok(()),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    let fix = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free disk space",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; make it writable for the user that portunus runs as"
        }
        _ => "",
    };
    format!("{}: {error}{fix}", path.display())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wanted::Subject;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tls::KeyType;

    fn wanted() -> Wanted {
        Wanted { subject: Subject::Name("www.example.com".to_owned()), key_type: KeyType::Ecdsa }
    }

    #[test]
    fn what_is_kept_is_for_us_alone_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("public");
        let storage = Storage::at(&folder);
        storage.make().unwrap();
        storage.make().unwrap();
        let record = Record {
            issued_by: Some("https://ca.example/dir".to_owned()),
            order: Some(Begun {
                authority: "https://ca.example/dir".to_owned(),
                url: "https://ca.example/order/1".to_owned(),
                key: Zeroizing::new("KEY".to_owned()),
            }),
            failures: 3,
            unproved: 2,
            txt: Some(TxtRecord::new("www.example.com", "digest".to_owned())),
            failed: Some((UNIX_EPOCH + Duration::from_secs(1_800_000_000), "no".to_owned())),
        };
        assert_eq!(storage.record(&wanted()), Record::default());
        storage.keep_record(&wanted(), &record).unwrap();
        assert_eq!(storage.record(&wanted()), record);
        storage.keep(&wanted(), "text").unwrap();
        assert_eq!(storage.held(&wanted()), None, "no certificate, no problem");
        for path in ["", "certificates", "accounts", "records"] {
            assert_eq!(fs::metadata(folder.join(path)).unwrap().mode() & 0o777, 0o700, "{path}");
        }
        for path in ["certificates/www.example.com.ecdsa.pem", "records/www.example.com.ecdsa.json"] {
            assert_eq!(fs::metadata(folder.join(path)).unwrap().mode() & 0o777, 0o600, "{path}");
        }
        // What is damaged counts as not there.
        for damaged in ["", "{", "[]", "{\"failures\": -1, \"failed_at\": 99999999999999999999, \"order\": 7}"] {
            fs::write(folder.join("records/www.example.com.ecdsa.json"), damaged).unwrap();
            assert_eq!(storage.record(&wanted()), Record::default(), "{damaged}");
        }
    }

    #[test]
    fn one_process_orders() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::at(dir.path());
        let lock = storage.lock().unwrap().unwrap();
        assert!(storage.lock().unwrap().is_none());
        drop(lock);
        assert!(storage.lock().unwrap().is_some());
    }

    #[test]
    fn nothing_is_written_through_links_or_where_others_may_write() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, elsewhere) = (dir.path().join("public"), dir.path().join("elsewhere"));
        let storage = Storage::at(&folder);
        storage.make().unwrap();
        fs::write(&elsewhere, "old").unwrap();
        symlink(&elsewhere, folder.join("certificates/www.example.com.ecdsa.pem")).unwrap();
        symlink(&elsewhere, folder.join("records/www.example.com.ecdsa.json")).unwrap();
        symlink(&elsewhere, folder.join("lock")).unwrap();
        assert!(storage.keep(&wanted(), "new").unwrap_err().contains("symbolic link"));
        assert!(storage.keep_record(&wanted(), &Record::default()).unwrap_err().contains("symbolic link"));
        assert!(storage.lock().unwrap_err().contains("symbolic link"));
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "old");

        fs::remove_dir(folder.join("accounts")).unwrap();
        symlink(dir.path(), folder.join("accounts")).unwrap();
        assert!(storage.make().unwrap_err().contains("symbolic link"));
        fs::remove_file(folder.join("accounts")).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(storage.make().unwrap_err().contains("others may write there"));
        assert!(Storage::at(&elsewhere).make().unwrap_err().contains("is no folder"));
        assert!(Storage::at(&dir.path().join("no/such")).make().is_err());
    }

    #[test]
    fn an_account_is_found_by_its_directory() {
        let storage = Storage::at(Path::new("/x"));
        let name = |url: &str| storage.account_path(url).file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name("https://ca.example:14000/../../dir").starts_with("ca.example14000-"));
        assert_ne!(name("https://ca.example/a"), name("https://ca.example/b"));
        assert_eq!(storage.account_path("https://../x").parent().unwrap(), Path::new("/x/accounts"));
    }
}
