//! A path that takes its time, for one TCP connection at a time or many: what goes in comes out after a fixed time, and towards the server no faster than the
//! slow start of TCP allows (RFC 5681 §3.1, begun with ten segments as in RFC 6928). The loopback interface has neither.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::pause;

/// Bytes of a congestion window at first, and at most.
const FIRST_WINDOW: usize = 10 * 1448;
const MOST_WINDOW: usize = 16 << 20;

/// Bytes read at once.
const PIECE: usize = 32 * 1024;

/// Bytes that are on their way and not acknowledged, and how many may be.
#[derive(Debug)]
struct Congestion {
    state: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Congestion {
    /// Waits for room, and takes so many bytes of it.
    fn take(&self, bytes: usize) {
        let Ok(state) = self.state.lock() else { return };
        if let Ok(mut state) = self.changed.wait_while(state, |(flight, window)| *flight >= *window) {
            state.0 += bytes;
        }
    }

    /// Bytes were acknowledged: the window grows by them, unless it was not what bounded the sender.
    fn acknowledge(&self, bytes: usize) {
        let Ok(mut state) = self.state.lock() else { return };
        let (flight, window) = *state;
        let grown = if flight * 2 > window { (window + bytes).min(MOST_WINDOW) } else { window };
        *state = (flight - bytes, grown);
        self.changed.notify_one();
    }
}

/// Listens on the loopback interface, and takes what it gets to `server` in `one_way`. It lasts as long as the process.
///
/// # Errors
/// There is no port.
pub(super) fn lay(server: SocketAddr, one_way: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(onward) = TcpStream::connect(server) else { continue };
            let _ = carry(client, onward, one_way);
        }
    });
    Ok(address)
}

fn carry(client: TcpStream, onward: TcpStream, one_way: Duration) -> io::Result<()> {
    let window = Congestion { state: Mutex::new((0, FIRST_WINDOW)), changed: Condvar::new() };
    direction(client.try_clone()?, onward.try_clone()?, one_way, Some(Arc::new(window)));
    direction(onward, client, one_way, None);
    Ok(())
}

fn direction(from: TcpStream, to: TcpStream, one_way: Duration, window: Option<Arc<Congestion>>) {
    let (pieces, due) = channel();
    let (acknowledged, returning) = channel();
    let own = window.clone();
    thread::spawn(move || read(from, &pieces, one_way, own.as_deref()));
    thread::spawn(move || write(to, &due, one_way, &acknowledged));
    thread::spawn(move || {
        for (at, bytes) in returning {
            pause(at - Instant::now());
            window.iter().for_each(|window| window.acknowledge(bytes));
        }
    });
}

/// What arrives at a time. The end is an empty piece.
type Piece = (Instant, Vec<u8>);

fn read(mut from: TcpStream, pieces: &Sender<Piece>, one_way: Duration, window: Option<&Congestion>) {
    let mut buffer = vec![0; PIECE];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        window.filter(|_| count > 0).into_iter().for_each(|window| window.take(count));
        let piece = buffer.get(..count).unwrap_or_default().to_vec();
        if pieces.send((Instant::now() + one_way, piece)).is_err() || count == 0 {
            return;
        }
    }
}

fn write(mut to: TcpStream, due: &Receiver<Piece>, one_way: Duration, acknowledged: &Sender<(Instant, usize)>) {
    for (at, piece) in due {
        pause(at - Instant::now());
        if piece.is_empty() || to.write_all(&piece).is_err() {
            break;
        }
        let _ = acknowledged.send((Instant::now() + one_way, piece.len()));
    }
    let _ = to.shutdown(Shutdown::Write);
}
