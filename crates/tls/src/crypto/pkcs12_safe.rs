//! What the parts of a PKCS#12 container hold: bags with attributes (RFC 7292 §4.2).

use super::password_cipher::{self, Budget};
use super::pkcs12::{Contents, Key, Label, LabelledCertificate};
use super::{Error, der};
use zeroize::Zeroizing;

const KEY_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x01];
const SHROUDED_KEY_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02];
const CERTIFICATE_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x03];
const X509_CERTIFICATE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
const FRIENDLY_NAME: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x14];
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x15];
/// Java's mark of a trusted certificate (2.16.840.1.113894.746875.1.1), and the only value it gives it: any extended key usage.
const TRUSTED_KEY_USAGE: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 0x01, 0x01];
const ANY_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// Reads SafeContents onto `contents`.
pub(super) fn read(bytes: &[u8], password: &str, budget: &mut Budget, contents: &mut Contents) -> Result<(), Error> {
    let bytes = der::definite(bytes)?;
    let mut reader = der::Reader::new(&bytes);
    let mut bags = reader.enter(der::SEQUENCE)?;
    reader.finish()?;
    while !bags.is_empty() {
        let mut bag = bags.enter(der::SEQUENCE)?;
        let kind = bag.expect(der::OBJECT_ID)?;
        let value = bag.expect(der::CONTEXT_0)?;
        let (label, trusted) = read_attributes(bag)?;
        match kind {
            KEY_BAG => contents.keys.push(Key { pkcs8: Zeroizing::new(value.to_vec()), label }),
            SHROUDED_KEY_BAG => {
                let pkcs8 = password_cipher::open_key(value, password, budget)?;
                contents.keys.push(Key { pkcs8, label });
            }
            CERTIFICATE_BAG => {
                let mut certificate = der::Reader::new(value).enter(der::SEQUENCE)?;
                if certificate.expect(der::OBJECT_ID)? == X509_CERTIFICATE {
                    let der = certificate.enter(der::CONTEXT_0)?.expect(der::OCTET_STRING)?.to_vec();
                    contents.certificates.push(LabelledCertificate { der, label, trusted });
                } else {
                    contents.skipped += 1;
                }
            }
            _ => contents.skipped += 1,
        }
    }
    Ok(())
}

/// The attributes that matter, from what follows a bag's value; and whether Java's mark of trust is among them.
fn read_attributes(mut bag: der::Reader<'_>) -> Result<(Label, bool), Error> {
    let mut label = Label::default();
    let mut trusted = false;
    let mut attributes = der::Reader::new(bag.optional(der::SET)?.unwrap_or(&[]));
    bag.finish()?;
    while !attributes.is_empty() {
        let mut attribute = attributes.enter(der::SEQUENCE)?;
        let kind = attribute.expect(der::OBJECT_ID)?;
        let mut values = attribute.enter(der::SET)?;
        match kind {
            FRIENDLY_NAME => {
                let units: Vec<u16> = values
                    .expect(der::BMP_STRING)?
                    .chunks(2)
                    .map(|pair| u16::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u16::from))
                    .collect();
                label.friendly_name = Some(String::from_utf16_lossy(&units));
            }
            LOCAL_KEY_ID => label.local_key_id = Some(values.expect(der::OCTET_STRING)?.to_vec()),
            TRUSTED_KEY_USAGE => trusted = true,
            _ => {}
        }
    }
    Ok((label, trusted))
}

/// SafeContents of certificates.
pub(super) fn write_certificates(certificates: &[LabelledCertificate]) -> Vec<u8> {
    let bags = certificates.iter().flat_map(|certificate| {
        let octets = der::element(der::OCTET_STRING, &certificate.der);
        let kind = der::element(der::OBJECT_ID, X509_CERTIFICATE);
        let value = der::sequence(&[&kind, &der::element(der::CONTEXT_0, &octets)]);
        bag(CERTIFICATE_BAG, &value, &certificate.label, certificate.trusted)
    });
    der::element(der::SEQUENCE, &bags.collect::<Vec<u8>>())
}

/// SafeContents of keys, each encrypted.
pub(super) fn write_keys(keys: &[Key], password: &str) -> Result<Vec<u8>, Error> {
    let mut bags = Vec::new();
    for key in keys {
        let sealed = password_cipher::seal_key(&key.pkcs8, password)?;
        bags.extend(bag(SHROUDED_KEY_BAG, &sealed, &key.label, false));
    }
    Ok(der::element(der::SEQUENCE, &bags))
}

fn bag(kind: &[u8], value: &[u8], label: &Label, trusted: bool) -> Vec<u8> {
    let attribute = |kind: &[u8], value: &[u8]| {
        der::sequence(&[&der::element(der::OBJECT_ID, kind), &der::element(der::SET, value)])
    };
    let mut attributes = Vec::new();
    if let Some(name) = &label.friendly_name {
        let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_be_bytes).collect();
        attributes.push(attribute(FRIENDLY_NAME, &der::element(der::BMP_STRING, &units)));
    }
    if let Some(id) = &label.local_key_id {
        attributes.push(attribute(LOCAL_KEY_ID, &der::element(der::OCTET_STRING, id)));
    }
    if trusted {
        attributes.push(attribute(TRUSTED_KEY_USAGE, &der::element(der::OBJECT_ID, ANY_KEY_USAGE)));
    }
    // A SET OF is sorted in DER (X.690 §11.6).
    attributes.sort();
    let value = der::element(der::CONTEXT_0, value);
    let attributes = if attributes.is_empty() { Vec::new() } else { der::element(der::SET, &attributes.concat()) };
    der::sequence(&[&der::element(der::OBJECT_ID, kind), &value, &attributes])
}
