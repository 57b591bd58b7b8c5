//! What operators load into Prometheus and Grafana (packaging/prometheus, packaging/grafana), held against metrics that the program really shows, by Debian's promtool.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use telemetry::{Metric, Reporter};

use crate::harness::secure::Secure;
use crate::harness::{Gate, Upstream, certificates, connect, exchange, vacant, wait_until};

fn packaging(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

fn promtool(arguments: &[&str]) {
    let (is_good, said) = run(arguments, "");
    assert!(is_good, "{arguments:?}: {said}");
}

/// What it finds odd about a scrape.
fn lint(scrape: &str) -> String {
    run(&["check", "metrics"], scrape).1
}

fn run(arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(packaging("prometheus"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool is installed (Debian package prometheus)");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

/// The expressions of the rules and of the dashboard.
fn expressions() -> Vec<String> {
    let rules = fs::read_to_string(packaging("prometheus/alerts.yaml")).unwrap();
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(packaging("grafana/portunus.json")).unwrap()).unwrap();
    let mut all = Vec::new();
    collect(&dashboard, &mut all);
    assert!(all.len() > 30, "the dashboard has targets");
    // Each rule, without what it says of itself.
    all.extend(rules.split("- alert:").skip(1).map(|rule| rule.split("labels: {").next().unwrap().to_owned()));
    all
}

/// What stands under `expr`, `definition` and `query` anywhere.
fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if matches!(name.as_str(), "expr" | "definition") => found.push(text.clone()),
                    value => collect(value, found),
                }
            }
        }
        _ => {}
    }
}

/// Metrics in an expression, each with the labels that it is asked by.
fn metrics_in(expression: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut found = Vec::new();
    for start in ["portunus_", "process_"] {
        for (at, _) in expression.match_indices(start) {
            if at > 0 && is_name(expression.as_bytes()[at - 1]) {
                continue;
            }
            let rest = &expression[at..];
            let end = rest.bytes().position(|byte| !is_name(byte)).unwrap_or(rest.len());
            let labels = match rest[end..].strip_prefix('{') {
                Some(inner) => inner
                    .split('}')
                    .next()
                    .unwrap()
                    .split(',')
                    .map(|pair| pair.split(['=', '!', '~']).next().unwrap().trim().to_owned())
                    .collect(),
                None => Vec::new(),
            };
            found.push((rest[..end].to_owned(), labels));
        }
    }
    found
}

/// The metric that a series is of.
fn family(series: &str) -> &str {
    ["_bucket", "_count", "_sum"].iter().find_map(|end| series.strip_suffix(end)).unwrap_or(series)
}

/// Metrics that have a value only once something happens that this test does not have happen: orders of certificates, key servers, keystores that fail, queues, retries without end.
const OF_OTHERS: [&str; 10] = [
    "portunus_acme_demands_total",
    "portunus_acme_failing_certificates",
    "portunus_acme_missing_certificates",
    "portunus_acme_names_on_demand",
    "portunus_connections_rejected_total",
    "portunus_keyless_unavailable",
    "portunus_upstream_overflows_total",
    "portunus_upstream_queue_length",
    "portunus_upstream_retries_over_budget_total",
    "portunus_policy_decisions_total",
];

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    promtool(&["check", "rules", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts.test.yaml"]);
    let scrape = scrape();
    let said = lint(&scrape);
    // It says days beside the time stamp that rules are made of.
    let odd: Vec<_> = said
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("portunus_certificate_expiry_days "))
        .collect();
    assert!(odd.is_empty(), "promtool check metrics: {odd:#?}");
    let shown: BTreeSet<&str> =
        scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let log = config::LogConfig { access: None, ..config::LogConfig::default() };
    let reporter = Reporter::start(&log, 1).unwrap();
    let known: BTreeMap<String, Metric> =
        telemetry::reference::metrics(&reporter).into_iter().map(|metric| (metric.name.clone(), metric)).collect();
    let mut asked = BTreeSet::new();
    for expression in expressions() {
        for (series, labels) in metrics_in(&expression) {
            let name = family(&series);
            let metric = known.get(name).unwrap_or_else(|| panic!("there is no metric {name}: {expression}"));
            assert_eq!(name == series, metric.kind != "histogram", "{series}: {expression}");
            for label in &labels {
                let is_known = metric.labels.contains(label) || ["job", "instance", "le"].contains(&label.as_str());
                assert!(is_known, "{name} has no label {label}: {expression}");
            }
            asked.insert(name.to_owned());
        }
    }
    assert!(asked.len() > 30, "{asked:?}");
    let missing: Vec<_> =
        asked.iter().filter(|name| !shown.contains(name.as_str()) && !OF_OTHERS.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "not in a scrape: {missing:?}\n{scrape}");
}

/// The metrics of a server to which a bit of everything has happened.
fn scrape() -> String {
    let dir = certificates(&[("a.example", false)]);
    let document = "{ openapi: 3.1.0, info: { title: a, version: '1' }, paths: { /c: { get: { responses: { '200': { description: a } } } } } }";
    fs::write(dir.path().join("api.yaml"), document).unwrap();
    let upstream = Upstream::ok();
    let text = format!(
        "listeners:
  - {{ name: tls, bind: '127.0.0.1:0', tls: {{ keystore: main }} }}
  - {{ name: web, bind: '127.0.0.1:0' }}
keystores: {{ main: {{ folder: certs }} }}
contracts: {{ api: {{ document: api.yaml }} }}
upstreams:
  app: {{ servers: ['{}', '{}'] }}
routes:
  - {{ hosts: a.example, upstream: app }}
  - {{ hosts: c.example, upstream: app, contract: api }}
admin: {{ bind: '127.0.0.1:0' }}
",
        upstream.address,
        vacant()
    );
    let gate = Gate::start_in(dir, &text);
    for (host, path) in
        [("a.example", "/"), ("a.example", "/x"), ("c.example", "/c"), ("c.example", "/d"), ("b.example", "/")]
    {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        exchange(gate.address("web"), request.as_bytes());
    }
    drop(connect(gate.address("tls")));
    exchange(gate.address("tls"), b"GET / HTTP/1.1\r\n\r\n");
    let mut secure = Secure::connect(gate.address("tls"), gate.dir.path(), "a.example", "http/1.1");
    secure.finish();
    let wanted =
        ["portunus_tls_handshakes_total{", "portunus_tls_handshake_failures_total{", "portunus_host_requests_total{"];
    let mut scrape = String::new();
    wait_until("all of it is counted", || {
        scrape = gate.metrics().split_once("\r\n\r\n").unwrap().1.to_owned();
        wanted.iter().all(|start| scrape.lines().any(|line| line.starts_with(start)))
    });
    scrape
}
