//! Files of keys for Encrypted Client Hello, in the form of RFC 9934: a private key (PKCS#8) and its ECHConfigList, as PEM. Here several such pairs may stand in
//! one file, the newest first, so that what clients still know of earlier ones is opened for a while.

use std::path::Path;

use tls::ech::{EchKey, PRIVATE_KEY_BYTES, configs, list};
use zeroize::Zeroizing;

use crate::files;
use crate::pem::{self, Label};

/// Most pairs in a file.
pub const MAX_KEYS: usize = 8;

/// Largest file, bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// What stands before the key in PKCS#8 of an X25519 key without attributes (RFC 8410 §7).
const PKCS8_START: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];

/// The label of an ECHConfigList (RFC 9934 §3).
const CONFIG_LABEL: &str = "ECHCONFIG";

/// Reads a file.
///
/// # Errors
/// A text for the operator: the file, what is wrong in which line, and how to fix it.
pub fn read(path: &Path) -> Result<Vec<EchKey>, String> {
    let text = files::read(path, MAX_FILE_BYTES)?;
    of_text(&text).map_err(|problem| format!("{}: {problem}; `portunus ech rotate` makes such files", path.display()))
}

/// The pairs of a text.
///
/// # Errors
/// What is wrong, in which line.
pub fn of_text(text: &[u8]) -> Result<Vec<EchKey>, String> {
    let blocks = pem::read(text).map_err(|error| error.to_string())?;
    let pairs = blocks.chunks_exact(2);
    if let [alone] = pairs.remainder() {
        return Err(format!("line {}: a private key and an ECHCONFIG belong together", alone.line));
    }
    let mut keys = Vec::new();
    for pair in pairs {
        let [key, config] = pair else { continue };
        let is_config = matches!(&config.label, Label::Other(label) if label == CONFIG_LABEL);
        if key.label != Label::PrivateKey || !is_config {
            return Err(format!("line {}: not a PRIVATE KEY with its ECHCONFIG behind it", key.line));
        }
        let private =
            key.der.strip_prefix(&PKCS8_START).and_then(|bytes| <[u8; PRIVATE_KEY_BYTES]>::try_from(bytes).ok());
        let private = private.ok_or_else(|| format!("line {}: not a key for X25519", key.line))?;
        let listed = configs(&config.der).map_err(|error| format!("line {}: {error}", config.line))?;
        let [one] = listed.as_slice() else {
            return Err(format!("line {}: more than one configuration for one key", config.line));
        };
        let made = EchKey::new(one.whole, Zeroizing::new(private));
        keys.push(made.map_err(|error| format!("line {}: the ECHCONFIG cannot be used: {error}", config.line))?);
    }
    match keys.len() {
        0 => Err("no keys for ECH in it".to_owned()),
        count if count > MAX_KEYS => Err(format!("{count} keys; at most {MAX_KEYS} are kept")),
        _ => Ok(keys),
    }
}

/// The text of a file with these pairs.
pub fn to_text(keys: &[EchKey]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::new());
    for key in keys {
        let der = Zeroizing::new([&PKCS8_START[..], &key.private_key()[..]].concat());
        // One configuration is never too long for a list.
        text.push_str(&pem::write(&Label::PrivateKey, &der));
        text.push_str(&config_text(key));
    }
    text
}

/// The ECHCONFIG block of a pair.
fn config_text(key: &EchKey) -> Zeroizing<String> {
    // One configuration is never too long for a list.
    pem::write(&Label::Other(CONFIG_LABEL.to_owned()), &list(&[key.config()]).unwrap_or_default())
}

/// What clients get by DNS: the ECHConfigList of a pair in base64, the value of `ech` in an HTTPS record (RFC 9848 §3).
pub fn for_dns(key: &EchKey) -> String {
    config_text(key).lines().filter(|line| !line.starts_with('-')).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let keys = [EchKey::generate("cover.example", 7).unwrap(), EchKey::generate("old.example", 8).unwrap()];
        let text = to_text(&keys);
        let read = of_text(text.as_bytes()).unwrap();
        let shown =
            |keys: &[EchKey]| keys.iter().map(|key| (key.id(), key.public_name().to_owned())).collect::<Vec<_>>();
        assert_eq!(shown(&read), [(7, "cover.example".to_owned()), (8, "old.example".to_owned())]);
        assert!(
            read.iter()
                .zip(&keys)
                .all(|(one, other)| one.config() == other.config() && one.private_key() == other.private_key())
        );
        assert!(!format!("{read:?}").contains("private"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let (one, other) = (EchKey::generate("a.example", 1).unwrap(), EchKey::generate("b.example", 2).unwrap());
        let (text, strange) = (to_text(&[one]), to_text(&[other]));
        let half = text.find("-----BEGIN ECHCONFIG").unwrap();
        let of_strange = &strange[strange.find("-----BEGIN ECHCONFIG").unwrap()..];
        let ed25519 = text.replace("MC4CAQAwBQYDK2Vu", "MC4CAQAwBQYDK2Vw");
        let many = text.repeat(MAX_KEYS + 1);
        for (text, expected) in [
            ("", "no keys"),
            (&text[..half], "line 1: a private key and an ECHCONFIG belong together"),
            (&text[half..], "belong together"),
            (&format!("{}{}", &text[half..], &text[..half]), "line 1: not a PRIVATE KEY with its ECHCONFIG"),
            (&format!("{}{of_strange}", &text[..half]), "line 4: the ECHCONFIG cannot be used: "),
            (&ed25519, "line 1: not a key for X25519"),
            (&many, "9 keys; at most 8"),
            (&text.replace("BEGIN ECHCONFIG", "BEGIN ECHCONFIGS"), "END does not match"),
        ] {
            let problem = of_text(text.as_bytes()).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
