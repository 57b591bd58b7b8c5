"""Chromium: pages, maps, event streams, WebSockets, large files, odd URLs; and WebSockets over HTTP/2 of other makes."""

import base64
import json
import re
import struct
import urllib.parse

from proxies import ADMIN_TOKEN, Configured, keystores, start
from rows import row
from rows_access import App
from rows_http import Web, url
from stage import HERE, Failed, Settings, ca, folder, python, run, until


def browser_row(name, short=(), full=(), seconds=5):
    """A row of one scenario of browser.py."""

    def scene(way):
        numbers = full if Settings.full else short
        with Web() as web, start(way, [web]) as edge:
            run(*python(f"{HERE}/browser.py", name, url(edge), *numbers), seconds=900 if Settings.full else 60)

    scene.__name__ = f"chromium_{name}"
    row(needs=("go", "python", "chromium"), seconds=seconds)(scene)


browser_row("assets", (200,), (200,))
browser_row("tiles", (100, 3), (100, 20), seconds=10)
browser_row("events", (100, 50), (600, 1000), seconds=8)
browser_row("socket", (300, 10), (600, 1000), seconds=8)
browser_row("download", (200,), (2000,), seconds=8)
browser_row("upload", (200,), (2000,), seconds=8)
browser_row("urls")
browser_row("cookies")
browser_row("page")


@row(ways=("portunus",), needs=("go", "python", "chromium", "curl"), seconds=20)
def dashboard_chromium(way):
    """The dashboard of the admin side: token, tables, charts, sorting, a drained server, a reload, its content security policy; by keyboard, dark, on a phone."""
    with Web() as web, start(way, [web], admin=True) as edge:
        # So that there is a handshake and a client to be shown.
        run("curl", "--silent", "--show-error", "--fail", "--insecure", "--output", "/dev/null", f"{url(edge)}/bytes?n=1", seconds=20)
        # Errors, with what a client would like to have run and not have seen.
        hostile = f"{url(edge)}/denied/<img%20src=x%20onerror=window.broken=1>?access_token=s3cret"
        run("curl", "--silent", "--insecure", "--globoff", "--output", "/dev/null", hostile, seconds=20)
        run(*python(f"{HERE}/browser.py", "dashboard", f"http://127.0.0.1:{edge.admin}", json.dumps(ADMIN_TOKEN)), seconds=240)


# Types of DNS records.
A, HTTPS = 1, 65
# Keys of an HTTPS record's parameters (RFC 9460 §14.3.2).
ALPN, ECH = 1, 5


def resolver(host, ech):
    """A stand-in for a resolver over HTTPS (RFC 8484), behind whoever takes TLS off: the host is on this machine and has these keys, no other name exists."""

    def reply(request):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(request.path).query).get("dns", [""])[0]
        return 200, {"Content-Type": "application/dns-message"}, records(base64.urlsafe_b64decode(asked + "=" * (-len(asked) % 4)), host, ech)

    return App(reply)


def records(question, host, ech):
    """The response to a message with one question (RFC 1035 §4)."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    kind, end = struct.unpack_from("!H", question, at + 1)[0], at + 5
    # Of a port that is not 443 the record stands below `_PORT._https` (RFC 9460 §9.1).
    is_host = ".".join(label for label in labels if not label.startswith("_")) == host
    data = {A: bytes([127, 0, 0, 1]), HTTPS: service(host, ech)}.get(kind) if is_host else None
    record = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data if data else b""
    flags = 0x8180 if is_host else 0x8183
    return question[:2] + struct.pack("!HHHHH", flags, 1, 1 if data else 0, 0, 0) + question[12:end] + record


def service(host, ech):
    """The data of an HTTPS record (RFC 9460 §2.2)."""
    target = b"".join(bytes([len(label)]) + label.encode() for label in host.split(".")) + b"\0"
    parameter = lambda key, value: struct.pack("!HH", key, len(value)) + value
    return struct.pack("!H", 1) + target + parameter(ALPN, b"\x02h2") + parameter(ECH, ech)


def ech_keys(path, host):
    """A new file of keys; what clients have to know of it."""
    said = run(Settings.portunus, "ech", "rotate", path, "--public-name", "cover.example", "--name", host)
    return base64.b64decode(re.search(r'ech="([A-Za-z0-9+/=]+)"', said).group(1))


@row(ways=("portunus",), needs=("go", "python", "chromium"), seconds=12)
def chromium_ech(_):
    """Chromium with Encrypted Client Hello, by the HTTPS record that a resolver over HTTPS has; and with a record that is outdated, for which it learns the new keys."""
    place, host = folder("ech"), "hidden.example"
    keys = {name: ech_keys(f"{place}/{name}.pem", host) for name in ("current", "outdated")}
    for name, ech in keys.items():
        with Web() as web, resolver(host, ech) as asked:
            config = {
                "listeners": [{"name": "https", "bind": "127.0.0.1:0", "tls": {"keystore": "main"}}],
                "keystores": keystores(),
                "ech_keys": f"{place}/current.pem",
                "upstreams": {"app": {"servers": [f"127.0.0.1:{web.http}"]}, "resolver": {"servers": [asked.address]}},
                "routes": [{"upstream": "app"}, {"path": "/dns-query", "upstream": "resolver"}],
            }
            with Configured(config, folder("gate")) as gate:
                port = gate.ports["https"]
                doh = f"https://127.0.0.1:{port}/dns-query{{?dns}}"
                run(*python(f"{HERE}/browser.py", "assets", f"https://{host}:{port}", 20), seconds=60, env={"DOH": doh})
                is_of_site = lambda line: line.get("host") == f"{host}:{port}"
                lines = until(lambda: [line for line in gate.requests() if is_of_site(line)], "the access log has no request")
                hidden = {(line["tls"].get("ech"), line["tls"]["server_name"]) for line in lines}
                # Of an outdated record it has the new keys from the server alone.
                if hidden != {(True, host)}:
                    raise Failed(f"{name}: the access log says {hidden}")


def opened_on_streams(edge, count):
    """Waits until the log has so many WebSockets, and says whether all were streams of HTTP/2 connections."""

    def versions():
        with open(edge.access_log, encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        found = [line["version"] for line in lines if line.get("status") == 101]
        return found if len(found) >= count else None

    return set(until(versions, f"no {count} WebSockets in the log")) == {"HTTP/2"}


@row(ways=("portunus",), needs=("go", "python", "chromium"), seconds=8)
def websocket_http2_chromium(way):
    """Chromium opens its WebSocket on the HTTP/2 connection that it has, once that is announced (RFC 8441)."""
    with Web() as web, start(way, [web]) as edge:
        run(*python(f"{HERE}/browser.py", "socket", url(edge), 300, 5), seconds=60)
        if not opened_on_streams(edge, 1):
            raise Failed("it opened an HTTP/1.1 connection for it")


@row(ways=("portunus",), needs=("go", "python"), seconds=5)
def websocket_http2_python(way):
    with Web() as web, start(way, [web]) as edge:
        run(*python(f"{HERE}/websocket_h2.py", f"127.0.0.1:{edge.https}", ca(), 5, 300), seconds=60)


@row(ways=("portunus",), needs=("go", "node"), seconds=5)
def websocket_http2_node(way):
    with Web() as web, start(way, [web]) as edge:
        run("node", f"{HERE}/websocket_h2.mjs", url(edge), 5, 300, seconds=60, env={"NODE_EXTRA_CA_CERTS": ca()})
