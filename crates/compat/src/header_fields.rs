//! Which header fields a route may write, whatever program said so.

/// Fields that frame a message or govern a connection. What other programs are told of them has no meaning here.
pub(crate) const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-connection",
];

/// Fields of which ours are sent, whatever clients say.
pub(crate) fn is_identity(field: &str) -> bool {
    field.starts_with("x-forwarded-") || matches!(field, "x-real-ip" | "forwarded" | "x-request-id")
}

/// Whether a field may be written by a route.
pub(crate) fn field_fits(field: &str, value: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if field.is_empty() || field.len() > 256 || !field.bytes().all(is_token) {
        return Err("no name of a field".to_owned());
    }
    if FRAMING.contains(&field) {
        return Err("it frames the message, which is done by itself".to_owned());
    }
    if value.trim() != value || !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
        return Err("its value is not visible ASCII".to_owned());
    }
    Ok(())
}
