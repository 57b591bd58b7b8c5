//! The configuration as JSON for the admin side: everything active, no secret.
//!
//! Secrets never are in a [`Config`], only where they come from; what is taken out here are header values that look like credentials.

use serde_json::{Map, Value, json};

use super::build::{header_text, parameter_names, policy_text, version_text};
use super::contracts_json::contract_json;
use super::model::*;
use super::units::duration_text;

/// In place of a value that looks like a credential.
const REDACTED: &str = "(redacted)";

/// The configuration with its defaults filled in. Durations are texts, sizes bytes.
pub fn redacted_json(config: &Config) -> Value {
    json!({
        "workers": config.workers,
        "listeners": config.listeners.iter().map(|listener| listener_json(listener)).collect::<Vec<_>>(),
        "udp_listeners": config.udp_listeners.iter().map(|listener| udp_listener_json(listener)).collect::<Vec<_>>(),
        "keystores": config.keystores.iter().map(|(name, keystore)| (name.clone(), keystore_json(keystore))).collect::<Map<_, _>>(),
        "key_servers": config.key_servers.iter().map(|(name, group)| (name.clone(), key_servers_json(group))).collect::<Map<_, _>>(),
        "upstreams": config.upstreams.iter().map(|(name, upstream)| (name.clone(), upstream_json(upstream))).collect::<Map<_, _>>(),
        "routes": config.routes.iter().map(route_json).collect::<Vec<_>>(),
        "contracts": config.contracts.iter().map(|(name, contract)| (name.clone(), contract_json(contract))).collect::<Map<_, _>>(),
        "hosts": config.host_rules.iter().map(|rule| (rule.host.to_string(), json!({ "contract": rule.contract }))).collect::<Map<_, _>>(),
        "trusted_proxies": config.trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "forwarding": {
            "x_forwarded": config.forwarding.x_forwarded,
            "x_real_ip": config.forwarding.x_real_ip,
            "forwarded": config.forwarding.forwarded,
            "via": config.forwarding.via,
            "request_id": config.forwarding.request_id,
            "trusted_fields": config.forwarding.trusted_fields,
        },
        "admin": config.admin.as_ref().map(|admin| json!({
            "bind": endpoint(&admin.bind),
            "hosts": admin.hosts,
            "connection_timeout": duration_text(admin.connection_timeout),
        })),
        "log": {
            "access": config.log.access.as_ref().map(|access| json!({
                "format": if access.json { "json" } else { "text" },
                "to": access.path.as_ref().map_or("stdout".into(), |path| path.display().to_string()),
            })),
            "level": config.log.level,
        },
        "limits": limits_json(&config.limits),
    })
}

fn endpoint(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(address) => address.to_string(),
        Endpoint::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn listener_json(listener: &ListenerConfig) -> Value {
    json!({
        "name": listener.name,
        "bind": listener.bind.iter().map(endpoint).collect::<Vec<_>>(),
        "tls": listener.tls.as_ref().map(|tls| json!({
            "keystore": tls.keystore,
            "settings": tls_json(&tls.settings),
            "names": tls.names.iter().map(|(name, settings)| (name.clone(), tls_json(settings))).collect::<Map<_, _>>(),
            "strict_sni": tls.strict_sni,
        })),
        "tunnel": match &listener.service {
            Service::Tunnel(tunnel) => tunnel_json(tunnel),
            Service::Http | Service::RedirectToHttps { .. } => Value::Null,
        },
        "proxy_protocol": listener.proxy_protocol.as_ref().map(|rule| json!({
            "trust": trust_json(&rule.trust),
            "without_header": if rule.pass_without { "pass" } else { "refuse" },
            "header_timeout": duration_text(rule.header_timeout),
        })),
        "contract": listener.contract,
        "half_close": if listener.serves_half_closed { "serve" } else { "abort" },
        "redirect_to_https": match listener.service {
            Service::Http | Service::Tunnel(_) => Value::Null,
            Service::RedirectToHttps { port } => json!({ "port": port }),
        },
    })
}

fn udp_listener_json(listener: &UdpListenerConfig) -> Value {
    let to = match &listener.to {
        TargetsConfig::Fixed { v4, v6 } => {
            json!([v4, v6].into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>())
        }
        TargetsConfig::Destination { .. } => Value::Null,
    };
    let destinations = match &listener.to {
        TargetsConfig::Fixed { .. } => Value::Null,
        TargetsConfig::Destination { allow } => destinations_json(allow),
    };
    json!({
        "name": listener.name,
        "bind": listener.bind.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "to": to,
        "to_destinations": destinations,
        "proxy_protocol": header_text(listener.header),
        "trust": trust_json(&listener.trust),
        "without_header": if listener.pass_without_header { "pass" } else { "refuse" },
        "answer_header": listener.response_header,
        "source": source_json(&listener.source),
        "idle_timeout": duration_text(listener.idle_timeout),
        "max_flows": listener.max_flows,
        "max_flows_per_client": listener.max_flows_per_client,
    })
}

fn destinations_json(allow: &[AllowedDestination]) -> Value {
    let one = |one: &AllowedDestination| json!({ "network": one.network.to_string(), "ports": format!("{}-{}", one.ports.start(), one.ports.end()) });
    allow.iter().map(one).collect()
}

fn trust_json(trust: &Trust) -> Value {
    match trust {
        Trust::Networks(networks) => json!(networks.iter().map(ToString::to_string).collect::<Vec<_>>()),
        Trust::File(path) => json!({ "file": path }),
    }
}

fn source_json(source: &SourceConfig) -> Value {
    json!({
        "address": if source.client { "client" } else { "own" },
        "mark": source.mark,
        "allow": source.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn tunnel_json(tunnel: &TunnelConfig) -> Value {
    let rule = |rule: &TunnelRule| {
        json!({
            "server_name": rule.names.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "alpn": rule.alpn,
            "upstream": rule.upstream,
            "passthrough": rule.passthrough,
        })
    };
    json!({
        "rules": tunnel.rules.iter().map(rule).collect::<Vec<_>>(),
        "idle_timeout": tunnel.idle_timeout.map(duration_text),
        "max_lifetime": tunnel.max_lifetime.map(duration_text),
    })
}

fn tls_json(settings: &TlsSettings) -> Value {
    json!({
        "policy": policy_text(settings.policy),
        "min_version": version_text(settings.min_version),
        "alpn": settings.alpn,
        "client_certificate": settings.client_certificate.as_ref().map(|rule| json!({
            "mode": if rule.required { "required" } else { "optional" },
            "ca": rule.ca,
            "crl": rule.crl,
            "allow_san": rule.allow_san,
        })),
    })
}

fn keystore_json(keystore: &KeystoreConfig) -> Value {
    let (kind, path) = match &keystore.location {
        keystore::Location::PemFolder(path) => ("folder", path),
        keystore::Location::Pkcs12(path) => ("pkcs12", path),
        keystore::Location::Jks(path) => ("jks", path),
    };
    json!({
        kind: path,
        "password": keystore.password.as_ref().map(|secret| match secret {
            Secret::File(path) => json!({ "file": path }),
            Secret::Env(name) => json!({ "env": name }),
            Secret::Argument(_) => json!(REDACTED),
        }),
        "key_servers": keystore.key_servers,
        "default": keystore.default,
        "reload_every": duration_text(keystore.reload_every),
    })
}

fn key_servers_json(group: &KeyServersConfig) -> Value {
    let upstream = &group.upstream;
    let tls = upstream.tls.as_ref();
    json!({
        "servers": upstream.servers.iter().map(|server| address_text(&server.address)).collect::<Vec<_>>(),
        "ca": tls.map(|tls| &tls.ca),
        "client_certificate": tls.map(|tls| &tls.client_certificate),
        "client_key": tls.map(|tls| &tls.client_key),
        "name": tls.map(|tls| &tls.name),
        "connect_timeout": duration_text(upstream.connect_timeout),
        "timeout": duration_text(group.timeout),
        "total_timeout": duration_text(group.total_timeout),
        "connections": group.connections,
        "ping_every": duration_text(group.ping_every),
        "max_in_flight": upstream.max_in_flight,
        "retry_budget": upstream.retry_budget_percent,
        "ejection": { "failures": upstream.ejection.failures, "period": duration_text(upstream.ejection.period) },
    })
}

fn address_text(address: &ServerAddress) -> String {
    match address {
        ServerAddress::Ip(address) => address.to_string(),
        ServerAddress::Name(name, port) => format!("{name}:{port}"),
        ServerAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

pub(super) fn upstream_json(upstream: &UpstreamConfig) -> Value {
    let server = |server: &ServerConfig| json!({ "address": address_text(&server.address), "weight": server.weight });
    json!({
        "servers": upstream.servers.iter().map(server).collect::<Vec<_>>(),
        "protocol": match upstream.protocol { UpstreamProtocol::Http1 => "http1", UpstreamProtocol::Http2 => "http2", UpstreamProtocol::Tcp => "tcp" },
        "send_proxy": match upstream.send_proxy {
            SendProxy::Off => "off",
            SendProxy::V1 => "v1",
            SendProxy::V2 => "v2",
            SendProxy::V2Tlvs => "v2_tlvs",
        },
        "tls": upstream.tls.as_ref().map(|tls| json!({
            "ca": tls.ca,
            "name": tls.name,
            "client_certificate": tls.client_certificate,
            "client_key": tls.client_key,
            "insecure_skip_verify": !tls.verify,
            "policy": policy_text(tls.policy),
        })),
        "balance": match upstream.balance { Balance::RoundRobin => "round_robin", Balance::LeastLoaded => "least_loaded" },
        "source": source_json(&upstream.source),
        "to_destinations": destinations_json(&upstream.to_destinations),
        "connect_timeout": duration_text(upstream.connect_timeout),
        "header_timeout": duration_text(upstream.header_timeout),
        "idle_timeout": duration_text(upstream.idle_timeout),
        "total_timeout": upstream.total_timeout.map(duration_text),
        "pool_max_idle": upstream.pool_max_idle,
        "pool_idle_timeout": duration_text(upstream.pool_idle_timeout),
        "max_in_flight": upstream.max_in_flight,
        "max_in_flight_per_client": upstream.max_in_flight_per_client,
        "retries": { "budget": upstream.retry_budget_percent },
        "ejection": {
            "failures": upstream.ejection.failures,
            "period": duration_text(upstream.ejection.period),
            "statuses": upstream.ejection.statuses.iter().collect::<Vec<_>>(),
            "most": upstream.ejection.most_percent,
        },
        "health": upstream.health.as_ref().map(|health| json!({
            "path": health.path,
            "host": health.host,
            "every": duration_text(health.every),
            "timeout": duration_text(health.timeout),
            "fall": health.fall,
            "rise": health.rise,
        })),
    })
}

fn route_json(route: &RouteConfig) -> Value {
    json!({
        "name": route.name,
        "place": route.place,
        "listeners": route.listeners,
        "hosts": route.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "methods": route.methods.iter().map(wire::http::Method::as_str).collect::<Vec<_>>(),
        "path": route.path.text,
        "headers": fields(&route.headers),
        "action": action_json(&route.action, &parameter_names(&route.path)),
        "request_headers": edits_json(&route.request_headers),
        "response_headers": edits_json(&route.response_headers),
        "hsts": route.hsts,
        "max_body": route.max_body_bytes,
        "client_idle_timeout": route.client_idle_timeout.map(duration_text),
        "min_body_rate": route.min_body_rate,
        "stream_idle_timeout": route.stream_idle_timeout.map(duration_text),
        "allow_ambiguous_path": route.allow_ambiguous_path,
        "allow_encoded_slash": route.allow_encoded_slash,
        "keep_method_override": route.keep_method_override,
        "upgrades": route.upgrades,
        "contract": match &route.contract {
            ContractChoice::Inherited => Value::Null,
            ContractChoice::None => json!("none"),
            ContractChoice::Named(name) => json!(name),
        },
    })
}

fn action_json(action: &Action, parameters: &[&str]) -> Value {
    let forward = match action {
        Action::Redirect { status, to, allow } => {
            return json!({ "redirect": { "to": template(to, parameters), "status": status, "allow": allow } });
        }
        Action::Respond { status, content_type, body, if_healthy } => {
            return json!({ "respond": {
                "status": status, "content_type": content_type, "body_bytes": body.len(), "if_healthy": if_healthy,
            } });
        }
        Action::Forward(forward) => forward,
    };
    let host = match &forward.host {
        HostRewrite::Keep => json!("keep"),
        HostRewrite::Upstream => json!("upstream"),
        HostRewrite::Fixed(name) => json!({ "set": name }),
    };
    let rewrite = forward.rewrite.as_ref().map(|rewrite| template(rewrite, parameters));
    match &forward.to {
        ForwardTo::Group(name) => json!({ "upstream": name, "rewrite": rewrite, "host": host }),
        ForwardTo::Authority { tls, authority, allow, settings } => {
            let scheme = if *tls { "https" } else { "http" };
            let to = format!("{scheme}://{}", template(authority, parameters));
            json!({ "upstream_url": { "to": to, "allow": allow, "settings": upstream_json(settings) }, "rewrite": rewrite, "host": host })
        }
    }
}

/// A template as it would be written.
fn template(template: &Template, parameters: &[&str]) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Param { index, .. } => match parameters.get(*index) {
            Some(name) => format!("{{{name}}}"),
            None => format!("{{{index}}}"),
        },
    };
    template.parts.iter().map(part).collect()
}

fn edits_json(edits: &HeaderEdits) -> Value {
    json!({ "remove": edits.remove, "set": fields(&edits.set), "add": fields(&edits.add) })
}

fn fields(fields: &[(String, String)]) -> Map<String, Value> {
    let value = |name: &str, value: &str| if is_credential(name) { json!(REDACTED) } else { json!(value) };
    fields.iter().map(|(name, text)| (name.clone(), value(name, text))).collect()
}

/// Whether the value of a field (name in lower case) is likely to be a credential.
fn is_credential(name: &str) -> bool {
    let known = ["authorization", "cookie"];
    let telling = ["auth", "token", "secret", "password", "passwd", "key", "credential", "session", "signature"];
    known.iter().any(|known| name.ends_with(known)) || telling.iter().any(|telling| name.contains(telling))
}

fn limits_json(limits: &crate::limits::Limits) -> Value {
    json!({
        "max_connections": limits.max_connections,
        "max_connections_per_client": limits.max_connections_per_client,
        "handshake_timeout": duration_text(limits.handshake_timeout),
        "head_timeout": duration_text(limits.head_timeout),
        "keep_alive_timeout": duration_text(limits.keep_alive_timeout),
        "client_idle_timeout": duration_text(limits.client_idle_timeout),
        "min_body_rate": limits.min_body_rate,
        "tunnel_idle_timeout": duration_text(limits.tunnel_idle_timeout),
        "max_header_bytes": limits.max_head_bytes,
        "max_request_line": limits.max_request_line_bytes,
        "max_headers": limits.max_headers,
        "max_body": limits.max_body_bytes,
        "max_response_head": limits.max_response_head_bytes,
        "max_interim_responses": limits.max_interim_responses,
        "max_requests_per_connection": limits.max_requests_per_connection,
        "max_discarded_body": limits.max_drain_bytes,
        "max_validation_memory": limits.max_validation_memory_bytes,
        "max_validation_memory_per_connection": limits.max_validation_memory_per_connection_bytes,
        "h2_max_streams": limits.h2_max_streams,
        "h2_control_frame_burst": limits.h2_control_frame_burst,
        "h2_control_frame_rate": limits.h2_control_frame_rate,
        "h2_failed_request_burst": limits.h2_failed_request_burst,
        "h2_failed_request_rate": limits.h2_failed_request_rate,
        "h2_rejected_request_rate": limits.h2_rejected_request_rate,
        "drain_delay": duration_text(limits.drain_delay),
        "drain_timeout": duration_text(limits.drain_timeout),
    })
}
