//! Protocol Buffers on the wire (the encoding guide of protobuf.dev), as far as messages between proxies need them: fields read in place, and written.
//!
//! Owns the encoding, not what a field means. Groups, which nobody writes any more, are no fields here.

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'m> {
    /// An integer, an enumeration or a truth value.
    Varint(u64),
    /// Eight octets, which nothing here reads.
    Fixed64,
    /// Four octets, likewise.
    Fixed32,
    /// Text, bytes, a message, or packed values.
    Bytes(&'m [u8]),
}

impl<'m> Value<'m> {
    /// Text, bytes or a message.
    ///
    /// # Errors
    /// It is of another type.
    pub fn bytes(self) -> Result<&'m [u8], Malformed> {
        if let Value::Bytes(bytes) = self { Ok(bytes) } else { Err(Malformed) }
    }

    /// An integer, an enumeration or a truth value.
    ///
    /// # Errors
    /// It is of another type.
    pub fn varint(self) -> Result<u64, Malformed> {
        if let Value::Varint(number) = self { Ok(number) } else { Err(Malformed) }
    }
}

/// The fields of a message, in the order they came. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Fields<'m> {
    rest: &'m [u8],
}

/// The fields of a message.
pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

impl<'m> Fields<'m> {
    fn field(&mut self) -> Result<(u32, Value<'m>), Malformed> {
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let number = tag >> 3;
        if number == 0 {
            return Err(Malformed);
        }
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            _ => return Err(Malformed),
        };
        Ok((number, value))
    }

    fn take(&mut self, length: usize) -> Result<&'m [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Seven bits per octet, the lowest first; ten octets at most.
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&octet, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            if shift == 63 && octet > 1 {
                return Err(Malformed);
            }
            number |= u64::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Result<(u32, Value<'m>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Sets what may be there once. A field that is there twice would be another one for whoever takes the first.
///
/// # Errors
/// It was there before.
pub fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Malformed> {
    if place.replace(value).is_some() { Err(Malformed) } else { Ok(()) }
}

/// Writes a field that is an integer, an enumeration or a truth value.
pub fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3, out);
    varint(value, out);
}

/// Writes a field that is text, bytes or a message.
pub fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a field that is a message, made by `write`.
pub fn put_message(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    put_bytes(number, &message, out);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut message = Vec::new();
        put_varint(1, 0, &mut message);
        put_varint(2, u64::MAX, &mut message);
        put_bytes(15, b"text", &mut message);
        put_message(536_870_911, &mut message, |inner| put_varint(1, 300, inner));
        let read: Vec<_> = fields(&message).map(Result::unwrap).collect();
        assert_eq!(read.len(), 4);
        assert_eq!(read[0], (1, Value::Varint(0)));
        assert_eq!(read[1], (2, Value::Varint(u64::MAX)));
        assert_eq!(read[2], (15, Value::Bytes(b"text")));
        let (number, inner) = read[3];
        assert_eq!(number, 536_870_911);
        assert_eq!(fields(inner.bytes().unwrap()).next(), Some(Ok((1, Value::Varint(300)))));
    }

    #[test]
    fn what_is_no_message_is_an_error_and_the_end() {
        let rows: &[&[u8]] = &[
            b"\x00\x01",                                         // field 0
            b"\x08",                                             // no value
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     // above 64 bits
            b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", // eleven octets
            b"\x0a\x05abc",                                      // cut
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",     // as long as all memory
            b"\x0b",                                             // a group
            b"\x0c",                                             // its end
            b"\x0e",                                             // no type
            b"\x09\x01\x02",                                     // cut number
            b"\xff\xff\xff\xff\xff\x7f\x00",                     // a tag above 32 bits
        ];
        for row in rows {
            let mut read = fields(row);
            assert_eq!(read.next(), Some(Err(Malformed)), "{row:?}");
            assert_eq!(read.next(), None, "{row:?}");
        }
    }

    #[test]
    fn fields_that_are_not_known_are_passed_over() {
        let message = b"\x09\x01\x02\x03\x04\x05\x06\x07\x08\x0d\x01\x02\x03\x04\x10\x01";
        let read: Vec<_> = fields(message).map(Result::unwrap).collect();
        assert_eq!(read, [(1, Value::Fixed64), (1, Value::Fixed32), (2, Value::Varint(1))]);
        let mut place = None;
        assert_eq!((once(&mut place, 1), once(&mut place, 2)), (Ok(()), Err(Malformed)));
    }
}
