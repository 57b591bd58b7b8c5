//! A PKCS#12 file to pairs. Keys find their certificates by public key; names come from the certificates, and `default` from the label.

use std::collections::HashSet;
use std::path::Path;

use tls::crypto::pkcs12::{self, Contents, Key, Label};
use tls::crypto::{self, PrivateKey};

use crate::certified::{Certified, public_key_digest};
use crate::names;
use crate::pair::{Loaded, Pair, Report, Source};
use crate::{Keys, Password};

/// Most certificates that a chain is followed through.
const MAX_CHAIN: usize = 16;

/// A certificate of the file, and whether it is there to be trusted rather than served.
struct Held {
    certificate: Certified,
    label: Label,
    trusted: bool,
}

/// Reads the content of a PKCS#12 file.
pub(crate) fn load(path: &Path, bytes: &[u8], password: Option<&Password>, keys: Keys) -> Loaded {
    let mut loaded = Loaded::default();
    let place = path.display();
    match open(bytes, password) {
        Ok(contents) => pair_up(path, contents, keys, &mut loaded),
        Err(problem) => loaded.report.problem(format!("{place}: {problem}")),
    }
    loaded
}

/// Opens a file, without a password as with an empty one.
///
/// # Errors
/// What is wrong, without the file's name.
pub(crate) fn open(bytes: &[u8], password: Option<&Password>) -> Result<Contents, String> {
    pkcs12::open(bytes, password.map_or("", |password| password.as_str())).map_err(|error| match error {
        crypto::Error::WrongPassword if password.is_none() => "it needs a password; give a password file".to_owned(),
        crypto::Error::WrongPassword => "wrong password, or the content was changed; check the password".to_owned(),
        error => format!("PKCS#12 {error}"),
    })
}

fn pair_up(path: &Path, contents: Contents, keys: Keys, loaded: &mut Loaded) {
    let place = path.display();
    let mut held = Vec::with_capacity(contents.certificates.len());
    for (index, certificate) in contents.certificates.into_iter().enumerate() {
        match Certified::from_der(certificate.der) {
            Ok(read) => held.push(Held { certificate: read, label: certificate.label, trusted: certificate.trusted }),
            Err(error) => loaded.report.problem(format!("{place}: certificate {}: {error}", index + 1)),
        }
    }
    let mut used = HashSet::new();
    for (index, key) in contents.keys.into_iter().enumerate() {
        let title = key.label.friendly_name.clone().unwrap_or_else(|| format!("number {}", index + 1));
        let origin = format!("{place} alias {title}");
        loaded.pairs.extend(make_pair(origin, index, &key, &held, &mut used, &mut loaded.report));
    }
    if keys == Keys::InStoreOrElsewhere {
        let leaves =
            held.iter().enumerate().filter(|(index, held)| !used.contains(index) && !held.certificate.is_authority);
        let leaves: Vec<usize> = leaves.map(|(index, _)| index).collect();
        for leaf in leaves {
            used.extend(chain_of(leaf, &held));
            loaded.pairs.extend(make_keyless_pair(path, leaf, &held, &mut loaded.report));
        }
    }
    for (_, held) in held.iter().enumerate().filter(|(index, _)| !used.contains(index)) {
        let subject = &held.certificate.subject;
        if held.trusted {
            loaded.report.warn(format!(
                "{place}: the trusted certificate {subject:?} is not served; client authorities go in a PEM file"
            ));
        } else if held.certificate.is_authority {
            loaded.report.warn(format!("{place}: the authority {subject:?} belongs to no chain and is not used"));
        } else {
            loaded.report.problem(format!(
                "{place}: the certificate of {subject:?} has no key in the file; add its key, name the key servers that have it (`key_servers`), or remove the certificate"
            ));
        }
    }
}

fn make_pair(
    origin: String,
    index: usize,
    key: &Key,
    held: &[Held],
    used: &mut HashSet<usize>,
    report: &mut Report,
) -> Option<Pair> {
    let private = match PrivateKey::outline_der(&key.pkcs8) {
        Ok(private) => private,
        Err(error) => {
            report.problem(format!("{origin}: private key {error}"));
            return None;
        }
    };
    let public = public_key_digest(&private);
    let of_key = |held: &Held| held.certificate.public_key == public && !held.trusted;
    let labelled = |held: &Held| key.label.local_key_id.is_some() && held.label.local_key_id == key.label.local_key_id;
    // Several certificates may have the same key: the label then says which is meant.
    let leaf = held
        .iter()
        .position(|held| of_key(held) && labelled(held))
        .or_else(|| held.iter().position(of_key))
        .or_else(|| held.iter().position(labelled));
    let Some(leaf) = leaf else {
        report.problem(format!(
            "{origin}: the key ({}) has no certificate in the file; add its certificate, or remove the key",
            private.kind()
        ));
        return None;
    };
    used.extend(chain_of(leaf, held));
    let pair = Pair::new(origin, Source::Key(index), sent_chain(leaf, held), Some(&private), report)?;
    Some(named(pair, &key.label))
}

/// A chain whose key is elsewhere.
fn make_keyless_pair(path: &Path, leaf: usize, held: &[Held], report: &mut Report) -> Option<Pair> {
    let title =
        held[leaf].label.friendly_name.clone().unwrap_or_else(|| format!("{:?}", held[leaf].certificate.subject));
    let origin = format!("{} alias {title}", path.display());
    let pair = Pair::new(origin, Source::Alias(title), sent_chain(leaf, held), None, report)?;
    Some(named(pair, &held[leaf].label))
}

/// The pair, with the name `default` if its label says so.
fn named(mut pair: Pair, label: &Label) -> Pair {
    if label.friendly_name.as_deref().is_some_and(names::is_default_label) {
        pair.names.push(names::DEFAULT.to_owned());
    }
    if pair.names.is_empty() {
        pair.unserved = Some(format!(
            "{}: the certificate names no host, so nobody is served it; call it `default` to serve it to all others",
            pair.origin
        ));
    }
    pair
}

/// The chain of a leaf as it is sent: without a root.
fn sent_chain(leaf: usize, held: &[Held]) -> Vec<Certified> {
    let sent = |index: &usize| *index == leaf || !held[*index].certificate.is_self_issued();
    chain_of(leaf, held).into_iter().filter(sent).map(|index| held[index].certificate.clone()).collect()
}

/// The certificates from a leaf to its root, as far as they are there. The root is among them, though no client needs it sent.
fn chain_of(leaf: usize, held: &[Held]) -> Vec<usize> {
    let mut chain = vec![leaf];
    while let Some(last) = chain.last().copied().filter(|_| chain.len() < MAX_CHAIN) {
        let last = &held[last].certificate;
        let issuer = held.iter().position(|held| held.certificate.is_authority && last.is_issued_by(&held.certificate));
        match issuer.filter(|issuer| !last.is_self_issued() && !chain.contains(issuer)) {
            Some(issuer) => chain.push(issuer),
            None => break,
        }
    }
    chain
}
