//! UDP: datagram → flow → target, and back the way it came.
//!
//! ```text
//! listener ─→ trusted? ─→ header ─→ flow (client, balancer) ─→ its own socket ─→ target or server
//!    ↑                                  │ new: source allowed? target? bounds
//!    └──── to the balancer, from the address it reached ←─────── answers, by one epoll set
//! ```
//!
//! One task per listener and worker reads both sides in batches. The kernel keeps one balancer's address and port on one worker, so a flow never meets
//! another thread. Nothing is allocated per datagram. What is rejected is counted, and told at most once a second or once at all: a log
//! line per datagram would be a second attack.
//!
//! Absent on purpose: waiting. A datagram that the kernel does not take at once is lost and counted, as on any hop.

mod flows;
mod header;
mod servers;
mod table;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::{DatagramHeader, Place, SendProxy};
use net::clock::coarse;
use net::transparent::canonical;
use net::udp::{Batch, Mailer, Outgoing, Sent};
use net::{Deadline, UdpListener};
use reason::Reason;
use telemetry::OncePerSecond;

use self::flows::{Arrived, Flows};
use self::table::FlowId;
use crate::generation::UdpRule;
use crate::udp_group::Reins;
use crate::worker::{Listening, Worker};

/// Pieces taken from one flow before the others get their turn.
const PIECES_PER_TURN: usize = 16;

/// When the listener closes, flows that have been quiet for this long end. Those that are busy go on, but not while the process drains: then all
/// end after this time.
const QUIET_AT_CLOSE: Duration = Duration::from_secs(1);

/// After another process took over, flows that have been quiet for this long end: their clients' datagrams go to the other one, and what is still to come
/// are responses.
const QUIET_AFTER_HANDOVER: Duration = Duration::from_secs(10);

/// Pause after the kernel refused to hand over datagrams for want of memory.
const PAUSE: Duration = Duration::from_millis(20);

/// What a relay woke up for.
enum News {
    Arrived(std::io::Result<()>),
    Answered(std::io::Result<()>),
    Idle,
    Closing,
}

/// Serves one UDP socket of one worker until it is closed or the worker drains, and its flows have become quiet.
pub async fn serve(listener: UdpListener, place: Place<SocketAddr>, worker: Rc<Worker>, reins: Rc<Reins>) {
    let bind = place.address;
    let mut relay = match Relay::new(listener, place, worker) {
        Ok(relay) => relay,
        Err(error) => return tracing::error!(%bind, %error, "cannot serve UDP"),
    };
    let _counted = Listening::new(&relay.worker.shared);
    loop {
        let closing = if relay.is_closing { None } else { Some(&*reins) };
        match relay.news(closing).await {
            News::Arrived(Ok(())) => relay.forward(),
            News::Answered(Ok(())) => relay.respond(),
            News::Arrived(Err(error)) | News::Answered(Err(error)) => {
                if relay.complaint.allow().is_some() {
                    tracing::warn!(%bind, %error, "cannot receive datagrams; trying again");
                }
                tokio::time::sleep(PAUSE).await;
            }
            News::Idle => {}
            News::Closing => relay.close(),
        }
        relay.flows.end_idle(
            coarse(),
            relay.idle(),
            if relay.is_closing { Reason::FlowClosed } else { Reason::FlowIdle },
        );
        if relay.is_closing && relay.flows.table.len() == 0 {
            return;
        }
    }
}

/// A datagram that was received and is to go up. Its bytes are in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    flow: FlowId,
    /// Piece of the batch, and where in it.
    slot: usize,
    start: usize,
    end: usize,
}

/// Both directions of one listener on one worker.
struct Relay {
    listener: UdpListener,
    place: Place<SocketAddr>,
    worker: Rc<Worker>,
    flows: Flows,
    batch: Batch,
    mailer: Mailer,
    pending: Vec<Pending>,
    /// Which flow each piece of a batch of responses is from.
    owners: Vec<FlowId>,
    ready: Vec<u64>,
    deadline: Deadline,
    rule: Option<Arc<UdpRule>>,
    is_closing: bool,
    /// Another process reads the listener.
    is_handed_over: bool,
    /// When the last flow ends, on the coarse clock: set when the process drains.
    ends_at: Option<Duration>,
    complaint: OncePerSecond,
}

impl Relay {
    fn new(listener: UdpListener, place: Place<SocketAddr>, worker: Rc<Worker>) -> std::io::Result<Relay> {
        let flows = Flows::new(Rc::clone(&worker), listener.local())?;
        Ok(Relay {
            listener,
            place,
            worker,
            flows,
            batch: Batch::new(),
            mailer: Mailer::new(),
            pending: Vec::new(),
            owners: Vec::new(),
            ready: Vec::new(),
            deadline: Deadline::new(),
            rule: None,
            is_closing: false,
            is_handed_over: false,
            ends_at: None,
            complaint: OncePerSecond::new(),
        })
    }

    /// Waits for datagrams of either side, for a flow that has been idle long enough, or for the end.
    async fn news(&mut self, closing: Option<&Reins>) -> News {
        let next_end = self.flows.next_end(self.idle()).map(|end| self.ends_at.map_or(end, |last| last.min(end)));
        let Relay { listener, flows, batch, ready, deadline, worker, is_handed_over, .. } = self;
        let idle = std::future::poll_fn(|context| match next_end {
            Some(at) => deadline.poll_elapsed(at, context).map(drop),
            None => std::task::Poll::Pending,
        });
        let reported = async {
            match closing {
                Some(closing) => tokio::select! {
                    _ = closing.changed() => {}
                    () = worker.closed() => {}
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            received = listener.receive(batch), if !*is_handed_over => News::Arrived(received),
            found = flows.poller.ready(ready) => News::Answered(found),
            () = idle => News::Idle,
            () = reported => News::Closing,
        }
    }

    fn idle(&self) -> Duration {
        if self.ends_at.is_some_and(|last| coarse() >= last) {
            return Duration::ZERO;
        }
        let configured = self.rule.as_ref().map_or(Duration::MAX, |rule| rule.config.idle_timeout);
        match (self.is_closing, self.is_handed_over) {
            (true, false) => configured.min(QUIET_AT_CLOSE),
            (true, true) => configured.min(QUIET_AFTER_HANDOVER),
            (false, _) => configured,
        }
    }

    fn close(&mut self) {
        self.is_closing = true;
        self.is_handed_over = self.worker.is_handed_over();
        // The port must be free for the next process, which serves these clients as new flows.
        self.ends_at = self.worker.is_draining().then(|| coarse() + QUIET_AT_CLOSE);
        self.flows.close();
    }

    /// Sends on what has arrived at the listener.
    fn forward(&mut self) {
        let generation = self.worker.pin();
        if let Some(rule) = generation.udp_listener(&self.place) {
            self.rule = Some(Arc::clone(rule));
        }
        let Some(rule) = self.rule.clone() else { return };
        let config = &rule.config;
        let now = coarse();
        let (mut datagrams, mut bytes) = (0, 0);
        self.pending.clear();
        for slot in 0..self.batch.len() {
            let piece = self.batch.get(slot);
            let Some(balancer) = piece.from.map(canonical) else { continue };
            let is_trusted = config.header == DatagramHeader::Off || rule.trusted.holds(Some(balancer));
            let mut start = 0;
            for datagram in piece.datagrams() {
                let end = start + datagram.len();
                datagrams += 1;
                bytes += datagram.len();
                let arrived = Arrived { balancer, local: piece.to, bytes: datagram, now };
                let found =
                    if is_trusted { self.flows.flow_of(&rule, arrived) } else { Err(Reason::ProxyUntrustedPeer) };
                match found {
                    Ok((flow, payload)) => self.pending.push(Pending { flow, slot, start: start + payload, end }),
                    Err(reason) => {
                        self.worker.reported.once(&config.name, reason, Some(balancer));
                        self.worker.report.datagram_refused(&config.name, reason);
                    }
                }
                start = end;
            }
        }
        self.worker.report.datagrams_received(&config.name, datagrams, bytes);
        self.send_pending(&rule, now);
    }

    /// Sends each flow's datagrams in one go, in the order they came.
    fn send_pending(&mut self, rule: &UdpRule, now: Duration) {
        let config = &rule.config;
        let Relay { flows, batch, mailer, pending, worker, .. } = self;
        pending.sort_unstable();
        let by_flow = || {
            pending
                .chunk_by(|one, next| one.flow == next.flow)
                .filter_map(|of_one| Some((of_one.first()?.flow, of_one)))
        };
        let has_heads = rule.group.as_ref().is_some_and(|group| group.config.send_proxy != SendProxy::Off);
        let head_of = |(id, _): (FlowId, &[Pending])| flows.table.get(id)?.request_head.clone();
        let heads: Vec<_> = if has_heads { by_flow().map(head_of).collect() } else { Vec::new() };
        let mut outgoing = Vec::with_capacity(pending.len());
        for (at, (id, of_one)) in by_flow().enumerate() {
            let Some(flow) = flows.table.get(id) else {
                // Another flow of the same batch has pushed it out.
                worker.report.datagrams_lost(&config.name, of_one.len());
                continue;
            };
            outgoing.clear();
            let head = heads.get(at).and_then(Option::as_deref).unwrap_or_default();
            let payloads = of_one.iter().filter_map(|one| batch.get(one.slot).bytes.get(one.start..one.end));
            let payloads = payloads.filter(|payload| flow.passes(false, payload.len(), worker));
            outgoing.extend(payloads.map(|payload| Outgoing { head, payload, to: None, from: None, ecn: 0 }));
            let bytes = outgoing.iter().map(|one| one.payload.len()).sum();
            if outgoing.is_empty() {
                continue;
            }
            let sent = flows.send(id, rule, mailer, &outgoing);
            worker.report.datagrams_lost(&config.name, sent.lost);
            flows.note(id, now, false, bytes, sent);
        }
    }

    /// Sends back what the targets of some flows have answered.
    fn respond(&mut self) {
        self.batch.clear();
        self.owners.clear();
        let ready = std::mem::take(&mut self.ready);
        for id in ready.iter().copied().map(FlowId::from_bits) {
            if self.batch.free() == 0 {
                self.send_responses();
            }
            // One that has ended meanwhile has no more news.
            let count = self.flows.receive(id, &mut self.batch, PIECES_PER_TURN);
            self.owners.extend(std::iter::repeat_n(id, count));
        }
        self.ready = ready;
        self.send_responses();
    }

    /// All flows' answers leave by the listener, so one call sends them all.
    fn send_responses(&mut self) {
        let now = coarse();
        let Relay { listener, flows, batch, mailer, owners, worker, rule, .. } = self;
        let mut outgoing = Vec::with_capacity(Batch::SLOTS);
        let mut shares = Vec::with_capacity(Batch::SLOTS);
        for (slot, id) in owners.iter().enumerate() {
            let Some(flow) = flows.table.get(*id) else { continue };
            let piece = batch.get(slot);
            let head: &[u8] = flow.response_head.as_ref().map_or(&[], |head| &head[..]);
            let before = outgoing.len();
            let (to, from) = (Some(flow.balancer), flow.local);
            let payloads = piece.datagrams().filter(|payload| flow.passes(true, payload.len(), worker));
            outgoing.extend(payloads.map(|payload| Outgoing { head, payload, to, from, ecn: 0 }));
            let own = outgoing.get(before..).unwrap_or_default();
            shares.push((*id, own.iter().map(|one| one.payload.len()).sum(), own.len()));
        }
        let sent = mailer.send(listener.as_fd(), &outgoing);
        drop(outgoing);
        let bytes = shares.iter().map(|(_, bytes, _): &(_, usize, _)| bytes).sum();
        if let Some(rule) = rule {
            worker.report.datagrams_sent(&rule.config.name, sent.sent, bytes);
            worker.report.datagrams_lost(&rule.config.name, sent.lost);
        }
        for (id, bytes, datagrams) in shares {
            flows.note(id, now, true, bytes, Sent { sent: datagrams, ..Sent::default() });
        }
        batch.clear();
        owners.clear();
    }
}
