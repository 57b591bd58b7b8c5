"""Python's HTTP libraries as clients. Usage: http_client.py requests|httpx|httpx2|aiohttp URL CA; exits with 0 if all went well."""

import asyncio
import hashlib
import json
import os
import ssl
import sys


# Each library has a class whose `send` gives status, fields and body, redirects followed.


class Requests:
    def __init__(self, base, ca):
        import requests

        self.session = requests.Session()
        # Neither proxies nor CAs of the machine.
        self.session.trust_env = False
        self.session.verify = ca
        self.base = base

    def send(self, method, target, **what):
        if "content" in what:
            what["data"] = what.pop("content")
        response = self.session.request(method, self.base + target, timeout=60, allow_redirects=True, **what)
        return response.status_code, response.headers, response.content


class Httpx:
    def __init__(self, base, ca, http2=False):
        import httpx

        self.session = httpx.Client(
            base_url=base, verify=ssl.create_default_context(cafile=ca), http2=http2, follow_redirects=True, timeout=60
        )
        self.http2 = http2

    def send(self, method, target, **what):
        response = self.session.request(method, target, **what)
        expect("HTTP/2" if self.http2 else "HTTP/1.1", response.http_version)
        return response.status_code, response.headers, response.content


class Aiohttp:
    def __init__(self, base, ca):
        self.loop = asyncio.new_event_loop()
        self.base = base
        self.session = self.loop.run_until_complete(self.open(ssl.create_default_context(cafile=ca)))

    async def open(self, context):
        import aiohttp

        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), timeout=aiohttp.ClientTimeout(60))

    def send(self, method, target, files=None, content=None, **what):
        import aiohttp

        if files:
            form = aiohttp.FormData()
            for name, (file_name, file) in files.items():
                form.add_field(name, file, filename=file_name)
            content = form
        if hasattr(content, "__next__"):
            content = asynchronous(content)
        if content is not None:
            what["data"] = content
        return self.loop.run_until_complete(self.once(method, target, what))

    async def once(self, method, target, what):
        async with self.session.request(method, self.base + target, **what) as response:
            return response.status, response.headers, await response.read()


async def asynchronous(pieces):
    for piece in pieces:
        yield piece


def everything(session):
    def echo(method, target, **what):
        status, _, body = session.send(method, target, **what)
        expect(200, status)
        return json.loads(body)

    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
        expect(method, echo(method, "/echo?a=1&b=%20")["method"])
    status, fields, body = session.send("HEAD", "/file")
    expect((200, "1048576", b""), (status, fields["content-length"], body))
    expect(len("name=%C3%A4+b&c=d%26e"), echo("POST", "/echo", data={"name": "ä b", "c": "d&e"})["length"])
    expect(hashlib.sha256(b'{"a":[1,2]}').hexdigest(), echo("POST", "/echo", content=b'{"a":[1,2]}')["sha256"])
    if echo("POST", "/echo", files={"photo": ("é.jpg", b"\x00\xff\r\n" * 50_000)})["length"] <= 200_000:
        raise AssertionError("the multipart body is too short")
    expect(3_000_000, echo("POST", "/echo", content=(b"0123456789" * 1000 for _ in range(300)))["length"])
    expect("/echo?redirected", echo("GET", "/redirect?code=302")["target"])
    expect("POST", echo("POST", "/redirect?code=307", content=b"again")["method"])
    expect("GET", echo("POST", "/redirect?code=303", content=b"once")["method"])
    expect(b"unzipped", session.send("GET", "/gzip")[2])
    status, fields, body = session.send("GET", "/file", headers={"Range": "bytes=100-199"})
    expect((206, "bytes 100-199/1048576", 100), (status, fields["content-range"], len(body)))
    expect(304, session.send("GET", "/file", headers={"If-None-Match": '"one"'})[0])
    expect(204, session.send("GET", "/status?code=204")[0])
    expect(200_000, len(session.send("GET", "/bytes?n=200000&chunked=1")[2]))
    expect(b"0", session.send("GET", "/cookies")[2])
    expect(b"8000", session.send("GET", "/cookies")[2])
    for _ in range(200):
        echo("GET", "/echo")


def expect(wanted, got):
    if wanted != got:
        raise AssertionError(f"wanted {wanted}, got {got}")


def main():
    library, base, ca = sys.argv[1:]
    # No proxy of the machine's, whatever its environment says.
    os.environ["NO_PROXY"] = "*"
    libraries = {
        "requests": Requests,
        "httpx": Httpx,
        "httpx2": lambda base, ca: Httpx(base, ca, http2=True),
        "aiohttp": Aiohttp,
    }
    everything(libraries[library](base, ca))


if __name__ == "__main__":
    main()
