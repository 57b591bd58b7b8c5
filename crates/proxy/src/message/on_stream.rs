//! What a response decides alike on a stream of HTTP/2 and on one of HTTP/3: its end, its fields, its pace.
//!
//! The end of a message is the end of its stream, and who writes it says when that comes. A declared length is a field like others, behind which trailers
//! may stand (RFC 9113 §8.1, RFC 9114 §4.1); whether the content has it was checked where it was read.

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
    /// The response has no content, whatever is sent.
    is_bodiless: bool,
    /// The stream ends with the next so many bytes, if that was said.
    ends_in: Option<u64>,
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
            is_bodiless: false,
            ends_in: None,
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

    /// Ends the head of a response with this status: notes whether it has content, and puts the fields that are still missing.
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
        self.is_bodiless = self.is_head_request || matches!(status, 204 | 304) || framing == BodyFraming::None;
        self.ends_in = None;
        match (declared_length, framing) {
            (Some(length), _) => put(b"content-length", length),
            (None, BodyFraming::Length(length)) => {
                put(b"content-length", ShortText::of_number(length).as_bytes());
            }
            _ => {}
        }
    }

    /// Whether content may be sent. A server that sends some with a response that has none is not passed on.
    pub fn takes_content(&self) -> bool {
        !self.is_bodiless
    }

    /// Counts a piece of the body that is about to be sent. Whether the stream ends with it.
    pub fn sends(&mut self, bytes: usize) -> bool {
        self.ends_in = self.ends_in.map(|rest| rest.saturating_sub(bytes as u64));
        self.ends_in == Some(0)
    }

    /// The stream ends with the next piece, which has so many bytes: no trailers follow.
    pub fn ends_with(&mut self, bytes: usize) {
        self.ends_in = Some(bytes as u64);
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
        (fields, on_stream.takes_content())
    }

    #[test]
    fn a_length_is_said_once_and_a_status_tells_whether_there_is_content() {
        let told = |length: u64| format!("content-length: {length};");
        assert_eq!(finish(Method::Get, 200, BodyFraming::Length(5), None), (told(5), true));
        assert_eq!(finish(Method::Get, 200, BodyFraming::Length(0), None), (told(0), true));
        assert_eq!(finish(Method::Get, 200, BodyFraming::Chunked, None), (String::new(), true));
        assert_eq!(finish(Method::Get, 204, BodyFraming::Chunked, None), (String::new(), false));
        assert_eq!(finish(Method::Head, 200, BodyFraming::None, Some(b"70")), (told(70), false));
        assert_eq!(finish(Method::Get, 304, BodyFraming::None, Some(b"70")), (told(70), false));
    }

    #[test]
    fn the_last_piece_is_known_by_who_sends_it_and_not_by_the_length() {
        let mut declared = on_stream(Method::Get);
        declared.finish_head(200, BodyFraming::Length(7), None, |_, _| {});
        assert!(!declared.sends(4));
        assert!(!declared.sends(3), "trailers may follow");
        let mut chunked = on_stream(Method::Get);
        chunked.finish_head(200, BodyFraming::Chunked, None, |_, _| {});
        assert!(!chunked.sends(4));
        chunked.ends_with(3);
        assert!(chunked.sends(3));
    }
}
