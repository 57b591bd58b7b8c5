"""Chromium: pages, maps, event streams, WebSockets, large files, odd URLs; and WebSockets over HTTP/2 of other makes."""

import json

from proxies import ADMIN_TOKEN, start
from rows import row
from rows_http import Web, url
from stage import HERE, Failed, Settings, ca, python, run, until


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


@row(ways=("portunus",), needs=("go", "python", "chromium", "curl"), seconds=8)
def dashboard_chromium(way):
    """The dashboard of the admin side: token, tables, charts, sorting, a drained server, a reload, its content security policy."""
    with Web() as web, start(way, [web], admin=True) as edge:
        # So that there is a handshake and a client to be shown.
        run("curl", "--silent", "--show-error", "--fail", "--insecure", "--output", "/dev/null", f"{url(edge)}/bytes?n=1", seconds=20)
        run(*python(f"{HERE}/browser.py", "dashboard", f"http://127.0.0.1:{edge.admin}", json.dumps(ADMIN_TOKEN)), seconds=60)


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
