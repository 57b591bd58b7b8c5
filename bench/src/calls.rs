//! `bench calls`: which system calls a proxy makes for one request or connection, counted by strace.
//!
//! Counts and not times: strace makes each call dear, so what waits for events comes out a little differently than in an undisturbed run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::gate::{PROXY_CORES, Upstream, run::ask};
use crate::measure;
use crate::peers::{Compared, Peer, Running, Setup};
use crate::works::{self, Kind, Load, Work};

/// Rows of `bench gate` whose calls are counted.
const ROWS: [&str; 4] = ["tls13-full", "plain-64", "tls13-keep", "http3-keep"];
/// The same for HTTP/3, whose row there is only a busy one.
const HTTP3_FULL: &str = "busy-http3-full";
/// Requests before the counted ones: connections to the upstream are there then.
const WARM_UP_REQUESTS: u64 = 200;
/// Calls that are made less often than once in so many requests are left out.
const LEAST: f64 = 0.005;

/// Options of `bench calls`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The portunus program.
    #[arg(long, default_value = "target/release/portunus")]
    portunus: PathBuf,
    /// Requests that are counted.
    #[arg(long, default_value_t = 2000)]
    requests: u64,
    /// Rows of `bench gate` to count; some of them if none is named.
    #[arg(long, value_name = "WORK", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    compared: Compared,
}

/// Calls, and how many of them failed, by name.
type Counts = BTreeMap<String, (u64, u64)>;

/// Counts, and prints a table for each row.
///
/// # Errors
/// There is no strace, or a proxy or its load fails.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let upstream = Upstream::start()?;
    let setup = Setup::new(options.compared.programs(&options.portunus))?;
    for (work, load) in chosen(&options.only)? {
        let mut counted = Vec::new();
        for peer in options.compared.peers() {
            if work.needs().http3 && !setup.speaks_http3(peer)? {
                continue;
            }
            let proxy = setup.start(peer, work.needs(), PROXY_CORES, upstream.address)?;
            ask(&load, WARM_UP_REQUESTS, &proxy, upstream.address)?;
            let trace = Trace::start(&proxy)?;
            ask(&load, options.requests, &proxy, upstream.address)?;
            counted.push((peer, trace.end()?));
        }
        print(&work, &counted, options.requests);
    }
    Ok(())
}

fn chosen(only: &[String]) -> io::Result<Vec<(Work, Load)>> {
    let default = || ROWS.into_iter().chain([HTTP3_FULL]).map(str::to_owned).collect();
    let names: Vec<String> = if only.is_empty() { default() } else { only.to_vec() };
    let find = |name: String| {
        let work = works::all().into_iter().find(|work| work.name == name);
        match work.map(|work| (work, work.kind)) {
            // The upstream is another process, which nobody counts.
            Some((work, Kind::Load(load))) => Ok((work, Load { busy: false, ..load })),
            _ => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, format!("--only {name}: no such row of our own load")))
            }
        }
    };
    names.into_iter().map(find).collect()
}

/// A strace that counts the calls of a proxy and its children.
struct Trace {
    strace: Child,
    output: tempfile::NamedTempFile,
}

impl Trace {
    /// Starts it, and waits until it has hold of all processes.
    fn start(proxy: &Running) -> io::Result<Trace> {
        let output = tempfile::NamedTempFile::new()?;
        let processes = measure::process_tree(proxy.pid());
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(output.path());
        for process in &processes {
            command.args(["-p", &process.to_string()]);
        }
        let mut strace = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| io::Error::other(format!("strace (Debian package strace) cannot be run: {error}")))?;
        let mut lines = BufReader::new(strace.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?).lines();
        for _ in &processes {
            let line = lines.next().transpose()?.unwrap_or_default();
            if !line.contains(" attached") {
                return Err(io::Error::other(format!("strace: {line}")));
            }
        }
        Ok(Trace { strace, output })
    }

    /// Lets go, and gives what was counted.
    fn end(mut self) -> io::Result<Counts> {
        if let Some(pid) = i32::try_from(self.strace.id()).ok().and_then(Pid::from_raw) {
            rustix::process::kill_process(pid, Signal::INT)?;
        }
        self.strace.wait()?;
        Ok(counts(&fs::read_to_string(self.output.path() as &Path)?))
    }
}

/// Reads strace's table: share, seconds, time per call, calls, errors where there are some, name.
fn counts(table: &str) -> Counts {
    let line = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (calls, errors, name) = match columns[..] {
            [_, _, _, calls, name] => (calls, "0", name),
            [_, _, _, calls, errors, name] => (calls, errors, name),
            _ => return None,
        };
        Some((name.to_owned(), (calls.parse().ok()?, errors.parse().ok()?))).filter(|(name, _)| name != "total")
    };
    table.lines().filter_map(line).collect()
}

fn print(work: &Work, counted: &[(Peer, Counts)], requests: u64) {
    let per_request = |count: u64| count as f64 / requests.max(1) as f64;
    let names: BTreeMap<&str, f64> =
        counted.iter().flat_map(|(_, counts)| counts.iter()).fold(BTreeMap::new(), |mut names, (name, (calls, _))| {
            let most: &mut f64 = names.entry(name.as_str()).or_default();
            *most = most.max(per_request(*calls));
            names
        });
    println!("\n{}: system calls for each of {requests}; in brackets those of them that failed\n", work.title);
    println!("| call |{}", counted.iter().map(|(peer, _)| format!(" {} |", peer.name())).collect::<String>());
    println!("|---|{}", "---:|".repeat(counted.len()));
    let row = |name: &str, of: &dyn Fn(&Counts) -> (u64, u64)| {
        let cell = |(_, counts): &(Peer, Counts)| match of(counts) {
            (calls, 0) => format!(" {:.2} |", per_request(calls)),
            (calls, errors) => format!(" {:.2} ({:.2}) |", per_request(calls), per_request(errors)),
        };
        println!("| {name} |{}", counted.iter().map(cell).collect::<String>());
    };
    for (name, _) in names.iter().filter(|(_, most)| **most >= LEAST) {
        row(name, &|counts| counts.get(*name).copied().unwrap_or_default());
    }
    row("all", &|counts| counts.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000060           6        10           sendto
 40.00    0.000040           4         9         3 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.000100           5        19         3 total
";
        let expected = [("recvfrom", (9, 3)), ("sendto", (10, 0))];
        assert_eq!(counts(table), expected.map(|(name, counts)| (name.to_owned(), counts)).into());
    }
}
