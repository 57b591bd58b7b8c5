"""HTTP/3 by clients of many makes: aioquic (also with what no client should send), ngtcp2's with GnuTLS, curl with ngtcp2 and BoringSSL."""

from proxies import Configured, keystores
from rows import row
from rows_http import Web
from stage import HERE, Failed, ca, folder, run, tool


def edge(web, **more):
    config = {
        **more,
        "listeners": [{"name": "https", "bind": "127.0.0.1:0", "tls": {"keystore": "main"}, "http3": True}],
        "keystores": keystores(),
        "upstreams": {"app": {"servers": [f"127.0.0.1:{web.http}"]}},
        "routes": [{"upstream": "app"}],
    }
    return Configured(config, folder("http3"))


def by_aioquic(scenario, **more):
    with Web() as web, edge(web, **more) as proxy:
        address = f"127.0.0.1:{proxy.ports['https']}"
        run(tool("http3/bin/python"), "-u", f"{HERE}/http3.py", scenario, address, ca(), seconds=120)
        versions = {line.get("version") for line in proxy.requests() if line.get("kind") == "request"}
        if versions != {"HTTP/3"}:
            raise Failed(f"the access log says {versions}")


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_aioquic(_):
    """Requests of all kinds, 60 at once, 200 in a row, a key update, another connection id."""
    by_aioquic("requests")


@row(ways=("portunus",), needs=("go", "http3"), seconds=30)
def http3_hostile(_):
    """Wrong frames, streams, settings and field sections, floods: the code of RFC 9114 for each, and others are served."""
    by_aioquic("hostile")


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_leaving(_):
    """A client that never stops asking cannot put off the end of its connection."""
    by_aioquic("leaving", limits={"max_requests_per_connection": 5})


@row(ways=("portunus",), needs=("go", "http3"), seconds=5)
def http3_curl(_):
    """curl's library as Chrome and as itself."""
    with Web() as web, edge(web) as proxy:
        url = f"https://localhost:{proxy.ports['https']}"
        run(tool("http3/bin/python"), "-u", f"{HERE}/http3_curl.py", url, ca(), seconds=60, env={"NO_PROXY": "*", "no_proxy": "*"})


@row(ways=("portunus",), needs=("go", "gtlsclient"), seconds=2)
def http3_ngtcp2(_):
    """ngtcp2's own client, over GnuTLS."""
    with Web() as web, edge(web) as proxy:
        port = proxy.ports["https"]
        place = folder("gtlsclient")
        said = run("gtlsclient", "--exit-on-all-streams-close", f"--download={place}", "127.0.0.1", port, f"https://localhost:{port}/echo", seconds=30)
        with open(f"{place}/echo", encoding="utf-8") as file:
            content = file.read()
        if "[:status: 200]" not in said or '"target":"/echo"' not in content:
            raise Failed(f"{content}\n{said[-2000:]}")
