//! Prints the configuration of this front door as a native file (`docs/configuration.md`), with comments where native routes do otherwise.
//!
//! Knows only what the front door itself can produce.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use config::limits::Limits;
use config::{
    Action, Config, Endpoint, Forward, ForwardTo, HostPattern, PathPattern, RouteConfig, Secret, Segment,
    ServerAddress, Template, TemplatePart, UpstreamConfig,
};
use tls::{Policy, ProtocolVersion};
use wire::http::Method;

use super::pattern::is_unreachable;

const HEAD: &str = "\
# Made by `portunus import sillyproxy`. What native routes do otherwise than SillyProxy:
# - There are no redirects to a path that would match (final slash, case, `//`) and no automatic answers to OPTIONS.
# - HEAD is served where GET is. A host without routes is answered 404, not 403. A parameter is never empty.
# - A parameter is put into `rewrite` as it stands in the path: `{*rest}` keeps its slashes, where SillyProxy sent `%2F`.
";

/// The configuration as a file.
pub(super) fn write(config: &Config) -> String {
    let mut out = String::from(HEAD);
    // Writing to a String does not fail.
    let _ = write_all(config, &mut out);
    out
}

fn write_all(config: &Config, out: &mut String) -> std::fmt::Result {
    writeln!(out, "listeners:")?;
    for listener in &config.listeners {
        let bind = listener.bind.iter().map(|endpoint| match endpoint {
            Endpoint::Tcp(address) => quoted(&address.to_string()),
            Endpoint::Unix(path) => quoted(&format!("unix:{}", path.display())),
        });
        writeln!(out, "  - name: {}", quoted(&listener.name))?;
        writeln!(out, "    bind: [{}]", bind.collect::<Vec<_>>().join(", "))?;
        if let Some(tls) = &listener.tls {
            writeln!(out, "    tls:")?;
            writeln!(out, "      keystore: {}", quoted(&tls.keystore))?;
            writeln!(out, "      policy: {}", policy(tls.settings.policy))?;
            writeln!(out, "      min_version: \"{}\"", version(tls.settings.min_version))?;
        }
    }
    write_keystores(config, out)?;
    writeln!(
        out,
        "forwarding: {{ x_forwarded: false, x_real_ip: false, forwarded: false, via: false, request_id: false }}"
    )?;
    if config.limits != Limits::default() {
        writeln!(out, "limits:\n  keep_alive_timeout: {}", seconds(config.limits.keep_alive_timeout))?;
    }
    if !config.upstreams.is_empty() {
        writeln!(out, "upstreams:")?;
    }
    for (name, upstream) in &config.upstreams {
        let servers = upstream.servers.iter().map(|server| match &server.address {
            ServerAddress::Ip(address) => quoted(&address.to_string()),
            ServerAddress::Name(name, port) => quoted(&format!("{name}:{port}")),
            ServerAddress::Service(name) => format!("{{ srv: {} }}", quoted(name)),
            ServerAddress::Listed(listed) => {
                format!("{{ source: {}, service: {} }}", quoted(&listed.source), quoted(&listed.service))
            }
            ServerAddress::Unix(path) => quoted(&format!("unix:{}", path.display())),
        });
        writeln!(out, "  {}:", quoted(name))?;
        writeln!(out, "    servers: [{}]", servers.collect::<Vec<_>>().join(", "))?;
        write_connection("    ", upstream, out)?;
        writeln!(
            out,
            "    # The only server is never left out.\n    ejection: {{ failures: {} }}",
            upstream.ejection.failures
        )?;
    }
    if !config.routes.is_empty() {
        writeln!(out, "routes:")?;
    }
    config.routes.iter().try_for_each(|route| write_route(route, out))
}

fn write_keystores(config: &Config, out: &mut String) -> std::fmt::Result {
    writeln!(out, "keystores:")?;
    for (name, keystore) in &config.keystores {
        let (kind, path) = match &keystore.location {
            keystore::Location::PemFolder(path) => ("folder", path),
            keystore::Location::Pkcs12(path) => ("pkcs12", path),
            keystore::Location::Jks(path) => ("jks", path),
        };
        writeln!(out, "  {}:\n    {kind}: {}", quoted(name), quoted_path(path))?;
        match &keystore.password {
            Some(Secret::File(path)) => writeln!(out, "    password: {{ file: {} }}", quoted_path(path))?,
            Some(Secret::Env(name)) => writeln!(out, "    password: {{ env: {} }}", quoted(name))?,
            Some(Secret::Argument(_)) => {
                writeln!(
                    out,
                    "    # No secret is written here: put the password of -keypass into this variable, or use `{{ file: PATH }}`."
                )?;
                writeln!(out, "    password: {{ env: PORTUNUS_KEYSTORE_PASSWORD }}")?;
            }
            None => {}
        }
        writeln!(out, "    reload_interval: {}", seconds(keystore.reload_interval))?;
    }
    Ok(())
}

/// The settings of connections that are not the native defaults.
fn write_connection(indent: &str, upstream: &UpstreamConfig, out: &mut String) -> std::fmt::Result {
    if let Some(tls) = &upstream.tls {
        match (&tls.ca, tls.verify) {
            (_, false) => writeln!(out, "{indent}tls: {{ insecure_skip_verify: true }}")?,
            (Some(ca), true) => writeln!(out, "{indent}tls: {{ ca: {} }}", quoted_path(ca))?,
            (None, true) => writeln!(out, "{indent}tls: true")?,
        }
    }
    let native = UpstreamConfig::new("");
    for (key, value, default) in [
        ("connect_timeout", upstream.connect_timeout, native.connect_timeout),
        ("response_header_timeout", upstream.response_header_timeout, native.response_header_timeout),
        ("idle_timeout", upstream.idle_timeout, native.idle_timeout),
    ] {
        if value != default {
            writeln!(out, "{indent}{key}: {}", seconds(value))?;
        }
    }
    if let Some(total) = upstream.total_timeout {
        writeln!(out, "{indent}total_timeout: {}", seconds(total))?;
    }
    Ok(())
}

fn write_route(route: &RouteConfig, out: &mut String) -> std::fmt::Result {
    let Action::Forward(forward) = &route.action else { return Ok(()) };
    writeln!(out, "  # {}: {}", route.place, route.path.text.escape_debug())?;
    if let Some(reason) = inexpressible(route, forward) {
        return writeln!(out, "  # Left out: {reason}.");
    }
    let names = parameter_names(&route.path);
    let hosts = route.hosts.iter().map(|host| match host {
        HostPattern::Exact(name) => quoted(name),
        HostPattern::Wildcard(suffix) => quoted(&format!("*.{suffix}")),
    });
    writeln!(out, "  - hosts: [{}]", hosts.collect::<Vec<_>>().join(", "))?;
    let methods = route.methods.iter().map(|method| quoted(method.as_str()));
    writeln!(out, "    methods: [{}]", methods.collect::<Vec<_>>().join(", "))?;
    writeln!(out, "    path: {}", quoted(&path_text(&route.path, &names)))?;
    match &forward.to {
        ForwardTo::Group(name) => writeln!(out, "    upstream: {}", quoted(name))?,
        // No file of routes holds one.
        ForwardTo::Split(_) => {}
        ForwardTo::Authority { tls, authority, allow, settings } => {
            let scheme = if *tls { "https" } else { "http" };
            writeln!(out, "    upstream_url:")?;
            writeln!(out, "      url: {}", quoted(&format!("{scheme}://{}", template_text(authority, &names))))?;
            if allow.is_empty() {
                writeln!(
                    out,
                    "      # List the hosts that clients may choose here; without the list this file is rejected."
                )?;
                writeln!(out, "      # allow: []")?;
            } else {
                let allow = allow.iter().map(|allowed| quoted(allowed));
                writeln!(out, "      allow: [{}]", allow.collect::<Vec<_>>().join(", "))?;
            }
            write_connection("      ", settings, out)?;
        }
    }
    if let Some(rewrite) = &forward.rewrite {
        writeln!(out, "    rewrite: {}", quoted(&template_text(rewrite, &names)))?;
    }
    writeln!(out, "    host: upstream")?;
    let set = route.request_headers.set.iter().filter_map(|(name, value)| Some((name, value.as_text()?)));
    for (name, value) in set {
        writeln!(out, "    request_headers: {{ set: {{ {}: {} }} }}", quoted(name), quoted(value))?;
    }
    writeln!(out, "    max_body: 1TiB")
}

/// Why a native file cannot hold a route.
fn inexpressible(route: &RouteConfig, forward: &Forward) -> Option<&'static str> {
    let rejected = |method: &Method| {
        matches!(method, Method::Connect | Method::Trace)
            || method.as_str().bytes().any(|byte| byte.is_ascii_lowercase())
    };
    let holds_encoded_slash = |template: &Template| {
        let mut path = template.parts.iter().map_while(|part| match part {
            TemplatePart::Text(text) => Some(text.split('?').next().unwrap_or_default()),
            TemplatePart::Param { .. } | TemplatePart::Variable { .. } => Some(""),
        });
        path.any(|text| text.contains("%2F"))
    };
    if is_unreachable(&route.path) {
        return Some("no request can match this path");
    }
    if route.methods.iter().any(rejected) {
        return Some("no request with this method is routed");
    }
    forward.rewrite.as_ref().filter(|rewrite| holds_encoded_slash(rewrite)).map(|_| "a native rewrite holds no `%2F`")
}

/// Names for the parameters that a native path takes: a letter first, then letters, digits and `_`, each name once.
fn parameter_names(path: &PathPattern) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for segment in &path.segments {
        let (Segment::Param { name, .. } | Segment::CatchAll { name }) = segment else { continue };
        let valid = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
        let mut name: String = valid.take(24).collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert(0, 'p');
        }
        while names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

fn path_text(path: &PathPattern, names: &[String]) -> String {
    let mut names = names.iter();
    let mut name = || names.next().map_or("", |name| name);
    let segments = path.segments.iter().map(|segment| match segment {
        Segment::Static(text) => format!("/{text}"),
        Segment::Param { prefix, .. } => format!("/{prefix}{{{}}}", name()),
        Segment::CatchAll { .. } => format!("/{{*{}}}", name()),
        // No file of routes holds one.
        Segment::Regex(_) | Segment::Prefix { .. } => String::new(),
    });
    segments.collect()
}

fn template_text(template: &Template, names: &[String]) -> String {
    let parts = template.parts.iter().map(|part| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Param { index, .. } => format!("{{{}}}", names.get(*index).map_or("", |name| name)),
        // No file of routes holds one.
        TemplatePart::Variable { .. } => String::new(),
    });
    parts.collect()
}

/// A text in double quotes; what JSON escapes, YAML reads alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A path from the root on: relative ones in a file start at the file's folder, those of arguments where the command runs.
fn quoted_path(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    quoted(&absolute.as_deref().unwrap_or(path).display().to_string())
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs())
}

fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Modern => "modern",
        Policy::Intermediate => "intermediate",
        Policy::Legacy => "legacy",
    }
}

fn version(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::Tls10 => "1.0",
        ProtocolVersion::Tls11 => "1.1",
        ProtocolVersion::Tls12 => "1.2",
        ProtocolVersion::Tls13 => "1.3",
    }
}
