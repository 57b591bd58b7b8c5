//! Words of other proxies that people try as keys, and what does their work here.

/// Words, and the fix for whoever writes one of them. Only looked at once the word is no key of its place.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["port", "listen", "address", "addr", "frontend", "frontends", "entrypoints"],
        "write `bind` in an item of `listeners`: `bind: \":443\"`",
    ),
    (
        &[
            "cert",
            "certs",
            "certificate",
            "certificates",
            "crt",
            "pem",
            "key",
            "ssl_certificate",
            "ssl_certificate_key",
        ],
        "certificates and their keys are in `keystores`; a listener names one of them: `tls: { keystore: NAME }`; see docs/certificates.md",
    ),
    (&["ssl"], "write `tls`"),
    (
        &["ciphers", "cipher_suites", "ssl_ciphers", "ssl_protocols", "tls_versions", "protocols"],
        "write `policy` or `min_version` in the `tls` of a listener: `tls: { keystore: NAME, policy: modern }`; see docs/tls.md",
    ),
    (
        &["ech", "encrypted_client_hello"],
        "write `ech_keys` beside `listeners`, with the file of the keys; see docs/tls.md",
    ),
    (&["server_name", "server_names", "domain", "domains"], "write `hosts` in a route"),
    (
        &["location", "locations", "paths", "path_prefix", "prefix", "uri"],
        "write `path` in a route: `path: /x/{*rest}` is everything below `/x`",
    ),
    (
        &["proxy_pass", "use_backend", "default_backend", "reverse_proxy", "service"],
        "write `upstream` in a route, and the servers in `upstreams`",
    ),
    (
        &["backend", "backends", "services", "cluster", "clusters"],
        "write the servers in `upstreams`, and their name as `upstream` in a route",
    ),
    (
        &["strip_prefix", "stripprefix", "strip_path", "trim_prefix", "handle_path"],
        "write `rewrite` in a route, with the parameter of its `path`: `path: /app/{*rest}` and `rewrite: \"/{rest}\"`; see docs/routing.md",
    ),
    (
        &["root", "alias", "try_files", "file_server", "static", "index"],
        "remove it; files are not served: name a server that has them as `upstream` of the route",
    ),
    (&["return", "redirectto", "redirect_to"], "write `redirect` or `respond` in a route"),
    (&["add_header", "header", "proxy_set_header"], "write `request_headers` or `response_headers` in a route"),
    (&["client_max_body_size", "max_body_size"], "write `max_body` in a route"),
    (&["websocket", "websockets"], "write `upgrades: [websocket]` in a route"),
    (
        &["timeout", "timeouts", "read_timeout", "proxy_read_timeout"],
        "timeouts towards clients are in `limits`, those towards servers in `upstreams`: `connect_timeout`, `response_header_timeout`, `idle_timeout`, `total_timeout`",
    ),
    (&["log_level", "access_log", "error_log"], "write it in `log`: `log: { level: info, access: ... }`"),
    (
        &["rate_limit", "ratelimit", "limit_req", "rate"],
        "write `rate_limit` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["limit_rate", "limit_rate_after", "bwlim", "rate_limiter_bandwidth"],
        "write `bandwidth_limit` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["limit_conn", "in_flight_req", "inflightreq"],
        "write `concurrency_limit` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["acme", "letsencrypt", "certresolver", "cert_resolver"],
        "write it as the kind of a keystore: `keystores: { NAME: { acme: ... } }`; see docs/certificates.md",
    ),
    (
        &["on_demand", "on_demand_tls"],
        "write `on_demand` in the `acme` of a keystore: `keystores: { NAME: { acme: { on_demand: ... } } }`; see docs/certificates.md",
    ),
    (
        &["docker", "consul", "kubernetes", "service_discovery"],
        "write where servers are looked up in `discovery`, and its name as `source` of an item of `servers`; see docs/upstreams.md",
    ),
    (
        &["allow", "deny", "whitelist", "blacklist"],
        "write `allow` or `deny` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["jwt", "introspection", "oidc", "oauth"],
        "write how tokens are verified in `tokens`: `tokens: { id: { jwt: ... } }`; contracts name it as `tokens: id`, policies as `jwt: { verifier: id }`; see docs/access.md",
    ),
    (
        &["gzip", "compress", "encode"],
        "write it in `compression`, and that one's name as `compression` in a route; see docs/responses.md",
    ),
    (&["absent", "not_present", "missing"], "write `present: false`"),
    (
        &["error_page", "errorpage", "errorfile", "handle_errors", "errors"],
        "write them in `error_pages`, and their name as `error_pages` of a listener, host or route; see docs/responses.md",
    ),
    (
        &["maintenance", "maintenance_mode"],
        "write `maintenance` in one of the `policies`, and that one's name as `policies` of a listener, host or route; see docs/access.md",
    ),
    (
        &["sticky", "stickiness", "sticky_sessions", "session_affinity", "affinity"],
        "write `sticky` in an upstream; see docs/upstreams.md",
    ),
    (
        &["health_check", "healthcheck", "health_checks", "healthchecks", "option_httpchk"],
        "write `health` in an upstream; see docs/upstreams.md",
    ),
    (
        &["max_fails", "fail_timeout", "outlier_detection", "passive_health"],
        "write `ejection` in an upstream; see docs/upstreams.md",
    ),
    (
        &["least_conn", "ip_hash", "lb_policy", "load_balancing", "loadbalancer"],
        "write `balance` in an upstream; see docs/upstreams.md",
    ),
    (&["proxy_next_upstream", "retry_policy", "retry_on"], "write `retries` in an upstream; see docs/upstreams.md"),
    (&["canary", "weighted", "split_clients", "traffic_split"], "write `split` in a route; see docs/upstreams.md"),
    (&["priority"], "remove it: the most specific route wins, whatever its place; see docs/routing.md"),
    (&["cache", "proxy_cache"], "remove it; responses are not cached"),
    (
        &["auth", "authentication", "auth_basic", "basic_auth", "basicauth", "auth_request", "forward_auth", "cors"],
        "write `basic`, `forward_auth` or `cors` in one of the `policies`, and that one's name as `policies` in a route; see docs/access.md",
    ),
];

/// The fix for a key of another proxy.
pub(super) fn fix(given: &str) -> Option<&'static str> {
    let given = given.to_ascii_lowercase();
    WORDS.iter().find(|(words, _)| words.contains(&given.as_str())).map(|(_, fix)| *fix)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// What a fix tells people to write is a key of the reference.
    #[test]
    fn every_fix_names_keys_that_exist() {
        let reference = crate::reference();
        let mut seen = std::collections::HashSet::new();
        for (words, fix) in WORDS {
            for word in *words {
                assert!(seen.insert(*word), "`{word}` is here twice");
            }
            for quoted in fix.split('`').skip(1).step_by(2) {
                let key = quoted.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap();
                assert!(reference.contains(&format!("`{key}`")), "`{key}` in {fix:?} is no key");
            }
            for page in fix.split_whitespace().filter(|word| word.starts_with("docs/")) {
                let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
                assert!(path.exists(), "{page} is not there");
            }
        }
    }
}
