//! Enrolment: how a node asks a key server for its client certificate, and how it is answered (`docs/keyless-extensions.md`).
//!
//! One request and one response over a TLS connection of its own, which names [`ENROLMENT_ALPN`]. Owns the bytes of both, and the text of a token. Does no
//! cryptography, and knows no clock. All integers are big-endian.
//!
//! ```text
//! request   kind u8 | length u16 | body
//!   enrol   secret 32 | length of the name u8 | name | public key 65 | signature
//!   renew                                            public key 65 | signature
//! response  status u8 | length u16 | body
//!   issued  (length u16 | certificate), then as many authorities of the server in the same form
//! ```

use crate::hexadecimal::{from_hexadecimal, hexadecimal};
use crate::keyless::ErrorCode;

/// The protocol that both ends name in ALPN.
pub const ENROLMENT_ALPN: &[u8] = b"portunus-enrolment/1";

/// The secret of a token, bytes.
pub const SECRET_BYTES: usize = 32;

/// A public key: an uncompressed point of P-256 (SEC 1, section 2.3.3), bytes.
pub const PUBLIC_KEY_BYTES: usize = 65;

/// Longest name of a node, bytes (RFC 1035 section 2.3.4).
pub const MAX_NAME_BYTES: usize = 253;

/// Longest signature: an ECDSA-Sig-Value over P-256 (RFC 3279 section 2.2.3), bytes.
pub const MAX_SIGNATURE_BYTES: usize = 72;

/// Most authorities in a response.
pub const MAX_AUTHORITIES: usize = 16;

/// What stands before the body, bytes.
pub const HEADER_BYTES: usize = 3;

/// Longest request, bytes.
pub const MAX_REQUEST_BYTES: usize =
    HEADER_BYTES + SECRET_BYTES + 1 + MAX_NAME_BYTES + PUBLIC_KEY_BYTES + MAX_SIGNATURE_BYTES;

/// Longest response, bytes.
pub const MAX_RESPONSE_BYTES: usize = HEADER_BYTES + 65_535;

/// What an enrolment is called in logs and metrics.
pub const ENROL_NAME: &str = "enrol";

/// What a renewal is called in logs and metrics.
pub const RENEW_NAME: &str = "renew";

/// What every signature begins with, so that it is good for nothing else.
const CONTEXT: &[u8] = b"portunus enrolment 1\0";

/// What a token begins with.
const TOKEN_BEGINNING: &str = "portunus-1-";

const ENROL: u8 = 1;
const RENEW: u8 = 2;
const ISSUED: u8 = 0;

/// It is no message of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// What a request proves who asks by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Proof<'a> {
    /// A token, and the name that is asked for.
    Token {
        /// The secret of the token.
        secret: &'a [u8; SECRET_BYTES],
        /// The name.
        name: &'a str,
    },
    /// The client certificate of the connection, which says the name.
    Certificate,
}

impl std::fmt::Debug for Proof<'_> {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Proof::Token { name, .. } => f.debug_struct("Token").field("name", name).finish_non_exhaustive(),
            Proof::Certificate => f.write_str("Certificate"),
        }
    }
}

/// A request for a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who asks.
    pub proof: Proof<'a>,
    /// The key that is to be certified.
    pub public_key: &'a [u8; PUBLIC_KEY_BYTES],
    /// That of its private half over [`Request::signed`], with SHA-256.
    pub signature: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the request that `bytes` begin with, and says how long it is; none if more is needed.
    ///
    /// # Errors
    /// It is none, whatever may follow.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Request<'a>, usize)>, Malformed> {
        let Some((kind, body, length)) = message(bytes, MAX_REQUEST_BYTES, |kind| matches!(kind, ENROL | RENEW))?
        else {
            return Ok(None);
        };
        let (proof, rest) = if kind == RENEW {
            (Proof::Certificate, body)
        } else {
            let (secret, rest) = body.split_first_chunk().ok_or(Malformed)?;
            let (&[name_length], rest) = rest.split_first_chunk().ok_or(Malformed)?;
            let (name, rest) = rest.split_at_checked(name_length.into()).ok_or(Malformed)?;
            let name = std::str::from_utf8(name).ok().filter(|name| is_node_name(name)).ok_or(Malformed)?;
            (Proof::Token { secret, name }, rest)
        };
        let (public_key, signature) = rest.split_first_chunk().ok_or(Malformed)?;
        if signature.is_empty() || signature.len() > MAX_SIGNATURE_BYTES {
            return Err(Malformed);
        }
        Ok(Some((Request { proof, public_key, signature }, length)))
    }

    /// What the signature is over: who asks, and for which key.
    pub fn signed(&self) -> Vec<u8> {
        let mut out = CONTEXT.to_vec();
        out.push(self.kind());
        self.unsigned(&mut out);
        out
    }

    /// Appends it as it is sent.
    ///
    /// # Errors
    /// Name or signature is longer than any may be.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut body = Vec::new();
        self.unsigned(&mut body);
        body.extend_from_slice(self.signature);
        if self.signature.is_empty()
            || self.signature.len() > MAX_SIGNATURE_BYTES
            || matches!(self.proof, Proof::Token { name, .. } if !is_node_name(name))
        {
            return Err(Malformed);
        }
        put(out, self.kind(), &body)
    }

    fn kind(&self) -> u8 {
        match self.proof {
            Proof::Token { .. } => ENROL,
            Proof::Certificate => RENEW,
        }
    }

    fn unsigned(&self, out: &mut Vec<u8>) {
        if let Proof::Token { secret, name } = self.proof {
            out.extend_from_slice(secret);
            // A longer one is no name, and is not sent.
            out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(name.as_bytes());
        }
        out.extend_from_slice(self.public_key);
    }
}

/// What comes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response<'a> {
    /// A certificate.
    Issued {
        /// It, DER.
        certificate: &'a [u8],
        /// The authorities that certify the server, DER; at least one.
        authorities: Vec<&'a [u8]>,
    },
    /// None, and why; never 0.
    Rejected(ErrorCode),
}

impl<'a> Response<'a> {
    /// Reads the response that `bytes` begin with, and says how long it is; none if more is needed.
    ///
    /// # Errors
    /// It is none, whatever may follow.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Response<'a>, usize)>, Malformed> {
        let Some((status, body, length)) = message(bytes, MAX_RESPONSE_BYTES, |_| true)? else { return Ok(None) };
        if status != ISSUED {
            let response = Response::Rejected(ErrorCode(status));
            return if body.is_empty() { Ok(Some((response, length))) } else { Err(Malformed) };
        }
        let (certificate, mut rest) = item(body)?;
        let mut authorities = Vec::new();
        while !rest.is_empty() {
            let (authority, after) = item(rest)?;
            authorities.push(authority);
            rest = after;
        }
        if authorities.is_empty() || authorities.len() > MAX_AUTHORITIES {
            return Err(Malformed);
        }
        Ok(Some((Response::Issued { certificate, authorities }, length)))
    }

    /// Appends it as it is sent.
    ///
    /// # Errors
    /// It is longer than any may be, or has too few or too many authorities.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        match self {
            Response::Rejected(ErrorCode(ISSUED)) => Err(Malformed),
            Response::Rejected(ErrorCode(status)) => put(out, *status, &[]),
            Response::Issued { certificate, authorities } => {
                if authorities.is_empty() || authorities.len() > MAX_AUTHORITIES {
                    return Err(Malformed);
                }
                let mut body = Vec::new();
                for item in [*certificate].iter().chain(authorities) {
                    let length = u16::try_from(item.len()).ok().filter(|length| *length > 0).ok_or(Malformed)?;
                    body.extend_from_slice(&length.to_be_bytes());
                    body.extend_from_slice(item);
                }
                put(out, ISSUED, &body)
            }
        }
    }
}

/// First byte, body and length of a message.
type Framed<'b> = (u8, &'b [u8], usize);

/// The message that `bytes` begin with; none if more is needed.
fn message(bytes: &[u8], most: usize, is_known: impl Fn(u8) -> bool) -> Result<Option<Framed<'_>>, Malformed> {
    let Some(first) = bytes.first() else { return Ok(None) };
    if !is_known(*first) {
        return Err(Malformed);
    }
    let Some((&[_, high, low], rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if HEADER_BYTES + length > most {
        return Err(Malformed);
    }
    Ok(rest.get(..length).map(|body| (*first, body, HEADER_BYTES + length)))
}

/// What stands behind its length, and what follows; never empty.
fn item(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (length, rest) = bytes.split_first_chunk().ok_or(Malformed)?;
    let length = usize::from(u16::from_be_bytes(*length));
    rest.split_at_checked(length).filter(|(item, _)| !item.is_empty()).ok_or(Malformed)
}

fn put(out: &mut Vec<u8>, first: u8, body: &[u8]) -> Result<(), Malformed> {
    let length = u16::try_from(body.len()).map_err(|_| Malformed)?;
    out.push(first);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Whether a node may be called so: a host name in lower case (RFC 1123 section 2.1), and no address. It is a name of a file, too.
pub fn is_node_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(fits) && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// What an operator carries from the key server to a node.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What the key server knows a hash of.
    pub secret: [u8; SECRET_BYTES],
    /// SHA-256 of the SubjectPublicKeyInfo of the key server's certificate: whom to give the secret.
    pub pin: [u8; 32],
}

impl std::fmt::Debug for Token {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("pin", &hexadecimal(&self.pin)).finish_non_exhaustive()
    }
}

impl Token {
    /// Reads the text of a token, as [`Token::text`] writes it; none if it is no such.
    pub fn parse(text: &str) -> Option<Token> {
        let (secret, pin) = text.strip_prefix(TOKEN_BEGINNING)?.split_once('-')?;
        Some(Token { secret: from_hexadecimal(secret)?, pin: from_hexadecimal(pin)? })
    }

    /// It as text, in one line.
    pub fn text(&self) -> String {
        format!("{TOKEN_BEGINNING}{}-{}", hexadecimal(&self.secret), hexadecimal(&self.pin))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KEY: [u8; PUBLIC_KEY_BYTES] = [4; PUBLIC_KEY_BYTES];

    #[test]
    fn what_is_written_is_read_again_and_every_bound_holds() {
        let secret = [7; SECRET_BYTES];
        let longest = format!("{}a.b", "a.".repeat(125));
        assert_eq!(longest.len(), MAX_NAME_BYTES);
        for proof in [
            Proof::Certificate,
            Proof::Token { secret: &secret, name: "edge-1.example" },
            Proof::Token { secret: &secret, name: &longest },
        ] {
            for (signature, fits) in
                [(0, false), (1, true), (MAX_SIGNATURE_BYTES, true), (MAX_SIGNATURE_BYTES + 1, false)]
            {
                let signature = vec![9; signature];
                let request = Request { proof, public_key: &KEY, signature: &signature };
                let mut bytes = Vec::new();
                assert_eq!(request.write_to(&mut bytes).is_ok(), fits);
                if fits {
                    assert_eq!(Request::parse(&bytes), Ok(Some((request, bytes.len()))));
                    assert!(bytes.len() <= MAX_REQUEST_BYTES);
                }
            }
        }
        let nameless =
            Request { proof: Proof::Token { secret: &secret, name: "A" }, public_key: &KEY, signature: &[1] };
        assert_eq!(nameless.write_to(&mut Vec::new()), Err(Malformed));
        let shown = format!("{:?}", Proof::Token { secret: &secret, name: "a.b" });
        assert!(shown.contains("a.b") && !shown.contains('7'), "{shown}");
    }

    #[test]
    fn a_signature_is_over_all_that_is_asked_for() {
        let (one, other) = ([1; SECRET_BYTES], [2; SECRET_BYTES]);
        let key = [5; PUBLIC_KEY_BYTES];
        let signed = |proof, public_key| Request { proof, public_key, signature: &[1] }.signed();
        let all = [
            signed(Proof::Token { secret: &one, name: "a.b" }, &KEY),
            signed(Proof::Token { secret: &other, name: "a.b" }, &KEY),
            signed(Proof::Token { secret: &one, name: "a.c" }, &KEY),
            signed(Proof::Token { secret: &one, name: "a.b" }, &key),
            signed(Proof::Certificate, &KEY),
        ];
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn responses_come_back_and_what_is_none_does_not() {
        let most = vec![&b"ca"[..]; MAX_AUTHORITIES];
        for response in [
            Response::Rejected(ErrorCode::BUSY),
            Response::Issued { certificate: b"leaf", authorities: vec![b"ca"] },
            Response::Issued { certificate: b"leaf", authorities: most.clone() },
        ] {
            let mut bytes = Vec::new();
            response.write_to(&mut bytes).unwrap();
            assert_eq!(Response::parse(&bytes), Ok(Some((response, bytes.len()))));
        }
        for response in [
            Response::Rejected(ErrorCode(0)),
            Response::Issued { certificate: b"leaf", authorities: Vec::new() },
            Response::Issued { certificate: b"", authorities: vec![b"ca"] },
            Response::Issued { certificate: b"leaf", authorities: [most, vec![b"ca"]].concat() },
        ] {
            assert_eq!(response.write_to(&mut Vec::new()), Err(Malformed), "{response:?}");
        }
        for bytes in [&[7, 0, 1, 0][..], &[0, 0, 0], &[0, 0, 3, 0, 1, 1], &[0, 0, 2, 0, 0]] {
            assert_eq!(Response::parse(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn names_are_host_names_and_no_paths() {
        for (name, expected) in [
            ("edge-1.example", true),
            ("edge1", true),
            ("1.edge", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("a..b", false),
            ("a.", false),
            ("-a", false),
            ("a-", false),
            ("A.example", false),
            ("*.example", false),
            ("10.0.0.1", false),
            ("a_b", false),
            ("a\n", false),
        ] {
            assert_eq!(is_node_name(name), expected, "{name:?}");
        }
        assert!(!is_node_name(&"a".repeat(64)) && !is_node_name(&"a.".repeat(127)));
    }

    #[test]
    fn tokens_come_back_and_hide_their_secret() {
        let token = Token { secret: [0xab; SECRET_BYTES], pin: [0x12; 32] };
        let text = token.text();
        assert_eq!(Token::parse(&text), Some(token.clone()));
        assert!(!format!("{token:?}").contains("abab"));
        for other in [
            text.to_uppercase(),
            format!("{text} "),
            format!("{text}0"),
            text.replace("-1-", "-2-"),
            text.chars().take(text.len() - 2).collect(),
            String::new(),
        ] {
            assert_eq!(Token::parse(&other), None, "{other}");
        }
    }
}
