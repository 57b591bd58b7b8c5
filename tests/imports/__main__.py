"""Random configurations of nginx and HAProxy, each beside what `portunus import` makes of it, on the same requests. `./x verify imports` calls this.

Usage: python3 tests/imports PORTUNUS [nginx|haproxy] [ROUNDS] [SEED]

A round is one file with some servers or frontends. What the original keeps out and the import lets in, or sends elsewhere, is a failure; what the import closes is
counted, since it says so. Printed is one line for each round, in cargo's form, with the seed that makes it again.
"""

import collections
import random
import shutil
import sys

import beside
import haproxy
import nginx

PROGRAMS = {"nginx": nginx, "haproxy": haproxy}
ROUNDS = 40


def main():
    portunus, words = sys.argv[1], sys.argv[2:]
    names = [word for word in words if word in PROGRAMS] or list(PROGRAMS)
    numbers = [int(word) for word in words if word.isdigit()]
    rounds = numbers[0] if numbers else ROUNDS
    first = numbers[1] if len(numbers) > 1 else random.SystemRandom().randrange(1 << 30)
    passed = failed = skipped = 0
    total = collections.Counter()
    with beside.upstreams() as upstreams:
        for name in names:
            if not shutil.which(name):
                print(f"test imports {name} ... ignored, {name} is not installed")
                skipped += 1
                continue
            for seed in range(first, first + rounds):
                counts, findings = beside.run(portunus, PROGRAMS[name], seed, upstreams)
                total.update(counts)
                is_good = not findings
                passed, failed = passed + is_good, failed + (not is_good)
                print(f"test imports {name} {seed} ... {'ok' if is_good else 'FAILED'}", flush=True)
                for finding in findings:
                    print(f"  {finding}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(total.items())))
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; {skipped} ignored")
    return 1 if failed else 0


sys.exit(main())
