//! Every metric by name: what the workers counted, summed when somebody asks, and what the process knows beside it.
//!
//! Names and units follow the conventions of Prometheus: base units, `_total` for counters, `process_` for what every process has.
//! Cardinality is bounded by the families in `worker` and the lists in `slow`; `portunus_label_overflows_total` says when a bound was met.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::clients::{self, Order};
use super::key_cells::{KeyGroupCells, KeyServerCells};
use super::line::key_type_name;
use super::page::{Histogram, Metric, Page, durations, every_label, sums};
use super::shared::{Shared, published};
use super::slow::{FleetStanding, SHOWN_SERVERS, SlowEvents};
use super::upstreams::{ServerView, UpstreamView};
use super::worker::{CompressionCells, ListenerCells, TunnelCells, UpstreamCells, WorkerShared};

/// Client addresses shown as metrics.
const SHOWN_CLIENTS: usize = 20;

const SECONDS_PER_DAY: f64 = 86_400.0;

/// Sums everything when it is asked to.
#[derive(Debug)]
pub(super) struct Totals {
    shared: Arc<Shared>,
}

impl Totals {
    pub(super) fn new(shared: Arc<Shared>) -> Totals {
        Totals { shared }
    }
}

impl Collector for Totals {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut Page::Values(encoder))
    }
}

impl Totals {
    /// Every metric, with its value or without.
    pub(super) fn list(&self) -> Vec<Metric> {
        let mut list = Vec::new();
        // Listing cannot fail.
        let _ = self.write(&mut Page::Names(&mut list));
        list
    }

    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let workers = self.shared.workers();
        process(page, &self.shared)?;
        {
            let slow = self.shared.slow();
            configuration(page, &slow)?;
            keystores(page, &slow)?;
            orders(page, &slow)?;
            enrolments(page, &slow)?;
            directories(page, &slow)?;
            rate_store(page, &slow)?;
            fleet(page, &slow)?;
        }
        listeners(page, &workers)?;
        handshakes(page, &workers)?;
        requests(page, &workers)?;
        validation(page, &self.shared)?;
        keyless(page, &workers)?;
        upstreams(page, &workers)?;
        tunnels(page, &workers)?;
        servers(page, &self.shared)?;
        top_clients(page, &workers)?;
        own_bounds(page, &self.shared, &workers)
    }
}

fn process(page: &mut Page<'_>, shared: &Shared) -> fmt::Result {
    page.info("portunus_build", "Build information", &[("version", env!("CARGO_PKG_VERSION"))])?;
    let usage = shared.process.usage();
    page.counters("process_cpu_seconds", "User and system time used", [], [([], usage.cpu_seconds)])?;
    page.gauge("process_resident_memory_bytes", "Resident memory", usage.resident_bytes)?;
    page.gauge("process_virtual_memory_bytes", "Virtual memory", usage.virtual_bytes)?;
    page.gauge("process_open_fds", "Open file descriptors", usage.open_descriptors)?;
    page.gauge("process_max_fds", "File descriptors allowed", usage.max_descriptors)?;
    page.gauge("process_threads", "Threads", usage.threads)?;
    page.gauge("process_start_time_seconds", "Start of the process since 1970", unix_seconds(shared.started))
}

fn configuration(page: &mut Page<'_>, slow: &SlowEvents) -> fmt::Result {
    page.gauge("portunus_config_generation", "Number of the configuration in use", slow.generation)?;
    let reloads = [(["success"], slow.reloads), (["failure"], slow.failed_reloads)];
    page.counters("portunus_config_reloads", "Reloads of the configuration", ["result"], reloads)?;
    let succeeded = u64::from(!slow.last_reload_failed);
    page.gauge("portunus_config_last_reload_successful", "Whether the last reload succeeded", succeeded)?;
    let last = slow.last_reload.map_or(0.0, unix_seconds);
    let name = "portunus_config_last_reload_success_timestamp_seconds";
    page.gauge(name, "Last successful reload since 1970, 0 before the first", last)?;
    let rotations = slow.ticket_rotations;
    page.counters("portunus_tls_ticket_key_rotations", "Rotations of the session ticket keys", [], [([], rotations)])
}

fn keystores(page: &mut Page<'_>, slow: &SlowEvents) -> fmt::Result {
    let stores = || slow.keystores.iter().map(|(name, store)| (name.as_str(), store));
    let loads =
        stores().flat_map(|(name, store)| [([name, "success"], store.loaded), ([name, "failure"], store.failed)]);
    page.counters("portunus_keystore_loads", "Loads of a keystore", ["keystore", "result"], loads)?;
    let last = stores().map(|(name, store)| ([name], store.last_success.map_or(0.0, unix_seconds)));
    let name = "portunus_keystore_last_success_timestamp_seconds";
    page.gauges(name, "Last successful load since 1970, 0 before the first", ["keystore"], last)?;
    let counts = stores().map(|(name, store)| ([name], store.certificates));
    page.gauges("portunus_keystore_certificates", "Certificates in a keystore", ["keystore"], counts)?;
    let labels = ["keystore", "name", "key_type"];
    let expiries = |value: fn(f64) -> f64| {
        stores().flat_map(move |(name, store)| {
            store.shown.iter().map(move |certificate| {
                let key_type = key_type_name(Some(certificate.key_type));
                ([name, certificate.name.as_str(), key_type], value(unix_seconds(certificate.not_after)))
            })
        })
    };
    let name = "portunus_certificate_not_after_timestamp_seconds";
    page.gauges(
        name,
        "End of validity since 1970, of the certificates that expire first",
        labels,
        expiries(|end| end),
    )?;
    let days = expiries(|end| (end - unix_seconds(SystemTime::now())) / SECONDS_PER_DAY);
    page.gauges("portunus_certificate_expiry_days", "Days until the end of validity", labels, days)
}

fn orders(page: &mut Page<'_>, slow: &SlowEvents) -> fmt::Result {
    let orders = slow.orders.iter().flat_map(|((keystore, authority), (issued, failed))| {
        let labels = |result| [keystore.as_str(), authority.as_str(), result];
        [(labels("success"), *issued), (labels("failure"), *failed)]
    });
    let labels = ["keystore", "authority", "result"];
    page.counters("portunus_acme_orders", "Orders of certificates, by authority and outcome", labels, orders)?;
    let missing = slow.wanted.iter().map(|(keystore, (missing, _))| ([keystore.as_str()], *missing));
    let help = "Certificates that are ordered and not there, or expired";
    page.gauges("portunus_acme_missing_certificates", help, ["keystore"], missing)?;
    let failing = slow.wanted.iter().map(|(keystore, (_, failing))| ([keystore.as_str()], *failing));
    let help = "Certificates whose last order failed; those that are there are served until they expire";
    page.gauges("portunus_acme_failing_certificates", help, ["keystore"], failing)?;
    let demands = slow.demands.iter().map(|((keystore, result), count)| ([keystore.as_str(), *result], *count));
    let help = "Names that clients asked for and that had no certificate, by what became of them";
    page.counters("portunus_acme_demands", help, ["keystore", "result"], demands)?;
    let names = slow.on_demand.iter().map(|(keystore, names)| ([keystore.as_str()], *names));
    page.gauges("portunus_acme_names_on_demand", "Names that have a certificate on demand", ["keystore"], names)
}

fn enrolments(page: &mut Page<'_>, slow: &SlowEvents) -> fmt::Result {
    let all = || slow.enrolments.iter().map(|(group, standing)| ([group.as_str()], standing));
    let ends = all().map(|(labels, standing)| (labels, unix_seconds(standing.not_after)));
    let name = "portunus_enrolment_not_after_timestamp_seconds";
    page.gauges(
        name,
        "End of validity since 1970, of client certificates for key servers that are renewed",
        ["group"],
        ends,
    )?;
    let renewals = all().flat_map(|([group], standing)| {
        [([group, "success"], standing.renewals), ([group, "failure"], standing.failures)]
    });
    let help = "Renewals of client certificates for key servers, by outcome";
    page.counters("portunus_enrolment_renewals", help, ["group", "result"], renewals)
}

fn directories(page: &mut Page<'_>, slow: &SlowEvents) -> fmt::Result {
    let all =
        || slow.directories.iter().map(|((source, upstream), state)| ([source.as_str(), upstream.as_str()], state));
    let up = all().map(|(labels, (is_up, _))| (labels, u64::from(*is_up)));
    let help = "Whether a directory says which servers an upstream has; if not, those that are known stay in use";
    page.gauges("portunus_discovery_up", help, ["source", "upstream"], up)?;
    let failures = all().map(|(labels, (_, failures))| (labels, *failures));
    let help = "Questions to a directory that failed, or whose response was not believed";
    page.counters("portunus_discovery_failures", help, ["source", "upstream"], failures)
}

fn rate_store(page: &mut Page<'_>, slow: &SlowEvents) -> fmt::Result {
    let store = || slow.rate_store.iter();
    let up = store().map(|store| ([], u64::from(store.is_up)));
    page.gauges("portunus_rate_store_up", "Whether nodes learn of each other by the store of rates", [], up)?;
    let exchanges = store().flat_map(|store| [(["success"], store.successes), (["failure"], store.failures)]);
    page.counters("portunus_rate_store_exchanges", "Exchanges with the store of rates", ["result"], exchanges)?;
    let keys = store().map(|store| ([], store.keys));
    page.counters("portunus_rate_store_keys", "Keys reported to the store of rates", [], keys)?;
    let waiting = store().map(|store| ([], store.waiting));
    page.gauges("portunus_rate_store_waiting_keys", "Keys that wait for the next exchange", [], waiting)?;
    let seconds = store().map(|store| ([], store.seconds));
    page.gauges("portunus_rate_store_exchange_seconds", "Time that the last exchange took that succeeded", [], seconds)
}

fn fleet(page: &mut Page<'_>, slow: &SlowEvents) -> fmt::Result {
    let one = |value: fn(&FleetStanding) -> u64| slow.fleet.iter().map(move |standing| ([], value(standing)));
    let connected = one(|standing| u64::from(standing.is_connected));
    page.gauges("portunus_fleet_connected", "Whether the store of the fleet (etcd) answers", [], connected)?;
    let help = "Whether something is wrong with this node's place in the fleet; the log and /readyz say what";
    page.gauges("portunus_fleet_problem", help, [], one(|standing| u64::from(standing.has_problem)))?;
    let help = "Serial number of the newest state of the fleet that this node knows";
    page.gauges("portunus_fleet_serial", help, [], one(|standing| standing.serial))?;
    let help = "Whether it is this node of the fleet that orders certificates for all";
    page.gauges(
        "portunus_fleet_orders_certificates",
        help,
        [],
        one(|standing| u64::from(standing.orders_certificates)),
    )?;
    let help = "Generations of the fleet that this node rejected";
    page.counters("portunus_fleet_rejections", help, [], one(|standing| standing.rejections))
}

fn listeners(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let by_listener = |value: fn(&ListenerCells) -> u64| {
        sums(workers, |worker| &worker.listeners, |slot| Some(([&*slot.labels[0]], value(&slot.cells))))
    };
    let labels = ["listener"];
    let accepted = by_listener(|cells| cells.opened.get());
    let closed = by_listener(|cells| cells.closed.get());
    let open: BTreeMap<_, u64> = accepted
        .iter()
        .map(|(labels, opened)| (*labels, opened.saturating_sub(*closed.get(labels).unwrap_or(&0))))
        .collect();
    page.counters("portunus_connections_accepted", "Connections accepted", labels, accepted)?;
    page.counters("portunus_connections_closed", "Connections ended", labels, closed)?;
    page.gauges("portunus_connections_open", "Connections open", labels, open)?;
    let received = by_listener(|cells| cells.received.get());
    page.counters("portunus_received_bytes", "Bytes received on the sockets of clients", labels, received)?;
    let sent = by_listener(|cells| cells.sent.get());
    page.counters("portunus_sent_bytes", "Bytes sent on the sockets of clients", labels, sent)?;

    let datagrams = by_listener(|cells| cells.datagrams_received.get());
    page.counters("portunus_datagrams_received", "Datagrams that came to listeners", labels, some(datagrams))?;
    let datagrams = by_listener(|cells| cells.datagrams_sent.get());
    page.counters("portunus_datagrams_sent", "Datagrams sent back from listeners", labels, some(datagrams))?;
    let datagrams = by_listener(|cells| cells.datagrams_lost.get());
    page.counters(
        "portunus_datagrams_lost",
        "Datagrams dropped because a socket buffer was full",
        labels,
        some(datagrams),
    )?;
    let datagrams = by_listener(|cells| cells.datagrams_passed.get());
    page.counters(
        "portunus_datagrams_passed",
        "Datagrams of HTTP/3 that one worker passed to another, since the kernel does not steer them",
        labels,
        some(datagrams),
    )?;

    let failures = |phase: &'static str| {
        sums(
            workers,
            |worker| &worker.failures,
            move |slot| {
                let [listener, of, reason] = slot.texts();
                (of == phase).then_some(([listener, reason], slot.cells.get()))
            },
        )
    };
    let labels = ["listener", "reason"];
    page.counters("portunus_connections_rejected", "Connections closed at once", labels, failures("accept"))?;
    page.counters("portunus_tls_handshake_failures", "Failed handshakes", labels, failures("tls_handshake"))?;
    page.counters("portunus_datagrams_rejected", "Datagrams rejected", labels, failures("datagram"))?;
    let others = sums(
        workers,
        |worker| &worker.failures,
        |slot| {
            let [listener, phase, reason] = slot.texts();
            let other = !["accept", "tls_handshake", "datagram"].contains(&phase);
            other.then_some(([listener, phase, reason], slot.cells.get()))
        },
    );
    let labels = ["listener", "phase", "reason"];
    page.counters(
        "portunus_connections_failed",
        "Connections that ended before a request for other reasons",
        labels,
        others,
    )
}

fn handshakes(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let labels = ["listener", "version", "cipher", "key_type", "resumed"];
    let counts = sums(workers, |worker| &worker.handshakes, every_label);
    page.counters("portunus_tls_handshakes", "Handshakes that succeeded", labels, counts)?;
    let encrypted = sums(
        workers,
        |worker| &worker.listeners,
        |slot| Some(([&*slot.labels[0]], slot.cells.ech_handshakes.get())).filter(|(_, count)| *count > 0),
    );
    let help = "Handshakes that succeeded whose ClientHello was encrypted (`ech_keys`)";
    page.counters("portunus_tls_ech_handshakes", help, ["listener"], encrypted)?;
    let full = durations(
        workers,
        |worker| &worker.listeners,
        |slot| ([&*slot.labels[0], "false"], &slot.cells.full_handshakes),
    );
    let resumed = durations(
        workers,
        |worker| &worker.listeners,
        |slot| ([&*slot.labels[0], "true"], &slot.cells.resumed_handshakes),
    );
    let total = |histogram: &Histogram| histogram.buckets.iter().sum::<u64>() as f64;
    let ratios: Vec<([&str; 1], f64)> = full
        .iter()
        .zip(&resumed)
        .map(|(([listener, _], full), (_, resumed))| ([*listener], total(full), total(resumed)))
        .filter(|(_, full, resumed)| full + resumed > 0.0)
        .map(|(listener, full, resumed)| (listener, resumed / (full + resumed)))
        .collect();
    let help = "Share of handshakes since the start that resumed a session, and so needed no private key";
    page.gauges("portunus_tls_resumption_ratio", help, ["listener"], ratios)?;
    let all = full.into_iter().chain(resumed);
    page.histograms("portunus_tls_handshake_duration_seconds", "Time of a handshake", ["listener", "resumed"], all)
}

fn requests(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let labels = ["listener", "route", "method", "code"];
    let counts = sums(workers, |worker| &worker.requests, every_label);
    page.counters("portunus_requests", "Requests answered; code none if no response could be given", labels, counts)?;
    let times = durations(workers, |worker| &worker.routes, |slot| (slot.texts(), &slot.cells));
    let help = "First byte of a request to last byte of the response";
    page.histograms("portunus_request_duration_seconds", help, ["listener", "route"], times)?;
    let hosts = sums(workers, |worker| &worker.hosts, every_label);
    let help =
        "Requests by the host of their route that they matched, as it is configured, and the class of the status";
    page.counters("portunus_host_requests", help, ["host", "code"], hosts)?;
    let faults = sums(workers, |worker| &worker.faults, every_label);
    let help = "Failed requests and connections, by the side at fault";
    page.counters("portunus_faults", help, ["side", "reason"], faults)?;
    let labels = ["contract", "operation", "decision", "reason"];
    let decisions = sums(workers, |worker| &worker.decisions, every_label);
    page.counters("portunus_contract_requests", "Requests under a contract, by what it said", labels, decisions)?;
    let policies = sums(workers, |worker| &worker.policies, every_label);
    let help = "Requests that a policy rejected, would have rejected (logged), or slowed down (throttled)";
    page.counters("portunus_policy_decisions", help, ["policy", "decision", "reason"], policies)?;
    let waits = durations(workers, |worker| &worker.authentication, |slot| (slot.texts(), &slot.cells));
    let help = "Time until somebody said who sends a request: a service (`forward_auth`), an introspection server (`introspection`), the threads that compare passwords (`basic`, their queue included). What is remembered from before asks nobody";
    page.histograms("portunus_authentication_duration_seconds", help, ["method", "asked", "outcome"], waits)?;
    let passes = sums(workers, |worker| &worker.policy_passes, every_label);
    let help = "Requests, connections and flows that a policy was asked about and let pass";
    page.counters("portunus_policy_passes", help, ["policy"], passes)?;
    let by_coding = |value: fn(&CompressionCells) -> u64| {
        sums(workers, |worker| &worker.compression, move |slot| Some((slot.texts(), value(&slot.cells))))
    };
    let responses = by_coding(|cells| cells.responses.get());
    page.counters("portunus_compressed_responses", "Responses that were compressed", ["encoding"], responses)?;
    let before = by_coding(|cells| cells.before.get());
    let help = "Bytes of their bodies before compression";
    page.counters("portunus_compression_input_bytes", help, ["encoding"], before)?;
    let after = by_coding(|cells| cells.after.get());
    let help = "Bytes of their bodies after compression";
    page.counters("portunus_compression_output_bytes", help, ["encoding"], after)?;
    let pages = sums(workers, |worker| &worker.error_pages, every_label);
    page.counters("portunus_error_pages", "Responses for errors under error pages", ["error_pages", "code"], pages)
}

fn keyless(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let outcomes = sums(workers, |worker| &worker.key_operations, every_label);
    let help = "Operations asked of a key server, by outcome";
    page.counters("portunus_keyless_operations", help, ["group", "server", "outcome"], outcomes)?;
    let times = durations(workers, |worker| &worker.key_servers, |slot| (slot.texts(), &slot.cells.durations));
    let labels = ["group", "server"];
    let help = "Operation asked to answer verified, of those that went well";
    page.histograms("portunus_keyless_operation_duration_seconds", help, labels, times)?;
    let by_group = |value: fn(&KeyGroupCells) -> u64| {
        sums(workers, |worker| &worker.key_groups, move |slot| Some(([&*slot.labels[0]], value(&slot.cells))))
    };
    let retries = by_group(|cells| cells.retries.get());
    page.counters("portunus_keyless_retries", "Operations tried again on another key server", ["group"], retries)?;
    let in_flight = by_group(|cells| cells.in_flight.get());
    page.gauges("portunus_keyless_in_flight", "Operations under way at key servers", ["group"], in_flight)?;
    let by_server = |value: fn(&KeyServerCells) -> u64| {
        sums(
            workers,
            |worker| &worker.key_servers,
            move |slot| {
                let labels = slot.texts();
                (slot.cells.configured.get() > 0).then(|| (labels, value(&slot.cells)))
            },
        )
    };
    let connections = by_server(|cells| cells.connections.get());
    page.gauges("portunus_keyless_connections", "Connections open to a key server", labels, connections)?;
    let usable = by_server(|cells| cells.usable.get());
    let mut of_group: BTreeMap<[&str; 1], u64> = BTreeMap::new();
    usable.iter().for_each(|([group, _], workers)| *of_group.entry([*group]).or_default() += workers);
    let up = usable.into_iter().map(|(labels, workers)| (labels, u64::from(workers > 0)));
    let help = "Whether a key server is connected and not left out, for at least one worker";
    page.gauges("portunus_keyless_server_up", help, labels, up)?;
    let unavailable = of_group.into_iter().map(|(group, workers)| (group, u64::from(workers == 0)));
    let help = "Whether no key server of a group can be asked, so that only resumed handshakes succeed";
    page.gauges("portunus_keyless_unavailable", help, ["group"], unavailable)
}

fn upstreams(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let by_server = |value: fn(&UpstreamCells) -> u64| {
        sums(workers, |worker| &worker.upstreams, move |slot| Some((slot.texts(), value(&slot.cells))))
    };
    let labels = ["upstream", "server"];
    let requests = by_server(|cells| cells.requests.get());
    page.counters("portunus_upstream_requests", "Requests forwarded, by the server tried last", labels, requests)?;
    let failures = by_server(|cells| cells.failures.get());
    page.counters("portunus_upstream_failures", "Upstream request failures", labels, failures)?;
    let flows = some(by_server(|cells| cells.flows.get()));
    page.counters("portunus_upstream_flows", "UDP flows that began at a server or went on there", labels, flows)?;
    let undelivered = some(by_server(|cells| cells.undelivered.get()));
    let help = "Times that the network said that datagrams cannot be delivered to a server";
    page.counters("portunus_upstream_undelivered", help, labels, undelivered)?;
    let mut by_status: BTreeMap<([&str; 2], String), u64> = BTreeMap::new();
    for slot in workers.iter().flat_map(|worker| worker.upstreams.slots()) {
        for (code, count) in slot.cells.responses.texts() {
            *by_status.entry((slot.texts(), code)).or_default() += count;
        }
    }
    let responses =
        by_status.iter().map(|(([upstream, server], code), count)| ([*upstream, *server, code.as_str()], *count));
    let names = ["upstream", "server", "code"];
    page.counters("portunus_upstream_responses", "Responses of a server, by status", names, responses)?;
    let retries =
        sums(workers, |worker| &worker.upstreams, |slot| Some(([&*slot.labels[0]], slot.cells.retries.get())));
    page.counters("portunus_upstream_retries", "Further tries on other servers", ["upstream"], retries)?;
    let over = sums(
        workers,
        |worker| &worker.upstreams,
        |slot| Some(([&*slot.labels[0]], slot.cells.retries_over_budget.get())),
    );
    let help = "Requests that were not tried again because the retry budget was used up";
    page.counters("portunus_upstream_retries_over_budget", help, ["upstream"], some(over))?;
    hedges(page, workers)?;
    let sessions = sums(workers, |worker| &worker.sessions, every_label);
    let help = "Requests of upstreams with sticky sessions, by what became of the session: `new`, `kept`, `moved` (its server is gone or down) or `elsewhere` (its server was busy or failed)";
    page.counters("portunus_upstream_sessions", help, ["upstream", "outcome"], sessions)?;
    let overflows =
        sums(workers, |worker| &worker.upstreams, |slot| Some(([&*slot.labels[0]], slot.cells.overflows.get())));
    let help = "Requests rejected because the upstream had no room for them, at once or after a wait in its queue";
    page.counters("portunus_upstream_overflows", help, ["upstream"], some(overflows))?;
    let mut waits = durations(workers, |worker| &worker.upstreams, |slot| ([&*slot.labels[0]], &slot.cells.queued));
    waits.retain(|_, histogram| histogram.buckets.iter().any(|count| *count > 0));
    page.histograms(
        "portunus_upstream_queue_duration_seconds",
        "Time in the queue of an upstream",
        ["upstream"],
        waits,
    )?;
    let times = durations(workers, |worker| &worker.upstreams, |slot| (slot.texts(), &slot.cells.durations));
    let help = "Request sent to head of the response received";
    page.histograms("portunus_upstream_duration_seconds", help, labels, times)
}

fn hedges(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let by_server = |value: fn(&UpstreamCells) -> u64| {
        some(sums(workers, |worker| &worker.upstreams, move |slot| Some((slot.texts(), value(&slot.cells)))))
    };
    let labels = ["upstream", "server"];
    let help = "Requests that a server got beside another one that had not responded yet";
    page.counters("portunus_upstream_hedges", help, labels, by_server(|cells| cells.hedges.get()))?;
    let help = "Those of them whose response became the client's";
    page.counters("portunus_upstream_hedges_won", help, labels, by_server(|cells| cells.hedges_won.get()))?;
    let over = sums(
        workers,
        |worker| &worker.upstreams,
        |slot| Some(([&*slot.labels[0]], slot.cells.hedges_over_budget.get())),
    );
    let help = "Requests that were not hedged because the retry budget was used up";
    page.counters("portunus_upstream_hedges_over_budget", help, ["upstream"], some(over))
}

fn tunnels(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let labels = ["listener", "server_name", "upstream", "server"];
    let by_way = |value: fn(&TunnelCells) -> u64| {
        sums(workers, |worker| &worker.tunnels, move |slot| Some((slot.texts(), value(&slot.cells))))
    };
    page.counters("portunus_tunnels", "Tunnels ended", labels, by_way(|cells| cells.ended.get()))?;
    let retries = by_way(|cells| cells.retries.get());
    page.counters("portunus_tunnel_retries", "Further tries to connect, on other servers", labels, retries)?;
    let received = by_way(|cells| cells.received.get());
    page.counters("portunus_tunnel_received_bytes", "Bytes carried from clients", labels, received)?;
    let sent = by_way(|cells| cells.sent.get());
    page.counters("portunus_tunnel_sent_bytes", "Bytes carried to clients", labels, sent)?;
    let lives =
        durations(workers, |worker| &worker.tunnels, |slot| ([&*slot.labels[0], &*slot.labels[1]], &slot.cells.lives));
    let names = ["listener", "server_name"];
    page.histograms("portunus_tunnel_duration_seconds", "Accept to end of a tunnel", names, lives)?;
    let connects = durations(
        workers,
        |worker| &worker.tunnels,
        |slot| ([&*slot.labels[2], &*slot.labels[3]], &slot.cells.connects),
    );
    let help = "First try to connect to the connection";
    page.histograms("portunus_tunnel_connect_duration_seconds", help, ["upstream", "server"], connects)
}

fn servers(page: &mut Page<'_>, shared: &Shared) -> fmt::Result {
    let views = shared.upstreams.views();
    let groups = |value: fn(&UpstreamView) -> Option<usize>| {
        views.iter().filter_map(move |view| Some(([view.name.as_str()], value(view)? as u64)))
    };
    let help = "Requests and tunnels under way at an upstream, those that wait for a server included";
    page.gauges("portunus_upstream_in_flight", help, ["upstream"], groups(|view| Some(view.in_flight)))?;
    let help = "Requests that wait in the queue of an upstream";
    page.gauges("portunus_upstream_queue_length", help, ["upstream"], groups(|view| view.queue_length))?;
    let copies =
        views.iter().flat_map(|view| view.mirrored.map(|(outcome, count)| ([view.name.as_str(), outcome], count)));
    let help =
        "Copies of requests for an upstream (`mirror`), by what became of them: `sent`, `failed`, or `dropped` before";
    page.counters("portunus_mirrored_requests", help, ["upstream", "outcome"], copies.filter(|(_, count)| *count > 0))?;
    let servers = |value: fn(&ServerView) -> usize| {
        let all = views.iter().flat_map(|view| view.servers.iter().map(move |server| (view, server)));
        let rows = all.map(|(view, server)| ([view.name.as_str(), server.name.as_str()], value(server) as u64));
        // A name may lead to an address that is configured as well: label sets are shown once.
        rows.take(SHOWN_SERVERS).collect::<BTreeMap<_, u64>>()
    };
    let labels = ["upstream", "server"];
    let up = servers(|server| usize::from(server.is_up));
    page.gauges("portunus_upstream_server_up", "Whether a server is given requests", labels, up)?;
    let ejected = servers(|server| usize::from(server.is_ejected));
    page.gauges("portunus_upstream_server_ejected", "Whether a server is ejected", labels, ejected)?;
    zones(page, &views)?;
    let in_flight = servers(|server| server.in_flight);
    page.gauges("portunus_upstream_server_in_flight", "Requests and tunnels under way at a server", labels, in_flight)?;
    let slow = shared.slow();
    let failures = slow
        .resolutions
        .iter()
        .map(|((upstream, name, reason), count)| ([upstream.as_str(), name.as_str(), *reason], *count));
    let labels = ["upstream", "name", "reason"];
    page.counters(
        "portunus_upstream_resolution_failures",
        "Questions for a server's name that failed",
        labels,
        failures,
    )
}

/// Where servers are, to be joined with what else is known of them.
fn zones(page: &mut Page<'_>, views: &[UpstreamView]) -> fmt::Result {
    let all = views.iter().flat_map(|view| view.servers.iter().map(move |server| (view, server)));
    let row = |(view, server): (&'_ UpstreamView, &'_ ServerView)| {
        Some(([view.name.clone(), server.name.clone(), server.zone.clone()?], 1))
    };
    let rows: BTreeMap<[String; 3], u64> = all.filter_map(row).take(SHOWN_SERVERS).collect();
    let rows = rows.iter().map(|([upstream, server, zone], one)| ([&**upstream, &**server, &**zone], *one));
    page.gauges("portunus_upstream_server_info", "Zone of a server", ["upstream", "server", "zone"], rows)
}

fn top_clients(page: &mut Page<'_>, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let top = clients::heaviest(published(workers), Order::Bytes, SHOWN_CLIENTS);
    let names: Vec<String> = top.iter().map(|(key, _)| key.to_string()).collect();
    let by_client = |value: fn(&clients::Traffic) -> u64| {
        names.iter().zip(&top).map(move |(name, (_, traffic))| ([name.as_str()], value(traffic)))
    };
    let labels = ["client"];
    let received = by_client(|traffic| traffic.received);
    page.counters("portunus_client_received_bytes", "Bytes received from the heaviest clients", labels, received)?;
    let sent = by_client(|traffic| traffic.sent);
    page.counters("portunus_client_sent_bytes", "Bytes sent to the heaviest clients", labels, sent)?;
    let requests = by_client(|traffic| traffic.requests);
    page.counters("portunus_client_requests", "Requests of the heaviest clients", labels, requests)?;
    let connections = by_client(|traffic| traffic.connections);
    let tunnels = by_client(|traffic| traffic.tunnels);
    page.counters("portunus_client_tunnels", "Tunnels ended of the heaviest clients", labels, tunnels)?;
    let seconds =
        names.iter().zip(&top).map(|(name, (_, traffic))| ([name.as_str()], traffic.tunnel_ms as f64 / 1000.0));
    page.counters("portunus_client_tunnel_seconds", "Total tunnel duration", labels, seconds)?;
    page.counters("portunus_client_connections", "Connections ended of the heaviest clients", labels, connections)
}

fn validation(page: &mut Page<'_>, shared: &Shared) -> fmt::Result {
    let memory = &shared.validation_memory;
    let help = "Memory that bodies under validation take";
    page.gauge("portunus_validation_memory_bytes", help, memory.used() as u64)?;
    let help = "Memory that bodies under validation may take";
    page.gauge("portunus_validation_memory_limit_bytes", help, memory.limit() as u64)?;
    let help = "Bodies for whose validation there was no memory, by the limit they met";
    page.counters("portunus_validation_memory_rejections", help, ["limit"], memory.rejections())
}

fn own_bounds(page: &mut Page<'_>, shared: &Shared, workers: &[Arc<WorkerShared>]) -> fmt::Result {
    let (written, dropped) = shared.lines();
    page.counters("portunus_log_lines_written", "Access-log lines written", [], [([], written)])?;
    page.counters("portunus_log_lines_dropped", "Access-log lines lost", [], [([], dropped)])?;
    let (sent, dropped) = shared.spans();
    page.counters("portunus_trace_spans_exported", "Spans that the collector took", [], [([], sent)])?;
    page.counters("portunus_trace_spans_dropped", "Spans lost", [], [([], dropped)])?;
    let mut overflows: BTreeMap<[&str; 1], u64> = BTreeMap::new();
    for (family, count) in workers.iter().flat_map(|worker| worker.overflows()) {
        *overflows.entry([family]).or_default() += count;
    }
    let help = "Events counted under labels `other` because a family was full";
    page.counters("portunus_label_overflows", help, ["family"], overflows)
}

/// What has been counted at all.
fn some<const N: usize>(mut sums: BTreeMap<[&str; N], u64>) -> BTreeMap<[&str; N], u64> {
    sums.retain(|_, count| *count > 0);
    sums
}

fn unix_seconds(time: SystemTime) -> f64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}
