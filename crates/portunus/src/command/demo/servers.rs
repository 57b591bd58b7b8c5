//! The servers behind the demo's gate: a shop's API, a text server over TCP (Gopher) and one over UDP (TFTP). Each is as small as it can be; all end with
//! this process. Reached by the gate alone, so they read what the gate has validated and written anew.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Most of a request's head or body that is read, bytes.
const MOST: u64 = 64 * 1024;

/// The largest request of TFTP that is read, bytes (RFC 1350 §5: two names and a mode).
const DATAGRAM: usize = 1024;

/// Sockets that are bound, and served from nowhere yet.
#[derive(Debug)]
pub(super) struct Servers {
    shop: TcpListener,
    gopher: TcpListener,
    tftp: UdpSocket,
}

impl Servers {
    /// Binds them to free ports of the loopback address.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn bind() -> io::Result<Servers> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        Ok(Servers { shop: TcpListener::bind(any)?, gopher: TcpListener::bind(any)?, tftp: UdpSocket::bind(any)? })
    }

    /// Where they are: shop, Gopher, TFTP.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn addresses(&self) -> io::Result<[SocketAddr; 3]> {
        Ok([self.shop.local_addr()?, self.gopher.local_addr()?, self.tftp.local_addr()?])
    }

    /// Serves from threads of their own, until the process ends.
    pub(super) fn serve(self) {
        let Servers { shop, gopher, tftp } = self;
        std::thread::spawn(move || each(&shop, converse));
        std::thread::spawn(move || each(&gopher, tell));
        std::thread::spawn(move || send_file(&tftp));
    }
}

/// Gives each connection a thread.
fn each(listener: &TcpListener, serve: fn(TcpStream) -> io::Result<()>) {
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || serve(stream));
    }
}

/// Responds to the requests of a connection.
fn converse(stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(head) = read_head(&mut reader)? {
        let field = |name: &str| {
            let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
            fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
        };
        let length: u64 = field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        let mut body = Vec::new();
        (&mut reader).take(length.min(MOST)).read_to_end(&mut body)?;
        let (status, kind, body) = respond(&head, body);
        let size = body.len();
        write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n")?;
        if !head.starts_with("HEAD ") {
            stream.write_all(&body)?;
        }
        // What is longer, or of no length that is said, cannot be told from a next request.
        if length > MOST || field("transfer-encoding").is_some() {
            break;
        }
    }
    Ok(())
}

/// A request's head with its empty line; none at the end of the connection.
fn read_head(reader: &mut impl io::BufRead) -> io::Result<Option<String>> {
    let (mut head, mut reader) = (String::new(), reader.take(MOST));
    while reader.read_line(&mut head)? > 0 {
        if head.ends_with("\r\n\r\n") {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// The response to a request: status, media type, body.
fn respond(head: &str, body: Vec<u8>) -> (&'static str, &'static str, Vec<u8>) {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let product = target.strip_prefix("/products/").and_then(|number| number.parse::<u32>().ok());
    match product {
        Some(number) => {
            let text = format!("{{\"id\":{number},\"name\":\"Lantern number {number}\"}}\n");
            ("200 OK", "application/json", text.into_bytes())
        }
        None if target == "/orders" => ("201 Created", "application/json", [&body[..], b"\n"].concat()),
        None => ("200 OK", "text/plain", format!("The server behind the gate sees:\n{head}").into_bytes()),
    }
}

/// Tells a client of Gopher (RFC 1436) who it is, by the line of the PROXY protocol that comes first.
fn tell(stream: TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).take(MOST).lines();
    let (proxy, asked) = (lines.next().transpose()?, lines.next().transpose()?);
    let client = proxy.as_deref().and_then(|line| line.split(' ').nth(2)).unwrap_or("nobody").to_owned();
    let asked = asked.unwrap_or_default();
    writeln!(&stream, "You said {asked}, and the PROXY protocol says that you come from {client}.")
}

/// Sends the same short text for every file that is asked for (RFC 1350: opcode 1 asks, 3 is data, of which a block below 512 bytes is the last).
fn send_file(socket: &UdpSocket) {
    let mut request = [0; DATAGRAM];
    while let Ok((length, client)) = socket.recv_from(&mut request) {
        if request[..length].starts_with(&[0, 1]) {
            let block = [&[0, 3, 0, 1], &b"Datagrams pass, too.\n"[..]].concat();
            let _ = socket.send_to(&block, client);
        }
    }
}
