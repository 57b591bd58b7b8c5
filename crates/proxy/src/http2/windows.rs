//! How far the peer of an HTTP/2 connection may send ahead (RFC 9113 §5.2): some times what is taken within a round trip.
//!
//! A window that is smaller than what a path holds slows each body down to one window in a round trip. A PING measures the trip, and what a stream has had taken
//! meanwhile says whether its window was what bounded it: then both windows grow, within `limits.max_receive_window` and the memory that all connections share.
//! Only what was taken counts, by the upstream or the client on the other side, and not what arrived: who is slow has no more waiting here than before.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};

/// The largest window there is (RFC 9113 §6.9.1).
const MOST_WINDOW: u32 = 2_147_483_647;

/// A window is too small if more than so much of it, as a divisor, is taken within a round trip, and then doubles. What it grew by is sent one trip later, and the
/// slow start of TCP doubles within a trip (RFC 5681 §3.1), so that a half would be too late.
const TOO_SMALL: u64 = 4;

/// A window is too large if less than so much of it, as a divisor, is taken within a round trip, and then halves.
const TOO_LARGE: u64 = 16;

/// What is taken between two measurements at most, in windows of the connection, where the last ones have changed nothing.
const MOST_PAUSE: u64 = 8;

/// Windows of a connection in bytes: of each stream, and of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes that the peer may send ahead on one stream.
    pub stream: u32,
    /// Bytes that it may send ahead in all.
    pub connection: u32,
}

/// How far windows may grow.
#[derive(Debug, Clone)]
pub struct Growth {
    /// The largest window of a stream.
    pub most_of_stream: u32,
    /// What windows may have in all, beyond what each connection begins with.
    pub memory: usize,
    /// What they have of it.
    pub taken: Arc<AtomicUsize>,
}

/// What was taken of what the peer has sent.
#[derive(Debug, Default)]
pub struct Taken {
    bytes: Cell<u64>,
    /// The number of the measurement, and the most that was taken of one stream in it.
    measurement: Cell<u32>,
    most: Cell<u64>,
}

/// What was taken of one stream, in a measurement.
#[derive(Debug, Default)]
pub struct OfStream {
    measurement: u32,
    bytes: u64,
}

impl Taken {
    /// Counts bytes of one stream.
    pub fn count(&self, stream: &mut OfStream, bytes: usize) {
        let bytes = bytes as u64;
        self.bytes.set(self.bytes.get() + bytes);
        if stream.measurement != self.measurement.get() {
            *stream = OfStream { measurement: self.measurement.get(), bytes: 0 };
        }
        stream.bytes += bytes;
        self.most.set(self.most.get().max(stream.bytes));
    }

    /// Begins a measurement.
    fn begin(&self) {
        self.measurement.set(self.measurement.get().wrapping_add(1));
        self.most.set(0);
    }
}

/// A connection whose windows can be changed.
pub trait Resize {
    /// Sets the window of each stream; false while the peer has not acknowledged the one before.
    fn resize_streams(&mut self, bytes: u32) -> bool;
    /// Sets the window of the connection.
    fn resize(&mut self, bytes: u32);
}

impl<T: AsyncRead + AsyncWrite + Unpin> Resize for h2::server::Connection<T, Bytes> {
    fn resize_streams(&mut self, bytes: u32) -> bool {
        self.set_initial_window_size(bytes).is_ok()
    }

    fn resize(&mut self, bytes: u32) {
        self.set_target_window_size(bytes);
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Resize for h2::client::Connection<T, Bytes> {
    fn resize_streams(&mut self, bytes: u32) -> bool {
        self.set_initial_window_size(bytes).is_ok()
    }

    fn resize(&mut self, bytes: u32) {
        self.set_target_window_size(bytes);
    }
}

/// Where the measurement stands.
#[derive(Debug)]
enum Stage {
    /// The next one begins once so much was taken.
    Until(u64),
    /// Begun when so much was taken.
    Since(u64),
}

/// The windows of one connection.
#[derive(Debug)]
pub struct Windows {
    first: Size,
    growth: Growth,
    pings: Option<PingPong>,
    stage: Stage,
    /// What is taken until the next measurement.
    pause: u64,
    /// The window of each stream that is wanted.
    stream: u32,
    /// What the connection was asked for, and with how many tunnels.
    asked: Size,
    tunnels: u32,
    /// Memory beyond the first windows that this connection has of [`Growth::taken`].
    memory: usize,
}

impl Windows {
    /// Those that a connection begins with. `pings`: its own, by which the round trip is measured.
    pub fn new(first: Size, growth: Growth, pings: Option<PingPong>) -> Windows {
        let pause = u64::from(first.stream) / TOO_SMALL;
        let stage = Stage::Until(pause);
        Windows { first, growth, pings, stage, pause, stream: first.stream, asked: first, tunnels: 0, memory: 0 }
    }

    /// Goes on measuring, and has the connection grow or shrink its windows; to be called whenever the connection is about to be moved. `tunnels`: streams that
    /// have a window of their own within that of the connection, so that one whose server does not read takes nothing from others.
    pub fn poll(&mut self, connection: &mut impl Resize, taken: &Taken, tunnels: u32, context: &mut Context<'_>) {
        self.measure(taken, context);
        if self.stream == self.asked.stream && tunnels == self.tunnels {
            return;
        }
        self.tunnels = tunnels;
        // What others have left may be too little for the next step, or for one tunnel more.
        for stream in [self.stream, self.asked.stream.min(self.stream), self.first.stream] {
            self.stream = stream;
            if self.reserve() {
                break;
            }
        }
        let of_connection = self.of_connection(self.stream);
        if self.asked.connection != of_connection {
            self.asked.connection = of_connection;
            connection.resize(of_connection);
        }
        if self.asked.stream != self.stream && connection.resize_streams(self.stream) {
            self.asked.stream = self.stream;
        }
    }

    /// Gives back what it has grown, where others may be in need of it: the connection has no streams.
    pub fn rest(&mut self) {
        if self.memory > 0 && self.growth.taken.load(Ordering::Relaxed) > self.growth.memory / 2 {
            self.stream = self.first.stream;
        }
    }

    fn measure(&mut self, taken: &Taken, context: &mut Context<'_>) {
        let Some(pings) = &mut self.pings else { return };
        match self.stage {
            Stage::Until(bytes) if taken.bytes.get() < bytes => return,
            Stage::Until(_) => {
                // One may be under way yet whose peer has not responded.
                if pings.send_ping(Ping::opaque()).is_err() {
                    return;
                }
                taken.begin();
                self.stage = Stage::Since(taken.bytes.get());
            }
            Stage::Since(_) => {}
        }
        let Stage::Since(from) = self.stage else { return };
        match pings.poll_pong(context) {
            Poll::Pending => {}
            Poll::Ready(Ok(_)) => {
                self.learn(taken.bytes.get() - from, taken.most.get());
                self.stage = Stage::Until(taken.bytes.get() + self.pause);
            }
            Poll::Ready(Err(_)) => self.pings = None,
        }
    }

    /// Learns what was taken in a round trip, in all and of the stream that had most.
    fn learn(&mut self, of_all: u64, of_stream: u64) {
        let (stream, connection) = (u64::from(self.stream), u64::from(self.of_connection(self.stream)));
        let is_too_small = of_stream * TOO_SMALL > stream || of_all * TOO_SMALL > connection;
        let is_too_large = of_stream * TOO_LARGE < stream && of_all * TOO_LARGE < connection;
        if is_too_small && self.stream < self.growth.most_of_stream {
            self.stream = self.stream.saturating_mul(2).min(self.growth.most_of_stream);
            // What is sent may grow as fast.
            self.pause = 0;
            return;
        }
        if is_too_large {
            self.stream = (self.stream / 2).max(self.first.stream);
        }
        self.pause = self.pause.max(stream / TOO_SMALL);
        self.pause = (self.pause * 2).min(connection * MOST_PAUSE);
    }

    /// The window of the connection while each stream has this one: as many times as much as at the beginning, and one for each tunnel.
    fn of_connection(&self, stream: u32) -> u32 {
        let count = (self.first.connection / self.first.stream).saturating_add(self.tunnels);
        count.saturating_mul(stream).min(MOST_WINDOW)
    }

    /// Takes the memory for what is wanted, if there is as much; always for what is there without having grown.
    fn reserve(&mut self) -> bool {
        let bytes = (self.of_connection(self.stream) - self.of_connection(self.first.stream)) as usize;
        let held = self.memory;
        let most = self.growth.memory;
        let after = |all: usize| Some(all.saturating_sub(held) + bytes).filter(|all| bytes <= held || *all <= most);
        let is_reserved = self.growth.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).is_ok();
        if is_reserved {
            self.memory = bytes;
        }
        is_reserved
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.growth.taken.fetch_sub(self.memory, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::task::Waker;

    use super::*;

    const KIB: u32 = 1024;
    const FIRST: Size = Size { stream: 256 * KIB, connection: 1024 * KIB };

    /// Takes what it is asked for once its peer has acknowledged what was before.
    #[derive(Default)]
    struct Asked {
        stream: Option<u32>,
        connection: Option<u32>,
        is_waiting: bool,
    }

    impl Resize for Asked {
        fn resize_streams(&mut self, bytes: u32) -> bool {
            if !self.is_waiting {
                self.stream = Some(bytes);
            }
            !self.is_waiting
        }

        fn resize(&mut self, bytes: u32) {
            self.connection = Some(bytes);
        }
    }

    fn windows(memory: &Arc<AtomicUsize>, most: usize) -> Windows {
        let growth = Growth { most_of_stream: 4096 * KIB, memory: most, taken: Arc::clone(memory) };
        Windows::new(FIRST, growth, None)
    }

    fn poll(windows: &mut Windows, tunnels: u32) -> Asked {
        let mut asked = Asked::default();
        windows.poll(&mut asked, &Taken::default(), tunnels, &mut Context::from_waker(Waker::noop()));
        asked
    }

    fn sizes(asked: &Asked) -> (Option<u32>, Option<u32>) {
        (asked.stream, asked.connection)
    }

    #[test]
    fn windows_follow_what_is_taken_in_a_round_trip() {
        let memory = Arc::default();
        let mut windows = windows(&memory, usize::MAX);
        let kib = |kib: u64| kib * u64::from(KIB);
        // In all, of the stream that had most, and what the windows are asked to be then, in KiB.
        for (of_all, of_stream, expected) in [
            // A slow reader, and one that takes a quarter at most.
            (1, 1, 256),
            (64, 64, 256),
            (65, 65, 512),
            // What many streams take in all is not what bounds one, as long as the connection's window has room.
            (512, 1, 512),
            (513, 1, 1024),
            (9999, 4096, 2048),
            (9999, 4096, 4096),
            // The largest there is. It is kept as long as the next smaller one could be too small.
            (9999, 4096, 4096),
            (256, 256, 4096),
            (255, 255, 2048),
            (255, 255, 2048),
            (0, 0, 1024),
            (0, 0, 512),
            (0, 0, 256),
            (0, 0, 256),
        ] {
            windows.learn(kib(of_all), kib(of_stream));
            assert_eq!(windows.stream, expected * KIB, "{of_all} {of_stream}");
        }
    }

    #[test]
    fn the_peer_is_asked_once_and_again_where_it_was_not_ready() {
        let memory = Arc::default();
        let mut windows = windows(&memory, usize::MAX);
        assert_eq!(sizes(&poll(&mut windows, 0)), (None, None));
        windows.learn(256 * 1024, 256 * 1024);
        let mut waiting = Asked { is_waiting: true, ..Asked::default() };
        windows.poll(&mut waiting, &Taken::default(), 0, &mut Context::from_waker(Waker::noop()));
        assert_eq!(sizes(&waiting), (None, Some(2048 * KIB)));
        assert_eq!(sizes(&poll(&mut windows, 0)), (Some(512 * KIB), None));
        assert_eq!(sizes(&poll(&mut windows, 0)), (None, None));
        // A tunnel has a window of its own, and gives it back.
        assert_eq!(sizes(&poll(&mut windows, 2)), (None, Some(3072 * KIB)));
        assert_eq!(memory.load(Ordering::Relaxed), 6 * 256 * 1024);
        assert_eq!(sizes(&poll(&mut windows, 0)), (None, Some(2048 * KIB)));
        drop(windows);
        assert_eq!(memory.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_all_windows_have_grown_by_is_bounded() {
        let memory = Arc::default();
        let [mut first, mut second] = [windows(&memory, 1 << 20), windows(&memory, 1 << 20)];
        let grow = |windows: &mut Windows| windows.learn(4 << 20, 4 << 20);
        grow(&mut first);
        assert_eq!(poll(&mut first, 0).stream, Some(512 * KIB));
        // Neither the next step nor another connection has room; what there is stays.
        grow(&mut first);
        assert_eq!(sizes(&poll(&mut first, 0)), (None, None));
        grow(&mut second);
        assert_eq!(sizes(&poll(&mut second, 0)), (None, None));
        // A tunnel more has no room either, unless streams have less.
        assert_eq!(sizes(&poll(&mut first, 1)), (Some(256 * KIB), Some(1280 * KIB)));
        assert_eq!(memory.load(Ordering::Relaxed), 0);
        grow(&mut second);
        assert_eq!(poll(&mut second, 0).stream, Some(512 * KIB));
        // At rest it gives that back, since most of it is taken.
        second.rest();
        assert_eq!(poll(&mut second, 0).stream, Some(256 * KIB));
    }

    #[test]
    fn a_measurement_counts_the_stream_that_had_most() {
        let (taken, mut one, mut other) = (Taken::default(), OfStream::default(), OfStream::default());
        taken.count(&mut one, 100);
        taken.begin();
        taken.count(&mut one, 10);
        taken.count(&mut other, 7);
        taken.count(&mut other, 7);
        assert_eq!((taken.bytes.get(), taken.most.get()), (124, 14));
    }
}
