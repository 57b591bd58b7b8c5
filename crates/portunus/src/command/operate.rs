//! `portunus drain`, `weight`, `maintenance`, `log-level`: changes of a running server that no file has. Owns no outcome: that is the server's.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::control::Control;
use super::progress;
use super::show::{fail, items, text};

/// `portunus drain`.
#[derive(Debug, clap::Args)]
pub struct DrainCommand {
    /// The server, as `portunus status` lists it, such as `10.0.0.5:8080`
    server: String,
    /// Only in this upstream (default: every upstream that contains the server)
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// Give it requests again
    #[arg(long)]
    undo: bool,
    /// Wait until nothing is under way there, at most this long and 720h
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "undo")]
    wait: Option<Duration>,
    /// Which server is asked
    #[command(flatten)]
    control: Control,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `portunus weight`.
#[derive(Debug, clap::Args)]
pub struct WeightCommand {
    /// The server, as `portunus status` lists it
    server: String,
    /// 1 to 1000, or `default` for that of the configuration
    #[arg(value_parser = weight)]
    weight: Weight,
    /// Only in this upstream (default: every upstream that contains the server)
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// Which server is asked
    #[command(flatten)]
    control: Control,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A weight; none for that of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(Option<u32>);

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// Requests get 503
    On,
    /// Requests are served, unless the policy's file exists
    Off,
}

/// `portunus maintenance`.
#[derive(Debug, clap::Args)]
pub struct MaintenanceCommand {
    /// `on` or `off`
    switch: Switch,
    /// The policy with `maintenance`; needed where there are several
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Which server is asked
    #[command(flatten)]
    control: Control,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `portunus log-level`.
#[derive(Debug, clap::Args)]
pub struct LogLevelCommand {
    /// `error`, `warn`, `info`, `debug` or `trace`
    level: String,
    /// How long to keep this level, 24h at most; then the configured level applies again
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "5m")]
    lasts: Duration,
    /// Which server is asked
    #[command(flatten)]
    control: Control,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The longest time that a command takes: 30 days.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3_600);

/// `90s`, `5m` or `2h`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let problem = || "write a number and a unit, at most 720h: `90s`, `5m` or `2h`".to_owned();
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(problem)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(problem()),
    };
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
    let time = number.and_then(|number| number.checked_mul(seconds)).map(Duration::from_secs);
    time.filter(|time| *time <= LONGEST).ok_or_else(problem)
}

fn weight(text: &str) -> Result<Weight, String> {
    match text.parse() {
        Ok(weight @ 1..=1_000) => Ok(Weight(Some(weight))),
        _ if text == "default" => Ok(Weight(None)),
        _ => Err("write a number from 1 to 1000, or `default`".to_owned()),
    }
}

/// Between two looks at a server that is to be empty.
const LOOK: Duration = Duration::from_millis(200);

/// Drains a server: 0 if it gets no requests any more, and with `--wait` if nothing is under way there.
pub fn drain(command: &DrainCommand) -> ExitCode {
    let DrainCommand { server, upstream, undo, wait, control, json } = command;
    let body = json!({ "server": server, "upstream": upstream, "drained": !undo });
    let until = wait.map(|wait| Instant::now() + wait);
    let mut account = match control.change("drain", &body) {
        Ok(account) => account,
        Err(problem) => return fail(&problem),
    };
    let mut reported = 0;
    loop {
        let left: u64 = items(&account, "/servers").map(|server| number(server, "in_flight")).sum();
        let is_over = until.is_none_or(|until| Instant::now() >= until);
        if left == 0 || is_over {
            print(&account, *json);
            return match until {
                Some(_) if left > 0 => {
                    fail(&format!("{left} requests or tunnels are still under way there; it stays drained"))
                }
                _ => ExitCode::SUCCESS,
            };
        }
        if left != std::mem::replace(&mut reported, left) {
            progress(&format!("{left} requests or tunnels are under way there; waiting ..."));
        }
        pause();
        // Only looked at: somebody else may have changed it again.
        match control.view("upstreams").and_then(|view| still_drained(&view, server, upstream.as_deref())) {
            Ok(looked) => account = looked,
            Err(problem) => return fail(&problem),
        }
    }
}

/// A server that was drained, in a view of the upstreams, as if it were drained just now.
fn still_drained(view: &Value, name: &str, upstream: Option<&str>) -> Result<Value, String> {
    let said = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for group in items(view, "/upstreams") {
        let group_name = said(group, "name");
        if upstream.is_some_and(|upstream| upstream != group_name) {
            continue;
        }
        let is_there = |server: &&Value| said(server, "server") == name && server.get("absent").is_none();
        for server in items(group, "/servers").filter(is_there) {
            if said(server, "state") != "drained" {
                return Err(format!(
                    "`{name}` of upstream `{group_name}` is no longer drained: somebody has undone it"
                ));
            }
            let (weight, in_flight) = (number(server, "weight"), number(server, "in_flight"));
            found.push(json!({
                "upstream": group_name, "server": name, "state": "drained", "weight": weight, "in_flight": in_flight,
            }));
        }
    }
    match found.is_empty() {
        true => Err(format!("`{name}` has left its upstream; what is under way there cannot be seen")),
        false => Ok(json!({ "servers": found })),
    }
}

#[expect(clippy::disallowed_methods, reason = "a command that has nothing else to do")]
fn pause() {
    std::thread::sleep(LOOK);
}

/// Gives a server another weight.
pub fn weigh(command: &WeightCommand) -> ExitCode {
    let body = json!({ "server": command.server, "upstream": command.upstream, "weight": command.weight.0 });
    finish(command.control.change("weight", &body), |account| print(account, command.json))
}

/// Switches maintenance.
pub fn maintain(command: &MaintenanceCommand) -> ExitCode {
    let body = json!({ "policy": command.policy, "on": command.switch == Switch::On });
    finish(command.control.change("maintenance", &body), |account| {
        let policy = text(account, "/policy");
        match (command.json, command.switch, account.get("closed").and_then(Value::as_bool)) {
            (true, ..) => say!("{account:#}"),
            (_, Switch::On, _) => say!("{policy}: maintenance; requests are answered 503"),
            (_, Switch::Off, Some(true)) => say!("{policy}: still in maintenance, since its file is there"),
            (_, Switch::Off, _) => say!("{policy}: no maintenance"),
        }
    })
}

/// Sets another log level for a while.
pub fn log_level(command: &LogLevelCommand) -> ExitCode {
    let body = json!({ "level": command.level, "seconds": command.lasts.as_secs() });
    finish(command.control.change("log-level", &body), |account| match command.json {
        true => say!("{account:#}"),
        false => say!("log level {} for {} seconds", command.level, command.lasts.as_secs()),
    })
}

fn finish(outcome: Result<Value, String>, print: impl FnOnce(&Value)) -> ExitCode {
    match outcome {
        Ok(account) => {
            print(&account);
            ExitCode::SUCCESS
        }
        Err(problem) => fail(&problem),
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn print(account: &Value, json: bool) {
    if json {
        say!("{account:#}");
        return;
    }
    for server in items(account, "/servers") {
        let [upstream, name, state, weight, left] =
            ["/upstream", "/server", "/state", "/weight", "/in_flight"].map(|path| text(server, path));
        say!("{upstream} {name}: {state}, weight {weight}, {left} under way");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn times_and_weights_are_read_strictly() {
        let seconds = |text: &str| time(text).ok().map(|time| time.as_secs());
        assert_eq!(["90s", "5m", "2h", "0s"].map(seconds), [Some(90), Some(300), Some(7_200), Some(0)]);
        assert_eq!(seconds("720h"), Some(30 * 24 * 3_600));
        for text in ["", "5", "m", "-5m", "5 m", "1.5h", "5d", "+5m", "721h", "99999999999999999999h", "5ä"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(weight("7"), Ok(Weight(Some(7))));
        assert_eq!(weight("default"), Ok(Weight(None)));
        assert!(["0", "1001", "-1", ""].iter().all(|text| weight(text).is_err()));
    }
}
