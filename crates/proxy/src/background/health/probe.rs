//! What one check asks over HTTP/1.1, HTTP/2 and gRPC, or by a datagram, and whether the answer is that of a healthy server. Whatever is odd is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use bytes::{BufMut as _, Bytes, BytesMut};
use config::{CheckStep, Expected, HealthMethod, HttpProbe};
use h2::RecvStream;
use h2::client::SendRequest;
use http::{Request, Response};
use tokio::net::UdpSocket;
use transport::Transport;
use wire::http::Method;

use crate::own_request::{Asked, send};
use crate::upstream::h2::open;
use crate::upstream::{Group, Server, own_header};

/// What checks call themselves in User-Agent.
const AGENT: &str = "portunus-health";

/// What is read of a response's body.
const BODY_BYTES: usize = 64 * 1024;

/// What is read of a datagram.
const DATAGRAM_BYTES: usize = 64 * 1024;

/// What is read of what a server says on a connection, after the last that was sent.
const SAID_BYTES: usize = 16 * 1024;

/// What is read of a message of gRPC; that of a check has four bytes.
const MESSAGE_BYTES: usize = 1024;

fn method(method: HealthMethod) -> Method {
    match method {
        HealthMethod::Get => Method::Get,
        HealthMethod::Head => Method::Head,
        HealthMethod::Options => Method::Options,
    }
}

fn is_expected(probe: &HttpProbe, status: u16) -> bool {
    probe.statuses.iter().any(|(from, to)| (*from..=*to).contains(&status))
}

/// Whether a body holds the text.
fn holds(body: &[u8], text: &str) -> Option<()> {
    memchr::memmem::find(body.get(..BODY_BYTES).unwrap_or(body), text.as_bytes()).map(|_| ())
}

/// Asks over HTTP/1.1.
pub(super) async fn http1(transport: &Transport, host: &str, probe: &HttpProbe) -> Option<()> {
    let mut fields = format!("User-Agent: {AGENT}\r\n");
    for (name, value) in &probe.headers {
        fields.extend([name, ": ", value, "\r\n"]);
    }
    let asked = Asked { method: &method(probe.method), host, target: &probe.path, fields: &fields, body: None };
    let got = send(transport, asked).await.ok()?;
    if !is_expected(probe, got.status()) {
        return None;
    }
    let Some(text) = &probe.body else { return Some(()) };
    holds(&got.start_of_body(BODY_BYTES).await.ok()?, text)
}

/// Asks over HTTP/2. `place`: scheme and authority.
pub(super) async fn http2(transport: Transport, place: (&str, &str), probe: &HttpProbe) -> Option<()> {
    let mut request = request(place, &probe.path)?.method(method(probe.method).as_str());
    for (name, value) in &probe.headers {
        request = request.header(name, value);
    }
    let request = request.body(()).ok()?;
    on_connection(transport, async |sender| {
        let response = sender.send_request(request, true).ok()?.0.await.ok()?;
        if !is_expected(probe, response.status().as_u16()) {
            return None;
        }
        let Some(text) = &probe.body else { return Some(()) };
        holds(&start_of(response.into_body(), BODY_BYTES).await?.0, text)
    })
    .await
}

/// Asks as `grpc.health.v1.Health/Check` (`doc/health-checking.md` of gRPC).
pub(super) async fn grpc(transport: Transport, place: (&str, &str), service: &str) -> Option<()> {
    let request = request(place, "/grpc.health.v1.Health/Check")?.method("POST");
    let request = request.header("content-type", "application/grpc").header("te", "trailers").body(()).ok()?;
    let message = check_request(service)?;
    on_connection(transport, async |sender| {
        let (response, mut stream) = sender.send_request(request, false).ok()?;
        stream.send_data(message, true).ok()?;
        let response: Response<RecvStream> = response.await.ok()?;
        let (head, body) = response.into_parts();
        let is_grpc =
            head.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if head.status.as_u16() != 200 || !is_grpc {
            return None;
        }
        let (message, mut body) = start_of(body, MESSAGE_BYTES).await?;
        let trailers = body.trailers().await.ok()??;
        let is_ok = trailers.get("grpc-status").is_some_and(|status| status == "0");
        (is_ok && is_serving(&message)).then_some(())
    })
    .await
}

/// Sends a datagram behind the PROXY header of the group, if there is one; the first response decides. `what`: what is sent, and what the response
/// contains.
pub(super) async fn datagram(
    (group, server): (&Group, &Server),
    port: Option<u16>,
    what: (&[u8], Option<&Expected>),
) -> Option<()> {
    let mut address = server.socket_address()?;
    address.set_port(port.unwrap_or(address.port()));
    let own: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((own, 0)).await.ok()?;
    // From then on nobody else's datagrams are received, and what the network says of ours is.
    socket.connect(address).await.ok()?;
    let (send, expect) = what;
    socket.send(&[&own_header(group.config.send_proxy)[..], send].concat()).await.ok()?;
    let mut response = vec![0; DATAGRAM_BYTES];
    let length = socket.recv(&mut response).await.ok()?;
    match expect {
        Some(expect) => is_in(expect, response.get(..length)?).then_some(()),
        None => Some(()),
    }
}

fn is_in(expected: &Expected, said: &[u8]) -> bool {
    match expected {
        Expected::Bytes(bytes) => memchr::memmem::find(said, bytes).is_some(),
        Expected::Matching(expression) => expression.matches(said),
    }
}

/// Says on a connection what the steps say, and waits for each answer in what has come since the last that was sent.
pub(super) async fn exchange(transport: &Transport, steps: &[CheckStep]) -> Option<()> {
    let mut said = Vec::new();
    for step in steps {
        if !step.send.is_empty() {
            said.clear();
            transport.send(&step.send).await.ok()?;
        }
        let Some(expected) = &step.expect else { continue };
        while said.is_empty() || !is_in(expected, &said) {
            if said.len() >= SAID_BYTES {
                return None;
            }
            let piece = transport.recv().await.ok().filter(|piece| !piece.is_empty())?;
            said.extend_from_slice(piece.get(..SAID_BYTES - said.len()).unwrap_or(&piece));
        }
    }
    Some(())
}

fn request((scheme, authority): (&str, &str), target: &str) -> Option<http::request::Builder> {
    let uri = http::Uri::builder().scheme(scheme).authority(authority).path_and_query(target).build().ok()?;
    Some(Request::builder().uri(uri).header("user-agent", AGENT))
}

/// Opens HTTP/2 and asks; if the connection ends first, there is no answer.
async fn on_connection(
    transport: Transport,
    asking: impl AsyncFnOnce(&mut SendRequest<Bytes>) -> Option<()>,
) -> Option<()> {
    let (sender, connection, _) = open(Rc::new(transport)).await.ok()?;
    let asking = async {
        let mut sender = sender.ready().await.ok()?;
        asking(&mut sender).await
    };
    tokio::select! {
        biased;
        outcome = asking => outcome,
        // The connection moves the frames.
        _ = connection => None,
    }
}

/// The beginning of a body, about so many bytes of it, and what is left.
async fn start_of(mut body: RecvStream, bytes: usize) -> Option<(Vec<u8>, RecvStream)> {
    let mut start = Vec::new();
    while start.len() < bytes {
        let Some(piece) = body.data().await else { break };
        let piece = piece.ok()?;
        body.flow_control().release_capacity(piece.len()).ok()?;
        start.extend_from_slice(&piece);
    }
    Some((start, body))
}

/// A `HealthCheckRequest { string service = 1 }` with the prefix of a message.
fn check_request(service: &str) -> Option<Bytes> {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(1 << 3 | 2);
        let mut length = service.len();
        while length >= 0x80 {
            message.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.put_u8(length as u8);
        message.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).ok()?);
    framed.put_slice(&message);
    Some(framed.freeze())
}

/// Whether this is one message, a `HealthCheckResponse { ServingStatus status = 1 }` that says `SERVING` (1) and nothing else.
fn is_serving(message: &[u8]) -> bool {
    message == [0, 0, 0, 0, 2, 1 << 3, 1]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn messages_of_grpc_are_as_protobuf_has_them() {
        assert_eq!(check_request("").unwrap().as_ref(), [0, 0, 0, 0, 0]);
        assert_eq!(check_request("a.B").unwrap().as_ref(), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
        let long = check_request(&"x".repeat(200)).unwrap();
        assert_eq!(long[..8], [0, 0, 0, 0, 203, 0x0a, 0xc8, 0x01]);
        for (message, expected) in [
            (&[0, 0, 0, 0, 2, 8, 1][..], true),
            // NOT_SERVING, UNKNOWN, which is the default and not written, SERVICE_UNKNOWN.
            (&[0, 0, 0, 0, 2, 8, 2], false),
            (&[0, 0, 0, 0, 0], false),
            (&[0, 0, 0, 0, 2, 8, 3], false),
            // Compressed, cut short, two messages.
            (&[1, 0, 0, 0, 2, 8, 1], false),
            (&[0, 0, 0, 0, 2, 8], false),
            (&[0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 0], false),
            (&[], false),
        ] {
            assert_eq!(is_serving(message), expected, "{message:?}");
        }
    }

    #[test]
    fn statuses_and_bodies_are_as_the_check_expects() {
        let probe = HttpProbe {
            path: "/".into(),
            host: None,
            method: HealthMethod::Get,
            headers: Vec::new(),
            statuses: vec![(200, 204), (301, 301)],
            body: None,
        };
        for (status, expected) in [(199, false), (200, true), (204, true), (205, false), (301, true), (503, false)] {
            assert_eq!(is_expected(&probe, status), expected, "{status}");
        }
        assert!(holds(b"all is well", "is w").is_some() && holds(b"all is well", "ill!").is_none());
        let late = [vec![b' '; BODY_BYTES], b"late".to_vec()].concat();
        assert!(holds(&late, "late").is_none());
    }
}
