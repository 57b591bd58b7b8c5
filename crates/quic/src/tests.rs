//! Hubs and a client of the same library over loopback: streams, their ends, flow control, migration, Retry, resets, refusals, timeouts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use net::inherited::Passed;
use net::{Link, UdpBound, UdpListener};
use quinn_proto::crypto::ServerConfig as _;
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionError, Dir, Side, TransportErrorCode};
use tls::quic::Level;
use tls::{QuicSession, ServerName};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::client::{ALPN, Client, NAME, Party};
use crate::session::{Door, Left, VERSION};
use crate::*;

pub(crate) fn settings() -> Settings {
    Settings {
        idle_timeout: Duration::from_secs(30),
        handshake_timeout: Duration::from_secs(20),
        max_bi_streams: 100,
        max_uni_streams: 3,
        stream_window: 256 * 1024,
        connection_window: 1024 * 1024,
        send_buffer: 256 * 1024,
        handshakes_before_retry: (100, 25),
        retry_lifetime: Duration::from_secs(60),
        max_handshakes: (1000, 100),
        abandoned: 0x10c,
    }
}

/// Hubs on one address, one per lane, each driven by a task, with what they had to tell.
struct Server {
    bound: UdpBound,
    party: Party,
    events: Rc<RefCell<Vec<Event<Attempt>>>>,
    secrets: Secrets,
    /// Where the kernel does not steer.
    lanes: Option<Arc<Lanes>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Server {
    fn new(lanes: usize, settings: &Settings) -> Server {
        Server::with(lanes, settings, Party::new(ALPN), |party, attempt| Decision::Accept(party.chooser(), attempt))
    }

    fn with(
        lanes: usize,
        settings: &Settings,
        party: Party,
        admit: impl Fn(&Party, Attempt) -> Decision<Attempt> + Clone + 'static,
    ) -> Server {
        let bound = UdpBound::bind("127.0.0.1:0".parse().unwrap(), lanes).unwrap();
        assert!(bound.prepare_for_quic());
        Server::on(bound, party, None, settings, admit)
    }

    fn on(
        bound: UdpBound,
        party: Party,
        lanes: Option<Arc<Lanes>>,
        settings: &Settings,
        admit: impl Fn(&Party, Attempt) -> Decision<Attempt> + Clone + 'static,
    ) -> Server {
        let secrets = Secrets::random().unwrap();
        let mut server = Server { bound, party, events: Rc::default(), secrets, lanes, tasks: vec![] };
        server.start(settings, admit);
        server
    }

    fn start(&mut self, settings: &Settings, admit: impl Fn(&Party, Attempt) -> Decision<Attempt> + Clone + 'static) {
        let (lanes, party) = (self.bound.listeners(0).unwrap().remove(0).lane().1, self.party.clone());
        for lane in 0..lanes {
            let listener = self.bound.listeners(lane).unwrap().remove(0);
            let mut hub = Hub::new(listener, party.acceptor(), &self.secrets, settings.clone(), self.lanes.clone());
            let (events, admit, party) = (Rc::clone(&self.events), admit.clone(), party.clone());
            self.tasks.push(tokio::task::spawn_local(async move {
                loop {
                    let event = hub.next(&mut |attempt| admit(&party, attempt)).await.unwrap();
                    events.borrow_mut().push(event);
                }
            }));
        }
    }

    async fn event(&self) -> Event<Attempt> {
        loop {
            if let Some(event) = self.events.borrow_mut().pop() {
                return event;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn accepted(&self) -> Connection {
        match self.event().await {
            Event::Accepted(connection, _) => connection,
            Event::Failed(failure, _) => panic!("{failure:?}"),
        }
    }

    async fn failed(&self) -> Failure {
        match self.event().await {
            Event::Accepted(connection, _) => panic!("{connection:?}"),
            Event::Failed(failure, _) => failure,
        }
    }

    fn connect(&self) -> Client {
        Client::new(self.bound.address(), &self.party, ALPN)
    }

    /// A client and its connection.
    async fn connected(&self) -> (Client, Connection) {
        let mut client = self.connect();
        client.until(|client| client.is_connected()).await;
        (client, self.accepted().await)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn accept_bi(connection: &Connection) -> BiStream {
    poll_fn(|context| connection.poll_accept_bi(context)).await.unwrap()
}

async fn read_all(stream: &mut RecvStream) -> Result<Vec<u8>, ReadError> {
    let mut all = Vec::new();
    while let Some(bytes) = poll_fn(|context| stream.poll_read(usize::MAX, context)).await? {
        assert!(!bytes.is_empty());
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

async fn write_all(stream: &mut SendStream, mut bytes: &[u8]) -> Result<(), WriteError> {
    while !bytes.is_empty() {
        let count = poll_fn(|context| stream.poll_write(bytes, context)).await?;
        assert!(count > 0);
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Sends back what comes on each stream, until the connection is lost.
async fn echo(connection: Connection) {
    while let Ok(BiStream { mut recv, mut send }) = poll_fn(|context| connection.poll_accept_bi(context)).await {
        tokio::task::spawn_local(async move {
            while let Ok(Some(mut bytes)) = poll_fn(|context| recv.poll_read(10_000, context)).await {
                while !bytes.is_empty() {
                    if poll_fn(|context| send.poll_write_bytes(&mut bytes, context)).await.is_err() {
                        return;
                    }
                }
            }
            send.finish();
        });
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[tokio::test(flavor = "local")]
async fn bytes_go_both_ways_on_many_streams() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    assert_eq!(connection.tls().server_name.as_deref(), Some(NAME));
    assert_eq!(connection.tls().alpn.as_deref(), Some(ALPN.as_bytes()));
    assert_eq!(connection.tls().version, tls::ProtocolVersion::Tls13);
    assert_eq!(connection.local_address(), server.bound.address());
    assert_eq!(connection.remote_address(), client.local());
    let stats = connection.stats();
    assert!(stats.received >= 1200 && stats.sent >= 1200, "{stats:?}");
    tokio::task::spawn_local(echo(connection));
    for length in [0, 1, 1200, 100_000, 2_000_000] {
        assert_eq!(client.exchange(&pattern(length)).await.unwrap(), pattern(length), "{length}");
    }
    let many = client.exchange_many(300, &pattern(3000)).await;
    assert_eq!(many.len(), 300);
    assert!(many.iter().all(|bytes| *bytes == pattern(3000)));
}

#[tokio::test(flavor = "local")]
async fn a_peer_with_many_streams_gets_all_that_there_are() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    let opened = client.open_all(Dir::Bi);
    assert_eq!(opened, 24);
    let first: Vec<BiStream> = {
        let mut streams = Vec::new();
        client.until(|_| true).await;
        for _ in 0..24 {
            streams.push(client.beside(accept_bi(&connection)).await);
        }
        streams
    };
    client.until(|client| client.open_all(Dir::Bi) > 0).await;
    drop(first);
    client.until(|client| client.opened(Dir::Bi) >= 100).await;
}

#[tokio::test(flavor = "local")]
async fn places_of_streams_that_were_reset_are_given_back_without_being_asked_for() {
    let few = Settings { max_bi_streams: 8, ..settings() };
    let server = Server::new(1, &few);
    let (mut client, connection) = server.connected().await;
    assert_eq!(client.open_all(Dir::Bi), 8);
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(client.beside(accept_bi(&connection)).await);
    }
    let opened: Vec<_> = client.streams.keys().copied().filter(|id| id.dir() == Dir::Bi).collect();
    for id in opened {
        client.connection.send_stream(id).reset(7_u32.into()).unwrap();
    }
    client.until(|client| client.connection.streams().send_streams() == 0).await;
    streams.iter_mut().for_each(|stream| stream.send.finish());
    for stream in &mut streams {
        client.beside(poll_fn(|context| stream.send.poll_delivered(context))).await.unwrap();
    }
    // From here on neither has anything to say but what the places are about.
    assert_eq!(client.open_all(Dir::Bi), 0);
    drop(streams);
    client.until(|client| client.is_connected() && client.open_all(Dir::Bi) > 0).await;
}

#[tokio::test(flavor = "local")]
async fn streams_in_one_direction_go_both_ways() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    let mut out = connection.open_uni().unwrap();
    assert_eq!(out.id() & 3, 3, "the server's, in one direction");
    client.beside(write_all(&mut out, b"settings")).await.unwrap();
    let id = client.open(Dir::Uni).unwrap();
    client.connection.send_stream(id).write(b"of the client").unwrap();
    client.connection.send_stream(id).finish().unwrap();
    let mut stream = client.beside(poll_fn(|context| connection.poll_accept_uni(context))).await.unwrap();
    assert_eq!(client.beside(read_all(&mut stream)).await, Ok(b"of the client".to_vec()));
    client.until(|client| client.streams.values().any(|come| come.bytes == b"settings")).await;
    out.finish();
    client.until(|client| client.streams.values().any(|come| come.bytes == b"settings" && come.is_whole)).await;
    assert_eq!(client.beside(poll_fn(|context| out.poll_delivered(context))).await, Ok(()));
}

#[tokio::test(flavor = "local")]
async fn ends_of_a_stream_are_told() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    let open = |client: &mut Client| {
        let id = client.open(Dir::Bi).unwrap();
        client.connection.send_stream(id).write(b"begun").unwrap();
        id
    };
    // The client resets, and wants no more.
    let id = open(&mut client);
    let mut stream = client.beside(accept_bi(&connection)).await;
    client.connection.send_stream(id).reset(7_u32.into()).unwrap();
    client.connection.recv_stream(id).stop(8_u32.into()).unwrap();
    assert_eq!(client.beside(poll_fn(|context| stream.recv.poll_reset(context))).await, ReadError::Reset(7));
    assert_eq!(client.beside(read_all(&mut stream.recv)).await, Err(ReadError::Reset(7)));
    assert_eq!(client.beside(poll_fn(|context| stream.send.poll_stopped(context))).await, WriteError::Stopped(8));
    assert_eq!(client.beside(write_all(&mut stream.send, b"more")).await, Err(WriteError::Stopped(8)));
    // The server does.
    let id = open(&mut client);
    let mut stream = client.beside(accept_bi(&connection)).await;
    stream.recv.stop(9);
    stream.send.reset(10);
    assert_eq!(client.beside(read_all(&mut stream.recv)).await, Err(ReadError::Stopped));
    client.until(|client| client.streams[&id].reset == Some(10) && client.stopped.get(&id) == Some(&9)).await;
    // Dropped without a word.
    let id = open(&mut client);
    drop(client.beside(accept_bi(&connection)).await);
    client.until(|client| client.streams[&id].reset == Some(0x10c) && client.stopped.get(&id) == Some(&0x10c)).await;
    // Dropped behind its end: nothing is lost.
    let id = open(&mut client);
    let mut stream = client.beside(accept_bi(&connection)).await;
    client.beside(write_all(&mut stream.send, &pattern(100_000))).await.unwrap();
    stream.send.finish();
    drop(stream);
    client.until(|client| client.streams[&id].is_whole).await;
    assert_eq!(client.streams[&id].bytes, pattern(100_000));
}

#[tokio::test(flavor = "local")]
async fn what_is_not_read_is_not_sent() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    let id = client.open(Dir::Bi).unwrap();
    let mut written = 0;
    let mut fill = |client: &mut Client| {
        while let Ok(count) = client.connection.send_stream(id).write(&[1; 10_000]) {
            written += count;
        }
        written
    };
    fill(&mut client);
    let mut stream = client.beside(accept_bi(&connection)).await;
    client.until(|client| fill(client) == 256 * 1024).await;
    let mut read = 0;
    while read < 1_000_000 {
        let bytes = client.beside(poll_fn(|context| stream.recv.poll_read(4096, context))).await.unwrap().unwrap();
        assert!(bytes.len() <= 4096);
        read += bytes.len();
        assert!(fill(&mut client) <= read + 2 * 256 * 1024, "credit follows what was read");
    }
    // And the reverse: what the client does not acknowledge fills our buffer, and no more.
    let mut taken = 0;
    while let std::task::Poll::Ready(Ok(count)) =
        stream.send.poll_write(&[2; 50_000], &mut std::task::Context::from_waker(std::task::Waker::noop()))
    {
        taken += count;
    }
    assert_eq!(taken, settings().send_buffer as usize);
}

#[tokio::test(flavor = "local")]
async fn clients_that_move_keep_their_connections_on_any_lane() {
    move_about(&Server::new(4, &settings())).await;
}

#[tokio::test(flavor = "local")]
async fn clients_that_move_keep_their_connections_where_the_kernel_does_not_steer() {
    let bound = UdpBound::bind("127.0.0.1:0".parse().unwrap(), 4).unwrap();
    let lanes = Arc::new(Lanes::new(bound.len()));
    let admit = |party: &Party, attempt| Decision::Accept(party.chooser(), attempt);
    let server = Server::on(bound, Party::new(ALPN), Some(Arc::clone(&lanes)), &settings(), admit);
    move_about(&server).await;
    assert!(lanes.take_passed() > 0, "all came to their hubs by chance");
    assert_eq!(lanes.take_passed(), 0);
}

/// Clients go on from other ports. The server has four lanes.
async fn move_about(server: &Server) {
    let mut lanes = std::collections::HashSet::new();
    for _ in 0..16 {
        let (mut client, connection) = server.connected().await;
        let before = connection.remote_address();
        tokio::task::spawn_local(echo(connection.clone()));
        assert_eq!(client.exchange(b"here").await.unwrap(), b"here");
        for _ in 0..3 {
            client.rebind();
            assert_eq!(client.exchange(&pattern(5000)).await.unwrap(), pattern(5000));
        }
        assert_ne!(before, client.local());
        assert_eq!(connection.remote_address(), before, "it is whoever shook hands");
        lanes.insert(client.server_lane(4));
    }
    assert!(lanes.len() > 1, "one lane alone would prove nothing: {lanes:?}");
}

/// A packet whose source is made up, right behind the end of the handshake, must not decide whose rules hold for the connection.
#[tokio::test(flavor = "local")]
async fn a_peer_is_who_shook_hands_whoever_seems_to_go_on() {
    let server = Server::new(1, &settings());
    let mut client = server.connect();
    client.until(|client| client.is_connected()).await;
    let own = client.local();
    // Both are there before the server reads the first.
    client.rebind();
    client.connection.ping();
    client.send().await;
    let connection = server.accepted().await;
    assert_eq!(connection.remote_address(), own);
    tokio::task::spawn_local(echo(connection));
    assert_eq!(client.exchange(b"here").await.unwrap(), b"here");
}

#[tokio::test(flavor = "local")]
async fn keys_are_updated() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    tokio::task::spawn_local(echo(connection));
    for _ in 0..5 {
        client.connection.force_key_update();
        assert_eq!(client.exchange(&pattern(9000)).await.unwrap(), pattern(9000));
    }
}

#[tokio::test(flavor = "local")]
async fn under_load_an_address_is_proved_first() {
    let busy = Settings { handshakes_before_retry: (0, 0), ..settings() };
    let server = Server::with(1, &busy, Party::new(ALPN), |party, attempt| {
        assert!(attempt.is_validated);
        Decision::Accept(party.chooser(), attempt)
    });
    let (mut client, connection) = server.connected().await;
    tokio::task::spawn_local(echo(connection));
    assert_eq!(client.exchange(b"after a Retry").await.unwrap(), b"after a Retry");
}

/// What somebody saw on another's path, or kept, proves nothing.
#[tokio::test(flavor = "local")]
async fn a_retry_token_is_good_for_one_address_and_a_while() {
    let busy = Settings { handshakes_before_retry: (0, 0), ..settings() };
    let stale = Settings { retry_lifetime: Duration::ZERO, ..busy.clone() };
    for (settings, from) in [(&busy, Some("127.0.0.2")), (&busy, Some("127.0.0.1")), (&stale, None)] {
        let server = Server::with(1, settings, Party::new(ALPN), |_, attempt| panic!("{attempt:?}"));
        let mut client = server.connect();
        client.retried().await;
        if let Some(other) = from {
            client = client.at(other).await;
        }
        client.until(|client| client.lost.is_some()).await;
        let Some(ConnectionError::ConnectionClosed(close)) = &client.lost else { panic!("{:?}", client.lost) };
        assert_eq!(close.error_code, TransportErrorCode::INVALID_TOKEN, "{from:?}");
    }
}

#[tokio::test(flavor = "local")]
async fn half_open_handshakes_of_one_address_keep_nobody_out() {
    let few = Settings { handshakes_before_retry: (4, 2), max_handshakes: (8, 6), ..settings() };
    let server = Server::new(1, &few);
    let mut silent = Vec::new();
    for count in 0..30 {
        let mut client = server.connect();
        client.half_open().await;
        assert_eq!(client.was_retried, count >= 2, "{count}");
        silent.push(client);
    }
    // Whoever comes from elsewhere finds a place without a proof, and from the same address with one.
    for (from, is_proved) in [("127.0.0.2", false), ("127.0.0.1", true)] {
        let mut client = server.connect().at(from).await;
        client.until(|client| client.is_connected()).await;
        assert_eq!(client.was_retried, is_proved, "{from}");
    }
    // From two more addresses: all places are taken, and the oldest give way.
    for from in ["127.0.0.3", "127.0.0.4"] {
        for _ in 0..10 {
            let mut client = server.connect().at(from).await;
            client.half_open().await;
            silent.push(client);
        }
    }
    let mut client = server.connect().at("127.0.0.5").await;
    client.until(|client| client.is_connected()).await;
    let gone = server
        .events
        .borrow()
        .iter()
        .filter(|event| matches!(event, Event::Failed(failure, _) if failure.cause == FailureCause::Lost(Lost::Gone)))
        .count();
    assert!(gone >= 30, "{gone} of {} gave way", silent.len());
}

#[tokio::test(flavor = "local")]
async fn nothing_is_amplified_before_an_address_is_proved() {
    let server = Server::new(1, &settings());
    let mut client = server.connect();
    client.send().await;
    let sent = client.sent;
    // Never acknowledged: the server sends again until it has spent what it may.
    client.wait_deaf(Duration::from_millis(1500)).await;
    assert!(client.received > 0 && client.received <= 3 * sent, "{} for {sent}", client.received);
}

#[tokio::test(flavor = "local")]
async fn a_forgotten_connection_is_reset() {
    let mut server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    let mut lost = std::pin::pin!(poll_fn(|context| connection.poll_lost(context)));
    assert!(std::future::poll_fn(|context| std::task::Poll::Ready(lost.as_mut().poll(context).is_pending())).await);
    server.tasks.drain(..).for_each(|task| task.abort());
    assert_eq!(lost.await, Lost::Gone);
    server.start(&settings(), |party, attempt| Decision::Accept(party.chooser(), attempt));
    // The stateless reset is shorter than what it responds to.
    client.open_all(Dir::Bi);
    client.until(|client| client.lost.is_some()).await;
    assert_eq!(client.lost, Some(ConnectionError::Reset));
}

/// What the task of a hub is told to do with it.
type Order = Box<dyn FnOnce(&mut Hub<Attempt>)>;

/// One of several processes that have the same socket.
struct Process {
    orders: UnboundedSender<Order>,
    accepted: Rc<RefCell<Vec<Connection>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Process {
    fn start(bound: &UdpBound, party: &Party, secrets: &Secrets) -> Process {
        let listener = adopted(bound, 1).listeners(0).unwrap().remove(0);
        Process::on(listener, None, party, secrets)
    }

    fn on(listener: UdpListener, lanes: Option<Arc<Lanes>>, party: &Party, secrets: &Secrets) -> Process {
        let mut hub = Hub::new(listener, party.acceptor(), secrets, settings(), lanes);
        let ((orders, mut told), accepted) = (unbounded_channel::<Order>(), Rc::<RefCell<Vec<_>>>::default());
        let (party, events) = (party.clone(), Rc::clone(&accepted));
        let task = tokio::task::spawn_local(async move {
            let mut admit = |attempt| Decision::Accept(party.chooser(), attempt);
            loop {
                tokio::select! {
                    Some(order) = told.recv() => order(&mut hub),
                    event = hub.next(&mut admit) => match event.unwrap() {
                        Event::Accepted(connection, _) => events.borrow_mut().push(connection),
                        Event::Failed(failure, _) => panic!("{failure:?}"),
                    },
                }
            }
        });
        Process { orders, accepted, task }
    }

    fn order(&self, order: impl FnOnce(&mut Hub<Attempt>) + 'static) {
        assert!(self.orders.send(Box::new(order)).is_ok());
    }

    /// Has another process read the socket in its place.
    fn hand_over(&self, newer: &Process, lanes: Option<Arc<Lanes>>) {
        let (ours, theirs) = Link::pair().unwrap();
        newer.order(|hub| hub.follow(Link::of(theirs).unwrap()));
        self.order(|hub| {
            hub.precede(Link::of(ours).unwrap(), lanes);
            hub.hand_over();
        });
    }

    /// A client whose connection is this process's.
    async fn connected(&self, bound: &UdpBound, party: &Party) -> Client {
        Process::connected_to(std::slice::from_ref(self), bound.address(), party).await
    }

    /// A client whose connection is that of one of these hubs.
    async fn connected_to(hubs: &[Process], address: SocketAddr, party: &Party) -> Client {
        let mut client = Client::new(address, party, ALPN);
        client.until(|client| client.is_connected()).await;
        let connection = client.beside(async {
            loop {
                let accepted = hubs.iter().find_map(|hub| hub.accepted.borrow_mut().pop());
                match accepted {
                    Some(connection) => return connection,
                    None => tokio::task::yield_now().await,
                }
            }
        });
        tokio::task::spawn_local(echo(connection.await));
        client
    }
}

/// The same sockets for another process, with so many workers.
fn adopted(bound: &UdpBound, workers: usize) -> UdpBound {
    let passed = bound.pass("").into_iter();
    let passed = passed.map(|one| Passed { socket: Arc::new(one.socket.try_clone().unwrap()), ..one });
    UdpBound::adopt(passed.collect(), workers).unwrap()
}

/// The newer process steers by the number of its own sockets, so that datagrams of older connections come to sockets where nobody knows them, also to such as
/// the older process does not have.
#[tokio::test(flavor = "local")]
async fn connections_outlast_one_who_takes_over_with_more_sockets() {
    let (party, secrets) = (Party::new(ALPN), Secrets::random().unwrap());
    let old = UdpBound::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    assert!(old.prepare_for_quic());
    let start = |bound: &UdpBound, lanes: Option<Arc<Lanes>>| -> Vec<Process> {
        let listeners = (0..bound.len()).map(|at| bound.listener(at).unwrap());
        listeners.map(|listener| Process::on(listener, lanes.clone(), &party, &secrets)).collect()
    };
    let older = start(&adopted(&old, 2), None);
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(Process::connected_to(&older, old.address(), &party).await);
    }
    let mut new = adopted(&old, 5);
    new.spread();
    assert!(new.len() == 5 && new.prepare_for_quic());
    let newer = start(&new, Some(Arc::new(Lanes::new(5))));
    let lanes = Arc::new(Lanes::new(2));
    older.iter().zip(&newer).for_each(|(older, newer)| older.hand_over(newer, Some(Arc::clone(&lanes))));
    newer.iter().enumerate().skip(2).for_each(|(at, hub)| hub.order(move |hub| hub.follow_by(at % 2)));
    for _ in 0..12 {
        clients.push(Process::connected_to(&newer, old.address(), &party).await);
    }
    for round in 0..2 {
        for client in &mut clients {
            assert_eq!(client.exchange(&pattern(20_000)).await.unwrap(), pattern(20_000), "round {round}");
            client.rebind();
            assert_eq!(client.exchange(b"from elsewhere").await.unwrap(), b"from elsewhere");
        }
    }
    assert!(lanes.take_passed() > 0, "all of them came to the hub of their connection by chance");
    // The end of the older process concerns none of the newer one's, and its own clients are told that they are forgotten.
    older.iter().for_each(|hub| hub.task.abort());
    for client in &mut clients[12..] {
        assert_eq!(client.exchange(b"as before").await.unwrap(), b"as before");
    }
    for client in &mut clients[..12] {
        client.open_all(Dir::Bi);
        client.until(|client| client.lost.is_some()).await;
        assert_eq!(client.lost, Some(ConnectionError::Reset));
    }
}

#[tokio::test(flavor = "local")]
async fn connections_outlast_those_who_take_over_their_socket() {
    let bound = UdpBound::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let (party, secrets) = (Party::new(ALPN), Secrets::random().unwrap());
    let mut clients = Vec::new();
    let mut processes: Vec<Process> = Vec::new();
    for _ in 0..3 {
        let newest = Process::start(&bound, &party, &secrets);
        processes.last().into_iter().for_each(|last| last.hand_over(&newest, None));
        clients.push(newest.connected(&bound, &party).await);
        processes.push(newest);
        for client in &mut clients {
            assert_eq!(client.exchange(&pattern(50_000)).await.unwrap(), pattern(50_000));
            client.rebind();
            assert_eq!(client.exchange(b"from elsewhere").await.unwrap(), b"from elsewhere");
        }
    }
    // Once the older ones have ended, nobody knows their connections.
    processes.drain(..2).for_each(|process| process.task.abort());
    let mut newest = clients.pop().unwrap();
    for client in &mut clients {
        client.open_all(Dir::Bi);
        client.until(|client| client.lost.is_some()).await;
        assert_eq!(client.lost, Some(ConnectionError::Reset));
    }
    assert_eq!(newest.exchange(b"as before").await.unwrap(), b"as before");
}

#[tokio::test(flavor = "local")]
async fn closing_is_told_both_ways() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    connection.close(0x100, b"over");
    assert_eq!((connection.lost(), connection.open_uni().is_none()), (Some(Lost::Closed), true));
    client.until(|client| client.lost.is_some()).await;
    let Some(ConnectionError::ApplicationClosed(close)) = &client.lost else { panic!("{:?}", client.lost) };
    assert_eq!((close.error_code.into_inner(), &close.reason[..]), (0x100, &b"over"[..]));

    let (mut client, connection) = server.connected().await;
    client.connection.close(std::time::Instant::now(), 0x10a_u32.into(), "".into());
    client.send().await;
    assert_eq!(poll_fn(|context| connection.poll_lost(context)).await, Lost::ByPeer(0x10a));
    assert_eq!(poll_fn(|context| connection.poll_accept_bi(context)).await.unwrap_err(), Lost::ByPeer(0x10a));

    let (mut client, connection) = server.connected().await;
    drop(connection);
    client.until(|client| client.lost.is_some()).await;
    let Some(ConnectionError::ApplicationClosed(close)) = &client.lost else { panic!("{:?}", client.lost) };
    assert_eq!(close.error_code.into_inner(), 0x10c);
}

#[tokio::test(flavor = "local")]
async fn who_is_not_admitted_is_refused() {
    let server = Server::with(1, &settings(), Party::new(ALPN), |_, _| Decision::Refuse);
    let mut client = server.connect();
    client.until(|client| client.lost.is_some()).await;
    let Some(ConnectionError::ConnectionClosed(close)) = &client.lost else { panic!("{:?}", client.lost) };
    assert_eq!(u64::from(close.error_code), 2);
    assert!(server.events.borrow().is_empty());
}

#[tokio::test(flavor = "local")]
async fn failed_handshakes_say_why() {
    let server = Server::new(1, &settings());
    let mut client = Client::new(server.bound.address(), &server.party, "other");
    client.until(|client| client.lost.is_some()).await;
    let failure = server.failed().await;
    assert_eq!(failure.remote, client.local());
    assert_eq!(failure.server_name.as_deref(), Some(NAME));
    assert_eq!(failure.cause, FailureCause::Tls(tls::Error::Peer("NO_APPLICATION_PROTOCOL".into())));
    let Some(ConnectionError::ConnectionClosed(close)) = &client.lost else { panic!("{:?}", client.lost) };
    assert_eq!(u64::from(close.error_code), 0x178);

    // A key that is elsewhere.
    let party = Party::new(ALPN).with_key_elsewhere();
    let server = Server::with(1, &settings(), party, |party, attempt| Decision::Accept(party.chooser(), attempt));
    let mut client = server.connect();
    client.until(|client| client.lost.is_some()).await;
    let failure = server.failed().await;
    assert_eq!((failure.cause, failure.server_name.as_deref()), (FailureCause::RemoteKey, Some(NAME)));

    // A client that says nothing more.
    let hasty = Settings { handshake_timeout: Duration::from_millis(100), ..settings() };
    let server = Server::new(1, &hasty);
    let mut client = server.connect();
    client.send().await;
    assert_eq!(server.failed().await.cause, FailureCause::TimedOut);
}

#[test]
fn bytes_behind_a_client_hello_are_not_of_the_next_level() {
    let party = Party::new(ALPN);
    let parameters = TransportParameters::read(Side::Server, &mut &b"\x01\x01\x0a"[..]).unwrap();
    let mut written = Vec::new();
    parameters.write(&mut written);
    let mut client = QuicSession::client(&party.connector(ALPN), &ServerName::Dns(NAME.into()), &written).unwrap();
    let door = Door { acceptor: party.acceptor(), chooser: Some(party.chooser()), outcome: Left::default() };
    let mut server = Arc::new(door).start_session(VERSION, &parameters);
    assert_eq!(server.read_handshake(&client.take(Level::Initial)), Ok(false));
    // Another CRYPTO frame of the same packet: the library has not asked for what is to be sent yet.
    let error = server.read_handshake(b"\x14").unwrap_err();
    assert_eq!(u64::from(error.code), 0x10a, "unexpected_message");
}

#[tokio::test(flavor = "local")]
async fn idle_connections_end() {
    // A handshake must not be over it, also on a busy machine.
    let brief = Settings { idle_timeout: Duration::from_secs(3), ..settings() };
    let server = Server::new(1, &brief);
    let (_client, connection) = server.connected().await;
    assert_eq!(poll_fn(|context| connection.poll_lost(context)).await, Lost::TimedOut);
}

#[tokio::test(flavor = "local")]
async fn pings_keep_a_quiet_connection_while_the_peer_is_there() {
    let brief = Settings { idle_timeout: Duration::from_secs(4), ..settings() };
    let server = Server::new(1, &brief);
    let (mut client, connection) = server.connected().await;
    assert_eq!(connection.idle_timeout(), brief.idle_timeout);
    for _ in 0..8 {
        connection.ping();
        client.beside(tokio::time::sleep(Duration::from_millis(600))).await;
    }
    assert_eq!((connection.lost(), client.lost.is_none()), (None, true));
    // Nobody is there: asking again and again does not put off the end.
    let asking = async {
        loop {
            connection.ping();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let lost = tokio::select! {
        lost = poll_fn(|context| connection.poll_lost(context)) => lost,
        () = asking => Lost::Gone,
    };
    assert_eq!(lost, Lost::TimedOut);
}

#[tokio::test(flavor = "local")]
async fn garbage_harms_nobody() {
    let server = Server::new(1, &settings());
    let (mut client, connection) = server.connected().await;
    tokio::task::spawn_local(echo(connection));
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = 1_u32;
    for length in [0, 1, 5, 20, 21, 50, 1200, 1452, 3000] {
        for first in [0x00, 0x40, 0x7f, 0x80, 0xc0, 0xc3, 0xd0, 0xe0, 0xf0, 0xff] {
            let mut bytes: Vec<u8> = (0..length)
                .map(|_| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (random >> 24) as u8
                })
                .collect();
            // Of version 1, with ids of eight bytes.
            for (at, byte) in [first, 0, 0, 0, 1, 8].into_iter().enumerate().take(length) {
                bytes[at] = byte;
            }
            stranger.send_to(&bytes, server.bound.address()).unwrap();
        }
    }
    assert_eq!(client.exchange(&pattern(5000)).await.unwrap(), pattern(5000));
    assert!(server.events.borrow().is_empty(), "strangers leave no events");
}
