//! The attackers: a process with so many connections, each of which floods without a pause, reads what it is sent, and begins anew when it is ended.
//!
//! Ends when its standard input does, and says what it has done. Stays on the loopback interface.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tls::{Connector, Handshake, ProtocolVersion, ServerName, Session};

use super::frames::{Flood, Kind};
use crate::peers::{HOST, pause};

/// How long a connection that can neither send nor receive waits.
const STUCK: Duration = Duration::from_millis(1);

/// How long an attacker whose connection was ended waits before the next one.
const AGAIN: Duration = Duration::from_millis(5);

/// Options of the attackers.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Whom to flood.
    #[arg(long)]
    address: SocketAddr,
    /// How.
    #[arg(long)]
    kind: Kind,
    /// Connections at once.
    #[arg(long, default_value_t = 20)]
    connections: usize,
}

#[derive(Debug, Default)]
struct Done {
    stop: AtomicBool,
    connections: AtomicU64,
    frames: AtomicU64,
}

/// Floods until standard input ends; prints one line of JSON.
///
/// # Errors
/// The address is not a loopback one.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if !options.address.ip().is_loopback() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "floods stay on the loopback interface"));
    }
    let done = Done::default();
    std::thread::scope(|scope| {
        for _ in 0..options.connections {
            scope.spawn(|| {
                while !done.stop.load(Ordering::Relaxed) {
                    // How a connection ends is the server's business.
                    let _ = flood(options, &done);
                    pause(AGAIN);
                }
            });
        }
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        done.stop.store(true, Ordering::Relaxed);
    });
    let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!("{}", serde_json::json!({ "connections": number(&done.connections), "frames": number(&done.frames) }));
    Ok(())
}

/// One connection, to its end.
fn flood(options: &Options, done: &Done) -> io::Result<()> {
    let mut client = Client::connect(options.address)?;
    done.connections.fetch_add(1, Ordering::Relaxed);
    let (mut flood, mut batch) = (Flood::new(options.kind), Flood::preface());
    while !done.stop.load(Ordering::Relaxed) && !flood.is_used_up() {
        client.send(&batch, &done.stop)?;
        batch.clear();
        let frames = flood.next(&mut batch);
        done.frames.fetch_add(frames.into(), Ordering::Relaxed);
    }
    Ok(())
}

/// A TLS connection that never waits for one direction alone.
struct Client {
    stream: TcpStream,
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> io::Result<Client> {
        let connector = Connector::new(&[], false, None, &[b"h2".to_vec()], ProtocolVersion::Tls13);
        let session = Session::client(&connector.map_err(io::Error::other)?, &ServerName::Dns(HOST.to_owned()));
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let session = session.map_err(io::Error::other)?;
        let mut client = Client { stream, session, input: Vec::new(), output: Vec::new() };
        loop {
            let mut input = &client.input[..];
            let step = client.session.handshake(&mut input, &mut client.output).map_err(io::Error::other)?;
            client.input = input.to_vec();
            client.stream.write_all(&std::mem::take(&mut client.output))?;
            if step == Handshake::Done {
                client.stream.set_nonblocking(true)?;
                return Ok(client);
            }
            client.receive()?;
        }
    }

    /// Takes what has arrived; true if something had.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 32 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends all of it, reading and forgetting meanwhile.
    fn send(&mut self, plain: &[u8], stop: &AtomicBool) -> io::Result<()> {
        self.session.write(plain, &mut self.output).map_err(io::Error::other)?;
        let mut sent = 0;
        while sent < self.output.len() && !stop.load(Ordering::Relaxed) {
            let has_read = self.receive()?;
            self.forget()?;
            match self.stream.write(self.output.get(sent..).unwrap_or_default()) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock && has_read => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => pause(STUCK),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        Ok(())
    }

    /// Opens what was received, and drops it.
    fn forget(&mut self) -> io::Result<()> {
        let (mut plain, mut responses) = ([0; 16 * 1024], Vec::new());
        let mut input = &self.input[..];
        let read = loop {
            match self.session.read(&mut input, &mut plain, &mut responses) {
                Ok(tls::Read::Plain(_)) => {}
                Ok(tls::Read::WantInput) => break Ok(()),
                Ok(tls::Read::Closed) => break Err(ErrorKind::UnexpectedEof.into()),
                Err(error) => break Err(io::Error::other(error)),
            }
        };
        self.input = input.to_vec();
        read
    }
}
