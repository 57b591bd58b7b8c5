//! Fields of requests that are removed before routes are chosen: what an original asks of one never holds here.

use wire::http::field_kind::FieldKind;

/// The field in which a proxy in front says how the client came.
pub(crate) const PROTOCOL: &str = "x-forwarded-proto";

/// What a redirect by it needs. It opens nothing while nobody is believed.
pub(crate) const UNTIL_TRUSTED: &str = "`x-forwarded-proto` counts from `trusted_proxies` alone: add `trusted_proxies: [ADDRESS]` with those of the proxies in front that set it";

/// Whether a field (in any case) is removed from requests before any condition of a route is asked: it says who the client is, or what its certificate says.
/// Those of trusted proxies stay where `forwarding.trusted_fields` names them, and those about certificates never do. What counts is the list that the proxy
/// itself removes by.
pub(crate) fn is_stripped(name: &str) -> bool {
    matches!(FieldKind::of(name.as_bytes()), FieldKind::Forwarding | FieldKind::ClientCertificate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_who_the_client_is_never_reaches_a_condition() {
        for name in [
            "x-forwarded-for",
            "X-Forwarded-Anything",
            "X-Real-IP",
            "forwarded",
            "CF-Connecting-IP",
            "true-client-ip",
            "client-cert",
            "X-Client-Cert-Subject",
            "x-original-url",
            "x-rewrite-url",
        ] {
            assert!(is_stripped(name), "{name}");
        }
        for name in ["", "x", "x-forwarded", "user-agent", "x-request-id", "x-http-method-override", "host", "te"] {
            assert!(!is_stripped(name), "{name}");
        }
    }
}
