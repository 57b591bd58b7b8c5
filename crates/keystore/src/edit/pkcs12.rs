//! Changing a PKCS#12 file: it is read whole and written anew, encrypted as we write it.

use std::collections::HashSet;
use std::path::Path;

use tls::crypto::digest;
use tls::crypto::pkcs12::{self, Contents, Key, Label, LabelledCertificate};

use super::{EditError, NewPair, open_file, same_key, save_file, type_word};
use crate::certified::{Certified, Digest};
use crate::pair::{Pair, Source};
use crate::{Password, pkcs12_store};

pub(super) fn add(
    path: &Path,
    password: Option<&Password>,
    existing: &[Pair],
    replaced: &[usize],
    name: &str,
    pair: &NewPair,
) -> Result<(), EditError> {
    let mut contents = if path.exists() { open(path, password)? } else { Contents::default() };
    if !path.exists() && password.is_none_or(|password| password.is_empty()) {
        return Err(EditError::Rejected("a new PKCS#12 file needs a password; give a password file".to_owned()));
    }
    drop_pairs(&mut contents, existing, replaced);
    // Java looks aliases up in lower case only. The identifier ties key and leaf together, also where two leaves have one key.
    let Some(leaf) = pair.leaf() else { return Err(EditError::Rejected("the pair has no certificate".to_owned())) };
    let label = Label {
        friendly_name: Some(format!("{name}:{}", type_word(pair.key_type).to_ascii_lowercase())),
        local_key_id: Some(digest::sha1(&leaf.der).to_vec()),
    };
    for (index, link) in pair.chain.iter().enumerate() {
        let label = if index == 0 { label.clone() } else { Label::default() };
        if index == 0 || !contents.certificates.iter().any(|held| held.der == link.der) {
            contents.certificates.push(LabelledCertificate { der: link.der.clone(), label, trusted: false });
        }
    }
    contents.keys.push(Key { pkcs8: pair.key.to_pkcs8_der(), label });
    save(path, &contents, password)
}

pub(super) fn remove(
    path: &Path,
    password: Option<&Password>,
    existing: &[Pair],
    removed: &[usize],
) -> Result<(), EditError> {
    let mut contents = open(path, password)?;
    drop_pairs(&mut contents, existing, removed);
    save(path, &contents, password)
}

fn open(path: &Path, password: Option<&Password>) -> Result<Contents, EditError> {
    let contents = open_file(path, |bytes| pkcs12_store::open(bytes, password))?;
    if contents.skipped > 0 {
        return Err(EditError::Rejected(format!(
            "{}: holds {} items that are neither keys nor certificates and would be lost; take them out first",
            path.display(),
            contents.skipped
        )));
    }
    Ok(contents)
}

/// Removes keys with their leaves, and the issuers that no remaining leaf needs.
fn drop_pairs(contents: &mut Contents, existing: &[Pair], going: &[usize]) {
    let is_going = |index: &usize| going.contains(index);
    let stays = |index: usize| !is_going(&index);
    let chains = |wanted: &dyn Fn(usize) -> bool| -> HashSet<&[u8]> {
        let wanted = existing.iter().enumerate().filter(|(index, _)| wanted(*index));
        wanted.flat_map(|(_, pair)| pair.chain.iter().map(Vec::as_slice)).collect()
    };
    let (kept, gone) = (chains(&stays), chains(&|index| is_going(&index)));
    contents
        .certificates
        .retain(|held| held.trusted || !gone.contains(held.der.as_slice()) || kept.contains(held.der.as_slice()));
    let numbers: Vec<usize> = going
        .iter()
        .filter_map(|index| match existing[*index].source {
            Source::Key(number) => Some(number),
            Source::Files { .. } | Source::Alias(_) => None,
        })
        .collect();
    let mut number = 0;
    contents.keys.retain(|_| {
        number += 1;
        !numbers.contains(&(number - 1))
    });
    drop_unused_roots(contents);
}

/// Roots stay with what they issued; one that has issued nothing in the file any more would only be warned of at each load.
fn drop_unused_roots(contents: &mut Contents) {
    let read: Vec<Option<Certified>> =
        contents.certificates.iter().map(|held| Certified::from_der(held.der.clone()).ok()).collect();
    let has_key = |public: Digest| contents.keys.iter().any(|key| same_key(&key.pkcs8, public));
    let unused: HashSet<usize> = (0..read.len())
        .filter(|index| {
            read[*index].as_ref().is_some_and(|root| {
                let issued = read.iter().flatten().any(|other| other.der != root.der && other.is_issued_by(root));
                root.is_authority && root.is_self_issued() && !issued && !has_key(root.public_key)
            })
        })
        .collect();
    let mut index = 0;
    contents.certificates.retain(|held| {
        index += 1;
        held.trusted || !unused.contains(&(index - 1))
    });
}

fn save(path: &Path, contents: &Contents, password: Option<&Password>) -> Result<(), EditError> {
    let password = password.map_or("", |password| password.as_str());
    let rejected = |error: tls::crypto::Error| EditError::Rejected(format!("{}: PKCS#12 {error}", path.display()));
    let bytes = pkcs12::seal(contents, password).map_err(rejected)?;
    save_file(path, &bytes, pkcs12::open(&bytes, password).map_err(rejected)? == *contents)
}
