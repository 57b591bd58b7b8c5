//! Connections of the load generator: each asks by the plan and matches answers to what it asked.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use net::{Alarm, Chunk, Stream};
use tls::Session;
use transport::{NoKeys, Transport};
use wire::keyless::{Dialect, EXTENSION_ALPN, Frame, opcode};

use super::tally::Tally;
use super::{Address, Plan, Target, Verify};

/// How long to wait for what is outstanding at the end.
const LAST_RESPONSES: Duration = Duration::from_secs(2);

/// One in so many answers is verified when sampling.
const SAMPLE: u64 = 64;

/// Runs the connections of these numbers on this thread.
pub(super) async fn run(plan: Arc<Plan>, numbers: Range<usize>) -> Tally {
    let connections: Vec<_> =
        numbers.map(|number| tokio::task::spawn_local(connection(Arc::clone(&plan), number))).collect();
    let mut total = Tally::default();
    for connection in connections {
        match connection.await {
            Ok(tally) => total.add(tally),
            Err(_) => total.note_failure("a connection's task failed".to_owned()),
        }
    }
    total
}

async fn connection(plan: Arc<Plan>, number: usize) -> Tally {
    let mut tally = Tally::default();
    let transport = match connect(&plan).await {
        Ok(transport) => transport,
        Err(reason) => {
            tally.note_failure(reason);
            return tally;
        }
    };
    let alarm = match Alarm::new() {
        Ok(alarm) => alarm,
        Err(error) => {
            tally.note_failure(format!("no timer: {error}"));
            return tally;
        }
    };
    let extended = transport.tls_info().is_some_and(|info| info.alpn.as_deref() == Some(EXTENSION_ALPN));
    let mut load = Load {
        plan: &plan,
        transport,
        alarm,
        extended,
        tally,
        // Its time begins when it is connected.
        started: Instant::now(),
        next_id: 0,
        turn: number,
        asked: HashMap::new(),
        deadlines: VecDeque::new(),
        backing_off: Vec::new(),
        output: Vec::new(),
        sent: 0,
    };
    let end = load.ask_and_listen().await;
    if let Err(reason) = end {
        load.tally.note_failure(reason);
    }
    load.tally.given_up += load.asked.values().filter(|asked| !asked.given_up).count() as u64;
    load.tally
}

async fn connect(plan: &Plan) -> Result<Transport, String> {
    let stream = match &plan.address {
        Address::Tcp(address) => Stream::connect_tcp(*address).await,
        Address::Unix(path) => Stream::connect_unix(path).await,
    };
    let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
    let Some((connector, name)) = &plan.connector else { return Ok(Transport::plain(stream)) };
    let session = Session::client(connector, name).map_err(|error| error.to_string())?;
    Transport::handshake(stream, Chunk::empty(), session, &NoKeys)
        .await
        .map_err(|(_, broken)| format!("handshake: {broken}"))
}

/// One connection at work.
struct Load<'p> {
    plan: &'p Plan,
    transport: Transport,
    alarm: Alarm,
    extended: bool,
    tally: Tally,
    started: Instant,
    next_id: u32,
    turn: usize,
    asked: HashMap<u32, Asked>,
    /// When to give up, oldest first.
    deadlines: VecDeque<(Instant, u32)>,
    /// Until when places in flight stay empty because the server was busy.
    backing_off: Vec<Instant>,
    output: Vec<u8>,
    /// How much of it was sent.
    sent: usize,
}

/// A request that waits for its response.
struct Asked {
    target: usize,
    /// When it was due: what its latency counts from.
    since: Instant,
    tries_left: u32,
    /// Its deadline has passed.
    given_up: bool,
}

impl Load<'_> {
    async fn ask_and_listen(&mut self) -> Result<(), String> {
        let mut chunk = Chunk::empty();
        let mut next_due = self.first_due(self.plan.interval.unwrap_or_default());
        let first = self.first_due(self.plan.think_time);
        self.pause_until(first).await?;
        let end = self.started + self.plan.duration;
        loop {
            let now = Instant::now();
            let over = now >= end;
            if over && (self.waiting() == 0 || now >= end + LAST_RESPONSES) {
                return Ok(());
            }
            if !over {
                self.ask_what_is_due(now, &mut next_due);
            }
            self.give_up(now);
            let wake = self.next_wake(next_due, if over { end + LAST_RESPONSES } else { end });
            match self.send_and_receive(&mut chunk, wake).await? {
                None => {}
                Some(0) => return Err("the server closed the connection".to_owned()),
                Some(_) => {
                    let answered = self.take_responses(&mut chunk)?;
                    if answered > 0 && !self.plan.think_time.is_zero() {
                        self.pause_until(Instant::now() + self.plan.think_time).await?;
                    }
                }
            }
        }
    }

    async fn pause_until(&mut self, at: Instant) -> Result<(), String> {
        self.alarm.until(at).await.map_err(|error| format!("waiting: {error}"))
    }

    /// Connections that ask once in an interval begin spread over it.
    fn first_due(&self, interval: Duration) -> Instant {
        self.started + interval.mul_f64(self.turn as f64 / self.plan.connections.max(1) as f64)
    }

    fn waiting(&self) -> usize {
        self.asked.values().filter(|asked| !asked.given_up).count()
    }

    /// Waits for responses, at most until `wake`, and sends meanwhile as far as the server reads: one that is slow to read must not be kept from
    /// answering.
    async fn send_and_receive(&mut self, chunk: &mut Chunk, wake: Instant) -> Result<Option<usize>, String> {
        poll_fn(|context| {
            while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
                match self.transport.poll_send(context, rest) {
                    Poll::Ready(sent) => self.sent += sent.map_err(|broken| format!("sending: {broken}"))?,
                    Poll::Pending => break,
                }
            }
            if self.sent * 2 >= self.output.len() {
                self.output.drain(..std::mem::take(&mut self.sent));
            }
            if let Poll::Ready(Err(error)) = self.transport.poll_flush(context) {
                return Poll::Ready(Err(format!("sending: {error}")));
            }
            if let Poll::Ready(received) = self.transport.poll_recv_more(context, chunk) {
                return Poll::Ready(received.map(Some).map_err(|broken| format!("receiving: {broken}")));
            }
            let woken = self.alarm.poll(context, wake);
            woken.map(|woken| woken.map(|()| None).map_err(|error| format!("waiting: {error}")))
        })
        .await
    }

    fn ask_what_is_due(&mut self, now: Instant, next_due: &mut Instant) {
        match self.plan.interval {
            Some(interval) => {
                while *next_due <= now {
                    self.ask_next(*next_due);
                    *next_due += interval;
                }
            }
            None => {
                self.backing_off.retain(|until| *until > now);
                while self.asked.len() + self.backing_off.len() < self.plan.in_flight {
                    self.ask_next(now);
                }
            }
        }
    }

    fn ask_next(&mut self, since: Instant) {
        self.turn += 1;
        let target = self.turn % self.plan.targets.len();
        self.ask(Asked { target, since, tries_left: self.plan.retries, given_up: false });
    }

    fn ask(&mut self, asked: Asked) {
        let Some(target) = self.plan.targets.get(asked.target) else { return };
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let deadline = self.plan.deadline;
        let deadline_us =
            deadline.filter(|_| self.extended).map(|left| u32::try_from(left.as_micros()).unwrap_or(u32::MAX));
        let frame = Frame {
            id,
            opcode: target.operation.opcode().unwrap_or_default(),
            payload: &target.input,
            ski: Some(target.public.identifier()),
            deadline_us,
            ..Frame::default()
        };
        // A digest always fits.
        let _ = frame.write_to(&mut self.output);
        self.tally.sent += 1;
        if let Some(deadline) = deadline {
            self.deadlines.push_back((Instant::now() + deadline, id));
        }
        self.asked.insert(id, asked);
    }

    /// Gives up what is past its deadline, and asks again where the plan says so.
    fn give_up(&mut self, now: Instant) {
        while let Some(&(_, id)) = self.deadlines.front().filter(|(at, _)| *at <= now) {
            self.deadlines.pop_front();
            let Some(asked) = self.asked.get_mut(&id).filter(|asked| !asked.given_up) else { continue };
            asked.given_up = true;
            let (target, tries_left) = (asked.target, asked.tries_left);
            if self.extended {
                let cancel = Frame { id, opcode: opcode::CANCEL, ..Frame::default() };
                let _ = cancel.write_to(&mut self.output);
                self.asked.remove(&id);
            }
            if tries_left > 0 {
                self.ask(Asked { target, since: now, tries_left: tries_left - 1, given_up: false });
            } else {
                self.tally.given_up += 1;
            }
        }
    }

    fn next_wake(&self, next_due: Instant, end: Instant) -> Instant {
        let deadline = self.deadlines.front().map_or(end, |(at, _)| *at);
        let due = if self.plan.interval.is_some() { next_due } else { end };
        let back = self.backing_off.iter().min().copied().unwrap_or(end);
        end.min(deadline).min(due).min(back)
    }

    /// Takes all responses that are there; says how many.
    fn take_responses(&mut self, chunk: &mut Chunk) -> Result<usize, String> {
        let dialect = if self.extended { Dialect::Extended } else { Dialect::Plain };
        let mut count = 0;
        loop {
            let used = match Frame::parse(chunk, dialect) {
                Ok(Some((frame, used))) => {
                    self.take_response(&frame);
                    used
                }
                Ok(None) => break,
                Err(error) => return Err(format!("the server sent no frame: {error:?}")),
            };
            chunk.advance(used);
            count += 1;
        }
        if chunk.is_empty() {
            *chunk = Chunk::empty();
        }
        Ok(count)
    }

    fn take_response(&mut self, frame: &Frame<'_>) {
        let Some(asked) = self.asked.remove(&frame.id) else {
            // The answer to what was cancelled too late.
            self.tally.late += u64::from(frame.opcode == opcode::RESPONSE);
            return;
        };
        let now = Instant::now();
        if let Some(code) = frame.error() {
            *self.tally.errors.entry(code.name()).or_default() += 1;
            if let Some(retry_after_us) =
                frame.retry_after_us.filter(|_| self.plan.interval.is_none() && !self.plan.ignore_retry_after)
            {
                // Half to one and a half of what it said, so that not all come back together.
                let wait = Duration::from_micros(retry_after_us.into()).mul_f32(0.5 + fastrand::f32());
                self.backing_off.push(now + wait);
            }
            return;
        }
        let Some(target) = self.plan.targets.get(asked.target) else { return };
        if !self.is_right(target, frame) {
            self.tally.wrong += 1;
        } else if asked.given_up {
            self.tally.late += 1;
        } else {
            self.tally.good(now.saturating_duration_since(asked.since), now.saturating_duration_since(self.started));
        }
    }

    fn is_right(&mut self, target: &Target, frame: &Frame<'_>) -> bool {
        let verify = match self.plan.verify {
            Verify::All => true,
            Verify::Sample => (self.tally.good + self.tally.late).is_multiple_of(SAMPLE),
            Verify::None => false,
        };
        if frame.opcode != opcode::RESPONSE {
            return false;
        }
        self.tally.verified += u64::from(verify);
        !verify || target.public.verifies(target.checked_as, &target.input, frame.payload)
    }
}
