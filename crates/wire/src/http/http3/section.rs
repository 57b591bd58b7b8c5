//! What field sections of requests hold (RFC 9114 §4.2, §4.3), and what makes their message malformed (§4.1.2).
//!
//! Owns which fields and pseudo-fields there may be, and their order. What their values say is not decided here.

use std::ops::Range;

use reason::Reason;

use crate::http::Fields;
use crate::http::hpack::is_in_names;
use crate::http::octets::{self, VALUE};
use crate::http::qpack::{SectionError, SectionReader};

/// The section is no QPACK, so that the connection cannot go on (`QPACK_DECOMPRESSION_FAILED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenSection;

/// Pseudo-fields of requests (RFC 9114 §4.3.1, RFC 9220 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pseudo {
    Method,
    Scheme,
    Authority,
    Path,
    Protocol,
}

/// How many there are.
const PSEUDO: usize = Pseudo::Protocol as usize + 1;

/// Field sections taken apart, one after the other, in the same memory.
#[derive(Debug, Default)]
pub struct Section {
    reader: SectionReader,
    /// Values of pseudo-fields, and where each of them lies.
    text: Vec<u8>,
    pseudo: [Option<Range<usize>>; PSEUDO],
    fields: Fields,
    /// What makes the message malformed first.
    malformed: Option<Reason>,
    is_too_large: bool,
}

impl Section {
    /// Takes a request's head apart. `is_cut`: it is the beginning of one that is too large.
    ///
    /// # Errors
    /// It is no QPACK.
    pub fn read_head(&mut self, section: &[u8], most_bytes: usize, is_cut: bool) -> Result<(), BrokenSection> {
        self.read(section, most_bytes, is_cut, true)?;
        if self.malformed.is_none() && !self.is_too_large && !self.has_what_it_needs() {
            self.malformed = Some(Reason::MalformedMessage);
        }
        Ok(())
    }

    /// Takes a request's trailers apart.
    ///
    /// # Errors
    /// They are no QPACK.
    pub fn read_trailers(&mut self, section: &[u8], most_bytes: usize) -> Result<(), BrokenSection> {
        self.read(section, most_bytes, false, false)
    }

    fn read(&mut self, section: &[u8], most_bytes: usize, is_cut: bool, is_head: bool) -> Result<(), BrokenSection> {
        self.clear();
        let Section { reader, text, pseudo, fields, malformed, .. } = self;
        let read = reader.read(section, most_bytes, |name, value| {
            let taken = match name {
                [b':', ..] if !is_head => Err(Reason::PseudoFieldInTrailers),
                [b':', rest @ ..] => take_pseudo(rest, value, fields.is_empty(), text, pseudo),
                _ => take_field(name, value, fields),
            };
            if let Err(reason) = taken {
                malformed.get_or_insert(reason);
            }
        });
        self.is_too_large = is_cut || read == Err(SectionError::TooLarge);
        if read == Err(SectionError::Broken) && !is_cut { Err(BrokenSection) } else { Ok(()) }
    }

    /// Forgets what was read and keeps the memory.
    fn clear(&mut self) {
        self.text.clear();
        self.pseudo = Default::default();
        self.fields.clear();
        self.malformed = None;
        self.is_too_large = false;
    }

    /// Whether the pseudo-fields are there that a request must have, and none that it must not (RFC 9114 §4.3.1, §4.4; RFC 8441 §4).
    fn has_what_it_needs(&self) -> bool {
        let (has_target, has_any_of_target) = (
            self.scheme().is_some() && self.path().is_some_and(|path| !path.is_empty()),
            self.scheme().is_some() || self.path().is_some(),
        );
        match (self.method(), self.protocol()) {
            (None, _) => false,
            (Some(b"CONNECT"), None) => self.authority().is_some() && !has_any_of_target,
            (Some(b"CONNECT"), Some(_)) => self.authority().is_some() && has_target,
            (Some(_), None) => has_target,
            (Some(_), Some(_)) => false,
        }
    }

    fn value(&self, pseudo: Pseudo) -> Option<&[u8]> {
        self.text.get(self.pseudo.get(pseudo as usize)?.clone()?)
    }

    /// `:method`
    pub fn method(&self) -> Option<&[u8]> {
        self.value(Pseudo::Method)
    }

    /// `:scheme`
    pub fn scheme(&self) -> Option<&[u8]> {
        self.value(Pseudo::Scheme)
    }

    /// `:authority`
    pub fn authority(&self) -> Option<&[u8]> {
        self.value(Pseudo::Authority)
    }

    /// `:path`
    pub fn path(&self) -> Option<&[u8]> {
        self.value(Pseudo::Path)
    }

    /// `:protocol`
    pub fn protocol(&self) -> Option<&[u8]> {
        self.value(Pseudo::Protocol)
    }

    /// All other fields, as they came.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Why the message is malformed, if it is: its stream ends (RFC 9114 §4.1.2).
    pub fn malformed(&self) -> Option<Reason> {
        self.malformed
    }

    /// Whether the section is larger than it may be, so that fields were left out.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }
}

/// Takes a pseudo-field, named so behind its colon. They stand ahead of all fields, and each comes once (RFC 9114 §4.3).
fn take_pseudo(
    name: &[u8],
    value: &[u8],
    is_ahead: bool,
    text: &mut Vec<u8>,
    taken: &mut [Option<Range<usize>>; PSEUDO],
) -> Result<(), Reason> {
    let pseudo = match name {
        b"method" => Pseudo::Method,
        b"scheme" => Pseudo::Scheme,
        b"authority" => Pseudo::Authority,
        b"path" => Pseudo::Path,
        b"protocol" => Pseudo::Protocol,
        _ => return Err(Reason::BadFieldName),
    };
    let place = taken.get_mut(pseudo as usize).filter(|place| is_ahead && place.is_none());
    let place = place.ok_or(Reason::MalformedMessage)?;
    if pseudo == Pseudo::Path && value.contains(&b'#') {
        return Err(Reason::MalformedMessage);
    }
    let start = text.len();
    text.extend_from_slice(value);
    *place = Some(start..text.len());
    Ok(())
}

/// Takes a field. None is about the connection (RFC 9114 §4.2).
fn take_field(name: &[u8], value: &[u8], fields: &mut Fields) -> Result<(), Reason> {
    let is_name =
        !name.is_empty() && name.len() <= usize::from(u16::MAX) && name.iter().all(|octet| is_in_names(*octet));
    if !is_name {
        return Err(Reason::BadFieldName);
    }
    if octets::span(value, VALUE) < value.len() {
        return Err(Reason::ControlInFieldValue);
    }
    let is_of_connection = match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => true,
        b"te" => value != b"trailers",
        _ => false,
    };
    if is_of_connection {
        return Err(Reason::MalformedMessage);
    }
    fields.push(name, value);
    Ok(())
}

#[cfg(test)]
mod tests;
