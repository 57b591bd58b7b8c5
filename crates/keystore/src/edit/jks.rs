//! Changing a Java keystore. Every entry that is not concerned is written back byte for byte, also those that we do not understand.

use std::path::Path;
use std::time::SystemTime;

use tls::KeyType;

use super::{AddOptions, EditError, MIN_JKS_PASSWORD, NewPair, open_file, save_file, type_word};
use crate::jks::{self, Certificate, Content, Entry, JksError, Keystore, PasswordBytes, X509};
use crate::pair::{Pair, Source};
use crate::pem::{self, Label};
use crate::{Password, jks_store};

pub(super) fn add(
    path: &Path,
    password: Option<&Password>,
    existing: &[Pair],
    replaced: &[usize],
    name: &str,
    pair: &NewPair,
    options: AddOptions,
) -> Result<(), EditError> {
    let (mut keystore, form) = open_or_new(path, password, options)?;
    let forms: Vec<bool> = keystore.entries.iter().filter_map(|entry| is_sillyproxy(entry, &form)).collect();
    if options.sillyproxy && forms.contains(&false) {
        return Err(EditError::Rejected(format!(
            "{}: holds keys in Java's form, at which SillyProxy crashes; make a new store for it",
            path.display()
        )));
    }
    let sillyproxy = options.sillyproxy || forms.contains(&true);
    if sillyproxy && pair.key_type == KeyType::Ed25519 {
        return Err(EditError::Rejected("SillyProxy does not know Ed25519 keys; use ECDSA or RSA".to_owned()));
    }
    drop_entries(&mut keystore, existing, replaced);
    // Java looks aliases up in lower case only; SillyProxy with exactly these types.
    let alias = format!("{name}:{}", type_word(pair.key_type));
    let alias = if sillyproxy { alias } else { alias.to_ascii_lowercase() };
    let library = |error: tls::crypto::Error| EditError::Write(format!("{}: {error}", path.display()));
    let pkcs8 = pair.key.to_pkcs8_der();
    let protected = if sillyproxy {
        form.protect_key(pem::write(&Label::PrivateKey, &pkcs8).as_bytes()).map_err(library)?
    } else {
        form.protect_key(&pkcs8).map_err(library)?
    };
    let chain = pair.chain.iter().enumerate().map(|(index, link)| Certificate {
        kind: if sillyproxy {
            format!("{} Certificate in {alias}", ordinal(index + 1)).into_bytes()
        } else {
            X509.to_vec()
        },
        der: link.der.clone(),
    });
    let content = Content::Key { protected, chain: chain.collect() };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let created_ms = u64::try_from(now.as_millis()).unwrap_or(0);
    keystore.entries.push(Entry { alias: alias.into_bytes(), created_ms, content });
    save(path, &keystore, &form)
}

pub(super) fn remove(
    path: &Path,
    password: Option<&Password>,
    existing: &[Pair],
    removed: &[usize],
) -> Result<(), EditError> {
    let (mut keystore, form) = open(path, password)?;
    drop_entries(&mut keystore, existing, removed);
    save(path, &keystore, &form)
}

fn open(path: &Path, password: Option<&Password>) -> Result<(Keystore, PasswordBytes), EditError> {
    open_file(path, |bytes| jks_store::open(bytes, password))
}

fn open_or_new(
    path: &Path,
    password: Option<&Password>,
    options: AddOptions,
) -> Result<(Keystore, PasswordBytes), EditError> {
    if path.exists() {
        return open(path, password);
    }
    let rejected = || {
        EditError::Rejected(format!("a new Java keystore needs a password of at least {MIN_JKS_PASSWORD} characters"))
    };
    let password = password.filter(|password| password.chars().count() >= MIN_JKS_PASSWORD).ok_or_else(rejected)?;
    let form = if options.sillyproxy { PasswordBytes::sillyproxy(password) } else { PasswordBytes::java(password) };
    Ok((Keystore { entries: Vec::new() }, form))
}

/// Whether a key is in SillyProxy's form; none if it is no key, or does not open.
fn is_sillyproxy(entry: &Entry, form: &PasswordBytes) -> Option<bool> {
    match &entry.content {
        Content::Key { protected, .. } => form.open_key(protected).ok().map(|plain| plain.starts_with(b"-----BEGIN")),
        Content::Trusted(_) => None,
    }
}

fn drop_entries(keystore: &mut Keystore, existing: &[Pair], going: &[usize]) {
    let aliases: Vec<&str> = going
        .iter()
        .filter_map(|index| match &existing[*index].source {
            Source::Alias(alias) => Some(alias.as_str()),
            Source::Files { .. } | Source::Key(_) => None,
        })
        .collect();
    keystore.entries.retain(|entry| !aliases.contains(&entry.alias().as_str()));
}

fn save(path: &Path, keystore: &Keystore, form: &PasswordBytes) -> Result<(), EditError> {
    let rejected = |error: JksError| EditError::Rejected(format!("{}: {error}", path.display()));
    let bytes = form.encode(keystore).map_err(rejected)?;
    save_file(path, &bytes, jks::parse(&bytes).map_err(rejected)? == *keystore)
}

/// 1st, 2nd, 3rd, 4th, ... 11th, ... 21st.
fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_endings() {
        let spoken: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 22, 64].into_iter().map(ordinal).collect();
        assert_eq!(spoken, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "64th"]);
    }
}
