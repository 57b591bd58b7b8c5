"""Envoy, Caddy and Apache as proxies, with the settings they come with, for rows that have them in front of the edge or behind it."""

import json
import os
import signal

from proxies import WAYS, Edge, port_of
from stage import Failed, Process, ca, folder, free_port, pair, tool, until_connectable


def extension(**settings):
    """The settings of a part of Envoy, with its type."""
    kind = settings.pop("kind")
    return {"@type": f"type.googleapis.com/envoy.extensions.{kind}", **settings}


def envoy(servers, protocol="http1", tls=False, send_proxy=""):
    """`send_proxy`: V1 or V2."""
    place = folder("envoy")
    https, http = free_port(), free_port()
    chain = {"filters": [{"name": "http", "typed_config": envoy_manager()}]}
    file = {"filename": pair()}
    offered = {"tls_certificates": [{"certificate_chain": file, "private_key": file}], "alpn_protocols": ["h2", "http/1.1"]}
    secure = extension(kind="transport_sockets.tls.v3.DownstreamTlsContext", common_tls_context=offered)
    secure_chain = {**chain, "transport_socket": {"name": "tls", "typed_config": secure}}
    config = {
        "static_resources": {
            "listeners": [
                {"address": address(https), "filter_chains": [secure_chain]},
                {"address": address(http), "filter_chains": [chain]},
            ],
            "clusters": [envoy_cluster(servers, protocol, tls, send_proxy)],
        }
    }
    path = os.path.join(place, "envoy.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(config, out)
    more = ["--disable-hot-restart", "--concurrency", 2, "--log-level", "warn"]
    process = Process(tool("envoy/bin/envoy"), "--config-path", path, *more, ending=signal.SIGTERM)
    until_connectable(https, process)
    return Edge("envoy", https, http, http, process)


def envoy_manager():
    route = {"match": {"prefix": "/"}, "route": {"cluster": "app"}}
    return extension(
        kind="filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="edge",
        route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        http_filters=[{"name": "router", "typed_config": extension(kind="filters.http.router.v3.Router")}],
    )


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def envoy_cluster(servers, protocol, tls, send_proxy):
    endpoints = [{"endpoint": {"address": address(port_of(server, protocol, tls))}} for server in servers]
    cluster = {"name": "app", "load_assignment": {"cluster_name": "app", "endpoints": [{"lb_endpoints": endpoints}]}}
    if protocol == "http2":
        cluster["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": extension(
                kind="upstreams.http.v3.HttpProtocolOptions", explicit_http_config={"http2_protocol_options": {}}
            )
        }
    inner = {"name": "plain", "typed_config": extension(kind="transport_sockets.raw_buffer.v3.RawBuffer")}
    if tls:
        trusted = {"validation_context": {"trusted_ca": {"filename": ca()}}}
        if protocol == "http2":
            trusted["alpn_protocols"] = ["h2"]
        inner = {
            "name": "tls",
            "typed_config": extension(kind="transport_sockets.tls.v3.UpstreamTlsContext", sni="localhost", common_tls_context=trusted),
        }
    if send_proxy:
        inner = {
            "name": "proxy",
            "typed_config": extension(
                kind="transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
                config={"version": send_proxy},
                transport_socket=inner,
            ),
        }
    cluster["transport_socket"] = inner
    return cluster


def caddy(servers, protocol="http1", tls=False):
    place = folder("caddy")
    https, http = free_port(), free_port()
    scheme = "https" if tls else "h2c" if protocol == "http2" else "http"
    to = " ".join(f"{scheme}://127.0.0.1:{port_of(server, protocol, tls)}" for server in servers)
    # Over TLS it takes what ALPN chooses, HTTP/2 where it can.
    how = f"transport http {{\n tls_trusted_ca_certs {ca()}\n tls_server_name localhost\n }}" if tls else ""
    path = os.path.join(place, "Caddyfile")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""
{{
  admin off
  auto_https off
  log {{
    output stderr
    level WARN
  }}
  servers {{
    protocols h1 h2 h2c
  }}
}}
https://localhost:{https} {{
  bind 127.0.0.1
  tls {pair()} {pair()}
  reverse_proxy {to} {{
    {how}
  }}
}}
http://localhost:{http}, http://127.0.0.1:{http} {{
  bind 127.0.0.1
  reverse_proxy {to} {{
    {how}
  }}
}}
""")
    at_home = {"HOME": place, "XDG_DATA_HOME": place, "XDG_CONFIG_HOME": place}
    process = Process("caddy", "run", "--config", path, "--adapter", "caddyfile", env=at_home, ending=signal.SIGTERM)
    until_connectable(https, process)
    return Edge("caddy", https, http, http, process)


APACHE_MODULES = "mpm_event authz_core dir alias ssl socache_shmcb proxy proxy_http proxy_http2 http2 headers"


def apache_base(place, more):
    modules = "\n".join(f"LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so" for module in APACHE_MODULES.split())
    user = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
    return f"""
ServerName localhost
ServerRoot {place}
PidFile {place}/apache.pid
DefaultRuntimeDir {place}
ErrorLog {place}/error.log
LogLevel warn
{modules}
{user}
Protocols h2 h2c http/1.1
{more}
"""


def apache_process(path, port):
    process = Process("/usr/sbin/apache2", "-f", path, "-D", "FOREGROUND", ending=signal.SIGTERM)
    until_connectable(port, process)
    return process


def apache(servers, protocol="http1", tls=False):
    place = folder("apache")
    https, http = free_port(), free_port()
    scheme = {("http1", False): "http", ("http1", True): "https", ("http2", False): "h2c", ("http2", True): "h2"}[protocol, tls]
    if len(servers) != 1:
        raise Failed("one server is what this configuration can")
    to = f"{scheme}://{'localhost' if tls else '127.0.0.1'}:{port_of(servers[0], protocol, tls)}/"
    path = os.path.join(place, "apache.conf")
    with open(path, "w", encoding="utf-8") as file:
        # Clients of one connection are counted elsewhere; by itself it closes one after 100 requests.
        file.write(apache_base(place, f"""
MaxKeepAliveRequests 0
Listen 127.0.0.1:{https}
Listen 127.0.0.1:{http}
SSLProxyEngine on
SSLProxyCACertificateFile {ca()}
SSLProxyVerify require
ProxyPass / {to}
ProxyPassReverse / {to}
<VirtualHost 127.0.0.1:{https}>
  SSLEngine on
  SSLCertificateFile {pair()}
</VirtualHost>
"""))
    process = apache_process(path, https)
    return Edge("apache", https, http, http, process)


WAYS.update({"envoy": envoy, "caddy": caddy, "apache": apache})
