"""How requests are spread over servers: Portunus, nginx and HAProxy with the same policy must spread them alike. And a real name server behind Portunus."""

import collections
import contextlib
import http.client
import http.server
import itertools
import json
import os
import re
import signal
import socket
import threading

from proxies import nginx_folders, nginx_user
from rows import row
from stage import Failed, Process, Settings, Skip, folder, free_port, until, until_connectable

PEERS = ("portunus", "nginx", "haproxy")


class Server:
    """An application that counts what it gets. `/hold` waits until it is released; with `status` it says that to everything."""

    _counted = itertools.count(1)

    def __init__(self, status=200, address=None, port=0):
        number = next(self._counted)
        # One of its own, so that nobody else is given the port of one that has stopped.
        self.address = address or f"127.8.{number // 250}.{number % 250 + 1}"
        self.seen = collections.Counter()
        self.release = threading.Event()
        self.connections = set()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                server.connections.add(self.connection)

            def handle(self):
                try:
                    super().handle()
                except OSError:
                    # Closed by us, or by a proxy that ends.
                    pass

            def do_GET(self):
                server.seen[self.command] += 1
                if self.path.startswith("/hold"):
                    server.release.wait()
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer((self.address, port), Handler)
        self.listener.daemon_threads = True
        self.port = self.listener.server_address[1]
        self.thread = threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def count(self):
        return sum(self.seen.values())

    def stop(self):
        """Nobody listens there any more, and what is open ends."""
        if self.thread.is_alive():
            self.listener.shutdown()
            self.thread.join()
            self.listener.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release.set()
        self.stop()


def portunus(servers, group, file):
    place = folder("balance")
    members = [{"address": f"{server.address}:{server.port}", **settings} for server, settings in servers]
    config = {
        **file,
        "listeners": [{"name": "http", "bind": "127.0.0.1:0"}],
        "upstreams": {"app": {"servers": members, "connect_timeout": "2s", **group}},
        "routes": [{"upstream": "app"}],
        "log": {"access": {"output": "access.log"}},
    }
    path = os.path.join(place, "portunus.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    process = Process(Settings.portunus, "run", path)
    line = process.wait_for('"listening","listener":"http"')
    return process, int(re.search(r'"address":"127\.0\.0\.1:(\d+)"', line).group(1))


def nginx(servers, policy, location=""):
    place, port = folder("balance"), free_port()
    members = " ".join(f"server {server.address}:{server.port} {settings};" for server, settings in servers)
    path = os.path.join(place, "nginx.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f"daemon off; worker_processes 1; pid {place}/pid; error_log stderr notice; {nginx_user()} events {{}}\n"
            f"http {{ {nginx_folders(place)} access_log off; upstream app {{ {policy} {members} }}\n"
            f"  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://app; proxy_connect_timeout 2s; {location} }} }} }}\n"
        )
    process = Process("nginx", "-c", path, env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, ending=signal.SIGTERM)
    until_connectable(port, process)
    return process, port


def haproxy(servers, policy):
    place, port = folder("balance"), free_port()
    members = "\n".join(f"  server s{number} {server.address}:{server.port} {settings}" for number, (server, settings) in enumerate(servers))
    path = os.path.join(place, "haproxy.cfg")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "global\n  nbthread 1\n  log stderr format raw local0 notice\ndefaults\n  mode http\n  option redispatch 1\n  retries 3\n"
            "  timeout connect 2s\n  timeout client 1m\n  timeout server 1m\n  timeout check 1m\n"
            f"frontend edge\n  bind 127.0.0.1:{port}\n  default_backend app\nbackend app\n{policy}\n{members}\n"
        )
    process = Process("haproxy", "-db", "-f", path, env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, ending=signal.SIGTERM)
    until_connectable(port, process)
    return process, port


def ask(port, target="/", method="GET", **fields):
    """One request on a connection of its own; its status and fields."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, target, headers={name.replace("_", "-"): value for name, value in fields.items()})
        response = connection.getresponse()
        response.read()
        return response.status, response.headers
    finally:
        connection.close()


def ok(port, *arguments, **fields):
    status, headers = ask(port, *arguments, **fields)
    if status != 200:
        raise Failed(f"status {status}")
    return headers


def expect(found, expected, what):
    if found != expected:
        raise Failed(f"{what}: {found} instead of {expected}")


def servers(stack, count, **settings):
    return [stack.enter_context(Server(**settings)) for _ in range(count)]


def scene(needs=()):
    """A row that gets a stack for what it opens."""

    def add(function):
        def scene(way):
            with contextlib.ExitStack() as stack:
                function(way, stack)

        scene.__name__ = function.__name__
        return row(ways=PEERS, needs=("nginx", "haproxy", *needs), seconds=3)(scene)

    return add


def begin(stack, way, group, own, theirs, policies, location="", file=()):
    """Starts the proxy; gives its port. `own`, `theirs`: the settings of each server, for Portunus and for the two others. `file`: keys of Portunus's file."""
    if way == "portunus":
        process, port = portunus(list(zip(group, own)), policies["portunus"], dict(file))
    elif way == "nginx":
        process, port = nginx(list(zip(group, theirs)), policies["nginx"], location)
    else:
        process, port = haproxy(list(zip(group, theirs)), policies["haproxy"])
    stack.enter_context(process)
    return port


@scene()
def balance_weights(way, stack):
    """In turn by weight, exactly."""
    group = servers(stack, 3)
    weights = (5, 1, 2)
    port = begin(
        stack, way, group, [{"weight": weight} for weight in weights], [f"weight={weight}" if way == "nginx" else f"weight {weight}" for weight in weights],
        {"portunus": {}, "nginx": "", "haproxy": "  balance roundrobin"},
    )
    for _ in range(80):
        ok(port)
    expect([server.count() for server in group], [50, 10, 20], "requests by server")


@scene()
def balance_least_loaded(way, stack):
    """A server with requests under way is spared."""
    group = servers(stack, 3)
    policies = {"portunus": {"balance": "least_loaded"}, "nginx": "least_conn;", "haproxy": "  balance leastconn"}
    # One worker has counted a request out before it takes the next one; another one may be faster than that.
    port = begin(stack, way, group, [{}] * 3, [""] * 3, policies, file={"workers": 1})
    held = threading.Thread(target=ok, args=(port, "/hold"), daemon=True)
    held.start()
    busy = until(lambda: next((server for server in group if server.count()), None), "nothing came")
    for _ in range(20):
        ok(port)
    busy.release.set()
    held.join()
    expect([busy.count()] + [server.count() for server in group if server is not busy], [1, 10, 10], "requests by server")


@scene()
def balance_random_two(way, stack):
    """Spread evenly where all are alike. Chi-square with seven degrees of freedom: 60 is exceeded once in six thousand million times."""
    group = servers(stack, 8)
    policies = {"portunus": {"balance": "random_two"}, "nginx": "random two least_conn;", "haproxy": "  balance random(2)"}
    port = begin(stack, way, group, [{}] * 8, [""] * 8, policies)
    for _ in range(800):
        ok(port)
    counts = [server.count() for server in group]
    chi_square = sum((count - 100) ** 2 / 100 for count in counts)
    if chi_square > 60:
        raise Failed(f"{counts}: chi-square {chi_square}")


@scene()
def balance_hash_header(way, stack):
    """Each value has its server, values are spread, and a server that goes takes nothing but its own values with it."""
    group = servers(stack, 5)
    policies = {
        "portunus": {"balance": {"hash": {"header": "x-key"}}},
        "nginx": "hash $http_x_key consistent;",
        "haproxy": "  balance hdr(x-key)\n  hash-type consistent djb2 avalanche",
    }
    port = begin(stack, way, group, [{}] * 5, [""] * 5 if way == "nginx" else ["check inter 200ms fall 1"] * 5, policies)

    def places(living):
        found = {}
        for key in range(200):
            before = [server.count() for server in living]
            ok(port, X_Key=f"tenant-{key}")
            grown = [server for server, count in zip(living, before) if server.count() > count]
            expect(len(grown), 1, "servers that got one request")
            found[key] = grown[0]
        return found

    first = places(group)
    expect(places(group), first, "the places of all values, asked again")
    shares = collections.Counter(first.values())
    # 40 each, as far as chance lets it be so; HAProxy's and nginx's circles are uneven, ours is not.
    least, most = (8, 82) if way == "portunus" else (8, 100)
    if not all(least <= shares[server] <= most for server in group):
        raise Failed(f"unevenly spread: {sorted(shares.values())}")
    gone = group[2]
    gone.stop()
    second = places([server for server in group if server is not gone])
    moved = [key for key in first if first[key] is not second[key]]
    expect(moved, [key for key in first if first[key] is gone], "values that moved")


@scene()
def balance_backup(way, stack):
    """A backup gets nothing while the others are up, and all when they are down."""
    group = servers(stack, 3)
    policies = {"portunus": {"ejection": {"failures": 1, "duration": "1h"}}, "nginx": "", "haproxy": "  balance roundrobin"}
    checked = "" if way == "nginx" else "check inter 200ms fall 1"
    port = begin(stack, way, group, [{}, {}, {"backup": True}], [checked, checked, f"{checked} backup"], policies)
    for _ in range(10):
        ok(port)
    expect([server.count() for server in group], [5, 5, 0], "requests by server")
    for server in group[:2]:
        server.stop()
    # HAProxy finds it out by its checks.
    until(lambda: ask(port)[0] == 200, "the backup never came")
    before = group[2].count()
    for _ in range(10):
        ok(port)
    expect(group[2].count() - before, 10, "requests to the backup")


@scene()
def balance_retry_status(way, stack):
    """A 503 is tried elsewhere for GET, and never for POST."""
    bad, good = stack.enter_context(Server(status=503)), stack.enter_context(Server())
    policies = {
        "portunus": {"retries": {"on": ["connect", 503], "budget": 100}, "ejection": {"failures": 0}},
        "nginx": "",
        "haproxy": "  balance roundrobin\n  retry-on conn-failure 503\n  http-request disable-l7-retry if METH_POST",
    }
    theirs = ["max_fails=0"] * 2 if way == "nginx" else [""] * 2
    port = begin(stack, way, [bad, good], [{}, {}], theirs, policies, location="proxy_next_upstream error timeout http_503;")
    for _ in range(10):
        ok(port)
    statuses = collections.Counter(ask(port, "/", "POST")[0] for _ in range(10))
    expect(bad.seen["POST"] + good.seen["POST"], 10, "executions of ten POSTs")
    expect(statuses[200], good.seen["POST"], "POSTs that were answered well")
    if not bad.seen["GET"] or good.seen["GET"] != 10:
        raise Failed(f"GETs at the bad one {bad.seen['GET']}, at the good one {good.seen['GET']}")


@row(ways=("portunus", "haproxy"), needs=("haproxy",), seconds=3)
def balance_sticky_cookie(way):
    """A client that sends its cookie back stays at its server."""
    with contextlib.ExitStack() as stack:
        group = servers(stack, 3)
        policies = {"portunus": {"sticky": {"cookie": "srv"}}, "haproxy": "  balance roundrobin\n  cookie srv insert"}
        port = begin(stack, way, group, [{}] * 3, [f"cookie s{number}" for number in range(3)], policies)
        for _ in range(6):
            before = [server.count() for server in group]
            cookie = ok(port)["Set-Cookie"].split(";")[0]
            (server,) = [server for server, count in zip(group, before) if server.count() > count]
            before = server.count()
            for _ in range(5):
                if ok(port, Cookie=cookie)["Set-Cookie"]:
                    raise Failed("a second cookie")
            expect(server.count(), before + 5, "requests at the server of the session")


class NameServer:
    """dnsmasq with records that live for a second, in a mount namespace of its own with the program that asks it."""

    _counted = itertools.count(1)

    def __init__(self, records):
        self.place = folder("dnsmasq")
        # One of its own for each, since all are on port 53.
        self.address = f"127.{os.getpid() % 200 + 20}.53.{next(self._counted)}"
        self.hosts = os.path.join(self.place, "hosts")
        self.write(records)
        self.services = []
        self.process = None

    def write(self, records):
        fresh = self.hosts + ".new"
        with open(fresh, "w", encoding="utf-8") as file:
            file.writelines(f"{address} app.test\n" for address in records)
        os.rename(fresh, self.hosts)

    def start(self, *more):
        self.process = Process(
            "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", f"--addn-hosts={self.hosts}", "--local-ttl=1", "--bind-interfaces",
            f"--listen-address={self.address}", "--user=", "--log-facility=-", "--local=/test/", "--pid-file=", *more,
            env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, ending=signal.SIGTERM,
        )
        self.process.wait_for("started")
        return self.process

    def change(self, records):
        self.write(records)
        self.process.signal(signal.SIGHUP)

    def wrapped(self, *words):
        """A program for which this is the name server."""
        path = os.path.join(self.place, "resolv.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"nameserver {self.address}\noptions timeout:1 attempts:1\n")
        script = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
        return Process("unshare", "--mount", "--", "sh", "-c", script, "sh", path, *words)


def behind_names(stack, names, upstream):
    if os.geteuid() != 0:
        raise Skip("a name server on port 53, and a mount namespace, need root")
    path = os.path.join(names.place, "portunus.yaml")
    config = {
        "listeners": [{"name": "http", "bind": "127.0.0.1:0"}],
        "upstreams": {"app": upstream},
        "routes": [{"upstream": "app"}],
        "log": {"access": {"output": "access.log"}},
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    process = stack.enter_context(names.wrapped(Settings.portunus, "run", path))
    line = process.wait_for('"listening","listener":"http"')
    return int(re.search(r'"address":"127\.0\.0\.1:(\d+)"', line).group(1))


@row(ways=("portunus",), needs=("dnsmasq",), seconds=10)
def balance_dnsmasq_addresses(way):
    """A name with several addresses that change while requests run: each is used, none fails, and who is gone gets nothing."""
    with contextlib.ExitStack() as stack:
        addresses = [f"127.0.9.{last}" for last in range(1, 5)]
        first = stack.enter_context(Server(address=addresses[0]))
        group = [first] + [stack.enter_context(Server(address=address, port=first.port)) for address in addresses[1:]]
        names = NameServer(addresses[:2])
        stack.enter_context(names.start())
        port = behind_names(stack, names, {"servers": [f"app.test:{first.port}"], "retries": {"budget": 0}})
        until(lambda: ask(port)[0] == 200, "the name never led anywhere")
        for turn in (addresses[1:3], addresses[2:4], addresses[:2], addresses[2:]):
            names.change(turn)
            wanted = [server for server, address in zip(group, addresses) if address in turn]
            before = [server.count() for server in wanted]

            def all_used():
                ok(port)
                ok(port, "/", "POST")
                return all(server.count() > count for server, count in zip(wanted, before))

            until(all_used, f"{turn} were not all used")
        # Once the others are known to be gone, nothing goes there.
        until(lambda: spread(port, group, 8) == [0, 0, 4, 4], "the last two addresses alone")


def spread(port, group, requests):
    before = [server.count() for server in group]
    for _ in range(requests):
        ok(port)
    return [server.count() - count for server, count in zip(group, before)]


@row(ways=("portunus",), needs=("dnsmasq",), seconds=5)
def balance_dnsmasq_srv(way):
    """SRV records of a real name server: ports, weights, and a priority that stands back."""
    with contextlib.ExitStack() as stack:
        group = servers(stack, 3, address="127.0.9.9")
        names = NameServer(["127.0.9.9"])
        ranks = ((10, 10), (10, 30), (20, 10))
        services = [f"--srv-host=_http._tcp.app.test,app.test,{server.port},{priority},{weight}" for server, (priority, weight) in zip(group, ranks)]
        stack.enter_context(names.start(*services))
        port = behind_names(stack, names, {"servers": {"srv": "_http._tcp.app.test"}, "ejection": {"failures": 1, "duration": "1h"}})
        until(lambda: ask(port)[0] == 200, "the name never led anywhere")
        expect(spread(port, group, 40), [10, 30, 0], "requests by server")
        for server in group[:2]:
            server.stop()
        until(lambda: spread(port, group, 3) == [0, 0, 3], "the one of the other priority")
