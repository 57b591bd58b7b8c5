//! Server-sent events: everything that changes by itself, once a second, with rates and percentiles of that second.
//!
//! A task per stream makes the events, one at a time: who does not read gets no second one. It ends with its connection.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use telemetry::Snapshot;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::MissedTickBehavior;

use super::api::{Operable, View};
use super::rates::Rates;

/// Between two events.
const PERIOD: Duration = Duration::from_secs(1);

/// Events over which rejections count as recent: a minute.
const RECENT: usize = 60;

/// A stream of events; ends the task that makes them when dropped.
pub(super) struct Events {
    events: mpsc::Receiver<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// Begins a stream.
#[expect(
    clippy::disallowed_methods,
    reason = "the admin side has a runtime of its own, without connections of clients"
)]
pub(super) fn begin(role: Arc<dyn Operable>, place: OwnedSemaphorePermit) -> Events {
    let (sender, events) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut history = History::default();
        loop {
            tick.tick().await;
            // Made only when the last one was taken.
            let Ok(room) = sender.reserve().await else { return };
            let role = Arc::clone(&role);
            let made = tokio::task::spawn_blocking(move || {
                let event = history.event(&*role);
                (history, event)
            });
            // A panic is reported where it happens, and ends the stream.
            let Ok((next, event)) = made.await else { return };
            history = next;
            room.send(Bytes::from(format!("event: state\ndata: {event}\n\n")));
        }
    });
    Events { events, _place: place }
}

/// What was so before.
#[derive(Default)]
struct History {
    last: Option<(Instant, Snapshot)>,
    /// Rejections by side and reason, the oldest first.
    faults: VecDeque<BTreeMap<(String, String), u64>>,
}

impl History {
    fn event(&mut self, role: &dyn Operable) -> Value {
        let (now, snapshot) = (Instant::now(), role.totals());
        let rates =
            self.last.as_ref().map(|(at, last)| Rates::between(&snapshot, last, now.duration_since(*at)).json());
        let mut rejections = role.view(View::Rejections);
        self.note_recent(&mut rejections, &snapshot);
        let member = |view: View, name: &str| role.view(view).get_mut(name).map(Value::take);
        let event = json!({
            "status": role.view(View::Status), "rates": rates, "listeners": member(View::Listeners, "listeners"),
            "upstreams": member(View::Upstreams, "upstreams"), "rejections": rejections.get_mut("rejections").map(Value::take),
        });
        self.last = Some((now, snapshot));
        event
    }

    /// Adds to each rejection how many there were lately, as far as this stream has seen.
    fn note_recent(&mut self, rejections: &mut Value, snapshot: &Snapshot) {
        let oldest = self.faults.front();
        for rejection in rejections.get_mut("rejections").and_then(Value::as_array_mut).into_iter().flatten() {
            let text = |name: &str| rejection.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let key = (text("fault"), text("reason"));
            let count = snapshot.faults.get(&key).copied().unwrap_or_default();
            let before = oldest.map_or(count, |oldest| oldest.get(&key).copied().unwrap_or_default());
            if let Some(members) = rejection.as_object_mut() {
                members.insert("last_minute".to_owned(), count.saturating_sub(before).into());
            }
        }
        self.faults.push_back(snapshot.faults.clone());
        if self.faults.len() > RECENT {
            self.faults.pop_front();
        }
    }
}
