//! What a request field means to a gateway, by its name: which end here, which we write, and which say who the client is.

use super::octets;

/// How a field of a request is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Goes on unchanged.
    Plain,
    /// Ends here.
    Hop,
    /// Written anew by us: Host, framing.
    Ours,
    /// Believed from trusted peers, where they are said to set it.
    Forwarding,
    /// Never believed.
    ClientCertificate,
    /// As `Forwarding`; else it is made.
    RequestId,
    /// Another method than the one that was checked; goes on only where the route says so.
    MethodOverride,
    /// Asks to be told to continue.
    Expect,
}

impl FieldKind {
    /// The kind of the field of this name, in any case. Of most names their first letter and length say that they are plain.
    pub fn of(name: &[u8]) -> FieldKind {
        match (name.first().map_or(0, u8::to_ascii_lowercase), name.len()) {
            (b'c', 10) if is(name, b"connection") => FieldKind::Hop,
            (b'c', 11) if is(name, b"client-cert") => FieldKind::ClientCertificate,
            (b'c', 14) if is(name, b"content-length") => FieldKind::Ours,
            (b'c', 16) if is(name, b"cf-connecting-ip") => FieldKind::Forwarding,
            (b'c', 17) if is(name, b"client-cert-chain") => FieldKind::ClientCertificate,
            (b'c', 18) if is(name, b"cf-connecting-ipv6") => FieldKind::Forwarding,
            (b'e', 6) if is(name, b"expect") => FieldKind::Expect,
            (b'f', 9) if is(name, b"forwarded") => FieldKind::Forwarding,
            (b'f', 16) if is(name, b"fastly-client-ip") => FieldKind::Forwarding,
            (b'h', 4) if is(name, b"host") => FieldKind::Ours,
            (b'h', 14) if is(name, b"http2-settings") => FieldKind::Hop,
            (b'k', 10) if is(name, b"keep-alive") => FieldKind::Hop,
            (b'p', 16) if is(name, b"proxy-connection") => FieldKind::Hop,
            (b'p', 18) if is(name, b"proxy-authenticate") => FieldKind::Hop,
            (b'p', 19) if is(name, b"proxy-authorization") => FieldKind::Hop,
            (b't', 2) if is(name, b"te") => FieldKind::Hop,
            (b't', 14) if is(name, b"true-client-ip") => FieldKind::Forwarding,
            (b't', 17) if is(name, b"transfer-encoding") => FieldKind::Hop,
            (b'u', 7) if is(name, b"upgrade") => FieldKind::Hop,
            (b'x', _) => kind_of_extension(name),
            _ => FieldKind::Plain,
        }
    }
}

/// Whether this is the name, which is given in lower case. Its length is known to the compiler, so that it compares many letters at once.
#[inline]
fn is<const LENGTH: usize>(name: &[u8], special: &[u8; LENGTH]) -> bool {
    let Ok(name) = <&[u8; LENGTH]>::try_from(name) else { return false };
    name.iter().zip(special).fold(0, |differs, (own, special)| differs | (own.to_ascii_lowercase() ^ special)) == 0
}

/// The kind of a field whose name begins with `x`.
fn kind_of_extension(name: &[u8]) -> FieldKind {
    let is_one_of = |special: &[&str]| special.iter().any(|special| name.eq_ignore_ascii_case(special.as_bytes()));
    if is_one_of(&EXTENSIONS_ABOUT_CLIENT) {
        FieldKind::Forwarding
    } else if is_one_of(&["x-request-id"]) {
        FieldKind::RequestId
    } else if is_one_of(&["x-http-method-override", "x-http-method", "x-method-override"]) {
        FieldKind::MethodOverride
    } else {
        kind_by_start(name)
    }
}

/// Names that say who the client is or what it asked for, beyond the families of [`kind_by_start`].
const EXTENSIONS_ABOUT_CLIENT: [&str; 10] = [
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
];

/// Families of names, whatever they go on with: an upstream may read members that we do not write.
fn kind_by_start(name: &[u8]) -> FieldKind {
    let begins = |start: &[u8]| name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    if begins(b"x-forwarded-") {
        FieldKind::Forwarding
    } else if begins(b"x-client-cert-") {
        FieldKind::ClientCertificate
    } else {
        FieldKind::Plain
    }
}

/// A name as servers read it that turn names into variables (CGI, RFC 3875 §4.1.18): in lower case, with a hyphen for whatever is no letter or digit. None
/// where that makes no other name, case apart.
pub fn folded(name: &[u8]) -> Option<Vec<u8>> {
    let is_unusual = octets::span(name, octets::ORDINARY) < name.len();
    let fold = |octet: &u8| if octet.is_ascii_alphanumeric() { octet.to_ascii_lowercase() } else { b'-' };
    is_unusual.then(|| name.iter().map(fold).collect())
}

/// Whether a field may be among those that trusted proxies are believed in: it says who the client is, and is not about its certificate.
pub fn may_be_trusted(name: &[u8]) -> bool {
    matches!(FieldKind::of(name), FieldKind::Forwarding | FieldKind::RequestId)
}

/// Whether a field (any case) goes to a service that is asked about a request as the client sent it: in no spelling does it say who the client is or what it
/// asked for.
pub fn is_own_of_client(name: &[u8]) -> bool {
    let read_as = folded(name);
    let name = read_as.as_deref().unwrap_or(name);
    let is_asked = [&b"x-original-uri"[..], b"x-original-method"].iter().any(|own| name.eq_ignore_ascii_case(own));
    FieldKind::of(name) == FieldKind::Plain && !is_asked
}

/// Whether a field (lower case) names the client by its address, so that it may be the one to read it from.
pub fn names_client(field: &str) -> bool {
    matches!(
        field,
        "x-forwarded-for" | "forwarded" | "x-real-ip" | "x-client-ip" | "x-cluster-client-ip" | "true-client-ip"
    ) || matches!(field, "cf-connecting-ip" | "fastly-client-ip" | "x-envoy-external-address" | "x-azure-clientip")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_names_are_found_in_any_case() {
        let check = |expected: FieldKind, names: &[&str]| {
            for name in names {
                let upper = name.to_ascii_uppercase();
                assert_eq!(
                    (FieldKind::of(name.as_bytes()), FieldKind::of(upper.as_bytes())),
                    (expected, expected),
                    "{name}"
                );
            }
        };
        check(FieldKind::Hop, &["connection", "keep-alive", "proxy-connection", "te", "upgrade", "transfer-encoding"]);
        check(FieldKind::Hop, &["proxy-authorization", "proxy-authenticate", "http2-settings"]);
        check(FieldKind::Ours, &["host", "content-length"]);
        check(
            FieldKind::Forwarding,
            &["forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip"],
        );
        check(
            FieldKind::Forwarding,
            &["cf-connecting-ip", "cf-connecting-ipv6", "fastly-client-ip", "x-azure-clientip"],
        );
        check(FieldKind::Forwarding, &["x-envoy-external-address", "x-azure-socketip", "x-original-forwarded-for"]);
        check(
            FieldKind::Forwarding,
            &["x-original-host", "x-original-url", "x-rewrite-url", "x-forwarded-anything-at-all"],
        );
        check(FieldKind::ClientCertificate, &["client-cert", "client-cert-chain", "x-client-cert-subject"]);
        check(FieldKind::RequestId, &["x-request-id"]);
        check(FieldKind::MethodOverride, &["x-http-method-override", "x-http-method", "x-method-override"]);
        check(FieldKind::Expect, &["expect"]);
        check(FieldKind::Plain, &["", "user-agent", "content-type", "cookie", "x-forwarded", "x", "hosts", "tf"]);
    }
}
