//! What variables stand for in one request, and how each is written so that it cannot leave the place where it stands.

use std::borrow::Cow;
use std::io::Write as _;
use std::net::IpAddr;

use config::{Escape, FieldValue, Template, TemplatePart, Variable};
use telemetry::Trace;
use wire::http::RequestHead;
use wire::http::percent::{self, is_unreserved};
use wire::ja4::Ja4;
use wire::short_text::ShortText;

use super::Params;
use super::conditions::{Sought, sent_query_value};
use super::template::{BadParameter, write_param};
use crate::auth::Subject;

/// Where the values of templates come from: one request on its route.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The request, and where it comes from.
    pub sought: Sought<'a>,
    /// The parameters of its path.
    pub params: &'a Params,
    /// Its id.
    pub request_id: &'a [u8],
    /// The client speaks TLS, to us or to a trusted proxy.
    pub is_secure: bool,
}

/// What is noted of a request beside its head.
#[derive(Debug, Clone, Copy)]
pub struct Noted<'a> {
    /// Its id.
    pub request_id: &'a [u8],
    /// Who it was verified to come from.
    pub subject: &'a Subject,
    /// The trace that it belongs to.
    pub trace: Option<&'a Trace>,
}

impl<'a> Values<'a> {
    /// Of a request from nobody in particular.
    pub fn of(head: &'a RequestHead, params: &'a Params) -> Values<'a> {
        Values { sought: Sought::from(head), params, request_id: b"", is_secure: false }
    }

    /// The head of the request.
    pub fn head(&self) -> &'a RequestHead {
        self.sought.head
    }

    /// Gives the value of a field to `put`, if there is one: a template of which nothing comes leaves its field out.
    pub fn field(&self, value: &FieldValue, put: impl FnOnce(&[u8])) {
        match value {
            FieldValue::Text(text) => put(text.as_bytes()),
            FieldValue::Template(template) => {
                let mut written = transport::buffer();
                // What a field takes is never refused.
                let _ = self.render(template, &mut written);
                let value = written.trim_ascii();
                if !value.is_empty() {
                    put(value);
                }
                transport::recycle(written);
            }
        }
    }

    /// Appends a template to `out`.
    ///
    /// # Errors
    /// A parameter has no place where it is to stand. `out` is then of no use.
    pub fn render(&self, template: &Template, out: &mut Vec<u8>) -> Result<(), BadParameter> {
        for part in &template.parts {
            match part {
                TemplatePart::Text(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Param { index, escape } => {
                    let value = self.params.value(self.head().path(), *index).ok_or(BadParameter)?;
                    match escape {
                        Escape::Raw | Escape::PathSegment | Escape::Query | Escape::HostLabel => {
                            write_param(value, *escape, out)?;
                        }
                        _ => write_value(value, *escape, out),
                    }
                }
                TemplatePart::Variable { variable, escape } => self.write(variable, *escape, out),
            }
        }
        Ok(())
    }

    fn write(&self, variable: &Variable, escape: Escape, out: &mut Vec<u8>) {
        let head = self.head();
        let tls = self.sought.tls;
        let certificate = tls.and_then(|tls| tls.peer.as_deref());
        let text = |text: Option<&'a str>| text.unwrap_or_default().as_bytes();
        let value: Cow<'_, [u8]> = match variable {
            Variable::ClientAddress => {
                let address = ShortText::of_address(self.sought.client.map(|address: IpAddr| address.to_canonical()));
                return write_value(address.as_bytes(), escape, out);
            }
            Variable::ClientCountry => match self.sought.located.country() {
                Some(country) => return write_value(country.as_str().as_bytes(), escape, out),
                None => return,
            },
            Variable::ClientAsn => match self.sought.located.asn() {
                Some(asn) => asn.to_string().into_bytes().into(),
                None => return,
            },
            Variable::RequestId => self.request_id.into(),
            Variable::Method => head.method.as_str().as_bytes().into(),
            Variable::Scheme => Cow::Borrowed(if self.is_secure { b"https" } else { b"http" }),
            Variable::Host => head.host().into(),
            Variable::Authority => head.authority.as_slice().into(),
            Variable::Path => head.path().into(),
            Variable::WholeQuery => head.query().strip_prefix(b"?").unwrap_or_default().into(),
            Variable::Uri => head.target.as_slice().into(),
            Variable::Url => {
                let scheme: &[u8] = if self.is_secure { b"https://" } else { b"http://" };
                [scheme, &head.authority, &head.target].concat().into()
            }
            // Encoded as it came; where it is put, what stands for nothing else stays so.
            Variable::Query(name) => match (sent_query_value(head.query(), name.as_bytes()), escape) {
                (None, _) => return,
                (Some(value), Escape::PathSegment | Escape::Query | Escape::Text | Escape::Json | Escape::Markup) => {
                    percent_decoded(value)
                }
                (Some(value), _) => value.into(),
            },
            Variable::Header(name) => {
                // What a policy has set; a client's own field of that name ended when the head was read.
                let set = self.sought.subject.and_then(|subject| subject.field(name));
                set.or_else(|| head.values(name).next()).unwrap_or_default().into()
            }
            Variable::Claim(name) => match self.sought.subject.map(|subject| subject.claim(name)) {
                Some(Ok(Some(Cow::Borrowed(text)))) => text.as_bytes().into(),
                Some(Ok(Some(Cow::Owned(text)))) => text.into_bytes().into(),
                // What readers could take for different things is as if missing.
                _ => return,
            },
            Variable::Cookie(name) => head.fields.cookie(name.as_bytes()).unwrap_or_default().into(),
            Variable::TlsServerName => text(tls.and_then(|tls| tls.server_name.as_deref())).into(),
            Variable::TlsVersion => text(tls.map(|tls| telemetry::version_name(tls.version))).into(),
            Variable::TlsCipher => text(tls.map(|tls| tls.cipher)).into(),
            Variable::TlsJa4 => text(tls.and_then(|tls| tls.fingerprint.as_deref()).map(Ja4::as_str)).into(),
            Variable::CertificateSubject => text(certificate.map(|certificate| certificate.subject.as_str())).into(),
            Variable::CertificateIssuer => text(certificate.map(|certificate| certificate.issuer.as_str())).into(),
            Variable::CertificateSerial => text(certificate.map(|certificate| certificate.serial.as_str())).into(),
            Variable::CertificateFingerprint => {
                text(certificate.map(|certificate| certificate.fingerprint.as_str())).into()
            }
            Variable::CertificateSan => {
                text(certificate.and_then(tls::PeerCertificate::first_name).map(String::as_str)).into()
            }
        };
        write_value(&value, escape, out);
    }
}

/// Decodes a piece of a query, where `+` is a blank.
fn percent_decoded(value: &[u8]) -> Cow<'_, [u8]> {
    super::conditions::decoded(value)
}

/// Longest value that is written into a body, bytes; of a longer one the start.
const MAX_BODY_VALUE_BYTES: usize = 2048;

/// Appends a value that may hold anything.
fn write_value(value: &[u8], escape: Escape, out: &mut Vec<u8>) {
    let value = match escape {
        Escape::Text | Escape::Json | Escape::Markup => value.get(..MAX_BODY_VALUE_BYTES).unwrap_or(value),
        _ => value,
    };
    match escape {
        // The path as it was matched, or a host that was checked: both are what they are put in for.
        Escape::Raw => out.extend_from_slice(value),
        Escape::Host | Escape::HostLabel => out.extend(value.iter().map(u8::to_ascii_lowercase)),
        Escape::PathSegment => encode(value, out, |byte| is_unreserved(byte) || b"$&+=:@".contains(&byte)),
        Escape::Query => encode(value, out, is_unreserved),
        Escape::Field => {
            out.extend(
                value.iter().map(|byte| if matches!(byte, b'\t' | 0x20..=0x7e | 0x80..) { *byte } else { b'?' }),
            );
        }
        Escape::Text => {
            let text = String::from_utf8_lossy(value);
            out.extend(text.bytes().map(|byte| if byte.is_ascii_control() && byte != b'\t' { b'?' } else { byte }));
        }
        Escape::Json => {
            // A string in quotes, without the quotes.
            let quoted = serde_json::Value::from(String::from_utf8_lossy(value)).to_string();
            for byte in quoted.as_bytes().get(1..quoted.len().saturating_sub(1)).unwrap_or_default() {
                match byte {
                    // For readers who take it for HTML, or put it into some.
                    b'<' | b'>' | b'&' => _ = write!(out, "\\u{byte:04x}"),
                    other => out.push(*other),
                }
            }
        }
        Escape::Markup => {
            for character in String::from_utf8_lossy(value).chars() {
                match character {
                    '&' => out.extend_from_slice(b"&amp;"),
                    '<' => out.extend_from_slice(b"&lt;"),
                    '>' => out.extend_from_slice(b"&gt;"),
                    '"' => out.extend_from_slice(b"&#34;"),
                    '\'' => out.extend_from_slice(b"&#39;"),
                    '`' => out.extend_from_slice(b"&#96;"),
                    control if control.is_control() => out.push(b'?'),
                    other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
        }
    }
}

fn encode(value: &[u8], out: &mut Vec<u8>, keep: impl Fn(u8) -> bool) {
    for byte in value {
        if keep(*byte) { out.push(*byte) } else { percent::push(*byte, out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_where_it_is_put() {
        let value = "a/b?c=d&e\r\nX: y\u{0}\"<'%2F é";
        for (escape, expected) in [
            (Escape::PathSegment, "a%2Fb%3Fc=d&e%0D%0AX:%20y%00%22%3C%27%252F%20%C3%A9"),
            (Escape::Query, "a%2Fb%3Fc%3Dd%26e%0D%0AX%3A%20y%00%22%3C%27%252F%20%C3%A9"),
            (Escape::Field, "a/b?c=d&e??X: y?\"<'%2F é"),
            (Escape::Text, "a/b?c=d&e??X: y?\"<'%2F é"),
            (Escape::Json, "a/b?c=d\\u0026e\\r\\nX: y\\u0000\\\"\\u003c'%2F é"),
            (Escape::Markup, "a/b?c=d&amp;e??X: y?&#34;&lt;&#39;%2F é"),
        ] {
            let mut out = Vec::new();
            write_value(value.as_bytes(), escape, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{escape:?}");
        }
    }
}
