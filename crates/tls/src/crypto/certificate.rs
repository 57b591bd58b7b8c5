//! An X.509 certificate (RFC 5280), parsed for what loading one needs to know.
/// A parsed certificate.
#[derive(Debug)]
pub struct Certificate {}
