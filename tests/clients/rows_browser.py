"""Chromium: pages, maps, event streams, WebSockets, large files, odd URLs."""

from proxies import start
from rows import row
from rows_http import Web, url
from stage import HERE, Settings, python, run


def browser_row(name, short=(), full=(), seconds=5):
    """A row of one scenario of browser.py."""

    def scene(way):
        numbers = full if Settings.full else short
        with Web() as web, start(way, [web]) as edge:
            run(*python(f"{HERE}/browser.py", name, url(edge), *numbers), seconds=900 if Settings.full else 60)

    scene.__name__ = f"chromium_{name}"
    row(needs=("go", "python", "chromium"), seconds=seconds)(scene)


browser_row("assets", (200,), (200,))
browser_row("tiles", (100, 3), (100, 20), seconds=10)
browser_row("events", (100, 50), (600, 1000), seconds=8)
browser_row("socket", (300, 10), (600, 1000), seconds=8)
browser_row("download", (200,), (2000,), seconds=8)
browser_row("upload", (200,), (2000,), seconds=8)
browser_row("urls")
browser_row("cookies")
browser_row("page")
