//! Test certificates, choosers, and two sessions wired to each other in memory.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, SignatureAlgorithm, date_time_ymd,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tls::{
    Acceptor, Alert, Choice, Chooser, Connector, Error, Handshake, Identity, KeyType, Policy, ProtocolVersion, Read,
    ServerName, Session, TicketKeys,
};
use wire::client_hello::ClientHello;
use zeroize::Zeroizing;

pub const NAME: &str = "site.example";
pub const ECDSA: &SignatureAlgorithm = &rcgen::PKCS_ECDSA_P256_SHA256;
pub const RSA: &SignatureAlgorithm = &rcgen::PKCS_RSA_SHA256;

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub der: Vec<u8>,
    pub pem: String,
}

/// A certificate with its key.
pub struct Issued {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    pub identity: Arc<Identity>,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        Authority { der: root.der().to_vec(), pem: root.pem(), issuer: Issuer::new(params, key) }
    }

    /// An authority below this one, whose certificate is good until the given year.
    pub fn below(&self, name: &str, until_year: i32) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_after = date_time_ymd(until_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Authority { der: certificate.der().to_vec(), pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    /// A certificate for `NAME` and its subdomain, 127.0.0.1, a URI and an e-mail address.
    pub fn issue(&self, algorithm: &'static SignatureAlgorithm) -> Issued {
        self.issue_with(algorithm, |_| ())
    }

    pub fn issue_with(
        &self,
        algorithm: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name("a leaf");
        params.distinguished_name.push(DnType::OrganizationName, "Ports, Doors & Keys");
        params.serial_number = Some(SerialNumber::from(vec![0x0a, 0xbc]));
        params.subject_alt_names = vec![
            SanType::DnsName(NAME.try_into().unwrap()),
            SanType::DnsName("sub.site.example".try_into().unwrap()),
            SanType::URI("spiffe://site.example/leaf".try_into().unwrap()),
            SanType::Rfc822Name("leaf@site.example".try_into().unwrap()),
            SanType::IpAddress([127, 0, 0, 1].into()),
        ];
        change(&mut params);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().to_vec();
        let kind = if algorithm == RSA {
            KeyType::Rsa
        } else if algorithm == &rcgen::PKCS_ED25519 {
            KeyType::Ed25519
        } else {
            KeyType::Ecdsa
        };
        let key = key.serialize_der();
        let identity = Identity::new(vec![certificate.clone()], Zeroizing::new(key.clone()), kind);
        Issued { certificate, key, identity }
    }

    /// A current revocation list that names these serial numbers.
    pub fn revoke(&self, serials: &[&[u8]]) -> Vec<u8> {
        self.revocation_list(serials, 4000)
    }

    /// A revocation list that is current until the given year.
    pub fn revocation_list(&self, serials: &[&[u8]], until_year: i32) -> Vec<u8> {
        let revoked = |serial: &&[u8]| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until_year, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().der().to_vec()
    }
}

fn distinguished_name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

/// Always the same choice; counts how often it was asked.
pub struct Fixed(pub Result<Choice, Alert>, pub AtomicUsize);

impl Chooser for Fixed {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        assert!(!hello.cipher_suites.is_empty());
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.clone()
    }

    fn asks_for_certificates(&self) -> bool {
        self.0.as_ref().is_ok_and(|choice| choice.client_auth.is_some())
    }
}

pub fn fixed(choice: Choice) -> Arc<Fixed> {
    Arc::new(Fixed(Ok(choice), AtomicUsize::new(0)))
}

/// The default policy, no ALPN, no client certificates.
pub fn choice(identity: &Arc<Identity>) -> Choice {
    Choice {
        identity: Arc::clone(identity),
        policy: Policy::Intermediate,
        min_version: ProtocolVersion::Tls12,
        alpn: Arc::new([]),
        client_auth: None,
        context: [7; 32],
    }
}

pub fn tickets() -> Arc<TicketKeys> {
    Arc::new(TicketKeys::new(Duration::from_secs(3600)))
}

pub fn acceptor() -> Acceptor {
    Acceptor::new(tickets()).unwrap()
}

/// A client that trusts `authority`, speaks no ALPN, and TLS 1.0 to 1.3.
pub fn connector(authority: &Authority) -> Connector {
    Connector::new(std::slice::from_ref(&authority.der), true, None, &[], ProtocolVersion::Tls10).unwrap()
}

pub fn name() -> ServerName {
    ServerName::Dns(NAME.into())
}

/// Two sessions and the bytes on their way between them.
pub struct Pair {
    pub client: Session,
    pub server: Session,
    pub to_server: Vec<u8>,
    pub to_client: Vec<u8>,
}

/// How a handshake ended on both sides.
#[derive(Debug, PartialEq, Eq)]
pub struct Ends {
    pub client: Result<(), Error>,
    pub server: Result<(), Error>,
}

impl Pair {
    pub fn new(connector: &Connector, acceptor: &Acceptor, chooser: Arc<dyn Chooser + Send + Sync>) -> Pair {
        let client = Session::client(connector, &name()).unwrap();
        let server = Session::server(acceptor, chooser).unwrap();
        Pair { client, server, to_server: Vec::new(), to_client: Vec::new() }
    }

    /// Runs both handshakes until they are over or stuck. `step` bytes at most are handed over at a time.
    pub fn handshake_in_steps(&mut self, step: usize) -> Ends {
        let (mut client, mut server) = (None, None);
        for _ in 0..100_000 {
            let before = (self.to_server.len(), self.to_client.len(), client.is_some(), server.is_some());
            advance(&mut self.client, &mut self.to_client, &mut self.to_server, &mut client, step);
            advance(&mut self.server, &mut self.to_server, &mut self.to_client, &mut server, step);
            let after = (self.to_server.len(), self.to_client.len(), client.is_some(), server.is_some());
            if before == after {
                break;
            }
        }
        let stuck = || Err(Error::Ours("stuck".into()));
        Ends { client: client.unwrap_or_else(stuck), server: server.unwrap_or_else(stuck) }
    }

    pub fn handshake(&mut self) -> Ends {
        self.handshake_in_steps(usize::MAX)
    }

    /// A pair whose handshake is done.
    pub fn connected(connector: &Connector, acceptor: &Acceptor, choice: Choice) -> Pair {
        let mut pair = Pair::new(connector, acceptor, fixed(choice));
        let ends = pair.handshake();
        assert_eq!(ends, Ends { client: Ok(()), server: Ok(()) });
        pair
    }

    /// Bytes one way and back; also takes in the tickets.
    pub fn echo(&mut self) {
        self.client.write(b"to the server", &mut self.to_server).unwrap();
        assert_eq!(read_all(&mut self.server, &mut self.to_server), Ok(b"to the server".to_vec()));
        self.server.write(b"to the client", &mut self.to_client).unwrap();
        assert_eq!(read_all(&mut self.client, &mut self.to_client), Ok(b"to the client".to_vec()));
    }
}

fn advance(
    session: &mut Session,
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
    end: &mut Option<Result<(), Error>>,
    step: usize,
) {
    if end.is_some() {
        return;
    }
    let given = input.len().min(step);
    let mut left = &input[..given];
    let result = session.handshake(&mut left, output);
    let taken = given - left.len();
    input.drain(..taken);
    match result {
        Ok(Handshake::WantInput) => assert_eq!(taken, given, "all input is taken before more is wanted"),
        Ok(Handshake::WantKey | Handshake::WantCertificate) => {}
        Ok(Handshake::Done) => *end = Some(Ok(())),
        Err(error) => *end = Some(Err(error)),
    }
}

/// Reads until nothing more comes.
pub fn read_all(session: &mut Session, input: &mut Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut left = input.as_slice();
    let (mut all, mut output) = (Vec::new(), Vec::new());
    let mut plain = vec![0; 64 * 1024];
    let result = loop {
        match session.read(&mut left, &mut plain, &mut output) {
            Ok(Read::Plain(count)) => all.extend_from_slice(&plain[..count]),
            Ok(Read::WantInput | Read::Closed) => break Ok(all),
            Err(error) => break Err(error),
        }
    };
    let taken = input.len() - left.len();
    input.drain(..taken);
    result
}

/// The description of the plaintext alert record that `bytes` end with.
pub fn last_alert(bytes: &[u8]) -> Option<u8> {
    let record = bytes.last_chunk::<7>()?;
    match record {
        [21, 3, _, 0, 2, 2, description] => Some(*description),
        _ => None,
    }
}

impl Pair {
    /// The alert that the client got, in its handshake or (TLS 1.3, whose clients finish first) behind it.
    pub fn alert_at_client(&mut self, ends: &Ends) -> Option<u8> {
        match &ends.client {
            Err(Error::PeerAlert(alert)) => Some(alert.0),
            Err(_) => None,
            Ok(()) => match read_all(&mut self.client, &mut self.to_client) {
                Err(Error::PeerAlert(alert)) => Some(alert.0),
                _ => None,
            },
        }
    }
}

/// The reason of an error that is the peer's fault.
pub fn peer_reason(result: &Result<(), Error>) -> &str {
    match result {
        Err(Error::Peer(reason)) => reason,
        other => panic!("not the peer's fault: {other:?}"),
    }
}

/// The first flight of a client, a single record.
pub fn client_hello(connector: &Connector) -> Vec<u8> {
    let mut output = Vec::new();
    let mut client = Session::client(connector, &name()).unwrap();
    assert_eq!(client.handshake(&mut &[][..], &mut output), Ok(Handshake::WantInput));
    output
}
