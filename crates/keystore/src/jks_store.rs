//! A Java keystore to pairs: what its aliases mean, and the two forms its keys come in.

use std::path::Path;

use tls::KeyType;
use tls::crypto::PrivateKey;

use crate::certified::Certified;
use crate::jks::{self, Content, JksError, PasswordBytes};
use crate::names::{self, DEFAULT};
use crate::pair::{Loaded, Pair, Report, Source};
use crate::pem;
use crate::pem_folder::{key_problem, read_key};
use crate::{Keys, Password, parallel};

/// Reads the content of a Java keystore.
pub(crate) fn load(path: &Path, bytes: &[u8], password: Option<&Password>, keys: Keys) -> Loaded {
    let mut loaded = Loaded::default();
    let (keystore, form) = match open(bytes, password) {
        Ok(opened) => opened,
        Err(problem) => {
            loaded.report.problem(format!("{}: {problem}", path.display()));
            return loaded;
        }
    };
    let trusted = if keys == Keys::InStoreOrElsewhere { trusted(&keystore.entries) } else { Vec::new() };
    let read = parallel::map(keystore.entries, |entry| {
        let mut report = Report::default();
        let pair = read_entry(path, entry, &form, &trusted, &mut report);
        (pair, report)
    });
    for (pair, report) in read {
        loaded.pairs.extend(pair);
        loaded.report.append(report);
    }
    loaded
}

/// Parses a file and finds the form of its password.
///
/// # Errors
/// What is wrong, without the file's name.
pub(crate) fn open(bytes: &[u8], password: Option<&Password>) -> Result<(jks::Keystore, PasswordBytes), String> {
    let keystore = jks::parse(bytes).map_err(|error| error.to_string())?;
    let password = password.ok_or("a Java keystore needs its password; give a password file")?;
    let form = PasswordBytes::find(password, bytes, &keystore).map_err(|error| match error {
        JksError::WrongPassword => "wrong password, or the content was changed; check the password".to_owned(),
        error => error.to_string(),
    })?;
    Ok((keystore, form))
}

/// The certificates that stand alone, where keys may be elsewhere: leaves, and the authorities above them.
fn trusted(entries: &[jks::Entry]) -> Vec<Certified> {
    let certificate = |entry: &jks::Entry| match &entry.content {
        Content::Trusted(certificate) => Certified::from_der(certificate.der.clone()).ok(),
        Content::Key { .. } => None,
    };
    entries.iter().filter_map(certificate).collect()
}

/// A certificate that stands alone, with its key elsewhere; its issuers may stand beside it. None for an authority.
fn keyless_pair(origin: &str, alias: &str, der: &[u8], trusted: &[Certified], report: &mut Report) -> Option<Pair> {
    let leaf = trusted.iter().find(|certificate| certificate.der == der && !certificate.is_authority)?;
    let mut chain = vec![leaf.clone()];
    while let Some(last) = chain.last().filter(|last| chain.len() < jks::MAX_CHAIN && !last.is_self_issued()) {
        let is_next = |one: &&Certified| one.is_authority && !one.is_self_issued() && last.is_issued_by(one);
        match trusted.iter().find(is_next) {
            Some(issuer) => chain.push(issuer.clone()),
            None => break,
        }
    }
    let named = alias_names(alias, leaf);
    let pair = Pair::new(origin.to_owned(), Source::Alias(alias.to_owned()), chain, None, report)?;
    Some(with_names(pair, named, report))
}

/// The pair under the names that its alias gives it.
fn with_names(mut pair: Pair, named: AliasNames, report: &mut Report) -> Pair {
    pair.names = named.names;
    let warning = named.warning.map(|warning| format!("{}: {warning}", pair.origin));
    match pair.names.is_empty() {
        true => pair.unserved = warning,
        false => report.warnings.extend(warning),
    }
    pair
}

fn read_entry(
    path: &Path,
    entry: jks::Entry,
    form: &PasswordBytes,
    trusted: &[Certified],
    report: &mut Report,
) -> Option<Pair> {
    let alias = entry.alias();
    let origin = format!("{} alias {alias}", path.display());
    let (protected, chain) = match entry.content {
        Content::Key { protected, chain } => (protected, chain),
        Content::Trusted(certificate) if !trusted.is_empty() => {
            return keyless_pair(&origin, &alias, &certificate.der, trusted, report);
        }
        Content::Trusted(_) => {
            report.warn(format!(
                "{origin}: a trusted certificate, which is not served; client authorities go in a PEM file"
            ));
            return None;
        }
    };
    let mut certified = Vec::with_capacity(chain.len());
    for (index, certificate) in chain.into_iter().enumerate() {
        match Certified::from_der(certificate.der) {
            Ok(certificate) => certified.push(certificate),
            Err(error) => {
                report.problem(format!("{origin}: certificate {} of its chain: {error}", index + 1));
                return None;
            }
        }
    }
    let plain = match form.open_key(&protected) {
        Ok(plain) => plain,
        Err(JksError::WrongPassword) => {
            report.problem(format!("{origin}: its key has another password than the store, or is damaged; give it the store's password with `keytool -keypasswd`"));
            return None;
        }
        Err(error) => {
            report.problem(format!("{origin}: {error}"));
            return None;
        }
    };
    let key = match read_plain_key(&plain) {
        Ok(key) => key,
        Err(problem) => {
            report.problem(format!("{origin}: {problem}"));
            return None;
        }
    };
    let named = certified.first().map(|leaf| alias_names(&alias, leaf));
    let mut pair = Pair::new(origin, Source::Alias(alias.clone()), certified, Some(&key), report)?;
    if let Some(named) = named {
        pair = with_names(pair, named, report);
    }
    if let Some(expected) = key_type_of_alias(&alias).filter(|expected| *expected != pair.key_type) {
        report.warn(format!(
            "{}: the key is {}, though the alias says {expected:?}; it serves as what it is",
            pair.origin, pair.kind
        ));
    }
    Some(pair)
}

/// The key from its plain form: PEM text as SillyProxy stores it (the first block that is a key), else DER.
fn read_plain_key(plain: &[u8]) -> Result<PrivateKey, String> {
    if !plain.trim_ascii_start().starts_with(b"-----BEGIN") {
        return PrivateKey::outline_der(plain).map_err(|error| key_problem("its key", error));
    }
    let blocks = pem::read(plain).map_err(|error| format!("its key, as PEM text: {error}"))?;
    let block = blocks
        .iter()
        .find(|block| block.label.is_private_key())
        .ok_or("its key, as PEM text, has no private key in it")?;
    read_key(block, None).map_err(|error| key_problem("its key, as PEM text", error))
}

/// What an alias makes of a pair.
struct AliasNames {
    names: Vec<String>,
    warning: Option<String>,
}

/// The names that an alias gives. `HOST:ECDSA` and `HOST:RSA` are SillyProxy's form and mean that host and nothing else; without a type, an
/// alias that is a host name or `default` means that, and any other leaves it to the certificate.
fn alias_names(alias: &str, leaf: &Certified) -> AliasNames {
    let warn = |names, warning| AliasNames { names, warning: Some(warning) };
    let (host, typed) = match alias.rsplit_once(':') {
        Some((host, _)) if key_type_of_alias(alias).is_some() => (host, true),
        _ => (alias, false),
    };
    match names::canonical(host) {
        Ok(name) if name == DEFAULT => AliasNames { names: vec![name], warning: None },
        Ok(name) if leaf.covers(&name) => AliasNames { names: vec![name], warning: None },
        Ok(name) if typed || name.contains('.') => {
            let warning =
                format!("the certificate of {:?} is not good for {name}; clients will reject it", leaf.subject);
            warn(vec![name], warning)
        }
        Err(error) if typed => warn(Vec::new(), format!("not served, because {host:?} is no host name: {error}")),
        _ if leaf.names.is_empty() => {
            warn(Vec::new(), "not served: neither the alias nor the certificate names a host".to_owned())
        }
        _ => AliasNames { names: leaf.names.clone(), warning: None },
    }
}

/// The key type that an alias of SillyProxy's form ends with. Java lowers the case of aliases.
fn key_type_of_alias(alias: &str) -> Option<KeyType> {
    let (_, ending) = alias.rsplit_once(':')?;
    [("ECDSA", KeyType::Ecdsa), ("RSA", KeyType::Rsa), ("ED25519", KeyType::Ed25519)]
        .into_iter()
        .find_map(|(text, key_type)| ending.eq_ignore_ascii_case(text).then_some(key_type))
}
