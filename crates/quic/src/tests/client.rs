//! A client: the library's own state machine on a socket, with TLS of ours.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError, StreamEvent,
    StreamId, TransportConfig,
};
use rcgen::{CertificateParams, KeyPair};
use tls::{Acceptor, Alert, Choice, Chooser, Connector, Identity, KeyType, Policy, ProtocolVersion, TicketKeys};
use tokio::net::UdpSocket;
use wire::client_hello::ClientHello;
use zeroize::Zeroizing;

use crate::client;

pub const NAME: &str = "site.example";
pub const ALPN: &str = "h3";

/// Longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server's certificate, and who trusts it.
#[derive(Clone)]
pub struct Party {
    pub identity: Arc<Identity>,
    pub certificate: Vec<u8>,
    acceptor: Arc<Acceptor>,
    alpn: &'static str,
}

impl Party {
    pub fn new(alpn: &'static str) -> Party {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([NAME.to_owned()]).unwrap().self_signed(&key).unwrap().der().to_vec();
        let identity = Identity::new(vec![certificate.clone()], Zeroizing::new(key.serialize_der()), KeyType::Ecdsa);
        let tickets = Arc::new(TicketKeys::new(Duration::from_secs(3600)));
        Party { identity, certificate, acceptor: Arc::new(Acceptor::new(tickets).unwrap()), alpn }
    }

    pub fn acceptor(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor)
    }

    /// The same certificate, whose key is on another machine.
    pub fn with_key_elsewhere(self) -> Party {
        let identity = Identity::remote(std::slice::from_ref(&self.certificate), KeyType::Ecdsa);
        Party { identity, ..self }
    }

    /// A client's, which trusts the certificate.
    pub fn connector(&self, alpn: &str) -> Connector {
        let roots = [self.certificate.clone()];
        Connector::new(&roots, false, None, &[alpn.as_bytes().to_vec()], ProtocolVersion::Tls12).unwrap()
    }

    pub fn chooser(&self) -> Arc<dyn Chooser + Send + Sync> {
        Arc::new(Fixed(Choice {
            identity: Arc::clone(&self.identity),
            policy: Policy::Intermediate,
            min_version: ProtocolVersion::Tls12,
            alpn: Arc::new([self.alpn.as_bytes().to_vec()]),
            client_auth: None,
            context: [7; 32],
        }))
    }
}

pub struct Fixed(pub Choice);

impl Chooser for Fixed {
    fn choose(&self, _hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        Ok(self.0.clone())
    }

    fn asks_for_certificates(&self) -> bool {
        false
    }
}

/// What has come on a stream.
#[derive(Default, Clone)]
pub struct Come {
    pub bytes: Vec<u8>,
    pub is_whole: bool,
    pub reset: Option<u64>,
}

pub struct Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub connection: Connection,
    socket: UdpSocket,
    target: SocketAddr,
    connected: bool,
    pub lost: Option<ConnectionError>,
    pub streams: HashMap<StreamId, Come>,
    pub stopped: HashMap<StreamId, u64>,
    opened: [usize; 2],
    /// UDP payload bytes.
    pub received: usize,
    pub sent: usize,
    /// First byte of the id that the last short header was sent to.
    last_id: Option<u8>,
    /// It had to prove its address.
    pub was_retried: bool,
}

impl Client {
    pub fn new(target: SocketAddr, party: &Party, alpn: &str) -> Client {
        let mut config = client::config(Arc::new(party.connector(alpn)));
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(Duration::from_secs(60).try_into().unwrap()));
        config.transport_config(Arc::new(transport));
        let mut endpoint = Endpoint::new(Arc::new(client::endpoint_config()), None, true, None);
        let (handle, connection) = endpoint.connect(Instant::now(), config, target, NAME).unwrap();
        Client {
            endpoint,
            handle,
            connection,
            socket: socket(),
            target,
            connected: false,
            lost: None,
            streams: HashMap::new(),
            stopped: HashMap::new(),
            opened: [0; 2],
            received: 0,
            sent: 0,
            last_id: None,
            was_retried: false,
        }
    }

    /// The same from another address of this machine.
    pub async fn at(self, address: &str) -> Client {
        Client { socket: UdpSocket::bind((address, 0)).await.unwrap(), ..self }
    }

    /// Begins a handshake, proves its address if it must, and says nothing more once the server has begun, too.
    pub async fn half_open(&mut self) {
        let mut buffer = [0; 2000];
        loop {
            self.send().await;
            let received = tokio::time::timeout(PATIENCE, self.socket.recv_from(&mut buffer)).await;
            let (length, from) = received.expect("the server responds").unwrap();
            let before = self.was_retried;
            if buffer[0] & 0xf0 == 0xf0 {
                self.take(&buffer[..length], from);
            }
            if self.was_retried == before {
                return;
            }
        }
    }

    /// Asks, and stops once it has what is to prove its address: that is sent with what comes next.
    pub async fn retried(&mut self) {
        self.send().await;
        let begun = Instant::now();
        while !self.was_retried {
            assert!(begun.elapsed() < PATIENCE, "waited in vain");
            self.receive().await;
        }
    }

    pub fn is_connected(&self) -> bool {
        assert!(self.lost.is_none(), "{:?}", self.lost);
        self.connected
    }

    pub fn local(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Goes on from another port.
    pub fn rebind(&mut self) {
        self.socket = socket();
    }

    /// The lane of `lanes` that the connection is on, as the id that it sends to says.
    pub fn server_lane(&self, lanes: usize) -> usize {
        usize::from(self.last_id.unwrap()) % lanes
    }

    /// Counts what comes for so long, and responds to nothing.
    pub async fn wait_deaf(&mut self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        let mut buffer = [0; 2000];
        while let Ok(received) = tokio::time::timeout_at(end, self.socket.recv_from(&mut buffer)).await {
            self.received += received.unwrap().0;
        }
    }

    pub fn opened(&self, dir: Dir) -> usize {
        self.opened[dir as usize]
    }

    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let id = self.connection.streams().open(dir)?;
        self.opened[dir as usize] += 1;
        self.streams.insert(id, Come::default());
        Some(id)
    }

    /// Opens streams while it may, each with a byte; gives their number.
    pub fn open_all(&mut self, dir: Dir) -> usize {
        let mut count = 0;
        while let Some(id) = self.open(dir) {
            self.connection.send_stream(id).write(b"!").unwrap();
            count += 1;
        }
        count
    }

    /// Runs until `done` says so.
    pub async fn until(&mut self, mut done: impl FnMut(&mut Client) -> bool) {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "waited in vain");
            self.send().await;
            if done(self) {
                return self.send().await;
            }
            self.receive().await;
        }
    }

    /// Runs until `other` is done.
    pub async fn beside<F: Future>(&mut self, other: F) -> F::Output {
        let mut other = std::pin::pin!(other);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "waited in vain");
            self.send().await;
            let output = std::future::poll_fn(|context| Poll::Ready(other.as_mut().poll(context))).await;
            match output {
                Poll::Ready(output) => return output,
                Poll::Pending => self.receive_for(Duration::from_millis(1)).await,
            }
        }
    }

    pub async fn send(&mut self) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut buffer) {
            self.sent += transmit.size;
            if buffer[0] & 0x80 == 0 {
                self.last_id = Some(buffer[1]);
            }
            self.socket.send_to(&buffer[..transmit.size], self.target).await.unwrap();
            buffer.clear();
        }
        self.events();
    }

    async fn receive(&mut self) {
        let limit = self.connection.poll_timeout().map(|at| at.saturating_duration_since(Instant::now()));
        self.receive_for(limit.unwrap_or(Duration::from_millis(5)).min(Duration::from_millis(5))).await;
    }

    async fn receive_for(&mut self, limit: Duration) {
        let mut buffer = [0; 2000];
        if let Ok(received) = tokio::time::timeout(limit, self.socket.recv_from(&mut buffer)).await {
            let (length, from) = received.unwrap();
            self.received += length;
            self.take(&buffer[..length], from);
            while let Ok((length, from)) = self.socket.try_recv_from(&mut buffer) {
                self.received += length;
                self.take(&buffer[..length], from);
            }
        }
        self.connection.handle_timeout(Instant::now());
        self.events();
    }

    fn take(&mut self, bytes: &[u8], from: SocketAddr) {
        // RFC 9000 §17.2.5
        self.was_retried |= bytes[0] & 0xf0 == 0xf0;
        let mut response = Vec::new();
        let event = self.endpoint.handle(Instant::now(), from, None, None, BytesMut::from(bytes), &mut response);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.connection.streams().accept(Dir::Uni) {
                        self.streams.insert(id, Come::default());
                        self.read(id);
                    }
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.stopped.insert(id, error_code.into_inner());
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, id: StreamId) {
        let Some(come) = self.streams.get_mut(&id) else { return };
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => come.bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => come.is_whole = true,
                Err(ReadError::Reset(code)) => come.reset = Some(code.into_inner()),
                Err(ReadError::Blocked) => break,
            }
            if come.is_whole || come.reset.is_some() {
                break;
            }
        }
        let _ = chunks.finalize();
    }

    /// Sends on a new stream, and gives what comes back.
    pub async fn exchange(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut all = self.exchange_many(1, bytes).await;
        all.pop()
    }

    pub async fn exchange_many(&mut self, count: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut rest: HashMap<StreamId, usize> = HashMap::new();
        let mut done = Vec::new();
        while done.len() < count {
            while rest.len() + done.len() < count
                && let Some(id) = self.open(Dir::Bi)
            {
                rest.insert(id, 0);
            }
            for (id, at) in &mut rest {
                while *at < bytes.len()
                    && let Ok(written) = self.connection.send_stream(*id).write(&bytes[*at..])
                {
                    *at += written;
                }
                if *at == bytes.len() {
                    let _ = self.connection.send_stream(*id).finish();
                }
            }
            self.send().await;
            self.receive().await;
            assert!(self.lost.is_none(), "{:?}", self.lost);
            rest.retain(|id, _| {
                let is_whole = self.streams[id].is_whole;
                if is_whole {
                    done.push(self.streams.remove(id).unwrap().bytes);
                }
                !is_whole
            });
        }
        done
    }
}

fn socket() -> UdpSocket {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    UdpSocket::from_std(socket).unwrap()
}
