//! `portunus contract learn`: access logs and HAR files to a first document.
//!
//! Brings targets into the form in which the gate validates them; what `contract::learn` makes of them is printed.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use contract::learn::{Exchange, Learnt, LogLine, exchange_of_line, exchanges_of_har, learn};
use wire::http::{HeadLimits, RequestHead, http1};

use super::counted;

/// Largest HAR file, bytes.
const MAX_HAR_BYTES: u64 = 512 * 1024 * 1024;
/// Longest line of an access log, bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// Different exchanges that are kept.
const MAX_EXCHANGES: usize = 1_000_000;
/// Lines about what was left out or is rejected.
const MAX_PRINTED: usize = 20;

#[derive(Debug, Args)]
pub(super) struct LearnArguments {
    /// Access logs in their JSON form, and HAR files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// What the files are; by default, HAR where the name ends in .har
    #[arg(long, value_enum)]
    from: Option<From>,
    /// The host whose requests are learnt from; by default, the one with the most
    #[arg(long)]
    host: Option<String>,
    /// Title of the document
    #[arg(long, default_value = "Learnt")]
    title: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// HAR 1.2
    Har,
    /// Lines of JSON, as Portunus logs requests
    AccessLog,
}

/// What was read, and what was not.
#[derive(Default)]
struct Input {
    exchanges: HashSet<Exchange>,
    order: Vec<Exchange>,
    left_out: BTreeMap<String, usize>,
}

/// 0 if there is a document; it is printed, and what is to be known of it goes to stderr.
pub(super) fn run(arguments: &LearnArguments) -> ExitCode {
    let mut input = Input::default();
    for file in &arguments.files {
        let is_har = match arguments.from {
            Some(from) => from == From::Har,
            None => file.extension().is_some_and(|end| end.eq_ignore_ascii_case("har")),
        };
        let read = if is_har { input.read_har(file) } else { input.read_log(file) };
        if let Err(why) = read {
            complain!("{why}");
            return ExitCode::FAILURE;
        }
    }
    let exchanges = input.of_host(arguments.host.as_deref());
    let learnt = learn(&exchanges, &arguments.title);
    report(&learnt, &input.left_out);
    if learnt.operations == 0 {
        complain!("no request that was answered with 2xx or 3xx, so there is nothing to learn");
        return ExitCode::FAILURE;
    }
    say!("{}", learnt.document.trim_end());
    ExitCode::SUCCESS
}

fn report(learnt: &Learnt, left_out: &BTreeMap<String, usize>) {
    learnt.assumptions.iter().for_each(|assumption| complain!("assumed: {assumption}"));
    let of_learning = learnt.left_out.iter().map(|(why, count)| (*why, *count));
    let left_out = left_out.iter().map(|(why, count)| (why.as_str(), *count)).chain(of_learning);
    left_out.take(MAX_PRINTED).for_each(|(why, count)| complain!("left out: {} ({why})", counted(count, "request")));
    for (request, why) in learnt.rejected.iter().take(MAX_PRINTED) {
        complain!("rejected by the document: {request}: {why}");
    }
    let (operations, used) = (counted(learnt.operations, "operation"), counted(learnt.used, "different request"));
    complain!("{operations} from {used}; {} of these rejected by the document", learnt.rejected.len());
}

impl Input {
    fn leave_out(&mut self, why: impl Into<String>) {
        *self.left_out.entry(why.into()).or_default() += 1;
    }

    /// Takes an exchange whose target is as it was recorded.
    fn take(&mut self, mut exchange: Exchange) {
        match canonical(&exchange) {
            Ok(target) => exchange.target = target,
            Err(why) => return self.leave_out(why),
        }
        if self.exchanges.contains(&exchange) {
            return;
        }
        if self.order.len() == MAX_EXCHANGES {
            return self.leave_out("there are too many different requests");
        }
        self.order.push(exchange.clone());
        self.exchanges.insert(exchange);
    }

    fn read_har(&mut self, file: &Path) -> Result<(), String> {
        let text =
            keystore::files::text(file, MAX_HAR_BYTES).map_err(|error| format!("{}: {error}", file.display()))?;
        let read = exchanges_of_har(file, &text);
        let read = read.map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        read.into_iter().for_each(|exchange| self.take(exchange));
        Ok(())
    }

    fn read_log(&mut self, file: &Path) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("{}: cannot be read: {error}", file.display());
        let mut reader = BufReader::new(File::open(file).map_err(cannot)?);
        let (mut line, mut is_json) = (Vec::new(), false);
        let mut lines = 0_u64;
        loop {
            line.clear();
            if reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(cannot)? == 0 {
                break;
            }
            lines += 1;
            match std::str::from_utf8(&line).map_or(LogLine::Unreadable, |line| exchange_of_line(line.trim_end())) {
                LogLine::Request(exchange) => {
                    is_json = true;
                    self.take(*exchange);
                }
                LogLine::Other => is_json = true,
                LogLine::Unreadable => self.leave_out("the line is no JSON object"),
            }
        }
        match is_json || lines == 0 {
            true => Ok(()),
            false => Err(format!("{}: no line is JSON; log with `format: json`, or say `--from har`", file.display())),
        }
    }

    /// The exchanges of one host; others are left out.
    fn of_host(&mut self, wanted: Option<&str>) -> Vec<Exchange> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        self.order.iter().for_each(|exchange| *counts.entry(exchange.host.to_ascii_lowercase()).or_default() += 1);
        let most = counts.iter().max_by_key(|(_, count)| **count).map(|(host, _)| host.clone()).unwrap_or_default();
        let host = wanted.map_or(most, str::to_ascii_lowercase);
        let all = std::mem::take(&mut self.order);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.host.eq_ignore_ascii_case(&host));
        if !others.is_empty() {
            self.left_out.insert(format!("other hosts than `{host}`"), others.len());
        }
        own
    }
}

/// The target in the form in which the gate validates it.
fn canonical(exchange: &Exchange) -> Result<String, String> {
    let limits = config::limits::Limits::default();
    let limits = HeadLimits {
        head_bytes: limits.max_head_bytes,
        request_line_bytes: limits.max_request_line_bytes,
        fields: limits.max_headers,
    };
    let text = format!("{} {} HTTP/1.1\r\nHost: a\r\n\r\n", exchange.method, exchange.target);
    let mut head = RequestHead::default();
    http1::parse_request(text.as_bytes(), &limits, &mut head)
        .map_err(|error| format!("no request that would be let in: {}", error.reason.code()))?;
    String::from_utf8([head.path(), head.query()].concat()).map_err(|_| "the target is no UTF-8".to_owned())
}
