//! `bench far`: uploads over a long path, by each version of HTTP, beside nginx and HAProxy. Reports, and asserts nothing.

mod path;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::gate::Upstream;
use crate::measure::{self, MachineTime};
use crate::peers::{Compared, HOST, Needs, Peer, Running, Setup};
use crate::plan::Plan;

/// Bytes of each upload.
const BODY_BYTES: usize = 20_000_000;

/// Longest time of one, seconds.
const MOST_SECONDS: &str = "120";

/// Options of `bench far`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    compared: Compared,
    /// Round trips in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "20,100")]
    trips: Vec<u64>,
    /// Uploads at once on one connection.
    #[arg(long, value_delimiter = ',', default_value = "1,10")]
    streams: Vec<usize>,
}

/// One way to upload.
#[derive(Debug, Clone, Copy)]
struct Row {
    trip: u64,
    version: &'static str,
    streams: usize,
}

/// Runs the comparison.
///
/// # Errors
/// Nothing could be run. A proxy that fails in a row is reported and left out there.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let rows: Vec<Row> = rows(options);
    if options.plan.list {
        rows.iter().for_each(|row| println!("{row:?}"));
        return Ok(());
    }
    let setup = Setup::new(options.compared.programs(&options.plan.portunus))?;
    let upstream = Upstream::start()?;
    let needs = Needs { workers: 1, http3: false };
    let proxies = options.compared.peers().into_iter().map(|peer| setup.start(peer, needs, "0", upstream.address));
    let proxies: Vec<Running> = proxies.collect::<io::Result<_>>()?;
    let folder = tempfile::tempdir()?;
    let body = folder.path().join("body");
    fs::write(&body, vec![b'x'; BODY_BYTES])?;
    let body = body.to_string_lossy().into_owned();
    println!("{}\n", measure::machine());
    println!(
        "| round trip | uploads of {} MB at once | version | proxy | MB/s | of HTTP/1.1 |",
        BODY_BYTES / 1_000_000
    );
    println!("|---|---|---|---|---|---|");
    let before = MachineTime::now();
    let mut plain: Vec<(Peer, u64, usize, f64)> = Vec::new();
    for row in rows {
        for proxy in &proxies {
            let path = path::lay(proxy.ports.ecdsa, Duration::from_micros(row.trip * 500))?;
            let mut rates: Vec<f64> = (0..options.plan.rounds).filter_map(|_| upload(row, path, &body)).collect();
            rates.sort_by(f64::total_cmp);
            let Some(rate) = rates.get(rates.len() / 2) else {
                eprintln!("   {}: no upload of {row:?} went through", proxy.peer.name());
                continue;
            };
            let of_plain =
                plain.iter().find(|known| (known.0, known.1, known.2) == (proxy.peer, row.trip, row.streams));
            let ratio = of_plain.map_or_else(String::new, |known| format!("{:.2}", rate / known.3));
            if row.version == "1.1" {
                plain.push((proxy.peer, row.trip, row.streams, *rate));
            }
            let Row { trip, version, streams } = row;
            println!("| {trip} ms | {streams} | HTTP/{version} | {} | {rate:.1} | {ratio} |", proxy.peer.name());
        }
    }
    println!("\n{:.1} % of the time stolen.", MachineTime::now().stolen_percent(before));
    Ok(())
}

fn rows(options: &Options) -> Vec<Row> {
    let versions = |trip, streams| ["1.1", "2"].map(|version| Row { trip, version, streams });
    let trips = options.trips.iter().flat_map(|trip| options.streams.iter().map(move |streams| (*trip, *streams)));
    trips.flat_map(|(trip, streams)| versions(trip, streams)).collect()
}

/// Uploads by curl; gives MB/s of all together. Over HTTP/1.1 each upload has a connection.
fn upload(row: Row, path: SocketAddr, body: &str) -> Option<f64> {
    let port = path.port();
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--parallel", "--parallel-max", &row.streams.to_string()]);
    command.args(["--max-time", MOST_SECONDS, "--resolve", &format!("{HOST}:{port}:127.0.0.1")]);
    command.arg(format!("--http{}", row.version));
    command.args(["--header", "Content-Type: application/octet-stream", "--header", "Expect:", "--request", "POST"]);
    command.args(["--write-out", "%{http_code} %{time_total}\n"]);
    for _ in 0..row.streams {
        command.args(["--upload-file", body, "--output", "/dev/null"]);
        command.arg(format!("https://{HOST}:{port}/sink"));
    }
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut longest = 0.0_f64;
    let mut done = 0;
    for line in text.lines() {
        let (status, seconds) = line.split_once(' ')?;
        longest = longest.max(seconds.parse().ok()?);
        done += usize::from(status == "200");
    }
    (done == row.streams).then(|| (row.streams * BODY_BYTES) as f64 / longest / 1e6)
}
