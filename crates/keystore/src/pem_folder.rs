//! A folder of PEM files to pairs. Keys find their certificates by public key, not by file name; names come from the certificates.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tls::crypto::{self, PrivateKey, digest};

use crate::certified::{Certified, Digest, public_key_digest};
use crate::files::{self, MAX_FILES};
use crate::pair::{Loaded, Pair, Report, Source};
use crate::pem::{self, Label};
use crate::{Keys, Password, names, parallel};

/// Endings of the files that are read.
const ENDINGS: [&str; 4] = ["pem", "crt", "cer", "key"];

/// What one file holds.
#[derive(Debug)]
struct FileContent {
    path: PathBuf,
    certificates: Vec<Certified>,
    keys: Vec<PrivateKey>,
    report: Report,
}

/// Reads the folder and the folders directly in it.
pub(crate) fn load(folder: &Path, password: Option<&Password>, at: Keys) -> Loaded {
    let mut loaded = Loaded::default();
    let paths = list(folder, at, &mut loaded.report);
    let mut contents = parallel::map(paths, |path| read_file(path, password));
    for content in &mut contents {
        loaded.report.append(std::mem::take(&mut content.report));
    }
    pair_up(contents, at, &mut loaded);
    loaded
}

/// The files to read, sorted. Names that begin with a dot are left out: editors, and the mounts of container platforms, put copies there.
fn list(folder: &Path, keys: Keys, report: &mut Report) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = Vec::new();
    list_one(folder, keys, &mut found, Some(&mut folders), report);
    for inner in folders {
        list_one(&inner, keys, &mut found, None, report);
    }
    found.sort();
    if found.len() > MAX_FILES {
        report.problem(format!("{}: more than {MAX_FILES} files; split the folder", folder.display()));
        found.clear();
    }
    found
}

fn list_one(
    folder: &Path,
    keys: Keys,
    found: &mut Vec<PathBuf>,
    mut folders: Option<&mut Vec<PathBuf>>,
    report: &mut Report,
) {
    let mut unreadable = |path: &Path, error: std::io::Error| {
        report.problem(format!("{}: {error}; make it readable for the user that portunus runs as", path.display()));
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return unreadable(folder, error),
    };
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return unreadable(folder, error),
        };
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_ours = has_our_ending(&path) || keys == Keys::InStoreOrElsewhere && host_of_file(&path).is_some();
        // Follows symbolic links: renewal tools point to the newest version with them.
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() && is_ours => found.push(path),
            Ok(metadata) if metadata.is_dir() => folders.iter_mut().for_each(|folders| folders.push(path.clone())),
            Ok(_) => {}
            Err(error) if is_ours => unreadable(&path, error),
            Err(_) => {}
        }
    }
}

fn has_our_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ENDINGS.iter().any(|ours| ending.eq_ignore_ascii_case(ours)))
}

/// The host that a file is called after: by its whole name, or by what stands before our ending. Folders of chains are laid out so.
fn host_of_file(path: &Path) -> Option<String> {
    let name = if has_our_ending(path) { path.file_stem() } else { path.file_name() };
    names::canonical(name?.to_str()?).ok().filter(|name| name.contains('.'))
}

fn read_file(path: PathBuf, password: Option<&Password>) -> FileContent {
    let mut content = FileContent { path, certificates: Vec::new(), keys: Vec::new(), report: Report::default() };
    let place = content.path.display().to_string();
    let blocks = match files::read(&content.path, pem::MAX_TEXT_BYTES as u64).map(|text| (pem::read(&text), text)) {
        Ok((Ok(blocks), text)) => {
            if blocks.is_empty() && text.first() == Some(&0x30) {
                content.report.problem(format!(
                    "{place}: DER instead of PEM; convert it with `openssl x509 -inform der -in FILE` (a certificate) or `openssl pkey -inform der -in FILE` (a key)"
                ));
            } else if blocks.is_empty() {
                content.report.warn(format!("{place}: holds no PEM block"));
            }
            blocks
        }
        Ok((Err(error), _)) => {
            content.report.problem(format!("{place}: {error}"));
            return content;
        }
        Err(problem) => {
            content.report.problem(problem);
            return content;
        }
    };
    for mut block in blocks {
        let line = block.line;
        match &block.label {
            Label::Certificate => match Certified::from_der(std::mem::take(&mut *block.der)) {
                Ok(certificate) => content.certificates.push(certificate),
                Err(error) => content.report.problem(format!("{place}: line {line}: certificate {error}")),
            },
            Label::EcParameters => {}
            Label::Other(label) => content.report.warn(format!("{place}: line {line}: {label:?} is not used here")),
            _ => match read_key(&block, password) {
                Ok(key) => content.keys.push(key),
                Err(error) => content.report.problem(key_problem(&format!("{place}: line {line}"), error)),
            },
        }
    }
    content
}

/// The key in a block that is labelled as one. RSA keys are read as far as pairing needs.
pub(crate) fn read_key(block: &pem::Block, password: Option<&Password>) -> Result<PrivateKey, crypto::Error> {
    match (&block.label, password) {
        (Label::EncryptedPrivateKey, Some(password)) => PrivateKey::from_encrypted_der(&block.der, password),
        (Label::EncryptedPrivateKey, None) => Err(crypto::Error::NeedsPassword),
        _ => PrivateKey::outline_der(&block.der),
    }
}

/// What to tell of a key that could not be read.
pub(crate) fn key_problem(place: &str, error: crypto::Error) -> String {
    match error {
        crypto::Error::NeedsPassword => format!("{place}: the key is encrypted; give the store's password"),
        crypto::Error::WrongPassword => format!("{place}: the store's password does not open this key"),
        error => format!("{place}: private key {error}"),
    }
}

/// A key, the files it stands in (at least one, ascending), and whether any certificate has its public half.
struct KeyAt {
    files: Arc<Vec<PathBuf>>,
    key: PrivateKey,
    used: bool,
}

/// A certificate that found no key and no chain to belong to.
struct Stray {
    file: PathBuf,
    certificate: Certified,
}

fn pair_up(contents: Vec<FileContent>, at: Keys, loaded: &mut Loaded) {
    let mut keys: HashMap<Digest, KeyAt> = HashMap::new();
    let mut files = Vec::with_capacity(contents.len());
    for content in contents {
        for key in content.keys {
            let at = keys.entry(public_key_digest(&key)).or_insert(KeyAt { files: Arc::default(), key, used: false });
            if at.files.last() != Some(&content.path) {
                Arc::make_mut(&mut at.files).push(content.path.clone());
            }
        }
        files.push((content.path, content.certificates));
    }
    let mut strays = Vec::new();
    for (file, certificates) in files {
        for chain in chains(&file, certificates, at, &mut keys, &mut strays) {
            let key = chain.first().and_then(|leaf| keys.get(&leaf.public_key));
            let pair = match key {
                Some(key) => make_pair(&file, chain, key, &mut loaded.report),
                None => make_keyless_pair(&file, chain, &mut loaded.report),
            };
            loaded.pairs.extend(pair);
        }
    }
    report_strays(strays, keys, loaded);
}

/// Splits a file's certificates into chains, each beginning with a leaf whose key was found, or may be elsewhere.
fn chains(
    file: &Path,
    certificates: Vec<Certified>,
    at: Keys,
    keys: &mut HashMap<Digest, KeyAt>,
    strays: &mut Vec<Stray>,
) -> Vec<Vec<Certified>> {
    let mut chains: Vec<Vec<Certified>> = Vec::new();
    for certificate in certificates {
        let has_key = keys.get_mut(&certificate.public_key).map(|at| at.used = true).is_some();
        let last = chains.last().and_then(|chain| chain.last());
        let continues = last.is_some_and(|last| !last.is_self_issued() && last.is_issued_by(&certificate));
        // An authority's key may lie in the folder too, as development authorities' do; its certificate still ends the chain.
        // One that was made for oneself may say that it is an authority, as `openssl req -x509` has it; what certifies others names no host.
        let is_own = certificate.is_self_issued() && !continues && !certificate.names.is_empty();
        let is_leaf = has_key && !(continues && certificate.is_authority && certificate.names.is_empty())
            || at == Keys::InStoreOrElsewhere && (!certificate.is_authority || is_own);
        match chains.last_mut() {
            _ if is_leaf => chains.push(vec![certificate]),
            Some(chain) if continues || certificate.is_authority => chain.push(certificate),
            _ => strays.push(Stray { file: file.to_owned(), certificate }),
        }
    }
    let mut used = Vec::new();
    for chain in &mut chains {
        put_in_order(
            chain,
            strays.iter().filter(|stray| stray.file == file).map(|stray| &stray.certificate),
            &mut used,
        );
    }
    strays.retain(|stray| stray.file != file || !used.contains(&stray.certificate.der));
    chains
}

/// Puts each issuer behind what it certified, as containers are read, where a file does not have them so: some begin with the root. `before`: authorities that
/// stand ahead of the leaf; those that belong to the chain are added to `used`.
fn put_in_order<'s>(
    chain: &mut Vec<Certified>,
    before: impl Iterator<Item = &'s Certified> + Clone,
    used: &mut Vec<Vec<u8>>,
) {
    let is_ordered = chain.windows(2).all(|pair| matches!(pair, [certified, issuer] if certified.is_issued_by(issuer)));
    let mut rest = if is_ordered { Vec::new() } else { chain.split_off(1) };
    while let Some(last) = chain.last().filter(|last| !last.is_self_issued()) {
        if let Some(at) = rest.iter().position(|certificate| last.is_issued_by(certificate)) {
            chain.push(rest.remove(at));
            continue;
        }
        let is_next = |certificate: &&Certified| {
            certificate.is_authority
                && last.is_issued_by(certificate)
                && chain.iter().all(|held| held.der != certificate.der)
        };
        let Some(issuer) = before.clone().find(is_next).cloned() else { break };
        used.push(issuer.der.clone());
        chain.push(issuer);
    }
    chain.append(&mut rest);
}

fn make_pair(file: &Path, chain: Vec<Certified>, at: &KeyAt, report: &mut Report) -> Option<Pair> {
    let origin = match at.files.binary_search_by(|key_file| key_file.as_path().cmp(file)) {
        Ok(_) => file.display().to_string(),
        Err(_) => format!("{} with {}", file.display(), at.files.first().map_or(file, PathBuf::as_path).display()),
    };
    let is_authority = chain.first().is_some_and(|leaf| leaf.is_authority);
    let source = Source::Files { certificate: file.to_owned(), keys: Arc::clone(&at.files) };
    let mut pair = Pair::new(origin, source, chain, Some(&at.key), report)?;
    let is_default = file.file_stem().and_then(|stem| stem.to_str()).is_some_and(names::is_default_label);
    if is_default {
        pair.names.push(names::DEFAULT.to_owned());
    }
    if pair.names.is_empty() {
        pair.unserved = Some(if is_authority {
            format!("{}: an authority with its key; it is not served, and its key has no business here", pair.origin)
        } else {
            format!(
                "{}: the certificate names no host, so nobody is served it; call the file `default.pem` to serve it to all others",
                pair.origin
            )
        });
    }
    Some(pair)
}

/// A chain whose key is elsewhere. A file that is called after a host serves that host, whatever its certificate says.
fn make_keyless_pair(file: &Path, chain: Vec<Certified>, report: &mut Report) -> Option<Pair> {
    let host = host_of_file(file);
    let uncovered = host.filter(|host| chain.first().is_some_and(|leaf| !leaf.covers(host)));
    let source = Source::Files { certificate: file.to_owned(), keys: Arc::default() };
    let mut pair = Pair::new(file.display().to_string(), source, chain, None, report)?;
    if file.file_stem().and_then(|stem| stem.to_str()).is_some_and(names::is_default_label) {
        pair.names.push(names::DEFAULT.to_owned());
    }
    match uncovered {
        Some(host) if pair.names.is_empty() || !has_our_ending(file) => {
            let place = &pair.origin;
            report.warn(format!("{place}: the certificate is not good for {host}; clients will reject it"));
            pair.names.push(host);
        }
        _ if pair.names.is_empty() => {
            let unserved = format!("{}: names no host, so nobody is served it; call the file after one", pair.origin);
            pair.unserved = Some(unserved);
        }
        _ => {}
    }
    Some(pair)
}

/// Tells of certificates and keys that found no partner. A certificate and a key in one file, or in files of one stem, are reported together.
fn report_strays(strays: Vec<Stray>, keys: HashMap<Digest, KeyAt>, loaded: &mut Loaded) {
    let mut lonely_keys: Vec<KeyAt> = keys.into_values().filter(|at| !at.used).collect();
    lonely_keys.sort_by(|a, b| a.files.cmp(&b.files));
    let served: HashSet<Digest> =
        loaded.pairs.iter().flat_map(|pair| &pair.chain).map(|der| digest::sha256(der)).collect();
    let report = &mut loaded.report;
    for Stray { file, certificate } in strays {
        let (place, subject) = (file.display(), &certificate.subject);
        let is_partner = |key_file: &PathBuf| key_file.with_extension("") == file.with_extension("");
        let partner = lonely_keys.iter().position(|at| at.files.iter().any(is_partner));
        if certificate.is_authority && partner.is_none() {
            if !served.contains(&digest::sha256(&certificate.der)) {
                report.warn(format!(
                    "{place}: the authority {subject:?} is not used; to send it to clients, put it after the certificate it issued, in the same file"
                ));
            }
        } else if let Some(index) = partner {
            let key = lonely_keys.remove(index);
            report.problem(format!(
                "{place}: the certificate of {subject:?} ({}) and the key in {} ({}) do not belong together; put the pair that was issued together there",
                certificate.kind,
                listed(&key.files),
                key.key.kind()
            ));
        } else {
            report.problem(format!(
                "{place}: the certificate of {subject:?} has no key in this folder; add its key, name the key servers that have it (`key_servers`), or remove the certificate"
            ));
        }
    }
    for at in lonely_keys {
        report.problem(format!(
            "{}: the key ({}) has no certificate in this folder; add its certificate, or remove the key",
            listed(&at.files),
            at.key.kind()
        ));
    }
}

fn listed(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
