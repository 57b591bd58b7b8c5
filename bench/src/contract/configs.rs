//! How each proxy of this comparison is configured. The fair nginx is in its best shape; the other one is as a published comparison had it.

use std::net::SocketAddr;
use std::path::Path;

use super::Proxy;
use crate::peers::filled;

/// The configuration of a proxy that listens on `listen` and keeps its files in `folder`.
pub(super) fn text(proxy: Proxy, folder: &Path, listen: SocketAddr, upstream: SocketAddr) -> String {
    let template = match proxy {
        Proxy::Nginx => NGINX,
        Proxy::NginxArticle => NGINX_ARTICLE,
        Proxy::Forward => FORWARD,
        Proxy::Contract | Proxy::Earlier => CONTRACT,
    };
    let values = [
        ("@folder", folder.display().to_string()),
        ("@listen", listen.to_string()),
        ("@upstream", upstream.to_string()),
    ];
    filled(template, &values)
}

/// Forwards blindly, with everything on its side.
const NGINX: &str = "\
daemon off;
worker_processes 1;
worker_rlimit_nofile 100000;
pid @folder/nginx.pid;
error_log stderr crit;
events {
    worker_connections 16384;
    multi_accept on;
}
http {
    access_log off;
    server_tokens off;
    tcp_nodelay on;
    keepalive_timeout 60s;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    client_body_buffer_size 4m;
    client_body_temp_path @folder/nginx-body;
    proxy_temp_path @folder/nginx-proxy;
    fastcgi_temp_path @folder/nginx-fastcgi;
    uwsgi_temp_path @folder/nginx-uwsgi;
    scgi_temp_path @folder/nginx-scgi;
    upstream bench {
        server @upstream;
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 60s;
    }
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    proxy_set_header Host $http_host;
    proxy_request_buffering on;
    proxy_max_temp_file_size 0;
    server {
        listen @listen backlog=65535 reuseport;
        location / { proxy_pass http://bench; }
    }
}
";

/// As the published comparison had it: HTTP/1.0 to the upstream, a new connection for each request.
const NGINX_ARTICLE: &str = "\
daemon off;
worker_processes 1;
pid @folder/nginx-article.pid;
error_log stderr crit;
events { worker_connections 16384; }
http {
    access_log off;
    client_max_body_size 0;
    client_body_temp_path @folder/article-body;
    proxy_temp_path @folder/article-proxy;
    fastcgi_temp_path @folder/article-fastcgi;
    uwsgi_temp_path @folder/article-uwsgi;
    scgi_temp_path @folder/article-scgi;
    server {
        listen @listen backlog=65535;
        location / { proxy_pass http://@upstream; }
    }
}
";

const FORWARD: &str = "\
workers: 1
listeners: [{ name: plain, bind: \"@listen\" }]
upstreams: { bench: { servers: [\"@upstream\"], pool_max_idle: 1024, pool_idle_timeout: 1h } }
routes: [{ upstream: bench }]
forwarding: { x_forwarded: false, x_real_ip: false, via: false, request_id: false }
log: { access: none, level: warn }
limits: { max_connections_per_client: 100000, max_requests_per_connection: 1000000000, keep_alive_timeout: 1h }
";

/// The same, and every field of request and answer validated; what breaks the contract is blocked.
const CONTRACT: &str = "\
workers: 1
listeners: [{ name: plain, bind: \"@listen\", contract: forum }]
contracts: { forum: { document: @folder/openapi.json, request: block, response: block } }
upstreams: { bench: { servers: [\"@upstream\"], pool_max_idle: 1024, pool_idle_timeout: 1h } }
routes: [{ upstream: bench }]
forwarding: { x_forwarded: false, x_real_ip: false, via: false, request_id: false }
log: { access: none, level: warn }
limits: { max_connections_per_client: 100000, max_requests_per_connection: 1000000000, keep_alive_timeout: 1h }
";
