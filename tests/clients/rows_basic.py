"""One row of each kind that needs nothing but Debian packages: curl, nghttp2, ngtcp2, OpenSSL, nginx and HAProxy, in front of an application in Python."""

import os

from proxies import Configured, keystores, start
from rows import row
from rows_access import App
from rows_http import curl, expect, url
from stage import Failed, ca, folder, run


class Application(App):
    """Says what reached it; `/large` is a megabyte."""

    LARGE = 1_000_000

    def __init__(self):
        super().__init__(lambda request: (200, {}, b"x" * self.LARGE if request.path == "/large" else self.echo(request)))
        self.http = self.port

    @staticmethod
    def echo(request):
        return f"{request.command} {request.path} {len(request.body)} {request.headers.get('X-Forwarded-For')}".encode()


def by_curl(edge):
    """A page, an upload, a download, over both versions."""
    place = folder("curl")
    big = os.path.join(place, "big")
    with open(big, "wb") as file:
        file.write(os.urandom(Application.LARGE))
    for version in ("--http1.1", "--http2"):
        expect("GET /a?b=c 0", curl(edge, version, url(edge) + "/a?b=c").rsplit(" ", 1)[0])
        expect(f"PUT /up {Application.LARGE}", curl(edge, version, "--upload-file", big, url(edge) + "/up").rsplit(" ", 1)[0])
        got = curl(edge, version, "--output", "/dev/null", "--write-out", "%{http_code} %{size_download}", url(edge) + "/large")
        expect(f"200 {Application.LARGE}", got)


@row(ways=("portunus", "nginx", "haproxy"), needs=("curl",), seconds=2)
def basic_curl(way):
    with Application() as application, start(way, [application]) as edge:
        by_curl(edge)


@row(ways=("portunus", "nginx", "haproxy"), needs=("nghttp",), seconds=2)
def basic_nghttp(way):
    """nghttp2's own client: several requests on one connection."""
    with Application() as application, start(way, [application]) as edge:
        said = run("nghttp", "--no-dep", "--multiply=5", f"https://127.0.0.1:{edge.https}/many", seconds=30)
        if said.count("GET /many 0") != 5:
            raise Failed(said[-2000:])


@row(ways=("portunus",), needs=("gtlsclient",), seconds=2)
def basic_ngtcp2(_):
    """ngtcp2's own client, over GnuTLS."""
    config = {
        "listeners": [{"name": "https", "bind": "127.0.0.1:0", "tls": {"keystore": "main"}, "http3": True}],
        "keystores": keystores(),
        "routes": [{"upstream": "app"}],
    }
    with Application() as application:
        config["upstreams"] = {"app": {"servers": [application.address]}}
        with Configured(config, folder("ngtcp2")) as proxy:
            place, port = folder("gtlsclient"), proxy.ports["https"]
            patience = ["--handshake-timeout=60s", "--timeout=60s"]
            words = ["gtlsclient", *patience, "--exit-on-all-streams-close", f"--download={place}"]
            said = run(*words, "127.0.0.1", port, f"https://localhost:{port}/large", seconds=60)
            if "[:status: 200]" not in said or os.path.getsize(f"{place}/large") != Application.LARGE:
                raise Failed(said[-2000:])


@row(ways=("portunus", "nginx", "haproxy"), needs=("openssl",), seconds=2)
def basic_openssl(way):
    """OpenSSL as the client: the chain is verified, TLS 1.2 and 1.3, one connection each."""
    with Application() as application, start(way, [application]) as edge:
        for version in ("-tls1_2", "-tls1_3"):
            words = ["openssl", "s_client", version, "-quiet", "-ign_eof", "-verify_return_error", "-CAfile", ca(), "-servername", "localhost"]
            request = b"GET /by-hand HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            said = run(*words, "-connect", f"127.0.0.1:{edge.https}", stdin=request)
            if "GET /by-hand 0" not in said:
                raise Failed(said[-2000:])


def basic_front(name, front, edge_settings, **front_settings):
    """curl, a proxy in front, the edge, the application."""

    def scene(way):
        with Application() as application, start(way, [application], **edge_settings) as edge, start(front, [edge], **front_settings) as balancer:
            by_curl(balancer)

    scene.__name__ = f"basic_front_{name}"
    row(ways=("portunus", "nginx", "haproxy"), needs=("curl", front), seconds=3)(scene)


basic_front("nginx", "nginx", {})
basic_front("haproxy_proxy_v2", "haproxy", {"proxy_protocol": True}, send_proxy="send-proxy-v2")
basic_front("haproxy_h2", "haproxy", {}, tls=True, protocol="http2")


def basic_behind(name, **settings):
    """curl, the edge, a proxy behind it, the application."""

    def scene(way):
        with Application() as application, start(name, [application]) as balancer, start(way, [balancer], **settings) as edge:
            by_curl(edge)

    scene.__name__ = f"basic_behind_{name}"
    row(ways=("portunus", "nginx", "haproxy"), needs=("curl", name), seconds=3)(scene)


basic_behind("nginx")
basic_behind("haproxy", tls=True, protocol="http2")
