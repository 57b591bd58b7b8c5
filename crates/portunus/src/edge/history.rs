//! What charts show of the time before somebody looked: rates of the last ten minutes, kept in bounded memory.
//!
//! Off the data path: it reads counters.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::Edge;
use crate::admin::{Operable as _, Rates};

/// Between two points.
const PERIOD: Duration = Duration::from_secs(2);

/// Points that are kept: ten minutes.
const POINTS: usize = 300;

/// The points, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<VecDeque<Point>>);

/// Rates of the time before a moment, and what was open then.
#[derive(Debug, Clone, Copy)]
struct Point {
    at: Instant,
    rates: Rates,
    open: usize,
}

impl History {
    fn note(&self, point: Point) {
        let mut points = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if points.len() >= POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// As the API shows it. Ages instead of times: clocks of browsers differ.
    pub(super) fn show(&self) -> Value {
        let (now, points) = (Instant::now(), self.0.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let entry = |point: &Point| {
            let age = now.saturating_duration_since(point.at).as_millis();
            json!({ "age_ms": u64::try_from(age).unwrap_or(u64::MAX), "rates": point.rates.json(), "open": point.open })
        };
        json!({ "history": points.iter().map(entry).collect::<Vec<_>>() })
    }
}

/// Notes a point each period, for as long as the edge is there.
pub(super) async fn run(edge: Weak<Edge>) {
    let Some(totals) = edge.upgrade().map(|edge| edge.totals()) else { return };
    let mut last = (Instant::now(), totals);
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one comes at once.
    tick.tick().await;
    loop {
        tick.tick().await;
        let Some(edge) = edge.upgrade() else { return };
        let (at, totals) = (Instant::now(), edge.totals());
        let rates = Rates::between(&totals, &last.1, at.saturating_duration_since(last.0));
        edge.history.note(Point { at, rates, open: edge.server.shared().admission.total() });
        last = (at, totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_the_newest_stay() {
        let (history, begun) = (History::default(), Instant::now());
        for open in 0..POINTS * 2 {
            history.note(Point { at: begun, rates: Rates::default(), open });
        }
        let shown = history.show();
        let points = shown.get("history").and_then(Value::as_array).cloned().unwrap_or_default();
        assert_eq!(points.len(), POINTS);
        let open = |point: Option<&Value>| point.and_then(|point| point.get("open")?.as_u64());
        assert_eq!((open(points.first()), open(points.last())), (Some(300), Some(599)));
    }
}
