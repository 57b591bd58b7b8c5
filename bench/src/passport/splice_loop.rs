//! The floor of `bench passport`: the least that passes streams on from the client's own address.
//!
//! Accept, one read that must hold the whole PROXY header (version 1 or 2), connect from the address in it, and then splice in both directions until
//! both have ended. No limits, no deadlines, no log: not a product.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use wire::proxy_protocol::{Found, MAX_HEADER_BYTES, Origin, read};

/// Bytes asked for at once; what a pipe holds.
const PIPE_BYTES: usize = 64 * 1024;

/// Options of `bench splice-loop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// Where streams go.
    #[arg(long)]
    to: SocketAddr,
}

/// Serves until it is killed.
///
/// # Errors
/// It cannot listen.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())?;
    runtime.block_on(async {
        let listener = TcpListener::bind(options.listen).await?;
        loop {
            let (client, _) = listener.accept().await?;
            let to = options.to;
            tokio::task::spawn_local(async move {
                let _ = serve(client, to).await;
            });
        }
    })
}

async fn serve(mut client: TcpStream, to: SocketAddr) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut first = vec![0; MAX_HEADER_BYTES];
    let length = client.read(&mut first).await?;
    let first = &first[..length];
    let Ok(Found::Whole(header)) = read(first, MAX_HEADER_BYTES) else { return Ok(()) };
    let Origin::Inet { source, .. } = header.origin else { return Ok(()) };
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
    socket.set_ip_transparent_v4(true)?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&source.into())?;
    let mut upstream = TcpSocket::from_std_stream(socket.into()).connect(to).await?;
    upstream.write_all(&first[header.len..]).await?;
    let (client, upstream) = (Rc::new(client), Rc::new(upstream));
    let down = tokio::task::spawn_local(carry(Rc::clone(&upstream), Rc::clone(&client)));
    let up = carry(client, upstream).await;
    let _ = down.await;
    up
}

async fn carry(from: Rc<TcpStream>, to: Rc<TcpStream>) -> io::Result<()> {
    let (out, into) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    loop {
        let taken =
            from.async_io(Interest::READABLE, || Ok(splice(&*from, None, &into, None, PIPE_BYTES, flags)?)).await?;
        if taken == 0 {
            let _ = rustix::net::shutdown(&*to, rustix::net::Shutdown::Write);
            return Ok(());
        }
        let mut held = taken;
        while held > 0 {
            held -= to.async_io(Interest::WRITABLE, || Ok(splice(&out, None, &*to, None, held, flags)?)).await?;
        }
    }
}
