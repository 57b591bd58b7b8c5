//! Key material that the harness does not make: pairs under other CAs, client certificates, revocation lists.

use std::path::Path;

use keystore::dev_ca::{DevCa, Purpose};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};

/// A server pair of its own small CA, as two PEM texts: certificate, key.
pub fn server_pair(name: &str) -> (String, String) {
    let pair = DevCa::new("Another CA").unwrap().issue(&[name], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
    (pair.certificate_pem, pair.key_pem.to_string())
}

/// Replaces a file at once, as a careful tool does.
pub fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

/// A CA for client certificates.
pub struct ClientCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl ClientCa {
    /// A new CA under this common name.
    pub fn new(name: &str) -> ClientCa {
        let mut params = CertificateParams::default();
        // Of the same name as what it issues it would pass for a certificate that signed itself.
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ClientCa { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// The CA's certificate, PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Certificate and key in one PEM text, for a client with this DNS name and serial number.
    pub fn issue(&self, name: &str, serial: u8) -> String {
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from(vec![serial]));
        params.subject_alt_names = vec![
            SanType::DnsName(name.try_into().unwrap()),
            SanType::URI(format!("spiffe://test/{name}").try_into().unwrap()),
        ];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        format!("{}{}", certificate.pem(), key.serialize_pem())
    }

    /// Certificate and key in one PEM text, for a client with this common name and one alternative name, a URI.
    pub fn issue_odd(&self, common_name: &str, uri: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        format!("{}{}", certificate.pem(), key.serialize_pem())
    }

    /// A current revocation list that names this serial number, DER.
    pub fn revoke(&self, serial: u8) -> Vec<u8> {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(vec![serial]),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().der().to_vec()
    }
}
