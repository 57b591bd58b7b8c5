"""What the rows stand on: programs that are started and ended, free ports, certificates, a folder that goes away again."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

# Generous, since machines are slow: a wait that ends here is a failure, never a measurement.
PATIENCE = 60

HERE = os.path.dirname(os.path.abspath(__file__))


class Failed(Exception):
    """The row did not get what it should have."""


class Skip(Exception):
    """The row cannot be tried here; the reason."""


class Settings:
    """Set once by the runner."""

    portunus = ""
    tools = ""
    full = False
    peers = False
    folder = ""


def tool(name):
    return os.path.join(Settings.tools, name)


def python(*arguments):
    """Words that run a program of ours with the packages of the TOOLS folder."""
    return [tool("python/bin/python"), "-u", *arguments]


class Process:
    """A program with its output in a file. Ends with the `with` that it is in, at the latest with the runner."""

    def __init__(self, *words, ready=None, env=None, ending=signal.SIGKILL):
        self.words = [str(word) for word in words]
        self.ending = ending
        self.log = tempfile.NamedTemporaryFile(dir=Settings.folder, suffix=".log", delete=False).name
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Settings.folder,
                env={**os.environ, **(env or {})},
            )
        if ready:
            try:
                self.ready_line = self.wait_for(ready)
            except BaseException:
                self.end()
                raise

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_for(self, text):
        """The first line that holds the text."""

        def line():
            for line in self.said().splitlines():
                if text in line:
                    return line
            if self.child.poll() is not None:
                raise Failed(f"{self.words[0]} ended: {self.said()}")
            return None

        return until(line, f"{self.words[0]} did not say {text!r}", self.said)

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, seconds=PATIENCE):
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.words[0]} did not end") from None

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(self.ending)
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def until(look, complaint, detail=lambda: ""):
    """Looks again and again until there is something to see."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise Failed(f"{complaint} {detail()}")


def run(*words, seconds=0, env=None, stdin=None, cwd=None):
    """Runs a client to its end; its output. Fails when the client does, or takes longer than that and `PATIENCE`."""
    try:
        done = subprocess.run(
            # Ends with the runner, however that ends.
            ["setpriv", "--pdeathsig", "TERM", *(str(word) for word in words)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd or Settings.folder,
            env={**os.environ, **(env or {})},
            timeout=seconds + PATIENCE,
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(f"no end after {late.timeout} s: {text_of(late.stdout)}") from None
    said = text_of(done.stdout)
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {ends_of(said)}")
    return said


def ends_of(said):
    """The beginning and the end, where the reason stands."""
    return said if len(said) <= 4000 else f"{said[:2000]}\n[...]\n{said[-2000:]}"


def text_of(output):
    return (output or b"").decode("utf-8", "replace").strip()


_ports = threading.Lock()
_given = set()


def free_port():
    """For programs that cannot say which port they were given. Below the ports that the kernel gives out by itself."""
    with _ports:
        while True:
            port = random.randrange(15000, 32000)
            if port in _given:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            _given.add(port)
            return port


def until_connectable(port, process):
    def connects():
        if process.child.poll() is not None:
            raise Failed(f"{process.words[0]} ended: {process.said()}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(connects, f"{process.words[0]} does not listen", process.said)


def folder(name):
    """A new folder within the runner's."""
    return tempfile.mkdtemp(prefix=f"{name}-", dir=Settings.folder)


def ca():
    return os.path.join(Settings.folder, "ca.pem")


def pair():
    """Certificate and key of `localhost` and `*.example`, in one file."""
    return os.path.join(Settings.folder, "keys", "edge.pem")


EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]


def make_certificates():
    keys = os.path.join(Settings.folder, "keys")
    os.mkdir(keys)
    ca_key = os.path.join(Settings.folder, "ca.key")
    run("openssl", "req", "-x509", *EC, "-days", 90, "-subj", "/CN=Clients' CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        "-keyout", ca_key, "-out", ca())
    run("openssl", "req", "-x509", *EC, "-days", 89, "-subj", "/CN=localhost", "-CA", ca(), "-CAkey", ca_key,
        "-addext", "subjectAltName=DNS:localhost,DNS:*.example,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
        "-addext", "keyUsage=critical,digitalSignature", "-addext", "extendedKeyUsage=serverAuth",
        "-keyout", pair() + ".key", "-out", pair() + ".chain")
    join_pair(pair())


def make_client(name, is_ours=True):
    """Certificate and key of a client in one file; by its own signature alone if it `is_ours` not."""
    path = os.path.join(folder("client"), f"{name}.pem")
    signed = ["-CA", ca(), "-CAkey", os.path.join(Settings.folder, "ca.key")] if is_ours else []
    run("openssl", "req", "-x509", *EC, "-days", 89, "-subj", f"/CN={name}", *signed, "-addext", f"subjectAltName=DNS:{name}.client",
        "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=clientAuth", "-keyout", path + ".key", "-out", path + ".chain")
    join_pair(path)
    return path


def join_pair(path):
    with open(path, "wb") as both:
        for part in (".chain", ".key"):
            with open(path + part, "rb") as one:
                both.write(one.read())
            os.remove(path + part)


def make_folder():
    Settings.folder = tempfile.mkdtemp(prefix="clients-")


def remove_folder():
    shutil.rmtree(Settings.folder, ignore_errors=True)
