//! The state of a fleet for people and as JSON.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use fleet::rollout::{Phase, Report, Rollout};
use fleet::store::{Failure, Stored};
use keystore::date::date;
use serde_json::{Value, json};

use super::{Fleet, Problems, one, short};
use crate::command::explain::shown;
use crate::command::show::table;

/// Nodes that a line names.
const NAMED: usize = 5;

/// A roll-out in one line; `there`: how many nodes are, if that is known.
pub(super) fn progress(rollout: &Rollout, there: usize) -> String {
    let generation = short(&rollout.generation);
    let names: Vec<&str> = rollout.nodes.iter().map(String::as_str).take(NAMED).collect();
    let more = rollout.nodes.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let nodes = format!("{} of {there} nodes: {}{more}", rollout.nodes.len(), names.join(", "));
    let line = match rollout.phase {
        Phase::Running if rollout.nodes.is_empty() => format!("{generation}: waits for a node to drive the roll-out"),
        Phase::Running => format!("{generation}: {nodes}"),
        Phase::Paused => format!("{generation}: paused at {} nodes", rollout.nodes.len()),
        Phase::Complete => format!("{generation}: everywhere"),
        Phase::Halted => {
            let rest = match &rollout.previous {
                Some(before) => format!("and {} is served everywhere", short(before)),
                None => "and nodes keep what they serve".to_owned(),
            };
            format!("{generation}: halted, {rest}: {}", rollout.note)
        }
    };
    shown(line.as_bytes())
}

/// A moment in UTC.
pub(super) fn moment(seconds: u64) -> String {
    let day = date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(u64::from(u32::MAX) * 64)));
    let of_day = seconds % 86_400;
    format!("{day} {:02}:{:02}:{:02}Z", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

fn of_state(rollout: &Rollout) -> Value {
    json!({
        "serial": rollout.serial,
        "generation": rollout.generation,
        "previous": rollout.previous,
        "phase": rollout.phase.word(),
        "stages": rollout.stages.iter().map(ToString::to_string).collect::<Value>(),
        "stage": rollout.stage,
        "nodes": rollout.nodes,
        "by": rollout.by,
        "at": moment(rollout.at),
        "note": rollout.note,
    })
}

fn of_node(name: &str, report: &Report, rollout: Option<&Rollout>, orders: bool) -> Value {
    json!({
        "node": name,
        "serving": report.serving,
        "wanted": rollout.and_then(|rollout| rollout.wanted(name)),
        "serial": report.serial,
        "rejected": report.rejected,
        "drained": report.is_drained,
        "orders_certificates": orders,
        "problems": report.problems.iter().chain(&report.idle).collect::<Vec<_>>(),
        "requests": report.counts.requests,
        "5xx": report.counts.failed,
        "4xx": report.counts.rejected,
        "version": report.program,
    })
}

fn of_nodes(reports: &BTreeMap<String, Report>, rollout: Option<&Rollout>, orders: Option<&String>) -> Value {
    reports.iter().map(|(name, report)| of_node(name, report, rollout, orders == Some(name))).collect()
}

/// The node that orders certificates now; none if none does, as where nothing is to be ordered. What is wrong with what says so is one of the problems.
fn orderer(fleet: &mut Fleet, problems: &mut Vec<String>) -> Result<Option<String>, Problems> {
    match fleet.store.orders_certificates() {
        Ok(node) => Ok(node),
        Err(Failure::Wrong(problem)) => {
            problems.push(problem);
            Ok(None)
        }
        Err(away @ Failure::Away(_)) => Err(one(away)),
    }
}

pub(super) fn status(fleet: &mut Fleet, as_json: bool) -> Result<ExitCode, Problems> {
    let Stored { rollout, .. } = fleet.state()?;
    let (reports, mut unread) = fleet.store.reports().map_err(one)?;
    let orders = orderer(fleet, &mut unread)?;
    if as_json {
        let nodes = of_nodes(&reports, Some(&rollout), orders.as_ref());
        say!("{:#}", json!({ "version": 1, "state": of_state(&rollout), "nodes": nodes, "problems": unread }));
        return Ok(ExitCode::SUCCESS);
    }
    say!("{}", progress(&rollout, reports.len()));
    let by = shown(rollout.by.as_bytes());
    say!("state {}, begun {} by {by}", rollout.serial, moment(rollout.at));
    let serving = reports.iter().filter(|(name, report)| report.serving.as_deref() == rollout.wanted(name)).count();
    say!("{serving} of {} nodes serve what they are to serve", reports.len());
    orders.iter().for_each(|node| say!("{} orders certificates for all", shown(node.as_bytes())));
    for (name, report) in reports.iter().filter(|(_, report)| !report.problems.is_empty()) {
        report.problems.iter().for_each(|problem| say!("{}", shown(format!("{name}: {problem}").as_bytes())));
    }
    unread.iter().for_each(|problem| say!("{}", shown(problem.as_bytes())));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn nodes(fleet: &mut Fleet, as_json: bool) -> Result<ExitCode, Problems> {
    let rollout = fleet.store.rollout().map_err(one)?.map(|stored| stored.rollout);
    let (reports, mut unread) = fleet.store.reports().map_err(one)?;
    let orders = orderer(fleet, &mut unread)?;
    if as_json {
        let nodes = of_nodes(&reports, rollout.as_ref(), orders.as_ref());
        say!("{:#}", json!({ "version": 1, "nodes": nodes, "problems": unread }));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = reports.iter().map(|(name, report)| {
        let serving = report.serving.as_deref().map_or_else(|| "-".to_owned(), short);
        let wanted = rollout.as_ref().and_then(|rollout| rollout.wanted(name));
        let wanted = if wanted == report.serving.as_deref() {
            "=".to_owned()
        } else {
            wanted.map_or_else(|| "-".to_owned(), short)
        };
        let counts = report.counts;
        let first = report.problems.first().or(report.idle.first()).map(String::as_str);
        let drained = if report.is_drained { "drained by an operator" } else { "" };
        let problem = shown(first.unwrap_or(drained).as_bytes());
        let numbers = [counts.requests, counts.failed, counts.rejected].map(|number| number.to_string());
        let [requests, failed, rejected] = numbers;
        let version = shown(report.program.as_bytes());
        let orders = if orders.as_ref() == Some(name) { "yes" } else { "" };
        [name.clone(), serving, wanted, requests, failed, rejected, version, orders.to_owned(), problem]
    });
    let head = ["NODE", "SERVES", "WANTED", "REQUESTS", "5XX", "4XX", "VERSION", "ORDERS", "PROBLEM"];
    say!("{}", table(head, rows).trim_end());
    unread.iter().for_each(|problem| say!("{}", shown(problem.as_bytes())));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn history(fleet: &mut Fleet, as_json: bool) -> Result<ExitCode, Problems> {
    let states = fleet.store.history().map_err(one)?;
    if as_json {
        say!("{:#}", json!({ "version": 1, "states": states.iter().map(of_state).collect::<Value>() }));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = states.iter().map(|state| {
        let phase = state.phase.word().to_owned();
        let nodes = if state.is_under_way() { state.nodes.len().to_string() } else { String::new() };
        let (by, note) = (shown(state.by.as_bytes()), shown(state.note.as_bytes()));
        [state.serial.to_string(), moment(state.at), short(&state.generation), phase, nodes, by, note]
    });
    say!("{}", table(["STATE", "BEGUN", "GENERATION", "PHASE", "NODES", "BY", "NOTE"], rows).trim_end());
    Ok(ExitCode::SUCCESS)
}
