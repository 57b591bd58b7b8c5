//! The fields that delimit messages and rule the connection: Content-Length, Transfer-Encoding, Connection and Upgrade
//! (RFC 9112 §6, §9; RFC 9110 §7.6.1, §7.8, §8.6).
//!
//! Owns the reading of each value. Does not weigh them against each other: `request` and `response` do.

use reason::Reason;

use super::super::fields::{Fields, is_token, list_items, trim_blanks};
use super::super::head::{HeadError, Version};
use super::scan::Seen;

/// The most digits of a Content-Length. 18 always fit 64 bits, and are an exabyte.
const MAX_LENGTH_DIGITS: usize = 18;

/// The value of the only Content-Length: digits and nothing else (RFC 9110 §8.6).
pub(super) fn content_length(seen: Seen, fields: &Fields) -> Result<Option<u64>, HeadError> {
    match seen.count {
        0 => return Ok(None),
        1 => {}
        // Also where the values agree: whoever sends two has two ideas of where the message ends.
        _ => return Err(HeadError::of(Reason::DuplicateContentLength)),
    }
    let digits = fields.value_at(usize::from(seen.first));
    if digits.is_empty() || digits.len() > MAX_LENGTH_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::of(Reason::BadContentLength));
    }
    Ok(Some(digits.iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0'))))
}

/// Checks that the only Transfer-Encoding of a request is `chunked`.
///
/// 400 for anything that is not a clean list of coding names ending in one `chunked` where it occurs; 501 for a clean list
/// with a coding that we do not know (RFC 9112 §6.1).
pub(super) fn request_coding(value: &[u8]) -> Result<(), HeadError> {
    const BAD: HeadError = HeadError::of(Reason::BadTransferEncoding);
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    if value.contains(&b'\t') {
        return Err(BAD);
    }
    let mut chunked_seen = false;
    for item in value.split(|&octet| octet == b',').map(trim_blanks) {
        if chunked_seen || !is_token(item) || item.eq_ignore_ascii_case(b"identity") {
            return Err(BAD);
        }
        chunked_seen = item.eq_ignore_ascii_case(b"chunked");
    }
    Err(HeadError::of(Reason::UnknownTransferCoding))
}

/// The connection options that mean something to a proxy (RFC 9110 §7.6.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
    pub(super) upgrade: bool,
}

impl ConnectionOptions {
    /// Reads all Connection fields; options must be tokens.
    pub(super) fn read(fields: &Fields) -> Result<ConnectionOptions, HeadError> {
        let mut options = ConnectionOptions::default();
        for option in fields.get_all("connection").flat_map(list_items) {
            if !is_token(option) {
                return Err(HeadError::of(Reason::BadConnectionOption));
            }
            options.close |= option.eq_ignore_ascii_case(b"close");
            options.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            options.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
        Ok(options)
    }

    /// Whether the connection outlives the message (RFC 9112 §9.3).
    pub(super) fn keep_alive(self, version: Version) -> bool {
        !self.close && (version != Version::H10 || self.keep_alive)
    }
}

/// The first protocol of the Upgrade fields in lower case, `name` or `name/version` (RFC 9110 §7.8).
pub(super) fn upgrade_offer(fields: &Fields) -> Result<Option<Box<str>>, HeadError> {
    const BAD: HeadError = HeadError::of(Reason::BadUpgrade);
    let Some(protocol) = fields.get_all("upgrade").flat_map(list_items).next() else { return Err(BAD) };
    if !protocol.splitn(2, |&octet| octet == b'/').all(is_token) {
        return Err(BAD);
    }
    let protocol = std::str::from_utf8(protocol).map_err(|_| BAD)?;
    Ok(Some(protocol.to_ascii_lowercase().into_boxed_str()))
}
