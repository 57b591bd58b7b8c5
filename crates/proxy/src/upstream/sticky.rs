//! Sticky sessions: a cookie that says, sealed, which server a client was given.
//!
//! Owns what stands in the cookie and how it is written. It holds a hash of the server's address, so that it outlives reloads, and, where the key is
//! configured, restarts, and is understood by all machines with that key. That a server is up, and gets the request, is decided elsewhere.

use std::io::Write as _;
use std::sync::OnceLock;

use config::{SameSite, StickyConfig};
use tls::crypto::digest::{random, sha256};
use tls::crypto::sealing::{OVERHEAD_BYTES, SealingKey};

use super::maglev;

/// The least length of a configured key.
const LEAST_KEY_BYTES: usize = 16;

/// What is sealed: the hash of the server's address.
const SECRET_BYTES: usize = 8;

/// The sessions of one group.
#[derive(Debug)]
pub struct Sticky {
    config: StickyConfig,
    key: SealingKey,
    /// What its cookies are about: those of another group do not open.
    about: Box<[u8]>,
}

/// The key of groups that are given none: the same for the life of the process, so that sessions survive reloads.
static OWN_KEY: OnceLock<[u8; 32]> = OnceLock::new();

fn own_key() -> Result<[u8; 32], String> {
    let fresh = random::<32>().map_err(|error| error.to_string())?;
    Ok(*OWN_KEY.get_or_init(|| fresh))
}

/// The key of groups that are given none, for a process that takes over; none if there is no such group.
pub fn key_to_pass() -> Option<[u8; 32]> {
    OWN_KEY.get().copied()
}

/// Goes on with the key of another process. To be called before a group is made.
pub fn resume_key(key: [u8; 32]) {
    // One that is there already is in use.
    let _ = OWN_KEY.set(key);
}

impl Sticky {
    /// Those of a group of this name. Reads the key.
    ///
    /// # Errors
    /// The key is missing or too short; says which.
    pub fn new(config: &StickyConfig, group: &str) -> Result<Sticky, String> {
        let key = match &config.key {
            None => own_key()?,
            Some(secret) => {
                let secret = secret.read()?;
                let bytes = secret.as_str().as_bytes();
                if bytes.len() < LEAST_KEY_BYTES {
                    let length = bytes.len();
                    return Err(format!(
                        "the key of `sticky` has {length} bytes; write {LEAST_KEY_BYTES} at least, such as `openssl rand -hex 32` prints"
                    ));
                }
                sha256(bytes)
            }
        };
        let key = SealingKey::new(&key).map_err(|error| error.to_string())?;
        let about = [group.as_bytes(), b"\0", config.cookie.as_bytes()].concat().into();
        Ok(Sticky { config: config.clone(), key, about })
    }

    /// The name of the cookie.
    pub fn cookie(&self) -> &str {
        &self.config.cookie
    }

    /// What stands for a server in cookies.
    pub(super) fn token(server: &str) -> u64 {
        maglev::hash(server.as_bytes())
    }

    /// What a cookie of ours holds.
    pub(super) fn open(&self, value: &[u8]) -> Option<u64> {
        let sealed = from_hex(value)?;
        let secret = self.key.open(&self.about, &sealed)?;
        Some(u64::from_be_bytes(secret.try_into().ok()?))
    }

    /// The value of Set-Cookie (RFC 6265 §4.1) that gives a client this server. None for want of memory.
    pub fn set_cookie(&self, server: &str, is_secure: bool) -> Option<Vec<u8>> {
        let StickyConfig { cookie, lifetime, same_site, .. } = &self.config;
        let sealed = self.key.seal(&self.about, &Sticky::token(server).to_be_bytes()).ok()?;
        let mut field = Vec::with_capacity(cookie.len() + 160);
        field.extend_from_slice(cookie.as_bytes());
        field.push(b'=');
        for byte in sealed {
            write!(field, "{byte:02x}").ok()?;
        }
        field.extend_from_slice(b"; Path=/");
        if let Some(lifetime) = lifetime {
            write!(field, "; Max-Age={}", lifetime.as_secs()).ok()?;
        }
        field.extend_from_slice(b"; HttpOnly");
        // Browsers take the two prefixes, and SameSite=None, only with it.
        let needs_it = cookie.starts_with("__Host-") || cookie.starts_with("__Secure-") || *same_site == SameSite::None;
        if is_secure || needs_it {
            field.extend_from_slice(b"; Secure");
        }
        field.extend_from_slice(match same_site {
            SameSite::Lax => b"; SameSite=Lax",
            SameSite::Strict => b"; SameSite=Strict",
            SameSite::None => b"; SameSite=None",
        });
        Some(field)
    }
}

/// The bytes of a value as it is written: lower-case hexadecimal digits, and just as many as it takes.
fn from_hex(text: &[u8]) -> Option<[u8; SECRET_BYTES + OVERHEAD_BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; SECRET_BYTES + OVERHEAD_BYTES];
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    if pairs.len() != bytes.len() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Duration;

    use super::*;

    fn sticky(config: StickyConfig, group: &str) -> Sticky {
        Sticky::new(&config, group).unwrap()
    }

    fn config() -> StickyConfig {
        StickyConfig { cookie: "sid".into(), lifetime: None, same_site: SameSite::Lax, key: None }
    }

    fn value(field: &[u8]) -> &[u8] {
        let value = field.strip_prefix(b"sid=").unwrap();
        &value[..value.iter().position(|byte| *byte == b';').unwrap()]
    }

    #[test]
    fn a_cookie_opens_for_its_group_and_nobody_elses() {
        let (shop, blog) = (sticky(config(), "shop"), sticky(config(), "blog"));
        let (one, two) =
            (shop.set_cookie("10.0.0.1:80", false).unwrap(), shop.set_cookie("10.0.0.1:80", false).unwrap());
        assert_ne!(one, two, "two cookies of one server do not show it");
        assert_eq!(
            (shop.open(value(&one)), shop.open(value(&two))),
            (Some(Sticky::token("10.0.0.1:80")), shop.open(value(&one)))
        );
        assert_eq!(blog.open(value(&one)), None);
        // The group made anew by a reload.
        assert_eq!(sticky(config(), "shop").open(value(&one)), Some(Sticky::token("10.0.0.1:80")));
        let text = value(&one);
        for at in 0..text.len() {
            let mut changed = text.to_vec();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(shop.open(&changed), None, "{at}");
            assert_eq!(shop.open(&text[..at]), None, "{at}");
        }
        for odd in
            [&b""[..], b"10.0.0.1:80", &[b'g'; 72], &[b'0'; 72], &[b'0'; 7200], text.to_ascii_uppercase().as_slice()]
        {
            assert_eq!(shop.open(odd), None);
        }
    }

    #[test]
    fn attributes_are_as_browsers_want_them() {
        let attributes = |config: StickyConfig, is_secure: bool| {
            let field = String::from_utf8(sticky(config, "shop").set_cookie("a:1", is_secure).unwrap()).unwrap();
            field[field.find(';').unwrap()..].to_owned()
        };
        assert_eq!(attributes(config(), false), "; Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(attributes(config(), true), "; Path=/; HttpOnly; Secure; SameSite=Lax");
        let hour = StickyConfig { lifetime: Some(Duration::from_secs(3600)), same_site: SameSite::Strict, ..config() };
        assert_eq!(attributes(hour, false), "; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict");
        let host = StickyConfig { cookie: "__Host-sid".into(), ..config() };
        assert_eq!(attributes(host, false), "; Path=/; HttpOnly; Secure; SameSite=Lax");
        let none = StickyConfig { same_site: SameSite::None, ..config() };
        assert_eq!(attributes(none, false), "; Path=/; HttpOnly; Secure; SameSite=None");
    }
}
