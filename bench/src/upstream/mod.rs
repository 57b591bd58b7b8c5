//! A small real HTTP/1.1 upstream for the bench, the demo and tests: one thread, keep-alive, pipelining, TCP or a Unix socket.
//!
//! Fast enough not to be what is measured. A PROXY header (version 1) ahead of the first request is skipped. Lenient where a server may be: what it is sent comes through a proxy that is the strict one.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` or `/small` | 100 bytes |
//! | `GET /bytes/N` | N bytes |
//! | `POST /sink` | the number of body bytes |
//! | `POST /test/signup` | 20 bytes of JSON |
//! | `POST /echo` | the body, with its type |
//! | `/headers` | method, target and fields as JSON |
//! | `/unavailable` | 503 |
//! | `/slow?ms=N` | 100 bytes, N ms later |
//! | `/websocket` with a key | a WebSocket that sends back what it is sent |
//!
//! At `udp:ADDRESS` each datagram is sent back.

mod response;
mod websocket;
mod intake;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, ToSocketAddrs, UdpSocket, UnixListener};

use crate::shared_read::read_shared;
use intake::Intake;
use response::Responses;

/// Options of `bench upstream`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen: `127.0.0.1:0`, `[::1]:8000`, `udp:127.0.0.1:0` or `unix:/path`; may be given several times.
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: Vec<String>,
}

/// Runs until it is ended. Prints `listening on ADDRESS` for each address once it is bound.
///
/// # Errors
/// An address cannot be bound.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        for address in &options.listen {
            match address.strip_prefix("unix:") {
                Some(path) => listen_unix(PathBuf::from(path))?,
                None => println!("listening on {}", listen(address).await?),
            }
        }
        std::future::pending().await
    })
}

/// Serves at an address of TCP or, with `udp:` before it, of UDP, on tasks of this thread; gives the address.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn listen(address: &str) -> io::Result<SocketAddr> {
    match address.strip_prefix("udp:") {
        Some(address) => listen_udp(address).await,
        None => listen_tcp(address).await,
    }
}

async fn listen_tcp(address: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::task::spawn_local(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    tokio::task::spawn_local(serve(stream));
                }
                Err(error) => accept_failed(&error).await,
            }
        }
    });
    Ok(bound)
}

async fn listen_udp(address: &str) -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind(address).await?;
    let bound = socket.local_addr()?;
    tokio::task::spawn_local(async move {
        let mut datagram = vec![0; 65_536];
        loop {
            // An ICMP error of a client that has gone concerns nobody else.
            if let Ok((length, client)) = socket.recv_from(&mut datagram).await {
                let _ = socket.send_to(&datagram[..length], client).await;
            }
        }
    });
    Ok(bound)
}

fn listen_unix(path: PathBuf) -> io::Result<()> {
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    println!("listening on unix:{}", path.display());
    tokio::task::spawn_local(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::task::spawn_local(serve(stream))),
                Err(error) => accept_failed(&error).await,
            }
        }
    });
    Ok(())
}

/// Mostly out of descriptors: wait for some to come back.
async fn accept_failed(error: &io::Error) {
    eprintln!("accept: {error}");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// One connection, until either side ends it. Errors end it silently: who sent the request will notice.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut intake = Intake::default();
    let mut responses = Responses::default();
    loop {
        let fed = read_shared(&mut stream, |bytes| !bytes.is_empty() && intake.feed(bytes, &mut responses)).await;
        let go_on = fed.unwrap_or(false);
        if let Some(delay) = responses.delay.take() {
            tokio::time::sleep(delay).await;
        }
        if send(&mut stream, &mut responses).await.is_err() || !go_on {
            return;
        }
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, responses: &mut Responses) -> io::Result<()> {
    stream.write_all(&responses.bytes).await?;
    responses.bytes.clear();
    while responses.filler > 0 {
        let part = response::filler(responses.filler);
        stream.write_all(part).await?;
        responses.filler -= part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use tokio::io::AsyncReadExt;

    /// What the upstream answers to these bytes, sent whole and then byte by byte; both must be the same.
    fn exchange(request: &[u8]) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = |step: usize| {
            runtime.block_on(async {
                let (mut client, server) = tokio::io::duplex(1 << 20);
                let talk = async move {
                    for part in request.chunks(step) {
                        // It may have closed before it was sent everything.
                        if client.write_all(part).await.is_err() {
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                    let _ = client.shutdown().await;
                    let mut response = Vec::new();
                    client.read_to_end(&mut response).await.unwrap();
                    String::from_utf8(response).unwrap()
                };
                tokio::join!(serve(server), talk).1
            })
        };
        let whole = ask(request.len());
        assert_eq!(whole, ask(1), "bytes that come singly mean the same");
        whole
    }

    fn body(response: &str) -> &str {
        response.split_once("\r\n\r\n").unwrap().1
    }

    #[test]
    fn each_path_responds_as_documented() {
        assert_eq!(body(&exchange(b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n")).len(), 100);
        assert_eq!(body(&exchange(b"GET /bytes/200000 HTTP/1.1\r\nHost: a\r\n\r\n")).len(), 200_000);
        assert_eq!(body(&exchange(b"POST /sink HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde")), "5");
        let chunked = b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: u\r\n\r\n";
        assert_eq!(body(&exchange(chunked)), "abc0123456789");
        let headers = exchange(b"GET /headers?q HTTP/1.1\r\nHost: a\r\nX-Y: \"z\"\r\n\r\n");
        assert!(body(&headers).contains(r#""target":"/headers?q""#), "{headers}");
        assert!(body(&headers).contains(r#"["X-Y","\"z\""]"#), "{headers}");
        assert_eq!(body(&exchange(b"GET /slow?ms=1 HTTP/1.1\r\nHost: a\r\n\r\n")).len(), 100);
        assert!(exchange(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(exchange(b"nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert_eq!(body(&exchange(b"HEAD /small HTTP/1.1\r\nHost: a\r\n\r\n")), "");
        let key = b"GET /websocket HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nmessages";
        assert_eq!(body(&exchange(key)), "messages");
        let expecting = exchange(b"POST /sink HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab");
        assert!(expecting.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 "), "{expecting}");
    }

    #[test]
    fn pipelined_requests_are_answered_in_order_and_close_closes() {
        let two = exchange(
            b"POST /sink HTTP/1.1\r\nContent-Length: 1\r\n\r\nxPOST /sink HTTP/1.1\r\nContent-Length: 2\r\n\r\nxy",
        );
        assert_eq!(two.matches("HTTP/1.1 200 ").count(), 2);
        assert!(two.find("\r\n\r\n1").unwrap() < two.find("\r\n\r\n2").unwrap(), "{two}");
        let closed = exchange(b"GET /small HTTP/1.1\r\nConnection: close\r\n\r\nGET /small HTTP/1.1\r\n\r\n");
        assert_eq!(closed.matches("HTTP/1.1 200 ").count(), 1);
        assert!(closed.contains("Connection: close\r\n"));
    }
}
