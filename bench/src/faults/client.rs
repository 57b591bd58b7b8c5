//! The load of the fault protocol: some clients, each on a thread, each request on the ledger.
//!
//! Closed loop with a pause, so that a slow machine is not what is measured. A connection is kept for some requests, then made anew, so that
//! both kept and new connections meet the fault.

use std::io::{self, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::ledger::{Asked, Hash, Id, Outcome, Response};
use super::message::{Head, filler, read_body};
use super::recorder::{Shape, Wanted};
use crate::peers::{HOST, pause};

/// How long a client waits for anything to come.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// Requests on one connection.
const REQUESTS_PER_CONNECTION: u32 = 25;

/// What clients do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) address: SocketAddr,
    /// Start of every target, which chooses the route.
    pub(super) prefix: &'static str,
    pub(super) clients: usize,
    /// Between two requests of a client.
    pub(super) pace: Duration,
    /// How long the upstream waits before it answers.
    pub(super) wait: Duration,
    /// How it answers, in turn.
    pub(super) shapes: &'static [Shape],
    /// Request and answer bodies, in turn.
    pub(super) sizes: &'static [usize],
}

impl Plan {
    /// Eight clients with whole responses of mixed size.
    pub(super) fn usual(address: SocketAddr) -> Plan {
        Plan {
            address,
            prefix: "/app",
            clients: 8,
            pace: Duration::from_millis(10),
            wait: Duration::ZERO,
            shapes: &[Shape::Length, Shape::Chunked],
            sizes: &[0, 100, 5_000, 60_000],
        }
    }
}

/// Numbers of requests, unique in this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Requests that this process has made so far.
pub(super) fn made() -> u64 {
    NEXT.load(Ordering::Relaxed) - 1
}

/// The next one, with a fresh nonce.
pub(super) fn next_id() -> Id {
    (NEXT.fetch_add(1, Ordering::Relaxed), fastrand::u64(..))
}

/// Clients at work.
#[derive(Debug)]
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Asked>>>,
    /// What [`Asked::began`] counts from.
    pub(super) started: Instant,
}

impl Load {
    /// Starts them.
    pub(super) fn start(plan: Plan) -> Load {
        let (stop, started) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let threads = (0..plan.clients)
            .map(|index| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || Client { plan, kept: None, turn: index }.work(&stop, started))
            })
            .collect();
        Load { stop, threads, started }
    }

    /// Lets each finish its last request, and gives what they have written down.
    pub(super) fn finish(self) -> Vec<Asked> {
        self.stop.store(true, Ordering::Relaxed);
        // A client that panicked would be a defect of ours, seen on stderr; its ledger is gone.
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

/// Load for so long.
pub(super) fn load_for(plan: Plan, time: Duration) -> Vec<Asked> {
    let load = Load::start(plan);
    pause(time);
    load.finish()
}

struct Client {
    plan: Plan,
    /// The connection in use, and how many requests it has had.
    kept: Option<(BufReader<TcpStream>, u32)>,
    turn: usize,
}

impl Client {
    fn work(mut self, stop: &AtomicBool, started: Instant) -> Vec<Asked> {
        let mut ledger = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let began = started.elapsed();
            let mut asked = self.ask();
            (asked.began, asked.took) = (began, started.elapsed() - began);
            ledger.push(asked);
            pause(self.plan.pace);
        }
        ledger
    }

    /// One request, with the next size, method and shape.
    fn ask(&mut self) -> Asked {
        self.turn += 1;
        let pick = |list: &[usize], by: usize| list.get(by % list.len().max(1)).copied().unwrap_or_default();
        let id = next_id();
        let shape = self.plan.shapes.get(self.turn % self.plan.shapes.len().max(1)).copied().unwrap_or(Shape::Length);
        let wanted = Wanted { id, size: pick(self.plan.sizes, self.turn / 2), wait: self.plan.wait, shape };
        let idempotent = self.turn.is_multiple_of(3);
        let body = if idempotent { Vec::new() } else { filler(!id.1, pick(self.plan.sizes, self.turn / 3)) };
        let target = wanted.target(self.plan.prefix);
        let mut bytes = match idempotent {
            true => format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n"),
            false => format!("POST {target} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {}\r\n\r\n", body.len()),
        }
        .into_bytes();
        bytes.extend_from_slice(&body);
        let outcome = self.exchange(&bytes);
        Asked { id, idempotent, sent: Hash::of(&body), outcome, began: Duration::ZERO, took: Duration::ZERO }
    }

    fn exchange(&mut self, request: &[u8]) -> Outcome {
        let usable = self.kept.take().filter(|(reader, used)| *used < REQUESTS_PER_CONNECTION && is_open(reader));
        let (mut reader, used) = match usable {
            Some(kept) => kept,
            None => match connect(self.plan.address) {
                Ok(stream) => (BufReader::new(stream), 0),
                Err(_) => return Outcome::Rejected,
            },
        };
        // A refusal may come, and the connection close, before the body is sent: the response counts, not the failed write.
        let sent = reader.get_mut().write_all(request);
        let (outcome, keep) = receive(&mut reader);
        if sent.is_ok() && keep {
            self.kept = Some((reader, used + 1));
        }
        outcome
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Whether the server has neither closed nor said anything since the last response.
fn is_open(reader: &BufReader<TcpStream>) -> bool {
    let stream = reader.get_ref();
    let mut byte = [0];
    let open = stream.set_nonblocking(true).is_ok()
        && stream.peek(&mut byte).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    open && stream.set_nonblocking(false).is_ok()
}

/// The answer, and whether the connection can be used again.
fn receive(reader: &mut BufReader<TcpStream>) -> (Outcome, bool) {
    let waited = |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    let head = loop {
        match Head::read(reader) {
            Ok(head) if (100..200).contains(&head.status()) => {}
            Ok(head) => break head,
            Err(error) if waited(&error) => return (Outcome::Hung, false),
            Err(_) => return (Outcome::Reset, false),
        }
    };
    let mut body = Vec::new();
    match read_body(reader, &head, true, &mut body) {
        Ok(()) => (Outcome::Answered(respond(&head, &body)), !head.closes()),
        Err(error) if waited(&error) => (Outcome::Hung, false),
        Err(_) => (Outcome::Cut(head.status()), false),
    }
}

fn respond(head: &Head, body: &[u8]) -> Response {
    let id: Option<Id> = head.number("x-ledger-id").zip(head.number("x-ledger-nonce"));
    Response {
        status: head.status(),
        id,
        received: head.number("x-ledger-received"),
        promised: head.number("x-ledger-sent"),
        body: Hash::of(body),
    }
}
