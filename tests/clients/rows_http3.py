"""HTTP/3 by clients of many makes: aioquic (also with what no client should send), ngtcp2's with GnuTLS, curl with ngtcp2 and BoringSSL, quic-go, quinn with h3
and rustls, Chromium."""

import base64
import contextlib
import hashlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess

from proxies import Configured, keystores
from rows import row
from rows_access import App
from rows_http import Web
from stage import HERE, Failed, Process, Settings, ca, folder, free_port, make_client, pair, python, run, tool, until


def edge(web, tls=None, route=None, bind="127.0.0.1:0", place=None, words=(), by=(), **more):
    config = {
        **more,
        "listeners": [{"name": "https", "bind": bind, "tls": {"keystore": "main", **(tls or {})}, "http3": True}],
        "keystores": keystores(),
        "upstreams": {"app": {"servers": [f"127.0.0.1:{web.http}"]}},
        "routes": [{"upstream": "app", **(route or {})}],
    }
    return Configured(config, place or folder("http3"), *words, by=by)


def aioquic(script, scenario, proxy, *words):
    return [tool("http3/bin/python"), "-u", f"{HERE}/{script}.py", scenario, f"127.0.0.1:{proxy.ports['https']}", ca(), *words]


def only_http3(proxy):
    """What was logged is HTTP/3 and nothing else."""
    versions = until(lambda: {line.get("version") for line in proxy.requests() if line.get("kind") == "request"}, "the access log has no request")
    if versions != {"HTTP/3"}:
        raise Failed(f"the access log says {versions}")


def by_aioquic(scenario, *words, script="http3", seconds=120, **more):
    with Web() as web, edge(web, **more) as proxy:
        run(*aioquic(script, scenario, proxy, *words), seconds=seconds)
        only_http3(proxy)


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_aioquic(_):
    """Requests of all kinds, 60 at once, 200 in a row, a key update, another connection id."""
    by_aioquic("requests")


@row(ways=("portunus",), needs=("go", "http3"), seconds=30)
def http3_hostile(_):
    """Wrong frames, streams, settings and field sections, floods: the code of RFC 9114 for each, and others are served."""
    # Nothing comes back by itself, or a client on a slow machine would give up fewer requests a second than it may.
    by_aioquic("hostile", limits={"h2_failed_request_rate": 0})


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_leaving(_):
    """A client that never stops asking cannot put off the end of its connection."""
    by_aioquic("leaving", limits={"max_requests_per_connection": 5})


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_quiet(_):
    """A response that takes three times as long as a connection may be without packets."""
    by_aioquic("quiet", limits={"keep_alive_timeout": "2s"})


@row(ways=("portunus",), needs=("go", "http3"), seconds=5)
def http3_half_open(_):
    """Handshakes that one address begins and never ends."""
    by_aioquic("half_open", workers=1, limits={"handshake_timeout": "1m"})


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


@row(ways=("portunus",), needs=("go", "http3"), seconds=5)
def http3_websocket(_):
    """WebSockets on streams (RFC 9220)."""
    by_aioquic("websocket", route={"upgrades": ["websocket"]})


@row(ways=("portunus",), needs=("go", "http3"), seconds=3)
def http3_certificates(_):
    """Certificates of clients: required, taken, not asked for; a host under another rule is 421."""
    ours, strange = make_client("ours"), make_client("strange", is_ours=False)
    rule = lambda mode: {"ca": ca(), "mode": mode}
    names = [{"host": f"{mode}.example", "client_certificate": rule(mode)} for mode in ("required", "optional")]
    by_aioquic("certificates", ours, strange, script="http3_tls", tls={"names": names})


@row(ways=("portunus",), needs=("go", "http3"), seconds=2)
def http3_early(_):
    """Early data (0-RTT) of a client that sends it unasked."""
    by_aioquic("early", script="http3_tls")


# 25 clients shake hands at once, on a machine that does other things.
PATIENT = {"handshake_timeout": "60s"}


@row(ways=("portunus",), needs=("go", "http3"), seconds=20)
def http3_moving(_):
    """200 clients on four workers, each of which goes on from six other ports."""
    by_aioquic("moving", script="http3_packets", workers=4, limits=PATIENT)


@row(ways=("portunus",), needs=("go", "http3", "curl"), seconds=20)
def http3_unsteered(_):
    """The same on a kernel that does not steer datagrams: workers pass them to each other."""
    with Web() as web, edge(web, by=("python3", f"{HERE}/unsteered.py"), workers=4, limits=PATIENT, admin={"bind": f"127.0.0.1:{free_port()}"}) as proxy:
        proxy.wait_for("the kernel does not steer datagrams")
        run(*aioquic("http3_packets", "moving", proxy), seconds=120)
        only_http3(proxy)
        admin = re.search(r'"admin listening","address":"([0-9.:]+)"', proxy.said()).group(1)
        passed = 'portunus_datagrams_passed_total{listener="https"} '
        page = run("curl", "--silent", "--show-error", "--fail", "--noproxy", "*", f"http://{admin}/metrics")
        counted = [int(line.removeprefix(passed)) for line in page.splitlines() if line.startswith(passed)]
        if not counted or counted[0] < 100:
            raise Failed(f"{counted} datagrams were passed")


@row(ways=("portunus",), needs=("go", "http3"), seconds=30)
def http3_floods(_):
    """Frames of QUIC that a client sends again and again."""
    by_aioquic("floods", script="http3_packets", workers=1)


@row(ways=("portunus",), needs=("go", "http3"), seconds=5)
def http3_churn(_):
    """Streams that are opened for nothing."""
    # None comes back by itself: see `http3_hostile`.
    by_aioquic("churn", script="http3_packets", limits={"h2_control_frame_rate": 0})


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_attempts(_):
    """2,000 first packets of as many ports."""
    by_aioquic("attempts", script="http3_packets", workers=1, limits={"handshake_timeout": "2s"})


@contextlib.contextmanager
def while_under_way(proxy, ending, seconds=3):
    """Does what is within while requests are under way that take so long, and looks how those end."""
    with Process(*aioquic("http3", "under_way", proxy, ending, seconds), ready="under way") as client:
        yield
        if client.wait() != 0:
            raise Failed(client.said())


def reload(proxy, place, count, serves_http3):
    """The `count`th reload, to a listener with or without HTTP/3."""
    path = f"{place}/portunus.yaml"
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["listeners"][0]["http3"] = serves_http3
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    proxy.signal(signal.SIGHUP)
    until(lambda: proxy.said().count('"reloaded"') == count, "no reload", proxy.said)


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_reload(_):
    """A reload concerns nobody. One that takes HTTP/3 from the listener sends clients away once they have what is under way; the next one gives it back."""
    place = folder("http3")
    with Web() as web, edge(web, place=place, words=("--no-watch",), workers=2) as proxy:
        with while_under_way(proxy, "served"):
            reload(proxy, place, 1, True)
        with while_under_way(proxy, "leaving"):
            reload(proxy, place, 2, False)
        reload(proxy, place, 3, True)
        with while_under_way(proxy, "served"):
            pass


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_taken_away(_):
    """Whoever stays where HTTP/3 was taken away is cut off after `drain_timeout`, and the address is free."""
    place = folder("http3")
    with Web() as web, edge(web, place=place, words=("--no-watch",), workers=2, limits={"drain_timeout": "1s"}) as proxy:
        port = proxy.ports["https"]
        with while_under_way(proxy, "cut off"):
            reload(proxy, place, 1, False)

        def is_free():
            with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                one.bind(("127.0.0.1", port))
                return True

        until(is_free, "the address stays taken")
        reload(proxy, place, 2, True)
        run(*aioquic("http3", "requests", proxy), seconds=60)


@row(ways=("portunus",), needs=("go", "http3"), seconds=5)
def http3_shutdown(_):
    """SIGTERM: what is under way is served, and the program ends."""
    with Web() as web, edge(web) as proxy:
        with while_under_way(proxy, "leaving"):
            proxy.signal(signal.SIGTERM)
        if proxy.wait() != 0:
            raise Failed(proxy.said())


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_upgrade_to_more_workers(_):
    """`portunus upgrade` to a configuration with more workers, and with fewer: packets of older connections come to other sockets than before, and all are served."""
    control, place = f"{folder('control')}/socket", folder("http3")
    with Web() as web, edge(web, place=place, words=("--control", control, "--no-watch"), workers=2) as proxy, contextlib.ExitStack() as stack:
        for workers in (5, 3):
            path = f"{place}/portunus.yaml"
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**config, "workers": workers}, file)
            with contextlib.ExitStack() as clients:
                # The last one is served when the worker of the others has nothing left to do.
                for seconds in (0.5, 0.5, 0.5, 0.5, 4):
                    clients.enter_context(while_under_way(proxy, "handed over", seconds))
                said = run(Settings.portunus, "upgrade", "--control", control, seconds=60)
                # It is no child of ours.
                stack.callback(end_process, int(said.split()[2]))


@row(ways=("portunus",), needs=("go", "http3"), seconds=10)
def http3_upgrade(_):
    """Two `portunus upgrade` in a row: what is under way is served by the process that it began in, and new connections are the new one's."""
    control = f"{folder('control')}/socket"
    with Web() as web, edge(web, words=("--control", control), workers=2) as proxy, contextlib.ExitStack() as stack:
        with while_under_way(proxy, "handed over"), while_under_way(proxy, "handed over"):
            for _ in range(2):
                said = run(Settings.portunus, "upgrade", "--control", control, seconds=60)
                # It is no child of ours.
                stack.callback(end_process, int(said.split()[2]))


def end_process(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@row(ways=("portunus",), needs=("go", "http3"), seconds=5)
def http3_forgotten(_):
    """The program is killed and started again with the secrets that it kept: a client of before learns at once that its connection is gone."""
    place, bind = folder("http3"), f"127.0.0.1:{free_port()}"
    more = {"bind": bind, "place": place, "ticket_keys": f"{place}/secrets", "workers": 2}
    with Web() as web:
        with edge(web, **more) as proxy:
            until(lambda: os.path.exists(f"{place}/secrets"), "nothing is kept")
            client = Process(*aioquic("http3_packets", "forgotten", proxy), ready="connected")
        with client, edge(web, **more):
            client.signal(signal.SIGUSR1)
            if client.wait() != 0:
                raise Failed(client.said())


@row(ways=("portunus",), needs=("go", "quic_go"), seconds=5)
def http3_go(_):
    """quic-go: every method, uploads, trailers, hints, a ticket, 100 at once, 300 in a row."""
    with Web() as web, edge(web) as proxy:
        run(tool("quic-go/http3-client"), f"https://localhost:{proxy.ports['https']}", ca(), seconds=60)
        only_http3(proxy)


@row(ways=("portunus",), needs=("go", "quic_go"), seconds=5)
def http3_ech(_):
    """quic-go with Encrypted Client Hello: what can be seen on the way names the public name alone, and the inner hello is served."""
    place = folder("http3")
    said = run(Settings.portunus, "ech", "rotate", f"{place}/ech.pem", "--public-name", "cover.example", "--name", "localhost")
    keys = re.search(r'ech="([A-Za-z0-9+/=]+)"', said).group(1)
    with Web() as web, edge(web, place=place, ech_keys=f"{place}/ech.pem") as proxy:
        run(tool("quic-go/http3-client"), f"https://localhost:{proxy.ports['https']}", ca(), "ech", keys, seconds=60)
        only_http3(proxy)
        hidden = {(line["tls"].get("ech"), line["tls"]["server_name"]) for line in proxy.requests() if line.get("kind") == "request"}
        if hidden != {(True, "localhost")}:
            raise Failed(f"the access log says {hidden}")


@row(ways=("portunus",), needs=("go", "quinn"), seconds=5)
def http3_quinn(_):
    """quinn with h3: every method, an upload, trailers, one that is given up, a move, 100 at once, 300 in a row; and all of it again with a ticket."""
    with Web() as web, edge(web) as proxy:
        run(tool("quinn/release/http3-client"), proxy.ports["https"], ca(), seconds=60)
        only_http3(proxy)
        resumed = {line["tls"]["resumed"] for line in proxy.requests() if line.get("kind") == "request"}
        if resumed != {False, True}:
            raise Failed(f"resumed: {resumed}")


@row(ways=("portunus",), needs=("go", "quic_go"), seconds=10)
def http3_lossy(_):
    """quic-go where 5 % of the packets are lost both ways and others come late: 10,000 requests."""
    with Web() as web, edge(web, workers=2) as proxy:
        run(tool("quic-go/http3-client"), f"https://localhost:{proxy.ports['https']}", ca(), "lossy", 10_000, seconds=240)
        only_http3(proxy)


def digest_of_key():
    """As Chromium has it."""
    key = run("openssl", "x509", "-in", pair(), "-noout", "-pubkey")
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key.encode(), capture_output=True, check=True).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def chromium_row(scenario, *numbers):
    def scene(_):
        with Web() as web, edge(web, route={"upgrades": ["websocket"], "max_body": "1GiB"}) as proxy:
            url = f"https://localhost:{proxy.ports['https']}"
            run(*python(f"{HERE}/browser.py", scenario, url, *numbers), seconds=60, env={"HTTP3_KEY": digest_of_key()})
            only_http3(proxy)

    scene.__name__ = f"http3_chromium_{scenario}"
    row(ways=("portunus",), needs=("go", "python", "chromium"), seconds=6)(scene)


chromium_row("page")
chromium_row("assets", 200)
chromium_row("download", 100)
chromium_row("upload", 100)


@row(ways=("portunus",), needs=("go", "http3", "chromium"), seconds=6)
def http3_demo(_):
    """What `more.txt` of `portunus demo` has for HTTP/3: the line for Chromium as it is, that for curl by curl's library, which Debian's curl is without."""
    ports = {name: free_port() for name in ("https", "http", "tunnel", "keyless", "admin", "key-server")}
    place = folder("demo")
    with App(lambda request: (200, {"Content-Type": "text/plain"}, str(request.headers).encode())) as web:
        options = [word for name, port in ports.items() for word in (f"--{name}-port", port)]
        run(Settings.portunus, "demo", "--dir", f"{place}/demo", "--prepare-only", "--upstream", f"127.0.0.1:{web.port}", *options)
        with open(f"{place}/demo/more.txt") as file:
            more = file.read()
        lines = {program: next(line for line in more.splitlines() if line.startswith(program) and wanted in line)
                 for program, wanted in (("curl", "--http3"), ("chromium", "--origin-to-force-quic-on"))}
        with Process(Settings.portunus, "run", f"{place}/demo/portunus.yaml", env={"PORTUNUS_CONTROL": "none"}) as proxy:
            proxy.wait_for('"listening","listener":"https"')
            page = run("sh", "-c", f"cd {place}/demo && {lines['chromium']} --headless --no-sandbox --disable-gpu --no-proxy-server --dump-dom", seconds=60)
            words = shlex.split(lines["curl"])
            by_curl = run(tool("http3/bin/python"), "-u", f"{HERE}/http3_curl.py", words[-1], f"{place}/demo/" + words[words.index("--cacert") + 1], words[words.index("--resolve") + 1], seconds=60)
            for text in (page, by_curl):
                # Of fields of the request, as the application saw it.
                if "Via: 3 " not in text:
                    raise Failed(text)
