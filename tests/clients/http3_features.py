"""What an operator configures, over HTTP/3 by aioquic: identity, limits, lists, CORS, compression, error pages, sessions, splits, variables, a contract.
Usage: http3_features.py HOST:PORT CA TOKEN. Exits with 0 if all went well."""

import asyncio
import gzip
import json
import sys

from http3 import Client, check, connected

PAGE = ("accept-encoding", "gzip")


async def identity(client, token):
    """Who a client is, is what its token says; what it says itself reaches nobody."""
    forged = [("x-user", "root"), ("x-forwarded-for", "192.0.2.66"), ("x-real-ip", "192.0.2.66")]
    for more, expected in (([], 401), ([("authorization", f"Bearer {token[:-4]}AAAA")], 401), ([("authorization", f"Bearer {token}")], 200)):
        fields, content = await client.request("GET", "/user", *forged, *more)
        check(fields[b":status"] == str(expected).encode(), f"identity {more}: {fields}")
    seen = json.loads(content)["headers"]
    check(seen["x-user"] == "ada" and "192.0.2.66" not in json.dumps(seen) and "root" not in json.dumps(seen), f"identity: {seen}")
    fields, content = await client.request("GET", "/open", *forged)
    check(b"root" not in content, f"a route without the policy: {content}")


async def limits(client, _):
    """429 with its fields, 403, 413, whichever stream asks."""
    statuses = [await client.request("GET", "/rate") for _ in range(3)]
    check([fields[b":status"] for fields, _ in statuses] == [b"200", b"200", b"429"], f"rate: {statuses}")
    rejected = statuses[-1][0]
    check({b"retry-after", b"ratelimit", b"ratelimit-policy"} <= set(rejected), f"rate: {rejected}")
    fields, _ = await client.request("GET", "/denied")
    check(fields[b":status"] == b"403", f"denied: {fields}")
    for more in ([], [("content-length", "5000")]):
        fields, _ = await client.request("POST", "/small", *more, content=b"x" * 5000)
        check(fields[b":status"] == b"413", f"body {more}: {fields}")
    fields, _ = await client.request("POST", "/small", content=b"x" * 1000)
    check(fields[b":status"] == b"200", f"a body that fits: {fields}")


async def cors(client, _):
    """A preflight is answered before anything else; a page of elsewhere is not let in."""
    for origin, allowed in (("https://app.example", True), ("https://evil.example", False)):
        asked = [("origin", origin), ("access-control-request-method", "PUT")]
        fields, _ = await client.request("OPTIONS", "/cors", *asked)
        check((fields.get(b"access-control-allow-origin") == origin.encode()) == allowed, f"preflight of {origin}: {fields}")
        check(fields[b":status"] == (b"204" if allowed else b"403"), f"preflight of {origin}: {fields}")


async def responses(client, _):
    """Compressed as the client asks, HEAD as GET, errors as pages."""
    fields, content = await client.request("GET", "/page", PAGE)
    check(fields.get(b"content-encoding") == b"gzip" and len(gzip.decompress(content)) == 3000, f"compression: {fields}")
    told, content = await client.request("HEAD", "/page", PAGE)
    same = lambda fields: {name: value for name, value in fields.items() if name != b"date"}
    check(same(told) == same(fields) and not content, f"HEAD: {told}, GET: {fields}")
    fields, content = await client.request("GET", "/page")
    check(b"content-encoding" not in fields and len(content) == 3000, f"without compression: {fields}")
    fields, content = await client.request("GET", "/nothing/here", ("accept", "text/html"))
    check(fields[b":status"] == b"404" and b"<h1>404" in content, f"error page: {fields} {content}")
    fields, content = await client.request("GET", "/nothing/here", ("accept", "application/json"))
    check(json.loads(content)["status"] == 404, f"problem: {fields} {content}")


async def routing(client, _):
    """A session at one server, shares of a split, variables in fields both ways, the fingerprint of a client over QUIC."""
    fields, content = await client.request("GET", "/sticky")
    cookie = fields[b"set-cookie"].decode().split(";")[0]
    server = json.loads(content)["server"]
    for _ in range(6):
        fields, content = await client.request("GET", "/sticky", ("cookie", cookie))
        check(json.loads(content)["server"] == server and b"set-cookie" not in fields, f"session: {fields} {content}")
    for group, expected in ((None, "one"), ("beta", "two")):
        more = [("x-group", group)] if group else []
        _, content = await client.request("GET", "/split", *more)
        check(json.loads(content)["server"] == expected, f"split by {group}: {content}")
    fields, content = await client.request("GET", "/variables/7?q=a%20b", ("x-evil", "1"))
    seen = json.loads(content)["headers"]
    check(seen["x-told"] == "7 GET localhost TLSv1.3 https", f"variables: {seen}")
    check(fields[b"x-query"] == b"a%20b", f"variables of the response, as they were sent: {fields}")
    check(seen["x-ja4"].startswith("q13d") and len(seen["x-ja4"]) == 36, f"fingerprint: {seen}")
    fields, content = await client.request("GET", "/fingerprint")
    check(content == b"over QUIC", f"a condition on the fingerprint: {content}")


async def contract(client, _):
    """What the document declares passes; nothing else does."""
    json_type = ("content-type", "application/json")
    for path, content, expected in (
        ("/orders", b'{"count": 3}', 200),
        ("/orders", b'{"count": "3"}', 400),
        ("/orders", b'{"count": 3', 400),
        ("/orders?extra=1", b'{"count": 3}', 400),
    ):
        fields, body = await client.request("POST", path, json_type, content=content)
        check(fields[b":status"] == str(expected).encode(), f"contract {path} {content}: {fields} {body}")
    fields, _ = await client.request("DELETE", "/orders")
    check(fields[b":status"] == b"405", f"contract DELETE: {fields}")


async def main(address, ca, token):
    async with connected(address, ca, Client) as client:
        for scenario in (identity, limits, cors, responses, routing, contract):
            await scenario(client, token)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
