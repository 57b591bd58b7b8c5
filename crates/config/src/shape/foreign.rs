//! Words of other proxies that people try as keys, and what does their work here.

/// Words, and the fix for whoever writes one of them. Only looked at once the word is no key of its place.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["port", "listen", "address", "addr", "frontend", "frontends", "entrypoints", "entrypoint", "socket_address"],
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
            "tls_certificates",
            "certificate_chain",
        ],
        "certificates and their keys are in `keystores`; a listener names one of them: `tls: { keystore: NAME }`; see docs/certificates.md",
    ),
    (&["ssl"], "write `tls`"),
    (
        &[
            "ciphers",
            "cipher_suites",
            "ssl_ciphers",
            "ssl_protocols",
            "tls_versions",
            "tls_minimum_protocol_version",
            "ssl_min_ver",
            "minversion",
            "ciphersuites",
            "ssl_default_bind_ciphers",
            "protocols",
        ],
        "write `policy` or `min_version` in the `tls` of a listener: `tls: { keystore: NAME, policy: modern }`; see docs/tls.md",
    ),
    (
        &["ech", "encrypted_client_hello"],
        "write `ech_keys` beside `listeners`, with the file of the keys; see docs/tls.md",
    ),
    (
        &["server_name", "server_names", "domain", "domains", "hostname", "hostnames", "virtual_host", "virtual_hosts"],
        "write `hosts` in a route",
    ),
    (
        &["rule", "match", "matcher", "matchers", "matches", "acl", "if", "map", "geo"],
        "write what a request must be like as `hosts`, `path`, `methods` and `when` of a route; see docs/routing.md",
    ),
    (&["or", "any_of", "one_of"], "write `any` with a list in `when`; see docs/routing.md"),
    (&["and", "all_of"], "write `all` with a list in `when`, or the conditions beside each other; see docs/routing.md"),
    (&["unless", "none_of"], "write `not` in `when`; see docs/routing.md"),
    (
        &["location", "locations", "paths", "path_prefix", "prefix", "uri", "path_beg", "handle"],
        "write `path` in a route: `path: /x/{*rest}` is everything below `/x`",
    ),
    (
        &["proxy_pass", "use_backend", "default_backend", "reverse_proxy", "service", "route_to", "backendrefs"],
        "write `upstream` in a route, and the servers in `upstreams`",
    ),
    (
        &["backend", "backends", "services", "cluster", "clusters", "load_assignment"],
        "write the servers in `upstreams`, and their name as `upstream` in a route",
    ),
    (
        &[
            "strip_prefix",
            "stripprefix",
            "stripprefixregex",
            "strip_path",
            "trim_prefix",
            "handle_path",
            "addprefix",
            "replacepath",
            "replacepathregex",
            "prefix_rewrite",
            "regex_rewrite",
            "rewrite_target",
            "set_path",
            "replace_path",
        ],
        "write `rewrite` in a route, with the parameter of its `path`: `path: /app/{*rest}` and `rewrite: \"/{rest}\"`; see docs/routing.md",
    ),
    (
        &["root", "alias", "try_files", "file_server", "static", "index"],
        "remove it; files are not served: name a server that has them as `upstream` of the route",
    ),
    (
        &[
            "return",
            "redirectto",
            "redirect_to",
            "redir",
            "redirectregex",
            "path_redirect",
            "host_redirect",
            "direct_response",
            "static_response",
        ],
        "write `redirect` or `respond` in a route",
    ),
    (
        &["redirectscheme", "https_redirect", "force_https", "force_ssl", "auto_https", "ssl_redirect"],
        "write `redirect_to_https: true` in the listener for http",
    ),
    (
        &[
            "add_header",
            "header",
            "proxy_set_header",
            "proxy_hide_header",
            "header_up",
            "header_down",
            "set_header",
            "del_header",
            "customrequestheaders",
            "customresponseheaders",
            "request_headers_to_add",
            "request_headers_to_remove",
            "response_headers_to_add",
            "response_headers_to_remove",
        ],
        "write `request_headers` or `response_headers` in a route",
    ),
    (
        &[
            "host_rewrite",
            "host_rewrite_literal",
            "auto_host_rewrite",
            "passhostheader",
            "host_header",
            "preserve_host",
        ],
        "write `host` in a route: `host: keep` sends the client's, `host: upstream` the server's",
    ),
    (&["client_max_body_size", "max_body_size", "request_body", "maxrequestbodybytes"], "write `max_body` in a route"),
    (
        &[
            "proxy_buffering",
            "proxy_request_buffering",
            "buffering",
            "flush_interval",
            "proxy_buffers",
            "proxy_buffer_size",
        ],
        "remove it; bodies go on as they come, and what may be held of one is in `limits`",
    ),
    (
        &[
            "proxy_redirect",
            "proxy_cookie_path",
            "proxy_cookie_domain",
            "proxy_cookie_flags",
            "http_response_replace_header",
        ],
        "write `rewrite_location` or `cookies` in the `response_headers` of a route; see docs/subpath.md",
    ),
    (&["websocket", "websockets", "upgrade", "upgrade_configs"], "write `upgrades: [websocket]` in a route"),
    (
        &[
            "timeout",
            "timeouts",
            "read_timeout",
            "write_timeout",
            "proxy_read_timeout",
            "proxy_send_timeout",
            "timeout_client",
            "timeout_server",
            "timeout_http_request",
            "client_body_timeout",
            "client_header_timeout",
            "send_timeout",
            "keepalive_timeout",
            "responding_timeouts",
        ],
        "timeouts towards clients are in `limits`, those towards servers in `upstreams`: `connect_timeout`, `response_header_timeout`, `idle_timeout`, `total_timeout`",
    ),
    (&["proxy_connect_timeout", "timeout_connect", "dial_timeout"], "write `connect_timeout` in an upstream"),
    (
        &["keepalive_requests", "max_idle_conns", "maxidleconnsperhost", "http_reuse", "pool_max_conn"],
        "write `pool_max_idle` and `pool_idle_timeout` in an upstream",
    ),
    (
        &[
            "proxy_ssl_verify",
            "ssl_verify",
            "verify",
            "insecure",
            "insecureskipverify",
            "skip_verify",
            "tls_insecure_skip_verify",
        ],
        "certificates of servers are verified unless the `tls` of the upstream says otherwise: `tls: { insecure_skip_verify: true }`",
    ),
    (
        &[
            "ssl_client_certificate",
            "ssl_verify_client",
            "client_ca",
            "ca_file",
            "cafile",
            "mtls",
            "client_auth",
            "clientauth",
        ],
        "write `client_certificate` in the `tls` of a listener: `client_certificate: { mode: required, ca: FILE }`; see docs/tls.md",
    ),
    (
        &["http2", "h2", "h2c", "http_version", "proxy_http_version"],
        "write `alpn` in the `tls` of a listener, and `protocol` in an upstream",
    ),
    (&["quic", "h3"], "write `http3: true` in a listener"),
    (
        &[
            "set_real_ip_from",
            "real_ip_header",
            "real_ip",
            "realip",
            "trusted_ips",
            "forwardedheaders",
            "use_remote_address",
            "xff_num_trusted_hops",
        ],
        "write the networks of the proxies in front as `trusted_proxies`; see docs/load-balancers.md",
    ),
    (&["accept_proxy", "proxyprotocol"], "write `proxy_protocol` in a listener"),
    (&["send_proxy_v2"], "write `send_proxy` in an upstream"),
    (&["worker_processes", "nbthread", "nbproc", "threads", "concurrency"], "write `workers` beside `listeners`"),
    (
        &["worker_connections", "maxconn", "max_conns", "circuitbreaker", "circuit_breakers"],
        "write `max_connections` in `limits`, and `max_in_flight` or `ejection` in an upstream",
    ),
    (
        &["mode", "stream", "tcp", "filter_chains"],
        "write `tunnel` in a listener that forwards bytes; see docs/tcp-and-udp.md",
    ),
    (
        &["log_level", "access_log", "error_log", "log_format", "accesslog"],
        "write it in `log`: `log: { level: info, access: ... }`",
    ),
    (
        &["rate_limit", "ratelimit", "limit_req", "rate"],
        "write `rate_limit` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["limit_rate", "limit_rate_after", "bwlim", "rate_limiter_bandwidth"],
        "write `bandwidth_limit` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["limit_conn", "in_flight_req", "inflightreq", "limit_conn_zone"],
        "write `concurrency_limit` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["acme", "letsencrypt", "certresolver", "cert_resolver", "certificatesresolvers"],
        "write it as the kind of a keystore: `keystores: { NAME: { acme: ... } }`; see docs/certificates.md",
    ),
    (
        &["on_demand", "on_demand_tls"],
        "write `on_demand` in the `acme` of a keystore: `keystores: { NAME: { acme: { on_demand: ... } } }`; see docs/certificates.md",
    ),
    (
        &["docker", "consul", "kubernetes", "service_discovery", "providers", "resolvers"],
        "write where servers are looked up in `discovery`, and its name as `source` of an item of `servers`; see docs/upstreams.md",
    ),
    (
        &[
            "allow",
            "deny",
            "whitelist",
            "blacklist",
            "ipallowlist",
            "ipwhitelist",
            "allowlist",
            "denylist",
            "remote_ip",
        ],
        "write `allow` or `deny` in one of the `policies`, and that one's name as `policies` in a route; see docs/policies.md",
    ),
    (
        &["jwt", "introspection", "oidc", "oauth", "jwt_authn", "auth_jwt"],
        "write how tokens are verified in `tokens`: `tokens: { id: { jwt: ... } }`; contracts name it as `tokens: id`, policies as `jwt: { verifier: id }`; see docs/access.md",
    ),
    (
        &["gzip", "compress", "encode", "brotli", "zstd", "compressor", "gzip_types"],
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
        &["sticky", "stickiness", "sticky_sessions", "session_affinity", "affinity", "stick_table", "stick"],
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
        &[
            "least_conn",
            "leastconn",
            "ip_hash",
            "lb_policy",
            "load_balancing",
            "loadbalancer",
            "roundrobin",
            "round_robin",
            "consistent_hash",
        ],
        "write `balance` in an upstream; see docs/upstreams.md",
    ),
    (
        &["proxy_next_upstream", "retry_policy", "retry_on", "retry", "option_redispatch", "lb_try_duration"],
        "write `retries` in an upstream; see docs/upstreams.md",
    ),
    (
        &["canary", "weighted", "split_clients", "traffic_split", "weighted_clusters"],
        "write `split` in a route; see docs/upstreams.md",
    ),
    (&["request_mirror_policies", "mirroring", "shadow_traffic"], "write `mirror` in a route; see docs/upstreams.md"),
    (
        &["middleware", "middlewares", "plugins", "filters", "http_filters", "chain"],
        "what a request must pass is in `policies`, and their names as `policies` of a listener, host or route; see docs/policies.md",
    ),
    (&["import", "imports", "includes"], "write `include` beside `listeners`"),
    (&["stats", "dashboard", "metrics", "prometheus"], "write `admin` beside `listeners`; see docs/admin.md"),
    (&["user", "group", "daemon", "chroot", "pid", "pidfile"], "remove it; see docs/operations.md"),
    (&["sub_filter", "replace_response", "lua", "script"], "remove it; bodies are not changed and no scripts are run"),
    (&["priority"], "remove it: the most specific route wins, whatever its place; see docs/routing.md"),
    (&["cache", "proxy_cache"], "remove it; responses are not cached"),
    (
        &[
            "auth",
            "authentication",
            "auth_basic",
            "basic_auth",
            "basicauth",
            "auth_request",
            "forward_auth",
            "forwardauth",
            "ext_authz",
            "satisfy",
            "cors",
        ],
        "write `basic`, `forward_auth` or `cors` in one of the `policies`, and that one's name as `policies` in a route; see docs/access.md",
    ),
];

/// The fix for a key of another proxy.
pub(super) fn fix(given: &str) -> Option<&'static str> {
    let given = given.to_ascii_lowercase().replace(['-', ' '], "_");
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
