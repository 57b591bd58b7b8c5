"""What takes its time: event streams, long polling, large and slow transfers, clients that lose their network, health checks."""

import concurrent.futures
import http.client
import os
import socket
import ssl
import struct

from proxies import start
from rows import row
from rows_http import Web, expect, url
from stage import PATIENCE, Failed, Settings, ca, folder, run


VERSIONS = ("--http1.1", "--http2")


def scaled(short, full):
    return full if Settings.full else short


# No proxy of the machine's; `localhost` may have an IPv6 address, where nobody listens.
def patient_curl(seconds, *words):
    return run("curl", "--silent", "--show-error", "--noproxy", "*", "--ipv4", "--cacert", ca(), *words, seconds=seconds)


def by_both_versions(seconds, target):
    """What HTTP/1.1 and HTTP/2 bring, asked for at once."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda version: patient_curl(seconds, version, target), ("--http1.1", "--http2")))


@row(needs=("go", "curl"), seconds=42)
def stream_events(way):
    """Server-sent events with long silences, over HTTP/1.1 and HTTP/2 at once."""
    count, pause = scaled((1, 40_000), (10, 60_000))
    with Web() as web, start(way, [web]) as edge:
        for said in by_both_versions(700, f"{url(edge)}/events?n={count}&ms={pause}"):
            expect((count, 1), (said.count("data: event"), said.count("event: end")))


@row(needs=("go", "curl"), seconds=42)
def stream_long_poll(way):
    with Web() as web, start(way, [web]) as edge:
        expect(["news", "news"], by_both_versions(400, f"{url(edge)}/poll?ms={scaled(40_000, 300_000)}"))


def transfers(way, *words, seconds, at_once=1):
    """The same upload over HTTP/1.1 and HTTP/2; the application says how much came."""
    path = os.path.join(folder("upload"), "file")
    size = words[0]
    with open(path, "wb") as file:
        file.truncate(size)
    with Web() as web, start(way, [web]) as edge, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        target = url(edge) + "/echo"
        for said in pool.map(lambda version: patient_curl(seconds, version, "--upload-file", path, *words[1:], target), VERSIONS):
            expect(True, f'"length":{size},' in said)


@row(needs=("go", "curl"), seconds=20)
def stream_large_upload(way):
    transfers(way, scaled(200_000_000, 2_000_000_000), seconds=600)


@row(needs=("go", "curl"), seconds=40)
def stream_slow_upload(way):
    """2 kB/s for 36 s, ten minutes in the full form."""
    transfers(way, scaled(72_000, 1_200_000), "--limit-rate", "2k", seconds=700, at_once=2)


@row(needs=("go", "curl"), seconds=20)
def stream_large_download(way):
    size = scaled(200_000_000, 2_000_000_000)
    with Web() as web, start(way, [web]) as edge:
        for version in ("--http1.1", "--http2"):
            words = [version, "--output", "/dev/null", "--write-out", "%{size_download}", f"{url(edge)}/bytes?n={size}"]
            expect(str(size), patient_curl(600, *words))


@row(needs=("go", "curl"), seconds=45)
def stream_slow_download(way):
    """A client that takes 500 kB/s: its window and the socket's buffers are full all the time."""
    size = scaled(20_000_000, 200_000_000)
    with Web() as web, start(way, [web]) as edge:
        words = ["--http2", "--limit-rate", "500k", "--output", "/dev/null", "--write-out", "%{size_download}"]
        expect(str(size), patient_curl(600, *words, f"{url(edge)}/bytes?n={size}"))


class Phone:
    """A client whose network goes away: its connection is reset in the middle."""

    def __init__(self, edge):
        context = ssl.create_default_context(cafile=ca())
        self.connection = http.client.HTTPSConnection("localhost", edge.https, timeout=PATIENCE, context=context)
        # Reset on close, as a network address translator does when it has forgotten a connection.
        self.connection.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", edge.https), PATIENCE), server_hostname="localhost")
        self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self):
        self.connection.sock.close()


@row(needs=("go",), seconds=3)
def roaming(way):
    """A download that is resumed after each of ten resets, and an upload that is cut and sent again; nobody else notices."""
    with Web() as web, start(way, [web]) as edge:
        whole = b""
        steady = Phone(edge)
        while len(whole) < 1 << 20:
            phone = Phone(edge)
            phone.connection.request("GET", "/file", headers={"Range": f"bytes={len(whole)}-", "If-Range": '"one"'})
            response = phone.connection.getresponse()
            expect(206, response.status)
            whole += response.read(1 << 17)
            phone.close()
            steady.connection.request("GET", "/echo")
            expect(200, read(steady.connection).status)
        direct = http.client.HTTPConnection("127.0.0.1", web.http, timeout=PATIENCE)
        direct.request("GET", "/file")
        expect(True, direct.getresponse().read() == whole)
        for _ in range(10):
            phone = Phone(edge)
            phone.connection.putrequest("POST", "/echo")
            phone.connection.putheader("Content-Length", "1000000")
            phone.connection.endheaders(b"x" * 300_000)
            phone.close()
        phone = Phone(edge)
        phone.connection.request("POST", "/echo", body=b"x" * 1_000_000)
        expect(200, read(phone.connection).status)
        steady.connection.request("GET", "/echo")
        expect(200, read(steady.connection).status)


def read(connection):
    response = connection.getresponse()
    response.read()
    return response


@row(needs=("go",), seconds=3)
def health_checks(way):
    """How load balancers ask whether somebody is there. None of it is an error of ours."""
    with Web() as web, start(way, [web]) as edge:
        context = ssl.create_default_context(cafile=ca())
        for _ in range(10):
            for port in (edge.http, edge.https):
                with socket.create_connection(("127.0.0.1", port), PATIENCE):
                    pass
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as reset:
                    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with socket.create_connection(("127.0.0.1", edge.https), PATIENCE) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()
            # HAProxy's and keepalived's oldest ways of asking.
            for request in (b"GET /echo HTTP/1.0\r\n\r\n", b"OPTIONS /echo HTTP/1.0\r\n\r\n", b"HEAD /file HTTP/1.0\r\n\r\n"):
                with socket.create_connection(("127.0.0.1", edge.http), PATIENCE) as check:
                    check.sendall(request)
                    status = check.recv(4096).split(b"\r\n")[0]
                if b" 200 " not in status + b" ":
                    raise Failed(f"{request!r}: {status!r}")
        loud = [line for line in edge.log().splitlines() if '"level":"ERROR"' in line or '"level":"WARN"' in line]
        if loud:
            raise Failed(f"{len(loud)} lines of log, the first: {loud[0]}")
