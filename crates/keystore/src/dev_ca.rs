//! A certificate authority for trying things out and for tests: made in memory, used, thrown away.
//!
//! What it issues is what strict clients accept (RFC 5280; the CA/Browser Forum's 398 days): a name in the SAN, key usage, serverAuth, key
//! identifiers, unique serials. Its keys are new each time. Not for production: there is no revocation, and the CA key lies wherever the
//! caller puts it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, CidrSubnet,
    DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyIdMethod, KeyPair,
    KeyUsagePurpose, NameConstraints, RsaKeySize, SerialNumber,
};
use tls::KeyType;
use zeroize::Zeroizing;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Validity of everything issued, from a day ago (clocks differ) to this long after that. Browsers reject more than 398 days.
const VALIDITY: Duration = Duration::from_secs(397 * 24 * 3600);

/// A development CA.
#[derive(Debug)]
pub struct DevCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
#[derive(Debug, Clone)]
pub struct IssuedPair {
    /// The leaf. The CA is its direct issuer, so that this is the whole chain.
    pub certificate_pem: String,
    /// PKCS#8.
    pub key_pem: Zeroizing<String>,
}

impl IssuedPair {
    /// Certificate and key in one file, as a folder of keys has them.
    pub fn in_one_file(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}{}", self.certificate_pem, *self.key_pem))
    }
}

/// That a CA is for nothing but this machine (`localhost`, what is below it, loopback addresses) and these: DNS names and what is below them, wildcards, IP
/// addresses, and networks (`10.0.0.0/8`). There is always an address among them: without one, all addresses were permitted.
pub fn constraints<'n>(names: impl Iterator<Item = &'n str>) -> NameConstraints {
    let name = |name: &'n str| {
        let (address, bits) = name.split_once('/').map_or((name, None), |(address, bits)| (address, bits.parse().ok()));
        match address.parse::<IpAddr>() {
            Ok(address) => {
                let most = if address.is_ipv4() { 32 } else { 128 };
                GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, bits.unwrap_or(most)))
            }
            Err(_) => GeneralSubtree::DnsName(name.strip_prefix("*.").unwrap_or(name).to_owned()),
        }
    };
    let machine = [
        GeneralSubtree::DnsName("localhost".to_owned()),
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8)),
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(IpAddr::V6(Ipv6Addr::LOCALHOST), 128)),
    ];
    NameConstraints {
        permitted_subtrees: machine.into_iter().chain(names.map(name)).collect(),
        excluded_subtrees: Vec::new(),
    }
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Proves a server.
    Server,
    /// Proves a client.
    Client,
}

impl Purpose {
    /// As a certificate says it (RFC 5280 §4.2.1.12).
    pub(crate) fn usage(self) -> ExtendedKeyUsagePurpose {
        match self {
            Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }
    }
}

impl DevCa {
    /// A new CA with an ECDSA P-256 key under this common name, for any name: not for a machine whose users are to trust it.
    ///
    /// # Errors
    /// The library could not make the key.
    pub fn new(common_name: &str) -> Result<DevCa, Error> {
        DevCa::with(common_name, None)
    }

    /// One that nobody believes but for this machine (`localhost`, what is below it, loopback addresses) and these names: DNS names and what is below them,
    /// wildcards, IP addresses. So whoever gets its key can be nobody else to those who trust it (RFC 5280 §4.2.1.10; the extension is critical).
    ///
    /// # Errors
    /// The library could not make the key.
    pub fn only_for(common_name: &str, names: &[&str]) -> Result<DevCa, Error> {
        DevCa::with(common_name, Some(constraints(names.iter().copied())))
    }

    fn with(common_name: &str, name_constraints: Option<NameConstraints>) -> Result<DevCa, Error> {
        let mut params = parameters(common_name, Vec::new())?;
        params.name_constraints = name_constraints;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(DevCa { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// The CA's certificate, for clients to trust.
    pub fn certificate_pem(&self) -> String {
        self.issuer.pem()
    }

    /// A revocation list of this CA without entries, as PEM.
    ///
    /// # Errors
    /// The library could not sign it.
    pub fn empty_revocation_list(&self) -> Result<String, Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let this_update = rcgen::date_time_ymd(1970, 1, 1) + now.saturating_sub(DAY);
        let list = CertificateRevocationListParams {
            this_update,
            next_update: this_update + VALIDITY,
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer)?.pem()
    }

    /// Issues a certificate for `names` (DNS names, wildcards, IP addresses) with a new key: ECDSA P-256 or RSA-2048.
    ///
    /// # Errors
    /// `names` is empty or holds what is neither; Ed25519 is asked for, whose keys the library writes in a form (RFC 5958) that OpenSSL 3.0 does
    /// not read; or the library could not make the key.
    pub fn issue(&self, names: &[&str], key_type: KeyType, purpose: Purpose) -> Result<IssuedPair, Error> {
        let first = names.first().ok_or(Error::CouldNotParseCertificate)?;
        let key = match key_type {
            KeyType::Ecdsa => KeyPair::generate()?,
            KeyType::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?,
            KeyType::Ed25519 => return Err(Error::KeyGenerationUnavailable),
        };
        // An address there would be compared with permitted names, as if it were one.
        let called =
            first.parse::<IpAddr>().map_or_else(|_| (*first).to_owned(), |address| format!("address {address}"));
        let mut params = parameters(&called, names.iter().map(|name| (*name).to_owned()).collect())?;
        // Said explicitly, because only then the subject key identifier is written too.
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if key_type == KeyType::Rsa {
            // For the RSA key exchange of old clients (RFC 5246 §7.4.2).
            params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        }
        params.extended_key_usages = vec![purpose.usage()];
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(IssuedPair { certificate_pem: certificate.pem(), key_pem: Zeroizing::new(key.serialize_pem()) })
    }
}

/// What all certificates of ours have in common. The serial number is left to the library, which derives it from the new key.
fn parameters(common_name: &str, names: Vec<String>) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Portunus development");
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    params.not_before = rcgen::date_time_ymd(1970, 1, 1) + now.saturating_sub(DAY);
    params.not_after = params.not_before + VALIDITY;
    Ok(params)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use std::fs;
    use std::process::Command;

    fn openssl(arguments: &[&str]) -> String {
        let output =
            Command::new("openssl").args(arguments).output().expect("openssl is installed (Debian package openssl)");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "openssl {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    #[test]
    fn strict_clients_accept_what_it_issues() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let ca = DevCa::new("Test CA").unwrap();
        fs::write(path("ca.pem"), ca.certificate_pem()).unwrap();
        let mut serials = vec![openssl(&["x509", "-in", &path("ca.pem"), "-noout", "-serial"])];
        for (names, host, key_type, shown) in [
            (&["www.portunus.test"][..], "www.portunus.test", KeyType::Ecdsa, "prime256v1"),
            (&["www.portunus.test"], "www.portunus.test", KeyType::Rsa, "Public-Key: (2048 bit)"),
            (&["*.apps.portunus.test", "apps.portunus.test"], "a.apps.portunus.test", KeyType::Ecdsa, "prime256v1"),
        ] {
            let pair = ca.issue(names, key_type, Purpose::Server).unwrap();
            fs::write(path("leaf.pem"), &pair.certificate_pem).unwrap();
            fs::write(path("leaf.key"), pair.key_pem.as_bytes()).unwrap();
            let leaf = path("leaf.pem");
            let verify =
                ["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", &path("ca.pem"), "-verify_hostname"];
            openssl(&[&verify[..], &[host, &leaf]].concat());
            let text = openssl(&["x509", "-in", &leaf, "-noout", "-text"]);
            assert!(text.contains(shown), "{key_type:?}: {text}");
            for needed in [
                "Digital Signature",
                "TLS Web Server Authentication",
                "Authority Key Identifier",
                "Subject Key Identifier",
            ] {
                assert!(text.contains(needed), "{needed} is missing: {text}");
            }
            // Not valid for more than 398 days: in 397 days it has ended.
            let in_397_days = ["x509", "-in", &leaf, "-noout", "-checkend", "34300800"];
            assert!(!Command::new("openssl").args(in_397_days).output().unwrap().status.success());
            let public = openssl(&["x509", "-in", &leaf, "-noout", "-pubkey"]);
            assert_eq!(
                public,
                openssl(&["pkey", "-in", &path("leaf.key"), "-pubout"]),
                "key and certificate belong together"
            );
            serials.push(openssl(&["x509", "-in", &leaf, "-noout", "-serial"]));
        }
        serials.sort();
        serials.dedup();
        assert_eq!(serials.len(), 4, "serials are unique");
    }

    #[test]
    fn one_for_some_names_is_believed_for_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let ca = DevCa::only_for("Test CA", &["www.portunus.test", "*.apps.portunus.test", "10.1.2.3"]).unwrap();
        fs::write(path("ca.pem"), ca.certificate_pem()).unwrap();
        let text = openssl(&["x509", "-in", &path("ca.pem"), "-noout", "-text"]);
        assert!(text.contains("X509v3 Name Constraints: critical"), "{text}");
        for (name, is_permitted) in [
            ("localhost", true),
            ("app.localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("www.portunus.test", true),
            ("*.apps.portunus.test", true),
            ("10.1.2.3", true),
            ("www.example.com", false),
            ("portunus.test", false),
            ("notwww.portunus.test", false),
            ("10.1.2.4", false),
            ("::2", false),
        ] {
            let pair = ca.issue(&[name], KeyType::Ecdsa, Purpose::Server).unwrap();
            fs::write(path("leaf.pem"), &pair.certificate_pem).unwrap();
            let verify = ["verify", "-x509_strict", "-CAfile", &path("ca.pem"), &path("leaf.pem")];
            assert_eq!(Command::new("openssl").args(verify).output().unwrap().status.success(), is_permitted, "{name}");
        }
    }

    #[test]
    fn a_client_certificate_proves_no_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let ca = DevCa::new("Test CA").unwrap();
        fs::write(path("ca.pem"), ca.certificate_pem()).unwrap();
        fs::write(path("leaf.pem"), ca.issue(&["someone"], KeyType::Ecdsa, Purpose::Client).unwrap().certificate_pem)
            .unwrap();
        let verify = |purpose: &str| {
            let (ca, leaf) = (path("ca.pem"), path("leaf.pem"));
            Command::new("openssl")
                .args(["verify", "-purpose", purpose, "-CAfile", &ca, &leaf])
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(verify("sslclient"));
        assert!(!verify("sslserver"));
        assert!(ca.issue(&[], KeyType::Ecdsa, Purpose::Client).is_err());
    }
}
