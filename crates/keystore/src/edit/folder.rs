//! Changing a folder of PEM files. We write one file per pair, with the key and the chain in it, called after the name and the key type.

use std::collections::HashSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{EditError, NewPair, type_word, write_error};
use crate::pair::{Pair, Source};
use crate::pem::{self, Label};
use crate::{files, names};

pub(super) fn add(
    folder: &Path,
    existing: &[Pair],
    replaced: &[usize],
    name: &str,
    pair: &NewPair,
) -> Result<(), EditError> {
    let target = folder.join(file_name(name, pair));
    let (mut obsolete, kept) = split_files(existing, replaced)?;
    let is_target = |file: &PathBuf| *file == target;
    if kept.iter().any(is_target) || (target.exists() && !obsolete.iter().any(is_target)) {
        return Err(EditError::Rejected(format!("{}: is in the way; rename it", target.display())));
    }
    obsolete.retain(|file| !is_target(file));
    let mut text = Zeroizing::new(String::new());
    let blocks = [pem::write(&Label::PrivateKey, &pair.key.to_pkcs8_der())];
    let blocks = blocks.into_iter().chain(pair.chain.iter().map(|link| pem::write(&Label::Certificate, &link.der)));
    let blocks: Vec<_> = blocks.collect();
    text.reserve_exact(blocks.iter().map(|block| block.len()).sum());
    blocks.iter().for_each(|block| text.push_str(block));
    if !folder.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(folder).map_err(|error| write_error(folder, &error))?;
    }
    // The new pair stands before the old ones go: whoever reads in between finds at least one of them.
    files::replace(&target, text.as_bytes()).map_err(|error| write_error(&target, &error))?;
    remove_files(&obsolete)
}

pub(super) fn remove(existing: &[Pair], removed: &[usize]) -> Result<(), EditError> {
    remove_files(&split_files(existing, removed)?.0)
}

/// The files to remove with the pairs to go, and all files that the others need.
fn split_files(existing: &[Pair], going: &[usize]) -> Result<(Vec<PathBuf>, HashSet<PathBuf>), EditError> {
    let (mut obsolete, mut kept): (HashSet<PathBuf>, HashSet<PathBuf>) = Default::default();
    let mut staying = Vec::new();
    for (index, pair) in existing.iter().enumerate() {
        let Source::Files { certificate, keys } = &pair.source else { continue };
        if going.contains(&index) {
            obsolete.insert(certificate.clone());
            obsolete.extend(keys.iter().cloned());
        } else {
            kept.insert(certificate.clone());
            staying.push(keys);
        }
    }
    // One key may serve certificates that stay; it may lie in several files, of which one is enough.
    for keys in staying {
        let certificates = going.iter().filter_map(|index| match &existing[*index].source {
            Source::Files { certificate, .. } => Some(certificate),
            Source::Alias(_) | Source::Key(_) => None,
        });
        let certificates: HashSet<&PathBuf> = certificates.collect();
        if !keys.iter().any(|key| kept.contains(key) || !obsolete.contains(key)) {
            let keep = keys.iter().find(|key| !certificates.contains(key)).or(keys.first());
            kept.extend(keep.cloned());
        }
    }
    for index in going {
        if let Source::Files { certificate, .. } = &existing[*index].source
            && kept.contains(certificate)
        {
            return Err(EditError::Rejected(format!(
                "{}: is needed for other certificates too; take the old one out by hand",
                certificate.display()
            )));
        }
    }
    let mut obsolete: Vec<PathBuf> = obsolete.difference(&kept).cloned().collect();
    obsolete.sort();
    Ok((obsolete, kept))
}

fn remove_files(obsolete: &[PathBuf]) -> Result<(), EditError> {
    for file in obsolete {
        files::remove(file)
            .map_err(|error| EditError::Write(format!("{}: {error}; remove this file by hand", file.display())))?;
    }
    Ok(())
}

/// `www.example.com.ecdsa.pem`, `_wildcard.example.com.rsa.pem`, `default.ecdsa.pem`.
fn file_name(name: &str, pair: &NewPair) -> String {
    debug_assert!(names::canonical(name).is_ok());
    let name = name.replace('*', "_wildcard");
    format!("{name}.{}.pem", type_word(pair.key_type).to_ascii_lowercase())
}
