//! Directives by name: what is carried elsewhere, what has no meaning here, and what is left out, with the reason.

use super::defined;
use super::scope::Scope;
use super::syntax::Directive;
use crate::migration::Report;

/// What is read where it counts.
const CARRIED: &[&str] = &[
    "absolute_redirect",
    "add_header",
    "alias",
    "allow",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "auth_request_set",
    "break",
    "brotli",
    "brotli_comp_level",
    "brotli_min_length",
    "brotli_types",
    "client_body_timeout",
    "client_header_timeout",
    "client_max_body_size",
    "default_type",
    "deny",
    "error_page",
    "events",
    "grpc_connect_timeout",
    "grpc_hide_header",
    "grpc_next_upstream",
    "grpc_next_upstream_tries",
    "grpc_pass",
    "grpc_pass_header",
    "grpc_read_timeout",
    "grpc_set_header",
    "gzip",
    "gzip_comp_level",
    "gzip_min_length",
    "gzip_types",
    "http",
    "http2",
    "http3",
    "if",
    "include",
    "index",
    "internal",
    "keepalive_requests",
    "keepalive_timeout",
    "large_client_header_buffers",
    "limit_conn",
    "limit_conn_zone",
    "limit_except",
    "limit_rate",
    "limit_rate_after",
    "limit_req",
    "limit_req_zone",
    "listen",
    "location",
    "proxy_connect_timeout",
    "proxy_download_rate",
    "proxy_cookie_domain",
    "proxy_cookie_flags",
    "proxy_cookie_path",
    "proxy_hide_header",
    "proxy_redirect",
    "proxy_http_version",
    "proxy_intercept_errors",
    "proxy_next_upstream",
    "proxy_next_upstream_tries",
    "proxy_pass",
    "proxy_pass_header",
    "proxy_protocol",
    "proxy_read_timeout",
    "proxy_set_header",
    "proxy_timeout",
    "proxy_upload_rate",
    "real_ip_header",
    "real_ip_recursive",
    "return",
    "rewrite",
    "root",
    "satisfy",
    "server",
    "server_name",
    "set",
    "set_real_ip_from",
    "ssl_preread",
    "stream",
    "try_files",
    "types",
    "upstream",
    "worker_processes",
    "worker_shutdown_timeout",
];

/// What changes nothing that a client or a server would see, or is done by itself.
const NEEDLESS: &[&str] = &[
    "chunked_transfer_encoding",
    "accept_mutex",
    "access_log",
    "aio",
    "autoindex",
    "autoindex_exact_size",
    "autoindex_format",
    "autoindex_localtime",
    "client_body_buffer_size",
    "client_body_in_file_only",
    "client_body_in_single_buffer",
    "client_body_temp_path",
    "client_header_buffer_size",
    "connection_pool_size",
    "daemon",
    "directio",
    "disable_symlinks",
    "env",
    "error_log",
    "etag",
    "fastcgi_buffer_size",
    "fastcgi_buffers",
    "fastcgi_cache_path",
    "fastcgi_temp_path",
    "grpc_buffer_size",
    "grpc_send_timeout",
    "grpc_socket_keepalive",
    "gzip_buffers",
    "gzip_disable",
    "gzip_http_version",
    "gzip_proxied",
    "gzip_vary",
    "if_modified_since",
    "ignore_invalid_headers",
    "keepalive_disable",
    "keepalive_time",
    "lingering_close",
    "lingering_time",
    "lingering_timeout",
    "load_module",
    "lock_file",
    "log_format",
    "log_not_found",
    "log_subrequest",
    "map_hash_bucket_size",
    "map_hash_max_size",
    "master_process",
    "msie_padding",
    "multi_accept",
    "open_file_cache",
    "open_file_cache_errors",
    "open_file_cache_min_uses",
    "open_file_cache_valid",
    "open_log_file_cache",
    "output_buffers",
    "pcre_jit",
    "pid",
    "port_in_redirect",
    "postpone_output",
    "preread_buffer_size",
    "preread_timeout",
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_headers_hash_bucket_size",
    "proxy_headers_hash_max_size",
    "proxy_max_temp_file_size",
    "proxy_request_buffering",
    "proxy_send_timeout",
    "proxy_socket_keepalive",
    "proxy_ssl_ciphers",
    "proxy_ssl_server_name",
    "proxy_ssl_session_reuse",
    "proxy_ssl_verify_depth",
    "proxy_temp_file_write_size",
    "proxy_temp_path",
    "read_ahead",
    "request_pool_size",
    "reset_timedout_connection",
    "resolver",
    "resolver_timeout",
    "rewrite_log",
    "scgi_temp_path",
    "send_lowat",
    "send_timeout",
    "sendfile",
    "sendfile_max_chunk",
    "server_name_in_redirect",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "server_tokens",
    "ssl_buffer_size",
    "ssl_conf_command",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_ticket_key",
    "ssl_session_tickets",
    "ssl_session_timeout",
    "tcp_nodelay",
    "tcp_nopush",
    "thread_pool",
    "timer_resolution",
    "types_hash_bucket_size",
    "types_hash_max_size",
    "underscores_in_headers",
    "use",
    "user",
    "uwsgi_temp_path",
    "variables_hash_bucket_size",
    "variables_hash_max_size",
    "worker_connections",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_core",
    "worker_rlimit_nofile",
    "working_directory",
];

/// What is left out, by how names begin, and why. The first that fits counts.
const LEFT_OUT: &[(&str, &str)] = &[
    ("proxy_cache", "nothing is cached"),
    ("proxy_no_cache", "nothing is cached"),
    ("proxy_store", "nothing is stored"),
    ("proxy_ignore", "upstreams cannot steer the proxy"),
    (
        "proxy_bind",
        "of addresses to connect from there is the client's (`$remote_addr transparent`), or the system chooses",
    ),
    ("proxy_limit_rate", "see `bandwidth_limit` of policies"),
    ("proxy_responses", "flows end by time"),
    ("proxy_requests", "flows end by time"),
    ("proxy_half_close", "each direction of a tunnel ends by itself"),
    ("proxy_next_upstream_timeout", "see `total_timeout` of upstreams"),
    ("proxy_ssl", "see `tls` of upstreams"),
    ("fastcgi_", "there is no FastCGI"),
    ("uwsgi_", "there is no uwsgi"),
    ("scgi_", "there is no SCGI"),
    ("memcached_", "there is no memcached"),
    ("expires", "what upstreams say about caching goes on as it is"),
    ("sub_filter", "bodies are not changed"),
    ("addition", "bodies are not changed"),
    ("add_before_body", "bodies are not changed"),
    ("add_after_body", "bodies are not changed"),
    ("add_trailer", "trailers are not added"),
    ("ssi", "bodies are not changed"),
    ("xslt", "bodies are not changed"),
    ("charset", "bodies are not recoded"),
    ("gunzip", "bodies are not decoded for clients"),
    ("gzip_static", "files are not served"),
    ("limit_conn_", "see `concurrency_limit` of policies"),
    ("limit_req_status", "the status is 429"),
    ("limit_req_", "see `rate_limit`"),
    ("mirror", "see `mirror` of routes"),
    ("split_clients", "see `split` of routes"),
    ("map", "there are no maps; what uses its variable says so"),
    ("geo", "there are no such variables; what uses one says so"),
    ("valid_referers", "there is no such condition; what uses it says so"),
    ("secure_link", "links are not verified"),
    ("merge_slashes", "`//` is another path than `/`, and rejected where that could open something"),
    ("ssl_stapling", "OCSP responses are not stapled"),
    ("ssl_early_data", "there is no early data"),
    ("ssl_verify_depth", "how long chains of client certificates may be is not a setting"),
    ("ssl_", "see `tls` of listeners"),
    ("quic", "see `http3` of listeners"),
    ("mail", "mail protocols are not understood; see `tunnel`"),
    ("lua_", "there is no Lua"),
    ("js_", "there are no scripts"),
    ("perl", "there are no scripts"),
    ("opentelemetry", "see the access log and metrics"),
    ("otel", "see the access log and metrics"),
    ("recursive_error_pages", "an error page has no errors of its own"),
    ("userid", "cookies are not made"),
    ("more_set_headers", "see `response_headers` of routes"),
    ("more_clear_headers", "see `response_headers` of routes"),
    ("health_check", "see `health` of upstreams"),
];

/// What is read where it counts, beyond exact names.
const CARRIED_STARTS: &[&str] = &[
    "auth_",
    "access_by_",
    "app_protect_enable",
    "grpc_ssl_certificate",
    "grpc_ssl_name",
    "grpc_ssl_protocols",
    "grpc_ssl_trusted_certificate",
    "grpc_ssl_verify",
    "js_access",
    "modsecurity",
    "oidc",
    "proxy_ssl_certificate",
    "proxy_ssl_name",
    "proxy_ssl_protocols",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_verify",
    "ssl_certificate",
    "ssl_ciphers",
    "ssl_client_certificate",
    "ssl_crl",
    "ssl_ocsp",
    "ssl_protocols",
    "ssl_reject_handshake",
    "ssl_trusted_certificate",
    "ssl_verify_client",
    "SecRules",
];

/// Handlers that nothing here has.
const HANDLERS: &[&str] = &[
    "autoindex_handler",
    "content_by_lua",
    "content_by_lua_block",
    "content_by_lua_file",
    "dav_methods",
    "echo",
    "empty_gif",
    "fastcgi_pass",
    "flv",
    "hls",
    "js_content",
    "memcached_pass",
    "mp4",
    "perl",
    "random_index",
    "scgi_pass",
    "stub_status",
    "uwsgi_pass",
    "api",
    "proxy_wasm",
];

/// What changes a request so that forwarding it without would be another one.
const CHANGES: &[&str] = &[
    "proxy_method",
    "proxy_set_body",
    "proxy_pass_request_headers",
    "proxy_pass_request_body",
    "proxy_ssl_verify_none",
];

/// Scripts that do so, by how their names begin.
const SCRIPTS: [&str; 5] =
    ["rewrite_by_lua", "server_rewrite_by_lua", "set_by_lua", "header_filter_by_lua", "body_filter_by_lua"];

/// Whether a directive is a handler that nothing here has.
pub(crate) fn is_handler(name: &str) -> bool {
    HANDLERS.contains(&name)
}

/// Whether a directive is a script that may decide about requests, or change them.
pub(crate) fn is_script(name: &str) -> bool {
    SCRIPTS.iter().any(|start| name.starts_with(start))
}

/// A directive that changes what is forwarded.
pub(crate) fn changes_request<'d>(scope: &Scope<'d>) -> Option<&'d Directive> {
    let changed = CHANGES.iter().find_map(|name| scope.one(name).filter(|directive| directive.arg(0) != "on"));
    changed.or_else(|| scope.levels().flatten().find(|directive| is_script(&directive.name)))
}

/// Whether a directive is one that is carried, needless, or left out with a reason of its own.
fn is_named(name: &str) -> bool {
    let lists = [CARRIED, NEEDLESS, HANDLERS, CHANGES];
    lists.iter().any(|list| list.contains(&name))
        || is_script(name)
        || CARRIED_STARTS.iter().any(|start| name.starts_with(start))
        || LEFT_OUT.iter().any(|(start, _)| name.starts_with(start))
}

/// A directive around a place of which nothing is known: it may keep somebody out.
pub(crate) fn unknown<'d>(scope: &Scope<'d>) -> Option<&'d Directive> {
    let is_off = |directive: &Directive| matches!(directive.arg(0), "off" | "none" | "0") && directive.args.len() == 1;
    scope.levels().flatten().find(|directive| !is_named(&directive.name) && !is_off(directive))
}

/// What is left out of a level, as comments.
pub(crate) fn audit(level: &[Directive], report: &Report, comments: &mut Vec<String>) {
    for directive in level {
        let name = directive.name.as_str();
        let is_known = CARRIED.contains(&name)
            || NEEDLESS.contains(&name)
            || HANDLERS.contains(&name)
            || CHANGES.contains(&name)
            || is_script(name)
            || CARRIED_STARTS.iter().any(|start| name.starts_with(start));
        // What is switched off need not be carried.
        let is_off = matches!(directive.arg(0), "off" | "none" | "0") && directive.args.len() == 1;
        if is_known || is_off || is_transparent(directive) {
            continue;
        }
        let why =
            LEFT_OUT.iter().find(|(start, _)| name.starts_with(start)).map_or("it is not known here", |(_, why)| *why);
        // What is there by default, and what nobody asks for.
        if matches!(name, "map" | "geo") && (says_itself(level, directive) || defined::usual(directive).is_some()) {
            continue;
        }
        comments.push(match is_for_programs_beside(name) {
            true => report.beside(&directive.place, &directive.shown()),
            false => report.left_out(&directive.place, &directive.shown(), why),
        });
    }
}

/// Whether a directive is about programs that speak FastCGI, uwsgi or SCGI.
pub(crate) fn is_for_programs_beside(name: &str) -> bool {
    ["fastcgi_", "uwsgi_", "scgi_"].iter().any(|start| name.starts_with(start))
}

/// Whether a directive has servers connected to from the client's own address.
pub(crate) fn is_transparent(directive: &Directive) -> bool {
    let is_client = |address: &str| matches!(address, "$remote_addr" | "$remote_addr:$remote_port");
    let [address, how] = directive.args.as_slice() else { return false };
    directive.name == "proxy_bind" && is_client(address) && how == "transparent"
}

/// Whether the variable of a `map` or `geo` is used for `Connection` alone, which is done by itself, and in conditions, which say themselves if they are not carried.
fn says_itself(level: &[Directive], definition: &Directive) -> bool {
    !level.iter().any(|directive| uses(directive, definition.args.last().map_or("", String::as_str)))
}

fn uses(directive: &Directive, variable: &str) -> bool {
    let is_own =
        matches!(directive.name.as_str(), "map" | "geo") && directive.args.last().is_some_and(|arg| arg == variable);
    let is_connection = directive.name == "proxy_set_header" && directive.arg(0).eq_ignore_ascii_case("connection");
    // Not within a longer text: what is compared is the variable alone.
    let is_condition = directive.name == "if";
    let name = variable.trim_start_matches('$');
    let names = |text: &String| text.contains(variable) || text.contains(&format!("${{{name}}}"));
    let is_used = !is_own && !is_connection && !is_condition && directive.args.iter().any(names);
    is_used || directive.inner().iter().any(|inner| uses(inner, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once() {
        for list in [CARRIED, NEEDLESS, HANDLERS, CHANGES] {
            let mut names = list.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len());
        }
        assert!(!CARRIED.iter().any(|name| NEEDLESS.contains(name)));
    }
}
