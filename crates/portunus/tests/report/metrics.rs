//! Metrics: every event finds its place, several workers add up, nothing grows without bound.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use config::LogConfig;
use reason::{Reason, Side};
use telemetry::{
    CertificateExpiry, ConnRecord, Exposition, Reporter, RequestRecord, ServerView, UpstreamView, WorkerReport,
};

use super::exposition::{Samples, open_metrics, prometheus_text};
use super::record;

fn reporter(workers: usize) -> Arc<Reporter> {
    Reporter::start(&LogConfig { access: None, level: "info".into() }, workers).unwrap()
}

fn samples(reporter: &Reporter) -> Samples {
    let open = open_metrics(&reporter.metrics(Exposition::OpenMetrics));
    let text = prometheus_text(&reporter.metrics(Exposition::Text));
    assert_eq!(open.keys().collect::<Vec<_>>(), text.keys().collect::<Vec<_>>(), "both forms hold the same samples");
    open
}

#[track_caller]
fn check(samples: &Samples, expected: &[(&str, f64)]) {
    for (key, value) in expected {
        let found = samples.get(*key).unwrap_or_else(|| panic!("no {key} in {:#?}", samples.keys()));
        assert_eq!(found, value, "{key}");
    }
}

fn info(resumed: bool) -> tls::Info {
    tls::Info {
        version: tls::ProtocolVersion::Tls12,
        cipher: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        group: Some("X25519"),
        server_name: None,
        alpn: None,
        key_type: Some(tls::KeyType::Rsa),
        key_algorithm: None,
        signature_algorithm: None,
        resumed,
        ech: false,
        peer: None,
        fingerprint: None,
    }
}

fn failure(phase: &'static str, reason: Reason) -> ConnRecord<'static> {
    ConnRecord {
        started: SystemTime::now(),
        listener: "edge",
        client: None,
        reported: None,
        server_name: None,
        duration: Duration::from_millis(1),
        phase,
        fault: Side::Client,
        reason,
        policy: None,
        would_reject: &[],
        detail: "",
    }
}

#[test]
fn requests_of_all_workers_are_added_up() {
    let reporter = reporter(2);
    let workers = [reporter.worker(0), reporter.worker(1)];
    for worker in &workers {
        worker.request(&record());
        worker.request(&RequestRecord { status: 0, method: "BREW", route: None, upstream: None, ..record() });
        let fault = RequestRecord {
            status: 504,
            retries: 2,
            fault: Side::Upstream,
            reason: Some(Reason::ResponseHeaderTimeout),
            upstream_duration: None,
            ..record()
        };
        worker.request(&fault);
        worker.request(&RequestRecord { status: 999, listener: "li\"st\\en\ner", ..record() });
        worker.hedged("shop", Some("10.0.0.6:8080"));
        worker.hedged("shop", Some("10.0.0.6:8080"));
        worker.hedged("shop", None);
        worker.retry_over_budget("shop");
        let unmatched = RequestRecord { host_pattern: None, ..record() };
        worker.request(&RequestRecord {
            listener: "sticky",
            session: Some("moved"),
            upstream: Some("own"),
            ..unmatched
        });
        worker.authentication("basic", "Staff", "accepted", Duration::from_micros(1500));
        let hedged = RequestRecord { server: Some("10.0.0.6:8080"), hedges: 1, hedge_won: true, ..record() };
        worker.request(&RequestRecord { listener: "other", ..hedged });
    }
    let samples = samples(&reporter);
    check(
        &samples,
        &[
            (r#"portunus_requests_total{listener="edge",route="items",method="GET",code="200"}"#, 2.0),
            (r#"portunus_requests_total{listener="edge",route="",method="other",code="none"}"#, 2.0),
            (r#"portunus_requests_total{listener="edge",route="items",method="GET",code="504"}"#, 2.0),
            (r#"portunus_requests_total{listener="li\"st\\en\ner",route="items",method="GET",code="other"}"#, 2.0),
            (r#"portunus_request_duration_seconds_count{listener="edge",route="items"}"#, 4.0),
            (r#"portunus_request_duration_seconds_bucket{le="0.0005",listener="edge",route="items"}"#, 0.0),
            (r#"portunus_request_duration_seconds_bucket{le="0.001",listener="edge",route="items"}"#, 4.0),
            (r#"portunus_request_duration_seconds_sum{listener="edge",route="items"}"#, 0.0028),
            (r#"portunus_upstream_requests_total{upstream="shop",server="10.0.0.5:8080"}"#, 6.0),
            (r#"portunus_upstream_failures_total{upstream="shop",server="10.0.0.5:8080"}"#, 2.0),
            (r#"portunus_upstream_retries_total{upstream="shop"}"#, 4.0),
            (r#"portunus_upstream_hedges_total{upstream="shop",server="10.0.0.6:8080"}"#, 4.0),
            (r#"portunus_upstream_hedges_won_total{upstream="shop",server="10.0.0.6:8080"}"#, 2.0),
            (r#"portunus_upstream_hedges_over_budget_total{upstream="shop"}"#, 2.0),
            (r#"portunus_upstream_retries_over_budget_total{upstream="shop"}"#, 2.0),
            (r#"portunus_upstream_sessions_total{upstream="own",outcome="moved"}"#, 2.0),
            (r#"portunus_authentication_duration_seconds_count{method="basic",asked="Staff",outcome="accepted"}"#, 2.0),
            (r#"portunus_request_duration_seconds_count{listener="edge",route=""}"#, 2.0),
            (r#"portunus_host_requests_total{host="*.example.com",code="2xx"}"#, 4.0),
            (r#"portunus_upstream_duration_seconds_count{upstream="shop",server="10.0.0.5:8080"}"#, 4.0),
            (r#"portunus_upstream_duration_seconds_count{upstream="shop",server="10.0.0.6:8080"}"#, 2.0),
            (r#"portunus_faults_total{side="upstream",reason="response_header_timeout"}"#, 2.0),
        ],
    );
}

#[test]
fn connections_and_handshakes_are_distinguished() {
    let reporter = reporter(1);
    let worker = reporter.worker(0);
    let client: Option<SocketAddr> = Some("192.0.2.7:1".parse().unwrap());
    for _ in 0..3 {
        worker.connection_opened("edge");
    }
    worker.bytes_moved("edge", client, 10, 20);
    worker.connection_closed("edge", client, 1, 2);
    worker.handshake("edge", &info(false), Duration::from_micros(300));
    worker.handshake("edge", &info(true), Duration::from_micros(90));
    worker.connection_failed(&failure("accept", Reason::TooManyConnections));
    worker.connection_failed(&failure("tls_handshake", Reason::TlsHandshakeFailed));
    worker.connection_failed(&failure("head", Reason::IdleWithoutRequest));
    let handshakes = |resumed: bool| {
        format!(
            "portunus_tls_handshakes_total{{listener=\"edge\",version=\"TLSv1.2\",\
             cipher=\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\",key_type=\"RSA\",resumed=\"{resumed}\"}}"
        )
    };
    check(
        &samples(&reporter),
        &[
            (r#"portunus_connections_accepted_total{listener="edge"}"#, 3.0),
            (r#"portunus_connections_closed_total{listener="edge"}"#, 1.0),
            (r#"portunus_connections_open{listener="edge"}"#, 2.0),
            (r#"portunus_received_bytes_total{listener="edge"}"#, 11.0),
            (r#"portunus_sent_bytes_total{listener="edge"}"#, 22.0),
            (&handshakes(false), 1.0),
            (&handshakes(true), 1.0),
            (r#"portunus_tls_handshake_duration_seconds_count{listener="edge",resumed="true"}"#, 1.0),
            (r#"portunus_connections_rejected_total{listener="edge",reason="too_many_connections"}"#, 1.0),
            (r#"portunus_tls_handshake_failures_total{listener="edge",reason="tls_handshake_failed"}"#, 1.0),
            (r#"portunus_connections_failed_total{listener="edge",phase="head",reason="idle_without_request"}"#, 1.0),
            (r#"portunus_faults_total{side="client",reason="idle_without_request"}"#, 1.0),
        ],
    );
}

#[test]
fn slow_events_are_shown() {
    let reporter = reporter(1);
    reporter.generation(1);
    reporter.reload(true, 2);
    reporter.reload(false, 2);
    let not_after = SystemTime::now() + Duration::from_secs(10 * 86_400 + 3_600);
    let certificate = |name: &str| CertificateExpiry { name: name.into(), key_type: tls::KeyType::Ecdsa, not_after };
    reporter.keystore_loaded("main", vec![certificate("a.example"), certificate("*.b.example")]);
    reporter.keystore_failed("main");
    reporter.keystore_failed("gone");
    reporter.watch_upstreams(Box::new(|| {
        let server = |name: &str, in_flight, is_up: bool| ServerView {
            name: name.into(),
            zone: is_up.then(|| "eu-1".to_owned()),
            in_flight,
            is_up,
            is_ejected: !is_up,
        };
        let servers = vec![server("10.0.0.5:8080", 3, true), server("10.0.0.6:8080", 0, false)];
        vec![UpstreamView {
            name: "shop".into(),
            in_flight: 5,
            queue_length: Some(2),
            mirrored: [("sent", 7), ("failed", 0), ("dropped", 1)],
            servers,
        }]
    }));
    reporter.ticket_keys_rotated();
    reporter.retain(|keystore| keystore == "main");
    let samples = samples(&reporter);
    check(
        &samples,
        &[
            ("portunus_config_generation", 2.0),
            (r#"portunus_config_reloads_total{result="success"}"#, 1.0),
            (r#"portunus_config_reloads_total{result="failure"}"#, 1.0),
            ("portunus_config_last_reload_successful", 0.0),
            (r#"portunus_keystore_loads_total{keystore="main",result="success"}"#, 1.0),
            (r#"portunus_keystore_loads_total{keystore="main",result="failure"}"#, 1.0),
            (r#"portunus_keystore_certificates{keystore="main"}"#, 2.0),
            (r#"portunus_upstream_server_up{upstream="shop",server="10.0.0.5:8080"}"#, 1.0),
            (r#"portunus_upstream_server_up{upstream="shop",server="10.0.0.6:8080"}"#, 0.0),
            (r#"portunus_upstream_server_ejected{upstream="shop",server="10.0.0.6:8080"}"#, 1.0),
            (r#"portunus_upstream_server_in_flight{upstream="shop",server="10.0.0.5:8080"}"#, 3.0),
            (r#"portunus_upstream_server_info{upstream="shop",server="10.0.0.5:8080",zone="eu-1"}"#, 1.0),
            (r#"portunus_upstream_in_flight{upstream="shop"}"#, 5.0),
            (r#"portunus_upstream_queue_length{upstream="shop"}"#, 2.0),
            (r#"portunus_mirrored_requests_total{upstream="shop",outcome="sent"}"#, 7.0),
            (r#"portunus_mirrored_requests_total{upstream="shop",outcome="dropped"}"#, 1.0),
            ("portunus_tls_ticket_key_rotations_total", 1.0),
            (&format!("portunus_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
        ],
    );
    assert!(!samples.keys().any(|key| key.contains("gone")));
    let days = samples[r#"portunus_certificate_expiry_days{keystore="main",name="*.b.example",key_type="ECDSA"}"#];
    assert!(days > 10.0 && days < 10.05, "{days}");
    assert!(samples["process_open_fds"] >= 3.0 && samples["process_resident_memory_bytes"] > 0.0);
    assert!(samples["process_start_time_seconds"] > 1.7e9);
}

#[test]
fn labels_are_bounded_and_the_rest_is_counted() {
    let reporter = reporter(1);
    let worker = reporter.worker(0);
    for i in 0..10_000 {
        worker.request(&RequestRecord { route: Some(&format!("route-{i}")), ..record() });
    }
    let samples = samples(&reporter);
    let of_requests = |key: &&String| key.starts_with("portunus_requests_total{");
    assert_eq!(samples.keys().filter(of_requests).count(), 4097);
    let total: f64 = samples.iter().filter(|(key, _)| of_requests(key)).map(|(_, value)| value).sum();
    assert_eq!(total, 10_000.0, "nothing is lost in the sum");
    check(&samples, &[(r#"portunus_label_overflows_total{family="requests"}"#, 5904.0)]);
}

#[test]
fn the_heaviest_twenty_clients_are_shown() {
    let reporter = reporter(2);
    let workers = [reporter.worker(0), reporter.worker(1)];
    for n in 0..100_u64 {
        let client: SocketAddr = format!("[2001:db8:0:{n:x}::1]:1").parse().unwrap();
        for worker in &workers {
            worker.connection_closed("edge", Some(client), n * 1000, 7);
        }
    }
    // A worker shows its table once a second at most, and only when it ticks.
    let published = |worker: &WorkerReport| worker.flush();
    std::thread::sleep(Duration::from_millis(1001));
    workers.iter().for_each(published);
    let samples = samples(&reporter);
    assert_eq!(samples.keys().filter(|key| key.starts_with("portunus_client_sent_bytes_total")).count(), 20);
    check(
        &samples,
        &[
            (r#"portunus_client_received_bytes_total{client="2001:db8:0:63::/64"}"#, 198_000.0),
            (r#"portunus_client_connections_total{client="2001:db8:0:50::/64"}"#, 2.0),
        ],
    );
    let json: serde_json::Value = serde_json::from_str(&reporter.clients_json(false)).unwrap();
    assert_eq!(json["clients"].as_array().unwrap().len(), 100);
    assert_eq!(json["clients"][0]["bytes_received"], 198_000);
}

#[test]
fn a_worker_in_the_place_of_a_dead_one_goes_on_counting() {
    let reporter = reporter(1);
    let dead = reporter.worker(0);
    dead.connection_opened("edge");
    dead.connection_opened("edge");
    dead.request(&record());
    drop(dead);
    let next = reporter.worker(0);
    next.connection_opened("edge");
    next.request(&record());
    // Asked for while the first still lives, a second one counts for itself.
    let beside = reporter.worker(0);
    beside.connection_opened("edge");
    check(
        &samples(&reporter),
        &[
            (r#"portunus_connections_accepted_total{listener="edge"}"#, 4.0),
            (r#"portunus_connections_open{listener="edge"}"#, 2.0),
            (r#"portunus_requests_total{listener="edge",route="items",method="GET",code="200"}"#, 2.0),
        ],
    );
    drop(next);
}
