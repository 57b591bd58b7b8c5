//! What the API of the admin side shows of an edge, as JSON. Reads counters and the active generation; changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use config::{Action, Config, ContractChoice, ListenerConfig, RouteConfig, Service};
use proxy::generation::Generation;
use proxy::upstream::{Group, Members, Operated, Server, Standing};
use reason::{Facts, Reason};
use serde_json::{Value, json};
use telemetry::{ByClass, KeyServerTotals, Negotiated, ServerTotals, Snapshot};
use wire::hexadecimal::hexadecimal;

use super::{Edge, decisions};
use crate::admin::View;

/// Certificates shown: those that expire first.
const SHOWN_CERTIFICATES: usize = 5_000;

/// Names shown of one certificate.
const SHOWN_NAMES: usize = 100;

/// Clients shown: those with the most connections.
const SHOWN_CLIENTS: usize = 100;

/// Certificates that end within so many days are counted as expiring.
const EXPIRING_DAYS: i64 = 14;

impl Edge {
    /// What the API shows.
    pub(super) fn show(&self, view: View) -> Value {
        let generation = self.server.shared().generation.load_full();
        match view {
            View::Status => self.status(&generation),
            View::Listeners => json!({ "listeners": self.listeners(&generation.config) }),
            View::History => self.history.show(),
            View::Routes => json!({ "routes": routes(&generation, &self.reporter.snapshot()) }),
            View::Upstreams => json!({ "upstreams": upstreams(&generation, &self.reporter.snapshot()) }),
            View::Certificates => certificates(&generation),
            View::Connections => self.connections(),
            View::Rejections => json!({ "rejections": rejections(&self.reporter.snapshot()) }),
            View::Handshakes => json!({ "handshakes": handshakes(&self.reporter.snapshot()) }),
            View::Clients => json!({ "clients": member(&self.reporter.clients_json(false), "clients") }),
            View::Shadow => json!({ "shadow": member(&self.reporter.shadows_json(), "shadows") }),
            View::Errors => decisions::errors(&self.reporter.recent_errors()),
            View::Policies => decisions::policies(&generation, &self.reporter.policy_decisions()),
            View::Contracts => decisions::contracts(&self.reporter.contract_decisions()),
            View::KeyServers => json!({ "key_servers": key_servers(&self.reporter.snapshot()) }),
        }
    }

    fn status(&self, generation: &Generation) -> Value {
        let (shared, snapshot) = (self.server.shared(), self.reporter.snapshot());
        let (total, ready) = (snapshot.total(), self.server.ready());
        let groups: Vec<&Arc<Group>> =
            generation.config.upstreams.keys().filter_map(|name| generation.group(name)).collect();
        let servers = groups.iter().map(|group| group.members().servers.len()).sum::<usize>();
        let up = |group: &&Arc<Group>| group.members().servers.iter().filter(|server| server.is_available()).count();
        let certificates = expiries(generation);
        let expiring = certificates.iter().filter(|(days, _)| *days < EXPIRING_DAYS).count();
        let problems = self.problems.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let started = snapshot.started.unwrap_or(SystemTime::UNIX_EPOCH);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "started": rfc_3339(started),
            "uptime_seconds": self.began.elapsed().as_secs(),
            "ready": ready.is_ok(),
            "not_ready": ready.err(),
            "degraded": self.server.degraded(),
            "workers": self.server.started().workers,
            "log_level": telemetry::level(),
            "generation": generation.number,
            "reloads": {
                "taken": snapshot.reloads.taken,
                "rejected": snapshot.reloads.rejected,
                "last": snapshot.reloads.last.map(rfc_3339),
                "last_rejected": snapshot.reloads.last_rejected,
                "problems": problems,
            },
            "connections": { "open": shared.admission.total(), "accepted": total.accepted },
            "requests": by_class(&snapshot.by_class()),
            "handshakes": { "full": total.full_handshakes, "resumed": total.resumed_handshakes },
            "bytes": { "received": total.received, "sent": total.sent },
            "upstreams": { "total": groups.len(), "up": groups.iter().filter(|group| group.is_up()).count() },
            "servers": { "total": servers, "up": groups.iter().map(up).sum::<usize>() },
            "certificates": {
                "total": certificates.len(),
                "expiring": expiring,
                "next_days_left": certificates.first().map(|(days, _)| days),
            },
        })
    }

    fn listeners(&self, config: &Config) -> Vec<Value> {
        let (snapshot, bound) = (self.reporter.snapshot(), self.server.endpoints());
        let entry = |name: &str, kind: &str, is_tls: bool| {
            let totals = snapshot.listeners.get(name).copied().unwrap_or_default();
            let own = bound.iter().filter(|(other, ..)| other == name);
            let sockets: Vec<_> = own.map(|(_, transport, address)| (*transport, address.to_string())).collect();
            let mut addresses: Vec<&String> = Vec::new();
            for (_, address) in &sockets {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            let socket = |(transport, address): &(&str, String)| json!({ "transport": transport, "address": address });
            json!({
                "name": name, "kind": kind, "tls": is_tls, "addresses": addresses,
                "sockets": sockets.iter().map(socket).collect::<Vec<_>>(),
                "connections": { "open": totals.open(), "accepted": totals.accepted },
                "requests": totals.requests,
                "handshakes": { "full": totals.full_handshakes, "resumed": totals.resumed_handshakes },
                "bytes": { "received": totals.received, "sent": totals.sent },
            })
        };
        let kind = |listener: &ListenerConfig| match listener.service {
            Service::Http => "http",
            Service::Tunnel(_) => "tunnel",
            Service::RedirectToHttps { .. } => "redirect",
        };
        let tcp = config.listeners.iter().map(|listener| entry(&listener.name, kind(listener), listener.tls.is_some()));
        tcp.chain(config.udp_listeners.iter().map(|listener| entry(&listener.name, "udp", false))).collect()
    }

    fn connections(&self) -> Value {
        let (snapshot, admission) = (self.reporter.snapshot(), &self.server.shared().admission);
        let (clients, heaviest) = admission.clients(SHOWN_CLIENTS);
        let listeners = snapshot.listeners.iter().map(|(name, totals)| json!({ "name": name, "open": totals.open() }));
        let heaviest = heaviest.iter().map(|(client, open)| json!({ "client": client.to_string(), "open": open }));
        json!({
            "open": admission.total(),
            "listeners": listeners.collect::<Vec<_>>(),
            "clients": { "total": clients, "heaviest": heaviest.collect::<Vec<_>>() },
        })
    }
}

/// A member of a page that is text already.
fn member(page: &str, name: &str) -> Value {
    let page: Value = serde_json::from_str(page).unwrap_or_default();
    page.get(name).cloned().unwrap_or_else(|| Value::Array(Vec::new()))
}

/// The most frequent first.
fn handshakes(snapshot: &Snapshot) -> Vec<Value> {
    let mut counts: Vec<_> = snapshot.handshakes.iter().filter(|(_, count)| **count > 0).collect();
    counts.sort_by_key(|(negotiated, count)| (std::cmp::Reverse(**count), *negotiated));
    let entry = |(negotiated, count): (&Negotiated, &u64)| {
        let Negotiated { version, cipher, key_type, resumed } = negotiated;
        json!({ "version": version, "cipher": cipher, "key_type": key_type, "resumed": resumed, "count": count })
    };
    counts.into_iter().map(entry).collect()
}

fn key_servers(snapshot: &Snapshot) -> Vec<Value> {
    let configured = snapshot.key_servers.iter().filter(|(_, totals)| totals.configured);
    let entry = |((group, server), totals): (&(String, String), &KeyServerTotals)| {
        json!({
            "group": group, "server": server, "up": totals.up, "connections": totals.connections,
            "operations": totals.operations, "failures": totals.failures,
        })
    };
    configured.map(entry).collect()
}

/// `2026-11-21T09:14:04Z`.
pub(super) fn rfc_3339(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", keystore::date::date(time))
}

fn by_class(counts: &ByClass) -> Value {
    let [none, informational, successful, redirected, client_error, server_error] = counts;
    json!({
        "total": counts.iter().sum::<u64>(), "1xx": informational, "2xx": successful, "3xx": redirected,
        "4xx": client_error, "5xx": server_error, "none": none,
    })
}

fn routes(generation: &Generation, snapshot: &Snapshot) -> Vec<Value> {
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for route in &generation.config.routes {
        paths.entry(&route.name).or_default().push(&route.path.text);
    }
    let entry = |route: &RouteConfig| {
        let (action, upstreams) = match &route.action {
            Action::Forward(forward) => ("forward", forward.groups().collect::<Vec<_>>()),
            Action::Redirect { .. } => ("redirect", Vec::new()),
            Action::Respond { .. } => ("respond", Vec::new()),
            Action::Validate(_) => ("validate", Vec::new()),
        };
        let contract = match &route.contract {
            ContractChoice::Named(name) => Some(name),
            ContractChoice::Inherited | ContractChoice::None => None,
        };
        json!({
            "name": route.name, "place": route.place, "listeners": route.listeners,
            "hosts": route.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "methods": route.methods.iter().map(|method| method.as_str()).collect::<Vec<_>>(),
            "paths": paths.get(route.name.as_str()), "action": action, "upstreams": upstreams,
            "policies": route.policies, "contract": contract,
            "requests": by_class(&snapshot.routes.get(&route.name).copied().unwrap_or_default()),
        })
    };
    generation.config.routes.iter().filter(|route| !route.is_further_path).map(entry).collect()
}

fn upstreams(generation: &Generation, snapshot: &Snapshot) -> Vec<Value> {
    let groups = generation.config.upstreams.keys().filter_map(|name| generation.group(name));
    let entry = |group: &Arc<Group>| {
        let (view, members) = (group.view(), group.members());
        let servers = members.servers.iter().enumerate().map(|(index, one)| {
            let key = (view.name.clone(), one.name.to_string());
            server(&members, index, one, snapshot.servers.get(&key).copied().unwrap_or_default())
        });
        let absent = group.absent();
        let absent = absent.iter().map(|(label, operated)| self::absent(&view.name, label, *operated));
        json!({
            "name": view.name, "up": group.is_up(), "in_flight": view.in_flight, "queue_length": view.queue_length,
            "servers": servers.chain(absent).collect::<Vec<_>>(),
        })
    };
    groups.map(entry).collect()
}

fn server(members: &Members, index: usize, server: &Server, totals: ServerTotals) -> Value {
    json!({
        "server": &*server.name, "state": state(server), "weight": members.weight(index), "in_flight": server.load(),
        "requests": totals.requests, "failures": totals.failures, "retries": totals.retries,
    })
}

/// A server that its name does not lead to at the moment, and of which operators say something.
pub(super) fn absent(upstream: &str, label: &str, operated: Operated) -> Value {
    json!({
        "upstream": upstream, "server": label, "state": if operated.drained || operated.drained_by_fleet { "drained" } else { "absent" }, "absent": true,
        "weight": operated.weight.unwrap_or(0), "in_flight": 0, "requests": 0, "failures": 0, "retries": 0,
    })
}

/// How a server stands, in a word.
pub(super) fn state(server: &Server) -> &'static str {
    match server.standing() {
        Standing::Up => "up",
        Standing::OnTrial => "on_trial",
        Standing::Ejected => "ejected",
        Standing::Unhealthy => "unhealthy",
        Standing::Drained => "drained",
    }
}

/// Certificates by days left, those that expire first at the front, with what is shown of them.
fn expiries(generation: &Generation) -> Vec<(i64, (&str, &keystore::Entry))> {
    let now = SystemTime::now();
    let entries = generation.stores.iter().flat_map(|(name, store)| store.entries.iter().map(|entry| (&**name, entry)));
    let mut all: Vec<_> =
        entries.map(|(name, entry)| (keystore::date::days_until(entry.not_after, now), (name, entry))).collect();
    all.sort_by(|(_, (one_store, one)), (_, (other_store, other))| {
        (one.not_after, one_store, &one.names).cmp(&(other.not_after, other_store, &other.names))
    });
    all
}

fn certificates(generation: &Generation) -> Value {
    let all = expiries(generation);
    let shown = all.iter().take(SHOWN_CERTIFICATES).map(|(days_left, (keystore, entry))| {
        json!({
            "keystore": keystore, "names": entry.names.iter().take(SHOWN_NAMES).collect::<Vec<_>>(),
            "names_total": entry.names.len(), "key_type": telemetry::key_type_name(Some(entry.identity.key_type())),
            "not_before": rfc_3339(entry.not_before), "not_after": rfc_3339(entry.not_after), "days_left": days_left,
            "sha256": hexadecimal(&entry.fingerprint), "key_elsewhere": entry.identity.is_remote(), "origin": entry.origin,
        })
    });
    json!({ "certificates": shown.collect::<Vec<_>>(), "total": all.len() })
}

fn rejections(snapshot: &Snapshot) -> Vec<Value> {
    let mut all: Vec<_> = snapshot.faults.iter().collect();
    all.sort_by(|one, other| (other.1, one.0).cmp(&(one.1, other.0)));
    let entry = |((fault, code), count): (&(String, String), &u64)| {
        let reason = Reason::ALL.iter().find(|reason| reason.code() == code);
        let facts = reason.map(|reason| reason.facts());
        let text = |text: fn(&Facts) -> &'static str| facts.as_ref().map(text);
        json!({
            "reason": code, "fault": fault, "count": count, "meaning": text(|facts| facts.meaning),
            "remedy": text(|facts| facts.remedy),
        })
    };
    all.into_iter().map(entry).collect()
}
