//! One HTTP/1.1 connection of a thread that may wait, in the clear or under TLS, to a server whose responses are bounded and strictly read.
//!
//! Every call has an end in time and a flag that ends it sooner. Knows nothing of what is said.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use config::EtcdEndpoint;
use tls::{Connector, ServerName, Session};
use transport::blocking::Sealed;
use wire::http::chunked::{ChunkEvent, ChunkedDecoder};
use wire::http::http1::{Parsed, parse_response};
use wire::http::{BodyFraming, HeadLimits, Method, ResponseHead};

/// To connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a call may wait before it looks whether to go on.
const SLICE: Duration = Duration::from_millis(100);

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// What is read of a response's head.
const HEAD_LIMITS: HeadLimits = HeadLimits { head_bytes: 16 * 1024, request_line_bytes: 8 * 1024, fields: 100 };

/// How long something may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub(crate) until: Instant,
    /// Set when the thread is to end.
    pub(crate) stop: &'a AtomicBool,
}

impl Patience<'_> {
    fn goes_on(&self) -> bool {
        Instant::now() < self.until && !self.stop.load(Ordering::Relaxed)
    }
}

/// A connection; what was received and not taken yet is kept.
#[derive(Debug)]
pub(crate) struct Link {
    socket: TcpStream,
    tls: Option<Box<Sealed>>,
    authority: String,
    input: Vec<u8>,
}

impl Link {
    /// Connects to the first address of a server that can be connected to.
    ///
    /// # Errors
    /// None can, the peers do not agree on TLS, or the time is over.
    pub(crate) fn open(
        place: &EtcdEndpoint,
        connector: Option<&Connector>,
        patience: Patience<'_>,
    ) -> io::Result<Link> {
        let mut failed = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in (place.host.as_str(), place.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(socket) => return Link::over(socket, place, connector, patience),
                Err(error) => failed = error,
            }
            if !patience.goes_on() {
                break;
            }
        }
        Err(failed)
    }

    fn over(
        socket: TcpStream,
        place: &EtcdEndpoint,
        connector: Option<&Connector>,
        patience: Patience<'_>,
    ) -> io::Result<Link> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SLICE))?;
        socket.set_write_timeout(Some(SLICE))?;
        let tls = match connector {
            None => None,
            Some(connector) => {
                let name = place.host.parse().map_or_else(|_| ServerName::Dns(place.host.clone()), ServerName::Ip);
                let session = Session::client(connector, &name).map_err(io::Error::other)?;
                Some(Box::new(Sealed::open(session, &mut Patient { socket: &socket, patience })?))
            }
        };
        Ok(Link { socket, tls, authority: place.authority(), input: Vec::new() })
    }

    /// Posts JSON.
    ///
    /// # Errors
    /// The connection is broken, or the time is over.
    pub(crate) fn post(&mut self, path: &str, body: &str, patience: Patience<'_>) -> io::Result<()> {
        let Link { authority, .. } = self;
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: portunus/{}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            env!("CARGO_PKG_VERSION")
        );
        let mut socket = Patient { socket: &self.socket, patience };
        match &mut self.tls {
            Some(sealed) => sealed.write(&mut socket, request.as_bytes()),
            None => socket.write_all(request.as_bytes()),
        }
    }

    /// Reads the head of a response.
    ///
    /// # Errors
    /// The connection ended, what came is no response within bounds, or the time is over.
    pub(crate) fn head(&mut self, patience: Patience<'_>) -> io::Result<(ResponseHead, Body)> {
        let mut head = ResponseHead::default();
        loop {
            match parse_response(&self.input, &HEAD_LIMITS, &Method::Post, &mut head) {
                Err(error) => return Err(invalid(error.reason.code())),
                Ok(Parsed::Complete { head_len }) => {
                    self.input.drain(..head_len);
                    // Interim responses say nothing yet.
                    if head.status >= 200 {
                        let body = Body::of(head.framing);
                        return Ok((head, body));
                    }
                }
                Ok(Parsed::Partial) => {
                    if self.receive(patience)? == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }

    /// Appends the next bytes of a body; false at its end.
    ///
    /// # Errors
    /// The connection ended within it, its framing is broken, or the time is over.
    pub(crate) fn piece(&mut self, body: &mut Body, into: &mut Vec<u8>, patience: Patience<'_>) -> io::Result<bool> {
        loop {
            match body.take(&mut self.input, into)? {
                Taken::Some => return Ok(true),
                Taken::End => return Ok(false),
                Taken::NeedMore => {}
            }
            if self.receive(patience)? == 0 {
                // A body that ends with its connection could have been cut; none of those that are asked here does.
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether nothing came that nobody asked for: such bytes would be taken for the next response (RFC 9112 §6.3).
    pub(crate) fn is_free(&self, head: &ResponseHead) -> bool {
        head.keep_alive && self.input.is_empty()
    }

    fn receive(&mut self, patience: Patience<'_>) -> io::Result<usize> {
        let mut bytes = [0; READ_BYTES];
        let mut socket = Patient { socket: &self.socket, patience };
        let length = match &mut self.tls {
            Some(sealed) => sealed.read(&mut socket, &mut bytes)?,
            None => socket.read(&mut bytes)?,
        };
        self.input.extend_from_slice(bytes.get(..length).unwrap_or_default());
        Ok(length)
    }
}

/// How much of a body is still to come.
#[derive(Debug)]
pub(crate) enum Body {
    Length(u64),
    Chunked(ChunkedDecoder),
    /// It has no end that could be seen.
    Unbounded,
}

#[derive(Debug, PartialEq, Eq)]
enum Taken {
    NeedMore,
    Some,
    End,
}

impl Body {
    fn of(framing: BodyFraming) -> Body {
        match framing {
            BodyFraming::None => Body::Length(0),
            BodyFraming::Length(length) => Body::Length(length),
            BodyFraming::Chunked => Body::Chunked(ChunkedDecoder::for_response()),
            BodyFraming::UntilClose => Body::Unbounded,
        }
    }

    fn take(&mut self, input: &mut Vec<u8>, into: &mut Vec<u8>) -> io::Result<Taken> {
        match self {
            Body::Unbounded => Err(invalid("the response has neither a length nor chunks")),
            Body::Length(0) => Ok(Taken::End),
            Body::Length(_) if input.is_empty() => Ok(Taken::NeedMore),
            Body::Length(rest) => {
                let length = usize::try_from(*rest).map_or(input.len(), |rest| rest.min(input.len()));
                into.extend(input.drain(..length));
                *rest -= length as u64;
                Ok(Taken::Some)
            }
            Body::Chunked(decoder) => match decoder.step(input).map_err(|error| invalid(error.reason.code()))? {
                ChunkEvent::NeedMore => {
                    input.clear();
                    Ok(Taken::NeedMore)
                }
                ChunkEvent::Data { offset, len, consumed } => {
                    into.extend_from_slice(input.get(offset..offset + len).unwrap_or_default());
                    input.drain(..consumed);
                    Ok(Taken::Some)
                }
                ChunkEvent::End { consumed } => {
                    input.drain(..consumed);
                    Ok(Taken::End)
                }
            },
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

/// A socket on which a call goes on until the time is over; then it is `TimedOut`.
struct Patient<'a> {
    socket: &'a TcpStream,
    patience: Patience<'a>,
}

impl Patient<'_> {
    fn wait(&mut self, mut act: impl FnMut(&TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match act(self.socket) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
                {
                    if !self.patience.goes_on() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                done => return done,
            }
        }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait(|mut socket| socket.read(into))
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|mut socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::net::TcpListener;

    /// What is read of a response that a server sends byte for byte as given, then closing.
    fn read(response: &'static [u8], max: usize) -> io::Result<(u16, Vec<u8>)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place =
            EtcdEndpoint { is_tls: false, host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).unwrap() > 0);
            // The client may have seen enough.
            let _ = stream.write_all(response);
        });
        let stop = AtomicBool::new(false);
        let patience = Patience { until: Instant::now() + Duration::from_secs(20), stop: &stop };
        let read = || {
            let mut link = Link::open(&place, None, patience)?;
            link.post("/v3/kv/range", "{}", patience)?;
            let (head, mut body) = link.head(patience)?;
            let mut bytes = Vec::new();
            while bytes.len() < max && link.piece(&mut body, &mut bytes, patience)? {}
            Ok((head.status, bytes))
        };
        let read = read();
        server.join().unwrap();
        read
    }

    #[test]
    fn responses_are_whole_or_errors() {
        type Row = (&'static [u8], Result<(u16, &'static [u8]), ErrorKind>);
        let rows: [Row; 9] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Ok((200, b"{}"))),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", Ok((200, b"{}"))),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Ok((404, b""))),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", Err(ErrorKind::UnexpectedEof)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{", Err(ErrorKind::UnexpectedEof)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", Err(ErrorKind::InvalidData)),
            (b"HTTP/1.1 200 OK\r\n\r\n{}", Err(ErrorKind::InvalidData)),
            (b"", Err(ErrorKind::UnexpectedEof)),
            (b"SSH-2.0-x\r\n", Err(ErrorKind::InvalidData)),
        ];
        for (response, expected) in rows {
            let expected = expected.map(|(status, body)| (status, body.to_vec()));
            let found = read(response, 1024).map_err(|error| error.kind());
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(response));
        }
    }

    #[test]
    fn nobody_is_waited_for_beyond_the_time_or_the_flag() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place =
            EtcdEndpoint { is_tls: false, host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let stop = AtomicBool::new(false);
        let patience = |time: Duration| Patience { until: Instant::now() + time, stop: &stop };
        let mut link = Link::open(&place, None, patience(Duration::from_secs(60))).unwrap();
        let briefly = patience(Duration::from_millis(300));
        assert_eq!(link.head(briefly).unwrap_err().kind(), ErrorKind::TimedOut);
        stop.store(true, Ordering::Relaxed);
        let long = patience(Duration::from_secs(3600));
        assert_eq!(link.head(long).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
