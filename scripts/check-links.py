#!/usr/bin/env python3
"""Checks the links of all Markdown pages: files, headings, and that pages in docs/ are listed in docs/SUMMARY.md.

    scripts/check-links.py     exit with 1 if a link is broken

Pages in docs/ are also a site (`make site`), so they link to each other only; other files are named in code font.
Addresses on the Internet are not fetched.
"""

from __future__ import annotations

import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages() -> list[str]:
    found = [name for name in sorted(os.listdir(ROOT)) if name.endswith(".md")]
    for folder in ("docs", "experiments", "python", "web"):
        for directory, below, files in os.walk(os.path.join(ROOT, folder)):
            below[:] = sorted(name for name in below if name not in ("node_modules", "target"))
            found += [os.path.relpath(os.path.join(directory, name), ROOT) for name in sorted(files) if name.endswith(".md")]
    return found


def text_of(page: str) -> str:
    """Reads a page without its code blocks."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return re.sub(r"(?ms)^ *(```|~~~).*?^ *\1 *$", "", file.read())


def anchors(page: str) -> set[str]:
    """Returns the anchors that a page's headings get, as GitHub and mdBook make them."""
    found: set[str] = set()
    for heading in re.findall(r"(?m)^#+ +(.*?) *#*$", text_of(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number, unique = 0, anchor
        while unique in found:
            number += 1
            unique = f"{anchor}-{number}"
        found.add(unique)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text_of(page)))


def problems(page: str) -> list[str]:
    found = []
    for target in LINK.findall(re.sub(r"`[^`]*`", "", text_of(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(ROOT, full)):
            found.append(f"{page}: {target}: there is no {full}")
        elif page.startswith("docs/") and not full.startswith("docs/"):
            found.append(f"{page}: {target}: outside of docs/, so the site does not have it")
        elif anchor and full.endswith(".md") and anchor not in anchors(full):
            found.append(f"{page}: {target}: {full} has no heading with this anchor")
    return found


def main() -> int:
    if sys.argv[1:]:
        print(__doc__.strip())
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    every = pages()
    found = [problem for page in every for problem in problems(page)]
    listed = {os.path.normpath(os.path.join("docs", target)) for target in LINK.findall(text_of("docs/SUMMARY.md"))}
    found += [f"{page}: not listed in docs/SUMMARY.md" for page in every
              if page.startswith("docs/") and page != "docs/SUMMARY.md" and page not in listed]
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
