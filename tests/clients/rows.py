"""The list of rows. A row is a function that takes the way its traffic goes; it raises `Failed`, or `Skip` with a reason."""

ROWS = {}


class Row:
    def __init__(self, function, ways, needs, seconds, only_full):
        self.name = function.__name__
        self.function = function
        self.ways = ways
        self.needs = needs
        self.seconds = seconds
        self.only_full = only_full


def row(ways=("portunus", "nginx", "haproxy", "direct"), needs=(), seconds=0, only_full=False):
    """`ways`: who can do it. `needs`: what install.py brings. `seconds`: about how long it takes; long ones begin first."""

    def add(function):
        ROWS[function.__name__] = Row(function, ways, needs, seconds, only_full)
        return function

    return add
