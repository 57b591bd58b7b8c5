//! Changing a store: adding and removing pairs. Each change is one atomic replacement of a file; what fails leaves the store as it was.
//!
//! A pair may serve more names than the one it is added or removed under. No name loses its certificate unless the caller says so.

mod folder;
mod jks;
mod pkcs12;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tls::KeyType;
use tls::crypto::{self, PrivateKey};

use crate::certified::{Certified, public_key_digest};
use crate::jks::MAX_FILE_BYTES;
use crate::pair::{Pair, Report, Source, validity_problem};
use crate::pem::{self, Label};
use crate::{Form, Keys, LoadError, Location, Password, files, load_pairs, names};

/// What `open` makes of the file at `path`.
fn open_file<T>(path: &Path, open: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<T, EditError> {
    let problem = |text: String| EditError::Store(LoadError { problems: vec![text] });
    let bytes = files::read(path, MAX_FILE_BYTES as u64).map_err(problem)?;
    open(&bytes).map_err(|text| problem(format!("{}: {text}", path.display())))
}

/// Puts new content in the place of a store, if it reads back as what was meant.
fn save_file(path: &Path, bytes: &[u8], reads_back: bool) -> Result<(), EditError> {
    if !reads_back {
        let text = format!("{}: would not read back as written; nothing was changed", path.display());
        return Err(EditError::Rejected(text));
    }
    files::replace(path, bytes).map_err(|error| write_error(path, &error))
}

/// Shortest password for a new Java keystore, which Java and SillyProxy insist on.
pub const MIN_JKS_PASSWORD: usize = 6;

/// Why a store was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// There is such a pair already, and overwriting was not asked for; what is there.
    Exists(String),
    /// There is nothing under that name.
    NotFound(String),
    /// It would do damage, or the store cannot hold it; why, and what to do.
    Rejected(String),
    /// The store cannot be read.
    Store(LoadError),
    /// The new content could not be written; the old one is still there.
    Write(String),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Store(error) => error.fmt(f),
            EditError::Exists(text)
            | EditError::NotFound(text)
            | EditError::Rejected(text)
            | EditError::Write(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for EditError {}

impl From<LoadError> for EditError {
    fn from(error: LoadError) -> EditError {
        EditError::Store(error)
    }
}

/// A pair that an operator gives, checked in full: it belongs together, and it has not expired.
#[derive(Debug)]
pub struct NewPair {
    chain: Vec<Certified>,
    key: PrivateKey,
    key_type: KeyType,
    /// What the operator should know of it.
    pub warnings: Vec<String>,
}

impl NewPair {
    /// Reads a chain (leaf first) and its key from PEM files, which may be one and the same.
    ///
    /// # Errors
    /// Everything that is wrong with either.
    pub fn read(certificate: &Path, key: &Path, key_password: Option<&Password>) -> Result<NewPair, LoadError> {
        let mut report = Report::default();
        let chain = read_chain(certificate, &mut report);
        let private = read_private_key(key, key_password, &mut report);
        let origin = format!("{} with {}", certificate.display(), key.display());
        if let (Some(chain), Some(private), true) = (chain, private, report.problems.is_empty()) {
            let kept = chain.clone();
            let source = Source::Files { certificate: certificate.to_owned(), keys: Arc::new(vec![key.to_owned()]) };
            if let Some(pair) = Pair::new(origin, source, chain, Some(&private), &mut report) {
                let now = SystemTime::now();
                let validity = validity_problem(&pair.origin, pair.not_before, pair.not_after, now);
                if now > pair.not_after {
                    report.problems.extend(validity);
                } else {
                    report.warnings.extend(validity);
                    return Ok(NewPair {
                        chain: kept,
                        key: private,
                        key_type: pair.key_type,
                        warnings: report.warnings,
                    });
                }
            }
        }
        Err(LoadError { problems: report.problems })
    }

    /// The kind of its key.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    fn leaf(&self) -> Option<&Certified> {
        self.chain.first()
    }

    /// The names it is served under once it is in a store under `name`.
    fn names_in(&self, location_names: NamesFrom, name: &str) -> Vec<String> {
        match location_names {
            NamesFrom::Alias => vec![name.to_owned()],
            NamesFrom::Certificate => {
                let own = self.leaf().map(|leaf| leaf.names.clone()).unwrap_or_default();
                let default = (name == names::DEFAULT).then(|| name.to_owned());
                own.into_iter().chain(default).collect()
            }
        }
    }
}

fn read_blocks(path: &Path, report: &mut Report) -> Vec<pem::Block> {
    match files::read(path, pem::MAX_TEXT_BYTES as u64).map(|text| pem::read(&text)) {
        Ok(Ok(blocks)) => return blocks,
        Ok(Err(error)) => report.problem(format!("{}: {error}", path.display())),
        Err(problem) => report.problem(problem),
    }
    Vec::new()
}

fn read_chain(path: &Path, report: &mut Report) -> Option<Vec<Certified>> {
    let mut chain = Vec::new();
    for mut block in read_blocks(path, report).into_iter().filter(|block| block.label == Label::Certificate) {
        match Certified::from_der(std::mem::take(&mut *block.der)) {
            Ok(certificate) => chain.push(certificate),
            Err(error) => report.problem(format!("{}: line {}: certificate {error}", path.display(), block.line)),
        }
    }
    if chain.is_empty() && report.problems.is_empty() {
        report.problem(format!("{}: holds no PEM certificate", path.display()));
    }
    Some(chain).filter(|chain| !chain.is_empty())
}

fn read_private_key(path: &Path, password: Option<&Password>, report: &mut Report) -> Option<PrivateKey> {
    let place = path.display();
    let blocks = read_blocks(path, report);
    let mut keys = blocks.iter().filter(|block| block.label.is_private_key());
    let (Some(block), None) = (keys.next(), keys.next()) else {
        if report.problems.is_empty() {
            report.problem(format!("{place}: must hold exactly one PEM private key"));
        }
        return None;
    };
    let read = match (&block.label, password) {
        (Label::EncryptedPrivateKey, Some(password)) => PrivateKey::from_encrypted_der(&block.der, password),
        (Label::EncryptedPrivateKey, None) => Err(crypto::Error::NeedsPassword),
        _ => PrivateKey::from_der(&block.der),
    };
    match read {
        Ok(key) => Some(key),
        Err(error) => {
            report.problem(format!("{place}: line {}: private key {error}", block.line));
            None
        }
    }
}

/// How to add a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Replace what serves the same name with the same key type.
    pub overwrite: bool,
    /// Write a Java keystore as SillyProxy reads it: keys as PEM text, which Java does not read. A store that is in this form stays so.
    pub sillyproxy: bool,
}

/// What gives a pair its names in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamesFrom {
    Alias,
    Certificate,
}

/// Adds a pair under a name (canonical, or as people write it), making the store if there is none. Returns what the operator should know.
///
/// # Errors
/// The store is as it was.
pub fn add(
    location: &Location,
    password: Option<&Password>,
    name: &str,
    pair: &NewPair,
    options: AddOptions,
) -> Result<Vec<String>, EditError> {
    let name = canonical(name)?;
    let form = form_of(location)?;
    let names_from = if form == Some(Form::Jks) { NamesFrom::Alias } else { NamesFrom::Certificate };
    let mut notes = pair.warnings.clone();
    if options.sillyproxy && form != Some(Form::Jks) {
        return Err(EditError::Rejected("SillyProxy reads Java keystores only; choose a `.jks` store".to_owned()));
    }
    if name != names::DEFAULT && !pair.leaf().is_some_and(|leaf| leaf.covers(&name)) {
        let covered = pair.leaf().map(|leaf| leaf.names.join(", ")).filter(|names| !names.is_empty());
        let covered = covered.map_or("no host".to_owned(), |names| format!("only {names}"));
        if names_from == NamesFrom::Certificate {
            return Err(EditError::Rejected(format!(
                "the certificate is good for {covered}, not for {name}, and this kind of store takes names from certificates; use one of its names, `default`, or a Java keystore"
            )));
        }
        notes.push(format!("the certificate is good for {covered}; clients will reject it for {name}"));
    }
    let (existing, replaced) = if location.path().exists() {
        let loaded = load_pairs(location, password, Keys::InStore);
        // Problems elsewhere in a folder do not stop a pair that may be their cure.
        if form.is_some() && loaded.pairs.is_empty() && !loaded.report.problems.is_empty() {
            return Err(EditError::Store(LoadError { problems: loaded.report.problems }));
        }
        let names = pair.names_in(names_from, &name);
        let replaced = to_replace(&loaded.pairs, &names, pair, options, &mut notes)?;
        (loaded.pairs, replaced)
    } else {
        (Vec::new(), Vec::new())
    };
    match form {
        None => folder::add(location.path(), &existing, &replaced, &name, pair)?,
        Some(Form::Jks) => jks::add(location.path(), password, &existing, &replaced, &name, pair, options)?,
        Some(Form::Pkcs12) => pkcs12::add(location.path(), password, &existing, &replaced, &name, pair)?,
    }
    Ok(notes)
}

fn canonical(name: &str) -> Result<String, EditError> {
    names::canonical(name).map_err(|error| EditError::Rejected(format!("{name:?}: {error}")))
}

/// The form of a store that is one file, from its content, or from the location if there is none yet; none for a folder.
fn form_of(location: &Location) -> Result<Option<Form>, EditError> {
    let (path, named) = match location {
        Location::PemFolder(_) => return Ok(None),
        Location::Pkcs12(path) => (path, Form::Pkcs12),
        Location::Jks(path) => (path, Form::Jks),
    };
    if !path.exists() {
        return Ok(Some(named));
    }
    let problem = |text: String| EditError::Store(LoadError { problems: vec![text] });
    let bytes = files::read(path, crate::jks::MAX_FILE_BYTES as u64).map_err(problem)?;
    Form::of(&bytes).map(Some).map_err(|text| problem(format!("{}: {text}", path.display())))
}

/// The pairs that a new one replaces, by index: those of its key type that serve any of `names`, if they may go.
fn to_replace(
    existing: &[Pair],
    names: &[String],
    new: &NewPair,
    options: AddOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<usize>, EditError> {
    let mut replaced = Vec::new();
    for (index, old) in existing.iter().enumerate().filter(|(_, old)| old.key_type == new.key_type) {
        let (shared, others): (Vec<&String>, Vec<&String>) = old.names.iter().partition(|name| names.contains(name));
        let Some(first) = shared.first() else { continue };
        if !options.overwrite {
            return Err(EditError::Exists(format!(
                "{}: serves {first} with a key of that type already; say --overwrite to replace it",
                old.origin
            )));
        }
        if others.is_empty() {
            replaced.push(index);
            continue;
        }
        let others = others.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let newer = new.leaf().is_some_and(|leaf| (leaf.not_before, leaf.not_after) > (old.not_before, old.not_after));
        if !newer {
            return Err(EditError::Rejected(format!(
                "{}: also serves {others}, which the new certificate does not, and is not older than it, so that both cannot stay; remove one of them first",
                old.origin
            )));
        }
        notes.push(format!("{}: stays, because it also serves {others}", old.origin));
    }
    Ok(replaced)
}

/// Removes the pairs that serve a name, of one key type or of all. Returns what was removed.
///
/// # Errors
/// The store is as it was. A pair that serves other names too is rejected, unless `other_names_too`.
pub fn remove(
    location: &Location,
    password: Option<&Password>,
    name: &str,
    key_type: Option<KeyType>,
    other_names_too: bool,
) -> Result<Vec<String>, EditError> {
    let name = canonical(name)?;
    let form = form_of(location)?;
    let loaded = load_pairs(location, password, Keys::InStore);
    let wanted = |pair: &Pair| pair.names.contains(&name) && key_type.is_none_or(|wanted| wanted == pair.key_type);
    let removed: Vec<usize> = (0..loaded.pairs.len()).filter(|index| wanted(&loaded.pairs[*index])).collect();
    if removed.is_empty() {
        if !loaded.report.problems.is_empty() {
            return Err(EditError::Store(LoadError { problems: loaded.report.problems }));
        }
        return Err(EditError::NotFound(format!("{}: nothing serves {name}", location.path().display())));
    }
    for pair in removed.iter().map(|index| &loaded.pairs[*index]) {
        let others: Vec<&str> = pair.names.iter().map(String::as_str).filter(|other| *other != name).collect();
        if !others.is_empty() && !other_names_too {
            return Err(EditError::Rejected(format!(
                "{}: also serves {}; say --all-names to remove it for all of them",
                pair.origin,
                others.join(", ")
            )));
        }
    }
    match form {
        None => folder::remove(&loaded.pairs, &removed)?,
        Some(Form::Jks) => jks::remove(location.path(), password, &loaded.pairs, &removed)?,
        Some(Form::Pkcs12) => pkcs12::remove(location.path(), password, &loaded.pairs, &removed)?,
    }
    Ok(removed.iter().map(|index| loaded.pairs[*index].origin.clone()).collect())
}

/// The word for a key type in aliases and file names; upper case is SillyProxy's.
fn type_word(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::Ecdsa => "ECDSA",
        KeyType::Rsa => "RSA",
        KeyType::Ed25519 => "ED25519",
    }
}

fn write_error(path: &Path, error: &std::io::Error) -> EditError {
    EditError::Write(format!("{}: {error}; nothing was changed", path.display()))
}

/// Whether two keys are one.
fn same_key(pkcs8: &[u8], public: crate::certified::Digest) -> bool {
    PrivateKey::outline_der(pkcs8).is_ok_and(|key| public_key_digest(&key) == public)
}
