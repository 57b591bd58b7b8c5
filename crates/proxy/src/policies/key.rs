//! Who asks to pass, and what a limit counts of it apart. Pure.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use config::{CertificateKey, LimitKey};
use tls::PeerCertificate;
use wire::http::RequestHead;

use crate::auth::Subject;
use crate::client::RequestClient;

/// What is known of whoever asks to pass.
#[derive(Debug, Clone, Copy)]
pub struct Applicant<'a> {
    /// Its client.
    pub client: RequestClient,
    /// The request, if it is one.
    pub head: Option<&'a RequestHead>,
    /// The name of its route, if it has one.
    pub route: Option<&'a str>,
    /// The verified certificate of the client.
    pub certificate: Option<&'a PeerCertificate>,
    /// Who it was verified to come from so far.
    pub subject: Option<&'a Subject>,
}

impl Applicant<'_> {
    /// The hash of what a limit by these keys counts it as; none if it is not limited: a trusted proxy that names no client, or a neighbour on a Unix socket, that would
    /// be counted by itself.
    pub(super) fn counted(&self, keys: &[LimitKey], mut hasher: impl Hasher) -> Option<u64> {
        keys.iter().all(|key| self.part(key, &mut hasher).is_some()).then(|| hasher.finish())
    }

    /// Adds one part of what is counted apart; none if there is neither that nor a client.
    fn part(&self, key: &LimitKey, hasher: &mut impl Hasher) -> Option<()> {
        let value: Option<Cow<'_, [u8]>> = match key {
            LimitKey::Client => None,
            LimitKey::Route => {
                (2_u8, self.route).hash(hasher);
                return Some(());
            }
            LimitKey::Header(name) => self.head.and_then(|head| only(head.values(name))).map(Cow::Borrowed),
            LimitKey::Cookie(name) => {
                self.head.and_then(|head| only(head.fields.cookies(name.as_bytes()))).map(Cow::Borrowed)
            }
            LimitKey::Claim(name) => match self.subject.map(|subject| subject.claim(name)) {
                Some(Ok(Some(Cow::Borrowed(text)))) => Some(text.as_bytes().into()),
                Some(Ok(Some(Cow::Owned(text)))) => Some(text.into_bytes().into()),
                // What readers could take for different things counts for nobody else.
                None | Some(Ok(None) | Err(_)) => None,
            },
            LimitKey::Certificate(part) => self.certificate.and_then(|certificate| part_of(certificate, *part)),
        };
        match value {
            Some(value) => (1_u8, value).hash(hasher),
            None => {
                let client = self.client.of_share().or(self.client.address.filter(|_| self.client.is_doubtful));
                (0_u8, network_of(client?)).hash(hasher);
            }
        }
        Some(())
    }
}

/// What a certificate is counted by.
fn part_of(certificate: &PeerCertificate, part: CertificateKey) -> Option<Cow<'_, [u8]>> {
    let text = match part {
        CertificateKey::Fingerprint => &certificate.fingerprint,
        CertificateKey::Subject => &certificate.subject,
        CertificateKey::San => certificate.first_name()?,
    };
    Some(text.as_bytes().into()).filter(|text: &Cow<'_, [u8]>| !text.is_empty())
}

/// The value, if there is one alone: of several, the upstream may take any.
fn only<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Option<&'v [u8]> {
    values.next().filter(|_| values.next().is_none())
}

/// An address as it is counted: of IPv6 the /64, which is what one subscriber has (RFC 6177).
pub fn network_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6) & !u128::from(u64::MAX),
    }
}
