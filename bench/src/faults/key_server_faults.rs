//! The key server under more load than it can do: goodput, wasted work, recovery, and ECDSA beside an RSA flood.
//!
//! RSA-4096 keys, so that two cores can ask for four times what two cores can do. Clients give up after 500 ms and ask again.

use std::io;

use serde_json::Value;

use super::{Context, Found};
use crate::faults::ledger::Decision;
use crate::keyless::key_server::{Key, KeySite, finished, report};

/// Offered load as a multiple of what the server can do.
const FACTORS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// When clients give up, milliseconds.
const DEADLINE_MS: u64 = 500;

/// How often they ask again.
const RETRIES: u32 = 2;

fn arguments(list: &[(&str, String)]) -> Vec<String> {
    list.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]).collect()
}

fn figure(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or_default()
}

/// What the server does when it is asked as fast as it answers.
fn capacity(site: &KeySite) -> io::Result<f64> {
    let how = [("--connections", "32".to_owned()), ("--seconds", "2".to_owned())];
    Ok(figure(&report(&mut site.load(Key::Rsa4096, &arguments(&how)))?, "good_per_second"))
}

fn offered(connections: usize, rate: f64, seconds: f64) -> Vec<String> {
    arguments(&[
        ("--connections", connections.to_string()),
        ("--rate", format!("{rate:.1}")),
        ("--seconds", format!("{seconds:.1}")),
        ("--deadline-ms", DEADLINE_MS.to_string()),
        ("--retries", RETRIES.to_string()),
    ])
}

fn count(decision: &mut Decision, report: &Value) {
    let whole = |name: &str| report[name].as_u64().unwrap_or_default();
    decision.requests += whole("sent");
    decision.ok += whole("good");
    decision.rejected_5xx +=
        report["errors"].as_object().map_or(0, |errors| errors.values().filter_map(Value::as_u64).sum());
    decision.strange += whole("wrong");
}

/// Offered load of 0.5 to 4 times the capacity, open loop; then a spike of 3.5 on top of 0.5, and what is left of those 0.5 while and after.
pub(super) fn overload(context: &Context) -> io::Result<Found> {
    let seconds = (context.time.as_secs_f64() / 5.0).max(2.0);
    let mut decision = Decision::default();
    let mut notes = Vec::new();
    let clients = [
        ("with our extension", false, 32),
        ("foreign clients", true, 32),
        // An edge may ask for all of its handshakes over one connection: more than that may have in flight.
        ("foreign clients over one connection", true, 1),
    ];
    for (title, plain, connections) in clients {
        let site = KeySite::start(&context.portunus, "")?;
        let capacity = capacity(&site)?;
        let load = |factor: f64, seconds: f64| {
            let mut how = offered(connections, factor * capacity, seconds);
            how.extend(plain.then(|| "--plain".to_owned()));
            site.load(Key::Rsa4096, &how)
        };
        notes.push(format!("{title}: {capacity:.0}/s closed loop"));
        let mut best: f64 = 0.0;
        for factor in FACTORS {
            let report = report(&mut load(factor, seconds))?;
            count(&mut decision, &report);
            let (good, late) = (figure(&report, "good"), figure(&report, "late"));
            best = best.max(good / seconds);
            let wasted = 100.0 * late / (good + late).max(1.0);
            notes.push(format!(
                "x{factor}: {:.0}/s in time ({:.0} % of the best), {wasted:.1} % wasted, p99 {:.0} ms",
                good / seconds,
                100.0 * good / seconds / best.max(1.0),
                report["latency_us"]["p99"].as_f64().unwrap_or_default() / 1000.0
            ));
        }
        notes.push(spike(&load, capacity, &mut decision)?);
    }
    Ok(Found { decision, notes })
}

/// Half of the capacity for nine seconds; from the third to the fifth, three and a half times the capacity on top of it.
fn spike(
    load: &dyn Fn(f64, f64) -> std::process::Command,
    capacity: f64,
    decision: &mut Decision,
) -> io::Result<String> {
    let steady = load(0.5, 9.0).spawn()?;
    crate::peers::pause(std::time::Duration::from_secs(2));
    let spike = report(&mut load(3.5, 3.0))?;
    let steady = finished(steady)?;
    [&spike, &steady].into_iter().for_each(|report| count(decision, report));
    let share = |second: usize| {
        let good = steady["by_second"][second].as_f64().unwrap_or_default();
        100.0 * good / (0.5 * capacity).max(1.0)
    };
    // The spike and its clients' last retries end within the seventh second at the latest.
    Ok(format!(
        "x0.5 with a spike of x3.5 in the seconds 3 to 5, answered in time by second: {} %",
        (0..9).map(|second| format!("{:.0}", share(second))).collect::<Vec<_>>().join(", ")
    ))
}

/// ECDSA at a tenth of its capacity, alone and beside RSA at four times what can be done.
pub(super) fn ecdsa_beside_rsa(context: &Context) -> io::Result<Found> {
    let seconds = (context.time.as_secs_f64() / 3.0).max(2.0);
    let site = KeySite::start(&context.portunus, "")?;
    let capacity = capacity(&site)?;
    let ecdsa = arguments(&[
        ("--connections", "4".to_owned()),
        ("--rate", "1000".to_owned()),
        ("--seconds", format!("{seconds:.1}")),
    ]);
    let mut decision = Decision::default();
    let quiet = report(&mut site.load(Key::P256, &ecdsa))?;
    let flood = site.load(Key::Rsa4096, &offered(32, 4.0 * capacity, seconds + 1.0)).spawn()?;
    crate::peers::pause(std::time::Duration::from_millis(500));
    let beside = report(&mut site.load(Key::P256, &ecdsa))?;
    let flood = finished(flood)?;
    [&quiet, &beside, &flood].into_iter().for_each(|report| count(&mut decision, report));
    let p99 = |report: &Value| report["latency_us"]["p99"].as_f64().unwrap_or_default();
    let p50 = |report: &Value| report["latency_us"]["p50"].as_f64().unwrap_or_default();
    let notes = vec![
        format!("ECDSA alone: p50 {:.0} us, p99 {:.0} us", p50(&quiet), p99(&quiet)),
        format!(
            "beside RSA at x4: p50 {:.0} us, p99 {:.0} us ({:.1} x)",
            p50(&beside),
            p99(&beside),
            p99(&beside) / p99(&quiet).max(1.0)
        ),
        format!("RSA meanwhile: {:.0}/s in time", figure(&flood, "good") / (seconds + 1.0)),
    ];
    Ok(Found { decision, notes })
}
