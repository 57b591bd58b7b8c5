//! The other nodes of a fleet, as far as certificates are concerned: one of all nodes orders, and each has what the others need.
//!
//! What is shared is the folder of the keystore, file by file (`mirror`), and the proofs that are shown to authorities. How that gets from node to node is
//! the business of whoever implements [`Peers`].

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use proxy::challenges::{Challenges, Published};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::key;

/// Longest token, longest response to a request for it, and longest name (RFC 1035 §2.3.4), bytes.
const MAX_TOKEN_BYTES: usize = 256;
const MAX_RESPONSE_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 255;

/// The other nodes.
pub trait Peers: Send + Sync + fmt::Debug {
    /// Whether this node is the one that orders. Never waits.
    fn leads(&self) -> bool;

    /// Makes this a file of all nodes, or removes it: when it counts as written. Waits; for threads that may.
    ///
    /// # Errors
    /// This node does not order any more, or the others cannot be reached.
    fn put(&self, keystore: &str, path: &str, content: Option<&[u8]>) -> Result<SystemTime, String>;

    /// Has the others show a proof until what is given back is dropped. Waits, until those that are there show it or have had time to; for threads that may.
    ///
    /// # Errors
    /// As [`Peers::put`].
    fn show(&self, proof: &Proof) -> Result<Box<dyn Send>, String>;

    /// Asks who orders for a name. Never waits.
    fn demand(&self, keystore: &str, name: &str);

    /// Has the others know why a name is not had. Never waits.
    fn reject(&self, keystore: &str, name: &str, why: &str);

    /// Leaves ordering to another node. Never waits.
    fn resign(&self);
}

/// What the other nodes have to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerNews {
    /// Who orders may be another one.
    Changed,
    /// A file was taken up: keystore and path.
    Took(String, String),
    /// A client of another node asks for a name: keystore and name.
    Demanded(String, String),
    /// A name is not had: keystore, name, why.
    Rejected(String, String, String),
}

/// A place among the nodes of a fleet.
pub struct Membership {
    /// The others.
    pub peers: Arc<dyn Peers>,
    /// What they say.
    pub news: UnboundedReceiver<PeerNews>,
}

/// What an authority looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The response to a request (RFC 8555 §8.3).
    Http {
        /// What is asked for.
        token: String,
        /// The response.
        authorization: String,
    },
    /// The certificate in a handshake (RFC 8737).
    Tls {
        /// The name or address in the certificate.
        name: String,
        /// The server name that is asked for, lower case.
        server_name: String,
        /// SHA-256 of the key authorization.
        digest: Vec<u8>,
    },
}

impl Proof {
    /// As text.
    pub fn write(&self) -> String {
        match self {
            Proof::Http { token, authorization } => json!({ "http": token, "response": authorization }),
            Proof::Tls { name, server_name, digest } => {
                json!({ "tls": server_name, "name": name, "digest": BASE64_URL_SAFE_NO_PAD.encode(digest) })
            }
        }
        .to_string()
    }

    /// Reads what [`Proof::write`] makes; none if it is something else.
    pub fn read(text: &[u8]) -> Option<Proof> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let member = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        if let Some(server_name) = member("tls") {
            let digest = BASE64_URL_SAFE_NO_PAD.decode(member("digest")?).ok().filter(|digest| digest.len() == 32)?;
            let is_short = |text: &String| (1..=MAX_NAME_BYTES).contains(&text.len());
            let name = member("name").filter(is_short)?;
            return Some(server_name).filter(is_short).map(|server_name| Proof::Tls { name, server_name, digest });
        }
        let (token, authorization) = (member("http")?, member("response")?);
        // A token, a dot, and base64url (RFC 8555 §8.1): it becomes the body of a response.
        let is_plain = authorization.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = is_token(&token) && is_plain && authorization.len() <= MAX_RESPONSE_BYTES;
        fits.then_some(Proof::Http { token, authorization })
    }

    /// Shows it here, to whoever connects to us, until what is given back is dropped.
    ///
    /// # Errors
    /// The library could not make the certificate.
    pub fn show(&self, challenges: &Arc<Challenges>) -> Result<Published, String> {
        match self {
            Proof::Http { token, authorization } => Ok(challenges.respond(token, authorization)),
            Proof::Tls { name, server_name, digest } => Ok(challenges.present(server_name, key::proof(name, digest)?)),
        }
    }
}

/// Whether a token is one (RFC 8555 §8.1): the alphabet of base64url, and no more of it than makes sense.
pub fn is_token(token: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_proof_reads_back_and_what_is_none_does_not() {
        let http = Proof::Http { token: "abc-_1".to_owned(), authorization: "abc-_1.key".to_owned() };
        let (name, server_name) = ("a.test".to_owned(), "a.test".to_owned());
        let tls = Proof::Tls { name, server_name, digest: vec![7; 32] };
        for proof in [http, tls] {
            assert_eq!(Proof::read(proof.write().as_bytes()), Some(proof));
        }
        for other in [r#"{"http":"x","response":"a b"}"#, r#"{"http":"x","response":"a\r\nb"}"#] {
            assert_eq!(Proof::read(other.as_bytes()), None, "{other}");
        }
        for other in ["", "{}", "[]", r#"{"http":"../x","response":"y"}"#, r#"{"tls":"a","name":"a","digest":"AA"}"#] {
            assert_eq!(Proof::read(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_token_is_no_path() {
        for (token, expected) in [
            ("LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0", true),
            ("-_", true),
            ("", false),
            ("../../etc/passwd", false),
            ("a/b", false),
            ("a.b", false),
            ("a b", false),
            ("a\r\nb", false),
            ("a%2e", false),
        ] {
            assert_eq!(is_token(token), expected, "{token:?}");
        }
        assert!(!is_token(&"a".repeat(257)));
    }
}
