//! The control stream of a client (RFC 9114 §6.2.1, §7.2), and the SETTINGS of both sides.

use super::frame::{self, CANCEL_PUSH, DATA, FrameReader, GOAWAY, HEADERS, MAX_PUSH_ID, PUSH_PROMISE, Piece, SETTINGS};
use super::{Code, varint};

/// Bytes of a SETTINGS frame. Few settings exist; a longer frame is there to be worked on.
const MAX_SETTINGS_BYTES: usize = 1024;

/// Settings (RFC 9114 §7.2.4.1, RFC 9204 §5, RFC 9220 §3, RFC 9297 §2.1.1).
const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
const QPACK_BLOCKED_STREAMS: u64 = 0x07;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x08;
const H3_DATAGRAM: u64 = 0x33;

/// What a client has said of itself. All else that it says makes no difference here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Bytes of the largest field section that it takes; none for any.
    pub max_field_section_size: Option<u64>,
}

impl Settings {
    /// Reads the payload of the frame.
    ///
    /// # Errors
    /// A setting is cut (`H3_FRAME_ERROR`), there twice, of HTTP/2, or of a value that it cannot have (`H3_SETTINGS_ERROR`).
    pub fn read(mut payload: &[u8]) -> Result<Settings, Code> {
        let mut take = || {
            let (value, len) = varint::read(payload)?;
            payload = payload.get(len..)?;
            Some((value, payload.is_empty()))
        };
        let (mut settings, mut seen) = (Settings::default(), Vec::new());
        while let Some((id, _)) = take() {
            let (value, is_last) = take().ok_or(Code::FRAME_ERROR)?;
            match id {
                // Of HTTP/2 (RFC 9114 §7.2.4.1).
                0x00 | 0x02..=0x05 => return Err(Code::SETTINGS_ERROR),
                ENABLE_CONNECT_PROTOCOL | H3_DATAGRAM if value > 1 => return Err(Code::SETTINGS_ERROR),
                MAX_FIELD_SECTION_SIZE => settings.max_field_section_size = Some(value),
                _ => {}
            }
            seen.push(id);
            if is_last {
                break;
            }
        }
        if !payload.is_empty() {
            return Err(Code::FRAME_ERROR);
        }
        seen.sort_unstable();
        let is_twice = seen.iter().zip(seen.iter().skip(1)).any(|(one, next)| one == next);
        if is_twice { Err(Code::SETTINGS_ERROR) } else { Ok(settings) }
    }
}

/// Appends the beginning of our control stream: its type, and our SETTINGS. `reserved`: any number, by which a setting is made that nobody may know
/// (RFC 9114 §7.2.4.1).
pub fn write_beginning(max_field_section_size: u64, takes_websocket: bool, reserved: u8, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    let mut put = |id, value| {
        varint::write(id, &mut payload);
        varint::write(value, &mut payload);
    };
    put(QPACK_MAX_TABLE_CAPACITY, 0);
    put(MAX_FIELD_SECTION_SIZE, max_field_section_size.min(varint::MAX));
    put(QPACK_BLOCKED_STREAMS, 0);
    if takes_websocket {
        put(ENABLE_CONNECT_PROTOCOL, 1);
    }
    put(0x1f * u64::from(reserved) + 0x21, 0);
    varint::write(super::streams::CONTROL, out);
    frame::write(SETTINGS, &payload, out);
}

/// Appends GOAWAY: requests on this stream and later ones are not served.
pub fn write_goaway(stream: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(varint::LONGEST);
    varint::write(stream.min(varint::MAX), &mut payload);
    frame::write(GOAWAY, &payload, out);
}

/// What a client says on its control stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Its settings, once, before all else.
    Settings(Settings),
    /// It takes no pushes from this one on, which are none anyway, and is about to leave.
    Goaway(u64),
    /// A frame that has no meaning here begins, or that concerns pushes.
    Nothing,
}

/// Reads a client's control stream.
#[derive(Debug, Default)]
pub struct ControlReader {
    frames: FrameReader,
    kind: u64,
    payload: Vec<u8>,
    has_settings: bool,
    max_push_id: Option<u64>,
    goaway: Option<u64>,
}

impl ControlReader {
    /// What it says next, taken off the front of `input`; none if that has no more.
    ///
    /// # Errors
    /// The code that the connection ends with.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Control>, Code> {
        while let Some(piece) = self.frames.next(input) {
            match piece {
                Piece::Head(head) => {
                    self.begin(head)?;
                    if !frame::is_known(head.kind) {
                        return Ok(Some(Control::Nothing));
                    }
                }
                Piece::Payload(bytes) if frame::is_known(self.kind) => self.payload.extend_from_slice(bytes),
                Piece::Payload(_) => continue,
            }
            if self.frames.rest() == 0 {
                let control = self.whole();
                self.payload = Vec::new();
                return control.map(Some);
            }
        }
        Ok(None)
    }

    /// A frame begins: whether it may stand here, and may be so long.
    fn begin(&mut self, head: frame::FrameHead) -> Result<(), Code> {
        self.kind = head.kind;
        let most = match head.kind {
            SETTINGS if self.has_settings => return Err(Code::FRAME_UNEXPECTED),
            SETTINGS => MAX_SETTINGS_BYTES,
            _ if !self.has_settings => return Err(Code::MISSING_SETTINGS),
            DATA | HEADERS | PUSH_PROMISE => return Err(Code::FRAME_UNEXPECTED),
            GOAWAY | CANCEL_PUSH | MAX_PUSH_ID => varint::LONGEST,
            kind if frame::is_of_http2(kind) => return Err(Code::FRAME_UNEXPECTED),
            _ => return Ok(()),
        };
        let is_too_long = head.length > most as u64;
        match head.kind {
            SETTINGS if is_too_long => Err(Code::EXCESSIVE_LOAD),
            _ if is_too_long => Err(Code::FRAME_ERROR),
            _ => Ok(()),
        }
    }

    /// What a frame says whose payload is whole.
    fn whole(&mut self) -> Result<Control, Code> {
        if self.kind == SETTINGS {
            self.has_settings = true;
            return Settings::read(&self.payload).map(Control::Settings);
        }
        let (id, len) = varint::read(&self.payload).ok_or(Code::FRAME_ERROR)?;
        if len != self.payload.len() {
            return Err(Code::FRAME_ERROR);
        }
        match self.kind {
            // It may come again, but only with a smaller id (RFC 9114 §5.2).
            GOAWAY if self.goaway.replace(id).is_some_and(|before| id > before) => Err(Code::ID_ERROR),
            GOAWAY => Ok(Control::Goaway(id)),
            // No push was ever promised (RFC 9114 §7.2.3).
            CANCEL_PUSH => Err(Code::ID_ERROR),
            _ if self.max_push_id.replace(id).is_some_and(|before| id < before) => Err(Code::ID_ERROR),
            _ => Ok(Control::Nothing),
        }
    }
}

#[cfg(test)]
mod tests;
