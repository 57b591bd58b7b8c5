//! The trace that a request belongs to, as it is known while the request lasts: its ids, and the tries at upstream servers. Makes no span; `span.rs` does, at the end.

use std::time::{Duration, Instant, SystemTime};

use wire::trace_context::{Parent, digits};

use super::drawn::is_drawn;

/// Tries that are kept of one request.
const MAX_TRIES: usize = 32;

/// The trace of one request.
#[derive(Debug)]
pub struct Trace {
    pub(super) trace_id: u128,
    /// The span of the request.
    pub(super) span_id: u64,
    /// The span that sent it.
    pub(super) parent: Option<u64>,
    is_sampled: bool,
    /// What others keep in it.
    pub(super) state: Box<[u8]>,
    /// Of a trace that is sampled.
    pub(super) tries: Vec<Try>,
}

/// One try at one server.
#[derive(Debug)]
pub(super) struct Try {
    pub(super) span_id: u64,
    pub(super) server: Box<str>,
    pub(super) began: SystemTime,
    pub(super) began_at: Instant,
    /// How it ended, if it ended before the request.
    pub(super) ended: Option<(Duration, Ended)>,
}

/// How a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By a response with this status.
    Status(u16),
    /// By a failure; a word for it.
    Failed(&'static str),
}

impl Trace {
    /// Goes on with the trace of whoever sent the request, if that is known, and is sampled if that one is; else begins a trace, of which so many of a million are sampled.
    pub fn of(parent: Option<Parent>, state: Option<Vec<u8>>, millionths: u32) -> Trace {
        let (trace_id, is_sampled) = match &parent {
            Some(parent) => (parent.trace_id, parent.is_sampled),
            None => (fastrand::u128(1..), is_drawn(millionths)),
        };
        let state = state.filter(|_| parent.is_some()).unwrap_or_default().into();
        let parent = parent.map(|parent| parent.span_id);
        Trace { trace_id, span_id: fastrand::u64(1..), parent, is_sampled, state, tries: Vec::new() }
    }

    /// Whether its spans are sent to the collector.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Its id in hexadecimal.
    pub(super) fn id(&self) -> [u8; 32] {
        let mut id = [0; 32];
        digits(&mut id, self.trace_id);
        id
    }

    /// The request is about to be sent to a server. Whether that is recorded: only of requests that are sampled, and of each only so many tries.
    pub fn begin_try(&mut self, server: &str) -> bool {
        let is_recorded = self.is_sampled && self.tries.len() < MAX_TRIES;
        if is_recorded {
            let (began, began_at) = (SystemTime::now(), Instant::now());
            self.tries.push(Try { span_id: fastrand::u64(1..), server: server.into(), began, began_at, ended: None });
        }
        is_recorded
    }

    /// Forgets the try that was recorded last: the request was not sent there.
    pub fn drop_try(&mut self) {
        self.tries.pop();
    }

    /// The last try at a server ended, and the request goes on.
    pub fn end_try(&mut self, server: &str, ended: Ended) {
        let open = self.tries.iter_mut().rev().find(|one| &*one.server == server && one.ended.is_none());
        if let Some(one) = open {
            one.ended = Some((one.began_at.elapsed(), ended));
        }
    }

    /// Gives the fields that say to a server which span its own belongs to.
    pub fn put(&self, put: &mut impl FnMut(&[u8], &[u8])) {
        let span_id = self.tries.last().map_or(self.span_id, |last| last.span_id);
        let parent = Parent { trace_id: self.trace_id, span_id, is_sampled: self.is_sampled };
        put(b"traceparent", &parent.value());
        if !self.state.is_empty() {
            put(b"tracestate", &self.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_that_was_not_recorded_takes_no_other_with_it() {
        let mut trace = Trace::of(None, None, 1_000_000);
        for number in 0..=MAX_TRIES {
            let is_recorded = trace.begin_try(&number.to_string());
            assert_eq!(is_recorded, number < MAX_TRIES, "{number}");
        }
        trace.drop_try();
        assert_eq!(trace.tries.last().map(|last| &*last.server), Some("30"));
        assert!(trace.begin_try("again"));
        assert!(!Trace::of(None, None, 0).begin_try("not sampled"));
    }
}
