//! WebSockets through the gate that stay open, and the upstream that echoes what comes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use super::client::PATIENCE;
use crate::peers::HOST;

/// WebSockets, each with the process that has it.
#[derive(Debug, Default)]
pub(super) struct Tunnels(Vec<(u32, TcpStream)>);

impl Tunnels {
    /// Opens so many with the process that serves.
    ///
    /// # Errors
    /// One is not opened.
    pub(super) fn open(&mut self, count: usize, address: SocketAddr, serving: u32) -> io::Result<()> {
        (0..count).try_for_each(|_| {
            self.0.push((serving, open(address)?));
            Ok(())
        })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets those of a process that was killed: how many that were.
    pub(super) fn forget(&mut self, killed: u32) -> usize {
        let before = self.0.len();
        self.0.retain(|(pid, _)| *pid != killed);
        before - self.0.len()
    }

    /// How many echo.
    pub(super) fn echoing(&mut self) -> usize {
        self.0.iter_mut().filter_map(|(_, stream)| echoes(stream).ok()).count()
    }
}

/// An upstream for WebSockets: switches protocols, and sends back what comes.
pub(super) fn echo_server() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            drop(std::thread::Builder::new().spawn(move || drop(echo(stream))));
        }
    })?;
    Ok(address)
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    read_head(&mut stream)?;
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")?;
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => stream.write_all(bytes.get(..count).unwrap_or_default())?,
        }
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    Ok(head)
}

fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!("GET /echo HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").as_bytes(),
    )?;
    let head = read_head(&mut stream)?;
    if !head.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other(String::from_utf8_lossy(&head).into_owned()));
    }
    echoes(&mut stream)?;
    Ok(stream)
}

fn echoes(stream: &mut TcpStream) -> io::Result<()> {
    let sent = fastrand::u64(..).to_be_bytes();
    stream.write_all(&sent)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    if received == sent { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
