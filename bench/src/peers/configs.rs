//! How each proxy is configured. Fair means: the same work, each in its best shape.
//!
//! All: N workers; connections to the upstream kept open; the access log off; limits and deadlines out of the way; the same four `X-Forwarded-*`
//! fields and the client's Host sent upstream; X25519, TLS_AES_128_GCM_SHA256 and ECDHE-*-AES128-GCM-SHA256; session tickets on.

use std::net::SocketAddr;
use std::path::Path;

use super::{HOST, Needs, Peer, Ports, filled};

/// Where a proxy stands.
pub(super) struct Site<'a> {
    /// With its certificates and run-time files.
    pub(super) folder: &'a Path,
    pub(super) ports: Ports,
    pub(super) upstream: SocketAddr,
    pub(super) needs: Needs,
}

/// The configuration of `peer`.
pub(super) fn text(peer: Peer, site: &Site<'_>) -> String {
    let (template, http3) = match peer {
        Peer::Nginx | Peer::OtherNginx => (NGINX, [("@server3", NGINX_HTTP3), ("@global3", "")]),
        Peer::Haproxy | Peer::OtherHaproxy => (HAPROXY, [("@server3", HAPROXY_HTTP3), ("@global3", HAPROXY_QUIC)]),
        Peer::Earlier | Peer::Portunus => (PORTUNUS, [("@server3", PORTUNUS_HTTP3), ("@global3", "")]),
    };
    let http3 = http3.map(|(key, text)| (key, if site.needs.http3 { text.to_owned() } else { String::new() }));
    let Ports { plain, ecdsa, rsa, http3: both } = site.ports;
    let values = [
        ("@folder", site.folder.display().to_string()),
        ("@host", HOST.to_owned()),
        ("@workers", site.needs.workers.to_string()),
        ("@upstream", site.upstream.to_string()),
        ("@plain", plain.to_string()),
        ("@ecdsa", ecdsa.to_string()),
        ("@rsa", rsa.to_string()),
        ("@http3", both.to_string()),
    ];
    filled(&filled(template, &http3), &values)
}

const NGINX: &str = "\
daemon off;
worker_processes @workers;
worker_rlimit_nofile 100000;
pid @folder/nginx.pid;
error_log stderr crit;
events {
    worker_connections 50000;
    multi_accept on;
}
http {
    access_log off;
    server_tokens off;
    tcp_nodelay on;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    client_body_temp_path @folder/nginx-body;
    proxy_temp_path @folder/nginx-proxy;
    fastcgi_temp_path @folder/nginx-fastcgi;
    uwsgi_temp_path @folder/nginx-uwsgi;
    scgi_temp_path @folder/nginx-scgi;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_ecdh_curve X25519;
    ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    ssl_conf_command NumTickets 1;
    ssl_session_cache off;
    ssl_session_tickets on;
    upstream bench {
        server @upstream;
        keepalive 1024;
        keepalive_requests 1000000000;
        keepalive_timeout 1h;
    }
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_set_header X-Forwarded-Port $server_port;
    proxy_request_buffering off;
    proxy_buffer_size 16k;
    proxy_buffers 16 32k;
    proxy_busy_buffers_size 128k;
    proxy_max_temp_file_size 0;
    server {
        listen @plain backlog=4096;
        listen @ecdsa ssl http2 backlog=4096;
        ssl_certificate @folder/ecdsa/@host.pem;
        ssl_certificate_key @folder/ecdsa/@host.pem;
        location / { proxy_pass http://bench; }
    }
    server {
        listen @rsa ssl http2 backlog=4096;
        ssl_certificate @folder/rsa/@host.pem;
        ssl_certificate_key @folder/rsa/@host.pem;
        location / { proxy_pass http://bench; }
    }
@server3}
";

/// Under HTTP/3 nginx has no Host field to pass on.
const NGINX_HTTP3: &str = "    server {
        listen @http3 quic;
        listen @http3 ssl backlog=4096;
        quic_gso on;
        ssl_certificate @folder/ecdsa/@host.pem;
        ssl_certificate_key @folder/ecdsa/@host.pem;
        proxy_set_header Connection \"\";
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Forwarded-Host $host;
        proxy_set_header X-Forwarded-Port $server_port;
        location / { proxy_pass http://bench; }
    }
";

const HAPROXY: &str = "\
global
    nbthread @workers
    maxconn 12000
    no strict-limits
    ssl-default-bind-options ssl-min-ver TLSv1.2
    ssl-default-bind-curves X25519
    ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
    tune.ssl.cachesize 0
    tune.pool-high-fd-ratio 90
@global3defaults
    mode http
    option http-keep-alive
    http-reuse always
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout http-keep-alive 1h
frontend bench
    bind @plain backlog 4096
    bind @ecdsa backlog 4096 ssl alpn h2,http/1.1 crt @folder/ecdsa/@host.pem
    bind @rsa backlog 4096 ssl alpn h2,http/1.1 crt @folder/rsa/@host.pem
@server3    option forwardfor
    http-request set-header X-Forwarded-Proto https if { ssl_fc }
    http-request set-header X-Forwarded-Proto http unless { ssl_fc }
    http-request set-header X-Forwarded-Host %[req.hdr(Host)]
    http-request set-header X-Forwarded-Port %[dst_port]
    default_backend bench
backend bench
    server upstream @upstream pool-max-conn 1024
";

/// QUIC on a TLS library without an interface for it has to be asked for; with one the line means nothing.
const HAPROXY_QUIC: &str = "    limited-quic
    tune.quic.frontend.max-idle-timeout 1h
";

const HAPROXY_HTTP3: &str = "    bind quic4@@http3 ssl alpn h3 crt @folder/ecdsa/@host.pem
    bind @http3 backlog 4096 ssl alpn h2,http/1.1 crt @folder/ecdsa/@host.pem
";

const PORTUNUS: &str = "\
workers: @workers
listeners:
  - name: plain
    bind: \"@plain\"
  - name: ecdsa
    bind: \"@ecdsa\"
    tls: { keystore: ecdsa }
  - name: rsa
    bind: \"@rsa\"
    tls: { keystore: rsa }
@server3keystores:
  ecdsa: { folder: @folder/ecdsa, default: @host }
  rsa: { folder: @folder/rsa, default: @host }
upstreams:
  bench:
    servers: [\"@upstream\"]
    pool_max_idle: 1024
    pool_idle_timeout: 1h
routes:
  - upstream: bench
forwarding: { x_forwarded: true, x_real_ip: false, via: false, request_id: false }
log: { access: none, level: warn }
limits:
  max_connections_per_client: 100000
  max_requests_per_connection: 1000000000
  keep_alive_timeout: 1h
";

const PORTUNUS_HTTP3: &str = "  - name: http3
    bind: \"@http3\"
    tls: { keystore: ecdsa }
    http3: true
";
