//! `portunus status`, `errors`, `certificates`, `connections`: how a running server stands, for people and as JSON. Owns no facts: those are the server's.

use std::process::ExitCode;

use serde_json::Value;

use super::control::Control;
use super::explain::shown;

/// A command that shows something.
#[derive(Debug, clap::Args)]
pub struct ShowCommand {
    /// Which server
    #[command(flatten)]
    control: Control,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Errors that `status` shows.
const STATUS_ERRORS: usize = 5;

/// What stands above errors.
pub(super) const ERROR_HEAD: [&str; 7] = ["TIME", "CLIENT", "REQUEST", "STATUS", "REASON", "FAULT", "AT"];

/// Characters of a request that are shown of an error; `--json` prints all.
const ERROR_CHARACTERS: usize = 70;

/// Exit status 1, with the problem.
pub fn fail(problem: &str) -> ExitCode {
    complain!("error: {}", shown(problem.as_bytes()));
    ExitCode::FAILURE
}

/// Text, number or flag of a member, by a path such as `/requests/total`, as it is shown; `-` where there is none.
pub(super) fn text(value: &Value, path: &str) -> String {
    match value.pointer(path) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => shown(text.as_bytes()).to_string(),
        Some(Value::Array(items)) => items.iter().map(|item| text(item, "")).collect::<Vec<_>>().join(", "),
        Some(other) => other.to_string(),
    }
}

/// The items of a member that is a list; none where there is none.
pub(super) fn items<'v>(value: &'v Value, path: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// Rows in columns that are as wide as they need to be.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or_default()).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

fn show(command: &ShowCommand, view: &str, print: impl FnOnce(&Value) -> Result<String, String>) -> ExitCode {
    let printed = command.control.view(view).and_then(|value| match command.json {
        true => Ok(format!("{value:#}\n")),
        false => print(&value),
    });
    match printed {
        Ok(text) => {
            say!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(problem) => fail(&problem),
    }
}

/// `portunus status`.
pub fn status(command: &ShowCommand) -> ExitCode {
    show(command, "status", |status| {
        let upstreams = command.control.view("upstreams")?;
        // An older server has no such view.
        let recent = command.control.view("errors").unwrap_or_default();
        let of_others = items(&recent, "/errors").filter(|error| text(error, "/fault") != "client").take(STATUS_ERRORS);
        let of_others = error_rows(of_others);
        let mut out = format!("{}\n{}", summary(status), servers(&upstreams));
        if !of_others.is_empty() {
            out += &format!(
                "\nlast errors that are not a client's (`portunus errors` lists all):\n{}",
                table(ERROR_HEAD, of_others)
            );
        }
        Ok(out)
    })
}

pub(super) fn summary(status: &Value) -> String {
    let text = |path: &str| text(status, path);
    let ready = match status.pointer("/ready").and_then(Value::as_bool) {
        Some(true) => "ready".to_owned(),
        _ => format!("not ready: {}", text("/not_ready")),
    };
    let mut out = format!(
        "portunus {}, process {}, up {} since {}, {ready}\n",
        text("/version"),
        text("/pid"),
        span(status.pointer("/uptime_seconds").and_then(Value::as_u64).unwrap_or_default()),
        text("/started"),
    );
    out += &format!(
        "configuration {}, loaded again {} times, rejected {}\n",
        text("/generation"),
        text("/reloads/taken"),
        text("/reloads/rejected")
    );
    items(status, "/degraded").for_each(|what| out += &format!("  {}\n", self::text(what, "")));
    items(status, "/reloads/problems")
        .for_each(|problem| out += &format!("  last reload rejected: {}\n", self::text(problem, "")));
    out += &format!("connections {} open, {} accepted\n", text("/connections/open"), text("/connections/accepted"));
    out += &format!(
        "requests {}: 2xx {}, 3xx {}, 4xx {}, 5xx {}, none {}\n",
        text("/requests/total"),
        text("/requests/2xx"),
        text("/requests/3xx"),
        text("/requests/4xx"),
        text("/requests/5xx"),
        text("/requests/none"),
    );
    out += &format!(
        "upstreams {} of {} up, servers {} of {}\n",
        text("/upstreams/up"),
        text("/upstreams/total"),
        text("/servers/up"),
        text("/servers/total")
    );
    out += &format!("certificates {}", text("/certificates/total"));
    if text("/certificates/next_days_left") != "-" {
        out += &format!(
            ", {} expire within 14 days, the next in {} days",
            text("/certificates/expiring"),
            text("/certificates/next_days_left")
        );
    }
    out + "\n"
}

/// `3d 4h`, `5m 6s`.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

pub(super) fn servers(upstreams: &Value) -> String {
    let row = |upstream: &Value, server: &Value| {
        let is_absent = server.pointer("/absent").and_then(Value::as_bool) == Some(true);
        let state = match text(server, "/state") {
            state if is_absent && state == "drained" => "drained, absent".to_owned(),
            state => state,
        };
        let [weight, active, requests, failures] =
            ["/weight", "/in_flight", "/requests", "/failures"].map(|path| text(server, path));
        [text(upstream, "/name"), text(server, "/server"), state, weight, active, requests, failures]
    };
    let rows = items(upstreams, "/upstreams")
        .flat_map(|upstream| items(upstream, "/servers").map(move |server| row(upstream, server)));
    table(["UPSTREAM", "SERVER", "STATE", "WEIGHT", "ACTIVE", "REQUESTS", "FAILED"], rows)
}

/// `portunus errors`.
pub fn errors(command: &ShowCommand) -> ExitCode {
    show(command, "errors", |value| Ok(table(ERROR_HEAD, error_rows(items(value, "/errors")))))
}

/// Errors of requests, connections and tunnels as rows under [`ERROR_HEAD`].
pub(super) fn error_rows<'v>(errors: impl Iterator<Item = &'v Value>) -> Vec<[String; 7]> {
    errors.map(error_row).collect()
}

fn error_row(error: &Value) -> [String; 7] {
    let known = |path: &str| Some(text(error, path)).filter(|text| text != "-");
    let what = match text(error, "/kind").as_str() {
        "request" => format!("{} {}{}", text(error, "/method"), text(error, "/host"), text(error, "/target")),
        kind => format!("{kind} {}", known("/host").unwrap_or_default()),
    };
    let mut shortened: String = what.trim_end().chars().take(ERROR_CHARACTERS).collect();
    if shortened.len() < what.trim_end().len() {
        shortened += "...";
    }
    let [time, client, status, fault] = ["/time", "/client", "/status", "/fault"].map(|path| text(error, path));
    let why = known("/reason").or_else(|| known("/detail")).unwrap_or_else(|| "-".to_owned());
    let place = known("/server").or_else(|| known("/upstream")).or_else(|| known("/policy"));
    [time, client, shortened, status, why, fault, place.unwrap_or_else(|| "-".to_owned())]
}

/// `portunus certificates`.
pub fn certificates(command: &ShowCommand) -> ExitCode {
    show(command, "certificates", |value| {
        let row =
            |one: &Value| ["/days_left", "/not_after", "/key_type", "/keystore", "/names"].map(|path| text(one, path));
        Ok(table(["DAYS", "NOT AFTER", "KEY", "KEYSTORE", "NAMES"], items(value, "/certificates").map(row)))
    })
}

/// `portunus connections`.
pub fn connections(command: &ShowCommand) -> ExitCode {
    show(command, "connections", |value| {
        let listeners = items(value, "/listeners").map(|one| ["/name", "/open"].map(|path| text(one, path)));
        let clients = items(value, "/clients/heaviest").map(|one| ["/client", "/open"].map(|path| text(one, path)));
        let head = format!("{} connections open, of {} clients\n", text(value, "/open"), text(value, "/clients/total"));
        Ok(format!("{head}\n{}\n{}", table(["LISTENER", "OPEN"], listeners), table(["CLIENT", "OPEN"], clients)))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_to_be_and_controls_do_not_reach_the_terminal() {
        let value = serde_json::json!({ "a": "x\u{1b}[2J", "n": 5, "l": ["p", "q"] });
        let row = ["/a", "/n", "/l", "/none"].map(|path| text(&value, path));
        let out = table(["A", "LONG", "L", "N"], std::iter::once(row));
        assert!(!out.contains('\u{1b}'), "{out:?}");
        assert_eq!(
            out.lines().map(|line| line.find("LONG").or(line.find('5'))).collect::<Vec<_>>().first(),
            Some(&out.lines().next().unwrap().find("LONG"))
        );
        assert!(out.ends_with("p, q  -\n"), "{out}");
        assert_eq!([5, 65, 3_700, 90_000].map(span), ["5s", "1m 5s", "1h 1m", "1d 1h"]);
    }
}
