#!/usr/bin/env python3
"""Real clients and servers through Portunus, beside nginx and HAProxy doing the same. `./x verify clients` calls this, and `./x test` with `--packaged`.

Usage: tests/clients/run.py PORTUNUS TOOLS [--full|--peers|--packaged] [NAME...]

PORTUNUS is the program, TOOLS a folder where what is no Debian package is kept between runs. NAME is a row, or what rows begin
with. For each row one line on stdout: `test clients NAME ... ok`, `FAILED` or `skipped, REASON`; at the end one in cargo's form,
which `./x test` adds up. What went wrong goes to stderr.

What they serve, we serve: a row fails when Portunus fails what nginx or HAProxy does. Where none of the three does it, the row is
skipped and says so; where it fails without any proxy, the row itself is broken. The short form asks the others only when Portunus
fails, since nothing else changes the verdict; `--full` always asks all of them, and takes real time (about an hour). `--packaged` takes
the rows alone whose programs are Debian packages; they are never retried.

Real programs can be late by themselves: a row that fails is run once more, alone, after all others. If it passes then, it is counted
as passed and reported as `flaky`, on a line of its own.
"""

import argparse
import concurrent.futures
import os
import signal
import sys
import threading
import time
import traceback

import install
import stage
from rows import ROWS
from stage import Failed, Settings, Skip

import rows_access  # noqa: F401  (each adds its rows)
import rows_balancers  # noqa: F401
import rows_balancing  # noqa: F401
import rows_basic  # noqa: F401
import rows_browser  # noqa: F401
import rows_compression  # noqa: F401
import rows_contract  # noqa: F401
import rows_graphql  # noqa: F401
import rows_grpc  # noqa: F401
import rows_http  # noqa: F401
import rows_http3  # noqa: F401
import rows_http3_features  # noqa: F401
import rows_peers  # noqa: F401
import rows_streams  # noqa: F401
import rows_matrix  # noqa: F401

# Rows that wait for most of their time cost no processor, so more of them run at once than there are processors.
AT_ONCE = 10
# Seconds of the short form from which a row is one that waits.
LONG = 40


def main():
    arguments = parse()
    Settings.portunus = os.path.realpath(arguments.portunus)
    Settings.tools = os.path.realpath(arguments.tools)
    Settings.full = arguments.full
    Settings.peers = arguments.full or arguments.peers
    names = chosen(arguments.names)
    if arguments.packaged:
        names = [name for name in names if install.is_packaged(ROWS[name])]
    signal.signal(signal.SIGTERM, end)
    stage.make_folder()
    try:
        missing = install.wanted(Settings.tools, {tool for name in names for tool in ROWS[name].needs})
        stage.make_certificates()
        return verdicts(names, missing, repeats=not arguments.packaged)
    finally:
        stage.remove_folder()


def end(*_):
    """Without waiting for the rows that are under way; what they have started ends with this process."""
    stage.remove_folder()
    os._exit(143)


def parse():
    parser = argparse.ArgumentParser(description="real clients and servers through Portunus")
    parser.add_argument("portunus")
    parser.add_argument("tools")
    parser.add_argument("--full", action="store_true", help="real time: streams that are quiet for ten minutes, and the like")
    parser.add_argument("--peers", action="store_true", help="try nginx, HAProxy and no proxy even where Portunus passes")
    parser.add_argument("--packaged", action="store_true", help="the rows that need nothing but Debian packages")
    parser.add_argument("names", nargs="*", help="rows, or what rows begin with; all by default")
    return parser.parse_intermixed_args()


def chosen(wanted):
    for name in wanted:
        if not any(row.startswith(name) for row in ROWS):
            sys.exit(f"no row begins with {name}; there are: {' '.join(ROWS)}")
    return [row for row in ROWS if not wanted or any(row.startswith(name) for name in wanted)]


def verdicts(names, missing, repeats):
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    printing = threading.Lock()
    again = []

    def one(name, is_last=not repeats):
        begin = time.monotonic()
        word, detail = verdict(ROWS[name], missing)
        if word == "FAILED" and not is_last:
            again.append(name)
            print(f"{name} failed, and is run once more when it is alone:\n{detail}", file=sys.stderr, flush=True)
            return
        if name in again and word == "ok":
            print(f"flaky: clients {name} passed when it was run once more", flush=True)
        with printing:
            counts[word] += 1
            print(f"test clients {name} ... {word}{f', {detail}' if word == 'skipped' else ''}", flush=True)
            # What a row that failed says goes the way of its line, so that whoever reads the lines alone has the reason too.
            if word != "ok" or Settings.peers:
                print(f"---- {name}, after {time.monotonic() - begin:.0f} s ----\n{detail}", file=sys.stdout if word == "FAILED" else sys.stderr, flush=True)

    # Long ones first, so that none of them runs alone at the end.
    names = sorted(names, key=lambda name: -ROWS[name].seconds)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, names))
    for name in list(again):
        one(name, is_last=True)
    word = "FAILED" if counts["FAILED"] else "ok"
    print(f"test result: {word}. {counts['ok']} passed; {counts['FAILED']} failed; {counts['skipped']} ignored", flush=True)
    return 1 if counts["FAILED"] else 0


def verdict(row, missing):
    """The word and what is to be said with it."""
    if row.only_full and not Settings.full:
        return "skipped", "only with --full"
    for tool in row.needs:
        if tool in missing:
            return "skipped", missing[tool]
    # What waits for most of its time is tried in all ways at once, so that the full form takes no longer than its longest row.
    together = len(row.ways) if Settings.peers and row.seconds >= LONG else 1
    seen = {} if together > 1 else {"portunus": attempt(row, "portunus")}
    if Settings.peers or seen["portunus"] != "":
        ways = [way for way in row.ways if way not in seen]
        with concurrent.futures.ThreadPoolExecutor(together) as pool:
            seen.update(zip(ways, pool.map(lambda way: attempt(row, way), ways)))
    said = "; ".join(f"{way}: {'ok' if seen[way] == '' else seen[way]}" for way in seen)
    if isinstance(seen["portunus"], Skip):
        return "skipped", str(seen["portunus"])
    if seen["portunus"] == "":
        return "ok", said
    served = [way for way in ("nginx", "haproxy") if seen.get(way) == ""]
    if seen.get("direct", "") != "" or served or not {"nginx", "haproxy"} & set(row.ways):
        return "FAILED", said
    return "skipped", f"neither nginx nor HAProxy serves it either ({said})".replace("\n", " ")


def attempt(row, way):
    """Nothing, or what went wrong."""
    try:
        row.function(way)
        return ""
    except Skip as reason:
        return reason
    except Failed as failure:
        return str(failure)
    except Exception:  # a row that is itself broken must not look like one that passed
        return traceback.format_exc()


if __name__ == "__main__":
    sys.exit(main())
