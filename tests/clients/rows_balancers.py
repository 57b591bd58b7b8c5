"""Other proxies in front of the edge and behind it, with the settings they come with; other makes of application servers behind."""

import os
import re
import signal
import time

from proxies import Edge, nginx_folders, nginx_user, start
from rows import row
from rows_http import Web, url
from stage import HERE, PATIENCE, Failed, Process, Settings, ca, folder, free_port, pair, python, run, tool, until_connectable

PEERS = ("portunus", "nginx", "haproxy")


def front_row(name, front, edge_settings, **front_settings):
    """Client, a proxy in front, the edge, the application. Clients and what they do are those of the rows of HTTP clients."""

    def scene(way):
        with Web() as web, start(way, [web], **edge_settings) as edge, start(front, [edge], **front_settings) as balancer:
            run(tool("bin/web-client"), url(balancer), ca(), seconds=60, env={"NO_PROXY": "*"})

    scene.__name__ = f"front_{name}"
    row(ways=PEERS, needs=("go", front), seconds=5)(scene)


front_row("nginx", "nginx", {}, stock=True)
front_row("nginx_keepalive", "nginx", {})
front_row("nginx_tls", "nginx", {}, tls=True)
front_row("haproxy", "haproxy", {})
front_row("haproxy_tls", "haproxy", {}, tls=True)
front_row("haproxy_h2", "haproxy", {}, tls=True, protocol="http2")
front_row("haproxy_proxy_v1", "haproxy", {"proxy_protocol": True}, send_proxy="send-proxy")
front_row("haproxy_proxy_v2", "haproxy", {"proxy_protocol": True}, send_proxy="send-proxy-v2")
front_row("haproxy_proxy_v2_tls", "haproxy", {"proxy_protocol": True}, tls=True, send_proxy="send-proxy-v2")


class Load(Process):
    """GETs, and some POSTs, that go on while the row does something."""

    def __init__(self, edge, count, *kind):
        super().__init__(tool("bin/web-client"), url(edge), ca(), "load", count, *kind, env={"NO_PROXY": "*"})

    def succeed(self):
        if self.wait(600 + PATIENCE) != 0:
            raise Failed(self.said()[:2000])

    def failures(self):
        """How many requests failed."""
        if self.wait(600 + PATIENCE) == 0:
            return 0
        counted = re.search(r"(\d+) of \d+ requests failed", self.said())
        if not counted:
            raise Failed(self.said()[:2000])
        return int(counted.group(1))


class Application(Edge):
    """A server behind the edge, with one port for whatever it speaks."""

    def __init__(self, process, port):
        super().__init__("application", port, port, port, process)
        until_connectable(port, process)


def nginx_server(http2=False, tls=False):
    """nginx as it comes: 1,000 requests, then it closes the connection, or sends GOAWAY."""
    place, port = folder("nginx-server"), free_port()
    path = os.path.join(place, "nginx.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f"daemon off; worker_processes 1; pid {place}/pid; error_log stderr notice; {nginx_user()} events {{}}\n"
            f"http {{ {nginx_folders(place)} access_log off;\n"
            f"  server {{ listen 127.0.0.1:{port}{' ssl' if tls else ''}{' http2' if http2 else ''}; location / {{ return 200 hello; }}\n"
            f"    {f'ssl_certificate {pair()}; ssl_certificate_key {pair()};' if tls else ''} }} }}\n"
        )
    process = Process("nginx", "-c", path, env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, ending=signal.SIGTERM)
    return Application(process, port)


def haproxy_server():
    place, port = folder("haproxy-server"), free_port()
    path = os.path.join(place, "haproxy.cfg")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "global\n  maxconn 500\ndefaults\n  mode http\n  timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n"
            f"frontend app\n  bind 127.0.0.1:{port}\n  http-request return status 200 content-type text/plain string hello\n"
        )
    # Master and worker, as its service runs it: a reload starts a new worker and lets the old one finish.
    process = Process("haproxy", "-W", "-f", path, env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, ending=signal.SIGTERM)
    return Application(process, port)


def gunicorn():
    port = free_port()
    words = python("-m", "gunicorn", "--chdir", HERE, "--bind", f"127.0.0.1:{port}", "--workers", 2, "applications:wsgi")
    return Application(Process(*words, ending=signal.SIGTERM), port)


def uvicorn():
    port = free_port()
    words = python("-m", "uvicorn", "--app-dir", HERE, "--port", port, "--no-access-log", "applications:asgi")
    return Application(Process(*words, ending=signal.SIGTERM), port)


def node():
    process = Process("node", f"{HERE}/application.mjs", ready="listening ")
    return Application(process, int(process.ready_line.split()[1]))


def behind_row(name, needs, server, short, full, reload=None, only_full=False, **edge_settings):
    """Requests to a server behind the edge; with a signal that makes it reload each second or so."""

    def scene(way):
        count = full if Settings.full else short
        # A server that closes a kept connection at the very moment at which a POST is sent leaves open whether it was executed, so that
        # nobody may send it again (RFC 9110 9.2.2). That moment comes with a reload.
        kind = ["get"] if reload else []
        with server() as application, start(way, [application], **edge_settings) as edge, Load(edge, count, *kind) as load:
            while reload and load.child.poll() is None:
                time.sleep(0.7)
                application.process.signal(reload)
            load.succeed()

    scene.__name__ = f"behind_{name}"
    row(ways=PEERS, needs=("go", *needs), seconds=6, only_full=only_full)(scene)


behind_row("nginx", ("nginx",), nginx_server, 3000, 20000)
behind_row("nginx_h2c_goaway", ("nginx",), lambda: nginx_server(http2=True), 6000, 20000, protocol="http2")
behind_row("nginx_reload", ("nginx",), nginx_server, 3000, 20000, reload=signal.SIGHUP)
behind_row("haproxy", ("haproxy",), haproxy_server, 3000, 20000)
behind_row("haproxy_reload", ("haproxy",), haproxy_server, 3000, 20000, reload=signal.SIGUSR2)
behind_row("gunicorn", ("python",), gunicorn, 500, 5000)
behind_row("uvicorn", ("python",), uvicorn, 1000, 10000)
behind_row("node", ("node",), node, 2000, 20000)
