"""Portunus, nginx and HAProxy doing the same job: TLS and plain text in, one group of upstream servers behind, with few settings."""

import json
import os
import re
import signal

from stage import Failed, Process, Settings, ca, folder, free_port, pair, until_connectable


class Edge:
    """A running proxy, or none at all: where clients connect."""

    def __init__(self, name, https, http, h2c=None, process=None):
        self.name = name
        self.https = https
        self.http = http
        self.h2c = h2c
        self.process = process
        # Its access log, where a row wants to read that.
        self.access_log = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.end()

    def log(self):
        return self.process.said() if self.process else ""


def port_of(server, protocol="http1", tls=False):
    """Where a server takes what: not every proxy tells HTTP/2 from HTTP/1 by itself where there is no TLS."""
    if tls:
        return server.https
    return getattr(server, "h2c", None) or server.http if protocol == "http2" else server.http


def direct(servers, **_):
    """The first server itself."""
    server = servers[0]
    return Edge("direct", server.https, server.http, server.http)


# What the admin listener of a site asks for that has one.
ADMIN_TOKEN = "a-token-of-tests-alone"


def portunus(servers, protocol="http1", tls=False, proxy_protocol=False, trusted=None, admin=False):
    place = folder("portunus")
    listening = {"bind": "127.0.0.1:0"}
    if proxy_protocol:
        listening["proxy_protocol"] = {"trust": "127.0.0.0/8"}
    group = {
        "servers": [f"127.0.0.1:{port_of(server, protocol, tls)}" for server in servers],
        "protocol": protocol,
        # As the example of long-lived exchanges has it.
        "idle_timeout": "1h",
        "response_header_timeout": "10m",
    }
    if tls:
        group["tls"] = {"ca": ca(), "server_name": "localhost"}
    config = {
        "listeners": [
            {"name": "https", **listening, "tls": {"keystore": "main"}},
            {"name": "http", **listening},
        ],
        "keystores": {"main": {"folder": os.path.dirname(pair()), "default": "localhost"}},
        "upstreams": {"app": group},
        "routes": [{"upstream": "app", "max_body": "8GiB"}],
        "log": {"access": {"output": "access.log"}},
    }
    if trusted:
        config["trusted_proxies"] = trusted
    if admin:
        config["admin"] = {"bind": "127.0.0.1:0", "token": {"env": "ADMIN_TOKEN"}}
        # So that there is a policy, and something that it rejects.
        config["policies"] = {"nobody": {"deny": "0.0.0.0/0"}}
        config["routes"].append({"path": "/denied/{*rest}", "respond": {"status": 204}, "policies": "nobody"})
    path = os.path.join(place, "portunus.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    process = Process(Settings.portunus, "run", path, env={"ADMIN_TOKEN": ADMIN_TOKEN, "PORTUNUS_CONTROL": "none"})
    ports = {}
    for name in ("https", "http"):
        line = process.wait_for(f'"listening","listener":"{name}"')
        ports[name] = int(re.search(r'"address":"127\.0\.0\.1:(\d+)"', line).group(1))
    edge = Edge("portunus", ports["https"], ports["http"], ports["http"], process)
    edge.access_log = os.path.join(place, "access.log")
    if admin:
        line = process.wait_for('"admin listening"')
        edge.admin = int(re.search(r'"address":"127\.0\.0\.1:(\d+)"', line).group(1))
    return edge


class Configured(Process):
    """The program on a configuration of the row's own, which may name files of the folder `place`; `words`: options of `run`, `by`: what runs it."""

    def __init__(self, config, place, *words, by=()):
        path = os.path.join(place, "portunus.yaml")
        config = {"log": {"access": {"output": "access.log"}}, **config, "listeners": with_http3_ports(config["listeners"])}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        super().__init__(*by, Settings.portunus, "run", *words, path)
        self.access_log = os.path.join(place, "access.log")
        self.ports = {}
        try:
            for name in (listener["name"] for listener in config["listeners"]):
                line = self.wait_for(f'"listening","listener":"{name}"')
                self.ports[name] = int(re.search(r'"address":"127\.0\.0\.1:(\d+)"', line).group(1))
        except BaseException:
            self.end()
            raise

    def requests(self):
        """The lines of the access log."""
        with open(self.access_log, encoding="utf-8") as log:
            return [json.loads(line) for line in log]


def with_http3_ports(listeners):
    """The port that the kernel gives for TCP may be somebody's for UDP: those that serve both get one beyond the kernel's."""
    chosen = lambda one: one.get("http3") and one["bind"] == "127.0.0.1:0"
    return [{**one, "bind": f"127.0.0.1:{free_port()}"} if chosen(one) else one for one in listeners]


def keystores():
    return {"main": {"folder": os.path.dirname(pair()), "default": "localhost"}}


def nginx(servers, protocol="http1", tls=False, proxy_protocol=False, trusted=None, stock=False):
    place = folder("nginx")
    https, http, h2c = free_port(), free_port(), free_port()
    proxied = " proxy_protocol" if proxy_protocol else ""
    group = "".join(f"server 127.0.0.1:{port_of(server, protocol, tls)};" for server in servers)
    if protocol == "http2":
        location = (
            f"grpc_pass {'grpcs' if tls else 'grpc'}://app; grpc_read_timeout 1h; grpc_send_timeout 1h;"
            " grpc_next_upstream error timeout non_idempotent;"
        )
    elif stock:
        # HTTP/1.0 and a connection for each request.
        location = f"proxy_pass {'https' if tls else 'http'}://app;"
    else:
        location = (
            f"proxy_pass {'https' if tls else 'http'}://app; proxy_http_version 1.1; proxy_set_header Host $http_host;"
            " proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_out; proxy_read_timeout 1h;"
            " proxy_send_timeout 1h; proxy_request_buffering off; proxy_buffering off;"
        )
    path = os.path.join(place, "nginx.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""
daemon off; worker_processes 2; pid {place}/pid; error_log stderr notice; {nginx_user()}
events {{ worker_connections 1024; }}
http {{
  {nginx_folders(place)} access_log {place}/access.log; client_max_body_size 0; client_body_timeout 1h; send_timeout 1h;
  proxy_buffer_size 32k; proxy_buffers 8 32k; large_client_header_buffers 4 32k;
  map $http_upgrade $connection_out {{ default upgrade; '' ''; }}
  upstream app {{ {group} keepalive 32; }}
  server {{
    listen 127.0.0.1:{https} ssl http2{proxied}; listen 127.0.0.1:{http}{proxied}; listen 127.0.0.1:{h2c} http2{proxied};
    ssl_certificate {pair()}; ssl_certificate_key {pair()};
    location / {{ {location} }}
  }}
}}
""")
    process = Process("nginx", "-c", path, env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, ending=signal.SIGTERM)
    until_connectable(https, process)
    return Edge("nginx", https, http, h2c, process)


def nginx_user():
    return "user root;" if os.geteuid() == 0 else ""


def nginx_folders(place):
    return " ".join(f"{kind}_temp_path {place}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))


def haproxy(servers, protocol="http1", tls=False, proxy_protocol=False, trusted=None, send_proxy=""):
    place = folder("haproxy")
    https, http, h2c = free_port(), free_port(), free_port()
    proxied = " accept-proxy" if proxy_protocol else ""
    over = f" ssl verify required ca-file {ca()} sni str(localhost) verifyhost localhost" if tls else ""
    if protocol == "http2":
        over += " alpn h2" if tls else " proto h2"
    if send_proxy:
        over += f" {send_proxy}"
    group = "\n".join(
        f"  server s{number} 127.0.0.1:{port_of(server, protocol, tls)}{over}" for number, server in enumerate(servers)
    )
    path = os.path.join(place, "haproxy.cfg")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""
global
  maxconn 2000
  log stderr format raw local0 notice
defaults
  mode http
  log global
  option redispatch
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
frontend edge
  bind 127.0.0.1:{https} ssl crt {pair()} alpn h2,http/1.1{proxied}
  bind 127.0.0.1:{http}{proxied}
  bind 127.0.0.1:{h2c} proto h2{proxied}
  default_backend app
backend app
{group}
""")
    process = Process("haproxy", "-db", "-f", path, env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, ending=signal.SIGTERM)
    until_connectable(https, process)
    return Edge("haproxy", https, http, h2c, process)


WAYS = {"portunus": portunus, "nginx": nginx, "haproxy": haproxy, "direct": direct}


def start(way, servers, **what):
    if way not in WAYS:
        raise Failed(f"no such way: {way}")
    return WAYS[way](servers, **what)
