//! One HTTP/3 connection: a state machine on a socket of its own, and what is asked over it.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use net::udp::{Batch, Mailer, Outgoing};
use net::{Source, UdpFlow};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, StreamEvent,
    StreamId, VarInt, WriteError,
};
use wire::http::http3::{Code, control};

use super::super::Load;
use super::broken;
use super::response::ResponseReader;

/// Datagrams that the library may put into one piece.
const PIECE_DATAGRAMS: usize = 10;

/// What all connections of a generator are made of.
pub(super) struct Dialer {
    pub(super) config: ClientConfig,
    pub(super) endpoint: Arc<EndpointConfig>,
    pub(super) host: String,
    pub(super) target: SocketAddr,
    /// The frames of each request.
    pub(super) request: Bytes,
}

/// Room that one connection after the other uses.
pub(super) struct Room {
    pub(super) batch: Batch,
    pub(super) mailer: Mailer,
    pub(super) packets: Vec<u8>,
}

/// An open connection, or one that is being opened.
pub(super) struct Client {
    socket: UdpFlow,
    target: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    is_connected: bool,
    since: Instant,
    exchanges: HashMap<StreamId, Exchange>,
    asked: u64,
    answered: u64,
}

/// A request and its response.
struct Exchange {
    since: Instant,
    /// What is still to be written.
    rest: Bytes,
    response: ResponseReader,
}

impl Client {
    /// Begins a handshake; nothing is sent before [`Client::turn`].
    pub(super) fn dial(dialer: &Dialer) -> io::Result<Client> {
        let socket = UdpFlow::connect(dialer.target, Source::OWN)?;
        let mut endpoint = Endpoint::new(Arc::clone(&dialer.endpoint), None, true, None);
        let since = Instant::now();
        let (handle, connection) =
            endpoint.connect(since, dialer.config.clone(), dialer.target, &dialer.host).map_err(io::Error::other)?;
        Ok(Client {
            socket,
            target: dialer.target,
            endpoint,
            handle,
            connection,
            is_connected: false,
            since,
            exchanges: HashMap::new(),
            asked: 0,
            answered: 0,
        })
    }

    pub(super) fn socket(&self) -> impl AsFd {
        self.socket.as_fd()
    }

    /// Responses so far.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// Takes in what came.
    pub(super) fn receive(&mut self, room: &mut Room, now: Instant) -> io::Result<()> {
        room.batch.clear();
        self.socket.receive(&mut room.batch, Batch::SLOTS)?;
        for piece in (0..room.batch.len()).map(|index| room.batch.get(index)) {
            for bytes in piece.datagrams() {
                let datagram = BytesMut::from(bytes);
                let event = self.endpoint.handle(now, self.target, None, None, datagram, &mut room.packets);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
        }
        room.packets.clear();
        Ok(())
    }

    /// Does what is due: reads responses, asks again, sends. Gives when it wants to be called though nothing came.
    ///
    /// # Errors
    /// The connection is lost, or a response is not what it must be.
    pub(super) fn turn(
        &mut self,
        load: &Load,
        dialer: &Dialer,
        room: &mut Room,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            self.take(event, load)?;
        }
        self.ask(load, dialer, now)?;
        self.send(room, now);
        Ok(self.connection.poll_timeout())
    }

    /// Says goodbye; the connection is not used any more.
    pub(super) fn close(mut self, room: &mut Room) {
        let now = Instant::now();
        self.connection.close(now, code(Code::NO_ERROR), Bytes::new());
        self.send(room, now);
    }

    fn take(&mut self, event: Event, load: &Load) -> io::Result<()> {
        match event {
            Event::Connected => self.connected(),
            Event::ConnectionLost { reason } => Err(io::Error::other(reason)),
            Event::Stream(StreamEvent::Readable { id }) => self.read(id, load),
            Event::Stream(StreamEvent::Writable { id }) => self.write(id),
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = self.connection.streams().accept(Dir::Uni) {
                    self.read(id, load)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Begins HTTP/3: the control stream, with settings that allow no dynamic table.
    fn connected(&mut self) -> io::Result<()> {
        self.is_connected = true;
        let mut beginning = Vec::new();
        control::write_beginning(u64::from(u16::MAX), false, 0, &mut beginning);
        let id = self.connection.streams().open(Dir::Uni).ok_or_else(|| broken("no stream for settings"))?;
        self.connection.send_stream(id).write(&beginning).map_err(io::Error::other)?;
        Ok(())
    }

    /// Asks as often as this connection should have requests under way.
    fn ask(&mut self, load: &Load, dialer: &Dialer, now: Instant) -> io::Result<()> {
        let is_for_one = load.options.reconnect || load.options.hold;
        while self.is_connected
            && self.exchanges.len() < load.options.streams
            && !(is_for_one && self.asked > 0)
            && load.has_left()
            && let Some(id) = self.connection.streams().open(Dir::Bi)
        {
            load.take_one();
            self.asked += 1;
            let since = if load.options.reconnect { self.since } else { now };
            let response = ResponseReader::of_status(load.options.status);
            self.exchanges.insert(id, Exchange { since, rest: dialer.request.clone(), response });
            self.write(id)?;
        }
        Ok(())
    }

    fn write(&mut self, id: StreamId) -> io::Result<()> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let mut stream = self.connection.send_stream(id);
        while !exchange.rest.is_empty() {
            let mut chunks = [exchange.rest.clone()];
            match stream.write_chunks(&mut chunks) {
                Ok(written) => drop(exchange.rest.split_to(written.bytes)),
                Err(WriteError::Blocked) => return Ok(()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        stream.finish().map_err(io::Error::other)
    }

    /// Reads a response; what else the server says is of no interest.
    fn read(&mut self, id: StreamId, load: &Load) -> io::Result<()> {
        let mut exchange = self.exchanges.get_mut(&id);
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if let Some(exchange) = &mut exchange {
                        exchange.response.feed(&chunk.bytes)?;
                    }
                }
                Ok(None) => break Some(Ok(())),
                Err(quinn_proto::ReadError::Blocked) => break None,
                Err(error) => break Some(Err(io::Error::other(error))),
            }
        };
        let _ = chunks.finalize();
        let Some(end) = end else { return Ok(()) };
        let Some(exchange) = self.exchanges.remove(&id) else { return Ok(()) };
        end?;
        self.answered += 1;
        load.answered(exchange.since, exchange.response.finish()?);
        Ok(())
    }

    /// Sends all there is, in as few calls as the kernel allows.
    fn send(&mut self, room: &mut Room, now: Instant) {
        loop {
            room.packets.clear();
            let Some(transmit) = self.connection.poll_transmit(now, PIECE_DATAGRAMS, &mut room.packets) else { return };
            let bytes = room.packets.get(..transmit.size).unwrap_or_default();
            let datagrams = bytes.chunks(transmit.segment_size.unwrap_or(transmit.size).max(1));
            let outgoing: Vec<_> =
                datagrams.map(|payload| Outgoing { head: &[], payload, to: None, from: None, ecn: 0 }).collect();
            room.mailer.send(self.socket.as_fd(), &outgoing);
        }
    }
}

fn code(code: Code) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}
