"""What an operator configures, tried over HTTP/3: the same code serves all versions, and this row sees that it does."""

import base64
import hashlib
import hmac
import json
import os
import time

from proxies import Configured, keystores
from rows import row
from rows_access import App
from stage import HERE, Failed, ca, folder, run, tool, until

SECRET = "a-secret-of-tests-alone-that-is-long-enough"

DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "orders", "version": "1"},
    "paths": {
        "/orders": {
            "post": {
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}},
                        },
                    },
                },
                "responses": {"200": {"description": "made", "content": {"application/json": {"schema": {"type": "object"}}}}},
            },
        },
    },
}


def token():
    part = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")
    head, claims = ({"alg": "HS256", "typ": "JWT"}, {"sub": "ada", "exp": int(time.time()) + 3600})
    signed = b".".join(part(json.dumps(one).encode()) for one in (head, claims))
    return b".".join([signed, part(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest())]).decode()


def telling(name):
    """A server that says what it has seen and who it is; a page for `/page`."""

    def reply(request):
        if request.path == "/page":
            return 200, {"Content-Type": "text/html", "ETag": '"x"'}, b"a line of a page\n" * 176 + b"end.\n..."
        said = {"server": name, "headers": {field.lower(): value for field, value in request.headers.items()}}
        return 200, {"Content-Type": "application/json"}, json.dumps(said).encode()

    return App(reply)


def configured(one, two):
    forwarded = lambda path, **more: {"path": path, "upstream": "one", **more}
    return {
        "listeners": [
            {
                "name": "https", "bind": "127.0.0.1:0", "tls": {"keystore": "main"}, "http3": True, "compression": "web", "error_pages": "site",
            },
        ],
        "keystores": keystores(),
        "tokens": {"id": {"jwt": {"algorithms": "HS256", "secret": {"file": "secret"}}}},
        "compression": {"web": {"encodings": ["gzip"], "types": ["text/html"]}},
        "error_pages": {"site": {"pages": {"4xx": "error.html"}}},
        "contracts": {"orders": {"document": "orders.json"}},
        "upstreams": {
            "one": {"servers": [one.address]},
            "two": {"servers": [two.address]},
            "both": {"servers": [one.address, two.address], "sticky": {"cookie": "session"}},
        },
        "policies": {
            "user": {"jwt": {"verifier": "id", "set": {"X-User": "sub"}}},
            "slow": {"rate_limit": {"rate": "1/h", "burst": 2}},
            "nobody": {"deny": "127.0.0.0/8"},
            "pages": {"cors": {"origins": "https://app.example", "methods": ["GET", "PUT"]}},
        },
        "routes": [
            forwarded("/user", policies=["user"]),
            forwarded("/open"),
            forwarded("/page"),
            forwarded("/rate", policies=["slow"]),
            forwarded("/denied", policies=["nobody"]),
            forwarded("/small", max_body="1000B"),
            forwarded("/cors", policies=["pages"]),
            forwarded("/orders", contract="orders"),
            {"path": "/sticky", "upstream": "both"},
            {"path": "/split", "split": [{"upstream": "two", "when": {"header": {"X-Group": "beta"}}}, {"upstream": "one", "weight": 1}]},
            forwarded(
                "/variables/{id}",
                request_headers={"set": {"X-Told": "{id} {method} {host} {tls.version} {scheme}", "X-Ja4": "{tls.ja4}"}, "remove": ["X-Evil"]},
                response_headers={"set": {"X-Query": "{query.q}"}},
            ),
            {"path": "/fingerprint", "respond": {"status": 200, "body": "another"}},
            {"name": "quic", "path": "/fingerprint", "when": {"ja4": "PATTERN"}, "respond": {"status": 200, "body": "over QUIC"}},
        ],
    }


def fingerprint(client):
    """That of the client, as the access log of a first run has it, without its digests' last part, which a resumption changes."""
    with telling("one") as one, telling("two") as two:
        config = configured(one, two)
        config["routes"] = [route for route in config["routes"] if route.get("name") != "quic"]
        config["log"] = {"access": {"output": "access.log", "fields": {"ja4": "{tls.ja4}"}}}
        with Configured(config, place()) as gate:
            client(gate, check=False)
            lines = until(lambda: [line for line in gate.requests() if "fields" in line], "no line has a fingerprint")
    return lines[0]["fields"]["ja4"]


def place():
    path = folder("http3-features")
    for name, text in (("secret", SECRET), ("orders.json", json.dumps(DOCUMENT)), ("error.html", "<h1>{{status}} {{title}}</h1>")):
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            file.write(text)
    return path


def by_aioquic(gate, check=True):
    words = [tool("http3/bin/python"), "-u", f"{HERE}/http3_features.py", f"127.0.0.1:{gate.ports['https']}", ca(), token()]
    try:
        run(*words, seconds=120)
    except Failed:
        if check:
            raise


@row(ways=("portunus",), needs=("http3",), seconds=10)
def http3_features(_):
    """Identity, limits, lists, CORS, compression, error pages, sessions, splits, variables, fingerprints, a contract."""
    own = fingerprint(by_aioquic)
    if not own.startswith("q13"):
        raise Failed(f"the fingerprint is {own}")
    with telling("one") as one, telling("two") as two:
        config = configured(one, two)
        config["routes"][-1]["when"]["ja4"] = "_".join([*own.split("_")[:2], "*"])
        with Configured(config, place()) as gate:
            by_aioquic(gate)
            lines = until(gate.requests, "the access log has no request")
            versions = {line["version"] for line in lines if line["kind"] == "request"}
            if versions != {"HTTP/3"}:
                raise Failed(f"the access log says {versions}")
