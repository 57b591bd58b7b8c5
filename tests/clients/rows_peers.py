"""Envoy, Caddy and Apache in front of the edge and behind it; PROXY headers before HTTP/2; the client named rightly through all of them."""

import glob
import os
import signal
import time

import balancers
from proxies import start
from rows import row
from rows_balancers import PEERS, Application, Load, behind_row, nginx_server
from rows_http import Web, url
from stage import HERE, Failed, Process, Settings, ca, folder, free_port, run, tool, until

# Another address of this machine than the one that proxies connect from.
CLIENT = "127.0.0.9"

PLAIN = {}
TLS = {"tls": True}
H2C = {"protocol": "http2"}
H2 = {"protocol": "http2", "tls": True}


def browse(entrance):
    """Everything that Go's client does, over HTTP/2 and HTTP/1.1."""
    run(tool("bin/web-client"), url(entrance), ca(), seconds=60, env={"NO_PROXY": "*", "CLIENT_ADDRESS": CLIENT})


def named_rightly(edge):
    """Whether the access log has the client, not the proxy, as the client of every request."""

    def requests():
        with open(edge.access_log, encoding="utf-8") as log:
            return [line for line in log if '"status":' in line]

    until(lambda: any('"/echo' in line for line in requests()), "no request in the access log")
    for line in requests():
        if f'"client_address":"{CLIENT}"' not in line:
            raise Failed(f"another client: {line}")


def front_row(name, front, short, full, names_client=True, **edge_settings):
    """Client, a proxy in front, the edge, the application: with each of the ways in which the proxy may talk to the edge."""

    def scene(way):
        for settings in full if Settings.full else short:
            with Web() as web, start(way, [web], **edge_settings) as edge, start(front, [edge], **settings) as entrance:
                try:
                    browse(entrance)
                except Failed as failure:
                    raise Failed(f"with {settings}: {failure}") from None
                if edge.access_log and names_client:
                    named_rightly(edge)

    scene.__name__ = f"front_{name}"
    row(ways=PEERS, needs=("go", front), seconds=6 * len(short))(scene)


# Envoy alone names no client unless it is asked to; the others set X-Forwarded-For.
trusting = {"trusted": ["127.0.0.1"]}
front_row("envoy", "envoy", [H2C, H2], [PLAIN, TLS, H2C, H2], names_client=False)
front_row("caddy", "caddy", [PLAIN, TLS], [PLAIN, TLS, H2C], **trusting)
front_row("apache", "apache", [PLAIN], [PLAIN, TLS, H2C, H2], **trusting)
headed = {"proxy_protocol": True}
every = [{**how, "send_proxy": version} for version in ("V1", "V2") for how in (PLAIN, TLS, H2C, H2)]
front_row("envoy_proxy", "envoy", [every[2], every[7]], every, **headed)
every = [{**how, "send_proxy": version} for version in ("send-proxy", "send-proxy-v2") for how in (H2C, H2)]
front_row("haproxy_proxy_h2", "haproxy", [every[0], every[3]], every, **headed)


def behind_proxy_row(proxy, short, full):
    """Client, the edge, a proxy behind it, the application."""

    def scene(way):
        for settings in full if Settings.full else short:
            with Web() as web, start(proxy, [web]) as behind, start(way, [behind], **settings) as edge:
                try:
                    browse(edge)
                except Failed as failure:
                    raise Failed(f"with {settings}: {failure}") from None

    scene.__name__ = f"behind_{proxy}"
    row(ways=PEERS, needs=("go", proxy), seconds=6 * len(short))(scene)


behind_proxy_row("envoy", [H2], [PLAIN, TLS, H2C, H2])
behind_proxy_row("caddy", [TLS], [PLAIN, TLS, H2C, H2])
behind_proxy_row("apache", [H2C], [PLAIN, TLS, H2C, H2])


def apache_server():
    """Files, as it comes: 100 requests or 5 s without one, then it closes the connection."""
    place, port = folder("apache-server"), free_port()
    with open(os.path.join(place, "index.html"), "w", encoding="utf-8") as file:
        file.write("hello")
    os.chmod(place, 0o755)
    # Its workers are another user's.
    os.chmod(Settings.folder, 0o711)
    path = os.path.join(place, "apache.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(balancers.apache_base(place, f"Listen 127.0.0.1:{port}\nDocumentRoot {place}\nDirectoryIndex index.html\n"))
    return Application(balancers.apache_process(path, port), port)


behind_row("apache_files", ("apache",), apache_server, 1000, 20000)
behind_row("apache_files_h2c", ("apache",), apache_server, 1000, 20000, protocol="http2")
behind_row("nginx_tls", ("nginx",), lambda: nginx_server(tls=True), 1500, 20000, tls=True)
behind_row("nginx_tls_h2_goaway", ("nginx",), lambda: nginx_server(http2=True, tls=True), 3000, 20000, protocol="http2", tls=True)


def servlets(make, *words):
    """Tomcat or Jetty, whose classes are Debian's."""
    jars = glob.glob(f"/usr/share/java/{make}*.jar") + ["/usr/share/java/servlet-api.jar"]
    process = Process("java", "-cp", ":".join(jars), os.path.join(HERE, words[0]), *words[1:], ready="listening ", ending=signal.SIGTERM)
    return Application(process, int(process.ready_line.split()[1]))


for name, more in (("", {}), ("_h2c", H2C)):
    behind_row(f"tomcat{name}", ("tomcat",), lambda: servlets("tomcat", "TomcatServer.java", folder("tomcat")), 1000, 20000, only_full=True, **more)
    behind_row(f"jetty{name}", ("jetty",), lambda: servlets("jetty", "JettyServer.java"), 1000, 20000, only_full=True, **more)


@row(ways=PEERS, needs=("go", "nginx"), seconds=30, only_full=True)
def behind_nginx_reload_posts(way):
    """A POST that meets the end of a kept connection may have been executed, so it fails; with four clients at once less than once in a reload."""
    reloads = 0
    with nginx_server() as application, start(way, [application]) as edge, Load(edge, 20000, "post") as load:
        while load.child.poll() is None:
            time.sleep(0.7)
            application.process.signal(signal.SIGHUP)
            reloads += 1
        failed = load.failures()
        if failed >= reloads:
            raise Failed(f"{failed} POSTs failed in {reloads} reloads: {load.said()}")
