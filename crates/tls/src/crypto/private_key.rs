//! A private key in any of its DER forms (RFC 5208, RFC 5915, RFC 8017).
/// A parsed private key.
#[derive(Debug)]
pub struct PrivateKey {}
