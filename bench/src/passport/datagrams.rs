//! Rows of datagrams: the highest rate at which at most one in a hundred is lost, and what it costs there.
//!
//! The load sends at a steady rate, datagram by datagram, with a header on each; the application counts what arrives. Rates are doubled until too much
//! is lost, then the bound is narrowed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use net::UdpBound;
use net::udp::Batch;
use wire::proxy_protocol::{Extras, Origin, Transport, write_v2};

use super::proxies::{APPLICATION, Running};
use super::report::Sample;
use crate::peers::pause;

/// Share that may be lost.
const LOSS: f64 = 0.01;
const FIRST_RATE: f64 = 20_000.0;
/// Halvings of the bound.
const NARROWING: usize = 4;
/// The load sends in portions this often.
const PORTION: Duration = Duration::from_millis(1);
/// After a trial, what is still on its way arrives.
const SETTLE: Duration = Duration::from_millis(200);

/// What one trial showed.
#[derive(Debug, Clone, Copy)]
struct Trial {
    sent_rate: f64,
    arrived: u64,
    lost: f64,
    cpu: Duration,
}

/// Searches for the highest rate.
pub(super) fn run(running: &Running, bytes: usize, clients: usize, seconds: f64) -> io::Result<Sample> {
    let application = Application::start()?;
    let datagrams = datagrams(running, bytes, clients);
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 1, 1), 0))?;
    socket.connect(running.address)?;
    // Each flow is opened once, slowly.
    trial(running, &application, &socket, &datagrams, 5_000.0, (clients as f64 / 5_000.0).max(0.2))?;
    let (mut good, mut bad): (Option<Trial>, Option<f64>) = (None, None);
    let mut rate = FIRST_RATE;
    let mut narrowing = 0;
    while narrowing < NARROWING {
        let tried = trial(running, &application, &socket, &datagrams, rate, seconds)?;
        // The load could not keep up: there is no higher rate to try.
        let is_limit = tried.sent_rate < 0.9 * rate;
        if tried.lost <= LOSS {
            good = Some(tried);
        } else {
            bad = Some(rate);
        }
        match (good, bad) {
            (Some(_), None) if is_limit => break,
            (Some(_), None) => rate *= 2.0,
            (None, Some(_)) => rate /= 2.0,
            (Some(good), Some(bad)) => {
                narrowing += 1;
                rate = f64::midpoint(good.sent_rate.min(bad), bad);
            }
            (None, None) => {}
        }
        if rate < 500.0 {
            break;
        }
    }
    let best = good.ok_or_else(|| io::Error::other("more than one in a hundred is lost at any rate"))?;
    Ok(Sample {
        rate: best.sent_rate,
        rate_unit: "datagrams/s",
        cost: best.cpu.as_secs_f64() * 1e6 / (best.arrived as f64).max(1.0),
        cost_unit: "CPU us/datagram",
        loss_percent: Some(100.0 * best.lost),
        ..Sample::default()
    })
}

fn datagrams(running: &Running, bytes: usize, clients: usize) -> Vec<Vec<u8>> {
    let one = |number: usize| {
        let mut datagram = Vec::new();
        if running.header {
            let host = u8::try_from(number % 250 + 1).unwrap_or(1);
            let port = u16::try_from(number / 250 + 20_000).unwrap_or(20_000);
            let source = SocketAddr::from(([203, 0, 113, host], port));
            let origin = Origin::Inet { transport: Transport::Datagram, source, destination: running.address };
            write_v2(&mut datagram, &origin, &Extras::default());
        }
        datagram.resize(datagram.len() + bytes, 7);
        datagram
    };
    (0..clients).map(one).collect()
}

fn trial(
    running: &Running,
    application: &Application,
    socket: &UdpSocket,
    datagrams: &[Vec<u8>],
    rate: f64,
    seconds: f64,
) -> io::Result<Trial> {
    let (before, cpu, started) = (application.count(), running.cpu_time(), Instant::now());
    let mut sent = 0_u64;
    let mut next = datagrams.iter().cycle();
    while started.elapsed().as_secs_f64() < seconds {
        let due = (started.elapsed().as_secs_f64() * rate) as u64 + 1;
        // Never more at once than a portion and what was missed by a little: a burst would measure buffers.
        let portion = due.saturating_sub(sent).min((rate * 0.003) as u64 + 1);
        for datagram in next.by_ref().take(usize::try_from(portion).unwrap_or(0)) {
            match socket.send(datagram) {
                Ok(_) | Err(_) => sent += 1,
            }
        }
        let ahead = Duration::from_secs_f64(sent as f64 / rate).saturating_sub(started.elapsed());
        if ahead > Duration::ZERO {
            pause(ahead.min(PORTION));
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    pause(SETTLE);
    let arrived = application.count() - before;
    let lost = 1.0 - arrived as f64 / (sent as f64).max(1.0);
    Ok(Trial { sent_rate: sent as f64 / elapsed, arrived, lost, cpu: running.cpu_time() - cpu })
}

/// Counts what arrives, on a thread of its own.
struct Application {
    arrived: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Application {
    fn start() -> io::Result<Application> {
        let bound = UdpBound::bind(APPLICATION, 1)?;
        let (arrived, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counting, ending) = (Arc::clone(&arrived), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async {
                let (Some(listener), mut batch) = (bound.listeners(0).ok().and_then(|mut own| own.pop()), Batch::new())
                else {
                    return;
                };
                while !ending.load(Ordering::Relaxed) {
                    let receiving = tokio::time::timeout(Duration::from_millis(50), listener.receive(&mut batch));
                    if let Ok(Ok(())) = receiving.await {
                        let pieces = (0..batch.len()).map(|index| batch.get(index));
                        let count: usize = pieces.map(|piece| piece.datagrams().count()).sum();
                        counting.fetch_add(count as u64, Ordering::Relaxed);
                    }
                }
            });
        });
        Ok(Application { arrived, ends, thread: Some(thread) })
    }

    fn count(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
