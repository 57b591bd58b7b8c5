//! What the API of the admin side shows of decisions: recent errors, policies and where they are attached, contracts and their violations. Reads counters and the active
//! generation; changes nothing.

use std::collections::BTreeMap;
use std::time::SystemTime;

use config::{Config, PolicyConfig, PolicyMode, Service};
use proxy::generation::Generation;
use reason::Reason;
use serde_json::{Value, json};
use telemetry::{Decisions, RecentError};

use super::views::rfc_3339;

/// Routes shown of one policy.
const SHOWN_ROUTES: usize = 100;

/// Operations shown: those with the most violations.
const SHOWN_OPERATIONS: usize = 1_000;

/// Errors as they are shown. What is not known of one is null.
pub(super) fn errors(errors: &[RecentError]) -> Value {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let entry = |error: &RecentError| {
        json!({
            "time": moment(error.at), "kind": error.kind, "listener": &*error.listener,
            "client": error.client.map(|client| client.to_string()), "user": some(&error.user),
            "method": some(&error.method), "host": some(&error.host), "target": some(&error.target),
            "status": (error.status > 0).then_some(error.status), "route": some(&error.route),
            "upstream": some(&error.upstream), "server": some(&error.server), "policy": some(&error.policy),
            "fault": error.fault.word(), "reason": error.reason.map(Reason::code),
            "meaning": error.reason.and_then(meaning), "detail": some(&error.detail),
            "request_id": some(&error.request_id), "duration_seconds": error.duration.as_secs_f64(),
        })
    };
    json!({ "errors": errors.iter().map(entry).collect::<Vec<_>>() })
}

/// What a reason of the table means. What an API document says is not in it.
fn meaning(reason: Reason) -> Option<&'static str> {
    (!matches!(reason, Reason::Violation(_))).then(|| reason.facts().meaning)
}

/// `2026-11-21T09:14:04.123Z`.
fn moment(at: SystemTime) -> String {
    let millis = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_millis();
    format!("{}.{millis:03}Z", rfc_3339(at).trim_end_matches('Z'))
}

/// Where one policy is attached, by name.
#[derive(Default)]
struct Attached<'c> {
    listeners: Vec<&'c str>,
    hosts: Vec<String>,
    routes: Vec<&'c str>,
}

pub(super) fn policies(generation: &Generation, counted: &BTreeMap<String, Decisions>) -> Value {
    let (config, nothing, nowhere) = (&generation.config, Decisions::default(), Attached::default());
    let attached = attached(config);
    let switches = generation.policies.named_switches();
    let entry = |(name, policy): (&String, &std::sync::Arc<PolicyConfig>)| {
        let Attached { listeners, hosts, routes } = attached.get(name.as_str()).unwrap_or(&nowhere);
        let counts = counted.get(name).unwrap_or(&nothing);
        let switch = switches.iter().find(|(other, _)| other == name);
        json!({
            "name": name, "kinds": kinds(policy), "mode": mode(policy.mode), "listeners": listeners, "hosts": hosts,
            "routes": routes.iter().take(SHOWN_ROUTES).collect::<Vec<_>>(), "routes_total": routes.len(),
            "closed": switch.map(|(_, switch)| switch.is_closed()),
            "passed": counts.count("passed"), "rejected": counts.count("rejected"),
            "logged": counts.count("logged"), "throttled": counts.count("throttled"), "reasons": reasons(counts),
        })
    };
    json!({ "policies": config.policies.iter().map(entry).collect::<Vec<_>>() })
}

fn mode(mode: PolicyMode) -> &'static str {
    match mode {
        PolicyMode::Enforce => "enforce",
        PolicyMode::Log => "log",
    }
}

/// What a policy consists of, as its keys are called.
fn kinds(policy: &PolicyConfig) -> Vec<&'static str> {
    let all = [
        ("allow", policy.allow.is_some()),
        ("deny", policy.deny.is_some()),
        ("rate_limit", policy.rate_limit.is_some()),
        ("concurrency_limit", policy.concurrency_limit.is_some()),
        ("bandwidth_limit", policy.bandwidth_limit.is_some()),
        ("jwt", policy.jwt.is_some()),
        ("basic", policy.basic.is_some()),
        ("forward_auth", policy.forward_auth.is_some()),
        ("cors", policy.cors.is_some()),
        ("maintenance", policy.maintenance.is_some()),
    ];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(kind, _)| kind).collect()
}

fn attached(config: &Config) -> BTreeMap<&str, Attached<'_>> {
    let mut all: BTreeMap<&str, Attached<'_>> = BTreeMap::new();
    let tcp = config.listeners.iter().flat_map(|listener| {
        let named = listener.policies.iter().chain(of_rules(&listener.service));
        named.map(|policy| (listener.name.as_str(), policy))
    });
    let udp = config.udp_listeners.iter().flat_map(|listener| {
        let name = listener.name.as_str();
        listener.policies.iter().map(move |policy| (name, policy))
    });
    for (listener, policy) in tcp.chain(udp) {
        let listeners = &mut all.entry(policy).or_default().listeners;
        if listeners.last() != Some(&listener) {
            listeners.push(listener);
        }
    }
    for rule in &config.host_rules {
        for policy in &rule.policies {
            all.entry(policy).or_default().hosts.push(rule.host.to_string());
        }
    }
    for route in config.routes.iter().filter(|route| !route.is_further_path) {
        for policy in &route.policies {
            all.entry(policy).or_default().routes.push(&route.name);
        }
    }
    all
}

/// The policies of a listener's rules for tunnels.
fn of_rules(service: &Service) -> Vec<&String> {
    match service {
        Service::Tunnel(tunnel) => tunnel.rules.iter().flat_map(|rule| &rule.policies).collect(),
        Service::Http | Service::RedirectToHttps { .. } => Vec::new(),
    }
}

/// Operations that were asked for, those with the most violations first.
pub(super) fn contracts(counted: &BTreeMap<(String, String), Decisions>) -> Value {
    let violated = |counts: &Decisions| counts.count("logged") + counts.count("blocked");
    let mut all: Vec<_> = counted.iter().collect();
    all.sort_by(|(one, counts), (other, others)| violated(others).cmp(&violated(counts)).then(one.cmp(other)));
    let entry = |((contract, operation), counts): (&(String, String), &Decisions)| {
        json!({
            "contract": contract, "operation": operation, "passed": counts.count("passed"),
            "logged": counts.count("logged"), "blocked": counts.count("blocked"), "reasons": reasons(counts),
        })
    };
    json!({ "contracts": all.into_iter().take(SHOWN_OPERATIONS).map(entry).collect::<Vec<_>>() })
}

fn reasons(counts: &Decisions) -> Vec<Value> {
    let entry = |(decision, reason, count): (&str, &str, u64)| json!({ "decision": decision, "reason": reason, "count": count });
    counts.reasons().into_iter().map(entry).collect()
}
