"""Who may come in: oauth2-proxy as the service that is asked, pages of other origins in Chromium, users of a file that htpasswd has made."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import os
import signal
import threading
import types
import urllib.parse

from proxies import Configured, keystores
from rows import row
from stage import HERE, Failed, Process, folder, free_port, python, run, tool, until, until_connectable


class App:
    """An HTTP server that records what reaches it. `reply` makes status, fields and body of the response from a request."""

    def __init__(self, reply=lambda request: (200, {}, b"ok")):
        seen = self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                # One of these serves all requests of a connection.
                seen.append(types.SimpleNamespace(command=self.command, path=self.path, headers=self.headers, body=sent))
                status, fields, body = reply(seen[-1])
                self.send_response(status)
                for name, value in {**fields, "Content-Length": len(body)}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def ask(port, target, fields=None, method="GET", body=None, host="localhost"):
    """Status, fields and body of a response."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, target, body, {"Host": f"{host}:{port}", **(fields or {})})
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def expect(what, wanted, got):
    if wanted != got:
        raise Failed(f"{what}: wanted {wanted!r}, got {got!r}")


# --- oauth2-proxy ---


def provider(request):
    """An identity provider that signs everybody in as Ada without asking."""
    url = urllib.parse.urlsplit(request.path)
    if url.path == "/authorize":
        query = urllib.parse.parse_qs(url.query)
        back = f"{query['redirect_uri'][0]}?{urllib.parse.urlencode({'code': 'c', 'state': query['state'][0]})}"
        return 302, {"Location": back}, b""
    said = {"/token": {"access_token": "t", "token_type": "bearer", "expires_in": 3600}, "/account": {"account": {"email": "ada@shop.example"}}}
    return 200, {"Content-Type": "application/json"}, json.dumps(said[url.path]).encode()


def oauth2_proxy(port, edge, identity):
    words = [
        f"--http-address=127.0.0.1:{port}", "--upstream=static://202", "--reverse-proxy=true", "--skip-provider-button=true",
        "--set-xauthrequest=true", f"--redirect-url=http://localhost:{edge}/oauth2/callback", "--cookie-secure=false",
        f"--cookie-secret={base64.urlsafe_b64encode(os.urandom(32)).decode()}", "--email-domain=*", "--provider=digitalocean",
        "--client-id=edge", "--client-secret=secret", "--scope=read", f"--login-url=http://{identity}/authorize",
        f"--redeem-url=http://{identity}/token", f"--profile-url=http://{identity}/account", f"--validate-url=http://{identity}/account",
    ]  # fmt: skip
    process = Process(tool("oauth2-proxy/oauth2-proxy"), *words, env={"NO_PROXY": "*", "no_proxy": "*"})
    until_connectable(port, process)
    return process


SPOOFED = {"X-Auth-Request-Email": "root@shop.example", "X-Auth-Request-User": "root", "x-auth-request-groups": "admins"}


@row(ways=("portunus",), needs=("oauth2_proxy", "curl"), seconds=10)
def access_oauth2_proxy(_way):
    """Redirected to sign in, signed in with the cookie, forged identities removed, and nobody let in while it hangs."""
    port = free_port()
    with App() as app, App(provider) as identity:
        config = {
            "listeners": [{"name": "http", "bind": "127.0.0.1:0"}],
            "upstreams": {"app": {"servers": app.address}, "oauth2-proxy": {"servers": f"127.0.0.1:{port}"}},
            "policies": {name: signed_in(path) for name, path in (("pages", "/"), ("api", "/oauth2/auth"))},
            "routes": [
                {"path": "/{*rest}", "upstream": "app", "policies": ["pages"]},
                {"path": "/api/{*rest}", "upstream": "app", "policies": ["api"]},
                {"path": "/open", "upstream": "app"},
                {"path": "/oauth2/{*rest}", "upstream": "oauth2-proxy"},
            ],
        }
        with Configured(config, folder("access")) as gate:
            edge = gate.ports["http"]
            expect("before it runs", 503, ask(edge, "/")[0])
            with oauth2_proxy(port, edge, identity.address) as proxy:
                status, fields, _ = ask(edge, "/private?a=1", SPOOFED)
                expect("without a cookie", (302, True), (status, fields["Location"].startswith(f"http://{identity.address}/authorize?")))
                expect("an API without a cookie", 401, ask(edge, "/api/x", SPOOFED)[0])
                expect("nothing of it upstream", [], [one.path for one in app.seen])
                sign_in(edge, app)
                hang(edge, app, proxy)
                reasons = [line.get("reason") for line in gate.requests()]
                expect("it is named", True, {"auth_service_unavailable", "auth_service_denied", "auth_service_timeout"} <= set(reasons))


def signed_in(path):
    copied = ["X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Groups"]
    return {"forward_auth": {"upstream": "oauth2-proxy", "path": path, "copy": copied, "timeout": "1s"}}


def sign_in(edge, app):
    """As a browser does, by curl: to the provider and back, with cookies."""
    jar = os.path.join(folder("jar"), "cookies")
    curl = ["curl", "--silent", "--show-error", "--noproxy", "*", "--ipv4", "--max-time", 30, "--cookie", jar, "--cookie-jar", jar]
    forged = [word for name, value in SPOOFED.items() for word in ("--header", f"{name}: {value}")]
    shown = run(*curl, *forged, "--location", "--write-out", " %{url_effective} %{http_code}", f"http://localhost:{edge}/private?a=1")
    expect("signed in", f"ok http://localhost:{edge}/private?a=1 200", shown)
    for target, email in (("/private?a=2", "ada@shop.example"), ("/api/x", "ada@shop.example"), ("/open", None)):
        expect(target, "ok", run(*curl, *forged, f"http://localhost:{edge}{target}"))
        said = [app.seen[-1].headers.get_all(name) for name in ("X-Auth-Request-Email", "X-Auth-Request-Groups")]
        expect(f"who comes to {target}", [email and [email], None], said)
        expect("forged names", False, "root" in str(app.seen[-1].headers))
    with open(jar, encoding="utf-8") as file:
        cookie = next(line.split()[-1] for line in file if "_oauth2_proxy\t" in line)
    forged = {"Cookie": f"_oauth2_proxy={cookie[:-4]}AAAA"}
    before = len(app.seen)
    expect("a forged cookie", (302, 401), (ask(edge, "/private", forged)[0], ask(edge, "/api/x", forged)[0]))
    expect("a forged cookie upstream", before, len(app.seen))


def state(process):
    """As ps shows it."""
    with open(f"/proc/{process.child.pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def hang(edge, app, proxy):
    before = len(app.seen)
    proxy.signal(signal.SIGSTOP)
    try:
        until(lambda: state(proxy) == "T", "it does not stop")
        expect("while it hangs", (503, 503), (ask(edge, "/private")[0], ask(edge, "/api/x")[0]))
        expect("others while it hangs", 200, ask(edge, "/open")[0])
    finally:
        proxy.signal(signal.SIGCONT)
    expect("nothing of it upstream", before + 1, len(app.seen))


# --- pages of other origins ---

ITEMS = """{"openapi": "3.1.0", "info": {"title": "items", "version": "1"}, "paths": {"/items": {
  "get": {"responses": {"200": {"description": "OK", "content": {"application/json": {}}}}},
  "put": {"requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "required": ["name"],
    "properties": {"name": {"type": "string"}}}}}}, "responses": {"200": {"description": "OK", "content": {"application/json": {}}}}}}}}"""


SECRET = "0123456789abcdef" * 2


def token():
    """A token of HS256 that never ends."""
    words = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"HS256"}', b'{"sub":"ada","exp":9999999999}')]
    digest = hmac.new(SECRET.encode(), b".".join(words), hashlib.sha256).digest()
    return b".".join([*words, base64.urlsafe_b64encode(digest).rstrip(b"=")]).decode()


def items(request):
    return 200, {"Content-Type": "application/json", "X-Total": "3", "X-Inner": "1", "Access-Control-Allow-Origin": "*"}, b"[]"


@row(ways=("portunus",), needs=("python", "chromium"), seconds=8)
def access_cors_chromium(_way):
    """A page of an allowed origin uses the API as the policy says, one of another origin does not; preflights meet neither contract nor token."""
    place, port = folder("access"), free_port()
    write(place, "items.json", ITEMS)
    write(place, "secret", SECRET)
    with App(items) as app:
        cors = {
            "origins": [f"https://app.shop.example:{port}"], "credentials": True, "methods": ["GET", "PUT"],
            "headers": ["Authorization", "Content-Type"], "expose_headers": "X-Total",
        }  # fmt: skip
        config = {
            "listeners": [{"name": "https", "bind": f"127.0.0.1:{port}", "tls": {"keystore": "main"}}],
            "keystores": keystores(),
            "upstreams": {"app": {"servers": app.address}},
            "contracts": {"items": {"document": "items.json"}},
            "tokens": {"id": {"jwt": {"algorithms": "HS256", "secret": {"file": "secret"}}}},
            "policies": {"pages": {"cors": cors}, "people": {"jwt": {"verifier": "id"}}},
            "routes": [
                {"respond": {"status": 200, "content_type": "text/html; charset=utf-8", "body": "<title>page</title>"}},
                {"hosts": "api.shop.example", "path": "/items", "methods": ["GET", "PUT"], "upstream": "app", "contract": "items", "policies": ["people", "pages"]},
            ],
        }
        with Configured(config, place) as gate:
            for page, scenario in (("app.shop.example", "cors_allowed"), ("evil.example", "cors_foreign")):
                api, right = json.dumps(f"https://api.shop.example:{port}/items"), json.dumps(f"Bearer {token()}")
                run(*python(f"{HERE}/browser.py", scenario, f"https://{page}:{port}", api, right), seconds=60)
            expect("what reached the application", {("PUT", "app")}, {(one.command, origin(one)) for one in app.seen})
            statuses = {line["status"] for line in gate.requests() if line.get("method") == "OPTIONS"}
            # 405: no route takes the method.
            expect("statuses of preflights", {204, 403, 405}, statuses)


def origin(request):
    return (request.headers["Origin"] or "https://nobody.").removeprefix("https://").split(".")[0]


def write(place, name, text):
    with open(os.path.join(place, name), "w", encoding="utf-8") as file:
        file.write(text)


# --- passwords ---


def htpasswd(user, password, cost=5):
    return run("htpasswd", "-nbBC", cost, user, password) + "\n"


def credentials(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@row(ways=("portunus",), needs=("python", "htpasswd", "chromium", "curl"), seconds=10)
def access_htpasswd(_way):
    """Users of a file that htpasswd made come in by curl, requests, httpx and Chromium, and by a changed password; others do not."""
    place = folder("access")
    users = os.path.join(place, "users")
    run("htpasswd", "-cbB", users, "ada", "pass:wörd")
    run("htpasswd", "-bBC", 7, users, "eve", "hunter2")
    with App() as app:
        config = {
            "listeners": [{"name": "https", "bind": "127.0.0.1:0", "tls": {"keystore": "main"}}],
            "keystores": keystores(),
            "upstreams": {"app": {"servers": app.address}},
            "policies": {"people": {"basic": {"file": "users", "realm": "Staff", "user_header": "X-User"}}},
            "routes": [{"upstream": "app", "policies": ["people"]}],
        }
        with Configured(config, place) as gate:
            port = gate.ports["https"]
            curl = ["curl", "--silent", "--noproxy", "*", "--ipv4", "--insecure", "--output", "/dev/null", "--write-out", "%{http_code}"]
            for version in ("--http1.1", "--http2"):
                for user, status in (("ada:pass:wörd", "200"), ("eve:hunter2", "200"), ("ada:hunter2", "401"), ("adam:x", "401"), (":", "401")):
                    said = run(*curl, version, "--header", "X-User: root", "--user", user, f"https://localhost:{port}/")
                    expect(f"curl {version} as {user}", status, said)
            expect("whom the application saw", {"ada", "eve"}, {one.headers["X-User"] for one in app.seen})
            for library in ("requests", "httpx"):
                run(*python("-c", LIBRARIES[library], f"https://localhost:{port}/"), env={"NO_PROXY": "*", "no_proxy": "*"})
            run(*python(f"{HERE}/browser.py", "signed_in", f"https://eve:hunter2@localhost:{port}"), seconds=60)
            # Another password, as an operator changes it; the old one is not remembered.
            run("htpasswd", "-bB", users, "eve", "another")
            gate.wait_for('"reloaded"')
            old, new = (run(*curl, "--user", f"eve:{password}", f"https://localhost:{port}/") for password in ("hunter2", "another"))
            expect("after the change", ("401", "200"), (old, new))


LIBRARIES = {
    "requests": """
import requests, sys, warnings
warnings.simplefilter("ignore")
for user, password, status in (("eve", "hunter2", 200), ("eve", "wrong", 401)):
    got = requests.get(sys.argv[1], auth=(user, password), verify=False, timeout=60)
    assert got.status_code == status, got.status_code
assert got.headers["WWW-Authenticate"] == 'Basic realm="Staff", charset="UTF-8"', got.headers
""",
    "httpx": """
import httpx, sys
with httpx.Client(verify=False, http2=True, timeout=60) as session:
    assert session.get(sys.argv[1], auth=("eve", "hunter2")).status_code == 200
    assert session.get(sys.argv[1], auth=("eve", "wrong")).status_code == 401
""",
}


@row(ways=("portunus",), needs=("htpasswd",), seconds=10)
def access_wrong_passwords(_way):
    """A flood of wrong passwords beside one worker's other clients: hashes are computed elsewhere."""
    place = folder("access")
    write(place, "users", htpasswd("ada", "secret", cost=12))
    with App() as app:
        config = {
            "workers": 1,
            "listeners": [{"name": "http", "bind": "127.0.0.1:0"}],
            "upstreams": {"app": {"servers": app.address}},
            "policies": {"people": {"basic": {"file": "users"}}},
            "routes": [{"path": "/{*rest}", "upstream": "app", "policies": ["people"]}, {"path": "/open", "respond": {"status": 200}}],
        }
        with Configured(config, place) as gate:
            port, known = gate.ports["http"], {"Authorization": credentials("ada", "secret")}
            expect("the first time", 200, ask(port, "/", known)[0])
            flood, over = [], threading.Event()

            def guess(number):
                while not over.is_set():
                    flood.append(ask(port, "/", {"Authorization": credentials("ada", f"{number} {len(flood)}")})[0])
                    # Whoever is told to come back at once leaves the rows' interpreter to the others for a moment.
                    over.wait(0.01)

            threads = [threading.Thread(target=guess, args=(number,), daemon=True) for number in range(16)]
            for thread in threads:
                thread.start()
            while not flood:
                over.wait(0.01)
            before = flood.count(401)
            for _ in range(150):
                expect("who needs no password, and who is known", (200, 200), (ask(port, "/open")[0], ask(port, "/", known)[0]))
            computed = flood.count(401) - before
            over.set()
            for thread in threads:
                thread.join()
            expect("the flood", set(), set(flood) - {401, 503})
            # If each of the 300 had waited for one hash, there would be as many.
            expect(f"{computed} hashes meanwhile", True, computed < 150)
