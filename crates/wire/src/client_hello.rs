//! The TLS ClientHello (RFC 8446 §4.1.2, RFC 6066 §3), as much of it as choosing an identity needs.
//!
//! Owns the strict reading of the message and of the extensions named below. Does not check what was offered, nor check
//! what the TLS library checks anyway: key shares, tickets, the content of extensions that are not named here.

/// What a client offered in its first flight. Borrows from the handshake message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// `legacy_version` (0x0303 for TLS 1.2 and later).
    pub legacy_version: u16,
    /// Cipher suites in the client's order.
    pub cipher_suites: Vec<u16>,
    /// The `host_name` of the server_name extension as sent: 1 to 255 bytes, unchecked beyond that.
    pub server_name: Option<&'a [u8]>,
    /// Protocols of the ALPN extension, in the client's order.
    pub alpn: Vec<&'a [u8]>,
    /// `signature_algorithms`; empty where the extension is absent.
    pub signature_schemes: Vec<u16>,
    /// `supported_groups`; empty where the extension is absent.
    pub groups: Vec<u16>,
    /// `supported_versions`; empty where the extension is absent (then `legacy_version` rules).
    pub versions: Vec<u16>,
    /// The key share for X25519MLKEM768, if there is one.
    pub hybrid_share: Option<&'a [u8]>,
    /// Types of all extensions, whatever they are, in ascending order.
    pub extensions: Vec<u16>,
}

/// Why a ClientHello was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// A length runs past its container, or bytes are left over.
    Malformed,
    /// An extension, or a name inside one, occurs twice (RFC 8446 §4.2, RFC 6066 §3).
    Duplicate,
    /// server_name is empty or longer than 255 bytes.
    ServerName,
}

/// Extension types (IANA TLS ExtensionType Values).
pub(crate) const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const SIGNATURE_ALGORITHMS: u16 = 13;
pub(crate) const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

/// The group X25519MLKEM768 (draft-ietf-tls-ecdhe-mlkem §5): an ML-KEM-768 encapsulation key, then an X25519 share.
const X25519_MLKEM768: u16 = 0x11ec;

/// Bytes of an ML-KEM-768 encapsulation key that are coefficients, twelve bits each (FIPS 203 §5.1); a seed follows.
const MLKEM768_COEFFICIENT_BYTES: usize = 1152;

/// Every coefficient is below this (FIPS 203 §7.2).
const MLKEM_MODULUS: u16 = 3329;

/// The only name type that was ever defined (RFC 6066 §3).
const HOST_NAME: u8 = 0;

/// The longest host name, bytes.
const MAX_SERVER_NAME_BYTES: usize = 255;

/// The longest session id, bytes (RFC 8446 §4.1.2).
const MAX_SESSION_ID_BYTES: usize = 32;

impl<'a> ClientHello<'a> {
    /// Parses the body of a ClientHello handshake message (after the four-byte handshake header).
    ///
    /// Lists that must not be empty are rejected where they are. Time is bounded by the length of the message, whatever the
    /// number of extensions.
    ///
    /// # Errors
    /// [`HelloError`] for anything a strict reader would not accept; never panics.
    pub fn parse(body: &'a [u8]) -> Result<ClientHello<'a>, HelloError> {
        let mut reader = Reader(body);
        let mut hello = ClientHello { legacy_version: reader.u16()?, ..ClientHello::default() };
        let _random = reader.take(32)?;
        let session_id = reader.vector8()?;
        hello.cipher_suites = reader.vector16()?.list_of_u16()?;
        let compression_methods = reader.vector8()?;
        if session_id.0.len() > MAX_SESSION_ID_BYTES || compression_methods.0.is_empty() {
            return Err(HelloError::Malformed);
        }
        // TLS 1.2 and earlier may send no extensions at all (RFC 5246 §7.4.1.2).
        if reader.0.is_empty() {
            return Ok(hello);
        }
        let mut extensions = reader.vector16()?;
        reader.finish()?;
        let mut kinds = Vec::with_capacity(32);
        while !extensions.0.is_empty() {
            let kind = extensions.u16()?;
            let content = extensions.vector16()?;
            kinds.push(kind);
            hello.read_extension(kind, content)?;
        }
        kinds.sort_unstable();
        if kinds.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(HelloError::Duplicate);
        }
        hello.extensions = kinds;
        Ok(hello)
    }

    /// Whether TLS 1.3 is among the offered versions.
    pub fn offers_tls13(&self) -> bool {
        self.versions.contains(&0x0304)
    }

    /// Whether the ML-KEM key of the hybrid share has a coefficient out of range, which a server must reject (FIPS 203 §7.2). Its length is for
    /// the TLS library to check.
    pub fn has_malformed_hybrid_share(&self) -> bool {
        let Some(coefficients) = self.hybrid_share.and_then(|share| share.get(..MLKEM768_COEFFICIENT_BYTES)) else {
            return false;
        };
        coefficients.as_chunks::<3>().0.iter().any(|[low, middle, high]| {
            let (low, middle, high) = (u16::from(*low), u16::from(*middle), u16::from(*high));
            low | (middle & 0xf) << 8 >= MLKEM_MODULUS || middle >> 4 | high << 4 >= MLKEM_MODULUS
        })
    }

    fn read_extension(&mut self, kind: u16, mut content: Reader<'a>) -> Result<(), HelloError> {
        match kind {
            SERVER_NAME => self.server_name = server_name(content.vector16()?)?,
            SUPPORTED_GROUPS => self.groups = content.vector16()?.list_of_u16()?,
            SIGNATURE_ALGORITHMS => self.signature_schemes = content.vector16()?.list_of_u16()?,
            ALPN => self.alpn = protocols(content.vector16()?)?,
            SUPPORTED_VERSIONS => self.versions = content.vector8()?.list_of_u16()?,
            KEY_SHARE => self.hybrid_share = hybrid_share(content.vector16()?)?,
            _ => return Ok(()),
        }
        content.finish()
    }
}

/// The host name of a `ServerNameList`. Names of other types are stepped over: all begin with a length (RFC 6066 §3).
fn server_name(mut names: Reader<'_>) -> Result<Option<&[u8]>, HelloError> {
    let mut seen = [false; 256];
    let mut host_name = None;
    if names.0.is_empty() {
        return Err(HelloError::ServerName);
    }
    while !names.0.is_empty() {
        let kind = names.u8()?;
        let name = names.vector16()?.0;
        if std::mem::replace(&mut seen[usize::from(kind)], true) {
            return Err(HelloError::Duplicate);
        }
        if kind == HOST_NAME {
            if name.is_empty() || name.len() > MAX_SERVER_NAME_BYTES {
                return Err(HelloError::ServerName);
            }
            host_name = Some(name);
        }
    }
    Ok(host_name)
}

/// The share for X25519MLKEM768 in a `KeyShareClientHello` (RFC 8446 §4.2.8), which may be empty.
fn hybrid_share(mut shares: Reader<'_>) -> Result<Option<&[u8]>, HelloError> {
    let mut found = None;
    while !shares.0.is_empty() {
        let group = shares.u16()?;
        let share = shares.vector16()?.0;
        if group == X25519_MLKEM768 {
            found = found.or(Some(share));
        }
    }
    Ok(found)
}

/// The names of a `ProtocolNameList`: at least one, none of them empty (RFC 7301 §3.1).
fn protocols(mut list: Reader<'_>) -> Result<Vec<&[u8]>, HelloError> {
    let mut protocols = Vec::new();
    while !list.0.is_empty() {
        let name = list.vector8()?.0;
        if name.is_empty() {
            return Err(HelloError::Malformed);
        }
        protocols.push(name);
    }
    if protocols.is_empty() { Err(HelloError::Malformed) } else { Ok(protocols) }
}

/// What is left to read of a message or of a vector inside it (RFC 8446 §3.4).
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, HelloError> {
        let (&octet, rest) = self.0.split_first().ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(octet)
    }

    fn u16(&mut self) -> Result<u16, HelloError> {
        let (octets, rest) = self.0.split_first_chunk::<2>().ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*octets))
    }

    /// A vector behind a length of one byte.
    fn vector8(&mut self) -> Result<Reader<'a>, HelloError> {
        let len = usize::from(self.u8()?);
        self.take(len).map(Reader)
    }

    /// A vector behind a length of two bytes.
    fn vector16(&mut self) -> Result<Reader<'a>, HelloError> {
        let len = usize::from(self.u16()?);
        self.take(len).map(Reader)
    }

    /// All that is left, as at least one 16-bit number.
    fn list_of_u16(self) -> Result<Vec<u16>, HelloError> {
        let (pairs, odd) = self.0.as_chunks::<2>();
        if pairs.is_empty() || !odd.is_empty() {
            return Err(HelloError::Malformed);
        }
        Ok(pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect())
    }

    fn finish(self) -> Result<(), HelloError> {
        if self.0.is_empty() { Ok(()) } else { Err(HelloError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn vector8(content: &[u8]) -> Vec<u8> {
        [&[u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn vector16(content: &[u8]) -> Vec<u8> {
        [&u16::try_from(content.len()).unwrap().to_be_bytes()[..], content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().to_vec(), vector16(content)].concat()
    }

    fn sni(names: &[(u8, &[u8])]) -> Vec<u8> {
        let list: Vec<u8> = names.iter().flat_map(|(kind, name)| [vec![*kind], vector16(name)].concat()).collect();
        extension(SERVER_NAME, &vector16(&list))
    }

    /// Everything up to the extensions: version 0x0303, two suites, null compression.
    fn start() -> Vec<u8> {
        [&[3, 3][..], &[7; 32], &vector8(&[9; 32]), &vector16(&[0x13, 1, 0xc0, 0x2b]), &vector8(&[0])].concat()
    }

    fn with_extensions(extensions: &[Vec<u8>]) -> Vec<u8> {
        [start(), vector16(&extensions.concat())].concat()
    }

    fn check(extensions: &[Vec<u8>], expected: Result<ClientHello<'_>, HelloError>) {
        let body = with_extensions(extensions);
        let found = ClientHello::parse(&body);
        let mut kinds: Vec<u16> = extensions.iter().map(|one| u16::from_be_bytes([one[0], one[1]])).collect();
        kinds.sort_unstable();
        let expected = expected.map(|hello| ClientHello {
            legacy_version: 0x0303,
            cipher_suites: vec![0x1301, 0xc02b],
            extensions: kinds,
            ..hello
        });
        assert_eq!(found, expected, "{extensions:02x?}");
        // No prefix is a ClientHello, but the one that ends where extensions may be left out.
        for len in 0..body.len() {
            let cut = ClientHello::parse(&body[..len]);
            assert_eq!(cut.is_ok(), len == start().len(), "cut to {len}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(ClientHello::parse(&longer).is_err());
    }

    #[test]
    fn what_is_read() {
        check(&[], Ok(ClientHello::default()));
        let all = [
            extension(0x0a0a, &[]),
            sni(&[(0, b"a.example")]),
            extension(SUPPORTED_GROUPS, &vector16(&[0x11, 0xec, 0, 29])),
            extension(SIGNATURE_ALGORITHMS, &vector16(&[4, 3, 8, 4])),
            extension(ALPN, &vector16(b"\x02h2\x08http/1.1")),
            extension(SUPPORTED_VERSIONS, &vector8(&[3, 4, 3, 3])),
            extension(KEY_SHARE, &vector16(b"\0\x1d\0\x01x\x11\xec\0\x02yz")),
            extension(52, b"not looked at"),
        ];
        let expected = ClientHello {
            server_name: Some(b"a.example"),
            alpn: vec![b"h2", b"http/1.1"],
            signature_schemes: vec![0x0403, 0x0804],
            groups: vec![0x11ec, 29],
            versions: vec![0x0304, 0x0303],
            hybrid_share: Some(b"yz"),
            ..ClientHello::default()
        };
        assert!(expected.offers_tls13());
        check(&all, Ok(expected));
        assert!(!ClientHello { versions: vec![0x0303], ..ClientHello::default() }.offers_tls13());
    }

    #[test]
    fn no_extensions_at_all() {
        let hello = start();
        assert_eq!(ClientHello::parse(&hello).unwrap().cipher_suites, [0x1301, 0xc02b]);
    }

    #[test]
    fn server_names() {
        let longest = [b'a'; 255];
        let named = |name| ClientHello { server_name: Some(name), ..ClientHello::default() };
        check(&[sni(&[(0, &longest)])], Ok(named(&longest)));
        check(&[sni(&[(0, b"\0")])], Ok(named(b"\0")));
        check(&[sni(&[(7, b"x"), (0, b"a")])], Ok(named(b"a")));
        check(&[sni(&[(7, b"x")])], Ok(ClientHello::default()));
        check(&[sni(&[(0, &[b'a'; 256])])], Err(HelloError::ServerName));
        check(&[sni(&[(0, b"")])], Err(HelloError::ServerName));
        check(&[sni(&[])], Err(HelloError::ServerName));
        check(&[sni(&[(0, b"a"), (0, b"b")])], Err(HelloError::Duplicate));
        check(&[sni(&[(7, b"a"), (7, b"b")])], Err(HelloError::Duplicate));
        check(&[extension(SERVER_NAME, &[])], Err(HelloError::Malformed));
        check(&[extension(SERVER_NAME, b"\x00\x04\x00\x00\x01a!")], Err(HelloError::Malformed));
        check(&[extension(SERVER_NAME, b"\x00\x04\x00\x00\x02a")], Err(HelloError::Malformed));
    }

    #[test]
    fn key_shares_are_whole_and_may_be_none() {
        check(&[extension(KEY_SHARE, b"\0\0")], Ok(ClientHello::default()));
        for bad in
            [&b""[..], b"\0", b"\0\x01a", b"\0\x04\x11\xec\0\x01", b"\0\x05\x11\xec\0\x02a", b"\0\x05\x11\xec\0\x01ab"]
        {
            check(&[extension(KEY_SHARE, bad)], Err(HelloError::Malformed));
        }
    }

    #[test]
    fn coefficients_of_a_hybrid_share_are_in_range() {
        let malformed = |share: &[u8]| {
            ClientHello { hybrid_share: Some(share), ..ClientHello::default() }.has_malformed_hybrid_share()
        };
        assert!(!ClientHello::default().has_malformed_hybrid_share());
        assert!(!malformed(&[0xff; 1151]), "too short, which is for the library to say");
        for (at, bytes, expected) in [
            // 3328 and 3329 = 0xd01, in the first and in the second place of a pair; behind the coefficients anything is good.
            (0, [0x00, 0x0d, 0x00], false),
            (0, [0x01, 0x0d, 0x00], true),
            (1149, [0x00, 0x00, 0xd0], false),
            (1149, [0x00, 0x10, 0xd0], true),
            (1152, [0xff, 0xff, 0xff], false),
        ] {
            let mut share = [0; 1216];
            share[at..at + 3].copy_from_slice(&bytes);
            assert_eq!(malformed(&share), expected, "{bytes:02x?} at {at}");
        }
    }

    #[test]
    fn lists_are_whole_and_not_empty() {
        for kind in [SUPPORTED_GROUPS, SIGNATURE_ALGORITHMS] {
            for bad in [&b""[..], b"\0", b"\0\0", b"\0\x01a", b"\0\x03abc", b"\0\x02a", b"\0\x02abc"] {
                check(&[extension(kind, bad)], Err(HelloError::Malformed));
            }
        }
        for bad in [&b""[..], b"\0", b"\x01a", b"\x03abc", b"\x02a", b"\x02abc"] {
            check(&[extension(SUPPORTED_VERSIONS, bad)], Err(HelloError::Malformed));
        }
        for bad in [&b""[..], b"\0\0", b"\0\x01\0", b"\0\x03\x02h2x", b"\0\x02\x02h2", b"\0\x04\x02h2\0"] {
            check(&[extension(ALPN, bad)], Err(HelloError::Malformed));
        }
    }

    #[test]
    fn duplicates() {
        let versions = extension(SUPPORTED_VERSIONS, &vector8(&[3, 4]));
        check(&[versions.clone(), sni(&[(0, b"a")]), versions], Err(HelloError::Duplicate));
        check(&[extension(0xfafa, &[]), extension(52, &[]), extension(0xfafa, &[])], Err(HelloError::Duplicate));
        let many: Vec<_> = (100..16_000).map(|kind| extension(kind, &[])).collect();
        assert!(ClientHello::parse(&with_extensions(&many)).is_ok());
    }

    #[test]
    fn fixed_parts() {
        let body = |session_id: &[u8], suites: &[u8], compression: &[u8]| {
            [&[3, 1][..], &[7; 32], &vector8(session_id), &vector16(suites), &vector8(compression)].concat()
        };
        assert_eq!(ClientHello::parse(&body(&[], &[0, 5], &[1, 0])).unwrap().legacy_version, 0x0301);
        for bad in
            [body(&[0; 33], &[0, 5], &[0]), body(&[], &[], &[0]), body(&[], &[0, 5, 0], &[0]), body(&[], &[0, 5], &[])]
        {
            assert_eq!(ClientHello::parse(&bad), Err(HelloError::Malformed));
        }
    }
}
