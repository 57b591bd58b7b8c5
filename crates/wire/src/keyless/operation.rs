//! The operations a key server is asked for, and their opcodes.
//!
//! Pure numbers and lengths. Does no cryptography.

use super::{ErrorCode, opcode};

/// The hash a digest was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HashKind {
    /// MD5 and SHA-1 one after the other, as TLS 1.0 and 1.1 sign with RSA (RFC 4346 §7.4.3).
    Md5Sha1,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl HashKind {
    /// All, in the order of their opcodes.
    pub const ALL: [HashKind; 6] =
        [HashKind::Md5Sha1, HashKind::Sha1, HashKind::Sha224, HashKind::Sha256, HashKind::Sha384, HashKind::Sha512];

    /// Exact length of a digest, bytes.
    pub fn digest_bytes(self) -> usize {
        match self {
            HashKind::Md5Sha1 => 36,
            HashKind::Sha1 => 20,
            HashKind::Sha224 => 28,
            HashKind::Sha256 => 32,
            HashKind::Sha384 => 48,
            HashKind::Sha512 => 64,
        }
    }
}

/// The type of key that an operation is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyFamily {
    /// RSA.
    Rsa,
    /// ECDSA on any curve.
    Ecdsa,
    /// Ed25519.
    Ed25519,
}

impl KeyFamily {
    /// The payload of a request for a new key ([`opcode::MAKE_KEY`]): RSA of 2048 bits, or ECDSA on P-256. None for what no key is made of.
    pub fn code(self) -> Option<u8> {
        match self {
            KeyFamily::Rsa => Some(1),
            KeyFamily::Ecdsa => Some(2),
            KeyFamily::Ed25519 => None,
        }
    }

    /// The type of key that the payload of such a request asks for; none if it is no code.
    pub fn from_code(payload: &[u8]) -> Option<KeyFamily> {
        match payload {
            [1] => Some(KeyFamily::Rsa),
            [2] => Some(KeyFamily::Ecdsa),
            _ => None,
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// 0x01: decrypts the key exchange of TLS 1.2 and earlier (RFC 5246 §7.4.7.1).
    RsaDecrypt,
    /// 0x02 to 0x07: PKCS#1 v1.5 over a digest; the result is as long as the modulus.
    RsaPkcs1(HashKind),
    /// 0x12 to 0x17: ECDSA over a digest; the result is a DER SEQUENCE of r and s.
    Ecdsa(HashKind),
    /// 0x18: Ed25519 over the whole message; the result is 64 bytes.
    Ed25519,
    /// 0x35 to 0x37: PSS over a digest, same hash in MGF1, salt as long as the hash. SHA-256, SHA-384 and SHA-512 only.
    RsaPss(HashKind),
    /// 0xf1: echo of the payload.
    Ping,
}

/// The name of a request for a new key in logs and metrics.
pub const MAKE_KEY_NAME: &str = "make_key";

/// The names of all operations that need a key.
pub const OPERATION_NAMES: [&str; 17] = [
    "rsa_decrypt",
    "rsa_pkcs1_md5sha1",
    "rsa_pkcs1_sha1",
    "rsa_pkcs1_sha224",
    "rsa_pkcs1_sha256",
    "rsa_pkcs1_sha384",
    "rsa_pkcs1_sha512",
    "rsa_pss_sha256",
    "rsa_pss_sha384",
    "rsa_pss_sha512",
    "ecdsa_md5sha1",
    "ecdsa_sha1",
    "ecdsa_sha224",
    "ecdsa_sha256",
    "ecdsa_sha384",
    "ecdsa_sha512",
    "ed25519",
];

impl Operation {
    /// Reads an opcode of the base protocol; [`opcode::CANCEL`] is not among them.
    ///
    /// # Errors
    /// What a key server answers with: an opcode of responses is unexpected, any other is bad.
    pub fn from_opcode(number: u8) -> Result<Operation, ErrorCode> {
        let hash =
            |first: u8| number.checked_sub(first).and_then(|index| HashKind::ALL.get(usize::from(index)).copied());
        let found = match number {
            0x01 => Some(Operation::RsaDecrypt),
            0x02..=0x07 => hash(0x02).map(Operation::RsaPkcs1),
            0x12..=0x17 => hash(0x12).map(Operation::Ecdsa),
            0x18 => Some(Operation::Ed25519),
            0x35..=0x37 => hash(0x32).map(Operation::RsaPss),
            opcode::PING => Some(Operation::Ping),
            opcode::RESPONSE | opcode::PONG | opcode::ERROR => return Err(ErrorCode::UNEXPECTED_OPCODE),
            _ => None,
        };
        found.ok_or(ErrorCode::BAD_OPCODE)
    }

    /// Its opcode; none for PSS with a hash that the protocol has no number for.
    pub fn opcode(self) -> Option<u8> {
        match self {
            Operation::RsaDecrypt => Some(0x01),
            Operation::RsaPkcs1(hash) => Some(0x02 + hash as u8),
            Operation::Ecdsa(hash) => Some(0x12 + hash as u8),
            Operation::Ed25519 => Some(0x18),
            Operation::RsaPss(hash) if hash >= HashKind::Sha256 => Some(0x32 + hash as u8),
            Operation::RsaPss(_) => None,
            Operation::Ping => Some(opcode::PING),
        }
    }

    /// The type of key it is meant for; none for a ping.
    pub fn family(self) -> Option<KeyFamily> {
        match self {
            Operation::RsaDecrypt | Operation::RsaPkcs1(_) | Operation::RsaPss(_) => Some(KeyFamily::Rsa),
            Operation::Ecdsa(_) => Some(KeyFamily::Ecdsa),
            Operation::Ed25519 => Some(KeyFamily::Ed25519),
            Operation::Ping => None,
        }
    }

    /// Exact length of its payload, bytes; none where the length is free or depends on the key.
    pub fn payload_bytes(self) -> Option<usize> {
        match self {
            Operation::RsaPkcs1(hash) | Operation::Ecdsa(hash) | Operation::RsaPss(hash) => Some(hash.digest_bytes()),
            Operation::RsaDecrypt | Operation::Ed25519 | Operation::Ping => None,
        }
    }

    /// All that the protocol has a number for.
    pub fn all() -> impl Iterator<Item = Operation> {
        (0..=u8::MAX).filter_map(|number| Operation::from_opcode(number).ok())
    }

    /// A short stable name, for configuration, logs and metrics, e.g. `rsa_pkcs1_sha256`: one of [`OPERATION_NAMES`], or `ping`.
    pub fn name(self) -> &'static str {
        let word = |first: usize, hash: HashKind| OPERATION_NAMES[first + hash as usize];
        match self {
            Operation::RsaDecrypt => OPERATION_NAMES[0],
            Operation::RsaPkcs1(hash) => word(1, hash),
            Operation::RsaPss(hash) if hash >= HashKind::Sha256 => word(4, hash),
            Operation::RsaPss(_) => "",
            Operation::Ecdsa(hash) => word(10, hash),
            Operation::Ed25519 => OPERATION_NAMES[16],
            Operation::Ping => "ping",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_and_names() {
        let cases = [
            (0x01, "rsa_decrypt"),
            (0x02, "rsa_pkcs1_md5sha1"),
            (0x05, "rsa_pkcs1_sha256"),
            (0x07, "rsa_pkcs1_sha512"),
            (0x12, "ecdsa_md5sha1"),
            (0x15, "ecdsa_sha256"),
            (0x17, "ecdsa_sha512"),
            (0x18, "ed25519"),
            (0x35, "rsa_pss_sha256"),
            (0x36, "rsa_pss_sha384"),
            (0x37, "rsa_pss_sha512"),
            (0xf1, "ping"),
        ];
        for (number, name) in cases {
            assert_eq!(Operation::from_opcode(number).map(Operation::name), Ok(name), "{number:#x}");
        }
        let names: Vec<_> = Operation::all().map(Operation::name).filter(|name| *name != "ping").collect();
        assert_eq!(names.len(), OPERATION_NAMES.len());
        assert!(names.iter().all(|name| OPERATION_NAMES.contains(name)), "{names:?}");
    }

    #[test]
    fn every_type_of_key_comes_back_and_nothing_else_is_one() {
        for family in [KeyFamily::Rsa, KeyFamily::Ecdsa] {
            assert_eq!(family.code().and_then(|code| KeyFamily::from_code(&[code])), Some(family));
        }
        assert_eq!(KeyFamily::Ed25519.code(), None);
        for payload in [&[][..], &[0], &[3], &[1, 1]] {
            assert_eq!(KeyFamily::from_code(payload), None, "{payload:?}");
        }
    }

    #[test]
    fn every_opcode_comes_back() {
        for number in 0..=u8::MAX {
            match Operation::from_opcode(number) {
                Ok(operation) => {
                    assert_eq!(operation.opcode(), Some(number));
                    for hash in HashKind::ALL {
                        assert!(
                            operation.name().ends_with(&format!("{hash:?}").to_lowercase())
                                || operation.payload_bytes() != Some(hash.digest_bytes())
                        );
                    }
                }
                Err(code) => {
                    let of_responses = [opcode::RESPONSE, opcode::PONG, opcode::ERROR].contains(&number);
                    assert_eq!(code, if of_responses { ErrorCode::UNEXPECTED_OPCODE } else { ErrorCode::BAD_OPCODE });
                }
            }
        }
        assert_eq!(Operation::RsaPss(HashKind::Sha1).opcode(), None);
    }
}
