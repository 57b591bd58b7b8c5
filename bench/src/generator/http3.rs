//! HTTP/3 load: one task for all connections, each on a socket of its own, as clients have them.
//!
//! The protocol is quinn-proto's, over the project's own TLS and packet protection. Datagrams come in pieces that the kernel joined (recvmmsg, UDP_GRO) and
//! leave in pieces that it cuts (sendmmsg, UDP_SEGMENT). Clients have empty connection ids, as browsers do, and send packets of 1,200 bytes at most.

mod client;
mod response;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use net::Poller;
use net::udp::{Batch, Mailer};
use quinn_proto::{IdleTimeout, RandomConnectionIdGenerator, TransportConfig, VarInt};
use tls::{Connector, ProtocolVersion};
use wire::http::http3::frame;
use wire::http::qpack;

use super::{Load, Options, PAUSE_AFTER_FAILURE, payload};
use client::{Client, Dialer, Room};

/// What we would wait for silently, in milliseconds; how long the server waits is its own affair.
const IDLE_MILLISECONDS: u32 = 600_000;

/// Handshakes under way at once while connections are opened that are to be held.
const OPENING_AT_ONCE: usize = 32;

/// Makes load until nothing more is to be asked, and then waits.
pub(super) async fn run(load: Rc<Load>) -> io::Result<Infallible> {
    let mut engine = Engine::new(load)?;
    for place in 0..engine.places.len() {
        engine.dial(place);
    }
    loop {
        engine.turn().await?;
        // The upstream may live in the same thread.
        tokio::task::yield_now().await;
    }
}

/// Opens all connections, asks once on each, and holds them until `end` is done. Gives how many stood before that to `held`, and how many at the end.
pub(super) async fn hold(load: Rc<Load>, held: impl Fn(usize), end: impl Future) -> io::Result<usize> {
    let mut engine = Engine::new(load)?;
    let count = |engine: &Engine| engine.places.iter().filter_map(|place| place.client.as_ref()).count();
    let is_done = |place: &Place| place.client.as_ref().is_some_and(|client| client.answered() > 0);
    let mut dialled = 0;
    loop {
        let done = engine.places.iter().filter(|place| is_done(place)).count();
        if done == engine.places.len() {
            break;
        }
        while dialled < engine.places.len() && dialled - done < OPENING_AT_ONCE {
            engine.dial(dialled);
            dialled += 1;
        }
        engine.turn().await?;
        let tally = engine.load.tally.borrow();
        if tally.errors > 0 {
            return Err(broken(&tally.last_error));
        }
    }
    held(count(&engine));
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            _ = &mut end => return Ok(count(&engine)),
            turned = engine.turn() => turned?,
        }
    }
}

/// All connections, and what wakes them.
struct Engine {
    load: Rc<Load>,
    dialer: Dialer,
    poller: Poller,
    places: Vec<Place>,
    timers: BTreeSet<(Instant, usize)>,
    room: Room,
    /// Places whose sockets have news.
    news: Vec<u64>,
}

/// The place of a connection; without one it is opened anew when its time comes.
#[derive(Default)]
struct Place {
    client: Option<Client>,
    timer: Option<Instant>,
}

impl Engine {
    fn new(load: Rc<Load>) -> io::Result<Engine> {
        Ok(Engine {
            dialer: dialer(&load.options)?,
            poller: Poller::new()?,
            places: (0..load.options.connections).map(|_| Place::default()).collect(),
            timers: BTreeSet::new(),
            room: Room { batch: Batch::new(), mailer: Mailer::new(), packets: Vec::new() },
            news: Vec::new(),
            load,
        })
    }

    /// Waits until something is due, and does it.
    async fn turn(&mut self) -> io::Result<()> {
        match self.timers.first() {
            Some((first, _)) => {
                let first = tokio::time::Instant::from_std(*first);
                let _ = tokio::time::timeout_at(first, self.poller.ready(&mut self.news)).await;
            }
            None => self.poller.ready(&mut self.news).await?,
        }
        let now = Instant::now();
        for key in std::mem::take(&mut self.news) {
            let place = key as usize;
            let Some(client) = self.places.get_mut(place).and_then(|place| place.client.as_mut()) else { continue };
            match client.receive(&mut self.room, now) {
                Ok(()) => self.drive(place, now),
                Err(error) => self.failed(place, &error),
            }
        }
        while let Some((_, place)) = self.timers.first().filter(|(at, _)| *at <= now).copied() {
            self.set_timer(place, None);
            match self.places[place].client {
                Some(_) => self.drive(place, now),
                None => self.dial(place),
            }
        }
        Ok(())
    }

    /// Opens the connection of a place, if there is anything left to ask.
    fn dial(&mut self, place: usize) {
        if !self.load.has_left() {
            return;
        }
        let dialled = Client::dial(&self.dialer)
            .and_then(|client| self.poller.add(client.socket(), place as u64).map(|()| client));
        match dialled {
            Ok(client) => {
                self.places[place].client = Some(client);
                self.drive(place, Instant::now());
            }
            Err(error) => self.failed(place, &error),
        }
    }

    fn drive(&mut self, place: usize, now: Instant) {
        let Some(client) = &mut self.places[place].client else { return };
        match client.turn(&self.load, &self.dialer, &mut self.room, now) {
            Ok(_) if self.load.options.reconnect && client.answered() > 0 => {
                if let Some(client) = self.places[place].client.take() {
                    client.close(&mut self.room);
                }
                // Not at once: others may have come meanwhile.
                self.set_timer(place, Some(now));
            }
            Ok(timer) => self.set_timer(place, timer),
            Err(error) => self.failed(place, &error),
        }
    }

    fn failed(&mut self, place: usize, error: &io::Error) {
        self.load.failed(error);
        self.places[place].client = None;
        // One that was to be held is gone.
        let again = (!self.load.options.hold).then(|| Instant::now() + PAUSE_AFTER_FAILURE);
        self.set_timer(place, again);
    }

    fn set_timer(&mut self, place: usize, timer: Option<Instant>) {
        let old = std::mem::replace(&mut self.places[place].timer, timer);
        if old != timer {
            old.map(|old| self.timers.remove(&(old, place)));
            timer.map(|timer| self.timers.insert((timer, place)));
        }
    }
}

fn dialer(options: &Options) -> io::Result<Dialer> {
    let mut connector =
        Connector::new(&[], false, None, &[b"h3".to_vec()], ProtocolVersion::Tls13).map_err(io::Error::other)?;
    connector.limit_groups("X25519").map_err(io::Error::other)?;
    connector.never_resume();
    let mut transport = TransportConfig::default();
    // A search for longer packets would be a part of each handshake.
    transport.mtu_discovery_config(None);
    transport.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MILLISECONDS))));
    let mut config = quic::client::config(Arc::new(connector));
    config.transport_config(Arc::new(transport));
    let mut endpoint = quic::client::endpoint_config();
    endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
    Ok(Dialer {
        config,
        endpoint: Arc::new(endpoint),
        host: options.host.clone(),
        target: options.address,
        request: request(options)?,
    })
}

/// The frames of a request.
fn request(options: &Options) -> io::Result<Bytes> {
    let body = payload(options)?;
    let mut section = Vec::new();
    qpack::begin_section(&mut section);
    let length = body.as_ref().map(|(_, bytes)| bytes.len().to_string());
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut put = |name: &str, value: &str| qpack::write_field(name.as_bytes(), value.as_bytes(), &mut section);
    put(":method", method);
    put(":scheme", "https");
    put(":authority", &options.host);
    put(":path", &options.path);
    if let (Some((kind, _)), Some(length)) = (&body, &length) {
        put("content-type", kind);
        put("content-length", length);
    }
    for field in &options.fields {
        let (name, value) = field.split_once(':').ok_or_else(|| broken("--field: NAME: VALUE"))?;
        put(name, value.trim());
    }
    let mut request = Vec::new();
    frame::write(frame::HEADERS, &section, &mut request);
    if let Some((_, body)) = body {
        frame::write(frame::DATA, &body, &mut request);
    }
    Ok(request.into())
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
