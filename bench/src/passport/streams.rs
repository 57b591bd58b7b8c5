//! Rows of streams: pumping, connecting, ping-pong. The application and the load are tasks of this process, on its core.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use wire::proxy_protocol::{Extras, Origin, Transport, write_v2};

use super::proxies::{APPLICATION, Running};
use super::report::Sample;

/// What is pumped: many small messages, written together as fast as they are taken.
const MESSAGE: &[u8] = b"PING\r\n";
const PUMPED_BYTES: usize = 32 * 1024;
const PUMPS: usize = 50;
/// Connections being made at once.
const CONNECTING: usize = 16;
const PING_BYTES: usize = 64;
/// Longest wait for one connection or answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `work` with an echo server beside it.
fn with_echo<F: Future<Output = io::Result<Sample>>>(work: impl FnOnce() -> F) -> io::Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())?;
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(APPLICATION)?;
        let listener = socket.listen(4096)?;
        let serving = spawn_local(echo(listener));
        let done = work().await;
        serving.abort();
        done
    })
}

async fn echo(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        spawn_local(async move {
            let _ = stream.set_nodelay(true);
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..length]).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The client that the connection of this number is for.
fn client(number: usize) -> SocketAddr {
    let host = u8::try_from(number / 50_000 % 200 + 1).unwrap_or(1);
    let port = u16::try_from(number % 50_000 + 10_000).unwrap_or(10_000);
    SocketAddr::from(([203, 0, 113, host], port))
}

/// Connects as a balancer would. Loads come from many addresses, or the ports of one would run out.
async fn connect(running: &Running, number: usize) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let last = u8::try_from(number % 200 + 10).unwrap_or(10);
    socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 1, last), 0)))?;
    let mut stream = timeout(PATIENCE, socket.connect(running.address)).await??;
    stream.set_nodelay(true)?;
    if running.header {
        let mut header = Vec::new();
        let (source, destination) = (client(number), running.address);
        write_v2(&mut header, &Origin::Inet { transport: Transport::Stream, source, destination }, &Extras::default());
        stream.write_all(&header).await?;
    }
    Ok(stream)
}

/// 50 connections write as fast as they may and read what comes back.
pub(super) fn pump(running: &Running, seconds: f64) -> io::Result<Sample> {
    with_echo(|| async {
        let received = Rc::new(Cell::new(0_u64));
        let mut pumps = Vec::new();
        for number in 0..PUMPS {
            let (mut reading, mut writing) = connect(running, number).await?.into_split();
            pumps.push(spawn_local(async move {
                let bytes = MESSAGE.repeat(PUMPED_BYTES / MESSAGE.len());
                while writing.write_all(&bytes).await.is_ok() {}
            }));
            let received = Rc::clone(&received);
            pumps.push(spawn_local(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = reading.read(&mut buffer).await {
                    received.set(received.get() + length as u64);
                }
            }));
        }
        sleep(Duration::from_millis(500)).await;
        let (before, cpu, started) = (received.get(), running.cpu_time(), Instant::now());
        sleep(Duration::from_secs_f64(seconds)).await;
        let (bytes, elapsed) = (received.get() - before, started.elapsed().as_secs_f64());
        let cpu = running.cpu_time() - cpu;
        pumps.iter().for_each(|pump| pump.abort());
        // What came back went there as well.
        let carried = 2.0 * bytes as f64;
        Ok(Sample {
            rate: bytes as f64 / MESSAGE.len() as f64 / elapsed,
            rate_unit: "messages/s each way",
            megabits: Some(bytes as f64 * 8.0 / 1e6 / elapsed),
            cost: cpu.as_nanos() as f64 / carried.max(1.0),
            cost_unit: "CPU ns/byte",
            ..Sample::default()
        })
    })
}

/// Connections one after the other, some at once: header, one message there and back, close.
pub(super) fn connections(running: &Running, seconds: f64) -> io::Result<Sample> {
    with_echo(|| async {
        let (cpu, started) = (running.cpu_time(), Instant::now());
        let next = Cell::new(0_usize);
        let (done, failed) = (Cell::new(0_u64), Cell::new(0_u64));
        let one_after_the_other = || async {
            while started.elapsed().as_secs_f64() < seconds {
                let number = next.replace(next.get() + 1);
                match timeout(PATIENCE, once(running, number)).await {
                    Ok(Ok(())) => done.set(done.get() + 1),
                    _ => failed.set(failed.get() + 1),
                }
            }
        };
        let mut at_once: Vec<_> = (0..CONNECTING).map(|_| Box::pin(one_after_the_other())).collect();
        std::future::poll_fn(|context| {
            at_once.retain_mut(|one| one.as_mut().poll(context).is_pending());
            if at_once.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        let elapsed = started.elapsed().as_secs_f64();
        let cpu = running.cpu_time() - cpu;
        Ok(Sample {
            rate: done.get() as f64 / elapsed,
            rate_unit: "connections/s",
            cost: cpu.as_secs_f64() * 1e6 / (done.get() as f64).max(1.0),
            cost_unit: "CPU us/connection",
            errors: failed.get(),
            ..Sample::default()
        })
    })
}

async fn once(running: &Running, number: usize) -> io::Result<()> {
    let mut stream = connect(running, number).await?;
    stream.write_all(MESSAGE).await?;
    let mut response = [0; MESSAGE.len()];
    stream.read_exact(&mut response).await?;
    stream.shutdown().await?;
    // The end of the other side, so that nothing is left open.
    match stream.read(&mut response).await? {
        0 => Ok(()),
        _ => Err(io::Error::other("more came than was sent")),
    }
}

/// One message at a time on one connection.
pub(super) fn ping_pong(running: &Running, seconds: f64) -> io::Result<Sample> {
    with_echo(|| async {
        let mut stream = connect(running, 0).await?;
        let mut message = [7; PING_BYTES];
        for _ in 0..1000 {
            stream.write_all(&message).await?;
            stream.read_exact(&mut message).await?;
        }
        let (cpu, started) = (running.cpu_time(), Instant::now());
        let mut times = Vec::new();
        while started.elapsed().as_secs_f64() < seconds {
            let sent = Instant::now();
            stream.write_all(&message).await?;
            timeout(PATIENCE, stream.read_exact(&mut message)).await??;
            times.push(sent.elapsed());
        }
        let (elapsed, cpu) = (started.elapsed().as_secs_f64(), running.cpu_time() - cpu);
        times.sort_unstable();
        let at =
            |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        Ok(Sample {
            rate: times.len() as f64 / elapsed,
            rate_unit: "exchanges/s",
            cost: cpu.as_secs_f64() * 1e6 / (times.len() as f64).max(1.0),
            cost_unit: "CPU us/exchange",
            p50_us: Some(at(0.5)),
            p99_us: Some(at(0.99)),
            ..Sample::default()
        })
    })
}
