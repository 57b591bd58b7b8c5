"""gRPC of independent makes: grpc-go, Python's grpcio (which is gRPC's C core) and grpc-js, as clients and as servers."""

import os
import signal
import time

from proxies import Configured, Edge, keystores, start
from rows import row
from rows_balancing import Server as Application
from stage import HERE, PATIENCE, Failed, Process, Settings, ca, folder, free_port, pair, python, run, tool, until

# Words that start a client or a server. All makes understand the same command line, and the same scenarios but for some that grpc-js lacks.
CLIENTS = {
    "go": lambda: [tool("bin/grpc-client")],
    "python": lambda: python(f"{HERE}/grpc_client.py"),
    "grpc_js": lambda: ["node", f"{HERE}/grpc_client.mjs", tool("grpc-js")],
}
SERVERS = {
    "go": lambda: [tool("bin/grpc-server")],
    "python": lambda: python(f"{HERE}/grpc_server.py"),
    "grpc_js": lambda: ["node", f"{HERE}/grpc_server.mjs", tool("grpc-js")],
}


class Server(Process):
    """A server on a port of its own, or on the one it had before."""

    def __init__(self, make, *options, port=0, tls=False):
        more = ["-certificate", pair()] if tls else []
        super().__init__(*SERVERS[make](), "-listen", f"127.0.0.1:{port}", *more, *options, ready="listening ")
        self.http = self.https = int(self.ready_line.rsplit(":", 1)[1])


def client(make, edge, scenario, *numbers, h2c=False, seconds=0):
    """Through TLS, as clients on the internet come; the server that is reached directly speaks plain text."""
    plain = h2c or edge.name == "direct"
    where = ["-address", f"127.0.0.1:{edge.h2c if plain else edge.https}"] + ([] if plain else ["-ca", ca()])
    run(*CLIENTS[make](), *where, scenario, *numbers, seconds=seconds)


def scaled(short, full):
    return full if Settings.full else short


def simple(make, name, scenario, short, full, seconds=0, h2c=False):
    """A row of one client, one server and one scenario."""

    def scene(way):
        with Server(make) as server, start(way, [server], protocol="http2") as edge:
            client(make, edge, scenario, *scaled(short, full), h2c=h2c, seconds=600 if Settings.full else seconds)

    scene.__name__ = f"grpc_{make}_{name}"
    row(needs=(make,), seconds=seconds)(scene)


for make in ("go", "python"):
    simple(make, "unary", "unary", (2000, 4), (20000, 8), seconds=5)
    simple(make, "h2c", "unary", (200, 4), (2000, 8), seconds=3, h2c=True)
    simple(make, "ping_pong", "ping-pong", (1, 3000, 0), (1, 20000, 0), seconds=10)
    simple(make, "ping_pong_5_ms", "ping-pong", (1, 1500, 5), (1, 20000, 5), seconds=12)
    simple(make, "ping_pong_5_streams", "ping-pong", (5, 600, 5), (5, 5000, 20), seconds=10)
    simple(make, "quiet_stream", "quiet", (40,), (600,), seconds=41)
    simple(make, "slow_upload", "upload", (9, 5000), (120, 5000), seconds=45)
    simple(make, "slow_feed", "feed", (9, 5000), (120, 5000), seconds=45)
    simple(make, "cancel", "cancel", (300,), (3000,), seconds=5)
    simple(make, "deadlines", "deadlines", (300, 50), (6000, 50), seconds=16)
    # 200 calls a second.
    simple(make, "frequent_deadlines", "deadlines", (600, 5), (12000, 5), seconds=6)


def mixed(client_make, server_make):
    """A row of a client and a server of different makes."""

    def scene(way):
        with Server(server_make) as server, start(way, [server], protocol="http2") as edge:
            client(client_make, edge, "unary", scaled(300, 5000), 4, seconds=300)
            client(client_make, edge, "ping-pong", 2, scaled(300, 5000), 1, seconds=300)
            client(client_make, edge, "upload", scaled(50, 1000), 10, seconds=300)
            client(client_make, edge, "feed", scaled(50, 1000), 10, seconds=300)
            client(client_make, edge, "deadlines", scaled(100, 1000), 10, seconds=300)

    scene.__name__ = f"grpc_{client_make}_to_{server_make}"
    row(needs=tuple({client_make, server_make}), seconds=8)(scene)


mixed("go", "python")
mixed("python", "go")
mixed("grpc_js", "go")
mixed("python", "grpc_js")


@row(needs=("go",), seconds=2)
def grpc_health(way):
    """Health checks, watched health and reflection, through TLS and without."""
    with Server("go") as server, start(way, [server], protocol="http2") as edge:
        client("go", edge, "health")
        client("go", edge, "health", h2c=True)


@row(needs=("go", "grpcurl"), seconds=2, only_full=True)
def grpc_grpcurl(way):
    """grpcurl, which asks by reflection what there is, through TLS and without."""
    with Server("go") as server, start(way, [server], protocol="http2") as edge:
        ways = [["-plaintext", f"127.0.0.1:{edge.h2c}"]]
        if edge.name != "direct":
            ways.append(["-cacert", ca(), "-servername", "localhost", f"127.0.0.1:{edge.https}"])
        for where in ways:
            for words, wanted in ((["list"], "grpc.health.v1.Health"), (["grpc.health.v1.Health/Check"], "SERVING")):
                said = run(tool("grpcurl/grpcurl"), *where, *words)
                if wanted not in said:
                    raise Failed(said)


@row(needs=("go",), seconds=10)
def grpc_max_connection_age(way):
    """A server that sends GOAWAY every second, with a stream that holds the old connection open."""
    with Server("go", "-max-age", "1s") as server, start(way, [server], protocol="http2") as edge:
        client("go", edge, "load", scaled(8000, 120_000), 4, 1, seconds=130)


@row(ways=("portunus", "nginx", "haproxy"), needs=("go",), seconds=30)
def grpc_graceful_stop(way):
    """A quick rolling restart under load: a server is stopped gracefully and started again, and half a second later the next one."""
    with Server("go") as first, Server("go") as second:
        servers = [first, second]
        with start(way, servers, protocol="http2") as edge, Client("go", edge, "load", 900_000, 4, 0) as load:
            try:
                for server in servers:
                    server.wait_for("called")
                for number in range(scaled(2, 8)):
                    old = servers[number % 2]
                    old.signal(signal.SIGTERM)
                    old.wait()
                    time.sleep(0.5)
                    servers[number % 2] = Server("go", port=old.http)
                    time.sleep(0.5)
                load.signal(signal.SIGTERM)
                load.succeed()
            finally:
                for server in servers:
                    server.end()


@row(needs=("go",), seconds=5)
def grpc_restart(way):
    """A server that was killed and comes back is used again at once; a connection's end is told to nobody who did not use it."""
    with Server("go") as first:
        with start(way, [first], protocol="http2") as edge:
            client("go", edge, "unary", 100, 2)
            first.end()
            with Server("go", port=first.http):
                time.sleep(0.2)
                client("go", edge, "unary", 100, 2)


@row(needs=("go",), seconds=5)
def grpc_tls_upstream(way):
    with Server("go", tls=True) as server, start(way, [server], protocol="http2", tls=True) as edge:
        if way == "direct":
            run(*CLIENTS["go"](), "-address", f"127.0.0.1:{server.https}", "-ca", ca(), "unary", 500, 4)
        else:
            client("go", edge, "unary", 500, 4)


# The OpenAPI document of the calls that are under a contract.
DOCUMENT = """{"openapi": "3.1.0", "info": {"title": "calls", "version": "1"}, "paths": {"/r13/Sleep": {"post": {
  "parameters": [{"name": "x-tenant", "in": "header", "required": true, "schema": {"type": "string"}}],
  "requestBody": {"content": {"application/grpc": {}}}, "responses": {"200": {"description": "OK"}}}}}}"""

# What is set for the route, how many calls come at once, and the code and the reason of the first that ends.
REJECTIONS = [
    (None, 1, 12, "no_route"),
    ({"methods": ["GET"]}, 1, 12, "method_not_allowed"),
    ({"policies": ["token"]}, 1, 16, "credentials_missing"),
    ({"policies": ["denied"]}, 1, 7, "address_not_allowed"),
    ({"policies": ["rate"]}, 2, 8, "rate_limited"),
    ({"policies": ["one"]}, 2, 8, "concurrency_limited"),
    ({"policies": ["one-of-all"]}, 2, 14, "overall_concurrency_limited"),
    ({"policies": ["closed"]}, 1, 14, "maintenance"),
    ({"max_body": 8}, 1, 8, "body_too_large"),
    ({"upstream": "gone"}, 1, 14, "upstream_refused"),
    ({"total_timeout": "300ms"}, 1, 4, "upstream_total_timeout"),
    ({"response_header_timeout": "300ms"}, 1, 4, "response_header_timeout"),
    ({"contract": "calls"}, 1, 12, "path_undeclared"),
    ({"contract": "calls"}, 1, 3, "parameter_missing"),
    ({"policies": ["sign-in"]}, 1, 16, "auth_service_denied"),
    ({"policies": ["hanging"]}, 1, 14, "auth_service_timeout"),
    ({"upstream": "narrow"}, 2, 14, "upstream_overflow"),
    # These are read as they are, by gRPC's table for HTTP statuses.
    ({"respond": {"status": 403, "body": "no"}}, 1, 7, None),
    ({"respond": {"status": 503, "body_file": "closed.html"}}, 1, 14, None),
]


def rejecting(server, service, place):
    """A configuration with a route `rN` for each rejection."""
    for name, content in (("api.json", DOCUMENT), ("closed.html", "<h1>closed</h1>"), ("secret", "s" * 32), ("closed", "")):
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(content)
    routes = [{"path": "/portunus.test.Echo/{method}", "upstream": "app"}]
    for number, (settings, *_) in enumerate(REJECTIONS):
        if settings is not None:
            to = {} if "respond" in settings else {"upstream": "app", "rewrite": "/portunus.test.Echo/{method}"}
            routes.append({"path": f"/r{number}/{{method}}", **to, **settings})
    group = {"servers": [f"127.0.0.1:{server.http}"], "protocol": "http2"}
    own = {"bind": "127.0.0.1:0", "error_pages": "site"}
    asked = {"upstream": "service", "timeout": "300ms"}
    return {
        "listeners": [{"name": "https", **own, "tls": {"keystore": "main"}}, {"name": "http", **own}],
        "keystores": keystores(),
        "upstreams": {
            "app": group,
            "narrow": {**group, "max_in_flight": 1},
            "gone": {**group, "servers": [f"127.0.0.1:{free_port()}"]},
            "service": {"servers": [f"127.0.0.1:{service.port}"]},
        },
        "tokens": {"id": {"jwt": {"algorithms": "HS256", "secret": {"file": "secret"}}}},
        "contracts": {"calls": {"document": "api.json"}},
        "error_pages": {"site": {"pages": {"4xx": "closed.html", "5xx": "closed.html"}}},
        "policies": {
            "token": {"jwt": {"verifier": "id"}},
            "denied": {"deny": "127.0.0.0/8"},
            "rate": {"rate_limit": {"rate": "1/h", "burst": 1}},
            "one": {"concurrency_limit": {"max_in_flight": 1}},
            "one-of-all": {"concurrency_limit": {"max_in_flight": 1, "key": "all"}},
            "closed": {"maintenance": {"file": os.path.join(place, "closed")}},
            "sign-in": {"forward_auth": {**asked, "path": "/"}},
            "hanging": {"forward_auth": {**asked, "path": "/hold"}},
        },
        "routes": routes,
    }


def rejected(make):
    """A row of one client that is rejected for every reason there is; the connection goes on."""

    def scene(_):
        place = folder("rejected")
        numbers = [number for _, at_once, code, _ in REJECTIONS for number in (at_once, code)]
        with Server("go") as server, Application(status=302, address="127.0.0.1") as service:
            for h2c in (False, True):
                with Configured(rejecting(server, service, place), place) as gate:
                    edge = Edge("portunus", gate.ports["https"], gate.ports["http"], gate.ports["http"])
                    client(make, edge, "rejected", *numbers, h2c=h2c, seconds=PATIENCE)
                    client(make, edge, "unary", 50, 4, h2c=h2c)
                    logged = lambda gate=gate: {(line["target"], line.get("reason")) for line in gate.requests()}
                    wanted = {(f"/r{number}/Sleep", reason) for number, (*_, reason) in enumerate(REJECTIONS) if reason}
                    until(lambda: wanted <= logged(), "the log lacks", lambda: wanted - logged())

    scene.__name__ = f"grpc_{make}_rejected"
    row(ways=("portunus",), needs=("go", make), seconds=10)(scene)


rejected("go")
rejected("python")


class Client(Process):
    """A client that runs beside what the row does meanwhile."""

    def __init__(self, make, edge, scenario, *numbers):
        plain = edge.name == "direct"
        where = ["-address", f"127.0.0.1:{edge.h2c if plain else edge.https}"] + ([] if plain else ["-ca", ca()])
        super().__init__(*CLIENTS[make](), *where, scenario, *numbers)

    def succeed(self):
        if self.wait(120 + PATIENCE) != 0:
            raise Failed(self.said()[-2000:])
