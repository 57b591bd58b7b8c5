//! `portunus fleet set`, `unset` and `drain`: orders that all nodes obey within a second, over what the configuration says.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fleet::orders::{Kind, Order, Orders, TokenName};
use fleet::rollout::Report;
use proxy::auth::deny::fingerprint;
use serde_json::{Value, json};
use wire::hexadecimal::hexadecimal;

use super::view::moment;
use super::{Fleet, Problems, Reach, author, now, one};
use crate::command::explain::shown;
use crate::command::operate::time;
use crate::command::show::table;

/// How long it is waited for nodes, longer than what one that is gone has written stays there; and how often they are looked at.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Addresses or networks: every policy with `deny` denies them, also one with an empty list
    Deny,
    /// Tokens, API keys, users: `jti:ID` and `sha256:DIGITS` are denied by every policy with `jwt`, the latter by contracts with `deny_tokens`, too; `user:NAME`
    /// by every policy with `basic`. Of a token or key itself its SHA-256 is kept
    DenyToken,
    /// Policies with `maintenance`: their requests get 503
    Maintenance,
    /// Upstream servers, as `portunus status` lists them: no new requests go there
    Drain,
}

impl What {
    fn kind(self) -> Kind {
        match self {
            What::Deny => Kind::Deny,
            What::DenyToken => Kind::DenyToken,
            What::Maintenance => Kind::Maintenance,
            What::Drain => Kind::Drain,
        }
    }

    /// The name under which something is kept.
    fn name(self, text: &str) -> Result<String, String> {
        match self {
            What::Deny => config::network(text).map(|network| network.to_string()),
            What::DenyToken => TokenName::of(text).map(|name| match name {
                Some(_) => text.to_owned(),
                None => format!("sha256:{}", hexadecimal(&fingerprint(text.as_bytes()))),
            }),
            What::Maintenance | What::Drain => Ok(text.to_owned()),
        }
    }
}

/// `portunus fleet set`.
#[derive(Debug, Clone, Args)]
pub(super) struct Set {
    /// What to set [default: show what is set]
    #[arg(value_enum, requires = "names")]
    what: Option<What>,
    /// Whom
    names: Vec<String>,
    /// In this policy (`deny`, `deny-token`) or this upstream (`drain`) alone
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How long, at most 720h [default: until `portunus fleet unset`]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasts: Option<Duration>,
    /// Why, for others to read
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Print JSON, where it shows what is set
    #[arg(long, conflicts_with = "what")]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// `portunus fleet unset`.
#[derive(Debug, Clone, Args)]
pub(super) struct Unset {
    /// What
    #[arg(value_enum)]
    what: What,
    /// Whom
    #[arg(required = true)]
    names: Vec<String>,
    /// In this policy or upstream alone, if it was set so
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

/// `portunus fleet drain`.
#[derive(Debug, Clone, Args)]
pub(super) struct DrainNode {
    /// The node, as `portunus fleet nodes` lists it
    node: String,
    /// Have it serve as before
    #[arg(long)]
    undo: bool,
    /// How long, at most 720h [default: until `--undo`]
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "undo")]
    lasts: Option<Duration>,
    /// Also if it is not there, or no other node would be left
    #[arg(long, conflicts_with = "undo")]
    force: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn set(set: &Set) -> Result<ExitCode, Problems> {
    let mut fleet = Fleet::of(&set.reach)?;
    let Some(what) = set.what else { return show(&mut fleet, set.json) };
    let order = |name: &String| {
        let order = Order {
            only: set.only.clone(),
            note: set.note.clone(),
            ..order(&fleet, what.kind(), what.name(name)?, set.lasts)
        };
        order.check().map(|()| order)
    };
    let orders = set.names.iter().map(order).collect::<Result<Vec<Order>, String>>().map_err(one)?;
    change(&mut fleet, |known| known.with(orders.clone(), now()))
}

pub(super) fn unset(unset: &Unset) -> Result<ExitCode, Problems> {
    let mut fleet = Fleet::of(&unset.reach)?;
    let names = unset.names.iter().map(|name| unset.what.name(name)).collect::<Result<Vec<_>, _>>().map_err(one)?;
    change(&mut fleet, |known| match known.without(unset.what.kind(), &names, unset.only.as_deref(), now()) {
        (next, found) if found == names.len() => Ok(next),
        _ => Err("this is not set; `portunus fleet set` lists what is, and `--only` is part of it".to_owned()),
    })
}

pub(super) fn drain(drain: &DrainNode) -> Result<ExitCode, Problems> {
    let (mut fleet, node) = (Fleet::of(&drain.reach)?, &drain.node);
    if drain.undo {
        let names = std::slice::from_ref(node);
        return change(&mut fleet, |known| match known.without(Kind::Node, names, None, now()) {
            (_, 0) => Err(format!("{node} is not drained; `portunus fleet set` lists what is")),
            (next, _) => Ok(next),
        });
    }
    let (reports, _) = fleet.store.reports().map_err(one)?;
    let order = order(&fleet, Kind::Node, node.clone(), drain.lasts);
    order.check().map_err(one)?;
    change(&mut fleet, |known| {
        let next = known.with(vec![order.clone()], now())?;
        let is_drained = |name: &str| next.active(now()).any(|order| order.kind == Kind::Node && order.name == name);
        match (drain.force, reports.contains_key(node), reports.keys().all(|name| is_drained(name))) {
            (false, false, _) => Err(format!(
                "no node is called {node}; `portunus fleet nodes` lists them; `--force` for one that is not there"
            )),
            (false, true, true) => Err("no other node would be left; `--force` if that is meant".to_owned()),
            _ => Ok(next),
        }
    })
}

fn order(fleet: &Fleet, kind: Kind, name: String, lasts: Option<Duration>) -> Order {
    let until = lasts.map(|lasts| now() + lasts.as_secs());
    Order { kind, name, only: None, until, by: author(&fleet.config), at: now(), note: String::new() }
}

/// Changes the orders, and waits until the nodes that are there obey.
fn change(fleet: &mut Fleet, next: impl Fn(&Orders) -> Result<Orders, String>) -> Result<ExitCode, Problems> {
    let serial = loop {
        let (known, before) = fleet.store.kept::<Orders>().map_err(one)?.unwrap_or_default();
        let next = next(&known).map_err(one)?;
        // Somebody else may have changed them meanwhile: both are meant.
        if fleet.store.put_kept(&next, before).map_err(one)? {
            break next.serial;
        }
    };
    let since = Instant::now();
    loop {
        let (reports, _) = fleet.store.reports().map_err(one)?;
        let late: Vec<&String> =
            reports.iter().filter(|(_, report)| report.orders < serial).map(|(node, _)| node).collect();
        if late.is_empty() {
            say!("{} of {} nodes obey, after {:.1} s", reports.len(), reports.len(), since.elapsed().as_secs_f64());
            return Ok(end(reports.iter()));
        }
        if since.elapsed() > PATIENCE {
            let what = "it is set, and these nodes do not say that they obey; they do as soon as they see it";
            let late: Vec<&str> = late.into_iter().map(String::as_str).collect();
            return Err(one(format!("{what}: {}", late.join(", "))));
        }
        wait();
    }
}

/// Says what has no effect where.
fn end<'r>(reports: impl Iterator<Item = (&'r String, &'r Report)>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (node, problem) in reports.flat_map(|(node, report)| report.idle.iter().map(move |problem| (node, problem))) {
        complain!("{}", shown(format!("{node}: {problem}").as_bytes()));
        code = ExitCode::FAILURE;
    }
    code
}

#[expect(clippy::disallowed_methods, reason = "a command has nothing else to do")]
fn wait() {
    std::thread::sleep(LOOK);
}

/// What is set.
fn show(fleet: &mut Fleet, as_json: bool) -> Result<ExitCode, Problems> {
    let (orders, _) = fleet.store.kept::<Orders>().map_err(one)?.unwrap_or_default();
    let active: Vec<&Order> = orders.active(now()).collect();
    if as_json {
        let of = |order: &&Order| {
            json!({
                "what": order.kind.word(), "name": order.name, "only": order.only, "until": order.until.map(moment),
                "by": order.by, "at": moment(order.at), "note": order.note,
            })
        };
        say!(
            "{:#}",
            json!({ "version": 1, "serial": orders.serial, "orders": active.iter().map(of).collect::<Value>() })
        );
        return Ok(ExitCode::SUCCESS);
    }
    if active.is_empty() {
        say!("nothing is set");
        return Ok(ExitCode::SUCCESS);
    }
    let text = |text: &str| shown(text.as_bytes());
    let rows = active.iter().map(|order| {
        let only = order.only.as_deref().map_or_else(|| "-".to_owned(), text);
        let until = order.until.map_or_else(|| "-".to_owned(), moment);
        [
            order.kind.word().to_owned(),
            text(&order.name),
            only,
            until,
            moment(order.at),
            text(&order.by),
            text(&order.note),
        ]
    });
    say!("{}", table(["WHAT", "WHOM", "ONLY", "UNTIL", "SET", "BY", "NOTE"], rows).trim_end());
    Ok(ExitCode::SUCCESS)
}
