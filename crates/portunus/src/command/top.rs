//! `portunus top`: traffic, servers and rejections of a running server, once a second. Owns no facts: those are the server's.

mod pages;
mod terminal;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use serde_json::Value;

use super::control::Control;
use super::show::{fail, items, servers, summary, table, text};

/// `portunus top`.
#[derive(Debug, clap::Args)]
pub struct TopCommand {
    /// Which server
    #[command(flatten)]
    control: Control,
    /// Print JSON, one line per second
    #[arg(long)]
    json: bool,
    /// Stop after NUMBER updates
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
}

/// Clears the terminal and goes to its upper left.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Rejections that fit on a screen.
const TOP_REJECTIONS: usize = 8;

/// `portunus top`.
pub fn top(command: &TopCommand) -> ExitCode {
    let is_terminal = std::io::stdout().is_terminal();
    let is_plain =
        command.json || command.count.is_some() || std::env::var_os("TERM").is_none_or(|name| name == "dumb");
    if is_terminal && !is_plain && std::io::stdin().is_terminal() {
        return terminal::run(&command.control);
    }
    let mut left = command.count;
    // The first event has no rates yet.
    let mut take = |event: Value| {
        match command.json {
            true => say!("{event}"),
            false => {
                let clear = if is_terminal { CLEAR } else { "" };
                say!("{clear}{}", screen(&event));
            }
        }
        left = left.map(|left| left.saturating_sub(1));
        left != Some(0)
    };
    let mut is_enough = false;
    while !is_enough {
        // A server bounds the life of a connection; the next one goes on.
        let outcome = command.control.events(|event| {
            is_enough = !take(event);
            !is_enough
        });
        if let Err(problem) = outcome {
            return fail(&problem);
        }
    }
    ExitCode::SUCCESS
}

fn screen(event: &Value) -> String {
    let rate = |path: &str| text(event, &format!("/rates/{path}"));
    let mut out = event.get("status").map(summary).unwrap_or_default();
    out += &format!(
        "per second: {} requests ({} of them 5xx), {} connections, {} handshakes, {} bytes in, {} bytes out\n",
        rate("requests"),
        rate("server_errors"),
        rate("connections"),
        rate("handshakes"),
        rate("bytes_received"),
        rate("bytes_sent"),
    );
    let latency = ["p50", "p95", "p99"].map(|name| format!("{name} {}", rate(&format!("latency_ms/{name}"))));
    out += &format!("latency, ms at most: {}\n\n", latency.join(", "));
    out += &servers(event);
    let listeners = items(event, "/listeners")
        .map(|one| ["/name", "/kind", "/connections/open", "/requests", "/bytes/sent"].map(|path| text(one, path)));
    out += &format!("\n{}", table(["LISTENER", "KIND", "OPEN", "REQUESTS", "BYTES OUT"], listeners));
    let rejections = items(event, "/rejections").take(TOP_REJECTIONS);
    let rejections = rejections.map(|one| ["/reason", "/fault", "/last_minute", "/count"].map(|path| text(one, path)));
    out + &format!("\n{}", table(["REJECTED BECAUSE", "FAULT", "LAST MINUTE", "SINCE START"], rejections))
}
