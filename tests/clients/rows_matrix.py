"""docs/users-matrix.md and the rows belong together."""

import fnmatch
import os
import re

from rows import ROWS, row
from stage import HERE, Failed


@row(ways=("portunus",))
def users_matrix(_):
    """Each row has its place in the matrix, and each row that the matrix names exists."""
    named = set()
    with open(os.path.join(HERE, "../../docs/users-matrix.md"), encoding="utf-8") as file:
        for line in file:
            if re.match(r"\| \d+ \|", line):
                named |= set(re.findall(r"`([a-z0-9_]+\*?)`", line.rsplit("|", 2)[1]))
    without = [name for name in ROWS if name != "users_matrix" and not any(fnmatch.fnmatch(name, pattern) for pattern in named)]
    unknown = [pattern for pattern in named if not fnmatch.filter(ROWS, pattern)]
    if without or unknown:
        raise Failed(f"not in docs/users-matrix.md: {without}; named there and not here: {unknown}")
