//! PEM text (RFC 7468): strict about what stands inside a block, tolerant of text around it, bounded in everything.
//!
//! Finds blocks and decodes their base64; what the DER in them means is not known here.

use std::fmt;

use zeroize::Zeroizing;

/// Longest text that is read, bytes. A bundle of all public authorities takes 220 KiB.
pub const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Most blocks in one text.
pub const MAX_BLOCKS: usize = 4096;
/// Characters on a line that we write (RFC 7468 §2).
const LINE_WIDTH: usize = 64;

/// What a block says it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// A certificate.
    Certificate,
    /// A PKCS#8 key.
    PrivateKey,
    /// A PKCS#1 key.
    RsaPrivateKey,
    /// A SEC1 key.
    EcPrivateKey,
    /// A PKCS#8 key under a password.
    EncryptedPrivateKey,
    /// The curve that some tools write before an EC key; the key names it again.
    EcParameters,
    /// Something else.
    Other(String),
}

impl Label {
    fn parse(text: &str) -> Label {
        match text {
            "CERTIFICATE" | "X509 CERTIFICATE" => Label::Certificate,
            "PRIVATE KEY" => Label::PrivateKey,
            "RSA PRIVATE KEY" => Label::RsaPrivateKey,
            "EC PRIVATE KEY" => Label::EcPrivateKey,
            "ENCRYPTED PRIVATE KEY" => Label::EncryptedPrivateKey,
            "EC PARAMETERS" => Label::EcParameters,
            other => Label::Other(other.to_owned()),
        }
    }

    /// Whether it is a private key of any form.
    pub fn is_private_key(&self) -> bool {
        matches!(self, Label::PrivateKey | Label::RsaPrivateKey | Label::EcPrivateKey | Label::EncryptedPrivateKey)
    }

    fn as_str(&self) -> &str {
        match self {
            Label::Certificate => "CERTIFICATE",
            Label::PrivateKey => "PRIVATE KEY",
            Label::RsaPrivateKey => "RSA PRIVATE KEY",
            Label::EcPrivateKey => "EC PRIVATE KEY",
            Label::EncryptedPrivateKey => "ENCRYPTED PRIVATE KEY",
            Label::EcParameters => "EC PARAMETERS",
            Label::Other(other) => other,
        }
    }
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its label.
    pub label: Label,
    /// What it encodes; wiped when dropped, since it may be a key.
    pub der: Zeroizing<Vec<u8>>,
    /// The line of its BEGIN, from 1.
    pub line: usize,
}

/// Why a text is not valid PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PemError {
    /// The line at fault, from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a PEM text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The text is longer than [`MAX_TEXT_BYTES`].
    TooLong,
    /// There are more than [`MAX_BLOCKS`] blocks.
    TooManyBlocks,
    /// A line begins like a boundary and is none.
    Boundary,
    /// A block begins inside another, or the text ends inside one.
    Unfinished,
    /// The END line does not match the BEGIN line.
    Mismatch,
    /// The block is encrypted in the old way, by headers (RFC 1421).
    OldEncryption,
    /// A line is not base64.
    Base64,
    /// The block is empty.
    Empty,
}

impl fmt::Display for PemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match self.fault {
            Fault::TooLong => write!(f, "longer than 4 MiB; not a file of keys or certificates"),
            Fault::TooManyBlocks => write!(f, "line {line}: more than {MAX_BLOCKS} blocks; split the file"),
            Fault::Boundary => write!(f, "line {line}: damaged BEGIN or END line"),
            Fault::Unfinished => {
                write!(f, "line {line}: the block that begins here has no END line; is the file complete?")
            }
            Fault::Mismatch => write!(f, "line {line}: END does not match BEGIN"),
            Fault::OldEncryption => write!(
                f,
                "line {line}: header lines, as of a key encrypted in the old way; write it again with `openssl pkcs8 -topk8 -in FILE -out NEW`"
            ),
            Fault::Base64 => write!(f, "line {line}: not base64"),
            Fault::Empty => write!(f, "line {line}: the block that begins here is empty"),
        }
    }
}

impl std::error::Error for PemError {}

/// All blocks, in order. Text outside of blocks is skipped (RFC 7468 §2 allows explanations there), so a file may have no block at all.
///
/// # Errors
/// The first fault found.
pub fn read(text: &[u8]) -> Result<Vec<Block>, PemError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(PemError { line: 1, fault: Fault::TooLong });
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut blocks = Vec::new();
    let mut open: Option<Open<'_>> = None;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let (number, line) = (index + 1, line.trim_ascii());
        let fault = |fault| PemError { line: number, fault };
        match (boundary(line).map_err(fault)?, &mut open) {
            (None, None) => {}
            (None, Some(block)) => block.body.take(line).map_err(fault)?,
            (Some(Boundary::Begin(label)), None) => {
                if blocks.len() == MAX_BLOCKS {
                    return Err(fault(Fault::TooManyBlocks));
                }
                open = Some(Open { label, line: number, body: Base64::default() });
            }
            (Some(Boundary::Begin(_)), Some(block)) => {
                return Err(PemError { line: block.line, fault: Fault::Unfinished });
            }
            (Some(Boundary::End(_)), None) => return Err(fault(Fault::Mismatch)),
            (Some(Boundary::End(label)), Some(block)) if label != block.label => return Err(fault(Fault::Mismatch)),
            (Some(Boundary::End(_)), Some(_)) => blocks.extend(open.take().map(Open::finish).transpose()?),
        }
    }
    match open {
        Some(block) => Err(PemError { line: block.line, fault: Fault::Unfinished }),
        None => Ok(blocks),
    }
}

/// A block that has begun.
struct Open<'a> {
    label: &'a str,
    line: usize,
    body: Base64,
}

impl Open<'_> {
    fn finish(self) -> Result<Block, PemError> {
        let line = self.line;
        let der = self.body.finish().map_err(|fault| PemError { line, fault })?;
        Ok(Block { label: Label::parse(self.label), der, line })
    }
}

enum Boundary<'a> {
    Begin(&'a str),
    End(&'a str),
}

/// The boundary that a line is, if it begins like one.
fn boundary(line: &[u8]) -> Result<Option<Boundary<'_>>, Fault> {
    let Some(inner) = line.strip_prefix(b"-----") else { return Ok(None) };
    let inner =
        inner.strip_suffix(b"-----").and_then(|inner| std::str::from_utf8(inner).ok()).ok_or(Fault::Boundary)?;
    if let Some(label) = inner.strip_prefix("BEGIN ") {
        Ok(Some(Boundary::Begin(label)))
    } else if let Some(label) = inner.strip_prefix("END ") {
        Ok(Some(Boundary::End(label)))
    } else {
        Err(Fault::Boundary)
    }
}

/// Base64 (RFC 4648 §4) being decoded, line by line.
#[derive(Default)]
struct Base64 {
    out: Zeroizing<Vec<u8>>,
    bits: u32,
    /// Characters of the group of four so far.
    filled: u8,
    /// Padding characters seen.
    padding: u8,
}

impl Base64 {
    fn take(&mut self, line: &[u8]) -> Result<(), Fault> {
        if line.contains(&b':') {
            return Err(Fault::OldEncryption);
        }
        if self.out.capacity() == 0 {
            // Keys and certificates fit; growing would leave unwiped copies of a key behind.
            self.out.reserve(8 * 1024);
        }
        for character in line {
            match (*character, VALUES[usize::from(*character)]) {
                (b'=', _) => {
                    self.padding += 1;
                    self.filled += 1;
                    if self.padding > 2 || self.filled < 3 {
                        return Err(Fault::Base64);
                    }
                    self.bits <<= 6;
                }
                (_, INVALID) => return Err(Fault::Base64),
                (_, _) if self.padding > 0 => return Err(Fault::Base64),
                (_, value) => {
                    self.bits = self.bits << 6 | u32::from(value);
                    self.filled += 1;
                }
            }
            if self.filled == 4 {
                let [_, a, b, c] = self.bits.to_be_bytes();
                let kept = 3 - usize::from(self.padding);
                if [a, b, c][kept..].iter().any(|byte| *byte != 0) {
                    // Bits that no encoder sets (RFC 4648 §3.5).
                    return Err(Fault::Base64);
                }
                self.out.extend_from_slice(&[a, b, c][..kept]);
                (self.bits, self.filled) = (0, 0);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Zeroizing<Vec<u8>>, Fault> {
        if self.filled != 0 {
            return Err(Fault::Base64);
        }
        if self.out.is_empty() {
            return Err(Fault::Empty);
        }
        // The decoder's buffer is larger than most blocks; what is kept for long must not be.
        Ok(Zeroizing::new(self.out.as_slice().to_vec()))
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const INVALID: u8 = 0xff;
const VALUES: [u8; 256] = {
    let mut values = [INVALID; 256];
    let mut index = 0;
    while index < ALPHABET.len() {
        values[ALPHABET[index] as usize] = index as u8;
        index += 1;
    }
    values
};

/// One block as text, wiped when dropped.
pub fn write(label: &Label, der: &[u8]) -> Zeroizing<String> {
    // Sized in advance: growing would leave unwiped copies of a key behind.
    let characters = der.len().div_ceil(3) * 4;
    let mut out =
        Zeroizing::new(String::with_capacity(characters + characters / LINE_WIDTH + 2 * label.as_str().len() + 40));
    let boundary = |out: &mut String, word: &str| {
        for part in ["-----", word, " ", label.as_str(), "-----\n"] {
            out.push_str(part);
        }
    };
    boundary(&mut out, "BEGIN");
    for (index, group) in der.chunks(3).enumerate() {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for position in 0..4 {
            let value = (bits >> (18 - 6 * position)) & 63;
            out.push(if position > group.len() { '=' } else { char::from(ALPHABET[value as usize]) });
        }
        if (index + 1) % (LINE_WIDTH / 4) == 0 {
            out.push('\n');
        }
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    boundary(&mut out, "END");
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Label, content and line of a block.
    type Expected<'a> = (&'a str, &'a [u8], usize);

    fn check(text: &str, expected: Result<&[Expected<'_>], (usize, Fault)>) {
        let found = read(text.as_bytes());
        let expected = expected
            .map(|blocks| {
                let block = |&(label, der, line): &Expected<'_>| Block {
                    label: Label::parse(label),
                    der: Zeroizing::new(der.to_vec()),
                    line,
                };
                blocks.iter().map(block).collect()
            })
            .map_err(|(line, fault)| PemError { line, fault });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn blocks_are_found() {
        check("", Ok(&[]));
        check("just text\n", Ok(&[]));
        check("-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----", Ok(&[("CERTIFICATE", b"abc", 1)]));
        check(
            "-----BEGIN CERTIFICATE-----\r\nYW\r\nJj\r\n-----END CERTIFICATE-----\r\n",
            Ok(&[("CERTIFICATE", b"abc", 1)]),
        );
        check("\u{feff}-----BEGIN X-----\nYQ==\n-----END X-----\n", Ok(&[("X", b"a", 1)]));
        check(
            "subject: x\n-----BEGIN EC PARAMETERS-----\nYWI=\n-----END EC PARAMETERS-----\n\n-----BEGIN EC PRIVATE KEY-----\nYWJj\n\n-----END EC PRIVATE KEY-----\n",
            Ok(&[("EC PARAMETERS", b"ab", 2), ("EC PRIVATE KEY", b"abc", 6)]),
        );
    }

    #[test]
    fn faults_are_named_with_their_line() {
        for (text, line, fault) in [
            ("-----BEGIN A-----\nYWJj\n", 1, Fault::Unfinished),
            ("x\n-----BEGIN A-----\nYWJj\n-----BEGIN B-----\n", 2, Fault::Unfinished),
            ("-----BEGIN A-----\nYWJj\n-----END B-----\n", 3, Fault::Mismatch),
            ("-----END A-----\n", 1, Fault::Mismatch),
            ("-----BEGIN A----\nYWJj\n-----END A-----\n", 1, Fault::Boundary),
            ("-----BEGIN A-----\nYWJj\n-----ENDA-----\n", 3, Fault::Boundary),
            ("-----BEGIN A-----\n-----END A-----\n", 1, Fault::Empty),
            ("-----BEGIN A-----\nYWJ\n-----END A-----\n", 1, Fault::Base64),
            ("-----BEGIN A-----\nY===\n-----END A-----\n", 2, Fault::Base64),
            ("-----BEGIN A-----\nYQ==\nYQ==\n-----END A-----\n", 3, Fault::Base64),
            ("-----BEGIN A-----\nYR==\n-----END A-----\n", 2, Fault::Base64),
            ("-----BEGIN A-----\nY*==\n-----END A-----\n", 2, Fault::Base64),
            ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", 2, Fault::OldEncryption),
        ] {
            check(text, Err((line, fault)));
        }
        let many = "-----BEGIN A-----\nYWJj\n-----END A-----\n".repeat(MAX_BLOCKS + 1);
        check(&many, Err((3 * MAX_BLOCKS + 1, Fault::TooManyBlocks)));
        check(&"x".repeat(MAX_TEXT_BYTES + 1), Err((1, Fault::TooLong)));
    }

    #[test]
    fn what_is_written_is_read() {
        for length in [1, 2, 3, 47, 48, 49, 95, 96, 1000] {
            let der: Vec<u8> = (0..length).map(|value| (value * 7) as u8).collect();
            let text = write(&Label::PrivateKey, &der);
            assert!(text.lines().all(|line| line.len() <= LINE_WIDTH));
            check(&text, Ok(&[("PRIVATE KEY", &der, 1)]));
        }
    }
}
