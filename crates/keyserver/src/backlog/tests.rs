//! The backlog under a hand-driven clock: crypto threads of a known speed, peers that ask at a known rate or wait for their responses.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap, HashSet};

use super::*;

const MS: Duration = Duration::from_millis(1);

/// What clients of these tests wait for, told or not.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
struct Fake {
    id: usize,
    terms: Terms,
}

impl Waits for Fake {
    fn terms(&self) -> Terms {
        self.terms
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

/// Crypto threads over a backlog, in steps of 100 us.
struct World {
    backlog: Backlog<Fake>,
    costs: Costs,
    limits: KeyServerLimits,
    now: Instant,
    /// What each thread does, and until when.
    threads: Vec<(Instant, Vec<Fake>)>,
    /// What a job of each class costs.
    service: [Duration; 3],
    asked: usize,
    /// Connections over which is asked, in turn.
    connections: usize,
    /// Jobs by how they ended, with the time at which they did.
    done: Vec<(Fake, Instant)>,
    dropped: Vec<Fake>,
    full: usize,
}

impl World {
    const STEP: Duration = Duration::from_micros(100);

    fn new(threads: usize, rsa: Duration) -> World {
        let limits = KeyServerLimits::default();
        let now = Instant::now();
        World {
            backlog: Backlog::new(&limits),
            costs: Costs::new(),
            limits,
            now,
            threads: vec![(now, Vec::new()); threads],
            service: [Duration::from_micros(30), rsa, Duration::from_micros(30)],
            asked: 0,
            connections: 1,
            done: Vec::new(),
            dropped: Vec::new(),
            full: 0,
        }
    }

    /// Jobs that these threads can do in a second.
    fn capacity(&self, class: Class) -> f64 {
        self.threads.len() as f64 / self.service[class as usize].as_secs_f64()
    }

    /// True unless the queues are full.
    fn ask(&mut self, class: Class, extended: bool) -> bool {
        self.ask_over(self.asked % self.connections, class, extended)
    }

    /// The same over a connection by its number.
    fn ask_over(&mut self, connection: usize, class: Class, extended: bool) -> bool {
        let patience = if extended { PATIENCE } else { self.limits.operation_timeout };
        let terms =
            Terms { class, received: self.now, deadline: self.now + patience, extended, is_minor: false, connection };
        self.asked += 1;
        let is_taken = self.backlog.submit(Fake { id: self.asked, terms }, self.now).is_ok();
        self.full += usize::from(!is_taken);
        is_taken
    }

    /// Jobs that ended, in whatever way.
    fn ended(&self) -> usize {
        self.done.len() + self.dropped.len()
    }

    fn step(&mut self) {
        self.now += World::STEP;
        for index in 0..self.threads.len() {
            let (until, jobs) = &mut self.threads[index];
            if *until > self.now {
                continue;
            }
            for job in jobs.drain(..) {
                self.costs.learn(job.terms.class, self.service[job.terms.class as usize]);
                self.done.push((job, *until));
            }
            let mut batch = Batch::default();
            self.backlog.take(&mut batch, &self.costs, self.now);
            let work: Duration = batch.jobs.iter().map(|job| self.service[job.terms.class as usize]).sum();
            self.dropped.append(&mut batch.dropped);
            self.threads[index] = (self.now + work, batch.jobs);
        }
    }

    /// Asks at `times` the capacity for so long, whatever comes back.
    fn offer(&mut self, class: Class, extended: bool, times: f64, time: Duration) {
        let (mut due, end) = (0.0, self.now + time);
        while self.now < end {
            due += times * self.capacity(class) * World::STEP.as_secs_f64();
            while due >= 1.0 {
                self.ask(class, extended);
                due -= 1.0;
            }
            self.step();
        }
    }

    /// Jobs done since `since`, and how many of them in time.
    fn counts(&self, since: Instant) -> (f64, f64) {
        let done = self.done.iter().filter(|(_, at)| *at >= since);
        let in_time = done.clone().filter(|(job, at)| *at <= job.terms.received + PATIENCE);
        (done.count() as f64, in_time.count() as f64)
    }
}

/// Numbers below a bound, the same ones in each run.
fn random() -> impl FnMut(u64) -> u64 {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    move |below| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    }
}

/// By kind of peer: whether it understands BUSY, and over how many connections it asks.
const PEERS: [(bool, usize); 5] = [(true, 1), (true, 40), (false, 1), (false, 40), (false, 400)];

#[test]
fn goodput_holds_at_four_times_what_can_be_done() {
    for (extended, connections) in PEERS {
        for (threads, cost) in [(2, 3 * MS / 10), (2, 3 * MS), (8, MS), (1, 20 * MS)] {
            let mut world = World { connections, ..World::new(threads, cost) };
            world.offer(Class::Rsa, extended, 4.0, 2_000 * MS);
            let since = world.now;
            world.offer(Class::Rsa, extended, 4.0, 5_000 * MS);
            let (done, in_time) = world.counts(since);
            let capacity = world.capacity(Class::Rsa) * 5.0;
            let reported = format!(
                "{threads} threads, {cost:?}, {extended} over {connections}: {done} done, {in_time} in time of {capacity}"
            );
            assert!(in_time >= 0.9 * capacity, "{reported}");
            assert!(done - in_time < 0.01 * done, "{reported}");
        }
    }
}

/// However much more is asked than the queues hold: what they are full of is no closed loop.
#[test]
fn goodput_holds_where_the_queues_are_full() {
    for connections in [1, 40] {
        let mut world = World { connections, ..World::new(2, 3 * MS) };
        world.backlog.max_queued = 600;
        world.offer(Class::Rsa, false, 20.0, 2_000 * MS);
        let since = world.now;
        world.offer(Class::Rsa, false, 20.0, 5_000 * MS);
        let ((_, in_time), capacity) = (world.counts(since), world.capacity(Class::Rsa) * 5.0);
        assert!(in_time >= 0.9 * capacity && world.full > 0, "over {connections}: {in_time} in time of {capacity}");
    }
}

/// A little too much for long: the wait grows slowly, and must not grow beyond what clients wait for.
#[test]
fn goodput_holds_at_a_little_more_than_can_be_done() {
    for (extended, connections) in PEERS {
        for cost in [3 * MS / 10, 20 * MS] {
            let mut world = World { connections, ..World::new(2, cost) };
            world.offer(Class::Rsa, extended, 1.1, 20_000 * MS);
            let (done, in_time) = world.counts(world.now - 15_000 * MS);
            let capacity = world.capacity(Class::Rsa) * 15.0;
            let reported =
                format!("{cost:?}, {extended} over {connections}: {done} done, {in_time} in time of {capacity}");
            assert!(in_time >= 0.9 * capacity, "{reported}");
        }
    }
}

/// Whenever the spike ends: at times nothing is dropped, to find out whether that is needed.
#[test]
fn after_a_spike_new_requests_are_served_at_once() {
    const ENDS: u32 = 6;
    for (extended, connections) in [(true, 1), (false, 1), (false, 40)] {
        for (after, cost) in [(0.5, 2 * MS), (0.9, 2 * MS), (0.5, 20 * MS), (0.5, 3 * MS / 10)] {
            let mut served = Vec::new();
            for end in 0..ENDS {
                let mut world = World { connections, ..World::new(2, cost) };
                world.offer(Class::Rsa, extended, 4.0, 2_000 * MS + end * 37 * MS);
                let since = world.now;
                world.offer(Class::Rsa, extended, after, 1_000 * MS);
                let last = world.now;
                world.offer(Class::Rsa, extended, 0.0, PATIENCE);
                let is_fresh = |job: &Fake| (since..=last).contains(&job.terms.received);
                let in_time = |(job, at): &&(Fake, Instant)| is_fresh(job) && *at <= job.terms.received + PATIENCE;
                let asked = after * world.capacity(Class::Rsa);
                served.push(world.done.iter().filter(in_time).count() as f64 / asked);
            }
            let reported = format!("{cost:?}, {extended} over {connections}, x{after}: {served:.2?}");
            assert!(served.iter().sum::<f64>() >= 0.85 * f64::from(ENDS), "{reported}");
            assert!(served.iter().all(|share| *share >= 0.3), "{reported}");
        }
    }
}

/// Clients that do not know BUSY, each asking at its own times: who is not answered in time asks again, twice, and what it asked before stays queued.
#[derive(Default)]
struct Impatient {
    /// When to give up, what, and how often it may still be asked for.
    waiting: VecDeque<(Instant, usize, u32)>,
    answered: HashSet<usize>,
    /// Of the world's jobs that are done, how many are known to be.
    known: usize,
}

impl Impatient {
    fn ask(&mut self, world: &mut World, tries_left: u32) {
        world.ask(Class::Rsa, false);
        self.waiting.push_back((world.now + PATIENCE, world.asked, tries_left));
    }

    /// Asks at `times` the capacity for so long, and again for what was not answered.
    fn offer(&mut self, world: &mut World, times: f64, time: Duration) {
        let (mut due, end) = (0.0, world.now + time);
        while world.now < end {
            due += times * world.capacity(Class::Rsa) * World::STEP.as_secs_f64();
            while due >= 1.0 {
                self.ask(world, 2);
                due -= 1.0;
            }
            self.answered.extend(world.done.iter().skip(self.known).map(|(job, _)| job.id));
            self.known = world.done.len();
            while let Some(&(_, id, tries_left)) = self.waiting.front().filter(|(until, ..)| *until <= world.now) {
                self.waiting.pop_front();
                if tries_left > 0 && !self.answered.contains(&id) {
                    self.ask(world, tries_left - 1);
                }
            }
            world.step();
        }
    }
}

/// What a spike leaves behind is of no use to anybody: whatever load comes after it, the second after the last of its tries is whole again.
#[test]
fn after_a_spike_of_clients_that_ask_again_nobody_waits_for_what_it_left() {
    for (after, cost) in [(0.5, 3 * MS), (0.8, 3 * MS), (0.95, 3 * MS), (0.5, 3 * MS / 10), (0.5, 20 * MS)] {
        let mut world = World::new(2, cost);
        let mut clients = Impatient::default();
        clients.offer(&mut world, 0.5, 2_000 * MS);
        clients.offer(&mut world, 4.0, 3_000 * MS);
        // The last of the spike's clients gives up for good after three times its patience.
        clients.offer(&mut world, after, 3 * PATIENCE + 1_000 * MS);
        for second in 0..12 {
            let since = world.now;
            clients.offer(&mut world, after, 1_000 * MS);
            let (_, in_time) = world.counts(since);
            let asked = after * world.capacity(Class::Rsa);
            assert!(in_time >= 0.9 * asked, "x{after}, {cost:?}: {in_time} of {asked} in second {second}");
        }
        // Work for those who had given up ends with the spike, too.
        let (done, in_time) = world.counts(world.now - 11_000 * MS);
        assert!(done - in_time < 0.01 * done, "x{after}, {cost:?}: {in_time} of {done} in time");
    }
}

/// One connection of a peer that knows no BUSY: beyond its places in flight, what it asks lies in its socket.
struct OneConnection {
    /// When what is not read yet was asked.
    socket: VecDeque<Instant>,
    /// When what is outstanding was asked.
    asked: HashMap<usize, Instant>,
    /// Of the world's jobs, how many of those that are done and dropped are known to be.
    known: (usize, usize),
    /// Answers, and those of them that came in time, and what was dropped.
    done: usize,
    in_time: usize,
    dropped: usize,
}

impl OneConnection {
    fn new() -> OneConnection {
        OneConnection { socket: VecDeque::new(), asked: HashMap::new(), known: (0, 0), done: 0, in_time: 0, dropped: 0 }
    }

    /// What the connection does in a step of the world.
    fn step(&mut self, world: &mut World) {
        world.step();
        let most = world.limits.max_in_flight;
        if self.asked.len() >= most && !self.socket.is_empty() {
            let shed = world.backlog.shed(0, world.now);
            world.dropped.extend(shed);
        }
        for (job, at) in world.done.iter().skip(self.known.0) {
            let Some(asked) = self.asked.remove(&job.id) else { continue };
            self.done += 1;
            self.in_time += usize::from(*at <= asked + PATIENCE);
        }
        for job in world.dropped.iter().skip(self.known.1) {
            self.dropped += usize::from(self.asked.remove(&job.id).is_some());
        }
        self.known = (world.done.len(), world.dropped.len());
        while self.asked.len() < most
            && let Some(asked) = self.socket.pop_front()
        {
            assert!(world.ask_over(0, Class::Rsa, false));
            self.asked.insert(world.asked, asked);
        }
    }

    /// Asks at `times` the capacity for so long, whatever comes back; gives the responses, those in time, and what was dropped.
    fn offer(&mut self, world: &mut World, times: f64, time: Duration) -> (f64, f64, usize) {
        let before = (self.done, self.in_time, self.dropped);
        let (mut due, end) = (0.0, world.now + time);
        while world.now < end {
            due += times * world.capacity(Class::Rsa) * World::STEP.as_secs_f64();
            while due >= 1.0 {
                self.socket.push_back(world.now);
                due -= 1.0;
            }
            self.step(world);
        }
        ((self.done - before.0) as f64, (self.in_time - before.1) as f64, self.dropped - before.2)
    }
}

/// All of an edge's handshakes may come over one connection. What it may have outstanding is then less than what it asks for while its clients wait.
#[test]
fn goodput_holds_where_one_connection_asks_for_four_times_what_can_be_done() {
    for (threads, cost) in [(2, 3 * MS / 10), (2, MS), (2, 3 * MS), (1, 10 * MS)] {
        let mut world = World::new(threads, cost);
        let mut connection = OneConnection::new();
        let capacity = world.capacity(Class::Rsa);
        connection.offer(&mut world, 0.5, 1_000 * MS);
        let (_, first, _) = connection.offer(&mut world, 4.0, 3_000 * MS);
        assert!(first >= 0.7 * 3.0 * capacity, "{threads}, {cost:?}: {first} of {} at first", 3.0 * capacity);
        let (done, in_time, _) = connection.offer(&mut world, 4.0, 10_000 * MS);
        let reported = format!("{threads} threads, {cost:?}: {done} done, {in_time} in time of {}", 10.0 * capacity);
        assert!(in_time >= 0.9 * 10.0 * capacity, "{reported}");
        assert!(done - in_time < 0.01 * done, "{reported}");
        assert!(connection.asked.len() <= world.limits.max_in_flight);
        // What it left is gone after a second, and then nothing is dropped any more.
        connection.offer(&mut world, 0.5, 1_500 * MS);
        let (done, in_time, dropped) = connection.offer(&mut world, 0.5, 3_000 * MS);
        assert!(in_time >= 0.98 * 1.5 * capacity && done == in_time, "{threads}, {cost:?}: {done}, {in_time}");
        assert_eq!(dropped, 0, "{threads}, {cost:?}");
    }
}

/// One connection may ask for more than can be done; those who ask for little beside it are not served less for it.
#[test]
fn beside_one_connection_that_asks_for_too_much_others_are_served() {
    for (threads, cost) in [(2, MS), (2, 3 * MS), (1, 10 * MS)] {
        let mut world = World::new(threads, cost);
        let mut connection = OneConnection::new();
        connection.offer(&mut world, 4.0, 3_000 * MS);
        let begun = world.now;
        // Four others ask for a twentieth of the capacity each.
        for turn in 0..1_000 {
            world.ask_over(1 + turn % 4, Class::Rsa, false);
            connection.offer(&mut world, 4.0, cost * 5 / threads as u32);
        }
        let of_others = |(job, at): &&(Fake, Instant)| {
            job.terms.connection > 0 && job.terms.received >= begun && *at <= job.terms.received + PATIENCE
        };
        let in_time = world.done.iter().filter(of_others).count();
        assert!(in_time >= 950, "{threads} threads, {cost:?}: {in_time} of 1000 in time");
    }
}

/// A peer that waits for its responses, with more outstanding than it has places: it is left alone but for a trial now and then, and never where its responses
/// come soon.
#[test]
fn a_closed_loop_over_one_connection_is_served_in_order() {
    for (threads, cost, outstanding, trial) in [(8, MS / 10, 3_000, 0), (2, MS, 1_024, 0), (2, MS, 3_000, 40_000)] {
        let mut world = World::new(threads, cost);
        let mut connection = OneConnection::new();
        let (end, mut at_first) = (world.now + 10_000 * MS, 0);
        while world.now < end {
            while connection.asked.len() + connection.socket.len() < outstanding {
                connection.socket.push_back(world.now);
            }
            connection.step(&mut world);
            if world.now < end - 7_000 * MS {
                at_first = connection.dropped;
            }
        }
        let capacity = 10.0 * world.capacity(Class::Rsa);
        let (done, dropped) = (connection.done, connection.dropped);
        let reported = format!("{cost:?}, {outstanding}: {done} done of {capacity}, {dropped} dropped");
        assert!(done as f64 >= 0.95 * capacity, "{reported}");
        assert!(dropped <= trial && dropped == at_first, "{reported}");
    }
}

/// More than is answered in seconds, which comes up over a second: some are dropped before it is seen that they wait, and none from then on.
#[test]
fn a_closed_loop_that_looked_like_a_spike_for_long_is_served_in_order_in_the_end() {
    let mut world = World::new(2, MS);
    let (since, mut waiting, mut outstanding, mut gone) = (world.now, 0, 0.0, None);
    while world.now < since + 12_000 * MS {
        outstanding = f64::min(outstanding + 0.5, 5_000.0);
        while (waiting as f64) < outstanding && world.ask(Class::Rsa, false) {
            waiting += 1;
        }
        let before = world.ended();
        world.step();
        waiting -= world.ended() - before;
        if gone.is_none() && world.now > since + 6_000 * MS {
            gone = Some(world.dropped.len());
        }
    }
    assert_eq!(gone, Some(world.dropped.len()));
    let late = world.done.iter().filter(|(_, at)| *at >= since + 10_000 * MS);
    let longest = late.map(|(job, at)| *at - job.terms.received).max().unwrap();
    assert!(longest <= 2_600 * MS, "{longest:?} instead of 2,500 ms");
}

/// Peers that come one after the other look like a growing load at first, also those that are far away, each as far as it happens to be.
#[test]
fn a_closed_loop_that_comes_up_slowly_is_served_in_order_soon() {
    let mut random = random();
    for (peers, round_trip) in [(600, 0), (600, 90), (250, 40), (1_000, 150)] {
        let mut world = World::new(2, MS);
        let (since, mut outstanding, mut begun) = (world.now, 0.0, 0);
        // Who asks when.
        let mut asking = BTreeMap::new();
        while world.now < since + 15_000 * MS {
            outstanding = f64::min(outstanding + 0.1, f64::from(peers));
            while f64::from(begun) < outstanding {
                begun += 1;
                asking.insert((world.now, begun), ());
            }
            while asking.first_key_value().is_some_and(|((at, _), ())| *at <= world.now) {
                asking.pop_first();
                assert!(world.ask(Class::Rsa, false));
            }
            let before = world.ended();
            world.step();
            for id in before..world.ended() {
                asking.insert((world.now + random(round_trip + 1) as u32 * MS, peers + id as i32), ());
            }
        }
        // It took dropping some to find that out: one of each peer or two, and none from then on.
        let reported = format!("{peers}, {round_trip} ms: {} dropped", world.dropped.len());
        assert!(world.dropped.len() < 2 * peers as usize, "{reported}");
        assert!(world.dropped.iter().all(|job| job.terms.received < since + 3_000 * MS), "{reported}");
        let late = world.done.iter().filter(|(_, at)| *at >= since + 8_000 * MS);
        let longest = late.map(|(job, at)| *at - job.terms.received).max().unwrap();
        assert!(longest <= peers as u32 * MS * 2 / 3, "{reported}: {longest:?} instead of half a millisecond for each");
    }
}

/// However many requests are outstanding, peers that wait for their responses get as many as can be made, and none of them starves.
#[test]
fn a_closed_loop_of_any_size_keeps_the_threads_busy_and_starves_nobody() {
    for extended in [true, false] {
        for outstanding in [4, 8, 64, 256, 1_000, 5_000] {
            let mut world = World::new(2, MS);
            let (since, mut waiting) = (world.now, 0);
            while world.now < since + 6_000 * MS {
                // Whoever is rejected comes back with the next step.
                while waiting < outstanding && world.ask(Class::Rsa, extended) {
                    waiting += 1;
                }
                let before = world.ended();
                world.step();
                waiting -= world.ended() - before;
            }
            let (done, _) = world.counts(since);
            let reported = format!("{outstanding} {extended}: {done} done, {} dropped", world.dropped.len());
            assert!(done >= 0.95 * 6.0 * world.capacity(Class::Rsa), "{reported}");
            assert!(extended && outstanding > 200 || world.dropped.is_empty(), "{reported}");
            let learned = world.done.iter().filter(|(job, _)| job.terms.received >= since + 1_000 * MS);
            let longest = learned.map(|(job, at)| *at - job.terms.received).max().unwrap();
            let fair = outstanding as u32 * MS / 2;
            let most = if extended { fair.min(world.limits.target_wait) } else { fair };
            assert!(longest <= most * 3 / 2 + 20 * MS, "{reported}: {longest:?} instead of {most:?}");
        }
    }
}

/// However many requests are outstanding and however fast they are replaced, a job done pays for a few rejections at most.
#[test]
fn rejections_cannot_be_had_at_line_rate() {
    for (connections, in_flight, cost_us) in
        [(1, 1_024, 300), (32, 8, 300), (32, 1_000, 300), (500, 900, 3_000), (8, 1_024, 100)]
    {
        let mut world = World::new(2, Duration::from_micros(cost_us));
        let mut outstanding = vec![0; connections];
        let end = world.now + 3_000 * MS;
        while world.now < end {
            for (connection, outstanding) in outstanding.iter_mut().enumerate() {
                while *outstanding < in_flight && world.ask_over(connection, Class::Rsa, true) {
                    *outstanding += 1;
                }
            }
            let (done, dropped) = (world.done.len(), world.dropped.len());
            world.step();
            let ended = world.done.iter().skip(done).map(|(job, _)| job).chain(world.dropped.iter().skip(dropped));
            ended.for_each(|job| outstanding[job.terms.connection] -= 1);
        }
        let (done, in_time) = world.counts(end - 3_000 * MS);
        let dropped = world.dropped.len();
        let reported =
            format!("{connections} x {in_flight}, {cost_us}: {dropped} dropped, {done} done, {in_time} in time");
        assert!(dropped <= done as usize * 17 + world.limits.max_queued, "{reported}");
        assert!(in_time >= 0.95 * 3.0 * world.capacity(Class::Rsa), "{reported}");
    }
}

#[test]
fn ecdsa_never_waits_behind_rsa() {
    let mut world = World::new(2, 2 * MS);
    let end = world.now + 3_000 * MS;
    let mut due: f64 = 0.0;
    while world.now < end {
        for _ in 0..4 {
            world.ask(Class::Rsa, false);
        }
        due += 0.3;
        if due >= 1.0 {
            world.ask(Class::Ecdsa, true);
            due -= 1.0;
        }
        world.step();
    }
    let ecdsa = world.done.iter().filter(|(job, _)| job.terms.class == Class::Ecdsa);
    assert!(ecdsa.clone().count() > 8_000, "{}", ecdsa.count());
    // A thread that is at RSA cannot be taken away from it, but it does nothing else before.
    let longest = ecdsa.map(|(job, at)| *at - job.terms.received).max().unwrap();
    assert!(longest <= 2 * MS + MS, "{longest:?}");
    let rsa = world.done.iter().filter(|(job, _)| job.terms.class == Class::Rsa).count() as f64;
    assert!(rsa >= 0.9 * 3.0 * world.capacity(Class::Rsa), "{rsa}");
}

/// Either class may be asked for more than can be done: the other has half of the time.
#[test]
fn neither_class_starves_the_other() {
    let mut world = World::new(2, 2 * MS);
    let end = world.now + 3_000 * MS;
    while world.now < end {
        for class in [Class::Rsa; 4].into_iter().chain([Class::Ecdsa; 20]) {
            world.ask(class, false);
        }
        world.step();
    }
    for class in [Class::Rsa, Class::Ecdsa] {
        let done = world.done.iter().filter(|(job, _)| job.terms.class == class).count() as f64;
        let time = done * world.service[class as usize].as_secs_f64() / (2.0 * 3.0);
        assert!(time > 0.35, "{class:?}: {done} took {time} of the time");
    }
}

#[test]
fn peers_that_know_no_busy_do_not_push_out_those_that_do() {
    let mut world = World::new(2, MS);
    let end = world.now + 5_000 * MS;
    while world.now < end {
        for _ in 0..4 {
            world.ask(Class::Rsa, false);
        }
        if world.asked % 10 < 2 {
            world.ask_over(1, Class::Rsa, true);
        }
        world.step();
    }
    let extended = world.done.iter().filter(|(job, _)| job.terms.extended).count() as f64;
    assert!(extended >= 0.4 * 5.0 * world.capacity(Class::Rsa), "{extended}");
}

#[test]
fn the_wait_is_checked_by_what_the_threads_really_do() {
    let mut world = World::new(2, MS / 5);
    world.offer(Class::Rsa, true, 2.0, 500 * MS);
    // The threads become ten times slower, as when other work takes the processors.
    world.service[Class::Rsa as usize] *= 10;
    world.offer(Class::Rsa, true, 2.0, 1_000 * MS);
    let since = world.now;
    world.offer(Class::Rsa, true, 2.0, 2_000 * MS);
    let waits: Vec<_> =
        world.done.iter().filter(|(_, at)| *at >= since).map(|(job, at)| *at - job.terms.received).collect();
    let longest = waits.iter().max().unwrap();
    assert!(*longest < 150 * MS, "{longest:?}");
    assert!(!world.dropped.is_empty());
}

/// Whatever is asked, each job comes out exactly once: executed, dropped, or rejected.
#[test]
fn nothing_is_lost_and_nothing_doubled() {
    let mut next = random();
    for _ in 0..20 {
        let mut world = World::new(1 + next(4) as usize, next(3_000) as u32 * MS / 1_000);
        world.limits.max_queued = 1 + next(300) as usize;
        world.backlog.max_queued = world.limits.max_queued;
        for _ in 0..3_000 {
            for _ in 0..next(12) {
                let class = Class::ALL[next(3) as usize];
                let connection = next(6) as usize;
                world.ask_over(connection, class, connection < 3);
            }
            world.step();
        }
        while !world.backlog.is_empty() || world.threads.iter().any(|(_, jobs)| !jobs.is_empty()) {
            world.step();
        }
        let mut ids: Vec<_> =
            world.done.iter().map(|(job, _)| job.id).chain(world.dropped.iter().map(|job| job.id)).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), world.ended());
        assert_eq!(ids.len() + world.full, world.asked);
    }
}
