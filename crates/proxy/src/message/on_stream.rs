//! What a response decides alike on a stream of HTTP/2 and on one of HTTP/3: its length, its fields, its pace.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use net::pace::{Pace, Watch};
use wire::http::{BodyFraming, Method, RequestHead};
use wire::short_text::ShortText;

use crate::message::opening;
use crate::policies::Throttles;
use crate::policies::cors::Decoration;

/// The share of a response that is the same whichever version's stream it is written on.
pub struct OnStream {
    pace: Pace,
    /// Watches the client while it takes nothing on this stream.
    pub watch: Watch,
    is_head_request: bool,
    /// The request is an extended CONNECT.
    is_connect: bool,
    /// Body bytes still to come where that is known.
    rest: Option<u64>,
    /// Fields that the final response bears.
    decoration: Option<Box<Decoration>>,
    /// How fast the body may go.
    pub throttles: Throttles,
    /// Counts what the client has taken of a tunnel.
    given: Option<Rc<Cell<u64>>>,
}

impl OnStream {
    /// That of a response to a request that is not read yet.
    pub fn new(pace: Pace) -> OnStream {
        OnStream {
            pace,
            watch: Watch::new(pace),
            is_head_request: false,
            is_connect: false,
            rest: None,
            decoration: None,
            throttles: Throttles::default(),
            given: None,
        }
    }

    /// The client's window has taken so many bytes.
    pub fn took(&mut self, bytes: usize) {
        self.watch.moved(bytes);
        if let Some(given) = &self.given {
            given.set(given.get().wrapping_add(bytes as u64));
        }
    }

    /// Counts what the client takes of a tunnel that has begun.
    pub fn given(&self) -> Rc<Cell<u64>> {
        self.given.clone().unwrap_or_default()
    }

    /// Takes from the head of the request what its response depends on.
    pub fn responds_to(&mut self, head: &RequestHead) {
        self.is_head_request = head.method == Method::Head;
        self.is_connect = head.is_extended_connect();
    }

    /// Sets how slowly the client may take the response; false if that was so before.
    pub fn set_pace(&mut self, pace: Pace) -> bool {
        let is_other = self.pace != pace;
        if is_other {
            self.pace = pace;
            self.watch = Watch::new(pace);
        }
        is_other
    }

    /// The client may rest for so long: the stream is a tunnel now.
    pub fn begin_tunnel(&mut self, idle: Duration) {
        self.watch = Watch::new(Pace { idle, min_rate: 0 });
        self.given = Some(Rc::default());
    }

    /// Has the final response bear these fields, too.
    pub fn decorate(&mut self, decoration: Decoration) {
        self.decoration.get_or_insert_default().add(decoration);
    }

    /// The status as a stream has it: that a tunnel is open is said by 200 (RFC 8441 §5.1, RFC 9220 §3).
    pub fn status(&self, status: u16) -> u16 {
        if status == 101 && self.is_connect { 200 } else { status }
    }

    /// Whether a field is left out: one that a tunnel has no use for, or that a decoration replaces.
    pub fn drops(&self, name: &[u8]) -> bool {
        let is_of_upgrade = self.is_connect && opening::is_of_upgrade(name);
        is_of_upgrade || self.decoration.as_ref().is_some_and(|decoration| decoration.replaces(name))
    }

    /// Ends the head of a response with this status: notes how long its body is, and puts the fields that are still missing.
    pub fn finish_head(
        &mut self,
        status: u16,
        framing: BodyFraming,
        declared_length: Option<&[u8]>,
        mut put: impl FnMut(&[u8], &[u8]),
    ) {
        if let Some(decoration) = &self.decoration {
            decoration.fields().for_each(|(name, value)| put(name, value));
        }
        let is_bodiless = self.is_head_request || matches!(status, 204 | 304) || framing == BodyFraming::None;
        self.rest = match framing {
            _ if is_bodiless => Some(0),
            BodyFraming::Length(length) => Some(length),
            _ => None,
        };
        match (declared_length, framing) {
            (Some(length), _) => put(b"content-length", length),
            (None, BodyFraming::Length(length)) => {
                put(b"content-length", ShortText::of_number(length).as_bytes());
            }
            _ => {}
        }
    }

    /// Whether nothing of the body is to come.
    pub fn is_at_end(&self) -> bool {
        self.rest == Some(0)
    }

    /// Counts a piece of the body that is about to be sent. Whether it is the last.
    pub fn sends(&mut self, bytes: usize) -> bool {
        self.rest = self.rest.map(|rest| rest.saturating_sub(bytes as u64));
        self.is_at_end()
    }

    /// The body ends with the next piece, which has so many bytes.
    pub fn ends_with(&mut self, bytes: usize) {
        self.rest = Some(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_stream(method: Method) -> OnStream {
        let mut on_stream = OnStream::new(Pace { idle: Duration::from_secs(1), min_rate: 0 });
        on_stream.responds_to(&RequestHead { method, ..RequestHead::default() });
        on_stream
    }

    /// What is put at the end of a head, and whether a body follows.
    fn finish(method: Method, status: u16, framing: BodyFraming, declared: Option<&[u8]>) -> (String, bool) {
        let (mut on_stream, mut fields) = (on_stream(method), String::new());
        on_stream.finish_head(status, framing, declared, |name, value| {
            fields += &format!("{}: {};", name.escape_ascii(), value.escape_ascii());
        });
        (fields, !on_stream.is_at_end())
    }

    #[test]
    fn a_length_is_told_once_and_tells_when_the_stream_ends() {
        let told = |length: u64| format!("content-length: {length};");
        assert_eq!(finish(Method::Get, 200, BodyFraming::Length(5), None), (told(5), true));
        assert_eq!(finish(Method::Get, 200, BodyFraming::Length(0), None), (told(0), false));
        assert_eq!(finish(Method::Get, 200, BodyFraming::Chunked, None), (String::new(), true));
        assert_eq!(finish(Method::Get, 204, BodyFraming::Chunked, None), (String::new(), false));
        assert_eq!(finish(Method::Head, 200, BodyFraming::None, Some(b"70")), (told(70), false));
        assert_eq!(finish(Method::Get, 304, BodyFraming::None, Some(b"70")), (told(70), false));
    }

    #[test]
    fn the_last_piece_is_known_by_the_length_or_by_who_sends_it() {
        let mut declared = on_stream(Method::Get);
        declared.finish_head(200, BodyFraming::Length(7), None, |_, _| {});
        assert!(!declared.sends(4));
        assert!(declared.sends(3));
        let mut chunked = on_stream(Method::Get);
        chunked.finish_head(200, BodyFraming::Chunked, None, |_, _| {});
        assert!(!chunked.sends(4));
        chunked.ends_with(3);
        assert!(chunked.sends(3));
    }
}
