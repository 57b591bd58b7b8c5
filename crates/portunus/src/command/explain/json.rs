//! An explanation for programs. Its members are stable: docs/explain.schema.json describes them, and what it has none for is never there.

use proxy::explain::{
    Check, ContractView, Explanation, GroupView, Outcome, PolicyView, ResponseView, RouteView, RoutesView, Server,
    TlsView, UpstreamView,
};
use proxy::route::Standing;
use serde_json::{Map, Value, json};

/// The whole document.
pub(super) fn of(explanation: &Explanation) -> Value {
    let Explanation { listener, tls, tunnel, client, removed, announced, .. } = explanation;
    let Explanation { routes, policies, contract, upstream, response, .. } = explanation;
    let mut members = Members::default();
    members.put("version", 1);
    members.put(
        "listener",
        json!({
            "name": listener.name,
            "bind": listener.bind,
            "service": listener.service,
            "chosen_by": listener.chosen_by,
            "proxy_protocol": listener.proxy_protocol,
        }),
    );
    members.some("tls", tls.as_ref().map(of_tls));
    members.some(
        "tunnel",
        tunnel.as_ref().map(|tunnel| {
            json!({
                "upstream": tunnel.upstream,
                "rule": tunnel.rule,
                "passthrough": tunnel.passthrough,
                "servers": servers(&tunnel.servers),
                "send_proxy": tunnel.send_proxy.unwrap_or("off"),
                "transparent": tunnel.is_transparent,
                "denied": tunnel.is_denied,
            })
        }),
    );
    members.some(
        "client",
        client
            .as_ref()
            .map(|client| json!({ "address": client.address, "proxy": client.proxy, "doubtful": client.is_doubtful })),
    );
    members.put("removed", json!(removed));
    members.some("announced", announced.as_deref());
    members.some("routes", routes.as_ref().map(of_routes));
    members.put("policies", policies.iter().map(of_policy).collect::<Value>());
    members.some("contract", contract.as_ref().map(of_contract));
    members.some("upstream", upstream.as_ref().map(of_upstream));
    members.put("response", of_response(response));
    members.done()
}

/// An object in the making, without members that have nothing to say.
#[derive(Default)]
struct Members(Map<String, Value>);

impl Members {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        value.into_iter().for_each(|value| self.put(name, value));
    }

    /// A text that is left out where it is empty.
    fn text(&mut self, name: &str, text: &str) {
        self.some(name, Some(text).filter(|text| !text.is_empty()));
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

fn of_tls(tls: &TlsView) -> Value {
    let mut members = Members::default();
    members.some("server_name", tls.server_name.as_deref());
    if let Some(alert) = tls.rejected {
        members.put("rejected", alert);
    }
    if !tls.policy.is_empty() {
        let mut certificate = Members::default();
        certificate.put("keystore", tls.keystore.as_str());
        certificate.put("names", json!(tls.names));
        certificate.put("default", tls.is_default);
        certificate.put("key_type", tls.key_type.as_str());
        certificate.put("key_server", tls.key_on_key_server);
        certificate.some("not_after", tls.not_after.as_deref());
        certificate.text("origin", &tls.origin);
        members.put("certificate", certificate.done());
        members.put("policy", tls.policy.as_str());
        members.put("min_version", tls.min_version);
        members.put("alpn", json!(tls.alpn));
        members.put("client_certificate", tls.client_certificate);
        members.put("lacks_certificate", tls.lacks_certificate);
    }
    members.done()
}

fn of_routes(routes: &RoutesView) -> Value {
    let taken = routes.contenders.iter().find(|route| route.standing == Standing::Taken);
    let mut members = Members::default();
    members.some("taken", taken.map(|route| of_route(route).done()));
    let parameters = routes.parameters.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    members.put("parameters", parameters.collect::<Map<_, _>>());
    let lost = routes.contenders.iter().filter(|route| route.standing != Standing::Taken);
    members.put("lost", lost.map(of_loser).collect::<Value>());
    members.put("others", routes.others);
    members.done()
}

fn of_route(route: &RouteView) -> Members {
    let mut members = Members::default();
    members.put("name", route.name.as_str());
    members.put("place", route.place.as_str());
    members.put("path", route.path.as_str());
    members.put("hosts", json!(route.hosts));
    members.put("action", route.action);
    members.some("because", route.because.as_deref());
    members
}

fn of_loser(route: &RouteView) -> Value {
    let (why, detail) = match &route.standing {
        Standing::Taken => ("taken", ""),
        Standing::GivesPlace(why) => ("less_specific", *why),
        Standing::Later => ("later", ""),
        Standing::PathRejected => ("path_rejected", ""),
        Standing::Method => ("method", ""),
        Standing::Condition(what) => ("condition", what.as_str()),
        Standing::EmptyParameter => ("empty_parameter", ""),
        Standing::Host => ("host", ""),
        Standing::Listener => ("listener", ""),
    };
    let mut members = of_route(route);
    members.put("why", why);
    members.text("detail", detail);
    members.done()
}

fn of_policy(policy: &PolicyView) -> Value {
    let mut members = Members::default();
    members.put("name", policy.name.as_str());
    members.put("named_by", policy.named_by);
    members.put("mode", if policy.logs_only { "log" } else { "enforce" });
    outcome(policy.outcome(), &mut members);
    members.put("checks", policy.checks.iter().map(of_check).collect::<Value>());
    members.done()
}

fn of_check(check: &Check) -> Value {
    let mut members = Members::default();
    members.put("kind", check.kind);
    outcome(check.outcome, &mut members);
    members.text("about", &check.about);
    members.done()
}

fn outcome(outcome: Outcome, members: &mut Members) {
    match outcome {
        Outcome::Passed => members.put("outcome", "passed"),
        Outcome::Unknown => members.put("outcome", "unknown"),
        Outcome::Rejected(status, reason) => {
            members.put("outcome", "rejected");
            members.put("status", status);
            members.put("reason", reason.code());
        }
    }
}

fn of_contract(contract: &ContractView) -> Value {
    let mut members = Members::default();
    members.put("name", contract.name.as_str());
    members.text("operation", &contract.operation);
    members.put("mode", contract.mode);
    members.put("decision", contract.decision);
    members.some("reason", contract.reason.map(|reason| reason.code()));
    members.text("place", &contract.place);
    members.text("detail", &contract.what);
    members.put("violations", contract.violations);
    members.put("unverified_token", contract.leaves_token);
    members.done()
}

fn of_upstream(upstream: &UpstreamView) -> Value {
    let mut members = Members::default();
    members.put("upstreams", upstream.groups.iter().map(of_group).collect::<Value>());
    members.some(
        "proxy_header",
        upstream.header.as_ref().map(|(version, client)| json!({ "version": version, "client": client })),
    );
    members.some("source", upstream.source.as_deref());
    members.put("request_line", upstream.line.as_str());
    members.put("fields", fields(&upstream.fields));
    members.put("host_of_server", upstream.host_of_server);
    members.some(
        "mirror",
        upstream.mirror.as_ref().map(|(name, percent)| json!({ "upstream": name, "percent": percent })),
    );
    members.done()
}

fn of_group(group: &GroupView) -> Value {
    let mut members = Members::default();
    members.put("name", group.name.as_str());
    members.put("weight", group.weight);
    members.put("protocol", group.protocol);
    members.put("tls", group.tls);
    members.text("balance", &group.balance);
    members.put("servers", servers(&group.servers));
    members.done()
}

fn servers(servers: &[Server]) -> Value {
    let server = |server: &Server| {
        json!({
            "address": server.address,
            "weight": server.weight,
            "priority": server.priority,
            "backup": server.is_backup,
        })
    };
    servers.iter().map(server).collect()
}

fn of_response(response: &ResponseView) -> Value {
    let mut members = Members::default();
    members.some("status", response.status);
    if let Some(reason) = response.reason {
        members.put("reason", reason.code());
        members.put("fault", reason.side().of_request().word());
    }
    members.put("fields", fields(&response.fields));
    members.text("body", &String::from_utf8_lossy(&response.body));
    members.done()
}

/// Fields in order; bytes that are no UTF-8 are replaced.
fn fields(fields: &[(Vec<u8>, Vec<u8>)]) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| json!({ "name": text(name), "value": text(value) })).collect()
}
