//! The library's traits for keys, over `tls`: packet and header protection, stateless resets, address tokens.

use bytes::BytesMut;
use quinn_proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair, Keys, PacketKey};
use tls::crypto::digest::constant_time_eq;
use tls::crypto::sealing::SealingKey;
use tls::crypto::verify::keyed_hash;
use tls::packet::{self, SAMPLE_BYTES, Secret, TAG_BYTES};

use crate::padding;

/// Packet protection one way.
pub(crate) struct Packets {
    key: packet::PacketKey,
    /// What it opens are Initial packets.
    opens_initial: bool,
}

impl Packets {
    pub(crate) fn of(secret: &Secret) -> Box<dyn PacketKey> {
        Box::new(Packets { key: secret.packet_key(), opens_initial: false })
    }
}

impl PacketKey for Packets {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.key.seal(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = self.key.open(packet, header, payload).ok_or(CryptoError)?;
        payload.truncate(length);
        if self.opens_initial && length > 0 {
            padding::take_out(payload);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.suite().confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.suite().integrity_limit()
    }
}

/// Header protection one way.
struct Headers(packet::HeaderKey);

impl HeaderKey for Headers {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.mask(packet, pn_offset, false);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.mask(packet, pn_offset, true);
    }

    fn sample_size(&self) -> usize {
        SAMPLE_BYTES
    }
}

/// The keys of one level.
pub(crate) fn keys(local: &Secret, remote: &Secret) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(Headers(local.header_key())),
            remote: Box::new(Headers(remote.header_key())),
        },
        packet: KeyPair { local: Packets::of(local), remote: Packets::of(remote) },
    }
}

/// The keys of Initial packets of one side, which come from the id that the client chose.
pub(crate) fn initial_keys(destination: &[u8], is_server: bool) -> Keys {
    let (client, server) = packet::initial_secrets(destination);
    let (local, remote) = if is_server { (server, client) } else { (client, server) };
    let keys = keys(&local, &remote);
    let opens = Packets { key: remote.packet_key(), opens_initial: true };
    Keys { packet: KeyPair { local: keys.packet.local, remote: Box::new(opens) }, ..keys }
}

/// Makes the tokens of stateless resets (RFC 9000 §10.3).
pub(crate) struct ResetKey(pub(crate) [u8; 32]);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (out, byte) in signature_out.iter_mut().zip(keyed_hash(&self.0, data)) {
            *out = byte;
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        if constant_time_eq(&keyed_hash(&self.0, data), signature) { Ok(()) } else { Err(CryptoError) }
    }
}

/// Seals address tokens (RFC 9000 §8.1.3), each under a key of its own.
pub(crate) struct TokenKey(pub(crate) [u8; 32]);

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(OneToken(SealingKey::new(&keyed_hash(&self.0, random_bytes)).ok()))
    }
}

struct OneToken(Option<SealingKey>);

impl AeadKey for OneToken {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let key = self.0.as_ref().ok_or(CryptoError)?;
        *data = key.seal(additional_data, data).map_err(|_| CryptoError)?;
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let key = self.0.as_ref().ok_or(CryptoError)?;
        let opened = key.open(additional_data, data).ok_or(CryptoError)?;
        let place = data.get_mut(..opened.len()).ok_or(CryptoError)?;
        place.copy_from_slice(&opened);
        Ok(place)
    }
}
