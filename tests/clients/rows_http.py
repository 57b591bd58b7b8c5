"""HTTP clients of many makes: methods, forms, uploads of unknown length, Expect, redirects, codings, ranges, cookies, reuse."""

import json
import os

from proxies import start
from rows import row
from stage import HERE, Failed, Process, ca, folder, pair, python, run, tool


class Web(Process):
    """The web application."""

    def __init__(self, root=None):
        more = ["-root", root] if root else []
        super().__init__(tool("bin/web-server"), "-certificate", pair(), *more, ready="listening ")
        self.http, self.https = (int(address.rsplit(":", 1)[1]) for address in self.ready_line.split()[1:])


def client_row(name, needs, words, seconds=5):
    """A row of a client that does all by itself. `words` makes its command line from the edge."""

    def scene(way):
        with Web() as web, start(way, [web]) as edge:
            # No proxy of the machine's, whatever its environment says.
            run(*words(edge), seconds=60, env={"NO_PROXY": "*", "no_proxy": "*", "NODE_EXTRA_CA_CERTS": ca()})

    scene.__name__ = name
    row(needs=needs, seconds=seconds)(scene)


def url(edge):
    return f"https://localhost:{edge.https}"


client_row("http_go", ("go",), lambda edge: [tool("bin/web-client"), url(edge), ca()])
client_row("http_go_trailers", ("go",), lambda edge: [tool("bin/web-client"), url(edge), ca(), "trailers"])
client_row("http_go_early_hints", ("go",), lambda edge: [tool("bin/web-client"), url(edge), ca(), "hints"])
for library in ("requests", "httpx", "httpx2", "aiohttp"):
    client_row(
        f"http_python_{library}",
        ("go", "python"),
        lambda edge, library=library: python(f"{HERE}/http_client.py", library, url(edge), ca()),
    )
client_row("http_node", ("go", "node"), lambda edge: ["node", f"{HERE}/fetch.mjs", url(edge)])
client_row("http_java", ("go", "java"), lambda edge: ["java", f"{HERE}/Fetch.java", url(edge), ca()], seconds=15)


def curl(edge, *words):
    # `localhost` may have an IPv6 address, where nobody listens.
    return run("curl", "--silent", "--show-error", "--noproxy", "*", "--ipv4", "--cacert", ca(), "--max-time", 60, *words)


def expect(wanted, got):
    if wanted != got:
        raise Failed(f"wanted {wanted!r}, got {got!r}")


@row(needs=("go", "curl"), seconds=5)
def http_curl(way):
    place = folder("curl")
    big = os.path.join(place, "big")
    with open(big, "wb") as file:
        file.write(os.urandom(3_000_000))
    with Web() as web, start(way, [web]) as edge:
        for version in ("--http1.1", "--http2"):

            def get(target, *words, version=version):
                return curl(edge, version, *words, url(edge) + target)

            def echo(target, *words, version=version):
                return json.loads(curl(edge, version, *words, url(edge) + target))

            for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
                expect(method, echo("/echo?a=1&b=%20", "--request", method)["method"])
            expect(True, "content-length: 1048576" in get("/file", "--head").lower())
            expect(len("name=%C3%A4+b"), echo("/echo", "--data", "name=%C3%A4+b")["length"])
            # Longer than 1 MiB: curl waits for 100 over HTTP/1.1.
            expect(3_000_000, echo("/echo", "--data-binary", f"@{big}")["length"])
            expect(3_000_000, echo("/echo", "--upload-file", big, "--header", "Expect: 100-continue")["length"])
            expect(3_000_000, echo("/echo", "--upload-file", big, "--header", "Transfer-Encoding: chunked")["length"])
            expect(True, echo("/echo", "--form", f"photo=@{big}", "--form", "note=text")["length"] > 3_000_000)
            expect("/echo?redirected", echo("/redirect?code=302", "--location")["target"])
            expect("unzipped", get("/gzip", "--compressed"))
            expect("206 100", get("/file", "--range", "100-199", "--output", "/dev/null", "--write-out", "%{http_code} %{size_download}"))
            expect("304", get("/file", "--header", 'If-None-Match: "one"', "--output", "/dev/null", "--write-out", "%{http_code}"))
            expect("204", get("/status?code=204", "--write-out", "%{http_code}"))
            again = [word for _ in range(50) for word in (url(edge) + "/echo", "--output", "/dev/null")]
            expect("1" + "0" * 50, get("/echo", "--output", "/dev/null", *again, "--write-out", "%{num_connects}"))


@row(needs=("go", "curl"), seconds=1)
def http_1_0(way):
    """Over plain text and TLS, with and without keep-alive."""
    with Web() as web, start(way, [web]) as edge:
        for base in (url(edge), f"http://localhost:{edge.http}"):
            expect("GET", json.loads(curl(edge, "--http1.0", base + "/echo"))["method"])
            kept = ["--http1.0", "--header", "Connection: keep-alive"]
            expect("GET", json.loads(curl(edge, *kept, base + "/echo"))["method"])
            expect(200_000, len(curl_bytes(edge, "--http1.0", base + "/bytes?n=200000&chunked=1")))


def curl_bytes(edge, *words):
    path = os.path.join(folder("curl"), "out")
    curl(edge, "--output", path, *words)
    with open(path, "rb") as file:
        return file.read()


@row(needs=("go", "wget"), seconds=2)
def http_wget(way):
    place = folder("wget")
    with Web() as web, start(way, [web]) as edge:
        wget = ["wget", "--quiet", "--no-proxy", "--inet4-only", "--tries=1", f"--ca-certificate={ca()}", "--no-hsts"]
        out = os.path.join(place, "file")
        run(*wget, "-O", out, url(edge) + "/file")
        with open(out, "rb") as file:
            whole = file.read()
        expect(1 << 20, len(whole))
        # Resumed after half of it.
        with open(out, "wb") as file:
            file.write(whole[: 1 << 19])
        run(*wget, "--continue", "-O", out, url(edge) + "/file")
        with open(out, "rb") as file:
            expect(True, file.read() == whole)
        expect("POST", json.loads(run(*wget, "-O", "-", "--post-data=a=b", url(edge) + "/echo"))["method"])
        run(*wget, "-O", "/dev/null", url(edge) + "/redirect?code=302")
