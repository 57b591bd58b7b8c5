//! The folder in which everything of one keystore is kept: certificates with their keys, accounts, and what became of the last order of each.
//!
//! ```text
//! FOLDER/certificates/NAME.TYPE.pem   key and chain, as `portunus keystore` has them: what is served; the chain alone if keys are at key servers
//! FOLDER/accounts/HOST-DIGEST.json    our account with an authority, with its key
//! FOLDER/records/NAME.TYPE.json       an order under way with its key, failures, who issued what is there
//! FOLDER/on-demand/…                  `certificates` and `records` of names that clients asked for
//! FOLDER/ca/ca.key                    the development CA of `directory: internal`: its key, and its certificate
//! FOLDER/ca/ca.pem                    the same certificate once more, for those who are to trust it
//! FOLDER/lock                         held by the process that orders
//! ```
//!
//! All of it is for us alone (0700, 0600). A file is replaced whole or not at all, and never through a link. What an authority says is never part of
//! the name of a file.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::AccountCredentials;
use keystore::files;
use net::trusted::{self, Closed, Owner};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tls::Identity;
use tls::crypto::digest;
use wire::hexadecimal::hexadecimal;
use zeroize::Zeroizing;

use crate::dns::TxtRecord;
use crate::foreign;
use crate::key::{self, Held};
use crate::peers::Peers;
use crate::wanted::Wanted;

/// Largest file of ours that is read.
pub const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Where a certificate begins in a PEM file.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// The folder.
#[derive(Debug, Clone)]
pub struct Storage {
    folder: PathBuf,
    /// Where certificates and records are: in it, or in a folder of it.
    leaves: PathBuf,
    /// Keys are at key servers: a certificate that is here with its key is not what is wanted.
    is_keyless: bool,
    /// The other nodes of the fleet, and what they call the keystore: nothing is written here that they do not have.
    peers: Option<(Arc<dyn Peers>, Arc<str>)>,
}

/// The right to order certificates for a folder, as long as it is kept. Goes with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing the file would not do: a process that was just forked holds a copy until it runs its program.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
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
    /// When it was ordered last because a client asked for it.
    pub demanded: Option<SystemTime>,
    /// How often in a row names could not be proved: each time it is done in the next way.
    pub unproved: u32,
    /// What was set in the DNS and is to be removed.
    pub txt: Option<TxtRecord>,
    /// The public half, as PEM, of a key that a key server made for it: kept over orders that fail, or each would leave a key behind.
    pub made_key: Option<Zeroizing<String>>,
}

/// An order that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The directory of its authority.
    pub authority: String,
    /// Its URL.
    pub url: String,
    /// The key that the certificate is for, as PEM; of one at a key server the public half.
    pub key: Zeroizing<String>,
}

impl Storage {
    /// A folder, which need not be there yet.
    pub fn at(folder: &Path) -> Storage {
        Storage { folder: folder.to_owned(), leaves: folder.to_owned(), is_keyless: false, peers: None }
    }

    /// The same, for certificates whose keys are at key servers or are not.
    pub fn keyless(self, is_keyless: bool) -> Storage {
        Storage { is_keyless, ..self }
    }

    /// The same, of a keystore of this name that other nodes have, too.
    pub fn shared(self, peers: Option<&Arc<dyn Peers>>, keystore: &str) -> Storage {
        Storage { peers: peers.map(|peers| (Arc::clone(peers), keystore.into())), ..self }
    }

    /// The same, for certificates of names that clients asked for: they are many, and nobody watches their folder.
    pub fn on_demand(&self) -> Storage {
        Storage { leaves: self.folder.join("on-demand"), ..self.clone() }
    }

    /// Makes what is missing, and looks whether it is ours alone.
    ///
    /// # Errors
    /// A folder cannot be made, is a link within ours, or others may write there.
    pub fn make(&self) -> Result<(), String> {
        make_folder(&self.folder, true)?;
        ["certificates", "accounts", "records"].iter().try_for_each(|name| make_folder(&self.folder.join(name), false))
    }

    /// Makes what is missing of a folder for names that clients asked for.
    ///
    /// # Errors
    /// As [`Storage::make`].
    pub fn make_on_demand(&self) -> Result<(), String> {
        make_folder(&self.leaves, false)?;
        ["certificates", "records"].iter().try_for_each(|name| make_folder(&self.leaves.join(name), false))
    }

    /// Names and kinds of keys that there are certificates or records of, in the order of names, and no more than so many of each.
    pub fn stems(&self, most: usize) -> Vec<String> {
        let stems = |folder: &str, ending: &'static str| {
            let entries = fs::read_dir(self.leaves.join(folder)).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            names.filter_map(move |name| name.strip_suffix(ending).map(str::to_owned)).take(most)
        };
        let all: BTreeSet<String> = stems("certificates", ".pem").chain(stems("records", ".json")).collect();
        all.into_iter().collect()
    }

    /// Key and chain, to be served; none if they are not those of what is wanted.
    pub fn identity(&self, wanted: &Wanted) -> Option<Arc<Identity>> {
        let text = Zeroizing::new(files::read(&self.certificate_path(wanted), MAX_FILE_BYTES).ok()?);
        key::identity(wanted, &text)
    }

    /// Removes certificate and record.
    pub fn remove(&self, wanted: &Wanted) {
        for path in [self.certificate_path(wanted), self.record_path(wanted)] {
            if let Err(problem) = self.share(&path, None) {
                tracing::warn!("{problem}");
                continue;
            }
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("{}", unwritable(&path, &error))
                }
                _ => {}
            }
        }
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
            Ok(()) => Ok(Some(Lock { file })),
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
            // Who may read it issues what clients of ours trust.
            Ok(found) => trusted::check(&path, &found, Owner::OursOrService, Closed::ToReaders)?,
        }
        let text =
            |path: &Path| files::text(path, MAX_FILE_BYTES).map_err(|error| format!("{}: {error}", path.display()));
        let (own, shown) = (Zeroizing::new(text(&path)?), self.ca_certificate_path());
        let Some((key, certificate)) = own.find(CERTIFICATE).map(|at| own.split_at(at)) else {
            // As it was kept before the two stood in one file.
            return Ok(Some((text(&shown)?, own)));
        };
        // It is written last, and may have been removed.
        if text(&shown).ok().as_deref() != Some(certificate) {
            replace_at(&shown, certificate.as_bytes(), None)?;
        }
        Ok(Some((certificate.to_owned(), Zeroizing::new(key.to_owned()))))
    }

    /// Keeps a CA of our own, in the place of the one before: key and certificate in one step, then what others are to trust.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_ca(&self, certificate: &str, key: &str) -> Result<(), String> {
        self.make_ca()?;
        let both = Zeroizing::new(format!("{}\n{certificate}", key.trim_end()));
        self.replace(&self.ca_key_path(), both.as_bytes())?;
        self.replace(&self.ca_certificate_path(), certificate.as_bytes())
    }

    /// Makes the folder of the CA of our own.
    ///
    /// # Errors
    /// As [`Storage::make`].
    pub fn make_ca(&self) -> Result<(), String> {
        make_folder(&self.folder.join("ca"), false)
    }

    /// Gives a file to the other nodes, or has them remove it: when it counts as written.
    fn share(&self, path: &Path, content: Option<&[u8]>) -> Result<Option<SystemTime>, String> {
        let Some((peers, keystore)) = &self.peers else { return Ok(None) };
        let Some(path) = path.strip_prefix(&self.folder).ok().and_then(Path::to_str) else { return Ok(None) };
        peers.put(keystore, path, content).map(Some)
    }

    /// Replaces a file: for the other nodes first, so that whoever orders next has what we act upon.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), String> {
        check_no_link(path)?;
        let at = self.share(path, Some(content))?;
        replace_at(path, content, at)
    }

    fn certificate_path(&self, wanted: &Wanted) -> PathBuf {
        self.leaves.join("certificates").join(format!("{}.pem", wanted.stem()))
    }

    fn record_path(&self, wanted: &Wanted) -> PathBuf {
        self.leaves.join("records").join(format!("{}.json", wanted.stem()))
    }

    /// The certificate that we have; none if there is none, or it is another one than is wanted.
    pub fn held(&self, wanted: &Wanted) -> Option<Held> {
        let text = files::read(&self.certificate_path(wanted), MAX_FILE_BYTES).ok()?;
        key::held(wanted, &text).filter(|_| !self.is_keyless || !key::holds_private_key(&text))
    }

    /// The public half of the key of the certificate that we have, where keys are at key servers.
    pub fn public_key(&self, wanted: &Wanted) -> Option<Zeroizing<String>> {
        let text = files::read(&self.certificate_path(wanted), MAX_FILE_BYTES).ok()?;
        let is_usable = self.is_keyless && key::held(wanted, &text).is_some() && !key::holds_private_key(&text);
        is_usable.then(|| key::public_half(&text)).flatten()
    }

    /// Puts key and chain in the place of what we had.
    ///
    /// # Errors
    /// They cannot be written; what was there still is.
    pub fn keep(&self, wanted: &Wanted, text: &str) -> Result<(), String> {
        self.replace(&self.certificate_path(wanted), text.as_bytes())
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
        self.replace(&self.record_path(wanted), text.as_bytes())
    }

    /// The file of our account with an authority. Its name is made of what the configuration says, however that writes the URL.
    fn account_path(&self, directory: &str) -> PathBuf {
        let path = self.account_path_of(&foreign::directory(directory));
        // What was made before URLs were compared as such.
        let before = self.account_path_of(directory);
        if !path.exists() && before.exists() { before } else { path }
    }

    fn account_path_of(&self, directory: &str) -> PathBuf {
        let host = directory.trim_start_matches("https://").split('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let host: String = host.chars().filter(is_plain).take(100).collect();
        let digest = hexadecimal(&digest::sha256(directory.as_bytes())[..4]);
        self.folder.join("accounts").join(format!("{host}-{digest}.json"))
    }

    /// Our account with an authority, and the contact that it was given.
    pub fn account(&self, directory: &str) -> Option<(AccountCredentials, Vec<String>)> {
        let text = files::read(&self.account_path(directory), MAX_FILE_BYTES).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        let contact = texts(value.get("contact")?);
        Some((serde_json::from_value(value.get("credentials")?.clone()).ok()?, contact))
    }

    /// The URL of our account with an authority, and what that was called in the DNS when the account was made.
    pub fn account_url(&self, directory: &str) -> Option<(String, Vec<String>)> {
        let text = files::read(&self.account_path(directory), MAX_FILE_BYTES).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        let url = value.get("credentials")?.get("id")?.as_str()?.to_owned();
        Some((url, value.get("issuers").map(texts).unwrap_or_default()))
    }

    /// Keeps our account with an authority, and what that is called in the DNS.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_account(
        &self,
        directory: &str,
        account: &AccountCredentials,
        contact: &[String],
        issuers: &[String],
    ) -> Result<(), String> {
        let account = serde_json::to_value(account).map_err(|error| error.to_string())?;
        let text =
            Zeroizing::new(json!({ "credentials": account, "contact": contact, "issuers": issuers }).to_string());
        self.replace(&self.account_path(directory), text.as_bytes())
    }

    /// Sets aside an account that its authority does not know.
    pub fn forget_account(&self, directory: &str) {
        let path = self.account_path(directory);
        // Who orders next finds out by itself.
        let _ = self.share(&path, None);
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
        let time = |key: &str| {
            value.get(key).and_then(Value::as_u64).and_then(|since| UNIX_EPOCH.checked_add(Duration::from_secs(since)))
        };
        Record {
            issued_by: text(value, "issued_by"),
            order: value.get("order").and_then(begun),
            failures: number("failures"),
            unproved: number("unproved"),
            txt: value.get("txt").and_then(txt),
            demanded: time("demanded_at"),
            made_key: text(value, "made_key").map(Zeroizing::new),
            failed: time("failed_at").map(|at| (at, text(value, "problem").unwrap_or_default())),
        }
    }

    fn to_json(&self) -> Value {
        let order = self
            .order
            .as_ref()
            .map(|begun| json!({ "authority": begun.authority, "url": begun.url, "key": begun.key.as_str() }));
        let txt = self.txt.as_ref().map(|txt| json!({ "host": txt.host, "value": txt.value }));
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        let (failed_at, problem) =
            self.failed.clone().map_or((None, None), |(at, problem)| (seconds(at), Some(problem)));
        json!({
            "issued_by": self.issued_by,
            "order": order,
            "failures": self.failures,
            "unproved": self.unproved,
            "txt": txt,
            "made_key": self.made_key.as_ref().map(|key| key.as_str()),
            "demanded_at": self.demanded.and_then(seconds),
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
    trusted::check(folder, &found, Owner::Ours, Closed::ToWriters)
}

/// Replaces a file that is no link, as if it was written at this time.
///
/// # Errors
/// It is one, or cannot be written.
pub fn replace_at(path: &Path, content: &[u8], at: Option<SystemTime>) -> Result<(), String> {
    check_no_link(path)?;
    let set_time = |at: SystemTime| File::options().write(true).open(path)?.set_modified(at);
    let written = files::replace(path, content).and_then(|()| at.map_or(Ok(()), set_time));
    written.map_err(|error| unwritable(path, &error))
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
    use std::os::unix::fs::MetadataExt;
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
            demanded: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            unproved: 2,
            made_key: Some(Zeroizing::new("PUBLIC KEY".to_owned())),
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

    /// A process that is killed between its two files leaves either CA whole.
    #[test]
    fn a_ca_is_replaced_in_one_step_and_its_certificate_is_shown_again() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::at(dir.path());
        let certificate = |name: &str| format!("{CERTIFICATE}\n{name}\n-----END CERTIFICATE-----\n");
        let (old, new) = (certificate("old"), certificate("new"));
        let ca = || storage.ca().unwrap().map(|(certificate, key)| (certificate, key.trim_end().to_owned()));
        assert_eq!(ca(), None);
        storage.keep_ca(&old, "old key").unwrap();
        storage.keep_ca(&new, "new key\n").unwrap();
        assert_eq!(ca(), Some((new.clone(), "new key".to_owned())));
        // Killed before the second file was written.
        fs::write(storage.ca_certificate_path(), &old).unwrap();
        assert_eq!(ca(), Some((new.clone(), "new key".to_owned())));
        assert_eq!(fs::read_to_string(storage.ca_certificate_path()).unwrap(), new);
        fs::remove_file(storage.ca_certificate_path()).unwrap();
        assert!(ca().is_some() && storage.ca_certificate_path().exists());
        // As programs before this one kept it.
        fs::write(storage.ca_key_path(), "key alone").unwrap();
        assert_eq!(ca(), Some((new, "key alone".to_owned())));
        fs::remove_file(storage.ca_certificate_path()).unwrap();
        assert!(storage.ca().is_err());
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
        assert!(storage.make().unwrap_err().contains("other users may write there"));
        assert!(Storage::at(&elsewhere).make().unwrap_err().contains("is no folder"));
        assert!(Storage::at(&dir.path().join("no/such")).make().is_err());
    }

    #[test]
    fn an_account_is_found_by_its_directory() {
        let storage = Storage::at(Path::new("/x"));
        let name = |url: &str| storage.account_path(url).file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name("https://ca.example:14000/../../dir").starts_with("ca.example14000-"));
        assert_ne!(name("https://ca.example/a"), name("https://ca.example/b"));
        assert_eq!(name("https://ca.example/a"), name("https://CA.example:443/a/"));
        assert_eq!(storage.account_path("https://../x").parent().unwrap(), Path::new("/x/accounts"));
    }
}
