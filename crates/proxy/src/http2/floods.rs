//! What a client may have a connection of HTTP/2 or HTTP/3 do for nothing (RFC 9113 §10.5, RFC 9114 §10.5).
//!
//! Each frame is cheap, and so is each request that is thrown away; what hurts is how many there are beside the useful ones. Owns three allowances,
//! of frames that carry nothing, of requests that come to nothing, and of those among them that the client did not cancel, all earned by what the
//! client is sent, and the length of a turn.
//! Does not read header blocks and does not end the connection: `h2` does, once an allowance is used up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use config::limits::Limits;
use net::clock::coarse;
use reason::Reason;

/// Frames that a client may send for each DATA or HEADERS frame it gets: gRPC clients send WINDOW_UPDATE for stream and connection, PING and now
/// and then SETTINGS with what they receive.
const FRAMES_PER_MESSAGE: i64 = 10;

/// A request that ran for so long before its client cancelled it was no burden beyond the place it held.
const PREMATURE: Duration = Duration::from_secs(1);

/// How much of a connection is worked off before the others of its worker get their turn, in units of about 50 ns: some 25 requests, a header
/// block of 3 KiB, or 400 KiB of data.
const TURN: u32 = 6_000;

/// The turn of a connection that has used up half of what it may ask for in vain: some three requests. What it asks for costs as much as what others do.
const SHORT_TURN: u32 = TURN / 8;

/// Work of any frame, of a request begun, and of bytes: of a header block (a field may be one byte), of anything else.
const FRAME_WORK: u32 = 8;
const REQUEST_WORK: u32 = 100;
const WORK_PER_HEADER_BYTE: u32 = 2;
const BYTES_PER_WORK: u32 = 64;

/// Streams whose bodies are expected that are remembered; of those beyond, DATA counts as a frame that carries nothing.
const MAX_BODIES: usize = 1024;

/// Credit is counted in thousandths, so that it comes back with every millisecond.
const CREDIT: i64 = 1_000;

/// Frame types and flags (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

/// The beginning of a frame (RFC 9113 §4.1).
#[derive(Debug, Clone, Copy)]
pub struct FrameHead {
    /// Bytes behind it.
    pub length: usize,
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
}

/// Length of a frame head.
pub const FRAME_HEAD: usize = 9;

impl FrameHead {
    /// Reads it.
    pub fn read([high, middle, low, kind, flags, stream @ ..]: [u8; FRAME_HEAD]) -> FrameHead {
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        FrameHead { length, kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff }
    }

    /// Writes it.
    pub fn write(self, out: &mut Vec<u8>) {
        let [_, length @ ..] = (self.length as u32).to_be_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
    }
}

/// So much at once, and so much more per second.
#[derive(Debug)]
struct Allowance {
    burst: i64,
    rate: i64,
    left: Cell<i64>,
    refilled: Cell<Duration>,
}

impl Allowance {
    fn new(burst: u32, rate: u32, now: Duration) -> Allowance {
        let burst = i64::from(burst) * CREDIT;
        Allowance { burst, rate: i64::from(rate), left: Cell::new(burst), refilled: Cell::new(now) }
    }

    fn refill(&self, now: Duration) {
        let elapsed = now.saturating_sub(self.refilled.replace(now));
        let milliseconds = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        self.give(milliseconds.saturating_mul(self.rate));
    }

    fn give(&self, credit: i64) {
        self.left.set(self.left.get().saturating_add(credit).min(self.burst));
    }

    fn spend(&self) {
        self.left.set(self.left.get() - CREDIT);
    }

    fn is_spent(&self) -> bool {
        self.left.get() < 0
    }

    fn is_half_spent(&self) -> bool {
        self.left.get() < self.burst / 2
    }
}

#[derive(Debug)]
struct Bounds {
    /// Frames that carry nothing.
    frames: Allowance,
    /// Requests that come to nothing.
    requests: Allowance,
    /// Those among them that were rejected: ordinary clients cancel a lot, but send few of these.
    rejected: Allowance,
    /// Most fields of a request.
    max_headers: usize,
    /// Most bytes of a field section.
    max_head_bytes: usize,
    /// What a flooded connection is ended for.
    why: Cell<Reason>,
    /// Streams that may send DATA.
    bodies: RefCell<BTreeSet<u32>>,
    /// Requests whose heads are whole and which the library has not given out.
    waiting: Cell<u32>,
    /// The library has read all it was given.
    is_drained: Cell<bool>,
    /// What this turn has cost so far.
    turn: Cell<u32>,
    /// The client does not take what it is sent. Until it does no credit comes back by itself, so that what waits to be written is bounded, too.
    is_blocked: Cell<bool>,
}

/// The account of one connection.
#[derive(Debug)]
pub struct Floods(Option<Bounds>);

impl Floods {
    /// That of a client's connection.
    pub fn of_client(limits: &Limits) -> Floods {
        let now = coarse();
        Floods(Some(Bounds {
            frames: Allowance::new(limits.h2_control_frame_burst, limits.h2_control_frame_rate, now),
            requests: Allowance::new(limits.h2_failed_request_burst, limits.h2_failed_request_rate, now),
            rejected: Allowance::new(limits.h2_failed_request_burst, limits.h2_rejected_request_rate, now),
            max_headers: limits.max_headers,
            max_head_bytes: limits.max_head_bytes,
            why: Cell::new(Reason::Http2Flood),
            bodies: RefCell::default(),
            waiting: Cell::new(0),
            is_drained: Cell::new(false),
            turn: Cell::new(0),
            is_blocked: Cell::new(false),
        }))
    }

    /// Of a peer that was configured: nothing is counted.
    pub fn unbounded() -> Floods {
        Floods(None)
    }

    /// Whether the peer has used up an allowance.
    pub fn is_flooded(&self) -> bool {
        self.0.as_ref().is_some_and(|bounds| bounds.allowances().into_iter().any(Allowance::is_spent))
    }

    /// Most fields that a request may have.
    pub fn max_headers(&self) -> usize {
        self.0.as_ref().map_or(usize::MAX, |bounds| bounds.max_headers)
    }

    /// Most bytes that a field section of a request may have.
    pub fn max_head_bytes(&self) -> usize {
        self.0.as_ref().map_or(usize::MAX, |bounds| bounds.max_head_bytes)
    }

    /// What a connection is ended for if [`Floods::is_flooded`].
    pub fn why(&self) -> Reason {
        self.0.as_ref().map_or(Reason::Http2Flood, |bounds| bounds.why.get())
    }

    /// Whether others are to have their turn.
    pub fn is_turn_over(&self) -> bool {
        self.0.as_ref().is_some_and(|bounds| {
            let is_failing = bounds.requests.is_half_spent() || bounds.rejected.is_half_spent();
            bounds.turn.get() >= if is_failing { SHORT_TURN } else { TURN }
        })
    }

    /// The connection has its turn again.
    pub fn begin_turn(&self) {
        self.0.iter().for_each(|bounds| bounds.turn.set(0));
    }

    /// Counts a frame that came in.
    pub fn received(&self, head: FrameHead) {
        let Some(bounds) = &self.0 else { return };
        let bytes = u32::try_from(head.length).unwrap_or(u32::MAX);
        let work = match head.kind {
            HEADERS => REQUEST_WORK.saturating_add(bytes.saturating_mul(WORK_PER_HEADER_BYTE)),
            CONTINUATION => bytes.saturating_mul(WORK_PER_HEADER_BYTE),
            _ => bytes / BYTES_PER_WORK,
        };
        bounds.turn.set(bounds.turn.get().saturating_add(FRAME_WORK).saturating_add(work));
        if !bounds.is_body(head) {
            bounds.spend(&bounds.frames);
        }
    }

    /// Counts a frame of HTTP/3 that carries nothing.
    pub fn carried_nothing(&self) {
        self.0.iter().for_each(|bounds| bounds.spend(&bounds.frames));
    }

    /// Counts a frame of HTTP/3 with some of a response, which goes out.
    pub fn sent_message(&self) {
        self.0.iter().for_each(|bounds| bounds.frames.give(FRAMES_PER_MESSAGE * CREDIT));
    }

    /// The peer has gone too far at once.
    pub fn exhaust(&self, why: Reason) {
        self.0.iter().for_each(|bounds| {
            bounds.frames.left.set(i64::MIN / 2);
            bounds.why.set(why);
        });
    }

    /// Counts a frame that goes out.
    fn sent(&self, head: FrameHead) {
        let Some(bounds) = &self.0 else { return };
        match head.kind {
            DATA | HEADERS => bounds.frames.give(FRAMES_PER_MESSAGE * CREDIT),
            // Whatever the client did to deserve it.
            RST_STREAM => bounds.spend(&bounds.frames),
            _ => {}
        }
    }

    /// Notes whether the client takes what it is sent.
    pub fn set_blocked(&self, is_blocked: bool) {
        let Some(bounds) = &self.0 else { return };
        if bounds.is_blocked.replace(is_blocked) == is_blocked {
            return;
        }
        let now = coarse();
        for allowance in bounds.allowances() {
            if is_blocked {
                allowance.refill(now);
            }
            allowance.refilled.set(now);
        }
    }

    /// Notes whether the library has read all it was given.
    pub fn set_drained(&self, is_drained: bool) {
        self.0.iter().for_each(|bounds| bounds.is_drained.set(is_drained));
    }

    /// The head of a request is whole.
    pub fn opened(&self) {
        self.0.iter().for_each(|bounds| bounds.waiting.set(bounds.waiting.get() + 1));
    }

    /// The library has given out a request.
    pub fn accepted(&self) {
        self.0.iter().for_each(|bounds| bounds.waiting.set(bounds.waiting.get().saturating_sub(1)));
    }

    /// The library has none to give out: it has rejected those that are missing, as malformed, too large, or too many.
    pub fn accepted_all(&self) {
        self.accepted_all_but(0);
    }

    /// As [`Floods::accepted_all`], where the library may keep up to `most` requests that nobody has asked it for.
    pub fn accepted_all_but(&self, most: u32) {
        let Some(bounds) = &self.0 else { return };
        let waiting = bounds.waiting.get();
        if bounds.is_drained.get() && waiting > most {
            bounds.waiting.set(most);
            (most..waiting).for_each(|_| bounds.reject());
        }
    }

    /// A request was rejected for its head.
    pub fn rejected(&self) {
        self.0.iter().for_each(Bounds::reject);
    }

    /// A request was cancelled before its response began, after so long.
    pub fn cancelled(&self, age: Duration) {
        if age < PREMATURE {
            self.0.iter().for_each(|bounds| bounds.spend(&bounds.requests));
        }
    }

    /// A request got a response, which pays for another that gets none.
    pub fn answered(&self) {
        self.0.iter().for_each(|bounds| {
            bounds.requests.give(CREDIT);
            bounds.rejected.give(CREDIT);
        });
    }
}

impl Bounds {
    fn allowances(&self) -> [&Allowance; 3] {
        [&self.frames, &self.requests, &self.rejected]
    }

    /// A request came to nothing, and its client did not cancel it.
    fn reject(&self) {
        self.spend(&self.requests);
        self.spend(&self.rejected);
    }

    /// Whether a frame is part of a body that is expected. One that is empty and does not end it carries nothing.
    fn is_body(&self, head: FrameHead) -> bool {
        let ends = head.flags & END_STREAM != 0;
        match head.kind {
            DATA if ends => self.bodies.borrow_mut().remove(&head.stream),
            DATA => head.length > 0 && self.bodies.borrow().contains(&head.stream),
            HEADERS if !ends => {
                let mut bodies = self.bodies.borrow_mut();
                bodies.insert(head.stream);
                if bodies.len() > MAX_BODIES {
                    bodies.pop_first();
                }
                false
            }
            HEADERS | RST_STREAM => {
                let mut bodies = self.bodies.borrow_mut();
                if !bodies.is_empty() {
                    bodies.remove(&head.stream);
                }
                false
            }
            _ => false,
        }
    }

    fn spend(&self, allowance: &Allowance) {
        if !self.is_blocked.get() {
            allowance.refill(coarse());
        }
        allowance.spend();
    }
}

/// Finds the frames in what is written, in whatever pieces.
#[derive(Debug, Default)]
pub struct Written {
    /// Bytes until the next head.
    skip: usize,
    /// As much of a head as came so far.
    head: [u8; FRAME_HEAD],
    held: usize,
    /// What is skipped is a body's.
    is_data: bool,
}

impl Written {
    /// Looks at the next bytes; tells how many of them are a body's.
    pub fn see(&mut self, mut bytes: &[u8], floods: &Floods) -> usize {
        let mut data = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                data += if self.is_data { skipped } else { 0 };
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            if self.held == 0
                && let Some((head, rest)) = bytes.split_first_chunk()
            {
                bytes = rest;
                self.begin(*head, floods);
                continue;
            }
            let (taken, rest) = bytes.split_at((FRAME_HEAD - self.held).min(bytes.len()));
            self.head.iter_mut().skip(self.held).zip(taken).for_each(|(held, byte)| *held = *byte);
            self.held += taken.len();
            bytes = rest;
            if self.held == FRAME_HEAD {
                self.held = 0;
                self.begin(self.head, floods);
            }
        }
        data
    }

    fn begin(&mut self, head: [u8; FRAME_HEAD], floods: &Floods) {
        let head = FrameHead::read(head);
        self.skip = head.length;
        self.is_data = head.kind == DATA;
        floods.sent(head);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Allowances that do not come back by themselves.
    fn floods(frames: u32, requests: u32) -> Floods {
        Floods::of_client(&Limits {
            h2_control_frame_burst: frames,
            h2_control_frame_rate: 0,
            h2_failed_request_burst: requests,
            h2_failed_request_rate: 0,
            h2_rejected_request_rate: 0,
            ..Limits::default()
        })
    }

    fn head(kind: u8, flags: u8, length: usize) -> FrameHead {
        FrameHead { length, kind, flags, stream: 1 }
    }

    /// How many times `what` is allowed.
    fn allowed(floods: &Floods, what: impl Fn(&Floods)) -> usize {
        (0..10_000)
            .take_while(|_| {
                what(floods);
                !floods.is_flooded()
            })
            .count()
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn what_carries_nothing_is_allowed_so_often() {
        const PING: u8 = 6;
        const WINDOW_UPDATE: u8 = 8;
        for (what, kind, flags, length, expected) in [
            ("PING", PING, 0, 8, 20),
            ("WINDOW_UPDATE", WINDOW_UPDATE, 0, 4, 20),
            ("RST_STREAM", RST_STREAM, 0, 4, 20),
            ("HEADERS", HEADERS, 0, 10, 20),
            ("empty DATA", DATA, 0, 0, 20),
            ("DATA", DATA, 0, 10, 10_000),
        ] {
            let floods = floods(21, 5);
            // A request with a body to come.
            floods.received(head(HEADERS, 0, 100));
            assert_eq!(allowed(&floods, |floods| floods.received(head(kind, flags, length))), expected, "{what}");
        }
    }

    #[test]
    fn data_that_belongs_to_no_body_carries_nothing() {
        for (what, before) in [
            ("never begun", &[][..]),
            ("begun and ended at once", &[(HEADERS, END_STREAM)]),
            ("ended", &[(HEADERS, 0), (DATA, 0), (DATA, END_STREAM)]),
            ("ended by trailers", &[(HEADERS, 0), (HEADERS, END_STREAM)]),
            ("reset", &[(HEADERS, 0), (RST_STREAM, 0)]),
        ] {
            let floods = floods(20, 5);
            before.iter().for_each(|(kind, flags)| floods.received(head(*kind, *flags, 10)));
            floods.sent(head(HEADERS, 0, 10));
            for flags in [0, END_STREAM] {
                assert_eq!(allowed(&floods, |floods| floods.received(head(DATA, flags, 10))), 20, "{what}");
                (0..3).for_each(|_| floods.sent(head(HEADERS, 0, 10)));
            }
        }
        let floods = floods(5000, 5);
        for stream in 0..4000 {
            floods.received(FrameHead { length: 10, kind: HEADERS, flags: 0, stream });
        }
        assert_eq!(floods.0.unwrap().bodies.borrow().len(), MAX_BODIES);
    }

    #[test]
    fn requests_that_the_library_does_not_give_out_were_rejected() {
        let floods = floods(20, 5);
        (0..7).for_each(|_| floods.opened());
        floods.accepted();
        floods.accepted_all();
        assert!(!floods.is_flooded(), "some may not have been read");
        floods.set_drained(true);
        floods.accepted_all();
        assert!(floods.is_flooded());
    }

    #[test]
    fn messages_pay_for_the_frames_that_come_with_them() {
        let floods = floods(20, 5);
        for _ in 0..20_000 {
            floods.sent(head(DATA, 0, 5));
            (0..4).for_each(|_| floods.received(head(6, 0, 8)));
        }
        assert!(!floods.is_flooded());
        // But nobody saves up for more than a burst.
        floods.sent(head(DATA, 0, 5));
        assert_eq!(allowed(&floods, |floods| floods.received(head(6, 0, 8))), 20);
    }

    #[test]
    fn requests_that_come_to_nothing_are_held_against_those_that_do() {
        for (what, fail) in [
            ("rejected", &Floods::rejected as &dyn Fn(&Floods)),
            ("cancelled", &|floods| floods.cancelled(Duration::from_millis(50))),
        ] {
            let floods = floods(20, 5);
            for _ in 0..1000 {
                fail(&floods);
                floods.answered();
            }
            assert_eq!(allowed(&floods, fail), 5, "{what}");
        }
        assert_eq!(allowed(&floods(20, 5), |floods| floods.cancelled(PREMATURE)), 10_000);
    }

    #[test]
    fn frames_that_go_out_are_found_however_they_are_split() {
        let frames = [
            frame(HEADERS, &[0; 30]),
            frame(RST_STREAM, &[0, 0, 0, 1]),
            frame(DATA, &[0; 100]),
            frame(DATA, &[]),
            frame(RST_STREAM, &[0, 0, 0, 5]),
            frame(4, &[]),
        ];
        for piece in [1, 2, 9, 10, 13, 1000] {
            let floods = floods(1000, 5);
            (0..100).for_each(|_| floods.received(head(6, 0, 8)));
            let mut written = Written::default();
            let data: usize = frames.concat().chunks(piece).map(|piece| written.see(piece, &floods)).sum();
            assert_eq!(data, 100, "pieces of {piece}");
            assert_eq!(floods.0.unwrap().frames.left.get(), 928 * CREDIT, "pieces of {piece}");
        }
    }

    #[test]
    fn credit_comes_back_with_every_millisecond_up_to_a_burst() {
        let at = Duration::from_millis;
        let allowance = Allowance::new(10, 100, at(0));
        (0..10).for_each(|_| allowance.spend());
        for (now, left) in [(9, 900), (10, 1000), (19, 1900), (60, 6000), (5000, 10_000)] {
            allowance.refill(at(now));
            assert_eq!(allowance.left.get(), left, "after {now} ms");
        }
    }

    /// HEADERS, RST_STREAM and two of WINDOW_UPDATE or PING for each call, which is what clients of gRPC send.
    #[test]
    fn five_hundred_cancelled_calls_a_second_are_no_flood_and_six_hundred_are() {
        for (calls, is_flood) in [(500, false), (600, true)] {
            let limits = Limits::default();
            let frames = Allowance::new(limits.h2_control_frame_burst, limits.h2_control_frame_rate, Duration::ZERO);
            let requests =
                Allowance::new(limits.h2_failed_request_burst, limits.h2_failed_request_rate, Duration::ZERO);
            let mut is_spent = false;
            for call in 0..60 * calls {
                let now = Duration::from_secs(call) / u32::try_from(calls).unwrap();
                frames.refill(now);
                requests.refill(now);
                (0..4).for_each(|_| frames.spend());
                requests.spend();
                is_spent |= frames.is_spent() || requests.is_spent();
            }
            assert_eq!(is_spent, is_flood, "{calls} calls a second");
        }
    }

    #[test]
    fn rejected_requests_come_back_more_slowly_than_cancelled_ones() {
        let limits = Limits::default();
        let burst = limits.h2_failed_request_burst as usize;
        let not_given_out = |floods: &Floods| {
            floods.opened();
            floods.set_drained(true);
            floods.accepted_all();
        };
        for (what, fail, expected) in [
            ("rejected", &Floods::rejected as &dyn Fn(&Floods), 100),
            ("cancelled", &|floods| floods.cancelled(Duration::ZERO), 500),
            ("not given out", &not_given_out, 100),
        ] {
            let floods = Floods::of_client(&limits);
            // Nothing comes back but what is given here.
            floods.set_blocked(true);
            let allowances = floods.0.as_ref().unwrap().allowances();
            allowances.into_iter().for_each(|allowance| allowance.refilled.set(Duration::ZERO));
            assert_eq!(allowed(&floods, fail), burst, "{what}");
            allowances.into_iter().for_each(|allowance| allowance.refill(Duration::from_secs(1)));
            // The one that was too much is made up for first.
            assert_eq!(allowed(&floods, fail), expected - 1, "{what}, a second later");
        }
    }

    #[test]
    fn nothing_comes_back_while_the_client_takes_nothing() {
        let floods = Floods::of_client(&Limits { h2_control_frame_burst: 5, ..Limits::default() });
        floods.set_blocked(true);
        let frames = &floods.0.as_ref().unwrap().frames;
        frames.refilled.set(Duration::ZERO);
        assert_eq!(allowed(&floods, |floods| floods.received(head(6, 0, 8))), 5);
        floods.set_blocked(false);
        // Nor for the time that has gone by so.
        assert!(frames.left.get() < 0);
    }

    #[test]
    fn a_turn_is_over_after_some_work() {
        let turn = |kind, length| {
            let floods = Floods::of_client(&Limits::default());
            let frames = (0..).take_while(|_| {
                floods.received(head(kind, 0, length));
                !floods.is_turn_over()
            });
            let frames = frames.count() + 1;
            floods.begin_turn();
            assert!(!floods.is_turn_over());
            frames
        };
        assert_eq!((turn(6, 8), turn(HEADERS, 60), turn(HEADERS, 16_000), turn(DATA, 16_384)), (750, 27, 1, 23));
        let failing = Floods::of_client(&Limits { h2_failed_request_rate: 0, ..Limits::default() });
        let requests = |floods: &Floods| {
            floods.begin_turn();
            let mut requests = 0;
            while !floods.is_turn_over() {
                floods.received(head(HEADERS, END_STREAM, 60));
                requests += 1;
            }
            requests
        };
        let burst = Limits::default().h2_failed_request_burst;
        (0..burst / 2).for_each(|_| failing.rejected());
        assert_eq!(requests(&failing), 27);
        failing.rejected();
        assert_eq!(requests(&failing), 4, "half of its requests came to nothing");
        failing.answered();
        assert_eq!(requests(&failing), 27, "and then one did not");
        let unbounded = Floods::unbounded();
        (0..10_000).for_each(|_| unbounded.received(head(HEADERS, 0, 16_000)));
        assert!(!unbounded.is_turn_over() && !unbounded.is_flooded());
    }
}
