//! Variables of other proxies where text is literal here: found, and answered with what is meant.
//!
//! In header values and templates such a variable is rejected, since it would go out as it stands; a body of a route of its own may be any text, so there
//! it is a warning.

use super::Fault;
use super::placeholders::is_variable;
use crate::model::{
    Action, BodyVariables, Config, LogField, PathPattern, RouteConfig, Segment, TemplatePart, Variable,
};
use crate::problem::shown;
use crate::shape::effective::is_field_with_credential;

/// The first variable as it is written here, as far as its name cannot be anything else.
fn own_variable(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let end = at + text.get(at..)?.find('}')?;
        let is_own = text.get(at + 1..end).is_some_and(|name| name.contains('.') && is_variable(name));
        if is_own { text.get(at..=end) } else { None }
    })
}

/// What variables of other proxies begin with; nginx's are words, so that a `$` before anything else is a character like others.
const NGINX: [&str; 25] = [
    "arg",
    "binary_",
    "body_",
    "bytes_",
    "connection",
    "content_",
    "cookie_",
    "document_",
    "geoip",
    "host",
    "http",
    "is_args",
    "msec",
    "proxy_",
    "query_string",
    "realip_",
    "remote_",
    "request",
    "scheme",
    "server_",
    "ssl_",
    "status",
    "time_",
    "upstream_",
    "uri",
];

/// The first variable of another proxy in a text: `$uri` and `${uri}` (nginx), `%[src]` (HAProxy), `%REQ(X)%` and `%PROTOCOL%` (Envoy).
pub(super) fn variable_in(text: &str) -> Option<&str> {
    text.match_indices(['$', '%']).find_map(|(at, _)| {
        let rest = text.get(at..)?;
        let length = if rest.starts_with('$') { nginx(rest) } else { haproxy(rest).or_else(|| envoy(rest)) };
        rest.get(..length?)
    })
}

/// How a variable of another proxy is written here.
pub(super) fn native_variable(variable: &str) -> Option<String> {
    let name = variable.trim_start_matches(['$', '%', '{', '[']).trim_end_matches(['}', ']', '%', 's']);
    let argument = |start: &str| name.strip_prefix(start).and_then(|rest| rest.strip_suffix(')'));
    if let Some(header) = ["req.hdr(", "hdr(", "REQ("].into_iter().find_map(argument) {
        return Some(match header.to_ascii_lowercase().as_str() {
            ":authority" | "host" => "{host}".to_owned(),
            ":path" => "{uri}".to_owned(),
            _ => format!("{{header.{header}}}"),
        });
    }
    if let Some(cookie) = ["req.cook(", "cookie("].into_iter().find_map(argument) {
        return Some(format!("{{cookie.{cookie}}}"));
    }
    let lower = name.to_ascii_lowercase();
    for (start, of) in [("arg_", "query"), ("cookie_", "cookie")] {
        if let Some(name) = lower.strip_prefix(start) {
            return Some(format!("{{{of}.{name}}}"));
        }
    }
    let native = match lower.as_str() {
        "remote_addr" | "realip_remote_addr" | "src" | "remote_host" | "client_ip" => "client.address",
        "downstream_remote_address" | "downstream_remote_address_without_port" => "client.address",
        "request_id" | "unique-id" => "request.id",
        "host" | "http_host" | "server_name" | "req.host" | "base" => "host",
        "uri" | "document_uri" | "path" | "request_path" => "path",
        "request_uri" | "pathq" => "uri",
        // Without the last letter, which may have been Apache's.
        "arg" | "query_string" | "query" => "query",
        "url" => "url",
        "request_method" | "method" => "method",
        "scheme" => "scheme",
        "ssl_server_name" | "ssl_fc_sni" | "requested_server_name" => "tls.server_name",
        "ssl_protocol" | "ssl_fc_protocol" | "downstream_tls_version" => "tls.version",
        "ssl_cipher" | "ssl_fc_cipher" | "downstream_tls_cipher" => "tls.cipher",
        "geoip_country_code" | "geoip2_country_code" | "geoip2_data_country_code" | "geoip2_data_country_iso_code" => {
            "client.country"
        }
        "geoip_asnum" | "geoip2_asn" | "geoip2_data_asn" | "geoip2_data_autonomous_system_number" => "client.asn",
        "http_ssl_ja4" | "ssl_ja4" | "tls_ja4_fingerprint" => "tls.ja4",
        "ssl_client_s_dn" | "ssl_c_s_dn" | "downstream_peer_subject" => "certificate.subject",
        "ssl_client_i_dn" | "ssl_c_i_dn" | "downstream_peer_issuer" => "certificate.issuer",
        "ssl_client_serial" | "downstream_peer_serial" => "certificate.serial",
        "ssl_client_fingerprint" | "downstream_peer_fingerprint_256" => "certificate.fingerprint",
        _ => return lower.strip_prefix("http_").map(|header| format!("{{header.{}}}", header.replace('_', "-"))),
    };
    Some(format!("{{{native}}}"))
}

/// How a placeholder of Caddy, which stands in braces as ours do, is written here.
pub(super) fn native_of_caddy(name: &str) -> Option<String> {
    let of = name.strip_prefix("http.request.")?;
    let named = [("header.", "header"), ("uri.query.", "query"), ("cookie.", "cookie")];
    if let Some((ours, name)) = named.into_iter().find_map(|(start, ours)| Some((ours, of.strip_prefix(start)?))) {
        return Some(format!("{{{ours}.{name}}}"));
    }
    let native = match of {
        "remote.host" | "remote" => "client.address",
        "uuid" => "request.id",
        "host" | "hostport" => "host",
        "uri" | "orig_uri" => "uri",
        "uri.path" | "orig_uri.path" => "path",
        "uri.query" | "orig_uri.query" => "query",
        "method" => "method",
        "scheme" => "scheme",
        "tls.server_name" => "tls.server_name",
        "tls.version" => "tls.version",
        "tls.cipher_suite" => "tls.cipher",
        "tls.client.subject" => "certificate.subject",
        "tls.client.issuer" => "certificate.issuer",
        "tls.client.serial" => "certificate.serial",
        "tls.client.fingerprint" => "certificate.fingerprint",
        _ => return None,
    };
    Some(format!("{{{native}}}"))
}

fn nginx(rest: &str) -> Option<usize> {
    let word = rest.get(1..)?;
    let (word, around) = word.strip_prefix('{').map_or((word, 1), |word| (word, 3));
    if !NGINX.iter().any(|known| word.starts_with(known)) {
        return None;
    }
    let length = word.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    Some(if around == 3 && !word.get(length..)?.starts_with('}') { length + 2 } else { length + around })
}

fn haproxy(rest: &str) -> Option<usize> {
    let close = match rest.as_bytes().get(1)? {
        b'[' => ']',
        // Apache's `%{REMOTE_ADDR}s`, and HAProxy's older form.
        b'{' => '}',
        _ => return None,
    };
    Some(rest.find(close).map_or(rest.len(), |end| end + 1))
}

fn envoy(rest: &str) -> Option<usize> {
    let word = rest.get(1..)?;
    let length = word.bytes().take_while(|byte| byte.is_ascii_uppercase() || *byte == b'_').count();
    let after = word.get(length..)?;
    if length < 3 || !after.starts_with(['%', '(']) {
        return None;
    }
    Some(after.find('%').map_or(1 + length, |end| length + end + 2))
}

/// Rejects a target that holds a variable, or a capture such as `$1`, and says how it is written here.
pub(super) fn none_in_target(text: &str, path: Option<&PathPattern>) -> Result<(), Fault> {
    let capture = || {
        let at = text.match_indices('$').find(|(at, _)| text.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit))?.0;
        text.get(at..at + 2)
    };
    let Some(variable) = variable_in(text).or_else(capture) else { return Ok(()) };
    let what = format!("{} holds {}, which looks like a variable of another proxy", shown(text), shown(variable));
    Err(Fault::new(what, native(text, variable, path)))
}

/// How a target with a variable is written here.
fn native(text: &str, variable: &str, path: Option<&PathPattern>) -> String {
    let name = variable.trim_start_matches(['$', '%', '{', '[']);
    let begins = |words: &[&str]| words.iter().any(|word| name.to_ascii_lowercase().starts_with(word));
    if begins(&["args", "is_args", "query"]) {
        return "leave it out, with the `?` before it: the query of the request is appended by itself".to_owned();
    }
    if begins(&["host", "http_host", "server_name", "req.hdr(host", "hdr(host", "req(:authority", "req(host"]) {
        return "write `{host}`, and `{path}` for the path: `https://{host}{path}` leads to the same place over https"
            .to_owned();
    }
    if begins(&["scheme"]) {
        return "write `https://` or `http://`".to_owned();
    }
    let is_path = begins(&["uri", "request_uri", "document_uri", "path", "url"])
        || name.starts_with(|c: char| c.is_ascii_digit());
    if is_path {
        return with_parameters(text, variable, path);
    }
    "name what is meant, or percent-encode a `$` or `%` that is meant; from the path, `{name}` takes a parameter"
        .to_owned()
}

/// The target with the parameters of the route's path for a variable that stands for the path, where that is a target.
fn with_parameters(text: &str, variable: &str, path: Option<&PathPattern>) -> String {
    let catch_all = path.and_then(|path| match path.segments.last() {
        Some(Segment::CatchAll { name }) => Some((name, &path.text)),
        _ => None,
    });
    let Some((name, pattern)) = catch_all else {
        return "end the path of the route with `{*rest}` and write `{rest}`; the query is appended by itself"
            .to_owned();
    };
    // A capture is what the catch-all takes, all else the whole path.
    let is_capture = variable.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let value = if is_capture { format!("{{{name}}}") } else { pattern.replace("{*", "{") };
    let behind_slash = format!("/{variable}");
    let is_doubled = !is_capture && text.contains(&behind_slash);
    let written = text.replace(if is_doubled { &behind_slash } else { variable }, &value);
    format!("write {}; the query is appended by itself", shown(&written))
}

/// A text for each template or text in which something else is probably meant.
pub fn warnings(config: &Config) -> impl Iterator<Item = String> {
    let of_all = config.log.access.iter().flat_map(|access| access.fields.iter());
    let of_all = of_all.filter_map(logged_credential).map(|text| format!("log: {text}"));
    let of_routes = config.routes.iter().filter(|route| !route.is_further_path).flat_map(|route| {
        let is_own = |field: &&LogField| {
            !config.log.access.iter().flat_map(|access| access.fields.iter()).any(|other| other.name == field.name)
        };
        let fields = route.log_fields.iter().filter(is_own).filter_map(logged_credential);
        fields.map(|text| format!("{}: route `{}`: {text}", route.place, route.name))
    });
    bodies(config).chain(of_all).chain(of_routes).chain(config.routes.iter().filter_map(doubled_slash))
}

/// Whether a route writes a slash before what follows its prefix, which may begin with one.
fn doubled_slash(route: &RouteConfig) -> Option<String> {
    let Some(Segment::Prefix { text, name }) = route.path.segments.last() else { return None };
    let template = match &route.action {
        Action::Forward(forward) => forward.rewrite.as_ref()?,
        Action::Redirect { to, .. } => to,
        _ => return None,
    };
    let last = route.path.parameters().count().checked_sub(1)?;
    let is_rest = |part: &TemplatePart| matches!(part, TemplatePart::Param { index, .. } if *index == last);
    let is_doubled = |pair: &[TemplatePart]| matches!(pair, [TemplatePart::Text(text), rest] if text.ends_with('/') && is_rest(rest));
    let prefix = route.path.text.trim_end_matches('*');
    (!text.is_empty() && template.parts.windows(2).any(is_doubled)).then(|| {
        format!(
            "{}: route `{}`: what follows the prefix `{prefix}` may begin with a slash, so that `{prefix}/x` becomes a path with `//`; write `{{{name}}}` \
             without the slash before it, or the prefix `{prefix}/`",
            route.place, route.name,
        )
    })
}

/// Whether a field of the log holds what may be a credential.
fn logged_credential(field: &LogField) -> Option<String> {
    let looks_like_one = |variable: &Variable| match variable {
        Variable::Header(name) | Variable::Cookie(name) if is_field_with_credential(name) => Some(name.clone()),
        _ => None,
    };
    let name = field.value.variables().find_map(looks_like_one)?;
    Some(format!("the field {} logs {}, which looks like a credential", shown(&field.name), shown(&name)))
}

/// A text for each body of a route that holds what looks like a variable and is sent as it stands.
fn bodies(config: &Config) -> impl Iterator<Item = String> {
    config.routes.iter().filter(|route| !route.is_further_path).filter_map(|route| {
        let Action::Respond { body, variables, .. } = &route.action else { return None };
        let body = std::str::from_utf8(body).ok()?;
        let is_template = *variables != BodyVariables::None;
        let own = if is_template { None } else { own_variable(body) };
        let (variable, fix) = match (own, variable_in(body)) {
            (Some(own), _) => (own, "replaces it"),
            (None, Some(foreign)) if is_template => (foreign, ""),
            (None, foreign) => (foreign?, "replaces variables that are written `{name}`"),
        };
        let fix = if fix.is_empty() { String::new() } else { format!("; `template: true` {fix}") };
        let what = shown(variable);
        let (place, name) = (&route.place, &route.name);
        Some(format!("{place}: route `{name}`: {what} in its body looks like a variable and is sent as it stands{fix}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_whole() {
        for (text, expected) in [
            ("a$uri/b", "$uri"),
            ("$request_uri", "$request_uri"),
            ("x${host}y", "${host}"),
            ("${host", "${host"),
            ("$http_x_a-b", "$http_x_a"),
            ("a%[src]b", "%[src]"),
            ("%[src", "%[src"),
            ("%REQ(X)%z", "%REQ(X)%"),
            ("%PROTOCOL%", "%PROTOCOL%"),
            ("100% $ $x $5 %41 %AB% [] {} $metadata", ""),
        ] {
            assert_eq!(variable_in(text).unwrap_or_default(), expected, "{text}");
        }
    }
}
