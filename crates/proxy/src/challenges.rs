//! Proofs that names are ours, for certificate authorities (RFC 8555): who orders certificates puts them here, handshakes and requests look them up.
//!
//! One table of the process, which each generation passes on to the next. Nothing is read from a disk: what a request asks for is looked up among
//! what is there, and is never the name of a file.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tls::{Choice, Identity, Policy, ProtocolVersion};
use wire::client_hello::ClientHello;
use wire::http::{Method, RequestHead};

/// The protocol that an authority offers, alone, to see the certificate of a challenge (RFC 8737 §3).
pub const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// What stands before the token in the path of a request (RFC 8555 §8.3).
const WELL_KNOWN: &[u8] = b"/.well-known/acme-challenge/";

/// What is served to authorities.
#[derive(Debug)]
pub struct Challenges {
    /// Certificates to present, by server name.
    certificates: Table<Box<str>, Arc<Identity>>,
    /// Key authorizations, by token.
    responses: Table<Box<[u8]>, Arc<[u8]>>,
    protocols: Arc<[Vec<u8>]>,
}

impl Default for Challenges {
    fn default() -> Challenges {
        Challenges {
            certificates: Table::default(),
            responses: Table::default(),
            protocols: [ACME_PROTOCOL.to_vec()].into(),
        }
    }
}

/// A proof that is served until this is dropped.
pub struct Published(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Published {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl std::fmt::Debug for Published {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Published")
    }
}

impl Challenges {
    /// Presents a certificate to whoever offers the protocol of challenges for this server name (lower case).
    pub fn present(self: &Arc<Challenges>, server_name: &str, identity: Arc<Identity>) -> Published {
        let (all, name) = (Arc::clone(self), Box::<str>::from(server_name));
        self.certificates.put(name.clone(), Arc::clone(&identity));
        Published(Some(Box::new(move || {
            all.certificates.take_out(&name, |there| Arc::ptr_eq(there, &identity));
        })))
    }

    /// Responds with a key authorization to requests for this token.
    pub fn respond(self: &Arc<Challenges>, token: &str, authorization: &str) -> Published {
        let (all, token) = (Arc::clone(self), Box::<[u8]>::from(token.as_bytes()));
        let authorization = Arc::<[u8]>::from(authorization.as_bytes());
        self.responses.put(token.clone(), Arc::clone(&authorization));
        Published(Some(Box::new(move || {
            all.responses.take_out(&token, |there| Arc::ptr_eq(there, &authorization));
        })))
    }

    /// What a handshake is done under that looks at a challenge; none if this is no such handshake, or there is no challenge for its name.
    pub fn choice(&self, hello: &ClientHello<'_>, name: Option<&str>) -> Option<Choice> {
        let (true, Some(name)) = (matches!(hello.alpn[..], [ACME_PROTOCOL]), name) else { return None };
        let identity = Arc::clone(self.certificates.0.load().get(name)?);
        // Nobody resumes such a session, and no other handshake could.
        let context = tls::crypto::digest::sha256(&[ACME_PROTOCOL, name.as_bytes()].concat());
        Some(Choice {
            identity,
            policy: Policy::Intermediate,
            min_version: ProtocolVersion::Tls12,
            alpn: Arc::clone(&self.protocols),
            client_auth: None,
            context,
        })
    }

    /// The key authorization that a request asks for.
    pub fn response(&self, head: &RequestHead) -> Option<Arc<[u8]>> {
        let token = head.path().strip_prefix(WELL_KNOWN)?;
        if !matches!(head.method, Method::Get | Method::Head) {
            return None;
        }
        self.responses.0.load().get(token).cloned()
    }
}

/// A small map that is seldom written and read without a lock.
#[derive(Debug)]
struct Table<K, V>(ArcSwap<HashMap<K, V>>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table(ArcSwap::from_pointee(HashMap::new()))
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Table<K, V> {
    fn put(&self, key: K, value: V) {
        self.0.rcu(|map| {
            let mut map = HashMap::clone(map);
            map.insert(key.clone(), value.clone());
            map
        });
    }

    fn take_out(&self, key: &K, is_meant: impl Fn(&V) -> bool) {
        self.0.rcu(|map| {
            let mut map = HashMap::clone(map);
            if map.get(key).is_some_and(&is_meant) {
                map.remove(key);
            }
            map
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(method: Method, target: &str) -> RequestHead {
        RequestHead { method, target: target.as_bytes().to_vec(), path_len: target.len(), ..RequestHead::default() }
    }

    #[test]
    fn a_response_is_there_for_its_token_alone_and_as_long_as_it_is_published() {
        let all = Arc::new(Challenges::default());
        let published = all.respond("abc-_1", "abc-_1.key");
        for (method, target, expected) in [
            (Method::Get, "/.well-known/acme-challenge/abc-_1", true),
            (Method::Head, "/.well-known/acme-challenge/abc-_1", true),
            (Method::Post, "/.well-known/acme-challenge/abc-_1", false),
            (Method::Get, "/.well-known/acme-challenge/", false),
            (Method::Get, "/.well-known/acme-challenge/abc-_1/", false),
            (Method::Get, "/.well-known/acme-challenge/other", false),
            (Method::Get, "/x/.well-known/acme-challenge/abc-_1", false),
        ] {
            assert_eq!(all.response(&asked(method, target)).is_some(), expected, "{target}");
        }
        // A second order with the same token takes over; the end of the first one does not end it.
        let second = all.respond("abc-_1", "abc-_1.key");
        drop(published);
        assert!(all.response(&asked(Method::Get, "/.well-known/acme-challenge/abc-_1")).is_some());
        drop(second);
        assert!(all.response(&asked(Method::Get, "/.well-known/acme-challenge/abc-_1")).is_none());
    }

    #[test]
    fn a_certificate_is_presented_to_who_offers_the_protocol_alone() {
        let all = Arc::new(Challenges::default());
        let identity = Identity::remote(&[], tls::KeyType::Ecdsa);
        let _published = all.present("www.example.com", identity);
        let hello = |alpn: &[&'static [u8]]| ClientHello { alpn: alpn.to_vec(), ..ClientHello::default() };
        for (alpn, name, expected) in [
            (&[ACME_PROTOCOL][..], Some("www.example.com"), true),
            (&[ACME_PROTOCOL, b"h2"], Some("www.example.com"), false),
            (&[b"h2"], Some("www.example.com"), false),
            (&[], Some("www.example.com"), false),
            (&[ACME_PROTOCOL], Some("other.example.com"), false),
            (&[ACME_PROTOCOL], None, false),
        ] {
            assert_eq!(all.choice(&hello(alpn), name).is_some(), expected, "{alpn:?} {name:?}");
        }
    }
}
