"""Responses that are compressed on the way, as curl and Chromium decode them."""

import hashlib
import http.server
import json
import os
import threading

from proxies import Configured, keystores
from rows import row
from stage import HERE, Failed, Process, ca, folder, python, run

# Like prose, so that each coding has something to do.
TEXT = "".join(f"line {number} of the text, {number * 7919 % 1000}\n" for number in range(5000))
CODINGS = ("gzip", "br", "zstd")


class Origin:
    """`/text` is text, `/events` are two events of which the second waits until it is released."""

    def __init__(self):
        release = self.release = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/events":
                    return self.events()
                body = (TEXT if self.path != "/short" else "short").encode()
                self.send_response(200)
                fields = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": len(body), "ETag": '"v1"', "Accept-Ranges": "bytes"}
                if self.path == "/signed-in":
                    fields["Set-Cookie"] = "session=1"
                if self.path == "/image":
                    fields["Content-Type"] = "image/jpeg"
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_HEAD = do_GET

            def events(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"e\r\ndata: first\n\n\n\r\n")
                self.wfile.flush()
                release.wait()
                self.wfile.write(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def gate(self):
        config = {
            "listeners": [{"name": "https", "bind": "127.0.0.1:0", "tls": {"keystore": "main"}, "compression": "web"}],
            "keystores": keystores(),
            "upstreams": {"app": {"servers": f"127.0.0.1:{self.server.server_address[1]}"}},
            "compression": {"web": {}},
            "routes": [{"upstream": "app"}],
        }
        return Configured(config, folder("compression"))


def curl(gate, target, *words):
    """What curl writes, and the fields of the response."""
    place = folder("curl")
    body, head = os.path.join(place, "body"), os.path.join(place, "head")
    fixed = ["curl", "--silent", "--show-error", "--noproxy", "*", "--ipv4", "--cacert", ca(), "--max-time", 60]
    run(*fixed, "--dump-header", head, "--output", body, *words, f"https://localhost:{gate.ports['https']}{target}")
    with open(head, encoding="utf-8") as file:
        lines = [line.strip().split(": ", 1) for line in file if ": " in line]
    with open(body, "rb") as file:
        return file.read(), {name.lower(): value for name, value in lines}


def expect(what, wanted, got):
    if wanted != got:
        raise Failed(f"{what}: wanted {wanted!r}, got {got!r}"[:2000])


@row(ways=("portunus",), needs=("curl",), seconds=5)
def compression_curl(_way):
    """Each coding that curl knows, over both versions: what it decodes is what the application sent."""
    known = run("curl", "--version")
    missing = [coding for coding, library in zip(CODINGS, ("libz", "brotli", "zstd")) if library not in known]
    with Origin() as origin, origin.gate() as gate:
        for version in ("--http1.1", "--http2"):
            for coding in CODINGS:
                decodes = [] if coding in missing else ["--compressed"]
                body, fields = curl(gate, "/text", version, *decodes, "--header", f"Accept-Encoding: {coding}")
                said = [fields.get(name) for name in ("content-encoding", "vary", "etag", "content-length", "accept-ranges")]
                expect(f"{coding} {version}", [coding, "Accept-Encoding", 'W/"v1"', None, None], said)
                if decodes:
                    expect(f"{coding} {version}, decoded", TEXT.encode(), body)
            body, fields = curl(gate, "/text", version, "--compressed")
            expect("curl's own choice", (True, TEXT.encode()), (fields.get("content-encoding") in CODINGS, body))
            for target, words in (
                ("/text", []), ("/text", ["--header", "Accept-Encoding: gzip;q=0, identity"]), ("/short", ["--compressed"]),
                ("/image", ["--compressed"]), ("/signed-in", ["--compressed"]), ("/text", ["--compressed", "--user", "a:b"]),
                ("/text", ["--compressed", "--cookie", "a=b"]),
            ):  # fmt: skip
                body, fields = curl(gate, target, version, *words)
                expect(f"{target} {words}", (None, '"v1"', len(body)), (fields.get("content-encoding"), fields["etag"], int(fields["content-length"])))


@row(ways=("portunus",), needs=("curl",), seconds=5)
def compression_events(_way):
    """An event arrives, decoded, while the next one is not there yet."""
    for coding in CODINGS:
        with Origin() as origin, origin.gate() as gate:
            words = ["curl", "--silent", "--no-buffer", "--compressed", "--include", "--noproxy", "*", "--ipv4", "--cacert", ca()]
            with Process(*words, "--header", f"Accept-Encoding: {coding}", f"https://localhost:{gate.ports['https']}/events") as client:
                client.wait_for("data: first")
                expect("compressed", True, f"content-encoding: {coding}" in client.said().lower())
                origin.release.set()
                client.wait_for("data: second")
                expect("its end", 0, client.wait())


@row(ways=("portunus",), needs=("python", "chromium"), seconds=5)
def compression_chromium(_way):
    with Origin() as origin, origin.gate() as gate:
        run(*python(f"{HERE}/browser.py", "compressed", f"https://localhost:{gate.ports['https']}", json.dumps(hashlib.sha256(TEXT.encode()).hexdigest())), seconds=60)
        used = {line.get("compression", {}).get("encoding") for line in gate.requests() if line.get("target") == "/text"}
        expect("the coding", True, used <= set(CODINGS) and bool(used))
