//! Datagrams over loopback: boundaries, source addresses, empty ones, and what the network tells of closed ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use net::udp::{Batch, Mailer, Outgoing, Sent};
use net::{Poller, Source, UdpBound, UdpFlow};

fn server(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// An address where nobody has ever listened, and the socket that keeps others away from its port. Closing a socket would not do: a process that
/// another test has just forked holds a copy until it runs its program.
fn vacant() -> (SocketAddr, UdpSocket) {
    let held = server("127.0.0.1:0");
    let address = (Ipv4Addr::new(127, 0, 0, 2), held.local_addr().unwrap().port()).into();
    (address, held)
}

/// The keys that have news; a minute without any fails.
async fn news(poller: &Poller) -> Vec<u64> {
    let mut keys = Vec::new();
    within(poller.ready(&mut keys)).await.unwrap();
    keys
}

/// What becomes of it within a minute; longer fails.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it does not end")
}

fn plain(payload: &[u8]) -> Outgoing<'_> {
    Outgoing { head: &[], payload, to: None, from: None, ecn: 0 }
}

#[test]
fn boundaries_are_kept_however_datagrams_are_joined() {
    let server = server("127.0.0.1:0");
    let flow = UdpFlow::connect(server.local_addr().unwrap(), Source::OWN).unwrap();
    assert!(flow.port_kept());
    let payloads: Vec<Vec<u8>> =
        [8, 8, 8, 3, 8, 0, 0, 8, 1400, 1400, 7].iter().enumerate().map(|(i, &length)| vec![i as u8; length]).collect();
    let mut datagrams: Vec<Outgoing<'_>> = payloads.iter().map(|payload| plain(payload)).collect();
    datagrams.push(Outgoing { head: b"head", payload: b"payload", to: None, from: None, ecn: 0 });
    let expected = Sent { sent: datagrams.len(), ..Sent::default() };
    assert_eq!(Mailer::new().send(flow.as_fd(), &datagrams), expected);
    let mut buffer = [0; 2000];
    for payload in &payloads {
        let length = server.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], payload);
    }
    let length = server.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"headpayload");
}

#[tokio::test(flavor = "local")]
async fn more_than_fits_into_one_call_arrives_in_order() {
    let bound = UdpBound::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let listener = bound.listeners(0).unwrap().remove(0);
    let flow = UdpFlow::connect(bound.address(), Source::OWN).unwrap();
    let payloads: Vec<[u8; 4]> = (0..500_u32).map(u32::to_be_bytes).collect();
    let datagrams: Vec<Outgoing<'_>> = payloads.iter().map(|payload| plain(payload)).collect();
    assert_eq!(Mailer::new().send(flow.as_fd(), &datagrams).sent, 500);
    let (mut batch, mut seen) = (Batch::new(), Vec::new());
    while seen.len() < 500 {
        within(listener.receive(&mut batch)).await.unwrap();
        for piece in (0..batch.len()).map(|index| batch.get(index)) {
            assert_eq!((piece.from, piece.to), (flow.local(), None));
            seen.extend(piece.datagrams().map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap())));
        }
    }
    assert!(seen.iter().copied().eq(0..500));
}

#[tokio::test(flavor = "local")]
async fn responses_leave_from_the_address_that_was_asked() {
    for (wildcard, asked) in
        [("0.0.0.0:0", IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))), ("[::]:0", IpAddr::V6(Ipv6Addr::LOCALHOST))]
    {
        let bound = UdpBound::bind(wildcard.parse().unwrap(), 2).unwrap();
        let target = SocketAddr::new(asked, bound.address().port());
        let client = server(if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" });
        client.connect(target).unwrap();
        client.send(b"?").unwrap();
        let (first, second) = (bound.listeners(0).unwrap().remove(0), bound.listeners(1).unwrap().remove(0));
        let (mut batch, mut other) = (Batch::new(), Batch::new());
        let listener = tokio::select! {
            received = within(first.receive(&mut batch)) => { received.unwrap(); &first }
            received = second.receive(&mut other) => { received.unwrap(); std::mem::swap(&mut batch, &mut other); &second }
        };
        let piece = batch.get(0);
        assert_eq!((piece.bytes, piece.to.map(|to| to.ip)), (b"?".as_slice(), Some(asked)));
        let response = Outgoing { head: &[], payload: b"!", to: piece.from, from: piece.to, ecn: 0 };
        assert_eq!(Mailer::new().send(listener.as_fd(), &[response]).sent, 1);
        // Connected, so that only what comes from `target` is received.
        assert_eq!(client.recv(&mut [0; 8]).unwrap(), 1);
    }
}

#[tokio::test(flavor = "local")]
async fn a_closed_port_costs_no_datagram_that_comes_after_it_opened() {
    let (address, _held) = vacant();
    let flow = UdpFlow::connect(address, Source::OWN).unwrap();
    let poller = Poller::new().unwrap();
    poller.add(flow.as_fd(), 7).unwrap();
    let mut mailer = Mailer::new();
    assert_eq!(mailer.send(flow.as_fd(), &[plain(b"lost")]).sent, 1);
    // The rejection is news; reading takes it off.
    let mut batch = Batch::new();
    assert_eq!(news(&poller).await, [7]);
    let rejected = flow.receive(&mut batch, 4).unwrap_err();
    assert_eq!(rejected.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(flow.receive(&mut batch, 4).unwrap(), 0);
    // One that nobody read does not cost the next datagram.
    assert_eq!(mailer.send(flow.as_fd(), &[plain(b"lost")]).sent, 1);
    let server = server(&address.to_string());
    assert_eq!(mailer.send(flow.as_fd(), &[plain(b"here")]), Sent { sent: 1, ..Sent::default() });
    let (length, from) = server.recv_from(&mut [0; 8]).unwrap();
    assert_eq!((length, Some(from)), (4, flow.local()));
    server.send_to(b"", from).unwrap();
    assert_eq!(news(&poller).await, [7]);
    assert_eq!(flow.receive(&mut batch, 4).unwrap(), 1);
    assert_eq!(batch.get(0).datagrams().collect::<Vec<_>>(), [b"".as_slice()]);
}

/// What the network says ends the call before anything else is sent to somebody who is not there, of whatever lengths the datagrams are.
#[tokio::test(flavor = "local")]
async fn a_refusal_can_stop_what_would_be_lost() {
    let (gone, _held) = vacant();
    let flow = UdpFlow::connect(gone, Source::OWN).unwrap();
    let poller = Poller::new().unwrap();
    poller.add(flow.as_fd(), 7).unwrap();
    let mut mailer = Mailer::new();
    assert_eq!(mailer.send_unless_refused(flow.as_fd(), &[plain(b"lost")]).sent, 1);
    assert_eq!(news(&poller).await, [7]);
    let rest = [plain(b"1"), plain(b"22"), plain(b"333"), plain(b"333")];
    assert_eq!(mailer.send_unless_refused(flow.as_fd(), &rest), Sent { sent: 0, lost: 0, is_refused: true });
    // The same socket, towards somebody who is there.
    let server = server("127.0.0.1:0");
    flow.turn_to(server.local_addr().unwrap()).unwrap();
    assert_eq!(mailer.send_unless_refused(flow.as_fd(), &rest), Sent { sent: 4, ..Sent::default() });
    for expected in rest {
        let mut bytes = [0; 8];
        let (length, from) = server.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..length], Some(from)), (expected.payload, flow.local()));
    }
}

#[test]
fn a_taken_address_is_reported() {
    let taken = server("127.0.0.1:0");
    assert!(UdpBound::bind(taken.local_addr().unwrap(), 2).is_err());
    let flow = UdpFlow::connect("127.0.0.1:9".parse().unwrap(), Source { address: "[::1]:0".parse().ok(), mark: 0 });
    assert_eq!(flow.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "local")]
async fn marks_of_congestion_go_both_ways() {
    for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
        let (one, other) = (
            UdpBound::bind(address.parse().unwrap(), 1).unwrap(),
            UdpBound::bind(address.parse().unwrap(), 1).unwrap(),
        );
        other.prepare_for_quic();
        let (from, to) = (one.listeners(0).unwrap().remove(0), other.listeners(0).unwrap().remove(0));
        let target = match other.address() {
            any if any.ip().is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), any.port()),
            address => address,
        };
        let marked = |ecn| Outgoing { to: Some(target), ecn, ..plain(b"marked") };
        let datagrams = [marked(2), marked(2), marked(1), marked(0), marked(3)];
        assert_eq!(Mailer::new().send(from.as_fd(), &datagrams).sent, 5);
        let (mut batch, mut seen) = (Batch::new(), Vec::new());
        while seen.len() < 5 {
            within(to.receive(&mut batch)).await.unwrap();
            for piece in (0..batch.len()).map(|index| batch.get(index)) {
                seen.extend(piece.datagrams().map(|_| piece.ecn));
            }
        }
        assert_eq!(seen, [2, 2, 1, 0, 3], "{address}");
    }
}

#[tokio::test(flavor = "local")]
async fn a_connection_id_leads_to_the_socket_that_it_names() {
    let bound = UdpBound::bind("127.0.0.1:0".parse().unwrap(), 4).unwrap();
    assert!(bound.prepare_for_quic());
    let listeners: Vec<_> = (0..4).map(|worker| bound.listeners(worker).unwrap().remove(0)).collect();
    let lanes: Vec<_> = listeners.iter().map(net::UdpListener::lane).collect();
    assert_eq!(lanes, [(0, 4), (1, 4), (2, 4), (3, 4)]);
    let short = |first: u8| [&[0x40, first][..], &[7; 30]].concat();
    let handshake = |first: u8| [&[0xe0, 0, 0, 0, 1, 9, first][..], &[7; 30]].concat();
    for round in 0..20_u8 {
        // Each from a port of its own: by addresses alone they would be scattered.
        let client = server("127.0.0.1:0");
        for packet in [short(round), handshake(round)] {
            client.send_to(&packet, bound.address()).unwrap();
            let mut batch = Batch::new();
            within(listeners[usize::from(round) % 4].receive(&mut batch)).await.unwrap();
            assert_eq!(batch.get(0).bytes, packet);
        }
    }
    // An id of the client's choice: whatever socket it comes to, it is the same for all packets of one address.
    let client = server("127.0.0.1:0");
    let mut lane = None;
    for first in 0..16_u8 {
        client.send_to(&[&[0xc0, 0, 0, 0, 1, 9, first][..], &[7; 30]].concat(), bound.address()).unwrap();
        let mut batches: Vec<Batch> = (0..4).map(|_| Batch::new()).collect();
        let [one, two, three, four] = batches.as_mut_slice() else { unreachable!() };
        let came = tokio::select! {
            _ = within(listeners[0].receive(one)) => 0,
            _ = listeners[1].receive(two) => 1,
            _ = listeners[2].receive(three) => 2,
            _ = listeners[3].receive(four) => 3,
        };
        assert_eq!(*lane.get_or_insert(came), came);
    }
}
