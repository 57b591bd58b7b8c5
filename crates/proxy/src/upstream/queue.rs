//! Requests that wait for room in a group: bounded in number and time, first come, first served.
//!
//! Owns who waits and who is woken. Whether there is room is asked of whoever waits: `upstream` knows. Groups without a queue have none of this.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use config::QueueConfig;
use net::Deadline;
use tokio::sync::{Notify, Semaphore};

use super::shares::{Places, Shares};

/// What is waited for. Room in a group wakes nobody who waits for a server, and the other way round: it would be lost on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Room in the group.
    Group,
    /// Room at any server.
    Server,
}

/// Why waiting ended without room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InVain {
    /// As many wait already as may.
    Full,
    /// As many of this client wait already as may.
    FullOfOneClient,
    /// It took too long.
    Timeout,
}

/// Those who wait for one thing.
#[derive(Debug)]
struct Waiting {
    count: AtomicUsize,
    /// Who looks for room: one at a time, in the order in which they came.
    turn: Semaphore,
    freed: Notify,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { count: AtomicUsize::new(0), turn: Semaphore::new(1), freed: Notify::new() }
    }
}

/// The queue of a group.
#[derive(Debug)]
pub(super) struct Queue {
    config: QueueConfig,
    lanes: [Waiting; 2],
    /// By client: none may have more than half of the places.
    shares: Shares,
}

impl Queue {
    pub(super) fn new(config: QueueConfig) -> Queue {
        Queue { config, lanes: Default::default(), shares: Shares::default() }
    }

    fn lane(&self, lane: Lane) -> &Waiting {
        let [group, server] = &self.lanes;
        match lane {
            Lane::Group => group,
            Lane::Server => server,
        }
    }

    /// Whether anybody waits in a lane: then who comes now has to, too.
    pub(super) fn is_waited_in(&self, lane: Lane) -> bool {
        self.lane(lane).count.load(Ordering::Relaxed) > 0
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.count.load(Ordering::Relaxed)).sum()
    }

    /// There is room for one more.
    pub(super) fn freed(&self, lane: Lane) {
        // Together with the other fence: either who waits sees the room, or we see that somebody waits.
        fence(Ordering::SeqCst);
        if self.is_waited_in(lane) {
            self.lane(lane).freed.notify_one();
        }
    }

    /// There may be room for all: servers have come, or are up again.
    pub(super) fn changed(&self) {
        self.lanes.iter().for_each(|lane| lane.freed.notify_waiters());
    }

    /// Waits until `attempt` finds room for a request of a client, if it is known whose it is.
    pub(super) async fn wait<T>(
        &self,
        lane: Lane,
        client: Option<Places>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, InVain> {
        let _place = Place::take(self, lane, client)?;
        let lane = self.lane(lane);
        let waiting = async {
            // Never closed. Whoever leaves, with room or in vain, passes it on.
            let _turn = lane.turn.acquire().await;
            loop {
                let mut freed = pin!(lane.freed.notified());
                // What is freed from here on is not missed.
                freed.as_mut().enable();
                fence(Ordering::SeqCst);
                if let Some(found) = attempt() {
                    return found;
                }
                freed.await;
            }
        };
        Deadline::new().within(self.config.timeout, waiting).await.map_err(|_| InVain::Timeout)
    }
}

/// A place in the queue; given back when dropped.
struct Place<'q> {
    queue: &'q Queue,
    lane: Lane,
    client: Option<Places>,
}

impl<'q> Place<'q> {
    fn take(queue: &'q Queue, lane: Lane, client: Option<Places>) -> Result<Place<'q>, InVain> {
        queue.lane(lane).count.fetch_add(1, Ordering::Relaxed);
        let mut place = Place { queue, lane, client: None };
        if queue.len() > queue.config.size {
            return Err(InVain::Full);
        }
        if let Some(client) = client {
            let taken = queue.shares.enter(client, (queue.config.size / 2).max(1));
            place.client = Some(taken.ok_or(InVain::FullOfOneClient)?);
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.lane(self.lane).count.fetch_sub(1, Ordering::Relaxed);
        self.client.iter().for_each(|client| self.queue.shares.leave(*client));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;

    fn queue(size: usize, timeout: Duration) -> Rc<Queue> {
        Rc::new(Queue::new(QueueConfig { size, timeout }))
    }

    /// Runs it on a runtime as a worker has it.
    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn first_come_first_served_and_no_room_is_lost() {
        run(async {
            let (queue, room, order) =
                (queue(10, Duration::from_secs(60)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let waiting: Vec<_> = (0..5)
                .map(|number| {
                    let (queue, room, order) = (Rc::clone(&queue), Rc::clone(&room), Rc::clone(&order));
                    tokio::task::spawn_local(async move {
                        let take = || (room.get() > 0).then(|| room.set(room.get() - 1));
                        queue.wait(Lane::Server, None, take).await.unwrap();
                        assert_eq!(order.replace(order.get() + 1), number);
                    })
                })
                .collect();
            while queue.len() < 5 {
                tokio::task::yield_now().await;
            }
            // Room in the other lane is not theirs.
            queue.freed(Lane::Group);
            for task in waiting {
                room.set(room.get() + 1);
                queue.freed(Lane::Server);
                task.await.unwrap();
            }
            assert_eq!(queue.len(), 0);
        });
    }

    /// Who comes when room has just been freed does not overtake who was woken for it.
    #[test]
    fn nobody_overtakes() {
        run(async {
            let (queue, room) = (queue(10, Duration::from_secs(60)), Cell::new(0));
            let take = || (room.get() > 0).then(|| room.set(room.get() - 1));
            let mut first = pin!(queue.wait(Lane::Server, None, take));
            assert!(futures_are_pending(first.as_mut()).await);
            room.set(1);
            queue.freed(Lane::Server);
            let mut second = pin!(queue.wait(Lane::Server, None, take));
            assert!(futures_are_pending(second.as_mut()).await, "it is the first one's");
            assert!(!futures_are_pending(first.as_mut()).await);
            assert!(futures_are_pending(second.as_mut()).await);
            // One that leaves passes its turn on.
            let mut third = pin!(queue.wait(Lane::Server, None, take));
            assert!(futures_are_pending(third.as_mut()).await);
            room.set(1);
            queue.freed(Lane::Server);
            assert!(!futures_are_pending(second.as_mut()).await);
            room.set(1);
            queue.freed(Lane::Server);
            assert!(!futures_are_pending(third.as_mut()).await);
        });
    }

    #[test]
    fn a_full_queue_and_a_long_wait_end() {
        run(async {
            let queue = queue(1, Duration::from_millis(1));
            let waiting = queue.wait(Lane::Server, None, || None::<()>);
            let mut waiting = pin!(waiting);
            assert!(futures_are_pending(waiting.as_mut()).await);
            assert_eq!(queue.wait(Lane::Group, None, || None::<()>).await, Err(InVain::Full));
            assert_eq!(waiting.await, Err(InVain::Timeout));
            assert_eq!(queue.len(), 0);
            assert_eq!(queue.wait(Lane::Group, None, || Some(7)).await, Ok(7));
        });
    }

    async fn futures_are_pending<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    #[test]
    fn nobody_has_more_than_half_of_the_places() {
        run(async {
            let queue = queue(4, Duration::from_secs(60));
            let client = |last: u8| Some(Places::of([192, 0, 2, last].into()));
            let mut waiting: Vec<_> = [1, 1, 2]
                .map(|last| Box::pin(queue.wait(Lane::Server, client(last), || None::<()>)))
                .into_iter()
                .collect();
            for one in &mut waiting {
                assert!(futures_are_pending(one.as_mut()).await);
            }
            assert_eq!(queue.wait(Lane::Server, client(1), || None::<()>).await, Err(InVain::FullOfOneClient));
            waiting.clear();
            assert_eq!(queue.wait(Lane::Server, client(1), || Some(1)).await, Ok(1));
            assert_eq!(queue.len(), 0);
        });
    }
}
