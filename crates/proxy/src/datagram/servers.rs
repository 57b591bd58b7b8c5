//! The server that a flow goes to, where its listener has an upstream: taken when the flow begins, kept while it is up, and left for another one where the
//! network says that nobody is there.
//!
//! Owns these decisions. Which server is to be had is the group's; making and ending flows is `flows.rs`'s.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use net::udp::{Batch, Mailer, Outgoing, Sent};
use net::{Source, UdpFlow};
use reason::Reason;

use super::flows::{Flow, Flows};
use super::table::FlowId;
use crate::generation::UdpRule;
use crate::passport::{self, Rejected};
use crate::upstream::{Group, NoServer, Server, ServerId, TunnelPlace, Wish};

/// A flow's place at a server.
#[derive(Debug)]
pub(super) struct Placed {
    place: TunnelPlace,
    /// Servers that have refused its datagrams since there was a response: not chosen again.
    refused_by: Vec<ServerId>,
    /// The one it is at has: the next datagram goes to another one.
    is_refused: bool,
    /// Its socket to the server before, for responses that are under way.
    former: Option<UdpFlow>,
    /// Times that it went on at another server.
    pub(super) moves: u32,
}

impl Placed {
    /// A server for a new flow, and where it is. `as_client`: reached from the client's address, so of its family.
    ///
    /// # Errors
    /// None is to be had.
    pub(super) fn of(group: &Arc<Group>, client: SocketAddr, as_client: bool) -> Result<(Placed, SocketAddr), Reason> {
        let unfit = if as_client { group.of_other_family(client.is_ipv4()) } else { Vec::new() };
        let place = take(group, client, None, &unfit).map_err(|why| match why {
            NoServer::Busy | NoServer::BusyForClient | NoServer::ForTooLong => Reason::UpstreamOverflow,
            NoServer::None if group.is_unresolved() => Reason::UpstreamUnresolved,
            NoServer::None if !unfit.is_empty() => Rejected::NoTarget.reason(),
            NoServer::None => Reason::NoHealthyUpstream,
        })?;
        let target = place.server().socket_address().ok_or(Reason::NoHealthyUpstream)?;
        Ok((Placed { place, refused_by: Vec::new(), is_refused: false, former: None, moves: 0 }, target))
    }

    pub(super) fn group_name(&self) -> &str {
        &self.place.group().config.name
    }

    pub(super) fn server_name(&self) -> &str {
        &self.place.server().name
    }

    /// Whether it is to go on elsewhere, if it can.
    fn is_to_move(&self, group: &Arc<Group>) -> bool {
        let server = self.place.server();
        self.is_refused || !server.is_available() || server.has_left() || !Arc::ptr_eq(self.place.group(), group)
    }
}

/// A place at a server of a group, where it counts from now on.
fn take(
    group: &Arc<Group>,
    client: SocketAddr,
    prefer: Option<ServerId>,
    not: &[ServerId],
) -> Result<TunnelPlace, NoServer> {
    // Without a bound, since flows have one of their own.
    let in_flight = group.admit(None).map_err(|_| NoServer::Busy)?;
    // What moves takes a turn as well, or all flows of a server that is gone would meet at one other.
    let wish = Wish { hash: group.hash_of_client(Some(client.ip())), prefer, not, is_again: false };
    let taken = group.take(wish)?;
    Ok(TunnelPlace::of(group, in_flight, taken))
}

impl Flows {
    /// Sends datagrams of a flow to its server, or to another one once the network has said that it is not there.
    pub(super) fn send(&mut self, id: FlowId, rule: &UdpRule, mailer: &mut Mailer, datagrams: &[Outgoing<'_>]) -> Sent {
        let mut all = Sent::default();
        let mut rest = datagrams;
        let mut may_move = true;
        if self.table.get(id).and_then(|flow| flow.placed.as_ref()).is_some() {
            self.settle(id, rule);
        }
        loop {
            let Some(flow) = self.table.get(id) else {
                // Without descriptors the flow that has been idle longest gives up its own, and this may have been the one.
                all.lost += rest.len();
                return all;
            };
            let sent = match &flow.placed {
                Some(_) if may_move => mailer.send_unless_refused(flow.socket.as_fd(), rest),
                _ => mailer.send(flow.socket.as_fd(), rest),
            };
            all.sent += sent.sent;
            all.lost += sent.lost;
            if !sent.is_refused {
                return all;
            }
            rest = rest.get(sent.sent + sent.lost..).unwrap_or_default();
            self.note_refusal(id);
            // Once all have refused, it stays where it is.
            may_move = self.settle(id, rule);
        }
    }

    /// Receives what there is for a flow; gives the number of pieces.
    pub(super) fn receive(&mut self, id: FlowId, batch: &mut Batch, most: usize) -> usize {
        // One that has ended meanwhile has no more news.
        let Some(flow) = self.table.get_mut(id) else { return 0 };
        let received = flow.socket.receive(batch, most);
        let Some(placed) = &mut flow.placed else {
            // The target is gone or not there yet. That is its client's business and nobody else's: the flow stays.
            return received.unwrap_or_else(|_| {
                flow.unreachable += 1;
                0
            });
        };
        if let Ok(1..) = received {
            placed.place.server().succeeded();
            placed.refused_by.clear();
            placed.is_refused = false;
        }
        let former = placed.former.as_ref().filter(|_| batch.free() > 0);
        let of_former = former.map_or(0, |former| former.receive(batch, most).unwrap_or(0));
        match received {
            Ok(count) => count + of_former,
            Err(_) => {
                self.note_refusal(id);
                of_former
            }
        }
    }

    /// The network says that a datagram could not be delivered to the server of a flow: it counts as a failed connection does.
    fn note_refusal(&mut self, id: FlowId) {
        let Some(flow) = self.table.get_mut(id) else { return };
        flow.unreachable += 1;
        let Some(placed) = &mut flow.placed else { return };
        placed.is_refused = true;
        let (group, server) = (placed.place.group(), placed.place.server());
        self.worker.report.datagram_undelivered(&group.config.name, &server.name);
        if server.failed(group.config.ejection) {
            tracing::warn!(upstream = group.config.name, server = %server.name, "server ejected");
        }
    }

    /// Has a flow go on at another server where its own is not up any more, or has refused it. False if there is none that would be better.
    fn settle(&mut self, id: FlowId, rule: &UdpRule) -> bool {
        let (Some(flow), Some(group)) = (self.table.get_mut(id), &rule.group) else { return false };
        let came_to = flow.local;
        let Some(placed) = flow.placed.as_mut().filter(|placed| placed.is_to_move(group)) else { return true };
        let Some(place) = next(placed, group, flow.client, flow.as_client) else {
            // It may be back by the next datagram.
            placed.refused_by.clear();
            placed.is_refused = false;
            return false;
        };
        let target = place
            .server()
            .socket_address()
            .filter(|target| passport::not_where_it_came(*target, Some(self.came_to(came_to))).is_ok());
        match target {
            Some(target) => self.move_to(id, place, target),
            None => false,
        }
    }

    /// Has a flow go on at this server. Where there is no socket to be had, it stays where it is.
    fn move_to(&mut self, id: FlowId, place: TunnelPlace, target: SocketAddr) -> bool {
        let Some(flow) = self.table.get(id) else { return false };
        if flow.target == target {
            // The same server, of a group that was made anew.
            return self.put(id, place, target, None);
        }
        if flow.as_client {
            // There is one socket for each port of the client.
            return match flow.socket.turn_to(target) {
                Ok(()) => self.put(id, place, target, None),
                Err(_) => false,
            };
        }
        let source = Source { address: None, mark: flow.config.source.mark };
        match self.connect(target, source) {
            Ok(socket) if self.poller.add(&socket, id.to_bits()).is_ok() => self.put(id, place, target, Some(socket)),
            _ => false,
        }
    }

    fn put(&mut self, id: FlowId, place: TunnelPlace, target: SocketAddr, socket: Option<UdpFlow>) -> bool {
        let Some(Flow { placed: Some(placed), socket: current, target: at, .. }) = self.table.get_mut(id) else {
            return false;
        };
        if *at != target {
            placed.moves += 1;
            self.worker.report.flow_at(&place.group().config.name, &place.server().name);
        }
        let is_refused = std::mem::take(&mut placed.is_refused);
        if let Some(socket) = socket {
            let former = std::mem::replace(current, socket);
            placed.former = Some(former).filter(|_| !is_refused);
        }
        placed.place = place;
        *at = target;
        true
    }
}

/// A better place for a flow than its own, if there is one.
fn next(placed: &mut Placed, group: &Arc<Group>, client: SocketAddr, as_client: bool) -> Option<TunnelPlace> {
    let server = Arc::clone(placed.place.server());
    if placed.is_refused && !placed.refused_by.contains(&server.id) {
        placed.refused_by.push(server.id);
    }
    let mut not = placed.refused_by.clone();
    not.push(server.id);
    if as_client {
        not.extend(group.of_other_family(client.is_ipv4()));
    }
    let is_same_group = Arc::ptr_eq(placed.place.group(), group);
    let again = if is_same_group { None } else { same_server(group, &server) };
    let place = take(group, client, again, &not).ok()?;
    // One that has only been ejected, or fails its checks, is not worth leaving for another one that is.
    let stays = !placed.is_refused && is_same_group && !server.has_left() && !place.server().is_available();
    Some(place).filter(|_| !stays)
}

/// The server at the same address in a group that was made anew.
fn same_server(group: &Group, server: &Server) -> Option<ServerId> {
    group.members().servers.iter().find(|other| other.address == server.address).map(|other| other.id)
}
