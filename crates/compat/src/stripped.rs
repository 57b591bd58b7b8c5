//! Fields that end before routes are chosen, so that no condition on one ever holds.

use wire::http::field_kind::FieldKind;

/// Whether a field is removed from requests before routes are chosen, unless a proxy of `trusted_proxies` is believed in it.
pub(crate) fn is_stripped(name: &str) -> bool {
    matches!(FieldKind::of(name.as_bytes()), FieldKind::Forwarding | FieldKind::ClientCertificate)
}
