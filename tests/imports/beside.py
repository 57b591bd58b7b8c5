"""Two proxies before the same upstreams, and what came of a request at either."""

import collections
import contextlib
import http.server
import os
import random
import re
import socket
import socketserver
import subprocess
import tempfile
import threading
import time

PATIENCE = 60


class Echo(http.server.BaseHTTPRequestHandler):
    """Says which upstream it is, and what it was asked for."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.respond
        raise AttributeError(name)

    def respond(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # One field with two values is two fields (RFC 9110 §5.3).
        user = ",".join(value.strip() for field in self.headers.get_all("X-User") or [] for value in field.split(","))
        body = f"up={self.server.label} {self.command} {self.path} [{user}]".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


@contextlib.contextmanager
def upstreams():
    """Three of them: their addresses by name."""
    servers = {}
    for label in "ABC":
        server = Server(("127.0.0.1", 0), Echo)
        server.label = label
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers[label] = server
    yield {label: f"127.0.0.1:{server.server_address[1]}" for label, server in servers.items()}
    for server in servers.values():
        server.shutdown()


def vacant():
    """An address that nobody listens at. Each has a loopback address of its own, so that nobody else is given its port."""
    vacant.calls = getattr(vacant, "calls", 0) + 1
    host = f"127.{96 + os.getpid() % 16}.{vacant.calls // 250 % 250 + 1}.{vacant.calls % 250 + 1}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


Request = collections.namedtuple("Request", "method path fields host client", defaults=["127.0.0.1"])
Outcome = collections.namedtuple("Outcome", "status upstream")


def ask(address, request):
    """The status, and the upstream with the path, method and user that reached it; 0 for a connection that was closed."""
    host, port = address.split(":")
    head = "".join(f"{line}\r\n" for line in [f"{request.method} {request.path} HTTP/1.1", f"Host: {request.host}", *request.fields, "Connection: close", ""])
    received = b""
    try:
        with socket.create_connection((host, int(port)), PATIENCE, (request.client, 0)) as stream:
            stream.sendall(head.encode("latin1"))
            while more := stream.recv(1 << 16):
                received += more
    except OSError:
        pass
    # Interim responses are no outcome.
    received = re.sub(rb"\AHTTP/1\.1 1\d\d .*?\r\n\r\n", b"", received, flags=re.DOTALL)
    status = re.match(rb"HTTP/1\.[01] (\d+)", received)
    reached = re.search(rb"up=(\w) (\w+) (\S+) \[(.*)\]", received)
    of_upstream = tuple(reached.group(which).decode("latin1") for which in (1, 3, 2, 4)) if reached else None
    return Outcome(int(status.group(1)) if status else 0, of_upstream)


def plain(path):
    """A path without escapes of characters that need none, which are the same to a server behind (RFC 3986 §6.2.2.2), in capitals."""
    def one(match):
        character = chr(int(match.group(1), 16))
        return character if character.isalnum() or character in "-._~" else match.group(0).upper()
    return re.sub(r"%([0-9A-Fa-f]{2})", one, path)


def keeps_out(outcome):
    return outcome.upstream is None and (outcome.status == 0 or outcome.status >= 400)


def difference(request, theirs, ours, is_announced):
    """What is to be said of two outcomes."""
    def same(outcome, parts):
        return outcome.status, outcome.upstream and (outcome.upstream[0], plain(outcome.upstream[1]), *outcome.upstream[2:parts])
    if same(theirs, 4) == same(ours, 4):
        return "the same"
    if same(theirs, 3) == same(ours, 3):
        # A field that tells the upstream who the client is, which no client may say for itself.
        own = [field.split(": ")[1] for field in request.fields if field.startswith("X-User: ")]
        return "LET IN" if ours.upstream[3] in own else "another field" if is_announced else "ELSEWHERE"
    if ours.status == 400:
        # Paths that servers read in two ways, wherever they lead (docs/migration.md).
        return "rejected as ambiguous"
    if keeps_out(ours):
        return "kept out by both" if keeps_out(theirs) else "closed" if is_announced else "CLOSED WITHOUT A FINDING"
    return "LET IN" if keeps_out(theirs) else "ELSEWHERE"


def neighbours(paths):
    """Paths, and those near them that somebody might try."""
    for path in paths:
        yield path
        yield path.rstrip("/") if path.endswith("/") and path != "/" else path + "/"
        yield path.swapcase()
        yield "/" + path
        yield "/x/.." + path
        yield "/." + path
        last = path[-1]
        if last != "/":
            yield f"{path[:-1]}%{ord(last):02X}"
            yield f"{path[:-1]}%25{ord(last):02x}"
        if path.count("/") > 1:
            at = path.rindex("/")
            yield f"{path[:at]}%2F{path[at + 1:]}"
            yield f"{path[:at]}%2f{path[at + 1:]}x"
        yield path + "?k=1"
        yield path + ";x"
        yield path + "x"


def is_up(address, process):
    host, port = address.split(":")
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def alone(portunus, program, site, folder, servers):
    """What the import of a site alone ends with; none where the original does not take it."""
    file = os.path.join(folder, "alone")
    with open(file, "w") as text:
        text.write(program.whole([site], [vacant()], folder, servers))
    if subprocess.run(program.check(file, folder), capture_output=True).returncode != 0:
        return None
    return subprocess.run([portunus, "import", program.NAME, file], capture_output=True).returncode


def run(portunus, program, seed, servers):
    """One round: how often what came of a request, and what is wrong."""
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as processes:
        def started(command, address, log):
            process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)
            processes.callback(lambda: (process.kill(), process.wait()))
            return is_up(address, process)

        found = [(site, alone(portunus, program, site, folder, servers)) for site in program.sites(chosen, servers)]
        counts, findings = collections.Counter(), []
        counts["configurations that are not imported"] = sum(code is not None and code > 1 for _, code in found)
        sites = [(site, code == 1) for site, code in found if code in (0, 1)]
        if not sites:
            return counts, findings
        own, theirs = ([vacant() for _ in sites] for _ in range(2))
        files = {name: os.path.join(folder, name) for name in ("original", "imported", "imported.yaml", "log", "our-log")}
        for name, addresses in (("original", theirs), ("imported", own)):
            with open(files[name], "w") as file:
                file.write(program.whole([site for site, _ in sites], addresses, folder, servers))
        if not started(program.command(files["original"], folder), theirs[-1], files["log"]):
            return counts, ["the original rejects together what it takes one by one: " + open(files["log"]).read()[:2000]]
        imported = subprocess.run([portunus, "import", program.NAME, files["imported"]], capture_output=True, text=True)
        if imported.returncode > 1:
            return counts, ["what is imported one by one is not together: " + imported.stderr[-500:]]
        with open(files["imported.yaml"], "w") as file:
            file.write(imported.stdout)
        if not started([portunus, "run", "--control", "none", "--no-watch", files["imported.yaml"]], own[-1], files["our-log"]):
            return counts, ["what was imported is not served: " + open(files["our-log"]).read()[-500:]]
        counts["configurations"] = len(sites)
        for at, (site, is_announced) in enumerate(sites):
            for request in program.requests(chosen, site):
                outcomes = ask(theirs[at], request), ask(own[at], request)
                what = difference(request, *outcomes, is_announced)
                counts[what] += 1
                if what.isupper():
                    findings.append(f"{what}: {request.method} {request.path} {request.host} {request.fields} {request.client}: {outcomes[0]} there, {outcomes[1]} here\n    {site}")
        return counts, findings
