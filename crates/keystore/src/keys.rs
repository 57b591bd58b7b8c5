//! Private keys alone, wherever they lie: what a key server holds. Certificates beside them are not needed and not read.
//!
//! Reads folders with all below, and single files: PEM, DER, encrypted PKCS#8, PKCS#12 and Java keystores.

use std::path::{Path, PathBuf};

use rcgen::{KeyPair, RsaKeySize};
use tls::KeyType;
use tls::crypto::{self, PrivateKey};
use zeroize::Zeroizing;

use crate::files::{self, MAX_FILES};
use crate::pem::{self, Label};
use crate::{Form, Keys, LoadError, Location, Password, jks, load_pairs, pem_folder};

/// Endings of the files that are read in folders.
const ENDINGS: [&str; 5] = ["key", "pem", "p12", "pfx", "jks"];

/// Folders within folders that are followed.
const MAX_DEPTH: usize = 16;

/// A key and where it came from.
#[derive(Debug)]
pub struct FoundKey {
    /// The key.
    pub key: PrivateKey,
    /// File, and line or alias, for messages.
    pub origin: String,
}

/// Every private key in `folders` and `files`.
///
/// # Errors
/// Every problem found; also that there is no key at all.
pub fn load(folders: &[PathBuf], files: &[PathBuf], password: Option<&Password>) -> Result<Vec<FoundKey>, LoadError> {
    let keys = load_growing(folders, files, password)?;
    if keys.is_empty() {
        let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let problem = format!("{}: no private keys; put `.key` or `.pem` files there", places.join(", "));
        return Err(LoadError { problems: vec![problem] });
    }
    Ok(keys)
}

/// The same where keys are made one by one: there may be none yet.
///
/// # Errors
/// Every problem found.
pub fn load_growing(
    folders: &[PathBuf],
    files: &[PathBuf],
    password: Option<&Password>,
) -> Result<Vec<FoundKey>, LoadError> {
    let Listing { files: mut listed, mut problems, .. } = Listing::of(folders);
    listed.sort();
    let mut keys = Vec::new();
    for path in listed.iter().chain(files) {
        let before = (keys.len(), problems.len());
        read(path, password, &mut keys, &mut problems);
        // A PEM file in a folder may hold certificates alone; one that is called a key may not, nor one that is named.
        let is_key = files.contains(path) || path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("key"));
        if is_key && before == (keys.len(), problems.len()) {
            problems.push(format!("{}: holds no private key; put one there, or remove it", path.display()));
        }
    }
    if problems.is_empty() { Ok(keys) } else { Err(LoadError { problems }) }
}

/// A new key, as PKCS#8 in PEM: RSA of 2048 bits, which takes a while, or ECDSA on P-256.
///
/// # Errors
/// The library could not make it.
pub fn generate(key_type: KeyType) -> Result<Zeroizing<String>, String> {
    let key = match key_type {
        KeyType::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
        KeyType::Ecdsa | KeyType::Ed25519 => KeyPair::generate(),
    };
    Ok(Zeroizing::new(key.map_err(|error| format!("no key can be made: {error}"))?.serialize_pem()))
}

/// The folders that [`load`] reads in, as they are called without links: below a folder, links may lead anywhere.
pub fn real_folders(folders: &[PathBuf]) -> Vec<PathBuf> {
    let listing = Listing::of(folders);
    let beside = listing.files.iter().filter_map(|path| Some(path.canonicalize().ok()?.parent()?.to_owned()));
    let mut found: Vec<_> = listing.folders.iter().filter_map(|path| path.canonicalize().ok()).chain(beside).collect();
    found.sort();
    found.dedup();
    found
}

/// What lies in folders and all below.
#[derive(Default)]
struct Listing {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    problems: Vec<String>,
}

impl Listing {
    fn of(folders: &[PathBuf]) -> Listing {
        let mut listing = Listing::default();
        folders.iter().for_each(|folder| list(folder, MAX_DEPTH, &mut listing));
        listing
    }
}

/// The files of a folder and of all below. Names that begin with a dot are left out: editors, and the mounts of container platforms, put copies there.
fn list(folder: &Path, depth: usize, listing: &mut Listing) {
    listing.folders.push(folder.to_owned());
    let problems = &mut listing.problems;
    let mut unreadable = |path: &Path, error: std::io::Error| {
        problems.push(format!("{}: {error}; make it readable for the user that portunus runs as", path.display()));
    };
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).and_then(Iterator::collect);
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => return unreadable(folder, error),
    };
    let mut inner = Vec::new();
    for entry in entries.into_iter().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")) {
        let path = entry.path();
        let is_ours =
            path.extension().is_some_and(|ending| ENDINGS.iter().any(|ours| ending.eq_ignore_ascii_case(ours)));
        // Follows symbolic links: renewal tools point to the newest version with them.
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => inner.push(path),
            Ok(metadata) if metadata.is_file() && is_ours => listing.files.push(path),
            Err(error) if is_ours => unreadable(&path, error),
            _ => {}
        }
    }
    if listing.files.len() > MAX_FILES || depth == 0 {
        listing.problems.push(format!("{}: more than {MAX_FILES} files, or a loop of links", folder.display()));
        return;
    }
    for folder in inner {
        list(&folder, depth - 1, listing);
    }
}

fn read(path: &Path, password: Option<&Password>, keys: &mut Vec<FoundKey>, problems: &mut Vec<String>) {
    let place = path.display().to_string();
    let bytes = match files::read(path, jks::MAX_FILE_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(problem) => return problems.push(problem),
    };
    match bytes.first() {
        Some(0x30) if !is_container(path) => match PrivateKey::from_der(&bytes) {
            Ok(key) => keys.push(FoundKey { key, origin: place }),
            Err(crypto::Error::NeedsPassword) => match password {
                Some(password) => push(PrivateKey::from_encrypted_der(&bytes, password), place, keys, problems),
                None => problems.push(pem_folder::key_problem(&place, crypto::Error::NeedsPassword)),
            },
            // DER that is no key may be a container under another name.
            Err(error) => match read_container(path, password) {
                Ok(found) => keys.extend(found),
                Err(_) => problems.push(pem_folder::key_problem(&place, error)),
            },
        },
        Some(0x30 | 0xfe) => match read_container(path, password) {
            Ok(found) => keys.extend(found),
            Err(found) => problems.extend(found),
        },
        _ => read_pem(&place, &bytes, password, keys, problems),
    }
}

fn is_container(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ["p12", "pfx", "jks"].iter().any(|container| ending.eq_ignore_ascii_case(container)))
}

fn push(key: Result<PrivateKey, crypto::Error>, place: String, keys: &mut Vec<FoundKey>, problems: &mut Vec<String>) {
    match key {
        Ok(key) => keys.push(FoundKey { key, origin: place }),
        Err(error) => problems.push(pem_folder::key_problem(&place, error)),
    }
}

fn read_pem(
    place: &str,
    text: &[u8],
    password: Option<&Password>,
    keys: &mut Vec<FoundKey>,
    problems: &mut Vec<String>,
) {
    let blocks = match pem::read(text) {
        Ok(blocks) => blocks,
        Err(error) => return problems.push(format!("{place}: {error}")),
    };
    for block in blocks.iter().filter(|block| block.label.is_private_key()) {
        let at = format!("{place}: line {}", block.line);
        let key = match (&block.label, password) {
            (Label::EncryptedPrivateKey, Some(password)) => PrivateKey::from_encrypted_der(&block.der, password),
            (Label::EncryptedPrivateKey, None) => Err(crypto::Error::NeedsPassword),
            _ => PrivateKey::from_der(&block.der),
        };
        push(key, at, keys, problems);
    }
}

/// The keys of a PKCS#12 file or Java keystore.
fn read_container(path: &Path, password: Option<&Password>) -> Result<Vec<FoundKey>, Vec<String>> {
    let head = files::head(path).ok_or_else(|| vec![format!("{}: too short", path.display())])?;
    let location = match Form::of(&head) {
        Ok(Form::Jks) => Location::Jks(path.to_owned()),
        Ok(Form::Pkcs12) => Location::Pkcs12(path.to_owned()),
        Err(problem) => return Err(vec![format!("{}: {problem}", path.display())]),
    };
    let loaded = load_pairs(&location, password, Keys::InStore);
    if !loaded.report.problems.is_empty() {
        return Err(loaded.report.problems);
    }
    let key_of = |pair: crate::pair::Pair| {
        let key = PrivateKey::from_der(&pair.key.unwrap_or_default())
            .map_err(|error| pem_folder::key_problem(&pair.origin, error))?;
        Ok(FoundKey { key, origin: pair.origin })
    };
    loaded.pairs.into_iter().map(key_of).collect::<Result<_, _>>().map_err(|problem: String| vec![problem])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    #[test]
    fn a_file_that_is_called_a_key_and_holds_none_is_reported_of() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        write("good.key", &key);
        write("note.pem", "nothing of use\n");
        let load = || super::load(&[folder.path().to_owned()], &[], None);
        assert_eq!(load().unwrap().len(), 1, "a PEM file in a folder may be about something else");
        for (text, part) in
            [("", "holds no private key"), ("garbage\n", "holds no private key"), ("-----BEGIN PRI", "")]
        {
            write("broken.key", text);
            let problems = load().unwrap_err().problems;
            assert!(
                problems.len() == 1 && problems[0].contains("broken.key") && problems[0].contains(part),
                "{problems:?}"
            );
        }
        std::fs::remove_file(folder.path().join("broken.key")).unwrap();
        let named = super::load(&[], &[folder.path().join("note.pem")], None).unwrap_err().problems;
        assert!(named[0].contains("note.pem: holds no private key"), "{named:?}");
    }
}
