//! Packet protection of QUIC version 1: the AEAD over a packet, the mask over its header, and how keys come from secrets.
//!
//! Works on bytes that the caller has laid out; knows no frame. Ruled by RFC 9001 §5 and RFC 8446 §7.1.

use std::fmt;
use std::os::raw::c_uint;
use std::ptr;

use aws_lc_sys as sys;
use zeroize::{Zeroize, Zeroizing};

/// Bytes that protection adds to a packet (RFC 9001 §5.3).
pub const TAG_BYTES: usize = 16;

/// Bytes of ciphertext that a header's mask is made of (RFC 9001 §5.4.2).
pub const SAMPLE_BYTES: usize = 16;

const NONCE_BYTES: usize = 12;

/// The longest traffic secret there is: that of SHA-384.
const MOST_SECRET_BYTES: usize = 48;

/// Salt of the secrets of Initial packets (RFC 9001 §5.2).
const INITIAL_SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f,
    0x0a,
];

/// Key and nonce of the tag of Retry packets, which are no secrets (RFC 9001 §5.8).
const RETRY_KEY: [u8; 16] =
    [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
const RETRY_NONCE: [u8; NONCE_BYTES] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];

/// The algorithms of a TLS 1.3 cipher suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256, also that of Initial packets.
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20Poly1305,
}

impl Suite {
    /// The suite of this number (RFC 8446 §B.4).
    pub(crate) fn from_number(number: u16) -> Option<Suite> {
        match number {
            0x1301 => Some(Suite::Aes128Gcm),
            0x1302 => Some(Suite::Aes256Gcm),
            0x1303 => Some(Suite::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// How many packets may be sealed under one key (RFC 9001 §6.6).
    pub fn confidentiality_limit(self) -> u64 {
        match self {
            Suite::Aes128Gcm | Suite::Aes256Gcm => 1 << 23,
            // More than there are packet numbers.
            Suite::ChaCha20Poly1305 => u64::MAX,
        }
    }

    /// How many packets may fail to open before the connection must end (RFC 9001 §6.6).
    pub fn integrity_limit(self) -> u64 {
        match self {
            Suite::Aes128Gcm | Suite::Aes256Gcm => 1 << 52,
            Suite::ChaCha20Poly1305 => 1 << 36,
        }
    }

    fn key_bytes(self) -> usize {
        if self == Suite::Aes128Gcm { 16 } else { 32 }
    }

    fn digest(self) -> *const sys::EVP_MD {
        // SAFETY: both only give a static table.
        unsafe { if self == Suite::Aes256Gcm { sys::EVP_sha384() } else { sys::EVP_sha256() } }
    }
}

/// A traffic secret.
#[derive(Clone)]
pub struct Secret {
    suite: Suite,
    bytes: Zeroizing<[u8; MOST_SECRET_BYTES]>,
    len: usize,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl Secret {
    /// A secret of these bytes, for keys of `suite`; none if it is longer than any is.
    pub(crate) fn new(suite: Suite, secret: &[u8]) -> Option<Secret> {
        let mut bytes = Zeroizing::new([0; MOST_SECRET_BYTES]);
        bytes.get_mut(..secret.len())?.copy_from_slice(secret);
        Some(Secret { suite, bytes, len: secret.len() })
    }

    /// What protects packets under this secret.
    pub fn packet_key(&self) -> PacketKey {
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..self.suite.key_bytes()];
        self.expand(b"quic key", key);
        let mut iv = [0; NONCE_BYTES];
        self.expand(b"quic iv", &mut iv);
        PacketKey::new(self.suite, key, iv)
    }

    /// What protects the headers of packets under this secret. It stays the same when keys are updated.
    pub fn header_key(&self) -> HeaderKey {
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..self.suite.key_bytes()];
        self.expand(b"quic hp", key);
        HeaderKey::new(self.suite, key)
    }

    /// The secret after the next key update (RFC 9001 §6.1).
    pub fn next(&self) -> Secret {
        let mut next = Secret { suite: self.suite, bytes: Zeroizing::new([0; MOST_SECRET_BYTES]), len: self.len };
        let len = self.len;
        self.expand(b"quic ku", &mut next.bytes[..len]);
        next
    }

    /// HKDF-Expand-Label without context (RFC 8446 §7.1).
    fn expand(&self, label: &[u8], out: &mut [u8]) {
        expand_label(self.suite.digest(), &self.bytes[..self.len], label, out);
    }
}

fn expand_label(digest: *const sys::EVP_MD, secret: &[u8], label: &[u8], out: &mut [u8]) {
    const PREFIX: &[u8] = b"tls13 ";
    let mut info = [0; 32];
    let length = u16::try_from(out.len()).unwrap_or(0).to_be_bytes();
    let labelled = PREFIX.len() + label.len();
    info[..2].copy_from_slice(&length);
    info[2] = labelled as u8;
    info[3..3 + PREFIX.len()].copy_from_slice(PREFIX);
    info[3 + PREFIX.len()..3 + labelled].copy_from_slice(label);
    // The last byte says that there is no context. SAFETY: the digest is a static table; all slices are live for their lengths. For such lengths it
    // cannot fail.
    unsafe {
        let (secret_len, info_len) = (secret.len(), 4 + labelled);
        sys::HKDF_expand(out.as_mut_ptr(), out.len(), digest, secret.as_ptr(), secret_len, info.as_ptr(), info_len);
    }
}

/// The secrets of the Initial packets of client and server, which everybody can make who has seen the connection id that the client chose (RFC 9001 §5.2).
pub fn initial_secrets(destination: &[u8]) -> (Secret, Secret) {
    let suite = Suite::Aes128Gcm;
    let mut initial = [0; 64];
    let mut len = 0;
    // SAFETY: `initial` takes the longest digest; the other slices are live for their lengths.
    unsafe {
        sys::HKDF_extract(
            initial.as_mut_ptr(),
            &raw mut len,
            suite.digest(),
            destination.as_ptr(),
            destination.len(),
            INITIAL_SALT.as_ptr(),
            INITIAL_SALT.len(),
        );
    }
    let side = |label: &[u8]| {
        let mut secret = Secret { suite, bytes: Zeroizing::new([0; MOST_SECRET_BYTES]), len: 32 };
        expand_label(suite.digest(), &initial[..len.min(32)], label, &mut secret.bytes[..32]);
        secret
    };
    (side(b"client in"), side(b"server in"))
}

/// The tag of a Retry packet, of which `packet` is all but the tag, in response to an Initial packet to `destination` (RFC 9001 §5.8).
pub fn retry_tag(destination: &[u8], packet: &[u8]) -> [u8; TAG_BYTES] {
    let mut about = Vec::with_capacity(1 + destination.len() + packet.len());
    about.push(u8::try_from(destination.len()).unwrap_or(u8::MAX));
    about.extend_from_slice(destination);
    about.extend_from_slice(packet);
    let mut tag = [0; TAG_BYTES];
    PacketKey::new(Suite::Aes128Gcm, &RETRY_KEY, RETRY_NONCE).seal_under(RETRY_NONCE, &about, &mut tag);
    tag
}

/// Protects packets one way.
pub struct PacketKey {
    /// Boxed, since the library keeps to the address.
    context: Box<sys::EVP_AEAD_CTX>,
    suite: Suite,
    iv: [u8; NONCE_BYTES],
}

// SAFETY: the context is not changed after it was made; sealing and opening take it as const and keep nothing in it (`openssl/aead.h`: a context may be used
// by several threads at once).
unsafe impl Send for PacketKey {}
// SAFETY: as above.
unsafe impl Sync for PacketKey {}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketKey").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl Drop for PacketKey {
    fn drop(&mut self) {
        // SAFETY: the context was set up or zeroed by `new` and is cleaned up once.
        unsafe { sys::EVP_AEAD_CTX_cleanup(&raw mut *self.context) };
    }
}

impl PacketKey {
    fn new(suite: Suite, key: &[u8], iv: [u8; NONCE_BYTES]) -> PacketKey {
        // SAFETY: all-zero bytes are what `EVP_AEAD_CTX_zero` makes: a context without an algorithm. The algorithms are static tables, and the key is
        // readable for its length and copied. If setting up fails, the context is without an algorithm again.
        let context = unsafe {
            let mut context: Box<sys::EVP_AEAD_CTX> = Box::new(std::mem::zeroed());
            let algorithm = match suite {
                Suite::Aes128Gcm => sys::EVP_aead_aes_128_gcm(),
                Suite::Aes256Gcm => sys::EVP_aead_aes_256_gcm(),
                Suite::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
            };
            let (key, len) = (key.as_ptr(), key.len());
            sys::EVP_AEAD_CTX_init(&raw mut *context, algorithm, key, len, TAG_BYTES, ptr::null_mut());
            context
        };
        PacketKey { context, suite, iv }
    }

    /// The algorithms.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Seals a packet in place: `packet` is a header of `header_len` bytes, the payload, and room for the tag.
    pub fn seal(&self, number: u64, packet: &mut [u8], header_len: usize) {
        if let Some((header, rest)) = packet.split_at_mut_checked(header_len) {
            self.seal_under(self.nonce(number), header, rest);
        }
    }

    /// Opens a payload in place; gives its length without the tag, or none if it was not sealed so.
    pub fn open(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Option<usize> {
        if self.context.aead.is_null() {
            return None;
        }
        let nonce = self.nonce(number);
        let mut written = 0;
        let (place, len) = (payload.as_mut_ptr(), payload.len());
        // SAFETY: the context is live; `place` is readable and writable for `len` bytes, and the library opens in place where input and output are the same;
        // nonce and header are readable for their lengths and apart from it.
        let done = unsafe {
            sys::EVP_AEAD_CTX_open(
                &raw const *self.context,
                place,
                &raw mut written,
                len,
                nonce.as_ptr(),
                nonce.len(),
                place,
                len,
                header.as_ptr(),
                header.len(),
            )
        };
        if done != 1 {
            // What a stranger sent must not look like an error of the next call. SAFETY: touches the queue of this thread alone.
            unsafe { sys::ERR_clear_error() };
            return None;
        }
        Some(written)
    }

    /// Seals what stands before the last [`TAG_BYTES`] of `rest`, which take the tag. What cannot be sealed is wiped.
    fn seal_under(&self, nonce: [u8; NONCE_BYTES], about: &[u8], rest: &mut [u8]) {
        let mut written = 0;
        let mut done = 0;
        if let Some(len) = rest.len().checked_sub(TAG_BYTES).filter(|_| !self.context.aead.is_null()) {
            let (place, room) = (rest.as_mut_ptr(), rest.len());
            // SAFETY: as in `open`; `place` has room for the tag behind its `len` bytes.
            done = unsafe {
                sys::EVP_AEAD_CTX_seal(
                    &raw const *self.context,
                    place,
                    &raw mut written,
                    room,
                    nonce.as_ptr(),
                    nonce.len(),
                    place,
                    len,
                    about.as_ptr(),
                    about.len(),
                )
            };
        }
        if done != 1 {
            rest.fill(0);
        }
    }

    /// RFC 9001 §5.3.
    fn nonce(&self, number: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_BYTES - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }
}

/// Masks the headers of packets one way.
pub struct HeaderKey(Cipher);

enum Cipher {
    Aes(Box<sys::AES_KEY>),
    ChaCha20(Zeroizing<[u8; 32]>),
}

impl Drop for HeaderKey {
    fn drop(&mut self) {
        if let Cipher::Aes(key) = &mut self.0 {
            key.rd_key.zeroize();
        }
    }
}

impl fmt::Debug for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderKey")
    }
}

impl HeaderKey {
    fn new(suite: Suite, key: &[u8]) -> HeaderKey {
        if suite == Suite::ChaCha20Poly1305 {
            let mut bytes = Zeroizing::new([0; 32]);
            bytes[..key.len()].copy_from_slice(key);
            return HeaderKey(Cipher::ChaCha20(bytes));
        }
        let mut schedule = Box::new(sys::AES_KEY { rd_key: [0; 60], rounds: 0 });
        // SAFETY: the key has 16 or 32 bytes, as its bits say; the schedule is writable.
        unsafe { sys::AES_set_encrypt_key(key.as_ptr(), 8 * key.len() as c_uint, &raw mut *schedule) };
        HeaderKey(Cipher::Aes(schedule))
    }

    /// Puts the mask over a header or takes it off: `packet` begins with the header, whose packet number is at `number_at` (RFC 9001 §5.4.1). A packet that
    /// is too short for it stays as it is.
    pub fn mask(&self, packet: &mut [u8], number_at: usize, protects: bool) {
        let sample_at = number_at + 4;
        let Some(sample) = packet.get(sample_at..).and_then(|rest| rest.first_chunk::<SAMPLE_BYTES>()) else { return };
        let mask = self.of(sample);
        let Some(first) = packet.first_mut() else { return };
        let masked = *first ^ (mask[0] & if *first & 0x80 != 0 { 0x0f } else { 0x1f });
        // The packet number's own length is under the mask.
        let clear = if protects { *first } else { masked };
        *first = masked;
        let length = usize::from(clear & 0x03) + 1;
        for (byte, mask) in packet[number_at..].iter_mut().zip(&mask[1..]).take(length) {
            *byte ^= mask;
        }
    }

    /// RFC 9001 §5.4.3 and §5.4.4.
    fn of(&self, sample: &[u8; SAMPLE_BYTES]) -> [u8; 5] {
        let mut mask = [0; 5];
        match &self.0 {
            Cipher::Aes(key) => {
                let mut block = [0; SAMPLE_BYTES];
                // SAFETY: input and output are one block each; the schedule is set up.
                unsafe { sys::AES_encrypt(sample.as_ptr(), block.as_mut_ptr(), &raw const **key) };
                mask.copy_from_slice(&block[..5]);
            }
            Cipher::ChaCha20(key) => {
                let (counter, nonce) = sample.split_at(4);
                let counter = counter.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                let zeros = mask;
                // SAFETY: five bytes in and out, apart from each other; the key has 32 bytes and the nonce 12.
                unsafe {
                    let (into, from) = (mask.as_mut_ptr(), zeros.as_ptr());
                    sys::CRYPTO_chacha_20(into, from, mask.len(), key.as_ptr(), nonce.as_ptr(), counter);
                }
            }
        }
        mask
    }
}

#[cfg(test)]
mod tests;
