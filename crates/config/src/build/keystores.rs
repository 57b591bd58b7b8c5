//! `keystores`: where certificates and keys lie.
//!
//! Does not open them; that is the `keystore` crate's.

use std::collections::BTreeMap;
use std::sync::Arc;

use keystore::Location;

use super::{Build, address, identifier, names_in, read};
use crate::model::{KeystoreConfig, Secret};
use crate::table::setting;
use crate::yaml::Node;

impl Build<'_> {
    pub(super) fn keystores(&mut self, root: &Node) -> BTreeMap<String, KeystoreConfig> {
        let mut out = BTreeMap::new();
        for entry in root.get("keystores").map(Node::entries).unwrap_or_default() {
            let name = self.take(entry.key_span, identifier(&entry.key));
            let keystore = self.keystore(root, &entry.key, &entry.value);
            if let (Some(name), Some(keystore)) = (name, keystore) {
                out.insert(name, keystore);
            }
        }
        out
    }

    fn keystore(&mut self, root: &Node, name: &str, node: &Node) -> Option<KeystoreConfig> {
        let folder = self.folder(node, "folder").map(Location::PemFolder);
        let pkcs12 = self.file(node, "pkcs12").map(Location::Pkcs12);
        let jks = self.file(node, "jks").map(Location::Jks);
        let password = read::mapping(node, "password").and_then(|secret| self.secret(secret));
        let acme = read::mapping(node, "acme").and_then(|acme| self.acme(name, acme)).map(Arc::new);
        let ordered = acme.as_ref().map(|acme| Location::PemFolder(acme.certificates()));
        let location = folder.or(pkcs12).or(jks).or(ordered)?;
        match (&location, node.entry("password")) {
            (Location::PemFolder(_), Some(entry)) => {
                self.problems.add(
                    entry.key_span,
                    "a folder of PEM files takes no password",
                    "remove `password`; guard the files by their mode (0600)",
                );
            }
            (Location::Pkcs12(_) | Location::Jks(_), None) => {
                let at = node.entries().first().map_or(node.span, |entry| entry.key_span);
                self.problems.add(
                    at,
                    "this kind of keystore needs a password",
                    "add `password: { file: PATH }` or `password: { env: NAME }`",
                );
            }
            _ => {}
        }
        if let (Some(acme), Some(entry)) = (&acme, node.entry("key_servers")) {
            let here = [
                (acme.is_internal, "the development CA makes keys with its certificates, here"),
                (acme.on_demand.is_some(), "keys of certificates on demand are made and kept here"),
            ];
            for (_, what) in here.into_iter().filter(|(is_so, _)| *is_so) {
                self.problems.add(entry.key_span, what, "remove `key_servers`, or give these names another keystore");
            }
        }
        Some(KeystoreConfig {
            name: name.to_owned(),
            location,
            password,
            key_servers: node
                .get("key_servers")
                .and_then(|group| self.name_of(group, "group of key servers", &names_in(root, "key_servers"))),
            default: self.parsed(node, "default", address::host_name),
            reload_interval: setting(node, "reload_interval"),
            acme,
        })
    }

    pub(super) fn secret(&mut self, node: &Node) -> Option<Secret> {
        if let Some(path) = self.file(node, "file") {
            return Some(Secret::File(path));
        }
        self.parsed(node, "env", |text| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if text.bytes().all(fits) && !text.starts_with(|c: char| c.is_ascii_digit()) {
                Ok(Secret::Env(text.to_owned()))
            } else {
                // The text may be the password itself: it is not repeated.
                Err(super::Fault::new(
                    "this cannot be the name of an environment variable",
                    "use letters, digits and `_`; write the name, not the password",
                ))
            }
        })
    }
}
