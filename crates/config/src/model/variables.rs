//! What stands between braces in a template, beside the parameters of the path.

use super::Template;

/// A value of the request that a template may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// `{client.address}`.
    ClientAddress,
    /// `{request.id}`.
    RequestId,
    /// `{method}`.
    Method,
    /// `{scheme}`: `https` under TLS.
    Scheme,
    /// `{host}`: without port.
    Host,
    /// `{path}`: canonical, as it is matched.
    Path,
    /// `{query.NAME}`: the first value, as it was sent.
    Query(String),
    /// `{header.NAME}`: the first value (name in lower case).
    Header(String),
    /// `{cookie.NAME}`: the first value.
    Cookie(String),
    /// `{tls.server_name}`.
    TlsServerName,
    /// `{tls.version}`.
    TlsVersion,
    /// `{tls.cipher}`.
    TlsCipher,
    /// `{certificate.subject}` of the client.
    CertificateSubject,
    /// `{certificate.issuer}`.
    CertificateIssuer,
    /// `{certificate.serial}`.
    CertificateSerial,
    /// `{certificate.fingerprint}`.
    CertificateFingerprint,
    /// `{certificate.san}`: its first alternative name.
    CertificateSan,
}

/// The value of a field that a route writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// The same for each message.
    Text(String),
    /// With values of the request in it.
    Template(Template),
}

impl FieldValue {
    /// Its text, where that is the same for each message.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            FieldValue::Text(text) => Some(text),
            FieldValue::Template(_) => None,
        }
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> FieldValue {
        FieldValue::Text(text.to_owned())
    }
}
