//! What a request field means to a gateway, by its name: which end here, which we write, and which say who the client is.

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

/// Longest name that is special as a whole. Of longer ones the start alone is looked at.
const LONGEST_SPECIAL: usize = 24;

impl FieldKind {
    /// The kind of the field of this name, in any case.
    pub fn of(name: &[u8]) -> FieldKind {
        let mut lower = [0; LONGEST_SPECIAL];
        let Some(lower) = lower.get_mut(..name.len()).filter(|_| may_be_special(name)) else {
            return kind_by_start(name);
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        match &*lower {
            b"connection"
            | b"keep-alive"
            | b"proxy-connection"
            | b"te"
            | b"upgrade"
            | b"transfer-encoding"
            | b"proxy-authorization"
            | b"proxy-authenticate"
            | b"http2-settings" => FieldKind::Hop,
            b"host" | b"content-length" => FieldKind::Ours,
            b"forwarded"
            | b"x-real-ip"
            | b"x-client-ip"
            | b"x-cluster-client-ip"
            | b"true-client-ip"
            | b"cf-connecting-ip"
            | b"cf-connecting-ipv6"
            | b"fastly-client-ip"
            | b"x-envoy-external-address"
            | b"x-azure-clientip"
            | b"x-azure-socketip"
            | b"x-original-forwarded-for"
            | b"x-original-host"
            | b"x-original-url"
            | b"x-rewrite-url" => FieldKind::Forwarding,
            b"client-cert" | b"client-cert-chain" => FieldKind::ClientCertificate,
            b"x-request-id" => FieldKind::RequestId,
            b"x-http-method-override" | b"x-http-method" | b"x-method-override" => FieldKind::MethodOverride,
            b"expect" => FieldKind::Expect,
            _ => kind_by_start(name),
        }
    }
}

/// Whether a name may be one of the special ones, by its first letter and its length.
fn may_be_special(name: &[u8]) -> bool {
    let first = name.first().map_or(0, u8::to_ascii_lowercase);
    match first {
        b'c' => matches!(name.len(), 10 | 11 | 14 | 16 | 17 | 18),
        b'e' => name.len() == 6,
        b'f' => matches!(name.len(), 9 | 16),
        b'h' => matches!(name.len(), 4 | 14),
        b'k' => name.len() == 10,
        b'p' => matches!(name.len(), 16 | 18 | 19),
        b't' => matches!(name.len(), 2 | 14 | 17),
        b'u' => name.len() == 7,
        b'x' => true,
        _ => false,
    }
}

/// Families of names, whatever they go on with: an upstream may read members that we do not write.
fn kind_by_start(name: &[u8]) -> FieldKind {
    let begins = |start: &[u8]| name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    if !begins(b"x-") {
        FieldKind::Plain
    } else if begins(b"x-forwarded-") {
        FieldKind::Forwarding
    } else if begins(b"x-client-cert-") {
        FieldKind::ClientCertificate
    } else {
        FieldKind::Plain
    }
}

/// Whether a field may be among those that trusted proxies are believed in: it says who the client is, and is not about its certificate.
pub fn may_be_trusted(name: &[u8]) -> bool {
    matches!(FieldKind::of(name), FieldKind::Forwarding | FieldKind::RequestId)
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
