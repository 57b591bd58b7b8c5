//! An explanation for people: one word for what each part is about, and what is said of it beside.

use std::fmt::Write as _;

use proxy::explain::{
    ContractView, Explanation, GroupView, Outcome, PolicyView, ResponseView, RouteView, RoutesView, Server, TlsView,
    TunnelView, UpstreamView,
};
use proxy::route::Standing;

/// Width of the first column.
const COLUMN: usize = 11;

/// Most characters of a body that are shown.
const MOST_BODY: usize = 500;

/// The whole text, which ends in a line break.
pub(super) fn of(explanation: &Explanation) -> String {
    let mut out = String::new();
    let Explanation { listener, tls, tunnel, client, removed, announced, .. } = explanation;
    let Explanation { routes, policies, contract, upstream, response, .. } = explanation;
    let how = match listener.chosen_by {
        "scheme" => ", the only one for this scheme",
        _ => "",
    };
    let header = if listener.proxy_protocol { ", behind a PROXY header" } else { "" };
    row(&mut out, "listener", &format!("{} ({}){how}{header}", listener.name, listener.bind.join(", ")));
    tls.iter().for_each(|tls| of_tls(&mut out, tls));
    tunnel.iter().for_each(|tunnel| of_tunnel(&mut out, tunnel));
    if let Some(client) = client {
        let said = match client.is_doubtful {
            true => format!("{}, since what it sends of its client is no address", client.address),
            false => format!("{}, as the trusted proxy {} says", client.address, client.proxy),
        };
        row(&mut out, "client", &said);
    }
    if !removed.is_empty() {
        row(&mut out, "removed", &format!("{}: before anything looks at them", removed.join(", ")));
    }
    if let Some(method) = announced {
        row(
            &mut out,
            "preflight",
            &format!("of a {} request, whose route and policies decide", shown(method.as_bytes())),
        );
    }
    routes.iter().for_each(|routes| of_routes(&mut out, routes));
    policies.iter().for_each(|policy| of_policy(&mut out, policy));
    contract.iter().for_each(|contract| of_contract(&mut out, contract));
    upstream.iter().for_each(|upstream| of_upstream(&mut out, upstream));
    of_response(&mut out, response, upstream.as_ref());
    out
}

/// A row, with a word in the first column where it is not the one above.
fn row(out: &mut String, word: &str, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{word:COLUMN$}{text}");
}

fn of_tls(out: &mut String, tls: &TlsView) {
    let name = tls.server_name.as_deref().unwrap_or("no server name");
    if let Some(alert) = tls.rejected {
        let fix = match alert {
            "unrecognized_name" if tls.server_name.is_none() => "the client names no server, and `require_sni` is on",
            "unrecognized_name" => "no certificate covers the name, and `strict_sni` is on",
            "access_denied" => "the client certificate has none of the names in `allow_san`",
            _ => "no certificate that the client could verify",
        };
        return row(out, "tls", &format!("{name}: the handshake ends with the alert {alert}: {fix}"));
    }
    let default = if tls.is_default { ", the default one, which most clients reject for this name" } else { "" };
    let until = tls.not_after.as_ref().map(|day| format!(", until {day}")).unwrap_or_default();
    let place = if tls.key_on_key_server { ", key on a key server" } else { "" };
    row(
        out,
        "tls",
        &format!(
            "{name}: certificate {} ({}{until}){default}{place}, from {}",
            tls.names.join(", "),
            tls.key_type,
            tls.origin
        ),
    );
    let client = match (tls.client_certificate, tls.lacks_certificate) {
        (_, true) => "client certificate required: the handshake fails; with one, what follows holds",
        ("required", _) => "client certificate required",
        ("optional", _) => "client certificate asked for",
        _ => "no client certificate asked for",
    };
    let alpn = tls.alpn.join(", ");
    row(out, "", &format!("policy {}, {} and later, ALPN {alpn}; {client}", tls.policy, tls.min_version));
}

fn of_tunnel(out: &mut String, tunnel: &TunnelView) {
    let rule = if tunnel.rule.is_empty() { String::new() } else { format!(", by the rule for {}", tunnel.rule) };
    let how = if tunnel.passthrough { "TLS passes through unopened" } else { "its bytes are carried" };
    match &tunnel.upstream {
        _ if tunnel.is_denied => row(out, "tunnel", "a policy keeps the client out: the connection is closed"),
        Some(upstream) => {
            row(out, "tunnel", &format!("{how} to {upstream}{rule}"));
            row(out, "", &format!("servers {}", of_servers(&tunnel.servers)));
            if tunnel.is_transparent {
                row(out, "", "connects from the client's own address");
            }
            if let Some(version) = tunnel.send_proxy {
                row(out, "", &format!("a PROXY header ({version}) that names the client goes ahead"));
            }
        }
        None => row(out, "tunnel", "no rule fits: the connection is closed"),
    }
}

fn of_routes(out: &mut String, routes: &RoutesView) {
    let taken = routes.contenders.iter().find(|route| route.standing == Standing::Taken);
    match taken {
        Some(route) => row(out, "route", &named(route)),
        None => row(out, "route", "none"),
    }
    if let Some(because) = taken.and_then(|route| route.because.as_ref()) {
        row(out, "", &format!("because {because}"));
    }
    for (name, value) in &routes.parameters {
        let value = if value.is_empty() { "is empty".to_owned() } else { format!("= {}", shown(value.as_bytes())) };
        row(out, "", &format!("{name} {value}"));
    }
    for route in routes.contenders.iter().filter(|route| route.standing != Standing::Taken) {
        let named = named(route);
        let text = match &route.standing {
            Standing::Taken => continue,
            Standing::GivesPlace(why) => format!("before {named}: {why}"),
            Standing::Later => format!("before {named}: of routes in order the first that fits counts"),
            Standing::PathRejected => format!("not {named}: servers could take the path for another one"),
            Standing::Method => format!("not {named}: it serves other methods"),
            Standing::Condition(what) => format!("not {named}: {what}"),
            Standing::EmptyParameter => format!("not {named}: a parameter of its path is empty"),
            Standing::Host if route.hosts.is_empty() => format!("not {named}: the host has routes of its own"),
            Standing::Host => format!("not {named}: a more specific host than {} has routes", route.hosts.join(", ")),
            Standing::Listener => format!("not {named}: it belongs to other listeners"),
        };
        row(out, "", &text);
    }
    if routes.others > 0 {
        let noun = if routes.others == 1 { "route does" } else { "routes do" };
        row(out, "", &format!("{} other {noun} not match host and path", routes.others));
    }
}

/// A route's name, place and path; who gives no name is called by the path.
fn named(route: &RouteView) -> String {
    let path = if route.name.ends_with(&route.path) { String::new() } else { format!(" {}", route.path) };
    format!("{} ({}){path}", route.name, route.place)
}

fn of_policy(out: &mut String, policy: &PolicyView) {
    let outcome = match policy.outcome() {
        Outcome::Passed => "passes".to_owned(),
        Outcome::Unknown => "depends on what is not known here; taken as passed".to_owned(),
        Outcome::Rejected(status, reason) if policy.logs_only => {
            format!("would reject ({status} {}), and only logs", reason.code())
        }
        Outcome::Rejected(status, reason) => format!("rejects: {status} {}", reason.code()),
    };
    row(out, "policy", &format!("{} (of the {}) {outcome}", policy.name, policy.named_by));
    for check in &policy.checks {
        let outcome = match check.outcome {
            Outcome::Passed => "passes",
            Outcome::Rejected(..) => "does not pass",
            Outcome::Unknown => "not known",
        };
        let about = if check.about.is_empty() { String::new() } else { format!(": {}", shown(check.about.as_bytes())) };
        row(out, "", &format!("  {} {outcome}{about}", check.kind));
    }
}

fn of_contract(out: &mut String, contract: &ContractView) {
    let operation = if contract.operation.is_empty() { "no such operation" } else { &contract.operation };
    let decision = match contract.decision {
        "off" => "is not validated".to_owned(),
        "unknown" => "would be validated; head and body are not known".to_owned(),
        "passed" => "is kept".to_owned(),
        "logged" => "is broken, and only logs".to_owned(),
        _ => "is broken".to_owned(),
    };
    row(
        out,
        "contract",
        &format!("{}, {}: {decision} (mode {})", contract.name, shown(operation.as_bytes()), contract.mode),
    );
    if let Some(reason) = contract.reason {
        let more = match contract.violations {
            0 | 1 => String::new(),
            several => format!(", and {} more", several - 1),
        };
        let what = if contract.what.is_empty() { String::new() } else { format!(": {}", contract.what) };
        row(
            out,
            "",
            &format!("{}: {}{}{more}", reason.code(), shown(contract.place.as_bytes()), shown(what.as_bytes())),
        );
    }
    if contract.leaves_token {
        row(out, "", "whether its token is good is not known here; taken as good");
    }
}

fn of_servers(servers: &[Server]) -> String {
    let text = |server: &Server| {
        let weight = if server.weight == 1 { String::new() } else { format!(" weight {}", server.weight) };
        let priority = if server.priority == 0 { String::new() } else { format!(" priority {}", server.priority) };
        let backup = if server.is_backup { " backup" } else { "" };
        format!("{}{weight}{priority}{backup}", server.address)
    };
    servers.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn protocol(group: &GroupView) -> String {
    let protocol = match group.protocol {
        "http2" => "HTTP/2",
        "auto" => "HTTP/2 or HTTP/1.1",
        _ => "HTTP/1.1",
    };
    format!("{protocol}{}", if group.tls { " over TLS" } else { "" })
}

fn servers_and_balance(group: &GroupView) -> String {
    let one = group.balance.is_empty() || group.servers.len() < 2;
    let balance = if one { String::new() } else { format!(", {}", group.balance) };
    format!("{}{balance}", of_servers(&group.servers))
}

fn of_upstream(out: &mut String, upstream: &UpstreamView) {
    match &upstream.groups[..] {
        [group] => {
            row(out, "sends", &format!("to {}, {}", group.name, protocol(group)));
            row(out, "", &format!("servers {}", servers_and_balance(group)));
        }
        several => {
            let name = |group: &GroupView| format!("{} (weight {})", group.name, group.weight);
            row(out, "sends", &format!("to {}", several.iter().map(name).collect::<Vec<_>>().join(" or ")));
            for group in several {
                row(out, "", &format!("{}, {}: servers {}", group.name, protocol(group), servers_and_balance(group)));
            }
        }
    }
    if let Some(source) = &upstream.source {
        row(out, "", &format!("connects from the client's own address {source}"));
    }
    if let Some((version, client)) = &upstream.header {
        let named =
            client.as_ref().map_or("names nobody, since who the client is is not certain".to_owned(), |client| {
                format!("names {client}")
            });
        row(out, "", &format!("a PROXY header ({version}) goes ahead, which {named}"));
    }
    row(out, "", &format!("  {}", shown(upstream.line.as_bytes())));
    for (name, value) in &upstream.fields {
        row(out, "", &format!("  {}: {}", shown(name), shown(value)));
    }
    if upstream.host_of_server && upstream.groups.iter().map(|group| group.servers.len()).sum::<usize>() > 1 {
        row(out, "", "Host is that of the server; here of the first one");
    }
    if let Some((name, percent)) = &upstream.mirror {
        row(out, "copies", &format!("{percent} % to {name}"));
    }
}

fn of_response(out: &mut String, response: &ResponseView, upstream: Option<&UpstreamView>) {
    let Some(status) = response.status else {
        if let Some(upstream) = upstream {
            let names: Vec<&str> = upstream.groups.iter().map(|group| group.name.as_str()).collect();
            row(out, "response", &format!("of {}", names.join(" or ")));
            of_fields(out, response);
        } else if let Some(reason) = response.reason {
            row(out, "response", &format!("none: {}: {}", reason.code(), reason.facts().meaning));
        }
        return;
    };
    match response.reason {
        Some(reason) => {
            row(out, "response", &format!("{status} {}", reason.code()));
            let facts = reason.facts();
            row(out, "", facts.meaning);
            row(out, "", &format!("fix: {}", facts.remedy));
        }
        None => row(out, "response", &format!("{status}, by Portunus")),
    }
    of_fields(out, response);
    if response.reason.is_none() && !response.body.is_empty() {
        let body = String::from_utf8_lossy(&response.body);
        let cut: String = body.chars().take(MOST_BODY).collect();
        let more = if cut.len() < body.len() { "…" } else { "" };
        row(out, "", "");
        cut.lines().for_each(|line| row(out, "", &format!("  {}", shown(line.as_bytes()))));
        if !more.is_empty() {
            row(out, "", more);
        }
    }
}

fn of_fields(out: &mut String, response: &ResponseView) {
    for (name, value) in &response.fields {
        row(out, "", &format!("  {}: {}", shown(name), shown(value)));
    }
}

/// Bytes as text without controls, which could move a terminal.
pub(in crate::command) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}
