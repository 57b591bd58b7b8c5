"""What the rows need that is no Debian package: programs of ours in Go, and Python packages. Kept in the TOOLS folder."""

import os
import shutil
import subprocess

from stage import HERE, Failed, run

PYTHON_PACKAGES = ["grpcio==1.85.1", "requests==2.34.2", "httpx[http2]==0.28.1", "aiohttp==3.14.5", "gunicorn==27.0.1", "uvicorn==0.54.0"]


def everything(tools):
    """Installs what is missing; what could not be had, with the reason."""
    os.makedirs(tools, exist_ok=True)
    missing = {}
    for name, install in (("go", go), ("python", python)):
        try:
            install(tools)
        except (Failed, OSError, subprocess.SubprocessError) as failure:
            missing[name] = f"could not install what it needs: {str(failure).splitlines()[-1]}"
    for name, program, package in PROGRAMS:
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            missing[name] = f"{program} is not installed (Debian package {package})"
    return missing


# Name in `needs`, program, Debian package.
PROGRAMS = [
    ("nginx", "nginx", "nginx"),
    ("haproxy", "haproxy", "haproxy"),
    ("chromium", "chromium", "chromium"),
    ("curl", "curl", "curl"),
    ("wget", "wget", "wget"),
    ("node", "node", "nodejs"),
    # Compiles the one file that it runs, so the runtime alone does not do.
    ("java", "javac", "default-jdk-headless"),
]


def go(tools):
    if not shutil.which("go"):
        raise Failed("no go to build with (Debian package golang-go)")
    # Always: what has not changed is not built again. Versions are pinned to those that an older Go can build.
    run("go", "build", "-o", os.path.join(tools, "bin") + "/", "./...", seconds=900, cwd=os.path.join(HERE, "go"))


def python(tools):
    place = os.path.join(tools, "python")
    wanted = "\n".join(PYTHON_PACKAGES)
    stamp = os.path.join(place, "installed")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == wanted:
                return
    run("python3", "-m", "venv", place, seconds=300)
    run(os.path.join(place, "bin", "pip"), "install", "--quiet", *PYTHON_PACKAGES, seconds=900)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)
