"""Contracts where others stand: API Firewall's settings as they are in front of httpbin, the application of its own demo, with httpbin's own document;
nginx, Caddy and Envoy, which ask about the requests that they hold, configured as docs/validate-server.md has it; and applications under the
documents that their frameworks make."""

import http.client
import http.server
import json
import os
import re
import signal
import threading

from calls_of import FASTAPI, NESTJS
from rows import row
from stage import HERE, Failed, Process, Settings, folder, free_port, run, tool, until, until_connectable

# Debian keeps nginx where not every user looks.
WITH_SBIN = {"PATH": os.environ["PATH"] + ":/usr/sbin"}

# Of each operation of the document: what is asked. What is between braces in a template has one of these values.
VALUES = {
    "n": "2", "offset": "1", "numbytes": "64", "delay": "0", "value": "60", "user": "u", "passwd": "p", "qop": "auth", "algorithm": "MD5",
    "stale_after": "never", "etag": "e", "name": "k", "anything": "thing", "codes": "300",
}
# A value that httpbin decodes; what the document requires; what keeps the sizes of its random bodies small.
EXACT = {"/base64/{value}": "/base64/aGVsbG8="}
QUERIES = {"/redirect-to": "?url=/get", "/drip": "?duration=0&numbytes=8&delay=0"}
FIELDS = {"/bearer": {"Authorization": "Bearer token"}, "/image": {"Accept": "image/png"}}
WRITES = [("POST", "/post"), ("PUT", "/put"), ("PATCH", "/patch"), ("DELETE", "/delete")] + [
    (method, "/anything") for method in ("POST", "PUT", "PATCH", "DELETE")
]


class Httpbin(Process):
    """httpbin itself, from PyPI."""

    def __init__(self):
        self.port = free_port()
        words = ["--workers", "2", "--threads", "4", "--bind", f"127.0.0.1:{self.port}", "--no-control-socket", "httpbin:app"]
        super().__init__(tool("httpbin/bin/gunicorn"), *words)
        until_connectable(self.port, self)


def openapi(swagger):
    """The document of httpbin as OpenAPI 3.0, made as converters do: `int` is no type, responses without a schema have no content."""

    def parameter(one):
        schema = {key: one[key] for key in ("type", "default", "enum") if key in one}
        schema["type"] = {"int": "integer", None: "string"}.get(schema.get("type"), schema.get("type"))
        schema.pop("default", None)
        return {"name": one["name"], "in": one["in"], "required": one["in"] == "path" or one.get("required", False), "schema": schema}

    def operation(one, path):
        declared = [parameter(each) for each in one.get("parameters", []) if each["in"] in ("path", "query", "header")]
        # httpbin lists what it reads from a query of any names as one parameter.
        declared = [each for each in declared if each["name"] != "freeform"]
        named = {each["name"] for each in declared}
        declared += [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path) if name not in named
        ]
        responses = {status: {"description": said.get("description", ""), "content": {}} for status, said in one["responses"].items()}
        return {"parameters": declared, "responses": responses}

    def item(path, operations):
        return {method: operation(one, path) for method, one in operations.items() if method != "trace"}

    paths = {path: item(path, operations) for path, operations in swagger["paths"].items()}
    return {"openapi": "3.0.1", "info": {"title": "httpbin", "version": "1"}, "servers": [{"url": "/"}], "paths": paths}


def ask(port, method, target, fields=None, body=None, host="httpbin.example"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, target, body, {"Host": host, **(fields or {})})
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()
    finally:
        connection.close()


def targets(document):
    for template, operations in document["paths"].items():
        if "get" in operations:
            path = EXACT.get(template) or re.sub(r"{(\w+)}", lambda name: VALUES[name[1]], template)
            yield path + QUERIES.get(template, ""), FIELDS.get(template), operations["get"]["responses"]


def front(document, backend, *program):
    """The program in the original's place, with the settings of its demo, and its port."""
    place = os.path.join(folder("front"), "httpbin.json")
    with open(place, "w", encoding="utf-8") as file:
        json.dump(document, file)
    port = free_port()
    settings = {
        "API_SPECS": place,
        "URL": f"http://127.0.0.1:{port}",
        "HEALTH_HOST": f"127.0.0.1:{free_port()}",
        "SERVER_URL": f"http://127.0.0.1:{backend}",
        "REQUEST_VALIDATION": "BLOCK",
        "RESPONSE_VALIDATION": "BLOCK",
    }
    process = Process(*program, env={f"APIFW_{name}": value for name, value in settings.items()})
    until_connectable(port, process)
    return process, port


# What the document does not have.
UNDECLARED = (("GET", "/nothing"), ("GET", "/get?undeclared=1"), ("POST", "/get"), ("GET", "/bytes/two"), ("GET", "/status/418"))


@row(ways=("portunus",), needs=("httpbin",), seconds=15)
def api_firewall_demo(_way):
    with Httpbin() as httpbin:
        document = openapi(json.loads(ask(httpbin.port, "GET", "/spec.json")[2]))
        process, port = front(document, httpbin.port, Settings.portunus, "as", "api-firewall")
        with process:
            different, asked = [], 0
            for target, fields, statuses in targets(document):
                asked += 1
                direct, through = ask(httpbin.port, "GET", target, fields), ask(port, "GET", target, fields)
                # A few redirects have a status that httpbin's document does not declare; the original blocks those.
                wanted = direct[:2] if str(direct[0]) in statuses else (403, None)
                if through[:2] != wanted:
                    different.append(f"GET {target}: {direct[:2]} becomes {through[:2]}")
            if asked < 48:
                different.append(f"only {asked} targets of GET")
            for method, target in WRITES:
                fields, body = {"Content-Type": "application/json"}, b'{"name":"value","list":[1,2]}'
                direct, through = ask(httpbin.port, method, target, fields, body), ask(port, method, target, fields, body)
                if direct[0] != 200 or through[0] != 200 or json.loads(direct[2])["json"] != json.loads(through[2])["json"]:
                    different.append(f"{method} {target}: {direct[:2]} becomes {through[:2]}")
            # What the document does not have is blocked there, too.
            for method, target in UNDECLARED:
                if ask(port, method, target)[0] != 403:
                    different.append(f"{method} {target} is not blocked")
            if different:
                raise Failed("\n".join([f"of {asked} GETs and {len(WRITES)} writes:", *different]) + process.said()[-3000:])


@row(ways=("portunus",), needs=("httpbin", "api_firewall"), seconds=20)
def api_firewall_beside_the_original(_way):
    """Each request of the demo to both; statuses and media types must be alike."""
    with Httpbin() as httpbin:
        document = openapi(json.loads(ask(httpbin.port, "GET", "/spec.json")[2]))
        asked = [("GET", target, fields, None) for target, fields, _ in targets(document)]
        asked += [(method, target, {"Content-Type": "application/json"}, b'{"name":"value","list":[1,2]}') for method, target in WRITES]
        asked += [(method, target, None, None) for method, target in UNDECLARED]
        own, port = front(document, httpbin.port, Settings.portunus, "as", "api-firewall")
        with own:
            original, there = front(document, httpbin.port, os.environ["API_FIREWALL"])
            with original:
                different = []
                for method, target, fields, body in asked:
                    here, wanted = (ask(one, method, target, fields, body) for one in (port, there))
                    # What it blocks has a media type there and no body here.
                    if here[0] != wanted[0] or (here[0] != 403 and here[1] != wanted[1]):
                        different.append(f"{method} {target}: {wanted[:2]} there, {here[:2]} here")
                if different:
                    raise Failed("\n".join([f"of {len(asked)}:", *different]) + own.said()[-3000:])


# --- validation for other proxies, configured as docs/validate-server.md has it ---

DOCS = os.path.join(HERE, "../../docs/validate-server.md")
SHOP = os.path.join(HERE, "../../examples/shop/openapi.yaml")
ORDER = {
    "items": [{"product": 7, "count": 2}],
    "ship_to": {"name": "A", "street": "B 1", "city": "C", "country": "DE"},
    "payment": {"kind": "card", "token": "tok_0123456789"},
}


class App:
    """Records what reaches it."""

    def __init__(self):
        seen = self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                seen.append((self.command, self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def validate_server(*options):
    port = free_port()
    process = Process(Settings.portunus, "validate-server", SHOP, "--bind", f"127.0.0.1:{port}", *options)
    until_connectable(port, process)
    return process, port


def block(info):
    """What the page shows in the block with this info string."""
    with open(DOCS, encoding="utf-8") as file:
        return re.search(rf"^```{re.escape(info)}\n(.*?)^```$", file.read(), re.M | re.S)[1]


def configured(text, edge, validation, app):
    """A configuration of the page, with ports of this run."""
    for given, port in (("8080", edge), ("9191", validation), ("3000", app)):
        text = text.replace(f"127.0.0.1:{given}", f"127.0.0.1:{port}").replace(f"port_value: {given}", f"port_value: {port}")
    return text


def shown_file(name, text):
    path = os.path.join(folder("proxy"), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def questions(edge, app, proxy, server, rows):
    """Asks each, and looks at both sides: what the client got, and whether the application saw it."""
    different = []
    for method, target, body, wanted in rows:
        before = len(app.seen)
        fields = {"Content-Type": "application/json"} if body is not None else {}
        data = None if body is None else json.dumps(body).encode()
        status = ask(edge, method, target, fields, data, f"127.0.0.1:{edge}")[0]
        passed = app.seen[before:]
        if status != wanted or len(passed) != (1 if wanted == 200 else 0):
            different.append(f"{method} {target} {body}: {status} instead of {wanted}, the application saw {passed}")
        elif wanted == 200 and passed[0] != (method, target, data or b""):
            different.append(f"{method} {target}: the application saw {passed}")
    if different:
        raise Failed("\n".join([*different, proxy.said()[-3000:], server.said()[-3000:]]))


HEADS = [
    ("GET", "/v1/products?page=1", None, 200),
    ("GET", "/v1/products?page=0", None, 400),
    ("GET", "/v1/nothing", None, 404),
    ("PUT", "/v1/products", None, 405),
]
BODIES = [
    ("POST", "/v1/orders", ORDER, 200),
    ("POST", "/v1/orders", {**ORDER, "items": []}, 400),
    ("POST", "/v1/orders", {**ORDER, "more": 1}, 400),
    ("POST", "/v1/orders", None, 400),
]


@row(ways=("portunus",), needs=("nginx",), seconds=3)
def validate_for_nginx(_way):
    server, port = validate_server()
    with server, App() as app:
        edge = free_port()
        place = folder("nginx")
        inner = configured(block("nginx"), edge, port, app.port)
        temporary = "".join(f"{name}_temp_path {place};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = f"daemon off; pid {place}/pid; error_log stderr; events {{}}\nhttp {{\naccess_log off;\n{temporary}{inner}}}\n"
        with Process("nginx", "-p", place, "-c", shown_file("nginx.conf", text), env=WITH_SBIN, ending=signal.SIGTERM) as nginx:
            until_connectable(edge, nginx)
            # Bodies are not shown, and there is one status for every reason.
            rows = [(*one[:3], 200 if one[3] == 200 else 403) for one in HEADS]
            rows += [("POST", "/v1/orders", ORDER, 200), ("POST", "/v1/orders", {}, 200)]
            questions(edge, app, nginx, server, rows)
        # The same without a field that nginx must be told to set.
        without = "\n".join(line for line in text.splitlines() if "X-Original-URI" not in line)
        with Process("nginx", "-p", place, "-c", shown_file("nginx.conf", without), env=WITH_SBIN, ending=signal.SIGTERM) as nginx:
            until_connectable(edge, nginx)
            questions(edge, app, nginx, server, [("GET", "/v1/products?page=1", None, 500)])
            server.wait_for("original_request_missing")


@row(ways=("portunus",), needs=("caddy",), seconds=5)
def validate_for_caddy(_way):
    server, port = validate_server()
    with server, App() as app:
        edge = free_port()
        text = "{\n\tadmin off\n\tauto_https off\n}\n" + configured(block("text"), edge, port, app.port)
        path = shown_file("Caddyfile", text)
        at_home = {"HOME": os.path.dirname(path), "XDG_CONFIG_HOME": os.path.dirname(path), "XDG_DATA_HOME": os.path.dirname(path)}
        with Process("caddy", "run", "--config", path, "--adapter", "caddyfile", env=at_home, ending=signal.SIGTERM) as caddy:
            until_connectable(edge, caddy)
            questions(edge, app, caddy, server, HEADS + [("POST", "/v1/orders", ORDER, 200), ("POST", "/v1/orders", {}, 200)])


# A static configuration as short as it can be; the page shows the dynamic one.
TRAEFIK = """
entryPoints: {{ web: {{ address: "127.0.0.1:{port}" }} }}
providers: {{ file: {{ filename: {dynamic} }} }}
global: {{ checkNewVersion: false, sendAnonymousUsage: false }}
"""


@row(ways=("portunus",), needs=("traefik",), seconds=5)
def validate_for_traefik(_way):
    server, port = validate_server("--bodies", "whole")
    with server, App() as app:
        edge = free_port()
        dynamic = shown_file("dynamic.yaml", configured(block("yaml other: Traefik, dynamic configuration"), edge, port, app.port))
        static = shown_file("traefik.yaml", TRAEFIK.format(port=edge, dynamic=dynamic))
        with Process(tool("traefik/bin/traefik"), f"--configFile={static}", ending=signal.SIGTERM) as traefik:
            until_connectable(edge, traefik)
            # It listens before it has read its routes.
            until(lambda: ask(edge, "GET", "/v1/products?page=1", host=f"127.0.0.1:{edge}")[0] == 200, "Traefik has no route", traefik.said)
            questions(edge, app, traefik, server, HEADS + BODIES)


def validate_for_envoy(server_options, filter_info):
    server, port = validate_server(*server_options)
    with server, App() as app:
        edge = free_port()
        text = configured(block("yaml other: Envoy"), edge, port, app.port)
        if filter_info:
            indented = "".join(f"{' ' * 18}{line}\n" for line in configured(block(filter_info), edge, port, app.port).splitlines())
            begin, end = text.index("                  - name: contract\n"), text.index("                  - name: router\n")
            text = text[:begin] + indented + text[end:]
        words = ["--config-path", shown_file("envoy.yaml", text), "--disable-hot-restart", "--concurrency", 1, "--log-level", "warn"]
        with Process(tool("envoy/bin/envoy"), *words, ending=signal.SIGTERM) as envoy:
            until_connectable(edge, envoy)
            questions(edge, app, envoy, server, HEADS + BODIES)


@row(ways=("portunus",), needs=("envoy",), seconds=5)
def validate_for_envoy_ext_proc(_way):
    validate_for_envoy((), None)


@row(ways=("portunus",), needs=("envoy",), seconds=5)
def validate_for_envoy_ext_authz_grpc(_way):
    validate_for_envoy(("--bodies", "whole"), "yaml other: Envoy, a filter")


@row(ways=("portunus",), needs=("envoy",), seconds=5)
def validate_for_envoy_ext_authz_http(_way):
    validate_for_envoy(("--bodies", "whole"), "yaml other: Envoy, another filter")


# --- applications under the documents that their frameworks make ---


def under_own_document(name, application, document, contract):
    """The gate before an application, under the document that it serves; its process and its port."""
    port = free_port()
    place = folder(name)
    with open(os.path.join(place, "openapi.json"), "wb") as file:
        file.write(ask(application, "GET", document)[2])
    configuration = {
        "listeners": [{"name": "web", "bind": f"127.0.0.1:{port}", "contract": "api"}],
        "upstreams": {"app": {"servers": [f"127.0.0.1:{application}"]}},
        "contracts": {"api": {"document": "openapi.json", "detail": "pointer", **contract}},
        "routes": [{"path": "/{*rest}", "upstream": "app"}],
    }
    file = os.path.join(place, "portunus.yaml")
    with open(file, "w", encoding="utf-8") as text:
        json.dump(configuration, text)
    gate = Process(Settings.portunus, "run", file)
    until_connectable(port, gate)
    return gate, f"http://127.0.0.1:{port}"


def call_by_everybody(url, calls, gate):
    """The same calls by each library, one after the other: each leaves as many things behind as it found."""
    modules = tool("nestjs/node_modules")
    libraries = {
        "requests": [tool("fastapi/bin/python"), os.path.join(HERE, "calls.py"), "requests", url],
        "httpx": [tool("fastapi/bin/python"), os.path.join(HERE, "calls.py"), "httpx", url],
        "fetch": ["node", os.path.join(HERE, "calls.mjs"), "fetch", url, modules],
        "axios": ["node", os.path.join(HERE, "calls.mjs"), "axios", url, modules],
        "Go": [tool("bin/api-client"), url],
    }
    different = []
    for library, words in libraries.items():
        try:
            run(*words, seconds=30, stdin=json.dumps(calls).encode())
        except Failed as failure:
            different.append(f"{library}: {failure}")
    if different:
        raise Failed("\n".join([*different, gate.said()[-3000:]]))


@row(ways=("portunus",), needs=("fastapi", "node", "nestjs", "go"), seconds=12)
def fastapi_under_its_own_document(_way):
    interpreter = tool("fastapi/bin/python")
    port = free_port()
    with Process(interpreter, "-u", os.path.join(HERE, "fastapi_app.py"), port) as application:
        until_connectable(port, application)
        # FastAPI declares neither the statuses of its exceptions nor what is in their bodies.
        gate, url = under_own_document("fastapi", port, "/openapi.json", {"undeclared": {"status": "log", "response_body": "log"}})
        with gate:
            call_by_everybody(url, FASTAPI, gate)
            for library in ("requests", "httpx"):
                run(interpreter, os.path.join(HERE, "fastapi_client.py"), library, url, seconds=30)
            run("node", os.path.join(HERE, "fastapi_client.mjs"), url, seconds=30)


@row(ways=("portunus",), needs=("nestjs", "fastapi", "go"), seconds=12)
def nestjs_under_its_own_document(_way):
    modules = tool("nestjs/node_modules")
    program = os.path.join(folder("nestjs"), "app.js")
    with open(program, "w", encoding="utf-8") as file:
        file.write(run("node", os.path.join(HERE, "compile_ts.cjs"), modules, os.path.join(HERE, "nestjs_app.ts")))
    port = free_port()
    with Process("node", program, port, env={"NODE_PATH": modules}) as application:
        until_connectable(port, application)
        gate, url = under_own_document("nestjs", port, "/docs-json", {})
        with gate:
            call_by_everybody(url, NESTJS, gate)
