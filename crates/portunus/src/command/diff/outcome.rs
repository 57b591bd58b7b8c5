//! What becomes of a logged request, as far as a line of the log lets it be known, in parts that can be compared.

use std::net::{IpAddr, Ipv4Addr};

use config::Config;
use proxy::explain::{Explainer, Explanation, GroupView, Outcome as PolicyOutcome, PolicyView, Question, Url};
use telemetry::LoggedRequest;

/// Whom a request comes from that came by a Unix socket: nobody (RFC 5737).
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// What becomes of a request, by part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    /// The parts by which requests are put into groups.
    pub(super) parts: Vec<(&'static str, String)>,
    /// What is sent to the upstream: the request line, and the host. Each request has its own.
    pub(super) sent: Option<String>,
    /// Where a redirect leads.
    pub(super) location: Option<String>,
}

/// What becomes of a logged request under a configuration.
pub(super) fn of(explainer: &Explainer, config: &Config, request: &LoggedRequest) -> Outcome {
    match explainer.explain(&question(config, request)) {
        Ok(explanation) => outcome(&explanation),
        // Its listener is not there.
        Err(_) => Outcome { parts: vec![("listener", "none".to_owned())], ..Outcome::default() },
    }
}

/// The request of a line, as who sent it would send it to this configuration.
fn question(config: &Config, request: &LoggedRequest) -> Question {
    let LoggedRequest { method, host, target, is_http_1_0, client, proxy, is_tls, server_name, user_agent, .. } =
        request;
    let version = if *is_http_1_0 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head = format!("{method} {target} {version}\r\n");
    let mut field = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
    if !host.is_empty() {
        field("Host", host);
    }
    user_agent.iter().for_each(|agent| field("User-Agent", agent));
    // The proxy said it in the field that the configuration believes.
    if let (Some(_), Some(client), Some(name)) = (proxy, client, config.forwarding.client_field()) {
        match (name, client) {
            ("forwarded", IpAddr::V6(v6)) => field(name, &format!("for=\"[{v6}]\"")),
            ("forwarded", IpAddr::V4(v4)) => field(name, &format!("for={v4}")),
            _ => field(name, &client.to_string()),
        }
    }
    head.push_str("\r\n");
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    Question {
        listener: Some(request.listener.clone()),
        url: Url {
            is_https: *is_tls,
            authority: host.clone(),
            // What the client names in its handshake, if it names anything.
            host: server_name.clone().unwrap_or_default(),
            port: port.unwrap_or(if *is_tls { 443 } else { 80 }),
            target: target.clone(),
        },
        head: head.into_bytes(),
        body: Vec::new(),
        client: proxy.or(*client).unwrap_or(NOBODY),
        certificate: None,
        is_partial: true,
    }
}

fn outcome(explanation: &Explanation) -> Outcome {
    let Explanation { tls, tunnel, client, routes, policies, contract, upstream, response, .. } = explanation;
    let mut parts = vec![("listener", explanation.listener.name.clone())];
    if let Some(tls) = tls {
        let accepted = || format!("{}, client certificate {}", tls.policy, tls.client_certificate);
        parts.push(("tls", tls.rejected.map_or_else(accepted, |alert| format!("rejected with {alert}"))));
    }
    if let Some(tunnel) = tunnel {
        parts.push(("tunnel", tunnel.upstream.clone().unwrap_or_else(|| "closed".to_owned())));
        return Outcome { parts, ..Outcome::default() };
    }
    let named = client.as_ref().map(|client| if client.is_doubtful { "doubtful" } else { "named by a trusted proxy" });
    parts.push(("client", named.unwrap_or("who connects").to_owned()));
    let taken = routes.as_ref().and_then(|routes| routes.taken());
    parts.push(("route", taken.map_or_else(|| "none".to_owned(), |route| route.name.clone())));
    let policies: Vec<String> = policies.iter().map(policy_in_words).collect();
    parts.push(("policies", if policies.is_empty() { "none".to_owned() } else { policies.join(", ") }));
    if let Some(contract) = contract {
        let operation = if contract.operation.is_empty() { "no operation" } else { &contract.operation };
        parts.push(("contract", format!("{}: {operation}, {}, {}", contract.name, contract.mode, contract.decision)));
    } else {
        parts.push(("contract", "none".to_owned()));
    }
    let result = match (upstream, response.status, response.reason) {
        (Some(upstream), ..) => {
            let in_words = |group: &GroupView| match upstream.groups.len() {
                1 => group.name.clone(),
                _ => format!("{} ({})", group.name, group.weight),
            };
            let names: Vec<String> = upstream.groups.iter().map(in_words).collect();
            format!("sent to {}", names.join(" or "))
        }
        (None, Some(status), Some(reason)) => format!("{status} {}", reason.code()),
        (None, Some(status), None) => status.to_string(),
        (None, None, Some(reason)) => reason.code().to_owned(),
        (None, None, None) => "none".to_owned(),
    };
    parts.push(("result", result));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let value = |fields: &[(Vec<u8>, Vec<u8>)], name: &str| {
        fields.iter().find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| text(value))
    };
    let host = |upstream: &proxy::explain::UpstreamView| {
        value(&upstream.fields, "host").or_else(|| value(&upstream.fields, ":authority")).unwrap_or_default()
    };
    let sent = upstream.as_ref().map(|upstream| format!("{}, Host {}", upstream.line, host(upstream)));
    Outcome { parts, sent, location: value(&response.fields, "location") }
}

fn policy_in_words(policy: &PolicyView) -> String {
    let outcome = match policy.outcome() {
        PolicyOutcome::Passed => "passes".to_owned(),
        PolicyOutcome::Unknown => "depends".to_owned(),
        PolicyOutcome::Rejected(status, reason) => format!("rejects ({status} {})", reason.code()),
    };
    let mode = if policy.logs_only { " (logs only)" } else { "" };
    format!("{} {outcome}{mode}", policy.name)
}
