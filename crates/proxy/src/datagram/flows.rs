//! The flows of one listener on one worker: which datagram belongs to which, and the making and ending of them.
//!
//! Owns the sockets towards targets. Reads no listener; `datagram.rs` does. Which server of an upstream a flow goes to is `servers.rs`'s.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use config::{DatagramHeader, SendProxy, TargetsConfig, UdpListenerConfig};
use net::transparent::canonical;
use net::udp::{LocalAddress, Sent};
use net::{Poller, Source, UdpFlow};
use reason::Reason;
use telemetry::{FlowRecord, OncePerSecond};
use wire::proxy_protocol::{Extras, Origin, Transport, write_v2};
use wire::simple_proxy;

use super::header::{self, Said};
use super::servers::Placed;
use super::table::{FlowId, Key, Table};
use crate::generation::UdpRule;
use crate::passport::{self, Rejected};
use crate::policies::Terms;
use crate::upstream::own_header;
use crate::worker::Worker;

/// How the balancer of a flow was found to go about headers; for the mode that finds out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Only the first datagram is known, and it had one.
    Unknown,
    /// Every datagram has one.
    Each,
    /// Only the first had one; what comes is payload, whatever it looks like.
    First,
}

/// One flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) socket: UdpFlow,
    pub(super) config: Arc<UdpListenerConfig>,
    pub(super) client: SocketAddr,
    /// Where answers go, and from which address of ours.
    pub(super) balancer: SocketAddr,
    pub(super) local: Option<LocalAddress>,
    /// What each response begins with.
    pub(super) response_head: Option<Box<[u8; simple_proxy::HEADER_BYTES]>>,
    /// What each datagram towards the target begins with.
    pub(super) request_head: Option<Rc<[u8]>>,
    pub(super) target: SocketAddr,
    /// The server of an upstream that the target is.
    pub(super) placed: Option<Box<Placed>>,
    habit: Habit,
    opened: (SystemTime, Instant),
    /// Datagrams and bytes of payload, from the client and to it.
    pub(super) received: (u64, u64),
    pub(super) answered: (u64, u64),
    /// Datagrams the kernel did not take, either way.
    pub(super) lost: u64,
    /// Times the network said that the target could not be reached.
    pub(super) unreachable: u64,
    /// Whether it goes onward under the client's own address.
    pub(super) as_client: bool,
    /// What policies let it in under.
    terms: Terms,
}

impl Flow {
    /// Whether a datagram may go on, up or down, as far as its bandwidth says.
    pub(super) fn passes(&self, is_response: bool, bytes: usize, worker: &Worker) -> bool {
        let throttles = &self.terms.throttles;
        let throttle = if is_response { throttles.down() } else { throttles.up() };
        let booked = throttle.map_or(Ok(()), |throttle| throttle.try_book(bytes));
        let Err(policy) = booked else { return true };
        let reason = Reason::BandwidthLimited;
        worker.report.policy(&policy.name, "rejected", reason);
        worker.report.datagram_refused(&self.config.name, reason);
        worker.reported.once(&self.config.name, reason, Some(self.client));
        false
    }
}

/// A datagram on its way up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived<'a> {
    /// The socket's peer.
    pub(super) balancer: SocketAddr,
    /// The address of ours it came to.
    pub(super) local: Option<LocalAddress>,
    /// All of it.
    pub(super) bytes: &'a [u8],
    /// When.
    pub(super) now: Duration,
}

/// Who a new flow is for, as far as the datagram and the listener's rule say.
struct Newcomer {
    client: SocketAddr,
    /// Whether the client's own address is to be used onward; a balancer's own datagrams go under ours.
    is_client: bool,
    destination: Option<SocketAddr>,
}

/// The flows of one listener on one worker.
#[derive(Debug)]
pub(super) struct Flows {
    pub(super) table: Table<Flow>,
    pub(super) poller: Poller,
    pub(super) worker: Rc<Worker>,
    /// Where the listener is bound.
    bound: SocketAddr,
    is_closing: bool,
    complaint: OncePerSecond,
}

impl Flows {
    pub(super) fn new(worker: Rc<Worker>, bound: SocketAddr) -> std::io::Result<Flows> {
        Ok(Flows {
            table: Table::new(),
            poller: Poller::new()?,
            worker,
            bound,
            is_closing: false,
            complaint: OncePerSecond::new(),
        })
    }

    /// Takes in no new flows from now on.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// The flow a datagram belongs to, made if it is new; and where its payload begins.
    ///
    /// # Errors
    /// Why the datagram goes nowhere.
    pub(super) fn flow_of(&mut self, rule: &UdpRule, arrived: Arrived<'_>) -> Result<(FlowId, usize), Reason> {
        let config = &rule.config;
        let balancer = arrived.balancer;
        let of_balancer = Key { client: None, balancer, local: arrived.local, destination: None };
        let first_only = matches!(config.header, DatagramHeader::First | DatagramHeader::Auto);
        if first_only && let Some(id) = self.table.find(&of_balancer) {
            return self.belongs(config.header, id, arrived.bytes).map(|payload| (id, payload));
        }
        let (newcomer, payload) = match header::read(config.header, arrived.bytes) {
            Said::Client { client, destination, payload } => {
                (Newcomer { client, is_client: true, destination: Some(destination) }, payload)
            }
            Said::Balancer { payload } => (Newcomer { client: balancer, is_client: false, destination: None }, payload),
            Said::Nothing if config.header == DatagramHeader::Off || config.header_optional => {
                (Newcomer { client: balancer, is_client: true, destination: None }, 0)
            }
            Said::Nothing => return Err(Reason::ProxyHeaderMissing),
            Said::Wrong(reason) => return Err(reason),
        };
        let decides = matches!(config.to, TargetsConfig::Destination { .. });
        let destination = newcomer.destination.filter(|_| decides);
        let key =
            if first_only { of_balancer } else { Key { client: Some(newcomer.client), destination, ..of_balancer } };
        match self.table.find(&key) {
            Some(id) => Ok((id, payload)),
            None => Ok((self.open(rule, key, &newcomer, arrived)?, payload)),
        }
    }

    /// Where the payload of a further datagram of a flow begins, whose first one had the header.
    ///
    /// A client can send anything, also what looks like a header of somebody else. So once a flow is known, no header can change whose it is.
    fn belongs(&mut self, mode: DatagramHeader, id: FlowId, bytes: &[u8]) -> Result<usize, Reason> {
        let Some(flow) = self.table.get_mut(id) else { return Err(Reason::FlowEnded) };
        if mode == DatagramHeader::First || flow.habit == Habit::First {
            return Ok(0);
        }
        match (header::read(mode, bytes), flow.habit) {
            (Said::Client { client, payload, .. }, _) if client == flow.client => {
                flow.habit = Habit::Each;
                Ok(payload)
            }
            (Said::Client { .. }, _) => Err(Reason::ProxyHeaderClientChanged),
            (Said::Balancer { payload }, Habit::Each) if flow.client == flow.balancer => Ok(payload),
            (_, Habit::Each) => Err(Reason::ProxyHeaderMissing),
            (_, _) => {
                flow.habit = Habit::First;
                Ok(0)
            }
        }
    }

    fn open(&mut self, rule: &UdpRule, key: Key, newcomer: &Newcomer, arrived: Arrived<'_>) -> Result<FlowId, Reason> {
        if self.is_closing {
            return Err(Reason::ListenerClosing);
        }
        let config = &rule.config;
        let client = canonical(newcomer.client);
        let mut terms = Terms::default();
        terms.ask(&rule.policies, Some(client.ip()), &self.worker.report).map_err(|denial| {
            self.worker.reported.once(&config.name, denial.reason, Some(client));
            denial.reason
        })?;
        let (target, source, placed) = self.way(rule, newcomer, client, arrived.local).inspect_err(|reason| {
            self.worker.reported.once(&config.name, *reason, Some(client));
        })?;
        while let Some(id) = self.table.in_the_way(client.ip(), config.max_flows, config.max_flows_per_client) {
            self.end(id, Reason::FlowEvicted);
        }
        let socket = self.connect(target, source)?;
        let head = config.reply_header.then(|| {
            let proxy = newcomer.destination.unwrap_or(arrived.balancer);
            Box::new(simple_proxy::write(&simple_proxy::Header { client, proxy }))
        });
        let flow = Flow {
            socket,
            config: Arc::clone(config),
            client,
            balancer: key.balancer,
            local: arrived.local,
            response_head: head,
            request_head: self.request_head(rule, newcomer, arrived.local),
            target,
            placed,
            as_client: source.address.is_some(),
            habit: Habit::Unknown,
            opened: (SystemTime::now(), Instant::now()),
            received: (0, 0),
            answered: (0, 0),
            lost: 0,
            unreachable: 0,
            terms,
        };
        if let Some(placed) = &flow.placed {
            self.worker.report.flow_at(placed.group_name(), placed.server_name());
        }
        let id = self.table.insert(key, client.ip(), arrived.now, flow).ok_or(Reason::FlowNotOpened)?;
        let registered = self.table.get(id).map(|flow| self.poller.add(&flow.socket, id.to_bits()));
        if !matches!(registered, Some(Ok(()))) {
            self.table.remove(id);
            return Err(Reason::FlowNotOpened);
        }
        self.worker.shared.flows.fetch_add(1, Ordering::Relaxed);
        self.worker.report.connection_opened(&config.name);
        Ok(id)
    }

    /// The PROXY header that the servers of a group want on each datagram.
    fn request_head(&self, rule: &UdpRule, newcomer: &Newcomer, local: Option<LocalAddress>) -> Option<Rc<[u8]>> {
        let version = rule.group.as_ref().map_or(SendProxy::Off, |group| group.config.send_proxy);
        if version == SendProxy::Off || !newcomer.is_client {
            return Some(own_header(version)).filter(|head| !head.is_empty()).map(Rc::from);
        }
        let source = canonical(newcomer.client);
        let destination = newcomer.destination.unwrap_or_else(|| self.came_to(local));
        let mut head = Vec::new();
        let origin = Origin::Inet { transport: Transport::Datagram, source, destination };
        write_v2(&mut head, &origin, &Extras::default());
        Some(Rc::from(head))
    }

    /// Target and source of a new flow.
    fn way(
        &self,
        rule: &UdpRule,
        newcomer: &Newcomer,
        client: SocketAddr,
        local: Option<LocalAddress>,
    ) -> Result<(SocketAddr, Source, Option<Box<Placed>>), Reason> {
        let config = &rule.config;
        let as_client = config.source.client && newcomer.is_client;
        if as_client {
            let checked = passport::check_source(client.ip(), &config.source, &self.worker.own);
            checked.map_err(Rejected::reason)?;
        }
        let source = Source { address: as_client.then_some(client), mark: config.source.mark };
        let came_to = Some(self.came_to(local));
        if let Some(group) = &rule.group {
            let (placed, target) = Placed::of(group, client, as_client)?;
            let target = passport::not_where_it_came(target, came_to).map_err(Rejected::reason)?;
            return Ok((target, source, Some(Box::new(placed))));
        }
        let target = passport::target(&config.to, client.ip(), as_client, newcomer.destination, came_to);
        Ok((target.map_err(Rejected::reason)?, source, None))
    }

    /// The address of ours that a datagram has reached. Datagrams say so only where the socket is bound to all of them.
    pub(super) fn came_to(&self, local: Option<LocalAddress>) -> SocketAddr {
        SocketAddr::new(local.map_or(self.bound.ip(), |local| local.ip), self.bound.port())
    }

    pub(super) fn connect(&mut self, target: SocketAddr, source: Source) -> Result<UdpFlow, Reason> {
        match UdpFlow::connect(target, source) {
            Ok(socket) => Ok(socket),
            // Out of descriptors: the longest idle flow gives up its own.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                let (id, _) = self.table.longest_idle().ok_or(Reason::NoDescriptors)?;
                self.end(id, Reason::FlowEvicted);
                UdpFlow::connect(target, source).map_err(|_| Reason::NoDescriptors)
            }
            Err(error) => {
                if self.complaint.allow().is_some() {
                    let fix = match error.kind() {
                        std::io::ErrorKind::PermissionDenied => "; `transparent: true` and `mark` need CAP_NET_ADMIN",
                        _ => "",
                    };
                    tracing::error!(to = %target, "cannot open a UDP flow: {error}{fix}");
                }
                Err(Reason::FlowNotOpened)
            }
        }
    }

    /// Something was sent on behalf of a flow, up or down.
    pub(super) fn note(&mut self, id: FlowId, now: Duration, is_response: bool, bytes: usize, sent: Sent) {
        self.table.moved(id, now, is_response);
        let Some(flow) = self.table.get_mut(id) else { return };
        let (datagrams, total) = if is_response { &mut flow.answered } else { &mut flow.received };
        *datagrams += (sent.sent + sent.lost) as u64;
        *total += bytes as u64;
        flow.lost += sent.lost as u64;
    }

    /// When the next flow will have been idle for its time; none without flows.
    pub(super) fn next_end(&self, idle: Duration) -> Option<Duration> {
        self.table.longest_idle().map(|(_, since)| since + idle)
    }

    /// Ends the flows that have been idle for their time.
    pub(super) fn end_idle(&mut self, now: Duration, idle: Duration, reason: Reason) {
        while let Some((id, since)) = self.table.longest_idle() {
            if since + idle > now {
                return;
            }
            self.end(id, reason);
        }
    }

    /// Ends a flow: one log line, its totals.
    pub(super) fn end(&mut self, id: FlowId, reason: Reason) {
        let Some(flow) = self.table.remove(id) else { return };
        self.worker.shared.flows.fetch_sub(1, Ordering::Relaxed);
        self.worker.report.flow_closed(&FlowRecord {
            started: flow.opened.0,
            listener: &flow.config.name,
            client: flow.client,
            balancer: flow.balancer,
            target: flow.target,
            upstream: flow.placed.as_ref().map(|placed| placed.group_name()),
            moves: flow.placed.as_ref().map_or(0, |placed| placed.moves),
            port_kept: flow.socket.port_kept(),
            duration: flow.opened.1.elapsed(),
            datagrams_received: flow.received.0,
            datagrams_sent: flow.answered.0,
            bytes_received: flow.received.1,
            bytes_sent: flow.answered.1,
            datagrams_lost: flow.lost,
            unreachable: flow.unreachable,
            reason,
            would_reject: &flow.terms.would_reject,
        });
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        while let Some((id, _)) = self.table.longest_idle() {
            self.end(id, Reason::FlowClosed);
        }
    }
}
