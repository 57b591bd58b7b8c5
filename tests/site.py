"""Completes the site that mdBook built, and checks its links: site.py SITE.

Pages of docs/ link to files beside docs/, which work in the repository as they stand. So these files lie beside the site too, and links to
Markdown among them, which mdBook takes for pages of its own, lead to the text. Prints a line as `cargo test` does.
"""

import os
import re
import shutil
import sys

LINK = re.compile(r'(href|src)="([^"]*)"')


def local(link):
    return link and not re.match(r"[a-z]+:|//", link)


def complete(site, root):
    """Copies what pages link to outside of docs/; returns the pages with their text."""
    folder = os.path.join(site, "docs")
    pages = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".html"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()

        def target(match):
            link, _, anchor = match.group(2).partition("#")
            if not local(link) or not link.startswith("../"):
                return match.group(0)
            source = link
            if link.endswith(".html") and not os.path.exists(os.path.join(root, "docs", link)):
                source = link.removesuffix(".html") + ".md"
            there = os.path.normpath(os.path.join(root, "docs", source))
            copy = os.path.normpath(os.path.join(folder, source))
            if os.path.isdir(there):
                shutil.copytree(there, copy, dirs_exist_ok=True)
            elif os.path.exists(there):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy(there, copy)
            return f'{match.group(1)}="{source}{"#" + anchor if anchor else ""}"'

        text = LINK.sub(target, text)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        pages[name] = text
    return pages


def broken(site, pages):
    for name, text in pages.items():
        for _, link in LINK.findall(text):
            if not local(link):
                continue
            path, _, anchor = link.partition("#")
            path = path or name
            if not os.path.exists(os.path.join(site, "docs", path)):
                yield f"{name}: {link}: no such file"
            elif anchor and path in pages and f'id="{anchor}"' not in pages[path]:
                yield f"{name}: {link}: no such heading"


def main():
    site = sys.argv[1]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    pages = complete(site, root)
    problems = list(broken(site, pages))
    for problem in problems:
        print(problem)
    ok = not problems and len(pages) > 20
    print(f"test result: {'ok' if ok else 'FAILED'}. {int(ok)} passed; {int(not ok)} failed; 0 ignored; {len(pages)} pages of the site")
    sys.exit(0 if ok else 1)


main()
